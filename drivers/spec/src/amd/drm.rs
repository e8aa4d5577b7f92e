//! The ioctls of a render node of amdgpu that compute clients use.
//!
//! Source: Linux, include/uapi/drm/drm.h and include/uapi/drm/amdgpu_drm.h. `<-` marks what the
//! kernel returns.

use bitflags::bitflags;

use super::uapi::{ioctls, structs};

/// The type of the requests, `d`.
pub const KIND: u8 = b'd';
/// `DRM_COMMAND_BASE`: the first number of a driver's own ioctls.
pub const COMMAND_BASE: u32 = 0x40;
/// `DRM_COMMAND_END`: the number after the last.
pub const COMMAND_END: u32 = 0xa0;

/// `AMDGPU_INFO_*`: what INFO is asked.
pub mod info {
    /// u32: whether the GPU works.
    pub const ACCEL_WORKING: u32 = 0x00;
    /// [`super::InfoHwIp`].
    pub const HW_IP_INFO: u32 = 0x02;
    /// u32.
    pub const HW_IP_COUNT: u32 = 0x03;
    /// u64: ticks of the GPU.
    pub const TIMESTAMP: u32 = 0x05;
    /// [`super::InfoFirmware`].
    pub const FW_VERSION: u32 = 0x0e;
    /// u64: bytes of VRAM in use.
    pub const VRAM_USAGE: u32 = 0x10;
    /// u64: bytes of GTT in use.
    pub const GTT_USAGE: u32 = 0x11;
    /// [`super::InfoVramGtt`].
    pub const VRAM_GTT: u32 = 0x14;
    /// Registers.
    pub const READ_MMR_REG: u32 = 0x15;
    /// [`super::InfoDevice`].
    pub const DEV_INFO: u32 = 0x16;
    /// u64: bytes in use of the VRAM that the CPU sees.
    pub const VIS_VRAM_USAGE: u32 = 0x17;
    /// [`super::MemoryInfo`].
    pub const MEMORY: u32 = 0x19;
    /// u32: how often VRAM was lost.
    pub const VRAM_LOST_COUNTER: u32 = 0x1f;
}

/// `AMDGPU_HW_IP_*`.
pub mod hw_ip {
    /// Graphics.
    pub const GFX: u32 = 0;
    /// Compute.
    pub const COMPUTE: u32 = 1;
    /// SDMA.
    pub const DMA: u32 = 2;
    /// How many kinds there are.
    pub const NUM: u32 = 10;
}

bitflags! {
    /// `AMDGPU_GEM_DOMAIN_*`: where memory may lie. Only what compute clients ask for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Domains: u64 {
        /// System memory.
        const CPU = 0x1;
        /// System memory that the GPU can address.
        const GTT = 0x2;
        /// Memory of the GPU.
        const VRAM = 0x4;
    }

    /// `AMDGPU_GEM_CREATE_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GemCreate: u64 {
        /// The CPU will map it.
        const CPU_ACCESS_REQUIRED = 1 << 0;
        /// The CPU will not map it.
        const NO_CPU_ACCESS = 1 << 1;
    }

    /// `AMDGPU_VM_PAGE_*`: what the GPU may do with memory that GEM_VA maps.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Pages: u32 {
        /// `AMDGPU_VM_PAGE_READABLE`.
        const READABLE = 1 << 1;
        /// `AMDGPU_VM_PAGE_WRITEABLE`.
        const WRITEABLE = 1 << 2;
        /// `AMDGPU_VM_PAGE_EXECUTABLE`.
        const EXECUTABLE = 1 << 3;
    }
}

/// Operations of GEM_VA.
pub mod gem_va {
    /// `AMDGPU_VA_OP_MAP`.
    pub const MAP: u32 = 1;
    /// `AMDGPU_VA_OP_UNMAP`.
    pub const UNMAP: u32 = 2;
}

/// `DRM_CAP_PRIME` of GET_CAP, and its answer: import and export.
pub const CAP_PRIME: u64 = 5;
/// `DRM_CAP_SYNCOBJ`.
pub const CAP_SYNCOBJ: u64 = 0x13;
/// `DRM_CAP_SYNCOBJ_TIMELINE`.
pub const CAP_SYNCOBJ_TIMELINE: u64 = 0x14;

