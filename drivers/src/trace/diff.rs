//! Two recordings side by side. Each stage of one is held against the same stage of the other: drivers start blocks in
//! orders of their own, and within a block the order is the hardware's.

use std::hash::Hash;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::names::Names;
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
    /// The value, where there is one.
    pub value: Option<u64>,
    /// How often it was read in a row: a wait.
    pub times: u32,
}

/// The accesses of a recording that another driver may make as well: registers, configuration space, calls of the kernel
/// driver.
pub fn steps(recording: &Recording, names: &mut Names) -> Vec<Step> {
    let mut steps = Vec::new();
    for entry in &recording.entries {
        let told = names.tell(&entry.record);
        let is_step = told.value.is_some() && !["machine", "memory"].contains(&told.stage);
        if is_step {
            steps.push(Step {
                line: entry.line,
                stage: told.stage,
                what: told.what,
                is_write: told.is_write,
                value: told.value,
                times: 1,
            });
        }
    }
    steps
}

/// Reads of the same place in a row are one wait, with its last value.
fn waits(steps: &[Step]) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for step in steps {
        match found.last_mut() {
            Some(last) if !last.is_write && !step.is_write && last.what == step.what => {
                last.times += 1;
                last.value = step.value;
            }
            _ => found.push(step.clone()),
        }
    }
    found
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
            times: 1,
        }
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
