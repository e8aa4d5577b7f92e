//! A made-up card for the driver's own tests, strict about order: it stops at the first thing that the sources of the
//! driver's files do not do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::nv::abi::Branch;
use drivers_spec::pci::{Command, PCI_COMMAND, PCI_VENDOR_ID};
use hcq::addr::{BusAddr, BusRange, BusRanges, Domain};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::{Dma, Fault, Pci, ResetKind, TransportError};
use hcq::wait::Deadline;

use super::falcon::{Core, Lock, Ran};
use super::firmware::Rm;
use super::fsp::{Fsp, Order};
use super::objects;
use super::vram::{Bar1, Vram};

type Transport<T> = Result<T, TransportError>;

/// Bytes of VRAM.
pub const VRAM: u64 = 24 << 30;
/// `NV_PMC_BOOT_0` of a GA102.
pub const BOOT_0: u32 = 0xb720_00a1;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    Nothing,
    /// It sleeps; or has left the bus.
    Asleep,
    Gone,
    /// The card's own firmware does not end.
    Gfw,
    /// WPR2 is up; a reset of this kind ends that, or none does.
    Wpr2(Option<ResetKind>),
    /// Where WPR2 is cannot be read; GSP runs without it.
    Refused,
    Alive,
    /// Memory of the host is in pieces; at high addresses.
    Pieces,
    High,
    /// FWSEC's error; WPR2 elsewhere; it does not halt.
    Frts(u32),
    Elsewhere,
    Endless,
    /// The booter's error; RM is not started; does not say that it has.
    Booter(u32),
    Inactive,
    Silent,
    /// RM crashes before it has started.
    Crash,
    /// Its queue is of another version; its messages have wrong sums, or numbers.
    Header,
    Sum,
    Number,
    /// One comes twice; an answer goes on with nothing.
    Old,
    Empty,
    /// It refuses to make devices; it refuses the call of a number, counted from 1.
    Refuses,
    Call(u32),
    /// RM does not start, and the card cannot be reset.
    Stuck,
    /// The other booter's error; WPR2 stays.
    Unload(u32),
    Stays,
    /// The FSP's error; it does not answer; the FMC's error; GSP does not halt.
    Fsp(u32),
    Mute,
    Fmc(u32),
    Runs,
    /// The FSP has an answer for another driver; the FMC takes its time to read its argument.
    Stale,
    Lingers,
}

/// What is behind the registers.
pub struct State {
    pub wrong: Break,
    pub branch: Branch,
    /// What was done, in order.
    pub log: Vec<String>,
    pub wpr2: Option<(u64, u64)>,
    pub gsp: Core,
    pub sec2: Core,
    /// Of a GH100, not a GA102.
    pub fsp: Option<Fsp>,
    pub rm: Option<Rm>,
    pub memory: Memory,
    pub scratch: BTreeMap<u64, u32>,
    /// The page that flushes read.
    pub flush: u64,
    /// How often GSP was told of messages.
    pub rings: usize,
    /// Calls that RM had taken when it ended: objects and controls.
    pub calls: u32,
    /// Tokens that the doorbell took.
    pub bells: Vec<u32>,
    pub vram: Vram,
    /// Bytes of BAR1.
    pub bar1: u64,
    config: BTreeMap<u16, u32>,
    rom: Vec<u8>,
    /// Looks until the card's own firmware has finished.
    gfw: u32,
}

/// Memory of the host.
#[derive(Default)]
pub struct Memory(Vec<(u64, View)>);

impl Memory {
    fn find(&self, at: u64, bytes: usize) -> (&View, usize) {
        let inside = |(start, view): &&(u64, View)| {
            at >= *start && at + bytes as u64 <= start + view.len() as u64
        };
        let found = self.0.iter().find(inside);
        let (start, view) =
            found.unwrap_or_else(|| panic!("{bytes:#x} bytes at {at:#x}: not pinned"));
        (view, (at - start) as usize)
    }

    pub fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let (view, offset) = self.find(at, bytes);
        let mut all = vec![0; bytes];
        view.copy_to_slice(offset, &mut all).unwrap();
        all
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        let (view, offset) = self.find(at, bytes.len());
        view.copy_from_slice(offset, bytes).unwrap();
    }

    pub fn dword(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at, 4).try_into().unwrap())
    }
}

