//! Mailboxes of the security processor (MP0) and of power management (MP1). Version 14 calls those of MP0
//! `MPASP_...`; those of MP1 are by `mp_11_0` on all chips.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/mp/mp_{11_0,13_0_0,14_0_2}, `_offset.h` and
//! `_sh_mask.h`.

use super::registers;

registers! {
    MP1_SMN_C2PMSG_53 @ (11 0 0) 0:0x275 {}
    MP1_SMN_C2PMSG_54 @ (11 0 0) 0:0x276 {}
    MP1_SMN_C2PMSG_66 @ (11 0 0) 0:0x282 {}
    MP1_SMN_C2PMSG_75 @ (11 0 0) 0:0x28b {}
    MP1_SMN_C2PMSG_82 @ (11 0 0) 0:0x292 {}
    MP1_SMN_C2PMSG_90 @ (11 0 0) 0:0x29a {}
    MP0_SMN_C2PMSG_33 @ (13 0 0) 0:0x61, (14 0 2) 0:0x61 {}
    MP0_SMN_C2PMSG_35 @ (13 0 0) 0:0x63, (14 0 2) 0:0x63 {}
    MP0_SMN_C2PMSG_36 @ (13 0 0) 0:0x64, (14 0 2) 0:0x64 {}
    MP0_SMN_C2PMSG_64 @ (13 0 0) 0:0x80, (14 0 2) 0:0x80 {}
    MP0_SMN_C2PMSG_67 @ (13 0 0) 0:0x83, (14 0 2) 0:0x83 {}
    MP0_SMN_C2PMSG_69 @ (13 0 0) 0:0x85, (14 0 2) 0:0x85 {}
    MP0_SMN_C2PMSG_70 @ (13 0 0) 0:0x86, (14 0 2) 0:0x86 {}
    MP0_SMN_C2PMSG_71 @ (13 0 0) 0:0x87, (14 0 2) 0:0x87 {}
    MP0_SMN_C2PMSG_81 @ (13 0 0) 0:0x91, (14 0 2) 0:0x91 {}
    MP0_SMN_C2PMSG_115 @ (14 0 2) 0:0xb3 {}
}
