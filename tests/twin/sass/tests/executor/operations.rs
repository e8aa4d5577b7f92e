//! Single statements of PTX, compiled by NVIDIA's compiler, against what NVIDIA's manual of PTX says that
//! they compute: the functions here are that manual's sentences, not the model's.

mod atomic;
mod brain;
use crate::device;
mod eighths;
mod float;
mod integer;
mod pairs;
mod rounding;
mod short;
mod small;

use device::{Device, Grid};
use twin_sass::Chip;

const LIST: &str = include_str!("../../kernels/operations.txt");
const THREADS: usize = 4096;

/// What a statement reads.
#[derive(Clone, Copy, Debug)]
pub struct In {
    a: u32,
    b: u32,
    c: u32,
    x: u64,
    y: u64,
    z: u64,
}

/// What it must write.
#[derive(Clone, Copy, Debug)]
pub enum Out {
    /// These bits.
    Word(u32),
    /// These 64 bits.
    Wide(u64),
    /// This number; all that are none are the same.
    Single(f32),
    /// The same of doubles.
    Double(f64),
    /// Two halves.
    Halves(u32),
    /// So near, as a part of it.
    Near(f64, f64),
    /// Two of 16 bits, each so near: as a part of it, or as a distance.
    Nearly([f64; 2], short::Format, f64, f64),
    /// The manual does not say, or the definition here cannot.
    Any,
}

type Row = (&'static str, fn(&In) -> Out);

impl Out {
    fn fits(self, bits: u64) -> bool {
        let word = bits as u32;
        let single = f32::from_bits(word);
        match self {
            Self::Word(expected) => bits == u64::from(expected),
            Self::Wide(expected) => bits == expected,
            Self::Single(expected) => {
                expected.to_bits() == word || expected.is_nan() && single.is_nan()
            }
            Self::Double(expected) => {
                expected.to_bits() == bits || expected.is_nan() && f64::from_bits(bits).is_nan()
            }
            Self::Halves(expected) => [0, 16].iter().all(|k| {
                let (ours, theirs) = (word >> k & 0xffff, expected >> k & 0xffff);
                ours == theirs || (ours & 0x7fff > 0x7c00 && theirs & 0x7fff > 0x7c00)
            }),
            Self::Near(expected, part) => {
                (f64::from(single) - expected).abs() <= expected.abs() * part
            }
            Self::Nearly(expected, of, part, off) => {
                [0, 16].iter().zip(expected).all(|(k, theirs)| {
                    let ours = of.read(word >> k & 0xffff);
                    ours == theirs
                        || ours.is_nan() && theirs.is_nan()
                        || (ours - theirs).abs() <= theirs.abs() * part + off
                })
            }
            Self::Any => true,
        }
    }
}

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn word(&mut self) -> u32 {
        const CORNERS: [u32; 36] = [
            0,
            1,
            2,
            3,
            31,
            32,
            33,
            255,
            256,
            0xffff,
            0x1_0000,
            0x7fff_ffff,
            0x8000_0000,
            0x8000_0001,
            u32::MAX,
            0xffff_fffe,
            0x3f80_0000,
            0xbf80_0000,
            0x3f00_0000,
            0x3fc0_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x0080_0000,
            0x007f_ffff,
            0x8080_0000,
            0x7f7f_ffff,
            0xff7f_ffff,
            0x4b00_0000,
            0x4b80_0001,
            0x4f00_0000,
            0xcf00_0000,
            0x4f80_0000,
            0x0000_3c00,
            0x7c00_fbff,
            0x0400_8001,
        ];
        let bits = self.next();
        let word = (bits >> 32) as u32;
        match bits & 7 {
            0..3 => CORNERS[(bits >> 8) as usize % CORNERS.len()],
            // A number with a fraction, of a magnitude that integers have.
            3 => ((word.cast_signed() as f32) / (1 << (bits >> 8 & 31)) as f32).to_bits(),
            4 => word >> (bits >> 8 & 31),
            // Neighbours of 1.
            5 => 0x3f80_0000 + (word & 0xff) - 0x80,
            _ => word,
        }
    }

    fn wide(&mut self) -> u64 {
        const CORNERS: [u64; 20] = [
            0,
            1,
            u64::MAX,
            1 << 63,
            i64::MAX.cast_unsigned(),
            u32::MAX as u64,
            1 << 32,
            0x3ff0_0000_0000_0000,
            0xbff0_0000_0000_0000,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            0x0010_0000_0000_0000,
            0x000f_ffff_ffff_ffff,
            0x7fef_ffff_ffff_ffff,
            0xffef_ffff_ffff_ffff,
            0x41df_ffff_ffe0_0000,
            0x43e0_0000_0000_0000,
            0x3fe0_0000_0000_0000,
            0x8000_0000_0000_0001,
        ];
        let (bits, wide) = (self.next(), self.next());
        match bits & 7 {
            0..3 => CORNERS[(bits >> 8) as usize % CORNERS.len()],
            3 => ((wide.cast_signed() as f64) / (1_u64 << (bits >> 8 & 63)) as f64).to_bits(),
            4 => wide >> (bits >> 8 & 63),
            5 => 0x3ff0_0000_0000_0000 + (wide & 0xffff) - 0x8000,
            _ => wide,
        }
    }
}

