//! A submission: memory for its data, its words in the ring, the doorbell.

use std::sync::Arc;

use hcq::sync::lock;
use hcq::transport::TransportError;
use hcq::{CommandBuffer, Error, MemoryKind, Result, Turn};
use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::channel::{Channel, Host};
use super::decode::sentence;
use super::hardware::{Failed, Hardware, Submit};
use super::kernarg_ring::UploadSlot;
use super::wait::Wait;

/// The alignment of words that the queue only names, in bytes: SDMA takes indirect buffers at multiples of it.
///
/// Source: Linux, amdgpu, sdma_v5_0.c, sdma_v5_0_ring_emit_ib: `lower_32_bits(ib->gpu_addr) & 0xffffffe0`.
const WORDS_ALIGN: u64 = 32;

impl<H: Hardware> Channel<H> {
    /// Submits the packets of a turn, behind what every submission starts with: those of the timeline have it.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring or the arguments stay full; [`Error::Command`] for a packet
    /// that is larger than the ring, for a turn without packets, and for one of another queue; what the queue refuses.
    #[inline]
    pub fn submit(&self, turn: &mut Turn<'_>) -> Result<()> {
        if !turn.has_packets() {
            return Err(self.refused("empty submission: add at least one command".into()));
        }
        self.launch(turn, &[])
    }

