//! Statements of PTX that four warps run together, compiled by NVIDIA's compiler, against what NVIDIA's manual
//! of PTX says that they compute.
//!
//! Sums are compared as in the test `matrix`. Where matrices lie in shared memory is written here as NVIDIA's
//! CUTLASS has it: shapes and strides of pieces of 16 bytes, then bits of the address that are mixed.

use crate::device;
use crate::layout;

use device::{Device, Grid};
use layout::{Mma, Type, parse};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Hazard};

const LIST: &str = include_str!("../../kernels/warpgroup.txt");
const BLOCKS: usize = 12;
/// Bytes of shared memory of a block, and words of input and of results of a thread.
const SHARED: usize = 32 << 10;
const INPUT: usize = 140;
const OUTPUT: usize = 128;
/// Where shared memory of a program begins.
const FIRST: u64 = 0x400;

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn statements(name: &str) -> Vec<&'static str> {
    let lines = LIST.lines().skip_while(|line| *line != format!("[{name}]"));
    lines
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .collect()
}

/// What a statement says beside types and the shape.
struct Statement {
    mma: Mma,
    a_in_registers: bool,
    never_adds: bool,
    negative: [bool; 2],
    turned: [bool; 2],
}

fn read(text: &str) -> Statement {
    let words: Vec<&str> = text
        .trim_end_matches(';')
        .split([' ', ','])
        .filter(|w| !w.is_empty())
        .collect();
    let tail: Vec<&str> = words[5..].to_vec();
    let a_in_registers = words[2] == "A";
    let turn = |k: usize| tail.get(k).is_some_and(|&word| word == "1");
    Statement {
        mma: parse(text),
        a_in_registers,
        never_adds: words[4] == "0",
        negative: [0, 1].map(|k| tail.get(k).is_some_and(|&word| word == "-1")),
        // Of A in registers there is nothing to turn.
        turned: if a_in_registers {
            [false, turn(2)]
        } else {
            [turn(2), turn(3)]
        },
    }
}

/// How a matrix lies in shared memory.
struct Layout {
    start: u64,
    /// Bytes of the mixed row: 16, where there is none, 32, 64, 128.
    pitch: u64,
    leading: u64,
    stride: u64,
    turned: bool,
}

impl Layout {
    /// The byte of a byte of a row; of turned ones of a half.
    fn place(&self, row: u64, byte: u64) -> u64 {
        // In pieces of 16 bytes, as a shape ((8, n), 2) or ((p, n), (8, k)) with strides.
        let (sbo, lbo, p) = (self.stride / 16, self.leading / 16, self.pitch / 16);
        let (pieces, within) = if self.turned {
            let (column, half) = (byte / 2, byte % 2);
            let eight = row / 8;
            let pieces = match p {
                1 => eight * sbo + column % 8 + column / 8 * lbo,
                _ => eight % p + eight / p * lbo + column % 8 * p + column / 8 * sbo,
            };
            (pieces, row % 8 * 2 + half)
        } else {
            let across = if p == 1 { lbo } else { 1 };
            (row % 8 * p + row / 8 * sbo + byte / 16 * across, byte % 16)
        };
        let linear = self.start + 16 * pieces + within;
        let bits = p.trailing_zeros();
        // Swizzle<bits, 4, 3>.
        linear ^ (linear >> 7 & ((1 << bits) - 1)) << 4
    }

    fn descriptor(&self) -> u64 {
        let mode = [(16, 0), (128, 1), (64, 2), (32, 3)]
            .iter()
            .find(|m| m.0 == self.pitch)
            .unwrap()
            .1;
        let field = |bytes: u64| (bytes & 0x3_ffff) >> 4;
        field(self.start) | field(self.leading) << 16 | field(self.stride) << 32 | mode << 62
    }

    /// Of a matrix of rows of 32 bytes within some bytes from `start` on; some of the layouts do not fit.
    fn choose(rows: u64, start: u64, bytes: u64, turned: bool, numbers: &mut Numbers) -> Self {
        loop {
            let random = numbers.next();
            let pitch = 16 << (random % 4);
            let step = if pitch == 16 { 16 } else { 8 * pitch };
            let mut layout = Self {
                start,
                pitch,
                leading: step * (1 + (random >> 8) % 24),
                stride: step * (1 + (random >> 16) % 24),
                turned,
            };
            if pitch > 32 && !turned {
                // A part of longer rows.
                layout.start += 32 * ((random >> 24) % (pitch / 32));
            }
            let mut taken = vec![false; bytes as usize];
            let fits = (0..rows).all(|row| {
                (0..32).all(|byte| {
                    let at = layout.place(row, byte) - start;
                    taken
                        .get_mut(at as usize)
                        .is_some_and(|taken| !std::mem::replace(taken, true))
                })
            });
            if fits {
                return layout;
            }
        }
    }
}

