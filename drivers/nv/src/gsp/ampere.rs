//! The start of Ampere and Ada: FWSEC from the VBIOS runs on GSP's falcon and sets WPR2 up; the booter runs on SEC2, copies
//! GSP's image into WPR2, verifies it and starts the boot loader on GSP's RISC-V core. To end it, FWSEC puts back what ran
//! before, and the booter's counterpart takes WPR2 down.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gsp/arch/turing/kernel_gsp_{tu102,frts_tu102,
//! booter_tu102}.c (`kgspBootstrap_TU102`, `kgspTeardown_TU102`).

use drivers_spec::nv::gsp::WprMeta;
use drivers_spec::nv::mmio::falcon::{GSP, SEC2};
use drivers_spec::nv::mmio::{self, group_05, group_05_plm, scratch_0e, scratch_15};
use firmware_tools::nv::booter::Booter;
use firmware_tools::nv::vbios::fwsec::Command;
use hcq::addr::BusAddr;

use super::card::Card;
use super::error::{Cause, Note, Stage};
use super::falcon::{Falcon, Microcode, descriptor};
use super::firmware::Parts;
use super::layout::{FRTS, Given, layout};
use super::memory::BootMemory;
use super::rom;
use super::sequencer::Resume;

/// The argument of the booter that takes WPR2 down: for good.
const FOR_GOOD: u32 = 0xff;

/// Microcode in memory of the host.
struct Loaded {
    code: Microcode,
    at: BusAddr,
}

/// The microcode of a start and an end.
pub(super) struct Codes {
    /// Where in VRAM everything goes.
    pub meta: WprMeta,
    frts: Microcode,
    sb: Microcode,
    load: Microcode,
    unload: Microcode,
}

/// The same in memory of the host, which is all that is needed.
pub(super) struct Ampere {
    frts: Loaded,
    sb: Loaded,
    load: Loaded,
    unload: Loaded,
    frts_offset: u64,
}

impl Codes {
    /// Reads the VBIOS, and signs all of it by the card's fuses.
    ///
    /// # Errors
    /// [`Cause::Files`], [`Cause::Vram`]; the registers'.
    pub(super) fn of(
        card: &Card,
        parts: &Parts<'_>,
        (load, unload): (&Booter<'_>, &Booter<'_>),
    ) -> Result<Codes, Cause> {
        let debug = is_debug(card)?;
        let bytes = rom::read(card, debug)?;
        let meta = layout(&Given {
            branch: parts.branch,
            vram: card.vram_bytes()?,
            workspace: card.vga_workspace()?,
            image: parts.gsp.image().len() as u64,
            loader: parts.loader.image().len() as u64,
        })?;
        let fwsec = rom::parse(&bytes)?.fwsec(debug)?;
        let ucode = descriptor(&fwsec)?.ucode_id;
        let fuse = card.fuse(&mmio::NV_FUSE_OPT_FPF_GSP_UCODE1_VERSION, ucode.into())?;
        let frts = Command::Frts {
            offset: meta.frts_offset,
            size: FRTS,
        };
        let booter = |name, booter: &Booter<'_>| {
            let first = &mmio::NV_FUSE_OPT_FPF_SEC2_UCODE1_VERSION;
            Microcode::booter(name, booter, card.fuse(first, booter.ucode_id)?)
        };
        Ok(Codes {
            frts: Microcode::fwsec(&fwsec, frts, fuse)?,
            sb: Microcode::fwsec(&fwsec, Command::Sb, fuse)?,
            load: booter("booter_load", load)?,
            unload: booter("booter_unload", unload)?,
            meta,
        })
    }
}

/// Whether the chip runs what is signed for development.
fn is_debug(card: &Card) -> Result<bool, Cause> {
    let fuse = card.io().read(&mmio::NV_FUSE_OPT_SECURE_GSP_DEBUG_DIS)?;
    Ok(fuse.get(mmio::gsp_debug::DATA) == mmio::gsp_debug::DATA_NO)
}

impl Ampere {
    /// Puts the microcode into memory of the host.
    ///
    /// # Errors
    /// [`Cause::Room`]; the window's.
    pub(super) fn new(memory: &mut BootMemory, codes: Codes) -> Result<Ampere, Cause> {
        let mut place = |code: Microcode| {
            let piece = memory.put(code.name, &code.bytes)?;
            Ok::<_, Cause>(Loaded { at: piece.at, code })
        };
        Ok(Ampere {
            frts: place(codes.frts)?,
            sb: place(codes.sb)?,
            load: place(codes.load)?,
            unload: place(codes.unload)?,
            frts_offset: codes.meta.frts_offset,
        })
    }

