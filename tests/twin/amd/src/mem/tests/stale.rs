//! What is stale, why, and what helps.

use super::*;

#[test]
fn stores_reach_sdma_by_a_write_back() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    s.vm.set_origin("dispatch 1");
    store(&s, VA + 8, 7);
    assert_eq!(load(&s, Port::Vector, VA + 8), 7);
    assert_eq!(s.broken(), [""; 0]);
    s.vm.set_origin("copy 2");
    assert_eq!(s.read(Port::Sdma, VA + 16), 0);
    assert_eq!(s.broken(), [""; 0], "these bytes are not dirty");
    assert_eq!(s.read(Port::Sdma, VA + 8), 0);
    fires("CACHE-L2-NOT-WRITTEN-BACK").only(&s.broken());
    let report = s.journal.violations()[0].to_string();
    for part in ["dispatch 1", "copy 2", "0x700000000008", "GL2_WB", "test"] {
        assert!(report.contains(part), "{report}");
    }
    s.vm.caches(WB, "release");
    assert_eq!(s.read(Port::Sdma, VA + 8), 7);
    assert_eq!(s.broken().len(), 1);
}

#[test]
fn a_wave_writes_back_what_it_stored() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    wave(&s, |bus| {
        bus.put(Port::Vector, VA + 8, 7u64).unwrap();
        bus.memory.write_back(true);
        bus.put(Port::Vector, VA + 16, 8u64).unwrap();
    });
    assert_eq!(s.read(Port::Sdma, VA + 8), 7);
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(s.read(Port::Sdma, VA + 16), 0);
    fires("CACHE-L2-NOT-WRITTEN-BACK").only(&s.broken());
}

#[test]
fn an_invalidate_alone_leaves_dirty_bytes() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    store(&s, VA + 8, 7);
    s.vm.caches(INV, "acquire");
    assert_eq!(load(&s, Port::Vector, VA + 8), 7);
    s.vm.caches(WB, "release");
    assert_eq!(s.read(Port::Sdma, VA + 8), 7);
    assert_eq!(s.broken(), [""; 0]);
}

#[test]
fn gl2_shows_what_it_holds_until_it_is_invalidated() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    s.write(Port::Sdma, VA, 1);
    assert_eq!(load(&s, Port::Vector, VA), 1);
    s.vm.set_origin("copy 3");
    s.write(Port::Sdma, VA, 2);
    s.write(Port::Sdma, VA + 0x1000, 3);
    let only_l0 = Caches {
        l2_inv: false,
        l2_wb: true,
        ..EVERYTHING
    };
    s.vm.caches(only_l0, "acquire");
    assert_eq!(load(&s, Port::Vector, VA + 8), 0);
    assert_eq!(load(&s, Port::Vector, VA + 0x1000), 3, "it was not held");
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(load(&s, Port::Vector, VA), 1);
    fires("CACHE-L2-STALE").only(&s.broken());
    let report = s.journal.violations()[0].to_string();
    assert!(report.contains("last written by copy 3"), "{report}");
    assert_eq!(s.read(Port::Sdma, VA), 2);
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Vector, VA), 2);
    assert_eq!(s.broken().len(), 1);
}

#[test]
fn dirty_bytes_and_written_memory_of_one_page_both_survive() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    store(&s, VA, 1);
    s.write(Port::Sdma, VA + 8, 2);
    s.vm.caches(EVERYTHING, "acquire");
    for port in [Port::Sdma, Port::Vector, Port::Cp] {
        assert_eq!((s.read(port, VA), s.read(port, VA + 8)), (1, 2));
    }
    assert_eq!(s.broken(), [""; 0]);
}

#[test]
fn the_scalar_cache_keeps_what_vector_stores_change() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    assert_eq!(load(&s, Port::Scalar, VA), 0);
    store(&s, VA, 5);
    assert_eq!(load(&s, Port::Scalar, VA + 8), 0);
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(load(&s, Port::Scalar, VA), 0);
    fires("CACHE-SCALAR-STALE").only(&s.broken());
    let only_scalar = Caches {
        scalar_inv: true,
        ..Caches::default()
    };
    s.vm.caches(only_scalar, "acquire");
    assert_eq!(load(&s, Port::Scalar, VA), 0, "GL1 is in between");
    let with_gl1 = Caches {
        gl1_inv: true,
        ..only_scalar
    };
    s.vm.caches(with_gl1, "acquire");
    assert_eq!(load(&s, Port::Scalar, VA), 5);
    assert_eq!(s.broken().len(), 2);
}

