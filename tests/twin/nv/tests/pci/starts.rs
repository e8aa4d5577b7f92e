//! GSP starts, answers, and ends.

use std::sync::atomic::Ordering;

use hcq::transport::{Pci, ResetKind};
use twin::fires::fires;
use twin_nv::pci::card::{Before, Config};
use twin_nv::pci::chip::Chip;
use twin_nv::pci::wait::Wait;

use super::boot::{Boot, bytes, words};
use super::firmware::Firmware;
use super::rig::{GSP, Rig, SEC2, bytes_of};

const CLIENT: u32 = 0xc1d0_0001;
const DEVICE: u32 = 0xd000_0080;
const SUBDEVICE: u32 = 0xd000_2080;

/// A client with a device and a subdevice.
fn with_device(boot: &Boot) {
    let root = boot.alloc([CLIENT, 0, CLIENT, 0], &[]);
    assert_eq!(root.0, 0);
    let mut parameters = vec![0; 0x38];
    parameters[4..8].copy_from_slice(&CLIENT.to_le_bytes());
    assert_eq!(boot.alloc([CLIENT, CLIENT, DEVICE, 0x80], &parameters).0, 0);
    assert_eq!(
        boot.alloc([CLIENT, DEVICE, SUBDEVICE, 0x2080], &[0; 4]).0,
        0
    );
}

/// All that a driver does with a card, from the first register to the last.
fn whole_life(boot: &Boot) {
    let rig = &boot.rig;
    boot.until_done();
    with_device(boot);
    // What the chip is: NV2080_CTRL_CMD_MC_GET_ARCH_INFO.
    let (status, info) = boot.control(CLIENT, SUBDEVICE, 0x2080_1701, &[0; 16]);
    let (architecture, implementation) = rig.chip.twin.id;
    assert_eq!(
        (status, &words(&info)[..2]),
        (0, &[architecture, implementation][..])
    );
    // Static information has the internal client, with a subdevice that is asked.
    let length = match &boot.firmware.version[..3] {
        "535" => 0x878,
        "550" => 0x888,
        _ => 0x678,
    };
    let info = boot.rpc(65, &vec![0; length]);
    assert_eq!((info.result, info.payload.len()), (0, length));
    let at = length - if length == 0x678 { 0x38 } else { 0x10 };
    let handles = words(&info.payload[at..at + 12]);
    // Until 550 the clusters, too: a mask of them, and of the TPCs of each.
    if length != 0x678 {
        let found = words(&info.payload[0x124..0x228]);
        let tpcs = rig.chip.twin.tpcs;
        assert_eq!(found[0].count_ones() as usize, tpcs.len());
        for (gpc, on) in tpcs.iter().enumerate() {
            let [number, mask] = [found[1 + 2 * gpc], found[2 + 2 * gpc]];
            assert_eq!((number as usize, mask.count_ones()), (gpc, *on));
        }
    }
    let (status, _) = boot.control(handles[0], handles[2], 0x2080_1701, &[0; 16]);
    assert_eq!(status, 0);
    // FREE, and nothing is there any more.
    let free = boot.rpc(10, &bytes(&[CLIENT, 0, CLIENT, 0]));
    assert_eq!((free.result, words(&free.payload)[3]), (0, 0));
    rig.is_clean();
    // The end: GSP suspends itself, FWSEC prepares what runs without it, the booter takes WPR2 down.
    let unload = boot.rpc(47, &[0; 8]);
    assert_eq!(unload.result, 0);
    rig.until("GSP has suspended itself", || {
        rig.get(GSP + 0x40) == 0x8000_0000
    });
    let hs = boot.fwsec_told(0x19, &[1, 24, 0, 0, 0, 2], 2);
    boot.fwsec(&hs);
    let unload = boot.firmware.unload.clone();
    assert_eq!(boot.booter(&unload, 0xff | 0xff << 32), 0);
    assert_eq!(rig.get(0x1f_a828), 0);
    rig.is_clean();
}

