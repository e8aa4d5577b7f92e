//! A client that brings a GPU up step by step, as drivers do; a test takes another step in between.

use std::sync::Arc;

use drivers_spec::nv::abi::{self, Struct};
use drivers_spec::nv::{class, control, escape, memory, uvm};
use twin_nv::client::{Memory, Pages, Wanted};
use twin_nv::config::Config;
use twin_nv::errno::{Errno, Failure};
use twin_nv::kernel::{Machine, Process};

/// Where arguments lie.
pub const ARG: u64 = 0x1000_0000;
/// Where parameters lie.
pub const PARAMS: u64 = 0x1100_0000;
/// Where lists lie.
pub const LIST: u64 = 0x1200_0000;

/// A process on a machine, with the usual files open.
pub struct Bench {
    pub machine: Arc<Machine>,
    pub process: Arc<Process>,
    pub memory: Arc<Pages>,
    pub ctl: i32,
    pub gpu: i32,
    pub uvm: i32,
    pub mm: i32,
    pub client: u32,
    pub device: u32,
    pub subdevice: u32,
    pub space: u32,
    pub group: u32,
    pub share: u32,
    pub ring: u32,
    pub channel: u32,
    pub compute: u32,
}

/// A shared mapping, at an address if there is one.
pub fn shared(at: Option<u64>, bytes: u64) -> Wanted {
    let fixed = if at.is_some() { libc::MAP_FIXED } else { 0 };
    Wanted {
        address: at.unwrap_or(0),
        bytes,
        protection: libc::PROT_READ | libc::PROT_WRITE,
        flags: libc::MAP_SHARED | fixed,
    }
}

/// Where the ring is.
pub const RING: u64 = 0x10_0000_0000;
/// Bytes of the memory with the ring and USERD.
pub const RING_BYTES: u64 = 0x20_0000;

impl Bench {
    /// A process with files.
    pub fn new(config: &str) -> Bench {
        let machine = Machine::new(Config::parse(config).unwrap()).unwrap();
        let memory = Arc::new(Pages::default());
        for at in [ARG, PARAMS, LIST] {
            memory.provide(at, 0x1_0000).unwrap();
        }
        let process = machine.attach(memory.clone());
        let open = |path| process.open(path).unwrap();
        let (ctl, gpu) = (open("/dev/nvidiactl"), open("/dev/nvidia0"));
        let (uvm, mm) = (open("/dev/nvidia-uvm"), open("/dev/nvidia-uvm"));
        Bench {
            machine,
            memory,
            ctl,
            gpu,
            uvm,
            mm,
            client: 0,
            device: 0,
            subdevice: 0,
            space: 0,
            group: 0,
            share: 0,
            ring: 0,
            channel: 0,
            compute: 0,
            process,
        }
    }

    /// With a client, a device and a subdevice.
    pub fn with_device(config: &str) -> Bench {
        let mut bench = Bench::new(config);
        bench.client = bench.root();
        let mut register = escape::RegisterFd { ctl_fd: bench.ctl };
        bench
            .escape(bench.gpu, &escape::REGISTER_FD, &mut register)
            .unwrap();
        let mut device = class::Nv0080Alloc::default();
        bench.device = bench.must(bench.client, class::NV01_DEVICE_0, Some(&mut device));
        let mut subdevice = class::Nv2080Alloc::default();
        bench.subdevice = bench.must(bench.device, class::NV20_SUBDEVICE_0, Some(&mut subdevice));
        bench
    }

    /// With an address space that UVM has.
    pub fn with_space(config: &str) -> Bench {
        let mut bench = Bench::with_device(config);
        let mut space = class::VaspaceAlloc {
            flags: memory::vaspace_flags::IS_EXTERNALLY_OWNED.put(1),
            va_base: 0x1000,
            ..Default::default()
        };
        bench.space = bench.must(bench.device, class::FERMI_VASPACE_A, Some(&mut space));
        assert_eq!(
            bench.uvm(uvm::INITIALIZE, &mut uvm::Initialize::default()),
            0
        );
        let mut mm = uvm::MmInitialize {
            uvm_fd: bench.uvm,
            ..Default::default()
        };
        bench
            .command(bench.mm, uvm::MM_INITIALIZE, &mut mm)
            .unwrap();
        assert_eq!(bench.register_gpu(0), 0);
        assert_eq!(bench.register_space(0, bench.space), 0);
        bench
    }

