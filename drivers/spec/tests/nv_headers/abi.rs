//! Structs, numbers and flags of RM and of UVM.

use std::path::Path;

use drivers_spec::nv::abi::{Branch, Call, Layout};
use drivers_spec::nv::{class, control, escape, memory, query, shared, status, uvm};

use super::c::{Headers, read};
use super::trees;

const SDK: &str = "src/common/sdk/nvidia/inc";
const KERNEL: [&str; 5] = [
    "nvtypes.h",
    "nv-ioctl.h",
    "nv-ioctl-numbers.h",
    "nv-ioctl-numa.h",
    "uvm_linux_ioctl.h",
];
const READ_ONLY: [&str; 2] = ["uvm_ioctl.h", "uvm_types.h"];
const RM: [&str; 48] = [
    "nvtypes.h",
    "nvmisc.h",
    "nvos.h",
    "nv-ioctl.h",
    "nv-ioctl-numbers.h",
    "nv-ioctl-numa.h",
    "nv_escape.h",
    "nv-unix-nvos-params-wrappers.h",
    "rs_access.h",
    "g_allclasses.h",
    "alloc/alloc_channel.h",
    "class/cl0005.h",
    "class/cl0070.h",
    "class/cl0080.h",
    "class/cl00de.h",
    "class/cl2080.h",
    "class/cl2081.h",
    "class/cl83de.h",
    "class/clb0b5sw.h",
    "class/clc661.h",
    "class/clcb33.h",
    "ctrl/ctrlxxxx.h",
    "ctrl/ctrl0000/ctrl0000client.h",
    "ctrl/ctrl0000/ctrl0000gpu.h",
    "ctrl/ctrl0000/ctrl0000syncgpuboost.h",
    "ctrl/ctrl0000/ctrl0000system.h",
    "ctrl/ctrl0080/ctrl0080fb.h",
    "ctrl/ctrl0080/ctrl0080fifo.h",
    "ctrl/ctrl0080/ctrl0080gpu.h",
    "ctrl/ctrl0080/ctrl0080gr.h",
    "ctrl/ctrl0080/ctrl0080host.h",
    "ctrl/ctrl0080/ctrl0080perf.h",
    "ctrl/ctrl2080/ctrl2080bus.h",
    "ctrl/ctrl2080/ctrl2080ce.h",
    "ctrl/ctrl2080/ctrl2080event.h",
    "ctrl/ctrl2080/ctrl2080fb.h",
    "ctrl/ctrl2080/ctrl2080fifo.h",
    "ctrl/ctrl2080/ctrl2080gpu.h",
    "ctrl/ctrl2080/ctrl2080gr.h",
    "ctrl/ctrl2080/ctrl2080gsp.h",
    "ctrl/ctrl2080/ctrl2080mc.h",
    "ctrl/ctrl2080/ctrl2080nvlink.h",
    "ctrl/ctrl2080/ctrl2080perf.h",
    "ctrl/ctrl2080/ctrl2080rc.h",
    "ctrl/ctrl2080/ctrl2080tmr.h",
    "ctrl/ctrl83de/ctrl83dedebug.h",
    "ctrl/ctrl906f.h",
    "ctrl/ctrla06c.h",
];
const RM_MORE: [&str; 4] = [
    "ctrl/ctrla06f/ctrla06fgpfifo.h",
    "ctrl/ctrlc36f.h",
    "ctrl/ctrlcb33.h",
    "uvm_linux_ioctl.h",
];

/// Facts of ours, and the expressions that the headers must give the same values for.
struct Facts {
    headers: Headers,
    branch: Branch,
    keys: Vec<String>,
    expressions: Vec<String>,
    ours: Vec<u64>,
    wrong: Vec<String>,
}

impl Facts {
    fn new(headers: Headers, branch: Branch) -> Facts {
        Facts {
            headers,
            branch,
            keys: Vec::new(),
            expressions: Vec::new(),
            ours: Vec::new(),
            wrong: Vec::new(),
        }
    }

    fn fact(&mut self, key: String, expression: String, ours: u64) {
        self.keys.push(key);
        self.expressions.push(expression);
        self.ours.push(ours);
    }

