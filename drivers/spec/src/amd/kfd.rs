//! The ioctls of AMD's compute driver, `/dev/kfd`.
//!
//! Source: Linux, include/uapi/linux/kfd_ioctl.h, version 1.17 (Linux 6.12), and
//! drivers/gpu/drm/amd/amdkfd/kfd_priv.h for the offsets of mmap. `<-` marks what the kernel
//! returns. Fields of flags are plain integers, as the kernel has them; the types of flags are here.

use bitflags::bitflags;

use super::uapi::{ioctls, structs};

/// The type of the requests, `K`.
pub const KIND: u8 = b'K';

/// `KFD_MAX_QUEUE_PERCENTAGE`.
pub const MAX_QUEUE_PERCENTAGE: u32 = 100;
/// `KFD_MAX_QUEUE_PRIORITY`.
pub const MAX_QUEUE_PRIORITY: u32 = 15;
/// `KFD_MIN_QUEUE_RING_SIZE`: smaller rings are taken as this.
pub const MIN_QUEUE_RING_SIZE: u32 = 1024;
/// `KFD_SIGNAL_EVENT_LIMIT`: slots of the event page.
pub const SIGNAL_EVENT_LIMIT: u32 = 4096;
/// `NUM_OF_SUPPORTED_GPUS` of the old GET_PROCESS_APERTURES.
pub const NUM_OF_SUPPORTED_GPUS: usize = 7;

/// `KFD_IOC_QUEUE_TYPE_*`.
pub mod queue_type {
    /// PM4 packets.
    pub const COMPUTE: u32 = 0;
    /// SDMA, on an engine of the kernel's choice.
    pub const SDMA: u32 = 1;
    /// AQL packets.
    pub const COMPUTE_AQL: u32 = 2;
    /// SDMA for XGMI.
    pub const SDMA_XGMI: u32 = 3;
    /// SDMA, on a given engine. Since 1.17.
    pub const SDMA_BY_ENG_ID: u32 = 4;
}

/// `KFD_IOC_EVENT_*`.
pub mod event_type {
    /// Signalled by the GPU, or by SET_EVENT.
    pub const SIGNAL: u32 = 0;
    /// Unused.
    pub const NODECHANGE: u32 = 1;
    /// Unused.
    pub const DEVICESTATECHANGE: u32 = 2;
    /// A reset.
    pub const HW_EXCEPTION: u32 = 3;
    /// Unused.
    pub const SYSTEM_EVENT: u32 = 4;
    /// As SIGNAL, but only by the GPU.
    pub const DEBUG_EVENT: u32 = 5;
    /// Unused.
    pub const PROFILE_EVENT: u32 = 6;
    /// Unused.
    pub const QUEUE_EVENT: u32 = 7;
    /// A memory fault.
    pub const MEMORY: u32 = 8;
}

/// `KFD_IOC_WAIT_RESULT_*`.
pub mod wait_result {
    /// Signalled.
    pub const COMPLETE: u32 = 0;
    /// Timed out.
    pub const TIMEOUT: u32 = 1;
    /// Failed.
    pub const FAIL: u32 = 2;
}

/// `KFD_HW_EXCEPTION_*` and `KFD_MEM_ERR_*`.
pub mod exception {
    /// reset_type: the whole GPU.
    pub const WHOLE_GPU_RESET: u32 = 0;
    /// reset_type: an engine.
    pub const PER_ENGINE_RESET: u32 = 1;
    /// reset_cause: a hang.
    pub const GPU_HANG: u32 = 0;
    /// reset_cause: an error of memory.
    pub const ECC: u32 = 1;
    /// ErrorType: none.
    pub const NO_RAS: u32 = 0;
    /// ErrorType: SRAM.
    pub const SRAM_ECC: u32 = 1;
    /// ErrorType: poison was consumed.
    pub const POISON_CONSUMED: u32 = 2;
    /// ErrorType: a hang.
    pub const MEM_GPU_HANG: u32 = 3;
}

