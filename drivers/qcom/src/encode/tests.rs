//! What an encoder makes, without a device.

use std::sync::Arc;

use drivers_spec::qcom::chip::{CHIPS, Chip, Gens, find};
use drivers_spec::qcom::packet::{self, LoadState, Packet, load_state6_0 as load, op};
use drivers_spec::qcom::regs::{self, dword};
use hcq::command_buffer::{Part, Section};
use hcq::{
    ArgKind, ArgLayout, Command, CommandBuffer, Compare, Deadline, DeviceId, GpuVa, Program,
    QueueKind, Scope, Signal, SignalMemory, Slot, Val, Width,
};

use super::private::Private;
use super::*;
use crate::object::{Image, Object, flags};

/// Memory of a signal that nobody writes.
struct Untouched;

impl SignalMemory for Untouched {
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

pub(crate) fn signal() -> Signal {
    Signal::new("signal", GpuVa(0x60_0000_1000), Arc::new(Untouched))
}

fn of(chip: &'static Chip, kind: QueueKind) -> Encoder {
    let setup = Setup {
        device: DeviceId::new("QCOM", 0),
        kind,
        index: 0,
        chip,
        scratch: GpuVa(0x50_0000_0000),
        border: GpuVa(0x50_0120_0000),
    };
    Encoder::new(setup, Builtin::new(chip, 0x50_0700_0000).unwrap())
}

pub(crate) fn encoder() -> Encoder {
    of(find(0x0603_0001).unwrap(), QueueKind::Compute)
}

fn encode(encoder: &Encoder, commands: &[Command<'_>]) -> CommandBuffer {
    let mut out = CommandBuffer::new();
    encoder.encode(commands, &mut out).unwrap();
    check(encoder.setup().chip, &out.words);
    out
}

/// Every word is one of a packet of the tables, and registers are those of the chip.
fn check(chip: &Chip, words: &[u32]) {
    for packet in packet::packets(words) {
        match packet.unwrap().1 {
            Packet::Command { op, body } => drop(packet::check(op, body).unwrap()),
            Packet::Registers { first, values } => {
                for (address, value) in (first..).zip(values) {
                    let register = regs::at(address).unwrap_or_else(|| panic!("{address:#x}"));
                    let mask = register.word.mask(chip.generation);
                    assert_eq!(value & !mask, 0, "{}", register.word.name);
                }
            }
        }
    }
}

fn refused(encoder: &Encoder, command: Command<'_>) -> String {
    let done = encoder.encode(&[command], &mut CommandBuffer::new());
    done.unwrap_err().to_string()
}

fn ops(words: &[u32]) -> Vec<u8> {
    let packets = packet::packets(words).map(|packet| packet.unwrap().1);
    let op = |packet| match packet {
        Packet::Command { op, .. } => Some(op),
        Packet::Registers { .. } => None,
    };
    packets.filter_map(op).collect()
}

fn program(chip: &Chip, object: &Object, args: ArgLayout) -> Program {
    Program {
        name: "kernel".into(),
        entry: GpuVa(0x50_0600_0000),
        args,
        local_bytes: 0,
        launch_words: launch::words(chip, object, 0x50_0600_0000).unwrap(),
        owner: Box::new(()),
    }
}

fn exec<'a>(program: &'a Program, args: &'a [Val]) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [3, 2, 1],
        block: [32, 1, 1],
    }
}

fn kernel() -> Object {
    Object {
        vectors: 4,
        argument_bytes: 32,
        grid_at: 32,
        block_at: 44,
        constants_at: 56,
        constants: vec![0x3f80_0000],
        ..Object::new(vec![3 << 56; 20])
    }
}

