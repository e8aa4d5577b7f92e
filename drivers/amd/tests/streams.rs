//! Our packets beside those of a driver that has run on cards: decoded, and compared field by field for
//! the same operations. What differs is listed, with the reason, in `tests/golden/amd/differences.txt`.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "streams/decode.rs"]
mod decode;
#[path = "streams/differences.rs"]
mod differences;
#[path = "streams/golden.rs"]
mod golden;

use std::collections::BTreeMap;

use differences::{Explained, compare};
use drivers_amd::chip::{GFX942, GFX1100, GFX1201};
use drivers_amd::encode::{Launch, aql, pm4};
use drivers_amd::{Language, Recorded};
use golden::{Golden, OPEN, bytes, load, number, signal, slot, words};
use hcq::{ArgLayout, Command, CommandBuffer, GpuVa, Program, Scope, Val};

fn files() -> [Golden; 3] {
    [
        Golden::open("gfx1100", &GFX1100),
        Golden::open("gfx1201", &GFX1201),
        Golden::open("gfx942_xcc8", &GFX942),
    ]
}

#[test]
fn every_difference_is_explained() {
    let mut explained = Explained::read("amd");
    for golden in files() {
        let names = golden.names();
        for case in golden.cases() {
            let theirs = golden.theirs(case);
            let packets = golden.ours(case);
            let ours = golden.decode(case, &packets);
            let name = format!("{}/{}", golden.name, case["name"].as_str().unwrap());
            explained.see(&name, compare(&names, &theirs, &ours));
        }
    }
    for (replay, differences) in graph().into_iter().enumerate() {
        explained.see(&format!("graph/{replay}"), differences);
    }
    explained.check();
}

/// Each choice that is made as they made it takes its differences away, and no others come.
#[test]
fn choices_are_made_as_they_were_recorded() {
    let usual = Recorded::default;
    for (cases, packet, recorded) in [
        (
            &["wait"][..],
            "WAIT_REG_MEM",
            Recorded {
                waits: true,
                ..usual()
            },
        ),
        (
            &["signal", "write32", "write64"],
            "RELEASE_MEM",
            Recorded {
                writes: true,
                ..usual()
            },
        ),
        (
            &["sdma_copy_split"],
            "COPY_LINEAR",
            Recorded {
                copies: true,
                ..usual()
            },
        ),
        (
            &["exec_add256"],
            "EVENT_WRITE",
            Recorded {
                barriers: true,
                ..usual()
            },
        ),
    ] {
        for mut golden in files().into_iter().take(2) {
            for case in cases {
                let case = golden.case(case).clone();
                let mut differences = |recorded| {
                    golden.recorded = recorded;
                    let (theirs, packets) = (golden.theirs(&case), golden.ours(&case));
                    compare(&golden.names(), &theirs, &golden.decode(&case, &packets))
                };
                let (before, after) = (differences(usual()), differences(recorded));
                let what = format!("{} {}: {after:#?}", golden.name, case["name"]);
                assert!(before.iter().any(|line| line.contains(packet)), "{what}");
                assert!(!after.iter().any(|line| line.contains(packet)), "{what}");
                // All ones are a size of 56 bits: one packet more of those whose size they write with 64.
                let known = |line: &&String| line.contains("COHER_SIZE: ") || before.contains(line);
                assert!(after.iter().all(|line| known(&line)), "{what}");
            }
        }
    }
}

/// The argument blocks are the same, byte by byte.
#[test]
fn arguments_are_the_same() {
    let mut seen = 0;
    for golden in files() {
        for case in golden.cases() {
            let Some(theirs) = case.get("kernargs_after") else {
                continue;
            };
            // The rest of that block is a dispatch packet, which ours puts elsewhere.
            let used = case["calls"][0]["bufs"].as_array().unwrap().len() * 8;
            let theirs = &bytes(theirs)[..used];
            let packets = golden.ours(case);
            let ours: Vec<u8> = packets
                .data
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect();
            assert_eq!(&ours[..used], theirs, "{} {}", golden.name, case["name"]);
            seen += 1;
        }
    }
    assert!(seen >= 20);
}

/// Packets that only a ring has.
#[test]
fn indirect_packets_are_the_same() {
    let gfx1100 = Golden::open("gfx1100", &GFX1100);
    let ring = words(&gfx1100.case("bind_indirect")["ring_dwords"]);
    assert_eq!(pm4::indirect(gfx1100.at("HWPAGE0"), 15)[..], ring);

    let gfx942 = Golden::open("gfx942_xcc8", &GFX942);
    let case = gfx942.case("submit_ring_start");
    let ib = words(&case["pm4_ib"]);
    let ring = words(&case["ring"]);
    let packet = aql::pm4_ib(gfx942.at("PM4IB0"), ib.len() as u32);
    assert_eq!(packet[..ring.len().min(16)], ring[..ring.len().min(16)]);
}

/// A ring of SDMA that ends before the packets do, as the recorded driver fills it.
#[test]
fn packets_of_sdma_go_around_the_end_of_a_ring_whole() {
    let golden = Golden::open("gfx1100", &GFX1100);
    let case = golden.case("sdma_submit_wrap");
    let words = golden.ours(case).words;
    let language = golden.encoder(case).language();
    assert_eq!(language, Language::Sdma);
    let whole = |words: &[u32], room| language.packet_boundary(GFX1100.generation.gfx, words, room);
    // Room for the wait and the copy, for the wait alone, for nothing.
    let lengths = [words.len(), 13, 12, 6, 5, 0].map(|room| whole(&words, room));
    assert_eq!(lengths, [words.len(), 13, 6, 6, 0, 0]);
    // All of it, cut where the ring of 1024 bytes ends.
    let before = number(&case["calls"][3]["put_value_before"]) as usize / 4;
    let first = whole(&words, 256 - before);
    assert_eq!((before, first), (244, 6));
}

