//! A channel: the host fetches entries of its ring and words of its push buffer, does its own methods, and
//! hands the others to the engine of their subchannel.
//!
//! - `entry`: entries of the ring; `push`: headers and methods;
//! - `method`: the host's methods; `semaphore`: the largest of them; `older`: those that were before it; `race`: work, and what must wait for it.
//!
//! Source: open-gpu-doc, manuals/ampere/ga100/{dev_pbdma,dev_ram}.ref.txt, also for newer chips as far as
//! the headers of their classes say nothing else.

mod entry;
mod method;
mod older;
mod push;
mod race;
mod semaphore;

use std::sync::Arc;

use drivers_spec::nv::push::{GP_ENTRY_BYTES, userd};
use drivers_spec::nv::{class, host};
use twin::rule::{Proof, Rule};
use twin::touched::Touched;

use crate::chip::Chip;
use crate::rm::channel::Channel as Made;

use super::error::{Error, Result, Stop, Wait, xid};
use super::port::Port;
use super::{Around, Gpu, Notice, compute, copy};

use entry::Entry;
use method::{Effect, Registers};
use push::{Header, Sequence};
use race::Jobs;

pub(crate) use push::Method;

static SUBCHANNEL: Rule = Rule {
    name: "HOST-SUBCHANNEL",
    text: "on a channel of graphics, compute is subchannel 1 and copies are subchannel 4; 0, 2 and 3 are 3D, inline-to-memory and 2D, which are not modelled, 5 to 7 are for software",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_ram.ref.txt, FIFO_DMA: the mapping is fixed; NV_PPBDMA_INTR_0_DEVICE",
    proof: Proof::Sourced,
};

static OBJECT: Rule = Rule {
    name: "HOST-SET-OBJECT",
    text: "SET_OBJECT has the class of the engine of its subchannel",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, NV_UDMA_OBJECT: INTR_HCE_ILLEGAL_CLASS",
    proof: Proof::Sourced,
};

static FIRST: Rule = Rule {
    name: "HOST-OBJECT-FIRST",
    text: "SET_OBJECT precedes all other methods of a subchannel",
    source: "maxime-peim/libcuda-research, docs/gpfifo_pushbuffer_reference.md: Xid 32 on an H100; the manual of GA100 says that no engine needs it",
    proof: Proof::Guess,
};

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has more to do.
    Ran,
    /// An acquire does not hold.
    Waits,
    /// All entries are done, and all work.
    Idle,
    /// The channel is dead.
    Dead,
}

/// Who takes methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Compute,
    Copy,
}

/// Work that an engine was given.
#[derive(Debug)]
enum Job {
    Copy(copy::Job),
    Compute(compute::Job),
}

/// Words of a segment that are not done.
#[derive(Debug)]
struct Segment {
    words: Vec<u32>,
    next: usize,
}

/// A channel, as the hardware has it.
#[derive(Debug)]
pub struct Channel {
    who: Arc<str>,
    chip: &'static Chip,
    /// Whether all subchannels are those of a copy engine.
    copies: bool,
    ring: u64,
    entries: u32,
    put: u32,
    get: u32,
    /// Bits 56:40 of the addresses of segments.
    base: u64,
    segment: Option<Segment>,
    sequence: Option<Sequence>,
    /// Whether the mask of subdevices has this one, and what mask was kept.
    active: bool,
    kept: u32,
    registers: Registers,
    /// The class of each subchannel.
    objects: [Option<u32>; 8],
    /// Who had the last method.
    target: Option<Target>,
    copy: copy::Engine,
    compute: compute::Engine,
    jobs: Jobs,
    wait: Option<Wait>,
    error: Option<Error>,
    notices: Vec<Notice>,
}

impl Channel {
    /// A channel that RM has made, before anything ran in it.
    pub fn new(made: &Made, chip: &'static Chip) -> Self {
        let who = format!("GPU {}, channel {:#x}", made.gpu, made.handle);
        Self {
            who: who.into(),
            chip,
            copies: made.engine != class::engine::GRAPHICS,
            ring: made.ring,
            entries: made.entries,
            put: 0,
            get: 0,
            base: 0,
            segment: None,
            sequence: None,
            active: true,
            kept: 0,
            registers: Registers::default(),
            objects: [None; 8],
            target: None,
            copy: copy::Engine::new(made.engine),
            compute: compute::Engine::new(chip, made),
            jobs: Jobs::default(),
            wait: None,
            error: None,
            notices: Vec::new(),
        }
    }

