//! [`Traffic`]: counters of the USB traffic.

use hcq::transport::{Transfer, TransportError};

/// The transfers of the cable.
#[derive(Clone, Default)]
pub struct Traffic {
    /// Transfers that are done.
    pub transfers: u64,
    /// Bytes that they have brought to the bridge.
    pub sent: u64,
    /// Bytes that they have brought from it.
    pub received: u64,
    /// The first failure: nothing goes over it any more.
    pub broken: Option<TransportError>,
}

impl Traffic {
    /// Counts a transfer that is done.
    pub(crate) fn add(&mut self, done: &Transfer<'_>) {
        self.transfers += 1;
        let bytes = length(done) as u64;
        match done {
            Transfer::ControlIn(..) | Transfer::BulkIn(..) => self.received += bytes,
            Transfer::ControlOut(..) | Transfer::BulkOut(..) => self.sent += bytes,
        }
    }

    /// Counts a bulk transfer to the bridge.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.transfers += 1;
        self.sent += bytes as u64;
    }
}

/// Bytes of a transfer.
pub(crate) fn length(transfer: &Transfer<'_>) -> usize {
    match transfer {
        Transfer::ControlIn(_, to) | Transfer::BulkIn(_, to) => to.len(),
        Transfer::ControlOut(_, from) | Transfer::BulkOut(_, from) => from.len(),
    }
}
