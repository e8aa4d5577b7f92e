//! [`Named`]: a range of addresses that has a name.

use std::sync::Arc;

use super::space::Space;

/// A range that has a name until this is dropped.
pub struct Named {
    space: Arc<Space>,
    /// Where it starts; none where it has no name, or keeps it.
    va: Option<u64>,
}

impl Named {
    /// Names the bytes of a space. An empty name is none: the parts have names of their own.
    pub fn new(space: &Arc<Space>, va: u64, bytes: u64, what: &str) -> Named {
        let has_name = !what.is_empty();
        if has_name {
            space.ranges.insert(va, bytes, what);
        }
        Named {
            space: space.clone(),
            va: has_name.then_some(va),
        }
    }

    /// Leaves the name to the bytes for as long as the process has them.
    pub fn keep(mut self) {
        self.va = None;
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Some(va) = self.va {
            self.space.ranges.remove(va);
        }
    }
}
