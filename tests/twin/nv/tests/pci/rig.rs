//! A card, and the host's hands on it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use drivers_spec::pci::{PCI_BASE_ADDRESS_0, PCI_COMMAND};
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Dma, Pci, TransportError};
use twin::pci::{Function, HostMemory};
use twin_nv::Journal;
use twin_nv::pci::card::{Card, Config};
use twin_nv::pci::chip::Chip;

pub const GSP: u64 = 0x11_0000;
pub const SEC2: u64 = 0x84_0000;
/// Where the BARs are.
pub const BARS: [u64; 3] = [0xd000_0000, 0x100_0000_0000, 0x100_4000_0000];

/// How long a test waits for what should come at once: nobody measures time by it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    pub chip: &'static Chip,
    pub pci: Arc<Function>,
    pub journal: Arc<Journal>,
    pub registers: Window,
    /// With which the card flushes what it has written.
    pub flush: Dma,
}

/// Memory for the card, contiguous.
pub fn bytes_of(dma: &Dma) -> u64 {
    pages(dma)[0]
}

/// Where its pages are.
pub fn pages(dma: &Dma) -> Vec<u64> {
    let ranges = dma.ranges.for_domain(hcq::addr::Domain::BUS).unwrap();
    let all = ranges.iter().flat_map(|range| {
        let pages = 0..range.bytes / 4096;
        pages.map(move |page| range.addr.0 + page * 4096)
    });
    all.collect()
}

impl Rig {
    pub fn new(config: &Config) -> Rig {
        let journal = Arc::new(Journal::new());
        let function = Card::function("0000:01:00.0", config, &HostMemory::new(), &journal);
        let pci = Arc::new(function.unwrap());
        for (number, at) in config.chip.bars().into_iter().zip(BARS) {
            let register = PCI_BASE_ADDRESS_0 + 4 * u16::from(number);
            pci.config_write(register, AccessWidth::W32, at as u32)
                .unwrap();
            if at >> 32 != 0 {
                pci.config_write(register + 4, AccessWidth::W32, (at >> 32) as u32)
                    .unwrap();
            }
        }
        pci.config_write(PCI_COMMAND, AccessWidth::W16, 6).unwrap();
        let rig = Rig {
            chip: config.chip,
            registers: pci.bar(0).unwrap(),
            flush: pci.dma(4096, 4096).unwrap(),
            pci,
            journal,
        };
        rig.flushes_with(bytes_of(&rig.flush));
        rig
    }

    /// The card flushes with that page.
    pub fn flushes_with(&self, at: u64) {
        match &self.chip.fsp {
            None => {
                self.set(0x10_0c40, (at >> 40) as u32);
                self.set(0x10_0c10, (at >> 8) as u32);
            }
            Some(fsp) => {
                let [low, high] = fsp.flush;
                self.set(high.into(), (at >> 32) as u32);
                self.set(low.into(), at as u32);
            }
        }
    }

    /// So much happens that GSP's firmware has had time for something.
    pub fn pass(&self) {
        (0..64).for_each(|_| drop(self.registers.read::<u32>(0)));
    }

    /// The function may access memory of the host, or not.
    pub fn master(&self, may: bool) {
        let command = if may { 6 } else { 2 };
        self.pci
            .config_write(PCI_COMMAND, AccessWidth::W16, command)
            .unwrap();
    }

    /// A card on which the card's own firmware has started.
    pub fn started(name: &str) -> Rig {
        let rig = Rig::new(&Config::of(Chip::of(name).unwrap()));
        rig.wait_gfw();
        rig
    }

    pub fn wait_gfw(&self) {
        if let Some(fsp) = &self.chip.fsp {
            let done = u64::from(fsp.boot_complete);
            return self.until("FSP", || self.get(done) == 0xff);
        }
        self.until("GFW", || self.get(0x11_8128) & 1 != 0);
        self.until("GFW", || self.get(0x11_8234) & 0xff == 0xff);
    }

    pub fn get(&self, at: u64) -> u32 {
        self.registers.read(at).unwrap()
    }

    pub fn set(&self, at: u64, value: u32) {
        self.registers.write(at, value).unwrap();
    }

    /// A write that may be refused.
    pub fn try_set(&self, at: u64, value: u32) -> Result<(), TransportError> {
        self.registers.write(at, value)
    }

