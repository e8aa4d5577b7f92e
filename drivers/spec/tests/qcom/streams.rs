//! Recorded streams and calls of a driver that has run on an Adreno 630, decoded by our tables: every packet is whole and
//! of a known command, every register is known, and no bit is set that no field has. And packets at random, there and
//! back.

use std::collections::BTreeSet;
use std::path::Path;

use drivers_spec::qcom::chip::{self, Gen};
use drivers_spec::qcom::packet::{self, Error, LoadState, Packet, check, op, packets, parity};
use drivers_spec::qcom::{kgsl, regs};
use hcq::transport::Ioctl;
use proptest::prelude::*;
use serde_json::Value;
use zerocopy::FromBytes;

fn load() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/qcom/a630.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap().trim_start_matches("0x");
    u64::from_str_radix(text, 16).unwrap()
}

fn words(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|word| number(word) as u32).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    let hex = |i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    (0..text.len() / 2).map(hex).collect()
}

/// Decodes a stream whole, checks it, and puts it together again; returns names of what is in it.
fn check_stream(stream: &[u32]) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    let mut again = Vec::new();
    let a630 = chip::find(0x0603_0001).unwrap();
    for packet in packets(stream) {
        let (at, packet) = packet.unwrap();
        assert_eq!(at, again.len());
        packet.encode(&mut again).unwrap();
        match packet {
            Packet::Command { op, body } => {
                let command = check(op, body).unwrap();
                seen.insert(command.name);
            }
            Packet::Registers { first, values } => {
                for (address, value) in (first..).zip(values) {
                    let reg = regs::at(address).unwrap_or_else(|| panic!("{address:#x}"));
                    let unknown = value & !reg.word.mask(Gen::Gen1);
                    assert_eq!(unknown, 0, "{} = {value:#x}", reg.word.name);
                    assert!(reg.word.on.has(a630.generation), "{}", reg.word.name);
                    seen.insert(reg.word.name);
                }
            }
        }
    }
    assert_eq!(again, stream);
    seen
}

#[test]
fn recorded_streams_decode_whole() {
    let file = load();
    let mut seen = BTreeSet::new();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        seen.extend(check_stream(&words(&case["dwords"])));
    }
    let calls = file["calls"].as_array().unwrap();
    let submissions = calls.iter().filter(|call| call["nested"]["ib"].is_object());
    let mut count = 0;
    for call in submissions {
        let stream = words(&call["nested"]["ib"]["dwords"]);
        let object = bytes(&call["nested"]["cmdlist"]);
        let object = kgsl::CommandObject::read_from_bytes(&object).unwrap();
        assert_eq!(object.size, 4 * stream.len() as u64);
        assert_eq!(object.gpuaddr, number(&call["nested"]["ib"]["gpuaddr"]));
        assert_eq!(object.flags, kgsl::Object::IB.bits());
        seen.extend(check_stream(&stream));
        count += 1;
    }
    assert_eq!(count, 1);
    let wanted = [
        "EXEC_CS",
        "LOAD_STATE6_FRAG",
        "WAIT_REG_MEM",
        "EVENT_WRITE",
        "REG_TO_MEM",
        "SP_CS_NDRANGE_0",
        "SP_CS_CNTL_0",
        "SP_CS_CONFIG",
        "SP_UPDATE_CNTL",
    ];
    assert!(wanted.iter().all(|name| seen.contains(name)), "{seen:?}");
}

