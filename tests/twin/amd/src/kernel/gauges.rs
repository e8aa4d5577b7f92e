//! What the kernel tells of processes and of sensors while they change: `/sys/class/kfd/kfd/proc`, and `hwmon` and
//! `gpu_busy_percent` of a card.
//!
//! Source: Linux 6.12, amdkfd/kfd_process.c, `kfd_create_process_sysfs`, `kfd_procfs_add_sysfs_files`,
//! `kfd_procfs_queue_show`; Documentation/gpu/amdgpu/thermal.rst.

use drivers_spec::amd::kfd::queue_type;
use hcq::sync::lock;

use crate::mem::Kind as Memory;

use super::tree::{Node, Sensor, Tree};
use super::{Machine, Process};

/// The processes that have opened `/dev/kfd`, by their numbers.
pub(super) const PROCESSES: &str = "/sys/devices/virtual/kfd/kfd/proc";

/// `enum kfd_queue_type` of kfd_priv.h: packets of AQL are no type of their own.
const COMPUTE: u64 = 0;
const SDMA: u64 = 1;
const SDMA_XGMI: u64 = 4;
const SDMA_BY_ENG_ID: u64 = 5;

impl Machine {
    /// What a sensor shows. Nothing is warm here: all of it is of this model's choice, higher where there is a queue.
    pub(super) fn sensor(&self, gpu: usize, sensor: Sensor) -> u64 {
        let processes = self.registry.all();
        let queues = |process: &Process| process.kfd().queues.values().any(|one| one.gpu == gpu);
        let used = processes.iter().any(|process| queues(process));
        let (idle, with_queues) = match sensor {
            Sensor::Busy => (0, 71),
            Sensor::Edge => (36_000, 58_000),
            Sensor::Power => (18_000_000, 241_000_000),
            Sensor::Shaders => (96_000_000, 2_304_000_000),
            Sensor::Memory => (96_000_000, 1_249_000_000),
            Sensor::Fan => (0, 1_320),
        };
        if used { with_queues } else { idle }
    }

    /// The folders of processes as they are now.
    pub(super) fn process_files(&self) -> Tree {
        let mut tree = Tree::default();
        tree.add(PROCESSES, Node::Folder);
        for process in self.registry.all() {
            process.describe(&mut tree);
        }
        tree
    }
}

impl Process {
    /// Its folder, once it has opened `/dev/kfd`.
    fn describe(&self, tree: &mut Tree) {
        if !lock(&self.files).paths().any(|path| path == "/dev/kfd") {
            return;
        }
        let folder = format!("{PROCESSES}/{}", self.id);
        let gpu_ids = &self.machine.registry.gpu_ids;
        let kfd = self.kfd();
        tree.add(&format!("{folder}/queues"), Node::Folder);
        // A process has the files of every GPU, whichever it uses.
        for (device, gpu_id) in kfd.devices.iter().zip(gpu_ids) {
            let local = device.bos.values().map(|bo| &bo.object);
            let local = local.filter(|object| matches!(object.kind, Memory::Vram { .. }));
            let bytes: u64 = local.map(|object| object.bytes).sum();
            tree.text(&format!("{folder}/vram_{gpu_id}"), bytes);
            // No time of SDMA is counted.
            tree.text(&format!("{folder}/sdma_{gpu_id}"), 0);
        }
        for (id, queue) in &kfd.queues {
            let at = format!("{folder}/queues/{id}");
            let kind = match queue.kind {
                queue_type::COMPUTE | queue_type::COMPUTE_AQL => COMPUTE,
                queue_type::SDMA => SDMA,
                queue_type::SDMA_XGMI => SDMA_XGMI,
                _ => SDMA_BY_ENG_ID,
            };
            let files = [
                ("size", queue.ring.1),
                ("type", kind),
                ("gpuid", gpu_ids[queue.gpu].into()),
            ];
            for (name, value) in files {
                // The kernel ends these without a newline.
                tree.add(
                    &format!("{at}/{name}"),
                    Node::Text(value.to_string().into_bytes()),
                );
            }
        }
    }
}
