//! Power management: messages, the table of measurements, the reset.

use drivers_spec::amd::mmio::mp;
use drivers_spec::amd::smu::{
    DEBUG_MODE1_RESET, DPM_COUNT, INSTINCT, NAVI, TABLE_SMU_METRICS, result,
};
use drivers_spec::pci::PCI_COMMAND;
use hcq::mem::window::AccessWidth;
use twin::fires::fires;
use twin_amd::pci::card::{Before, Config};
use twin_amd::pci::chip::Chip;
use twin_amd::pci::wait::Wait;

use crate::{FB, Rig};

const TABLE: u64 = 0x9_7000;

fn running() -> Rig {
    Rig::with_smu(&Config::of(Chip::of("gfx1100").unwrap()))
}

impl Rig {
    /// A message: what it came to, and what it gave.
    fn message(&self, number: u32, argument: u32) -> Option<(u32, u32)> {
        self.set(&mp::MP1_SMN_C2PMSG_90, 0);
        self.set(&mp::MP1_SMN_C2PMSG_82, argument);
        self.set(&mp::MP1_SMN_C2PMSG_66, number);
        let mut looks = (0..16).map(|_| self.get(&mp::MP1_SMN_C2PMSG_90));
        let result = looks.find(|result| *result != 0)?;
        Some((result, self.get(&mp::MP1_SMN_C2PMSG_82)))
    }

    fn ok(&self, number: u32, argument: u32) -> u32 {
        let (result, answer) = self.message(number, argument).unwrap();
        assert_eq!(result, result::OK, "message {number:#x}");
        answer
    }
}

#[test]
fn messages_are_answered() {
    let rig = running();
    assert_eq!(rig.ok(1, 41), 42);
    let levels = NAVI.get_dpm_freq_by_index;
    let prereq = rig.message(levels, DPM_COUNT);
    assert_eq!(prereq, Some((result::PREREQ, DPM_COUNT)));
    rig.ok(NAVI.enable_all_smu_features, 0);
    assert_eq!(rig.ok(levels, DPM_COUNT), 3);
    let top = rig.ok(levels, 2);
    rig.ok(NAVI.set_soft_min_by_freq, top);
    assert_eq!(rig.message(levels, 3), Some((result::FAILED, 3)));
    assert_eq!(rig.message(0x5f, 0), Some((result::UNKNOWN, 0)));
    rig.is_clean();
}

#[test]
fn measurements_are_written_where_the_driver_has_said() {
    let rig = running();
    rig.ok(NAVI.set_driver_dram_addr_high, ((FB + TABLE) >> 32) as u32);
    rig.ok(NAVI.set_driver_dram_addr_low, (FB + TABLE) as u32);
    let transfer = NAVI.transfer_table_smu2dram.unwrap();
    rig.ok(transfer, TABLE_SMU_METRICS);
    // Watts of the socket, degrees at the edge and the hottest place: SmuMetrics_t.
    assert_eq!(rig.bar(0).read(TABLE + 116), Ok(42u16));
    assert_eq!(rig.bar(0).read(TABLE + 120), Ok(52u32 << 16 | 40));
    assert_eq!(rig.message(transfer, 77), Some((result::FAILED, 77)));
    rig.is_clean();
}

#[test]
fn a_message_is_sent_after_the_answer_to_the_one_before() {
    let rig = running();
    rig.ok(1, 0);
    assert!(!rig.try_set(&mp::MP1_SMN_C2PMSG_66, 1));
    fires("AMD-SMU-MESSAGE").only(&rig.broken());
}

#[test]
fn nobody_answers_without_firmware_or_by_config() {
    let chip = Chip::of("gfx1100").unwrap();
    let rig = Rig::set_up(&Config::of(chip));
    assert_eq!(rig.message(1, 0), None);
    let mut config = Config::of(chip);
    config.never = Some(Wait::Message);
    assert_eq!(Rig::with_smu(&config).message(1, 0), None);
    let mut config = Config::of(chip);
    config.smu_error = Some((2, result::BUSY));
    let rig = Rig::with_smu(&config);
    assert_eq!(
        rig.message(2, 0).map(|(result, _)| result),
        Some(result::BUSY)
    );
}

#[test]
fn a_reset_leaves_a_card_as_power_does() {
    let rig = running();
    rig.write(0x1234_5000, b"gone");
    rig.write(0x1000, b"stay");
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    rig.set(&mp::MP1_SMN_C2PMSG_53, 0);
    rig.set(&mp::MP1_SMN_C2PMSG_75, DEBUG_MODE1_RESET);
    // It answers before it goes, and may be asked for that.
    let (registers, answer) = (rig.bar(5), rig.dword(&mp::MP1_SMN_C2PMSG_54) * 4);
    assert_eq!(registers.read(answer), Ok(result::OK));
    registers.write(answer, 0u32).unwrap();
    assert_eq!(registers.read(0xde3 * 4), Ok(u32::MAX));
    let back = (0..16).any(|_| registers.read(0xde3 * 4) == Ok(24u32 << 10));
    assert!(back);
    assert_eq!(rig.get(&mp::MP0_SMN_C2PMSG_81), 0);
    assert_eq!(rig.bar(0).read(0x1234_5000), Ok(0u32));
    // VRAM is nothing to count on: some of it is as it was.
    assert_eq!(rig.bar(0).read(0x1000), Ok(u32::from_le_bytes(*b"stay")));
    rig.is_clean();
}

