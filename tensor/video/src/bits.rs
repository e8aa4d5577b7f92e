//! [`Bits`]: syntax elements of a unit, one after another.

use crate::error::{Error, Result};
use crate::nal::Nal;

/// A syntax element as it was read, for tools that print a stream and for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// The standard's name, without indices.
    pub name: &'static str,
    /// Its value.
    pub value: i64,
}

/// Reads the payload of a unit, whose emulation prevention bytes are out already.
pub(crate) struct Bits<'a> {
    nal: &'a Nal,
    unit: &'static str,
    /// In bits.
    position: usize,
    log: Option<&'a mut Vec<Element>>,
}

impl<'a> Bits<'a> {
    /// At the start of the payload.
    pub(crate) fn new(
        nal: &'a Nal,
        unit: &'static str,
        log: Option<&'a mut Vec<Element>>,
    ) -> Bits<'a> {
        Bits {
            nal,
            unit,
            position: 0,
            log,
        }
    }

    /// Bits that were read.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The offset in the stream of what is read next.
    pub(crate) fn at(&self) -> u64 {
        self.nal.offset(self.position / 8)
    }

    fn bit(&mut self, element: &'static str) -> Result<u32> {
        let Some(byte) = self.nal.payload.get(self.position / 8) else {
            return Err(Error::Truncated {
                unit: self.unit,
                element,
                at: self.nal.offset(self.nal.payload.len()),
            });
        };
        let bit = byte >> (7 - self.position % 8) & 1;
        self.position += 1;
        Ok(u32::from(bit))
    }

    fn bits(&mut self, count: u32, element: &'static str) -> Result<u32> {
        let mut value = 0;
        for _ in 0..count {
            value = value << 1 | self.bit(element)?;
        }
        Ok(value)
    }

    fn note(&mut self, name: &'static str, value: i64) {
        if let Some(log) = &mut self.log {
            log.push(Element { name, value });
        }
    }

    /// `u(n)`, n up to 32.
    pub(crate) fn u(&mut self, count: u32, element: &'static str) -> Result<u32> {
        let value = self.bits(count, element)?;
        self.note(element, value.into());
        Ok(value)
    }

    /// `u(1)`, a flag.
    pub(crate) fn flag(&mut self, element: &'static str) -> Result<bool> {
        Ok(self.u(1, element)? == 1)
    }

    /// Bits that are of no interest: reserved ones, and extensions.
    pub(crate) fn skip(&mut self, count: u32, element: &'static str) -> Result<()> {
        for _ in 0..count {
            self.bit(element)?;
        }
        Ok(())
    }

    fn exp_golomb(&mut self, element: &'static str) -> Result<u32> {
        let at = self.at();
        let mut zeros = 0;
        while self.bit(element)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return Err(Error::Corrupt {
                    unit: self.unit,
                    element,
                    expected: "at most 31 leading zeros (9.2)".into(),
                    found: zeros.into(),
                    at,
                });
            }
        }
        let rest = self.bits(zeros, element)?;
        Ok((1u32 << zeros) - 1 + rest)
    }

    /// `ue(v)`, `most` at most.
    pub(crate) fn ue(&mut self, most: u32, element: &'static str) -> Result<u32> {
        let at = self.at();
        let value = self.exp_golomb(element)?;
        if value > most {
            return Err(self.corrupt(element, format!("at most {most}"), value.into(), at));
        }
        self.note(element, value.into());
        Ok(value)
    }

    /// `se(v)`, from `least` to `most`.
    pub(crate) fn se(&mut self, least: i32, most: i32, element: &'static str) -> Result<i32> {
        let at = self.at();
        let code = self.exp_golomb(element)?;
        // 9.2.2: odd codes are positive.
        let half = i64::from(code).div_euclid(2) + i64::from(code % 2);
        let value = if code % 2 == 1 { half } else { -half };
        if value < least.into() || value > most.into() {
            return Err(self.corrupt(element, format!("{least} to {most}"), value, at));
        }
        self.note(element, value);
        Ok(value as i32)
    }

    /// An element that the standard does not allow.
    pub(crate) fn corrupt(
        &self,
        element: &'static str,
        expected: String,
        found: i64,
        at: u64,
    ) -> Error {
        Error::Corrupt {
            unit: self.unit,
            element,
            expected,
            found,
            at,
        }
    }

    /// An element, read last, that the standard does not allow beside others.
    pub(crate) fn refuse(&self, element: &'static str, expected: String, found: i64) -> Error {
        self.corrupt(element, expected, found, self.at())
    }

    /// A feature that is not decoded.
    pub(crate) fn unsupported(&self, feature: impl Into<String>) -> Error {
        Error::Unsupported {
            feature: feature.into(),
            at: self.at(),
        }
    }
}

/// `Ceil(Log2(n))`: the bits of a number below `n`.
pub(crate) fn ceil_log2(n: u32) -> u32 {
    match n {
        0 | 1 => 0,
        _ => 32 - (n - 1).leading_zeros(),
    }
}
