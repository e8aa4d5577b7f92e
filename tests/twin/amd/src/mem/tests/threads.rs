//! Waves of several host threads at one page: what one stores stays, whatever happens before its mask tells so.

use super::random::package;
use super::*;
use crate::mem::cache::At;
use crate::mem::gmc::Cache;

/// What happens between a store and its mark.
type Meanwhile<'a> = &'a dyn Fn(&At);

/// Where a wave stores 8 bytes.
const STORED: std::ops::Range<usize> = 0x108..0x110;

/// A wave of an XCC stores to the first page of what is mapped, and something happens before that is marked:
/// the wave reads it all the same, memory gets it, and the host where it looks at it.
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
        let (frame, ..) = state.ready_to_write(&at);
        frame.write(STORED.start, &7u64.to_le_bytes());
    }
    meanwhile(&at);
    {
        let mut states = object.states();
        let state = states.entry(0).or_default();
        if let (_, Some(mask), _) = state.ready_to_write(&at) {
            mask.set(&STORED);
        }
    }
    let place = STORED.start as u64;
    let own = Bus::new(&launch).get::<u64>(Port::Vector, VA + place);
    assert_eq!(own, Ok(7), "the wave itself, XCC {xcc}");
    drop(launch);
    s.vm.caches(WB, "release");
    assert_eq!(s.read(Port::Sdma, VA + place), 7, "by XCC {xcc}");
    if object.public() {
        assert_eq!(Client::of(object).get(place), 7, "by XCC {xcc}");
    }
    assert_eq!(s.broken(), [""; 0]);
}

/// Others of the same launch ask for the page.
fn asked(at: &At) {
    let mut states = at.object.states();
    let state = states.entry(0).or_default();
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
        s.vm.on(xcc).read(Port::Vector, VA, &mut [0; 8]).unwrap();
        s.write(Port::Sdma, VA, 1);
        stays(&s, &object, Mtype::Rw, xcc, &|at| {
            at.gmc.invalidate(Cache::Gl2);
            asked(at);
        });
        assert_eq!(s.read(Port::Sdma, VA), 1);
    }
}

#[test]
fn a_store_stays_when_others_meet_at_the_page() {
    for (kind, xcc) in [(VRAM, 0), (VRAM, 1), (PUBLIC, 0), (PUBLIC, 1)] {
        let s = package(2);
        let object = s.mapped(kind, Mtype::Rw);
        let package = s.gmc.package();
        stays(&s, &object, Mtype::Rw, xcc, &|at| {
            let mut states = object.states();
            states.entry(0).or_default().share(at, &package);
            drop(states);
            object.drain(0, at.who);
        });
    }
}

#[test]
fn a_store_stays_when_the_hdp_drains() {
    let s = setup();
    let object = s.mapped(PUBLIC, Mtype::Uc);
    let client = Client::of(&object);
    client.put(0, 1);
    stays(&s, &object, Mtype::Uc, 0, &|at| {
        client.put(8, 2);
        object.drain(0, at.who);
    });
    s.vm.hdp_flush("test");
    assert_eq!((s.read(Port::Sdma, VA), client.get(0)), (1, 1));
    assert_eq!((s.read(Port::Sdma, VA + 8), client.get(8)), (2, 2));
}
