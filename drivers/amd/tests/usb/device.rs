//! Cards behind bridges as devices: cold, warm, unplugged and plugged in again; what they cost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_amd::AmdDevice;
use hcq::transport::Machine;
use hcq::{Command, Deadline, Device, Error, MemoryKind, QueueKind, Stream, Val};
use twin_amd::usb::UsbMachine;

use super::stand::{self, memory};
use super::{open, open_at, options, unbroken};

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
        error.contains("174c:2464, AS2462) runs the vendor's firmware"),
        "{error}"
    );
    assert!(error.contains("asm2464pd-firmware"), "{error}");
    assert_eq!(twin.bridge(0).unwrap().counts().control, 0);
    unbroken(&twin);
}

#[test]
fn a_cable_that_is_pulled_while_its_card_is_busy_harms_no_other() {
    for config in ["chip=gfx1201,gpus=2", "chip=gfx1100,gpus=2,hops=1"] {
        let twin = UsbMachine::new(config).unwrap();
        let machine: Arc<dyn Machine> = twin.clone();
        let first = open(&machine, &options()).unwrap();
        let second = open_at(&machine, 1, &options()).unwrap();
        let busy = |device: &AmdDevice| {
            let gate = device.signal("the gate").unwrap();
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
            (stream.submit(&[], &[wait]).unwrap(), gate)
        };
        let ((held, _gate), (other, gate)) = (busy(&first), busy(&second));
        let bridge = twin.bridge(0).unwrap();
        let (error, pulled) = std::thread::scope(|scope| {
            let waits = scope.spawn(|| held.wait(Deadline::after(Duration::from_secs(60))));
            // Whoever waits has begun to look.
            let looked = bridge.counts().round_trips + 4;
            while bridge.counts().round_trips < looked {
                std::thread::yield_now();
            }
            let pulled = (bridge.now(), Instant::now());
            bridge.unplug();
            (waits.join().unwrap().unwrap_err(), pulled)
        });
        let took = bridge.now() - pulled.0;
        println!(
            "{config}: lost {took:?} later by the bridge, {:?} by the host",
            pulled.1.elapsed()
        );
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
        assert!(error.to_string().contains("the device is gone"), "{error}");
        assert!(took < Duration::from_secs(1), "{took:?}");
        // The other one goes on with what it had, and takes more.
        gate.set(1).unwrap();
        other.wait(stand::soon()).unwrap();
        let (chip, _) = config["chip=".len()..].split_once(',').unwrap();
        let image = stand::kernel(chip, "sums", 2);
        assert!(stand::work_on(&*second, &image, 8).unwrap());
        drop((_gate, held, first));
        bridge.plug();
        works(&twin, chip);
        unbroken(&twin);
    }
}
