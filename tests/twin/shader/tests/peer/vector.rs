//! The lines of the files.

use std::collections::BTreeMap;

use twin_shader::isa::Gen;

use crate::state::{CODE, State};

/// How results are compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Bits,
    F16,
    Bf16,
    F32,
    F64,
}

/// One instruction, where it starts from and what it does.
pub struct Vector {
    pub words: Vec<u32>,
    pub text: String,
    pub kind: Kind,
    pub seed: u64,
    /// Denormals of every size are flushed.
    pub flush: bool,
    changes: Vec<String>,
}

/// What an instruction leaves behind.
#[derive(Clone)]
pub struct Outcome {
    /// By code of scalar operands, M0 and EXEC too.
    pub s: [u32; 128],
    pub scc: bool,
    pub pc: u64,
    pub v: Vec<u32>,
    pub lds: Vec<u32>,
    pub mem: Vec<u32>,
}

impl Vector {
    /// `words ; text ; kind seed denormals changes...`
    pub fn parse(line: &str) -> Self {
        let parts: Vec<&str> = line.split(" ; ").collect();
        let [words, text, rest] = parts[..] else {
            panic!("{line}");
        };
        let mut rest = rest.split(' ');
        let kind = match rest.next().unwrap() {
            "b" => Kind::Bits,
            "f16" => Kind::F16,
            "bf16" => Kind::Bf16,
            "f32" => Kind::F32,
            "f64" => Kind::F64,
            other => panic!("kind {other}: {line}"),
        };
        Self {
            words: words.split(' ').map(hex32).collect(),
            text: text.into(),
            kind,
            seed: rest.next().unwrap().parse().unwrap(),
            flush: rest.next().unwrap() == "flush",
            changes: rest.map(String::from).collect(),
        }
    }

