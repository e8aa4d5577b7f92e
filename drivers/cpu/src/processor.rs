//! The command processor: one thread per queue that consumes the ring and does what the packets
//! say, strictly in order. Whatever it cannot do loses the device, with the place and the reason.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use drivers_host::clock::monotonic_ns;
use hcq::transport::MonotonicClock;
use hcq::{Deadline, Width};

use crate::bus::Bus;
use crate::event::spin;
use crate::guard::{Floats, Guard, Trap};
use crate::hold::{Hold, compares};
use crate::packet::{Packet, decode, extent};
use crate::progress::{Progress, Worker};
use crate::ring::{RingMemory, waiting};
use crate::runtime::Work;
use crate::shared::Shared;
use crate::waiters;
use crate::workers::Workers;

/// Words of an INDIRECT packet's target at most: 256 MiB.
pub(crate) const MAX_INDIRECT: u32 = 64 << 20;

/// The longest sleep of an idle processor between two polls.
const LONGEST_IDLE: Duration = Duration::from_millis(500);

/// The longest sleep of a blocked wait: writes of another device's hardware wake no thread.
const LONGEST_BLOCK: Duration = Duration::from_millis(1);

/// Sleeps between two looks at a runtime.
const SHORTEST_NAP: Duration = Duration::from_micros(5);
const LONGEST_NAP: Duration = Duration::from_micros(200);

/// How long a queue that ends looks for the end of what its runtime does.
const LAST_LOOKS: Duration = Duration::from_millis(200);

/// Bytes that are copied at a time between a runtime and memory that may not be there.
const BOUNCE: u64 = 1 << 20;

/// One queue's processor; [`Processor::run`] is the body of its thread.
pub(crate) struct Processor {
    pub(crate) shared: Arc<Shared>,
    /// The queue, as messages name it.
    pub(crate) unit: String,
    pub(crate) ring: Arc<RingMemory>,
    /// Who runs kernels; `None` on a copy queue.
    pub(crate) workers: Option<Workers>,
    /// What does kernels and copies instead, where the device has a runtime. Borrowed for one packet at a time.
    pub(crate) work: Option<RefCell<Box<dyn Work>>>,
    /// Its own thread, and the queue, for who waits.
    pub(crate) worker: Arc<Worker>,
    pub(crate) progress: Arc<Progress>,
    /// How often to look before sleeping.
    pub(crate) spin: Duration,
    /// What kernels take subnormal numbers for.
    pub(crate) floats: Floats,
}

/// Why a processor ends.
enum Stop {
    /// The device is lost already.
    Lost,
    /// It is lost from here on, for this reason.
    Fault(String),
}

/// Buffers that are kept between packets, so that a steady state allocates nothing.
struct Scratch {
    indirect: Vec<u32>,
    args: Vec<u64>,
}

impl Processor {
    /// Consumes the ring until the device closes or is lost.
    pub(crate) fn run(self) {
        self.worker.begin();
        match Guard::new(self.floats) {
            Ok(guard) => {
                if let Err(Stop::Fault(what)) = self.consume(&guard) {
                    self.shared.fault(self.unit.clone(), what);
                }
            }
            Err(error) => {
                let what = format!("cannot start the command processor: {error}");
                self.shared.fault(self.unit.clone(), what);
            }
        }
        // Waiters for room or for the end check again and see the loss.
        self.ring.space().notify();
        waiters::wake_all();
        if let Some(work) = &self.work {
            self.leave(&mut **work.borrow_mut());
        }
    }

    /// Looks for a moment whether a runtime has done what it was handed: until then it may write.
    fn leave(&self, work: &mut dyn Work) {
        let deadline = Deadline::after(LAST_LOOKS);
        loop {
            match work.is_done() {
                Ok(true) => return,
                Ok(false) if !deadline.expired(&MonotonicClock) => {
                    std::thread::sleep(LONGEST_NAP);
                }
                // Where something failed, nobody knows of the rest.
                Ok(false) | Err(_) => return self.shared.leave_running(),
            }
        }
    }

