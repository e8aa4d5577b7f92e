//! Elements whose components are swapped, or replaced by constants.
//!
//! Source: open-gpu-doc, classes/dma-copy/clc7b5.h, SET_REMAP_COMPONENTS; open-gpu-kernel-modules,
//! kernel-open/nvidia-uvm/uvm_maxwell_ce.c, memset: lines are counted in elements.

use drivers_spec::nv::copy::{self as spec, set_remap_components as bits};

use super::super::registers::Registers;

/// Where a component comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Source(usize),
    Constant([u8; 4]),
    /// It stays what it is.
    Kept,
}

/// What is made of an element.
#[derive(Debug)]
pub(super) struct Remap {
    /// Bytes of a component.
    size: usize,
    /// Components of an element in the source.
    source: usize,
    targets: Vec<From>,
}

impl Remap {
    pub fn new(r: &Registers) -> Self {
        let value = r.get(&spec::SET_REMAP_COMPONENTS);
        let count = |field: hcq::reg::Field<_>| field.get(value) as usize + 1;
        let source = count(bits::NUM_SRC_COMPONENTS);
        let all = [bits::DST_X, bits::DST_Y, bits::DST_Z, bits::DST_W];
        let from = |field: hcq::reg::Field<_>| match field.get(value) {
            bits::DST_X_CONST_A => From::Constant(r.get(&spec::SET_REMAP_CONST_A).to_le_bytes()),
            bits::DST_X_CONST_B => From::Constant(r.get(&spec::SET_REMAP_CONST_B).to_le_bytes()),
            component @ ..=bits::DST_X_SRC_W => From::Source(component as usize),
            _ => From::Kept,
        };
        let targets = all.into_iter().take(count(bits::NUM_DST_COMPONENTS));
        Self {
            size: count(bits::COMPONENT_SIZE),
            source,
            targets: targets.map(from).collect(),
        }
    }

    /// Whether any component comes from the source.
    pub fn reads(&self) -> bool {
        self.targets
            .iter()
            .any(|from| matches!(from, From::Source(_)))
    }

    /// Whether any component stays.
    pub fn keeps(&self) -> bool {
        self.targets.contains(&From::Kept)
    }

    /// Bytes of an element, in the source and in the target.
    pub fn bytes(&self) -> (u64, u64) {
        let bytes = |count: usize| (count * self.size) as u64;
        (bytes(self.source), bytes(self.targets.len()))
    }

    /// Makes elements.
    pub fn change(&self, read: &[u8], write: &mut [u8]) {
        let size = self.size;
        let (source, target) = (self.source * size, self.targets.len() * size);
        for (i, element) in write.chunks_exact_mut(target).enumerate() {
            for (component, from) in element.chunks_exact_mut(size).zip(&self.targets) {
                match from {
                    From::Kept => {}
                    From::Constant(bytes) => component.copy_from_slice(&bytes[..size]),
                    // A component that the source does not have is 0.
                    From::Source(number) if *number >= self.source => component.fill(0),
                    From::Source(number) => {
                        let at = i * source + number * size;
                        component.copy_from_slice(&read[at..at + size]);
                    }
                }
            }
        }
    }
}
