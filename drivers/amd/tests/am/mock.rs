//! A card that answers as the mock of the recorded boots does, and writes down what it is told: registers read what
//! was written last, mailboxes are done at once, nothing is checked. For comparing with those recordings; whether a
//! boot is right, the twin says.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::amd::discovery::{self as ip, FROM_END};
use drivers_spec::amd::mmio::{self, Reg, header};
use drivers_spec::amd::psp::{CmdResp, RbFrame, Resp, cmd};
use hcq::addr::{BusAddr, BusRanges, Domain};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::reg::{At, IpVersion};
use hcq::transport::{
    BusRange, DevFile, Dma, Fault, Machine, Pci, PerProcess, Reserved, ResetKind, TransportError,
};
use hcq::wait::Deadline;
use twin_amd::pci::chip::Chip;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Bytes of VRAM: as many as that of the recordings.
const VRAM: u64 = 512 << 20;
/// What the table of contents asks for.
const TMR: u32 = 0x20_0000;
/// The BAR of registers: those beyond are reached by a pair.
const BAR5: u64 = 1 << 20;
const RSMU: (u64, u64) = (0x14, 0x15);
const MEMSIZE: u64 = 0xde3;

/// What a card was told, as a recording has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// `config`: where, bytes, what.
    Config(u16, usize, u32),
    /// `w`: which dword, what.
    Write(u64, u32),
    /// `psp`: the buffer from `cmd_id` on, without zeros at its end.
    Psp(String),
}

/// What goes wrong, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The bootloader says this of a command.
    Bootloader(u32, u32),
    /// The PSP says this of a command of its ring.
    Psp(u32, u32),
    /// The SMU says this of a message.
    Smu(u32, u32),
}

#[derive(Default)]
struct State {
    wrong: Option<Wrong>,
    /// How often it still answers with all ones.
    gone: u32,
    registers: HashMap<u64, u32>,
    pages: HashMap<u64, Vec<u8>>,
    config: HashMap<u16, u32>,
    told: Vec<Told>,
}

/// The card.
pub struct Mock {
    table: Vec<u8>,
    names: BTreeMap<u64, &'static str>,
    state: Mutex<State>,
}

impl Mock {
    pub fn new(chip: &Chip) -> Arc<Mock> {
        let contents = chip.contents();
        let tables: [(u16, &[&Reg]); 7] = [
            (ip::GC, mmio::gc::ALL),
            (ip::MMHUB, mmio::mmhub::ALL),
            (ip::NBIF, mmio::nbio::ALL),
            (ip::OSSSYS, mmio::osssys::ALL),
            (ip::HDP, mmio::hdp::ALL),
            (ip::MP0, mmio::mp::ALL),
            (ip::MP1, mmio::mp::ALL),
        ];
        let mut names = BTreeMap::new();
        for block in &contents.blocks {
            let (major, minor, revision) = block.version;
            let Ok(version) = header(block.hw_id, IpVersion(major, minor, revision)) else {
                continue;
            };
            for (_, regs) in tables.iter().filter(|(hw_id, _)| *hw_id == block.hw_id) {
                for reg in *regs {
                    let At::Rows(rows) = reg.at else { continue };
                    if let Some(row) = rows.iter().find(|row| row.version == version) {
                        let base = block.bases[usize::from(row.segment)];
                        names
                            .entry(base + u64::from(row.dword))
                            .or_insert(reg.word.name);
                    }
                }
            }
        }
        let mock = Mock {
            table: contents.build(),
            names,
            state: Mutex::default(),
        };
        mock.reset(&mut mock.lock());
        Arc::new(mock)
    }

    /// What power, or a reset, leaves.
    fn reset(&self, state: &mut State) {
        state.registers.clear();
        state.pages.clear();
        state.write(VRAM - FROM_END, &self.table);
        for (name, value) in [
            ("MMMC_VM_FB_LOCATION_TOP", 0x20),
            ("MP0_SMN_C2PMSG_64", 1 << 31),
            ("MP0_SMN_C2PMSG_33", 1 << 31),
            ("MP1_SMN_C2PMSG_90", 1),
        ] {
            self.set(state, name, value);
        }
        state.registers.insert(MEMSIZE, (VRAM >> 20) as u32);
    }

    /// Something goes wrong from now on.
    pub fn goes_wrong(&self, wrong: Wrong) {
        self.lock().wrong = Some(wrong);
    }

    /// A register becomes something else by itself.
    pub fn put(&self, name: &str, value: u32) {
        self.set(&mut self.lock(), name, value);
    }

