//! Local memory of a workgroup.

use crate::fault::{Result, Stop};
use crate::rules;

/// Who accessed a word since the last barrier.
#[derive(Clone, Copy, Default)]
struct Word {
    /// The barriers before.
    epoch: u64,
    /// Waves that read it, a bit each.
    reads: u32,
    /// Waves that wrote it.
    writes: u32,
    /// Waves that changed it by an atomic operation.
    atomics: u32,
}

/// How a word is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
    Atomic,
}

/// The memory, and who used it.
pub struct Local {
    bytes: Vec<u8>,
    words: Vec<Word>,
    epoch: u64,
}

impl Local {
    /// Its content at the start is undefined: some pattern that is not 0.
    pub fn new(bytes: u32, seed: u64) -> Self {
        let junk = |n: u32| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8 ^ n as u8 ^ 0xa5;
        Self {
            bytes: (0..bytes).map(junk).collect(),
            words: vec![Word::default(); bytes.div_ceil(4) as usize],
            epoch: 1,
        }
    }

    /// All waves passed a barrier.
    pub fn barrier(&mut self) {
        self.epoch += 1;
    }

    fn check(&mut self, wave: u32, address: u32, bytes: u32, usage: Use) -> Result<usize> {
        let end = u64::from(address) + u64::from(bytes);
        if end > self.bytes.len() as u64 {
            let size = self.bytes.len();
            let what = format!("{bytes} bytes at {address:#x} of {size:#x}");
            return Err(Stop::rule(&rules::LOCAL_RANGE, what));
        }
        if !address.is_multiple_of(bytes.max(1)) {
            let what = format!("{bytes} bytes at {address:#x} of local memory");
            return Err(Stop::rule(&rules::ALIGN, what));
        }
        let epoch = self.epoch;
        if let Some(word) = self.words.get_mut(address as usize / 4) {
            if word.epoch != epoch {
                *word = Word {
                    epoch,
                    ..Word::default()
                };
            }
            let me = 1u32.checked_shl(wave).unwrap_or(0);
            let others = match usage {
                Use::Read => word.writes | word.atomics,
                Use::Write => word.reads | word.writes | word.atomics,
                Use::Atomic => word.reads | word.writes,
            } & !me;
            if others != 0 {
                let other = others.trailing_zeros();
                let what = format!("waves {other} and {wave} at {address:#x} of local memory");
                return Err(Stop::rule(&rules::LOCAL_RACE, what));
            }
            match usage {
                Use::Read => word.reads |= me,
                Use::Write => word.writes |= me,
                Use::Atomic => word.atomics |= me,
            }
        }
        Ok(address as usize)
    }

    /// Reads 1, 2 or 4 bytes.
    pub fn read(&mut self, wave: u32, address: u32, bytes: u32) -> Result<u32> {
        let at = self.check(wave, address, bytes, Use::Read)?;
        Ok(self.value(at, bytes))
    }

    fn value(&self, at: usize, bytes: u32) -> u32 {
        let all = self.bytes.iter().skip(at).take(bytes as usize);
        all.rev()
            .fold(0, |value, byte| value << 8 | u32::from(*byte))
    }

    fn set(&mut self, at: usize, bytes: u32, value: u32) {
        let to = self.bytes.iter_mut().skip(at).take(bytes as usize);
        for (byte, from) in to.zip(value.to_le_bytes()) {
            *byte = from;
        }
    }

    /// Writes 1, 2 or 4 bytes.
    pub fn write(&mut self, wave: u32, address: u32, bytes: u32, value: u32) -> Result<()> {
        let at = self.check(wave, address, bytes, Use::Write)?;
        self.set(at, bytes, value);
        Ok(())
    }

    /// Changes 4 bytes in one step, and returns what was there.
    pub fn atomic(&mut self, wave: u32, address: u32, change: impl Fn(u32) -> u32) -> Result<u32> {
        let at = self.check(wave, address, 4, Use::Atomic)?;
        let old = self.value(at, 4);
        self.set(at, 4, change(old));
        Ok(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Cause;

    fn rule<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
        match *result.unwrap_err().cause {
            Cause::Rule { rule, .. } => rule.name,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn waves_race_unless_a_barrier_is_between() {
        let mut local = Local::new(64, 1);
        local.write(0, 8, 4, 0x1234_5678).unwrap();
        assert_eq!(local.read(0, 10, 2).unwrap(), 0x1234);
        assert_eq!(rule(local.read(1, 8, 4)), "IR3-LOCAL-RACE");
        local.barrier();
        assert_eq!(local.read(1, 8, 4).unwrap(), 0x1234_5678);
        assert_eq!(rule(local.write(2, 8, 4, 0)), "IR3-LOCAL-RACE");
    }

    #[test]
    fn atomics_of_several_waves_do_not_race() {
        let mut local = Local::new(64, 1);
        local.write(0, 0, 4, 5).unwrap();
        local.barrier();
        assert_eq!(local.atomic(0, 0, |v| v + 1).unwrap(), 5);
        assert_eq!(local.atomic(3, 0, |v| v + 1).unwrap(), 6);
        assert_eq!(rule(local.read(0, 0, 4)), "IR3-LOCAL-RACE");
    }

    #[test]
    fn accesses_are_inside_and_aligned() {
        let mut local = Local::new(64, 1);
        assert_eq!(rule(local.read(0, 64, 4)), "IR3-LOCAL-RANGE");
        assert_eq!(rule(local.read(0, u32::MAX, 4)), "IR3-LOCAL-RANGE");
        assert_eq!(rule(local.write(0, 2, 4, 0)), "IR3-ALIGN");
    }
}
