//! The cause of a fault that a device reported.

use super::{Explanation, cable};
use crate::schema::{Bundle, Exception, Hex, Owner, Step};

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
        "" => "See `dmesg`".into(),
        log => format!("See `dmesg | grep {log}`"),
    }
}

/// Addresses below come from a null pointer: nothing is ever mapped there.
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
        return Explanation::new("unknown", "unknown");
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
        None => "work in flight".into(),
    };
    let found = if *read_only {
        Explanation::new(
            "write-to-read-only",
            format!("{who} writes to read-only memory"),
        )
        .then("Map the memory writable, or let the kernel write elsewhere")
    } else if *no_execute {
        Explanation::new(
            "not-executable",
            format!("{who} fetches code from non-executable memory"),
        )
        .then("Check the code address: a program unloaded while it ran, or a wrong descriptor")
    } else {
        by_owner(owner, &format!("{who} {does}"), *va)
    };
    let freed = match owner {
        Owner::Freed(_) => ", which was freed",
        _ => "",
    };
    let page = format!("the faulting page at {va} is {owner}{freed}");
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
            "the page table walk ends at {level}, entry {entry} at {at}: {text}"
        ));
    }
    found.then("DEBUG=4 prints the source of each kernel, DEBUG=2 names the one that runs")
}

/// What kind of mistake it is, by what lies at the address.
fn by_owner(owner: &Owner, doing: &str, va: Hex) -> Explanation {
    match owner {
        Owner::Freed(span) => Explanation::new(
            "use-after-free",
            format!("{doing} in {} after it was freed", span.what),
        )
        .then(
            "Keep the buffer until the work that uses it is done (wait for its point or timeline)",
        ),
        Owner::Behind(span) => Explanation::new(
            "out-of-bounds",
            format!(
                "{doing} {} bytes past the end of {}",
                span.distance, span.what
            ),
        )
        .then("Compare the size of the buffer with the grid and the indices of the kernel"),
        Owner::Before(span) => Explanation::new(
            "out-of-bounds",
            format!(
                "{doing} {} bytes before the start of {}",
                span.distance, span.what
            ),
        )
        .then("Look for an index that becomes negative"),
        Owner::Inside(span) => Explanation::new(
            "not-mapped-here",
            format!("{doing} in {}, which is not mapped on this GPU", span.what),
        )
        .then("Check whether the memory belongs to another device, and map it for this one"),
        Owner::Nobody if va.0 < NULL => Explanation::new(
            "null-pointer",
            format!("{doing} at {va}: a null pointer, possibly with a small offset"),
        )
        .then("Find the kernel argument that is zero"),
        Owner::Nobody => Explanation::new(
            "wild-address",
            format!("{doing} at an address near no buffer"),
        )
        .then("Check the kernel arguments: one is not a pointer, or was never set"),
    }
}

fn memory_error(bundle: &Bundle, cause: &str) -> Explanation {
    let found = match cause {
        "hang" => Explanation::new("gpu-hang", "the kernel driver detected a GPU hang"),
        "poison" => Explanation::new("memory-error", "poisoned memory was accessed"),
        _ => Explanation::new("memory-error", "uncorrectable error in GPU memory"),
    };
    found
        .because("reported by the kernel driver; not caused by the program")
        .then(dmesg(bundle))
        .then("Rerun; if it recurs, test the card's memory, cooling and power")
}

fn reset(bundle: &Bundle, engine: bool, uncorrectable: bool, memory_lost: bool) -> Explanation {
    let what = if engine {
        "an engine of the GPU"
    } else {
        "the GPU"
    };
    let text = match uncorrectable {
        true => {
            format!("{what} was reset after an uncorrectable memory error")
        }
        false => format!("{what} was reset after a hang"),
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
        found = found.because("device memory contents are lost");
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
            format!("{unit} of the device does not respond"),
        ),
    };
    let errors = bundle.system.files.iter().filter(|[path, text]| {
        path.contains("/aer_dev_") && text.lines().any(|line| !line.ends_with(" 0"))
    });
    let mut found = found.because(format!("{unit}: {what}"));
    for [path, text] in errors {
        let counts: Vec<_> = text.lines().filter(|line| !line.ends_with(" 0")).collect();
        found = found.because(format!("link errors, {path}: {}", counts.join(", ")));
    }
    found
        .then("Check power and cable, and whether the card is still listed (`lspci`, `doorbell doctor`)")
        .then(dmesg(bundle))
}

