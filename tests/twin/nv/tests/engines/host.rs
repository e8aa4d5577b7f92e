//! The host: rings, headers, its methods.

use twin::fires::fires;
use twin_nv::engines::{Notice, Turn, stuck};

use super::rig::{
    DATA, ENTRIES, PLAIN, PUSH, READ_ONLY, RING, Rig, header, inc, non_inc, semaphore,
};

/// Words of SEM_EXECUTE.
const RELEASE: u32 = 1;
const WFI: u32 = 1 << 20;
const WIDE: u32 = 1 << 24;
const TIMED: u32 = 1 << 25;

#[test]
fn releases_and_acquires_are_those_of_the_manual() {
    let mut rig = Rig::new("ad102");
    let wide = 0x1122_3344_5566_7788;
    rig.go(&semaphore(DATA, wide, RELEASE | WFI | WIDE | TIMED));
    assert_eq!((rig.ram.long(DATA), rig.gp_get()), (wide, 1));
    assert!(rig.ram.long(DATA + 8) > 0);
    // A payload of 32 bits with a time writes zeros above it; without one, nothing.
    rig.go(&semaphore(DATA, wide, RELEASE | TIMED));
    assert_eq!(rig.ram.long(DATA), 0x5566_7788);
    rig.ram.put(DATA + 4, &[9; 4]);
    rig.go(&semaphore(DATA, 5, RELEASE));
    assert_eq!(rig.ram.long(DATA), 0x0909_0909_0000_0005);
    let holds = |rig: &mut Rig, held: u64, payload, execute| {
        rig.ram.put(DATA, &held.to_le_bytes());
        let turn = rig.go(&semaphore(DATA, payload, execute));
        let waits = turn == Turn::Waits;
        assert_eq!(waits, rig.channel.waits_for().is_some());
        if waits {
            // It goes on when the word changes. Nothing else of the channel has run.
            for value in [payload, !payload, u64::MAX, 0] {
                rig.ram.put(DATA, &value.to_le_bytes());
                if rig.run() == Turn::Idle {
                    break;
                }
            }
        }
        assert_eq!(rig.run(), Turn::Idle);
        !waits
    };
    let top = 1 << 63;
    for (held, payload, execute, wants) in [
        (5, 5, 0, true),
        (6, 5, 0, false),
        (5 | 1 << 40, 5, 0, true),
        (5 | 1 << 40, 5, WIDE, false),
        (6, 5, 2, true),
        (4, 5, 2, false),
        (0xffff_ffff, 5, 2, true),
        (6, 5, 3, true),
        (4, 5, 3, false),
        (0x8000_0004, 5, 3, true),
        (0x8000_0005, 5, 3, false),
        (2, 0xffff_fffe, 3, true),
        (top + 4, 5, 3 | WIDE, true),
        (top + 5, 5, 3 | WIDE, false),
        (0x14, 0x10, 4, true),
        (0x0f, 0x10, 4, false),
        (0x0f, !0x10, 5, true),
        (0x10, !0x10, 5, false),
        (5, 5, 0x1000, true),
    ] {
        let found = holds(&mut rig, held, payload, execute);
        assert_eq!(found, wants, "{held:#x} {payload:#x} {execute:#x}");
    }
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn reductions_change_what_is_there() {
    let mut rig = Rig::new("h100");
    rig.ram.put(DATA, &10u64.to_le_bytes());
    let unsigned = 1 << 31;
    for (operation, payload, after) in [
        (5, 7, 17),
        (0, 3, 3),
        (1, 9, 9),
        (2, 1, 8),
        (4, 3, 11),
        (3, 6, 2),
        (6, 2, 0),
        (7, 4, 4),
    ] {
        rig.go(&semaphore(DATA, payload, 6 | operation << 27 | unsigned));
        assert_eq!(rig.ram.long(DATA), after, "{operation}");
    }
    rig.go(&semaphore(DATA, u64::MAX, 6 | 1 << 27 | WIDE));
    assert_eq!(rig.ram.long(DATA), 4, "signed");
    assert_eq!(rig.broken(), [""; 0]);
    rig.go(&semaphore(PLAIN, 1, 6 | 5 << 27 | unsigned));
    fires("MMU-FAULT").only(&rig.broken());
    assert_eq!(rig.xid(), Some(31));
}

#[test]
fn headers_make_methods() {
    let mut rig = Rig::new("ga102");
    // The same by each kind of header: an address, a payload, what to do.
    let mut words = inc(0, 0x5c, &[DATA as u32, 0, 7, 0]);
    words.extend(header(4, 0, 0x6c, &[]).iter().map(|word| word | 1 << 16));
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!(rig.ram.word(DATA), 7);
    // Once: the second and third words go to the same address.
    let mut words = header(5, 0, 0x68, &[0, RELEASE, RELEASE]);
    words.splice(0..0, inc(3, 0x5c, &[DATA as u32 + 16, 0, 8]));
    words.extend(non_inc(0, 0x08, &[1, 2, 3]));
    words.extend([0, 0x2000_0000, 0x6000_ffff]);
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!(rig.ram.word(DATA + 16), 8);
    // What follows the end of a segment is not looked at; data may come in the next one.
    rig.push(&[7 << 29, 0xffff_ffff]);
    rig.push(&[inc(0, 0x5c, &[0; 5])[0], DATA as u32 + 32]);
    assert_eq!(rig.run(), Turn::Idle);
    assert_eq!(rig.go(&[0, 9, 0, RELEASE]), Turn::Idle);
    assert_eq!(rig.ram.word(DATA + 32), 9);
    // A mask without this subdevice hides methods, not headers.
    let mut words = vec![2 << 16 | 1 << 4, 1 << 16 | 2 << 4];
    words.extend(semaphore(DATA, 1, RELEASE));
    words.push(3 << 16);
    words.extend(semaphore(DATA + 16, 2, RELEASE));
    assert_eq!(rig.go(&words), Turn::Idle);
    assert_eq!((rig.ram.word(DATA), rig.ram.word(DATA + 16)), (7, 2));
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn the_ring_wraps() {
    let mut rig = Rig::new("gb202");
    for i in 1..=3 * ENTRIES {
        assert_eq!(
            rig.go(&semaphore(DATA, i.into(), RELEASE)),
            Turn::Idle,
            "{i}"
        );
        assert_eq!((rig.ram.word(DATA), rig.gp_get()), (i, i % ENTRIES));
    }
    // Segments above 2^40 need a base, which only newer chips have.
    let mut rig = Rig::new("h100");
    let high = 1 << 44 | PUSH;
    rig.ram.map(high, 0x1000, twin_nv::space::Rights::ReadOnly);
    let words = semaphore(DATA, 5, RELEASE);
    rig.ram.put_words(high, &words);
    rig.entry(4 << 32 | (high >> 40) << 8);
    rig.entry(high & 0xff_ffff_ffff | (words.len() as u64) << 42 | 1 << 63);
    assert_eq!(rig.run(), Turn::Idle);
    assert_eq!((rig.ram.word(DATA), rig.broken()), (5, vec![]));
}

#[test]
fn others_are_told() {
    let mut rig = Rig::new("ad102");
    let mut words = inc(0, 0x20, &[0]);
    words.extend(inc(0, 0x50, &[0x77]));
    words.extend(inc(0, 0x80, &[3]));
    words.extend(inc(0, 0x78, &[1]));
    words.extend(inc(0, 0x28, &[0, 0, 0, 5 << 27]));
    words.extend(inc(0, 0x28, &[0, 0, 0, 16 << 27]));
    rig.push(&words);
    assert_eq!(rig.run(), Turn::Idle);
    assert_eq!(rig.notices(), [Notice::Host]);
    assert_eq!(rig.userd.word(0x48), 0x77);
    assert_eq!(rig.broken(), [""; 0]);
}

#[test]
fn a_channel_takes_turns() {
    let mut rig = Rig::new("ad102");
    rig.push(&non_inc(0, 0x08, &[0; 100]));
    let mut turns = 0;
    while rig.step(10) == Turn::Ran {
        turns += 1;
    }
    assert_eq!(turns, 10);
}

#[test]
fn an_acquire_that_nobody_satisfies_is_named() {
    let mut rig = Rig::new("ad102");
    assert_eq!(rig.go(&semaphore(DATA, 3, 3)), Turn::Waits);
    assert_eq!(rig.broken(), [""; 0]);
    stuck(&rig.machine, [&rig.channel]);
    fires("HOST-DEADLOCK").only(&rig.broken());
    rig.ram.put_words(DATA, &[4]);
    assert_eq!(rig.run(), Turn::Idle);
}

/// What a channel does with a push buffer that is wrong.
fn after(chip: &str, words: &[u32]) -> (Vec<&'static str>, Option<u32>) {
    let mut rig = Rig::new(chip);
    let turn = rig.go(words);
    assert_eq!(turn == Turn::Dead, rig.xid().is_some());
    if turn == Turn::Dead {
        // It takes no more work.
        rig.push(&semaphore(DATA, 1, RELEASE));
        assert_eq!((rig.run(), rig.ram.word(DATA)), (Turn::Dead, 0));
    }
    (rig.broken(), rig.xid())
}

#[test]
fn wrong_words_are_named() {
    let dies = Some(32);
    for word in [2 << 29, 6 << 29, 0x0000_1000, inc(0, 0x3ffc, &[0, 0])[0]] {
        let (broken, xid) = after("ad102", &[word, 0, 0]);
        fires("HOST-PB-ENTRY").only(&broken);
        assert_eq!(xid, dies, "{word:#x}");
    }
    let (broken, xid) = after("ad102", &[inc(0, 0x08, &[0])[0] | 1 << 12, 0]);
    fires("HOST-PB-RESERVED").only(&broken);
    assert_eq!(xid, None);
    let tlb = inc(0, 0x28, &[0, 0, 0, 9 << 27]);
    for words in [
        inc(0, 0x04, &[0]),
        inc(0, 0x84, &[0]),
        inc(0, 0x40, &[0]),
        tlb,
    ] {
        let (broken, xid) = after("h100", &words);
        fires("HOST-METHOD").only(&broken);
        assert_eq!(xid, dies, "{words:#x?}");
    }
    let (broken, xid) = after("ad102", &inc(0, 0x78, &[2]));
    fires("HOST-METHOD-BITS").only(&broken);
    assert_eq!(xid, None);
    let incomplete = inc(0, 0x34, &[5 << 27]);
    let unclean = inc(0, 0x28, &[1, 0, 0, 5 << 27]);
    let no_barrier = inc(0, 0x28, &[0, 0, 2, 5 << 27]);
    for words in [incomplete, unclean, no_barrier] {
        let (broken, xid) = after("ad102", &words);
        fires("HOST-MEM-OP").only(&broken);
        assert_eq!(xid, None);
    }
    let (broken, _) = after("ad102", &inc(0, 0x28, &[0, 0, 0, 1 << 27]));
    fires("HOST-METHOD-NOT-MODELLED").only(&broken);
}

#[test]
fn wrong_semaphores_are_named() {
    let dies = Some(32);
    let unsigned = 1 << 31;
    for (va, execute) in [
        (DATA + 4, RELEASE | WIDE),
        (DATA + 8, RELEASE | TIMED),
        (DATA + 4, WIDE),
        (DATA, 7),
        (DATA, 6 | 8 << 27 | unsigned),
        (DATA, 6 | 6 << 27),
        (DATA, 6 | 5 << 27 | WIDE),
        (DATA, 6 | 7 << 27 | WIDE | unsigned),
    ] {
        let (broken, xid) = after("ad102", &semaphore(va, 0, execute));
        fires("HOST-SEMAPHORE").only(&broken);
        assert_eq!(xid, dies, "{execute:#x}");
    }
    for execute in [RELEASE | 1 << 12, RELEASE | unsigned, WFI, TIMED | 3] {
        let (broken, xid) = after("ad102", &semaphore(DATA, 0, execute));
        fires("HOST-SEMAPHORE-BITS").only(&broken);
        assert_eq!(xid, None, "{execute:#x}");
    }
    for (va, execute) in [(0x10, 0), (0x10, RELEASE), (READ_ONLY, RELEASE | TIMED)] {
        let (broken, xid) = after("ad102", &semaphore(va, 0, execute));
        fires("MMU-FAULT").only(&broken);
        assert_eq!(xid, Some(31));
    }
}

/// SEMAPHOREA to SEMAPHORED.
fn older(va: u64, payload: u32, operation: u32) -> Vec<u32> {
    let words = [(va >> 32) as u32, va as u32, payload, operation];
    inc(0, 0x10, &words)
}

#[test]
fn semaphores_have_older_methods() {
    // Of Linux's nouveau: with a time, when the engine is idle; and the wait for it.
    let mut rig = Rig::new("ga102");
    rig.go(&older(DATA, 7, 2));
    assert_eq!(rig.ram.long(DATA), 7);
    assert!(rig.ram.long(DATA + 8) > 0);
    assert_eq!(rig.go(&older(DATA, 6, 4 | 1 << 12)), Turn::Idle);
    rig.ram.put(DATA + 4, &[9; 4]);
    rig.go(&older(DATA, 5, 2 | 1 << 20 | 1 << 24));
    assert_eq!(rig.ram.long(DATA), 0x0909_0909_0000_0005);
    rig.go(&older(DATA, 3, 0x10 | 1 << 24 | 5 << 27 | 1 << 31));
    assert_eq!(rig.ram.long(DATA) as u32, 8);
    assert_eq!(rig.go(&older(DATA, 8, 1)), Turn::Idle);
    assert_eq!(rig.go(&older(DATA, 9, 1)), Turn::Waits);
    assert_eq!(rig.broken(), [""; 0]);
    for (va, operation, rule, xid) in [
        (DATA, 3, "HOST-SEMAPHORE", Some(32)),
        (DATA + 4, 2, "HOST-SEMAPHORE", Some(32)),
        (DATA, 2 | 1 << 12, "HOST-SEMAPHORE-BITS", None),
        (DATA + 1, 2 | 1 << 24, "HOST-METHOD-BITS", None),
        (DATA | 1 << 40, 2 | 1 << 24, "HOST-METHOD-BITS", None),
    ] {
        let (broken, found) = after("ad102", &older(va, 0, operation));
        fires(rule).only(&broken);
        assert_eq!(found, xid, "{operation:#x}");
    }
    // Hopper has them no more.
    let (rule, (broken, found)) = ("HOST-METHOD", after("h100", &older(DATA, 7, 2)));
    fires(rule).only(&broken);
    assert_eq!(found, Some(32));
}

#[test]
fn subchannels_have_engines() {
    let dies = Some(32);
    let copy = 0xc7b5;
    for words in [
        inc(0, 0x00, &[0xc797]),
        inc(5, 0x00, &[copy]),
        inc(2, 0x100, &[0]),
    ] {
        let (broken, xid) = after("ad102", &words);
        fires("HOST-SUBCHANNEL").only(&broken);
        assert_eq!(xid, dies, "{words:#x?}");
    }
    for words in [inc(4, 0x00, &[0xc8b5]), inc(1, 0x00, &[copy])] {
        let (broken, xid) = after("ad102", &words);
        fires("HOST-SET-OBJECT").only(&broken);
        assert_eq!(xid, dies);
    }
    let (broken, xid) = after("ad102", &inc(4, 0x100, &[0]));
    fires("HOST-OBJECT-FIRST").only(&broken);
    assert_eq!(xid, dies);
}

#[test]
fn wrong_entries_are_named() {
    let one = 1 << 42 | PUSH;
    let run = |chip: &str, bits: u64| {
        let mut rig = Rig::new(chip);
        rig.entry(bits);
        rig.run();
        (rig.broken(), rig.xid())
    };
    let last = 1 << 42 | 0xff_ffff_fffc;
    let base = 4 << 32 | 1 << 8;
    for (chip, bits) in [
        ("ad102", 1 << 32),
        ("ad102", base),
        ("ad102", last),
        ("h100", 5 << 32),
    ] {
        let (broken, xid) = run(chip, bits);
        fires("HOST-GP-ENTRY").only(&broken);
        assert_eq!(xid, Some(32), "{bits:#x}");
    }
    for (chip, bits) in [
        ("ad102", one | 2),
        ("ad102", one | 1 << 40),
        ("h100", 4 << 32 | 1),
    ] {
        let (broken, xid) = run(chip, bits);
        fires("HOST-GP-RESERVED").only(&broken);
        assert_eq!(xid, None, "{bits:#x}");
    }
    let (broken, _) = run("ad102", 2 << 32);
    fires("HOST-GP-CRC-NOT-MODELLED").only(&broken);
    let (broken, xid) = run("ad102", 1 << 42 | 0x1000);
    fires("MMU-FAULT").only(&broken);
    assert_eq!(xid, Some(31));
    // The ring itself.
    let mut rig = Rig::new("ad102");
    rig.ram.map(RING, 0x1000, twin_nv::space::Rights::ReadOnly);
    assert_eq!(rig.go(&semaphore(DATA, 1, RELEASE)), Turn::Idle);
}
