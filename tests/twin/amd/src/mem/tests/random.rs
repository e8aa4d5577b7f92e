//! Many agents at once, and in any order.

use super::*;

#[test]
fn launches_packets_and_unmaps_run_side_by_side() {
    let s = setup();
    let pages = 16;
    let shared = s.object(VRAM, pages * 0x1000);
    let left = 4 << 32;
    s.vm.map(VA, &shared, 0, pages * 0x1000, ALL, Mtype::Rw)
        .unwrap();
    let count = |add: u64| {
        for round in 0..200u64 {
            let launch = s.vm.launch();
            let mut bus = Bus::new(&launch);
            for page in 0..pages {
                let va = VA + page * 0x1000 + 8 * (round % 64);
                bus.atomic(Port::Vector, va, |old: u64| old + add).unwrap();
                bus.get::<u64>(Port::Scalar, va).unwrap();
                // Mapped or not: nothing but a fault may come of it.
                let _ = bus.get::<u64>(Port::Vector, VA + left);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| count(1));
        scope.spawn(|| count(1 << 32));
        scope.spawn(|| {
            for _ in 0..200 {
                let gone = s.object(VRAM, 0x1000);
                s.vm.map(VA + left, &gone, 0, 0x1000, ALL, Mtype::Rw)
                    .unwrap();
                s.write(Port::Sdma, VA + left, 1);
                s.vm.caches(EVERYTHING, "acquire");
                s.vm.unmap(VA + left, 0x1000).unwrap();
            }
        });
    });
    s.vm.caches(EVERYTHING, "release");
    for page in 0..pages {
        let sum: u64 = (0..64)
            .map(|i| s.read(Port::Sdma, VA + page * 0x1000 + 8 * i))
            .sum();
        assert_eq!(sum, 200 | 200 << 32);
    }
    assert_eq!(s.gmc.vram.available(), 64 * MIB - pages * 0x1000);
}

/// Whatever the agents do, a read gets the newest value or a rule fires, never both. Each word has
/// one writer, so that there is a newest value.
fn reads_are_new_or_reported(kind: Kind, mtype: Mtype, seed: u64) -> usize {
    let s = setup();
    let object = s.mapped(kind, mtype);
    let peer = s.peer();
    let far = if mtype == Mtype::Rw { Mtype::Nc } else { mtype };
    peer.vm.map(VA, &object, 0, 0x2000, ALL, far).unwrap();
    let gpus = [&s, &peer];
    let client = object.host_visible().then(|| Client::of(&object));
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut newest = [0u64; 16];
    let place = |word: u64| 0xfc0 + 8 * word;
    let mut reports = 0;
    for value in 1..2000 {
        let word = random(16);
        let va = VA + place(word);
        let gpu = gpus[usize::from(random(3) == 0)];
        match random(8) {
            0..=2 => {
                match (word % 5, &client) {
                    (0, _) => store(&s, va, value),
                    (1, _) => s.write(Port::Sdma, va, value),
                    (2, Some(client)) => client.put(place(word), value),
                    (3, _) => store(&peer, va, value),
                    _ => s.write(Port::Cp, va, value),
                }
                newest[word as usize] = value;
            }
            3 => s.vm.hdp_flush("test"),
            4 => {
                let bits = random(64);
                let act = Caches {
                    inst_inv: bits & 1 != 0,
                    scalar_inv: bits & 2 != 0,
                    vector_inv: bits & 4 != 0,
                    gl1_inv: bits & 8 != 0,
                    l2_inv: bits & 16 != 0,
                    l2_wb: bits & 32 != 0,
                };
                gpu.vm.caches(act, "test");
            }
            port => {
                // Forgets what has been reported.
                gpu.vm.caches(Caches::default(), "test");
                let port = match port {
                    5 => Port::Vector,
                    6 => Port::Scalar,
                    _ => [Port::Sdma, Port::Cp, Port::Inst][random(3) as usize],
                };
                let before = s.broken().len();
                let found = match port {
                    Port::Sdma | Port::Cp => gpu.read(port, va),
                    _ => load(gpu, port, va),
                };
                let fired = s.broken().len() - before;
                let new = found == newest[word as usize];
                let last = s.journal.violations().last().map(ToString::to_string);
                let reader = gpu.gmc.index;
                assert_eq!(
                    new,
                    fired == 0,
                    "{port:?} of GPU {reader}, word {word} at {value}: {last:?}"
                );
                reports += fired;
            }
        }
    }
    reports
}

