//! `QCOM:CL` whole: a kernel goes through OpenCL C to the vendor's library, and its binary is launched by our packets on the
//! twin. The library is a stand-in, which gives what our own compiler makes of the kernel, in the form of the vendor.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codegen::build::{Stage, StageArg};
use codegen::compile::OpenClCompiler;
use codegen::ir::{Binary, Graph, Kernel, ParamInfo, RangeKind, StoreMode};
use codegen::ir3::{self, GROUP, Reg, Value};
use codegen::render::OpenClRenderer;
use codegen::{Backend, DType, Target, build};
use drivers_qcom::backend::QcomBackend;
use drivers_qcom::{Options, kgsl, msm, over};
use drivers_spec::qcom::opencl;
use hcq::transport::Machine;
use hcq::{
    ArgKind, ArgLayout, Buffer, Command, Device, KernelImage, MemoryKind, QueueKind, Stream, Val,
    Width,
};
use twin_qcom::machine::TwinMachine;

use stand::{at, soon};

/// Numbers of each buffer: several groups, the last one not whole.
const COUNT: usize = 3001;

/// `o[i] = a[i] * b[i] + 3`.
fn kernel() -> Kernel {
    let mut g = Graph::new();
    let [o, a, b] = [0, 1, 2].map(|slot| g.param(slot, DType::F32));
    let i = g.range(0, COUNT as i64, RangeKind::Loop);
    let (x, y) = (g.load(a, i), g.load(b, i));
    let product = g.binary(Binary::Mul, x, y);
    let three = g.bits(DType::F32, u64::from(3f32.to_bits()));
    let sum = g.binary(Binary::Add, product, three);
    let store = g.store(StoreMode::Set, o, i, sum, None);
    let sink = g.sink(&[store]);
    let params = [true, false, false].map(|written| ParamInfo {
        dtype: DType::F32,
        len: COUNT,
        written,
        constant: false,
    });
    Kernel {
        name: "products".into(),
        graph: g,
        sink,
        params: params.into(),
        vars: 0,
    }
}

/// An object of our compiler as the vendor's would be: the number of a group comes in r51.w and what follows it.
fn as_vendor(object: &ir3::Object) -> opencl::Binary {
    assert_eq!((object.footprint.half, object.private_bytes), (0, 0));
    let moved = |word: u64| {
        let mut inst = ir3::decode(word).unwrap();
        for source in &mut inst.srcs {
            if let Value::Reg(reg) = &mut source.value
                && (GROUP.0..GROUP.0 + 3).contains(&reg.0)
            {
                *reg = Reg(reg.0 - GROUP.0 + opencl::GROUP_ID as u8);
            }
        }
        ir3::encode(&inst).unwrap()
    };
    let used = object.statistics.instructions as usize;
    let code = object.code.iter().enumerate();
    let code = code.map(|(i, &word)| if i < used { moved(word) } else { word });
    opencl::Binary {
        name: "start".into(),
        arguments: (0..object.args)
            .map(|n| opencl::Argument::Value { at: n * 8 })
            .collect(),
        full: object.footprint.full,
        half: 0,
        branch_depth: object.branches,
        shared_bytes: object.local_bytes,
        private_bytes: 0,
        samplers: 0,
        constants: object.constants.clone(),
        entry: 0,
        code: code.collect(),
    }
}

/// The stand-in of the library in a folder.
fn library(folder: &Path, binary: &[u8]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../codegen/tests/qcom/libOpenCL.c");
    let library = folder.join("libOpenCL.so");
    let done = std::process::Command::new("cc")
        .args(["-shared", "-fPIC"])
        .arg(format!("-DFOLDER=\"{}\"", folder.display()))
        .arg(source)
        .arg("-o")
        .arg(&library)
        .status();
    assert!(done.unwrap().success());
    for (name, content) in [
        ("platform", &b"QUALCOMM Snapdragon(TM)"[..]),
        ("version", b"OpenCL 2.0 Adreno(TM) 630"),
        ("binary", binary),
    ] {
        std::fs::write(folder.join(name), content).unwrap();
    }
    library
}

