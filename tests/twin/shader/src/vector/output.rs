//! What happens to results on their way to a register.

use crate::isa::Gen;
use crate::wave::{Lanes, Wave};

use super::lanes;
use super::operand::Kind;

/// Which part of a VGPR is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// These bits, the others stay.
    Bits {
        /// The lowest.
        shift: u32,
        /// How many.
        width: u32,
    },
    /// These bits, the others become zero.
    Padded {
        /// The lowest.
        shift: u32,
        /// How many.
        width: u32,
    },
    /// These bits, those below become zero, those above the sign.
    Extended {
        /// The lowest.
        shift: u32,
        /// How many.
        width: u32,
    },
}

/// A destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Output {
    /// The VGPR.
    pub vgpr: usize,
    /// The part of it.
    pub part: Part,
}

impl Output {
    /// Writes the lanes of one half.
    #[inline(always)]
    pub fn write(&self, wave: &mut Wave, half: usize, low: &Lanes, exec: u32) {
        let to = wave.vgpr_mut(self.vgpr, half);
        if self.part == Part::Whole {
            lanes::blend(to, low, exec);
        } else {
            let merged = self.merge(to, low);
            lanes::blend(to, &merged, exec);
        }
    }

    /// Writes the lanes of one half of two registers.
    #[inline(always)]
    pub fn write_wide(&self, wave: &mut Wave, half: usize, lanes: &[Lanes; 2], exec: u32) {
        lanes::blend(wave.vgpr_mut(self.vgpr, half), &lanes[0], exec);
        lanes::blend(wave.vgpr_mut(self.vgpr + 1, half), &lanes[1], exec);
    }

    fn merge(&self, old: &Lanes, new: &Lanes) -> Lanes {
        let mut to = [0; 32];
        match self.part {
            Part::Whole => return *new,
            Part::Bits { shift, width } => {
                let mask = (u32::MAX >> (32 - width)) << shift;
                for i in 0..32 {
                    to[i] = old[i] & !mask | new[i] << shift & mask;
                }
            }
            Part::Padded { shift, width } => {
                let mask = (u32::MAX >> (32 - width)) << shift;
                for i in 0..32 {
                    to[i] = new[i] << shift & mask;
                }
            }
            Part::Extended { shift, width } => {
                let up = 32 - width;
                for i in 0..32 {
                    to[i] = (((new[i] << up) as i32 >> up) as u32) << shift;
                }
            }
        }
        to
    }
}

/// Output modifiers of floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finish {
    /// What the result is.
    pub kind: Kind,
    /// Times 2, times 4, divided by 2: 1, 2, 3.
    pub omod: u8,
    /// To the range of 0 to 1.
    pub clamp: bool,
    /// The generation.
    pub generation: Gen,
}

impl Finish {
    /// Applies them.
    #[inline(never)]
    pub fn apply(&self, wave: &Wave, low: &mut Lanes, high: &mut Lanes) {
        let mode = wave.mode;
        let flushes = match self.kind {
            Kind::F32 => mode >> 5 & 1 == 0,
            _ => mode >> 7 & 1 == 0,
        };
        // RDNA4 has neither of the two bits: it is never in IEEE mode and clamps NaNs to zero.
        let (ieee, nan_to_zero) = match self.generation {
            Gen::Rdna4 => (false, true),
            _ => (mode >> 9 & 1 != 0, mode >> 8 & 1 != 0),
        };
        // Output modifiers do nothing where denormals are kept or in IEEE mode (RDNA3 ISA 6.2.2).
        let factor = match self.omod {
            1 if flushes && !ieee => 2.0,
            2 if flushes && !ieee => 4.0,
            3 if flushes && !ieee => 0.5,
            _ => 1.0,
        };
        for i in 0..32 {
            match self.kind {
                Kind::F64 => {
                    let bits = u64::from(low[i]) | u64::from(high[i]) << 32;
                    let mut x = f64::from_bits(bits);
                    if factor != 1.0 {
                        x *= factor;
                        if !x.is_normal() && x.is_finite() {
                            x = 0.0;
                        }
                    }
                    if self.clamp {
                        x = clamp64(x, nan_to_zero);
                    }
                    (low[i], high[i]) = (x.to_bits() as u32, (x.to_bits() >> 32) as u32);
                }
                Kind::F16 => {
                    let mut x = super::float::f16_to_f32(low[i] as u16);
                    if factor != 1.0 {
                        x *= factor as f32;
                        // Below the least normal half.
                        if x.abs() < 6.103_515_6e-5 {
                            x = 0.0;
                        }
                    }
                    if self.clamp {
                        x = clamp64(f64::from(x), nan_to_zero) as f32;
                    }
                    low[i] = u32::from(super::float::f32_to_f16(x));
                }
                _ => {
                    let mut x = f32::from_bits(low[i]);
                    if factor != 1.0 {
                        x *= factor as f32;
                        if !x.is_normal() && x.is_finite() {
                            x = 0.0;
                        }
                    }
                    if self.clamp {
                        x = if x.is_nan() && !nan_to_zero {
                            x
                        } else {
                            clamp64(f64::from(x), nan_to_zero) as f32
                        };
                    }
                    low[i] = x.to_bits();
                }
            }
        }
    }
}

/// To the range of 0 to 1; both zeros become the positive one.
fn clamp64(x: f64, nan_to_zero: bool) -> f64 {
    if x.is_nan() {
        return if nan_to_zero { 0.0 } else { x };
    }
    if x <= 0.0 { 0.0 } else { x.min(1.0) }
}
