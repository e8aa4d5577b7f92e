//! Copies from global to shared memory that go on beside a warp: what they bring is there once it was waited
//! for, and not before.

use crate::device;

use device::{Device, Grid};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Denied, Fault, Space};

const GRID: Grid = Grid {
    blocks: [1, 1, 1],
    threads: [32, 1, 1],
    shared: 2048,
};

fn input() -> Vec<u32> {
    (1..=640_u32).map(|i| i.wrapping_mul(0x0101_0307)).collect()
}

/// What the kernel writes, as the manual of PTX has it for `cp.async`.
fn expected() -> Vec<u32> {
    let bytes: Vec<u8> = input().iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut out = Vec::new();
    let part = |at: usize, len: usize| bytes[at..at + len].to_vec();
    for thread in 0..32 {
        out.extend(part(16 * thread, 16));
    }
    for thread in 0..32 {
        let at = 16 * thread;
        out.extend([part(at + 512, 8), part(at + 1024, 4), part(at + 1032, 4)].concat());
    }
    for thread in 0..32 {
        // So many bytes; the others are zero.
        let some = thread % 16;
        out.extend(part(16 * thread + 1536, some));
        out.extend(vec![0; 16 - some]);
    }
    for thread in 0..32 {
        let none = thread % 16 > 5;
        out.extend(if none {
            vec![0; 16]
        } else {
            part(16 * thread + 2048, 16)
        });
    }
    out.as_chunks()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect()
}

fn run(chip: Chip, code: &[u128], input: &[u32]) -> Result<Vec<u32>, Fault> {
    let mut device = Device::of(chip, code);
    let out = device.words(&[7; 512]);
    let p = device.words(input);
    device.try_run(&GRID, &[p, out])?;
    Ok(device.read(out, 512))
}

#[test]
fn what_was_waited_for_is_there() {
    for chip in Chip::ALL {
        let code = Device::words_of(chip, "copies");
        assert_eq!(run(chip, &code, &input()).unwrap(), expected(), "{chip:?}");
    }
}

#[test]
fn what_was_not_waited_for_is_not() {
    const NOTHING: u128 = 0x918;
    for chip in Chip::ALL {
        let code = Device::words_of(chip, "copies");
        let waits: Vec<usize> = (0..code.len())
            .filter(|&at| code[at] & 0xfff == 0x91a)
            .collect();
        assert_eq!(waits.len(), 3, "{chip:?}");
        for (k, &at) in waits.iter().enumerate() {
            let mut changed = code.clone();
            changed[at] = changed[at] >> 105 << 105 | NOTHING | 7 << 12;
            let result = run(chip, &changed, &input()).unwrap();
            // The first part of each group comes too late, what came before is right.
            let wrong = [0, 128, 384][k];
            assert_eq!(result[..wrong], expected()[..wrong], "{chip:?} wait {k}");
            assert!(
                result[wrong..wrong + 24].iter().all(|&x| x == 0),
                "{chip:?} wait {k}"
            );
        }
    }
}

#[test]
fn what_is_not_there_is_a_fault_of_its_lane() {
    for chip in Chip::ALL {
        let code = Device::words_of(chip, "copies");
        // The memory of the test ends with its input.
        let fault = run(chip, &code, &input()[..512 + 24]).unwrap_err();
        let Cause::Memory {
            lane,
            space: Space::Global,
            write: false,
            why: Denied::Unmapped,
            ..
        } = fault.cause
        else {
            panic!("{chip:?}: {fault}");
        };
        assert_eq!(lane, 16, "{chip:?}");
    }
}
