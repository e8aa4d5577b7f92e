//! Prints the work of an engine to stderr, for the variable DEBUG.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codegen::Built;
use hcq::DeviceId;
use tensor::exec::{Observer, Run};

macro_rules! say {
    ($($part:tt)*) => {
        crate::talk::line(format_args!($($part)*))
    };
}

/// Prints by level: 2 a line per kernel run, 3 applied optimisations, plans, and what a
/// kernel takes of a GPU with its occupancy, 4 source, 5 the
/// kernel before and after optimisation, 6 the linear program, 7 machine code.
pub struct Printer {
    level: u8,
    runs: AtomicUsize,
}

impl Printer {
    /// A printer of a level.
    pub fn new(level: u8) -> Printer {
        Printer {
            level,
            runs: AtomicUsize::new(0),
        }
    }

    fn section(&self, level: u8, name: &str, title: &str, texts: &[String]) {
        if self.level >= level {
            for text in texts {
                say!("--- {name}: {title}\n{text}");
            }
        }
    }
}

impl Observer for Printer {
    fn compiled(&self, name: &str, built: &Built) {
        let report = &built.report;
        if self.level >= 3 {
            let origin = if report.cached { "cached" } else { "compiled" };
            say!("--- {name}: {origin}, {}", report.opts.join(" "));
            for resources in &report.resources {
                say!("--- {name}: {resources}");
            }
        }
        self.section(4, name, "source", &report.source);
        self.section(
            5,
            name,
            "before optimisation",
            std::slice::from_ref(&report.before),
        );
        self.section(5, name, "after optimisation", &report.after);
        self.section(6, name, "linear", &report.linear);
        if self.level >= 7 {
            match report.disassembly() {
                Ok(text) => say!("--- {name}: machine code\n{text}"),
                Err(e) => say!("--- {name}: machine code: {e}"),
            }
        }
    }

    fn ran(&self, run: &Run) {
        let n = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let seconds = run.seconds().max(1e-9);
        say!(
            "*** {:<16} {n:>5} {:<40} {:>10.1} us {:>8.1} GFLOP/s {:>7.1} GB/s",
            run.queue,
            run.name,
            seconds * 1e6,
            run.flops / seconds / 1e9,
            run.bytes / seconds / 1e9
        );
    }

    fn brought(&self, from: &DeviceId, bytes: u64) {
        if self.level >= 3 {
            say!("--- copy: {bytes} bytes of {from}, device to device");
        }
    }

    fn scheduled(&self, launches: usize, arena: u64, unplanned: u64) {
        if self.level >= 3 {
            say!(
                "--- schedule: {launches} launches, {arena} bytes of temporaries, {unplanned} without planning"
            );
        }
    }
}

/// Forwards to several observers.
pub struct All(pub Vec<Arc<dyn Observer>>);

impl Observer for All {
    fn compiling(&self, done: usize, total: usize) {
        self.0.iter().for_each(|o| o.compiling(done, total));
    }

    fn compiled(&self, name: &str, built: &Built) {
        self.0.iter().for_each(|o| o.compiled(name, built));
    }

    fn ran(&self, run: &Run) {
        self.0.iter().for_each(|o| o.ran(run));
    }

    fn brought(&self, from: &DeviceId, bytes: u64) {
        self.0.iter().for_each(|o| o.brought(from, bytes));
    }

    fn scheduled(&self, launches: usize, arena: u64, unplanned: u64) {
        let tell = |o: &Arc<dyn Observer>| o.scheduled(launches, arena, unplanned);
        self.0.iter().for_each(tell);
    }
}
