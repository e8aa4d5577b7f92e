//! Topologies of machines that no twin is: many kinds of nodes, nodes that do not read, numbers that
//! no hardware has. One bad node takes no other with it, and nothing panics.

use crate::stand;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use conformance::part::Part;
use drivers_amd::kfd::topology::NODES;
use drivers_amd::kfd::{Survey, Unusable, survey};
use hcq::Device;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::errno::{EACCES, EIO, ENOENT, EPERM};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use twin_amd::machine::TwinMachine;

/// The files of a node, by their path in its folder: text, or an errno. A folder ends with `/`.
type Files = BTreeMap<String, Result<String, i32>>;

/// The nodes that a test tells, in front of a twin.
struct Told {
    nodes: BTreeMap<u32, Files>,
    /// What was opened.
    opened: Mutex<Vec<String>>,
}

impl Told {
    fn of(twin: &Arc<TwinMachine>, nodes: impl IntoIterator<Item = Files>) -> Arc<dyn Machine> {
        Tapped::machine(twin.clone(), Told::new(nodes))
    }

    fn new(nodes: impl IntoIterator<Item = Files>) -> Arc<Told> {
        Arc::new(Told {
            nodes: (0..).zip(nodes).collect(),
            opened: Mutex::default(),
        })
    }

    /// What is in a folder of the nodes.
    fn names(&self, path: &str) -> Result<Vec<String>, i32> {
        if path == NODES {
            // In no order, with what is no node.
            let numbers = self.nodes.keys().rev().map(ToString::to_string);
            return Ok(numbers.chain(["x".into(), "-1".into()]).collect());
        }
        let (number, folder) = path[NODES.len() + 1..].split_once('/').unwrap();
        let folder = format!("{folder}/");
        let files = &self.nodes[&number.parse().unwrap()];
        if let Some(Err(errno)) = files.get(&folder) {
            return Err(*errno);
        }
        let inside = files.keys().filter_map(|name| name.strip_prefix(&folder));
        let names: BTreeSet<_> = inside.map(|rest| rest.split('/').next().unwrap()).collect();
        match names.is_empty() {
            true => Err(ENOENT),
            false => Ok(names.into_iter().map(Into::into).collect()),
        }
    }

    fn file(&self, path: &str) -> Option<Result<&str, i32>> {
        let (number, name) = path
            .strip_prefix(NODES)?
            .strip_prefix('/')?
            .split_once('/')?;
        let found = self.nodes.get(&number.parse().ok()?)?.get(name);
        Some(match found {
            Some(Ok(text)) => Ok(text),
            Some(Err(errno)) => Err(*errno),
            None => Err(ENOENT),
        })
    }
}

impl Tap for Told {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        let path = &access.name;
        let answer = match access.verb {
            Verb::Open => {
                self.opened.lock().unwrap().push(path.clone());
                return None;
            }
            Verb::Text => self.file(path)?.map(str::to_owned),
            Verb::List if path.starts_with(NODES) => self.names(path).map(|names| names.join("\n")),
            _ => return None,
        };
        let text = answer.map(|text| Answer::data(text.into_bytes()));
        Some(text.map_err(Fault::Errno))
    }
}

/// The files that a twin shows for its GPU number `index`.
fn gpu(twin: &TwinMachine, index: u32) -> Files {
    let names = ["gpu_id", "name", "properties", "mem_banks/0/properties"];
    let read = |name: &str| twin.read(&format!("{NODES}/{}/{name}", index + 1)).unwrap();
    let files = names.map(|name| (name.to_owned(), Ok(read(name))));
    files.into_iter().collect()
}

/// A socket.
fn cpu() -> Files {
    let mut files = Files::new();
    files.insert("gpu_id".into(), Ok("0\n".into()));
    files.insert("name".into(), Ok("\n".into()));
    let properties = "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\ngfx_target_version 0\n";
    files.insert("properties".into(), Ok(properties.into()));
    files
}

/// Sets a property, or takes it away.
fn set(mut files: Files, name: &str, value: Option<&str>) -> Files {
    let old = files["properties"].clone().unwrap();
    let mut lines: Vec<String> = old
        .lines()
        .filter(|line| line.split(' ').next() != Some(name))
        .map(Into::into)
        .collect();
    lines.extend(value.map(|value| format!("{name} {value}")));
    files.insert("properties".into(), Ok(lines.join("\n") + "\n"));
    files
}

fn with(mut files: Files, name: &str, content: Result<&str, i32>) -> Files {
    files.insert(name.into(), content.map(Into::into));
    files
}

fn without(mut files: Files, name: &str) -> Files {
    files.remove(name);
    files
}

/// What a survey says of each node that is or hides a GPU.
fn told(all: &Survey) -> Vec<(u32, Option<u32>, String)> {
    let one = |found: &drivers_amd::kfd::Found| {
        let text = found.unusable.as_ref().map(ToString::to_string);
        (found.node, found.index, text.unwrap_or_default())
    };
    all.gpus.iter().map(one).collect()
}

