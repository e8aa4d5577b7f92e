//! A start of GSP, step by step, as the vendor's driver has them; a test takes another step in between.

use std::cell::Cell;

use hcq::transport::{Dma, Pci};
use twin_nv::pci::card::Config;
use twin_nv::pci::chip::Chip;

use super::firmware::{Firmware, Hs, PATCH};
use super::rig::{BARS, GSP, Rig, SEC2, bytes_of, pages};

const MIB: u64 = 1 << 20;
/// Bytes of each queue, and of the table of pages before them.
const QUEUE: usize = 0x4_0000;
const TABLE: usize = 0x1000;
pub const COMMANDS: usize = TABLE;
pub const STATUSES: usize = TABLE + QUEUE;
const ENTRIES: u32 = 63;

/// A message that has come.
#[derive(Clone, Debug)]
pub struct Message {
    pub function: u32,
    pub result: u32,
    pub payload: Vec<u8>,
}

/// A card, and all that is prepared for it.
pub struct Boot {
    pub rig: Rig,
    pub firmware: Firmware,
    /// The word of each field of `GspFwWprMeta`.
    pub meta: Dma,
    /// Tables and pages of the image.
    pub image: Dma,
    pub signature: Dma,
    pub loader: Dma,
    pub libos: Dma,
    pub logs: [Dma; 3],
    pub arguments: Dma,
    pub shared: Dma,
    numbers: [Cell<u32>; 2],
    places: [Cell<u32>; 2],
}

