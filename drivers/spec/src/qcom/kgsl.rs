//! KGSL, the vendor's kernel driver of Adreno GPUs: `/dev/kgsl-3d0`.
//!
//! Source: KGSL of qualcomm-linux/kgsl (27cf0e4), include/uapi/linux/msm_kgsl.h: every struct, request and number of
//! this file is checked against it, by a C compiler where a test says so. What calls refuse: kgsl.c, adreno_drawctxt.c,
//! adreno_dispatch.c, kgsl_drawobj.c, kgsl_events.c there, and where a row says "4.9", a survey of the kernels of
//! SDM845 phones. The kernel of one device may be older than either. `<-` marks what the kernel returns.
//!
//! Structs are those of a 64-bit client: `unsigned long`, `size_t` and pointers have 8 bytes. Some memory that an
//! argument points to has an address itself ([`CommandSyncpoint::priv_address`], [`Constraint::data`]): the kernel only
//! reads there. [`MapUserMem::hostptr`] and [`ImportUserAddress`] it maps for the GPU: as for all that a device uses, an
//! address is a number there.

use bitflags::bitflags;

use crate::amd::uapi::{ioctls, structs};

/// The type of the requests.
pub const KIND: u8 = 0x09;

/// Bytes of a page: objects are multiples of it, and [`mmap_offset`] counts in it.
pub const PAGE: u64 = 4096;

/// Where the memory of an object is mapped, as an offset in the file.
pub const fn mmap_offset(id: u32) -> u64 {
    id as u64 * PAGE
}

/// The most commands or memory objects of a [`GpuCommand`], `KGSL_MAX_NUMIBS` of kgsl.h. A survey of newer trees names
/// 100000; this is what all of them take.
pub const MAX_COMMANDS: u32 = 2000;
/// The most sync points of a [`GpuCommand`], `KGSL_MAX_SYNCPOINTS`.
pub const MAX_SYNCPOINTS: u32 = 32;
/// The most objects of a [`GpuobjSync`].
pub const MAX_SYNC_OBJECTS: u32 = 128;
/// The most dwords of an indirect buffer: 20 bits of `CP_INDIRECT_BUFFER`.
pub const MAX_IB_DWORDS: u64 = 0xf_ffff;
/// The most bytes of metadata of an object.
pub const MAX_METADATA: u32 = 64;
/// `KGSL_CONTEXT_INVALID`.
pub const NO_CONTEXT: u32 = u32::MAX;

