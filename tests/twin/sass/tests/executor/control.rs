//! What control words promise is watched: a change of one is named, and by its rule.

use crate::device;

use device::{Device, Grid};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Hazard};

/// The first change of a field of control words in the vector addition that breaks a rule.
fn broken(chip: Chip, change: impl Fn(u128) -> u128) -> Vec<Hazard> {
    let words = Device::words_of(chip, "vector_add");
    let mut found = Vec::new();
    for at in 0..words.len() {
        let mut changed = words.clone();
        changed[at] = change(words[at]);
        let mut device = Device::of(chip, &changed);
        let (a, b) = (device.words(&[1; 64]), device.words(&[2; 64]));
        let grid = Grid {
            blocks: [1, 1, 1],
            threads: [32, 1, 1],
            shared: 0,
        };
        match device.try_run(&grid, &[a, b, a, 64]) {
            Ok(_) => {}
            Err(fault) => match fault.cause {
                Cause::Hazard(hazard) => found.push(hazard),
                other => panic!("{other}"),
            },
        }
    }
    found
}

#[test]
fn a_wait_that_is_missing() {
    for chip in Chip::ALL {
        let found = broken(chip, |word| word & !(0x3f << 116));
        let results = found
            .iter()
            .filter(|hazard| matches!(hazard, Hazard::Result { write: false, .. }));
        assert!(results.count() >= 2, "{chip:?}: {found:?}");
    }
}

#[test]
fn a_scoreboard_that_is_missing() {
    for chip in Chip::ALL {
        let found = broken(chip, |word| word | 7 << 110);
        let none = found
            .iter()
            .filter(|hazard| matches!(hazard, Hazard::None { write: false, .. }));
        assert!(none.count() >= 2, "{chip:?}: {found:?}");
    }
}

#[test]
fn a_stall_that_is_too_short() {
    for chip in Chip::ALL {
        let found = broken(chip, |word| word & !(0xf << 105) | 1 << 105);
        let early = found
            .iter()
            .filter(|hazard| matches!(hazard, Hazard::Stall { .. }));
        assert!(early.count() >= 2, "{chip:?}: {found:?}");
    }
}

/// A store reads its registers late: what takes their place waits for that, or for a load after it.
#[test]
fn a_source_that_is_still_read() {
    for chip in Chip::ALL {
        let words = Device::words_of(chip, "atomic");
        let mut found = 0;
        for at in 0..words.len() {
            let mut changed = words.clone();
            changed[at] &= !(0x3f << 116);
            let mut device = Device::of(chip, &changed);
            let (input, out) = (device.words(&[3; 10 * 32]), device.words(&[0; 64 * 64]));
            let grid = Grid {
                blocks: [1, 1, 1],
                threads: [32, 1, 1],
                shared: 1024,
            };
            match device.try_run(&grid, &[input, out]) {
                Ok(_) => {}
                Err(fault) => match fault.cause {
                    Cause::Hazard(Hazard::Source { .. }) => found += 1,
                    Cause::Hazard(_) => {}
                    other => panic!("{chip:?}: {other}"),
                },
            }
        }
        assert!(found >= 3, "{chip:?}: {found}");
    }
}

/// `MOV R5, 0x4`; `MOV R2, c[0x0][0x160]`; `MOV R3, c[0x0][0x164]`; `ULDC.64 UR4, c[0x0][0x118]`;
/// `LDG.E R2, [R2.64]`, whose sources are free on SB0 and whose result is there on SB5; `FMUL R3, R5, R2`, which
/// waits for SB5; `EXIT`. As ptxas writes them for sm_86.
const LOAD: [u128; 7] = [
    0x000fca0000000f00_0000000400057802,
    0x000fca0000000f00_0000580000027a02,
    0x000fca0000000f00_0000590000037a02,
    0x000fe20000000a00_0000460000047ab9,
    0x000168000c1e1900_0000000402027981,
    0x020fe20000400000_0000000205037220,
    0x000fea0003800000_000000000000794d,
];

fn hazard(words: &[u128]) -> Option<Hazard> {
    hazard_on(Chip::Sm86, words)
}

fn hazard_on(chip: Chip, words: &[u128]) -> Option<Hazard> {
    let mut device = Device::of(chip, words);
    let at = device.words(&[7; 64]);
    let grid = Grid {
        blocks: [1, 1, 1],
        threads: [32, 1, 1],
        shared: 16,
    };
    match device.try_run(&grid, &[at]) {
        Ok(_) => None,
        Err(fault) => match fault.cause {
            Cause::Hazard(hazard) => Some(hazard),
            other => panic!("{other}"),
        },
    }
}

/// What has its result has read its sources: `R3` may be written.
#[test]
fn a_result_frees_its_sources() {
    assert_eq!(hazard(&LOAD), None);
    let mut early = LOAD;
    // `MOV R3, 0x4` instead of what waits.
    early[5] = LOAD[0] & !(0xff << 16) | 3 << 16;
    assert!(matches!(hazard(&early), Some(Hazard::Source { .. })));
}

/// A load has read what it takes from the warp once it issues.
#[test]
fn loads_read_uniform_registers_at_once() {
    let mut over = LOAD.to_vec();
    // `UMOV UR4, URZ`.
    over.insert(5, STORE[0]);
    assert_eq!(hazard(&over), None);
}

/// A load writes `R3` long after the load before has read it.
#[test]
fn loads_read_their_sources_in_order() {
    let mut two = LOAD.to_vec();
    two.insert(5, LOAD[4] & !(0xff << 16) | 6 << 16);
    // The address of the second is that of the first, and its result goes to what the first reads.
    two[4] = LOAD[4] & !(0xff << 16) | 8 << 16;
    two[5] = LOAD[4] & !(0xff << 16) | 3 << 16;
    assert_eq!(hazard(&two), None);
}

