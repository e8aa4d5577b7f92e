//! QMDs that are scheduled and wait until they have been counted down.
//!
//! That scheduling one counts nothing down follows from what NVIDIA's libcuda 550.163.01 does on Hopper: before
//! each kernel it schedules a grid without blocks, with a counter of 2, which the kernel counts down once, and
//! whose own dependent it has not written yet.

use std::collections::BTreeMap;

use twin::rule::{Proof, Rule};

use super::super::error::{Result, xid};
use super::super::port::Port;
use super::grid::Grid;

static COUNTER: Rule = Rule {
    name: "QMD-DEPENDENCE",
    text: "a QMD with a DEPENDENCE_COUNTER starts when it has been decremented that often since it was scheduled; a QMD \
           that does not wait is not decremented",
    source: "open-gpu-doc, classes/compute/clcbc0qmd.h, DEPENDENCE_COUNTER, QMD_DECREMENT_DEPENDENCE; what libcuda 550.163.01 schedules on Hopper",
    proof: Proof::Guess,
};

/// By the number of their address space, and where they are.
#[derive(Debug, Default)]
pub(crate) struct Waiting(BTreeMap<(u64, u64), Grid>);

impl Waiting {
    /// One more; it takes the place of another one of that address.
    pub(super) fn add(&mut self, grid: Grid) {
        self.0.insert((grid.setting.space, grid.va), grid);
    }

    /// Counts one down: the grid, if it can begin.
    pub(super) fn less(&mut self, port: &Port, space: u64, va: u64) -> Result<Option<Grid>> {
        let key = (space, va);
        let Some(grid) = self.0.get_mut(&key) else {
            let what = format!("QMD at {va:#x}");
            return Err(port.dead(&COUNTER, xid::GR_EXCEPTION, what));
        };
        grid.qmd.counter -= 1;
        let begins = grid.qmd.counter == 0;
        Ok(begins.then(|| self.0.remove(&key)).flatten())
    }
}
