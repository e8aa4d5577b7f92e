//! Cubins that somebody wrote to break the loader, and many that chance wrote: each is an error with a name, or
//! loads, and then starts in its own code; none takes memory or time without bound.
//!
//! `DOORBELL_OBJECTS` sets how many damaged cubins are tried.
use crate::damage;

use std::path::Path;
use std::time::{Duration, Instant};

use damage::{Chance, SH_OFFSET, SH_SIZE, SH_TYPE, SHDR, damage, headers, word};
use drivers_nv::encode::Windows;
use drivers_nv::encode::launch::Launch;
use drivers_nv::encode::limits::Limits;
use drivers_nv::object::{Object, Target};
use drivers_spec::nv::chip::CHIPS;
use drivers_spec::nv::qmd;

const BASE: u64 = 0x20_0a00_0000;
/// Bytes of an image at most, with what is fetched ahead.
const LARGEST: u64 = (64 << 20) + (1 << 16);
const KERNELS: [&str; 3] = ["first", "second", "kernel"];

fn target(sm: u32) -> Target {
    let chip = CHIPS.iter().find(|chip| chip.sm == sm).unwrap();
    Target {
        arch: chip.arch,
        limits: Limits::of(sm).unwrap(),
        windows: Windows::DEFAULT,
    }
}

fn file(name: &str) -> Vec<u8> {
    let name = format!("../../tests/golden/nv/cubin/{name}.cubin");
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Cubins of three compilers, two of which have been linked.
fn objects() -> Vec<(u32, Vec<u8>)> {
    let all = [86, 90, 120].into_iter().flat_map(|sm| {
        let of = |name: &str| (sm, file(&format!("{name}_{sm}")));
        [of("sm"), of("linked")]
    });
    all.collect()
}

/// Loads a cubin as a device would, if it can be loaded: the first error, or none.
fn load(bytes: &[u8], sm: u32) -> Option<String> {
    let object = match Object::parse(bytes, target(sm)) {
        Ok(object) => object,
        Err(error) => return Some(error.to_string()),
    };
    assert!(object.bytes() <= LARGEST);
    assert_eq!(object.at(BASE).len() as u64, object.bytes());
    let mut first = None;
    for name in KERNELS {
        let launch = object
            .kernel(name)
            .and_then(|kernel| Ok((kernel, kernel.local_bytes()?, kernel.launch(BASE, 0)?)));
        match launch {
            Ok((kernel, _, words)) => starts_inside(&words, kernel.entry(), object.bytes()),
            Err(error) => first = first.or(Some(error.to_string())),
        }
    }
    first.filter(|error| !error.contains("no such kernel"))
}

/// All that a launch reads lies in the image, and its QMD says nothing that has no name.
fn starts_inside(words: &[u32], entry: u64, bytes: u64) {
    let launch = Launch::from_words(words).unwrap();
    assert!((1..=1024).contains(&launch.max_threads));
    let version = launch.version;
    let qmd = &launch.template[..version.dwords()];
    assert_eq!(qmd::unnamed(version, qmd), None);
    assert_eq!(
        qmd::PROGRAM_ADDRESS.get(version, 0, qmd),
        Some(BASE + entry)
    );
    assert!(entry < bytes);
    for bank in 1..8 {
        if qmd::CONSTANT_BUFFER_VALID.get(version, bank, qmd) == Some(1) {
            let at = qmd::CONSTANT_BUFFER_ADDR.get(version, bank, qmd).unwrap();
            assert!((BASE..BASE + bytes).contains(&at), "bank {bank} at {at:#x}");
        }
    }
}

#[test]
fn damaged_cubins_are_errors_or_load() {
    let count: u64 = match std::env::var("DOORBELL_OBJECTS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 30_000,
    };
    let objects = objects();
    let (mut loaded, mut slowest) = (0, Duration::ZERO);
    for seed in 0..count {
        let mut chance = Chance(seed);
        let (sm, whole) = &objects[chance.below(objects.len())];
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut chance);
        let start = Instant::now();
        let found = std::panic::catch_unwind(|| load(&bytes, *sm));
        slowest = slowest.max(start.elapsed());
        match found.unwrap_or_else(|_| panic!("seed {seed} for sm_{sm}")) {
            None => loaded += 1,
            Some(error) => assert!(error.len() < 1024, "{} bytes of message", error.len()),
        }
    }
    println!("{count} cubins, {loaded} of which load; the slowest took {slowest:?}");
    assert!(loaded > count / 50 && loaded < count);
}

#[test]
fn every_bit_may_be_wrong_and_every_end_missing() {
    for (sm, whole) in objects().into_iter().take(4) {
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            load(&bytes, sm);
            bytes[at] = !whole[at];
            load(&bytes, sm);
            load(&whole[..at], sm);
        }
    }
}

/// A cubin of two kernels, and what is changed in it.
struct Lie(Vec<u8>);

