//! Simulated cards are in a program of their own, `doorbell-twin`, beside this one. In a checkout it is built when a
//! card is first asked for, and again when its source is newer.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::error::Error;
use super::output::say;

const NAME: &str = "doorbell-twin";
/// Those of this program, and simulated cards.
const FEATURES: &str = match (cfg!(feature = "llvm"), cfg!(feature = "usb")) {
    (true, true) => "cli,twin,llvm,usb",
    (true, false) => "cli,twin,llvm",
    (false, true) => "cli,twin,usb",
    (false, false) => "cli,twin",
};

/// Becomes the program with simulated cards, with the same arguments and variables. Returns only why it could not:
/// `asked` is what needs it.
pub fn run(asked: &str) -> Error {
    match program(asked) {
        Ok(program) => {
            let failed = Command::new(&program)
                .args(std::env::args_os().skip(1))
                .exec();
            Error::File {
                path: program.display().to_string(),
                source: failed,
            }
        }
        Err(why) => why,
    }
}

fn program(asked: &str) -> Result<PathBuf, Error> {
    let without = |what: &str| {
        Error::Usage(format!(
            "{asked} needs {NAME}, the program with simulated cards: {what}\n  fix: in a checkout: \
             cargo build --release -p doorbell --features {FEATURES} --bin {NAME}\n  or:  DEV=CPU"
        ))
    };
    let this = std::env::current_exe().map_err(|e| without(&e.to_string()))?;
    let beside = this.with_file_name(NAME);
    let Some((root, profile)) = checkout(&this) else {
        return match beside.is_file() {
            true => Ok(beside),
            false => Err(without(&format!("{} does not exist", beside.display()))),
        };
    };
    if is_current(&beside) {
        return Ok(beside);
    }
    say!(
        "{asked}: building {NAME}, the program with simulated cards (once; two minutes on two cores)"
    );
    let mut cargo = Command::new("bash");
    cargo
        .args(["-c", ". scripts/env.sh && exec cargo \"$@\"", "cargo"])
        .args(["build", "--locked", "-p", "doorbell", "--bin", NAME])
        .args(["--profile", profile, "--no-default-features"])
        .args(["--features", FEATURES])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let ended = cargo.status().map_err(|e| without(&e.to_string()))?;
    match ended.success() {
        true => Ok(beside),
        false => Err(without(&format!("cargo failed with {ended}"))),
    }
}

/// The root of the checkout whose `target` a program lies in, and the profile that it was built with.
fn checkout(program: &Path) -> Option<(PathBuf, &'static str)> {
    let root = codegen::checkout::target_of("env.sh")?;
    let root = root.parent()?.to_path_buf();
    let profile = match program.parent()?.file_name()?.to_str()? {
        "release" => "release",
        "debug" => "dev",
        _ => return None,
    };
    Some((root, profile))
}

/// Whether a program is there and newer than all of its source, of which cargo has left a list beside it.
fn is_current(program: &Path) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|m| m.modified());
    let Ok(built) = time(program) else {
        return false;
    };
    let Ok(list) = std::fs::read_to_string(program.with_extension("d")) else {
        return false;
    };
    let older = |source: &PathBuf| time(source).is_ok_and(|at: SystemTime| at <= built);
    sources(&list).iter().all(older)
}

/// The files after the colon of a rule for make, where a backslash comes before a space of a name.
fn sources(list: &str) -> Vec<PathBuf> {
    let mut found = vec![String::new()];
    let (_, files) = list.split_once(": ").unwrap_or_default();
    let mut letters = files.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => found
                .last_mut()
                .map_or((), |name| name.extend(letters.next())),
            ' ' | '\n' => found.push(String::new()),
            _ => found.last_mut().map_or((), |name| name.push(letter)),
        }
    }
    let names = found.into_iter().filter(|name| !name.is_empty());
    names.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::fs::{File, write};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_program_is_current_while_none_of_its_files_is_newer_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let program = at(NAME);
        assert!(!is_current(&program), "not there");
        for name in ["a.rs", "b c.rs", NAME] {
            write(at(name), "").unwrap();
        }
        assert!(!is_current(&program), "no list");
        let [a, b] = ["a.rs", "b c.rs"].map(|name| at(name).display().to_string());
        let list = format!("{}: {a} {}\n", program.display(), b.replace(' ', "\\ "));
        write(at("doorbell-twin.d"), &list).unwrap();
        assert_eq!(sources(&list), [PathBuf::from(&a), PathBuf::from(&b)]);
        let built = std::fs::metadata(&program).unwrap().modified().unwrap();
        let dated = |name: &str, by: Duration| {
            let file = File::options().write(true).open(at(name)).unwrap();
            file.set_modified(built + by).unwrap();
        };
        dated("a.rs", Duration::ZERO);
        dated("b c.rs", Duration::ZERO);
        assert!(is_current(&program));
        dated("b c.rs", Duration::from_secs(1));
        assert!(!is_current(&program), "a newer file");
        dated("b c.rs", Duration::ZERO);
        std::fs::remove_file(at("a.rs")).unwrap();
        assert!(!is_current(&program), "a file that is gone");
    }
}
