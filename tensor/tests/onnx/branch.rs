//! If on data, on the CPU device: both branches in one captured graph where that is little work, one
//! of them at every run elsewhere.

use crate::support;

use support::engine;
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model, Session};
use tensor::{DType, Engine, Tensor};

/// More floats than an input may have to be specialised.
const N: usize = 20;

fn floats() -> tensor::onnx::Type {
    write::tensor(DType::F32, &[Dim::Any])
}

/// A model whose input is `x`, with the truth `positive`, whether the sum of `x` is, and the numbers
/// `zero`, `two` and `on`.
fn on_sum(engine: &Engine) -> Writer {
    let mut model = Writer::new("on data", 17);
    model.input("x", &floats());
    let number = |n: f32| Tensor::from_slice(engine, &[n], &[1]).unwrap();
    model.constant("zero", &number(0.0)).unwrap();
    model.constant("two", &number(2.0)).unwrap();
    model.node("ReduceSum", &["x"], &["sum"], [write::int("keepdims", 1)]);
    model.node("Greater", &["sum", "zero"], &["positive"], []);
    model
}

/// A branch of one node.
fn side(name: &str, op: &str, inputs: &[&str]) -> Writer {
    let mut side = Writer::new(name, 17);
    side.node(op, inputs, &[name], []);
    side.output(name, &floats());
    side
}

fn choose(model: &mut Writer, condition: &str, output: &str, yes: Writer, no: Writer) {
    let branches = [
        write::graph("then_branch", yes.into_graph()),
        write::graph("else_branch", no.into_graph()),
    ];
    model.node("If", &[condition], &[output], branches);
}

fn session(engine: &Engine, mut model: Writer) -> Session {
    model.output("y", &floats());
    let model = Model::from_bytes("on data", model.finish()).unwrap();
    model.on(engine)
}

/// The first element of `y` for `N` times this number, and how many elements there are.
fn first(engine: &Engine, session: &Session, x: f32) -> (f32, usize) {
    let x = Tensor::from_slice(engine, &[x; N], &[N]).unwrap();
    let outputs = session.run([("x", x)]).unwrap();
    let y: Vec<f32> = outputs.tensor("y").unwrap().to_vec().unwrap();
    (y[0], y.len())
}

#[test]
fn both_branches_are_captured_and_one_is_selected() {
    let engine = engine();
    let mut model = on_sum(&engine);
    let (yes, no) = (side("a", "Mul", &["x", "two"]), side("b", "Neg", &["x"]));
    choose(&mut model, "positive", "y", yes, no);
    let session = session(&engine, model);
    for (x, wanted) in [(1.5, 3.0), (-2.0, 2.0), (4.0, 8.0), (0.0, 0.0)] {
        assert_eq!(first(&engine, &session, x), (wanted, N));
    }
    assert_eq!(session.captures(), 1);
}

#[test]
fn a_branch_within_a_branch_is_selected_too() {
    let engine = engine();
    let mut model = on_sum(&engine);
    let mut yes = Writer::new("yes", 17);
    yes.node("Greater", &["sum", "two"], &["large"], []);
    let (inner, other) = (side("a", "Mul", &["x", "two"]), side("b", "Exp", &["x"]));
    choose(&mut yes, "large", "c", inner, other);
    yes.output("c", &floats());
    choose(&mut model, "positive", "y", yes, side("d", "Neg", &["x"]));
    let session = session(&engine, model);
    let small: f32 = 1.0 / 64.0;
    for (x, wanted) in [(1.0, 2.0), (small, small.exp()), (-1.0, 1.0)] {
        let (y, n) = first(&engine, &session, x);
        assert!((y - wanted).abs() < 1e-6 && n == N, "{x}: {y}");
    }
    assert_eq!(session.captures(), 1);
}

#[test]
fn what_the_other_branch_makes_of_it_does_not_leak() {
    let engine = engine();
    let mut model = on_sum(&engine);
    // The root of a negative number, and a quotient by zero.
    let (yes, no) = (side("a", "Sqrt", &["x"]), side("b", "Div", &["x", "sum"]));
    choose(&mut model, "positive", "y", yes, no);
    let session = session(&engine, model);
    let twentieth = 1.0 / N as f32;
    for (x, wanted) in [(4.0, 2.0), (-3.0, twentieth), (9.0, 3.0)] {
        let (y, _) = first(&engine, &session, x);
        assert!((y - wanted).abs() < 1e-6, "{x}: {y}");
    }
    assert!(first(&engine, &session, 0.0).0.is_nan());
    assert_eq!(session.captures(), 1);
}

