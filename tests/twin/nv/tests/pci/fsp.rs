//! Starts by the FSP of Hopper and Blackwell, by the order of the vendor's driver, and each mistake on the way.

use std::cell::RefCell;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::class::{ChannelGroupAlloc, VaspaceAlloc};
use hcq::mem::window::AccessWidth;
use hcq::transport::{Dma, Pci, ResetKind};
use twin::fires::fires;
use twin_nv::pci::card::{Before, Config};
use twin_nv::pci::chip::{Chip, Fsp};
use twin_nv::pci::wait::Wait;

use super::boot::{Boot, bytes, words};
use super::channels;
use super::client::{self, CLIENT, DEVICE, SPACE, SUBDEVICE};
use super::firmware::Firmware;
use super::rig::{BARS, GSP, Rig, bytes_of};

const CHIPS: [&str; 2] = ["gh100", "gb202"];
const VERSION: &str = "570.144";
const MIB: u64 = 1 << 20;

const EMEMC: u64 = 0x8f_2ac0;
const EMEMD: u64 = 0x8f_2ac4;
const HEAD: u64 = 0x8f_2c00;
const TAIL: u64 = 0x8f_2c04;
const MESSAGE_HEAD: u64 = 0x8f_2c80;
const MESSAGE_TAIL: u64 = 0x8f_2c84;
/// HWCFG2, MAILBOX0 and the RISC-V core's CPUCTL of GSP.
const HWCFG2: u64 = GSP + 0xf4;
const MAILBOX0: u64 = GSP + 0x40;
const RISCV: u64 = GSP + 0x1388;
const WPR2_HI: u64 = 0x1f_a828;

/// Headers of a message of one packet.
const SINGLE: u32 = 0xc000_0000;
const COT: u32 = 0x1410_de7e;

/// A card, and what FSP is told of it.
struct Start {
    boot: Boot,
    fmc: Dma,
    arguments: Dma,
    /// The payload of the chain of trust.
    payload: RefCell<Vec<u8>>,
}

fn facts(chip: &Chip) -> &Fsp {
    chip.fsp.as_ref().unwrap()
}

impl Start {
    fn new(chip: &str) -> Start {
        let chip = Chip::of(chip).unwrap();
        Start::with(Config::of(chip), Firmware::small_for(chip, VERSION))
    }

    fn with(config: Config, firmware: Firmware) -> Start {
        Start::of(Boot::with(config, firmware))
    }

    /// Of a card on which all but that is prepared.
    fn of(boot: Boot) -> Start {
        let start = Start {
            fmc: boot.rig.memory(&boot.firmware.fmc.image),
            arguments: boot.rig.memory(&[0; 0x50]),
            payload: RefCell::new(vec![0; 0x35c]),
            boot,
        };
        let put = |at: usize, value: u64| start.arguments.view.write(at, value).unwrap();
        put(8, 1 | 0x100 << 32);
        put(0x10, bytes_of(&start.boot.meta));
        // bIsGspRmBoot.
        put(0x20, 1 << 32);
        put(0x28, 2);
        put(0x30, bytes_of(&start.boot.libos));
        let fsp = facts(start.boot.rig.chip);
        let behind = (fsp.reserved + u64::from(fsp.pmu)).next_multiple_of(2 * MIB);
        let fmc = start.boot.firmware.fmc.clone();
        start.put(0, &fsp.cot_version.to_le_bytes());
        start.put(2, &0x35c_u16.to_le_bytes());
        start.put(4, &bytes_of(&start.fmc).to_le_bytes());
        start.put(0x18, &behind.to_le_bytes());
        start.put(0x20, &0x10_0000_u32.to_le_bytes());
        start.put(0x24, &fmc.hash);
        start.put(0x54, &fmc.key);
        start.put(0x1d4, &fmc.signature);
        start.put(0x354, &bytes_of(&start.arguments).to_le_bytes());
        start
    }

    /// Something else is in the payload.
    fn put(&self, at: usize, with: &[u8]) {
        self.payload.borrow_mut()[at..at + with.len()].copy_from_slice(with);
    }

    fn rig(&self) -> &Rig {
        &self.boot.rig
    }

    /// Sends words, and takes what FSP answers: the code.
    fn send(&self, packet: &[u32]) -> u32 {
        fill(self.rig(), packet);
        ring(self.rig(), packet.len());
        answered(self.rig())
    }

    /// Sends the chain of trust: the code.
    fn trust(&self) -> u32 {
        let payload = words(&self.payload.borrow());
        self.send(&[&[SINGLE, COT][..], &payload[..]].concat())
    }

    /// All until GSP's registers are the host's: MAILBOX0.
    fn released(&self) -> u32 {
        let rig = self.rig();
        assert_eq!(self.trust(), 0);
        rig.until("the target mask", || rig.get(HWCFG2) >> 8 != 0xba_df41);
        let own = bytes_of(&self.arguments) as u32;
        rig.until("GSP's lock, or an error", || {
            let mailbox = rig.get(MAILBOX0);
            mailbox != own && (mailbox != 0 || rig.get(HWCFG2) >> 13 & 1 == 0)
        });
        rig.get(MAILBOX0)
    }

