//! A falcon with its memories, its DMA and its boot ROM.

use std::collections::BTreeMap;

use vbios::{CODE, Fwsec, MAPPER};

use super::card::{BOOT_0, Memory};
use super::files;

/// `HWCFG2` of a falcon that the FSP keeps to itself.
const LOCKED: u32 = 1 << 31 | 1 << 13 | 1 << 10;

/// What a falcon has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    Reset(&'static str),
    Frts { offset: u64, size: u64 },
    Sb,
    Load(u64),
    Unload([u32; 2]),
}

/// How far a falcon may be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    Open,
    /// Nothing, for so many looks; then its state says that the rest is locked, for one look.
    Closed(u32),
    /// Its state and its mailboxes; for good.
    Stays,
}

/// A falcon.
pub struct Core {
    name: &'static str,
    pub mailboxes: [u32; 2],
    pub is_riscv: bool,
    pub active: bool,
    pub halted: bool,
    /// Its RISC-V core has halted.
    pub ended: bool,
    /// What the FSP keeps to itself.
    pub lock: Lock,
    /// Looks until the mailboxes are read, by what runs here.
    pub lingers: u32,
    registers: BTreeMap<u32, u32>,
    /// Blocks of code by their virtual number, and data.
    imem: BTreeMap<u32, Vec<u8>>,
    dmem: Vec<u8>,
    in_reset: bool,
    /// Reads of the reset register until it may go on; looks until memories are cleared; until DMA has ended.
    settles: u32,
    scrubs: u32,
    busy: u32,
    /// Looks until a crash shows.
    crash: Option<u32>,
}

impl Core {
    pub fn new(name: &'static str) -> Core {
        Core {
            name,
            mailboxes: [0; 2],
            is_riscv: name == "GSP",
            active: false,
            halted: true,
            ended: false,
            lock: Lock::Open,
            lingers: 0,
            registers: BTreeMap::new(),
            imem: BTreeMap::new(),
            dmem: Vec::new(),
            in_reset: false,
            settles: 0,
            scrubs: 0,
            busy: 0,
            crash: None,
        }
    }

    /// Crashes after the first look: whether it is active until then.
    pub fn crash_later(&mut self) -> bool {
        self.crash = Some(1);
        true
    }

    fn at(&self, register: u32) -> u32 {
        self.registers.get(&register).copied().unwrap_or(0)
    }

    fn rule(&self, holds: bool, rule: &str) {
        assert!(holds, "{}: {rule}", self.name);
    }

    pub fn read(&mut self, at: u32) -> u32 {
        if at == 0x3c0 {
            self.settles = self.settles.saturating_sub(1);
            return self.in_reset.into();
        }
        self.rule(
            self.settles == 0,
            "the reset is read ten times before anything else",
        );
        match (at, self.lock) {
            (0xf4, Lock::Closed(looks)) => {
                self.lock = match looks {
                    0 => Lock::Open,
                    _ => Lock::Closed(looks - 1),
                };
                return if looks > 0 { 0xbadf_4100 } else { LOCKED };
            }
            (0xf4, Lock::Stays) => return LOCKED,
            (_, Lock::Open) | (0x40 | 0x44, Lock::Stays) => {}
            (_, lock) => panic!("{}: read of {at:#x} while {lock:?}", self.name),
        }
        match at {
            0x40 => {
                let first = self.mailboxes[0];
                if self.lingers > 0 {
                    self.lingers -= 1;
                    if self.lingers == 0 {
                        self.mailboxes = [0; 2];
                        return 0;
                    }
                }
                first
            }
            0x44 => self.mailboxes[1],
            0xf4 => {
                let scrubs = u32::from(self.scrubs > 0) << 12;
                self.scrubs = self.scrubs.saturating_sub(1);
                1 << 31 | 1 << 10 | scrubs
            }
            0x100 => u32::from(self.halted) << 4,
            0x118 => {
                let busy = u32::from(self.busy > 0);
                self.busy = self.busy.saturating_sub(1);
                // Full for one look after each request.
                u32::from(self.busy > 2) | (busy ^ 1) << 1
            }
            0x600 | 0x624 => self.at(at),
            0x1388 => {
                if let Some(looks) = &mut self.crash {
                    match *looks {
                        0 => self.active = false,
                        _ => *looks -= 1,
                    }
                }
                u32::from(self.active) << 7 | u32::from(self.ended) << 4
            }
            0x1668 => u32::from(self.is_riscv) << 4 | 1,
            _ => panic!("{}: read of {at:#x}", self.name),
        }
    }

