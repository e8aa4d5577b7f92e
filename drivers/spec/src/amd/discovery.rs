//! The IP discovery binary: what a chip says of the blocks that it is made of. Firmware puts it near the end
//! of VRAM when the card gets power.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/discovery.h, soc15_hw_ip.h, and
//! drivers/gpu/drm/amd/amdgpu/amdgpu_discovery.c (where it lies, what its checksums are over).

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How far from the end of VRAM it starts (`DISCOVERY_TMR_OFFSET`).
pub const FROM_END: u64 = 64 << 10;
/// How long it is at most (`DISCOVERY_TMR_SIZE`, of Linux since 5.3).
pub const BYTES: usize = 10 << 10;

/// `BINARY_SIGNATURE`.
pub const BINARY_SIGNATURE: u32 = 0x2821_1407;
/// `DISCOVERY_TABLE_SIGNATURE`: `IPDS`.
pub const IP_SIGNATURE: u32 = 0x5344_5049;
/// `HARVEST_TABLE_SIGNATURE`: `HARV`.
pub const HARVEST_SIGNATURE: u32 = 0x5652_4148;
/// `GC_TABLE_ID`: `GC`.
pub const GC_TABLE: u32 = 0x4347;

/// Names of the tables of a binary, by their number.
pub const TABLES: [&str; 6] = [
    "IP_DISCOVERY",
    "GC",
    "HARVEST_INFO",
    "VCN_INFO",
    "MALL_INFO",
    "NPS_INFO",
];
/// `IP_DISCOVERY`: the table of blocks.
pub const TABLE_IP: usize = 0;
/// `GC`: units of the graphics block.
pub const TABLE_GC: usize = 1;
/// `HARVEST_INFO`: blocks that are there but do not work.
pub const TABLE_HARVEST: usize = 2;

/// Dies that a table can name.
pub const DIES: usize = 16;
/// Entries of the harvest table.
pub const HARVESTS: usize = 32;
/// `HW_ID_MAX`.
pub const HW_IDS: u16 = 300;

macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $bytes);
    )*};
}

layout! {
    /// `binary_header`, version 1, and `binary_header_v2` as far as they are alike. In version 1 the list of six
    /// tables follows; in version 2 the number of tables in 16 bits, 16 bits that are free, and as many tables.
    BinaryHeader 12 {
        /// `binary_signature`.
        signature: U32;
        /// Layout of the binary.
        version_major: U16;
        /// Layout of the binary, compatible changes.
        version_minor: U16;
        /// Sum of the bytes behind this field.
        checksum: U16;
        /// Bytes of the binary.
        size: U16;
    }
    /// `table_info`.
    TableInfo 8 {
        /// Where the table starts, from the start of the binary.
        offset: U16;
        /// Sum of the bytes of the table.
        checksum: U16;
        /// Bytes of the table.
        size: U16;
        /// Free.
        padding: U16;
    }
    /// `die_info`.
    DieInfo 4 {
        /// Number of the die.
        die_id: U16;
        /// Where its [`DieHeader`] is, from the start of the binary.
        die_offset: U16;
    }
    /// `ip_discovery_header`.
    IpHeader 80 {
        /// [`IP_SIGNATURE`].
        signature: U32;
        /// Layout of the entries.
        version: U16;
        /// Bytes of the table.
        size: U16;
        /// Of this table.
        id: U32;
        /// How many of the dies there are.
        num_dies: U16;
        /// The dies.
        dies: [DieInfo; 16];
        /// From version 4 on, bit 0: base addresses have 64 bits.
        flags: u8;
        /// Free.
        reserved: u8;
    }
    /// `die_header`; the blocks follow.
    DieHeader 4 {
        /// Number of the die.
        die_id: U16;
        /// How many blocks follow.
        num_ips: U16;
    }
    /// `ip`, `ip_v3`, `ip_v4`; the base addresses follow.
    IpEntry 8 {
        /// What it is.
        hw_id: U16;
        /// Which one of these.
        instance: u8;
        /// How many base addresses follow.
        num_base_address: u8;
        /// Version.
        major: u8;
        /// Version.
        minor: u8;
        /// Version.
        revision: u8;
        /// Before version 3, bits 3:0: not 0 where the block does not work. Since then 3:0 the sub-revision, 7:4
        /// the variant.
        more: u8;
    }
    /// `gpu_info_header`.
    InfoHeader 12 {
        /// Of this table.
        table_id: U32;
        /// Layout.
        version_major: U16;
        /// Layout, compatible changes.
        version_minor: U16;
        /// Bytes of the table, this header too.
        size: U32;
    }
    /// What `gc_info_v1_0` to `gc_info_v1_3` start with, after the header.
    GcInfo1 76 {
        /// `gc_num_se`.
        num_se: U32;
        /// `gc_num_wgp0_per_sa`.
        num_wgp0_per_sa: U32;
        /// `gc_num_wgp1_per_sa`.
        num_wgp1_per_sa: U32;
        /// `gc_num_rb_per_se`.
        num_rb_per_se: U32;
        /// `gc_num_gl2c`.
        num_gl2c: U32;
        /// `gc_num_gprs`.
        num_gprs: U32;
        /// `gc_num_max_gs_thds`.
        num_max_gs_thds: U32;
        /// `gc_gs_table_depth`.
        gs_table_depth: U32;
        /// `gc_gsprim_buff_depth`.
        gsprim_buff_depth: U32;
        /// `gc_parameter_cache_depth`.
        parameter_cache_depth: U32;
        /// `gc_double_offchip_lds_buffer`.
        double_offchip_lds_buffer: U32;
        /// `gc_wave_size`.
        wave_size: U32;
        /// `gc_max_waves_per_simd`.
        max_waves_per_simd: U32;
        /// `gc_max_scratch_slots_per_cu`.
        max_scratch_slots_per_cu: U32;
        /// `gc_lds_size`, in KiB.
        lds_size: U32;
        /// `gc_num_sc_per_se`.
        num_sc_per_se: U32;
        /// `gc_num_sa_per_se`.
        num_sa_per_se: U32;
        /// `gc_num_packer_per_sc`.
        num_packer_per_sc: U32;
        /// `gc_num_gl2a`.
        num_gl2a: U32;
    }
    /// What `gc_info_v2_0` and `gc_info_v2_1` start with, after the header.
    GcInfo2 68 {
        /// `gc_num_se`.
        num_se: U32;
        /// `gc_num_cu_per_sh`.
        num_cu_per_sh: U32;
        /// `gc_num_sh_per_se`.
        num_sh_per_se: U32;
        /// `gc_num_rb_per_se`.
        num_rb_per_se: U32;
        /// `gc_num_tccs`.
        num_tccs: U32;
        /// `gc_num_gprs`.
        num_gprs: U32;
        /// `gc_num_max_gs_thds`.
        num_max_gs_thds: U32;
        /// `gc_gs_table_depth`.
        gs_table_depth: U32;
        /// `gc_gsprim_buff_depth`.
        gsprim_buff_depth: U32;
        /// `gc_parameter_cache_depth`.
        parameter_cache_depth: U32;
        /// `gc_double_offchip_lds_buffer`.
        double_offchip_lds_buffer: U32;
        /// `gc_wave_size`.
        wave_size: U32;
        /// `gc_max_waves_per_simd`.
        max_waves_per_simd: U32;
        /// `gc_max_scratch_slots_per_cu`.
        max_scratch_slots_per_cu: U32;
        /// `gc_lds_size`, in KiB.
        lds_size: U32;
        /// `gc_num_sc_per_se`.
        num_sc_per_se: U32;
        /// `gc_num_packer_per_sc`.
        num_packer_per_sc: U32;
    }
    /// `harvest_info_header`; [`HARVESTS`] entries follow.
    HarvestHeader 8 {
        /// [`HARVEST_SIGNATURE`].
        signature: U32;
        /// Layout.
        version: U32;
    }
    /// `harvest_info`.
    HarvestEntry 4 {
        /// What it is; 0 ends the list.
        hw_id: U16;
        /// Which one of these.
        instance: u8;
        /// Free.
        reserved: u8;
    }
}

