//! What is said when a kernel faults.
use crate::cc;

use std::sync::Arc;
use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::{AllocSpec, Buffer, Command, Deadline, Device, QueueKind, Stream, Val};

fn open() -> Arc<dyn Device> {
    CpuDevice::open(Config {
        cores: 2,
        ..Config::default()
    })
    .unwrap()
}

/// Runs `body` as a kernel on a buffer, and returns the cause of the loss.
fn fault(body: &str, groups: u32, bytes: u64) -> (String, Buffer) {
    let device = open();
    let source = format!(
        "typedef unsigned long u64; void kernel(const u64 *args, u64 begin, u64 end) {{
           volatile u64 *data = (u64 *)args[0]; {body} }}"
    );
    let program = device.load(&cc::image(&source, 1)).unwrap();
    let data = device.alloc(AllocSpec::device(bytes)).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let command = Command::Exec {
        program: &program,
        args: &[Val::Const(data.va().0)],
        grid: [groups, 1, 1],
        block: [1, 1, 1],
    };
    let done = stream.submit(&[], &[command]).unwrap();
    let error = done.wait(Deadline::after(Duration::from_secs(60)));
    (error.unwrap_err().to_string(), data)
}

#[test]
fn an_overrun_names_the_buffer_and_the_distance() {
    // Past the end of a mapping of its own, whatever its size was rounded up to.
    let body = "for (u64 i = 0;; i++) data[i] = 1;";
    for groups in [1, 50] {
        let (text, data) = fault(body, groups, 1 << 20);
        let start = format!("the buffer {:#x}+0x100000", data.va().0);
        assert!(text.contains("kernel kernel, code offset"), "{text}");
        assert!(text.contains(&start), "{text}");
        assert!(text.contains("0 bytes past the end of"), "{text}");
        if cfg!(target_arch = "x86_64") {
            assert!(text.contains("SIGSEGV writing"), "{text}");
        }
    }
    let (text, _) = fault("*data = data[-1];", 1, 1 << 20);
    assert!(text.contains("8 bytes before the buffer"), "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn arithmetic_and_illegal_instructions_are_faults() {
    let (text, _) = fault("*data = 0; *data = 7 / *data;", 1, 64);
    assert!(
        text.contains("SIGFPE (an integer division by zero"),
        "{text}"
    );
    let (text, _) = fault("__builtin_trap();", 20, 64);
    assert!(text.contains("SIGILL"), "{text}");
}

#[test]
fn an_exhausted_stack_is_told_apart() {
    let body = "volatile char room[64 << 20]; for (u64 i = 0; i < sizeof room; i += 64) \
                room[sizeof room - 1 - i] = *data;";
    let (text, _) = fault(body, 1, 64);
    // The compiler may move the stack pointer far below before the first access.
    assert!(text.contains("SIGSEGV"), "{text}");
}

#[test]
fn a_null_write_by_a_packet_is_a_fault_with_its_packet() {
    let device = open();
    let stream = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    let command = Command::Write {
        at: Val::Const(0),
        value: Val::Const(1),
        width: hcq::Width::W64,
    };
    let done = stream.submit(&[], &[command]).unwrap();
    let error = done.wait(Deadline::after(Duration::from_secs(60)));
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("copy 0: WRITE: memory access: SIGSEGV"),
        "{text}"
    );
    assert!(text.contains("not near any buffer"), "{text}");
}

#[test]
fn images_for_other_devices_are_refused() {
    let device = open();
    let good = cc::image("void kernel(void) {}", 1);
    device.load(&good).unwrap();
    let refused = |change: &dyn Fn(&mut hcq::KernelImage)| {
        let mut image = good.clone();
        change(&mut image);
        device.load(&image).unwrap_err().to_string()
    };
    let text = refused(&|i| i.arch = "gfx1100".into());
    assert!(
        text.contains("compiled for gfx1100, this device runs"),
        "{text}"
    );
    let text = refused(&|i| i.local_bytes = 64);
    assert!(text.contains("needs 64 bytes of local memory"), "{text}");
    let text = refused(&|i| i.args.fields[0].offset = 4);
    assert!(text.contains("argument of 8 bytes at 4"), "{text}");
    let text = refused(&|i| i.args.fields[0].offset = 8);
    assert!(text.contains("inside the 8 bytes"), "{text}");
    let text = refused(&|i| i.args.align = 16);
    assert!(text.contains("aligned to 16"), "{text}");
    let text = refused(&|i| i.entry = "nothing".into());
    assert!(
        text.contains("program kernel: symbol nothing: not defined"),
        "{text}"
    );
    device.status().unwrap();
}

/// The handler is for kernels only: a fault of the host program ends it as it always did.
#[test]
fn a_fault_of_the_program_itself_still_ends_it() {
    const CHILD: &str = "DOORBELL_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let _device = open();
        // SAFETY: none: the process is to die of it.
        unsafe { (0x10 as *mut u32).write_volatile(1) };
        println!("still alive");
        return;
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "faults::a_fault_of_the_program_itself_still_ends_it",
        ])
        .arg("--nocapture")
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(
        !run.status.success() && !text.contains("still alive"),
        "{text}"
    );
}
