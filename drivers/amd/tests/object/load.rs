//! Objects of LLVM load as its linker would lay them out, and broken ones are refused.
use crate::llvm;

use std::collections::HashMap;
use std::sync::LazyLock;

use drivers_amd::chip::{CHIPS, Chip, GFX942, GFX1030, GFX1100, GFX1201};
use drivers_amd::object::{CodeObject, ObjectError};
use hcq::{ArgKind, ArgLayout, GpuVa, Width};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
    SectionIndex,
};
use proptest::prelude::*;

const SOURCE: &str = include_str!("kernels.c");
const BASE: u64 = 0x7e30_0000_0000;

fn parse(bytes: &[u8], chip: &Chip) -> CodeObject {
    CodeObject::parse(bytes, chip).unwrap_or_else(|error| panic!("{}: {error}", chip.name))
}

#[test]
fn kernels_are_described_as_they_were_written() {
    for chip in CHIPS {
        let object = parse(&llvm::compile(chip.name, &[], SOURCE), chip);
        let names: Vec<_> = object.kernels.iter().map(|k| k.name.as_str()).collect();
        assert_eq!(names, ["add", "look", "turn"], "{}", chip.name);

        let add = object.kernel("add").unwrap();
        let layout = add.layout().unwrap();
        let number = ArgKind::Value(Width::W32);
        assert_eq!(
            layout,
            ArgLayout::new([[ArgKind::Buffer; 3].as_slice(), &[number]].concat())
        );
        assert_eq!((add.kernarg_size, layout.align), (28, 8));
        assert_eq!((add.group_bytes, add.scratch_bytes()), (0, 0));
        assert_eq!(add.max_flat_workgroup_size, 1024);
        assert!(add.vgprs > 0 && add.sgprs > 0);
        assert_eq!(add.wave32, chip.wave_sizes.contains(&32));
        assert!(!add.dynamic_stack);

        let look = object.kernel("look").unwrap();
        assert!(look.scratch_bytes() >= 80, "{}", look.private_bytes);
        let turn = object.kernel("turn").unwrap();
        assert_eq!(
            (turn.group_bytes, turn.max_flat_workgroup_size),
            (1200, 256)
        );

        let launch = turn.launch(chip, GpuVa(BASE), 0).unwrap();
        assert_eq!(launch.code.0, BASE + turn.entry);
        assert_eq!(launch.group_bytes, 1200);
        // 3 units of 512 bytes.
        assert_eq!(launch.rsrc[1] >> 15 & 0x1ff, 3);
        let more = turn.launch(chip, GpuVa(BASE), 65536).unwrap();
        assert_eq!((more.group_bytes, more.rsrc[1] >> 15 & 0x1ff), (65536, 128));
        let text = turn
            .launch(chip, GpuVa(BASE), 65537)
            .unwrap_err()
            .to_string();
        assert!(text.contains("65537 bytes of LDS"), "{text}");
    }
}

#[test]
fn arguments_are_compared_with_what_the_compiler_laid_out() {
    let object = parse(&llvm::compile("gfx1100", &[], SOURCE), &GFX1100);
    let add = object.kernel("add").unwrap();
    add.check_layout(&add.layout().unwrap()).unwrap();
    let text = |layout| add.check_layout(&layout).unwrap_err().to_string();
    assert_eq!(
        text(ArgLayout::buffers(3)),
        "kernel add: takes 4 arguments, 3 are described"
    );
    assert_eq!(
        text(ArgLayout::buffers(4)),
        "kernel add: argument 3 has 4 bytes at 24, not 8 at 24"
    );
    let mut layout = add.layout().unwrap();
    layout.fields[1].kind = ArgKind::Value(Width::W64);
    assert_eq!(
        text(layout),
        "kernel add: argument 1 is global_buffer, not a Value(W64)"
    );
    let text = object.kernel("sub").unwrap_err().to_string();
    assert_eq!(
        text,
        "symbol sub.kd: no such kernel; the object has add, look, turn"
    );
}

/// Where the sections of an unlinked object lie in an image.
struct Bases(HashMap<SectionIndex, u64>);

impl Bases {
    /// From the places of kernels.
    fn of(file: &ElfFile64<'_, Endianness>, image: &CodeObject) -> Bases {
        let mut bases = HashMap::new();
        for symbol in file.symbols() {
            let Some(section) = symbol.section_index() else {
                continue;
            };
            let name = symbol.name().unwrap();
            let at = match name.strip_suffix(".kd") {
                Some(kernel) => image.kernel(kernel).map(|k| k.descriptor),
                None => image.kernel(name).map(|k| k.entry),
            };
            if let Ok(at) = at {
                bases.insert(section, at - symbol.address());
            }
        }
        Bases(bases)
    }
}

fn number(image: &[u8], at: u64, bytes: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes].copy_from_slice(&image[at as usize..at as usize + bytes]);
    u64::from_le_bytes(wide)
}

