//! A layer between our driver and a kernel driver in which bugs can be switched on: what the driver submits is edited on
//! its way, as a driver with that bug would have written it.
//!
//! Packets are edited in a copy, whose memory the queue keeps; what they load (constants, descriptors, code) is edited in
//! its place, so such edits come to the same when they are done again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use drivers_qcom::backend::{ContextHandle, Failure, Gpu, IndirectBuffer, Progress, QcomBackend};
use drivers_spec::qcom::packet::{self, LoadState, load_state6_0 as load, op, type4, type7};
use drivers_spec::qcom::regs::{Reg, dword};
use hcq::mem::window::Window;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::Tap;
use hcq::transport::{Fault, TransportError};
use hcq::{DeviceId, MemoryKind, Result};

/// A deliberate bug.
#[derive(Clone, Copy)]
pub struct Bug {
    /// What a driver would do wrong.
    pub what: &'static str,
    /// The rule that has to name it.
    pub rule: &'static str,
    pub how: How,
}

/// Where the bug is.
#[derive(Clone, Copy)]
pub enum How {
    /// Edits packets.
    Packets(fn(&mut Packets)),
    /// Edits their words.
    Words(fn(&mut Vec<u32>)),
    /// Edits state in memory, before packets load it.
    State(fn(LoadState, &mut [u32])),
    /// Edits instructions.
    Code(fn(&mut [u64])),
    /// Edits the argument of the ioctl of a name, with what it points to; whether the call is made.
    Call(&'static str, fn(&mut [u8]) -> bool),
}

/// A packet that can be changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet {
    Registers { first: u32, values: Vec<u32> },
    Command { op: u8, body: Vec<u32> },
}

/// Packets of an indirect buffer.
pub struct Packets(pub Vec<Packet>);

impl Packets {
    fn parse(words: &[u32]) -> Packets {
        let all = packet::packets(words).map(|packet| match packet.unwrap().1 {
            packet::Packet::Registers { first, values } => Packet::Registers {
                first,
                values: values.to_vec(),
            },
            packet::Packet::Command { op, body } => Packet::Command {
                op,
                body: body.to_vec(),
            },
        });
        Packets(all.collect())
    }

    fn words(&self) -> Vec<u32> {
        let mut words = Vec::new();
        for packet in &self.0 {
            match packet {
                Packet::Registers { first, values } => {
                    words.push(type4(*first, values.len() as u32));
                    words.extend(values);
                }
                Packet::Command { op, body } => {
                    words.push(type7(*op, body.len() as u32));
                    words.extend(body);
                }
            }
        }
        words
    }

    /// Edits the value of a register, wherever it is written.
    pub fn set(&mut self, reg: &Reg, edit: impl Fn(u32) -> u32) {
        let at = dword(reg);
        for packet in &mut self.0 {
            if let Packet::Registers { first, values } = packet
                && let Some(value) = at
                    .checked_sub(*first)
                    .and_then(|i| values.get_mut(i as usize))
            {
                *value = edit(*value);
            }
        }
    }

    /// Writes a register never; those behind it in its packet, on their own.
    pub fn omit(&mut self, reg: &Reg) {
        let at = dword(reg);
        let mut all = Vec::new();
        for packet in self.0.drain(..) {
            match packet {
                Packet::Registers { first, values }
                    if (first..first + values.len() as u32).contains(&at) =>
                {
                    let (before, rest) = values.split_at((at - first) as usize);
                    for (first, values) in [(first, before), (at + 1, &rest[1..])] {
                        if !values.is_empty() {
                            let values = values.to_vec();
                            all.push(Packet::Registers { first, values });
                        }
                    }
                }
                other => all.push(other),
            }
        }
        self.0 = all;
    }

    /// Edits the dwords of a command, wherever it is.
    pub fn change(&mut self, op: u8, edit: impl Fn(&mut Vec<u32>)) {
        for packet in &mut self.0 {
            if let Packet::Command { op: is, body } = packet
                && *is == op
            {
                edit(body);
            }
        }
    }

