//! [`Units`]: the NAL units of an Annex B stream, as they come.

use std::io::Read;

use crate::error::{Error, Result};
use crate::nal::Nal;

/// Bytes of a unit, at most: a raw 8192x4320 picture of 4:4:4 in 16 bits has 212 MB, and the standard's largest level less than
/// half of that.
const LIMIT: usize = 128 << 20;

/// Bytes within which the first start code is.
const SEARCH: u64 = 1 << 20;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// Splits a byte stream at its start codes. Lazy: it reads on when a unit is asked for.
///
/// Source: H.265, Annex B.
pub struct Units<R> {
    source: R,
    buffer: Vec<u8>,
    /// The offset in the stream of the buffer's first byte.
    base: u64,
    /// Where in the buffer the unit begins that comes next, once a start code was found.
    start: Option<usize>,
    /// Up to here there is no start code.
    scanned: usize,
    ended: bool,
    /// A start code has come.
    found: bool,
    over: bool,
}

impl<R: Read> Units<R> {
    /// Of a stream from its start.
    pub fn new(source: R) -> Units<R> {
        Units {
            source,
            buffer: Vec::new(),
            base: 0,
            start: None,
            scanned: 0,
            ended: false,
            found: false,
            over: false,
        }
    }

    /// Bytes that were read so far.
    pub fn read(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    fn drop_bytes(&mut self, count: usize) {
        self.base += count as u64;
        self.buffer.drain(..count);
        self.scanned = 0;
    }

    /// Reads on.
    fn fill(&mut self) -> Result<()> {
        let old = self.buffer.len();
        self.buffer.resize(old + CHUNK, 0);
        let got = loop {
            match self.source.read(&mut self.buffer[old..]) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        self.buffer.truncate(old + *got.as_ref().unwrap_or(&0));
        let got = got.map_err(|e| Error::Source {
            at: self.read(),
            why: e.to_string(),
        })?;
        self.ended = got == 0;
        Ok(())
    }

    /// The next `00 00 01`, or `00 00 00` within the stream, from `scanned` on.
    fn zeros(&mut self) -> Option<usize> {
        let from = self.scanned.min(self.buffer.len());
        let found = self.buffer[from..]
            .windows(3)
            .position(|three| three[0] == 0 && three[1] == 0 && three[2] <= 1);
        match found {
            Some(found) => Some(from + found),
            None => {
                // Two zeros at the end may belong to one.
                self.scanned = self.buffer.len().saturating_sub(2).max(from);
                None
            }
        }
    }

    /// Skips zeros and one start code. Whether there was one.
    fn find_start(&mut self) -> Result<bool> {
        loop {
            while let Some(at) = self.zeros() {
                if self.buffer[at + 2] == 1 {
                    self.start = Some(at + 3);
                    self.scanned = at + 3;
                    return Ok(true);
                }
                self.scanned = at + 1;
            }
            let bytes = self.read();
            if !self.found && (bytes > SEARCH || self.ended && bytes > 0) {
                return Err(Error::NoStartCode { bytes });
            }
            if self.ended {
                return Ok(false);
            }
            // What is before a start code is dropped.
            self.drop_bytes(self.scanned);
            self.fill()?;
        }
    }

    fn unit(&mut self) -> Result<Option<Nal>> {
        loop {
            if self.start.is_none() && !self.find_start()? {
                return Ok(None);
            }
            let Some(start) = self.start.take() else {
                return Ok(None);
            };
            self.found = true;
            let at = self.base + start as u64;
            let end = loop {
                if let Some(end) = self.zeros() {
                    break end;
                }
                if self.ended {
                    break self.buffer.len();
                }
                if self.buffer.len() - start > LIMIT {
                    return Err(Error::TooLong { at, limit: LIMIT });
                }
                self.fill()?;
            };
            let mut raw = self.buffer[start..end].to_vec();
            // trailing_zero_8bits, where the stream ends.
            while raw.last() == Some(&0) {
                raw.pop();
            }
            self.drop_bytes(end);
            if !raw.is_empty() {
                return Nal::new(raw, at).map(Some);
            }
        }
    }
}

impl<R: Read> Iterator for Units<R> {
    type Item = Result<Nal>;

    /// After a unit with a bad header, the next one follows; after a source that failed, nothing does.
    fn next(&mut self) -> Option<Result<Nal>> {
        if self.over {
            return None;
        }
        let unit = self.unit().transpose();
        let goes_on = match &unit {
            Some(Err(Error::Truncated { .. } | Error::Corrupt { .. }) | Ok(_)) => true,
            Some(Err(_)) | None => false,
        };
        self.over = !goes_on;
        unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nal::Kind;

    /// Gives a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.len().min(1).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn units(bytes: &[u8]) -> Vec<Result<Nal>> {
        let all: Vec<_> = Units::new(bytes).collect();
        assert_eq!(Units::new(Slow(bytes)).collect::<Vec<_>>(), all);
        all
    }

    #[test]
    fn units_lie_between_start_codes() {
        let stream = [
            &[0, 0, 0, 0, 1, 0x40, 1, 7][..],
            &[0, 0, 1, 0x42, 1, 8, 0, 0, 3, 1, 0, 0, 3],
            &[0, 0, 0, 1, 0x26, 2, 9, 0, 0],
        ]
        .concat();
        let all = units(&stream);
        let all: Vec<Nal> = all.into_iter().map(|unit| unit.unwrap()).collect();
        let seen = |nal: &Nal| (nal.kind, nal.temporal, nal.at, nal.payload.clone());
        assert_eq!(
            all.iter().map(seen).collect::<Vec<_>>(),
            [
                (Kind::VPS_NUT, 0, 5, vec![7]),
                (Kind::SPS_NUT, 0, 11, vec![8, 0, 0, 1, 0, 0]),
                (Kind::IDR_W_RADL, 1, 25, vec![9]),
            ]
        );
        // The byte behind the first 03: 13 is 8, 14 and 15 are zeros, 16 is the 03.
        assert_eq!(all[1].offset(2), 15);
        assert_eq!(all[1].offset(3), 17);
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        assert_eq!(units(&[]), []);
        let all = units(b"\0\0\0\x20ftypisom");
        assert_eq!(all, [Err(Error::NoStartCode { bytes: 12 })]);
        let all = units(&[0, 0, 1, 0x40]);
        assert!(matches!(all[..], [Err(Error::Truncated { at: 4, .. })]));
        // A header that is forbidden loses that unit alone.
        let all = units(&[
            0, 0, 1, 0xc0, 1, 5, 0, 0, 1, 0x40, 0, 5, 0, 0, 1, 0x40, 1, 5,
        ]);
        assert!(matches!(
            all[..],
            [
                Err(Error::Corrupt { at: 3, .. }),
                Err(Error::Corrupt { at: 9, .. }),
                Ok(_)
            ]
        ));
    }
}
