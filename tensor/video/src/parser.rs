//! [`Parser`]: units to pictures.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Element;
use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::nal::{Kind, Nal};
use crate::pps::Pps;
use crate::slice::SliceHeader;
use crate::sps::Sps;
use crate::vps::Vps;

/// A picture as it is coded: all that an engine is given.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Of its slices.
    pub kind: Kind,
    /// `TemporalId`.
    pub temporal: u8,
    /// The sets that its slices name.
    pub sps: Arc<Sps>,
    /// The PPS that its slices name.
    pub pps: Arc<Pps>,
    /// Its slice segments in order.
    pub segments: Vec<Segment>,
    /// It is the first one, or the first one behind an end of sequence.
    pub begins_sequence: bool,
    /// A segment of it was left out, because its head is damaged.
    pub is_damaged: bool,
    /// The offset in the stream of its first segment.
    pub at: u64,
}

/// A slice segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its head.
    pub header: SliceHeader,
    /// The unit, as it is in the stream, without start code.
    pub bytes: Vec<u8>,
}

/// Reads units in the order of the stream.
#[derive(Default)]
pub struct Parser {
    vps: BTreeMap<u8, Arc<Vps>>,
    sps: BTreeMap<u8, Arc<Sps>>,
    pps: BTreeMap<u8, Arc<Pps>>,
    picture: Option<Picture>,
    /// A slice that a dependent segment may follow.
    slice: Option<SliceHeader>,
    /// Behind a picture, until the first unit that cannot be of it.
    began: bool,
    log: Option<Vec<Element>>,
}

impl Parser {
    /// Without parameter sets.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Notes each syntax element that is read from now on: see [`Parser::take_log`].
    #[must_use]
    pub fn logged(mut self) -> Parser {
        self.log = Some(Vec::new());
        self
    }

    /// What was noted since the last call.
    pub fn take_log(&mut self) -> Vec<Element> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The VPS of a number.
    pub fn vps(&self, id: u8) -> Option<&Arc<Vps>> {
        self.vps.get(&id)
    }

    /// Reads a unit. A picture is given when the next one begins, or something that is behind a picture; and beside it, what is
    /// wrong with this unit: damaged, cut, not supported, or it names a parameter set that is not there. Such a unit is left
    /// out; the parser goes on with the next one.
    pub fn push(&mut self, nal: &Nal) -> (Option<Picture>, Result<()>) {
        // Layers above the base are left out, as a decoder of version 1 does (F.4.1).
        if nal.layer != 0 {
            return (None, Ok(()));
        }
        match nal.kind {
            kind if kind.is_slice() => self.segment(nal),
            Kind::VPS_NUT | Kind::SPS_NUT | Kind::PPS_NUT => (self.finish(), self.parameters(nal)),
            Kind::EOS_NUT | Kind::EOB_NUT => {
                self.began = false;
                (self.finish(), Ok(()))
            }
            Kind::AUD_NUT | Kind::PREFIX_SEI_NUT => (self.finish(), Ok(())),
            _ => (None, Ok(())),
        }
    }

    /// The picture that is not given yet: at the end of the stream.
    pub fn finish(&mut self) -> Option<Picture> {
        self.slice = None;
        self.picture.take()
    }

    /// A set that is damaged, or not supported, takes the place of an older one: slices that name it are refused.
    fn parameters(&mut self, nal: &Nal) -> Result<()> {
        let log = self.log.as_mut();
        match nal.kind {
            Kind::VPS_NUT => {
                let vps = Vps::parse(nal, log)?;
                self.vps.insert(vps.id, Arc::new(vps));
            }
            Kind::SPS_NUT => {
                let sps = Sps::parse(nal, log).inspect_err(|_| {
                    let id = Sps::id_of(nal);
                    self.sps.retain(|old, _| Ok(*old) != id);
                })?;
                let same = self.sps.get(&sps.id).is_some_and(|old| **old == sps);
                if !same {
                    self.sps.insert(sps.id, Arc::new(sps));
                }
            }
            _ => {
                let pps = Pps::parse(nal, log).inspect_err(|_| {
                    let id = Pps::id_of(nal);
                    self.pps.retain(|old, _| Ok(*old) != id);
                })?;
                self.pps.insert(pps.id, Arc::new(pps));
            }
        }
        Ok(())
    }