    /// Leaves out the commands of an operation that a test finds.
    pub fn without(&mut self, op: u8, test: impl Fn(&[u32]) -> bool) {
        self.0.retain(|packet| match packet {
            Packet::Command { op: is, body } => *is != op || !test(body),
            Packet::Registers { .. } => true,
        });
    }

    /// Whether something is loaded that a test finds.
    pub fn has_load(&self, test: impl Fn(&LoadState) -> bool) -> bool {
        self.0.iter().any(|packet| match packet {
            Packet::Command { op, body } => {
                *op == op::LOAD_STATE6_FRAG && test(&LoadState::decode(body[0]))
            }
            Packet::Registers { .. } => false,
        })
    }

    /// Edits what CP_LOAD_STATE6 is told, where a test finds it; false takes the packet away.
    pub fn loads(&mut self, edit: impl Fn(&mut LoadState) -> bool) {
        self.0.retain_mut(|packet| match packet {
            Packet::Command { op, body } if *op == op::LOAD_STATE6_FRAG => {
                let mut state = LoadState::decode(body[0]);
                let stays = edit(&mut state);
                body[0] = state.encode();
                stays
            }
            _ => true,
        });
    }
}

/// Whether a load is of a kind.
pub fn is_constants(state: &LoadState) -> bool {
    (state.kind, state.block) == (load::ST6_CONSTANTS, load::SB6_CS_SHADER)
}

pub fn is_code(state: &LoadState) -> bool {
    (state.kind, state.block) == (load::ST6_SHADER, load::SB6_CS_SHADER)
}

pub fn is_texture(state: &LoadState) -> bool {
    (state.kind, state.block) == (load::ST6_CONSTANTS, load::SB6_CS_TEX)
}

pub fn is_image(state: &LoadState) -> bool {
    state.kind == load::ST6_UAV
}

/// A tap for bugs of calls.
pub struct CallBug {
    pub name: &'static str,
    pub edit: fn(&mut [u8]) -> bool,
}

impl Tap for CallBug {
    fn before(&self, _: &str, access: &mut Access) -> Option<std::result::Result<Answer, Fault>> {
        if access.verb != Verb::Ioctl || access.name != self.name {
            return None;
        }
        match (self.edit)(&mut access.data) {
            true => None,
            false => Some(Ok(Answer {
                data: access.data.clone(),
                ..Answer::value(0)
            })),
        }
    }
}

/// The layer.
pub struct Mutant {
    inner: Arc<dyn QcomBackend>,
    how: How,
}

impl Mutant {
    pub fn over(inner: Arc<dyn QcomBackend>, how: How) -> Arc<dyn QcomBackend> {
        Arc::new(Mutant { inner, how })
    }
}

impl Backend for Mutant {
    fn id(&self) -> &DeviceId {
        self.inner.id()
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn facts(&self) -> &Facts {
        self.inner.facts()
    }
    fn space(&self) -> &Arc<Space> {
        self.inner.space()
    }
    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        self.inner.memory(request)
    }
    fn host_share(&self) -> u64 {
        self.inner.host_share()
    }
    fn event(&self) -> Result<Event> {
        self.inner.event()
    }
    fn wake(&self, event: &Event) {
        self.inner.wake(event);
    }
    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.inner.sleep(event, age, limit)
    }
    fn flush_vram(&self) -> Result<()> {
        self.inner.flush_vram()
    }
    fn ticks(&self) -> Result<u64> {
        self.inner.ticks()
    }
    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.inner.window_at(va)
    }
}

impl QcomBackend for Mutant {
    fn gpu(&self) -> &Gpu {
        self.inner.gpu()
    }

    fn context(&self, event: &Event, priority: u32) -> Result<Arc<dyn ContextHandle>> {
        Ok(Arc::new(MutantContext {
            context: self.inner.context(event, priority)?,
            backend: self.inner.clone(),
            how: self.how,
            kept: Mutex::default(),
        }))
    }
}

