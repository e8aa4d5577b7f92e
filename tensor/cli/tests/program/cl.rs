//! A device behind a vendor's OpenCL: PoCL of Debian 12 on this processor, as a person runs the program on it.

use crate::place;

use conformance::pocl;
use place::{Place, succeed};
use tensor::DType;
use tensor::io::npy;
use tensor::onnx::Dim;
use tensor::onnx::write::{self, Writer};

/// What a program needs to find PoCL, and more.
fn env<'a>(
    pocl: &'a [(&'static str, String)],
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let pocl = pocl.iter().map(|(name, value)| (*name, &**value));
    pocl.chain(more.iter().copied()).collect()
}

/// What a model makes of random inputs.
fn outputs(place: &Place, env: &[(&str, &str)]) -> Vec<f32> {
    let matrix = write::tensor(DType::F32, &[Dim::Fixed(48), Dim::Fixed(48)]);
    let mut writer = Writer::new("model", 17);
    writer.input("a", &matrix);
    writer.input("b", &matrix);
    writer.node("MatMul", &["a", "b"], &["p"], []);
    writer.node("Sigmoid", &["p"], &["c"], []);
    writer.output("c", &matrix);
    std::fs::write(place.path("work").join("m.onnx"), writer.finish()).unwrap();
    let args = [
        "run", "m.onnx", "--input", "a=rand:1", "--input", "b=rand:2", "--output", "out",
    ];
    succeed(place, &args, env);
    let c = npy::read(place.path("work").join("out/c.npy")).unwrap();
    let numbers = c.data.chunks_exact(4);
    numbers
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect()
}

#[test]
fn a_model_runs_on_opencl_as_on_the_cpu_and_what_was_built_is_kept() {
    let Some(pocl) = pocl::environment() else {
        return;
    };
    let cpu = outputs(&Place::new(), &[("DEV", "CPU")]);
    let place = Place::new();
    let cl = outputs(&place, &env(&pocl, &[("DEV", "CL")]));
    let off = cpu.iter().zip(&cl).map(|(a, b)| (a - b).abs());
    assert!(cpu.len() == 48 * 48 && cl.len() == cpu.len());
    assert!(off.fold(0.0, f32::max) < 1e-5, "CPU {cpu:?}, OpenCL {cl:?}");
    place.wrote(&["m.onnx", "out/c.npy"], true);
    let built = place.files("cache/doorbell/opencl");
    assert!(!built.is_empty());
    assert_eq!(outputs(&place, &env(&pocl, &[("DEV", "CL")])), cl);
    assert_eq!(place.files("cache/doorbell/opencl"), built);
}

#[test]
fn devices_of_opencl_are_listed_and_asked_for_by_name() {
    let Some(pocl) = pocl::environment() else {
        return;
    };
    let place = Place::new();
    let run = |dev: &str| place.run(&["devices"], &env(&pocl, &[("DEV", dev)]));
    let listed = run("CL");
    assert_eq!(listed.code, 0, "{}", listed.err);
    let row = listed.out.lines().find(|line| line.contains("CL:0"));
    let row = row.unwrap_or_else(|| panic!("no row of OpenCL: {}", listed.out));
    for part in ["OPENCL", "pthread", "DEV=CL:0"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert_eq!(run("CL::pthread").code, 0);
    for (dev, said) in [
        ("CL::arc", "found by OpenCL: device 0 is pthread"),
        ("CL:7", "found by OpenCL: device 0 is pthread"),
    ] {
        let refused = run(dev);
        assert_eq!(refused.code, 3, "{dev}: {}", refused.err);
        assert!(refused.err.contains(said), "{dev}: {}", refused.err);
    }
    // It is never chosen unasked.
    let text = succeed(&place, &["devices"], &env(&pocl, &[])).out;
    assert!(text.contains("* CPU"), "{text}");
}