#[test]
fn values_of_64_bits_go_by_halves() {
    let (encoder, signal) = (encoder(), signal());
    let wait = |value| {
        let signal = &signal;
        encode(&encoder, &[Command::Wait { signal, value }])
    };
    let acquire = [
        op::EVENT_WRITE,
        op::EVENT_WRITE,
        op::WAIT_MEM_WRITES,
        op::WAIT_FOR_IDLE,
    ];
    let one = [&[op::WAIT_REG_MEM], &acquire[..]].concat();
    let two = [&[op::WAIT_REG_MEM; 2], &acquire[..]].concat();
    assert_eq!(ops(&wait(Val::Const(5)).words), one);
    let wide = wait(Val::Const(7 << 32 | 5));
    assert_eq!(ops(&wide.words), two);
    // The upper half first.
    assert_eq!(
        (wide.words[2], wide.words[4], wide.words[9], wide.words[11]),
        (0x1004, 7, 0x1000, 5)
    );
    let open = wait(Val::Slot(Slot(2), 1));
    let parts: Vec<_> = open
        .patches
        .iter()
        .map(|p| (p.offset, p.part, p.slot, p.add))
        .collect();
    assert_eq!(
        parts,
        [(16, Part::High, Slot(2), 1), (44, Part::Low, Slot(2), 1)]
    );
    // The lower half first.
    let value = Val::Const(7 << 32 | 5);
    let written = encode(
        &encoder,
        &[Command::Signal {
            signal: &signal,
            value,
        }],
    )
    .words;
    assert_eq!(
        ops(&written),
        [op::WAIT_FOR_IDLE, op::EVENT_WRITE, op::EVENT_WRITE]
    );
    assert_eq!(
        (written[3], written[5], written[8], written[10]),
        (0x1000, 5, 0x1004, 7)
    );
}

#[test]
fn waits_share_an_acquire_and_never_take_the_head() {
    let (encoder, signal) = (encoder(), signal());
    let wait = Command::Wait {
        signal: &signal,
        value: Val::Const(1),
    };
    let twice = encode(&encoder, &[wait, wait]).words;
    assert_eq!(
        ops(&twice)
            .iter()
            .filter(|op| **op == op::WAIT_FOR_IDLE)
            .count(),
        1
    );
    let barrier = Command::Barrier {
        scope: Scope::Queue,
    };
    // A barrier before a wait flushes what kernels have stored.
    let after = encode(&encoder, &[barrier, wait]).words;
    let idle = ops(&after)
        .into_iter()
        .filter(|op| *op == op::WAIT_FOR_IDLE);
    assert_eq!(idle.count(), 2);
    let acquire = encode(&encoder, &[barrier]).words;
    let mut out = CommandBuffer::headed(acquire.clone());
    encoder.encode(&[wait], &mut out).unwrap();
    assert_eq!(out.words.len(), 2 * acquire.len() + 7);
}

#[test]
fn what_a_queue_cannot_do_is_refused() {
    let encoder = encoder();
    let poll = |at, mask, value, compare, width| {
        let (at, value) = (Val::Const(at), Val::Const(value));
        refused(
            &encoder,
            Command::Poll {
                at,
                mask,
                value,
                compare,
                width,
            },
        )
    };
    assert!(poll(2, 1, 1, Compare::Equal, Width::W32).contains("not aligned"));
    assert!(poll(8, u64::MAX, 1, Compare::NotEqual, Width::W64).contains("poll one half"));
    assert!(poll(8, 1, 3, Compare::Equal, Width::W64).contains("outside mask"));
    assert!(poll(1 << 48, 1, 1, Compare::Equal, Width::W32).contains("48-bit"));
    let write = Command::Write {
        at: Val::Const(4),
        value: Val::Const(1),
        width: Width::W64,
    };
    assert!(refused(&encoder, write).contains("not aligned"));
    let fill = |at, bytes| Command::Fill {
        at: Val::Const(at),
        value: 1,
        bytes,
    };
    assert!(refused(&encoder, fill(2, 8)).contains("not aligned"));
    assert!(refused(&encoder, fill(4, 6)).contains("multiple of the 4-byte"));
    let copy = Command::Copy {
        dst: Val::Const(100),
        src: Val::Const(101),
        bytes: 8,
    };
    assert!(refused(&encoder, copy).contains("overlap"));
    let chip = encoder.setup().chip;
    let program = program(chip, &kernel(), ArgLayout::buffers(2));
    let args = [Val::Const(0), Val::Const(0)];
    let copies = of(chip, QueueKind::Copy);
    assert!(refused(&copies, exec(&program, &args)).contains("cannot run kernels"));
    assert!(
        refused(&encoder, exec(&program, &args[..1]))
            .contains("1 arguments given, the kernel takes 2")
    );
    let sized = |grid, block| {
        refused(
            &encoder,
            Command::Exec {
                program: &program,
                args: &args,
                grid,
                block,
            },
        )
    };
    assert!(sized([1; 3], [1025, 1, 1]).contains("1 to 1024"));
    assert!(sized([1; 3], [0, 1, 1]).contains("1 to 1024"));
    assert!(sized([65536, 1, 1], [1; 3]).contains("at most 65535 groups"));
    let foreign = Program {
        launch_words: Box::new([1, 2]),
        ..program
    };
    assert!(refused(&encoder, exec(&foreign, &args)).contains("another driver"));
}

