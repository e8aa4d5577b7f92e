//! Deliberate bugs in the start of a card and in its queues: what our driver tells the card is changed on its way, and
//! the twin names the rule that is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drivers_amd::Options;
use drivers_amd::am::areas::MQDS;
use drivers_gpu::backend::{Memory, Request};
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use hcq::{Command, Device, KernelImage, MemoryKind, QueueKind, Stream, Val};
use twin_amd::pci::chip::Chip;
use twin_amd::pci::machine::PciMachine;

use super::boot::firmware;
use super::mock::Mock;
use super::stand;

/// What becomes of an access.
enum Turn {
    /// It stays as it is.
    Same,
    /// It is not made.
    Lost,
    /// It is not made, and answered so.
    Said(u64),
    /// A write of another value.
    Else(u32),
}

/// A bug.
struct Bug {
    what: &'static str,
    /// The rule that has to name it.
    rule: &'static str,
    /// What becomes of an access to a register: its name, whether it is a write, and the value.
    registers: fn(&str, bool, u32) -> Turn,
    /// What becomes of what is written to VRAM: where, and the bytes.
    vram: fn(u64, &mut [u8]),
    /// The command register without being a master.
    is_no_master: bool,
}

const NONE: Bug = Bug {
    what: "none",
    rule: "",
    registers: |_, _, _| Turn::Same,
    vram: |_, _| {},
    is_no_master: false,
};

/// A bug in what one register is told.
macro_rules! told {
    ($what:literal, $rule:literal, $name:literal, |$value:ident| $turn:expr) => {
        Bug {
            what: $what,
            rule: $rule,
            registers: |name, is_write, value| {
                let $value = value;
                match name == $name && is_write {
                    true => $turn,
                    false => Turn::Same,
                }
            },
            ..NONE
        }
    };
}

/// A bug by which one register is not told at all.
macro_rules! untold {
    ($what:literal, $rule:literal, $name:literal) => {
        told!($what, $rule, $name, |_value| Turn::Lost)
    };
}

/// Where page tables are.
const TABLES: std::ops::Range<u64> = 32 << 20..64 << 20;

/// Changes entries of page tables.
fn entries(at: u64, bytes: &mut [u8], change: impl Fn(u64) -> u64) {
    if !TABLES.contains(&at) || !at.is_multiple_of(8) {
        return;
    }
    for entry in bytes.chunks_exact_mut(8) {
        let value = entry
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        entry.copy_from_slice(&change(value).to_le_bytes());
    }
}

/// Bits of an entry of GFX12: valid, may be read, the page itself.
const VALID: u64 = 1;
const READABLE: u64 = 1 << 5;
const IS_PTE: u64 = 1 << 63;

