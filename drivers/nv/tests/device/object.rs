//! Cubins load as their source says, and broken ones are refused.
use std::path::Path;

use drivers_nv::encode::Windows;
use drivers_nv::encode::launch::Launch;
use drivers_nv::encode::limits::Limits;
use drivers_nv::object::{Object, Target};
use drivers_spec::nv::chip::{Arch, CHIPS};
use drivers_spec::nv::cubin::bank0;
use drivers_spec::nv::qmd::{self, Version};
use hcq::{ArgKind, ArgLayout, Width};

const FILES: [u32; 3] = [86, 90, 120];
const BASE: u64 = 0x20_0a00_0000;

fn file(name: &str) -> Vec<u8> {
    let name = format!("../../tests/golden/nv/cubin/{name}.cubin");
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn target(sm: u32) -> Target {
    let chip = CHIPS.iter().find(|chip| chip.sm == sm).unwrap();
    Target {
        arch: chip.arch,
        limits: Limits::of(sm).unwrap(),
        windows: Windows::DEFAULT,
    }
}

fn object(sm: u32) -> Object {
    Object::parse(&file(&format!("sm_{sm}")), target(sm)).unwrap()
}

/// The QMD of a launch, without what a launch adds.
fn template(arch: Arch, launch: &Launch<'_>) -> (Version, Vec<u32>) {
    let version = *arch.facts().qmds.last().unwrap();
    assert_eq!(launch.version, version);
    (version, launch.template[..version.dwords()].to_vec())
}

/// `kernels.cu` beside the files says what they are.
#[test]
fn kernels_become_templates() {
    for (sm, registers) in FILES.into_iter().zip([[10, 40], [12, 32], [14, 40]]) {
        let object = object(sm);
        let arch = target(sm).arch;
        let first = object.kernel("first").unwrap();
        let number = |width| ArgKind::Value(width);
        let layout = ArgLayout::new([ArgKind::Buffer, number(Width::W64), number(Width::W32)]);
        first.check_layout(&layout).unwrap();
        assert_eq!(first.local_bytes().unwrap(), 0);
        let words = first.launch(BASE, 0).unwrap();
        let launch = Launch::from_words(&words).unwrap();
        assert_eq!((launch.param_bytes, launch.max_threads), (20, 64));
        // 320 of its own, 1024 of the system's.
        assert_eq!((launch.shared_bytes, launch.local_bytes), (0x580, 0));
        let params = bank0(sm).unwrap().params;
        assert_eq!(launch.params, launch.version.dwords() as u32 * 4 + params);
        let (version, qmd) = template(arch, &launch);
        let get = |field: qmd::Field, index| field.get(version, index, &qmd);
        assert_eq!(get(qmd::REGISTER_COUNT, 0), Some(registers[0]));
        assert_eq!(get(qmd::BARRIER_COUNT, 0), Some(1));
        let entry = qmd::PROGRAM_ADDRESS.get(version, 0, &qmd).unwrap();
        assert_eq!(entry, BASE + first.entry());
        // A table of four floats, and two addresses.
        assert_eq!(get(qmd::CONSTANT_BUFFER_VALID, 3), Some(1));
        let bank = |index| qmd::CONSTANT_BUFFER_ADDR.get(version, index, &qmd).unwrap();
        let image = object.at(BASE);
        let at = |address: u64| &image[(address - BASE) as usize..][..16];
        let floats = [1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
        assert_eq!(at(bank(3)), floats);
        let pointer = u64::from_le_bytes(at(bank(4))[..8].try_into().unwrap());
        assert_eq!(at(pointer)[..4], 7u32.to_le_bytes());
        assert_eq!(get(qmd::CONSTANT_BUFFER_VALID, 1), Some(0));

        let second = object.kernel("second").unwrap();
        // 128 of its own, 576 of the system's.
        assert_eq!(second.local_bytes().unwrap(), 0x2c0);
        let words = second.launch(BASE, 0x1000).unwrap();
        let launch = Launch::from_words(&words).unwrap();
        assert_eq!((launch.shared_bytes, launch.local_bytes), (0x1400, 0x2c0));
        assert_eq!(launch.max_threads, 1024);
        let (version, qmd) = template(arch, &launch);
        let get = |field: qmd::Field| field.get(version, 0, &qmd);
        assert_eq!(get(qmd::REGISTER_COUNT), Some(registers[1]));
        assert_eq!(get(qmd::SHADER_LOCAL_MEMORY_HIGH_SIZE), Some(0x2c0));
    }
}

/// One that calls a function whose address is in the code.
#[test]
fn linked_kernels_load() {
    for sm in FILES {
        let object = Object::parse(&file(&format!("linked_{sm}")), target(sm)).unwrap();
        let kernel = object.kernel("kernel").unwrap();
        let words = kernel.launch(BASE, 0).unwrap();
        assert!(Launch::from_words(&words).is_some());
        assert_ne!(object.at(BASE), object.at(BASE + (1 << 33)));
    }
}

#[test]
fn code_runs_on_its_chip_and_later_ones_of_its_kind() {
    let bytes = file("sm_86");
    let on_ada = Object::parse(&bytes, target(89)).unwrap();
    let words = on_ada.kernel("first").unwrap().launch(BASE, 0).unwrap();
    let launch = Launch::from_words(&words).unwrap();
    let (version, qmd) = template(Arch::Ad10x, &launch);
    assert_eq!(qmd::SASS_VERSION.get(version, 0, &qmd), Some(0x89));
    for (object, device) in [(86, 80), (86, 90), (90, 89), (90, 100), (120, 100)] {
        let bytes = file(&format!("sm_{object}"));
        let error = Object::parse(&bytes, target(device))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!(
                "compiled for sm_{object}, but the device is sm_{device}: compile it for sm_{device}"
            )
        );
    }
    let error = Object::parse(b"no file", target(90))
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected a cubin"), "{error}");
}

#[test]
fn what_a_chip_does_not_have_is_refused() {
    for (sm, most) in [(86, 99 << 10), (90, 227 << 10), (120, 99 << 10)] {
        let object = object(sm);
        let first = object.kernel("first").unwrap();
        let words = first.launch(BASE, most).unwrap();
        let launch = Launch::from_words(&words).unwrap();
        assert_eq!(launch.shared_bytes, most + 0x400);
        let error = first.launch(BASE, most + 1).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "kernel first: a block needs {} bytes of shared memory, sm_{sm} has {most}: use a smaller tile",
                most + 1
            )
        );
        let error = object.kernel("third").unwrap_err().to_string();
        assert!(error.contains("the cubin has first, second"), "{error}");
        let error = first.check_layout(&ArgLayout::buffers(2)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("takes 3 arguments, 2 are described")
        );
        let error = first.check_layout(&ArgLayout::buffers(3)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("argument 2 has 4 bytes at 16, not 8 at 16")
        );
    }
}

