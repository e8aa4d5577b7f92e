//! Waves of several host threads at one page: what one stores is there before its mask tells so.

use super::random::package;
use super::*;
use crate::mem::cache::{At, State};
use crate::mem::gmc::Cache;

/// What happens between a store of 8 bytes at [`STORED`] and its mark.
type Meanwhile<'a> = &'a dyn Fn(&mut State, &At);

const STORED: std::ops::Range<usize> = 0x108..0x110;

/// A wave of an XCC stores, and something happens before it has marked that: memory gets it all the same.
fn stays(s: &Setup, object: &Arc<Object>, mtype: Mtype, xcc: u32, meanwhile: Meanwhile) {
    let vm = s.vm.on(xcc);
    let launch = vm.launch();
    let who: Arc<str> = "test".into();
    let at = At {
        gmc: &vm.gmc,
        object,
        page: 0,
        frame: object.frame(0).unwrap(),
        mtype,
        who: &who,
        launch: 1,
    };
    {
        let mut states = object.states();
        let state = states.entry(0).or_default();
        state.ready_to_read(&at, Port::Vector);
        state.ready_to_write(&at);
        let (shown, _) = state.gl2(&at, vm.gmc.index);
        shown.write(STORED.start, &7u64.to_le_bytes());
        meanwhile(state, &at);
        if let (_, Some(mask)) = state.gl2(&at, vm.gmc.index) {
            mask.set(&STORED);
        }
    }
    drop(launch);
    s.vm.caches(WB, "release");
    let read = s.read(Port::Sdma, VA + STORED.start as u64);
    assert_eq!(read, 7, "by XCC {xcc}");
    assert_eq!(s.broken(), [""; 0]);
}

/// Others of the same launch ask for the page.
fn asked(state: &mut State, at: &At) {
    state.ready_to_read(at, Port::Vector);
    state.ready_to_read(at, Port::Scalar);
    state.ready_to_write(at);
}

#[test]
fn a_store_stays_when_others_ask_for_the_page() {
    for xcc in 0..2 {
        let s = package(2);
        let object = s.mapped(VRAM, Mtype::Rw);
        stays(&s, &object, Mtype::Rw, xcc, &asked);
    }
    let s = setup();
    let object = s.mapped(Kind::Gtt, Mtype::Nc);
    stays(&s, &object, Mtype::Nc, 0, &asked);
}

#[test]
fn a_store_stays_when_memory_has_news() {
    for xcc in 0..2 {
        let s = package(2);
        let object = s.mapped(VRAM, Mtype::Rw);
        // GL2 holds a line that the copy engine changes.
        let other = s.vm.on(xcc);
        let mut line = [0; 8];
        other.read(Port::Vector, VA, &mut line).unwrap();
        s.write(Port::Sdma, VA, 1);
        stays(&s, &object, Mtype::Rw, xcc, &|state, at| {
            at.gmc.invalidate(Cache::Gl2);
            state.invalidated(at);
            asked(state, at);
        });
        assert_eq!(s.read(Port::Sdma, VA), 1);
    }
}

#[test]
fn a_store_stays_when_others_meet_at_the_page() {
    for xcc in 0..2 {
        let s = package(2);
        let object = s.mapped(VRAM, Mtype::Rw);
        let package = s.gmc.package();
        stays(&s, &object, Mtype::Rw, xcc, &|state, at| {
            state.share(at, &package);
        });
    }
}

#[test]
fn threads_of_a_launch_store_side_by_side() {
    const THREADS: u64 = 4;
    const WORDS: u64 = 512;
    let s = package(2);
    let _object = s.mapped(VRAM, Mtype::Rw);
    for xcc in [1, 0] {
        for round in 1..20u64 {
            let vm = s.vm.on(xcc);
            let launch = vm.launch();
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let launch = &launch;
                    scope.spawn(move || {
                        for word in (thread..WORDS).step_by(THREADS as usize) {
                            // As one that has met other pages meanwhile: it asks for this one anew.
                            let mut bus = Bus::new(launch);
                            let va = VA + 8 * word;
                            bus.get::<u64>(Port::Vector, va).unwrap();
                            bus.put(Port::Vector, va, round * word).unwrap();
                        }
                    });
                }
            });
            drop(launch);
            s.vm.caches(EVERYTHING, "release and acquire");
            for word in 0..WORDS {
                let found = s.read(Port::Sdma, VA + 8 * word);
                assert_eq!(found, round * word, "word {word} by XCC {xcc}");
            }
        }
    }
    assert_eq!(s.broken(), [""; 0]);
}
