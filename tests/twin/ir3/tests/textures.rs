//! Textures and images: formats, borders, filters, typed and untyped accesses.
#![allow(clippy::unwrap_used)]

mod support;

use drivers_spec::qcom::descriptor::{Filter, Format, Sampler, Texture, Wrap};
use half::f16;
use support::{IN, Machine, OUT, chip, each};
use twin::fires::fires;

/// Where the border colours are.
const BORDER: u64 = 0x4_0000_0000;

fn machine(text: &str, texture: Texture, sampler: Sampler) -> Machine {
    let mut machine = Machine::new(&each(text)).with(|launch| {
        let words = texture.encode().unwrap();
        launch.descriptors.textures = vec![None, Some(words)];
        launch.descriptors.images = vec![Some(words)];
        launch.descriptors.samplers = vec![Some(sampler.encode().unwrap())];
        launch.descriptors.border_colors = Some(BORDER);
    });
    let border = [0.25f32, 0.5, 0.75, 1.0].map(|v| v.to_le_bytes()).concat();
    machine.ram.map(BORDER, border);
    machine
}

/// An image of 4 by 4 pixels whose components are 16 y + 4 x + component.
fn pixels(format: Format) -> (Texture, Vec<u32>) {
    let bytes = format.bytes() as usize;
    let mut memory = vec![0u8; 4 * 64];
    for (y, x) in (0..4).flat_map(|y| (0..4).map(move |x| (y, x))) {
        for c in 0..4 {
            let value = (16 * y + 4 * x + c) as f32;
            let at = y * 64 + x * bytes + c * bytes / 4;
            match bytes / 4 {
                4 => memory[at..at + 4].copy_from_slice(&value.to_le_bytes()),
                2 => memory[at..at + 2]
                    .copy_from_slice(&f16::from_f32(value).to_bits().to_le_bytes()),
                _ => memory[at] = value as u8,
            }
        }
    }
    let words = memory
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    (Texture::rows(format, 4, 4, 64, IN), words)
}

/// What one fiber reads at integer coordinates.
fn fetch(format: Format, ty: &str, x: i32, y: i32, then: &str) -> u32 {
    let (texture, words) = pixels(format);
    let text = format!(
        "mov.s32s32 r4.x, {x}; mov.s32s32 r4.y, {y}; (rpt5)nop
         isam.1d ({ty})(xyzw){}r5.x, r4.x, s#0, t#1
         (sy)nop; {then}",
        if ty.ends_with("16") { "h" } else { "" }
    );
    machine(&text, texture, Sampler::PIXELS)
        .input(&words)
        .out(1)[0]
}

#[test]
fn pixels_are_fetched_in_each_format() {
    for c in 0..4u32 {
        let component = ['x', 'y', 'z', 'w'][c as usize];
        let single = format!("mov.f32f32 r3.x, r5.{component}");
        let half = format!("cov.f16f32 r3.x, hr5.{component}");
        let expected = ((16 * 2 + 4 + c) as f32).to_bits();
        assert_eq!(fetch(Format::Rgba32Float, "f32", 1, 2, &single), expected);
        assert_eq!(fetch(Format::Rgba16Float, "f32", 1, 2, &single), expected);
        assert_eq!(fetch(Format::Rgba16Float, "f16", 1, 2, &half), expected);
        assert_eq!(
            fetch(Format::Rgba8Uint, "u32", 1, 2, &single),
            16 * 2 + 4 + c
        );
        let fraction = ((16 * 2 + 4 + c) as f32 / 255.0).to_bits();
        assert_eq!(fetch(Format::Rgba8Unorm, "f32", 1, 2, &single), fraction);
    }
}

#[test]
fn fetches_outside_give_the_border() {
    for (x, y) in [(-1, 0), (4, 0), (0, -1), (0, 4), (1000, 1000)] {
        let color = fetch(Format::Rgba32Float, "f32", x, y, "mov.f32f32 r3.x, r5.y");
        assert_eq!(f32::from_bits(color), 0.5);
    }
}

#[test]
fn borders_have_colours_without_memory() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let color = |number: u32, component: char| {
        let text = format!(
            "mov.s32s32 r4.x, -1; mov.s32s32 r4.y, 0; (rpt5)nop
             isam.1d (f32)(xyzw)r5.x, r4.x, s#0, t#1
             (sy)nop; mov.f32f32 r3.x, r5.{component}"
        );
        let machine = machine(&text, texture, Sampler::PIXELS).with(|launch| {
            // FASTBORDERCOLOREN and FASTBORDERCOLOR.
            let sampler = launch.descriptors.samplers[0].as_mut().unwrap();
            sampler[2] = 1 << 4 | number << 2;
        });
        f32::from_bits(machine.input(&words).out(1)[0])
    };
    for (number, colors) in [
        (0, [0.0, 0.0]),
        (1, [0.0, 1.0]),
        (2, [1.0, 0.0]),
        (3, [1.0; 2]),
    ] {
        assert_eq!([color(number, 'x'), color(number, 'w')], colors);
    }
}

