//! The host data path.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/hdp/hdp_{4_4_2,6_0_0,7_0_0}, `_offset.h` and
//! `_sh_mask.h`.

use super::registers;

registers! {
    HDP_MEM_POWER_CTRL @ (4 4 2) 0:0xd4, (6 0 0) 0:0xd4, (7 0 0) 0:0xd4 {
        iph_mem_power_ctrl_en 0 0 GFX9; atomic_mem_power_ctrl_en 0 0 GFX11_UP;
        iph_mem_power_ls_en 1 1 GFX9; atomic_mem_power_ls_en 1 1 GFX11_UP; iph_mem_power_ds_en 2 2 GFX9;
        atomic_mem_power_ds_en 2 2 GFX11_UP; iph_mem_power_sd_en 3 3 GFX9;
        atomic_mem_power_sd_en 3 3 GFX11_UP; iph_mem_idle_hysteresis 6 4 GFX9;
        atomic_mem_idle_hysteresis 6 4 GFX11_UP; iph_mem_power_up_recover_delay 13 8 GFX9;
        atomic_mem_power_up_recover_delay 13 8 GFX11_UP; iph_mem_power_down_ls_enter_delay 15 14 GFX9;
        atomic_mem_power_down_enter_delay 15 14 GFX11_UP; rc_mem_power_ctrl_en 16 16;
        rc_mem_power_ls_en 17 17; rc_mem_power_ds_en 18 18; rc_mem_power_sd_en 19 19;
        rc_mem_idle_hysteresis 22 20; rc_mem_power_up_recover_delay 29 24;
        rc_mem_power_down_ls_enter_delay 31 30 GFX9; rc_mem_power_down_enter_delay 31 30 GFX11_UP;
    }
}
