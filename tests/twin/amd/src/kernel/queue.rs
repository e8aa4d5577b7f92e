//! Queues.
//!
//! Source: Linux 6.12, amdkfd/kfd_chardev.c, `set_queue_properties_from_user`; amdkfd/kfd_queue.c,
//! `kfd_queue_acquire_buffers`; amdkfd/kfd_process_queue_manager.c;
//! amdkfd/kfd_device_queue_manager.c, `allocate_doorbell` and `allocate_sdma_queue`;
//! amdgpu/amdgpu_doorbell.h for the doorbells of SDMA.

use drivers_spec::amd::kfd::{
    AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs,
    MAX_QUEUE_PERCENTAGE, MAX_QUEUE_PRIORITY, MIN_QUEUE_RING_SIZE, SetCuMaskArgs, UpdateQueueArgs,
    mmap, queue_type,
};
use hcq::sync::lock;
use twin::rule::{Proof, Rule};
use twin_shader::page::{Access, FaultKind, MemFault, Port};

use crate::config::{Fault, Version};
use crate::gpu::{Begin, Doorbell, Injection, QueueDesc, QueueId, QueueKind};

use super::errno::{Errno, Result};
use super::ioctl::Call;
use super::space::{Mapped, Space};
use super::{Kfd, Process, user};

static MAPPED: Rule = Rule {
    name: "KFD-QUEUE-BUFFERS",
    text: "ring, pointers, end-of-pipe buffer and context save area of a queue are mapped on its GPU; Linux before 6.12 \
           does not check it",
    source: "Linux 6.12, amdkfd/kfd_queue.c, kfd_queue_acquire_buffers",
    proof: Proof::Sourced,
};

static XCC: Rule = Rule {
    name: "KFD-QUEUE-XCC",
    text: "bits 15:8 of queue_percentage name an XCC of the GPU, for PM4 queues only",
    source: "Linux, amdkfd/kfd_mqd_manager_v9.c, pm4_target_xcc",
    proof: Proof::Sourced,
};

static RING: Rule = Rule {
    name: "KFD-QUEUE-RING-SIZE",
    text: "a ring has at least 1024 bytes; smaller ones count as 1024, and the GPU reads past their end",
    source: "Linux, amdkfd/kfd_chardev.c, KFD_MIN_QUEUE_RING_SIZE",
    proof: Proof::Sourced,
};

static BUFFER: Rule = Rule {
    name: "KFD-QUEUE-BUFFER-SIZE",
    text: "ring, read and write pointer, end-of-pipe buffer and context save area are separate mappings of exactly the \
           sizes that the queue is created with; from Linux 6.12 on",
    source: "Linux 6.12, amdkfd/kfd_queue.c, kfd_queue_buffer_get",
    proof: Proof::Sourced,
};

static EOP: Rule = Rule {
    name: "KFD-EOP-SIZE",
    text: "the end-of-pipe buffer has the size that the chip requires, 4096 bytes here; from Linux 6.12 on",
    source: "Linux 6.12, amdkfd/kfd_queue.c, kfd_queue_acquire_buffers",
    proof: Proof::Sourced,
};

static CTL_STACK: Rule = Rule {
    name: "KFD-CTL-STACK-SIZE",
    text: "ctl_stack_size is what the kernel computes from the waves of the chip; from Linux 6.12 on",
    source: "Linux 6.12, amdkfd/kfd_queue.c, kfd_queue_ctx_save_restore_size",
    proof: Proof::Sourced,
};

static CWSR: Rule = Rule {
    name: "KFD-CWSR-SIZE",
    text: "ctx_save_restore_size has room for every register, LDS and wave of the chip; from Linux 6.12 on",
    source: "Linux 6.12, amdkfd/kfd_queue.c, kfd_queue_ctx_save_restore_size",
    proof: Proof::Sourced,
};

/// `KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`.
const MAX_QUEUES: u32 = 1024;
/// What the hardware scheduler takes of a process on a GPU.
const MAX_QUEUES_OF_GPU: usize = 127;
/// Doorbells of engines that are not the command processor: 0x100 to 0x18f, and 512 further on.
const NOT_CP: std::ops::RangeInclusive<u32> = 0x100..=0x18f;
/// The second half of the doorbells mirrors the first: `KFD_QUEUE_DOORBELL_MIRROR_OFFSET`.
const MIRROR: u32 = 512;
const PAGE: u64 = 4096;