/// The card.
pub struct Made(Arc<Mutex<State>>);

impl Made {
    pub fn new(branch: Branch, wrong: Break) -> Made {
        // Windows of an RTX 3090, the second and the third of them wide, and ports.
        let windows = [0xd000_0000, 0xc, 0x100, 0x1000_000c, 0x101, 0xe001];
        let windows = (0x10..).step_by(4).zip(windows);
        let config = [(PCI_VENDOR_ID, 0x2204_10de), (PCI_COMMAND, 2)];
        let config = config.into_iter().chain(windows);
        Made(Arc::new(Mutex::new(State {
            wrong,
            branch,
            log: Vec::new(),
            wpr2: matches!(wrong, Break::Wpr2(_)).then_some((0x1000, 0x2000)),
            gsp: Core::new("GSP"),
            sec2: Core::new("SEC2"),
            fsp: None,
            rm: None,
            memory: Memory::default(),
            scratch: BTreeMap::new(),
            flush: 0,
            rings: 0,
            calls: 0,
            bells: Vec::new(),
            vram: Vram::default(),
            bar1: 256 << 20,
            config: config.collect(),
            rom: vbios::Card::GA102.rom().bytes,
            gfw: 3,
        })))
    }

    /// A GH100.
    pub fn hopper(wrong: Break) -> Made {
        let made = Made::new(Branch::R570, wrong);
        let mut state = made.state();
        state.fsp = Some(match wrong {
            Break::Stale => Fsp::stale(),
            _ => Fsp::default(),
        });
        state.rom.clear();
        state.gsp.active = wrong == Break::Alive;
        // All three windows are wide.
        let windows = [0xc, 0x200, 0xc, 0x300, 0x2000_000c, 0x301];
        state.config.extend((0x10..).step_by(4).zip(windows));
        drop(state);
        made
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Whether it may access memory of the host.
    pub fn is_master(&self) -> bool {
        let command = self.state().config[&PCI_COMMAND] as u16;
        command & Command::MASTER.bits() != 0
    }
}

impl Pci for Made {
    fn name(&self) -> &str {
        "0000:01:00.0"
    }
    fn bar(&self, n: u8) -> Transport<Window> {
        if n == 1 {
            let bar = Bar1(self.0.clone(), self.state().bar1);
            return Ok(Window::remote("0000:01:00.0 BAR1", Arc::new(bar)));
        }
        assert_eq!(n, 0);
        Ok(Window::remote(
            "0000:01:00.0 BAR0",
            Arc::new(Bar(self.0.clone())),
        ))
    }
    fn config_read(&self, offset: u16, width: AccessWidth) -> Transport<u32> {
        let state = self.state();
        if state.wrong == Break::Gone {
            return Ok(width.ones() as u32);
        }
        let value = state.config.get(&offset).copied().unwrap_or(0);
        Ok(value & width.ones() as u32)
    }
    fn config_write(&self, offset: u16, _: AccessWidth, value: u32) -> Transport<()> {
        self.state().config.insert(offset, value);
        Ok(())
    }
    fn dma(&self, bytes: u64, align: u64) -> Transport<Dma> {
        let mut state = self.state();
        // Pages that do not join, but where more than a page is aligned.
        let each = match state.wrong {
            Break::Pieces => 4096,
            _ => align.max(4096),
        };
        let view = View::alloc(bytes.next_multiple_of(each) as usize, 4096).unwrap();
        let mut ranges = Vec::new();
        for at in (0..view.len() as u64).step_by(each as usize) {
            let count = state.memory.0.len() as u64;
            let high = u64::from(state.wrong == Break::High) << 47;
            let addr = high + 0x1_0000_0000 + count * (4 << 20);
            let part = view.sub(at as usize, each as usize).unwrap();
            state.memory.0.push((addr, part));
            let addr = BusAddr(addr);
            ranges.push(BusRange { addr, bytes: each });
        }
        let ranges = BusRanges::new(Domain::BUS, ranges);
        Ok(Dma { view, ranges })
    }
    fn reset(&self, kind: ResetKind) -> Transport<()> {
        let mut state = self.state();
        state.log.push(format!("{kind} reset"));
        assert_eq!(
            state.config[&PCI_COMMAND] as u16 & Command::MASTER.bits(),
            0
        );
        if state.wrong == Break::Stuck {
            let fault = Fault::Unsupported("made".into());
            return Err(TransportError::new("made", "reset", fault));
        }
        state.gfw = 3;
        match state.wrong {
            Break::Wpr2(ends) if ends != Some(kind) => {}
            _ => state.wpr2 = None,
        }
        state.gsp = Core::new("GSP");
        state.sec2 = Core::new("SEC2");
        state.rm = None;
        state.flush = 0;
        Ok(())
    }
    fn wait_irq(&self, _: u32, _: Deadline) -> Transport<u64> {
        let fault = Fault::Unsupported("made".into());
        Err(TransportError::new("made", "wait_irq", fault))
    }
}

/// BAR0.
struct Bar(Arc<Mutex<State>>);

impl RemoteWindow for Bar {
    fn len(&self) -> u64 {
        16 << 20
    }
    fn read(&self, offset: u64, width: AccessWidth) -> Transport<u64> {
        assert_eq!(width, AccessWidth::W32);
        Ok(self.0.lock().unwrap().read(offset).into())
    }
    fn read_bytes(&self, _: u64, _: &mut [u8]) -> Transport<()> {
        panic!("registers are read one by one");
    }
    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Transport<()> {
        assert_eq!(width, AccessWidth::W32);
        self.0.lock().unwrap().write(offset, value as u32);
        Ok(())
    }
    fn write_many(&self, _: &[Piece<'_>]) -> Transport<()> {
        panic!("registers are written one by one");
    }
    fn send(&self) -> Transport<()> {
        Ok(())
    }
    fn flush(&self) -> Transport<()> {
        Ok(())
    }
}

impl State {
    fn read(&mut self, at: u64) -> u32 {
        if matches!(self.wrong, Break::Asleep | Break::Gone) {
            return u32::MAX;
        }
        let (lo, hi) = self.wpr2.unwrap_or_default();
        let is_done = self.gfw == 0 && self.wrong != Break::Gfw;
        match at {
            0 if self.fsp.is_some() => 0x1800_00a1,
            0 => BOOT_0,
            0xa00 if self.fsp.is_some() => 0x18 << 24 | 0xa1 << 12,
            0x2_00bc => {
                self.gfw = self.gfw.saturating_sub(1);
                if is_done { 0xff } else { 0x20 }
            }
            0xa00 => 0x17 << 24 | 2 << 20 | 0xa1 << 12,
            0x1700 => self.vram.window,
            0x70_0000..0x80_0000 => {
                let mut bytes = [0; 4];
                self.vram.read(self.vram.pramin(at - 0x70_0000), &mut bytes);
                u32::from_le_bytes(bytes)
            }
            // An invalidation has ended.
            0xb8_30b0 => 0,
            0xbb_0080 => 0x20,
            0xbb_0084 => 7,
            0x11_8128 => {
                self.gfw = self.gfw.saturating_sub(1);
                1
            }
            0x11_8234 => {
                self.gfw = self.gfw.saturating_sub(1);
                if is_done { 0xff } else { 0x20 }
            }
            0x11_83a4 => (VRAM >> 20) as u32,
            0x1f_a828 if self.wrong == Break::Refused => 0xbadf_5040,
            0x1f_a824 => (lo >> 12 << 4) as u32,
            0x1f_a828 => (hi >> 12 << 4) as u32,
            0x10_0c10 if self.fsp.is_none() => (self.flush >> 8) as u32,
            0x10_0c40 if self.fsp.is_none() => (self.flush >> 40) as u32,
            0x10_0a34 if self.fsp.is_some() => self.flush as u32,
            0x10_0a38 if self.fsp.is_some() => (self.flush >> 32) as u32,
            0x62_5f04 | 0x82_0c04 => 0,
            0x82_074c => 1,
            // Two versions of FWSEC (9) are withdrawn, one of the booter (3).
            0x82_41e0 => 0b10,
            0x82_4148 => 0b1,
            0x1438 | 0x1454 | 0x1400 => self.scratch.get(&at).copied().unwrap_or(0),
            0x30_0000..0x40_0000 => {
                let at = (at - 0x30_0000) as usize;
                let byte = |i: usize| self.rom.get(at + i).copied().unwrap_or(0xff);
                u32::from_le_bytes([0, 1, 2, 3].map(byte))
            }
            0x11_0000..0x11_2000 => self.gsp.read(at as u32 - 0x11_0000),
            0x84_0000..0x84_2000 => self.sec2.read(at as u32 - 0x84_0000),
            0x8f_2000..0x8f_3000 => match &mut self.fsp {
                Some(fsp) => fsp.read(at - 0x8f_2000),
                None => panic!("read of {at:#x}: this chip's FSP does not start GSP"),
            },
            _ => panic!("read of {at:#x}: no such register here"),
        }
    }

