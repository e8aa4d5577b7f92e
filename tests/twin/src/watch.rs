//! Who watches the engines of a machine: to record when they saw what, or to let them go only as far as a
//! record says.

/// How far the engines of a machine are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Moment {
    /// Rounds of the scheduler in which something moved. Those in which nothing could do not count, so that
    /// this does not depend on how long a client takes.
    pub rounds: u64,
    /// The time of the machine, in its ticks.
    pub time: u64,
}

/// See the front page. Called by the scheduler, between two rounds.
pub trait Watch: Send {
    /// Doorbells are about to be looked at. `can_move` asks, after whatever this has changed, whether a round
    /// would do something. Whether there shall be one: not where nothing can move.
    fn look(&mut self, now: Moment, can_move: &mut dyn FnMut() -> bool) -> bool;

    /// Whether there may be a round in which doorbells are not looked at.
    fn may_go(&mut self, now: Moment) -> bool;
}
