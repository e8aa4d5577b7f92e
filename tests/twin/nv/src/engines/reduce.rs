//! Operations that change a semaphore in memory.

/// What is done with a value and a payload. The numbers are those of the host and of copy engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Min,
    Max,
    Xor,
    And,
    Or,
    Add,
    /// One more, up to the payload, then 0.
    Inc,
    /// One less, from 0 on the payload.
    Dec,
}

use Reduction::{Add, And, Dec, Inc, Max, Min, Or, Xor};

impl Reduction {
    /// By the number that the host's methods and copy engines have for it.
    pub fn of_host(number: u32) -> Option<Self> {
        [Min, Max, Xor, And, Or, Add, Inc, Dec]
            .get(number as usize)
            .copied()
    }

    /// By the number that graphics and compute have for it.
    pub fn of_graphics(number: u32) -> Option<Self> {
        [Add, Min, Max, Inc, Dec, And, Or, Xor]
            .get(number as usize)
            .copied()
    }

    /// Whether the host can do it with words of that kind.
    pub fn host_has(self, signed: bool, wide: bool) -> bool {
        match self {
            Min | Max | Xor | And | Or => true,
            Add => !(signed && wide),
            Inc | Dec => !signed && !wide,
        }
    }

    /// The result, of 32 or 64 bits.
    pub fn apply(self, signed: bool, wide: bool, value: u64, payload: u64) -> u64 {
        // Both grow to 64 bits in the way in which they are compared.
        let grow = |x: u64| match (wide, signed) {
            (true, _) => x,
            (false, true) => i64::from(x as u32 as i32).cast_unsigned(),
            (false, false) => u64::from(x as u32),
        };
        let (v, p) = (grow(value), grow(payload));
        let less = match signed {
            true => v.cast_signed() < p.cast_signed(),
            false => v < p,
        };
        match self {
            Min => {
                if less {
                    v
                } else {
                    p
                }
            }
            Max => {
                if less {
                    p
                } else {
                    v
                }
            }
            Xor => v ^ p,
            And => v & p,
            Or => v | p,
            Add => v.wrapping_add(p),
            Inc => {
                if v >= p {
                    0
                } else {
                    v + 1
                }
            }
            Dec => {
                if v == 0 || v > p {
                    p
                } else {
                    v - 1
                }
            }
        }
    }

    /// Changes a word of 4 or 8 bytes.
    pub fn change(self, signed: bool, payload: u64, bytes: &mut [u8]) {
        let wide = bytes.len() == 8;
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        let new = self.apply(signed, wide, u64::from_le_bytes(value), payload);
        bytes.copy_from_slice(&new.to_le_bytes()[..bytes.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_manual() {
        let word = |op: Reduction, signed, v: u32, p: u32| {
            op.apply(signed, false, v.into(), p.into()) as u32
        };
        assert_eq!(word(Min, true, 0xffff_ffff, 1), 0xffff_ffff);
        assert_eq!(word(Min, false, 0xffff_ffff, 1), 1);
        assert_eq!(word(Max, true, 0xffff_ffff, 1), 1);
        assert_eq!((word(Inc, false, 3, 4), word(Inc, false, 4, 4)), (4, 0));
        assert_eq!((word(Dec, false, 0, 4), word(Dec, false, 5, 4)), (4, 4));
        assert_eq!(word(Dec, false, 3, 4), 2);
        assert_eq!(word(Add, false, u32::MAX, 2), 1);
        assert_eq!(Max.apply(true, true, u64::MAX, 0), 0);
        let mut bytes = 5u64.to_le_bytes();
        Xor.change(false, 0xff << 40 | 1, &mut bytes);
        assert_eq!(u64::from_le_bytes(bytes), 0xff << 40 | 4);
        assert!(
            !Inc.host_has(false, true) && !Add.host_has(true, true) && Min.host_has(true, true)
        );
        assert_eq!(Reduction::of_graphics(7), Some(Xor));
        assert_eq!(Reduction::of_host(8), None);
    }
}