    /// Its name in reports.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Its doorbell was rung, with GPPut as USERD has it.
    pub fn ring(&mut self, put: u32) {
        if self.error.is_none() {
            self.put = put % self.entries.max(1);
        }
    }

    /// What it waits for, since its last step.
    pub fn waits_for(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Why it is dead.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// What it has told the kernel since the last time.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Stops for good, for a reason that is not its own.
    pub fn kill(&mut self, error: Error) {
        self.error.get_or_insert(error);
        (self.segment, self.sequence, self.wait) = (None, None, None);
        self.jobs.clear();
        self.get = self.put;
    }

    /// Does up to a number of methods; less where it waits, where a job runs, where it gives up its turn.
    pub fn step(&mut self, around: &mut Around, methods: usize) -> Turn {
        if self.error.is_some() {
            return Turn::Dead;
        }
        self.wait = None;
        for _ in 0..methods {
            let stop = match self.advance(around) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(stop) => Some(stop),
            };
            let port = &self.port(around);
            let stop = match (stop, self.jobs.next()) {
                (Some(Stop::Dead(error)), _) => Stop::Dead(error),
                (_, Some((job, mut running))) => {
                    match self.run(port, around.gpu, job, running.touched.as_mut()) {
                        Ok(()) => {
                            self.jobs.done(port, running);
                            return Turn::Ran;
                        }
                        Err(stop) => stop,
                    }
                }
                (Some(Stop::Wait(wait)), None) => {
                    self.wait = Some(wait);
                    return Turn::Waits;
                }
                (None, None) => return Turn::Idle,
                (Some(Stop::Busy), None) => return Turn::Ran,
            };
            if let Stop::Dead(error) = stop {
                self.kill(error);
                return Turn::Dead;
            }
        }
        Turn::Ran
    }