    fn write(&mut self, at: u64, value: u32) {
        let (bits, low) = (u64::from(value), self.flush & 0xffff_ffff);
        match at {
            0x10_0c10 if self.fsp.is_none() => {
                self.flush = self.flush >> 40 << 40 | bits << 8;
            }
            0x10_0c40 if self.fsp.is_none() => {
                self.flush = self.flush & 0xff_ffff_ff00 | bits << 40;
            }
            0x10_0a34 if self.fsp.is_some() => self.flush = self.flush >> 32 << 32 | bits,
            0x10_0a38 if self.fsp.is_some() => self.flush = low | bits << 32,
            0x1400 => {
                self.scratch.insert(at, value);
            }
            0x11_0c00 => self.rung(),
            0x1700 => self.vram.window = value,
            0x70_0000..0x80_0000 => {
                let place = self.vram.pramin(at - 0x70_0000);
                self.vram.write(place, &value.to_le_bytes());
            }
            0xb8_30b0 => {
                // TRIGGER, ACK globally, SYS_MEMBAR, ALL_PDB, ALL_VA.
                assert_eq!(value, 0x8000_00c3);
                self.vram.invalidations += 1;
            }
            0xbb_0090 => self.bells.push(value),
            0x11_0000..0x11_2000 => {
                let ran = self.gsp.write(at as u32 - 0x11_0000, value, &self.memory);
                self.ran(ran);
            }
            0x84_0000..0x84_2000 => {
                let ran = self.sec2.write(at as u32 - 0x84_0000, value, &self.memory);
                self.ran(ran);
            }
            0x8f_2000..0x8f_3000 => {
                assert_eq!(self.gfw, 0, "the FSP has started");
                let fsp = self.fsp.as_mut().expect("an FSP that starts GSP");
                if let Some(message) = fsp.write(at - 0x8f_2000, value) {
                    self.asked(&message);
                }
            }
            _ => panic!("write of {value:#x} to {at:#x}: no such register here"),
        }
    }