#[test]
fn every_stale_read_is_reported_and_nothing_else() {
    for seed in 1..20 {
        for (kind, mtype) in [
            (VRAM, Mtype::Rw),
            (PUBLIC, Mtype::Rw),
            (Kind::Gtt, Mtype::Nc),
        ] {
            assert!(reads_are_new_or_reported(kind, mtype, seed) > 50);
        }
        for kind in [VRAM, PUBLIC, Kind::Gtt] {
            reads_are_new_or_reported(kind, Mtype::Uc, seed);
        }
    }
}

/// A GPU of some XCCs.
pub(super) fn package(xccs: u32) -> Setup {
    let mut s = setup();
    let (cdna, never) = (Gen::Cdna3, Drain::Never);
    s.gmc = Gmc::with_xccs(xccs, 0, cdna, 64 * MIB, never, s.journal.clone()).unwrap();
    s.vm = Vm::new(s.gmc.clone());
    s
}

#[test]
fn waves_write_on_after_a_write_back() {
    let s = package(2);
    let _object = s.mapped(VRAM, Mtype::Rw);
    for xcc in 0..2 {
        let vm = s.vm.on(xcc);
        let launch = vm.launch();
        let mut bus = Bus::new(&launch);
        let va = VA + 0x100 * u64::from(xcc);
        for value in 1..4u64 {
            bus.put(Port::Vector, va + 8 * value, value).unwrap();
            launch.write_back(true);
        }
        bus.put(Port::Vector, va, 9u64).unwrap();
        drop(launch);
        s.vm.caches(WB, "release");
        assert_eq!(s.read(Port::Sdma, va), 9, "of XCC {xcc}");
    }
    assert_eq!(s.broken(), [""; 0]);
}

/// Dispatches in which each XCC stores to words of its own and all count in others, with what they do to caches
/// in between. After a release memory has all of it, and what nobody has changed is read as it is.
#[test]
fn memory_gets_what_all_xccs_write() {
    const WORDS: u64 = 64;
    let place = |word: u64| VA + 0xf00 + 8 * word;
    for seed in 1..40u64 {
        let xccs = 2 + seed % 3;
        let s = package(xccs as u32);
        let _object = s.mapped(VRAM, Mtype::Rw);
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut newest = [0u64; WORDS as usize];
        for round in 1..60 {
            let before = newest;
            for xcc in 0..xccs {
                let vm = s.vm.on(xcc as u32);
                let launch = vm.launch();
                let mut bus = Bus::new(&launch);
                for _ in 0..random(24) {
                    // Who writes a word in this round: an XCC, the copy engine, all of them by atomics, nobody.
                    let word = random(WORDS);
                    let (owner, va) = ((word / 3 + round) % (xccs + 3), place(word));
                    let value = random(1 << 30);
                    match (owner, random(8)) {
                        (_, 0) => launch.write_back(true),
                        (_, 1) => launch.invalidate(Port::Vector, true),
                        (owner, kind) if owner == xcc => {
                            newest[word as usize] = value;
                            let port = if kind == 2 { Port::Cp } else { Port::Vector };
                            bus.put(port, va, value).unwrap();
                            assert_eq!(bus.get::<u64>(Port::Vector, va).unwrap(), value);
                        }
                        (owner, 2) if owner == xccs => {
                            newest[word as usize] += 1;
                            bus.atomic(Port::Cp, va, |old: u64| old + 1).unwrap();
                        }
                        (owner, 2..4) if owner == xccs + 1 => {
                            newest[word as usize] = value;
                            s.write(Port::Sdma, va, value);
                        }
                        (owner, kind) if owner == xccs + 2 => {
                            let port = [Port::Vector, Port::Scalar][(kind % 2) as usize];
                            let seen = bus.get::<u64>(port, va).unwrap();
                            assert_eq!(seen, before[word as usize], "{port:?} of XCC {xcc}");
                        }
                        _ => {}
                    }
                }
                drop(launch);
            }
            s.vm.caches(EVERYTHING, "release and acquire");
            let memory: Vec<u64> = (0..WORDS)
                .map(|word| s.read(Port::Sdma, place(word)))
                .collect();
            assert_eq!(memory, newest, "seed {seed}, round {round}");
        }
        assert_eq!(s.broken(), [""; 0]);
    }
}