    /// All until RPCs are answered.
    fn until_done(&self) {
        assert_eq!(self.released(), 0);
        self.rig().set(GSP + 0x80, 0);
        assert_eq!(self.rig().get(RISCV) >> 7 & 1, 1);
        assert_eq!(self.boot.record().function, 0x1001);
    }

    /// GSP is told to end, and does.
    fn end(&self) {
        let rig = self.rig();
        assert_eq!(self.boot.rpc(47, &[0; 8]).result, 0);
        rig.until("GSP has suspended itself", || rig.get(MAILBOX0) == 1 << 31);
        rig.until("GSP has halted", || rig.get(RISCV) >> 4 & 1 != 0);
        assert_eq!(rig.get(WPR2_HI), 0);
        rig.is_clean();
    }
}

/// Fills the channel.
fn fill(rig: &Rig, packet: &[u32]) {
    rig.until("the command queue", || rig.get(HEAD) == rig.get(TAIL));
    rig.set(EMEMC, 1 << 24);
    packet.iter().for_each(|word| rig.set(EMEMD, *word));
    assert_eq!(rig.get(EMEMC) & 0xfffc, 4 * packet.len() as u32);
}

/// Says that so many words are there.
fn ring(rig: &Rig, count: usize) {
    rig.set(TAIL, 4 * count as u32 - 4);
    rig.set(HEAD, 0);
}

/// Takes what FSP answers: the code.
fn answered(rig: &Rig) -> u32 {
    rig.until("an answer", || {
        rig.get(MESSAGE_HEAD) != rig.get(MESSAGE_TAIL)
    });
    let count = (rig.get(MESSAGE_TAIL) - rig.get(MESSAGE_HEAD)) / 4 + 1;
    rig.set(EMEMC, 1 << 25);
    let answer: Vec<u32> = (0..count).map(|_| rig.get(EMEMD)).collect();
    rig.set(MESSAGE_TAIL, 0);
    rig.set(MESSAGE_HEAD, 0);
    assert_eq!(answer[..2], [SINGLE, 0x1510_de7e]);
    assert_eq!(answer.len(), 5);
    answer[4]
}

/// All that a driver does with a card, from the first register to the last.
fn whole_life(start: &Start) {
    start.until_done();
    let boot = &start.boot;
    let client = 0xc1d0_0001_u32;
    assert_eq!(boot.alloc([client, 0, client, 0], &[]).0, 0);
    let mut parameters = vec![0; 0x38];
    parameters[4..8].copy_from_slice(&client.to_le_bytes());
    assert_eq!(boot.alloc([client, client, 1, 0x80], &parameters).0, 0);
    assert_eq!(boot.alloc([client, 1, 2, 0x2080], &[0; 4]).0, 0);
    let (status, info) = boot.control(client, 2, 0x2080_1701, &[0; 16]);
    let (architecture, implementation) = start.rig().chip.twin.id;
    assert_eq!(
        (status, &words(&info)[..2]),
        (0, &[architecture, implementation][..])
    );
    // Up to firmware's heap before WPR2 memory is for everybody; FRTS is its end.
    let info = boot.rpc(65, &[0; 0x678]).payload;
    let limit = u64::from_le_bytes(info[0x168..0x170].try_into().unwrap());
    let at = |register| u64::from(start.rig().get(register) >> 4) << 12;
    let heap = facts(start.rig().chip).plain_heap;
    assert_eq!(at(0x1f_a824), limit + 1 + heap);
    let payload = start.payload.borrow();
    let behind = u64::from_le_bytes(payload[0x18..0x20].try_into().unwrap());
    assert_eq!(at(WPR2_HI) + (128 << 10), boot.fb() - behind);
    let free = boot.rpc(10, &bytes(&[client, 0, client, 0]));
    assert_eq!((free.result, words(&free.payload)[3]), (0, 0));
    start.rig().is_clean();
    start.end();
}

#[test]
fn fsp_starts_gsp_which_answers_and_ends_again_and_again() {
    for chip in CHIPS {
        let start = Start::new(chip);
        whole_life(&start);
        let Boot { rig, firmware, .. } = start.boot;
        let again = Boot::on(rig, firmware);
        again.prepare();
        let again = Start::of(again);
        again.until_done();
        // It is left running, and the card is reset: all begins anew.
        let Boot { rig, firmware, .. } = again.boot;
        rig.pci.reset(ResetKind::Bus).unwrap();
        rig.master(true);
        rig.wait_gfw();
        rig.flushes_with(bytes_of(&rig.flush));
        let third = Boot::on(rig, firmware);
        third.prepare();
        whole_life(&Start::of(third));
    }
}

/// Memory of the card is written by the window in BAR 0.
fn put_long(rig: &Rig, at: u64, value: u64) {
    rig.set(0x10_fd40, (at >> 16) as u32);
    let register = 0x70_0000 + (at & 0xffff);
    rig.set(register, value as u32);
    rig.set(register + 4, (value >> 32) as u32);
}