/// Hardware exceptions: the unit's text, and its meaning.
const REFUSALS: [(&str, &str, &str, &str); 16] = [
    (
        "illegal instruction",
        "illegal-instruction",
        "a kernel contains an instruction unknown to the GPU",
        "Check that the kernel was compiled for this chip and its code was not overwritten",
    ),
    (
        "illegal",
        "illegal-instruction",
        "a kernel contains an instruction the GPU rejects",
        "Check that the kernel was compiled for this chip",
    ),
    (
        "misaligned address",
        "misaligned",
        "a kernel accesses an address not aligned to the access size",
        "Check the kernel's vector loads, and the offsets of the views passed to it",
    ),
    (
        "address out of range",
        "local-out-of-bounds",
        "a kernel accesses past its shared or local memory",
        "Compare the requested shared memory with the kernel's indices",
    ),
    (
        "memory violation",
        "misaligned",
        "a kernel accesses a misaligned address, or one outside an aperture",
        "Check the kernel's vector loads and local memory",
    ),
    (
        "uncorrectable",
        "memory-error",
        "memory error inside the GPU",
        "Rerun; if it recurs, the card is defective",
    ),
    (
        "unknown packet",
        "bad-packet",
        "the command processor read an invalid packet",
        "Check whether the ring was overwritten: see the submissions in `queues` of the bundle",
    ),
    (
        "Xid 32",
        "bad-packet",
        "the GPU read a method its engine does not have",
        "Check whether a push buffer was overwritten: see the submissions in `queues` of the bundle",
    ),
    (
        "privileged",
        "forbidden-packet",
        "a packet uses a privileged register, packet or instruction",
        "Check the packets in flight in the bundle",
    ),
    (
        "queue hang",
        "engine-hang",
        "an engine of the GPU hangs",
        "Check the packets in flight in the bundle",
    ),
    (
        "Xid 109",
        "kernel-endless",
        "a kernel exceeded the time limit of its context",
        "Look for an endless loop, or a barrier that some threads miss",
    ),
    (
        "Xid 13",
        "kernel-exception",
        "a kernel raised an exception (a trap, an assertion, a bad access)",
        "Run the kernel alone; DEBUG=4 prints its source",
    ),
    (
        "guilty (this context)",
        "gpu-hang",
        "a submission has hung the GPU, or has run for longer than the kernel driver allows",
        "Look for an endless loop, a barrier that some threads miss, or a wait for a signal that comes late",
    ),
    (
        "innocent (another context)",
        "gpu-reset",
        "another program has hung the GPU",
        "Rerun without the other program",
    ),
    (
        "after a hang or fault of the GPU",
        "gpu-hang",
        "the kernel driver has dropped work that hung the GPU",
        "Look for an endless loop, a barrier that some threads miss, or an address outside of buffers",
    ),
    (
        "Xid",
        "channel-died",
        "the kernel driver ended the channel",
        "Look up the Xid in NVIDIA's documentation",
    ),
];

fn refused(bundle: &Bundle, unit: &str, what: &str, owner: Option<&Owner>) -> Explanation {
    let known = REFUSALS.iter().find(|(said, ..)| what.contains(said));
    let found = match known {
        Some((_, cause, text, next)) => Explanation::new(cause, *text).then(*next),
        None => Explanation::new("refused", format!("{unit} reported: {what}")),
    };
    let mut found = found.because(format!("{unit} reports: {what}"));
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
                "the launch of kernel add writes in device memory after it was freed".into()
            )
        );
        assert_eq!(
            told(Owner::Behind(span(0x10))),
            (
                "out-of-bounds",
                "the launch of kernel add writes 0x10 bytes past the end of device memory".into()
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
            ("a packet wrote a privileged register", "forbidden-packet"),
            ("unknown packet", "bad-packet"),
            ("the channel has died: Xid 32 (CHANNEL)", "bad-packet"),
            ("the channel has died: Xid 999", "channel-died"),
            ("reset status: guilty (this context)", "gpu-hang"),
            ("reset status: innocent (another context)", "gpu-reset"),
            (
                "dropped 1 submissions after a hang or fault of the GPU",
                "gpu-hang",
            ),
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
        let found = broken(&bundle, "GPU", "the GPU is gone (Xid 79)");
        assert_eq!(found.cause, "device-gone");
        assert_eq!(found.evidence[1], "link errors, /x/aer_dev_fatal: SDES 2");
        assert_eq!(broken(&bundle, "HDP", "timed out").cause, "unreachable");
    }
}
