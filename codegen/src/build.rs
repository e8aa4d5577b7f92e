//! Compiles kernels to machine code.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::backend::Tools;
use crate::built::CacheEntry;
use crate::content::stage_content;
use crate::error::{Error, Result};
use crate::ir::{Kernel, Op};
use crate::lower::{Arg, Program, Tensor, lower, narrow, share, tensor};
use crate::opt::contract::{self, Contraction, StageKernel};
use crate::opt::{self, Opt};
use crate::render::{CL_ENTRY, Code, ENTRY, Object, Source};
use crate::resources::Resources;
use crate::rewrite::simplify;
use crate::target::{Target, TargetKind};

pub use crate::backend::{Backend, Options, Row, TABLE};
pub use crate::content::{content_key, estimate};
pub use crate::opt::contract::ScratchSpec;
pub use crate::stage::{Stage, StageArg};

/// A compiled kernel.
#[derive(Clone)]
pub struct Built {
    /// Stages in order; all groups of one stage finish before the next one.
    pub stages: Vec<Stage>,
    /// Memory that the stages need.
    pub scratch: Vec<ScratchSpec>,
    /// Report of the compilation.
    pub report: Report,
    /// The content key of the kernel for this backend and these options.
    pub key: [u8; 32],
}

/// Texts of a compilation, for diagnostics. Without [`Options::explain`] it has only the applied steps, and the
/// sources compiled in this call.
#[derive(Clone)]
pub struct Report {
    /// The steps that were applied, per stage.
    pub opts: Vec<String>,
    /// The input kernel.
    pub before: String,
    /// The kernels after optimisation.
    pub after: Vec<String>,
    /// The linear programs.
    pub linear: Vec<String>,
    /// The sources.
    pub source: Vec<String>,
    /// GPU resources of each stage; empty for CPUs.
    pub resources: Vec<Resources>,
    /// The kernel came from the cache, or all objects did.
    pub cached: bool,
    /// Time in this crate: looking for the kernel, choosing its loops, lowering and rendering it.
    pub own: Duration,
    /// Time in the compiler of the backend.
    pub compiler: Duration,
    objects: Vec<Arc<[u8]>>,
    tools: Tools,
    disassembly: Arc<OnceLock<String>>,
}

impl Report {
    fn new(backend: &Backend) -> Report {
        Report {
            opts: Vec::new(),
            before: String::new(),
            after: Vec::new(),
            linear: Vec::new(),
            source: Vec::new(),
            resources: Vec::new(),
            cached: true,
            own: Duration::ZERO,
            compiler: Duration::ZERO,
            objects: Vec::new(),
            tools: backend.tools.clone(),
            disassembly: Arc::default(),
        }
    }

    /// The machine code as text; made when first asked for.
    pub fn disassembly(&self) -> Result<String> {
        if let Some(text) = self.disassembly.get() {
            return Ok(text.clone());
        }
        let mut text = String::new();
        for object in &self.objects {
            text += &self.tools.disassemble(object)?;
        }
        Ok(self.disassembly.get_or_init(|| text).clone())
    }
}

/// The buffers that a kernel stores to.
fn stored(kernel: &Kernel) -> Vec<u16> {
    let g = &kernel.graph;
    let pointers = g.src(kernel.sink).iter().map(|&s| g.op(g.src(s)[0]));
    pointers
        .filter_map(|op| match op {
            Op::Param { slot } => Some(slot),
            _ => None,
        })
        .collect()
}

/// Compiles a kernel.
pub fn build(kernel: &Kernel, backend: &Backend, options: &Options) -> Result<Built> {
    let start = Instant::now();
    let mut built = found_or_made(kernel, backend, options)?;
    built.report.own = start.elapsed().saturating_sub(built.report.compiler);
    Ok(built)
}

