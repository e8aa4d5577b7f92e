//! Reads that get what is no longer true, and the reports of them.

use std::ops::Range;

use twin::rule::Rule;
use twin_shader::page::{PAGE, Port};

use super::cache::{At, State};
use super::frame::{Frame, run_bits, runs};
use super::gmc::Cache;
use super::rules;

impl State {
    /// Who wrote last, as part of a sentence.
    pub(crate) fn written_by(&self) -> String {
        match &self.writer {
            Some(writer) => format!(", last written by {writer}"),
            None => String::new(),
        }
    }

    /// Reports a read of `range` at `va` that gets what is no longer true.
    pub(crate) fn check(&self, at: &At, port: Port, va: u64, range: &Range<usize>) {
        let Some((rule, place)) = self.first_stale(at, port, range) else {
            return;
        };
        let va = (va & !(PAGE - 1)) + place as u64;
        if !at.gmc.wants_report(rule, at, va) {
            return;
        }
        let byte = |frame: Frame| {
            let mut byte = [0];
            frame.read(place, &mut byte);
            byte[0]
        };
        let text = format!(
            "{port:?} read of {va:#x} (byte {place:#x} of {}) by {} gets {:#04x}, the newest is \
             {:#04x}{}; missing since: {}",
            at.object.describe(at.page),
            at.who,
            byte(self.seen(at, port)),
            byte(self.newest(at, rule, place)),
            self.written_by(),
            rules::missing(rule),
        );
        at.gmc.report(rule, at, va, text);
    }

    /// Whether a cache in front of GL2 shows old content.
    fn shows_old(&self, at: &At, port: Port) -> bool {
        let view = self.view_of(at.gmc.index);
        let small = at.small(port).zip(view);
        small.is_some_and(|(cache, view)| view.shows_old(cache, at.launch))
    }

    /// Whether nothing can be stale, seen without a look at the bytes.
    fn agrees(&self, at: &At, port: Port) -> bool {
        let memory_alone = port == Port::Sdma || !at.cached() || at.home();
        let one = self.below.is_none() && self.views.iter().all(|view| view.copy.is_none());
        memory_alone && one && at.bar().is_none() && !self.shows_old(at, port)
    }

    /// The runs that a port would read stale, a bit for each.
    pub(crate) fn stale_runs(&self, at: &At, port: Port) -> u64 {
        if self.agrees(at, port) {
            return 0;
        }
        if port == Port::Vector && self.shows_old(at, port) {
            // Own stores show through: memory must hear of each.
            return !0;
        }
        // Where a cache shows what it has kept, lines that it does not hold are fetched when they are read.
        let fetched = if self.shows_old(at, port) {
            self.not_held(at, port)
        } else {
            0
        };
        (0..64).fold(fetched, |runs, run| {
            runs | u64::from(self.stale(at, port, run, !0).is_some()) << run
        })
    }

    /// The rule that a read of `bytes` of a run through a port breaks, with a bit for each of them that
    /// is old.
    fn stale(&self, at: &At, port: Port, run: usize, bytes: u64) -> Option<(&'static Rule, u64)> {
        let some = |rule, bits: u64| (bits & bytes != 0).then_some((rule, bits & bytes));
        let memory = self.memory(at.frame);
        let seen = self.seen(at, port);
        let hdp = || {
            let pending = self.pending(at.bar()?, memory, run);
            some(&rules::HDP_NOT_FLUSHED, pending)
        };
        let not_written_back = || {
            self.views.iter().find_map(|view| {
                if view.gpu == at.gmc.index && port != Port::Sdma {
                    return None;
                }
                let (shown, _) = self.gl2(at, view.gpu);
                let old = self.dirty(at, view.gpu, run) & shown.differs(seen, run);
                some(&rules::L2_NOT_WRITTEN_BACK, old)
            })
        };
        let l2 = || {
            if port == Port::Sdma
                || !at.cached()
                || at.through(port)
                || at.home() && self.below_written.is_none()
            {
                return None;
            }
            let old = self.newer(at, run) & seen.differs(memory, run);
            some(&rules::L2_STALE, old)
        };
        let small = || {
            let rule = match at.small(port)? {
                Cache::Vector => &rules::VECTOR_STALE,
                Cache::Scalar => &rules::SCALAR_STALE,
                Cache::Inst => &rules::INST_STALE,
                Cache::Gl2 => return None,
            };
            some(rule, seen.differs(self.behind(at), run))
        };
        hdp().or_else(not_written_back).or_else(l2).or_else(small)
    }

    /// The page that has the newest content of a byte.
    fn newest<'a>(&'a self, at: &At<'a>, rule: &Rule, place: usize) -> Frame<'a> {
        if rule == &rules::HDP_NOT_FLUSHED {
            return at.bar().unwrap_or(at.frame);
        }
        if rule == &rules::L2_STALE {
            return self.memory(at.frame);
        }
        if rule == &rules::L2_NOT_WRITTEN_BACK {
            let dirty = |gpu| self.dirty(at, gpu, place / 64) >> (place % 64) & 1 == 1;
            let gpu = self
                .views
                .iter()
                .map(|view| view.gpu)
                .find(|&gpu| dirty(gpu));
            return self.gl2(at, gpu.unwrap_or(at.gmc.index)).0;
        }
        self.behind(at)
    }

    /// The first byte of `range` that a port reads stale, and the rule that this breaks.
    fn first_stale(
        &self,
        at: &At,
        port: Port,
        range: &Range<usize>,
    ) -> Option<(&'static Rule, usize)> {
        if self.agrees(at, port) {
            return None;
        }
        runs(range).find_map(|run| {
            let (rule, bits) = self.stale(at, port, run, run_bits(range, run))?;
            Some((rule, run * 64 + bits.trailing_zeros() as usize))
        })
    }
}
