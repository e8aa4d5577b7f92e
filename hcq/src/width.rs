//! [`Width`]: how wide a word is.

/// Width of a word that commands write or poll, and of an argument that is a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Width {
    /// 4 bytes, aligned.
    W32,
    /// 8 bytes, aligned.
    W64,
}
