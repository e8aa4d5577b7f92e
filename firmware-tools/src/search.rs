//! Finds firmware: in given folders, then where the kernel looks, plain or compressed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Error, Vendor};

/// Folders that the kernel searches, in order.
pub const SYSTEM: [&str; 3] = [
    "/lib/firmware/updates",
    "/lib/firmware",
    "/usr/lib/firmware",
];
/// The folder of amdgpu below those.
pub const FOLDER: &str = Vendor::Amd.folder();
/// File name endings of compressed files that the kernel supports.
pub const PACKINGS: [&str; 3] = ["", ".zst", ".xz"];
/// Larger than any firmware of a GPU, so that a packed file cannot fill the memory. The largest are GSP's: 64 MB.
const MOST: u64 = 128 << 20;
/// How deep files of a package lie in the folder of their vendor: `ga102/gsp/gsp-570.144.bin`.
const DEPTH: usize = 3;

/// The folders to search.
#[derive(Clone, Debug)]
pub struct Search {
    first: Vec<PathBuf>,
    system: bool,
}

/// A file that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// Its contents, decompressed.
    pub bytes: Vec<u8>,
}

impl Search {
    /// Searches these folders (each or the vendor's in it: `amdgpu`, `nvidia`), then the system's.
    pub fn new(first: impl IntoIterator<Item = PathBuf>) -> Search {
        Search {
            system: true,
            ..Search::only(first)
        }
    }

    /// Searches only these folders.
    pub fn only(folders: impl IntoIterator<Item = PathBuf>) -> Search {
        Search {
            first: folders.into_iter().collect(),
            system: false,
        }
    }

    /// The folders that files of a vendor may be in, in order.
    fn folders(&self, vendor: Vendor) -> Vec<PathBuf> {
        let below = |folder: &PathBuf| [folder.clone(), folder.join(vendor.folder())];
        let mut folders: Vec<PathBuf> = self.first.iter().flat_map(below).collect();
        if self.system {
            folders.extend(SYSTEM.map(|folder| Path::new(folder).join(vendor.folder())));
        }
        folders
    }

    /// Reads the first file of this name, with folders below the vendor's where it has them
    /// (`ga102/gsp/gsp-570.144.bin`).
    ///
    /// # Errors
    /// [`Error::Missing`] with the folders, [`Error::File`] or [`Error::Packed`].
    pub fn find(&self, name: &str) -> Result<Found, Error> {
        let folders = self.folders(Vendor::of(name));
        for folder in &folders {
            for packing in PACKINGS {
                let path = folder.join(format!("{name}{packing}"));
                if path.is_file() {
                    let bytes = read(&path)?;
                    return Ok(Found { path, bytes });
                }
            }
        }
        let folders: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        Err(Error::Missing {
            name: name.into(),
            folders: folders.join(", "),
        })
    }

    /// Every file in the folders that exist, by name within each; of NVIDIA's, which are in folders by chip, those below
    /// too, but not through links to folders.
    ///
    /// # Errors
    /// [`Error::File`]
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        let mut all = Vec::new();
        for folder in self.folders(Vendor::Amd) {
            let depth = if Vendor::of(&folder.to_string_lossy()) == Vendor::Nvidia {
                DEPTH
            } else {
                0
            };
            below(&folder, depth, &mut all)?;
        }
        let nvidia = Path::new(Vendor::Nvidia.folder());
        let system = SYSTEM.iter().filter(|_| self.system).map(PathBuf::from);
        for folder in self.first.iter().cloned().chain(system) {
            below(&folder.join(nvidia), DEPTH, &mut all)?;
        }
        Ok(all)
    }
}

/// Adds the files of a folder, if it is one.
fn below(folder: &Path, depth: usize, all: &mut Vec<PathBuf>) -> Result<(), Error> {
    if !folder.is_dir() {
        return Ok(());
    }
    let error = |source| Error::File {
        path: folder.into(),
        source,
    };
    let mut here = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        here.push(entry.map_err(error)?.path());
    }
    here.sort();
    for path in here {
        if path.is_file() {
            all.push(path);
        } else if depth > 0 && !path.is_symlink() {
            below(&path, depth - 1, all)?;
        }
    }
    Ok(())
}

/// Reads a file, and decompresses it if its name says so.
///
/// # Errors
/// [`Error::File`] or [`Error::Packed`].
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let error = |source| Error::File {
        path: path.into(),
        source,
    };
    let file = fs::File::open(path).map_err(error)?;
    let packed = |why: String| Error::Packed {
        path: path.into(),
        why,
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => {
            let frames = ruzstd::decoding::StreamingDecoder::new(std::io::BufReader::new(file));
            let mut frames = frames.map_err(|e| packed(e.to_string()))?;
            limited(&mut frames).map_err(|e| packed(e.to_string()))
        }
        Some("xz") => {
            let mut blocks = lzma_rust2::XzReader::new(std::io::BufReader::new(file), true);
            limited(&mut blocks).map_err(|e| packed(e.to_string()))
        }
        _ => limited(&mut { file }).map_err(error),
    }
}

fn limited(from: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        let why = format!("expected at most {MOST} bytes of firmware, found more");
        return Err(std::io::Error::other(why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "firmware", packed by `zstd` 1.5.4 and `xz` 5.4.1 --check=crc32.
    const ZST: &[u8] = include_bytes!("../data/tests/firmware.zst");
    const XZ: &[u8] = include_bytes!("../data/tests/firmware.xz");

    #[test]
    fn folders_in_their_order_and_packings() {
        let one = tempfile::tempdir().unwrap();
        let two = tempfile::tempdir().unwrap();
        let folders = || [one.path().to_path_buf(), two.path().to_path_buf()];
        let search = Search::only(folders());
        let text = search.find("gc_11_0_0_me.bin").unwrap_err().to_string();
        assert!(text.contains("firmware-amd-graphics"), "{text}");
        assert!(
            text.contains(two.path().join("amdgpu").to_str().unwrap()),
            "{text}"
        );

        fs::create_dir(two.path().join("amdgpu")).unwrap();
        fs::write(two.path().join("amdgpu/x.bin.xz"), XZ).unwrap();
        assert_eq!(search.find("x.bin").unwrap().bytes, b"firmware");
        fs::write(one.path().join("x.bin.zst"), ZST).unwrap();
        let found = search.find("x.bin").unwrap();
        assert_eq!(found.bytes, b"firmware");
        assert!(found.path.ends_with("x.bin.zst"));
        fs::write(one.path().join("x.bin"), "plain").unwrap();
        assert_eq!(search.find("x.bin").unwrap().bytes, b"plain");
    }

    #[test]
    fn a_packed_file_that_is_damaged_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, whole) in [("a.zst", ZST), ("a.xz", XZ)] {
            let path = dir.path().join(name);
            for len in 0..whole.len() {
                fs::write(&path, &whole[..len]).unwrap();
                let text = read(&path).unwrap_err().to_string();
                assert!(
                    text.contains(name) && text.contains("install it again"),
                    "{text}"
                );
            }
            for at in 0..whole.len() {
                let mut bytes = whole.to_vec();
                bytes[at] ^= 0x10;
                fs::write(&path, bytes).unwrap();
                // Either refused, or a bit that nothing is held against: never a panic.
                let _ = read(&path);
            }
        }
    }
}
