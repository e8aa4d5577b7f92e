//! [`Bridge`]: queued writes, reads, and the bridge's own memory.
//!
//! Control transfers are ordered, and so are bulk transfers; there is no order between the two. A stream's
//! bulk transfer may therefore be submitted together with the request that arms it: the endpoint accepts no data before. The
//! next request waits until the bulk transfer is complete, because it would end the stream.
//!
//! After the first failed transfer no more are made: the bridge's state is then unknown.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use drivers_spec::asm24::open;
use hcq::mem::window::AccessWidth;
use hcq::sync::lock;
use hcq::transport::{Clock, Fault, Flight, Setup, Transfer, TransportError, UsbPipe};

use crate::request::{self, ANSWER, Answer, Body, Status};
use crate::tlp::Tlp;
use crate::traffic::{Traffic, length};
use crate::writes::{FEW, Piece, Step, Writes};

/// Maximum number of requests in flight.
const MOST: usize = 32;

/// Bytes that wait for their turn at most, and bytes of a stream.
const GATHERED: usize = 256 << 10;

/// How long a control transfer may take.
const CONTROL: Duration = Duration::from_secs(5);
/// How long the firmware may take to train the link, before it answers.
const POWER: Duration = Duration::from_secs(10);
/// The slowest stream that counts as one: some fifteen times slower than what the firmware does.
const SLOWEST: u64 = 128 << 10;

/// Attempts for a TLP without a completion, and the pause between them.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);
/// How long a function may take after power came until it answers. Source: PCI Express Base Specification, 6.6.1.
const READY: Duration = Duration::from_secs(1);

/// A bridge with the open firmware.
pub struct Bridge {
    pipe: Arc<dyn UsbPipe>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// Transfers in flight.
#[derive(Default)]
pub(crate) struct State {
    writes: Writes,
    traffic: Traffic,
}

impl Bridge {
    /// The bridge at the other end, whatever was left there by the last who used it: no stream is open.
    ///
    /// # Errors
    /// The transport's.
    pub fn new(pipe: Arc<dyn UsbPipe>, clock: Arc<dyn Clock>) -> Result<Bridge, TransportError> {
        for endpoint in [open::OUT, open::IN] {
            pipe.clear_halt(endpoint)?;
        }
        let bridge = Bridge {
            pipe,
            clock,
            state: Mutex::default(),
        };
        bridge.settle()?;
        Ok(bridge)
    }

    /// A copy that an earlier process left armed would take the next bulk transfer: a small copy replaces it.
    ///
    /// Source: asm2464pd-firmware, handmade/src/main.c, request 0xF2, sets the one engine up anew; pull request 75.
    fn settle(&self) -> Result<(), TransportError> {
        let mut transfers = [
            Transfer::ControlOut(request::arm(false, 0, open::SECTOR), &[]),
            Transfer::BulkOut(open::OUT, &[0; open::SECTOR]),
        ];
        self.queue(&mut self.lock(), &mut transfers, CONTROL)
    }

    /// Its name: the port.
    pub fn name(&self) -> &str {
        self.pipe.name()
    }

    /// What its waits go by.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The USB traffic so far.
    pub fn traffic(&self) -> Traffic {
        self.lock().traffic.clone()
    }

    /// An error of the bridge.
    pub fn error(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(self.name(), operation, fault)
    }

    /// Reads the bridge's own memory.
    ///
    /// # Errors
    /// The transport's.
    pub fn read_xdata(&self, at: u16, to: &mut [u8]) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut transfers = [Transfer::ControlIn(request::read_xdata(at), to)];
        self.queue(&mut state, &mut transfers, CONTROL)
    }

