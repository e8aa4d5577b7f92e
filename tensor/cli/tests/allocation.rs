//! A bundle of as many kernels as openpilot's driving model has, on a simulated Adreno: after a few runs, a run is one call of the
//! kernel driver and allocates nothing, with a frame of the caller bound for each.
#![cfg(feature = "twin")]
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "program/place/mod.rs"]
mod place;
#[path = "../../../drivers/qcom/tests/timed/mod.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod timed;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use doorbell_run::{Chain, ModelBundle};
use drivers::{env::Settings, select::parse_chain};
use hcq::mem::view::View;
use hcq::{AllocSpec, Import};
use tensor::onnx::Dim;
use tensor::onnx::write::{self, Writer};
use tensor::{DType, Engine, Tensor};

use crate::place::{Place, succeed};

/// Counts calls of the thread that asks for it, outside of calls of the twin.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    if !timed::is_inside() {
        // A thread that ends has none any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: hands everything on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Kernels of openpilot's driving model, as tinygrad compiles it for an Adreno 630.
const KERNELS: usize = 123;

const WIDTH: usize = 16;

/// Small numbers around 0, others for each layer.
fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 101) as f32 * 0.01 - 0.5)
        .collect();
    Tensor::from_slice(&Engine::reference(), &values, shape).unwrap()
}

/// Elementary functions of a layer: no kernel has those of two.
const FUNCTIONS: usize = 16;

/// Layers, one kernel each, of a frame and the mean of those before it.
fn net() -> Vec<u8> {
    let floats = |dims: &[usize]| {
        let dims: Vec<Dim> = dims.iter().map(|&n| Dim::Fixed(n)).collect();
        write::tensor(DType::F32, &dims)
    };
    let mut w = Writer::new("layers", 17);
    w.input("frame", &floats(&[1, WIDTH]));
    w.input("queue", &floats(&[1, 4, WIDTH]));
    w.node(
        "ReduceMean",
        &["queue"],
        &["mean"],
        [write::ints("axes", &[1]), write::int("keepdims", 0)],
    );
    w.node("Add", &["frame", "mean"], &["h0"], []);
    for layer in 0..KERNELS {
        let weight = format!("w{layer}");
        w.constant(&weight, &numbers(&[WIDTH, WIDTH], layer))
            .unwrap();
        let mut from = format!("p{layer}");
        w.node("MatMul", &[&format!("h{layer}"), &weight], &[&from], []);
        for function in 1..=FUNCTIONS {
            let to = match function {
                FUNCTIONS => format!("h{}", layer + 1),
                n => format!("p{layer}-{n}"),
            };
            w.node("Tanh", &[&from], &[&to], []);
            from = to;
        }
    }
    let last = format!("h{KERNELS}");
    w.node("Identity", &[&last], &["y"], []);
    w.node("Identity", &["frame"], &["now"], []);
    w.output("y", &floats(&[1, WIDTH]));
    w.output("now", &floats(&[1, WIDTH]));
    w.finish()
}

#[test]
fn a_run_of_a_net_is_one_submission_and_allocates_nothing() {
    const WARM: usize = 12;
    const MEASURED: usize = 12;
    let limit = Duration::from_secs(3600);
    let place = Place::new();
    fs::write(place.path("work").join("net.onnx"), net()).unwrap();
    let mut args = vec!["compile", "net.onnx", "--queue", "queue=now@1"];
    args.extend(["--target", "QCOM::a630", "--target", "QCOM::a643"]);
    args.extend(["-o", "net.dbx"]);
    succeed(&place, &args, &[("DEV", "CPU")]);
    let bundle = ModelBundle::open(place.path("work").join("net.dbx")).unwrap();
    for target in bundle.targets() {
        let launches = target.steps.len();
        assert!(launches >= KERNELS, "{}: {launches}", target.name());
    }
    let frame = numbers(&[1, WIDTH], 1000).to_bytes().unwrap();
    for (dev, config) in [
        ("TWINKGSL+QCOM::a630", "chip=a630"),
        ("TWINMSM+QCOM::a643", "chip=a643,kernel=msm"),
    ] {
        let twin = twin_qcom::machine::TwinMachine::new(config).unwrap();
        let (machine, spent) = timed::timed(twin.clone());
        let target = parse_chain("DEV", dev).unwrap().remove(0);
        let chain = Chain::of(target, Settings::default(), Some(machine));
        let mut model = chain.place(&bundle).unwrap().model;
        let ring = [(); 2].map(|()| {
            let view = View::alloc(4096, 4096).unwrap();
            let memory = match model.device().import(&Import::Host(view)) {
                Err(hcq::Error::Unsupported { .. }) => {
                    model.device().alloc(AllocSpec::device(4096))
                }
                made => made,
            };
            let memory = memory.unwrap();
            memory.write(0, &frame).unwrap();
            memory
        });
        let now = || (COUNT.get(), spent.calls.load(Ordering::Relaxed));
        let (mut submissions, mut allocations) = (Vec::new(), Vec::new());
        for run in 0..WARM + MEASURED {
            let before = now();
            model.bind_input("frame", &ring[run % 2]).unwrap();
            model.start(limit).unwrap();
            let started = now();
            model.wait(limit).unwrap();
            let ended = now();
            if run >= WARM {
                submissions.push(started.1 - before.1);
                allocations.push(ended.0 - before.0);
            }
        }
        assert_eq!(submissions, [1; MEASURED], "{dev}");
        assert_eq!(allocations, [0; MEASURED], "{dev}");
        // The queue has nothing but this frame: each run gives the same.
        let mut outputs = [[0u8; WIDTH * 4]; 2];
        for y in &mut outputs {
            model.run(limit).unwrap();
            model.read_output("y", y).unwrap();
        }
        assert!(
            outputs[0] == outputs[1] && outputs[0] != [0; WIDTH * 4],
            "{dev}"
        );
        drop((model, ring));
        assert_eq!(twin.machine().broken_rules(), [""; 0], "{dev}");
    }
}
