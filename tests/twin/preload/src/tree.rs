//! Texts and folders of a simulated machine, as files of the host: what only reads them needs no hook but
//! for the path.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::driver::Node;

/// Files of a machine in a folder of the host.
pub struct Tree {
    folder: TempDir,
    devices: BTreeMap<String, (u32, u32)>,
}

/// A path without what does not matter in it: doubled slashes, dots, a slash at the end.
pub fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl Tree {
    /// Writes them. Devices are empty files, so that what is asked of any file is answered.
    ///
    /// # Errors
    /// What the host says.
    pub fn write(nodes: Vec<(String, Node)>) -> std::io::Result<Tree> {
        let mut tree = Tree {
            folder: TempDir::with_prefix("doorbell-twin-")?,
            devices: BTreeMap::new(),
        };
        for (path, node) in nodes {
            let at = tree.path(&path);
            if let Some(above) = at.parent() {
                fs::create_dir_all(above)?;
            }
            match node {
                Node::Folder => fs::create_dir_all(&at)?,
                Node::Text(bytes) => fs::write(&at, bytes)?,
                Node::Device { major, minor } => {
                    fs::write(&at, [])?;
                    tree.devices.insert(path, (major, minor));
                }
            }
        }
        Ok(tree)
    }

    /// Where a path of the machine lies on the host.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    /// The numbers of a device.
    pub fn device(&self, path: &str) -> Option<(u32, u32)> {
        self.devices.get(path).copied()
    }

    /// Takes the folder away.
    pub fn remove(&self) {
        // Whoever else has taken it away has done no harm.
        let _ = fs::remove_dir_all(self.folder.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_as_files() {
        let tree = Tree::write(vec![
            ("/proc/x/version".into(), Node::Text(b"1\n".to_vec())),
            ("/proc/x/empty".into(), Node::Folder),
            (
                "/dev/x0".into(),
                Node::Device {
                    major: 195,
                    minor: 1,
                },
            ),
        ])
        .unwrap();
        let version = tree.path("/proc/x/version");
        assert_eq!(fs::read_to_string(version).unwrap(), "1\n");
        assert!(
            fs::read_dir(tree.path("/proc/x/empty"))
                .unwrap()
                .next()
                .is_none()
        );
        assert_eq!(tree.device("/dev/x0"), Some((195, 1)));
        assert_eq!(tree.device("/dev/x1"), None);
        let there = tree.path("/proc/x");
        tree.remove();
        assert!(!there.exists());
    }

    #[test]
    fn paths_are_compared_plain() {
        for (path, expected) in [
            ("/dev//nvidia0/", "/dev/nvidia0"),
            ("/dev/./x/../nvidiactl", "/dev/nvidiactl"),
            ("/", "/"),
            ("/../dev", "/dev"),
        ] {
            assert_eq!(plain(path), expected);
        }
    }
}