#[test]
fn gsp_starts_answers_and_ends() {
    for chip in ["ga102", "ad102"] {
        for version in ["535.113.01", "550.163.01", "570.144"] {
            whole_life(&Boot::new(chip, version));
        }
    }
}

#[test]
fn published_firmware_starts() {
    for chip in ["ga102", "ad102"] {
        let chip = Chip::of(chip).unwrap();
        for version in ["535.113.01", "570.144"] {
            let Some(firmware) = Firmware::published(chip, version) else {
                continue;
            };
            let boot = Boot::on(Rig::new(&Config::of(chip)), firmware);
            boot.rig.wait_gfw();
            boot.prepare();
            whole_life(&boot);
        }
    }
}

#[test]
fn a_card_is_started_again_after_its_end_and_after_a_reset() {
    let boot = Boot::new("ga102", "570.144");
    whole_life(&boot);
    let Boot { rig, firmware, .. } = boot;
    let again = Boot::on(rig, firmware);
    again.prepare();
    again.until_done();
    // It is left running: the next one finds WPR2.
    let Boot { rig, firmware, .. } = again;
    rig.pci.reset(ResetKind::Bus).unwrap();
    rig.master(true);
    rig.wait_gfw();
    rig.flushes_with(bytes_of(&rig.flush));
    let third = Boot::on(rig, firmware);
    third.prepare();
    third.until_done();
    third.rig.is_clean();
}

#[test]
fn wpr2_that_was_left_is_named() {
    let boot = Boot::new("ad102", "570.144");
    boot.until_done();
    boot.rpc(47, &[0; 8]);
    boot.rig.settle();
    assert_ne!(boot.rig.get(0x1f_a828), 0);
    let hs = boot.fwsec_told(0x15, &boot.frts_argument(), 2);
    boot.fwsec(&hs);
    assert_ne!(boot.rig.get(0x1438) >> 16, 0);
    fires("NV-WPR2-LEFT").only(&boot.rig.broken());
}

/// A card that a driver has left with GSP's firmware running.
fn left() -> Rig {
    let rig = Rig::new(&Config {
        before: Before::Driver,
        ..Config::of(Chip::of("ad102").unwrap())
    });
    rig.master(false);
    rig.wait_gfw();
    rig
}

#[test]
fn firmware_that_was_left_runs() {
    let rig = left();
    assert_ne!(rig.get(0x1f_a828), 0);
    assert_eq!(rig.get(GSP + 0x1388) >> 7 & 1, 1);
    rig.set(GSP + 0x3c0, 1);
    fires("NV-GSP-RESET").only(&rig.broken());
    // It writes to memory that it was given long ago, as soon as it may.
    let rig = left();
    rig.pass();
    rig.is_clean();
    rig.master(true);
    rig.pass();
    assert_eq!(rig.broken().last(), Some(&"PCI-DMA-GIVEN"));
    // It ends with a reset of the function.
    let chip = Chip::of("ad102").unwrap();
    let mut config = Config {
        before: Before::Driver,
        ..Config::of(chip)
    };
    let firmware = Firmware::small("570.144");
    config.signed = firmware.signed(chip);
    let rig = Rig::new(&config);
    rig.pci.reset(ResetKind::Bus).unwrap();
    rig.master(true);
    rig.wait_gfw();
    rig.flushes_with(bytes_of(&rig.flush));
    let before = rig.broken().len();
    let boot = Boot::on(rig, firmware);
    boot.prepare();
    boot.until_done();
    assert_eq!(boot.rig.broken().len(), before);
}

