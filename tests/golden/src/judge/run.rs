//! A program as somebody would write it with the library.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use tensor::nn::{Module, Optimizer, Sgd, commit, state};
use tensor::{DType, Engine, Jit, Parameter, Result, Rng, Tensor};

use super::model::{self, Model};
use super::program::{FILES, GENERATORS, Kind, PARAMETERS, SLOTS, Statement};
use super::{MOST, N, Program, Value};

/// Files of the programs that run in this process, one after the other.
pub struct Files(PathBuf);

impl Files {
    /// In a folder of its own.
    #[allow(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Files {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("doorbell-judge-{}-{next}", std::process::id());
        Files(std::env::temp_dir().join(name))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // There is none if nothing was saved.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Parameters of a device under names.
struct Cells(Vec<Parameter>);

impl Module for Cells {
    fn parameters(&self) -> Vec<(String, Parameter)> {
        let cells = self.0.iter().enumerate();
        cells.map(|(i, p)| (i.to_string(), p.clone())).collect()
    }
}

type Call = Arc<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>> + Send + Sync>;
type Tensors = [Option<Tensor>; SLOTS];

/// What a device has.
#[derive(Clone)]
struct World {
    engine: Engine,
    parameters: Vec<Parameter>,
    generators: Vec<Rng>,
    functions: Vec<Option<Call>>,
}

/// How the library differs from the model, if it does.
pub fn differs(program: &Program, engines: &[Engine], files: &Files) -> Option<String> {
    let run = || compared(program, engines, files);
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => Some("it panicked".into()),
    }
}

fn compared(program: &Program, engines: &[Engine], files: &Files) -> Result<(), String> {
    let folder = &files.0;
    let mut saved = vec![[false; FILES]; engines.len()];
    let mut worlds: Vec<World> = Vec::new();
    for (device, engine) in engines.iter().enumerate() {
        worlds.push(world(engine, device).map_err(|e| e.to_string())?);
    }
    for function in &program.functions {
        let world = worlds[function.device].clone();
        let call = captured(world, function.body.clone());
        for (device, world) in worlds.iter_mut().enumerate() {
            let own = device == function.device;
            world.functions.push(own.then(|| call.clone()));
        }
    }
    let mut model = Model::new(program);
    let mut values: model::Slots = vec![[None; SLOTS]; engines.len()];
    let mut tensors: Vec<Tensors> = vec![Default::default(); engines.len()];
    let (mut device, mut there) = (0, 0);
    for (i, statement) in program.main.iter().enumerate() {
        let mut expected = Vec::new();
        model.step(statement, &mut device, &mut values, &mut expected);
        let fault = |e: String| format!("statement {i}, {statement:?}: {e}");
        let mut found = Vec::new();
        let world = &worlds[there];
        match statement {
            Statement::Switch => there = (there + 1) % engines.len(),
            Statement::Move { dst, a } => {
                let to = (there + 1) % engines.len();
                if let Some(a) = &tensors[there][*a] {
                    let moved = a.to(&engines[to]).map_err(|e| fault(e.to_string()))?;
                    tensors[to][*dst] = Some(moved);
                }
            }
            Statement::Save { file } => {
                std::fs::create_dir_all(folder).map_err(|e| fault(e.to_string()))?;
                let path = folder.join(format!("{there}-{file}"));
                let cells = Cells(world.parameters.clone());
                state::save(&cells, path).map_err(|e| fault(e.to_string()))?;
                saved[there][*file] = true;
            }
            Statement::Load { file } => {
                if saved[there][*file] {
                    let path = folder.join(format!("{there}-{file}"));
                    let cells = Cells(world.parameters.clone());
                    state::load(&cells, path).map_err(|e| fault(e.to_string()))?;
                }
            }
            Statement::Threads(a, b) => {
                let (left, right) = tensors[there].split_at_mut(SLOTS / 2);
                let side = |body: &[Statement], own: &mut [Option<Tensor>], first: usize| {
                    let mut slots: Tensors = Default::default();
                    slots[first..first + own.len()].clone_from_slice(own);
                    let mut read = Vec::new();
                    for statement in body {
                        step(world, statement, &mut slots, &mut read)?;
                    }
                    own.clone_from_slice(&slots[first..first + own.len()]);
                    Ok::<_, tensor::Error>(read)
                };
                let both = std::thread::scope(|scope| {
                    let there = scope.spawn(|| side(b, right, SLOTS / 2));
                    let here = side(a, left, 0);
                    (here, there.join())
                });
                found = both.0.map_err(|e| fault(e.to_string()))?;
                let there = both.1.map_err(|_| fault("it panicked".into()))?;
                found.extend(there.map_err(|e| fault(e.to_string()))?);
            }
            _ => step(world, statement, &mut tensors[there], &mut found)
                .map_err(|e| fault(e.to_string()))?,
        }
        if found != expected {
            return Err(fault(format!("{found:?}, {expected:?} was expected")));
        }
    }
    // Whatever is left.
    for (device, world) in worlds.iter().enumerate() {
        for (slot, (tensor, value)) in tensors[device].iter().zip(&values[device]).enumerate() {
            let found = tensor.as_ref().map(read).transpose();
            let found = found.map_err(|e| format!("slot {slot} of device {device}: {e}"))?;
            if found != *value {
                return Err(format!(
                    "at the end: slot {slot} of device {device} is {found:?}, {value:?} was expected"
                ));
            }
        }
        for (i, parameter) in world.parameters.iter().enumerate() {
            let found = read(&parameter.get()).map_err(|e| e.to_string())?;
            let expected = model.parameters[device][i];
            if found != expected {
                return Err(format!(
                    "at the end: parameter {i} of device {device} is {found:?}, {expected:?} was \
                     expected"
                ));
            }
        }
    }
    Ok(())
}

