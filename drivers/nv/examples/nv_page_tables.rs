//! Prints what it costs the host to map 16 GiB in pages of 2 MiB, and to unmap them.
//!
//! `cargo run --release -p drivers-nv --example nv_page_tables`

use std::error::Error;
use std::time::{Duration, Instant};

use drivers_gpu::bare::{Attr, Tables};
use drivers_nv::gsp::pages::Format;
use drivers_spec::nv::chip::Arch;
use hcq::DeviceId;
use hcq::addr::{GpuVa, PhysAddr, VramAddr};
use hcq::mem::pages::PageTable;
use hcq::mem::view::View;
use hcq::mem::window::Window;

const START: GpuVa = GpuVa(0x10_0000_0000);
const PAGE: u64 = 2 << 20;
const PAGES: u64 = (16 << 30) / PAGE;

fn main() -> Result<(), Box<dyn Error>> {
    let device = DeviceId::new("NV", 0);
    // Neighbours are swapped, so that no two pages are one run.
    let scattered = |page: u64| (PhysAddr::Vram(VramAddr((page ^ 1) * PAGE)), PAGE);
    let pieces: Vec<_> = (0..PAGES).map(scattered).collect();
    let one = [(PhysAddr::Vram(VramAddr(PAGE)), PAGES * PAGE)];
    for (what, pieces) in [("scattered", &pieces[..]), ("in one piece", &one)] {
        // The two versions of the format.
        for arch in [Arch::Ga10x, Arch::Gh100] {
            let (mut mapped, mut unmapped) = (Duration::MAX, Duration::MAX);
            for _ in 0..20 {
                let vram = Window::mapped("VRAM", View::alloc(1 << 20, 4096)?);
                let tables = Tables::new(&device, &vram, VramAddr(0), vram.len())?;
                let mut table = PageTable::new(Format::of(arch), tables, GpuVa(0))?;
                let start = Instant::now();
                table.map(START, pieces, Attr::LOCAL)?;
                mapped = mapped.min(start.elapsed());
                let start = Instant::now();
                let retired = table.unmap(START, PAGES * PAGE)?;
                unmapped = unmapped.min(start.elapsed());
                table.release(retired);
            }
            println!("{arch:?}: {PAGES} pages of 2 MiB {what}: map {mapped:?}, unmap {unmapped:?}");
        }
    }
    Ok(())
}
