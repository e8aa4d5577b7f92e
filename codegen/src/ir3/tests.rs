//! The backend as a whole: random programs compute in registers what they compute in values, and the passes one by one.

use hashbrown::HashMap;

use super::backend::{Chip, Launch, compile};
use super::inst::Inst;
use super::modifier::{Cond, Flags, Type};
use super::object::Object;
use super::operand::{Operand, Value as Place};
use super::sync::{Straight, synchronise};
use super::virt::{Code, Dst, FULL, Function, HALF, Name, Src};
use super::{Op, check, pack, units};
use crate::machine::{Block, Class, Instruction, Part, Value};

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

const CHIP: Chip = Chip {
    vectors: 96,
    waves: 16,
    granularity: 2,
    wave: 64,
    double: true,
};

fn launch() -> Launch {
    Launch {
        items: 64,
        args: 1,
        file: CHIP,
        ..Launch::default()
    }
}

fn two(op: Op, a: u32, b: u32, half: bool) -> u32 {
    let value = match op {
        Op::AddU => a.wrapping_add(b),
        Op::SubU => a.wrapping_sub(b),
        Op::XorB => a ^ b,
        Op::MullU => (a & 0xffff) * (b & 0xffff),
        _ => panic!("{op:?}"),
    };
    if half { value & 0xffff } else { value }
}

/// What a program stores, by its values.
fn values(f: &Function) -> Vec<u32> {
    let mut there: HashMap<(Value, u8), u32> = HashMap::new();
    let (mut out, mut predicate) = (Vec::new(), false);
    let (mut block, mut left) = (0, 100_000);
    'blocks: loop {
        let mut next = f.blocks[block].next.first().copied();
        for code in &f.blocks[block].insts {
            left -= 1;
            assert!(left > 0);
            let read = |src: &Src, n: u8, there: &HashMap<(Value, u8), u32>| match src.name {
                Name::Part(p) => there[&(p.value, p.lane + n * u8::from(src.advances))],
                Name::Imm(n) => n as u32,
                _ => panic!("{src:?}"),
            };
            match code.op {
                Op::End => break 'blocks,
                Op::Br if predicate => next = code.target,
                Op::Br => {}
                Op::CmpsU => {
                    predicate = read(&code.srcs[0], 0, &there) < read(&code.srcs[1], 0, &there)
                }
                Op::Stg => {
                    let Name::Part(p) = code.srcs[1].name else {
                        panic!()
                    };
                    out.extend(p.each().map(|p| there[&(p.value, p.lane)]));
                }
                _ => {
                    let Dst::Part(to) = code.dst else { panic!() };
                    let half = f.shape(to.value).class == HALF;
                    for n in 0..=code.repeat {
                        let a = read(&code.srcs[0], n, &there);
                        let value = match code.op {
                            Op::Mov => a,
                            op => two(op, a, read(&code.srcs[1], n, &there), half),
                        };
                        there.insert((to.value, to.lane + n), value);
                    }
                }
            }
        }
        block = next.unwrap();
    }
    out
}

