//! `hcq` is the ground that every driver stands on: what nobody stands on is not in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use structure::names::{Public, public, words};
use structure::tree::{Crate, paths_into};
use structure::{root, rust_files};

/// What is there by convention, beside something that is used.
const CONVENTIONS: &[&str] = &["is_empty", "len", "new", "default"];

struct Sources(Vec<(PathBuf, BTreeMap<String, usize>)>);

impl Sources {
    fn read() -> Sources {
        let folders = [
            "hcq",
            "drivers",
            "firmware-tools",
            "codegen",
            "tensor",
            "tests",
        ];
        let files = folders
            .iter()
            .flat_map(|folder| rust_files(&root().join(folder)))
            .filter(|file| !file.components().any(|c| c.as_os_str() == "target"));
        Sources(files.map(|file| (file.clone(), words(&file))).collect())
    }

    /// The files of hcq that other crates take names of, and what those stand on.
    fn reached(&self) -> BTreeSet<PathBuf> {
        let folder = root().join("hcq/src");
        let hcq = Crate::read(&folder.join("lib.rs"));
        let others = self.0.iter().map(|(file, _)| file);
        let others = others.filter(|file| !file.starts_with(&folder));
        // Macros that are exported lie at the root, wherever they are written.
        let mut exported = BTreeMap::new();
        for file in rust_files(&folder) {
            for item in public(&file) {
                if let Some(name) = item.what.strip_prefix("macro ") {
                    exported.insert(name.to_owned(), file.clone());
                }
            }
        }
        let mut open = Vec::new();
        for path in others.flat_map(|file| paths_into("hcq", file)) {
            let of_macro = (path.len() == 1).then(|| exported.get(&path[0])).flatten();
            let file = of_macro
                .cloned()
                .or_else(|| hcq.file_of(&path).map(Path::to_path_buf));
            open.extend(file);
        }
        let edges = hcq.edges();
        let mut reached = BTreeSet::new();
        while let Some(file) = open.pop() {
            if reached.insert(file.clone()) {
                let below = edges.iter().filter(|(from, _)| *from == file);
                open.extend(below.map(|(_, to)| to.clone()));
            }
        }
        reached
    }

    /// Whether another file names it.
    fn elsewhere(&self, item: &Public, own: &Path) -> bool {
        let mut others = self.0.iter().filter(|(file, _)| file != own);
        others.any(|(_, words)| words.contains_key(&item.name))
    }

    /// Whether its own file names it once more than where it is defined.
    fn at_home(&self, item: &Public, own: &Path) -> bool {
        let mut files = self.0.iter().filter(|(file, _)| file == own);
        files.any(|(_, words)| words.get(&item.name).is_some_and(|&count| count > 1))
    }
}

/// Every public item is named by another file, or by what is used in its own. Names are compared, not
/// what they stand for: a method called as another one is counts as used.
#[test]
fn every_public_item_of_hcq_has_a_user() {
    let sources = Sources::read();
    let reached = sources.reached();
    let mut idle = Vec::new();
    for file in rust_files(&root().join("hcq/src")) {
        let short = file.strip_prefix(root().join("hcq/src")).unwrap_or(&file);
        let short = short.display().to_string();
        let items = public(&file);
        let is_used = reached.contains(&file);
        let without = items.iter().filter(|item| {
            let convention = CONVENTIONS.contains(&item.name.as_str());
            let at_home = is_used && (convention || sources.at_home(item, &file));
            !is_used || !at_home && !sources.elsewhere(item, &file)
        });
        idle.extend(without.map(|i| format!("{short}: {}", i.what)));
    }
    assert!(
        idle.is_empty(),
        "public items of hcq that nothing uses; delete them:\n{}",
        idle.join("\n")
    );
}
