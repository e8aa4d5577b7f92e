//! Memory of others under ordinary code: kernels of every kind, any strides, training, loops, threads.
use crate::shared::{Memory, floats};
use crate::support;

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hcq::Import;
use hcq::mem::view::View;
use support::engine;
use tensor::nn::{Optimizer, Sgd};
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model};
use tensor::ops::conv::ConvParams;
use tensor::ops::movement::Slice;
use tensor::{
    Access, DType, Engine, Frozen, Jit, Layout, Order, Parameter, Result, Tensor, gradients,
    on_release, recur,
};

const PAGE: usize = 4096;

/// Pages between two that nobody may touch.
struct Fenced {
    map: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: it only unmaps; the pages are used by views.
unsafe impl Send for Fenced {}
// SAFETY: as above.
unsafe impl Sync for Fenced {}

impl Fenced {
    /// Memory with these bytes, which begins or ends at a fence.
    fn view(content: &[u8], at_the_end: bool) -> View {
        let inner = content.len().next_multiple_of(PAGE);
        let bytes = inner + 2 * PAGE;
        let (kind, whole) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_NONE);
        // SAFETY: new pages, at an address that the kernel chooses.
        let map = unsafe { libc::mmap(null_mut(), bytes, whole, kind, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED);
        let owner = Arc::new(Fenced { map, bytes });
        let first = map.cast::<u8>().wrapping_add(PAGE);
        let both = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages between the first and the last of the mapping.
        assert_eq!(unsafe { libc::mprotect(first.cast(), inner, both) }, 0);
        let start = match at_the_end {
            true => first.wrapping_add(inner - content.len()),
            false => first,
        };
        // SAFETY: mapped for both while the owner lives, and no reference exists.
        let view = unsafe { View::new(NonNull::new(start).unwrap(), content.len(), owner) };
        view.copy_from_slice(0, content).unwrap();
        view
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping of `view`, which nothing uses any more.
        unsafe { libc::munmap(self.map, self.bytes) };
    }
}

/// Whole numbers from -4 to 4: sums and products of them are exact, in any order.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ((state >> 33) % 9) as f32 - 4.0
    };
    (0..len).map(next).collect()
}

/// A tensor of such numbers.
fn made(e: &Engine, shape: &[usize], dtype: DType, seed: u64) -> Tensor {
    let values = numbers(shape.iter().product(), seed);
    let made = Tensor::from_slice(e, &values, shape).unwrap();
    made.cast(dtype).unwrap()
}

/// The same tensor between fences.
fn fenced(of: &Tensor, at_the_end: bool) -> Tensor {
    let view = Fenced::view(&of.to_bytes().unwrap(), at_the_end);
    let layout = Layout::new(of.shape(), of.dtype());
    Tensor::from_import(of.engine(), &Import::Host(view), &layout, Access::ReadOnly).unwrap()
}

type Function = fn(&[Tensor]) -> Result<Tensor>;

/// A function gives the same over memory at a fence, as inputs and as constants.
fn stays_inside(e: &Engine, shapes: &[&[usize]], dtype: DType, function: Function) {
    let own: Vec<Tensor> = (shapes.iter().zip(1..))
        .map(|(shape, seed)| made(e, shape, dtype, seed))
        .collect();
    let wanted = function(&own).unwrap().to_bytes().unwrap();
    for at_the_end in [false, true] {
        let lent: Vec<Tensor> = own.iter().map(|t| fenced(t, at_the_end)).collect();
        let found = function(&lent).unwrap().to_bytes().unwrap();
        assert!(found == wanted, "{shapes:?} {dtype} {at_the_end}");
        let signature = [(own[0].shape().to_vec(), dtype)];
        let first = std::slice::from_ref(&lent[0]);
        let frozen = Frozen::capture(e, &signature, |x| {
            Ok(vec![function(&[x, &lent[1..]].concat())?])
        });
        let found = frozen.unwrap().call(first).unwrap().remove(0);
        assert!(
            found.to_bytes().unwrap() == wanted,
            "frozen: {shapes:?} {dtype} {at_the_end}"
        );
    }
}

