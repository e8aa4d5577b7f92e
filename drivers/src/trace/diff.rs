//! Two recordings side by side. Each stage of one is held against the same stage of the other: drivers start blocks in
//! orders of their own, and within a block the order is the hardware's.
//!
//! What two runs of one command do differently by themselves is not compared: how often the same is asked in a wait, what
//! is [asked by the clock](hcq::transport::access::by_clock), how far interrupt rings are, what counters say.

use std::hash::Hash;

use hcq::transport::access::Verb;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::names::{CALLS, Names};
use super::recording::Recording;

/// An access, as far as it can be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What it belongs to.
    pub stage: &'static str,
    /// What is accessed.
    pub what: String,
    /// Whether it is written.
    pub is_write: bool,
    /// The value, where there is one that can be compared.
    pub value: Option<u64>,
    /// The vendor's name of the message that the value is.
    pub message: Option<&'static str>,
    /// How often it was read in a row: a wait.
    pub times: u32,
}

/// The accesses of a recording that another driver may make as well: registers, configuration space, calls of the kernel
/// driver.
pub fn steps(recording: &Recording, names: &mut Names) -> Vec<Step> {
    let mut steps = Vec::new();
    for entry in &recording.entries {
        let told = names.tell(&entry.record);
        let access = &entry.record.access;
        let is_step = told.value.is_some() && !["machine", "memory"].contains(&told.stage);
        // How often a call that waits comes back with nothing is a matter of time.
        let is_wait = access.verb == Verb::Ioctl && access.name.contains("_WAIT");
        if is_step && !access.is_by_clock && !is_wait {
            steps.push(Step {
                line: entry.line,
                stage: told.stage,
                what: told.what,
                is_write: told.is_write,
                value: told.value,
                message: told.message,
                times: 1,
            });
        }
    }
    steps
}

/// How far the host has read an interrupt ring, and the card has filled it; `_RING1` follows for more rings.
const INTERRUPT_POINTERS: [&str; 2] = ["IH_RB_RPTR", "IH_RB_WPTR"];

/// Parts of the names of registers that are other ones at each look: clocks, and how far rings are.
const COUNTERS: [&str; 6] = [
    "TSC",
    "COUNTER",
    "CLOCK_COUNT",
    "TIMESTAMP",
    "_RPTR",
    "_WPTR",
];

/// What of a step two runs have in common, if anything.
fn comparable(mut step: Step) -> Option<Step> {
    let register = step.what.rsplit('.').next().unwrap_or_default();
    let is_pointer = |name: &&str| {
        let rest = register.strip_prefix(*name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("_RING"))
    };
    // Where a pointer is kept does not move.
    let counts = |name: &&str| register.contains(*name) && !register.contains("_ADDR");
    // A ring is told to be empty once; then its pointers follow the interrupts.
    let is_emptied = step.is_write && step.value == Some(0);
    if INTERRUPT_POINTERS.iter().any(is_pointer) && !is_emptied {
        return None;
    }
    if !step.is_write && COUNTERS.iter().any(counts) {
        step.value = None;
    }
    Some(step)
}

/// Registers that a wait looks at in turn, at most.
const IN_TURN: usize = 4;

/// Reads of the same places in a row are one wait, with their last values.
fn waits(steps: &[Step]) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for step in steps {
        found.push(step.clone());
        while let Some(turn) = (1..=IN_TURN).find(|&turn| is_again(&found, turn)) {
            let last = found.split_off(found.len() - turn);
            let first = found.len() - turn;
            for (before, again) in found[first..].iter_mut().zip(last) {
                before.times += again.times;
                before.value = again.value;
                before.message = again.message;
            }
        }
    }
    found
}

/// Whether the last so many steps read the same as those before them.
fn is_again(steps: &[Step], turn: usize) -> bool {
    let Some(start) = steps.len().checked_sub(2 * turn) else {
        return false;
    };
    let (before, last) = steps[start..].split_at(turn);
    let mut both = before.iter().zip(last);
    // Calls of a kernel driver are no looks: each does something.
    both.all(|(one, other)| {
        let is_look = |step: &Step| !step.is_write && step.stage != CALLS;
        is_look(one) && is_look(other) && one.what == other.what
    })
}

/// A line of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// The first does it, the second does not.
    Less(Step),
    /// The second does it, the first does not.
    More(Step),
    /// Both do it, with other values.
    Other(Step, Step),
}

/// A stage of both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// Accesses that are the same.
    pub same: usize,
    /// Those that are not, in order.
    pub lines: Vec<Line>,
}

/// Compares stage by stage, in the order of the first recording, then the stages only in the second. `values`: also
/// compare values read, which may differ by card and time.
pub fn compare(first: &[Step], second: &[Step], values: bool) -> Vec<Stage> {
    let mut names: Vec<&'static str> = Vec::new();
    for step in first.iter().chain(second) {
        if !names.contains(&step.stage) {
            names.push(step.stage);
        }
    }
    let of = |all: &[Step], name| -> Vec<Step> {
        let of_stage: Vec<_> = all
            .iter()
            .filter(|step| step.stage == name)
            .cloned()
            .filter_map(comparable)
            .collect();
        waits(&of_stage)
    };
    let stage = |name| compare_stage(name, &of(first, name), &of(second, name), values);
    names.into_iter().map(stage).collect()
}

