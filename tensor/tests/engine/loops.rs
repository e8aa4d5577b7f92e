//! Loops with a known number of steps: values, gradients, and what they cost.
use crate::support;

use tensor::exec::{DeviceExecutor, Interpreter};
use tensor::loops::{Order, Recurrence, recur};
use tensor::schedule::{BufferId, BufferKind, Limits, OutputRequest, Schedule, Work};
use tensor::{DType, Engine, Error, Frozen, Jit, Result, Tensor};

/// Numbers without pattern, small.
fn data(engine: &Engine, shape: &[usize], seed: u32) -> Tensor {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            (x >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect();
    Tensor::from_slice(engine, &values, shape).unwrap()
}

/// An LSTM over `[steps, batch, width]`.
struct Lstm {
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    h: Tensor,
    c: Tensor,
}

impl Lstm {
    fn new(engine: &Engine, steps: usize, batch: usize, width: usize, hidden: usize) -> Lstm {
        Lstm {
            x: data(engine, &[steps, batch, width], 1),
            w: data(engine, &[width, 4 * hidden], 2),
            r: data(engine, &[hidden, 4 * hidden], 3),
            b: data(engine, &[4 * hidden], 4),
            h: data(engine, &[batch, hidden], 5),
            c: data(engine, &[batch, hidden], 6),
        }
    }

    fn step(&self, h: &Tensor, c: &Tensor, x: &Tensor) -> Result<Vec<Tensor>> {
        let gates = x.matmul(&self.w)?.add(&h.matmul(&self.r)?)?.add(&self.b)?;
        let n = h.shape()[1];
        let gate = |i: usize| gates.narrow(-1, i * n, n);
        let kept = gate(0)?.sigmoid()?.mul(c)?;
        let c = kept.add(&gate(1)?.sigmoid()?.mul(&gate(2)?.tanh()?)?)?;
        Ok(vec![gate(3)?.sigmoid()?.mul(&c.tanh()?)?, c])
    }

    fn looped(&self, order: Order) -> Result<Recurrence> {
        let steps = self.x.shape()[0];
        recur(steps, order, &[&self.h, &self.c], &[&self.x], |s, x| {
            Ok::<_, Error>((self.step(&s[0], &s[1], &x[0])?, vec![]))
        })
    }

    /// The same without a loop: hidden states in the rows of their inputs, last hidden state and cell.
    fn unrolled(&self, order: Order) -> Result<[Tensor; 3]> {
        let steps = self.x.shape()[0];
        let mut state = vec![self.h.clone(), self.c.clone()];
        let mut all = Vec::new();
        for i in 0..steps {
            let at = match order {
                Order::Forward => i,
                Order::Backward => steps - 1 - i,
            };
            state = self.step(&state[0], &state[1], &self.x.index(0, at as isize)?)?;
            all.push(state[0].clone());
        }
        if order == Order::Backward {
            all.reverse();
        }
        let all = Tensor::stack(&all.iter().collect::<Vec<_>>(), 0)?;
        Ok([all, state[0].clone(), state[1].clone()])
    }
}

fn near(a: &Tensor, b: &Tensor) {
    assert_eq!(a.shape(), b.shape());
    let (a, b) = (a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap());
    for (i, (p, q)) in a.iter().zip(&b).enumerate() {
        assert!(
            (p - q).abs() <= 1e-4 * (1.0 + q.abs()),
            "element {i}: {p} and {q}"
        );
    }
}

fn engines() -> Vec<Engine> {
    let plain = Interpreter::engine(Limits::default(), false);
    vec![Engine::reference(), plain, support::engine()]
}

fn plan(roots: &[&Tensor]) -> Schedule {
    let wanted = roots.iter().map(|&t| OutputRequest {
        value: t.clone(),
        into: None,
    });
    Schedule::new(&wanted.collect::<Vec<_>>(), &Limits::default())
}

#[test]
fn a_loop_is_its_steps_one_after_the_other() {
    let reference = Engine::reference();
    for (steps, batch) in [(1, 1), (2, 3), (7, 1), (6, 2)] {
        for order in [Order::Forward, Order::Backward] {
            let want = Lstm::new(&reference, steps, batch, 5, 4)
                .unrolled(order)
                .unwrap();
            for engine in engines() {
                let lstm = Lstm::new(&engine, steps, batch, 5, 4);
                // Rows and last states, alone and together, take different places.
                let made = lstm.looped(order).unwrap();
                near(&made.last[1], &want[2]);
                let made = lstm.looped(order).unwrap();
                near(&made.states[0], &want[0]);
                let made = lstm.looped(order).unwrap();
                let all = [&made.states[0], &made.last[0], &made.last[1]];
                engine.realize(&all).unwrap();
                for (ours, want) in all.into_iter().zip(&want) {
                    near(ours, want);
                }
            }
        }
    }
}

#[test]
fn outputs_may_be_anything_that_a_step_has() {
    for engine in engines() {
        let x = Tensor::from_slice(&engine, &[1.0f32, 2.0, 3.0], &[3]).unwrap();
        let n = Tensor::from_slice(&engine, &[10i32], &[]).unwrap();
        let two = Tensor::from_slice(&engine, &[2.0f32], &[]).unwrap();
        let made = recur(3, Order::Forward, &[&n, &two], &[&x], |s, x| {
            // A state that counts, one that stays, a state as it was, an input, a constant, and
            // something from outside.
            let next = vec![s[0].add(1)?, s[1].clone()];
            let sum = x[0].add(&s[0].cast(DType::F32)?)?.mul(&two)?;
            let one = Tensor::full(&engine, &[2], 7, DType::I32)?;
            Ok::<_, Error>((next, vec![s[0].clone(), x[0].clone(), one, sum, two.neg()?]))
        })
        .unwrap();
        let i = |t: &Tensor| t.to_vec::<i32>().unwrap();
        let f = |t: &Tensor| t.to_vec::<f32>().unwrap();
        assert_eq!(i(&made.last[0]), [13]);
        assert_eq!(f(&made.last[1]), [2.0]);
        assert_eq!(i(&made.states[0]), [11, 12, 13]);
        assert_eq!(i(&made.outputs[0]), [10, 11, 12]);
        assert_eq!(f(&made.outputs[1]), [1.0, 2.0, 3.0]);
        assert_eq!(i(&made.outputs[2]), [7; 6]);
        assert_eq!(f(&made.outputs[3]), [22.0, 26.0, 30.0]);
        assert_eq!(f(&made.outputs[4]), [-2.0; 3]);
    }
}

#[test]
fn two_states_may_change_places_and_loops_be_in_loops() {
    for engine in engines() {
        let a = Tensor::from_slice(&engine, &[1.0f32, 2.0], &[2]).unwrap();
        let b = Tensor::from_slice(&engine, &[3.0f32, 5.0], &[2]).unwrap();
        let made = recur(3, Order::Forward, &[&a, &b], &[], |s, _| {
            Ok::<_, Error>((vec![s[1].clone(), s[0].clone()], vec![]))
        })
        .unwrap();
        assert_eq!(made.last[0].to_vec::<f32>().unwrap(), [3.0, 5.0]);
        assert_eq!(made.last[1].to_vec::<f32>().unwrap(), [1.0, 2.0]);
        // x <- sum over the inner loop of (2 x + row), 2 outer steps, 3 inner ones.
        let rows = data(&engine, &[3, 2], 9);
        let made = recur(2, Order::Forward, &[&a], &[], |s, _| {
            let inner = recur(3, Order::Forward, &[&s[0]], &[&rows], |t, r| {
                Ok::<_, Error>((vec![t[0].mul(2)?.add(&r[0])?], vec![]))
            })?;
            Ok::<_, Error>((inner.last, vec![]))
        })
        .unwrap();
        let mut want = a.clone();
        for i in 0..6 {
            want = want
                .mul(2)
                .unwrap()
                .add(rows.index(0, i % 3).unwrap())
                .unwrap();
        }
        near(&made.last[0], &want);
    }
}

#[test]
fn no_steps_give_what_was_there() {
    for engine in engines() {
        let lstm = Lstm::new(&engine, 0, 2, 3, 4);
        let made = lstm.looped(Order::Forward).unwrap();
        near(&made.last[0], &lstm.h);
        assert_eq!(made.states[1].shape(), [0, 2, 4]);
        assert!(made.states[1].to_vec::<f32>().unwrap().is_empty());
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let engine = Engine::reference();
    let (x, h) = (data(&engine, &[3, 2], 1), data(&engine, &[2], 2));
    let same = |s: &[Tensor], _: &[Tensor]| Ok::<_, Error>((s.to_vec(), vec![]));
    let error = recur(4, Order::Forward, &[&h], &[&x], same)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("4 rows") && error.contains("[3, 2]"),
        "{error}"
    );
    let wide = |s: &[Tensor], _: &[Tensor]| Ok::<_, Error>((vec![s[0].unsqueeze(0)?], vec![]));
    let error = recur(3, Order::Forward, &[&h], &[&x], wide)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("[2] f32") && error.contains("[1, 2] f32"),
        "{error}"
    );
    let error = recur(3, Order::Forward, &[], &[], same)
        .unwrap_err()
        .to_string();
    assert!(error.contains("found none"), "{error}");
    for engine in engines() {
        let (x, h) = (data(&engine, &[3, 2], 1), data(&engine, &[2], 2));
        let mut out = None;
        recur(3, Order::Forward, &[&h], &[&x], |s, x| {
            out = Some(s[0].add(&x[0])?);
            Ok::<_, Error>((s.to_vec(), vec![]))
        })
        .unwrap();
        let error = out.unwrap().to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("inside a loop body"), "{error}");
    }
}

