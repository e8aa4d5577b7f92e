//! Mistakes in what FWSEC, the booter and GSP are handed, and in their order.

use twin::fires::fires;

use super::boot::Boot;
use super::rig::{GSP, SEC2, bytes_of, pages};

fn boot() -> Boot {
    Boot::new("ad102", "570.144")
}

/// FWSEC is told something: whether it has failed.
fn told(boot: &Boot, command: u32, argument: &[u32]) -> bool {
    let hs = boot.fwsec_told(command, argument, 2);
    boot.fwsec(&hs);
    boot.rig.get(0x1438) >> 16 != 0
}

#[test]
fn commands_of_fwsec_are_whole() {
    let boot = boot();
    assert!(!told(&boot, 0x15, &boot.frts_argument()));
    let place = boot.frts_place();
    assert_eq!(u64::from(boot.rig.get(0x1f_a824) >> 4) << 12, place);
    assert_eq!(
        u64::from(boot.rig.get(0x1f_a828) >> 4) << 12,
        place + (1 << 20) - (128 << 10)
    );
    boot.rig.is_clean();
    for (field, value) in [(0, 2), (1, 20), (5, 1), (6, 0), (7, 24)] {
        let boot = self::boot();
        let mut argument = boot.frts_argument();
        argument[field] = value;
        assert!(told(&boot, 0x15, &argument));
        fires("NV-FWSEC-COMMAND").only(&boot.rig.broken());
    }
    let boot = self::boot();
    assert!(told(&boot, 0x16, &boot.frts_argument()));
    fires("NV-FWSEC-COMMAND").only(&boot.rig.broken());
    for (field, value) in [(8, 1), (8, 0x60_0000), (9, 0x80), (10, 1)] {
        let boot = self::boot();
        let mut argument = boot.frts_argument();
        argument[field] = value;
        assert!(told(&boot, 0x15, &argument));
        fires("NV-FWSEC-FRTS").only(&boot.rig.broken());
    }
}

/// A boot whose metadata has another value in a field, up to the booter.
fn with_meta(at: usize, change: impl Fn(u64) -> u64) -> Boot {
    let boot = boot();
    boot.frts();
    boot.select();
    let value = boot.meta.view.read::<u64>(at).unwrap();
    boot.meta.view.write(at, change(value)).unwrap();
    assert_ne!(boot.booter_load(), 0);
    // Nothing has started.
    assert_eq!(boot.rig.get(GSP + 0x1388) >> 7 & 1, 0);
    boot
}

#[test]
fn metadata_is_verified() {
    for at in [0x00, 0x08, 0xc8, 0xf8] {
        let boot = with_meta(at, |value| value + 1);
        fires("NV-WPR-META-MAGIC").only(&boot.rig.broken());
    }
    for at in [0x68, 0x70, 0x78, 0x80, 0x88, 0x90, 0xa8] {
        let boot = with_meta(at, |value| value + 8);
        fires("NV-WPR-META-ALIGNED").only(&boot.rig.broken());
    }
    for (at, by) in [
        (0x58, 1 << 20),
        (0x60, 1 << 20),
        (0x90, 1 << 20),
        (0xb0, 1 << 20),
        (0xb8, 0x1000),
    ] {
        let boot = with_meta(at, |value| value + by);
        fires("NV-WPR-META-ORDER").only(&boot.rig.broken());
    }
    let boot = with_meta(0x80, |_| 80 << 20);
    fires("NV-WPR-META-HEAP").only(&boot.rig.broken());
}

#[test]
fn frts_comes_before_the_booter() {
    let boot = boot();
    boot.select();
    assert_ne!(boot.booter_load(), 0);
    fires("NV-WPR-META-FRTS").only(&boot.rig.broken());
}

#[test]
fn metadata_lies_where_the_card_reaches_it() {
    let boot = boot();
    boot.frts();
    boot.select();
    let load = boot.firmware.load.clone();
    assert_ne!(boot.booter(&load, 0x1000), 0);
    assert_eq!(boot.rig.broken(), ["PCI-DMA-GIVEN"]);
}

#[test]
fn images_lie_behind_their_tables() {
    // The root, an entry of each level, and one that is not aligned.
    let boot = with_meta(0x10, |value| value + 8);
    fires("NV-GSP-RADIX").only(&boot.rig.broken());
    for (at, entry) in [(0, 0), (4096, 0x123), (2 * 4096 + 8, 0)] {
        let boot = self::boot();
        boot.frts();
        boot.select();
        boot.image.view.write::<u64>(at, entry).unwrap();
        assert_ne!(boot.booter_load(), 0);
        fires("NV-GSP-RADIX").only(&boot.rig.broken());
    }
    // An entry that leads elsewhere.
    let boot = self::boot();
    boot.frts();
    boot.select();
    boot.image.view.write::<u64>(2 * 4096, 0x5000).unwrap();
    assert_ne!(boot.booter_load(), 0);
    assert_eq!(boot.rig.broken(), ["PCI-DMA-GIVEN", "NV-GSP-RADIX"]);
}

