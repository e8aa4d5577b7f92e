//! Tensors that go from device to device in one process, and keep their bits on each.
use golden::engines::{self, Rig};
use tensor::exec::Options;
use tensor::{DType, Engine, Jit, Tensor};

/// Small integers of a type.
fn count(engine: &Engine, dtype: DType) -> Tensor {
    let numbers = Tensor::iota(engine, 60, DType::I32).unwrap();
    let numbers = numbers.fmod(7).unwrap().cast(dtype).unwrap();
    numbers.reshape(&[5, 12]).unwrap().contiguous().unwrap()
}

/// The CPU, and GPUs on machines of their own.
fn rigs() -> Vec<Rig> {
    let gpus = ["sm_90", "sm_86:PTX", "gfx1100", "sm_120:PTX"];
    let gpus = gpus.map(|gpu| Rig::of_test(engines::gpu(gpu, Options::default())));
    let cpu = engines::cpu().unwrap();
    std::iter::once(cpu)
        .chain(gpus.into_iter().flatten())
        .collect()
}

#[test]
fn a_tensor_goes_around() {
    let rigs = rigs();
    let host = Engine::reference();
    let first = &rigs[0].engine;
    for dtype in [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::F8E4M3,
        DType::I64,
        DType::U8,
    ] {
        let want = count(&host, dtype).add(2).unwrap().to_bytes().unwrap();
        let start = count(first, dtype);
        let mut tensor = start.clone();
        // There and back, a sum on each.
        for rig in rigs.iter().chain(rigs.iter().rev()) {
            tensor = tensor.to(&rig.engine).unwrap();
            tensor = tensor.add(start.to(&rig.engine).unwrap()).unwrap();
            tensor = tensor.sub(start.to(&rig.engine).unwrap()).unwrap();
        }
        let tensor = tensor.add(2).unwrap();
        assert_eq!(tensor.to_bytes().unwrap(), want, "{dtype:?}");
    }
    for rig in rigs {
        rig.finish().unwrap();
    }
}

/// What one device captures takes what another has just made.
#[test]
fn a_captured_function_takes_what_another_device_makes() {
    let rigs = rigs();
    for pair in rigs.windows(2) {
        let (from, to) = (&pair[0].engine, &pair[1].engine);
        let twice = Jit::new(to, |x: &[Tensor]| Ok(vec![x[0].mul(2)?]));
        for i in 0..4 {
            let made = count(from, DType::I32).add(i).unwrap();
            let found = twice.call(&[made.to(to).unwrap()]).unwrap();
            let found: Vec<i32> = found[0].to(from).unwrap().to_vec().unwrap();
            let want: Vec<i32> = (0..60).map(|n| (n % 7 + i) * 2).collect();
            assert_eq!(found, want);
        }
        assert_eq!(twice.captures(), 1);
    }
    for rig in rigs {
        rig.finish().unwrap();
    }
}
