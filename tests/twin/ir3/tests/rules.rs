//! Each rule and a program or a launch that breaks it; beside most, the same one that does not.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use drivers_spec::qcom::descriptor::{Format, Sampler, Texture, Wrap};
use support::{CODE, IN, Machine, OUT, chip, each};
use twin::fires::fires;
use twin_ir3::launch::ThreadSize;
use twin_ir3::rules;

fn program(text: &str) -> Machine {
    Machine::new(text)
}

fn body(text: &str) -> Machine {
    Machine::new(&each(text)).input(&[0; 64])
}

/// The same on a chip with a scalar ALU.
fn scalar(text: &str) -> Machine {
    body(text).with(|launch| launch.chip = chip("A650"))
}

fn image(texture: Texture) -> impl FnOnce(&mut twin_ir3::Launch) {
    move |launch| {
        let words = texture.encode().unwrap();
        launch.descriptors.images = vec![Some(words)];
        launch.descriptors.textures = vec![Some(words)];
        launch.descriptors.samplers = vec![Some(Sampler::PIXELS.encode().unwrap())];
        launch.descriptors.border_colors = Some(IN);
    }
}

fn pixels() -> Texture {
    Texture::rows(Format::Rgba32Float, 4, 4, 64, IN)
}

const STORE: &str = "mov.u32u32 r4.x, 0; mov.u32u32 r4.y, 0; mov.u32u32 r5.x, 0; mov.u32u32 r5.y, 0
    mov.u32u32 r5.z, 0; mov.u32u32 r5.w, 0; (rpt5)nop";

/// Rules of what a program contains, and of launches.
#[test]
fn programs_and_launches_that_the_hardware_does_not_take() {
    let machine = Machine::words(vec![0x4000_0000_0000_2000 | 7 << 11]);
    fires("IR3-ENCODING").only(&[machine.breaks()]);
    let machine = program("kill p0.x");
    fires("IR3-COMPUTE").only(&[machine.breaks()]);
    let machine = body("dp4acc.unsigned.low r3.x, r2.x, r2.x, r2.x");
    fires("IR3-COMPUTE").only(&[machine.breaks()]);
    let machine = body("cmpv.u.lt r3.x, r2.x, r2.x");
    fires("IR3-MEANING").only(&[machine.breaks()]);
    let machine = body("add.u r3.x, c0.x, c0.y");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = body("add.u r3.x, r2.x, -600");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = body("rcp r3.x, c0.x");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = body("mad.u24 r3.x, r2.x, r48.x, r2.x");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = body("add.u r52.x, r48.x, 1; mov.u32u32 r3.x, 1");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = body("cov.u32u16 hr54.x, r48.x; mov.u32u32 r3.x, 1");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = scalar("add.u r51.x, r2.x, 1; mov.u32u32 r3.x, 1");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = scalar("cov.f32u32 r51.x, r2.x; mov.u32u32 r3.x, 1");
    fires("IR3-OPERANDS").only(&[machine.breaks()]);
    let machine = program("jump #1000");
    fires("IR3-CODE-RANGE").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| launch.local_size = [1025, 1, 1]);
    fires("IR3-LAUNCH-SIZE").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| launch.full_footprint = 49);
    fires("IR3-LAUNCH-FOOTPRINT").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| {
        launch.chip = chip("A610");
        launch.thread_size = ThreadSize::Thread128;
    });
    fires("IR3-LAUNCH-THREADSIZE").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| {
        launch.full_footprint = 40;
        launch.local_size = [512, 1, 1];
    });
    fires("IR3-LAUNCH-OCCUPANCY").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| launch.system.group_id = Some(40));
    fires("IR3-LAUNCH-SYSTEM").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| launch.system.local_id = Some(47));
    fires("IR3-LAUNCH-SYSTEM").only(&[machine.breaks()]);
    let machine = program("nop").with(|launch| launch.local_bytes = 40 << 10);
    fires("IR3-LAUNCH-MEMORY").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, r58.x");
    fires("IR3-REGISTER").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r12.x, r2.x");
    fires("IR3-FOOTPRINT").only(&[machine.breaks()]);
    let machine = body("cov.u32u16 hr8.x, r2.x");
    fires("IR3-FOOTPRINT").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, r4.x");
    fires("IR3-REG-UNDEFINED").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r52.x, r0.x");
    fires("IR3-SHARED-UNIFORM").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, c16.x");
    fires("IR3-CONST-RANGE").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, c15.x");
    fires("IR3-CONST-UNDEFINED").only(&[machine.breaks()]);
}

