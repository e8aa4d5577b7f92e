//! The suite on Adreno 6xx: our driver on the twin, through both kernel drivers. Kernels are written by hand.
//!
//! Every case ends with a look at what the twin saw: a rule that was broken fails it.

// A failed step ends the test.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codegen::ir3;
use conformance::part::Part;
use conformance::{CASES, Kernel, Subject};
use drivers_qcom::object::Object;
use drivers_qcom::{Options, kgsl, msm, over};
use drivers_spec::qcom::regs::SHARED_REGISTERS;
use hcq::transport::Machine;
use hcq::{Device, KernelImage};
use twin_qcom::chip::CHIPS;
use twin_qcom::machine::TwinMachine;

conformance::conformance!(kgsl_a630, || TwinSubject::new("a630", KGSL)
    .copying(largest(3)));
conformance::conformance!(msm_a660, || TwinSubject::new("a660", MSM)
    .copying(largest(11)));

/// A wait that nothing ends is given up after 15 times this: the contexts of our driver have no other timeout.
const KGSL: &str = "kernel=kgsl,timeout=500";
const MSM: &str = "kernel=msm";

/// A quarter of a gigabyte by interpreted kernels takes minutes: it is copied in one run of 16, in which no other subject does
/// it, and 33 MiB in each.
fn largest(index: usize) -> u64 {
    match Part::chosen().has(index, 16) {
        true => u64::MAX,
        false => 40 << 20,
    }
}

/// All cases through both kernel drivers on a chip: one in 41 of those of all chips, which is a prime, so that each chip has
/// another one. The largest copies are left to the two above.
fn on_chip(chip: &'static str) {
    let part = Part::chosen();
    let all = CHIPS
        .iter()
        .flat_map(|chip| [KGSL, MSM].map(|kernel| (chip.name, kernel)))
        .flat_map(|machine| CASES.iter().map(move |case| (machine, case)));
    let mut count = 0;
    for (index, ((on, kernel), (name, case))) in all.enumerate() {
        if on != chip || !part.has(index, 41) {
            continue;
        }
        println!("{chip}, {kernel}: {name}");
        case(&TwinSubject::new(chip, kernel).copying(8 << 20));
        count += 1;
    }
    assert!(count > 0);
}

/// A test for each chip.
macro_rules! chips {
    ($($chip:ident)*) => {
        mod every_chip {
            $(
                #[test]
                fn $chip() {
                    super::on_chip(stringify!($chip));
                }
            )*
        }

        #[test]
        fn every_chip_has_a_test() {
            let all: Vec<&str> = CHIPS.iter().map(|chip| chip.name).collect();
            assert_eq!(all, [$(stringify!($chip)),*]);
        }
    };
}
chips!(a618 a619 a630 a640 a643 a650 a660 a690);

/// The number of the group in r0.x; `$grid` has the numbers of groups.
macro_rules! group {
    ($grid:literal) => {
        concat!(
            "mov.u32u32 r0.x, r48.x\nmov.u32u32 r0.y, r48.y\nmov.u32u32 r0.z, r48.z\n(rpt2)nop\n",
            "mad.u24 r0.y, ",
            $grid,
            ".y, r0.z, r0.y\n(rpt5)nop\n",
            "mad.u24 r0.x, ",
            $grid,
            ".x, r0.y, r0.x\n(rpt5)nop\n"
        )
    };
}

const STEP: &str = concat!(
    group!("c1"),
    "shl.b r0.x, r0.x, 2\n(rpt2)nop\nadd.u r1.x, c0.x, r0.x\n(rpt2)nop\n",
    "cmps.u.lt r0.y, r1.x, c0.x\n(rpt2)nop\nadd.u r1.y, c0.y, r0.y\n(rpt5)nop\n",
    "ldg.u32 r2.x, g[r1.x], 1\n(sy)shl.b r2.y, r2.x, 1\n(rpt2)nop\nadd.u r2.x, r2.x, r2.y\n(rpt2)nop\n",
    "add.u r2.x, r2.x, c0.z\n(rpt5)nop\nstg.u32 g[r1.x], r2.x, 1\nend"
);

const STORE: &str = concat!(
    group!("c1"),
    "shl.b r0.x, r0.x, 1\n(rpt2)nop\nadd.u r0.x, r0.x, 1\nmov.u32u32 r1.x, c0.x\nmov.u32u32 r1.y, c0.y\n(rpt5)nop\n",
    "stg.u32 g[r1.x], r0.x, 1\nend"
);

