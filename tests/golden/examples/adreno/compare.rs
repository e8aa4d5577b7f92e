//! The table: what both compilers' code takes on the simulated shader cores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use codegen::ir3::Object;
use codegen::lower::{Arg, Program};
use codegen::render::{Code, Emitter, Ir3Renderer};
use codegen::{DType, Target};
use twin_ir3::Done;

use crate::mesa::{self, Compiled};
use crate::record::Kernels;
use crate::shader;

/// Cycles beside Mesa's from which on a kernel is named.
const BAD: f64 = 1.3;

/// Where the bands of such ratios end.
const BANDS: [f64; 7] = [0.5, 0.8, 1.0, 1.1, BAD, 2.0, f64::INFINITY];

/// A kernel that ran.
pub struct Row {
    name: String,
    number: usize,
    ours: Done,
    /// Ours without images, where it has some.
    plain: Option<Done>,
    theirs: Done,
    vectors: [u32; 2],
    /// Where results differ.
    different: Option<String>,
    mesa: Compiled,
}

impl Row {
    /// Our cycles for one of theirs.
    fn ratio(&self) -> f64 {
        self.ours.cycles.max(1) as f64 / self.theirs.cycles.max(1) as f64
    }
}

/// The target, which reads whatever it can as images if the variable `IMAGES` is `all`: as if these cost nothing.
fn target(chip: &str) -> Result<Target, String> {
    let mut target = Target::qcom(chip, 0).map_err(|e| e.to_string())?;
    if let Some(images) = &mut target.images
        && std::env::var("IMAGES").is_ok_and(|value| value == "all")
    {
        (images.coordinates, images.row_coordinates) = (0.0, 0.0);
        images.launch = f64::NEG_INFINITY;
    }
    Ok(target)
}

fn object(p: &Program, chip: &str) -> Result<Object, String> {
    let target = target(chip)?;
    match Ir3Renderer.emit(p, &target).map_err(|e| e.to_string())? {
        Code::Object(object) => Object::decode(&object.bytes).map_err(|e| e.to_string()),
        Code::Text(_) => Err("text".into()),
    }
}

/// The words of machine code of kernels, each once.
pub fn words(kernels: &Kernels, chip: &str) -> BTreeSet<u64> {
    // What our compiler refuses has none.
    let objects = kernels.iter().filter_map(|(_, p)| object(p, chip).ok());
    let words = objects.flat_map(|object| {
        let used = object.statistics.instructions as usize;
        object.code.into_iter().take(used)
    });
    words.collect()
}

fn floats(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        DType::F32 => {
            let all = bytes.chunks_exact(4);
            all.map(|b| f32::from_le_bytes(b.try_into().unwrap()).into())
                .collect()
        }
        DType::F16 => {
            let all = bytes.chunks_exact(2);
            all.map(|b| half::f16::from_le_bytes(b.try_into().unwrap()).to_f64())
                .collect()
        }
        _ => bytes.iter().map(|&b| b.into()).collect(),
    }
}

/// Where what they wrote differs by more than the order of sums explains.
fn difference(p: &Program, ours: &shader::Ram, theirs: &shader::Ram) -> Option<String> {
    let mut at = 0;
    for (n, arg) in p.args.iter().enumerate() {
        let &Arg::Buffer { dtype, len, .. } = arg else {
            continue;
        };
        let bytes = dtype.size() * len;
        let [a, b] = [ours, theirs].map(|ram| floats(dtype, &ram.0[at][..bytes]));
        at += 1;
        let far = |(x, y): (&f64, &f64)| {
            !(x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 2e-3 * x.abs().max(1.0))
        };
        if let Some(i) = a.iter().zip(&b).position(far) {
            return Some(format!("argument {n}, {dtype} {i}: {} and {}", a[i], b[i]));
        }
    }
    None
}

/// Runs all that Mesa has compiled.
pub fn rows(kernels: &Kernels, text: &str, chip: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut failed: BTreeMap<String, usize> = BTreeMap::new();
    for made in mesa::parse(text) {
        let number: usize = made.name.split(':').next().unwrap().parse().unwrap();
        let (name, p) = &kernels[number];
        let row = object(p, chip).and_then(|object| {
            let grid = p.grid(&Target::qcom(chip, 0).unwrap()).ok_or("no grid")?;
            let items = u32::try_from(p.items).unwrap();
            let (mut ram, args) = shader::memory(p);
            let (mut other, mut third) = (ram.clone(), ram.clone());
            let mut different = None;
            let plain = object.plain.as_deref().map(|plain| {
                shader::ours(plain, grid, chip, &args, &mut third)
                    .map_err(|e| format!("ours without images: {e}"))
            });
            let plain = plain.transpose()?;
            let ours = shader::ours(&object, grid, chip, &args, &mut ram)
                .map_err(|e| format!("ours: {e}"))?;
            let theirs = shader::theirs(&made, items, grid, chip, &args, &mut other)
                .map_err(|e| format!("Mesa's: {e}"))?;
            if plain.is_some() {
                let is_buffer = |arg: &&Arg| matches!(arg, Arg::Buffer { .. });
                let buffers = p.args.iter().filter(is_buffer).count();
                let same = ram.0[..buffers] == third.0[..buffers];
                different = (!same).then(|| "other bits than without images".to_owned());
            }
            Ok(Row {
                name: name.clone(),
                number,
                ours,
                plain,
                theirs,
                vectors: [object.footprint.full, made.full.max(made.half.div_ceil(2))],
                different: different.or_else(|| difference(p, &ram, &other)),
                mesa: made.clone(),
            })
        });
        match row {
            Ok(row) => rows.push(row),
            Err(why) => *failed.entry(format!("{}: {why}", made.name)).or_default() += 1,
        }
    }
    for why in failed.keys().take(20) {
        eprintln!("not run: {why}");
    }
    if failed.len() > 20 {
        eprintln!("not run: {} more", failed.len() - 20);
    }
    rows
}

