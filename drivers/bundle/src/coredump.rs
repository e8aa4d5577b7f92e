//! [`CoredumpWriter`]: the folder of bundles. Each is a new file, nothing is overwritten, and there is an end to it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use hcq::transport::Machine;
use thiserror::Error;

use crate::limits::{self, TooMuch, Unread, bounded};
use crate::schema::{Bundle, Kind, SCHEMA, System, Written};
use crate::system;

/// Bundles that a folder has at most.
const MOST: usize = 64;

/// Maximum number of bundles of waits that a device writes while it is open: repeated waits have the same cause.
const WAITS: u32 = 4;

/// Bundles of at least this many bytes are compressed.
const LONG: usize = 256 << 10;

/// Bytes of a bundle at most, as a file and unpacked: more is none of ours.
const LARGEST: u64 = 32 << 20;

/// Objects of a bundle at most. Kernels are the most of them, thousands.
const OBJECTS: u64 = 50_000;

/// Kernels that are written at most.
const KERNELS: usize = 20_000;

/// Values of a bundle at most.
const VALUES: u64 = 1_000_000;

/// The folder of a device's bundles, and the machine's data in each of them.
pub struct CoredumpWriter {
    folder: PathBuf,
    /// A wait that was shorter is no hang.
    timeout: Duration,
    environment: Vec<[String; 2]>,
    machine: Arc<dyn Machine>,
    simulated: bool,
    waits: AtomicU32,
}

impl std::fmt::Debug for CoredumpWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CoredumpWriter({})", self.folder.display())
    }
}

/// Why a bundle cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{}: expected a bundle written by Doorbell ({SCHEMA}), found {found}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What.
        found: String,
    },
    /// It holds more than a bundle does.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
}

impl CoredumpWriter {
    /// Bundles of a device of a machine go to a folder, which is made when the first one is written. `environment`
    /// are the variables that choose or change devices.
    pub fn new(
        folder: PathBuf,
        timeout: Duration,
        environment: Vec<[String; 2]>,
        machine: Arc<dyn Machine>,
        simulated: bool,
    ) -> CoredumpWriter {
        CoredumpWriter {
            folder,
            timeout,
            environment,
            machine,
            simulated,
            waits: AtomicU32::new(0),
        }
    }

    /// Whether a wait that has lasted so long is to be kept: it is as long as a hang, and there are not too many.
    pub fn wants_wait(&self, after: Duration) -> bool {
        after >= self.timeout && self.waits.fetch_add(1, Ordering::Relaxed) < WAITS
    }

    /// Writes a bundle, with the system information about the device. Returns its path.
    ///
    /// # Errors
    /// Why there is none, and what to do: it goes into the message of the error that the bundle is of.
    pub fn keep(&self, mut bundle: Bundle) -> Result<PathBuf, String> {
        bundle.system = System {
            simulated: self.simulated,
            files: system::files(&*self.machine, &bundle.device.place),
            environment: self.environment.clone(),
        };
        bundle
            .evidence
            .firmware
            .extend(system::firmware(&*self.machine, &bundle.device.place));
        write(&self.folder, bundle)
    }
}

/// Writes a bundle to a folder as it is, but for who writes it and when. Returns its file.
///
/// # Errors
/// As [`CoredumpWriter::keep`].
pub fn write(folder: &Path, mut bundle: Bundle) -> Result<PathBuf, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name);
    bundle.schema = SCHEMA.into();
    bundle.written = Written {
        version: env!("CARGO_PKG_VERSION").into(),
        program: program.unwrap_or_default().to_string_lossy().into_owned(),
        process: std::process::id(),
        at: now.map_or(0, |now| now.as_secs()),
    };
    let more = bundle.kernels.len().saturating_sub(KERNELS);
    if more > 0 {
        bundle.kernels.truncate(KERNELS);
        let missing = &mut bundle.evidence.missing;
        missing.push(format!("{more} more kernels, too many for one file"));
    }
    let mut text = serde_json::to_vec_pretty(&bundle).map_err(|e| e.to_string())?;
    text.push(b'\n');
    let failed = |e: io::Error| format!("{}: {e}", folder.display());
    let mut made = DirBuilder::new();
    let made = made.recursive(true).mode(0o700).create(folder);
    made.map_err(failed)?;
    if has(folder).map_err(failed)? >= MOST {
        let folder = folder.display();
        return Err(format!("{folder} has {MOST} bundles: read and delete some"));
    }
    let is_long = text.len() >= LONG;
    let (mut file, path) = create(folder, &bundle, is_long).map_err(failed)?;
    let written = match is_long {
        false => file.write_all(&text),
        true => {
            let mut packed = GzEncoder::new(&mut file, Compression::fast());
            packed.write_all(&text).and_then(|()| packed.try_finish())
        }
    };
    written.map_err(|e| {
        // A partial bundle is useless.
        let _ = fs::remove_file(&path);
        format!("{}: {e}", path.display())
    })?;
    Ok(path)
}

fn has(folder: &Path) -> io::Result<usize> {
    let names = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.file_name());
    let is_ours = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        name.ends_with(".json") || name.ends_with(".json.gz")
    };
    Ok(names.filter(is_ours).count())
}

