//! How soon others run where a thread compiles.
//!
//! `unsafe`: one system call, whose only pointer is to a struct of this function.

/// What the scheduler's slices of a thread that compiles are asked to be, in nanoseconds; Linux takes 0.1 to 100 ms.
const SLICE: u64 = 30_000_000;

/// `SCHED_FLAG_KEEP_POLICY` of `linux/sched.h`.
const KEEP_POLICY: u64 = 8;

/// `struct sched_attr` of `linux/sched/types.h`, in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives this thread a lower priority and long slices. A thread that wakes with a shorter slice than the one that runs
/// takes its place at once, so a launch of a device, and whoever waits for it, do not wait until a compiler on
/// that processor has used up its own. Kernels before 6.12 know no slices of threads; where it is refused nothing is lost.
pub(super) fn long(nice: i32) {
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        flags: KEEP_POLICY,
        nice,
        runtime: SLICE,
        ..SchedAttr::default()
    };
    // SAFETY: the kernel reads `size` bytes of `attr`, which lives as long as the call.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if set != 0 {
        let why = std::io::Error::last_os_error();
        tracing::debug!("cannot set the time slice of a compile thread: {why}");
    }
}