static BUGS: &[Bug] = &[
    untold!(
        "the flush register is shown where firmware has left it",
        "AMD-PCI-REGISTER",
        "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL"
    ),
    told!(
        "the flush register is shown over another one",
        "AMD-PCI-REGISTER",
        "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL",
        |_value| Turn::Else(0x1_2808)
    ),
    untold!(
        "doorbells are not opened",
        "AMD-DOORBELL-APERTURE",
        "RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN"
    ),
    Bug {
        what: "no way for doorbells to the command processor",
        rule: "AMD-DOORBELL-ROUTE",
        registers: |name, is_write, _| {
            let ways = ["S2A_DOORBELL_ENTRY_0_CTRL", "S2A_DOORBELL_ENTRY_3_CTRL"];
            match ways.contains(&name) && is_write {
                true => Turn::Lost,
                false => Turn::Same,
            }
        },
        ..NONE
    },
    told!(
        "doorbells of copy engines begin too late",
        "AMD-DOORBELL-NOBODY",
        "S2A_DOORBELL_ENTRY_2_CTRL",
        |value| Turn::Else(value + (0x100 << 7))
    ),
    told!(
        "the range of the MEC ends before its first doorbell",
        "GFX-HQD-DOORBELL",
        "CP_MEC_DOORBELL_RANGE_UPPER",
        |_value| Turn::Else(8)
    ),
    told!(
        "the selection of banked registers stays",
        "GFX-SELECT-BACK",
        "GRBM_GFX_CNTL",
        |value| if value == 0 { Turn::Lost } else { Turn::Same }
    ),
    told!(
        "queue and pipe are swapped in the selection",
        "GFX-RS64-ENTRY",
        "GRBM_GFX_CNTL",
        |value| Turn::Else(value & !0xf | value >> 2 & 3)
    ),
    untold!(
        "shaders have aligned accesses only",
        "GFX-SH-MEM",
        "SH_MEM_CONFIG"
    ),
    told!(
        "the apertures of shaders are swapped",
        "GFX-SH-MEM",
        "SH_MEM_BASES",
        |value| Turn::Else(value.rotate_left(16))
    ),
    told!(
        "the start of the MEC is counted in bytes",
        "GFX-RS64-ENTRY",
        "CP_MEC_RS64_PRGRM_CNTR_START",
        |value| Turn::Else(value << 2)
    ),
    told!(
        "the MEC is not reset",
        "GFX-RS64-ENTRY",
        "CP_MEC_RS64_CNTL",
        |value| Turn::Else(value & !(1 << 16))
    ),
    told!(
        "the MEC stays halted",
        "GFX-HQD-RUNS",
        "CP_MEC_RS64_CNTL",
        |value| Turn::Else(value | 1 << 30)
    ),
    Bug {
        what: "nobody waits for the firmware of the block",
        rule: "GFX-AUTOLOAD",
        registers: |name, is_write, _| match (name, is_write) {
            ("RLC_RLCS_BOOTLOAD_STATUS", false) => Turn::Said(1 << 31),
            ("CP_STAT", false) => Turn::Said(0),
            _ => Turn::Same,
        },
        ..NONE
    },
    told!(
        "safe mode is told without its command bit",
        "GFX-SAFE-MODE",
        "RLC_SAFE_MODE",
        |value| Turn::Else(value & !1)
    ),
    Bug {
        what: "no end-of-pipe buffer",
        rule: "GFX-HQD-NEEDS",
        registers: |name, is_write, _| match is_write && name.starts_with("CP_HQD_EOP_BASE_ADDR") {
            true => Turn::Lost,
            false => Turn::Same,
        },
        ..NONE
    },
    untold!(
        "half of the address of the end-of-pipe buffer",
        "GPU-PAGE-FAULT",
        "CP_HQD_EOP_BASE_ADDR_HI"
    ),
    told!(
        "the pointers of a queue are swapped",
        "GFX-MQD",
        "CP_HQD_PQ_RPTR_REPORT_ADDR",
        |value| Turn::Else(value ^ 0x80 ^ 0x38)
    ),
    told!(
        "the image of a queue is somewhere else",
        "GFX-MQD",
        "CP_MQD_BASE_ADDR",
        |value| Turn::Else(value + 0x1000)
    ),
    Bug {
        what: "the image of a queue has no compute units",
        rule: "GFX-MQD",
        vram: |at, bytes| {
            if at == MQDS.at.0 {
                bytes[0x17 * 4..0x1c * 4].fill(0);
            }
        },
        ..NONE
    },
    told!(
        "the doorbell of a queue is not enabled",
        "GFX-HQD-DOORBELL",
        "CP_HQD_PQ_DOORBELL_CONTROL",
        |value| Turn::Else(value & !(1 << 30))
    ),
    told!(
        "the ring of a queue is half as large",
        "GFX-MQD",
        "CP_HQD_PQ_CONTROL",
        |value| Turn::Else(value - 1)
    ),
    told!(
        "copy engines stay halted",
        "SDMA-RUNS",
        "SDMA0_MCU_CNTL",
        |value| Turn::Else(value | 1)
    ),
    told!(
        "a copy queue starts while its pointers may go back",
        "SDMA-MINOR-PTR",
        "SDMA0_QUEUE0_MINOR_PTR_UPDATE",
        |_value| Turn::Else(1)
    ),
    untold!(
        "a copy queue without a ring",
        "GPU-PAGE-FAULT",
        "SDMA0_QUEUE0_RB_BASE_HI"
    ),
    told!(
        "a copy queue does not tell what it has read",
        "SDMA-RB-NEEDS",
        "SDMA0_QUEUE0_RB_CNTL",
        |value| Turn::Else(value & !(1 << 12))
    ),
    untold!(
        "a copy queue without a doorbell",
        "SDMA-DOORBELL",
        "SDMA0_QUEUE0_DOORBELL"
    ),
    told!(
        "two stages of the PSP's bootloader are swapped",
        "AMD-PSP-BOOTLOADER",
        "MP0_SMN_C2PMSG_35",
        |value| match value {
            0x1_0000 => Turn::Else(0xb_0000),
            0xb_0000 => Turn::Else(0x1_0000),
            _ => Turn::Same,
        }
    ),
    told!(
        "the PSP gets its first image from somewhere else",
        "AMD-PSP-IMAGE",
        "MP0_SMN_C2PMSG_36",
        |value| Turn::Else(value + 1)
    ),
    told!(
        "the PSP's ring is counted in bytes",
        "AMD-PSP-RING",
        "MP0_SMN_C2PMSG_67",
        |value| Turn::Else(value * 4)
    ),
    told!(
        "the interrupt ring is in the address space of a program",
        "AMD-IH-SPACE",
        "IH_RB_CNTL",
        |value| Turn::Else(value | 1 << 24)
    ),
    told!(
        "the interrupt ring is in no space that there is",
        "AMD-IH-SPACE",
        "IH_RB_CNTL_RING1",
        |value| Turn::Else(value & !(7 << 28))
    ),
    told!(
        "the answer of the SMU is not cleared before a message",
        "AMD-SMU-MESSAGE",
        "MP1_SMN_C2PMSG_90",
        |_value| Turn::Lost
    ),
    Bug {
        what: "the memory hub is told without its semaphore",
        rule: "AMD-HUB-SEMAPHORE",
        registers: |name, is_write, _| match (name, is_write) {
            ("MMVM_INVALIDATE_ENG17_SEM", false) => Turn::Said(1),
            _ => Turn::Same,
        },
        ..NONE
    },
    Bug {
        what: "the hub of the graphics block is not told to forget",
        rule: "AMD-HUB-STALE-TLB",
        registers: |name, is_write, _| match (name, is_write) {
            ("GCVM_INVALIDATE_ENG17_REQ", true) => Turn::Lost,
            ("GCVM_INVALIDATE_ENG17_ACK", false) => Turn::Said(1),
            _ => Turn::Same,
        },
        ..NONE
    },
    untold!(
        "the invalidation covers the first addresses only",
        "AMD-HUB-RANGE",
        "GCVM_INVALIDATE_ENG17_ADDR_RANGE_LO32"
    ),
    told!(
        "the first TLB of the hub stays off",
        "AMD-HUB-OFF",
        "GCMC_VM_MX_L1_TLB_CNTL",
        |value| Turn::Else(value & !1)
    ),
    Bug {
        what: "pages are not marked as pages",
        rule: "AMD-PTE-LEAF",
        vram: |at, bytes| {
            entries(at, bytes, |entry| match entry & READABLE {
                0 => entry,
                _ => entry & !IS_PTE,
            });
        },
        ..NONE
    },
    Bug {
        what: "entries that lead to tables have bits of pages",
        rule: "AMD-PTE-RESERVED",
        vram: |at, bytes| {
            entries(at, bytes, |entry| match (entry & VALID, entry & READABLE) {
                (VALID, 0) => entry | READABLE,
                _ => entry,
            });
        },
        ..NONE
    },
    Bug {
        what: "the card may not access the host",
        rule: "PCI-MASTER",
        is_no_master: true,
        ..NONE
    },
];

