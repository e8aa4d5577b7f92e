//! The cases that `scripts/op-references` wrote: one JSON list, and one file of tensors per group.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;
use tensor::io::safetensors::{self, SafetensorsError};

use crate::array::{Array, Tolerance};

/// Why the cases could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The list is not there or not readable.
    #[error("{file}: {source}; run scripts/op-references")]
    Read {
        /// The list.
        file: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The list is not what this runner reads.
    #[error("{file}: {source}; run scripts/op-references")]
    Parse {
        /// The list.
        file: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A file of tensors is damaged, or lacks a tensor.
    #[error(transparent)]
    Tensors(#[from] SafetensorsError),
    /// An attribute is missing or has another type.
    #[error("{case}: attribute {name}: expected {expected}, found {found}")]
    Attribute {
        /// The case.
        case: String,
        /// The attribute.
        name: String,
        /// The type that the operation takes.
        expected: &'static str,
        /// What the list says.
        found: String,
    },
}

/// Where the list came from.
#[derive(Debug, Deserialize)]
pub struct Header {
    /// Name and version of the format: `doorbell.references/1`.
    pub schema: String,
    /// What wrote it.
    pub command: String,
    /// Version of PyTorch.
    pub torch: String,
    /// Version of NumPy.
    pub numpy: String,
}

#[derive(Deserialize)]
struct Manifest {
    header: Header,
    groups: BTreeMap<String, Vec<Case>>,
}

/// One call and what it has to give. Tensors are named as in the file of the group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique in its group: operation, types, variant.
    pub case: String,
    /// The method of `Tensor`, or the optimizer.
    pub op: String,
    /// Arguments that are not tensors.
    attrs: BTreeMap<String, Json>,
    /// Arguments that are tensors.
    pub inputs: Vec<String>,
    /// Results.
    pub outputs: Vec<String>,
    /// Relative and absolute; none means exact.
    tol: Option<[f64; 2]>,
    /// Gradient that comes from above, for each result that has one.
    pub upstream: Option<Vec<Option<String>>>,
    /// Gradient of each input that has one.
    pub grads: Option<Vec<Option<String>>>,
    grad_tol: Option<[f64; 2]>,
}

fn tolerance(pair: Option<[f64; 2]>) -> Tolerance {
    pair.map_or(Tolerance::Exact, |[relative, absolute]| Tolerance::Near {
        relative,
        absolute,
    })
}

/// The value of a JSON number, or of an infinity or NaN, which are strings there.
fn float(json: &Json) -> Option<f64> {
    match json {
        Json::String(text) if ["inf", "-inf", "nan"].contains(&text.as_str()) => text.parse().ok(),
        other => other.as_f64(),
    }
}

impl Case {
    /// How close results have to be.
    pub fn tolerance(&self) -> Tolerance {
        tolerance(self.tol)
    }

    /// How close gradients have to be.
    pub fn grad_tolerance(&self) -> Tolerance {
        tolerance(self.grad_tol)
    }

    fn get<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&Json) -> Option<T>,
    ) -> Result<T, ManifestError> {
        let json = self.attrs.get(name).unwrap_or(&Json::Null);
        read(json).ok_or_else(|| ManifestError::Attribute {
            case: self.case.clone(),
            name: name.to_string(),
            expected,
            found: json.to_string(),
        })
    }

    /// A number that may be infinite or NaN.
    ///
    /// # Errors
    /// No such number; so for all that follow.
    pub fn float(&self, name: &str) -> Result<f64, ManifestError> {
        self.get(name, "a number", float)
    }

    /// A number, or nothing.
    ///
    /// # Errors
    /// Something else.
    pub fn maybe_float(&self, name: &str) -> Result<Option<f64>, ManifestError> {
        self.get(name, "a number or null", |json| match json {
            Json::Null => Some(None),
            other => float(other).map(Some),
        })
    }

    /// A truth value.
    ///
    /// # Errors
    /// Something else.
    pub fn flag(&self, name: &str) -> Result<bool, ManifestError> {
        self.get(name, "true or false", Json::as_bool)
    }

    /// A word.
    ///
    /// # Errors
    /// Something else.
    pub fn text(&self, name: &str) -> Result<&str, ManifestError> {
        self.get(name, "text", |json| json.as_str().map(str::to_string))?;
        Ok(self
            .attrs
            .get(name)
            .and_then(Json::as_str)
            .unwrap_or_default())
    }

    /// An integer of either sign, such as an axis.
    ///
    /// # Errors
    /// Something else.
    pub fn int(&self, name: &str) -> Result<isize, ManifestError> {
        self.get(name, "an integer", |json| {
            isize::try_from(json.as_i64()?).ok()
        })
    }

    /// A size.
    ///
    /// # Errors
    /// Something else.
    pub fn size(&self, name: &str) -> Result<usize, ManifestError> {
        self.get(name, "a size", |json| usize::try_from(json.as_u64()?).ok())
    }

    fn list<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&Json) -> Option<T>,
    ) -> Result<Vec<T>, ManifestError> {
        self.get(name, expected, |json| {
            json.as_array()?.iter().map(&read).collect()
        })
    }

    /// Integers, such as axes.
    ///
    /// # Errors
    /// Something else.
    pub fn ints(&self, name: &str) -> Result<Vec<isize>, ManifestError> {
        self.list(name, "a list of integers", |j| {
            isize::try_from(j.as_i64()?).ok()
        })
    }

    /// Sizes, such as a shape.
    ///
    /// # Errors
    /// Something else.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>, ManifestError> {
        self.list(name, "a list of sizes", |j| {
            usize::try_from(j.as_u64()?).ok()
        })
    }

    /// Numbers.
    ///
    /// # Errors
    /// Something else.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, ManifestError> {
        self.list(name, "a list of numbers", float)
    }

    /// Lists of integers or nothing, such as the start, end and step of a slice.
    ///
    /// # Errors
    /// Something else.
    pub fn spans(&self, name: &str) -> Result<Vec<Vec<Option<isize>>>, ManifestError> {
        self.list(name, "a list of lists of integers", |row| {
            row.as_array()?
                .iter()
                .map(|j| match j {
                    Json::Null => Some(None),
                    other => isize::try_from(other.as_i64()?).ok().map(Some),
                })
                .collect()
        })
    }
}