    /// Falcons are reset, and GSP is started, when the page is there that flushes read.
    fn can_flush(&self) {
        let page = self.memory.read(self.flush, 4096);
        assert!(page.iter().all(|byte| *byte == 0), "nothing else is there");
    }

    /// Messages may be there.
    fn rung(&mut self) {
        self.rings += 1;
        if let Some(rm) = &mut self.rm
            && rm.serve(&self.memory, &self.vram, self.wrong)
        {
            self.log.push("RM ends".into());
            self.calls = rm.calls;
            self.rm = None;
            self.gsp.active = false;
            self.gsp.mailboxes[0] = 0x8000_0000;
            if self.fsp.is_some() {
                self.gsp.ended = self.wrong != Break::Runs;
                self.wpr2 = self.wpr2.filter(|_| self.wrong == Break::Stays);
            }
        }
    }

    /// RM tells that a channel has died.
    pub fn die(&mut self, chid: u32, xid: u32, fault: (u64, u32)) {
        if let Some(rm) = &mut self.rm {
            rm.tell(&self.memory, &objects::death(chid, xid, fault));
        }
    }

    /// RM tells something.
    pub fn flood(&mut self) {
        if let Some(rm) = &mut self.rm {
            rm.flood(&self.memory);
        }
    }

    /// Microcode has started on a falcon, or a falcon was reset.
    fn ran(&mut self, ran: Option<Ran>) {
        let Some(ran) = ran else {
            return;
        };
        self.log.push(format!("{ran:x?}"));
        match ran {
            Ran::Reset(name) => {
                self.can_flush();
                if name == "GSP" {
                    self.rm = None;
                }
            }
            Ran::Frts { offset, size } => self.frts(offset, size),
            Ran::Sb => {}
            Ran::Load(meta) => self.load(meta),
            Ran::Unload(argument) => {
                assert_eq!(argument, [0xff; 2], "booter_unload's argument");
                assert!(self.rm.is_none() && self.wpr2.is_some());
                match self.wrong {
                    Break::Unload(code) => self.sec2.mailboxes[0] = code,
                    Break::Stays => self.sec2.mailboxes[0] = 0,
                    _ => {
                        self.sec2.mailboxes[0] = 0;
                        self.wpr2 = None;
                    }
                }
            }
        }
    }

