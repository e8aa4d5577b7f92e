//! Indices out of range: an error where the host knows them, and of the next wait where a device does.

use super::support;
use codegen::ir::ReduceOp;
use tensor::graph::ScatterMode;
use tensor::loops::{Order, recur};
use tensor::ops::loss::{Classes, Reduction};
use tensor::ops::movement::PadMode;
use tensor::{DType, Engine, Error, Jit, Result, Tensor, gradients};

fn table(e: &Engine) -> Tensor {
    let rows: Vec<f32> = (1..=6).map(|i| i as f32).collect();
    Tensor::from_slice(e, &rows, &[3, 2]).unwrap()
}

fn vector(e: &Engine, index: &[i64]) -> Tensor {
    Tensor::from_slice(e, index, &[index.len()]).unwrap()
}

#[test]
fn known_indices_out_of_range_are_errors() {
    let e = Engine::reference();
    let t = table(&e);
    let logs = t.log_softmax(1).unwrap();
    let classes = Classes::default();
    let cases: Vec<(&str, Result<Tensor>)> = vec![
        (
            "gather",
            t.gather(0, &vector(&e, &[0, 3]).reshape(&[1, 2]).unwrap()),
        ),
        (
            "gather",
            t.gather(0, &Tensor::full(&e, &[1, 2], 3, DType::I32).unwrap()),
        ),
        (
            "gather",
            t.gather(1, &vector(&e, &[-3]).unsqueeze(0).unwrap()),
        ),
        ("index_select", t.index_select(0, &vector(&e, &[0, 3]))),
        ("index_select", t.index_select(-1, &vector(&e, &[-3]))),
        ("take", t.take(&vector(&e, &[6]))),
        (
            "take",
            t.take(&vector(&e, &[5, -7]).reshape(&[2, 1]).unwrap()),
        ),
        ("embedding", t.embedding(&vector(&e, &[1, 2, i64::MAX]))),
        (
            "embedding",
            t.embedding(&vector(&e, &[9]).cast(DType::I32).unwrap()),
        ),
        ("nll_loss", logs.nll_loss(&vector(&e, &[0, 1, 2]), &classes)),
        (
            "nll_loss",
            logs.nll_loss(&vector(&e, &[0, 1, -1]), &classes),
        ),
        (
            "cross_entropy",
            t.cross_entropy(&vector(&e, &[0, 1, -100]), &classes),
        ),
        ("gather_nd", t.gather_nd(&vector(&e, &[2, 2]), 0)),
        ("scatter_add", {
            let one = Tensor::ones(&e, &[1, 2], DType::F32).unwrap();
            t.scatter_add(0, &vector(&e, &[0, 3]).unsqueeze(0).unwrap(), &one)
        }),
        ("scatter_nd", {
            let one = Tensor::ones(&e, &[1, 2], DType::F32).unwrap();
            t.scatter_nd(
                &vector(&e, &[3]).unsqueeze(0).unwrap(),
                &one,
                ScatterMode::Set,
            )
        }),
    ];
    let mut wrong = Vec::new();
    for (i, (op, made)) in cases.into_iter().enumerate() {
        match made {
            Ok(t) => wrong.push(format!("{i} {op}: {:?}", t.to_f64_vec())),
            Err(e) => {
                let said = e.to_string();
                if !said.starts_with(&format!("{op}: ")) || !said.contains("out of range") {
                    wrong.push(format!("{i} {op}: {said}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn known_indices_in_range_are_taken() {
    let e = Engine::reference();
    let t = table(&e);
    let floats = |t: Result<Tensor>| t.and_then(|t| t.to_vec::<f32>()).unwrap();
    assert_eq!(
        floats(t.embedding(&vector(&e, &[-3, 2]))),
        [1.0, 2.0, 5.0, 6.0]
    );
    assert_eq!(floats(t.take(&vector(&e, &[-1, -6]))), [6.0, 1.0]);
    assert!(floats(t.index_select(0, &vector(&e, &[]))).is_empty());
    // A part of an index is all that counts.
    let part = vector(&e, &[1, 99]).narrow(0, 0, 1).unwrap();
    assert_eq!(floats(t.embedding(&part)), [3.0, 4.0]);
    // What is ignored may be anything.
    let ignoring = Classes {
        ignore: Some(-100),
        reduction: Reduction::None,
        ..Classes::default()
    };
    let losses = t
        .cross_entropy(&vector(&e, &[-100, 1, -100]), &ignoring)
        .unwrap();
    let losses = losses.to_vec::<f32>().unwrap();
    assert!(
        losses[0] == 0.0 && losses[1] > 0.1 && losses[2] == 0.0,
        "{losses:?}"
    );
}

/// An index that the host does not know: it is added to.
fn computed(e: &Engine, index: &[i64]) -> Tensor {
    vector(e, index)
        .add(vector(e, &vec![0; index.len()]))
        .unwrap()
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

/// What a wait said of an index.
fn told<T: std::fmt::Debug>(waited: Result<T>) -> (&'static str, i64, usize) {
    match waited {
        Err(Error::Index { op, index, len, .. }) => (op, index, len),
        other => panic!("expected an index out of range, found {other:?}"),
    }
}

#[test]
fn the_next_wait_tells_of_an_index_that_only_the_device_knows() {
    let e = support::engine();
    let t = table(&e);
    let logs = t.log_softmax(1).unwrap();
    let bad = |index: &[i64]| computed(&e, index);
    let square = |index: &[i64]| bad(index).reshape(&[index.len() / 2, 2]).unwrap();
    let ones = Tensor::ones(&e, &[1, 2], DType::F32).unwrap();
    let add = ScatterMode::Combine(ReduceOp::Add);
    let classes = Classes::default();
    let ignoring = Classes {
        ignore: Some(-100),
        ..Classes::default()
    };
    let cases: Vec<(&str, i64, usize, Result<Tensor>)> = vec![
        ("gather", 3, 3, t.gather(0, &square(&[0, 3]))),
        ("gather", -3, 2, t.gather(1, &square(&[0, 1, -1, -3, 1, 1]))),
        ("index_select", 7, 3, t.index_select(0, &bad(&[0, 7, 2]))),
        ("index_select", -4, 3, t.index_select(0, &bad(&[-3, -4]))),
        ("take", 6, 6, t.take(&bad(&[5, 6]))),
        ("embedding", 1 << 40, 3, t.embedding(&bad(&[1, 2, 1 << 40]))),
        ("gather_nd", 2, 2, t.gather_nd(&square(&[1, 1, 2, 2]), 0)),
        ("nll_loss", 2, 2, logs.nll_loss(&bad(&[0, 1, 2]), &classes)),
        (
            "nll_loss",
            -1,
            2,
            logs.nll_loss(&bad(&[0, 1, -1]), &classes),
        ),
        (
            "cross_entropy",
            -99,
            2,
            t.cross_entropy(&bad(&[-100, 1, -99]), &ignoring),
        ),
        (
            "scatter",
            3,
            3,
            t.scatter(0, &square(&[0, 3]), &ones, ScatterMode::Set),
        ),
        (
            "scatter_add",
            -4,
            3,
            t.scatter_add(0, &square(&[-4, 1]), &ones),
        ),
        (
            "scatter_nd",
            5,
            3,
            t.scatter_nd(&bad(&[5]).unsqueeze(0).unwrap(), &ones, add),
        ),
    ];
    for (op, index, len, made) in cases {
        let made = made.unwrap();
        assert_eq!(told(made.to_vec::<f32>()), (op, index, len));
        // It was told once; what is there can be looked at.
        assert_eq!(floats(&made).len(), made.numel(), "{op}");
    }
    assert_eq!(floats(&t.embedding(&bad(&[-3])).unwrap()), [1.0, 2.0]);
    e.synchronize().unwrap();
}

#[test]
fn the_message_says_what_to_do() {
    let e = support::engine();
    let found = table(&e).embedding(&computed(&e, &[0, 9])).unwrap();
    let said = found.to_vec::<f32>().unwrap_err().to_string();
    for part in ["embedding: ", "index 9", "3 elements", "use -3..3"] {
        assert!(said.contains(part), "{said}");
    }
    // On the host there is nothing to wait for: what computes it says it.
    let e = Engine::reference();
    let found = table(&e).embedding(&computed(&e, &[0, 9])).unwrap();
    assert_eq!(told(found.to_vec::<f32>()), ("embedding", 9, 3));
}

/// A wait for other results tells it as well, and so does one without results.
#[test]
fn any_wait_tells() {
    let e = support::engine();
    let t = table(&e);
    let good = t.add(1.0).unwrap();
    t.take(&computed(&e, &[77])).unwrap().realize().unwrap();
    assert_eq!(told(e.synchronize()), ("take", 77, 6));
    e.synchronize().unwrap();
    assert_eq!(floats(&good)[0], 2.0);
    // Of several, one is told.
    let all = [
        t.take(&computed(&e, &[8])).unwrap(),
        t.embedding(&computed(&e, &[8])).unwrap(),
    ];
    e.realize(&[&all[0], &all[1]]).unwrap();
    assert_eq!(told(e.synchronize()).1, 8);
    e.synchronize().unwrap();
}

/// Lanes and work-items beyond the end, paddings, and parts that nobody asks for are no mistakes.
#[test]
fn what_is_not_needed_is_not_told() {
    let e = support::engine();
    for n in [1usize, 7, 33, 1001] {
        let rows = Tensor::iota(&e, n, DType::I64).unwrap();
        let rows = rows.cast(DType::F32).unwrap().contiguous().unwrap();
        // Right for n of them: another one would be out of range.
        let last = Tensor::full(&e, &[], n as i64 - 1, DType::I64).unwrap();
        let index = Tensor::iota(&e, n, DType::I64).unwrap();
        let index = last.contiguous().unwrap().sub(&index).unwrap();
        let back = rows.take(&index).unwrap();
        let want: Vec<f32> = (0..n).rev().map(|i| i as f32).collect();
        assert_eq!(floats(&back), want);
        let padded = back.pad(&[(3, 5)], PadMode::Constant(0.into())).unwrap();
        assert_eq!(floats(&padded)[3..n + 3], want);
        let sum = back.sum(&[], false).unwrap().item::<f32>().unwrap();
        assert_eq!(sum, want.iter().sum::<f32>());
        // A table of rows, in a product.
        let table = Tensor::full(&e, &[n, 9], 0.5, DType::F32).unwrap();
        let table = table.contiguous().unwrap().embedding(&index).unwrap();
        let product = table.matmul(&table.t().unwrap()).unwrap();
        assert!(floats(&product).iter().all(|&x| x == 2.25));
        // Behind the end, and cut off.
        let part = rows
            .take(&index.sub(1).unwrap().add(&last).unwrap())
            .unwrap();
        let part = part.narrow(0, n - 1, 1).unwrap();
        if n > 1 {
            assert_eq!(floats(&part), [n as f32 - 2.0]);
        }
        e.synchronize().unwrap();
    }
}

#[test]
fn each_replay_is_looked_at() {
    let e = support::engine();
    let t = table(&e);
    let read = Jit::new(&e, |x: &[Tensor]| {
        Ok(vec![t.embedding(&x[0])?.sum(&[1], false)?])
    });
    let call = |index: &[i64]| read.call(&[vector(&e, index)]).unwrap().remove(0);
    for _ in 0..3 {
        assert_eq!(floats(&call(&[0, 2])), [3.0, 11.0]);
        let wrong = call(&[1, 3]);
        assert_eq!(told(wrong.to_vec::<f32>()), ("embedding", 3, 3));
        assert_eq!(floats(&call(&[-1, 1])), [11.0, 7.0]);
        call(&[1, -9]);
        assert_eq!(told(e.synchronize()), ("embedding", -9, 3));
    }
}

#[test]
fn each_step_of_a_loop_is_looked_at() {
    let e = support::engine();
    let t = table(&e).contiguous().unwrap();
    let walk = |index: &[i64]| {
        let rows = vector(&e, index).contiguous().unwrap();
        let rows = rows
            .add(rows.zeros_like().unwrap())
            .unwrap()
            .unsqueeze(1)
            .unwrap();
        let start = Tensor::zeros(&e, &[1, 2], DType::F32).unwrap();
        let made = recur(index.len(), Order::Forward, &[&start], &[&rows], |s, x| {
            let row = t.embedding(&x[0])?;
            Ok::<_, Error>((vec![s[0].mul(0.5)?.add(&row)?], vec![]))
        });
        made.unwrap().last[0].to_vec::<f32>()
    };
    assert_eq!(walk(&[0, 1]).unwrap(), [3.5, 5.0]);
    assert_eq!(told(walk(&[0, 1, 5, 1])), ("embedding", 5, 3));
    assert_eq!(walk(&[0, 1]).unwrap(), [3.5, 5.0]);
}

/// Of gradients, too: the index is the same, and told once.
#[test]
fn training_goes_on_after_a_wrong_label() {
    let e = support::engine();
    let w = Tensor::full(&e, &[3, 4], 0.25, DType::F32).unwrap();
    let w = w.contiguous().unwrap();
    let slope = |labels: &[i64]| {
        let loss = w.cross_entropy(&computed(&e, labels), &Classes::default())?;
        gradients(&loss, &[&w])?[0].to_vec::<f32>()
    };
    assert_eq!(told(slope(&[0, 4, 1])), ("cross_entropy", 4, 4));
    let found = slope(&[0, 3, 1]).unwrap();
    assert!((found[0] + 0.25).abs() < 1e-6 && (found[1] - 1.0 / 12.0).abs() < 1e-6);
}

#[test]
fn an_index_of_work_under_way_keeps_its_bounds() {
    let e = support::engine();
    let executor = tensor::exec::DeviceExecutor::of(&e).unwrap();
    let gate = executor.device().signal("gate").unwrap();
    let wait = hcq::Command::Wait {
        signal: &gate,
        value: 1u64.into(),
    };
    executor.stream().submit(&[], &[wait]).unwrap();
    let of = |len: usize, index: i64| {
        let table = Tensor::from_slice(&e, &vec![1.0f32; len], &[len]).unwrap();
        table.index_select(0, &computed(&e, &[index])).unwrap()
    };
    of(3, 9).realize().unwrap();
    // Nobody has that tensor any more, and the words for bounds run out.
    (0..2000).for_each(|i| drop(of(i + 4, 0)));
    gate.set(1).unwrap();
    let (_, index, len) = told(executor.synchronize());
    assert_eq!((index, len), (9, 3));
}