/// What its machine code stores, by registers.
fn registers(object: &Object) -> Vec<u32> {
    let used = object.statistics.instructions as usize;
    let insts: Vec<Inst> = object.code[..used]
        .iter()
        .map(|&w| super::decode(w).unwrap())
        .collect();
    let mut units = vec![0xdeadu16; units::GENERAL];
    let mut private = vec![0u32; 4096];
    let (mut out, mut predicate, mut at, mut left) = (Vec::new(), false, 0usize, 100_000);
    let get = |units: &[u16], reg: usize, half: bool| match half {
        true => u32::from(units[reg]),
        false => u32::from(units[2 * reg]) | u32::from(units[2 * reg + 1]) << 16,
    };
    loop {
        left -= 1;
        assert!(left > 0);
        let inst = &insts[at];
        let mut next = at + 1;
        let half_data = inst.mods.ty.is_some_and(Type::is_half);
        let register = |o: &Operand| match o.value {
            Place::Reg(reg) => usize::from(reg.0),
            _ => panic!("{inst}"),
        };
        let set = |units: &mut [u16], reg: usize, half: bool, value: u32| {
            if half {
                units[reg] = value as u16;
            } else {
                units[2 * reg] = value as u16;
                units[2 * reg + 1] = (value >> 16) as u16;
            }
        };
        let read = |units: &[u16], o: &Operand, n: u8| match o.value {
            Place::Reg(reg) => {
                let more = usize::from(n) * usize::from(o.advances);
                get(units, usize::from(reg.0) + more, o.half)
            }
            Place::Imm(n) => n as u32,
            Place::Const(_) => 0,
            _ => panic!("{inst}"),
        };
        match inst.op {
            Op::End => return out,
            Op::Nop => {}
            Op::Br => {
                let Place::Imm(by) = inst.srcs[1].value else {
                    panic!()
                };
                if predicate {
                    next = (at as i32 + by) as usize;
                }
            }
            Op::CmpsU => {
                predicate = read(&units, &inst.srcs[0], 0) < read(&units, &inst.srcs[1], 0);
            }
            Op::Stg => {
                let first = register(&inst.srcs[1]);
                let data =
                    (0..usize::from(inst.mods.count)).map(|n| get(&units, first + n, half_data));
                out.extend(data);
            }
            Op::Stp => {
                let base = read(&units, &inst.srcs[0], 0) as i32 + inst.mods.offset;
                private[base as usize] = get(&units, register(&inst.srcs[1]), half_data);
            }
            Op::Ldp => {
                let base = read(&units, &inst.srcs[0], 0) as i32 + inst.mods.offset;
                set(
                    &mut units,
                    register(&inst.dsts[0]),
                    half_data,
                    private[base as usize],
                );
            }
            op => {
                for n in 0..=inst.repeat {
                    let a = read(&units, &inst.srcs[0], n);
                    let half = inst.dsts[0].half;
                    let value = match op {
                        Op::Mov => a,
                        op => two(op, a, read(&units, &inst.srcs[1], n), half),
                    };
                    set(
                        &mut units,
                        register(&inst.dsts[0]) + usize::from(n),
                        half,
                        value,
                    );
                }
            }
        }
        at = next;
    }
}

fn whole(value: Value, lanes: u8) -> Part {
    Part {
        value,
        lane: 0,
        lanes,
    }
}

fn imm(class: Class, to: Part, n: i32) -> Code {
    let ty = if class == HALF { Type::U16 } else { Type::U32 };
    Code::mov(ty, ty, to, Src::imm(n))
}

/// A program of vectors, sums and copies, with a loop in it.
fn program(random: &mut Random, values: usize, steps: usize) -> Function {
    let mut f = Function::new();
    f.blocks = vec![Block::new(0), Block::new(1), Block::new(0)];
    f.blocks[0].next = vec![1];
    f.blocks[1].next = vec![2, 1];
    let mut there: Vec<(Value, Class, u8)> = Vec::new();
    for n in 0..values {
        let class = if random.below(3) == 0 { HALF } else { FULL };
        let lanes = 1 + random.below(4) as u8;
        let value = f.value(class, lanes);
        for part in whole(value, lanes).each() {
            f.blocks[0]
                .insts
                .push(imm(class, part, (n * 37 + usize::from(part.lane)) as i32));
        }
        there.push((value, class, lanes));
    }
    let count = f.value(FULL, 1);
    f.blocks[0].insts.push(imm(FULL, whole(count, 1), 0));
    for block in 0..3 {
        for _ in 0..steps {
            step(random, &mut f, &mut there, block);
        }
    }
    // What was made inside of the loop is only sure to be there behind it.
    let counter = Src::part(whole(count, 1));
    let compare = Code::compare(
        Op::CmpsU,
        Cond::Lt,
        Dst::Predicate(0),
        vec![counter, Src::imm(3)],
    );
    f.blocks[1].insts.push(compare);
    let more = Code::new(
        Op::AddU,
        Dst::Part(whole(count, 1)),
        vec![counter, Src::imm(1)],
    );
    f.blocks[1].insts.push(more);
    let mut back = Code::new(Op::Br, Dst::None, vec![Src::new(Name::Predicate(0))]);
    back.target = Some(1);
    f.blocks[1].insts.push(back);
    let address = f.value(FULL, 2);
    for part in whole(address, 2).each() {
        f.blocks[0].insts.push(imm(FULL, part, 0));
    }
    for &(value, class, lanes) in &there[..values] {
        let srcs = vec![Src::part(whole(address, 2)), Src::part(whole(value, lanes))];
        let mut store = Code::new(Op::Stg, Dst::None, srcs);
        store.mods.ty = Some(if class == HALF { Type::U16 } else { Type::U32 });
        store.mods.count = lanes.into();
        f.blocks[2].insts.push(store);
    }
    f.blocks[2]
        .insts
        .push(Code::new(Op::End, Dst::None, Vec::new()));
    f
}