/// A queue.
pub(super) struct Queue {
    pub(super) gpu: usize,
    pub(super) kind: u32,
    hardware: QueueId,
    doorbell: u32,
    /// Engine and place of an SDMA queue.
    sdma: Option<(u32, u32)>,
    /// Start addresses of what it keeps mapped.
    pinned: Vec<u64>,
    /// Where it is, and its bytes.
    pub(super) ring: (u64, u64),
    percentage: u32,
    hung: bool,
    gws: bool,
}

impl Queue {
    fn is_active(&self) -> bool {
        self.ring.0 != 0 && self.ring.1 != 0 && self.percentage != 0
    }
}

/// What a client asks for.
struct Wanted {
    ring: (u64, u64),
    wptr: u64,
    rptr: u64,
    eop: (u64, u64),
    context: (u64, u32),
    ctl_stack: u32,
    compute: bool,
}

impl Process {
    fn checked(&self, percentage: u32, priority: u32, ring: (u64, u32)) -> Result<u64> {
        if percentage & 0xff > MAX_QUEUE_PERCENTAGE {
            return self.fail(Errno::EINVAL, || {
                format!("percentage {}", percentage & 0xff)
            });
        }
        if priority > MAX_QUEUE_PRIORITY {
            return self.fail(Errno::EINVAL, || format!("priority {priority}"));
        }
        let (address, bytes) = ring;
        if address != 0 && !user::accessible(address, 8) {
            return self.fail(Errno::EFAULT, || format!("ring at {address:#x}"));
        }
        if bytes != 0 && !bytes.is_power_of_two() {
            return self.fail(Errno::EINVAL, || {
                format!("a ring of {bytes:#x} bytes, not a power of two")
            });
        }
        if bytes < MIN_QUEUE_RING_SIZE && address != 0 {
            self.broken(&RING, format!("a ring of {bytes:#x} bytes at {address:#x}"));
        }
        Ok(u64::from(bytes.max(MIN_QUEUE_RING_SIZE)))
    }

    /// What a client asks for, as far as it is checked before the GPU is looked at.
    fn wanted(&self, args: &mut CreateQueueArgs, by_engine: bool) -> Result<Wanted> {
        let ring = (args.ring_base_address, args.ring_size);
        let ring_bytes = self.checked(args.queue_percentage, args.queue_priority, ring)?;
        args.ring_size = ring_bytes as u32;
        for (what, address, needed) in [
            ("read pointer", args.read_pointer_address, true),
            ("write pointer", args.write_pointer_address, true),
            ("end-of-pipe buffer", args.eop_buffer_address, false),
            ("context save area", args.ctx_save_restore_address, false),
        ] {
            if (needed || address != 0) && !user::accessible(address, 4) {
                return self.fail(Errno::EFAULT, || format!("{what} at {address:#x}"));
            }
        }
        if args.queue_type > queue_type::SDMA_XGMI && !by_engine {
            return self.fail(Errno::ENOTSUPP, || {
                format!("queue type {}", args.queue_type)
            });
        }
        Ok(Wanted {
            ring: (args.ring_base_address, ring_bytes),
            wptr: args.write_pointer_address,
            rptr: args.read_pointer_address,
            eop: (args.eop_buffer_address, args.eop_buffer_size),
            context: (args.ctx_save_restore_address, args.ctx_save_restore_size),
            ctl_stack: args.ctl_stack_size,
            compute: matches!(
                args.queue_type,
                queue_type::COMPUTE | queue_type::COMPUTE_AQL
            ),
        })
    }

    fn free_id(&self, kfd: &Kfd, gpu: usize) -> Result<u32> {
        if kfd.queues.values().filter(|queue| queue.gpu == gpu).count() >= MAX_QUEUES_OF_GPU {
            return self.fail(Errno::ENOSPC, || "127 queues on that GPU".into());
        }
        match (0..MAX_QUEUES).find(|id| !kfd.queues.contains_key(id)) {
            Some(id) => Ok(id),
            None => self.fail(Errno::ENOMEM, || "1024 queues".into()),
        }
    }