    /// The card writes to its memory.
    pub fn memory(&self, at: u64, bytes: &[u8]) {
        self.lock().write(at, bytes);
    }

    /// What configuration space holds.
    pub fn config(&self, at: u16) -> u32 {
        self.lock().config.get(&at).copied().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What it was told since the last call.
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.lock().told)
    }

    /// The name of a register.
    pub fn name(&self, dword: u64) -> &'static str {
        self.names.get(&dword).copied().unwrap_or("?")
    }

    fn set(&self, state: &mut State, name: &str, value: u32) {
        let (dword, _) = self.names.iter().find(|(_, n)| **n == name).unwrap();
        state.registers.insert(*dword, value);
    }

    fn value(&self, state: &State, name: &str) -> u32 {
        let (dword, _) = self.names.iter().find(|(_, n)| **n == name).unwrap();
        state.registers.get(dword).copied().unwrap_or(0)
    }

    fn read(&self, dword: u64) -> u32 {
        let mut state = self.lock();
        if dword == MEMSIZE && state.gone > 0 {
            state.gone -= 1;
            return u32::MAX;
        }
        let dword = match dword == RSMU.1 {
            true => u64::from(state.registers[&RSMU.0]) / 4,
            false => dword,
        };
        let held = state.registers.get(&dword).copied().unwrap_or(0);
        match self.name(dword) {
            "MP0_SMN_C2PMSG_35" => match state.wrong {
                Some(Wrong::Bootloader(command, status)) if command == held => 1 << 31 | status,
                _ => 1 << 31,
            },
            "MP0_SMN_C2PMSG_64" => 1 << 31,
            "MMVM_INVALIDATE_ENG17_SEM" => 1,
            "MMVM_INVALIDATE_ENG17_ACK" | "GCVM_INVALIDATE_ENG17_ACK" => 1,
            "RLC_RLCS_BOOTLOAD_STATUS" => 1 << 31,
            // The message is taken.
            "RLC_SAFE_MODE" => held & !1,
            // Any queue of the engine: idle.
            "SDMA0_QUEUE0_CONTEXT_STATUS" => 1 << 2,
            _ => held,
        }
    }

    fn write(&self, dword: u64, value: u32) {
        let mut state = self.lock();
        if dword == RSMU.0 {
            state.registers.insert(dword, value);
            return;
        }
        let dword = match dword == RSMU.1 {
            true => u64::from(state.registers[&RSMU.0]) / 4,
            false => dword,
        };
        let before = state.registers.insert(dword, value).unwrap_or(0);
        match self.name(dword) {
            "MP0_SMN_C2PMSG_35" if value == 0x2_0000 => {
                self.set(&mut state, "MP0_SMN_C2PMSG_81", 1)
            }
            "MP0_SMN_C2PMSG_67" => {
                let low = self.value(&state, "MP0_SMN_C2PMSG_69");
                let high = self.value(&state, "MP0_SMN_C2PMSG_70");
                let ring = u64::from(low) | u64::from(high) << 32;
                state.psp(ring + u64::from(before) * 4);
            }
            "MP1_SMN_C2PMSG_66" => {
                let argument = self.value(&state, "MP1_SMN_C2PMSG_82");
                let level = argument & 0xffff;
                let answer = match (value, level) {
                    (0x1f, 0xff) => 3,
                    (0x1f, level) => 400 + 300 * level,
                    _ => argument,
                };
                self.set(&mut state, "MP1_SMN_C2PMSG_82", answer);
                let said = match state.wrong {
                    Some(Wrong::Smu(message, said)) if message == value => said,
                    _ => 1,
                };
                self.set(&mut state, "MP1_SMN_C2PMSG_90", said);
            }
            "CP_HQD_DEQUEUE_REQUEST" if value != 0 => self.set(&mut state, "CP_HQD_ACTIVE", 0),
            // Mode 1: some cards forget where their windows are.
            "MP1_SMN_C2PMSG_75" if value == 2 => {
                self.reset(&mut state);
                state.config.insert(0x10, 0);
                state.gone = 3;
            }
            _ => {}
        }
        state.told.push(Told::Write(dword, value));
    }
}

