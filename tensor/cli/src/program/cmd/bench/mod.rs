//! `doorbell bench`: figures of the selected device, as rows with the least, middle and largest
//! sample. What is timed is what a user waits for: from the call to the result in memory.

mod bundle;
mod model;
mod serve;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{Opened, Setup};
use clap::ValueEnum;
use codegen::DType;
use drivers::select::DeviceKind;
use hcq::graph::{GraphBuilder, Work};
use hcq::{AllocSpec, Deadline, Span, Stream};
use serde::Serialize;
use tensor::exec::DeviceExecutor;
use tensor::jit::Jit;
use tensor::{Engine, Rng, Tensor};

use crate::program::error::Error;
use crate::program::kernels::{self, Loaded};
use crate::program::output::{self, say};

/// Measure the device.
#[derive(clap::Args)]
pub struct Args {
    /// What to measure
    #[arg(value_enum, default_value_t = What::All)]
    what: What,
    /// The ONNX model, for `bench model`, or the bundle, for `bench bundle`
    #[arg(required_if_eq_any([("what", "model"), ("what", "bundle")]))]
    path: Option<PathBuf>,
    #[command(flatten)]
    inputs: crate::program::inputs::InputArgs,
    /// Runs of the model after the first; default: as many as fit into a second
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Thread counts for gemm, reduce and copy; default: 1 and all
    #[arg(long, value_name = "N", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Print JSON (schema doorbell.bench/1)
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The cost of launches alone: what does not hang on the clock.
    pub fn launch(json: bool) -> Args {
        Args {
            what: What::Launch,
            path: None,
            inputs: crate::program::inputs::InputArgs::default(),
            repeat: None,
            threads: Vec::new(),
            json,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Matrix products
    Gemm,
    /// Softmax and layer normalisation of 64 MB, compared with a copy of the same size
    Reduce,
    /// Host cost of one exec, from the call to the doorbell
    Launch,
    /// Replay of a captured graph of 100 small kernels
    Graph,
    /// Copies between buffers of the device
    Copy,
    /// A captured function called from several threads, some with new shapes
    Serve,
    /// An ONNX model: first run and its parts, later runs, memory
    Model,
    /// A model bundle: opening the file, loading it onto the device, runs
    Bundle,
    /// All of them
    All,
}

#[derive(Serialize)]
struct Row {
    name: String,
    threads: usize,
    unit: &'static str,
    better: &'static str,
    value: f64,
    min: f64,
    median: f64,
    max: f64,
    samples: usize,
}

impl Row {
    fn new(
        name: impl Into<String>,
        threads: usize,
        unit: &'static str,
        mut values: Vec<f64>,
    ) -> Row {
        values.sort_by(f64::total_cmp);
        let median = values[values.len() / 2];
        Row {
            name: name.into(),
            threads,
            unit,
            better: if unit.ends_with("/s") || unit == "of copy" {
                "higher"
            } else {
                "lower"
            },
            value: median,
            min: values[0],
            median,
            max: values[values.len() - 1],
            samples: values.len(),
        }
    }
}

const MB: usize = 1 << 20;

/// How much is computed.
struct Sizes {
    /// Types and sides of matrices.
    gemm: &'static [(DType, &'static [usize])],
    /// Megabytes of the tensor that is reduced by rows of 1024.
    reduce: usize,
    /// Megabytes that are copied.
    copy: &'static [usize],
    /// Rounds of 32 launches.
    launches: usize,
}

const REAL: Sizes = Sizes {
    gemm: &[
        (DType::F32, &[512, 1024, 2048]),
        (DType::F64, &[512, 1024, 2048]),
    ],
    reduce: 64,
    copy: &[64, 512],
    launches: 200,
};

/// For devices that a program plays.
const SIMULATED: Sizes = Sizes {
    gemm: &[(DType::F32, &[64, 128]), (DType::F16, &[64, 128])],
    reduce: 1,
    copy: &[1],
    launches: 8,
};
/// Sampling of a row ends after this many samples or this time, whichever comes first.
const SAMPLES: usize = 25;
const TIME: Duration = Duration::from_secs(1);

/// Prints a row per figure. `started` is when the program did.
pub fn run(args: &Args, setup: &Setup, started: Instant) -> Result<(), Error> {
    let rows = match (&args.path, args.what) {
        (Some(path), What::Model) => model::rows(path, args, started, setup)?,
        (Some(path), What::Bundle) => bundle::rows(path, setup)?,
        _ => device_rows(args, setup)?,
    };
    if args.json {
        return output::json("doorbell.bench/1", &rows);
    }
    let workers = match setup.target().device {
        DeviceKind::Cpu => "threads",
        _ => "units",
    };
    for r in &rows {
        output::line(format_args!(
            "{:<24} {:>2} {workers} {:>10.3} {:<9} ({:.3} to {:.3}, {} samples)",
            r.name, r.threads, r.value, r.unit, r.min, r.max, r.samples
        ))?;
    }
    Ok(())
}

