//! Where registers are, by the names of the vendor's headers.
//!
//! Source: OGKM, src/common/inc/swref/published: turing/tu102/{dev_boot,dev_bus,dev_timer,dev_fb,dev_fuse,dev_nv_xve}.h,
//! ampere/ga100/{dev_fb,dev_fuse}.h, ampere/ga102/{dev_falcon_v4,dev_falcon_second_pri,dev_riscv_pri,dev_fbif_v4,dev_gsp,dev_sec_pri,
//! dev_gc6_island}.h, disp/v04_00/dev_disp.h. Those of PFB that are not there: Linux, drivers/gpu/nova-core/regs.rs; of BAR 1
//! and BAR 2: drivers/gpu/drm/nouveau/nvkm/subdev/bar/tu102.c.

pub(super) const PMC_BOOT_0: u32 = 0x0;
/// Whether registers are big-endian; they are not.
pub(super) const PMC_BOOT_1: u32 = 0x4;
pub(super) const PMC_BOOT_42: u32 = 0xa00;
/// `NV_PBUS_VBIOS_SCRATCH(0)`, of 64.
pub(super) const PBUS_SCRATCH: u32 = 0x1400;
pub(super) const PBUS_SCRATCHES: u32 = 64;
/// `NV_VBIOS_FWSECLIC_SCRATCH_INDEX_0E`: what FRTS failed of, in bits 31:16.
pub(super) const SCRATCH_FRTS: u32 = PBUS_SCRATCH + 4 * 0x0e;
/// `NV_VBIOS_FWSECLIC_SCRATCH_INDEX_15`: what SB failed of, in bits 15:0.
pub(super) const SCRATCH_SB: u32 = PBUS_SCRATCH + 4 * 0x15;
/// `NV_PBUS_BAR0_WINDOW`: BASE 23:0 in units of 64 KiB, TARGET 25:24.
pub(super) const PBUS_BAR0_WINDOW: u32 = 0x1700;
/// `NV_PTIMER_INTR_EN_0`: the alarm.
pub(super) const PTIMER_INTR_EN: u32 = 0x9140;
pub(super) const PTIMER_TIME_0: u32 = 0x9400;
pub(super) const PTIMER_TIME_1: u32 = 0x9410;
/// In configuration space, up to Ada: what ends a message. Linux, nvkm/subdev/pci/gp100.c, gp100_pci_msi_rearm.
pub(super) const XVE_MESSAGE_END: u16 = 0x704;
/// Bytes of configuration space, which registers show.
pub(super) const PCFG_BYTES: u32 = 0x1000;
/// `NV_UFLUSH_FB_FLUSH` and `NV_UFLUSH_L2_FLUSH_DIRTY`, gm107/dev_flush.h; nvkm/subdev/bar/g84.c, g84_bar_flush.
pub(super) const UFLUSH_FB_FLUSH: u32 = 0x7_0000;
pub(super) const UFLUSH_L2_FLUSH_DIRTY: u32 = 0x7_0010;
/// `NV_VIRTUAL_FUNCTION_PRIV_L2_SYSMEM_INVALIDATE`.
pub(super) const L2_SYSMEM_INVALIDATE: u32 = 0xb8_0f00;
pub(super) const PFB_FLUSH_SYSMEM: u32 = 0x10_0c10;
/// `NV_PEXTDEV_BOOT_0`: resistors of the board. Linux, nvkm/engine/device/base.c: bits 6 and 22 are the crystal.
pub(super) const PEXTDEV_BOOT_0: u32 = 0x10_1000;
pub(super) const PFB_FLUSH_SYSMEM_HI: u32 = 0x10_0c40;
/// Who may read the two behind it.
pub(super) const PFB_MMU_LOCK_MASK: u32 = 0x1f_a7c8;
/// Bits 31:4 of an address in units of 4 KiB.
pub(super) const PFB_WPR2_LO: u32 = 0x1f_a824;
/// The same, of the last 128 KiB of the region; 0 if there is none.
pub(super) const PFB_WPR2_HI: u32 = 0x1f_a828;
pub(super) const PFB_MMU_LOCK_LO: u32 = 0x1f_a82c;
pub(super) const PFB_MMU_LOCK_HI: u32 = 0x1f_a830;
/// `NV_PGC6_BSI_SECURE_SCRATCH_14`: BOOT_STAGE_3_HANDOFF 26.
pub(super) const PGC6_HANDOFF: u32 = 0x11_80f8;
pub(super) const PGC6_GFW_MASK: u32 = 0x11_8128;
pub(super) const PGC6_GFW: u32 = 0x11_8234;
pub(super) const PGC6_FB_MIB: u32 = 0x11_83a4;
pub(super) const PROM: u32 = 0x30_0000;
pub(super) const PROM_END: u32 = 0x40_0000;
/// `NV_PDISP`'s VGA ports 3d4 and 3d5, of bytes: the index, and the CRTC's register. Linux, nvkm/engine/disp/vga.c, nvkm_rdport.
pub(super) const PDISP_CRTC_INDEX: u32 = 0x60_13d4;
pub(super) const PDISP_CRTC: u32 = 0x60_13d5;
pub(super) const PDISP_VGA_WORKSPACE: u32 = 0x62_5f04;
pub(super) const PRAMIN: u32 = 0x70_0000;
pub(super) const PRAMIN_END: u32 = 0x80_0000;
pub(super) const FUSE_DISPLAY: u32 = 0x82_0c04;
pub(super) const FUSE_GSP_DEBUG_DIS: u32 = 0x82_074c;
/// `NV_FUSE_OPT_FPF_NVDEC_UCODE1_VERSION`, of 16; behind them those of SEC2, and further on those of GSP.
pub(super) const FUSE_NVDEC: u32 = 0x82_4100;
pub(super) const FUSE_SEC2: u32 = 0x82_4140;
pub(super) const FUSE_GSP: u32 = 0x82_41c0;
pub(super) const FUSES: u32 = 16;
/// `NV_VIRTUAL_FUNCTION_PRIV_CPU_INTR_LEAF(0)`, which the others follow.
pub(super) const CPU_INTR: u32 = 0xb8_1000;
/// `NV_VIRTUAL_FUNCTION_PRIV_FUNC_BAR1_BLOCK` and of BAR 2, two words each: MODE 31, of the first.
pub(super) const BAR1_BLOCK: u32 = 0xb8_0f40;
pub(super) const BAR2_BLOCK: u32 = 0xb8_0f48;
/// `NV_VIRTUAL_FUNCTION_PRIV_DOORBELL`, for the kernel, and that of programs, in the page that they map.
pub(super) const PRIV_DOORBELL: u32 = 0xb8_2200;
pub(super) const DOORBELL: u32 = 0xbb_0090;
/// `NV_VIRTUAL_FUNCTION_TIME_0` and `TIME_1`.
pub(super) const FUNCTION_TIME_0: u32 = 0xbb_0080;
pub(super) const FUNCTION_TIME_1: u32 = 0xbb_0084;
/// `NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE`, and of what.
pub(super) const MMU_INVALIDATE_PDB: u32 = 0xb8_30a0;
pub(super) const MMU_INVALIDATE_UPPER_PDB: u32 = 0xb8_30a4;
pub(super) const MMU_INVALIDATE: u32 = 0xb8_30b0;

