//! What control words promise is watched: a change of one is named, and by its rule.

#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "whole/device.rs"]
mod device;

use device::{Device, Grid};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Hazard};

/// The first change of a field of control words in the vector addition that breaks a rule.
fn broken(chip: Chip, change: impl Fn(u128) -> u128) -> Vec<Hazard> {
    let words = Device::words_of(chip, "vector_add");
    let mut found = Vec::new();
    for at in 0..words.len() {
        let mut changed = words.clone();
        changed[at] = change(words[at]);
        let mut device = Device::of(chip, &changed);
        let (a, b) = (device.words(&[1; 64]), device.words(&[2; 64]));
        let grid = Grid {
            blocks: [1, 1, 1],
            threads: [32, 1, 1],
            shared: 0,
        };
        match device.try_run(&grid, &[a, b, a, 64]) {
            Ok(_) => {}
            Err(fault) => match fault.cause {
                Cause::Hazard(hazard) => found.push(hazard),
                other => panic!("{other}"),
            },
        }
    }
    found
}

#[test]
fn a_wait_that_is_missing() {
    for chip in Chip::ALL {
        let found = broken(chip, |word| word & !(0x3f << 116));
        let results = found
            .iter()
            .filter(|hazard| matches!(hazard, Hazard::Result { write: false, .. }));
        assert!(results.count() >= 2, "{chip:?}: {found:?}");
    }
}

#[test]
fn a_scoreboard_that_is_missing() {
    for chip in Chip::ALL {
        let found = broken(chip, |word| word | 7 << 110);
        let none = found
            .iter()
            .filter(|hazard| matches!(hazard, Hazard::None { write: false, .. }));
        assert!(none.count() >= 2, "{chip:?}: {found:?}");
    }
}

#[test]
fn a_stall_that_is_too_short() {
    for chip in Chip::ALL {
        let found = broken(chip, |word| word & !(0xf << 105) | 1 << 105);
        let early = found
            .iter()
            .filter(|hazard| matches!(hazard, Hazard::Stall { .. }));
        assert!(early.count() >= 2, "{chip:?}: {found:?}");
    }
}

/// A store reads its registers late: what takes their place waits for that, or for a load after it.
#[test]
fn a_source_that_is_still_read() {
    for chip in Chip::ALL {
        let words = Device::words_of(chip, "atomic");
        let mut found = 0;
        for at in 0..words.len() {
            let mut changed = words.clone();
            changed[at] &= !(0x3f << 116);
            let mut device = Device::of(chip, &changed);
            let (input, out) = (device.words(&[3; 10 * 32]), device.words(&[0; 64 * 64]));
            let grid = Grid {
                blocks: [1, 1, 1],
                threads: [32, 1, 1],
                shared: 1024,
            };
            match device.try_run(&grid, &[input, out]) {
                Ok(_) => {}
                Err(fault) => match fault.cause {
                    Cause::Hazard(Hazard::Source { .. }) => found += 1,
                    Cause::Hazard(_) => {}
                    other => panic!("{chip:?}: {other}"),
                },
            }
        }
        assert!(found >= 3, "{chip:?}: {found}");
    }
}
