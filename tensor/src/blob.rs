//! Memory of others as tensors, without a copy.
//!
//! # When memory is read and written
//!
//! [`Tensor::from_blob`] over memory in row-major order is a realized tensor, and its storage is that memory. Whoever
//! has the memory may change it. Each evaluation reads it anew: a read of the tensor, an operation on it that has not run, a
//! replay of a captured function that uses it, a call of a function with constant weights ([`crate::Frozen`]) or of a
//! model. A tensor that was *computed* from it (read, realized, or an output) keeps its values, as all tensors do. What was
//! only on the way to such a tensor was not kept: it is computed again for the next one, as a gradient is, which
//! needs the values that operations had, and finds those of then.
//!
//! Evaluation is asynchronous: [`Tensor::realize`] returns before the memory is read. It may be changed once results
//! were read, or after [`Engine::synchronize`].
//!
//! Memory with other strides is a view of it, a tensor that is not computed yet. Operations read through it, and each evaluation
//! reads the memory, until the view itself is computed: because it is read, or is an input of a captured function or of a
//! model. Then it has the values of that time. Make another one to look again.
//!
//! Nothing writes there but [`Tensor::overwrite`]. A parameter that is made of such a tensor, or set to it, has this memory, and
//! other memory once it is set again, by an optimizer or by hand: the owner counts as a holder of the old value, see
//! [`crate::param`].
//!
//! # Lifetime
//!
//! The owner is dropped, in any thread, when no tensor, no captured function and no work on the device uses the memory
//! any more. Work that is over lets go of it at the latest in [`Engine::synchronize`]. What its drop does must not wait for
//! a thread that waits for the device.
//!
//! # Safety
//!
//! `unsafe` makes a view of memory that the caller has promised in [`Tensor::from_blob`], and nothing else.

use std::any::Any;
use std::cmp::Reverse;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use codegen::DType;
use codegen::target::TargetKind;
use hcq::mem::view::View;
use hcq::sync::unpoisoned;
use hcq::{Buffer, Import, Sharing};

use crate::error::Result;
use crate::exec::engine::DeviceExecutor;
use crate::graph::{Engine, Storage, Tensor};
use crate::jit::tracing::refuse;
use crate::ops::{check_size, same_engine, shape_error};

/// Alignment that GPU kernels take for granted, bytes: that of the memory that drivers allocate for tensors.
const GPU_ALIGN: u64 = 64;

/// What may be done with memory of others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// It is read.
    ReadOnly,
    /// It is read, and [`Tensor::overwrite`] writes it.
    ReadWrite,
}

/// What keeps memory of others as it is: see [the module](self).
pub type Owner = Arc<dyn Any + Send + Sync>;

struct Release<F: FnOnce() + Send>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> Drop for Release<F> {
    fn drop(&mut self) {
        if let Some(release) = unpoisoned(self.0.get_mut()).take() {
            release();
        }
    }
}

/// An owner that calls a function when it is dropped.
pub fn on_release(release: impl FnOnce() + Send + 'static) -> Owner {
    Arc::new(Release(Mutex::new(Some(release))))
}

/// Where the elements of a tensor are in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    shape: Vec<usize>,
    strides: Option<Vec<isize>>,
    dtype: DType,
    offset: usize,
}

impl Layout {
    /// Row-major from the first byte on.
    pub fn new(shape: &[usize], dtype: DType) -> Layout {
        Layout {
            shape: shape.to_vec(),
            strides: None,
            dtype,
            offset: 0,
        }
    }

    /// With these distances between neighbours along each axis, in elements. They may be negative; with 0, or smaller
    /// than what is inside, elements are seen more than once.
    pub fn strides(self, strides: &[isize]) -> Layout {
        Layout {
            strides: Some(strides.to_vec()),
            ..self
        }
    }

    /// With the first element (all indices 0) at this byte.
    pub fn offset(self, bytes: usize) -> Layout {
        Layout {
            offset: bytes,
            ..self
        }
    }