bitflags! {
    /// `KGSL_CONTEXT_*` without what has more than a bit, which is [`context`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Context: u32 {
        /// Saves on-chip memory.
        const SAVE_GMEM = 0x1;
        /// Has no on-chip memory allocated: the kernel demands it.
        const NO_GMEM_ALLOC = 0x2;
        /// Commands come as lists.
        const SUBMIT_IB_LIST = 0x4;
        /// Context switch.
        const CTX_SWITCH = 0x8;
        /// The client restores its state itself: the kernel demands it.
        const PREAMBLE = 0x10;
        /// Its own timestamps: the kernel sets it.
        const PER_CONTEXT_TS = 0x40;
        /// The client chooses timestamps.
        const USER_GENERATED_TS = 0x80;
        /// A hang is not replayed.
        const NO_FAULT_TOLERANCE = 0x200;
        /// May constrain the power level.
        const PWR_CONSTRAINT = 0x800;
        /// Nothing runs.
        const IFH_NOP = 0x1_0000;
        /// Secure.
        const SECURE = 0x2_0000;
        /// No snapshot after a hang.
        const NO_SNAPSHOT = 0x4_0000;
        /// Invalid after a fault.
        const INVALIDATE_ON_FAULT = 0x1000_0000;
        /// The low-priority compute pipe.
        const LPAC = 0x2000_0000;
        /// Keeps what a fault was.
        const FAULT_INFO = 0x4000_0000;
    }

    /// `KGSL_CMDBATCH_*`: the flags of a [`GpuCommand`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Batch: u64 {
        /// With memory objects.
        const MEMLIST = 0x1;
        /// A marker: nothing runs.
        const MARKER = 0x2;
        /// A list of commands.
        const SUBMIT_IB_LIST = 0x4;
        /// Context switch.
        const CTX_SWITCH = 0x8;
        /// Writes a profile.
        const PROFILING = 0x10;
        /// The profile is in the time of the kernel.
        const PROFILING_KTIME = 0x20;
        /// The end of a frame.
        const END_OF_FRAME = 0x100;
        /// Only sync points.
        const SYNC = 0x400;
        /// The power level is constrained.
        const PWR_CONSTRAINT = 0x800;
    }

    /// `KGSL_CMDLIST_*` and `KGSL_OBJLIST_*`: the flags of a [`CommandObject`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Object: u32 {
        /// An indirect buffer.
        const IB = 0x1;
        /// The preamble of a context switch.
        const CTXTSWITCH_PREAMBLE = 0x2;
        /// The preamble of an indirect buffer.
        const IB_PREAMBLE = 0x4;
        /// Memory.
        const MEMOBJ = 0x8;
        /// Memory for the profile.
        const PROFILE = 0x10;
    }

    /// `KGSL_MEMFLAGS_*` without what has more than a bit, which is [`memory`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Memory: u64 {
        /// Secure.
        const SECURE = 1 << 3;
        /// The GPU only reads.
        const GPUREADONLY = 1 << 24;
        /// The GPU only writes.
        const GPUWRITEONLY = 1 << 25;
        /// The address of the GPU is that of the mapping.
        const USE_CPU_MAP = 1 << 28;
        /// The GPU sees the caches of the CPU. Some trees of kernel 4.9 know it, others drop it: the flags that come back
        /// tell.
        const IOCOHERENT = 1 << 31;
        /// An address below 4 GiB.
        const FORCE_32BIT = 1 << 32;
    }

    /// `KGSL_GPUMEM_CACHE_*`: what is done to the caches of the CPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CacheOp: u32 {
        /// Writes back.
        const TO_GPU = 1 << 0;
        /// Invalidates.
        const FROM_GPU = 1 << 1;
        /// Only a range.
        const RANGE = 1 << 31;
    }
}

/// Parts of the flags of a context.
pub mod context {
    /// Where the priority is: 1 is the highest, 15 the lowest.
    pub const PRIORITY_SHIFT: u32 = 12;
    /// Its bits. The kernel takes 8 for 0.
    pub const PRIORITY_MASK: u32 = 0xf000;
    /// What the kernel takes for priority 0.
    pub const PRIORITY_MEDIUM: u32 = 8;
    /// Where the kind is.
    pub const TYPE_SHIFT: u32 = 20;
    /// Its bits.
    pub const TYPE_MASK: u32 = 0x01f0_0000;
    /// Any kind.
    pub const TYPE_ANY: u32 = 0;
    /// OpenGL.
    pub const TYPE_GL: u32 = 1;
    /// OpenCL.
    pub const TYPE_CL: u32 = 2;
    /// Vulkan.
    pub const TYPE_VK: u32 = 5;
    /// Where the style of preemption is.
    pub const PREEMPT_STYLE_SHIFT: u32 = 25;
    /// Its bits.
    pub const PREEMPT_STYLE_MASK: u32 = 0x0e00_0000;
    /// As the kernel likes.
    pub const PREEMPT_STYLE_DEFAULT: u32 = 0;
    /// Between submissions.
    pub const PREEMPT_STYLE_RINGBUFFER: u32 = 1;
    /// Inside of a submission.
    pub const PREEMPT_STYLE_FINEGRAIN: u32 = 2;
}

/// Parts of the flags of memory.
pub mod memory {
    /// Where the kind of client memory is: a [`super::user`] type plus 1; 0 is memory of the kernel.
    pub const USERMEM_SHIFT: u32 = 5;
    /// Its bits.
    pub const USERMEM_MASK: u64 = 0xe0;
    /// Where the purpose is, for statistics.
    pub const TYPE_SHIFT: u32 = 8;
    /// Its bits.
    pub const TYPE_MASK: u64 = 0xff00;
    /// A purpose: OpenCL.
    pub const TYPE_CL: u64 = 10;
    /// A purpose: commands.
    pub const TYPE_COMMAND: u64 = 16;
    /// Where the alignment is, as a power of two.
    pub const ALIGN_SHIFT: u32 = 16;
    /// Its bits.
    pub const ALIGN_MASK: u64 = 0x00ff_0000;
    /// Where the cache mode is.
    pub const CACHEMODE_SHIFT: u32 = 26;
    /// Its bits.
    pub const CACHEMODE_MASK: u64 = 0x0c00_0000;
    /// Writes are combined, reads are slow.
    pub const WRITECOMBINE: u64 = 0;
    /// Not cached.
    pub const UNCACHED: u64 = 1;
    /// Arm64 kernels make write-back of it.
    pub const WRITETHROUGH: u64 = 2;
    /// Cached: needs GPUOBJ_SYNC, or the CPU's own instructions.
    pub const WRITEBACK: u64 = 3;
}

