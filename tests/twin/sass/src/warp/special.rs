//! What the unit for special functions computes.
//!
//! Nobody publishes its bits. A guess: the result nearest to the true one, which is closer than the
//! bounds that NVIDIA gives for the instructions of PTX; numbers without a leading one are zero, going
//! in and coming out.

use super::program::Refusal;
use super::single::{canonical, flush};
use super::source::Reading;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Cosine,
    Sine,
    Exponential,
    Logarithm,
    Reciprocal,
    ReciprocalRoot,
    /// Of a double, by its upper word.
    ReciprocalHigh,
    ReciprocalRootHigh,
    Root,
    Tangent,
}

impl Function {
    pub fn read(r: &Reading) -> Result<Self, Refusal> {
        r.choice(&[
            (".COS", Self::Cosine),
            (".SIN", Self::Sine),
            (".EX2", Self::Exponential),
            (".LG2", Self::Logarithm),
            (".RCP", Self::Reciprocal),
            (".RSQ", Self::ReciprocalRoot),
            (".RCP64H", Self::ReciprocalHigh),
            (".RSQ64H", Self::ReciprocalRootHigh),
            (".SQRT", Self::Root),
            (".TANH", Self::Tangent),
        ])
        .ok_or_else(|| r.refuse("no function"))
    }

    /// Of a number; the result is rounded by who asks.
    pub fn exact(self, x: f64) -> f64 {
        // The argument of sine and cosine comes as parts of a turn.
        let turn = std::f64::consts::TAU;
        match self {
            Self::Cosine => (x * turn).cos(),
            Self::Sine => (x * turn).sin(),
            Self::Exponential => x.exp2(),
            Self::Logarithm => x.log2(),
            Self::Reciprocal | Self::ReciprocalHigh => 1.0 / x,
            Self::ReciprocalRoot | Self::ReciprocalRootHigh => 1.0 / x.sqrt(),
            Self::Root => x.sqrt(),
            Self::Tangent => x.tanh(),
        }
    }

    pub fn of(self, bits: u32) -> u32 {
        let high = f64::from_bits(u64::from(bits) << 32);
        match self {
            Self::ReciprocalHigh => return upper(1.0 / high),
            Self::ReciprocalRootHigh => return upper(1.0 / high.sqrt()),
            _ => {}
        }
        let x = f64::from(f32::from_bits(flush(bits)));
        let value = self.exact(x);
        canonical(f32::from_bits(flush((value as f32).to_bits())))
    }
}

fn upper(value: f64) -> u32 {
    if value.is_nan() {
        0x7fff_ffff
    } else {
        (value.to_bits() >> 32) as u32
    }
}
