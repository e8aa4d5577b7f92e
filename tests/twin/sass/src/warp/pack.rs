//! Numbers that share a register, from wider ones and into them.

use super::eighth::Eighth;
use super::half::Type;
use super::program::Refusal;
use super::rounding::{Rounding, narrow};
use super::simd::Lanewise;
use super::source::{From, Place, Reading, Source, Style};
use super::state::{Constants, State, each};

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Single,
    /// The upper 19 bits of a single.
    Tf32,
    Short(Type),
    Eighth(Eighth),
}

impl Number {
    fn named(text: &str) -> Option<Self> {
        Some(match text {
            "F32" => Self::Single,
            "TF32" => Self::Tf32,
            "F16" => Self::Short(Type::Half),
            "BF16" => Self::Short(Type::Brain),
            _ => return Eighth::named(text).map(Self::Eighth),
        })
    }
}

/// Two numbers of each lane: that of the upper part first.
#[derive(Clone, Copy, Debug)]
enum Pair {
    Singles([Source; 2]),
    Short(Source, Type),
    /// How far up they begin.
    Eighths(Source, u32, Eighth),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    to: Place,
    of: Pair,
    into: Number,
    rounding: Rounding,
    /// What is negative becomes zero.
    floor: bool,
    /// What is too great becomes the greatest.
    saturate: bool,
    /// Whose lower half becomes the upper one: compilers make pairs of pairs by it.
    merge: Option<Source>,
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    if name != "F2FP" {
        return Ok(None);
    }
    // The type of the sources comes after that of the result; Ampere leaves out singles, and halves.
    // Some stand in one text.
    let texts = r.inst.modifiers.iter().flat_map(|text| text.split('.'));
    let texts: Vec<&str> = texts.collect();
    let has = |text| texts.contains(&text);
    let types: Vec<_> = texts
        .iter()
        .filter_map(|text| Number::named(text))
        .collect();
    let into = types.first().copied().unwrap_or(Number::Short(Type::Half));
    let from = types.get(1).copied().unwrap_or(Number::Single);
    let (rounding, saturate) = (Rounding::read(r), has("SATFINITE"));
    if let Number::Eighth(_) = into
        && (!saturate || rounding != Rounding::Nearest)
    {
        return Err(r.refuse("numbers of eight bits that do not saturate are not modelled"));
    }
    let to = r.place()?;
    let mut merge = None;
    let of = if has("PACK_AB") {
        Pair::Singles([r.source(Style::Float)?, r.source(Style::Float)?])
    } else if has("PACK_AB_MERGE_C") {
        let of = [r.source(Style::Float)?, r.source(Style::Float)?];
        merge = Some(r.source(Style::Integer)?);
        Pair::Singles(of)
    } else if has("PACK_B") {
        Pair::Singles([r.source(Style::Float)?; 2])
    } else if has("MERGE_C") {
        // One number, below a half of another register.
        let (low, zero) = (r.source(Style::Float)?, r.source(Style::Float)?);
        if zero.from != From::Register(255) {
            return Err(r.refuse("what it is merged with is not modelled"));
        }
        Pair::Singles([zero, low])
    } else {
        let of = unpacked(r, from)?;
        if has("UNPACK_B_MERGE_C") {
            merge = Some(r.source(Style::Integer)?);
        }
        of
    };
    let small = matches!(into, Number::Eighth(small) if small.bits() < 6);
    if small && merge.is_some_and(|merge| merge.from != From::Register(255)) {
        return Err(r.refuse("what pairs of four bits are merged with is not modelled"));
    }
    if r.left() > 0 {
        return Err(r.refuse("numbers that are scaled are not modelled"));
    }
    let singles = matches!(of, Pair::Singles(_)) == (from == Number::Single);
    if into == Number::Single || !singles {
        return Err(r.refuse("from and to these types is not modelled"));
    }
    Ok(Some(Op {
        to,
        of,
        into,
        rounding,
        floor: has("RELU"),
        saturate,
        merge,
    }))
}

/// A source of two numbers that share a register.
fn unpacked(r: &mut Reading, from: Number) -> Result<Pair, Refusal> {
    let (source, part) = r.part(Style::Integer)?;
    let shift = match part {
        "" => 0,
        ".H1" | ".B2" => 16,
        other => return Err(r.refuse(format!("a source with {other} is not modelled"))),
    };
    match from {
        Number::Short(short) if shift == 0 => Ok(Pair::Short(source, short)),
        Number::Eighth(eighth) => Ok(Pair::Eighths(source, shift, eighth)),
        _ => Err(r.refuse("from these types is not modelled")),
    }
}

impl Op {
    #[inline(always)]
    fn one(&self, x: f64) -> u32 {
        let x = if self.floor && x < 0.0 { 0.0 } else { x };
        let within = |most: f64| {
            if self.saturate && !x.is_nan() {
                x.clamp(-most, most)
            } else {
                x
            }
        };
        match self.into {
            Number::Short(Type::Half) => {
                Type::Half.narrow(within(f64::from(Type::Half.wide(0x7bff))), self.rounding)
            }
            Number::Short(Type::Brain) => {
                Type::Brain.narrow(within(f64::from(Type::Brain.wide(0x7f7f))), self.rounding)
            }
            Number::Tf32 => {
                let most = f64::from(f32::from_bits(0x7f7f_e000));
                narrow(within(most), 8, 10, self.rounding) << 13
            }
            Number::Eighth(eighth) => eighth.narrow(x),
            Number::Single => 0,
        }
    }

    /// How many bits one takes.
    fn bits(&self) -> u32 {
        match self.into {
            Number::Short(_) => 16,
            Number::Eighth(Eighth::E2M1) => 4,
            Number::Eighth(_) => 8,
            Number::Single | Number::Tf32 => 0,
        }
    }
}

impl Lanewise for Op {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        let [high, low] = match self.of {
            Pair::Singles(of) => of.map(|source| {
                let value = state.get(&source, c);
                value.map(|x| f64::from(f32::from_bits(x)))
            }),
            Pair::Short(source, short) => {
                let value = state.get(&source, c);
                [16, 0].map(|up| value.map(|x| f64::from(short.wide(x >> up & 0xffff))))
            }
            Pair::Eighths(source, shift, eighth) => {
                let value = state.get(&source, c);
                let next = if eighth.bits() < 6 { 4 } else { 8 };
                [next, 0].map(|up| value.map(|x| f64::from(eighth.wide(x >> (shift + up)))))
            }
        };
        let up = self.bits();
        let mut value = each(|i| self.one(high[i]) << up | self.one(low[i]));
        if let Some(merge) = self.merge {
            let more = state.get(&merge, c);
            value = each(|i| more[i] << 16 | value[i]);
        }
        state.put(self.to, active, &value);
    }
}