    /// The mnemonic as LLVM prints it.
    pub fn mnemonic(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// The mnemonic without the name of the encoding.
    pub fn plain(&self) -> &str {
        let name = self.mnemonic();
        ["_e32", "_e64", "_dpp", "_sdwa"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name)
    }

    /// The operands but the first, by lane: as the type that the mnemonic names last. Of DPP, of all lanes.
    fn inputs(&self, state: &State, lanes: usize, lane: usize) -> Vec<f64> {
        let dpp = self.text.contains("row_mask");
        let sources = if dpp { 0..lanes } else { lane..lane + 1 };
        // What lanes without a source get.
        let mut out = if dpp { vec![0.0] } else { vec![] };
        let kind = match self.plain().rsplit('_').next() {
            _ if self.text.contains("::") => "f32",
            kind => kind.unwrap_or_default(),
        };
        let operands = self.text.split_once(", ").map_or("", |(_, rest)| rest);
        for operand in operands.split([',', ' ']) {
            let plain = operand
                .trim_start_matches("neg(")
                .trim_matches(['-', '|', ')']);
            for (low, high) in sources
                .clone()
                .filter_map(|lane| dwords(plain, state, lanes, lane))
            {
                let floats = |bits: u32| f64::from(half::f16::from_bits(bits as u16));
                let values = match kind {
                    "f16" => vec![floats(low), floats(low >> 16)],
                    "f32" => vec![f32::from_bits(low).into()],
                    "f64" => vec![f64::from_bits(u64::from(low) | u64::from(high) << 32)],
                    _ => vec![(low as i32).into()],
                };
                out.extend(values.into_iter().map(|x| signed(operand, x)));
            }
            if plain.starts_with(['e', 'm', 't'])
                || plain.starts_with("vcc")
                || plain.starts_with("src")
            {
                out.push(f64::NAN);
            } else if let (true, Ok(x)) = (plain.contains('.'), plain.parse::<f64>()) {
                out.push(match kind {
                    "f16" | "f32" | "f64" => signed(operand, x),
                    _ => f64::from(signed(operand, x) as f32).to_bits() as f64,
                });
            } else if let Ok(n) = operand
                .trim_matches('|')
                .trim_start_matches("-|")
                .parse::<i64>()
            {
                out.push(match kind {
                    "f16" => half::f16::from_bits(n as u16).into(),
                    "f32" => f32::from_bits(n as u32).into(),
                    "f64" => f64::from_bits(n as u64),
                    _ => n as f64,
                });
            }
        }
        out
    }

    pub fn expected(&self, generation: Gen, state: &State, lanes: usize) -> Outcome {
        let mut out = Outcome {
            s: initial(generation, state),
            scc: state.scc,
            pc: CODE + 4 * self.words.len() as u64,
            v: state.v.clone(),
            lds: state.lds.clone(),
            mem: state.mem.clone(),
        };
        for change in &self.changes {
            let (place, value) = change.split_once('=').unwrap();
            if let Some(value) = place.strip_prefix("v").map(|place| (place, value)) {
                vgpr(&mut out.v, lanes, value.0, value.1);
                continue;
            }
            match place {
                "scc" => out.scc = value == "1",
                "pc" => out.pc = CODE.wrapping_add(u64::from_str_radix(value, 16).unwrap()),
                _ => {
                    let (file, at) = place.split_at(1);
                    match file {
                        "s" => out.s[at.parse::<usize>().unwrap()] = hex32(value),
                        "l" => out.lds[hex32(at) as usize / 4] = hex32(value),
                        "m" => out.mem[hex32(at) as usize / 4] = hex32(value),
                        _ => panic!("{change}"),
                    }
                }
            }
        }
        out
    }
}

/// With the modifiers of an operand.
fn signed(operand: &str, x: f64) -> f64 {
    let x = if operand.contains('|') { x.abs() } else { x };
    if operand.starts_with(['-', 'n']) {
        -x
    } else {
        x
    }
}

/// The values of `v3`, `v3.h`, `s[2:3]` or `0x1234` in a lane; the second dword counts for types of 64
/// bits only.
fn dwords(operand: &str, state: &State, lanes: usize, lane: usize) -> Option<(u32, u32)> {
    if let Some(literal) = operand.strip_prefix("0x") {
        return Some((u32::from_str_radix(literal, 16).ok()?, 0));
    }
    let (file, at) = operand.split_at_checked(1)?;
    let first: usize = at
        .trim_start_matches('[')
        .split([':', '.'])
        .next()?
        .parse()
        .ok()?;
    let get = |r: usize| match file {
        "v" => state.v.get(r * lanes + lane).copied(),
        "s" => state.s.get(r).copied(),
        _ => None,
    };
    Some((get(first)?, get(first + 1).unwrap_or(0)))
}

/// `register:mask=values`, one value for all lanes or one for each.
fn vgpr(v: &mut [u32], lanes: usize, place: &str, values: &str) {
    let (register, mask) = place.split_once(':').unwrap();
    let (register, mask) = (
        register.parse::<usize>().unwrap(),
        u64::from_str_radix(mask, 16).unwrap(),
    );
    let values: Vec<u32> = values.split(',').map(hex32).collect();
    let set = (0..lanes).filter(|lane| mask >> lane & 1 == 1);
    for (i, lane) in set.enumerate() {
        let value = if values.len() == 1 {
            values[0]
        } else {
            values[i]
        };
        v[register * lanes + lane] = value;
    }
}

/// SGPRs, M0 and EXEC by code of scalar operands.
pub fn initial(generation: Gen, state: &State) -> [u32; 128] {
    let mut s = state.s;
    s[126] = state.exec as u32;
    s[127] = (state.exec >> 32) as u32;
    s[m0(generation)] = state.m0;
    s
}

pub fn m0(generation: Gen) -> usize {
    match generation {
        Gen::Rdna2 | Gen::Cdna3 => 124,
        Gen::Rdna3 | Gen::Rdna4 => 125,
    }
}

fn hex32(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap()
}

/// What may differ.
#[derive(Clone, Debug, Default)]
pub struct Slack {
    /// Everything: it is not compared.
    pub anything: bool,
    /// The sign of a zero.
    pub zeros: bool,
    /// Floats, by so many units of the last place.
    pub ulp: u64,
    /// Lanes with an input outside of one of these ranges, as NaNs are.
    pub within: Vec<Range>,
}

/// A range of numbers, or of their magnitudes.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub low: f64,
    pub high: f64,
    pub magnitude: bool,
}

impl Slack {
    /// `peer`, or some of `zeros`, `numbers`, `ulp:N`, `within:LOW..HIGH`, `size:LOW..HIGH` with `+` between.
    pub fn parse(text: &str) -> Self {
        let mut out = Self::default();
        let all = |low, high, magnitude| Range {
            low,
            high,
            magnitude,
        };
        let range = |text: &str, magnitude| {
            let (low, high) = text.split_once("..").unwrap();
            all(low.parse().unwrap(), high.parse().unwrap(), magnitude)
        };
        for part in text.split('+') {
            match part.split_once(':') {
                None if part == "peer" => out.anything = true,
                None if part == "zeros" => out.zeros = true,
                None if part == "numbers" => {
                    out.within
                        .push(all(f64::NEG_INFINITY, f64::INFINITY, false))
                }
                Some(("ulp", n)) => out.ulp = n.parse().unwrap(),
                Some(("within", text)) => out.within.push(range(text, false)),
                Some(("size", text)) => out.within.push(range(text, true)),
                _ => panic!("{text}"),
            }
        }
        out
    }

