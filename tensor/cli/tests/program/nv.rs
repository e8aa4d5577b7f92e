//! NVIDIA GPUs, simulated, mostly through their kernel driver: the program as a person without a card runs it.

use crate::place;

use std::path::Path;

use conformance::part::Part;
use place::{Place, losses, rows, succeed, toolkit};
use tensor::DType;
use tensor::io::npy;
use tensor::onnx::Dim;
use tensor::onnx::write::{self, Writer};

const GH100: (&str, &str) = ("DEV", "TWINNVK+NV::gh100");

#[test]
fn the_doctor_looks_at_a_simulated_machine_too() {
    let place = Place::new();
    let twin = "gpus=2,driver=570,fault=path:/dev/nvidia1:EACCES;path:/dev/nvidia-uvm:ENOENT";
    let env = [GH100, ("TWIN", twin)];
    let found = rows(
        &succeed(&place, &["doctor", "--json"], &env),
        "doorbell.doctor/1",
    );
    let row = |check: &str| {
        let row = found.iter().find(|row| row["check"] == check);
        let text = |field: &str| row.unwrap()[field].as_str().unwrap().to_owned();
        (text("status"), text("detail"), text("fix"))
    };
    assert_eq!(row("twin.nv.nvk").0, "ok");
    assert!(
        row("twin.nv.nvk")
            .1
            .contains("570.211.01 (open module); 1 of 2")
    );
    assert_eq!(row("twin.nv.uvm").0, "warn");
    assert_eq!(row("twin.nv.nvk.0").0, "ok");
    assert!(row("twin.nv.nvk.0").1.contains("H100"));
    assert_eq!(row("twin.nv.nvk.1").0, "fail");
    assert!(row("twin.nv.nvk.1").1.contains("permission denied"));
    // The rows of compilers are there, whatever is installed.
    assert!(["ok", "not present"].contains(&&*row("nv.cuda").0));
    assert!(["ok", "not present"].contains(&&*row("nv.ptx").0));
    assert!(!found.iter().any(|row| row["check"] == "twin.amd.kfd"));
    place.wrote(&[], false);
}

#[test]
fn simulated_devices_are_listed_when_asked_for() {
    let place = Place::new();
    let env = [GH100, ("TWIN", "gpus=2")];
    let text = succeed(&place, &["devices"], &env).out;
    assert!(text.contains("\n* NV:0     TWINNVK  sm_90 "), "{text}");
    assert!(text.contains("| DEV=TWINNVK:1+NV::sm_90\n"), "{text}");
    for (dev, twin, code, text) in [
        ("TWINNVK+NV::h200", "gpus=1", 0, "NVIDIA H200"),
        ("TWINNVK+NV::gb202", "driver=570", 0, "sm_120"),
        // What the machine has comes last.
        (
            "TWINNVK+NV::sm_90",
            "chip=ad102",
            3,
            "GPU 0 is sm_89, expected sm_90",
        ),
        ("TWINNVK+NV::sm_86", "chip=ad102+ga102", 0, "* NV:1"),
    ] {
        let ran = place.run(&["devices"], &[("DEV", dev), ("TWIN", twin)]);
        assert_eq!(ran.code, code, "{dev} {twin}: {}", ran.err);
        assert!((ran.out + &ran.err).contains(text), "{dev} {twin}");
    }
}

