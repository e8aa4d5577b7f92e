//! The security processor (PSP): it verifies all firmware of the card.
//!
//! 1. Its bootloader takes its own drivers and its secure OS, part by part: `PARTS`.
//! 2. The secure OS takes commands from a ring: the table of contents, firmware of power management, the trusted memory
//!    region (TMR), firmware of all other blocks, and the command to start them by the RLC; on MI300 the list of
//!    registers instead, and the command that makes all XCCs one GPU.
//!
//! It reads from VRAM only, at addresses of VMID 0. The host data path is flushed before each command.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: psp_v13_0.c, psp_v14_0.c (mailboxes, waits), amdgpu_psp.c
//! (`psp_hw_start`, `psp_load_non_psp_fw`, `psp_ring_cmd_submit`, `psp_cmd_submit_buf`, `psp_tmr_init`,
//! `psp_spatial_partition`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::fw_type::{GfxFwType, PspFwType};
use drivers_spec::amd::mmio::{Reg, mp as regs};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use drivers_spec::amd::psp::{
    ALIGN, BOOTLOADER_ALIGN, CmdResp, LoadIpFw, LoadToc, RbFrame, Resp, SetupTmr, SpatialPart,
    TMR_VIRT_PHY_ADDR, bl, cmd, ctrl,
};
use firmware_tools::amd::boot::{Boot, Load};
use hcq::mem::window::Window;
use hcq::reg::block::Registers;
use hcq::reg::{IpVersion, Value};
use hcq::sync::lock;
use hcq::wait::{Look, poll_until};
use zerocopy::{FromZeros, IntoBytes};

use super::areas::{Area, PSP_COMMAND, PSP_FENCE, PSP_FIRMWARE, PSP_RING};
use super::card::Card;
use super::error::Cause;
use super::hub::Hubs;

/// How long a part, or a command, may take.
const DONE: Duration = Duration::from_secs(10);
/// What the vendor's driver waits after some commands, "there might be handshake issue with hardware".
const HANDSHAKE: Duration = Duration::from_millis(20);
/// `PSP_TMR_SIZE`: the size of the trusted memory without a table.
const TMR_BYTES: u64 = 4 << 20;
/// Dwords of a frame: what the write pointer counts in.
const FRAME: u32 = size_of::<RbFrame>() as u32 / 4;
const RING: u32 = PSP_RING.bytes as u32 / 4;

/// The parts for the bootloader, in order: parts that are not in the file are not for this chip.
const PARTS: [(PspFwType, u32); 9] = [
    (PspFwType::PSP_KDB, bl::LOAD_KEY_DATABASE),
    (PspFwType::PSP_SPL, bl::LOAD_TOS_SPL_TABLE),
    (PspFwType::PSP_SYS_DRV, bl::LOAD_SYSDRV),
    (PspFwType::PSP_SOC_DRV, bl::LOAD_SOCDRV),
    (PspFwType::PSP_INTF_DRV, bl::LOAD_INTFDRV),
    (PspFwType::PSP_DBG_DRV, bl::LOAD_DBGDRV),
    (PspFwType::PSP_RAS_DRV, bl::LOAD_RASDRV),
    (PspFwType::PSP_IPKEYMGR_DRV, bl::LOAD_IPKEYMGRDRV),
    (PspFwType::PSP_SOS, bl::LOAD_SOSDRV),
];

/// Whose memory the PSP keeps things in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trusted {
    /// The driver gives it.
    Given,
    /// The card's own firmware has reserved it; no command is needed.
    Own,
    /// The same, and it wants to be asked.
    OwnAsked,
}

/// The security processor of a card.
pub struct Psp {
    card: Arc<Card>,
    hubs: Arc<Hubs>,
    version: IpVersion,
    turn: Mutex<Turn>,
}

/// Memory shared by commands.
struct Turn {
    /// The last value of the fence.
    fence: u32,
    /// How much of the memory for firmware is not zero.
    used: u64,
}

impl Psp {
    /// That of a card.
    ///
    /// # Errors
    /// [`Cause::Discovery`].
    pub fn of(card: &Arc<Card>, hubs: &Arc<Hubs>) -> Result<Psp, Cause> {
        Ok(Psp {
            card: card.clone(),
            hubs: hubs.clone(),
            version: card.discovery().first(ip::MP0)?.version,
            turn: Mutex::new(Turn {
                fence: 0,
                used: PSP_FIRMWARE.bytes,
            }),
        })
    }

