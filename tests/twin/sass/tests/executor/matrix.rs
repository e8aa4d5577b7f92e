//! Statements of PTX that a whole warp runs, compiled by NVIDIA's compiler, against what NVIDIA's manual of
//! PTX says that they compute: products of matrices, and tiles.
//!
//! The manual leaves open how sums of products are rounded. Small whole numbers must come out exactly, all
//! others within what cutting off each summand at the last bit of the greatest one can lose.

use crate::device;
use crate::layout;

use device::{Device, Grid};
use layout::{Mma, Type, parse};
use twin_sass::Chip;

const LIST: &str = include_str!("../../kernels/matrix.txt");
const WARPS: usize = 40;
/// Words of input and of results of a lane.
const INPUT: usize = 32;
const OUTPUT: usize = 8;

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

/// The statements of a part, and the chips that have it.
fn part(name: &str) -> (Vec<&'static str>, Vec<Chip>) {
    let mut lines = LIST
        .lines()
        .skip_while(|line| !line.starts_with(&format!("[{name}]")));
    let (_, which) = lines.next().unwrap().split_once(']').unwrap();
    let chips = Chip::ALL.into_iter().filter(|&chip| match which {
        " from sm_89" => chip >= Chip::Sm89,
        " from sm_90" => chip >= Chip::Sm90,
        " to sm_90" => chip <= Chip::Sm90,
        _ => which.is_empty(),
    });
    let statements = lines.take_while(|line| !line.starts_with(['[', '#']));
    (statements.collect(), chips.collect())
}

/// What each lane of each warp writes for each statement of a part, from what it reads. A card is asked about
/// one of them, or about all.
fn run(chip: Chip, name: &str, input: &[u32], about: Option<usize>) -> Vec<u32> {
    let mut device = Device::new(chip, name);
    let at = device.words(input);
    let (statements, _) = part(name);
    let each = OUTPUT * 32 * WARPS;
    let words = each * statements.len();
    let out = device.words(&vec![0; words]);
    for (number, statement) in statements.iter().enumerate() {
        if about.is_none_or(|about| about == number) {
            device.name(out + (4 * each * number) as u64, each, 4, statement, true);
        }
    }
    let grid = Grid {
        blocks: [WARPS as u32, 1, 1],
        threads: [32, 1, 1],
        shared: 512,
    };
    device.run(&grid, &[at, out]);
    device.read(out, words)
}

/// The input of a warp: of every eight, two are small whole numbers, one has numbers of all kinds, the
/// others are near 1. What they are depends on the type.
fn elements(mma: &Mma, warp: usize, numbers: &mut Numbers) -> Vec<u32> {
    let mut words = vec![0; INPUT * 32];
    let kind = warp % 8;
    for operand in 0..3 {
        let of = mma.types[operand];
        for lane in 0..32 {
            for i in 0..mma.count(operand) {
                let random = numbers.next();
                let whole = (random >> 20) as i64 % 8;
                let bits = match (of, kind) {
                    (Type::Integer(..), 0) if operand == 2 => [i32::MAX, i32::MIN][lane % 2] as u64,
                    (Type::Integer(..) | Type::Bit, _) => random,
                    (_, 0 | 1) => of.float(whole as f64),
                    (_, 2) => of.corner(random),
                    (_, 3) => random,
                    _ => of.float((random as i64 as f64) / (1_u64 << (56 + (random & 7))) as f64),
                };
                layout::put(&mut words[INPUT * lane..][..INPUT], operand, of, i, bits);
            }
        }
    }
    words
}

/// Checks the sums of a warp.
fn check(mma: &Mma, input: &[u32], result: &[u32]) -> Result<(), String> {
    let matrix = |operand: usize| {
        let mut matrix = vec![vec![0_u64; 256]; 256];
        for lane in 0..32 {
            for i in 0..mma.count(operand) {
                let (row, column) = mma.place(operand, lane, i);
                let words = &input[INPUT * lane..][..INPUT];
                matrix[row][column] = layout::get(words, operand, mma.types[operand], i);
            }
        }
        matrix
    };
    let (a, b, c) = (matrix(0), matrix(1), matrix(2));
    let sum = mma.types[2];
    for lane in 0..32 {
        for i in 0..mma.count(2) {
            let (row, column) = mma.place(2, lane, i);
            let ours = layout::get_result(&result[OUTPUT * lane..][..OUTPUT], sum, i);
            let factors: Vec<_> = (0..mma.k).map(|k| (a[row][k], b[k][column])).collect();
            let right = match sum {
                Type::Integer(..) => mma.whole(&factors, c[row][column]) == ours as u32,
                _ => mma.near(&factors, c[row][column], ours),
            };
            if !right {
                let numbers: Vec<_> = factors
                    .iter()
                    .map(|&(x, y)| (mma.types[0].number(x), mma.types[1].number(y)))
                    .collect();
                let (c, ours) = (sum.number(c[row][column]), sum.number(ours));
                return Err(format!(
                    "row {row}, column {column}: {numbers:?} + {c:e} is {ours:e}"
                ));
            }
        }
    }
    Ok(())
}