/// Every byte of code and constants is what `ld.lld` gives, and every relocation leads to the same
/// place of the same section.
#[test]
fn images_are_those_of_the_linker() {
    for chip in CHIPS {
        for flags in [&["-O2"][..], &["-O0"]] {
            let bytes = llvm::compile(chip.name, flags, SOURCE);
            let linked = llvm::link(&bytes);
            let (ours, theirs) = (parse(&bytes, chip), parse(&linked, chip));
            let facts = |object: &CodeObject| {
                let mut kernels = object.kernels.clone();
                for kernel in &mut kernels {
                    (kernel.descriptor, kernel.entry) = (0, 0);
                }
                kernels
            };
            assert_eq!(facts(&ours), facts(&theirs), "{}", chip.name);
            compare(chip, &bytes, &ours, &theirs);
        }
    }
}

fn compare(chip: &Chip, bytes: &[u8], ours: &CodeObject, theirs: &CodeObject) {
    let file = ElfFile64::<Endianness>::parse(bytes).unwrap();
    let (our_bases, their_bases) = (Bases::of(&file, ours), Bases::of(&file, theirs));
    let (our_image, their_image) = (ours.at(BASE).unwrap(), theirs.at(BASE).unwrap());
    // How far a section moved: known where kernels are, learnt from the first reference elsewhere.
    let mut moved: HashMap<SectionIndex, u64> = HashMap::new();
    for (section, at) in &our_bases.0 {
        moved.insert(*section, at.wrapping_sub(their_bases.0[section]));
    }
    assert!(moved.len() >= 2, "code and descriptors");
    let mut kinds = std::collections::BTreeSet::new();
    for section in file.sections() {
        let (Some(&at), Some(&their_at)) = (
            our_bases.0.get(&section.index()),
            their_bases.0.get(&section.index()),
        ) else {
            continue;
        };
        let mut last_low = 0;
        let mut same = vec![true; section.size() as usize];
        for (offset, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                panic!("no ELF relocation");
            };
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                panic!("no symbol");
            };
            let target = file
                .symbol_by_index(symbol)
                .unwrap()
                .section_index()
                .unwrap();
            // REL64: 8 bytes, relative. REL32_LO: 4, relative. ABS64: 8. GOTPCREL32_LO: through a slot,
            // which the linker may have left out. The high halves: 0 or all ones, by sign.
            let (width, relative) = match r_type.0 {
                3 => (8, false),
                5 => (8, true),
                10 => (4, true),
                8 | 9 | 11 => (4, false),
                other => panic!("type {other}"),
            };
            kinds.insert(r_type.0);
            same[offset as usize..offset as usize + width].fill(false);
            if r_type.0 == 10 {
                last_low = offset;
            }
            if r_type.0 == 11 {
                // With the low half before: a distance inside of the image.
                let low = number(&our_image, at + last_low, 4);
                let wide = (low | number(&our_image, at + offset, 4) << 32) as i64;
                assert!(wide.unsigned_abs() < our_image.len() as u64, "{wide:#x}");
            }
            if matches!(r_type.0, 8 | 9 | 11) {
                continue;
            }
            let place = |image: &[u8], base: u64| {
                let value = number(image, base + offset, width);
                let from = if relative { base + offset } else { 0 };
                value.wrapping_add(from)
            };
            let distance = place(&our_image, at).wrapping_sub(place(&their_image, their_at));
            let mask = u64::MAX >> (64 - 8 * width);
            let expected = *moved.entry(target).or_insert(distance);
            assert_eq!(
                distance & mask,
                expected & mask,
                "{} +{offset:#x}",
                chip.name
            );
        }
        for (i, same) in same.iter().enumerate() {
            let i = i as u64;
            let bytes = [
                number(&our_image, at + i, 1),
                number(&their_image, their_at + i, 1),
            ];
            assert!(!same || bytes[0] == bytes[1], "{} byte {i:#x}", chip.name);
        }
    }
    assert!(kinds.contains(&5) && kinds.contains(&10), "{kinds:?}");
}