    /// Strides of these sizes in row-major order.
    fn row_major(shape: &[usize]) -> Vec<isize> {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i].max(1) as isize;
        }
        strides
    }

    /// The strides, and the first byte and the one behind the last, from the memory's first byte on.
    ///
    /// # Errors
    /// Strides of another number of axes, a size that exceeds the address space.
    fn extent(&self) -> Result<(Vec<isize>, i128, i128)> {
        let numel = check_size("from_blob", &self.shape, self.dtype)?;
        let strides = match &self.strides {
            Some(strides) => strides.clone(),
            None => Layout::row_major(&self.shape),
        };
        if strides.len() != self.shape.len() {
            return shape_error(
                "from_blob",
                format!(
                    "expected a stride for each axis of {:?}, found {strides:?}",
                    self.shape
                ),
            );
        }
        let (mut low, mut high) = (0, 0);
        for (&len, &stride) in self.shape.iter().zip(&strides) {
            let reach = (len.max(1) as i128 - 1) * stride as i128;
            low += reach.min(0);
            high += reach.max(0);
        }
        let (offset, size) = (self.offset as i128, self.dtype.size() as i128);
        Ok(match numel {
            0 => (strides, offset, offset),
            _ => (strides, offset + low * size, offset + (high + 1) * size),
        })
    }

    /// The first byte, and how many there are, of memory that holds just this.
    ///
    /// # Errors
    /// As [`Tensor::from_blob`].
    pub(crate) fn span(&self) -> Result<(isize, usize)> {
        let (_, first, end) = self.extent()?;
        match (isize::try_from(first), usize::try_from(end - first)) {
            (Ok(first), Ok(bytes)) => Ok((first, bytes)),
            _ => shape_error(
                "from_blob",
                format!("{self:?} exceeds the address space; check its strides"),
            ),
        }
    }

    /// Whether elements follow each other in row-major order. Axes of one element may have any stride.
    fn is_row_major(&self, strides: &[isize]) -> bool {
        let natural = Layout::row_major(&self.shape);
        let mut axes = self.shape.iter().zip(strides.iter().zip(&natural));
        axes.all(|(&len, (have, want))| len == 1 || have == want)
    }
}

/// Whether memory is mapped for reads only.
fn is_read_only(memory: &Import) -> bool {
    match memory {
        // A write of nothing behind the last byte is refused there.
        Import::Host(view) => view.copy_from_slice(view.len(), &[]).is_err(),
        Import::DmaBuf(..) | Import::Device { .. } => false,
    }
}

/// How many bytes some memory has.
fn bytes_of(memory: &Import) -> u64 {
    match memory {
        Import::Host(view) => view.len() as u64,
        Import::DmaBuf(_, bytes) | Import::Device { bytes, .. } => *bytes,
    }
}

/// The executor of an engine that has memory.
fn executor<'a>(op: &'static str, engine: &'a Engine) -> Result<&'a DeviceExecutor> {
    let Some(executor) = DeviceExecutor::of(engine) else {
        return shape_error(
            op,
            format!(
                "{} has no device, and shares no memory; open one, or copy the bytes (from_bytes)",
                engine.name()
            ),
        );
    };
    executor.check()?;
    Ok(executor)
}

