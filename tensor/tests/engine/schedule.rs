//! How many kernels well-known pieces take, and that they compute the right thing.
use tensor::exec::Interpreter;
use tensor::loops::{Order, recur};
use tensor::ops::attention::Attention;
use tensor::ops::conv::ConvParams;
use tensor::schedule::{Limits, OutputRequest, Schedule, Work};
use tensor::{DType, Engine, Tensor};

fn engine() -> Engine {
    Interpreter::engine(Limits::default(), false)
}

/// Numbers without pattern, small.
fn data(engine: &Engine, shape: &[usize], seed: u32) -> Tensor {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            (x >> 8) as f32 / (1 << 24) as f32 * 2.0 - 1.0
        })
        .collect();
    Tensor::from_slice(engine, &values, shape).unwrap()
}

fn plan(roots: &[&Tensor]) -> Schedule {
    let wanted: Vec<OutputRequest> = roots
        .iter()
        .map(|&t| OutputRequest {
            value: t.clone(),
            into: None,
        })
        .collect();
    Schedule::new(&wanted, &Limits::default())
}

fn kernels(roots: &[&Tensor]) -> usize {
    plan(roots).launches()
}

/// Builds on both engines; compares all results.
fn check(build: impl Fn(&Engine) -> Vec<Tensor>) -> usize {
    let (ours, reference) = (engine(), Engine::reference());
    let (a, b) = (build(&ours), build(&reference));
    let count = kernels(&a.iter().collect::<Vec<_>>());
    ours.realize(&a.iter().collect::<Vec<_>>()).unwrap();
    reference.realize(&b.iter().collect::<Vec<_>>()).unwrap();
    for (x, y) in a.iter().zip(&b) {
        let (x, y) = (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
        for (i, (p, q)) in x.iter().zip(&y).enumerate() {
            assert!(
                (p - q).abs() <= 1e-4 * (1.0 + q.abs()),
                "element {i}: {p} and {q}"
            );
        }
    }
    count
}

/// Puts values into the places of others, as plans do it.
fn assign(e: &Engine, pairs: &[(Tensor, Tensor)]) {
    if let Some(interpreter) = e.0.as_any().downcast_ref::<Interpreter>() {
        return interpreter.assign(pairs).unwrap();
    }
    let values: Vec<&Tensor> = pairs.iter().map(|(_, value)| value).collect();
    e.realize(&values).unwrap();
    for (target, value) in pairs {
        target.node().storage.replace(value.storage().unwrap());
    }
}

#[test]
fn elementwise_with_broadcast_is_one_kernel() {
    let n = check(|e| {
        let (a, b) = (data(e, &[8, 16], 1), data(e, &[16], 2));
        vec![a.add(&b).unwrap().relu().unwrap()]
    });
    assert_eq!(n, 1);
}

#[test]
fn softmax_is_one_kernel() {
    assert_eq!(
        check(|e| vec![data(e, &[32, 64], 1).softmax(-1).unwrap()]),
        1
    );
    assert_eq!(
        check(|e| vec![data(e, &[32, 64], 1).log_softmax(-1).unwrap()]),
        1
    );
}

#[test]
fn layer_norm_with_affine_is_one_kernel() {
    let n = check(|e| {
        let (w, b) = (data(e, &[64], 2), data(e, &[64], 3));
        let x = data(e, &[32, 64], 1);
        let y = x.standardize(&[-1], 1e-5).unwrap();
        vec![y.mul(&w).unwrap().add(&b).unwrap()]
    });
    assert_eq!(n, 1);
}

#[test]
fn normalisation_after_a_merge_of_axes_is_one_kernel() {
    let n = check(|e| {
        let x = data(e, &[4, 8, 2, 16], 1);
        vec![
            x.softmax(-1)
                .unwrap()
                .reshape(&[4, 8, 32])
                .unwrap()
                .relu()
                .unwrap(),
        ]
    });
    assert_eq!(n, 1);
}

#[test]
fn product_with_bias_and_activation_is_one_kernel() {
    let n = check(|e| {
        let (x, w, b) = (
            data(e, &[12, 20], 1),
            data(e, &[20, 24], 2),
            data(e, &[24], 3),
        );
        vec![x.matmul(&w).unwrap().add(&b).unwrap().relu().unwrap()]
    });
    assert_eq!(n, 1);
}

#[test]
fn convolution_with_bias_and_activation_is_one_kernel_after_its_padding() {
    let n = check(|e| {
        let (x, w) = (data(e, &[2, 3, 8, 8], 1), data(e, &[4, 3, 3, 3], 2));
        let b = data(e, &[4], 3);
        let options = ConvParams::strided(1, 2).padded(1, 2);
        vec![x.conv(&w, Some(&b), &options, 1).unwrap().relu().unwrap()]
    });
    // The padded input is in memory: windows over it are plain strides then.
    assert_eq!(n, 2);
}

#[test]
fn a_mean_that_every_column_of_a_product_needs_is_computed_once() {
    let build = |e: &Engine| {
        let x = data(e, &[1, 96, 7, 7], 1);
        let pooled = x.global_avg_pool().unwrap().reshape(&[1, 96]).unwrap();
        vec![pooled.matmul(&data(e, &[96, 200], 2)).unwrap()]
    };
    assert_eq!(check(build), 2);
}

#[test]
fn two_layers_are_two_kernels() {
    let n = check(|e| {
        let (x, w, v) = (
            data(e, &[12, 20], 1),
            data(e, &[20, 24], 2),
            data(e, &[24, 6], 3),
        );
        let h = x.matmul(&w).unwrap().relu().unwrap();
        vec![h.matmul(&v).unwrap()]
    });
    assert_eq!(n, 2);
}

#[test]
fn attention_takes_few_kernels() {
    let n = check(|e| {
        let [q, k, v] = [1, 2, 3].map(|s| data(e, &[2, 4, 16, 8], s));
        vec![q.attention(&k, &v, &Attention::default()).unwrap()]
    });
    assert!(n <= 3, "{n}");
}

#[test]
fn mean_and_variance_of_rows_share_a_kernel() {
    let n = check(|e| {
        let x = data(e, &[32, 64], 1);
        let total = x.sum(&[1], true).unwrap();
        let squares = x.square().unwrap().sum(&[1], true).unwrap();
        vec![total, squares]
    });
    assert_eq!(n, 1);
}

/// A step of Adam, in place.
#[test]
fn adam_is_one_kernel_per_parameter() {
    let run = |e: &Engine| {
        let [p, m, v, g] = [1, 2, 3, 4].map(|s| {
            let t = data(e, &[6, 10], s).square().unwrap().contiguous().unwrap();
            t.realize().unwrap();
            t
        });
        let m1 = m.mul(0.9).unwrap().add(g.mul(0.1).unwrap()).unwrap();
        let v1 = v
            .mul(0.99)
            .unwrap()
            .add(g.square().unwrap().mul(0.01).unwrap())
            .unwrap();
        let step = m1.div(v1.sqrt().unwrap().add(1e-8).unwrap()).unwrap();
        let p1 = p.sub(step.mul(0.01).unwrap()).unwrap();
        let pairs = vec![(p.clone(), p1), (m.clone(), m1), (v.clone(), v1)];
        let wanted: Vec<OutputRequest> = pairs
            .iter()
            .map(|(t, v)| OutputRequest {
                value: v.clone(),
                into: Some(t.clone()),
            })
            .collect();
        let schedule = Schedule::new(&wanted, &Limits::default());
        assign(e, &pairs);
        let values = [p, m, v].map(|t| t.to_vec::<f32>().unwrap());
        (schedule, values)
    };
    let (schedule, ours) = run(&engine());
    let (_, reference) = run(&Engine::reference());
    assert_eq!(schedule.launches(), 1);
    assert!(
        schedule
            .steps
            .iter()
            .all(|s| matches!(s.work, Work::Kernel { .. }))
    );
    assert!(schedule.temporaries.is_empty());
    for (a, b) in ours.iter().flatten().zip(reference.iter().flatten()) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn state_that_is_swapped_is_saved_first() {
    let e = engine();
    let a = Tensor::from_slice(&e, &[1f32, 2.0], &[2]).unwrap();
    let b = Tensor::from_slice(&e, &[3f32, 4.0], &[2]).unwrap();
    let sum = a.add(&b).unwrap();
    assign(&e, &[(a.clone(), b.clone()), (b.clone(), sum)]);
    assert_eq!(a.to_vec::<f32>().unwrap(), [3.0, 4.0]);
    assert_eq!(b.to_vec::<f32>().unwrap(), [4.0, 6.0]);
}

#[test]
fn a_target_that_is_read_elsewhere_is_not_overwritten_early() {
    let e = engine();
    let a = Tensor::from_slice(&e, &[1f32, 2.0, 3.0], &[3]).unwrap();
    // Reads other elements than it writes.
    let shifted = a.flip(&[0]).unwrap().add(1.0).unwrap();
    assign(&e, &[(a.clone(), shifted)]);
    assert_eq!(a.to_vec::<f32>().unwrap(), [4.0, 3.0, 2.0]);
    // Another value that needs the old content and the new value.
    let b = Tensor::from_slice(&e, &[0f32; 3], &[3]).unwrap();
    let new = a.mul(2.0).unwrap();
    let both = new.sum(&[0], true).unwrap().add(&a).unwrap();
    assign(&e, &[(a.clone(), new), (b.clone(), both)]);
    assert_eq!(a.to_vec::<f32>().unwrap(), [8.0, 6.0, 4.0]);
    assert_eq!(b.to_vec::<f32>().unwrap(), [22.0, 21.0, 20.0]);
}

#[test]
fn equal_kernels_are_one_structure() {
    let e = engine();
    let layer = |x: &Tensor, seed| {
        let w = data(&e, &[16, 16], seed);
        x.matmul(&w).unwrap().relu().unwrap()
    };
    let mut x = data(&e, &[4, 16], 1);
    for seed in 2..12 {
        x = layer(&x, seed);
    }
    let schedule = plan(&[&x]);
    assert_eq!(schedule.launches(), 10);
    assert_eq!(schedule.kernels.len(), 1);
    // A chain needs two places at a time.
    assert_eq!(schedule.arena.bytes, 2 * 4 * 16 * 4);
}

#[test]
fn deep_graphs_do_not_overflow_the_stack() {
    let e = engine();
    let one = Tensor::from_slice(&e, &[1f32; 4], &[4]).unwrap();
    let mut x = one.clone();
    for i in 0..100_000 {
        x = if i % 3 == 0 {
            x.add(&one).unwrap()
        } else {
            x.neg().unwrap()
        };
    }
    let schedule = plan(&[&x]);
    assert!(schedule.launches() > 50);
    e.realize(&[&x]).unwrap();
    let expected = (0..100_000).fold(1f32, |x, i| if i % 3 == 0 { x + 1.0 } else { -x });
    assert_eq!(x.to_vec::<f32>().unwrap(), [expected; 4]);
}

#[test]
fn deep_movement_does_not_overflow_the_stack() {
    let e = engine();
    let mut x = Tensor::from_slice(&e, &[1f32, 2.0], &[2]).unwrap();
    for i in 0..20_000 {
        x = match i % 3 {
            0 => x.pad_to(&[1], &[4], 0).unwrap(),
            1 => x.shrink(&[1], &[2]).unwrap(),
            _ => x.flip(&[0]).unwrap(),
        };
    }
    e.realize(&[&x]).unwrap();
    assert_eq!(x.numel(), x.to_vec::<f32>().unwrap().len());
}

#[test]
fn nothing_is_planned_for_empty_tensors() {
    let e = engine();
    let empty = Tensor::from_slice::<f32>(&e, &[], &[0, 3]).unwrap();
    let product = empty.matmul(&data(&e, &[3, 2], 1)).unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap().len(), 0);
    let sum = empty.sum(&[0], false).unwrap();
    assert_eq!(sum.to_vec::<f32>().unwrap(), [0.0; 3]);
    let max = empty.reduce(codegen::ir::ReduceOp::Max, &[0]).unwrap();
    assert_eq!(max.to_vec::<f32>().unwrap(), [f32::NEG_INFINITY; 3]);
    let padded = empty
        .pad_to(&[1, 0], &[2, 3], 1f32.to_bits() as u64)
        .unwrap();
    assert_eq!(padded.to_vec::<f32>().unwrap(), [1.0; 6]);
}

#[test]
fn a_large_row_is_not_left_to_one_core() {
    let e = engine();
    let x = Tensor::zeros(&e, &[1, 1 << 16], DType::F32)
        .unwrap()
        .contiguous()
        .unwrap();
    x.realize().unwrap();
    assert!(kernels(&[&x.softmax(-1).unwrap()]) > 1);
}

#[test]
fn shared_work_is_done_once() {
    let n = check(|e| {
        let x = data(e, &[16, 16], 1).exp().unwrap().sin().unwrap();
        vec![x.add(1.0).unwrap(), x.t().unwrap().matmul(&x).unwrap()]
    });
    // The shared value and the sum in one kernel, then the product.
    assert_eq!(n, 2);
}

/// Types of the operands that the kernels of a plan read, those of loops included.
fn read(plan: &Schedule, found: &mut Vec<DType>) {
    for instance in &plan.kernels {
        let read = instance
            .kernel
            .params
            .iter()
            .filter(|p| !p.written && p.len > 20 * 48);
        found.extend(read.map(|p| p.dtype));
    }
    for step in &plan.steps {
        if let Work::Loop(repeat) = &step.work {
            read(&repeat.body, found);
        }
    }
}

#[test]
fn what_is_multiplied_as_bytes_is_bytes_in_memory() {
    let engine = engine();
    let weight = |seed: u32| {
        let bytes = (0..64 * 48).map(|i: u32| (i.wrapping_mul(seed) >> 7) as u8);
        Tensor::from_bytes(&engine, bytes.collect(), &[64, 48], DType::U8).unwrap()
    };
    let zero = Tensor::from_bytes(&engine, vec![77], &[1], DType::U8).unwrap();
    let numbers = |codes: &Tensor| {
        let zero = zero.cast(DType::I32).unwrap();
        codes.cast(DType::I32).unwrap().sub(&zero).unwrap()
    };
    let codes = |x: &Tensor| {
        let scale = x.max(&[], false).unwrap().div(255.0).unwrap();
        let x = x.div(&scale).unwrap().round().unwrap();
        x.clip(0.0, 255.0).unwrap().cast(DType::U8).unwrap()
    };
    let product = |x: &Tensor, w: &Tensor| {
        let sums = x.matmul_in(&numbers(w), DType::I32).unwrap();
        sums.cast(DType::F32).unwrap()
    };
    // Two products of what is computed once.
    let x = numbers(&codes(&data(&engine, &[20, 64], 3)));
    let both = [product(&x, &weight(40_503)), product(&x, &weight(30_011))];
    // The weight of a loop, each step of which quantises the state.
    let weight = weight(50_021);
    let start = data(&engine, &[1, 64], 5);
    let made = recur(6, Order::Forward, &[&start], &[], |h, _| {
        let sums = product(&numbers(&codes(&h[0])), &weight);
        let next = Tensor::cat(&[&sums, &sums.narrow(1, 0, 16)?], 1)?;
        Ok::<_, tensor::Error>((vec![next], vec![]))
    });
    let last = made.unwrap().last.swap_remove(0);
    let mut found = Vec::new();
    read(&plan(&[&both[0], &both[1], &last]), &mut found);
    assert!(found.contains(&DType::U8), "{found:?}");
    assert!(!found.contains(&DType::I32), "{found:?}");
}