/// Adds an instruction on values of one class: to a new value, or to one that is there.
fn step(random: &mut Random, f: &mut Function, there: &mut Vec<(Value, Class, u8)>, block: usize) {
    let (a, class, lanes) = there[random.below(there.len())];
    let same: Vec<(Value, u8)> = there
        .iter()
        .filter(|v| v.1 == class)
        .map(|v| (v.0, v.2))
        .collect();
    let (b, others) = same[random.below(same.len())];
    let to = match random.below(2) {
        0 => a,
        _ => f.value(class, lanes),
    };
    let advances = others >= lanes && random.below(2) == 0 && b != to;
    let second = if advances {
        whole(b, lanes)
    } else {
        Part::of(b, random.below(others.into()) as u8)
    };
    // What does not advance may not be written before it was read for the last time.
    let packs = lanes > 1 && (advances || b != to);
    let op = [Op::AddU, Op::XorB, Op::SubU, Op::MullU, Op::Mov][random.below(5)];
    let ty = if class == HALF { Type::U16 } else { Type::U32 };
    let mods = |code: &mut Code| {
        if op == Op::Mov {
            (code.mods.ty, code.mods.src_ty) = (Some(ty), Some(ty));
        }
    };
    if packs {
        let first = Src {
            advances: true,
            ..Src::part(whole(a, lanes))
        };
        let second = Src {
            advances,
            ..Src::part(second)
        };
        let srcs = if op == Op::Mov {
            vec![first]
        } else {
            vec![first, second]
        };
        let mut code = Code::new(op, Dst::Part(whole(to, lanes)), srcs).repeated(lanes - 1);
        mods(&mut code);
        f.blocks[block].insts.push(code);
    } else {
        for part in whole(a, lanes).each() {
            let first = Src::part(part);
            let second = Src::part(Part { lanes: 1, ..second });
            let srcs = if op == Op::Mov {
                vec![first]
            } else {
                vec![first, second]
            };
            let mut code = Code::new(op, Dst::Part(Part { value: to, ..part }), srcs);
            mods(&mut code);
            f.blocks[block].insts.push(code);
        }
    }
    if to != a {
        there.push((to, class, lanes));
    }
}

#[test]
fn programs_compute_the_same_in_registers() {
    let mut random = Random(0x5eed_0fad_0bee_1234);
    let mut spilled = 0;
    for round in 0..120 {
        let many = 3 + 8 * (round % 12);
        let f = program(&mut random, many, 4 + round % 20);
        let want = values(&f);
        let object = compile(f, &launch()).unwrap_or_else(|e| panic!("{round}: {e}"));
        assert_eq!(
            registers(&object),
            want,
            "{round}\n{}",
            object.disassemble()
        );
        spilled += object.statistics.spilled;
    }
    assert!(spilled > 0, "no program was large enough to spill");
}

#[test]
fn groups_that_need_many_waves_get_few_registers() {
    let mut random = Random(77);
    let f = program(&mut random, 60, 10);
    let many = Launch {
        items: 1024,
        ..launch()
    };
    let want = values(&f);
    let object = compile(f, &many).unwrap();
    let wave = if object.double { 128 } else { 64 };
    assert!(object.waves * wave >= 1024, "{} waves", object.waves);
    assert_eq!(registers(&object), want);
}