#[test]
fn page_tables_have_six_levels() {
    for chip in CHIPS {
        let start = Start::new(chip);
        start.until_done();
        let (boot, rig) = (&start.boot, start.rig());
        let client = 0xc1d0_0001_u32;
        assert_eq!(boot.alloc([client, 0, client, 0], &[]).0, 0);
        let mut parameters = vec![0; 0x38];
        parameters[4..8].copy_from_slice(&client.to_le_bytes());
        assert_eq!(boot.alloc([client, client, 1, 0x80], &parameters).0, 0);
        let space = VaspaceAlloc {
            flags: 8,
            ..Default::default()
        };
        let space = space.encode(Branch::R570);
        assert_eq!(boot.alloc([client, 1, 2, 0x90f1], &space).0, 0);
        // The root has two entries.
        let set = |entries: u32| {
            let words = [client, 1, 0, 0, 0x10_0000, 0, entries, 0, 2, 0, 0, 0];
            boot.rpc(54, &bytes(&words)).result
        };
        assert_eq!([set(1), set(4)], [0x1f; 2]);
        assert_eq!(rig.broken(), ["NV-SPACE-DIRECTORY"; 2]);
        assert_eq!(set(2), 0);
        // BAR 1: the host writes firmware's page directory itself; a page of 2 MiB, REGULAR_RW_ATOMIC_CACHED_ACD.
        let info = boot.rpc(65, &[0; 0x678]).payload;
        let root = u64::from_le_bytes(info[0x600..0x608].try_into().unwrap());
        let mut table = root;
        for next in [0x20_0000, 0x20_1000, 0x20_2000, 0x20_3000_u64] {
            put_long(rig, table, next | 2 << 3 | 1 << 1);
            table = next;
        }
        put_long(rig, table, 0x10 << 3 | 6 << 8 | 1);
        let memory = rig.pci.bar(rig.chip.bars()[1]).unwrap();
        memory.write(0x12_3450, 0x1234_5678_u32).unwrap();
        rig.set(0x10_fd40, 0x12);
        assert_eq!(rig.get(0x70_3450), 0x1234_5678);
        assert!(memory.read::<u32>(0x40_0000).is_err());
        fires("NV-PCI-BAR-FAULT").only(&rig.broken()[2..]);
        // BAR 2: firmware writes the entry of the root.
        let update = |shift: u32| {
            let entry = [1, 0, 0x20_0012, 0, shift, 0];
            boot.rpc(70, &bytes(&entry)).result
        };
        assert_eq!([update(47), update(56)], [0x1f, 0]);
        fires("NV-RPC-BAR-PDE").only(&rig.broken()[3..]);
        let instances = rig.pci.bar(rig.chip.bars()[2]).unwrap();
        assert_eq!(instances.read::<u32>(0x12_3450).unwrap(), 0x1234_5678);
    }
}

#[test]
fn capabilities_lie_where_a_hopper_has_them() {
    let rig = Rig::new(&Config::of(Chip::of("gh100").unwrap()));
    let mut at = rig.pci.config_read(0x34, AccessWidth::W8).unwrap() as u16;
    let mut found = Vec::new();
    while at != 0 {
        let header = rig.pci.config_read(at, AccessWidth::W32).unwrap();
        assert_eq!(rig.get(0x9_2000 + u64::from(at)), header, "{at:#x}");
        found.push((header & 0xff, at));
        at = (header >> 8 & 0xff) as u16;
    }
    let expected = [(1, 0x40), (5, 0x48), (0x10, 0x60), (0x11, 0xb0)];
    assert_eq!(found, expected);
    let msix = |at: u16| rig.pci.config_read(0xb0 + at, AccessWidth::W32).unwrap();
    assert_eq!([msix(0) >> 16, msix(4), msix(8)], [8, 0xb9_0000, 0xba_0000]);
    // The function is reset by its device control, wherever that is.
    rig.pci
        .config_write(0x68, AccessWidth::W16, 1 << 15)
        .unwrap();
    let command = rig.pci.config_read(4, AccessWidth::W16).unwrap();
    assert_eq!(command, 0);
    rig.is_clean();
}

#[test]
fn one_copy_engine_of_the_table_has_no_hardware() {
    // Where no number is left, it is the last one.
    for (chip, entries, last) in [("gh100", 1 + 10, 9), ("gb202", 1 + 4 + 1, 4)] {
        let start = Start::new(chip);
        start.until_done();
        client::begin(&start.boot);
        let ask = |cmd, size: usize| {
            let (status, told) = start.boot.control(CLIENT, SUBDEVICE, cmd, &vec![0; size]);
            assert_eq!(status, 0);
            words(&told)
        };
        assert_eq!(ask(0x2080_1112, 12 + 32 * 100)[1], entries);
        assert_eq!(ask(0x2080_2a06, 4), [1 << last]);
        // GSP's and one of each engine.
        assert_eq!(ask(0x2080_0a5c, 2068)[0], 1 + entries);
        // A group of it cannot be made.
        let space = VaspaceAlloc {
            flags: 8,
            ..Default::default()
        };
        let space = space.encode(Branch::R570);
        let made = start.boot.alloc([CLIENT, DEVICE, SPACE, 0x90f1], &space);
        assert_eq!(made.0, 0);
        start.rig().is_clean();
        let group = |engine_type: u32| {
            let group = ChannelGroupAlloc {
                h_va_space: SPACE,
                engine_type,
                ..Default::default()
            };
            let group = group.encode(Branch::R570);
            let made = [CLIENT, DEVICE, 0xd000_a06c, 0xa06c];
            start.boot.alloc(made, &group).0
        };
        assert_eq!([group(9 + last), group(9 + last - 1)], [0x1f, 0]);
        fires("RM-GROUP-ENGINE").only(&start.rig().broken());
    }
}