#[test]
fn products_touch_nothing_beside_the_memory() {
    let e = engine();
    let product: Function = |x| x[0].matmul(&x[1]);
    let products: [(&[usize], &[usize]); 5] = [
        (&[37, 53], &[53, 29]),
        (&[64, 256], &[256, 256]),
        (&[1, 301], &[301, 67]),
        (&[301, 67], &[67, 1]),
        (&[3, 17, 33], &[3, 33, 19]),
    ];
    for (a, b) in products {
        stays_inside(&e, &[a, b], DType::F32, product);
    }
    for dtype in [DType::F16, DType::BF16, DType::F64, DType::I32, DType::I8] {
        stays_inside(&e, &[&[33, 71], &[71, 35]], dtype, product);
    }
    stays_inside(&e, &[&[35, 71], &[33, 71]], DType::F32, |x| {
        x[0].matmul(&x[1].t()?)
    });
    stays_inside(&e, &[&[2, 3, 11, 13], &[5, 3, 3, 3]], DType::F32, |x| {
        let sliding = ConvParams::strided(1, 2).padded(1, 2);
        x[0].conv(&x[1], None, &sliding, 1)
    });
}

#[test]
fn other_kernels_touch_nothing_beside_the_memory() {
    let e = engine();
    for dtype in [DType::F32, DType::F16, DType::I8, DType::F64] {
        stays_inside(&e, &[&[1003], &[1003]], dtype, |x| x[0].mul(&x[1])?.add(1));
        stays_inside(&e, &[&[37, 53]], dtype, |x| x[0].sum(&[1], false));
        stays_inside(&e, &[&[37, 53]], dtype, |x| x[0].max(&[0], false));
    }
    stays_inside(&e, &[&[37, 53]], DType::F32, |x| x[0].t()?.add(1));
    stays_inside(&e, &[&[37, 53]], DType::F32, |x| {
        x[0].sub(&x[0].max(&[1], true)?)
    });
    stays_inside(&e, &[&[37, 53]], DType::F32, |x| x[0].cumsum(1));
    for function in [
        (|x| taken(x, 2)) as Function,
        |x| taken(x, 3),
        |x| taken(x, -4),
        |x| taken(x, 7),
    ] {
        stays_inside(&e, &[&[37, 53]], DType::F32, function);
    }
    stays_inside(&e, &[&[37, 53], &[37, 53]], DType::Bool, |x| {
        x[0].where_(&x[1].cast(DType::I32)?, -7)
    });
    stays_inside(&e, &[&[37, 53], &[19, 53]], DType::I32, |x| {
        x[0].gather(0, &x[1].abs()?)
    });
    stays_inside(&e, &[&[41]], DType::F32, |x| Ok(x[0].sort(0, false)?.0));
}

/// Every so many elements of the last axis.
fn taken(x: &[Tensor], step: isize) -> Result<Tensor> {
    let last = Slice { step, ..Slice::ALL };
    x[0].slice(&[Slice::ALL, last])?.mul(2)
}

/// What a host finds by strides, from an element on.
fn walked(data: &[f32], shape: &[usize], strides: &[isize], first: usize) -> Vec<f32> {
    let element = |n: usize| {
        let (mut left, mut at) = (n, first as isize);
        for (&len, &stride) in shape.iter().zip(strides).rev() {
            at += (left % len) as isize * stride;
            left /= len;
        }
        data[at as usize]
    };
    (0..shape.iter().product()).map(element).collect()
}