/// Stands between the driver and the card.
struct Between {
    bug: &'static Bug,
    names: Arc<Mock>,
    /// What the pair that reaches registers beyond the BAR means.
    index: AtomicU64,
}

impl Between {
    fn dword(&self, offset: u64) -> u64 {
        match offset / 4 {
            0x15 => self.index.load(Ordering::Relaxed) / 4,
            dword => dword,
        }
    }
}

impl Tap for Between {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        /// The command register, and its bit.
        const COMMAND: u64 = 4;
        const MASTER: u64 = 4;
        let (bar, offset) = (access.arg("bar"), access.arg("offset"));
        let is_write = access.verb == Verb::Write;
        let turn = match (access.verb, bar) {
            (Verb::Write | Verb::Read, 5) => {
                let value = access.arg("value");
                if is_write && offset / 4 == 0x14 {
                    self.index.store(value, Ordering::Relaxed);
                }
                let name = self.names.name(self.dword(offset));
                (self.bug.registers)(name, is_write, value as u32)
            }
            (Verb::WriteBytes, 0) => {
                (self.bug.vram)(offset, &mut access.data);
                Turn::Same
            }
            (Verb::ConfigWrite, _) if self.bug.is_no_master && offset == COMMAND => {
                access.args[2] &= !MASTER;
                Turn::Same
            }
            _ => Turn::Same,
        };
        match turn {
            Turn::Same => {}
            Turn::Else(value) => access.args[3] = value.into(),
            Turn::Lost => return Some(Ok(Answer::default())),
            Turn::Said(value) => return Some(Ok(Answer::value(value))),
        }
        None
    }
}

