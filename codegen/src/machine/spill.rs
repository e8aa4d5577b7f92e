//! The code of spills: a value that got no register is in memory, or is made again, around each of its uses.

use hashbrown::HashMap;

use super::{Bits, Function, Instruction, Part, Shape, Value};

/// Where spilled lanes are, and how they get there.
pub trait Memory<I> {
    /// Reads lanes of a value from its memory.
    fn load(&mut self, to: Part, shape: Shape, slot: u32) -> Vec<I>;

    /// Writes lanes of a value to its memory.
    fn store(&mut self, from: Part, shape: Shape, slot: u32) -> Vec<I>;

    /// An instruction that may be run again instead: it reads nothing that changes.
    fn again(&self, inst: &I) -> bool;
}

/// What is known of a spilled value.
enum Home<I> {
    /// Its memory, by slots of one lane.
    Slot(u32),
    /// The only instruction that writes it.
    Again(I),
}

/// Rewrites a function so that values are in memory. Gives the number of slots that are used then; `fixed` gets the
/// new values, which live as long as one instruction.
pub fn spill<I: Instruction>(
    f: &mut Function<I>,
    victims: &[Value],
    memory: &mut impl Memory<I>,
    slots: u32,
    fixed: &mut Vec<Value>,
) -> u32 {
    let mut slots = slots;
    let homes: HashMap<Value, Home<I>> = victims
        .iter()
        .map(|&v| {
            let home = match only_write(f, v).filter(|i| memory.again(i)) {
                Some(inst) => Home::Again(inst),
                None => {
                    slots += u32::from(f.shape(v).lanes);
                    Home::Slot(slots - u32::from(f.shape(v).lanes))
                }
            };
            (v, home)
        })
        .collect();
    for at in 0..f.blocks.len() {
        let insts = std::mem::take(&mut f.blocks[at].insts);
        let mut out = Vec::with_capacity(insts.len());
        for mut inst in insts {
            let Some((before, after)) = around(f, &mut inst, &homes, memory, fixed) else {
                continue;
            };
            out.extend(before);
            out.push(inst);
            out.extend(after);
        }
        f.blocks[at].insts = out;
    }
    slots
}

/// The instruction that writes all of a value, if there is no other.
fn only_write<I: Instruction>(f: &Function<I>, value: Value) -> Option<I> {
    let lanes = f.shape(value).lanes;
    let mut found = None;
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        let mut written = Bits::new(64);
        let mut count = 0u8;
        inst.accesses(&mut |a| {
            if a.writes && a.part.value == value {
                for part in a.part.each() {
                    count += u8::from(written.add(usize::from(part.lane)));
                }
            }
        });
        if count == 0 {
            continue;
        }
        if found.is_some() || count != lanes {
            return None;
        }
        found = Some(inst.clone());
    }
    found
}

/// Loads before an instruction and stores after it; nothing if it only made a value that is made again elsewhere.
fn around<I: Instruction>(
    f: &mut Function<I>,
    inst: &mut I,
    homes: &HashMap<Value, Home<I>>,
    memory: &mut impl Memory<I>,
    fixed: &mut Vec<Value>,
) -> Option<(Vec<I>, Vec<I>)> {
    let mut touched = false;
    let mut remade = false;
    inst.accesses(&mut |a| {
        if let Some(home) = homes.get(&a.part.value) {
            touched = true;
            remade |= a.writes && matches!(home, Home::Again(_));
        }
    });
    if remade {
        return None;
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    if !touched {
        return Some((before, after));
    }
    let mut loaded: HashMap<Part, Value> = HashMap::new();
    inst.rename(&mut |part, writes| {
        let Some(home) = homes.get(&part.value) else {
            return part;
        };
        let shape = f.shapes[part.value.0 as usize];
        let mut new = |lanes: u8| {
            f.shapes.push(Shape { lanes, ..shape });
            let value = Value(f.shapes.len() as u32 - 1);
            fixed.push(value);
            value
        };
        let own = |value: Value| Part {
            value,
            lane: 0,
            lanes: part.lanes,
        };
        match home {
            Home::Again(made) => {
                let value = *loaded.entry(part).or_insert_with(|| {
                    let value = new(shape.lanes);
                    let mut made = made.clone();
                    made.rename(&mut |p, w| match w {
                        true => Part { value, ..p },
                        false => p,
                    });
                    before.push(made);
                    value
                });
                Part { value, ..part }
            }
            Home::Slot(slot) => {
                let slot = slot + u32::from(part.lane);
                if writes {
                    let value = new(part.lanes);
                    after.extend(memory.store(own(value), shape, slot));
                    return own(value);
                }
                let value = *loaded.entry(part).or_insert_with(|| {
                    let value = new(part.lanes);
                    before.extend(memory.load(own(value), shape, slot));
                    value
                });
                own(value)
            }
        }
    });
    Some((before, after))
}
