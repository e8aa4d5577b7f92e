//! One transfer: what it does, and what goes wrong with it.

use std::time::Duration;

use hcq::transport::Transfer;

use super::config::What;
use super::device::{Answer, IN, OUT};
use super::rules;
use super::state::State;

/// Whether it is of endpoint 0.
pub(super) fn is_control(transfer: &Transfer<'_>) -> bool {
    matches!(transfer, Transfer::ControlIn(..) | Transfer::ControlOut(..))
}

fn to_host(transfer: &Transfer<'_>) -> bool {
    matches!(transfer, Transfer::ControlIn(..) | Transfer::BulkIn(..))
}

/// The endpoint of a transfer.
pub(super) fn address(transfer: &Transfer<'_>) -> u8 {
    match transfer {
        Transfer::ControlIn(..) | Transfer::ControlOut(..) => 0,
        Transfer::BulkIn(address, _) | Transfer::BulkOut(address, _) => *address,
    }
}

/// A transfer in words.
pub(super) fn told(transfer: &Transfer<'_>) -> String {
    match transfer {
        Transfer::ControlIn(setup, to) => format!(
            "control in {:#04x}, value {:#06x}, index {:#06x}, {} bytes",
            setup.request,
            setup.value,
            setup.index,
            to.len()
        ),
        Transfer::ControlOut(setup, from) => format!(
            "control out {:#04x}, value {:#06x}, index {:#06x}, {} bytes",
            setup.request,
            setup.value,
            setup.index,
            from.len()
        ),
        Transfer::BulkIn(address, to) => format!("bulk in {address:#04x}, {:#x} bytes", to.len()),
        Transfer::BulkOut(address, from) => {
            format!("bulk out {address:#04x}, {:#x} bytes", from.len())
        }
    }
}

impl State {
    /// A bulk transfer of an endpoint, as far as the endpoint lets it: packets whose numbers differ are lost.
    fn bulk(
        &mut self,
        address: u8,
        bytes: usize,
        run: impl FnOnce(&mut State) -> Answer,
    ) -> Answer {
        let packet = if self.config.usb2 { 512 } else { 1024 };
        let Some(endpoint) = self.endpoints.get(address) else {
            self.broken(
                &rules::ENDPOINT,
                format!("{bytes:#x} bytes of {address:#04x}"),
            );
            return Answer::Quiet;
        };
        if endpoint.halted {
            return Answer::Stall;
        }
        let (host, device) = (endpoint.host % 32, endpoint.device % 32);
        if host != device {
            let what = format!("{address:#04x}: the host is at {host}, the device at {device}");
            self.broken(&rules::TOGGLE, what);
            return Answer::Quiet;
        }
        let answer = run(self);
        if let (Answer::Moved(bytes), Some(endpoint)) = (answer, self.endpoints.get(address)) {
            let packets = bytes.div_ceil(packet).max(1) as u32;
            endpoint.host = endpoint.host.wrapping_add(packets);
            endpoint.device = endpoint.host;
        }
        answer
    }

    fn run(&mut self, transfer: &mut Transfer<'_>) -> Answer {
        match transfer {
            Transfer::ControlIn(setup, to) => self.control_in(*setup, to),
            Transfer::ControlOut(setup, from) => self.control_out(*setup, from),
            Transfer::BulkIn(address, to) => {
                let bytes = to.len();
                let in_only = *address & 0x80 != 0;
                self.bulk(if in_only { *address } else { 0xff }, bytes, |state| {
                    state.bulk_in(to)
                })
            }
            Transfer::BulkOut(address, from) => {
                let out_only = *address & 0x80 == 0;
                let address = if out_only { *address } else { 0xff };
                self.bulk(address, from.len(), |state| state.bulk_out(from))
            }
        }
    }

    /// One transfer. What went wrong with it is `trouble`.
    pub(super) fn transfer(
        &mut self,
        transfer: &mut Transfer<'_>,
        trouble: Option<What>,
    ) -> Answer {
        self.journal.event(told(transfer));
        self.took = Duration::ZERO;
        if is_control(transfer) {
            self.took += self.rates.control;
        }
        match trouble {
            Some(What::Stall) => {
                if let Some(endpoint) = self.endpoints.get(address(transfer)) {
                    endpoint.halted = true;
                }
                return Answer::Stall;
            }
            Some(What::Vanish) => return Answer::Quiet,
            Some(What::Unplug) => {
                self.unplug();
                return Answer::Quiet;
            }
            Some(What::Late) if to_host(transfer) && !is_control(transfer) => return Answer::Quiet,
            Some(What::Short) => {
                return match transfer {
                    Transfer::ControlOut(_, from) => Answer::Moved(from.len() / 2),
                    Transfer::BulkOut(to, from) => {
                        let half = from.len() / 2 / 4 * 4;
                        let mut half = Transfer::BulkOut(*to, &from[..half]);
                        match self.run(&mut half) {
                            Answer::Moved(bytes) => Answer::Moved(bytes),
                            other => other,
                        }
                    }
                    _ => match self.run(transfer) {
                        Answer::Moved(bytes) => Answer::Moved(bytes / 2),
                        other => other,
                    },
                };
            }
            Some(What::Late) | None => {}
        }
        let answer = self.run(transfer);
        match (trouble, answer) {
            (Some(_), Answer::Moved(_)) => Answer::Quiet,
            _ => answer,
        }
    }

    /// Counts what has moved.
    pub(super) fn count(&mut self, transfer: &Transfer<'_>, moved: usize) {
        match transfer {
            Transfer::ControlIn(..) | Transfer::ControlOut(..) => self.counts.control += 1,
            Transfer::BulkIn(..) => {
                self.counts.bulk += 1;
                self.counts.bytes_in += moved as u64;
            }
            Transfer::BulkOut(..) => {
                self.counts.bulk += 1;
                self.counts.bytes_out += moved as u64;
            }
        }
    }

    /// The host has waited for so long.
    pub(super) fn waited(&mut self, time: Duration) {
        self.counts.round_trips += 1;
        self.now += time;
    }

    /// A request ended a stream whose bulk transfer is still to come.
    pub(super) fn was_cut(&self, setup: &Transfer<'_>, later: &[&Transfer<'_>]) -> bool {
        let Transfer::ControlOut(setup, _) = setup else {
            return false;
        };
        let (Some(stream), 0xf0) = (self.stream, setup.request) else {
            return false;
        };
        let of = if stream.to_host { IN } else { OUT };
        later.iter().any(|other| address(other) == of)
    }
}
