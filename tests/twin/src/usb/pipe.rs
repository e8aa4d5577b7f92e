//! The bridge's interface, as a driver of this repository has it open.
//!
//! Transfers that are queued at once meet the device as late as they may: those of endpoint 0 first, then bulk. What
//! a transfer takes is added to the bridge's time, and held against the limit; nobody waits for it. Only a copy to the host
//! that the function has not released is waited for, by the host's clock.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hcq::transport::{Fault, Flight, Setup, Transfer, TransportError, UsbPipe};

use super::bridge::Bridge;
use super::config::What;
use super::device::Answer;
use super::rules;
use super::transfer::{address, is_control, told};

/// How long a look at what has not come yet is apart from the next.
const NAP: Duration = Duration::from_micros(50);

/// The interface of a bridge, open.
pub struct Pipe {
    bridge: Arc<Bridge>,
    number: u8,
}

impl Pipe {
    pub(super) fn new(bridge: Arc<Bridge>, number: u8) -> Pipe {
        Pipe { bridge, number }
    }

    fn error(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(&*self.bridge.port, operation, fault)
    }

    /// One transfer, until it is done or nobody waits for it any more.
    fn one(
        &self,
        transfer: &mut Transfer<'_>,
        mut trouble: Option<What>,
        limit: Duration,
    ) -> Result<(usize, Duration), Fault> {
        let start = Instant::now();
        loop {
            let mut state = self.bridge.lock();
            if !state.is_there(self.number) {
                return Err(Fault::Gone);
            }
            let answer = state.transfer(transfer, trouble.take());
            let took = state.took;
            match answer {
                Answer::Moved(bytes) => {
                    state.count(transfer, bytes);
                    return match took > limit {
                        true => Err(Fault::TimedOut(limit)),
                        false => Ok((bytes, took)),
                    };
                }
                Answer::Stall => return Err(Fault::Stall),
                Answer::Quiet if !state.is_there(self.number) => return Err(Fault::Gone),
                Answer::Pending if start.elapsed() < limit => {}
                Answer::Quiet | Answer::Pending => {
                    state.waited(limit);
                    return Err(Fault::TimedOut(limit));
                }
            }
            drop(state);
            thread::sleep(NAP);
        }
    }

