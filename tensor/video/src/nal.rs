//! [`Nal`]: a NAL unit, and the [`Kind`]s that there are.

use crate::error::{Error, Result};

/// `nal_unit_type`. Source: H.265, table 7-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(pub u8);

#[allow(missing_docs, reason = "the standard's names")]
impl Kind {
    pub const TRAIL_N: Kind = Kind(0);
    pub const TRAIL_R: Kind = Kind(1);
    pub const TSA_N: Kind = Kind(2);
    pub const TSA_R: Kind = Kind(3);
    pub const STSA_N: Kind = Kind(4);
    pub const STSA_R: Kind = Kind(5);
    pub const RADL_N: Kind = Kind(6);
    pub const RADL_R: Kind = Kind(7);
    pub const RASL_N: Kind = Kind(8);
    pub const RASL_R: Kind = Kind(9);
    pub const BLA_W_LP: Kind = Kind(16);
    pub const BLA_W_RADL: Kind = Kind(17);
    pub const BLA_N_LP: Kind = Kind(18);
    pub const IDR_W_RADL: Kind = Kind(19);
    pub const IDR_N_LP: Kind = Kind(20);
    pub const CRA_NUT: Kind = Kind(21);
    pub const VPS_NUT: Kind = Kind(32);
    pub const SPS_NUT: Kind = Kind(33);
    pub const PPS_NUT: Kind = Kind(34);
    pub const AUD_NUT: Kind = Kind(35);
    pub const EOS_NUT: Kind = Kind(36);
    pub const EOB_NUT: Kind = Kind(37);
    pub const FD_NUT: Kind = Kind(38);
    pub const PREFIX_SEI_NUT: Kind = Kind(39);
    pub const SUFFIX_SEI_NUT: Kind = Kind(40);
}

impl Kind {
    /// A slice segment of a kind that is defined: 0 to 9, and 16 to 21. The reserved ones are left out by decoders.
    pub fn is_slice(self) -> bool {
        matches!(self.0, 0..=9 | 16..=21)
    }

    /// Of a picture that decoding may start at, or a reserved kind of those.
    pub fn is_irap(self) -> bool {
        matches!(self.0, 16..=23)
    }

    /// Of an instantaneous decoding refresh.
    pub fn is_idr(self) -> bool {
        matches!(self, Kind::IDR_W_RADL | Kind::IDR_N_LP)
    }

    /// Of a broken link access picture.
    pub fn is_bla(self) -> bool {
        matches!(self.0, 16..=18)
    }

    /// Of a leading picture that is not decoded where decoding starts at its random access picture.
    pub fn is_rasl(self) -> bool {
        matches!(self, Kind::RASL_N | Kind::RASL_R)
    }

    /// Of a leading picture that can always be decoded.
    pub fn is_radl(self) -> bool {
        matches!(self, Kind::RADL_N | Kind::RADL_R)
    }

    /// Of a picture to which no other one of its sub-layer refers: 7.4.2.2, even numbers up to 14.
    pub fn is_sub_layer_non_reference(self) -> bool {
        self.0 <= 14 && self.0.is_multiple_of(2)
    }

    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self.0 {
            0..=31 => "slice segment",
            32 => "VPS",
            33 => "SPS",
            34 => "PPS",
            35 => "access unit delimiter",
            36 => "end of sequence",
            37 => "end of bitstream",
            38 => "filler data",
            39 | 40 => "SEI",
            _ => "reserved unit",
        }
    }
}

/// A NAL unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nal {
    /// What it is.
    pub kind: Kind,
    /// `nuh_layer_id`: 0 but for scalable and multiview streams.
    pub layer: u8,
    /// `TemporalId`, from 0.
    pub temporal: u8,
    /// The offset in the stream of its header.
    pub at: u64,
    /// Behind the two bytes of header, without emulation prevention bytes.
    pub payload: Vec<u8>,
    /// All its bytes, as they are in the stream: engines take slices so.
    pub raw: Vec<u8>,
    /// Indices of `payload` before which an emulation prevention byte was.
    escapes: Vec<usize>,
}

impl Nal {
    /// Of the bytes between two start codes, which begin at `at` in the stream.
    ///
    /// # Errors
    /// [`Error::Truncated`] without a whole header, [`Error::Corrupt`] for a header that the standard forbids.
    pub fn new(raw: Vec<u8>, at: u64) -> Result<Nal> {
        let &[first, second, ..] = &raw[..] else {
            return Err(Error::Truncated {
                unit: "NAL unit",
                element: "nal_unit_header",
                at: at + raw.len() as u64,
            });
        };
        let corrupt = |element, expected: &str, found: u8| Error::Corrupt {
            unit: "NAL unit",
            element,
            expected: expected.into(),
            found: found.into(),
            at,
        };
        if first >> 7 != 0 {
            return Err(corrupt("forbidden_zero_bit", "0", 1));
        }
        if second & 7 == 0 {
            return Err(corrupt("nuh_temporal_id_plus1", "1 to 7", 0));
        }
        let (mut payload, mut escapes) = (Vec::with_capacity(raw.len()), Vec::new());
        let mut zeros = 0;
        for &byte in &raw[2..] {
            if zeros >= 2 && byte == 3 {
                escapes.push(payload.len());
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            payload.push(byte);
        }
        Ok(Nal {
            kind: Kind(first >> 1 & 0x3f),
            layer: (first & 1) << 5 | second >> 3,
            temporal: (second & 7) - 1,
            at,
            payload,
            raw,
            escapes,
        })
    }

    /// The offset in the stream of a byte of `payload`.
    pub fn offset(&self, index: usize) -> u64 {
        let before = self.escapes.partition_point(|&escape| escape <= index);
        self.at + 2 + (index + before) as u64
    }

    /// The index in `raw` of a byte of `payload`.
    pub fn raw_index(&self, index: usize) -> usize {
        (self.offset(index) - self.at) as usize
    }
}
