//! Dispatches, blits and events between the command processor and their end, and descriptors that shader cores load ahead
//! or forget.
//!
//! They begin in order. Nothing says that one has ended when the next begins, but CP_WAIT_FOR_IDLE: what two of them
//! between two of these write and read, in whichever order, has no order.

use std::collections::VecDeque;

use drivers_spec::qcom::packet::event_write_0 as event;
use twin::rule::{Proof, Rule};
use twin::touched::Touched;
use twin_ir3::launch::Launch;

use crate::memory::descriptors::Held;
use crate::memory::view::{Via, Writes};

use super::blit::Blit;
use super::{Around, Fault, Stop, shader};

static OVERLAP: Rule = Rule {
    name: "CS-OVERLAP",
    text: "CP_WAIT_FOR_IDLE stands between two dispatches, or a dispatch and a blit, of which one reads what the other \
           writes",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_CMD_FLAG_WAIT_FOR_IDLE; tu6_emit_flushes: dispatches \
             overlap otherwise",
    proof: Proof::Sourced,
};

static IDLE: Rule = Rule {
    name: "CP-WAIT-FOR-IDLE",
    text: "CP_WAIT_FOR_IDLE stands between a dispatch and an access of the command processor to memory that the \
           dispatch reads or writes, too",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_CMD_FLAG_WAIT_FOR_IDLE: the CP does not wait for shaders",
    proof: Proof::Sourced,
};

/// What is written when an event has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    /// The dword of the packet.
    Word(u32),
    /// The always-on counter.
    Counter,
}

/// What is not done yet.
pub(super) enum Entry {
    /// A dispatch.
    Dispatch(Box<Dispatch>),
    /// A rectangle for the 2D engine.
    Blit(Box<Blit>),
    /// An event: which, and what it writes where.
    Event(u32, Option<(u64, Value)>),
    /// Descriptors that are loaded ahead.
    Ahead(Ahead),
    /// Bindless bases that are invalidated, a bit each.
    Forget(u32),
}

/// Bindless descriptors that CP_LOAD_STATE6 loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ahead {
    /// Of which base.
    pub base: u8,
    /// Where.
    pub at: u64,
    /// How much of them.
    pub bytes: usize,
}

/// A dispatch that is not done yet.
pub(super) struct Dispatch {
    launch: Launch,
    number: u64,
    /// What the command processor has accessed since.
    after: Touched,
}

impl Entry {
    /// Whether it writes to memory as an event.
    pub(super) fn writes(&self) -> bool {
        matches!(self, Entry::Event(_, Some(_)))
    }
}

/// See the front page.
#[derive(Default)]
pub(super) struct Pipe {
    entries: VecDeque<Entry>,
    /// What dispatches since the last CP_WAIT_FOR_IDLE have accessed that are done.
    done: Vec<(u64, Touched)>,
    /// What shader cores hold of bindless descriptors, also from one submission to the next.
    held: Held,
}

impl Pipe {
    /// A dispatch comes last.
    pub(super) fn dispatch(&mut self, launch: Launch, number: u64) {
        self.entries.push_back(Entry::Dispatch(Box::new(Dispatch {
            launch,
            number,
            after: Touched::default(),
        })));
    }

    /// A rectangle comes last.
    pub(super) fn blit(&mut self, blit: Blit) {
        self.entries.push_back(Entry::Blit(Box::new(blit)));
    }

    /// An event comes last.
    pub(super) fn event(&mut self, event: u32, write: Option<(u64, Value)>) {
        self.entries.push_back(Entry::Event(event, write));
    }

    /// Descriptors are loaded ahead behind all that is there.
    pub(super) fn ahead(&mut self, ahead: Ahead) {
        self.entries.push_back(Entry::Ahead(ahead));
    }

    /// Bindless bases are invalidated behind all that is there.
    pub(super) fn forget(&mut self, bases: u32) {
        if bases != 0 {
            self.entries.push_back(Entry::Forget(bases));
        }
    }

    /// What is under way is given up.
    pub(super) fn stop(&mut self) {
        self.entries.clear();
        self.done.clear();
    }

    /// The command processor has accessed memory.
    pub(super) fn accessed(&mut self, touched: &Touched) {
        for entry in &mut self.entries {
            if let Entry::Dispatch(dispatch) = entry {
                dispatch.after.add(touched.clone());
            }
        }
    }

