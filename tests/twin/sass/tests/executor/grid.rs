//! Blocks that wait for one another need as many that run at once.

use crate::device;

use device::{Device, Grid};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Fault};

const BLOCKS: u32 = 4;

fn rendezvous(chip: Chip, resident: usize) -> Result<Vec<u32>, Fault> {
    let mut device = Device::new(chip, "rendezvous");
    device.resident = resident;
    device.limit = 600_000;
    device.watch = false;
    let (count, out) = (device.words(&[0; 2]), device.words(&[0; 64 * 4]));
    let grid = Grid {
        blocks: [2, BLOCKS / 2, 1],
        threads: [64, 1, 1],
        shared: 0,
    };
    device.try_run(&grid, &[count, out, u64::from(BLOCKS)])?;
    Ok(device.read(out, 64 * 2))
}

#[test]
fn blocks_that_run_at_once_may_wait_for_one_another() {
    for chip in Chip::ALL {
        let seen = rendezvous(chip, BLOCKS as usize).unwrap();
        assert_eq!(seen, [BLOCKS; 64 * 2], "{chip:?}");
        let fault = rendezvous(chip, BLOCKS as usize - 1).unwrap_err();
        assert!(matches!(fault.cause, Cause::Limit(_)), "{chip:?}: {fault}");
        assert_ne!(fault.block, [1, 1, 0], "{chip:?}: {fault}");
    }
}

/// The same faults in the same block, however many times it is run.
#[test]
fn what_runs_when_follows_from_the_program() {
    let faults: Vec<String> = (0..2)
        .map(|_| rendezvous(Chip::Sm90, 2).unwrap_err().to_string())
        .collect();
    assert_eq!(faults[0], faults[1]);
}
