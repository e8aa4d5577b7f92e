//! The cause of what a device said went wrong.

use super::{Explanation, cable};
use crate::schema::{Bundle, Exception, Owner, Step};

pub(super) fn explain(bundle: &Bundle, exception: &Exception) -> Explanation {
    match exception {
        Exception::Memory { cause, .. } if cause != "page fault" => memory_error(bundle, cause),
        Exception::Memory { .. } => page(bundle, exception),
        Exception::Refused {
            unit, what, owner, ..
        } => refused(bundle, unit, what, owner.as_ref()),
        Exception::Reset {
            uncorrectable,
            memory_lost,
            engine,
        } => reset(bundle, *engine, *uncorrectable, *memory_lost),
        Exception::Broken { unit, what } => broken(bundle, unit, what),
    }
}

fn dmesg(bundle: &Bundle) -> String {
    match &*bundle.device.log {
        "" => "Look into the system's log: `dmesg`".into(),
        log => format!("Look into the system's log: `dmesg | grep {log}`"),
    }
}

/// What is below was reached by a pointer that is zero: nothing is ever mapped there.
const NULL: u64 = 64 << 10;

/// An address that was not to be used.
fn page(bundle: &Bundle, exception: &Exception) -> Explanation {
    let Exception::Memory {
        va,
        access,
        read_only,
        no_execute,
        owner,
        guilty,
        ..
    } = exception
    else {
        return Explanation::new("unknown", "it is not known");
    };
    let does = match access.as_deref() {
        Some("write") => "writes",
        Some("atomic") => "does an atomic operation",
        Some("read") => "reads",
        _ => "accesses memory",
    };
    let who = match guilty {
        Some([_, what]) => what
            .split(", whose argument")
            .next()
            .unwrap_or(what)
            .to_owned(),
        None => "something in flight".into(),
    };
    let found = match owner {
        _ if *read_only => Explanation::new(
            "write-to-read-only",
            format!("{who} writes to memory that may only be read"),
        )
        .then("Map that memory for writes, or let the kernel write elsewhere"),
        _ if *no_execute => Explanation::new(
            "not-executable",
            format!("{who} fetches code from memory that holds none"),
        )
        .then("Look at the address of the code: a program that was unloaded while it ran, or a wrong descriptor"),
        Owner::Freed(span) => Explanation::new(
            "use-after-free",
            format!("{who} {does} in {} after that was freed", span.what),
        )
        .then("Keep the buffer until the work that names it is done: a point or a timeline says when"),
        Owner::Behind(span) => Explanation::new(
            "out-of-bounds",
            format!("{who} {does} {} bytes behind the end of {}", span.distance, span.what),
        )
        .then("Compare the size of the buffer with the grid and the indices of the kernel"),
        Owner::Before(span) => Explanation::new(
            "out-of-bounds",
            format!("{who} {does} {} bytes before the start of {}", span.distance, span.what),
        )
        .then("Look for an index that becomes negative"),
        Owner::Inside(span) => Explanation::new(
            "not-mapped-here",
            format!(
                "{who} {does} in {}, which is there and which this GPU does not have mapped",
                span.what
            ),
        )
        .then("Look whether the memory is another device's, and whether it was mapped for this one"),
        Owner::Nobody if va.0 < NULL => Explanation::new(
            "null-pointer",
            format!("{who} {does} at {va}: by a pointer that was never set, or one that was and a small offset"),
        )
        .then("Look which argument of the kernel is zero"),
        Owner::Nobody => Explanation::new(
            "wild-address",
            format!("{who} {does} at an address that no buffer is near"),
        )
        .then("Look at the arguments of the kernel: one that is no pointer, or was never set"),
    };
    let freed = match owner {
        Owner::Freed(_) => ", which was freed",
        _ => "",
    };
    let page = format!("the page at {va} could not be used; it is {owner}{freed}");
    let mut found = found.because(page);
    if let Some([queue, what]) = guilty {
        found = found.because(format!("in flight on {queue}: {what}"));
    }
    if let Some(Step {
        level,
        at,
        entry,
        text,
    }) = bundle.evidence.walk.last()
    {
        found = found.because(format!(
            "the walk of the page tables ends at {level}, entry {entry} at {at}: {text}"
        ));
    }
    found.then("DEBUG=4 prints the source of each kernel, DEBUG=2 names the one that runs")
}

