//! Recurrent layers of models, and loops that are written out as such, on the CPU device: values
//! against plain arithmetic, and what they cost.

use crate::support;

use support::engine;
use tensor::onnx::proto::AttributeProto;
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model, Session};
use tensor::schedule::Schedule;
use tensor::{DType, Engine, Tensor};

/// Numbers without pattern, within -0.5..0.5.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut x = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (x >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(next).collect()
}

fn dims(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Fixed(n)).collect()
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Lstm,
    Gru,
    Rnn,
}

/// A layer with everything that the format has.
#[derive(Clone)]
struct Layer {
    kind: Kind,
    direction: &'static str,
    steps: usize,
    batch: usize,
    width: usize,
    hidden: usize,
    lens: Option<Vec<i32>>,
    peepholes: bool,
    states: bool,
    bias: bool,
    clip: Option<f32>,
    input_forget: bool,
    linear_before_reset: bool,
    /// One list for all directions.
    activations: Option<Vec<&'static str>>,
    batch_first: bool,
}

const LAYER: Layer = Layer {
    kind: Kind::Lstm,
    direction: "forward",
    steps: 6,
    batch: 2,
    width: 3,
    hidden: 4,
    lens: None,
    peepholes: false,
    states: false,
    bias: true,
    clip: None,
    input_forget: false,
    linear_before_reset: false,
    activations: None,
    batch_first: false,
};

impl Layer {
    fn directions(&self) -> Vec<bool> {
        match self.direction {
            "forward" => vec![false],
            "reverse" => vec![true],
            _ => vec![false, true],
        }
    }

    fn gates(&self) -> usize {
        match self.kind {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Rnn => 1,
        }
    }

    fn x(&self) -> Vec<f32> {
        numbers(self.steps * self.batch * self.width, 1)
    }

    /// Weights, recurrent weights, bias, initial hidden state and cell, peepholes.
    fn parts(&self) -> [Vec<f32>; 6] {
        let (d, h) = (self.directions().len(), self.hidden);
        let rows = self.gates() * h;
        let or = |there: bool, values: Vec<f32>| match there {
            true => values,
            false => vec![0.0; values.len()],
        };
        [
            numbers(d * rows * self.width, 2),
            numbers(d * rows * h, 3),
            or(self.bias, numbers(d * 2 * rows, 4)),
            or(self.states, numbers(d * self.batch * h, 5)),
            or(self.states, numbers(d * self.batch * h, 6)),
            or(self.peepholes, numbers(d * 3 * h, 7)),
        ]
    }