#[test]
fn a_launch_has_its_arguments_sizes_and_constants() {
    let encoder = encoder();
    let chip = encoder.setup().chip;
    let layout = ArgLayout::new([ArgKind::Buffer, ArgKind::Value(Width::W32)]);
    let program = program(chip, &kernel(), layout);
    let args = [Val::Const(0x60_1000_0000), Val::Slot(Slot(1), 2)];
    let out = encode(&encoder, &[exec(&program, &args), exec(&program, &args)]);
    let mut expected = vec![
        0x1000_0000,
        0x60,
        0,
        0,
        0,
        0,
        0,
        0,
        3,
        2,
        1,
        32,
        1,
        1,
        0x3f80_0000,
        0,
    ];
    expected.extend(expected.clone());
    assert_eq!(out.data, expected);
    let patches: Vec<_> = out
        .patches
        .iter()
        .map(|p| (p.section, p.offset, p.part))
        .collect();
    assert_eq!(
        patches,
        [
            (Section::Data, 8, Part::Low),
            (Section::Data, 72, Part::Low)
        ]
    );
    assert_eq!(
        out.relocs.iter().map(|r| r.add).collect::<Vec<_>>(),
        [0, 64]
    );
    // No groups, no launch.
    let none = Command::Exec {
        program: &program,
        args: &args,
        grid: [1, 0, 1],
        block: [1; 3],
    };
    assert!(encode(&encoder, &[none]).words.is_empty());
}

#[test]
fn images_have_descriptors_with_the_address_of_their_argument() {
    let encoder = encoder();
    let image = |argument| Image {
        argument,
        format: drivers_spec::qcom::descriptor::Format::from_number(0x62).unwrap(),
        width: 128,
        height: 4,
        pitch: 1024,
    };
    let object = Object {
        textures: vec![image(1)],
        uavs: vec![image(0)],
        samplers: vec![
            drivers_spec::qcom::descriptor::Sampler::PIXELS
                .encode()
                .unwrap(),
        ],
        ..kernel()
    };
    let program = program(encoder.setup().chip, &object, ArgLayout::buffers(2));
    let args = [Val::Const(0x61_2000_0040), Val::Slot(Slot(0), 64)];
    let out = encode(&encoder, &[exec(&program, &args)]);
    let states = packet::packets(&out.words).filter_map(|packet| match packet.unwrap().1 {
        Packet::Command {
            op: op::LOAD_STATE6_FRAG,
            body,
        } => Some(LoadState::decode(body[0])),
        _ => None,
    });
    let states: Vec<_> = states
        .map(|state| (state.kind, state.block, state.units))
        .collect();
    let expected = [
        (load::ST6_CONSTANTS, load::SB6_CS_SHADER, 4),
        (load::ST6_SHADER, load::SB6_CS_SHADER, 2),
        (load::ST6_SHADER, load::SB6_CS_TEX, 1),
        (load::ST6_CONSTANTS, load::SB6_CS_TEX, 1),
        (load::ST6_UAV, load::SB6_CS_SHADER, 1),
    ];
    assert_eq!(states, expected);
    // Constants, samplers, textures, images, each at a multiple of 64 bytes.
    assert_eq!(out.data.len(), 64);
    assert_eq!(out.data[48..][4..6], [0x2000_0040, 0x61]);
    let patches: Vec<_> = out.patches.iter().map(|p| (p.offset, p.part)).collect();
    assert_eq!(
        patches[1..],
        [
            (144, Part::Low),
            (
                148,
                Part::Field {
                    shift: 32,
                    mask: 0x1_ffff,
                    at: 0
                }
            )
        ]
    );
    // The border colours are those of the queue.
    let border = packet::packets(&out.words).any(|packet| {
        matches!(packet.unwrap().1, Packet::Registers { first, values }
            if first == dword(&regs::TPL1_CS_BORDER_COLOR_BASE) && values == [0x0120_0000, 0x50])
    });
    assert!(border);
    let askew = [Val::Const(0x61_2000_0020), args[1]];
    assert!(refused(&encoder, exec(&program, &askew)).contains("multiple of 64"));
}

