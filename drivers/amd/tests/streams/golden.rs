//! The recorded streams, and the same operations for our encoders.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use drivers_amd::Recorded;
use drivers_amd::chip::Chip;
use drivers_amd::encode::{Aql, Encoder, Interrupt, Launch, Pm4, Scratch, Sdma, Setup};
use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::{aql, kd, regs};
use hcq::{
    ArgKind, ArgLayout, Command, CommandBuffer, Compare, DeviceId, Error, GpuVa, Program,
    QueueKind, Result, Scope, Signal, SignalMemory, Slot, Val, Width,
};
use serde_json::Value;

use super::decode::{self, Named, Names};

/// What stands for a word that a replay fills in.
pub const OPEN: u32 = 0xbadc_0ded;

pub fn load(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/amd");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap(),
        other => other.as_u64().unwrap(),
    }
}

pub fn words(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|word| number(word) as u32).collect()
}

pub fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// Encoding reads nothing of a signal but its address.
struct Absent;

impl SignalMemory for Absent {
    fn value(&self) -> Result<u64> {
        Err(Error::Graph("no memory".into()))
    }
    fn set(&self, _: u64) -> Result<()> {
        Err(Error::Graph("no memory".into()))
    }
    fn timestamp(&self) -> Result<u64> {
        Err(Error::Graph("no memory".into()))
    }
    fn wait(&self, _: u64, _: hcq::Deadline) -> Result<()> {
        Err(Error::Graph("no memory".into()))
    }
}

pub fn signal(va: u64) -> Signal {
    Signal::new("golden", GpuVa(va), Arc::new(Absent))
}

/// A file of recorded streams.
pub struct Golden {
    pub name: String,
    pub file: Value,
    pub chip: &'static Chip,
    pub addresses: BTreeMap<String, u64>,
    /// Where ours are to be as theirs.
    pub recorded: Recorded,
}

impl Golden {
    pub fn open(name: &str, chip: &'static Chip) -> Golden {
        let file = load(&format!("queues_{name}.json"));
        let addresses = file["addresses"].as_object().unwrap();
        let addresses = addresses
            .iter()
            .map(|(name, va)| (name.clone(), number(va)));
        Golden {
            name: name.into(),
            chip,
            addresses: addresses.collect(),
            recorded: Recorded::default(),
            file,
        }
    }

    pub fn gfx(&self) -> Gfx {
        self.chip.generation.gfx
    }

    pub fn at(&self, name: &str) -> u64 {
        self.addresses[name]
    }

    pub fn names(&self) -> Names {
        let swapped = self.addresses.iter().map(|(name, &va)| (va, name.clone()));
        Names(swapped.collect())
    }

    pub fn cases(&self) -> impl Iterator<Item = &Value> {
        self.file["cases"].as_array().unwrap().iter()
    }

    pub fn case(&self, name: &str) -> &Value {
        self.cases().find(|case| case["name"] == name).unwrap()
    }

    /// The encoder of a case's queue.
    pub fn encoder(&self, case: &Value) -> Encoder {
        let interrupts = case
            .to_string()
            .contains(&format!("{:#010x}", self.at("MAILBOX0") as u32));
        let device = &self.file["device"];
        let interrupt = interrupts.then(|| Interrupt {
            signal: GpuVa(self.at("TIMELINE0")),
            mailbox: GpuVa(self.at("MAILBOX0")),
            event: 1,
        });
        let copies = case["queue"] == "sdma";
        let setup = Setup {
            device: DeviceId::new("AMD", 0),
            kind: if copies {
                QueueKind::Copy
            } else {
                QueueKind::Compute
            },
            index: 0,
            chip: self.chip,
            xccs: number(&device["xccs"]) as u32,
            xcc_barrier: GpuVa(0),
            queue: GpuVa(0x7d00_0000_1000),
            fence: GpuVa(0x7d00_0000_2000),
            interrupt,
            recorded: self.recorded,
        };
        let encoder = match case["queue"].as_str().unwrap() {
            "sdma" => Encoder::Sdma(Sdma::new(setup)),
            "aql" => Encoder::Aql(Aql::new(setup)),
            _ => Encoder::Pm4(Pm4::new(setup)),
        };
        let scratch = Scratch {
            base: GpuVa(self.at("SCRATCH0")),
            bytes: number(&device["scratch_size"]),
            lane_bytes: 128,
            tmpring: number(&device["tmpring_size"]) as u32,
        };
        encoder.set_scratch(scratch, None);
        encoder
    }