    fn names(&self) -> Vec<&'static str> {
        let defaults = match self.kind {
            Kind::Lstm => vec!["Sigmoid", "Tanh", "Tanh"],
            Kind::Gru => vec!["Sigmoid", "Tanh"],
            Kind::Rnn => vec!["Tanh"],
        };
        let given = self.activations.clone();
        given.unwrap_or_else(|| defaults.repeat(self.directions().len()))
    }

    /// `[steps, batch, ..]` or `[batch, steps, ..]`.
    fn turned(&self, x: &[f32], width: usize) -> Vec<f32> {
        if !self.batch_first {
            return x.to_vec();
        }
        let mut out = Vec::new();
        for b in 0..self.batch {
            for t in 0..self.steps {
                out.extend_from_slice(&x[(t * self.batch + b) * width..][..width]);
            }
        }
        out
    }

    fn model(&self) -> Writer {
        let host = Engine::reference();
        let (d, h, rows) = (
            self.directions().len(),
            self.hidden,
            self.gates() * self.hidden,
        );
        let mut model = Writer::new("layer", 17);
        let x = match self.batch_first {
            false => [self.steps, self.batch, self.width],
            true => [self.batch, self.steps, self.width],
        };
        model.input("x", &write::tensor(DType::F32, &dims(&x)));
        let state = match self.batch_first {
            false => [d, self.batch, h],
            true => [self.batch, d, h],
        };
        let [w, r, b, h0, c0, p] = self.parts();
        let turn = |s: &[f32]| match self.batch_first {
            false => s.to_vec(),
            true => {
                let mut out = Vec::new();
                for b in 0..self.batch {
                    for d in 0..d {
                        out.extend_from_slice(&s[(d * self.batch + b) * h..][..h]);
                    }
                }
                out
            }
        };
        let mut put = |name: &str, values: &[f32], shape: &[usize]| {
            let t = Tensor::from_slice(&host, values, shape).unwrap();
            model.constant(name, &t).unwrap();
        };
        put("w", &w, &[d, rows, self.width]);
        put("r", &r, &[d, rows, h]);
        put("b", &b, &[d, 2 * rows]);
        put("h0", &turn(&h0), &state);
        put("c0", &turn(&c0), &state);
        put("p", &p, &[d, 3 * h]);
        if let Some(lens) = &self.lens {
            let t = Tensor::from_slice(&host, lens, &[self.batch]).unwrap();
            model.constant("lens", &t).unwrap();
        }
        let lens = if self.lens.is_some() { "lens" } else { "" };
        let on = |there: bool, name: &'static str| if there { name } else { "" };
        let mut inputs = vec![
            "x",
            "w",
            "r",
            on(self.bias, "b"),
            lens,
            on(self.states, "h0"),
        ];
        let mut outputs = vec!["y", "h"];
        if self.kind == Kind::Lstm {
            inputs.extend([on(self.states, "c0"), on(self.peepholes, "p")]);
            outputs.push("c");
        }
        let mut attributes: Vec<AttributeProto> = vec![
            write::int("hidden_size", h as i64),
            write::string("direction", self.direction),
            write::int("input_forget", i64::from(self.input_forget)),
            write::int("linear_before_reset", i64::from(self.linear_before_reset)),
            write::int("layout", i64::from(self.batch_first)),
        ];
        attributes.extend(self.clip.map(|clip| write::float("clip", clip)));
        if self.activations.is_some() {
            let mut list = write::string("activations", "");
            list.r#type = 8;
            list.s = Default::default();
            list.strings = self.names().iter().map(|n| n.to_string().into()).collect();
            attributes.push(list);
        }
        if self.kind != Kind::Lstm {
            attributes.retain(|a| a.name != "input_forget");
        }
        if self.kind != Kind::Gru {
            attributes.retain(|a| a.name != "linear_before_reset");
        }
        let op = match self.kind {
            Kind::Lstm => "LSTM",
            Kind::Gru => "GRU",
            Kind::Rnn => "RNN",
        };
        model.node(op, &inputs, &outputs, attributes);
        for name in outputs {
            let rank = if name == "y" { 4 } else { 3 };
            model.output(name, &write::tensor(DType::F32, &vec![Dim::Any; rank]));
        }
        model
    }

    /// Element by element, as the format's text says: y `[steps, directions, batch, hidden]`, last
    /// hidden states and cells `[directions, batch, hidden]`.
    fn expected(&self) -> [Vec<f32>; 3] {
        let (h, rows) = (self.hidden, self.gates() * self.hidden);
        let (x, [w, r, b, h0, c0, p]) = (self.x(), self.parts());
        let directions = self.directions();
        let count = directions.len();
        let mut y = vec![0.0; self.steps * count * self.batch * h];
        let (mut last_h, mut last_c) = (h0, c0);
        let names = self.names();
        let each = names.len() / count;
        for (d, &reverse) in directions.iter().enumerate() {
            let act = |i: usize, v: f32| {
                let v = self.clip.map_or(v, |c| v.clamp(-c, c));
                match names[d * each + i] {
                    "Sigmoid" => 1.0 / (1.0 + (-v).exp()),
                    "Tanh" => v.tanh(),
                    "Relu" => v.max(0.0),
                    "Softsign" => v / (1.0 + v.abs()),
                    other => panic!("{other}"),
                }
            };
            for n in 0..self.batch {
                let len = self.lens.as_ref().map_or(self.steps, |l| l[n] as usize);
                let at = (d * self.batch + n) * h;
                let mut hidden = last_h[at..at + h].to_vec();
                let mut cell = last_c[at..at + h].to_vec();
                for step in 0..len {
                    let t = if reverse { len - 1 - step } else { step };
                    let row = &x[(t * self.batch + n) * self.width..][..self.width];
                    let dot = |m: &[f32], k: usize, v: &[f32]| -> f32 {
                        let m = &m[(d * rows + k) * v.len()..][..v.len()];
                        m.iter().zip(v).map(|(a, b)| a * b).sum()
                    };
                    let bias = |k: usize| b[d * 2 * rows + k];
                    let wx = |k: usize| dot(&w, k, row) + bias(k);
                    let rh = |k: usize, v: &[f32]| dot(&r, k, v) + bias(rows + k);
                    let peep = |i: usize, j: usize| p[d * 3 * h + i * h + j];
                    let old = hidden.clone();
                    match self.kind {
                        Kind::Rnn => {
                            for (j, new) in hidden.iter_mut().enumerate() {
                                *new = act(0, wx(j) + rh(j, &old));
                            }
                        }
                        Kind::Gru => {
                            let gate =
                                |i: usize, j: usize| act(0, wx(i * h + j) + rh(i * h + j, &old));
                            let reset: Vec<f32> = (0..h).map(|j| gate(1, j) * old[j]).collect();
                            for j in 0..h {
                                let inner = match self.linear_before_reset {
                                    true => gate(1, j) * rh(2 * h + j, &old),
                                    false => rh(2 * h + j, &reset),
                                };
                                let new = act(1, wx(2 * h + j) + inner);
                                let z = gate(0, j);
                                hidden[j] = (1.0 - z) * new + z * old[j];
                            }
                        }
                        Kind::Lstm => {
                            for j in 0..h {
                                let sum = |i: usize| wx(i * h + j) + rh(i * h + j, &old);
                                let i = act(0, sum(0) + peep(0, j) * cell[j]);
                                let f = match self.input_forget {
                                    true => 1.0 - i,
                                    false => act(0, sum(2) + peep(2, j) * cell[j]),
                                };
                                cell[j] = f * cell[j] + i * act(1, sum(3));
                                let o = act(0, sum(1) + peep(1, j) * cell[j]);
                                hidden[j] = o * act(2, cell[j]);
                            }
                        }
                    }
                    let to = ((t * count + d) * self.batch + n) * h;
                    y[to..to + h].copy_from_slice(&hidden);
                }
                last_h[at..at + h].copy_from_slice(&hidden);
                last_c[at..at + h].copy_from_slice(&cell);
            }
        }
        [y, last_h, last_c]
    }

    /// Runs the model twice on the device, and compares.
    fn check(&self, what: &str) {
        let engine = engine();
        let session = session(&engine, self.model());
        let x = self.turned(&self.x(), self.width);
        let shape = match self.batch_first {
            false => [self.steps, self.batch, self.width],
            true => [self.batch, self.steps, self.width],
        };
        let x = Tensor::from_slice(&engine, &x, &shape).unwrap();
        let want = self.expected();
        for _ in 0..2 {
            let out = session.run([("x", x.clone())]).unwrap();
            for (name, want) in ["y", "h", "c"].iter().zip(&want) {
                let Some(got) = out.tensor(name) else {
                    continue;
                };
                let got = match (self.batch_first, got.rank()) {
                    (true, 4) => got.permute(&[1, 2, 0, 3]).unwrap(),
                    (true, _) => got.permute(&[1, 0, 2]).unwrap(),
                    (false, _) => got.clone(),
                };
                let got = got.to_vec::<f32>().unwrap();
                assert_eq!(got.len(), want.len(), "{what}: {name}");
                for (i, (a, b)) in got.iter().zip(want).enumerate() {
                    assert!((a - b).abs() < 1e-5, "{what}: {name}[{i}] is {a}, not {b}");
                }
            }
        }
        assert_eq!(session.captures(), 1, "{what}");
    }
}