/// `KGSL_USER_MEM_TYPE_*`: what MAP_USER_MEM and GPUOBJ_IMPORT take.
pub mod user {
    /// Memory of the client: an address.
    pub const ADDR: u32 = 2;
    /// A dmabuf: a descriptor.
    pub const DMABUF: u32 = 3;
}

/// `KGSL_CMD_SYNCPOINT_TYPE_*`.
pub mod syncpoint {
    /// [`super::ContextTimestamp`].
    pub const TIMESTAMP: u32 = 0;
    /// [`super::Fence`].
    pub const FENCE: u32 = 1;
    /// A timeline. Not in kernels 4.9.
    pub const TIMELINE: u32 = 2;
}

/// `KGSL_GPUOBJ_FREE_*` and `KGSL_GPU_EVENT_*`.
pub mod free {
    /// A flag: when something has happened.
    pub const ON_EVENT: u64 = 1;
    /// [`super::ContextTimestamp`].
    pub const TIMESTAMP: u32 = 1;
    /// [`super::Fence`].
    pub const FENCE: u32 = 2;
}

/// `KGSL_TIMESTAMP_*`: which timestamp of a context.
pub mod timestamp {
    /// Of the last submission that has started.
    pub const CONSUMED: u32 = 1;
    /// Of the last one that has ended.
    pub const RETIRED: u32 = 2;
    /// Of the last one that was submitted.
    pub const QUEUED: u32 = 3;
}

/// How timestamp `a` compares with `b`. They have 32 bits and wrap: what is less than half of that ahead is later.
/// Exactly half is earlier whichever is asked, if the number of `a` is the greater one; else later. As `timestamp_cmp`
/// of kgsl.h has it.
pub const fn compare(a: u32, b: u32) -> core::cmp::Ordering {
    use core::cmp::Ordering;
    const WINDOW: u32 = 0x8000_0000;
    if a == b {
        Ordering::Equal
    } else if a > b && a - b < WINDOW || b > a && b - a >= WINDOW {
        Ordering::Greater
    } else {
        Ordering::Less
    }
}

/// `KGSL_PROP_*`: what DEVICE_GETPROPERTY and SETPROPERTY are about.
pub mod property {
    /// [`super::DevInfo`].
    pub const DEVICE_INFO: u32 = 0x1;
    /// [`super::Version`].
    pub const VERSION: u32 = 0x8;
    /// u32: the id of a context; <- [`super::reset`]. Reading clears it.
    pub const GPU_RESET_STAT: u32 = 0x9;
    /// u32: whether power is managed; set only.
    pub const PWRCTRL: u32 = 0xe;
    /// [`super::Constraint`].
    pub const PWR_CONSTRAINT: u32 = 0x12;
    /// u64: where shaders see on-chip memory.
    pub const UCHE_GMEM_VADDR: u32 = 0x13;
    /// [`super::SpGenericMem`].
    pub const SP_GENERIC_MEM: u32 = 0x14;
    /// [`super::UcodeVersion`].
    pub const UCODE_VERSION: u32 = 0x15;
    /// u32: the highest bank bit of memory.
    pub const HIGHEST_BANK_BIT: u32 = 0x17;
    /// u32: bits of a virtual address; 48 on A630, as a survey of its kernels says.
    pub const DEVICE_BITNESS: u32 = 0x18;
    /// u32: version of bandwidth compression.
    pub const UBWC_MODE: u32 = 0x1b;
    /// u32. Not in kernels 4.9.
    pub const SPEED_BIN: u32 = 0x25;
    /// [`super::GpuModel`]. Not in kernels 4.9.
    pub const GPU_MODEL: u32 = 0x29;
    /// u64: bytes of the GPU's address space. Not in kernels 4.9.
    pub const GPU_VA64_SIZE: u32 = 0x2c;
}

