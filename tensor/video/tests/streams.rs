//! Streams that are written here, bit by bit: order of output, references, what is left out; and random bytes.
//!
//! Whole streams of encoders are read by `scripts/video`.

use proptest::prelude::*;
use video::{Error, Kind, Nal, Output, Parser, Picture, Pictures, Units};

/// Writes a unit.
#[derive(Default)]
struct Writer {
    bits: Vec<bool>,
}

impl Writer {
    fn u(&mut self, count: u32, value: u32) -> &mut Writer {
        self.bits
            .extend((0..count).rev().map(|i| value >> i & 1 == 1));
        self
    }

    fn ue(&mut self, value: u32) -> &mut Writer {
        let length = (value + 1).ilog2();
        self.u(length, 0).u(length + 1, value + 1)
    }

    /// The unit with its start code and emulation prevention.
    fn unit(&mut self, Kind(kind): Kind, temporal: u8) -> Vec<u8> {
        self.u(1, 1);
        while !self.bits.len().is_multiple_of(8) {
            self.u(1, 0);
        }
        let byte = |bits: &[bool]| {
            bits.iter()
                .fold(0u8, |byte, &bit| byte << 1 | u8::from(bit))
        };
        let payload: Vec<u8> = self.bits.chunks(8).map(byte).collect();
        let mut unit = vec![0, 0, 1, kind << 1, temporal + 1];
        let mut zeros = 0;
        for byte in payload {
            if zeros == 2 && byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            unit.push(byte);
        }
        unit
    }
}

fn profile(w: &mut Writer) {
    w.u(8, 1)
        .u(32, 0x6000_0000)
        .u(4, 0b1001)
        .u(32, 0)
        .u(12, 0)
        .u(8, 30);
}

/// 64x64 samples, four bits of picture order count, five pictures in the buffer, `reorder` out of order.
fn sps(reorder: u32) -> Vec<u8> {
    sps_with(64, (reorder, 0), &[])
}

/// As [`sps`], of `side` samples, with `latency_plus1`, and with sets of reference pictures as bits.
fn sps_with(side: u32, (reorder, latency_plus1): (u32, u32), sets: &[&Writer]) -> Vec<u8> {
    let mut w = Writer::default();
    w.u(4, 0).u(3, 0).u(1, 1);
    profile(&mut w);
    w.ue(0).ue(1).ue(side).ue(side).u(1, 0).ue(0).ue(0).ue(0);
    w.u(1, 1).ue(4).ue(reorder).ue(latency_plus1);
    // Blocks of 8 to 64, transforms of 4 to 32.
    w.ue(0).ue(3).ue(0).ue(3).ue(0).ue(0);
    // No scaling, AMP, SAO, PCM.
    w.u(4, 0).ue(sets.len() as u32);
    for set in sets {
        w.bits.extend(&set.bits);
    }
    // No long-term pictures, motion vectors of other pictures, smoothing, VUI, extension.
    w.u(5, 0);
    w.unit(Kind::SPS_NUT, 0)
}

fn pps() -> Vec<u8> {
    let mut w = Writer::default();
    w.ue(0)
        .ue(0)
        .u(1, 0)
        .u(1, 0)
        .u(3, 0)
        .u(1, 0)
        .u(1, 0)
        .ue(0)
        .ue(0)
        .ue(0);
    w.u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .ue(0)
        .ue(0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0);
    w.u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .ue(0)
        .u(1, 0)
        .u(1, 0);
    w.unit(Kind::PPS_NUT, 0)
}

/// A slice of intra blocks, with pictures before and behind it as distances that are kept.
fn slice(kind: Kind, lsb: u32, before: &[u32], behind: &[u32]) -> Vec<u8> {
    let mut w = Writer::default();
    w.u(1, 1);
    if kind.is_irap() {
        w.u(1, 0);
    }
    w.ue(0).ue(2);
    if !kind.is_idr() {
        w.u(4, lsb)
            .u(1, 0)
            .ue(before.len() as u32)
            .ue(behind.len() as u32);
        for set in [before, behind] {
            let mut last = 0;
            for &distance in set {
                w.ue(distance - last - 1).u(1, 1);
                last = distance;
            }
        }
    }
    w.ue(0);
    with_data(&mut w, kind)
}

