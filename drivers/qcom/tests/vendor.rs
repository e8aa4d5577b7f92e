//! A kernel as Qualcomm's OpenCL compiler writes it, made by hand, on the twin: registers that are apart, its own modes,
//! beside a kernel of ours in one submission.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::sync::Arc;

use codegen::ir3;
use drivers_qcom::vendor::Binary;
use drivers_qcom::{Options, kgsl, over};
use hcq::transport::Machine;
use hcq::{ArgKind, Command, Device, MemoryKind, QueueKind, Scope, Stream, Val};
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
    let code: Vec<u8> = TEXT
        .lines()
        .flat_map(|line| ir3::encode(&line.parse().unwrap()).unwrap().to_le_bytes())
        .collect();
    let (program, constants, code_at, kernel) = (0x140, 0x160, 0x190, 0x400);
    let mut bytes = vec![0; 0x600];
    bytes[code_at..code_at + code.len()].copy_from_slice(&code);
    bytes[kernel + 0x158..][..5].copy_from_slice(b"store");
    let mut put = |at: usize, word: usize| {
        bytes[at..at + 4].copy_from_slice(&(word as u32).to_le_bytes());
    };
    let section = |n: usize| 0x30 + n * 20;
    put(0x18, 12);
    put(section(0) + 4, program);
    put(section(6) + 4, constants);
    put(section(6) + 8, 40);
    put(section(7) + 4, code_at);
    put(section(10) + 8, code.len());
    put(section(11) + 4, kernel);
    put(program + 0x14, 3);
    put(constants, constant as usize);
    put(constants + 16, 32);
    put(constants + 24, 1);
    put(kernel + 0xc4, 8);
    put(kernel + 0x158 + 8, 32);
    bytes
}

#[test]
fn a_kernel_of_the_vendors_compiler_runs_beside_ours() {
    let twin = TwinMachine::new("").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let options = Options::default();
    let backend = kgsl::open(&machine, 0, &options).unwrap();
    let device = over(&backend, &options).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let theirs = Binary::parse(&binary(77)).unwrap();
    let theirs = theirs.image("a630", &[ArgKind::Buffer], &[]).unwrap();
    let theirs = device.load(&theirs).unwrap();
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
}