    fn layouts(&mut self, layouts: &[&Layout]) {
        for layout in layouts {
            let name = layout.name;
            let Some(theirs) = self.headers.fields(name) else {
                if layout.on.has(self.branch) {
                    self.wrong.push(format!("{name}: not in the headers"));
                }
                continue;
            };
            if !layout.on.has(self.branch) {
                self.wrong
                    .push(format!("{name}: in the headers, ours says not"));
                continue;
            }
            let ours: Vec<_> = layout.fields(self.branch).collect();
            let named: Vec<_> = ours.iter().map(|field| field.name).collect();
            if named != theirs {
                self.wrong
                    .push(format!("{name}: ours {named:?}, the header's {theirs:?}"));
                continue;
            }
            let size = layout.size(self.branch) as u64;
            self.fact(name.to_owned(), format!("sizeof({name})"), size);
            for field in ours {
                let (key, c) = (format!("{name}.{}", field.name), field.name);
                self.fact(
                    key.clone(),
                    format!("offsetof({name}, {c})"),
                    field.at as u64,
                );
                self.fact(
                    key,
                    format!("sizeof((({name} *)0)->{c})"),
                    field.size as u64,
                );
            }
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            match (self.headers.defines(call.name), call.on.has(self.branch)) {
                (true, true) => self.fact(call.name.into(), call.name.into(), call.number.into()),
                (false, false) => {}
                (here, _) => self
                    .wrong
                    .push(format!("{}: in the headers: {here}", call.name)),
            }
        }
    }

    fn flags(&mut self) {
        for word in memory::WORDS {
            for field in word.fields {
                let c = format!("{}_{}", word.name, field.name);
                // A flag may be younger than the first releases of its branch.
                if field.on.has(self.branch) && !self.headers.defines(&c) {
                    eprintln!("this release has no {c}");
                    continue;
                }
                if !field.on.has(self.branch) {
                    // Another row may have the name, at other bits.
                    let again = |other: &&memory::Field| {
                        other.name == field.name && other.on.has(self.branch)
                    };
                    if self.headers.defines(&c) && !word.fields.iter().any(|f| again(&f)) {
                        self.wrong
                            .push(format!("{c}: in the headers, ours says not"));
                    }
                } else if matches!(
                    word.name,
                    "NVOS32_ALLOC_FLAGS" | "NV_VASPACE_ALLOCATION_FLAGS"
                ) {
                    self.fact(c.clone(), c, field.mask().into());
                } else {
                    // `31:29` is the two ends of a conditional expression.
                    self.fact(c.clone(), format!("(1 ? {c})"), field.high.into());
                    self.fact(c.clone(), format!("(0 ? {c})"), field.low.into());
                }
            }
        }
    }

    /// How many facts are equal.
    fn compare(mut self, version: &str) -> usize {
        let theirs = self.headers.values(&self.expressions);
        for ((key, ours), theirs) in self.keys.iter().zip(&self.ours).zip(&theirs) {
            if ours != theirs {
                self.wrong
                    .push(format!("{key}: ours {ours:#x}, the header's {theirs:#x}"));
            }
        }
        assert!(self.wrong.is_empty(), "{version}: {:#?}", self.wrong);
        theirs.len()
    }
}

fn headers(tree: &Path) -> (Headers, bool) {
    let whole = tree.join(SDK).exists();
    let mut folders = vec![
        tree.join("kernel-open/common/inc"),
        tree.join("kernel-open/nvidia-uvm"),
    ];
    let mut wanted = Vec::new();
    if whole {
        folders.insert(0, tree.join(SDK));
        folders.push(tree.join("src/common/inc"));
        folders.push(tree.join("src/nvidia/arch/nvalloc/unix/include"));
        folders.push(tree.join("src/nvidia/generated"));
        wanted.extend(RM);
        wanted.extend(RM_MORE);
    } else {
        wanted.extend(KERNEL);
    }
    let mut headers = Headers::new(folders, &wanted);
    // Included by others; only their text is missing.
    let text = Headers::new(headers.folders.clone(), &READ_ONLY).text;
    headers.text.push_str(&text);
    (headers, whole)
}

