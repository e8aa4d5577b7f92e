//! A card on its bus, driven by its registers, and the rules of doing so.

#![allow(clippy::unwrap_used)] // A test may panic.

mod card;
mod golden;
mod hub;
mod ih;
mod psp;
mod smu;

use std::sync::Arc;

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{Reg, header, mmhub, nbio};
use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::{AccessWidth, Window};
use hcq::reg::{At, IpVersion};
use hcq::transport::Pci;
use twin::pci::HostMemory;
use twin_amd::Journal;
use twin_amd::pci::card::{Card, Config};
use twin_amd::pci::chip::Chip;

/// Where VRAM starts for VMID 0.
const FB: u64 = 0x80_0000_0000;
/// Where the address space of VMID 0 starts.
const START: u64 = 0x2000_0000_0000;
/// The root of its tables, in VRAM.
const ROOT: u64 = 0x1_0000;
/// Dwords of registers that BAR 5 shows.
const DIRECT: u64 = 0x4_0000;

struct Rig {
    chip: &'static Chip,
    pci: Arc<dyn Pci>,
    memory: Arc<HostMemory>,
    journal: Arc<Journal>,
}

impl Rig {
    fn new(config: &Config) -> Rig {
        Rig::on(HostMemory::new(), config)
    }

    /// Another card on the same bus.
    fn beside(&self, config: &Config) -> Rig {
        Rig::on(self.memory.clone(), config)
    }

    fn on(memory: Arc<HostMemory>, config: &Config) -> Rig {
        let journal = Arc::new(Journal::new());
        let function = Card::function("0000:03:00.0", config, &memory, &journal);
        let pci: Arc<dyn Pci> = Arc::new(function.unwrap());
        pci.config_write(PCI_COMMAND, AccessWidth::W16, 6).unwrap();
        Rig {
            chip: config.chip,
            pci,
            memory,
            journal,
        }
    }

    fn of(name: &str) -> Rig {
        Rig::new(&Config::of(Chip::of(name).unwrap()))
    }

    fn gfx1201() -> Rig {
        Rig::of("gfx1201")
    }

    /// A card whose MM hub is set up, with address space and all.
    fn set_up(config: &Config) -> Rig {
        let rig = Rig::new(config);
        rig.hub();
        rig
    }

    fn bar(&self, n: u8) -> Window {
        self.pci.bar(n).unwrap()
    }

