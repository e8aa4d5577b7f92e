//! Whole kernels of ours, compiled by NVIDIA's compiler, against what they compute on the host.

use crate::device;

use device::{Device, Grid};
use twin_sass::Chip;

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn single(&mut self) -> f32 {
        self.next() as f32 / (1_u32 << 30) as f32 - 1.0
    }
}

fn singles(count: usize, seed: u64) -> Vec<f32> {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| numbers.single()).collect()
}

fn words(count: usize, seed: u64) -> Vec<u32> {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| numbers.next()).collect()
}

#[test]
fn vector_add() {
    for chip in Chip::ALL {
        let (a, b) = (singles(1000, 1), singles(1000, 2));
        let mut device = Device::new(chip, "vector_add");
        let (pa, pb, out) = (
            device.singles(&a),
            device.singles(&b),
            device.words(&[7; 1024]),
        );
        device.run(
            &Grid {
                blocks: [8, 1, 1],
                threads: [128, 1, 1],
                shared: 0,
            },
            &[pa, pb, out, 1000],
        );
        let expected: Vec<u32> = a
            .iter()
            .zip(&b)
            .map(|(a, b)| (a + b).to_bits())
            .chain([7; 24])
            .collect();
        assert_eq!(device.read(out, 1024), expected, "{chip:?}");
    }
}

#[test]
fn reduce() {
    for chip in Chip::ALL {
        let input = words(1024, 3);
        let mut device = Device::new(chip, "reduce");
        let (p, out) = (device.words(&input), device.words(&[0; 4]));
        device.run(
            &Grid {
                blocks: [4, 1, 1],
                threads: [256, 1, 1],
                shared: 1024,
            },
            &[p, out],
        );
        let expected: Vec<u32> = input
            .chunks(256)
            .map(|c| c.iter().fold(0, |s: u32, &x| s.wrapping_add(x)))
            .collect();
        assert_eq!(device.read(out, 4), expected, "{chip:?}");
    }
}

#[test]
fn matmul() {
    for chip in Chip::ALL {
        let n = 48;
        let (a, b) = (singles(n * n, 4), singles(n * n, 5));
        let mut device = Device::new(chip, "matmul");
        let (pa, pb, out) = (
            device.singles(&a),
            device.singles(&b),
            device.words(&vec![0; n * n]),
        );
        let tiles = n as u32 / 16;
        device.run(
            &Grid {
                blocks: [tiles, tiles, 1],
                threads: [16, 16, 1],
                shared: 2048,
            },
            &[pa, pb, out, n as u64],
        );
        let expected: Vec<u32> = (0..n * n)
            .map(|at| {
                let (row, col) = (at / n, at % n);
                let sum = (0..n).fold(0_f32, |sum, k| a[row * n + k].mul_add(b[k * n + col], sum));
                sum.to_bits()
            })
            .collect();
        assert_eq!(device.read(out, n * n), expected, "{chip:?}");
    }
}

/// The exponential is an approximation: the bound is that of PTX for it, and of a sum of 256.
#[test]
fn softmax() {
    for chip in Chip::ALL {
        let (rows, n) = (3, 8);
        let input: Vec<f32> = singles(rows * n * 32, 6).iter().map(|x| x * 20.0).collect();
        let mut device = Device::new(chip, "softmax");
        device.exact = false;
        let (p, out) = (device.singles(&input), device.words(&vec![0; input.len()]));
        device.run(
            &Grid {
                blocks: [rows as u32, 1, 1],
                threads: [32, 1, 1],
                shared: 0,
            },
            &[p, out, n as u64],
        );
        let result = device.read(out, input.len());
        for (row, (input, result)) in input.chunks(n * 32).zip(result.chunks(n * 32)).enumerate() {
            let most = input.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            let exp: Vec<f64> = input.iter().map(|&x| f64::from(x - most).exp()).collect();
            let sum: f64 = exp.iter().sum();
            for (k, (&bits, exp)) in result.iter().zip(&exp).enumerate() {
                let (ours, theirs) = (f64::from(f32::from_bits(bits)), exp / sum);
                assert!(
                    (ours - theirs).abs() <= 1e-5 * theirs + 1e-37,
                    "{chip:?} row {row} {k}: {ours} {theirs}"
                );
            }
        }
    }
}

fn steps(mut x: u32) -> u32 {
    let mut steps = 0;
    while x > 1 {
        if x.is_multiple_of(2) {
            x /= 2;
        } else {
            x = x.wrapping_mul(3).wrapping_add(1);
            if x > 1_000_000 {
                break;
            }
        }
        steps += 1;
    }
    steps
}

fn gcd(mut x: u32, mut y: u32) -> u32 {
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x
}