/// The unit of a slice's head, with a byte that stands for its blocks.
fn with_data(w: &mut Writer, kind: Kind) -> Vec<u8> {
    w.u(1, 1);
    while !w.bits.len().is_multiple_of(8) {
        w.u(1, 0);
    }
    w.u(8, 0x55).unit(kind, 0)
}

fn pictures(stream: &[u8]) -> Vec<Picture> {
    let mut parser = Parser::new();
    let mut all = Vec::new();
    for unit in Units::new(stream) {
        let (over, read) = parser.push(&unit.expect("a whole stream"));
        read.expect("a whole stream");
        all.extend(over);
    }
    all.extend(parser.finish());
    all
}

/// The counts of all pictures in the order of output, and of those that are left out.
fn order(stream: &[u8]) -> (Vec<i32>, Vec<i32>) {
    let (mut buffer, mut shown, mut left_out) = (Pictures::new(), Vec::new(), Vec::new());
    let poc = |output: Output| output.poc;
    for picture in pictures(stream) {
        let begun = buffer.begin(&picture).expect("a whole stream");
        shown.extend(begun.outputs.iter().copied().map(poc));
        left_out.extend(begun.slot.is_none().then_some(begun.poc));
        let missing = begun
            .before
            .iter()
            .chain(&begun.after)
            .any(|r| r.slot.is_none());
        assert!(!missing, "{begun:?}");
        shown.extend(buffer.end(&picture).into_iter().map(poc));
    }
    shown.extend(buffer.flush().into_iter().map(poc));
    (shown, left_out)
}

#[test]
fn pictures_are_output_in_order_of_their_counts() {
    let stream = [
        sps(2),
        pps(),
        slice(Kind::IDR_W_RADL, 0, &[], &[]),
        slice(Kind::TRAIL_R, 4, &[4], &[]),
        slice(Kind::TRAIL_R, 2, &[2], &[2]),
        slice(Kind::TRAIL_N, 1, &[1], &[1, 3]),
        slice(Kind::TRAIL_N, 3, &[1], &[1]),
        // The low bits begin anew after 15.
        slice(Kind::TRAIL_R, 10, &[6], &[]),
        slice(Kind::TRAIL_R, 1, &[7], &[]),
        slice(Kind::IDR_N_LP, 0, &[], &[]),
    ]
    .concat();
    assert_eq!(order(&stream), (vec![0, 1, 2, 3, 4, 10, 17, 0], vec![]));
}

#[test]
fn leading_pictures_of_the_first_random_access_picture_are_left_out() {
    let stream = [
        sps(1),
        pps(),
        slice(Kind::CRA_NUT, 8, &[], &[]),
        slice(Kind::RASL_N, 6, &[2], &[2]),
        slice(Kind::RADL_N, 7, &[], &[1]),
        slice(Kind::TRAIL_R, 9, &[1], &[]),
    ]
    .concat();
    assert_eq!(order(&stream), (vec![7, 8, 9], vec![6]));
}

#[test]
fn a_stream_begins_at_a_random_access_picture() {
    let stream = [sps(0), pps(), slice(Kind::TRAIL_R, 1, &[1], &[])].concat();
    let begun = Pictures::new().begin(&pictures(&stream)[0]);
    assert!(matches!(begun, Err(Error::NotStarted { .. })), "{begun:?}");
    let slice = slice(Kind::IDR_W_RADL, 0, &[], &[]);
    let unit = Units::new(&slice[..]).next().unwrap().unwrap();
    let refused = Parser::new().push(&unit).1.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stream offset 3: slice segment: PPS 0 has not come before it: start at a random access point whose parameter sets are there"
    );
}

