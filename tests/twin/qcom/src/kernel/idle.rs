//! `idle_timer`: after how long without work the GPU is put to sleep. The clock of the twin knows nothing of that; who
//! writes the file reads what the kernel makes of it.
//!
//! Source: KGSL, kgsl_pwrctrl.c, `kgsl_pwrctrl_idle_timer_store` and `_show`: jiffies, of which the kernels of SDM845
//! count 100 a second; Linux, kernel/time/time.c, `msecs_to_jiffies`, `jiffies_to_msecs` and `jiffies_to_usecs`.

use twin::errno::{Errno, Result};

/// Milliseconds of a jiffy.
const JIFFY: u64 = 10;
/// `MAX_JIFFY_OFFSET` of linux/jiffies.h, where a long has 64 bits.
const MOST: u64 = (i64::MAX as u64 >> 1) - 1;

/// See the front page.
pub(crate) struct IdleTimer {
    jiffies: u64,
}

impl IdleTimer {
    /// Of a kernel that has started.
    pub(crate) const fn new() -> IdleTimer {
        IdleTimer { jiffies: 8 }
    }

    /// What is read.
    pub(crate) fn text(&self) -> String {
        // Milliseconds have 32 bits.
        format!("{}\n", self.jiffies.wrapping_mul(JIFFY) as u32)
    }

    /// Takes what was written.
    ///
    /// # Errors
    /// `EINVAL` for what is no number of 32 bits, or one that is too large for the kernel.
    pub(crate) fn store(&mut self, text: &[u8]) -> Result {
        let text = std::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let number = number.map_err(|_| Errno::EINVAL)?;
        // Microseconds have 32 bits, too.
        if number > MOST.wrapping_mul(JIFFY * 1000) as u32 {
            return Err(Errno::EINVAL);
        }
        self.jiffies = match (number as i32) < 0 {
            true => MOST,
            false => u64::from(number).div_ceil(JIFFY),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_and_end_somewhere() {
        let mut timer = IdleTimer::new();
        assert_eq!(timer.text(), "80\n");
        for (written, read) in [
            ("10\n", "10\n"),
            ("11", "20\n"),
            ("0x40\n", "70\n"),
            ("0", "0\n"),
            // As a client that has run on such a kernel expects.
            ("4000000000\n", "4294967276\n"),
        ] {
            timer.store(written.as_bytes()).unwrap();
            assert_eq!(timer.text(), read, "{written:?}");
        }
        for wrong in ["", "-1", "ten", "4294967296", "4294967295", "1 2"] {
            assert_eq!(
                timer.store(wrong.as_bytes()),
                Err(Errno::EINVAL),
                "{wrong:?}"
            );
            assert_eq!(timer.text(), "4294967276\n");
        }
    }
}
