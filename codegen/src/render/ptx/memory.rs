//! Loads and stores.

use super::{Text, class};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::StoreMode;
use crate::lower::{Access, Inst, Mem, Reg, Ty};
use crate::render::factors::{splat, together};

/// An address in registers, and how far beyond it an access is.
pub(super) struct Address {
    pub space: &'static str,
    pub base: String,
}

/// The type of an access to one element.
fn access(dtype: DType) -> &'static str {
    match dtype {
        DType::I8 => "s8",
        DType::I16 => "s16",
        DType::Bool | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => "u8",
        DType::U16 => "u16",
        DType::F16 | DType::BF16 => "b16",
        DType::I32 | DType::U32 | DType::F32 => "b32",
        DType::I64 | DType::U64 | DType::F64 => "b64",
    }
}

impl Text<'_> {
    /// Where the element of an index is.
    pub(super) fn address(&mut self, mem: Mem, dtype: DType, index: Reg) -> Address {
        let size = dtype.size();
        let ty = self.p.ty(index).dtype;
        let index = self.r(index);
        match mem {
            Mem::Arg(i) => {
                let text = match ty {
                    DType::I64 | DType::U64 => format!("mad.lo.s64 {{}}, {index}, {size}, %arg{i}"),
                    DType::I32 => format!("mad.wide.s32 {{}}, {index}, {size}, %arg{i}"),
                    _ => format!("mad.wide.u32 {{}}, {index}, {size}, %arg{i}"),
                };
                Address {
                    space: "global",
                    base: self.let_("b64", &text),
                }
            }
            Mem::Local(i) => {
                let index = match ty.size() {
                    8 => self.let_("b32", &format!("cvt.u32.u64 {{}}, {index}")),
                    _ => index,
                };
                let text = format!("mad.lo.u32 {{}}, {index}, {size}, %local{i}");
                Address {
                    space: "shared",
                    base: self.let_("b32", &text),
                }
            }
        }
    }

    /// One element, `further` elements behind the index.
    pub(super) fn load(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        further: i64,
        gate: Option<(Reg, Reg)>,
    ) {
        let dtype = self.p.ty(dst).dtype;
        let at = self.address(mem, dtype, index);
        let gate = gate.map(|(gate, alt)| (self.r(gate), self.r(alt)));
        let name = self.define(dst);
        self.read(&name, dtype, &at, further, gate);
    }

    fn read(
        &mut self,
        name: &str,
        dtype: DType,
        at: &Address,
        further: i64,
        gate: Option<(String, String)>,
    ) {
        let Address { space, base } = at;
        let bytes = further * dtype.size() as i64;
        let ty = access(dtype);
        let truth = dtype == DType::Bool;
        let to = match truth {
            true => self.temporary("b32"),
            false => name.to_string(),
        };
        match &gate {
            None => self.line(format!("ld.{space}.{ty} {to}, [{base}+{bytes}]")),
            Some((gate, alt)) => {
                match truth {
                    true => self.line(format!("selp.b32 {to}, 1, 0, {alt}")),
                    false => self.line(format!("mov.{} {to}, {alt}", class(dtype))),
                }
                self.line(format!("@{gate} ld.{space}.{ty} {to}, [{base}+{bytes}]"));
            }
        }
        if truth {
            self.line(format!("setp.ne.u32 {name}, {to}, 0"));
        }
    }

    /// How far behind the index the lane is that is spelled.
    fn further(&self, access: Access) -> i64 {
        let lane = i64::from(self.lane);
        match access {
            Access::Contiguous => lane,
            Access::Strided(by) => by.wrapping_mul(lane),
            Access::Gather => 0,
        }
    }

    /// A load of several lanes.
    pub(super) fn load_lanes(&mut self, inst: &Inst) -> Result<()> {
        let Inst::Load {
            dst,
            mem,
            index,
            access,
            gate,
        } = *inst
        else {
            return Ok(());
        };
        let Ty { dtype, lanes } = self.p.ty(dst);
        let common = gate.map(|(gate, alt)| (splat(self.p, gate), alt));
        let gathers = access == Access::Gather && self.p.ty(index).lanes > 1;
        if gathers || matches!(common, Some((None, _))) {
            for lane in 0..lanes {
                self.lane = lane;
                self.load(dst, mem, index, self.further(access), gate);
            }
            self.lane = 0;
            return Ok(());
        }
        let at = self.address(mem, dtype, index);
        let mut names = Vec::new();
        let mut gates = Vec::new();
        for lane in 0..lanes {
            self.lane = lane;
            names.push(self.define(dst));
            gates.push(match common {
                Some((Some(gate), alt)) => Some((self.lane_of(gate, 0), self.r(alt))),
                _ => None,
            });
        }
        let k = match access {
            Access::Contiguous => together(&self.factors, Ty { dtype, lanes }, index),
            _ => 1,
        };
        let words = k as usize * dtype.size() / 4;
        for lane in (0..lanes).step_by(k.max(1) as usize) {
            self.lane = lane;
            let range = lane as usize..(lane + k) as usize;
            if k == 1 || words == 0 {
                for i in range {
                    self.lane = i as u32;
                    let further = self.further(access);
                    self.read(&names[i], dtype, &at, further, gates[i].clone());
                }
                continue;
            }
            // What is not read is the alternative, which goes the way of what is.
            let gate = gates[range.start].as_ref().map(|(gate, _)| gate.clone());
            let parts = match &gate {
                None => self.parts(dtype, k),
                Some(_) => {
                    let alts: Vec<String> = gates[range.clone()]
                        .iter()
                        .flatten()
                        .map(|(_, alt)| alt.clone())
                        .collect();
                    self.together(dtype, &alts)
                        .into_iter()
                        .map(|alt| {
                            let class = part(dtype);
                            self.let_(class, &format!("mov.{class} {{}}, {alt}"))
                        })
                        .collect()
                }
            };
            let Address { space, base } = &at;
            let guard = gate.map_or(String::new(), |gate| format!("@{gate} "));
            let bytes = i64::from(lane) * dtype.size() as i64;
            self.line(format!(
                "{guard}ld.{space}{} {}, [{base}+{bytes}]",
                vector(dtype, parts.len()),
                list(&parts)
            ));
            self.apart(dtype, &parts, &names[range]);
        }
        self.lane = 0;
        Ok(())
    }

    /// New registers for so many elements that are read together.
    fn parts(&mut self, dtype: DType, elements: u32) -> Vec<String> {
        let class = part(dtype);
        let count = elements as usize * dtype.size() / if dtype.size() == 8 { 8 } else { 4 };
        (0..count).map(|_| self.temporary(class)).collect()
    }

    /// Elements as what is written together: dwords, or quadwords.
    fn together(&mut self, dtype: DType, names: &[String]) -> Vec<String> {
        match dtype.size() {
            8 | 4 => names.to_vec(),
            size => names
                .chunks(4 / size)
                .map(|part| self.packed(dtype, part))
                .collect(),
        }
    }

    /// Elements of a dword, as that.
    pub(super) fn packed(&mut self, dtype: DType, names: &[String]) -> String {
        match (class(dtype), names) {
            ("b16", [low, high]) => self.let_("b32", &format!("mov.b32 {{}}, {{{low}, {high}}}")),
            ("pred", names) => {
                let bytes: Vec<String> = names
                    .iter()
                    .map(|truth| self.let_("b32", &format!("selp.b32 {{}}, 1, 0, {truth}")))
                    .collect();
                self.packed(DType::U8, &bytes)
            }
            (_, [low, high]) => self.let_("b32", &format!("prmt.b32 {{}}, {low}, {high}, 0x5410")),
            (_, [a, b, c, d]) => {
                let low = self.let_("b32", &format!("prmt.b32 {{}}, {a}, {b}, 0x0040"));
                let high = self.let_("b32", &format!("prmt.b32 {{}}, {c}, {d}, 0x0040"));
                self.let_("b32", &format!("prmt.b32 {{}}, {low}, {high}, 0x5410"))
            }
            (_, names) => names.join(", "),
        }
    }

    /// What was read together, as elements.
    fn apart(&mut self, dtype: DType, parts: &[String], names: &[String]) {
        let each = names.len() / parts.len();
        for (part, names) in parts.iter().zip(names.chunks(each)) {
            match (class(dtype), names) {
                (class, [name]) => self.line(format!("mov.{class} {name}, {part}")),
                ("b16", [low, high]) => self.line(format!("mov.b32 {{{low}, {high}}}, {part}")),
                (class, names) => {
                    let bits = dtype.bits();
                    let ty = if dtype.is_signed() { "s32" } else { "u32" };
                    for (i, name) in names.iter().enumerate() {
                        let from = i as u32 * bits;
                        if class == "pred" {
                            let byte =
                                self.let_("b32", &format!("bfe.u32 {{}}, {part}, {from}, {bits}"));
                            self.line(format!("setp.ne.u32 {name}, {byte}, 0"));
                        } else {
                            self.line(format!("bfe.{ty} {name}, {part}, {from}, {bits}"));
                        }
                    }
                }
            }
        }
    }

    /// One element, `further` elements behind the index.
    pub(super) fn store(
        &mut self,
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        further: i64,
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        if let StoreMode::Atomic(op) = mode {
            return self.atomic(op, mem, index, value, gate);
        }
        let dtype = self.p.ty(value).dtype;
        let gate = gate.map(|gate| self.r(gate));
        let mut value = self.r(value);
        let at = self.address(mem, dtype, index);
        if let StoreMode::Combine(op) = mode {
            let old = self.temporary(class(dtype));
            let own = gate.clone().map(|gate| (gate, value.clone()));
            self.read(&old, dtype, &at, further, own);
            let sum = self.temporary(class(dtype));
            self.binary(&sum, dtype, op.binary(), &old, &value)?;
            value = sum;
        }
        self.write(dtype, &at, further, &value, gate);
        Ok(())
    }

    fn write(
        &mut self,
        dtype: DType,
        at: &Address,
        further: i64,
        value: &str,
        gate: Option<String>,
    ) {
        let Address { space, base } = at;
        let bytes = further * dtype.size() as i64;
        let value = match dtype {
            DType::Bool => self.let_("b32", &format!("selp.b32 {{}}, 1, 0, {value}")),
            _ => value.to_string(),
        };
        let ty = match access(dtype) {
            "s8" => "u8",
            "s16" => "u16",
            ty => ty,
        };
        let guard = gate.map_or(String::new(), |gate| format!("@{gate} "));
        self.line(format!("{guard}st.{space}.{ty} [{base}+{bytes}], {value}"));
    }

    /// A store of several lanes.
    pub(super) fn store_lanes(&mut self, inst: &Inst) -> Result<()> {
        let Inst::Store {
            mode,
            mem,
            index,
            access,
            value,
            gate,
        } = *inst
        else {
            return Ok(());
        };
        let Ty { dtype, lanes } = self.p.ty(value);
        let common = gate.map(|gate| splat(self.p, gate));
        let k = match (mode, access, common) {
            (StoreMode::Set, Access::Contiguous, None | Some(Some(_))) => {
                together(&self.factors, Ty { dtype, lanes }, index)
            }
            _ => 1,
        };
        if k == 1 || k as usize * dtype.size() < 4 {
            for lane in 0..lanes {
                self.lane = lane;
                self.store(mode, mem, index, self.further(access), value, gate)?;
            }
            self.lane = 0;
            return Ok(());
        }
        let at = self.address(mem, dtype, index);
        let guard = match common.flatten() {
            Some(gate) => format!("@{} ", self.lane_of(gate, 0)),
            None => String::new(),
        };
        for lane in (0..lanes).step_by(k as usize) {
            let names: Vec<String> = (lane..lane + k).map(|i| self.lane_of(value, i)).collect();
            let parts = self.together(dtype, &names);
            let Address { space, base } = &at;
            let bytes = i64::from(lane) * dtype.size() as i64;
            self.line(format!(
                "{guard}st.{space}{} [{base}+{bytes}], {}",
                vector(dtype, parts.len()),
                list(&parts)
            ));
        }
        Ok(())
    }
}

/// The kind of a register of what is read together.
fn part(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        t if t.size() == 8 => "b64",
        _ => "b32",
    }
}

/// The modifiers of an access to so many registers.
fn vector(dtype: DType, count: usize) -> String {
    let bits = if dtype.size() == 8 { 64 } else { 32 };
    match count {
        1 => format!(".b{bits}"),
        n => format!(".v{n}.b{bits}"),
    }
}

fn list(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        parts => format!("{{{}}}", parts.join(", ")),
    }
}
