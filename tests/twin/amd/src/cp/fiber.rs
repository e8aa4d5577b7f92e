//! Dispatches that run in pieces, so that other queues have their turns meanwhile: each on a stack of its
//! own, all on the thread of the scheduler.

use std::any::Any;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use super::work::Outcome;
use crate::gpu::QueueId;

/// What lets others have a turn.
pub(crate) type Pause<'a> = &'a dyn Fn();

/// The dispatches that run, by GPU and queue.
#[derive(Default)]
pub(crate) struct Fibers {
    running: HashMap<(usize, QueueId), Coroutine<(), (), Outcome>>,
    /// Stacks to be used again.
    spare: Vec<DefaultStack>,
    /// Whether one has paused since this was last taken.
    paused: bool,
}

/// Bytes of a stack: what threads have.
const STACK: usize = 2 << 20;

/// Runs tasks side by side, each on a stack of its own, by turns that end where one pauses; `pause` comes after
/// a turn of each. `done` gets what comes out.
pub(crate) fn side_by_side<T: 'static, F: FnOnce(Pause) -> T + 'static>(
    tasks: impl IntoIterator<Item = F>,
    mut done: impl FnMut(T),
    pause: Pause,
) {
    let mut spare = None;
    let mut running = Vec::new();
    for task in tasks {
        let Some(stack) = spare.take().or_else(|| DefaultStack::new(STACK).ok()) else {
            // The host has no memory left: it can do without.
            done(task(pause));
            continue;
        };
        let mut fiber = Coroutine::with_stack(stack, |yielder, ()| task(&|| yielder.suspend(())));
        match fiber.resume(()) {
            CoroutineResult::Yield(()) => running.push(fiber),
            CoroutineResult::Return(value) => {
                done(value);
                spare = Some(fiber.into_stack());
            }
        }
    }
    while !running.is_empty() {
        pause();
        running.retain_mut(|fiber| match fiber.resume(()) {
            CoroutineResult::Yield(()) => true,
            CoroutineResult::Return(value) => {
                done(value);
                false
            }
        });
    }
}

impl Fibers {
    /// Makes `task` that of a queue, which has none. It runs with [`Fibers::resume`].
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn start(
        &mut self,
        queue: (usize, QueueId),
        task: impl FnOnce(Pause) -> Outcome + 'static,
    ) -> io::Result<()> {
        let stack = match self.spare.pop() {
            Some(stack) => stack,
            None => DefaultStack::new(STACK)?,
        };
        let fiber = Coroutine::with_stack(stack, |yielder, ()| task(&|| yielder.suspend(())));
        self.running.insert(queue, fiber);
        Ok(())
    }

    /// Runs the task of a queue to its end or its next pause. What it leaves behind, or what it panicked
    /// with; none where it has paused.
    pub fn resume(
        &mut self,
        queue: (usize, QueueId),
    ) -> Option<Result<Outcome, Box<dyn Any + Send>>> {
        let fiber = self.running.get_mut(&queue)?;
        let done = match catch_unwind(AssertUnwindSafe(|| fiber.resume(()))) {
            Ok(CoroutineResult::Yield(())) => {
                self.paused = true;
                return None;
            }
            Ok(CoroutineResult::Return(outcome)) => Ok(outcome),
            Err(panic) => Err(panic),
        };
        if let Some(fiber) = self.running.remove(&queue) {
            self.spare.push(fiber.into_stack());
        }
        Some(done)
    }

    /// Whether one has paused since the last call.
    pub fn take_paused(&mut self) -> bool {
        std::mem::take(&mut self.paused)
    }
}
