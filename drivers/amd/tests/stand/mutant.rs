//! A layer between driver and twin in which bugs can be switched on: it edits the arguments of
//! ioctls, the words of rings and the doorbells, as a driver with that bug would write them.
//!
//! Rings and doorbells that the driver maps are copies. A thread watches the copied doorbells, edits
//! what is new in the copied ring, and passes both on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use drivers_amd::encode::pm4::length;
use drivers_spec::amd::kfd::{self, CreateQueueArgs, mmap, queue_type};
use drivers_spec::amd::pm4;
use hcq::mem::view::View;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use twin_amd::machine::TwinMachine;
use zerocopy::FromBytes;

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
    /// Edits the argument of an ioctl of that number; false swallows the call.
    Ioctl(fn(u32, &mut [u8]) -> bool),
    /// Edits what is new in a ring; the flag says whether it is one of SDMA.
    Words(fn(&mut [u32], bool)),
    /// Edits the indirect buffers that a PM4 ring names. They may be edited more than once.
    Indirect(fn(&mut [u32])),
    /// As `Words`, and the host's flushes of the HDP are lost.
    Unflushed(fn(&mut [u32], bool)),
    /// Rings a doorbell in its own way.
    Bell(fn(&Bell<'_>)),
}

/// A doorbell that is rung.
pub struct Bell<'a> {
    /// The real doorbells, and where this one is.
    pub page: &'a View,
    pub at: usize,
    /// What the driver rings with.
    pub value: u64,
    pub sdma: bool,
}

impl Bell<'_> {
    pub fn ring(&self, value: u64) {
        self.page.store_u64(self.at, value).unwrap();
    }
}

/// The layer.
pub struct Mutant {
    shared: Arc<Shared>,
    relay: Option<JoinHandle<()>>,
}

struct Shared {
    how: How,
    stop: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Address, copy and real ring.
    rings: Vec<(u64, View, View)>,
    /// Copy and real page of doorbells.
    doorbells: Option<(View, View)>,
    /// Address and content of other memory.
    memory: Vec<(u64, View)>,
    queues: Vec<Relayed>,
}

struct Relayed {
    ring: u64,
    sdma: bool,
    doorbell: usize,
    last: u64,
}

impl Mutant {
    /// A twin behind the layer.
    pub fn over(twin: &Arc<TwinMachine>, bug: &Bug) -> Arc<dyn Machine> {
        let shared = Arc::new(Shared {
            how: bug.how,
            stop: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let relay = std::thread::spawn({
            let shared = shared.clone();
            move || {
                while !shared.stop.load(Ordering::Relaxed) {
                    shared.relay();
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
        });
        let relay = Some(relay);
        Tapped::machine(twin.clone(), Arc::new(Mutant { shared, relay }))
    }
}

impl Drop for Mutant {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.relay.take().unwrap().join().unwrap();
    }
}

impl Shared {
    fn relay(&self) {
        let mut state = self.state.lock().unwrap();
        let State {
            rings,
            doorbells,
            memory,
            queues,
        } = &mut *state;
        let Some((copy_bell, bell)) = doorbells else {
            return;
        };
        for queue in queues {
            let value = copy_bell.load_u64(queue.doorbell).unwrap();
            if value == queue.last {
                continue;
            }
            let Some((_, copy, real)) = rings.iter().find(|r| r.0 == queue.ring) else {
                // The driver's own copies: left alone.
                queue.last = value;
                bell.store_u64(queue.doorbell, value).unwrap();
                continue;
            };
            let unit = if queue.sdma { 4 } else { 1 };
            let (from, to) = (queue.last / unit, value / unit);
            let dwords = copy.len() as u64 / 4;
            let place = |at: u64| (at % dwords * 4) as usize;
            let mut words: Vec<u32> = (from..to).map(|at| copy.read(place(at)).unwrap()).collect();
            if let How::Words(edit) | How::Unflushed(edit) = self.how {
                edit(&mut words, queue.sdma);
            }
            if let (How::Indirect(edit), false) = (self.how, queue.sdma) {
                edit_indirect(&words, memory, edit);
            }
            for (at, &word) in (from..to).zip(&words) {
                real.write(place(at), word).unwrap();
            }
            queue.last = value;
            let rung = Bell {
                page: bell,
                at: queue.doorbell,
                value,
                sdma: queue.sdma,
            };
            match self.how {
                How::Bell(ring) => ring(&rung),
                _ => rung.ring(value),
            }
        }
    }
}

/// Edits the indirect buffers that packets of a ring name.
fn edit_indirect(words: &[u32], memory: &[(u64, View)], edit: fn(&mut [u32])) {
    let mut at = 0;
    while at < words.len() {
        let packet = &words[at..];
        at += length(packet[0]);
        if pm4::OPCODE.get(packet[0]) as u8 != pm4::INDIRECT_BUFFER {
            continue;
        }
        let address = u64::from(packet[1]) | u64::from(packet[2]) << 32;
        let inside =
            |(start, view): &&(u64, View)| (*start..*start + view.len() as u64).contains(&address);
        // The latest: addresses are used again.
        let (start, view) = memory.iter().rev().find(inside).unwrap();
        let offset = (address - start) as usize;
        let mut content = vec![0u32; pm4::ib::IB_SIZE.get(packet[3]) as usize];
        view.read_words(offset, &mut content).unwrap();
        let before = content.clone();
        edit(&mut content);
        if content != before {
            view.write_words(offset, &content).unwrap();
        }
    }
}

/// Rings are the only memory of these sizes.
const RINGS: [usize; 2] = [16 << 10, 8 << 10];

impl Tap for Mutant {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if access.verb == Verb::Ioctl
            && let How::Ioctl(edit) = self.shared.how
            && !edit(access.arg("request") as u32, &mut access.data)
        {
            let mut answer = Answer::value(0);
            answer.data = access.data.clone();
            return Some(Ok(answer));
        }
        None
    }

    fn after(&self, file: &str, access: &Access, answer: &mut Result<Answer, Fault>) {
        let Ok(answer) = answer else {
            return;
        };
        match access.verb {
            Verb::Ioctl if access.name == kfd::CREATE_QUEUE.name => {
                // A queue that starts looks at its write pointer, which is not relayed: it does so
                // before anything is submitted.
                std::thread::sleep(Duration::from_millis(20));
                let args = CreateQueueArgs::read_from_bytes(&answer.data).unwrap();
                self.shared.state.lock().unwrap().queues.push(Relayed {
                    ring: args.ring_base_address,
                    sdma: args.queue_type == queue_type::SDMA,
                    doorbell: (args.doorbell_offset & (mmap::DOORBELL_BYTES - 1)) as usize,
                    last: 0,
                });
            }
            Verb::Mmap => {
                let real = answer.view.take().unwrap();
                answer.view = Some(self.shared.mapped(file, access.arg("at"), real));
            }
            _ => {}
        }
    }
}

impl Shared {
    /// What the driver gets in place of a mapping.
    fn mapped(&self, file: &str, at: u64, real: View) -> View {
        let mut state = self.state.lock().unwrap();
        let copy = View::alloc(real.len(), 4096).unwrap();
        match at {
            0 => {
                state.doorbells = Some((copy.clone(), real));
                copy
            }
            _ if RINGS.contains(&real.len()) => {
                state.rings.push((at, copy.clone(), real));
                copy
            }
            _ if file == "/dev/kfd" => match self.how {
                How::Unflushed(_) => copy,
                _ => real,
            },
            _ => {
                state.memory.push((at, real.clone()));
                real
            }
        }
    }
}
