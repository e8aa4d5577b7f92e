//! [`Pictures`]: picture order counts, reference pictures, and the order of output.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::nal::Kind;
use crate::parser::Picture;
use crate::slice::{SliceHeader, SliceType};
use crate::sps::Sps;

/// The decoded picture buffer, by what is known before samples are decoded.
///
/// Source: H.265, 8.1.3, 8.3.1, 8.3.2, 8.3.4 and C.5.2.
#[derive(Debug, Default)]
pub struct Pictures {
    buffer: Vec<Entry>,
    /// `prevTid0Pic`'s picture order count.
    previous: i32,
    /// Of the last random access picture: `NoRaslOutputFlag`.
    no_rasl_output: bool,
    /// A random access picture has come since the start or the last end of sequence.
    started: bool,
    /// The SPS of the sequence: it changes at a random access picture that begins one.
    sps: Option<Arc<Sps>>,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Unused,
    Short,
    Long,
}

#[derive(Clone, Debug)]
struct Entry {
    slot: usize,
    number: u64,
    poc: i32,
    mark: Mark,
    /// Needed for output.
    is_needed: bool,
    latency: u32,
}

/// A picture whose turn to be shown has come. Its surface may be overwritten by the next picture that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its surface.
    pub slot: usize,
    /// The how many-th picture of the stream it is, in decoding order, from 0.
    pub number: u64,
    /// `PicOrderCntVal`.
    pub poc: i32,
}

/// A picture that the current one may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its surface; none where it is not there: the stream is damaged, or began behind it.
    pub slot: Option<usize>,
    /// `PicOrderCntVal`; of a long-term picture that is not there, what is known of it.
    pub poc: i32,
    /// It is a long-term reference picture.
    pub is_long_term: bool,
}

/// A picture that is to be decoded, or left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// The surface to decode into; none for a picture that is left out (RASL where decoding began at its random access picture).
    pub slot: Option<usize>,
    /// The how many-th picture of the stream it is, from 0.
    pub number: u64,
    /// `PicOrderCntVal`.
    pub poc: i32,
    /// `RefPicSetStCurrBefore`.
    pub before: Vec<Reference>,
    /// `RefPicSetStCurrAfter`.
    pub after: Vec<Reference>,
    /// `RefPicSetLtCurr`.
    pub long_term: Vec<Reference>,
    /// What is shown before it is decoded.
    pub outputs: Vec<Output>,
}

impl References {
    /// `RefPicList0` and `RefPicList1` of a slice. Source: H.265, 8.3.4.
    pub fn lists(&self, header: &SliceHeader) -> [Vec<Reference>; 2] {
        let order = [
            [&self.before, &self.after, &self.long_term],
            [&self.after, &self.before, &self.long_term],
        ];
        let used: usize = order[0].iter().map(|set| set.len()).sum();
        let list = |list: usize| {
            let count = usize::from(header.num_ref_idx[list]);
            let unused = match header.kind {
                SliceType::I => true,
                SliceType::P => list == 1,
                SliceType::B => false,
            };
            if unused || used == 0 {
                return Vec::new();
            }
            let all: Vec<Reference> = order[list].into_iter().flatten().copied().collect();
            match &header.list_entries[list] {
                Some(entries) => {
                    let picked = entries
                        .iter()
                        .filter_map(|&entry| all.get(usize::from(entry)));
                    picked.copied().collect()
                }
                None => all.iter().copied().cycle().take(count).collect(),
            }
        };
        [list(0), list(1)]
    }
}

impl Pictures {
    /// An empty buffer, at the start of a stream.
    pub fn new() -> Pictures {
        Pictures::default()
    }

    /// Surfaces that a stream of this SPS needs: those of the buffer, and the current one.
    pub fn slots(sps: &Sps) -> usize {
        sps.highest_order().buffering as usize + 1
    }

