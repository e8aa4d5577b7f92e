//! NVIDIA's own files, as Debian packages them. `scripts/fetch firmware` puts them into `target/firmware`; without them
//! these tests say so and end.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use firmware_tools::manifest::sha256;
use firmware_tools::nv::chip::{CHIPS, Start};
use firmware_tools::nv::known::{Standing, standing};
use firmware_tools::nv::radix3::Sizes;
use firmware_tools::nv::{Branch, Contents, Image, Kind, Version};
use firmware_tools::search::Search;

/// What an independent reader found in the files: see scripts/firmware-nvidia.
const LISTING: &str = include_str!("../data/tests/nvidia-parts.tsv");

/// The folders of the packages, if they are there.
fn folders() -> Option<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/firmware");
    let folders = ["nvidia-graphics", "nvidia-gsp"].map(|folder| root.join(folder));
    let missing = folders
        .iter()
        .find(|folder| !folder.join("fetched").exists());
    if let Some(missing) = missing {
        eprintln!(
            "skipped: {} is missing; run scripts/fetch firmware",
            missing.display()
        );
        return None;
    }
    Some(folders.into())
}

/// Whether a package has the version that is locked: a mirror may have another.
fn locked(folder: &Path) -> bool {
    !fs::read_to_string(folder.join("fetched"))
        .unwrap()
        .contains("but for versions")
}

/// Every file below a folder, by its name from there on; those that are links only where they are files.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let top = folder.join("nvidia");
    let all = Search::only([folder.to_path_buf()]).files().unwrap();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(&top).ok()?.to_str()?.to_owned();
        Some((name, path))
    };
    all.into_iter().filter_map(named).collect()
}

