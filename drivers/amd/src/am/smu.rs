//! Power management (SMU): messages, frequencies, measurements, and the reset of the whole chip.
//!
//! A message is a number and an argument in two mailboxes; a third has the status. The driver is the only sender while it
//! has the card.
//!
//! Source: Linux, drivers/gpu/drm/amd/pm/swsmu: smu_cmn.c (`smu_cmn_send_smc_msg_with_param`), smu_v14_0_2_ppt.c and
//! smu_v13_0_0_ppt.c (`mode1_reset`, `get_gpu_metrics`), smu_v13_0_6_ppt.c (`get_metrics_table`), smu_v14_0.c (`set_soft_freq_limited_range`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::mp as regs;
use drivers_spec::amd::packet::{Gfx, Gfxs};
use drivers_spec::amd::smu::{
    Clocks, DEBUG_MODE1_RESET, DPM_COUNT, DPM_FINE, INSTINCT, INSTINCT_CLOCKS, InstinctLayout,
    METRICS_13, METRICS_13_0_6, METRICS_14, Messages, NAVI, NAVI_CLOCKS, TABLE_SMU_METRICS, result,
};
use hcq::reg::block::Registers;
use hcq::reg::{IpVersion, Value};
use hcq::sync::lock;
use hcq::wait::{Look, poll_until};

use super::areas::SMU_TABLE;
use super::card::Card;
use super::error::Cause;
use super::hub::Hubs;
use super::metrics::Metrics;

/// How long a message may take: twenty times `usec_timeout` of the vendor's driver.
const ANSWER: Duration = Duration::from_secs(2);
/// How long firmware that runs takes to say its version.
const ALIVE: Duration = Duration::from_millis(100);
/// How long it may take until it has measured something (`smu_v13_0_6_setup_driver_pptable`).
const MEASURED: Duration = Duration::from_millis(100);
/// How long a chip must not be accessed during a reset (`SMU13_MODE1_RESET_WAIT_TIME_IN_MS`, and that of SMU 14).
const RESET_13: Duration = Duration::from_millis(500);
const RESET_14: Duration = Duration::from_millis(1000);
/// More levels than any clock has.
const LEVELS: u32 = 64;

/// How fast clocks are to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// As slow as they can.
    Lowest,
    /// As fast as they can.
    Highest,
}

/// Power management of a card.
pub struct Smu {
    card: Arc<Card>,
    version: IpVersion,
    messages: &'static Messages,
    clocks: Clocks,
    /// One message at a time.
    turn: Mutex<()>,
    /// One table at a time: all are written to one place.
    table: Mutex<()>,
}

impl Smu {
    /// That of a card.
    ///
    /// # Errors
    /// [`Cause::Discovery`].
    pub fn of(card: &Arc<Card>) -> Result<Smu, Cause> {
        let version = card.discovery().first(ip::MP1)?.version;
        let (messages, clocks) = match version {
            IpVersion(13, 0, 6) => (&INSTINCT, INSTINCT_CLOCKS),
            _ => (&NAVI, NAVI_CLOCKS),
        };
        Ok(Smu {
            card: card.clone(),
            version,
            messages,
            clocks,
            turn: Mutex::new(()),
            table: Mutex::new(()),
        })
    }

