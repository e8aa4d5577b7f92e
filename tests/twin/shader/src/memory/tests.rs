//! What instructions do to memory, LDS and registers.

use std::cell::Cell;

use twin::fires::fires;

use crate::counters::Counters;
use crate::isa::{self, Gen};
use crate::page::tests::Pages;
use crate::page::{Bus, Port};
use crate::step::{Flow, Stop};
use crate::turns::{Seat, Turns};
use crate::wave::{Lanes, Place, Wave};

mod caches;

/// Pages at 0x10000, 0x11000, and scratch at 0x40000 up.
const PAGES: [u64; 6] = [0x1_0000, 0x1_1000, 0x4_0000, 0x4_1000, 0x4_2000, 0x4_3000];
const SHARED: u32 = 0x1_0000;
const PRIVATE: u32 = 0x2_0000;

struct Bench {
    memory: Pages,
    lds: Vec<Cell<u32>>,
    phases: Cell<u32>,
    turns: Turns,
}

impl Bench {
    fn new() -> Self {
        Self {
            memory: Pages::new(&PAGES),
            lds: (0..1024).map(|i| Cell::new(0x1000 + i)).collect(),
            phases: Cell::new(0),
            turns: Turns::new(1, 1, 0),
        }
    }

    fn wave(&self, generation: Gen, halves: usize) -> Wave<'_> {
        let mut wave = Wave {
            generation,
            pc: 0,
            next: 0,
            s: [0; 128],
            m0: 0,
            exec: if halves == 2 { !0 } else { 0xffff_ffff },
            scc: false,
            mode: 0xf0,
            v: vec![[0; 32]; 512 * halves],
            vgprs: 64,
            halves,
            lds: &self.lds,
            bus: Bus::new(&self.memory),
            counters: Counters::new(generation),
            place: Place {
                scratch: 0x4_0000,
                scratch_bytes: 64 * 32 * halves as u32,
                shared_aperture: SHARED,
                private_aperture: PRIVATE,
                ..Place::default()
            },
            seat: Seat::new(&self.turns, 0, None),
            signalled: 0,
            phases: &self.phases,
            arrived: None,
            messages: Vec::new(),
            handler: None,
            trap: None,
            halted: false,
        };
        for row in 0..16 {
            for half in 0..halves {
                *wave.vgpr_mut(row, half) =
                    std::array::from_fn(|lane| (0x100 * row + 32 * half + lane) as u32);
            }
        }
        wave.set_scalar64(2, 0x1_0000);
        wave
    }
}

/// Runs the instruction in `words`, whose text is `text`.
fn step(wave: &mut Wave, words: &[u32], text: &str) -> Result<(), Stop> {
    let decoded = isa::decode(wave.generation, words).unwrap();
    assert_eq!(decoded.inst.to_string(), text);
    let step = decoded.inst.lower(wave.halves);
    assert!(!step.touches.is_empty());
    assert_eq!((step.run)(wave)?, Flow::Next);
    Ok(())
}

fn ok(wave: &mut Wave, words: &[u32], text: &str) {
    step(wave, words, text).unwrap();
}

fn rule(wave: &mut Wave, words: &[u32], text: &str) -> &'static str {
    match step(wave, words, text) {
        Err(Stop::Rule(rule, _)) => rule.name,
        other => panic!("{other:?}"),
    }
}

fn set(wave: &mut Wave, register: usize, value: impl Fn(usize) -> u32) {
    for half in 0..wave.halves {
        *wave.vgpr_mut(register, half) = std::array::from_fn(|lane| value(32 * half + lane));
    }
}

fn lanes(value: impl Fn(usize) -> u32) -> Lanes {
    std::array::from_fn(value)
}

fn peek(wave: &mut Wave, va: u64) -> u32 {
    wave.bus.get(Port::Cp, va).unwrap()
}

