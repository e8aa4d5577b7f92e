//! Grids that nothing waits for in between, and that touch the same bytes.

use twin::fires::fires;
use twin_nv::engines::Turn;

use drivers_spec::nv::qmd;

use super::kernel::{BANK, Kernel, QMD, invalidate, start};
use super::rig::{DATA, inc};

const COUNT: u64 = 1000;
const A: u64 = DATA;
const B: u64 = DATA + 0x1_0000;
const OUT: u64 = DATA + 0x2_0000;
/// Where the second grid has its QMD and its constants.
const SECOND: u64 = QMD + 0x800;
const SECOND_BANK: u64 = BANK + 0x1000;

/// A sum of vectors into OUT, and a second one of others.
fn two(chip: &str, params: [u64; 4]) -> Kernel {
    let first = [A, B, OUT, COUNT];
    let kernel = Kernel::new(chip, "vector_add", [8, 1, 1], [128, 1, 1], &first);
    let ones = vec![1_f32.to_bits(); COUNT as usize];
    kernel.rig.ram.put_words(A, &ones);
    kernel.rig.ram.put_words(B, &ones);
    // The first one's constants, with other parameters.
    for (i, param) in params.into_iter().enumerate() {
        kernel.parameter(i as u64, param);
    }
    let words: Vec<u32> = (0..0x100)
        .map(|i| kernel.rig.ram.word(BANK + 4 * i))
        .collect();
    kernel.rig.ram.put_words(SECOND_BANK, &words);
    for (i, param) in first.into_iter().enumerate() {
        kernel.parameter(i as u64, param);
    }
    let mut second = kernel.qmd.clone();
    second.wide(qmd::CONSTANT_BUFFER_ADDR, 0, SECOND_BANK);
    kernel.rig.ram.put_words(SECOND, &second.words);
    kernel
}

/// Starts both, with words in between.
fn go(kernel: &mut Kernel, between: &[u32]) -> Turn {
    let mut words = kernel.setup();
    words.extend(kernel.launch());
    words.extend(between);
    words.extend(start(SECOND, 9));
    kernel.rig.go(&words)
}

#[test]
fn grids_that_depend_on_each_other_wait() {
    let race = || fires("COMPUTE-RACE");
    for chip in ["ga102", "ad102", "h100", "gb202"] {
        let reads = [OUT, B, OUT + 0x1_0000, COUNT];
        let overwrites = [OUT + 0x1_0000, OUT + 0x1_0000, A, COUNT];
        for params in [reads, overwrites] {
            // What only invalidates caches waits for nothing.
            for between in [vec![], invalidate()] {
                let mut kernel = two(chip, params);
                assert_eq!(go(&mut kernel, &between), Turn::Idle, "{chip}");
                race().only(&kernel.rig.broken());
            }
            // WAIT_FOR_IDLE, and the host's WFI of all.
            for wait in [inc(1, 0x110, &[0]), inc(1, 0x78, &[1])] {
                let mut kernel = two(chip, params);
                assert_eq!(go(&mut kernel, &wait), Turn::Idle, "{chip}");
                assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
            }
            // A QMD that depends on the first.
            let mut kernel = two(chip, params);
            kernel
                .qmd
                .set(qmd::DEPENDENT_QMD_ENABLE, 1)
                .set(qmd::DEPENDENT_QMD_ACTION, 1)
                .set(qmd::DEPENDENT_QMD_POINTER, SECOND);
            let mut words = kernel.setup();
            words.extend(kernel.launch());
            assert_eq!(kernel.rig.go(&words), Turn::Idle, "{chip}");
            assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
        }
        // They read the same, and each has its own to write; or both write the same.
        for out in [OUT + 0x1_0000, OUT] {
            let mut kernel = two(chip, [B, A, out, COUNT]);
            assert_eq!(go(&mut kernel, &[]), Turn::Idle, "{chip}");
            assert_eq!(kernel.rig.broken(), [""; 0], "{chip}");
            assert_eq!(kernel.rig.ram.word(out), 2_f32.to_bits());
        }
    }
}

/// What has run when more comes is over, and what came before a wait is over for all behind it.
#[test]
fn a_wait_holds_for_all_that_comes_after_it() {
    let mut kernel = two("h100", [OUT, B, OUT + 0x1_0000, COUNT]);
    let mut words = kernel.setup();
    words.extend(kernel.launch());
    assert_eq!(kernel.rig.go(&words), Turn::Idle);
    assert_eq!(kernel.rig.go(&start(SECOND, 9)), Turn::Idle);
    assert_eq!(kernel.rig.broken(), [""; 0]);
    // Two of the same, a wait, one that reads what they wrote.
    let mut words = kernel.launch();
    words.extend(start(QMD, 9));
    words.extend(inc(1, 0x110, &[0]));
    words.extend(start(SECOND, 9));
    assert_eq!(kernel.rig.go(&words), Turn::Idle);
    assert_eq!(kernel.rig.broken(), [""; 0]);
    // And one that they overwrite, after the one that waited.
    words.extend(start(QMD, 9));
    kernel.rig.go(&words);
    fires("COMPUTE-RACE").only(&kernel.rig.broken());
}
