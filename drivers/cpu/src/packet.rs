//! The packet format of the CPU's command processor.
//!
//! A packet is a header word and its operands, all little-endian 32-bit words. Header: bits 7:0
//! opcode, bits 31:8 length of the packet in words, header included. 64-bit operands lie low word
//! first. Addresses are those of the process.
//!
//! | opcode | packet | operands (words) |
//! |---|---|---|
//! | 0x01 | WAIT | address of a signal (2), value (2) |
//! | 0x02 | SIGNAL | address of a signal (2), value (2) |
//! | 0x03 | TIMESTAMP | address of a signal (2); written to its bytes 8..16, ns |
//! | 0x04 | BARRIER | scope: 0 queue, 1 device, 2 system |
//! | 0x05 | EXEC | entry (2), number of groups (2), argument block (any even number) |
//! | 0x06 | COPY | destination (2), source (2), bytes (2) |
//! | 0x07 | WRITE | address (2), value (2), width in bytes: 4 or 8 |
//! | 0x08 | POLL | address (2), mask (2), value (2), bits 7:0 width, 15:8 compare: 0 ==, 1 !=, 2 >= |
//! | 0x09 | INDIRECT | address of packets (2), their number of words; not inside of itself |
//! | 0x0a | FILL | address (2), the word that fills (1), bytes (2); both multiples of 4 |
//!
//! Decoding is strict: an unknown opcode, a wrong length or an operand out of its range is a
//! [`PacketError`] that names the word.

use std::fmt;

use hcq::{Compare, Scope, Width};

/// Opcodes, bits 7:0 of a header.
pub mod op {
    /// Holds the queue until a signal is at least a value.
    pub const WAIT: u8 = 0x01;
    /// Raises a signal.
    pub const SIGNAL: u8 = 0x02;
    /// Writes the clock to a signal.
    pub const TIMESTAMP: u8 = 0x03;
    /// Orders memory.
    pub const BARRIER: u8 = 0x04;
    /// Runs a kernel.
    pub const EXEC: u8 = 0x05;
    /// Copies bytes.
    pub const COPY: u8 = 0x06;
    /// Writes a word.
    pub const WRITE: u8 = 0x07;
    /// Holds the queue until a word compares true.
    pub const POLL: u8 = 0x08;
    /// Runs packets that lie elsewhere.
    pub const INDIRECT: u8 = 0x09;
    /// Fills memory with a word.
    pub const FILL: u8 = 0x0a;
}

/// The longest packet in words: what 24 bits hold.
pub const MAX_WORDS: usize = (1 << 24) - 1;

/// Words of an EXEC packet before its argument block.
pub const EXEC_FIXED: usize = 5;

/// Words of a SIGNAL packet.
pub const SIGNAL_WORDS: usize = 5;

/// Words of an INDIRECT packet.
pub const INDIRECT_WORDS: usize = 4;

/// A header; `words` is at most [`MAX_WORDS`].
pub const fn header(opcode: u8, words: usize) -> u32 {
    opcode as u32 | (words as u32) << 8
}

/// The length in words that a header announces.
pub const fn length(header: u32) -> usize {
    (header >> 8) as usize
}

/// A decoded packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// See [`op::WAIT`].
    Wait {
        /// Address of the signal.
        va: u64,
        /// Least value.
        value: u64,
    },
    /// See [`op::SIGNAL`].
    Signal {
        /// Address of the signal.
        va: u64,
        /// New value.
        value: u64,
    },
    /// See [`op::TIMESTAMP`].
    Timestamp {
        /// Address of the signal.
        va: u64,
    },
    /// See [`op::BARRIER`].
    Barrier {
        /// Who must see what came before.
        scope: Scope,
    },
    /// See [`op::EXEC`].
    Exec {
        /// Address of the kernel.
        entry: u64,
        /// Groups to run.
        groups: u64,
        /// The argument block.
        args: &'a [u32],
    },
    /// See [`op::COPY`].
    Copy {
        /// Destination.
        dst: u64,
        /// Source.
        src: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// See [`op::WRITE`].
    Write {
        /// Address.
        at: u64,
        /// The word.
        value: u64,
        /// Its width.
        width: Width,
    },
    /// See [`op::POLL`].
    Poll {
        /// Address.
        at: u64,
        /// Applied to memory first.
        mask: u64,
        /// The operand.
        value: u64,
        /// The comparison.
        compare: Compare,
        /// Width of the word.
        width: Width,
    },
    /// See [`op::FILL`].
    Fill {
        /// Address.
        at: u64,
        /// The word.
        value: u32,
        /// Number of bytes.
        bytes: u64,
    },
    /// See [`op::INDIRECT`].
    Indirect {
        /// Address of the packets.
        address: u64,
        /// Their number of words.
        words: u32,
    },
}

