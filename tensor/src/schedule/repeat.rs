//! A loop in a schedule: the schedule of its body, and where the buffers of the body are at each step.
//!
//! The kernels of the body see addresses only, so they are the same at all steps. A state whose rows
//! are wanted is read from the row before; any other lies in two places in turn.

use std::sync::Arc;

use super::memory::ALIGN;
use super::{BufferId, BufferKind, Schedule};
use crate::graph::{Loop, LoopOutput};

/// A loop.
#[derive(Clone, Debug)]
pub struct LoopNode {
    /// What one step does. Its kernels are those of the schedule around it, and so is the memory of
    /// its temporaries: [`LoopNode::workspace`].
    pub body: Schedule,
    /// The body as it was traced.
    pub traced: Arc<Loop>,
    /// Temporaries of a step, and states that are nowhere else.
    pub workspace: Option<BufferId>,
    /// Size of the workspace.
    pub workspace_bytes: u64,
    /// What each buffer of the body is.
    roles: Vec<Role>,
    states: Vec<State>,
}

/// What a buffer of a body is.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// This buffer, at all steps.
    Whole(BufferId),
    /// A row of this buffer that is read, another one at each step.
    Row(BufferId),
    /// One that is written.
    Out(BufferId),
    /// At this offset of the workspace.
    Work(u64),
    /// A state before the step.
    Before(usize),
    /// A state after the step.
    After(usize),
}

/// Where a state is.
#[derive(Clone, Debug)]
struct State {
    bytes: u64,
    /// Before the first step.
    first: BufferId,
    /// After every step, if somebody wants that.
    rows: Option<BufferId>,
    /// After the last step, if somebody wants that.
    last: Option<BufferId>,
    /// Else: offsets in the workspace, in turn.
    turns: [u64; 2],
}

/// A part of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The buffer.
    pub buffer: BufferId,
    /// Where the part begins, in bytes.
    pub offset: u64,
}

impl LoopNode {
    /// The results of a body that must be computed if these are taken.
    pub fn wanted(traced: &Loop, taken: &[LoopOutput]) -> Vec<usize> {
        let all = 0..traced.results.len();
        let used = |i: &usize| {
            let state = *i < traced.states;
            (state || taken.contains(&LoopOutput::Rows(*i))) && traced.results[*i].numel() > 0
        };
        all.filter(used).collect()
    }

    /// A loop over the schedule of its body, which makes the results [`LoopNode::wanted`]. `sources` are
    /// the buffers behind the parameters, those without elements left out; `taken` what somebody wants
    /// of the loop, and where it goes.
    pub(super) fn new(
        traced: &Arc<Loop>,
        body: Schedule,
        sources: &[Option<BufferId>],
        taken: &[(LoopOutput, BufferId)],
    ) -> LoopNode {
        let kinds: Vec<LoopOutput> = taken.iter().map(|t| t.0).collect();
        let wanted = LoopNode::wanted(traced, &kinds);
        let goes = |what| taken.iter().find(|t| t.0 == what).map(|t| t.1);
        let mut bytes = body.arena.bytes;
        let mut states = Vec::new();
        for (i, source) in sources.iter().enumerate().take(traced.states) {
            let param = &traced.params[i];
            let size = (param.numel() * param.dtype().size()) as u64;
            let rows = goes(LoopOutput::Rows(i));
            let last = goes(LoopOutput::Last(i));
            let mut turns = [0; 2];
            // A state that nobody wants is written after the only step, too.
            if rows.is_none() && (traced.steps > 1 || last.is_none()) {
                for turn in &mut turns {
                    *turn = bytes.next_multiple_of(ALIGN);
                    bytes = *turn + size;
                }
            }
            states.push(State {
                bytes: size,
                first: source.unwrap_or(BufferId(0)),
                rows,
                last,
                turns,
            });
        }
        let mut offsets = body.arena.offsets.iter();
        let roles = body.buffers.iter().map(|info| match &info.kind {
            BufferKind::Temporary => Role::Work(offsets.next().copied().unwrap_or(0)),
            BufferKind::Result(n) => match wanted[*n] {
                i if i < traced.states => Role::After(i),
                i => Role::Out(goes(LoopOutput::Rows(i)).unwrap_or(BufferId(0))),
            },
            BufferKind::Leaf(tensor) => {
                let param = traced.params.iter().position(|p| p.id() == tensor.id());
                let i = param.unwrap_or(0);
                let source = sources[i].unwrap_or(BufferId(0));
                match i {
                    _ if i < traced.states => Role::Before(i),
                    _ if i < traced.states + traced.inputs => Role::Row(source),
                    _ => Role::Whole(source),
                }
            }
        });
        let roles = roles.collect();
        LoopNode {
            body,
            traced: traced.clone(),
            workspace: None,
            workspace_bytes: bytes,
            roles,
            states,
        }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.traced.steps
    }

    /// Where a buffer of the body is at a step.
    pub fn part(&self, buffer: BufferId, step: usize) -> Part {
        let i = buffer.0 as usize;
        let part = |buffer, offset| Part { buffer, offset };
        match self.roles[i] {
            Role::Whole(whole) => part(whole, 0),
            Role::Row(rows) | Role::Out(rows) => {
                let row = self.traced.row(step) as u64;
                part(rows, row * self.body.buffers[i].bytes())
            }
            Role::Work(offset) => self.work(offset),
            Role::Before(state) if step == 0 => part(self.states[state].first, 0),
            Role::Before(state) => self.after(state, step - 1),
            Role::After(state) => self.after(state, step),
        }
    }

    /// The buffer that a buffer of the body is at all steps.
    pub fn whole(&self, buffer: BufferId) -> Option<BufferId> {
        match self.roles[buffer.0 as usize] {
            Role::Whole(whole) => Some(whole),
            _ => None,
        }
    }

    /// Whether a buffer of the body is one that nothing in the loop writes.
    pub fn given(&self, buffer: BufferId) -> bool {
        matches!(self.roles[buffer.0 as usize], Role::Whole(_) | Role::Row(_))
    }

    /// Whether a buffer of the body is a part of the workspace at a step, and not a whole buffer or a
    /// row of one.
    pub fn works(&self, buffer: BufferId, step: usize) -> bool {
        Some(self.part(buffer, step).buffer) == self.workspace
    }

    /// Copies after the last step: from, to, bytes.
    pub fn copies(&self) -> impl Iterator<Item = (Part, Part, u64)> {
        let both = self.states.iter().enumerate();
        both.filter_map(|(i, state)| {
            let (_, last) = (state.rows?, state.last?);
            let to = Part {
                buffer: last,
                offset: 0,
            };
            Some((self.after(i, self.steps() - 1), to, state.bytes))
        })
    }

    fn work(&self, offset: u64) -> Part {
        Part {
            buffer: self.workspace.unwrap_or(BufferId(0)),
            offset,
        }
    }

    fn after(&self, state: usize, step: usize) -> Part {
        let state = &self.states[state];
        let part = |buffer, offset| Part { buffer, offset };
        match (state.rows, state.last) {
            (Some(rows), _) => part(rows, self.traced.row(step) as u64 * state.bytes),
            (None, Some(last)) if step + 1 == self.steps() => part(last, 0),
            _ => self.work(state.turns[step % 2]),
        }
    }
}