/// `KGSL_CTX_STAT_*`: what GPU_RESET_STAT tells of a context.
pub mod reset {
    /// Nothing.
    pub const NO_ERROR: u32 = 0;
    /// It has hung the GPU.
    pub const GUILTY: u32 = 1;
    /// Another one has.
    pub const INNOCENT: u32 = 2;
    /// One has.
    pub const UNKNOWN: u32 = 3;
}

/// `KGSL_CONSTRAINT_*`.
pub mod constraint {
    /// Ends a constraint.
    pub const NONE: u32 = 0;
    /// A power level: a u32.
    pub const PWRLEVEL: u32 = 1;
    /// The lowest frequency.
    pub const PWR_MIN: u32 = 0;
    /// The highest.
    pub const PWR_MAX: u32 = 1;
}

/// `KGSL_PERFCOUNTER_GROUP_*`: some groups of counters.
pub mod perfcounter_group {
    /// The command processor.
    pub const CP: u32 = 0x0;
    /// The sequencer.
    pub const HLSQ: u32 = 0x4;
    /// The unified cache.
    pub const UCHE: u32 = 0x8;
    /// The texture pipe.
    pub const TP: u32 = 0x9;
    /// The shader processor.
    pub const SP: u32 = 0xa;
    /// Always on.
    pub const ALWAYSON: u32 = 0x1b;
}

