//! Numbers, texts and lists as little-endian bytes. Reading never allocates more than the bytes that are there.

/// What the bytes of a section should have been.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub expected: String,
    pub found: String,
}

impl Fault {
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Fault {
        Fault {
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// The result of reading.
pub(crate) type Read<T> = Result<T, Fault>;

/// The longest text: names of values are as long as exporters make them.
const MOST_TEXT: usize = 64 << 10;

/// Writes.
#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, n: u8) {
        self.0.push(n);
    }

    pub fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    pub fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// A length or a position in a list.
    pub fn count(&mut self, n: usize) {
        // Lists are bounded by the memory of the writer: none has more than 2^32 elements.
        self.u32(u32::try_from(n).unwrap_or(u32::MAX));
    }

    pub fn text(&mut self, text: &str) {
        let mut end = text.len().min(MOST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.count(end);
        self.0.extend_from_slice(&text.as_bytes()[..end]);
    }

    pub fn list<T>(&mut self, list: &[T], mut one: impl FnMut(&mut Self, &T)) {
        self.count(list.len());
        for item in list {
            one(self, item);
        }
    }
}

/// Reads.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            left: bytes,
            len: bytes.len(),
        }
    }

    fn at(&self) -> usize {
        self.len - self.left.len()
    }

    pub fn take(&mut self, n: usize, what: &str) -> Read<&'a [u8]> {
        match self.left.split_at_checked(n) {
            Some((head, rest)) => {
                self.left = rest;
                Ok(head)
            }
            None => Err(Fault::new(
                format!("{n} bytes of {what} at byte {}", self.at()),
                format!("{}", self.left.len()),
            )),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub fn u8(&mut self, what: &str) -> Read<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u32(&mut self, what: &str) -> Read<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &str) -> Read<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn hash(&mut self, what: &str) -> Read<[u8; 32]> {
        self.array(what)
    }

    pub fn text(&mut self, what: &str) -> Read<String> {
        let n = self.u32(what)? as usize;
        if n > MOST_TEXT {
            let expected = format!("at most {MOST_TEXT} bytes of {what}");
            return Err(Fault::new(expected, format!("{n}")));
        }
        let bytes = self.take(n, what)?;
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|e| Fault::new(format!("UTF-8 in {what}"), e.to_string()))?;
        Ok(text.to_owned())
    }

    /// A list whose elements have at least `least` bytes each.
    pub fn list<T>(
        &mut self,
        what: &str,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let n = self.u32(what)? as usize;
        let most = self.left.len() / least.max(1);
        if n > most {
            let expected = format!("at most {most} {what} in {} bytes", self.left.len());
            return Err(Fault::new(expected, format!("{n}")));
        }
        (0..n).map(|_| one(self)).collect()
    }

    pub fn end(self, what: &str) -> Read<()> {
        match self.left.len() {
            0 => Ok(()),
            n => Err(Fault::new(
                format!("the end of {what} at byte {}", self.at()),
                format!("{n} more bytes"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_lengths_are_checked_first() {
        let mut w = Writer::default();
        w.text("weights");
        w.list(&[1u64, 2, 3], |w, n| w.u64(*n));
        let mut r = Reader::new(&w.0);
        assert_eq!(r.text("a name").unwrap(), "weights");
        assert_eq!(
            r.list("numbers", 8, |r| r.u64("a number")),
            Ok(vec![1, 2, 3])
        );
        r.end("the section").unwrap();

        let mut many = Writer::default();
        many.u32(u32::MAX);
        many.u64(0);
        let fault = Reader::new(&many.0)
            .list("numbers", 8, |r| r.u64("a number"))
            .unwrap_err();
        assert_eq!(fault.expected, "at most 1 numbers in 8 bytes");
        let fault = Reader::new(&many.0).text("a name").unwrap_err();
        assert_eq!(fault.found, u32::MAX.to_string());
        for n in 0..w.0.len() {
            let mut r = Reader::new(&w.0[..n]);
            let text = r.text("a name");
            let read = text.and_then(|_| r.list("numbers", 8, |r| r.u64("a number")));
            assert!(read.is_err(), "{n} bytes");
        }
    }
}
