//! Work of which no gradient is wanted.

use std::cell::Cell;

thread_local! {
    /// How many [`no_grad`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is in a [`no_grad`].
pub(crate) fn is_on() -> bool {
    DEPTH.with(Cell::get) > 0
}

struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Calls a function whose tensors need no gradients, as PyTorch's `no_grad`: what it makes counts as made of
/// nothing where gradients are taken, and holds nothing of what it was made of once it is in memory.
///
/// It is for loops that carry a value from step to step: a validation, a simulation, a generated text. Without it a
/// tensor in memory keeps the graph that its gradient would need, which grows with each step. [`Tensor::detach`]
/// of the value that is carried, behind [`Tensor::realize`], does the same for one tensor.
///
/// It is a scope of the calling thread. What is made before it, and after it, is as always.
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
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _scope = Scope;
    work()
}