    fn io(&self) -> Registers<'_, Gfxs> {
        self.card.registers(&self.card.blocks().mp0)
    }

    fn window(&self, area: Area) -> Result<Window, Cause> {
        Ok(self.card.vram().sub(area.at.0, area.bytes)?)
    }

    /// Whether the secure OS runs: by this driver, or by another.
    ///
    /// # Errors
    /// The register's.
    pub fn is_alive(&self) -> Result<bool, Cause> {
        Ok(self.io().read(&regs::MP0_SMN_C2PMSG_81)?.bits() != 0)
    }

    /// Makes the PSP run, and through it everything else.
    ///
    /// # Errors
    /// The registers', [`Cause::Psp`], [`Cause::Large`], [`Cause::Part`], [`Cause::Waited`].
    pub fn start(&self, boot: &Boot<'_>) -> Result<(), Cause> {
        if !self.is_alive()? {
            for (part, command) in PARTS {
                self.part(boot, part, command)?;
            }
        }
        self.ring()?;
        let tmr = self.contents(boot)?;
        // On others it runs since the card has power, and what else its file has comes like the rest.
        let own = self.card.gfx() == Gfx::Gfx9;
        if own {
            self.trusted(tmr)?;
        }
        let first = boot.first.iter();
        let first = first.filter(|load| !(own && load.id == GfxFwType::SMU));
        first.copied().try_for_each(|load| self.load(load))?;
        if !own {
            self.trusted(tmr)?;
        }
        boot.rest
            .iter()
            .copied()
            .try_for_each(|load| self.load(load))?;
        self.go(boot)
    }

    /// Hands one part to the bootloader.
    fn part(&self, boot: &Boot<'_>, part: PspFwType, command: u32) -> Result<(), Cause> {
        // Version 13 has no patch levels of its own, and wants the keys again.
        let source = match part {
            PspFwType::PSP_SPL if self.version.0 == 13 => PspFwType::PSP_KDB,
            part => part,
        };
        let name = part.name().unwrap_or("part");
        let Some(found) = boot.psp(source, false) else {
            return match part {
                PspFwType::PSP_SYS_DRV | PspFwType::PSP_SOS => Err(Cause::Part { what: name }),
                _ => Ok(()),
            };
        };
        tracing::debug!(target: "hcq::amd::psp", part = name, bytes = found.bytes.len(), "bootloader");
        self.bootloader("bootloader ready")?;
        self.stage(name, found.bytes)?;
        let io = self.io();
        let at = self.hubs.mc(PSP_FIRMWARE.at);
        io.write(&regs::MP0_SMN_C2PMSG_36, (at / BOOTLOADER_ALIGN) as u32)?;
        io.write(&regs::MP0_SMN_C2PMSG_35, command)?;
        if part != PspFwType::PSP_SOS {
            return self.bootloader(&format!("bootloader load of {name}"));
        }
        let clock = &**self.card.clock();
        self.card.rest(HANDSHAKE)?;
        let what = "the secure OS to start";
        let alive = |value: Value<Gfxs>| value.bits() != 0;
        let limit = self.card.within(DONE);
        io.poll(&regs::MP0_SMN_C2PMSG_81, clock, limit, what, alive)?;
        Ok(())
    }

    /// Waits until the bootloader accepts the next command; checks the status of the previous one.
    fn bootloader(&self, what: &str) -> Result<(), Cause> {
        let status = self.done(&regs::MP0_SMN_C2PMSG_35, what)?;
        succeeded(what, &regs::MP0_SMN_C2PMSG_35, status)
    }

    fn done(&self, register: &Reg, what: &str) -> Result<u32, Cause> {
        let clock = &**self.card.clock();
        let done = |value: Value<Gfxs>| value.bits() & ctrl::RESPONSE != 0;
        let limit = self.card.within(DONE);
        let value = self.io().poll(register, clock, limit, what, done)?;
        Ok(value.bits())
    }

    /// Copies firmware to the staging memory, padded with zeros.
    fn stage(&self, what: &str, bytes: &[u8]) -> Result<(), Cause> {
        let window = self.window(PSP_FIRMWARE)?;
        let length = bytes.len() as u64;
        if length > window.len() {
            return Err(Cause::Large {
                what: what.to_owned(),
                bytes: length,
                room: window.len(),
            });
        }
        let mut turn = lock(&self.turn);
        window.write_bytes(0, bytes)?;
        if turn.used > length {
            window.fill(length, turn.used - length, 0)?;
        }
        turn.used = length;
        Ok(self.hubs.hdp().flush()?)
    }

    /// Gives the secure OS a ring. It forgets that of an earlier driver.
    fn ring(&self) -> Result<(), Cause> {
        let io = self.io();
        for area in [PSP_RING, PSP_COMMAND, PSP_FENCE] {
            self.window(area)?.fill(0, area.bytes, 0)?;
        }
        self.hubs.hdp().flush()?;
        if io.read(&regs::MP0_SMN_C2PMSG_71)?.bits() != 0 {
            io.write(&regs::MP0_SMN_C2PMSG_64, ctrl::DESTROY_RINGS)?;
            self.card.rest(HANDSHAKE)?;
        }
        self.done(&regs::MP0_SMN_C2PMSG_64, "secure OS ready for a ring")?;
        let at = self.hubs.mc(PSP_RING.at);
        io.write(&regs::MP0_SMN_C2PMSG_69, at as u32)?;
        io.write(&regs::MP0_SMN_C2PMSG_70, (at >> 32) as u32)?;
        io.write(&regs::MP0_SMN_C2PMSG_71, PSP_RING.bytes as u32)?;
        io.write(&regs::MP0_SMN_C2PMSG_64, ctrl::INIT_GPCOM_RING)?;
        self.card.rest(HANDSHAKE)?;
        let what = "ring setup";
        let status = self.done(&regs::MP0_SMN_C2PMSG_64, what)?;
        let said = status & (ctrl::RESPONSE | ctrl::STATUS);
        succeeded(what, &regs::MP0_SMN_C2PMSG_64, said)
    }

    /// Gives it the table of contents, if there is one; returns how much trusted memory it wants.
    fn contents(&self, boot: &Boot<'_>) -> Result<u64, Cause> {
        let Some(toc) = boot.psp(PspFwType::PSP_TOC, false) else {
            return Ok(TMR_BYTES);
        };
        self.stage("the table of contents", toc.bytes)?;
        let (lo, hi) = self.staged();
        let payload = LoadToc {
            toc_phy_addr_lo: lo.into(),
            toc_phy_addr_hi: hi.into(),
            toc_size: (toc.bytes.len() as u32).into(),
        };
        let response = self.submit("LOAD_TOC", cmd::LOAD_TOC, payload.as_bytes())?;
        Ok(response.tmr_size.get().into())
    }

    fn staged(&self) -> (u32, u32) {
        let at = self.hubs.mc(PSP_FIRMWARE.at);
        (at as u32, (at >> 32) as u32)
    }

    /// Loads firmware of a block.
    fn load(&self, load: Load<'_>) -> Result<(), Cause> {
        let name = load.id.name();
        let name = name.map_or_else(|| format!("firmware {}", load.id.0), str::to_owned);
        tracing::debug!(target: "hcq::amd::psp", firmware = name, bytes = load.bytes.len(), "LOAD_IP_FW");
        self.stage(&name, load.bytes)?;
        let (lo, hi) = self.staged();
        let payload = LoadIpFw {
            fw_phy_addr_lo: lo.into(),
            fw_phy_addr_hi: hi.into(),
            fw_size: (load.bytes.len() as u32).into(),
            fw_type: load.id.0.into(),
        };
        let what = format!("LOAD_IP_FW of {name}");
        self.submit(&what, cmd::LOAD_IP_FW, payload.as_bytes())?;
        Ok(())
    }

    fn trusted_by(&self) -> Trusted {
        match self.version {
            IpVersion(13, 0, 6 | 14) => Trusted::OwnAsked,
            IpVersion(14, _, _) => Trusted::Own,
            _ => Trusted::Given,
        }
    }

    /// Sets up the trusted memory region.
    fn trusted(&self, bytes: u64) -> Result<(), Cause> {
        let mut payload = SetupTmr::new_zeroed();
        match self.trusted_by() {
            Trusted::Own => return Ok(()),
            Trusted::OwnAsked => {}
            Trusted::Given => {
                let bytes = bytes.next_multiple_of(ALIGN);
                let tmr = self.card.areas().tmr;
                if bytes > tmr.bytes {
                    return Err(Cause::Large {
                        what: "the trusted memory (TMR) requested by the TOC".into(),
                        bytes,
                        room: tmr.bytes,
                    });
                }
                let at = self.hubs.mc(tmr.at);
                payload.buf_phy_addr_lo = (at as u32).into();
                payload.buf_phy_addr_hi = ((at >> 32) as u32).into();
                payload.buf_size = (bytes as u32).into();
                payload.tmr_flags = TMR_VIRT_PHY_ADDR.into();
                payload.system_phy_addr_lo = tmr.at.lo().into();
                payload.system_phy_addr_hi = tmr.at.hi().into();
            }
        }
        self.submit("SETUP_TMR", cmd::SETUP_TMR, payload.as_bytes())?;
        Ok(())
    }

    /// Starts the loaded firmware.
    fn go(&self, boot: &Boot<'_>) -> Result<(), Cause> {
        if self.card.gfx() != Gfx::Gfx9 {
            self.submit("AUTOLOAD_RLC", cmd::AUTOLOAD_RLC, &[])?;
            return Ok(());
        }
        match boot.psp(PspFwType::PSP_RL, false) {
            Some(list) => self.load(Load {
                id: GfxFwType::REG_LIST,
                bytes: list.bytes,
            })?,
            None => return Err(Cause::Part { what: "PSP_RL" }),
        }
        self.unite()
    }

    /// Makes all XCCs of MI300 one GPU, whatever the earlier partition.
    fn unite(&self) -> Result<(), Cause> {
        if self.card.blocks().gc.len() > 1 {
            let mut payload = SpatialPart::new_zeroed();
            payload.mode = 1.into();
            self.submit("SPATIAL_PART", cmd::SPATIAL_PART, payload.as_bytes())?;
        }
        Ok(())
    }

    /// Runs a command of the ring.
    fn submit(&self, what: &str, id: u32, payload: &[u8]) -> Result<Resp, Cause> {
        let mut turn = lock(&self.turn);
        let (ring, command, fence) = (
            self.window(PSP_RING)?,
            self.window(PSP_COMMAND)?,
            self.window(PSP_FENCE)?,
        );
        let io = self.io();
        let wptr = io.read(&regs::MP0_SMN_C2PMSG_67)?.bits();
        if wptr >= RING || !wptr.is_multiple_of(FRAME) {
            return Err(Cause::Psp {
                what: what.to_owned(),
                register: "ring write pointer MP0_SMN_C2PMSG_67",
                status: wptr,
                expected: wptr / FRAME % (RING / FRAME) * FRAME,
            });
        }
        turn.fence = turn.fence.wrapping_add(1);
        let mut buffer = CmdResp::new_zeroed();
        buffer.cmd_id = id.into();
        buffer.cmd[..payload.len()].copy_from_slice(payload);
        command.write_bytes(0, buffer.as_bytes())?;
        let mut frame = RbFrame::new_zeroed();
        let at = self.hubs.mc(PSP_COMMAND.at);
        frame.cmd_buf_addr_lo = (at as u32).into();
        frame.cmd_buf_addr_hi = ((at >> 32) as u32).into();
        let at = self.hubs.mc(PSP_FENCE.at);
        frame.fence_addr_lo = (at as u32).into();
        frame.fence_addr_hi = ((at >> 32) as u32).into();
        frame.fence_value = turn.fence.into();
        ring.write_bytes(u64::from(wptr) * 4, frame.as_bytes())?;
        self.hubs.hdp().flush()?;
        io.write(&regs::MP0_SMN_C2PMSG_67, (wptr + FRAME) % RING)?;
        let limit = self.card.within(DONE);
        poll_until(&**self.card.clock(), limit, &format!("PSP: {what}"), || {
            let seen: u32 = fence.load(0)?;
            Ok::<_, Cause>(match seen == turn.fence {
                true => Look::Done(()),
                false => Look::Not(seen.into()),
            })
        })?;
        let mut response = Resp::new_zeroed();
        let at = std::mem::offset_of!(CmdResp, resp) as u64;
        command.read_bytes(at, response.as_mut_bytes())?;
        match response.status.get() {
            0 => Ok(response),
            status => Err(Cause::Psp {
                what: what.to_owned(),
                register: "response status",
                status,
                expected: 0,
            }),
        }
    }
}

/// The value of a mailbox after completion: the flag, without a status.
fn succeeded(what: &str, register: &Reg, said: u32) -> Result<(), Cause> {
    match said {
        ctrl::RESPONSE => Ok(()),
        status => Err(Cause::Psp {
            what: what.to_owned(),
            register: register.word.name,
            status,
            expected: ctrl::RESPONSE,
        }),
    }
}
