//! [`Survey`]: the GPUs that a runtime has; [`Unusable`]: why there are none.

use hcq::Error;

use crate::calls::NoLibrary;
use crate::refusal::Refusal;

/// A GPU that a runtime has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its number for the runtime.
    pub index: u32,
    /// Where it is on the bus: `0000:03:00.0`.
    pub place: String,
    /// The product.
    pub name: String,
    /// The instruction set, as compilers know it.
    pub arch: String,
    /// Its processors.
    pub units: u32,
    /// Bytes of its memory.
    pub memory: u64,
    /// Whether streams write 64-bit values.
    pub can_write: bool,
}

/// What a runtime says of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Its version, for people.
    pub version: String,
    /// The file name of its library.
    pub library: &'static str,
    /// Its GPUs.
    pub gpus: Vec<Found>,
}

/// Why a runtime cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unusable {
    /// The library.
    #[error("{why}. {fix}")]
    Library {
        /// What is wrong with it.
        why: NoLibrary,
        /// What to do.
        fix: &'static str,
    },
    /// What it refuses.
    #[error("{0}. {hint}", hint = .0.hint)]
    Refused(Refusal),
}

impl Unusable {
    /// Whether nothing is wrong: the runtime is not installed.
    pub fn is_absent(&self) -> bool {
        let Unusable::Library { why, .. } = self else {
            return false;
        };
        matches!(why, NoLibrary::Absent(_))
    }

    /// The error of a selection.
    pub fn into_error(self, asked: String) -> Error {
        let why = self.to_string();
        match self {
            Unusable::Library {
                why: NoLibrary::Old { .. },
                ..
            } => Error::Unsupported { asked, why },
            _ => Error::NoDevice { asked, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let fix = "Install the driver";
        let absent = Unusable::Library {
            why: NoLibrary::Absent("libcuda.so.1".into()),
            fix,
        };
        assert!(absent.is_absent());
        let error = absent.into_error("CUDA".into());
        let expected = "no device for CUDA: libcuda.so.1 is not installed. Install the driver";
        assert_eq!(error.to_string(), expected);
        let old = NoLibrary::Old {
            name: "libcuda.so.1".into(),
            function: "cuDevicePrimaryCtxReset_v2".into(),
        };
        let old = Unusable::Library { why: old, fix };
        assert!(!old.is_absent());
        let error = old.into_error("CUDA".into());
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
}