    /// Transfers that are under way all at once, each with its limit: what came of each. Behind one that fails,
    /// those of the same endpoint are not done.
    pub fn each(&self, transfers: &mut [(Transfer<'_>, Duration)]) -> Vec<Result<usize, Fault>> {
        let troubles = self.bridge.lock().troubles(transfers.len());
        // In the order in which the device sees them; the time of both kinds goes by at once.
        let mut order: Vec<usize> = (0..transfers.len()).collect();
        order.sort_by_key(|i| !is_control(&transfers[*i].0));
        let mut results: Vec<_> = transfers
            .iter()
            .map(|(_, limit)| Err(Fault::TimedOut(*limit)))
            .collect();
        let (mut control, mut bulk) = (Duration::ZERO, Duration::ZERO);
        let mut failed = Vec::new();
        for (done, &i) in order.iter().enumerate() {
            let endpoint = address(&transfers[i].0);
            if failed.contains(&endpoint) {
                continue;
            }
            {
                let later = &order[done + 1..];
                let later: Vec<_> = later.iter().map(|i| &transfers[*i].0).collect();
                let state = self.bridge.lock();
                if state.was_cut(&transfers[i].0, &later) {
                    state.broken(&rules::CUT, told(&transfers[i].0));
                }
            }
            let (transfer, limit) = &mut transfers[i];
            let result = self.one(transfer, troubles[i], *limit);
            match &result {
                Ok((_, took)) if endpoint == 0 => control += *took,
                Ok((_, took)) => bulk += *took,
                Err(_) => failed.push(endpoint),
            }
            results[i] = result.map(|(bytes, _)| bytes);
        }
        let mut state = self.bridge.lock();
        // Bulk data waits for what is under way.
        let done = match bulk.is_zero() {
            true => state.now + control,
            false => state.carried(bulk).max(state.now + control),
        };
        let round = state.rates.round;
        let time = done - state.now + round;
        state.waited(time);
        results
    }

    /// One transfer, as a bus does it that offers packets again and again: none as long as the device takes none.
    pub fn offer(&self, transfer: &mut Transfer<'_>) -> Option<Result<usize, Fault>> {
        let mut state = self.bridge.lock();
        if !state.is_there(self.number) {
            return Some(Err(Fault::Gone));
        }
        let ready = match transfer {
            Transfer::ControlIn(..) | Transfer::ControlOut(..) => true,
            Transfer::BulkIn(..) => state.is_ready(true),
            Transfer::BulkOut(..) => state.is_ready(false),
        };
        if !ready {
            return None;
        }
        let answer = state.transfer(transfer, None);
        let took = state.took;
        match answer {
            Answer::Moved(bytes) => {
                state.count(transfer, bytes);
                state.waited(took);
                Some(Ok(bytes))
            }
            Answer::Stall => Some(Err(Fault::Stall)),
            Answer::Quiet => Some(Err(Fault::TimedOut(Duration::ZERO))),
            Answer::Pending => None,
        }
    }

    fn all(
        &self,
        transfers: &mut [Transfer<'_>],
        limit: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        let operations: Vec<_> = transfers.iter().map(told).collect();
        let mut limited: Vec<_> = transfers
            .iter_mut()
            .map(|transfer| (again(transfer), limit))
            .collect();
        let results = self.each(&mut limited).into_iter().zip(operations);
        results
            .map(|(result, what)| result.map_err(|fault| self.error(what, fault)))
            .collect()
    }

    fn single(&self, transfer: Transfer<'_>, limit: Duration) -> Result<usize, TransportError> {
        let moved = self.all(&mut [transfer], limit)?;
        Ok(moved.first().copied().unwrap_or(0))
    }

    /// A bulk transfer that nobody waits for yet: the device has it at once, but the cable carries it after what is
    /// under way.
    fn start(&self, endpoint: u8, bytes: &[u8], limit: Duration) -> UnderWay<'_> {
        let trouble = self.bridge.lock().troubles(1).pop().flatten();
        let mut transfer = Transfer::BulkOut(endpoint, bytes);
        let operation = told(&transfer);
        let result = self.one(&mut transfer, trouble, limit);
        let mut state = self.bridge.lock();
        let took = result.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
        let end = state.carried(took);
        let moved = result.map(|(bytes, _)| bytes);
        UnderWay {
            pipe: self,
            end,
            moved: moved.map_err(|fault| self.error(operation, fault)),
        }
    }

    fn there(&self, operation: &str) -> Result<(), TransportError> {
        match self.bridge.lock().is_there(self.number) {
            true => Ok(()),
            false => Err(self.error(operation, Fault::Gone)),
        }
    }
}

/// A bulk transfer that is under way.
struct UnderWay<'a> {
    pipe: &'a Pipe,
    /// When it ends.
    end: Duration,
    moved: Result<usize, TransportError>,
}

impl Flight for UnderWay<'_> {
    fn wait(self: Box<Self>) -> Result<usize, TransportError> {
        let mut state = self.pipe.bridge.lock();
        if let Some(left) = self.end.checked_sub(state.now) {
            let round = state.rates.round;
            state.waited(left + round);
        }
        self.moved
    }
}

/// The same transfer, for as long as it is borrowed.
fn again<'a>(transfer: &'a mut Transfer<'_>) -> Transfer<'a> {
    match transfer {
        Transfer::ControlIn(setup, to) => Transfer::ControlIn(*setup, to),
        Transfer::ControlOut(setup, from) => Transfer::ControlOut(*setup, from),
        Transfer::BulkIn(endpoint, to) => Transfer::BulkIn(*endpoint, to),
        Transfer::BulkOut(endpoint, from) => Transfer::BulkOut(*endpoint, from),
    }
}

impl UsbPipe for Pipe {
    fn name(&self) -> &str {
        &self.bridge.port
    }

    fn control_in(
        &self,
        setup: Setup,
        to: &mut [u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        self.single(Transfer::ControlIn(setup, to), timeout)
    }

    fn control_out(
        &self,
        setup: Setup,
        from: &[u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        self.single(Transfer::ControlOut(setup, from), timeout)
    }

    fn queue(
        &self,
        transfers: &mut [Transfer<'_>],
        timeout: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        self.all(transfers, timeout)
    }

    fn submit(
        &self,
        endpoint: u8,
        bytes: Vec<u8>,
        timeout: Duration,
    ) -> Result<Box<dyn Flight + '_>, TransportError> {
        Ok(Box::new(self.start(endpoint, &bytes, timeout)))
    }

    fn bulk_in(
        &self,
        endpoint: u8,
        to: &mut [u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        self.single(Transfer::BulkIn(endpoint, to), timeout)
    }

    fn bulk_out(
        &self,
        endpoint: u8,
        from: &[u8],
        timeout: Duration,
    ) -> Result<usize, TransportError> {
        self.single(Transfer::BulkOut(endpoint, from), timeout)
    }

    fn clear_halt(&self, endpoint: u8) -> Result<(), TransportError> {
        let operation = format!("clear the halt of endpoint {endpoint:#04x}");
        self.there(&operation)?;
        match self.bridge.lock().clear_halt(endpoint) {
            true => Ok(()),
            false => Err(self.error(operation, Fault::Errno(libc::ENOENT))),
        }
    }
}