/// Each statement of a part has its meaning here, and each meaning its statement.
fn check(part: &str, rows: &[Row]) {
    let mut lines = LIST
        .lines()
        .skip_while(|line| !line.starts_with(&format!("[{part}]")));
    let first = lines.next().unwrap().split_once(" from ");
    let statements: Vec<&str> = lines.take_while(|line| !line.starts_with('[')).collect();
    assert_eq!(statements, rows.iter().map(|row| row.0).collect::<Vec<_>>());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let inputs: Vec<In> = (0..THREADS)
        .map(|i| In {
            a: numbers.word(),
            b: numbers.word(),
            // A third are small: shifts and places.
            c: if i % 3 == 0 {
                numbers.word() & 63
            } else {
                numbers.word()
            },
            x: numbers.wide(),
            y: numbers.wide(),
            z: numbers.wide(),
        })
        .collect();
    let words: Vec<u32> = inputs
        .iter()
        .flat_map(|i| {
            let wide = [i.x, i.y, i.z].map(|x| [x as u32, (x >> 32) as u32]);
            [[i.a, i.b], [i.c, 0], wide[0], wide[1], wide[2]].concat()
        })
        .collect();
    let chips = Chip::ALL
        .into_iter()
        .skip_while(|chip| first.is_some_and(|(_, first)| first != chip.name()));
    for chip in chips {
        let mut device = Device::new(chip, part);
        let input = device.words(&words);
        let out = device.words(&vec![0; 2 * THREADS * rows.len()]);
        for (row, (statement, meaning)) in rows.iter().enumerate() {
            let at = out + (8 * row * THREADS) as u64;
            let near = |input| matches!(meaning(input), Out::Near(..) | Out::Nearly(..));
            device.name(at, THREADS, 8, statement, !inputs.iter().any(near));
        }
        let grid = Grid {
            blocks: [THREADS as u32 / 128, 1, 1],
            threads: [128, 1, 1],
            // Where a kernel has cells: one for each thread.
            shared: 1024,
        };
        device.run(&grid, &[input, out]);
        let result = device.read(out, 2 * THREADS * rows.len());
        let mut wrong = Vec::new();
        for (row, (statement, meaning)) in rows.iter().enumerate() {
            let mut decided = 0;
            let before = wrong.len();
            for (i, input) in inputs.iter().enumerate() {
                let at = 2 * (row * THREADS + i);
                let bits = u64::from(result[at + 1]) << 32 | u64::from(result[at]);
                let expected = meaning(input);
                decided += usize::from(!matches!(expected, Out::Any));
                if !expected.fits(bits) {
                    wrong.push(format!(
                        "{statement}\n  {input:x?}\n  {bits:#x}, expected {expected:x?}"
                    ));
                    break;
                }
            }
            // A definition that decides little proves little.
            let enough = decided * 8 > THREADS || wrong.len() > before;
            assert!(enough, "{statement}: {decided} of {THREADS}");
        }
        assert!(
            wrong.is_empty(),
            "{} {part}:\n{}",
            chip.name(),
            wrong.join("\n")
        );
    }
}

#[test]
fn integer() {
    check("integer", integer::WORDS);
}

#[test]
fn wide() {
    check("wide", integer::WIDE);
}

#[test]
fn single() {
    check("single", float::SINGLE);
}

#[test]
fn double() {
    check("double", float::DOUBLE);
}

#[test]
fn half() {
    check("half", small::HALF);
}

#[test]
fn convert() {
    check("convert", small::CONVERT);
}

#[test]
fn brain() {
    check("brain", brain::ROWS);
}

#[test]
fn hopper() {
    check("hopper", brain::HOPPER);
}

#[test]
fn short() {
    check("short", short::SHORT);
}

#[test]
fn rounding() {
    check("rounding", rounding::ROUNDING);
}

#[test]
fn atomic() {
    check("atomic", atomic::ATOMIC);
}

#[test]
fn functions() {
    check("functions", pairs::FUNCTIONS);
}

#[test]
fn pairs() {
    check("pairs", pairs::PAIRS);
}

#[test]
fn eighths() {
    check("eighths", eighths::EIGHTHS);
}

#[test]
fn tf32() {
    check("tf32", eighths::TF32);
}

#[test]
fn smaller() {
    check("smaller", eighths::SMALLER);
}
