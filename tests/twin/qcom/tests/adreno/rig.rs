//! A client of KGSL.

use std::sync::Arc;

use drivers_spec::qcom::kgsl::{self, Context, Object, memory, timestamp};
use hcq::transport::IoctlOf;
use twin::caller::{Caller, Here};
use twin::errno::{Errno, Result};
use twin::process::Wanted;
use twin_qcom::config::Config;
use twin_qcom::kernel::{Machine, Process};
use zerocopy::IntoBytes;

/// How long tests wait for what has to happen, in milliseconds.
pub const SOON: u32 = 20_000;

/// What mmap makes: anywhere, to be read and written.
pub fn anywhere(bytes: u64) -> Wanted {
    Wanted {
        address: 0,
        bytes,
        protection: libc::PROT_READ | libc::PROT_WRITE,
        flags: libc::MAP_SHARED,
    }
}

/// Where something of this process is, for a call that reads or writes it.
pub fn address<T>(of: &mut T) -> u64 {
    std::ptr::from_mut(of).expose_provenance() as u64
}

/// The same of an array.
pub fn list<T>(of: &mut [T]) -> u64 {
    of.as_mut_ptr().expose_provenance() as u64
}

/// Memory that client and GPU have.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub id: u32,
    pub gpu: u64,
    pub cpu: u64,
}

impl Memory {
    pub fn put(&self, at: u64, words: &[u32]) {
        Here.write(self.cpu + at, words.as_bytes()).unwrap();
    }

    pub fn words<const N: usize>(&self, at: u64) -> [u32; N] {
        let mut words = [0; N];
        Here.read(self.cpu + at, words.as_mut_bytes()).unwrap();
        words
    }

    pub fn word(&self, at: u64) -> u32 {
        self.words::<1>(at)[0]
    }
}

/// An ioctl.
pub fn call<T>(process: &Process, fd: i32, ioctl: IoctlOf<T>, args: &mut T) -> Result {
    process.ioctl(fd, ioctl.ioctl().request, address(args))
}

/// See the front page.
pub struct Rig {
    pub machine: Arc<Machine>,
    pub process: Arc<Process>,
    pub fd: i32,
    pub context: u32,
}

impl Rig {
    pub fn new(config: &str) -> Rig {
        let machine = Machine::new(Config::parse(config).unwrap()).unwrap();
        let process = machine.attach(Arc::new(Here));
        let fd = process.open("/dev/kgsl-3d0", None).unwrap();
        let mut rig = Rig {
            machine,
            process,
            fd,
            context: 0,
        };
        rig.context = rig.create(Context::empty()).unwrap();
        rig
    }

    /// Another file of another process.
    pub fn other(&self) -> Rig {
        let process = self.machine.attach(Arc::new(Here));
        let fd = process.open("/dev/kgsl-3d0", None).unwrap();
        let mut rig = Rig {
            machine: self.machine.clone(),
            process,
            fd,
            context: 0,
        };
        rig.context = rig.create(Context::empty()).unwrap();
        rig
    }

    pub fn call<T>(&self, ioctl: IoctlOf<T>, args: &mut T) -> Result {
        call(&self.process, self.fd, ioctl, args)
    }

    /// A context.
    pub fn create(&self, flags: Context) -> Result<u32> {
        let flags = (flags | Context::PREAMBLE | Context::NO_GMEM_ALLOC).bits();
        let mut args = kgsl::DrawctxtCreate {
            flags,
            drawctxt_id: 0,
        };
        self.call(kgsl::DRAWCTXT_CREATE, &mut args)?;
        Ok(args.drawctxt_id)
    }

    /// An object: its number and its address.
    pub fn object(&self, bytes: u64, flags: u64) -> Result<(u32, u64)> {
        let mut args = kgsl::GpuobjAlloc {
            size: bytes,
            flags,
            ..kgsl::GpuobjAlloc::default()
        };
        self.call(kgsl::GPUOBJ_ALLOC, &mut args)?;
        Ok((args.id, self.info(args.id)?.gpuaddr))
    }

    pub fn info(&self, id: u32) -> Result<kgsl::GpuobjInfo> {
        let mut info = kgsl::GpuobjInfo {
            id,
            ..kgsl::GpuobjInfo::default()
        };
        self.call(kgsl::GPUOBJ_INFO, &mut info)?;
        Ok(info)
    }

