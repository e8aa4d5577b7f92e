//! Long lazy graphs: kernels of them stay small, and no stack grows with their depth.
use crate::support;

use codegen::ir::{Op as Code, Unary};
use support::engine;
use tensor::schedule::{Limits, OutputRequest, Schedule};
use tensor::{Result, Tensor};

fn plan(value: &Tensor) -> Schedule {
    let value = value.clone();
    Schedule::new(&[OutputRequest { value, into: None }], &Limits::default())
}

/// Compilers took a minute for eighty of them in one kernel.
#[test]
fn a_kernel_has_few_elementary_functions() -> Result<()> {
    let e = engine();
    let one = Tensor::from_slice(&e, &[0.5f32; 64], &[64])?;
    let mut x = one.clone();
    for _ in 0..160 {
        x = x.sin()?.mul(0.5)?;
    }
    let schedule = plan(&x);
    assert_eq!(schedule.launches(), 10);
    let most = Limits::default().functions;
    for instance in &schedule.kernels {
        let graph = &instance.kernel.graph;
        let nodes = (0..graph.len() as u32).map(|i| graph.node(codegen::ir::Id(i)));
        let sines = nodes.filter(|n| matches!(n.op, Code::Unary(Unary::Sin)));
        assert!(sines.count() <= most);
    }
    // Side by side, too.
    let mut sum = one.clone();
    for i in 0..40 {
        sum = sum.add(&one.mul(i)?.exp()?)?;
    }
    assert!(plan(&sum).launches() > 1);
    let mut y = one.clone();
    for _ in 0..40 {
        y = y.sin()?.mul(1.5)?;
    }
    let want = (0..40).fold(0.5f64, |x, _| x.sin() * 1.5) as f32;
    let found = y.to_vec::<f32>()?;
    assert!(
        found.iter().all(|&y| (y - want).abs() < 1e-5),
        "{found:?} {want}"
    );
    Ok(())
}

/// Planned, run and dropped on a stack of half a megabyte.
#[test]
fn a_hundred_thousand_operations_need_no_deep_stack() {
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    let work = || -> Result<Vec<f32>> {
        let e = engine();
        let one = Tensor::from_slice(&e, &[1f32; 4], &[4])?;
        let mut x = one.clone();
        for i in 0..100_000 {
            x = match i % 4 {
                0 => x.add(&one)?,
                1 => x.neg()?,
                2 => x.mul(0.5 + i as f64 * 1e-6)?,
                _ => x.maximum(-3.0)?,
            };
        }
        x.to_vec()
    };
    let found = thread.spawn(work).unwrap().join().unwrap().unwrap();
    let want = (0..100_000).fold(1f32, |x, i| match i % 4 {
        0 => x + 1.0,
        1 => -x,
        2 => x * (0.5 + i as f64 * 1e-6) as f32,
        _ => x.max(-3.0),
    });
    assert!(
        found.iter().all(|&x| (x - want).abs() < 1e-3),
        "{found:?} {want}"
    );
}

#[test]
fn chains_that_read_each_value_twice_are_computed_in_parts() {
    let e = engine();
    let start: Vec<f32> = (0..8).map(|i| i as f32).collect();
    let mut x = Tensor::from_slice(&e, &start, &[8]).unwrap();
    let mut expected = start;
    for i in 0..200 {
        match i % 3 {
            0 => {
                x = x.add(i % 5).unwrap();
                expected.iter_mut().for_each(|x| *x += (i % 5) as f32);
            }
            _ => {
                x = x.roll(1, 0).unwrap();
                expected.rotate_right(1);
            }
        }
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), expected);
    // Nothing but moves.
    let mut x = Tensor::from_slice(&e, &expected, &[8]).unwrap();
    for _ in 0..40 {
        x = x.roll(3, 0).unwrap();
    }
    expected.rotate_right(120 % 8);
    assert_eq!(x.to_vec::<f32>().unwrap(), expected);
}
