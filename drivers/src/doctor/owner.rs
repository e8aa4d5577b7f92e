//! Who may open a device file.

use drivers_host::pci::{Files, Rights};

/// Who may open a device file.
pub(super) struct Owner {
    /// Permission bits.
    pub(super) mode: u32,
    /// The group, by number.
    pub(super) gid: u32,
    /// The group, by name; none in a container that does not know it.
    pub(super) group: Option<String>,
}

impl Owner {
    /// The owner of a file.
    pub(super) fn of(files: &dyn Files, path: &str) -> Option<Owner> {
        let Rights { mode, gid } = files.rights(path).ok()?;
        let groups = files.read("/etc/group").unwrap_or_default();
        let group = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
        });
        Some(Owner { mode, gid, group })
    }

    /// For messages.
    pub(super) fn shown(&self) -> String {
        let gid = self.gid;
        let group = self.group.as_deref();
        let group = group.map_or(gid.to_string(), |name| format!("{name}, {gid}"));
        format!("its mode is {:04o}, its group {group}", self.mode)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use drivers_host::pci::System;

    use super::*;

    #[test]
    fn the_owner_of_a_node_is_read_with_its_name() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("dev")).unwrap();
        std::fs::create_dir_all(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("dev/kfd"), "").unwrap();
        let gid = std::fs::metadata(root.path().join("dev/kfd"))
            .unwrap()
            .gid();
        let files = System::at(root.path());
        let owner = || Owner::of(&files, "/dev/kfd").unwrap();
        assert_eq!((owner().gid, owner().group), (gid, None));
        let groups = format!("other:x:{}:\nrender:x:{gid}:me\n", gid + 1);
        std::fs::write(root.path().join("etc/group"), groups).unwrap();
        assert_eq!(owner().group.as_deref(), Some("render"));
        assert!(Owner::of(&files, "/dev/none").is_none());
    }
}
