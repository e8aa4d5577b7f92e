//! Prints what reading a register costs through a function of this machine, beside reading the same place
//! directly: of a folder that looks like a machine with a card, so that what is measured is our own time.
//!
//! `cargo run --release -p drivers-host --example registers`

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use drivers_host::machine::Host;
use drivers_host::pci::System;
use hcq::reg::bus::Bus;

const READS: u32 = 10_000_000;

fn best(mut run: impl FnMut()) -> f64 {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
    };
    (0..5).map(|_| once(&mut run)).fold(f64::MAX, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    let top = tempfile::tempdir()?;
    let address = "0000:03:00.0";
    let folder = top.path().join("sys/bus/pci/devices").join(address);
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(top.path().join("run/lock"))?;
    for (name, text) in [
        ("vendor", "0x1002\n"),
        ("device", "0x7550\n"),
        ("class", "0x030000\n"),
        ("resource", "0xfce00000 0xfcefffff 0x40200\n"),
        ("config", "\0\0\0\0"),
    ] {
        fs::write(folder.join(name), text)?;
    }
    fs::File::create(folder.join("resource0"))?.set_len(1 << 20)?;
    let pci = Host::at(System::at(top.path())).open_pci(address)?;
    let window = pci.bar(0)?;
    let view = window.view().ok_or("it is mapped")?;
    let through = best(|| {
        for i in 0..READS {
            black_box(Bus::read(&window, u64::from(i % 4096 * 4)).unwrap_or(0));
        }
    });
    let direct = best(|| {
        for i in 0..READS {
            black_box(view.read::<u32>((i % 4096 * 4) as usize).unwrap_or(0));
        }
    });
    println!("a register: {through:.2} ns through the bus, {direct:.2} ns as a volatile read");
    Ok(())
}
