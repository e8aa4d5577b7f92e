//! A client of the kernel driver, for tests: what a runtime does, in the fewest lines.

use std::sync::Arc;

use drivers_spec::amd::kfd::{self, Alloc, queue_type};
use hcq::transport::IoctlOf;
use twin_amd::config::Config;
use twin_amd::kernel::errno::Errno;
use twin_amd::kernel::{Machine, Process};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const PAGE: u64 = 4096;
/// What tests allocate rings and pages with.
pub const GTT: Alloc = ALL
    .union(Alloc::GTT)
    .union(Alloc::COHERENT)
    .union(Alloc::UNCACHED);
pub const VRAM: Alloc = ALL.union(Alloc::VRAM);
const ALL: Alloc = Alloc::WRITABLE
    .union(Alloc::EXECUTABLE)
    .union(Alloc::NO_SUBSTITUTE);

pub type Result<T = ()> = std::result::Result<T, Errno>;

/// A process with `/dev/kfd` and every render node open.
pub struct Client {
    pub machine: Arc<Machine>,
    pub process: Arc<Process>,
    pub kfd: i32,
    pub render: Vec<i32>,
    pub gpu_ids: Vec<u32>,
}

/// Memory with a handle.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub va: u64,
    pub bytes: u64,
    pub handle: u64,
    pub offset: u64,
}

/// The buffers of a queue.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub ring: Memory,
    pub pointers: Memory,
    pub eop: Memory,
    pub context: Memory,
}

pub fn machine(config: &str) -> Arc<Machine> {
    Machine::new(Config::parse(config).unwrap()).unwrap()
}

/// Addresses that nothing else has: memory that may not be touched.
pub fn reserve(bytes: u64) -> u64 {
    map(bytes, libc::PROT_NONE)
}

/// Memory of the client, all zeros.
pub fn anonymous(bytes: u64) -> u64 {
    map(bytes, libc::PROT_READ | libc::PROT_WRITE)
}

fn map(bytes: u64, protection: i32) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address that the system chooses.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            protection,
            flags,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    at as u64
}

/// Reads what a GPU or the client wrote.
pub fn load(address: u64) -> u64 {
    // SAFETY: tests only ask for 8 aligned bytes of memory that they have mapped.
    unsafe { (address as *const u64).read_volatile() }
}

/// Writes, as a client does.
pub fn store(address: u64, value: u64) {
    // SAFETY: as for `load`.
    unsafe { (address as *mut u64).write_volatile(value) }
}

impl Client {
    /// A client of a machine of its own.
    pub fn new(config: &str) -> Self {
        Self::on(&machine(config))
    }

    /// A client of that machine, with every address space acquired.
    pub fn on(machine: &Arc<Machine>) -> Self {
        let client = Self::bare(machine);
        for gpu in 0..client.gpu_ids.len() {
            client.acquire(gpu).unwrap();
        }
        client
    }

    /// A client that has only opened the files.
    pub fn bare(machine: &Arc<Machine>) -> Self {
        let process = machine.attach();
        let kfd = process
            .open("/dev/kfd", libc::O_RDWR | libc::O_CLOEXEC)
            .unwrap();
        let gpu_ids = machine.gpu_ids();
        let open = |minor| {
            process
                .open(&format!("/dev/dri/renderD{minor}"), libc::O_RDWR)
                .unwrap()
        };
        let render = (128..128 + gpu_ids.len()).map(open).collect();
        Self {
            machine: machine.clone(),
            process,
            kfd,
            render,
            gpu_ids,
        }
    }

    /// An ioctl of `/dev/kfd`.
    pub fn call<T: IntoBytes + FromBytes + Immutable + KnownLayout>(
        &self,
        ioctl: IoctlOf<T>,
        args: &mut T,
    ) -> Result {
        self.process
            .ioctl(self.kfd, ioctl.request, &raw mut *args as u64)
    }

    pub fn acquire(&self, gpu: usize) -> Result {
        let (drm_fd, gpu_id) = (self.render[gpu] as u32, self.gpu_ids[gpu]);
        self.call(kfd::ACQUIRE_VM, &mut kfd::AcquireVmArgs { drm_fd, gpu_id })
    }

    pub fn alloc_at(
        &self,
        gpu: usize,
        va: u64,
        bytes: u64,
        flags: Alloc,
        user: u64,
    ) -> Result<Memory> {
        let mut args = kfd::AllocMemoryOfGpuArgs {
            va_addr: va,
            size: bytes,
            mmap_offset: user,
            gpu_id: self.gpu_ids[gpu],
            flags: flags.bits(),
            ..Default::default()
        };
        self.call(kfd::ALLOC_MEMORY_OF_GPU, &mut args)?;
        Ok(Memory {
            va,
            bytes,
            handle: args.handle,
            offset: args.mmap_offset,
        })
    }

    /// Memory at an address of its own, mapped on its GPU; GTT also for the client.
    pub fn memory(&self, gpu: usize, bytes: u64, flags: Alloc) -> Memory {
        let memory = self.alloc_at(gpu, reserve(bytes), bytes, flags, 0).unwrap();
        if flags.intersects(Alloc::GTT | Alloc::PUBLIC) {
            assert_eq!(self.mmap(gpu, memory), Ok(memory.va));
        }
        self.map(&[gpu], memory).unwrap();
        memory
    }

