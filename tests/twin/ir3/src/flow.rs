//! Where the fibers of a wave are.
//!
//! A wave runs the fibers at its lowest address; others are parked at higher ones, and rejoin where execution arrives at
//! theirs. So after a divergent branch the later of its targets waits, and a jump over a point where fibers wait parks
//! those that take it and goes on there.
//!
//! Source: Mesa src/freedreno/ir3/ir3_reconvergence.c, head comment.

use crate::fault::{Result, broken};
use crate::regs::Mask;
use crate::rules;

/// Bytes of an instruction.
pub const WORD: u64 = 8;

/// The most points that may be pending: Mesa src/freedreno/ir3/ir3_compiler.c, `max_branchstack`.
const MAX_PENDING: usize = 64;

pub struct Flow {
    pub pc: u64,
    /// The fibers at `pc`.
    pub active: Mask,
    /// Fibers that wait, at other addresses, all higher.
    parked: Vec<(u64, Mask)>,
    /// Whether those at `pc` waited there.
    resumed: bool,
    /// How many points may be pending.
    limit: usize,
    calls: Vec<u64>,
}

impl Flow {
    pub fn new(pc: u64, active: Mask, branch_stack: u32) -> Self {
        Self {
            pc,
            active,
            parked: Vec::new(),
            resumed: false,
            limit: (2 * branch_stack as usize).min(MAX_PENDING),
            calls: Vec::new(),
        }
    }

    pub fn is_divergent(&self) -> bool {
        !self.parked.is_empty()
    }

    /// At an instruction, with (jp) or not: those that wait here join.
    pub fn arrive(&mut self, jp: bool) -> Result<()> {
        let here = self.parked.iter().position(|(pc, _)| *pc == self.pc);
        if (here.is_some() || self.resumed) && !jp {
            let fibers = match here {
                Some(at) => self.parked[at].1,
                None => self.active,
            };
            let what = format!("{} fibers are parked here", fibers.count_ones());
            return broken(&rules::JP_MISSING, what);
        }
        if let Some(at) = here {
            self.active |= self.parked.swap_remove(at).1;
        }
        self.resumed = false;
        Ok(())
    }

    /// On to the next instruction.
    pub fn next(&mut self) {
        self.pc += WORD;
    }

    /// Some fibers go to a target, the others to the next instruction.
    pub fn branch(&mut self, taken: Mask, target: u64) -> Result<()> {
        let stays = self.active & !taken;
        let next = self.pc + WORD;
        let sides = [(target, self.active & taken), (next, stays)];
        for (pc, mask) in sides {
            if mask == 0 {
                continue;
            }
            match self.parked.iter_mut().find(|(at, _)| *at == pc) {
                Some((_, waiting)) => *waiting |= mask,
                None => self.parked.push((pc, mask)),
            }
        }
        let (waited, mask) = self.lowest();
        let fresh = sides
            .iter()
            .any(|(pc, side)| *pc == waited && *side == mask);
        // A point that is gone to at once counts where fibers had waited there.
        let pending = self.parked.len() + usize::from(!fresh);
        if pending > self.limit {
            let (limit, half) = (self.limit, self.limit / 2);
            let what = format!("{pending} points are pending, BRANCHSTACK {half} allows {limit}");
            return broken(&rules::BRANCH_STACK, what);
        }
        (self.pc, self.active, self.resumed) = (waited, mask, !fresh);
        Ok(())
    }

    /// Takes those at the lowest address out of the parked ones; there are some.
    fn lowest(&mut self) -> (u64, Mask) {
        let first = self
            .parked
            .iter()
            .enumerate()
            .min_by_key(|(_, (pc, _))| *pc);
        let at = first.map_or(0, |(at, _)| at);
        match at < self.parked.len() {
            true => self.parked.swap_remove(at),
            false => (self.pc, self.active),
        }
    }

    /// The fibers here end. Whether that were all.
    pub fn end(&mut self) -> bool {
        if self.parked.is_empty() {
            self.active = 0;
            return true;
        }
        (self.pc, self.active) = self.lowest();
        self.resumed = true;
        false
    }

