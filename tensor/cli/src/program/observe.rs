//! What a person sees of the work, on stderr.

use std::fs::File;
use std::io::{BufWriter, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hcq::text::plain;
use indicatif::{ProgressBar, ProgressStyle};
use tensor::Engine;
use tensor::exec::{Observer, trace};
use tensor::onnx::Progress;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::program::error::Error;
use crate::program::output::say;

/// Starts the log of the libraries: warnings, or what RUST_LOG asks for (`debug`, `hcq=trace,info`).
pub fn start_log() {
    let asked = std::env::var("RUST_LOG").ok();
    let filter = asked.as_deref().map(str::parse::<Targets>);
    if let Some(Err(e)) = &filter {
        say!("note: RUST_LOG={}: {e}", asked.unwrap_or_default());
    }
    let filter = match filter {
        Some(Ok(targets)) => targets,
        _ => Targets::new().with_default(LevelFilter::WARN),
    };
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        // They would be printed on stderr, which is what failed.
        .log_internal_errors(false);
    // Fails only if a log runs already, and then that one is used.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init();
}

/// Writes what was profiled on an engine as a trace for Perfetto.
pub fn write_trace(engine: &Engine, path: &Path) -> Result<(), Error> {
    let file = |source| Error::File {
        path: path.display().to_string(),
        source,
    };
    let to = BufWriter::new(File::create(path).map_err(file)?);
    trace::write(&engine.take_runs(), to).map_err(file)
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
        self.0.set_message(plain(what).into_owned());
    }

    /// A line that stays.
    pub fn say(&self, what: &str) {
        self.0.suspend(|| say!("{what}"));
    }

    /// Takes the line away.
    pub fn done(&self) {
        self.0.finish_and_clear();
    }

    /// Shows what a session does.
    pub fn progress(&self) -> impl Fn(Progress) + Send + Sync + 'static {
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
