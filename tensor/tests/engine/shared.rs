//! Memory of others as tensors: who sees what when, who writes where, and how long it is kept.
use crate::support;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hcq::Import;
use hcq::mem::view::View;
use support::engine;
use tensor::dlpack::{
    self, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor,
    Managed,
};
use tensor::nn::{Adam, Optimizer};
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model};
use tensor::param::commit;
use tensor::{Access, DType, Engine, Frozen, Jit, Layout, Parameter, Result, Tensor, on_release};

/// Memory of somebody else.
pub(crate) struct Memory {
    pub(crate) view: View,
    /// How often it was let go of.
    released: Arc<AtomicU32>,
}

/// Counts when it is dropped.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Memory {
    pub(crate) fn of(values: &[f32]) -> Memory {
        let memory = Memory {
            view: View::alloc(values.len() * 4, 64).unwrap(),
            released: Arc::default(),
        };
        memory.set(values);
        memory
    }

    pub(crate) fn set(&self, values: &[f32]) {
        let words: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
        self.view.write_words(0, &words).unwrap();
    }

    pub(crate) fn values(&self) -> Vec<f32> {
        let mut words = vec![0u32; self.view.len() / 4];
        self.view.read_words(0, &mut words).unwrap();
        words.into_iter().map(f32::from_bits).collect()
    }

    pub(crate) fn address(&self) -> u64 {
        self.view.as_ptr().addr() as u64
    }

    pub(crate) fn tensor(&self, e: &Engine, layout: &Layout, access: Access) -> Result<Tensor> {
        let counted = Counted(self.released.clone());
        let view = self.view.clone().with_guard(counted);
        Tensor::from_import(e, &Import::Host(view), layout, access)
    }

    pub(crate) fn row(&self, e: &Engine) -> Tensor {
        let layout = Layout::new(&[self.view.len() / 4], DType::F32);
        self.tensor(e, &layout, Access::ReadWrite).unwrap()
    }

    pub(crate) fn released(&self) -> u32 {
        self.released.load(Ordering::SeqCst)
    }
}

pub(crate) fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

#[test]
fn each_evaluation_reads_the_memory_and_what_was_computed_stays() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[1.0, 2.0, 3.0]);
    let x = memory.row(&e);
    assert!(x.is_shared());
    assert_eq!(x.address()?, memory.address());
    let computed = x.add(1.0)?;
    assert_eq!(floats(&computed), [2.0, 3.0, 4.0]);
    let lazy = x.mul(2.0)?;
    memory.set(&[4.0, 5.0, 6.0]);
    assert_eq!(floats(&x), [4.0, 5.0, 6.0]);
    assert_eq!(floats(&lazy), [8.0, 10.0, 12.0]);
    assert_eq!(floats(&computed), [2.0, 3.0, 4.0]);
    assert_eq!(floats(&x.add(1.0)?), [5.0, 6.0, 7.0]);
    memory.set(&[7.0, 8.0, 9.0]);
    assert_eq!(floats(&lazy), [8.0, 10.0, 12.0]);
    assert!(!lazy.is_shared());
    // Of a pointer, the same.
    let released = memory.released.clone();
    let kept = memory.view.clone();
    let owner = on_release(move || {
        drop(kept);
        released.fetch_add(1, Ordering::SeqCst);
    });
    let layout = Layout::new(&[2], DType::F32).offset(4);
    let data = memory.view.as_ptr();
    // SAFETY: the owner has a clone of the view, which keeps the memory; no reference to it exists.
    let y = unsafe { Tensor::from_blob(&e, data, 12, &layout, Access::ReadOnly, owner) }?;
    assert_eq!(y.address()?, memory.address() + 4);
    assert_eq!(floats(&y.mul(-1.0)?), [-8.0, -9.0]);
    drop(y);
    e.synchronize()?;
    assert_eq!(memory.released(), 1);
    Ok(())
}

#[test]
fn the_owner_is_kept_by_tensors_lazy_ones_captures_and_work() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[1.0; 64]);
    let x = memory.row(&e);
    let lazy = x.add(1.0)?;
    drop(x);
    e.synchronize()?;
    assert_eq!(memory.released(), 0);
    memory.set(&[2.0; 64]);
    lazy.realize()?;
    // The gradient of the value would need it.
    e.synchronize()?;
    assert_eq!(memory.released(), 0);
    drop(lazy);
    e.synchronize()?;
    assert_eq!(memory.released(), 1);

    let x = memory.row(&e);
    let one = Tensor::ones(&e, &[64], DType::F32)?;
    let add = Jit::new(&e, move |inputs: &[Tensor]| Ok(vec![inputs[0].add(&x)?]));
    for i in 0..5 {
        memory.set(&[i as f32; 64]);
        let sum = add.call(std::slice::from_ref(&one))?;
        assert_eq!(floats(&sum[0]), [i as f32 + 1.0; 64]);
    }
    assert_eq!(add.captures(), 1);
    assert_eq!(memory.released(), 1);
    drop(add);
    e.synchronize()?;
    assert_eq!(memory.released(), 2);

    // Work that nobody waits for has it until it is over.
    let x = memory.row(&e);
    let square = x.square()?.detach()?;
    square.realize()?;
    drop((x, square));
    e.synchronize()?;
    assert_eq!(memory.released(), 3);
    Ok(())
}