    fn frts(&mut self, offset: u64, size: u64) {
        assert_eq!(size, 1 << 20);
        assert!(self.wpr2.is_none(), "WPR2 is set up once");
        match self.wrong {
            Break::Frts(code) => {
                self.scratch.insert(0x1438, code << 16);
            }
            Break::Elsewhere => self.wpr2 = Some((offset - 0x1000, offset + size - 0x1000)),
            Break::Endless => self.gsp.halted = false,
            _ => self.wpr2 = Some((offset, offset + size - 0x1000)),
        }
    }

    fn load(&mut self, meta: u64) {
        if let Break::Booter(code) = self.wrong {
            self.sec2.mailboxes[0] = code;
            return;
        }
        self.sec2.mailboxes[0] = 0;
        self.wpr2 = Some(Rm::verify(
            &self.memory,
            self.branch,
            meta,
            self.wpr2.unwrap(),
        ));
        if self.wrong == Break::Inactive {
            return;
        }
        assert!(self.gsp.is_riscv, "GSP's RISC-V core is selected before");
        self.gsp.active = true;
        let [low, high] = self.gsp.mailboxes;
        let libos = u64::from(high) << 32 | u64::from(low);
        self.gsp.mailboxes = [0; 2];
        let windows = [0xd000_0000, 0x100_0000_0000, 0x101_1000_0000];
        let of = (self.branch, 0x8_8000, windows);
        self.rm = Some(Rm::start(&self.memory, of, libos, self.wrong));
        self.gsp.active = self.wrong != Break::Crash || self.gsp.crash_later();
    }

    /// The FSP starts GSP by the FMC that it was told.
    fn asked(&mut self, message: &[u8]) {
        self.log.push("Fsp".into());
        self.can_flush();
        let order = Order::of(&self.memory, message);
        if self.wrong == Break::Mute {
            return;
        }
        let code = match self.wrong {
            Break::Fsp(code) => code,
            _ => 0,
        };
        if let Some(fsp) = &mut self.fsp {
            fsp.answer(code);
        }
        if code != 0 {
            return;
        }
        assert!(self.wpr2.is_none(), "WPR2 is set up once");
        self.gsp.lock = Lock::Closed(3);
        if let Break::Fmc(code) = self.wrong {
            self.gsp.lock = Lock::Stays;
            self.gsp.mailboxes = [code, 0];
            return;
        }
        let meta = Rm::parts(&self.memory, self.branch, order.meta);
        // The FMC says where: nothing else is told, and 14 + 22 + 3 + 96 MiB of heap.
        assert_eq!(
            (meta.frts_offset, meta.gsp_fw_wpr_start, meta.fb_size),
            (0, 0, 0)
        );
        assert_eq!(
            (meta.frts_size, meta.gsp_fw_heap_size),
            (1 << 20, 135 << 20)
        );
        assert_eq!(
            (meta.non_wpr_heap_size, meta.vga_workspace_size),
            (2 << 20, 128 << 10)
        );
        let end = VRAM - order.frts;
        self.wpr2 = Some((end - (256 << 20), end - 0x1000));
        self.gsp.mailboxes = [0; 2];
        if self.wrong == Break::Lingers {
            self.gsp.mailboxes = [order.at as u32, (order.at >> 32) as u32];
            self.gsp.lingers = 4;
        }
        self.gsp.active = self.wrong != Break::Inactive;
        if self.gsp.active {
            let windows = [0x200_0000_0000, 0x300_0000_0000, 0x301_2000_0000];
            let of = (self.branch, 0x9_2000, windows);
            self.rm = Some(Rm::start(&self.memory, of, order.libos, self.wrong));
            self.gsp.active = self.wrong != Break::Crash || self.gsp.crash_later();
        }
    }
}