/// The captured graph: the same commands with open values, encoded once and patched for each replay.
fn graph() -> Vec<Vec<String>> {
    let golden = Golden::open("gfx1100", &GFX1100);
    let file = load("graph_gfx1100.json");
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let kernargs = number(&file["kernargs"]["addr"]);
    names.insert(kernargs, "KERNARG".into());
    let kick = number(&file["kick_signal"]);
    names.insert(kick, "KICK".into());
    let own = number(&file["signals"]["AMD"]);
    names.insert(own, "OWN".into());
    let resolved = |replay: &serde_json::Value, name: &str| number(&replay["resolved"][name]);
    let replays = file["replays"].as_array().unwrap();
    let timeline = resolved(&replays[0], "(timeline_sig_AMD&4294967295)")
        | resolved(&replays[0], "(timeline_sig_AMD>>32)") << 32;
    names.insert(timeline, "TIMELINE".into());
    let names = decode::Names(names);

    // The same encoder, with the addresses of this recording.
    let dwords = words(&file["dwords"]);
    let mailbox = u64::from(dwords[213]) | u64::from(dwords[214]) << 32;
    let mut setup = match golden.encoder(golden.case("signal")) {
        drivers_amd::encode::Encoder::Pm4(pm4) => pm4.setup().clone(),
        _ => panic!("a PM4 queue"),
    };
    setup.interrupt = Some(drivers_amd::encode::Interrupt {
        signal: GpuVa(timeline),
        mailbox: GpuVa(mailbox),
        event: 2,
    });
    let encoder = pm4::Pm4::new(setup);

    // Slots: timeline, kick-off, inputs 0 and 1.
    let (wait, kick, own) = (signal(timeline), signal(kick), signal(own));
    let mut programs = Vec::new();
    for kernel in file["schedule"].as_array().unwrap() {
        let rsrc = words(&kernel["rsrc"]);
        let launch = Launch {
            code: GpuVa(number(&kernel["prog_addr"])),
            rsrc: [rsrc[0], rsrc[1], rsrc[2]],
            properties: 0x408,
            preload: 0,
            private_bytes: 0,
            group_bytes: 0,
            kernarg_bytes: number(&kernel["kernargs_alloc_size"]) as u32,
            kernarg_align: 8,
            hidden: None,
            max_threads: 1024,
            required: None,
        };
        let args: Vec<Val> = kernel["bufs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|buffer| match buffer.as_str().unwrap() {
                "inp_0_0" => slot(2, 0),
                "inp_1_0" => slot(3, 0),
                _ => Val::Const(number(buffer)),
            })
            .collect();
        let program = Program {
            name: kernel["kernel"].as_str().unwrap().into(),
            entry: GpuVa(0),
            args: ArgLayout::buffers(args.len()),
            local_bytes: 0,
            launch_words: launch.words(),
            owner: Box::new(()),
        };
        programs.push((program, args));
    }
    let mut commands = vec![
        Command::Wait {
            signal: &wait,
            value: slot(0, 0),
        },
        Command::Wait {
            signal: &kick,
            value: slot(1, 0),
        },
        Command::Signal {
            signal: &own,
            value: slot(1, 0),
        },
    ];
    for (program, args) in &programs {
        commands.push(Command::Barrier {
            scope: Scope::Queue,
        });
        commands.push(Command::Exec {
            program,
            args,
            grid: [1, 1, 1],
            block: [16, 1, 1],
        });
    }
    commands.push(Command::Signal {
        signal: &wait,
        value: slot(0, 1),
    });
    let mut packets = CommandBuffer::new();
    encoder.begin(&mut packets);
    encoder.encode(&commands, &mut packets).unwrap();
    packets.relocate(kernargs);

    // Replays change words one after the other, in theirs as in ours.
    let (mut words, mut arguments) = (dwords, bytes(&file["kernargs"]["initial"]));
    let mut all = Vec::new();
    for replay in replays {
        for patch in replay["dwords"].as_array().unwrap() {
            words[number(&patch[0]) as usize] = number(&patch[2]) as u32;
        }
        for patch in replay["memory"].as_array().unwrap() {
            let at = (number(&patch[0]) - kernargs) as usize;
            arguments[at..at + 8].copy_from_slice(&number(&patch[3]).to_le_bytes());
        }
        assert!(!words.contains(&OPEN));
        let values = [
            resolved(replay, "timeline_var_AMD"),
            resolved(replay, "kickoff_var"),
            resolved(replay, "inp_0_0"),
            resolved(replay, "inp_1_0"),
        ];
        packets.patch(&values).unwrap();
        let gfx = golden.gfx();
        all.push(compare(
            &names,
            &decode::pm4(gfx, &words),
            &decode::pm4(gfx, &packets.words),
        ));
        let ours: Vec<u8> = packets
            .data
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        for (kernel, (_, args)) in file["schedule"].as_array().unwrap().iter().zip(&programs) {
            let at = (number(&kernel["kernargs"]) - kernargs) as usize;
            let range = at..at + args.len() * 8;
            assert_eq!(ours[range.clone()], arguments[range], "{at:#x}");
        }
    }
    all
}
