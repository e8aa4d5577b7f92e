//! The cause of a wait that did not end, from the positions of the queues.

use super::Explanation;
use crate::schema::{Bundle, Does, Packet, Queue};

/// What keeps a queue.
enum Stop<'a> {
    /// Nothing is in flight.
    Idle,
    /// A wait, which nothing before it delays.
    At(&'a Packet),
    /// Work that may go on.
    Works(&'a Packet),
    /// The device has not fetched the submission.
    Unheard,
}

pub(super) fn explain(bundle: &Bundle) -> Explanation {
    if let Some(found) = bundle.queues.iter().find_map(altered) {
        return found;
    }
    let busy: Vec<_> = bundle
        .queues
        .iter()
        .filter(|queue| !matches!(stop(queue), Stop::Idle))
        .collect();
    let Some(first) = waited_for(bundle, &busy) else {
        return idle(bundle);
    };
    // From the queue that is waited for, along what each waits for.
    let mut path = vec![first];
    loop {
        let queue = path[path.len() - 1];
        // Work that is not fetched yet would wait, too: its queue may not have had its turn.
        let Stop::At(packet) = stop_at_work(queue) else {
            break;
        };
        let Some(next) = raiser(packet, &busy) else {
            break;
        };
        if let Some(from) = path.iter().position(|one| one.name == next.name) {
            return circle(&path[from..]);
        }
        path.push(next);
    }
    let last = path[path.len() - 1];
    let mut found = of_queue(last);
    if matches!(stop(last), Stop::Works(_)) {
        found.evidence.extend(super::waves::places(bundle));
    }
    for pair in path.windows(2) {
        if let Stop::At(packet) = stop_at_work(pair[0]) {
            let (waits, other) = (&pair[0].name, &pair[1].name);
            found = found.because(format!(
                "{waits} is at {}, which {other} should raise",
                packet.text
            ));
        }
    }
    found
}

/// The queue whose timeline was waited for, if it is busy; else the first that is.
fn waited_for<'a>(bundle: &Bundle, busy: &[&'a Queue]) -> Option<&'a Queue> {
    let what = bundle.wait.as_ref().map_or("", |wait| &*wait.what);
    // Each queue's position follows.
    let what = what.split(" (").next().unwrap_or(what);
    // The timeline of `copy 0` is called `copy queue 0 timeline`.
    let is_named = |queue: &&&Queue| {
        let timeline = queue.name.replacen(' ', " queue ", 1);
        what.contains(&*queue.name) || what.contains(&timeline)
    };
    busy.iter().find(is_named).or(busy.first()).copied()
}

fn altered(queue: &Queue) -> Option<Explanation> {
    let altered = queue.altered.as_ref()?;
    let found = Explanation::new(
        "ring-overwritten",
        format!("the ring of {} was overwritten", queue.name),
    );
    Some(found
        .because(format!(
            "submitted dword {:#x} was {}, and is {} now",
            altered.at, altered.submitted, altered.found
        ))
        .then("Look for a kernel or copy that writes past its buffer, in the earlier work in `recent`")
        .then("Run the kernels one by one (DEBUG=2) to find the one that changes the ring"))
}

/// Whether a packet in flight keeps its queue: those that wake the host may follow the last signal of the timeline.
pub(super) fn is_work(queue: &Queue, packet: &Packet) -> bool {
    match &packet.does {
        Does::Signal { at, .. } => *at == queue.timeline.at,
        Does::Wait { over, .. } => !over,
        _ => true,
    }
}

fn stop(queue: &Queue) -> Stop<'_> {
    if !queue.in_flight.iter().any(|packet| is_work(queue, packet)) {
        return Stop::Idle;
    }
    // A pointer that never moves is one that is not reported.
    let reported = queue.taken.filter(|taken| *taken > 0 || queue.done == 0);
    if reported.is_some_and(|taken| taken <= queue.done) {
        return Stop::Unheard;
    }
    stop_at_work(queue)
}

/// What keeps a queue that has fetched its work.
fn stop_at_work(queue: &Queue) -> Stop<'_> {
    let mut raised = Vec::new();
    for packet in &queue.in_flight {
        match &packet.does {
            // What the queue has raised itself on its way there does not hold it, whatever it is now.
            Does::Wait {
                at,
                over: false,
                own: false,
                ..
            } if !raised.contains(&at) => return Stop::At(packet),
            Does::Launch { .. } | Does::Copy { .. } | Does::Fill { .. } | Does::Unknown { .. } => {
                return Stop::Works(packet);
            }
            Does::Signal { at, .. } if *at == queue.timeline.at => return Stop::Works(packet),
            Does::Signal { at, .. } => raised.push(at),
            Does::Wait { .. } => {}
        }
    }
    Stop::Idle
}