/// One element after the other: r3.x is where, r3.y how many are left.
const ADD: &str = concat!(
    group!("c2"),
    "mul.u24 r3.x, c1.z, r0.x\nmov.u32u32 r3.y, c1.z\n(rpt2)nop\nshl.b r3.x, r3.x, 2\n(rpt2)nop\n",
    "cmps.s.eq p0.x, r3.y, 0\n(rpt5)nop\nbr p0.x, #23\n",
    "add.u r4.x, c0.z, r3.x\nadd.u r4.z, c1.x, r3.x\nadd.u r5.x, c0.x, r3.x\n(rpt2)nop\n",
    "cmps.u.lt r6.x, r4.x, c0.z\ncmps.u.lt r6.y, r4.z, c1.x\ncmps.u.lt r6.z, r5.x, c0.x\n(rpt2)nop\n",
    "add.u r4.y, c0.w, r6.x\nadd.u r4.w, c1.y, r6.y\nadd.u r5.y, c0.y, r6.z\n(rpt5)nop\n",
    "ldg.u32 r7.x, g[r4.x], 1\nldg.u32 r7.y, g[r4.z], 1\n(sy)add.u r7.z, r7.x, r7.y\n(rpt5)nop\n",
    "stg.u32 g[r5.x], r7.z, 1\n(ss)add.u r3.x, r3.x, 4\nsub.u r3.y, r3.y, 1\n(rpt2)nop\njump #-24\n",
    "(jp)nop\nend"
);

/// A GPU behind a kernel driver.
struct TwinSubject {
    arch: &'static str,
    is_msm: bool,
    /// The largest copy that is made.
    copied: u64,
    /// A queue is left at a wait: the twin takes that for a hang.
    waits: AtomicBool,
    /// Memory is touched that is not there.
    faults: AtomicBool,
    twin: Arc<TwinMachine>,
}

impl TwinSubject {
    fn new(arch: &'static str, config: &str) -> TwinSubject {
        let twin = TwinMachine::new(&format!("chip={arch},{config}")).unwrap();
        TwinSubject {
            arch,
            is_msm: config.contains("msm"),
            copied: u64::MAX,
            waits: AtomicBool::new(false),
            faults: AtomicBool::new(false),
            twin,
        }
    }

    fn copying(mut self, copied: u64) -> TwinSubject {
        self.copied = copied;
        self
    }
}

impl Subject for TwinSubject {
    // There is one GPU: the second device is another handle of it.
    fn open(&self, _: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        let options = Options {
            in_flight: ring_words.div_ceil(16),
            ring_timeout: Duration::from_millis(match ring_words {
                64 => 50,
                _ => 60_000,
            }),
            ..Options::default()
        };
        let backend = match self.is_msm {
            true => msm::open(&machine, 0)?,
            false => kgsl::open(&machine, 0, &options)?,
        };
        Ok(over(&backend, &options)?)
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        let (name, text, grid_at) = match kernel {
            Kernel::Add => ("add", ADD, 32),
            Kernel::Step => ("step", STEP, 16),
            Kernel::Store => ("store", STORE, 16),
        };
        let word = |line: &str| ir3::encode(&line.parse().unwrap()).unwrap();
        let object = Object {
            full: 8,
            branch_depth: 1,
            max_threads: 64,
            vectors: grid_at / 16 + 1,
            argument_bytes: kernel.args().bytes,
            grid_at,
            group_id: SHARED_REGISTERS,
            ..Object::new(text.lines().map(word).collect())
        };
        KernelImage {
            name: name.into(),
            arch: self.arch.into(),
            bytes: object.to_bytes().into(),
            entry: name.into(),
            args: kernel.args(),
            local_bytes: 0,
        }
    }

    fn devices_meet(&self) -> bool {
        false
    }

    // KGSL has one ring for contexts of one priority, and ends no wait of one without fault tolerance by the clock:
    // adreno_dispatch.c, `_adreno_dispatch_check_timeout`. msm ends it after half a second.
    fn devices_are_apart(&self) -> bool {
        self.is_msm
    }

    // Both kernel drivers print the address to the log, and have no call that tells it on these kernels: KGSL 4.9,
    // kgsl_iommu.c, `kgsl_iommu_fault_handler`; Linux, a6xx_gpu.c, `a6xx_fault_handler` (to dmesg and a devcoredump).
    fn faults_have_addresses(&self) -> bool {
        false
    }

    fn most_copied(&self) -> u64 {
        self.copied
    }

    fn waits_for_ever(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    fn faults(&self) {
        self.faults.store(true, Ordering::Relaxed);
    }
}

impl Drop for TwinSubject {
    fn drop(&mut self) {
        let mut all = self.twin.journal().violations();
        if self.faults.load(Ordering::Relaxed) {
            let asked = |what: &str| what.contains("0x1230") || what.contains("0x4560");
            all.retain(|broken| broken.rule.name != "ADRENO-PAGE-FAULT" || !asked(&broken.what));
        }
        let broken: Vec<_> = all.iter().map(ToString::to_string).collect();
        let broken = broken.join("\n\n");
        if std::thread::panicking() {
            eprintln!("{broken}");
            return;
        }
        assert!(broken.is_empty(), "{broken}");
    }
}
