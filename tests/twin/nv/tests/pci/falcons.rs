//! Mistakes with processors: resets, transfers, what is started and by whom it is signed.

use hcq::transport::{Pci, ResetKind};
use twin::fires::fires;

use super::boot::Boot;
use super::firmware::PATCH;
use super::rig::{GSP, Rig, SEC2, bytes_of};

fn rig() -> Rig {
    Rig::started("ga102")
}

#[test]
fn resets_are_waited_for() {
    let rig = rig();
    rig.set(SEC2 + 0x3c0, 1);
    assert!(rig.try_set(SEC2 + 0x40, 1).is_err());
    fires("NV-FALCON-RESET").only(&rig.broken());
    let rig = self::rig();
    rig.set(SEC2 + 0x3c0, 1);
    rig.set(SEC2 + 0x3c0, 0);
    assert!(rig.try_set(SEC2 + 0x1668, 0).is_err());
    fires("NV-FALCON-SCRUB").only(&rig.broken());
}

#[test]
fn resets_have_a_page_for_flushes() {
    for falcon in [GSP, SEC2] {
        let rig = rig();
        rig.flushes_with(0);
        assert!(rig.try_set(falcon + 0x3c0, 1).is_err());
        fires("NV-PFB-FLUSH-PAGE").only(&rig.broken());
        // One that was given back.
        let rig = self::rig();
        rig.flushes_with(bytes_of(&rig.memory(&[0])));
        assert!(rig.try_set(falcon + 0x3c0, 1).is_err());
        fires("NV-PFB-FLUSH-PAGE").only(&rig.broken());
        // The upper bits are those of another register.
        let rig = self::rig();
        rig.set(0x10_0c40, 1);
        assert!(rig.try_set(falcon + 0x3c0, 1).is_err());
        fires("NV-PFB-FLUSH-PAGE").only(&rig.broken());
    }
    // A reset of the function forgets it.
    let rig = rig();
    rig.pci.reset(ResetKind::Bus).unwrap();
    rig.master(true);
    rig.wait_gfw();
    assert!(rig.try_set(SEC2 + 0x3c0, 1).is_err());
    fires("NV-PFB-FLUSH-PAGE").only(&rig.broken());
}

/// A transfer of a block whose registers are right but for what a test makes of them.
fn transfer(rig: &Rig, spoil: impl FnOnce(&Rig, u64), command: u32) -> bool {
    let memory = rig.memory(&[3; 512]);
    rig.reset(SEC2);
    rig.allow_transfers(SEC2);
    rig.set(SEC2 + 0x110, (bytes_of(&memory) >> 8) as u32);
    rig.set(SEC2 + 0x128, (bytes_of(&memory) >> 40) as u32);
    spoil(rig, bytes_of(&memory));
    rig.try_set(SEC2 + 0x118, command).is_ok()
}

#[test]
fn transfers_have_their_registers() {
    let rig = self::rig();
    assert!(transfer(&rig, |_, _| (), 6 << 8));
    // Its memory has it now.
    rig.until("IDLE", || rig.get(SEC2 + 0x118) & 2 != 0);
    rig.set(SEC2 + 0x1c0, 1 << 25);
    assert_eq!(rig.get(SEC2 + 0x1c4), 0x0303_0303);
    rig.is_clean();
    let again = |rig: &Rig, at: u64| {
        rig.set(SEC2 + 0x118, 6 << 8);
        drop(rig.try_set(SEC2 + 0x110, (at >> 8) as u32));
    };
    let rig = self::rig();
    transfer(&rig, again, 6 << 8);
    fires("NV-FALCON-DMA-FULL").first(&rig.broken());
    let context: [fn(&Rig, u64); 3] = [
        |rig, _| rig.set(SEC2 + 0x624, 0),
        |rig, _| rig.set(SEC2 + 0x10c, 1),
        |rig, _| rig.set(SEC2 + 0x600, 0b001),
    ];
    for spoil in context {
        let rig = self::rig();
        assert!(!transfer(&rig, spoil, 6 << 8));
        fires("NV-FALCON-DMA-CONTEXT").only(&rig.broken());
    }
    let offsets: [fn(&Rig, u64); 3] = [
        |rig, _| rig.set(SEC2 + 0x114, 0x80),
        |rig, _| rig.set(SEC2 + 0x114, 0x1_0000),
        |rig, _| rig.set(SEC2 + 0x11c, 4),
    ];
    for spoil in offsets {
        let rig = self::rig();
        assert!(!transfer(&rig, spoil, 6 << 8));
        fires("NV-FALCON-DMA-COMMAND").only(&rig.broken());
    }
    let rig = self::rig();
    assert!(!transfer(&rig, |_, _| (), 5 << 8));
    fires("NV-FALCON-DMA-COMMAND").only(&rig.broken());
    // What is not mapped is not read.
    let rig = self::rig();
    transfer(&rig, |rig, _| rig.set(SEC2 + 0x110, 0x1000), 6 << 8);
    assert_eq!(rig.broken(), ["PCI-DMA-GIVEN"]);
}

