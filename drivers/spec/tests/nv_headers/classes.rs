//! Methods and QMDs, against the headers of classes. Those of the kernel modules are shorter: what they
//! have is compared.

use std::collections::BTreeSet;
use std::path::PathBuf;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::chip::{Arch, Archs, CHIPS, Method};
use drivers_spec::nv::qmd::{self, Version};
use drivers_spec::nv::{compute, copy, host, push};
use hcq::reg::Word;

use super::c::{Headers, read};
use super::trees;

/// `8b5` of a class 0xc8b5: how headers name it in files and macros.
fn hex(class: u32) -> String {
    format!("{class:04x}")
}

/// Facts with what they are called.
#[derive(Default)]
struct Facts {
    keys: Vec<String>,
    expressions: Vec<String>,
    ours: Vec<u64>,
    missing: Vec<String>,
}

impl Facts {
    fn fact(&mut self, expression: String, ours: u64) {
        self.keys.push(expression.clone());
        self.expressions.push(expression);
        self.ours.push(ours);
    }

    fn word(&mut self, headers: &Headers, prefix: &str, word: Word<Archs>, arch: Arch) {
        for field in word.fields.iter().filter(|field| field.on.has(arch)) {
            let c = format!("{prefix}_{}_{}", word.name, field.name);
            if !headers.defines(&c) {
                self.missing.push(c);
                continue;
            }
            self.fact(format!("(1 ? {c})"), field.high.into());
            self.fact(format!("(0 ? {c})"), field.low.into());
        }
    }

    fn methods(&mut self, headers: &Headers, prefix: &str, table: &[Method], arch: Arch) {
        for method in table.iter().filter(|m| m.register.word.on.has(arch)) {
            let word = method.register.word;
            let c = format!("{prefix}_{}", word.name);
            match (headers.defines(&c), headers.defines(&format!("{c}(i)"))) {
                (true, _) => self.fact(c, u64::from(method.dword()) * 4),
                (_, true) => {
                    let last = method.count - 1;
                    self.fact(format!("{c}({last})"), u64::from(method.dword() + last) * 4);
                }
                _ => {
                    self.missing.push(c);
                    continue;
                }
            }
            self.word(headers, prefix, word, arch);
            for (name, value) in method.values {
                let c = format!("{prefix}_{}_{name}", word.name);
                if headers.defines(&c) {
                    self.fact(c, (*value).into());
                }
            }
        }
    }

    /// How many facts are equal.
    fn compare(self, headers: &Headers, what: &str) -> usize {
        let theirs = headers.values(&self.expressions);
        let all = self.keys.iter().zip(&self.ours).zip(&theirs);
        let wrong = all.filter(|((_, ours), theirs)| ours != theirs);
        let wrong: Vec<_> = wrong
            .map(|((key, ours), theirs)| format!("{key}: ours {ours}, theirs {theirs}"))
            .collect();
        assert!(wrong.is_empty(), "{what}: {wrong:#?}");
        theirs.len()
    }
}

/// Folders with headers of classes: whole ones, and those of the kernel modules.
fn folders() -> Vec<(String, PathBuf, bool)> {
    let whole = trees("classes-")
        .into_iter()
        .map(|(version, path)| (version, path, true));
    let kernel = trees("kernel-").into_iter();
    let kernel =
        kernel.map(|(version, path)| (version, path.join("kernel-open/nvidia-uvm"), false));
    whole.chain(kernel).collect()
}

#[test]
fn methods_as_in_the_headers() {
    for (version, folder, whole) in folders() {
        let mut equal = 0;
        for arch in Arch::ALL {
            let facts = arch.facts();
            for (class, table) in [
                (facts.channel.number, host::METHODS),
                (facts.compute.number, compute::METHODS),
                (facts.copy.number, copy::METHODS),
            ] {
                let file = format!("cl{}.h", hex(class));
                let mut headers = Headers::new(vec![folder.clone()], &[&file]);
                // Only macros are looked at: the types of others are not needed.
                headers.inline = true;
                let prefix = format!("NV{}", hex(class).to_uppercase());
                if !headers.text.contains(&prefix) {
                    continue;
                }
                let mut found = Facts::default();
                found.methods(&headers, &prefix, table, arch);
                if class == facts.channel.number {
                    for word in [push::HEADER, push::GP_ENTRY0, push::GP_ENTRY1] {
                        found.word(&headers, &prefix, word, arch);
                    }
                    found.word(&headers, &prefix, push::PB_EXTENDED_BASE, arch);
                }
                let what = format!("{version} {file} for {arch:?}");
                assert!(
                    !whole || found.missing.is_empty(),
                    "{what}: {:#?}",
                    found.missing
                );
                equal += found.compare(&headers, &what);
            }
        }
        eprintln!("{version}: {equal} facts about methods are equal");
        assert!(equal > 100, "{version}: {equal}");
    }
}

