//! GSP starts, answers, and ends.

use hcq::transport::{Pci, ResetKind};
use twin::fires::fires;
use twin_nv::pci::card::{Before, Config};
use twin_nv::pci::chip::Chip;
use twin_nv::pci::wait::Wait;

use super::boot::{Boot, bytes, words};
use super::firmware::Firmware;
use super::rig::{GSP, Rig, SEC2};

const CLIENT: u32 = 0xc1d0_0001;
const DEVICE: u32 = 0xd000_0080;
const SUBDEVICE: u32 = 0xd000_2080;

/// A client with a device and a subdevice.
fn with_device(boot: &Boot) {
    let root = boot.alloc([CLIENT, 0, CLIENT, 0], &[]);
    assert_eq!(root.0, 0);
    let mut parameters = vec![0; 0x38];
    parameters[4..8].copy_from_slice(&CLIENT.to_le_bytes());
    assert_eq!(boot.alloc([CLIENT, CLIENT, DEVICE, 0x80], &parameters).0, 0);
    assert_eq!(
        boot.alloc([CLIENT, DEVICE, SUBDEVICE, 0x2080], &[0; 4]).0,
        0
    );
}

/// All that a driver does with a card, from the first register to the last.
fn whole_life(boot: &Boot) {
    let rig = &boot.rig;
    boot.until_done();
    with_device(boot);
    // What the chip is: NV2080_CTRL_CMD_MC_GET_ARCH_INFO.
    let (status, info) = boot.control(CLIENT, SUBDEVICE, 0x2080_1701, &[0; 16]);
    let (architecture, implementation) = rig.chip.twin.id;
    assert_eq!(
        (status, &words(&info)[..2]),
        (0, &[architecture, implementation][..])
    );
    // Static information has the internal client, with a subdevice that is asked.
    let length = match &boot.firmware.version[..3] {
        "535" => 0x878,
        "550" => 0x888,
        _ => 0x678,
    };
    let info = boot.rpc(65, &vec![0; length]);
    assert_eq!((info.result, info.payload.len()), (0, length));
    let at = length - if length == 0x678 { 0x38 } else { 0x10 };
    let handles = words(&info.payload[at..at + 12]);
    let (status, _) = boot.control(handles[0], handles[2], 0x2080_1701, &[0; 16]);
    assert_eq!(status, 0);
    // FREE, and nothing is there any more.
    let free = boot.rpc(10, &bytes(&[CLIENT, 0, CLIENT, 0]));
    assert_eq!((free.result, words(&free.payload)[3]), (0, 0));
    rig.is_clean();
    // The end: GSP suspends itself, FWSEC prepares what runs without it, the booter takes WPR2 down.
    let unload = boot.rpc(47, &[0; 8]);
    assert_eq!(unload.result, 0);
    rig.until("GSP has suspended itself", || {
        rig.get(GSP + 0x40) == 0x8000_0000
    });
    let hs = boot.fwsec_told(0x19, &[1, 24, 0, 0, 0, 2], 2);
    boot.fwsec(&hs);
    let unload = boot.firmware.unload.clone();
    assert_eq!(boot.booter(&unload, 0xff | 0xff << 32), 0);
    assert_eq!(rig.get(0x1f_a828), 0);
    rig.is_clean();
}

#[test]
fn gsp_starts_answers_and_ends() {
    for chip in ["ga102", "ad102"] {
        for version in ["535.113.01", "550.163.01", "570.144"] {
            whole_life(&Boot::new(chip, version));
        }
    }
}

#[test]
fn published_firmware_starts() {
    for chip in ["ga102", "ad102"] {
        let chip = Chip::of(chip).unwrap();
        for version in ["535.113.01", "570.144"] {
            let Some(firmware) = Firmware::published(chip, version) else {
                continue;
            };
            let boot = Boot::on(Rig::new(&Config::of(chip)), firmware);
            boot.rig.wait_gfw();
            boot.prepare();
            whole_life(&boot);
        }
    }
}

