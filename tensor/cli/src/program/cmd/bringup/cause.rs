//! What a device has left of a failure, and what that says.

use std::path::Path;

use drivers_bundle::{Bundle, Explanation, explain};

/// The explanation of the bundle that an error names, of those in a folder.
pub fn of(error: &str, folder: &Path) -> Option<Explanation> {
    let entries = std::fs::read_dir(folder).ok()?;
    let names = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| error.contains(name))
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    // Without one that can be read there are still the error and the hints of the step.
    let bundle = paths
        .filter(|path| names(path))
        .find_map(|path| Bundle::read(&path).ok())?;
    Some(explain(&bundle))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_file_that_the_error_names_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            r#"{"schema": "doorbell.bundle/1", "error": "it hangs", "device": {"id": "AMD:0"}}"#;
        for name in [
            "20260101T000000Z-AMD-0-hang.json",
            "20260102T000000Z-AMD-0-hang.json",
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        // Names that stand in the error, too.
        for name in ["broken.json", "AMD"] {
            std::fs::write(folder.path().join(name), "{").unwrap();
        }
        let of = |error: &str| of(error, folder.path());
        let found = of("AMD:0 hangs [doorbell explain /x/20260102T000000Z-AMD-0-hang.json]");
        let last = found.unwrap().evidence.pop();
        assert_eq!(last.as_deref(), Some("reported error: it hangs"));
        assert_eq!(of("AMD:0 hangs"), None);
        assert_eq!(of("see broken.json"), None);
        assert_eq!(super::of("x", Path::new("/nowhere")), None);
    }
}
