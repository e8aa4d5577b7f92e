//! Kernels that were compiled, and which of their numbers were compiled in.
//!
//! Kernels that differ in numbers only are a family. The first member that comes is compiled with its numbers as
//! constants, as is every member of a capture. When another one comes, the numbers in which it differs become
//! arguments, and that code serves all members that differ in nothing else. So a number that changes from call to
//! call costs two compilations, and one that never changes is a constant.

use hashbrown::HashMap;
use std::sync::Arc;

use codegen::Recent;

use super::compiled::Compiled;
use crate::schedule::Value;
use crate::schedule::order::Structure;

/// So often the numbers that differ are opened one after the other, then all that are left at once.
const STEPS: u32 = 3;

/// More numbers than that are never arguments of one kernel: what a launch carries is bounded. A kernel in which more
/// of them change is compiled for each of its numbers.
const MANY: usize = 64;

/// What code is for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    family: u64,
    form: Form,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Form {
    /// These numbers are constants.
    Constant(Box<[u64]>),
    /// Some are arguments; a higher number has more of them.
    Open(u32),
}

/// What is known of kernels that differ in numbers only.
struct Family {
    number: u64,
    /// Which numbers the open code takes as arguments.
    open: Vec<bool>,
    /// The others, as they were the last time.
    last: Vec<u64>,
    /// How often numbers were opened.
    steps: u32,
    /// Compiled code of it.
    codes: usize,
}

/// The table.
pub(super) struct Known {
    families: HashMap<Arc<Structure>, Family>,
    structures: HashMap<u64, Arc<Structure>>,
    codes: Recent<Key, Arc<Compiled>>,
    next: u64,
    /// What had to go, and may still run.
    retired: Vec<Arc<Compiled>>,
}

/// The code that serves a kernel with some numbers.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) key: Key,
    /// The numbers that are constants in it.
    pub(super) constants: Vec<Option<u64>>,
}

impl Known {
    /// A table of at most so many bytes.
    pub(super) fn new(most: u64) -> Known {
        Known {
            families: HashMap::new(),
            structures: HashMap::new(),
            codes: Recent::new(most),
            next: 0,
            retired: Vec::new(),
        }
    }

    /// Codes that are in it.
    pub(super) fn len(&self) -> usize {
        self.codes.len()
    }

    /// Which code a kernel with these numbers takes. With `constant`, one that has all of them as constants.
    pub(super) fn choose(
        &mut self,
        structure: Structure,
        values: &[Value],
        constant: bool,
    ) -> Choice {
        let bits: Vec<u64> = values.iter().map(|v| v.bits).collect();
        let structure = match self.families.get_key_value(&structure) {
            Some((known, _)) => known.clone(),
            None => Arc::new(structure),
        };
        let next = self.next;
        let family = self.families.entry(structure.clone()).or_insert_with(|| {
            // What is expected to change is an argument from the first time on.
            let places = values.iter().filter(|v| v.place).count();
            let few = !constant && places <= MANY;
            let open: Vec<bool> = values.iter().map(|v| v.place && few).collect();
            Family {
                number: next,
                steps: 0,
                last: bits.clone(),
                codes: 0,
                open,
            }
        });
        if family.number == next {
            self.next += 1;
            self.structures.insert(next, structure);
        }
        let number = family.number;
        let fixed = Key {
            family: number,
            form: Form::Constant(bits.clone().into()),
        };
        let any = family.open.contains(&true);
        let differs = |family: &Family, i: usize| !family.open[i] && family.last[i] != bits[i];
        let differ: Vec<usize> = (0..bits.len()).filter(|&i| differs(family, i)).collect();
        if constant || !any && differ.is_empty() || self.codes.get(&fixed).is_some() {
            return Choice {
                key: fixed,
                constants: bits.into_iter().map(Some).collect(),
            };
        }
        let opened = family.open.iter().filter(|&&open| open).count();
        if opened + differ.len() > MANY {
            return Choice {
                key: fixed,
                constants: bits.into_iter().map(Some).collect(),
            };
        }
        if !differ.is_empty() {
            family.steps += 1;
            for i in differ {
                family.open[i] = true;
            }
            if family.steps >= STEPS && family.open.len() <= MANY {
                family.open.fill(true);
            }
            family.last.clone_from(&bits);
        }
        let constants = bits.iter().zip(&family.open);
        Choice {
            key: Key {
                family: number,
                form: Form::Open(family.steps),
            },
            constants: constants
                .map(|(&bits, &open)| (!open).then_some(bits))
                .collect(),
        }
    }

    /// The code of a key.
    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<Compiled>> {
        self.codes.get(key).cloned()
    }

    /// Adds what was compiled. Open code takes the place of such with fewer arguments. Code that has no place
    /// here goes once it has run.
    pub(super) fn insert(&mut self, key: Key, code: Arc<Compiled>) {
        let family = self.structures.get(&key.family).cloned();
        let family = family.and_then(|s| Some((s.clone(), self.families.get_mut(&s)?)));
        let Some((structure, family)) = family else {
            // All other code of the family went while this was compiled.
            self.retired.push(code);
            return;
        };
        if let Form::Open(steps) = key.form {
            if steps < family.steps {
                self.retired.push(code);
                return;
            }
            for form in (0..steps).map(Form::Open) {
                let old = Key {
                    family: key.family,
                    form,
                };
                if let Some(old) = self.codes.remove(&old) {
                    family.codes -= 1;
                    self.retired.push(old);
                }
            }
        }
        family.codes += 1;
        let weight = code.bytes() + structure.bytes();
        for (key, old) in self.codes.insert(key, code, weight) {
            self.retired.push(old);
            self.forget(key.family);
        }
    }

    /// Some code of a family went.
    fn forget(&mut self, number: u64) {
        let Some(structure) = self.structures.get(&number).cloned() else {
            return;
        };
        if let Some(family) = self.families.get_mut(&structure) {
            family.codes -= 1;
            if family.codes == 0 {
                self.families.remove(&structure);
                self.structures.remove(&number);
            }
        }
    }

    /// What had to go, and what nobody has any more: all that ran of it was submitted.
    pub(super) fn retired(&mut self) -> Vec<Arc<Compiled>> {
        let (gone, kept) = std::mem::take(&mut self.retired)
            .into_iter()
            .map(|mut code| (Arc::get_mut(&mut code).is_some(), code))
            .partition::<Vec<_>, _>(|(alone, _)| *alone);
        self.retired = kept.into_iter().map(|(_, code)| code).collect();
        gone.into_iter().map(|(_, code)| code).collect()
    }

    /// Everything, for the end.
    pub(super) fn take(&mut self) -> Vec<Arc<Compiled>> {
        self.families.clear();
        self.structures.clear();
        let mut all = std::mem::take(&mut self.retired);
        all.extend(self.codes.drain().map(|(_, code)| code));
        all
    }
}
