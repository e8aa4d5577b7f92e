//! Profiles in the trace event format that Perfetto and Chrome open: one track per queue.

use std::io::Write;

use serde_json::{Value, json};

use super::profile::Run;

/// Writes runs as a JSON trace; times are relative to the first run.
///
/// # Errors
/// Those of the writer.
pub fn write(runs: &[Run], mut to: impl Write) -> std::io::Result<()> {
    let origin = runs.iter().map(|r| r.start_ns).min().unwrap_or(0);
    let mut queues: Vec<&str> = Vec::new();
    let mut events: Vec<Value> = Vec::new();
    for run in runs {
        let track = match queues.iter().position(|q| *q == run.queue) {
            Some(track) => track,
            None => {
                queues.push(&run.queue);
                events.push(json!({
                    "ph": "M", "pid": 0, "tid": queues.len() - 1,
                    "name": "thread_name", "args": { "name": run.queue },
                }));
                queues.len() - 1
            }
        };
        let seconds = run.seconds();
        let rate = |n: f64| {
            if seconds > 0.0 {
                n / seconds * 1e-9
            } else {
                0.0
            }
        };
        events.push(json!({
            "ph": "X", "pid": 0, "tid": track, "name": run.name, "cat": "kernel",
            // Microseconds, with a fraction.
            "ts": (run.start_ns - origin) as f64 * 1e-3,
            "dur": run.end_ns.saturating_sub(run.start_ns) as f64 * 1e-3,
            "args": {
                "bytes": run.bytes, "flops": run.flops,
                "GB/s": rate(run.bytes), "GFLOP/s": rate(run.flops),
            },
        }));
    }
    let trace = json!({ "traceEvents": events, "displayTimeUnit": "ns" });
    serde_json::to_writer(&mut to, &trace)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_a_track() {
        let run = |name: &str, queue: &str, start_ns, end_ns| Run {
            name: name.into(),
            queue: queue.into(),
            start_ns,
            end_ns,
            bytes: 4000.0,
            flops: 1000.0,
        };
        let runs = [
            run("a", "CPU:0 compute", 5_000, 7_000),
            run("b", "CPU:0 copy", 6_000, 9_500),
            run("c", "CPU:0 compute", 8_000, 9_000),
        ];
        let mut bytes = Vec::new();
        write(&runs, &mut bytes).unwrap();
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let named: Vec<_> = events.iter().filter(|e| e["ph"] == "X").collect();
        assert_eq!(events.len() - named.len(), 2, "one name per track");
        assert_eq!(named[1]["tid"], 1);
        assert_eq!(named[2]["tid"], 0);
        assert_eq!(named[1]["ts"], 1.0);
        assert_eq!(named[1]["dur"], 3.5);
        assert_eq!(named[0]["args"]["GB/s"], 2.0);
    }
}
