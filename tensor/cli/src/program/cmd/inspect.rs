//! `doorbell inspect`: what is in a model, and what it would do on the device.

use std::path::PathBuf;

use crate::Setup;
use serde::Serialize;
use tensor::onnx::{Model, Prepared, Summary};
use tensor::schedule::Schedule;

use crate::program::cmd::bundle;
use crate::program::error::Error;
use crate::program::inputs::InputArgs;
use crate::program::output::{self, say};

/// Inspect an ONNX model (inputs, outputs, operators, parameters, work, unsupported features) or a model bundle.
///
/// Only input shapes matter, and values that graphs are specialised on. Open sizes default to 1.
#[derive(clap::Args)]
pub struct Args {
    /// The model or bundle
    model: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Print the kernels of one run, after fusion
    #[arg(long)]
    schedule: bool,
    /// Print JSON (schema doorbell.inspect/1; of a bundle doorbell.inspect-bundle/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Port {
    name: String,
    r#type: String,
}

#[derive(Serialize)]
struct Count {
    operator: String,
    count: usize,
}

#[derive(Serialize)]
struct Lack {
    what: String,
    place: String,
    count: usize,
}

/// An input whose value the graph is for.
#[derive(Serialize)]
struct Specialised {
    input: String,
    value: String,
    place: String,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    flops: f64,
    bytes: f64,
    launches: usize,
}

#[derive(Serialize)]
struct Row {
    file: String,
    ir_version: i64,
    opsets: std::collections::BTreeMap<String, i64>,
    producer: String,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    operators: Vec<Count>,
    parameters: u64,
    parameter_bytes: u64,
    unsupported: Vec<Lack>,
    /// Inputs that the graph is captured for certain values of: other values get other graphs.
    specialised: Vec<Specialised>,
    /// Arithmetic operations of one run; absent if it is not captured, or cannot be run.
    flops: Option<f64>,
    /// Bytes of the temporaries of one run.
    temporaries: Option<u64>,
    /// Why there are none.
    unplanned: Option<String>,
    kernels: Vec<Kernel>,
}

/// Looks and prints; a model that cannot be run is no failure of looking.
pub fn run(args: &Args, setup: &Setup) -> Result<(), Error> {
    if bundle::is_one(&args.model) {
        return bundle::inspect(&args.model, args.json);
    }
    let model = Model::open(&args.model)?;
    args.inputs.check(&model)?;
    let summary = model.summary();
    let planned = match summary.missing.is_empty() {
        true => plan(&model, args, setup).map_err(|e| e.to_string()),
        false => Err("the model cannot be run".into()),
    };
    let row = row(args, summary, planned);
    if args.json {
        return output::json("doorbell.inspect/1", &[row]);
    }
    print(&row, args.schedule)
}

/// What a run would do, and for which values of its inputs.
type Planned = (Prepared, Option<Schedule>);

fn plan(model: &Model, args: &Args, setup: &Setup) -> Result<Planned, Error> {
    let opened = setup.open()?;
    let assumed = |n: String| say!("{n}");
    let given = args.inputs.all(model, &opened.engine, |_| (), assumed)?;
    Ok(model.on(&opened.engine).plan(given)?)
}

