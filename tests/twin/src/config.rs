//! Config strings of machines: a list of `key=value` with commas between.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// What is wrong with a config string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong(pub String);

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// What a part of a config string is read as.
pub type Result<T = ()> = std::result::Result<T, Wrong>;

/// A part of a config string.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it sets.
    pub key: &'a str,
    /// To what.
    pub value: &'a str,
}

impl<'a> Part<'a> {
    /// The parts of a string; `keys` are those that it may have.
    pub fn all(text: &'a str, keys: &str) -> impl Iterator<Item = Result<Part<'a>>> {
        let parts = text.split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(move |part| {
            let wrong = || Wrong(format!("'{part}': expected key=value; keys: {keys}"));
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            Ok(Part { key, value })
        })
    }

    /// It has another value than what is expected.
    pub fn wrong(&self, expected: impl Display) -> Wrong {
        Wrong(format!("{}={}: expected {expected}", self.key, self.value))
    }

    /// There is no such key.
    pub fn unknown(&self, keys: &str) -> Wrong {
        Wrong(format!("'{}' is no key; keys: {keys}", self.key))
    }

    /// A number.
    ///
    /// # Errors
    /// It is none, or does not fit.
    pub fn number<T: TryFrom<u64>>(&self) -> Result<T> {
        number(self.value).ok_or_else(|| self.wrong("a number"))
    }

    /// A number of a range.
    ///
    /// # Errors
    /// It is none, or out of the range.
    pub fn within<T: TryFrom<u64>>(&self, range: RangeInclusive<u64>) -> Result<T> {
        let found = number(self.value).filter(|number| range.contains(number));
        let found = found.and_then(|number| T::try_from(number).ok());
        found.ok_or_else(|| match (range.start(), range.end()) {
            (least, &u64::MAX) => self.wrong(format_args!("{least} or more")),
            (least, most) => self.wrong(format_args!("{least} to {most}")),
        })
    }

    /// Bytes.
    ///
    /// # Errors
    /// They are none, or too many.
    pub fn bytes(&self) -> Result<u64> {
        bytes(self.value).ok_or_else(|| self.wrong("bytes, with an optional K, M or G"))
    }

    /// What one of these words stands for.
    ///
    /// # Errors
    /// It is none of them.
    pub fn word<T: Clone>(&self, words: &[(&str, T)]) -> Result<T> {
        let found = words.iter().find(|(word, _)| *word == self.value);
        found.map(|(_, meant)| meant.clone()).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            match &names[..] {
                [first @ .., last] if !first.is_empty() => {
                    self.wrong(format_args!("{} or {last}", first.join(", ")))
                }
                _ => self.wrong(names.concat()),
            }
        })
    }
}

/// A number, decimal or behind `0x`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    value.try_into().ok()
}

fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let value: u64 = number(digits)?;
    value.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

/// The path and the name of the errno in `path:PATH:ERRNO`. Addresses of PCI functions have colons in them.
pub fn path(text: &str) -> Option<(&str, &str)> {
    let (path, errno) = text.strip_prefix("path:")?.rsplit_once(':')?;
    path.starts_with('/').then_some((path, errno))
}

/// Whether a path is that one, or of something below it.
pub fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_or_say_what_was_expected() {
        let all: Result<Vec<Part<'_>>> = Part::all("a=1, b=0x10,,c=2K", "a, b, c").collect();
        let all = all.unwrap();
        let [a, b, c] = all[..] else {
            panic!("{all:?}")
        };
        assert_eq!(
            (a.number(), b.number(), c.bytes()),
            (Ok(1), Ok(16), Ok(2048))
        );
        assert_eq!(a.word(&[("0", false), ("1", true)]), Ok(true));
        let told = |wrong: Result<u8>| wrong.unwrap_err().to_string();
        assert_eq!(told(c.number()), "c=2K: expected a number");
        assert_eq!(told(b.within(1..=15)), "b=0x10: expected 1 to 15");
        assert_eq!(told(c.within(1..=u64::MAX)), "c=2K: expected 1 or more");
        let words = [("x", 0), ("y", 1), ("z", 2)];
        assert_eq!(told(a.word(&words)), "a=1: expected x, y or z");
        assert_eq!(a.unknown("b").to_string(), "'a' is no key; keys: b");
        let wrong = Part::all("what", "a").next().unwrap().unwrap_err();
        assert_eq!(wrong.0, "'what': expected key=value; keys: a");
    }

    #[test]
    fn paths_have_colons() {
        assert_eq!(path("path:/dev/a:b:EPERM"), Some(("/dev/a:b", "EPERM")));
        assert_eq!(path("path:dev/a:EPERM"), None);
        assert!(is_below("/dev/a/b", "/dev/a") && is_below("/dev/a", "/dev/a"));
        assert!(!is_below("/dev/ab", "/dev/a"));
    }
}
