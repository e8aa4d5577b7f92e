//! What the ROM of a card holds, as far as a driver reads it: a chain of PCI images, the BIOS information table (BIT)
//! with its tokens, the table of falcon microcode with FWSEC, and the device control block (DCB). Everything is
//! little-endian.
//!
//! Source: NVIDIA's open kernel modules, src/nvidia/inc/kernel/platform/pci_exp_table.h and
//! src/nvidia/src/kernel/gpu/gsp: kernel_gsp_fwsec.c, arch/turing/kernel_gsp_{vbios,frts}_tu102.c; the DCB: Linux,
//! drivers/gpu/drm/nouveau/nvkm/subdev/bios/{dcb,conn,i2c}.c. Names of fields as there.

use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Drivers read no more of the ROM.
pub const MAX_SIZE: u64 = 0x10_0000;
/// The start of a PCI image.
pub const ROM_SIGNATURES: [u16; 3] = [0xaa55, 0x4e56, 0xbb77];
/// Where an image says where its [`PciDataStruct`] is.
pub const PCI_DATA_STRUCT_PTR: u64 = 0x18;
/// The start of a [`PciDataStruct`]: "PCIR", "NPDS", "RGIS".
pub const PCI_DATA_SIGNATURES: [[u8; 4]; 3] = [*b"PCIR", *b"NPDS", *b"RGIS"];
/// The unit of sizes of images.
pub const BLOCK: u64 = 512;
/// In `last_image` of both structures.
pub const LAST_IMAGE: u8 = 0x80;
/// The start of a [`NvPciDataExt`].
pub const NPDE: [u8; 4] = *b"NPDE";
/// Its versions.
pub const NPDE_REVISIONS: [u16; 2] = [0x100, 0x101];
/// In its flags: the sum of the image's bytes is not held against anything.
pub const NPDE_CHECKSUM_DISABLED: u8 = 0x04;

/// `codeType`: for PCs, with the BIT and what it leads to.
pub const CODE_TYPE_PC: u8 = 0x00;
/// `codeType`: an EFI driver.
pub const CODE_TYPE_EFI: u8 = 0x03;
/// `codeType`: data of notebooks.
pub const CODE_TYPE_NBSI: u8 = 0x70;
/// `codeType`: what the first image has no room for, with the falcons' microcode.
pub const CODE_TYPE_EXTENDED: u8 = 0xe0;

/// `NV_PBUS_IFR_FMT_FIXED0_SIGNATURE_VALUE`, "NVGI": what may lie before the first image.
pub const IFR_SIGNATURE: u32 = 0x4947_564e;
/// `NV_ROM_DIRECTORY_IDENTIFIER`, "RFRD".
pub const ROM_DIRECTORY: u32 = 0x4452_4652;

/// The start of the BIT: its identifier and "BIT\0".
pub const BIT_START: [u8; 6] = [0xff, 0xb8, b'B', b'I', b'T', 0];
/// `BIT_TOKEN_BIOSDATA`: starts with the version of the VBIOS.
pub const BIT_TOKEN_BIOSDATA: u8 = 0x42;
/// `BIT_TOKEN_FALCON_DATA`: leads to the table of microcode.
pub const BIT_TOKEN_FALCON_DATA: u8 = 0x70;

/// `FALCON_UCODE_ENTRY_APPID_FIRMWARE_SEC_LIC`: FWSEC, on older chips.
pub const APPID_FIRMWARE_SEC_LIC: u8 = 0x05;
/// `FALCON_UCODE_ENTRY_APPID_FWSEC_DBG`: FWSEC for chips whose fuses are not blown.
pub const APPID_FWSEC_DBG: u8 = 0x45;
/// `FALCON_UCODE_ENTRY_APPID_FWSEC_PROD`: FWSEC.
pub const APPID_FWSEC_PROD: u8 = 0x85;