    pub(super) fn create_queue(&self, call: &mut Call) -> Result {
        let args: &mut CreateQueueArgs = call.args()?;
        let by_engine =
            args.queue_type == queue_type::SDMA_BY_ENG_ID && self.kernel(Version::Linux6_12);
        let wanted = self.wanted(args, by_engine)?;
        let gpu = self.gpu(args.gpu_id)?;
        let mut kfd = self.kfd();
        let space = self.bound(&kfd, gpu, Errno::ESRCH)?;
        let chip = self.machine.config.chip;
        let engines = chip.sdma_engines + chip.sdma_xgmi_engines;
        if by_engine && args.sdma_engine_id >= engines {
            return self.fail(Errno::EINVAL, || {
                format!("SDMA engine {} of {engines}", args.sdma_engine_id)
            });
        }
        let doorbells = kfd.doorbells(gpu)?;
        let pinned = if self.kernel(Version::Linux6_12) {
            self.buffers_6_12(&kfd, &space, &wanted)?
        } else {
            self.buffers_6_8(&space, &wanted)?
        };
        let id = self.free_id(&kfd, gpu)?;
        let sdma = self.sdma_place(&kfd, gpu, args)?;
        let doorbell = match sdma {
            Some((engine, place)) => 0x100 + 10 * engine + (place & 1) * MIRROR + (place >> 1),
            None => self.cp_doorbell(&kfd, gpu)?,
        };
        let xcc = args.queue_percentage >> 8 & 0xff;
        if xcc >= chip.xccs || xcc != 0 && args.queue_type != queue_type::COMPUTE {
            self.broken(
                &XCC,
                format!("XCC {xcc} of {}, queue type {}", chip.xccs, args.queue_type),
            );
        }
        let percentage = args.queue_percentage & 0xff;
        let mut queue = Queue {
            gpu,
            kind: args.queue_type,
            hardware: 0,
            doorbell,
            sdma,
            pinned,
            ring: wanted.ring,
            percentage,
            hung: false,
            gws: false,
        };
        let (compute, context) = (wanted.compute, wanted.context);
        let desc = QueueDesc {
            process: self.id,
            vm: space.vm.clone(),
            kind: match (args.queue_type, sdma) {
                (_, Some((engine, _))) => QueueKind::Sdma { engine },
                (queue_type::COMPUTE_AQL, _) => QueueKind::Aql,
                _ => QueueKind::Pm4,
            },
            ring: wanted.ring.0,
            ring_bytes: wanted.ring.1,
            rptr: wanted.rptr,
            wptr: wanted.wptr,
            eop: if compute { wanted.eop } else { (0, 0) },
            cwsr: if compute {
                (context.0, context.1.into())
            } else {
                (0, 0)
            },
            xcc: xcc.min(chip.xccs - 1),
            active: queue.is_active(),
            begin: Begin::Memory,
            doorbell: Doorbell {
                page: doorbells,
                offset: doorbell as usize * 8,
            },
        };
        for &va in &queue.pinned {
            space.pin(va, true);
        }
        queue.hardware = self.machine.nodes[gpu].gpu.create_queue(desc);
        args.queue_id = id;
        args.doorbell_offset = mmap::DOORBELL
            | u64::from(args.gpu_id) << mmap::GPU_ID_SHIFT
            | (u64::from(doorbell) * 8);
        let hardware = queue.hardware;
        let area = if compute { context.0 } else { 0 };
        lock(&self.contexts).insert((gpu, hardware), area);
        let faults = self.machine.injector.queue();
        queue.hung = faults
            .iter()
            .any(|fault| matches!(fault, Fault::Hang { .. }));
        kfd.queues.insert(id, queue);
        drop(kfd);
        for fault in faults {
            self.go_wrong(gpu, hardware, &fault);
        }
        Ok(())
    }