#[test]
fn any_strides_show_what_the_host_finds_by_them() -> Result<()> {
    let e = engine();
    let mut state = 7u64;
    let mut below = move |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % n
    };
    for _ in 0..24 {
        let rank = below(5) as usize;
        let shape: Vec<usize> = (0..rank).map(|_| 1 + below(5) as usize).collect();
        let strides: Vec<isize> = (0..rank).map(|_| below(19) as isize - 9).collect();
        let reach = shape.iter().zip(&strides);
        let reach: Vec<isize> = reach.map(|(&n, &by)| (n as isize - 1) * by).collect();
        let first = -reach.iter().filter(|r| **r < 0).sum::<isize>() as usize + below(3) as usize;
        let last = first + reach.iter().filter(|r| **r > 0).sum::<isize>() as usize;
        let what = format!("{shape:?} {strides:?} from {first}");
        let data = numbers(last + 1, last as u64);
        let memory = Memory::of(&data);
        let layout = Layout::new(&shape, DType::F32)
            .strides(&strides)
            .offset(4 * first);
        let x = memory.tensor(&e, &layout, Access::ReadOnly)?;
        let want = walked(&data, &shape, &strides, first);
        let more: Vec<f32> = want.iter().map(|v| 3.0 * v + 1.0).collect();
        assert_eq!(floats(&x.mul(3)?.add(1)?), more, "{what}");
        assert_eq!(
            floats(&x.sum(&[], false)?),
            [want.iter().sum::<f32>()],
            "{what}"
        );
        assert_eq!(floats(&x), want, "{what}");
    }
    Ok(())
}