/// Rules of delays and waits.
#[test]
fn missing_delays_and_waits() {
    let machine = body("add.u r4.x, r2.x, 1; (rpt1)nop; add.u r3.x, r4.x, 1");
    fires("IR3-DELAY-ALU").only(&[machine.breaks()]);
    let machine = body("(nop1) add.u r4.x, r2.x, 1; nop; add.u r3.x, r4.x, 1");
    fires("IR3-DELAY-ALU").only(&[machine.breaks()]);
    let machine = body("add.u r4.x, r2.x, 1; mad.u24 r3.x, r2.x, r2.x, r4.x");
    fires("IR3-DELAY-ALU").only(&[machine.breaks()]);
    let machine =
        body("cov.u32u16 hr6.x, r2.x; mov.u16u16 hr6.y, 1; (rpt3)nop; mov.u32u32 r4.x, r3.x")
            .with(|launch| launch.merged_registers = true);
    fires("IR3-DELAY-SIZE").only(&[machine.breaks()]);
    // The cycles of a wait are no slots.
    for waits in [
        "rcp r5.x, r2.x; add.u r4.x, r2.x, 1; (ss)add.u r3.x, r4.x, 1",
        "ldg.u32 r5.x, g[r1.x], 1; add.u r4.x, r2.x, 1; (sy)add.u r3.x, r4.x, 1",
        "ldg.u32 r5.x, g[r1.x], 1; add.u r4.x, r2.x, 1; (sy)nop; nop; add.u r3.x, r4.x, 1",
    ] {
        fires("IR3-DELAY-ALU").only(&[body(waits).breaks()]);
    }
    // Nor do waits help where the load is of another register, comes before, or is not waited for. hr6.x aliases r3.x.
    for waits in [
        "add.u r3.x, r2.x, 1; ldg.u16 hr5.x, g[r1.x], 1; (sy)rcp r4.x, r3.x",
        "ldg.u16 hr6.x, g[r1.x], 1; add.u r3.x, r2.x, 1; (sy)rcp r4.x, r3.x",
        "add.u r3.x, r2.x, 1; ldg.u16 hr6.x, g[r1.x], 1; (ss)rcp r4.x, r3.x",
    ] {
        fires("IR3-DELAY-OTHER").only(&[body(waits).breaks()]);
    }
    let machine = body("add.u r4.x, r2.x, 1; (rpt4)nop; rcp r3.x, r4.x");
    fires("IR3-DELAY-OTHER").only(&[machine.breaks()]);
    let machine =
        body("mov.u32u32 r3.x, 1; mov.u32u32 r4.x, 4; (rpt4)nop; stl.u32 l[r4.x], r3.x, 1");
    fires("IR3-DELAY-OTHER").only(&[machine.breaks()]);
    let machine = body("cmps.u.lt p0.x, r2.x, 4; (rpt4)nop; br p0.x, #1; mov.u32u32 r3.x, 1");
    fires("IR3-DELAY-SPECIAL").only(&[machine.breaks()]);
    let machine = body(
        "cov.u32s16 hr0.x, r2.x; (rpt2)nop; mova a0.x, hr0.x; (rpt4)nop; mov.u32u32 r3.x, c<a0.x + 0>",
    );
    fires("IR3-DELAY-SPECIAL").only(&[machine.breaks()]);
    let machine = body("rcp r4.x, r2.x; (rpt5)nop; (rpt5)nop; add.f r3.x, r4.x, r2.x");
    fires("IR3-SS-MISSING").only(&[machine.breaks()]);
    let machine = body("rcp r3.x, r2.x; (rpt5)nop; mov.u32u32 r3.x, 1");
    fires("IR3-SS-MISSING").only(&[machine.breaks()]);
    let machine = body("(sy)shfl.xor.u32 r4.x, r2.x, 1; mov.u32u32 r3.x, r4.x");
    fires("IR3-SS-MISSING").only(&[machine.breaks()]);
    let machine = body("ldg.u32 r4.x, g[r1.x], 1; (ss)(rpt5)nop; mov.u32u32 r3.x, r4.x");
    fires("IR3-SY-MISSING").only(&[machine.breaks()]);
    let machine = body("ldg.u32 r3.x, g[r1.x], 1; mov.u32u32 r3.x, 5");
    fires("IR3-SY-MISSING").only(&[machine.breaks()]);
    let machine = body("stg.u32 g[r1.z+1024], r2.x, 1; mov.u32u32 r2.x, 7; mov.u32u32 r3.x, 1");
    fires("IR3-WAR").only(&[machine.breaks()]);
    let machine =
        body("stg.u32 g[r1.z+1024], r2.x, 1; (sy)nop; mov.u32u32 r1.z, 7; mov.u32u32 r3.x, 1");
    fires("IR3-WAR").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r52.x, r2.x; mov.u32u32 r2.x, 7; mov.u32u32 r3.x, 1");
    fires("IR3-WAR").only(&[machine.breaks()]);
    let machine = body("rcp r4.x, r2.x; mov.u32u32 r2.x, 7; mov.u32u32 r3.x, 1");
    fires("IR3-WAR").only(&[machine.breaks()]);
    let machine = body("ldg.u32 r4.x, g[r1.x], 1; mov.u32u32 r1.x, 5; mov.u32u32 r3.x, 1");
    fires("IR3-WAR").only(&[machine.breaks()]);
    // What the scalar ALU writes others wait for, and itself where the size is another one.
    let machine = scalar("mov.u32u32 r51.x, 7; add.u r51.y, r51.x, 1; mov.u32u32 r3.x, r51.y");
    fires("IR3-SS-MISSING").only(&[machine.breaks()]);
    let machine = scalar("mov.u32u32 r51.x, 7; cov.u16u32 r51.y, hr54.x; mov.u32u32 r3.x, 1");
    fires("IR3-SS-MISSING").only(&[machine.breaks()]);
    let machine = scalar("mov.u32u32 r51.x, r2.x; add.u r51.y, r51.x, 1; mov.u32u32 r3.x, 1");
    fires("IR3-SS-MISSING").only(&[machine.breaks()]);
    let machine = scalar(
        "mov.u32u32 r51.x, 7; (ss)mov.u32u32 r51.y, r51.x; mov.u32u32 r51.x, r2.x; mov.u32u32 r3.x, 1",
    );
    fires("IR3-WAR").only(&[machine.breaks()]);
    // It takes no slots.
    let machine = scalar(
        "add.u r4.x, r2.x, 1; nop; mov.u32u32 r51.x, 1; add.u r51.y, r51.x, 1; add.u r3.x, r4.x, 1",
    );
    fires("IR3-DELAY-ALU").only(&[machine.breaks()]);
    // What lacks one of the waits, also where a nop has the other.
    for behind in [
        "mov.u32u32 r3.x, 2",
        "(ss)mov.u32u32 r3.x, 2",
        "(sy)mov.u32u32 r3.x, 2",
        "(ss)nop; mov.u32u32 r3.x, 2",
        "(rpt3)nop; (sy)mov.u32u32 r3.x, 2",
        "(sy)nop; nop; fence.r.w; (ss)(sy)nop",
        "(ss)nop; ldg.u32 r3.x, g[r1.x], 1",
    ] {
        for barrier in ["(ss)(sy)bar.g", "fence.r.w"] {
            let machine = body(&format!("mov.u32u32 r3.x, 1; {barrier}; {behind}"));
            fires("IR3-BARRIER-SYNC").only(&[machine.breaks()]);
        }
    }
    // Where branches lead elsewhere: behind it, and behind a nop.
    for barrier in ["(ss)(sy)bar.g", "fence.r.w"] {
        for behind in [
            "mov.u32u32 r3.x, 2; jump #1; nop",
            "nop; mov.u32u32 r3.x, 2; cmps.u.lt p0.x, r0.x, 0; (rpt5)nop; br p0.x, #-3",
        ] {
            let machine = body(&format!("mov.u32u32 r3.x, 1; {barrier}; {behind}"));
            fires("IR3-BARRIER-SYNC").only(&[machine.breaks()]);
        }
    }
    let machine = body("resinfo.b.untyped.1d.u32.1.imm r4.x, 0; nop; mov.u32u32 r3.x, 1")
        .with(image(pixels()));
    fires("IR3-RESINFO-SYNC").only(&[machine.breaks()]);
    let machine = body(
        "shps #6; mov.u32u32 r52.x, 7; (ss)(rpt5)nop; stc.u32 c[40], r52.x, 1; mov.u32u32 r3.x, c10.x; (ss)shpe",
    );
    fires("IR3-CONST-SYNC").only(&[machine.breaks()]);
}

