//! The state before an instruction, by seed: the same registers and memory that `State` in
//! `scripts/twin-vectors` makes. `tests/golden/isa/README.md` says what they hold.

pub const MEM: u64 = 0x2000_0000_0000;
pub const MEM_DWORDS: usize = 0x6000 / 4;
pub const LDS_DWORDS: usize = 0x10000 / 4;
pub const CODE: u64 = 0x2000_1000_0000;
pub const SEEDS: u64 = 8;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const INT: [u32; 22] = [
    0,
    1,
    2,
    31,
    32,
    63,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x10000,
    0x7f_ffff,
    0x80_0000,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ff00,
    0xffff_8000,
    0xffff_fffe,
    0xffff_ffff,
];

const F32: [u32; 33] = [
    0,
    1 << 31,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7fc1_2345,
    0xffc0_0001,
    0x7f80_0001,
    0xffa0_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0040_0000,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x3f7f_ffff,
    0x3f80_0001,
    0x3f00_0000,
    0xbf00_0000,
    0x4020_0000,
    0x4b00_0001,
    0x4f00_0000,
    0xcf00_0000,
    0x4f7f_ffff,
    0x4f80_0000,
    0x5f00_0000,
    0x3eaa_aaab,
    0x4049_0fdb,
];

const F16: [u16; 28] = [
    0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7e55, 0x7c01, 0xfd00, 0x0001, 0x8001,
    0x03ff, 0x0200, 0x83ff, 0x0400, 0x8400, 0x7bff, 0xfbff, 0x3bff, 0x3c01, 0x3800, 0xb800, 0x4100,
    0x6401, 0x77ff, 0x7800, 0xf800,
];

const F64: [u64; 32] = [
    0,
    1 << 63,
    0x3ff << 52,
    0xbff << 52,
    0x7ff << 52,
    0xfff << 52,
    0x7ff8 << 48,
    0x7ff8_0000_0001_2345,
    0x7ff0_0000_0000_0001,
    0xfff4 << 48,
    1,
    1 << 63 | 1,
    (1 << 52) - 1,
    1 << 51,
    1 << 52,
    0x8010 << 48,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x3fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0001,
    0x3fe0 << 48,
    0xbfe0 << 48,
    0x41df_ffff_ffc0_0000,
    0xc1e0 << 48,
    0x41ef_ffff_ffe0_0000,
    0x41f0 << 48,
    0x47ef_ffff_e000_0000,
    0x3fd5_5555_5555_5555,
    0x4009_21fb_5444_2d18,
    0x4004 << 48,
    0x36a0 << 48,
    0x3810 << 48,
];

fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn draw(seed: u64, key: usize) -> u64 {
    mix(mix(seed) ^ (key as u64).wrapping_mul(GOLDEN))
}

fn pick<T: Copy>(table: &[T], x: u32) -> T {
    table[x as usize % table.len()]
}

fn half(x: u32) -> u32 {
    match x >> 28 {
        0..6 => u32::from(pick(&F16, x & 0xfff_ffff)),
        6..13 => x & 0x83ff | (7 + (x >> 16 & 15)) << 10,
        _ => x & 0xffff,
    }
}

fn brain(x: u32) -> u32 {
    match x >> 26 {
        0 => pick(&F32, x & 0xfff_ffff) >> 16,
        _ => (((x & 0xff) as f32 - 128.0) * 0.25).to_bits() >> 16,
    }
}

/// A register of this kind from 64 random bits; `d` and `k` give 64 bits.
fn word(kind: u8, x: u64) -> u64 {
    let (low, top, table) = (x as u32, x >> 60, (x >> 32) as u32 & 0xfff_ffff);
    let small = |x: u32| f64::from(x % 1025) * 0.25 - 128.0;
    u64::from(match (kind, top) {
        (b'i', 0..6) => pick(&INT, table),
        (b'i', 6..8) => (table % 160).wrapping_sub(32),
        (b'i', _) => low,
        (b'f', 0..6) => pick(&F32, table),
        (b'f', 6..13) => low & 0x807f_ffff | (119 + (table & 15)) << 23,
        (b'f', _) => low,
        (b'd', 0..6) => return pick(&F64, table),
        (b'd', 6..13) => {
            return x.wrapping_mul(GOLDEN) & 0x800f_ffff_ffff_ffff
                | u64::from(1015 + (table & 15)) << 52;
        }
        (b'd', _) => return mix(x),
        (b'h', _) => half(low) | half((x >> 32) as u32) << 16,
        (b'b', _) => brain(low) | brain((x >> 32) as u32) << 16,
        (b'e', _) => (small(low) as f32).to_bits(),
        (b'k', _) => return small(low).to_bits(),
        (b'g', _) => {
            let f16 =
                |x: u64| u32::from(half::f16::from_f32((x % 65) as f32 * 0.5 - 16.0).to_bits());
            f16(u64::from(low)) | f16(x >> 32) << 16
        }
        _ => unreachable!("no kind {kind}"),
    })
}