    /// With a group, a ring that is mapped, and a context share.
    pub fn with_group(config: &str) -> Bench {
        let mut bench = Bench::with_space(config);
        let mut group = class::ChannelGroupAlloc {
            engine_type: class::engine::GRAPHICS,
            ..Default::default()
        };
        bench.group = bench.must(
            bench.device,
            class::KEPLER_CHANNEL_GROUP_A,
            Some(&mut group),
        );
        let mut share = class::CtxShareAlloc {
            h_va_space: bench.space,
            flags: 1,
            ..Default::default()
        };
        bench.share = bench.must(bench.group, class::FERMI_CONTEXT_SHARE_A, Some(&mut share));
        bench.ring = bench.local(RING_BYTES);
        assert_eq!(bench.range(RING, RING_BYTES), 0);
        assert_eq!(bench.map(RING, RING_BYTES, bench.ring), 0);
        bench
    }

    /// With a channel for compute, registered.
    pub fn with_channel(config: &str) -> Bench {
        let mut bench = Bench::with_group(config);
        let (status, channel) = bench.channel(&mut bench.channel_params());
        assert_eq!(status, 0);
        bench.channel = channel;
        let compute = bench.machine.config.chips[0].facts().compute;
        bench.compute = bench.must::<class::GrAlloc>(channel, compute, None);
        assert_eq!(bench.register_channel(channel, 0x20_0000_0000), 0);
        bench
    }

    /// What a channel is made from, if nothing is wrong.
    pub fn channel_params(&self) -> class::ChannelAlloc {
        let mut params = class::ChannelAlloc {
            h_object_error: self.ring,
            gp_fifo_offset: RING,
            gp_fifo_entries: 1024,
            h_context_share: self.share,
            ..Default::default()
        };
        params.h_userd_memory[0] = self.ring;
        params.userd_offset[0] = 0x1_0000;
        params
    }

    /// Makes a channel in the group.
    pub fn channel(&self, params: &mut class::ChannelAlloc) -> (u32, u32) {
        let class = self.machine.config.chips[0].facts().channel;
        self.alloc(self.group, class.number, 0, Some(params))
    }