    fn consume(&self, guard: &Guard) -> Result<(), Stop> {
        let capacity = self.ring.capacity();
        let mut packet = vec![0u32; capacity];
        let mut scratch = Scratch {
            indirect: Vec::new(),
            args: Vec::with_capacity(capacity / 2),
        };
        loop {
            let Range { start: at, end } = self.next()?;
            if at == end {
                return Ok(());
            }
            let waiting = (end - at) as usize;
            let mut done = 0;
            while done < waiting {
                if self.shared.core.lost.is_lost() {
                    return Err(Stop::Lost);
                }
                let start = at + done as u64;
                let place = self.ring.index(start) as usize;
                let malformed = |e: &dyn std::fmt::Display| {
                    Stop::Fault(format!("malformed packet in the ring: {e}"))
                };
                let left = waiting - done;
                let (first, rest) = packet.split_at_mut(1);
                self.ring.copy(start, first);
                let length = extent(first[0], place, left).map_err(|e| malformed(&e))?;
                self.ring.copy(start + 1, &mut rest[..length - 1]);
                let words = &packet[..length];
                let (packet, _) = decode(words, place).map_err(|e| malformed(&e))?;
                self.execute(guard, packet, &mut scratch)?;
                done += length;
                self.ring.release(at + done as u64);
            }
        }
    }

    /// What waits in the ring; nothing once the device closes.
    fn next(&self) -> Result<Range<u64>, Stop> {
        loop {
            let has_some = || !waiting(&self.ring).is_empty();
            let come = spin(self.spin, has_some);
            if self.shared.core.lost.is_lost() {
                return Err(Stop::Lost);
            }
            if come || self.shared.closing() {
                return Ok(waiting(&self.ring));
            }
            self.ring.doorbell().wait(LONGEST_IDLE, || {
                has_some() || self.shared.core.lost.is_lost() || self.shared.closing()
            });
        }
    }

    fn execute(
        &self,
        guard: &Guard,
        packet: Packet<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), Stop> {
        let Packet::Indirect { address, words } = packet else {
            return self.execute_direct(guard, packet, &mut scratch.args);
        };
        if words > MAX_INDIRECT {
            let why = format!("INDIRECT of {words} words, expected at most {MAX_INDIRECT}");
            return Err(Stop::Fault(why));
        }
        let Scratch { indirect, args } = scratch;
        indirect.resize(words as usize, 0);
        Bus(guard)
            .read_words(address, indirect)
            .map_err(|trap| self.trapped("INDIRECT", &trap))?;
        let mut at = 0;
        while at < indirect.len() {
            let malformed = |what: &dyn std::fmt::Display| {
                Stop::Fault(format!("malformed packet at {address:#x}: {what}"))
            };
            let (packet, length) = decode(&indirect[at..], at).map_err(|e| malformed(&e))?;
            if let Packet::Indirect { .. } = packet {
                return Err(malformed(&format!("word {at}: nested INDIRECT")));
            }
            if self.shared.core.lost.is_lost() {
                return Err(Stop::Lost);
            }
            self.execute_direct(guard, packet, args)?;
            at += length;
        }
        Ok(())
    }

