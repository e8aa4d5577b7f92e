//! Loads of neighbours from one address become one load of several registers.
//!
//! The registers of the single loads get copies of its lanes, which are removed where both fit one place.
//!
//! Source: Mesa `ir3_nir_should_vectorize_mem` and `ir3_mem_access_size_align`: up to four elements, of which each is
//! aligned as one alone has to be.

use super::modifier::Type;
use super::table::Op;
use super::units;
use super::virt::{Code, Dst, FULL, Function, Name, Src};
use crate::machine::{Class, Instruction, Part};

/// Elements of a load.
const MOST: usize = 4;
/// Instructions between the first and the last of loads that are one: their registers are taken from the first on.
const APART: usize = 40;

/// A load of one register.
#[derive(Clone, Copy)]
struct Load {
    at: usize,
    offset: i32,
    to: Part,
}

/// Loads of one kind from one address, between which nothing changes what they read.
struct Group {
    code: Code,
    loads: Vec<Load>,
}

impl Group {
    /// Whether another load is of this group.
    fn takes(&self, code: &Code, at: usize) -> bool {
        let own = &self.code;
        let same = own.op == code.op && own.srcs == code.srcs;
        let first = self.loads.first().map_or(at, |l| l.at);
        let kind = own.mods.ty == code.mods.ty && own.mods.shift == code.mods.shift;
        same && kind && at - first <= APART
    }

    /// How far apart offsets of neighbours are.
    fn step(&self) -> i32 {
        match (self.code.op, self.code.mods.ty.unwrap_or(Type::U32)) {
            // Those are counted in elements.
            (Op::LdgA, _) => 1,
            (_, Type::U8 | Type::U8In32) => 1,
            (_, ty) if ty.is_half() => 2,
            _ => 4,
        }
    }

    /// Whether an address is made anew by an instruction.
    fn depends(&self, code: &Code) -> bool {
        let addresses = self.code.srcs.iter().filter_map(|s| match s.name {
            Name::Part(part) => Some(part.value),
            _ => None,
        });
        let addresses: Vec<_> = addresses.collect();
        let mut found = false;
        code.accesses(&mut |a| found |= a.writes && addresses.contains(&a.part.value));
        found
    }

    /// Whether an instruction may change what is read.
    fn changes(&self, code: &Code) -> bool {
        let local = self.code.op == Op::Ldl;
        match code.op {
            Op::Bar | Op::Fence | Op::Br | Op::Jump | Op::End => true,
            Op::Stl => local,
            Op::Stg | Op::StgA => !local,
            op if units::is_local_atomic(op) => local,
            op if units::is_global_atomic(op) => !local,
            _ => false,
        }
    }

    /// Runs of neighbours, at least two.
    fn runs(&self) -> Vec<Vec<Load>> {
        let mut loads = self.loads.clone();
        loads.sort_by_key(|l| (l.offset, l.at));
        let mut runs: Vec<Vec<Load>> = Vec::new();
        for load in loads {
            match runs.last_mut() {
                Some(run)
                    if run.len() < MOST
                        && run
                            .last()
                            .is_some_and(|l| l.offset + self.step() == load.offset) =>
                {
                    run.push(load);
                }
                _ => runs.push(vec![load]),
            }
        }
        runs.retain(|run| run.len() > 1);
        runs
    }
}

/// The single register that an instruction loads.
fn single(code: &Code) -> Option<Part> {
    let loads = matches!(code.op, Op::Ldl | Op::Ldg | Op::LdgA);
    match code.dst {
        Dst::Part(part) if loads && part.lanes == 1 && code.mods.count == 1 => Some(part),
        _ => None,
    }
}

/// All groups of a block.
fn groups(insts: &[Code]) -> Vec<Group> {
    let mut open: Vec<Group> = Vec::new();
    let mut all = Vec::new();
    for (at, code) in insts.iter().enumerate() {
        if let Some(to) = single(code) {
            let load = Load {
                at,
                offset: code.mods.offset,
                to,
            };
            match open.iter_mut().find(|g| g.takes(code, at)) {
                Some(group) => group.loads.push(load),
                None => open.push(Group {
                    code: code.clone(),
                    loads: vec![load],
                }),
            }
        }
        let (done, left): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|g| g.changes(code) || g.depends(code));
        all.extend(done);
        open = left;
    }
    all.extend(open);
    all
}