/// Elements that are in memory with these strides, from the first byte of `flat` on.
fn view(flat: Tensor, shape: &[usize], strides: &[isize]) -> Result<Tensor> {
    let mut axes: Vec<usize> = (0..shape.len())
        .filter(|&i| shape[i] > 1 && strides[i] != 0)
        .collect();
    axes.sort_by_key(|&i| Reverse(strides[i].unsigned_abs()));
    let mut view = flat;
    // Each makes a new last axis, and leaves the places where it can start: one, at the end.
    for &i in &axes {
        view = view.windows(0, shape[i], 1, strides[i].unsigned_abs())?;
    }
    let sizes: Vec<usize> = axes.iter().map(|&i| shape[i]).collect();
    view = view.reshape(&sizes)?;
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&at| axes[at]);
    view = view.permute(&order)?;
    axes.sort_unstable();
    let backward: Vec<isize> = (0..axes.len())
        .filter(|&at| strides[axes[at]] < 0)
        .map(|at| at as isize)
        .collect();
    // None given means all.
    if !backward.is_empty() {
        view = view.flip(&backward)?;
    }
    let mut aligned = vec![1; shape.len()];
    axes.iter().for_each(|&i| aligned[i] = shape[i]);
    view.reshape(&aligned)?.expand(shape)
}

impl Tensor {
    /// A tensor over `bytes` bytes of this process at `data`, without a copy: see [the module](crate::blob).
    ///
    /// # Errors
    /// A null pointer; memory that is too short for the layout; elements that are not aligned to their size (to 64
    /// bytes on GPUs); a device that takes no memory of the process (copy it, with [`Tensor::from_bytes`]) or only whole
    /// pages (give the pages around it, and a [`Layout::offset`]).
    ///
    /// # Safety
    /// While `owner` lives, the bytes stay mapped, for writes too unless they are [`Access::ReadOnly`], and no Rust
    /// reference exists to any of them, except to atomics. Nobody writes them while an evaluation reads them, and nobody uses
    /// them while [`Tensor::overwrite`] runs.
    pub unsafe fn from_blob(
        engine: &Engine,
        data: *mut u8,
        bytes: usize,
        layout: &Layout,
        access: Access,
        owner: Owner,
    ) -> Result<Tensor> {
        if layout.shape.contains(&0) {
            return Tensor::nothing(engine, layout);
        }
        let Some(data) = NonNull::new(data) else {
            return shape_error(
                "from_blob",
                format!(
                    "expected memory for {:?}, found a null pointer",
                    layout.shape
                ),
            );
        };
        if isize::try_from(bytes).is_err() {
            return shape_error(
                "from_blob",
                format!("{bytes} bytes exceed the address space; pass the size of the memory"),
            );
        }
        // SAFETY: the promise of the caller, for as long as `owner` lives, which the view holds.
        let view = unsafe {
            match access {
                Access::ReadWrite => View::new(data, bytes, owner),
                Access::ReadOnly => View::new_read_only(data, bytes, owner),
            }
        };
        Tensor::from_import(engine, &Import::Host(view), layout, access)
    }

    /// A tensor over memory that the device can import, without a copy: pages of the process, a dma-buf, a buffer of
    /// another library on the same GPU. See [the module](crate::blob), and [`hcq::Device::import`] for which device takes what.
    ///
    /// # Errors
    /// As [`Tensor::from_blob`]; [`Access::ReadWrite`] of a read-only view.
    pub fn from_import(
        engine: &Engine,
        memory: &Import,
        layout: &Layout,
        access: Access,
    ) -> Result<Tensor> {
        let op = "from_blob";
        let executor = executor(op, engine)?;
        if layout.shape.contains(&0) {
            return Tensor::nothing(engine, layout);
        }
        let (strides, first, end) = layout.extent()?;
        let have = bytes_of(memory);
        let found = match (u64::try_from(first), u64::try_from(end)) {
            (Ok(first), Ok(end)) if end <= have => Some((first, end - first)),
            _ => None,
        };
        let Some((first, bytes)) = found else {
            return shape_error(
                op,
                format!(
                    "{:?} of {} with strides {strides:?} from byte {} on needs the bytes {first} to {end} of {memory:?}, which \
                     has {have}; pass all of the memory, or a smaller shape",
                    layout.shape, layout.dtype, layout.offset
                ),
            );
        };
        if access == Access::ReadWrite && is_read_only(memory) {
            return shape_error(
                op,
                format!("{memory:?} are mapped read-only; share them with Access::ReadOnly"),
            );
        }
        let whole = executor.device().import(memory)?;
        whole.share(match access {
            Access::ReadOnly => Sharing::ReadOnly,
            Access::ReadWrite => Sharing::Writable,
        });
        let buffer = whole.slice(first, bytes)?;
        let size = layout.dtype.size();
        let align = match executor.kind() {
            TargetKind::Cpu => size as u64,
            TargetKind::Gpu => GPU_ALIGN,
        };
        let at = buffer.va().0;
        if !at.is_multiple_of(align) {
            return shape_error(
                op,
                format!(
                    "the elements of {:?} start at {at:#x} on {}, which is not aligned to {align} bytes, as {} has to be there; \
                     copy them (from_bytes)",
                    layout.shape,
                    engine.name(),
                    layout.dtype
                ),
            );
        }
        let storage = Storage::Device(Arc::new(buffer));
        if layout.is_row_major(&strides) {
            return Ok(Tensor::stored(engine, storage, &layout.shape, layout.dtype));
        }
        let elements = bytes as usize / size;
        let flat = Tensor::stored(engine, storage, &[elements], layout.dtype);
        view(flat, &layout.shape, &strides)
    }

