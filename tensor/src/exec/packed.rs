//! Packed operands: constant operands in the order in which kernels read them.

use hashbrown::HashMap;
use std::sync::{Arc, Mutex, Weak};

use hcq::Buffer;
use hcq::sync::lock;

/// What a packed operand is made of: the code that made it, its size, and the tensors that it read, in the order in
/// which the code counts them.
pub(crate) type PackedKey = ([u8; 32], u64, Vec<u64>);

/// A packed operand.
pub(crate) struct PackedOperand(pub(crate) Buffer);

/// Packed operands that captures share, as long as one of them is alive.
#[derive(Default)]
pub(crate) struct Packed(Mutex<HashMap<PackedKey, Weak<PackedOperand>>>);

impl Packed {
    pub(crate) fn get(&self, key: &PackedKey) -> Option<Arc<PackedOperand>> {
        let table = lock(&self.0);
        table.get(key)?.upgrade()
    }

    pub(crate) fn put(&self, key: PackedKey, operand: &Arc<PackedOperand>) {
        let mut table = lock(&self.0);
        table.retain(|_, operand| operand.strong_count() > 0);
        table.insert(key, Arc::downgrade(operand));
    }
}