/// Starts a card with a bug, and works with it as far as that goes. Which rules were broken.
fn broken(bug: &'static Bug, image: &KernelImage) -> Vec<&'static str> {
    let twin = PciMachine::new("chip=gfx1201").unwrap();
    let between = Arc::new(Between {
        bug,
        names: Mock::new(Chip::of("gfx1201").unwrap()),
        index: AtomicU64::new(0),
    });
    let machine = Tapped::machine(twin.clone(), between);
    let address = twin.pci_functions().unwrap()[0].address.clone();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
    let options = Options {
        firmware: vec![firmware()],
        ..stand::options()
    };
    let work = || -> hcq::Result<()> {
        let backend = drivers_amd::am::open(&machine, &address, 0, &clock, &options)?;
        let device = drivers_amd::over(&backend, &options)?;
        for _ in 0..2 {
            stand::work_on(&*device, image, 0)?;
            stand::memory(&*device, MemoryKind::Device, 64 << 20)?.write(0, &[1])?;
        }
        // An address that means something else the second time.
        let copies = Stream::new(device.queue(QueueKind::Copy, 0)?);
        let memory = |kind| {
            backend.memory(&Request {
                bytes: 64 << 10,
                align: 64 << 10,
                kind,
                what: "memory for a moment",
            })
        };
        let copy = |at: u64| {
            let copy = Command::Copy {
                dst: Val::Const(at),
                src: Val::Const(at + 4096),
                bytes: 4096,
            };
            copies.submit(&[], &[copy])?.wait(stand::soon())
        };
        let first = memory(MemoryKind::Device)?;
        let at = first.va.0;
        copy(at)?;
        drop(first);
        // Others may be taken before it.
        let mut second = Vec::new();
        while second.last().is_none_or(|one: &Memory| one.va.0 != at) {
            assert!(second.len() < 1000, "{at:#x} is never given again");
            second.push(memory(MemoryKind::Host)?);
        }
        copy(at)?;
        Ok(())
    };
    // Whether it comes to an end in words or not at all noticed, does not matter here.
    _ = work();
    let violations = twin.journal().violations();
    violations
        .iter()
        .map(|violation| violation.rule.name)
        .collect()
}

#[test]
fn each_bug_is_named_by_its_rule() {
    stand::hurry();
    let image = stand::kernel("gfx1201", "sums", 2);
    assert_eq!(broken(&RIGHT, &image), [""; 0]);
    let mut missed = Vec::new();
    for bug in BUGS {
        let found = broken(bug, &image);
        if !found.contains(&bug.rule) {
            missed.push(format!(
                "{}: expected {}, found {found:?}",
                bug.what, bug.rule
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The driver as it is.
static RIGHT: Bug = NONE;
