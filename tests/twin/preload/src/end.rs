//! What is said when the process ends: the rules that were broken.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::session::{begun, running};
use crate::system::{self, Inside};

/// Prints the broken rules, once.
pub fn report() {
    say();
}

/// Prints the broken rules if nobody has, and says whether there are any.
fn say() -> bool {
    static SAID: AtomicBool = AtomicBool::new(false);
    let Some(session) = running() else {
        return false;
    };
    let broken = session.broken();
    if !SAID.swap(true, Ordering::SeqCst) {
        for one in &broken {
            eprintln!("doorbell_preload: {one}");
        }
    }
    session.finish();
    !broken.is_empty()
}

/// The end of the process: one that has broken a rule fails.
pub fn end() {
    let Some(_inside) = Inside::enter() else {
        return;
    };
    if begun() && say() {
        system::leave(1);
    }
}