#[test]
fn a_card_is_started_again_after_its_end_and_after_a_reset() {
    let boot = Boot::new("ga102", "570.144");
    whole_life(&boot);
    let Boot { rig, firmware, .. } = boot;
    let again = Boot::on(rig, firmware);
    again.prepare();
    again.until_done();
    // It is left running: the next one finds WPR2.
    let Boot { rig, firmware, .. } = again;
    rig.pci.reset(ResetKind::Bus).unwrap();
    rig.pci
        .config_write(
            drivers_spec::pci::PCI_COMMAND,
            hcq::mem::window::AccessWidth::W16,
            6,
        )
        .unwrap();
    rig.wait_gfw();
    let third = Boot::on(rig, firmware);
    third.prepare();
    third.until_done();
    third.rig.is_clean();
}

#[test]
fn wpr2_that_was_left_is_named() {
    let chip = Chip::of("ad102").unwrap();
    let config = Config {
        before: Before::Driver,
        ..Config::of(chip)
    };
    let boot = Boot::with(config, Firmware::small("570.144"));
    assert_ne!(boot.rig.get(0x1f_a828), 0);
    let hs = boot.fwsec_told(0x15, &boot.frts_argument(), 2);
    boot.fwsec(&hs);
    assert_ne!(boot.rig.get(0x1438) >> 16, 0);
    fires("NV-WPR2-LEFT").only(&boot.rig.broken());
}

#[test]
fn lockdown_is_told() {
    for (version, event) in [("535.113.01", 0x101d), ("570.144", 0x101c)] {
        let chip = Chip::of("ga102").unwrap();
        let config = Config {
            lockdown: true,
            ..Config::of(chip)
        };
        let boot = Boot::with(config, Firmware::small(version));
        boot.until_started();
        for engaging in [1, 0] {
            let notice = boot.record();
            assert_eq!((notice.function, notice.payload[0]), (event, engaging));
        }
        assert_eq!(boot.record().function, 0x1002);
        boot.rig.is_clean();
    }
}

#[test]
fn an_rpc_fails_where_the_config_says_so() {
    let config = Config {
        rpc_error: Some((76, 0x51)),
        ..Config::of(Chip::of("ad102").unwrap())
    };
    let boot = Boot::with(config, Firmware::small("570.144"));
    boot.until_done();
    with_device(&boot);
    let head = bytes(&[CLIENT, SUBDEVICE, 0x2080_1701, 0, 16, 0, 0, 0, 0, 0]);
    assert_eq!(boot.rpc(76, &head).result, 0x51);
    boot.rig.is_clean();
}

#[test]
fn what_is_waited_for_may_never_come() {
    for wait in [Wait::Gfw, Wait::Scrub, Wait::Dma, Wait::Halt] {
        let config = Config {
            never: Some(wait),
            ..Config::of(Chip::of("ga102").unwrap())
        };
        let rig = Rig::new(&config);
        let looks = |at: u64| (0..50).map(|_| rig.get(at)).last().unwrap();
        match wait {
            Wait::Gfw => assert_eq!(looks(0x11_8128) & 1, 0),
            Wait::Scrub => {
                rig.wait_gfw();
                rig.set(SEC2 + 0x3c0, 1);
                rig.set(SEC2 + 0x3c0, 0);
                assert_eq!(looks(SEC2 + 0xf4) >> 12 & 1, 1);
            }
            Wait::Dma => {
                rig.wait_gfw();
                rig.allow_transfers(SEC2);
                let memory = rig.memory(&[1; 256]);
                let at = super::rig::bytes_of(&memory);
                rig.set(SEC2 + 0x110, (at >> 8) as u32);
                rig.set(SEC2 + 0x118, 6 << 8);
                assert_eq!(looks(SEC2 + 0x118) & 3, 1);
            }
            _ => {
                rig.wait_gfw();
                rig.set(SEC2 + 0x184, 0x02f8);
                rig.set(SEC2 + 0x104, 0);
                rig.start(SEC2).unwrap();
                assert_eq!(looks(SEC2 + 0x100) >> 4 & 1, 0);
            }
        }
        rig.is_clean();
    }
    let config = Config {
        gone_after: Some(20),
        ..Config::of(Chip::of("ga102").unwrap())
    };
    let rig = Rig::new(&config);
    let last = (0..30).map(|_| rig.get(0)).last();
    assert_eq!(last, Some(u32::MAX));
}
