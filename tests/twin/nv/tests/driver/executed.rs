//! Recordings that run: what a foreign driver wrote into its rings, after the calls that made them.
//!
//! `tests/golden/nv/run_*.json` has the program, the structure that starts it with its parameters, and
//! each submission. The sum of two vectors comes out, and no rule breaks; each mistake is named.

use std::time::{Duration, Instant};

use drivers_spec::nv::push::{userd, usermode};
use drivers_spec::nv::qmd::{self, Field, Version};
use serde_json::Value;
use twin_nv::client::Memory;

use super::replay::{Player, folder, number, recording, unhex};

/// Recordings with a program that the twin runs, and the machine of each.
const ALL: [(&str, &str); 4] = [
    ("nak86", "chip=ga102,driver=570"),
    ("cuda89", "chip=ad102,driver=570"),
    ("nak89_580", "chip=ad102,driver=580"),
    ("nak120", "chip=gb202,driver=570"),
];

/// Where the client stages what is copied, its program and what comes back.
const INPUTS: [u64; 2] = [0x20_0620_0000, 0x20_0640_0000];
const BACK: u64 = 0x20_0600_0000;
/// The word that counts submissions.
const SIGNAL: u64 = 0x10_0850_0ff0;
const COUNT: u64 = 256;

/// A submission.
#[derive(Clone)]
struct Step {
    channel: usize,
    entry: u64,
    put: u32,
    words: Vec<u32>,
    /// What the client stores first.
    writes: Vec<(u64, Vec<u8>)>,
    /// What the doorbell is rung with, if not with the channel's token.
    token: Option<u32>,
}

/// A recording that is played and run.
#[derive(Clone)]
struct Run {
    calls: Vec<Value>,
    program: (u64, Vec<u8>),
    steps: Vec<Step>,
    /// What the signal comes to.
    signals: u32,
    /// Of its QMD.
    version: Version,
}

