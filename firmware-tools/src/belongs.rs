//! Whether a file is the one that its name says. No header names the chip: the hashes of known releases tell one file from
//! another, and AMD's headers have the version of the block that the code is for.

use crate::{Error, known, nv};

/// AMD's package in Debian, for messages.
const PACKAGE: &str = "firmware-amd-graphics";

/// The name of a file without folders and packing.
pub(crate) fn base(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let file = file.strip_suffix(".zst").unwrap_or(file);
    file.strip_suffix(".xz").unwrap_or(file)
}

fn other(name: &str, is: String, expected: String) -> Error {
    Error::Other {
        name: name.into(),
        is,
        expected,
    }
}

/// Looks whether a file of AMD's is of the chip that its name says; `block` is the major version of the block in its header.
///
/// # Errors
/// [`Error::Other`].
pub(crate) fn amd(name: &str, block: Option<u16>, sha256: &str) -> Result<(), Error> {
    let file = base(name);
    if let Some(known) = known::with_other_name(file, sha256) {
        let is = format!("{} of {PACKAGE} {}", known.name, known.release);
        return Err(other(name, is, format!("the file called {file}")));
    }
    // Files with names of their own (navi10_mec.bin) say no version.
    let mut words = file.split(['_', '.']);
    let ip = match words.next().unwrap_or_default() {
        "gc" => "GC",
        "sdma" => "SDMA",
        "psp" => "MP0",
        "smu" => "MP1",
        _ => return Ok(()),
    };
    let named = words.next().and_then(|word| word.parse::<u16>().ok());
    match (named, block) {
        (Some(named), Some(found)) if named != found => Err(other(
            name,
            format!("firmware for {ip} {found}, as its header says"),
            format!("firmware for {ip} {named}"),
        )),
        _ => Ok(()),
    }
}

/// The same of a file of NVIDIA's.
///
/// # Errors
/// [`Error::Other`].
pub(crate) fn nvidia(name: &str, sha256: &str) -> Result<(), Error> {
    match nv::known::with_other_name(name, sha256) {
        Some(known) => {
            let is = format!("{} of {} {}", known.name, known.package, known.release);
            Err(other(name, is, "the file of that name".into()))
        }
        None => Ok(()),
    }
}

/// Looks whether the files of a boot, names and hashes, can be of one release: nobody has tried files of several together.
/// Those of no known release may be of any.
///
/// # Errors
/// [`Error::Other`] with the first file that is of another release than those before it.
pub(crate) fn one_release<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
) -> Result<(), Error> {
    let mut before: Option<Vec<&'static str>> = None;
    for (name, sha256) in files {
        let known = known::releases(base(name)).into_iter();
        let of: Vec<_> = known
            .filter(|known| known.sha256 == sha256)
            .map(|known| known.release)
            .collect();
        if of.is_empty() {
            continue;
        }
        let Some(releases) = &mut before else {
            before = Some(of);
            continue;
        };
        if !releases.iter().any(|release| of.contains(release)) {
            let [is, expected] =
                [&of, &*releases].map(|all| format!("{PACKAGE} {}", all.join(" and ")));
            let expected = format!("{expected}, as the files before it");
            return Err(other(name, format!("of {is}"), expected));
        }
        releases.retain(|release| of.contains(release));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_chip_is_told_by_its_header() {
        let look = |name: &str| amd(name, Some(11), "00");
        for name in [
            "gc_11_0_0_mec.bin",
            "x/gc_11_0_3_mec.bin.xz",
            "navi10_mec.bin",
        ] {
            look(name).unwrap();
        }
        amd("psp_14_0_0_ta.bin", None, "00").unwrap();
        let error = look("x/gc_12_0_1_mec.bin").unwrap_err().to_string();
        let said = "x/gc_12_0_1_mec.bin: this is firmware for GC 11, as its header says, expected firmware for GC 12";
        assert!(error.starts_with(said), "{error}");
    }

    #[test]
    fn a_file_of_another_chip_is_told_by_its_hash() {
        let known = known::releases("gc_11_0_0_mec.bin");
        amd("gc_11_0_0_mec.bin", Some(11), known[0].sha256).unwrap();
        let error = amd("gc_11_0_3_mec.bin", Some(11), known[0].sha256).unwrap_err();
        let said = format!(
            "gc_11_0_3_mec.bin: this is gc_11_0_0_mec.bin of firmware-amd-graphics {}, expected the file called \
             gc_11_0_3_mec.bin",
            known[0].release
        );
        assert!(error.to_string().starts_with(&said), "{error}");
    }

    #[test]
    fn files_of_two_releases_are_not_taken_together() {
        let [old, new] = &known::releases("gc_11_0_0_mec.bin")[..] else {
            panic!("two releases are known");
        };
        let imu = known::releases("gc_11_0_0_imu.bin");
        let of = |release: &str| {
            let found = imu.iter().find(|known| known.release == release);
            (found.unwrap().name, found.unwrap().sha256)
        };
        let mec = |known: &known::Known| (known.name, known.sha256);
        for one in [old, new] {
            one_release([of(one.release), mec(one), ("gc_11_0_0_rlc.bin", "00")]).unwrap();
        }
        let mixed = one_release([mec(old), ("x", "00"), mec(new)]).unwrap_err();
        let said = format!(
            "gc_11_0_0_mec.bin: this is of firmware-amd-graphics {}, expected firmware-amd-graphics {}, as the files \
             before it",
            new.release, old.release
        );
        assert!(mixed.to_string().starts_with(&said), "{mixed}");
    }
}