impl State {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let page = self.pages.entry(at >> 12);
            page.or_insert_with(|| vec![0; 4096])[at as usize & 0xfff] = *byte;
        }
    }

    fn read(&self, at: u64, to: &mut [u8]) {
        for (at, to) in (at..).zip(to) {
            let page = self.pages.get(&(at >> 12));
            *to = page.map_or(0, |page| page[at as usize & 0xfff]);
        }
    }

    /// Takes a frame of the PSP's ring.
    fn psp(&mut self, at: u64) {
        let mut bytes = [0; size_of::<RbFrame>()];
        self.read(at, &mut bytes);
        let frame = RbFrame::read_from_bytes(&bytes).unwrap();
        let mut bytes = [0; size_of::<CmdResp>()];
        let at = u64::from(frame.cmd_buf_addr_lo.get());
        self.read(at, &mut bytes);
        let command = CmdResp::read_from_bytes(&bytes).unwrap();
        let text: String = bytes[8..]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.told
            .push(Told::Psp(text.trim_end_matches('0').to_owned()));
        let mut response = Resp::new_zeroed();
        let id = command.cmd_id.get();
        if id == cmd::LOAD_TOC {
            response.tmr_size = TMR.into();
        }
        if let Some(Wrong::Psp(command, status)) = self.wrong
            && command == id
        {
            response.status = status.into();
        }
        self.write(at + 864, response.as_bytes());
        self.write(
            frame.fence_addr_lo.get().into(),
            frame.fence_value.as_bytes(),
        );
    }
}

/// The card behind a BAR.
struct Bar(Arc<Mock>, u8);

impl RemoteWindow for Bar {
    fn len(&self) -> u64 {
        match self.1 {
            0 => VRAM,
            2 => 0x2000,
            _ => BAR5,
        }
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        if self.1 == 5 {
            return Ok(self.0.read(offset / 4).into());
        }
        let mut word = [0; 8];
        self.read_bytes(offset, &mut word[..width.bytes()])?;
        Ok(u64::from_le_bytes(word))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        self.0.lock().read(offset, to);
        Ok(())
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        match self.1 {
            5 => self.0.write(offset / 4, value as u32),
            _ => self
                .0
                .lock()
                .write(offset, &value.to_le_bytes()[..width.bytes()]),
        }
        Ok(())
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        let mut state = self.0.lock();
        pieces
            .iter()
            .for_each(|(at, bytes)| state.write(*at, bytes));
        Ok(())
    }

    fn send(&self) -> Result<(), TransportError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

/// The card on its bus.
pub struct Bus(pub Arc<Mock>);

fn unsupported(operation: &str) -> TransportError {
    TransportError::new("mock", operation, Fault::Unsupported("the mock".into()))
}

impl Pci for Bus {
    fn name(&self) -> &str {
        "mock"
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        Ok(Window::remote(
            format!("mock BAR{n}"),
            Arc::new(Bar(self.0.clone(), n)),
        ))
    }

    fn config_read(&self, offset: u16, _: AccessWidth) -> Result<u32, TransportError> {
        Ok(self.0.lock().config.get(&offset).copied().unwrap_or(0))
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let mut state = self.0.lock();
        state.config.insert(offset, value);
        state.told.push(Told::Config(offset, width.bytes(), value));
        Ok(())
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let view = View::alloc(bytes as usize, align as usize).unwrap();
        // Nothing of it is looked at: all of it may be anywhere.
        let addr = BusAddr(0x1_0000_0000);
        let ranges = vec![BusRange { addr, bytes }];
        let ranges = BusRanges::new(Domain::BUS, ranges);
        Ok(Dma { view, ranges })
    }

    fn reset(&self, _: ResetKind) -> Result<(), TransportError> {
        Err(unsupported("reset"))
    }

    fn wait_irq(&self, _: u32, _: Deadline) -> Result<u64, TransportError> {
        Err(unsupported("wait for interrupt"))
    }
}

/// A machine with nothing but the card.
pub struct Alone {
    pub card: Arc<Mock>,
    pub kept: PerProcess,
}

impl Machine for Alone {
    fn open(&self, _: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        Err(unsupported("open"))
    }

    fn read(&self, _: &str) -> Result<String, TransportError> {
        Err(unsupported("read"))
    }

    fn list(&self, _: &str) -> Result<Vec<String>, TransportError> {
        Err(unsupported("list"))
    }

    fn open_pci(&self, _: &str) -> Result<Arc<dyn Pci>, TransportError> {
        Ok(Arc::new(Bus(self.card.clone())))
    }

    fn reserve(&self, _: u64, _: u64, _: u64) -> Result<Reserved, TransportError> {
        Err(unsupported("reserve"))
    }

    fn memory(&self, _: u64, _: u64) -> Result<View, TransportError> {
        Err(unsupported("memory"))
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}
