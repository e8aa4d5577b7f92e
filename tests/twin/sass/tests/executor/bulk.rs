//! Copies of many bytes beside the warps, in a row and by tensor maps: what they bring is there once somebody has
//! waited for it at its barrier, and what they take was written before a fence.
//!
//! Maps are written here field by field; `tests/golden/nv/tensor_maps.txt` has some that NVIDIA's libcuda made, with which
//! the fields must agree.

use crate::device;

use device::{Device, Grid};
use twin_sass::Chip;
use twin_sass::warp::{Cause, Denied, Fault, Space};

const GRID: Grid = Grid {
    blocks: [1, 1, 1],
    threads: [64, 1, 1],
    shared: 17408 + 8,
};
const CHIP: Chip = Chip::Sm90;
/// Bytes of shared memory that the kernel writes out.
const SHARED: usize = 17408;
/// The word by which the kernel changes what it writes back.
const CHANGE: u32 = 0x5a5a_1234;

/// A tensor and its tiles.
#[derive(Clone)]
struct Map {
    /// The number of its type, and bytes of an element.
    element: (u32, usize),
    counts: Vec<usize>,
    /// Bytes to the next one along all but the first.
    strides: Vec<usize>,
    tile: Vec<usize>,
    steps: Vec<usize>,
    swizzle: u32,
}

impl Map {
    fn words(&self, address: u64) -> [u32; 32] {
        let mut words = [0; 32];
        (words[0], words[1]) = (address as u32, (address >> 32) as u32);
        words[2] = (self.counts.len() as u32 - 1) << 4 | self.element.0 << 7 | self.swizzle << 13;
        for (k, &stride) in self.strides.iter().enumerate() {
            words[3 + k] = (stride as u64 >> 4) as u32;
            words[7] |= ((stride as u64 >> 36) as u32) << (4 * k);
        }
        for (k, &count) in self.counts.iter().enumerate() {
            words[8 + k] = count as u32 - 1;
            words[13] |= (self.steps[k] as u32 - 1) << (3 * k);
            let tile = self.tile[k] as u32 - 1;
            if k == 0 {
                words[13] |= tile << 24;
            } else {
                words[14] |= tile << (8 * (k - 1));
            }
        }
        words
    }

    /// Elements of a tile along each dimension.
    fn shape(&self) -> Vec<usize> {
        self.tile
            .iter()
            .zip(&self.steps)
            .map(|(tile, step)| tile.div_ceil(*step))
            .collect()
    }

    /// For each byte of a tile, in order: its byte in shared memory, and in the tensor if it is there.
    fn bytes(&self, at: &[i32]) -> Vec<(usize, Option<usize>)> {
        let (shape, size) = (self.shape(), self.element.1);
        let elements: usize = shape.iter().product();
        let mut out = Vec::new();
        for number in 0..elements {
            let (mut rest, mut place, mut inside) = (number, 0, true);
            for k in 0..shape.len() {
                let index = at[k] as i64 + (rest % shape[k] * self.steps[k]) as i64;
                rest /= shape[k];
                inside &= index >= 0 && index < self.counts[k] as i64;
                let stride = if k == 0 { size } else { self.strides[k - 1] };
                place += index * stride as i64;
            }
            for byte in 0..size {
                // 16 bytes change places with others of a row of 32, 64 or 128 bytes, by the number of the 128 bytes.
                let linear = number * size + byte;
                let mask = (1 << self.swizzle) - 1;
                let mixed = linear ^ (((linear / 128) & mask) * 16);
                out.push((mixed, inside.then_some(place as usize + byte)));
            }
        }
        out
    }
}

fn maps() -> Vec<(Map, Vec<i32>)> {
    let map =
        |element, counts: &[usize], strides: &[usize], tile: &[usize], steps: &[usize], swizzle| {
            Map {
                element,
                counts: counts.to_vec(),
                strides: strides.to_vec(),
                tile: tile.to_vec(),
                steps: steps.to_vec(),
                swizzle,
            }
        };
    let (half, byte, single, double) = ((6, 2), (0, 1), (7, 4), (9, 8));
    vec![
        (map(half, &[200], &[], &[64], &[1], 0), vec![17]),
        (map(byte, &[100], &[], &[64], &[1], 2), vec![-9]),
        (
            map(half, &[100, 60], &[208], &[64, 32], &[1, 1], 3),
            vec![32, 8],
        ),
        (
            map(half, &[100, 60], &[256], &[64, 48], &[1, 1], 3),
            vec![70, 30],
        ),
        (
            map(half, &[100, 60], &[208], &[32, 20], &[1, 1], 2),
            vec![-5, -3],
        ),
        (
            map(half, &[100, 60], &[208], &[16, 20], &[1, 1], 1),
            vec![99, 0],
        ),
        (
            map(single, &[40, 60], &[160], &[32, 33], &[1, 2], 3),
            vec![3, 5],
        ),
        (
            map(single, &[40, 60], &[160], &[36, 16], &[1, 1], 0),
            vec![-33, 59],
        ),
        (
            map(
                double,
                &[10, 20, 6],
                &[80, 1600],
                &[16, 8, 3],
                &[1, 1, 1],
                3,
            ),
            vec![1, -4, 4],
        ),
        (
            map(
                (10, 2),
                &[24, 9, 8, 5],
                &[48, 448, 3584],
                &[32, 3, 4, 5],
                &[1, 1, 3, 2],
                2,
            ),
            vec![-2, 1, 1, 1],
        ),
        (
            map(
                half,
                &[24, 5, 4, 3, 3],
                &[48, 240, 960, 2880],
                &[8, 4, 3, 2, 4],
                &[1, 1, 1, 1, 1],
                0,
            ),
            vec![9, 2, -1, 1, 0],
        ),
        (
            map(
                half,
                &[24, 5, 4, 3, 3],
                &[48, 240, 960, 2880],
                &[64, 2, 2, 2, 2],
                &[1, 1, 1, 1, 1],
                3,
            ),
            vec![0, 0, 0, 0, 0],
        ),
    ]
}

