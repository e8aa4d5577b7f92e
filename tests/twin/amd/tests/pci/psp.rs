//! The security processor, from its bootloader to the start of the graphics block's firmware.

use drivers_spec::amd::fw_type::GfxFwType as Fw;
use drivers_spec::amd::mmio::mp;
use drivers_spec::amd::psp::{
    CmdResp, InvokeCmd, LoadIpFw, LoadTa, LoadToc, RbFrame, SetupTmr, SpatialPart,
    TMR_VIRT_PHY_ADDR, UnloadTa,
};
use drivers_spec::amd::psp::{UNKNOWN_COMMAND, bl, cmd, ctrl};
use twin::fires::fires;
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;
use twin_amd::pci::wait::Wait;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{FB, Rig, image};

/// Where things are in VRAM.
const FIRMWARE: u64 = 0x10_0000;
const COMMAND: u64 = 0x8_5000;
const FENCE: u64 = 0x8_6000;
const RING: u64 = 0x8_7000;
/// What an application shares.
const SHARED: u64 = 0x9_0000;
/// Bytes of the ring: three frames.
const RING_BYTES: u32 = 192;
const TMR: u64 = 0x200_0000;
const TMR_BYTES: u32 = 0x130_0000;

const READY: u32 = ctrl::RESPONSE;

/// Parts of the PSP's own firmware, by command and kind.
pub(crate) const PARTS: [(u32, u16); 8] = [
    (bl::LOAD_KEY_DATABASE, 0x4f),
    (bl::LOAD_TOS_SPL_TABLE, 0x56),
    (bl::LOAD_SYSDRV, 0x0a),
    (bl::LOAD_SOCDRV, 0x14a),
    (bl::LOAD_INTFDRV, 0x14c),
    (bl::LOAD_DBGDRV, 0x14b),
    (bl::LOAD_RASDRV, 0x152),
    (bl::LOAD_SOSDRV, 0x09),
];

/// Firmware of a chip after that of the SMU, by type and kind.
pub(crate) fn blocks(rig: &Rig) -> Vec<(Fw, u16)> {
    let mut all = match rig.chip.name.starts_with("gfx11") {
        true => vec![(Fw::SDMA_UCODE_TH1, 0x203f), (Fw::SDMA_UCODE_TH0, 0x203e)],
        false => vec![
            (Fw::SDMA_UCODE_TH0, 0x2025),
            (Fw::RS64_PFP, 0x2044),
            (Fw::RS64_PFP_P0_STACK, 0x2045),
            (Fw::RS64_ME, 0x2046),
            (Fw::RS64_ME_P0_STACK, 0x2047),
        ],
    };
    all.extend([
        (Fw::RS64_MEC, 0x2048),
        (Fw::RS64_MEC_P0_STACK, 0x2049),
        (Fw::IMU_I, 0x203b),
        (Fw::IMU_D, 0x203c),
        (Fw::RLC_IRAM, 0x2016),
        (Fw::RLC_DRAM_BOOT, 0x2017),
        (Fw::RLC_P, 0x200f),
        (Fw::RLC_V, 0x200a),
        (Fw::RLC_G, 0x2009),
    ]);
    all
}

impl Rig {
    /// A command of the bootloader, for what is at an address.
    pub(crate) fn psp_load(&self, command: u32, at: u64) {
        assert!(self.until(&mp::MP0_SMN_C2PMSG_35, READY, READY));
        self.set(&mp::MP0_SMN_C2PMSG_36, (at >> 20) as u32);
        // Whether it is refused the test sees by the rule.
        self.try_set(&mp::MP0_SMN_C2PMSG_35, command);
    }

    fn load_part(&self, command: u32, kind: u16) {
        self.write(FIRMWARE, &image(kind, 0x340));
        self.flush();
        self.psp_load(command, FB + FIRMWARE);
    }

    /// Until the secure OS runs.
    fn start_psp(&self) {
        for (command, kind) in PARTS {
            self.load_part(command, kind);
        }
        assert!(self.until(&mp::MP0_SMN_C2PMSG_81, 1, 1));
    }

