//! What DEBUG shows, on stderr.

use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codegen::Built;
use indicatif::{ProgressBar, ProgressStyle};
use tensor::Engine;
use tensor::exec::{DeviceExecutor, Observer, Run, trace};
use tensor::onnx::Progress;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::Error;

/// Starts the log of the libraries: warnings, or what RUST_LOG asks for (`debug`, `hcq=trace,info`).
pub fn start_log() {
    let asked = std::env::var("RUST_LOG").ok();
    let filter = asked.as_deref().map(str::parse::<Targets>);
    if let Some(Err(e)) = &filter {
        eprintln!("note: RUST_LOG={}: {e}", asked.unwrap_or_default());
    }
    let filter = match filter {
        Some(Ok(targets)) => targets,
        _ => Targets::new().with_default(LevelFilter::WARN),
    };
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        .with_writer(std::io::stderr);
    // Fails only if a log runs already, and then that one is used.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
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
                eprintln!("--- {name}: {title}\n{text}");
            }
        }
    }
}

impl Observer for Printer {
    fn compiled(&self, name: &str, built: &Built) {
        let report = &built.report;
        if self.level >= 3 {
            let origin = if report.cached { "cached" } else { "compiled" };
            eprintln!("--- {name}: {origin}, {}", report.opts.join(" "));
            for resources in &report.resources {
                eprintln!("--- {name}: {resources}");
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
                Ok(text) => eprintln!("--- {name}: machine code\n{text}"),
                Err(e) => eprintln!("--- {name}: machine code: {e}"),
            }
        }
    }

    fn ran(&self, run: &Run) {
        let n = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        let seconds = run.seconds().max(1e-9);
        eprintln!(
            "*** {:<16} {n:>5} {:<40} {:>10.1} us {:>8.1} GFLOP/s {:>7.1} GB/s",
            run.queue,
            run.name,
            seconds * 1e6,
            run.flops / seconds / 1e9,
            run.bytes / seconds / 1e9
        );
    }

    fn scheduled(&self, launches: usize, arena: u64, unplanned: u64) {
        if self.level >= 3 {
            eprintln!(
                "--- schedule: {launches} launches, {arena} bytes of temporaries, {unplanned} without planning"
            );
        }
    }
}

/// Writes what was profiled on an engine as a trace for Perfetto.
pub fn write_trace(engine: &Engine, path: &Path) -> Result<(), Error> {
    let runs = DeviceExecutor::of(engine)
        .map(DeviceExecutor::take_runs)
        .unwrap_or_default();
    let file = |source| Error::File {
        path: path.display().to_string(),
        source,
    };
    let to = BufWriter::new(File::create(path).map_err(file)?);
    trace::write(&runs, to).map_err(file)
}

/// What a command is doing, as one line that changes; nothing where stderr is no terminal.
pub struct Steps(ProgressBar);

impl Steps {
    /// A line that is empty so far.
    pub fn new() -> Steps {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Steps(bar)
    }

    /// What is being done now.
    pub fn show(&self, what: &str) {
        self.0.set_message(what.to_string());
    }

    /// A line that stays.
    pub fn say(&self, what: &str) {
        self.0.suspend(|| eprintln!("{what}"));
    }

    /// Takes the line away.
    pub fn done(&self) {
        self.0.finish_and_clear();
    }

    /// Shows what a session does.
    pub fn progress(&self) -> impl FnMut(Progress) + Send + 'static {
        let bar = self.0.clone();
        move |progress| match progress {
            Progress::Tracing(done, total) => bar.set_message(format!("tracing {done}/{total}")),
            Progress::Compiling => bar.set_message("scheduling"),
            Progress::Running => bar.set_message("running"),
        }
    }

    /// Shows what an executor does.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Compiling(self.0.clone()))
    }
}

struct Compiling(ProgressBar);

impl Observer for Compiling {
    fn compiling(&self, done: usize, total: usize) {
        self.0.set_message(format!("compiling {done}/{total}"));
    }
}

/// Tells two observers.
pub struct Both(pub Arc<dyn Observer>, pub Arc<dyn Observer>);

impl Observer for Both {
    fn compiling(&self, done: usize, total: usize) {
        self.0.compiling(done, total);
        self.1.compiling(done, total);
    }

    fn compiled(&self, name: &str, built: &Built) {
        self.0.compiled(name, built);
        self.1.compiled(name, built);
    }

    fn ran(&self, run: &Run) {
        self.0.ran(run);
        self.1.ran(run);
    }

    fn scheduled(&self, launches: usize, arena: u64, unplanned: u64) {
        self.0.scheduled(launches, arena, unplanned);
        self.1.scheduled(launches, arena, unplanned);
    }
}
