//! [`Guard`]: runs code that may fault, and returns the fault as an error.
//!
//! Unsafe module. A kernel, and a copy between addresses that a program gave, may hit memory that
//! is not there. The hardware reports that as a signal in the faulting thread. The handler here,
//! for a thread that is inside of [`Guard::call`], notes what happened and makes the thread return
//! from the call with an error; every other fault goes to the handler that was there before.
//!
//! Its invariants:
//!
//! * `FRAME` of a thread is non-null exactly while that thread is between the entry and the return
//!   of [`enter`], and points to a [`Frame`] on its stack that `enter` has filled.
//! * What runs inside is machine code that owns nothing: kernels, and the few `extern "C"` functions
//!   of `bus`, none of which has a value with a destructor or holds a lock. So abandoning their
//!   stack frames leaks and breaks nothing.
//! * What runs inside has its own mode of floating point, [`Floats`]: `enter` sets it, and sets what
//!   was there before on both ways out. Code of Rust never runs with it, and no other thread does.
//! * The handler is async-signal-safe: it reads one thread-local without destructor, and touches
//!   the frame and the signal context.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use drivers_host::mmap::{MapError, Memory};

/// The signals by which a processor reports that an instruction cannot be done.
const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Room for a handler: the context of AVX-512 and SVE takes up to 12 KiB of it.
const ALTERNATE_STACK: usize = 64 << 10;

/// The signature of every kernel: argument block, first group, one past the last group.
pub(crate) type Kernel = unsafe extern "C" fn(args: *const u64, begin: u64, end: u64);

/// The signal's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trap {
    /// SIGSEGV, SIGBUS, SIGFPE or SIGILL.
    pub(crate) signal: i32,
    /// The memory that was accessed; `None` where the processor does not say (an address that is
    /// not canonical, an arithmetic fault).
    pub(crate) address: Option<u64>,
    /// The instruction.
    pub(crate) pc: u64,
    /// The stack pointer there.
    pub(crate) sp: u64,
    /// Whether it was a store, if the processor reports it.
    pub(crate) write: Option<bool>,
}

/// What subnormal numbers of 32 and 64 bits are to guarded code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Floats {
    /// Numbers, as IEEE 754 says.
    Ieee,
    /// Zeros, as operands and as results.
    Flushed,
}

impl Floats {
    /// The control register: to nearest, no exception traps, and what it says of subnormals.
    /// Source: Intel SDM volume 1, 10.2.3 (MXCSR: FZ 15, masks 12:7, DAZ 6).
    #[cfg(target_arch = "x86_64")]
    fn control(self) -> u64 {
        match self {
            Floats::Ieee => 0x1f80,
            Floats::Flushed => 0x1f80 | 1 << 15 | 1 << 6,
        }
    }

    /// As for x86-64. Source: Arm ARM DDI 0487, FPCR (FZ 24, of operands and results).
    #[cfg(target_arch = "aarch64")]
    fn control(self) -> u64 {
        match self {
            Floats::Ieee => 0,
            Floats::Flushed => 1 << 24,
        }
    }
}

/// Where `enter` was called from, its mode, and what stopped it. `sp` and `resume` are written by
/// `enter`, which reads `control`, at the offsets that its code names.
#[repr(C)]
struct Frame {
    sp: u64,
    resume: u64,
    control: u64,
    trap: Option<Trap>,
}

thread_local! {
    static FRAME: Cell<*mut Frame> = const { Cell::new(ptr::null_mut()) };
}

/// The right to run guarded code on this thread; holds its alternate signal stack.
pub(crate) struct Guard {
    stack: Memory,
    before: libc::stack_t,
    floats: Floats,
    // The signal stack belongs to this thread.
    _not_send: PhantomData<*mut ()>,
}

/// Why a guard could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    #[error("{0}")]
    Memory(#[from] MapError),
    #[error("{call}: {source}")]
    Os {
        call: &'static str,
        source: io::Error,
    },
}