#[test]
fn the_owner_may_use_the_engine_while_it_is_released() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[1.0; 8]);
    let (inside, count) = (e.clone(), memory.released.clone());
    let owner = on_release(move || {
        inside.synchronize().unwrap();
        count.fetch_add(1, Ordering::SeqCst);
    });
    let view = memory.view.clone().with_guard(owner);
    let layout = Layout::new(&[8], DType::F32);
    let x = Tensor::from_import(&e, &Import::Host(view), &layout, Access::ReadOnly)?;
    let sum = x.sum(&[], false)?.detach()?;
    sum.realize()?;
    drop((x, sum));
    e.synchronize()?;
    assert_eq!(memory.released(), 1);
    Ok(())
}

#[test]
fn outputs_of_a_captured_function_are_never_the_memory_itself() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[1.0, 2.0]);
    let x = memory.row(&e);
    let same = Jit::new(&e, move |_: &[Tensor]| Ok(vec![x.clone()]));
    for i in 0..3 {
        memory.set(&[i as f32, 2.0]);
        let out = same.call(&[])?.remove(0);
        assert!(!out.is_shared());
        out.realize()?;
        e.synchronize()?;
        memory.set(&[-1.0, -1.0]);
        assert_eq!(floats(&out), [i as f32, 2.0]);
    }
    Ok(())
}

#[test]
fn memory_is_no_constant_of_a_function_with_constant_weights() -> Result<()> {
    let e = engine();
    let n = 256;
    let diagonal = |value: f32| -> Vec<f32> {
        let at = |i: usize| if i.is_multiple_of(n + 1) { value } else { 0.0 };
        (0..n * n).map(at).collect()
    };
    let memory = Memory::of(&diagonal(1.0));
    let layout = Layout::new(&[n, n], DType::F32);
    let w = memory.tensor(&e, &layout, Access::ReadOnly)?;
    let given = vec![(vec![8, n], DType::F32)];
    let frozen = Frozen::capture(&e, &given, |x| {
        // A product, whose operand would be packed, and a sum, which would be computed ahead.
        Ok(vec![x[0].matmul(&w)?, x[0].add(w.sum(&[0], false)?)?])
    })?;
    let x = Tensor::ones(&e, &[8, n], DType::F32)?;
    for value in [1.0, 3.0, -2.0] {
        memory.set(&diagonal(value));
        let out = frozen.call(std::slice::from_ref(&x))?;
        assert!(floats(&out[0]).iter().all(|&y| y == value), "{value}");
        assert!(floats(&out[1]).iter().all(|&y| y == value + 1.0), "{value}");
    }
    Ok(())
}

#[test]
fn a_model_reads_its_inputs_at_each_run() -> Result<()> {
    let e = engine();
    let floats_of_n = write::tensor(DType::F32, &[Dim::Named("n".into())]);
    let mut writer = Writer::new("example", 17);
    writer.input("x", &floats_of_n);
    writer.node("Relu", &["x"], &["y"], []);
    writer.output("y", &floats_of_n);
    let model = Model::from_bytes("relu", writer.finish()).unwrap();
    let memory = Memory::of(&[-1.0, 2.0]);
    let x = memory.row(&e);
    for values in [[-1.0, 2.0], [3.0, -4.0], [5.0, 6.0]] {
        memory.set(&values);
        let outputs = model.run([("x", x.clone())]).unwrap();
        let y = outputs.tensor("y").map(floats).unwrap();
        assert_eq!(y, values.map(|x: f32| x.max(0.0)));
    }
    Ok(())
}