    /// Maps memory for the client at its address.
    pub fn mmap(&self, gpu: usize, memory: Memory) -> Result<u64> {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
        );
        self.process.mmap(
            memory.va,
            memory.bytes,
            protection,
            flags,
            self.render[gpu],
            memory.offset,
        )
    }

    pub fn map(&self, gpus: &[usize], memory: Memory) -> Result<u32> {
        let ids: Vec<u32> = gpus.iter().map(|&gpu| self.gpu_ids[gpu]).collect();
        let mut args = kfd::MapMemoryToGpuArgs {
            handle: memory.handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        self.call(kfd::MAP_MEMORY_TO_GPU, &mut args)
            .map(|()| args.n_success)
    }

    pub fn unmap(&self, gpus: &[usize], memory: Memory) -> Result<u32> {
        let ids: Vec<u32> = gpus.iter().map(|&gpu| self.gpu_ids[gpu]).collect();
        let mut args = kfd::UnmapMemoryFromGpuArgs {
            handle: memory.handle,
            device_ids_array_ptr: ids.as_ptr() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        self.call(kfd::UNMAP_MEMORY_FROM_GPU, &mut args)
            .map(|()| args.n_success)
    }

    pub fn free(&self, memory: Memory) -> Result {
        self.call(
            kfd::FREE_MEMORY_OF_GPU,
            &mut kfd::FreeMemoryOfGpuArgs {
                handle: memory.handle,
            },
        )
    }

    /// Buffers that the kernel takes for a compute queue.
    pub fn buffers(&self, gpu: usize) -> Buffers {
        let sizes = self.machine.config.chip.queue_sizes();
        Buffers {
            ring: self.memory(gpu, 0x1000, GTT),
            pointers: self.memory(gpu, PAGE, GTT),
            eop: self.memory(gpu, sizes.eop, VRAM),
            context: self.memory(gpu, sizes.buffer, VRAM),
        }
    }

    /// The arguments of a PM4 queue with these buffers.
    pub fn queue_args(&self, gpu: usize, with: &Buffers) -> kfd::CreateQueueArgs {
        let sizes = self.machine.config.chip.queue_sizes();
        kfd::CreateQueueArgs {
            ring_base_address: with.ring.va,
            write_pointer_address: with.pointers.va + 56,
            read_pointer_address: with.pointers.va + 128,
            ring_size: with.ring.bytes as u32,
            gpu_id: self.gpu_ids[gpu],
            queue_type: queue_type::COMPUTE,
            queue_percentage: 100,
            queue_priority: 7,
            eop_buffer_address: with.eop.va,
            eop_buffer_size: with.eop.bytes,
            ctx_save_restore_address: with.context.va,
            ctx_save_restore_size: sizes.context,
            ctl_stack_size: sizes.ctl_stack,
            ..Default::default()
        }
    }

    pub fn create(&self, args: kfd::CreateQueueArgs) -> Result<kfd::CreateQueueArgs> {
        let mut args = args;
        self.call(kfd::CREATE_QUEUE, &mut args).map(|()| args)
    }

    pub fn destroy(&self, queue_id: u32) -> Result {
        self.call(
            kfd::DESTROY_QUEUE,
            &mut kfd::DestroyQueueArgs { queue_id, pad: 0 },
        )
    }

    /// The address of a queue's doorbell.
    pub fn doorbell(&self, queue: &kfd::CreateQueueArgs) -> u64 {
        let (page, at) = (
            queue.doorbell_offset & !0x1fff,
            queue.doorbell_offset & 0x1fff,
        );
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        self.process
            .mmap(0, 0x2000, protection, libc::MAP_SHARED, self.kfd, page)
            .unwrap()
            + at
    }

    pub fn event(
        &self,
        page: u64,
        event_type: u32,
        auto_reset: bool,
    ) -> Result<kfd::CreateEventArgs> {
        let mut args = kfd::CreateEventArgs {
            event_page_offset: page,
            event_type,
            auto_reset: auto_reset.into(),
            ..Default::default()
        };
        self.call(kfd::CREATE_EVENT, &mut args).map(|()| args)
    }

    /// An event page, and the first event, a signal that resets itself.
    pub fn event_page(&self) -> (Memory, kfd::CreateEventArgs) {
        let page = self.memory(0, 0x8000, GTT);
        let event = self
            .event(page.handle, kfd::event_type::SIGNAL, true)
            .unwrap();
        (page, event)
    }

    pub fn wait(&self, events: &mut [kfd::EventData], all: bool, timeout: u32) -> Result<u32> {
        let mut args = kfd::WaitEventsArgs {
            events_ptr: events.as_mut_ptr() as u64,
            num_events: events.len() as u32,
            wait_for_all: all.into(),
            timeout,
            wait_result: 77,
        };
        self.call(kfd::WAIT_EVENTS, &mut args)
            .map(|()| args.wait_result)
    }

    /// The rules that were broken, by name.
    pub fn rules(&self) -> Vec<&'static str> {
        self.machine
            .journal
            .violations()
            .iter()
            .map(|violation| violation.rule.name)
            .collect()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.exit();
    }
}

/// What a wait is told.
pub fn wanted(event_id: u32) -> kfd::EventData {
    kfd::EventData {
        event_id,
        ..Default::default()
    }
}
