//! Steps without tensors: memory, queues, signals, copies, graphs.

use std::thread;
use std::time::{Duration, Instant};

use hcq::graph::{GraphBuilder, Work};
use hcq::{AllocSpec, Command, Scope, Span, Stream, Val};

use super::climb::{Climb, Outcome, compare, numbers};
use super::kernels::adding;
use crate::program::error::Error;

const BARRIER: Command<'_> = Command::Barrier {
    scope: Scope::Queue,
};

/// As errors name it.
fn unit(stream: &Stream) -> String {
    let queue = stream.queue();
    format!(
        "{} {} queue {}",
        queue.device(),
        queue.kind(),
        queue.index()
    )
}

fn micros(since: Instant) -> String {
    format!("{:.0} us", since.elapsed().as_secs_f64() * 1e6)
}

/// Bytes that a place tells apart from its neighbours.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let byte = |i| (seed + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..bytes).map(|i| byte(i) as u8).collect()
}

/// The driver opens the device; what the host writes to its memory is there.
pub fn map(climb: &mut Climb) -> Result<Outcome, Error> {
    const BYTES: usize = 4096;
    let device = climb.device()?;
    let info = device.info();
    let queues = info.queues.iter().map(|(kind, n)| format!("{n} {kind}"));
    let queues = queues.collect::<Vec<_>>().join(", ");
    let mut seen = vec![format!(
        "{} {} by {}: {}, {} units, {:.1} GiB; queues: {queues}",
        info.id,
        info.arch,
        info.interface,
        info.name,
        info.units,
        info.memory as f64 / (1u64 << 30) as f64
    )];
    let own = device.alloc(AllocSpec::device(BYTES as u64))?;
    let shared = climb.shared(BYTES as u64)?;
    for (what, seed, buffer) in [("host", 1, &shared), ("device", 2, &own)] {
        let (wrote, mut read) = (pattern(BYTES, seed), vec![0; BYTES]);
        buffer.write(0, &wrote)?;
        buffer.read(0, &mut read)?;
        compare(&format!("{BYTES} bytes of {what} memory"), &read, &wrote)?;
        seen.push(format!(
            "{BYTES} bytes of {what} memory at {:#x}: written and read back",
            buffer.va().0
        ));
    }
    device.status()?;
    Ok(Outcome::Passed(seen))
}

/// A command that does nothing goes through the ring.
pub fn ring(climb: &mut Climb) -> Result<Outcome, Error> {
    let stream = climb.compute()?;
    let start = Instant::now();
    let point = stream.submit(&[], &[BARRIER])?;
    point.wait(climb.deadline())?;
    Ok(Outcome::Passed(vec![format!(
        "{}: a single barrier, {} from doorbell to completion; timeline at {:#x}",
        unit(&stream),
        micros(start),
        point.value
    )]))
}

/// The queue raises a signal of ours, in all 64 bits, and tells the time; the host looks again and again.
pub fn signal(climb: &mut Climb) -> Result<Outcome, Error> {
    let (device, stream) = (climb.device()?, climb.compute()?);
    let signal = device.signal("bringup")?;
    let mut ticks = Vec::new();
    for value in [1, 2, (1 << 32) + 5] {
        let commands = [
            Command::Timestamp { signal: &signal },
            Command::Signal {
                signal: &signal,
                value: Val::Const(value),
            },
        ];
        let point = stream.submit(&[], &commands)?;
        let start = Instant::now();
        while signal.value()? < value && start.elapsed() < climb.limit {
            thread::yield_now();
        }
        let found = signal.value()?;
        if found != value {
            // Reports a fault of the device, if there is one; the queue's own signal may have arrived.
            point.wait(climb.deadline())?;
            return Err(Error::Check(format!(
                "the signal at {:#x} is {found:#x} after {:?}, expected {value:#x}; the queue's own \
                 signal is {:#x}",
                signal.va().0,
                start.elapsed(),
                point.value
            )));
        }
        point.wait(climb.deadline())?;
        ticks.push(signal.timestamp()?);
    }
    if !ticks.is_sorted() || ticks[0] == 0 {
        return Err(Error::Check(format!(
            "the timestamps of three submissions are {ticks:?}, expected increasing values"
        )));
    }
    Ok(Outcome::Passed(vec![format!(
        "1, 2 and 2^32 + 5 arrived at {:#x}; {} ticks from first to last",
        signal.va().0,
        ticks[2] - ticks[0]
    )]))
}

/// The queue waits for the host, then the host for the queue.
pub fn wait(climb: &mut Climb) -> Result<Outcome, Error> {
    // Long enough for a queue that does not wait to be seen; one that does is the same however long it is.
    const HELD: Duration = Duration::from_millis(20);
    let (device, stream) = (climb.device()?, climb.compute()?);
    let (gate, after) = (device.signal("gate")?, device.signal("after")?);
    let commands = [
        Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        },
        Command::Signal {
            signal: &after,
            value: Val::Const(1),
        },
    ];
    let point = stream.submit(&[], &commands)?;
    thread::sleep(HELD);
    let early = after.value()?;
    gate.set(1)?;
    let start = Instant::now();
    after.wait(1, climb.deadline())?;
    let took = micros(start);
    point.wait(climb.deadline())?;
    match early {
        0 => Ok(Outcome::Passed(vec![format!(
            "held for {HELD:?}, resumed {took} after the host set the signal"
        )])),
        _ => Err(Error::Check(
            "the queue did not wait: commands after a wait for 1 ran while the signal was 0".into(),
        )),
    }
}