/// Rules of control flow.
#[test]
fn control_flow_that_loses_fibers() {
    let diverges = "mov.u32u32 r3.x, 1; cmps.u.lt p0.x, r0.x, 4; (rpt5)nop";
    let machine = body(&format!("{diverges}; br p0.x, #2; nop; nop"));
    fires("IR3-JP-MISSING").only(&[machine.breaks()]);
    let machine = body(&format!(
        "{diverges}; br p0.x, #3; nop; jump #2; (jp)nop; nop"
    ));
    fires("IR3-JP-MISSING").only(&[machine.breaks()]);
    let machine = body(&format!("{diverges}; br p0.x, #2; nop; (jp)nop"))
        .with(|launch| launch.branch_stack = 0);
    fires("IR3-BRANCH-STACK").only(&[machine.breaks()]);
    let machine = body(&format!(
        "{diverges}; br p0.x, #4; (ss)(sy)bar.g; (ss)(sy)nop; nop; (jp)nop"
    ));
    fires("IR3-BARRIER-DIVERGENT").only(&[machine.breaks()]);
    let machine = body(&format!("{diverges}; predt; jump #1; prede"));
    fires("IR3-PREDICATED-FLOW").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, 1; ret");
    fires("IR3-CALL-STACK").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, 1; call #1");
    fires("IR3-CALL-STACK").only(&[machine.breaks()]);
    let machine = body("(sy)shfl.up.u32 r3.x, r2.x, r0.x");
    fires("IR3-UNIFORM").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r3.x, 1; (rpt5)nop; stc.u32 c[40], r3.x, 1");
    fires("IR3-PREAMBLE").only(&[machine.breaks()]);
    let machine = body("shpe");
    fires("IR3-PREAMBLE").only(&[machine.breaks()]);
}