/// What is said of each unit of a stream, and the counts of pictures that are given.
fn read(stream: &[u8]) -> (Vec<String>, Vec<u32>) {
    let (mut parser, mut errors, mut all) = (Parser::new(), Vec::new(), Vec::new());
    for unit in Units::new(stream) {
        let (over, read) = parser.push(&unit.expect("a unit"));
        all.extend(over);
        errors.extend(read.err().map(|error| error.to_string()));
    }
    all.extend(parser.finish());
    let lsb = |picture: &Picture| picture.segments[0].header.poc_lsb;
    (errors, all.iter().map(lsb).collect())
}

#[test]
fn pictures_before_the_first_random_access_picture_are_refused() {
    let stream = [
        sps(1),
        pps(),
        slice(Kind::TRAIL_R, 1, &[1], &[]),
        slice(Kind::TRAIL_R, 2, &[1], &[]),
        slice(Kind::CRA_NUT, 8, &[], &[]),
        slice(Kind::RASL_N, 6, &[2], &[2]),
        slice(Kind::TRAIL_R, 9, &[1], &[]),
    ]
    .concat();
    let (mut buffer, mut seen) = (Pictures::new(), Vec::new());
    for picture in pictures(&stream) {
        let begun = buffer.begin(&picture);
        seen.push(begun.map(|begun| (begun.poc, begun.slot.is_some())).ok());
        buffer.end(&picture);
    }
    assert_eq!(
        seen,
        [
            None,
            None,
            Some((8, true)),
            Some((6, false)),
            Some((9, true))
        ]
    );
}

#[test]
fn a_bad_unit_takes_no_picture_with_it() {
    let mut cut = sps(0);
    cut.truncate(cut.len() - 2);
    let mut bad = slice(Kind::TRAIL_R, 3, &[1], &[]);
    // The PPS's number is in these bits.
    bad[5] = 0x80;
    let stream = [
        sps(0),
        pps(),
        slice(Kind::IDR_W_RADL, 0, &[], &[]),
        bad,
        slice(Kind::TRAIL_R, 2, &[2], &[]),
        cut,
        slice(Kind::TRAIL_R, 4, &[2], &[]),
    ]
    .concat();
    let (errors, given) = read(&stream);
    assert_eq!(given, [0, 2], "{errors:?}");
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[1].contains("the SPS ends within"), "{errors:?}");
    assert!(errors[2].contains("SPS 0 has not come"), "{errors:?}");
}

#[test]
fn an_sps_changes_where_a_sequence_begins() {
    let other = [
        sps(0),
        pps(),
        slice(Kind::IDR_W_RADL, 0, &[], &[]),
        sps_with(128, (0, 0), &[]),
        slice(Kind::TRAIL_R, 1, &[1], &[]),
        slice(Kind::IDR_W_RADL, 0, &[], &[]),
    ]
    .concat();
    let (mut buffer, mut seen) = (Pictures::new(), Vec::new());
    for picture in pictures(&other) {
        seen.push(buffer.begin(&picture).is_ok());
        buffer.end(&picture);
    }
    assert_eq!(seen, [true, false, true]);
}

/// A set from the one before it: worked out by hand from equations 7-61 and 7-62.
#[test]
fn sets_of_reference_pictures_are_made_of_others() {
    let (mut plain, mut made) = (Writer::default(), Writer::default());
    // 1 and 3 before, 2 behind.
    plain.ue(2).ue(1).ue(0).u(1, 1).ue(1).u(1, 1).ue(1).u(1, 1);
    // Moved by -1: -2 is used, -4 is kept, 1 is not, and -1 is used.
    made.u(1, 1).u(1, 1).ue(0);
    made.u(1, 1).u(2, 0b01).u(2, 0b00).u(1, 1);
    let stream = [sps_with(64, (2, 0), &[&plain, &made]), pps()].concat();
    let mut w = Writer::default();
    // The second set of two, by its number.
    w.u(1, 1).ue(0).ue(2).u(4, 5).u(1, 1).u(1, 1).ue(0);
    let stream = [stream, with_data(&mut w, Kind::TRAIL_R)].concat();
    let header = &pictures(&stream)[0].segments[0].header;
    let set = |set: &[video::Delta]| set.iter().map(|d| (d.poc, d.is_used)).collect::<Vec<_>>();
    let (before, after) = (
        set(&header.short_term.before),
        set(&header.short_term.after),
    );
    assert_eq!(before, [(-1, true), (-2, true), (-4, false)]);
    assert_eq!(after, []);
}