#[test]
fn a_view_is_a_look_until_it_is_computed() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[0.0; 6]);
    let layout = Layout::new(&[3, 2], DType::F32).strides(&[1, 3]);
    let x = memory.tensor(&e, &layout, Access::ReadOnly)?;
    let kept = x.clone();
    let of_all = Jit::new(&e, move |_: &[Tensor]| Ok(vec![kept.add(1)?]));
    let held = x.clone();
    let frozen = Frozen::capture(&e, &[(vec![2], DType::F32)], |y| Ok(vec![held.add(&y[0])?]))?;
    let one = Tensor::ones(&e, &[2], DType::F32)?;
    for i in 0..4 {
        let i = i as f32;
        memory.set(&[i, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let want = [i + 1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
        assert_eq!(floats(&x.add(1)?), want);
        assert_eq!(floats(&of_all.call(&[])?[0]), want);
        assert_eq!(floats(&frozen.call(std::slice::from_ref(&one))?[0]), want);
    }
    assert_eq!(of_all.captures(), 1);
    // It is read: from now on it is what was found.
    assert_eq!(floats(&x), [3.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    memory.set(&[9.0; 6]);
    assert_eq!(floats(&x.add(1)?), [4.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    // The capture has its own.
    assert_eq!(floats(&of_all.call(&[])?[0]), [10.0; 6]);
    // A gradient reads the memory again.
    let row = memory.row(&e);
    let loss = row.square()?.sum(&[], false)?;
    assert_eq!(floats(&loss), [486.0]);
    memory.set(&[1.0; 6]);
    assert_eq!(floats(&gradients(&loss, &[&row])?[0]), [2.0; 6]);
    assert_eq!(floats(&loss), [486.0]);
    Ok(())
}

#[test]
fn training_over_lent_weights_is_training_over_own_ones() -> Result<()> {
    let e = engine();
    let weights: Vec<f32> = numbers(12, 5).iter().map(|w| w / 8.0).collect();
    let memory = Memory::of(&weights);
    let layout = Layout::new(&[4, 3], DType::F32);
    let lent = memory.tensor(&e, &layout, Access::ReadWrite)?;
    let own = Tensor::from_slice(&e, &weights, &[4, 3])?;
    let inputs = Memory::of(&numbers(8, 6));
    let x = inputs.tensor(&e, &Layout::new(&[2, 4], DType::F32), Access::ReadOnly)?;
    let target = Tensor::ones(&e, &[2, 3], DType::F32)?;
    let mut found = Vec::new();
    for w in [lent, own] {
        let w = Parameter::new(w);
        let state = w.clone();
        let mut sgd = Sgd::new(vec![w.clone()], 0.01, 0.9, false, 0.0)?;
        let (data, target) = (x.clone(), target.clone());
        let step = Jit::new(&e, move |_: &[Tensor]| {
            let off = data.matmul(&state.get())?.sub(&target)?;
            let loss = off.square()?.mean(&[], false)?;
            sgd.minimize(&loss)?;
            Ok(vec![loss])
        });
        let mut losses = Vec::new();
        for i in 0..6 {
            inputs.set(&numbers(8, 6 + i % 2));
            losses.extend(floats(&step.call(&[])?[0]));
        }
        found.push((losses, floats(&w.get())));
        e.synchronize()?;
    }
    assert_eq!(found[0], found[1]);
    assert_ne!(found[0].0[0], found[0].0[5]);
    assert_eq!(memory.values(), weights);
    Ok(())
}

#[test]
fn a_parameter_is_set_to_values_in_all_calls_of_a_captured_function() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[0.0; 2]);
    let x = memory.row(&e);
    let p = Parameter::buffer(Tensor::zeros(&e, &[2], DType::F32)?);
    let state = p.clone();
    let set = Jit::new(&e, move |_: &[Tensor]| {
        state.set(x.clone())?;
        Ok(vec![])
    });
    for i in 0..4 {
        memory.set(&[i as f32; 2]);
        set.call(&[])?;
        e.synchronize()?;
        memory.set(&[-1.0; 2]);
        assert_eq!(floats(&p.get()), [i as f32; 2], "{i}");
    }
    Ok(())
}

#[test]
fn loops_and_tables_in_memory_of_others_are_read_at_each_call() -> Result<()> {
    let e = engine();
    let (weights, table) = (Memory::of(&numbers(64, 1)), Memory::of(&numbers(40, 2)));
    let w = weights.tensor(&e, &Layout::new(&[8, 8], DType::F32), Access::ReadOnly)?;
    let rows = table.tensor(&e, &Layout::new(&[5, 8], DType::F32), Access::ReadOnly)?;
    let model = |at: &Tensor, w: &Tensor, rows: &Tensor| -> Result<Vec<Tensor>> {
        let x = rows.index_select(0, at)?;
        let first = Tensor::zeros(&e, &[1, 8], DType::F32)?;
        let made = recur(3, Order::Forward, &[&first], &[&x], |s, x| {
            let next = s[0].matmul(w)?.mul(0.125)?.add(&x[0])?;
            Ok::<_, tensor::Error>((vec![next], vec![]))
        })?;
        Ok(vec![made.last[0].clone(), w.sum(&[0], false)?])
    };
    let frozen = Frozen::capture(&e, &[(vec![3], DType::I64)], |at| model(&at[0], &w, &rows))?;
    let at = Tensor::from_slice(&e, &[4i64, 0, 2], &[3])?;
    for seed in 3..6 {
        weights.set(&numbers(64, seed));
        table.set(&numbers(40, seed + 9));
        let own = |values: &[f32], shape: &[usize]| Tensor::from_slice(&e, values, shape);
        let w = own(&weights.values(), &[8, 8])?;
        let rows = own(&table.values(), &[5, 8])?;
        let want = model(&at, &w, &rows)?;
        let found = frozen.call(std::slice::from_ref(&at))?;
        for (found, want) in found.iter().zip(&want) {
            let near = floats(found).into_iter().zip(floats(want));
            assert!(
                near.into_iter().all(|(a, b)| (a - b).abs() < 1e-4),
                "{seed}"
            );
        }
    }
    Ok(())
}

#[test]
fn what_a_model_gives_back_of_its_inputs_is_its_own() -> Result<()> {
    let e = engine();
    let size = |name: &str| Dim::Named(name.into());
    let floats_of_n = write::tensor(DType::F32, &[size("n")]);
    let places = write::tensor(DType::I64, &[size("axes"), size("found")]);
    for dynamic in [false, true] {
        let mut writer = Writer::new("same", 17);
        writer.input("x", &floats_of_n);
        writer.node("Identity", &["x"], &["y"], []);
        writer.output("y", &floats_of_n);
        if dynamic {
            // Its shape depends on values: nothing is captured.
            writer.node("NonZero", &["x"], &["at"], []);
            writer.output("at", &places);
        }
        let model = Model::from_bytes("same", writer.finish()).unwrap();
        let session = model.on(&e);
        let memory = Memory::of(&[0.0; 300]);
        let x = memory.row(&e);
        for i in 1..4 {
            memory.set(&[i as f32; 300]);
            let outputs = session.run([("x", x.clone())]).unwrap();
            e.synchronize()?;
            memory.set(&[-1.0; 300]);
            let y = outputs.tensor("y").unwrap();
            assert!(!y.is_shared());
            assert_eq!(floats(y), [i as f32; 300], "{dynamic}");
        }
        assert_eq!(session.captures(), usize::from(!dynamic));
    }
    Ok(())
}

#[test]
fn memory_that_is_mapped_for_reads_is_not_lent_for_writes() {
    let e = engine();
    static WORDS: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
    let at = NonNull::from(&WORDS).cast::<u8>();
    // SAFETY: a constant, which nobody writes, and which lives as long as the program.
    let view = unsafe { View::new_read_only(at, 16, Arc::new(())) };
    let layout = Layout::new(&[4], DType::F32);
    let import = Import::Host(view);
    let error = Tensor::from_import(&e, &import, &layout, Access::ReadWrite).unwrap_err();
    assert!(error.to_string().contains("mapped read-only"), "{error}");
    let x = Tensor::from_import(&e, &import, &layout, Access::ReadOnly).unwrap();
    assert_eq!(floats(&x.mul(2).unwrap()), [2.0, 4.0, 6.0, 8.0]);
    assert!(x.overwrite(&x.mul(2).unwrap()).is_err());
}

/// Threads share tensors, evaluate, export, and let go of memory; each owner is told once, and values are right.
#[test]
fn many_threads_lend_use_and_return_memory() {
    let e = engine();
    let released = Arc::new(AtomicU32::new(0));
    let p = Parameter::new(Tensor::ones(&e, &[64], DType::F32).unwrap());
    let worker = |thread: u32| {
        for round in 0..30u32 {
            let value = (thread * 100 + round) as f32;
            let memory = Memory::of(&[value; 64]);
            let (count, inside) = (released.clone(), e.clone());
            let owner = on_release(move || {
                // An owner may ask the engine for things.
                inside.synchronize().unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            });
            let view = memory.view.clone().with_guard(owner);
            let layout = Layout::new(&[64], DType::F32);
            let x = Tensor::from_import(&e, &Import::Host(view), &layout, Access::ReadWrite);
            let x = x.unwrap();
            let twice = x.mul(2).unwrap();
            if round % 3 == 0 {
                twice.realize().unwrap();
            }
            if round % 4 == 0 {
                x.overwrite(&x.add(0.5).unwrap()).unwrap();
                assert_eq!(memory.values(), [value + 0.5; 64]);
            }
            let given = x.to_dlpack(false).unwrap();
            let back = Tensor::from_dlpack(&e, given).unwrap();
            drop(x);
            let lent = if round % 4 == 0 { value + 0.5 } else { value };
            let seen = if round % 3 == 0 { value } else { lent };
            assert_eq!(floats(&twice), [2.0 * seen; 64]);
            assert_eq!(floats(&back), [lent; 64]);
            // A value of a parameter that others set meanwhile.
            let weight = p.get();
            let out = Tensor::from_dlpack(&e, weight.to_dlpack(false).unwrap()).unwrap();
            let before = floats(&weight);
            p.set(weight.add(1).unwrap()).unwrap();
            tensor::param::commit(&p).unwrap();
            assert_eq!(floats(&out), before);
            assert!(before.iter().all(|w| *w == before[0]));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || worker(thread));
        }
    });
    e.synchronize().unwrap();
    assert_eq!(released.load(Ordering::SeqCst), 120);
}