#[test]
fn images_are_read_where_their_addresses_are_known_and_fit() {
    let encoder = encoder();
    let chip = encoder.setup().chip;
    let image = Image {
        argument: 1,
        format: drivers_spec::qcom::descriptor::Format::Rgba32Uint,
        width: 128,
        height: 1,
        pitch: 2048,
    };
    let object = Object {
        textures: vec![image],
        samplers: vec![[0; 4]],
        ..kernel()
    };
    let plain = Object {
        code: vec![3 << 56; 36],
        ..kernel()
    };
    let code = 0x50_0600_0000;
    let program = Program {
        launch_words: launch::versions(chip, (&object, code), Some((&plain, code + 256))).unwrap(),
        ..program(chip, &object, ArgLayout::buffers(2))
    };
    // Which code is launched, and whether textures are loaded.
    let launched = |second: Val| {
        let args = [Val::Const(0x61_2000_0000), second];
        let out = encode(&encoder, &[exec(&program, &args)]);
        let packets = || packet::packets(&out.words).map(|packet| packet.unwrap().1);
        let base = packets().find_map(|packet| match packet {
            Packet::Registers { first, values } if first == dword(&regs::SP_CS_CNTL_0) => {
                Some(u64::from(values[5]) << 32 | u64::from(values[4]))
            }
            _ => None,
        });
        let is_texture = |packet| match packet {
            Packet::Command {
                op: op::LOAD_STATE6_FRAG,
                body,
            } => {
                let state = LoadState::decode(body[0]);
                (state.kind, state.block) == (load::ST6_CONSTANTS, load::SB6_CS_TEX)
            }
            _ => false,
        };
        (base.unwrap(), packets().any(is_texture))
    };
    let (with, without) = ((code, true), (code + 256, false));
    assert_eq!(launched(Val::Const(0x61_2000_0040)), with);
    assert_eq!(launched(Val::Const(0x61_2000_0020)), without);
    assert_eq!(launched(Val::Const(0x61_2000_0044)), without);
    assert_eq!(launched(Val::Slot(Slot(0), 64)), without);
    // Both arguments are one buffer; the other one begins in the image of 2 KiB, and right behind it.
    assert_eq!(launched(Val::Const(0x61_2000_0000)), without);
    assert_eq!(launched(Val::Const(0x61_1fff_f840)), without);
    assert_eq!(launched(Val::Const(0x61_1fff_f800)), with);
}

#[test]
fn private_memory_is_that_of_the_queue_and_kept_with_the_packets() {
    let encoder = encoder();
    let chip = encoder.setup().chip;
    let object = Object {
        private_bytes: 600,
        flags: flags::MERGED | flags::PER_WAVE,
        ..kernel()
    };
    let program = program(chip, &object, ArgLayout::buffers(1));
    let args = [Val::Const(0)];
    assert!(
        refused(&encoder, exec(&program, &args))
            .contains("600 bytes of private memory per fiber, the queue has 0")
    );
    let kept: Keep = Arc::new(());
    let private = Private::plan(chip, 600).unwrap().at(GpuVa(0x50_0800_0000));
    encoder.set_private(private, Some(kept.clone()));
    let out = encode(&encoder, &[exec(&program, &args)]);
    assert!(encoder.uses(&kept) && out.keep.len() == 1);
    let registers = packet::packets(&out.words).find_map(|packet| match packet.unwrap().1 {
        Packet::Registers { first, values } if first == dword(&regs::SP_CS_CNTL_0) => {
            Some(values[6..].to_vec())
        }
        _ => None,
    });
    assert_eq!(registers.unwrap(), private.registers(true));
    encoder.set_private(Private::default(), None);
    assert!(!encoder.uses(&kept));
}