#[test]
fn global_loads_and_stores() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    for i in 0..512 {
        wave.bus
            .put(Port::Vector, 0x1_0000 + 4 * i, 0x8180_0000 + i as u32)
            .unwrap();
    }
    set(wave, 2, |lane| 0x1_0000 + 4 * lane as u32);
    set(wave, 3, |_| 0);
    wave.exec = 0xffff_fffe;
    ok(
        wave,
        &[0xdc52_0008, 0x047c_0002],
        "global_load_b32 v4, v[2:3], off offset:8",
    );
    assert_eq!(
        *wave.vgpr(4, 0),
        lanes(|lane| if lane == 0 {
            0x400
        } else {
            0x8180_0002 + lane as u32
        })
    );
    wave.exec = 0xffff_ffff;
    set(wave, 0, |lane| 48 * lane as u32);
    ok(
        wave,
        &[0xdc5e_0000, 0x0402_0000],
        "global_load_b128 v[4:7], v0, s[2:3]",
    );
    assert_eq!(
        *wave.vgpr(7, 0),
        lanes(|lane| 0x8180_0003 + 12 * lane as u32)
    );
    ok(
        wave,
        &[0xdc86_0000, 0x0402_0000],
        "global_load_d16_hi_u8 v4, v0, s[2:3]",
    );
    assert_eq!(wave.vgpr(4, 0)[1], 0x000c_000c);
    set(wave, 0, |_| 2);
    ok(
        wave,
        &[0xdc46_0000, 0x0402_0000],
        "global_load_i8 v4, v0, s[2:3]",
    );
    assert_eq!(wave.vgpr(4, 0)[9], 0xffff_ff80);
    set(wave, 0, |lane| 0x1010 + 12 * lane as u32);
    ok(
        wave,
        &[0xdc6e_1ff0, 0x0002_0400],
        "global_store_b64 v0, v[4:5], s[2:3] offset:-16",
    );
    assert_eq!(peek(wave, 0x1_1000 + 12), 0xffff_ff80);
    assert_eq!(peek(wave, 0x1_1004 + 12), 0x8180_000d);
    set(wave, 4, |lane| (lane as u32) << 16);
    set(wave, 0, |lane| 3 * lane as u32);
    ok(
        wave,
        &[0xdc96_0000, 0x0002_0400],
        "global_store_d16_hi_b16 v0, v4, s[2:3]",
    );
    assert_eq!(peek(wave, 0x1_0000), 0x0180_0000);
    ok(
        wave,
        &[0xdca2_0004, 0x0402_0000],
        "global_load_addtid_b32 v4, s[2:3] offset:4",
    );
    assert_eq!(wave.vgpr(4, 0)[31], 0x8180_0020);
    set(wave, 0, |lane| lane as u32 * 0x1000);
    assert!(matches!(
        step(wave, &[0xdc5e_0000, 0x0402_0000], "global_load_b128 v[4:7], v0, s[2:3]"),
        Err(Stop::Fault(fault)) if fault.va == 0x1_2000
    ));
}

#[test]
fn global_atomics() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    set(wave, 0, |_| 8);
    set(wave, 5, |lane| lane as u32 + 1);
    ok(
        wave,
        &[0xdcd6_4000, 0x0402_0500],
        "global_atomic_add_u32 v4, v0, v5, s[2:3] glc",
    );
    assert_eq!(
        *wave.vgpr(4, 0),
        lanes(|lane| (lane * (lane + 1) / 2) as u32)
    );
    assert_eq!(peek(wave, 0x1_0008), 528);
    // The new value comes first, then what is compared with.
    set(wave, 0, |lane| 0x100 + 8 * lane as u32);
    set(wave, 6, |lane| lane as u32);
    set(wave, 7, |_| 7);
    set(wave, 8, |lane| lane as u32 & 1);
    set(wave, 9, |_| 0);
    ok(
        wave,
        &[0xdd0a_4000, 0x0402_0600],
        "global_atomic_cmpswap_b64 v[4:5], v0, v[6:9], s[2:3] glc",
    );
    assert_eq!([peek(wave, 0x1_0110), peek(wave, 0x1_0114)], [2, 7]);
    assert_eq!(peek(wave, 0x1_0118), 0);
    wave.exec = 3;
    set(wave, 0, |_| 0x300);
    set(wave, 5, |_| 1.5f32.to_bits());
    ok(
        wave,
        &[0xdd5a_0000, 0x0002_0500],
        "global_atomic_add_f32 v0, v5, s[2:3]",
    );
    assert_eq!(peek(wave, 0x1_0300), 3f32.to_bits());
    // Denormals are added as they are.
    set(wave, 0, |_| 0x304);
    set(wave, 5, |_| 3);
    ok(
        wave,
        &[0xdd5a_0000, 0x0002_0500],
        "global_atomic_add_f32 v0, v5, s[2:3]",
    );
    assert_eq!(peek(wave, 0x1_0304), 6);
    set(wave, 0, |_| 0x302);
    let name = rule(
        wave,
        &[0xdd5a_0000, 0x0002_0500],
        "global_atomic_add_f32 v0, v5, s[2:3]",
    );
    fires("MEM-ALIGN").only(&[name]);
}