/// Where things lie in the headers and in a symbol.
const SH_FLAGS: usize = 8;
const SH_ALIGN: usize = 48;
const E_MACHINE: usize = 18;
const E_FLAGS: usize = 48;
const E_SHOFF: usize = 40;
const E_SHNUM: usize = 60;
const SYMBOL: usize = 24;
const ST_VALUE: usize = 8;
const NOBITS: u32 = 8;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const REL: u32 = 9;

impl Lie {
    fn text(&self, table: usize, at: usize) -> &[u8] {
        let rest = &self.0[word(&self.0, table + SH_OFFSET) as usize + at..];
        rest.split(|&byte| byte == 0).next().unwrap()
    }

    fn half(&self, at: usize) -> u32 {
        word(&self.0, at) as u32
    }

    /// The header of a section.
    fn section(&self, name: &str) -> usize {
        let all = headers(&self.0);
        let names = all[usize::from(word(&self.0, 62) as u16)];
        let is = |at: &usize| self.text(names, self.half(*at) as usize) == name.as_bytes();
        all.into_iter().find(is).unwrap()
    }

    /// The header of the first section of a type.
    fn of_type(&self, kind: u32) -> usize {
        let mut all = headers(&self.0).into_iter();
        all.find(|at| self.half(at + SH_TYPE) == kind).unwrap()
    }

    fn content(&self, section: usize) -> usize {
        word(&self.0, section + SH_OFFSET) as usize
    }

    fn symbol(&self, name: &str) -> usize {
        let table = self.of_type(SYMTAB);
        let all = headers(&self.0);
        let names = all[self.half(table + 40) as usize];
        assert_eq!(self.half(names + SH_TYPE), STRTAB);
        let count = word(&self.0, table + SH_SIZE) as usize / SYMBOL;
        let mut all = (0..count).map(|i| self.content(table) + i * SYMBOL);
        let is = |at: &usize| self.text(names, self.half(*at) as usize) == name.as_bytes();
        all.rfind(is).unwrap()
    }

    /// An attribute of a kernel in a section of them.
    fn attribute(&self, section: &str, form: u8, number: u8) -> usize {
        let header = self.section(section);
        let (at, size) = (
            self.content(header),
            word(&self.0, header + SH_SIZE) as usize,
        );
        let mut all = (at..at + size).step_by(4);
        all.find(|&at| self.0[at..at + 2] == [form, number])
            .unwrap()
    }

    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&value);
    }

    fn long(&mut self, at: usize, value: u64) {
        self.put(at, value.to_le_bytes());
    }

    fn short(&mut self, at: usize, value: u32) {
        self.put(at, value.to_le_bytes());
    }

    /// Gives the file so many headers more, copies of one.
    fn copies(&mut self, of: usize, count: u16) {
        let mut table: Vec<u8> = headers(&self.0)
            .into_iter()
            .flat_map(|at| self.0[at..at + SHDR].to_vec())
            .collect();
        let one = self.0[of..of + SHDR].to_vec();
        (0..count).for_each(|_| table.extend(&one));
        let at = self.0.len() as u64;
        let number = (table.len() / SHDR) as u16;
        self.0.extend(table);
        self.long(E_SHOFF, at);
        self.put(E_SHNUM, number.to_le_bytes());
    }
}