#[test]
fn the_scalar_cache_is_stale_within_a_launch_too() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    wave(&s, |bus| {
        for first_store in [false, true] {
            if first_store {
                bus.put(Port::Vector, VA, 1u64).unwrap();
            }
            assert_eq!(bus.get::<u64>(Port::Scalar, VA + 8).unwrap(), 0);
            bus.put(Port::Vector, VA + 8, 9u64).unwrap();
            assert_eq!(bus.get::<u64>(Port::Vector, VA + 8).unwrap(), 9);
            assert_eq!(bus.get::<u64>(Port::Scalar, VA + 8).unwrap(), 0);
            bus.memory.invalidate(Port::Scalar, false);
            assert_eq!(bus.get::<u64>(Port::Scalar, VA + 8).unwrap(), 9);
            bus.put(Port::Vector, VA + 8, 0u64).unwrap();
            bus.memory.invalidate(Port::Scalar, false);
        }
    });
    assert_eq!(s.broken(), ["CACHE-SCALAR-STALE"], "once for an object");
}

#[test]
fn a_first_guess_may_be_old() {
    let swap = |bus: &mut Bus, at: u64, guess: u64| {
        let new = |old| if old == guess { guess + 1 } else { old };
        bus.atomic(Port::Cp, at, new).unwrap()
    };
    for mtype in [Mtype::Rw, Mtype::Uc] {
        for swaps_at in [VA + 8, VA + 16] {
            let s = setup();
            let _object = s.mapped(VRAM, mtype);
            assert_eq!(load(&s, Port::Scalar, VA + 8), 0);
            wave(&s, |bus| bus.put(Port::Vector, VA + 8, 5u64).unwrap());
            wave(&s, |bus| {
                let guess = bus.get::<u64>(Port::Scalar, VA + 8).unwrap();
                assert_eq!(guess, 0);
                let found = swap(bus, swaps_at, guess);
                assert_eq!(found, if swaps_at == VA + 8 { 5 } else { 0 });
            });
            if swaps_at == VA + 8 {
                assert_eq!(s.broken(), [""; 0]);
            } else {
                fires("CACHE-SCALAR-STALE").only(&s.broken());
            }
        }
    }
}

#[test]
fn vector_caches_keep_what_others_change() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    assert_eq!(load(&s, Port::Vector, VA), 0);
    s.write(Port::Cp, VA, 5);
    // Own stores show through.
    wave(&s, |bus| {
        bus.put(Port::Vector, VA + 8, 6u64).unwrap();
        assert_eq!(bus.get::<u64>(Port::Vector, VA + 8).unwrap(), 6);
        bus.put(Port::Vector, VA + 8, 7u64).unwrap();
        assert_eq!(bus.get::<u64>(Port::Vector, VA + 8).unwrap(), 7);
    });
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(load(&s, Port::Vector, VA), 0);
    fires("CACHE-VECTOR-STALE").only(&s.broken());
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Vector, VA), 5);
    assert_eq!(load(&s, Port::Vector, VA + 8), 7);
    assert_eq!(s.broken().len(), 1);
}

#[test]
fn vector_caches_of_other_cus_keep_what_an_earlier_launch_read() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    assert_eq!(load(&s, Port::Vector, VA), 0);
    wave(&s, |bus| {
        bus.put(Port::Vector, VA, 6u64).unwrap();
        assert_eq!(bus.get::<u64>(Port::Vector, VA).unwrap(), 6);
    });
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(load(&s, Port::Vector, VA), 0);
    fires("CACHE-VECTOR-STALE").only(&s.broken());
    s.vm.caches(EVERYTHING, "acquire");
    store(&s, VA, 7);
    assert_eq!(load(&s, Port::Vector, VA), 7, "nobody held it");
    assert_eq!(s.broken().len(), 1);
}

#[test]
fn code_is_stale_until_the_instruction_cache_is_invalidated() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    s.write(Port::Sdma, VA, 0xaaaa);
    assert_eq!(load(&s, Port::Inst, VA), 0xaaaa);
    s.write(Port::Sdma, VA, 0xbbbb);
    let no_inst = Caches {
        inst_inv: false,
        ..EVERYTHING
    };
    s.vm.caches(no_inst, "acquire");
    assert_eq!(load(&s, Port::Inst, VA), 0xaaaa);
    fires("CACHE-INST-STALE").only(&s.broken());
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Inst, VA), 0xbbbb);
    assert_eq!(s.broken().len(), 1);
}