#[test]
fn only_overwrite_writes_there() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[1.0, 2.0, 3.0, 4.0]);
    let p = Parameter::new(memory.row(&e));
    p.set(p.get().mul(2.0)?)?;
    commit(&p)?;
    let mut adam = Adam::with_lr(vec![p.clone()], 0.3)?;
    for _ in 0..2 {
        adam.minimize(&p.get().square()?.sum(&[], false)?)?;
    }
    assert_eq!(memory.values(), [1.0, 2.0, 3.0, 4.0]);
    assert!(
        floats(&p.get())
            .iter()
            .zip(memory.values())
            .all(|(a, b)| *a != b)
    );
    // A captured step moves the value out, too.
    let q = Parameter::new(memory.row(&e));
    let state = q.clone();
    let step = Jit::new(&e, move |_: &[Tensor]| {
        state.set(state.get().add(1.0)?)?;
        Ok(vec![])
    });
    (0..4).try_for_each(|_| step.call(&[]).map(|_| ()))?;
    assert_eq!(floats(&q.get()), [5.0, 6.0, 7.0, 8.0]);
    assert_eq!(memory.values(), [1.0, 2.0, 3.0, 4.0]);

    let x = memory.row(&e);
    let old = x.add(0.5)?;
    old.realize()?;
    x.overwrite(&x.mul(10.0)?)?;
    assert_eq!(memory.values(), [10.0, 20.0, 30.0, 40.0]);
    assert_eq!(floats(&x), [10.0, 20.0, 30.0, 40.0]);
    assert_eq!(floats(&old), [1.5, 2.5, 3.5, 4.5]);
    x.overwrite(&Tensor::from_slice(&e, &[1.0f32, 2.0, 3.0, 4.0], &[4])?)?;
    x.overwrite(&x)?;
    assert_eq!(memory.values(), [1.0, 2.0, 3.0, 4.0]);
    // From a part of the same memory.
    let part = |at: usize| {
        let layout = Layout::new(&[3], DType::F32).offset(at);
        memory.tensor(&e, &layout, Access::ReadWrite)
    };
    part(4)?.overwrite(&part(0)?)?;
    assert_eq!(memory.values(), [1.0, 1.0, 2.0, 3.0]);
    Ok(())
}

#[test]
fn strided_memory_is_a_view_of_its_first_evaluation() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&(0..12).map(|i| i as f32).collect::<Vec<_>>());
    let columns = |access| {
        let layout = Layout::new(&[4, 3], DType::F32).strides(&[1, 4]);
        memory.tensor(&e, &layout, access)
    };
    let x = columns(Access::ReadOnly)?;
    let expected = [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11].map(|x| x as f32);
    assert_eq!(floats(&x), expected);
    let backward = Layout::new(&[3, 2], DType::F32)
        .strides(&[-4, 2])
        .offset(32);
    let y = memory.tensor(&e, &backward, Access::ReadOnly)?;
    assert_eq!(floats(&y.add(0.0)?), [8.0, 10.0, 4.0, 6.0, 0.0, 2.0]);
    memory.set(&[1.0; 12]);
    assert_eq!(floats(&x), expected);
    assert_eq!(floats(&columns(Access::ReadOnly)?), [1.0; 12]);
    let error = columns(Access::ReadWrite)?.overwrite(&x).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has no memory that others share"),
        "{error}"
    );
    // Axes of one element may have any stride.
    let layout = Layout::new(&[1, 12], DType::F32).strides(&[77, 1]);
    let row = memory.tensor(&e, &layout, Access::ReadOnly)?;
    assert_eq!(row.address()?, memory.address());
    Ok(())
}

#[test]
fn memory_that_does_not_fit_is_refused_and_released() {
    let e = engine();
    let memory = Memory::of(&[1.0; 8]);
    let refused = |layout: Layout, says: &str| {
        let error = memory.tensor(&e, &layout, Access::ReadWrite).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    };
    let row = |len| Layout::new(&[len], DType::F32);
    refused(row(9), "needs the bytes 0 to 36");
    refused(row(8).offset(4), "needs the bytes 4 to 36");
    refused(row(2).strides(&[-1]), "needs the bytes -4 to 4");
    refused(row(3).strides(&[4]), "needs the bytes 0 to 36");
    refused(row(2).offset(2), "not aligned to 4 bytes");
    refused(row(2).strides(&[1, 1]), "expected a stride for each axis");
    assert_eq!(memory.released(), 6);
    let none = Engine::reference();
    let error = memory.tensor(&none, &row(8), Access::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("has no device"), "{error}");
    let import = Import::DmaBuf(0, 4096);
    let error = Tensor::from_import(&e, &import, &row(8), Access::ReadOnly).unwrap_err();
    assert!(error.to_string().contains("cannot import"), "{error}");
    let owner = on_release(|| ());
    // SAFETY: a null pointer is refused.
    let null = unsafe { Tensor::from_blob(&e, null_mut(), 32, &row(8), Access::ReadOnly, owner) };
    assert!(null.unwrap_err().to_string().contains("a null pointer"));
    let fixed = memory.tensor(&e, &row(8), Access::ReadOnly).unwrap();
    let error = fixed.overwrite(&fixed).unwrap_err().to_string();
    assert!(error.contains("read-only memory"), "{error}");
    let own = Tensor::ones(&e, &[8], DType::F32).unwrap();
    own.realize().unwrap();
    let error = own.overwrite(&fixed).unwrap_err().to_string();
    assert!(error.contains("has no memory that others share"), "{error}");
    let empty = memory.tensor(&e, &Layout::new(&[0, 3], DType::F32), Access::ReadOnly);
    assert!(floats(&empty.unwrap()).is_empty());
}