    /// A tensor without elements needs no memory.
    fn nothing(engine: &Engine, layout: &Layout) -> Result<Tensor> {
        layout.extent()?;
        let storage = Storage::Host(Arc::from([]));
        Ok(Tensor::stored(engine, storage, &layout.shape, layout.dtype))
    }

    /// Its memory, if others have it, too.
    fn shared(&self) -> Option<Arc<Buffer>> {
        match self.storage() {
            Some(Storage::Device(buffer)) if buffer.sharing() != Sharing::Own => Some(buffer),
            _ => None,
        }
    }

    /// Whether its values are in memory that others have, too: see [the module](crate::blob).
    pub fn is_shared(&self) -> bool {
        self.shared().is_some()
    }

    /// Where the elements are, row-major: the address that the device uses, which on a CPU is a pointer. It computes the
    /// tensor if necessary, and waits for that. The address is good while the tensor lives; what is there must not be
    /// written. 0 if there are no elements.
    ///
    /// # Errors
    /// An engine without a device; those of computing the tensor.
    pub fn address(&self) -> Result<u64> {
        let executor = executor("address", self.engine())?;
        if self.numel() == 0 {
            return Ok(0);
        }
        Ok(self.in_memory(executor)?.va().0)
    }

    /// The memory of the value, which is computed and in it. The host finds it there.
    pub(crate) fn in_memory(&self, executor: &DeviceExecutor) -> Result<Arc<Buffer>> {
        refuse(executor, "taking the memory of a value")?;
        self.realize()?;
        let buffer = executor.resident(self)?;
        executor.settled(&buffer)?;
        buffer.invalidate(0, buffer.bytes())?;
        Ok(buffer)
    }

    /// Puts the values of another tensor into the memory of this one, which others have, too; waits until they are
    /// there. Tensors that were computed from the old values keep theirs; those that were not computed yet find the new ones.
    ///
    /// # Errors
    /// A tensor whose memory is its own, a computed view, or read-only memory; another shape, type or engine; [`crate::Error::Capture`]
    /// inside a captured function; those of computing the value.
    pub fn overwrite(&self, value: &Tensor) -> Result<()> {
        let op = "overwrite";
        same_engine(op, self, value)?;
        if (value.shape(), value.dtype()) != (self.shape(), self.dtype()) {
            return shape_error(
                op,
                format!(
                    "expected {:?} {}, found {:?} {}",
                    self.shape(),
                    self.dtype(),
                    value.shape(),
                    value.dtype()
                ),
            );
        }
        let executor = executor(op, self.engine())?;
        refuse(executor, "overwriting memory")?;
        if self.numel() == 0 {
            return Ok(());
        }
        let target = match self.shared() {
            Some(buffer) if buffer.sharing() == Sharing::Writable => buffer,
            Some(_) => {
                return shape_error(
                    op,
                    format!("{self:?} is in read-only memory; share it with Access::ReadWrite"),
                );
            }
            None => {
                return shape_error(
                    op,
                    format!(
                        "{self:?} has no memory that others share: a tensor is a value. Use the new tensor, or a Parameter; of \
                         memory with strides, overwrite the row-major tensor over all of it"
                    ),
                );
            }
        };
        value.realize()?;
        let apart = match value.storage() {
            Some(Storage::Device(from)) => from.va() == target.va() || !overlap(&from, &target),
            _ => true,
        };
        match apart {
            true => executor.overwrite(&target, value),
            // What a copy of memory over itself gives is not the same on all devices.
            false => {
                let value = value.copied();
                value.realize()?;
                executor.overwrite(&target, &value)
            }
        }
    }
}