/// An index is only wrong where it is needed.
#[test]
fn indices_of_the_other_branch_are_not_looked_at() {
    let engine = engine();
    for turned in [false, true] {
        let mut model = on_sum(&engine);
        let to = write::int("to", 7);
        model.node("Cast", &["sum"], &["at"], [to]);
        let (yes, no) = (
            side("a", "Gather", &["x", "at"]),
            side("b", "Neg", &["sum"]),
        );
        if turned {
            model.node("Not", &["positive"], &["negative"], []);
            choose(&mut model, "negative", "y", no, yes);
        } else {
            choose(&mut model, "positive", "y", yes, no);
        }
        let session = session(&engine, model);
        assert_eq!(first(&engine, &session, 0.25), (0.25, 1));
        assert_eq!(first(&engine, &session, -2.0), (40.0, 1));
        engine.synchronize().unwrap();
        let x = Tensor::from_slice(&engine, &[2.0f32; N], &[N]).unwrap();
        let outputs = session.run([("x", x)]).unwrap();
        let said = outputs.tensor("y").unwrap().to_vec::<f32>();
        let said = said.unwrap_err().to_string();
        assert!(
            said.contains("index 40 is") && said.contains("20 elements"),
            "{said}"
        );
        assert_eq!(session.captures(), 1);
    }
}

#[test]
fn branches_of_different_shapes_or_that_need_values_run_one_at_a_time() {
    let engine = engine();
    let others: [fn() -> Writer; 3] = [
        || {
            let mut side = Writer::new("b", 17);
            side.node("Concat", &["x", "x"], &["b"], [write::int("axis", 0)]);
            side.output("b", &floats());
            side
        },
        // Its number of elements hangs on the values.
        || {
            let mut side = Writer::new("b", 17);
            side.node("NonZero", &["x"], &["n"], []);
            side.node("ReduceMax", &["n"], &["m"], [write::int("keepdims", 0)]);
            side.node("CastLike", &["m", "x"], &["f"], []);
            side.node("Add", &["x", "f"], &["b"], []);
            side.output("b", &floats());
            side
        },
        // Large: each element of x with each of a table.
        || {
            let mut side = Writer::new("b", 17);
            let big = [write::ints("value_ints", &[1 << 20, 1])];
            side.node("Constant", &[], &["big"], big);
            side.node("Expand", &["x", "big"], &["all"], []);
            side.node("Exp", &["all"], &["e"], []);
            side.node(
                "ReduceMax",
                &["e"],
                &["b"],
                [write::ints("axes", &[0]), write::int("keepdims", 0)],
            );
            side.output("b", &floats());
            side
        },
    ];
    let wanted = [(-1.0, 2 * N), (18.0, N), ((-1.0f32).exp(), N)];
    for (other, (value, n)) in others.into_iter().zip(wanted) {
        let mut model = on_sum(&engine);
        choose(
            &mut model,
            "positive",
            "y",
            side("a", "Neg", &["x"]),
            other(),
        );
        let session = session(&engine, model);
        for _ in 0..2 {
            assert_eq!(first(&engine, &session, 1.0), (-1.0, N));
            let (y, found) = first(&engine, &session, -1.0);
            assert!((y - value).abs() < 1e-4 && found == n, "{y}, {found}");
        }
        assert_eq!(session.captures(), 0);
    }
}

#[test]
fn a_branch_that_does_not_fit_is_an_error_only_when_it_is_taken() {
    let engine = engine();
    let mut model = on_sum(&engine);
    let three = Tensor::from_slice(&engine, &[1.0f32; 3], &[3]).unwrap();
    model.constant("three", &three).unwrap();
    let (yes, no) = (side("a", "Neg", &["x"]), side("b", "Add", &["x", "three"]));
    choose(&mut model, "positive", "y", yes, no);
    let session = session(&engine, model);
    assert_eq!(first(&engine, &session, 1.0), (-1.0, N));
    let x = Tensor::from_slice(&engine, &[-1.0f32; N], &[N]).unwrap();
    let error = session.run([("x", x)]).unwrap_err().to_string();
    assert!(error.contains("Add"), "{error}");
}

#[test]
fn a_loop_whose_body_chooses_is_traced_once() {
    let engine = engine();
    let mut model = on_sum(&engine);
    // Doubles while the sum is positive and below a bound, then turns the sign.
    let mut body = Writer::new("body", 17);
    body.input("i", &write::tensor(DType::I64, &[]));
    body.input("go", &write::tensor(DType::Bool, &[]));
    body.input("a", &floats());
    body.node("Identity", &["go"], &["on"], []);
    body.node("ReduceMax", &["a"], &["most"], [write::int("keepdims", 1)]);
    body.node("Less", &["most", "two"], &["small"], []);
    let (yes, no) = (side("s", "Add", &["a", "a"]), side("t", "Neg", &["a"]));
    choose(&mut body, "small", "b", yes, no);
    body.output("on", &write::tensor(DType::Bool, &[]));
    body.output("b", &floats());
    let trips = Tensor::from_slice(&engine, &[6i64], &[1]).unwrap();
    model.constant("trips", &trips).unwrap();
    let body = [write::graph("body", body.into_graph())];
    model.node("Loop", &["trips", "", "x"], &["y"], body);
    let session = session(&engine, model);
    for x in [1.0f32, 0.25, -1.0] {
        let wanted = (0..6).fold(x, |a, _| if a < 2.0 { a + a } else { -a });
        assert_eq!(first(&engine, &session, x), (wanted, N));
    }
    assert_eq!(session.captures(), 1);
}