fn session(engine: &Engine, model: Writer) -> Session {
    Model::from_bytes("model", model.finish())
        .unwrap()
        .on(engine)
}

/// What a run with an `x` of this shape does.
fn plan(session: &Session, shape: &[usize]) -> Schedule {
    let x = Tensor::zeros(session.engine(), shape, DType::F32).unwrap();
    session.plan([("x", x)]).unwrap().1.unwrap()
}

#[test]
fn layers_of_all_kinds_and_directions_are_right() {
    for kind in [Kind::Lstm, Kind::Gru, Kind::Rnn] {
        for direction in ["forward", "reverse", "bidirectional"] {
            for batch in [1, 3] {
                let layer = Layer {
                    kind,
                    direction,
                    batch,
                    ..LAYER
                };
                layer.check(&format!("{kind:?} {direction} batch {batch}"));
                let lens: Vec<i32> = [4, 6, 1][..batch].to_vec();
                let layer = Layer {
                    lens: Some(lens),
                    states: true,
                    batch_first: batch == 3,
                    ..layer
                };
                layer.check(&format!("{kind:?} {direction} batch {batch} of lengths"));
            }
        }
    }
}

#[test]
fn what_layers_have_besides_is_right() {
    let both = Layer {
        direction: "bidirectional",
        states: true,
        ..LAYER
    };
    let with = |f: &dyn Fn(&mut Layer)| {
        let mut layer = both.clone();
        f(&mut layer);
        layer
    };
    with(&|l| l.peepholes = true).check("peepholes");
    with(&|l| l.bias = false).check("no bias");
    with(&|l| l.clip = Some(0.1)).check("clip");
    with(&|l| l.input_forget = true).check("input and forget in one");
    let other = vec!["Sigmoid", "Tanh", "Tanh", "Relu", "Softsign", "Tanh"];
    with(&|l| l.activations = Some(other.clone())).check("activations of their own");
    let gru = with(&|l| {
        l.kind = Kind::Gru;
        l.linear_before_reset = true;
    });
    gru.check("linear before reset");
    with(&|l| l.steps = 1).check("one step");
    with(&|l| l.batch_first = true).check("batch first");
}