#[test]
fn few_atomics_leave_the_gpu() {
    let mut bench = Bench::new();
    bench.memory.1 = true;
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    set(wave, 0, |_| 8);
    set(wave, 5, |_| 1);
    ok(
        wave,
        &[0xdcd6_4000, 0x0402_0500],
        "global_atomic_add_u32 v4, v0, v5, s[2:3] glc",
    );
    assert_eq!(peek(wave, 0x1_0008), 32);
    set(wave, 0, |lane| 0x100 + 8 * lane as u32);
    set(wave, 6, |lane| lane as u32);
    for register in 7..10 {
        set(wave, register, |_| 0);
    }
    ok(
        wave,
        &[0xdd0a_4000, 0x0402_0600],
        "global_atomic_cmpswap_b64 v[4:5], v0, v[6:9], s[2:3] glc",
    );
    let name = rule(
        wave,
        &[0xdd5a_0000, 0x0002_0500],
        "global_atomic_add_f32 v0, v5, s[2:3]",
    );
    fires("MEM-ATOMIC-FABRIC").only(&[name]);
}

#[test]
fn scratch_interleaves_lanes() {
    for halves in [1, 2] {
        let bench = Bench::new();
        let wave = &mut bench.wave(Gen::Rdna3, halves);
        let all = 32 * halves as u64;
        ok(
            wave,
            &[0xdc6d_0008, 0x007c_0400],
            "scratch_store_b64 off, v[4:5], off offset:8",
        );
        assert_eq!(peek(wave, 0x4_0000 + 2 * 4 * all + 12), 0x403);
        assert_eq!(peek(wave, 0x4_0000 + 3 * 4 * all + 12), 0x503);
        wave.s[4] = 8;
        set(wave, 0, |lane| lane as u32 & 1);
        ok(
            wave,
            &[0xdc51_0004, 0x0684_0000],
            "scratch_load_b32 v6, v0, s4 offset:4",
        );
        assert_eq!(wave.vgpr(6, 0)[2], 0x502);
        assert_eq!(wave.vgpr(6, 0)[3], 0x5, "unaligned, the next dword is 0");
        set(wave, 0, |_| 9);
        ok(
            wave,
            &[0xdc41_0000, 0x06fc_0000],
            "scratch_load_u8 v6, v0, off",
        );
        assert_eq!(wave.vgpr(6, 0)[2], 4);
        set(wave, 0, |lane| if lane == 5 { 64 } else { 0 });
        let name = rule(
            wave,
            &[0xdc41_0000, 0x06fc_0000],
            "scratch_load_u8 v6, v0, off",
        );
        fires("SCRATCH-RANGE").only(&[name]);
    }
}

#[test]
fn flat_looks_at_apertures() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    set(wave, 3, |lane| [0, SHARED, PRIVATE][lane % 3]);
    set(
        wave,
        2,
        |lane| if lane % 3 == 0 { 0x1_0000 } else { 0 } + 4 * (lane % 16) as u32,
    );
    ok(
        wave,
        &[0xdc68_0000, 0x007c_0402],
        "flat_store_b32 v[2:3], v4",
    );
    assert_eq!(peek(wave, 0x1_000c), 0x403);
    assert_eq!(bench.lds[1].get(), 0x401);
    assert_eq!(peek(wave, 0x4_0000 + 2 * 128 + 8), 0x402);
    set(wave, 5, |_| 1);
    ok(
        wave,
        &[0xdcd4_4000, 0x047c_0502],
        "flat_atomic_add_u32 v4, v[2:3], v5 glc",
    );
    assert_eq!(bench.lds[1].get(), 0x402);
    ok(
        wave,
        &[0xdc50_0000, 0x047c_0002],
        "flat_load_b32 v4, v[2:3]",
    );
    assert_eq!(wave.vgpr(4, 0)[..3], [0x401, 0x402, 0x403][..]);
}

