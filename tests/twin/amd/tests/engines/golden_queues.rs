//! The streams of `tests/golden/amd` run on the twin, and do what they say.
use crate::stand;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use stand::{Queue, Stand};
use twin::fires::fires;
use twin_amd::chip::{Chip, GFX942, GFX1100, GFX1201};
use twin_amd::gpu::QueueKind;

/// Rules that fire, and are right to.
const RIGHT: &[(&str, &str, &str)] = &[
    // Without PRED_EXEC all 8 XCCs write the value. The driver only uses `write` on one XCC.
    ("gfx942_xcc8", "write32", "PM4-XCC-SIGNAL"),
    ("gfx942_xcc8", "write64", "PM4-XCC-SIGNAL"),
    // These programs were made up for the recording, past the place where the driver sets PRIV.
    ("gfx1100", "exec_synth_3d", "PM4-PRIV-GFX11"),
    ("gfx1100", "exec_synth_wave64", "PM4-PRIV-GFX11"),
    ("gfx1100", "exec_synth_dispatch_ptr", "PM4-PRIV-GFX11"),
    ("gfx1100", "exec_synth_private_sgpr", "PM4-PRIV-GFX11"),
];

const SYMBOLIC: u32 = 0xbadc_0ded;

fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap(),
        other => other.as_u64().unwrap(),
    }
}

fn words(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|word| number(word) as u32).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

struct Case<'a> {
    chip: &'static Chip,
    addresses: &'a BTreeMap<String, u64>,
    device: &'a Value,
    case: &'a Value,
    /// The program of the launches.
    program: &'a Value,
}

const QUEUE_PAGE: u64 = stand::POINTERS;