#[test]
fn what_is_sent_to_hopper_at_random_is_answered() {
    let start = Start::new("gh100");
    start.until_done();
    client::begin(&start.boot);
    let space = VaspaceAlloc {
        flags: 8,
        ..Default::default()
    };
    let space = space.encode(Branch::R570);
    let made = start.boot.alloc([CLIENT, DEVICE, SPACE, 0x90f1], &space);
    assert_eq!((made.0, channels::new_group(&start.boot)), (0, 0));
    channels::send_at_random(&start.boot, 11);
}

#[test]
fn published_firmware_is_started_by_fsp() {
    for chip in CHIPS {
        let chip = Chip::of(chip).unwrap();
        let Some(firmware) = Firmware::published(chip, VERSION) else {
            continue;
        };
        let boot = Boot::on(Rig::new(&Config::of(chip)), firmware);
        boot.rig.wait_gfw();
        boot.prepare();
        whole_life(&Start::of(boot));
    }
}

#[test]
fn cards_with_an_fsp_say_what_they_are() {
    for name in CHIPS {
        let chip = Chip::of(name).unwrap();
        let rig = Rig::new(&Config::of(chip));
        assert_eq!(rig.get(0) >> 20 & 0x1ff, chip.boot_42 >> 20);
        assert_eq!(rig.get(0xa00) >> 24, chip.twin.id.0 >> 4);
        // Registers show configuration space at another place, and BARs are elsewhere in it.
        for at in [0, 4, 8, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x24] {
            let there = rig.pci.config_read(at, AccessWidth::W32).unwrap();
            assert_eq!(rig.get(0x9_2000 + u64::from(at)), there, "{at:#x}");
        }
        let window = chip.bars()[1];
        let there = rig
            .pci
            .config_read(0x10 + 4 * u16::from(window), AccessWidth::W32);
        assert_eq!(there.unwrap(), BARS[1] as u32 | 0xc);
        rig.wait_gfw();
        assert_eq!(u64::from(rig.get(0x11_83a4)) << 20, chip.vram());
        let memory = rig.pci.bar(window).unwrap();
        memory.write(0x12_3450, 0x1234_5678_u32).unwrap();
        rig.set(0x10_fd40, 0x12);
        assert_eq!(rig.get(0x70_3450), 0x1234_5678);
        rig.is_clean();
        // What was there before is there no more: GFW's progress, SEC2, the ROM, the old mirror and the old page for flushes.
        for at in [
            0x11_8128, 0x11_8234, 0x84_00f4, 0x30_0000, 0x8_8000, 0x1700, 0x10_0c10,
        ] {
            let rig = Rig::started(name);
            assert!(rig.registers.read::<u32>(at).is_err(), "{at:#x}");
            fires("NV-PCI-REGISTER").only(&rig.broken());
            let rig = Rig::started(name);
            assert!(rig.try_set(at, 1).is_err(), "{at:#x}");
            fires("NV-PCI-REGISTER").only(&rig.broken());
        }
        let rig = Rig::started(name);
        let instances = rig.pci.bar(chip.bars()[2]).unwrap();
        assert_eq!(instances.read::<u32>(0x12_3450).unwrap(), 0);
        rig.is_clean();
        // By an instance block that is none.
        for (block, bar) in [(0xb8_0f60, window), (0xb8_0f70, chip.bars()[2])] {
            let rig = Rig::started(name);
            rig.set(block, 1 << 9);
            assert!(rig.pci.bar(bar).unwrap().write(0, 1_u32).is_err());
            fires("NV-PCI-BAR-FAULT").only(&rig.broken());
        }
    }
}

#[test]
fn fsp_itself_starts_first() {
    let config = Config::of(Chip::of("gh100").unwrap());
    for at in [EMEMC, HEAD, GSP + 0x14] {
        let rig = Rig::new(&config);
        assert!(rig.try_set(at, 0).is_err());
        fires("NV-FSP-BOOT").only(&rig.broken());
    }
    let rig = Rig::new(&config);
    assert!(rig.registers.read::<u32>(0x11_83a4).is_err());
    fires("NV-FSP-BOOT").only(&rig.broken());
}