fn world(engine: &Engine, device: usize) -> Result<World> {
    let cells = (0..PARAMETERS).map(|i| {
        let start = data(engine, model::start(device, i))?;
        // Some are still lazy.
        let start = match i % 2 {
            0 => start,
            _ => start.add(0)?.contiguous()?,
        };
        Ok(Parameter::new(start))
    });
    let generators = (0..GENERATORS).map(|i| Rng::new(engine, model::seed(device, i)));
    Ok(World {
        engine: engine.clone(),
        parameters: cells.collect::<Result<_>>()?,
        generators: generators.collect(),
        functions: Vec::new(),
    })
}

fn captured(world: World, body: Vec<Statement>) -> Call {
    let engine = world.engine.clone();
    let function = Jit::new(&engine, move |args: &[Tensor]| {
        let mut slots: Tensors = Default::default();
        (slots[0], slots[1]) = (Some(args[0].clone()), Some(args[1].clone()));
        for statement in &body {
            step(&world, statement, &mut slots, &mut Vec::new())?;
        }
        Ok(slots.into_iter().take(2).flatten().collect())
    });
    Arc::new(move |args| function.call(args))
}

fn data(engine: &Engine, value: Value) -> Result<Tensor> {
    Tensor::from_slice(engine, &value.map(|x| x as f32), &[N])
}

fn read(tensor: &Tensor) -> Result<Value> {
    let found = tensor.to_vec::<f32>()?;
    let mut value = [0; N];
    for (value, found) in value.iter_mut().zip(found) {
        *value = found as i64;
    }
    Ok(value)
}

fn bounded(tensor: &Tensor) -> Result<Tensor> {
    tensor.maximum(-MOST)?.minimum(MOST)
}

fn step(
    world: &World,
    statement: &Statement,
    slots: &mut Tensors,
    found: &mut Vec<Value>,
) -> Result<()> {
    match statement {
        Statement::Data { dst, value } => slots[*dst] = Some(data(&world.engine, *value)?),
        Statement::Op {
            dst,
            kind,
            a,
            b,
            fused,
        } => {
            let (Some(a), Some(b)) = (&slots[*a], &slots[*b]) else {
                return Ok(());
            };
            let made = match kind {
                Kind::Add => a.add(b)?,
                Kind::Sub => a.sub(b)?,
                Kind::Max => a.maximum(b)?,
                Kind::Flip => b.flip(&[0])?,
                Kind::Sum => a.sum(&[0], true)?.expand(&[N])?.add(b)?,
            };
            let made = bounded(&made)?;
            slots[*dst] = Some(match fused {
                true => made,
                false => made.contiguous()?,
            });
        }
        Statement::Get { dst, parameter } => {
            slots[*dst] = Some(world.parameters[*parameter].get());
        }
        Statement::Set { parameter, a } => {
            if let Some(a) = &slots[*a] {
                world.parameters[*parameter].set(a.clone())?;
            }
        }
        Statement::Commit { parameters } => {
            let named = parameters.iter().map(|&p| world.parameters[p].clone());
            commit(named.collect::<Vec<_>>())?;
        }
        Statement::Draw { dst, generator } => {
            let words = world.generators[*generator].clone().bits(&[N])?;
            slots[*dst] = Some(words.bitand(3)?.cast(DType::F32)?);
        }
        Statement::Minimize { dst, parameter, a } => {
            let Some(a) = slots[*a].clone() else {
                return Ok(());
            };
            let parameter = &world.parameters[*parameter];
            let mut sgd = Sgd::plain(vec![parameter.clone()], 1.0)?;
            // The gradient is `a`, whatever `a` was made of.
            let loss = parameter.get().mul(&a.detach()?)?.sum(&[], false)?;
            sgd.minimize(&loss)?;
            parameter.set(bounded(&parameter.get())?)?;
            slots[*dst] = Some(bounded(&loss)?.reshape(&[1])?.expand(&[N])?.contiguous()?);
        }
        Statement::Call {
            function,
            args,
            outs,
        } => {
            let [Some(a), Some(b)] = args.map(|i| slots[i].clone()) else {
                return Ok(());
            };
            if let Some(call) = &world.functions[*function] {
                let made = call(&[a, b])?;
                for (&out, made) in outs.iter().zip(made) {
                    slots[out] = Some(made);
                }
            }
        }
        Statement::Read { a } => {
            if let Some(a) = &slots[*a] {
                found.push(read(a)?);
            }
        }
        Statement::ReadParameter { parameter } => {
            found.push(read(&world.parameters[*parameter].get())?);
        }
        Statement::Realize { a } => {
            if let Some(a) = &slots[*a] {
                a.realize()?;
            }
        }
        Statement::Drop { a } => slots[*a] = None,
        // Steps of the whole program.
        Statement::Move { .. }
        | Statement::Switch
        | Statement::Save { .. }
        | Statement::Load { .. }
        | Statement::Threads(..) => {}
    }
    Ok(())
}