fn only(kernel: &Kernel, backend: &Backend) -> Stage {
    let built = build(kernel, backend, &codegen::Options::default()).unwrap();
    let mut stages = built.stages.into_iter();
    let stage = stages.next().unwrap();
    assert!(stages.next().is_none());
    stage
}

/// Runs a stage on buffers.
fn run(device: &Arc<dyn Device>, stage: &Stage, buffers: &[Buffer; 3]) {
    let args = stage.args.iter().map(|arg| match *arg {
        StageArg::Param(slot) => (ArgKind::Buffer, at(&buffers[usize::from(slot)])),
        StageArg::Number(n) => (ArgKind::Value(Width::W64), Val::Const(n as u64)),
        ref other => panic!("{other:?}"),
    });
    let (kinds, args): (Vec<ArgKind>, Vec<Val>) = args.unzip();
    let program = device
        .load(&KernelImage {
            name: stage.name.clone(),
            arch: device.info().arch.clone(),
            bytes: stage.object.clone(),
            entry: stage.entry.clone(),
            args: ArgLayout::new(kinds),
            local_bytes: stage.local_bytes,
        })
        .unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let exec = Command::Exec {
        program: &program,
        args: &args,
        grid: stage.grid,
        block: stage.block,
    };
    let point = stream.submit(&[], &[exec]).unwrap();
    point.wait(soon()).unwrap();
}

fn on(backend: &Arc<dyn QcomBackend>, twin: &TwinMachine, stage: &Stage) {
    let device: Arc<dyn Device> = over(backend, &Options::default()).unwrap();
    let bytes = COUNT as u64 * 4;
    let buffers = [0, 1, 2].map(|_| stand::memory(&*device, MemoryKind::Device, bytes).unwrap());
    let number = |buffer: usize, i: usize| (i * (buffer + 2) % 97) as f32 - 31.5;
    for (which, buffer) in buffers.iter().enumerate().skip(1) {
        let content = (0..COUNT).flat_map(|i| number(which, i).to_le_bytes());
        buffer.write(0, &content.collect::<Vec<u8>>()).unwrap();
    }
    run(&device, stage, &buffers);
    let mut found = vec![0; bytes as usize];
    buffers[0].read(0, &mut found).unwrap();
    for (i, found) in found.chunks(4).enumerate() {
        let found = f32::from_le_bytes(found.try_into().unwrap());
        assert_eq!(found, number(1, i) * number(2, i) + 3.0, "{i}");
    }
    drop(buffers);
    drop(device);
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
}

#[test]
fn kernels_of_the_vendors_library_run_by_our_packets() {
    let target = Target::qcom("a630", 0).unwrap();
    let ours = only(&kernel(), &Backend::find("QCOM:IR3", "a630", 0).unwrap());
    let binary = as_vendor(ir3::Object::decode(&ours.object).unwrap().without_images());
    let folder = std::env::temp_dir().join(format!("doorbell-opencl-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let library = library(&folder, &binary.to_bytes());
    let compiler = OpenClCompiler::at(library, &target).unwrap();
    let backend = Backend::new(target, Arc::new(OpenClRenderer), Some(Arc::new(compiler)));
    let theirs = only(&kernel(), &backend);
    // The same launch: what differs is who has compiled it.
    assert_eq!((theirs.grid, theirs.block), (ours.grid, ours.block));
    assert_eq!(theirs.args, ours.args);
    assert_eq!(theirs.object[..], binary.to_bytes()[..]);
    std::fs::remove_dir_all(&folder).unwrap();

    let twin = TwinMachine::new("").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let backend = kgsl::open(&machine, 0, &Options::default()).unwrap();
    on(&backend, &twin, &theirs);
    let twin = TwinMachine::new("kernel=msm").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let backend = msm::open(&machine, 0).unwrap();
    on(&backend, &twin, &theirs);
}
