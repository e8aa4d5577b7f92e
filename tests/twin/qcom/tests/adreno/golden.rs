//! Streams that a client has recorded for an A630, on a render node of msm: there a client says where memory is.
//!
//! The client's program is that of its function `E_2_32_4`: a sum of two arrays of 256 numbers.

use std::fs;
use std::path::Path;

use drivers_spec::qcom::packet::op;
use serde_json::Value;

use super::msm::{Gem, Node};
use super::rig::SOON;
use super::stream::{Piece, Stream};

/// Code of the recorded client: little-endian bytes.
const PROGRAM: [&str; 8] = [
    "c00007200300d046000002200008d846030000000308184203001f2004081847040002200408d8461e30040004840165",
    "030002200300d846031004000900104202100300050010420410030011001042011004000a0010420510040004001042",
    "050002100040904211000410024090420010030007081042000000000b40092002000000134009200700001001489042",
    "0b000900060010421300040012001042010000000c40092000000000000200000c000a0008001042014081040d0006c0",
    "000000000000000001408404140006c00d001400180b1850000000000005000030008004000fc6c00000000000000003",
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
];

/// The code, as dwords.
pub fn program() -> Vec<u32> {
    let text = PROGRAM.concat();
    let byte = |at: usize| u32::from_str_radix(&text[at..at + 2], 16).unwrap();
    let word = |at: usize| (0..4).map(|i| byte(at + 2 * i) << (8 * i)).sum();
    (0..text.len()).step_by(8).map(word).collect()
}

fn cases() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/qcom/a630.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// The dwords of a case.
fn words(name: &str) -> Vec<u32> {
    let all = cases();
    let mut all = all["cases"].as_array().unwrap().iter();
    let case = all.find(|case| case["name"] == name).unwrap();
    let words = case["dwords"].as_array().unwrap().iter();
    words.map(|word| number(word) as u32).collect()
}

/// The dispatch of the recorded client.
pub fn exec() -> Stream {
    Stream::of(&words("exec"))
}

/// Where the recorded client has things, and how much of it.
const PLACES: [(&str, u64, u64); 8] = [
    ("dummy", 0x50_0000_0000, 0x1000),
    ("code", 0x50_06c0_0000, 0x1000),
    ("stack", 0x50_06e0_0000, 0x1000),
    ("signals", 0x60_0000_1000, 0x1000),
    ("sum", 0x60_1000_0000, 0x1000),
    ("first", 0x60_2000_0000, 0x1000),
    ("second", 0x60_3000_0000, 0x1000),
    ("args", 0x60_4000_0000, 0x1000),
];

struct Recorded {
    node: Node,
    memory: Vec<Gem>,
}

impl Recorded {
    fn new() -> Recorded {
        let node = Node::new("chip=a630,kernel=msm,seed=3,timeout=60000");
        let memory = PLACES.map(|(_, at, bytes)| node.alloc_at(bytes, Some(at)));
        let recorded = Recorded {
            node,
            memory: memory.to_vec(),
        };
        recorded.at("code").put(0, &program());
        let args = recorded.at("args");
        for (i, name) in ["sum", "first", "second"].into_iter().enumerate() {
            let at = recorded.at(name).gpu;
            args.put(i as u64 * 8, &[at as u32, (at >> 32) as u32]);
        }
        for i in 0..256_u64 {
            recorded.at("first").put(i * 4, &[(i as f32).to_bits()]);
            recorded.at("second").put(i * 4, &[0.5_f32.to_bits()]);
        }
        recorded
    }

    fn at(&self, name: &str) -> &Gem {
        let at = PLACES.iter().position(|(of, ..)| *of == name);
        &self.memory[at.unwrap()]
    }

    fn run(&self, name: &str) {
        let fence = self.node.submit(&words(name), &self.memory).unwrap();
        self.node.wait(fence, SOON).unwrap();
        let broken = self.node.machine.broken_rules();
        assert!(
            broken.is_empty(),
            "{name}: {:#?}",
            self.node.machine.journal.violations()
        );
    }

    fn sum_is_right(&self) -> bool {
        (0..256_u64).all(|i| self.at("sum").word(i * 4) == (i as f32 + 0.5).to_bits())
    }
}

#[test]
fn each_recorded_stream_breaks_no_rule() {
    let recorded = Recorded::new();
    recorded.at("signals").put(0, &[5]);
    recorded.run("wait");
    recorded.run("signal");
    assert_eq!(recorded.at("signals").word(0), 6);
    recorded.run("timestamp");
    assert!(recorded.at("signals").words::<2>(8) != [0, 0]);
    recorded.run("memory_barrier");
    recorded.run("exec");
    assert!(recorded.sum_is_right());
    recorded.run("exec_3d");
}

#[test]
fn a_recorded_launch_waits_runs_and_signals() {
    let recorded = Recorded::new();
    let node = &recorded.node;
    let launch = words("launch");
    let reference = launch[4];
    // The last event that writes a signal, not the recorded client's scratch memory.
    let mut pieces = Stream::of(&launch).0.into_iter().rev();
    let signal = pieces.find_map(|piece| match piece {
        Piece::Command(op::EVENT_WRITE, body) if body.len() == 4 && body[2] == 0x60 => {
            Some(body[3])
        }
        _ => None,
    });
    let fence = node.submit(&launch, &recorded.memory).unwrap();
    assert!(node.wait(fence, 30).is_err());
    assert!(!recorded.sum_is_right());
    recorded.at("signals").put(0, &[reference]);
    node.wait(fence, SOON).unwrap();
    assert!(recorded.sum_is_right());
    assert_eq!(Some(recorded.at("signals").word(0)), signal);
    assert!(node.machine.broken_rules().is_empty());
}
