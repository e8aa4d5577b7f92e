//! Registers in BAR0, as far as a driver without a kernel driver touches them.
//!
//! Those of a falcon count from the start of its block ([`falcon`]); the others from the start of BAR0.
//!
//! Source: open-gpu-kernel-modules 570.144, src/common/inc/swref/published: nv_ref.h; turing/tu102/dev_{fb,fuse,bus}.h;
//! ampere/ga100/dev_{fb,fuse}.h; ampere/ga102/dev_{falcon_v4,falcon_v4_addendum,falcon_second_pri,fbif_v4,riscv_pri,gsp,
//! gc6_island,gc6_island_addendum}.h; hopper/gh100/dev_{fb,therm,fsp_pri}.h; blackwell/gb100/dev_hshub_base.h,
//! gb10b/dev_fbhub.h, gb202/dev_therm.h; disp/v04_00/dev_disp.h; src/nvidia/src/kernel/gpu: where HSHUB 0 is,
//! mem_sys/arch/blackwell/kern_mem_sys_gb100.c; what FWSEC writes into scratch registers,
//! gsp/arch/turing/kernel_gsp_frts_tu102.c.

use hcq::reg::{Register, Word};

use super::chip::Archs;

/// A register.
pub type Reg = Register<Archs>;

/// Registers: `name @ address`, and a module with its fields where it has any; the table of all of them comes first.
macro_rules! registers {
    ($(#[$tdoc:meta])* $table:ident; $($(#[$doc:meta])* $reg:ident @ $at:literal $($module:ident {
        $($field:ident $high:literal $low:literal $({$($value:ident = $number:literal),* $(,)?})?;)*
    })?;)*) => {$(
        $(#[$doc])*
        #[doc = concat!("`", stringify!($reg), "`.")]
        pub const $reg: Reg = Register::fixed(
            Word {
                name: stringify!($reg),
                fields: &[$($($module::$field),*)?],
                on: Archs::ALL,
            },
            $at / 4,
        );
        $($crate::nv::words::fields! { $crate::nv::chip::Archs, $module, stringify!($reg);
            $($field $high $low $({$($value = $number),*})?;)*
        })?
    )*
        $(#[$tdoc])*
        pub const $table: &[&$crate::nv::mmio::Reg] = &[$(&$reg,)*];
    };
}

pub(crate) use registers;

/// What a register answers whose reader lacks the privilege, or that is not there: `badf` and a reason.
pub const PRI_ERROR: u32 = 0xbadf_0000;
/// The bits of [`PRI_ERROR`].
pub const PRI_ERROR_MASK: u32 = 0xffff_0000;

/// `NV_PROM_DATA`: the ROM, as far as it is shown.
pub const NV_PROM_DATA: u64 = 0x30_0000;
/// Bytes of it.
pub const NV_PROM_BYTES: u64 = 0x10_0000;

registers! {
    /// Those outside of falcons.
    ALL;
    /// Never all ones, but where the card sleeps or has left.
    NV_PMC_BOOT_0 @ 0x0;
    NV_PMC_BOOT_42 @ 0xa00 boot_42 {
        ARCHITECTURE 29 24;
        IMPLEMENTATION 23 20;
        MAJOR_REVISION 19 16;
        MINOR_REVISION 15 12;
    };
    /// `NV_PBUS_VBIOS_SCRATCH(0x0e)`: how FWSEC has set the region of FRTS up.
    NV_PBUS_VBIOS_SCRATCH_0E @ 0x1438 scratch_0e { FRTS_ERR_CODE 31 16; };
    /// `NV_PBUS_VBIOS_SCRATCH(0x15)`: how FWSEC has loaded what runs before the operating system.
    NV_PBUS_VBIOS_SCRATCH_15 @ 0x1454 scratch_15 { SB_ERR_CODE 15 0; };
    /// Bits 39:8 of the address that a flush to memory of the host reads, on Ampere and Ada.
    NV_PFB_NISO_FLUSH_SYSMEM_ADDR @ 0x10_0c10;
    /// The rest of it.
    NV_PFB_NISO_FLUSH_SYSMEM_ADDR_HI @ 0x10_0c40 niso_flush_hi { ADR_63_40 23 0; };
    /// The same address on Hopper, its low half; it lies elsewhere on Blackwell ([`FLUSH_GB10X`], [`FLUSH_GB20X`]).
    NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_LO @ 0x10_0a34;
    /// Its high half.
    NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_HI @ 0x10_0a38;
    /// Of Hopper and GB10x: whether the FSP has started; it lies elsewhere on GB20x ([`NV_THERM_GB20X`]).
    NV_THERM_I2CS_SCRATCH @ 0x2_00bc;
    /// Who may read [`NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0`].
    NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_PRIV_LEVEL_MASK @ 0x11_8128 group_05_plm { READ_PROTECTION_LEVEL0 0 0; };
    /// How far the card's own firmware (GFW) is.
    NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0 @ 0x11_8234 group_05 {
        GFW_BOOT_PROGRESS 7 0 { GFW_BOOT_PROGRESS_COMPLETED = 0xff };
    };
    /// `NV_USABLE_FB_SIZE_IN_MB`.
    NV_PGC6_AON_SECURE_SCRATCH_GROUP_42 @ 0x11_83a4;
    NV_PGC6_BSI_SECURE_SCRATCH_14 @ 0x11_80f8 scratch_14 { BOOT_STAGE_3_HANDOFF 26 26; };
    /// First 4 KiB of WPR2.
    NV_PFB_PRI_MMU_WPR2_ADDR_LO @ 0x1f_a824 wpr2_lo { VAL 31 4; };
    /// Where WPR2 ends; 0 where there is none. Whether that is its last unit or the one behind it, the vendor's kernel
    /// modules do not say, which ask for 0 only; Linux, drivers/gpu/nova-core, has it as the bound that is not inside.
    NV_PFB_PRI_MMU_WPR2_ADDR_HI @ 0x1f_a828 wpr2_hi { VAL 31 4; };
    NV_PDISP_VGA_WORKSPACE_BASE @ 0x62_5f04 vga_workspace { STATUS 3 3 { STATUS_VALID = 1 }; ADDR 31 8; };
    /// Whether chips are without a display engine.
    NV_FUSE_STATUS_OPT_DISPLAY @ 0x82_0c04 opt_display { DATA 0 0 { DATA_ENABLE = 0 }; };
    /// Whether GSP runs only what is signed for cards on sale.
    NV_FUSE_OPT_SECURE_GSP_DEBUG_DIS @ 0x82_074c gsp_debug { DATA 0 0 { DATA_NO = 0 }; };
    /// The first of 16: the version that a microcode of SEC2 must have, a bit for each.
    NV_FUSE_OPT_FPF_SEC2_UCODE1_VERSION @ 0x82_4140 sec2_ucode { DATA 15 0; };
    /// The first of 16: that of GSP.
    NV_FUSE_OPT_FPF_GSP_UCODE1_VERSION @ 0x82_41c0 gsp_ucode { DATA 15 0; };
    /// Tells GSP that there are messages; the first of 8.
    NV_PGSP_QUEUE_HEAD @ 0x11_0c00;
}

/// Bits of an address of [`NV_PFB_NISO_FLUSH_SYSMEM_ADDR`] (`_HI_MASK` is 0x7f).
pub const NISO_FLUSH_BITS: u32 = 47;
/// Bits of an address of [`NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_LO`] (`_HI_ADR_MASK` is 0xfffff).
pub const FBHUB_FLUSH_BITS: u32 = 52;
/// How far both of GB10x are behind [`NV_PFB_FBHUB_PCIE_FLUSH_SYSMEM_ADDR_LO`] and `_HI`, in bytes:
/// `NV_PFB_HSHUB_PCIE_FLUSH_SYSMEM_ADDR_LO` and `NV_PFB_HSHUB_EG_PCIE_FLUSH_SYSMEM_ADDR_LO` of HSHUB 0, which both have it.
pub const FLUSH_GB10X: [u32; 2] = [0x87_0e50 - 0x10_0a34, 0x87_06c0 - 0x10_0a34];
/// The same of GB20x: `NV_PFB_FBHUB0_PCIE_FLUSH_SYSMEM_ADDR_LO`.
pub const FLUSH_GB20X: u32 = 0x8a_1d58 - 0x10_0a34;

/// Where the unit of addresses of WPR2 starts: 4 KiB (`_ADDR_LO_ALIGNMENT`).
pub const ADDR_ALIGNMENT: u32 = 12;

/// `NV_THERM_I2CS_SCRATCH_FSP_BOOT_COMPLETE_STATUS_SUCCESS`.
pub const FSP_BOOT_COMPLETE: u32 = 0xff;
/// How far [`NV_THERM_I2CS_SCRATCH`] of GB20x is behind that of the others, in bytes.
pub const NV_THERM_GB20X: u32 = 0xad_00bc - 0x2_00bc;

/// Registers of a falcon, from the start of its parts.
pub mod falcon {
    use super::{Archs, Reg, Register, Word};

    /// A falcon's parts in BAR0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Falcon {
        /// Its name, as registers have it.
        pub name: &'static str,
        /// `NV_PFALCON_*`.
        pub base: u32,
        /// `NV_PFALCON_FBIF_*`.
        pub fbif: u32,
        /// `NV_PRISCV_*` and `NV_PFALCON2_*`.
        pub second: u32,
    }

    /// GSP.
    pub const GSP: Falcon = Falcon {
        name: "NV_PGSP",
        base: 0x11_0000,
        fbif: 0x11_0600,
        second: 0x11_1000,
    };
    /// SEC2.
    pub const SEC2: Falcon = Falcon {
        name: "NV_PSEC",
        base: 0x84_0000,
        fbif: 0x84_0600,
        second: 0x84_1000,
    };

    /// Bytes of a block that is loaded.
    pub const BLOCK: u32 = 256;

    registers! {
        /// From the start of a falcon.
        ALL;
        NV_PFALCON_FALCON_MAILBOX0 @ 0x40;
        NV_PFALCON_FALCON_MAILBOX1 @ 0x44;
        /// The version of what runs on the RISC-V core, for those who look.
        NV_PFALCON_FALCON_OS @ 0x80;
        /// Which chip it is, for microcode.
        NV_PFALCON_FALCON_RM @ 0x84;
        NV_PFALCON_FALCON_HWCFG2 @ 0xf4 hwcfg2 {
            RESET_READY 31 31;
            RISCV_BR_PRIV_LOCKDOWN 13 13;
            MEM_SCRUBBING 12 12;
            RISCV 10 10;
        };
        NV_PFALCON_FALCON_CPUCTL @ 0x100 cpuctl {
            ALIAS_EN 6 6;
            HALTED 4 4;
            STARTCPU 1 1;
        };
        NV_PFALCON_FALCON_BOOTVEC @ 0x104;
        NV_PFALCON_FALCON_DMACTL @ 0x10c;
        NV_PFALCON_FALCON_DMATRFBASE @ 0x110;
        NV_PFALCON_FALCON_DMATRFMOFFS @ 0x114 dmatrfmoffs { OFFS 23 0; };
        NV_PFALCON_FALCON_DMATRFCMD @ 0x118 dmatrfcmd {
            SET_DMTAG 16 16;
            CTXDMA 14 12;
            SIZE 10 8 { SIZE_256B = 6 };
            WRITE 5 5;
            IMEM 4 4;
            SEC 3 2;
            IDLE 1 1;
            FULL 0 0;
        };
        NV_PFALCON_FALCON_DMATRFFBOFFS @ 0x11c;
        NV_PFALCON_FALCON_DMATRFBASE1 @ 0x128 dmatrfbase1 { BASE 8 0; };
        NV_PFALCON_FALCON_CPUCTL_ALIAS @ 0x130 cpuctl_alias { STARTCPU 1 1; };
        NV_PFALCON_FALCON_ENGINE @ 0x3c0 engine { RESET 0 0; };
    }

    registers! {
        /// From the start of FBIF.
        FBIF;
        /// The first of 8.
        NV_PFALCON_FBIF_TRANSCFG @ 0x0 transcfg {
            MEM_TYPE 2 2 { MEM_TYPE_PHYSICAL = 1 };
            TARGET 1 0 { TARGET_COHERENT_SYSMEM = 1 };
        };
        NV_PFALCON_FBIF_CTL @ 0x24 fbif_ctl { ALLOW_PHYS_NO_CTX 7 7; };
    }

    registers! {
        /// From the start of the second part.
        SECOND;
        NV_PFALCON2_FALCON_MOD_SEL @ 0x180 mod_sel { ALGO 7 0 { ALGO_RSA3K = 1 }; };
        NV_PFALCON2_FALCON_BROM_CURR_UCODE_ID @ 0x198 brom_ucode { VAL 7 0; };
        NV_PFALCON2_FALCON_BROM_ENGIDMASK @ 0x19c;
        /// Where in the data the signature is.
        NV_PFALCON2_FALCON_BROM_PARAADDR @ 0x210;
        NV_PRISCV_RISCV_CPUCTL @ 0x388 riscv_cpuctl { ACTIVE_STAT 7 7; HALTED 4 4; };
        NV_PRISCV_RISCV_BCR_CTRL @ 0x668 bcr { BRFETCH 8 8; CORE_SELECT 4 4 { CORE_SELECT_RISCV = 1 }; VALID 0 0; };
    }
}

/// Registers of the FSP, which starts GSP from Hopper on: those of the channel for drivers.
pub mod fsp {
    use super::{Archs, Reg, Register, Word};

    registers! {
        /// The first of 8 each.
        ALL;
        /// Where in its memory.
        NV_PFSP_EMEMC @ 0x8f_2ac0 ememc { AINCR 25 25; AINCW 24 24; BLK 15 8; OFFS 7 2; };
        /// What is there.
        NV_PFSP_EMEMD @ 0x8f_2ac4;
        /// What drivers have sent: where it starts, and its last dword. Equal: nothing.
        NV_PFSP_QUEUE_HEAD @ 0x8f_2c00;
        NV_PFSP_QUEUE_TAIL @ 0x8f_2c04;
        /// What the FSP has sent.
        NV_PFSP_MSGQ_HEAD @ 0x8f_2c80;
        NV_PFSP_MSGQ_TAIL @ 0x8f_2c84;
    }
}
