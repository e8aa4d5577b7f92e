//! [`Crate`]: the modules of a crate, and which file takes a name from which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use crate::parse;

/// A module that has a file of its own.
struct Module {
    file: PathBuf,
    /// Names that it hands on, with the path that each stands for.
    handed_on: BTreeMap<String, Vec<String>>,
    /// Paths that it hands on whole (`pub use x::*`).
    globs: Vec<Vec<String>>,
    /// What it names: paths from the crate's root.
    named: BTreeSet<Vec<String>>,
}

/// A crate's source files as modules.
pub struct Crate {
    modules: BTreeMap<Vec<String>, Module>,
}

/// A file that takes names of another.
pub type Edge = (PathBuf, PathBuf);

impl Crate {
    /// Reads the modules from the top file (`lib.rs`, `main.rs`) down. Modules under `#[cfg(test)]` are
    /// left out.
    ///
    /// # Panics
    /// A file that cannot be read, or a module without a file.
    pub fn read(top: &Path) -> Crate {
        let mut modules = BTreeMap::new();
        add(&mut modules, Vec::new(), top, &top.with_file_name(""));
        Crate { modules }
    }

    /// Which file takes names of which. What a file takes from a module above it in its own tree is
    /// left out: the face of a folder and its rooms are one house.
    pub fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for (at, module) in &self.modules {
            for path in &module.named {
                let Some(owner) = self.owner(path, 0) else {
                    continue;
                };
                let above = at.starts_with(owner) || owner == at;
                if !above {
                    let to = self.modules[owner].file.clone();
                    edges.insert((module.file.clone(), to));
                }
            }
        }
        edges
    }

    /// The file that defines what a path from the crate's root names.
    pub fn file_of(&self, path: &[String]) -> Option<&Path> {
        let owner = self.owner(path, 0)?;
        Some(&self.modules[owner].file)
    }

    /// The module that a path's name is defined in: through what modules hand on.
    fn owner(&self, path: &[String], depth: usize) -> Option<&Vec<String>> {
        if depth > 8 {
            return None;
        }
        let (at, module) = (0..=path.len())
            .rev()
            .find_map(|n| self.modules.get_key_value(&path[..n]))?;
        let Some(name) = path.get(at.len()) else {
            return Some(at);
        };
        if let Some(to) = module.handed_on.get(name) {
            let rest = path[at.len() + 1..].iter().cloned();
            let to: Vec<_> = to.iter().cloned().chain(rest).collect();
            return self.owner(&to, depth + 1).or(Some(at));
        }
        // A name behind a glob: the module whose file defines it cannot be told without more reading;
        // the first that has a module of that name, else the one that hands on.
        for glob in &module.globs {
            let to: Vec<_> = glob.iter().cloned().chain([name.clone()]).collect();
            if self.modules.contains_key(&to) {
                return self.owner(&to, depth + 1);
            }
        }
        Some(at)
    }
}