    /// Turns the power of the slot on, or off. The firmware trains the link before it answers.
    ///
    /// # Errors
    /// The transport's.
    pub fn power(&self, on: bool) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut transfers = [Transfer::ControlOut(request::power(on), &[])];
        self.queue(&mut state, &mut transfers, POWER)
    }

    /// Sends a TLP with a completion, after all writes, and returns the element that it reads.
    ///
    /// # Errors
    /// The transport's; [`Fault::Beyond`] if no device behind the bridge completes it.
    pub fn ask(&self, tlp: &Tlp) -> Result<u32, TransportError> {
        let mut state = self.lock();
        let mut words = [0];
        self.ask_all(&mut state, &[*tlp], &mut words)?;
        Ok(tlp.value(words[0]))
    }

    /// Queues a write.
    ///
    /// # Errors
    /// The transport's.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut address = address;
        for part in bytes.chunks(GATHERED) {
            if state.writes.bytes() + part.len() > GATHERED {
                self.send_all(&mut state)?;
            }
            state.writes.put(address, part);
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Sends queued writes.
    ///
    /// # Errors
    /// The transport's.
    pub fn send(&self) -> Result<(), TransportError> {
        self.send_all(&mut self.lock())
    }

    /// Reads an element, after all queued writes.
    ///
    /// # Errors
    /// As [`Bridge::ask`].
    pub fn read(&self, address: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let mut state = self.lock();
        if width == AccessWidth::W64 {
            return self.read_wide(&mut state, address);
        }
        let tlp = Tlp::read(address, width.bytes());
        let mut words = [0];
        self.ask_all(&mut state, &[tlp], &mut words)?;
        Ok(tlp.value(words[0]).into())
    }

    /// Halves are read one after the other, and the function may write between: what is read between two upper halves
    /// that are equal belongs to them, in what only grows.
    fn read_wide(&self, state: &mut State, address: u64) -> Result<u64, TransportError> {
        let (low, high) = (Tlp::read(address, 4), Tlp::read(address + 4, 4));
        for _ in 0..TRIES {
            let mut words = [0; 3];
            self.ask_all(state, &[high, low, high], &mut words)?;
            let [before, low, after] = words.map(u64::from);
            if before == after {
                return Ok(low | after << 32);
            }
        }
        let why = "the upper half changes on every read";
        Err(self.error(format!("read of {address:#x}"), Fault::Beyond(why.into())))
    }

    /// Reads bytes, after all queued writes.
    ///
    /// # Errors
    /// As [`Bridge::ask`].
    pub fn read_bytes(&self, address: u64, to: &mut [u8]) -> Result<(), TransportError> {
        let mut state = self.lock();
        let mut address = address;
        for part in to.chunks_mut(GATHERED) {
            self.read_part(&mut state, address, part)?;
            address += part.len() as u64;
        }
        Ok(())
    }

    fn read_part(
        &self,
        state: &mut State,
        address: u64,
        to: &mut [u8],
    ) -> Result<(), TransportError> {
        let (first, skip) = (address & !3, (address & 3) as usize);
        let dwords = (skip + to.len()).div_ceil(4);
        let mut bytes = vec![0; dwords * 4];
        if dwords <= FEW {
            let tlps: Vec<_> = (0..dwords as u64)
                .map(|i| Tlp::read(first + 4 * i, 4))
                .collect();
            let mut words = vec![0; dwords];
            self.ask_all(state, &tlps, &mut words)?;
            for (bytes, word) in bytes.chunks_exact_mut(4).zip(&words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        } else {
            self.stream_in(state, first, &mut bytes)?;
        }
        if let Some(wanted) = bytes.get(skip..skip + to.len()) {
            to.copy_from_slice(wanted);
        }
        Ok(())
    }

    /// A stream does not say how its TLPs were answered: one before it does.
    fn stream_in(
        &self,
        state: &mut State,
        address: u64,
        to: &mut [u8],
    ) -> Result<(), TransportError> {
        self.ask_all(state, &[Tlp::read(address, 4)], &mut [0])?;
        let (setup, body) = request::stream_in(address, (to.len() / 4) as u32);
        let limit = limit(to.len());
        let mut transfers = [
            Transfer::ControlOut(setup, &body),
            Transfer::BulkIn(open::IN, to),
        ];
        self.queue(state, &mut transfers, limit)
    }

    /// Sends TLPs with completions, after all writes: the last of these and the first attempt share one wait.
    fn ask_all(
        &self,
        state: &mut State,
        tlps: &[Tlp],
        words: &mut [u32],
    ) -> Result<(), TransportError> {
        let mut ready = None;
        let mut tries = 0;
        let mut from = 0;
        while from < tlps.len() {
            let answers = self.ask_once(state, &tlps[from..])?;
            for answer in answers {
                let tlp = tlps[from];
                match answer {
                    Answer::Done(word) => {
                        words[from] = word;
                        from += 1;
                        tries = 0;
                        continue;
                    }
                    // A function may need its time once it has power.
                    Answer::Refused(Status::Retry) if tlp.is_config() => {
                        let now = self.clock.now_ns();
                        let since = *ready.get_or_insert(now);
                        if now - since > READY.as_nanos() as u64 {
                            return Err(self.beyond(&tlp, answer));
                        }
                    }
                    Answer::Failed | Answer::Nothing if tries + 1 < TRIES => tries += 1,
                    answer => return Err(self.beyond(&tlp, answer)),
                }
                self.clock.sleep(PAUSE);
                break;
            }
        }
        Ok(())
    }

    fn ask_once(&self, state: &mut State, tlps: &[Tlp]) -> Result<Vec<Answer>, TransportError> {
        let queued = state.writes.take();
        let last = self.write_all(state, &queued)?;
        let asked: Vec<_> = tlps.iter().map(request::tlp).collect();
        let mut answers = vec![[0; ANSWER]; tlps.len()];
        let mut transfers: Vec<_> = last.iter().map(control).collect();
        for (asked, answer) in asked.iter().zip(&mut answers) {
            transfers.push(control(asked));
            transfers.push(Transfer::ControlIn(request::answer(), answer));
        }
        self.queue(state, &mut transfers, CONTROL)?;
        Ok(answers.iter().map(Answer::parse).collect())
    }

    fn beyond(&self, tlp: &Tlp, answer: Answer) -> TransportError {
        let what = match answer {
            Answer::Done(_) => "done",
            Answer::Failed => "the TLP engine reports an error",
            Answer::Nothing => "no completion",
            Answer::Refused(Status::Unsupported) => "unsupported request",
            Answer::Refused(Status::Retry) => "still not ready (retry status)",
            Answer::Refused(Status::Abort) => "completer abort",
            Answer::Refused(Status::Unknown(_)) => "completion with an invalid status",
        };
        let kind = match (tlp.is_config(), tlp.kind & 0x40 != 0) {
            (true, false) => "configuration read",
            (true, true) => "configuration write",
            (false, false) => "read",
            (false, true) => "write",
        };
        let operation = format!("{kind} of {:#x}", tlp.address);
        self.error(operation, Fault::Beyond(what.into()))
    }

    pub(crate) fn send_all(&self, state: &mut State) -> Result<(), TransportError> {
        let queued = state.writes.take();
        let last = self.write_all(state, &queued)?;
        let mut transfers: Vec<_> = last.iter().map(control).collect();
        self.queue(state, &mut transfers, CONTROL)
    }

    /// Writes pieces, but for requests at their end, which are left to the caller's wait.
    fn write_all(
        &self,
        state: &mut State,
        pieces: &[Piece],
    ) -> Result<Vec<(Setup, Body)>, TransportError> {
        let mut requests: Vec<(Setup, Body)> = Vec::new();
        for step in pieces.iter().flat_map(Piece::steps) {
            match step {
                Step::One(tlp) => {
                    if requests.len() == MOST {
                        let mut transfers: Vec<_> = requests.iter().map(control).collect();
                        self.queue(state, &mut transfers, CONTROL)?;
                        requests.clear();
                    }
                    requests.push(request::tlp(&tlp));
                }
                Step::Stream(address, bytes) => {
                    requests.push(request::stream_out(address, (bytes.len() / 4) as u32));
                    let mut transfers: Vec<_> = requests.iter().map(control).collect();
                    transfers.push(Transfer::BulkOut(open::OUT, bytes));
                    self.queue(state, &mut transfers, limit(bytes.len()))?;
                    requests.clear();
                }
            }
        }
        Ok(requests)
    }

    /// One wait for control transfers.
    pub(crate) fn control(
        &self,
        state: &mut State,
        transfers: &mut [Transfer<'_>],
    ) -> Result<(), TransportError> {
        self.queue(state, transfers, CONTROL)
    }

    /// Submits a bulk transfer to the device without waiting for it.
    pub(crate) fn submit(
        &self,
        state: &mut State,
        bytes: Vec<u8>,
        limit: Duration,
    ) -> Result<Box<dyn Flight + '_>, TransportError> {
        if let Some(error) = &state.traffic.broken {
            return Err(error.clone());
        }
        let flight = self.pipe.submit(open::OUT, bytes, limit);
        flight.inspect_err(|error| state.traffic.broken = Some(error.clone()))
    }

    /// What became of it.
    pub(crate) fn landed(
        &self,
        state: &mut State,
        moved: Result<usize, TransportError>,
        wanted: usize,
    ) -> Result<(), TransportError> {
        let done = moved.and_then(|moved| match moved == wanted {
            true => {
                state.traffic.sent(moved);
                Ok(())
            }
            false => {
                let operation = format!("bulk transfer of endpoint {:#x}", open::OUT);
                Err(self.error(operation, Fault::Short { wanted, moved }))
            }
        });
        done.inspect_err(|error| state.traffic.broken = Some(error.clone()))
    }

    /// One wait. What moved less than it should has failed.
    pub(crate) fn queue(
        &self,
        state: &mut State,
        transfers: &mut [Transfer<'_>],
        limit: Duration,
    ) -> Result<(), TransportError> {
        if let Some(error) = &state.traffic.broken {
            return Err(error.clone());
        }
        if transfers.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = transfers.iter().map(length).collect();
        let done = self.pipe.queue(transfers, limit).and_then(|moved| {
            let all = wanted.iter().zip(&moved).zip(&*transfers);
            let mut short = all.filter(|((wanted, moved), _)| wanted != moved);
            match short.next() {
                None => Ok(()),
                Some(((&wanted, &moved), transfer)) => {
                    let fault = Fault::Short { wanted, moved };
                    Err(self.error(name(transfer), fault))
                }
            }
        });
        let traffic = &mut state.traffic;
        match &done {
            Ok(()) => transfers.iter().for_each(|transfer| traffic.add(transfer)),
            Err(error) => traffic.broken = Some(error.clone()),
        }
        done
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Pieces are taken out before they are sent.
        lock(&self.state)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Whoever needs to know has sent it himself.
        if let Err(error) = self.send() {
            tracing::debug!(%error, "could not send the last writes");
        }
    }
}

/// Timeout of a stream of that many bytes, including the queued requests.
const fn limit(bytes: usize) -> Duration {
    CONTROL.saturating_add(Duration::from_millis(bytes as u64 * 1000 / SLOWEST))
}

fn control(request: &(Setup, Body)) -> Transfer<'_> {
    Transfer::ControlOut(request.0, &request.1)
}

fn name(transfer: &Transfer<'_>) -> String {
    match transfer {
        Transfer::ControlIn(setup, _) | Transfer::ControlOut(setup, _) => {
            format!("request {:#x}", setup.request)
        }
        Transfer::BulkIn(endpoint, _) | Transfer::BulkOut(endpoint, _) => {
            format!("bulk transfer of endpoint {endpoint:#x}")
        }
    }
}
