//! Recorded streams of a driver that has run on cards, decoded by our tables: every call has the number
//! and the size of a row, every word is of a known method, and no bit is set that no field has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use drivers_spec::nv::abi::{Branch, Branches, Struct, find};
use drivers_spec::nv::chip::{Arch, CHIPS, method, sm_of};
use drivers_spec::nv::{class, compute, control, copy, escape, host, memory, push, qmd, uvm};
use hcq::reg::Word;
use serde_json::Value;

const FILES: [&str; 4] = ["nak86", "cuda89", "nak89_580", "nak120"];
/// What stands for a word that a replay fills in.
const OPEN: u32 = 0xbadc_0ded;

fn load(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nv");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap().trim_start_matches("0x");
    u64::from_str_radix(text, 16).unwrap()
}

fn words(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|word| number(word) as u32).collect()
}

/// Bytes, with the zeros that were cut off.
fn bytes(value: &Value, size: usize) -> Vec<u8> {
    let text = value.as_str().unwrap();
    let hex = |i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..text.len() / 2).map(hex).collect();
    assert!(bytes.len() <= size);
    bytes.resize(size, 0);
    bytes
}

fn dwords(bytes: &[u8]) -> Vec<u32> {
    let chunks = bytes.chunks_exact(4);
    chunks
        .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
        .collect()
}

/// Where a recording was made.
struct Recording {
    file: Value,
    arch: Arch,
    branch: Branch,
}

impl Recording {
    fn open(name: &str) -> Recording {
        let file = load(name);
        let device = &file["device"];
        let sm = sm_of(number(&device["sm_version"]) as u32).unwrap();
        let arch = CHIPS.iter().find(|chip| chip.sm == sm).unwrap().arch;
        let driver = file["driver"].as_str().unwrap();
        let is = |branch: &Branch| driver.starts_with(&branch.to_string());
        let branch = Branch::ALL.into_iter().find(is).unwrap();
        assert_eq!(
            u64::from(arch.facts().compute.number),
            number(&device["compute_class"])
        );
        Recording { file, arch, branch }
    }
}

/// Decodes a push buffer; returns the names of its methods.
fn check_stream(arch: Arch, stream: &[u32]) -> BTreeSet<&'static str> {
    use push::header::*;
    let mut seen = BTreeSet::new();
    let mut rest = stream;
    while let Some((&header, after)) = rest.split_first() {
        assert_eq!(header & !push::HEADER.mask(arch), 0, "{header:#x}");
        let (first, count) = (METHOD_ADDRESS.get(header), METHOD_COUNT.get(header));
        let op = SEC_OP.get(header);
        let subchannel = METHOD_SUBCHANNEL.get(header);
        assert!(
            [SEC_OP_INC_METHOD, SEC_OP_NON_INC_METHOD].contains(&op),
            "{header:#x}"
        );
        assert!(count > 0);
        let (data, after) = after.split_at(count as usize);
        for (i, word) in data.iter().enumerate() {
            let dword = match op {
                SEC_OP_INC_METHOD => first + i as u32,
                _ => first,
            };
            let table = match (dword < 0x40, subchannel) {
                (true, _) => host::METHODS,
                (_, push::subchannel::COMPUTE) => compute::METHODS,
                (_, push::subchannel::COPY) => copy::METHODS,
                other => panic!("{other:?}: {dword:#x}"),
            };
            let method = method(table, arch, dword);
            let method = method.unwrap_or_else(|| panic!("{arch:?}: no method {:#x}", dword * 4));
            let name = method.register.word.name;
            let unknown = word & !method.mask(arch);
            assert!(
                unknown == 0 || *word == OPEN,
                "{name}: {word:#x} has {unknown:#x}"
            );
            if dword == host::SET_OBJECT.dword() {
                let facts = arch.facts();
                let class = match subchannel {
                    push::subchannel::COMPUTE => facts.compute.number,
                    _ => facts.copy.number,
                };
                assert_eq!(*word, class);
            }
            seen.insert(name);
        }
        rest = after;
    }
    seen
}