    /// Starts RM on GSP; `meta` is where the WPR metadata is.
    ///
    /// # Errors
    /// With the stage: [`Cause::Fwsec`], [`Cause::Region`], [`Cause::Booter`], [`Cause::Inactive`]; the registers'.
    pub(super) fn start(
        &self,
        card: &Card,
        resume: &Resume,
        meta: BusAddr,
    ) -> Result<(), (Stage, Cause)> {
        frts(card, &self.frts, self.frts_offset).map_err(|cause| (Stage::Frts, cause))?;
        let meta = [meta.lo(), meta.hi()];
        load(card, &self.load, resume, meta).map_err(|cause| (Stage::Booter, cause))
    }

    /// Ends it, after RM has ended or where it has not started; what went wrong is noted. Whether it is down.
    pub(super) fn end(&self, card: &Card, note: &mut Note<'_>) -> bool {
        let is_back = note(put_back(card, &self.sb));
        note(take_down(card, &self.unload)) && is_back
    }
}

/// Has FWSEC set WPR2 up.
fn frts(card: &Card, code: &Loaded, expected: u64) -> Result<(), Cause> {
    let gsp = Falcon::of(card, GSP);
    if !gsp.has_riscv()? {
        return Err(Cause::Contents {
            file: "NV_PFALCON_FALCON_HWCFG2 of NV_PGSP".into(),
            what: "RISCV is 0, expected 1: this chip's GSP does not run RM".into(),
        });
    }
    gsp.reset()?;
    gsp.run(&code.code, code.at, None)?;
    let error = card.io().read(&mmio::NV_PBUS_VBIOS_SCRATCH_0E)?;
    let error = error.get(scratch_0e::FRTS_ERR_CODE);
    if error != 0 {
        return Err(Cause::Fwsec {
            command: "FRTS",
            register: "NV_PBUS_VBIOS_SCRATCH(0x0e).FRTS_ERR_CODE",
            code: error,
        });
    }
    match card.wpr2()? {
        Some((lo, _)) if lo == expected => Ok(()),
        found => {
            let (lo, hi) = found.unwrap_or_default();
            Err(Cause::Region { lo, hi, expected })
        }
    }
}

/// Has the booter load RM, and start it.
fn load(card: &Card, code: &Loaded, resume: &Resume, meta: [u32; 2]) -> Result<(), Cause> {
    let gsp = Falcon::of(card, GSP);
    gsp.reset_into_riscv()?;
    gsp.set_mailboxes([resume.libos.lo(), resume.libos.hi()])?;
    let sec2 = Falcon::of(card, SEC2);
    sec2.reset()?;
    let [error, _] = sec2.run(&code.code, code.at, Some(meta))?;
    if error != 0 {
        return Err(Cause::Booter {
            what: "booter_load",
            code: error,
        });
    }
    gsp.set_version(resume.version)?;
    match gsp.riscv()? {
        (_, true) => Ok(()),
        (value, false) => Err(Cause::Inactive {
            value,
            what: "was not started by booter_load",
        }),
    }
}

/// Has FWSEC put back what ran on GSP's falcon before.
fn put_back(card: &Card, code: &Loaded) -> Result<(), Cause> {
    let gsp = Falcon::of(card, GSP);
    gsp.reset()?;
    gsp.run(&code.code, code.at, None)?;
    let io = card.io();
    let failed = |register, code| {
        Err(Cause::Fwsec {
            command: "SB",
            register,
            code,
        })
    };
    let plm = io.read(&mmio::NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_PRIV_LEVEL_MASK)?;
    if plm.get(group_05_plm::READ_PROTECTION_LEVEL0) == 0 {
        let register = "NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_PRIV_LEVEL_MASK";
        return failed(register, plm.bits());
    }
    let progress = io.read(&mmio::NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0)?;
    if progress.get(group_05::GFW_BOOT_PROGRESS) != group_05::GFW_BOOT_PROGRESS_COMPLETED {
        let register = "NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0_GFW_BOOT.PROGRESS";
        return failed(register, progress.bits());
    }
    let error = io.read(&mmio::NV_PBUS_VBIOS_SCRATCH_15)?;
    match error.get(scratch_15::SB_ERR_CODE) {
        0 => Ok(()),
        code => failed("NV_PBUS_VBIOS_SCRATCH(0x15).SB_ERR_CODE", code),
    }
}

/// Has the booter's counterpart take WPR2 down, if it is up.
fn take_down(card: &Card, code: &Loaded) -> Result<(), Cause> {
    if card.wpr2()?.is_none() {
        return Ok(());
    }
    let sec2 = Falcon::of(card, SEC2);
    sec2.reset()?;
    let [error, _] = sec2.run(&code.code, code.at, Some([FOR_GOOD; 2]))?;
    if error != 0 {
        return Err(Cause::Booter {
            what: "booter_unload",
            code: error,
        });
    }
    match card.wpr2()? {
        None => Ok(()),
        Some((lo, hi)) => Err(Cause::Stays {
            what: "booter_unload",
            lo,
            hi,
        }),
    }
}