    /// What either allows.
    pub fn or(mut self, other: &Self) -> Self {
        self.anything |= other.anything;
        self.zeros |= other.zeros;
        self.ulp = self.ulp.max(other.ulp);
        self.within.extend(&other.within);
        self
    }

    fn excuses(&self, inputs: &[f64]) -> bool {
        self.within.iter().any(|range| {
            let size = |x: f64| if range.magnitude { x.abs() } else { x };
            inputs
                .iter()
                .any(|&x| !(range.low..=range.high).contains(&size(x)))
        })
    }
}

/// A place of an outcome and what stood there.
pub type Difference = (String, String);

/// Where the outcomes differ by more than `slack`: the place, and `twin, peer` there.
pub fn differences(
    vector: &Vector,
    state: &State,
    lanes: usize,
    slack: &Slack,
    twin: &Outcome,
    peer: &Outcome,
) -> Vec<Difference> {
    if slack.anything {
        return vec![];
    }
    let excused = |stride, i| {
        !slack.within.is_empty() && slack.excuses(&vector.inputs(state, lanes, i % stride))
    };
    let mut out = BTreeMap::new();
    let mut note = |order: usize, place: String, a: u64, b: u64| {
        out.insert((order, place.clone()), (place, format!("{a:x}, {b:x}")));
    };
    if twin.scc != peer.scc {
        note(0, "scc".into(), twin.scc.into(), peer.scc.into());
    }
    if twin.pc != peer.pc {
        note(0, "pc".into(), twin.pc, peer.pc);
    }
    type File<'a> = (&'a [u32], &'a [u32], usize, &'a dyn Fn(usize) -> String);
    let files: [File; 4] = [
        (&twin.s, &peer.s, 1, &|i| format!("s{i}")),
        (&twin.v, &peer.v, lanes, &|i| {
            format!("v{} lane {}", i / lanes, i % lanes)
        }),
        (&twin.lds, &peer.lds, 1, &|i| format!("lds+{:x}", 4 * i)),
        (&twin.mem, &peer.mem, 1, &|i| format!("mem+{:x}", 4 * i)),
    ];
    for (file, (a, b, stride, name)) in files.into_iter().enumerate() {
        for i in (0..a.len()).filter(|&i| a[i] != b[i]) {
            let even = i - i / stride % 2 * stride;
            let pair = |x: &[u32]| u64::from(x[even]) | u64::from(x[even + stride]) << 32;
            let same = match vector.kind {
                _ if excused(stride, i) => true,
                Kind::F64 => close(pair(a), pair(b), 52, 64, slack),
                kind => close32(kind, a[i], b[i], slack),
            };
            if !same {
                note(file + 1, name(i), a[i].into(), b[i].into());
            }
        }
    }
    out.into_values().collect()
}

fn close32(kind: Kind, a: u32, b: u32, slack: &Slack) -> bool {
    let halves = |mantissa| {
        close(
            u64::from(a & 0xffff),
            u64::from(b & 0xffff),
            mantissa,
            16,
            slack,
        ) && close(u64::from(a >> 16), u64::from(b >> 16), mantissa, 16, slack)
    };
    match kind {
        Kind::Bits | Kind::F64 => false,
        Kind::F32 => close(a.into(), b.into(), 23, 32, slack),
        Kind::F16 => halves(10),
        Kind::Bf16 => halves(7),
    }
}

/// Whether two floats of `bits` bits are NaNs, or apart by no more than `slack`.
fn close(a: u64, b: u64, mantissa: u32, bits: u32, slack: &Slack) -> bool {
    let sign = 1u64 << (bits - 1);
    let infinity = sign - (1 << mantissa);
    let nan = |x: u64| x & (sign - 1) > infinity;
    if nan(a) || nan(b) {
        return nan(a) && nan(b);
    }
    let zeros = slack.zeros && (a | b) & (sign - 1) == 0;
    a == b || zeros || a & sign == b & sign && a.abs_diff(b) <= slack.ulp
}