    fn port<'a>(&self, around: &Around<'a>) -> Port<'a> {
        Port {
            machine: around.machine,
            bus: around.bus,
            who: self.who.clone(),
            arch: self.chip.arch,
        }
    }

    /// Does the next thing; false where there is none.
    fn advance(&mut self, around: &mut Around) -> Result<bool> {
        let port = self.port(around);
        if let Some(sequence) = self.sequence {
            let word = sequence.immediate().or_else(|| self.word());
            if let Some(word) = word {
                let yields = self.execute(&port, around, sequence.method(word))?;
                if sequence.immediate().is_none() {
                    self.consume();
                }
                let sequence = self.sequence.as_mut().map(|sequence| {
                    sequence.advance();
                    sequence.left()
                });
                if sequence == Some(0) {
                    self.sequence = None;
                }
                // A turn that is given up ends like one that is over.
                return if yields { Err(Stop::Busy) } else { Ok(true) };
            }
        } else if let Some(word) = self.word() {
            self.consume();
            match push::header(&port, word)? {
                Header::Sequence(sequence) => self.sequence = Some(sequence),
                Header::Mask(mask) => self.active = mask & 1 != 0,
                Header::Store(mask) => self.kept = mask,
                Header::Use => self.active = self.kept & 1 != 0,
                Header::Nothing => {}
                Header::End => self.segment = None,
            }
            return Ok(true);
        }
        self.fetch(&port, around)
    }

    /// The next word of the segment.
    fn word(&self) -> Option<u32> {
        let segment = self.segment.as_ref()?;
        segment.words.get(segment.next).copied()
    }

    fn consume(&mut self) {
        if let Some(segment) = &mut self.segment {
            segment.next += 1;
        }
    }

    /// Takes the next entry of the ring.
    fn fetch(&mut self, port: &Port, around: &Around) -> Result<bool> {
        self.segment = None;
        if self.get == self.put {
            return Ok(false);
        }
        let index = self.get;
        let mut bytes = [0; 8];
        let at = self.ring + u64::from(index) * GP_ENTRY_BYTES;
        port.read("the host fetches an entry of the ring", at, &mut bytes)?;
        self.get = (index + 1) % self.entries.max(1);
        self.userd(port, around, userd::GP_GET, self.get)?;
        match entry::entry(port, index, u64::from_le_bytes(bytes), self.base)? {
            Entry::Nothing => {}
            Entry::Base(base) => self.base = base,
            Entry::Segment { conditional, .. } if conditional && !self.active => {}
            Entry::Segment { va, words, .. } => {
                let mut bytes = vec![0; words as usize * 4];
                port.read("the host fetches a push buffer", va, &mut bytes)?;
                let (words, _) = bytes.as_chunks();
                self.segment = Some(Segment {
                    words: words.iter().map(|word| u32::from_le_bytes(*word)).collect(),
                    next: 0,
                });
            }
        }
        Ok(true)
    }

    /// Writes a word of USERD.
    fn userd(&self, port: &Port, around: &Around, at: u64, value: u32) -> Result {
        let Some(page) = around.userd else {
            return Ok(());
        };
        let done = page.write(at, &value.to_le_bytes());
        done.map_err(|fault| port.mmu("the host writes USERD", fault))
    }

    /// Does a method, or leaves it for later. Whether the turn is given up.
    fn execute(&mut self, port: &Port, around: &mut Around, method: Method) -> Result<bool> {
        if !self.active {
            return Ok(false);
        }
        let idle = self.jobs.is_empty();
        if method.dword == host::SET_OBJECT.dword() {
            self.object(port, method)?;
        } else if method.dword < 0x100 / 4 {
            match self.registers.execute(port, method, idle)? {
                Effect::None => {}
                Effect::Notice(notice) => self.notices.push(notice),
                Effect::Userd(at, value) => self.userd(port, around, at, value)?,
                Effect::Yield => return Ok(true),
            }
        } else {
            let target = self.target(port, method.subchannel)?;
            if self.objects[method.subchannel as usize].is_none() {
                let what = format!(
                    "{:#x} on subchannel {}",
                    method.dword * 4,
                    method.subchannel
                );
                return Err(port.dead(&FIRST, xid::PBDMA, what));
            }
            // The host waits for an engine before another one gets methods; compute then forgets what it
            // has read.
            if self.target.is_some_and(|last| last != target) {
                if !idle {
                    return Err(Stop::Busy);
                }
                if target == Target::Compute {
                    around.gpu.caches.invalidate_code();
                    around.gpu.caches.invalidate_constants();
                }
            }
            self.target = Some(target);
            match target {
                Target::Copy => {
                    let job = self.copy.method(port, method)?;
                    self.jobs.add(job.map(Job::Copy));
                }
                Target::Compute => {
                    if compute::reads_qmd(method) {
                        self.run_inline(port, around.gpu)?;
                    }
                    let job = self.compute.method(port, around.gpu, method, idle)?;
                    self.jobs.add(job.map(Job::Compute));
                }
            }
        }
        Ok(false)
    }

    /// Inline data are there before a QMD of the same channel is read: they do not wait for grids.
    fn run_inline(&mut self, port: &Port, gpu: &mut Gpu) -> Result {
        let ready = self
            .jobs
            .take(|job| matches!(job, Job::Compute(compute::Job::Inline(_))));
        ready
            .into_iter()
            .try_for_each(|job| self.run(port, gpu, job, None))
    }

    /// Whose a subchannel is.
    fn target(&self, port: &Port, subchannel: u32) -> Result<Target> {
        use drivers_spec::nv::push::subchannel::{COMPUTE, COPY};
        match (self.copies, subchannel) {
            (true, 0..5) | (false, COPY) => Ok(Target::Copy),
            (false, COMPUTE) => Ok(Target::Compute),
            _ => {
                let what = format!("subchannel {subchannel}");
                Err(port.dead(&SUBCHANNEL, xid::PBDMA, what))
            }
        }
    }

    /// SET_OBJECT.
    fn object(&mut self, port: &Port, method: Method) -> Result {
        let target = self.target(port, method.subchannel)?;
        let facts = self.chip.facts();
        let wants = match target {
            Target::Copy => facts.copy.number,
            Target::Compute => facts.compute.number,
        };
        let found = host::set_object::NVCLASS.get(method.value);
        port.reserved(&OBJECT, &host::SET_OBJECT, method.value);
        if found != wants {
            let what = format!(
                "class {found:#x} on subchannel {}, which is of {wants:#x}",
                method.subchannel
            );
            return Err(port.dead(&OBJECT, xid::PBDMA, what));
        }
        self.objects[method.subchannel as usize] = Some(found);
        Ok(())
    }

    fn run(
        &mut self,
        port: &Port,
        gpu: &mut Gpu,
        job: Job,
        touched: Option<&mut Touched>,
    ) -> Result {
        match job {
            Job::Copy(job) => self.notices.extend(self.copy.run(port, &job)?),
            Job::Compute(job) => {
                let notices = self.compute.run(port, gpu, job, touched)?;
                self.notices.extend(notices);
            }
        }
        Ok(())
    }
}