#[test]
fn images_are_signed() {
    let boot = self::boot();
    boot.frts();
    boot.select();
    // A bit of the last page.
    let last = boot.image.view.len() - 4096;
    let places = pages(&boot.image).len();
    let used = 2 + 2 + 515;
    assert!(places >= used);
    let at = if places == used {
        last
    } else {
        (used - 1) * 4096
    };
    let word = boot.image.view.read::<u64>(at).unwrap();
    boot.image.view.write(at, word ^ 1).unwrap();
    assert_ne!(boot.booter_load(), 0);
    fires("NV-GSP-IMAGE").only(&boot.rig.broken());
    let boot = self::boot();
    boot.frts();
    boot.select();
    boot.signature.view.write::<u64>(0, 0).unwrap();
    assert_ne!(boot.booter_load(), 0);
    fires("NV-GSP-IMAGE").only(&boot.rig.broken());
    for at in [0x30, 0x38, 0x40] {
        let boot = with_meta(at, |value| value + 4);
        fires("NV-GSP-LOADER").only(&boot.rig.broken());
    }
    let boot = self::boot();
    boot.frts();
    boot.select();
    boot.loader.view.write::<u64>(8, 0).unwrap();
    assert_ne!(boot.booter_load(), 0);
    fires("NV-GSP-LOADER").only(&boot.rig.broken());
}

#[test]
fn gsp_waits_for_its_start() {
    // Not reset into the core, and without arguments.
    let boot = self::boot();
    boot.frts();
    assert_ne!(boot.booter_load(), 0);
    fires("NV-GSP-CORE").only(&boot.rig.broken());
    let boot = self::boot();
    boot.frts();
    boot.select();
    boot.rig.mailbox(GSP, 0);
    assert_ne!(boot.booter_load(), 0);
    fires("NV-GSP-CORE").only(&boot.rig.broken());
}

#[test]
fn gsp_is_resumed_with_what_it_was_started_with() {
    let boot = self::boot();
    boot.until_started();
    boot.record();
    boot.select();
    boot.rig.mailbox(GSP, bytes_of(&boot.meta));
    boot.rig.start(SEC2).unwrap();
    boot.rig.halted(SEC2);
    assert_ne!(boot.rig.get(SEC2 + 0x40), 0);
    fires("NV-GSP-CORE").only(&boot.rig.broken());
}

/// A boot on which a test has changed something that GSP reads.
fn spoilt(change: impl FnOnce(&Boot)) -> Boot {
    let boot = boot();
    change(&boot);
    boot.until_started();
    boot.rig.settle();
    boot
}

#[test]
fn libos_arguments_are_listed() {
    // The first name, a name that nobody knows, the kind, the place, the size, one that lacks.
    for (at, value) in [
        (0, 0x004c_4f47_494e_5452),
        (32, 0x1234),
        (24, 0x0102),
        (64 + 16, 0x123),
        (96, 0),
    ] {
        let boot = spoilt(|boot| boot.libos.view.write::<u64>(at, value).unwrap());
        fires("NV-LIBOS-ARGS").only(&boot.rig.broken());
    }
    let boot = spoilt(|boot| boot.libos.view.write::<u64>(8, 0x1_0000).unwrap());
    assert_eq!(boot.rig.broken(), ["PCI-DMA-GIVEN"]);
    // The tables of logs.
    for at in [0, 8, 16 * 8] {
        let boot = spoilt(|boot| boot.logs[1].view.write::<u64>(at, 0x1000).unwrap());
        fires("NV-LIBOS-LOG").only(&boot.rig.broken());
    }
}

#[test]
fn arguments_lead_to_queues() {
    for (at, value) in [
        (0, 0x1001),
        (8, 1 << 20),
        (0x10, 0x40),
        (0x18, 0x1000),
        (0x28, 1),
    ] {
        let boot = spoilt(|boot| boot.arguments.view.write::<u64>(at, value).unwrap());
        fires("NV-GSP-ARGUMENTS").only(&boot.rig.broken());
    }
    // The table of their pages.
    for at in [0, 8] {
        let boot = spoilt(|boot| boot.shared.view.write::<u64>(at, 0x1008).unwrap());
        fires("NV-GSP-ARGUMENTS").only(&boot.rig.broken());
    }
}

#[test]
fn wpr2_is_taken_down_when_gsp_has_ended() {
    let boot = self::boot();
    boot.until_done();
    let unload = boot.firmware.unload.clone();
    assert_ne!(boot.booter(&unload, 0xff | 0xff << 32), 0);
    fires("NV-BOOTER-UNLOAD").only(&boot.rig.broken());
    let boot = self::boot();
    boot.until_done();
    boot.rpc(47, &[0; 12]);
    boot.rig.settle();
    assert_ne!(boot.booter(&unload, bytes_of(&boot.meta)), 0);
    fires("NV-BOOTER-UNLOAD").only(&boot.rig.broken());
    assert_eq!(boot.rig.get(SEC2 + 0x44), 0);
}

#[test]
fn gsp_is_not_reset_while_it_runs() {
    let boot = self::boot();
    boot.until_done();
    boot.rig.set(GSP + 0x3c0, 1);
    fires("NV-GSP-RESET").only(&boot.rig.broken());
}
