//! How soon a thread of the device runs once there is work for it.

/// What the scheduler's slices of this thread are asked to be, in nanoseconds: the least that Linux takes.
#[cfg(target_os = "linux")]
const SLICE: u64 = 100_000;

/// `SCHED_FLAG_KEEP_POLICY` of `linux/sched.h`.
#[cfg(target_os = "linux")]
const KEEP_POLICY: u64 = 8;

/// `struct sched_attr` of `linux/sched/types.h`, in its first version.
#[cfg(target_os = "linux")]
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

/// Asks for short slices. A thread that wakes with a shorter slice than the one that runs takes its place at
/// once, so a launch does not wait until a compiler on that processor has used up its own; what a thread gets
/// of the processor in all stays the same. Kernels before 6.12 ignore it, and where it is refused
/// nothing is lost.
#[cfg(target_os = "linux")]
pub(crate) fn short() {
    // SAFETY: `getpriority` has no pointers; 0 is this thread. -1 may be a value as well as an error: then a
    // priority of -1 is asked for, which is refused or what it was.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
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
        tracing::debug!("the slices of a CPU device's thread stay as they are: {why}");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn short() {}
