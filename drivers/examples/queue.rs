//! The queue model in one page, on the CPU device: `cargo run -p drivers --example queue`.
//!
//! Two queues of one device pass data on: the copy queue fills `b` from `a`, the compute queue
//! waits for that moment and goes on. Then the same work becomes a graph, whose input is a slot.

use std::sync::Arc;
use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::graph::{GraphBuilder, Work};
use hcq::{AllocSpec, Command, Deadline, QueueKind, Span, Stream, Val, Width};

const BYTES: u64 = 1 << 20;

/// Runs it; a test does, too.
pub fn main() -> hcq::Result<()> {
    let soon = || Deadline::after(Duration::from_secs(5));
    let device: Arc<dyn hcq::Device> = CpuDevice::open(Config::default())?;
    println!(
        "{} {} {:?}",
        device.info().id,
        device.info().name,
        device.info().queues
    );

    let compute = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let copy = Stream::new(device.queue(QueueKind::Copy, 0)?);
    let buffer = || device.alloc(AllocSpec::device(BYTES));
    let (a, b, c) = (buffer()?, buffer()?, buffer()?);
    a.write(0, &vec![7; BYTES as usize])?;

    // Two submissions; the second one holds its queue until the first one is done.
    let copied = |dst: &hcq::Buffer, src: &hcq::Buffer| Command::Copy {
        dst: dst.va().0.into(),
        src: src.va().0.into(),
        bytes: BYTES,
    };
    let filled = copy.submit(&[], &[copied(&b, &a)])?;
    let mark = Command::Write {
        at: b.va().0.into(),
        value: 42.into(),
        width: Width::W32,
    };
    let done = compute.submit(&[filled], &[mark, copied(&c, &b)])?;
    done.wait(soon())?;

    let mut word = [0; 8];
    c.read(0, &mut word)?;
    println!("first bytes of c: {word:?}");
    assert_eq!(word, [42, 0, 0, 0, 7, 7, 7, 7]);

    // The same as a graph: dependencies follow from the bytes, the source is given per replay.
    let mut graph = GraphBuilder::new();
    let (fast, slow) = (graph.lane(&device, &compute), graph.lane(&device, &copy));
    let input = graph.slot()?;
    let span = |buffer: &hcq::Buffer| Span::at(buffer.va().0, BYTES);
    let fill = Work::Copy {
        dst: b.va().0.into(),
        src: Val::Slot(input, 0),
        bytes: BYTES,
    };
    graph.add(
        slow,
        "fill",
        fill,
        [Span::slot(input, 0, BYTES)],
        [span(&b)],
    );
    let pass = Work::Copy {
        dst: c.va().0.into(),
        src: b.va().0.into(),
        bytes: BYTES,
    };
    graph.add(fast, "pass", pass, [span(&b)], [span(&c)]);
    let mut graph = graph.build()?;

    for value in [1, 2, 3] {
        let source = buffer()?;
        source.write(0, &vec![value; BYTES as usize])?;
        graph.replay(&[source.va().0], &[], soon())?;
        graph.wait(soon())?;
        c.read(BYTES - 8, &mut word)?;
        println!("replayed: {word:?}");
        assert_eq!(word, [value; 8]);
    }
    Ok(())
}
