//! What is asked of devices, as lines of JSON.
//!
//! The first line says which driver it is. A line of an ioctl has its name, the struct before and after,
//! and what addresses in it lead to, as far as the tables know: each a *part* with the field that leads
//! there, its address, its bytes before, and after where they differ (hexadecimal). A line of memory has
//! what was found there when the program came to a *mark*.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use drivers_spec::nv::abi::{self, Branch, Layout, Struct};
use drivers_spec::nv::{class, control, escape, uvm};
use hcq::transport::Ioctl;
use serde_json::{Map as Object, Value, json};
use twin::host::user;

use crate::driver::{Map, Result};
use crate::memory::Piece;

/// A record that is being written.
pub struct Record {
    file: Mutex<File>,
    branch: Option<Branch>,
    count: AtomicU64,
}

/// Memory that a call is about.
struct Part {
    what: String,
    at: u64,
    bytes: Vec<u8>,
}

/// An ioctl before it is made.
pub struct Before {
    name: Option<&'static str>,
    /// The class that is made, the control that is asked.
    of: Option<&'static str>,
    parts: Vec<Part>,
}

/// More than any argument has; a count that leads further is a mistake of whoever called.
const MOST: usize = 1 << 20;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = bytes.len().min(8);
    word[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(word)
}

impl Part {
    /// Reads it, if it is there.
    fn read(what: &str, at: u64, bytes: usize) -> Option<Part> {
        if at == 0 || bytes == 0 || bytes > MOST {
            return None;
        }
        let mut content = vec![0; bytes];
        user::read(at, &mut content).ok()?;
        Some(Part {
            what: what.to_owned(),
            at,
            bytes: content,
        })
    }

    /// A field of the struct that it holds.
    fn field(&self, layout: &Layout, branch: Branch, name: &str) -> Option<u64> {
        let field = layout.fields(branch).find(|field| field.name == name)?;
        Some(number(self.bytes.get(field.at..)?.get(..field.size)?))
    }
}

impl Before {
    /// Reads what a struct leads to, and what that does.
    fn follow(&mut self, layout: &'static Layout, branch: Branch) {
        let Some(part) = self.parts.last() else {
            return;
        };
        let found: Vec<_> = layout
            .pointers
            .iter()
            .filter_map(|pointer| {
                let count = match pointer.count {
                    Some(count) => part.field(layout, branch, count)?,
                    None => 1,
                };
                let at = part.field(layout, branch, pointer.at)?;
                Some((pointer.at, at, count as usize, pointer.element))
            })
            .collect();
        let inner = self.inner(layout, branch);
        self.of = inner.map(|call| call.name).or(self.of);
        for (what, at, count, element) in found {
            let own = inner.and_then(|call| call.layout);
            let is_params = matches!(what, "params" | "pAllocParms");
            let bytes = match own.filter(|_| is_params && count == 0) {
                // RM copies its own size, whatever it is told.
                Some(own) => own.size(branch),
                None => count.saturating_mul(element),
            };
            let Some(part) = Part::read(what, at, bytes) else {
                continue;
            };
            self.parts.push(part);
            if let Some(own) = own.filter(|_| is_params) {
                self.follow(own, branch);
            }
        }
    }

    /// The class that is made, or the control that is asked.
    fn inner(&self, layout: &Layout, branch: Branch) -> Option<&'static abi::Call> {
        let part = self.parts.last()?;
        let find = |table, name| {
            let number = part.field(layout, branch, name)?;
            abi::find(table, branch, number as u32)
        };
        match layout.name {
            name if name == escape::Control::LAYOUT.name => find(control::CONTROLS, "cmd"),
            name if name == escape::Alloc::LAYOUT.name
                || name == escape::AllocRights::LAYOUT.name =>
            {
                find(class::CLASSES, "hClass")
            }
            _ => None,
        }
    }
}

impl Record {
    /// Begins one.
    ///
    /// # Errors
    /// What the host says.
    pub fn create(path: &Path, driver: Option<String>) -> std::io::Result<Record> {
        let record = Record {
            file: Mutex::new(File::create(path)?),
            branch: driver.as_deref().and_then(Branch::of),
            count: AtomicU64::new(0),
        };
        record.line(json!({"call": "begin", "driver": driver}));
        Ok(record)
    }

