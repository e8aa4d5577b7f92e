//! Objects that somebody wrote to break the loader, and a million that chance wrote: each is an error
//! with a name, or loads; none takes memory or time without bound.
//!
//! `DOORBELL_OBJECTS` sets how many damaged objects are tried.

use crate::damage;
use crate::llvm;

use damage::{Chance, damage};

use drivers_amd::chip::{CHIPS, Chip, GFX942, GFX1030, GFX1100, GFX1201};
use drivers_amd::object::{CodeObject, ObjectError};
use hcq::{ArgField, GpuVa};

const SOURCE: &str = include_str!("kernels.c");
const BASE: u64 = 0x7e30_0000_0000;
const E_FLAGS: usize = 48;

/// Loads an object as a device would, if it can be loaded. Says whether it can.
fn load(bytes: &[u8], chip: &Chip) -> bool {
    let object = match CodeObject::parse(bytes, chip) {
        Ok(object) => object,
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() < 8192, "{} bytes of message", text.len());
            return false;
        }
    };
    assert!(object.bytes() <= (64 << 20) + 512 && object.align() <= 1 << 16);
    if let Ok(image) = object.at(BASE) {
        assert_eq!(image.len() as u64, object.bytes());
    }
    for kernel in &object.kernels {
        assert!(kernel.descriptor + 64 <= object.bytes() && kernel.entry < object.bytes());
        assert!(kernel.kernarg_size <= 1 << 20 && kernel.kernarg_align.is_power_of_two());
        if let Ok(launch) = kernel.launch(chip, GpuVa(BASE), 0) {
            assert!(launch.max_threads > 0 && launch.group_bytes <= chip.lds_bytes);
            assert_eq!(launch.words().len(), 15);
        }
        if let Ok(layout) = kernel.layout() {
            kernel.check_layout(&layout).unwrap();
            let inside = |field: &ArgField| field.end().is_some_and(|end| end <= layout.bytes);
            assert!(layout.fields.iter().all(inside));
        }
    }
    true
}

fn objects() -> Vec<(&'static Chip, Vec<u8>)> {
    let mut all = Vec::new();
    for (chip, flags) in [
        (&GFX1100, &[][..]),
        (&GFX1030, &["-O0"]),
        (&GFX942, &["-O0"]),
        (&GFX1201, &["-mcode-object-version=4"]),
        (&GFX1100, &["-mcode-object-version=6"]),
    ] {
        let object = llvm::compile(chip.name, flags, SOURCE);
        all.push((chip, llvm::link(&object)));
        all.push((chip, object));
    }
    all
}

#[test]
fn damaged_objects_are_errors_or_load() {
    let count: u64 = match std::env::var("DOORBELL_OBJECTS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 30_000,
    };
    let objects = objects();
    let (mut loaded, mut slowest) = (0, std::time::Duration::ZERO);
    for seed in 0..count {
        let mut chance = Chance(seed);
        let (chip, whole) = &objects[chance.below(objects.len())];
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut chance);
        let start = std::time::Instant::now();
        let good = std::panic::catch_unwind(|| load(&bytes, chip));
        slowest = slowest.max(start.elapsed());
        loaded += u64::from(good.unwrap_or_else(|_| panic!("seed {seed} on {}", chip.name)));
    }
    println!("{count} objects, {loaded} of which load; the slowest took {slowest:?}");
    assert!(loaded > count / 50 && loaded < count);
}

#[test]
fn every_bit_may_be_wrong_and_every_end_missing() {
    for (chip, whole) in objects().into_iter().take(2) {
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            load(&bytes, chip);
            bytes[at] = !whole[at];
            load(&bytes, chip);
            load(&whole[..at], chip);
        }
    }
}

fn refused(bytes: &[u8], chip: &Chip) -> String {
    CodeObject::parse(bytes, chip).unwrap_err().to_string()
}

#[test]
fn objects_of_other_runtimes_and_features_are_refused_by_name() {
    let bytes = llvm::compile("gfx1100", &[], SOURCE);
    for (at, value, text) in [
        (7, 65, "EI_OSABI is 0x41, expected 0x40, HSA"),
        (7, 0, "EI_OSABI is 0x0"),
        (8, 1, "EI_ABIVERSION is 0x1, expected 2 to 4"),
        (8, 9, "EI_ABIVERSION is 0x9"),
    ] {
        let mut other = bytes.clone();
        other[at] = value;
        assert!(
            refused(&other, &GFX1100).starts_with(text),
            "{}",
            refused(&other, &GFX1100)
        );
    }
    for (features, text) in [
        ("gfx942:sramecc-", "gfx942 without SRAM ECC, which is on"),
        ("gfx942:xnack+", "gfx942 with XNACK, which is off"),
    ] {
        let bytes = llvm::compile(features, &[], SOURCE);
        assert!(refused(&bytes, &GFX942).contains(text), "{features}");
    }
    for features in ["gfx942:sramecc+", "gfx942:xnack-", "gfx942:sramecc+:xnack-"] {
        assert!(
            load(&llvm::compile(features, &[], SOURCE), &GFX942),
            "{features}"
        );
    }
    // Every other chip than its own is named.
    for chip in CHIPS {
        let bytes = llvm::compile(chip.name, &[], SOURCE);
        for other in CHIPS.iter().filter(|other| other.name != chip.name) {
            let text = refused(&bytes, other);
            assert!(
                text.contains(chip.name) && text.contains(other.name),
                "{text}"
            );
        }
        let mut nothing = bytes.clone();
        nothing[E_FLAGS] = 0;
        assert!(refused(&nothing, chip).contains("another chip (EF_AMDGPU_MACH 0x0)"));
    }
}