impl Case<'_> {
    fn at(&self, name: &str) -> u64 {
        self.addresses[name]
    }

    /// Memory as the driver had it.
    fn prepare(&self) -> Stand {
        self.prepare_with(1)
    }

    fn prepare_with(&self, seed: u64) -> Stand {
        let stand = Stand::new(self.chip, seed);
        stand.map(self.at("SIGNAL0") & !0xfff, 0x3000);
        for (name, mib) in [("BUF0", 10), ("BUF1", 10), ("BUF2", 1), ("KERNARG0", 1)] {
            stand.map(self.at(name), mib << 20);
        }
        for name in ["HWPAGE0", "PM4IB0", "PROG0", "RING0"] {
            stand.map(self.at(name), 1 << 20);
        }
        let scratch = number(&self.device["scratch_size"]);
        stand.map(self.at("SCRATCH0"), scratch);
        self.program(&stand);
        let inputs: Vec<f32> = (0..256).map(|i| i as f32).collect();
        for (name, factor) in [("BUF1", 1.0), ("BUF2", 100.0)] {
            let data: Vec<u8> = inputs
                .iter()
                .flat_map(|x| (x * factor).to_le_bytes())
                .collect();
            stand.write(self.at(name), &data);
        }
        for call in self.case["calls"].as_array().unwrap() {
            match call["op"].as_str().unwrap() {
                "wait" => {
                    let signal = self.at(call["signal"].as_str().unwrap());
                    stand.write(signal, &(number(&call["value"]) as u32).to_le_bytes());
                }
                "poll_bit" => {
                    let buffer = self.at(call["buf"].as_str().unwrap());
                    stand.write(buffer, &(number(&call["value"]) as u32).to_le_bytes());
                }
                _ => {}
            }
        }
        stand
    }

    fn program(&self, stand: &Stand) {
        let base = self.at("PROG0");
        if let Some(image) = self.program.get("image") {
            stand.write(base, &bytes(image));
            // The image is not relocated: where the code is, from the descriptor on.
            let descriptor = number(&self.program["aql_prog_addr"]);
            let offset = number(&self.program["prog_addr"]).wrapping_sub(descriptor);
            stand.write(descriptor + 16, &offset.to_le_bytes());
        } else {
            // A made-up program: a descriptor, and a kernel that ends at once.
            let gfx9 = self.chip.name == "gfx942";
            let end = if gfx9 { 0xbf81_0000 } else { 0xbfb0_0000 };
            stand.write_words(base + 0x100, &[end; 64]);
            let mut descriptor = [0u32; 16];
            let packet = self
                .case
                .get("stream")
                .map(|stream| &stream[0]["aql_packet"]);
            if let Some(packet) = packet.filter(|packet| packet.is_string()) {
                let packet = bytes(packet);
                descriptor[0] = u32::from(packet[28]) | u32::from(packet[29]) << 8;
                descriptor[1] = u32::from(packet[24]);
            }
            descriptor[2] = 24;
            descriptor[4] = 0x100;
            (descriptor[12], descriptor[13]) = (0x00af_0081, 0x84);
            // The queue gives the address of the arguments.
            descriptor[14] = 8;
            stand.write_words(base, &descriptor);
        }
        let arguments = match self.case.get("kernargs_after") {
            Some(arguments) => bytes(arguments),
            None => ["BUF0", "BUF1", "BUF2"]
                .iter()
                .flat_map(|name| self.at(name).to_le_bytes())
                .collect(),
        };
        stand.write(self.at("KERNARG0"), &arguments);
    }

    /// The words of the queue; AQL streams become packets.
    fn stream(&self, stand: &Stand, kind: QueueKind) -> Vec<u32> {
        let Some(stream) = self.case.get("stream") else {
            let dwords = words(&self.case["dwords"]);
            if kind != QueueKind::Aql {
                return dwords
                    .into_iter()
                    .map(|word| if word == SYMBOLIC { 64 } else { word })
                    .collect();
            }
            return self.pm4_packet(stand, 0, &dwords);
        };
        let mut packets = Vec::new();
        let mut pm4 = Vec::new();
        let mut ib = 0;
        for item in stream.as_array().unwrap() {
            let Some(packet) = item.get("aql_packet") else {
                pm4.push(number(item) as u32);
                continue;
            };
            if !pm4.is_empty() {
                packets.extend(self.pm4_packet(stand, ib, &pm4));
                ib += pm4.len() as u64 * 4;
                pm4.clear();
            }
            let packet = bytes(packet);
            let mut dispatch: Vec<u32> = packet
                .chunks_exact(4)
                .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                .collect();
            if dispatch[3] == 0 {
                // A grid that was symbolic.
                dispatch[3] = 64;
            }
            packets.extend(dispatch);
        }
        if !pm4.is_empty() {
            packets.extend(self.pm4_packet(stand, ib, &pm4));
        }
        packets
    }

    fn pm4_packet(&self, stand: &Stand, offset: u64, dwords: &[u32]) -> Vec<u32> {
        let va = self.at("PM4IB0") + offset;
        stand.write_words(va, dwords);
        let mut packet = vec![0; 16];
        packet[0] = 0x1_1500;
        packet[1] = 0xc002_3f00;
        (packet[2], packet[3]) = (va as u32, (va >> 32) as u32);
        packet[4] = dwords.len() as u32 | 1 << 23;
        packet[5] = 10;
        packet
    }

    fn run(&self) -> Stand {
        let stand = self.prepare();
        let kind = match self.case["queue"].as_str().unwrap() {
            "sdma" => QueueKind::Sdma { engine: 0 },
            "aql" => QueueKind::Aql,
            _ => QueueKind::Pm4,
        };
        let calls = self.case["calls"].as_array().unwrap();
        let submit = calls.iter().find(|call| call["op"] == "submit");
        let ring_bytes = submit.map_or(65536, |call| number(&call["ring_bytes"]));
        let ring = self.at("RING0");
        let scratch = number(&self.device["scratch_size"]);
        let tmpring = number(&self.device["tmpring_size"]) as u32;
        stand.write_words(QUEUE_PAGE + 140, &[tmpring]);
        stand.write(QUEUE_PAGE + 160, &self.at("SCRATCH0").to_le_bytes());
        stand.write_words(QUEUE_PAGE + 176, &[128, 2 | 8]);
        assert!(scratch > 0);
        let queue = stand.queue(kind, ring, ring_bytes);
        if let Some(call) = submit {
            self.submit(&stand, &queue, number(&call["put_value_before"]));
        } else if let Some(dwords) = self.case.get("ring_dwords") {
            stand.write_words(self.at("HWPAGE0"), &words(&self.case["hw_page"]));
            queue.submit(&words(dwords));
        } else {
            queue.submit(&self.stream(&stand, kind));
        }
        stand.idle();
        stand
    }

    /// The ring as it was, after packets that lead there.
    fn submit(&self, stand: &Stand, queue: &Queue, before: u64) {
        let filler: Vec<u32> = match queue.desc.kind {
            QueueKind::Pm4 => vec![0xffff_1000; 1],
            QueueKind::Sdma { .. } => vec![0; 1],
            // A barrier without signals.
            QueueKind::Aql => {
                let mut packet = vec![0; 16];
                packet[0] = 3;
                packet
            }
        };
        let step = match queue.desc.kind {
            QueueKind::Sdma { .. } => 4,
            _ => 1,
        };
        for _ in 0..before / step {
            queue.submit(&filler);
            stand.idle();
        }
        if let Some(pm4) = self.case.get("pm4_ib") {
            stand.write_words(self.at("PM4IB0"), &words(pm4));
        }
        stand.write_words(queue.desc.ring, &words(&self.case["ring"]));
        queue.ring(number(&self.case["write_ptr"]));
    }

    fn check(&self, stand: &Stand) {
        let name = self.case["name"].as_str().unwrap();
        for call in self.case["calls"].as_array().unwrap() {
            match call["op"].as_str().unwrap() {
                "signal" => {
                    let signal = self.at(call["signal"].as_str().unwrap());
                    let value = number(&call["value"]);
                    assert_eq!(stand.read64(signal), value, "{name}");
                    let words = stand.read32(self.at("MAILBOX0"));
                    if name.contains("timeline_kfd") || name == "launch_add256" {
                        assert_eq!(words, 1, "{name}");
                        assert_eq!(stand.interrupts().len(), 1, "{name}");
                    }
                }
                "timestamp" => {
                    let signal = self.at(call["signal"].as_str().unwrap());
                    assert_ne!(stand.read64(signal + 8), 0, "{name}");
                }
                "copy" => {
                    let at = |end: &str| self.at(call[end].as_str().unwrap());
                    for i in (0..number(&call["size"]).min(1024)).step_by(8) {
                        let bytes = (number(&call["size"]) - i).min(8) as usize;
                        assert_eq!(
                            stand.read::<8>(at("src") + i)[..bytes],
                            stand.read::<8>(at("dest") + i)[..bytes],
                            "{name} at {i}"
                        );
                    }
                }
                "write" => {
                    let value = number(&call["value"]);
                    assert_eq!(stand.read64(self.at("BUF0")), value, "{name}");
                }
                "exec" if name == "exec_add256" || name.starts_with("launch_add256") => {
                    for i in 0..256 {
                        let sum = f32::from_le_bytes(stand.read(self.at("BUF0") + 4 * i));
                        assert_eq!(sum, i as f32 * 101.0, "{name} at {i}");
                    }
                }
                _ => {}
            }
        }
    }
}