fn mean(all: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = all.fold((0.0, 0), |(sum, n), x| (sum + x.ln(), n + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// What is counted, and where.
type Count = (&'static str, fn(&Done) -> u64);

/// Prints the table: the worst first.
pub fn print(rows: &[Row]) {
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    println!(
        "| kernel | instructions | cycles of (ss) | cycles of (sy) | vectors | waves | cycles | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for row in &order {
        let (o, t) = (&row.ours, &row.theirs);
        println!(
            "| {}: {} | {} / {} | {} / {} | {} / {} | {} / {} | {} / {} | {} / {} | {:.2} |",
            row.number,
            row.name,
            o.instructions,
            t.instructions,
            o.ss_cycles,
            t.ss_cycles,
            o.sy_cycles,
            t.sy_cycles,
            row.vectors[0],
            row.vectors[1],
            o.occupancy,
            t.occupancy,
            o.cycles,
            t.cycles,
            row.ratio()
        );
    }
    println!();
    let each: [Count; 5] = [
        ("instructions", |d| d.instructions),
        ("cycles that issue", |d| d.issue_cycles),
        ("cycles of (ss)", |d| d.ss_cycles + 1),
        ("cycles of (sy)", |d| d.sy_cycles + 1),
        ("cycles", |d| d.cycles),
    ];
    for (what, of) in each {
        let ratio = |row: &Row| of(&row.ours).max(1) as f64 / of(&row.theirs).max(1) as f64;
        println!(
            "{what}: geometric mean of ours for one of Mesa's {:.3}",
            mean(rows.iter().map(ratio))
        );
    }
    let mut from = 0.0;
    for to in BANDS {
        let inside = |r: &&Row| r.ratio() > from && r.ratio() <= to;
        let count = rows.iter().filter(inside).count();
        println!("cycles of ours for one of Mesa's from {from} to {to}: {count} kernels");
        from = to;
    }
    print_images(rows);
    let bad = rows.iter().filter(|r| r.ratio() > BAD).count();
    println!("{} kernels, {bad} of them over {BAD}", rows.len());
    for row in rows {
        if let Some(what) = &row.different {
            println!("results differ: {}: {}: {what}", row.number, row.name);
        }
    }
}

/// Prints what images change, as the simulator counts it: latencies, and not the bytes per cycle of the caches, for which
/// images are chosen.
fn print_images(rows: &[Row]) {
    let with = rows
        .iter()
        .filter_map(|row| Some((row, row.plain.as_ref()?)));
    let with: Vec<(&Row, &Done)> = with.collect();
    println!("{} kernels read images", with.len());
    if with.is_empty() {
        return;
    }
    println!("| kernel | instructions | cycles of (sy) | waves | cycles | ratio |");
    println!("|---|---|---|---|---|---|");
    let ratio =
        |(row, plain): &(&Row, &Done)| row.ours.cycles.max(1) as f64 / plain.cycles.max(1) as f64;
    for one in &with {
        let (o, p) = (&one.0.ours, one.1);
        println!(
            "| {}: {} | {} / {} | {} / {} | {} / {} | {} / {} | {:.2} |",
            one.0.number,
            one.0.name,
            o.instructions,
            p.instructions,
            o.sy_cycles,
            p.sy_cycles,
            o.occupancy,
            p.occupancy,
            o.cycles,
            p.cycles,
            ratio(one)
        );
    }
    println!(
        "cycles with images for one without: geometric mean {:.3}",
        mean(with.iter().map(ratio))
    );
}

/// Writes the listings of the worst ones, for people.
pub fn listings(rows: &[Row], kernels: &Kernels, chip: &str, folder: &Path, count: usize) {
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for row in order.into_iter().take(count) {
        let (_, p) = &kernels[row.number];
        let Ok(object) = object(p, chip) else {
            continue;
        };
        let words = row.mesa.code.chunks_exact(8);
        let words = words.map(|b| u64::from_le_bytes(b.try_into().unwrap()));
        let lines = words.map(|w| match codegen::ir3::decode(w) {
            Ok(inst) => format!("{inst}\n"),
            Err(why) => format!("{why}\n"),
        });
        let theirs: String = lines.collect();
        let text = format!(
            "{}\n{p}\nours\n{}\nMesa's\n{theirs}",
            row.name,
            object.disassemble()
        );
        std::fs::write(folder.join(format!("{}.txt", row.number)), text).unwrap();
    }
}