fn device_rows(args: &Args, setup: &Setup) -> Result<Vec<Row>, Error> {
    let whole = setup.open()?;
    let limit = setup.settings().wait_timeout;
    let all = whole.device.info().units as usize;
    let host = setup.target().device == DeviceKind::Cpu;
    let mut counts = match (host, args.threads.as_slice()) {
        (true, []) => vec![1, all],
        (true, counts) => counts.to_vec(),
        // Work is spread over all of a GPU.
        (false, _) => vec![all],
    };
    counts.dedup();
    // Also of a replay, which does as much as was recorded.
    let sizes = match setup.simulated() {
        None => &REAL,
        Some(_) => {
            say!("note: times on a simulated device are those of the model, not of hardware");
            &SIMULATED
        }
    };
    let wants = |what| args.what == what || args.what == What::All;
    let mut rows = Vec::new();
    for threads in counts {
        let part = match threads == all {
            true => None,
            false => Some(setup.clone().threads(threads).open()?),
        };
        let session = part.as_ref().unwrap_or(&whole);
        if wants(What::Gemm) {
            gemm(session, sizes, threads, &mut rows)?;
        }
        if wants(What::Reduce) {
            reduce(session, sizes, threads, &mut rows)?;
        }
        if wants(What::Copy) {
            copy(session, sizes, threads, &mut rows)?;
        }
    }
    if wants(What::Launch) {
        launch(&whole, limit, sizes, &mut rows)?;
    }
    if wants(What::Graph) {
        graph(&whole, limit, &mut rows)?;
    }
    if wants(What::Serve) && setup.simulated().is_none() {
        serve::rows(&whole, &mut rows)?;
    }
    Ok(rows)
}

fn timed(work: &mut impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds of each run, after one that warms up.
fn sample(mut work: impl FnMut() -> Result<(), Error>) -> Result<Vec<f64>, Error> {
    work()?;
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 3 || (times.len() < SAMPLES && start.elapsed() < TIME) {
        times.push(timed(&mut work)?);
    }
    Ok(times)
}

fn rates(seconds: &[f64], per_run: f64) -> Vec<f64> {
    seconds.iter().map(|s| per_run / s / 1e9).collect()
}

/// Random numbers in memory.
fn random(engine: &Engine, shape: &[usize], dtype: DType) -> Result<Tensor, Error> {
    let t = Rng::new(engine, 1).uniform(shape, -0.5, 0.5, dtype)?;
    t.realize()?;
    Ok(t)
}

/// A captured function of tensors that is called again and again on the same inputs; each call
/// waits for the result.
fn captured<'a>(
    session: &'a Opened,
    inputs: &'a [Tensor],
    f: impl Fn(&[Tensor]) -> tensor::Result<Tensor> + 'a,
) -> Result<impl FnMut() -> Result<(), Error> + 'a, Error> {
    let function = move |x: &[Tensor]| Ok(vec![f(x)?]);
    let capture = Jit::new(&session.engine, function);
    let call = move || {
        black_box(capture.call(inputs)?);
        Ok(session.engine.synchronize()?)
    };
    // The first call runs plainly, the second one captures.
    call()?;
    call()?;
    Ok(call)
}

fn gemm(session: &Opened, sizes: &Sizes, threads: usize, rows: &mut Vec<Row>) -> Result<(), Error> {
    for &(dtype, sides) in sizes.gemm {
        for &n in sides {
            let a = random(&session.engine, &[n, n], dtype)?;
            let b = random(&session.engine, &[n, n], dtype)?;
            let inputs = [a, b];
            let seconds = sample(captured(session, &inputs, |x| x[0].matmul(&x[1]))?)?;
            let work = 2.0 * (n * n * n) as f64;
            rows.push(Row::new(
                format!("gemm {dtype} {n}"),
                threads,
                "GFLOP/s",
                rates(&seconds, work),
            ));
        }
    }
    Ok(())
}

fn reduce(
    session: &Opened,
    sizes: &Sizes,
    threads: usize,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let mb = sizes.reduce;
    let x = [random(
        &session.engine,
        &[mb * MB / 4096, 1024],
        DType::F32,
    )?];
    // A row kernel reads and writes every byte once: that is the traffic that is counted, and what
    // a copy of as many bytes takes is the bound.
    let traffic = 2.0 * (mb * MB) as f64;
    type Function = fn(&[Tensor]) -> tensor::Result<Tensor>;
    let functions: [(&str, Function); 2] = [
        ("softmax", |x| x[0].softmax(-1)),
        ("layernorm", |x| x[0].layer_norm(1, None, None, 1e-5)),
    ];
    for (name, f) in functions {
        let mut copy = captured(session, &x, |x| x[0].add(0.0)?.contiguous())?;
        let mut call = captured(session, &x, f)?;
        // In turn, so that what slows the machine for a while slows both.
        let (mut bound, mut seconds) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            bound.push(timed(&mut copy)?);
            seconds.push(timed(&mut call)?);
        }
        let copies: Vec<f64> = bound.iter().zip(&seconds).map(|(c, s)| c / s).collect();
        rows.push(Row::new(
            format!("{name} f32 {mb}MB"),
            threads,
            "GB/s",
            rates(&seconds, traffic),
        ));
        rows.push(Row::new(
            format!("{name} beside copy"),
            threads,
            "of copy",
            copies,
        ));
    }
    Ok(())
}

