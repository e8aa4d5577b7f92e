//! Statistics of the work between a graph and its first command.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use codegen::{Built, Recent};
use hcq::sync::lock;

/// Modules that are remembered to count those that are different.
const MODULES: u64 = 1 << 16;

/// Preparation work of an executor since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Preparation {
    /// Modules of machine code that kernels are made of.
    pub modules: usize,
    /// Distinct modules among them.
    pub distinct: usize,
    /// Modules that came from the compile cache, with the kernel that they belong to.
    pub cached: usize,
    /// From graphs to kernels in order.
    pub schedule: Duration,
    /// From kernels to the text of modules, on all threads together.
    pub optimise: Duration,
    /// From text to machine code, on all threads together.
    pub compiler: Duration,
    /// Wall time of both.
    pub compiling: Duration,
    /// From machine code to programs on the device.
    pub load: Duration,
    /// Computing what depends on constants only, and putting weights into their order.
    pub pack: Duration,
}

/// Where an executor writes it down.
pub(crate) struct Ledger(Mutex<Entries>);

struct Entries {
    sum: Preparation,
    /// Content of the last modules.
    known: Recent<[u8; 32], ()>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger(Mutex::new(Entries {
            sum: Preparation::default(),
            known: Recent::new(MODULES),
        }))
    }
}

impl Ledger {
    fn change<T>(&self, change: impl FnOnce(&mut Entries) -> T) -> T {
        change(&mut lock(&self.0))
    }

    pub(crate) fn sum(&self) -> Preparation {
        self.change(|entries| entries.sum)
    }

    /// Does something, and adds its time to an entry.
    pub(crate) fn timed<T>(
        &self,
        entry: impl FnOnce(&mut Preparation) -> &mut Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let start = Instant::now();
        let done = work();
        self.change(|entries| *entry(&mut entries.sum) += start.elapsed());
        done
    }

    /// Does something that also schedules and compiles: the rest of its time is packing.
    pub(crate) fn packed<T>(&self, work: impl FnOnce() -> T) -> T {
        let others = |sum: Preparation| sum.schedule + sum.compiling + sum.load;
        let (start, before) = (Instant::now(), others(self.sum()));
        let done = work();
        self.change(|entries| {
            let counted = others(entries.sum).saturating_sub(before);
            entries.sum.pack += start.elapsed().saturating_sub(counted);
        });
        done
    }

    /// A kernel was compiled, or found.
    pub(crate) fn built(&self, built: &Built) {
        self.change(|entries| {
            for stage in &built.stages {
                let before = entries.known.insert(stage.module, (), 1);
                let again = before.iter().any(|(module, ())| *module == stage.module);
                entries.sum.distinct += usize::from(!again);
            }
            entries.sum.modules += built.stages.len();
            if built.report.cached {
                entries.sum.cached += built.stages.len();
            }
            entries.sum.optimise += built.report.own;
            entries.sum.compiler += built.report.compiler;
        });
    }
}
