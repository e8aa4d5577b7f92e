//! HIP C through ROCm's library, where it is installed, on every chip that the model runs.
//!
//! `scripts/comgr` has the library of ROCm 7, which knows all of them; that of ROCm 5.2 knows gfx1030 only.

use super::suite::COMBINING;
use super::*;

/// Says why where the library is not there, or does not know the chip.
fn comgr(chip: &str) -> Option<Backend> {
    match Backend::find("AMD:HIP", chip, 0) {
        Ok(backend) => {
            println!("{chip}: {}", backend.describe());
            Some(backend)
        }
        Err(e) => {
            println!("not tried: {e}");
            None
        }
    }
}

/// Chooses the cases of a chip: one in so many, another one for each chip; or all of them for one chip of each
/// generation, and one in eight for the others.
struct Cases {
    part: Part,
    of: usize,
    next: usize,
}

impl Cases {
    fn of(chip: &str) -> Self {
        let part = Part::chosen();
        let next = Target::amd_chips().position(|c| c == chip).unwrap();
        let (part, of) = match part {
            Part::All if !GENERATIONS.contains(&chip) => (Part::Number(0), 8),
            part => (part, 32),
        };
        Cases { part, of, next }
    }

    fn takes(&mut self) -> bool {
        self.next += 1;
        self.part.has(self.next, self.of)
    }
}

fn kernels(chip: &str) {
    let Some(backend) = comgr(chip) else { return };
    let mut cases = Cases::of(chip);
    let mut check = |kernel: &Kernel, tolerance: f64| {
        if cases.takes() {
            let buffers = fill(kernel, &mut Random(0x1234_5678_9abc_def1));
            let want = expected(kernel, &buffers, &[]);
            check_on(&backend, kernel, &buffers, &want, tolerance);
        }
    };
    suite::elements(&mut check);
    suite::rows(&mut check);
    suite::reductions_of_every_type(&mut check);
    suite::products_and_convolutions(&mut check);
    suite::scans_and_scatters(&mut check);
}

fn operations(chip: &str) {
    let Some(backend) = comgr(chip) else { return };
    let mut cases = Cases::of(chip);
    suite::every_operation(|kernel, tolerance| {
        if cases.takes() {
            check_edges(&backend, kernel, tolerance);
        }
    });
}

fn atomics_and_matrices(chip: &str) {
    let Some(backend) = comgr(chip) else { return };
    let mut cases = Cases::of(chip);
    for op in COMBINING {
        for dtype in DType::ALL {
            if cases.takes() {
                atomics::check(&backend, op, dtype);
            }
        }
    }
    for &d in &backend.target.mma {
        for block in matrix_blocks(d) {
            if cases.takes() {
                check_matrix(&backend, d, block);
            }
        }
    }
}

macro_rules! chips {
    ($($chip:ident)*) => {
        $(mod $chip {
            #[test]
            fn kernels() {
                super::kernels(stringify!($chip));
            }

            #[test]
            fn operations() {
                super::operations(stringify!($chip));
            }

            #[test]
            fn atomics_and_matrices() {
                super::atomics_and_matrices(stringify!($chip));
            }
        })*

        #[test]
        fn no_chip_is_missing() {
            let modelled = Target::amd_chips().filter(|chip| machine::generation(chip).is_some());
            assert_eq!(modelled.collect::<Vec<_>>(), [$(stringify!($chip)),*]);
        }
    };
}

chips! { gfx1030 gfx1031 gfx1032 gfx1034 gfx1100 gfx1101 gfx1102 gfx1103 gfx1200 gfx1201 gfx942 }