#[test]
fn structs_numbers_and_flags_as_in_the_headers() {
    for (version, tree) in trees("kernel-") {
        let Some(branch) = Branch::of(&version) else {
            eprintln!("{version}: not compared, our tables do not describe it");
            continue;
        };
        let (headers, whole) = headers(&tree);
        let mut facts = Facts::new(headers, branch);
        facts.layouts(uvm::LAYOUTS);
        facts.calls(uvm::COMMANDS);
        let ours = |layout: &&&Layout| layout.name.starts_with("nv_");
        let files: Vec<_> = escape::LAYOUTS.iter().filter(ours).copied().collect();
        if whole {
            facts.layouts(escape::LAYOUTS);
            facts.layouts(class::LAYOUTS);
            facts.layouts(control::LAYOUTS);
            facts.layouts(query::LAYOUTS);
            facts.layouts(shared::LAYOUTS);
            facts.calls(escape::ESCAPES);
            facts.calls(class::CLASSES);
            facts.calls(control::CONTROLS);
            facts.flags();
        } else {
            let files: Vec<_> = files
                .into_iter()
                .filter(|l| !l.name.contains("with_fd"))
                .collect();
            facts.layouts(&files);
        }
        let equal = facts.compare(&version);
        eprintln!("{version}: {equal} facts are equal");
        assert!(equal > if whole { 1000 } else { 200 }, "{version}: {equal}");
    }
}

/// Names and numbers in the text of a header: what stands between `before` and the number.
fn numbers(text: &str, before: &str) -> Vec<(String, u32)> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(before));
    lines
        .filter_map(|line| {
            let mut parts = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let mut parts = parts.by_ref().filter(|part| !part.is_empty());
            let name = parts.next()?.to_owned();
            let number = parts.next()?;
            let number = match number.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            Some((name, number))
        })
        .collect()
}

#[test]
fn statuses_and_xids_as_in_the_headers() {
    for (version, tree) in trees("kernel-") {
        let sdk = [tree.join(SDK), tree.join("kernel-open/common/inc")];
        let find = |name: &str| sdk.iter().map(|f| f.join(name)).find(|path| path.exists());
        let codes = find("nvstatuscodes.h").expect("every tree has it");
        let codes = numbers(&read(&codes), "NV_STATUS_CODE(");
        assert!(codes.len() > 100, "{version}");
        // A number keeps its meaning; a few have had other names.
        let mut renamed = 0;
        let mut known = |ours: Option<&str>, name: &str| {
            renamed += usize::from(ours != Some(name));
            ours.is_some()
        };
        for (name, number) in codes {
            let ours = status::status_name(number);
            assert!(
                known(ours, &name),
                "{version}: {number:#x} is {name}, ours {ours:?}"
            );
        }
        let Some(errors) = find("nverror.h") else {
            continue;
        };
        let errors = numbers(&read(&errors), "#define");
        assert!(errors.len() > 60, "{version}: {}", errors.len());
        for (name, number) in errors {
            if name.ends_with("_LAST_ERROR") || name.contains("_RECOVERY_LEVEL_") {
                continue;
            }
            let ours = status::xid_name(number);
            assert!(
                known(ours, &name),
                "{version}: Xid {number} is {name}, ours {ours:?}"
            );
        }
        assert!(renamed < 12, "{version}: {renamed} names are not ours");
    }
}

#[test]
fn classes_take_the_structs_that_rm_lists() {
    for (version, tree) in trees("kernel-") {
        let path = tree.join("src/nvidia/src/kernel/rmapi/resource_list.h");
        let (Some(branch), true) = (Branch::of(&version), path.exists()) else {
            eprintln!("{version}: no list of resources here");
            continue;
        };
        let text = read(&path);
        let mut compared = 0;
        for class in class::CLASSES.iter().filter(|class| class.on.has(branch)) {
            let start = format!("/* External Class         */ {},", class.name);
            let entry = text.split(&start).nth(1);
            let entry = entry.unwrap_or_else(|| panic!("{version}: {} is not listed", class.name));
            let info = entry.split("/* Alloc Param Info       */").nth(1).unwrap();
            let info = info.lines().next().unwrap().trim().trim_end_matches(',');
            let theirs = info
                .split_once('(')
                .map(|(_, name)| name.trim_end_matches(')'));
            let theirs = theirs.filter(|name| *name != "NvHandle");
            let ours = class.layout.map(|layout| layout.name);
            assert_eq!(ours, theirs, "{version} {}: {info}", class.name);
            compared += 1;
        }
        assert!(compared > 25, "{version}: {compared}");
    }
}
