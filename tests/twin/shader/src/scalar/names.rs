//! How LLVM prints the packed constants: hardware registers, messages, waits, delays.

use crate::isa::Gen;

/// A constant of 16 or 32 bits: small numbers in decimal, the inline floats by value, others in
/// hexadecimal.
pub fn constant(value: u32) -> String {
    match value as i32 {
        small @ -16..=64 => small.to_string(),
        _ => match value {
            0x3f00_0000 => "0.5".into(),
            0xbf00_0000 => "-0.5".into(),
            0x3f80_0000 => "1.0".into(),
            0xbf80_0000 => "-1.0".into(),
            0x4000_0000 => "2.0".into(),
            0xc000_0000 => "-2.0".into(),
            0x4080_0000 => "4.0".into(),
            0xc080_0000 => "-4.0".into(),
            0x3e22_f983 => "0.15915494".into(),
            _ => format!("{value:#x}"),
        },
    }
}

/// Names of hardware registers by id: those of all generations before RDNA4, then by generation.
const HWREGS: &[(u16, &str)] = &[
    (1, "MODE"),
    (2, "STATUS"),
    (3, "TRAPSTS"),
    (5, "GPR_ALLOC"),
    (6, "LDS_ALLOC"),
    (7, "IB_STS"),
    (15, "SH_MEM_BASES"),
];
const HWREGS_RDNA2: &[(u16, &str)] = &[
    (16, "TBA_LO"),
    (17, "TBA_HI"),
    (18, "TMA_LO"),
    (19, "TMA_HI"),
    (20, "FLAT_SCR_LO"),
    (21, "FLAT_SCR_HI"),
    (23, "HW_ID1"),
    (24, "HW_ID2"),
    (25, "POPS_PACKER"),
    (29, "SHADER_CYCLES"),
];
const HWREGS_RDNA3: &[(u16, &str)] = &[
    (18, "PERF_SNAPSHOT_PC_LO"),
    (19, "PERF_SNAPSHOT_PC_HI"),
    (20, "FLAT_SCR_LO"),
    (21, "FLAT_SCR_HI"),
    (23, "HW_ID1"),
    (24, "HW_ID2"),
    (27, "PERF_SNAPSHOT_DATA"),
    (29, "SHADER_CYCLES"),
];
const HWREGS_CDNA3: &[(u16, &str)] = &[
    (4, "HW_ID"),
    (16, "TBA_LO"),
    (17, "TBA_HI"),
    (18, "TMA_LO"),
    (19, "TMA_HI"),
    (20, "XCC_ID"),
    (21, "SQ_PERF_SNAPSHOT_DATA"),
    (22, "SQ_PERF_SNAPSHOT_DATA1"),
    (23, "SQ_PERF_SNAPSHOT_PC_LO"),
    (24, "SQ_PERF_SNAPSHOT_PC_HI"),
];
const HWREGS_RDNA4: &[(u16, &str)] = &[
    (1, "WAVE_MODE"),
    (2, "WAVE_STATUS"),
    (4, "WAVE_STATE_PRIV"),
    (5, "WAVE_GPR_ALLOC"),
    (6, "WAVE_LDS_ALLOC"),
    (7, "IB_STS"),
    (10, "PERF_SNAPSHOT_DATA"),
    (11, "PERF_SNAPSHOT_PC_LO"),
    (12, "PERF_SNAPSHOT_PC_HI"),
    (15, "PERF_SNAPSHOT_DATA1"),
    (16, "PERF_SNAPSHOT_DATA2"),
    (17, "WAVE_EXCP_FLAG_PRIV"),
    (18, "WAVE_EXCP_FLAG_USER"),
    (19, "WAVE_TRAP_CTRL"),
    (20, "WAVE_SCRATCH_BASE_LO"),
    (21, "WAVE_SCRATCH_BASE_HI"),
    (23, "WAVE_HW_ID1"),
    (24, "WAVE_HW_ID2"),
    (26, "WAVE_SCHED_MODE"),
    (29, "SHADER_CYCLES_LO"),
    (30, "SHADER_CYCLES_HI"),
    (31, "WAVE_DVGPR_ALLOC_LO"),
    (32, "WAVE_DVGPR_ALLOC_HI"),
];

