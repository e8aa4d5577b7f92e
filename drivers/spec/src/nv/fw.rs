//! The headers of the firmware files that NVIDIA publishes for GSP: a common header, then what the kind of file
//! has more of. Everything is little-endian; offsets count bytes from the start of the file unless a field says
//! otherwise.
//!
//! Source: Linux, drivers/gpu/drm/nouveau/include/nvfw/{fw,hs}.h; NVIDIA's open kernel modules,
//! nouveau/extract-firmware-nouveau.py (what writes the files) and src/nvidia/arch/nvalloc/common/inc/rmRiscvUcode.h.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `bin_magic` of [`NvfwBinHdr`].
pub const BIN_MAGIC: u32 = 0x10de;
/// `bin_magic` in files for Maxwell and GP100. Observed in Debian's firmware-nvidia-graphics 20260916; the rest of the
/// header is the same.
pub const BIN_MAGIC_MAXWELL: u32 = 0x3b1d_14f0;

/// A GSP image and its page tables are made of pages of this size (`LIBOS_MEMORY_REGION_RADIX_PAGE_SIZE`).
pub const RADIX_PAGE: u64 = 4096;

/// `e_machine` of a GSP image.
pub const EM_RISCV: u16 = 243;

/// `sh_flags` of the parts of an FMC file: `SHF_MASKPROC | SHF_MASKOS | SHF_OS_NONCONFORMING | SHF_ALLOC`; their
/// `sh_info` is a CRC-32. Source: nouveau, nvkm/subdev/gsp/gh100.c.
pub const FMC_SHF_FLAGS: u32 = 0xfff0_0102;

/// A layout of words, and its size.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $size:literal { $($(#[$of:meta])* $field:ident,)* })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
            Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($field), "`.")] $(#[$of])* pub $field: U32,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

words! {
    /// `nvfw_bin_hdr`: the start of every file that is no ELF.
    NvfwBinHdr = 24 {
        bin_magic,
        bin_ver,
        /// A rounded size that drivers ignore.
        bin_size,
        /// Where the header of the kind is.
        header_offset,
        /// Where the code is.
        data_offset,
        data_size,
    }
    /// `nvfw_hs_header_v2`: code that a falcon runs with high privilege, and its signatures.
    NvfwHsHeaderV2 = 36 {
        /// Where the signatures start.
        sig_prod_offset,
        /// Size of all of them.
        sig_prod_size,
        /// Where a word is that says where in the code the signature goes.
        patch_loc,
        /// Where a word is that is added to `sig_prod_offset`.
        patch_sig,
        /// Where [`HsMeta`] is.
        meta_data_offset,
        meta_data_size,
        /// Where a word is that says how many signatures there are.
        num_sig,
        /// Where [`NvfwHsLoadHeaderV2`] is.
        header_offset,
        header_size,
    }
    /// What `meta_data_offset` leads to.
    HsMeta = 12 {
        /// The version of the first signature, as fuses count them.
        fuse_ver,
        /// The falcons that may run it.
        engine_id,
        /// Which fuse it is held against.
        ucode_id,
    }
    /// `nvfw_hs_load_header_v2`, which apps follow.
    NvfwHsLoadHeaderV2 = 20 {
        os_code_offset,
        os_code_size,
        os_data_offset,
        os_data_size,
        num_apps,
    }
    /// An entry of `app` in [`NvfwHsLoadHeaderV2`]: code, from the start of the image.
    HsApp = 8 { offset, size, }
    /// `nvfw_bl_desc`: a falcon's boot loader.
    NvfwBlDesc = 24 {
        /// The virtual block of 256 bytes that it starts at.
        start_tag,
        dmem_load_off,
        code_off,
        code_size,
        data_off,
        data_size,
    }
    /// `RM_RISCV_UCODE_DESC` as far as every version of it goes: the boot loader of GSP. Offsets count from the start
    /// of the code. Files of Turing and GA100 end after `swbromDataSize`, newer ones two words later.
    RmRiscvUcodeDesc = 76 {
        version,
        bootloader_offset,
        bootloader_size,
        bootloader_param_offset,
        bootloader_param_size,
        riscv_elf_offset,
        riscv_elf_size,
        /// The version of the code.
        app_version,
        manifest_offset,
        manifest_size,
        monitor_data_offset,
        monitor_data_size,
        monitor_code_offset,
        monitor_code_size,
        is_monitor_enabled,
        swbrom_code_offset,
        swbrom_code_size,
        swbrom_data_offset,
        swbrom_data_size,
    }
}