    fn make_ring(&self) -> bool {
        assert!(self.until(&mp::MP0_SMN_C2PMSG_64, READY, READY));
        let at = FB + RING;
        self.set(&mp::MP0_SMN_C2PMSG_69, at as u32);
        self.set(&mp::MP0_SMN_C2PMSG_70, (at >> 32) as u32);
        self.set(&mp::MP0_SMN_C2PMSG_71, RING_BYTES);
        self.try_set(&mp::MP0_SMN_C2PMSG_64, ctrl::INIT_GPCOM_RING)
            && self.until(&mp::MP0_SMN_C2PMSG_64, READY | ctrl::STATUS, READY)
    }

    /// A command by the ring; what it came to, once the fence is there.
    fn submit(&self, id: u32, payload: &[u8]) -> Option<CmdResp> {
        let mut command = CmdResp::new_zeroed();
        command.cmd_id = id.into();
        command.cmd[..payload.len()].copy_from_slice(payload);
        self.write(COMMAND, command.as_bytes());
        let wptr = self.get(&mp::MP0_SMN_C2PMSG_67);
        let number: u32 = self.bar(0).read(FENCE).unwrap();
        let mut frame = RbFrame::new_zeroed();
        let [at, fence] = [COMMAND, FENCE].map(|at| FB + at);
        frame.cmd_buf_addr_lo = (at as u32).into();
        frame.cmd_buf_addr_hi = ((at >> 32) as u32).into();
        frame.cmd_buf_size = 1024.into();
        frame.fence_addr_lo = (fence as u32).into();
        frame.fence_addr_hi = ((fence >> 32) as u32).into();
        frame.fence_value = (number + 1).into();
        self.write(RING + u64::from(wptr) * 4, frame.as_bytes());
        self.flush();
        let next = (wptr + 16) % (RING_BYTES / 4);
        self.set(&mp::MP0_SMN_C2PMSG_67, next);
        let done = (0..16).any(|_| self.bar(0).read(FENCE) == Ok(number + 1));
        let mut bytes = vec![0; size_of::<CmdResp>()];
        self.bar(0).read_bytes(COMMAND, &mut bytes).unwrap();
        CmdResp::read_from_bytes(&bytes).ok().filter(|_| done)
    }

    fn status(&self, id: u32, payload: &[u8]) -> u32 {
        self.submit(id, payload).unwrap().resp.status.get()
    }

    fn load_ip_fw(&self, fw: Fw, kind: u16) -> u32 {
        let image = image(kind, 0x1240);
        self.write(FIRMWARE, &image);
        let mut load = LoadIpFw::new_zeroed();
        let at = FB + FIRMWARE;
        load.fw_phy_addr_lo = (at as u32).into();
        load.fw_phy_addr_hi = ((at >> 32) as u32).into();
        load.fw_size = (image.len() as u32).into();
        load.fw_type = fw.0.into();
        self.status(cmd::LOAD_IP_FW, load.as_bytes())
    }

    /// An application that shares memory: the status, and its session.
    fn load_ta(&self, kind: u16, shared: u64, bytes: u32) -> (u32, u32) {
        let image = image(kind, 0x1240);
        self.write(FIRMWARE, &image);
        let [app, shared] = [FIRMWARE, shared].map(|at| FB + at);
        let load = LoadTa {
            app_phy_addr_lo: (app as u32).into(),
            app_phy_addr_hi: ((app >> 32) as u32).into(),
            app_len: (image.len() as u32).into(),
            cmd_buf_phy_addr_lo: (shared as u32).into(),
            cmd_buf_phy_addr_hi: ((shared >> 32) as u32).into(),
            cmd_buf_len: bytes.into(),
        };
        let done = self.submit(cmd::LOAD_TA, load.as_bytes()).unwrap();
        (done.resp.status.get(), done.resp.session_id.get())
    }

    fn unload_ta(&self, session: u32) -> u32 {
        let session_id = session.into();
        self.status(cmd::UNLOAD_TA, UnloadTa { session_id }.as_bytes())
    }

    fn call_ta(&self, session: u32) -> u32 {
        let call = InvokeCmd {
            session_id: session.into(),
            ta_cmd_id: 1.into(),
        };
        self.status(cmd::INVOKE_CMD, call.as_bytes())
    }