/// Rules of memory and images.
#[test]
fn accesses_outside_of_memory_and_images() {
    let fetch =
        "mov.u32u32 r4.x, 9; mov.u32u32 r4.y, 0; (rpt5)nop; isam.1d (f32)(x)r3.x, r4.x, s#0, t#0";
    let isam = || body(fetch).with(image(pixels()));
    let stored = |store: &str| body(&format!("{STORE}; {store}; mov.u32u32 r3.x, 1"));
    let sampler = |wrap: Wrap| {
        let sampler = Sampler {
            wrap: [wrap; 3],
            ..Sampler::PIXELS
        };
        sampler.encode().unwrap()
    };
    let ubo = |launch: &mut twin_ir3::Launch| {
        launch.descriptors.ubos = vec![Some([IN as u32, (IN >> 32) as u32 | 2 << 17])];
    };
    let machine = body("mov.u32u32 r4.x, 0x10000; (rpt5)nop; ldl.u32 r3.x, l[r4.x], 1");
    fires("IR3-LOCAL-RANGE").only(&[machine.breaks()]);
    let machine =
        body("mov.u32u32 r4.x, 0; (rpt5)nop; stl.u32 l[r4.x], r4.x, 1; mov.u32u32 r3.x, 1")
            .input(&[0; 256])
            .with(|launch| {
                launch.local_size = [256, 1, 1];
                launch.global_size = [256, 1, 1];
            });
    fires("IR3-LOCAL-RACE").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r4.x, 0; (rpt5)nop; ldp.u32 r3.x, p[r4.x], 1");
    fires("IR3-PRIVATE-RANGE").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r4.x, 2; (rpt5)nop; ldl.u32 r3.x, l[r4.x], 1");
    fires("IR3-ALIGN").only(&[machine.breaks()]);
    let machine =
        body("add.u r1.x, r1.x, 2; (rpt5)nop; atomic.g.add.untyped.1d.u32.1.g r3.x, r1.x, r0.x");
    fires("IR3-ALIGN").only(&[machine.breaks()]);
    let machine = body("ldg.u32 r3.x, g[r1.x], 5");
    fires("IR3-COUNT").only(&[machine.breaks()]);
    let machine = body(fetch);
    fires("IR3-DESCRIPTOR").only(&[machine.breaks()]);
    let machine = stored("stib.b.untyped.1d.u32.1.imm r5.x, r4.x, 0").with(image(pixels()));
    fires("IR3-DESCRIPTOR").only(&[machine.breaks()]);
    let machine = body(fetch).with(image(Texture {
        srgb: true,
        ..pixels()
    }));
    fires("IR3-IMAGE-KIND").only(&[machine.breaks()]);
    let machine = stored("stib.b.typed.2d.u32.4.imm r5.x, r4.x, 0").with(image(pixels()));
    fires("IR3-IMAGE-TYPE").only(&[machine.breaks()]);
    let machine = stored("stib.b.typed.2d.f32.2.imm r5.x, r4.x, 0").with(image(pixels()));
    fires("IR3-IMAGE-TYPE").only(&[machine.breaks()]);
    let machine =
        isam().with(|launch| launch.descriptors.samplers = vec![Some(sampler(Wrap::Repeat))]);
    fires("IR3-ISAM-OUTSIDE").only(&[machine.breaks()]);
    let machine = body("mov.u32u32 r4.x, 2; (rpt5)nop; ldc.offset0.1.imm r3.x, r4.x, 0").with(ubo);
    fires("IR3-UBO-RANGE").only(&[machine.breaks()]);
    let machine = body("mov.f32f32 r4.x, (4.0); (rpt5)nop; sin r3.x, r4.x");
    fires("IR3-SIN-RANGE").only(&[machine.breaks()]);
}