    /// A fault that the config asked for with a queue.
    fn go_wrong(&self, gpu: usize, queue: QueueId, fault: &Fault) {
        let hardware = &self.machine.nodes[gpu].gpu;
        self.note(|| format!("injected: {fault:?}"));
        match *fault {
            Fault::Hang { .. } => hardware.inject(Injection::Hang(queue)),
            Fault::Memory { va, .. } => {
                let fault = MemFault {
                    va,
                    access: Access::Read,
                    port: Port::Vector,
                    kind: FaultKind::NotPresent,
                };
                hardware.inject(Injection::Fault(self.id, fault));
            }
            Fault::Reset { .. } => hardware.inject(Injection::Reset { memory_lost: true }),
            Fault::Poison { .. } => hardware.inject(Injection::Poison(self.id)),
            Fault::Gone { .. } => self.machine.unplug(gpu),
            _ => {}
        }
    }

    /// One buffer: it starts at a mapping, and is as large. Returns where it starts.
    fn buffer(&self, space: &Space, what: &str, address: u64, bytes: u64) -> Result<u64> {
        let start = address & !(PAGE - 1);
        match space.find(start).filter(|(_, map)| !map.svm) {
            // The kernel compares pages, and no sizes below a page.
            Some((at, map))
                if at == start && (bytes < PAGE || map.bytes == bytes & !(PAGE - 1)) =>
            {
                Ok(at)
            }
            Some((at, map)) => {
                let found = format!(
                    "{what} at {address:#x}: {bytes:#x} bytes from {start:#x}; mapped are {:#x} bytes from {at:#x}",
                    map.bytes
                );
                self.refuse(&BUFFER, Errno::EINVAL, found)
            }
            None => {
                let found = format!("{what} at {address:#x} is not mapped on that GPU");
                self.refuse(&BUFFER, Errno::EINVAL, found)
            }
        }
    }

    fn buffers_6_12(&self, kfd: &Kfd, space: &Space, wanted: &Wanted) -> Result<Vec<u64>> {
        let chip = self.machine.config.chip;
        let sizes = chip.queue_sizes();
        let mut pinned = vec![
            self.buffer(space, "write pointer", wanted.wptr, PAGE)?,
            self.buffer(space, "read pointer", wanted.rptr, PAGE)?,
            self.buffer(space, "ring", wanted.ring.0, wanted.ring.1)?,
        ];
        if !wanted.compute {
            return Ok(pinned);
        }
        if wanted.eop.0 != 0 {
            if wanted.eop.1 != sizes.eop {
                let found = format!("{:#x} bytes, not {:#x}", wanted.eop.1, sizes.eop);
                return self.refuse(&EOP, Errno::EINVAL, found);
            }
            pinned.push(self.buffer(space, "end-of-pipe buffer", wanted.eop.0, wanted.eop.1)?);
        }
        if wanted.ctl_stack != sizes.ctl_stack {
            let found = format!("{:#x} bytes, not {:#x}", wanted.ctl_stack, sizes.ctl_stack);
            return self.refuse(&CTL_STACK, Errno::EINVAL, found);
        }
        let (address, bytes) = wanted.context;
        if bytes < sizes.context {
            let found = format!("{bytes:#x} bytes, at least {:#x}", sizes.context);
            return self.refuse(&CWSR, Errno::EINVAL, found);
        }
        let total = sizes.buffer_with(bytes, chip.xccs);
        if !kfd.svm.holds(address, total) {
            pinned.push(self.buffer(space, "context save area", address, total)?);
        }
        Ok(pinned)
    }

    /// Only the write pointer is checked, where MES runs the queues (gfx11 and later).
    fn buffers_6_8(&self, space: &Space, wanted: &Wanted) -> Result<Vec<u64>> {
        if self.machine.config.chip.target_version >= 110000 {
            match space.find(wanted.wptr) {
                Some((_, map)) if map.object.bytes <= PAGE => {}
                _ => {
                    return self.fail(Errno::EINVAL, || {
                        format!(
                            "write pointer at {:#x}: not in a mapping of one page",
                            wanted.wptr
                        )
                    });
                }
            }
        }
        let sizes = self.machine.config.chip.queue_sizes();
        let mut buffers = vec![
            ("write pointer", wanted.wptr, 8),
            ("read pointer", wanted.rptr, 8),
            ("ring", wanted.ring.0, wanted.ring.1),
        ];
        if wanted.compute {
            buffers.push(("end-of-pipe buffer", wanted.eop.0, wanted.eop.1));
            let total = sizes.buffer_with(wanted.context.1, self.machine.config.chip.xccs);
            buffers.push(("context save area", wanted.context.0, total));
        }
        let mut pinned = Vec::new();
        for (what, address, bytes) in buffers.into_iter().filter(|(_, address, _)| *address != 0) {
            match space.find(address) {
                Some((at, map)) if address + bytes <= at + map.bytes => pinned.push(at),
                _ => self.broken(&MAPPED, format!("{what} at {address:#x}, {bytes:#x} bytes")),
            }
        }
        Ok(pinned)
    }