    fn setup_tmr(&self, at: u64, bytes: u32) -> u32 {
        let mut tmr = SetupTmr::new_zeroed();
        let mc = FB + at;
        tmr.buf_phy_addr_lo = (mc as u32).into();
        tmr.buf_phy_addr_hi = ((mc >> 32) as u32).into();
        tmr.buf_size = bytes.into();
        tmr.tmr_flags = TMR_VIRT_PHY_ADDR.into();
        tmr.system_phy_addr_lo = (at as u32).into();
        tmr.system_phy_addr_hi = ((at >> 32) as u32).into();
        self.status(cmd::SETUP_TMR, tmr.as_bytes())
    }

    /// With a ring, and the SMU's firmware.
    pub(crate) fn with_smu(config: &Config) -> Rig {
        let rig = Rig::set_up(config);
        rig.start_psp();
        assert!(rig.make_ring());
        assert_eq!(rig.load_ip_fw(Fw::SMU, 0x1001), 0);
        rig
    }

    fn with_tmr(name: &str) -> Rig {
        let rig = Rig::with_smu(&Config::of(Chip::of(name).unwrap()));
        if name.starts_with("gfx11") {
            assert_eq!(rig.setup_tmr(TMR, TMR_BYTES), 0);
        }
        rig
    }
}

#[test]
fn all_firmware_comes_in_order() {
    for name in ["gfx1100", "gfx1102", "gfx1200", "gfx1201"] {
        let rig = Rig::set_up(&Config::of(Chip::of(name).unwrap()));
        assert_eq!(rig.get(&mp::MP0_SMN_C2PMSG_81), 0);
        rig.start_psp();
        assert!(rig.make_ring());
        let toc = image(0x200e, 0x700);
        rig.write(FIRMWARE, &toc);
        let mut load = LoadToc::new_zeroed();
        load.toc_phy_addr_lo = ((FB + FIRMWARE) as u32).into();
        load.toc_phy_addr_hi = ((FB >> 32) as u32).into();
        load.toc_size = (toc.len() as u32).into();
        let loaded = rig.submit(cmd::LOAD_TOC, load.as_bytes()).unwrap();
        assert_eq!(loaded.resp.status.get(), 0);
        assert_eq!(rig.load_ip_fw(Fw::SMU, 0x1001), 0);
        if name.starts_with("gfx11") {
            let bytes = loaded.resp.tmr_size.get();
            assert_eq!(rig.setup_tmr(TMR, bytes), 0);
        }
        for (fw, kind) in blocks(&rig) {
            assert_eq!(rig.load_ip_fw(fw, kind), 0, "{fw:?}");
        }
        assert_eq!(rig.status(cmd::AUTOLOAD_RLC, &[]), 0);
        // There is no such command, and no rule against asking.
        assert_eq!(rig.status(0x1ff, &[]), UNKNOWN_COMMAND);
        rig.is_clean();
    }
}

#[test]
fn the_bootloader_takes_parts_in_order_when_it_is_ready() {
    let rig = Rig::set_up(&Config::of(Chip::of("gfx1100").unwrap()));
    rig.load_part(bl::LOAD_SYSDRV, 0x0a);
    fires("AMD-PSP-BOOTLOADER").only(&rig.broken());
    let rig = Rig::set_up(&Config::of(Chip::of("gfx1100").unwrap()));
    rig.load_part(bl::LOAD_KEY_DATABASE, 0x4f);
    assert!(!rig.try_set(&mp::MP0_SMN_C2PMSG_35, bl::LOAD_SYSDRV));
    fires("AMD-PSP-BOOTLOADER").only(&rig.broken());
    let rig = Rig::set_up(&Config::of(Chip::of("gfx1100").unwrap()));
    rig.start_psp();
    assert!(!rig.try_set(&mp::MP0_SMN_C2PMSG_35, bl::LOAD_KEY_DATABASE));
    fires("AMD-PSP-BOOTLOADER").only(&rig.broken());
}

