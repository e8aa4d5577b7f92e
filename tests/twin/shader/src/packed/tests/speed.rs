//! How fast instructions run: `cargo test -p twin-shader --lib speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use super::{by_name, run};
use crate::isa::{self, Gen};

fn measure(generation: Gen, words: &[u32]) {
    let decoded = isa::decode(generation, words).unwrap();
    let halves = if generation == Gen::Cdna3 { 2 } else { 1 };
    let step = decoded.inst.lower(halves);
    run(
        generation,
        halves,
        words,
        |wave| {
            for register in 0..256 {
                for half in 0..halves {
                    *wave.vgpr_mut(register, half) = [0x3c00_3c00; 32];
                }
            }
            // The best of many: the machine may do other things.
            let (batches, times) = (200, 500);
            let mut batch = || {
                let start = Instant::now();
                for _ in 0..times {
                    let _ = black_box((step.run)(black_box(wave)));
                }
                start.elapsed()
            };
            let best = std::iter::repeat_with(&mut batch).take(batches).min();
            let each = best.unwrap().as_nanos() as f64 / f64::from(times);
            println!("{each:8.1} ns  {}", decoded.inst);
        },
        |_, ()| (),
    );
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let sources = [256 + 32, 256 + 64, 256 + 96];
    for name in [
        "v_pk_fma_f16",
        "v_pk_add_f16",
        "v_pk_max_f16",
        "v_pk_mad_u16",
        "v_dot2_f32_f16",
        "v_dot4_i32_iu8",
        "v_fma_mix_f32",
        "v_wmma_f32_16x16x16_f16",
        "v_wmma_f16_16x16x16_f16",
        "v_wmma_i32_16x16x16_iu8",
    ] {
        measure(Gen::Rdna3, &by_name(Gen::Rdna3, name, sources, [0, 0]));
    }
    for name in ["v_wmma_f32_16x16x16_f16", "v_swmmac_f32_16x16x32_f16"] {
        measure(Gen::Rdna4, &by_name(Gen::Rdna4, name, sources, [0, 0]));
    }
    for name in [
        "v_mfma_f32_16x16x16_f16",
        "v_mfma_f32_32x32x8_f16",
        "v_mfma_f32_32x32x1_2b_f32",
        "v_mfma_f64_16x16x4_f64",
    ] {
        let modifiers = [0x4000, 3 << 27];
        measure(Gen::Cdna3, &by_name(Gen::Cdna3, name, sources, modifiers));
    }
    measure(
        Gen::Cdna3,
        &by_name(Gen::Cdna3, "v_pk_fma_f32", sources, [0, 0]),
    );
    // v_dual_fmac_f32 v0, v1, v2 :: v_dual_fmac_f32 v3, v4, v5 and the like.
    for (x, y) in [(0, 0), (3, 4), (8, 8), (10, 16)] {
        let b = |op, r| if op == 8 { 0 } else { r };
        let first = 0x32 << 26 | x << 22 | y << 17 | b(x, 2) << 9 | (256 + 1);
        let second = 1 << 17 | b(y, 5) << 9 | (256 + 4);
        measure(Gen::Rdna3, &[first, second]);
    }
}