#[test]
fn diverge() {
    for chip in Chip::ALL {
        let input: Vec<u32> = words(256, 7).iter().map(|x| x % 5000).collect();
        let mut device = Device::new(chip, "diverge");
        let (p, out) = (device.words(&input), device.words(&[0; 256]));
        device.run(
            &Grid {
                blocks: [2, 1, 1],
                threads: [128, 1, 1],
                shared: 0,
            },
            &[p, out],
        );
        let expected: Vec<u32> = (0..256_u32)
            .map(|i| {
                let third = |i: u32| i.is_multiple_of(3);
                let ballot = (0..32).fold(0, |b, k| b | u32::from(third(i / 32 * 32 + k)) << k);
                let x = input[i as usize];
                let own = if third(i) {
                    gcd(x, 97).wrapping_mul(1000)
                } else {
                    steps(x)
                };
                own ^ ballot
            })
            .collect();
        assert_eq!(device.read(out, 256), expected, "{chip:?}");
    }
}

#[test]
fn atomics() {
    for chip in Chip::ALL {
        let input = words(256, 8);
        let mut device = Device::new(chip, "atomics");
        let (p, bins, all) = (
            device.words(&input),
            device.words(&[0; 16]),
            device.words(&[0; 16]),
        );
        device.run(
            &Grid {
                blocks: [4, 1, 1],
                threads: [64, 1, 1],
                shared: 64,
            },
            &[p, bins, all],
        );
        let count = |bin: u32| input.iter().filter(|&&x| x & 15 == bin).count() as u32;
        assert_eq!(
            device.read(bins, 16),
            (0..16).map(count).collect::<Vec<_>>(),
            "{chip:?}"
        );
        let all = device.read(all, 9);
        assert_eq!(all[0], 256, "{chip:?}");
        assert_eq!(all[1], *input.iter().max().unwrap(), "{chip:?}");
        let least = input.iter().map(|x| x.cast_signed()).min().unwrap().min(0);
        assert_eq!(all[2].cast_signed(), least, "{chip:?}");
        assert_eq!(all[3], input.iter().fold(0, |a, b| a ^ b), "{chip:?}");
        assert_eq!(
            f32::from_bits(all[4]),
            4.0 * (0..64).sum::<u32>() as f32,
            "{chip:?}"
        );
        assert_eq!(all[6], (0..256).map(|i| 4 * i).sum::<u32>(), "{chip:?}");
        assert_eq!((all[7], all[8]), (0, 3 * 256), "{chip:?}");
    }
}

#[test]
fn shuffle() {
    for chip in Chip::ALL {
        let input: Vec<u32> = words(32, 9)
            .iter()
            .map(|x| x.wrapping_sub(1 << 29))
            .collect();
        let mut device = Device::new(chip, "shuffle");
        let (p, out) = (device.words(&input), device.words(&[0; 512]));
        device.run(
            &Grid {
                blocks: [1, 1, 1],
                threads: [32, 1, 1],
                shared: 0,
            },
            &[p, out],
        );
        let result = device.read(out, 512);
        let positive = |i: usize| input[i].cast_signed() > 0;
        let ballot = (0..32).fold(0, |b, i| b | u32::from(positive(i)) << i);
        let flag = u32::from;
        let fold = |f: fn(i32, i32) -> i32| {
            input
                .iter()
                .map(|x| x.cast_signed())
                .reduce(f)
                .unwrap()
                .cast_unsigned()
        };
        let rows: [&dyn Fn(usize) -> u32; 16] = [
            &|i| input[i.checked_sub(3).unwrap_or(i)],
            &|i| input[if i + 5 < 32 { i + 5 } else { i }],
            &|i| input[i ^ 9],
            // Segments of eight lanes; each takes the lane of its own number, in its segment.
            &|i| input[i],
            &|_| 1,
            &|i| input[if i % 8 >= 2 { i - 2 } else { i }],
            &|i| flag(i % 8 >= 2),
            &|_| ballot,
            &|_| flag(ballot != 0),
            &|_| flag(ballot == u32::MAX),
            &|_| flag(ballot == u32::MAX || ballot == 0),
            &|i| (0..32).fold(0, |m, k| m | u32::from(input[k] & 3 == input[i] & 3) << k),
            &|_| {
                if input.iter().all(|x| x & 3 == input[0] & 3) {
                    u32::MAX
                } else {
                    0
                }
            },
            &|_| fold(i32::wrapping_add),
            &|_| fold(i32::min),
            &|_| fold(|a, b| a ^ b),
        ];
        for (row, expected) in rows.iter().enumerate() {
            for i in 0..32 {
                assert_eq!(
                    result[32 * row + i],
                    expected(i),
                    "{chip:?} row {row} lane {i}"
                );
            }
        }
    }
}