/// The net of an OCR model: a wide input, few steps, both directions.
#[test]
fn the_input_product_is_one_for_all_steps_and_directions() {
    let layer = Layer {
        direction: "bidirectional",
        steps: 20,
        batch: 1,
        width: 512,
        hidden: 10,
        states: true,
        ..LAYER
    };
    layer.check("wide");
    let engine = engine();
    let session = session(&engine, layer.model());
    let schedule = plan(&session, &[20, 1, 512]);
    // Two kernels in each step, for both directions at once, and few around them.
    let counts = schedule.counts();
    let in_steps: Vec<usize> = counts.iter().copied().filter(|&n| n == 20).collect();
    assert_eq!(in_steps, [20, 20], "{counts:?}");
    assert!(schedule.launches() <= 2 * 20 + 4, "{counts:?}");
    // What reads the input: 512 numbers times 20 steps are only multiplied once.
    let wide = schedule.kernels.iter().zip(&counts);
    let wide: Vec<usize> = wide
        .filter(|(k, _)| k.kernel.name.contains("r512"))
        .map(|(_, &n)| n)
        .collect();
    assert_eq!(wide, [1]);
}

/// A detector's layer: many steps.
#[test]
fn kernels_do_not_grow_with_the_steps() {
    for kind in [Kind::Lstm, Kind::Gru, Kind::Rnn] {
        let engine = engine();
        let cost = |steps: usize| {
            let layer = Layer {
                kind,
                direction: "bidirectional",
                steps,
                batch: 1,
                width: 8,
                hidden: 6,
                ..LAYER
            };
            let session = session(&engine, layer.model());
            let schedule = plan(&session, &[steps, 1, 8]);
            let counts = schedule.counts();
            let in_steps = counts.iter().filter(|&&n| n == steps).count();
            (schedule.kernels.len(), schedule.steps.len(), in_steps)
        };
        assert_eq!(cost(10), cost(1000), "{kind:?}");
    }
    let layer = Layer {
        direction: "bidirectional",
        steps: 300,
        batch: 1,
        width: 16,
        hidden: 16,
        ..LAYER
    };
    layer.check("300 steps");
}

