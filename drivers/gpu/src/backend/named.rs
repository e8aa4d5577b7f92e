//! [`Named`]: a range of addresses that has a name.

use std::sync::Arc;

use super::space::Space;

/// A range that has a name until this is dropped.
pub struct Named {
    space: Arc<Space>,
    /// Where it starts, and its number there; none where it has no name, or keeps it.
    range: Option<(u64, u64)>,
}

impl Named {
    /// Names the bytes of a space. An empty name is none: the parts have names of their own.
    pub fn new(space: &Arc<Space>, va: u64, bytes: u64, what: &str) -> Named {
        let has_name = !what.is_empty();
        Named {
            space: space.clone(),
            range: has_name.then(|| (va, space.ranges.insert(va, bytes, what))),
        }
    }

    /// Leaves the name to the bytes for as long as the process has them.
    pub fn keep(mut self) {
        self.range = None;
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Some((va, number)) = self.range {
            self.space.ranges.remove(va, number);
        }
    }
}