/// Whether two buffers have bytes in common.
fn overlap(a: &Buffer, b: &Buffer) -> bool {
    let (a, b) = ((a.va().0, a.bytes()), (b.va().0, b.bytes()));
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test may panic.

    use super::*;

    #[test]
    fn the_bytes_of_a_layout_are_those_that_its_strides_reach() {
        let layout = |strides: &[isize]| Layout::new(&[2, 3], DType::I16).strides(strides);
        assert_eq!(Layout::new(&[2, 3], DType::I16).span().unwrap(), (0, 12));
        assert_eq!(layout(&[3, 1]).offset(4).span().unwrap(), (4, 12));
        assert_eq!(layout(&[-4, 1]).span().unwrap(), (-8, 14));
        assert_eq!(layout(&[0, 2]).span().unwrap(), (0, 10));
        assert_eq!(Layout::new(&[0, 3], DType::F32).span().unwrap(), (0, 0));
        assert!(layout(&[1]).span().is_err());
        assert!(layout(&[isize::MAX, 1]).span().is_err());
    }

    #[test]
    fn an_owner_calls_its_function_once() {
        let count = Arc::new(Mutex::new(0));
        let counted = count.clone();
        let owner = on_release(move || *counted.lock().unwrap() += 1);
        let other = owner.clone();
        drop(owner);
        assert_eq!(*count.lock().unwrap(), 0);
        drop(other);
        assert_eq!(*count.lock().unwrap(), 1);
    }

    /// Every way to see memory gives what the host reads by the same strides.
    #[test]
    fn a_view_has_the_elements_that_its_strides_say() {
        let engine = Engine::reference();
        let data: Vec<i32> = (0..60).collect();
        let cases: [(&[usize], &[isize]); 8] = [
            (&[4, 3], &[1, 4]),
            (&[3, 4, 5], &[5, 15, 1]),
            (&[4, 5], &[-5, 2]),
            (&[2, 3, 4], &[0, 7, -2]),
            (&[6, 5], &[3, 2]),
            (&[1, 7, 1], &[99, 3, -9]),
            (&[], &[]),
            (&[5], &[0]),
        ];
        for (shape, strides) in cases {
            let layout = Layout::new(shape, DType::I32).strides(strides);
            let (first, bytes) = layout.span().unwrap();
            let flat = Tensor::from_slice(&engine, &data[..bytes / 4], &[bytes / 4]).unwrap();
            let found = view(flat, shape, strides).unwrap();
            assert_eq!(found.shape(), shape);
            let mut expected = Vec::new();
            for n in 0..shape.iter().product::<usize>() {
                let (mut left, mut at) = (n, -first / 4);
                for (&len, &stride) in shape.iter().zip(strides).rev() {
                    at += (left % len) as isize * stride;
                    left /= len;
                }
                expected.push(data[at as usize]);
            }
            assert_eq!(
                found.to_vec::<i32>().unwrap(),
                expected,
                "{shape:?} {strides:?}"
            );
        }
    }
}
