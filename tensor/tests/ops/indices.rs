//! Indices out of range: an error where the host knows them.

use super::support;
use tensor::ops::loss::{Classes, Reduction};
use tensor::{DType, Engine, Result, Tensor};

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
            "nll_loss",
            t.cross_entropy(&vector(&e, &[0, 1, -100]), &classes),
        ),
        ("gather_nd", t.gather_nd(&vector(&e, &[2, 2]), 0)),
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

/// What only the device knows reads 0, as is documented.
#[test]
fn unknown_indices_out_of_range_read_zero() {
    let e = support::engine();
    let t = table(&e);
    let index = vector(&e, &[0, 2]).add(1).unwrap();
    let index = index.contiguous().unwrap();
    index.realize().unwrap();
    let found = t.embedding(&index).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(found, [3.0, 4.0, 0.0, 0.0]);
}