#[test]
fn every_file_is_taken_apart() {
    let Some(folders) = folders() else { return };
    let mut kinds = BTreeMap::<&str, usize>::new();
    let mut seen = BTreeSet::new();
    for (name, path) in folders.iter().flat_map(|folder| files(folder)) {
        if !seen.insert(path.canonicalize().unwrap()) {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let image = Image::parse(&name, &bytes).unwrap_or_else(|e| panic!("{e}"));
        *kinds.entry(image.kind().name()).or_default() += 1;
        for part in image.parts() {
            let start = part.offset as usize;
            assert_eq!(
                bytes[start..start + part.bytes.len()].len(),
                part.bytes.len(),
                "{name}"
            );
        }
    }
    for (kind, least) in [
        ("gsp", 6),
        ("booter", 21),
        ("bootloader", 9),
        ("falcon bootloader", 3),
        ("fmc", 3),
        ("acr", 20),
    ] {
        let found = kinds.get(kind).copied().unwrap_or(0);
        assert!(
            found >= least,
            "{kind}: expected {least} or more: {kinds:?}"
        );
    }
}

/// Our parser and the script that knows nothing of it find the same.
#[test]
fn parts_are_those_of_an_independent_reader() {
    let Some(folders) = folders() else { return };
    let mut lines = 0;
    for folder in folders.iter().filter(|folder| locked(folder)) {
        for (name, path) in files(folder) {
            let expected: BTreeSet<&str> = LISTING
                .lines()
                .filter(|line| line.split('\t').next() == Some(&name))
                .collect();
            if expected.is_empty() {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let image = Image::parse(&name, &bytes).unwrap();
            let mut found = BTreeSet::new();
            for part in image.parts() {
                let hash = sha256(part.bytes);
                let size = part.bytes.len();
                found.insert(format!(
                    "{name}\t{}\t{}\t{size}\t{hash}",
                    part.name, part.offset
                ));
            }
            let mut facts = image.facts();
            facts.sort();
            let facts: Vec<String> = facts.iter().map(|(k, v)| format!("{k}: {v}")).collect();
            found.insert(format!("{name}\t=\t{}", facts.join("; ")));
            assert_eq!(
                found.iter().map(String::as_str).collect::<BTreeSet<_>>(),
                expected
            );
            lines += expected.len();
        }
    }
    let whole = LISTING
        .lines()
        .filter(|line| !line.starts_with('#'))
        .count();
    if folders.iter().all(|folder| locked(folder)) {
        assert_eq!(lines, whole);
    }
}

#[test]
fn boots_find_their_files_and_know_their_release() {
    let Some(folders) = folders() else { return };
    let search = Search::only([folders[0].clone()]);
    for chip in CHIPS {
        for version in chip.versions() {
            for name in chip.boot_files(*version) {
                let found = search.find(&name).unwrap_or_else(|e| panic!("{e}"));
                let image = Image::parse(&name, &found.bytes).unwrap();
                assert_eq!(image.version(), Some(*version), "{name}");
                if locked(&folders[0]) {
                    let hash = sha256(&found.bytes);
                    let standing = standing(&name, &hash);
                    assert!(matches!(standing, Standing::Of(_)), "{name}: {standing:?}");
                }
                match image.contents() {
                    Contents::Gsp(gsp) => {
                        assert!(
                            gsp.signature(chip.signature).is_some(),
                            "{name} for {}",
                            chip.name
                        );
                        assert_eq!(
                            Sizes::of(gsp.image().len() as u64).unwrap().levels[..2],
                            [1, 1]
                        );
                    }
                    Contents::Booter(booter) => {
                        assert_eq!(chip.start, Start::Booter);
                        // What nv.md and NVIDIA's modules say of Ampere and Ada.
                        assert_eq!((booter.engine_id, booter.ucode_id), (1, 3), "{name}");
                        assert_eq!(booter.signature_in_data(), 0x10, "{name}");
                        let last = booter.signatures().last().unwrap();
                        let image = booter.signed(0).unwrap();
                        assert_eq!(&image[booter.patch..booter.patch + 384], last, "{name}");
                    }
                    Contents::Fmc(_) => assert_eq!(chip.start, Start::Fsp),
                    Contents::Loader(loader) => assert_eq!(loader.descriptor, 5),
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
    }
}

/// NVIDIA's driver has GSP's firmware in folders by its version.
#[test]
fn the_drivers_own_package_is_of_550() {
    let Some(folders) = folders() else { return };
    let mut seen = 0;
    for (name, path) in files(&folders[1]) {
        if Kind::of(&name) == Some(Kind::Gsp) {
            let bytes = fs::read(&path).unwrap();
            let version = Image::parse(&name, &bytes).unwrap().version().unwrap();
            assert_eq!(version.branch(), Some(Branch::R550), "{name}");
            assert_eq!(Version::of_name(&name), Some(version));
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
}

/// Files of every kind, damaged: cut anywhere, a bit flipped anywhere in the headers.
#[test]
fn damaged_files_are_refused_or_taken_apart_inside_of_their_bytes() {
    let Some(folders) = folders() else { return };
    let mut seen = BTreeSet::new();
    let mut refused = 0;
    for (name, path) in folders.iter().flat_map(|folder| files(folder)) {
        let Some(kind) = Kind::of(&name).filter(|kind| !matches!(kind, Kind::Raw(_))) else {
            continue;
        };
        let mut bytes = fs::read(&path).unwrap();
        if !seen.insert((kind.name(), bytes.len() > 30_000)) {
            continue;
        }
        let lens = (0..200).chain((200..bytes.len()).step_by(bytes.len() / 50));
        for len in lens.filter(|len| *len < bytes.len()) {
            // What lies behind the last part of an ELF are its headers, and of others, its code.
            let result = Image::parse(&name, &bytes[..len]);
            assert!(result.is_err(), "{name}: {len} of {} bytes", bytes.len());
        }
        // An ELF's headers are at either end.
        let whole = bytes.len();
        let bits = (0..150 * 8).chain((whole - 640) * 8..whole * 8);
        for bit in bits.step_by(if whole > 10_000_000 { 7 } else { 1 }) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            match Image::parse(&name, &bytes) {
                Ok(image) => {
                    for part in image.parts() {
                        assert!(part.offset as usize + part.bytes.len() <= whole, "{name}");
                    }
                }
                Err(_) => refused += 1,
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(seen.len() >= 8, "{seen:?}");
    assert!(refused > 2000, "{refused}");
}
