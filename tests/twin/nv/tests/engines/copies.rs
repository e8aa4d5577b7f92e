//! Copy engines.

use drivers_spec::nv::class::engine;
use twin::fires::{Fires, fires};
use twin_nv::engines::{Notice, Turn};

use super::rig::{DATA, READ_ONLY, Rig, inc, semaphore};

/// Both sides lie in lines, and the copy waits for those before it.
const COPY: u32 = 0x182;
const PIPELINED: u32 = 0x181;
const FLUSH: u32 = 1 << 2;
const ONE_WORD: u32 = 1 << 3;
const FOUR_WORDS: u32 = 2 << 3;
const LINES: u32 = 1 << 9;
const REMAP: u32 = 1 << 10;

fn low(x: u64) -> u32 {
    x as u32
}

/// From where, where to, how much, how.
fn copy(from: u64, to: u64, bytes: u32, launch: u32) -> Vec<u32> {
    let places = [low(from >> 32), low(from), low(to >> 32), low(to)];
    let mut words = inc(4, 0x400, &places);
    words.extend(inc(4, 0x418, &[bytes]));
    words.extend(inc(4, 0x300, &[launch]));
    words
}

/// A semaphore of the copy engine.
fn release(va: u64, payload: u32, launch: u32) -> Vec<u32> {
    let mut words = inc(4, 0x240, &[low(va >> 32), low(va), payload]);
    words.extend(inc(4, 0x300, &[launch]));
    words
}

fn object(chip: &str) -> (Rig, Vec<u32>) {
    let rig = Rig::new(chip);
    let class = rig.machine.config.chips[0].facts().copy.number;
    (rig, inc(4, 0, &[class]))
}

/// A rig with the class set, that has run some words.
fn ran(chip: &str, words: &[u32]) -> Rig {
    let (mut rig, mut all) = object(chip);
    all.extend(words);
    rig.go(&all);
    rig
}

fn numbers(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 7 + 3) as u8).collect()
}

#[test]
fn bytes_are_copied() {
    for chip in ["ga102", "ad102", "h100", "gb202"] {
        let (mut rig, mut words) = object(chip);
        let data = numbers(0x5_0001);
        rig.ram.put(DATA + 3, &data);
        words.extend(copy(DATA + 3, DATA + 0x8_0000, data.len() as u32, COPY));
        words.extend(release(DATA, 7, FLUSH | FOUR_WORDS));
        assert_eq!(rig.go(&words), Turn::Idle, "{chip}");
        assert_eq!(rig.ram.bytes(DATA + 0x8_0000, data.len()), data);
        assert_eq!(rig.ram.long(DATA), 7);
        assert!(rig.ram.long(DATA + 8) > 0);
        assert_eq!(rig.broken(), [""; 0], "{chip}");
    }
}