fn tensor(seed: u32) -> Vec<u32> {
    (0..5120_u32)
        .map(|i| (i + seed).wrapping_mul(0x9e37_79b1) ^ seed)
        .collect()
}

struct Run {
    out: Vec<u8>,
    back: Vec<u8>,
    stored: Vec<u8>,
}

/// Runs the kernel: with a tensor that is read, and one of the same shape that is written.
fn run(
    mut device: Device,
    map: &Map,
    at: &[i32],
    change: impl Fn(&mut [u32; 32]),
) -> Result<Run, Fault> {
    let row = device.words(
        &(0..256_u32)
            .map(|i| !i.wrapping_mul(77))
            .collect::<Vec<_>>(),
    );
    let (from, to) = (device.words(&tensor(5)), device.words(&tensor(9)));
    let out = device.words(&[0; SHARED / 4]);
    let back = device.words(&[0; 256]);
    let (mut load, mut store) = (map.words(from), map.words(to));
    change(&mut load);
    change(&mut store);
    let maps = device.words(&[load, store].concat());
    device.holds_address(maps);
    device.holds_address(maps + 128);
    for (at, words, what) in [
        (to, 5120, "the tensor that was written"),
        (out, SHARED / 4, "shared memory"),
        (back, 256, "the row"),
    ] {
        device.name(at, words, 4, what, true);
    }
    let mut places: Vec<u32> = at.iter().map(|place| place.cast_unsigned()).collect();
    places.resize(8, 0);
    let places = device.words(&places);
    let bytes = map.shape().iter().product::<usize>() * map.element.1;
    device.run_as_on_card(
        &GRID,
        &[row, out, back, maps, places, at.len() as u64, bytes as u64],
    )?;
    let mut bytes = |at, words| -> Vec<u8> {
        device
            .read(at, words)
            .iter()
            .flat_map(|word: &u32| word.to_le_bytes())
            .collect()
    };
    Ok(Run {
        out: bytes(out, SHARED / 4),
        back: bytes(back, 256),
        stored: bytes(to, 5120),
    })
}

fn as_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn changed(byte: u8, at: usize) -> u8 {
    byte ^ CHANGE.to_le_bytes()[at % 4]
}

#[test]
fn tiles_come_and_go() {
    for (number, (map, at)) in maps().iter().enumerate() {
        let run = run(Device::new(CHIP, "bulk"), map, at, |_| {})
            .unwrap_or_else(|fault| panic!("map {number}: {fault}"));
        let (from, mut to) = (as_bytes(&tensor(5)), as_bytes(&tensor(9)));
        let row: Vec<u8> = (0..256_u32)
            .flat_map(|i| (!i.wrapping_mul(77)).to_le_bytes())
            .collect();
        let mut shared = vec![0; SHARED];
        shared[16384..].copy_from_slice(&row);
        for (byte, place) in map.bytes(at) {
            shared[byte] = place.map_or(0, |place| from[place]);
            if let Some(place) = place {
                to[place] = changed(shared[byte], byte);
            }
        }
        assert!(run.out == shared, "map {number}: shared memory");
        let expected: Vec<u8> = row
            .iter()
            .enumerate()
            .map(|(at, byte)| changed(*byte, at))
            .collect();
        assert!(run.back == expected, "map {number}: the row");
        assert!(
            run.stored == to,
            "map {number}: the tensor that was written"
        );
    }
}

/// Code in which the first instructions of a kind do nothing.
fn without(which: impl Fn(u128) -> bool, how_many: usize) -> Vec<u128> {
    const NOTHING: u128 = 0x918;
    let mut code = Device::words_of(CHIP, "bulk");
    let found: Vec<usize> = (0..code.len()).filter(|&at| which(code[at])).collect();
    assert!(found.len() >= how_many, "{}", found.len());
    for &at in &found[..how_many] {
        code[at] = code[at] >> 105 << 105 | NOTHING | 7 << 12;
    }
    code
}