/// One dword of a register or of memory; `odd` says which half of kinds that take two.
fn dword(seed: u64, key: usize, even: usize, kind: u8) -> u32 {
    if matches!(kind, b'd' | b'k') {
        let value = word(kind, draw(seed, even));
        return if key == even {
            value as u32
        } else {
            (value >> 32) as u32
        };
    }
    word(kind, draw(seed, key)) as u32
}

pub struct State {
    pub s: [u32; 128],
    pub exec: u64,
    pub m0: u32,
    pub scc: bool,
    pub v: Vec<u32>,
    pub lds: Vec<u32>,
    pub mem: Vec<u32>,
}

impl State {
    pub fn new(seed: u64, lanes: usize) -> Self {
        let mask = if lanes == 64 { u64::MAX } else { 0xffff_ffff };
        let wild = draw(seed, 0x201);
        let exec = match seed % 4 {
            0 => mask,
            1 => wild,
            2 => wild & draw(seed, 0x202),
            _ => 1 << (wild % lanes as u64),
        };
        let registers = if lanes == 64 { 512 } else { 256 };
        Self {
            s: scalars(seed),
            exec: exec & mask,
            m0: word(b'i', draw(seed, 0x203)) as u32,
            scc: seed >> 2 & 1 == 1,
            v: (0..registers)
                .flat_map(|r| (0..lanes).map(move |lane| vgpr(seed, r, lane)))
                .collect(),
            lds: (0..LDS_DWORDS).map(|i| cell(seed, 0x100000, i)).collect(),
            mem: (0..MEM_DWORDS).map(|i| cell(seed, 0x200000, i)).collect(),
        }
    }
}

fn scalars(seed: u64) -> [u32; 128] {
    let mut s = [0; 128];
    for i in (0..106).chain(108..124) {
        let kind = match i {
            16..32 => b'f',
            32..40 => b'h',
            40..56 => b'd',
            56..64 => b'e',
            64..68 => b'g',
            68..72 => b'b',
            _ => b'i',
        };
        s[i] = dword(seed, i, i & !1, kind);
    }
    for i in (72..80).step_by(2) {
        let base = MEM + 0x2000 + 0x200 * (i as u64 - 72);
        (s[i], s[i + 1]) = (base as u32, (base >> 32) as u32);
    }
    for (i, records) in [(80, 0x1000), (84, 0x600)] {
        let base = MEM + 0x2000;
        s[i..i + 4].copy_from_slice(&[base as u32, (base >> 32) as u32, records, 0x27000]);
    }
    for (i, word) in s.iter_mut().enumerate().take(100).skip(96) {
        *word = draw(seed, i) as u32 & 0x3fc;
    }
    let vcc = draw(seed, 0x200);
    (s[106], s[107]) = (vcc as u32, (vcc >> 32) as u32);
    s
}

fn vgpr(seed: u64, r: usize, lane: usize) -> u32 {
    let key = 0x10000 + r * 64 + lane;
    let even = key - (r & 1) * 64;
    let slot = |key| draw(seed, key) & 0x18;
    match r & 255 {
        window @ 0..128 => dword(seed, key, even, b"ifhdegkb"[window >> 4]),
        128..144 => {
            let address = MEM + 0x2000 + lane as u64 * 64 + slot(even);
            (address >> (32 * (r & 1))) as u32
        }
        144..160 => lane as u32 * 64 + slot(key) as u32,
        window @ 192..240 => {
            let kind = b"gbi"[(window - 192) >> 4];
            word(kind, draw(seed, key - (lane & 16))) as u32
        }
        _ => word(b'i', draw(seed, key)) as u32,
    }
}

/// Memory: stretches of 16 dwords by kind, in turn.
fn cell(seed: u64, base: usize, i: usize) -> u32 {
    dword(seed, base + i, base + (i & !1), b"ifheigd"[(i >> 4) % 7])
}