#[test]
fn lines_have_pitches() {
    let (mut rig, mut words) = object("h100");
    let data = numbers(0x400);
    rig.ram.put(DATA, &data);
    words.extend(inc(4, 0x410, &[0x40, 0x10]));
    words.extend(inc(4, 0x41c, &[5]));
    words.extend(copy(DATA, DATA + 0x1000, 12, COPY | LINES));
    rig.go(&words);
    for line in 0..5 {
        let found = rig.ram.bytes(DATA + 0x1000 + line * 0x10, 16);
        let from = line as usize * 0x40;
        assert_eq!(found[..12], data[from..from + 12], "{line}");
        assert_eq!(found[12..], [0; 4]);
    }
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn components_are_swapped_and_replaced() {
    let (mut rig, mut words) = object("ad102");
    // A fill by words of 4 bytes: X is constant A, one component.
    words.extend(inc(4, 0x700, &[0x1122_3344, 0x5566_7788]));
    words.extend(inc(4, 0x708, &[4 | 3 << 16]));
    words.extend(copy(0, DATA, 16, COPY | REMAP));
    // By two: A and B, 8 bytes an element.
    words.extend(inc(4, 0x708, &[4 | 5 << 4 | 3 << 16 | 1 << 24]));
    words.extend(copy(0, DATA + 0x100, 3, COPY | REMAP));
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!(rig.ram.word(DATA + 60), 0x1122_3344);
    assert_eq!(rig.ram.word(DATA + 64), 0);
    assert_eq!(rig.ram.long(DATA + 0x110), 0x5566_7788_1122_3344);
    assert_eq!(rig.ram.long(DATA + 0x118), 0);
    // Bytes: X and Y change places, Z stays, W is a constant.
    rig.ram.put(DATA + 0x200, &[1, 2, 3, 4]);
    rig.ram.put(DATA + 0x300, &[9; 8]);
    let components = 1 | 6 << 8 | 4 << 12 | 1 << 20 | 3 << 24;
    let mut words = inc(4, 0x708, &[components]);
    words.extend(copy(DATA + 0x200, DATA + 0x300, 2, COPY | REMAP));
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!(
        rig.ram.bytes(DATA + 0x300, 8),
        [2, 1, 9, 0x44, 4, 3, 9, 0x44]
    );
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn semaphores_have_sizes_and_reductions() {
    let (mut rig, mut words) = object("h100");
    rig.ram.put(DATA, &[0xff; 32]);
    words.extend(release(DATA, 5, FLUSH | ONE_WORD));
    words.extend(inc(4, 0x24c, &[8]));
    words.extend(release(DATA + 8, 6, FLUSH | ONE_WORD | 1 << 27));
    // Added, unsigned.
    let add = 5 << 14 | 1 << 18 | 1 << 19;
    words.extend(release(DATA + 16, 2, FLUSH | ONE_WORD | add));
    words.extend(inc(4, 0x300, &[2 << 5]));
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!(rig.ram.long(DATA), 0xffff_ffff_0000_0005);
    assert_eq!(rig.ram.long(DATA + 8), 8 << 32 | 6);
    assert_eq!(rig.ram.word(DATA + 16), 1);
    assert_eq!(rig.notices(), [Notice::Copy]);
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn copies_are_done_when_somebody_waits() {
    let (mut rig, mut words) = object("ad102");
    rig.ram.put(DATA, &[5; 4]);
    words.extend(copy(DATA, DATA + 0x100, 4, COPY));
    // The host says so without a wait, and then with one.
    words.extend(semaphore(DATA + 0x200, 1, 1));
    rig.push(&words);
    while rig.ram.word(DATA + 0x200) == 0 {
        rig.step(1);
    }
    assert_eq!(rig.ram.word(DATA + 0x100), 0);
    rig.push(&semaphore(DATA + 0x200, 2, 1 | 1 << 20));
    while rig.ram.word(DATA + 0x200) == 1 {
        rig.step(1);
    }
    assert_eq!(rig.ram.word(DATA + 0x100), 0x0505_0505);
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn a_channel_of_a_copy_engine_copies_on_every_subchannel() {
    let mut rig = Rig::with_engine("h100", engine::COPY0 + 2);
    rig.ram.put(DATA, &[5; 4]);
    let on_0 = |words: Vec<u32>| {
        words.into_iter().map(|word| match word >> 29 {
            1 => word & !(7 << 13),
            _ => word,
        })
    };
    let mut words = inc(0, 0, &[0xc8b5]);
    words.extend(on_0(copy(DATA, DATA + 0x100, 4, COPY)));
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!(rig.ram.word(DATA + 0x100), 0x0505_0505);
    assert_eq!(rig.broken(), [""; 0]);
    rig.go(&inc(5, 0, &[0xc8b5]));
    fires("HOST-SUBCHANNEL").only(&rig.broken());
}

#[test]
fn wrong_copies_are_named() {
    let launch = |launch| copy(DATA, DATA + 0x1000, 64, launch);
    let case = |rule: Fires, chip: &str, words: &[u32], xid: Option<u32>| {
        let rig = ran(chip, words);
        rule.only(&rig.broken());
        assert_eq!(rig.xid(), xid, "{words:#x?}");
    };
    case(
        fires("COPY-METHOD"),
        "ad102",
        &inc(4, 0x104, &[0]),
        Some(32),
    );
    case(
        fires("COPY-METHOD"),
        "ad102",
        &inc(4, 0x500, &[0]),
        Some(32),
    );
    case(
        fires("COPY-METHOD-BITS"),
        "ad102",
        &inc(4, 0x400, &[1 << 17]),
        None,
    );
    case(
        fires("COPY-METHOD-BITS"),
        "ad102",
        &launch(COPY | 1 << 20),
        None,
    );
    case(fires("COPY-LAUNCH"), "ad102", &launch(0x183), Some(39));
    case(
        fires("COPY-LAUNCH"),
        "ad102",
        &launch(COPY | 3 << 5),
        Some(39),
    );
    let reduce = FLUSH | ONE_WORD | 8 << 14 | 1 << 19;
    case(
        fires("COPY-LAUNCH"),
        "ad102",
        &release(DATA, 1, reduce),
        Some(39),
    );
    case(
        fires("COPY-PHYSICAL"),
        "h100",
        &launch(COPY | 1 << 12),
        Some(39),
    );
    case(
        fires("COPY-PHYSICAL"),
        "h100",
        &launch(COPY | 1 << 13),
        Some(39),
    );
    for wrong in [0x102, 0x82, COPY | 1 << 20, COPY | 1 << 23, FLUSH | 3 << 3] {
        case(fires("COPY-NOT-MODELLED"), "h100", &launch(wrong), Some(39));
    }
    let odd = release(DATA + 8, 1, FLUSH | FOUR_WORDS);
    case(fires("COPY-SEMAPHORE"), "ad102", &odd, None);
    let mut unflushed = launch(COPY);
    unflushed.extend(release(DATA, 1, ONE_WORD));
    case(fires("COPY-FLUSH"), "ad102", &unflushed, None);
    let mut overlap = launch(COPY);
    overlap.extend(copy(DATA + 0x103f, DATA + 0x2000, 64, PIPELINED));
    case(fires("COPY-PIPELINED"), "ad102", &overlap, None);
    let mut apart = launch(COPY);
    apart.extend(copy(DATA, DATA + 0x2000, 64, PIPELINED));
    apart.extend(copy(DATA + 0x1000, DATA + 0x3000, 64, COPY));
    assert_eq!(ran("ad102", &apart).broken(), [""; 0]);
    let read_only = copy(DATA, READ_ONLY, 4, COPY);
    case(fires("MMU-FAULT"), "ad102", &read_only, Some(31));
    case(
        fires("MMU-FAULT"),
        "ad102",
        &copy(0x10, DATA, 4, COPY),
        Some(31),
    );
    case(
        fires("MMU-FAULT"),
        "ad102",
        &release(0x10, 1, FLUSH | FOUR_WORDS),
        Some(31),
    );
}
