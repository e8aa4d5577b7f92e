//! The ioctls of `/dev/nvidia-uvm`.
//!
//! A request is the bare number of a command: it has no size, so nothing checks that of the struct.
//!
//! Source: open-gpu-kernel-modules, kernel-open/nvidia-uvm/{uvm_ioctl,uvm_linux_ioctl,uvm_types}.h;
//! 535.288.01, 550.163.01, 570.211.01, 580.142. `<-` marks what the kernel returns.

use super::abi::{calls, structs};

/// `UvmGpuMappingType*`.
pub mod mapping {
    /// Reading, writing, atomics.
    pub const DEFAULT: u32 = 0;
    /// The same.
    pub const READ_WRITE_ATOMIC: u32 = 1;
    /// No atomics.
    pub const READ_WRITE: u32 = 2;
    /// Reading.
    pub const READ_ONLY: u32 = 3;
}

calls! {
    /// Every command that has a struct here.
    COMMANDS, "UVM_";
    INITIALIZE = 0x30000001: Initialize;
    DEINITIALIZE = 0x30000002;
    CREATE_RANGE_GROUP = 23: CreateRangeGroup;
    DESTROY_RANGE_GROUP = 24: DestroyRangeGroup;
    REGISTER_GPU_VASPACE = 25: RegisterGpuVaspace;
    UNREGISTER_GPU_VASPACE = 26: UnregisterGpuVaspace;
    REGISTER_CHANNEL = 27: RegisterChannel;
    UNREGISTER_CHANNEL = 28: UnregisterChannel;
    ENABLE_PEER_ACCESS = 29: EnablePeerAccess;
    DISABLE_PEER_ACCESS = 30: DisablePeerAccess;
    MAP_EXTERNAL_ALLOCATION = 33: MapExternalAllocation;
    FREE = 34: Free;
    REGISTER_GPU = 37: RegisterGpu;
    UNREGISTER_GPU = 38: UnregisterGpu;
    PAGEABLE_MEM_ACCESS = 39: PageableMemAccess;
    SET_PREFERRED_LOCATION = 42: SetPreferredLocation;
    MIGRATE = 51: Migrate;
    MAP_DYNAMIC_PARALLELISM_REGION = 65: MapDynamicParallelismRegion;
    UNMAP_EXTERNAL = 66: UnmapExternal;
    ALLOC_SEMAPHORE_POOL = 68: AllocSemaphorePool;
    VALIDATE_VA_RANGE = 72: ValidateVaRange;
    CREATE_EXTERNAL_RANGE = 73: CreateExternalRange;
    MM_INITIALIZE = 75: MmInitialize;
}