#[test]
fn what_is_read_and_not_written_is_an_error() {
    let mut f = Function::new();
    f.blocks.push(Block::new(0));
    let value = f.value(FULL, 1);
    let part = whole(value, 1);
    f.blocks[0].insts.push(Code::new(
        Op::AddU,
        Dst::Part(part),
        vec![Src::part(part), Src::imm(1)],
    ));
    assert!(
        compile(f, &launch())
            .unwrap_err()
            .to_string()
            .contains("value 0")
    );
}

fn text(lines: &[&str]) -> Vec<Inst> {
    lines.iter().map(|l| l.parse().unwrap()).collect()
}

fn synchronised(lines: &[&str]) -> Vec<String> {
    let mut blocks = [Straight {
        insts: text(lines),
        next: Vec::new(),
        joins: false,
    }];
    synchronise(&mut blocks);
    blocks[0].insts.iter().map(ToString::to_string).collect()
}

#[test]
fn waits_and_delays_are_those_that_are_needed() {
    // Arithmetic to arithmetic: three slots, in the instruction before.
    let out = synchronised(&["add.u r0.x, r1.x, r1.y", "add.u r0.y, r0.x, r1.x", "end"]);
    assert_eq!(out[0], "(nop3) add.u r0.x, r1.x, r1.y");
    // The third source of a product is read two later.
    let out = synchronised(&[
        "add.f r0.x, r1.x, r1.y",
        "mad.f32 r0.y, r1.x, r1.y, r0.x",
        "end",
    ]);
    assert_eq!(out[0], "(nop1) add.f r0.x, r1.x, r1.y");
    // To other units: six, three of them in a nop.
    let out = synchronised(&[
        "add.f r0.x, r1.x, r1.y",
        "rcp r0.y, r0.x",
        "add.f r0.z, r0.y, r1.x",
        "end",
    ]);
    assert_eq!(out[1], "(rpt2)nop");
    assert!(out[3].starts_with("(ss)"), "{out:?}");
    // A load: (sy), and then nothing more to wait for, not even for its address.
    let out = synchronised(&[
        "ldg.u32 r2.x, g[r0.x], 1",
        "add.u r3.x, r2.x, r2.x",
        "add.u r0.x, r1.x, r1.x",
        "end",
    ]);
    assert!(
        out[1].starts_with("(sy)") && !out[2].contains("(ss)"),
        "{out:?}"
    );
    // A store reads late: its data is overwritten behind (ss).
    let out = synchronised(&["stg.u32 g[r0.x], r2.x, 1", "add.u r2.x, r1.x, r1.x", "end"]);
    assert!(out[1].starts_with("(ss)"), "{out:?}");
    // Category 6 has no (ss): a nop carries it.
    let out = synchronised(&["rcp r2.x, r1.x", "stg.u32 g[r0.x], r2.x, 1", "end"]);
    assert_eq!(out[1], "(ss)nop");
}

#[test]
fn waits_are_seen_across_loops() {
    let mut blocks = [
        Straight {
            insts: text(&[
                "mov.u32u32 r2.x, 0",
                "mov.u32u32 r0.x, 0",
                "mov.u32u32 r0.y, 0",
            ]),
            next: vec![1],
            joins: false,
        },
        Straight {
            insts: text(&["add.u r3.x, r2.x, r2.x", "ldg.u32 r2.x, g[r0.x], 1"]),
            next: vec![1],
            joins: true,
        },
    ];
    synchronise(&mut blocks);
    // One slot is missing before the first instruction of the loop.
    let [nop, first, ..] = blocks[1].insts.as_slice() else {
        panic!()
    };
    assert!(nop.op == Op::Nop && nop.flags.has(Flags::JP) && first.flags.has(Flags::SY));
}