#[test]
fn packets_lie_in_the_channel_of_the_host() {
    // The other channels, and what lies behind its own.
    for at in [EMEMC + 8, EMEMD + 8, HEAD + 0x38, MESSAGE_TAIL + 8] {
        let rig = Rig::started("gh100");
        assert!(rig.try_set(at, 0).is_err());
        fires("NV-FSP-EMEM").only(&rig.broken());
        let rig = Rig::started("gh100");
        assert!(rig.registers.read::<u32>(at).is_err());
        fires("NV-FSP-EMEM").only(&rig.broken());
    }
    let rig = Rig::started("gb202");
    rig.set(EMEMC, 0x3fc | 1 << 24);
    rig.set(EMEMD, 1);
    assert!(rig.try_set(EMEMD, 1).is_err());
    fires("NV-FSP-EMEM").only(&rig.broken());
    // Without increments all words go to the same place.
    let rig = Rig::started("gb202");
    rig.set(EMEMC, 0x104);
    rig.set(EMEMD, 1);
    rig.set(EMEMD, 2);
    assert_eq!((rig.get(EMEMD), rig.get(EMEMC)), (2, 0x104));
    rig.is_clean();
}

#[test]
fn packets_take_turns() {
    let packet = [SINGLE, 0x1610_de7e, 0];
    // HEAD before TAIL, and HEAD that is not 0.
    let start = Start::new("gh100");
    fill(start.rig(), &packet);
    assert!(start.rig().try_set(HEAD, 0).is_err());
    fires("NV-FSP-QUEUE").only(&start.rig().broken());
    let start = Start::new("gh100");
    fill(start.rig(), &packet);
    start.rig().set(TAIL, 8);
    assert!(start.rig().try_set(HEAD, 4).is_err());
    fires("NV-FSP-QUEUE").only(&start.rig().broken());
    // TAIL where no word ends, or none is.
    for tail in [0, 6, 0x400] {
        let start = Start::new("gh100");
        fill(start.rig(), &packet);
        start.rig().set(TAIL, tail);
        assert!(start.rig().try_set(HEAD, 0).is_err());
        fires("NV-FSP-QUEUE").only(&start.rig().broken());
    }
    // Another packet before FSP has taken the first one, and before its answer is taken.
    let start = Start::new("gb202");
    fill(start.rig(), &packet);
    ring(start.rig(), packet.len());
    assert!(start.rig().try_set(EMEMD, 0).is_err());
    fires("NV-FSP-QUEUE").only(&start.rig().broken());
    let start = Start::new("gb202");
    let rig = start.rig();
    assert_eq!(start.trust(), 0);
    fill(rig, &packet);
    ring(rig, packet.len());
    rig.until("it is taken", || rig.get(HEAD) == rig.get(TAIL));
    let before = rig.broken().len();
    assert!(rig.try_set(TAIL, 8).is_err());
    fires("NV-FSP-QUEUE").only(&rig.broken()[before..]);
}

#[test]
fn messages_have_their_headers() {
    // No end, another task, a number, a type of MCTP, a vendor.
    for (mctp, nvdm) in [
        (0x8000_0000, COT),
        (SINGLE | 1 << 16, COT),
        (SINGLE | 1 << 28, COT),
        (SINGLE, 0x1410_de7d),
        (SINGLE, 0x1410_0286),
    ] {
        let start = Start::new("gh100");
        let payload = words(&start.payload.borrow());
        let code = start.send(&[&[mctp, nvdm][..], &payload[..]].concat());
        assert_eq!(code, 0xa1);
        fires("NV-FSP-MCTP").only(&start.rig().broken());
    }
    let start = Start::new("gh100");
    assert_eq!(start.send(&[SINGLE, 0x1610_de7e, 0x20]), 0xa0);
    fires("NV-FSP-NOT-MODELLED").only(&start.rig().broken());
}

/// A chain of trust with other bytes is refused with a code.
fn refused(chip: &str, at: usize, with: &[u8], code: u32) -> Start {
    let start = Start::new(chip);
    start.put(at, with);
    assert_eq!(start.trust(), code, "{at:#x}");
    assert_eq!(start.rig().get(WPR2_HI), 0);
    start
}

#[test]
fn chains_of_trust_are_whole() {
    for (at, with) in [(0, 2_u16), (0, 0), (2, 0x358)] {
        let start = refused("gh100", at, &with.to_le_bytes(), 0xa1);
        fires("NV-FSP-COT").only(&start.rig().broken());
    }
    let start = refused("gb202", 0, &1_u16.to_le_bytes(), 0xa1);
    fires("NV-FSP-COT").only(&start.rig().broken());
    let start = Start::new("gb202");
    let payload = words(&start.payload.borrow());
    let short = &payload[..payload.len() - 1];
    assert_eq!(start.send(&[&[SINGLE, COT][..], short].concat()), 0xa1);
    fires("NV-FSP-COT").only(&start.rig().broken());
}