/// Division and root of doubles begin with an approximation, but end with the nearest number.
#[test]
fn root() {
    for chip in Chip::ALL {
        let mut numbers = Numbers(10);
        let special = [
            0.0,
            -0.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
            5e-324,
            1e-310,
            f64::MAX,
            f64::MIN_POSITIVE,
            -1.0,
        ];
        let mut list = |seed: usize| -> Vec<f64> {
            let random = |_| {
                f64::from_bits(u64::from(numbers.next()) << 33 | u64::from(numbers.next()) << 2)
            };
            let mut all: Vec<f64> = (0..156).map(random).collect();
            all.extend((0..100).map(|i| special[if seed == 0 { i / 10 } else { i % 10 }]));
            all
        };
        let (a, b) = (list(0), list(1));
        let mut device = Device::new(chip, "root");
        let (pa, pb, out) = (
            device.doubles(&a),
            device.doubles(&b),
            device.doubles(&[0.0; 256]),
        );
        device.run(
            &Grid {
                blocks: [2, 1, 1],
                threads: [128, 1, 1],
                shared: 0,
            },
            &[pa, pb, out],
        );
        let result = device.read(out, 512);
        for (i, (x, y)) in a.iter().zip(&b).enumerate() {
            let ours =
                f64::from_bits(u64::from(result[2 * i + 1]) << 32 | u64::from(result[2 * i]));
            let theirs = x.mul_add(*y, x.sqrt() / y);
            assert!(
                ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                "{chip:?} {x:e} {y:e}: {ours:e} {theirs:e}"
            );
        }
    }
}

#[test]
fn local() {
    for chip in Chip::ALL {
        let input = words(32, 11);
        let mut device = Device::new(chip, "local");
        let (p, out) = (device.words(&input), device.words(&[0; 32]));
        device.run(
            &Grid {
                blocks: [1, 1, 1],
                threads: [32, 1, 1],
                shared: 0,
            },
            &[p, out],
        );
        let expected: Vec<u32> = input
            .iter()
            .map(|&x| {
                let mut y = x;
                let stack: Vec<u32> = (0..32)
                    .map(|_| {
                        y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        y
                    })
                    .collect();
                let (mut at, mut sum) = (x, 0_u32);
                for _ in 0..20 {
                    let y = stack[at as usize % 32];
                    sum = sum.wrapping_add(y);
                    at = y >> 7;
                }
                sum
            })
            .collect();
        assert_eq!(device.read(out, 32), expected, "{chip:?}");
    }
}

#[test]
fn calls() {
    fn fib(n: u32) -> u32 {
        if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
    }
    for chip in Chip::ALL {
        let input = words(64, 12);
        let mut device = Device::new(chip, "calls");
        let (p, out) = (device.words(&input), device.words(&[0; 96]));
        device.run(
            &Grid {
                blocks: [1, 1, 1],
                threads: [32, 1, 1],
                shared: 0,
            },
            &[p, out],
        );
        let mut expected = vec![0; 96];
        let results: Vec<u32> = (0..32)
            .map(|i| {
                let a = input[i];
                match a & 7 {
                    0 => a.wrapping_mul(a),
                    1 => a.wrapping_add(17).wrapping_add(input[i + 32]),
                    2 => {
                        expected[i + 32] = a ^ 0x1234;
                        a ^ 0x1234
                    }
                    3 => fib(a >> 3 & 15),
                    4 => {
                        expected[i + 64] = a.count_ones();
                        a.count_ones()
                    }
                    5 => a.reverse_bits(),
                    _ => 7,
                }
            })
            .collect();
        for i in 0..32 {
            expected[i] = results[(i + 1).min(31)];
        }
        assert_eq!(device.read(out, 96), expected, "{chip:?}");
    }
}

/// What lanes do together has a way for those that are all there and one for those that have to wait for
/// others: both give the same, whichever the branch at its beginning takes.
#[test]
fn together() {
    let mut f = words(32, 13);
    let input = f.clone();
    let mut even = vec![0; 32];
    for _ in 0..5 {
        f = (0..32).map(|i| f[i].wrapping_add(f[i ^ 1])).collect();
        let ballot = (0..32).fold(0_u32, |b, i| b | (f[i] >> 2 & 1) << i);
        f = f.iter().map(|f| f.wrapping_add(ballot)).collect();
        let alike = |i: usize| (0..32).fold(0, |m, k| m | u32::from(f[k] & 7 == f[i] & 7) << k);
        f = (0..32).map(|i| f[i] ^ alike(i)).collect();
        let sum = f.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x));
        f = f.iter().map(|f| f.wrapping_add(sum)).collect();
        for (i, f) in f.iter_mut().enumerate().filter(|(_, f)| **f & 1 == 0) {
            *f = f.wrapping_add(input[i]);
            even[i] = *f;
        }
    }
    let expected = [f, even].concat();
    for (chip, other) in Chip::ALL
        .into_iter()
        .flat_map(|chip| [(chip, false), (chip, true)])
    {
        let mut code = Device::words_of(chip, "together");
        let mut branches = 0;
        // The branch asks whether all are there, or whether they are not: bit 32 of its code.
        for word in &mut code {
            if *word & 0xfff == 0x947 && *word >> 33 & 1 != 0 {
                branches += 1;
                *word ^= u128::from(other) << 32;
            }
        }
        assert!(branches > 1, "{chip:?}: {branches}");
        let mut device = Device::of(chip, &code);
        let (p, out) = (device.words(&input), device.words(&[0; 64]));
        device.run(
            &Grid {
                blocks: [1, 1, 1],
                threads: [32, 1, 1],
                shared: 0,
            },
            &[p, out],
        );
        assert_eq!(device.read(out, 64), expected, "{chip:?} {other}");
    }
}

