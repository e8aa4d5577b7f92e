//! Recipes for state, captured functions and training, each of which is a test. `tensor/README.md` in the repository
//! has the others.
//!
//! # State
//!
//! A [`Parameter`](crate::Parameter) is a cell whose value changes over time; a tensor computed from it keeps the
//! old value. `set` is lazy, [`commit`](crate::nn::commit) computes what was set, together: one parameter, or any
//! list of them. `Parameter::new` is for what optimizers change, `Parameter::buffer` for the rest.
//!
//! ```
//! use doorbell::nn::commit;
//! use doorbell::{Parameter, Tensor};
//!
//! let engine = doorbell::open()?;
//! let total = Parameter::buffer(Tensor::new(&engine, 0.0f32)?);
//! let before = total.get().add(10)?; // of the value of now
//! for x in [1.0f32, 2.0, 3.0] {
//!     total.set(total.get().add(x)?)?;
//!     commit(&total)?; // without it, the graph of what was set grows
//! }
//! assert_eq!(total.get().item::<f32>()?, 6.0);
//! assert_eq!(before.item::<f32>()?, 10.0);
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # State in a captured function
//!
//! A captured function finds its parameters itself: each call reads their current values, and sets the new ones.
//! Nothing has to be committed, and hidden state is carried from call to call.
//!
//! ```
//! use doorbell::{DType, Jit, Parameter, Tensor};
//!
//! let engine = doorbell::open()?;
//! let hidden = Parameter::buffer(Tensor::zeros(&engine, &[2], DType::F32)?);
//! let cell = Jit::new(&engine, |x: &[Tensor]| {
//!     let next = hidden.get().mul(0.5)?.add(&x[0])?;
//!     hidden.set(next.clone())?;
//!     Ok(vec![next])
//! });
//! for i in 0..4 {
//!     cell.call(&[Tensor::new(&engine, [i as f32, 1.0])?])?;
//! }
//! assert_eq!(hidden.get().to_vec::<f32>()?, [4.25, 1.875]);
//! hidden.set(Tensor::zeros(&engine, &[2], DType::F32)?)?; // a new sequence
//! let first = cell.call(&[Tensor::new(&engine, [1.0f32, 1.0])?])?;
//! assert_eq!(first[0].to_vec::<f32>()?, [1.0, 1.0]);
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # Numbers that change
//!
//! A host number is a constant of the captured function. Pass numbers that change as inputs: tensors without axes.
//!
//! ```
//! use doorbell::{Jit, Tensor};
//!
//! let engine = doorbell::open()?;
//! let scaled = Jit::new(&engine, |x: &[Tensor]| Ok(vec![x[0].mul(&x[1])?]));
//! let x = Tensor::new(&engine, [1.0f32, 2.0])?;
//! for factor in [1.0f32, 0.5, 0.25] {
//!     let y = scaled.call(&[x.clone(), Tensor::new(&engine, factor)?])?;
//!     assert_eq!(y[0].to_vec::<f32>()?, [factor, 2.0 * factor]);
//! }
//! assert_eq!(scaled.captures(), 1);
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # A learning rate that changes, and limited gradients
//!
//! The rate is a parameter. A captured step borrows the optimizer, so keep a clone of the rate, which is the same
//! cell. (If nothing borrows the optimizer, use `adam.set_rate(0.01)`.)
//!
//! ```
//! use doorbell::nn::optim::clip_grad_norm;
//! use doorbell::nn::{Adam, Linear, Module, Optimizer};
//! use doorbell::{DType, Jit, Rng, Tensor};
//!
//! let engine = doorbell::open()?;
//! let mut rng = Rng::new(&engine, 7);
//! let layer = Linear::new(&mut rng, 4, 1, true, DType::F32)?;
//! let mut adam = Adam::with_lr(layer.trainable(), 0.0)?;
//! let rate = adam.rate().clone();
//! let step = Jit::new(&engine, |x: &[Tensor]| {
//!     let loss = layer.forward(&x[0])?.sub(1)?.square()?.mean(&[], false)?;
//!     let mut norm = None;
//!     adam.minimize_with(&loss, &mut |gradients| {
//!         let (limited, total) = clip_grad_norm(&gradients, 1.0)?;
//!         norm = Some(total);
//!         Ok(limited)
//!     })?;
//!     Ok([Some(loss), norm].into_iter().flatten().collect())
//! });
//! let x = rng.randn(&[32, 4], DType::F32)?;
//! let mut losses = Vec::new();
//! for i in 0..40 {
//!     rate.set(Tensor::new(&engine, 0.1 * 0.95f32.powi(i))?)?;
//!     losses.push(step.call(&[x.clone()])?[0].item::<f32>()?);
//! }
//! assert!(losses[39] < losses[0] / 2.0);
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # Gradients of several batches
//!
//! Gradients are summed in buffers, and the optimizer step uses the sums. Running statistics of
//! [`BatchNorm`](crate::nn::BatchNorm) are none of the optimizer's state: outside of captured functions they are
//! committed with the module's parameters. `cargo run --example recipes -- accumulate` captures both.
//!
//! ```
//! use doorbell::nn::{Adam, Linear, Module, Optimizer, commit};
//! use doorbell::{DType, Parameter, Rng, Tensor, gradients};
//!
//! let engine = doorbell::open()?;
//! let mut rng = Rng::new(&engine, 7);
//! let layer = Linear::new(&mut rng, 4, 1, true, DType::F32)?;
//! let weights = layer.trainable();
//! let mut adam = Adam::with_lr(weights.clone(), 0.1)?;
//! let mut sums: Vec<Tensor> = weights.iter().map(|w| w.get().zeros_like()).collect::<Result<_, _>>()?;
//! for _ in 0..4 {
//!     let x = rng.randn(&[8, 4], DType::F32)?;
//!     let loss = layer.forward(&x)?.sub(1)?.square()?.mean(&[], false)?.div(4)?;
//!     let values: Vec<Tensor> = weights.iter().map(Parameter::get).collect();
//!     let slopes = gradients(&loss, &values.iter().collect::<Vec<_>>())?;
//!     for (sum, slope) in sums.iter_mut().zip(&slopes) {
//!         *sum = sum.add(slope)?;
//!     }
//!     engine.realize(&sums.iter().collect::<Vec<_>>())?; // the graph of this batch is done with
//! }
//! adam.step(&sums)?;
//! commit(adam.state())?;
//! commit(layer.parameters().iter().map(|(_, cell)| cell))?; // what is not the optimizer's
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # Recurrent layers
//!
//! [`Gru`](crate::nn::Gru) and [`Lstm`](crate::nn::Lstm) have PyTorch's weights, several layers and both
//! directions. The returned states are the input of the next call; `detach` stops the gradient there.
//!
//! ```
//! use doorbell::nn::{Adam, Lstm, Module, Optimizer, recurrent::Stack};
//! use doorbell::{DType, Rng};
//!
//! let engine = doorbell::open()?;
//! let mut rng = Rng::new(&engine, 7);
//! let of = Stack { layers: 2, batch_first: true, ..Stack::new(3, 8) };
//! let lstm = Lstm::new(&mut rng, of, DType::F32)?;
//! let mut adam = Adam::with_lr(lstm.trainable(), 0.01)?;
//! let mut states = None;
//! for _ in 0..3 {
//!     let x = rng.randn(&[4, 5, 3], DType::F32)?; // 4 sequences of 5 steps
//!     let first = states.as_ref().map(|(h, c)| (h, c));
//!     let (out, (h, c)) = lstm.forward(&x, first)?;
//!     adam.minimize(&out.square()?.mean(&[], false)?)?;
//!     states = Some((h.detach()?, c.detach()?));
//! }
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # A loop as one node
//!
//! [`recur`](crate::recur) calls a function for each row of its inputs with the states of the row before. It is traced
//! and compiled once, whatever the number of steps, and has gradients; a loop of the host makes a graph of all steps.
//!
//! ```
//! use doorbell::{DType, Order, Rng, Tensor, gradients, recur};
//!
//! let engine = doorbell::open()?;
//! let x = Rng::new(&engine, 7).randn(&[100, 4], DType::F32)?; // 100 steps
//! let decay = Tensor::new(&engine, 0.9f32)?;
//! let start = Tensor::zeros(&engine, &[4], DType::F32)?;
//! let made = recur(100, Order::Forward, &[&start], &[&x], |state, row| {
//!     let next = state[0].mul(&decay)?.add(&row[0])?;
//!     Ok::<_, doorbell::Error>((vec![next], vec![])) // the states, and outputs of each step
//! })?;
//! assert_eq!((made.last[0].shape(), made.states[0].shape()), (&[4][..], &[100, 4][..]));
//! let slope = gradients(&made.last[0].sum(&[], false)?, &[&decay])?;
//! assert!(slope[0].item::<f32>()?.is_finite());
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # A trained net with another head
//!
//! `state::load` sets all parameters of a module from the file, or none. A part of the module is a module too, and
//! [`Checkpoint::named`](crate::nn::state::Checkpoint::named) takes any list of names: all but those of the head,
//! or names with something before them. The optimizer gets the parameters to train.
//!
//! ```
//! use doorbell::nn::{Adam, Linear, Module, Parameter, part, state::{self, Checkpoint}};
//! use doorbell::{DType, Rng};
//!
//! struct Net {
//!     body: Linear,
//!     head: Linear,
//! }
//!
//! impl Module for Net {
//!     fn parameters(&self) -> Vec<(String, Parameter)> {
//!         [part("body", &self.body), part("head", &self.head)].concat()
//!     }
//! }
//!
//! let engine = doorbell::open()?;
//! let mut rng = Rng::new(&engine, 7);
//! let mut net = |classes| -> doorbell::Result<Net> {
//!     Ok(Net {
//!         body: Linear::new(&mut rng, 4, 8, true, DType::F32)?,
//!         head: Linear::new(&mut rng, 8, classes, true, DType::F32)?,
//!     })
//! };
//! let (trained, fresh) = (net(100)?, net(5)?);
//! let path = std::env::temp_dir().join("doorbell-trained.safetensors");
//! state::save(&trained, &path)?;
//! assert!(state::load(&fresh, &path).is_err()); // the head has another shape
//! let known = fresh.parameters().into_iter().filter(|(name, _)| !name.starts_with("head."));
//! Checkpoint::named(known).load(&path)?;
//! assert_eq!(fresh.body.weight.get().to_vec::<f32>()?, trained.body.weight.get().to_vec::<f32>()?);
//! let adam = Adam::with_lr(fresh.head.trainable(), 0.01)?; // the body stays
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # Names of PyTorch
//!
//! Methods of tensors have the names of PyTorch where it has them. Elsewhere:
//!
//! | there | here |
//! |---|---|
//! | `nonzero`, `masked_select`, `unique` | [the same](crate::ops::by_value), which read what the size depends on; not in captured functions |
//! | `x[mask] = y` | `mask.where_(&y, &x)` |
//! | `scatter_`, `index_copy_` | [`Tensor::scatter`](crate::Tensor::scatter) with [`ScatterMode`](crate::ScatterMode); a new tensor each time |
//! | `torch.linalg.solve`, `inv`, `cholesky`, `solve_triangular`, `det` | methods, see [`ops::solve`](crate::ops::solve) |
//! | `svd`, `eigh`, `qr` | not there: read the matrix, and take a library of the host |
//! | `adaptive_avg_pool2d`, `conv1d`, `conv2d` ... | `adaptive_avg_pool`, `conv`: the sizes say how many axes |
//! | `torch.nn.functional.gelu(x, "tanh")` | [`Tensor::gelu_tanh`](crate::Tensor::gelu_tanh) |
//! | `module.train()`, `eval()` | an argument of `forward`: `training`, or a generator for dropout |
//! | `optimizer.zero_grad()`, `loss.backward()` | [`gradients`](crate::gradients) gives new tensors; [`minimize`](crate::nn::Optimizer::minimize) takes a step |
//!
//! # A run that goes on from a file
//!
//! A [`Checkpoint`](crate::nn::state::Checkpoint) has the module, the state of optimizers by the names of the
//! parameters, and where generators stand: a resumed run is bit-identical to an uninterrupted one. `state::load`
//! reads the module alone from the same file.
//!
//! ```
//! use doorbell::nn::state::Checkpoint;
//! use doorbell::nn::{Adam, Linear, Module, Optimizer};
//! use doorbell::{DType, Rng};
//!
//! let engine = doorbell::open()?;
//! let path = std::env::temp_dir().join("doorbell-recipe-run.safetensors");
//! let train = |steps: usize, resume: bool| {
//!     let mut rng = Rng::new(&engine, 7);
//!     let net = Linear::new(&mut rng, 4, 1, true, DType::F32)?;
//!     let mut adam = Adam::with_lr(net.trainable(), 0.1)?;
//!     let all = Checkpoint::of(&net).optimizer("optimizer", &adam)?.rng("rng", &rng);
//!     if resume {
//!         all.load(&path)?;
//!     }
//!     for _ in 0..steps {
//!         let x = rng.randn(&[8, 4], DType::F32)?;
//!         adam.minimize(&net.forward(&x)?.square()?.mean(&[], false)?)?;
//!     }
//!     all.save(&path)?;
//!     net.weight.get().to_vec::<f32>()
//! };
//! let whole = train(6, false)?;
//! train(3, false)?;
//! assert_eq!(train(3, true)?, whole);
//! Ok::<(), doorbell::Error>(())
//! ```
//!
//! # A loop without gradients
//!
//! A tensor in memory keeps the graph of its gradient, so a loop-carried value keeps all earlier steps. In
//! [`no_grad`](crate::no_grad()) it keeps none; [`Tensor::detach`](crate::Tensor::detach) drops the graph of one
//! tensor in memory. Outputs of a captured function have no graph.
//!
//! ```
//! use doorbell::{Tensor, no_grad};
//!
//! let engine = doorbell::open()?;
//! let w = Tensor::new(&engine, [[0.5f32, -0.5], [0.25, 1.0]])?;
//! let mut state = Tensor::new(&engine, [[1.0f32, 2.0]])?;
//! for _ in 0..100 {
//!     state = no_grad(|| state.matmul(&w)?.tanh())?;
//!     state.realize()?;
//! }
//! assert_eq!(state.shape(), [1, 2]);
//! Ok::<(), doorbell::Error>(())
//! ```
