//! What GPUs on the bus measure of themselves, and their reset, without opening them as devices.

use std::sync::Arc;

use drivers_amd::am::look;
use hcq::Result;
use hcq::transport::{Clock, MonotonicClock};

use crate::Twin;

pub use drivers_amd::am::metrics::Metrics;

/// Temperatures, clocks and power of the AMD card at an address of PCI, by its power management: see [`look::metrics`].
///
/// # Errors
/// [`hcq::Error::NoDevice`], with what was in the way.
pub fn metrics(machine: &Twin, address: &str) -> Result<Option<Metrics>> {
    look::metrics(machine, address, &clock())
}

/// Resets the AMD card at an address of PCI, all of it (mode 1): see [`look::reset`].
///
/// # Errors
/// [`hcq::Error::NoDevice`], with what was in the way.
pub fn reset_card(machine: &Twin, address: &str) -> Result<bool> {
    look::reset(machine, address, &clock())
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(MonotonicClock)
}
