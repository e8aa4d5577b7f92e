//! The memory hub of what is not GC. That of version 1.8.0 calls its registers `VM_...` and `MC_...`; here
//! all have the newer names.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/mmhub/mmhub_{1_8_0,3_0_0,3_0_2,4_1_0}, `_offset.h`
//! and `_sh_mask.h`.

use super::registers;

registers! {
    MMVM_L2_CNTL @ (1 8 0) 0:0xb60, (3 0 0) 0:0x700, (3 0 2) 0:0x680, (4 1 0) 0:0x4e4 {
        enable_l2_cache 0 0; enable_l2_fragment_processing 1 1; l2_cache_pte_endian_swap_mode 3 2;
        l2_cache_pde_endian_swap_mode 5 4; l2_pde0_cache_tag_generation_mode 8 8;
        enable_l2_pte_cache_lru_update_by_write 9 9; enable_l2_pde0_cache_lru_update_by_write 10 10;
        enable_default_page_out_to_system_memory 11 11; l2_pde0_cache_split_mode 14 12;
        effective_l2_queue_size 17 15; pde_fault_classification 18 18; context1_identity_access_mode 20 19;
        identity_mode_fragment_size 25 21; l2_pte_cache_addr_mode 27 26;
    }
    MMVM_L2_CNTL2 @ (1 8 0) 0:0xb61, (3 0 0) 0:0x701, (3 0 2) 0:0x681, (4 1 0) 0:0x4e5 {
        invalidate_all_l1_tlbs 0 0; invalidate_l2_cache 1 1; disable_invalidate_per_domain 21 21;
        disable_bigk_cache_optimization 22 22; l2_pte_cache_vmid_mode 25 23; invalidate_cache_mode 27 26;
        pde_cache_effective_size 30 28;
    }
    MMVM_L2_CNTL3 @ (1 8 0) 0:0xb62, (3 0 0) 0:0x702, (3 0 2) 0:0x682, (4 1 0) 0:0x4e6 {
        bank_select 5 0; l2_cache_update_mode 7 6; l2_cache_update_wildcard_reference_value 12 8;
        l2_cache_bigk_fragment_size 19 15; l2_cache_bigk_associativity 20 20;
        l2_cache_4k_effective_size 23 21; l2_cache_bigk_effective_size 27 24; l2_cache_4k_force_miss 28 28;
        l2_cache_bigk_force_miss 29 29; pde_cache_force_miss 30 30; l2_cache_4k_associativity 31 31;
    }
    MMVM_L2_PROTECTION_FAULT_CNTL @ (1 8 0) 0:0xb67, (3 0 0) 0:0x708, (3 0 2) 0:0x688, (4 1 0) 0:0x4ec {
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
    MMVM_L2_PROTECTION_FAULT_CNTL2 @ (1 8 0) 0:0xb68, (3 0 0) 0:0x709, (3 0 2) 0:0x689, (4 1 0) 0:0x4ed {
        client_id_prt_fault_interrupt 15 0; other_client_id_prt_fault_interrupt 16 16;
        active_page_migration_pte 17 17; active_page_migration_pte_read_retry 18 18;
        enable_retry_fault_interrupt 19 19;
    }
    MMVM_L2_PROTECTION_FAULT_STATUS @ (1 8 0) 0:0xb6b, (3 0 0) 0:0x70c, (3 0 2) 0:0x68c {
        more_faults 0 0; walker_error 3 1; permission_faults 7 4; mapping_error 8 8; cid 17 9; rw 18 18;
        atomic 19 19; vmid 23 20; vf 24 24; vfid 28 25; uce 29 29 GFX9; prt 29 29 GFX11; fed 30 30 GFX9;
    }
    MMVM_L2_PROTECTION_FAULT_ADDR_LO32 @ (1 8 0) 0:0xb6c, (3 0 0) 0:0x70d, (3 0 2) 0:0x68d, (4 1 0) 0:0x4f2 {}
    MMVM_L2_PROTECTION_FAULT_ADDR_HI32 @ (1 8 0) 0:0xb6d, (3 0 0) 0:0x70e, (3 0 2) 0:0x68e, (4 1 0) 0:0x4f3 {
        logical_page_addr_hi4 3 0;
    }
    MMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_LO32 @ (1 8 0) 0:0xb6e, (3 0 0) 0:0x70f, (3 0 2) 0:0x68f, (4 1 0) 0:0x4f4 {}
    MMVM_L2_PROTECTION_FAULT_DEFAULT_ADDR_HI32 @ (1 8 0) 0:0xb6f, (3 0 0) 0:0x710, (3 0 2) 0:0x690, (4 1 0) 0:0x4f5 {
        physical_page_addr_hi4 3 0;
    }
    MMVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32 @ (1 8 0) 0:0xb71, (3 0 0) 0:0x712, (3 0 2) 0:0x692, (4 1 0) 0:0x4f7 {}
    MMVM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32 @ (1 8 0) 0:0xb72, (3 0 0) 0:0x713, (3 0 2) 0:0x693, (4 1 0) 0:0x4f8 {
        logical_page_number_hi4 3 0;
    }
    MMVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32 @ (1 8 0) 0:0xb73, (3 0 0) 0:0x714, (3 0 2) 0:0x694, (4 1 0) 0:0x4f9 {}
    MMVM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32 @ (1 8 0) 0:0xb74, (3 0 0) 0:0x715, (3 0 2) 0:0x695, (4 1 0) 0:0x4fa {
        logical_page_number_hi4 3 0;
    }
    MMVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_LO32 @ (1 8 0) 0:0xb75, (3 0 0) 0:0x716, (3 0 2) 0:0x696, (4 1 0) 0:0x4fb {}
    MMVM_L2_CONTEXT_IDENTITY_PHYSICAL_OFFSET_HI32 @ (1 8 0) 0:0xb76, (3 0 0) 0:0x717, (3 0 2) 0:0x697, (4 1 0) 0:0x4fc {
        physical_page_offset_hi4 3 0;
    }
    MMVM_L2_CNTL4 @ (1 8 0) 0:0xb77, (3 0 0) 0:0x718, (3 0 2) 0:0x698, (4 1 0) 0:0x4fd {
        l2_cache_4k_partition_count 5 0; vmc_tap_pde_request_physical 6 6;
        vmc_tap_pte_request_physical 7 7; mm_nonrt_ififo_active_transaction_limit 17 8;
        mm_softrt_ififo_active_transaction_limit 27 18; bpm_cgcgls_override 28 28; gc_ch_fgcg_off 29 29;
        vfifo_head_of_queue 30 30; vfifo_visible_bank_silos 31 31 GFX11_UP;
    }
    MMVM_L2_CNTL5 @ (1 8 0) 0:0xb78, (3 0 0) 0:0x71e, (3 0 2) 0:0x69e, (4 1 0) 0:0x503 {
        walker_fetch_pde_mtype_enable 0 0 GFX9; l2_cache_smallk_fragment_size 4 0 GFX11_UP;
        walker_fetch_pde_noalloc_enable 1 1 GFX9; walker_priority_client_id 13 5 GFX11_UP;
        walker_fetch_pde_noalloc_enable 14 14 GFX11_UP; walker_fetch_pde_mtype_enable 15 15 GFX11_UP;
        mm_client_ret_fgcg_off 16 16 GFX11_UP; utcl2_atc_req_fgcg_off 17 17 GFX11_UP;
    }
    MMVM_L2_BANK_SELECT_RESERVED_CID2 @ (1 8 0) 0:0xb7b, (3 0 0) 0:0x71b, (3 0 2) 0:0x69b, (4 1 0) 0:0x500 {
        reserved_read_client_id 8 0; reserved_write_client_id 18 10; enable 20 20;
        reserved_cache_invalidation_mode 24 24; reserved_cache_private_invalidation 25 25;
        reserved_cache_fragment_size 30 26 GFX11_UP;
    }
    MMVM_CONTEXT0_CNTL @ (1 8 0) 0:0xba0, (3 0 0) 0:0x740, (3 0 2) 0:0x6c0, (4 1 0) 0:0x564 {
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
        secure_protection_fault_enable_interrupt 24 24 GFX12;
        secure_protection_fault_enable_default 25 25 GFX12;
    }
    MMVM_CONTEXT1_CNTL @ (1 8 0) 0:0xba1, (3 0 0) 0:0x741, (3 0 2) 0:0x6c1, (4 1 0) 0:0x565 {
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
        secure_protection_fault_enable_interrupt 24 24 GFX12;
        secure_protection_fault_enable_default 25 25 GFX12;
    }
    MMVM_INVALIDATE_ENG17_SEM @ (1 8 0) 0:0xbc2, (3 0 0) 0:0x762, (3 0 2) 0:0x6e2, (4 1 0) 0:0x586 {
        semaphore 0 0;
    }
    MMVM_INVALIDATE_ENG17_REQ @ (1 8 0) 0:0xbd4, (3 0 0) 0:0x774, (3 0 2) 0:0x6f4, (4 1 0) 0:0x598 {
        per_vmid_invalidate_req 15 0; flush_type 17 16 GFX9; flush_type 18 16 GFX11_UP;
        invalidate_l2_ptes 18 18 GFX9; invalidate_l2_pde0 19 19 GFX9; invalidate_l2_ptes 19 19 GFX11_UP;
        invalidate_l2_pde1 20 20 GFX9; invalidate_l2_pde0 20 20 GFX11_UP; invalidate_l2_pde2 21 21 GFX9;
        invalidate_l2_pde1 21 21 GFX11_UP; invalidate_l1_ptes 22 22 GFX9;
        invalidate_l2_pde2 22 22 GFX11_UP; clear_protection_fault_status_addr 23 23 GFX9;
        invalidate_l1_ptes 23 23 GFX11_UP; log_request 24 24 GFX9;
        clear_protection_fault_status_addr 24 24 GFX11_UP; log_request 25 25 GFX11_UP;
        invalidate_4k_pages_only 26 26 GFX11_UP;
    }
    MMVM_INVALIDATE_ENG17_ACK @ (1 8 0) 0:0xbe6, (3 0 0) 0:0x786, (3 0 2) 0:0x706, (4 1 0) 0:0x5aa {
        per_vmid_invalidate_ack 15 0; semaphore 16 16;
    }
    MMVM_INVALIDATE_ENG0_ADDR_RANGE_LO32 @ (1 8 0) 0:0xbe7, (3 0 0) 0:0x787, (3 0 2) 0:0x707, (4 1 0) 0:0x5ab {
        s_bit 0 0; logi_page_addr_range_lo31 31 1;
    }
    MMVM_INVALIDATE_ENG0_ADDR_RANGE_HI32 @ (1 8 0) 0:0xbe8, (3 0 0) 0:0x788, (3 0 2) 0:0x708, (4 1 0) 0:0x5ac {
        logi_page_addr_range_hi5 4 0;
    }
    MMVM_INVALIDATE_ENG1_ADDR_RANGE_LO32 @ (1 8 0) 0:0xbe9, (3 0 0) 0:0x789, (3 0 2) 0:0x709, (4 1 0) 0:0x5ad {
        s_bit 0 0; logi_page_addr_range_lo31 31 1;
    }
    MMVM_INVALIDATE_ENG1_ADDR_RANGE_HI32 @ (1 8 0) 0:0xbea, (3 0 0) 0:0x78a, (3 0 2) 0:0x70a, (4 1 0) 0:0x5ae {
        logi_page_addr_range_hi5 4 0;
    }
    MMVM_INVALIDATE_ENG17_ADDR_RANGE_LO32 @ (1 8 0) 0:0xc09, (3 0 0) 0:0x7a9, (3 0 2) 0:0x729, (4 1 0) 0:0x5cd {
        s_bit 0 0; logi_page_addr_range_lo31 31 1;
    }
    MMVM_INVALIDATE_ENG17_ADDR_RANGE_HI32 @ (1 8 0) 0:0xc0a, (3 0 0) 0:0x7aa, (3 0 2) 0:0x72a, (4 1 0) 0:0x5ce {
        logi_page_addr_range_hi5 4 0;
    }
    MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32 @ (1 8 0) 0:0xc0b, (3 0 0) 0:0x7ab, (3 0 2) 0:0x72b, (4 1 0) 0:0x5cf {}
    MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32 @ (1 8 0) 0:0xc0c, (3 0 0) 0:0x7ac, (3 0 2) 0:0x72c, (4 1 0) 0:0x5d0 {}
    MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32 @ (1 8 0) 0:0xc2b, (3 0 0) 0:0x7cb, (3 0 2) 0:0x74b, (4 1 0) 0:0x5ef {}
    MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32 @ (1 8 0) 0:0xc2c, (3 0 0) 0:0x7cc, (3 0 2) 0:0x74c, (4 1 0) 0:0x5f0 {
        logical_page_number_hi4 3 0;
    }
    MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32 @ (1 8 0) 0:0xc4b, (3 0 0) 0:0x7eb, (3 0 2) 0:0x76b, (4 1 0) 0:0x60f {}
    MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32 @ (1 8 0) 0:0xc4c, (3 0 0) 0:0x7ec, (3 0 2) 0:0x76c, (4 1 0) 0:0x610 {
        logical_page_number_hi4 3 0;
    }
    MMMC_VM_FB_OFFSET @ (1 8 0) 0:0xc87, (3 0 0) 0:0x8d7, (3 0 2) 0:0x857, (4 1 0) 0:0x4c7 {
        fb_offset 23 0;
    }
    MMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_LSB @ (1 8 0) 0:0xc88, (3 0 0) 0:0x8d8, (3 0 2) 0:0x858, (4 1 0) 0:0x4c8 {}
    MMMC_VM_SYSTEM_APERTURE_DEFAULT_ADDR_MSB @ (1 8 0) 0:0xc89, (3 0 0) 0:0x8d9, (3 0 2) 0:0x859, (4 1 0) 0:0x4c9 {
        physical_page_number_msb 3 0;
    }
    MMMC_VM_XGMI_LFB_CNTL @ (1 8 0) 0:0xc97 {
        pf_lfb_region 3 0; pf_max_region 7 4;
    }
    MMMC_VM_XGMI_LFB_SIZE @ (1 8 0) 0:0xc98 {
        pf_lfb_size 16 0;
    }
    MMMC_VM_FB_LOCATION_BASE @ (1 8 0) 0:0xc9c, (3 0 0) 0:0x8ec, (3 0 2) 0:0x86c, (4 1 0) 0:0x554 {
        fb_base 23 0;
    }
    MMMC_VM_FB_LOCATION_TOP @ (1 8 0) 0:0xc9d, (3 0 0) 0:0x8ed, (3 0 2) 0:0x86d, (4 1 0) 0:0x555 {
        fb_top 23 0;
    }
    MMMC_VM_AGP_TOP @ (1 8 0) 0:0xc9e, (3 0 0) 0:0x8ee, (3 0 2) 0:0x86e, (4 1 0) 0:0x556 {
        agp_top 23 0;
    }
    MMMC_VM_AGP_BOT @ (1 8 0) 0:0xc9f, (3 0 0) 0:0x8ef, (3 0 2) 0:0x86f, (4 1 0) 0:0x557 {
        agp_bot 23 0;
    }
    MMMC_VM_AGP_BASE @ (1 8 0) 0:0xca0, (3 0 0) 0:0x8f0, (3 0 2) 0:0x870, (4 1 0) 0:0x558 {
        agp_base 23 0;
    }
    MMMC_VM_SYSTEM_APERTURE_LOW_ADDR @ (1 8 0) 0:0xca1, (3 0 0) 0:0x8f1, (3 0 2) 0:0x871, (4 1 0) 0:0x559 {
        logical_addr 29 0;
    }
    MMMC_VM_SYSTEM_APERTURE_HIGH_ADDR @ (1 8 0) 0:0xca2, (3 0 0) 0:0x8f2, (3 0 2) 0:0x872, (4 1 0) 0:0x55a {
        logical_addr 29 0;
    }
    MMMC_VM_MX_L1_TLB_CNTL @ (1 8 0) 0:0xca3, (3 0 0) 0:0x8f3, (3 0 2) 0:0x873, (4 1 0) 0:0x55b {
        enable_l1_tlb 0 0; system_access_mode 4 3; system_aperture_unmapped_access 5 5;
        enable_advanced_driver_model 6 6; eco_bits 10 7; mtype 12 11 GFX9_12; mtype 13 11 GFX11;
        atc_en 13 13 GFX9;
    }
    MM_ATC_L2_MISC_CG @ (3 0 0) 0:0x6cd {
        offdly 11 6; enable 18 18; mem_ls_enable 19 19;
    }
    MMVM_L2_PROTECTION_FAULT_STATUS_LO32 @ (4 1 0) 0:0x4f0 {
        more_faults 0 0; walker_error 3 1; permission_faults 7 4; mapping_error 8 8; cid 17 9; rw 18 18;
        atomic 19 19; vmid 23 20; vf 24 24; vfid 29 25; prt 30 30; uce 31 31;
    }
    MMVM_L2_PROTECTION_FAULT_STATUS_HI32 @ (4 1 0) 0:0x4f1 {
        fed 0 0;
    }
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE @ (1 8 0) 0:0x60 {}
    DAGB0_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ (1 8 0) 0:0x61 {}
    DAGB1_WRCLI_GPU_SNOOP_OVERRIDE @ (1 8 0) 0:0xe0 {}
    DAGB1_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ (1 8 0) 0:0xe1 {}
    DAGB2_WRCLI_GPU_SNOOP_OVERRIDE @ (1 8 0) 0:0x160 {}
    DAGB2_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ (1 8 0) 0:0x161 {}
    DAGB3_WRCLI_GPU_SNOOP_OVERRIDE @ (1 8 0) 0:0x1e0 {}
    DAGB3_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ (1 8 0) 0:0x1e1 {}
    DAGB4_WRCLI_GPU_SNOOP_OVERRIDE @ (1 8 0) 0:0x260 {}
    DAGB4_WRCLI_GPU_SNOOP_OVERRIDE_VALUE @ (1 8 0) 0:0x261 {}
}
