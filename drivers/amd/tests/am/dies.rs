//! Deliberate bugs in what MI300X has more than other cards: several XCCs, dies, copy engines of their own, a clock that
//! is captured. What our driver tells the card is changed on its way, and the twin names the rule that is broken.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drivers_amd::Options;
use drivers_amd::am::areas::{MQDS, PSP_COMMAND};
use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{header, tables};
use drivers_spec::amd::psp::{CmdResp, cmd};
use hcq::reg::{At, IpVersion};
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use hcq::{Device, KernelImage, MemoryKind};
use twin_amd::pci::chip::MI300X;
use twin_amd::pci::machine::PciMachine;
use zerocopy::FromBytes;

use super::boot::firmware;
use super::stand;

/// A register: its name, and of which XCC, die or engine it is.
type Of = (&'static str, u8);

/// What becomes of a write.
enum Turn {
    /// It stays as it is.
    Same,
    /// It is not made.
    Lost,
    /// Another value is written.
    Else(u32),
}

use Turn::{Else, Lost, Same};

/// A bug.
struct Bug {
    what: &'static str,
    /// The rule that has to name it.
    rule: &'static str,
    /// What becomes of what a register is told.
    told: fn(Of, u32) -> Turn,
    /// What becomes of what is written to VRAM.
    vram: fn(u64, &mut [u8]),
}

const NONE: Bug = Bug {
    what: "none",
    rule: "",
    told: |_, _| Same,
    vram: |_, _| {},
};

/// A dword of the image of the first queue on an XCC.
fn image(xcc: u64, dword: usize, at: u64, bytes: &mut [u8], value: u32) {
    if at == MQDS.at.0 + 0x1000 * xcc {
        bytes[dword * 4..][..4].copy_from_slice(&value.to_le_bytes());
    }
}

static BUGS: &[Bug] = &[
    Bug {
        what: "one die does not hear doorbells",
        rule: "AMD-DOORBELL-FENCE",
        told: |of, _| match of {
            ("XCC_DOORBELL_FENCE", 3) => Lost,
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "doorbells wait for XCCs that are not there, and not for those that are",
        rule: "AMD-DOORBELL-FENCE",
        told: |of, value| match of {
            ("XCC_DOORBELL_FENCE", 0) => Else(value ^ 0xff),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the way on a die leads to another copy engine",
        rule: "AMD-DOORBELL-DIE",
        told: |of, value| match of {
            ("S2A_DOORBELL_ENTRY_1_CTRL", 0) => Else(value & !0x3e | 8 << 1),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the doorbells of a copy engine are those of the next",
        rule: "AMD-DOORBELL-NOBODY",
        told: |of, value| match of {
            ("DOORBELL0_CTRL_ENTRY_1", _) => Else(value + 20),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the high part of the address of a register stays",
        rule: "AMD-PCI-INDEX-HI",
        told: |of, value| match (of.0, value) {
            ("BIF_BX0_PCIE_INDEX2_HI", 0) => Lost,
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the flush register is shown where it is on Navi cards",
        rule: "AMD-HDP-REMAP",
        told: |of, _| match of.0 {
            "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL" => Else(0x7_f000),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the memory hub of one XCC is off",
        rule: "AMD-HUB-OFF",
        told: |of, value| match of {
            ("GCMC_VM_MX_L1_TLB_CNTL", 5) => Else(value & !1),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the memory hub of the first die is off",
        rule: "AMD-HUB-OFF",
        told: |of, _| match of {
            ("MMMC_VM_MX_L1_TLB_CNTL", 0) => Else(0),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "shaders of one XCC do not know where local memory is",
        rule: "GFX-SH-MEM",
        told: |of, _| match of {
            ("SH_MEM_BASES", 3) => Lost,
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "one XCC does not have the queue",
        rule: "GFX-AQL-XCCS",
        told: |of, value| match (of, value) {
            (("CP_HQD_ACTIVE", 7), 1) => Lost,
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "one XCC reads another ring",
        rule: "GFX-AQL-XCCS",
        told: |of, value| match of {
            ("CP_HQD_PQ_BASE", 4) => Else(value + 0x10),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "two XCCs do the same share",
        rule: "GFX-AQL-XCCS",
        vram: |at, bytes| image(2, 0x27, at, bytes, 1),
        ..NONE
    },
    Bug {
        what: "an XCC does not know where the images of the others are",
        rule: "GFX-AQL-XCCS",
        vram: |at, bytes| image(6, 0xe2, at, bytes, 0x800),
        ..NONE
    },
    Bug {
        what: "the XCCs are two GPUs",
        rule: "GFX-XCP",
        vram: |at, bytes| {
            let command = CmdResp::mut_from_bytes(bytes);
            let command = command.ok().filter(|_| at == PSP_COMMAND.at.0);
            if let Some(command) = command
                && command.cmd_id.get() == cmd::SPATIAL_PART
            {
                command.cmd[0] = 2;
            }
        },
        ..NONE
    },
    Bug {
        what: "copy engines do not translate addresses",
        rule: "SDMA-UTCL1",
        told: |of, value| match of.0 {
            "SDMA_CNTL" => Else(value & !2),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "a copy queue does not tell what it has read",
        rule: "SDMA-RB-NEEDS",
        told: |of, value| match of.0 {
            "SDMA_GFX_RB_CNTL" => Else(value & !(1 << 12)),
            _ => Same,
        },
        ..NONE
    },
    Bug {
        what: "the clock is read without being asked to hold",
        rule: "GFX-CLOCK-CAPTURE",
        told: |of, _| match of.0 {
            "RLC_CAPTURE_GPU_CLOCK_COUNT" => Lost,
            _ => Same,
        },
        ..NONE
    },
];

/// The registers of MI300X by their dword, with bits 34:32 of a byte address on another die.
fn names() -> BTreeMap<u64, Of> {
    let mut names = BTreeMap::new();
    for block in MI300X.contents().blocks {
        let (major, minor, revision) = block.version;
        let Ok(version) = header(block.hw_id, IpVersion(major, minor, revision)) else {
            continue;
        };
        let die = match (block.hw_id, block.instance) {
            (ip::NBIF, 1..) => (4 | u64::from(block.instance)) << 30,
            _ => 0,
        };
        for named in tables::all().filter(|named| named.hw_id == block.hw_id) {
            let At::Rows(rows) = named.reg.at else {
                continue;
            };
            if let Some(row) = rows.iter().find(|row| row.version == version) {
                let dword = block.bases[usize::from(row.segment)] + u64::from(row.dword) + die;
                let of = (named.reg.word.name, block.instance);
                names.entry(dword).or_insert(of);
            }
        }
    }
    names
}

/// Stands between the driver and the card.
struct Between {
    bug: &'static Bug,
    names: BTreeMap<u64, Of>,
    /// What PCIE_INDEX2 and PCIE_INDEX2_HI hold.
    index: [AtomicU64; 2],
}

impl Between {
    fn turn(&self, offset: u64, value: u64) -> Turn {
        const INDEX: u64 = 0xe;
        const DATA: u64 = 0xf;
        const HIGH: u64 = 0x11;
        let dword = match offset / 4 {
            DATA => {
                let [low, high] = [0, 1].map(|i| self.index[i].load(Ordering::Relaxed));
                (high << 32 | low) / 4
            }
            INDEX => {
                self.index[0].store(value, Ordering::Relaxed);
                INDEX
            }
            HIGH => {
                self.index[1].store(value, Ordering::Relaxed);
                HIGH
            }
            dword => dword,
        };
        let of = self.names.get(&dword).copied();
        of.map_or(Same, |of| (self.bug.told)(of, value as u32))
    }
}

impl Tap for Between {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        let (bar, offset) = (access.arg("bar"), access.arg("offset"));
        match (access.verb, bar) {
            (Verb::Write, 5) => match self.turn(offset, access.arg("value")) {
                Same => {}
                Else(value) => access.args[3] = value.into(),
                Lost => return Some(Ok(Answer::default())),
            },
            (Verb::WriteBytes, 0) => (self.bug.vram)(offset, &mut access.data),
            _ => {}
        }
        None
    }
}

/// Starts a card with a bug, and works with it as far as that goes. Which rules were broken.
fn broken(bug: &'static Bug, image: &KernelImage) -> Vec<&'static str> {
    let twin = PciMachine::new("chip=gfx942").unwrap();
    let between = Arc::new(Between {
        bug,
        names: names(),
        index: Default::default(),
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
        device.clock()?;
        stand::work_on(&*device, image, 0)?;
        stand::memory(&*device, MemoryKind::Device, 1 << 20)?.write(0, &[1])?;
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

/// The driver as it is.
static RIGHT: Bug = NONE;

#[test]
fn each_bug_that_only_mi300_can_have_is_named_by_its_rule() {
    stand::hurry();
    let image = stand::kernel("gfx942", "sums", 2);
    assert_eq!(broken(&RIGHT, &image), [""; 0]);
    let mut missed = Vec::new();
    for bug in BUGS {
        let found = broken(bug, &image);
        if !found.contains(&bug.rule) {
            let (what, rule) = (bug.what, bug.rule);
            missed.push(format!("{what}: expected {rule}, found {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
