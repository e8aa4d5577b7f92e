//! Kernels that are built by hand, for commands that look at a device rather than use it.

use std::sync::Arc;

use codegen::build::StageArg;
use codegen::ir::{Binary, Graph, Id, Kernel, ParamInfo, StoreMode};
use codegen::{Backend, DType, Options, Resources, Stage};
use hcq::{ArgLayout, Buffer, Command, Device, KernelImage, Program, Val};

use crate::program::error::Error;

/// A kernel of one stage, in the memory of a device.
pub struct Loaded {
    /// To be run.
    pub program: Arc<Program>,
    /// How it is launched.
    pub stage: Stage,
    /// What it takes of a GPU; `None` on CPUs.
    pub resources: Option<Resources>,
}

impl Loaded {
    /// Compiles a kernel and loads it.
    pub fn new(
        device: &Arc<dyn Device>,
        backend: &Backend,
        kernel: &Kernel,
        options: &Options,
    ) -> Result<Loaded, Error> {
        let built = codegen::build(kernel, backend, options)?;
        let several = built.stages.len();
        let mut stages = built.stages.into_iter();
        let (Some(stage), None) = (stages.next(), stages.next()) else {
            return Err(Error::Check(format!(
                "kernel {}: expected one stage, found {several}; please report this",
                kernel.name
            )));
        };
        let program = device.load(&KernelImage {
            name: stage.name.clone(),
            arch: device.info().arch.clone(),
            bytes: stage.object.clone(),
            entry: stage.entry.clone(),
            args: ArgLayout::buffers(stage.args.len()),
            local_bytes: stage.local_bytes,
        })?;
        Ok(Loaded {
            program,
            stage,
            resources: built.report.resources.first().copied(),
        })
    }

    /// Its arguments, where buffer `i` is parameter `i` of the kernel.
    pub fn args(&self, buffers: &[&Buffer]) -> Vec<Val> {
        let one = |arg: &StageArg| match *arg {
            StageArg::Param(slot) => buffers
                .get(usize::from(slot))
                .map_or(Val::Const(0), |buffer| buffer.va().0.into()),
            StageArg::Number(value) => Val::Const(value as u64),
            // Kernels of one stage have no scratch blocks, and those here no integers.
            StageArg::Scratch(_) | StageArg::Var(_) => Val::Const(0),
        };
        self.stage.args.iter().map(one).collect()
    }

    /// Its launch.
    pub fn exec<'a>(&'a self, args: &'a [Val]) -> Command<'a> {
        Command::Exec {
            program: &self.program,
            args,
            grid: self.stage.grid,
            block: self.stage.block,
        }
    }
}

/// A kernel of 32-bit floats that stores one value: parameter 0 is written, with so many elements, the
/// others are read.
pub fn storing(name: &str, mut graph: Graph, place: Id, value: Id, lens: &[usize]) -> Kernel {
    let out = graph.param(0, DType::F32);
    let store = graph.store(StoreMode::Set, out, place, value, None);
    let sink = graph.sink(&[store]);
    let param = |(slot, &len): (usize, &usize)| ParamInfo {
        dtype: DType::F32,
        len,
        written: slot == 0,
        constant: false,
    };
    Kernel {
        name: name.into(),
        graph,
        sink,
        params: lens.iter().enumerate().map(param).collect(),
        vars: 0,
    }
}

/// `out[0] = in[0] + 1`: the smallest kernel there is.
pub fn smallest() -> Kernel {
    let mut g = Graph::new();
    let (input, zero) = (g.param(1, DType::F32), g.index(0));
    let x = g.load(input, zero);
    let one = g.bits(DType::F32, u64::from(1f32.to_bits()));
    let sum = g.binary(Binary::Add, x, one);
    storing("smallest", g, zero, sum, &[1, 1])
}