/// Words that are no packet. `word` counts from the start of what was decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PacketError {
    /// No such opcode.
    #[error("word {word}: opcode {opcode:#04x} is unknown, expected 0x01..=0x0a")]
    Opcode {
        /// Offset of the header in words.
        word: usize,
        /// What was there.
        opcode: u8,
    },
    /// A length that this opcode does not have.
    #[error("word {word}: {name} of {found} words, expected {expected}")]
    Length {
        /// Offset of the header in words.
        word: usize,
        /// Name of the packet.
        name: &'static str,
        /// Length that the packet has.
        expected: &'static str,
        /// Length in the header.
        found: usize,
    },
    /// The packet goes on beyond the end.
    #[error("word {word}: packet of {length} words, but only {left} are left")]
    Short {
        /// Offset of the header in words.
        word: usize,
        /// Length in the header.
        length: usize,
        /// Words from the header on.
        left: usize,
    },
    /// An operand out of its range.
    #[error("word {word}: {what} is {found:#x}, expected {expected}")]
    Operand {
        /// Offset of the operand in words.
        word: usize,
        /// Its name.
        what: &'static str,
        /// What was there.
        found: u32,
        /// What may be there.
        expected: &'static str,
    },
}

/// The words of the packet at `word`: checked against what is left.
///
/// # Errors
/// [`PacketError::Short`].
pub fn extent(header: u32, word: usize, left: usize) -> Result<usize, PacketError> {
    match length(header) {
        length if length >= 1 && length <= left => Ok(length),
        length => Err(PacketError::Short { word, length, left }),
    }
}

/// Decodes the packet at the start of `words`, which lie at offset `word` of their stream.
/// Returns it with its length in words.
///
/// # Errors
/// [`PacketError`].
pub fn decode(words: &[u32], word: usize) -> Result<(Packet<'_>, usize), PacketError> {
    let Some(&head) = words.first() else {
        return Err(PacketError::Short {
            word,
            length: 1,
            left: 0,
        });
    };
    let length = extent(head, word, words.len())?;
    let words = &words[..length];
    let framed = Framed { words, word };
    // Every arm checks the length before it reads an operand: indices are below it.
    let packet = match head as u8 {
        op::WAIT => {
            framed.exact("WAIT", 5, "5")?;
            Packet::Wait {
                va: framed.quad(1),
                value: framed.quad(3),
            }
        }
        op::SIGNAL => {
            framed.exact("SIGNAL", SIGNAL_WORDS, "5")?;
            Packet::Signal {
                va: framed.quad(1),
                value: framed.quad(3),
            }
        }
        op::TIMESTAMP => {
            framed.exact("TIMESTAMP", 3, "3")?;
            Packet::Timestamp { va: framed.quad(1) }
        }
        op::BARRIER => framed.barrier()?,
        op::EXEC => framed.exec()?,
        op::COPY => {
            framed.exact("COPY", 7, "7")?;
            Packet::Copy {
                dst: framed.quad(1),
                src: framed.quad(3),
                bytes: framed.quad(5),
            }
        }
        op::WRITE => {
            framed.exact("WRITE", 6, "6")?;
            Packet::Write {
                at: framed.quad(1),
                value: framed.quad(3),
                width: framed.width(5, words[5])?,
            }
        }
        op::POLL => framed.poll()?,
        op::INDIRECT => {
            framed.exact("INDIRECT", INDIRECT_WORDS, "4")?;
            Packet::Indirect {
                address: framed.quad(1),
                words: words[3],
            }
        }
        op::FILL => {
            framed.exact("FILL", 6, "6")?;
            Packet::Fill {
                at: framed.quad(1),
                value: words[3],
                bytes: framed.quad(4),
            }
        }
        opcode => return Err(PacketError::Opcode { word, opcode }),
    };
    Ok((packet, length))
}

/// The words of one packet, as many as its header announces, and where they lie in their stream.
struct Framed<'a> {
    words: &'a [u32],
    word: usize,
}

impl<'a> Framed<'a> {
    #[inline]
    fn exact(
        &self,
        name: &'static str,
        words: usize,
        expected: &'static str,
    ) -> Result<(), PacketError> {
        match self.words.len() == words {
            true => Ok(()),
            false => Err(self.wrong_length(name, expected)),
        }
    }

    fn wrong_length(&self, name: &'static str, expected: &'static str) -> PacketError {
        PacketError::Length {
            word: self.word,
            name,
            expected,
            found: self.words.len(),
        }
    }

    fn wrong_operand(
        &self,
        i: usize,
        what: &'static str,
        found: u32,
        expected: &'static str,
    ) -> PacketError {
        PacketError::Operand {
            word: self.word + i,
            what,
            found,
            expected,
        }
    }

    #[inline]
    fn quad(&self, i: usize) -> u64 {
        self.words[i] as u64 | (self.words[i + 1] as u64) << 32
    }

    #[inline]
    fn width(&self, i: usize, found: u32) -> Result<Width, PacketError> {
        match found {
            4 => Ok(Width::W32),
            8 => Ok(Width::W64),
            _ => Err(self.wrong_operand(i, "width", found, "4 or 8")),
        }
    }

