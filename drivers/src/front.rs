//! [`Front`]: a tap in front of the machine, or a replacement for it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hcq::transport::Machine;
use hcq::transport::tap::{Tap, Tapped};

/// A tap on everything that drivers do to the machine.
#[derive(Clone)]
pub struct Front {
    tap: Arc<dyn Tap>,
    /// The machine, where there is none but the tap.
    alone: Option<Arc<OnceLock<Arc<dyn Machine>>>>,
}

impl Front {
    /// Sees everything that passes to the machine.
    pub fn before(tap: Arc<dyn Tap>) -> Front {
        Front { tap, alone: None }
    }

    /// Answers everything: no machine is behind it.
    pub fn alone(tap: Arc<dyn Tap>) -> Front {
        let alone = Some(Arc::default());
        Front { tap, alone }
    }

    /// Whether no machine is behind it.
    pub fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// A machine with this in front of it, or this.
    pub fn of(&self, machine: impl FnOnce() -> Arc<dyn Machine>) -> Arc<dyn Machine> {
        match &self.alone {
            None => Tapped::machine(machine(), self.tap.clone()),
            Some(made) => {
                let make = || -> Arc<dyn Machine> {
                    let alone: Arc<Tapped<dyn Machine>> =
                        Tapped::alone("machine", self.tap.clone());
                    alone
                };
                made.get_or_init(make).clone()
            }
        }
    }
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_alone() {
            true => f.write_str("Front(alone)"),
            false => f.write_str("Front"),
        }
    }
}

impl PartialEq for Front {
    fn eq(&self, other: &Front) -> bool {
        let at = |front: &Front| Arc::as_ptr(&front.tap).cast::<()>();
        at(self) == at(other)
    }
}

impl Eq for Front {}
