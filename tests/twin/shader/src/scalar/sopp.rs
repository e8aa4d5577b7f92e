//! SOPP: control flow, waits, messages.

use super::control::{self as flow, branch, wait};
use super::meaning::*;
use crate::counters::Wait;
use crate::isa::Gen;
use crate::step::Flow;
use Gen::{Rdna3, Rdna4};

/// Columns: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub fn rows() -> Vec<Row> {
    vec![
        row("s_nop",                        [0x00, 0x00, 0x00, 0x00], nothing(Arg::Imm)),
        row("s_endpgm",                     [0x01, 0x30, 0x30, 0x01], end(Arg::Optional)),
        row("s_branch",                     [0x02, 0x20, 0x20, 0x02], branch(|_| true)),
        row("s_wakeup",                     [0x03, 0x34, 0x34, 0x03], nothing(Arg::Zero)),
        row("s_cbranch_scc0",               [0x04, 0x21, 0x21, 0x04], branch(|w| !w.scc)),
        row("s_cbranch_scc1",               [0x05, 0x22, 0x22, 0x05], branch(|w| w.scc)),
        row("s_cbranch_vccz",               [0x06, 0x23, 0x23, 0x06], branch(|w| w.vccz())),
        row("s_cbranch_vccnz",              [0x07, 0x24, 0x24, 0x07], branch(|w| !w.vccz())),
        row("s_cbranch_execz",              [0x08, 0x25, 0x25, 0x08], branch(|w| w.exec == 0)),
        row("s_cbranch_execnz",             [0x09, 0x26, 0x26, 0x09], branch(|w| w.exec != 0)),
        row("s_barrier",                    [0x0a, 0x3d, __,   0x0a], flow::barrier()),
        row("s_setkill",                    [0x0b, 0x01, 0x01, 0x0b], unsupported(&[Arg::Imm])),
        row("s_waitcnt",                    [0x0c, 0x09, 0x09, 0x0c], flow::waitcnt()),
        row("s_sethalt",                    [0x0d, 0x02, 0x02, 0x0d], unsupported(&[Arg::Imm])),
        row("s_sleep",                      [0x0e, 0x03, 0x03, 0x0e], sleep(Arg::Imm)),
        row("s_setprio",                    [0x0f, 0x35, 0x35, 0x0f], nothing(Arg::Imm)),
        row("s_sendmsg",                    [0x10, 0x36, 0x36, 0x10], flow::sendmsg()),
        row("s_sendmsghalt",                [0x11, 0x37, 0x37, 0x11], unsupported(&[Arg::Message])),
        row("s_trap",                       [0x12, 0x10, 0x10, 0x12], flow::trap()),
        row("s_icache_inv",                 [0x13, 0x3c, 0x3c, 0x13], flow::icache_inv()),
        row("s_incperflevel",               [0x14, 0x38, 0x38, 0x14], nothing(Arg::Imm)),
        row("s_decperflevel",               [0x15, 0x39, 0x39, 0x15], nothing(Arg::Imm)),
        row("s_ttracedata",                 [0x16, 0x3a, 0x3a, 0x16], nothing(Arg::Zero)),
        // No debugger is attached: never taken.
        row("s_cbranch_cdbgsys",            [0x17, 0x27, __,   0x17], branch(|_| false)),
        row("s_cbranch_cdbguser",           [0x18, 0x28, __,   0x18], branch(|_| false)),
        row("s_cbranch_cdbgsys_or_user",    [0x19, 0x29, __,   0x19], branch(|_| false)),
        row("s_cbranch_cdbgsys_and_user",   [0x1a, 0x2a, __,   0x1a], branch(|_| false)),
        row("s_endpgm_saved",               [0x1b, 0x31, 0x31, 0x1b], end(Arg::Zero)),
        row("s_set_gpr_idx_off",            [__,   __,   __,   0x1c], unsupported(&[Arg::Zero])),
        row("s_set_gpr_idx_mode",           [__,   __,   __,   0x1d], unsupported(&[Arg::GprIndex])),
        row("s_endpgm_ordered_ps_done",     [0x1e, 0x32, __,   0x1e], unsupported(&[Arg::Zero])),
        row("s_code_end",                   [0x1f, 0x1f, 0x1f, __  ], unsupported(&[Arg::Zero])),
        row("s_inst_prefetch",              [0x20, 0x04, __,   __  ], nothing(Arg::Hex)).since(Rdna3, "s_set_inst_prefetch_distance"),
        row("s_clause",                     [0x21, 0x05, 0x05, __  ], nothing(Arg::Hex)),
        row("s_wait_idle",                  [0x22, 0x0a, 0x0a, __  ], wait(Arg::Zero, |_| Wait::ALL)),
        row("s_waitcnt_depctr",             [0x23, 0x08, 0x08, __  ], nothing(Arg::Depctr)).since(Rdna4, "s_wait_alu"),
        row("s_round_mode",                 [0x24, 0x11, 0x11, __  ], control(Arg::Hex, |w, k| { w.mode = w.mode & !15 | u32::from(k & 15); Ok(Flow::Next) })),
        row("s_denorm_mode",                [0x25, 0x12, 0x12, __  ], control(Arg::Imm, |w, k| { w.mode = w.mode & !0xf0 | u32::from(k & 15) << 4; Ok(Flow::Next) })),
        row("s_ttracedata_imm",             [0x28, 0x3b, 0x3b, __  ], nothing(Arg::Hex)),
        row("s_delay_alu",                  [__,   0x07, 0x07, __  ], nothing(Arg::Delay)),
        row("s_wait_event",                 [__,   0x0b, 0x0b, __  ], nothing(Arg::Hex)),
        row("s_barrier_wait",               [__,   __,   0x14, __  ], flow::barrier_wait()),
        row("s_barrier_leave",              [__,   __,   0x15, __  ], unsupported(&[Arg::Zero])),
        row("s_wait_loadcnt",               [__,   __,   0x40, __  ], wait(Arg::Hex, |n| Wait { load: n, ..Wait::NONE })),
        row("s_wait_storecnt",              [__,   __,   0x41, __  ], wait(Arg::Hex, |n| Wait { store: n, ..Wait::NONE })),
        row("s_wait_samplecnt",             [__,   __,   0x42, __  ], nothing(Arg::Hex)),
        row("s_wait_bvhcnt",                [__,   __,   0x43, __  ], nothing(Arg::Hex)),
        row("s_wait_expcnt",                [__,   __,   0x44, __  ], nothing(Arg::Hex)),
        row("s_wait_dscnt",                 [__,   __,   0x46, __  ], wait(Arg::Hex, |n| Wait { lds: n, ..Wait::NONE })),
        row("s_wait_kmcnt",                 [__,   __,   0x47, __  ], wait(Arg::Hex, |n| Wait { scalar: n, ..Wait::NONE })),
        // Loads or stores in bits 13:8, LDS in 5:0.
        row("s_wait_loadcnt_dscnt",         [__,   __,   0x48, __  ], wait(Arg::Hex, |n| Wait { load: n >> 8 & 63, lds: n & 63, ..Wait::NONE })),
        row("s_wait_storecnt_dscnt",        [__,   __,   0x49, __  ], wait(Arg::Hex, |n| Wait { store: n >> 8 & 63, lds: n & 63, ..Wait::NONE })),
    ]
}

/// The wave ends.
fn end(arg: Arg) -> Meaning {
    control(arg, |_, _| Ok(Flow::End))
}

/// Others have a turn.
fn sleep(arg: Arg) -> Meaning {
    control(arg, |_, _| Ok(Flow::Yield))
}
