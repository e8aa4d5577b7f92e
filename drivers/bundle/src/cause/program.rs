//! The cause of a program that was ended on a simulated card before it was done, by what the card had not done for it.

use super::Explanation;
use crate::schema::{Blocked, Bundle, Undone};

pub(super) fn explain(bundle: &Bundle) -> Explanation {
    let all = &bundle.undone;
    // What runs goes before what may wait for that.
    let is = |wanted: fn(&Undone) -> bool| all.iter().find(|one| wanted(one));
    let first = is(|one| matches!(one.kept, Blocked::Work { .. }))
        .or_else(|| is(|one| matches!(one.kept, Blocked::Other { .. }) && is_queue(one)))
        .or_else(|| is(|one| matches!(one.kept, Blocked::Memory { .. })))
        .or_else(|| all.first());
    let Some(first) = first else {
        return Explanation::new(
            "nothing-in-flight",
            "the program has no work left on the card: it waits for work it never submitted, or for itself",
        )
        .because("no queue has work, and no thread waits for a kernel driver event")
        .then("Find where the program is with a debugger");
    };
    let mut found = of(first, all.len());
    for one in all {
        let at = match &*one.at {
            "" => String::new(),
            at => format!(" is at {at}:"),
        };
        found = found.because(format!("{}{at} {}", one.who, kept(&one.kept)));
    }
    found.then("Record the run with `doorbell twin exec --record FILE`, show it packet by packet with `twin replay \
                --show FILE`")
}

/// Others are processes that wait.
fn is_queue(one: &Undone) -> bool {
    !one.who.starts_with("process ")
}

fn kept(kept: &Blocked) -> String {
    match kept {
        Blocked::Memory { why, .. } | Blocked::Other { why } => why.clone(),
        Blocked::Work { what } => format!("runs {what}"),
    }
}

fn of(first: &Undone, all: usize) -> Explanation {
    let who = &first.who;
    match &first.kept {
        Blocked::Work { .. } => {
            Explanation::new("kernel-endless", format!("work on {who} does not end")).then(
                "Look for an endless loop, or one that waits for later work in the same queue",
            )
        }
        Blocked::Memory { va, now, .. } => {
            let others = match all {
                1 => "no other work of the program is in flight",
                _ => "the other queues wait too, or did not write it",
            };
            let text = format!("{who} waits for memory at {va}, which holds {now}: {others}");
            Explanation::new("signal-never-raised", text)
                .then(format!("Find the missing write to {va}: by the program, or by a queue whose doorbell was not \
                               rung"))
        }
        Blocked::Other { why } if is_queue(first) => Explanation::new(
            "not-fetched",
            format!("{who} makes no progress: {why}"),
        )
        .then(
            "Check the configuration of the simulated machine, and whether the queue was scheduled",
        ),
        Blocked::Other { why } => {
            let text =
                format!("the program waits for the kernel driver and has no work in flight: {why}");
            Explanation::new("event-never-signalled", text).then(
                "Check the packet that should signal the event: it needs the event's number, a prior write to its \
                 slot, and an interrupt",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Hex, Kind};

    fn cause(undone: Vec<Undone>) -> Explanation {
        let mut bundle = Bundle {
            kind: Kind::Hang,
            undone,
            ..Bundle::default()
        };
        bundle.device.interface = super::super::PROGRAM.into();
        super::super::explain(&bundle)
    }

    fn undone(who: &str, kept: Blocked) -> Undone {
        Undone {
            who: who.into(),
            at: "POLL_REGMEM".into(),
            kept,
        }
    }

    #[test]
    fn what_was_not_done_says_why() {
        let waits = || {
            undone(
                "queue 1",
                Blocked::Memory {
                    va: Hex(0x7000),
                    now: Hex(3),
                    why: "[0x7000] is 0x3, waits for it == 0x4".into(),
                },
            )
        };
        let runs = undone(
            "queue 2",
            Blocked::Work {
                what: "a dispatch".into(),
            },
        );
        let hangs = undone(
            "queue 3",
            Blocked::Other {
                why: "it hangs".into(),
            },
        );
        let event = || {
            undone(
                "process 1",
                Blocked::Other {
                    why: "event 5 is not signalled".into(),
                },
            )
        };
        let found = cause(vec![event(), waits()]);
        assert_eq!(found.cause, "signal-never-raised");
        assert!(
            found
                .text
                .contains("queue 1 waits for memory at 0x7000, which holds 0x3"),
            "{found}"
        );
        assert_eq!(
            found.evidence[1],
            "queue 1 is at POLL_REGMEM: [0x7000] is 0x3, waits for it == 0x4"
        );
        assert_eq!(cause(vec![waits(), hangs]).cause, "not-fetched");
        assert_eq!(cause(vec![waits(), runs]).cause, "kernel-endless");
        assert_eq!(cause(vec![event()]).cause, "event-never-signalled");
        assert_eq!(cause(Vec::new()).cause, "nothing-in-flight");
    }
}