bitflags! {
    /// `KFD_IOC_ALLOC_MEM_FLAGS_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Alloc: u32 {
        /// Memory of the GPU.
        const VRAM = 1 << 0;
        /// System memory.
        const GTT = 1 << 1;
        /// The client's memory.
        const USERPTR = 1 << 2;
        /// The doorbells of the process.
        const DOORBELL = 1 << 3;
        /// The page of HDP flush registers.
        const MMIO_REMAP = 1 << 4;
        /// In one piece. Since 1.16.
        const CONTIGUOUS = 1 << 23;
        /// Coherent with other devices, also when cached.
        const EXT_COHERENT = 1 << 24;
        /// Not cached.
        const UNCACHED = 1 << 25;
        /// Coherent with the CPU.
        const COHERENT = 1 << 26;
        /// Mapped twice, one after the other (gfx7 and gfx8).
        const AQL_QUEUE_MEM = 1 << 27;
        /// No other kind of memory instead.
        const NO_SUBSTITUTE = 1 << 28;
        /// The CPU may map it.
        const PUBLIC = 1 << 29;
        /// The GPU may execute it.
        const EXECUTABLE = 1 << 30;
        /// The GPU may write it.
        const WRITABLE = 1 << 31;
    }
}

impl Alloc {
    /// The types of memory, of which an allocation has one.
    pub const TYPES: Alloc = Alloc::VRAM
        .union(Alloc::GTT)
        .union(Alloc::USERPTR)
        .union(Alloc::DOORBELL)
        .union(Alloc::MMIO_REMAP);
}

/// `KFD_IOC_CACHE_POLICY_*`.
pub mod cache_policy {
    /// Coherent.
    pub const COHERENT: u32 = 0;
    /// Not coherent.
    pub const NONCOHERENT: u32 = 1;
}

/// The offsets at which `/dev/kfd` is mapped: a type in bits 63:62, a gpu_id in bits 61:46.
/// Source: Linux, amdkfd/kfd_priv.h, `KFD_MMAP_*`.
pub mod mmap {
    /// The bits of the type.
    pub const TYPE_MASK: u64 = 3 << 62;
    /// The doorbells of the process.
    pub const DOORBELL: u64 = 3 << 62;
    /// The event page that the kernel allocates where the client has given none.
    pub const EVENTS: u64 = 2 << 62;
    /// Memory reserved for the trap handler of an APU.
    pub const RESERVED_MEM: u64 = 1 << 62;
    /// The page of HDP flush registers.
    pub const MMIO: u64 = 0;
    /// Where the gpu_id lies.
    pub const GPU_ID_SHIFT: u32 = 46;
    /// The gpu_id in an offset.
    pub const fn gpu_id(offset: u64) -> u32 {
        (offset >> GPU_ID_SHIFT & 0xffff) as u32
    }
    /// Bytes of the doorbells of a process: 1024 of 8 bytes.
    pub const DOORBELL_BYTES: u64 = 0x2000;
}

/// `enum kfd_mmio_remap`: registers in the page of MMIO_REMAP.
pub mod mmio_remap {
    /// A store of 1 flushes what the CPU has written to memory of the GPU.
    pub const HDP_MEM_FLUSH_CNTL: usize = 0;
    /// The same for registers.
    pub const HDP_REG_FLUSH_CNTL: usize = 4;
}

/// Operations and attributes of SVM.
pub mod svm {
    /// `KFD_IOCTL_SVM_OP_SET_ATTR`.
    pub const OP_SET_ATTR: u32 = 0;
    /// `KFD_IOCTL_SVM_OP_GET_ATTR`.
    pub const OP_GET_ATTR: u32 = 1;
    /// A gpu_id, 0 for system memory, or [`LOCATION_UNDEFINED`].
    pub const ATTR_PREFERRED_LOC: u32 = 0;
    /// As PREFERRED_LOC; the range migrates at once.
    pub const ATTR_PREFETCH_LOC: u32 = 1;
    /// The gpu_id may access.
    pub const ATTR_ACCESS: u32 = 2;
    /// The gpu_id may access, and the range stays where it is.
    pub const ATTR_ACCESS_IN_PLACE: u32 = 3;
    /// The gpu_id may not access.
    pub const ATTR_NO_ACCESS: u32 = 4;
    /// Sets flags.
    pub const ATTR_SET_FLAGS: u32 = 5;
    /// Clears flags.
    pub const ATTR_CLR_FLAGS: u32 = 6;
    /// Pages (as a power of two) that migrate together.
    pub const ATTR_GRANULARITY: u32 = 7;
    /// `KFD_IOCTL_SVM_LOCATION_UNDEFINED`.
    pub const LOCATION_UNDEFINED: u32 = u32::MAX;
}

