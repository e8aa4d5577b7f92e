//! [`Writes`]: bytes for addresses of the bus, gathered until their turn, and cut into requests.

use crate::tlp::Tlp;

/// So many dwords in a row are a request each; more are a stream.
pub(crate) const FEW: usize = 4;

/// What waits for its turn.
#[derive(Default)]
pub(crate) struct Writes {
    queued: Vec<Piece>,
    /// Bytes in the queue.
    gathered: usize,
}

/// Bytes for an address of the bus.
pub(crate) struct Piece {
    address: u64,
    bytes: Vec<u8>,
}

/// A step of a write.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Step<'a> {
    One(Tlp),
    Stream(u64, &'a [u8]),
}

impl Writes {
    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.gathered
    }

    /// What follows the last write goes with it, where both are whole dwords.
    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        self.gathered += bytes.len();
        let is_whole = |address: u64, len: usize| address & 3 == 0 && len & 3 == 0;
        if let Some(last) = self.queued.last_mut()
            && last.address + last.bytes.len() as u64 == address
            && is_whole(last.address, last.bytes.len())
            && is_whole(address, bytes.len())
        {
            last.bytes.extend_from_slice(bytes);
            return;
        }
        self.queued.push(Piece {
            address,
            bytes: bytes.to_vec(),
        });
    }

    /// All of them.
    pub(crate) fn take(&mut self) -> Vec<Piece> {
        self.gathered = 0;
        std::mem::take(&mut self.queued)
    }
}

impl Piece {
    /// Partial dwords are separate requests, before and after the whole ones.
    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let (mut address, mut bytes) = (self.address, &*self.bytes);
        let one = |address: u64, bytes: &[u8]| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            Step::One(Tlp::write(address, bytes.len(), u32::from_le_bytes(word)))
        };
        if address & 3 != 0 {
            let head = bytes.len().min(4 - (address & 3) as usize);
            steps.push(one(address, &bytes[..head]));
            (address, bytes) = (address + head as u64, &bytes[head..]);
        }
        let (whole, tail) = bytes.split_at(bytes.len() & !3);
        match whole.len() / 4 <= FEW {
            true => {
                let places = (address..).step_by(4);
                let words = whole.chunks_exact(4).zip(places);
                steps.extend(words.map(|(bytes, at)| one(at, bytes)));
            }
            false => steps.push(Step::Stream(address, whole)),
        }
        if !tail.is_empty() {
            steps.push(one(address + whole.len() as u64, tail));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_cut_into_dwords_and_streams() {
        let mut writes = Writes::default();
        writes.put(0x1001, &[1, 2]);
        writes.put(0x1004, &[3, 0, 0, 0]);
        writes.put(0x1008, &[4, 0, 0, 0]);
        writes.put(0x2000, &[7; 22]);
        let pieces = writes.take();
        assert_eq!(pieces.len(), 3);
        let steps: Vec<_> = pieces.iter().flat_map(Piece::steps).collect();
        let expected = [
            Step::One(Tlp::write(0x1001, 2, 0x201)),
            Step::One(Tlp::write(0x1004, 4, 3)),
            Step::One(Tlp::write(0x1008, 4, 4)),
            Step::Stream(0x2000, &[7; 20]),
            Step::One(Tlp::write(0x2014, 2, 0x707)),
        ];
        assert_eq!(steps, expected);
    }
}
