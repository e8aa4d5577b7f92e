//! What all rings of a GPU share: caches, the clock, shader cores.

use drivers_spec::qcom::chip::Gen;
use drivers_spec::qcom::regs;
use twin::rng::Rng;
use twin_ir3::launch::Arithmetic;

use crate::chip::Chip;
use crate::config::Config;
use crate::cp::registers::COUNTERS;
use crate::memory::cache::Caches;

/// See the front page.
pub struct Core {
    /// The chip.
    pub(crate) chip: &'static Chip,
    /// Caches.
    pub(crate) caches: Caches,
    /// Instructions of a wave that are a hang.
    pub(crate) limit: u64,
    pub(crate) arithmetic: Arithmetic,
    /// Whether packets are printed, and what dispatches took.
    pub(crate) packets: bool,
    pub(crate) took: bool,
    ticks: u64,
    /// Ticks in which something ran.
    busy: u64,
    order: Rng,
    dispatches: u64,
    counters: Vec<Counter>,
}

/// A performance counter that is on.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// The register of its lower half.
    register: u32,
    /// What `busy` was when it was switched on.
    since: u64,
}

impl Core {
    pub(crate) fn new(config: &Config) -> Core {
        Core {
            chip: config.chip,
            caches: Caches::default(),
            limit: config.instructions,
            arithmetic: config.arithmetic,
            packets: config.debug >= 4,
            took: config.debug >= 3,
            ticks: 0,
            busy: 0,
            order: Rng::new(config.seed ^ 0x5eed),
            dispatches: 0,
            counters: Vec::new(),
        }
    }

    /// The sub-generation.
    pub(crate) fn generation(&self) -> Gen {
        self.chip.spec().generation
    }

    /// Time goes on, while something runs.
    pub(crate) fn pass(&mut self, ticks: u64) {
        self.ticks += ticks;
        self.busy += ticks;
    }

    /// The always-on counter: it grows with each look, too.
    pub(crate) fn ticks(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// The same, for who only looks on.
    pub(crate) fn now(&self) -> u64 {
        self.ticks
    }

    /// Ticks in which something ran.
    pub(crate) fn busy(&self) -> u64 {
        self.busy
    }

    /// A random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.order.number()
    }

    /// Numbers a dispatch.
    pub(crate) fn dispatch(&mut self) -> u64 {
        self.dispatches += 1;
        self.dispatches
    }

    /// A dispatch has run so many instructions of waves. A clock of a shader processor is some 40 of the counter's.
    pub(crate) fn shaded(&mut self, instructions: u64) {
        self.pass(1 + instructions / 40);
    }

    /// A register that counts.
    pub(crate) fn counter(&mut self, register: u32) -> Option<u32> {
        let always = regs::dword(&regs::CP_ALWAYS_ON_COUNTER);
        if register == always {
            return Some(self.ticks() as u32);
        }
        if register == always + 1 {
            return Some((self.ticks >> 32) as u32);
        }
        if !COUNTERS.contains(&register) {
            return None;
        }
        let value = self.counted(register & !1).unwrap_or(0);
        Some((value >> (32 * (register & 1))) as u32)
    }

    /// What a performance counter has counted: clocks in which something ran.
    pub(crate) fn counted(&self, register: u32) -> Option<u64> {
        let counter = self
            .counters
            .iter()
            .find(|counter| counter.register == register)?;
        Some(self.busy - counter.since)
    }

    /// Switches a performance counter on.
    pub(crate) fn count(&mut self, register: u32) {
        let since = self.busy;
        self.counters.push(Counter { register, since });
    }

    /// Switches it off.
    pub(crate) fn uncount(&mut self, register: u32) {
        self.counters.retain(|counter| counter.register != register);
    }

    /// The GPU is reset.
    pub(crate) fn reset(&mut self) {
        self.caches.reset();
    }

    /// Prints a line.
    pub(crate) fn print(&self, text: impl FnOnce() -> String) {
        eprintln!("{}", text());
    }
}
