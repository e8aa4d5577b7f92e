//! A made-up GPU as some are: its kernel driver takes submissions by a call, which names words in memory, and numbers them;
//! its memory is the host's, and it has no copy queue. Its words:
//!
//! | word | operands |
//! |---|---|
//! | 1 wait | address (2), value (2) |
//! | 2 signal | address (2), value (2) |
//! | 3 copy | destination (2), source (2), bytes (2) |
//! | 4 fill | address (2), word, bytes (2) |
//! | 5 run | code (2), address of arguments (2): address, number to add there |

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use drivers_gpu::core::Core;
use drivers_gpu::device::{Gpu, Opening};
use drivers_gpu::engine::load::{Load, Loader};
use drivers_gpu::memory::pool::{Piece, Pool};
use drivers_gpu::memory::signal::new_timeline;
use drivers_gpu::submit::decode::{Doing, Packet, Test};
use drivers_gpu::submit::hardware::{Failed, Submitted};
use drivers_gpu::submit::{Channel, Hardware, Parts, Submit};
use hcq::command_buffer::{Part, Reloc, Section};
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::transport::TransportError;
use hcq::{
    Abilities, ArgLayout, Command, CommandBuffer, Costs, DeviceId, Error, GpuVa, KernelImage,
    MemoryKind, Program, QueueKind, Result,
};

/// Calls that may be under way.
pub const PLACES: u64 = 8;

/// The device's share of the host's memory.
pub const SHARE: u64 = 64 << 20;

const COSTS: Costs = Costs {
    batch: 4,
    in_flight: 4,
};

/// The kernel driver with the GPU behind it.
pub struct Machine {
    id: DeviceId,
    facts: Facts,
    space: Arc<Space>,
    memory: Mutex<BTreeMap<u64, Window>>,
    contexts: Mutex<Vec<Arc<Context>>>,
    /// The next call is refused.
    pub refuses: AtomicBool,
    /// Done behind the next look at how far it is.
    pub at_look: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Machine {
    /// With so many bytes of VRAM, which the host does not see; or with none.
    pub fn new(vram: u64) -> Arc<Machine> {
        Arc::new(Machine {
            id: DeviceId::new("MADE", 0),
            facts: Facts {
                place: "made-up".into(),
                vram,
                vram_windows: false,
                clock_hz: 1_000_000_000,
                costs: COSTS,
                log: "made-up",
            },
            space: Arc::default(),
            memory: Mutex::default(),
            contexts: Mutex::default(),
            refuses: AtomicBool::new(false),
            at_look: Mutex::default(),
        })
    }

    /// Memory objects that are not freed.
    pub fn objects(&self) -> usize {
        self.memory.lock().unwrap().len()
    }

    /// Contexts that are not destroyed.
    pub fn running(&self) -> usize {
        let contexts = self.contexts.lock().unwrap();
        contexts.iter().filter(|one| !one.lock().is_gone).count()
    }

    fn at(&self, va: u64) -> (Window, u64) {
        let memory = self.memory.lock().unwrap();
        let (start, window) = memory.range(..=va).next_back().expect("a known address");
        assert!(va - start < window.len(), "{va:#x} is nobody's");
        (window.clone(), va - start)
    }

    fn load(&self, va: u64) -> u64 {
        let (window, offset) = self.at(va);
        window.load(offset).unwrap()
    }

    fn store(&self, va: u64, value: u64) {
        let (window, offset) = self.at(va);
        window.store(offset, value).unwrap();
    }
}

/// Frees an object.
struct Object(Arc<Machine>, u64);

impl Drop for Object {
    fn drop(&mut self) {
        self.0.memory.lock().unwrap().remove(&self.1);
    }
}

/// The machine as a process has it.
pub struct Opened(pub Arc<Machine>);

impl Backend for Opened {
    fn id(&self) -> &DeviceId {
        &self.0.id
    }

    fn name(&self) -> &'static str {
        "CALLS"
    }

    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn space(&self) -> &Arc<Space> {
        &self.0.space
    }