/// What a producer in C would have: a struct whose deleter counts.
struct Foreign {
    table: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicU32>,
}

unsafe extern "C" fn delete(table: *mut DLManagedTensorVersioned) {
    // SAFETY: the context is the box of `foreign`, which is deleted once.
    let held = unsafe { Box::from_raw((*table).manager_ctx.cast::<Foreign>()) };
    held.deleted.fetch_add(1, Ordering::SeqCst);
}

/// A tensor of another library over the floats of some memory, which the test keeps.
fn foreign(
    memory: &Memory,
    shape: &[i64],
    strides: &[i64],
    byte_offset: u64,
    change: impl FnOnce(&mut DLManagedTensorVersioned),
) -> *mut DLManagedTensorVersioned {
    let mut held = Box::new(Foreign {
        table: DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 0 },
            manager_ctx: null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: DLTensor {
                data: memory.view.as_ptr().cast::<c_void>(),
                device: DLDevice {
                    device_type: 1,
                    device_id: 0,
                },
                ndim: shape.len() as i32,
                dtype: DLDataType {
                    code: 2,
                    bits: 32,
                    lanes: 1,
                },
                shape: null_mut(),
                strides: null_mut(),
                byte_offset,
            },
        },
        shape: shape.to_vec(),
        strides: strides.to_vec(),
        deleted: memory.released.clone(),
    });
    held.table.dl_tensor.shape = held.shape.as_mut_ptr();
    if !strides.is_empty() {
        held.table.dl_tensor.strides = held.strides.as_mut_ptr();
    }
    change(&mut held.table);
    let raw = Box::into_raw(held);
    // SAFETY: the box that was just made.
    unsafe {
        (*raw).table.manager_ctx = raw.cast();
        &raw mut (*raw).table
    }
}

/// What is made of a producer's tensor, whose memory outlives it.
fn taken(e: &Engine, raw: *mut DLManagedTensorVersioned) -> Result<Tensor> {
    // SAFETY: of `foreign`, whose memory the test keeps.
    let managed = unsafe { Managed::from_raw(raw) }?;
    Tensor::from_dlpack(e, managed)
}

#[test]
fn a_tensor_of_another_library_is_used_in_place_and_deleted_once() -> Result<()> {
    let e = engine();
    let memory = Memory::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let x = taken(&e, foreign(&memory, &[2, 2], &[], 8, |_| ()))?;
    assert_eq!(x.address()?, memory.address() + 8);
    assert_eq!(floats(&x), [3.0, 4.0, 5.0, 6.0]);
    x.overwrite(&x.mul(-1.0)?)?;
    assert_eq!(memory.values()[2..], [-3.0, -4.0, -5.0, -6.0]);
    let lazy = x.add(1.0)?;
    drop(x);
    e.synchronize()?;
    assert_eq!(memory.released(), 0);
    drop(lazy);
    e.synchronize()?;
    assert_eq!(memory.released(), 1);
    // The first element is not the lowest one.
    let y = taken(&e, foreign(&memory, &[2, 3], &[1, -2], 16, |_| ()))?;
    assert_eq!(floats(&y), [-5.0, -3.0, 1.0, -6.0, -4.0, 2.0]);
    let fixed = taken(&e, foreign(&memory, &[6], &[1], 0, |table| table.flags = 1))?;
    assert!(fixed.overwrite(&fixed).is_err());
    drop((y, fixed));
    e.synchronize()?;
    assert_eq!(memory.released(), 3);
    Ok(())
}