/// What a loop costs does not depend on the number of its steps.
#[test]
fn kernels_and_memory_do_not_grow_with_the_steps() {
    let engine = Interpreter::engine(Limits::default(), false);
    let costs = |steps: usize| {
        let lstm = Lstm::new(&engine, steps, 1, 16, 24);
        let made = lstm.looped(Order::Forward).unwrap();
        let schedule = plan(&[&made.last[0], &made.last[1]]);
        // Those of the loop itself; the product before it has a row per step.
        let in_loop = schedule.counts().iter().filter(|&&n| n == steps).count();
        (schedule.kernels.len(), schedule.steps.len(), in_loop)
    };
    assert_eq!(costs(10), costs(1000));
    // The input product for all steps at once, and two kernels in a step: the product with the
    // state, and the rest.
    assert_eq!(costs(10), (3, 2, 2));
    let work = |steps: usize| {
        let lstm = Lstm::new(&engine, steps, 1, 16, 24);
        let schedule = plan(&[&lstm.looped(Order::Forward).unwrap().last[0]]);
        let rows = (steps * 4 * 24 * 4) as u64;
        schedule.arena.bytes - rows
    };
    assert_eq!(work(16), work(1600));
}

#[test]
fn a_captured_loop_is_replayed() {
    let engine = support::engine();
    let reference = Engine::reference();
    for batch in [1, 3] {
        let lstm = Lstm::new(&engine, 9, batch, 40, 32);
        let call = |x: &[Tensor]| {
            let own = Lstm {
                x: x[0].clone(),
                w: lstm.w.clone(),
                r: lstm.r.clone(),
                b: lstm.b.clone(),
                h: lstm.h.clone(),
                c: lstm.c.clone(),
            };
            let made = own.looped(Order::Forward)?;
            Ok(vec![made.states[0].clone(), made.last[1].clone()])
        };
        let signature = [(lstm.x.shape().to_vec(), DType::F32)];
        let frozen = Frozen::capture(&engine, &signature, call).unwrap();
        let jit = Jit::new(&engine, call);
        for seed in 20..23 {
            let x = data(&engine, lstm.x.shape(), seed);
            let mut want = Lstm::new(&reference, 9, batch, 40, 32);
            want.x = data(&reference, lstm.x.shape(), seed);
            let want = want.unrolled(Order::Forward).unwrap();
            let x = std::slice::from_ref(&x);
            for out in [frozen.call(x).unwrap(), jit.call(x).unwrap()] {
                near(&out[0], &want[0]);
                near(&out[1], &want[2]);
            }
        }
    }
}