    fn host_share(&self) -> u64 {
        SHARE
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let bytes = request.bytes.next_multiple_of(4096);
        let view = View::alloc(bytes as usize, request.align.max(4096) as usize).unwrap();
        let va = view.as_ptr() as u64;
        let window = Window::mapped("made-up memory", view);
        self.0.memory.lock().unwrap().insert(va, window.clone());
        let is_seen = self.0.facts.vram == 0 || request.kind != MemoryKind::Device;
        Ok(Memory {
            va: GpuVa(va),
            bytes,
            window: is_seen.then_some(window),
            zeroed: true,
            owner: Box::new(Object(self.0.clone(), va)),
        })
    }

    /// A context: its number of done calls is what is slept for.
    fn event(&self) -> Result<Event> {
        let mut contexts = self.0.contexts.lock().unwrap();
        contexts.push(Arc::default());
        Ok(Event {
            id: contexts.len() as u32 - 1,
            mailbox: None,
            owner: Box::new(()),
        })
    }

    fn wake(&self, event: &Event) {
        let context = self.0.contexts.lock().unwrap()[event.id as usize].clone();
        context.lock().woken += 1;
        context.changed.notify_all();
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        let Some(event) = event else {
            std::thread::sleep(limit);
            return Ok(None);
        };
        let context = self.0.contexts.lock().unwrap()[event.id as usize].clone();
        let is_old = |calls: &mut Calls| calls.done + calls.woken < age.0;
        let slept = context
            .changed
            .wait_timeout_while(context.lock(), limit, is_old);
        let (calls, _) = slept.unwrap();
        age.0 = calls.done + calls.woken + 1;
        Ok(None)
    }

    fn flush_vram(&self) -> Result<()> {
        Ok(())
    }

    fn ticks(&self) -> Result<u64> {
        Ok(0)
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let memory = self.0.memory.lock().unwrap();
        let (start, window) = memory.range(..=va).next_back()?;
        (va - start < window.len()).then(|| (window.clone(), va - start))
    }
}

/// A context of the kernel driver.
#[derive(Default)]
pub struct Context {
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    waiting: VecDeque<Vec<u32>>,
    made: u64,
    done: u64,
    woken: u64,
    is_gone: bool,
}

