//! Text for terminals. Names and messages come from devices and from files of others; a control character in them is
//! for the terminal: it could hide, move or replace what a person reads.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls a terminal instead of being printed, or changes the text direction.
/// Line ends and tabs are layout.
fn acts(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// A text as a terminal may have it: characters that act on it are `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |to, c| {
        let _ = write!(to, "\\u{{{:x}}}", u32::from(c));
    })
}

/// A JSON text as a terminal may have it, with the same meaning: such characters are only in strings, where they are
/// `\u001b`.
pub fn plain_json(text: &str) -> Cow<'_, str> {
    escaped(text, |to, c| {
        let _ = write!(to, "\\u{:04x}", u32::from(c));
    })
}

fn escaped(text: &str, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match acts(c) {
            true => escape(&mut plain, c),
            false => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(plain("a\tb\nä 漢"), "a\tb\nä 漢");
        assert_eq!(
            plain("\x1b[2J\r\x07\x7f\u{9b}1m"),
            r"\u{1b}[2J\u{d}\u{7}\u{7f}\u{9b}1m"
        );
        assert_eq!(plain("a\u{202e}b"), r"a\u{202e}b");
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        let shown = plain(&all);
        assert!(!shown.chars().any(acts));
        assert_eq!(plain_json("\"\u{9b}\x7f\""), r#""\u009b\u007f""#);
    }
}