    /// Begins a picture: everything that is to be known before it is decoded.
    ///
    /// # Errors
    /// [`Error::NotStarted`] where no random access picture came before it; [`Error::Corrupt`] for another SPS within a sequence.
    pub fn begin(&mut self, picture: &Picture) -> Result<References> {
        let Some(header) = picture.segments.first().map(|segment| &segment.header) else {
            return Err(Error::Truncated {
                unit: "picture",
                element: "slice_segment_header",
                at: picture.at,
            });
        };
        self.started &= !picture.begins_sequence;
        let number = self.number;
        self.number += 1;
        let kind = picture.kind;
        if kind.is_irap() {
            self.no_rasl_output = kind.is_idr() || kind.is_bla() || !self.started;
            self.started = true;
        } else if !self.started {
            return Err(Error::NotStarted { at: picture.at });
        }
        let restarts = kind.is_irap() && self.no_rasl_output;
        self.activate(picture, restarts)?;
        let poc = self.order_count(picture, header, restarts);
        if kind.is_rasl() && self.no_rasl_output {
            return Ok(References {
                number,
                poc,
                ..References::default()
            });
        }
        let mut outputs = Vec::new();
        let mut references = References {
            number,
            poc,
            ..References::default()
        };
        if restarts {
            for entry in &mut self.buffer {
                entry.mark = Mark::Unused;
            }
            // C.5.2.2: of a CRA picture it is 1 whatever the slice says.
            let drops = kind == Kind::CRA_NUT || header.no_output_of_prior_pics;
            if number > 0 && !drops {
                while self.bump(&mut outputs) {}
            }
            self.buffer.clear();
        } else {
            self.derive(&mut references, header, &picture.sps);
            self.make_room(&picture.sps, &mut outputs);
        }
        let taken = |slot: &usize| self.buffer.iter().any(|entry| entry.slot == *slot);
        let slot = (0..).find(|slot| !taken(slot));
        references.slot = slot;
        references.outputs = outputs;
        self.buffer.push(Entry {
            slot: slot.unwrap_or_default(),
            number,
            poc,
            mark: Mark::Short,
            is_needed: false,
            latency: 0,
        });
        Ok(references)
    }

    /// The picture that was begun is decoded: what is shown now.
    pub fn end(&mut self, picture: &Picture) -> Vec<Output> {
        let header = picture.segments.first().map(|segment| &segment.header);
        let is_output = header.is_some_and(|header| header.output);
        let left_out = picture.kind.is_rasl() && self.no_rasl_output;
        let mut outputs = Vec::new();
        if left_out || self.buffer.is_empty() {
            return outputs;
        }
        let current = self.buffer.len() - 1;
        let poc = self.buffer[current].poc;
        if is_output {
            // C.5.2.3.
            for entry in &mut self.buffer[..current] {
                if entry.is_needed && entry.poc > poc {
                    entry.latency += 1;
                }
            }
            self.buffer[current].is_needed = true;
        }
        while self.is_late(&picture.sps) && self.bump(&mut outputs) {}
        outputs
    }

    /// What is not shown yet, at the end of the stream.
    pub fn flush(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while self.bump(&mut outputs) {}
        self.buffer.clear();
        outputs
    }

    /// 7.4.2.4.2: the SPS of a sequence is that of the picture that begins it.
    fn activate(&mut self, picture: &Picture, restarts: bool) -> Result<()> {
        let same = self.sps.as_ref().is_some_and(|sps| *sps == picture.sps);
        if !restarts && !same {
            return Err(Error::Corrupt {
                unit: "slice segment",
                element: "pps_seq_parameter_set_id",
                expected: "the SPS with which the sequence began".into(),
                found: picture.sps.id.into(),
                at: picture.at,
            });
        }
        self.sps = Some(picture.sps.clone());
        Ok(())
    }

    /// 8.3.1.
    fn order_count(&mut self, picture: &Picture, header: &SliceHeader, restarts: bool) -> i32 {
        let cycle = 1i32 << picture.sps.log2_max_poc_lsb;
        let lsb = header.poc_lsb as i32;
        let mut high = 0;
        if !restarts {
            let before = self.previous & (cycle - 1);
            high = self.previous - before;
            if lsb < before && before - lsb >= cycle / 2 {
                high = high.wrapping_add(cycle);
            } else if lsb > before && lsb - before > cycle / 2 {
                high = high.wrapping_sub(cycle);
            }
        }
        let poc = high.wrapping_add(lsb);
        let kind = picture.kind;
        let is_leading = kind.is_rasl() || kind.is_radl();
        if picture.temporal == 0 && !is_leading && !kind.is_sub_layer_non_reference() {
            self.previous = poc;
        }
        poc
    }