fn products(name: &str) {
    let (statements, chips) = part(name);
    for (number, statement) in statements.iter().enumerate() {
        let mma = parse(statement);
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 + number as u64);
        let input: Vec<Vec<u32>> = (0..WARPS)
            .map(|warp| elements(&mma, warp, &mut numbers))
            .collect();
        for &chip in &chips {
            let results = run(chip, name, &input.concat(), Some(number));
            let results = &results[number * OUTPUT * 32 * WARPS..];
            for (warp, (input, result)) in input.iter().zip(results.chunks(OUTPUT * 32)).enumerate()
            {
                if let Err(wrong) = check(&mma, input, result) {
                    panic!("{}: {statement}\nwarp {warp}, {wrong}", chip.name());
                }
            }
        }
    }
}

#[test]
fn products_of_matrices() {
    products("mma");
    products("mma_parts");
}

#[test]
fn products_of_numbers_of_eight_bits() {
    products("mma_eighths");
}

#[test]
fn products_of_doubles() {
    products("mma_double");
}

/// The number of 16 bits at a place of eight rows that lanes hold as `mma.sync` has them.
fn half(words: &[u32], row: usize, column: usize) -> u32 {
    words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff
}

/// What lanes have of a tile whose number at a row and a column is given.
fn tile(of: impl Fn(usize, usize) -> u32) -> Vec<u32> {
    (0..32)
        .map(|lane| {
            let (row, column) = (lane / 4, lane % 4 * 2);
            of(row, column) | of(row, column + 1) << 16
        })
        .collect()
}

/// Where a lane's [tile] is: the place of another lane.
fn place(lane: usize) -> usize {
    (5 * lane + 3) % 32
}

fn random(seed: u64) -> Vec<u32> {
    let mut numbers = Numbers(seed);
    (0..INPUT * 32 * WARPS)
        .map(|_| (numbers.next() >> 32) as u32)
        .collect()
}

/// A register of all lanes.
fn register(words: &[u32], count: usize, k: usize) -> Vec<u32> {
    (0..32).map(|lane| words[count * lane + k]).collect()
}

#[test]
fn tiles_are_loaded_and_transposed() {
    let (statements, chips) = part("tiles");
    let input = random(7);
    for &chip in &chips {
        let results = run(chip, "tiles", &input, None);
        for (number, statement) in statements.iter().enumerate() {
            for warp in 0..WARPS {
                let input = &input[INPUT * 32 * warp..][..INPUT * 32];
                let result = &results[OUTPUT * 32 * (number * WARPS + warp)..][..OUTPUT * 32];
                let turned = statement.contains(".trans");
                let count = (0..4)
                    .filter(|k| statement.contains(&format!("d{k}")))
                    .count();
                for k in 0..count {
                    let expected = if statement.starts_with("movmatrix") {
                        let own = register(input, INPUT, 0);
                        tile(|row, column| half(&own, column, row))
                    } else {
                        // The rows of tile k are where lanes 8k to 8k + 7 say: the first four words of one.
                        let number = |row: usize, column: usize| {
                            let from = &input[INPUT * place(8 * k + row)..];
                            from[column / 2] >> (16 * (column % 2)) & 0xffff
                        };
                        tile(|row, column| {
                            if turned {
                                number(column, row)
                            } else {
                                number(row, column)
                            }
                        })
                    };
                    let ours = register(result, OUTPUT, k);
                    assert_eq!(ours, expected, "{chip:?} {statement} warp {warp}");
                }
            }
        }
    }
}

#[test]
fn tiles_are_stored() {
    let (statements, chips) = part("tiles_stored");
    let input = random(8);
    for &chip in &chips {
        let results = run(chip, "tiles_stored", &input, None);
        for warp in 0..WARPS {
            let input = &input[INPUT * 32 * warp..][..INPUT * 32];
            // What is in shared memory: four words for each lane.
            let mut shared: Vec<u32> = (0..32)
                .flat_map(|lane| input[INPUT * lane..][..4].to_vec())
                .collect();
            for (number, statement) in statements.iter().enumerate() {
                let (list, turned) = (
                    statement.split(['{', '}']).nth(1).unwrap(),
                    statement.contains(".trans"),
                );
                for (k, name) in list.split(", ").enumerate() {
                    let own = register(input, INPUT, 8 + name[1..].parse::<usize>().unwrap());
                    for row in 0..8 {
                        let to = &mut shared[4 * place(8 * k + row)..][..4];
                        for (pair, word) in to.iter_mut().enumerate() {
                            let number = |column| {
                                if turned {
                                    half(&own, column, row)
                                } else {
                                    half(&own, row, column)
                                }
                            };
                            *word = number(2 * pair) | number(2 * pair + 1) << 16;
                        }
                    }
                }
                let result = &results[OUTPUT * 32 * (number * WARPS + warp)..][..OUTPUT * 32];
                for lane in 0..32 {
                    let ours = &result[OUTPUT * lane..][..4];
                    assert_eq!(
                        ours,
                        &shared[4 * lane..][..4],
                        "{chip:?} {statement} warp {warp} lane {lane}"
                    );
                }
            }
        }
    }
}