structs! { LAYOUTS;
    /// DEVICE_GETPROPERTY and SETPROPERTY.
    Property = "kgsl_device_getproperty" {
        /// See [`property`].
        kind = "type": u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
        /// Address of the value.
        value: u64,
        /// Bytes there: exactly those of the property.
        sizebytes: u64,
    }
    /// The value of DEVICE_INFO.
    DevInfo = "kgsl_devinfo" {
        /// The number of the GPU, from 1: adreno.c, `adreno_prop_device_info`, has its id and 1 more.
        device_id: u32,
        /// See [`super::chip`].
        chip_id: u32,
        /// Whether there is an MMU.
        mmu_enabled: u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
        /// Where on-chip memory is.
        gmem_gpubaseaddr: u64,
        /// 630 and so on; kernels of SDM845 leave it 0.
        gpu_id: u32,
        /// Padding of the compiler; no field of the header.
        gap1 = "": u32,
        /// Bytes of it.
        gmem_sizebytes: u64,
    }
    /// The value of VERSION.
    Version = "kgsl_version" {
        /// Of the driver.
        drv_major: u32,
        /// Of the driver.
        drv_minor: u32,
        /// Of the device.
        dev_major: u32,
        /// Of the device.
        dev_minor: u32,
    }
    /// The value of SP_GENERIC_MEM.
    SpGenericMem = "kgsl_sp_generic_mem" {
        /// Where shaders see local memory.
        local: u64,
        /// Where they see private memory.
        pvt: u64,
    }
    /// The value of UCODE_VERSION.
    UcodeVersion = "kgsl_ucode_version" {
        /// Of the prefetcher.
        pfp: u32,
        /// Of the micro-engine.
        pm4: u32,
    }
    /// The value of GPU_MODEL.
    GpuModel = "kgsl_gpu_model" {
        /// Text that ends with zeros.
        gpu_model: [u8; 32],
    }
    /// The value of PWR_CONSTRAINT.
    Constraint = "kgsl_device_constraint" {
        /// See [`constraint`].
        kind = "type": u32,
        /// For which context.
        context_id: u32,
        /// Address of a [`ConstraintPwrLevel`].
        data: u64,
        /// Bytes there.
        size: u64,
    }
    /// A power level.
    ConstraintPwrLevel = "kgsl_device_constraint_pwrlevel" {
        /// See [`constraint`].
        level: u32,
    }
    /// DEVICE_WAITTIMESTAMP_CTXTID.
    WaitTimestamp = "kgsl_device_waittimestamp_ctxtid" {
        /// Whose.
        context_id: u32,
        /// Which.
        timestamp: u32,
        /// Milliseconds; 0 is forever.
        timeout: u32,
    }
    /// DRAWCTXT_CREATE.
    DrawctxtCreate = "kgsl_drawctxt_create" {
        /// [`Context`]; <- those that it has.
        flags: u32,
        /// <-
        drawctxt_id: u32,
    }
    /// DRAWCTXT_DESTROY.
    DrawctxtDestroy = "kgsl_drawctxt_destroy" {
        /// Which.
        drawctxt_id: u32,
    }
    /// MAP_USER_MEM.
    MapUserMem = "kgsl_map_user_mem" {
        /// Of a dmabuf.
        fd: i32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
        /// <-
        gpuaddr: u64,
        /// Bytes.
        len: u64,
        /// Bytes into it.
        offset: u64,
        /// An address of the client.
        hostptr: u64,
        /// See [`user`].
        memtype: u32,
        /// The lower half of [`Memory`].
        flags: u32,
    }
    /// CMDSTREAM_READTIMESTAMP_CTXTID.
    ReadTimestamp = "kgsl_cmdstream_readtimestamp_ctxtid" {
        /// Whose.
        context_id: u32,
        /// See [`timestamp`].
        kind = "type": u32,
        /// <-
        timestamp: u32,
    }
    /// SHAREDMEM_FREE.
    SharedmemFree = "kgsl_sharedmem_free" {
        /// Where.
        gpuaddr: u64,
    }
    /// GPUMEM_ALLOC_ID.
    GpumemAllocId = "kgsl_gpumem_alloc_id" {
        /// <-
        id: u32,
        /// The lower half of [`Memory`].
        flags: u32,
        /// Bytes.
        size: u64,
        /// <- bytes to map.
        mmapsize: u64,
        /// <-
        gpuaddr: u64,
        /// Zero.
        pad = "__pad": [u64; 2],
    }
    /// GPUMEM_FREE_ID.
    GpumemFreeId = "kgsl_gpumem_free_id" {
        /// Which.
        id: u32,
        /// Zero.
        pad = "__pad": u32,
    }
    /// GPUMEM_SYNC_CACHE.
    GpumemSyncCache = "kgsl_gpumem_sync_cache" {
        /// Where, or 0.
        gpuaddr: u64,
        /// Which, or 0.
        id: u32,
        /// [`CacheOp`].
        op: u32,
        /// Bytes into it.
        offset: u64,
        /// Bytes.
        length: u64,
    }
    /// PERFCOUNTER_GET.
    PerfcounterGet = "kgsl_perfcounter_get" {
        /// See [`perfcounter_group`].
        groupid: u32,
        /// What is counted.
        countable: u32,
        /// <- its register, the lower half of the value.
        offset: u32,
        /// <- the upper.
        offset_hi: u32,
        /// Zero.
        pad = "__pad": u32,
    }
    /// PERFCOUNTER_PUT.
    PerfcounterPut = "kgsl_perfcounter_put" {
        /// See [`perfcounter_group`].
        groupid: u32,
        /// What was counted.
        countable: u32,
        /// Zero.
        pad = "__pad": [u32; 2],
    }
    /// PERFCOUNTER_READ.
    PerfcounterRead = "kgsl_perfcounter_read" {
        /// Address of [`PerfcounterReadGroup`]s.
        reads: u64,
        /// How many.
        count: u32,
        /// Zero.
        pad = "__pad": [u32; 2],
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
    }
    /// A counter of PERFCOUNTER_READ.
    PerfcounterReadGroup = "kgsl_perfcounter_read_group" {
        /// See [`perfcounter_group`].
        groupid: u32,
        /// What is counted.
        countable: u32,
        /// <-
        value: u64,
    }
    /// GPUOBJ_ALLOC.
    GpuobjAlloc = "kgsl_gpuobj_alloc" {
        /// Bytes.
        size: u64,
        /// [`Memory`]; <- those that it has.
        flags: u64,
        /// Bytes of address space, or 0.
        va_len: u64,
        /// <- bytes to map.
        mmapsize: u64,
        /// <-
        id: u32,
        /// Bytes of metadata.
        metadata_len: u32,
        /// Address of it.
        metadata: u64,
    }
    /// GPUOBJ_FREE.
    GpuobjFree = "kgsl_gpuobj_free" {
        /// See [`free`].
        flags: u64,
        /// Address of the event.
        priv_address = "priv": u64,
        /// Which.
        id: u32,
        /// See [`free`].
        kind = "type": u32,
        /// Bytes of the event.
        len: u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
    }
    /// A timestamp of a context: as an event of GPUOBJ_FREE, and as a sync point of a [`GpuCommand`].
    ContextTimestamp = "kgsl_gpu_event_timestamp" {
        /// Whose.
        context_id: u32,
        /// Which.
        timestamp: u32,
    }
    /// A fence: as an event of GPUOBJ_FREE, and as a sync point of a [`GpuCommand`].
    Fence = "kgsl_gpu_event_fence" {
        /// Its descriptor.
        fd: i32,
    }
    /// GPUOBJ_INFO.
    GpuobjInfo = "kgsl_gpuobj_info" {
        /// <-
        gpuaddr: u64,
        /// <- [`Memory`].
        flags: u64,
        /// <- bytes.
        size: u64,
        /// <- bytes of address space.
        va_len: u64,
        /// <- where it is mapped.
        va_addr: u64,
        /// Which.
        id: u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
    }
    /// GPUOBJ_IMPORT.
    GpuobjImport = "kgsl_gpuobj_import" {
        /// Address of what says which memory.
        priv_address = "priv": u64,
        /// Bytes: of the memory for an address, of what says which for a dmabuf.
        priv_len: u64,
        /// [`Memory`].
        flags: u64,
        /// See [`user`].
        kind = "type": u32,
        /// <-
        id: u32,
    }
    /// A dmabuf.
    ImportDmaBuf = "kgsl_gpuobj_import_dma_buf" {
        /// Its descriptor.
        fd: i32,
    }
    /// Memory of the client.
    ImportUserAddress = "kgsl_gpuobj_import_useraddr" {
        /// Where.
        virtaddr: u64,
    }
    /// GPUOBJ_SYNC.
    GpuobjSync = "kgsl_gpuobj_sync" {
        /// Address of [`GpuobjSyncObj`]s.
        objs: u64,
        /// Bytes of one.
        obj_len: u32,
        /// How many.
        count: u32,
    }
    /// One object of GPUOBJ_SYNC.
    GpuobjSyncObj = "kgsl_gpuobj_sync_obj" {
        /// Bytes into it.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Which; one that is not there is left out.
        id: u32,
        /// [`CacheOp`].
        op: u32,
    }
    /// GPU_COMMAND.
    GpuCommand = "kgsl_gpu_command" {
        /// [`Batch`].
        flags: u64,
        /// Address of [`CommandObject`]s.
        cmdlist: u64,
        /// Bytes of one.
        cmdsize: u32,
        /// How many.
        numcmds: u32,
        /// Address of [`CommandObject`]s of memory.
        objlist: u64,
        /// Bytes of one.
        objsize: u32,
        /// How many.
        numobjs: u32,
        /// Address of [`CommandSyncpoint`]s.
        synclist: u64,
        /// Bytes of one.
        syncsize: u32,
        /// How many.
        numsyncs: u32,
        /// Whose.
        context_id: u32,
        /// <- its timestamp; chosen where the context says so.
        timestamp: u32,
    }
    /// Commands, or memory, of a [`GpuCommand`].
    CommandObject = "kgsl_command_object" {
        /// Bytes into it.
        offset: u64,
        /// Where.
        gpuaddr: u64,
        /// Bytes.
        size: u64,
        /// [`Object`].
        flags: u32,
        /// Which object, or 0.
        id: u32,
    }
    /// What a [`GpuCommand`] waits for.
    CommandSyncpoint = "kgsl_command_syncpoint" {
        /// Address of a [`ContextTimestamp`] or a [`Fence`].
        priv_address = "priv": u64,
        /// Bytes there.
        size: u64,
        /// See [`syncpoint`].
        kind = "type": u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
    }
}