impl Guard {
    /// Prepares this thread, and the process at the first call.
    pub(crate) fn new(floats: Floats) -> Result<Guard, GuardError> {
        install()?;
        let stack = Memory::guarded(ALTERNATE_STACK)?;
        let new = libc::stack_t {
            ss_sp: stack.ptr().as_ptr().cast(),
            ss_flags: 0,
            ss_size: stack.len(),
        };
        let mut before = MaybeUninit::uninit();
        // SAFETY: `new` describes memory that lives as long as the guard, which takes it out of
        // use again when dropped; `before` is room for the old one.
        if unsafe { libc::sigaltstack(&new, before.as_mut_ptr()) } != 0 {
            let (call, source) = ("sigaltstack", io::Error::last_os_error());
            return Err(GuardError::Os { call, source });
        }
        // SAFETY: filled by the successful call.
        let before = unsafe { before.assume_init() };
        Ok(Guard {
            stack,
            before,
            floats,
            _not_send: PhantomData,
        })
    }

    /// Calls `kernel(args, begin, end)`; a fault inside comes back as an error.
    ///
    /// # Safety
    /// `kernel` is the address of code with the ABI of [`Kernel`], which accesses no memory of
    /// Rust that others rely on, has nothing to destroy and holds no lock: it may be abandoned at
    /// any instruction. `args` is what it expects.
    #[inline]
    pub(crate) unsafe fn call(
        &self,
        kernel: u64,
        args: *const u64,
        begin: u64,
        end: u64,
    ) -> Result<(), Trap> {
        let mut frame = Frame {
            sp: 0,
            resume: 0,
            control: self.floats.control(),
            trap: None,
        };
        let at = &raw mut frame;
        FRAME.set(at);
        // SAFETY: `frame` outlives the call and is named by FRAME during it; the rest is the
        // contract of this function.
        let trapped = unsafe { enter(kernel, args, begin, end, at) };
        FRAME.set(ptr::null_mut());
        if trapped == 0 {
            return Ok(());
        }
        // SAFETY: the handler wrote it through the pointer, before it made `enter` return.
        match unsafe { ptr::read_volatile(&raw const (*at).trap) } {
            Some(trap) => Err(trap),
            // Cannot be: `enter` returns non-zero only by way of the handler.
            None => Ok(()),
        }
    }

    /// The alternate stack, so that messages can tell it from kernel memory.
    #[cfg(test)]
    fn stack(&self) -> &Memory {
        &self.stack
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = &self.stack;
        // SAFETY: `before` came from the kernel for this thread (the guard cannot be sent), and
        // its memory belongs to who set it up, for the life of the thread.
        unsafe { libc::sigaltstack(&self.before, ptr::null_mut()) };
    }
}

/// Saves the registers that a callee must keep and the stack pointer into the frame, sets the mode of
/// floats, calls the kernel, sets the mode back, and returns 0. The handler resumes at the label 2
/// with the saved stack pointer: 1.
///
/// # Safety
/// See [`Guard::call`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    kernel: u64,
    args: *const u64,
    begin: u64,
    end: u64,
    frame: *mut Frame,
) -> u64 {
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8", // With the return address: a multiple of 16 at the call.
        "mov [r8], rsp",
        "lea rax, [rip + 2f]",
        "mov [r8 + 8], rax",
        "stmxcsr [rsp]",
        "ldmxcsr [r8 + 16]",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "call rax",
        "xor eax, eax",
        "jmp 3f",
        "2:",
        "cld",
        "mov eax, 1",
        "3:",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// As for x86-64. The ISB is for code that another thread has loaded where there was other code before: this core may
/// have fetched that already, and only drops it by itself (Arm ARM DDI 0487, B2.2.5).
///
/// # Safety
/// See [`Guard::call`].
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn enter(
    kernel: u64,
    args: *const u64,
    begin: u64,
    end: u64,
    frame: *mut Frame,
) -> u64 {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-176]!",
        "mov x29, sp",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x4]",
        "adr x9, 2f",
        "str x9, [x4, #8]",
        "mrs x9, fpcr",
        "str x9, [sp, #160]",
        "ldr x9, [x4, #16]",
        "msr fpcr, x9",
        "mov x9, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "isb",
        "blr x9",
        "mov x0, #0",
        "b 3f",
        "2:",
        "mov x0, #1",
        "3:",
        "ldr x9, [sp, #160]",
        "msr fpcr, x9",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #176",
        "ret",
    )
}

