//! The text of DPP and SDWA.

use std::fmt::Write;

use crate::isa::Gen;

use super::inst::{Inst, Sdwa};
use super::lane_select::Dpp;
use super::table::flag;

impl Inst {
    /// How lanes change places.
    pub(super) fn dpp_text(&self, dpp: &Dpp, text: &mut String) -> Option<()> {
        match *dpp {
            Dpp::Eight { select, inactive } => {
                let list: Vec<String> = (0..8)
                    .map(|i| (select >> (3 * i) & 7).to_string())
                    .collect();
                let _ = write!(text, " dpp8:[{}]", list.join(","));
                if inactive {
                    text.push_str(" fi:1");
                }
            }
            Dpp::Pattern {
                control,
                zero,
                inactive,
                rows,
                banks,
                ..
            } => {
                let n = control & 15;
                let old = matches!(self.generation, Gen::Cdna3);
                let wave = |name: &str| {
                    Some(if old {
                        format!("{name}:1")
                    } else {
                        format!("/* {name} is not supported starting from GFX10 */")
                    })
                };
                let double = self.row.fields().any(|f| f.kind.dwords() > 1);
                let pattern = match control {
                    _ if old && double && control >> 4 != 0x15 => {
                        Some(" /* DP ALU dpp only supports row_newbcast */".into())
                    }
                    0..=0xff => {
                        let at = |i: u16| control >> (2 * i) & 3;
                        Some(format!(
                            "quad_perm:[{},{},{},{}]",
                            at(0),
                            at(1),
                            at(2),
                            at(3)
                        ))
                    }
                    0x101..=0x10f => Some(format!("row_shl:{n}")),
                    0x111..=0x11f => Some(format!("row_shr:{n}")),
                    0x121..=0x12f => Some(format!("row_ror:{n}")),
                    0x130 => wave("wave_shl"),
                    0x134 => wave("wave_rol"),
                    0x138 => wave("wave_shr"),
                    0x13c => wave("wave_ror"),
                    0x140 => Some("row_mirror".into()),
                    0x141 => Some("row_half_mirror".into()),
                    0x142 | 0x143 if old => {
                        Some(format!("row_bcast:{}", [15, 31][usize::from(n - 2)]))
                    }
                    0x142 | 0x143 => {
                        Some("/* row_bcast is not supported starting from GFX10 */".into())
                    }
                    0x150..=0x15f if old => Some(format!("row_newbcast:{n}")),
                    0x150..=0x15f => Some(format!("row_share:{n}")),
                    0x160..=0x16f if old => {
                        Some("/* row_xmask is not supported on ASICs earlier than GFX10 */".into())
                    }
                    0x160..=0x16f => Some(format!("row_xmask:{n}")),
                    _ => Some("/* Invalid dpp_ctrl value */".into()),
                }?;
                let _ = write!(text, " {pattern} row_mask:{rows:#x} bank_mask:{banks:#x}");
                if zero {
                    text.push_str(" bound_ctrl:1");
                }
                if inactive && !old {
                    text.push_str(" fi:1");
                }
            }
        }
        Some(())
    }

    /// Which parts of dwords are used.
    pub(super) fn sdwa_text(&self, sdwa: &Sdwa, text: &mut String) -> Option<()> {
        let part = |n: u8| {
            [
                "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD",
            ]
            .get(usize::from(n))
            .copied()
        };
        if self.row.dst.is_some() && !self.row.is(flag::FP8) {
            let unused = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"];
            let _ = write!(
                text,
                " dst_sel:{} dst_unused:{}",
                part(sdwa.dst)?,
                unused.get(usize::from(sdwa.unused))?
            );
        }
        let _ = write!(text, " src0_sel:{}", part(sdwa.src[0])?);
        if self.row.sources() > 1 {
            let _ = write!(text, " src1_sel:{}", part(sdwa.src[1])?);
        }
        Some(())
    }
}