/// What cannot be opened has a text that says why, and an exit code by which scripts tell.
#[test]
fn exit_codes_tell_why_a_device_does_not_open() {
    let place = Place::new();
    for (twin, code, texts) in [
        (
            "module=none",
            3,
            &["/dev/nvidiactl does not exist", "modprobe nvidia"][..],
        ),
        (
            "module=nouveau",
            3,
            &["is bound to the kernel driver nouveau"],
        ),
        (
            "fault=path:/dev/nvidiactl:EACCES",
            4,
            &["permission denied"],
        ),
        (
            "fault=path:/dev/nvidia0:EPERM",
            4,
            &["device cgroup", "--device /dev/nvidia0"],
        ),
        ("says=470.256.02", 6, &["470.256.02", "535"]),
        ("mig=7", 6, &["7 MIG partitions", "nvidia-smi -mig 0"]),
        (
            "compute=prohibited",
            4,
            &["in compute mode Prohibited", "nvidia-smi -c DEFAULT"],
        ),
        ("confidential=on", 6, &["confidential computing enabled"]),
        ("compute=taken", 4, &["in use by another program"]),
        ("gpus=0", 3, &["the kernel driver found no GPU"]),
        (
            "fault=path:/dev/nvidia0:EIO",
            7,
            &["is there but did not start", "cannot start the GPU", "Xid"],
        ),
        ("gpu=2", 2, &["'gpu' is no key"]),
        ("gpus=17", 2, &["expected 0 to 16"]),
    ] {
        let ran = place.run(&["bench", "launch"], &[GH100, ("TWIN", twin)]);
        assert_eq!((ran.code, &*ran.out), (code, ""), "{twin}: {}", ran.err);
        for text in texts {
            assert!(
                ran.err.contains(text),
                "{twin}: {text:?} is not in {:?}",
                ran.err
            );
        }
    }
    for (dev, code, text) in [
        ("TWINNVK+NV::sm_75", 2, "expected ga102, ad102, h100"),
        ("TWINNVK:20+NV", 2, "expected 0 to 16"),
        ("USB+NV", 3, "by NVK and PCI only"),
        (
            "NV:FOO",
            2,
            "expected a renderer of NV (CUDA, PTX, LLVM, NAK)",
        ),
        ("CUDA", 3, "DEV=NV works without it"),
        ("TWINNVK:0-1+NV", 3, "2 devices selected"),
    ] {
        let ran = place.run(&["bench", "launch"], &[("DEV", dev)]);
        assert_eq!((ran.code, &*ran.out), (code, ""), "{dev}: {}", ran.err);
        assert!(ran.err.contains(text), "{dev}: {}", ran.err);
    }
    place.wrote(&[], false);
}

/// On one device in a run, which the part chooses: through the kernel driver, or a card that is started by us, with NVIDIA's
/// own firmware.
#[test]
fn the_demonstration_learns_as_on_the_cpu() {
    let Some(toolkit) = toolkit() else { return };
    let part = Part::chosen();
    let firmware =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware/nvidia-graphics");
    let firmware = firmware.display().to_string();
    let devices = [
        (GH100.1, None),
        ("TWINPCI+NV::ad102", Some("before=driver")),
        ("TWINPCI+NV::gh100", Some("before=nobody")),
    ];
    let chosen = devices.iter().enumerate();
    for (_, (dev, card)) in chosen.filter(|(number, _)| part.has(*number, devices.len())) {
        let mut env = vec![("DEV", *dev), ("CUDA_PATH", &*toolkit)];
        if let Some(twin) = card {
            if !Path::new(&firmware).join("nvidia").is_dir() {
                println!("skipped: {firmware}: scripts/fetch firmware fetches it");
                continue;
            }
            env.extend([("HCQDEV_FIRMWARE", &*firmware), ("TWIN", *twin)]);
        }
        let (cpu, gpu) = (losses(&[("DEV", "CPU")]), losses(&env));
        for (a, b) in cpu.iter().zip(&gpu) {
            // Sums in another order, through nine steps of Adam.
            assert!((a - b).abs() < 2e-4 * a, "CPU {cpu:?}, {dev} {gpu:?}");
        }
        assert!(gpu[2] < gpu[0] - 0.05, "{dev} {gpu:?}");
    }
}

/// A product of 64 by 64 matrices on a GPU that is compiled for in some way: what comes out, and all that DEBUG shows.
fn product(dev: &str, more: &[(&str, &str)], toolkit: &str) -> (Vec<f32>, String) {
    multiplied(dev, (DType::F32, [64; 3]), more, toolkit)
}

/// The same of matrices of a type: rows, columns of the first, columns of the second.
fn multiplied(
    dev: &str,
    (dtype, [m, k, n]): (DType, [usize; 3]),
    more: &[(&str, &str)],
    toolkit: &str,
) -> (Vec<f32>, String) {
    let place = Place::new();
    let matrix = |m, n, dtype| write::tensor(dtype, &[Dim::Fixed(m), Dim::Fixed(n)]);
    let mut writer = Writer::new("product", 17);
    writer.input("a", &matrix(m, k, dtype));
    writer.input("b", &matrix(k, n, dtype));
    writer.node("MatMul", &["a", "b"], &["p"], []);
    // 1 is FLOAT.
    writer.node("Cast", &["p"], &["c"], [write::int("to", 1)]);
    writer.output("c", &matrix(m, n, DType::F32));
    std::fs::write(place.path("work").join("m.onnx"), writer.finish()).unwrap();
    let args = [
        "run", "m.onnx", "--input", "a=rand:1", "--input", "b=rand:2", "--output", "out",
    ];
    let mut env = vec![("DEV", dev), ("CUDA_PATH", toolkit), ("DEBUG", "7")];
    env.extend(more);
    let ran = succeed(&place, &args, &env);
    let c = npy::read(place.path("work").join("out/c.npy")).unwrap();
    let numbers = c.data.chunks_exact(4);
    let numbers = numbers.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    (numbers.collect(), ran.err)
}

