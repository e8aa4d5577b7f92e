//! Frames of a record, for people: calls by name with the fields of their arguments, memory by what has changed.

use std::fmt::Write;

use drivers_spec::fields::{self, Drivers, Drm};
use drivers_spec::nv::abi::Branch;
use twin::errno::Errno;
use twin::record::{Frame, Runs};
use twin::wire::{Kind, Message};

/// The kernel drivers that a config names: the newest branch of NVIDIA's where it names none.
pub fn drivers(config: &str) -> Drivers {
    let mut parts = config.split(',').map(str::trim);
    let named = parts
        .clone()
        .find_map(|part| part.strip_prefix("driver="))
        .and_then(Branch::nearest);
    Drivers {
        nvidia: named.unwrap_or(Branch::R580),
        drm: match parts.any(|part| part == "kernel=msm") {
            true => Drm::Msm,
            false => Drm::Amdgpu,
        },
    }
}

/// A frame as a line; a call with its questions and its end. None for what is part of a call.
pub fn line(drivers: Drivers, frame: &Frame, about: &[&Frame]) -> Option<String> {
    let [a, b, c, d, e, f] = frame.words;
    let path = || String::from_utf8_lossy(&frame.bytes);
    let what = match frame.kind {
        Kind::Process => format!("begins, process {a} of the system"),
        Kind::Exit => "ends".into(),
        Kind::Open => format!("open {} as {a}, flags {b:#x}", path()),
        Kind::Close => format!("close {a}"),
        Kind::Dup => format!("dup {a} as {b}"),
        Kind::Ready => format!("poll {a}"),
        Kind::Text => format!("read {}", path()),
        Kind::Mmap => format!(
            "mmap {b:#x} bytes of {e} from {f:#x} at {a:#x}, protection {c:#x}, flags {d:#x}"
        ),
        Kind::Munmap => format!("munmap {b:#x} bytes at {a:#x}"),
        Kind::Ioctl => format!("ioctl {a} {}", ioctl(drivers, b as u32, c, about)),
        Kind::Memory => {
            let (runs, bytes) = Runs::of(&frame.bytes).fold((0, 0), |(runs, all), (_, bytes)| {
                (runs + 1, all + bytes.len())
            });
            let first = Runs::of(&frame.bytes).next();
            let (at, first) = first.unwrap_or_default();
            let first = &first[..first.len().min(16)];
            let what = if b == 1 { "doorbells" } else { "memory" };
            format!(
                "{what}, file {a}: {bytes} bytes in {runs} runs, from {at:#x} on {}",
                hex(first)
            )
        }
        Kind::Broken => path().replacen('\n', ": ", 1),
        Kind::End => format!("the end, after {a} calls"),
        _ => return None,
    };
    let mut line = format!("{:>8} ", frame.at.rounds);
    if frame.process != 0 {
        let _ = write!(line, "process {}: ", frame.process);
    }
    line += &what;
    if frame.call != 0 {
        let done = about.last().filter(|last| last.kind == Kind::Done);
        line += &match done.map(|done| Message::new(Kind::Done, [done.words[0]]).result()) {
            None => " did not end".into(),
            Some(Ok(0)) => String::new(),
            Some(Ok(value)) => format!(" = {value:#x}"),
            Some(Err(Errno(errno))) => format!(" = {}", Errno(errno)),
        };
    }
    Some(line)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An ioctl, with the fields of its argument, and those that it has changed.
fn ioctl(drivers: Drivers, request: u32, argument: u64, about: &[&Frame]) -> String {
    let of = |kind| {
        let mut found = about.iter().filter(|one| one.kind == kind);
        let found = found.find(|one| one.words[0] == argument);
        found.map_or(&[][..], |one| &*one.bytes)
    };
    let told = fields::describe(drivers, request, of(Kind::Read), of(Kind::Write));
    told.unwrap_or_else(|| format!("{request:#010x}"))
}
