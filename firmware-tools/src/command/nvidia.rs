//! What the commands print of NVIDIA's files.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use super::Failure;
use crate::Error;
use crate::belongs;
use crate::manifest::sha256;
use crate::nv::known::{self, Standing};
use crate::nv::{Image, Kind};

/// A file as `dump` shows it.
#[derive(Serialize)]
pub(super) struct Dump {
    file: String,
    kind: &'static str,
    /// Whether GSP is booted with it.
    used_for_gsp: bool,
    sha256: String,
    size: usize,
    version: Option<String>,
    /// What its headers say, by names.
    facts: BTreeMap<&'static str, String>,
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    name: String,
    offset: u64,
    size: usize,
}

impl Dump {
    pub fn of(file: String, bytes: &[u8]) -> Result<Dump, Error> {
        let image = Image::parse(&file, bytes)?;
        let part = |part: crate::nv::Part<'_>| Part {
            name: part.name,
            offset: part.offset,
            size: part.bytes.len(),
        };
        Ok(Dump {
            kind: image.kind().name(),
            used_for_gsp: image.kind().used(),
            sha256: sha256(bytes),
            size: bytes.len(),
            version: image.version().map(|version| version.to_string()),
            facts: image.facts().into_iter().collect(),
            parts: image.parts().into_iter().map(part).collect(),
            file,
        })
    }

    pub fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "{}", self.file)?;
        let unused = if self.used_for_gsp {
            ""
        } else {
            ", not used for GSP"
        };
        let version = self.version.as_ref();
        let version = version
            .map(|version| format!("version {version}, "))
            .unwrap_or_default();
        writeln!(out, "  {}{unused}: {version}{} bytes", self.kind, self.size)?;
        for (name, value) in &self.facts {
            writeln!(out, "  {name}: {value}")?;
        }
        writeln!(out, "  sha256 {}", self.sha256)?;
        for part in &self.parts {
            let Part { name, offset, size } = part;
            writeln!(out, "  {name:<26} {size:>8} bytes at {offset:>8}")?;
        }
        Ok(())
    }
}

/// What `verify` says about a file that is whole.
pub(super) fn check(name: &str, bytes: &[u8]) -> Result<String, Error> {
    let image = Image::parse(name, bytes)?;
    let kind = image.kind();
    if let crate::nv::Contents::Vbios(vbios) = image.contents() {
        // Without it, no GSP is started on Ampere and Ada.
        vbios.fwsec(false)?;
        if let Some(image) = vbios.images.iter().find(|image| image.sum == Some(false)) {
            return Err(Error::Field {
                name: name.into(),
                field: format!("the sum of image {}", image.name()),
                found: "not 0".into(),
                expected: "0, of all bytes".into(),
            });
        }
    }
    let unused = if kind.used() {
        ""
    } else {
        ", not used for GSP"
    };
    let release = if kind == Kind::Vbios {
        String::new()
    } else {
        let sum = sha256(bytes);
        belongs::nvidia(name, &sum)?;
        match known::standing(name, &sum) {
            Standing::Of(known) => format!(", of {} {}", known.package, known.release),
            Standing::Differs(known) => format!(
                ", named as in {} {}, but the contents differ: damaged?",
                known.package, known.release
            ),
            Standing::Unknown => String::new(),
        }
    };
    let parts = match image.parts().len() {
        1 => "1 part".into(),
        n => format!("{n} parts"),
    };
    Ok(format!("{}{unused}, {parts}{release}", kind.name()))
}