ioctls! { IOCTLS, 0x09, "IOCTL_KGSL_";
    /// Facts of the GPU.
    DEVICE_GETPROPERTY = IOWR 0x02 Property [value: sizebytes of u8],
    /// Sleeps until a submission has ended.
    DEVICE_WAITTIMESTAMP_CTXTID = IOW 0x07 WaitTimestamp,
    /// A context.
    DRAWCTXT_CREATE = IOWR 0x13 DrawctxtCreate,
    /// Ends a context, when its work has ended.
    DRAWCTXT_DESTROY = IOW 0x14 DrawctxtDestroy,
    /// Memory of the client, or a dmabuf, for the GPU.
    MAP_USER_MEM = IOWR 0x15 MapUserMem,
    /// How far a context is.
    CMDSTREAM_READTIMESTAMP_CTXTID = IOWR 0x16 ReadTimestamp,
    /// Ends a mapping.
    SHAREDMEM_FREE = IOW 0x21 SharedmemFree,
    /// Sets a property.
    SETPROPERTY = IOW 0x32 Property [value: sizebytes of u8],
    /// Memory; older than GPUOBJ_ALLOC.
    GPUMEM_ALLOC_ID = IOWR 0x34 GpumemAllocId,
    /// Frees it.
    GPUMEM_FREE_ID = IOWR 0x35 GpumemFreeId,
    /// Caches of the CPU, of one object.
    GPUMEM_SYNC_CACHE = IOW 0x37 GpumemSyncCache,
    /// Starts a counter.
    PERFCOUNTER_GET = IOWR 0x38 PerfcounterGet,
    /// Gives it back.
    PERFCOUNTER_PUT = IOW 0x39 PerfcounterPut,
    /// Reads counters.
    PERFCOUNTER_READ = IOWR 0x3b PerfcounterRead [reads: count of PerfcounterReadGroup],
    /// Memory.
    GPUOBJ_ALLOC = IOWR 0x45 GpuobjAlloc [metadata: metadata_len of u8],
    /// Frees it.
    GPUOBJ_FREE = IOW 0x46 GpuobjFree [priv_address: len of u8],
    /// Where an object is.
    GPUOBJ_INFO = IOWR 0x47 GpuobjInfo,
    /// Memory of the client, or a dmabuf, for the GPU. For the address of a client `priv_len` is not the length of what
    /// `priv` points to: no description of pointers fits both, so calls are refused. [`by_descriptor`] has that of a
    /// dmabuf; for an address there is MAP_USER_MEM.
    GPUOBJ_IMPORT = IOWR 0x48 GpuobjImport [undescribed],
    /// Caches of the CPU, of several objects.
    GPUOBJ_SYNC = IOW 0x49 GpuobjSync [objs: count of GpuobjSyncObj],
    /// Commands for a context.
    GPU_COMMAND = IOWR 0x4a GpuCommand [
        cmdlist: numcmds of CommandObject,
        objlist: numobjs of CommandObject,
        synclist: numsyncs of CommandSyncpoint
    ],
}