fn copy(class: Class, to: Part, from: Part) -> Code {
    let ty = if class == FULL { Type::U32 } else { Type::U16 };
    Code::mov(ty, ty, to, Src::part(from))
}

/// Merges the loads of all blocks.
pub(super) fn merge(f: &mut Function) {
    for at in 0..f.blocks.len() {
        let insts = std::mem::take(&mut f.blocks[at].insts);
        // What is put in the place of an instruction.
        let mut instead: Vec<Option<Vec<Code>>> = vec![None; insts.len()];
        for group in groups(&insts) {
            for run in group.runs() {
                let (Some(lowest), Some(first)) = (run.first(), run.iter().map(|l| l.at).min())
                else {
                    continue;
                };
                let class = f.shape(lowest.to.value).class;
                let lanes = run.len() as u8;
                let value = f.value(class, lanes);
                let mut wide = group.code.clone();
                wide.mods.offset = lowest.offset;
                wide.mods.count = u16::from(lanes);
                wide.dst = Dst::Part(Part {
                    value,
                    lane: 0,
                    lanes,
                });
                for (lane, load) in (0..).zip(&run) {
                    let copy = copy(class, load.to, Part::of(value, lane));
                    let place = instead
                        .get_mut(load.at)
                        .map(|p| p.get_or_insert_with(Vec::new));
                    if let Some(place) = place {
                        if load.at == first {
                            place.push(wide.clone());
                        }
                        place.push(copy);
                    }
                }
            }
        }
        let made = insts.into_iter().zip(instead);
        f.blocks[at].insts = made
            .flat_map(|(own, instead)| instead.unwrap_or_else(|| vec![own]))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Block, Value};

    /// A load of one register of local memory.
    fn load(f: &mut Function, address: Value, offset: i32) -> Code {
        let to = Part::of(f.value(FULL, 1), 0);
        let mut code = Code::new(
            Op::Ldl,
            Dst::Part(to),
            vec![Src::part(Part::of(address, 0))],
        );
        code.mods.ty = Some(Type::U32);
        code.mods.count = 1;
        code.mods.offset = offset;
        code
    }

    /// The offsets and sizes of the loads that are left.
    fn merged(make: impl FnOnce(&mut Function, Value) -> Vec<Code>) -> Vec<(i32, u16)> {
        let mut f = Function::new();
        let address = f.value(FULL, 1);
        f.blocks.push(Block::new(0));
        f.blocks[0].insts = make(&mut f, address);
        let copies = f.blocks[0].insts.len();
        merge(&mut f);
        let insts = &f.blocks[0].insts;
        let loads = insts.iter().filter(|code| code.op == Op::Ldl);
        let loads: Vec<_> = loads.map(|c| (c.mods.offset, c.mods.count)).collect();
        assert!(insts.len() >= copies);
        loads
    }

    #[test]
    fn neighbours_are_one_load() {
        let found = merged(|f, at| [8, 0, 4, 40, 44, 12, 16].map(|n| load(f, at, n)).into());
        assert_eq!(found, [(0, 4), (40, 2), (16, 1)]);
    }

    #[test]
    fn a_store_or_another_address_is_between() {
        let found = merged(|f, at| {
            let value = Src::part(Part::of(f.value(FULL, 1), 0));
            let address = Src::part(Part::of(at, 0));
            let store = Code::new(Op::Stl, Dst::None, vec![address, value]);
            vec![load(f, at, 0), store, load(f, at, 4)]
        });
        assert_eq!(found, [(0, 1), (4, 1)]);
        let found = merged(|f, at| {
            let from = Src::part(Part::of(f.value(FULL, 1), 0));
            let moved = Code::mov(Type::U32, Type::U32, Part::of(at, 0), from);
            vec![load(f, at, 0), moved, load(f, at, 4)]
        });
        assert_eq!(found, [(0, 1), (4, 1)]);
    }
}
