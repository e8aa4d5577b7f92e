//! A plan touches nothing but its own memory, as far as its numbers say.

use crate::bytes::{Fault, Read};
use crate::plan::{Argument, Content, Extent, Launch, Place, Port, Step, TargetPlan};
use crate::wire::Interface;

/// More than any device has. Sums of sizes below it do not overflow.
const MOST_BYTES: u64 = 1 << 48;

/// Checks the sizes of ports, and that names are different.
pub(crate) fn interface(interface: &Interface, constants: u64) -> Read<()> {
    let states = interface.states.iter().map(|s| &s.port);
    let taken: Vec<&Port> = interface.inputs.iter().chain(states).collect();
    for ports in [taken, interface.outputs.iter().collect()] {
        let mut names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Fault::new(
                "different names",
                format!("{:?} twice", twice[0]),
            ));
        }
        for port in ports {
            if port.bytes().is_none_or(|bytes| bytes > MOST_BYTES) {
                let expected = format!("at most {MOST_BYTES} bytes for {:?}", port.name);
                return Err(Fault::new(expected, port.to_string()));
            }
        }
    }
    for state in &interface.states {
        if let Some(at) = state.initial {
            let bytes = state.port.bytes().unwrap_or(u64::MAX);
            inside(at, bytes, constants, "the first value of a state")?;
        }
    }
    Ok(())
}

/// Checks a plan against the ports and the sizes of the sections of constants and code.
pub(crate) fn target(
    plan: &TargetPlan,
    interface: &Interface,
    constants: u64,
    code: u64,
) -> Read<()> {
    regions(plan, interface, constants)?;
    for object in &plan.objects {
        inside(object.offset, object.bytes, code, "a code object")?;
        if object.bytes == 0 {
            return Err(Fault::new("code", format!("0 bytes for {}", object.name)));
        }
    }
    let steps = plan.prologue.iter().chain(&plan.steps);
    steps
        .into_iter()
        .try_for_each(|step| self::step(plan, step))
}

fn regions(plan: &TargetPlan, interface: &Interface, constants: u64) -> Read<()> {
    let mut inputs = vec![false; interface.inputs.len()];
    let mut outputs = vec![false; interface.outputs.len()];
    let mut states = vec![false; interface.states.len()];
    let mut sum = 0u64;
    for region in &plan.regions {
        sum = sum.saturating_add(region.bytes);
        if sum > MOST_BYTES {
            let expected = format!("at most {MOST_BYTES} bytes of memory");
            return Err(Fault::new(expected, sum.to_string()));
        }
        let (found, bytes) = match region.content {
            Content::Own => continue,
            Content::Constant(at) => {
                inside(at, region.bytes, constants, "a constant")?;
                continue;
            }
            Content::Input(n) => one(&mut inputs, n, interface.inputs.iter(), "input")?,
            Content::Output(n) => one(&mut outputs, n, interface.outputs.iter(), "output")?,
            Content::State(n) => {
                let ports = interface.states.iter().map(|s| &s.port);
                one(&mut states, n, ports, "state")?
            }
        };
        if bytes != region.bytes {
            let expected = format!("{bytes} bytes for {found}");
            return Err(Fault::new(expected, region.bytes.to_string()));
        }
    }
    for (what, found) in [("input", inputs), ("output", outputs), ("state", states)] {
        if let Some(n) = found.iter().position(|found| !found) {
            return Err(Fault::new(format!("memory for {what} {n}"), "none"));
        }
    }
    Ok(())
}

/// Marks a port as found; its name and size.
fn one<'p>(
    seen: &mut [bool],
    n: u32,
    mut ports: impl ExactSizeIterator<Item = &'p Port>,
    what: &str,
) -> Read<(String, u64)> {
    let count = ports.len();
    let port = ports.nth(n as usize);
    match (seen.get_mut(n as usize), port) {
        (Some(seen), Some(port)) if !*seen => {
            *seen = true;
            Ok((format!("{what} {n}"), port.bytes().unwrap_or(u64::MAX)))
        }
        (Some(_), _) => Err(Fault::new("one region", format!("two for {what} {n}"))),
        (None, _) => Err(Fault::new(
            format!("one of {count} {what}s"),
            format!("number {n}"),
        )),
    }
}

fn inside(at: u64, bytes: u64, size: u64, what: &str) -> Read<()> {
    match at.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Fault::new(
            format!("{what} within {size} bytes"),
            format!("{bytes} bytes at {at}"),
        )),
    }
}

fn extent(plan: &TargetPlan, Place { region, offset }: Place, bytes: u64) -> Read<()> {
    match plan.regions.get(region as usize) {
        Some(found) => inside(offset, bytes, found.bytes, "a place"),
        None => Err(Fault::new(
            format!("one of {} regions", plan.regions.len()),
            format!("number {region}"),
        )),
    }
}

fn step(plan: &TargetPlan, step: &Step) -> Read<()> {
    match step {
        Step::Launch(step) => launch(plan, step),
        Step::Copy { to, from, bytes } => {
            extent(plan, *to, *bytes)?;
            extent(plan, *from, *bytes)?;
            let (a, b) = (to.offset, from.offset);
            let apart = to.region != from.region || a + bytes <= b || b + bytes <= a;
            match apart {
                true => Ok(()),
                false => Err(Fault::new(
                    "a copy whose source and destination do not overlap",
                    format!("{bytes} bytes from {b} to {a} of one region"),
                )),
            }
        }
    }
}