#[test]
fn a_recorded_dispatch_says_what_it_should() {
    let file = load();
    let cases = file["cases"].as_array().unwrap();
    let stream = |name: &str| {
        let case = cases.iter().find(|case| case["name"] == name).unwrap();
        words(&case["dwords"])
    };
    let exec = stream("exec_3d");
    let mut values = std::collections::BTreeMap::new();
    let mut loads = Vec::new();
    let mut groups = Vec::new();
    for packet in packets(&exec) {
        match packet.unwrap().1 {
            Packet::Registers { first, values: new } => {
                values.extend((first..).zip(new.iter().copied()));
            }
            Packet::Command { op, body } if op == op::LOAD_STATE6_FRAG => {
                loads.push(LoadState::decode(body[0]));
            }
            Packet::Command { op, body } if op == op::EXEC_CS => groups = body[1..].to_vec(),
            Packet::Command { .. } => {}
        }
    }
    let value = |reg: &regs::Reg| values[&regs::dword(reg)];
    // Grid (2, 3, 4) of groups (16, 2, 1).
    let range = value(&regs::SP_CS_NDRANGE_0);
    use regs::sp_cs_ndrange_0::*;
    assert_eq!(KERNELDIM.get(range), 3);
    assert_eq!(
        [LOCALSIZEX, LOCALSIZEY, LOCALSIZEZ].map(|field| field.get(range)),
        [15, 1, 0]
    );
    let sizes = [
        regs::SP_CS_NDRANGE_1,
        regs::SP_CS_NDRANGE_3,
        regs::SP_CS_NDRANGE_5,
    ];
    assert_eq!(sizes.map(|reg| value(&reg)), [32, 6, 4]);
    assert_eq!(groups, [2, 3, 4]);
    let control = value(&regs::SP_CS_CNTL_0);
    assert_eq!(regs::sp_cs_cntl_0::FULLREGFOOTPRINT.get(control), 7);
    assert_eq!(regs::sp_cs_cntl_0::HALFREGFOOTPRINT.get(control), 1);
    // Constants, then 384 bytes of code.
    let kinds = loads.iter().map(|load| (load.unit_bytes(), load.units));
    assert_eq!(kinds.collect::<Vec<_>>(), [(Some(16), 256), (Some(128), 3)]);
    assert_eq!(value(&regs::SP_CS_INSTR_SIZE), 3);
}