    /// Submits words that are placed already, behind the packets of a turn if there are any.
    ///
    /// # Errors
    /// As [`Channel::submit`].
    #[inline(always)]
    pub fn launch(&self, turn: &mut Turn<'_>, words: &[u32]) -> Result<()> {
        let signal_value = turn.signal_value();
        let Some(parts) = turn.parts::<Host>(&self.timeline) else {
            return Err(self.refused("the commands were recorded for another queue".into()));
        };
        let host = parts.own;
        let done = match parts
            .packets
            .filter(|packets| packets.words.len() > packets.head())
        {
            None => self.push(host, words, signal_value),
            Some(packets) => self.submit_with(host, packets, words, signal_value),
        };
        if !host.freed.is_empty() {
            parts.freed.append(&mut host.freed);
        }
        // Not `done`: an error is large, and would be copied on success as well.
        match done {
            Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Submits packets of the driver's own, which raise nothing.
    ///
    /// # Errors
    /// As [`Channel::submit`].
    pub fn submit_own(&self, packets: &mut CommandBuffer) -> Result<()> {
        self.with(|host| self.submit_with(host, packets, &[], 0))
    }

    /// Submits words of the driver's own, which are placed already and raise nothing.
    ///
    /// # Errors
    /// As [`Channel::submit`].
    pub fn launch_own(&self, words: &[u32]) -> Result<()> {
        self.with(|host| self.push(host, words, 0))
    }

    /// Submits words as they are.
    #[inline]
    fn push(&self, host: &mut Host, words: &[u32], signal_value: u64) -> Result<()> {
        self.core.lost.check()?;
        self.write_all(host, words, signal_value)
    }

    /// Submits packets, with words that are placed already behind them.
    #[inline(always)]
    fn submit_with(
        &self,
        host: &mut Host,
        packets: &mut CommandBuffer,
        behind: &[u32],
        signal_value: u64,
    ) -> Result<()> {
        self.core.lost.check()?;
        if packets.head() < self.begin.len() {
            packets.set_head(&self.begin);
        }
        // The owners keep resources in use, and retire them after these packets.
        if !packets.keep.is_empty() {
            let this = host.marks.submissions() + 1;
            let kept = packets.keep.drain(..);
            let outgrown = kept.filter(|kept| !self.hardware.uses(kept));
            host.retired.extend(outgrown.map(|kept| (this, kept)));
        }
        let is_named = self.by_name && !packets.words.is_empty();
        if is_named || !packets.data.is_empty() {
            return self.submit_placed(host, packets, behind, signal_value);
        }
        packets.words.extend_from_slice(behind);
        self.write_all(host, &packets.words, signal_value)
    }

    /// The same where they need room beside the ring.
    #[inline(never)]
    fn submit_placed(
        &self,
        host: &mut Host,
        packets: &mut CommandBuffer,
        behind: &[u32],
        signal_value: u64,
    ) -> Result<()> {
        // Referenced words are placed after their data, which has the larger alignment.
        let words_at = (packets.data.len() as u64 * 4).next_multiple_of(WORDS_ALIGN);
        let bytes = match self.by_name {
            true => words_at + packets.words.len() as u64 * 4,
            false => words_at,
        };
        let room = self.room(host, bytes)?;
        packets.relocate(room.va());
        self.place(host, &room, words_at, packets)
            .map_err(|e| self.broken(e))?;
        match self.by_name {
            true => {
                let mut entries = std::mem::take(&mut host.entries);
                entries.clear();
                self.run(room.va() + words_at, &packets.words, &mut entries);
                entries.extend_from_slice(behind);
                let done = self.write_all(host, &entries, signal_value);
                host.entries = entries;
                done?;
            }
            false => {
                packets.words.extend_from_slice(behind);
                self.write_all(host, &packets.words, signal_value)?;
            }
        }
        host.arguments.prefetch(&room, bytes);
        Ok(())
    }

    /// Writes what a submission points to, and the words if the queue only names them.
    #[inline]
    fn place(
        &self,
        host: &Host,
        room: &UploadSlot,
        words_at: u64,
        packets: &CommandBuffer,
    ) -> Result<(), TransportError> {
        let (words, data) = (&packets.words, &packets.data);
        if self.by_name && self.way().is_remote() {
            // In one piece.
            let mut all = data.clone();
            all.resize(words_at as usize / 4, 0);
            all.extend_from_slice(words);
            return host.arguments.write(room, 0, &all);
        }
        if !data.is_empty() {
            host.arguments.write(room, 0, data)?;
        }
        match self.by_name {
            true => host.arguments.write(room, words_at, words),
            false => Ok(()),
        }
    }

    /// Room for what a submission points to.
    fn room(&self, host: &mut Host, bytes: u64) -> Result<UploadSlot> {
        let size = host.arguments.size();
        if bytes > size / 2 {
            return self.large_room(host, bytes);
        }
        if host.arguments.wants_restart() && host.marks.are_over_at(self.timeline.signal().seen()) {
            host.arguments.restart(host.marks.submissions());
        }
        let mut wait = None;
        loop {
            match host.arguments.take(bytes, host.marks.submissions() + 1) {
                Ok(room) => return Ok(room),
                Err(full) => {
                    let wait = wait.get_or_insert_with(|| Wait::new(self.full_limit));
                    self.pause(host, wait, |_| {
                        let what = format!("the arguments of {} ({size} bytes)", self.unit());
                        (what, bytes, full.free)
                    })?;
                }
            }
        }
    }

    /// Room of its own, for a submission that is larger than all others.
    fn large_room(&self, host: &mut Host, bytes: u64) -> Result<UploadSlot> {
        let what = format!("the arguments of a large submission to {}", self.unit());
        let piece = self.pool.piece(MemoryKind::Control, bytes, &what)?;
        let room = UploadSlot::of(&piece)?;
        host.read
            .push_back((host.marks.submissions() + 1, Arc::new(piece)));
        Ok(room)
    }

    /// Submits words: in one piece where they fit, else cut between packets.
    #[inline(always)]
    fn write_all(&self, host: &mut Host, words: &[u32], signal_value: u64) -> Result<()> {
        let doorbell = match words.len() <= self.way().most() {
            true => self.write_when_free(host, words)?,
            false => self.write_pieces(host, words)?,
        };
        host.marks.submitted(signal_value, host.wptr);
        host.recent.note(words, signal_value, host.wptr, doorbell);
        if LevelFilter::current() >= Level::DEBUG {
            self.trace(words, signal_value, host.wptr, doorbell);
        }
        self.mark_if_due(host);
        // A look at remote memory is waited for: there it is when room is missing.
        self.take_over(host);
        let has_none = host.retired.is_empty() && host.read.is_empty();
        match has_none || self.way().is_remote() {
            true => Ok(()),
            false => self.reclaim(host),
        }
    }

    /// Logs the submission.
    #[cold]
    fn trace(&self, words: &[u32], signal_value: u64, wptr: u64, doorbell: u64) {
        let (kind, index) = (self.kind, self.index);
        tracing::debug!(
            device = %self.core.id,
            queue = %format_args!("{kind} {index}"),
            signal_value,
            dwords = words.len(),
            wptr,
            doorbell,
            "submitted"
        );
        if tracing::enabled!(Level::TRACE) {
            for packet in self.hardware.decode(&self.core, words, 0) {
                let what = sentence(&self.core, &packet.doing);
                tracing::trace!(queue = %format_args!("{kind} {index}"), dword = packet.position, "{what}");
            }
        }
    }

    /// Submits words that do not fit into the ring at once. Returns what the doorbell was given last.
    #[cold]
    fn write_pieces(&self, host: &mut Host, words: &[u32]) -> Result<u64> {
        let most = self.way().most();
        // Checked before anything is written, so that nothing is submitted by half.
        let mut rest = words;
        while !rest.is_empty() {
            let piece = self.way().packet_boundary(rest, most);
            if piece == 0 {
                return Err(self.refused(format!(
                    "a packet of more than {most} dwords does not fit the ring of {}: open the \
                     device with a larger ring",
                    self.way().size()
                )));
            }
            rest = &rest[piece..];
        }
        rest = words;
        let mut doorbell = 0;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.way().packet_boundary(rest, most));
            doorbell = match self.write_when_free(host, now) {
                // Some pieces are submitted already and cannot be withdrawn.
                Err(error) if rest.len() < words.len() => return Err(self.core.lose(error)),
                done => done?,
            };
            rest = later;
        }
        Ok(doorbell)
    }

