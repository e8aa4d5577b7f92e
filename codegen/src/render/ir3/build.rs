//! Makes instructions of lists of operands, lane by lane; those of neighbours are one that repeats where they can be.

use super::Select;
use super::operand::{At, Known, List, Opnd};
use crate::ir3::virt::{Code, Dst, FULL, HALF, Name, Src};
use crate::ir3::{Cond, Flags, Mods, Op, Round, Type};
use crate::machine::{Class, Part};

/// A comparison.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub op: Op,
    pub cond: Cond,
    pub srcs: [Opnd; 2],
    pub class: Class,
}

/// An instruction but for its operands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    pub op: Op,
    pub mods: Mods,
    pub flags: Flags,
    /// Class of the sources.
    pub from: Class,
    /// Class of the result.
    pub to: Class,
}

impl Template {
    /// An operation on full registers.
    pub fn full(op: Op) -> Template {
        Template::of(op, FULL)
    }

    /// An operation on registers of a class.
    pub fn of(op: Op, class: Class) -> Template {
        Template {
            op,
            mods: Mods::default(),
            flags: Flags::NONE,
            from: class,
            to: class,
        }
    }

    /// A conversion.
    pub fn convert(from: Type, to: Type, round: Round) -> Template {
        let class = |t: Type| if t.is_half() { HALF } else { FULL };
        let mods = Mods {
            ty: Some(to),
            src_ty: Some(from),
            round,
            ..Mods::default()
        };
        Template {
            mods,
            from: class(from),
            to: class(to),
            ..Template::full(Op::Mov)
        }
    }
}

impl Select<'_> {
    pub(super) fn emit(&mut self, code: Code) {
        let at = self.at;
        self.f.blocks[at].insts.push(code);
    }

    /// New lanes, in values of up to four.
    pub(super) fn lanes_of(&mut self, class: Class, count: usize) -> Vec<Part> {
        let mut parts = Vec::with_capacity(count);
        while parts.len() < count {
            let lanes = (count - parts.len()).min(4) as u8;
            let value = self.f.value(class, lanes);
            parts.extend((0..lanes).map(|lane| Part::of(value, lane)));
        }
        parts
    }

    pub(super) fn lane(&mut self, class: Class) -> Part {
        Part::of(self.f.value(class, 1), 0)
    }

    /// Does the same to each lane of lists of one length.
    pub(super) fn make(&mut self, template: Template, lists: &[&List]) -> List {
        let count = lists.first().map_or(0, |l| l.len());
        let to = self.lanes_of(template.to, count);
        self.make_to(template, &to, lists);
        to.into_iter().map(Opnd::part).collect()
    }

    /// The same, to lanes that are there.
    pub(super) fn make_to(&mut self, template: Template, to: &[Part], lists: &[&List]) {
        let mut at = 0;
        while at < to.len() {
            let same = to[at..]
                .iter()
                .take_while(|p| p.value == to[at].value)
                .count();
            let run = same.min(4);
            let lanes: Vec<Vec<Opnd>> = (at..at + run)
                .map(|n| lists.iter().map(|l| l[n]).collect())
                .collect();
            self.chunk(&template, &to[at..at + run], &lanes);
            at += run;
        }
    }

    /// One instruction for neighbouring lanes, or one for each.
    fn chunk(&mut self, template: &Template, to: &[Part], lanes: &[Vec<Opnd>]) {
        let repeats = to.len() > 1 && template.op != Op::Rcp && template.op.category() <= 4;
        let mut known = Known::new();
        let srcs: Vec<Vec<Src>> = lanes
            .iter()
            .map(|l| self.sources((template.op, template.from), l, &mut known))
            .collect();
        if repeats && let Some(srcs) = repeated(&srcs) {
            let part = Part {
                lanes: to.len() as u8,
                ..to[0]
            };
            let code = self.code(template, part, srcs).repeated(to.len() as u8 - 1);
            self.emit(code);
            return;
        }
        for (&part, srcs) in to.iter().zip(srcs) {
            let code = self.code(template, part, srcs);
            self.emit(code);
        }
    }

    fn code(&self, template: &Template, to: Part, srcs: Vec<Src>) -> Code {
        let mut code = Code::new(template.op, Dst::Part(to), srcs);
        code.mods = template.mods;
        code.flags = template.flags;
        code
    }

    /// A comparison of lanes: booleans in full registers.
    pub(super) fn compare(&mut self, op: Op, cond: Cond, class: Class, a: &List, b: &List) -> List {
        let mut template = Template::of(op, class);
        template.mods.cond = Some(cond);
        template.to = FULL;
        let list = self.make(template, &[a, b]);
        for (n, to) in list.iter().enumerate() {
            if let At::Part(part) = to.at {
                let srcs = [a[n], b[n]];
                self.compares.insert(
                    part,
                    Compared {
                        op,
                        cond,
                        srcs,
                        class,
                    },
                );
            }
        }
        list
    }

    /// Sets a component of p0 to a boolean.
    pub(super) fn predicate(&mut self, component: u8, truth: Opnd) {
        let found = match truth.at {
            At::Part(part) => self.compares.get(&part).cloned(),
            _ => None,
        };
        let Compared {
            op,
            cond,
            srcs,
            class,
        } = found.unwrap_or(Compared {
            op: Op::CmpsU,
            cond: Cond::Ne,
            srcs: [truth, Opnd::bits(0)],
            class: FULL,
        });
        let template = Template::of(op, class);
        self.set_predicate(component, &template, cond, srcs);
    }

    /// Sets a component of p0 by a comparison of full registers.
    pub(super) fn compare_to(&mut self, component: u8, op: Op, cond: Cond, srcs: [Opnd; 2]) {
        self.set_predicate(component, &Template::full(op), cond, srcs);
    }

    fn set_predicate(&mut self, component: u8, template: &Template, cond: Cond, srcs: [Opnd; 2]) {
        let srcs = self.sources((template.op, template.from), &srcs, &mut Known::new());
        let dst = Dst::Predicate(component);
        self.emit(Code::compare(template.op, cond, dst, srcs));
    }
}

/// Sources of lanes as those of an instruction that repeats: each is the same for all, or advances.
fn repeated(lanes: &[Vec<Src>]) -> Option<Vec<Src>> {
    let first = lanes.first()?;
    let mut out = Vec::with_capacity(first.len());
    for (at, &src) in first.iter().enumerate() {
        if lanes.iter().all(|l| l[at] == src) {
            out.push(src);
            continue;
        }
        let follows = |n: usize| {
            let name = match src.name {
                Name::Part(part) => Name::Part(Part {
                    lane: part.lane + n as u8,
                    ..part
                }),
                Name::Const(c) => Name::Const(c + n as u16),
                _ => return false,
            };
            lanes[n][at] == Src { name, ..src }
        };
        if !(1..lanes.len()).all(follows) {
            return None;
        }
        let name = match src.name {
            Name::Part(part) => Name::Part(Part {
                lanes: lanes.len() as u8,
                ..part
            }),
            name => name,
        };
        out.push(Src {
            name,
            advances: true,
            ..src
        });
    }
    Some(out)
}
