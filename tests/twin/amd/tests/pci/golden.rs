//! Recorded boots of a driver that has run on cards: what it writes to registers and mailboxes of the blocks up to power
//! management, and its commands, break no rule.
//!
//! The recordings have no firmware: in its place are images of the right kinds. What was read is not in them either:
//! whoever waits here finds everything done. One difference is mended here: that driver flushes the HDP after firmware
//! only, not after the command and the frame behind it, which the vendor's driver does (amdgpu_psp.c,
//! psp_ring_cmd_submit); here they never leave the HDP by themselves.

use std::path::Path;

use drivers_spec::amd::fw_type::GfxFwType as Fw;
use drivers_spec::amd::mmio::{mmhub, mp, nbio};
use drivers_spec::amd::psp::{CmdResp, LoadIpFw, RbFrame, Resp, cmd};
use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::psp::{PARTS, blocks};
use crate::{Rig, image};

/// Where the recorded driver has things in VRAM, which starts at 0 for VMID 0 there.
const FIRMWARE: u64 = 0x10_0000;
const COMMAND: u64 = 0x8_5000;
const FENCE: u64 = 0x8_6000;
const RING: u64 = 0x8_7000;

/// What is replayed.
const PHASES: [&str; 6] = [
    "open",
    "soc.init_hw",
    "gmc.init_hw",
    "ih.init_hw",
    "psp.init_hw",
    "smu.init_hw",
];

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

fn bytes(text: &str) -> Vec<u8> {
    // Trailing zeros are cut off, also in the middle of a byte.
    let digits = text.bytes().chain(*b"0").collect::<Vec<_>>();
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

/// Commands of the ring as the PSP gets them.
#[derive(Default)]
struct Commands {
    wptr: u32,
    fence: u32,
    /// Bytes of trusted memory that the PSP has asked for: the recorder's asked for none.
    tmr: u32,
}

impl Commands {
    fn submit(&mut self, rig: &Rig, text: &str) {
        let mut command = CmdResp::new_zeroed();
        let said = bytes(text);
        command.as_mut_bytes()[8..8 + said.len()].copy_from_slice(&said);
        let staged = match command.cmd_id.get() {
            cmd::LOAD_TOC => Some((
                0x200e,
                u64::from(command.cmd[8]) | u64::from(command.cmd[9]) << 8,
            )),
            cmd::LOAD_IP_FW => {
                let (load, _) = LoadIpFw::read_from_prefix(&command.cmd).unwrap();
                let fw = Fw(load.fw_type.get());
                let mut all = blocks(rig);
                all.push((Fw::SMU, 0x1001));
                let (_, kind) = all.into_iter().find(|(known, _)| *known == fw).unwrap();
                Some((kind, load.fw_size.get().into()))
            }
            _ => None,
        };
        if let Some((kind, bytes)) = staged {
            rig.write(FIRMWARE, &image(kind, bytes as u32 - 0x200));
        }
        if command.cmd_id.get() == cmd::SETUP_TMR {
            command.cmd[8..12].copy_from_slice(&self.tmr.to_le_bytes());
        }
        self.fence += 1;
        rig.write(COMMAND, command.as_bytes());
        let mut frame = RbFrame::new_zeroed();
        frame.cmd_buf_addr_lo = (COMMAND as u32).into();
        frame.fence_addr_lo = (FENCE as u32).into();
        frame.fence_value = self.fence.into();
        rig.write(RING + u64::from(self.wptr) * 4, frame.as_bytes());
        rig.flush();
        self.wptr += 16;
        rig.set(&mp::MP0_SMN_C2PMSG_67, self.wptr);
        assert_eq!(rig.bar(0).read(FENCE), Ok(self.fence));
        let status = COMMAND + std::mem::offset_of!(CmdResp, resp) as u64;
        assert_eq!(rig.bar(0).read(status), Ok(0u32), "{text}");
        let tmr = status + std::mem::offset_of!(Resp, tmr_size) as u64;
        self.tmr = self.tmr.max(rig.bar(0).read(tmr).unwrap());
    }
}

fn replay(chip: &str) {
    let mut config = Config::of(Chip::of(chip).unwrap());
    config.looks = 0;
    config.fb = 0;
    let rig = Rig::new(&config);
    // As it was found by the recorder.
    rig.set(&nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL, 0x7_f000);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/amd");
    let text = std::fs::read_to_string(golden.join(format!("am_boot_{chip}.txt"))).unwrap();
    let mut commands = Commands::default();
    let (mut writes, mut submitted, mut is_meant) = (0, 0, false);
    for line in text.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["phase", ref part @ ..] => {
                is_meant = PHASES.contains(&part.join(" ").as_str());
                if part == ["gfx.init_hw"] {
                    break;
                }
            }
            _ if !is_meant => {}
            ["config", at, _, value] => {
                // Memory is answered: the recorder's card has no such bit.
                let value = hex(value) as u32 | 2;
                let at = hex(at) as u16;
                assert_eq!(at, PCI_COMMAND);
                rig.pci.config_write(at, AccessWidth::W16, value).unwrap();
            }
            ["bootloader", _, command, bytes] => {
                let command = hex(command) as u32;
                let (_, kind) = PARTS
                    .into_iter()
                    .find(|(known, _)| *known == command)
                    .unwrap();
                let bytes: u32 = bytes.parse().unwrap();
                rig.write(FIRMWARE, &image(kind, bytes - 0x200));
                rig.flush();
            }
            ["psp", _, text] => {
                commands.submit(&rig, text);
                submitted += 1;
            }
            // Written with its command.
            ["w", "MP0_SMN_C2PMSG_67", ..] => {}
            ["w", name, dword, value] => {
                if name == "MMVM_INVALIDATE_ENG17_REQ" {
                    assert_eq!(rig.get(&mmhub::MMVM_INVALIDATE_ENG17_SEM), 1);
                }
                rig.write_far(hex(dword), hex(value) as u32);
                if name == "MP1_SMN_C2PMSG_66" {
                    assert_eq!(rig.get(&mp::MP1_SMN_C2PMSG_90), 1, "{line}");
                }
                writes += 1;
            }
            _ => {}
        }
    }
    rig.is_clean();
    assert!(writes > 100 && submitted > 10, "{writes} {submitted}");
}

#[test]
fn a_recorded_boot_of_navi_31_breaks_no_rule() {
    replay("gfx1100");
}

#[test]
fn a_recorded_boot_of_navi_48_breaks_no_rule() {
    replay("gfx1201");
}