/// First by all that is written, so that what one does more shifts nothing; what is left between is held against each
/// other by place alone.
fn compare_stage(name: &'static str, first: &[Step], second: &[Step], values: bool) -> Stage {
    let exact = |step: &Step| {
        (
            step.what.clone(),
            step.is_write,
            step.value.filter(|_| step.is_write),
        )
    };
    let place = |step: &Step| (step.what.clone(), step.is_write);
    let mut stage = Stage {
        name,
        same: 0,
        lines: Vec::new(),
    };
    for outer in ops(first, second, exact) {
        let (first, second) = (&first[outer.old_range()], &second[outer.new_range()]);
        for op in ops(first, second, place) {
            let (old, new) = (&first[op.old_range()], &second[op.new_range()]);
            if !matches!(op, DiffOp::Equal { .. }) {
                stage.lines.extend(old.iter().cloned().map(Line::Less));
                stage.lines.extend(new.iter().cloned().map(Line::More));
                continue;
            }
            for (one, other) in old.iter().zip(new) {
                match one.value == other.value || !(one.is_write || values) {
                    true => stage.same += 1,
                    false => stage.lines.push(Line::Other(one.clone(), other.clone())),
                }
            }
        }
    }
    stage
}

/// How two rows of steps go together, by what is to be equal of them.
fn ops<K: Ord + Hash>(first: &[Step], second: &[Step], key: impl Fn(&Step) -> K) -> Vec<DiffOp> {
    let keys = |all: &[Step]| all.iter().map(&key).collect::<Vec<K>>();
    capture_diff_slices(Algorithm::Myers, &keys(first), &keys(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(stage: &'static str, what: &str, is_write: bool, value: u64) -> Step {
        Step {
            line: 1,
            stage,
            what: what.into(),
            is_write,
            value: Some(value),
            message: None,
            times: 1,
        }
    }

    /// The steps of a recording of these lines, none of which needs names.
    fn recorded(lines: &str) -> Vec<Step> {
        let text = format!("# doorbell trace 1\n{lines}");
        steps(&Recording::parse(&text).unwrap(), &mut Names::default())
    }

    #[test]
    fn what_depends_on_time_is_no_difference() {
        let ioctl = |mark: &str, name: &str| {
            format!("+1 /dev/kfd {mark}ioctl request=0x0 name={name} data=00 -> ok 0x0\n")
        };
        let calls = [
            ioctl("", "AMDKFD_IOC_CREATE_QUEUE"),
            ioctl("", "AMDKFD_IOC_WAIT_EVENTS"),
            ioctl("?", "DRM_IOCTL_AMDGPU_INFO"),
        ];
        let [once, often] = [&calls[..1], &calls[..]].map(|calls| recorded(&calls.concat()));
        assert_eq!(once, often);
        // A call that is made twice does something twice.
        let twice = recorded(&[&*calls[0], &*calls[0]].concat());
        let stages = compare(&once, &twice, false);
        assert_eq!(stages[0].lines.len(), 1);

        let pointer = |name: &str, is_write, value| comparable(step("IH", name, is_write, value));
        assert!(pointer("OSSSYS0.IH_RB_RPTR", true, 0x40).is_none());
        assert!(pointer("OSSSYS0.IH_RB_WPTR_RING1", false, 0x40).is_none());
        assert!(pointer("OSSSYS0.IH_RB_RPTR", true, 0).is_some());
        let place = pointer("OSSSYS0.IH_RB_WPTR_ADDR_LO", true, 0x40);
        assert_eq!(place.unwrap().value, Some(0x40));
        let place = pointer("GC0.CP_HQD_PQ_RPTR_REPORT_ADDR", false, 0x40);
        assert_eq!(place.unwrap().value, Some(0x40));
        let clock = pointer("SMUIO0.GOLDEN_TSC_COUNT_LOWER", false, 77);
        assert_eq!(clock.unwrap().value, None);
    }

    #[test]
    fn a_wait_that_looks_at_registers_in_turn_is_one() {
        let turn = [step("GFX", "A", false, 0), step("GFX", "B", false, 1)];
        let short = [&turn[..], &[step("GFX", "C", true, 1)]].concat();
        let long = [&turn[..], &turn[..], &turn[..], &short[..]].concat();
        let stages = compare(&short, &long, true);
        assert_eq!((stages[0].same, stages[0].lines.len()), (3, 0));
        let found = waits(&long);
        let times: Vec<_> = found.iter().map(|step| step.times).collect();
        assert_eq!(times, [4, 4, 1]);
    }

    #[test]
    fn stages_are_compared_whatever_their_order() {
        let first = [
            step("PSP", "A", true, 1),
            step("PSP", "B", false, 0),
            step("PSP", "B", false, 1),
            step("SMU", "C", true, 7),
        ];
        let second = [
            step("SMU", "C", true, 8),
            step("SMU", "D", true, 1),
            step("PSP", "A", true, 1),
            step("PSP", "B", false, 5),
        ];
        let stages = compare(&first, &second, false);
        assert_eq!(
            (stages[0].name, stages[0].same, stages[0].lines.len()),
            ("PSP", 2, 0)
        );
        assert_eq!(
            stages[1].lines,
            [
                Line::Other(first[3].clone(), second[0].clone()),
                Line::More(second[1].clone()),
            ]
        );
        // What one does more shifts nothing.
        let [c, d] = [step("SMU", "C", true, 7), step("SMU", "C", true, 9)];
        let stages = compare(&[c.clone(), d.clone()], &[d], false);
        assert_eq!(
            (stages[0].same, &stages[0].lines[..]),
            (1, &[Line::Less(c)][..])
        );
        // Also what was read.
        let stages = compare(&first, &second, true);
        let [Line::Other(one, other)] = &stages[0].lines[..] else {
            panic!("{:?}", stages[0]);
        };
        assert_eq!((one.times, one.value, other.value), (2, Some(1), Some(5)));
    }
}