#[test]
fn components_are_where_the_mask_says() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let text = "mov.u32u32 r4.x, 0; mov.u32u32 r4.y, 0; mov.u32u32 r5.x, 99; (rpt5)nop
                isam.1d (f32)(yw)r5.x, r4.x, s#0, t#1
                (sy)add.u r3.x, r5.x, r5.y; (rpt2)nop; add.u r3.x, r3.x, r5.w";
    let out = machine(text, texture, Sampler::PIXELS).input(&words).out(1);
    assert_eq!(
        out,
        [99u32
            .wrapping_add(1f32.to_bits())
            .wrapping_add(3f32.to_bits())]
    );
}

#[test]
fn samples_are_nearest_or_linear() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let sample = |x: f32, y: f32, filter, unnormalized, wrap| {
        let sampler = Sampler {
            magnify: filter,
            minify: filter,
            wrap: [wrap; 3],
            unnormalized,
            ..Sampler::PIXELS
        };
        let text = format!(
            "mov.u32u32 r4.x, 0x{:x}; mov.u32u32 r4.y, 0x{:x}; (rpt5)nop
             sam (f32)(x)r3.x, r4.x, s#0, t#1",
            x.to_bits(),
            y.to_bits()
        );
        f32::from_bits(machine(&text, texture, sampler).input(&words).out(1)[0])
    };
    let edge = Wrap::ClampToEdge;
    assert_eq!(sample(1.9, 2.1, Filter::Nearest, true, edge), 36.0);
    assert_eq!(
        sample(0.3, 0.8, Filter::Nearest, false, edge),
        16.0 * 3.0 + 4.0
    );
    assert_eq!(
        sample(2.0, 2.0, Filter::Linear, true, edge),
        16.0 * 1.5 + 4.0 * 1.5
    );
    assert_eq!(sample(0.25, 2.5, Filter::Linear, true, edge), 32.0);
    assert_eq!(sample(4.25, 2.5, Filter::Nearest, true, Wrap::Repeat), 32.0);
    // Half of the border, whose first component is 0.25.
    let half = sample(0.001, 2.5, Filter::Linear, true, Wrap::ClampToBorder);
    assert!((half - 16.125).abs() < 0.1, "{half}");
}

#[test]
fn four_pixels_are_gathered() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let sampler = Sampler {
        wrap: [Wrap::ClampToEdge; 3],
        ..Sampler::PIXELS
    };
    let x = 2f32.to_bits();
    let text = format!(
        "mov.u32u32 r4.x, 0x{x:x}; mov.u32u32 r4.y, 0x{x:x}; (rpt5)nop
         gather4g (f32)(xyzw)r5.x, r4.x, s#0, t#1; (sy)nop; mov.f32f32 r3.x, r5.y"
    );
    let out = machine(&text, texture, sampler).input(&words).out(1);
    assert_eq!(f32::from_bits(out[0]), 16.0 * 2.0 + 4.0 * 2.0 + 1.0);
}

#[test]
fn sizes() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let text = "mov.u32u32 r4.x, 0; (rpt5)nop; getsize (u32)(xy)r5.x, r4.x, t#1
                (sy)shl.b r5.y, r5.y, 8; (rpt2)nop; add.u r3.x, r5.x, r5.y";
    assert_eq!(
        machine(text, texture, Sampler::PIXELS).input(&words).out(1),
        [4 | 4 << 8]
    );
    let text = "resinfo.b.untyped.1d.u32.1.imm r5.x, 0; (ss)nop; shl.b r5.y, r5.y, 8; (rpt2)nop
                add.u r3.x, r5.x, r5.y";
    let buffer = Texture::buffer(Format::R32Uint, 100_000, IN);
    assert_eq!(
        machine(text, buffer, Sampler::PIXELS).input(&words).out(1),
        [100_000 + (1 << 8)]
    );
}

#[test]
fn pixels_are_stored_and_loaded() {
    // Fiber n stores n to n + 3 at (n % 4, n / 4); the upper ones are outside and store nothing.
    let text = "and.b r4.x, r0.x, 3; shr.b r4.y, r0.x, 2; cov.u32f32 r5.x, r0.x; (rpt2)nop
                add.f r5.y, r5.x, (1.0); add.f r5.z, r5.x, (2.0); add.f r5.w, r5.x, (e); (rpt5)nop
                stib.b.typed.2d.f32.4.imm r5.x, r4.x, 0
                ldib.b.typed.2d.f32.2.imm r6.x, r4.x, 0
                (sy)mov.f32f32 r3.x, r6.y";
    for format in [Format::Rgba32Float, Format::Rgba16Float] {
        let texture = Texture::rows(format, 4, 4, 64, IN);
        let mut machine = machine(text, texture, Sampler::PIXELS).input(&[0; 256]);
        machine.run().unwrap_or_else(|broken| panic!("{broken}"));
        let out = machine.ram.words(OUT, 64);
        for (n, v) in out.iter().enumerate() {
            let expected = if n < 16 { n as f32 + 1.0 } else { 0.0 };
            assert_eq!(f32::from_bits(*v), expected, "{n} {format:?}");
        }
        let first = machine.ram.words(IN, 1)[0];
        let one = if format == Format::Rgba16Float {
            0x3c00 << 16
        } else {
            0
        };
        assert_eq!(first, one);
    }
}

