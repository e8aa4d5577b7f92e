//! Several cards in one process: each copies between the memory of all, and that of the host.

use std::sync::Arc;
use std::time::Duration;

use doorbell::{Error, Setup};
use hcq::{AllocSpec, Buffer, Command, Deadline, Device, MemoryKind, QueueKind, Stream, Val};

/// No multiple of a page, so that pieces at the end are copied as well.
const BYTES: u64 = 300_004;

/// What a buffer holds, by its number.
fn content(number: usize) -> Vec<u8> {
    let byte = |i: usize| ((i * 11 + number * 37) >> 2) as u8;
    (0..BYTES as usize).map(byte).collect()
}

fn buffer(device: &dyn Device, kind: MemoryKind) -> hcq::Result<Buffer> {
    device.alloc(AllocSpec {
        bytes: BYTES,
        align: 4096,
        kind,
        zeroed: false,
    })
}

/// The first `count` GPUs of the kind that DEV names, each with a buffer of its own and one of the host: every card copies every
/// buffer into new memory of every card, and of the host. How many copies were right, and what was wrong, by its name: also
/// what a card does not reach if it has to reach `all`. VRAM is reached by others where all of it lies behind the BAR.
///
/// # Errors
/// The variables; a card that is not there, or does not start, or fails.
pub fn run(count: u32, all: bool) -> Result<(usize, Vec<String>), Error> {
    let setup = Setup::from_env()?;
    let machine = setup.twin().map(|twin| twin.machine());
    let open = |index| -> hcq::Result<Arc<dyn Device>> {
        let mut target = setup.target();
        target.indices = Some(vec![index]);
        drivers::open_with(&target, setup.settings(), machine.as_ref())
    };
    let devices = (0..count).map(open).collect::<hcq::Result<Vec<_>>>()?;
    let kinds = [MemoryKind::Device, MemoryKind::Host];
    let mut sources = Vec::new();
    for device in &devices {
        for kind in kinds {
            let from = buffer(&**device, kind)?;
            from.write(0, &content(sources.len()))?;
            sources.push((format!("{kind:?} memory of {}", device.info().id), from));
        }
    }
    let (mut right, mut wrong) = (0, Vec::new());
    for by in &devices {
        let queue = Stream::new(by.queue(QueueKind::Copy, 0)?);
        let id = &by.info().id;
        for (number, (name, from)) in sources.iter().enumerate() {
            for of in &devices {
                for kind in kinds {
                    let what = format!("{id} copies {name} to {kind:?} memory of {}", of.info().id);
                    let to = buffer(&**of, kind)?;
                    if !by.reaches(from) || !by.reaches(&to) {
                        let why = format!("{what}: it does not reach both");
                        match all {
                            true => wrong.push(why),
                            false => println!("{why}"),
                        }
                        continue;
                    }
                    let copy = Command::Copy {
                        dst: Val::Const(to.va().0),
                        src: Val::Const(from.va().0),
                        bytes: BYTES,
                    };
                    let limit = Deadline::after(Duration::from_secs(60));
                    queue.submit(&[], &[copy])?.wait(limit)?;
                    let mut seen = vec![0; BYTES as usize];
                    to.read(0, &mut seen)?;
                    match seen == content(number) {
                        true => right += 1,
                        false => wrong.push(format!("{what}: other bytes arrived")),
                    }
                }
            }
        }
    }
    setup.check_rules()?;
    Ok((right, wrong))
}