/// Reads what a slot or pointer of the image leads to.
#[test]
fn pointers_and_slots_hold_addresses_of_the_image() {
    let source = "
        __attribute__((visibility(\"default\"))) int variable = 0x1234567;
        int *__attribute__((address_space(1))) pointer = &variable;
        __attribute__((amdgpu_kernel)) void get(__attribute__((address_space(1))) int *out) {
          *out = variable + *pointer;
        }";
    for chip in [&GFX1030, &GFX1100, &GFX1201, &GFX942] {
        // Weak: the compiler cannot take it to be its own, and asks for a slot.
        let weak = source.replace(
            "(visibility(\"default\"))",
            "(visibility(\"default\"), weak)",
        );
        let bytes = llvm::compile(chip.name, &["-fno-gpu-rdc", "-fvisibility=default"], &weak);
        let object = parse(&bytes, chip);
        let image = object.at(BASE).unwrap();
        let leads = (0..image.len() as u64 - 7).step_by(4).filter(|&at| {
            let to = number(&image, at, 8).wrapping_sub(BASE);
            to < image.len() as u64 - 4 && number(&image, to, 4) == 0x1234567
        });
        assert!(leads.count() >= 1, "{}", chip.name);
        assert_eq!(object.at(BASE + 0x1000).unwrap().len(), image.len());
    }
}

fn refused(chip: &Chip, bytes: &[u8]) -> String {
    CodeObject::parse(bytes, chip).unwrap_err().to_string()
}

#[test]
fn objects_of_other_machines_are_refused_by_name() {
    let bytes = llvm::compile("gfx1030", &[], SOURCE);
    assert_eq!(
        refused(&GFX1100, &bytes),
        "compiled for gfx1030, but the device is gfx1100: compile it for gfx1100"
    );
    let bytes = llvm::compile("gfx906", &[], SOURCE);
    let text = refused(&GFX1100, &bytes);
    assert!(
        text.contains("another chip (EF_AMDGPU_MACH 0x2f)"),
        "{text}"
    );
    let bytes = llvm::compile("gfx942:xnack+", &[], SOURCE);
    let text = refused(&GFX942, &bytes);
    assert!(text.contains("gfx942 with XNACK, which is off"), "{text}");
    let mut bytes = llvm::compile("gfx1100", &[], SOURCE);
    bytes[18] = 62;
    let text = refused(&GFX1100, &bytes);
    assert_eq!(text, "e_machine is 0x3e, expected 0xe0, AMDGPU");
    bytes[18] = 224;
    bytes[16] = 2;
    assert!(refused(&GFX1100, &bytes).starts_with("e_type is 0x2, expected 1"));
    assert!(refused(&GFX1100, b"kernel").starts_with("expected a 64-bit ELF object"));
}

#[test]
fn what_nobody_defines_is_named() {
    let symbol = |flags: &[&str], source: &str| {
        let bytes = llvm::compile("gfx1100", flags, source);
        match CodeObject::parse(&bytes, &GFX1100) {
            Err(ObjectError::Symbol { symbol, why }) => (symbol, why),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it loads"),
        }
    };
    let kernel = "__attribute__((amdgpu_kernel)) void k(__attribute__((address_space(1))) int *p)";
    let (name, why) = symbol(&[], &format!("int far(int); {kernel} {{ *p = far(*p); }}"));
    assert_eq!(name, "far");
    assert!(why.starts_with("undefined"), "{why}");
    let (name, why) = symbol(
        &["-fcommon"],
        &format!("int tentative; {kernel} {{ *p = tentative++; }}"),
    );
    assert_eq!(name, "tentative");
    assert!(why.starts_with("COMMON"), "{why}");
    // LDS whose size a launch tells has no place in the image.
    let lds = "extern __attribute__((address_space(3))) int dynamic[];";
    let source = format!("{lds} {kernel} {{ dynamic[*p] = 1; *p = dynamic[3]; }}");
    let object = parse(&llvm::compile("gfx1100", &[], &source), &GFX1100);
    assert_eq!(object.kernels[0].group_bytes, 0);
}

static OBJECTS: LazyLock<Vec<(&'static Chip, Vec<u8>)>> = LazyLock::new(|| {
    let unlinked = llvm::compile("gfx1100", &[], SOURCE);
    let linked = llvm::link(&unlinked);
    let slots = llvm::compile("gfx942", &["-O0"], SOURCE);
    vec![(&GFX1100, unlinked), (&GFX1100, linked), (&GFX942, slots)]
});

/// Loads an object as a device would, if it can be loaded.
fn load(bytes: &[u8], chip: &Chip) {
    let Ok(object) = CodeObject::parse(bytes, chip) else {
        return;
    };
    let _ = object.at(BASE);
    for kernel in &object.kernels {
        let _ = kernel.launch(chip, GpuVa(BASE), 0);
        if let Ok(layout) = kernel.layout() {
            let _ = kernel.check_layout(&layout);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Whatever is wrong with an object, it is an error.
    #[test]
    fn damaged_objects_are_refused_or_load(
        which in 0usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        wide in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(vec![
            0u64, 1, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX, u64::MAX - 7,
        ]))),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (chip, bytes) = &OBJECTS[which];
        let mut bytes = bytes.clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some((at, value)) = wide {
            let at = at.index(bytes.len() - 8) & !7;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        load(&bytes, chip);
    }
}

/// Each 8 bytes of the tables of an object, set to what numbers break at.
#[test]
fn every_field_may_be_anything() {
    for (chip, bytes) in OBJECTS.iter() {
        for at in (0..bytes.len() - 8).step_by(4) {
            for value in [u64::MAX, 1 << 63, 0xffff_ffff, 0] {
                let mut broken = bytes.clone();
                broken[at..at + 8].copy_from_slice(&value.to_le_bytes());
                load(&broken, chip);
            }
        }
    }
}