/// GPUOBJ_IMPORT of a dmabuf: `priv_len` is the length of what `priv` points to ([`ImportDmaBuf`]).
pub mod by_descriptor {
    use super::{GpuobjImport, ioctls};

    ioctls! { IOCTLS, 0x09, "IOCTL_KGSL_";
        /// A dmabuf for the GPU.
        GPUOBJ_IMPORT = IOWR 0x48 GpuobjImport [priv_address: priv_len of u8],
    }
}

/// What the kernel refuses a call with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Errno {
    /// Nothing of that name.
    Enoent = 2,
    /// A signal: the call is made again.
    Eintr = 4,
    /// No memory.
    Enomem = 12,
    /// An address that cannot be read or mapped.
    Efault = 14,
    /// In use.
    Ebusy = 16,
    /// The device does not have it.
    Enodev = 19,
    /// An argument.
    Einval = 22,
    /// A number out of its range.
    Erange = 34,
    /// The context is invalid: the GPU was reset.
    Edeadlk = 35,
    /// The context has faulted before; this call was done all the same.
    Eproto = 71,
    /// Not supported.
    Eopnotsupp = 95,
    /// The time is over.
    Etimedout = 110,
}

/// When a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the ioctl.
    pub nr: u32,
    /// With what.
    pub errno: Errno,
    /// When.
    pub when: &'static str,
}