#[test]
fn code_does_not_grow_with_the_steps() {
    let compiled = |steps: usize| {
        let engine = support::engine();
        let lstm = Lstm::new(&engine, steps, 1, 12, 20);
        // Without the input product, which is over all steps at once.
        let x = data(&engine, &[steps, 1, 80], 3);
        let made = recur(steps, Order::Forward, &[&lstm.h, &lstm.c], &[&x], |s, x| {
            let zero = Tensor::zeros(&engine, &[1, 12], DType::F32)?;
            let gates = lstm.step(&s[0].add(&x[0].narrow(1, 0, 20)?)?, &s[1], &zero)?;
            Ok::<_, Error>((gates, vec![]))
        })
        .unwrap();
        engine.realize(&[&made.last[0]]).unwrap();
        DeviceExecutor::of(&engine).unwrap().compiled_kernels()
    };
    assert_eq!(compiled(10), compiled(1000));
}

#[test]
fn gradients_through_a_loop_are_those_of_its_steps() {
    for order in [Order::Forward, Order::Backward] {
        for (steps, batch) in [(1, 2), (5, 1), (4, 3)] {
            for engine in engines() {
                let lstm = Lstm::new(&engine, steps, batch, 3, 4);
                let with = [&lstm.x, &lstm.w, &lstm.r, &lstm.b, &lstm.h, &lstm.c];
                let seeds = [
                    data(&engine, &[steps, batch, 4], 30),
                    data(&engine, &[batch, 4], 31),
                ];
                let loss = |all: &Tensor, cell: &Tensor| {
                    let a = all.mul(&seeds[0])?.sum(&[], false)?;
                    a.add(&cell.mul(&seeds[1])?.square()?.sum(&[], false)?)
                };
                let made = lstm.looped(order).unwrap();
                let [all, _, cell] = lstm.unrolled(order).unwrap();
                let ours = loss(&made.states[0], &made.last[1]).unwrap();
                let ours = tensor::gradients(&ours, &with).unwrap();
                let want = tensor::gradients(&loss(&all, &cell).unwrap(), &with).unwrap();
                for (ours, want) in ours.iter().zip(&want) {
                    near(ours, want);
                }
            }
        }
    }
}