/// `MOV R18, RZ`, after which 13 cycles pass; `MOV R19, RZ`, after which 3 do; `IMAD.WIDE.U32 R18, R31, 0x4, R18`;
/// `EXIT`. As ptxas writes them for sm_120.
const WIDE: [u128; 4] = [
    0x000fda0000000f00_000000ff00127202,
    0x000fc60000000f00_000000ff00137202,
    0x000fe400078e0012_000000041f127825,
    0x000fea0003800000_000000000000794d,
];

/// The upper word of what is added is read a cycle later than the rest, and no later than that.
#[test]
fn a_wide_product_reads_its_upper_addend_last() {
    let cycles = |n: u128| move |word: u128| word & !(0xf << 105) | n << 105;
    let mut early = WIDE;
    early[1] = cycles(2)(early[1]);
    let stall = |cycles, need, register: &str| {
        Some(Hazard::Stall {
            register: register.to_owned(),
            cycles,
            need,
        })
    };
    let [low, high, product, exit] = WIDE;
    let lower_last = [cycles(13)(high), cycles(3)(low), product, exit];
    for chip in [Chip::Sm90, Chip::Sm120] {
        assert_eq!(hazard_on(chip, &WIDE), None);
        assert_eq!(hazard_on(chip, &early), stall(2, 4, "R19"));
        assert_eq!(hazard_on(chip, &lower_last), stall(3, 4, "R18"));
    }
}

/// `DMUL R24, R18, -UR8`, whose sources are free on SB1; `UMOV.64 UR8, 0x380921fb54442d18`; `SHF.R.U32.HI R18, RZ,
/// 0x14, R3`, which waits for SB1; `EXIT`. As ptxas writes them for sm_120.
const DOUBLE: [u128; 4] = [
    0x0003e20008000000_8000000812187c28,
    0x000fe20008380921_fb54442d18087482,
    0x002fe20000011603_00000014ff127819,
    0x000fea0003800000_000000000000794d,
];

/// What a product of doubles takes from the warp is read when it issues, what it takes from lanes later.
#[test]
fn doubles_read_uniform_registers_at_once() {
    assert_eq!(hazard_on(Chip::Sm120, &DOUBLE), None);
    let mut early = DOUBLE;
    early[2] &= !(0x3f << 116);
    let read = Some(Hazard::Source {
        register: "R18".to_owned(),
        scoreboard: 1,
    });
    assert_eq!(hazard_on(Chip::Sm120, &early), read);
}

/// `UMOV UR4, URZ`; `STS.128 [RZ+UR4], R24`, whose sources are free on SB0; `UIADD3 UR4, UR4, 0xa40, URZ`;
/// `MOV R24, RZ`, which waits for SB0; `EXIT`. As ptxas writes them for sm_89, but for the address and the last `MOV`.
const STORE: [u128; 5] = [
    0x000fde0008000000_0000003f00047c82,
    0x0001e20008000c04_00000018ff007988,
    0x000fe2000fffe03f_00000a4004047890,
    0x001fc60000000f00_000000ff00187202,
    0x000fea0003800000_000000000000794d,
];

/// A store to shared memory has read what it takes from the warp once it issues.
#[test]
fn stores_to_shared_memory_read_uniform_registers_at_once() {
    assert_eq!(hazard_on(Chip::Sm89, &STORE), None);
    let mut early = STORE;
    early[3] &= !(0x3f << 116);
    let read = Some(Hazard::Source {
        register: "R24".to_owned(),
        scoreboard: 0,
    });
    assert_eq!(hazard_on(Chip::Sm89, &early), read);
}

/// `DSETP.EQ.OR P3, PT, R6, RZ, !P5`, whose sources are free on SB0; `FSETP.GT.AND P5, PT, |R0|, ..., PT`; `EXIT`. As
/// ptxas writes them for sm_89.
const COMPARED: [u128; 3] = [
    0x0000440006f62400_000000ff0600722a,
    0x000fe20003fa4200_001000000000780b,
    0x000fea0003800000_000000000000794d,
];

/// A predicate that goes into a comparison of doubles is read when that issues, too.
#[test]
fn doubles_read_predicates_at_once() {
    assert_eq!(hazard_on(Chip::Sm89, &COMPARED), None);
    let mut register = COMPARED;
    // `MOV R6, RZ` in the place of what writes the predicate.
    register[1] = WIDE[0] & !(0xff << 16) | 6 << 16;
    let read = Some(Hazard::Source {
        register: "R6".to_owned(),
        scoreboard: 0,
    });
    assert_eq!(hazard_on(Chip::Sm89, &register), read);
}

/// `LDGSTS.E.BYPASS.128 [R19], desc[UR8][R24.64], P1`, whose sources are free on SB0; `ISETP.LT.AND P1, PT, R0, 0x2,
/// !P1`; `MOV R24, RZ`, which waits for SB0; `EXIT`. As ptxas writes them for sm_90, but for the scoreboard, the `MOV`,
/// and `!P1` of the copy, which brings zeros here.
const COPY: [u128; 4] = [
    0x0001e20008901c48_0000000018137fae,
    0x000fc40004f21270_000000020000780c,
    0x001fc60000000f00_000000ff00187202,
    0x000fea0003800000_000000000000794d,
];

/// A copy to shared memory knows whether there is something to copy once it issues.
#[test]
fn copies_read_predicates_at_once() {
    assert_eq!(hazard_on(Chip::Sm90, &COPY), None);
    let mut early = COPY;
    early[2] &= !(0x3f << 116);
    let read = Some(Hazard::Source {
        register: "R24".to_owned(),
        scoreboard: 0,
    });
    assert_eq!(hazard_on(Chip::Sm90, &early), read);
}