fn name(text: &str) -> u64 {
    text.bytes().fold(0, |id, byte| id << 8 | u64::from(byte))
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Three levels of tables, then the pages.
fn radix(rig: &Rig, image: &[u8]) -> Dma {
    let count = image.len().div_ceil(4096);
    let tables = count.div_ceil(512);
    let first = 2 + tables;
    let dma = rig.pci.dma(((first + count) * 4096) as u64, 4096).unwrap();
    let places = pages(&dma);
    let put = |at: usize, value: u64| dma.view.write(at, value).unwrap();
    put(0, places[1]);
    (0..tables).for_each(|i| put(4096 + 8 * i, places[2 + i]));
    (0..count).for_each(|i| put(2 * 4096 + 8 * i, places[first + i]));
    dma.view.copy_from_slice(first * 4096, image).unwrap();
    dma
}

impl Boot {
    /// Of a small firmware, on a card whose own firmware has started.
    pub fn new(chip: &str, version: &'static str) -> Boot {
        let chip = Chip::of(chip).unwrap();
        Boot::with(Config::of(chip), Firmware::small(version))
    }

    /// Of one that the card's keys accept from now on.
    pub fn with(mut config: Config, firmware: Firmware) -> Boot {
        config.signed = firmware.signed(config.chip);
        let boot = Boot::on(Rig::new(&config), firmware);
        boot.rig.wait_gfw();
        boot.prepare();
        boot
    }

    /// On a card, with nothing prepared yet.
    pub fn on(rig: Rig, firmware: Firmware) -> Boot {
        let empty = |bytes: usize| rig.memory(&vec![0; bytes]);
        Boot {
            meta: empty(4096),
            image: radix(&rig, &firmware.image),
            signature: rig.memory(&firmware.signature),
            loader: rig.memory(&firmware.loader),
            libos: empty(4096),
            logs: [0x1_0000; 3].map(empty),
            arguments: empty(4096),
            shared: rig.pci.dma((TABLE + 2 * QUEUE) as u64, 4096).unwrap(),
            numbers: [Cell::new(0), Cell::new(0)],
            places: [Cell::new(0), Cell::new(0)],
            rig,
            firmware,
        }
    }

    /// Fills all that GSP and the booter are handed.
    pub fn prepare(&self) {
        self.prepare_without_messages();
        self.push(&self.message(72, &self.system_info()));
        self.push(&self.message(73, &registry()));
    }

    /// The same, with an empty queue.
    pub fn prepare_without_messages(&self) {
        self.fill_meta();
        self.fill_libos();
        self.fill_queues();
    }

    /// Bytes of memory.
    pub fn fb(&self) -> u64 {
        u64::from(self.rig.get(0x11_83a4)) << 20
    }

    /// Where FRTS goes.
    pub fn frts_place(&self) -> u64 {
        self.fb() - 2 * MIB
    }

    fn fill_meta(&self) {
        if self.rig.chip.fsp.is_some() {
            return self.fill_sizes();
        }
        let fb = self.fb();
        let (image, loader) = (
            self.firmware.image.len() as u64,
            self.firmware.loader.len() as u64,
        );
        let frts = self.frts_place();
        let binary = (frts - loader) & !0xfff;
        let firmware = (binary - image) & !0xffff;
        let heap = (firmware - 129 * MIB) & !(MIB - 1);
        let start = heap - MIB;
        let [code, data, manifest] = self.firmware.offsets;
        let fields = [
            0xdc3a_ae21_371a_60b3,
            1,
            bytes_of(&self.image),
            image,
            bytes_of(&self.loader),
            loader,
            code,
            data,
            manifest,
            bytes_of(&self.signature),
            self.firmware.signature.len() as u64,
            start - MIB,
            start - MIB,
            MIB,
            start,
            heap,
            (firmware - heap) & !(MIB - 1),
            firmware,
            binary,
            frts,
            MIB,
            frts + MIB,
            fb,
            fb - MIB,
            MIB,
        ];
        for (i, field) in fields.iter().enumerate() {
            self.meta.view.write(8 * i, *field).unwrap();
        }
    }

    /// The same where FSP starts GSP: no places.
    fn fill_sizes(&self) {
        let Some(fsp) = &self.rig.chip.fsp else {
            return;
        };
        let [code, data, manifest] = self.firmware.offsets;
        let sizes = [
            (0x00, 0xdc3a_ae21_371a_60b3),
            (0x08, 1),
            (0x10, bytes_of(&self.image)),
            (0x18, self.firmware.image.len() as u64),
            (0x20, bytes_of(&self.loader)),
            (0x28, self.firmware.loader.len() as u64),
            (0x30, code),
            (0x38, data),
            (0x40, manifest),
            (0x48, bytes_of(&self.signature)),
            (0x50, self.firmware.signature.len() as u64),
            (0x68, fsp.plain_heap),
            (0x80, 129 * MIB),
            (0xa0, MIB),
            (0xc0, 128 << 10),
        ];
        for (at, size) in sizes {
            self.meta.view.write(at, size).unwrap();
        }
        self.meta.view.write(0xf4, fsp.pmu).unwrap();
    }

    fn fill_libos(&self) {
        let names = ["LOGINIT", "LOGINTR", "LOGRM"];
        let regions = names.iter().zip(&self.logs);
        for (i, (region, memory)) in regions.chain([(&"RMARGS", &self.arguments)]).enumerate() {
            let size = memory.view.len() as u64;
            let entry = [name(region), bytes_of(memory), size, 0x0101];
            for (j, word) in entry.iter().enumerate() {
                self.libos.view.write(32 * i + 8 * j, *word).unwrap();
            }
        }
        for log in &self.logs {
            for (i, page) in pages(log).iter().enumerate() {
                log.view.write(8 + 8 * i, *page).unwrap();
            }
        }
        let places = pages(&self.shared);
        let put = |at: usize, value: u64| self.arguments.view.write(at, value).unwrap();
        put(0, places[0]);
        put(8, places.len() as u64);
        put(0x10, COMMANDS as u64);
        put(0x18, STATUSES as u64);
    }

    fn fill_queues(&self) {
        for (i, page) in pages(&self.shared).iter().enumerate() {
            self.shared.view.write(8 * i, *page).unwrap();
        }
        let header = [0, QUEUE as u32, 0x1000, ENTRIES, 0, 1, 0x20, 0x1000];
        for (i, word) in header.iter().enumerate() {
            self.shared.view.write(COMMANDS + 4 * i, *word).unwrap();
        }
    }

    /// `GspSystemInfo` of the branch.
    pub fn system_info(&self) -> Vec<u8> {
        let (size, user, mirror) = match &self.firmware.version[..3] {
            "535" => (0x298, 0x38, 0x40),
            "550" => (0x370, 0x40, 0x48),
            _ => (0x3a0, 0x48, 0x50),
        };
        let mut info = vec![0; size];
        let mut put =
            |at: usize, value: u64| info[at..at + 8].copy_from_slice(&value.to_le_bytes());
        for (i, bar) in BARS.iter().enumerate() {
            put(8 * i, *bar);
        }
        put(user, 0x7fff_ffff_f000);
        put(mirror, u64::from(self.rig.chip.mirror()) | 0x1000 << 32);
        info
    }

    /// A message of the host with the next number.
    pub fn message(&self, function: u32, payload: &[u8]) -> Vec<u8> {
        let number = self.numbers[0].get();
        self.numbers[0].set(number + 1);
        let length = 0x20 + payload.len();
        let count = (0x30 + length).div_ceil(4096);
        let mut message = vec![0; count * 4096];
        let head = [0, number, count as u32, 0];
        let rpc = [
            0x0300_0000,
            0x4350_5256,
            length as u32,
            function,
            u32::MAX,
            u32::MAX,
            7,
            0,
        ];
        message[0x20..0x30].copy_from_slice(&bytes(&head));
        message[0x30..0x50].copy_from_slice(&bytes(&rpc));
        message[0x50..0x50 + payload.len()].copy_from_slice(payload);
        sign(&mut message);
        message
    }

    /// Puts a message into the queue, and says so.
    pub fn push(&self, message: &[u8]) {
        let mut place = self.places[0].get();
        for part in message.chunks(4096) {
            let at = COMMANDS + 4096 + 4096 * place as usize;
            self.shared.view.copy_from_slice(at, part).unwrap();
            place = (place + 1) % ENTRIES;
        }
        self.places[0].set(place);
        self.shared.view.write(COMMANDS + 0x10, place).unwrap();
        self.rig.set(GSP + 0xc00, 0);
    }

    /// The next message of GSP, one record of it.
    pub fn record(&self) -> Message {
        let written = || self.shared.view.read::<u32>(STATUSES + 0x10).unwrap();
        let place = self.places[1].get();
        self.rig.until("a message of GSP", || written() != place);
        let mut record = vec![0; 4096];
        let entry = |place: u32| STATUSES + 4096 + 4096 * place as usize;
        self.shared
            .view
            .copy_to_slice(entry(place), &mut record)
            .unwrap();
        let count = words(&record[0x28..0x2c])[0];
        record.resize(count as usize * 4096, 0);
        for (i, part) in (0..).zip(record.chunks_mut(4096)) {
            let at = entry((place + i) % ENTRIES);
            self.shared.view.copy_to_slice(at, part).unwrap();
        }
        assert_eq!(fold(&record), 0);
        let number = self.numbers[1].get();
        assert_eq!(words(&record[0x24..0x28])[0], number);
        self.numbers[1].set(number + 1);
        let place = (place + count) % ENTRIES;
        self.places[1].set(place);
        self.shared.view.write(COMMANDS + 0x20, place).unwrap();
        let rpc = words(&record[0x30..0x50]);
        assert_eq!(rpc[..2], [0x0300_0000, 0x4350_5256]);
        Message {
            function: rpc[3],
            result: rpc[4],
            payload: record[0x50..0x30 + rpc[2] as usize].to_vec(),
        }
    }

    /// An RPC, and its answer; both may take several records.
    pub fn rpc(&self, function: u32, payload: &[u8]) -> Message {
        let most = 16 * 4096 - 0x50;
        let mut parts = payload.chunks(most);
        let first = parts.next().unwrap_or_default();
        self.push(&self.message(function, first));
        parts.for_each(|part| self.push(&self.message(71, part)));
        let mut answer = self.record();
        assert_eq!(answer.function, function);
        while answer.payload.len() < payload.len() {
            let more = self.record();
            assert_eq!(more.function, 71);
            answer.payload.extend(more.payload);
        }
        answer
    }

    /// FWSEC's microcode as the ROM has it: code, and data.
    pub fn fwsec_code(&self) -> Hs {
        let rom = self.rig.chip.rom.as_ref().unwrap().rom();
        let mut prom = vec![0; rom.bytes.len() - rom.start];
        self.rig.registers.read_bytes(0x30_0000, &mut prom).unwrap();
        let descriptor = words(&prom[rom.descriptor..][..44]);
        let code = descriptor[5] as usize;
        let (code, data) = prom[rom.ucode..][..descriptor[1] as usize].split_at(code);
        Hs {
            code: code.to_vec(),
            data: data.to_vec(),
        }
    }

    /// The same, with a command and the signature of a version.
    pub fn fwsec_told(&self, command: u32, argument: &[u32], version: u8) -> Hs {
        let mut hs = self.fwsec_code();
        let mapper = vbios::MAPPER;
        let buffer = words(&hs.data[mapper + 8..mapper + 12])[0] as usize;
        hs.data[mapper + 0x2c..mapper + 0x30].copy_from_slice(&bytes(&[command]));
        hs.data[buffer..buffer + 4 * argument.len()].copy_from_slice(&bytes(argument));
        let signature = vbios::Fwsec::signature(version);
        hs.data[vbios::PATCH..vbios::PATCH + signature.len()].copy_from_slice(&signature);
        hs
    }

    /// Loads microcode, its code at a virtual address.
    pub fn load(&self, falcon: u64, hs: &Hs, virt: u32) {
        let rig = &self.rig;
        rig.allow_transfers(falcon);
        let memory = rig.memory(&[hs.code.clone(), hs.data.clone()].concat());
        let at = bytes_of(&memory);
        rig.transfer(falcon, at, virt, 0, hs.code.len(), true);
        let data = at + hs.code.len() as u64;
        rig.transfer(falcon, data, 0, 0, hs.data.len(), false);
        rig.set(falcon + 0x104, virt);
    }

    /// FWSEC on GSP, with what it is told.
    pub fn fwsec(&self, hs: &Hs) {
        self.rig.reset(GSP);
        self.rig.select_falcon(GSP);
        self.load(GSP, hs, 0);
        self.rig.boot_rom(GSP, [vbios::PATCH as u32, 0x400, 9]);
        self.rig.start(GSP).unwrap();
        self.rig.halted(GSP);
    }

    /// What FRTS is told.
    pub fn frts_argument(&self) -> [u32; 11] {
        let place = (self.frts_place() >> 12) as u32;
        [1, 24, 0, 0, 0, 2, 1, 20, place, 0x100, 2]
    }

    /// FWSEC sets FRTS up.
    pub fn frts(&self) {
        assert_eq!(self.rig.get(0x1f_a828), 0);
        let hs = self.fwsec_told(0x15, &self.frts_argument(), 2);
        self.fwsec(&hs);
    }

    /// GSP waits for its start.
    pub fn select(&self) {
        self.rig.reset(GSP);
        self.rig.select_riscv(GSP);
        self.rig.mailbox(GSP, bytes_of(&self.libos));
    }

    /// A booter on SEC2; the result.
    pub fn booter(&self, hs: &Hs, argument: u64) -> u32 {
        self.rig.reset(SEC2);
        self.rig.select_falcon(SEC2);
        self.load(SEC2, hs, 0x100);
        self.rig.boot_rom(SEC2, [PATCH as u32, 1, 3]);
        self.rig.mailbox(SEC2, argument);
        self.rig.start(SEC2).unwrap();
        self.rig.halted(SEC2);
        self.rig.get(SEC2 + 0x40)
    }

    /// The booter that starts GSP; the result.
    pub fn booter_load(&self) -> u32 {
        let load = self.firmware.load.clone();
        self.booter(&load, bytes_of(&self.meta))
    }

    /// All until the firmware runs.
    pub fn until_started(&self) {
        self.frts();
        self.select();
        assert_eq!(self.booter_load(), 0);
        self.rig.set(GSP + 0x80, 0);
        self.rig
            .until("RISC-V", || self.rig.get(GSP + 0x1388) >> 7 & 1 != 0);
    }

    /// All until RPCs are answered.
    pub fn until_done(&self) {
        self.until_started();
        let first = self.record();
        assert_eq!(first.function, 0x1002);
        self.sequencer(&words(&first.payload));
        assert_eq!(self.record().function, 0x1001);
    }

    /// Runs the sequencer of GSP.
    pub fn sequencer(&self, payload: &[u32]) {
        let rig = &self.rig;
        let mut rest = &payload[10..10 + payload[1] as usize];
        while let Some((operation, arguments)) = rest.split_first() {
            let at = |i: usize| u64::from(arguments[i]);
            let taken = match operation {
                0 => {
                    rig.set(at(0), arguments[1]);
                    2
                }
                1 => {
                    let value = rig.get(at(0)) & !arguments[1];
                    rig.set(at(0), value | arguments[2]);
                    3
                }
                2 => {
                    let poll = || rig.get(at(0)) & arguments[1] == arguments[2];
                    rig.until("a poll of the sequencer", poll);
                    5
                }
                3 => 1,
                4 => {
                    rig.get(at(0));
                    2
                }
                5 => {
                    rig.reset(GSP);
                    rig.select_falcon(GSP);
                    rig.allow_transfers(GSP);
                    0
                }
                6 => {
                    rig.start(GSP).unwrap();
                    0
                }
                7 => {
                    rig.halted(GSP);
                    0
                }
                _ => {
                    self.select();
                    rig.start(SEC2).unwrap();
                    rig.until("the handoff", || rig.get(0x11_80f8) >> 26 & 1 != 0);
                    assert_eq!(rig.get(SEC2 + 0x40), 0);
                    rig.set(GSP + 0x80, 0);
                    0
                }
            };
            rest = &arguments[taken..];
        }
    }

    /// A control that does not exist, with so many bytes of parameters.
    pub fn control_of(&self, size: usize) -> Message {
        let head = [0xc1e0_0004, 0xabcd_2080, 0x2080_ffff, 0, size as u32, 0];
        self.rpc(76, &[bytes(&head), vec![7; size]].concat())
    }

    /// GSP_RM_ALLOC: status, and parameters as they come back.
    pub fn alloc(
        &self,
        [client, parent, object, class]: [u32; 4],
        params: &[u8],
    ) -> (u32, Vec<u8>) {
        let head = [client, parent, object, class, 0, params.len() as u32, 0, 0];
        let answer = self.rpc(103, &[bytes(&head), params.to_vec()].concat());
        assert_eq!(answer.result, 0);
        (words(&answer.payload)[4], answer.payload[0x20..].to_vec())
    }

    /// GSP_RM_CONTROL: the same.
    pub fn control(&self, client: u32, object: u32, cmd: u32, params: &[u8]) -> (u32, Vec<u8>) {
        let head = [client, object, cmd, 0, params.len() as u32, 0];
        let answer = self.rpc(76, &[bytes(&head), params.to_vec()].concat());
        assert_eq!(answer.result, 0);
        (words(&answer.payload)[3], answer.payload[0x18..].to_vec())
    }
}

/// The exclusive or of the words.
pub fn fold(message: &[u8]) -> u32 {
    words(message).iter().fold(0, |sum, word| sum ^ word)
}

/// Gives a message its checksum.
pub fn sign(message: &mut [u8]) {
    message[0x20..0x24].fill(0);
    let sum = fold(message);
    message[0x20..0x24].copy_from_slice(&bytes(&[sum]));
}

/// A table of two settings.
pub fn registry() -> Vec<u8> {
    let names = b"RMSecBusResetEnable\0RMForcePcieConfigSave\0";
    let first = 8 + 2 * 16;
    let head = [first + names.len() as u32, 2];
    let entries = [[first, 1, 1, 4], [first + 20, 1, 1, 4]];
    [bytes(&head), bytes(entries.as_flattened()), names.to_vec()].concat()
}