    /// The names of the rules that were broken.
    pub fn broken(&self) -> Vec<&'static str> {
        self.machine.broken_rules()
    }

    /// An ioctl with a struct.
    pub fn escape<T: Struct>(&self, fd: i32, call: &abi::Call, args: &mut T) -> Result<(), Errno> {
        let branch = self.machine.branch();
        let ioctl = escape::ioctl(call, branch).unwrap();
        self.memory.write(ARG, &args.encode(branch)).unwrap();
        self.process.ioctl(fd, ioctl.request, ARG)?;
        *args = self.take(ARG);
        Ok(())
    }

    /// A command of UVM on one of its files; the status is in the struct.
    pub fn command<T: Struct>(&self, fd: i32, call: abi::Call, args: &mut T) -> Result<(), Errno> {
        let branch = self.machine.branch();
        self.memory.write(ARG, &args.encode(branch)).unwrap();
        self.process.ioctl(fd, call.number, ARG)?;
        *args = self.take(ARG);
        Ok(())
    }

    /// A command on the first file of UVM; returns its status.
    pub fn uvm<T: Struct>(&self, call: abi::Call, args: &mut T) -> u32 {
        self.command(self.uvm, call, args).unwrap();
        let branch = self.machine.branch();
        let place = T::LAYOUT.fields(branch).find(|f| f.name == "rmStatus");
        let at = place.unwrap().at;
        u32::from_le_bytes(args.encode(branch)[at..at + 4].try_into().unwrap())
    }

    /// A struct of the client's memory.
    pub fn take<T: Struct>(&self, at: u64) -> T {
        let branch = self.machine.branch();
        let mut bytes = vec![0; T::LAYOUT.size(branch)];
        self.memory.read(at, &mut bytes).unwrap();
        T::decode(branch, &bytes).unwrap()
    }

    /// A client.
    pub fn root(&self) -> u32 {
        let mut args = escape::Alloc {
            h_class: class::NV01_ROOT_CLIENT.number,
            ..Default::default()
        };
        self.escape(self.ctl, &escape::RM_ALLOC, &mut args).unwrap();
        assert_eq!(args.status, 0);
        args.h_object_new
    }

    /// RM_ALLOC: status and handle.
    pub fn alloc<P: Struct>(
        &self,
        parent: u32,
        class: u32,
        handle: u32,
        params: Option<&mut P>,
    ) -> (u32, u32) {
        let branch = self.machine.branch();
        let mut args = escape::AllocRights {
            h_root: self.client,
            h_object_parent: parent,
            h_object_new: handle,
            h_class: class,
            ..Default::default()
        };
        if let Some(params) = &params {
            let bytes = params.encode(branch);
            self.memory.write(PARAMS, &bytes).unwrap();
            args.p_alloc_parms = PARAMS;
            args.params_size = bytes.len() as u32;
        }
        self.escape(self.ctl, &escape::RM_ALLOC_RIGHTS, &mut args)
            .unwrap();
        if let Some(params) = params {
            *params = self.take(PARAMS);
        }
        (args.status, args.h_object_new)
    }

    /// RM_ALLOC that has to do.
    pub fn must<P: Struct>(&self, parent: u32, class: abi::Call, params: Option<&mut P>) -> u32 {
        let (status, handle) = self.alloc(parent, class.number, 0, params);
        assert_eq!(status, 0, "{}: {:?}", class.name, self.broken());
        handle
    }

    /// RM_CONTROL: its status.
    pub fn control<P: Struct>(&self, object: u32, call: abi::Call, params: &mut P) -> u32 {
        let bytes = params.encode(self.machine.branch());
        self.memory.write(PARAMS, &bytes).unwrap();
        let status = self.control_of(object, call.number, bytes.len() as u32);
        *params = self.take(PARAMS);
        status
    }

    /// RM_CONTROL with what lies at [`PARAMS`].
    pub fn control_of(&self, object: u32, cmd: u32, size: u32) -> u32 {
        let mut args = escape::Control {
            h_client: self.client,
            h_object: object,
            cmd,
            params: PARAMS,
            params_size: size,
            ..Default::default()
        };
        self.escape(self.ctl, &escape::RM_CONTROL, &mut args)
            .unwrap();
        args.status
    }

    /// RM_FREE: its status.
    pub fn free(&self, handle: u32) -> u32 {
        let mut args = escape::Free {
            h_root: self.client,
            h_object_old: handle,
            ..Default::default()
        };
        self.escape(self.ctl, &escape::RM_FREE, &mut args).unwrap();
        args.status
    }

    /// Parameters of local memory.
    pub fn local_params(&self, bytes: u64) -> class::MemoryAlloc {
        class::MemoryAlloc {
            owner: self.client,
            size: bytes,
            ..Default::default()
        }
    }

    /// Local memory.
    pub fn local(&self, bytes: u64) -> u32 {
        let mut params = self.local_params(bytes);
        self.must(
            self.device,
            class::NV01_MEMORY_LOCAL_USER,
            Some(&mut params),
        )
    }

    /// System memory.
    pub fn system(&self, bytes: u64) -> u32 {
        let mut params = class::MemoryAlloc {
            attr: memory::attr::LOCATION.put(memory::attr::LOCATION_PCI),
            ..self.local_params(bytes)
        };
        self.must(self.device, class::NV01_MEMORY_SYSTEM, Some(&mut params))
    }

    /// The UUID of a GPU, as its subdevice tells it.
    pub fn uuid(&self, gpu: usize) -> [u8; 16] {
        let mut device = class::Nv0080Alloc {
            device_id: gpu as u32,
            ..Default::default()
        };
        let device = self.must(self.client, class::NV01_DEVICE_0, Some(&mut device));
        let sub = self.must::<class::Nv2080Alloc>(device, class::NV20_SUBDEVICE_0, None);
        let mut gid = control::GidInfo {
            flags: 2,
            length: 16,
            ..Default::default()
        };
        let status = self.control(sub, control::NV2080_CTRL_CMD_GPU_GET_GID_INFO, &mut gid);
        assert_eq!(status, 0);
        assert_eq!(self.free(device), 0);
        gid.data[..16].try_into().unwrap()
    }

    pub fn register_gpu(&self, gpu: usize) -> u32 {
        let mut args = uvm::RegisterGpu {
            gpu_uuid: self.uuid(gpu),
            rm_ctrl_fd: -1,
            ..Default::default()
        };
        self.uvm(uvm::REGISTER_GPU, &mut args)
    }

    pub fn register_space(&self, gpu: usize, space: u32) -> u32 {
        let mut args = uvm::RegisterGpuVaspace {
            gpu_uuid: self.uuid(gpu),
            rm_ctrl_fd: self.ctl,
            h_client: self.client,
            h_va_space: space,
            ..Default::default()
        };
        self.uvm(uvm::REGISTER_GPU_VASPACE, &mut args)
    }

    pub fn register_channel(&self, channel: u32, base: u64) -> u32 {
        let mut args = uvm::RegisterChannel {
            gpu_uuid: self.uuid(0),
            rm_ctrl_fd: self.ctl,
            h_client: self.client,
            h_channel: channel,
            base,
            length: 0x40_0000,
            ..Default::default()
        };
        self.uvm(uvm::REGISTER_CHANNEL, &mut args)
    }

    pub fn range(&self, base: u64, length: u64) -> u32 {
        let mut args = uvm::CreateExternalRange {
            base,
            length,
            ..Default::default()
        };
        self.uvm(uvm::CREATE_EXTERNAL_RANGE, &mut args)
    }

    /// What maps memory for the first GPU.
    pub fn map_params(&self, base: u64, length: u64, memory: u32) -> uvm::MapExternalAllocation {
        let mut args = uvm::MapExternalAllocation {
            base,
            length,
            gpu_attributes_count: 1,
            rm_ctrl_fd: self.ctl,
            h_client: self.client,
            h_memory: memory,
            ..Default::default()
        };
        args.per_gpu_attributes[0].gpu_uuid = self.uuid(0);
        args.per_gpu_attributes[0].gpu_mapping_type = uvm::mapping::READ_WRITE_ATOMIC;
        args
    }

    pub fn map(&self, base: u64, length: u64, memory: u32) -> u32 {
        let mut args = self.map_params(base, length, memory);
        self.uvm(uvm::MAP_EXTERNAL_ALLOCATION, &mut args)
    }

    pub fn free_range(&self, base: u64, length: u64) -> u32 {
        let mut args = uvm::Free {
            base,
            length,
            ..Default::default()
        };
        self.uvm(uvm::FREE, &mut args)
    }

    pub fn schedule(&self, object: u32) -> u32 {
        let mut params = control::GpfifoSchedule {
            enable: 1,
            ..Default::default()
        };
        let call = match object == self.group {
            true => control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
            false => control::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE,
        };
        self.control(object, call, &mut params)
    }

    /// Says that a file maps memory.
    pub fn map_cpu(&self, fd: i32, memory: u32, offset: u64, length: u64) -> u32 {
        let mut args = escape::MapMemoryWithFd {
            params: escape::MapMemory {
                h_client: self.client,
                h_device: self.device,
                h_memory: memory,
                offset,
                length,
                ..Default::default()
            },
            fd,
            ..Default::default()
        };
        self.escape(self.ctl, &escape::RM_MAP_MEMORY, &mut args)
            .unwrap();
        args.params.status
    }

    /// Memory of the process, pinned: status and handle.
    pub fn pin(&self, fd: i32, at: u64, flags: u32) -> Result<(u32, u32), Errno> {
        let mut args = escape::AllocMemoryWithFd {
            params: escape::AllocMemory {
                h_root: self.client,
                h_object_parent: self.device,
                h_class: class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR.number,
                flags,
                p_memory: at,
                limit: 0xfff,
                ..Default::default()
            },
            fd: -1,
            ..Default::default()
        };
        self.escape(fd, &escape::RM_ALLOC_MEMORY, &mut args)?;
        Ok((args.params.status, args.params.h_object_new))
    }
}

/// The flags that pin memory.
pub const PIN: u32 = 0x4000_1010;

/// The errno of a failure.
pub fn errno(failure: Failure) -> i32 {
    match failure {
        Failure::Errno(errno) => errno.0,
        Failure::Status(status) => panic!("status {status:#x}"),
    }
}
