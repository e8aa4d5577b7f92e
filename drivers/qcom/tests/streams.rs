//! Our packets beside those of a driver that has run on an Adreno 630: decoded, and compared for the same operations. Each
//! difference has its reason here.
#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use drivers_qcom::encode::builtin::Builtin;
use drivers_qcom::encode::{Encoder, Setup, launch};
use drivers_qcom::object::Object;
use drivers_spec::qcom::chip::find;
use drivers_spec::qcom::packet::{self, LoadState, Packet, op};
use drivers_spec::qcom::regs::{self, SHARED_REGISTERS};
use hcq::{
    ArgLayout, Command, CommandBuffer, Deadline, DeviceId, GpuVa, Program, QueueKind, Result,
    Scope, Signal, SignalMemory, Val,
};
use serde_json::Value;

/// Where the recorded driver had what flushes write, its code and its first signal.
const DUMMY: u64 = 0x50_0000_0000;
const CODE: u64 = 0x50_06c0_0000;
const SIGNAL: u64 = 0x60_0000_1000;
const BUFFERS: [u64; 3] = [0x60_1000_0000, 0x60_2000_0000, 0x60_3000_0000];

/// Encoding reads nothing of a signal but its address.
struct Absent;

impl SignalMemory for Absent {
    fn value(&self) -> Result<u64> {
        Ok(0)
    }
    fn set(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn timestamp(&self) -> Result<u64> {
        Ok(0)
    }
    fn wait(&self, _: u64, _: Deadline) -> Result<()> {
        Ok(())
    }
}

/// The words of a recorded operation.
fn recorded(name: &str) -> Vec<u32> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/qcom/a630.json");
    let text = std::fs::read_to_string(file).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let cases = all["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == name).unwrap();
    let words = case["dwords"].as_array().unwrap().iter();
    let word = |word: &Value| {
        let text = word.as_str().unwrap().trim_start_matches("0x");
        u32::from_str_radix(text, 16).unwrap()
    };
    words.map(word).collect()
}

fn encoder() -> Encoder {
    let chip = find(0x0603_0001).unwrap();
    let setup = Setup {
        device: DeviceId::new("QCOM", 0),
        kind: QueueKind::Compute,
        index: 0,
        chip,
        scratch: GpuVa(DUMMY),
        border: GpuVa(0x50_0120_0000),
    };
    Encoder::new(setup, Builtin::new(chip, 0x50_0700_0000).unwrap())
}

fn encode(commands: &[Command<'_>]) -> Vec<u32> {
    let mut out = CommandBuffer::new();
    encoder().encode(commands, &mut out).unwrap();
    out.relocate(0x60_4000_0000);
    out.words
}

fn signal() -> Signal {
    Signal::new("s", GpuVa(SIGNAL), Arc::new(Absent))
}

#[test]
fn barriers_are_the_recorded_ones() {
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    assert_eq!(encode(&[barrier]), recorded("memory_barrier"));
}

#[test]
fn waits_are_the_recorded_ones_with_the_barrier_that_follows() {
    let wait = Command::Wait {
        signal: &signal(),
        value: Val::Const(5),
    };
    // The recorded driver puts a barrier behind the waits of each launch itself.
    let expected = [recorded("wait"), recorded("memory_barrier")].concat();
    assert_eq!(encode(&[wait]), expected);
}

#[test]
fn signals_are_the_recorded_ones_without_a_second_flush() {
    let signal = Command::Signal {
        signal: &signal(),
        value: Val::Const(6),
    };
    // The recorded driver flushes again behind the value. The event that writes the value has flushed: Mesa,
    // src/freedreno/vulkan/tu_cmd_buffer.cc and gallium's fd6_emit.cc, has one for a fence.
    let recorded = recorded("signal");
    let (expected, flush) = recorded.split_at(6);
    assert_eq!(encode(&[signal]), expected);
    assert_eq!(flush.len(), 5);
}

#[test]
fn timestamps_are_the_recorded_ones_and_are_in_memory_before_what_follows() {
    let timestamp = Command::Timestamp { signal: &signal() };
    // The signal that tells the host of it is written by another unit than CP.
    let wait = packet::type7(op::WAIT_MEM_WRITES, 0);
    let expected = [recorded("timestamp"), vec![wait]].concat();
    assert_eq!(encode(&[timestamp]), expected);
}

/// What a launch is: the registers at that moment, loaded state without addresses, groups.
#[derive(Debug, Default)]
struct Launch {
    registers: BTreeMap<u32, u32>,
    loads: Vec<LoadState>,
    groups: Vec<u32>,
    others: Vec<u8>,
}

fn read(words: &[u32]) -> Launch {
    let mut launch = Launch::default();
    for packet in packet::packets(words) {
        match packet.unwrap().1 {
            Packet::Registers { first, values } => {
                launch
                    .registers
                    .extend((first..).zip(values.iter().copied()));
            }
            Packet::Command {
                op: op::LOAD_STATE6_FRAG,
                body,
            } => {
                launch.loads.push(LoadState::decode(body[0]));
            }
            Packet::Command {
                op: op::EXEC_CS,
                body,
            } => launch.groups = body.to_vec(),
            Packet::Command { op, .. } => launch.others.push(op),
        }
    }
    launch
}

#[test]
fn launches_are_the_recorded_ones_but_for_what_has_a_reason() {
    let chip = find(0x0603_0001).unwrap();
    let object = Object {
        flags: 0,
        full: 7,
        half: 1,
        vectors: 256,
        argument_bytes: 24,
        group_id: SHARED_REGISTERS,
        local_id: 0,
        ..Object::new(vec![3 << 56; 48])
    };
    let program = Program {
        name: "E_2_32_4".into(),
        entry: GpuVa(CODE),
        args: ArgLayout::buffers(3),
        local_bytes: 0,
        launch_words: launch::words(chip, &object, CODE).unwrap(),
        owner: Box::new(()),
    };
    let exec = Command::Exec {
        program: &program,
        args: &BUFFERS.map(Val::Const),
        grid: [2, 1, 1],
        block: [32, 1, 1],
    };
    let mut out = CommandBuffer::new();
    encoder().begin(&mut out);
    encoder().encode(&[exec], &mut out).unwrap();
    let ours = read(&out.words);
    let theirs = read(&recorded("exec"));
    assert_eq!((&ours.loads, &ours.groups), (&theirs.loads, &theirs.groups));
    let name = |address: u32| regs::at(address).map_or("", |register| register.word.name);
    let mut differences = Vec::new();
    let all: std::collections::BTreeSet<_> = ours
        .registers
        .keys()
        .chain(theirs.registers.keys())
        .collect();
    for &address in all {
        let (our, their) = (ours.registers.get(&address), theirs.registers.get(&address));
        if our != their {
            differences.push((name(address), our.copied(), their.copied()));
        }
    }
    let expected = [
        // Mesa's values, which the recorded driver leaves as they are: another client may have changed them.
        ("UCHE_UNKNOWN_0E12", Some(0x1000_0001), None),
        ("UCHE_CLIENT_PF", Some(4), None),
        // Without private memory its address and that of the stack mean nothing: Mesa writes zeros.
        ("SP_CS_PVT_MEM_BASE", Some(0), Some(0x06e0_0000)),
        ("SP_CS_PVT_MEM_BASE_HI", Some(0), Some(0x50)),
        ("SP_CS_PVT_MEM_STACK_OFFSET", Some(0), Some(0x1000)),
        // As above.
        ("SP_DBG_ECO_CNTL", Some(0), None),
        ("SP_CHICKEN_BITS", Some(0x1430), None),
        ("SP_NC_MODE_CNTL_2", Some(0), None),
        // Mesa's value for A630; the recorded driver has zero.
        ("TPL1_DBG_ECO_CNTL", Some(0x0010_8000), Some(0)),
        // 256 vectors are 64 units. The recorded driver writes the vectors where units belong, so none; it works, as the
        // mode of the constant RAM is that of 256.
        ("SP_CS_CONST_CONFIG", Some(0x140), Some(0x100)),
        // As above.
        ("HLSQ_DBG_ECO_CNTL", Some(0x0008_0000), None),
    ];
    assert_eq!(differences, expected);
    // Registers of a launch are those at its packet: nothing waits for the launch before, and nothing flushes behind. A
    // barrier or a signal does, where one is asked for.
    assert_eq!(
        theirs.others,
        [op::SET_MARKER, op::WAIT_FOR_IDLE, op::EVENT_WRITE]
    );
    assert_eq!(
        ours.others,
        [
            op::EVENT_WRITE,
            op::EVENT_WRITE,
            op::WAIT_MEM_WRITES,
            op::WAIT_FOR_IDLE,
            op::SET_MARKER
        ]
    );
    // The recorded driver writes the numbers of a launch twice: the second ones are those of the code.
    let arguments: Vec<u32> = BUFFERS
        .iter()
        .flat_map(|at| [*at as u32, (at >> 32) as u32])
        .collect();
    assert_eq!(out.data[..6], arguments);
}