#[test]
fn an_image_is_the_one_that_was_said() {
    let rig = Rig::set_up(&Config::of(Chip::of("gfx1201").unwrap()));
    rig.load_part(bl::LOAD_KEY_DATABASE, 0x0a);
    fires("AMD-PSP-IMAGE").only(&rig.broken());
    assert!(rig.until(&mp::MP0_SMN_C2PMSG_35, u32::MAX, READY | 1));
    let rig = Rig::with_tmr("gfx1201");
    assert_ne!(rig.load_ip_fw(Fw::RS64_MEC, 0x2049), 0);
    fires("AMD-PSP-IMAGE").only(&rig.broken());
}

#[test]
fn a_ring_is_whole_and_there_is_one() {
    let rig = Rig::set_up(&Config::of(Chip::of("gfx1100").unwrap()));
    rig.start_psp();
    assert!(rig.make_ring());
    assert!(!rig.make_ring());
    fires("AMD-PSP-RING").only(&rig.broken());
    assert!(rig.until(&mp::MP0_SMN_C2PMSG_64, READY, READY));
    rig.set(&mp::MP0_SMN_C2PMSG_64, ctrl::DESTROY_RINGS);
    assert!(rig.make_ring());
    for wptr in [8, RING_BYTES / 4] {
        assert!(!rig.try_set(&mp::MP0_SMN_C2PMSG_67, wptr));
    }
    assert_eq!(rig.broken(), ["AMD-PSP-RING"; 3]);
}

#[test]
fn firmware_comes_in_order() {
    let rig = Rig::with_smu(&Config::of(Chip::of("gfx1100").unwrap()));
    assert_ne!(rig.load_ip_fw(Fw::RS64_MEC, 0x2048), 0);
    fires("AMD-PSP-ORDER").only(&rig.broken());
    let rig = Rig::with_smu(&Config::of(Chip::of("gfx1201").unwrap()));
    assert_ne!(rig.setup_tmr(TMR, TMR_BYTES), 0);
    fires("AMD-PSP-ORDER").only(&rig.broken());
    let rig = Rig::with_tmr("gfx1201");
    assert_eq!(rig.load_ip_fw(Fw::RLC_G, 0x2009), 0);
    assert_ne!(rig.load_ip_fw(Fw::RS64_MEC, 0x2048), 0);
    fires("AMD-PSP-ORDER").only(&rig.broken());
}

#[test]
fn the_region_of_the_psp_is_where_it_can_be() {
    for (at, bytes) in [(TMR + 0x1000, TMR_BYTES), (TMR, 0x10_0000)] {
        let rig = Rig::with_smu(&Config::of(Chip::of("gfx1100").unwrap()));
        assert_ne!(rig.setup_tmr(at, bytes), 0);
        fires("AMD-PSP-PLACE").only(&rig.broken());
    }
}

#[test]
fn the_graphics_block_starts_with_all_of_its_firmware() {
    let rig = Rig::with_tmr("gfx1201");
    assert_eq!(rig.load_ip_fw(Fw::RLC_G, 0x2009), 0);
    assert_ne!(rig.status(cmd::AUTOLOAD_RLC, &[]), 0);
    fires("AMD-PSP-AUTOLOAD").only(&rig.broken());
}

#[test]
fn an_application_has_a_session_until_it_is_unloaded() {
    let rig = Rig::with_tmr("gfx1100");
    let (status, first) = rig.load_ta(0, SHARED, 0x4000);
    assert_eq!(status, 0);
    let (status, second) = rig.load_ta(0, SHARED, 0);
    assert_eq!(status, 0);
    assert_ne!(first, second);
    // What it would do is not modelled, and no rule is against asking.
    assert_ne!(rig.call_ta(first), 0);
    assert_eq!(rig.unload_ta(first), 0);
    rig.is_clean();
    assert_ne!(rig.unload_ta(first), 0);
    fires("AMD-PSP-SESSION").only(&rig.broken());
    assert_ne!(rig.call_ta(first), 0);
    assert_eq!(rig.unload_ta(second), 0);
    assert_eq!(rig.broken(), ["AMD-PSP-SESSION"; 2]);
}