#[test]
fn ports_stay_inside() {
    let rig = self::rig();
    rig.reset(SEC2);
    rig.set(SEC2 + 0x1c0, 0x1_0000);
    assert!(rig.try_set(SEC2 + 0x1c4, 1).is_err());
    fires("NV-FALCON-PORT").only(&rig.broken());
    let rig = self::rig();
    rig.reset(SEC2);
    rig.set(SEC2 + 0x180, 1 << 28);
    rig.set(SEC2 + 0x184, 1);
    assert!(rig.registers.read::<u32>(SEC2 + 0x184).is_err());
    fires("NV-FALCON-PORT").only(&rig.broken());
}

#[test]
fn starts_have_their_time() {
    // No code.
    let rig = self::rig();
    rig.reset(SEC2);
    assert!(rig.start(SEC2).is_err());
    fires("NV-FALCON-BOOTVEC").only(&rig.broken());
    // Some that is not modelled.
    let rig = self::rig();
    rig.reset(SEC2);
    rig.set(SEC2 + 0x184, 0x1234);
    assert!(rig.start(SEC2).is_err());
    fires("NV-FALCON-CODE-NOT-MODELLED").only(&rig.broken());
    // The other core is selected.
    let rig = self::rig();
    rig.reset(SEC2);
    rig.select_riscv(SEC2);
    assert!(rig.start(SEC2).is_err());
    fires("NV-FALCON-CORE").only(&rig.broken());
    // By the register that is not for it, and while it runs.
    let rig = self::rig();
    rig.reset(SEC2);
    assert!(rig.try_set(SEC2 + 0x130, 2).is_err());
    fires("NV-FALCON-START").only(&rig.broken());
    let rig = self::rig();
    rig.reset(SEC2);
    rig.set(SEC2 + 0x184, 0x02f8);
    rig.start(SEC2).unwrap();
    assert!(rig.try_set(SEC2 + 0x100, 2).is_err());
    fires("NV-FALCON-START").only(&rig.broken());
    // While a transfer goes on.
    let rig = self::rig();
    assert!(transfer(&rig, |_, _| (), 6 << 8));
    assert!(rig.try_set(SEC2 + 0x100, 2).is_err());
    fires("NV-FALCON-DMA-IDLE").only(&rig.broken());
}

#[test]
fn code_is_signed() {
    // A bit of FWSEC has changed.
    let boot = Boot::new("ga102", "570.144");
    let mut hs = boot.fwsec_told(0x15, &boot.frts_argument(), 2);
    hs.code[0x40] ^= 1;
    ready(&boot, GSP, &hs, 0, [vbios::PATCH as u32, 0x400, 9]);
    assert!(boot.rig.start(GSP).is_err());
    fires("NV-BROM-CODE").only(&boot.rig.broken());
    // Of a booter.
    let boot = Boot::new("ga102", "570.144");
    let mut hs = boot.firmware.load.clone();
    hs.code[0] ^= 1;
    ready(&boot, SEC2, &hs, 0x100, [PATCH as u32, 1, 3]);
    assert!(boot.rig.start(SEC2).is_err());
    fires("NV-BROM-CODE").only(&boot.rig.broken());
    // A signature of another version, and none.
    let boot = Boot::new("ga102", "570.144");
    let hs = boot.fwsec_told(0x15, &boot.frts_argument(), 0);
    ready(&boot, GSP, &hs, 0, [vbios::PATCH as u32, 0x400, 9]);
    assert!(boot.rig.start(GSP).is_err());
    fires("NV-BROM-SIGNATURE").only(&boot.rig.broken());
    let boot = Boot::new("ga102", "570.144");
    let mut hs = boot.firmware.load.clone();
    hs.data[PATCH..PATCH + 384].fill(0);
    ready(&boot, SEC2, &hs, 0x100, [PATCH as u32, 1, 3]);
    assert!(boot.rig.start(SEC2).is_err());
    fires("NV-BROM-SIGNATURE").only(&boot.rig.broken());
    // Parameters of something else.
    for wrong in [[0, 1, 3], [PATCH as u32, 0x400, 3], [PATCH as u32, 1, 9]] {
        let boot = Boot::new("ga102", "570.144");
        let hs = boot.firmware.load.clone();
        ready(&boot, SEC2, &hs, 0x100, wrong);
        assert!(boot.rig.start(SEC2).is_err());
        fires("NV-BROM-PARAMETERS").only(&boot.rig.broken());
    }
}

/// A processor is about to be started.
fn ready(boot: &Boot, falcon: u64, hs: &super::firmware::Hs, virt: u32, boot_rom: [u32; 3]) {
    boot.rig.reset(falcon);
    boot.rig.select_falcon(falcon);
    boot.load(falcon, hs, virt);
    boot.rig.boot_rom(falcon, boot_rom);
}
