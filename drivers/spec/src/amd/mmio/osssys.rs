//! System services: interrupt rings.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/oss/osssys_{4_4_2,6_0_0,7_0_0}, `_offset.h` and
//! `_sh_mask.h`.

use super::registers;

registers! {
    IH_RB_CNTL @ (4 4 2) 0:0x80, (6 0 0) 0:0x80, (7 0 0) 0:0x80 {
        rb_enable 0 0; rb_size 5 1; rb_gpu_ts_enable 7 7 GFX9; wptr_writeback_enable 8 8;
        rb_full_drain_enable 9 9; full_drain_clear 10 10; page_rb_clear 11 11; rb_used_int_threshold 15 12;
        wptr_overflow_enable 16 16; enable_intr 17 17; mc_swap 19 18; mc_snoop 20 20; rptr_rearm 21 21;
        mc_ro 22 22; mc_vmid 27 24; mc_space 30 28; wptr_overflow_clear 31 31;
    }
    IH_RB_BASE @ (4 4 2) 0:0x81, (6 0 0) 0:0x81, (7 0 0) 0:0x83 {}
    IH_RB_BASE_HI @ (4 4 2) 0:0x82, (6 0 0) 0:0x82, (7 0 0) 0:0x84 {
        addr 7 0;
    }
    IH_RB_RPTR @ (4 4 2) 0:0x83, (6 0 0) 0:0x83, (7 0 0) 0:0x81 {
        offset 17 2;
    }
    IH_RB_WPTR @ (4 4 2) 0:0x84, (6 0 0) 0:0x84, (7 0 0) 0:0x82 {
        rb_overflow 0 0; offset 17 2; rb_left_none 18 18; rb_may_overflow 19 19;
    }
    IH_RB_WPTR_ADDR_HI @ (4 4 2) 0:0x85, (6 0 0) 0:0x85, (7 0 0) 0:0x85 {
        addr 15 0;
    }
    IH_RB_WPTR_ADDR_LO @ (4 4 2) 0:0x86, (6 0 0) 0:0x86, (7 0 0) 0:0x86 {
        addr 31 2;
    }
    IH_DOORBELL_RPTR @ (4 4 2) 0:0x87, (6 0 0) 0:0x87, (7 0 0) 0:0x87 {
        offset 25 0; enable 28 28;
    }
    IH_RB_CNTL_RING1 @ (4 4 2) 0:0x8c, (6 0 0) 0:0x8c, (7 0 0) 0:0x8c {
        rb_enable 0 0; rb_size 5 1; rb_gpu_ts_enable 7 7 GFX9; rb_full_drain_enable 9 9;
        full_drain_clear 10 10; page_rb_clear 11 11; rb_used_int_threshold 15 12;
        wptr_overflow_enable 16 16; mc_swap 19 18; mc_snoop 20 20; mc_ro 22 22; mc_vmid 27 24;
        mc_space 30 28; wptr_overflow_clear 31 31;
    }
    IH_RB_BASE_RING1 @ (4 4 2) 0:0x8d, (6 0 0) 0:0x8d, (7 0 0) 0:0x8f {}
    IH_RB_BASE_HI_RING1 @ (4 4 2) 0:0x8e, (6 0 0) 0:0x8e, (7 0 0) 0:0x90 {
        addr 7 0;
    }
    IH_RB_RPTR_RING1 @ (4 4 2) 0:0x8f, (6 0 0) 0:0x8f, (7 0 0) 0:0x8d {
        offset 17 2;
    }
    IH_RB_WPTR_RING1 @ (4 4 2) 0:0x90, (6 0 0) 0:0x90, (7 0 0) 0:0x8e {
        rb_overflow 0 0; offset 17 2; rb_left_none 18 18; rb_may_overflow 19 19;
    }
    IH_DOORBELL_RPTR_RING1 @ (4 4 2) 0:0x93, (6 0 0) 0:0x93, (7 0 0) 0:0x93 {
        offset 25 0; enable 28 28;
    }
    IH_INT_FLOOD_CNTL @ (4 4 2) 0:0xd5, (6 0 0) 0:0xd5, (7 0 0) 0:0xd5 {
        highwater 2 0; flood_cntl_enable 3 3; clear_int_flood_status 4 4;
    }
    IH_STORM_CLIENT_LIST_CNTL @ (4 4 2) 0:0xda, (6 0 0) 0:0xda, (7 0 0) 0:0xaa {
        client1_is_storm_client 1 1; client2_is_storm_client 2 2; client3_is_storm_client 3 3;
        client4_is_storm_client 4 4; client5_is_storm_client 5 5; client6_is_storm_client 6 6;
        client7_is_storm_client 7 7; client8_is_storm_client 8 8; client9_is_storm_client 9 9;
        client10_is_storm_client 10 10; client11_is_storm_client 11 11; client12_is_storm_client 12 12;
        client13_is_storm_client 13 13; client14_is_storm_client 14 14; client15_is_storm_client 15 15;
        client16_is_storm_client 16 16; client17_is_storm_client 17 17; client18_is_storm_client 18 18;
        client19_is_storm_client 19 19; client20_is_storm_client 20 20; client21_is_storm_client 21 21;
        client22_is_storm_client 22 22; client23_is_storm_client 23 23; client24_is_storm_client 24 24;
        client25_is_storm_client 25 25; client26_is_storm_client 26 26; client27_is_storm_client 27 27;
        client28_is_storm_client 28 28; client29_is_storm_client 29 29; client30_is_storm_client 30 30;
        client31_is_storm_client 31 31;
    }
    IH_CHICKEN @ (4 4 2) 0:0x18d, (6 0 0) 0:0x18d, (7 0 0) 0:0x18a {
        active_fcn_id_prot_enable 0 0 GFX9_12; dbgu_trigger_enable 1 1 GFX12;
        cross_trigger_enable 2 2 GFX11_UP; mc_space_fbpa_enable 3 3; mc_space_gpa_enable 4 4;
        reg_firewall_enable 5 5 GFX9_12;
    }
    IH_MSI_STORM_CTRL @ (6 0 0) 0:0xf1, (7 0 0) 0:0xf1 {
        delay 11 0;
    }
}