#[test]
fn neighbours_are_packed() {
    let packed = |lines: &[&str]| -> Vec<String> {
        pack::pack(text(lines))
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        packed(&[
            "add.f r0.x, r1.x, c0.x",
            "add.f r0.y, r1.y, c0.x",
            "add.f r0.z, r1.z, c0.x"
        ]),
        ["(rpt2)add.f r0.x, (r)r1.x, c0.x"]
    );
    // The second one reads what the first one writes.
    assert_eq!(
        packed(&["add.f r0.x, r1.x, r2.x", "add.f r0.y, r0.x, r2.x"]).len(),
        2
    );
    assert_eq!(packed(&["rcp r0.x, r1.x", "rcp r0.y, r1.y"]).len(), 2);
    // A source that stays in one and advances in another.
    assert_eq!(
        packed(&[
            "mad.f32 r0.x, r4.x, r5.x, r0.x",
            "mad.f32 r0.y, r4.x, r5.y, r0.y"
        ]),
        ["(rpt1)mad.f32 r0.x, r4.x, (r)r5.x, (r)r0.x"]
    );
}

#[test]
fn hazards_are_told() {
    let rule = |lines: &[&str]| check::check(&text(lines), &[0, 1, 2, 3]).unwrap_err().rule;
    use check::Rule;
    assert_eq!(rule(&["add.u r1.x, r2.x, r0.x", "end"]), Rule::Undefined);
    assert_eq!(
        rule(&["add.u r1.x, r0.x, r0.y", "add.u r1.y, r1.x, r0.x", "end"]),
        Rule::Delay
    );
    assert_eq!(
        rule(&["rcp r1.x, r0.x", "add.u r1.y, r1.x, r0.x", "end"]),
        Rule::ShortResult
    );
    assert_eq!(
        rule(&["ldg.u32 r1.x, g[r0.x], 1", "add.u r1.y, r1.x, r0.x", "end"]),
        Rule::LongResult
    );
    assert_eq!(
        rule(&["stg.u32 g[r0.x], r0.x, 1", "mov.u32u32 r0.x, 0", "end"]),
        Rule::LateRead
    );
    assert_eq!(rule(&["bar.g", "mov.u32u32 r0.x, 0", "end"]), Rule::Barrier);
    let load = "ldl.u32 r1.x, l[r0.x], 1";
    assert_eq!(rule(&["bar.g", "(ss)nop", load, "end"]), Rule::Barrier);
    let waits = format!("(sy){load}");
    assert_eq!(rule(&["bar.g", "nop", &waits, "end"]), Rule::Barrier);
    let right = text(&["bar.g", "nop", "(ss)nop", &waits, "end"]);
    assert_eq!(check::check(&right, &[0, 1]), Ok(()));
    assert_eq!(rule(&["br p0.x, #1", "end"]), Rule::PredicateUndefined);
    assert_eq!(
        rule(&["cmps.s.eq p0.x, r0.x, 0", "br p0.x, #1", "end"]),
        Rule::PredicateDelay
    );
    assert_eq!(rule(&["mov.u32u32 r0.x, 0"]), Rule::Range);
    assert_eq!(rule(&["jump #5", "end"]), Rule::Range);
    // Written on one of two ways only.
    assert_eq!(
        rule(&[
            "cmps.s.eq p0.x, r0.x, 0",
            "(rpt5)nop",
            "br p0.x, #2",
            "mov.u32u32 r1.x, 0",
            "(rpt5)nop",
            "add.u r1.y, r1.x, r0.x",
            "end",
        ]),
        Rule::Undefined
    );
}

#[test]
fn repeated_instructions_are_read_in_steps() {
    let mut f = Function::new();
    let value = f.value(FULL, 4);
    let src = Src {
        advances: true,
        ..Src::part(whole(value, 4))
    };
    let code = Code::new(Op::AddU, Dst::Part(whole(value, 4)), vec![src, Src::imm(1)]).repeated(3);
    let mut seen = Vec::new();
    code.accesses(&mut |a| seen.push((a.part.lane, a.step, a.writes)));
    assert_eq!(seen.len(), 8);
    assert!(seen.iter().all(|&(lane, step, _)| lane == step));
    assert_eq!(code.steps(), 4);
}
