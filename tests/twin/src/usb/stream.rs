//! Bulk transfers: to and from the buffer, or dword by dword to and from the bus.

use super::device::Answer;
use super::state::State;
use super::{clock, rules};

/// Dwords that go to or come from the bus by bulk transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) to_host: bool,
    /// Where the next dword is.
    pub(super) at: u64,
    /// How many are left.
    pub(super) dwords: u32,
}

/// The last dword.
fn last(data: &[u8]) -> u32 {
    data.last_chunk()
        .map_or(0, |word| u32::from_le_bytes(*word))
}

impl State {
    /// Bytes of a packet.
    fn packet(&self) -> usize {
        if self.config.usb2 { 512 } else { 1024 }
    }

    /// Begins a stream. One to the host reads its first packet ahead.
    pub(super) fn begin(&mut self, stream: Stream) {
        if stream.dwords == 0 {
            return;
        }
        if self.sram.waits(stream.to_host) {
            let what = format!("{stream:x?} while a copy waits");
            self.broken(&rules::ENGINES, what);
        }
        self.stream = Some(stream);
        if stream.to_host {
            self.ahead();
        }
    }

    /// The next packet of a stream to the host is put where the host takes it from.
    fn ahead(&mut self) {
        let packet = self.packet();
        let Some(stream) = &mut self.stream else {
            return;
        };
        let bytes = packet.min(stream.dwords as usize * 4);
        let mut data = vec![0; bytes];
        self.fabric
            .read_all(stream.at, &mut data, self.engine.data());
        stream.at = stream.at.wrapping_add(bytes as u64);
        self.engine.passed(stream.at, last(&data));
        stream.dwords -= (bytes / 4) as u32;
        if stream.dwords == 0 {
            self.stream = None;
        }
        self.waiting.push_back(data);
    }

    /// A stream ends, whatever is left of it. What was read ahead stays.
    pub(super) fn end(&mut self) {
        self.stream = None;
        self.stale = self.waiting.len();
    }

    /// Whether the device takes a packet of a direction, or has one: until then it lets the host wait.
    pub(super) fn is_ready(&self, to_host: bool) -> bool {
        let streams = self.stream.is_some_and(|stream| stream.to_host == to_host);
        streams || self.sram.waits(to_host) || to_host && !self.waiting.is_empty()
    }

    /// A bulk transfer from the host.
    pub(super) fn bulk_out(&mut self, data: &[u8]) -> Answer {
        if let Some(stream) = self.stream.filter(|stream| !stream.to_host) {
            return self.stream_out(stream, data);
        }
        self.took += clock::Rates::of(data.len(), self.rates.copy);
        match self.sram.take(data, self.packet(), &self.journal) {
            Some(taken) if taken == data.len() => Answer::Moved(taken),
            Some(_) => Answer::Quiet,
            None => {
                let what = format!(
                    "{:#x} bytes for 0x02, and nothing waits for them",
                    data.len()
                );
                self.broken(&rules::ARMED, what);
                Answer::Quiet
            }
        }
    }

    fn stream_out(&mut self, stream: Stream, data: &[u8]) -> Answer {
        self.took += clock::Rates::of(data.len(), self.rates.stream_out);
        let told = stream.dwords as usize * 4;
        if data.len() > told || !data.len().is_multiple_of(4) {
            let what = format!("{:#x} bytes for {told:#x}", data.len());
            self.broken(&rules::STREAM, what);
        }
        // Packets that would be too much are dropped; of the others, whole dwords are used.
        let whole = data.chunks(self.packet());
        let mut taken = 0;
        for packet in whole {
            let used = packet.len() / 4 * 4;
            if taken + used > told {
                break;
            }
            let at = stream.at.wrapping_add(taken as u64);
            self.fabric.write_all(at, &packet[..used]);
            taken += used;
            if used > 0 {
                let next = stream.at.wrapping_add(taken as u64);
                self.engine.passed(next, last(&packet[..used]));
            }
        }
        let dwords = stream.dwords - (taken / 4) as u32;
        let at = stream.at.wrapping_add(taken as u64);
        self.stream = (dwords > 0).then_some(Stream {
            at,
            dwords,
            ..stream
        });
        match data.len() <= told {
            true => Answer::Moved(data.len()),
            false => Answer::Quiet,
        }
    }

    /// A bulk transfer to the host.
    pub(super) fn bulk_in(&mut self, to: &mut [u8]) -> Answer {
        if self.waiting.is_empty() {
            let copied = self.sram.give(to, self.packet(), &self.journal);
            if let Some(Ok(bytes)) = copied {
                self.took += clock::Rates::of(bytes, self.rates.copy);
            }
            return match copied {
                Some(Ok(bytes)) => Answer::Moved(bytes),
                Some(Err(())) => Answer::Pending,
                None => {
                    let what = format!("{:#x} bytes of 0x81, and nothing comes there", to.len());
                    self.broken(&rules::ARMED, what);
                    Answer::Quiet
                }
            };
        }
        if self.stale > 0 {
            let what = "a packet of an earlier stream is read".to_owned();
            self.broken(&rules::STALE, what);
            self.stale -= 1;
        }
        let packet = self.packet();
        let mut done = 0;
        while done < to.len() {
            let Some(data) = self.waiting.pop_front() else {
                // The host waits for more, which does not come.
                return Answer::Quiet;
            };
            if self.stream.is_some() {
                self.ahead();
            }
            if data.len() > to.len() - done {
                let room = to.len() - done;
                let what = format!(
                    "a packet of {:#x} bytes, and room for {room:#x}",
                    data.len()
                );
                self.broken(&rules::BABBLE, what);
                return Answer::Quiet;
            }
            to[done..done + data.len()].copy_from_slice(&data);
            done += data.len();
            self.took += clock::Rates::of(data.len(), self.rates.stream_in);
            // A short packet ends the transfer.
            if data.len() < packet {
                break;
            }
        }
        Answer::Moved(done)
    }
}