fn plain() -> (Map, Vec<i32>) {
    maps().swap_remove(2)
}

#[test]
fn what_no_fence_is_behind_is_not_seen() {
    // The one before the stores.
    let (map, at) = plain();
    let code = without(|word| word & 0xfff == 0x3c6, 1);
    let fault = run(Device::of(CHIP, &code), &map, &at, |_| {})
        .err()
        .unwrap();
    assert!(matches!(fault.cause, Cause::Unfenced(_)), "{fault}");
}

#[test]
fn what_leaves_is_read_when_it_was_waited_for() {
    let (map, at) = plain();
    // DEPBAR: without it the tile is overwritten while it leaves.
    let code = without(|word| word & 0xfff == 0x91a, 2);
    let fault = run(Device::of(CHIP, &code), &map, &at, |_| {})
        .err()
        .unwrap();
    assert!(matches!(fault.cause, Cause::Unfenced(_)), "{fault}");
}

#[test]
fn what_was_not_waited_for_is_not_there() {
    let (map, at) = plain();
    // Who asks at the barrier goes on whatever the answer.
    let asks = Device::words_of(CHIP, "bulk")
        .iter()
        .filter(|word| **word & 0xfff == 0x5a7)
        .count();
    let code = without(|word| word & 0xfff == 0x5a7, asks);
    let mut later = code.clone();
    // The branch that goes back is not taken: its predicate is that of nobody.
    for word in &mut later {
        if *word & 0xfff == 0x947 && *word >> 12 & 15 != 7 && *word >> 15 & 1 != 0 {
            *word = *word & !(0xf << 12) | 0xf << 12;
        }
    }
    match run(Device::of(CHIP, &later), &map, &at, |_| {}) {
        Ok(run) => assert!(run.out.iter().all(|&byte| byte == 0), "it is there"),
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn wrong_maps_are_named() {
    let (map, at) = plain();
    type Change = fn(&mut [u32; 32]);
    let changes: [(&str, Change); 7] = [
        ("another number of dimensions", |map| map[2] ^= 1 << 4),
        ("elements of this type", |map| map[2] |= 15 << 7),
        ("channels in groups", |map| map[2] |= 1 << 11),
        ("NaN", |map| map[2] |= 1 << 15),
        ("bits that mean nothing", |map| map[2] |= 1 << 30),
        ("multiple of 16 bytes", |map| map[13] ^= 1 << 24),
        ("longer than the pattern", |map| map[2] ^= 1 << 13),
    ];
    let code = Device::words_of(CHIP, "bulk");
    for (text, change) in changes {
        let fault = run(Device::of(CHIP, &code), &map, &at, change)
            .err()
            .unwrap();
        assert!(fault.to_string().contains(text), "{text}: {fault}");
    }
    let fault = run(Device::of(CHIP, &code), &map, &at, |map| map[1] ^= 0x10)
        .err()
        .unwrap();
    let cause = fault.cause;
    assert!(
        matches!(
            cause,
            Cause::Memory {
                space: Space::Global,
                why: Denied::Unmapped,
                ..
            }
        ),
        "{cause}"
    );
}

/// The fields are where NVIDIA's libcuda has them; what it says beside them is in the upper half, and about caches.
#[test]
fn maps_are_those_of_libcuda() {
    const TYPES: [(u32, usize); 10] = [
        (0, 1),
        (1, 2),
        (2, 4),
        (3, 4),
        (4, 8),
        (5, 8),
        (6, 2),
        (7, 4),
        (9, 8),
        (10, 2),
    ];
    let lines = include_str!("../../../../golden/nv/tensor_maps.txt");
    let mut count = 0;
    for line in lines.lines() {
        let Some((arguments, answer)) = line.split_once(" = ") else {
            continue;
        };
        let list = |word: &str| -> Vec<usize> {
            let words = arguments.split(' ').skip_while(|part| *part != word);
            words.skip(1).map_while(|part| part.parse().ok()).collect()
        };
        let Some(&element) = TYPES.get(list("type")[0]) else {
            continue;
        };
        if answer.starts_with("status") {
            continue;
        }
        let map = Map {
            element,
            counts: list("counts"),
            strides: list("strides"),
            tile: list("tile"),
            steps: list("steps"),
            swizzle: list("swizzle")[0] as u32,
        };
        let address = arguments
            .split(' ')
            .skip_while(|part| *part != "address")
            .nth(1);
        let mut words = map.words(u64::from_str_radix(address.unwrap(), 16).unwrap());
        words[2] |= (list("fill")[0] << 15 | list("fetch")[0] << 17) as u32;
        let mut theirs = [0; 32];
        for part in answer.split(' ') {
            let (at, word) = part.split_once(':').unwrap();
            theirs[at.parse::<usize>().unwrap()] = u32::from_str_radix(word, 16).unwrap();
        }
        assert_eq!(words[..16], theirs[..16], "{line}");
        count += 1;
    }
    assert!(count > 25, "{count}");
}
