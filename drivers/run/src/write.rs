//! Writing a model bundle.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::bytes::Fault;
use crate::check;
use crate::container::{self, Kind};
use crate::error::{Error, Result};
use crate::plan::{About, CodeObject, Port, State, TargetPlan};
use crate::wire::{self, Interface};

/// Constants and code objects begin at multiples of a cache line.
const ALIGN: usize = 64;

/// Bytes, each piece once: targets have the same weights, and kernels the same code.
#[derive(Default)]
struct Blob {
    bytes: Vec<u8>,
    known: HashMap<([u8; 32], usize), u64>,
}

impl Blob {
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let hash: [u8; 32] = Sha256::digest(bytes).into();
        let Blob { bytes: all, known } = self;
        *known.entry((hash, bytes.len())).or_insert_with(|| {
            all.resize(all.len().next_multiple_of(ALIGN), 0);
            let at = all.len() as u64;
            all.extend_from_slice(bytes);
            at
        })
    }
}

/// Collects the parts of a bundle.
pub struct BundleWriter {
    about: About,
    interface: Interface,
    constants: Blob,
    targets: Vec<(TargetPlan, Vec<u8>)>,
}

impl BundleWriter {
    /// A bundle of a model with these ports. `states` have their first values; zeros without one.
    pub fn new(
        about: About,
        inputs: Vec<Port>,
        outputs: Vec<Port>,
        states: Vec<(Port, Option<Vec<u8>>)>,
    ) -> BundleWriter {
        let mut constants = Blob::default();
        let states = states.into_iter().map(|(port, first)| State {
            port,
            initial: first.map(|bytes| constants.add(&bytes)),
        });
        BundleWriter {
            about,
            interface: Interface {
                inputs,
                outputs,
                states: states.collect(),
            },
            constants,
            targets: Vec::new(),
        }
    }

    /// Puts a constant into the file, where it is once; its offset, for a region of a target.
    pub fn constant(&mut self, bytes: &[u8]) -> u64 {
        self.constants.add(bytes)
    }

    /// Adds a target. `code` has the bytes of its objects, whose places are filled in here.
    pub fn target(&mut self, mut plan: TargetPlan, code: &[&[u8]]) {
        let mut blob = Blob::default();
        let objects: &mut Vec<CodeObject> = &mut plan.objects;
        for (object, bytes) in objects.iter_mut().zip(code) {
            (object.offset, object.bytes) = (blob.add(bytes), bytes.len() as u64);
        }
        self.targets.push((plan, blob.bytes));
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// A plan that [`crate::ModelBundle::open`] would refuse.
    pub fn finish(self) -> Result<Vec<u8>> {
        let constants = self.constants.bytes;
        let wrong = |kind: Kind, fault: Fault| Error::Damaged {
            file: self.about.model.clone(),
            section: kind.name(),
            expected: fault.expected,
            found: fault.found,
        };
        let len = constants.len() as u64;
        check::interface(&self.interface, len).map_err(|e| wrong(Kind::Interface, e))?;
        for (n, (plan, code)) in self.targets.iter().enumerate() {
            check::target(plan, &self.interface, len, code.len() as u64)
                .map_err(|e| wrong(Kind::Target(n as u32), e))?;
        }
        let mut sections = vec![
            (Kind::About, wire::about(&self.about)),
            (Kind::Interface, wire::interface(&self.interface)),
            (Kind::Constants, constants),
        ];
        for (n, (plan, code)) in self.targets.into_iter().enumerate() {
            sections.push((Kind::Target(n as u32), wire::target(&plan)));
            sections.push((Kind::Code(n as u32), code));
        }
        Ok(container::file(&sections))
    }
}

/// The same bytes with right hashes, for fuzzers and tests, whose changes would be found by them.
#[doc(hidden)]
pub fn sealed(bytes: Vec<u8>) -> Vec<u8> {
    container::sealed(bytes)
}