    fn sets(&self, nal: &Nal) -> Result<(Arc<Sps>, Arc<Pps>)> {
        let missing = |set, number| Error::Missing {
            unit: nal.kind.name(),
            set,
            number,
            at: nal.at,
        };
        let number = SliceHeader::pps_of(nal)?;
        let pps = self.pps.get(&(number as u8));
        let pps = pps.ok_or_else(|| missing("PPS", number))?;
        let sps = self.sps.get(&pps.sps);
        let sps = sps.ok_or_else(|| missing("SPS", pps.sps.into()))?;
        pps.check(sps)?;
        Ok((sps.clone(), pps.clone()))
    }

    fn segment(&mut self, nal: &Nal) -> (Option<Picture>, Result<()>) {
        // The first bit of the payload is first_slice_segment_in_pic_flag.
        let first = nal.payload.first().is_some_and(|byte| byte >> 7 == 1);
        let over = if first { self.finish() } else { None };
        let read = self.header(nal, first);
        if read.is_err() {
            if let Some(picture) = &mut self.picture {
                picture.is_damaged = true;
            }
            // A dependent segment has nothing to depend on.
            self.slice = None;
        }
        (over, read)
    }

    fn header(&mut self, nal: &Nal, first: bool) -> Result<()> {
        let (sps, pps) = self.sets(nal)?;
        let corrupt = |element, expected: String, found: u8| Error::Corrupt {
            unit: nal.kind.name(),
            element,
            expected,
            found: found.into(),
            at: nal.at,
        };
        if nal.kind.is_irap() && nal.temporal != 0 {
            let expected = "1 in a random access picture".into();
            return Err(corrupt("nuh_temporal_id_plus1", expected, nal.temporal + 1));
        }
        if !first {
            let Some(picture) = &self.picture else {
                let expected = "1: the picture's first segment is missing".into();
                return Err(corrupt("first_slice_segment_in_pic_flag", expected, 0));
            };
            let same = [
                ("nal_unit_type", picture.kind.0, nal.kind.0),
                (
                    "nuh_temporal_id_plus1",
                    picture.temporal + 1,
                    nal.temporal + 1,
                ),
                ("slice_pic_parameter_set_id", picture.pps.id, pps.id),
            ];
            for (element, expected, found) in same {
                if expected != found {
                    let expected = format!("{expected}: that of the picture");
                    return Err(corrupt(element, expected, found));
                }
            }
        }
        let mut bits = Bits::new(nal, nal.kind.name(), self.log.as_mut());
        let header = SliceHeader::parse(&mut bits, nal, (&sps, &pps), self.slice.as_ref())?;
        let picture = self.picture.as_ref().filter(|_| !first);
        let ends = picture.and_then(|all| all.segments.first().zip(all.segments.last()));
        if let Some((first, last)) = ends {
            if let Some(element) = header.differs_from(&first.header) {
                let expected = "what the picture's first segment has".into();
                return Err(corrupt(element, expected, 0));
            }
            let before = last.header.address;
            if header.address <= before {
                let expected = format!("above {before}: that of the segment before");
                return Err(bits.refuse("slice_segment_address", expected, header.address.into()));
            }
        }
        if !header.dependent {
            self.slice = Some(header.clone());
        }
        if first {
            self.picture = Some(Picture {
                kind: nal.kind,
                temporal: nal.temporal,
                sps,
                pps,
                segments: Vec::new(),
                begins_sequence: !self.began,
                is_damaged: false,
                at: nal.at,
            });
            self.began = true;
        }
        if let Some(picture) = &mut self.picture {
            picture.segments.push(Segment {
                header,
                bytes: nal.raw.clone(),
            });
        }
        Ok(())
    }
}