#[test]
fn elements_of_buffers() {
    let text = "add.u r4.x, r0.x, 8; (rpt5)nop
                stib.b.untyped.1d.u32.1.imm r0.x, r4.x, 0
                ldib.b.untyped.1d.u32.2.imm r5.x, r4.x, 0
                (sy)add.u r3.x, r5.x, r5.y";
    let buffer = Texture::buffer(Format::R32Uint, 128, IN);
    let mut machine = machine(text, buffer, Sampler::PIXELS).input(&[1000; 128]);
    machine.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(machine.ram.words(IN + 32, 3), [0, 1, 2]);
    assert_eq!(machine.ram.words(OUT, 2), [1, 3]);
}

#[test]
fn atomics_on_buffers() {
    let text = "mov.u32u32 r4.x, 5; mov.u32u32 r5.x, 0; mov.u32u32 r5.y, 2; (rpt5)nop
                atomic.b.add.untyped.1d.u32.1.imm r5.x, r4.x, 0
                (sy)mov.u32u32 r3.x, r5.x";
    let buffer = Texture::buffer(Format::R32Uint, 64, IN);
    let mut machine = machine(text, buffer, Sampler::PIXELS).input(&[0; 64]);
    machine.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(machine.ram.words(IN + 20, 1), [128]);
    let out = machine.ram.words(OUT, 64);
    assert!(out.iter().enumerate().all(|(n, v)| *v == 2 * n as u32));
}

#[test]
fn bindless_descriptors_are_in_memory() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let text = "mov.u32u32 r4.x, 1; mov.u32u32 r4.y, 1; (rpt5)nop
                isam.base2.1d (f32)(x)r3.x, r4.x, s#0, t#3";
    let mut machine = machine(text, texture, Sampler::PIXELS).input(&words);
    machine.launch.descriptors.bindless[2] = Some(0x5_0000_0000);
    let descriptor = texture.encode().unwrap().map(u32::to_le_bytes).concat();
    machine
        .ram
        .map(0x5_0000_0000, [vec![0; 3 * 64], descriptor].concat());
    machine.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(f32::from_bits(machine.ram.words(OUT, 1)[0]), 20.0);
    // At least the sixteen dwords of the texture.
    assert!(machine.ram.reads["the descriptors of a bindless base"] >= 16);
}

#[test]
fn buffers_of_16_bits_are_accessed_by_32_where_there_are_such() {
    let words: Vec<u32> = (100..164).collect();
    let run = |name, at| {
        let text = format!(
            "mov.u32u32 r4.x, {at}; (rpt5)nop; ldib.b.untyped.1d.u32.1.imm r3.x, r4.x, 0; (sy)nop"
        );
        let buffer = Texture::buffer(Format::R16Uint, 64, IN);
        let machine = machine(&text, buffer, Sampler::PIXELS).input(&words);
        machine.with(|launch| launch.chip = chip(name))
    };
    assert_eq!(run("A660", 3).out(1), [103]);
    assert_eq!(
        [run("A660", 31), run("A660", 32)].map(|machine| machine.out(1)[0]),
        [131, 0]
    );
    fires("IR3-DESCRIPTOR").only(&[run("A630", 3).breaks()]);
}

#[test]
fn offsets_of_buffers_are_of_chips_that_have_them() {
    let words: Vec<u32> = (100..164).collect();
    let run = |name| {
        let text =
            "mov.u32u32 r4.x, 3; (rpt5)nop; ldib.b.untyped.1d.u32.1.imm r3.x, r4.x+4, 0; (sy)nop";
        let buffer = Texture::buffer(Format::R32Uint, 64, IN);
        let machine = machine(text, buffer, Sampler::PIXELS).input(&words);
        machine.with(|launch| launch.chip = chip(name))
    };
    assert_eq!(run("A660").out(1), [107]);
    for earlier in ["A650", "A630"] {
        fires("IR3-COMPUTE").only(&[run(earlier).breaks()]);
    }
}

#[test]
fn textures_go_through_their_cache() {
    let (texture, words) = pixels(Format::Rgba32Float);
    let text =
        "mov.u32u32 r4.x, 1; mov.u32u32 r4.y, 1; (rpt5)nop; isam.1d (f32)(x)r3.x, r4.x, s#0, t#1";
    let mut machine = machine(text, texture, Sampler::PIXELS).input(&words);
    machine.run().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(machine.ram.reads["the texture cache"], 64);
    assert!(machine.ram.reads["the instruction cache"] > 0);
}
