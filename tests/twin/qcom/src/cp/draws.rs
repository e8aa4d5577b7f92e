//! Commands of draws, as far as drivers of compute send them: blits, groups of state, what runs when contexts change.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml: CP_BLIT, CP_SET_DRAW_STATE, CP_SET_MODE, CP_SET_AMBLE,
//! CP_SKIP_IB2_ENABLE_GLOBAL.

use std::collections::VecDeque;

use twin::rule::{Proof, Rule};

use super::blit::Blit;
use super::commands::{address, more};
use super::{Around, Broken, Cp, Ib};

static OPERATION_OF_BLIT: Rule = Rule {
    name: "CP-BLIT",
    text: "CP_BLIT has BLIT_OP_SCALE, and its rectangles in registers",
    source: "Mesa, src/freedreno/vulkan/tu_clear_blit.cc, r2d_run; gallium/drivers/freedreno/a6xx/fd6_blitter.cc, \
             emit_blit_fini",
    proof: Proof::Sourced,
};

static GROUPS: Rule = Rule {
    name: "CP-DRAW-STATE-NOT-MODELLED",
    text: "CP_SET_DRAW_STATE disables groups, or has them run at once, by CP_SET_MODE 1; groups that wait for a draw are \
           of graphics",
    source: "this twin: src/cp/draws.rs; Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, CP_SET_MODE",
    proof: Proof::Twin,
};

static AMBLE: Rule = Rule {
    name: "CP-AMBLE-NOT-MODELLED",
    text: "CP_SET_AMBLE sets what runs between bins, or nothing: contexts are not switched inside of a submission",
    source: "this twin: src/cp/draws.rs; Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, amble_type",
    proof: Proof::Twin,
};

impl Cp {
    /// Does one of these commands.
    pub(super) fn of_graphics(
        &mut self,
        around: &Around<'_>,
        operation: u8,
        body: &[u32],
    ) -> Result<(), Broken> {
        let refused = |rule, what: String| Err(Broken::new(rule, what));
        match operation {
            more::BLIT => self.blit(around, body[0]),
            more::SET_DRAW_STATE => self.draw_state(body),
            more::SET_MODE if body[0] <= 1 => {
                self.immediate = body[0] == 1;
                Ok(())
            }
            more::SET_AMBLE => {
                let (kind, dwords) = (body[2] >> 20, body[2] & 0xf_ffff);
                match dwords == 0 && kind <= 2 || kind == more::BIN_PREAMBLE {
                    true => Ok(()),
                    false => refused(&AMBLE, format!("{body:x?}")),
                }
            }
            more::SKIP_IB2_ENABLE_GLOBAL if body[0] == 0 => Ok(()),
            other => refused(&GROUPS, format!("operation {other:#x}, {body:x?}")),
        }
    }

    /// CP_SET_DRAW_STATE: COUNT 15:0, DISABLE 17, DISABLE_ALL_GROUPS 18, BINNING, GMEM and SYSMEM 22:20, GROUP_ID 28:24
    /// of each group, and an address. With CP_SET_MODE 1 those for GMEM or SYSMEM run at once.
    fn draw_state(&mut self, body: &[u32]) -> Result<(), Broken> {
        if self.in_group() {
            return Err(Broken::new(&GROUPS, "groups of a group".into()));
        }
        let mut groups = VecDeque::new();
        for group in body.as_chunks::<3>().0 {
            let (word, dwords) = (group[0], group[0] & 0xffff);
            let disabled = word & 3 << 17 != 0;
            if disabled && dwords == 0 {
                continue;
            }
            let run = word >> 20 & 6 == 6;
            if disabled || !run || !self.immediate || dwords == 0 {
                return Err(Broken::new(&GROUPS, format!("{group:x?}")));
            }
            groups.push_back(Ib {
                address: address(group, 1),
                dwords,
            });
        }
        self.groups = (self.stack.len(), groups);
        Ok(())
    }

    fn blit(&mut self, around: &Around<'_>, operation: u32) -> Result<(), Broken> {
        if operation != more::OP_SCALE {
            let what = format!("CP_BLIT {operation:#x}");
            return Err(Broken::new(&OPERATION_OF_BLIT, what));
        }
        let tiling = around.core.chip.tiling();
        self.pipe.blit(Blit::of(&self.registers, tiling)?);
        Ok(())
    }
}
