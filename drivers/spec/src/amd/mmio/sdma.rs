//! Copy engines that are blocks of their own.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/sdma/sdma_4_4_2, `_offset.h` and `_sh_mask.h`.

use super::registers;

registers! {
    SDMA_UTCL1_TIMEOUT @ (4 4 2) 0:0x47 {
        rd_xnack_limit 15 0; wr_xnack_limit 31 16;
    }
    SDMA_CNTL @ (4 4 2) 0:0x6d {
        trap_enable 0 0; utc_l1_enable 1 1; sem_wait_int_enable 2 2; data_swap_enable 3 3;
        fence_swap_enable 4 4; midcmd_preempt_enable 5 5; midcmd_expire_enable 6 6;
        reg_write_protect_int_enable 7 7; invalid_doorbell_int_enable 8 8; vm_hole_int_enable 9 9;
        dram_ecc_int_enable 10 10; page_retry_timeout_int_enable 11 11; page_null_int_enable 12 12;
        page_fault_int_enable 13 13; nack_gen_err_int_enable 14 14; midcmd_worldswitch_enable 17 17;
        auto_ctxsw_enable 18 18; drm_restore_enable 19 19; ctxempty_int_enable 28 28;
        frozen_int_enable 29 29; ib_preempt_int_enable 30 30; rb_preempt_int_enable 31 31;
    }
    SDMA_GFX_RB_CNTL @ (4 4 2) 0:0x80 {
        rb_enable 0 0; rb_size 5 1; rb_swap_enable 9 9; rptr_writeback_enable 12 12;
        rptr_writeback_swap_enable 13 13; rptr_writeback_timer 20 16; rb_priv 23 23; rb_vmid 27 24;
    }
    SDMA_GFX_RB_BASE @ (4 4 2) 0:0x81 {}
    SDMA_GFX_RB_BASE_HI @ (4 4 2) 0:0x82 {
        addr 23 0;
    }
    SDMA_GFX_RB_RPTR @ (4 4 2) 0:0x83 {}
    SDMA_GFX_RB_RPTR_HI @ (4 4 2) 0:0x84 {}
    SDMA_GFX_RB_WPTR @ (4 4 2) 0:0x85 {}
    SDMA_GFX_RB_WPTR_HI @ (4 4 2) 0:0x86 {}
    SDMA_GFX_RB_WPTR_POLL_CNTL @ (4 4 2) 0:0x87 {
        enable 0 0; swap_enable 1 1; f32_poll_enable 2 2; frequency 15 4; idle_poll_count 31 16;
    }
    SDMA_GFX_RB_RPTR_ADDR_HI @ (4 4 2) 0:0x88 {}
    SDMA_GFX_RB_RPTR_ADDR_LO @ (4 4 2) 0:0x89 {
        rptr_wb_idle 0 0; addr 31 2;
    }
    SDMA_GFX_IB_CNTL @ (4 4 2) 0:0x8a {
        ib_enable 0 0; ib_swap_enable 4 4; switch_inside_ib 8 8; cmd_vmid 19 16; ib_priv 31 31;
    }
    SDMA_GFX_IB_RPTR @ (4 4 2) 0:0x8b {
        offset 21 2;
    }
    SDMA_GFX_IB_OFFSET @ (4 4 2) 0:0x8c {
        offset 21 2;
    }
    SDMA_GFX_IB_BASE_LO @ (4 4 2) 0:0x8d {
        addr 31 5;
    }
    SDMA_GFX_IB_BASE_HI @ (4 4 2) 0:0x8e {}
    SDMA_GFX_IB_SIZE @ (4 4 2) 0:0x8f {
        size 19 0;
    }
    SDMA_GFX_SKIP_CNTL @ (4 4 2) 0:0x90 {
        skip_count 19 0;
    }
    SDMA_GFX_CONTEXT_STATUS @ (4 4 2) 0:0x91 {
        selected 0 0; idle 2 2; expired 3 3; exception 6 4; ctxsw_able 7 7; ctxsw_ready 8 8; preempted 9 9;
        preempt_disable 10 10;
    }
    SDMA_GFX_DOORBELL @ (4 4 2) 0:0x92 {
        enable 28 28; captured 30 30;
    }
    SDMA_GFX_CONTEXT_CNTL @ (4 4 2) 0:0x93 {
        resume_ctx 16 16; session_sel 27 24;
    }
    SDMA_GFX_STATUS @ (4 4 2) 0:0xa8 {
        wptr_update_fail_count 7 0; wptr_update_pending 8 8;
    }
    SDMA_GFX_DOORBELL_LOG @ (4 4 2) 0:0xa9 {
        be_error 0 0; data 31 2;
    }
    SDMA_GFX_WATERMARK @ (4 4 2) 0:0xaa {
        rd_outstanding 11 0; wr_outstanding 25 16;
    }
    SDMA_GFX_DOORBELL_OFFSET @ (4 4 2) 0:0xab {
        offset 27 2;
    }
    SDMA_GFX_CSA_ADDR_LO @ (4 4 2) 0:0xac {
        addr 31 2;
    }
    SDMA_GFX_CSA_ADDR_HI @ (4 4 2) 0:0xad {}
    SDMA_GFX_IB_SUB_REMAIN @ (4 4 2) 0:0xaf {
        size 19 0;
    }
    SDMA_GFX_PREEMPT @ (4 4 2) 0:0xb0 {
        ib_preempt 0 0;
    }
    SDMA_GFX_DUMMY_REG @ (4 4 2) 0:0xb1 {}
    SDMA_GFX_RB_WPTR_POLL_ADDR_HI @ (4 4 2) 0:0xb2 {}
    SDMA_GFX_RB_WPTR_POLL_ADDR_LO @ (4 4 2) 0:0xb3 {
        addr 31 2;
    }
    SDMA_GFX_RB_AQL_CNTL @ (4 4 2) 0:0xb4 {
        aql_enable 0 0; aql_packet_size 7 1; packet_step 15 8;
    }
    SDMA_GFX_MINOR_PTR_UPDATE @ (4 4 2) 0:0xb5 {
        enable 0 0;
    }
    SDMA_GFX_MIDCMD_DATA0 @ (4 4 2) 0:0xc0 {}
    SDMA_GFX_MIDCMD_DATA1 @ (4 4 2) 0:0xc1 {}
    SDMA_GFX_MIDCMD_DATA2 @ (4 4 2) 0:0xc2 {}
    SDMA_GFX_MIDCMD_DATA3 @ (4 4 2) 0:0xc3 {}
    SDMA_GFX_MIDCMD_DATA4 @ (4 4 2) 0:0xc4 {}
    SDMA_GFX_MIDCMD_DATA5 @ (4 4 2) 0:0xc5 {}
    SDMA_GFX_MIDCMD_DATA6 @ (4 4 2) 0:0xc6 {}
    SDMA_GFX_MIDCMD_DATA7 @ (4 4 2) 0:0xc7 {}
    SDMA_GFX_MIDCMD_DATA8 @ (4 4 2) 0:0xc8 {}
    SDMA_GFX_MIDCMD_DATA9 @ (4 4 2) 0:0xc9 {}
    SDMA_GFX_MIDCMD_DATA10 @ (4 4 2) 0:0xca {}
    SDMA_GFX_MIDCMD_CNTL @ (4 4 2) 0:0xcb {
        data_valid 0 0; copy_mode 1 1; split_state 7 4; allow_preempt 8 8;
    }
}
