//! Plays what was recorded of another driver: its calls as they were, with the twin's handles, UUIDs and
//! descriptors in place of the recorded ones.
//!
//! The recordings (`tests/golden/nv/session_*.json`) are of tinygrad at a9069c177a9d, on a mock of the
//! kernel driver: an event a line, arguments as pieces `OFFSET:BYTES` of what is not zero. Those of
//! `scripts/silicon-record` (`tests/golden/nv/recorded`) say the descriptor and the answer of each call, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivers_spec::nv::abi::{self, Layout};
use drivers_spec::nv::{class, control, escape, uvm};
use serde_json::Value;
use twin_nv::client::{Memory, Pages};
use twin_nv::config::Config;
use twin_nv::kernel::{Machine, Process};

use super::bench::{ARG, LIST, PARAMS, shared};

/// Where recordings are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/nv")
}

/// What was recorded, in order.
pub fn recording(name: &str) -> Vec<Value> {
    let path = folder().join(format!("session_{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A number, written as one or in hex.
pub fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap(),
        _ => value.as_u64().unwrap(),
    }
}

/// Bytes from pieces.
fn bytes(pieces: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for piece in pieces.split_whitespace() {
        let (at, hex) = piece.split_once(':').unwrap();
        let at = usize::from_str_radix(at, 16).unwrap();
        for (i, byte) in unhex(hex).into_iter().enumerate() {
            bytes[at + i] = byte;
        }
    }
    bytes
}

pub fn unhex(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len()).step_by(2).map(|i| &hex[i..i + 2]);
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// A client that does what was recorded.
pub struct Player {
    pub machine: Arc<Machine>,
    process: Arc<Process>,
    pub memory: Arc<Pages>,
    /// Where files were mapped, in order.
    pub mapped: Vec<u64>,
    /// The twin's descriptors by the recorded ones, with their paths.
    files: BTreeMap<i32, (i32, String)>,
    /// The twin's handles by the recorded ones.
    handles: BTreeMap<u32, u32>,
    uuid: Option<[u8; 16]>,
    gpu_id: u32,
}

impl Player {
    pub fn new(config: &str) -> Player {
        let machine = Machine::new(Config::parse(config).unwrap()).unwrap();
        let memory = Arc::new(Pages::default());
        for at in [ARG, PARAMS, LIST] {
            memory.provide(at, 0x1_0000).unwrap();
        }
        Player {
            process: machine.attach(memory.clone()),
            machine,
            memory,
            mapped: Vec::new(),
            files: BTreeMap::new(),
            handles: BTreeMap::new(),
            uuid: None,
            gpu_id: 0,
        }
    }

    /// Ends the process.
    pub fn exit(&self) {
        self.process.exit();
    }

    /// Ends the process; whether the machine then holds nothing of it.
    pub fn leaves_nothing(&self) -> bool {
        self.process.exit();
        let state = self.machine.state();
        state.is_empty() && state.local_in_use(0) == 0
    }

    /// Plays all, whatever fails; returns statuses and errnos that are not 0, or not what was recorded where
    /// answers were, with the event's number.
    pub fn play(&mut self, events: &[Value]) -> Vec<(usize, String)> {
        let mut failed = Vec::new();
        for (i, event) in events.iter().enumerate() {
            if let Err(why) = self.step(event) {
                failed.push((i, why));
            }
        }
        failed
    }

    fn step(&mut self, event: &Value) -> Result<(), String> {
        let said = |failure: twin_nv::errno::Failure| failure.to_string();
        if let Some(path) = event["open"].as_str() {
            let fd = self.process.open(path).map_err(said)?;
            self.files
                .insert(number(&event["fd"]) as i32, (fd, path.into()));
        } else if !event["close"].is_null() {
            let closed = self.files.remove(&(number(&event["close"]) as i32));
            self.process.close(closed.unwrap().0).map_err(said)?;
        } else if !event["dup"].is_null() {
            let (from, to) = (number(&event["dup"]) as i32, number(&event["fd"]) as i32);
            let (fd, path) = self.files[&from].clone();
            let fd = self.process.dup(fd).map_err(said)?;
            self.files.insert(to, (fd, path));
        } else if !event["munmap"].is_null() {
            let (at, length) = (number(&event["munmap"]), number(&event["bytes"]));
            self.process.munmap(at, length).map_err(said)?;
        } else if !event["mmap"].is_null() {
            let fd = self.files[&(number(&event["mmap"]) as i32)].0;
            let at = (!event["at"].is_null()).then(|| number(&event["at"]));
            let length = number(&event["bytes"]);
            let wanted = shared(at, length);
            let offset = event["offset"].as_u64().unwrap_or(0);
            let at = self.process.mmap(wanted, fd, offset).map_err(said)?;
            self.mapped.push(at);
        } else if !event["memory"].is_null() {
            let (at, length) = (number(&event["memory"]), number(&event["bytes"]));
            self.memory.provide(at, length).unwrap();
        } else {
            self.ioctl(event)?;
        }
        Ok(())
    }

    /// The descriptor that a call was made on. Where that was not recorded: the last one of its path that is
    /// open, and of the two of UVM the first, but for MM_INITIALIZE.
    fn fd(&self, event: &Value) -> i32 {
        if !event["fd"].is_null() {
            return self.files[&(number(&event["fd"]) as i32)].0;
        }
        let path = event["file"].as_str().unwrap();
        let mut of_path = self.files.values().filter(|file| file.1 == path);
        let first = path.ends_with("uvm") && event["ioctl"] != "UVM_MM_INITIALIZE";
        match first {
            true => of_path.next().unwrap().0,
            false => of_path.next_back().unwrap().0,
        }
    }

    fn ioctl(&mut self, event: &Value) -> Result<(), String> {
        let branch = self.machine.branch();
        let (name, fd) = (event["ioctl"].as_str().unwrap(), self.fd(event));
        let size = number(&event["size"]) as usize;
        let request = number(&event["request"]) as u32;
        let mut arg = bytes(event["arg"].as_str().unwrap(), size);
        let call = match name.starts_with("UVM_") {
            true => abi::find(uvm::COMMANDS, branch, request),
            false => escape::of_request(branch, request),
        };
        let layout = call.and_then(|call| call.layout);
        let mut list = None;
        if let Some(layout) = layout {
            self.rewrite(layout, &mut arg);
            if !event["params_size"].is_null() {
                list = self.params(event, name, layout, &mut arg);
            }
        }
        self.memory.write(ARG, &arg).unwrap();
        let done = self.process.ioctl(fd, request, ARG);
        self.memory.read(ARG, &mut arg).unwrap();
        let read = |field: &str| {
            let layout = layout?;
            let place = find(layout, branch, field)?;
            Some(u32::from_le_bytes(
                arg[place..place + 4].try_into().unwrap(),
            ))
        };
        if let (Some(new), Some(handle)) = (event["new"].as_u64(), read("hObjectNew")) {
            self.handles.insert(new as u32, handle);
        }
        if name == "NV_ESC_CARD_INFO" {
            self.gpu_id = u32::from_le_bytes(arg[16..20].try_into().unwrap());
        }
        self.learn(event, &list);
        match (done, event["errno"].as_i64()) {
            (Ok(()), None) => {}
            (Err(errno), Some(recorded)) if i64::from(errno.0) == recorded => return Ok(()),
            (Ok(()), Some(recorded)) => {
                return Err(format!("{name}: it is done; recorded: errno {recorded}"));
            }
            (Err(errno), _) => return Err(format!("{name}: {errno}")),
        }
        let status = |arg: &[u8]| {
            let place = ["status", "rmStatus"].iter();
            let place = place
                .filter_map(|field| find(layout?, branch, field))
                .next()?;
            Some(u32::from_le_bytes(
                arg[place..place + 4].try_into().unwrap(),
            ))
        };
        let recorded = event["after"].as_str();
        let recorded = recorded.map_or(Some(0), |after| status(&bytes(after, size)));
        match (status(&arg), recorded) {
            (ours, recorded) if ours == recorded => Ok(()),
            (None, _) | (Some(0), None) => Ok(()),
            (Some(ours), Some(0) | None) => Err(format!("{name}: status {ours:#x}")),
            (Some(ours), Some(recorded)) => {
                Err(format!("{name}: status {ours:#x}; recorded: {recorded:#x}"))
            }
        }
    }

    /// Puts parameters, and lists behind them, where the argument will say.
    fn params(&self, event: &Value, name: &str, layout: &Layout, arg: &mut [u8]) -> Option<u32> {
        let branch = self.machine.branch();
        let size = number(&event["params_size"]) as usize;
        let mut params = bytes(event["params"].as_str().unwrap(), size);
        let place = |field: &str| find(layout, branch, field).unwrap();
        let (table, number_at, pointer) = match name {
            "NV_ESC_RM_ALLOC" => (class::CLASSES, place("hClass"), place("pAllocParms")),
            _ => (control::CONTROLS, place("cmd"), place("params")),
        };
        let which = u32::from_le_bytes(arg[number_at..number_at + 4].try_into().unwrap());
        arg[pointer..pointer + 8].copy_from_slice(&PARAMS.to_le_bytes());
        if let Some(inner) = abi::find(table, branch, which).and_then(|call| call.layout) {
            self.rewrite(inner, &mut params);
            let mut free = LIST;
            for (i, behind) in inner.pointers.iter().enumerate() {
                // By the names of fields; of tinygrad's, what the first one leads to.
                let nested = match &event["nested"] {
                    Value::String(first) => Some(&**first).filter(|_| i == 0),
                    all => all[behind.at].as_str(),
                };
                let Some(nested) = nested.map(unhex) else {
                    continue;
                };
                self.memory.write(free, &nested).unwrap();
                let at = find(inner, branch, behind.at).unwrap();
                params[at..at + 8].copy_from_slice(&free.to_le_bytes());
                free += (nested.len() as u64).next_multiple_of(8);
            }
        }
        self.memory.write(PARAMS, &params).unwrap();
        Some(which)
    }

    /// The twin's names for what was recorded, by the names of fields.
    fn rewrite(&self, layout: &Layout, bytes: &mut [u8]) {
        for field in layout.fields(self.machine.branch()) {
            let Some(place) = bytes.get_mut(field.at..field.at + field.size) else {
                continue;
            };
            let name = field.name;
            let second = name.chars().nth(1);
            let handles = name.starts_with('h') && second.is_some_and(char::is_uppercase);
            if name == "params" && field.size > 8 {
                // RM's own struct, before a descriptor.
                let inner = match layout.name.contains("nvos02") {
                    true => <escape::AllocMemory as abi::Struct>::LAYOUT,
                    false => <escape::MapMemory as abi::Struct>::LAYOUT,
                };
                self.rewrite(&inner, place);
            } else if handles && name != "hClass" {
                for one in place.chunks_exact_mut(4) {
                    let handle = u32::from_le_bytes(one.try_into().unwrap());
                    let ours = self.handles.get(&handle).copied().unwrap_or(handle);
                    one.copy_from_slice(&ours.to_le_bytes());
                }
            } else if matches!(name, "fd" | "rmCtrlFd" | "uvmFd" | "ctl_fd")
                || name == "data" && layout.name == "NV0005_ALLOC_PARAMETERS"
            {
                let fd = i32::from_le_bytes(place[..4].try_into().unwrap());
                let ours = self.files.get(&fd).map_or(fd, |file| file.0);
                place[..4].copy_from_slice(&ours.to_le_bytes());
            } else if name == "gpuId" {
                place.copy_from_slice(&self.gpu_id.to_le_bytes());
            } else if name.to_lowercase().contains("uuid") {
                place.copy_from_slice(&self.uuid.unwrap_or_default());
            } else if name == "perGpuAttributes" {
                place[..16].copy_from_slice(&self.uuid.unwrap_or_default());
            }
        }
    }

    /// What the twin has told that later calls say again.
    fn learn(&mut self, event: &Value, which: &Option<u32>) {
        let gid = control::NV2080_CTRL_CMD_GPU_GET_GID_INFO.number;
        if event["ioctl"] == "NV_ESC_RM_CONTROL" && *which == Some(gid) {
            let mut uuid = [0; 16];
            self.memory.read(PARAMS + 12, &mut uuid).unwrap();
            self.uuid = Some(uuid);
        }
    }
}

/// Where a field lies, also one of the struct that an argument begins with.
fn find(layout: &Layout, branch: abi::Branch, name: &str) -> Option<usize> {
    let own = layout.fields(branch).find(|field| field.name == name);
    own.map(|field| field.at).or_else(|| {
        let inner = match layout.name {
            "nv_ioctl_nvos02_parameters_with_fd" => <escape::AllocMemory as abi::Struct>::LAYOUT,
            "nv_ioctl_nvos33_parameters_with_fd" => <escape::MapMemory as abi::Struct>::LAYOUT,
            _ => return None,
        };
        let found = inner.fields(branch).find(|field| field.name == name)?;
        Some(found.at)
    })
}