#[test]
fn host_writes_to_vram_wait_for_the_hdp() {
    let s = setup();
    let object = s.mapped(PUBLIC, Mtype::Rw);
    let client = Client::of(&object);
    client.put(8, 1);
    assert_eq!(load(&s, Port::Scalar, VA + 0x100), 0);
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(load(&s, Port::Scalar, VA + 8), 0);
    fires("HDP-NOT-FLUSHED").only(&s.broken());
    s.vm.hdp_flush("WAIT_REG_MEM");
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Scalar, VA + 8), 1);
    // The other way: device writes show in the BAR once they are memory.
    store(&s, VA + 16, 2);
    client.put(24, 3);
    assert_eq!(client.get(16), 0);
    s.vm.caches(WB, "release");
    assert_eq!((client.get(16), client.get(24)), (2, 3));
    // The host's own register.
    s.gmc.remap.store64(0, 1);
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(s.read(Port::Sdma, VA + 24), 3);
    s.write(Port::Sdma, VA + 32, 4);
    assert_eq!(client.get(32), 4);
    assert_eq!(s.broken().len(), 1);
}

#[test]
fn a_doorbell_may_follow_a_read_back() {
    let mut s = setup();
    let (rdna, drain) = (Gen::Rdna3, Drain::Doorbell);
    s.gmc = Gmc::new(0, rdna, 64 * MIB, drain, s.journal.clone()).unwrap();
    s.vm = Vm::new(s.gmc.clone());
    let object = s.mapped(PUBLIC, Mtype::Rw);
    let client = Client::of(&object);
    assert_eq!(s.read(Port::Sdma, VA), 0);
    client.put(0, 1);
    s.vm.ring();
    assert_eq!(s.read(Port::Sdma, VA), 1);
    assert_eq!(load(&s, Port::Scalar, VA), 1);
    assert_eq!(s.broken(), [""; 0]);
    // The HDP drains once for a doorbell: what is written after that waits.
    assert_eq!(load(&s, Port::Scalar, VA), 1);
    client.put(8, 2);
    assert_eq!(load(&s, Port::Scalar, VA + 8), 0);
    fires("HDP-NOT-FLUSHED").only(&s.broken());
}

#[test]
fn the_hdp_may_drain_by_itself() {
    let mut s = setup();
    let (rdna, drain) = (Gen::Rdna3, Drain::Random(1));
    s.gmc = Gmc::new(0, rdna, 64 * MIB, drain, s.journal.clone()).unwrap();
    s.vm = Vm::new(s.gmc.clone());
    let object = s.mapped(PUBLIC, Mtype::Uc);
    Client::of(&object).put(0, 1);
    let tries = (0..100).take_while(|_| s.read(Port::Sdma, VA) == 0);
    assert!((1..50).contains(&tries.count()));
}

#[test]
fn uncached_stores_to_public_vram_show_at_the_host() {
    let s = setup();
    let object = s.mapped(PUBLIC, Mtype::Uc);
    let client = Client::of(&object);
    client.put(8, 3);
    store(&s, VA, 2);
    assert_eq!((client.get(0), client.get(8)), (2, 3));
    s.vm.hdp_flush("WAIT_REG_MEM");
    assert_eq!((client.get(0), client.get(8)), (2, 3));
    assert_eq!(load(&s, Port::Vector, VA + 8), 3);
    assert_eq!(s.broken(), [""; 0]);
}

#[test]
fn uncached_system_memory_is_what_the_host_sees() {
    let s = setup();
    let object = s.mapped(Kind::Gtt, Mtype::Uc);
    let client = Client::of(&object);
    store(&s, VA, 2);
    assert_eq!(client.get(0), 2);
    client.put(8, 3);
    assert_eq!(load(&s, Port::Vector, VA + 8), 3);
    assert_eq!(s.read(Port::Cp, VA + 8), 3);
    // But the scalar cache holds lines of any memory.
    assert_eq!(load(&s, Port::Scalar, VA + 8), 3);
    client.put(8, 4);
    assert_eq!(load(&s, Port::Scalar, VA + 8), 3);
    fires("CACHE-SCALAR-STALE").only(&s.broken());
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Scalar, VA + 8), 4);
}

#[test]
fn cached_system_memory_goes_through_gl2() {
    let s = setup();
    let object = s.mapped(Kind::Gtt, Mtype::Nc);
    let client = Client::of(&object);
    store(&s, VA, 2);
    assert_eq!(client.get(0), 0);
    Vm::new(s.gmc.clone()).host_visible_dirty("a signal of another process");
    assert_eq!(s.broken(), [""; 0]);
    s.vm.host_visible_dirty("signal");
    fires("CACHE-L2-HOST-STALE").only(&s.broken());
    s.vm.caches(WB, "release");
    assert_eq!(client.get(0), 2);
    s.vm.host_visible_dirty("signal");
    client.put(8, 3);
    assert_eq!(load(&s, Port::Vector, VA + 8), 0);
    fires("CACHE-L2-STALE").only(&s.broken()[1..]);
    // The command processor polls and signals past it.
    assert_eq!(s.read(Port::Cp, VA + 8), 3);
    s.write(Port::Cp, VA + 16, 4);
    assert_eq!(client.get(16), 4);
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Vector, VA + 8), 3);
    assert_eq!(load(&s, Port::Vector, VA + 16), 4);
    assert_eq!(s.broken().len(), 2);
}

