//! OpenCL: which vendors have registered a library. None is loaded: that runs code of theirs.

use drivers_host::pci::Files;

use super::{Row, Status};

/// Where vendors register: files that name a library each.
///
/// Source: Khronos, "OpenCL Extension Specification", cl_khr_icd.
const VENDORS: &str = "/etc/OpenCL/vendors";

/// The row of OpenCL.
pub(super) fn row(files: &dyn Files) -> Row {
    const WHAT: &str = "OpenCL, for GPUs without a driver here: DEV=CL";
    let mut found = files.list(VENDORS).unwrap_or_default();
    found.retain(|name| name.ends_with(".icd"));
    found.sort();
    if found.is_empty() {
        let text = format!("{VENDORS}: no vendor's library is registered ({WHAT})");
        return Row::new("cl.icd", Status::Absent, text);
    }
    let named = |name: &String| {
        let text = files.read(&format!("{VENDORS}/{name}")).unwrap_or_default();
        format!("{name} ({})", text.trim())
    };
    let all: Vec<String> = found.iter().map(named).collect();
    let text = format!(
        "{VENDORS}: {} ({WHAT}; not loaded by doctor)",
        all.join(", ")
    );
    Row::new("cl.icd", Status::Ok, text)
}

#[cfg(test)]
mod tests {
    use drivers_host::pci::System;

    use super::super::tests::write;
    use super::*;

    #[test]
    fn registered_libraries_are_named() {
        let root = tempfile::tempdir().unwrap();
        let found = row(&System::at(root.path()));
        assert_eq!((found.status, &*found.check), (Status::Absent, "cl.icd"));
        write(
            root.path(),
            "/etc/OpenCL/vendors/pocl.icd",
            "libpocl.so.2.9.0\n",
        );
        write(
            root.path(),
            "/etc/OpenCL/vendors/intel.icd",
            "/usr/lib/libigdrcl.so\n",
        );
        write(root.path(), "/etc/OpenCL/vendors/README", "no");
        let found = row(&System::at(root.path()));
        assert_eq!(found.status, Status::Ok);
        let list = "intel.icd (/usr/lib/libigdrcl.so), pocl.icd (libpocl.so.2.9.0)";
        assert!(found.detail.contains(list), "{found:?}");
        assert!(!found.detail.contains("README"), "{found:?}");
    }
}