    /// Hands over words once there is room for them.
    #[inline(always)]
    fn write_when_free(&self, host: &mut Host, words: &[u32]) -> Result<u64> {
        if self.way().missing(host.wptr - host.free, words.len()) > 0 {
            // The resources of this submission belong to no complete one.
            host.is_inside = true;
            let room = self.wait_for_room(host, words.len());
            host.is_inside = false;
            room?;
        }
        self.write(host, words)
    }

    #[cold]
    fn wait_for_room(&self, host: &mut Host, words: usize) -> Result<()> {
        let mut wait = None;
        loop {
            self.reclaim(host)?;
            let missing = self.way().missing(host.wptr - host.free, words);
            if missing == 0 {
                return Ok(());
            }
            let wait = wait.get_or_insert_with(|| Wait::new(self.full_limit));
            self.pause(host, wait, |host| {
                let free = self.way().size() - (host.wptr - host.free);
                let mut what = format!("free {} of {}", <H::Way>::UNIT, self.unit());
                if let Some(known) = self.hardware.report() {
                    what += &format!(" ({known})");
                }
                (what, free + missing, free)
            })?;
        }
    }

    /// Waits a little for the device, and reclaims completed resources.
    pub(super) fn pause(
        &self,
        host: &mut Host,
        wait: &mut Wait,
        missing: impl FnOnce(&Host) -> (String, u64, u64),
    ) -> Result<()> {
        if host.marks.is_empty() {
            self.mark(host)?;
        }
        wait.pause(&self.core, &self.event, || self.silence(), || missing(host))?;
        self.reclaim(host)
    }

    /// Submits words for which there is room. Returns the notification.
    #[inline(always)]
    pub(super) fn write(&self, host: &mut Host, words: &[u32]) -> Result<u64> {
        let done = self.way().submit(host.wptr, words);
        let done = done.map_err(|e| self.failed(host, e))?;
        host.wptr = done.end;
        Ok(done.told)
    }

    #[cold]
    pub(super) fn refused(&self, why: String) -> Error {
        Error::Command {
            device: self.core.id.clone(),
            queue: self.unit(),
            command: "submission".into(),
            why,
        }
    }

    #[cold]
    fn failed(&self, host: &mut Host, failed: Failed) -> Error {
        let error = match failed {
            Failed::Broken(error) => error,
            Failed::Refused(error) => return error,
        };
        // A GPU that has stopped is often first met here. The message names what is in flight, and this thread has the lock.
        let fences = host.marks.fences();
        *lock(&self.lent) = Some((std::mem::take(&mut host.recent), fences));
        let lost = match error.fault {
            // The way to it knows best.
            hcq::transport::Fault::Gone => self.broken(error),
            _ => match self.core.look() {
                Err(lost) => lost,
                Ok(()) => self.broken(error),
            },
        };
        if let Some((recent, _)) = lock(&self.lent).take() {
            host.recent = recent;
        }
        lost
    }
}
