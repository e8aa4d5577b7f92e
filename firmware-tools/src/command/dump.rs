//! `dump`: what files hold.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::list::version;
use super::{Failure, json, nvidia};
use crate::amd::{Checksum, Image, PartId};
use crate::manifest::sha256;
use crate::{Error, Vendor, search};

/// Show what files hold.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Files, compressed or not
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON (schema doorbell.fw-dump/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    file: String,
    kind: &'static str,
    used_for_compute: bool,
    sha256: String,
    size: usize,
    header_version: String,
    ip_version: String,
    ucode_version: String,
    ucode_offset: u32,
    ucode_bytes: u32,
    checksum: &'static str,
    /// Where an RS64 processor starts.
    start: Option<String>,
    parts: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    name: String,
    /// The numbers under which it is handed over.
    types: Vec<u32>,
    version: String,
    feature: Option<u32>,
    auxiliary: bool,
    offset: u64,
    size: usize,
    /// How many bytes of it are signed.
    signed: Option<u32>,
}

impl Row {
    fn of(file: String, bytes: &[u8]) -> Result<Row, Error> {
        let image = Image::parse(&file, bytes)?;
        let h = image.header();
        let parts = image.parts().iter().map(|part| Part {
            name: part.id.name(),
            types: match part.id {
                PartId::Psp(id) => vec![id.0],
                PartId::Ta(id) => vec![id.0],
                PartId::Ip(ids) => ids.iter().map(|id| id.0).collect(),
                PartId::Table(id) => vec![id],
            },
            version: version(part.version),
            feature: part.feature,
            auxiliary: part.auxiliary,
            offset: part.offset,
            size: part.bytes.len(),
            signed: part.signed().map(|signed| signed.bytes),
        });
        Ok(Row {
            kind: image.kind().name(),
            used_for_compute: image.kind().used(),
            sha256: sha256(bytes),
            size: bytes.len(),
            header_version: format!("{}.{}", h.header_version_major, h.header_version_minor),
            ip_version: format!("{}.{}", h.ip_version_major, h.ip_version_minor),
            ucode_version: version(h.ucode_version.get()),
            ucode_offset: h.ucode_array_offset_bytes.get(),
            ucode_bytes: h.ucode_size_bytes.get(),
            checksum: match image.checksum() {
                Checksum::Rest => "over everything after the common header",
                Checksum::Code => "over the code",
                Checksum::Unknown => "over an unknown range, as usual for this kind",
            },
            start: image.start().map(|start| format!("{start:#x}")),
            parts: parts.collect(),
            file,
        })
    }
}

/// A file of either vendor.
#[derive(Serialize)]
#[serde(untagged)]
enum Dump {
    Amd(Row),
    Nvidia(nvidia::Dump),
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut rows = Vec::new();
    for path in &args.files {
        let bytes = search::read(path)?;
        let file = path.display().to_string();
        rows.push(match Vendor::of(&file) {
            Vendor::Amd => Dump::Amd(Row::of(file, &bytes)?),
            Vendor::Nvidia => Dump::Nvidia(nvidia::Dump::of(file, &bytes)?),
        });
    }
    if args.json {
        json(out, "doorbell.fw-dump/1", &rows)?;
        return Ok(true);
    }
    for row in &rows {
        match row {
            Dump::Amd(row) => row.print(out)?,
            Dump::Nvidia(dump) => dump.print(out)?,
        }
    }
    Ok(true)
}

impl Row {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "{}", self.file)?;
        let unused = if self.used_for_compute {
            ""
        } else {
            ", not used for compute"
        };
        writeln!(
            out,
            "  {}{unused}: header {}, IP {}, version {}, {} bytes, crc32 {}",
            self.kind,
            self.header_version,
            self.ip_version,
            self.ucode_version,
            self.size,
            self.checksum
        )?;
        if let Some(start) = &self.start {
            writeln!(out, "  starts at {start}")?;
        }
        writeln!(out, "  sha256 {}", self.sha256)?;
        for part in &self.parts {
            let types: Vec<String> = part.types.iter().map(u32::to_string).collect();
            let feature = part
                .feature
                .map(|f| format!(", features {f}"))
                .unwrap_or_default();
            let second = if part.auxiliary { ", second set" } else { "" };
            writeln!(
                out,
                "  {:<26} {:>8} bytes at {:>8}, type {}, version {}{feature}{second}",
                part.name,
                part.size,
                part.offset,
                types.join(" "),
                part.version
            )?;
        }
        Ok(())
    }
}
