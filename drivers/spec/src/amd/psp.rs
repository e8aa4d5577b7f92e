//! The security processor (PSP): commands of its bootloader, of its mailbox, and the ring by which the secure OS
//! takes firmware for the other blocks.
//!
//! Mailboxes are `MP0_SMN_C2PMSG_*`: 35 takes a command of the bootloader and says in bit 31 that it is ready for
//! one, 36 where the image lies, in MiB; 81 is not 0 once the secure OS runs. 64 takes a command of [`ctrl`] and
//! says in bit 31 that it is done, with a status below; 69, 70 and 71 are the ring, 67 its write pointer in dwords.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: psp_gfx_if.h (layouts and numbers; names of fields as there),
//! amdgpu_psp.h (`enum psp_bootloader_cmd`, sizes), psp_v13_0.c and psp_v14_0.c (which mailbox is what).

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Commands of the bootloader (`PSP_BL__*`): each loads one part of the PSP's own file.
pub mod bl {
    /// The system driver.
    pub const LOAD_SYSDRV: u32 = 0x1_0000;
    /// The secure OS.
    pub const LOAD_SOSDRV: u32 = 0x2_0000;
    /// The key database.
    pub const LOAD_KEY_DATABASE: u32 = 0x8_0000;
    /// The driver of the chip.
    pub const LOAD_SOCDRV: u32 = 0xb_0000;
    /// The debug driver; from version 14 on that of hardware-assisted debugging.
    pub const LOAD_DBGDRV: u32 = 0xc_0000;
    /// The driver of interfaces.
    pub const LOAD_INTFDRV: u32 = 0xd_0000;
    /// The driver of error reporting.
    pub const LOAD_RASDRV: u32 = 0xe_0000;
    /// The driver of keys of blocks.
    pub const LOAD_IPKEYMGRDRV: u32 = 0xf_0000;
    /// The security patch levels.
    pub const LOAD_TOS_SPL_TABLE: u32 = 0x1000_0000;
}

/// Commands of the mailbox of the secure OS (`GFX_CTRL_CMD_ID_*`).
pub mod ctrl {
    /// Takes the ring whose place is in the mailboxes.
    pub const INIT_GPCOM_RING: u32 = 0x2_0000;
    /// Forgets all rings.
    pub const DESTROY_RINGS: u32 = 0x3_0000;
    /// `GFX_FLAG_RESPONSE`: done, or ready; the bootloader's mailbox has the same bit.
    pub const RESPONSE: u32 = 0x8000_0000;
    /// `GFX_CMD_STATUS_MASK`: 0 is success.
    pub const STATUS: u32 = 0xffff;
}

/// Commands of the ring (`GFX_CMD_ID_*`).
pub mod cmd {
    /// Loads a trusted application: [`super::LoadTa`]. Its session is in the answer.
    pub const LOAD_TA: u32 = 0x1;
    /// Ends the session of an application: [`super::UnloadTa`].
    pub const UNLOAD_TA: u32 = 0x2;
    /// Calls an application: [`super::InvokeCmd`].
    pub const INVOKE_CMD: u32 = 0x3;
    /// Loads the secure OS's own part for applications: [`super::LoadTa`].
    pub const LOAD_ASD: u32 = 0x4;
    /// Sets up the trusted memory region: [`super::SetupTmr`].
    pub const SETUP_TMR: u32 = 0x5;
    /// Loads firmware of a block: [`super::LoadIpFw`].
    pub const LOAD_IP_FW: u32 = 0x6;
    /// Gives the trusted memory region back.
    pub const DESTROY_TMR: u32 = 0x7;
    /// Takes the table of contents, and says how large the trusted memory region has to be: [`super::LoadToc`].
    pub const LOAD_TOC: u32 = 0x20;
    /// All graphics firmware is there: the RLC may start it.
    pub const AUTOLOAD_RLC: u32 = 0x21;
    /// Says as how many GPUs the XCCs of a chip show themselves: [`super::SpatialPart`].
    pub const SPATIAL_PART: u32 = 0x27;
}

/// `PSP_ERR_UNKNOWN_COMMAND`.
pub const UNKNOWN_COMMAND: u32 = 0x100;
/// `PSP_1_MEG`: what an image of the bootloader is aligned to, and the most that it can have.
pub const BOOTLOADER_ALIGN: u64 = 1 << 20;
/// What everything that a command names is aligned to.
pub const ALIGN: u64 = 0x1000;
/// `PSP_TMR_ALIGNMENT`.
pub const TMR_ALIGN: u64 = 0x10_0000;
/// `virt_phy_addr` of [`SetupTmr::tmr_flags`]: both addresses are there.
pub const TMR_VIRT_PHY_ADDR: u32 = 1 << 1;