bitflags! {
    /// `KFD_IOCTL_SVM_FLAG_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SvmFlags: u32 {
        /// The CPU may access.
        const HOST_ACCESS = 0x01;
        /// Coherent between devices.
        const COHERENT = 0x02;
        /// Any GPU of the same hive is as good.
        const HIVE_LOCAL = 0x04;
        /// GPUs only read.
        const GPU_RO = 0x08;
        /// GPUs may execute.
        const GPU_EXEC = 0x10;
        /// GPUs mostly read.
        const GPU_READ_MOSTLY = 0x20;
        /// Always mapped, as if XNACK were off.
        const GPU_ALWAYS_MAPPED = 0x40;
        /// Coherent with other devices, also when cached.
        const EXT_COHERENT = 0x80;
    }
}

bitflags! {
    /// `KFD_RUNTIME_ENABLE_MODE_*_MASK`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RuntimeMode: u32 {
        /// Enable; without it: disable.
        const ENABLE = 1;
        /// The trap temporaries are saved.
        const TTMP_SAVE = 2;
    }
}

/// Operations of DBG_TRAP, `enum kfd_dbg_trap_operations`.
pub mod dbg_trap {
    /// Enable.
    pub const ENABLE: u32 = 0;
    /// Disable.
    pub const DISABLE: u32 = 1;
    /// The last one, GET_DEVICE_SNAPSHOT.
    pub const LAST: u32 = 13;
}

/// Codes of exceptions, `enum kfd_dbg_trap_exception_code`: those of queues.
pub mod exception_code {
    /// A wave executed s_abort.
    pub const QUEUE_WAVE_ABORT: u32 = 1;
    /// A wave executed s_trap.
    pub const QUEUE_WAVE_TRAP: u32 = 2;
    /// A wave had a math error.
    pub const QUEUE_WAVE_MATH_ERROR: u32 = 3;
    /// A wave executed an illegal instruction.
    pub const QUEUE_WAVE_ILLEGAL_INSTRUCTION: u32 = 4;
    /// A wave violated memory.
    pub const QUEUE_WAVE_MEMORY_VIOLATION: u32 = 5;
    /// A wave violated an aperture.
    pub const QUEUE_WAVE_APERTURE_VIOLATION: u32 = 6;
    /// An AQL packet has dimensions that are not valid.
    pub const QUEUE_PACKET_DISPATCH_DIM_INVALID: u32 = 16;
    /// The group segment is too large.
    pub const QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID: u32 = 17;
    /// The code is not valid.
    pub const QUEUE_PACKET_DISPATCH_CODE_INVALID: u32 = 18;
    /// Reserved.
    pub const QUEUE_PACKET_RESERVED: u32 = 19;
    /// The packet is not supported.
    pub const QUEUE_PACKET_UNSUPPORTED: u32 = 20;
    /// The work group is too large.
    pub const QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID: u32 = 21;
    /// The registers do not fit.
    pub const QUEUE_PACKET_DISPATCH_REGISTER_INVALID: u32 = 22;
    /// The vendor packet is not supported.
    pub const QUEUE_PACKET_VENDOR_UNSUPPORTED: u32 = 23;
    /// Preemption failed.
    pub const QUEUE_PREEMPTION_ERROR: u32 = 30;
    /// A queue was created.
    pub const QUEUE_NEW: u32 = 31;
    /// Bit of a code in a mask.
    pub const fn mask(code: u32) -> u64 {
        1 << (code - 1)
    }
}