#[test]
fn copies_move_whole_units_and_their_ends() {
    let encoder = encoder();
    // Fibers of each launch, and where they write.
    let launches = |command| {
        let out = encode(&encoder, &[command]);
        let sizes = packet::packets(&out.words).filter_map(|packet| match packet.unwrap().1 {
            Packet::Registers { first, values } if first == dword(&regs::SP_CS_NDRANGE_0) => {
                Some(values[1])
            }
            _ => None,
        });
        let places = out.data.chunks(16).map(|data| (data[0], data[2], data[4]));
        sizes.zip(places).collect::<Vec<_>>()
    };
    let copy = |dst, src, bytes| {
        let (dst, src) = (Val::Const(dst), Val::Const(src));
        launches(Command::Copy { dst, src, bytes })
    };
    assert!(copy(0x1000, 0x8000, 0).is_empty());
    assert_eq!(copy(0x1000, 0x8000, 5), [(5, (0x1000, 0x8000, 0))]);
    assert_eq!(
        copy(0x1000, 0x8004, 16 * 129 + 3),
        [
            (128, (0x1000, 0x8004, 0)),
            (1, (0x1800, 0x8804, 0)),
            (3, (0x1810, 0x8814, 0)),
        ]
    );
    // From an odd address: shifted by a byte.
    assert_eq!(
        copy(0x1003, 0x8000, 32),
        [
            (13, (0x1003, 0x8000, 0)),
            (1, (0x1010, 0x800c, 8)),
            (3, (0x1020, 0x801d, 0))
        ]
    );
    let open = Command::Copy {
        dst: Val::Slot(Slot(0), 0),
        src: Val::Const(0x8000),
        bytes: 300,
    };
    assert_eq!(launches(open).len(), 2);
    // The kernel finds the ends.
    let large = |bytes| {
        let dst = Val::Slot(Slot(0), 0);
        let src = Val::Slot(Slot(1), 0);
        launches(Command::Copy { dst, src, bytes })
    };
    assert_eq!(large(1 << 20)[0].1.2, 1 << 20);
    assert_eq!((large(1 << 20).len(), large((64 << 20) + 1).len()), (1, 2));
    assert_eq!(large((64 << 20) + 1024).len(), 3);
    let fill = |at, bytes| {
        let at = Val::Const(at);
        launches(Command::Fill {
            at,
            value: 7,
            bytes,
        })
    };
    assert_eq!(
        fill(0x1004, 40),
        [
            (3, (0x1004, 7, 0)),
            (1, (0x1010, 7, 0)),
            (3, (0x1020, 7, 0))
        ]
    );
    // More than a launch has.
    assert_eq!(fill(0x1000, (64 << 20) + 16).len(), 2);
}

#[test]
fn every_chip_has_its_registers() {
    for chip in CHIPS {
        let encoder = of(chip, QueueKind::Compute);
        let mut out = CommandBuffer::new();
        encoder.begin(&mut out);
        let program = program(chip, &kernel(), ArgLayout::buffers(1));
        encoder
            .encode(&[exec(&program, &[Val::Const(0)])], &mut out)
            .unwrap();
        check(chip, &out.words);
        let mirrors = packet::packets(&out.words).any(|packet| {
            matches!(packet.unwrap().1, Packet::Registers { first, .. } if first == dword(&regs::HLSQ_CS_CTRL_REG1))
        });
        assert_eq!(mirrors, Gens::LPAC.has(chip.generation), "{}", chip.name);
    }
}

#[test]
fn what_a_chip_does_not_have_is_named() {
    let words = |id, change: &dyn Fn(&mut Object)| {
        let mut object = kernel();
        change(&mut object);
        launch::words(find(id).unwrap(), &object, 0).map_err(|e| e.to_string())
    };
    let a610 = 0x0601_0000;
    assert!(
        words(a610, &|o| o.flags |= flags::THREAD128)
            .unwrap_err()
            .contains("expected 64")
    );
    assert!(
        words(a610, &|o| o.shared_bytes = 20 << 10)
            .unwrap_err()
            .contains("at most 16384 bytes")
    );
    assert!(words(0x0603_0000, &|o| o.shared_bytes = 20 << 10).is_ok());
    let a650 = 0x0605_0000;
    assert!(
        words(a650, &|o| (o.full, o.flags) = (33, flags::ALL))
            .unwrap_err()
            .contains("at most 32")
    );
    assert!(words(a650, &|o| (o.full, o.half, o.flags) = (40, 48, 0)).is_ok());
    assert!(
        words(a650, &|o| (o.full, o.half, o.flags) = (48, 48, 0))
            .unwrap_err()
            .contains("at most 64")
    );
}

#[test]
fn long_code_tells_its_length_to_the_prefetcher() {
    let encoder = encoder();
    let chip = encoder.setup().chip;
    let at = |count| {
        let object = Object {
            code: vec![3 << 56; count],
            ..kernel()
        };
        let program = program(chip, &object, ArgLayout::buffers(1));
        let out = encode(&encoder, &[exec(&program, &[Val::Const(0)])]);
        let labels = ops(&out.words)
            .iter()
            .filter(|op| **op == op::EVENT_WRITE)
            .count();
        let preload = packet::packets(&out.words).find_map(|packet| match packet.unwrap().1 {
            Packet::Command {
                op: op::LOAD_STATE6_FRAG,
                body,
            } => {
                let state = LoadState::decode(body[0]);
                (state.kind == load::ST6_SHADER).then_some(state.units)
            }
            _ => None,
        });
        (labels, preload.unwrap())
    };
    assert_eq!(at(1024), (0, 64));
    assert_eq!(at(1025), (2, 64));
    assert_eq!(at(17), (0, 2));
}