#[test]
fn one_bad_node_takes_no_other_with_it() {
    let twin = stand::twin("gpus=2,vram=1G");
    let card = || gpu(&twin, 1);
    let machine = Told::of(
        &twin,
        [
            cpu(),
            cpu(),
            set(card(), "gfx_target_version", Some("90010")),
            set(card(), "gfx_target_version", Some("90500")),
            gpu(&twin, 0),
            set(card(), "gfx_target_version", Some("100306")),
            set(card(), "gfx_target_version", Some("110500")),
            with(Files::new(), "gpu_id", Err(EPERM)),
            with(Files::new(), "gpu_id", Err(EACCES)),
            with(Files::new(), "gpu_id", Err(EIO)),
            with(card(), "gpu_id", Ok("gfx\n")),
            with(card(), "properties", Err(EIO)),
            without(card(), "mem_banks/0/properties"),
            set(card(), "gfx_target_version", None),
            set(card(), "drm_render_minor", Some("0")),
            set(card(), "drm_render_minor", Some("77")),
            set(card(), "simd_count", None),
            // No links, no name: nothing that is needed.
            without(card(), "name"),
            with(card(), "io_links/", Err(EIO)),
        ],
    );
    let all = survey(&*machine);
    assert_eq!(all.driver, Ok((1, 17)));
    let found = told(&all);
    let expected: [(u32, Option<u32>, &str); 17] = [
        (2, None, "gfx90a is not supported; supported are gfx942, "),
        (3, None, "gfx950 is not supported"),
        (4, Some(0), ""),
        (5, None, "gfx1036 is not supported"),
        (6, None, "gfx1150 is not supported"),
        (7, None, "node 7: the cgroup of this process"),
        (8, None, "node 8: the cgroup of this process"),
        (9, None, "node 9 of the topology cannot be read"),
        (10, None, "expected a decimal number, found \"gfx\""),
        (11, None, "nodes/11/properties"),
        (12, None, "nodes/12/mem_banks"),
        (13, None, "expected gfx_target_version above 0"),
        (14, Some(1), "expected drm_render_minor above 0"),
        (15, Some(2), "/dev/dri/renderD77 does not exist"),
        (16, Some(3), "expected simd_count above 0"),
        (17, Some(4), ""),
        (18, Some(5), ""),
    ];
    for ((node, index, text), expected) in found.iter().zip(&expected) {
        assert_eq!((*node, *index), (expected.0, expected.1), "{text}");
        assert!(text.contains(expected.2), "{node}: {text}");
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(all.usable().count(), 3);
    // The same number is the same node each time.
    assert_eq!(told(&survey(&*machine)), found);
    stand::work(&machine, &stand::kernel("gfx1100", "sums", 2)).unwrap();
    let second = drivers_amd::open(&machine, 4, &stand::options()).unwrap();
    assert_eq!(second.info().id.to_string(), "AMD:4");
    let error = drivers_amd::open(&machine, 1, &stand::options()).unwrap_err();
    assert!(error.to_string().contains("drm_render_minor"), "{error}");
}

/// Eight cards of eight partitions each, of which the kernel could not make a render node for all: the
/// partitions of a card share one.
#[test]
fn partitions_are_numbered_by_their_nodes() {
    let twin = stand::twin("chip=gfx942,xcc=1,gpus=8,vram=1G");
    let partitions = (0..64).map(|i| {
        let files = set(gpu(&twin, 0), "unique_id", Some("1"));
        let minor = (128 + i / 8).to_string();
        let files = set(files, "drm_render_minor", Some(&minor));
        with(files, "gpu_id", Ok(&(1000 + i).to_string()))
    });
    let machine = Told::of(&twin, [cpu(), cpu()].into_iter().chain(partitions));
    let all = survey(&*machine);
    assert_eq!(all.usable().count(), 64);
    for (i, found) in (0..).zip(&all.gpus) {
        assert_eq!((found.node, found.index), (i + 2, Some(i)));
        assert_eq!(found.gpu.as_ref().unwrap().gpu_id, 1000 + i);
    }
}

/// Opening one GPU of many touches no other one: each open of a render node costs an address space.
#[test]
fn opening_one_gpu_opens_no_other() {
    let twin = stand::twin("gpus=8,vram=1G");
    let cards = (0..8).map(|i| gpu(&twin, i));
    let told = Told::new([cpu()].into_iter().chain(cards));
    let machine = Tapped::machine(twin.clone(), told.clone());
    drivers_amd::open(&machine, 5, &stand::options()).unwrap();
    let opened = told.opened.lock().unwrap();
    let mut render = opened.iter().filter(|path| path.contains("render"));
    assert!(
        render.all(|path| path == "/dev/dri/renderD133"),
        "{opened:?}"
    );
}

#[test]
fn memory_of_every_heap_is_told_apart() {
    let twin = stand::twin("vram=1G");
    let bank = |heap: u32, bytes: &str| format!("heap_type {heap}\nsize_in_bytes {bytes}\n");
    let size = |banks: &[(u32, &str)]| {
        let mut files = without(gpu(&twin, 0), "mem_banks/0/properties");
        for (i, (heap, bytes)) in banks.iter().enumerate() {
            let name = format!("mem_banks/{i}/properties");
            files = with(files, &name, Ok(&bank(*heap, bytes)));
        }
        let all = survey(&*Told::of(&twin, [cpu(), files]));
        let gpu = all.gpus[0].gpu.as_ref().unwrap();
        (gpu.vram, gpu.large_bar)
    };
    assert_eq!(size(&[(1, "4096")]), (4096, true));
    assert_eq!(size(&[(1, "4096"), (2, "8192")]), (12288, false));
    // System memory, GDS, LDS, scratch.
    assert_eq!(
        size(&[(0, "1"), (2, "8192"), (3, "1"), (4, "1"), (5, "1")]),
        (8192, false)
    );
    assert_eq!(size(&[(0, "1")]).0, 0);
    let most = u64::MAX.to_string();
    assert_eq!(size(&[(1, &most), (1, &most)]), (u64::MAX, true));
    assert_eq!(size(&[(1, "-1"), (1, "many")]).0, 0);
}

#[test]
fn numbers_that_no_hardware_has_are_errors_or_harmless() {
    let twin = stand::twin("vram=1G");
    let files = gpu(&twin, 0);
    let text = files["properties"].clone().unwrap();
    let names: Vec<&str> = text.lines().map(|l| l.split(' ').next().unwrap()).collect();
    let values = ["0", "1", "4294967295", "18446744073709551615", "-1", "x y"];
    let part = Part::chosen();
    let mut refused = 0;
    for (i, name) in names.iter().enumerate() {
        for (j, value) in values.into_iter().enumerate() {
            if !part.has(i + j, 6) {
                continue;
            }
            let twin = stand::twin("vram=1G");
            let machine = Told::of(&twin, [cpu(), set(files.clone(), name, Some(value))]);
            refused += u32::from(drivers_amd::open(&machine, 0, &stand::options()).is_err());
        }
    }
    println!("{refused} were refused");
    let least = if part.is_all() { 20 } else { 1 };
    assert!(refused >= least, "only {refused} were refused");
    // All of them at once, in large numbers.
    for value in ["4294967295", "2147483648", "65535", "1"] {
        let huge = |files, name: &&str| match *name {
            "gfx_target_version" | "drm_render_minor" => files,
            name => set(files, name, Some(value)),
        };
        let twin = stand::twin("vram=1G");
        let machine = Told::of(&twin, [cpu(), names.iter().fold(files.clone(), huge)]);
        let _ = drivers_amd::open(&machine, 0, &stand::options());
    }
}

#[test]
fn properties_may_end_anywhere_and_hold_anything() {
    let twin = stand::twin("vram=1G");
    let text = gpu(&twin, 0)["properties"].clone().unwrap();
    for end in 0..text.len() {
        let machine = Told::of(
            &twin,
            [cpu(), with(gpu(&twin, 0), "properties", Ok(&text[..end]))],
        );
        let all = survey(&*machine);
        assert_eq!(all.gpus.len(), 1);
        let usable = all.gpus[0].unusable.is_none();
        let whole = all.gpus[0].gpu.as_ref().unwrap().lacks().is_none();
        assert!(whole || !usable, "{end}");
    }
    let noise =
        format!("\n\n = \nname\n sibling_map 00,ff\nnew_key_of_linux_9 1\n{text}\u{0}\u{7f}");
    let machine = Told::of(
        &twin,
        [cpu(), with(gpu(&twin, 0), "properties", Ok(&noise))],
    );
    assert_eq!(survey(&*machine).usable().count(), 1);
}

#[test]
fn a_driver_without_its_topology_says_so() {
    let twin = stand::twin("fault=path:/sys/devices/virtual/kfd:ENOENT");
    let all = survey(&*stand::machine(&twin));
    assert_eq!(all.driver, Err(Unusable::NoTopology));
    // Versions that other kernels give themselves.
    for (kfd, good) in [
        ("1.8", false),
        ("1.9", true),
        ("1.99", true),
        ("0.99", false),
        ("2.0", false),
    ] {
        let twin = stand::twin(&format!("kfd={kfd}"));
        let all = survey(&*stand::machine(&twin));
        assert_eq!(all.driver.is_ok(), good, "{kfd}");
        assert_eq!(all.usable().count(), usize::from(good), "{kfd}");
    }
}