fn found_or_made(kernel: &Kernel, backend: &Backend, options: &Options) -> Result<Built> {
    let key = content_key(kernel, backend, options);
    let mut target = backend.target.clone();
    if options.threads > 0 && target.kind == TargetKind::Cpu {
        target.cores = options.threads;
    }
    target.any_order &= !options.deterministic;
    let cache = options.cache.as_ref();
    let found = cache.filter(|_| !options.explain).and_then(|c| c.get(&key));
    if let Some(kept) = found.and_then(|bytes| CacheEntry::decode(&bytes)) {
        let mut report = Report::new(backend);
        report.opts = kept.opts;
        report.resources = kept.resources;
        report.objects = kept.stages.iter().map(|s| s.object.clone()).collect();
        let mut stages = kept.stages;
        for stage in &mut stages {
            stage.name.insert_str(0, &kernel.name);
        }
        return Ok(Built {
            stages,
            scratch: kept.scratch,
            report,
            key,
        });
    }
    let mut built = compile(kernel, backend, options, &target, &target, key)?;
    // What the compiler makes of a choice is not known before. Where it runs out of registers, the
    // choice is made once more, as if there were half of them.
    let spilled = built.report.resources.iter().any(|r| r.spilled > 0);
    if spilled && !options.noopt && options.opts.is_none() {
        let planning = Target {
            vector_regs: target.vector_regs / 2,
            ..target.clone()
        };
        let first = built.report.compiler;
        built = compile(kernel, backend, options, &target, &planning, key)?;
        built.report.compiler += first;
    }
    if let Some(cache) = cache.filter(|_| !options.explain) {
        let mut stages = built.stages.clone();
        for stage in &mut stages {
            if let Some(part) = stage.name.strip_prefix(&kernel.name) {
                stage.name = part.to_owned();
            }
        }
        let kept = CacheEntry {
            stages,
            scratch: built.scratch.clone(),
            opts: built.report.opts.clone(),
            resources: built.report.resources.clone(),
        };
        cache.put(&key, &kept.encode());
    }
    Ok(built)
}

/// Compiles a kernel for a target, with the choices made for `planning`.
fn compile(
    kernel: &Kernel,
    backend: &Backend,
    options: &Options,
    target: &Target,
    planning: &Target,
    key: [u8; 32],
) -> Result<Built> {
    let mut report = Report::new(backend);
    let mut start = kernel.clone();
    start.sink = simplify(&mut start.graph, start.sink);
    let (stages, scratch) = planned(&start, planning, options)?;

    if options.explain {
        report.before = crate::ir::print::print(&start.graph, start.sink);
    }
    let mut built = Vec::new();
    for stage in stages {
        let Planned {
            kernel: staged,
            steps,
            flops,
        } = stage;
        report.opts.push(
            steps
                .iter()
                .map(Opt::to_string)
                .collect::<Vec<_>>()
                .join(" "),
        );
        if options.explain {
            let text = crate::ir::print::print(&staged.graph, staged.sink);
            report.after.push(text);
        }
        let content = stage_content(&staged);
        let stored = stored(&staged);
        let caps = backend.tools.emitter.caps(target);
        let mut program = lower(&staged, &caps)?;
        match target.kind {
            TargetKind::Gpu => narrow(&mut program),
            TargetKind::Cpu => share(&mut program),
        }
        fits(&program, target)?;
        if options.explain {
            report.linear.push(program.to_string());
        }
        let code = backend.tools.emitter.emit(&program, target)?;
        let (object, module) = assembled(code, &program, target, backend, options, &mut report)?;
        report.source.push(object.listing);
        report.resources.extend(object.resources);
        report.objects.push(object.bytes.clone());
        built.push(stage_of(
            &program,
            target,
            (object.bytes, module),
            (kernel, &staged),
            content,
            &stored,
            flops,
        )?);
    }
    Ok(Built {
        stages: built,
        scratch,
        report,
        key,
    })
}

/// What the device takes of what an emitter made, and its content key; the listing is what was emitted.
fn assembled(
    code: Code,
    program: &Program,
    target: &Target,
    backend: &Backend,
    options: &Options,
    report: &mut Report,
) -> Result<(Object, [u8; 32])> {
    let source = match code {
        Code::Text(source) => source,
        Code::Object(object) => {
            report.cached = false;
            let key = Sha256::digest(&object.bytes).into();
            return Ok((object, key));
        }
    };
    let key = text_key(&source, target, backend);
    let Some(compiler) = &backend.tools.compiler else {
        report.cached = false;
        let object = Object {
            bytes: source.text.as_bytes().into(),
            listing: source.text,
            resources: None,
        };
        return Ok((object, key));
    };
    // Whole kernels are kept unless their texts are asked for; then at least the objects of the same texts are.
    let cache = options.cache.as_ref().filter(|_| options.explain);
    let found = cache.and_then(|cache| cache.get(&key));
    let bytes = match found {
        Some(bytes) => bytes,
        None => {
            report.cached = false;
            let start = Instant::now();
            let make = || compiler.compile(&source, target).map(Arc::from);
            let bytes = match &options.modules {
                Some(modules) => modules.get(&key, make)?,
                None => make()?,
            };
            report.compiler += start.elapsed();
            if let Some(cache) = cache {
                cache.put(&key, &bytes);
            }
            bytes
        }
    };
    let items = u32::try_from(program.items).unwrap_or(u32::MAX);
    let object = Object {
        resources: compiler
            .resources(&bytes, target, items)
            .map(|r| r.asking(target, program.local_bytes(), items)),
        bytes,
        listing: source.text,
    };
    Ok((object, key))
}