/// A context whose submissions are edited.
struct MutantContext {
    // Ended first: the memory below is not used then.
    context: Arc<dyn ContextHandle>,
    backend: Arc<dyn QcomBackend>,
    how: How,
    kept: Mutex<Vec<Memory>>,
}

impl MutantContext {
    /// Edits dwords of memory that the host sees.
    fn edit(&self, at: u64, dwords: usize, edit: impl FnOnce(&mut [u32])) {
        let (window, offset) = self.backend.window_at(at).unwrap();
        let mut words = vec![0; dwords];
        window.read_words(offset, &mut words).unwrap();
        let before = words.clone();
        edit(&mut words);
        if words != before {
            window.write_words(offset, &words).unwrap();
        }
    }

    /// Edits what packets load.
    fn loads(&self, packets: &Packets) {
        for packet in &packets.0 {
            let Packet::Command { op, body } = packet else {
                continue;
            };
            let [first, low, high] = body[..] else {
                continue;
            };
            if *op != op::LOAD_STATE6_FRAG {
                continue;
            }
            let state = LoadState::decode(first);
            let at = u64::from(high) << 32 | u64::from(low);
            let dwords = (state.units * state.unit_bytes().unwrap() / 4) as usize;
            match self.how {
                How::State(edit) if !is_code(&state) => {
                    self.edit(at, dwords, |words| edit(state, words));
                }
                How::Code(edit) if is_code(&state) => self.edit(at, dwords, |words| {
                    let (pairs, _) = words.as_chunks::<2>();
                    let code = pairs
                        .iter()
                        .map(|[low, high]| u64::from(*high) << 32 | u64::from(*low));
                    let mut code: Vec<u64> = code.collect();
                    edit(&mut code);
                    for (pair, word) in words.chunks_exact_mut(2).zip(code) {
                        pair.copy_from_slice(&[word as u32, (word >> 32) as u32]);
                    }
                }),
                _ => {}
            }
        }
    }

    fn edited(&self, buffer: &IndirectBuffer) -> IndirectBuffer {
        let (window, offset) = self.backend.window_at(buffer.address).unwrap();
        let mut words = vec![0; buffer.dwords as usize];
        window.read_words(offset, &mut words).unwrap();
        let mut packets = Packets::parse(&words);
        self.loads(&packets);
        match self.how {
            How::Packets(edit) => {
                edit(&mut packets);
                words = packets.words();
            }
            How::Words(edit) => edit(&mut words),
            How::State(_) | How::Code(_) | How::Call(..) => return *buffer,
        }
        let request = Request {
            bytes: words.len() as u64 * 4,
            align: 4096,
            kind: MemoryKind::Control,
            what: "edited packets",
        };
        let memory = self.backend.memory(&request).unwrap();
        let window = memory.window.as_ref().unwrap();
        window.write_words(0, &words).unwrap();
        let address = memory.va.0;
        self.kept.lock().unwrap().push(memory);
        IndirectBuffer {
            address,
            dwords: words.len() as u32,
        }
    }
}

impl ContextHandle for MutantContext {
    fn name(&self) -> &str {
        self.context.name()
    }

    fn most(&self) -> usize {
        self.context.most()
    }

    fn submit(&self, buffers: &[IndirectBuffer]) -> std::result::Result<(), Failure> {
        let edited = buffers.iter().map(|buffer| self.edited(buffer));
        let edited: Vec<_> = edited.filter(|buffer| buffer.dwords > 0).collect();
        self.context.submit(&edited)
    }

    fn counts(&self) -> std::result::Result<(u64, u64), TransportError> {
        self.context.counts()
    }

    fn sleep(&self, limit: Duration) -> std::result::Result<Progress, TransportError> {
        self.context.sleep(limit)
    }

    fn fault(&self, now: bool) -> std::result::Result<Option<String>, TransportError> {
        self.context.fault(now)
    }

    fn stop(&self) -> bool {
        self.context.stop()
    }
}
