//! UVM: one address space for all GPUs of the process, into which memory of RM is mapped.
//!
//! Source: open-gpu-kernel-modules, kernel-open/nvidia-uvm/{uvm,uvm_va_space,uvm_map_external,
//! uvm_user_channel}.c.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drivers_spec::nv::abi::Call;
use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::uvm;
use hcq::transport::{DevFile, Machine};

use super::call::{Answered, call};
use super::ioctls::{Ioctls, number};
use crate::rm::client::Client;
use crate::rm::device::Uuid;
use crate::rm::transport::{Result, again};

/// The device file of UVM.
pub(super) const UVM: &str = "/dev/nvidia-uvm";

/// `UVM_INIT_FLAGS_DISABLE_HMM`: memory of the process is no memory of GPUs unless it is mapped for them.
/// Source: uvm_linux_ioctl.h, uvm_types.h.
const DISABLE_HMM: u64 = 1;

/// UVM's side of the process. It ends with its files.
pub(super) struct Uvm {
    file: Arc<dyn DevFile>,
    /// Holds the memory of the process; stays open.
    _memory: Arc<dyn DevFile>,
    rm: Arc<Client>,
    control: i32,
}

impl Uvm {
    /// The address space of a client.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(super) fn new(machine: &dyn Machine, files: &Ioctls, rm: &Arc<Client>) -> Result<Arc<Uvm>> {
        let file = machine.open(UVM)?;
        let memory = machine.open(UVM)?;
        let own = number(&*file)?;
        let uvm = Uvm {
            file,
            control: number(&*files.control)?,
            rm: rm.clone(),
            _memory: memory,
        };
        let args = uvm::Initialize {
            flags: DISABLE_HMM,
            ..Default::default()
        };
        uvm.call(&uvm::INITIALIZE, &args)?;
        let args = uvm::MmInitialize {
            uvm_fd: own,
            ..Default::default()
        };
        uvm.call_on(&*uvm._memory, &uvm::MM_INITIALIZE, &args)?;
        Ok(Arc::new(uvm))
    }

    fn call<T: Answered>(&self, command: &Call, args: &T) -> Result {
        self.call_on(&*self.file, command, args)
    }

    fn call_on<T: Answered>(&self, file: &dyn DevFile, command: &Call, args: &T) -> Result {
        let branch = self.rm.branch();
        call::<T>(file, branch, command.name, || {
            Argument::uvm(command, branch, args)
        })?;
        Ok(())
    }

    /// Registers a GPU and its address space; dropping the result unregisters both.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(super) fn register(self: &Arc<Self>, uuid: Uuid, space: u32) -> Result<Registered> {
        let args = uvm::RegisterGpu {
            gpu_uuid: uuid,
            rm_ctrl_fd: self.control,
            h_client: self.rm.handle(),
            ..Default::default()
        };
        self.call(&uvm::REGISTER_GPU, &args)?;
        let mut registered = Registered {
            uvm: self.clone(),
            uuid,
            space: false,
        };
        let args = uvm::RegisterGpuVaspace {
            gpu_uuid: uuid,
            rm_ctrl_fd: self.control,
            h_client: self.rm.handle(),
            h_va_space: space,
            ..Default::default()
        };
        self.call(&uvm::REGISTER_GPU_VASPACE, &args)?;
        registered.space = true;
        Ok(registered)
    }

    /// Enables peer access between two GPUs, until one of them is unregistered.
    ///
    /// # Errors
    /// [`super::CallError`]: they do not support peer access.
    pub(super) fn enable_peers(&self, a: Uuid, b: Uuid) -> Result {
        let args = uvm::EnablePeerAccess {
            gpu_uuid_a: a,
            gpu_uuid_b: b,
            ..Default::default()
        };
        self.call(&uvm::ENABLE_PEER_ACCESS, &args)
    }

    /// Addresses for memory of RM.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(super) fn range(self: &Arc<Self>, base: u64, length: u64) -> Result<Range> {
        let args = uvm::CreateExternalRange {
            base,
            length,
            ..Default::default()
        };
        self.call(&uvm::CREATE_EXTERNAL_RANGE, &args)?;
        Ok(Range {
            uvm: self.clone(),
            base,
            length,
        })
    }

    /// Takes a channel in; `window` are free addresses, first and how many, for buffers that graphics has
    /// for it.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(super) fn register_channel(
        self: &Arc<Self>,
        uuid: Uuid,
        channel: u32,
        window: (u64, u64),
    ) -> Result<RegisteredChannel> {
        let args = uvm::RegisterChannel {
            gpu_uuid: uuid,
            rm_ctrl_fd: self.control,
            h_client: self.rm.handle(),
            h_channel: channel,
            base: window.0,
            length: window.1,
            ..Default::default()
        };
        self.call(&uvm::REGISTER_CHANNEL, &args)?;
        Ok(RegisteredChannel {
            uvm: self.clone(),
            uuid,
            channel,
            is_there: AtomicBool::new(true),
        })
    }
}

/// A GPU that UVM knows.
pub(super) struct Registered {
    uvm: Arc<Uvm>,
    uuid: Uuid,
    /// With its address space.
    space: bool,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let args = uvm::UnregisterGpuVaspace {
            gpu_uuid: self.uuid,
            ..Default::default()
        };
        if self.space {
            again("an address space of UVM", || {
                self.uvm.call(&uvm::UNREGISTER_GPU_VASPACE, &args)
            });
        }
        let args = uvm::UnregisterGpu {
            gpu_uuid: self.uuid,
            ..Default::default()
        };
        again("a GPU of UVM", || {
            self.uvm.call(&uvm::UNREGISTER_GPU, &args)
        });
    }
}

/// A channel that UVM knows.
pub(super) struct RegisteredChannel {
    uvm: Arc<Uvm>,
    uuid: Uuid,
    channel: u32,
    is_there: AtomicBool,
}

impl RegisteredChannel {
    /// Has UVM forget it, once.
    pub(super) fn end(&self) {
        if !self.is_there.swap(false, Ordering::Relaxed) {
            return;
        }
        let args = uvm::UnregisterChannel {
            gpu_uuid: self.uuid,
            h_client: self.uvm.rm.handle(),
            h_channel: self.channel,
            ..Default::default()
        };
        again("a channel of UVM", || {
            self.uvm.call(&uvm::UNREGISTER_CHANNEL, &args)
        });
    }
}

impl Drop for RegisteredChannel {
    fn drop(&mut self) {
        self.end();
    }
}

/// Addresses of the process for memory of RM; unmapped and freed on drop.
pub(super) struct Range {
    uvm: Arc<Uvm>,
    base: u64,
    length: u64,
}

impl Range {
    /// Maps memory for a GPU, from its first byte.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(super) fn map(&self, uuid: Uuid, memory: u32) -> Result {
        let mut args = uvm::MapExternalAllocation {
            base: self.base,
            length: self.length,
            gpu_attributes_count: 1,
            rm_ctrl_fd: self.uvm.control,
            h_client: self.uvm.rm.handle(),
            h_memory: memory,
            ..Default::default()
        };
        args.per_gpu_attributes[0] = uvm::GpuMappingAttributes {
            gpu_uuid: uuid,
            gpu_mapping_type: uvm::mapping::READ_WRITE_ATOMIC,
            ..Default::default()
        };
        self.uvm.call(&uvm::MAP_EXTERNAL_ALLOCATION, &args)
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let args = uvm::Free {
            base: self.base,
            length: self.length,
            ..Default::default()
        };
        again("a range of UVM", || self.uvm.call(&uvm::FREE, &args));
    }
}
