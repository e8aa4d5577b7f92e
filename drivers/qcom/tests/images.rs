//! Kernels whose buffers our compiler reads as images, on the twin: the same bits as without them, at any address.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::sync::Arc;

use codegen::build::{Stage, StageArg};
use codegen::ir::{Binary, Graph, Kernel, ParamInfo, RangeKind, ReduceOp, StoreMode, Unary};
use codegen::ir3::Object;
use codegen::{Backend, DType, build};
use drivers_qcom::{Options, kgsl, over};
use hcq::transport::Machine;
use hcq::{
    ArgKind, ArgLayout, Buffer, Command, Device, Error, KernelImage, MemoryKind, Program,
    QueueKind, Scope, Stream, Val, Width,
};
use twin_qcom::machine::TwinMachine;

use stand::soon;

/// Rows and columns of each matrix.
const SIDE: i64 = 64;
/// Bytes of a matrix.
const BYTES: u64 = (SIDE * SIDE * 4) as u64;

/// `o[i, j] = sum of a[i, r] * b[r, j]`, or less than zero by as much.
fn kernel(negated: bool) -> Kernel {
    let mut g = Graph::new();
    let [o, a, b] = [0, 1, 2].map(|slot| g.param(slot, DType::F32));
    let [i, j] = [0, 1].map(|axis| g.range(axis, SIDE, RangeKind::Loop));
    let r = g.range(2, SIDE, RangeKind::Reduce);
    let mut at = |row, column| {
        let side = g.index(SIDE);
        let start = g.binary(Binary::Mul, row, side);
        g.binary(Binary::Add, start, column)
    };
    let [to, left, right] = [at(i, j), at(i, r), at(r, j)];
    let (x, y) = (g.load(a, left), g.load(b, right));
    let product = g.binary(Binary::Mul, x, y);
    let sum = g.reduce(ReduceOp::Add, product, &[r]);
    let sum = match negated {
        true => g.unary(Unary::Neg, sum),
        false => sum,
    };
    let store = g.store(StoreMode::Set, o, to, sum, None);
    let sink = g.sink(&[store]);
    let params = [true, false, false].map(|written| ParamInfo {
        dtype: DType::F32,
        len: (SIDE * SIDE) as usize,
        written,
        constant: false,
    });
    Kernel {
        name: "product".into(),
        graph: g,
        sink,
        params: params.into(),
        vars: 0,
    }
}

/// A backend that reads buffers as images wherever that gains anything.
fn eager(arch: &str) -> Backend {
    let backend = Backend::find("QCOM:IR3", arch, 0).unwrap();
    let mut target = backend.target.clone();
    let images = target.images.as_mut().unwrap();
    (images.coordinates, images.row_coordinates) = (0.0, 0.0);
    images.launch = f64::NEG_INFINITY;
    backend.targeting(target)
}

/// The stages of a kernel.
fn stages(backend: &Backend, kernel: &Kernel) -> Vec<Stage> {
    let options = codegen::Options {
        deterministic: true,
        ..codegen::Options::default()
    };
    let built = build(kernel, backend, &options).unwrap();
    assert!(built.scratch.is_empty());
    built.stages
}

/// A stage that is loaded, and its arguments at addresses of the buffers.
fn load(device: &dyn Device, stage: &Stage, places: [u64; 3]) -> (Arc<Program>, Vec<Val>) {
    let args = stage.args.iter().map(|arg| match *arg {
        StageArg::Param(slot) => (ArgKind::Buffer, Val::Const(places[usize::from(slot)])),
        StageArg::Number(n) => (ArgKind::Value(Width::W64), Val::Const(n as u64)),
        ref other => panic!("{other:?}"),
    });
    let (kinds, args): (Vec<ArgKind>, Vec<Val>) = args.unzip();
    let image = KernelImage {
        name: stage.name.clone(),
        arch: device.info().arch.clone(),
        bytes: stage.object.clone(),
        entry: stage.entry.clone(),
        args: ArgLayout::new(kinds),
        local_bytes: stage.local_bytes,
    };
    (device.load(&image).unwrap(), args)
}

/// A device of a simulated machine.
fn device(twin: &Arc<TwinMachine>) -> Arc<dyn Device> {
    let machine: Arc<dyn Machine> = twin.clone();
    let backend = kgsl::open(&machine, 0, &Options::default()).unwrap();
    over(&backend, &Options::default()).unwrap()
}