    /// Engine and place of an SDMA queue.
    fn sdma_place(
        &self,
        kfd: &Kfd,
        gpu: usize,
        args: &CreateQueueArgs,
    ) -> Result<Option<(u32, u32)>> {
        let chip = self.machine.config.chip;
        let (own, xgmi) = (chip.sdma_engines, chip.sdma_xgmi_engines);
        let engines = match args.queue_type {
            queue_type::SDMA => 0..own,
            queue_type::SDMA_XGMI => own..own + xgmi,
            queue_type::SDMA_BY_ENG_ID => args.sdma_engine_id..args.sdma_engine_id + 1,
            _ => return Ok(None),
        };
        let taken = |place: (u32, u32)| {
            kfd.queues
                .values()
                .any(|queue| queue.gpu == gpu && queue.sdma == Some(place))
        };
        // The kernel hands out the engines in turn.
        (chip.sdma_reserved..chip.sdma_queues)
            .flat_map(|place| engines.clone().map(move |engine| (engine, place)))
            .find(|&place| !taken(place))
            .map_or_else(
                || {
                    self.fail(Errno::ENOMEM, || {
                        format!("no SDMA queue of engines {engines:?} is left")
                    })
                },
                |place| Ok(Some(place)),
            )
    }

    fn cp_doorbell(&self, kfd: &Kfd, gpu: usize) -> Result<u32> {
        let reserved = |id: u32| NOT_CP.contains(&(id % MIRROR));
        let taken = |id: u32| {
            kfd.queues
                .values()
                .any(|queue| queue.gpu == gpu && queue.doorbell == id)
        };
        (0..MAX_QUEUES)
            .find(|&id| !reserved(id) && !taken(id))
            .map_or_else(
                || self.fail(Errno::EBUSY, || "no doorbell is left".into()),
                Ok,
            )
    }

    pub(super) fn destroy_queue(&self, call: &mut Call) -> Result {
        let id = call.args::<DestroyQueueArgs>()?.queue_id;
        self.remove_queue(&mut self.kfd(), id)
    }

    /// Destroys a queue.
    ///
    /// # Errors
    /// `EINVAL`: there is none; `ETIME`: it did not stop, the GPU is reset.
    pub(super) fn remove_queue(&self, kfd: &mut Kfd, id: u32) -> Result {
        let Some(queue) = kfd.queues.remove(&id) else {
            return self.fail(Errno::EINVAL, || format!("no queue has id {id}"));
        };
        let hardware = &self.machine.nodes[queue.gpu].gpu;
        hardware.destroy_queue(queue.hardware);
        lock(&self.contexts).remove(&(queue.gpu, queue.hardware));
        if let Some(space) = kfd.space(queue.gpu) {
            for &va in &queue.pinned {
                space.pin(va, false);
            }
        }
        if queue.hung && !self.machine.gone(queue.gpu) {
            hardware.inject(Injection::Reset { memory_lost: true });
            return self.fail(Errno::ETIME, || {
                format!("queue {id} hangs: preemption timed out")
            });
        }
        Ok(())
    }