/// What somebody may write, and how it is refused.
type Case = (fn(&mut Lie), &'static str);

const LIES: &[Case] = &[
    (
        |l| l.put(E_MACHINE, [62, 0]),
        "the machine is 0x3e, expected 190 (CUDA)",
    ),
    (
        |l| l.put(8, [9]),
        "the version of the ABI is 0x9, expected 7 or 8",
    ),
    (
        |l| l.put(E_FLAGS, [75]),
        "the generation is 0x4b, expected sm_80 to sm_121",
    ),
    (
        |l| l.put(E_FLAGS, [89]),
        "compiled for sm_89, but the device is sm_86",
    ),
    (
        |l| {
            let at = l.section(".nv.global.init");
            l.short(at + SH_TYPE, NOBITS);
            l.long(at + SH_SIZE, 1 << 40);
        },
        "section .nv.global.init: 0x10000000000 bytes, expected at most 0x4000000",
    ),
    (
        |l| {
            let at = l.section(".nv.global.init");
            l.short(at + SH_TYPE, NOBITS);
        },
        "the section has no bytes",
    ),
    (
        |l| l.long(l.section(".text.first") + SH_ALIGN, 3),
        "section .text.first: unsupported alignment 0x3",
    ),
    (
        |l| {
            let (one, other) = (l.section(".nv.constant3"), l.section(".nv.constant4"));
            let at = word(&l.0, one + SH_OFFSET);
            l.long(other + SH_OFFSET, at);
        },
        "overlaps section .nv.constant3",
    ),
    (
        |l| {
            let (one, other) = (l.section(".text.first"), l.section(".text.second"));
            let name = l.half(one);
            l.short(other, name);
        },
        "section .text.first: two sections have this name",
    ),
    (|l| l.copies(l.of_type(REL), 5000), "overlaps section .rel"),
    (
        |l| l.copies(l.section(".nv.info.first"), 5000),
        "section .nv.info.first: overlaps section .nv.info.first",
    ),
    (
        |l| l.short(l.section(".text.second") + SH_TYPE, NOBITS),
        "kernel second: code starts at 0x0 of",
    ),
    (
        |l| l.long(l.symbol("second") + ST_VALUE, 1 << 20),
        "kernel second: code starts at 0x100000 of",
    ),
    (
        |l| l.long(l.symbol("second") + ST_VALUE, u64::MAX - 127),
        "kernel second: code starts at 0xffffffffffffff80 of",
    ),
    (
        |l| l.long(l.symbol("second") + ST_VALUE, 16),
        "of the image, expected a multiple of 128",
    ),
    (
        |l| l.long(l.symbol("counter") + ST_VALUE, 1 << 40),
        "against counter: symbol at 0x10000000000 of a section of",
    ),
    (
        |l| l.long(l.content(l.of_type(REL)) + 8, 0xff),
        "unknown type 0xff",
    ),
    (
        |l| l.long(l.content(l.of_type(REL)), u64::MAX - 3),
        "past the end of the section",
    ),
    // A part of an instruction in the middle of a word of data.
    (
        |l| {
            let at = l.content(l.of_type(REL));
            l.long(at, 4);
            l.short(at + 8, 0x38);
        },
        "past the end of the section",
    ),
    (
        |l| l.short(l.content(l.of_type(REL)) + 12, 0xffff),
        "expected a cubin, a 64-bit ELF file",
    ),
    (
        |l| {
            let at = l.attribute(".nv.info", 4, 0x2f);
            l.short(at + 8, 256);
            let next = at + 12;
            if l.0[next..next + 2] == [4, 0x2f] {
                l.short(next + 8, 256);
            }
        },
        "registers (EIATTR_REGCOUNT): Some(256), expected 1 to 255",
    ),
    (
        |l| {
            let at = l.attribute(".nv.info.first", 4, 0x17);
            l.put(at + 2, [0xff, 0xff]);
        },
        "0x17 has 65535 bytes, past the end of the section",
    ),
    // The place of a parameter, and its number.
    (
        |l| {
            let at = l.attribute(".nv.info.first", 4, 0x17);
            l.put(at + 10, [0, 0x70]);
        },
        "bytes at 28672, of 20 in all",
    ),
    (
        |l| {
            let at = l.attribute(".nv.info.first", 4, 0x17);
            l.put(at + 8, [7, 0]);
        },
        "parameter numbers do not start at 0",
    ),
    (
        |l| l.long(l.section(".nv.shared.first") + SH_SIZE, 1 << 20),
        "kernel first: a block needs 1048576 bytes of shared memory, sm_86 has 101376",
    ),
    (
        |l| l.long(l.section(".nv.shared.first") + SH_SIZE, 1 << 40),
        "kernel first: 0x10000000000 bytes of shared memory",
    ),
    (
        |l| {
            let at = l.section(".nv.constant0.second");
            l.short(at + SH_TYPE, NOBITS);
            l.long(at + SH_SIZE, 1 << 17);
        },
        "section .nv.constant0: 131072 bytes, expected at most 65536",
    ),
    (
        |l| {
            let at = l.section(".text.first");
            let flags = word(&l.0, at + SH_FLAGS) | 0x7f << 20;
            l.long(at + SH_FLAGS, flags);
        },
        "kernel first: 127 barriers, expected at most 16",
    ),
    (
        |l| {
            let at = l.attribute(".nv.info.first", 4, 5);
            l.short(at + 4, 0);
        },
        "kernel first: compiled for blocks of 0 threads",
    ),
];

#[test]
fn lies_are_refused_by_name() {
    for (i, (lie, expected)) in LIES.iter().enumerate() {
        let mut file = Lie(file("sm_86"));
        assert_eq!(load(&file.0, 86), None);
        lie(&mut file);
        let start = Instant::now();
        let found = load(&file.0, 86).unwrap_or_else(|| panic!("lie {i} loads: {expected}"));
        assert!(found.contains(expected), "lie {i}: {found}");
        assert!(found.len() < 400 && start.elapsed() < Duration::from_secs(5));
    }
}

/// The stack that a kernel says it needs: more than a thread can have, and no number.
#[test]
fn stacks_without_bound_are_refused() {
    for (bytes, expected) in [
        (
            0x7fff_fff0u32,
            "kernel second: 0x7ffffff0 bytes of local memory",
        ),
        (
            0x200_0000,
            "kernel second: a thread needs 33554432 bytes of local memory",
        ),
    ] {
        let mut lie = Lie(file("sm_86"));
        let header = lie.section(".nv.info");
        let (start, size) = (lie.content(header), word(&lie.0, header + SH_SIZE) as usize);
        for at in (start..start + size).step_by(4) {
            // FRAME_SIZE, MIN_STACK_SIZE: of the kernel that has a stack.
            if [[4, 0x11], [4, 0x12]].contains(&[lie.0[at], lie.0[at + 1]]) && lie.half(at + 8) > 0
            {
                lie.short(at + 8, bytes);
            }
        }
        let found = load(&lie.0, 86).unwrap();
        assert!(found.contains(expected), "{found}");
    }
}