/// The queue that has a signal in flight which ends a wait.
fn raiser<'a>(wait: &Packet, busy: &[&'a Queue]) -> Option<&'a Queue> {
    let Does::Wait { at, value, .. } = &wait.does else {
        return None;
    };
    let raises = |packet: &Packet| matches!(&packet.does, Does::Signal { at: of, value: to } if of == at && to >= value);
    busy.iter()
        .find(|queue| queue.in_flight.iter().any(raises))
        .copied()
}

fn circle(path: &[&Queue]) -> Explanation {
    let mut names: Vec<_> = path.iter().map(|queue| &*queue.name).collect();
    if let [alone] = names[..] {
        return Explanation::new("deadlock", format!("{alone} waits for its own later work"))
            .then("Signal before the wait, or wait on another queue");
    }
    names.push(&path[0].name);
    let mut found = Explanation::new(
        "deadlock",
        format!("queues wait for each other: {}", names.join(" for ")),
    );
    for queue in path {
        if let Stop::At(packet) = stop(queue) {
            found = found.because(format!("{} is at {}", queue.name, packet.text));
        }
    }
    found.then(
        "On each queue, submit the work that raises a signal before the work that waits for it",
    )
}

fn of_queue(queue: &Queue) -> Explanation {
    let name = &queue.name;
    let found = match stop(queue) {
        Stop::Idle => Explanation::new("unknown", "unknown: nothing is in flight"),
        Stop::Unheard => Explanation::new(
            "not-fetched",
            format!("the device did not fetch the work submitted to {name}: its doorbell had no effect, or the queue \
                     is not scheduled"),
        )
        .because(format!(
            "{name}: {} dwords written, {} fetched by the device, {} done",
            queue.written,
            queue.taken.unwrap_or_default(),
            queue.done
        ))
        .then("Check whether another program keeps the GPU busy, and whether the machine was suspended")
        .then("Open the device again; if it recurs, see `dmesg`"),
        Stop::At(packet) => never_raised(name, packet),
        Stop::Works(packet) => works(name, packet),
    };
    found.because(format!(
        "{name}: wptr {}, rptr {}, doorbell {}, dwords {:#x} to {:#x} in flight, fence {} of {}",
        queue.wptr,
        queue.rptr,
        queue.doorbell,
        queue.done,
        queue.written,
        queue.fences[1],
        queue.fences[0]
    ))
}

fn never_raised(name: &str, packet: &Packet) -> Explanation {
    Explanation::new(
        "signal-never-raised",
        format!("{name} waits for a signal that no work in flight raises"),
    )
    .because(format!("{name} is at {}", packet.text))
    .then("Find the missing signal: by the host (Signal::set), another process, or work that was never submitted")
}

fn works(name: &str, packet: &Packet) -> Explanation {
    let found = match &packet.does {
        Does::Launch { kernel, .. } => {
            let which = kernel.as_deref().map_or("a kernel".to_owned(), |kernel| format!("kernel {kernel}"));
            Explanation::new("kernel-endless", format!("{which} does not end"))
                .then("Look for an endless loop, or a barrier that some threads miss")
                .then("If this kernel is just long, raise HCQDEV_WAIT_TIMEOUT_MS: not every interface can tell a long \
                       kernel from a hung one")
                .then("Check that the kernel was compiled for this chip: with a kernel driver, traps and illegal \
                       instructions look the same")
        }
        Does::Copy { .. } | Does::Fill { .. } => {
            Explanation::new("copy-endless", format!("a copy or fill on {name} does not end"))
                .then("Check that its memory is reachable: on another GPU, or host memory behind a link that is down")
        }
        Does::Signal { .. } => Explanation::new(
            "signal-not-seen",
            format!("all work on {name} is done, but its last signal is not visible to the host"),
        )
        .then("Check that signal memory is uncached for the device"),
        Does::Unknown { .. } => Explanation::new("bad-packet", format!("{name} has reached an invalid packet"))
            .then("Check whether the ring was overwritten: see the submissions in `queues` of the bundle")
            .then("Find where that word was submitted: a packet of another generation, or a wrong length of the \
                   previous packet"),
        Does::Wait { .. } => Explanation::new("unknown", "unknown: the queue waits for its own parts"),
    };
    found.because(format!("{name} is at {}", packet.text))
}

