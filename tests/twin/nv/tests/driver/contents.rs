//! What the CPU has mapped and what engines see are the same bytes.

use twin_nv::client::Memory;
use twin_nv::engines::bus::Bus;
use twin_nv::engines::view::View;

use super::bench::{Bench, LIST, PIN, RING, RING_BYTES, shared};

fn view(bench: &Bench) -> View {
    let state = bench.machine.state();
    let channel = state.channels().next().unwrap();
    View::new(state.space_of(channel).unwrap().clone())
}

#[test]
fn the_cpu_and_engines_share_memory() {
    let bench = Bench::with_channel("");
    assert_eq!(bench.map_cpu(bench.gpu, bench.ring, 0x1000, 0x2000), 0);
    let wanted = shared(Some(RING + 0x1000), 0x2000);
    let at = bench.process.mmap(wanted, bench.gpu, 0).unwrap();
    let (status, pinned) = bench.pin(bench.gpu, LIST, PIN).unwrap();
    assert_eq!((status, bench.range(LIST, 0x1000)), (0, 0));
    assert_eq!(bench.map(LIST, 0x1000, pinned), 0);
    let view = view(&bench);
    let mut seen = [0; 4];
    for cpu in [at + 0xffe, LIST + 0x123] {
        bench.memory.write(cpu, b"cpu.").unwrap();
        view.read(cpu, &mut seen).unwrap();
        assert_eq!(&seen, b"cpu.");
        view.write(cpu, b"gpu.").unwrap();
        bench.memory.read(cpu, &mut seen).unwrap();
        assert_eq!(&seen, b"gpu.");
    }
    // The last byte, and what is behind it.
    assert!(view.write(RING + RING_BYTES - 1, &[1]).is_ok());
    assert!(view.write(RING + RING_BYTES - 1, &[1, 2]).is_err());
    assert!(bench.broken().is_empty());
}

#[test]
fn a_mapping_that_is_cut_is_gone_in_part() {
    let bench = Bench::with_device("");
    let local = bench.local(0x1_0000);
    let file = bench.process.open("/dev/nvidia0").unwrap();
    assert_eq!(bench.map_cpu(file, local, 0, 0x1_0000), 0);
    let at = bench.process.mmap(shared(None, 0x1_0000), file, 0).unwrap();
    bench.process.close(file).unwrap();
    bench.memory.write(at + 0x3000, &[7]).unwrap();
    bench.process.munmap(at + 0x1000, 0x2000).unwrap();
    let mapped = bench.process.mapped();
    let places: Vec<(u64, u64)> = mapped.iter().map(|(at, bytes, _)| (*at, *bytes)).collect();
    assert_eq!(places, [(at, 0x1000), (at + 0x3000, 0xd000)]);
    let mut seen = [0];
    bench.memory.read(at + 0x3000, &mut seen).unwrap();
    assert_eq!(seen, [7]);
    assert!(bench.memory.read(at + 0x1000, &mut seen).is_err());
    bench.process.munmap(at, 0x1_0000).unwrap();
    assert!(bench.process.mapped().is_empty());
}