    fn execute_direct(
        &self,
        guard: &Guard,
        packet: Packet<'_>,
        block: &mut Vec<u64>,
    ) -> Result<(), Stop> {
        let bus = Bus(guard);
        if let Some(work) = &self.work
            && self.hand_over(&bus, &mut **work.borrow_mut(), packet)?
        {
            return Ok(());
        }
        match packet {
            Packet::Wait { va, value } => {
                self.aligned("WAIT", va, 8)?;
                self.hold(&bus, Hold::Signal { va, value })
            }
            Packet::Signal { va, value } => {
                self.aligned("SIGNAL", va, 8)?;
                // The store releases what this thread did, and what its workers did before they
                // left the launch.
                bus.store(va, value, Width::W64)
                    .map_err(|trap| self.trapped("SIGNAL", &trap))?;
                waiters::raised(va, value);
                Ok(())
            }
            Packet::Timestamp { va } => {
                self.aligned("TIMESTAMP", va, 8)?;
                bus.store(va.wrapping_add(8), monotonic_ns(), Width::W64)
                    .map_err(|trap| self.trapped("TIMESTAMP", &trap))
            }
            Packet::Barrier { .. } => {
                // Packets are done when the next one starts, so only the order of memory is left,
                // and all of it is coherent: one fence for every scope.
                fence(Ordering::SeqCst);
                Ok(())
            }
            Packet::Exec {
                entry,
                groups,
                args,
            } => {
                let Some(workers) = &self.workers else {
                    let why = format!("EXEC {entry:#x} on a queue that cannot run kernels");
                    return Err(Stop::Fault(why));
                };
                block.clear();
                let words = args.chunks_exact(2);
                block.extend(words.map(|w| w[0] as u64 | (w[1] as u64) << 32));
                // SAFETY: entry and arguments come from a program that was loaded with this ABI;
                // that its code keeps to its buffers is the contract of loading it.
                let run = unsafe { workers.run(guard, &self.worker, entry, block, groups) };
                run.map_err(|trap| Stop::Fault(self.shared.describe(&trap, Some(entry))))
            }
            Packet::Copy { dst, src, bytes } => {
                if bytes > isize::MAX as u64 {
                    return Err(Stop::Fault(format!("COPY of {bytes} bytes")));
                }
                let copied = self.worker.inside(|| bus.copy(dst, src, bytes));
                copied.map_err(|trap| {
                    self.trapped(&format!("COPY {dst:#x} <- {src:#x} x {bytes}"), &trap)
                })
            }
            Packet::Fill { at, value, bytes } => {
                self.aligned("FILL", at | bytes, 4)?;
                let filled = self.worker.inside(|| bus.fill(at, value, bytes));
                filled.map_err(|trap| {
                    self.trapped(&format!("FILL {at:#x} <- {value:#x} x {bytes}"), &trap)
                })
            }
            Packet::Write { at, value, width } => {
                self.aligned("WRITE", at, width_bytes(width))?;
                bus.store(at, value, width)
                    .map_err(|trap| self.trapped("WRITE", &trap))
            }
            Packet::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                self.aligned("POLL", at, width_bytes(width))?;
                let hold = Hold::Word {
                    at,
                    mask,
                    value,
                    compare,
                    width,
                };
                self.hold(&bus, hold)
            }
            // `execute` has resolved it.
            Packet::Indirect { address, .. } => Err(Stop::Fault(format!("INDIRECT {address:#x}"))),
        }
    }

    /// Hands a packet over to a runtime, or waits for what it has been given; then whether nothing is left to do.
    fn hand_over(
        &self,
        bus: &Bus<'_>,
        work: &mut dyn Work,
        packet: Packet<'_>,
    ) -> Result<bool, Stop> {
        let said = |result: Result<(), String>| result.map(|()| true);
        let done = match packet {
            Packet::Exec {
                entry,
                groups,
                args,
            } => {
                let host = |at| self.shared.buffer(at);
                let run = self.worker.inside(|| work.exec(entry, groups, args, &host));
                said(run).map_err(|what| match self.shared.core.kernels.at(entry) {
                    Some((kernel, _)) => format!("kernel {}: {what}", kernel.name),
                    None => format!("kernel at {entry:#x}, in no loaded program: {what}"),
                })
            }
            // It orders what is on the queue, which is in order.
            Packet::Barrier { .. } => Ok(false),
            Packet::Copy { dst, src, bytes } if work.owns(dst) || work.owns(src) => {
                let copied = self.copy_of_runtime(bus, work, (dst, src), bytes)?;
                said(copied).map_err(|what| format!("COPY {dst:#x} <- {src:#x} x {bytes}: {what}"))
            }
            Packet::Fill { at, value, bytes } if work.owns(at) => {
                self.aligned("FILL", at | bytes, 4)?;
                said(work.fill(at, value, bytes))
                    .map_err(|what| format!("FILL {at:#x} <- {value:#x} x {bytes}: {what}"))
            }
            Packet::Write { at, value, width } if work.owns(at) => {
                self.aligned("WRITE", at, width_bytes(width))?;
                let bytes = &value.to_le_bytes()[..width_bytes(width) as usize];
                said(work.write(at, bytes)).map_err(|what| format!("WRITE {at:#x}: {what}"))
            }
            Packet::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } if work.owns(at) => {
                self.aligned("POLL", at, width_bytes(width))?;
                let hold = Hold::Word {
                    at,
                    mask,
                    value,
                    compare,
                    width,
                };
                self.progress.set_held(Some(hold));
                let polled = self.poll_of_runtime(work, (at, width), |word| {
                    compares(word & mask, compare, value)
                });
                self.progress.set_held(None);
                polled.map(|()| true).map(Ok)?
            }
            // What the host and other queues see comes after what was handed over.
            _ => self.settle(work).map(|()| false).map(Ok)?,
        };
        done.map_err(Stop::Fault)
    }

    /// Returns once a word of a runtime's memory is as it should be. Gives up when the device is lost.
    fn poll_of_runtime(
        &self,
        work: &mut dyn Work,
        (at, width): (u64, Width),
        is_met: impl Fn(u64) -> bool,
    ) -> Result<(), Stop> {
        let mut nap = SHORTEST_NAP;
        loop {
            let read = work.read(at, width_bytes(width) as usize);
            read.map_err(|what| Stop::Fault(format!("POLL {at:#x}: {what}")))?;
            self.settle(work)?;
            let mut word = [0; 8];
            let found = word.iter_mut().zip(work.bytes());
            found.for_each(|(to, from)| *to = *from);
            if is_met(u64::from_le_bytes(word)) {
                return Ok(());
            }
            if self.shared.core.lost.is_lost() {
                return Err(Stop::Lost);
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_BLOCK);
        }
    }

    /// Hands a copy over. Memory of the process that nobody knows may not be there: the runtime is given its bytes.
    fn copy_of_runtime(
        &self,
        bus: &Bus<'_>,
        work: &mut dyn Work,
        (dst, src): (u64, u64),
        bytes: u64,
    ) -> Result<Result<(), String>, Stop> {
        let is_known = |at: u64| {
            let buffer = self.shared.buffer(at);
            work.owns(at) || buffer.is_some_and(|buffer| bytes <= buffer.end - at)
        };
        if bytes == 0 || is_known(dst) && is_known(src) {
            return Ok(work.copy(dst, src, bytes));
        }
        let name = || format!("COPY {dst:#x} <- {src:#x} x {bytes}");
        let trapped = |trap: Trap| self.trapped(&name(), &trap);
        let mut part = vec![0u8; bytes.min(BOUNCE) as usize];
        for at in (0..bytes).step_by(BOUNCE as usize) {
            let length = (bytes - at).min(BOUNCE);
            let part = &mut part[..length as usize];
            let into = work.owns(dst);
            let handed = match into {
                true => {
                    let place = part.as_mut_ptr() as u64;
                    bus.copy(place, src + at, length).map_err(trapped)?;
                    work.write(dst + at, part)
                }
                false => work.read(src + at, part.len()),
            };
            if handed.is_err() {
                return Ok(handed);
            }
            self.settle(work)?;
            if !into {
                let place = work.bytes().as_ptr() as u64;
                bus.copy(dst + at, place, length).map_err(trapped)?;
            }
        }
        Ok(Ok(()))
    }

    /// Returns once a runtime has done what it was handed. That is not seen as progress: a kernel that never ends is
    /// a silence. Gives up when the device is lost.
    fn settle(&self, work: &mut dyn Work) -> Result<(), Stop> {
        let mut ended = Ok(false);
        let mut look = || {
            ended = work.is_done();
            !matches!(ended, Ok(false))
        };
        if !spin(self.spin, &mut look) {
            self.progress.set_elsewhere(true);
            let mut nap = SHORTEST_NAP;
            let mut is_lost = false;
            while !is_lost && !look() {
                std::thread::sleep(nap);
                nap = (nap * 2).min(LONGEST_NAP);
                is_lost = self.shared.core.lost.is_lost();
            }
            self.progress.set_elsewhere(false);
            if is_lost {
                return Err(Stop::Lost);
            }
        }
        ended.map(|_| ()).map_err(Stop::Fault)
    }

    /// Returns once memory is as `hold` wants it. Gives up when the device is lost.
    fn hold(&self, bus: &Bus<'_>, hold: Hold) -> Result<(), Stop> {
        let met = || hold.met(bus);
        if spin(self.spin, || met().is_ok_and(|met| met)) {
            return Ok(());
        }
        let shared = &*self.shared;
        let mut nap = Duration::from_micros(5);
        self.progress.set_held(Some(hold));
        let ended = loop {
            match met() {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(trap) => break Err(self.trapped(&hold.to_string(), &trap)),
            }
            if shared.core.lost.is_lost() {
                break Err(Stop::Lost);
            }
            match hold {
                Hold::Signal { va, value } => waiters::sleep(va, value, LONGEST_BLOCK, || {
                    shared.core.lost.is_lost() || met().unwrap_or(true)
                }),
                // A plain store wakes no thread.
                Hold::Word { .. } => {
                    std::thread::sleep(nap);
                    nap = (nap * 2).min(LONGEST_BLOCK);
                }
            }
        };
        self.progress.set_held(None);
        ended
    }

    fn aligned(&self, packet: &str, at: u64, bytes: u64) -> Result<(), Stop> {
        match at.is_multiple_of(bytes) {
            true => Ok(()),
            false => Err(Stop::Fault(format!(
                "{packet}: address {at:#x} is not a multiple of {bytes}"
            ))),
        }
    }

    fn trapped(&self, packet: &str, trap: &Trap) -> Stop {
        Stop::Fault(format!("{packet}: {}", self.shared.describe(trap, None)))
    }
}

fn width_bytes(width: Width) -> u64 {
    match width {
        Width::W32 => 4,
        Width::W64 => 8,
    }
}
