//! What the log says of submissions.

use crate::stand;

use std::io::Write;
use std::sync::{Arc, Mutex};

use hcq::{Command, Device, MemoryKind, QueueKind, Stream};
use stand::{at, machine, memory, options, soon, twin};

/// The log of a thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn of(level: tracing::Level, work: impl FnOnce()) -> Vec<String> {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = log.0.lock().unwrap().clone();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn each_submission_is_told_and_what_it_does() {
    let twin = twin("chip=gfx1100,vram=1G");
    let device = drivers_amd::open(&machine(&twin), 0, &options()).unwrap();
    let step = device.load(&stand::kernel("gfx1100", "step", 2)).unwrap();
    let data = memory(&*device, MemoryKind::Device, 4096).unwrap();
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let args = [at(&data), 7u64.into()];
    let exec = Command::Exec {
        program: &step,
        args: &args,
        grid: [1, 1, 1],
        block: [1, 1, 1],
    };
    let submit = || compute.submit(&[], &[exec]).unwrap().wait(soon()).unwrap();
    let told = |lines: &[String]| -> Vec<String> {
        let of = lines.iter().filter(|line| line.contains("submitted"));
        of.cloned().collect()
    };

    let lines = Log::of(tracing::Level::DEBUG, || {
        submit();
        submit();
    });
    let lines = told(&lines);
    let has = |line: &str, what: &str| assert!(line.contains(what), "{what}: {line}");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, value) in lines.iter().zip(["signal_value=1 ", "signal_value=2 "]) {
        has(line, "device=AMD:0 queue=compute 0");
        has(line, value);
    }
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split(&format!("{name}=")).nth(1).unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let dwords = number(&lines[0], "dwords");
    assert!(dwords > 10, "{}", lines[0]);
    // Doorbells of PM4 count dwords.
    for (line, submissions) in lines.iter().zip([1, 2]) {
        assert_eq!(number(line, "wptr"), dwords * submissions, "{line}");
        assert_eq!(number(line, "doorbell"), dwords * submissions, "{line}");
    }

    let lines = Log::of(tracing::Level::TRACE, submit);
    assert_eq!(told(&lines).len(), 1, "{lines:?}");
    let all = lines.join("\n");
    has(&all, "the launch of kernel step");
    has(
        &all,
        &format!("a signal at {:#x} of 0x3", compute.last().signal.va().0),
    );
    // Nobody listens, nothing is said.
    assert_eq!(told(&Log::of(tracing::Level::INFO, submit)), [""; 0]);
}