/// Groups of a grid wait for each other there: kernel arguments of AMD's runtime have such a barrier.
#[test]
fn waves_meet_in_gl2_also_in_memory_of_the_host() {
    let s = setup();
    let object = s.mapped(Kind::Gtt, Mtype::Nc);
    let client = Client::of(&object);
    wave(&s, |bus| {
        // A line that GL2 has by a plain load.
        assert_eq!(bus.get::<u64>(Port::Vector, VA + 8).unwrap(), 0);
        bus.atomic(Port::Cp, VA, |old: u64| old + 3).unwrap();
        assert_eq!(bus.get::<u64>(Port::Cp, VA).unwrap(), 3);
        bus.atomic(Port::Cp, VA, |old: u64| old + 3).unwrap();
        assert_eq!(bus.get::<u64>(Port::Cp, VA).unwrap(), 6);
        // What the host changes is seen where GL2 does not hold it.
        client.put(0x800, 7);
        assert_eq!(bus.get::<u64>(Port::Cp, VA + 0x800).unwrap(), 7);
    });
    s.vm.caches(WB, "release");
    assert_eq!((client.get(0), s.broken().len()), (6, 0));
}

/// RDNA4, where all system memory is cached: what has system scope meets the host in memory.
#[test]
fn system_scope_reaches_the_host() {
    let mut s = setup();
    s.gmc = Gmc::new(0, Gen::Rdna4, 64 * MIB, Drain::Never, s.journal.clone()).unwrap();
    s.vm = Vm::new(s.gmc.clone());
    let object = s.mapped(Kind::Gtt, Mtype::Nc);
    let client = Client::of(&object);
    assert_eq!(load(&s, Port::Vector, VA + 0x1000), 0);
    wave(&s, |bus| {
        // A plain store waits for a write-back; one of system scope, or an atomic, does not.
        bus.put(Port::Vector, VA, 1u64).unwrap();
        assert_eq!(client.get(0), 0);
        bus.memory.write_back(true);
        assert_eq!(client.get(0), 1);
        bus.put(Port::Cp, VA + 0x80, 2u64).unwrap();
        bus.atomic(Port::Cp, VA + 0x88, |old: u64| old + 3).unwrap();
        assert_eq!((client.get(0x80), client.get(0x88)), (2, 3));
        // The host answers, on a page that GL2 holds a line of.
        client.put(0x1000, 4);
        client.put(0x90, 5);
        assert_eq!(bus.get::<u64>(Port::Cp, VA + 0x90).unwrap(), 5);
        assert_eq!(bus.get::<u64>(Port::Vector, VA + 0x1000).unwrap(), 0);
        bus.memory.invalidate(Port::Vector, true);
        assert_eq!(bus.get::<u64>(Port::Vector, VA + 0x1000).unwrap(), 4);
    });
    fires("CACHE-L2-STALE").only(&s.broken());
}

#[test]
fn another_gpu_sees_vram_below_gl2() {
    let s = setup();
    let object = s.mapped(VRAM, Mtype::Rw);
    let peer = s.peer();
    peer.vm.map(VA, &object, 0, 0x2000, ALL, Mtype::Nc).unwrap();
    let get = |va| load(&peer, Port::Vector, va);
    store(&s, VA, 1);
    assert_eq!(get(VA), 0);
    fires("CACHE-L2-NOT-WRITTEN-BACK").only(&s.broken());
    s.vm.caches(WB, "release");
    assert_eq!(get(VA), 0);
    fires("CACHE-L2-STALE").only(&s.broken()[1..]);
    peer.vm.caches(EVERYTHING, "acquire");
    assert_eq!(get(VA), 1);
    // And back: the peer's stores reach memory by its own write-back.
    store(&peer, VA + 8, 2);
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(s.read(Port::Sdma, VA + 16), 0);
    assert_eq!(load(&s, Port::Vector, VA + 8), 0);
    fires("CACHE-L2-NOT-WRITTEN-BACK").only(&s.broken()[2..]);
    peer.vm.caches(WB, "release");
    s.vm.caches(EVERYTHING, "acquire");
    assert_eq!(load(&s, Port::Vector, VA + 8), 2);
    assert_eq!(s.broken().len(), 3);
}

#[test]
fn private_vram_gives_the_client_nothing() {
    let s = setup();
    let object = s.object(VRAM, 0x1000);
    let at = Client::of(&object).0;
    let refused = Mapping::of_client(at, 0x1000, false).err();
    assert_eq!(refused, Some(libc::EFAULT));
}