#[test]
fn what_fsp_starts_is_signed() {
    // The hash, the key, the signature, and what follows shorter ones.
    for (chip, at) in [
        ("gh100", 0x24),
        ("gh100", 0x54 + 383),
        ("gh100", 0x1d4),
        ("gb202", 0x54 + 96),
        ("gb202", 0x54 + 97),
        ("gb202", 0x1d4 + 96),
    ] {
        let start = Start::new(chip);
        let before = start.payload.borrow()[at];
        start.put(at, &[before ^ 1]);
        assert_eq!(start.trust(), 0xa1, "{chip}, {at:#x}");
        fires("NV-FSP-COT-FMC").only(&start.rig().broken());
    }
    // A bit of the image, and an address where it does not begin.
    let start = Start::new("gh100");
    let before = start.fmc.view.read::<u8>(0x1000).unwrap();
    start.fmc.view.write(0x1000, before ^ 1).unwrap();
    assert_eq!(start.trust(), 0xa1);
    fires("NV-FSP-COT-FMC").only(&start.rig().broken());
    let start = Start::new("gh100");
    let at = bytes_of(&start.fmc) + 0x100;
    start.put(4, &at.to_le_bytes());
    assert_eq!(start.trust(), 0xa1);
    fires("NV-FSP-COT-FMC").only(&start.rig().broken());
    // A key and a signature as long as Hopper's on Blackwell; and an address where nothing is.
    let start = Start::with(
        Config::of(Chip::of("gb202").unwrap()),
        Firmware::small(VERSION),
    );
    assert_eq!(start.trust(), 0xa1);
    fires("NV-FSP-COT-FMC").only(&start.rig().broken());
    let start = refused("gh100", 4, &0x5000_u64.to_le_bytes(), 0xa1);
    assert_eq!(start.rig().broken(), ["PCI-DMA-GIVEN"]);
}

#[test]
fn frts_has_its_place() {
    for (chip, at, value) in [
        ("gh100", 0x18, 0_u64),
        ("gh100", 0x18, 0x10_0000),
        ("gh100", 0x18, 80 << 30),
        ("gb202", 0x18, 0x20_0000),
    ] {
        let start = refused(chip, at, &value.to_le_bytes(), 0xa1);
        fires("NV-FSP-COT-FRTS").only(&start.rig().broken());
    }
    let start = refused("gh100", 0x20, &0x8_0000_u32.to_le_bytes(), 0xa1);
    fires("NV-FSP-COT-FRTS").only(&start.rig().broken());
    let start = refused("gb202", 0x18, &0x1a4_0000_u64.to_le_bytes(), 0xa1);
    fires("NV-FSP-COT-ALIGNED").only(&start.rig().broken());
}

#[test]
fn frts_may_go_to_the_host_as_well() {
    let start = Start::new("gh100");
    let rig = start.rig();
    let copy = rig.memory(&vec![0; 1 << 20]);
    let at = bytes_of(&copy);
    start.put(0xc, &at.to_le_bytes());
    start.put(0x14, &0x10_0000_u32.to_le_bytes());
    assert_eq!(start.trust(), 0xa1);
    fires("NV-FSP-COT-SYSMEM").only(&rig.broken());
    let before = rig.broken().len();
    rig.set(0x14f4, at as u32);
    rig.set(0x14f8, (at >> 32) as u32);
    rig.set(0x14fc, 0x1_0100);
    assert_eq!(rig.get(0x14fc), 0x1_0100);
    whole_life_after(&start, before);
    // Half of it is not there.
    let start = Start::new("gh100");
    let rig = start.rig();
    let copy = rig.memory(&vec![0; 1 << 20]);
    let at = bytes_of(&copy) + 0x8_0000;
    start.put(0xc, &at.to_le_bytes());
    start.put(0x14, &0x10_0000_u32.to_le_bytes());
    rig.set(0x14f4, at as u32);
    rig.set(0x14f8, (at >> 32) as u32);
    rig.set(0x14fc, 0x1_0100);
    assert_eq!(start.trust(), 0xa1);
    assert_eq!(rig.broken(), ["PCI-DMA-GIVEN"]);
}

/// It starts, and nothing more is broken.
fn whole_life_after(start: &Start, before: usize) {
    start.until_done();
    assert_eq!(start.rig().broken().len(), before);
}

#[test]
fn nothing_runs_when_fsp_is_told_to_start() {
    let start = Start::new("gh100");
    start.until_done();
    assert_eq!(start.trust(), 0x9e);
    fires("NV-FSP-WPR2").only(&start.rig().broken());
    // One that a driver has left.
    let chip = Chip::of("gb202").unwrap();
    let config = Config {
        before: Before::Driver,
        ..Config::of(chip)
    };
    let start = Start::with(config, Firmware::small_for(chip, VERSION));
    assert_eq!(start.rig().get(RISCV) >> 7 & 1, 1);
    assert_ne!(start.rig().get(WPR2_HI), 0);
    // What was left writes to memory that is gone, once.
    start.rig().pass();
    let before = start.rig().broken().len();
    assert_eq!(start.trust(), 0x9e);
    fires("NV-FSP-WPR2").only(&start.rig().broken()[before..]);
}

