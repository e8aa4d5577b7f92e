//! [`Falcon`]: a processor of the card that runs NVIDIA's signed microcode: GSP's own, and SEC2's. Each may be a
//! falcon or a RISC-V core, one at a time.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu: falcon/arch/{turing,ampere}/kernel_falcon_{tu102,
//! ga102}.c, gsp/arch/turing/kernel_gsp_tu102.c (`kgspResetHw_TU102`), gsp/arch/ampere/kernel_gsp_falcon_ga102.c
//! (`kgspExecuteHsFalcon_GA102`), gsp/arch/hopper/kernel_gsp_gh100.c (`_kgspLockdownReleasedOrFmcError`).

use std::ops::Range;
use std::time::Duration;

use drivers_spec::nv::chip::Archs;
use drivers_spec::nv::mmio::falcon::{self as regs, BLOCK, bcr, cpuctl, dmatrfcmd, hwcfg2};
use drivers_spec::nv::mmio::{self, PRI_ERROR, PRI_ERROR_MASK};
use drivers_spec::nv::vbios::FalconUcodeDescV3;
use firmware_tools::nv::booter::Booter;
use firmware_tools::nv::vbios::fwsec::{Command, Descriptor, Fwsec};
use hcq::addr::BusAddr;
use hcq::reg::Value;
use hcq::reg::block::{Block, Registers};
use hcq::reg::error::RegFault;
use hcq::wait::{Look, poll_until};

use super::card::{Card, block};
use super::error::Cause;
use super::flush::within;

/// How long a falcon may take to be ready for a reset. The vendor's driver goes on then: the bit "sometimes may not get
/// set".
const READY: Duration = Duration::from_micros(150);
/// Reads after each write of the reset, for the signal to propagate (`FLCN_RESET_PROPAGATION_DELAY_COUNT`).
const PROPAGATION: usize = 10;
/// How long everything else may take: the vendor's limit for a GPU that computes.
const LIMIT: Duration = Duration::from_secs(4);

/// Where offsets in a falcon end, of 24 bits (`DMATRFMOFFS_OFFS`).
const OFFSETS: u64 = 1 << 24;
/// Bits of a bus address that a falcon takes (`DMATRFBASE`, `DMATRFBASE1`).
const ADDRESS: u32 = 49;

/// Microcode that a falcon's boot ROM verifies, signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Microcode {
    /// Its name, for messages.
    pub name: &'static str,
    /// All of it.
    pub bytes: Vec<u8>,
    /// Its code, in the bytes.
    pub code: Range<usize>,
    /// Its data, in the bytes.
    pub data: Range<usize>,
    /// Where the code is loaded to.
    pub imem: u32,
    /// The virtual address of its code, where it starts.
    pub start: u32,
    /// Where the data is loaded to.
    pub dmem: u32,
    /// Where in the data the signature is.
    pub signature: u32,
    /// The falcons that may run it.
    pub engines: u32,
    /// Which fuse it is held against.
    pub ucode: u32,
}

impl Microcode {
    /// FWSEC with a command, for a chip by its fuse.
    ///
    /// # Errors
    /// [`Cause::Files`]; [`Cause::Contents`] for an older kind, which needs a boot loader.
    pub(super) fn fwsec(
        fwsec: &Fwsec<'_>,
        command: Command,
        fuse: u32,
    ) -> Result<Microcode, Cause> {
        let descriptor = descriptor(fwsec)?;
        let code = Microcode {
            name: match command {
                Command::Frts { .. } => "FWSEC FRTS",
                Command::Sb => "FWSEC SB",
            },
            bytes: fwsec.prepared(command, fuse)?,
            code: fwsec.secure.clone(),
            data: fwsec.data.clone(),
            imem: descriptor.imem_phys_base.get(),
            start: descriptor.imem_virt_base.get(),
            dmem: descriptor.dmem_phys_base.get(),
            signature: descriptor.pkc_data_offset.get(),
            engines: descriptor.engine_id_mask.get().into(),
            ucode: descriptor.ucode_id.into(),
        };
        code.checked()
    }