/// An element: as in the test `matrix`, by kind of the block.
fn element(of: Type, kind: usize, random: u64) -> u64 {
    match (of, kind) {
        (Type::Integer(32, _), 0) => [i32::MAX, i32::MIN][random as usize >> 7 & 1] as u64,
        (Type::Integer(..), _) => random,
        (_, 0 | 1) => of.float(((random >> 20) % 8) as f64),
        (_, 2) => of.corner(random),
        (_, 3) => random,
        _ => of.float((random as i64 as f64) / (1_u64 << (56 + (random & 7))) as f64),
    }
}

/// What a block has: its input, and matrices by elements.
struct Case {
    words: Vec<u32>,
    a: Vec<Vec<u64>>,
    b: Vec<Vec<u64>>,
    c: Vec<Vec<u64>>,
}

fn mask(of: Type) -> u64 {
    (1 << of.bits()) - 1
}

fn case(statement: &Statement, block: usize, numbers: &mut Numbers) -> Case {
    let mma = &statement.mma;
    let kind = block % 6;
    let matrix = |rows: usize, columns: usize, of: Type, numbers: &mut Numbers| -> Vec<Vec<u64>> {
        let row = |numbers: &mut Numbers| {
            (0..columns)
                .map(|_| element(of, kind, numbers.next()) & mask(of))
                .collect()
        };
        (0..rows).map(|_| row(numbers)).collect()
    };
    let a = matrix(64, mma.k, mma.types[0], numbers);
    // B by columns.
    let b = matrix(mma.n, mma.k, mma.types[1], numbers);
    let c = matrix(64, mma.n, mma.types[2], numbers);
    let mut shared: Vec<u8> = (0..SHARED).map(|_| numbers.next() as u8).collect();
    let layouts = [
        Layout::choose(64, FIRST, 12 << 10, statement.turned[0], numbers),
        Layout::choose(
            mma.n as u64,
            FIRST + (12 << 10),
            20 << 10,
            statement.turned[1],
            numbers,
        ),
    ];
    for (which, rows) in [&a, &b].into_iter().enumerate() {
        let bytes = mma.types[which].bits() / 8;
        for (row, elements) in rows.iter().enumerate() {
            for (k, element) in elements.iter().enumerate() {
                for (i, byte) in element.to_le_bytes()[..bytes].iter().enumerate() {
                    let at = layouts[which].place(row as u64, (k * bytes + i) as u64) - FIRST;
                    shared[at as usize] = *byte;
                }
            }
        }
    }
    let mut words: Vec<u32> = shared
        .as_chunks()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect();
    for thread in 0..128 {
        let (warp, lane) = (thread / 32, thread % 32);
        let mut own = vec![0; INPUT];
        for (k, layout) in layouts.iter().enumerate() {
            let descriptor = layout.descriptor();
            (own[2 * k], own[2 * k + 1]) = (descriptor as u32, (descriptor >> 32) as u32);
        }
        own[4] = u32::from(block % 4 != 3);
        if statement.a_in_registers {
            for i in 0..mma.count(0) / 4 {
                let (row, k) = mma.place(0, lane, i);
                layout::put(&mut own[8..12], 0, mma.types[0], i, a[16 * warp + row][k]);
            }
        }
        for i in 0..mma.n / 2 {
            let (row, column) = sum(mma, lane, i);
            layout::put(
                &mut own[12..],
                0,
                mma.types[2],
                i,
                c[16 * warp + row][column],
            );
        }
        words.extend(own);
    }
    Case { words, a, b, c }
}

/// Where an element of the sums is that a lane has, of 16 rows: eight columns are as `mma.sync` has them.
fn sum(mma: &Mma, lane: usize, i: usize) -> (usize, usize) {
    let (row, column) = mma.place(2, lane, i % 4);
    (row, column + 8 * (i / 4))
}

fn check(statement: &Statement, block: usize, case: &Case, results: &[u32]) -> Result<(), String> {
    let mma = &statement.mma;
    let adds = block % 4 != 3 && !statement.never_adds;
    let sign = |which: usize| {
        let float = !matches!(mma.types[which], Type::Integer(..));
        u64::from(statement.negative[which] && float) << (mma.types[which].bits() - 1)
    };
    for thread in 0..128 {
        let (warp, lane) = (thread / 32, thread % 32);
        for i in 0..mma.n / 2 {
            let (row, column) = sum(mma, lane, i);
            let ours = layout::get_result(&results[OUTPUT * thread..][..OUTPUT], mma.types[2], i);
            let row = 16 * warp + row;
            let factors: Vec<_> = (0..mma.k)
                .map(|k| (case.a[row][k] ^ sign(0), case.b[column][k] ^ sign(1)))
                .collect();
            let c = if adds { case.c[row][column] } else { 0 };
            let right = match mma.types[2] {
                Type::Integer(..) => mma.whole(&factors, c) == ours as u32,
                _ => mma.near(&factors, c, ours),
            };
            if !right {
                let numbers: Vec<_> = factors
                    .iter()
                    .map(|&(x, y)| (mma.types[0].number(x), mma.types[1].number(y)))
                    .collect();
                let (c, ours) = (mma.types[2].number(c), mma.types[2].number(ours));
                return Err(format!(
                    "row {row}, column {column}: {numbers:?} + {c:e} is {ours:e}"
                ));
            }
        }
    }
    Ok(())
}