    /// 8.3.2: finds the reference pictures, and marks all that are not in a set as unused.
    fn derive(&mut self, references: &mut References, header: &SliceHeader, sps: &Sps) {
        let poc = references.poc;
        let cycle = 1i32 << sps.log2_max_poc_lsb;
        let mut kept = Vec::new();
        for picture in &header.long_term {
            let mut wanted = picture.poc_lsb as i32;
            let mut mask = cycle - 1;
            if let Some(cycles) = picture.cycles {
                let back = i32::try_from(cycles)
                    .unwrap_or(i32::MAX)
                    .wrapping_mul(cycle);
                let high = poc.wrapping_sub(back) & !(cycle - 1);
                wanted = wanted.wrapping_add(high);
                mask = !0;
            }
            let found = self
                .buffer
                .iter()
                .position(|entry| entry.mark != Mark::Unused && entry.poc & mask == wanted);
            kept.extend(found.map(|index| (index, Mark::Long)));
            if picture.is_used {
                references.long_term.push(Reference {
                    slot: found.map(|index| self.buffer[index].slot),
                    poc: found.map_or(wanted, |index| self.buffer[index].poc),
                    is_long_term: true,
                });
            }
        }
        let sets = [
            (&header.short_term.before, &mut references.before),
            (&header.short_term.after, &mut references.after),
        ];
        for (set, into) in sets {
            for delta in set {
                let wanted = poc.wrapping_add(delta.poc);
                let found = self.buffer.iter().enumerate().position(|(index, entry)| {
                    let is_long = kept.contains(&(index, Mark::Long));
                    entry.mark == Mark::Short && !is_long && entry.poc == wanted
                });
                kept.extend(found.map(|index| (index, Mark::Short)));
                if delta.is_used {
                    into.push(Reference {
                        slot: found.map(|index| self.buffer[index].slot),
                        poc: wanted,
                        is_long_term: false,
                    });
                }
            }
        }
        for entry in &mut self.buffer {
            entry.mark = Mark::Unused;
        }
        for (index, mark) in kept {
            self.buffer[index].mark = mark;
        }
    }

    fn make_room(&mut self, sps: &Sps, outputs: &mut Vec<Output>) {
        let empty = |entry: &Entry| !entry.is_needed && entry.mark == Mark::Unused;
        self.buffer.retain(|entry| !empty(entry));
        let most = sps.highest_order().buffering as usize;
        while self.is_late(sps) || self.buffer.len() >= most {
            if !self.bump(outputs) {
                break;
            }
        }
        // A damaged stream keeps more than it may: the oldest reference goes.
        while self.buffer.len() >= most.max(1) {
            let oldest = self.buffer.iter().enumerate();
            let oldest = oldest.min_by_key(|(_, entry)| entry.number);
            let Some((index, _)) = oldest else { break };
            self.buffer.remove(index);
        }
    }

    /// C.5.2.2: more pictures wait than may, or one longer than it may.
    fn is_late(&self, sps: &Sps) -> bool {
        let order = sps.highest_order();
        let waiting = self.buffer.iter().filter(|entry| entry.is_needed);
        if waiting.clone().count() > order.reorder as usize {
            return true;
        }
        // SpsMaxLatencyPictures, equation 7-9.
        let most = match order.latency_plus1 {
            0 => return false,
            plus1 => u64::from(order.reorder) + u64::from(plus1) - 1,
        };
        waiting
            .clone()
            .any(|entry| u64::from(entry.latency) >= most)
    }

    /// C.5.2.4: shows the first one in order of output. Whether there was one.
    fn bump(&mut self, outputs: &mut Vec<Output>) -> bool {
        let waiting = self.buffer.iter_mut().filter(|entry| entry.is_needed);
        let Some(first) = waiting.min_by_key(|entry| entry.poc) else {
            return false;
        };
        first.is_needed = false;
        outputs.push(Output {
            slot: first.slot,
            number: first.number,
            poc: first.poc,
        });
        self.buffer
            .retain(|entry| entry.is_needed || entry.mark != Mark::Unused);
        true
    }
}
