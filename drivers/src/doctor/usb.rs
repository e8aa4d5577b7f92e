//! GPUs behind USB bridges: requirements for driving a bridge.

use drivers_asm24::machine::{bridges, is_open};
use drivers_host::pci::Files;
use hcq::transport::{Machine, UsbDevice};

use super::{Row, Status};

/// What a USB3 link of 5 Gb/s runs at, in Mbit/s.
const SUPER: u32 = 5000;

/// A row for all bridges, or that there is none.
pub(super) fn rows(files: &dyn Files, machine: &dyn Machine) -> Vec<Row> {
    let bridges = bridges(machine).unwrap_or_default();
    if bridges.is_empty() {
        let text = "no ASM24xx bridge under /sys/bus/usb/devices (AMD GPUs over USB3)";
        return vec![Row::new("amd.usb", Status::Absent, text)];
    }
    let mut rows = Vec::new();
    for (number, bridge) in bridges.iter().enumerate() {
        let check = match number {
            0 => "amd.usb".to_owned(),
            number => format!("amd.usb.{number}"),
        };
        rows.push(row(files, &check, number, bridge));
    }
    rows
}

/// The rows of simulated bridges, which no system stands before: there are no device files, and libusb is not needed.
pub(super) fn simulated(machine: &dyn Machine) -> Vec<Row> {
    let bridges = bridges(machine).unwrap_or_default();
    let row = |(number, bridge)| {
        let check = format!("amd.usb.{number}");
        match is_open(bridge) {
            true => by_speed(&check, bridge, &format!("DEV=TWINUSB:{number}+AMD")),
            false => stock(&check, bridge),
        }
    };
    bridges.iter().enumerate().map(row).collect()
}

/// What a bridge tells of itself without being opened.
fn seen(bridge: &UsbDevice) -> String {
    let name = bridge.product_name.as_deref().unwrap_or("unnamed");
    format!(
        "{} {:04x}:{:04x}, {name}, {} Mbit/s",
        bridge.port, bridge.vendor, bridge.product, bridge.speed
    )
}

/// The row of a bridge that is not driven.
fn stock(check: &str, bridge: &UsbDevice) -> Row {
    Row::new(check, Status::Fail, seen(bridge)).fix(
        "flash the open firmware and plug it in again (the vendor's is not supported): \
         https://github.com/tinygrad/asm2464pd-firmware, drivers/asm24/README.md",
    )
}

/// The row of a bridge that nothing keeps from being driven.
fn by_speed(check: &str, bridge: &UsbDevice, dev: &str) -> Row {
    match bridge.speed < SUPER {
        true => Row::new(check, Status::Warn, seen(bridge))
            .fix("use a USB3 cable and port: USB2 is some 20 times slower"),
        false => Row::new(check, Status::Ok, format!("{}; {dev}", seen(bridge))),
    }
}

fn row(files: &dyn Files, check: &str, number: usize, bridge: &UsbDevice) -> Row {
    let seen = seen(bridge);
    if !is_open(bridge) {
        return stock(check, bridge);
    }
    let file = format!("/dev/bus/usb/{:03}/{:03}", bridge.bus, bridge.number);
    if let Err(error) = files.may_write(&file) {
        let fix = "run the commands that `doorbell setup --print usb` prints, log in again, and replug the bridge";
        return Row::new(check, Status::Fail, format!("{seen}; {file}: {error}")).fix(fix);
    }
    if cfg!(not(feature = "usb")) {
        return Row::new(check, Status::Fail, seen)
            .fix("rebuild with USB support: cargo build --release -p doorbell --features usb");
    }
    by_speed(check, bridge, &format!("DEV=USB:{number}+AMD"))
}

#[cfg(test)]
mod tests {
    use drivers_host::machine::Host;
    use drivers_host::pci::System;
    use twin_amd::usb::UsbMachine;

    use super::*;

    fn of(root: &std::path::Path) -> Row {
        let system = System::at(root);
        rows(&system, &*Host::at(system.clone())).remove(0)
    }

    /// The row of a bridge with these files in sysfs.
    fn seen(files: &[(&str, &str)], device: bool) -> Row {
        let root = tempfile::tempdir().unwrap();
        let usual = [
            ("idVendor", "add1"),
            ("idProduct", "0001"),
            ("busnum", "2"),
            ("devnum", "9"),
            ("speed", "10000"),
            ("product", "custom v0.1"),
        ];
        let folder = root.path().join("sys/bus/usb/devices/2-1");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in usual.iter().chain(files) {
            std::fs::write(folder.join(name), text).unwrap();
        }
        if device {
            let folder = root.path().join("dev/bus/usb/002");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("009"), "").unwrap();
        }
        of(root.path())
    }

    #[test]
    fn simulated_bridges_have_rows_of_their_own() {
        let machine = UsbMachine::new("gpus=2,speed=high").unwrap();
        let rows = simulated(&*machine);
        assert_eq!((rows.len(), &*rows[1].check), (2, "amd.usb.1"));
        assert_eq!(rows[0].status, Status::Warn);
        let rows = simulated(&*UsbMachine::new("").unwrap());
        assert_eq!(rows[0].status, Status::Ok);
        assert!(rows[0].detail.ends_with("; DEV=TWINUSB:0+AMD"), "{rows:?}");
    }

    #[test]
    fn what_is_in_the_way_of_a_bridge_is_said() {
        let none = of(tempfile::tempdir().unwrap().path());
        assert_eq!(none.status, Status::Absent);
        let stock = seen(
            &[
                ("idVendor", "174c"),
                ("idProduct", "2464"),
                ("product", "AS24"),
            ],
            true,
        );
        assert_eq!(stock.status, Status::Fail);
        assert!(stock.fix.contains("flash the open firmware"), "{stock:?}");
        let closed = seen(&[], false);
        assert_eq!(closed.status, Status::Fail);
        assert!(
            closed.fix.contains("doorbell setup --print usb"),
            "{closed:?}"
        );
        assert!(closed.detail.contains("/dev/bus/usb/002/009"), "{closed:?}");
        let good = seen(&[], true);
        assert!(
            good.detail.starts_with("2-1 add1:0001, custom v0.1, 10000"),
            "{good:?}"
        );
        let (status, slow) = match cfg!(feature = "usb") {
            true => (Status::Ok, Status::Warn),
            false => (Status::Fail, Status::Fail),
        };
        assert_eq!(good.status, status);
        assert_eq!(seen(&[("speed", "480")], true).status, slow);
    }
}