fn products(name: &str) {
    let statements = statements(name);
    assert!(!statements.is_empty(), "{name}");
    for (number, text) in statements.iter().enumerate() {
        let statement = read(text);
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 + number as u64);
        let cases: Vec<Case> = (0..BLOCKS)
            .map(|block| case(&statement, block, &mut numbers))
            .collect();
        let mut device = Device::new(Chip::Sm90, name);
        let input: Vec<u32> = cases.iter().flat_map(|case| case.words.clone()).collect();
        let at = device.words(&input);
        let each = OUTPUT * 128 * BLOCKS;
        let out = device.words(&vec![0; each]);
        device.name(out, each, 4, text, true);
        device.run(&grid(), &[at, out, number as u64]);
        let results = device.read(out, each);
        for (block, case) in cases.iter().enumerate() {
            let results = &results[OUTPUT * 128 * block..][..OUTPUT * 128];
            if let Err(wrong) = check(&statement, block, case, results) {
                panic!("{text}\nblock {block}, {wrong}");
            }
        }
    }
}

fn grid() -> Grid {
    Grid {
        blocks: [BLOCKS as u32, 1, 1],
        threads: [128, 1, 1],
        shared: SHARED,
    }
}

#[test]
fn products_of_halves() {
    products("wgmma_half");
}

#[test]
fn products_of_256_columns() {
    products("wgmma_wide");
}

#[test]
fn products_of_singles() {
    products("wgmma_single");
}

#[test]
fn products_of_bytes() {
    products("wgmma_byte");
}

#[test]
fn products_of_integers() {
    products("wgmma_integer");
}

const NOTHING: u128 = 0x918;
const WARPGROUP: u128 = 0x9c5;

/// What is left of code in which some instructions do nothing: those of an operation with a mark.
fn without(operation: u128, marked: impl Fn(u128) -> bool) -> (Vec<u128>, usize) {
    let mut code = Device::words_of(Chip::Sm90, "wgmma_single");
    let mut count = 0;
    for word in &mut code {
        if *word & 0xfff == operation && marked(*word) {
            *word = *word >> 105 << 105 | NOTHING | 7 << 12;
            count += 1;
        }
    }
    (code, count)
}

fn faults(code: &[u128], threads: u32) -> Cause {
    let mut device = Device::of(Chip::Sm90, code);
    let (at, out) = (
        device.words(&vec![0; BLOCKS * (SHARED / 4 + 128 * INPUT)]),
        device.words(&vec![0; 128 * 128 * BLOCKS]),
    );
    let grid = Grid {
        threads: [threads, 1, 1],
        ..grid()
    };
    device.try_run(&grid, &[at, out, 0]).unwrap_err().cause
}

#[test]
fn sums_that_nobody_waited_for_are_not_there() {
    let (code, count) = without(WARPGROUP, |word| word >> 79 & 3 == 2);
    assert!(count > 0);
    let cause = faults(&code, 128);
    assert!(
        matches!(cause, Cause::Hazard(Hazard::Result { scoreboard: 6, .. })),
        "{cause}"
    );
}

#[test]
fn registers_are_written_before_the_warps_arrive() {
    let (code, count) = without(WARPGROUP, |word| word >> 79 & 3 == 0);
    assert!(count > 0);
    let cause = faults(&code, 128);
    assert!(
        matches!(cause, Cause::Hazard(Hazard::Arrive { .. })),
        "{cause}"
    );
}

#[test]
fn a_product_takes_four_warps() {
    let code = Device::words_of(Chip::Sm90, "wgmma_single");
    let cause = faults(&code, 96);
    assert!(
        matches!(&cause, Cause::Stuck(why) if why.contains("four warps")),
        "{cause}"
    );
}

/// The second eight rows of A are said to be far behind its first.
#[test]
fn a_matrix_lies_in_shared_memory() {
    let code = Device::words_of(Chip::Sm90, "wgmma_single");
    let mut device = Device::of(Chip::Sm90, &code);
    let mut input = vec![0; SHARED / 4 + 128 * INPUT];
    for own in input[SHARED / 4..].chunks_mut(INPUT) {
        own[1] = 0x3fff;
    }
    let (at, out) = (device.words(&input), device.words(&vec![0; 128 * 128]));
    let one = Grid {
        blocks: [1, 1, 1],
        ..grid()
    };
    let cause = device.try_run(&one, &[at, out, 0]).unwrap_err().cause;
    assert!(
        matches!(cause, Cause::Memory { write: false, .. }),
        "{cause}"
    );
}
