//! A captured function that several threads call: what a call waits for while others need new graphs.
//!
//! The same threads that compute without the library show what of it is the machine's: with more threads than
//! processors, the system has each of them wait for its turn.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Opened;
use codegen::DType;
use tensor::jit::Jit;
use tensor::{Rng, Tensor};

use super::{Row, timed};
use crate::program::error::Error;
use crate::program::output::say;

/// Calls of each row.
const CALLS: usize = 200;
/// Between two calls, as there is between requests: else the replays leave nothing of the machine to others.
const PAUSE: Duration = Duration::from_millis(10);
/// The inputs that the replays have: some ten milliseconds of work, as a small model is.
const ROWS: usize = 2048;
const WIDTH: usize = 256;
/// Threads that call a function of their own with shapes that nobody has called with before.
const OTHERS: usize = 2;
/// Their shapes have three numbers up to this one, so each call is short beside a replay, and no other run
/// has left the kernels of one in the cache.
const SIDE: u64 = 40;

/// Times of calls from one thread: alone, while others compute by themselves, and while others have graphs made.
/// The worst of the last over the middle one alone, and over the worst beside threads that compute.
pub(super) fn rows(session: &Opened, rows: &mut Vec<Row>) -> Result<(), Error> {
    let engine = &session.engine;
    let mut rng = Rng::new(engine, 1);
    let weight = rng.uniform(&[WIDTH, WIDTH], -0.1, 0.1, DType::F32)?;
    weight.realize()?;
    let function = Jit::new(engine, |x: &[Tensor]| {
        let mut x = x[0].clone();
        for _ in 0..4 {
            x = x.matmul(&weight)?.relu()?;
        }
        Ok(vec![x.sum(&[1], false)?])
    });
    let input = rng.rand(&[ROWS, WIDTH], DType::F32)?;
    input.realize()?;
    let call = || -> tensor::Result<Vec<f32>> {
        let outputs = function.call(std::slice::from_ref(&input))?;
        outputs[0].to_vec()
    };
    // Called plainly, captured, replayed.
    let (_, _, expected) = (call()?, call()?, call()?);
    let sample = || sample(&call, &expected);
    let alone = sample()?;
    let busy = beside(&compute, sample)?;
    let made = AtomicUsize::new(0);
    let other = Jit::new(engine, |x: &[Tensor]| {
        Ok(vec![x[0].tanh()?.sum(&[1], false)?.softmax(1)?])
    });
    let seed = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = seed.map_or(1, |t| t.as_nanos() as u64);
    let make = |thread: u64, done: &AtomicBool| {
        let mut state = seed ^ (thread << 32);
        let mut side = || {
            state = next(state);
            ((state >> 33) % SIDE) as usize + 2
        };
        while !done.load(Ordering::Relaxed) {
            let shape = [side(), side(), side()];
            let fresh = Tensor::ones(engine, &shape, DType::F32);
            // The first call runs plainly, the second has the graph made.
            let run = fresh.and_then(|x| {
                other.call(std::slice::from_ref(&x))?;
                other.call(&[x])
            });
            if run.is_err() {
                return;
            }
            made.fetch_add(1, Ordering::Relaxed);
        }
    };
    let graphs = beside(&make, sample)?;
    say!(
        "serve: {} graphs were created during {CALLS} calls",
        made.load(Ordering::Relaxed)
    );
    let micros = |times: &[f64]| times.iter().map(|s| s * 1e6).collect::<Vec<f64>>();
    let alone = Row::new("serve alone", 1, "us", micros(&alone));
    let busy = Row::new("serve beside busy threads", 1, "us", micros(&busy));
    let graphs = Row::new("serve beside new graphs", 1, "us", micros(&graphs));
    let (worst, own) = (graphs.max / alone.median, graphs.max / busy.max);
    rows.extend([
        Row::new("serve worst wait", 1, "of alone", vec![worst]),
        Row::new("serve worst wait of graphs", 1, "of busy", vec![own]),
        alone,
        busy,
        graphs,
    ]);
    Ok(())
}

/// Times of calls one after the other.
fn sample(
    call: &dyn Fn() -> tensor::Result<Vec<f32>>,
    expected: &[f32],
) -> Result<Vec<f64>, Error> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        std::thread::sleep(PAUSE);
        let mut found = Vec::new();
        times.push(timed(&mut || {
            found = call()?;
            Ok(())
        })?);
        if found != expected {
            return Err(Error::Check(
                "a concurrent replay returned different values".into(),
            ));
        }
    }
    Ok(times)
}

/// The times of a sample while other threads work. Each is given its number, and what tells it to end.
fn beside(
    work: &(dyn Fn(u64, &AtomicBool) + Sync),
    sample: impl Fn() -> Result<Vec<f64>, Error>,
) -> Result<Vec<f64>, Error> {
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..OTHERS as u64 {
            scope.spawn(move || work(thread, done));
        }
        let times = sample();
        done.store(true, Ordering::Relaxed);
        times
    })
}

/// Computes until it is told to end.
fn compute(_thread: u64, done: &AtomicBool) {
    let mut state = 1u64;
    while !done.load(Ordering::Relaxed) {
        state = std::hint::black_box(next(state));
    }
}

/// The next state of a generator of numbers.
fn next(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1)
}