#[test]
fn the_page_for_flushes_is_there_when_fsp_starts_gsp() {
    let start = Start::new("gh100");
    start.rig().flushes_with(0);
    assert_eq!(start.trust(), 0x9e);
    fires("NV-PFB-FLUSH-PAGE").only(&start.rig().broken());
    // LO before HI: what HI has comes too late.
    let start = Start::new("gb202");
    let at = bytes_of(&start.rig().flush);
    let [low, high] = facts(start.rig().chip).flush;
    start.rig().set(high.into(), 0);
    start.rig().set(low.into(), at as u32);
    start.rig().set(high.into(), (at >> 32) as u32);
    assert_eq!(start.trust(), 0x9e);
    fires("NV-PFB-FLUSH-PAGE").only(&start.rig().broken());
    // As long as it runs.
    let start = Start::new("gb202");
    start.until_done();
    start.rig().flushes_with(0);
    start.rig().pass();
    fires("NV-PFB-FLUSH-PAGE").only(&start.rig().broken());
}

/// An FMC whose arguments have another word: it says so, and GSP stays locked.
fn with_argument(at: usize, value: u32) -> Start {
    let start = Start::new("gh100");
    start.arguments.view.write(at, value).unwrap();
    assert_ne!(start.released(), 0);
    assert_eq!(start.rig().get(HWCFG2) >> 13 & 1, 1);
    assert_eq!(start.rig().get(RISCV) >> 4 & 1, 1);
    start
}

#[test]
fn arguments_of_the_fmc_are_whole() {
    for (at, value) in [(0x8, 0), (0x8, 3), (0xc, 0xff), (0x24, 0), (0x28, 0)] {
        let start = with_argument(at, value);
        fires("NV-FMC-ARGUMENTS").only(&start.rig().broken());
    }
    let start = Start::new("gh100");
    let at = bytes_of(&start.arguments) + 0x80;
    start.put(0x354, &at.to_le_bytes());
    assert_eq!(start.trust(), 0);
    start.rig().until("an error", || {
        let mailbox = start.rig().get(MAILBOX0);
        mailbox != 0 && mailbox < 0x100
    });
    fires("NV-FMC-ARGUMENTS").only(&start.rig().broken());
    // Where nothing is; and the libos arguments, which the firmware reads later.
    let start = with_argument(0x14, 0x7fff);
    assert_eq!(start.rig().broken(), ["PCI-DMA-GIVEN"]);
    let start = Start::new("gh100");
    start.arguments.view.write(0x30, 0x5000_u64).unwrap();
    assert_eq!(start.released(), 0);
    start.rig().settle();
    assert_eq!(start.rig().broken(), ["PCI-DMA-GIVEN"]);
}

#[test]
fn metadata_has_sizes_only() {
    let with = |chip: &str, at: usize, value: u64| {
        let start = Start::new(chip);
        start.boot.meta.view.write(at, value).unwrap();
        assert_ne!(start.released(), 0, "{at:#x}");
        start
    };
    for (at, value) in [
        (0x58, MIB),
        (0x70, MIB),
        (0xb0, 80 << 30),
        (0x68, MIB),
        (0xa0, 2 * MIB),
        (0xc0, MIB),
    ] {
        let start = with("gh100", at, value);
        fires("NV-FMC-META-SIZES").only(&start.rig().broken());
    }
    // That of the PMU, and Hopper's heap on Blackwell.
    let start = with("gb202", 0xf0, 0);
    fires("NV-FMC-META-SIZES").only(&start.rig().broken());
    let start = with("gb202", 0x68, 2 * MIB);
    fires("NV-FMC-META-SIZES").only(&start.rig().broken());
    let start = with("gh100", 0x80, 80 * MIB);
    fires("NV-WPR-META-HEAP").only(&start.rig().broken());
    let start = with("gh100", 0, 0);
    fires("NV-WPR-META-MAGIC").only(&start.rig().broken());
    let start = with("gh100", 0x30, 0x1234);
    fires("NV-GSP-LOADER").only(&start.rig().broken());
    let start = with("gh100", 0x50, 0x10);
    fires("NV-GSP-IMAGE").only(&start.rig().broken());
    let start = with("gh100", 0x10, 8);
    fires("NV-GSP-RADIX").only(&start.rig().broken());
}

