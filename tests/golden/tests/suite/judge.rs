//! Programs over state, against a model that does one operation at a time.
use conformance::part::Part;
use golden::engines::{self, Rig};
use golden::judge::judge;
use tensor::exec::Options;

/// Programs of the usual run on the CPU, and on a simulated GPU, which takes longer.
const CPU: u64 = 2000;
const GPU: u64 = 200;
/// Programs where all are asked for, on each of them.
const ALL: u64 = 200_000;

/// A share of the programs: one of `of`.
fn run(rigs: Vec<Rig>, (usual, of): (u64, u64), first: u64) {
    let all: Vec<_> = rigs.iter().map(|rig| rig.engine.clone()).collect();
    let count = match Part::chosen().is_all() {
        true => ALL / of,
        false => usual / of,
    };
    let faults = (0..count).filter_map(|i| judge(&all, first + i));
    let faults: Vec<String> = faults.take(3).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    drop(all);
    for rig in rigs {
        rig.finish().unwrap();
    }
}

/// Seeds that others do not have; all of them in time.
fn seeds(of: u64) -> u64 {
    let part = std::env::var("DOORBELL_PART").ok();
    let part = part.and_then(|p| p.parse::<u64>().ok()).unwrap_or(0);
    of * 1_000_000_000 + part * 10_000
}

macro_rules! on_the_cpu {
    ($($name:ident: $quarter:literal;)*) => {$(
        #[test]
        fn $name() {
            let cpu = || engines::cpu().unwrap();
            run(vec![cpu(), cpu()], (CPU, 4), seeds($quarter));
        }
    )*};
}
on_the_cpu! {
    two_cpus_first_quarter: 1;
    two_cpus_second_quarter: 2;
    two_cpus_third_quarter: 3;
    two_cpus_fourth_quarter: 4;
}

#[test]
fn a_cpu_and_an_amd_gpu() {
    let gpu = Rig::of_test(engines::gpu("gfx1100", Options::default()));
    let rigs: Vec<Rig> = gpu.into_iter().chain([engines::cpu().unwrap()]).collect();
    run(rigs, (GPU, 1), seeds(5));
}

#[test]
fn a_cpu_and_an_nvidia_gpu() {
    let gpu = Rig::of_test(engines::gpu("sm_89:PTX", Options::default()));
    let rigs: Vec<Rig> = gpu.into_iter().chain([engines::cpu().unwrap()]).collect();
    run(rigs, (GPU, 1), seeds(6));
}

#[test]
fn a_cpu_and_an_adreno_gpu() {
    let gpu = Rig::of_test(engines::gpu("a630", Options::default()));
    let rigs: Vec<Rig> = gpu.into_iter().chain([engines::cpu().unwrap()]).collect();
    run(rigs, (GPU, 2), seeds(7));
}