#[test]
fn every_word_is_of_a_known_method() {
    let mut seen = BTreeSet::new();
    for name in FILES {
        let recording = Recording::open(name);
        let cases = recording.file["cases"].as_array().unwrap();
        let submits = recording.file["submits"].as_array().unwrap();
        assert!(cases.len() > 20 && submits.len() > 3);
        for case in cases.iter().chain(submits) {
            seen.extend(check_stream(recording.arch, &words(&case["dwords"])));
        }
    }
    seen.extend(check_stream(
        Arch::Ad10x,
        &words(&load("graph_nak89")["dwords"]),
    ));
    let wanted = [
        "SEM_EXECUTE",
        "SEND_SIGNALING_PCAS2_B",
        "LAUNCH_DMA",
        "SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_C",
    ];
    assert!(wanted.iter().all(|name| seen.contains(name)), "{seen:?}");
}

#[test]
fn ring_entries_lead_to_their_segments() {
    use push::{gp_entry0, gp_entry1};
    for name in FILES {
        let recording = Recording::open(name);
        for submit in recording.file["submits"].as_array().unwrap() {
            let entry = number(&submit["gpfifo_entry"]);
            let (low, high) = (entry as u32, (entry >> 32) as u32);
            assert_eq!(low & !push::GP_ENTRY0.mask(recording.arch), 0);
            assert_eq!(high & !push::GP_ENTRY1.mask(recording.arch), 0);
            let length = words(&submit["dwords"]).len();
            assert_eq!(gp_entry1::LENGTH.get(high) as usize, length);
            assert_eq!(gp_entry0::FETCH.get(low), gp_entry0::FETCH_UNCONDITIONAL);
            assert_eq!(gp_entry1::LEVEL.get(high), gp_entry1::LEVEL_SUBROUTINE);
        }
    }
}

/// What the recording says of a QMD, and what we say, by the header's names.
fn compare_fields(version: qmd::Version, words: &[u32], recorded: &Value) -> usize {
    let recorded = recorded.as_object().unwrap();
    let mut ours = BTreeMap::new();
    for found in qmd::decode(version, words) {
        let field = qmd::FIELDS
            .iter()
            .find(|field| field.name == found.name)
            .unwrap();
        let name = field.place(version).unwrap().name;
        // The index stands inside of the name or, for what is an array in the header, behind it.
        let named = match (name.contains('#'), field.count(version)) {
            (true, _) => name.replace('#', &found.index.to_string()),
            (false, 1) => name.to_owned(),
            (false, _) => format!("{name}_{}", found.index),
        };
        ours.insert(named, u64::from(found.bits));
    }
    for (name, value) in &ours {
        let theirs = recorded.get(name).map(number);
        assert_eq!(theirs, Some(*value), "{version:?} {name}");
    }
    ours.len()
}

#[test]
fn every_qmd_has_only_named_bits_and_the_values_that_were_recorded() {
    for name in FILES {
        let recording = Recording::open(name);
        let qmds = recording.file["qmds"].as_array().unwrap();
        assert!(qmds.len() >= 5, "{name}");
        for recorded in qmds {
            let known = recording.arch.facts().qmds;
            let own = *known.last().unwrap();
            let words = dwords(&bytes(&recorded["bytes"], own.dwords() * 4));
            let version = qmd::Version::of(known, &words);
            assert_eq!(version, Some(own), "{name}");
            assert_eq!(
                qmd::unnamed(own, &words),
                None,
                "{name} {}",
                recorded["case"]
            );
            let equal = compare_fields(own, &words, &recorded["fields"]);
            assert!(equal > 20, "{name}: {equal}");
            // What is taken apart is put together to the same words.
            let mut again = vec![0; own.dwords()];
            for field in qmd::FIELDS {
                for index in 0..field.count(own) {
                    let value = field.get(own, index, &words).unwrap();
                    field.put(own, index, &mut again, value).unwrap();
                }
            }
            assert_eq!(again, words);
        }
    }
    for template in load("graph_nak89")["qmds"].as_array().unwrap() {
        let words = dwords(&bytes(template, 256));
        assert_eq!(qmd::unnamed(qmd::Version::V03_00, &words), None);
        let program = qmd::PROGRAM_ADDRESS
            .get(qmd::Version::V03_00, 0, &words)
            .unwrap();
        assert!(program > 0x20_0000_0000 && program.is_multiple_of(128));
    }
}