impl Run {
    fn new(name: &str) -> Run {
        let text = std::fs::read_to_string(folder().join(format!("run_{name}.json"))).unwrap();
        let run: Value = serde_json::from_str(&text).unwrap();
        let step = |step: &Value| Step {
            channel: step["channel"].as_u64().unwrap() as usize,
            entry: number(&step["entry"]),
            put: step["put"].as_u64().unwrap() as u32,
            words: step["dwords"]
                .as_array()
                .unwrap()
                .iter()
                .map(|w| number(w) as u32)
                .collect(),
            writes: step["writes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(store)
                .collect(),
            token: None,
        };
        // What the client gives back at its end comes after all that runs.
        let mut calls = recording(name);
        let frees = |call: &Value| call["ioctl"] == "UVM_FREE" || call["ioctl"] == "NV_ESC_RM_FREE";
        while calls.pop_if(|call| frees(call)).is_some() {}
        let steps: Vec<Step> = run["steps"].as_array().unwrap().iter().map(step).collect();
        Run {
            calls,
            program: store(&run["program"]),
            signals: steps.len() as u32,
            steps,
            version: match name {
                "nak120" => Version::V05_00,
                _ => Version::V03_00,
            },
        }
    }

    /// One that breaks no rule: the only one with local memory, which its kernel does not use, goes without.
    fn right(name: &str) -> Run {
        let mut run = Run::new(name);
        run.set(qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE, 0);
        run
    }

    /// The submission that starts the kernel.
    fn kernel(&mut self) -> &mut Step {
        let found = self.steps.iter_mut().find(|step| !step.writes.is_empty());
        found.unwrap()
    }

    /// The first submission of the channel for copies that copies.
    fn copy(&mut self) -> &mut Step {
        let mut copies = self.steps.iter_mut();
        copies.find(|step| step.words.contains(&0x182)).unwrap()
    }

    /// Puts a word in place of another one.
    fn swap(step: &mut Step, old: u32, new: u32) {
        let at = step.words.iter().position(|word| *word == old).unwrap();
        step.words[at] = new;
    }

    fn set(&mut self, field: Field, value: u64) {
        let version = self.version;
        let bytes = &mut self.kernel().writes[0].1;
        let (words, _) = bytes.as_chunks();
        let mut words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        field.put(version, 0, &mut words, value).unwrap();
        *bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    }

    /// Plays all of it. What was summed, and the rules that broke.
    fn play(&self, config: &str) -> (Vec<f32>, Vec<&'static str>) {
        let mut player = Player::new(config);
        player.play(&self.calls);
        let machine = player.machine.clone();
        let write = |at: u64, data: &[u8]| {
            // What a client could not store is not there for the GPU either.
            let _ = player.memory.write(at, data);
        };
        for (at, scale) in INPUTS.into_iter().zip([1.0, 0.25]) {
            let floats = (0..COUNT).flat_map(|i| (i as f32 * scale).to_le_bytes());
            write(at, &floats.collect::<Vec<u8>>());
        }
        write(self.program.0, &self.program.1);
        let mut made: Vec<_> = machine.state().channels().cloned().collect();
        made.sort_by_key(|channel| channel.id);
        for step in &self.steps {
            let Some(channel) = made.get(step.channel) else {
                break;
            };
            for (at, data) in &step.writes {
                write(*at, data);
            }
            let words: Vec<u8> = step
                .words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            write(step.entry & 0xff_ffff_fffc, &words);
            let index = step.put.wrapping_sub(1) % channel.entries;
            write(
                channel.ring + u64::from(index) * 8,
                &step.entry.to_le_bytes(),
            );
            // USERD lies behind the ring, in the same memory, which is mapped where the ring is.
            let (_, at) = channel.userd.clone().unwrap();
            let place = 0x10_0000_0000 + at + userd::GP_PUT;
            write(place, &step.put.to_le_bytes());
            let bell = player.mapped[0] + usermode::NOTIFY_CHANNEL_PENDING;
            write(bell, &step.token.unwrap_or(channel.token).to_le_bytes());
            rung(&player, bell);
        }
        let end = Instant::now() + Duration::from_secs(5);
        let signal = || {
            let mut word = [0; 4];
            let read = player.memory.read(SIGNAL, &mut word);
            read.map_or(0, |()| u32::from_le_bytes(word))
        };
        while signal() != self.signals && machine.broken_rules().is_empty() && Instant::now() < end
        {
            std::thread::yield_now();
        }
        let mut bytes = vec![0; 4 * COUNT as usize];
        let _ = player.memory.read(BACK, &mut bytes);
        let (words, _) = bytes.as_chunks();
        player.exit();
        (
            words.iter().map(|word| f32::from_le_bytes(*word)).collect(),
            machine.broken_rules(),
        )
    }
}

/// Waits until somebody has looked at the doorbell: of two rings between two looks, one token is left.
fn rung(player: &Player, bell: u64) {
    let end = Instant::now() + Duration::from_secs(1);
    let mut word = [0; 4];
    while player.memory.read(bell, &mut word).is_ok() && word != [0xff; 4] && Instant::now() < end {
        std::thread::yield_now();
    }
}

fn store(pair: &Value) -> (u64, Vec<u8>) {
    (number(&pair[0]), unhex(pair[1].as_str().unwrap()))
}

#[test]
fn recordings_run() {
    for (name, config) in ALL {
        let (sum, broken) = Run::right(name).play(config);
        assert_eq!(broken, [""; 0], "{name}");
        let expected: Vec<f32> = (0..COUNT).map(|i| i as f32 * 1.25).collect();
        assert_eq!(sum, expected, "{name}");
    }
}

/// A rule that is right: this client asked a mock how many TPCs there are, which has fewer than the card,
/// and mapped local memory for as many.
#[test]
fn local_memory_of_a_smaller_card_is_too_small() {
    let (_, broken) = Run::new("cuda89").play("chip=ad102,driver=570");
    assert_eq!(broken.first(), Some(&"COMPUTE-LOCAL"));
}

/// A mistake, and the rule that names it.
type Mistake = (&'static str, fn(&mut Run));

#[test]
fn mistakes_in_recordings_are_named() {
    let mistakes: &[Mistake] = &[
        ("QMD-VERSION", |r| r.set(qmd::QMD_MAJOR_VERSION, 4)),
        ("QMD-RESERVED", |r| r.set(qmd::HW_ONLY_INNER_GET, 1)),
        ("QMD-NOT-MODELLED", |r| r.set(qmd::CIRCULAR_QUEUE_SIZE, 1)),
        ("QMD-GRID", |r| r.set(qmd::GRID_DEPTH, 0)),
        ("QMD-GRID", |r| r.set(qmd::CTA_THREAD_DIMENSION0, 1025)),
        ("COMPUTE-EXCEPTION", |r| r.set(qmd::REGISTER_COUNT, 3)),
        ("QMD-SHARED", |r| {
            r.set(qmd::MAX_SM_CONFIG_SHARED_MEM_SIZE, 0x3a)
        }),
        ("QMD-SHARED", |r| r.set(qmd::SHARED_MEMORY_SIZE, 0x1_0000)),
        ("QMD-SASS-VERSION", |r| r.set(qmd::SASS_VERSION, 0x90)),
        ("QMD-CONSTANT", |r| r.set(qmd::CONSTANT_BUFFER_SIZE, 0)),
        ("QMD-PROGRAM", |r| {
            r.set(qmd::PROGRAM_ADDRESS_LOWER, 0xa00_3240)
        }),
        ("QMD-MEMBAR", |r| r.set(qmd::CWD_MEMBAR_TYPE, 0)),
        ("QMD-RELEASE", |r| {
            r.set(qmd::RELEASE_ADDR_LOWER, 0x850_0fe8)
        }),
        // Parameters lie 8 bytes behind their place.
        ("MMU-FAULT", |r| {
            let bank = &mut r.kernel().writes[1].1;
            bank.splice(0..0, [0; 8]);
        }),
        // The doorbell of nobody.
        ("HOST-DOORBELL-TOKEN", |r| r.steps[0].token = Some(0x123)),
        ("HOST-GP-PUT", |r| r.kernel().put = 1 << 30),
        // An entry whose address is shifted down.
        ("MMU-FAULT", |r| {
            r.copy().entry = r.copy().entry >> 2 & 0xff_ffff_fffc | 4 << 42
        }),
        ("HOST-GP-ENTRY", |r| r.copy().entry = 1 << 32),
        ("HOST-PB-ENTRY", |r| r.copy().words[0] = 0xc005_0017),
        ("HOST-OBJECT-FIRST", |r| r.steps[1].words[6..8].fill(0)),
        ("HOST-SET-OBJECT", |r| r.steps[0].words[1] = 0xcbc0),
        ("HOST-SUBCHANNEL", |r| r.steps[1].words[6] |= 1 << 13),
        ("HOST-SEMAPHORE", |r| {
            Run::swap(&mut r.steps[0], 0x850_0ff0, 0x850_0ff8)
        }),
        ("HOST-SEMAPHORE-BITS", |r| {
            Run::swap(r.kernel(), 0x0100_0003, 0x0310_0003)
        }),
        // One word too much: the next header is data.
        ("HOST-METHOD", |r| {
            Run::swap(r.copy(), 0x2005_0017, 0x2001_0010)
        }),
        ("COMPUTE-WINDOW", |r| r.steps[0].words[2..5].fill(0)),
        ("COPY-PHYSICAL", |r| Run::swap(r.copy(), 0x182, 0x1182)),
        ("COPY-FLUSH", |r| Run::swap(r.copy(), 0x14, 0x10)),
        ("COPY-NOT-MODELLED", |r| Run::swap(r.copy(), 0x182, 0x102)),
        ("MMU-FAULT", |r| Run::swap(r.copy(), 0x400, 0x4000_0000)),
        // A value that nobody releases.
        ("HOST-DEADLOCK", |r| {
            let last = r.steps.last_mut().unwrap();
            last.words[3] += 100;
            r.signals -= 1;
        }),
        // Calls that are missing.
        ("HOST-DOORBELL-SCHEDULED", |r| {
            r.calls
                .retain(|call| !call["arg"].as_str().is_some_and(|_| schedules(call)));
        }),
    ];
    for (name, config) in ALL {
        for (i, (rule, mistake)) in mistakes.iter().enumerate() {
            let mut run = Run::right(name);
            mistake(&mut run);
            let (_, broken) = run.play(config);
            assert_eq!(
                broken.first(),
                Some(rule),
                "{name}, mistake {i}: {broken:?}"
            );
        }
    }
}

/// Whether a call is GPFIFO_SCHEDULE.
fn schedules(call: &Value) -> bool {
    call["ioctl"] == "NV_ESC_RM_CONTROL" && call["arg"].as_str().unwrap().contains("01016ca0")
}
