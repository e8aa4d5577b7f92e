//! What a launch declares is what a program has: a register, a barrier or a byte more is a fault.

use crate::device;

use device::{Device, Grid};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Denied, Space};

const GRID: Grid = Grid {
    blocks: [1, 1, 1],
    threads: [256, 1, 1],
    shared: 1024,
};

/// A sum over a block, with what it declares changed.
fn reduce(chip: Chip, change: impl Fn(&mut Device, &mut Grid)) -> Result<u64, Cause> {
    let mut device = Device::new(chip, "reduce");
    let mut grid = GRID;
    change(&mut device, &mut grid);
    let (input, out) = (device.words(&[1; 256]), device.words(&[0; 4]));
    device
        .try_run(&grid, &[input, out])
        .map_err(|fault| fault.cause)
}

#[test]
fn a_register_more() {
    for chip in Chip::ALL {
        assert!(reduce(chip, |_, _| ()).is_ok());
        let all = Device::new(chip, "reduce").registers;
        let cause = reduce(chip, |device, _| device.registers = all - 1).unwrap_err();
        let expected = Cause::Registers {
            register: (all - 1) as u8,
            count: all - 1,
        };
        assert_eq!(cause, expected, "{chip:?}");
    }
}

#[test]
fn a_barrier_more() {
    for chip in Chip::ALL {
        assert!(reduce(chip, |device, _| device.barriers = 1).is_ok());
        let cause = reduce(chip, |device, _| device.barriers = 0).unwrap_err();
        let expected = Cause::Barriers {
            barrier: 0,
            count: 0,
        };
        assert_eq!(cause, expected, "{chip:?}");
    }
}

#[test]
fn a_byte_of_shared_memory_more() {
    for chip in Chip::ALL {
        let cause = reduce(chip, |_, grid| grid.shared = 1020).unwrap_err();
        let Cause::Memory {
            space: Space::Shared,
            address,
            bytes: 4,
            write: true,
            lane: 31,
            why: Denied::End(end),
        } = cause
        else {
            panic!("{chip:?}: {cause}");
        };
        assert_eq!(address, end, "{chip:?}");
    }
}