#[test]
fn running_firmware_writes_by_itself() {
    let boot = Boot::new("ga102", "570.144");
    boot.until_done();
    let put = || {
        boot.logs
            .each_ref()
            .map(|log| log.view.read::<u64>(0).unwrap())
    };
    let before = put();
    boot.rig.pass();
    let after = put();
    assert!(
        before
            .iter()
            .zip(after)
            .all(|(before, after)| *before < after)
    );
    boot.rig.is_clean();
    // A log that was given back.
    let Boot { rig, logs, .. } = boot;
    drop(logs);
    rig.pass();
    assert_eq!(rig.broken(), ["PCI-DMA-GIVEN"]);
    // All of it, after the end of the process.
    let boot = Boot::new("ga102", "570.144");
    boot.until_done();
    boot.rig.pci.bus().memory().given_ended();
    boot.rig.pass();
    assert_eq!(boot.rig.broken(), ["PCI-DMA-FREED"]);
    // Without the right to, and then with it again.
    let boot = Boot::new("ga102", "570.144");
    boot.until_done();
    boot.rig.master(false);
    boot.rig.pass();
    boot.rig.is_clean();
    boot.rig.master(true);
    assert_eq!(boot.rig.broken(), ["PCI-MASTER"]);
    // The page for flushes, too, is there as long as it runs.
    let boot = Boot::new("ga102", "570.144");
    boot.until_done();
    boot.rig.flushes_with(0);
    boot.rig.pass();
    fires("NV-PFB-FLUSH-PAGE").only(&boot.rig.broken());
}

#[test]
fn a_start_that_fails_is_given_up() {
    // At each point on the way to GSP_INIT_DONE.
    let give_up: [fn(&Boot); 3] = [
        |_| (),
        |boot| drop(boot.record()),
        |boot| {
            boot.record();
            boot.rig.reset(GSP);
        },
    ];
    for until in give_up {
        let boot = Boot::new("ad102", "570.144");
        boot.until_started();
        until(&boot);
        boot.rig.reset(GSP);
        let unload = boot.firmware.unload.clone();
        assert_eq!(boot.booter(&unload, 0xff | 0xff << 32), 0);
        assert_eq!(boot.rig.get(0x1f_a828), 0);
        boot.rig.settle();
        boot.rig.is_clean();
        let Boot { rig, firmware, .. } = boot;
        let again = Boot::on(rig, firmware);
        again.prepare();
        again.until_done();
        again.rig.is_clean();
    }
    // GSP_INIT_DONE, the last that is waited for, never comes.
    let chip = Chip::of("ad102").unwrap();
    let config = Config::of(chip);
    let begun = config.begun.clone();
    Boot::with(config, Firmware::small("570.144")).until_done();
    let config = Config {
        stuck: Some(begun.load(Ordering::Relaxed)),
        ..Config::of(chip)
    };
    let boot = Boot::with(config, Firmware::small("570.144"));
    boot.until_started();
    let first = boot.record();
    boot.sequencer(&words(&first.payload));
    boot.rig.settle();
    boot.rig.reset(GSP);
    boot.rig.is_clean();
}

#[test]
fn an_end_that_gsp_refuses_is_gone_on_with() {
    let config = Config {
        rpc_error: Some((47, 0x51)),
        ..Config::of(Chip::of("ad102").unwrap())
    };
    let boot = Boot::with(config, Firmware::small("570.144"));
    boot.until_done();
    assert_eq!(boot.rpc(47, &[0; 8]).result, 0x51);
    // It still runs.
    assert_eq!(boot.rig.get(GSP + 0x1388) >> 7 & 1, 1);
    boot.rig.reset(GSP);
    let unload = boot.firmware.unload.clone();
    assert_eq!(boot.booter(&unload, 0xff | 0xff << 32), 0);
    assert_eq!(boot.rig.get(0x1f_a828), 0);
    boot.rig.is_clean();
}

/// A card whose GSP locks itself up while it starts, when it has said so.
fn locked() -> Boot {
    let config = Config {
        lockdown: true,
        ..Config::of(Chip::of("ga102").unwrap())
    };
    let boot = Boot::with(config, Firmware::small("570.144"));
    boot.until_started();
    assert_eq!(boot.record().function, 0x101c);
    boot
}