    #[inline]
    fn barrier(&self) -> Result<Packet<'a>, PacketError> {
        self.exact("BARRIER", 2, "2")?;
        let scope = match self.words[1] {
            0 => Scope::Queue,
            1 => Scope::Device,
            2 => Scope::System,
            found => return Err(self.wrong_operand(1, "scope", found, "0, 1 or 2")),
        };
        Ok(Packet::Barrier { scope })
    }

    #[inline]
    fn exec(&self) -> Result<Packet<'a>, PacketError> {
        let length = self.words.len();
        if length < EXEC_FIXED || !(length - EXEC_FIXED).is_multiple_of(2) {
            return Err(self.wrong_length("EXEC", "5 and an even number of argument words"));
        }
        Ok(Packet::Exec {
            entry: self.quad(1),
            groups: self.quad(3),
            args: &self.words[EXEC_FIXED..],
        })
    }

    #[inline]
    fn poll(&self) -> Result<Packet<'a>, PacketError> {
        self.exact("POLL", 8, "8")?;
        let compare = match self.words[7] >> 8 {
            0 => Compare::Equal,
            1 => Compare::NotEqual,
            2 => Compare::GreaterEqual,
            found => return Err(self.wrong_operand(7, "compare", found, "0, 1 or 2")),
        };
        let width = self.width(7, self.words[7] & 0xff)?;
        Ok(Packet::Poll {
            at: self.quad(1),
            mask: self.quad(3),
            value: self.quad(5),
            compare,
            width,
        })
    }
}

/// Prints encoded words, one packet a line, for traces. What cannot be decoded ends the listing
/// with the reason.
pub struct Listing<'a>(pub &'a [u32]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.0.len() {
            match decode(&self.0[at..], at) {
                Ok((packet, length)) => {
                    writeln!(f, "{at:6}: {packet}")?;
                    at += length;
                }
                Err(error) => return writeln!(f, "{error}"),
            }
        }
        Ok(())
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = |w: &Width| match w {
            Width::W32 => 32,
            Width::W64 => 64,
        };
        match self {
            Packet::Wait { va, value } => write!(f, "WAIT [{va:#x}] >= {value}"),
            Packet::Signal { va, value } => write!(f, "SIGNAL [{va:#x}] = {value}"),
            Packet::Timestamp { va } => write!(f, "TIMESTAMP [{va:#x}+8]"),
            Packet::Barrier { scope } => write!(f, "BARRIER {scope:?}"),
            Packet::Exec {
                entry,
                groups,
                args,
            } => {
                write!(f, "EXEC {entry:#x} groups {groups} args")?;
                for pair in args.chunks_exact(2) {
                    write!(f, " {:#x}", pair[0] as u64 | (pair[1] as u64) << 32)?;
                }
                Ok(())
            }
            Packet::Copy { dst, src, bytes } => write!(f, "COPY {dst:#x} <- {src:#x} x {bytes}"),
            Packet::Fill { at, value, bytes } => {
                write!(f, "FILL {at:#x} <- {value:#x} x {bytes}")
            }
            Packet::Write { at, value, width } => {
                write!(f, "WRITE{} [{at:#x}] = {value:#x}", bits(width))
            }
            Packet::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                let sign = match compare {
                    Compare::Equal => "==",
                    Compare::NotEqual => "!=",
                    Compare::GreaterEqual => ">=",
                };
                write!(
                    f,
                    "POLL{} [{at:#x}] & {mask:#x} {sign} {value:#x}",
                    bits(width)
                )
            }
            Packet::Indirect { address, words } => {
                write!(f, "INDIRECT {address:#x} x {words} words")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_words_are_named() {
        let text = |words: &[u32]| decode(words, 10).unwrap_err().to_string();
        assert_eq!(text(&[]), "word 10: packet of 1 words, but only 0 are left");
        assert_eq!(
            text(&[0]),
            "word 10: packet of 0 words, but only 1 are left"
        );
        assert_eq!(
            text(&[header(0x77, 1)]),
            "word 10: opcode 0x77 is unknown, expected 0x01..=0x0a"
        );
        assert_eq!(
            text(&[header(op::COPY, 7), 0]),
            "word 10: packet of 7 words, but only 2 are left"
        );
        assert_eq!(
            text(&[header(op::WAIT, 2), 0]),
            "word 10: WAIT of 2 words, expected 5"
        );
        assert_eq!(
            text(&[header(op::BARRIER, 2), 9]),
            "word 11: scope is 0x9, expected 0, 1 or 2"
        );
        assert_eq!(
            text(&[header(op::WRITE, 6), 0, 0, 0, 0, 2]),
            "word 15: width is 0x2, expected 4 or 8"
        );
        assert!(text(&[header(op::EXEC, 6), 0, 0, 0, 0, 0]).contains("even number"));
    }

    #[test]
    fn no_words_make_the_decoder_panic() {
        // Every opcode with every length up to 10, over operands of several patterns.
        for opcode in 0..=255u8 {
            for length in 0..10usize {
                for fill in [0u32, 1, 4, 8, 0x204, u32::MAX] {
                    let mut words = vec![fill; 9];
                    words[0] = header(opcode, length);
                    let known = (1..=10).contains(&opcode);
                    match decode(&words, 0) {
                        Ok((_, n)) => assert!(known && n == length),
                        Err(PacketError::Opcode { .. }) => assert!(!known),
                        Err(_) => {}
                    }
                }
            }
        }
    }
}