fn memory_error(bundle: &Bundle, cause: &str) -> Explanation {
    let found = match cause {
        "hang" => Explanation::new("gpu-hang", "the kernel driver found the GPU hanging"),
        "poison" => Explanation::new("memory-error", "memory that had lost its content was used"),
        _ => Explanation::new(
            "memory-error",
            "memory of the GPU had an error that could not be corrected",
        ),
    };
    found
        .because("the kernel driver says so: it is not the program's doing")
        .then(dmesg(bundle))
        .then("Run again; if it comes back, test the memory of the card, and its cooling and power")
}

fn reset(bundle: &Bundle, engine: bool, uncorrectable: bool, memory_lost: bool) -> Explanation {
    let what = if engine {
        "an engine of the GPU"
    } else {
        "the GPU"
    };
    let text = match uncorrectable {
        true => {
            format!("{what} was reset, because its memory had an error that could not be corrected")
        }
        false => format!("{what} was reset, because something on it hung"),
    };
    let mut found = Explanation::new(
        if uncorrectable {
            "memory-error"
        } else {
            "gpu-reset"
        },
        text,
    );
    if memory_lost {
        found = found.because("what was in its memory is lost");
    }
    let running = bundle.queues.iter().find_map(|queue| {
        let packet = queue.in_flight.first()?;
        Some(format!("in flight on {}: {}", queue.name, packet.text))
    });
    found.evidence.extend(running);
    found.then(dmesg(bundle)).then(
        "If it was a kernel of this program that hung, run it alone (`doorbell bench`, DEBUG=2)",
    )
}

fn broken(bundle: &Bundle, unit: &str, what: &str) -> Explanation {
    if let Some(found) = cable::explain(what).filter(|_| bundle.device.interface == "USB") {
        let mut found = found.because(format!("{unit}: {what}"));
        let way = bundle.evidence.way.iter();
        found
            .evidence
            .extend(way.map(|[name, text]| format!("{name}: {text}")));
        return found.then(dmesg(bundle));
    }
    let gone = ["is gone", "gone", "left the bus", "0xffffffff", "unplugged"];
    let is_gone = gone.iter().any(|word| what.contains(word));
    let found = match is_gone {
        true => Explanation::new(
            "device-gone",
            "the device is gone: it does not answer on its bus any more",
        ),
        false => Explanation::new(
            "unreachable",
            format!("{unit} of the device cannot be reached"),
        ),
    };
    let errors = bundle.system.files.iter().filter(|[path, text]| {
        path.contains("/aer_dev_") && text.lines().any(|line| !line.ends_with(" 0"))
    });
    let mut found = found.because(format!("{unit}: {what}"));
    for [path, text] in errors {
        let counts: Vec<_> = text.lines().filter(|line| !line.ends_with(" 0")).collect();
        found = found.because(format!("errors of the link, {path}: {}", counts.join(", ")));
    }
    found
        .then("Look at power and cable, and whether the card is still listed: `lspci`, `doorbell doctor`")
        .then(dmesg(bundle))
}

/// What hardware refuses: what the unit says, and what that means.
const REFUSALS: [(&str, &str, &str, &str); 13] = [
    (
        "illegal instruction",
        "illegal-instruction",
        "a kernel has an instruction that the GPU does not know",
        "Look whether the kernel was compiled for this chip, and whether its code was overwritten",
    ),
    (
        "illegal",
        "illegal-instruction",
        "a kernel has an instruction that the GPU does not take",
        "Look whether the kernel was compiled for this chip",
    ),
    (
        "misaligned address",
        "misaligned",
        "a kernel accesses an address that is no multiple of the access's size",
        "Look at vector loads of the kernel, and at offsets of views that it is given",
    ),
    (
        "address out of range",
        "local-out-of-bounds",
        "a kernel goes beyond its shared or local memory",
        "Compare the shared memory that was asked for with the indices of the kernel",
    ),
    (
        "memory violation",
        "misaligned",
        "a kernel accesses an address that is not aligned, or beyond an aperture",
        "Look at vector loads of the kernel, and at its local memory",
    ),
    (
        "could not be corrected",
        "memory-error",
        "memory inside of the GPU had an error",
        "Run again; if it comes back, the card is defective",
    ),
    (
        "a packet that it does not know",
        "bad-packet",
        "the command processor read something that is no packet",
        "Look whether the ring was overwritten: `queues` in the bundle has what was submitted",
    ),
    (
        "Xid 32",
        "bad-packet",
        "the GPU read something that is no method of its engine",
        "Look whether a push buffer was overwritten: `queues` in the bundle has what was submitted",
    ),
    (
        "may not",
        "forbidden-packet",
        "a packet uses what queues may not",
        "Look at the packets in flight in the bundle",
    ),
    (
        "hangs",
        "engine-hang",
        "an engine of the GPU hangs",
        "Look at the packets in flight in the bundle",
    ),
    (
        "Xid 109",
        "kernel-endless",
        "a kernel did not end in the time that its context has",
        "Look for a loop or a barrier that not all threads reach",
    ),
    (
        "Xid 13",
        "kernel-exception",
        "a kernel raised an exception (a trap, an assertion, a bad access)",
        "Run the kernel alone; DEBUG=4 prints its source",
    ),
    (
        "Xid",
        "channel-died",
        "the kernel driver ended the channel",
        "Look up the number of the Xid in the vendor's list",
    ),
];