structs! { LAYOUTS;
    /// VERSION.
    Version = "drm_version" {
        /// <- 3.
        version_major: i32,
        /// <-
        version_minor: i32,
        /// <-
        version_patchlevel: i32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
        /// Bytes for the name; <- bytes of the name.
        name_len: u64,
        /// Address for the name.
        name: u64,
        /// The same for the date.
        date_len: u64,
        /// Address.
        date: u64,
        /// The same for the description.
        desc_len: u64,
        /// Address.
        desc: u64,
    }
    /// GET_CAP.
    GetCap = "drm_get_cap" {
        /// Which.
        capability: u64,
        /// <-
        value: u64,
    }
    /// GEM_CLOSE.
    GemClose = "drm_gem_close" {
        /// Which.
        handle: u32,
        /// Zero.
        pad: u32,
    }
    /// PRIME_HANDLE_TO_FD and PRIME_FD_TO_HANDLE.
    PrimeHandle = "drm_prime_handle" {
        /// The handle.
        handle: u32,
        /// Of the descriptor.
        flags: u32,
        /// The descriptor.
        fd: i32,
    }
    /// INFO. The union at its end is here its size: read_mmr_reg is the largest.
    Info = "drm_amdgpu_info" {
        /// Address for the answer.
        return_pointer: u64,
        /// Bytes there.
        return_size: u32,
        /// See [`info`].
        query: u32,
        /// The arguments of the query.
        arguments = "read_mmr_reg": [u32; 4],
    }
    /// The answer to DEV_INFO.
    InfoDevice = "drm_amdgpu_info_device" {
        /// PCI device.
        device_id: u32,
        /// Revision of the chip.
        chip_rev: u32,
        /// Its external revision.
        external_rev: u32,
        /// PCI revision.
        pci_rev: u32,
        /// Family.
        family: u32,
        /// Shader engines.
        num_shader_engines: u32,
        /// Arrays of an engine.
        num_shader_arrays_per_engine: u32,
        /// Ticks of the GPU's counter, in kHz.
        gpu_counter_freq: u32,
        /// In kHz.
        max_engine_clock: u64,
        /// In kHz.
        max_memory_clock: u64,
        /// Compute units that work.
        cu_active_number: u32,
        /// Not set for newer chips.
        cu_ao_mask: u32,
        /// Bits of compute units, by engine and array; engine 4 and above in the upper columns of
        /// engine - 4.
        cu_bitmap: [[u32; 4]; 4],
        /// Render backends.
        enabled_rb_pipes_mask: u32,
        /// Their number.
        num_rb_pipes: u32,
        /// Contexts.
        num_hw_gfx_contexts: u32,
        /// PCIe generation.
        pcie_gen: u32,
        /// Flags.
        ids_flags: u64,
        /// The first virtual address.
        virtual_address_offset: u64,
        /// The last.
        virtual_address_max: u64,
        /// Bytes.
        virtual_address_alignment: u32,
        /// Bytes.
        pte_fragment_size: u32,
        /// Bytes.
        gart_page_size: u32,
        /// Bytes.
        ce_ram_size: u32,
        /// Kind of memory.
        vram_type: u32,
        /// Bits.
        vram_bit_width: u32,
        /// Video.
        vce_harvest_config: u32,
        /// Graphics.
        gc_double_offchip_lds_buf: u32,
        /// Graphics.
        prim_buf_gpu_addr: u64,
        /// Graphics.
        pos_buf_gpu_addr: u64,
        /// Graphics.
        cntl_sb_buf_gpu_addr: u64,
        /// Graphics.
        param_buf_gpu_addr: u64,
        /// Graphics.
        prim_buf_size: u32,
        /// Graphics.
        pos_buf_size: u32,
        /// Graphics.
        cntl_sb_buf_size: u32,
        /// Graphics.
        param_buf_size: u32,
        /// 32 or 64.
        wave_front_size: u32,
        /// Registers.
        num_shader_visible_vgprs: u32,
        /// Compute units of an array.
        num_cu_per_sh: u32,
        /// Channels of L2.
        num_tcc_blocks: u32,
        /// Graphics.
        gs_vgt_table_depth: u32,
        /// Graphics.
        gs_prim_buffer_depth: u32,
        /// Graphics.
        max_gs_waves_per_vgt: u32,
        /// PCIe lanes.
        pcie_num_lanes: u32,
        /// Not set for newer chips.
        cu_ao_bitmap: [[u32; 4]; 4],
        /// The first address above the hole.
        high_va_offset: u64,
        /// The last.
        high_va_max: u64,
        /// Graphics.
        pa_sc_tile_steering_override: u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
        /// Channels of L2 that are off.
        tcc_disabled_mask: u64,
        /// In kHz.
        min_engine_clock: u64,
        /// In kHz.
        min_memory_clock: u64,
        /// KiB of a vector L1 (L0).
        tcp_cache_size: u32,
        /// Sequencer caches of a WGP.
        num_sqc_per_wgp: u32,
        /// KiB of the scalar cache.
        sqc_data_cache_size: u32,
        /// KiB of the instruction cache.
        sqc_inst_cache_size: u32,
        /// KiB of GL1.
        gl1c_cache_size: u32,
        /// KiB of GL2.
        gl2c_cache_size: u32,
        /// Bytes of the memory-attached last level.
        mall_size: u64,
        /// Render backends.
        enabled_rb_pipes_mask_hi: u32,
        /// Graphics.
        shadow_size: u32,
        /// Graphics.
        shadow_alignment: u32,
        /// Graphics.
        csa_size: u32,
        /// Graphics.
        csa_alignment: u32,
        /// User queues.
        userq_ip_mask: u32,
        /// Zero.
        pad: u32,
        /// Padding of the compiler; no field of the header.
        end = "": u32,
    }
    /// The answer to HW_IP_INFO.
    InfoHwIp = "drm_amdgpu_info_hw_ip" {
        /// Of the block.
        hw_ip_version_major: u32,
        /// Of the block.
        hw_ip_version_minor: u32,
        /// Flags.
        capabilities_flags: u64,
        /// Bytes.
        ib_start_alignment: u32,
        /// Bytes.
        ib_size_alignment: u32,
        /// A bit each.
        available_rings: u32,
        /// major << 16 | minor << 8 | revision.
        ip_discovery_version: u32,
    }
    /// The answer to FW_VERSION.
    InfoFirmware = "drm_amdgpu_info_firmware" {
        /// Of the firmware.
        ver: u32,
        /// Of its features.
        feature: u32,
    }
    /// The answer to VRAM_GTT.
    InfoVramGtt = "drm_amdgpu_info_vram_gtt" {
        /// Bytes.
        vram_size: u64,
        /// Bytes.
        vram_cpu_accessible_size: u64,
        /// Bytes.
        gtt_size: u64,
    }
    /// A heap in [`MemoryInfo`].
    HeapInfo = "drm_amdgpu_heap_info" {
        /// Bytes.
        total_heap_size: u64,
        /// Bytes.
        usable_heap_size: u64,
        /// Bytes.
        heap_usage: u64,
        /// Bytes.
        max_allocation: u64,
    }
    /// The answer to MEMORY.
    MemoryInfo = "drm_amdgpu_memory_info" {
        /// All VRAM.
        vram: HeapInfo,
        /// What the CPU sees of it.
        cpu_accessible_vram: HeapInfo,
        /// System memory.
        gtt: HeapInfo,
    }
    /// GEM_CREATE, as asked. The answer, a handle of 4 bytes, lies at its start.
    GemCreateIn = "drm_amdgpu_gem_create_in" {
        /// Bytes.
        bo_size: u64,
        /// Bytes.
        alignment: u64,
        /// [`Domains`].
        domains: u64,
        /// [`GemCreate`].
        domain_flags: u64,
    }
    /// GEM_MMAP, as asked. The answer, an offset of 8 bytes, lies at its start.
    GemMmapIn = "drm_amdgpu_gem_mmap_in" {
        /// Which.
        handle: u32,
        /// Zero.
        pad = "_pad": u32,
    }
    /// GEM_VA.
    GemVa = "drm_amdgpu_gem_va" {
        /// Which.
        handle: u32,
        /// Zero.
        pad = "_pad": u32,
        /// See [`gem_va`].
        operation: u32,
        /// [`Pages`].
        flags: u32,
        /// The address.
        va_address: u64,
        /// Bytes into the object.
        offset_in_bo: u64,
        /// Bytes.
        map_size: u64,
    }
}

ioctls! { IOCTLS, b'd', "DRM_IOCTL_";
    /// Name and version of the driver.
    VERSION = IOWR 0x00 Version [name: name_len of u8, date: date_len of u8, desc: desc_len of u8],
    /// Forgets a handle.
    GEM_CLOSE = IOW 0x09 GemClose,
    /// What the driver can.
    GET_CAP = IOWR 0x0c GetCap,
    /// A dmabuf of a handle.
    PRIME_HANDLE_TO_FD = IOWR 0x2d PrimeHandle,
    /// A handle of a dmabuf.
    PRIME_FD_TO_HANDLE = IOWR 0x2e PrimeHandle,
    /// Memory.
    AMDGPU_GEM_CREATE = IOWR 0x40 GemCreateIn,
    /// Where to map memory.
    AMDGPU_GEM_MMAP = IOWR 0x41 GemMmapIn,
    /// Facts of the GPU.
    AMDGPU_INFO = IOW 0x45 Info [return_pointer: return_size of u8],
    /// Maps memory for the GPU.
    AMDGPU_GEM_VA = IOW 0x48 GemVa,
}
