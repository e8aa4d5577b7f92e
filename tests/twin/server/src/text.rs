//! Frames of a record, for people: calls by name with the fields of their arguments, memory by what has changed.

use std::fmt::Write;

use drivers_spec::amd::{drm, kfd};
use drivers_spec::nv::abi::{self, Branch};
use drivers_spec::nv::{class, control, escape, uvm};
use hcq::transport::Ioctl;
use twin::errno::Errno;
use twin::record::{Frame, Runs};
use twin::wire::{Kind, Message};

/// The branch of NVIDIA's driver that a config names; the newest where it names none.
pub fn branch(config: &str) -> Branch {
    let mut drivers = config
        .split(',')
        .filter_map(|part| part.trim().strip_prefix("driver="));
    drivers
        .next()
        .and_then(Branch::nearest)
        .unwrap_or(Branch::R580)
}

/// A frame as a line; a call with its questions and its end. None for what is part of a call.
pub fn line(branch: Branch, frame: &Frame, about: &[&Frame]) -> Option<String> {
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
        Kind::Ioctl => format!("ioctl {a} {}", ioctl(branch, b as u32, c, about)),
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
fn ioctl(branch: Branch, request: u32, argument: u64, about: &[&Frame]) -> String {
    let of = |kind| {
        let mut found = about.iter().filter(|one| one.kind == kind);
        let found = found.find(|one| one.words[0] == argument);
        found.map_or(&[][..], |one| &*one.bytes)
    };
    let (before, after) = (of(Kind::Read), of(Kind::Write));
    let amd = [kfd::KIND, drm::KIND].contains(&Ioctl::kind_of(request));
    let Some((mut text, fields)) = (match amd {
        true => amd_fields(request),
        false => nv_fields(branch, request, before),
    }) else {
        return format!("{request:#010x}");
    };
    let mut changed = String::new();
    for (name, at, size) in fields {
        let was = value(before, at, size);
        let is = value(after, at, size);
        if let Some(was) = &was {
            let _ = write!(text, " {name}={was}");
        }
        if let Some(is) = is.filter(|is| was.as_ref() != Some(is)) {
            let _ = write!(changed, " {name}={is}");
        }
    }
    if !changed.is_empty() {
        let _ = write!(text, " ->{changed}");
    }
    text
}

/// A field: a number, or the start of what is longer.
fn value(data: &[u8], at: usize, size: usize) -> Option<String> {
    let bytes = data.get(at..at + size)?;
    Some(match size {
        1..=8 => format!("{:#x}", number(bytes)),
        _ => hex(&bytes[..size.min(16)]),
    })
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Name, place and size.
type Fields = Vec<(&'static str, usize, usize)>;

/// The name of an ioctl of KFD or DRM, and its fields.
fn amd_fields(request: u32) -> Option<(String, Fields)> {
    let same = |one: &&Ioctl| {
        Ioctl::kind_of(one.request) == Ioctl::kind_of(request) && one.nr() == Ioctl::nr_of(request)
    };
    let name = kfd::IOCTLS.iter().chain(drm::IOCTLS).find(same)?.name;
    // Headers name a struct after its ioctl.
    let (wanted, layouts) = match name.strip_prefix("AMDKFD_IOC_") {
        Some(rest) => (
            format!("kfd_ioctl_{}_args", rest.to_lowercase()),
            kfd::LAYOUTS,
        ),
        None => {
            let rest = name.strip_prefix("DRM_IOCTL_")?;
            (format!("drm_{}", rest.to_lowercase()), drm::LAYOUTS)
        }
    };
    let layout = layouts.iter().find(|layout| layout.name == wanted);
    let fields = layout.map_or(&[][..], |layout| layout.fields).iter();
    let fields = fields.map(|field| (field.name, field.offset, field.size));
    Some((name.to_owned(), fields.collect()))
}

/// The name of an escape of RM, with the class or the control that it is about, or of a command of UVM, and
/// its fields.
fn nv_fields(branch: Branch, request: u32, data: &[u8]) -> Option<(String, Fields)> {
    let escape = escape::of_request(branch, request);
    let call = escape.or_else(|| abi::find(uvm::COMMANDS, branch, request))?;
    let placed = call
        .layout
        .into_iter()
        .flat_map(|layout| layout.fields(branch));
    let fields: Fields = placed
        .map(|field| (field.name, field.at, field.size))
        .collect();
    let inner = |table, name| {
        let (_, at, size) = fields.iter().find(|(known, ..)| *known == name)?;
        let number = number(data.get(*at..at + size)?);
        abi::find(table, branch, number as u32)
    };
    let inner = inner(class::CLASSES, "hClass").or_else(|| inner(control::CONTROLS, "cmd"));
    let mut name = call.name.to_owned();
    if let Some(inner) = inner {
        let _ = write!(name, " of {}", inner.name);
    }
    Some((name, fields))
}
