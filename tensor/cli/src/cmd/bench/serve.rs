//! A captured function that several threads call: what a call waits for while others need new graphs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use codegen::DType;
use doorbell::Opened;
use tensor::jit::Jit;
use tensor::{Rng, Tensor};

use super::{Row, timed};
use crate::error::Error;
use crate::output::say;

/// Calls of each row.
const CALLS: usize = 400;
/// Rows of the inputs whose graph is there.
const KNOWN: usize = 256;
const WIDTH: usize = 128;
/// Threads that call with inputs of shapes that nobody has called with before.
const OTHERS: usize = 2;

/// Times of calls from one thread, alone and while others have graphs made, and the worst of these over
/// the middle one alone.
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
    let input = rng.rand(&[KNOWN, WIDTH], DType::F32)?;
    input.realize()?;
    let call = || -> tensor::Result<Vec<f32>> {
        let outputs = function.call(std::slice::from_ref(&input))?;
        outputs[0].to_vec()
    };
    // Called plainly, captured, replayed.
    let (_, _, expected) = (call()?, call()?, call()?);
    let sample = || {
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let mut found = Vec::new();
            times.push(timed(&mut || {
                found = call()?;
                Ok(())
            })?);
            if found != expected {
                return Err(Error::Check(
                    "a replay beside others gave other values".into(),
                ));
            }
        }
        Ok::<_, Error>(times)
    };
    let alone = sample()?;
    let (done, made) = (AtomicBool::new(false), AtomicUsize::new(0));
    let beside = std::thread::scope(|scope| {
        for thread in 0..OTHERS {
            let (function, done, made) = (&function, &done, &made);
            scope.spawn(move || {
                let mut n = thread;
                while !done.load(Ordering::Relaxed) {
                    n += OTHERS;
                    let fresh = Tensor::ones(engine, &[n, WIDTH], DType::F32);
                    // The first call runs plainly, the second has the graph made.
                    let run = fresh.and_then(|x| {
                        function.call(std::slice::from_ref(&x))?;
                        function.call(&[x])
                    });
                    if run.is_err() {
                        return;
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let times = sample();
        done.store(true, Ordering::Relaxed);
        times
    })?;
    say!(
        "serve: {} graphs were made beside {CALLS} calls",
        made.load(Ordering::Relaxed)
    );
    let micros = |times: &[f64]| times.iter().map(|s| s * 1e6).collect::<Vec<f64>>();
    let alone = Row::new("serve alone", 1, "us", micros(&alone));
    let beside = Row::new("serve beside new graphs", 1, "us", micros(&beside));
    let worst = beside.max / alone.median;
    rows.extend([
        Row::new("serve worst wait", 1, "of alone", vec![worst]),
        alone,
        beside,
    ]);
    Ok(())
}