/// The cases of one group and their tensors.
pub struct Group {
    /// Such as `elementwise`.
    pub name: String,
    /// In the order of the list.
    pub cases: Vec<Case>,
    tensors: safetensors::File,
}

impl Group {
    /// A tensor of the group.
    ///
    /// # Errors
    /// The file lacks it.
    pub fn array(&self, name: &str) -> Result<Array, ManifestError> {
        let entry = self.tensors.entry(name)?;
        Ok(Array {
            dtype: entry.dtype,
            shape: entry.shape.clone(),
            bytes: self.tensors.data(name)?.to_vec(),
        })
    }

    /// Several of them.
    ///
    /// # Errors
    /// The file lacks one.
    pub fn arrays(&self, names: &[String]) -> Result<Vec<Array>, ManifestError> {
        names.iter().map(|name| self.array(name)).collect()
    }
}

/// Everything that `scripts/op-references` wrote.
pub struct References {
    /// Where it came from.
    pub header: Header,
    /// In order of name.
    pub groups: Vec<Group>,
}

impl References {
    /// The folder: what `DOORBELL_REFERENCES` says, for a program that was carried elsewhere; else that of the
    /// source tree.
    pub fn folder() -> PathBuf {
        let said = std::env::var_os("DOORBELL_REFERENCES").map(PathBuf::from);
        said.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("ops"))
    }

    /// Reads a folder.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn open(folder: &Path) -> Result<References, ManifestError> {
        let file = folder.join("manifest.json");
        let text = std::fs::read_to_string(&file).map_err(|source| ManifestError::Read {
            file: file.clone(),
            source,
        })?;
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|source| ManifestError::Parse { file, source })?;
        let groups = manifest
            .groups
            .into_iter()
            .map(|(name, cases)| {
                let tensors = safetensors::File::open(folder.join(format!("{name}.safetensors")))?;
                Ok(Group {
                    name,
                    cases,
                    tensors,
                })
            })
            .collect::<Result<_, ManifestError>>()?;
        Ok(References {
            header: manifest.header,
            groups,
        })
    }
}