#[test]
fn an_application_shares_whole_pages() {
    for (shared, bytes) in [
        (SHARED + 0x800, 0x1000),
        (SHARED, 0x1800),
        (0xf_0000_0000, 0x1000),
    ] {
        let rig = Rig::with_tmr("gfx1100");
        assert_ne!(rig.load_ta(0, shared, bytes).0, 0);
        fires("AMD-PSP-SHARED").only(&rig.broken());
    }
    let rig = Rig::with_tmr("gfx1100");
    assert_ne!(rig.load_ta(0x2048, SHARED, 0x1000).0, 0);
    fires("AMD-PSP-IMAGE").only(&rig.broken());
    let rig = Rig::with_smu(&Config::of(Chip::of("gfx1100").unwrap()));
    assert_ne!(rig.load_ta(0, SHARED, 0x1000).0, 0);
    fires("AMD-PSP-ORDER").only(&rig.broken());
}

#[test]
fn what_can_fail_fails() {
    let of = |config: &dyn Fn(&mut Config)| {
        let mut card = Config::of(Chip::of("gfx1100").unwrap());
        config(&mut card);
        card
    };
    let rig = Rig::set_up(&of(&|card| card.bootloader_error = Some((0x8_0000, 7))));
    rig.load_part(bl::LOAD_KEY_DATABASE, 0x4f);
    assert!(rig.until(&mp::MP0_SMN_C2PMSG_35, u32::MAX, READY | 7));
    let rig = Rig::set_up(&of(&|card| card.ring_error = Some(5)));
    rig.start_psp();
    assert!(!rig.make_ring());
    assert!(rig.until(&mp::MP0_SMN_C2PMSG_64, u32::MAX, READY | 5));
    let error = |card: &mut Config| card.psp_error = Some((cmd::SETUP_TMR, 0xffff_0006));
    let rig = Rig::with_smu(&of(&error));
    assert_eq!(rig.setup_tmr(TMR, TMR_BYTES), 0xffff_0006);
    let rig = Rig::set_up(&of(&|card| card.never = Some(Wait::Fence)));
    rig.start_psp();
    assert!(rig.make_ring());
    assert!(rig.submit(cmd::DESTROY_TMR, &[]).is_none());
    rig.is_clean();
}

#[test]
fn the_region_of_the_psp_is_its_own() {
    let rig = Rig::with_tmr("gfx1100");
    let memory = rig.bar(0);
    memory.write(TMR - 4, 1u32).unwrap();
    memory.write(TMR + u64::from(TMR_BYTES), 1u32).unwrap();
    rig.is_clean();
    assert!(memory.read::<u32>(TMR + 8).is_err());
    fires("AMD-PSP-TMR").only(&rig.broken());
}

#[test]
fn instinct_has_its_region_and_starts_by_a_list_of_registers() {
    let rig = Rig::set_up(&Config::of(Chip::of("gfx942").unwrap()));
    rig.start_psp();
    assert!(rig.make_ring());
    assert_ne!(rig.load_ip_fw(Fw::CP_MEC, 0x2004), 0);
    fires("AMD-PSP-ORDER").only(&rig.broken());
    let rig = Rig::set_up(&Config::of(Chip::of("gfx942").unwrap()));
    // Power management runs since power has come.
    assert_eq!(rig.get(&mp::MP1_SMN_C2PMSG_90), 1);
    rig.start_psp();
    assert!(rig.make_ring());
    assert_eq!(
        rig.status(cmd::SETUP_TMR, SetupTmr::new_zeroed().as_bytes()),
        0
    );
    let all = [
        (Fw::P2S_TABLE, 0x1d2),
        (Fw::SDMA0, 0x2025),
        (Fw::CP_MEC, 0x2004),
        (Fw::CP_MEC_ME1, 0x2005),
        (Fw::RLC_G, 0x2009),
        (Fw::REG_LIST, 0x135),
    ];
    for (fw, kind) in all {
        assert_eq!(rig.load_ip_fw(fw, kind), 0, "{fw:?}");
    }
    let gpus = |mode: u32| {
        let mut part = SpatialPart::new_zeroed();
        part.mode = mode.into();
        rig.status(cmd::SPATIAL_PART, part.as_bytes())
    };
    assert_eq!((gpus(8), gpus(1)), (0, 0));
    rig.is_clean();
    assert_ne!(rig.setup_tmr(TMR, TMR_BYTES), 0);
    fires("AMD-PSP-PLACE").only(&rig.broken());
    assert_ne!(gpus(3), 0);
    assert_eq!(rig.broken().len(), 2);
}