fn known_bits(word: Word<Branches>, branch: Branch, value: u32) {
    let unknown = value & !word.mask(branch);
    assert_eq!(unknown, 0, "{}: {value:#x}", word.name);
}

/// The parameters of an allocation, where they have flags.
fn check_flags(branch: Branch, class: u32, params: &[u8]) {
    match class {
        0x3e | 0x40 => {
            let alloc = class::MemoryAlloc::decode(branch, params).unwrap();
            known_bits(memory::ATTR, branch, alloc.attr);
            known_bits(memory::ATTR2, branch, alloc.attr2);
            known_bits(memory::ALLOC_FLAGS, branch, alloc.flags);
            assert!(alloc.size > 0);
        }
        0x90f1 => {
            let alloc = class::VaspaceAlloc::decode(branch, params).unwrap();
            known_bits(memory::VASPACE_FLAGS, branch, alloc.flags);
        }
        0xc56f | 0xc86f | 0xc96f | 0xca6f => {
            let alloc = class::ChannelAlloc::decode(branch, params).unwrap();
            assert!(alloc.gp_fifo_entries.is_power_of_two());
            assert_eq!(alloc.encode(branch), params);
        }
        _ => {}
    }
}

#[test]
fn every_call_has_the_number_and_size_of_its_branch() {
    for name in FILES {
        let Recording { file, branch, .. } = Recording::open(name);
        let calls = file["calls"].as_array().unwrap();
        assert!(calls.len() > 35);
        for call in calls {
            let request = number(&call["request"]) as u32;
            let named = call["name"].as_str().unwrap();
            let size = call["size"].as_u64().unwrap() as usize;
            let arg = bytes(&call["arg"], size);
            if named.starts_with("UVM_") {
                let row = find(uvm::COMMANDS, branch, request).unwrap();
                assert_eq!((row.name, row.layout.unwrap().size(branch)), (named, size));
                continue;
            }
            let row = escape::of_request(branch, request).unwrap();
            assert_eq!(row.name, named);
            let params_size = call["params_size"].as_u64().unwrap_or(0) as usize;
            let params = || bytes(&call["params"], params_size);
            match row.number {
                n if n == escape::RM_CONTROL.number => {
                    let args = escape::Control::decode(branch, &arg).unwrap();
                    let row = find(control::CONTROLS, branch, args.cmd).unwrap();
                    assert_eq!(row.name, call["cmd_name"].as_str().unwrap());
                    let wanted = row.layout.unwrap().size(branch);
                    assert_eq!(
                        (args.params_size as usize, params_size),
                        (wanted, wanted),
                        "{named}"
                    );
                }
                n if n == escape::RM_ALLOC.number => {
                    let args = escape::Alloc::decode(branch, &arg).unwrap();
                    let row = find(class::CLASSES, Branch::R580, args.h_class).unwrap();
                    if params_size > 0 {
                        let wanted = row.layout.unwrap().size(branch);
                        assert_eq!(params_size, wanted, "{}", row.name);
                        check_flags(branch, args.h_class, &params());
                    }
                }
                n if n == escape::RM_ALLOC_MEMORY.number => {
                    let args = escape::AllocMemoryWithFd::decode(branch, &arg).unwrap();
                    known_bits(memory::ALLOC_MEMORY_FLAGS, branch, args.params.flags);
                }
                n if n == escape::RM_MAP_MEMORY.number => {
                    let args = escape::MapMemoryWithFd::decode(branch, &arg).unwrap();
                    known_bits(memory::MAP_FLAGS, branch, args.params.flags);
                    assert!(args.params.length > 0 && args.fd > 0);
                }
                n if n == escape::RM_MAP_MEMORY_DMA.number => {
                    let args = escape::MapMemoryDma::decode(branch, &arg).unwrap();
                    known_bits(memory::MAP_DMA_FLAGS, branch, args.flags);
                    assert_eq!(args.encode(branch), arg);
                }
                _ => {}
            }
        }
    }
}
