//! HEVC bitstreams for hardware decoders: what is read of a stream before a picture goes to an engine.
//!
//! - [`Units`] splits Annex B bytes into NAL units.
//! - [`Parser`] reads parameter sets and slice headers, and gathers the slices of a picture.
//! - [`Pictures`] derives picture order counts, reference picture sets and the order of output.
//!
//! `scripts/video` compares all of it with what FFmpeg reads. Nothing here decodes samples, and no device does yet. What an engine cannot decode is refused by name in [`Error::Unsupported`].
//!
//! Source of all syntax and semantics: ITU-T H.265 (08/2021). Names of syntax elements are the standard's.

mod bits;
mod error;
mod hrd;
mod nal;
mod parser;
mod pictures;
mod pps;
mod profile;
mod rps;
mod scaling;
mod slice;
mod sps;
mod units;
mod vps;
mod vui;
mod window;

pub use bits::Element;
pub use error::{Error, Result};
pub use hrd::{Hrd, SubLayerHrd};
pub use nal::{Kind, Nal};
pub use parser::{Parser, Picture, Segment};
pub use pictures::{Output, Pictures, Reference, References};
pub use pps::{ChromaOffsets, Pps, Tiles};
pub use profile::Profile;
pub use rps::{Delta, ShortTermSet};
pub use scaling::ScalingLists;
pub use slice::{LongTerm, SliceHeader, SliceType, WeightTable, Weights};
pub use sps::{Pcm, Sps, SpsRange, SubLayerOrder};
pub use units::Units;
pub use vps::Vps;
pub use vui::{Colour, Vui};
pub use window::Window;
