//! What a bundle says as bytes, and back.

use crate::bytes::{Fault, Read, Reader, Writer};
use crate::plan::{
    About, Argument, CodeObject, Content, Element, Extent, Launch, Place, Port, Region, State,
    Step, TargetPlan,
};

/// Inputs, outputs and states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interface {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub states: Vec<State>,
}

/// No first value.
const ZEROS: u64 = u64::MAX;

fn unknown<T>(what: &str, expected: &str, found: u8) -> Read<T> {
    Err(Fault::new(
        format!("{what} of {expected}"),
        found.to_string(),
    ))
}

pub(crate) fn about(about: &About) -> Vec<u8> {
    let mut w = Writer::default();
    w.text(&about.model);
    w.0.extend_from_slice(&about.model_sha256);
    w.text(&about.doorbell);
    w.list(&about.options, |w, option| w.text(option));
    w.0
}

pub(crate) fn read_about(bytes: &[u8]) -> Read<About> {
    let mut r = Reader::new(bytes);
    let about = About {
        model: r.text("the name of the model")?,
        model_sha256: r.hash("the hash of the model")?,
        doorbell: r.text("the version of doorbell")?,
        options: r.list("options", 4, |r| r.text("an option"))?,
    };
    r.end("the section")?;
    Ok(about)
}

pub(crate) fn interface(interface: &Interface) -> Vec<u8> {
    let mut w = Writer::default();
    w.list(&interface.inputs, port);
    w.list(&interface.outputs, port);
    w.list(&interface.states, |w, state| {
        port(w, &state.port);
        w.u64(state.initial.unwrap_or(ZEROS));
    });
    w.0
}

pub(crate) fn read_interface(bytes: &[u8]) -> Read<Interface> {
    let mut r = Reader::new(bytes);
    let interface = Interface {
        inputs: r.list("inputs", 9, read_port)?,
        outputs: r.list("outputs", 9, read_port)?,
        states: r.list("states", 17, |r| {
            let port = read_port(r)?;
            let initial = Some(r.u64("the offset of a first value")?).filter(|&at| at != ZEROS);
            Ok(State { port, initial })
        })?,
    };
    r.end("the section")?;
    Ok(interface)
}

fn port(w: &mut Writer, port: &Port) {
    w.text(&port.name);
    w.u8(port.element.number());
    w.list(&port.shape, |w, size| w.u64(*size));
}

fn read_port(r: &mut Reader<'_>) -> Read<Port> {
    let name = r.text("a name")?;
    let number = r.u8("an element type")?;
    let Some(element) = Element::of_number(number) else {
        return unknown("an element type", "ONNX's numbers", number);
    };
    let shape = r.list("sizes", 8, |r| r.u64("a size"))?;
    Ok(Port {
        name,
        element,
        shape,
    })
}

pub(crate) fn target(target: &TargetPlan) -> Vec<u8> {
    let mut w = Writer::default();
    for text in [
        &target.device,
        &target.arch,
        &target.features,
        &target.compiler,
    ] {
        w.text(text);
    }
    w.list(&target.regions, region);
    w.list(&target.objects, object);
    w.list(&target.prologue, step);
    w.list(&target.steps, step);
    w.0
}

pub(crate) fn read_target(bytes: &[u8]) -> Read<TargetPlan> {
    let mut r = Reader::new(bytes);
    let plan = TargetPlan {
        device: r.text("the device")?,
        arch: r.text("the architecture")?,
        features: r.text("the features")?,
        compiler: r.text("the compiler")?,
        regions: r.list("regions", 9, read_region)?,
        objects: r.list("code objects", 32, read_object)?,
        prologue: r.list("steps", 33, read_step)?,
        steps: r.list("steps", 33, read_step)?,
    };
    r.end("the section")?;
    Ok(plan)
}

fn region(w: &mut Writer, region: &Region) {
    match region.content {
        Content::Own => w.u8(0),
        Content::Constant(at) => {
            w.u8(1);
            w.u64(at);
        }
        Content::Input(n) => {
            w.u8(2);
            w.u32(n);
        }
        Content::Output(n) => {
            w.u8(3);
            w.u32(n);
        }
        Content::State(n) => {
            w.u8(4);
            w.u32(n);
        }
    }
    w.u64(region.bytes);
}

fn read_region(r: &mut Reader<'_>) -> Read<Region> {
    let content = match r.u8("the content of a region")? {
        0 => Content::Own,
        1 => Content::Constant(r.u64("an offset")?),
        2 => Content::Input(r.u32("an input")?),
        3 => Content::Output(r.u32("an output")?),
        4 => Content::State(r.u32("a state")?),
        other => return unknown("the content of a region", "0 to 4", other),
    };
    let bytes = r.u64("the size of a region")?;
    Ok(Region { content, bytes })
}

fn object(w: &mut Writer, object: &CodeObject) {
    w.text(&object.name);
    w.text(&object.entry);
    w.u64(object.offset);
    w.u64(object.bytes);
    w.list(&object.addresses, |w, is| w.u8(u8::from(*is)));
    w.u32(object.local_bytes);
}