fn load(name: &str) -> (Value, BTreeMap<String, u64>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/amd");
    let text = std::fs::read_to_string(path.join(format!("queues_{name}.json"))).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let addresses = file["addresses"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), number(value)))
        .collect();
    (file, addresses)
}

fn golden(name: &str, chip: &'static Chip) {
    let (file, addresses) = load(name);
    let cases = file["cases"].as_array().unwrap();
    let add = cases.iter().find(|case| case["name"] == "exec_add256");
    let mut wrong = Vec::new();
    for case in cases {
        let case = Case {
            chip,
            addresses: &addresses,
            device: &file["device"],
            case,
            program: case.get("program").unwrap_or(&add.unwrap()["program"]),
        };
        let stand = case.run();
        let of = case.case["name"].as_str().unwrap();
        let fired: Vec<_> = stand.broken();
        let right: Vec<_> = RIGHT
            .iter()
            .filter(|(file, case, _)| *file == name && *case == of)
            .map(|(_, _, rule)| *rule)
            .collect();
        if fired != right {
            wrong.push(format!("{of}: {fired:?}\n{}", stand.reports()));
            continue;
        }
        case.check(&stand);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn streams_of_gfx1100() {
    golden("gfx1100", &GFX1100);
}

#[test]
fn streams_of_gfx1201() {
    golden("gfx1201", &GFX1201);
}

#[test]
fn streams_of_gfx942_with_8_xccs() {
    golden("gfx942_xcc8", &GFX942);
}

/// Two additions of 256 numbers, the second one of what the first one wrote; `between` comes in
/// between. Returns the rules that break, and what the second one wrote.
fn two_dispatches(seed: u64, between: &[u32]) -> (Vec<&'static str>, Vec<f32>) {
    let (file, addresses) = load("gfx1100");
    let cases = file["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == "exec_add256");
    let case = Case {
        chip: &GFX1100,
        addresses: &addresses,
        device: &file["device"],
        case: case.unwrap(),
        program: &case.unwrap()["program"],
    };
    let stand = case.prepare_with(seed);
    let (arguments, to) = (case.at("KERNARG0") + 0x100, case.at("BUF0") + 0x10000);
    for (i, va) in [to, case.at("BUF0"), case.at("BUF2")].iter().enumerate() {
        stand.write(arguments + 8 * i as u64, &va.to_le_bytes());
    }
    let exec = case.stream(&stand, QueueKind::Pm4);
    let (first, flush) = exec.split_at(exec.len() - 2);
    let mut second = exec.clone();
    let user = [0xc002_7600, 0x240, arguments as u32];
    let at = second
        .windows(2)
        .position(|pair| pair == &user[..2])
        .unwrap();
    second[at + 2] = user[2];
    let queue = stand.queue(QueueKind::Pm4, case.at("RING0"), 65536);
    assert_eq!(flush, [0xc000_4600, 0x407]);
    queue.submit(&[first, between, &second].concat());
    stand.idle();
    let out = (0..256).map(|i| f32::from_le_bytes(stand.read(to + 4 * i)));
    (stand.broken(), out.collect())
}

#[test]
fn a_missing_barrier_shows() {
    let right: Vec<f32> = (0..256).map(|i| i as f32 * 201.0).collect();
    let flush = [0xc000_4600, 0x407];
    let mut orders = [0, 0];
    for seed in 0..8 {
        assert_eq!(two_dispatches(seed, &flush), (vec![], right.clone()));
        let (broken, out) = two_dispatches(seed, &[]);
        fires("PM4-DISPATCH-RACE").only(&broken);
        orders[usize::from(out == right)] += 1;
    }
    assert!(orders[0] > 0 && orders[1] > 0, "{orders:?}");
}