/// Circles: sets of two files or more that reach each other.
pub fn circles(edges: &BTreeSet<Edge>) -> Vec<BTreeSet<PathBuf>> {
    let mut next: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reach = |start: &Path| -> BTreeSet<PathBuf> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Path> = next.get(start).into_iter().flatten().copied().collect();
        while let Some(file) = open.pop() {
            if seen.insert(file.to_path_buf()) {
                open.extend(next.get(file).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&Path, BTreeSet<PathBuf>> =
        next.keys().map(|&file| (file, reach(file))).collect();
    let mut found = BTreeSet::new();
    for (&file, seen) in &reached {
        if !seen.contains(file) {
            continue;
        }
        let back = |other: &&PathBuf| {
            reached
                .get(other.as_path())
                .is_some_and(|s| s.contains(file))
        };
        let circle: BTreeSet<PathBuf> = seen.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The paths into the crate called `name` that a file of another crate has, from that crate's root.
/// Unit tests are left out.
///
/// # Panics
/// As [`crate::parse`].
pub fn paths_into(name: &str, file: &Path) -> BTreeSet<Vec<String>> {
    let mut reader = Reader::new(name, Vec::new());
    reader.visit_file(&parse(file));
    // What is handed on is used by whoever takes it here; that somebody does is not looked at.
    let handed_on = reader.handed_on.into_values();
    reader
        .named
        .into_iter()
        .chain(handed_on)
        .chain(reader.globs)
        .collect()
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// Reads a module's file, and the modules that it declares. `folder` is where those lie.
fn add(modules: &mut BTreeMap<Vec<String>, Module>, at: Vec<String>, file: &Path, folder: &Path) {
    let source = parse(file);
    let mut reader = Reader::new("crate", at.clone());
    let mut inner = Vec::new();
    for item in &source.items {
        if let syn::Item::Mod(module) = item {
            let name = module.ident.to_string();
            reader.children.insert(name.clone());
            if module.content.is_none() && !is_test(&module.attrs) {
                inner.push((name, module.attrs.clone()));
            }
        }
    }
    reader.visit_file(&source);
    let Reader {
        handed_on,
        globs,
        named,
        ..
    } = reader;
    modules.insert(
        at.clone(),
        Module {
            file: file.to_path_buf(),
            handed_on,
            globs,
            named,
        },
    );
    for (name, attributes) in inner {
        let named = attributes.iter().find_map(|attribute| {
            let syn::Meta::NameValue(meta) = &attribute.meta else {
                return None;
            };
            let syn::Expr::Lit(value) = &meta.value else {
                return None;
            };
            match (&value.lit, meta.path.is_ident("path")) {
                (syn::Lit::Str(path), true) => Some(file.with_file_name(path.value())),
                _ => None,
            }
        });
        let beside = folder.join(&name);
        let candidates = [
            named.unwrap_or_default(),
            folder.join(format!("{name}.rs")),
            beside.join("mod.rs"),
        ];
        let found = candidates.iter().find(|f| f.is_file());
        let found =
            found.unwrap_or_else(|| panic!("{}: module {name} has no file", file.display()));
        let mut path = at.clone();
        path.push(name);
        add(modules, path, found, &beside);
    }
}

/// Collects the paths of a file.
struct Reader<'n> {
    /// How the crate is called that paths are looked for of.
    root: &'n str,
    at: Vec<String>,
    children: BTreeSet<String>,
    handed_on: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    named: BTreeSet<Vec<String>>,
}

impl<'n> Reader<'n> {
    fn new(root: &'n str, at: Vec<String>) -> Reader<'n> {
        Reader {
            root,
            at,
            children: BTreeSet::new(),
            handed_on: BTreeMap::new(),
            globs: Vec::new(),
            named: BTreeSet::new(),
        }
    }

    /// A path from the crate's root; none for one into another crate.
    fn absolute(&self, segments: &[String]) -> Option<Vec<String>> {
        let mut at = self.at.clone();
        let mut rest = segments;
        match rest.first()?.as_str() {
            first if first == self.root => {
                at.clear();
                rest = &rest[1..];
            }
            _ if self.root != "crate" => return None,
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|s| s == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            child if self.children.contains(child) => {}
            _ => return None,
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    fn take(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.take(&path.tree, before, is_public);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.take(tree, before, is_public);
                }
            }
            syn::UseTree::Name(name) => self.one(&name.ident, &name.ident, before, is_public),
            syn::UseTree::Rename(name) => self.one(&name.ident, &name.rename, before, is_public),
            syn::UseTree::Glob(_) => {
                if let Some(path) = self.absolute(before) {
                    if is_public {
                        self.globs.push(path);
                    } else {
                        self.named.insert(path);
                    }
                }
            }
        }
    }

    fn one(&mut self, name: &syn::Ident, to: &syn::Ident, before: &[String], is_public: bool) {
        let mut segments = before.to_vec();
        if name != "self" {
            segments.push(name.to_string());
        }
        let Some(path) = self.absolute(&segments) else {
            return;
        };
        // Handing on is no use of its own.
        self.handed_on.insert(to.to_string(), path.clone());
        if !is_public {
            self.named.insert(path);
        }
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        // What is inside of it in the file counts as the file's; its `super` is the file.
        if let (Some((_, items)), false) = (&module.content, is_test(&module.attrs)) {
            self.at.push(module.ident.to_string());
            for item in items {
                self.visit_item(item);
            }
            self.at.pop();
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        self.take(&item.tree, &mut Vec::new(), is_public);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1
            && let Some(path) = self.absolute(&segments)
        {
            self.named.insert(path);
        }
        visit::visit_path(self, path);
    }
}