fn idle(bundle: &Bundle) -> Explanation {
    let what = bundle.wait.as_ref().map_or("something", |wait| &*wait.what);
    let what = what.split(" (").next().unwrap_or(what);
    let found = Explanation::new(
        "signal-never-submitted",
        format!("no work in flight raises the awaited signal ({what})"),
    );
    let found = match &bundle.wait {
        None => found,
        Some(wait) => found.because(format!(
            "{what}: expected at least {}, found {} after {} ms; no queue has work",
            wait.wanted, wait.seen, wait.after_ms
        )),
    };
    found.then(
        "Find the submission that should raise it: it was never made, or raised a smaller value",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Altered, Hex, Kind, Owner, Timeline, Waited};

    fn packet(position: u64, does: Does) -> Packet {
        Packet {
            position,
            text: format!("{does:?}")
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_lowercase(),
            does,
        }
    }

    fn wait(at: u64) -> Packet {
        packet(
            0,
            Does::Wait {
                at: Hex(at),
                value: Hex(1),
                test: ">=".into(),
                now: Some(Hex(0)),
                over: false,
                own: false,
                owner: Owner::Nobody,
            },
        )
    }

    fn signal(at: u64) -> Packet {
        packet(
            8,
            Does::Signal {
                at: Hex(at),
                value: Hex(1),
            },
        )
    }

    fn queue(name: &str, in_flight: Vec<Packet>) -> Queue {
        Queue {
            name: name.into(),
            written: 64,
            done: 8,
            taken: Some(16),
            timeline: Timeline {
                at: Hex(0xff0),
                ..Timeline::default()
            },
            in_flight,
            ..Queue::default()
        }
    }

    fn cause(queues: Vec<Queue>) -> &'static str {
        let bundle = Bundle {
            kind: Kind::Hang,
            queues,
            wait: Some(Waited {
                what: "signal compute queue 0 timeline (copy 0: x)".into(),
                wanted: 1,
                ..Waited::default()
            }),
            ..Bundle::default()
        };
        explain(&bundle).cause
    }

    #[test]
    fn where_queues_stand_says_why() {
        let launch = || {
            packet(
                0,
                Does::Launch {
                    code: Hex(0),
                    kernel: Some("add".into()),
                },
            )
        };
        let copy = || {
            packet(
                0,
                Does::Copy {
                    dst: Hex(0),
                    src: Hex(0),
                    bytes: Hex(1),
                },
            )
        };
        assert_eq!(cause(vec![]), "signal-never-submitted");
        assert_eq!(
            cause(vec![queue("compute 0", vec![wait(1)])]),
            "signal-never-raised"
        );
        assert_eq!(
            cause(vec![queue("compute 0", vec![launch(), signal(0xff0)])]),
            "kernel-endless"
        );
        assert_eq!(cause(vec![queue("copy 0", vec![copy()])]), "copy-endless");
        assert_eq!(
            cause(vec![queue("compute 0", vec![signal(0xff0)])]),
            "signal-not-seen"
        );
        let unknown = packet(
            0,
            Does::Unknown {
                word: Hex(0xc000_0500),
            },
        );
        assert_eq!(
            cause(vec![queue("compute 0", vec![unknown, signal(0xff0)])]),
            "bad-packet"
        );
        let unheard = Queue {
            taken: Some(8),
            ..queue("compute 0", vec![launch()])
        };
        assert_eq!(cause(vec![unheard]), "not-fetched");
        // It is not yet fetched, and would wait for another queue.
        let waits = Queue {
            taken: Some(8),
            ..queue("copy 0", vec![wait(5), copy()])
        };
        let endless = queue("compute 0", vec![launch(), signal(5), signal(0xff0)]);
        let mut bundle = vec![waits, endless];
        assert_eq!(cause(bundle.clone()), "kernel-endless");
        bundle[1].in_flight.remove(1);
        bundle[1].name = "compute 1".into();
        assert_eq!(cause(bundle), "not-fetched");
        // What wakes the host, behind the end.
        let done = queue("compute 0", vec![signal(0xff8)]);
        assert_eq!(cause(vec![done]), "signal-never-submitted");
        // A barrier of the queue's own, then what holds it.
        let barrier = vec![signal(3), wait(3), wait(1)];
        assert_eq!(cause(vec![queue("copy 0", barrier)]), "signal-never-raised");
        let silent = Queue {
            taken: Some(0),
            ..queue("compute 0", vec![launch()])
        };
        assert_eq!(cause(vec![silent]), "kernel-endless");
        let altered = Queue {
            altered: Some(Altered::default()),
            ..queue("compute 0", vec![launch()])
        };
        assert_eq!(cause(vec![altered]), "ring-overwritten");
    }

    #[test]
    fn what_waits_for_another_is_followed_to_the_end() {
        let compute = queue("compute 0", vec![wait(1), signal(2)]);
        assert_eq!(
            cause(vec![
                compute.clone(),
                queue("copy 0", vec![wait(2), signal(1)])
            ]),
            "deadlock"
        );
        assert_eq!(
            cause(vec![queue("compute 0", vec![wait(1), signal(1)])]),
            "deadlock"
        );
        let launch = packet(
            0,
            Does::Launch {
                code: Hex(0),
                kernel: None,
            },
        );
        assert_eq!(
            cause(vec![compute, queue("copy 0", vec![launch, signal(1)])]),
            "kernel-endless"
        );
    }
}