    /// What the recorded driver wrote for a case, decoded.
    pub fn theirs(&self, case: &Value) -> Vec<Named> {
        let gfx = self.gfx();
        let open = |word: u32| if word == OPEN { 64 } else { word };
        let Some(stream) = case.get("stream") else {
            let words = case
                .get("dwords")
                .or(case.get("hw_page"))
                .map(words)
                .unwrap();
            let words: Vec<u32> = words.into_iter().map(open).collect();
            return match case["queue"] == "sdma" {
                true => decode::sdma(gfx, &words),
                false => decode::pm4(gfx, &words),
            };
        };
        let mut packets = Vec::new();
        let mut pm4 = Vec::new();
        for item in stream.as_array().unwrap() {
            let Some(packet) = item.get("aql_packet") else {
                pm4.push(number(item) as u32);
                continue;
            };
            packets.extend(decode::pm4(gfx, &std::mem::take(&mut pm4)));
            let mut words = [0; 16];
            for (word, bytes) in words.iter_mut().zip(bytes(packet).chunks_exact(4)) {
                *word = u32::from_le_bytes(bytes.try_into().unwrap());
            }
            if words[3] == 0 {
                words[3] = 64;
            }
            packets.push(decode::aql(gfx, &words));
        }
        packets.extend(decode::pm4(gfx, &pm4));
        packets
    }

    /// What our encoder gives for a case, placed where the recorded driver placed things.
    pub fn ours(&self, case: &Value) -> CommandBuffer {
        let encoder = self.encoder(case);
        let mut out = CommandBuffer::new();
        for call in case["calls"].as_array().unwrap() {
            self.call(call, case, &encoder, &mut out);
        }
        out.relocate(self.at("KERNARG0"));
        out
    }

    fn call(&self, call: &Value, case: &Value, encoder: &Encoder, out: &mut CommandBuffer) {
        let mut encode = |command| encoder.encode(&[command], out).unwrap();
        let of_signal = || signal(self.at(call["signal"].as_str().unwrap()));
        let value = || Val::Const(number(&call["value"]));
        let at = |name: &str| Val::Const(self.at(call[name].as_str().unwrap()));
        match call["op"].as_str().unwrap() {
            "wait" => encode(Command::Wait {
                signal: &of_signal(),
                value: value(),
            }),
            "signal" => encode(Command::Signal {
                signal: &of_signal(),
                value: value(),
            }),
            "timestamp" => encode(Command::Timestamp {
                signal: &of_signal(),
            }),
            "memory_barrier" => encoder.begin(out),
            "acquire_mem" => encode(Command::Barrier {
                scope: match call.get("gl2") {
                    Some(_) => Scope::Queue,
                    None => Scope::Device,
                },
            }),
            "write" => encode(Command::Write {
                at: at("buf"),
                value: value(),
                width: match call["b64"] == true {
                    true => Width::W64,
                    false => Width::W32,
                },
            }),
            "poll_bit" => encode(Command::Poll {
                at: at("buf"),
                mask: number(&call["mask"]),
                value: value(),
                compare: Compare::Equal,
                width: Width::W32,
            }),
            "copy" => encode(Command::Copy {
                dst: at("dest"),
                src: at("src"),
                bytes: number(&call["size"]),
            }),
            "exec" => {
                let add = self.case("exec_add256");
                let case = if case.get("program").is_some() {
                    case
                } else {
                    add
                };
                let exec = Exec::new(self, case);
                encode(exec.command());
            }
            "submit" | "bind" => {}
            other => panic!("{other}"),
        }
    }

    /// Our words, decoded.
    pub fn decode(&self, case: &Value, packets: &CommandBuffer) -> Vec<Named> {
        let gfx = self.gfx();
        match case["queue"].as_str().unwrap() {
            "sdma" => decode::sdma(gfx, &packets.words),
            "aql" => packets
                .words
                .chunks_exact(16)
                .flat_map(|packet| self.aql(packet.try_into().unwrap(), packets))
                .collect(),
            _ => decode::pm4(gfx, &packets.words),
        }
    }

