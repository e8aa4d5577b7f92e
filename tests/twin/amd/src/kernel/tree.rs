//! The files that the machine has: devices, and sysfs.

use std::collections::BTreeMap;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A folder.
    Folder,
    /// A file with that text.
    Text(String),
    /// A file whose text is made when it is read.
    Live(Live),
    /// Another name of a path.
    Link(String),
    /// `/dev/kfd`.
    Kfd,
    /// The render node of that GPU.
    Render(usize),
}

/// A file whose text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Bytes of VRAM in use, of that GPU.
    VramUsed(usize),
    /// Bytes of system memory in use.
    GttUsed,
    /// What a sensor of that GPU shows.
    Sensor(usize, Sensor),
}

/// A sensor of a card, by the file that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensor {
    /// `gpu_busy_percent`.
    Busy,
    /// `temp1_input`, in thousandths of a degree Celsius.
    Edge,
    /// `power1_average`, in millionths of a watt.
    Power,
    /// `freq1_input`, in Hz.
    Shaders,
    /// `freq2_input`, in Hz.
    Memory,
    /// `fan1_input`, in turns a minute.
    Fan,
}

/// All files.
#[derive(Default)]
pub struct Tree(BTreeMap<String, Node>);

impl Tree {
    /// Adds a file, and the folders that it lies in.
    pub fn add(&mut self, path: &str, node: Node) {
        let mut end = path.len();
        while let Some(slash) = path[..end].rfind('/').filter(|&slash| slash > 0) {
            end = slash;
            self.0.entry(path[..end].into()).or_insert(Node::Folder);
        }
        self.0.insert(path.into(), node);
    }

    /// Adds a text with a newline at its end.
    pub fn text(&mut self, path: &str, text: impl std::fmt::Display) {
        self.add(path, Node::Text(format!("{text}\n")));
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
    pub fn find(&self, path: &str) -> Option<&Node> {
        if !path.starts_with('/') {
            return None;
        }
        self.0.get(&self.resolve(path)?)
    }

    /// Everything, by path; folders before what lies in them.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Node)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_folders_and_names() {
        let mut tree = Tree::default();
        tree.text("/sys/devices/a/b/value", 7);
        tree.add("/sys/class/x", Node::Link("/sys/devices/a".into()));
        tree.add("/sys/devices/a/self", Node::Link("b".into()));
        assert_eq!(
            tree.find("/sys/class/x/b/value"),
            Some(&Node::Text("7\n".into()))
        );
        assert_eq!(
            tree.find("/sys/class//x/./self/../b/value"),
            Some(&Node::Text("7\n".into()))
        );
        assert_eq!(tree.find("/sys/class/x"), Some(&Node::Folder));
        assert_eq!(tree.list("/sys/class/x"), ["b", "self"]);
        assert_eq!(tree.list("/sys/"), ["class", "devices"]);
        assert_eq!(tree.find("/sys/none"), None);
        assert_eq!(tree.find("sys/devices"), None);
    }
}