#[test]
fn lds_loads_and_stores() {
    for halves in [1, 2] {
        let bench = Bench::new();
        let wave = &mut bench.wave(Gen::Rdna3, halves);
        set(wave, 0, |lane| 16 * lane as u32);
        ok(
            wave,
            &[0xd834_0004, 0x0000_0400],
            "ds_store_b32 v0, v4 offset:4",
        );
        ok(
            wave,
            &[0xd8d8_0004, 0x0500_0000],
            "ds_load_b32 v5, v0 offset:4",
        );
        assert_eq!(wave.vgpr(5, halves - 1), wave.vgpr(4, halves - 1));
        ok(
            wave,
            &[0xd8e0_0100, 0x0400_0000],
            "ds_load_2addr_stride64_b32 v[4:5], v0 offset1:1",
        );
        assert_eq!(wave.vgpr(5, 0)[0], 0x1040);
        set(wave, 0, |lane| 17 * lane as u32);
        ok(
            wave,
            &[0xdb7c_0000, 0x0000_0400],
            "ds_store_b128 v0, v[4:7]",
        );
        ok(wave, &[0xdbf8_0000, 0x0400_0000], "ds_load_b96 v[4:6], v0");
        assert_eq!(wave.vgpr(6, 0)[1], 0x601);
        ok(
            wave,
            &[0xda9c_0000, 0x0400_0000],
            "ds_load_u16_d16_hi v4, v0",
        );
        let low = wave.vgpr(4, 0)[3] & 0xffff;
        assert_eq!(wave.vgpr(4, 0)[3], low << 16 | low);
        set(wave, 0, |lane| if lane == 7 { 4093 } else { 0 });
        let name = rule(
            wave,
            &[0xd8d8_0004, 0x0500_0000],
            "ds_load_b32 v5, v0 offset:4",
        );
        fires("LDS-RANGE").only(&[name]);
        // Address and offset make 32 bits.
        set(wave, 0, |lane| (8 - 4 * lane as u32 % 12).wrapping_sub(8));
        ok(
            wave,
            &[0xd8d8_0008, 0x0500_0000],
            "ds_load_b32 v5, v0 offset:8",
        );
        let found = [0, 1, 2].map(|lane| wave.vgpr(5, 0)[lane]);
        set(wave, 0, |lane| 8 - 4 * lane as u32 % 12);
        ok(wave, &[0xd8d8_0000, 0x0500_0000], "ds_load_b32 v5, v0");
        assert_eq!(found, [0, 1, 2].map(|lane| wave.vgpr(5, 0)[lane]));
        // What is in the register of a lane that is off does not matter.
        wave.exec = 0x7f;
        for address in [4093, u32::MAX] {
            set(wave, 0, |lane| if lane == 7 { address } else { 0 });
            ok(
                wave,
                &[0xd8d8_0004, 0x0500_0000],
                "ds_load_b32 v5, v0 offset:4",
            );
        }
    }
}

