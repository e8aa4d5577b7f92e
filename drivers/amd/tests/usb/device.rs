//! Cards behind bridges as devices: cold, warm, unplugged and plugged in again; what they cost.

use std::sync::Arc;
use std::time::Duration;

use hcq::transport::Machine;
use hcq::{Deadline, Device, Error, MemoryKind};
use twin_amd::usb::UsbMachine;

use super::stand::{self, memory};
use super::{open, options, unbroken};

fn works(twin: &Arc<UsbMachine>, chip: &str) {
    let machine: Arc<dyn Machine> = twin.clone();
    let image = stand::kernel(chip, "sums", 2);
    let device = open(&machine, &options()).unwrap_or_else(|error| panic!("{chip}: {error}"));
    let info = device.info();
    assert_eq!((info.interface, &*info.arch), ("USB", chip));
    assert!(stand::work_on(&*device, &image, 8).unwrap(), "{chip}");
    device.clock().unwrap();
}

#[test]
fn work_is_done_on_cards_that_are_cold_and_warm() {
    for (chip, config) in [
        ("gfx1201", "training=3,retries=2"),
        ("gfx1100", "hops=1,power=on"),
        ("gfx1200", "hops=2,speed=high"),
    ] {
        let twin = UsbMachine::new(&format!("chip={chip},{config}")).unwrap();
        works(&twin, chip);
        unbroken(&twin);
        // Another process finds it in order.
        works(&twin.again(), chip);
        unbroken(&twin);
    }
}

#[test]
fn a_card_that_is_unplugged_is_lost_at_once_and_opens_when_it_is_back() {
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let device = open(&machine, &options()).unwrap();
    let buffer = memory(&*device, MemoryKind::Device, 1 << 20).unwrap();
    buffer.write(0, &[7; 1 << 20]).unwrap();
    twin.bridge(0).unwrap().unplug();
    let mut seen = vec![0; 1 << 20];
    let error = buffer.read(0, &mut seen).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    let error = device.synchronize(Deadline::after(Duration::from_secs(5)));
    assert!(matches!(error, Err(Error::DeviceLost { .. })), "{error:?}");
    drop((buffer, device));
    let error = open(&machine, &options()).err().unwrap().to_string();
    assert!(error.contains("no ASM24xx bridge in this port"), "{error}");
    twin.bridge(0).unwrap().plug();
    works(&twin, "gfx1201");
    unbroken(&twin);
}

#[test]
fn a_bridge_with_its_makers_firmware_is_named_and_left_alone() {
    let twin = UsbMachine::new("chip=gfx1201,firmware=stock").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let found = drivers_asm24::machine::bridges(&*machine).unwrap();
    assert!(!drivers_asm24::machine::is_open(&found[0]));
    let error = open(&machine, &options()).err().unwrap().to_string();
    assert!(
        error.contains("174c:2464, AS2462) has its maker's firmware"),
        "{error}"
    );
    assert!(error.contains("asm2464pd-firmware"), "{error}");
    assert_eq!(twin.bridge(0).unwrap().counts().control, 0);
    unbroken(&twin);
}
