//! A process that forks while its threads compute: locks that they hold are held for ever in the child, which gets errors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};
use support::engine;
use tensor::nn::commit;
use tensor::{Jit, Parameter, Tensor};

const FORKS: usize = 40;

#[test]
fn a_fork_in_the_midst_of_captured_calls_has_errors_and_does_not_hang() {
    let e = engine();
    let jit = Jit::new(&e, |x: &[Tensor]| Ok(vec![x[0].mul(2.0)?.add(1.0)?]));
    let x = Tensor::from_slice(&e, &vec![1.0f32; 1 << 12], &[1 << 12]).unwrap();
    x.realize().unwrap();
    let weight = Parameter::new(x.clone());
    let (ends, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let y = jit.call(std::slice::from_ref(&x)).unwrap();
                    assert_eq!(y[0].to_vec::<f32>().unwrap()[0], 3.0);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut failed = 0;
        for _ in 0..FORKS {
            // At another moment each time, with calls under way.
            let before = calls.load(Ordering::Relaxed);
            while calls.load(Ordering::Relaxed) < before + 3 {
                std::hint::spin_loop();
            }
            // SAFETY: the child only makes calls that are to fail, and ends without running anything else.
            match unsafe { fork() }.unwrap() {
                ForkResult::Child => {
                    // Who hangs is ended by SIGALRM.
                    alarm::set(20);
                    let later = x.add(1.0).and_then(|y| weight.set(y));
                    let errors = [
                        later.and_then(|()| commit(&weight)).err(),
                        jit.call(std::slice::from_ref(&x)).err(),
                        x.to_vec::<f32>().err(),
                        x.add(1.0).and_then(|y| y.to_vec::<f32>()).err(),
                    ];
                    let tells = |error: &tensor::Error| error.to_string().contains("before a fork");
                    let all = errors.iter().all(|error| error.as_ref().is_some_and(tells));
                    // SAFETY: always allowed.
                    unsafe { libc::_exit(if all { 7 } else { 1 }) }
                }
                ForkResult::Parent { child } => {
                    failed += usize::from(waitpid(child, None) != Ok(WaitStatus::Exited(child, 7)));
                }
            }
        }
        ends.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0, "of {FORKS} children");
    });
}
