//! Tensors that go from GPU to GPU of one machine: by a copy of the GPUs where they reach each other, else through
//! the host; the values are the same.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use golden::engines::{self, Rig};
use hcq::DeviceId;
use tensor::exec::{Observer, Options};
use tensor::{DType, Jit, Tensor};

/// Bytes that came from another GPU.
#[derive(Default)]
struct Brought(AtomicU64);

impl Observer for Brought {
    fn brought(&self, _: &DeviceId, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Three GPUs of a machine, and what they bring from each other.
fn three(machine: &str) -> Option<([Rig; 3], Arc<Brought>)> {
    let brought = Arc::new(Brought::default());
    let options = std::array::from_fn(|_| Options {
        observer: Some(brought.clone()),
        ..Options::default()
    });
    match engines::gpus(machine, options) {
        Ok(rigs) => Some((rigs, brought)),
        Err(why @ engines::EngineError::NotFetched { .. }) => {
            println!("skipped: {why:?}");
            None
        }
        Err(why) => panic!("{machine}: {why}"),
    }
}

fn finish(rigs: [Rig; 3], machine: &str) {
    let ended: Vec<_> = rigs.into_iter().map(Rig::finish).collect();
    for end in ended {
        end.unwrap_or_else(|why| panic!("{machine}: {why}"));
    }
}

const COUNT: usize = 3000;

/// A tensor goes around twice, a sum on each GPU; then captured functions hand on what they make, and nobody waits in
/// between: what is made next must not come too early.
fn around(machine: &str) -> Option<u64> {
    let (rigs, brought) = three(machine)?;
    let [a, b, c] = [0, 1, 2].map(|i| rigs[i].engine.clone());
    let mut tensor = Tensor::iota(&a, COUNT, DType::I32).unwrap();
    for engine in [&b, &c, &a, &b, &c, &a] {
        tensor = tensor.to(engine).unwrap().add(1).unwrap();
    }
    let want: Vec<i32> = (0..COUNT as i32).map(|n| n + 6).collect();
    assert_eq!(tensor.to_vec::<i32>().unwrap(), want, "{machine}");
    let step = |by: i64| move |x: &[Tensor]| Ok(vec![x[0].mul(3)?.add(by)?]);
    let first = Jit::new(&a, step(1));
    let second = Jit::new(&b, step(2));
    let mut sum = Tensor::full(&c, &[COUNT], 0, DType::I32).unwrap();
    for i in 0..6 {
        let x = Tensor::iota(&a, COUNT, DType::I32).unwrap().add(i).unwrap();
        let x = first.call(&[x]).unwrap().remove(0);
        let x = second.call(&[x.to(&b).unwrap()]).unwrap().remove(0);
        sum = sum.add(x.to(&c).unwrap()).unwrap();
        sum.realize().unwrap();
    }
    assert_eq!((first.captures(), second.captures()), (1, 1), "{machine}");
    let value = |n: i32| (0..6).map(|i| ((n + i) * 3 + 1) * 3 + 2).sum::<i32>();
    let want: Vec<i32> = (0..COUNT as i32).map(value).collect();
    assert_eq!(sum.to_vec::<i32>().unwrap(), want, "{machine}");
    drop((tensor, sum, first, second, a, b, c));
    finish(rigs, machine);
    Some(brought.0.load(Ordering::Relaxed))
}

/// Six copies around, and two of each of six replays.
const ALL: u64 = 18 * COUNT as u64 * 4;

#[test]
fn gpus_copy_from_each_other() {
    for machine in ["sm_90", "sm_86:PTX", "gfx942,xcc=1", "gfx1100"] {
        let brought = around(machine);
        assert!(
            brought.is_none_or(|bytes| bytes == ALL),
            "{machine}: {brought:?}"
        );
    }
}

/// The driver refuses to make peers; memory is mapped without UVM, which peers need.
#[test]
fn what_gpus_do_not_reach_goes_through_the_host() {
    for machine in [
        "sm_90,fault=call:UVM_ENABLE_PEER_ACCESS:NV_ERR_NOT_SUPPORTED:1;call:UVM_ENABLE_PEER_ACCESS:NV_ERR_NOT_SUPPORTED:2;call:UVM_ENABLE_PEER_ACCESS:NV_ERR_NOT_SUPPORTED:3",
        "sm_89:PTX,fault=call:UVM_ENABLE_PEER_ACCESS:NV_ERR_INSUFFICIENT_PERMISSIONS:1;call:UVM_ENABLE_PEER_ACCESS:NV_ERR_NOT_SUPPORTED:2;call:UVM_ENABLE_PEER_ACCESS:NV_ERR_NOT_SUPPORTED:3",
        "sm_90,fault=path:/dev/nvidia-uvm:ENOENT",
    ] {
        let brought = around(machine);
        assert!(
            brought.is_none_or(|bytes| bytes == 0),
            "{machine}: {brought:?}"
        );
    }
}