fn lookup(id: u16, tables: &[&[(u16, &'static str)]]) -> Option<&'static str> {
    tables
        .iter()
        .copied()
        .flatten()
        .find(|(i, _)| *i == id)
        .map(|(_, name)| *name)
}

/// A hardware register with offset and size: bits 5:0, 10:6, 15:11 (less one).
pub fn hwreg(generation: Gen, simm: u16) -> String {
    let (id, offset, size) = (simm & 63, simm >> 6 & 31, (simm >> 11) + 1);
    let name = match generation {
        Gen::Rdna2 => lookup(id, &[HWREGS, HWREGS_RDNA2]),
        Gen::Rdna3 => lookup(id, &[HWREGS, HWREGS_RDNA3]),
        Gen::Rdna4 => lookup(id, &[HWREGS_RDNA4]),
        Gen::Cdna3 => lookup(id, &[HWREGS, HWREGS_CDNA3]),
    }
    .map_or(id.to_string(), |name| format!("HW_REG_{name}"));
    match (offset, size) {
        (0, 32) => format!("hwreg({name})"),
        _ => format!("hwreg({name}, {offset}, {size})"),
    }
}

const MESSAGES: &[(u16, &str)] = &[
    (1, "INTERRUPT"),
    (4, "SAVEWAVE"),
    (5, "STALL_WAVE_GEN"),
    (6, "HALT_WAVES"),
    (7, "ORDERED_PS_DONE"),
    (8, "EARLY_PRIM_DEALLOC"),
    (9, "GS_ALLOC_REQ"),
    (10, "GET_DOORBELL"),
];
const MESSAGES_RDNA2: &[(u16, &str)] = &[(11, "GET_DDID")];
const MESSAGES_RDNA3: &[(u16, &str)] = &[
    (1, "INTERRUPT"),
    (2, "HS_TESSFACTOR"),
    (3, "DEALLOC_VGPRS"),
    (9, "GS_ALLOC_REQ"),
    (0x80, "RTN_GET_DOORBELL"),
    (0x81, "RTN_GET_DDID"),
    (0x82, "RTN_GET_TMA"),
    (0x83, "RTN_GET_REALTIME"),
    (0x84, "RTN_SAVE_WAVE"),
    (0x85, "RTN_GET_TBA"),
    (0x86, "RTN_GET_TBA_TO_PC"),
];
/// RDNA4 has no message that stalls or halts other waves.
const MESSAGES_ONLY_RDNA3: &[(u16, &str)] = &[(5, "STALL_WAVE_GEN"), (6, "HALT_WAVES")];
const MESSAGES_ONLY_RDNA4: &[(u16, &str)] = &[(0x87, "RTN_GET_SE_AID_ID")];

const GS_OPS: [&str; 4] = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"];
const SYS_OPS: [&str; 5] = [
    "",
    "SYSMSG_OP_ECC_ERR_INTERRUPT",
    "SYSMSG_OP_REG_RD",
    "",
    "SYSMSG_OP_TTRACE_PC",
];

/// A message. Since RDNA3 an id of 8 bits; before that an id of 4 bits, an operation in bits 6:4 and
/// a stream in bits 9:8.
pub fn message(generation: Gen, simm: u16) -> String {
    if matches!(generation, Gen::Rdna3 | Gen::Rdna4) {
        let only = match generation {
            Gen::Rdna3 => MESSAGES_ONLY_RDNA3,
            _ => MESSAGES_ONLY_RDNA4,
        };
        return match lookup(simm & 0xff, &[MESSAGES_RDNA3, only]) {
            Some(name) => format!("sendmsg(MSG_{name})"),
            None if simm < 256 => format!("sendmsg({simm}, 0, 0)"),
            None => simm.to_string(),
        };
    }
    let (id, op, stream) = (simm & 15, simm >> 4 & 7, simm >> 8 & 3);
    let also = match generation {
        Gen::Rdna2 => MESSAGES_RDNA2,
        _ => &[],
    };
    let named = match (id, op, stream) {
        (3, 0, 0) => Some("MSG_GS_DONE, GS_OP_NOP".to_owned()),
        (2 | 3, 1..=3, _) => {
            let name = if id == 2 { "MSG_GS" } else { "MSG_GS_DONE" };
            Some(format!("{name}, {}, {stream}", GS_OPS[usize::from(op)]))
        }
        (15, 1 | 2 | 4, 0) => Some(format!("MSG_SYSMSG, {}", SYS_OPS[usize::from(op)])),
        (_, 0, 0) => lookup(id, &[MESSAGES, also]).map(|name| format!("MSG_{name}")),
        _ => None,
    };
    match named {
        Some(named) => format!("sendmsg({named})"),
        None if simm == id | op << 4 | stream << 8 => format!("sendmsg({id}, {op}, {stream})"),
        None => simm.to_string(),
    }
}

/// What `s_waitcnt` waits for: vmcnt, expcnt, lgkmcnt and their highest values.
///
/// Until RDNA2 vmcnt is bits 3:0 and 15:14, expcnt 6:4, lgkmcnt 13:8 (11:8 in CDNA3); since RDNA3
/// vmcnt is 15:10, lgkmcnt 9:4, expcnt 2:0.
pub fn waitcnt_fields(generation: Gen, simm: u16) -> [(u16, u16); 3] {
    match generation {
        Gen::Rdna2 | Gen::Cdna3 => {
            let lgkm = if generation == Gen::Rdna2 { 63 } else { 15 };
            [
                (simm & 15 | (simm >> 14) << 4, 63),
                (simm >> 4 & 7, 7),
                (simm >> 8 & lgkm, lgkm),
            ]
        }
        Gen::Rdna3 | Gen::Rdna4 => [(simm >> 10, 63), (simm & 7, 7), (simm >> 4 & 63, 63)],
    }
}

/// Only counters that are waited for are printed, or all of them where there is none.
pub fn waitcnt(generation: Gen, simm: u16) -> String {
    let fields = waitcnt_fields(generation, simm);
    let none = fields.iter().all(|(value, most)| value == most);
    let names = ["vmcnt", "expcnt", "lgkmcnt"];
    let parts: Vec<String> = names
        .iter()
        .zip(fields)
        .filter(|(_, (value, most))| none || value != most)
        .map(|(name, (value, _))| format!("{name}({value})"))
        .collect();
    parts.join(" ")
}

/// What `s_delay_alu` says: instid0 in bits 3:0, instskip in 6:4, instid1 in 10:7.
pub fn delay(simm: u16) -> String {
    const IDS: [&str; 12] = [
        "NO_DEP",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let part = |name: &str, value: u16, of: &[&'static str], bad| {
        (value != 0).then(|| {
            let text = of.get(usize::from(value)).copied().unwrap_or(bad);
            format!("{name}({text})")
        })
    };
    let id = "/* invalid instid value */";
    let skip = "/* invalid instskip value */";
    let parts: Vec<String> = [
        part("instid0", simm & 15, &IDS, id),
        part("instskip", simm >> 4 & 7, &SKIPS, skip),
        part("instid1", simm >> 7 & 15, &IDS, id),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        return "0".into();
    }
    parts.join(" | ")
}

/// What `s_waitcnt_depctr` waits for: names, lowest bits, widths. Unused bits are ones.
const DEPCTR: [(&str, u16, u16); 7] = [
    ("hold_cnt", 7, 1),
    ("sa_sdst", 0, 1),
    ("va_vdst", 12, 4),
    ("va_sdst", 9, 3),
    ("va_ssrc", 8, 1),
    ("va_vcc", 1, 1),
    ("vm_vsrc", 2, 3),
];

/// The counters of [`DEPCTR`] that are not at their highest values; a number where unused bits are
/// not what assemblers write.
pub fn depctr(simm: u16) -> String {
    let used = DEPCTR
        .iter()
        .fold(0u16, |used, (_, at, width)| used | ((1 << width) - 1) << at);
    if simm & !used != 0 {
        return format!("{simm:#x}");
    }
    let fields = DEPCTR.map(|(name, at, width)| {
        let most = (1 << width) - 1;
        (name, simm >> at & most, most)
    });
    let none = fields.iter().all(|(_, value, most)| value == most);
    let parts: Vec<String> = fields
        .iter()
        .filter(|(_, value, most)| none || value != most)
        .map(|(name, value, _)| format!("depctr_{name}({value})"))
        .collect();
    parts.join(" ")
}

/// Bits of the indexing of VGPRs (CDNA3).
pub fn gpr_index(bits: u16) -> String {
    if bits > 15 {
        return format!("{bits:#x}");
    }
    let names = ["SRC0", "SRC1", "SRC2", "DST"];
    let on: Vec<&str> = (0..4)
        .filter(|i| bits >> i & 1 == 1)
        .map(|i| names[i])
        .collect();
    format!("gpr_idx({})", on.join(","))
}

/// What `s_version` tells tools: a version in bits 7:0, the size of waves and more in 15:13.
pub fn version(simm: u16) -> String {
    let mut text = match simm & 0xff {
        0 => "UC_VERSION_GFX7".to_owned(),
        4 => "UC_VERSION_GFX10".to_owned(),
        6 => "UC_VERSION_GFX11".to_owned(),
        9 => "UC_VERSION_GFX12".to_owned(),
        other => other.to_string(),
    };
    if simm & 0x1f00 != 0 {
        return format!("{simm:#x}");
    }
    let flags = [(13, "W64"), (14, "W32"), (15, "MDP")].map(|(bit, name)| (simm >> bit & 1, name));
    let on = flags.iter().filter(|(on, _)| *on == 1);
    for (i, (_, name)) in on.enumerate() {
        // LLVM prints a tree of sums.
        if i > 0 {
            text = format!("({text})");
        }
        text = format!("{text}|UC_VERSION_{name}_BIT");
    }
    text
}
