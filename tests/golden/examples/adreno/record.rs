//! Which kernels there are: those that an engine on a simulated Adreno compiles for products, convolutions, norms, and
//! for a part of the operator suite.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use codegen::lower::decomp::Caps;
use codegen::lower::{Inst, Program};
use codegen::render::{Code, Emitter, Ir3Renderer};
use codegen::{Backend, Result, Target as ChipTarget};
use conformance::part::Part;
use drivers::env::Settings;
use drivers::select::{DeviceKind, Target, Transport};
use golden::suite::run_suite;
use tensor::exec::{DeviceExecutor, Options};
use tensor::ops::conv::ConvParams;
use tensor::{DType, Engine, Tensor};

use crate::text;

/// One case of the suite in so many.
const OF: usize = 16;
/// Instructions of a program at most: longer ones are few, and take the simulator long.
const LONGEST: usize = 4000;

/// What makes the inputs of the nets.
const INPUTS: &str = "inputs";

/// What a kernel is for, and its program.
pub type Kernels = Vec<(String, Program)>;

#[derive(Default)]
struct Seen {
    /// What is computed now.
    what: String,
    texts: HashSet<String>,
    kernels: Kernels,
}

/// The emitter of Adreno, which keeps each program once.
struct Recorder {
    chip: String,
    seen: Arc<Mutex<Seen>>,
}

impl Emitter for Recorder {
    fn name(&self) -> &'static str {
        Ir3Renderer.name()
    }

    fn caps(&self, t: &ChipTarget) -> Caps {
        Ir3Renderer.caps(t)
    }

    fn emit(&self, p: &Program, t: &ChipTarget) -> Result<Code> {
        let mut seen = self.seen.lock().unwrap();
        let stores = p.insts.iter().any(|i| matches!(i, Inst::Store { .. }));
        if stores && p.insts.len() <= LONGEST && seen.texts.insert(text::of(p, &self.chip)) {
            let what = seen.what.clone();
            seen.kernels.push((what, p.clone()));
        }
        drop(seen);
        Ir3Renderer.emit(p, t)
    }

    fn disassemble(&self, object: &[u8]) -> Result<String> {
        Ir3Renderer.disassemble(object)
    }
}

/// Numbers from -1 to 1 in a shape.
fn numbers(engine: &Engine, shape: &[usize], dtype: DType) -> Tensor {
    let count = shape.iter().product();
    let all = Tensor::iota(engine, count, DType::I32).unwrap();
    let all = all.fmod(17).unwrap().cast(DType::F32).unwrap();
    let all = all.mul(0.12).unwrap().sub(1.0).unwrap();
    let all = all.cast(dtype).unwrap().reshape(shape).unwrap();
    all.contiguous().unwrap()
}

/// Kernels of nets.
fn nets(engine: &Engine, seen: &Mutex<Seen>) {
    let of = |shape: &[usize], dtype| {
        let made = numbers(engine, shape, dtype);
        made.to_bytes().unwrap();
        made
    };
    let ready = |what: String, tensor: tensor::Result<Tensor>| {
        seen.lock().unwrap().what = what;
        tensor.unwrap().to_bytes().unwrap();
        seen.lock().unwrap().what = INPUTS.into();
    };
    seen.lock().unwrap().what = INPUTS.into();
    for dtype in [DType::F32, DType::F16] {
        for [m, n, k] in [[64, 64, 64], [128, 128, 128], [1, 256, 256], [33, 65, 129]] {
            let (a, b) = (of(&[m, k], dtype), of(&[k, n], dtype));
            ready(format!("matmul {m}x{n}x{k} {dtype}"), a.matmul(&b));
        }
        for [channels, out, side, window, groups] in [
            [8, 16, 16, 3, 1],
            [16, 32, 16, 1, 1],
            [32, 32, 16, 3, 32],
            [3, 16, 32, 5, 1],
        ] {
            let x = of(&[1, channels, side, side], dtype);
            let w = of(&[out, channels / groups, window, window], dtype);
            let sliding = ConvParams::default().padded(window / 2, 2);
            let what =
                format!("conv {window}x{window} {channels} to {out} of {side}x{side} {dtype}");
            ready(what, x.conv(&w, None, &sliding, groups));
        }
        let x = of(&[32, 192], dtype);
        ready(format!("softmax 32x192 {dtype}"), x.softmax(1));
        ready(format!("sum 32x192 {dtype}"), x.sum(&[1], false));
        ready(format!("exp 32x192 {dtype}"), x.exp());
        ready(
            format!("transposed 32x192 {dtype}"),
            x.transpose(0, 1).and_then(|t| t.contiguous()),
        );
    }
}

/// All of them, in an order that is always the same.
pub fn kernels(chip: &str) -> Kernels {
    let twin = twin_qcom::machine::TwinMachine::new(&format!("debug=0,chip={chip}")).unwrap();
    let twin: drivers::Twin = twin;
    let target = Target {
        interface: Some(Transport::Kgsl.interface(true)),
        ..Target::any(DeviceKind::Qcom)
    };
    let device = drivers::open_with(&target, &Settings::default(), Some(&twin)).unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let emitter = Arc::new(Recorder {
        chip: chip.into(),
        seen: seen.clone(),
    });
    let backend = Backend::new(ChipTarget::qcom(chip, 0).unwrap(), emitter, None);
    let options = Options {
        // One after the other: the order is that of the schedule.
        compile_threads: 1,
        ..Options::default()
    };
    let engine = DeviceExecutor::engine(device, backend, options).unwrap();
    nets(&engine, &seen);
    let part = Part::chosen();
    let index = std::cell::Cell::new(0);
    run_suite(&engine, |group, case| {
        let chosen = part.has(index.replace(index.get() + 1), OF);
        if chosen {
            seen.lock().unwrap().what = format!("{} {}", group.name, case.case);
        }
        chosen
    })
    .unwrap();
    drop(engine);
    let mut seen = seen.lock().unwrap();
    std::mem::take(&mut seen.kernels)
}