#[test]
fn second_derivatives_go_through_loops() {
    let engine = Engine::reference();
    let x = Tensor::from_slice(&engine, &[0.3f64], &[]).unwrap();
    let start = Tensor::from_slice(&engine, &[0.5f64], &[]).unwrap();
    let made = recur(4, Order::Forward, &[&start], &[], |s, _| {
        Ok::<_, Error>((vec![s[0].mul(&x)?.sin()?], vec![]))
    })
    .unwrap();
    let mut want = start.clone();
    for _ in 0..4 {
        want = want.mul(&x).unwrap().sin().unwrap();
    }
    let twice = |y: &Tensor| {
        let first = tensor::gradients(y, &[&x]).unwrap().remove(0);
        let second = tensor::gradients(&first, &[&x]).unwrap().remove(0);
        (first.item::<f64>().unwrap(), second.item::<f64>().unwrap())
    };
    let (ours, want) = (twice(&made.last[0]), twice(&want));
    assert!(
        (ours.0 - want.0).abs() < 1e-12 && (ours.1 - want.1).abs() < 1e-12,
        "{ours:?} {want:?}"
    );
}

/// A state that nobody wants is written all the same: beside the temporaries of a step, not over them.
#[test]
fn states_that_nobody_wants_have_a_place() {
    let engine = Interpreter::engine(Limits::default(), false);
    for steps in [1, 2, 5] {
        let lstm = Lstm::new(&engine, steps, 2, 3, 4);
        let made = lstm.looped(Order::Forward).unwrap();
        for wanted in [&made.states[0], &made.last[0], &made.last[1]] {
            let schedule = plan(&[wanted]);
            let loops = schedule.steps.iter().filter_map(|s| match &s.work {
                Work::Loop(repeat) => Some(repeat),
                _ => None,
            });
            let mut seen = 0;
            for repeat in loops {
                let buffers = &repeat.body.buffers;
                for (i, info) in buffers.iter().enumerate() {
                    let b = BufferId(i as u32);
                    let result = matches!(info.kind, BufferKind::Result(_));
                    for step in (0..steps).filter(|&step| result && repeat.works(b, step)) {
                        let offset = repeat.part(b, step).offset;
                        assert!(offset >= repeat.body.arena.bytes, "{steps} {i} {offset}");
                        assert!(offset + info.bytes() <= repeat.workspace_bytes);
                        seen += 1;
                    }
                }
            }
            assert!(seen > 0);
        }
    }
}

/// The gradient of a weight is one product over all steps, and no sum that is carried.
#[test]
fn the_gradient_of_a_weight_is_one_product() {
    let engine = Interpreter::engine(Limits::default(), false);
    let costs = |steps: usize| {
        let lstm = Lstm::new(&engine, steps, 4, 16, 24);
        let made = lstm.looped(Order::Forward).unwrap();
        let loss = made.states[0].sum(&[], false).unwrap();
        let with = [&lstm.w, &lstm.r, &lstm.b];
        let slopes = tensor::gradients(&loss, &with).unwrap();
        let schedule = plan(&slopes.iter().collect::<Vec<_>>());
        (schedule.kernels.len(), schedule.steps.len())
    };
    assert_eq!(costs(10), costs(400));
}