/// Every way from kernels to machine code, and products by tensor cores where they are asked for: then the operands
/// are rounded to ten bits behind the point.
#[test]
fn singles_are_multiplied_by_tensor_cores_on_request_alone() {
    let Some(toolkit) = toolkit() else { return };
    let (exact, _) = product("CPU", &[], &toolkit);
    for (dev, source) in [
        ("TWINNVK+NV:CUDA:sm_90", "__global__"),
        ("TWINNVK+NV:PTX:sm_86", ".visible .entry"),
        #[cfg(feature = "llvm")]
        ("TWINNVK+NV:LLVM:sm_89", "ptx_kernel"),
    ] {
        let near = |found: &[f32], by: f32| {
            let off = exact
                .iter()
                .zip(found)
                .map(|(a, b)| (a - b).abs() / a.abs().max(1.0));
            off.fold(0.0, f32::max) < by
        };
        let (plain, text) = product(dev, &[], &toolkit);
        assert!(text.contains(source), "{dev}: {text}");
        assert!(near(&plain, 1e-5) && !text.contains("HMMA"), "{dev}");
        let (rounded, text) = product(dev, &[("ALLOW_TF32", "1")], &toolkit);
        assert!(text.contains("HMMA.1688.F32.TF32"), "{dev}: {text}");
        assert!(near(&rounded, 1e-3) && !near(&rounded, 1e-7), "{dev}");
    }
}

/// Large products of halves on Hopper read their operands in shared memory, where boxes of tensors are copied; with
/// `NV_WGMMA=0` they are made as on Ampere, of the same numbers.
#[test]
fn large_products_on_hopper_are_made_by_warpgroups_unless_these_are_doubted() {
    let Some(toolkit) = toolkit() else { return };
    let shape = (DType::F16, [512, 512, 1024]);
    let dev = "TWINNVK+NV:PTX:sm_90";
    let (large, text) = multiplied(dev, shape, &[], &toolkit);
    for name in ["HGMMA", "UTMALDG"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let (small, text) = multiplied(dev, shape, &[("NV_WGMMA", "0")], &toolkit);
    assert!(text.contains("HMMA") && !text.contains("HGMMA") && !text.contains("UTMALDG"));
    assert_eq!(large.len(), small.len());
    for (a, b) in large.iter().zip(&small) {
        assert!((a - b).abs() <= a.abs() * 2e-3 + 1e-3, "{a} {b}");
    }
}

/// A way that this program has not, and one whose compiler is not there, say what to do.
#[test]
fn compilers_that_are_not_there_are_named() {
    let place = Place::new();
    for (dev, texts) in [
        ("TWINNVK+NV::sm_90", &["nvidia-cuda-nvrtc", "CUDA_PATH"][..]),
        ("TWINNVK+NV:PTX:sm_90", &["nvidia-nvjitlink", "CUDA_PATH"]),
        #[cfg(feature = "llvm")]
        ("TWINNVK+NV:LLVM:sm_90", &["nvidia-nvjitlink", "CUDA_PATH"]),
        // Qualcomm's is on boards alone.
        #[cfg(not(target_arch = "aarch64"))]
        (
            "TWINKGSL+QCOM:CL:a630",
            &["Qualcomm's libOpenCL, which is for aarch64", "QCOM:IR3"],
        ),
    ] {
        // Nothing of NVIDIA is found where nothing is looked for.
        let env = [
            ("DEV", dev),
            ("CUDA_PATH", "/nowhere"),
            ("PATH", "/nowhere"),
        ];
        let ran = place.run(&["bench", "gemm"], &env);
        assert_ne!(ran.code, 0, "{dev}");
        for text in texts {
            assert!(
                ran.err.contains(text),
                "{dev}: {text:?} is not in {}",
                ran.err
            );
        }
    }
}