    /// A booter, for a chip by its fuse.
    ///
    /// # Errors
    /// [`Cause::Files`]; [`Cause::Contents`] for one with several apps.
    pub(super) fn booter(
        name: &'static str,
        booter: &Booter<'_>,
        fuse: u32,
    ) -> Result<Microcode, Cause> {
        let [code] = &booter.apps[..] else {
            return Err(Cause::Contents {
                file: name.into(),
                what: format!("it has {} apps, expected 1", booter.apps.len()),
            });
        };
        let code = Microcode {
            name,
            bytes: booter.signed(fuse)?,
            code: code.clone(),
            data: booter.data.clone(),
            imem: 0,
            // Its addresses are those in the image.
            start: code.start as u32,
            dmem: 0,
            signature: booter.signature_in_data() as u32,
            engines: booter.engine_id,
            ucode: booter.ucode_id,
        };
        code.checked()
    }

    /// The same, where a falcon can load it: in blocks of 256 bytes, to offsets of 24 bits.
    fn checked(self) -> Result<Microcode, Cause> {
        let wrong = |what: &str, found: u64, expected: &str| Cause::Contents {
            file: self.name.into(),
            what: format!("{what} is {found:#x}, expected {expected}"),
        };
        for (what, range, to) in [
            ("the offset of its code", &self.code, self.imem),
            ("the virtual address of its code", &self.code, self.start),
            ("the offset of its data", &self.data, self.dmem),
        ] {
            for at in [u64::from(to), range.start as u64] {
                if !at.is_multiple_of(BLOCK.into()) {
                    return Err(wrong(what, at, "a multiple of 256"));
                }
            }
            let end = u64::from(to) + (range.len() as u64).next_multiple_of(BLOCK.into());
            if end > OFFSETS {
                return Err(wrong(what, to.into(), "an end of at most 0x1000000"));
            }
        }
        Ok(self)
    }
}

/// FWSEC's descriptor.
///
/// # Errors
/// [`Cause::Contents`] for an older kind, which needs a boot loader.
pub(super) fn descriptor<'f>(fwsec: &'f Fwsec<'_>) -> Result<&'f FalconUcodeDescV3, Cause> {
    match &fwsec.descriptor {
        Descriptor::V3(descriptor) => Ok(descriptor),
        Descriptor::V2(_) => Err(Cause::Contents {
            file: "VBIOS".into(),
            what: "FWSEC has a descriptor of version 2 (Turing), expected version 3".into(),
        }),
    }
}

/// A falcon of a card.
pub(super) struct Falcon<'a> {
    card: &'a Card,
    parts: regs::Falcon,
    block: Block<Archs>,
}

impl<'a> Falcon<'a> {
    /// One of a card.
    pub(super) fn of(card: &'a Card, parts: regs::Falcon) -> Falcon<'a> {
        Falcon {
            card,
            parts,
            block: block(parts.name, card.arch()),
        }
    }

    fn io(&self) -> Registers<'_, Archs> {
        self.block.on(self.card.bus()).step(self.parts.base / 4)
    }