    fn line(&self, mut line: Value) {
        line["n"] = self.count.fetch_add(1, Ordering::Relaxed).into();
        let text = format!("{line}\n");
        let mut file = self.file.lock().unwrap_or_else(|lost| lost.into_inner());
        if let Err(error) = file.write_all(text.as_bytes()) {
            eprintln!("doorbell_preload: the record ends here: {error}");
        }
    }

    fn call<T: Into<Value>>(&self, mut line: Object<String, Value>, done: Result<T>) {
        match done {
            Ok(value) => line.insert("returned".into(), value.into()),
            Err(errno) => line.insert("errno".into(), errno.into()),
        };
        self.line(Value::Object(line));
    }

    /// `open`.
    pub fn open(&self, path: &str, flags: i32, done: Result<i32>) {
        self.call(
            object(json!({"call": "open", "file": path, "flags": flags})),
            done,
        );
    }

    /// `close`.
    pub fn close(&self, path: &str, fd: i32) {
        self.line(json!({"call": "close", "file": path, "fd": fd}));
    }

    /// `dup` and its like.
    pub fn dup(&self, path: &str, from: i32, to: i32) {
        self.line(json!({"call": "dup", "file": path, "fd": from, "returned": to}));
    }

    /// `mmap`.
    pub fn mmap(&self, path: &str, fd: i32, map: Map, done: Result<u64>) {
        let line = json!({
            "call": "mmap", "file": path, "fd": fd, "at": map.at, "bytes": map.bytes,
            "protection": map.protection, "flags": map.flags, "offset": map.offset,
        });
        self.call(object(line), done);
    }

    /// `munmap`.
    pub fn munmap(&self, at: u64, bytes: u64) {
        self.line(json!({"call": "munmap", "at": at, "bytes": bytes}));
    }

    /// Memory that has changed, at a place of the program.
    pub fn memory(&self, mark: &str, pieces: Vec<Piece>) {
        for piece in pieces {
            self.line(json!({
                "call": "memory", "mark": mark, "file": piece.file, "at": piece.at,
                "bytes": hex(&piece.bytes),
            }));
        }
    }

    /// The memory of the process that an ioctl hands to a device.
    pub fn handed(&self, before: &Before) -> Option<(u64, u64)> {
        let part = before.parts.first()?;
        if before.name != Some(escape::RM_ALLOC_MEMORY.name) {
            return None;
        }
        let layout = escape::AllocMemory::LAYOUT;
        let field = |name| part.field(&layout, self.branch?, name);
        let class = field("hClass")?;
        (class == u64::from(class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR.number))
            .then_some((field("pMemory")?, field("limit")? + 1))
    }

    /// Reads what an ioctl is about to be made with.
    pub fn before(&self, path: &str, request: u32, argument: u64) -> Before {
        let on_uvm = path == "/dev/nvidia-uvm";
        let call = self
            .branch
            .filter(|_| path.starts_with("/dev/nvidia"))
            .and_then(|branch| match on_uvm {
                true => abi::find(uvm::COMMANDS, branch, request),
                false => escape::of_request(branch, request),
            });
        let layout = call.and_then(|call| call.layout);
        let bytes = match (on_uvm, layout, self.branch) {
            (true, Some(layout), Some(branch)) => layout.size(branch),
            (true, _, _) => 0,
            (false, _, _) => Ioctl::size_of(request),
        };
        let mut before = Before {
            name: call.map(|call| call.name),
            of: None,
            parts: Part::read("argument", argument, bytes)
                .into_iter()
                .collect(),
        };
        if let (Some(layout), Some(branch)) = (layout, self.branch) {
            before.follow(layout, branch);
        }
        before
    }

    /// An ioctl that was made.
    pub fn ioctl(&self, path: &str, fd: i32, request: u32, before: Before, done: Result<i32>) {
        let parts: Vec<Value> = before.parts.iter().map(after).collect();
        let mut line = object(json!({
            "call": "ioctl", "file": path, "fd": fd, "request": request, "parts": parts,
        }));
        for (key, name) in [("name", before.name), ("of", before.of)] {
            if let Some(name) = name {
                line.insert(key.into(), name.into());
            }
        }
        self.call(line, done);
    }
}

/// A part as it was, and as it is now where it has changed.
fn after(part: &Part) -> Value {
    let mut value = json!({"what": part.what, "at": part.at, "before": hex(&part.bytes)});
    let mut now = vec![0; part.bytes.len()];
    if user::read(part.at, &mut now).is_ok() && now != part.bytes {
        value["after"] = hex(&now).into();
    }
    value
}

fn object(value: Value) -> Object<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