fn text_key(source: &Source, target: &Target, backend: &Backend) -> [u8; 32] {
    let mut id = Sha256::new();
    id.update(source.text.as_bytes());
    id.update(target.fingerprint().as_bytes());
    id.update(backend.describe().as_bytes());
    id.finalize().into()
}

/// A kernel whose loops have their kinds.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The kernel. Buffer slots after those of the original kernel are scratch blocks.
    pub kernel: Kernel,
    /// The steps that were applied.
    pub steps: Vec<Opt>,
    /// The operations of the original kernel that it does.
    pub flops: f64,
}

/// Splits a kernel into the kernels that run on a target in order, with the scratch memory between them.
///
/// # Errors
/// Steps of [`Options::opts`] that do not apply.
pub fn planned(
    kernel: &Kernel,
    target: &Target,
    options: &Options,
) -> Result<(Vec<Planned>, Vec<ScratchSpec>)> {
    let (stages, scratch, mut opts) = plan(kernel, target, options)?;
    let shares = shares(estimate(kernel).0, &stages);
    let finish = |(i, (stage, flops)): (usize, (StageKernel, f64))| {
        let StageKernel { mut kernel, fixed } = stage;
        let mut steps = std::mem::take(&mut opts);
        if !fixed && !options.noopt && (i > 0 || options.opts.is_none()) {
            steps.extend(opt::optimise(&mut kernel, target));
        }
        Planned {
            kernel,
            steps,
            flops,
        }
    };
    let stages = stages.into_iter().zip(shares).enumerate();
    Ok((stages.map(finish).collect(), scratch))
}

/// How many of the operations of a kernel each of its stages does. Those before and after a product are counted; the
/// product has the rest, since its loops are in tiles already, which are larger than the operands at their ends.
fn shares(whole: f64, stages: &[StageKernel]) -> Vec<f64> {
    if let [_] = stages {
        return vec![whole];
    }
    let counted = |stage: &StageKernel| match stage.fixed {
        true => None,
        false => Some(estimate(&stage.kernel).0),
    };
    let counted: Vec<Option<f64>> = stages.iter().map(counted).collect();
    let others: f64 = counted.iter().flatten().sum();
    let products = counted.iter().filter(|one| one.is_none()).count();
    if products == 0 {
        // Both count what a sum in parts combines.
        let scale = if others > 0.0 { whole / others } else { 0.0 };
        return counted.iter().flatten().map(|one| one * scale).collect();
    }
    let rest = (whole - others).max(0.0) / products as f64;
    counted.iter().map(|one| one.unwrap_or(rest)).collect()
}

/// The kernels to compile, the scratch between them, and the steps that were applied so far.
#[allow(clippy::type_complexity, reason = "used once")]
fn plan(
    start: &Kernel,
    target: &Target,
    options: &Options,
) -> Result<(Vec<StageKernel>, Vec<ScratchSpec>, Vec<Opt>)> {
    let whole = |kernel: Kernel| {
        vec![StageKernel {
            kernel,
            fixed: false,
        }]
    };
    if options.noopt {
        return Ok((whole(start.clone()), Vec::new(), Vec::new()));
    }
    if let Some(opts) = &options.opts {
        let mut kernel = start.clone();
        for (i, opt) in opts.iter().enumerate() {
            if let Opt::Pack(_) | Opt::Block(_) = opt {
                let staged = Contraction::find(&kernel).and_then(|c| match *opt {
                    Opt::Pack(t) if c.acc == t.acc => {
                        contract::stages(&kernel, &c.oriented(t.swap), t)
                    }
                    Opt::Block(t) if c.acc == t.acc => {
                        contract::blocks(&kernel, &c.oriented(t.swap), t)
                    }
                    _ => None,
                });
                let Some(staged) = staged.filter(|_| i + 1 == opts.len()) else {
                    return Err(Error::Opt {
                        kernel: kernel.name.clone(),
                        opt: opt.to_string(),
                        why: "the kernel is not a matching contraction, or it is not the last step"
                            .into(),
                    });
                };
                return Ok((staged.stages, staged.scratch, opts.clone()));
            }
            opt::apply(&mut kernel, opt)?;
        }
        return Ok((whole(kernel), Vec::new(), opts.clone()));
    }
    if target.kind == TargetKind::Gpu {
        let (staged, opts) = opt::gpu::plan(start, target);
        return Ok((staged.stages, staged.scratch, opts));
    }
    if let Some(c) = Contraction::find(start)
        && let Some(tile) = c.choose(start, target)
        && let Some(staged) = contract::stages(start, &c.oriented(tile.swap), tile)
    {
        return Ok((staged.stages, staged.scratch, vec![Opt::Pack(tile)]));
    }
    Ok((whole(start.clone()), Vec::new(), Vec::new()))
}

