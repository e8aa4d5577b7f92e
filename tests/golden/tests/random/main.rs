//! Random programs of operators, compiled on simulated GPUs.
//!
//! `DOORBELL_SEED` sets the first program, `DOORBELL_PROGRAMS` how many of each family run,
//! `DOORBELL_CHIPS` on which machines (`gfx1100;gfx942,xcc=1;sm_89:PTX`), `DOORBELL_FAMILY` one family. A program
//! that fails is told with its number, from which `DOORBELL_SEED` runs it alone.
#![allow(clippy::unwrap_used)] // A test may panic.

use golden::engines::{self, Rig};
use golden::random::{FAMILIES, compare};
use tensor::Engine;
use tensor::exec::Options;

fn setting(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|s| s.parse().ok()).unwrap_or(otherwise)
}

/// Runs programs of all families on a machine.
fn programs(machine: &str, programs: u64) {
    let chips = std::env::var("DOORBELL_CHIPS").unwrap_or_default();
    if !chips.is_empty() && !chips.split(';').any(|c| c == machine) {
        return;
    }
    let seed = setting("DOORBELL_SEED", 0x5eed);
    let count = setting("DOORBELL_PROGRAMS", programs);
    let wanted = std::env::var("DOORBELL_FAMILY").unwrap_or_default();
    println!("{machine}: DOORBELL_SEED={seed} DOORBELL_PROGRAMS={count}");
    let host = Engine::reference();
    let mut faults = Vec::new();
    for (family, (name, _)) in FAMILIES.iter().enumerate() {
        if !wanted.is_empty() && wanted != *name {
            continue;
        }
        let made = engines::gpu(machine, Options::default());
        let Some(rig) = Rig::of_test(made) else {
            return;
        };
        for n in 0..count {
            let seed = seed + n;
            if let Some(fault) = compare(&host, &rig.engine, family, seed) {
                let line = format!(
                    "{machine} DOORBELL_FAMILY={name} DOORBELL_SEED={seed} DOORBELL_PROGRAMS=1: {fault}"
                );
                println!("{line}");
                faults.push(line);
            }
        }
        if let Err(e) = rig.finish() {
            println!("{machine} {name}: {e}");
            faults.push(format!("{machine} {name}: {e}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

macro_rules! machines {
    ($($test:ident $machine:literal $programs:literal;)*) => {$(
        #[test]
        fn $test() {
            programs($machine, $programs);
        }
    )*};
}

machines! {
    gfx1030 "gfx1030" 2;
    gfx1100 "gfx1100" 3;
    gfx1101 "gfx1101" 1;
    gfx1102 "gfx1102" 1;
    gfx1200 "gfx1200" 1;
    gfx1201 "gfx1201" 3;
    gfx942_one "gfx942,xcc=1" 1;
    gfx942_eight "gfx942" 1;
    sm_86 "sm_86" 2;
    sm_89 "sm_89:PTX" 2;
    sm_90 "sm_90" 2;
    sm_120 "sm_120:PTX" 1;
}
