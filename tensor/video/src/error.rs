//! [`Error`]: why a stream is not decoded.

/// Of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a stream is not decoded. Offsets are bytes from the start of the stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A unit ends within a syntax element.
    #[error(
        "stream offset {at}: the {unit} ends within {element}: the stream is cut or damaged; decode up to the picture before it"
    )]
    Truncated {
        /// The unit's kind.
        unit: &'static str,
        /// The syntax element.
        element: &'static str,
        /// Where the unit ends.
        at: u64,
    },
    /// A syntax element has a value that the standard does not allow.
    #[error(
        "stream offset {at}: {unit}: {element} = {found}: expected {expected}: the stream is damaged here"
    )]
    Corrupt {
        /// The unit's kind.
        unit: &'static str,
        /// The syntax element.
        element: &'static str,
        /// What the standard allows.
        expected: String,
        /// What was there.
        found: i64,
        /// Where it was.
        at: u64,
    },
    /// A parameter set that a unit names has not come.
    #[error(
        "stream offset {at}: {unit}: {set} {number} has not come before it: start at a random access point whose parameter sets are there"
    )]
    Missing {
        /// The unit's kind.
        unit: &'static str,
        /// The kind of parameter set.
        set: &'static str,
        /// Its number.
        number: u32,
        /// Where the unit begins.
        at: u64,
    },
    /// Decoding has not begun: it does at a random access picture.
    #[error(
        "stream offset {at}: no random access picture came before this picture: start at one (IDR, BLA or CRA)"
    )]
    NotStarted {
        /// Where the picture begins.
        at: u64,
    },
    /// A feature of the standard that is not decoded.
    #[error(
        "stream offset {at}: {feature} is not supported: encode for the Main or the Main 10 profile"
    )]
    Unsupported {
        /// Its name.
        feature: String,
        /// Where it is asked for.
        at: u64,
    },
    /// A unit without end.
    #[error(
        "stream offset {at}: a unit of more than {limit} bytes: this is no Annex B stream, or its start codes are lost"
    )]
    TooLong {
        /// Where the unit begins.
        at: u64,
        /// Bytes of a unit, at most.
        limit: usize,
    },
    /// There is no unit at all.
    #[error(
        "no start code in the first {bytes} bytes: expected an Annex B stream (00 00 01); MP4 and MKV files are demuxed first"
    )]
    NoStartCode {
        /// How many were looked at.
        bytes: u64,
    },
    /// The source of bytes failed.
    #[error("stream offset {at}: the source cannot be read: {why}")]
    Source {
        /// How far it was read.
        at: u64,
        /// What it said.
        why: String,
    },
}