/// `h' = tanh(x W + h R)` as a Scan or Loop node, as exporters write layers that they cannot name.
fn written_out(op: &str, steps: usize) -> Writer {
    let host = Engine::reference();
    let mut model = Writer::new("loop", 17);
    model.input("x", &write::tensor(DType::F32, &dims(&[steps, 1, 64])));
    let mut put = |name: &str, values: &[f32], shape: &[usize]| {
        let t = Tensor::from_slice(&host, values, shape).unwrap();
        model.constant(name, &t).unwrap();
    };
    put("w", &numbers(64 * 70, 2), &[64, 70]);
    put("r", &numbers(70 * 70, 3), &[70, 70]);
    put("h0", &numbers(70, 5), &[1, 70]);
    let mut body = Writer::new("body", 17);
    let row = write::tensor(DType::F32, &dims(&[1, 64]));
    let state = write::tensor(DType::F32, &dims(&[1, 70]));
    if op == "Loop" {
        body.input("i", &write::tensor(DType::I64, &[]));
        body.input("go", &write::tensor(DType::Bool, &[]));
        body.input("h", &state);
        body.node("Gather", &["x", "i"], &["row"], []);
        body.node("Identity", &["go"], &["on"], []);
        body.output("on", &write::tensor(DType::Bool, &[]));
    } else {
        body.input("h", &state);
        body.input("row", &row);
    }
    body.node("MatMul", &["row", "w"], &["a"], []);
    body.node("MatMul", &["h", "r"], &["b"], []);
    body.node("Add", &["a", "b"], &["sum"], []);
    body.node("Tanh", &["sum"], &["next"], []);
    body.node("Identity", &["next"], &["each"], []);
    body.output("next", &state);
    body.output("each", &state);
    let body = write::graph("body", body.into_graph());
    if op == "Loop" {
        let trips = Tensor::from_slice(&host, &[steps as i64], &[]).unwrap();
        model.constant("trips", &trips).unwrap();
        model.node("Loop", &["trips", "", "h0"], &["h", "y"], [body]);
    } else {
        let inputs = write::int("num_scan_inputs", 1);
        model.node("Scan", &["h0", "x"], &["h", "y"], [body, inputs]);
    }
    model.output("h", &write::tensor(DType::F32, &dims(&[1, 70])));
    model.output("y", &write::tensor(DType::F32, &dims(&[steps, 1, 70])));
    model
}

#[test]
fn loops_that_are_written_out_are_traced_once() {
    let engine = engine();
    for op in ["Scan", "Loop"] {
        let x = numbers(12 * 64, 1);
        let (w, r) = (numbers(64 * 70, 2), numbers(70 * 70, 3));
        let mut h = numbers(70, 5);
        let mut want = Vec::new();
        for t in 0..12 {
            let next = |j: usize| {
                let a: f32 = (0..64).map(|k| x[t * 64 + k] * w[k * 70 + j]).sum();
                let b: f32 = (0..70).map(|k| h[k] * r[k * 70 + j]).sum();
                (a + b).tanh()
            };
            h = (0..70).map(next).collect();
            want.extend_from_slice(&h);
        }
        let session = session(&engine, written_out(op, 12));
        let x = Tensor::from_slice(&engine, &x, &[12, 1, 64]).unwrap();
        for _ in 0..2 {
            let out = session.run([("x", x.clone())]).unwrap();
            let y = out.tensor("y").unwrap().to_vec::<f32>().unwrap();
            for (a, b) in y.iter().zip(&want) {
                assert!((a - b).abs() < 1e-5, "{op}: {a} and {b}");
            }
            let last = out.tensor("h").unwrap().to_vec::<f32>().unwrap();
            assert_eq!(last, y[11 * 70..]);
        }
        assert_eq!(session.captures(), 1);
        let cost = |steps: usize| {
            let session = self::session(&engine, written_out(op, steps));
            let schedule = plan(&session, &[steps, 1, 64]);
            let counts = schedule.counts();
            let wide = schedule.kernels.iter().zip(&counts);
            // The product with the input is made before the loop, for all steps.
            let wide = wide.filter(|(k, _)| k.kernel.name.contains("r64"));
            let wide: Vec<usize> = wide.map(|(_, &n)| n).collect();
            assert_eq!(wide, [1], "{op}");
            let in_steps = counts.iter().filter(|&&n| n == steps).count();
            (schedule.kernels.len(), schedule.steps.len(), in_steps)
        };
        assert_eq!(cost(10), cost(900), "{op}");
    }
}