    pub(super) fn update_queue(&self, call: &mut Call) -> Result {
        let args: UpdateQueueArgs = *call.args()?;
        let ring = (args.ring_base_address, args.ring_size);
        let bytes = self.checked(args.queue_percentage, args.queue_priority, ring)?;
        let mut kfd = self.kfd();
        let Some(gpu) = kfd.queues.get(&args.queue_id).map(|queue| queue.gpu) else {
            return self.fail(Errno::EFAULT, || {
                format!("no queue has id {}", args.queue_id)
            });
        };
        let space = kfd.space(gpu).cloned();
        let Some(queue) = kfd.queues.get_mut(&args.queue_id) else {
            return Err(Errno::EFAULT);
        };
        if let (Some(space), true) = (&space, ring.0 != 0) {
            let fits = |(at, map): (u64, Mapped)| at == ring.0 && map.bytes == bytes;
            if self.kernel(Version::Linux6_12) && !space.find(ring.0).is_some_and(fits) {
                return self.fail(Errno::EFAULT, || {
                    format!("ring at {:#x}: not a mapping of {bytes:#x} bytes", ring.0)
                });
            }
            if queue.ring.0 != ring.0 {
                space.pin(ring.0, true);
                space.pin(queue.ring.0, false);
                queue.pinned.retain(|&va| va != queue.ring.0);
                queue.pinned.push(ring.0);
            }
        }
        let hardware = &self.machine.nodes[gpu].gpu;
        if ring.0 != 0 && queue.ring != (ring.0, bytes) {
            hardware.update_ring(queue.hardware, ring.0, bytes);
        }
        queue.ring = (ring.0, bytes);
        queue.percentage = args.queue_percentage & 0xff;
        hardware.set_active(queue.hardware, queue.is_active());
        Ok(())
    }

    pub(super) fn set_cu_mask(&self, call: &mut Call) -> Result {
        let args: SetCuMaskArgs = *call.args()?;
        if args.num_cu_mask == 0 || !args.num_cu_mask.is_multiple_of(32) {
            return self.fail(Errno::EINVAL, || {
                format!("a mask of {} bits", args.num_cu_mask)
            });
        }
        let words = args.num_cu_mask.min(1024) / 32;
        let mask: Vec<u32> = self.caller.get_all(args.cu_mask_ptr, words as usize)?;
        let kfd = self.kfd();
        if !kfd.queues.contains_key(&args.queue_id) {
            return self.fail(Errno::EFAULT, || {
                format!("no queue has id {}", args.queue_id)
            });
        }
        let pairs = |word: &u32| (word ^ word >> 1) & 0x5555_5555 == 0;
        if self.machine.config.chip.target_version >= 100000 && !mask.iter().all(pairs) {
            return self.fail(Errno::EINVAL, || "CUs of a WGP are masked together".into());
        }
        Ok(())
    }

    pub(super) fn get_queue_wave_state(&self, call: &mut Call) -> Result {
        let args: &mut GetQueueWaveStateArgs = call.args()?;
        let kfd = self.kfd();
        let Some(queue) = kfd.queues.get(&args.queue_id) else {
            return self.fail(Errno::EFAULT, || {
                format!("no queue has id {}", args.queue_id)
            });
        };
        let compute = matches!(queue.kind, queue_type::COMPUTE | queue_type::COMPUTE_AQL);
        if !compute || queue.is_active() {
            return self.fail(Errno::EINVAL, || {
                "only a suspended compute queue has saved waves".into()
            });
        }
        // Waves end before a queue is taken from the GPU: none are ever saved. The header is copied.
        self.caller.write(args.ctl_stack_address, &[0; 16])?;
        args.ctl_stack_used_size = 0;
        args.save_area_used_size = 0;
        Ok(())
    }

    pub(super) fn alloc_queue_gws(&self, call: &mut Call) -> Result {
        let args: &mut AllocQueueGwsArgs = call.args()?;
        let mut kfd = self.kfd();
        let Some(gpu) = kfd.queues.get(&args.queue_id).map(|queue| queue.gpu) else {
            return self.fail(Errno::EINVAL, || {
                format!("no queue has id {}", args.queue_id)
            });
        };
        let held = kfd
            .queues
            .values()
            .any(|queue| queue.gpu == gpu && queue.gws);
        if args.num_gws != 0 && held {
            return self.fail(Errno::EBUSY, || {
                "another queue has the global wave sync".into()
            });
        }
        if args.num_gws == 0 && !held {
            return self.fail(Errno::EINVAL, || "no queue has the global wave sync".into());
        }
        if let Some(queue) = kfd.queues.get_mut(&args.queue_id) {
            queue.gws = args.num_gws != 0;
        }
        args.first_gws = 0;
        Ok(())
    }
}