/// The fields of a version in a header's text, without those that are reserved or spare.
fn fields(headers: &Headers, prefix: &str) -> BTreeSet<String> {
    let lines = headers.text.lines().filter(|line| line.contains(" MW("));
    let names = lines.filter_map(|line| line.split_whitespace().nth(1)?.strip_prefix(prefix));
    let names = names.map(|name| name.trim_end_matches("(i)").to_owned());
    names
        .filter(|name| !name.contains("RESERVED") && !name.contains("SPARE"))
        .collect()
}

#[test]
fn qmds_as_in_the_headers() {
    for (version, folder) in trees("classes-") {
        let mut equal = 0;
        for class in Arch::ALL.map(|arch| arch.facts().compute.number) {
            let file = format!("cl{}qmd.h", hex(class));
            let mut headers = Headers::new(vec![folder.clone()], &[&file]);
            for layout in Version::ALL {
                let (major, minor) = layout.number();
                let prefix = format!("NV{}_QMDV{major:02}_{minor:02}_", hex(class).to_uppercase());
                let theirs = fields(&headers, &prefix);
                if theirs.is_empty() {
                    continue;
                }
                let mut found = Facts::default();
                let mut named = BTreeSet::new();
                for field in qmd::FIELDS {
                    let Some(place) = field.place(layout) else {
                        continue;
                    };
                    for (index, (high, low)) in place.bits.iter().enumerate() {
                        let name = place.name.replace('#', &index.to_string());
                        let mut c = format!("{prefix}{name}");
                        if headers.defines(&format!("{c}(i)")) {
                            c += &format!("({index})");
                        } else if !headers.defines(&c) {
                            // Not in every class's header of the version.
                            continue;
                        }
                        let other = OTHERWISE.contains(&c.as_str());
                        named.insert(name);
                        if other {
                            continue;
                        }
                        found.fact(format!("(1 ? {c})"), (*high).into());
                        found.fact(format!("(0 ? {c})"), (*low).into());
                    }
                }
                let ours_lacks: Vec<_> = theirs.difference(&named).collect();
                let what = format!("{version} {file} {layout:?}");
                assert!(
                    ours_lacks.iter().all(|name| AGAIN.contains(&name.as_str())),
                    "{what}: {ours_lacks:?}"
                );
                headers.define = Some("#define MW(bits) bits");
                equal += found.compare(&headers, &what);
            }
        }
        eprintln!("{version}: {equal} facts about QMDs are equal");
        assert!(equal > 500, "{version}: {equal}");
    }
}

/// Names of bits that are ours by another name, which later headers of the version have or had.
const AGAIN: &[&str] = &[
    "RELEASE0_TRAP_TYPE",
    "RELEASE1_TRAP_TYPE",
    "RELEASE2_TRAP_TYPE",
    "DEPENDENT_QMD_ACTION",
    "DEPENDENT_QMD_ENABLE",
    "DEPENDENT_QMD_POINTER",
    "DEPENDENT_QMD_PREFETCH",
];

/// A field of the hardware's own that is shorter in the first header of the version.
const OTHERWISE: &[&str] = &["NVC6C0_QMDV03_00_HW_ONLY_DEPENDENCE_COUNTER"];

/// The classes of a chip in the lists of RM, of the kinds that a generation's facts name.
fn listed(text: &str, chip: &str) -> BTreeSet<String> {
    let start = format!("hal{}ClassDescriptorList[] =", chip.to_uppercase());
    let lists = text.match_indices(&start).map(|(at, _)| &text[at..]);
    let lists = lists.filter_map(|rest| rest.split("};").next());
    let words = lists.flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let kind = |word: &&str| {
        let kinds = ["_USERMODE_", "_COMPUTE_", "_CHANNEL_GPFIFO_", "_DMA_COPY_"];
        kinds.iter().any(|kind| word.contains(kind)) && word.ends_with(['A', 'B'])
    };
    words.filter(kind).map(str::to_owned).collect()
}

#[test]
fn chips_have_the_classes_that_rm_lists() {
    for (version, tree) in trees("kernel-") {
        let path = tree.join("src/nvidia/generated/g_gpu_class_list.c");
        let (Some(branch), true) = (Branch::of(&version), path.exists()) else {
            eprintln!("{version}: no list of classes here");
            continue;
        };
        let text = read(&path);
        let mut compared = 0;
        for chip in CHIPS {
            let facts = chip.arch.facts();
            let theirs = listed(&text, chip.name);
            let new = [facts.channel, facts.compute, facts.copy, facts.usermode];
            let ours = new
                .iter()
                .chain(facts.older)
                .map(|class| class.name.to_owned());
            let is_known = facts.compute.on.has(branch);
            assert_eq!(is_known, !theirs.is_empty(), "{version} {}", chip.name);
            if is_known {
                assert_eq!(theirs, ours.collect(), "{version} {}", chip.name);
                compared += 1;
            }
        }
        assert!(compared >= 12, "{version}: {compared}");
    }
}