fn read_object(r: &mut Reader<'_>) -> Read<CodeObject> {
    Ok(CodeObject {
        name: r.text("the name of a kernel")?,
        entry: r.text("the symbol of a kernel")?,
        offset: r.u64("the offset of a code object")?,
        bytes: r.u64("the size of a code object")?,
        addresses: r.list("arguments", 1, |r| match r.u8("an argument")? {
            0 => Ok(false),
            1 => Ok(true),
            other => unknown("the kind of an argument", "0 or 1", other),
        })?,
        local_bytes: r.u32("the size of local memory")?,
    })
}

fn place(w: &mut Writer, place: Place) {
    w.u32(place.region);
    w.u64(place.offset);
}

fn read_place(r: &mut Reader<'_>) -> Read<Place> {
    Ok(Place {
        region: r.u32("a region")?,
        offset: r.u64("an offset")?,
    })
}

fn extent(w: &mut Writer, extent: &Extent) {
    place(w, extent.at);
    w.u64(extent.bytes);
}

fn read_extent(r: &mut Reader<'_>) -> Read<Extent> {
    Ok(Extent {
        at: read_place(r)?,
        bytes: r.u64("a size")?,
    })
}

fn step(w: &mut Writer, step: &Step) {
    match step {
        Step::Launch(launch) => {
            w.u8(0);
            w.u32(launch.object);
            for n in launch.grid.iter().chain(&launch.block) {
                w.u32(*n);
            }
            w.list(&launch.arguments, |w, argument| match *argument {
                Argument::Address(at) => {
                    w.u8(0);
                    place(w, at);
                }
                Argument::Number(n) => {
                    w.u8(1);
                    w.u64(n);
                }
            });
            w.list(&launch.reads, extent);
            w.list(&launch.writes, extent);
        }
        Step::Copy { to, from, bytes } => {
            w.u8(1);
            place(w, *to);
            place(w, *from);
            w.u64(*bytes);
        }
    }
}

fn read_step(r: &mut Reader<'_>) -> Read<Step> {
    match r.u8("the kind of a step")? {
        0 => {}
        1 => {
            return Ok(Step::Copy {
                to: read_place(r)?,
                from: read_place(r)?,
                bytes: r.u64("a size")?,
            });
        }
        other => return unknown("the kind of a step", "0 or 1", other),
    }
    let object = r.u32("a code object")?;
    let mut three = || Ok([r.u32("a size")?, r.u32("a size")?, r.u32("a size")?]);
    let (grid, block) = (three()?, three()?);
    Ok(Step::Launch(Launch {
        object,
        grid,
        block,
        arguments: r.list("arguments", 9, |r| match r.u8("an argument")? {
            0 => Ok(Argument::Address(read_place(r)?)),
            1 => Ok(Argument::Number(r.u64("a number")?)),
            other => unknown("the kind of an argument", "0 or 1", other),
        })?,
        reads: r.list("ranges", 20, read_extent)?,
        writes: r.list("ranges", 20, read_extent)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> TargetPlan {
        let at = |region, offset| Place { region, offset };
        let extent = |region| Extent {
            at: at(region, 0),
            bytes: 64,
        };
        TargetPlan {
            device: "CPU".into(),
            arch: "x86_64".into(),
            features: "avx2,fma".into(),
            compiler: "clang".into(),
            regions: [
                Content::Own,
                Content::Constant(64),
                Content::Input(0),
                Content::Output(1),
                Content::State(2),
            ]
            .map(|content| Region { content, bytes: 64 })
            .to_vec(),
            objects: vec![CodeObject {
                name: "k".into(),
                entry: "kernel".into(),
                offset: 0,
                bytes: 9,
                addresses: vec![true, false],
                local_bytes: 3,
            }],
            prologue: vec![Step::Copy {
                to: at(0, 8),
                from: at(1, 0),
                bytes: 16,
            }],
            steps: vec![Step::Launch(Launch {
                object: 0,
                grid: [1, 2, 3],
                block: [4, 5, 6],
                arguments: vec![Argument::Address(at(2, 4)), Argument::Number(7)],
                reads: vec![extent(2)],
                writes: vec![extent(3)],
            })],
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written_and_cut_ones_are_not() {
        let plan = plan();
        let bytes = target(&plan);
        assert_eq!(read_target(&bytes), Ok(plan.clone()));
        assert_eq!(plan.name(), "CPU::x86_64,avx2,fma");
        for n in 0..bytes.len() {
            assert!(read_target(&bytes[..n]).is_err(), "{n} bytes");
        }
        assert!(read_target(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn ports_and_origin_are_read_as_they_were_written() {
        let port = |name: &str| Port {
            name: name.into(),
            element: Element::F16,
            shape: vec![1, 99, 512],
        };
        let all = Interface {
            inputs: vec![port("x")],
            outputs: vec![port("y"), port("z")],
            states: vec![
                State {
                    port: port("queue"),
                    initial: None,
                },
                State {
                    port: port("h"),
                    initial: Some(128),
                },
            ],
        };
        let bytes = interface(&all);
        let read = read_interface(&bytes).unwrap();
        assert_eq!((read.inputs, read.outputs), (all.inputs, all.outputs));
        assert_eq!(read.states, all.states);
        let from = About {
            model: "a.onnx".into(),
            model_sha256: [7; 32],
            doorbell: "0.1.0".into(),
            options: vec!["half=yes".into()],
        };
        assert_eq!(read_about(&about(&from)), Ok(from));
    }
}