/// Refuses what a group of the target has no room for.
fn fits(program: &Program, target: &Target) -> Result<()> {
    let limits = [
        (
            "work-items in a group",
            program.items,
            target.max_items as i64,
        ),
        (
            "bytes of local memory",
            program.local_bytes() as i64,
            target.max_local_bytes as i64,
        ),
    ];
    for (what, found, most) in limits {
        if target.kind == TargetKind::Gpu && found > most {
            return Err(Error::Limit {
                kernel: program.name.clone(),
                of: target.cpu.to_string(),
                what: format!("{found} {what}, expected at most {most}"),
            });
        }
    }
    Ok(())
}

fn stage_of(
    program: &Program,
    target: &Target,
    (object, module): (Arc<[u8]>, [u8; 32]),
    (kernel, staged): (&Kernel, &Kernel),
    content: [u8; 32],
    stored: &[u16],
    flops: f64,
) -> Result<Stage> {
    let own = kernel.params.len();
    let buffer = |slot: u16| match usize::from(slot) < own {
        true => StageArg::Param(slot),
        false => StageArg::Scratch(slot - own as u16),
    };
    let (mut args, mut writes) = (Vec::new(), Vec::new());
    let mut touched = Vec::new();
    for arg in &program.args {
        if let Arg::Buffer { slot, .. } | Arg::Tensor(Tensor { slot, .. }) = *arg
            && !touched.contains(&slot)
        {
            touched.push(slot);
        }
        args.push(match *arg {
            Arg::Buffer { slot, .. } => buffer(slot),
            Arg::Var { slot } => StageArg::Var(slot),
            Arg::Number { value } => StageArg::Number(value),
            // Its address, and then what else the hardware has to know of it.
            Arg::Tensor(Tensor { slot, .. }) => buffer(slot),
        });
        if let Arg::Tensor(tensor) = arg {
            let words = tensor::words(tensor).map_err(|e| Error::Invalid {
                kernel: kernel.name.clone(),
                what: e.to_string(),
            })?;
            args.extend(words.map(|word| StageArg::Number(word as i64)));
        }
        writes.push(matches!(arg, Arg::Buffer { slot, .. } if stored.contains(slot)));
        writes.resize(args.len(), false);
    }
    let params = touched
        .iter()
        .filter_map(|&slot| staged.params.get(usize::from(slot)));
    let bytes = params.map(|p| (p.len * p.dtype.size()) as f64).sum();
    let too_many = |what: &str, n: i64| Error::Limit {
        kernel: kernel.name.clone(),
        of: target.cpu.to_string(),
        what: format!("{n} {what}, more than one launch can have"),
    };
    Ok(Stage {
        name: program.name.clone(),
        object,
        module,
        entry: match target.is_cl() {
            true => CL_ENTRY,
            false => ENTRY,
        }
        .into(),
        args,
        writes,
        content,
        grid: program
            .grid(target)
            .ok_or_else(|| too_many("groups", program.groups))?,
        block: [
            u32::try_from(program.items).map_err(|_| too_many("work-items", program.items))?,
            1,
            1,
        ],
        local_bytes: match target.kind {
            TargetKind::Gpu => {
                let bytes = program.local_bytes();
                u32::try_from(bytes).map_err(|_| too_many("bytes of local memory", bytes as i64))?
            }
            // It is on the stack, and the code knows how much.
            TargetKind::Cpu => 0,
        },
        flops,
        bytes,
    })
}