/// A picture is output once as many came behind it as `sps_max_latency_increase_plus1` allows.
#[test]
fn no_picture_waits_for_longer_than_it_may() {
    let stream = |latency_plus1| {
        [
            sps_with(64, (1, latency_plus1), &[]),
            pps(),
            slice(Kind::IDR_W_RADL, 0, &[], &[]),
            slice(Kind::TRAIL_R, 3, &[3], &[]),
            slice(Kind::TRAIL_N, 1, &[1], &[2]),
        ]
        .concat()
    };
    // After each picture, those that are output.
    let seen = |stream: &[u8]| {
        let mut buffer = Pictures::new();
        let shown = pictures(stream).into_iter().map(|picture| {
            buffer.begin(&picture).expect("a whole stream");
            buffer
                .end(&picture)
                .iter()
                .map(|output| output.poc)
                .collect()
        });
        shown.collect::<Vec<Vec<i32>>>()
    };
    assert_eq!(seen(&stream(0)), [vec![], vec![0], vec![1]]);
    // SpsMaxLatencyPictures is 1: 3 has waited behind one that is output before it.
    assert_eq!(seen(&stream(1)), [vec![], vec![0], vec![1, 3]]);
}

#[test]
fn what_is_cut_says_where() {
    let whole = sps(0);
    for len in 5..whole.len() - 1 {
        let unit = Units::new(&whole[..len]).next().unwrap();
        let read = unit.and_then(|unit| Parser::new().push(&unit).1);
        let error = read.expect_err("a cut unit");
        // Zeros at the end of a unit are not of it.
        let end = whole[..len]
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        assert!(
            matches!(error, Error::Truncated { at, .. } if at == end as u64),
            "{error}"
        );
    }
}

proptest! {
    /// No bytes make the parser or the buffer panic.
    #[test]
    fn any_bytes_are_read(
        kinds in prop::collection::vec((0u8..41, prop::collection::vec(any::<u8>(), 0..80)), 0..12),
        flips in prop::collection::vec((0usize..400, 0u8..8), 0..6),
    ) {
        let mut stream = [sps(2), pps(), slice(Kind::IDR_W_RADL, 0, &[], &[]), slice(Kind::TRAIL_R, 2, &[2], &[])].concat();
        let len = stream.len();
        for (at, bit) in flips {
            stream[at % len] ^= 1 << bit;
        }
        for (kind, payload) in kinds {
            stream.extend([0, 0, 1, kind << 1, 1]);
            stream.extend(payload);
        }
        let (mut parser, mut buffer) = (Parser::new(), Pictures::new());
        let mut show = |picture: Picture| {
            if let Ok(begun) = buffer.begin(&picture) {
                for segment in &picture.segments {
                    begun.lists(&segment.header);
                }
                buffer.end(&picture);
            }
        };
        for unit in Units::new(&stream[..]).flatten() {
            if let (Some(picture), _) = parser.push(&unit) {
                show(picture);
            }
        }
        parser.finish().map(show);
    }

    /// Emulation prevention: payload and offsets are those of the stream.
    #[test]
    fn payloads_come_back(payload in prop::collection::vec(0u8..5, 1..60)) {
        let mut w = Writer::default();
        for &byte in &payload {
            w.u(8, byte.into());
        }
        let stream = w.unit(Kind::PREFIX_SEI_NUT, 0);
        let unit: Nal = Units::new(&stream[..]).next().unwrap().unwrap();
        prop_assert_eq!(&unit.payload[..payload.len()], &payload[..]);
        for (i, byte) in unit.payload.iter().enumerate() {
            prop_assert_eq!(stream[unit.offset(i) as usize], *byte);
        }
    }
}