    fn io(&self) -> Registers<'_, Gfxs> {
        self.card.registers(&self.card.blocks().mp1)
    }

    /// Sends a message, and returns its result.
    fn send(
        &self,
        message: &'static str,
        number: u32,
        argument: u32,
        limit: Duration,
    ) -> Result<u32, Cause> {
        let _turn = lock(&self.turn);
        let (io, clock) = (self.io(), &**self.card.clock());
        let answered = |value: Value<Gfxs>| value.bits() != 0;
        let answer = &regs::MP1_SMN_C2PMSG_90;
        let before = "the SMU to finish the previous message";
        io.poll(answer, clock, self.card.within(limit), before, answered)?;
        io.write(answer, 0)?;
        io.write(&regs::MP1_SMN_C2PMSG_82, argument)?;
        io.write(&regs::MP1_SMN_C2PMSG_66, number)?;
        let what = format!("the SMU to answer {message}");
        let said = io.poll(answer, clock, self.card.within(limit), &what, answered)?;
        let said = match said.bits() {
            result::OK => return Ok(io.read(&regs::MP1_SMN_C2PMSG_82)?.bits()),
            result::FAILED => "failed".to_owned(),
            result::UNKNOWN => {
                "message not supported by its firmware; install newer firmware".to_owned()
            }
            result::PREREQ => "prerequisite not met".to_owned(),
            result::BUSY => "busy".to_owned(),
            other => format!("{other:#x}, an unknown result code"),
        };
        Err(Cause::Smu {
            message,
            number,
            argument,
            answer: said,
        })
    }

    /// Whether its firmware runs.
    pub fn is_alive(&self) -> bool {
        let asked = self.send("GetSmuVersion", self.messages.get_smu_version, 0, ALIVE);
        match asked {
            Ok(version) => {
                let [_, major, minor, revision] = version.to_be_bytes();
                tracing::debug!(target: "hcq::amd::smu", "firmware {major}.{minor}.{revision}");
                true
            }
            Err(Cause::Smu { .. }) => true,
            Err(_) => false,
        }
    }

    /// Sets the address of its tables, and enables power management.
    ///
    /// # Errors
    /// [`Cause::Smu`], the registers'.
    pub fn start(&self, hubs: &Hubs) -> Result<(), Cause> {
        let at = hubs.mc(SMU_TABLE.at);
        let (high, low) = ((at >> 32) as u32, at as u32);
        let m = self.messages;
        self.send(
            "SetDriverDramAddrHigh",
            m.set_driver_dram_addr_high,
            high,
            ANSWER,
        )?;
        self.send(
            "SetDriverDramAddrLow",
            m.set_driver_dram_addr_low,
            low,
            ANSWER,
        )?;
        self.send("EnableAllSmuFeatures", m.enable_all_smu_features, 0, ANSWER)?;
        Ok(())
    }

    /// The lowest and the highest frequency of a clock, in MHz.
    fn range(&self, clock: u32) -> Result<(u32, u32), Cause> {
        let by_index = |index: u32| {
            let number = self.messages.get_dpm_freq_by_index;
            let value = self.send("GetDpmFreqByIndex", number, clock << 16 | index, ANSWER)?;
            Ok::<_, Cause>(value & !DPM_FINE)
        };
        let count = by_index(DPM_COUNT)?;
        if !(1..=LEVELS).contains(&count) {
            return Err(Cause::Smu {
                message: "GetDpmFreqByIndex",
                number: self.messages.get_dpm_freq_by_index,
                argument: clock << 16 | DPM_COUNT,
                answer: format!("{count} levels, expected 1 to {LEVELS}"),
            });
        }
        Ok((by_index(0)?, by_index(count - 1)?))
    }

    /// Sets all clocks. The firmware still lowers them where it gets too hot, or needs too much power.
    ///
    /// # Errors
    /// [`Cause::Smu`], the registers'.
    pub fn set_clocks(&self, level: Level) -> Result<(), Cause> {
        let Clocks {
            gfxclk,
            socclk,
            uclk,
            fclk,
        } = self.clocks;
        let m = self.messages;
        for clock in [uclk, fclk, socclk, gfxclk] {
            let (lowest, highest) = self.range(clock)?;
            let mhz = match level {
                Level::Lowest => lowest,
                Level::Highest => highest,
            };
            let wanted = clock << 16 | mhz & 0xffff;
            let set = |name, number| match self.send(name, number, wanted, ANSWER) {
                // Not all clocks of all boards can be set: they stay where they are.
                Err(error @ Cause::Smu { .. }) => {
                    tracing::debug!(target: "hcq::amd::smu", clock, mhz, %error, "not set");
                    Ok(0)
                }
                other => other,
            };
            set("SetSoftMinByFreq", m.set_soft_min_by_freq)?;
            if self.card.gfx() != Gfx::Gfx9 {
                set("SetSoftMaxByFreq", m.set_soft_max_by_freq)?;
            }
        }
        Ok(())
    }

    /// Its measurements.
    ///
    /// # Errors
    /// [`Cause::Smu`], the registers'; [`Cause::Version`] for a chip with an unknown table.
    pub fn metrics(&self) -> Result<Metrics, Cause> {
        let _turn = lock(&self.table);
        let layout = match self.version {
            IpVersion(13, 0, 0 | 7 | 10) => &METRICS_13,
            IpVersion(14, 0, 2 | 3) => &METRICS_14,
            IpVersion(13, 0, 6) => return self.metrics_of_instinct(&METRICS_13_0_6),
            _ => return Err(self.has_no_table()),
        };
        let transfer = self.messages.transfer_table_smu2dram;
        let transfer = transfer.ok_or_else(|| self.has_no_table())?;
        self.send("TransferTableSmu2Dram", transfer, TABLE_SMU_METRICS, ANSWER)?;
        Ok(Metrics::of(&self.written(layout.bytes)?, layout))
    }

    fn metrics_of_instinct(&self, layout: &InstinctLayout) -> Result<Metrics, Cause> {
        let export = self.messages.get_metrics_table;
        let export = export.ok_or_else(|| self.has_no_table())?;
        let version = self.messages.get_smu_version;
        let firmware = self.send("GetSmuVersion", version, 0, ANSWER)?;
        let (clock, limit) = (&**self.card.clock(), self.card.within(MEASURED));
        poll_until(clock, limit, "the first metrics of the SMU", || {
            self.send("GetMetricsTable", export, 0, ANSWER)?;
            let table = self.written(layout.bytes)?;
            let seen = Metrics::of_instinct(&table, layout, firmware);
            Ok(match seen.counter {
                0 => Look::Not(0),
                _ => Look::Done(seen),
            })
        })
    }

    /// A table that it has written.
    fn written(&self, bytes: usize) -> Result<Vec<u8>, Cause> {
        let mut table = vec![0; bytes];
        self.card.vram().read_bytes(SMU_TABLE.at.0, &mut table)?;
        Ok(table)
    }

    fn has_no_table(&self) -> Cause {
        let known = [
            (13, 0, 0),
            (13, 0, 6),
            (13, 0, 7),
            (13, 0, 10),
            (14, 0, 2),
            (14, 0, 3),
        ];
        Cause::Version {
            block: "measurements of MP1".into(),
            version: self.version,
            known: known.map(|(a, b, c)| IpVersion(a, b, c)).into(),
        }
    }

    /// Whether it can reset the chip while it does not answer messages.
    pub fn has_another_ear(&self) -> bool {
        self.messages.gfx_driver_reset.is_none()
    }

    /// Resets the chip to its power-on state: VRAM, all blocks, their firmware. When it returns, the chip may not
    /// respond yet.
    ///
    /// # Errors
    /// The registers'.
    pub fn mode1_reset(&self) -> Result<(), Cause> {
        let _turn = lock(&self.turn);
        let io = self.io();
        match self.messages.gfx_driver_reset {
            Some(reset) => {
                io.write(&regs::MP1_SMN_C2PMSG_90, 0)?;
                io.write(&regs::MP1_SMN_C2PMSG_82, 1)?;
                io.write(&regs::MP1_SMN_C2PMSG_66, reset)?;
            }
            None => {
                io.write(&regs::MP1_SMN_C2PMSG_54, 0)?;
                io.write(&regs::MP1_SMN_C2PMSG_53, 0)?;
                io.write(&regs::MP1_SMN_C2PMSG_75, DEBUG_MODE1_RESET)?;
            }
        }
        let wait = match self.version.0 {
            14.. => RESET_14,
            _ => RESET_13,
        };
        self.card.rest(wait)
    }
}
