//! Times of many runs in little memory.

use std::fmt;
use std::time::Duration;

/// Times that are kept at most.
const KEPT: usize = 1 << 16;

/// The times of runs: the least of all, and the median, of a sample at regular distances if there are very many.
#[derive(Clone, Debug)]
pub struct Times {
    least: Duration,
    count: u64,
    /// Every `step`-th one, from the first.
    kept: Vec<Duration>,
    step: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times {
            least: Duration::MAX,
            count: 0,
            kept: Vec::new(),
            step: 1,
        }
    }
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        self.least = self.least.min(time);
        if self.count.is_multiple_of(self.step) {
            if self.kept.len() == KEPT {
                let mut odd = true;
                self.kept.retain(|_| {
                    odd = !odd;
                    !odd
                });
                self.step *= 2;
            }
            // The distance may have grown.
            if self.count.is_multiple_of(self.step) {
                self.kept.push(time);
            }
        }
        self.count += 1;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// `0.100 ms minimum, 0.120 ms median of 9 runs`.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let Some(middle) = sorted.get(sorted.len() / 2) else {
            return f.write_str("no runs");
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{:.3} ms minimum, {:.3} ms median of {} runs",
            ms(self.least),
            ms(*middle),
            self.count
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_runs_have_a_minimum_and_a_median() {
        let mut times = Times::default();
        assert!(times.is_empty());
        for ms in [3, 1, 2] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!(
            times.to_string(),
            "1.000 ms minimum, 2.000 ms median of 3 runs"
        );
        let mut times = Times::default();
        let n = 5 * KEPT as u64 + 7;
        for us in (1..=n).rev() {
            times.add(Duration::from_micros(us));
        }
        assert!(times.kept.len() <= KEPT && times.kept.capacity() <= 2 * KEPT);
        assert!(times.kept.len() >= KEPT / 2);
        let text = times.to_string();
        assert!(text.starts_with("0.001 ms minimum, 163.8"), "{text}");
        assert!(text.ends_with(&format!("median of {n} runs")), "{text}");
    }
}