    fn aql(&self, packet: &[u32; 16], packets: &CommandBuffer) -> Vec<Named> {
        if aql::TYPE.get(packet[0]) != aql::VENDOR_SPECIFIC {
            return vec![decode::aql(self.gfx(), packet)];
        }
        let va = u64::from(packet[2]) | u64::from(packet[3]) << 32;
        let dwords = packet[4] & 0xf_ffff;
        let expected = drivers_amd::encode::aql::pm4_ib(va, dwords);
        assert_eq!(packet, &expected);
        let start = (va - self.at("KERNARG0")) as usize / 4;
        decode::pm4(self.gfx(), &packets.data[start..start + dwords as usize])
    }
}

/// The launch of a case.
pub struct Exec {
    pub program: Program,
    args: Vec<Val>,
    grid: [u32; 3],
    block: [u32; 3],
}

impl Exec {
    pub fn new(golden: &Golden, case: &Value) -> Exec {
        let call = &case["calls"][0];
        let program = &case["program"];
        let three = |name: &str| -> [u32; 3] {
            // One case has a symbol here.
            let list = call[name].as_array().unwrap();
            [0, 1, 2].map(|i| list[i].as_u64().unwrap_or(64) as u32)
        };
        let mut args: Vec<Val> = Vec::new();
        let mut kinds = Vec::new();
        for buffer in call["bufs"].as_array().unwrap() {
            kinds.push(ArgKind::Buffer);
            args.push(Val::Const(number(buffer)));
        }
        for _ in call["vals"].as_array().unwrap() {
            kinds.push(ArgKind::Value(Width::W32));
            args.push(Val::Const(0));
        }
        let layout = ArgLayout::new(kinds);
        let launch = launch(golden, case, layout.bytes);
        Exec {
            program: Program {
                name: case["name"].as_str().unwrap().into(),
                entry: GpuVa(number(&program["aql_prog_addr"])),
                args: layout,
                local_bytes: launch.group_bytes,
                launch_words: launch.words(),
                owner: Box::new(()),
            },
            args,
            grid: three("global_size"),
            block: three("local_size"),
        }
    }

    pub fn command(&self) -> Command<'_> {
        Command::Exec {
            program: &self.program,
            args: &self.args,
            grid: self.grid,
            block: self.block,
        }
    }
}

/// What loading the program would have given.
fn launch(golden: &Golden, case: &Value, kernarg_bytes: u32) -> Launch {
    let program = &case["program"];
    let wave32 = number(&program["wave32"]) == 1;
    let code = GpuVa(number(&program["prog_addr"]));
    let base = Launch {
        code,
        rsrc: [0x60af_0081, 0x84, 0],
        properties: kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR.put(1) as u16
            | kd::ENABLE_WAVEFRONT_SIZE32.put(wave32.into()) as u16,
        preload: 0,
        private_bytes: 0,
        group_bytes: 0,
        kernarg_bytes,
        kernarg_align: 8,
        hidden: None,
        max_threads: 1024,
        required: None,
    };
    let Some(descriptor) = program.get("descriptor") else {
        // Programs that were made up for the recording.
        let asks = match case["name"].as_str().unwrap() {
            "exec_synth_dispatch_ptr" => kd::ENABLE_SGPR_DISPATCH_PTR.put(1),
            "exec_synth_private_sgpr" => kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER.put(1),
            _ => 0,
        };
        let (private_bytes, group_bytes) = match case["name"].as_str().unwrap() {
            "exec_synth_dispatch_ptr" => (32, 1024),
            _ => (0, 0),
        };
        return Launch {
            properties: base.properties | asks as u16,
            private_bytes,
            group_bytes,
            ..base
        };
    };
    let bytes = bytes(descriptor);
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let generation = golden.chip.generation;
    let granules = word(0).div_ceil(generation.lds_granule);
    Launch {
        rsrc: [
            word(48) | generation.rsrc1_set,
            word(52) | regs::LDS_SIZE.put(granules),
            word(44),
        ],
        properties: word(56) as u16,
        group_bytes: word(0),
        private_bytes: word(4),
        kernarg_bytes: word(8),
        ..base
    }
}

/// A slot, for graphs.
pub fn slot(number: u16, add: u64) -> Val {
    Val::Slot(Slot(number), add)
}