#[test]
fn rules_have_names_of_their_own() {
    let names: BTreeSet<_> = rules::ALL.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), rules::ALL.len());
    assert!(
        rules::ALL
            .iter()
            .all(|rule| rule.name.starts_with("IR3-") && !rule.source.is_empty())
    );
}

/// The same programs with what was missing.
#[test]
fn programs_that_wait_break_no_rule() {
    let good = [
        "add.u r4.x, r2.x, 1; (rpt2)nop; add.u r3.x, r4.x, 1",
        "(nop3) add.u r4.x, r2.x, 1; add.u r3.x, r4.x, 1",
        "add.u r4.x, r2.x, 1; nop; mad.u24 r3.x, r2.x, r2.x, r4.x",
        "add.u r4.x, r2.x, 1; (rpt5)nop; rcp r3.x, r4.x",
        "mov.u32u32 r3.x, 1; cmps.u.lt p0.x, r2.x, 4; (rpt5)nop; br p0.x, #1; nop",
        "rcp r4.x, r2.x; (ss)add.f r3.x, r4.x, r2.x",
        "ldg.u32 r4.x, g[r1.x], 1; (sy)mov.u32u32 r3.x, r4.x",
        "stg.u32 g[r1.z+1024], r2.x, 1; (ss)mov.u32u32 r2.x, 7; mov.u32u32 r3.x, 1",
        // A load whose result was collected has read its address.
        "ldg.u32 r4.x, g[r1.x], 1; (sy)mov.u32u32 r1.x, 5; mov.u32u32 r3.x, 1",
        "mov.u32u32 r3.x, 1; (ss)(sy)bar.g; (ss)(sy)nop",
        // Nops carry what other instructions have no bits for, and fill slots.
        "mov.u32u32 r3.x, 1; (ss)(sy)bar.g; (ss)nop; (sy)nop",
        "mov.u32u32 r3.x, 1; fence.r.w; (ss)nop; (sy)bar.g; (ss)(rpt2)nop; (sy)mov.u32u32 r3.x, 2",
        "fence.r.w; (ss)nop; (sy)ldg.u32 r3.x, g[r1.x], 1",
        "(ss)(sy)bar.g; (rpt5)nop; (ss)(sy)mov.u32u32 r3.x, 2",
        // What begins a block need not have the waits: of a loop, and behind a condition.
        "(ss)(sy)bar.g; mov.u32u32 r3.x, 2; cmps.u.lt p0.x, r0.x, 0; (rpt5)nop; br p0.x, #-3",
        "cmps.u.lt p0.x, r0.x, 0; (rpt5)nop; br p0.x, #2; fence.r.w; (ss)mov.u32u32 r3.x, 2",
        // Results that were waited for need no slots.
        "rcp r4.x, r2.x; (ss)rcp r3.x, r4.x",
        // Nor does what arithmetic wrote before to a register of the other size that aliases it.
        "add.u r3.x, r2.x, 1; ldg.u16 hr6.x, g[r1.x], 1; (sy)rcp r4.x, r3.x",
        "cov.u32u16 hr6.y, r2.x; ldg.u32 r3.x, g[r1.x], 1; (sy)hrsq hr7.x, hr6.y",
        // Other fibers' writes are no hazard: each side of a condition has its own.
        "mov.u32u32 r3.x, 1; cmps.u.lt p0.x, r0.x, 4; (rpt5)nop; br p0.x, #3; ldg.u32 r4.x, g[r1.x], 1; jump #2
         (jp)mov.u32u32 r4.x, 1; (jp)(sy)nop",
    ];
    for text in good {
        body(text)
            .run()
            .unwrap_or_else(|broken| panic!("{text}: {broken}"));
    }
    // `end` is a block of its own, though no branch leads to it.
    for barrier in ["(ss)(sy)bar.g", "fence.r.w"] {
        program(barrier)
            .run()
            .unwrap_or_else(|broken| panic!("{barrier}: {broken}"));
    }
    let merged = "cov.u32u16 hr6.y, r2.x; ldg.u16 hr6.x, g[r1.x], 1; (sy)mov.u32u32 r4.x, r3.x";
    body(merged)
        .with(|launch| launch.merged_registers = true)
        .run()
        .unwrap_or_else(|broken| panic!("{merged}: {broken}"));
}