    fn fbif(&self) -> Registers<'_, Archs> {
        self.block.on(self.card.bus()).step(self.parts.fbif / 4)
    }

    fn second(&self) -> Registers<'_, Archs> {
        self.block.on(self.card.bus()).step(self.parts.second / 4)
    }

    /// Waits for a register of the first part.
    fn wait(
        &self,
        register: &mmio::Reg,
        what: &str,
        done: impl FnMut(Value<Archs>) -> bool,
    ) -> Result<(), Cause> {
        let limit = self.card.within(LIMIT);
        self.io()
            .poll(register, self.card.clock(), limit, what, done)?;
        Ok(())
    }

    /// Resets it. It is a falcon then, halted, with empty memories.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn reset(&self) -> Result<(), Cause> {
        self.reset_hardware()?;
        self.switch_to_falcon()?;
        let chip = self.card.io().read(&mmio::NV_PMC_BOOT_0)?.bits();
        Ok(self.io().write(&regs::NV_PFALCON_FALCON_RM, chip)?)
    }

    /// Resets it. Its RISC-V core is selected then, and fetches from its boot ROM when it is started.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn reset_into_riscv(&self) -> Result<(), Cause> {
        self.reset_hardware()?;
        let select = bcr::CORE_SELECT.put(bcr::CORE_SELECT_RISCV);
        let bits = select | bcr::VALID.put(1) | bcr::BRFETCH.put(1);
        Ok(self.second().write(&regs::NV_PRISCV_RISCV_BCR_CTRL, bits)?)
    }

    fn reset_hardware(&self) -> Result<(), Cause> {
        let io = self.io();
        let ready = io.poll(
            &regs::NV_PFALCON_FALCON_HWCFG2,
            self.card.clock(),
            self.card.within(READY),
            "the falcon to be ready for a reset",
            |value| value.get(hwcfg2::RESET_READY) == 1,
        );
        match ready {
            Err(error) if matches!(*error.fault, RegFault::Timeout { .. }) => {
                tracing::debug!(target: "hcq::nv::falcon", %error, "falcon not ready for reset: resetting it anyway");
            }
            ready => {
                ready?;
            }
        }
        for reset in [1, 0] {
            io.update(&regs::NV_PFALCON_FALCON_ENGINE, |value| {
                value.with(regs::engine::RESET, reset)
            })?;
            for _ in 0..PROPAGATION {
                io.read(&regs::NV_PFALCON_FALCON_ENGINE)?;
            }
        }
        let what = "the falcon's memories to be cleared after its reset";
        self.wait(&regs::NV_PFALCON_FALCON_HWCFG2, what, |value| {
            value.get(hwcfg2::MEM_SCRUBBING) == 0
        })
    }

    fn switch_to_falcon(&self) -> Result<(), Cause> {
        let has_riscv = self.io().read(&regs::NV_PFALCON_FALCON_HWCFG2)?;
        if has_riscv.get(hwcfg2::RISCV) == 0 {
            return Ok(());
        }
        let second = self.second();
        let control = second.read(&regs::NV_PRISCV_RISCV_BCR_CTRL)?;
        if control.get(bcr::CORE_SELECT) != bcr::CORE_SELECT_RISCV {
            return Ok(());
        }
        second.write(&regs::NV_PRISCV_RISCV_BCR_CTRL, 0)?;
        second.poll(
            &regs::NV_PRISCV_RISCV_BCR_CTRL,
            self.card.clock(),
            self.card.within(LIMIT),
            "the falcon's core to be selected",
            |value| value.get(bcr::VALID) == 1,
        )?;
        Ok(())
    }

    /// Whether it has a RISC-V core.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn has_riscv(&self) -> Result<bool, Cause> {
        let value = self.io().read(&regs::NV_PFALCON_FALCON_HWCFG2)?;
        Ok(value.get(hwcfg2::RISCV) == 1)
    }

    /// Lets it access memory of the host by bus addresses.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn allow_physical(&self) -> Result<(), Cause> {
        self.fbif().update(&regs::NV_PFALCON_FBIF_CTL, |value| {
            value.with(regs::fbif_ctl::ALLOW_PHYS_NO_CTX, 1)
        })?;
        Ok(self.io().write(&regs::NV_PFALCON_FALCON_DMACTL, 0)?)
    }

    /// Runs microcode until it halts, after a [reset](Self::reset). [`Microcode::bytes`] are at `at`, a multiple of 256;
    /// `mailboxes` is its argument. Returns them as it left them.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn run(
        &self,
        code: &Microcode,
        at: BusAddr,
        mailboxes: Option<[u32; 2]>,
    ) -> Result<[u32; 2], Cause> {
        tracing::debug!(target: "hcq::nv::falcon", falcon = self.parts.name, code = code.name, "run");
        self.allow_physical()?;
        self.load(code, at)?;
        let second = self.second();
        second.write(&regs::NV_PFALCON2_FALCON_BROM_PARAADDR, code.signature)?;
        second.write(&regs::NV_PFALCON2_FALCON_BROM_ENGIDMASK, code.engines)?;
        second.write(&regs::NV_PFALCON2_FALCON_BROM_CURR_UCODE_ID, code.ucode)?;
        let rsa = regs::mod_sel::ALGO.put(regs::mod_sel::ALGO_RSA3K);
        second.write(&regs::NV_PFALCON2_FALCON_MOD_SEL, rsa)?;
        let io = self.io();
        io.write(&regs::NV_PFALCON_FALCON_BOOTVEC, code.start)?;
        if let Some(argument) = mailboxes {
            self.set_mailboxes(argument)?;
        }
        self.start()?;
        self.wait_halt(code.name)?;
        self.mailboxes()
    }

    /// Starts its falcon.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn start(&self) -> Result<(), Cause> {
        let io = self.io();
        // What has privilege lets others start it by the alias alone.
        let control = io.read(&regs::NV_PFALCON_FALCON_CPUCTL)?;
        match control.get(cpuctl::ALIAS_EN) {
            1 => {
                let start = regs::cpuctl_alias::STARTCPU.put(1);
                io.write(&regs::NV_PFALCON_FALCON_CPUCTL_ALIAS, start)?;
            }
            _ => io.write(&regs::NV_PFALCON_FALCON_CPUCTL, cpuctl::STARTCPU.put(1))?,
        }
        Ok(())
    }

    /// Waits until its falcon has halted.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn wait_halt(&self, what: &str) -> Result<(), Cause> {
        let what = format!("{what} to halt");
        self.wait(&regs::NV_PFALCON_FALCON_CPUCTL, &what, |value| {
            value.get(cpuctl::HALTED) == 1
        })
    }

    /// Both mailboxes.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn mailboxes(&self) -> Result<[u32; 2], Cause> {
        let io = self.io();
        let first = io.read(&regs::NV_PFALCON_FALCON_MAILBOX0)?.bits();
        let second = io.read(&regs::NV_PFALCON_FALCON_MAILBOX1)?.bits();
        Ok([first, second])
    }

    /// Writes both mailboxes.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn set_mailboxes(&self, [first, second]: [u32; 2]) -> Result<(), Cause> {
        let io = self.io();
        io.write(&regs::NV_PFALCON_FALCON_MAILBOX0, first)?;
        Ok(io.write(&regs::NV_PFALCON_FALCON_MAILBOX1, second)?)
    }

    /// Waits until it has put this into its first mailbox.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn wait_mailbox(&self, what: &str, expected: u32) -> Result<(), Cause> {
        self.wait(&regs::NV_PFALCON_FALCON_MAILBOX0, what, |value| {
            value.bits() == expected
        })
    }

    /// Tells who looks which version its RISC-V core runs.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn set_version(&self, version: u32) -> Result<(), Cause> {
        Ok(self.io().write(&regs::NV_PFALCON_FALCON_OS, version)?)
    }

    /// The state of its RISC-V core, and whether it runs.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn riscv(&self) -> Result<(u32, bool), Cause> {
        let value = self.second().read(&regs::NV_PRISCV_RISCV_CPUCTL)?;
        let is_active = value.get(regs::riscv_cpuctl::ACTIVE_STAT) == 1;
        let is_readable = value.bits() & PRI_ERROR_MASK != PRI_ERROR;
        Ok((value.bits(), is_active && is_readable))
    }

    /// The state of its RISC-V core where it runs, and has not halted.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn running(&self) -> Result<Option<u32>, Cause> {
        let (state, is_active) = self.riscv()?;
        let runs = is_active && regs::riscv_cpuctl::HALTED.get(state) == 0;
        Ok(runs.then_some(state))
    }

    /// Waits until GSP lets the host look at it, or has put an error into its first mailbox in place of its argument. The FSP
    /// keeps its registers to itself before: reads are refused then.
    ///
    /// # Errors
    /// The registers'.
    pub(super) fn wait_unlocked(&self, arguments: [u32; 2]) -> Result<(), Cause> {
        let (clock, deadline) = (self.card.clock(), self.card.within(LIMIT));
        let what = "GSP to be started by its FMC, and its registers to be readable";
        poll_until(clock, deadline, what, || {
            let state = self.io().read(&regs::NV_PFALCON_FALCON_HWCFG2)?;
            let not = Ok::<_, Cause>(Look::Not(state.bits().into()));
            if state.bits() & PRI_ERROR_MASK == PRI_ERROR || state.bits() == 0 {
                return not;
            }
            // The FMC has not read its argument yet: whatever else there is, is of before.
            let mailboxes = self.mailboxes()?;
            if mailboxes[0] != 0 && mailboxes == arguments {
                return not;
            }
            match state.get(hwcfg2::RISCV_BR_PRIV_LOCKDOWN) == 0 || mailboxes[0] != 0 {
                true => Ok(Look::Done(())),
                false => not,
            }
        })
    }

    /// Waits until its RISC-V core has halted.
    ///
    /// # Errors
    /// The register's.
    pub(super) fn wait_riscv_halt(&self) -> Result<(), Cause> {
        self.second().poll(
            &regs::NV_PRISCV_RISCV_CPUCTL,
            self.card.clock(),
            self.card.within(LIMIT),
            "GSP's RISC-V core to halt",
            |value| value.get(regs::riscv_cpuctl::HALTED) == 1,
        )?;
        Ok(())
    }

    fn load(&self, code: &Microcode, at: BusAddr) -> Result<(), Cause> {
        within(
            code.name,
            BusAddr(at.0.saturating_add(code.bytes.len() as u64)),
            ADDRESS,
        )?;
        self.fbif()
            .update(&regs::NV_PFALCON_FBIF_TRANSCFG, |value| {
                let target = regs::transcfg::TARGET_COHERENT_SYSMEM;
                let kind = regs::transcfg::MEM_TYPE_PHYSICAL;
                let value = value.with(regs::transcfg::TARGET, target);
                value.with(regs::transcfg::MEM_TYPE, kind)
            })?;
        let size = dmatrfcmd::SIZE.put(dmatrfcmd::SIZE_256B);
        let secure = size | dmatrfcmd::IMEM.put(1) | dmatrfcmd::SEC.put(1);
        // The offset in memory is the virtual address, too: memory starts as much before the code.
        let before = u64::from(code.start);
        let from = (at.0 + code.code.start as u64).checked_sub(before);
        let from = from.ok_or_else(|| Cause::Contents {
            file: code.name.into(),
            what: format!(
                "the virtual address of its code is {before:#x}, expected at most {:#x}, where it is on the bus",
                at.0
            ),
        })?;
        self.transfer(from, (code.imem, code.start), code.code.len(), secure)?;
        let from = at.0 + code.data.start as u64;
        self.transfer(from, (code.dmem, 0), code.data.len(), size)
    }

    /// Has it copy from memory of the host, a block after the other.
    fn transfer(
        &self,
        from: u64,
        (to, first): (u32, u32),
        bytes: usize,
        command: u32,
    ) -> Result<(), Cause> {
        let io = self.io();
        let has_room = |value: Value<Archs>| value.get(dmatrfcmd::FULL) == 0;
        let room = || {
            let what = "room for another DMA request of the falcon";
            self.wait(&regs::NV_PFALCON_FALCON_DMATRFCMD, what, has_room)
        };
        // A base that is written while the queue is full spoils what is in it.
        room()?;
        io.write(&regs::NV_PFALCON_FALCON_DMATRFBASE, (from >> 8) as u32)?;
        let high = regs::dmatrfbase1::BASE.put((from >> 40) as u32);
        io.write(&regs::NV_PFALCON_FALCON_DMATRFBASE1, high)?;
        for done in (0..bytes as u32).step_by(BLOCK as usize) {
            room()?;
            let offset = regs::dmatrfmoffs::OFFS.put(to + done);
            io.write(&regs::NV_PFALCON_FALCON_DMATRFMOFFS, offset)?;
            io.write(&regs::NV_PFALCON_FALCON_DMATRFFBOFFS, first + done)?;
            io.write(&regs::NV_PFALCON_FALCON_DMATRFCMD, command)?;
        }
        // Requests to the two memories may overtake each other.
        let what = "the falcon's DMA to finish";
        self.wait(&regs::NV_PFALCON_FALCON_DMATRFCMD, what, |value| {
            value.get(dmatrfcmd::IDLE) == 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Microcode = Microcode {
        name: "FWSEC FRTS",
        bytes: Vec::new(),
        code: 0..0x300,
        data: 0x300..0x500,
        imem: 0,
        start: 0x100,
        dmem: 0,
        signature: 0x10,
        engines: 0x400,
        ucode: 9,
    };

    #[test]
    fn microcode_that_a_falcon_cannot_load_is_refused() {
        assert_eq!(GOOD.checked().unwrap(), GOOD);
        let most = Microcode {
            imem: 0xff_fd00,
            ..GOOD
        };
        assert!(most.checked().is_ok());
        for (code, text) in [
            (
                Microcode {
                    imem: 0xff_fe00,
                    ..GOOD
                },
                "the offset of its code is 0xfffe00, expected an end of",
            ),
            (
                Microcode {
                    imem: u32::MAX - 255,
                    ..GOOD
                },
                "the offset of its code is 0xffffff00, expected an end of",
            ),
            (
                Microcode {
                    start: 0x180,
                    ..GOOD
                },
                "the virtual address of its code is 0x180, expected a multiple of 256",
            ),
            (
                Microcode {
                    data: 0x340..0x500,
                    ..GOOD
                },
                "the offset of its data is 0x340, expected a multiple of 256",
            ),
            (
                Microcode {
                    dmem: 0x8000_0000,
                    ..GOOD
                },
                "the offset of its data is 0x80000000",
            ),
        ] {
            let error = code.checked().unwrap_err().to_string();
            assert!(error.starts_with("FWSEC FRTS: "), "{error}");
            assert!(error.contains(text), "{error}");
        }
    }
}