#[test]
fn lds_atomics() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    set(wave, 0, |_| 0);
    set(wave, 4, |_| 2);
    ok(
        wave,
        &[0xd880_0000, 0x0500_0400],
        "ds_add_rtn_u32 v5, v0, v4",
    );
    assert_eq!(*wave.vgpr(5, 0), lanes(|lane| 0x1000 + 2 * lane as u32));
    set(wave, 0, |lane| 8 * lane as u32);
    set(wave, 5, |_| 9);
    set(wave, 6, |_| 0x1002);
    set(wave, 7, |_| 0x1003);
    ok(
        wave,
        &[0xd9c0_0000, 0x0806_0400],
        "ds_cmpstore_rtn_b64 v[8:9], v0, v[4:5], v[6:7]",
    );
    assert_eq!([bench.lds[2].get(), bench.lds[3].get()], [2, 9]);
    assert_eq!(bench.lds[4].get(), 0x1004);
    ok(
        wave,
        &[0xd8b8_0100, 0x0805_0400],
        "ds_storexchg_2addr_rtn_b32 v[8:9], v0, v4, v5 offset1:1",
    );
    assert_eq!([wave.vgpr(8, 0)[2], wave.vgpr(9, 0)[2]], [0x1004, 0x1005]);
    set(wave, 0, |_| 0x800);
    set(wave, 4, |_| 0.5f32.to_bits());
    bench.lds[0x200].set(0);
    ok(wave, &[0xd854_0000, 0x0000_0400], "ds_add_f32 v0, v4");
    assert_eq!(bench.lds[0x200].get(), 16f32.to_bits());
    wave.m0 = 0x800;
    bench.lds[0x202].set(5);
    wave.exec = 0xf0;
    ok(wave, &[0xd8f8_0008, 0x0500_0000], "ds_append v5 offset:8");
    assert_eq!((wave.vgpr(5, 0)[4], bench.lds[0x202].get()), (5, 9));
    ok(
        wave,
        &[0xdac4_0008, 0x0500_0000],
        "ds_load_addtid_b32 v5 offset:8",
    );
    assert_eq!(wave.vgpr(5, 0)[5], 0x1207);
}

#[test]
fn lanes_exchange_values() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    let expect = |wave: &Wave, from: &dyn Fn(usize) -> usize| {
        assert_eq!(*wave.vgpr(5, 0), lanes(|lane| 0x400 + from(lane) as u32));
    };
    ok(
        wave,
        &[0xd8d4_801b, 0x0500_0004],
        "ds_swizzle_b32 v5, v4 offset:swizzle(QUAD_PERM,3,2,1,0)",
    );
    expect(wave, &|lane| lane ^ 3);
    ok(
        wave,
        &[0xd8d4_401f, 0x0500_0004],
        "ds_swizzle_b32 v5, v4 offset:swizzle(SWAP,16)",
    );
    expect(wave, &|lane| lane ^ 16);
    ok(
        wave,
        &[0xd8d4_c0a0, 0x0500_0004],
        "ds_swizzle_b32 v5, v4 offset:swizzle(ROTATE,0,5)",
    );
    expect(wave, &|lane| (lane + 5) % 32);
    ok(
        wave,
        &[0xd8d4_e01f, 0x0500_0004],
        "ds_swizzle_b32 v5, v4 offset:swizzle(FFT,31)",
    );
    expect(wave, &|lane| lane);
    set(wave, 0, |lane| 4 * (31 - lane as u32));
    ok(
        wave,
        &[0xdac8_0000, 0x0500_0400],
        "ds_permute_b32 v5, v0, v4",
    );
    expect(wave, &|lane| 31 - lane);
    wave.exec = 0xffff;
    ok(
        wave,
        &[0xdacc_0000, 0x0500_0400],
        "ds_bpermute_b32 v5, v0, v4",
    );
    assert_eq!(wave.vgpr(5, 0)[..16], [0; 16]);
}

