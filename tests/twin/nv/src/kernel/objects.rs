//! What a process has of a machine, for tests of drivers: nothing, once the driver has given back all.

use std::collections::BTreeSet;

use drivers_spec::nv::{abi, class};
use hcq::sync::lock;

use super::Process;
use super::files::{File, Kind, Mapped, Uvm};

impl Process {
    /// Everything that the process still has, as text: open files, mappings, objects of RM, and what UVM
    /// keeps for it.
    pub fn objects(&self) -> Vec<String> {
        let mut left = Vec::new();
        let (mut files, mut spaces) = (BTreeSet::new(), BTreeSet::new());
        let mut holds = |file: &File| {
            files.insert(file.id);
            files.extend(lock(&file.registered).as_ref().map(|control| control.id));
            if let Uvm::Space(space) | Uvm::Memory(space, _) = *file.uvm() {
                spaces.insert(space);
            }
        };
        for (fd, file) in lock(&self.files).iter() {
            left.push(format!("file {}, descriptor {fd}", name(&file.kind)));
            holds(file);
        }
        for (at, bytes, map) in lock(&self.maps).iter() {
            let what = match &map.what {
                Mapped::Memory(..) => "memory".into(),
                Mapped::Doorbell(gpu) => format!("the doorbell of GPU {gpu}"),
            };
            left.push(format!("mapping of {what}: {bytes:#x} bytes at {at:#x}"));
            holds(&map.file);
        }
        let (state, branch) = (self.machine.state(), self.machine.branch());
        for (client, handle, class) in state.objects_of(&files) {
            let known = abi::find(class::CLASSES, branch, class);
            let class = known.map_or_else(|| format!("class {class:#x}"), |one| one.name.into());
            left.push(format!("{class} {handle:#x} of client {client:#x}"));
        }
        let uvm = spaces.iter().filter_map(|space| state.uvm.get(space));
        left.extend(uvm.flat_map(|va| va.objects()));
        left
    }
}

fn name(kind: &Kind) -> String {
    match kind {
        Kind::Ctl => "/dev/nvidiactl".into(),
        Kind::Gpu(gpu) => format!("/dev/nvidia{gpu}"),
        Kind::Uvm => "/dev/nvidia-uvm".into(),
        Kind::Text(_) => "a text".into(),
        Kind::Folder(_) => "a folder".into(),
    }
}
