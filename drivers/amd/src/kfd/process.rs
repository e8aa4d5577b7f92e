//! [`Process`]: KFD's state of this process, kept until the process ends.
//!
//! The kernel binds the address space of a render node to the process once, and does not give it back
//! before the process ends. So it is kept with the machine, and a device that is opened again finds it.
//!
//! Source: Linux, amdkfd/kfd_process.c, `kfd_process_device_init_vm`.

use std::sync::{Arc, Mutex};

use drivers_gpu::backend::Space;
use drivers_spec::amd::drm::{self, Info, InfoDevice, info};
use drivers_spec::amd::kfd::{
    self, AcquireVmArgs, GetAvailableMemoryArgs, GetProcessAperturesNewArgs,
    ProcessDeviceApertures, mmap,
};
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, TransportError};
use zerocopy::{FromZeros, IntoBytes};

use super::call::Call;
use super::survey::{self, KFD, Unusable};
use super::topology::Node;

/// KFD's side of this process.
pub(super) struct Process {
    /// `/dev/kfd`.
    pub(super) kfd: Arc<dyn DevFile>,
    /// Version of the interface.
    pub(super) version: (u32, u32),
    /// The addresses of its GPUs.
    pub(super) space: Arc<Space>,
    gpus: Mutex<Vec<Arc<Gpu>>>,
}

/// A GPU whose address space the process has.
pub(super) struct Gpu {
    /// KFD's number for it.
    pub(super) id: u32,
    /// The facts of the topology.
    pub(super) node: Node,
    /// Its render node: maps memory.
    pub(super) render: Arc<dyn DevFile>,
    /// The facts of the graphics driver.
    pub(super) info: InfoDevice,
    /// The flat addresses of LDS and scratch, and those that may be mapped.
    pub(super) apertures: ProcessDeviceApertures,
    kfd: Arc<dyn DevFile>,
    doorbells: Mutex<Option<View>>,
}

impl Process {
    /// The process on a machine; the same for every device that is opened on it.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn on(machine: &dyn Machine) -> Result<Arc<Process>, Unusable> {
        machine.per_process().get_or_make(|| {
            let open = machine.open(KFD);
            let kfd = open.map_err(|e| Unusable::from_error(e, KFD))?;
            let version = survey::version(&*kfd)?;
            Ok(Process {
                kfd,
                version,
                space: Arc::default(),
                gpus: Mutex::default(),
            })
        })
    }

    /// A GPU, with its address space bound to the process.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn gpu(
        &self,
        machine: &dyn Machine,
        node: &Node,
    ) -> Result<Arc<Gpu>, TransportError> {
        // Entries are pushed whole.
        let mut gpus = lock(&self.gpus);
        if let Some(gpu) = gpus.iter().find(|gpu| gpu.id == node.gpu_id) {
            return Ok(gpu.clone());
        }
        let render = machine.open(&node.render())?;
        let info = device_info(&*render)?;
        let apertures = self.apertures(node)?;
        let mut args = AcquireVmArgs {
            drm_fd: render.number()?,
            gpu_id: node.gpu_id,
        };
        self.kfd.call(kfd::ACQUIRE_VM, &mut args)?;
        let gpu = Arc::new(Gpu {
            id: node.gpu_id,
            node: node.clone(),
            render,
            info,
            apertures,
            kfd: self.kfd.clone(),
            doorbells: Mutex::default(),
        });
        // Kept from here on: the address space is bound to this open file for good.
        gpus.push(gpu.clone());
        Ok(gpu)
    }

    /// The apertures of a GPU.
    fn apertures(&self, node: &Node) -> Result<ProcessDeviceApertures, TransportError> {
        let mut args = GetProcessAperturesNewArgs::default();
        // Without memory for them the kernel returns their number.
        self.kfd.call(kfd::GET_PROCESS_APERTURES_NEW, &mut args)?;
        let mut all = vec![ProcessDeviceApertures::new_zeroed(); args.num_of_nodes as usize];
        let memory = &mut [all.as_mut_bytes()];
        let ioctl = kfd::GET_PROCESS_APERTURES_NEW;
        self.kfd.call_with(ioctl, &mut args, memory)?;
        all.truncate(args.num_of_nodes as usize);
        let found = all.into_iter().find(|one| one.gpu_id == node.gpu_id);
        found.ok_or_else(|| {
            let why = format!(
                "no apertures for gpu_id {:#x}, only for other GPUs",
                node.gpu_id
            );
            let ioctl = kfd::GET_PROCESS_APERTURES_NEW.name;
            TransportError::new(self.kfd.name(), ioctl, Fault::Unsupported(why))
        })
    }
}

/// What the graphics driver knows of a GPU. Fields that an older kernel does not fill are 0.
fn device_info(render: &dyn DevFile) -> Result<InfoDevice, TransportError> {
    let mut answer = InfoDevice::new_zeroed();
    let mut args = Info {
        query: info::DEV_INFO,
        ..Info::default()
    };
    render.call_with(drm::AMDGPU_INFO, &mut args, &mut [answer.as_mut_bytes()])?;
    Ok(answer)
}

impl Gpu {
    /// Asks the graphics driver for the GPU. Source: Linux, drivers/gpu/drm/drm_ioctl.c, `drm_ioctl`: ENODEV once it is
    /// unplugged.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn is_there(&self) -> Result<(), TransportError> {
        device_info(&*self.render).map(|_| ())
    }

    /// Bytes of system memory that GPUs may use, free and in all; 0 where the kernel does not tell.
    ///
    /// Source: Linux, amdgpu/amdgpu_gtt_mgr.c.
    pub(super) fn system_memory(&self, machine: &dyn Machine) -> (u64, u64) {
        let folder = format!("/sys/bus/pci/devices/{}", self.node.pci());
        let number = |name: &str| -> Option<u64> {
            let text = machine.read(&format!("{folder}/mem_info_gtt_{name}"));
            text.ok()?.trim().parse().ok()
        };
        let total = number("total").unwrap_or(0);
        (total.saturating_sub(number("used").unwrap_or(total)), total)
    }

    /// Bytes of VRAM that can be allocated now.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn available(&self) -> Result<u64, TransportError> {
        let mut args = GetAvailableMemoryArgs {
            gpu_id: self.id,
            ..GetAvailableMemoryArgs::default()
        };
        self.kfd.call(kfd::AVAILABLE_MEMORY, &mut args)?;
        Ok(args.available)
    }

    /// The doorbells of the process on this GPU, mapped once. `offset` is that of a queue.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn doorbells(&self, offset: u64) -> Result<View, TransportError> {
        let mut doorbells = lock(&self.doorbells);
        if let Some(view) = &*doorbells {
            return Ok(view.clone());
        }
        let view = self.kfd.mmap(Map {
            offset: offset & !(mmap::DOORBELL_BYTES - 1),
            len: mmap::DOORBELL_BYTES as usize,
            prot: Prot::ReadWrite,
            at: None,
        })?;
        *doorbells = Some(view.clone());
        Ok(view)
    }
}
