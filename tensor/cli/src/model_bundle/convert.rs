//! From the plan of the compiler to that of a file.

use std::sync::Arc;

use codegen::Backend;
use doorbell_run::plan::{
    Argument, CodeObject, Content, Element, Extent, Launch, Place, Region, Step, TargetPlan,
};
use doorbell_run::write::BundleWriter;
use hcq::{ArgKind, Val};
use tensor::DType;
use tensor::jit::export::{self, Plan, Planned, Work};

use super::target::Target;
use crate::open::Result;

/// The plan of a target, and the bytes of its code objects.
pub(super) fn plan(
    target: &Target,
    backend: &Backend,
    plan: Plan,
    writer: &mut BundleWriter,
) -> Result<(TargetPlan, Vec<Arc<[u8]>>)> {
    let mut regions = Vec::with_capacity(plan.memory.len());
    for memory in &plan.memory {
        let content = match &memory.content {
            export::Content::Own => Content::Own,
            export::Content::Constant(tensor) => {
                Content::Constant(writer.constant(&tensor.to_bytes()?))
            }
            export::Content::Input(n) => Content::Input(*n as u32),
            export::Content::Output(n) => Content::Output(*n as u32),
            export::Content::State(n) => Content::State(*n as u32),
        };
        regions.push(Region {
            content,
            bytes: memory.bytes,
        });
    }
    let objects = plan.code.iter().map(|code| CodeObject {
        name: code.name.clone(),
        entry: code.entry.clone(),
        // The writer fills in both.
        offset: 0,
        bytes: 0,
        addresses: code
            .arguments
            .iter()
            .map(|a| *a == ArgKind::Buffer)
            .collect(),
        local_bytes: code.local_bytes,
    });
    let kinds: Vec<&[ArgKind]> = plan.code.iter().map(|code| &code.arguments[..]).collect();
    let steps = |all: &[Planned]| all.iter().map(|one| step(one, &kinds)).collect();
    let made = TargetPlan {
        device: target.device().into(),
        arch: target.arch(backend),
        features: target.features(backend),
        compiler: backend.describe(),
        objects: objects.collect(),
        prologue: steps(&plan.prologue),
        steps: steps(&plan.commands),
        regions,
    };
    let code = plan.code.into_iter().map(|code| code.object).collect();
    Ok((made, code))
}

fn step(planned: &Planned, kinds: &[&[ArgKind]]) -> Step {
    let extents = |all: &[(Val, u64)]| {
        let all = all.iter();
        all.map(|&(at, bytes)| Extent {
            at: place(at),
            bytes,
        })
        .collect()
    };
    match &planned.work {
        Work::Launch {
            code,
            arguments,
            grid,
            block,
        } => {
            let kinds = kinds.get(*code).copied().unwrap_or_default();
            let arguments = arguments.iter().zip(kinds);
            let arguments = arguments.map(|(&value, kind)| match (kind, value) {
                (ArgKind::Value(_), Val::Const(n)) => Argument::Number(n),
                (_, value) => Argument::Address(place(value)),
            });
            Step::Launch(Launch {
                object: *code as u32,
                grid: *grid,
                block: *block,
                arguments: arguments.collect(),
                reads: extents(&planned.reads),
                writes: extents(&planned.writes),
            })
        }
        Work::Copy { to, from, bytes } => Step::Copy {
            to: place(*to),
            from: place(*from),
            bytes: *bytes,
        },
    }
}

/// Slots are regions. An address of none is refused when the plan is checked.
fn place(at: Val) -> Place {
    match at {
        Val::Slot(slot, offset) => Place {
            region: slot.0.into(),
            offset,
        },
        Val::Const(_) => Place {
            region: u32::MAX,
            offset: 0,
        },
    }
}

/// A type of tensors in a bundle.
pub(crate) fn element(dtype: DType) -> Element {
    match dtype {
        DType::Bool => Element::Bool,
        DType::I8 => Element::I8,
        DType::I16 => Element::I16,
        DType::I32 => Element::I32,
        DType::I64 => Element::I64,
        DType::U8 => Element::U8,
        DType::U16 => Element::U16,
        DType::U32 => Element::U32,
        DType::U64 => Element::U64,
        DType::F8E4M3 => Element::F8E4M3,
        DType::F8E5M2 => Element::F8E5M2,
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
    }
}