/// The handlers that were there before ours, in the order of `FAULTS`.
static PREVIOUS: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// Installs the handler, once per process.
fn install() -> Result<(), GuardError> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = INSTALLED.get_or_init(|| {
        // The old handlers are noted first, so that ours never runs without them.
        // SAFETY: all-zero is a valid sigaction: default action, no flags.
        let mut previous: [libc::sigaction; 4] = unsafe { MaybeUninit::zeroed().assume_init() };
        for (signal, old) in FAULTS.iter().zip(&mut previous) {
            // SAFETY: only reads the current action into `old`.
            if unsafe { libc::sigaction(*signal, ptr::null(), old) } != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
            }
        }
        let _ = PREVIOUS.set(previous);
        for signal in FAULTS {
            // SAFETY: as above; then every field that matters is set.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = on_fault as *const () as usize;
            // NODEFER: a fault in a chained handler is reported as the fault it is.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            // SAFETY: `on_fault` has the signature of SA_SIGINFO and is async-signal-safe.
            if unsafe { libc::sigaction(signal, &action, ptr::null_mut()) } != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
            }
        }
        Ok(())
    });
    done.map_err(|errno| GuardError::Os {
        call: "sigaction",
        source: io::Error::from_raw_os_error(errno),
    })
}

/// The handler. See the invariants of the module.
unsafe extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let frame = FRAME.get();
    if frame.is_null() {
        // SAFETY: the arguments are handed on as they came.
        unsafe { previous(signal, info, context) };
        return;
    }
    // SAFETY: the kernel passes valid info and context with SA_SIGINFO; the frame is alive while
    // FRAME names it. Changing the saved program counter and stack pointer makes the return from
    // this handler continue in `enter`, on the stack as it was when `enter` called the kernel.
    unsafe {
        let code = (*info).si_code;
        let address = (*info).si_addr() as u64;
        let context = context.cast::<libc::ucontext_t>();
        let registers = Registers::of(context);
        // SI_KERNEL (0x80): a fault without an address, such as a non-canonical one.
        let memory = matches!(signal, libc::SIGSEGV | libc::SIGBUS) && code > 0 && code != 0x80;
        (*frame).trap = Some(Trap {
            signal,
            address: memory.then_some(address),
            pc: *registers.pc,
            sp: *registers.sp,
            write: registers.write,
        });
        *registers.pc = (*frame).resume;
        *registers.sp = (*frame).sp;
    }
}

/// The registers of an interrupted thread that matter here.
struct Registers {
    pc: *mut u64,
    sp: *mut u64,
    write: Option<bool>,
}

impl Registers {
    /// # Safety
    /// `context` is what the kernel passed to a handler that is still running.
    #[cfg(target_arch = "x86_64")]
    unsafe fn of(context: *mut libc::ucontext_t) -> Registers {
        // SAFETY: the indices are inside of the array of the context.
        unsafe {
            let registers = &raw mut (*context).uc_mcontext.gregs;
            let at = |i: i32| registers.cast::<u64>().add(i as usize);
            // Exception 14 is a page fault; bit 1 of its error code tells a store.
            let page_fault = *at(libc::REG_TRAPNO) == 14;
            Registers {
                pc: at(libc::REG_RIP),
                sp: at(libc::REG_RSP),
                write: page_fault.then_some(*at(libc::REG_ERR) & 2 != 0),
            }
        }
    }

