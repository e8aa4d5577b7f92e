//! The bus interface. Version 6.3.1 is NBIF, whose `GDC_S2A0_S2A_DOORBELL_...` are `S2A_DOORBELL_...` here.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/nbio/nbio_{4_3_0,7_9_0}, nbif/nbif_6_3_1, `_offset.h`
//! and `_sh_mask.h`.

use super::registers;

registers! {
    BIF_BX0_PCIE_INDEX2 @ (4 3 0) 0:0xe, (7 9 0) 0:0xe, (6 3 1) 0:0xe {}
    BIF_BX0_PCIE_DATA2 @ (4 3 0) 0:0xf, (7 9 0) 0:0xf, (6 3 1) 0:0xf {}
    BIF_BX0_PCIE_INDEX2_HI @ (4 3 0) 0:0x11, (7 9 0) 0:0x11, (6 3 1) 0:0x11 {
        pcie_index2_hi 7 0;
    }
    BIF_BX_PF0_RSMU_INDEX @ (4 3 0) 1:0x0, (7 9 0) 1:0x0, (6 3 1) 1:0x0 {}
    BIF_BX_PF0_RSMU_DATA @ (4 3 0) 1:0x1, (7 9 0) 1:0x1, (6 3 1) 1:0x1 {}
    RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN @ (4 3 0) 2:0xc0, (7 9 0) 2:0xc0, (6 3 1) 2:0xc0 {
        bif_doorbell_aper_en 0 0;
    }
    BIF_BX0_BIF_DOORBELL_INT_CNTL @ (4 3 0) 2:0xfe, (7 9 0) 2:0xfe, (6 3 1) 2:0xfe {
        doorbell_interrupt_status 0 0; ras_cntlr_interrupt_status 1 1;
        ras_athub_err_event_interrupt_status 2 2; doorbell_interrupt_clear 16 16;
        ras_cntlr_interrupt_clear 17 17; ras_athub_err_event_interrupt_clear 18 18;
        ras_cntlr_err_event_interrupt_enable 23 23; doorbell_interrupt_disable 24 24;
        ras_cntlr_interrupt_disable 25 25; ras_athub_err_event_interrupt_disable 26 26;
        set_db_intr_status_when_rb_enable 28 28; set_ioh_ras_intr_status_when_rb_enable 29 29;
        set_ath_ras_intr_status_when_rb_enable 30 30; timeout_err_event_interrupt_enable 31 31;
    }
    BIF_BX_PF0_GPU_HDP_FLUSH_REQ @ (4 3 0) 2:0x106, (7 9 0) 2:0x106, (6 3 1) 2:0x106 {
        cp0 0 0; cp1 1 1; cp2 2 2; cp3 3 3; cp4 4 4; cp5 5 5; cp6 6 6; cp7 7 7; cp8 8 8; cp9 9 9;
        sdma0 10 10; sdma1 11 11; rsvd_eng0 12 12; rsvd_eng1 13 13; rsvd_eng2 14 14; rsvd_eng3 15 15;
        rsvd_eng4 16 16; rsvd_eng5 17 17; rsvd_eng6 18 18; rsvd_eng7 19 19; rsvd_eng8 20 20;
        rsvd_eng9 21 21; rsvd_eng10 22 22; rsvd_eng11 23 23; rsvd_eng12 24 24; rsvd_eng13 25 25;
        rsvd_eng14 26 26; rsvd_eng15 27 27; rsvd_eng16 28 28; rsvd_eng17 29 29; rsvd_eng18 30 30;
        rsvd_eng19 31 31;
    }
    BIF_BX_PF0_GPU_HDP_FLUSH_DONE @ (4 3 0) 2:0x107, (7 9 0) 2:0x107, (6 3 1) 2:0x107 {
        cp0 0 0; cp1 1 1; cp2 2 2; cp3 3 3; cp4 4 4; cp5 5 5; cp6 6 6; cp7 7 7; cp8 8 8; cp9 9 9;
        sdma0 10 10; sdma1 11 11; rsvd_eng0 12 12; rsvd_eng1 13 13; rsvd_eng2 14 14; rsvd_eng3 15 15;
        rsvd_eng4 16 16; rsvd_eng5 17 17; rsvd_eng6 18 18; rsvd_eng7 19 19; rsvd_eng8 20 20;
        rsvd_eng9 21 21; rsvd_eng10 22 22; rsvd_eng11 23 23; rsvd_eng12 24 24; rsvd_eng13 25 25;
        rsvd_eng14 26 26; rsvd_eng15 27 27; rsvd_eng16 28 28; rsvd_eng17 29 29; rsvd_eng18 30 30;
        rsvd_eng19 31 31;
    }
    BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL @ (4 3 0) 2:0x12d, (7 9 0) 2:0x12d, (6 3 1) 2:0x12d {
        address 18 2;
    }
    S2A_DOORBELL_ENTRY_0_CTRL @ (4 3 0) 3:0x4f7640, (7 9 0) 5:0x7a80, (6 3 1) 2:0x1cb {
        s2a_doorbell_port0_enable 0 0; s2a_doorbell_port0_awid 5 1; s2a_doorbell_port0_fence_enable 6 6;
        s2a_doorbell_port0_range_offset 16 7; s2a_doorbell_port0_range_size 24 17;
        s2a_doorbell_port0_64bit_support_dis 25 25; s2a_doorbell_port0_need_deduct_range_offset 26 26;
        s2a_doorbell_port0_drop_en 27 27 GFX12; s2a_doorbell_port0_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_1_CTRL @ (4 3 0) 3:0x4f7641, (7 9 0) 5:0x7a81, (6 3 1) 2:0x1cc {
        s2a_doorbell_port1_enable 0 0; s2a_doorbell_port1_awid 5 1; s2a_doorbell_port1_fence_enable 6 6;
        s2a_doorbell_port1_range_offset 16 7; s2a_doorbell_port1_range_size 24 17;
        s2a_doorbell_port1_64bit_support_dis 25 25; s2a_doorbell_port1_need_deduct_range_offset 26 26;
        s2a_doorbell_port1_drop_en 27 27 GFX12; s2a_doorbell_port1_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_2_CTRL @ (4 3 0) 3:0x4f7642, (7 9 0) 5:0x7a82, (6 3 1) 2:0x1cd {
        s2a_doorbell_port2_enable 0 0; s2a_doorbell_port2_awid 5 1; s2a_doorbell_port2_fence_enable 6 6;
        s2a_doorbell_port2_range_offset 16 7; s2a_doorbell_port2_range_size 24 17;
        s2a_doorbell_port2_64bit_support_dis 25 25; s2a_doorbell_port2_need_deduct_range_offset 26 26;
        s2a_doorbell_port2_drop_en 27 27 GFX12; s2a_doorbell_port2_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_3_CTRL @ (4 3 0) 3:0x4f7643, (7 9 0) 5:0x7a83, (6 3 1) 2:0x1ce {
        s2a_doorbell_port3_enable 0 0; s2a_doorbell_port3_awid 5 1; s2a_doorbell_port3_fence_enable 6 6;
        s2a_doorbell_port3_range_offset 16 7; s2a_doorbell_port3_range_size 24 17;
        s2a_doorbell_port3_64bit_support_dis 25 25; s2a_doorbell_port3_need_deduct_range_offset 26 26;
        s2a_doorbell_port3_drop_en 27 27 GFX12; s2a_doorbell_port3_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_4_CTRL @ (4 3 0) 3:0x4f7644, (7 9 0) 5:0x7a84, (6 3 1) 2:0x1cf {
        s2a_doorbell_port4_enable 0 0; s2a_doorbell_port4_awid 5 1; s2a_doorbell_port4_fence_enable 6 6;
        s2a_doorbell_port4_range_offset 16 7; s2a_doorbell_port4_range_size 24 17;
        s2a_doorbell_port4_64bit_support_dis 25 25; s2a_doorbell_port4_need_deduct_range_offset 26 26;
        s2a_doorbell_port4_drop_en 27 27 GFX12; s2a_doorbell_port4_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_5_CTRL @ (4 3 0) 3:0x4f7645, (7 9 0) 5:0x7a85, (6 3 1) 2:0x1d0 {
        s2a_doorbell_port5_enable 0 0; s2a_doorbell_port5_awid 5 1; s2a_doorbell_port5_fence_enable 6 6;
        s2a_doorbell_port5_range_offset 16 7; s2a_doorbell_port5_range_size 24 17;
        s2a_doorbell_port5_64bit_support_dis 25 25; s2a_doorbell_port5_need_deduct_range_offset 26 26;
        s2a_doorbell_port5_drop_en 27 27 GFX12; s2a_doorbell_port5_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_6_CTRL @ (4 3 0) 3:0x4f7646, (7 9 0) 5:0x7a86, (6 3 1) 2:0x1d1 {
        s2a_doorbell_port6_enable 0 0; s2a_doorbell_port6_awid 5 1; s2a_doorbell_port6_fence_enable 6 6;
        s2a_doorbell_port6_range_offset 16 7; s2a_doorbell_port6_range_size 24 17;
        s2a_doorbell_port6_64bit_support_dis 25 25; s2a_doorbell_port6_need_deduct_range_offset 26 26;
        s2a_doorbell_port6_drop_en 27 27 GFX12; s2a_doorbell_port6_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_7_CTRL @ (4 3 0) 3:0x4f7647, (7 9 0) 5:0x7a87, (6 3 1) 2:0x1d2 {
        s2a_doorbell_port7_enable 0 0; s2a_doorbell_port7_awid 5 1; s2a_doorbell_port7_fence_enable 6 6;
        s2a_doorbell_port7_range_offset 16 7; s2a_doorbell_port7_range_size 24 17;
        s2a_doorbell_port7_64bit_support_dis 25 25; s2a_doorbell_port7_need_deduct_range_offset 26 26;
        s2a_doorbell_port7_drop_en 27 27 GFX12; s2a_doorbell_port7_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_8_CTRL @ (4 3 0) 3:0x4f7648, (7 9 0) 5:0x7a88, (6 3 1) 2:0x1d3 {
        s2a_doorbell_port8_enable 0 0; s2a_doorbell_port8_awid 5 1; s2a_doorbell_port8_fence_enable 6 6;
        s2a_doorbell_port8_range_offset 16 7; s2a_doorbell_port8_range_size 24 17;
        s2a_doorbell_port8_64bit_support_dis 25 25; s2a_doorbell_port8_need_deduct_range_offset 26 26;
        s2a_doorbell_port8_drop_en 27 27 GFX12; s2a_doorbell_port8_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_9_CTRL @ (4 3 0) 3:0x4f7649, (7 9 0) 5:0x7a89, (6 3 1) 2:0x1d4 {
        s2a_doorbell_port9_enable 0 0; s2a_doorbell_port9_awid 5 1; s2a_doorbell_port9_fence_enable 6 6;
        s2a_doorbell_port9_range_offset 16 7; s2a_doorbell_port9_range_size 24 17;
        s2a_doorbell_port9_64bit_support_dis 25 25; s2a_doorbell_port9_need_deduct_range_offset 26 26;
        s2a_doorbell_port9_drop_en 27 27 GFX12; s2a_doorbell_port9_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_10_CTRL @ (4 3 0) 3:0x4f764a, (7 9 0) 5:0x7a8a, (6 3 1) 2:0x1d5 {
        s2a_doorbell_port10_enable 0 0; s2a_doorbell_port10_awid 5 1; s2a_doorbell_port10_fence_enable 6 6;
        s2a_doorbell_port10_range_offset 16 7; s2a_doorbell_port10_range_size 24 17;
        s2a_doorbell_port10_64bit_support_dis 25 25; s2a_doorbell_port10_need_deduct_range_offset 26 26;
        s2a_doorbell_port10_drop_en 27 27 GFX12; s2a_doorbell_port10_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_11_CTRL @ (4 3 0) 3:0x4f764b, (7 9 0) 5:0x7a8b, (6 3 1) 2:0x1d6 {
        s2a_doorbell_port11_enable 0 0; s2a_doorbell_port11_awid 5 1; s2a_doorbell_port11_fence_enable 6 6;
        s2a_doorbell_port11_range_offset 16 7; s2a_doorbell_port11_range_size 24 17;
        s2a_doorbell_port11_64bit_support_dis 25 25; s2a_doorbell_port11_need_deduct_range_offset 26 26;
        s2a_doorbell_port11_drop_en 27 27 GFX12; s2a_doorbell_port11_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_12_CTRL @ (4 3 0) 3:0x4f764c, (7 9 0) 5:0x7a8c, (6 3 1) 2:0x1d7 {
        s2a_doorbell_port12_enable 0 0; s2a_doorbell_port12_awid 5 1; s2a_doorbell_port12_fence_enable 6 6;
        s2a_doorbell_port12_range_offset 16 7; s2a_doorbell_port12_range_size 24 17;
        s2a_doorbell_port12_64bit_support_dis 25 25; s2a_doorbell_port12_need_deduct_range_offset 26 26;
        s2a_doorbell_port12_drop_en 27 27 GFX12; s2a_doorbell_port12_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_13_CTRL @ (4 3 0) 3:0x4f764d, (7 9 0) 5:0x7a8d, (6 3 1) 2:0x1d8 {
        s2a_doorbell_port13_enable 0 0; s2a_doorbell_port13_awid 5 1; s2a_doorbell_port13_fence_enable 6 6;
        s2a_doorbell_port13_range_offset 16 7; s2a_doorbell_port13_range_size 24 17;
        s2a_doorbell_port13_64bit_support_dis 25 25; s2a_doorbell_port13_need_deduct_range_offset 26 26;
        s2a_doorbell_port13_drop_en 27 27 GFX12; s2a_doorbell_port13_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_14_CTRL @ (4 3 0) 3:0x4f764e, (7 9 0) 5:0x7a8e, (6 3 1) 2:0x1d9 {
        s2a_doorbell_port14_enable 0 0; s2a_doorbell_port14_awid 5 1; s2a_doorbell_port14_fence_enable 6 6;
        s2a_doorbell_port14_range_offset 16 7; s2a_doorbell_port14_range_size 24 17;
        s2a_doorbell_port14_64bit_support_dis 25 25; s2a_doorbell_port14_need_deduct_range_offset 26 26;
        s2a_doorbell_port14_drop_en 27 27 GFX12; s2a_doorbell_port14_awaddr_31_28_value 31 28;
    }
    S2A_DOORBELL_ENTRY_15_CTRL @ (4 3 0) 3:0x4f764f, (7 9 0) 5:0x7a8f, (6 3 1) 2:0x1da {
        s2a_doorbell_port15_enable 0 0; s2a_doorbell_port15_awid 5 1; s2a_doorbell_port15_fence_enable 6 6;
        s2a_doorbell_port15_range_offset 16 7; s2a_doorbell_port15_range_size 24 17;
        s2a_doorbell_port15_64bit_support_dis 25 25; s2a_doorbell_port15_need_deduct_range_offset 26 26;
        s2a_doorbell_port15_drop_en 27 27 GFX12; s2a_doorbell_port15_awaddr_31_28_value 31 28;
    }
    RCC_DEV0_EPF2_STRAP2 @ (4 3 0) 5:0xd102, (7 9 0) 8:0xd102, (6 3 1) 5:0xd102 {
        strap_no_soft_reset_dev0_f2 7 7 GFX11_UP; strap_resize_bar_en_dev0_f2 8 8 GFX11_UP;
        strap_max_pasid_width_dev0_f2 13 9 GFX11_UP; strap_msi_pervector_mask_cap_dev0_f2 14 14 GFX11_UP;
        strap_aer_en_dev0_f2 16 16 GFX11_UP; strap_acs_en_dev0_f2 17 17 GFX11_UP;
        strap_cpl_abort_err_en_dev0_f2 20 20 GFX11_UP; strap_dpa_en_dev0_f2 21 21 GFX11_UP;
        strap_vc_en_dev0_f2 23 23 GFX11; strap_msi_multi_cap_dev0_f2 26 24 GFX11_UP;
        strap_pasid_en_dev0_f2 28 28 GFX11_UP; strap_pasid_exe_permission_supported_dev0_f2 29 29 GFX11_UP;
        strap_pasid_global_invalidate_supported_dev0_f2 30 30 GFX11_UP;
        strap_pasid_priv_mode_supported_dev0_f2 31 31 GFX11_UP;
    }
    XCC_DOORBELL_FENCE @ (7 9 0) 5:0x740c {
        xcc_0_doorbell_fence 0 0; xcc_1_doorbell_fence 1 1; xcc_2_doorbell_fence 2 2;
        xcc_3_doorbell_fence 3 3; xcc_4_doorbell_fence 4 4; xcc_5_doorbell_fence 5 5;
        xcc_6_doorbell_fence 6 6; xcc_7_doorbell_fence 7 7; shub_slv_mode 16 16; rmote_cp_sent 17 17;
        cp_0_sent 18 18; cp_1_sent 19 19; cp_2_sent 20 20; cp_3_sent 21 21; cp_4_sent 22 22;
        cp_5_sent 23 23; cp_6_sent 24 24; cp_7_sent 25 25; remote_client_sent 26 26;
        remote_client_clr_pending 27 27;
    }
    DOORBELL0_CTRL_ENTRY_0 @ (7 9 0) 8:0xcd00 {
        bif_doorbell0_range_offset_entry 9 0; bif_doorbell0_range_size_entry 14 10;
        doorbell0_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_1 @ (7 9 0) 8:0xcd01 {
        bif_doorbell1_range_offset_entry 9 0; bif_doorbell1_range_size_entry 14 10;
        doorbell1_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_2 @ (7 9 0) 8:0xcd02 {
        bif_doorbell2_range_offset_entry 9 0; bif_doorbell2_range_size_entry 14 10;
        doorbell2_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_3 @ (7 9 0) 8:0xcd03 {
        bif_doorbell3_range_offset_entry 9 0; bif_doorbell3_range_size_entry 14 10;
        doorbell3_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_4 @ (7 9 0) 8:0xcd04 {
        bif_doorbell4_range_offset_entry 9 0; bif_doorbell4_range_size_entry 14 10;
        doorbell4_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_5 @ (7 9 0) 8:0xcd05 {
        bif_doorbell5_range_offset_entry 9 0; bif_doorbell5_range_size_entry 14 10;
        doorbell5_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_6 @ (7 9 0) 8:0xcd06 {
        bif_doorbell6_range_offset_entry 9 0; bif_doorbell6_range_size_entry 14 10;
        doorbell6_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_7 @ (7 9 0) 8:0xcd07 {
        bif_doorbell7_range_offset_entry 9 0; bif_doorbell7_range_size_entry 14 10;
        doorbell7_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_8 @ (7 9 0) 8:0xcd08 {
        bif_doorbell8_range_offset_entry 9 0; bif_doorbell8_range_size_entry 14 10;
        doorbell8_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_9 @ (7 9 0) 8:0xcd09 {
        bif_doorbell9_range_offset_entry 9 0; bif_doorbell9_range_size_entry 14 10;
        doorbell9_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_10 @ (7 9 0) 8:0xcd0a {
        bif_doorbell10_range_offset_entry 9 0; bif_doorbell10_range_size_entry 14 10;
        doorbell10_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_11 @ (7 9 0) 8:0xcd0b {
        bif_doorbell11_range_offset_entry 9 0; bif_doorbell11_range_size_entry 14 10;
        doorbell11_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_12 @ (7 9 0) 8:0xcd0c {
        bif_doorbell12_range_offset_entry 9 0; bif_doorbell12_range_size_entry 14 10;
        doorbell12_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_13 @ (7 9 0) 8:0xcd0d {
        bif_doorbell13_range_offset_entry 9 0; bif_doorbell13_range_size_entry 14 10;
        doorbell13_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_14 @ (7 9 0) 8:0xcd0e {
        bif_doorbell14_range_offset_entry 9 0; bif_doorbell14_range_size_entry 14 10;
        doorbell14_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_15 @ (7 9 0) 8:0xcd0f {
        bif_doorbell15_range_offset_entry 9 0; bif_doorbell15_range_size_entry 14 10;
        doorbell15_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_16 @ (7 9 0) 8:0xcd10 {
        bif_doorbell16_range_offset_entry 9 0; bif_doorbell16_range_size_entry 14 10;
        doorbell16_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_17 @ (7 9 0) 8:0xcd11 {
        bif_doorbell17_range_offset_entry 9 0; bif_doorbell17_range_size_entry 14 10;
        doorbell17_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_18 @ (7 9 0) 8:0xcd12 {
        bif_doorbell18_range_offset_entry 9 0; bif_doorbell18_range_size_entry 14 10;
        doorbell18_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_19 @ (7 9 0) 8:0xcd13 {
        bif_doorbell19_range_offset_entry 9 0; bif_doorbell19_range_size_entry 14 10;
        doorbell19_fence_enable_entry 20 16;
    }
    DOORBELL0_CTRL_ENTRY_20 @ (7 9 0) 8:0xcd14 {
        bif_doorbell20_range_offset_entry 9 0; bif_doorbell20_range_size_entry 14 10;
        doorbell20_fence_enable_entry 20 16;
    }
    BIFC_DOORBELL_ACCESS_EN_PF @ (7 9 0) 8:0xcf6e {
        bifc_doorbell_access_en_pf 19 0;
    }
    BIFC_GFX_INT_MONITOR_MASK @ (7 9 0) 8:0xe8ad {}
}