    pub fn write(&mut self, at: u32, value: u32, memory: &Memory) -> Option<Ran> {
        self.rule(self.lock == Lock::Open, "nothing is written while locked");
        if at != 0x3c0 {
            self.rule(
                !self.in_reset && self.settles == 0,
                "nothing is written in reset",
            );
            self.rule(
                self.scrubs == 0,
                "memories are cleared before anything is written",
            );
        }
        match at {
            0x3c0 => return self.reset(value),
            0x40 => self.mailboxes[0] = value,
            0x44 => self.mailboxes[1] = value,
            0x84 => assert_eq!(value, BOOT_0),
            0x100 => {
                assert_eq!(value, 2);
                return Some(self.start());
            }
            0x118 => self.transfer(value, memory),
            0x110 | 0x128 => {
                self.rule(
                    self.busy <= 2,
                    "the base is written while the queue has room",
                );
                self.registers.insert(at, value);
            }
            0x1668 => self.is_riscv = value & 0x10 != 0,
            0x80 | 0x104 | 0x10c | 0x114 | 0x11c | 0x600 | 0x624 | 0x1180 | 0x1198 | 0x119c
            | 0x1210 => {
                self.registers.insert(at, value);
            }
            _ => panic!("{}: write of {value:#x} to {at:#x}", self.name),
        }
        None
    }

    fn reset(&mut self, value: u32) -> Option<Ran> {
        self.rule(
            self.settles == 0,
            "the reset is read ten times before it is written again",
        );
        self.settles = 10;
        match value {
            1 => self.in_reset = true,
            _ => {
                self.rule(self.in_reset, "a reset is started before it is ended");
                let name = self.name;
                *self = Core {
                    is_riscv: false,
                    settles: 10,
                    scrubs: 3,
                    ..Core::new(name)
                };
                return Some(Ran::Reset(name));
            }
        }
        None
    }

    fn transfer(&mut self, command: u32, memory: &Memory) {
        self.rule(
            self.at(0x624) & 0x80 != 0,
            "DMA without a context is allowed before",
        );
        self.rule(
            self.registers.contains_key(&0x10c),
            "DMACTL is cleared before",
        );
        self.rule(
            self.at(0x600) & 7 == 5,
            "DMA goes to coherent memory, physically",
        );
        self.rule(self.busy <= 2, "a request is made while there is room");
        let base = u64::from(self.at(0x110)) << 8 | u64::from(self.at(0x128)) << 40;
        let offset = self.at(0x11c);
        let block = memory.read(base.wrapping_add(offset.into()), 256);
        match command {
            // To code, secure, 256 bytes.
            0x614 => {
                self.imem.insert(offset >> 8, block);
            }
            0x600 => {
                let to = self.at(0x114) as usize;
                self.dmem.resize(self.dmem.len().max(to + 256), 0);
                self.dmem[to..to + 256].copy_from_slice(&block);
            }
            _ => panic!("{}: DMA command {command:#x}", self.name),
        }
        self.busy = 4;
    }

    /// The boot ROM verifies what was loaded, and it runs to its end.
    fn start(&mut self) -> Ran {
        self.rule(!self.is_riscv, "the falcon's core is selected");
        self.rule(self.busy == 0, "DMA has ended");
        assert_eq!(self.at(0x1180), 1, "RSA of 3072 bits");
        let start = self.at(0x104);
        let code = self.imem.get(&(start >> 8)).expect("code at BOOTVEC");
        let para = self.at(0x1210) as usize;
        let signature = &self.dmem[para..para + 384];
        let (engine, ucode) = (self.at(0x119c), self.at(0x1198));
        let dword = |at: usize| u32::from_le_bytes(self.dmem[at..][..4].try_into().unwrap());
        self.halted = true;
        if self.name == "GSP" {
            assert_eq!((&code[..2], start), (&[0xf8, 2][..], 0), "FWSEC");
            assert_eq!((self.imem.len(), engine, ucode), (CODE / 256, 0x400, 9));
            assert_eq!(
                signature,
                Fwsec::signature(2),
                "the signature of the fuse's version"
            );
            return match dword(MAPPER + 0x2c) {
                0x15 => Ran::Frts {
                    offset: u64::from(dword(0x100 + 32)) << 12,
                    size: u64::from(dword(0x100 + 36)) << 12,
                },
                0x19 => Ran::Sb,
                command => panic!("FWSEC's command {command:#x}"),
            };
        }
        assert_eq!((start as usize, engine, ucode), (files::APP, 1, 3));
        assert!(
            signature.iter().all(|byte| *byte == files::SIGNATURE),
            "fuse 1"
        );
        match &code[..4] {
            mark if mark == files::LOAD => {
                let [low, high] = self.mailboxes;
                Ran::Load(u64::from(high) << 32 | u64::from(low))
            }
            mark if mark == files::UNLOAD => Ran::Unload(self.mailboxes),
            mark => panic!("booter {mark:x?}"),
        }
    }
}