#[test]
fn locked_interrupts_are_left_alone() {
    for at in [0x8, 0x18, 0x1528] {
        let boot = locked();
        assert!(boot.rig.registers.read::<u32>(GSP + at).is_err());
        fires("NV-GSP-LOCKDOWN").only(&boot.rig.broken());
    }
    for at in [0x4, 0x14, 0x3e8] {
        let boot = locked();
        assert!(boot.rig.try_set(GSP + at, 0x40).is_err());
        fires("NV-GSP-LOCKDOWN").only(&boot.rig.broken());
    }
    // Other registers are not, and these are not when that has ended.
    let boot = locked();
    boot.rig.get(GSP + 0x40);
    assert_eq!(boot.record().function, 0x101c);
    boot.rig.get(GSP + 0x8);
    boot.rig.set(GSP + 0x4, 0x40);
    let first = boot.record();
    boot.sequencer(&words(&first.payload));
    assert_eq!(boot.record().function, 0x1001);
    boot.rig.is_clean();
}

#[test]
fn lockdown_is_told() {
    for (version, event) in [("535.113.01", 0x101d), ("570.144", 0x101c)] {
        let chip = Chip::of("ga102").unwrap();
        let config = Config {
            lockdown: true,
            ..Config::of(chip)
        };
        let boot = Boot::with(config, Firmware::small(version));
        boot.until_started();
        for engaging in [1, 0] {
            let notice = boot.record();
            assert_eq!((notice.function, notice.payload[0]), (event, engaging));
        }
        assert_eq!(boot.record().function, 0x1002);
        boot.rig.is_clean();
    }
}

#[test]
fn an_rpc_fails_where_the_config_says_so() {
    let config = Config {
        rpc_error: Some((76, 0x51)),
        ..Config::of(Chip::of("ad102").unwrap())
    };
    let boot = Boot::with(config, Firmware::small("570.144"));
    boot.until_done();
    with_device(&boot);
    let head = bytes(&[CLIENT, SUBDEVICE, 0x2080_1701, 0, 16, 0, 0, 0, 0, 0]);
    assert_eq!(boot.rpc(76, &head).result, 0x51);
    boot.rig.is_clean();
}

#[test]
fn what_is_waited_for_may_never_come() {
    for wait in [Wait::Gfw, Wait::Scrub, Wait::Dma, Wait::Halt] {
        let config = Config {
            never: Some(wait),
            ..Config::of(Chip::of("ga102").unwrap())
        };
        let rig = Rig::new(&config);
        let looks = |at: u64| (0..50).fold(0, |_, _| rig.get(at));
        match wait {
            Wait::Gfw => assert_eq!(looks(0x11_8128) & 1, 0),
            Wait::Scrub => {
                rig.wait_gfw();
                rig.set(SEC2 + 0x3c0, 1);
                rig.set(SEC2 + 0x3c0, 0);
                assert_eq!(looks(SEC2 + 0xf4) >> 12 & 1, 1);
            }
            Wait::Dma => {
                rig.wait_gfw();
                rig.allow_transfers(SEC2);
                let memory = rig.memory(&[1; 256]);
                let at = super::rig::bytes_of(&memory);
                rig.set(SEC2 + 0x110, (at >> 8) as u32);
                rig.set(SEC2 + 0x118, 6 << 8);
                assert_eq!(looks(SEC2 + 0x118) & 3, 1);
            }
            _ => {
                rig.wait_gfw();
                rig.set(SEC2 + 0x184, 0x02f8);
                rig.set(SEC2 + 0x104, 0);
                rig.start(SEC2).unwrap();
                assert_eq!(looks(SEC2 + 0x100) >> 4 & 1, 0);
            }
        }
        rig.is_clean();
    }
    let config = Config {
        gone_after: Some(20),
        ..Config::of(Chip::of("ga102").unwrap())
    };
    let rig = Rig::new(&config);
    let last = (0..30).fold(0, |_, _| rig.get(0));
    assert_eq!(last, u32::MAX);
}
