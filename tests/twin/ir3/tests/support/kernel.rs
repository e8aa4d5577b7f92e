//! Kernels of a file such as `tests/golden/ir3/kernels.txt`: what they are launched with, and what they shall give.

use std::path::{Path, PathBuf};

use half::f16;
use twin_ir3::launch::{Launch, Private};
use twin_ir3::{Broken, Done, Grid};

use super::{CODE, Ram, launch};

/// Where private memory is, and the border colour.
const PRIVATE: u64 = 0x80_0000_0000;
const BORDER: u64 = 0x81_0000_0000;

/// A launch and its code.
#[derive(Clone)]
pub struct Step {
    pub launch: Launch,
    pub words: Vec<u64>,
}

/// Launches in order, and what is in memory before and behind them.
#[derive(Clone, Default)]
pub struct Case {
    pub name: String,
    buffers: Vec<(u64, Vec<u8>)>,
    pub steps: Vec<Step>,
    want: (u64, String, f64, Vec<u8>),
}

/// What a case gave.
pub struct Outcome {
    pub instructions: u64,
    /// The largest distance from what was wanted.
    pub worst: f64,
    /// The result.
    pub bytes: Vec<u8>,
}

/// The file that comes with the tests.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/ir3/kernels.txt")
}

/// The cases of a file.
pub fn cases(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut all: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        match (fields[0], all.last_mut()) {
            ("case", _) => all.push(Case {
                name: fields[1].into(),
                ..Case::default()
            }),
            (_, Some(case)) => case.add(&fields),
            _ => panic!("{}: {line:?} is in no case", path.display()),
        }
    }
    all
}

fn bytes(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let all = bytes.chunks(4);
    all.map(|b| u32::from_le_bytes(b.try_into().unwrap()))
}

fn address(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// A register id, or none.
fn register(id: u32) -> Option<u8> {
    (id != 0xfc).then_some(id as u8)
}

impl Step {
    /// Of the numbers of a launch.
    fn of(numbers: &[u32]) -> Step {
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
        let sampler = drivers_spec::qcom::descriptor::Sampler::PIXELS;
        let sampler = sampler.encode().unwrap();
        launch.descriptors.samplers = vec![Some(sampler); numbers[14] as usize];
        Step {
            launch,
            words: Vec::new(),
        }
    }

    fn run(&self, ram: &mut Ram) -> Result<Done, Box<Broken>> {
        let mut code: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        code.resize(code.len().next_multiple_of(128), 0);
        ram.map(CODE, code);
        ram.map(PRIVATE, vec![0; self.launch.private.total as usize * 2]);
        Grid::new(self.launch.clone())?.run(ram)
    }
}

impl Case {
    /// Takes a line of the case.
    fn add(&mut self, fields: &[&str]) {
        if fields[0] == "buf" {
            let mut data = bytes(fields[3]);
            data.resize(fields[2].parse::<usize>().unwrap().max(data.len()), 0);
            return self.buffers.push((address(fields[1]), data));
        }
        if fields[0] == "launch" {
            let numbers: Vec<u32> = fields[1..].iter().map(|n| n.parse().unwrap()).collect();
            return self.steps.push(Step::of(&numbers));
        }
        if fields[0] == "want" {
            let tolerance = fields[3].parse().unwrap();
            let (at, kind, data) = (address(fields[1]), fields[2].into(), bytes(fields[4]));
            self.want = (at, kind, tolerance, data);
            return;
        }
        let mut data = bytes(fields[1]);
        let step = self.steps.last_mut().unwrap();
        let descriptor = |data: &[u8]| Some(words(data).collect::<Vec<_>>().try_into().unwrap());
        match fields[0] {
            "const" => {
                data.resize(4096, 0);
                step.launch.constants = words(&data).map(Some).collect();
            }
            "code" => {
                let all = data.chunks(8);
                step.words = all
                    .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
                    .collect();
                step.launch.code_bytes = data.len().next_multiple_of(128) as u32;
            }
            "tex" => step.launch.descriptors.textures.push(descriptor(&data)),
            "img" => step.launch.descriptors.images.push(descriptor(&data)),
            other => panic!("{}: {other:?} is no kind of line", self.name),
        }
    }

    /// Runs all launches.
    pub fn run(&self) -> Result<Outcome, Box<Broken>> {
        let mut ram = Ram::default();
        ram.map(BORDER, vec![0; 128]);
        for (at, data) in &self.buffers {
            ram.map(*at, data.clone());
        }
        let mut instructions = 0;
        for step in &self.steps {
            let done = step.run(&mut ram)?;
            instructions += done.instructions;
        }
        let (at, kind, _, theirs) = &self.want;
        let mut ours = vec![0; theirs.len()];
        let path = twin_ir3::memory::Path::Uche;
        twin_ir3::Memory::read(&mut ram, path, *at, &mut ours).unwrap();
        let size = size(kind);
        let pairs = ours.chunks(size).zip(theirs.chunks(size));
        Ok(Outcome {
            instructions,
            worst: pairs.map(|(a, b)| far(kind, a, b)).fold(0.0, f64::max),
            bytes: ours,
        })
    }

    /// How far results may be from what is wanted.
    pub fn tolerance(&self) -> f64 {
        self.want.2
    }
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
    let far = (ours - theirs).abs() / theirs.abs().max(1.0);
    // A number that is none is far from every other.
    if far.is_nan() { f64::INFINITY } else { far }
}

fn size(kind: &str) -> usize {
    match kind {
        "float16" | "int16" | "uint16" => 2,
        "int8" | "uint8" | "bool" => 1,
        "int64" | "uint64" => 8,
        _ => 4,
    }
}