#[test]
fn buffers_check_their_bounds() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    for i in 0..64 {
        wave.bus
            .put(Port::Vector, 0x1_0000 + 4 * i, i as u32 + 1)
            .unwrap();
    }
    // Raw, 64 bytes.
    wave.s[8..12].copy_from_slice(&[0x1_0000, 0, 64, 3 << 28]);
    wave.s[4] = 4;
    set(wave, 0, |lane| 4 * lane as u32);
    ok(
        wave,
        &[0xe054_0004, 0x0442_0400],
        "buffer_load_b64 v[4:5], v0, s[8:11], s4 offen offset:4",
    );
    let at = |lane: usize| if lane < 16 { lane as u32 + 1 } else { 0 };
    assert_eq!(*wave.vgpr(4, 0), lanes(|lane| at(lane + 2)));
    assert_eq!(*wave.vgpr(5, 0), lanes(|lane| at(lane + 3)));
    // Structured, 5 records of 16 bytes.
    wave.s[8..12].copy_from_slice(&[0x1_0000, 16 << 16, 5, 0]);
    set(wave, 0, |lane| lane as u32);
    set(wave, 4, |lane| 100 + lane as u32);
    ok(
        wave,
        &[0xe068_0000, 0x8082_0400],
        "buffer_store_b32 v4, v0, s[8:11], 0 idxen",
    );
    assert_eq!(peek(wave, 0x1_0040), 104);
    assert_eq!(peek(wave, 0x1_0050), 21);
    // Lanes interleave by dwords; the index is the lane.
    wave.s[8..12].copy_from_slice(&[0x1_0000, 1 << 30, !0, 3 << 28 | 1 << 23 | 2 << 21]);
    set(wave, 0, |_| 4);
    wave.s[4] = 0;
    ok(
        wave,
        &[0xe054_0004, 0x0442_0400],
        "buffer_load_b64 v[4:5], v0, s[8:11], s4 offen offset:4",
    );
    assert_eq!(wave.vgpr(4, 0)[0], 0, "of a page without data");
    set(wave, 0, |_| 0u32.wrapping_sub(4));
    ok(
        wave,
        &[0xe054_0004, 0x0442_0400],
        "buffer_load_b64 v[4:5], v0, s[8:11], s4 offen offset:4",
    );
    assert_eq!([wave.vgpr(4, 0)[2], wave.vgpr(5, 0)[2]], [3, 35]);
}

#[test]
fn buffers_convert() {
    let bench = Bench::new();
    let wave = &mut bench.wave(Gen::Rdna3, 1);
    let identity = 4 | 5 << 3 | 6 << 6 | 7 << 9;
    // 8_8_8_8_UNORM.
    let flags = 3 << 28 | 42 << 12 | identity;
    wave.s[8..12].copy_from_slice(&[0x1_0000, 4 << 16, 4096, flags]);
    set(wave, 0, |lane| lane as u32);
    let values = [0.0, 0.5, 1.0, -3.0f32];
    for (i, value) in values.into_iter().enumerate() {
        set(wave, 4 + i, |_| value.to_bits());
    }
    ok(
        wave,
        &[0xe01c_0000, 0x8082_0400],
        "buffer_store_format_xyzw v[4:7], v0, s[8:11], 0 idxen",
    );
    assert_eq!(peek(wave, 0x1_0004), 0x00ff_8000);
    ok(
        wave,
        &[0xe00c_0000, 0x8082_0400],
        "buffer_load_format_xyzw v[4:7], v0, s[8:11], 0 idxen",
    );
    let floats: [f32; 4] = std::array::from_fn(|i| f32::from_bits(wave.vgpr(4 + i, 0)[3]));
    assert_eq!(floats, [0.0, 128.0 / 255.0, 1.0, 0.0]);
    ok(
        wave,
        &[0xe02c_0000, 0x8082_0400],
        "buffer_load_d16_format_xyzw v[4:5], v0, s[8:11], 0 idxen",
    );
    assert_eq!(
        [wave.vgpr(4, 0)[3], wave.vgpr(5, 0)[3]],
        [0x3804_0000, 0x3c00]
    );
    // The format 0 is none.
    wave.s[11] = 3 << 28 | identity;
    let name = rule(
        wave,
        &[0xe00c_0000, 0x8082_0400],
        "buffer_load_format_xyzw v[4:7], v0, s[8:11], 0 idxen",
    );
    fires("BUFFER-FORMAT").only(&[name]);
    wave.s[11] = flags;
    wave.bus
        .put(Port::Vector, 0x1_0000, 0x0000_00ffu32)
        .unwrap();
    set(wave, 0, |_| 0);
    ok(
        wave,
        &[0xe950_8000, 0x8042_0400],
        "tbuffer_load_format_xy v[4:5], v0, s[8:11], 0 format:[BUF_FMT_8_8_8_8_UNORM] offen",
    );
    assert_eq!(
        [wave.vgpr(4, 0)[3], wave.vgpr(5, 0)[3]],
        [1f32.to_bits(), 0]
    );
}
