//! Products of matrices of bytes: exactly the integers, whatever is taken off them.
#![cfg(feature = "llvm")]
use crate::support;

use codegen::ir::{Binary, Id, Kernel, RangeKind};
use codegen::{Backend, DType, Options, build};
use support::*;

/// What is taken off an operand.
#[derive(Clone, Copy, Debug)]
enum Zero {
    None,
    Number(i64),
    /// An element of a buffer.
    One,
    /// An element for each row of the first operand, or column of the second one.
    Each,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    size: [i64; 3],
    types: [DType; 2],
    zeros: [Zero; 2],
    /// The second operand has its summed elements one after the other.
    transposed: bool,
}

struct Made {
    kernel: Kernel,
    buffers: Vec<Vec<u8>>,
    want: Vec<i32>,
}

fn read(dtype: DType, byte: u8) -> i64 {
    match dtype {
        DType::I8 => i64::from(byte as i8),
        _ => i64::from(byte),
    }
}

fn make(case: &Case) -> Made {
    let [m, n, k] = case.size;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut make = Make::new();
    let out = make.buffer(DType::I32, (m * n) as usize, true);
    let inputs = [m * k, n * k];
    let data: Vec<Id> = (0..2)
        .map(|i| make.buffer(case.types[i], inputs[i] as usize, false))
        .collect();
    let mut buffers = vec![vec![0; (4 * m * n) as usize]];
    for len in inputs {
        // Often the extremes, which sums of 16 bits would not hold.
        let byte = |random: &mut Random| match random.below(4) {
            0 => 255,
            1 => 128,
            2 => 127,
            _ => random.next() as u8,
        };
        buffers.push((0..len).map(|_| byte(&mut random)).collect());
    }
    // A range that runs once is not there.
    let range = |make: &mut Make, extent: i64| match extent {
        1 => make.g.index(0),
        _ => make.range(extent, RangeKind::Loop),
    };
    let (row, col) = (range(&mut make, m), range(&mut make, n));
    let sum = make.r(k);
    let places = [
        [(row, k), (sum, 1)],
        match case.transposed {
            true => [(col, k), (sum, 1)],
            false => [(sum, n), (col, 1)],
        },
    ];
    let mut zero_of = [vec![], vec![]];
    let mut operands = Vec::new();
    for side in 0..2 {
        let dtype = case.types[side];
        let loaded = make.load(data[side], &places[side]);
        let mut x = make.g.cast(loaded, DType::I32);
        let (at, len) = [(row, m), (col, n)][side];
        match case.zeros[side] {
            Zero::None => zero_of[side] = vec![0; len as usize],
            Zero::Number(z) => {
                let c = make.g.bits(DType::I32, z as u64);
                x = make.g.binary(Binary::Sub, x, c);
                zero_of[side] = vec![z; len as usize];
            }
            Zero::One | Zero::Each => {
                let each = matches!(case.zeros[side], Zero::Each);
                let count = if each { len } else { 1 };
                let bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
                let numbers = bytes.iter().map(|&b| read(dtype, b)).cycle();
                zero_of[side] = numbers.take(len as usize).collect();
                let buffer = make.buffer(dtype, count as usize, false);
                let z = make.load(buffer, &[(at, i64::from(each))]);
                let z = make.g.cast(z, DType::I32);
                x = make.g.binary(Binary::Sub, x, z);
                buffers.push(bytes);
            }
        }
        operands.push(x);
    }
    let product = make.mul(operands[0], operands[1]);
    let total = make.sum(product, &[sum]);
    make.store(out, &[(row, n), (col, 1)], total);
    let mut want = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let each = (0..k).map(|x| {
                let at = if case.transposed {
                    j * k + x
                } else {
                    x * n + j
                };
                let a = read(case.types[0], buffers[1][(i * k + x) as usize]);
                let b = read(case.types[1], buffers[2][at as usize]);
                (a - zero_of[0][i as usize]) * (b - zero_of[1][j as usize])
            });
            want.push(each.fold(0i64, i64::wrapping_add) as i32);
        }
    }
    Made {
        kernel: make.kernel("bytes"),
        buffers,
        want,
    }
}

