//! Whatever a client does: the twin ends it, and nothing is left.

use std::thread;

use drivers_spec::qcom::kgsl::{self, memory};
use drivers_spec::qcom::packet::op;
use twin::errno::{Errno, Result};
use twin::rng::Rng;

use super::bench::Bench;
use super::rig::{Memory, Rig, anywhere, list};
use super::stream::Stream;

fn write(at: u64, value: u32) -> Vec<u32> {
    let body = [at as u32, (at >> 32) as u32, value];
    Stream::default().command(op::MEM_WRITE, &body).words()
}

/// A short life, up to the first call that fails.
fn live(rig: &Rig) -> Result {
    let context = rig.create(kgsl::Context::empty())?;
    let (id, gpu) = rig.object(4096, 0)?;
    let offset = kgsl::mmap_offset(id);
    let cpu = rig.process.mmap(anywhere(4096), rig.fd, offset)?;
    let memory = Memory { id, gpu, cpu };
    let words = write(gpu + 64, 5);
    memory.put(0, &words);
    let timestamp = rig.submit_at(context, gpu, words.len())?;
    rig.wait_for(context, timestamp, 10_000)?;
    assert_eq!(memory.word(64), 5);
    rig.process.munmap(cpu, 4096)?;
    rig.free(id)?;
    let mut args = kgsl::DrawctxtDestroy {
        drawctxt_id: context,
    };
    rig.call(kgsl::DRAWCTXT_DESTROY, &mut args)
}

#[test]
fn every_call_may_fail() {
    for version in ["4.9", "5.15"] {
        let mut failed = 0;
        for nth in 3..40 {
            let config = format!("version={version},fault=call:any:ENOMEM:{nth}");
            let rig = Rig::new(&config);
            let done = live(&rig);
            failed += u32::from(done == Err(Errno::ENOMEM));
            assert_eq!(rig.broken(), [""; 0], "{config}: {done:?}");
            rig.process.exit();
            assert_eq!(rig.process.objects(), [""; 0], "{config}: {done:?}");
        }
        assert!(failed >= 8, "{failed}");
    }
}

#[test]
fn streams_that_are_changed_end() {
    let mut order = Rng::new(7);
    for seed in 0..24 {
        let bench = Bench::new(&format!("seed={seed},timeout=20,instructions=4096"));
        let words = bench.dispatch().words();
        let context = bench.rig.create(kgsl::Context::NO_SNAPSHOT).unwrap();
        for _ in 0..6 {
            let mut words = words.clone();
            for _ in 0..=order.below(3) {
                let at = order.below(words.len());
                words[at] ^= 1 << order.below(32);
            }
            let commands = bench.rig.commands(&words);
            let submitted = bench.rig.submit_at(context, commands.gpu, words.len());
            let expected = |errno: &Errno| matches!(*errno, Errno::EPROTO | Errno::EDEADLK);
            assert!(
                submitted.as_ref().err().is_none_or(expected),
                "{submitted:?}"
            );
            let last = bench
                .rig
                .timestamp(context, kgsl::timestamp::QUEUED)
                .unwrap();
            let waited = bench.rig.wait_for(context, last, 20_000);
            assert!(waited.as_ref().err().is_none_or(expected), "{waited:?}");
        }
        bench.rig.process.exit();
        assert_eq!(bench.rig.process.objects(), [""; 0]);
    }
}

#[test]
fn code_that_is_changed_ends() {
    let mut order = Rng::new(11);
    for seed in 0..24 {
        let bench = Bench::new(&format!("seed={seed},timeout=20,instructions=4096"));
        let words = super::golden::program();
        for _ in 0..=order.below(2) {
            let at = order.below(60);
            bench
                .code
                .put(at as u64 * 4, &[words[at] ^ 1 << order.below(32)]);
        }
        let commands = bench.rig.commands(&bench.dispatch().words());
        let dwords = bench.dispatch().words().len();
        let last = bench.rig.submit_at(bench.rig.context, commands.gpu, dwords);
        let waited = bench.rig.wait(last.unwrap());
        assert!(matches!(waited, Ok(()) | Err(Errno::EDEADLK)), "{waited:?}");
    }
}

#[test]
fn processes_and_threads_share_a_machine() {
    let rig = Rig::new("seed=5");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = rig.other();
                let target = own.alloc(4096, memory::WRITECOMBINE);
                for i in 0..50 {
                    own.run(&write(target.gpu, i));
                    assert_eq!(target.word(0), i);
                    let (id, _) = own.object(8192, 0).unwrap();
                    own.free(id).unwrap();
                }
                own.process.exit();
                assert_eq!(own.process.objects(), [""; 0]);
            });
        }
    });
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn arguments_of_any_bytes_are_refused() {
    let rig = Rig::new("");
    let mut order = Rng::new(3);
    for ioctl in kgsl::IOCTLS {
        for round in 0..20 {
            let mut args = [0_u64; 16].map(|_| order.number());
            if round % 2 == 0 {
                args = args.map(|word| word & 0x3);
            }
            // Whatever it says: it returns, and nothing of this process is written but these.
            let _ = rig.process.ioctl(rig.fd, ioctl.request, list(&mut args));
        }
    }
    rig.process.exit();
    assert_eq!(rig.process.objects(), [""; 0]);
}