structs! { LAYOUTS;
    /// INITIALIZE, before anything else on a file.
    Initialize "UVM_INITIALIZE_PARAMS" {
        /// 1: no heterogeneous memory management; 2: several processes share the file.
        flags "flags": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// MM_INITIALIZE, on a second file, which stays open.
    MmInitialize "UVM_MM_INITIALIZE_PARAMS" {
        uvm_fd "uvmFd": i32,
        rm_status "rmStatus": u32,
    }
    /// REGISTER_GPU.
    RegisterGpu "UVM_REGISTER_GPU_PARAMS" {
        gpu_uuid "gpu_uuid": [u8; 16],
        numa_enabled "numaEnabled": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        numa_node_id "numaNodeId": i32,
        rm_ctrl_fd "rmCtrlFd": i32,
        h_client "hClient": u32,
        h_smc_part_ref "hSmcPartRef": u32,
        rm_status "rmStatus": u32,
    }
    /// UNREGISTER_GPU.
    UnregisterGpu "UVM_UNREGISTER_GPU_PARAMS" {
        gpu_uuid "gpu_uuid": [u8; 16],
        rm_status "rmStatus": u32,
    }
    /// CREATE_RANGE_GROUP: ranges of managed memory that move together.
    CreateRangeGroup "UVM_CREATE_RANGE_GROUP_PARAMS" {
        /// <- its number, never 0.
        range_group_id "rangeGroupId": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// DESTROY_RANGE_GROUP.
    DestroyRangeGroup "UVM_DESTROY_RANGE_GROUP_PARAMS" {
        range_group_id "rangeGroupId": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// REGISTER_GPU_VASPACE: an address space that is owned from outside of RM.
    RegisterGpuVaspace "UVM_REGISTER_GPU_VASPACE_PARAMS" {
        gpu_uuid "gpuUuid": [u8; 16],
        rm_ctrl_fd "rmCtrlFd": i32,
        h_client "hClient": u32,
        h_va_space "hVaSpace": u32,
        rm_status "rmStatus": u32,
    }
    /// UNREGISTER_GPU_VASPACE.
    UnregisterGpuVaspace "UVM_UNREGISTER_GPU_VASPACE_PARAMS" {
        gpu_uuid "gpuUuid": [u8; 16],
        rm_status "rmStatus": u32,
    }
    /// REGISTER_CHANNEL: `base` and `length` are free addresses, for buffers of its context.
    RegisterChannel "UVM_REGISTER_CHANNEL_PARAMS" {
        gpu_uuid "gpuUuid": [u8; 16],
        rm_ctrl_fd "rmCtrlFd": i32,
        h_client "hClient": u32,
        h_channel "hChannel": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        base "base": u64,
        length "length": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
    /// UNREGISTER_CHANNEL.
    UnregisterChannel "UVM_UNREGISTER_CHANNEL_PARAMS" {
        gpu_uuid "gpuUuid": [u8; 16],
        h_client "hClient": u32,
        h_channel "hChannel": u32,
        rm_status "rmStatus": u32,
    }
    /// ENABLE_PEER_ACCESS.
    EnablePeerAccess "UVM_ENABLE_PEER_ACCESS_PARAMS" {
        gpu_uuid_a "gpuUuidA": [u8; 16],
        gpu_uuid_b "gpuUuidB": [u8; 16],
        rm_status "rmStatus": u32,
    }
    /// DISABLE_PEER_ACCESS.
    DisablePeerAccess "UVM_DISABLE_PEER_ACCESS_PARAMS" {
        gpu_uuid_a "gpuUuidA": [u8; 16],
        gpu_uuid_b "gpuUuidB": [u8; 16],
        rm_status "rmStatus": u32,
    }
    /// How a GPU sees a mapping.
    GpuMappingAttributes "UvmGpuMappingAttributes" {
        gpu_uuid "gpuUuid": [u8; 16],
        /// See [`mapping`].
        gpu_mapping_type "gpuMappingType": u32,
        gpu_caching_type "gpuCachingType": u32,
        gpu_format_type "gpuFormatType": u32,
        gpu_element_bits "gpuElementBits": u32,
        gpu_compression_type "gpuCompressionType": u32,
    }
    /// CREATE_EXTERNAL_RANGE: addresses that MAP_EXTERNAL_ALLOCATION will fill.
    CreateExternalRange "UVM_CREATE_EXTERNAL_RANGE_PARAMS" {
        base "base": u64,
        length "length": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// MAP_EXTERNAL_ALLOCATION: memory of RM, into an external range.
    MapExternalAllocation "UVM_MAP_EXTERNAL_ALLOCATION_PARAMS" {
        base "base": u64,
        length "length": u64,
        offset "offset": u64,
        per_gpu_attributes "perGpuAttributes": [GpuMappingAttributes; 256] [R535 32],
        gpu_attributes_count "gpuAttributesCount": u64,
        rm_ctrl_fd "rmCtrlFd": i32,
        h_client "hClient": u32,
        h_memory "hMemory": u32,
        rm_status "rmStatus": u32,
    }
    /// UNMAP_EXTERNAL.
    UnmapExternal "UVM_UNMAP_EXTERNAL_PARAMS" {
        base "base": u64,
        length "length": u64,
        gpu_uuid "gpuUuid": [u8; 16],
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// FREE of a range that begins at `base`.
    Free "UVM_FREE_PARAMS" {
        base "base": u64,
        length "length": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// MAP_DYNAMIC_PARALLELISM_REGION.
    MapDynamicParallelismRegion "UVM_MAP_DYNAMIC_PARALLELISM_REGION_PARAMS" {
        base "base": u64,
        length "length": u64,
        gpu_uuid "gpuUuid": [u8; 16],
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// ALLOC_SEMAPHORE_POOL.
    AllocSemaphorePool "UVM_ALLOC_SEMAPHORE_POOL_PARAMS" {
        base "base": u64,
        length "length": u64,
        per_gpu_attributes "perGpuAttributes": [GpuMappingAttributes; 256] [R535 32],
        gpu_attributes_count "gpuAttributesCount": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// VALIDATE_VA_RANGE.
    ValidateVaRange "UVM_VALIDATE_VA_RANGE_PARAMS" {
        base "base": u64,
        length "length": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
    }
    /// PAGEABLE_MEM_ACCESS.
    PageableMemAccess "UVM_PAGEABLE_MEM_ACCESS_PARAMS" {
        pageable_mem_access "pageableMemAccess": u8,
        /// Padding of the compiler.
        gap "": [u8; 3],
        rm_status "rmStatus": u32,
    }
    /// SET_PREFERRED_LOCATION.
    SetPreferredLocation "UVM_SET_PREFERRED_LOCATION_PARAMS" {
        requested_base "requestedBase": u64,
        length "length": u64,
        preferred_location "preferredLocation": [u8; 16],
        preferred_cpu_numa_node "preferredCpuNumaNode": i32 where FROM_550,
        rm_status "rmStatus": u32,
    }
    /// MIGRATE.
    Migrate "UVM_MIGRATE_PARAMS" {
        base "base": u64,
        length "length": u64,
        destination_uuid "destinationUuid": [u8; 16],
        flags "flags": u32,
        /// Padding of the compiler.
        gap "": [u8; 4],
        semaphore_address "semaphoreAddress": u64,
        semaphore_payload "semaphorePayload": u32,
        cpu_numa_node "cpuNumaNode": i32,
        user_space_start "userSpaceStart": u64,
        user_space_length "userSpaceLength": u64,
        rm_status "rmStatus": u32,
        /// Padding of the compiler.
        gap2 "": [u8; 4],
    }
}