macro_rules! layouts {
    ($($(#[$meta:meta])* $name:ident = $size:literal { $($(#[$inner:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$inner])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

layouts! {
    /// `psp_gfx_rb_frame`: an entry of the ring. Addresses are those of VMID 0.
    RbFrame = 64 {
        /// Where the [`CmdResp`] is.
        cmd_buf_addr_lo: U32,
        /// Where the [`CmdResp`] is.
        cmd_buf_addr_hi: U32,
        /// Its bytes.
        cmd_buf_size: U32,
        /// What is written when the command is done.
        fence_addr_lo: U32,
        /// What is written when the command is done.
        fence_addr_hi: U32,
        /// With which value.
        fence_value: U32,
        /// 0 here.
        sid_lo: U32,
        /// 0 here.
        sid_hi: U32,
        /// 0.
        vmid: u8,
        /// 0 here.
        frame_type: u8,
        /// 0.
        reserved1: [u8; 2],
        /// 0.
        reserved2: [U32; 7],
    }
    /// `psp_gfx_resp`: what a command has come to.
    Resp = 96 {
        /// 0 for success.
        status: U32,
        /// Of a trusted application.
        session_id: U32,
        /// Where firmware lies.
        fw_addr_lo: U32,
        /// Where firmware lies.
        fw_addr_hi: U32,
        /// Bytes that the trusted memory region has to have, of [`cmd::LOAD_TOC`].
        tmr_size: U32,
        /// 0.
        reserved: [U32; 11],
        /// By the command.
        uresp: [U32; 8],
    }
    /// `psp_gfx_cmd_resp`: a command, and room for what it comes to.
    CmdResp = 1024 {
        /// 0 here.
        buf_size: U32,
        /// 0 here.
        buf_version: U32,
        /// One of [`cmd`].
        cmd_id: U32,
        /// 0 here.
        resp_buf_addr_lo: U32,
        /// 0 here.
        resp_buf_addr_hi: U32,
        /// 0 here.
        resp_offset: U32,
        /// 0 here.
        resp_buf_size: U32,
        /// By the command, from its start.
        cmd: [u8; 836],
        /// What the PSP writes.
        resp: Resp,
        /// 0.
        reserved_2: [u8; 64],
    }
    /// `psp_gfx_cmd_setup_tmr`. All zero where the PSP has the region already.
    SetupTmr = 24 {
        /// Where the region is, as VMID 0 has it.
        buf_phy_addr_lo: U32,
        /// Where the region is, as VMID 0 has it.
        buf_phy_addr_hi: U32,
        /// Its bytes.
        buf_size: U32,
        /// [`TMR_VIRT_PHY_ADDR`].
        tmr_flags: U32,
        /// Where the region is in memory.
        system_phy_addr_lo: U32,
        /// Where the region is in memory.
        system_phy_addr_hi: U32,
    }
    /// `psp_gfx_cmd_load_ip_fw`.
    LoadIpFw = 16 {
        /// Where the firmware is.
        fw_phy_addr_lo: U32,
        /// Where the firmware is.
        fw_phy_addr_hi: U32,
        /// Its bytes.
        fw_size: U32,
        /// A [`super::fw_type::GfxFwType`].
        fw_type: U32,
    }
    /// `psp_gfx_cmd_load_ta`.
    LoadTa = 24 {
        /// Where the application is.
        app_phy_addr_lo: U32,
        /// Where the application is.
        app_phy_addr_hi: U32,
        /// Its bytes.
        app_len: U32,
        /// Memory that it shares with the driver; none is 0.
        cmd_buf_phy_addr_lo: U32,
        /// Memory that it shares with the driver; none is 0.
        cmd_buf_phy_addr_hi: U32,
        /// Its bytes.
        cmd_buf_len: U32,
    }
    /// `psp_gfx_cmd_unload_ta`.
    UnloadTa = 4 {
        /// [`Resp::session_id`] of when it was loaded.
        session_id: U32,
    }
    /// `psp_gfx_cmd_invoke_cmd`, without its list of further memory.
    InvokeCmd = 8 {
        /// [`Resp::session_id`] of when it was loaded.
        session_id: U32,
        /// What the application is to do.
        ta_cmd_id: U32,
    }
    /// `psp_gfx_cmd_sriov_spatial_part`.
    SpatialPart = 16 {
        /// How many GPUs: 1 for one that has all XCCs.
        mode: U32,
        /// 0 here.
        override_ips: U32,
        /// 0 here.
        override_xcds_avail: U32,
        /// 0 here.
        override_this_aid: U32,
    }
    /// `psp_gfx_cmd_load_toc`.
    LoadToc = 12 {
        /// Where the table is.
        toc_phy_addr_lo: U32,
        /// Where the table is.
        toc_phy_addr_hi: U32,
        /// Its bytes.
        toc_size: U32,
    }
}

const _: () = {
    assert!(std::mem::offset_of!(CmdResp, cmd) == 28);
    assert!(std::mem::offset_of!(CmdResp, resp) == 864);
    assert!(std::mem::offset_of!(Resp, uresp) == 64);
    assert!(std::mem::offset_of!(RbFrame, vmid) == 32);
};