/// The registers of GSP and SEC2, each of this many bytes.
pub(super) const PGSP: u32 = 0x11_0000;
pub(super) const PSEC: u32 = 0x84_0000;
pub(super) const FALCON_BYTES: u32 = 0x4000;

/// Offsets in them.
pub(super) mod falcon {
    pub(in crate::pci) const IRQSCLR: u32 = 0x4;
    pub(in crate::pci) const IRQSTAT: u32 = 0x8;
    pub(in crate::pci) const IRQMSET: u32 = 0x10;
    pub(in crate::pci) const IRQMCLR: u32 = 0x14;
    pub(in crate::pci) const IRQMASK: u32 = 0x18;
    pub(in crate::pci) const IRQDEST: u32 = 0x1c;
    pub(in crate::pci) const MAILBOX0: u32 = 0x40;
    pub(in crate::pci) const MAILBOX1: u32 = 0x44;
    /// `NV_PFALCON_FALCON_ITFEN`: Linux, nvkm/falcon/gm200.c, gm200_flcn_disable.
    pub(in crate::pci) const ITFEN: u32 = 0x48;
    pub(in crate::pci) const OS: u32 = 0x80;
    pub(in crate::pci) const RM: u32 = 0x84;
    pub(in crate::pci) const DEBUGINFO: u32 = 0x94;
    pub(in crate::pci) const HWCFG2: u32 = 0xf4;
    pub(in crate::pci) const CPUCTL: u32 = 0x100;
    pub(in crate::pci) const BOOTVEC: u32 = 0x104;
    pub(in crate::pci) const HWCFG: u32 = 0x108;
    pub(in crate::pci) const DMACTL: u32 = 0x10c;
    pub(in crate::pci) const DMATRFBASE: u32 = 0x110;
    pub(in crate::pci) const DMATRFMOFFS: u32 = 0x114;
    pub(in crate::pci) const DMATRFCMD: u32 = 0x118;
    pub(in crate::pci) const DMATRFFBOFFS: u32 = 0x11c;
    pub(in crate::pci) const DMATRFBASE1: u32 = 0x128;
    /// Revision 6 of the core, security model 3: Linux, nova-core/falcon.rs, FalconCoreRev, FalconSecurityModel.
    pub(in crate::pci) const HWCFG1: u32 = 0x12c;
    pub(in crate::pci) const CPUCTL_ALIAS: u32 = 0x130;
    /// Of 4 ports, 16 bytes apart: `IMEMC`, `IMEMD`, `IMEMT`.
    pub(in crate::pci) const IMEMC: u32 = 0x180;
    /// Of 8 ports, 8 bytes apart: `DMEMC`, `DMEMD`.
    pub(in crate::pci) const DMEMC: u32 = 0x1c0;
    /// Four groups of four words, which CrashCat leaves reports in.
    pub(in crate::pci) const SCRATCH: u32 = 0x300;
    pub(in crate::pci) const SCRATCH_END: u32 = 0x340;
    pub(in crate::pci) const ENGINE: u32 = 0x3c0;
    pub(in crate::pci) const RETRIGGER: u32 = 0x3e8;
    /// `NV_PFALCON_FBIF_TRANSCFG(0)`, of 8.
    pub(in crate::pci) const TRANSCFG: u32 = 0x600;
    pub(in crate::pci) const FBIF_CTL: u32 = 0x624;
    /// `NV_PGSP_QUEUE_HEAD(0)`, of 8, 8 bytes apart.
    pub(in crate::pci) const QUEUE_HEAD: u32 = 0xc00;
    pub(in crate::pci) const QUEUE_HEADS: u32 = 8;
    /// What follows is of `NV_FALCON2_*_BASE`.
    pub(in crate::pci) const MOD_SEL: u32 = 0x1180;
    pub(in crate::pci) const UCODE_ID: u32 = 0x1198;
    pub(in crate::pci) const ENGIDMASK: u32 = 0x119c;
    pub(in crate::pci) const PARAADDR: u32 = 0x1210;
    pub(in crate::pci) const RISCV_CPUCTL: u32 = 0x1388;
    pub(in crate::pci) const RISCV_IRQMASK: u32 = 0x1528;
    pub(in crate::pci) const RISCV_IRQDEST: u32 = 0x152c;
    pub(in crate::pci) const BCR_CTRL: u32 = 0x1668;
}