/// A file that was not there before.
fn create(folder: &Path, bundle: &Bundle, is_long: bool) -> io::Result<(File, PathBuf)> {
    let moment = moment(bundle.written.at);
    let device: String = bundle.device.id.chars().map(plain).collect();
    let kind = match bundle.kind {
        Kind::Fault => "fault",
        Kind::Hang => "hang",
        Kind::Start => "start",
        Kind::Check => "check",
        Kind::Rules => "rules",
    };
    let end = if is_long { ".json.gz" } else { ".json" };
    for n in 1..=1000 {
        let nth = if n == 1 {
            String::new()
        } else {
            format!("-{n}")
        };
        let path = folder.join(format!("{moment}-{device}-{kind}{nth}{end}"));
        // It has words of rings and of memory, which other users must not read.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => return Ok((done?, path)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '-' }
}

/// Seconds since 1970 as `20261123T094500Z`: names sort by time.
fn moment(at: u64) -> String {
    let (days, second) = ((at / 86_400) as i64, at % 86_400);
    // Years that start in March have the leap day last; 400 of them have 146 097 days.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{date:02}T{hour:02}{minute:02}{second:02}Z")
}

impl Bundle {
    /// Reads a bundle.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(path: &Path) -> Result<Bundle, ReadError> {
        let refused = |source| ReadError::File {
            path: path.to_owned(),
            source,
        };
        let other = |found: String| ReadError::Other {
            path: path.to_owned(),
            found,
        };
        let too_much = |what, most, found| {
            let path = path.to_owned();
            Err(ReadError::TooMuch(TooMuch {
                path,
                what,
                most,
                found,
            }))
        };
        let mut bytes = limits::read(path, LARGEST).map_err(|unread| match unread {
            Unread::Refused(source) => refused(source),
            Unread::TooMuch(error) => error.into(),
        })?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let what = "bytes uncompressed";
            // A packed file ends with its size, modulo 2^32 (RFC 1952).
            let says = bytes.last_chunk().copied().map_or(0, u32::from_le_bytes);
            if u64::from(says) > LARGEST {
                return too_much(what, LARGEST, says.to_string());
            }
            let text = bounded(GzDecoder::new(&*bytes), LARGEST, says.into());
            let text = text.map_err(|e| other(format!("a corrupt gzip file ({e})")))?;
            match text {
                Some(text) => bytes = text,
                None => {
                    return too_much(
                        what,
                        LARGEST,
                        format!("more than its declared size of {says}"),
                    );
                }
            }
        }
        // What a text becomes is up to a hundred times as large.
        let made = limits::made(&bytes);
        for (what, most, found) in [
            ("objects", OBJECTS, made.objects),
            ("values", VALUES, made.values),
        ] {
            if found > most {
                return too_much(what, most, found.to_string());
            }
        }
        #[derive(serde::Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_slice(&bytes).map_err(|e| other(e.to_string()))?;
        if head.schema != SCHEMA {
            return Err(other(format!("{:?}", head.schema)));
        }
        serde_json::from_slice(&bytes).map_err(|e| other(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::schema::{Device, Hex, Kernel};

    fn bundle(kernels: usize) -> Bundle {
        Bundle {
            device: Device {
                id: "AMD:0".into(),
                ..Device::default()
            },
            kernels: (0..kernels)
                .map(|i| Kernel {
                    name: format!("kernel_{i}"),
                    at: Hex(i as u64),
                    bytes: Hex(4096),
                })
                .collect(),
            ..Bundle::default()
        }
    }

    #[test]
    fn moments_are_dates() {
        for (at, text) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_795_427_133, "20261123T094533Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(moment(at), text);
        }
    }

    #[test]
    fn each_is_a_new_file_short_or_packed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state/doorbell");
        let mut paths = Vec::new();
        for kernels in [1, 1, KERNELS + 7] {
            let path = write(&folder, bundle(kernels)).unwrap();
            let back = Bundle::read(&path).unwrap();
            assert_eq!(back.kernels, bundle(kernels.min(KERNELS)).kernels);
            let missing: &[&str] = match kernels > KERNELS {
                true => &["7 more kernels, too many for one file"],
                false => &[],
            };
            assert_eq!(back.evidence.missing, missing);
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
            paths.push(path);
        }
        assert!(paths[0] != paths[1]);
        assert!(paths[1].extension().is_some_and(|end| end == "json"));
        assert!(paths[2].to_string_lossy().ends_with("AMD-0-fault.json.gz"));
        assert!(paths[2].metadata().unwrap().len() < LONG as u64);
    }

    #[test]
    fn a_full_folder_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for i in 0..MOST {
            File::create(folder.path().join(format!("{i}.json"))).unwrap();
        }
        let error = write(folder.path(), bundle(0)).unwrap_err();
        assert!(
            error.ends_with("has 64 bundles: read and delete some"),
            "{error}"
        );
        assert_eq!(has(folder.path()).unwrap(), MOST);
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for (bytes, found) in [
            (&b"{}"[..], "missing field `schema`"),
            (
                br#"{"schema": "doorbell.bundle/2"}"#,
                "\"doorbell.bundle/2\"",
            ),
            (b"\x1f\x8b1\0\0\0\0", "a corrupt gzip file"),
            (b"text", "found expected"),
        ] {
            fs::write(&path, bytes).unwrap();
            let error = Bundle::read(&path).unwrap_err().to_string();
            assert!(error.contains(found), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(Bundle::read(&path), Err(ReadError::File { .. })));
    }
}