    fn broken(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|one| one.rule.name).collect()
    }

    /// Nothing is broken.
    fn is_clean(&self) {
        let violations = self.journal.violations();
        assert!(violations.is_empty(), "{violations:?}");
    }

    fn dword(&self, reg: &Reg) -> u64 {
        let blocks = self.chip.contents().blocks;
        let found = blocks.iter().find_map(|block| {
            let name = reg.word.name;
            let of = match block.hw_id {
                ip::MP0 => name.starts_with("MP0"),
                ip::MP1 => name.starts_with("MP1"),
                // These have equal versions.
                ip::OSSSYS => name.starts_with("IH"),
                ip::HDP => name.starts_with("HDP"),
                _ => !["MP", "IH", "HDP"].iter().any(|of| name.starts_with(of)),
            };
            let (major, minor, revision) = block.version;
            let version = header(block.hw_id, IpVersion(major, minor, revision)).ok()?;
            let At::Rows(rows) = reg.at else { return None };
            let row = rows.iter().find(|row| of && row.version == version)?;
            let base = block.bases.get(usize::from(row.segment))?;
            Some(base + u64::from(row.dword))
        });
        found.unwrap()
    }

    fn get(&self, reg: &Reg) -> u32 {
        let registers = self.bar(5);
        match self.dword(reg) {
            direct if direct < DIRECT => registers.read(direct * 4).unwrap(),
            far => {
                let index = self.dword(&nbio::BIF_BX_PF0_RSMU_INDEX);
                registers.write(index * 4, (far * 4) as u32).unwrap();
                registers.read(index * 4 + 4).unwrap()
            }
        }
    }

    /// A write to a dword, whether BAR 5 shows it or not. Whether it is refused the test sees by the rule.
    fn write_far(&self, dword: u64, value: u32) {
        let registers = self.bar(5);
        let index = self.dword(&nbio::BIF_BX_PF0_RSMU_INDEX);
        let done = match dword < DIRECT {
            true => registers.write(dword * 4, value),
            false => registers
                .write(index * 4, (dword * 4) as u32)
                .and_then(|()| registers.write(index * 4 + 4, value)),
        };
        assert!(done.is_ok() || !self.broken().is_empty());
    }

    fn try_set(&self, reg: &Reg, value: u32) -> bool {
        let direct = self.dword(reg);
        assert!(direct < DIRECT);
        self.bar(5).write(direct * 4, value).is_ok()
    }

    fn set(&self, reg: &Reg, value: u32) {
        assert!(self.try_set(reg, value), "{:?}", self.journal.violations());
    }

    fn with(&self, reg: &Reg, fields: &[(&str, u32)]) -> u32 {
        fields.iter().fold(0, |value, (name, field)| {
            let found = reg.word.field(self.chip.gfx, name).unwrap();
            value | found.put(*field)
        })
    }

    /// Looks until it is as asked for, some times.
    fn until(&self, reg: &Reg, mask: u32, value: u32) -> bool {
        (0..16).any(|_| self.get(reg) & mask == value)
    }

    fn write(&self, at: u64, data: &[u8]) {
        self.bar(0).write_many(&[(at, data)]).unwrap();
    }

    fn words(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(at, &bytes);
    }

    fn flush(&self) {
        let at = self.get(&nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL) & 0x7_fffc;
        self.bar(5).write(at.into(), 0u32).unwrap();
    }

    fn hub(&self) {
        let last = FB + self.chip.vram - 1;
        let pair = |regs: [&Reg; 2], value: u64| {
            self.set(regs[0], value as u32);
            self.set(regs[1], (value >> 32) as u32);
        };
        self.set(&mmhub::MMMC_VM_SYSTEM_APERTURE_LOW_ADDR, (FB >> 18) as u32);
        self.set(
            &mmhub::MMMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
            (last >> 18) as u32,
        );
        let l1 = [("enable_l1_tlb", 1), ("system_access_mode", 3)];
        let l1 = self.with(&mmhub::MMMC_VM_MX_L1_TLB_CNTL, &l1);
        self.set(&mmhub::MMMC_VM_MX_L1_TLB_CNTL, l1);
        pair(
            [
                &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
                &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
            ],
            ROOT | 1,
        );
        pair(
            [
                &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
                &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
            ],
            START >> 12,
        );
        pair(
            [
                &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
                &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
            ],
            0x7fff_ffff_ffff >> 12,
        );
        let context = [
            ("enable_context", 1),
            ("page_table_depth", 3),
            ("range_protection_fault_enable_interrupt", 1),
            ("pde0_protection_fault_enable_interrupt", 1),
            ("valid_protection_fault_enable_interrupt", 1),
            ("read_protection_fault_enable_interrupt", 1),
            ("write_protection_fault_enable_interrupt", 1),
        ];
        let context = self.with(&mmhub::MMVM_CONTEXT0_CNTL, &context);
        self.set(&mmhub::MMVM_CONTEXT0_CNTL, context);
        pair(
            [
                &mmhub::MMVM_INVALIDATE_ENG17_ADDR_RANGE_LO32,
                &mmhub::MMVM_INVALIDATE_ENG17_ADDR_RANGE_HI32,
            ],
            0x1f_ffff_ffff,
        );
        self.is_clean();
    }

    fn request(&self) -> u32 {
        let all = [
            ("per_vmid_invalidate_req", 1),
            ("invalidate_l2_ptes", 1),
            ("invalidate_l2_pde0", 1),
            ("invalidate_l2_pde1", 1),
            ("invalidate_l2_pde2", 1),
            ("invalidate_l1_ptes", 1),
        ];
        self.with(&mmhub::MMVM_INVALIDATE_ENG17_REQ, &all)
    }

    fn invalidate(&self) {
        self.flush();
        assert!(self.until(&mmhub::MMVM_INVALIDATE_ENG17_SEM, 1, 1));
        self.set(&mmhub::MMVM_INVALIDATE_ENG17_REQ, self.request());
        assert!(self.until(&mmhub::MMVM_INVALIDATE_ENG17_ACK, 1, 1));
        self.set(&mmhub::MMVM_INVALIDATE_ENG17_SEM, 0);
    }
}

/// An image of firmware that nothing is wrong of: a header of that kind, what is signed, a signature.
fn image(kind: u16, signed: u32) -> Vec<u8> {
    let mut image = vec![0; 0x200 + signed as usize];
    image[0x10..0x14].copy_from_slice(b"$PS1");
    image[0x14..0x18].copy_from_slice(&signed.to_le_bytes());
    image[0x58..0x5a].copy_from_slice(&kind.to_le_bytes());
    image
}
