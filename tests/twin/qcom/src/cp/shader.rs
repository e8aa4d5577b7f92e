//! Runs a dispatch on the shader cores.

use twin_ir3::launch::Launch;
use twin_ir3::{Broken, Cause, Done, Grid};

use crate::memory::view::View;

use super::Fault;

/// Runs a dispatch to its end. Returns what it took.
pub(super) fn run(launch: Launch, view: &mut View<'_>) -> Result<Done, Fault> {
    let mut grid = Grid::new(launch).map_err(|broken| stop(&broken, view))?;
    let done = grid.run(view);
    done.map_err(|broken| stop(&broken, view))
}

/// What the GPU does where a shader cannot go on.
fn stop(broken: &Broken, view: &View<'_>) -> Fault {
    if let Some(rule) = broken.rule() {
        view.journal.broken(rule, format!("{}: {broken}", view.who));
    }
    match (&broken.cause, view.fault) {
        (_, Some(fault)) => Fault::Page(fault),
        (Cause::Limit(_) | Cause::Stuck, None) => Fault::Soft(broken.to_string()),
        (_, None) => Fault::Hard(broken.to_string()),
    }
}
