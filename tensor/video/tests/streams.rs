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
    let mut w = Writer::default();
    w.u(4, 0).u(3, 0).u(1, 1);
    profile(&mut w);
    w.ue(0).ue(1).ue(64).ue(64).u(1, 0).ue(0).ue(0).ue(0);
    w.u(1, 1).ue(4).ue(reorder).ue(0);
    // Blocks of 8 to 64, transforms of 4 to 32.
    w.ue(0).ue(3).ue(0).ue(3).ue(0).ue(0);
    // No scaling, AMP, SAO, PCM, sets, long-term pictures, motion vectors of other pictures, smoothing, VUI, extension.
    w.u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .ue(0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0)
        .u(1, 0);
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
    w.unit(kind, 0)
}

fn pictures(stream: &[u8]) -> Vec<Picture> {
    let mut parser = Parser::new();
    let mut all = Vec::new();
    for unit in Units::new(stream) {
        all.extend(
            parser
                .push(&unit.expect("a whole stream"))
                .expect("a whole stream"),
        );
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
    assert!(
        matches!(
            begun,
            Err(Error::Missing {
                set: "random access picture",
                ..
            })
        ),
        "{begun:?}"
    );
    let slice = slice(Kind::IDR_W_RADL, 0, &[], &[]);
    let unit = Units::new(&slice[..]).next().unwrap().unwrap();
    let refused = Parser::new().push(&unit).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stream offset 3: slice segment: PPS 0 has not come before it: start at a random access point whose parameter sets are there"
    );
}

#[test]
fn what_is_cut_says_where() {
    let whole = sps(0);
    for len in 5..whole.len() - 1 {
        let unit = Units::new(&whole[..len]).next().unwrap();
        let read = unit.and_then(|unit| Parser::new().push(&unit));
        let error = read.expect_err("a cut unit").to_string();
        assert!(error.contains("stream offset"), "{error}");
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
            if let Ok(Some(picture)) = parser.push(&unit) {
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