    /// Looks until something is so.
    pub fn until(&self, what: &str, is: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is() {
            let broken = self.broken();
            assert!(begin.elapsed() < PATIENCE, "{what}; broken: {broken:?}");
            thread::yield_now();
        }
    }

    /// GSP has done what it was told.
    pub fn settle(&self) {
        self.until("GSP is idle", || self.pci.is_idle());
    }

    pub fn broken(&self) -> Vec<&'static str> {
        let violations = self.journal.violations();
        violations.iter().map(|one| one.rule.name).collect()
    }

    /// Nothing is broken.
    pub fn is_clean(&self) {
        let violations = self.journal.violations();
        assert!(violations.is_empty(), "{violations:?}");
    }

    /// What is behind a BAR.
    pub fn window(&self, bar: u8) -> Window {
        self.pci.bar(bar).unwrap()
    }

    /// Contiguous memory with something in it.
    pub fn memory(&self, contents: &[u8]) -> Dma {
        let bytes = contents.len().max(4096).next_power_of_two() as u64;
        let dma = self.pci.dma(bytes, bytes).unwrap();
        dma.view.copy_from_slice(0, contents).unwrap();
        dma
    }

    /// A processor is reset, its memory cleared.
    pub fn reset(&self, falcon: u64) {
        self.until("RESET_READY", || self.get(falcon + 0xf4) >> 31 != 0);
        self.set(falcon + 0x3c0, 1);
        self.set(falcon + 0x3c0, 0);
        self.until("MEM_SCRUBBING", || self.get(falcon + 0xf4) >> 12 & 1 == 0);
    }

    /// Its falcon core is selected.
    pub fn select_falcon(&self, falcon: u64) {
        if self.get(falcon + 0x1668) >> 4 & 1 != 0 {
            self.set(falcon + 0x1668, 0);
        }
        self.until("BCR_CTRL", || self.get(falcon + 0x1668) & 1 != 0);
    }

    /// Its RISC-V core is.
    pub fn select_riscv(&self, falcon: u64) {
        self.set(falcon + 0x1668, 0x111);
    }

    /// Transfers by physical addresses are allowed.
    pub fn allow_transfers(&self, falcon: u64) {
        let control = self.get(falcon + 0x624);
        self.set(falcon + 0x624, control | 1 << 7);
        self.set(falcon + 0x10c, 0);
        self.set(falcon + 0x600, 0b101);
    }

    fn not_full(&self, falcon: u64) {
        self.until("FULL", || self.get(falcon + 0x118) & 1 == 0);
    }

    /// 256 bytes each: where from, with an offset that is a virtual address in IMEM.
    pub fn transfer(&self, falcon: u64, base: u64, virt: u32, to: u32, bytes: usize, imem: bool) {
        self.not_full(falcon);
        let base = base.wrapping_sub(virt.into());
        self.set(falcon + 0x110, (base >> 8) as u32);
        self.set(falcon + 0x128, (base >> 40) as u32 & 0x1ff);
        let command = 6 << 8 | if imem { 1 << 4 | 1 << 2 } else { 0 };
        for at in (0..bytes as u32).step_by(256) {
            self.not_full(falcon);
            self.set(falcon + 0x114, to + at);
            self.set(falcon + 0x11c, virt + at);
            self.set(falcon + 0x118, command);
        }
        self.until("IDLE", || self.get(falcon + 0x118) & 2 != 0);
    }

    /// Parameters of the boot ROM: PARAADDR, ENGIDMASK, UCODE_ID.
    pub fn boot_rom(&self, falcon: u64, [address, engines, ucode]: [u32; 3]) {
        self.set(falcon + 0x1210, address);
        self.set(falcon + 0x119c, engines);
        self.set(falcon + 0x1198, ucode);
        self.set(falcon + 0x1180, 1);
    }

    pub fn mailbox(&self, falcon: u64, value: u64) {
        self.set(falcon + 0x40, value as u32);
        self.set(falcon + 0x44, (value >> 32) as u32);
    }

    /// Starts it, by the alias where it has one.
    pub fn start(&self, falcon: u64) -> Result<(), TransportError> {
        let alias = self.get(falcon + 0x100) >> 6 & 1 != 0;
        self.try_set(falcon + if alias { 0x130 } else { 0x100 }, 2)
    }

    pub fn halted(&self, falcon: u64) {
        self.until("HALTED", || self.get(falcon + 0x100) >> 4 & 1 != 0);
    }
}
