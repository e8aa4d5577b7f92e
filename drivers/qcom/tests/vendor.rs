//! A kernel as Qualcomm's OpenCL compiler writes it, made by hand, on the twin: registers that are apart, its own modes,
//! beside a kernel of ours in one submission.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::sync::Arc;

use codegen::ir3;
use drivers_qcom::vendor::Binary;
use drivers_qcom::{Options, kgsl, over};
use drivers_spec::qcom::opencl;
use hcq::transport::Machine;
use hcq::{
    ArgKind, ArgLayout, Command, Device, KernelImage, MemoryKind, QueueKind, Scope, Stream, Val,
};
use twin_qcom::machine::TwinMachine;

use stand::{at, soon};

/// Stores constant c8.x for each group; begins behind a nop.
const TEXT: &str = "nop
mov.u32u32 r0.x, r51.w
(rpt2)nop
shl.b r0.x, r0.x, 2
(rpt2)nop
add.u r1.x, c0.x, r0.x
mov.u32u32 r2.x, c8.x
(rpt2)nop
cmps.u.lt r0.y, r1.x, c0.x
(rpt2)nop
add.u r1.y, c0.y, r0.y
(rpt5)nop
stg.u32 g[r1.x], r2.x, 1
end";

/// A binary of that kernel, with one buffer.
fn binary(constant: u32) -> Vec<u8> {
    let code = TEXT.lines();
    let mut code: Vec<u64> = code
        .map(|line| ir3::encode(&line.parse().unwrap()).unwrap())
        .collect();
    code.resize(code.len().next_multiple_of(16), 0);
    let mut constants = vec![0; 33];
    constants[32] = constant;
    opencl::Binary {
        name: "store".into(),
        arguments: vec![opencl::Argument::Value { at: 0 }],
        full: 3,
        half: 0,
        branch_depth: 0,
        shared_bytes: 0,
        private_bytes: 0,
        samplers: 0,
        constants,
        entry: 8,
        code,
    }
    .to_bytes()
}

fn kernel(bytes: Vec<u8>) -> KernelImage {
    KernelImage {
        name: "store 77".into(),
        arch: "a630".into(),
        bytes: bytes.into(),
        entry: "store".into(),
        args: ArgLayout::new([ArgKind::Buffer]),
        local_bytes: 0,
    }
}

#[test]
fn a_kernel_of_the_vendors_compiler_runs_beside_ours() {
    let twin = TwinMachine::new("").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let options = Options::default();
    let backend = kgsl::open(&machine, 0, &options).unwrap();
    let device = over(&backend, &options).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let images = Binary::parse(&binary(77)).unwrap();
    let images = images.image("a630", &[ArgKind::Buffer], &[]).unwrap();
    device.load(&images).unwrap();
    // As the compiler of this project gives it: the driver reads where its arguments are.
    let theirs = device.load(&kernel(binary(77))).unwrap();
    let ours = device.load(&stand::many("a630")).unwrap();
    let data = stand::memory(&*device, MemoryKind::Device, 4096).unwrap();
    let behind = data.slice(64, 64).unwrap();
    let [one, two] = [[at(&data)].to_vec(), [at(&behind), Val::Const(1)].to_vec()];
    let exec = |program, args, groups| Command::Exec {
        program,
        args,
        grid: [groups, 1, 1],
        block: [1, 1, 1],
    };
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    let commands = [
        exec(&*ours, &two[..], 3),
        exec(&*theirs, &one[..], 5),
        barrier,
        exec(&*ours, &two[..], 4),
    ];
    stream.submit(&[], &commands).unwrap().wait(soon()).unwrap();
    assert_eq!(stand::words(&data, 0).unwrap(), [77, 77, 77, 77, 77, 0]);
    assert_eq!(stand::words(&behind, 0).unwrap(), [5, 5, 5, 5, 0]);
    assert_eq!(twin.machine().broken_rules(), [""; 0]);
    // What is damaged, and what has other arguments, is refused with a reason.
    let mut cut = binary(77);
    cut.truncate(0x200);
    let error = device.load(&kernel(cut)).err().unwrap().to_string();
    assert!(error.contains("is truncated in its"), "{error}");
    let two = KernelImage {
        args: ArgLayout::new([ArgKind::Buffer; 2]),
        ..kernel(binary(77))
    };
    let error = device.load(&two).err().unwrap().to_string();
    assert!(error.contains("expected 1 values and 0 images"), "{error}");
}
