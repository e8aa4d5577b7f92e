//! Computation without gradients.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How many [`no_grad`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is in a [`no_grad`].
pub(crate) fn is_on() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// A time without gradients: [`no_grad`] for what cannot be a closure. It ends when it is dropped, by the same thread.
#[must_use = "it ends when it is dropped"]
pub struct NoGrad {
    /// It is a count of this thread.
    _thread: PhantomData<*const ()>,
}

impl NoGrad {
    /// From now on this thread records no gradients.
    pub fn begin() -> NoGrad {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        NoGrad {
            _thread: PhantomData,
        }
    }
}

impl Drop for NoGrad {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Calls a function without recording gradients, like PyTorch's `no_grad`: its results are constants for
/// differentiation, and keep no graph once they are in memory.
///
/// It is for loops that carry a value from step to step: a validation, a simulation, a generated text. Without it a
/// tensor in memory keeps the graph that its gradient would need, which grows with each step. [`Tensor::detach`]
/// after [`Tensor::realize`] does the same for one tensor.
///
/// It affects only the calling thread, and only tensors made in the scope.
///
/// ```
/// # fn run(engine: &tensor::Engine) -> tensor::Result<()> {
/// # use tensor::{Tensor, no_grad};
///
/// let w = Tensor::new(engine, [[0.5f32, -0.5], [0.25, 1.0]])?;
/// let mut state = Tensor::new(engine, [[1.0f32, 2.0]])?;
/// for _ in 0..1000 {
///     state = no_grad(|| state.matmul(&w)?.tanh())?;
///     state.realize()?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// [`Tensor::detach`]: crate::Tensor::detach
/// [`Tensor::realize`]: crate::Tensor::realize
pub fn no_grad<T>(work: impl FnOnce() -> T) -> T {
    let _scope = NoGrad::begin();
    work()
}