structs! { LAYOUTS;
    /// GET_VERSION.
    GetVersionArgs = "kfd_ioctl_get_version_args" {
        /// <- 1.
        major_version: u32,
        /// <- 9: AVAILABLE_MEMORY, 12: EXPORT_DMABUF, 13: debugger, 14: ages of events, 15: GEM_VA on
        /// compute VMs, 16: contiguous VRAM, 17: SDMA by engine.
        minor_version: u32,
    }
    /// CREATE_QUEUE.
    CreateQueueArgs = "kfd_ioctl_create_queue_args" {
        /// Address of the ring.
        ring_base_address: u64,
        /// Address of the 64-bit write pointer.
        write_pointer_address: u64,
        /// Address of the 64-bit read pointer.
        read_pointer_address: u64,
        /// <- an offset of `/dev/kfd`, see [`mmap`]; bits 12:0 say where in the page.
        doorbell_offset: u64,
        /// Bytes, a power of two.
        ring_size: u32,
        /// The GPU.
        gpu_id: u32,
        /// See [`queue_type`].
        queue_type: u32,
        /// Bits 7:0: 0 to 100. Bits 15:8: the XCC of a PM4 queue.
        queue_percentage: u32,
        /// 0 to 15.
        queue_priority: u32,
        /// <-
        queue_id: u32,
        /// Address of the end-of-pipe buffer.
        eop_buffer_address: u64,
        /// Its bytes.
        eop_buffer_size: u64,
        /// Address of the area for context save and restore.
        ctx_save_restore_address: u64,
        /// Its bytes for one XCC, without what the debugger uses.
        ctx_save_restore_size: u32,
        /// Bytes of the control stack in it.
        ctl_stack_size: u32,
        /// Engine, for SDMA_BY_ENG_ID.
        sdma_engine_id: u32,
        /// Zero.
        pad: u32,
    }
    /// DESTROY_QUEUE.
    DestroyQueueArgs = "kfd_ioctl_destroy_queue_args" {
        /// Which.
        queue_id: u32,
        /// Zero.
        pad: u32,
    }
    /// UPDATE_QUEUE.
    UpdateQueueArgs = "kfd_ioctl_update_queue_args" {
        /// Address of the ring; 0 disables the queue.
        ring_base_address: u64,
        /// Which.
        queue_id: u32,
        /// Bytes.
        ring_size: u32,
        /// As in CREATE_QUEUE; 0 suspends the queue.
        queue_percentage: u32,
        /// 0 to 15.
        queue_priority: u32,
    }
    /// SET_CU_MASK.
    SetCuMaskArgs = "kfd_ioctl_set_cu_mask_args" {
        /// Which.
        queue_id: u32,
        /// Bits in the mask, a multiple of 32.
        num_cu_mask: u32,
        /// Address of the mask.
        cu_mask_ptr: u64,
    }
    /// GET_QUEUE_WAVE_STATE.
    GetQueueWaveStateArgs = "kfd_ioctl_get_queue_wave_state_args" {
        /// Address for the control stack.
        ctl_stack_address: u64,
        /// <-
        ctl_stack_used_size: u32,
        /// <-
        save_area_used_size: u32,
        /// Which.
        queue_id: u32,
        /// Zero.
        pad: u32,
    }
    /// AVAILABLE_MEMORY.
    GetAvailableMemoryArgs = "kfd_ioctl_get_available_memory_args" {
        /// <- bytes.
        available: u64,
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// SET_MEMORY_POLICY.
    SetMemoryPolicyArgs = "kfd_ioctl_set_memory_policy_args" {
        /// The alternate aperture.
        alternate_aperture_base: u64,
        /// Its bytes.
        alternate_aperture_size: u64,
        /// The GPU.
        gpu_id: u32,
        /// See [`cache_policy`].
        default_policy: u32,
        /// See [`cache_policy`].
        alternate_policy: u32,
        /// Zero; `misc_process_flag` since 1.18.
        pad: u32,
    }
    /// GET_CLOCK_COUNTERS.
    GetClockCountersArgs = "kfd_ioctl_get_clock_counters_args" {
        /// <- ticks of the GPU.
        gpu_clock_counter: u64,
        /// <- CLOCK_MONOTONIC_RAW in ns.
        cpu_clock_counter: u64,
        /// <- CLOCK_BOOTTIME in ns.
        system_clock_counter: u64,
        /// <- 10^9.
        system_clock_freq: u64,
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// The apertures of a GPU.
    ProcessDeviceApertures = "kfd_process_device_apertures" {
        /// Flat addresses of LDS.
        lds_base: u64,
        /// The last of them.
        lds_limit: u64,
        /// Flat addresses of scratch.
        scratch_base: u64,
        /// The last of them.
        scratch_limit: u64,
        /// Addresses that may be mapped.
        gpuvm_base: u64,
        /// The last of them.
        gpuvm_limit: u64,
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// GET_PROCESS_APERTURES.
    GetProcessAperturesArgs = "kfd_ioctl_get_process_apertures_args" {
        /// <-
        process_apertures: [ProcessDeviceApertures; NUM_OF_SUPPORTED_GPUS],
        /// <-
        num_of_nodes: u32,
        /// Zero.
        pad: u32,
    }
    /// GET_PROCESS_APERTURES_NEW.
    GetProcessAperturesNewArgs = "kfd_ioctl_get_process_apertures_new_args" {
        /// Address of an array of [`ProcessDeviceApertures`].
        kfd_process_device_apertures_ptr: u64,
        /// Its length, 0 to ask; <- how many there are.
        num_of_nodes: u32,
        /// Zero.
        pad: u32,
    }
    /// DBG_REGISTER_DEPRECATED.
    DbgRegisterArgs = "kfd_ioctl_dbg_register_args" {
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// DBG_UNREGISTER_DEPRECATED.
    DbgUnregisterArgs = "kfd_ioctl_dbg_unregister_args" {
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// DBG_ADDRESS_WATCH_DEPRECATED.
    DbgAddressWatchArgs = "kfd_ioctl_dbg_address_watch_args" {
        /// Address of the content.
        content_ptr: u64,
        /// The GPU.
        gpu_id: u32,
        /// Bytes.
        buf_size_in_bytes: u32,
    }
    /// DBG_WAVE_CONTROL_DEPRECATED.
    DbgWaveControlArgs = "kfd_ioctl_dbg_wave_control_args" {
        /// Address of the content.
        content_ptr: u64,
        /// The GPU.
        gpu_id: u32,
        /// Bytes.
        buf_size_in_bytes: u32,
    }
    /// CREATE_EVENT.
    CreateEventArgs = "kfd_ioctl_create_event_args" {
        /// The handle of the event page, once; <- an offset of `/dev/kfd`.
        event_page_offset: u64,
        /// <- the id that a packet writes and sends.
        event_trigger_data: u32,
        /// See [`event_type`].
        event_type: u32,
        /// The first wait resets the event.
        auto_reset: u32,
        /// A node; not used.
        node_id: u32,
        /// <-
        event_id: u32,
        /// <- slot of 8 bytes in the event page.
        event_slot_index: u32,
    }
    /// DESTROY_EVENT.
    DestroyEventArgs = "kfd_ioctl_destroy_event_args" {
        /// Which.
        event_id: u32,
        /// Zero.
        pad: u32,
    }
    /// SET_EVENT.
    SetEventArgs = "kfd_ioctl_set_event_args" {
        /// Which.
        event_id: u32,
        /// Zero.
        pad: u32,
    }
    /// RESET_EVENT.
    ResetEventArgs = "kfd_ioctl_reset_event_args" {
        /// Which.
        event_id: u32,
        /// Zero.
        pad: u32,
    }
    /// Why memory failed.
    MemoryExceptionFailure = "kfd_memory_exception_failure" {
        /// The page is not there.
        not_present = "NotPresent": u32,
        /// A write to a page that may only be read.
        read_only = "ReadOnly": u32,
        /// A fetch from a page that may not be executed.
        no_execute = "NoExecute": u32,
        /// The address is not exact.
        imprecise: u32,
    }
    /// What a MEMORY event tells.
    HsaMemoryExceptionData = "kfd_hsa_memory_exception_data" {
        /// Why.
        failure: MemoryExceptionFailure,
        /// The page.
        va: u64,
        /// The GPU.
        gpu_id: u32,
        /// See [`exception`].
        error_type = "ErrorType": u32,
    }
    /// What a HW_EXCEPTION event tells.
    HsaHwExceptionData = "kfd_hsa_hw_exception_data" {
        /// See [`exception`].
        reset_type: u32,
        /// See [`exception`].
        reset_cause: u32,
        /// Memory is lost.
        memory_lost: u32,
        /// The GPU.
        gpu_id: u32,
    }
    /// What a SIGNAL event tells. Since 1.14.
    HsaSignalEventData = "kfd_hsa_signal_event_data" {
        /// How often it was signalled, as known to the client, 0 for not at all; <- the same.
        last_event_age: u64,
    }
    /// An event to wait for. The union at its start is here the largest member;
    /// [`HsaHwExceptionData`] and [`HsaSignalEventData`] lie at the same place.
    EventData = "kfd_event_data" {
        /// <- of a MEMORY event.
        memory_exception_data: HsaMemoryExceptionData,
        /// Zero.
        kfd_event_data_ext: u64,
        /// Which.
        event_id: u32,
        /// Zero.
        pad: u32,
    }
    /// WAIT_EVENTS.
    WaitEventsArgs = "kfd_ioctl_wait_events_args" {
        /// Address of an array of [`EventData`].
        events_ptr: u64,
        /// Its length.
        num_events: u32,
        /// All of them, or one.
        wait_for_all: u32,
        /// In ms; 0 polls, 0xffffffff is for ever.
        timeout: u32,
        /// <- see [`wait_result`].
        wait_result: u32,
    }
    /// SET_SCRATCH_BACKING_VA.
    SetScratchBackingVaArgs = "kfd_ioctl_set_scratch_backing_va_args" {
        /// The address.
        va_addr: u64,
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// GET_TILE_CONFIG.
    GetTileConfigArgs = "kfd_ioctl_get_tile_config_args" {
        /// Address of an array of u32.
        tile_config_ptr: u64,
        /// Address of an array of u32.
        macro_tile_config_ptr: u64,
        /// Length of the first; <- how much was filled.
        num_tile_configs: u32,
        /// Length of the second; <- how much was filled.
        num_macro_tile_configs: u32,
        /// The GPU.
        gpu_id: u32,
        /// <-
        gb_addr_config: u32,
        /// <-
        num_banks: u32,
        /// <-
        num_ranks: u32,
    }
    /// SET_TRAP_HANDLER.
    SetTrapHandlerArgs = "kfd_ioctl_set_trap_handler_args" {
        /// Address of the code.
        tba_addr: u64,
        /// Address of the memory.
        tma_addr: u64,
        /// The GPU.
        gpu_id: u32,
        /// Zero.
        pad: u32,
    }
    /// ACQUIRE_VM.
    AcquireVmArgs = "kfd_ioctl_acquire_vm_args" {
        /// An open render node.
        drm_fd: u32,
        /// The GPU.
        gpu_id: u32,
    }
    /// ALLOC_MEMORY_OF_GPU.
    AllocMemoryOfGpuArgs = "kfd_ioctl_alloc_memory_of_gpu_args" {
        /// The address that it will have.
        va_addr: u64,
        /// Bytes.
        size: u64,
        /// <- gpu_id in the upper half, a number in the lower.
        handle: u64,
        /// The address of USERPTR memory; <- an offset of the render node.
        mmap_offset: u64,
        /// The GPU.
        gpu_id: u32,
        /// [`Alloc`].
        flags: u32,
    }
    /// FREE_MEMORY_OF_GPU.
    FreeMemoryOfGpuArgs = "kfd_ioctl_free_memory_of_gpu_args" {
        /// Which.
        handle: u64,
    }
    /// MAP_MEMORY_TO_GPU.
    MapMemoryToGpuArgs = "kfd_ioctl_map_memory_to_gpu_args" {
        /// Which.
        handle: u64,
        /// Address of an array of gpu_id.
        device_ids_array_ptr: u64,
        /// Its length.
        n_devices: u32,
        /// How many are done already; <- the same.
        n_success: u32,
    }
    /// UNMAP_MEMORY_FROM_GPU.
    UnmapMemoryFromGpuArgs = "kfd_ioctl_unmap_memory_from_gpu_args" {
        /// Which.
        handle: u64,
        /// Address of an array of gpu_id.
        device_ids_array_ptr: u64,
        /// Its length.
        n_devices: u32,
        /// How many are done already; <- the same.
        n_success: u32,
    }
    /// ALLOC_QUEUE_GWS.
    AllocQueueGwsArgs = "kfd_ioctl_alloc_queue_gws_args" {
        /// Which queue.
        queue_id: u32,
        /// How much global wave sync; 0 gives it back.
        num_gws: u32,
        /// <- 0.
        first_gws: u32,
        /// Zero.
        pad: u32,
    }
    /// GET_DMABUF_INFO.
    GetDmabufInfoArgs = "kfd_ioctl_get_dmabuf_info_args" {
        /// <- bytes.
        size: u64,
        /// Address for metadata, or 0.
        metadata_ptr: u64,
        /// Bytes there; <- bytes of the metadata.
        metadata_size: u32,
        /// <- the GPU.
        gpu_id: u32,
        /// <- [`Alloc`].
        flags: u32,
        /// Which.
        dmabuf_fd: u32,
    }
    /// IMPORT_DMABUF.
    ImportDmabufArgs = "kfd_ioctl_import_dmabuf_args" {
        /// The address that it will have.
        va_addr: u64,
        /// <-
        handle: u64,
        /// The GPU.
        gpu_id: u32,
        /// Which.
        dmabuf_fd: u32,
    }
    /// EXPORT_DMABUF. Since 1.12.
    ExportDmabufArgs = "kfd_ioctl_export_dmabuf_args" {
        /// Which.
        handle: u64,
        /// Of the descriptor, O_CLOEXEC.
        flags: u32,
        /// <-
        dmabuf_fd: u32,
    }
    /// SMI_EVENTS.
    SmiEventsArgs = "kfd_ioctl_smi_events_args" {
        /// The GPU.
        gpuid: u32,
        /// <-
        anon_fd: u32,
    }
    /// CRIU_OP.
    CriuArgs = "kfd_ioctl_criu_args" {
        /// Address.
        devices: u64,
        /// Address.
        bos: u64,
        /// Address.
        priv_data: u64,
        /// Bytes.
        priv_data_size: u64,
        /// Length.
        num_devices: u32,
        /// Length.
        num_bos: u32,
        /// Length.
        num_objects: u32,
        /// The process.
        pid: u32,
        /// The operation.
        op: u32,
        /// Padding of the compiler; no field of the header.
        end = "": u32,
    }
    /// An attribute of SVM.
    SvmAttribute = "kfd_ioctl_svm_attribute" {
        /// See [`svm`].
        kind = "type": u32,
        /// The value; of SET_FLAGS and CLR_FLAGS [`SvmFlags`].
        value: u32,
    }
    /// SVM: what lies before the attributes.
    SvmArgs = "kfd_ioctl_svm_args" {
        /// The first address, at a page.
        start_addr: u64,
        /// Bytes, whole pages.
        size: u64,
        /// See [`svm`].
        op: u32,
        /// How many attributes follow.
        nattr: u32,
    }
    /// SET_XNACK_MODE.
    SetXnackModeArgs = "kfd_ioctl_set_xnack_mode_args" {
        /// 0, 1; negative to ask; <- what it is.
        xnack_enabled: i32,
    }
    /// RUNTIME_ENABLE. Since 1.13.
    RuntimeEnableArgs = "kfd_ioctl_runtime_enable_args" {
        /// Address for a debugger.
        r_debug: u64,
        /// [`RuntimeMode`].
        mode_mask: u32,
        /// <- [`RuntimeMode`].
        capabilities_mask: u32,
    }
    /// DBG_TRAP. The union at its end is here its size. Since 1.13.
    DbgTrapArgs = "kfd_ioctl_dbg_trap_args" {
        /// The process.
        pid: u32,
        /// See [`dbg_trap`].
        op: u32,
        /// The arguments of the operation.
        arguments = "enable": [u64; 3],
    }
    /// Where waves were saved.
    ContextSaveAreaHeaderWaveState = "kfd_context_save_area_header_wave_state" {
        /// Bytes.
        control_stack_offset: u32,
        /// Bytes.
        control_stack_size: u32,
        /// Bytes.
        wave_state_offset: u32,
        /// Bytes.
        wave_state_size: u32,
    }
    /// The start of each XCC's area for context save and restore. Since 1.13.
    ContextSaveAreaHeader = "kfd_context_save_area_header" {
        /// Where waves were saved.
        wave_state: ContextSaveAreaHeaderWaveState,
        /// Bytes from the start of the area to what the debugger uses.
        debug_offset: u32,
        /// Bytes for all XCCs.
        debug_size: u32,
        /// Address of a u64 to which the mask of exceptions is ORed.
        err_payload_addr: u64,
        /// The event that is signalled then.
        err_event_id: u32,
        /// Zero.
        reserved1: u32,
    }
}

ioctls! { IOCTLS, b'K', "AMDKFD_IOC_";
    /// The version of the interface.
    GET_VERSION = IOR 0x01 GetVersionArgs,
    /// Creates a queue.
    CREATE_QUEUE = IOWR 0x02 CreateQueueArgs,
    /// Destroys one.
    DESTROY_QUEUE = IOWR 0x03 DestroyQueueArgs,
    /// Default cache policies.
    SET_MEMORY_POLICY = IOW 0x04 SetMemoryPolicyArgs,
    /// Clocks of GPU and CPU, read together.
    GET_CLOCK_COUNTERS = IOWR 0x05 GetClockCountersArgs,
    /// Apertures of up to 7 GPUs.
    GET_PROCESS_APERTURES = IOR 0x06 GetProcessAperturesArgs,
    /// Changes ring, percentage, priority.
    UPDATE_QUEUE = IOW 0x07 UpdateQueueArgs,
    /// Creates an event.
    CREATE_EVENT = IOWR 0x08 CreateEventArgs,
    /// Destroys one; who waits for it fails.
    DESTROY_EVENT = IOW 0x09 DestroyEventArgs,
    /// Signals one.
    SET_EVENT = IOW 0x0a SetEventArgs,
    /// Resets one.
    RESET_EVENT = IOW 0x0b ResetEventArgs,
    /// Waits for one or all.
    WAIT_EVENTS = IOWR 0x0c WaitEventsArgs [events_ptr: num_events of EventData],
    /// EPERM.
    DBG_REGISTER_DEPRECATED = IOW 0x0d DbgRegisterArgs,
    /// EPERM.
    DBG_UNREGISTER_DEPRECATED = IOW 0x0e DbgUnregisterArgs,
    /// EPERM.
    DBG_ADDRESS_WATCH_DEPRECATED = IOW 0x0f DbgAddressWatchArgs [undescribed],
    /// EPERM.
    DBG_WAVE_CONTROL_DEPRECATED = IOW 0x10 DbgWaveControlArgs [undescribed],
    /// The base of scratch.
    SET_SCRATCH_BACKING_VA = IOWR 0x11 SetScratchBackingVaArgs,
    /// How images are tiled.
    GET_TILE_CONFIG = IOWR 0x12 GetTileConfigArgs [tile_config_ptr: num_tile_configs of u32, macro_tile_config_ptr: num_macro_tile_configs of u32],
    /// The second-level trap handler.
    SET_TRAP_HANDLER = IOW 0x13 SetTrapHandlerArgs,
    /// Apertures of all GPUs.
    GET_PROCESS_APERTURES_NEW = IOWR 0x14 GetProcessAperturesNewArgs [kfd_process_device_apertures_ptr: num_of_nodes of ProcessDeviceApertures],
    /// Binds the address space of an open render node to the process.
    ACQUIRE_VM = IOW 0x15 AcquireVmArgs,
    /// Allocates memory.
    ALLOC_MEMORY_OF_GPU = IOWR 0x16 AllocMemoryOfGpuArgs,
    /// Frees it.
    FREE_MEMORY_OF_GPU = IOW 0x17 FreeMemoryOfGpuArgs,
    /// Maps it for GPUs.
    MAP_MEMORY_TO_GPU = IOWR 0x18 MapMemoryToGpuArgs [device_ids_array_ptr: n_devices of u32],
    /// Unmaps it.
    UNMAP_MEMORY_FROM_GPU = IOWR 0x19 UnmapMemoryFromGpuArgs [device_ids_array_ptr: n_devices of u32],
    /// The compute units that a queue may use.
    SET_CU_MASK = IOW 0x1a SetCuMaskArgs [undescribed],
    /// Saved waves of a suspended queue.
    GET_QUEUE_WAVE_STATE = IOWR 0x1b GetQueueWaveStateArgs [undescribed],
    /// What a dmabuf is.
    GET_DMABUF_INFO = IOWR 0x1c GetDmabufInfoArgs [metadata_ptr: metadata_size of u8],
    /// Memory of a dmabuf.
    IMPORT_DMABUF = IOWR 0x1d ImportDmabufArgs,
    /// Global wave sync.
    ALLOC_QUEUE_GWS = IOWR 0x1e AllocQueueGwsArgs,
    /// A descriptor from which events of the GPU are read.
    SMI_EVENTS = IOWR 0x1f SmiEventsArgs,
    /// Shared virtual memory. The size of the request grows with the attributes.
    SVM = IOWR 0x20 SvmArgs [undescribed],
    /// Retry of page faults.
    SET_XNACK_MODE = IOWR 0x21 SetXnackModeArgs,
    /// Checkpoint and restore.
    CRIU_OP = IOWR 0x22 CriuArgs [undescribed],
    /// Free VRAM.
    AVAILABLE_MEMORY = IOWR 0x23 GetAvailableMemoryArgs,
    /// A dmabuf of memory.
    EXPORT_DMABUF = IOWR 0x24 ExportDmabufArgs,
    /// A runtime with support for a debugger.
    RUNTIME_ENABLE = IOWR 0x25 RuntimeEnableArgs [undescribed],
    /// The debugger.
    DBG_TRAP = IOWR 0x26 DbgTrapArgs [undescribed],
}