/// To memory of the device and back, by the copy queue.
pub fn copy(climb: &mut Climb) -> Result<Outcome, Error> {
    // Several packets of some engines, and not a whole number of words.
    const BYTES: usize = (4 << 20) + 13;
    let device = climb.device()?;
    let stream = match climb.copies()? {
        Some(stream) => stream,
        None => climb.compute()?,
    };
    let (from, to) = (climb.shared(BYTES as u64)?, climb.shared(BYTES as u64)?);
    let between = device.alloc(AllocSpec::device(BYTES as u64))?;
    let wrote = pattern(BYTES, 3);
    from.write(0, &wrote)?;
    let copy = |dst: &hcq::Buffer, src: &hcq::Buffer| Command::Copy {
        dst: dst.va().0.into(),
        src: src.va().0.into(),
        bytes: BYTES as u64,
    };
    let start = Instant::now();
    let commands = [copy(&between, &from), BARRIER, copy(&to, &between)];
    stream.submit(&[], &commands)?.wait(climb.deadline())?;
    let took = micros(start);
    let mut read = vec![0; BYTES];
    to.read(0, &mut read)?;
    compare("bytes copied to the device and back", &read, &wrote)?;
    Ok(Outcome::Passed(vec![format!(
        "{}: {BYTES} bytes to {:#x} and back in {took}",
        unit(&stream),
        between.va().0
    )]))
}

/// Two queues hand memory back and forth, each behind the other's work.
pub fn two(climb: &mut Climb) -> Result<Outcome, Error> {
    const ROUNDS: usize = 10;
    const COUNT: usize = 256;
    let Some(copies) = climb.copies()? else {
        return Ok(Outcome::Skipped("the device has no copy queue".into()));
    };
    let compute = climb.compute()?;
    let add = adding(climb, COUNT)?;
    let (a, b) = (climb.holding(&[1.0; COUNT])?, climb.holding(&[0.0; COUNT])?);
    let args = add.args(&[&a, &b]);
    let copy = Command::Copy {
        dst: b.va().0.into(),
        src: a.va().0.into(),
        bytes: a.bytes(),
    };
    let (start, mut last) = (Instant::now(), Vec::new());
    for _ in 0..ROUNDS {
        let there = copies.submit(&last, &[copy])?;
        last = vec![compute.submit(&[there], &[add.exec(&args)])?];
    }
    last.iter()
        .try_for_each(|point| point.wait(climb.deadline()))?;
    let took = micros(start);
    let expected = [1.0 + ROUNDS as f32; COUNT];
    compare(
        &format!("sums after {ROUNDS} rounds"),
        &numbers(&a)?,
        &expected,
    )?;
    Ok(Outcome::Passed(vec![format!(
        "{} and {}: {ROUNDS} rounds in {took}",
        unit(&copies),
        unit(&compute)
    )]))
}

/// A chain of kernels is captured once and replayed.
pub fn graph(climb: &mut Climb) -> Result<Outcome, Error> {
    const KERNELS: usize = 10;
    const REPLAYS: usize = 3;
    let (device, stream) = (climb.device()?, climb.compute()?);
    let add = adding(climb, 1)?;
    let ends = [climb.holding(&[0.0])?, climb.holding(&[0.0])?];
    let mut builder = GraphBuilder::new();
    let lane = builder.lane(&device, &stream);
    for i in 0..KERNELS {
        let (input, out) = (&ends[i % 2], &ends[(i + 1) % 2]);
        let work = Work::Exec {
            program: add.program.clone(),
            args: add.args(&[out, input]),
            grid: add.stage.grid,
            block: add.stage.block,
        };
        let (reads, writes) = (Span::at(input.va().0, 4), Span::at(out.va().0, 4));
        builder.add(lane, &add.stage.name, work, [reads], [writes]);
    }
    let mut graph = builder.build()?;
    let start = Instant::now();
    for _ in 0..REPLAYS {
        graph.replay(&[], &[], climb.deadline())?;
    }
    graph.wait(climb.deadline())?;
    let took = micros(start);
    // Each replay goes on from what the one before has left.
    let expected = (KERNELS * REPLAYS) as f32;
    compare(
        "the end of the chain",
        &numbers(&ends[KERNELS % 2])?,
        &[expected],
    )?;
    Ok(Outcome::Passed(vec![format!(
        "{}: a graph of {KERNELS} kernels replayed {REPLAYS} times in {took}, one doorbell each",
        unit(&stream)
    )]))
}