fn refused(bundle: &Bundle, unit: &str, what: &str, owner: Option<&Owner>) -> Explanation {
    let known = REFUSALS.iter().find(|(said, ..)| what.contains(said));
    let found = match known {
        Some((_, cause, text, next)) => Explanation::new(cause, *text).then(*next),
        None => Explanation::new("refused", format!("{unit} refused something: {what}")),
    };
    let mut found = found.because(format!("{unit} says: {what}"));
    if let Some(owner) = owner.filter(|owner| **owner != Owner::Nobody) {
        found = found.because(format!("the address is {owner}"));
    }
    let launch = bundle.queues.iter().find_map(|queue| {
        let packet = queue.in_flight.first()?;
        Some(format!("in flight on {}: {}", queue.name, packet.text))
    });
    found.evidence.extend(launch);
    found.then(dmesg(bundle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Hex, Span};

    fn fault(owner: Owner) -> Exception {
        Exception::Memory {
            va: Hex(0x7000),
            cause: "page fault".into(),
            access: Some("write".into()),
            not_present: true,
            read_only: false,
            no_execute: false,
            owner,
            guilty: Some([
                "compute 0".into(),
                "the launch of kernel add, whose argument at byte 0 is 0x7010".into(),
            ]),
        }
    }

    fn span(distance: u64) -> Span {
        Span {
            what: "device memory".into(),
            start: Hex(0x6000),
            bytes: Hex(0x1000),
            distance: Hex(distance),
        }
    }

    #[test]
    fn whose_the_address_is_says_what_was_wrong() {
        let told = |owner| {
            let found = explain(&Bundle::default(), &fault(owner));
            (found.cause, found.text)
        };
        assert_eq!(
            told(Owner::Freed(span(0))),
            (
                "use-after-free",
                "the launch of kernel add writes in device memory after that was freed".into()
            )
        );
        assert_eq!(
            told(Owner::Behind(span(0x10))),
            (
                "out-of-bounds",
                "the launch of kernel add writes 0x10 bytes behind the end of device memory".into()
            )
        );
        assert_eq!(told(Owner::Before(span(8))).0, "out-of-bounds");
        assert_eq!(told(Owner::Nobody).0, "null-pointer");
        let far = Exception::Memory {
            va: Hex(0x7000_0000),
            cause: "page fault".into(),
            access: None,
            not_present: true,
            read_only: false,
            no_execute: false,
            owner: Owner::Nobody,
            guilty: None,
        };
        assert_eq!(explain(&Bundle::default(), &far).cause, "wild-address");
        assert_eq!(told(Owner::Inside(span(0))).0, "not-mapped-here");
    }

    #[test]
    fn what_units_refuse_has_names() {
        let told = |what: &str| refused(&Bundle::default(), "shader", what, None).cause;
        for (what, cause) in [
            ("illegal instruction (SQ 0x1:0x2)", "illegal-instruction"),
            (
                "a packet wrote a register that queues may not write",
                "forbidden-packet",
            ),
            ("a packet that it does not know", "bad-packet"),
            ("the channel has died: Xid 32 (CHANNEL)", "bad-packet"),
            ("the channel has died: Xid 999", "channel-died"),
            ("no reason", "refused"),
        ] {
            assert_eq!(told(what), cause, "{what}");
        }
    }

    #[test]
    fn a_device_that_left_is_told_with_the_errors_of_its_link() {
        let mut bundle = Bundle::default();
        bundle
            .system
            .files
            .push(["/x/aer_dev_fatal".into(), "DLP 0\nSDES 2".into()]);
        let found = broken(&bundle, "GPU", "it is gone (Xid 79)");
        assert_eq!(found.cause, "device-gone");
        assert_eq!(
            found.evidence[1],
            "errors of the link, /x/aer_dev_fatal: SDES 2"
        );
        assert_eq!(broken(&bundle, "HDP", "timed out").cause, "unreachable");
    }
}
