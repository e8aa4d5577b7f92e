//! Finds files that scripts of a checkout have fetched, for programs built in it.

use std::path::PathBuf;

/// The folder `target` that this program lies in, if that is of a checkout with this script in its folder `scripts`.
pub fn target_of(script: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let mut folders = program.ancestors();
    let target = folders.find(|folder| folder.ends_with("target"))?;
    let script = target.parent()?.join("scripts").join(script);
    script.is_file().then(|| target.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_this_checkout_are_known() {
        let program = std::env::current_exe().unwrap();
        // Not where the programs of a build lie elsewhere.
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
        if let Ok(target) = std::fs::canonicalize(target)
            && program.starts_with(&target)
        {
            assert_eq!(target_of("fetch"), Some(target));
        }
        assert_eq!(target_of("no such script"), None);
    }
}
