//! What it costs a submission that the last ones are always kept: `cargo run --release -p drivers-gpu --example
//! recent_cost`. Each size runs with and without, in turns; the best of many rounds counts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use drivers_gpu::submit::recent::Recent;

const ROUNDS: u32 = 200;
const NOTES: u32 = 10_000;

fn main() {
    let mut recent = Recent::default();
    // A wait; a launch of PM4, its usual and its largest form; more than is kept.
    for dwords in [8, 40, 64, 300] {
        let words: Vec<u32> = (0..dwords).collect();
        let mut best = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            for (with, best) in best.iter_mut().enumerate() {
                let start = Instant::now();
                for i in 0..u64::from(NOTES) {
                    let words = black_box(&*words);
                    if with == 1 {
                        recent.note(words, i, i * 64, i);
                    }
                }
                *best = (*best).min(start.elapsed());
            }
        }
        black_box(&recent);
        let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(NOTES);
        println!(
            "{dwords} dwords: {:.1} ns more for a submission",
            each(best[1]) - each(best[0])
        );
    }
}
