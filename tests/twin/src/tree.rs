//! Texts, folders and links of a simulated machine: [`Nodes`] while it runs in this process, [`Tree`] as files of the
//! host: who only reads them needs nothing but another path.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What a file of a simulated machine is; `O` tells its own ones apart, such as devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node<O = Device> {
    /// A folder.
    Folder,
    /// Bytes that are read.
    Text(Vec<u8>),
    /// Another name of a path: from here, or from `/`.
    Link(String),
    /// One of its own.
    Own(O),
}

/// A device: what `open` and `ioctl` are for. By its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl<O> Node<O> {
    /// A text with a newline at its end.
    pub fn line(text: impl Display) -> Node<O> {
        Node::Text(format!("{text}\n").into_bytes())
    }

    /// The same file for somebody else: `own` says what those of the machine are to him.
    pub fn map<P>(&self, own: impl FnOnce(&O) -> Node<P>) -> Node<P> {
        match self {
            Node::Folder => Node::Folder,
            Node::Text(bytes) => Node::Text(bytes.clone()),
            Node::Link(to) => Node::Link(to.clone()),
            Node::Own(one) => own(one),
        }
    }
}

/// All files of a machine, by path.
pub struct Nodes<O>(BTreeMap<String, Node<O>>);

impl<O> Default for Nodes<O> {
    fn default() -> Nodes<O> {
        Nodes(BTreeMap::new())
    }
}

impl<O> Nodes<O> {
    /// Adds a file, and the folders that it lies in.
    pub fn add(&mut self, path: &str, node: Node<O>) {
        let mut end = path.len();
        while let Some(slash) = path[..end].rfind('/').filter(|&slash| slash > 0) {
            end = slash;
            self.0.entry(path[..end].into()).or_insert(Node::Folder);
        }
        self.0.insert(path.into(), node);
    }

    /// Adds a text with a newline at its end.
    pub fn text(&mut self, path: &str, text: impl Display) {
        self.add(path, Node::line(text));
    }

    /// Takes away what is not to stay.
    pub fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        self.0.retain(|path, _| stays(path));
    }

    /// The path without links, dots and double slashes.
    pub fn resolve(&self, path: &str) -> Option<String> {
        let mut done = String::new();
        let mut links = 0;
        let mut parts: Vec<&str> = path.split('/').rev().collect();
        while let Some(part) = parts.pop() {
            match part {
                "" | "." => continue,
                ".." => {
                    done.truncate(done.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let at = done.len();
            done.push('/');
            done.push_str(part);
            if let Some(Node::Link(target)) = self.0.get(&done) {
                links += 1;
                if links > 8 {
                    return None;
                }
                done.truncate(at);
                if target.starts_with('/') {
                    done.clear();
                }
                parts.extend(target.split('/').rev());
            }
        }
        Some(done)
    }

    /// What a path is.
    pub fn find(&self, path: &str) -> Option<&Node<O>> {
        if !path.starts_with('/') {
            return None;
        }
        self.0.get(&self.resolve(path)?)
    }

    /// Everything, by path; folders before what lies in them.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Node<O>)> {
        self.0.iter().map(|(path, node)| (&**path, node))
    }

    /// The names in a folder.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Some(folder) = self.resolve(path) else {
            return Vec::new();
        };
        let prefix = folder + "/";
        self.0
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| !path[prefix.len()..].contains('/'))
            .map(|(path, _)| path[prefix.len()..].to_owned())
            .collect()
    }
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
                Node::Own(Device { major, minor }) => {
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
                Node::Own(Device {
                    major: 195,
                    minor: 1,
                }),
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
    fn links_folders_and_names() {
        let mut tree = Nodes::<Device>::default();
        tree.text("/sys/devices/a/b/value", 7);
        tree.add("/sys/class/x", Node::Link("/sys/devices/a".into()));
        tree.add("/sys/devices/a/self", Node::Link("b".into()));
        let value = Some(&Node::Text(b"7\n".to_vec()));
        assert_eq!(tree.find("/sys/class/x/b/value"), value);
        assert_eq!(tree.find("/sys/class//x/./self/../b/value"), value);
        assert_eq!(tree.find("/sys/class/x"), Some(&Node::Folder));
        assert_eq!(tree.list("/sys/class/x"), ["b", "self"]);
        assert_eq!(tree.list("/sys/"), ["class", "devices"]);
        assert_eq!(tree.find("/sys/none"), None);
        assert_eq!(tree.find("sys/devices"), None);
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