fn launch(plan: &TargetPlan, launch: &Launch) -> Read<()> {
    let Some(object) = plan.objects.get(launch.object as usize) else {
        return Err(Fault::new(
            format!("one of {} code objects", plan.objects.len()),
            format!("number {}", launch.object),
        ));
    };
    let kinds = launch.arguments.iter();
    let kinds = kinds.map(|argument| matches!(argument, Argument::Address(_)));
    if !kinds.eq(object.addresses.iter().copied()) {
        return Err(Fault::new(
            format!(
                "the {} arguments of {}",
                object.addresses.len(),
                object.name
            ),
            format!("{} of other kinds", launch.arguments.len()),
        ));
    }
    for argument in &launch.arguments {
        if let Argument::Address(at) = argument {
            extent(plan, *at, 0)?;
        }
    }
    for &Extent { at, bytes } in launch.reads.iter().chain(&launch.writes) {
        extent(plan, at, bytes)?;
    }
    match launch.grid.iter().chain(&launch.block).all(|&n| n > 0) {
        true => Ok(()),
        false => Err(Fault::new(
            "sizes of at least 1",
            format!("a grid of {:?} by {:?}", launch.grid, launch.block),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CodeObject, Element, Region, State};

    fn port(name: &str) -> Port {
        Port {
            name: name.into(),
            element: Element::F32,
            shape: vec![4],
        }
    }

    fn good() -> (TargetPlan, Interface) {
        let interface = Interface {
            inputs: vec![port("x")],
            outputs: vec![port("y")],
            states: vec![State {
                port: port("h"),
                initial: Some(16),
            }],
        };
        let region = |content| Region { content, bytes: 16 };
        let at = |region, offset| Place { region, offset };
        let whole = |region| Extent {
            at: at(region, 0),
            bytes: 16,
        };
        let plan = TargetPlan {
            regions: vec![
                region(Content::Input(0)),
                region(Content::Output(0)),
                region(Content::State(0)),
                region(Content::Constant(16)),
            ],
            objects: vec![CodeObject {
                name: "k".into(),
                entry: "kernel".into(),
                offset: 4,
                bytes: 4,
                addresses: vec![true, false],
                local_bytes: 0,
            }],
            steps: vec![
                Step::Launch(Launch {
                    object: 0,
                    grid: [1; 3],
                    block: [1; 3],
                    arguments: vec![Argument::Address(at(0, 16)), Argument::Number(1)],
                    reads: vec![whole(0)],
                    writes: vec![whole(1)],
                }),
                Step::Copy {
                    to: at(2, 0),
                    from: at(2, 8),
                    bytes: 8,
                },
            ],
            ..TargetPlan::default()
        };
        (plan, interface)
    }

    fn refused(change: impl Fn(&mut TargetPlan)) -> String {
        let (mut plan, interface) = good();
        change(&mut plan);
        let fault = target(&plan, &interface, 32, 8).unwrap_err();
        format!("{}; {}", fault.expected, fault.found)
    }

    fn launch_of(plan: &mut TargetPlan) -> &mut Launch {
        match &mut plan.steps[0] {
            Step::Launch(launch) => launch,
            Step::Copy { .. } => panic!("the first step is a launch"),
        }
    }

    #[test]
    fn numbers_that_point_elsewhere_are_refused() {
        let (plan, ports) = good();
        assert_eq!(target(&plan, &ports, 32, 8), Ok(()));
        assert_eq!(interface(&ports, 32), Ok(()));
        assert!(interface(&ports, 31).is_err());
        assert!(target(&plan, &ports, 31, 8).is_err());
        assert!(target(&plan, &ports, 32, 7).is_err());
        assert!(refused(|p| p.regions[0].bytes = 17).contains("16 bytes for input 0"));
        assert!(refused(|p| p.regions[1].content = Content::Input(0)).contains("two for input 0"));
        assert!(refused(|p| p.regions[1].content = Content::Output(1)).contains("number 1"));
        assert!(refused(|p| p.regions[2].content = Content::Own).contains("memory for state 0"));
        assert!(refused(|p| p.regions[3].bytes = u64::MAX).contains("bytes of memory"));
        assert!(refused(|p| p.objects[0].bytes = 0).contains("0 bytes for k"));
        assert!(refused(|p| launch_of(p).object = 1).contains("one of 1 code objects"));
        assert!(refused(|p| launch_of(p).grid[1] = 0).contains("at least 1"));
        assert!(refused(|p| launch_of(p).arguments.truncate(1)).contains("2 arguments"));
        assert!(refused(|p| launch_of(p).reads[0].at.region = 9).contains("number 9"));
        assert!(refused(|p| launch_of(p).writes[0].at.offset = 1).contains("within 16"));
        let far = Argument::Address(Place {
            region: 0,
            offset: 17,
        });
        assert!(refused(|p| launch_of(p).arguments[0] = far).contains("0 bytes at 17"));
        let overlap = |p: &mut TargetPlan| {
            if let Step::Copy { bytes, from, .. } = &mut p.steps[1] {
                (*bytes, from.offset) = (8, 4);
            }
        };
        assert!(refused(overlap).contains("do not overlap"));
    }
}
