//! The graphics and compute block, with the copy engines that are part of it from GFX11 on.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/gc/gc_{9_4_3,11_0_0,11_0_3,12_0_0}, `_offset.h` and
//! `_sh_mask.h`.

use super::registers;

registers! {
    GRBM_CNTL @ (9 4 3) 0:0x0, (11 0 0) 0:0xda0, (11 0 3) 0:0xda0, (12 0 0) 0:0xda0 {
        read_timeout 7 0 TO_GFX11; read_timeout 11 0 GFX12; sed_read_timeout 27 16 GFX12;
        report_last_rderr 31 31;
    }
    GRBM_STATUS2 @ (9 4 3) 0:0x2, (11 0 0) 0:0xda2, (11 0 3) 0:0xda2, (12 0 0) 0:0xda2 {
        me0pipe1_cmdfifo_avail 3 0; me0pipe1_cf_rq_pending 4 4; me0pipe1_pf_rq_pending 5 5;
        me1pipe0_rq_pending 6 6; me1pipe1_rq_pending 7 7; me1pipe2_rq_pending 8 8 TO_GFX11;
        me1pipe3_rq_pending 9 9 TO_GFX11; me2pipe0_rq_pending 10 10 GFX9; me2pipe1_rq_pending 11 11 GFX9;
        me2pipe2_rq_pending 12 12 GFX9; me2pipe3_rq_pending 13 13 GFX9; rlc_rq_pending 14 14;
        utcl2_busy 15 15; ea_busy 16 16; rmi_busy 17 17 TO_GFX11; utcl2_rq_pending 18 18;
        cpf_rq_pending 19 19 GFX9; sdma_sch_rq_pending 19 19 GFX11_UP; ea_link_busy 20 20;
        cane_busy 21 21 GFX9; sdma_busy 21 21 GFX11_UP; cane_link_busy 22 22 GFX9;
        sdma0_rq_pending 22 22 GFX11_UP; sdma1_rq_pending 23 23 GFX11_UP; rlc_busy 24 24 GFX9;
        tc_busy 25 25 GFX9; tcc_cc_resident 26 26 GFX9; rlc_busy 26 26 GFX11_UP; tcp_busy 27 27 GFX11_UP;
        cpf_busy 28 28; cpc_busy 29 29; cpg_busy 30 30; cpaxi_busy 31 31 TO_GFX11;
    }
    GRBM_STATUS @ (9 4 3) 0:0x4, (11 0 0) 0:0xda4, (11 0 3) 0:0xda4, (12 0 0) 0:0xda4 {
        me0pipe0_cmdfifo_avail 3 0; rsmu_rq_pending 5 5 TO_GFX11; sdma_rq_pending 6 6 GFX11_UP;
        me0pipe0_cf_rq_pending 7 7; me0pipe0_pf_rq_pending 8 8; gds_dma_rq_pending 9 9 TO_GFX11;
        sc_clean 11 11 GFX12; db_clean 12 12; cb_clean 13 13; ta_busy 14 14; gds_busy 15 15 TO_GFX11;
        wd_busy_no_dma 16 16 GFX9; ge_busy_no_dma 16 16 GFX11_UP; vgt_busy 17 17 GFX9;
        ia_busy_no_dma 18 18 GFX9; ia_busy 19 19 GFX9; sx_busy 20 20; wd_busy 21 21 GFX9;
        ge_busy 21 21 GFX11_UP; spi_busy 22 22; bci_busy 23 23; sc_busy 24 24; pa_busy 25 25;
        db_busy 26 26; any_active 27 27 GFX11_UP; cp_coherency_busy 28 28; cp_busy 29 29; cb_busy 30 30;
        gui_active 31 31;
    }
    GRBM_SOFT_RESET @ (9 4 3) 0:0x8, (11 0 0) 0:0xda8, (11 0 3) 0:0xda8, (12 0 0) 0:0xda8 {
        soft_reset_cp 0 0; soft_reset_rlc 2 2; soft_reset_utcl2 15 15 GFX11_UP; soft_reset_gfx 16 16;
        soft_reset_cpf 17 17; soft_reset_cpc 18 18; soft_reset_cpg 19 19; soft_reset_cac 20 20;
        soft_reset_cane 21 21 GFX9; soft_reset_cpaxi 21 21 GFX11; soft_reset_ea 22 22;
        soft_reset_utcl2 23 23 GFX9; soft_reset_sdma0 23 23 GFX11_UP; soft_reset_sdma1 24 24 GFX11_UP;
    }
    GRBM_GFX_CNTL @ (9 4 3) 0:0x22, (11 0 0) 1:0x900, (11 0 3) 1:0x900, (12 0 0) 1:0x900 {
        pipeid 1 0; meid 3 2; vmid 7 4; queueid 10 8; ctxid 13 11 GFX11_UP;
    }
    CP_MEC_CNTL @ (9 4 3) 0:0x8d, (11 0 0) 1:0x802, (11 0 3) 1:0x802, (12 0 0) 1:0x802 {
        mec_invalidate_icache 4 4 GFX9; mec_me1_pipe0_reset 16 16; mec_me1_pipe1_reset 17 17;
        mec_me1_pipe2_reset 18 18 TO_GFX11; mec_me1_pipe3_reset 19 19 TO_GFX11;
        mec_me2_pipe0_reset 20 20 TO_GFX11; mec_me2_pipe1_reset 21 21 TO_GFX11;
        mec_me2_pipe2_reset 22 22 GFX11; mec_me2_pipe3_reset 23 23 GFX11;
        mec_invalidate_icache 27 27 GFX11_UP; mec_me2_halt 28 28 TO_GFX11; mec_me2_step 29 29 TO_GFX11;
        mec_me1_halt 30 30; mec_me1_step 31 31;
    }
    CP_STAT @ (9 4 3) 0:0x1a0, (11 0 0) 0:0xf40, (11 0 3) 0:0xf40, (12 0 0) 0:0xf40 {
        roq_db_busy 5 5 GFX11_UP; roq_ce_db_busy 6 6 GFX11_UP; roq_ring_busy 9 9; roq_indirect1_busy 10 10;
        roq_indirect2_busy 11 11; roq_state_busy 12 12; dc_busy 13 13; utcl2iu_busy 14 14; pfp_busy 15 15;
        meq_busy 16 16; me_busy 17 17; query_busy 18 18; semaphore_busy 19 19 TO_GFX11;
        interrupt_busy 20 20; surface_sync_busy 21 21; dma_busy 22 22; rciu_busy 23 23;
        scratch_ram_busy 24 24; gcriu_busy 25 25 GFX11_UP; ce_busy 26 26; tciu_busy 27 27;
        roq_ce_ring_busy 28 28; roq_ce_indirect1_busy 29 29; roq_ce_indirect2_busy 30 30; cp_busy 31 31;
    }
    CP_ME_CNTL @ (9 4 3) 0:0x1b6, (11 0 0) 1:0x803, (11 0 3) 1:0x803, (12 0 0) 1:0x803 {
        ce_invalidate_icache 4 4; pfp_invalidate_icache 6 6; me_invalidate_icache 8 8;
        pfp_pipe0_disable 12 12 GFX11_UP; pfp_pipe1_disable 13 13 GFX11_UP;
        me_pipe0_disable 14 14 GFX11_UP; me_pipe1_disable 15 15 GFX11_UP; ce_pipe0_reset 16 16;
        ce_pipe1_reset 17 17; pfp_pipe0_reset 18 18; pfp_pipe1_reset 19 19; me_pipe0_reset 20 20;
        me_pipe1_reset 21 21; ce_halt 24 24; ce_step 25 25; pfp_halt 26 26; pfp_step 27 27; me_halt 28 28;
        me_step 29 29;
    }
    CP_RB_WPTR_POLL_CNTL @ (9 4 3) 0:0x1c2, (11 0 0) 0:0xf62, (11 0 3) 0:0xf62, (12 0 0) 0:0xf62 {
        poll_frequency 15 0; idle_poll_count 31 16;
    }
    SH_MEM_BASES @ (9 4 3) 0:0x30a, (11 0 0) 1:0x9e3, (11 0 3) 1:0x9e3, (12 0 0) 1:0x9e3 {
        private_base 15 0; shared_base 31 16;
    }
    SH_MEM_CONFIG @ (9 4 3) 0:0x30d, (11 0 0) 1:0x9e4, (11 0 3) 1:0x9e4, (12 0 0) 1:0x9e4 {
        address_mode 0 0; alignment_mode 3 2 GFX11_UP; alignment_mode 4 3 GFX9; f8_mode 8 8 GFX9_12;
        precision_mode 9 9 GFX9; retry_disable 12 12 GFX9; private_nv 13 13 GFX9;
        initial_inst_prefetch 15 14 GFX11_UP; icache_use_gl1 18 18 GFX11_UP;
    }
    GB_ADDR_CONFIG @ (9 4 3) 0:0x63e, (11 0 0) 0:0x13de, (11 0 3) 0:0x13de, (12 0 0) 0:0x13de {
        num_pipes 2 0; pipe_interleave_size 5 3; max_compressed_frags 7 6; bank_interleave_size 10 8 GFX9;
        num_pkrs 10 8 GFX11_UP; num_banks 14 12 GFX9; shader_engine_tile_size 18 16 GFX9;
        num_shader_engines 20 19 TO_GFX11; num_shader_engines 22 19 GFX12; num_gpus 23 21 GFX9;
        multi_gpu_tile_size 25 24 GFX9; num_rb_per_se 27 26; row_size 29 28 GFX9;
        num_lower_pipes 30 30 GFX9; se_enable 31 31 GFX9;
    }
    GCVM_L2_CNTL @ (9 4 3) 0:0x820, (11 0 0) 0:0x15bc, (11 0 3) 0:0x15c0, (12 0 0) 0:0x15c4 {
        enable_l2_cache 0 0; enable_l2_fragment_processing 1 1; l2_cache_pte_endian_swap_mode 3 2;
        l2_cache_pde_endian_swap_mode 5 4; l2_pde0_cache_tag_generation_mode 8 8;
        enable_l2_pte_cache_lru_update_by_write 9 9; enable_l2_pde0_cache_lru_update_by_write 10 10;
        enable_default_page_out_to_system_memory 11 11; l2_pde0_cache_split_mode 14 12;
        effective_l2_queue_size 17 15; pde_fault_classification 18 18; context1_identity_access_mode 20 19;
        identity_mode_fragment_size 25 21; l2_pte_cache_addr_mode 27 26;
    }
    GCVM_L2_CNTL2 @ (9 4 3) 0:0x821, (11 0 0) 0:0x15bd, (11 0 3) 0:0x15c1, (12 0 0) 0:0x15c5 {
        invalidate_all_l1_tlbs 0 0; invalidate_l2_cache 1 1; disable_invalidate_per_domain 21 21;
        disable_bigk_cache_optimization 22 22; l2_pte_cache_vmid_mode 25 23; invalidate_cache_mode 27 26;
        pde_cache_effective_size 30 28;
    }
    GCVM_L2_CNTL3 @ (9 4 3) 0:0x822, (11 0 0) 0:0x15be, (11 0 3) 0:0x15c2, (12 0 0) 0:0x15c6 {
        bank_select 5 0; l2_cache_update_mode 7 6; l2_cache_update_wildcard_reference_value 12 8;
        l2_cache_bigk_fragment_size 19 15; l2_cache_bigk_associativity 20 20;
        l2_cache_4k_effective_size 23 21; l2_cache_bigk_effective_size 27 24; l2_cache_4k_force_miss 28 28;
        l2_cache_bigk_force_miss 29 29; pde_cache_force_miss 30 30; l2_cache_4k_associativity 31 31;
    }
    GCVM_L2_PROTECTION_FAULT_CNTL @ (9 4 3) 0:0x827, (11 0 0) 0:0x15c4, (11 0 3) 0:0x15c8, (12 0 0) 0:0x15cc {
        clear_protection_fault_status_addr 0 0; allow_subsequent_protection_fault_status_addr_updates 1 1;
        range_protection_fault_enable_default 2 2; pde0_protection_fault_enable_default 3 3;
        pde1_protection_fault_enable_default 4 4; pde2_protection_fault_enable_default 5 5;
        translate_further_protection_fault_enable_default 6 6; nack_protection_fault_enable_default 7 7;
        dummy_page_protection_fault_enable_default 8 8; valid_protection_fault_enable_default 9 9;
        read_protection_fault_enable_default 10 10; write_protection_fault_enable_default 11 11;
        execute_protection_fault_enable_default 12 12; client_id_no_retry_fault_interrupt 28 13;
        other_client_id_no_retry_fault_interrupt 29 29; crash_on_no_retry_fault 30 30;
        crash_on_retry_fault 31 31;
    }
    GCVM_L2_PROTECTION_FAULT_CNTL2 @ (9 4 3) 0:0x828, (11 0 0) 0:0x15c5, (11 0 3) 0:0x15c9, (12 0 0) 0:0x15cd {
        client_id_prt_fault_interrupt 15 0; other_client_id_prt_fault_interrupt 16 16;
        active_page_migration_pte 17 17; active_page_migration_pte_read_retry 18 18;
        enable_retry_fault_interrupt 19 19;
    }
    GCVM_L2_PROTECTION_FAULT_STATUS @ (9 4 3) 0:0x82b, (11 0 0) 0:0x15c8, (11 0 3) 0:0x15cc {
        more_faults 0 0; walker_error 3 1; permission_faults 7 4; mapping_error 8 8; cid 17 9; rw 18 18;
        atomic 19 19; vmid 23 20; vf 24 24; vfid 28 25; uce 29 29 GFX9; prt 29 29 GFX11; fed 30 30;
    }
    GCVM_L2_PROTECTION_FAULT_ADDR_LO32 @ (9 4 3) 0:0x82c, (11 0 0) 0:0x15c9, (11 0 3) 0:0x15cd, (12 0 0) 0:0x15d2 {}
    GCVM_L2_PROTECTION_FAULT_ADDR_HI32 @ (9 4 3) 0:0x82d, (11 0 0) 0:0x15ca, (11 0 3) 0:0x15ce, (12 0 0) 0:0x15d3 {
        logical_page_addr_hi4 3 0;
    }
    GCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32 @ (9 4 3) 0:0x82e, (11 0 0) 0:0x15cb, (11 0 3) 0:0x15cf, (12 0 0) 0:0x15d4 {}
    GCVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32 @ (9 4 3) 0:0x82f, (11 0 0) 0:0x15cc, (11 0 3) 0:0x15d0, (12 0 0) 0:0x15d5 {
        physical_page_addr_hi4 3 0;
    }
    GCVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32 @ (9 4 3) 0:0x831, (11 0 0) 0:0x15ce, (11 0 3) 0:0x15d2, (12 0 0) 0:0x15d7 {}
    GCVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32 @ (9 4 3) 0:0x832, (11 0 0) 0:0x15cf, (11 0 3) 0:0x15d3, (12 0 0) 0:0x15d8 {
        logical_page_number_hi4 3 0;
    }
    GCVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32 @ (9 4 3) 0:0x833, (11 0 0) 0:0x15d0, (11 0 3) 0:0x15d4, (12 0 0) 0:0x15d9 {}
    GCVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32 @ (9 4 3) 0:0x834, (11 0 0) 0:0x15d1, (11 0 3) 0:0x15d5, (12 0 0) 0:0x15da {
        logical_page_number_hi4 3 0;
    }
    GCVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32 @ (9 4 3) 0:0x835, (11 0 0) 0:0x15d2, (11 0 3) 0:0x15d6, (12 0 0) 0:0x15db {}
    GCVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32 @ (9 4 3) 0:0x836, (11 0 0) 0:0x15d3, (11 0 3) 0:0x15d7, (12 0 0) 0:0x15dc {
        physical_page_offset_hi4 3 0;
    }
    GCVM_L2_CNTL4 @ (9 4 3) 0:0x837, (11 0 0) 0:0x15d4, (11 0 3) 0:0x15d8, (12 0 0) 0:0x15dd {
        l2_cache_4k_partition_count 5 0; vmc_tap_pde_request_physical 6 6;
        vmc_tap_pte_request_physical 7 7; mm_nonrt_ififo_active_transaction_limit 17 8;
        mm_softrt_ififo_active_transaction_limit 27 18; bpm_cgcgls_override 28 28; gc_ch_fgcg_off 29 29;
        vfifo_head_of_queue 30 30; vfifo_visible_bank_silos 31 31 GFX11_UP;
    }
    GCVM_L2_CNTL5 @ (9 4 3) 0:0x838, (11 0 0) 0:0x15da, (11 0 3) 0:0x15de, (12 0 0) 0:0x15e3 {
        walker_fetch_pde_mtype_enable 0 0 GFX9; l2_cache_smallk_fragment_size 4 0 GFX11_UP;
        walker_fetch_pde_noalloc_enable 1 1 GFX9; walker_priority_client_id 13 5 GFX11_UP;
        walker_fetch_pde_noalloc_enable 14 14 GFX11_UP; walker_fetch_pde_mtype_enable 15 15 GFX11_UP;
        utcl2_atc_req_fgcg_off 16 16 GFX11_UP; utcl2_atc_invreq_repeater_fgcg_off 17 17 GFX12;
        utcl2_one_outstanding_atc_invreq 18 18 GFX12;
    }
    GCVM_L2_BANK_SELECT_RESERVED_CID2 @ (9 4 3) 0:0x83b, (11 0 0) 0:0x15d7, (11 0 3) 0:0x15db, (12 0 0) 0:0x15e0 {
        reserved_read_client_id 8 0; reserved_write_client_id 18 10; enable 20 20;
        reserved_cache_invalidation_mode 24 24; reserved_cache_private_invalidation 25 25;
        reserved_cache_fragment_size 30 26 GFX11_UP;
    }
    GCVM_CONTEXT0_CNTL @ (9 4 3) 0:0x860, (11 0 0) 0:0x1688, (11 0 3) 0:0x1698, (12 0 0) 0:0x1624 {
        enable_context 0 0; page_table_depth 2 1; page_table_block_size 6 3 TO_GFX11;
        page_table_block_size 7 4 GFX12; retry_permission_or_invalid_page_fault 7 7 TO_GFX11;
        retry_other_fault 8 8 TO_GFX11; retry_permission_or_invalid_page_fault 8 8 GFX12;
        range_protection_fault_enable_interrupt 9 9 TO_GFX11; retry_other_fault 9 9 GFX12;
        range_protection_fault_enable_default 10 10 TO_GFX11;
        range_protection_fault_enable_interrupt 10 10 GFX12;
        dummy_page_protection_fault_enable_interrupt 11 11 TO_GFX11;
        range_protection_fault_enable_default 11 11 GFX12;
        dummy_page_protection_fault_enable_default 12 12 TO_GFX11;
        dummy_page_protection_fault_enable_interrupt 12 12 GFX12;
        pde0_protection_fault_enable_interrupt 13 13 TO_GFX11;
        dummy_page_protection_fault_enable_default 13 13 GFX12;
        pde0_protection_fault_enable_default 14 14 TO_GFX11;
        pde0_protection_fault_enable_interrupt 14 14 GFX12;
        valid_protection_fault_enable_interrupt 15 15 TO_GFX11;
        pde0_protection_fault_enable_default 15 15 GFX12;
        valid_protection_fault_enable_default 16 16 TO_GFX11;
        valid_protection_fault_enable_interrupt 16 16 GFX12;
        read_protection_fault_enable_interrupt 17 17 TO_GFX11;
        valid_protection_fault_enable_default 17 17 GFX12;
        read_protection_fault_enable_default 18 18 TO_GFX11;
        read_protection_fault_enable_interrupt 18 18 GFX12;
        write_protection_fault_enable_interrupt 19 19 TO_GFX11;
        read_protection_fault_enable_default 19 19 GFX12;
        write_protection_fault_enable_default 20 20 TO_GFX11;
        write_protection_fault_enable_interrupt 20 20 GFX12;
        execute_protection_fault_enable_interrupt 21 21 TO_GFX11;
        write_protection_fault_enable_default 21 21 GFX12;
        execute_protection_fault_enable_default 22 22 TO_GFX11;
        execute_protection_fault_enable_interrupt 22 22 GFX12;
        secure_protection_fault_enable_interrupt 23 23 TO_GFX11;
        execute_protection_fault_enable_default 23 23 GFX12;
        secure_protection_fault_enable_default 24 24 TO_GFX11;
    }
    GCVM_CONTEXT1_CNTL @ (9 4 3) 0:0x861, (11 0 0) 0:0x1689, (11 0 3) 0:0x1699, (12 0 0) 0:0x1625 {
        enable_context 0 0; page_table_depth 2 1; page_table_block_size 6 3 TO_GFX11;
        page_table_block_size 7 4 GFX12; retry_permission_or_invalid_page_fault 7 7 TO_GFX11;
        retry_other_fault 8 8 TO_GFX11; retry_permission_or_invalid_page_fault 8 8 GFX12;
        range_protection_fault_enable_interrupt 9 9 TO_GFX11; retry_other_fault 9 9 GFX12;
        range_protection_fault_enable_default 10 10 TO_GFX11;
        range_protection_fault_enable_interrupt 10 10 GFX12;
        dummy_page_protection_fault_enable_interrupt 11 11 TO_GFX11;
        range_protection_fault_enable_default 11 11 GFX12;
        dummy_page_protection_fault_enable_default 12 12 TO_GFX11;
        dummy_page_protection_fault_enable_interrupt 12 12 GFX12;
        pde0_protection_fault_enable_interrupt 13 13 TO_GFX11;
        dummy_page_protection_fault_enable_default 13 13 GFX12;
        pde0_protection_fault_enable_default 14 14 TO_GFX11;
        pde0_protection_fault_enable_interrupt 14 14 GFX12;
        valid_protection_fault_enable_interrupt 15 15 TO_GFX11;
        pde0_protection_fault_enable_default 15 15 GFX12;
        valid_protection_fault_enable_default 16 16 TO_GFX11;
        valid_protection_fault_enable_interrupt 16 16 GFX12;
        read_protection_fault_enable_interrupt 17 17 TO_GFX11;
        valid_protection_fault_enable_default 17 17 GFX12;
        read_protection_fault_enable_default 18 18 TO_GFX11;
        read_protection_fault_enable_interrupt 18 18 GFX12;
        write_protection_fault_enable_interrupt 19 19 TO_GFX11;
        read_protection_fault_enable_default 19 19 GFX12;
        write_protection_fault_enable_default 20 20 TO_GFX11;
        write_protection_fault_enable_interrupt 20 20 GFX12;
        execute_protection_fault_enable_interrupt 21 21 TO_GFX11;
        write_protection_fault_enable_default 21 21 GFX12;
        execute_protection_fault_enable_default 22 22 TO_GFX11;
        execute_protection_fault_enable_interrupt 22 22 GFX12;
        secure_protection_fault_enable_interrupt 23 23 TO_GFX11;
        execute_protection_fault_enable_default 23 23 GFX12;
        secure_protection_fault_enable_default 24 24 TO_GFX11;
    }
    GCVM_INVALIDATE_ENG17_SEM @ (9 4 3) 0:0x882, (11 0 0) 0:0x16aa, (11 0 3) 0:0x16ba, (12 0 0) 0:0x1646 {
        semaphore 0 0;
    }
    GCVM_INVALIDATE_ENG17_REQ @ (9 4 3) 0:0x894, (11 0 0) 0:0x16bc, (11 0 3) 0:0x16cc, (12 0 0) 0:0x1658 {
        per_vmid_invalidate_req 15 0; flush_type 17 16 GFX9; flush_type 18 16 GFX11_UP;
        invalidate_l2_ptes 18 18 GFX9; invalidate_l2_pde0 19 19 GFX9; invalidate_l2_ptes 19 19 GFX11_UP;
        invalidate_l2_pde1 20 20 GFX9; invalidate_l2_pde0 20 20 GFX11_UP; invalidate_l2_pde2 21 21 GFX9;
        invalidate_l2_pde1 21 21 GFX11_UP; invalidate_l1_ptes 22 22 GFX9;
        invalidate_l2_pde2 22 22 GFX11_UP; clear_protection_fault_status_addr 23 23 GFX9;
        invalidate_l1_ptes 23 23 GFX11_UP; log_request 24 24 GFX9;
        clear_protection_fault_status_addr 24 24 GFX11_UP; log_request 25 25 GFX11_UP;
        invalidate_4k_pages_only 26 26 GFX11_UP;
    }
    GCVM_INVALIDATE_ENG17_ACK @ (9 4 3) 0:0x8a6, (11 0 0) 0:0x16ce, (11 0 3) 0:0x16de, (12 0 0) 0:0x166a {
        per_vmid_invalidate_ack 15 0; semaphore 16 16;
    }
    GCVM_INVALIDATE_ENG0_ADDR_RANGE_LO32 @ (9 4 3) 0:0x8a7, (11 0 0) 0:0x16cf, (11 0 3) 0:0x16df, (12 0 0) 0:0x166b {
        s_bit 0 0; logi_page_addr_range_lo31 31 1;
    }
    GCVM_INVALIDATE_ENG0_ADDR_RANGE_HI32 @ (9 4 3) 0:0x8a8, (11 0 0) 0:0x16d0, (11 0 3) 0:0x16e0, (12 0 0) 0:0x166c {
        logi_page_addr_range_hi5 4 0;
    }
    GCVM_INVALIDATE_ENG1_ADDR_RANGE_LO32 @ (9 4 3) 0:0x8a9, (11 0 0) 0:0x16d1, (11 0 3) 0:0x16e1, (12 0 0) 0:0x166d {
        s_bit 0 0; logi_page_addr_range_lo31 31 1;
    }
    GCVM_INVALIDATE_ENG1_ADDR_RANGE_HI32 @ (9 4 3) 0:0x8aa, (11 0 0) 0:0x16d2, (11 0 3) 0:0x16e2, (12 0 0) 0:0x166e {
        logi_page_addr_range_hi5 4 0;
    }
    GCVM_INVALIDATE_ENG17_ADDR_RANGE_LO32 @ (9 4 3) 0:0x8c9, (11 0 0) 0:0x16f1, (11 0 3) 0:0x1701, (12 0 0) 0:0x168d {
        s_bit 0 0; logi_page_addr_range_lo31 31 1;
    }
    GCVM_INVALIDATE_ENG17_ADDR_RANGE_HI32 @ (9 4 3) 0:0x8ca, (11 0 0) 0:0x16f2, (11 0 3) 0:0x1702, (12 0 0) 0:0x168e {
        logi_page_addr_range_hi5 4 0;
    }
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32 @ (9 4 3) 0:0x8cb, (11 0 0) 0:0x16f3, (11 0 3) 0:0x1703, (12 0 0) 0:0x168f {}
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32 @ (9 4 3) 0:0x8cc, (11 0 0) 0:0x16f4, (11 0 3) 0:0x1704, (12 0 0) 0:0x1690 {}
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32 @ (9 4 3) 0:0x8eb, (11 0 0) 0:0x1713, (11 0 3) 0:0x1723, (12 0 0) 0:0x16af {}
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32 @ (9 4 3) 0:0x8ec, (11 0 0) 0:0x1714, (11 0 3) 0:0x1724, (12 0 0) 0:0x16b0 {
        logical_page_number_hi4 3 0;
    }
    GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32 @ (9 4 3) 0:0x90b, (11 0 0) 0:0x1733, (11 0 3) 0:0x1743, (12 0 0) 0:0x16cf {}
    GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32 @ (9 4 3) 0:0x90c, (11 0 0) 0:0x1734, (11 0 3) 0:0x1744, (12 0 0) 0:0x16d0 {
        logical_page_number_hi4 3 0;
    }
    GCMC_VM_FB_OFFSET @ (9 4 3) 0:0x947, (11 0 0) 0:0x15a7, (11 0 3) 0:0x15a7, (12 0 0) 0:0x15a7 {
        fb_offset 23 0;
    }
    GCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB @ (9 4 3) 0:0x948, (11 0 0) 0:0x15a8, (11 0 3) 0:0x15a8, (12 0 0) 0:0x15a8 {}
    GCMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB @ (9 4 3) 0:0x949, (11 0 0) 0:0x15a9, (11 0 3) 0:0x15a9, (12 0 0) 0:0x15a9 {
        physical_page_number_msb 3 0;
    }
    GCMC_VM_XGMI_LFB_CNTL @ (9 4 3) 0:0x957 {
        pf_lfb_region 3 0; pf_max_region 7 4;
    }
    GCMC_VM_XGMI_LFB_SIZE @ (9 4 3) 0:0x958 {
        pf_lfb_size 16 0;
    }
    GCMC_VM_FB_LOCATION_BASE @ (9 4 3) 0:0x95c, (11 0 0) 0:0x1678, (11 0 3) 0:0x1688, (12 0 0) 0:0x1614 {
        fb_base 23 0;
    }
    GCMC_VM_FB_LOCATION_TOP @ (9 4 3) 0:0x95d, (11 0 0) 0:0x1679, (11 0 3) 0:0x1689, (12 0 0) 0:0x1615 {
        fb_top 23 0;
    }
    GCMC_VM_AGP_TOP @ (9 4 3) 0:0x95e, (11 0 0) 0:0x167a, (11 0 3) 0:0x168a, (12 0 0) 0:0x1616 {
        agp_top 23 0;
    }
    GCMC_VM_AGP_BOT @ (9 4 3) 0:0x95f, (11 0 0) 0:0x167b, (11 0 3) 0:0x168b, (12 0 0) 0:0x1617 {
        agp_bot 23 0;
    }
    GCMC_VM_AGP_BASE @ (9 4 3) 0:0x960, (11 0 0) 0:0x167c, (11 0 3) 0:0x168c, (12 0 0) 0:0x1618 {
        agp_base 23 0;
    }
    GCMC_VM_SYSTEM_APERTURE_LOW_ADDR @ (9 4 3) 0:0x961, (11 0 0) 0:0x167d, (11 0 3) 0:0x168d, (12 0 0) 0:0x1619 {
        logical_addr 29 0;
    }
    GCMC_VM_SYSTEM_APERTURE_HIGH_ADDR @ (9 4 3) 0:0x962, (11 0 0) 0:0x167e, (11 0 3) 0:0x168e, (12 0 0) 0:0x161a {
        logical_addr 29 0;
    }
    GCMC_VM_MX_L1_TLB_CNTL @ (9 4 3) 0:0x963, (11 0 0) 0:0x167f, (11 0 3) 0:0x168f, (12 0 0) 0:0x161b {
        enable_l1_tlb 0 0; system_access_mode 4 3; system_aperture_unmapped_access 5 5;
        enable_advanced_driver_model 6 6; eco_bits 10 7; mtype 12 11 GFX9_12; mtype 13 11 GFX11;
        atc_en 13 13 GFX9;
    }
    TCP_CNTL @ (9 4 3) 0:0xb02, (11 0 0) 1:0x19a2, (11 0 3) 1:0x19a2, (12 0 0) 1:0x19a2 {
        force_hit 0 0; force_miss 1 1; l1_size 3 2 GFX9; store_atomic_collapse_clause_limit 4 2 GFX12;
        flat_buf_hash_enable 4 4 GFX9; flat_buf_cache_swizzle 5 5; td_data_en_override 6 6 GFX11_UP;
        enable_128b_dcc_comp_read_for_indep64 7 7 GFX11; disable_write_combining 9 9 GFX11_UP;
        force_scope_eow 10 10 GFX12; force_temporal_eow 11 11 GFX12; force_eow_total_cnt 20 15;
        force_eow_set_cnt 26 22 GFX11_UP; force_eow_tagram_cnt 27 22 GFX9;
        disable_full_cl_access 27 27 GFX12; disable_z_map 28 28;
        force_order_between_read_write_to_same_address 29 29 GFX11; astc_ve_msb_tolerant 31 31 GFX11_UP;
    }
    COMPUTE_DISPATCH_INITIATOR @ (9 4 3) 0:0xe00, (11 0 0) 0:0x1ba0, (11 0 3) 0:0x1ba0, (12 0 0) 0:0x1ba0 {
        compute_shader_en 0 0; partial_tg_en 1 1; force_start_at_000 2 2; ordered_append_enbl 3 3;
        ordered_append_mode 4 4; use_thread_dimensions 5 5; order_mode 6 6; scalar_l1_inv_vol 10 10;
        vector_l1_inv_vol 11 11; reserved 12 12 TO_GFX11; ping_pong_en 12 12 GFX12;
        tunnel_enable 13 13 GFX11_UP; restore 14 14; cs_w32_en 15 15 GFX11_UP;
        amp_shader_en 16 16 GFX11_UP; disable_disp_prempt_en 17 17 GFX11_UP; interleave_2d_en 18 18 GFX12;
        ttrace_queue_id 31 29 GFX12;
    }
    COMPUTE_START_X @ (9 4 3) 0:0xe04, (11 0 0) 0:0x1ba4, (11 0 3) 0:0x1ba4, (12 0 0) 0:0x1ba4 {}
    COMPUTE_START_Y @ (9 4 3) 0:0xe05, (11 0 0) 0:0x1ba5, (11 0 3) 0:0x1ba5, (12 0 0) 0:0x1ba5 {}
    COMPUTE_START_Z @ (9 4 3) 0:0xe06, (11 0 0) 0:0x1ba6, (11 0 3) 0:0x1ba6, (12 0 0) 0:0x1ba6 {}
    COMPUTE_NUM_THREAD_X @ (9 4 3) 0:0xe07, (11 0 0) 0:0x1ba7, (11 0 3) 0:0x1ba7, (12 0 0) 0:0x1ba7 {
        num_thread_full 12 0 GFX12; num_thread_full 15 0 TO_GFX11; interleave_bits_x 15 13 GFX12;
        num_thread_partial 31 16;
    }
    COMPUTE_NUM_THREAD_Y @ (9 4 3) 0:0xe08, (11 0 0) 0:0x1ba8, (11 0 3) 0:0x1ba8, (12 0 0) 0:0x1ba8 {
        num_thread_full 12 0 GFX12; num_thread_full 15 0 TO_GFX11; interleave_bits_y 15 13 GFX12;
        num_thread_partial 31 16;
    }
    COMPUTE_NUM_THREAD_Z @ (9 4 3) 0:0xe09, (11 0 0) 0:0x1ba9, (11 0 3) 0:0x1ba9, (12 0 0) 0:0x1ba9 {
        num_thread_full 15 0; num_thread_partial 31 16;
    }
    COMPUTE_PIPELINESTAT_ENABLE @ (9 4 3) 0:0xe0a, (11 0 0) 0:0x1baa, (11 0 3) 0:0x1baa, (12 0 0) 0:0x1baa {
        pipelinestat_enable 0 0;
    }
    COMPUTE_PGM_LO @ (9 4 3) 0:0xe0c, (11 0 0) 0:0x1bac, (11 0 3) 0:0x1bac, (12 0 0) 0:0x1bac {}
    COMPUTE_PGM_HI @ (9 4 3) 0:0xe0d, (11 0 0) 0:0x1bad, (11 0 3) 0:0x1bad, (12 0 0) 0:0x1bad {
        data 7 0;
    }
    COMPUTE_DISPATCH_SCRATCH_BASE_LO @ (9 4 3) 0:0xe10, (11 0 0) 0:0x1bb0, (11 0 3) 0:0x1bb0, (12 0 0) 0:0x1bb0 {}
    COMPUTE_DISPATCH_SCRATCH_BASE_HI @ (9 4 3) 0:0xe11, (11 0 0) 0:0x1bb1, (11 0 3) 0:0x1bb1, (12 0 0) 0:0x1bb1 {
        data 7 0;
    }
    COMPUTE_PGM_RSRC1 @ (9 4 3) 0:0xe12, (11 0 0) 0:0x1bb2, (11 0 3) 0:0x1bb2, (12 0 0) 0:0x1bb2 {
        vgprs 5 0; sgprs 9 6; priority 11 10; float_mode 19 12; priv 20 20; dx10_clamp 21 21 TO_GFX11;
        wg_rr_en 21 21 GFX12; debug_mode 22 22; ieee_mode 23 23 TO_GFX11; disable_perf 23 23 GFX12;
        bulky 24 24; cdbg_user 25 25; fp16_ovfl 26 26; wgp_mode 29 29 GFX11_UP; mem_ordered 30 30 GFX11_UP;
        fwd_progress 31 31 GFX11_UP;
    }
    COMPUTE_PGM_RSRC2 @ (9 4 3) 0:0xe13, (11 0 0) 0:0x1bb3, (11 0 3) 0:0x1bb3, (12 0 0) 0:0x1bb3 {
        scratch_en 0 0; user_sgpr 5 1; trap_present 6 6 TO_GFX11; dynamic_vgpr 6 6 GFX12; tgid_x_en 7 7;
        tgid_y_en 8 8; tgid_z_en 9 9; tg_size_en 10 10; tidig_comp_cnt 12 11; excp_en_msb 14 13;
        lds_size 23 15; excp_en 30 24; skip_usgpr0 31 31 GFX9; wgp_takeover 31 31 GFX12;
    }
    COMPUTE_VMID @ (9 4 3) 0:0xe14, (11 0 0) 0:0x1bb4, (11 0 3) 0:0x1bb4, (12 0 0) 0:0x1bb4 {
        data 3 0;
    }
    COMPUTE_RESOURCE_LIMITS @ (9 4 3) 0:0xe15, (11 0 0) 0:0x1bb5, (11 0 3) 0:0x1bb5, (12 0 0) 0:0x1bb5 {
        waves_per_sh 9 0; tg_per_cu 15 12; lock_threshold 21 16; simd_dest_cntl 22 22;
        force_simd_dist 23 23; cu_group_count 26 24; simd_disable 30 27 GFX9;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE0 @ (9 4 3) 0:0xe16, (11 0 0) 0:0x1bb6, (11 0 3) 0:0x1bb6, (12 0 0) 0:0x1bb6 {
        sh0_cu_en 15 0 GFX9; sa0_cu_en 15 0 GFX11_UP; sh1_cu_en 31 16 GFX9; sa1_cu_en 31 16 GFX11_UP;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE1 @ (9 4 3) 0:0xe17, (11 0 0) 0:0x1bb7, (11 0 3) 0:0x1bb7, (12 0 0) 0:0x1bb7 {
        sh0_cu_en 15 0 GFX9; sa0_cu_en 15 0 GFX11_UP; sh1_cu_en 31 16 GFX9; sa1_cu_en 31 16 GFX11_UP;
    }
    COMPUTE_TMPRING_SIZE @ (9 4 3) 0:0xe18, (11 0 0) 0:0x1bb8, (11 0 3) 0:0x1bb8, (12 0 0) 0:0x1bb8 {
        waves 11 0; wavesize 24 12 GFX9; wavesize 26 12 GFX11; wavesize 29 12 GFX12;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE2 @ (9 4 3) 0:0xe19, (11 0 0) 0:0x1bb9, (11 0 3) 0:0x1bb9, (12 0 0) 0:0x1bb9 {
        sh0_cu_en 15 0 GFX9; sa0_cu_en 15 0 GFX11_UP; sh1_cu_en 31 16 GFX9; sa1_cu_en 31 16 GFX11_UP;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE3 @ (9 4 3) 0:0xe1a, (11 0 0) 0:0x1bba, (11 0 3) 0:0x1bba, (12 0 0) 0:0x1bba {
        sh0_cu_en 15 0 GFX9; sa0_cu_en 15 0 GFX11_UP; sh1_cu_en 31 16 GFX9; sa1_cu_en 31 16 GFX11_UP;
    }
    COMPUTE_RESTART_X @ (9 4 3) 0:0xe1b, (11 0 0) 0:0x1bbb, (11 0 3) 0:0x1bbb, (12 0 0) 0:0x1bbb {}
    COMPUTE_RESTART_Y @ (9 4 3) 0:0xe1c, (11 0 0) 0:0x1bbc, (11 0 3) 0:0x1bbc, (12 0 0) 0:0x1bbc {}
    COMPUTE_RESTART_Z @ (9 4 3) 0:0xe1d, (11 0 0) 0:0x1bbd, (11 0 3) 0:0x1bbd, (12 0 0) 0:0x1bbd {}
    COMPUTE_PGM_RSRC3 @ (9 4 3) 0:0xe2d, (11 0 0) 0:0x1bc8, (11 0 3) 0:0x1bc8, (12 0 0) 0:0x1bc8 {
        shared_vgpr_cnt 3 0 GFX11_UP; accum_offset 5 0 GFX9; inst_pref_size 9 4 GFX11;
        inst_pref_size 11 4 GFX12; trap_on_start 10 10 TO_GFX11; trap_on_end 11 11 TO_GFX11;
        glg_en 13 13 GFX12; tg_split 16 16 GFX9; image_op 31 31 GFX11_UP;
    }
    COMPUTE_USER_DATA_0 @ (9 4 3) 0:0xe40, (11 0 0) 0:0x1be0, (11 0 3) 0:0x1be0, (12 0 0) 0:0x1be0 {}
    COMPUTE_USER_DATA_15 @ (9 4 3) 0:0xe4f, (11 0 0) 0:0x1bef, (11 0 3) 0:0x1bef, (12 0 0) 0:0x1bef {}
    CP_INT_CNTL @ (9 4 3) 0:0x1049, (11 0 0) 0:0x1de9, (11 0 3) 0:0x1de9, (12 0 0) 0:0x1de9 {
        resume_int_enable 8 8 GFX11_UP; suspend_int_enable 9 9 GFX11_UP;
        dma_watch_int_enable 10 10 GFX11_UP; cp_vm_doorbell_wr_int_enable 11 11;
        cp_ecc_error_int_enable 14 14; gpf_int_enable 16 16; wrm_poll_timeout_int_enable 17 17;
        cmp_busy_int_enable 18 18; cntx_busy_int_enable 19 19; cntx_empty_int_enable 20 20;
        gfx_idle_int_enable 21 21; priv_instr_int_enable 22 22; priv_reg_int_enable 23 23;
        opcode_error_int_enable 24 24; time_stamp_int_enable 26 26; reserved_bit_error_int_enable 27 27;
        generic2_int_enable 29 29; generic1_int_enable 30 30; generic0_int_enable 31 31;
    }
    CP_ME1_PIPE0_INT_CNTL @ (9 4 3) 0:0x1085, (11 0 0) 0:0x1e25, (11 0 3) 0:0x1e25, (12 0 0) 0:0x1e25 {
        cmp_query_status_int_enable 12 12; dequeue_request_int_enable 13 13; cp_ecc_error_int_enable 14 14;
        sua_violation_int_enable 15 15; gpf_int_enable 16 16; wrm_poll_timeout_int_enable 17 17;
        priv_reg_int_enable 23 23; opcode_error_int_enable 24 24; time_stamp_int_enable 26 26;
        reserved_bit_error_int_enable 27 27; generic2_int_enable 29 29; generic1_int_enable 30 30;
        generic0_int_enable 31 31;
    }
    CP_MEC_DOORBELL_RANGE_LOWER @ (9 4 3) 0:0x105c, (11 0 0) 0:0x1dfc, (11 0 3) 0:0x1dfc, (12 0 0) 0:0x1dfc {
        doorbell_range_lower 11 2 GFX11_UP; doorbell_range_lower 27 2 GFX9;
    }
    CP_MEC_DOORBELL_RANGE_UPPER @ (9 4 3) 0:0x105d, (11 0 0) 0:0x1dfd, (11 0 3) 0:0x1dfd, (12 0 0) 0:0x1dfd {
        doorbell_range_upper 11 2 GFX11_UP; doorbell_range_upper 27 2 GFX9;
    }
    CP_PFP_PRGRM_CNTR_START @ (9 4 3) 0:0x10a4, (11 0 0) 0:0x1e44, (11 0 3) 0:0x1e44, (12 0 0) 0:0x1e44 {
        ip_start 12 0 GFX9;
    }
    CP_ME_PRGRM_CNTR_START @ (9 4 3) 0:0x10a5, (11 0 0) 0:0x1e45, (11 0 3) 0:0x1e45, (12 0 0) 0:0x1e45 {
        ip_start 11 0 GFX9;
    }
    SPI_COMPUTE_QUEUE_RESET @ (9 4 3) 0:0x11db, (11 0 0) 0:0x1f73, (11 0 3) 0:0x1f73, (12 0 0) 0:0x1f73 {
        reset 0 0;
    }
    CP_HQD_GFX_CONTROL @ (9 4 3) 0:0x123e, (11 0 0) 0:0x1e9f, (11 0 3) 0:0x1e9f, (12 0 0) 0:0x1e9f {
        message 3 0; misc 14 4; db_updated_msg_en 15 15;
    }
    CP_HQD_GFX_STATUS @ (9 4 3) 0:0x123f, (11 0 0) 0:0x1ea0, (11 0 3) 0:0x1ea0, (12 0 0) 0:0x1ea0 {
        status 15 0;
    }
    CP_MQD_BASE_ADDR @ (9 4 3) 0:0x1245, (11 0 0) 0:0x1fa9, (11 0 3) 0:0x1fa9, (12 0 0) 0:0x1fa9 {
        base_addr 31 2;
    }
    CP_MQD_BASE_ADDR_HI @ (9 4 3) 0:0x1246, (11 0 0) 0:0x1faa, (11 0 3) 0:0x1faa, (12 0 0) 0:0x1faa {
        base_addr_hi 15 0;
    }
    CP_HQD_ACTIVE @ (9 4 3) 0:0x1247, (11 0 0) 0:0x1fab, (11 0 3) 0:0x1fab, (12 0 0) 0:0x1fab {
        active 0 0; busy_gate 1 1;
    }
    CP_HQD_VMID @ (9 4 3) 0:0x1248, (11 0 0) 0:0x1fac, (11 0 3) 0:0x1fac, (12 0 0) 0:0x1fac {
        vmid 3 0; ib_vmid 11 8; vqid 25 16;
    }
    CP_HQD_PERSISTENT_STATE @ (9 4 3) 0:0x1249, (11 0 0) 0:0x1fad, (11 0 3) 0:0x1fad, (12 0 0) 0:0x1fad {
        preload_req 0 0; tmz_connect_override 1 1 GFX11_UP; suspend_status 7 7 GFX11_UP; preload_size 17 8;
        tmz_switch_exempt 18 18 GFX11_UP; tmz_match_dis 19 19 GFX11_UP; wpp_clamp_en 20 20 GFX11_UP;
        wpp_switch_qos_en 21 21; iq_switch_qos_en 22 22; ib_switch_qos_en 23 23; eop_switch_qos_en 24 24;
        pq_switch_qos_en 25 25; tc_offload_qos_en 26 26; cache_full_packet_en 27 27; restore_active 28 28;
        relaunch_waves 29 29; qswitch_mode 30 30; disp_active 31 31;
    }
    CP_HQD_PIPE_PRIORITY @ (9 4 3) 0:0x124a, (11 0 0) 0:0x1fae, (11 0 3) 0:0x1fae, (12 0 0) 0:0x1fae {
        pipe_priority 1 0;
    }
    CP_HQD_QUEUE_PRIORITY @ (9 4 3) 0:0x124b, (11 0 0) 0:0x1faf, (11 0 3) 0:0x1faf, (12 0 0) 0:0x1faf {
        priority_level 3 0;
    }
    CP_HQD_QUANTUM @ (9 4 3) 0:0x124c, (11 0 0) 0:0x1fb0, (11 0 3) 0:0x1fb0, (12 0 0) 0:0x1fb0 {
        quantum_en 0 0; quantum_scale 4 4; quantum_duration 13 8; quantum_active 31 31;
    }
    CP_HQD_PQ_BASE @ (9 4 3) 0:0x124d, (11 0 0) 0:0x1fb1, (11 0 3) 0:0x1fb1, (12 0 0) 0:0x1fb1 {}
    CP_HQD_PQ_BASE_HI @ (9 4 3) 0:0x124e, (11 0 0) 0:0x1fb2, (11 0 3) 0:0x1fb2, (12 0 0) 0:0x1fb2 {
        addr_hi 7 0;
    }
    CP_HQD_PQ_RPTR @ (9 4 3) 0:0x124f, (11 0 0) 0:0x1fb3, (11 0 3) 0:0x1fb3, (12 0 0) 0:0x1fb3 {}
    CP_HQD_PQ_RPTR_REPORT_ADDR @ (9 4 3) 0:0x1250, (11 0 0) 0:0x1fb4, (11 0 3) 0:0x1fb4, (12 0 0) 0:0x1fb4 {
        rptr_report_addr 31 2;
    }
    CP_HQD_PQ_RPTR_REPORT_ADDR_HI @ (9 4 3) 0:0x1251, (11 0 0) 0:0x1fb5, (11 0 3) 0:0x1fb5, (12 0 0) 0:0x1fb5 {
        rptr_report_addr_hi 15 0;
    }
    CP_HQD_PQ_WPTR_POLL_ADDR @ (9 4 3) 0:0x1252, (11 0 0) 0:0x1fb6, (11 0 3) 0:0x1fb6, (12 0 0) 0:0x1fb6 {
        wptr_addr 31 3;
    }
    CP_HQD_PQ_WPTR_POLL_ADDR_HI @ (9 4 3) 0:0x1253, (11 0 0) 0:0x1fb7, (11 0 3) 0:0x1fb7, (12 0 0) 0:0x1fb7 {
        wptr_addr_hi 15 0;
    }
    CP_HQD_PQ_DOORBELL_CONTROL @ (9 4 3) 0:0x1254, (11 0 0) 0:0x1fb8, (11 0 3) 0:0x1fb8, (12 0 0) 0:0x1fb8 {
        doorbell_mode 0 0; doorbell_bif_drop 1 1; doorbell_offset 27 2; doorbell_source 28 28;
        doorbell_schd_hit 29 29; doorbell_en 30 30; doorbell_hit 31 31;
    }
    CP_HQD_PQ_CONTROL @ (9 4 3) 0:0x1256, (11 0 0) 0:0x1fba, (11 0 3) 0:0x1fba, (12 0 0) 0:0x1fba {
        queue_size 5 0; wptr_carry 6 6; rptr_carry 7 7; rptr_block_size 13 8; queue_full_en 14 14;
        pq_empty 15 15; wpp_clamp_en 16 16 GFX9; endian_swap 18 17 GFX9; slot_based_wptr 19 18 GFX11_UP;
        min_avail_size 21 20; tmz 22 22; exe_disable 23 23; cache_policy 24 24 GFX9;
        cache_policy 25 24 GFX11_UP; slot_based_wptr 26 25 GFX9; pq_volatile 26 26 GFX11;
        no_update_rptr 27 27; unord_dispatch 28 28; roq_pq_ib_flip 29 29 GFX9;
        tunnel_dispatch 29 29 GFX11_UP; priv_state 30 30; kmd_queue 31 31;
    }
    CP_HQD_IB_BASE_ADDR @ (9 4 3) 0:0x1257, (11 0 0) 0:0x1fbb, (11 0 3) 0:0x1fbb, (12 0 0) 0:0x1fbb {
        ib_base_addr 31 2;
    }
    CP_HQD_IB_BASE_ADDR_HI @ (9 4 3) 0:0x1258, (11 0 0) 0:0x1fbc, (11 0 3) 0:0x1fbc, (12 0 0) 0:0x1fbc {
        ib_base_addr_hi 15 0;
    }
    CP_HQD_IB_RPTR @ (9 4 3) 0:0x1259, (11 0 0) 0:0x1fbd, (11 0 3) 0:0x1fbd, (12 0 0) 0:0x1fbd {
        consumed_offset 19 0;
    }
    CP_HQD_IB_CONTROL @ (9 4 3) 0:0x125a, (11 0 0) 0:0x1fbe, (11 0 3) 0:0x1fbe, (12 0 0) 0:0x1fbe {
        ib_size 19 0; min_ib_avail_size 21 20; ib_exe_disable 23 23; ib_cache_policy 24 24 GFX9;
        ib_cache_policy 25 24 GFX11_UP; ib_volatile 26 26 GFX11; ib_priv_state 30 30; processing_ib 31 31;
    }
    CP_HQD_IQ_TIMER @ (9 4 3) 0:0x125b, (11 0 0) 0:0x1fbf, (11 0 3) 0:0x1fbf, (12 0 0) 0:0x1fbf {
        wait_time 7 0; retry_type 10 8; immediate_expire 11 11; interrupt_type 13 12; clock_count 15 14;
        interrupt_size 21 16; quantum_timer 22 22; exe_disable 23 23; cache_policy 24 24 GFX9;
        cache_policy 25 24 GFX11_UP; queue_type 25 25 GFX9; iq_volatile 26 26 GFX11;
        queue_type 27 27 GFX11_UP; rearm_timer 28 28; process_iq_en 29 29; processing_iq 30 30;
        active 31 31;
    }
    CP_HQD_IQ_RPTR @ (9 4 3) 0:0x125c, (11 0 0) 0:0x1fc0, (11 0 3) 0:0x1fc0, (12 0 0) 0:0x1fc0 {
        offset 5 0;
    }
    CP_HQD_DEQUEUE_REQUEST @ (9 4 3) 0:0x125d, (11 0 0) 0:0x1fc1, (11 0 3) 0:0x1fc1, (12 0 0) 0:0x1fc1 {
        dequeue_req 2 0 GFX9; dequeue_req 3 0 GFX11_UP; iq_req_pend 4 4; dequeue_int 8 8;
        iq_req_pend_en 9 9; dequeue_req_en 10 10;
    }
    CP_HQD_DMA_OFFLOAD @ (9 4 3) 0:0x125e, (11 0 0) 0:0x1fc2, (11 0 3) 0:0x1fc2, (12 0 0) 0:0x1fc2 {
        dma_offload 0 0; dma_offload_en 1 1 GFX11_UP; aql_offload 2 2 GFX11_UP;
        aql_offload_en 3 3 GFX11_UP; eop_offload 4 4 GFX11_UP; eop_offload_en 5 5 GFX11_UP;
    }
    CP_HQD_OFFLOAD @ (9 4 3) 0:0x125e, (11 0 0) 0:0x1fc2, (11 0 3) 0:0x1fc2, (12 0 0) 0:0x1fc2 {
        dma_offload 0 0; dma_offload_en 1 1; aql_offload 2 2; aql_offload_en 3 3; eop_offload 4 4;
        eop_offload_en 5 5;
    }
    CP_HQD_SEMA_CMD @ (9 4 3) 0:0x125f, (11 0 0) 0:0x1fc3, (11 0 3) 0:0x1fc3 {
        retry 0 0; result 2 1; polling_dis 8 8 GFX11; message_en 9 9 GFX11;
    }
    CP_HQD_MSG_TYPE @ (9 4 3) 0:0x1260, (11 0 0) 0:0x1fc4, (11 0 3) 0:0x1fc4, (12 0 0) 0:0x1fc4 {
        action 2 0; save_state 6 4;
    }
    CP_HQD_ATOMIC0_PREOP_LO @ (9 4 3) 0:0x1261, (11 0 0) 0:0x1fc5, (11 0 3) 0:0x1fc5, (12 0 0) 0:0x1fc5 {}
    CP_HQD_ATOMIC0_PREOP_HI @ (9 4 3) 0:0x1262, (11 0 0) 0:0x1fc6, (11 0 3) 0:0x1fc6, (12 0 0) 0:0x1fc6 {}
    CP_HQD_ATOMIC1_PREOP_LO @ (9 4 3) 0:0x1263, (11 0 0) 0:0x1fc7, (11 0 3) 0:0x1fc7, (12 0 0) 0:0x1fc7 {}
    CP_HQD_ATOMIC1_PREOP_HI @ (9 4 3) 0:0x1264, (11 0 0) 0:0x1fc8, (11 0 3) 0:0x1fc8, (12 0 0) 0:0x1fc8 {}
    CP_HQD_HQ_SCHEDULER0 @ (9 4 3) 0:0x1265, (11 0 0) 0:0x1fc9, (11 0 3) 0:0x1fc9, (12 0 0) 0:0x1fc9 {
        cwsr 0 0 GFX11_UP; save_status 1 1 GFX11_UP; rsrv 2 2 GFX11_UP; static_queue 5 3 GFX11_UP;
        queue_run_once 6 6 GFX11_UP; scratch_ram_init 7 7 GFX11_UP; tcl2_dirty 8 8 GFX11_UP;
        c_inherit_vmid 9 9 GFX11_UP; queue_scheduler_type 12 10 GFX11_UP; c_queue_use_gws 13 13 GFX11_UP;
        c_queue_debug_en 14 14 GFX11_UP; queue_slot_connected 15 15 GFX11_UP;
        mes_interrupt_enabled 20 20 GFX11_UP; mes_interrupt_pipe 22 21 GFX11_UP;
        concurrent_process_count 27 24 GFX11_UP; queue_idle 30 30 GFX11_UP;
        db_updated_msg_en 31 31 GFX11_UP;
    }
    CP_HQD_HQ_STATUS0 @ (9 4 3) 0:0x1265, (11 0 0) 0:0x1fc9, (11 0 3) 0:0x1fc9, (12 0 0) 0:0x1fc9 {
        cwsr 0 0 GFX11_UP; dequeue_status 1 0 GFX9; save_status 1 1 GFX11_UP; rsrv 2 2 GFX11_UP;
        dequeue_retry_cnt 3 2 GFX9; static_queue 5 3 GFX11_UP; rsv_6_4 6 4 GFX9;
        queue_run_once 6 6 GFX11_UP; scratch_ram_init 7 7; tcl2_dirty 8 8; pg_activated 9 9 GFX9;
        c_inherit_vmid 9 9 GFX11_UP; queue_scheduler_type 12 10 GFX11_UP; rsvr_29_10 29 10 GFX9;
        c_queue_use_gws 13 13 GFX11_UP; c_queue_debug_en 14 14 GFX11_UP;
        queue_slot_connected 15 15 GFX11_UP; mes_interrupt_enabled 20 20 GFX11_UP;
        mes_interrupt_pipe 22 21 GFX11_UP; concurrent_process_count 27 24 GFX11_UP; queue_idle 30 30;
        db_updated_msg_en 31 31;
    }
    CP_HQD_HQ_CONTROL0 @ (9 4 3) 0:0x1266, (11 0 0) 0:0x1fca, (11 0 3) 0:0x1fca, (12 0 0) 0:0x1fca {}
    CP_HQD_HQ_SCHEDULER1 @ (9 4 3) 0:0x1266, (11 0 0) 0:0x1fca, (11 0 3) 0:0x1fca, (12 0 0) 0:0x1fca {}
    CP_MQD_CONTROL @ (9 4 3) 0:0x1267, (11 0 0) 0:0x1fcb, (11 0 3) 0:0x1fcb, (12 0 0) 0:0x1fcb {
        vmid 3 0; priv_state 8 8; processing_mqd 12 12; processing_mqd_en 13 13; exe_disable 23 23;
        cache_policy 24 24 GFX9; cache_policy 25 24 GFX11_UP; mqd_volatile 26 26 GFX11;
    }
    CP_HQD_HQ_STATUS1 @ (9 4 3) 0:0x1268, (11 0 0) 0:0x1fcc, (11 0 3) 0:0x1fcc, (12 0 0) 0:0x1fcc {}
    CP_HQD_HQ_CONTROL1 @ (9 4 3) 0:0x1269, (11 0 0) 0:0x1fcd, (11 0 3) 0:0x1fcd, (12 0 0) 0:0x1fcd {}
    CP_HQD_EOP_BASE_ADDR @ (9 4 3) 0:0x126a, (11 0 0) 0:0x1fce, (11 0 3) 0:0x1fce, (12 0 0) 0:0x1fce {}
    CP_HQD_EOP_BASE_ADDR_HI @ (9 4 3) 0:0x126b, (11 0 0) 0:0x1fcf, (11 0 3) 0:0x1fcf, (12 0 0) 0:0x1fcf {
        base_addr_hi 7 0;
    }
    CP_HQD_EOP_CONTROL @ (9 4 3) 0:0x126c, (11 0 0) 0:0x1fd0, (11 0 3) 0:0x1fd0, (12 0 0) 0:0x1fd0 {
        eop_size 5 0; processing_eop 8 8; process_eop_en 12 12; processing_eopib 13 13;
        process_eopib_en 14 14; halt_fetcher 21 21; halt_fetcher_en 22 22; exe_disable 23 23;
        cache_policy 24 24 GFX9; cache_policy 25 24 GFX11_UP; eop_volatile 26 26 GFX11;
        sig_sem_result 30 29 TO_GFX11; pend_sig_sem 31 31 TO_GFX11;
    }
    CP_HQD_EOP_RPTR @ (9 4 3) 0:0x126d, (11 0 0) 0:0x1fd1, (11 0 3) 0:0x1fd1, (12 0 0) 0:0x1fd1 {
        rptr 12 0; reset_fetcher 28 28; dequeue_pend 29 29; rptr_eq_csmd_wptr 30 30; init_fetcher 31 31;
    }
    CP_HQD_EOP_WPTR @ (9 4 3) 0:0x126e, (11 0 0) 0:0x1fd2, (11 0 3) 0:0x1fd2, (12 0 0) 0:0x1fd2 {
        wptr 12 0; eop_empty 15 15; eop_avail 28 16;
    }
    CP_HQD_EOP_EVENTS @ (9 4 3) 0:0x126f, (11 0 0) 0:0x1fd3, (11 0 3) 0:0x1fd3, (12 0 0) 0:0x1fd3 {
        event_count 11 0; cs_partial_flush_pend 16 16;
    }
    CP_HQD_CTX_SAVE_BASE_ADDR_LO @ (9 4 3) 0:0x1270, (11 0 0) 0:0x1fd4, (11 0 3) 0:0x1fd4, (12 0 0) 0:0x1fd4 {
        addr 31 12;
    }
    CP_HQD_CTX_SAVE_BASE_ADDR_HI @ (9 4 3) 0:0x1271, (11 0 0) 0:0x1fd5, (11 0 3) 0:0x1fd5, (12 0 0) 0:0x1fd5 {
        addr_hi 15 0;
    }
    CP_HQD_CTX_SAVE_CONTROL @ (9 4 3) 0:0x1272, (11 0 0) 0:0x1fd6, (11 0 3) 0:0x1fd6, (12 0 0) 0:0x1fd6 {
        policy 3 3 GFX9; policy 4 3 GFX11_UP; exe_disable 23 23;
    }
    CP_HQD_CNTL_STACK_OFFSET @ (9 4 3) 0:0x1273, (11 0 0) 0:0x1fd7, (11 0 3) 0:0x1fd7, (12 0 0) 0:0x1fd7 {
        offset 15 2;
    }
    CP_HQD_CNTL_STACK_SIZE @ (9 4 3) 0:0x1274, (11 0 0) 0:0x1fd8, (11 0 3) 0:0x1fd8, (12 0 0) 0:0x1fd8 {
        size 15 12;
    }
    CP_HQD_WG_STATE_OFFSET @ (9 4 3) 0:0x1275, (11 0 0) 0:0x1fd9, (11 0 3) 0:0x1fd9, (12 0 0) 0:0x1fd9 {
        offset 25 2 GFX11_UP; offset 26 2 GFX9;
    }
    CP_HQD_CTX_SAVE_SIZE @ (9 4 3) 0:0x1276, (11 0 0) 0:0x1fda, (11 0 3) 0:0x1fda, (12 0 0) 0:0x1fda {
        size 25 12 GFX11_UP; size 26 12 GFX9;
    }
    CP_HQD_GDS_RESOURCE_STATE @ (9 4 3) 0:0x1277, (11 0 0) 0:0x1fdb, (11 0 3) 0:0x1fdb, (12 0 0) 0:0x1fdb {
        oa_required 0 0; oa_acquired 1 1; gws_size 9 4; gws_pntr 17 12;
    }
    CP_HQD_ERROR @ (9 4 3) 0:0x1278, (11 0 0) 0:0x1fdc, (11 0 3) 0:0x1fdc, (12 0 0) 0:0x1fdc {
        edc_error_id 3 0; sua_error 4 4; aql_error 5 5; pq_utcl1_error 8 8; ib_utcl1_error 9 9;
        eop_utcl1_error 10 10; iq_utcl1_error 11 11; rrpt_utcl1_error 12 12; wpp_utcl1_error 13 13;
        sem_utcl1_error 14 14 TO_GFX11; dma_src_utcl1_error 15 15; dma_dst_utcl1_error 16 16;
        sr_utcl1_error 17 17; qu_utcl1_error 18 18; tc_utcl1_error 19 19;
    }
    CP_HQD_EOP_WPTR_MEM @ (9 4 3) 0:0x1279, (11 0 0) 0:0x1fdd, (11 0 3) 0:0x1fdd, (12 0 0) 0:0x1fdd {
        wptr 12 0;
    }
    CP_HQD_AQL_CONTROL @ (9 4 3) 0:0x127a, (11 0 0) 0:0x1fde, (11 0 3) 0:0x1fde, (12 0 0) 0:0x1fde {
        control0 14 0; control0_en 15 15; control1 30 16; control1_en 31 31;
    }
    CP_HQD_PQ_WPTR_LO @ (9 4 3) 0:0x127b, (11 0 0) 0:0x1fdf, (11 0 3) 0:0x1fdf, (12 0 0) 0:0x1fdf {}
    CP_HQD_PQ_WPTR_HI @ (9 4 3) 0:0x127c, (11 0 0) 0:0x1fe0, (11 0 3) 0:0x1fe0, (12 0 0) 0:0x1fe0 {}
    CP_HQD_AQL_CONTROL_1 @ (9 4 3) 0:0x127d {}
    CP_HQD_AQL_DISPATCH_ID @ (9 4 3) 0:0x127e {}
    CP_HQD_AQL_DISPATCH_ID_HI @ (9 4 3) 0:0x127f {}
    TCP_UTCL1_CNTL2 @ (9 4 3) 0:0x12b6 {
        spare 7 0; mtype_ovrd_dis 9 9; any_line_valid 10 10; gpuvm_inv_mode 12 12; force_snoop 14 14;
        force_gpuvm_inv_ack 15 15; force_frag_2m_to_64k 26 26; thrashing_timeout_protect_enable 27 27;
        thrashing_enable 28 28;
    }
    SCRATCH_REG6 @ (9 4 3) 1:0x2046, (11 0 0) 1:0x2046, (11 0 3) 1:0x2046, (12 0 0) 1:0x2046 {}
    SCRATCH_REG7 @ (9 4 3) 1:0x2047, (11 0 0) 1:0x2047, (11 0 3) 1:0x2047, (12 0 0) 1:0x2047 {}
    CP_COHER_START_DELAY @ (9 4 3) 1:0x207b {
        start_delay_count 5 0;
    }
    SQ_IND_INDEX @ (11 0 0) 0:0x1118, (11 0 3) 0:0x1118 {
        wave_id 4 0; workitem_id 10 5; auto_incr 11 11; index 31 16;
    }
    SQ_IND_DATA @ (11 0 0) 0:0x1119, (11 0 3) 0:0x1119 {
        data 31 0;
    }
    GRBM_GFX_INDEX @ (9 4 3) 1:0x2200, (11 0 0) 1:0x2200, (11 0 3) 1:0x2200, (12 0 0) 1:0x2200 {
        instance_index 6 0 GFX12; instance_index 7 0 TO_GFX11; sa_index 9 8 GFX12; sh_index 15 8 GFX9;
        sa_index 15 8 GFX11; se_index 19 16 GFX12; se_index 23 16 TO_GFX11; sh_broadcast_writes 29 29 GFX9;
        sa_broadcast_writes 29 29 GFX11_UP; instance_broadcast_writes 30 30; se_broadcast_writes 31 31;
    }
    SPI_CONFIG_CNTL @ (9 4 3) 1:0x2440, (11 0 0) 1:0x2440, (11 0 3) 1:0x2440, (12 0 0) 1:0x2440 {
        gpr_write_priority 20 0; exp_priority_order 23 21; enable_sqg_top_events 24 24;
        enable_sqg_bop_events 25 25; rsrc_mgmt_reset 26 26 GFX9; ttrace_stall_all 27 27 GFX9;
        alloc_arb_lru_ena 28 28; exp_arb_lru_ena 29 29; ps_pkr_priority_cntl 31 30;
    }
    RLC_CNTL @ (9 4 3) 1:0x4c00, (11 0 0) 1:0x4c00, (11 0 3) 1:0x4c00, (12 0 0) 1:0x4c00 {
        rlc_enable_f32 0 0; force_retry 1 1; read_cache_disable 2 2; rlc_step_f32 3 3; reserved 31 4;
    }
    RLC_SAFE_MODE @ (9 4 3) 1:0x4c05, (11 0 0) 1:0x980, (11 0 3) 1:0x980, (12 0 0) 1:0x980 {
        cmd 0 0; message 4 1; reserved1 7 5; response 11 8; reserved 31 12;
    }
    RLC_CGTT_MGCG_OVERRIDE @ (9 4 3) 1:0x4c48, (11 0 0) 1:0x4c48, (11 0 3) 1:0x4c48, (12 0 0) 1:0x4c48 {
        reserved_0 0 0 GFX9; rlc_repeater_fgcg_override 0 0 GFX11_UP; rlc_cgtt_sclk_override 1 1;
        gfxip_mgcg_override 2 2; gfxip_cgcg_override 3 3; gfxip_cgls_override 4 4;
        grbm_cgtt_sclk_override 5 5; gfxip_mgls_override 6 6; gfxip_gfx3d_cg_override 7 7;
        gfxip_fgcg_override 8 8; gfxip_rep_fgcg_override 9 9 GFX9;
        gfxip_repeater_fgcg_override 9 9 GFX11_UP; gfxip_perf_clk_en 10 10 GFX9;
        perfmon_clock_state 10 10 GFX11_UP; reserved_15_11 15 11 GFX9; reserved_16_11 16 11 GFX11;
        reserved_31_11 31 11 GFX12; enable_cgts_legacy 16 16 GFX9; gc_cac_mgcg_clk_cntl 17 17 GFX11;
        reserved_31_17 31 17 GFX9; se_cac_mgcg_clk_cntl 18 18 GFX11; reserved_31_19 31 19 GFX11;
    }
    RLC_CGCG_CGLS_CTRL @ (9 4 3) 1:0x4c49, (11 0 0) 1:0x4c49, (11 0 3) 1:0x4c49, (12 0 0) 1:0x4c49 {
        cgcg_en 0 0; cgls_en 1 1; cgls_rep_compansat_delay 7 2; cgcg_gfx_idle_threshold 26 8;
        cgcg_controller 27 27; cgcg_reg_ctrl 28 28; sleep_mode 30 29; sim_silicon_en 31 31;
    }
    RLC_SPM_MC_CNTL @ (9 4 3) 1:0x4c71, (11 0 0) 1:0x982, (11 0 3) 1:0x982, (12 0 0) 1:0x982 {
        rlc_spm_vmid 3 0; rlc_spm_policy 4 4 GFX9; rlc_spm_policy 5 4 GFX11; rlc_spm_sdr 5 4 GFX12;
        rlc_spm_perf_cntr 5 5 GFX9; rlc_spm_fed 6 6 GFX9; rlc_spm_perf_cntr 6 6 GFX11_UP;
        rlc_spm_mtype_over 7 7 GFX9; rlc_spm_fed 7 7 GFX11_UP; rlc_spm_mtype_over 8 8 GFX11;
        rlc_spm_mtype 9 8 GFX9; rlc_spm_temporal 10 8 GFX12; rlc_spm_mtype 11 9 GFX11; reserved 31 10 GFX9;
        rlc_spm_comp 12 11 GFX12; rlc_spm_bc 12 12 GFX11; rlc_spm_ro 13 13 GFX11;
        rlc_spm_comp_over 13 13 GFX12; rlc_spm_vol 14 14 GFX11; rlc_spm_ro 14 14 GFX12;
        rlc_spm_nofill 15 15 GFX11_UP; reserved_3 17 16 GFX11; reserved 31 16 GFX12;
        rlc_spm_llc_noalloc 18 18 GFX11; rlc_spm_llc_noalloc_over 19 19 GFX11; reserved 31 20 GFX11;
    }
    RLC_SRM_CNTL @ (9 4 3) 1:0x4c80, (11 0 0) 1:0x4c80, (11 0 3) 1:0x4c80, (12 0 0) 1:0x4c80 {
        srm_enable 0 0; auto_incr_addr 1 1; srm_gpm_fifo_reset 2 2 GFX12; reserved 31 2 TO_GFX11;
        reserved 31 3 GFX12;
    }
    SDMA0_CNTL @ (11 0 0) 0:0x1c, (11 0 3) 0:0x1c, (12 0 0) 0:0xd {
        trap_enable 0 0; sem_wait_int_enable 2 2 GFX11; reserved 2 2 GFX12; data_swap_enable 3 3;
        fence_swap_enable 4 4; midcmd_preempt_enable 5 5; pio_done_ack_enable 6 6;
        tmz_midcmd_preempt_enable 8 8; midcmd_expire_enable 9 9; cp_mes_int_enable 10 10;
        page_retry_timeout_int_enable 11 11; page_null_int_enable 12 12; page_fault_int_enable 13 13;
        ch_perfcnt_enable 16 16; midcmd_worldswitch_enable 17 17; drm_restore_enable 19 19 GFX11;
        ctxempty_int_enable 28 28; frozen_int_enable 29 29; ib_preempt_int_enable 30 30;
        rb_preempt_int_enable 31 31;
    }
    SDMA0_WATCHDOG_CNTL @ (11 0 0) 0:0x2e, (11 0 3) 0:0x2e, (12 0 0) 0:0x2b {
        queue_hang_count 7 0; cmd_timeout_count 15 8;
    }
    SDMA0_UTCL1_CNTL @ (11 0 0) 0:0x3c, (11 0 3) 0:0x3c, (12 0 0) 0:0x35 {
        redo_delay 4 0; page_wait_delay 8 5; resp_mode 10 9; force_invalidation 14 14;
        force_invreq_heavy 15 15; wr_exe_perms_ctrl 16 16; rd_exe_perms_ctrl 17 17; invack_delay 21 18;
        reql2_credit 29 24;
    }
    SDMA0_UTCL1_PAGE @ (11 0 0) 0:0x3f, (11 0 3) 0:0x3f, (12 0 0) 0:0x38 {
        vm_hole 0 0 GFX11; invalid_addr 0 0 GFX12; req_type 4 1; tmz_enable 5 5 GFX11; use_mtype 9 6;
        use_pt_snoop 10 10; use_io 11 11; rd_l2_policy 13 12; wr_l2_policy 15 14; dma_page_size 21 16;
        use_bc 22 22; addr_is_pa 23 23; llc_noalloc 24 24 GFX11;
    }
    SDMA0_RLC_CGCG_CTRL @ (11 0 0) 0:0x5c, (11 0 3) 0:0x5c, (12 0 0) 0:0x55 {
        cgcg_int_enable 1 1; mcu_cgcg_allow 4 4 GFX12; cgcg_idle_hysteresis 31 16;
    }
    SDMA0_QUEUE0_RB_CNTL @ (11 0 0) 0:0x80, (11 0 3) 0:0x80, (12 0 0) 0:0x80 {
        rb_enable 0 0; rb_size 5 1; wptr_poll_enable 8 8; rb_swap_enable 9 9; wptr_poll_swap_enable 10 10;
        f32_wptr_poll_enable 11 11 GFX11; mcu_wptr_poll_enable 11 11 GFX12; rptr_writeback_enable 12 12;
        rptr_writeback_swap_enable 13 13; rptr_writeback_timer 20 16; rb_priv 23 23; rb_vmid 27 24;
    }
    SDMA0_QUEUE0_RB_BASE @ (11 0 0) 0:0x81, (11 0 3) 0:0x81, (12 0 0) 0:0x81 {}
    SDMA0_QUEUE0_RB_BASE_HI @ (11 0 0) 0:0x82, (11 0 3) 0:0x82, (12 0 0) 0:0x82 {
        addr 23 0;
    }
    SDMA0_QUEUE0_RB_RPTR @ (11 0 0) 0:0x83, (11 0 3) 0:0x83, (12 0 0) 0:0x83 {}
    SDMA0_QUEUE0_RB_RPTR_HI @ (11 0 0) 0:0x84, (11 0 3) 0:0x84, (12 0 0) 0:0x84 {}
    SDMA0_QUEUE0_RB_WPTR @ (11 0 0) 0:0x85, (11 0 3) 0:0x85, (12 0 0) 0:0x85 {}
    SDMA0_QUEUE0_RB_WPTR_HI @ (11 0 0) 0:0x86, (11 0 3) 0:0x86, (12 0 0) 0:0x86 {}
    SDMA0_QUEUE0_RB_RPTR_ADDR_HI @ (11 0 0) 0:0x88, (11 0 3) 0:0x88, (12 0 0) 0:0x88 {}
    SDMA0_QUEUE0_RB_RPTR_ADDR_LO @ (11 0 0) 0:0x89, (11 0 3) 0:0x89, (12 0 0) 0:0x87 {
        addr 31 2;
    }
    SDMA0_QUEUE0_IB_CNTL @ (11 0 0) 0:0x8a, (11 0 3) 0:0x8a, (12 0 0) 0:0x89 {
        ib_enable 0 0; ib_swap_enable 4 4; switch_inside_ib 8 8; cmd_vmid 19 16; ib_priv 31 31 GFX11;
    }
    SDMA0_QUEUE0_IB_RPTR @ (11 0 0) 0:0x8b, (11 0 3) 0:0x8b, (12 0 0) 0:0x8a {
        offset 21 2;
    }
    SDMA0_QUEUE0_IB_OFFSET @ (11 0 0) 0:0x8c, (11 0 3) 0:0x8c, (12 0 0) 0:0x8b {
        offset 21 2;
    }
    SDMA0_QUEUE0_IB_BASE_LO @ (11 0 0) 0:0x8d, (11 0 3) 0:0x8d, (12 0 0) 0:0x8c {
        addr 31 2 GFX12; addr 31 5 GFX11;
    }
    SDMA0_QUEUE0_IB_BASE_HI @ (11 0 0) 0:0x8e, (11 0 3) 0:0x8e, (12 0 0) 0:0x8d {}
    SDMA0_QUEUE0_IB_SIZE @ (11 0 0) 0:0x8f, (11 0 3) 0:0x8f, (12 0 0) 0:0x8e {
        size 19 0;
    }
    SDMA0_QUEUE0_SKIP_CNTL @ (11 0 0) 0:0x90, (11 0 3) 0:0x90 {
        skip_count 19 0;
    }
    SDMA0_QUEUE0_CONTEXT_STATUS @ (11 0 0) 0:0x91, (11 0 3) 0:0x91, (12 0 0) 0:0xb0 {
        selected 0 0; use_ib 1 1; idle 2 2; expired 3 3; exception 6 4; ctxsw_able 7 7;
        vf_status 8 8 GFX12; priv_exception 9 9 GFX12; preempt_disable 10 10; rptr_wb_idle 11 11;
        wptr_update_pending 12 12; wptr_update_fail_count 23 16;
    }
    SDMA0_QUEUE0_DOORBELL @ (11 0 0) 0:0x92, (11 0 3) 0:0x92, (12 0 0) 0:0x8f {
        enable 28 28; captured 30 30;
    }
    SDMA0_QUEUE0_DOORBELL_LOG @ (11 0 0) 0:0xa9, (11 0 3) 0:0xa9, (12 0 0) 0:0x90 {
        be_error 0 0; data 31 2;
    }
    SDMA0_QUEUE0_DOORBELL_OFFSET @ (11 0 0) 0:0xab, (11 0 3) 0:0xab, (12 0 0) 0:0x91 {
        offset 27 2;
    }
    SDMA0_QUEUE0_CSA_ADDR_LO @ (11 0 0) 0:0xac, (11 0 3) 0:0xac, (12 0 0) 0:0x92 {
        addr 31 2;
    }
    SDMA0_QUEUE0_CSA_ADDR_HI @ (11 0 0) 0:0xad, (11 0 3) 0:0xad, (12 0 0) 0:0x93 {}
    SDMA0_QUEUE0_SCHEDULE_CNTL @ (11 0 0) 0:0xae, (11 0 3) 0:0xae, (12 0 0) 0:0x94 {
        global_id 1 0; process_id 4 2; local_id 7 6; context_quantum 15 8;
    }
    SDMA0_QUEUE0_IB_SUB_REMAIN @ (11 0 0) 0:0xaf, (11 0 3) 0:0xaf, (12 0 0) 0:0x95 {
        size 13 0;
    }
    SDMA0_QUEUE0_PREEMPT @ (11 0 0) 0:0xb0, (11 0 3) 0:0xb0, (12 0 0) 0:0x96 {
        ib_preempt 0 0;
    }
    SDMA0_QUEUE0_DUMMY_REG @ (11 0 0) 0:0xb1, (11 0 3) 0:0xb1, (12 0 0) 0:0x97 {}
    SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI @ (11 0 0) 0:0xb2, (11 0 3) 0:0xb2, (12 0 0) 0:0x99 {}
    SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO @ (11 0 0) 0:0xb3, (11 0 3) 0:0xb3, (12 0 0) 0:0x98 {
        addr 31 2;
    }
    SDMA0_QUEUE0_RB_AQL_CNTL @ (11 0 0) 0:0xb4, (11 0 3) 0:0xb4, (12 0 0) 0:0x9a {
        aql_enable 0 0; aql_packet_size 7 1; packet_step 15 8; midcmd_preempt_enable 16 16;
        midcmd_preempt_data_restore 17 17; overlap_enable 18 18;
    }
    SDMA0_QUEUE0_MINOR_PTR_UPDATE @ (11 0 0) 0:0xb5, (11 0 3) 0:0xb5, (12 0 0) 0:0x9b {
        enable 0 0;
    }
    SDMA0_QUEUE0_RB_PREEMPT @ (11 0 0) 0:0xb6, (11 0 3) 0:0xb6 {
        preempt_req 0 0;
    }
    SDMA0_QUEUE0_MIDCMD_DATA0 @ (11 0 0) 0:0xc0, (11 0 3) 0:0xc0, (12 0 0) 0:0xa0 {}
    SDMA0_QUEUE0_MIDCMD_DATA1 @ (11 0 0) 0:0xc1, (11 0 3) 0:0xc1, (12 0 0) 0:0xa1 {}
    SDMA0_QUEUE0_MIDCMD_DATA2 @ (11 0 0) 0:0xc2, (11 0 3) 0:0xc2, (12 0 0) 0:0xa2 {}
    SDMA0_QUEUE0_MIDCMD_DATA3 @ (11 0 0) 0:0xc3, (11 0 3) 0:0xc3, (12 0 0) 0:0xa3 {}
    SDMA0_QUEUE0_MIDCMD_DATA4 @ (11 0 0) 0:0xc4, (11 0 3) 0:0xc4, (12 0 0) 0:0xa4 {}
    SDMA0_QUEUE0_MIDCMD_DATA5 @ (11 0 0) 0:0xc5, (11 0 3) 0:0xc5, (12 0 0) 0:0xa5 {}
    SDMA0_QUEUE0_MIDCMD_DATA6 @ (11 0 0) 0:0xc6, (11 0 3) 0:0xc6, (12 0 0) 0:0xa6 {}
    SDMA0_QUEUE0_MIDCMD_DATA7 @ (11 0 0) 0:0xc7, (11 0 3) 0:0xc7, (12 0 0) 0:0xa7 {}
    SDMA0_QUEUE0_MIDCMD_DATA8 @ (11 0 0) 0:0xc8, (11 0 3) 0:0xc8, (12 0 0) 0:0xa8 {}
    SDMA0_QUEUE0_MIDCMD_DATA9 @ (11 0 0) 0:0xc9, (11 0 3) 0:0xc9, (12 0 0) 0:0xa9 {}
    SDMA0_QUEUE0_MIDCMD_DATA10 @ (11 0 0) 0:0xca, (11 0 3) 0:0xca, (12 0 0) 0:0xaa {}
    SDMA0_QUEUE0_MIDCMD_CNTL @ (11 0 0) 0:0xcb, (11 0 3) 0:0xcb, (12 0 0) 0:0x9f {
        data_valid 0 0; copy_mode 1 1; split_state 7 4; allow_preempt 8 8;
    }
    SDMA1_RLC_CGCG_CTRL @ (11 0 0) 0:0x65c, (11 0 3) 0:0x65c, (12 0 0) 0:0x655 {
        cgcg_int_enable 1 1; mcu_cgcg_allow 4 4 GFX12; cgcg_idle_hysteresis 31 16;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE4 @ (11 0 0) 0:0x1bcb, (11 0 3) 0:0x1bcb, (12 0 0) 0:0x1bcb {
        sa0_cu_en 15 0; sa1_cu_en 31 16;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE5 @ (11 0 0) 0:0x1bcc, (11 0 3) 0:0x1bcc, (12 0 0) 0:0x1bcc {
        sa0_cu_en 15 0; sa1_cu_en 31 16;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE6 @ (11 0 0) 0:0x1bcd, (11 0 3) 0:0x1bcd, (12 0 0) 0:0x1bcd {
        sa0_cu_en 15 0; sa1_cu_en 31 16;
    }
    COMPUTE_STATIC_THREAD_MGMT_SE7 @ (11 0 0) 0:0x1bce, (11 0 3) 0:0x1bce, (12 0 0) 0:0x1bce {
        sa0_cu_en 15 0; sa1_cu_en 31 16;
    }
    CP_PFP_PRGRM_CNTR_START_HI @ (11 0 0) 0:0x1e59, (11 0 3) 0:0x1e59, (12 0 0) 0:0x1e59 {
        ip_start 29 0;
    }
    CP_ME_PRGRM_CNTR_START_HI @ (11 0 0) 0:0x1e79, (11 0 3) 0:0x1e79, (12 0 0) 0:0x1e79 {
        ip_start 29 0;
    }
    CP_HQD_SUSPEND_CNTL_STACK_OFFSET @ (11 0 0) 0:0x1fe1, (11 0 3) 0:0x1fe1, (12 0 0) 0:0x1fe1 {
        offset 15 2;
    }
    CP_HQD_SUSPEND_CNTL_STACK_DW_CNT @ (11 0 0) 0:0x1fe2, (11 0 3) 0:0x1fe2, (12 0 0) 0:0x1fe2 {
        cnt 13 0;
    }
    CP_HQD_SUSPEND_WG_STATE_OFFSET @ (11 0 0) 0:0x1fe3, (11 0 3) 0:0x1fe3, (12 0 0) 0:0x1fe3 {
        offset 25 2;
    }
    CP_HQD_DDID_RPTR @ (11 0 0) 0:0x1fe4, (11 0 3) 0:0x1fe4, (12 0 0) 0:0x1fe4 {
        rptr 10 0;
    }
    CP_HQD_DDID_WPTR @ (11 0 0) 0:0x1fe5, (11 0 3) 0:0x1fe5, (12 0 0) 0:0x1fe5 {
        wptr 10 0;
    }
    CP_HQD_DDID_INFLIGHT_COUNT @ (11 0 0) 0:0x1fe6, (11 0 3) 0:0x1fe6, (12 0 0) 0:0x1fe6 {
        count 15 0;
    }
    CP_HQD_DDID_DELTA_RPT_COUNT @ (11 0 0) 0:0x1fe7, (11 0 3) 0:0x1fe7, (12 0 0) 0:0x1fe7 {
        count 7 0;
    }
    CP_HQD_DEQUEUE_STATUS @ (11 0 0) 0:0x1fe8, (11 0 3) 0:0x1fe8, (12 0 0) 0:0x1fe8 {
        dequeue_stat 3 0; suspend_req_pend 4 4; suspend_req_pend_en 9 9; dequeue_stat_en 10 10;
    }
    CP_MEC_RS64_PRGRM_CNTR_START @ (11 0 0) 1:0x2900, (11 0 3) 1:0x2900, (12 0 0) 1:0x2900 {}
    CP_MEC_RS64_CNTL @ (11 0 0) 1:0x2904, (11 0 3) 1:0x2904, (12 0 0) 1:0x2904 {
        spare 3 0 GFX12; mec_invalidate_icache 4 4; mec_pipe0_reset 16 16; mec_pipe1_reset 17 17;
        mec_pipe2_reset 18 18; mec_pipe3_reset 19 19; mec_pipe0_active 26 26; mec_pipe1_active 27 27;
        mec_pipe2_active 28 28; mec_pipe3_active 29 29; mec_halt 30 30; mec_step 31 31;
    }
    CP_MEC_RS64_PRGRM_CNTR_START_HI @ (11 0 0) 1:0x2938, (11 0 3) 1:0x2938, (12 0 0) 1:0x2938 {
        ip_start 29 0;
    }
    RLC_RLCS_BOOTLOAD_STATUS @ (11 0 0) 1:0x4e82, (11 0 3) 1:0x4e82, (12 0 0) 1:0x4e7c {
        gfx_init_done 0 0 GFX11; gfx_fuse_dist_done 0 0 GFX12; gfx_security_policy_loaded 1 1 GFX11;
        gfx_init_done 1 1 GFX12; gfx_security_policy_done 2 2 GFX11; gfx_security_policy_loaded 2 2 GFX12;
        rlc_gpm_iram_loaded 3 3 GFX11; gfx_security_policy_done 3 3 GFX12; rlc_gpm_iram_done 4 4 GFX11;
        rlc_gpm_iram_loaded 4 4 GFX12; rlc_gpm_iram_done 5 5 GFX12; reserved 30 5 GFX11;
        status_6_30 30 6 GFX12; bootload_complete 31 31;
    }
    SDMA0_F32_CNTL @ (11 0 0) 1:0x589a, (11 0 3) 1:0x589a {
        halt 0 0; dbg_select_bits 7 2; th0_checksum_clr 8 8; th0_reset 9 9; th0_enable 10 10;
        th1_checksum_clr 12 12; th1_reset 13 13; th1_enable 14 14; th0_priority 23 16; th1_priority 31 24;
    }
    SDMA0_QUEUE0_CONTEXT_SWITCH_STATUS @ (12 0 0) 0:0x9e {
        rb_preempt_status 0 0; vm_hole_exception 1 1; page_exception 2 2; queue_hang_exception 5 5;
        doorbell_error_exception 6 6; sram_ecc_exception 7 7; dram_ecc_exception 8 8;
        wptr_lt_rptr_exception 9 9;
    }
    SDMA0_QUEUE0_WAIT_UNSATISFIED_THD @ (12 0 0) 0:0xab {
        threshold 4 0;
    }
    SDMA0_QUEUE0_MQD_BASE_ADDR_LO @ (12 0 0) 0:0xac {
        base_addr_lo 31 2;
    }
    SDMA0_QUEUE0_MQD_BASE_ADDR_HI @ (12 0 0) 0:0xad {}
    SDMA0_QUEUE0_MQD_CONTROL @ (12 0 0) 0:0xae {
        vmid 3 0;
    }
    SDMA0_QUEUE0_DEQUEUE_REQUEST @ (12 0 0) 0:0xaf {
        dequeue_req 0 0;
    }
    GCVM_L2_PROTECTION_FAULT_STATUS_LO32 @ (12 0 0) 0:0x15d0 {
        more_faults 0 0; walker_error 3 1; permission_faults 7 4; mapping_error 8 8; cid 17 9; rw 18 18;
        atomic 19 19; vmid 23 20; vf 24 24; vfid 29 25; prt 30 30; uce 31 31;
    }
    GCVM_L2_PROTECTION_FAULT_STATUS_HI32 @ (12 0 0) 0:0x15d1 {
        fed 0 0;
    }
    SDMA0_MCU_CNTL @ (12 0 0) 1:0x588e {
        halt 0 0; reset 1 1; dbg_select_bits 7 2;
    }
    CP_HYP_XCP_CTL @ (9 4 3) 1:0x5828 {
        virtual_xcc_id 2 0; num_xcc_in_xcp 6 3;
    }
    RLC_GPU_CLOCK_COUNT_LSB @ (9 4 3) 1:0x4c24 {}
    RLC_GPU_CLOCK_COUNT_MSB @ (9 4 3) 1:0x4c25 {}
    RLC_CAPTURE_GPU_CLOCK_COUNT @ (9 4 3) 1:0x4c26 {
        capture 0 0;
    }
}