    /// All fibers go to a function.
    pub fn call(&mut self, target: u64, depth: usize) -> Result<()> {
        if self.is_divergent() || self.calls.len() >= depth {
            let calls = self.calls.len();
            let what = format!(
                "a call with {calls} pending of {depth}, other fibers parked: {}",
                self.is_divergent()
            );
            return broken(&rules::CALL_STACK, what);
        }
        self.calls.push(self.pc + WORD);
        self.pc = target;
        Ok(())
    }

    /// All fibers return.
    pub fn ret(&mut self) -> Result<()> {
        match self.calls.pop() {
            Some(pc) if !self.is_divergent() => {
                self.pc = pc;
                Ok(())
            }
            Some(_) => broken(&rules::CALL_STACK, "ret while other fibers are parked"),
            None => broken(&rules::CALL_STACK, "ret without a call"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Cause;

    fn rule<T>(result: Result<T>) -> &'static str {
        match result.map(drop).map_err(|stop| *stop.cause) {
            Err(Cause::Rule { rule, .. }) => rule.name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_sides_of_a_condition_run_and_rejoin() {
        // 0: br 24; 8: then; 16: jump 32; 24: (jp) else; 32: (jp) both.
        let mut flow = Flow::new(0, 0b1111, 1);
        flow.branch(0b0101, 24).unwrap();
        assert_eq!((flow.pc, flow.active), (8, 0b1010));
        flow.arrive(false).unwrap();
        flow.next();
        flow.arrive(false).unwrap();
        flow.branch(flow.active, 32).unwrap();
        assert_eq!((flow.pc, flow.active), (24, 0b0101));
        flow.arrive(true).unwrap();
        flow.next();
        flow.arrive(true).unwrap();
        assert_eq!(
            (flow.pc, flow.active, flow.is_divergent()),
            (32, 0b1111, false)
        );
    }

    #[test]
    fn points_without_jp_are_told() {
        let mut flow = Flow::new(0, 0b11, 1);
        flow.branch(0b01, 16).unwrap();
        flow.next();
        assert_eq!(rule(flow.arrive(false)), "IR3-JP-MISSING");
        let mut flow = Flow::new(0, 0b11, 1);
        flow.branch(0b01, 24).unwrap();
        flow.branch(0b10, 32).unwrap();
        assert_eq!(rule(flow.arrive(false)), "IR3-JP-MISSING");
    }

    #[test]
    fn points_are_counted() {
        let mut flow = Flow::new(0, 0b11, 0);
        assert_eq!(rule(flow.branch(0b01, 16)), "IR3-BRANCH-STACK");
        let mut flow = Flow::new(0, 0b111, 1);
        flow.branch(0b001, 80).unwrap();
        flow.branch(0b010, 72).unwrap();
        assert_eq!(rule(flow.branch(0b100, 88)), "IR3-BRANCH-STACK");
    }

    #[test]
    fn a_loop_runs_until_the_last_fiber_leaves() {
        let mut flow = Flow::new(0, 0b11, 1);
        flow.next();
        flow.branch(0b01, 0).unwrap();
        assert_eq!((flow.pc, flow.active), (0, 0b01));
        flow.next();
        flow.branch(0, 0).unwrap();
        flow.arrive(true).unwrap();
        assert_eq!((flow.pc, flow.active), (16, 0b11));
    }

    #[test]
    fn calls_return() {
        let mut flow = Flow::new(0, 1, 0);
        flow.call(80, 1).unwrap();
        assert_eq!(rule(flow.call(80, 1)), "IR3-CALL-STACK");
        flow.ret().unwrap();
        assert_eq!(flow.pc, 8);
        assert_eq!(rule(flow.ret()), "IR3-CALL-STACK");
    }

    #[test]
    fn those_that_are_left_go_on() {
        let mut flow = Flow::new(0, 0b11, 1);
        flow.branch(0b01, 16).unwrap();
        assert!(!flow.end());
        assert_eq!((flow.pc, flow.active), (16, 0b01));
        flow.arrive(true).unwrap();
        assert!(flow.end());
    }
}
