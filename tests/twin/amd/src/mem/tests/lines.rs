//! Caches hold lines, not pages.

use super::*;

/// The rules that a change of a byte behind a cache breaks once `port` has read the byte at VA: where the byte
/// is read after it, by a launch of its own. `change` writes 7 there.
fn after_a_neighbour(
    port: Port,
    offset: u64,
    change: impl FnOnce(&Setup, u64),
) -> Vec<&'static str> {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    assert_eq!(load(&s, port, VA), 0);
    change(&s, VA + offset);
    let seen = load(&s, port, VA + offset);
    assert_eq!(seen == 7, s.broken().is_empty(), "{:?}", s.broken());
    s.broken()
}

fn copied(s: &Setup, va: u64) {
    s.write(Port::Sdma, va, 7);
}

/// As the command processor does, whose writes GL2 shows at once.
fn written(s: &Setup, va: u64) {
    s.write(Port::Cp, va, 7);
}

#[test]
fn a_line_of_gl2_has_128_bytes() {
    for port in [Port::Vector, Port::Scalar] {
        fires("CACHE-L2-STALE").only(&after_a_neighbour(port, 120, copied));
        assert_eq!(after_a_neighbour(port, 128, copied), [""; 0]);
        assert_eq!(after_a_neighbour(port, 0xff8, copied), [""; 0]);
    }
}

#[test]
fn a_line_of_the_scalar_cache_has_64_bytes() {
    fires("CACHE-SCALAR-STALE").only(&after_a_neighbour(Port::Scalar, 56, written));
    assert_eq!(after_a_neighbour(Port::Scalar, 64, written), [""; 0]);
}

#[test]
fn a_line_of_the_vector_cache_has_128_bytes() {
    fires("CACHE-VECTOR-STALE").only(&after_a_neighbour(Port::Vector, 120, written));
    assert_eq!(after_a_neighbour(Port::Vector, 128, written), [""; 0]);
}

/// How far instructions are fetched ahead is not known.
#[test]
fn the_instruction_cache_holds_pages() {
    let s = setup();
    let _object = s.mapped(VRAM, Mtype::Rw);
    assert_eq!(load(&s, Port::Inst, VA), 0);
    s.write(Port::Cp, VA + 0x800, 7);
    s.write(Port::Cp, VA + 0x1000, 7);
    assert_eq!(load(&s, Port::Inst, VA + 0x1000), 7);
    assert_eq!(s.broken(), [""; 0]);
    assert_eq!(load(&s, Port::Inst, VA + 0x800), 0);
    fires("CACHE-INST-STALE").only(&s.broken());
}

/// A wave that has the page already sees of other lines what they are when it comes to them.
#[test]
fn lines_are_fetched_when_they_are_read() {
    for (offset, seen) in [(64, 7u64), (56, 0)] {
        let s = setup();
        let _object = s.mapped(VRAM, Mtype::Rw);
        wave(&s, |bus| {
            assert_eq!(bus.get::<u64>(Port::Scalar, VA).unwrap(), 0);
            bus.put(Port::Vector, VA + offset, 7u64).unwrap();
            assert_eq!(bus.get::<u64>(Port::Scalar, VA + offset).unwrap(), seen);
        });
        let stale: &[&str] = if seen == 0 {
            &["CACHE-SCALAR-STALE"]
        } else {
            &[]
        };
        assert_eq!(s.broken(), stale);
    }
}