fn copy(session: &Opened, sizes: &Sizes, threads: usize, rows: &mut Vec<Row>) -> Result<(), Error> {
    for &size in sizes.copy {
        let x = random(&session.engine, &[size * MB / 4], DType::F32)?;
        // By a kernel on the compute queue, which uses all threads, as a tensor's copy does.
        let x = [x];
        let seconds = sample(captured(session, &x, |x| x[0].add(0.0)?.contiguous())?)?;
        rows.push(Row::new(
            format!("copy {size}MB"),
            threads,
            "GB/s",
            rates(&seconds, (size * MB) as f64),
        ));
    }
    Ok(())
}

/// The smallest kernel, loaded, with the queue that the engine's tensors use too.
fn smallest(session: &Opened) -> Result<(Loaded, Stream), Error> {
    let options = codegen::Options::default();
    let kernel = Loaded::new(
        &session.device,
        &session.backend,
        &kernels::smallest(),
        &options,
    )?;
    let executor = DeviceExecutor::of(&session.engine)
        .ok_or_else(|| Error::Check("bench: no device; rebuild the program".into()))?;
    Ok((kernel, executor.stream().clone()))
}

fn launch(
    session: &Opened,
    limit: Duration,
    sizes: &Sizes,
    rows: &mut Vec<Row>,
) -> Result<(), Error> {
    let device = &session.device;
    let (kernel, stream) = smallest(session)?;
    let (out, input) = (
        device.alloc(AllocSpec::device(64))?,
        device.alloc(AllocSpec::device(64))?,
    );
    let args = kernel.args(&[&out, &input]);
    let exec = kernel.exec(&args);
    let soon = || Deadline::after(limit);
    let mut costs = Vec::new();
    for _ in 0..sizes.launches {
        for _ in 0..32 {
            let start = Instant::now();
            black_box(stream.submit(&[], &[exec])?);
            costs.push(start.elapsed().as_nanos() as f64);
        }
        // The ring never fills: what is measured is the host's part.
        stream.wait(soon())?;
    }
    rows.push(Row::new(
        "exec to doorbell",
        1,
        "ns",
        costs.split_off(costs.len() / 10),
    ));
    let seconds = sample(|| {
        stream.submit(&[], &[exec])?;
        Ok(stream.wait(soon())?)
    })?;
    let micros = seconds.iter().map(|s| s * 1e6).collect();
    rows.push(Row::new("exec to result", 1, "us", micros));
    Ok(())
}

fn graph(session: &Opened, limit: Duration, rows: &mut Vec<Row>) -> Result<(), Error> {
    const KERNELS: usize = 100;
    let device = &session.device;
    let (kernel, stream) = smallest(session)?;
    // A chain: each kernel reads what the one before wrote, and nothing can be fused.
    let ends = [
        device.alloc(AllocSpec::device(64))?,
        device.alloc(AllocSpec::device(64))?,
    ];
    let mut builder = GraphBuilder::new();
    let lane = builder.lane(device, &stream);
    for i in 0..KERNELS {
        let (input, out) = (&ends[i % 2], &ends[(i + 1) % 2]);
        let work = Work::Exec {
            program: kernel.program.clone(),
            args: kernel.args(&[out, input]),
            grid: kernel.stage.grid,
            block: kernel.stage.block,
        };
        builder.add(
            lane,
            &kernel.stage.name,
            work,
            [Span::at(input.va().0, 4)],
            [Span::at(out.va().0, 4)],
        );
    }
    let mut graph = builder.build()?;
    let soon = || Deadline::after(limit);
    ends[0].write(0, &0f32.to_le_bytes())?;
    graph.replay(&[], &[], soon())?;
    graph.wait(soon())?;
    let mut sum = [0; 4];
    ends[KERNELS % 2].read(0, &mut sum)?;
    if f32::from_le_bytes(sum) != KERNELS as f32 {
        return Err(Error::Check(format!(
            "the chain of {KERNELS} kernels returned {}, expected {KERNELS}",
            f32::from_le_bytes(sum)
        )));
    }
    let seconds = sample(|| {
        graph.replay(&[], &[], soon())?;
        Ok(graph.wait(soon())?)
    })?;
    let threads = device.info().units as usize;
    let micros = |per: f64| seconds.iter().map(|s| s * 1e6 / per).collect();
    rows.push(Row::new(
        "replay 100 kernels",
        threads,
        "us/kernel",
        micros(KERNELS as f64),
    ));
    rows.push(Row::new("replay of 100 in all", threads, "us", micros(1.0)));
    let x = random(&session.engine, &[16], DType::F32)?;
    let eager = sample(|| {
        x.add(1.0)?.realize()?;
        Ok(session.engine.synchronize()?)
    })?;
    rows.push(Row::new(
        "eager add",
        threads,
        "us",
        eager.iter().map(|s| s * 1e6).collect(),
    ));
    Ok(())
}
