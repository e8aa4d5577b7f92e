//! Cubins of NVIDIA's compilers, of both versions of their format.

use std::path::Path;

use drivers_spec::nv::cubin::{Cubin, CubinError, Param, bank0};

const CHIPS: [u32; 3] = [86, 90, 120];
const BASE: u64 = 0x7f00_0123_4000;

fn bytes(sm: u32) -> Vec<u8> {
    let name = format!("../../tests/golden/nv/cubin/sm_{sm}.cubin");
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// `kernels.cu` beside the files says what they are.
#[test]
fn kernels_are_as_their_source_says() {
    for (sm, registers) in CHIPS.into_iter().zip([[10, 40], [12, 32], [14, 40]]) {
        let cubin = Cubin::parse(&bytes(sm)).unwrap();
        assert_eq!(cubin.sm, sm);
        let first = cubin.kernel("first").unwrap();
        let param = |offset, size| Param { offset, size };
        assert_eq!(first.params, [param(0, 8), param(8, 8), param(16, 4)]);
        assert_eq!(first.param_bytes, 20);
        assert_eq!(first.param_base, bank0(sm).unwrap().params);
        assert_eq!(first.bank0_bytes, first.param_base + 20);
        assert_eq!((first.shared_bytes, first.barriers), (320, 1));
        assert_eq!(first.max_threads, Some([64, 1, 1]));
        assert_eq!(first.local_bytes, 0);
        assert_eq!(first.registers, registers[0]);
        let second = cubin.kernel("second").unwrap();
        assert_eq!(second.params, [param(0, 8), param(8, 4)]);
        assert_eq!((second.shared_bytes, second.barriers), (0, 0));
        assert_eq!((second.local_bytes, second.max_threads), (128, None));
        assert_eq!(second.registers, registers[1]);
        assert!(first.entry.is_multiple_of(128) && second.entry.is_multiple_of(128));
        assert!(first.entry + first.code_bytes <= cubin.bytes());
        let error = cubin.kernel("third").unwrap_err().to_string();
        assert!(error.contains("the cubin has first, second"), "{error}");
    }
}

/// A table of constants, a variable, and its address in another variable and in a bank of constants.
#[test]
fn addresses_are_those_of_the_image() {
    for sm in CHIPS {
        let cubin = Cubin::parse(&bytes(sm)).unwrap();
        let image = cubin.at(BASE);
        assert_eq!(image.len() as u64, cubin.bytes());
        let banks = &cubin.kernel("first").unwrap().banks;
        let bank = |number: u8| {
            let (_, place) = banks.iter().find(|(n, _)| *n == number).unwrap();
            &image[place.start as usize..place.end as usize]
        };
        let table: Vec<f32> = bank(3)
            .chunks(4)
            .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
            .collect();
        assert_eq!(table, [1.0, 2.0, 3.0, 4.0]);
        let at = |address: u64, bytes: usize| &image[(address - BASE) as usize..][..bytes];
        let address = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let [counter, pointer] = [0, 8].map(|from| address(&bank(4)[from..from + 8]));
        assert_eq!(at(counter, 4), 7u32.to_le_bytes());
        assert_eq!(address(at(pointer, 8)), counter);
        // The same bytes elsewhere, but for the addresses.
        let moved = cubin.at(BASE + 0x1000);
        let differ = image.iter().zip(moved.iter()).filter(|(a, b)| a != b);
        assert_eq!(differ.count(), 3, "sm_{sm}");
    }
}

/// A quotient that nvJitLink calls as a function: how the call holds its address depends on the generation.
#[test]
fn calls_have_addresses() {
    for (file, call) in [
        ("linked_86", 0x100),
        ("linked_90", 0xf0),
        ("linked_120", 0xf0),
    ] {
        let name = format!("../../tests/golden/nv/cubin/{file}.cubin");
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        let cubin = Cubin::parse(&bytes).unwrap();
        let [kernel] = cubin.kernels.as_slice() else {
            panic!("{file}: {:?}", cubin.kernels);
        };
        assert_eq!(kernel.name, "kernel");
        let target = |base: u64| {
            let image = cubin.at(base);
            let word = &image[(kernel.entry + call) as usize..][..16];
            let word = u128::from_le_bytes(word.try_into().unwrap());
            assert_eq!(word & 0xffff, 0x7943, "{file}: CALL.ABS");
            let high = (word >> 34) as u64 & ((1 << 47) - 1);
            match cubin.sm {
                86 => high << 2,
                _ => (high << 8 | (word >> 16) as u64 & 0xff) << 2,
            }
        };
        let at = target(BASE) - BASE;
        assert!(
            at.is_multiple_of(128) && at < cubin.bytes(),
            "{file}: {at:#x}"
        );
        let own = kernel.entry..kernel.entry + kernel.code_bytes;
        assert!(!own.contains(&at), "{file}: {at:#x}");
        assert_eq!(target(BASE + 0x7_0000_0000), BASE + 0x7_0000_0000 + at);
    }
}

#[test]
fn what_is_no_cubin_is_named() {
    let said = |bytes: &[u8]| Cubin::parse(bytes).unwrap_err().to_string();
    assert!(said(b"no file").contains("expected a cubin"));
    let mut other = bytes(90);
    other[18] = 62; // x86-64
    assert!(said(&other).contains("the machine is 0x3e, expected 190"));
    let mut old = bytes(86);
    old[48] = 0x46;
    let error = Cubin::parse(&old).unwrap_err();
    assert!(
        matches!(error, CubinError::Kind { found: 0x46, .. }),
        "{error}"
    );
    let mut later = bytes(86);
    later[8] = 9;
    assert!(said(&later).contains("the version of the ABI is 0x9"));
}

/// Files are not trusted: a damaged one is refused or read, and nothing else happens.
#[test]
fn damaged_files_do_no_harm() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut refused = 0;
    for round in 0..4000 {
        let mut file = bytes(CHIPS[round % 3]);
        let len = file.len() as u64;
        for _ in 0..1 + next() % 3 {
            // Headers, tables and attributes are at the beginning and at the end.
            let at = match next() % 3 {
                0 => next() % 64,
                1 => next() % 0xa00,
                _ => len - 1 - next() % 0xa00,
            };
            file[at as usize] = next() as u8;
        }
        if round % 7 == 0 {
            file.truncate((next() % len) as usize);
        }
        match Cubin::parse(&file) {
            Ok(cubin) => assert_eq!(cubin.at(BASE).len() as u64, cubin.bytes()),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// The stack of what calls itself has no bound: the file says so, and a usual size is taken.
#[test]
fn a_stack_without_a_bound_has_a_usual_size() {
    for sm in CHIPS {
        let mut file = bytes(sm);
        // EIATTR_MIN_STACK_SIZE: the attribute, 8 bytes: a symbol and the size.
        let records: Vec<usize> = (0..file.len() - 12)
            .filter(|&at| file[at..at + 4] == [4, 0x12, 8, 0])
            .collect();
        assert!(records.len() >= 2);
        for at in records {
            file[at + 8..at + 12].fill(0xff);
        }
        let cubin = Cubin::parse(&file).unwrap();
        assert!(
            cubin
                .kernels
                .iter()
                .all(|kernel| kernel.local_bytes == 1024)
        );
    }
}