    /// The oldest.
    pub(super) fn next(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// The command processor has waited for all of them.
    pub(super) fn idle(&mut self) {
        self.done.clear();
    }

    /// Does one.
    pub(super) fn run(
        &mut self,
        around: &mut Around<'_>,
        writes: &mut Writes,
        entry: Entry,
        who: &str,
    ) -> Result<(), Stop> {
        match entry {
            Entry::Dispatch(dispatch) => self.shade(around, writes, *dispatch, who),
            Entry::Blit(blit) => self.draw(around, writes, &blit, who),
            Entry::Event(number, write) => {
                if number == event::PC_CCU_FLUSH_COLOR_TS {
                    flush_colors(around, writes, who)?;
                }
                happen(around, number, write, who)
            }
            Entry::Ahead(ahead) => {
                let who = format!("{who}, descriptors loaded ahead");
                let mut view = around.view(writes, who);
                view.held = Some(&mut self.held);
                Ok(view.load_ahead(ahead.base, ahead.at, ahead.bytes)?)
            }
            Entry::Forget(bases) => {
                self.held.forget(bases);
                Ok(())
            }
        }
    }

    /// Blits follow one another in their order; dispatches do not wait for them, nor they for dispatches.
    fn draw(
        &mut self,
        around: &mut Around<'_>,
        writes: &mut Writes,
        blit: &Blit,
        who: &str,
    ) -> Result<(), Stop> {
        let number = around.core.dispatch();
        let who = format!("{who}, blit {number}");
        let mut view = around.view(writes, who.clone());
        let drawn = blit.run(&mut view);
        let touched = std::mem::take(&mut view.touched);
        writes.append(drawn?);
        self.overlaps(around, &touched, &who);
        self.done.push((number, touched));
        Ok(())
    }

    /// Whether what is done now and what was done since the last CP_WAIT_FOR_IDLE have no order.
    fn overlaps(&self, around: &Around<'_>, touched: &Touched, who: &str) {
        for (other, before) in &self.done {
            if let Some(at) = touched.race(before) {
                let journal = around.journal;
                journal.broken(&OVERLAP, format!("{who}, and number {other}, at {at:#x}"));
                break;
            }
        }
    }

    fn shade(
        &mut self,
        around: &mut Around<'_>,
        writes: &Writes,
        dispatch: Dispatch,
        who: &str,
    ) -> Result<(), Stop> {
        let number = dispatch.number;
        let who = format!("{who}, dispatch {number}");
        let mut view = around.view(writes, who.clone());
        view.held = Some(&mut self.held);
        let ran = shader::run(dispatch.launch, &mut view);
        let (touched, fault) = (std::mem::take(&mut view.touched), view.fault);
        let journal = around.journal;
        if let Some(at) = touched.race(&dispatch.after) {
            let what = format!("{who}, and the command processor behind it, at {at:#x}");
            journal.broken(&IDLE, what);
        }
        self.overlaps(around, &touched, &who);
        self.done.push((number, touched));
        if let Some(fault) = fault {
            return Err(Fault::Page(fault).into());
        }
        let done = ran.map_err(Stop::Fault)?;
        around.core.shaded(done.instructions);
        if around.core.took {
            around.core.print(|| {
                format!(
                    "{who}: {} groups, {} waves, {} instructions, {} cycles to issue, {} cycles of all waves, {} waves a core, \
                     {} cycles of the model",
                    done.groups,
                    done.waves,
                    done.instructions,
                    done.issue_cycles,
                    done.wave_cycles,
                    done.occupancy,
                    done.cycles
                )
            });
        }
        Ok(())
    }
}

/// What the 2D engine has written comes into memory.
fn flush_colors(around: &mut Around<'_>, writes: &mut Writes, who: &str) -> Result<(), Stop> {
    let none = Writes::default();
    for (at, data) in writes.take(Via::Colors) {
        let mut view = around.view(&none, who.to_owned());
        // It was looked for when it was drawn.
        view.listed = None;
        view.store(at, &data)?;
    }
    Ok(())
}

/// An event happens.
fn happen(
    around: &mut Around<'_>,
    number: u32,
    write: Option<(u64, Value)>,
    who: &str,
) -> Result<(), Stop> {
    match number {
        event::CACHE_FLUSH_TS => around.core.caches.flush(),
        event::CACHE_INVALIDATE => around.core.caches.invalidate(),
        _ => {}
    }
    let Some((at, value)) = write else {
        return Ok(());
    };
    let counter = around.core.ticks();
    let none = Writes::default();
    let mut view = around.view(&none, format!("{who}, event {number}"));
    match value {
        Value::Word(word) => view.store(at, &word.to_le_bytes())?,
        Value::Counter => view.store(at, &counter.to_le_bytes())?,
    }
    Ok(())
}