/// `BCRT30_RSA3K_SIG_SIZE`: a signature behind [`FalconUcodeDescV3`].
pub const SIGNATURE: u64 = 384;
/// `NVFW_FALCON_APPIF_ID_DMEMMAPPER`.
pub const APPIF_ID_DMEMMAPPER: u32 = 4;
/// `init_cmd`: set the region of FRTS up, and WPR2 around it.
pub const DMEMMAPPER_CMD_FRTS: u32 = 0x15;
/// `init_cmd`: load what runs before the operating system.
pub const DMEMMAPPER_CMD_SB: u32 = 0x19;
/// `FWSECLIC_READ_VBIOS_STRUCT_FLAGS`.
pub const READ_VBIOS_FLAGS: u32 = 2;
/// `FWSECLIC_FRTS_REGION_MEDIA_FB`.
pub const FRTS_MEDIA_FB: u32 = 2;

/// Where the first image says where its DCB is.
pub const DCB_PTR: u64 = 0x36;
/// In a DCB's header.
pub const DCB_SIGNATURE: u32 = 0x4edc_bdcb;

/// A layout and its size.
macro_rules! layouts {
    ($($(#[$meta:meta])* $name:ident = $size:literal { $($(#[$of:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
            Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($field), "`.")] $(#[$of])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

layouts! {
    /// `PCI_DATA_STRUCT`.
    PciDataStruct = 24 {
        sig: [u8; 4],
        vendor_id: U16,
        device_id: U16,
        device_list_ptr: U16,
        pci_data_struct_len: U16,
        pci_data_struct_rev: u8,
        class_code: [u8; 3],
        /// In [`BLOCK`]s.
        image_len: U16,
        vendor_rom_rev: U16,
        code_type: u8,
        last_image: u8,
        max_run_time_image_len: U16,
    }
    /// `NV_PCI_DATA_EXT_STRUCT`, at the next multiple of 16 behind [`PciDataStruct`]. `priv_last_image` and `flags` may
    /// be left out.
    NvPciDataExt = 10 {
        signature: [u8; 4],
        nv_pci_data_ext_rev: U16,
        nv_pci_data_ext_len: U16,
        /// In [`BLOCK`]s.
        subimage_len: U16,
    }
    /// `BIT_HEADER_V1_00`: the sum of its bytes is a multiple of 256.
    BitHeader = 12 {
        id: U16,
        signature: [u8; 4],
        bcd_version: U16,
        header_size: u8,
        token_size: u8,
        token_entries: u8,
        header_chksum: u8,
    }
    /// `BIT_TOKEN_V1_00`, of six bytes.
    BitToken6 = 6 { token_id: u8, data_version: u8, data_size: U16, data_ptr: U16, }
    /// `BIT_TOKEN_V1_00`, of eight bytes.
    BitToken8 = 8 { token_id: u8, data_version: u8, data_size: U16, data_ptr: U32, }
    /// `BIT_DATA_BIOSDATA_BINVER`: the version 94.02.42.40.5b is 0x94024240 and 0x5b.
    BiosdataBinver = 5 { version: U32, oem_version: u8, }
    /// `FALCON_UCODE_TABLE_HDR_V1`.
    FalconUcodeTableHdrV1 = 6 {
        version: u8,
        header_size: u8,
        entry_size: u8,
        entry_count: u8,
        desc_version: u8,
        desc_size: u8,
    }
    /// `FALCON_UCODE_TABLE_ENTRY_V1`.
    FalconUcodeTableEntryV1 = 6 { application_id: u8, target_id: u8, desc_ptr: U32, }
    /// `FALCON_UCODE_DESC_V2`, which the microcode follows: for chips whose falcons need a boot loader.
    FalconUcodeDescV2 = 60 {
        hdr: U32,
        stored_size: U32,
        uncompressed_size: U32,
        virtual_entry: U32,
        /// In the data.
        interface_offset: U32,
        imem_phys_base: U32,
        imem_load_size: U32,
        imem_virt_base: U32,
        imem_sec_base: U32,
        imem_sec_size: U32,
        dmem_offset: U32,
        dmem_phys_base: U32,
        dmem_load_size: U32,
        alt_imem_load_size: U32,
        alt_dmem_load_size: U32,
    }
    /// `FALCON_UCODE_DESC_V3`, which signatures and the microcode follow: code, then data.
    FalconUcodeDescV3 = 44 {
        hdr: U32,
        stored_size: U32,
        /// Where in the data the signature goes.
        pkc_data_offset: U32,
        /// In the data.
        interface_offset: U32,
        imem_phys_base: U32,
        imem_load_size: U32,
        imem_virt_base: U32,
        dmem_phys_base: U32,
        dmem_load_size: U32,
        engine_id_mask: U16,
        ucode_id: u8,
        signature_count: u8,
        /// A bit for each version that there is a signature of.
        signature_versions: U16,
        reserved: U16,
    }
    /// `FALCON_APPLICATION_INTERFACE_HEADER_V1`.
    AppifHeaderV1 = 4 { version: u8, header_size: u8, entry_size: u8, entry_count: u8, }
    /// `FALCON_APPLICATION_INTERFACE_ENTRY_V1`.
    AppifEntryV1 = 8 { id: U32, dmem_offset: U32, }
    /// `FALCON_APPLICATION_INTERFACE_DMEM_MAPPER_V3`.
    DmemMapperV3 = 64 {
        signature: U32,
        version: U16,
        size: U16,
        cmd_in_buffer_offset: U32,
        cmd_in_buffer_size: U32,
        cmd_out_buffer_offset: U32,
        cmd_out_buffer_size: U32,
        nvf_img_data_buffer_offset: U32,
        nvf_img_data_buffer_size: U32,
        printf_buffer_hdr: U32,
        ucode_build_time_stamp: U32,
        ucode_signature: U32,
        init_cmd: U32,
        ucode_feature: U32,
        ucode_cmd_mask0: U32,
        ucode_cmd_mask1: U32,
        multi_tgt_tbl: U32,
    }
    /// `FWSECLIC_READ_VBIOS_DESC`: the argument of both commands.
    ReadVbiosDesc = 24 {
        version: U32,
        size: U32,
        gfw_image_offset: U64,
        gfw_image_size: U32,
        flags: U32,
    }
    /// `FWSECLIC_FRTS_REGION_DESC`: what FRTS has more.
    FrtsRegionDesc = 20 {
        version: U32,
        size: U32,
        /// In units of 4 KiB.
        frts_region_offset_4k: U32,
        /// In units of 4 KiB.
        frts_region_size: U32,
        frts_region_media_type: U32,
    }
    /// The header of a DCB of version 4.0 or 4.1, as far as it is read.
    DcbHeader = 22 {
        version: u8,
        header_size: u8,
        entry_count: u8,
        entry_size: u8,
        ccb_ptr: U16,
        signature: U32,
        gpio_ptr: U16,
        input_devices_ptr: U16,
        personal_cinema_ptr: U16,
        spread_spectrum_ptr: U16,
        i2c_devices_ptr: U16,
        connector_ptr: U16,
    }
    /// An entry of a DCB, as far as it is read.
    DcbEntry = 8 { connection: U32, configuration: U32, }
    /// The start of the tables that a DCB leads to.
    DcbTableHeader = 4 { version: u8, header_size: u8, entry_count: u8, entry_size: u8, }
}

/// `hdr` of the descriptors of microcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vdesc(pub u32);

impl Vdesc {
    /// `FLAGS_VERSION_AVAILABLE`: without it, [`version`](Self::version) means nothing.
    pub fn has_version(self) -> bool {
        self.0 & 1 != 0
    }

    /// `FLAGS_ENCRYPTED`.
    pub fn encrypted(self) -> bool {
        self.0 & 4 != 0
    }

    /// `VERSION`.
    pub fn version(self) -> u8 {
        self.0.to_le_bytes()[1]
    }

    /// `SIZE`, with the signatures.
    pub fn size(self) -> u16 {
        (self.0 >> 16) as u16
    }
}