#[test]
fn what_cannot_be_taken_is_named_and_deleted() {
    let e = engine();
    let memory = Memory::of(&[1.0; 6]);
    type Change = fn(&mut DLManagedTensorVersioned);
    let changes: [(Change, &str); 6] = [
        (|t| t.version.major = 2, "expected DLPack 1, found 2.0"),
        (|t| t.dl_tensor.device.device_type = 2, "kDLCUDA"),
        (|t| t.dl_tensor.device.device_type = 99, "device type 99"),
        (|t| t.dl_tensor.dtype.code = 5, "complex of 32 bits"),
        (|t| t.dl_tensor.ndim = -1, "-1 axes"),
        (|t| t.dl_tensor.data = null_mut(), "a null pointer"),
    ];
    for (n, (change, says)) in changes.into_iter().enumerate() {
        let error = taken(&e, foreign(&memory, &[6], &[1], 0, change)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(memory.released(), n as u32 + 1, "{says}");
    }
    // SAFETY: a null pointer is refused.
    assert!(unsafe { Managed::<DLManagedTensor>::from_raw(null_mut()) }.is_err());
    assert!(taken(&e, foreign(&memory, &[-6], &[], 0, |_| ())).is_err());
    assert_eq!(memory.released(), 7);
    let none = Engine::reference();
    assert!(taken(&none, foreign(&memory, &[6], &[], 0, |_| ())).is_err());
    assert!(dlpack::device_of(&none).is_err());
    assert_eq!(dlpack::device_of(&e).unwrap(), (1, 0));
    assert_eq!(memory.released(), 8);
}

#[test]
fn a_tensor_is_given_away_without_a_copy_and_not_written_meanwhile() -> Result<()> {
    let e = engine();
    let p = Parameter::new(Tensor::from_slice(&e, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?);
    let lazy = p.get().add(1.0)?;
    let managed = lazy.to_dlpack(false)?;
    assert_eq!(managed.tensor().data.addr() as u64, lazy.address()?);
    assert_eq!(managed.access(), Access::ReadOnly);
    // By the reader of this library on another engine.
    let other = engine();
    let back = Tensor::from_dlpack(&other, managed)?;
    assert_eq!(back.address()?, lazy.address()?);
    drop(lazy);
    assert_eq!(floats(&back), [2.0, 3.0, 4.0, 5.0]);
    assert!(back.overwrite(&back).is_err());

    let value = p.get().to_dlpack(false)?;
    let seen = Tensor::from_dlpack(&other, value)?;
    for _ in 0..2 {
        p.set(p.get().mul(3.0)?)?;
        commit(&p)?;
    }
    assert_eq!(floats(&seen), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(floats(&p.get()), [9.0, 18.0, 27.0, 36.0]);

    // A copy is the consumer's.
    let own = p.get();
    let copy = own.to_dlpack(true)?;
    assert_ne!(copy.tensor().data.addr() as u64, own.address()?);
    let copy = Tensor::from_dlpack(&other, copy)?;
    copy.overwrite(&copy.mul(-1.0)?)?;
    assert_eq!(floats(&own), [9.0, 18.0, 27.0, 36.0]);
    assert_eq!(floats(&copy), [-9.0, -18.0, -27.0, -36.0]);
    Ok(())
}

#[test]
fn what_is_given_away_without_a_flag_is_read_anew() -> Result<()> {
    let e = engine();
    let own = Tensor::from_slice(&e, &[1.0f32, 2.0], &[2])?.add(0.0)?;
    let managed = own.to_dlpack_unversioned(false)?;
    assert!(own.is_shared());
    let other = engine();
    let seen = Tensor::from_dlpack(&other, managed)?;
    assert_eq!(seen.address()?, own.address()?);
    seen.overwrite(&seen.mul(5.0)?)?;
    assert_eq!(floats(&own.add(1.0)?), [6.0, 11.0]);
    // Memory of another owner that is read-only cannot be told as such.
    let memory = Memory::of(&[1.0; 4]);
    let fixed = memory.tensor(&e, &Layout::new(&[4], DType::F32), Access::ReadOnly)?;
    assert!(fixed.to_dlpack_unversioned(false).is_err());
    let copy = fixed.to_dlpack_unversioned(true)?;
    assert_ne!(copy.tensor().data.addr() as u64, memory.address());
    assert_eq!(fixed.to_dlpack(false)?.access(), Access::ReadOnly);
    assert_eq!(memory.row(&e).to_dlpack(false)?.access(), Access::ReadWrite);
    let empty = Tensor::zeros(&e, &[0, 2], DType::F32)?.to_dlpack(true)?;
    assert!(empty.tensor().data.is_null());
    let inside = Jit::new(&e, move |x: &[Tensor]| {
        x[0].add(1.0)?.to_dlpack(false)?;
        Ok(vec![])
    });
    let x = Tensor::ones(&e, &[2], DType::F32)?;
    inside.call(std::slice::from_ref(&x))?;
    assert!(inside.call(&[x]).is_err());
    Ok(())
}