/// What came with Blackwell: 32 bytes at once, integers of 64 bits.
#[test]
fn blackwell() {
    const STEP: u64 = 0x1_8000_0001;
    let mut input = words(256 * 8, 12);
    // Carries into the upper words, and signs.
    for (k, special) in [0, u32::MAX, 0x8000_0000, 0x7fff_ffff]
        .into_iter()
        .enumerate()
    {
        for i in (k..256).step_by(7) {
            input[8 * i + k] = special;
            input[8 * i + 4 + k] = special;
        }
    }
    let mut device = Device::new(Chip::Sm120, "blackwell");
    let (from, to) = (device.words(&input), device.words(&[0; 256 * 8]));
    let grid = Grid {
        blocks: [4, 1, 1],
        threads: [64, 1, 1],
        shared: 0,
    };
    device.run(&grid, &[from, to, STEP]);
    let expected: Vec<u32> = input
        .chunks(8)
        .flat_map(|row| {
            let pair = |k: usize| u64::from(row[2 * k + 1]) << 32 | u64::from(row[2 * k]);
            let sum = pair(0).wrapping_add(STEP).cast_signed();
            let difference = pair(1).wrapping_sub(pair(2)).cast_signed();
            let least = sum.min(difference).cast_unsigned();
            let most = pair(2).max(pair(3));
            let third = if sum < difference { least } else { most };
            let fourth = if pair(2) > pair(3) { pair(3) } else { u64::MAX };
            [least, most, third, fourth]
        })
        .flat_map(|x| [x as u32, (x >> 32) as u32])
        .collect();
    assert_eq!(device.read(to, 256 * 8), expected);
}

/// Barriers in shared memory, from Hopper on.
#[test]
fn mbarrier() {
    let input = words(192, 21);
    for chip in [Chip::Sm90, Chip::Sm120] {
        let mut device = Device::new(chip, "mbarrier");
        let (from, to) = (device.words(&input), device.words(&[0; 192]));
        let grid = Grid {
            blocks: [2, 1, 1],
            threads: [96, 1, 1],
            shared: 1048,
        };
        device.run(&grid, &[from, to]);
        let expected: Vec<u32> = input
            .chunks(96)
            .flat_map(|block| {
                let mut cells = block.to_vec();
                for factor in [5, 5, 5, 5, 3, 3, 3, 3] {
                    let old = cells.clone();
                    for (t, cell) in cells.iter_mut().enumerate() {
                        *cell = old[t].wrapping_mul(factor).wrapping_add(old[(t + 1) % 96]);
                    }
                }
                for cell in cells.iter_mut().step_by(2) {
                    *cell = cell.wrapping_add(1);
                }
                cells
            })
            .collect();
        assert_eq!(device.read(to, 192), expected, "{chip:?}");
    }
}

/// A generic address may be of global or of shared memory, thread by thread; sums of small whole numbers
/// are exact in any order.
#[test]
fn generic() {
    for chip in Chip::ALL {
        let input: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let mut device = Device::new(chip, "generic");
        let (p, out) = (device.singles(&input), device.words(&[0; 4 + 4 * 64]));
        device.run(
            &Grid {
                blocks: [1, 1, 1],
                threads: [64, 1, 1],
                shared: 16,
            },
            &[p, out],
        );
        let result = device.read(out, 4 + 4 * 64);
        for (i, own) in result[4..].chunks(4).enumerate() {
            let sum: f32 = (0..64).filter(|k| k % 2 == i % 2).map(|k| k as f32).sum();
            let double = f64::from(sum).to_bits();
            let expected = [sum.to_bits(), 0, double as u32, (double >> 32) as u32];
            assert_eq!(own, expected, "{chip:?} thread {i}");
        }
    }
}
