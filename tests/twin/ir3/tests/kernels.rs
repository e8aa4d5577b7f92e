//! Kernels that tinygrad lowers and Mesa's ir3 compiles for A630: none breaks a rule, and their results are those of a
//! processor. `tests/golden/ir3/kernels.txt` has some; the variable `IR3_KERNELS` names a file with more.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};

use half::f16;
use support::{CODE, Ram, launch};
use twin_ir3::Grid;
use twin_ir3::launch::{Launch, Private};

/// Where private memory is, and the border colour.
const PRIVATE: u64 = 0x80_0000_0000;
const BORDER: u64 = 0x81_0000_0000;

fn bytes(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

fn words<const N: usize>(text: &str) -> [u32; N] {
    let all: Vec<u32> = bytes(text)
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    all.try_into().unwrap()
}

/// A register id, or none.
fn register(id: u32) -> Option<u8> {
    (id != 0xfc).then_some(id as u8)
}

/// A kernel and what it is launched with.
fn parse(numbers: &[u32]) -> (Launch, usize) {
    let mut launch = launch();
    launch.full_footprint = numbers[0].max(1);
    launch.half_footprint = numbers[1];
    launch.branch_stack = numbers[2].div_ceil(2);
    launch.system.group_id = register(numbers[3]);
    launch.system.local_id = register(numbers[4]);
    (launch.system.group_size, launch.system.group_offset) = (None, None);
    launch.local_bytes = numbers[5];
    launch.private = Private {
        base: PRIVATE,
        per_fiber: numbers[6].next_multiple_of(512),
        total: numbers[6].next_multiple_of(512) * 2048,
        ..Private::default()
    };
    launch.merged_registers = numbers[7] != 0;
    launch.groups = [numbers[8], numbers[9], numbers[10]];
    launch.local_size = [numbers[11], numbers[12], numbers[13]];
    launch.global_size = std::array::from_fn(|d| launch.groups[d] * launch.local_size[d]);
    launch.const_dwords = 1024;
    launch.limit = 1 << 22;
    launch.descriptors.border_colors = Some(BORDER);
    (launch, numbers[14] as usize)
}

/// The distance of two values of a type, as a fraction where they are large.
fn far(kind: &str, ours: &[u8], theirs: &[u8]) -> f64 {
    let float = |b: &[u8]| match b.len() {
        2 => f64::from(f16::from_le_bytes(b.try_into().unwrap()).to_f32()),
        _ => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
    };
    if !kind.starts_with("float") {
        return if ours == theirs { 0.0 } else { f64::INFINITY };
    }
    let (ours, theirs) = (float(ours), float(theirs));
    if ours == theirs || ours.is_nan() && theirs.is_nan() {
        return 0.0;
    }
    (ours - theirs).abs() / theirs.abs().max(1.0)
}

fn size(kind: &str) -> usize {
    match kind {
        "float16" | "int16" | "uint16" => 2,
        "int8" | "uint8" | "bool" => 1,
        "int64" | "uint64" => 8,
        _ => 4,
    }
}

#[derive(Default)]
struct Totals {
    cases: usize,
    instructions: u64,
    different: Vec<String>,
}

fn case(text: &str, totals: &mut Totals) {
    let mut ram = Ram::default();
    ram.map(BORDER, vec![0; 128]);
    let mut name = "";
    let mut current: Option<Launch> = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let pending = matches!(fields[0], "launch" | "want");
        if pending && let Some(launch) = current.take() {
            ram.map(PRIVATE, vec![0; launch.private.total as usize * 2]);
            let done = Grid::new(launch).and_then(|mut grid| grid.run(&mut ram));
            match done {
                Ok(done) => totals.instructions += done.instructions,
                Err(broken) => return totals.different.push(format!("{name}: {broken}")),
            }
        }
        match fields[0] {
            "case" => name = fields[1],
            "buf" => {
                let count: usize = fields[2].parse().unwrap();
                let mut data = if fields[3] == "-" {
                    Vec::new()
                } else {
                    bytes(fields[3])
                };
                data.resize(count.max(data.len()), 0);
                ram.map(u64::from_str_radix(fields[1], 16).unwrap(), data);
            }
            "launch" => {
                let numbers: Vec<u32> = fields[1..].iter().map(|n| n.parse().unwrap()).collect();
                let (mut launch, samplers) = parse(&numbers);
                let sampler = drivers_spec::qcom::descriptor::Sampler::PIXELS
                    .encode()
                    .unwrap();
                launch.descriptors.samplers = vec![Some(sampler); samplers];
                current = Some(launch);
            }
            kind @ ("const" | "code" | "tex" | "img") => {
                let launch = current.as_mut().unwrap();
                match kind {
                    "const" => {
                        let mut data = if fields[1] == "-" {
                            Vec::new()
                        } else {
                            bytes(fields[1])
                        };
                        data.resize(4096, 0);
                        let words = data.chunks(4);
                        launch.constants = words
                            .map(|b| Some(u32::from_le_bytes(b.try_into().unwrap())))
                            .collect();
                    }
                    "code" => {
                        let mut code = bytes(fields[1]);
                        code.resize(code.len().next_multiple_of(128), 0);
                        launch.code_bytes = code.len() as u32;
                        ram.map(CODE, code);
                    }
                    "tex" => launch.descriptors.textures.push(Some(words(fields[1]))),
                    _ => launch.descriptors.images.push(Some(words(fields[1]))),
                }
            }
            "want" => {
                let at = u64::from_str_radix(fields[1], 16).unwrap();
                let tolerance: f64 = fields[3].parse().unwrap();
                let theirs = bytes(fields[4]);
                let mut ours = vec![0; theirs.len()];
                twin_ir3::Memory::read(&mut ram, twin_ir3::memory::Path::Uche, at, &mut ours)
                    .unwrap();
                let size = size(fields[2]);
                let pairs = ours.chunks(size).zip(theirs.chunks(size));
                let worst = pairs.map(|(a, b)| far(fields[2], a, b)).fold(0.0, f64::max);
                totals.cases += 1;
                if worst > tolerance {
                    totals.different.push(format!("{name}: {worst}"));
                }
            }
            other => panic!("{other}"),
        }
    }
}

fn all(path: &Path) -> Totals {
    let text = std::fs::read_to_string(path).unwrap();
    let mut totals = Totals::default();
    let text = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    for one in text.split("case ").filter(|one| !one.trim().is_empty()) {
        case(format!("case {one}").trim_end(), &mut totals);
    }
    assert!(totals.different.is_empty(), "{:#?}", totals.different);
    totals
}

#[test]
fn kernels_of_mesa_break_no_rule() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/ir3/kernels.txt");
    let totals = all(&golden);
    assert!(totals.cases > 10 && totals.instructions > 10_000);
    if let Some(path) = std::env::var_os("IR3_KERNELS") {
        let totals = all(&PathBuf::from(path));
        println!(
            "{} cases, {} instructions",
            totals.cases, totals.instructions
        );
    }
}
