//! Every call is refused once, each way that it may be: what comes of it is an error that says so, or
//! nothing worse than a warning; and nothing is left.

use std::collections::BTreeSet;

use drivers_nv::Options;
use hcq::Error;

use super::bench::{left, twin, use_all};

/// What the driver answers, and the system.
const STATUSES: [&str; 9] = [
    "NV_ERR_NO_MEMORY",
    "NV_ERR_INSUFFICIENT_RESOURCES",
    "NV_ERR_INSUFFICIENT_PERMISSIONS",
    "NV_ERR_INVALID_STATE",
    "NV_ERR_INVALID_ARGUMENT",
    "NV_ERR_NOT_SUPPORTED",
    "NV_ERR_TIMEOUT",
    "NV_ERR_GENERIC",
    "NV_ERR_GPU_IS_LOST",
];
const ERRNOS: [&str; 4] = ["ENOMEM", "EINVAL", "EIO", "ENODEV"];

/// Calls that have no place for a status.
const WITHOUT: [&str; 5] = [
    "open",
    "mmap",
    "CARD_INFO",
    "REGISTER_FD",
    "CHECK_VERSION_STR",
];

/// Whichever call it is.
const ANY: &str = "any";

/// The calls of a use of everything, by name.
fn calls(options: &Options) -> BTreeSet<String> {
    // Counted where one shall fail: one that nobody makes.
    let twin = twin("chip=h100,fault=call:nothing:EIO");
    use_all(&twin, options).unwrap();
    let counted = twin.machine().calls().into_iter();
    counted.filter(|call| call != ANY).collect()
}

/// Refuses a call: the first of its name, the second, as often as it is made.
fn refused(options: &Options, call: &str, how: &str, most: u32) {
    for nth in 1..=most {
        let twin = twin(&format!("chip=h100,fault=call:{call}:{how}:{nth}"));
        let used = use_all(&twin, options);
        let left = left(&twin);
        assert!(left.is_empty(), "{call}, {how}, call {nth}: {left:#?}");
        let broken = twin.machine().broken_rules();
        assert!(broken.is_empty(), "{call}, {how}, call {nth}: {broken:#?}");
        if let Err(error) = used {
            told(&error, call, how);
        }
        if twin.machine().faults_fired() == 0 {
            assert!(nth > 1, "{call} is never made");
            break;
        }
        // Where one fails, the process goes on.
        use_all(&twin, options).unwrap();
        assert!(twin.machine().state().is_empty());
    }
}

/// An error says what was refused, and how.
fn told(error: &Error, call: &str, how: &str) {
    let text = error.to_string();
    assert!(call == ANY || text.contains(how), "{call}, {how}: {text}");
    let typed = matches!(
        error,
        Error::Os { .. }
            | Error::OutOfMemory { .. }
            | Error::Fault { .. }
            | Error::NoDevice { .. }
            | Error::NoPermission { .. }
    );
    assert!(typed, "{call}, {how}: {error:?}");
}

fn every_call(options: &Options) {
    for call in calls(options) {
        let system = WITHOUT.contains(&&*call);
        let ways = if system { &ERRNOS[..] } else { &STATUSES[..] };
        for how in ways {
            refused(options, &call, how, 1);
        }
        let (status, errno) = ("NV_ERR_NO_MEMORY", "ENOMEM");
        refused(options, &call, if system { errno } else { status }, 40);
    }
}

#[test]
fn a_call_that_is_to_be_made_again_is_made_again() {
    let options = Options::default();
    for call in calls(&options) {
        if WITHOUT.contains(&&*call) {
            continue;
        }
        for how in ["NV_ERR_BUSY_RETRY", "EAGAIN"] {
            let twin = twin(&format!("chip=h100,fault=call:{call}:{how}"));
            use_all(&twin, &options).unwrap_or_else(|e| panic!("{call}, {how}: {e}"));
            assert_eq!(twin.machine().faults_fired(), 1, "{call}, {how}");
            assert!(twin.machine().state().is_empty());
        }
    }
}

#[test]
fn every_call_is_refused_once() {
    every_call(&Options::default());
}

#[test]
fn whichever_call_is_refused_nothing_is_left() {
    refused(&Options::default(), ANY, "NV_ERR_INVALID_STATE", 1000);
}

#[test]
fn every_call_without_uvm_is_refused_once() {
    every_call(&Options {
        uvm: false,
        ..Options::default()
    });
}