/// The place of a kernel's descriptor in the file.
fn descriptor(bytes: &[u8], chip: &Chip, kernel: &str) -> usize {
    let object = CodeObject::parse(bytes, chip).unwrap();
    let image = object.at(BASE).unwrap();
    let at = object.kernel(kernel).unwrap().descriptor as usize;
    // What relocations change is left out: the offset of the code.
    let (head, tail) = (&image[at..at + 16], &image[at + 44..at + 64]);
    let matches = |at: &usize| bytes[*at..].starts_with(head) && bytes[at + 44..].starts_with(tail);
    (0..bytes.len() - 64).step_by(8).find(matches).unwrap()
}

#[test]
fn descriptors_that_no_compiler_writes_are_refused_by_name() {
    let whole = llvm::compile("gfx1100", &[], SOURCE);
    let at = descriptor(&whole, &GFX1100, "turn");
    let changed = |offset: usize, value: u32| {
        let mut bytes = whole.clone();
        bytes[at + offset..at + offset + 4].copy_from_slice(&value.to_le_bytes());
        bytes
    };
    let text = refused(&changed(8, u32::MAX), &GFX1100);
    assert!(
        text.contains("kernel turn") && text.contains("at most 1048576"),
        "{text}"
    );
    let text = refused(&changed(8, 4096), &GFX1100);
    assert!(text.contains("4096 bytes of arguments, metadata"), "{text}");
    // LDS and waves that a chip does not have are told by the launch.
    let launch = |bytes: &[u8], chip: &Chip| {
        let object = CodeObject::parse(bytes, chip).unwrap();
        let launch = object.kernel("turn").unwrap().launch(chip, GpuVa(BASE), 0);
        launch.unwrap_err().to_string()
    };
    let text = launch(&changed(0, 1 << 20), &GFX1100);
    assert!(
        text.contains("1048576 bytes of LDS, gfx1100 has 65536"),
        "{text}"
    );
    let whole = llvm::compile("gfx942", &[], SOURCE);
    let at = descriptor(&whole, &GFX942, "turn");
    let mut bytes = whole.clone();
    bytes[at + 57] |= 4;
    let text = launch(&bytes, &GFX942);
    assert!(
        text.contains("waves of 32 lanes, gfx942 supports [64]"),
        "{text}"
    );
}

/// Replaces a text of an object by another one of the same length.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<_> = (0..bytes.len() - old.len())
        .filter(|&at| bytes[at..].starts_with(old))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

#[test]
fn metadata_that_no_compiler_writes_is_refused_by_name() {
    let whole = llvm::compile("gfx1100", &[], SOURCE);
    // A name, then its value: a fixed number of MessagePack.
    let number = |name: &[u8], old: &[u8], new: &[u8]| {
        let text = |value: &[u8]| [name, value].concat();
        refused(&replaced(&whole, &text(old), &text(new)), &GFX1100)
    };
    let text = number(b".kernarg_segment_align", &[8], &[3]);
    assert!(
        text.contains("alignment is 3 bytes, expected a power of two"),
        "{text}"
    );
    let text = number(b".kernarg_segment_align", &[8], &[0]);
    assert!(text.contains("alignment is 0 bytes"), "{text}");
    let text = number(b".max_flat_workgroup_size", &[0xcd, 4, 0], &[0xcd, 0, 0]);
    assert!(text.contains("workgroup size is 0 work-items"), "{text}");
    let text = refused(
        &replaced(&whole, b"amdhsa.version", b"amdhsa.versiom"),
        &GFX1100,
    );
    assert!(
        text.contains("expected amdhsa.version 1, found None"),
        "{text}"
    );
    // A kernel twice, and one that is not there.
    let twice = replaced(&whole, b"look.kd", b"turn.kd");
    let text = refused(&twice, &GFX1100);
    assert!(text.contains("twice"), "{text}");
    // A size that no workgroup has.
    let source = "__attribute__((reqd_work_group_size(16, 4, 1))) __kernel void k(void) {}";
    let whole = llvm::compile("gfx1100", &["-x", "cl"], source);
    assert!(load(&whole, &GFX1100));
    let name = b".reqd_workgroup_size";
    let size = |value: &[u8]| [&name[..], value].concat();
    for none in [[0x93, 0, 4, 1], [0x93, 16, 4, 2]] {
        let bytes = replaced(&whole, &size(&[0x93, 16, 4, 1]), &size(&none));
        let text = refused(&bytes, &GFX1100);
        assert!(text.contains("required workgroup size ["), "{text}");
    }
}

/// A long name that each relocation has would be copied for each.
#[test]
fn long_names_take_no_memory_and_no_screen() {
    let name = "n".repeat(100_000);
    let mut source = format!("extern int {name};\n");
    for i in 0..300 {
        source += &format!("__attribute__((used)) int *pointer{i} = &{name};\n");
    }
    source += &format!("int {name} = 7;\n");
    source += "__attribute__((amdgpu_kernel)) void k(__attribute__((address_space(1))) int *p) {}";
    let bytes = llvm::compile("gfx1100", &["-fvisibility=default"], &source);
    assert!(load(&bytes, &GFX1100));
    let undefined = source.replace(&format!("int {name} = 7;\n"), "");
    let bytes = llvm::compile("gfx1100", &["-fvisibility=default"], &undefined);
    let error = CodeObject::parse(&bytes, &GFX1100).unwrap_err();
    assert!(matches!(error, ObjectError::Symbol { .. }));
    assert!(error.to_string().len() < 400);
}