    /// # Safety
    /// `context` is what the kernel passed to a handler that is still running.
    #[cfg(target_arch = "aarch64")]
    unsafe fn of(context: *mut libc::ucontext_t) -> Registers {
        // SAFETY: plain fields of the context.
        unsafe {
            let machine = &raw mut (*context).uc_mcontext;
            Registers {
                pc: (&raw mut (*machine).pc).cast(),
                sp: (&raw mut (*machine).sp).cast(),
                write: None,
            }
        }
    }
}

/// Does what would have happened without us.
///
/// # Safety
/// Called from the handler with its own arguments.
unsafe fn previous(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let old = FAULTS.iter().position(|&s| s == signal);
    let old = old.and_then(|i| PREVIOUS.get().map(|all| all[i]));
    match old {
        Some(old) if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN => {
            // SAFETY: the address was registered as a handler with (SA_SIGINFO) or without the
            // long signature, and is called as the kernel would.
            unsafe {
                if old.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(old.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(i32) = std::mem::transmute(old.sa_sigaction);
                    handler(signal);
                }
            }
        }
        _ => {
            // SAFETY: the default action replaces ours; returning repeats the instruction, and
            // the process ends with the right signal and core dump.
            unsafe {
                let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, ptr::null_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn add(args: *const u64, begin: u64, end: u64) {
        // SAFETY: the test passes a pointer to a word.
        unsafe { *args.cast_mut() += end - begin };
    }

    unsafe extern "C" fn store(args: *const u64, _: u64, _: u64) {
        // SAFETY: none; the guard is there for this.
        unsafe { (*args as *mut u32).write_volatile(7) };
    }

    unsafe extern "C" fn load(args: *const u64, _: u64, _: u64) {
        // SAFETY: as for `store`.
        unsafe { (*args as *const u32).read_volatile() };
    }

    #[cfg(target_arch = "x86_64")]
    unsafe extern "C" fn illegal(_: *const u64, _: u64, _: u64) {
        // SAFETY: raises SIGILL, which the guard catches.
        unsafe { std::arch::asm!("ud2") };
    }

    #[cfg(target_arch = "x86_64")]
    unsafe extern "C" fn divide(_: *const u64, _: u64, _: u64) {
        // SAFETY: raises SIGFPE, which the guard catches.
        unsafe {
            std::arch::asm!("xor ecx, ecx", "div ecx", out("ecx") _, out("eax") _, out("edx") _)
        };
    }

    #[cfg(target_arch = "x86_64")]
    unsafe extern "C" fn clobber(_: *const u64, _: u64, _: u64) {
        // SAFETY: destroys what a callee must keep and faults: the guard restores them.
        unsafe {
            std::arch::asm!(
                "xor r12d, r12d",
                "xor r13d, r13d",
                "xor r14d, r14d",
                "xor r15d, r15d",
                "xor ebx, ebx",
                "xor ebp, ebp",
                "sub rsp, 256",
                "std",
                "ud2",
                options(noreturn)
            )
        };
    }

    /// Recurses, without an end that could be reached, to the guard page of the stack.
    unsafe extern "C" fn overflow(args: *const u64, begin: u64, end: u64) {
        let room = [begin; 512];
        std::hint::black_box(&room);
        if begin < u64::MAX / 2 {
            // SAFETY: the guard catches what happens.
            unsafe { overflow(args, begin + end, end) };
        }
        std::hint::black_box((&room, args));
    }

    fn address(kernel: Kernel) -> u64 {
        kernel as *const () as u64
    }

    fn call(guard: &Guard, kernel: Kernel, arg: u64) -> Result<(), Trap> {
        let args = [arg];
        // SAFETY: the functions above own nothing.
        unsafe { guard.call(address(kernel), args.as_ptr(), 0, 3) }
    }

    #[test]
    fn faults_come_back_again_and_again_and_good_code_runs_between() {
        let guard = Guard::new(Floats::Ieee).unwrap();
        assert!(guard.stack().len() >= ALTERNATE_STACK);
        for round in 0..100u64 {
            let trap = call(&guard, store, 0x10).unwrap_err();
            assert_eq!((trap.signal, trap.address), (libc::SIGSEGV, Some(0x10)));
            let trap = call(&guard, load, 0x20).unwrap_err();
            assert_eq!(trap.address, Some(0x20));
            let mut word = [round];
            // SAFETY: `word` is what `add` expects.
            unsafe { guard.call(address(add), word.as_mut_ptr(), 5, 9) }.unwrap();
            assert_eq!(word[0], round + 4);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_processor_tells_stores_and_other_faults_apart() {
        let guard = Guard::new(Floats::Ieee).unwrap();
        assert_eq!(call(&guard, store, 8).unwrap_err().write, Some(true));
        assert_eq!(call(&guard, load, 8).unwrap_err().write, Some(false));
        let trap = call(&guard, load, 0xdead_0000_0000_0000).unwrap_err();
        assert_eq!((trap.signal, trap.address), (libc::SIGSEGV, None));
        let trap = call(&guard, illegal, 0).unwrap_err();
        assert_eq!((trap.signal, trap.address), (libc::SIGILL, None));
        assert_eq!(call(&guard, divide, 0).unwrap_err().signal, libc::SIGFPE);
        for _ in 0..3 {
            assert_eq!(call(&guard, clobber, 0).unwrap_err().signal, libc::SIGILL);
        }
    }

    /// Halves the number that `args[0]` points to, and faults if there is something behind it.
    unsafe extern "C" fn halve(args: *const u64, _: u64, _: u64) {
        // SAFETY: the test passes two floats; the guard catches the store.
        unsafe {
            let x = *args as *mut f32;
            x.write_volatile(x.read_volatile() * 0.5);
            if x.add(1).read_volatile() != 0.0 {
                (0x40 as *mut u32).write_volatile(7);
            }
        }
    }

    #[test]
    fn subnormal_numbers_are_zeros_to_kernels_only() {
        let mine = || std::hint::black_box(f32::MIN_POSITIVE) * 0.5;
        for (floats, wanted) in [(Floats::Ieee, mine()), (Floats::Flushed, 0.0)] {
            let guard = Guard::new(floats).unwrap();
            for fault in [0.0f32, 1.0] {
                // As a result, then as an operand: half of a subnormal number is one.
                for (from, to) in [(f32::MIN_POSITIVE, wanted), (mine(), wanted * 0.5)] {
                    let mut numbers = [from, fault];
                    let done = call(&guard, halve, numbers.as_mut_ptr() as u64);
                    assert_eq!(done.is_err(), fault == 1.0);
                    // SAFETY: the kernel is done with it.
                    let found = unsafe { numbers.as_ptr().read_volatile() };
                    assert_eq!(found.to_bits(), to.to_bits());
                    assert!(mine() > 0.0, "the mode has leaked");
                }
            }
        }
    }

    #[test]
    fn a_stack_overflow_is_a_fault_too() {
        std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(|| {
                let guard = Guard::new(Floats::Ieee).unwrap();
                let trap = call(&guard, overflow, 0).unwrap_err();
                assert_eq!(trap.signal, libc::SIGSEGV);
                let near = trap.address.unwrap().abs_diff(trap.sp);
                assert!(near < 64 << 10, "{trap:?}");
            })
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn threads_are_guarded_apart() {
        std::thread::scope(|scope| {
            for t in 1..5u64 {
                scope.spawn(move || {
                    let guard = Guard::new(Floats::Ieee).unwrap();
                    for _ in 0..200 {
                        let trap = call(&guard, store, t * 16).unwrap_err();
                        assert_eq!(trap.address, Some(t * 16));
                    }
                });
            }
        });
    }
}