#[test]
fn refused_accesses_name_the_address_and_the_path() {
    let text = "mov.u32u32 r4.x, 0; mov.u32u32 r4.y, 5; (rpt5)nop; ldg.u32 r3.x, g[r4.x+16], 1";
    let broken = body(text).run().unwrap_err().to_string();
    assert!(
        broken.contains("reads 4 bytes at 0x500000010 through UCHE: no page is mapped"),
        "{broken}"
    );
    let mut machine = body("mov.u32u32 r3.x, 1");
    machine.ram.protect(OUT);
    let broken = machine.run().unwrap_err().to_string();
    assert!(broken.contains("read-only"), "{broken}");
    let mut machine = body("mov.u32u32 r3.x, 1").with(|launch| launch.program = CODE + (1 << 20));
    let broken = machine.run().unwrap_err().to_string();
    assert!(broken.contains("the instruction cache"), "{broken}");
}

#[test]
fn a_report_names_the_word_and_the_fiber() {
    let broken = body("mov.u32u32 r3.x, r4.x").run().unwrap_err();
    assert_eq!(
        (broken.name, broken.fiber, broken.wave),
        ("mov", Some(0), 0)
    );
    let text = broken.to_string();
    assert!(
        text.contains("rule IR3-REG-UNDEFINED")
            && text.contains("r4.x is read and was never written"),
        "{text}"
    );
}

#[test]
fn endless_loops_end() {
    let broken = program("nop; jump #-1").run().unwrap_err().to_string();
    assert!(broken.contains("did not end within"), "{broken}");
}

/// Waves of double size make groups of up to 2048 fibers.
#[test]
fn groups_have_up_to_sixteen_waves() {
    let large = |size| {
        program("nop").with(move |launch| {
            launch.local_size = [1024, 2, 1];
            launch.global_size = [1024, 2, 1];
            launch.thread_size = size;
            (launch.full_footprint, launch.half_footprint) = (4, 0);
        })
    };
    let machine = large(ThreadSize::Thread64);
    fires("IR3-LAUNCH-OCCUPANCY").only(&[machine.breaks()]);
    large(ThreadSize::Thread128)
        .run()
        .unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn waves_that_end_free_a_barrier() {
    // The first wave ends before the barrier: the others pass it.
    let text = "mov.u32u32 r3.x, 1; cmps.u.lt p0.x, r0.x, 64; (rpt5)nop; br p0.x, #3; (ss)(sy)bar.g; (ss)(sy)nop; nop";
    let mut machine = body(text).input(&[0; 256]).with(|launch| {
        launch.local_size = [256, 1, 1];
        launch.global_size = [256, 1, 1];
    });
    machine.run().unwrap_or_else(|broken| panic!("{broken}"));
}
