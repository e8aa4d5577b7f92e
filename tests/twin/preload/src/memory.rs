//! Memory that a process shares with devices, as far as the process sees it: what it has mapped of them, and
//! what it has handed to them. Rings, push buffers and what they lead to are there.
//!
//! Nobody tells when it changes: it is looked at when the program says so ([`crate::hooks`],
//! `doorbell_mark`), before it is unmapped, and at the end; only pages that have changed since are kept.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use twin::host::user;

use crate::system;

const PAGE: usize = 4096;
/// More than rings and push buffers have: the window of a whole card is not read.
const MOST: u64 = 64 << 20;
/// Pages in one piece of a record.
const RUN: usize = 16;

/// A place that is shared.
struct Place {
    bytes: u64,
    file: String,
    /// Whether it is mapped from a device, and cannot be asked of the system.
    mapped: bool,
    /// What each page was when it was last looked at.
    pages: Vec<u64>,
}

/// Pages that have changed, without zeros around them.
pub struct Piece {
    /// The file that they are mapped from; empty for memory of the process.
    pub file: String,
    /// Where.
    pub at: u64,
    /// What is there.
    pub bytes: Vec<u8>,
}

/// All of it.
#[derive(Default)]
pub struct Memory {
    places: BTreeMap<u64, Place>,
}

fn hash(page: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    page.hash(&mut hasher);
    hasher.finish()
}

impl Memory {
    /// A place is shared from now on; it was zero before anybody wrote there.
    pub fn add(&mut self, at: u64, bytes: u64, file: &str, mapped: bool) {
        if bytes == 0 || bytes > MOST {
            return;
        }
        let zero = hash(&[0; PAGE]);
        let place = Place {
            bytes,
            file: file.to_owned(),
            mapped,
            pages: vec![zero; bytes.div_ceil(PAGE as u64) as usize],
        };
        self.places.insert(at, place);
    }

    /// Whether something of a range is shared.
    pub fn has(&self, at: u64, bytes: u64) -> bool {
        self.within(at, bytes).next().is_some()
    }

    fn within(&self, at: u64, bytes: u64) -> impl Iterator<Item = u64> + '_ {
        let end = at.saturating_add(bytes);
        let before = self.places.range(..end);
        before
            .filter(move |(first, place)| *first + place.bytes > at)
            .map(|(first, _)| *first)
    }

    /// What has changed in a range.
    pub fn changed(&mut self, at: u64, bytes: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let found: Vec<u64> = self.within(at, bytes).collect();
        for first in found {
            if let Some(place) = self.places.get_mut(&first) {
                place.changed(first, &mut pieces);
            }
        }
        pieces
    }

    /// What has changed anywhere.
    pub fn all(&mut self) -> Vec<Piece> {
        self.changed(0, u64::MAX)
    }

    /// A range is not shared any more.
    pub fn remove(&mut self, at: u64, bytes: u64) {
        let found: Vec<u64> = self.within(at, bytes).collect();
        for first in found {
            self.places.remove(&first);
        }
    }
}

impl Place {
    fn changed(&mut self, first: u64, pieces: &mut Vec<Piece>) {
        let mut run: Option<Piece> = None;
        let mut page = [0; PAGE];
        for (i, last) in self.pages.iter_mut().enumerate() {
            let at = first + (i * PAGE) as u64;
            let page = &mut page[..(first + self.bytes - at).min(PAGE as u64) as usize];
            let read = user::read(at, page).is_ok() || self.mapped && system::peek(at, page);
            let now = hash(page);
            if !read || *last == now {
                pieces.extend(run.take());
                continue;
            }
            *last = now;
            let piece = run.get_or_insert_with(|| Piece {
                file: self.file.clone(),
                at,
                bytes: Vec::new(),
            });
            piece.bytes.extend_from_slice(page);
            if piece.bytes.len() >= RUN * PAGE {
                pieces.extend(run.take());
            }
        }
        pieces.extend(run);
        for piece in pieces {
            let some = |byte: &u8| *byte != 0;
            let end = piece.bytes.iter().rposition(some).map_or(1, |end| end + 1);
            piece.bytes.truncate(end);
            let start = piece.bytes.iter().position(some).unwrap_or(0);
            piece.bytes.drain(..start);
            piece.at += start as u64;
        }
    }
}