impl Context {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap()
    }

    /// The GPU's life with it: calls in order.
    fn run(&self, machine: &Machine) {
        loop {
            let calls = self.lock();
            let idle = |calls: &mut Calls| calls.waiting.is_empty() && !calls.is_gone;
            let mut calls = self.changed.wait_while(calls, idle).unwrap();
            if calls.is_gone {
                return;
            }
            let Some(entries) = calls.waiting.pop_front() else {
                continue;
            };
            drop(calls);
            for entry in entries.chunks_exact(3) {
                let (window, offset) = machine.at(quad(entry, 0));
                let mut words = vec![0; entry[2] as usize];
                window.read_words(offset, &mut words).unwrap();
                if !self.execute(machine, &words) {
                    return;
                }
            }
            self.lock().done += 1;
            self.changed.notify_all();
        }
    }

    /// Says whether the context is still there.
    fn execute(&self, machine: &Machine, words: &[u32]) -> bool {
        let mut rest = words;
        while !rest.is_empty() {
            match rest[0] {
                1 => {
                    while machine.load(quad(rest, 1)) < quad(rest, 3) {
                        if self.lock().is_gone {
                            return false;
                        }
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
                2 => machine.store(quad(rest, 1), quad(rest, 3)),
                3 => {
                    let mut bytes = vec![0; quad(rest, 5) as usize];
                    let (from, at) = machine.at(quad(rest, 3));
                    from.read_bytes(at, &mut bytes).unwrap();
                    let (to, at) = machine.at(quad(rest, 1));
                    to.write_bytes(at, &bytes).unwrap();
                }
                4 => {
                    let words = vec![rest[3]; quad(rest, 4) as usize / 4];
                    let (to, at) = machine.at(quad(rest, 1));
                    to.write_words(at, &words).unwrap();
                }
                5 => {
                    let arguments = quad(rest, 3);
                    let [at, add] = [machine.load(arguments), machine.load(arguments + 8)];
                    machine.store(at, machine.load(at) + add);
                }
                word => panic!("word {word:#x} starts no packet"),
            }
            rest = &rest[length(rest[0])..];
        }
        true
    }
}

fn length(word: u32) -> usize {
    match word {
        3 => 7,
        4 => 6,
        _ => 5,
    }
}

fn quad(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

/// How calls are made.
pub struct Caller {
    machine: Arc<Machine>,
    context: Arc<Context>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Submit for Caller {
    const UNIT: &'static str = "places for submissions";

    fn size(&self) -> u64 {
        PLACES
    }

    fn most(&self) -> usize {
        usize::MAX
    }

    fn packet_boundary(&self, words: &[u32], _: usize) -> usize {
        words.len()
    }

    fn missing(&self, used: u64, _: usize) -> u64 {
        (used + 1).saturating_sub(PLACES)
    }

    fn submit(&self, at: u64, words: &[u32]) -> Result<Submitted, Failed> {
        if self.machine.refuses.swap(false, Ordering::Relaxed) {
            return Err(Failed::Refused(Error::Os {
                device: self.machine.id.clone(),
                call: "a submission".into(),
                source_text: "no memory for it".into(),
                errno: Some(12),
                hint: "submit less at a time".into(),
            }));
        }
        // Work stores its signal a little before its place is free. As KGSL does, the call waits for the place.
        let (calls, limit) = (self.context.lock(), Duration::from_secs(10));
        let is_full = |calls: &mut Calls| calls.made - calls.done >= PLACES;
        let (mut calls, slept) = self
            .context
            .changed
            .wait_timeout_while(calls, limit, is_full)
            .unwrap();
        assert!(!slept.timed_out(), "there is room");
        assert_eq!(calls.made, at, "who calls counts the calls");
        assert!(!words.is_empty() && words.len().is_multiple_of(3));
        calls.waiting.push_back(words.to_vec());
        calls.made += 1;
        let end = calls.made;
        drop(calls);
        self.context.changed.notify_all();
        Ok(Submitted { end, told: end })
    }

    fn taken(&self) -> Result<Option<u64>, TransportError> {
        let done = self.context.lock().done;
        let at_look = self.machine.at_look.lock().unwrap().take();
        if let Some(at_look) = at_look {
            at_look();
        }
        Ok(Some(done))
    }

    fn submitted(&self) -> u64 {
        self.context.lock().made
    }

    fn pointers(&self) -> (u64, u64) {
        let calls = self.context.lock();
        (calls.made, calls.done)
    }
}

/// A queue.
pub struct Queue {
    caller: Caller,
    _progress: Piece,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Hardware for Queue {
    type Way = Caller;
    const WAKES_ALL: bool = false;

    fn way(&self) -> &Caller {
        &self.caller
    }

    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        for command in commands {
            match *command {
                Command::Wait { signal, value } => {
                    out.word(1);
                    out.quad(signal.va().0);
                    out.val(value);
                }
                Command::Signal { signal, value } => {
                    out.word(2);
                    out.quad(signal.va().0);
                    out.val(value);
                }
                Command::Copy { dst, src, bytes } => {
                    out.word(3);
                    out.val(dst);
                    out.val(src);
                    out.quad(bytes);
                }
                Command::Fill { at, value, bytes } => {
                    out.word(4);
                    out.val(at);
                    out.word(value);
                    out.quad(bytes);
                }
                Command::Exec { program, args, .. } => {
                    out.word(5);
                    out.quad(program.entry.0);
                    out.relocs.push(Reloc {
                        section: Section::Words,
                        offset: out.words.len() as u32 * 4,
                        part: Part::Whole,
                        add: out.data.len() as u32 * 4,
                    });
                    out.quad(0);
                    args.iter().for_each(|&arg| out.data_val(arg));
                }
                Command::Barrier { .. } => {}
                Command::Timestamp { .. } | Command::Write { .. } | Command::Poll { .. } => {
                    return Err(Error::Graph("the made-up queue has no such packet".into()));
                }
            }
        }
        Ok(())
    }

    fn begin(&self, _: &mut CommandBuffer) -> Result<()> {
        Ok(())
    }

    fn names_words(&self) -> bool {
        true
    }

    fn binds_words(&self) -> bool {
        true
    }

    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        if !words.is_empty() {
            out.extend([address as u32, (address >> 32) as u32, words.len() as u32]);
        }
    }

    fn stop(&self) -> bool {
        self.caller.context.lock().is_gone = true;
        self.caller.context.changed.notify_all();
        let thread = self.caller.thread.lock().unwrap().take();
        thread.is_none_or(|thread| thread.join().is_ok())
    }

    fn decode(&self, core: &Core, words: &[u32], position: u64) -> Vec<Packet> {
        let mut found = Vec::new();
        for entry in words.chunks_exact(3) {
            let read = drivers_gpu::submit::decode::peek_words;
            let words = read(core, quad(entry, 0), entry[2] as usize).unwrap();
            let mut rest = &words[..];
            while !rest.is_empty() {
                let (at, value) = (quad(rest, 1), quad(rest, 3));
                let doing = match rest[0] {
                    1 => Doing::Wait {
                        at,
                        bytes: 8,
                        mask: u64::MAX,
                        value,
                        test: Test::GreaterEqual,
                    },
                    2 => Doing::Signal { at, value },
                    3 => Doing::Copy {
                        dst: at,
                        src: value,
                        bytes: quad(rest, 5),
                    },
                    4 => Doing::Fill {
                        at,
                        value: rest[3],
                        bytes: quad(rest, 4),
                    },
                    5 => Doing::Launch {
                        code: at,
                        arguments: [value].into_iter().collect(),
                    },
                    word => Doing::Unknown { word },
                };
                found.push(Packet { position, doing });
                rest = &rest[length(rest[0])..];
            }
        }
        found
    }
}

impl Load for Queue {
    type Shared = ();

    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program> {
        let code = on.pool.piece(MemoryKind::Device, 16, "code")?;
        Ok(Program {
            name: image.name.clone(),
            entry: code.va(),
            args: image.args.clone(),
            local_bytes: 0,
            launch_words: Box::new([]),
            owner: Box::new(code),
        })
    }
}

/// The kernel that adds a number at an address.
pub fn add() -> KernelImage {
    KernelImage {
        name: "add".into(),
        arch: "made-up".into(),
        bytes: Arc::new([]),
        entry: "add".into(),
        args: ArgLayout::buffers(2),
        local_bytes: 0,
    }
}

fn queue(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    machine: &Arc<Machine>,
    index: u32,
) -> Result<Channel<Queue>> {
    let event = Arc::new(core.backend.event()?);
    let timeline = new_timeline(core, pool, &format!("timeline {index}"), &event)?;
    let progress = pool.piece(MemoryKind::Control, 16, "progress")?;
    let counted = (progress.shared()?, progress.va());
    counted.0.fill(0, 16, 0).unwrap();
    let context = machine.contexts.lock().unwrap()[event.id as usize].clone();
    let (theirs, runs) = (machine.clone(), context.clone());
    let thread = std::thread::spawn(move || runs.run(&theirs));
    let hardware = Queue {
        caller: Caller {
            machine: machine.clone(),
            context,
            thread: Mutex::new(Some(thread)),
        },
        _progress: progress,
    };
    let parts = Parts {
        hardware,
        kind: QueueKind::Compute,
        index,
        event,
        timeline,
        progress: counted,
        arguments: 64 << 10,
        full_limit: Duration::from_millis(100),
    };
    Channel::new(core, pool, parts)
}

/// Opens the machine, with one compute queue.
pub fn open(machine: &Arc<Machine>) -> Arc<Gpu<Queue>> {
    let core = Arc::new(Core::new(Arc::new(Opened(machine.clone())), None));
    let pool = Pool::new(&core);
    let opening = Opening {
        arch: "made-up".into(),
        name: "made-up".into(),
        units: 1,
        copies: 0,
        can: Abilities {
            poll: false,
            write: false,
            subnormals: true,
        },
        shared: (),
        drain_timeout: Duration::from_millis(100),
    };
    let on = (core.clone(), pool.clone(), machine.clone());
    let opened = Gpu::open(&core, &pool, opening, move |kind, _| {
        let (core, pool, machine) = &on;
        queue(core, pool, machine, u32::from(kind == QueueKind::Copy))
    });
    opened.unwrap()
}