#[test]
fn a_reset_that_is_asked_for_by_a_message_is_answered_first() {
    let rig = running();
    rig.write(0x1234_5000, b"gone");
    let message = |number| {
        rig.set(&mp::MP1_SMN_C2PMSG_90, 0);
        rig.set(&mp::MP1_SMN_C2PMSG_82, 0);
        rig.set(&mp::MP1_SMN_C2PMSG_66, number);
        rig.until(&mp::MP1_SMN_C2PMSG_90, u32::MAX, result::OK)
    };
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    assert!(message(0x2f));
    // Linux looks for the bootloader before it looks for memory.
    let registers = rig.bar(5);
    let bootloader = rig.dword(&mp::MP0_SMN_C2PMSG_35) * 4;
    assert_eq!(registers.read(bootloader), Ok(u32::MAX));
    let back = (0..16).any(|_| registers.read(0xde3 * 4) == Ok(24u32 << 10));
    assert!(back);
    assert_eq!(rig.bar(0).read(0x1234_5000), Ok(0u32));
    rig.is_clean();
    // Of version 14 it is none.
    let rig = Rig::with_smu(&Config::of(Chip::of("gfx1201").unwrap()));
    assert_eq!(rig.message(0x2f, 0), Some((result::UNKNOWN, 0)));
}

#[test]
fn nothing_is_touched_while_a_card_resets() {
    let rig = running();
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    rig.set(&mp::MP1_SMN_C2PMSG_75, DEBUG_MODE1_RESET);
    assert_eq!(rig.bar(5).read(0xde3 * 4), Ok(u32::MAX));
    let at = rig.dword(&mp::MP0_SMN_C2PMSG_81) * 4;
    assert!(rig.bar(5).read::<u32>(at).is_err());
    fires("AMD-PCI-RESETTING").only(&rig.broken());
}

#[test]
fn a_master_is_not_reset() {
    let rig = running();
    assert!(!rig.try_set(&mp::MP1_SMN_C2PMSG_75, DEBUG_MODE1_RESET));
    fires("AMD-SMU-RESET-MASTER").only(&rig.broken());
}

#[test]
fn the_kernels_driver_leaves_firmware_that_runs() {
    let mut config = Config::of(Chip::of("gfx1201").unwrap());
    config.before = Before::Kernel;
    let rig = Rig::new(&config);
    assert_ne!(rig.get(&mp::MP0_SMN_C2PMSG_81), 0);
    assert_ne!(rig.get(&mp::MP0_SMN_C2PMSG_71), 0);
    assert_ne!(rig.bar(0).read(0x1000), Ok(0u32));
    assert_eq!(rig.ok(1, 1), 2);
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    rig.set(&mp::MP1_SMN_C2PMSG_75, DEBUG_MODE1_RESET);
    let registers = rig.bar(5);
    let back = (0..16).any(|_| registers.read(0xde3 * 4) == Ok(16u32 << 10));
    assert!(back);
    assert_eq!(rig.get(&mp::MP0_SMN_C2PMSG_81), 0);
    rig.is_clean();
}

#[test]
fn instinct_is_reset_by_a_message() {
    let mut config = Config::of(Chip::of("gfx942").unwrap());
    config.before = Before::Kernel;
    let rig = Rig::new(&config);
    assert_ne!(rig.get(&mp::MP0_SMN_C2PMSG_81), 0);
    rig.ok(INSTINCT.enable_all_smu_features, 0);
    assert_eq!(rig.ok(INSTINCT.get_dpm_freq_by_index, DPM_COUNT), 3);
    rig.pci
        .config_write(PCI_COMMAND, AccessWidth::W16, 2)
        .unwrap();
    rig.set(&mp::MP1_SMN_C2PMSG_90, 0);
    rig.set(&mp::MP1_SMN_C2PMSG_82, 1);
    rig.set(&mp::MP1_SMN_C2PMSG_66, INSTINCT.gfx_driver_reset.unwrap());
    let registers = rig.bar(5);
    let back = (0..16).any(|_| registers.read(0xde3 * 4) == Ok(192u32 << 10));
    assert!(back);
    assert_eq!(rig.get(&mp::MP0_SMN_C2PMSG_81), 0);
    rig.is_clean();
}

#[test]
fn instinct_has_measured_nothing_at_first() {
    let mut config = Config::of(Chip::of("gfx942").unwrap());
    config.before = Before::Kernel;
    let rig = Rig::new(&config);
    rig.ok(
        INSTINCT.set_driver_dram_addr_high,
        ((FB + TABLE) >> 32) as u32,
    );
    rig.ok(INSTINCT.set_driver_dram_addr_low, (FB + TABLE) as u32);
    let counter = || {
        rig.ok(INSTINCT.get_metrics_table.unwrap(), 0);
        rig.bar(0).read::<u32>(TABLE).unwrap()
    };
    assert_eq!([counter(), counter(), counter(), counter()], [0, 0, 1, 2]);
    // Watts of the socket, with 10 bits behind the point: MetricsTableX_t.
    assert_eq!(rig.bar(0).read(TABLE + 48), Ok(138u32 << 10));
    rig.is_clean();
}