#[test]
fn registers_of_gsp_are_the_hosts_at_the_end() {
    // They are FSP's, and read so.
    let start = Start::new("gh100");
    assert_eq!(start.trust(), 0);
    assert_eq!(start.rig().get(RISCV) >> 8, 0xba_df41);
    start.rig().is_clean();
    assert!(start.rig().try_set(GSP + 0x80, 0).is_err());
    fires("NV-GSP-TARGET-MASK").only(&start.rig().broken());
    // They are locked: the mailboxes have the address that FSP was told, and are empty then.
    let locked = || {
        let chip = Chip::of("gb202").unwrap();
        let config = Config {
            never: Some(Wait::Release),
            ..Config::of(chip)
        };
        let start = Start::with(config, Firmware::small_for(chip, VERSION));
        let rig = start.rig();
        assert_eq!(start.trust(), 0);
        rig.until("the target mask", || rig.get(HWCFG2) >> 8 != 0xba_df41);
        let own = bytes_of(&start.arguments);
        assert_eq!(rig.get(HWCFG2) >> 13 & 1, 1);
        assert_eq!(rig.get(GSP + 0x44), (own >> 32) as u32);
        rig.until("the mailboxes are empty", || rig.get(MAILBOX0) == 0);
        assert_eq!(rig.get(RISCV) >> 4 & 1, 1);
        rig.is_clean();
        start
    };
    let start = locked();
    assert!(start.rig().registers.read::<u32>(GSP + 8).is_err());
    fires("NV-GSP-PRIV-LOCKDOWN").only(&start.rig().broken());
    let start = locked();
    assert!(start.rig().try_set(MAILBOX0, 0).is_err());
    fires("NV-GSP-PRIV-LOCKDOWN").only(&start.rig().broken());
}

#[test]
fn the_host_does_not_start_gsp_itself() {
    for at in [
        0x3c0, 0x100, 0x104, 0x110, 0x118, 0x180, 0x1c4, 0x600, 0x624, 0x1180, 0x1668,
    ] {
        let rig = Rig::started("gh100");
        assert!(rig.try_set(GSP + at, 1).is_err(), "{at:#x}");
        fires("NV-GSP-STARTED-BY-FSP").only(&rig.broken());
    }
    let start = Start::new("gb202");
    start.until_done();
    assert!(start.rig().try_set(GSP + 0x3c0, 1).is_err());
    fires("NV-GSP-STARTED-BY-FSP").only(&start.rig().broken());
    let rig = Rig::started("gb202");
    assert!(rig.registers.read::<u32>(GSP + 0x1668).is_err());
    fires("NV-GSP-STARTED-BY-FSP").only(&rig.broken());
}

#[test]
fn memory_stays_until_it_is_not_needed_any_more() {
    // What FSP has started reads its arguments after FSP has answered.
    let start = Start::new("gh100");
    assert_eq!(start.trust(), 0);
    start.boot.rig.pci.bus().memory().given_ended();
    let rig = start.rig();
    rig.until("an error", || {
        let mailbox = rig.get(MAILBOX0);
        mailbox != 0 && mailbox < 0x100
    });
    assert_eq!(rig.broken(), ["PCI-DMA-FREED"]);
}

#[test]
fn a_notice_of_a_lock_is_followed_by_no_sequencer() {
    let chip = Chip::of("gh100").unwrap();
    let config = Config {
        lockdown: true,
        ..Config::of(chip)
    };
    let start = Start::with(config, Firmware::small_for(chip, VERSION));
    assert_eq!(start.released(), 0);
    for engaging in [1, 0] {
        let notice = start.boot.record();
        assert_eq!((notice.function, notice.payload[0]), (0x101c, engaging));
    }
    assert_eq!(start.boot.record().function, 0x1001);
    start.rig().set(GSP + 4, 0x40);
    start.rig().is_clean();
}

#[test]
fn what_fsp_is_waited_for_may_never_come() {
    let chip = Chip::of("gh100").unwrap();
    for wait in [
        Wait::Gfw,
        Wait::Fsp,
        Wait::Target,
        Wait::Fmc,
        Wait::Release,
        Wait::Halt,
    ] {
        let config = Config {
            never: Some(wait),
            ..Config::of(chip)
        };
        let looks = |rig: &Rig, at: u64| (0..50).fold(0, |_, _| rig.get(at));
        if wait == Wait::Gfw {
            let rig = Rig::new(&config);
            assert_eq!(looks(&rig, facts(chip).boot_complete.into()), 0);
            rig.is_clean();
            continue;
        }
        let start = Start::with(config, Firmware::small_for(chip, VERSION));
        let rig = start.rig();
        match wait {
            Wait::Fsp => {
                fill(rig, &[SINGLE, COT, 0]);
                ring(rig, 3);
                assert_eq!(looks(rig, MESSAGE_HEAD), rig.get(MESSAGE_TAIL));
                assert_ne!(rig.get(HEAD), rig.get(TAIL));
            }
            Wait::Target => {
                assert_eq!(start.trust(), 0);
                assert_eq!(looks(rig, HWCFG2) >> 8, 0xba_df41);
            }
            Wait::Fmc => {
                assert_eq!(start.trust(), 0);
                assert_eq!(looks(rig, MAILBOX0), bytes_of(&start.arguments) as u32);
            }
            Wait::Release => {
                assert_eq!(start.trust(), 0);
                assert_eq!(looks(rig, HWCFG2) >> 13 & 1, 1);
                assert_eq!(rig.get(MAILBOX0), 0);
            }
            _ => {
                start.until_done();
                start.boot.rpc(47, &[0; 8]);
                rig.until("GSP has suspended itself", || rig.get(MAILBOX0) == 1 << 31);
                assert_eq!(looks(rig, RISCV) >> 4 & 1, 0);
                assert_ne!(rig.get(WPR2_HI), 0);
            }
        }
        rig.is_clean();
    }
}
