//! Which nodes are in memory, with what was added lately: undoing a trial costs time proportional to what it added.

use std::ops::Deref;

/// A mark for each node, by number.
#[derive(Clone, Debug)]
pub struct Marks {
    marks: Vec<bool>,
    /// Nodes that were not marked before, since the last look.
    added: Vec<u32>,
}

impl Marks {
    /// Initial marks.
    pub fn new(marks: Vec<bool>) -> Marks {
        let added = Vec::new();
        Marks { marks, added }
    }

    /// Marks a node.
    pub fn add(&mut self, n: u32) {
        let mark = &mut self.marks[n as usize];
        if !*mark {
            *mark = true;
            self.added.push(n);
        }
    }

    /// Marks a node, or takes its mark, for good.
    pub fn set(&mut self, n: u32, mark: bool) {
        self.marks[n as usize] = mark;
    }

    /// Removes added marks; returns their number.
    pub fn undo(&mut self) -> usize {
        for &n in &self.added {
            self.marks[n as usize] = false;
        }
        let count = self.added.len();
        self.added.clear();
        count
    }
}

impl Deref for Marks {
    type Target = [bool];

    fn deref(&self) -> &[bool] {
        &self.marks
    }
}