#[test]
fn recorded_calls_are_of_our_ioctls() {
    let file = load();
    let calls = file["calls"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    for call in calls {
        let request = number(&call["request"]) as u32;
        let ioctl = kgsl::IOCTLS.iter().find(|ioctl| ioctl.request == request);
        let name = ioctl.unwrap_or_else(|| panic!("{call}")).name;
        assert_eq!(call["name"], name);
        assert_eq!(bytes(&call["in"]).len(), Ioctl::size_of(request));
        seen.insert(name);
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    let named = |name: &str| {
        let found = calls.iter().find(|call| call["name"] == name).unwrap();
        (bytes(&found["in"]), found)
    };
    let (alloc, _) = named("IOCTL_KGSL_GPUOBJ_ALLOC");
    let alloc = kgsl::GpuobjAlloc::read_from_bytes(&alloc).unwrap();
    let flags = kgsl::Memory::USE_CPU_MAP.bits() | 12 << kgsl::memory::ALIGN_SHIFT;
    assert_eq!((alloc.size, alloc.flags), (4096, flags));
    let (create, _) = named("IOCTL_KGSL_DRAWCTXT_CREATE");
    let create = kgsl::DrawctxtCreate::read_from_bytes(&create).unwrap();
    let context = kgsl::Context::PREAMBLE
        | kgsl::Context::NO_GMEM_ALLOC
        | kgsl::Context::PWR_CONSTRAINT
        | kgsl::Context::NO_FAULT_TOLERANCE;
    let parts = kgsl::context::PRIORITY_MEDIUM << kgsl::context::PRIORITY_SHIFT
        | kgsl::context::PREEMPT_STYLE_FINEGRAIN << kgsl::context::PREEMPT_STYLE_SHIFT;
    assert_eq!(create.flags, context.bits() | parts);
    let (get, call) = named("IOCTL_KGSL_DEVICE_GETPROPERTY");
    let get = kgsl::Property::read_from_bytes(&get).unwrap();
    assert_eq!(get.kind, kgsl::property::DEVICE_INFO);
    let info = bytes(&call["nested"]["devinfo_returned"]);
    let info = kgsl::DevInfo::read_from_bytes(&info).unwrap();
    assert_eq!(get.sizebytes, size_of::<kgsl::DevInfo>() as u64);
    assert_eq!(chip::find(info.chip_id).unwrap().name, "A630");
    let (set, call) = named("IOCTL_KGSL_SETPROPERTY");
    let set = kgsl::Property::read_from_bytes(&set).unwrap();
    assert_eq!(set.kind, kgsl::property::PWR_CONSTRAINT);
    let value = kgsl::Constraint::read_from_bytes(&bytes(&call["nested"]["value"])).unwrap();
    assert_eq!(
        (value.kind, value.context_id, value.size),
        (kgsl::constraint::PWRLEVEL, 1, 4)
    );
}

#[test]
fn headers_as_others_have_them() {
    // Checked against KGSL's macros.
    let headers = [
        (packet::type7(op::WAIT_FOR_IDLE, 0), 0x7026_8000),
        (packet::type7(op::EVENT_WRITE, 4), 0x7046_0004),
        (packet::type7(op::EXEC_CS, 4), 0x70b3_0004),
        (packet::type7(op::LOAD_STATE6_FRAG, 3), 0x7034_8003),
        (packet::type7(op::WAIT_REG_MEM, 6), 0x70bc_8006),
        (packet::type4(0xa9b0, 1), 0x40a9_b001),
        (packet::type4(0xb990, 12), 0x40b9_908c),
    ];
    for (ours, theirs) in headers {
        assert_eq!(ours, theirs, "{ours:#x}");
    }
    assert_eq!((parity(0), parity(1), parity(3), parity(7)), (1, 0, 1, 0));
}

fn first_error(stream: &[u32]) -> Error {
    packets(stream).find_map(Result::err).unwrap()
}

#[test]
fn broken_streams_are_refused() {
    let wait = packet::type7(op::WAIT_FOR_IDLE, 0);
    for kind in (0..16).filter(|kind| ![4, 7].contains(kind)) {
        let header = wait & 0x0fff_ffff | kind << 28;
        let at = 1;
        let want = Error::Type { at, header, kind };
        assert_eq!(first_error(&[wait, header]), want);
    }
    let reg = packet::type4(0xa9b0, 2);
    for (header, of) in [
        (wait ^ 1 << 15, "count"),
        (wait ^ 1 << 23, "opcode"),
        (reg ^ 1 << 7, "count"),
        (reg ^ 1 << 27, "register"),
    ] {
        let want = Error::Parity { at: 0, header, of };
        assert_eq!(first_error(&[header, 0, 0]), want);
    }
    for (header, bits) in [
        (wait | 1 << 14, 1 << 14),
        (wait | 1 << 24, 1 << 24),
        (reg | 1 << 26, 1 << 26),
    ] {
        let want = Error::Reserved {
            at: 0,
            header,
            bits,
        };
        assert_eq!(first_error(&[header, 0, 0]), want);
    }
    let header = reg;
    let want = Error::Truncated {
        at: 0,
        header,
        wanted: 2,
        left: 1,
    };
    assert_eq!(first_error(&[header, 0]), want);
    // No registers; one beyond the last.
    for header in [0x48a9_b080 ^ 1 << 27, 0x4bff_ff02] {
        assert_eq!(
            first_error(&[header, 0, 0]),
            Error::Registers { at: 0, header }
        );
    }
    // After an error there is nothing.
    let stream = [0, wait, wait];
    let mut broken = packets(&stream).fuse();
    assert!(broken.next().unwrap().is_err());
    assert_eq!(broken.next(), None);
}

#[test]
fn commands_are_checked_by_their_table() {
    assert!(check(op::NOP, &[1, 2, 3]).is_ok());
    assert_eq!(check(0x7f, &[]), Err(Error::Unknown { op: 0x7f }));
    let is_length = |op, body: &[u32]| matches!(check(op, body), Err(Error::Length { name, .. }) if !name.is_empty());
    assert!(is_length(op::WAIT_FOR_IDLE, &[0]));
    assert!(is_length(op::EXEC_CS, &[0, 1, 1]));
    assert!(is_length(op::EVENT_WRITE, &[4, 0]));
    // An event that writes has an address, another one has none.
    assert!(is_length(op::EVENT_WRITE, &[4]));
    assert!(is_length(op::EVENT_WRITE, &[0x31, 0, 0, 0]));
    assert!(check(op::EVENT_WRITE, &[0x31]).is_ok());
    assert!(is_length(op::MEM_TO_MEM, &[0; 6]));
    assert!(check(op::MEM_TO_MEM, &[0; 7]).is_ok());
    assert!(is_length(op::MEM_TO_MEM, &[0; 11]));
    let bits = Error::Bits {
        name: "EXEC_CS",
        word: "zero",
        bits: 1,
    };
    assert_eq!(check(op::EXEC_CS, &[1, 1, 1, 1]), Err(bits));
    // Data follows what is not indirect: two samplers of four dwords.
    let mut load = LoadState {
        offset: 0,
        kind: packet::load_state6_0::ST6_SHADER,
        source: packet::load_state6_0::SS6_DIRECT,
        block: packet::load_state6_0::SB6_CS_TEX,
        units: 2,
    };
    assert_eq!(load.body(), Some(11));
    let mut body = vec![0; 11];
    body[0] = load.encode();
    assert!(check(op::LOAD_STATE6_FRAG, &body).is_ok());
    assert!(is_length(op::LOAD_STATE6_FRAG, &body[..10]));
    load.source = packet::load_state6_0::SS6_INDIRECT;
    assert!(check(op::LOAD_STATE6_FRAG, &[load.encode(), 64, 0]).is_ok());
    for (i, command) in packet::COMMANDS.iter().enumerate() {
        let before = packet::COMMANDS[..i].last();
        assert!(before.is_none_or(|before| before.op < command.op));
    }
}

#[derive(Clone, Debug)]
enum Any {
    Registers(u32, Vec<u32>),
    Command(u8, Vec<u32>),
}

impl Any {
    fn packet(&self) -> Packet<'_> {
        match self {
            Any::Registers(first, values) => Packet::Registers {
                first: *first,
                values,
            },
            Any::Command(op, body) => Packet::Command { op: *op, body },
        }
    }
}

fn any_packet() -> impl Strategy<Value = Any> {
    let values = |range| proptest::collection::vec(any::<u32>(), range);
    prop_oneof![
        (0u32..packet::REGISTERS_END - 0x7f, values(1usize..0x80))
            .prop_map(|(first, values)| Any::Registers(first, values)),
        (0u8..0x80, values(0usize..0x200)).prop_map(|(op, body)| Any::Command(op, body)),
    ]
}

/// A dword that often is a header.
fn any_dword() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0u8..0x80, 0u32..8).prop_map(|(op, count)| packet::type7(op, count)),
        (0u32..packet::REGISTERS_END - 8, 1u32..8)
            .prop_map(|(first, count)| packet::type4(first, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded(list in proptest::collection::vec(any_packet(), 0..12)) {
        let mut stream = Vec::new();
        for packet in &list {
            packet.packet().encode(&mut stream).unwrap();
        }
        let decoded: Vec<_> = packets(&stream).map(|packet| packet.unwrap().1).collect();
        let wanted: Vec<_> = list.iter().map(Any::packet).collect();
        prop_assert_eq!(decoded, wanted);
    }

    #[test]
    fn a_flipped_bit_of_a_header_changes_what_is_read(packet in any_packet(), bit in 0u32..32) {
        let mut stream = Vec::new();
        packet.packet().encode(&mut stream).unwrap();
        stream[0] ^= 1 << bit;
        // Every field has a parity bit of its own, and every other bit is fixed: no single flip is read.
        prop_assert!(packets(&stream).next().unwrap().is_err());
    }

    #[test]
    fn no_stream_is_read_past_its_end(stream in proptest::collection::vec(any_dword(), 0..64)) {
        let mut end = 0;
        for packet in packets(&stream) {
            let Ok((at, packet)) = packet else { break };
            prop_assert_eq!(at, end);
            end += 1 + match packet {
                Packet::Registers { values, .. } => values.len(),
                Packet::Command { body, .. } => body.len(),
            };
            prop_assert!(end <= stream.len());
        }
    }
}

#[test]
fn what_no_header_holds_is_not_encoded() {
    let long = vec![0; 0x4000];
    let mut out = vec![7];
    for packet in [
        Packet::Registers {
            first: 0,
            values: &[],
        },
        Packet::Registers {
            first: 0,
            values: &long[..0x80],
        },
        Packet::Registers {
            first: 0x3ffff,
            values: &[0, 0],
        },
        Packet::Command {
            op: 0x80,
            body: &[],
        },
        Packet::Command { op: 0, body: &long },
    ] {
        assert!(matches!(
            packet.encode(&mut out),
            Err(Error::TooLong { at: 1, .. })
        ));
        assert_eq!(out, [7]);
    }
}