const fn refusal(ioctl: hcq::transport::Ioctl, errno: Errno, when: &'static str) -> Refusal {
    Refusal {
        nr: ioctl.nr(),
        errno,
        when,
    }
}

/// What calls are refused with, and when. Waits and submissions come first: their errors are about the GPU.
pub const REFUSALS: &[Refusal] = &[
    refusal(
        DEVICE_WAITTIMESTAMP_CTXTID.ioctl(),
        Errno::Einval,
        "unknown context, or a timestamp that was not queued and is not the client's own",
    ),
    refusal(
        DEVICE_WAITTIMESTAMP_CTXTID.ioctl(),
        Errno::Enoent,
        "the context is detached",
    ),
    refusal(
        DEVICE_WAITTIMESTAMP_CTXTID.ioctl(),
        Errno::Edeadlk,
        "the context is invalid after a GPU fault or hang",
    ),
    refusal(
        DEVICE_WAITTIMESTAMP_CTXTID.ioctl(),
        Errno::Etimedout,
        "the timeout expired",
    ),
    refusal(
        DEVICE_WAITTIMESTAMP_CTXTID.ioctl(),
        Errno::Eintr,
        "interrupted by a signal",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Einval,
        "unknown context, too many entries, a list with only some of address, size and count, or a command without a \
         kind, of no dwords or of more than 2^20 - 1",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Enoent,
        "the context is detached",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Edeadlk,
        "the context is invalid after a GPU fault or hang",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Eproto,
        "an earlier submission of the context faulted; this one is queued",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Etimedout,
        "the queue of the context stayed full",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Erange,
        "a timestamp of the client's own that is not after the last",
    ),
    refusal(
        GPU_COMMAND.ioctl(),
        Errno::Efault,
        "a list that cannot be read",
    ),
    refusal(
        DRAWCTXT_CREATE.ioctl(),
        Errno::Einval,
        "without PREAMBLE or without NO_GMEM_ALLOC",
    ),
    refusal(
        DRAWCTXT_CREATE.ioctl(),
        Errno::Eopnotsupp,
        "secure, or LPAC, and the GPU has none",
    ),
    refusal(DRAWCTXT_DESTROY.ioctl(), Errno::Einval, "unknown context"),
    refusal(
        DEVICE_GETPROPERTY.ioctl(),
        Errno::Einval,
        "a size other than the property's; in kernels 4.9 an unknown property",
    ),
    refusal(
        DEVICE_GETPROPERTY.ioctl(),
        Errno::Enodev,
        "an unknown property; not in kernels 4.9",
    ),
    refusal(
        SETPROPERTY.ioctl(),
        Errno::Einval,
        "a size other than the property's, or an unknown context",
    ),
    refusal(
        GPUOBJ_ALLOC.ioctl(),
        Errno::Einval,
        "no bytes, or 4 GiB or more",
    ),
    refusal(GPUOBJ_ALLOC.ioctl(), Errno::Enomem, "no memory left"),
    refusal(GPUOBJ_FREE.ioctl(), Errno::Einval, "unknown object"),
    refusal(
        GPUOBJ_FREE.ioctl(),
        Errno::Ebusy,
        "the object is about to be freed",
    ),
    refusal(GPUOBJ_INFO.ioctl(), Errno::Einval, "unknown object"),
    refusal(
        GPUOBJ_SYNC.ioctl(),
        Errno::Einval,
        "no objects, or more than 128",
    ),
    refusal(GPUMEM_SYNC_CACHE.ioctl(), Errno::Einval, "unknown object"),
    refusal(
        MAP_USER_MEM.ioctl(),
        Errno::Einval,
        "an address or a length that is no multiple of a page, or an offset",
    ),
    refusal(
        MAP_USER_MEM.ioctl(),
        Errno::Efault,
        "memory that is itself a mapping of KGSL: the GPU has it at the same address",
    ),
];

/// What refusals with a number mean, for a call.
pub fn refusals(request: u32, errno: i32) -> impl Iterator<Item = &'static Refusal> {
    let nr = hcq::transport::Ioctl::nr_of(request);
    let of_call = move |refusal: &&Refusal| refusal.nr == nr && refusal.errno as i32 == errno;
    REFUSALS.iter().filter(of_call)
}