/// Runs the stages on matrices that lie so many bytes behind the beginning of their buffers, twice: the second time what
/// is read was written by a copy in the same submission. Gives the results.
fn run(device: &Arc<dyn Device>, stages: &[Stage], behind: u64) -> Vec<u8> {
    let buffers: [Buffer; 3] =
        [0, 1, 2].map(|_| stand::memory(&**device, MemoryKind::Device, BYTES + 256).unwrap());
    let spare = stand::memory(&**device, MemoryKind::Device, BYTES).unwrap();
    let number = |seed: u64, n: u64| ((n * 37 + seed * 11) % 251) as f32 / 16.0 - 7.0;
    let content = |seed: u64| -> Vec<u8> {
        let all = (0..BYTES / 4).flat_map(|n| number(seed, n).to_le_bytes());
        all.collect()
    };
    for (seed, buffer) in (0..).zip(&buffers) {
        buffer.write(behind, &content(seed)).unwrap();
    }
    spare.write(0, &content(9)).unwrap();
    let places = [0, 1, 2].map(|n: usize| buffers[n].va().0 + behind);
    let loaded: Vec<_> = stages
        .iter()
        .map(|stage| load(&**device, stage, places))
        .collect();
    let execs = || {
        stages
            .iter()
            .zip(&loaded)
            .map(|(stage, (program, args))| Command::Exec {
                program,
                args,
                grid: stage.grid,
                block: stage.block,
            })
    };
    let barrier = || Command::Barrier {
        scope: Scope::Queue,
    };
    let mut commands = Vec::new();
    for exec in execs() {
        commands.extend([exec, barrier()]);
    }
    commands.push(Command::Copy {
        dst: Val::Const(places[1]),
        src: Val::Const(spare.va().0),
        bytes: BYTES,
    });
    commands.push(barrier());
    for exec in execs() {
        commands.extend([exec, barrier()]);
    }
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let point = stream.submit(&[], &commands).unwrap();
    point.wait(soon()).unwrap();
    let mut found = vec![0; BYTES as usize];
    buffers[0].read(behind, &mut found).unwrap();
    found
}

#[test]
fn results_are_those_without_images_at_any_address() {
    let with = stages(&eager("a630"), &kernel(false));
    let images = with.iter().map(|stage| {
        let object = Object::decode(&stage.object).unwrap();
        assert_eq!(object.images.is_empty(), object.plain.is_none());
        object.images.len()
    });
    assert!(images.sum::<usize>() > 0, "nothing is read as an image");
    let without = stages(&eager("a630").without_images(), &kernel(false));
    let twin = TwinMachine::new("chip=a630").unwrap();
    let device = device(&twin);
    let want = run(&device, &without, 0);
    // What descriptors hold, and what they do not.
    for behind in [0, 64, 32, 4] {
        assert!(run(&device, &with, behind) == want, "{behind} bytes behind");
    }
    drop(device);
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}

/// Each kernel gets that of another sign as its version without images: the results tell which one ran.
#[test]
fn images_are_read_where_descriptors_hold_their_addresses() {
    let without = eager("a630").without_images();
    let [plain, negated] = [false, true].map(|negated| stages(&without, &kernel(negated)));
    let mixed = stages(&eager("a630"), &kernel(false));
    let mixed: Vec<Stage> = mixed
        .into_iter()
        .zip(&negated)
        .map(|(stage, negated)| {
            assert_eq!(
                (stage.grid, stage.block, &stage.args, stage.local_bytes),
                (
                    negated.grid,
                    negated.block,
                    &negated.args,
                    negated.local_bytes
                )
            );
            let mut object = Object::decode(&stage.object).unwrap();
            assert!(!object.images.is_empty());
            object.plain = Some(Box::new(Object::decode(&negated.object).unwrap()));
            Stage {
                object: object.encode().into(),
                ..stage
            }
        })
        .collect();
    let twin = TwinMachine::new("chip=a630").unwrap();
    let device = device(&twin);
    let want = [&plain, &negated].map(|stages| run(&device, stages, 0));
    assert!(want[0] != want[1]);
    for (behind, version) in [(0, 0), (64, 0), (32, 1), (4, 1)] {
        let found = run(&device, &mixed, behind);
        assert!(found == want[version], "{behind} bytes behind");
    }
    drop(device);
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}

#[test]
fn images_are_arguments_that_are_buffers() {
    let twin = TwinMachine::new("chip=a630").unwrap();
    let device = device(&twin);
    let picture = stand::picture(&device.info().arch);
    device.load(&picture).unwrap();
    let number = ArgLayout::new([ArgKind::Buffer, ArgKind::Value(Width::W64)]);
    for (args, expected) in [
        (ArgLayout::buffers(1), "a buffer among the 1 arguments"),
        (number, "a buffer among the 2 arguments"),
    ] {
        let wrong = KernelImage {
            args,
            ..picture.clone()
        };
        let error = device.load(&wrong).unwrap_err();
        assert!(matches!(error, Error::Program { .. }), "{error}");
        let error = error.to_string();
        assert!(
            error.contains("image 1 is argument 1") && error.contains(expected),
            "{error}"
        );
    }
}