/// Bit of [`IpHeader::flags`].
pub const BASE_ADDR_64_BIT: u8 = 1;

macro_rules! hw_ids {
    ($($(#[$doc:meta])* $name:ident $text:literal $id:literal;)*) => {
        $($(#[$doc])* pub const $name: u16 = $id;)*

        /// The vendor's name of a block, of those that a driver for computing touches.
        pub const fn name(hw_id: u16) -> Option<&'static str> {
            match hw_id {
                $($name => Some($text),)*
                _ => None,
            }
        }
    };
}

// Source: Linux, drivers/gpu/drm/amd/include/soc15_hw_ip.h.
hw_ids! {
    /// The processor of power management (SMU).
    MP1 "MP1" 1;
    /// Thermal.
    THM "THM" 3;
    /// Pins and fuses of the SMU.
    SMUIO "SMUIO" 4;
    /// Clocks.
    CLK "CLK" 6;
    /// Graphics and compute.
    GC "GC" 11;
    /// Video.
    VCN "VCN" 12;
    /// The memory hub of everything that is not GC.
    MMHUB "MMHUB" 34;
    /// Address translation services of the bus.
    ATHUB "ATHUB" 35;
    /// System services: interrupts.
    OSSSYS "OSSSYS" 40;
    /// Host data path.
    HDP "HDP" 41;
    /// Copy engine.
    SDMA0 "SDMA0" 42;
    /// Copy engine.
    SDMA1 "SDMA1" 43;
    /// The fabric between memory and everything.
    DF "DF" 46;
    /// Copy engine.
    SDMA2 "SDMA2" 68;
    /// Copy engine.
    SDMA3 "SDMA3" 69;
    /// Light copy engine.
    LSDMA "LSDMA" 91;
    /// The bus interface: NBIO, on newer chips NBIF.
    NBIF "NBIF" 108;
    /// A memory controller.
    UMC "UMC" 150;
    /// The fabric between cards.
    XGMI "XGMI" 200;
    /// The security processor (PSP).
    MP0 "MP0" 255;
}

/// The sum of bytes that all checksums of the binary are.
pub fn sum(bytes: &[u8]) -> u16 {
    let add = |sum: u16, byte: &u8| sum.wrapping_add(u16::from(*byte));
    bytes.iter().fold(0, add)
}