fn row(args: &Args, summary: Summary, planned: Result<Planned, String>) -> Row {
    let port = |(name, ty): &(String, tensor::onnx::Type)| Port {
        name: name.clone(),
        r#type: ty.to_string(),
    };
    let (prepared, schedule) = match planned {
        Ok(planned) => planned,
        Err(why) => {
            let prepared = Prepared {
                specialised: Vec::new(),
                plain: Some(why),
            };
            (prepared, None)
        }
    };
    let (mut flops, mut kernels) = (0.0, Vec::new());
    if let Some(schedule) = &schedule {
        for (instance, launches) in schedule.kernels.iter().zip(schedule.counts()) {
            let kernel = instance.constant();
            let (work, bytes) = codegen::estimate(&kernel);
            flops += work * launches as f64;
            kernels.push(Kernel {
                name: kernel.name,
                flops: work,
                bytes,
                launches,
            });
        }
    }
    let operators = summary.operators.into_iter();
    Row {
        file: args.model.display().to_string(),
        ir_version: summary.ir_version,
        opsets: summary.opsets,
        producer: summary.producer,
        inputs: summary.inputs.iter().map(port).collect(),
        outputs: summary.outputs.iter().map(port).collect(),
        operators: operators
            .map(|(operator, count)| Count { operator, count })
            .collect(),
        parameters: summary.parameters,
        parameter_bytes: summary.parameter_bytes,
        unsupported: summary
            .missing
            .into_iter()
            .map(|m| Lack {
                what: m.what,
                place: m.place.to_string(),
                count: m.count,
            })
            .collect(),
        specialised: prepared
            .specialised
            .iter()
            .map(|s| Specialised {
                input: s.input.clone(),
                value: s.value.to_string(),
                place: s.place.to_string(),
            })
            .collect(),
        flops: schedule.is_some().then_some(flops),
        temporaries: schedule.as_ref().map(|s| s.arena.bytes),
        unplanned: prepared.plain,
        kernels: if args.schedule { kernels } else { Vec::new() },
    }
}

fn print(row: &Row, schedule: bool) -> Result<(), Error> {
    let opsets: Vec<String> = row
        .opsets
        .iter()
        .map(|(domain, version)| match domain.as_str() {
            "" => format!("{version}"),
            domain => format!("{domain} {version}"),
        })
        .collect();
    output::line(format_args!("{}", row.file))?;
    output::line(format_args!(
        "format      version {}, operator set {}{}",
        row.ir_version,
        opsets.join(", "),
        match row.producer.as_str() {
            "" => String::new(),
            producer => format!(", by {producer}"),
        }
    ))?;
    for (title, ports) in [("input", &row.inputs), ("output", &row.outputs)] {
        for port in ports {
            output::line(format_args!("{title:<11} {}: {}", port.name, port.r#type))?;
        }
    }
    let mb = row.parameter_bytes as f64 / 1e6;
    output::line(format_args!("parameters  {} ({mb:.1} MB)", row.parameters))?;
    for s in &row.specialised {
        let Specialised {
            input,
            value,
            place,
        } = s;
        output::line(format_args!("specialised {input} = {value}, for {place}"))?;
    }
    match (row.flops, &row.unplanned) {
        (Some(flops), _) => output::line(format_args!(
            "work        {:.3} GFLOP per run with constants folded, {:.1} MB of temporaries",
            flops / 1e9,
            row.temporaries.unwrap_or(0) as f64 / 1e6
        ))?,
        (None, Some(why)) => {
            output::line(format_args!("work        unknown, not captured: {why}"))?
        }
        (None, None) => {}
    }
    let nodes: usize = row.operators.iter().map(|o| o.count).sum();
    output::line(format_args!("operators   {nodes} nodes"))?;
    for count in &row.operators {
        output::line(format_args!("  {:>6}  {}", count.count, count.operator))?;
    }
    match row.unsupported.is_empty() {
        true => output::line(format_args!("supported   everything"))?,
        false => {
            output::line(format_args!("unsupported"))?;
            for lack in &row.unsupported {
                output::line(format_args!(
                    "  {:>6}  {} ({})",
                    lack.count, lack.what, lack.place
                ))?;
            }
        }
    }
    if schedule && row.unplanned.is_none() {
        let launches: usize = row.kernels.iter().map(|k| k.launches).sum();
        output::line(format_args!("kernels     {launches} launches"))?;
        for kernel in &row.kernels {
            output::line(format_args!(
                "  {:>6}  {:<40} {:>10.3} MFLOP {:>10.3} MB",
                kernel.launches,
                kernel.name,
                kernel.flops / 1e6,
                kernel.bytes / 1e6
            ))?;
        }
    }
    Ok(())
}
