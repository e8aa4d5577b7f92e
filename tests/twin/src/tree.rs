//! Texts, folders and links of a simulated machine, as files of the host: who only reads them needs nothing
//! but another path.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What a file of a simulated machine is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A folder.
    Folder,
    /// Bytes that are read.
    Text(Vec<u8>),
    /// Another name of a path: from here, or from `/`.
    Link(String),
    /// A device: what `open` and `ioctl` are for.
    Device {
        /// Its numbers.
        major: u32,
        /// See `major`.
        minor: u32,
    },
}

/// Files of a machine in a folder of the host.
pub struct Tree {
    folder: PathBuf,
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
    /// Files that somebody has written there.
    pub fn at(folder: &Path, devices: BTreeMap<String, (u32, u32)>) -> Tree {
        Tree {
            folder: folder.to_owned(),
            devices,
        }
    }

    /// Writes them into a folder. Devices are empty files, so that what is asked of any file is answered.
    ///
    /// # Errors
    /// What the host says.
    pub fn write(folder: &Path, nodes: Vec<(String, Node)>) -> std::io::Result<Tree> {
        let mut tree = Tree::at(folder, BTreeMap::new());
        for (path, node) in nodes {
            let at = tree.path(&path);
            if let Some(above) = at.parent() {
                fs::create_dir_all(above)?;
            }
            match node {
                Node::Folder => fs::create_dir_all(&at)?,
                Node::Text(bytes) => fs::write(&at, bytes)?,
                Node::Link(to) => symlink(relative(&path, &to), &at)?,
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
        self.folder.join(path.trim_start_matches('/'))
    }

    /// The numbers of a device.
    pub fn device(&self, path: &str) -> Option<(u32, u32)> {
        self.devices.get(path).copied()
    }

    /// Every device, with its numbers.
    pub fn devices(&self) -> impl Iterator<Item = (&str, (u32, u32))> {
        self.devices.iter().map(|(path, &device)| (&**path, device))
    }
}

/// What a link at a path says to lead to another one: wherever the machine's `/` lies, it leads there.
fn relative(path: &str, to: &str) -> String {
    let Some(to) = to.strip_prefix('/') else {
        return to.to_owned();
    };
    let above = path.trim_start_matches('/').matches('/').count();
    "../".repeat(above) + to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_as_files() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = vec![
            ("/proc/x/version".into(), Node::Text(b"1\n".to_vec())),
            ("/proc/x/empty".into(), Node::Folder),
            (
                "/dev/x0".into(),
                Node::Device {
                    major: 195,
                    minor: 1,
                },
            ),
            ("/sys/class/x".into(), Node::Link("/proc/x".into())),
        ];
        let tree = Tree::write(folder.path(), nodes).unwrap();
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
        let version = tree.path("/sys/class/x/version");
        assert_eq!(fs::read_to_string(version).unwrap(), "1\n");
        let link = fs::read_link(tree.path("/sys/class/x")).unwrap();
        assert_eq!(link, Path::new("../../proc/x"));
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