/// Whether it went through words of bytes.
fn check(case: &Case, backend: &Backend) -> bool {
    let made = make(case);
    let built = build(&made.kernel, backend, &Options::default()).unwrap();
    let words = built
        .report
        .opts
        .iter()
        .any(|o| o.contains("words of bytes"));
    let loaded = Loaded::new(built);
    let mut buffers = made.buffers.clone();
    loaded.run(&mut buffers, &[]);
    let got: Vec<i32> = buffers[0]
        .chunks(4)
        .map(|c| i32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(
        got, made.want,
        "{case:?} {:?} {}",
        loaded.built.report.opts, backend.target.features
    );
    words
}

/// Processors with less than this one.
fn machines() -> Vec<Backend> {
    let host = Backend::find("CPU:LLVM", "", 2).unwrap();
    let with = |drop: &[&str], vector_bytes: usize| {
        let mut backend = host.clone();
        let t = &mut backend.target;
        let kept = t.features.split(',').filter(|f| !drop.contains(f));
        t.features = kept.collect::<Vec<_>>().join(",");
        t.vector_bytes = t.vector_bytes.min(vector_bytes);
        backend
    };
    let mut out = vec![host.clone(), with(&["+avx512vnni", "+avxvnni"], 64)];
    for bytes in [32, 16] {
        out.push(with(&[], bytes));
        out.push(with(&["+avx512vnni", "+avxvnni"], bytes));
    }
    let none = [
        "+avx512vnni",
        "+avxvnni",
        "+avx512bw",
        "+avx2",
        "+dotprod",
        "+i8mm",
    ];
    out.push(with(&none, 32));
    out.extend(Backend::find("CPU:CLANG", "", 2));
    out
}

const SIGNS: [[DType; 2]; 4] = [
    [DType::U8, DType::I8],
    [DType::U8, DType::U8],
    [DType::I8, DType::I8],
    [DType::I8, DType::U8],
];

#[test]
fn all_machines_multiply_bytes_exactly() {
    for backend in machines() {
        for types in SIGNS {
            let case = Case {
                size: [5, 70, 131],
                types,
                zeros: [Zero::One, Zero::Each],
                transposed: false,
            };
            assert!(check(&case, &backend), "{case:?}");
        }
    }
}

#[test]
fn whatever_is_taken_off() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    let of = |dtype: DType| match dtype {
        DType::U8 => [0, 255, 128],
        _ => [-128, 127, 0],
    };
    for types in SIGNS {
        for (i, transposed) in [(0, false), (1, true), (2, false)] {
            let number = |side: usize| Zero::Number(of(types[side])[i]);
            for zeros in [
                [Zero::None, Zero::None],
                [Zero::Each, Zero::None],
                [Zero::None, number(1)],
                [number(0), number(1)],
                [number(0), Zero::Each],
                [Zero::Number(i32::MAX.into()), Zero::Number(i32::MIN.into())],
            ] {
                let case = Case {
                    size: [9, 33, 90],
                    types,
                    zeros,
                    transposed,
                };
                assert!(check(&case, &backend), "{case:?}");
            }
        }
    }
}

#[test]
fn few_rows_of_any_depth() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    for rows in 1..=5 {
        for depth in [93, 130] {
            for (types, transposed) in SIGNS.into_iter().zip([false, true, true, false]) {
                let case = Case {
                    size: [rows, 200, depth],
                    types,
                    zeros: [Zero::One, Zero::One],
                    transposed,
                };
                assert!(check(&case, &backend), "{case:?}");
                // The weight may be the first operand.
                let [m, n, k] = case.size;
                let turned = Case {
                    size: [n, m, k],
                    ..case
                };
                check(&turned, &backend);
            }
        }
    }
}

#[test]
fn long_sums_go_in_passes() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    for zeros in [[Zero::None, Zero::None], [Zero::One, Zero::Each]] {
        let case = Case {
            size: [7, 40, 9001],
            types: [DType::U8, DType::I8],
            zeros,
            transposed: false,
        };
        assert!(check(&case, &backend), "{case:?}");
    }
}

#[test]
fn what_is_no_byte_stays_exact() {
    let backend = Backend::find("CPU:LLVM", "", 2).unwrap();
    let case = Case {
        size: [12, 40, 64],
        types: [DType::U8, DType::I32],
        zeros: [Zero::One, Zero::None],
        transposed: false,
    };
    let mut made = make(&Case {
        types: [DType::U8, DType::I8],
        ..case
    });
    // The same with the second operand in 32 bits.
    let wide: Vec<u8> = made.buffers[2]
        .iter()
        .flat_map(|&b| i32::from(b as i8).to_le_bytes())
        .collect();
    made.buffers[2] = wide;
    let kernel = make(&case).kernel;
    let built = build(&kernel, &backend, &Options::default()).unwrap();
    assert!(!built.report.opts.iter().any(|o| o.contains("bytes")));
    let loaded = Loaded::new(built);
    loaded.run(&mut made.buffers, &[]);
    let got: Vec<i32> = made.buffers[0]
        .chunks(4)
        .map(|c| i32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(got, made.want);
}