/// A kernel that takes more registers than a multiprocessor has for 1024 threads.
#[test]
fn registers_bound_a_block() {
    for sm in FILES {
        let mut bytes = file(&format!("sm_{sm}"));
        // EIATTR_REGCOUNT: a symbol and the number.
        let records: Vec<usize> = (0..bytes.len() - 12)
            .filter(|&at| bytes[at..at + 4] == [4, 0x2f, 8, 0])
            .collect();
        assert!(records.len() >= 2);
        for at in records {
            bytes[at + 8..at + 12].copy_from_slice(&168u32.to_le_bytes());
        }
        let object = Object::parse(&bytes, target(sm)).unwrap();
        let words = object.kernel("second").unwrap().launch(BASE, 0).unwrap();
        assert_eq!(Launch::from_words(&words).unwrap().max_threads, 384);
    }
}

/// Files are not trusted: a damaged one is refused, or becomes a launch whose QMD has no unknown bits.
#[test]
fn damaged_files_do_no_harm() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut refused, mut loaded) = (0, 0);
    for round in 0..3000 {
        let sm = FILES[round % 3];
        let mut bytes = file(&format!("sm_{sm}"));
        let len = bytes.len() as u64;
        for _ in 0..1 + next() % 3 {
            let at = match next() % 2 {
                0 => next() % 0xa00,
                _ => len - 1 - next() % 0xa00,
            };
            bytes[at as usize] = next() as u8;
        }
        let launch = Object::parse(&bytes, target(sm))
            .and_then(|object| object.kernel("second")?.launch(BASE, 0));
        match launch {
            Ok(words) => {
                let launch = Launch::from_words(&words).unwrap();
                let (version, qmd) = template(target(sm).arch, &launch);
                assert_eq!(qmd::unnamed(version, &qmd), None);
                loaded += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 500 && loaded > 500, "{refused} {loaded}");
}