    /// Memory of a cache mode.
    pub fn alloc(&self, bytes: u64, mode: u64) -> Memory {
        let (id, gpu) = self.object(bytes, mode << memory::CACHEMODE_SHIFT).unwrap();
        let offset = kgsl::mmap_offset(id);
        let cpu = self.process.mmap(anywhere(bytes), self.fd, offset).unwrap();
        Memory { id, gpu, cpu }
    }

    pub fn free(&self, id: u32) -> Result {
        let mut args = kgsl::GpuobjFree {
            id,
            ..kgsl::GpuobjFree::default()
        };
        self.call(kgsl::GPUOBJ_FREE, &mut args)
    }

    /// Submits commands that lie somewhere.
    pub fn submit_at(&self, context: u32, at: u64, dwords: usize) -> Result<u32> {
        let mut ibs = [kgsl::CommandObject {
            gpuaddr: at,
            size: dwords as u64 * 4,
            flags: Object::IB.bits(),
            ..kgsl::CommandObject::default()
        }];
        let mut args = kgsl::GpuCommand {
            context_id: context,
            cmdlist: list(&mut ibs),
            cmdsize: size_of::<kgsl::CommandObject>() as u32,
            numcmds: 1,
            ..kgsl::GpuCommand::default()
        };
        self.call(kgsl::GPU_COMMAND, &mut args)?;
        Ok(args.timestamp)
    }

    /// Puts commands into new memory.
    pub fn commands(&self, words: &[u32]) -> Memory {
        let bytes = (words.len() as u64 * 4).next_multiple_of(kgsl::PAGE);
        let memory = self.alloc(bytes, memory::WRITECOMBINE);
        memory.put(0, words);
        memory
    }

    /// Submits commands.
    pub fn submit(&self, words: &[u32]) -> Result<u32> {
        let commands = self.commands(words);
        self.submit_at(self.context, commands.gpu, words.len())
    }

    /// Submits commands, and waits for them.
    pub fn run(&self, words: &[u32]) {
        let timestamp = self.submit(words).unwrap();
        self.wait(timestamp).unwrap();
    }

    pub fn wait(&self, timestamp: u32) -> Result {
        self.wait_for(self.context, timestamp, SOON)
    }

    pub fn wait_for(&self, context: u32, timestamp: u32, timeout: u32) -> Result {
        let mut args = kgsl::WaitTimestamp {
            context_id: context,
            timestamp,
            timeout,
        };
        self.call(kgsl::DEVICE_WAITTIMESTAMP_CTXTID, &mut args)
    }

    /// A timestamp of a context.
    pub fn timestamp(&self, context: u32, kind: u32) -> Result<u32> {
        let mut args = kgsl::ReadTimestamp {
            context_id: context,
            kind,
            timestamp: 0,
        };
        self.call(kgsl::CMDSTREAM_READTIMESTAMP_CTXTID, &mut args)?;
        Ok(args.timestamp)
    }

    pub fn retired(&self) -> u32 {
        self.timestamp(self.context, timestamp::RETIRED).unwrap()
    }

    /// A property that is that.
    pub fn property<T>(&self, kind: u32, value: &mut T) -> Result {
        self.sized(kind, value, size_of::<T>())
    }

    pub fn sized<T>(&self, kind: u32, value: &mut T, bytes: usize) -> Result {
        let mut args = kgsl::Property {
            kind,
            value: address(value),
            sizebytes: bytes as u64,
            ..kgsl::Property::default()
        };
        self.call(kgsl::DEVICE_GETPROPERTY, &mut args)
    }

    pub fn reset_status(&self, context: u32) -> Result<u32> {
        let mut value = context;
        self.property(kgsl::property::GPU_RESET_STAT, &mut value)?;
        Ok(value)
    }

    /// Cleans or invalidates an object.
    pub fn sync(&self, id: u32, op: kgsl::CacheOp) -> Result {
        let mut one = [kgsl::GpuobjSyncObj {
            id,
            op: op.bits(),
            ..kgsl::GpuobjSyncObj::default()
        }];
        let mut args = kgsl::GpuobjSync {
            objs: list(&mut one),
            obj_len: size_of::<kgsl::GpuobjSyncObj>() as u32,
            count: 1,
        };
        self.call(kgsl::GPUOBJ_SYNC, &mut args)
    }

    pub fn broken(&self) -> Vec<&'static str> {
        self.machine.broken_rules()
    }
}

/// The errno of a call that fails.
pub fn errno<T: std::fmt::Debug>(done: Result<T>) -> Errno {
    done.unwrap_err()
}
