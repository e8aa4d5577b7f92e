//! [`Fsp`]: the processor that starts Hopper and Blackwell takes messages in packets, by a channel of its memory.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/fsp/arch/hopper/kern_fsp_gh100.c
//! (`kfspSendPacket_GH100`, `kfspReadPacket_GH100`, `kfspProcessCommandResponse_GH100`); src/nvidia/arch/nvalloc/common/
//! inc/fsp/fsp_{mctp,nvdm}_format.h.

use std::time::Duration;

use drivers_spec::nv::gsp::{
    FSP_CHANNEL, MCTP_NVIDIA, MCTP_SINGLE, NVDM_TYPE_FSP_RESPONSE, NvdmResponse,
};
use drivers_spec::nv::mmio::fsp as regs;
use hcq::wait::{Look, poll_until};
use zerocopy::FromBytes;

use super::card::Card;
use super::error::Cause;

/// How long the FSP may take for a message: it verifies what it is given.
const LIMIT: Duration = Duration::from_secs(4);
/// Bytes before what a packet carries.
const HEAD: u32 = 8;

/// The FSP of a card.
pub(super) struct Fsp<'a> {
    card: &'a Card,
}

/// The dwords of a packet.
fn packet(kind: u8, payload: &[u8]) -> Vec<u32> {
    let rest = payload.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word.iter_mut()
            .zip(chunk)
            .for_each(|(to, from)| *to = *from);
        u32::from_le_bytes(word)
    });
    let head = [MCTP_SINGLE, MCTP_NVIDIA | u32::from(kind) << 24];
    head.into_iter().chain(rest).collect()
}

impl<'a> Fsp<'a> {
    /// That of a card.
    pub(super) fn of(card: &'a Card) -> Fsp<'a> {
        Fsp { card }
    }

    /// Sends a message, and waits for what the FSP makes of it.
    ///
    /// # Errors
    /// [`Cause::Long`], [`Cause::FspRefused`], [`Cause::FspAnswer`]; the registers'.
    pub(super) fn send(&self, kind: u8, payload: &[u8]) -> Result<(), Cause> {
        let words = packet(kind, payload);
        let bytes = words.len() as u32 * 4;
        if bytes > FSP_CHANNEL {
            return Err(Cause::Long {
                what: "a message to the FSP",
                bytes: bytes.into(),
                room: FSP_CHANNEL.into(),
            });
        }
        let io = self.card.io();
        self.wait("the FSP to accept messages", false)?;
        self.drain()?;
        io.write(&regs::NV_PFSP_EMEMC, regs::ememc::AINCW.put(1))?;
        for word in words {
            io.write(&regs::NV_PFSP_EMEMD, word)?;
        }
        // The last dword first: the other one tells the FSP.
        io.write(&regs::NV_PFSP_QUEUE_TAIL, bytes - 4)?;
        io.write(&regs::NV_PFSP_QUEUE_HEAD, 0)?;
        self.answer(kind)
    }

    /// Leaves out what another driver was sent and has not read: it is no answer to what follows.
    fn drain(&self) -> Result<(), Cause> {
        let io = self.card.io();
        let head = io.read(&regs::NV_PFSP_MSGQ_HEAD)?.bits();
        let tail = io.read(&regs::NV_PFSP_MSGQ_TAIL)?.bits();
        if head == tail {
            return Ok(());
        }
        tracing::warn!(target: "hcq::nv::gsp", head, tail, "stale FSP response discarded");
        Ok(io.write(&regs::NV_PFSP_MSGQ_TAIL, head)?)
    }

    fn answer(&self, kind: u8) -> Result<(), Cause> {
        let io = self.card.io();
        self.wait("the FSP to answer", true)?;
        let head = io.read(&regs::NV_PFSP_MSGQ_HEAD)?.bits();
        let tail = io.read(&regs::NV_PFSP_MSGQ_TAIL)?.bits();
        let bytes = tail.wrapping_sub(head).wrapping_add(4);
        if bytes > FSP_CHANNEL || bytes < HEAD + size_of::<NvdmResponse>() as u32 {
            return Err(wrong("its length", bytes, "20 to 1024"));
        }
        io.write(&regs::NV_PFSP_EMEMC, regs::ememc::AINCR.put(1))?;
        let mut all = Vec::new();
        for _ in 0..bytes / 4 {
            all.extend(io.read(&regs::NV_PFSP_EMEMD)?.bits().to_le_bytes());
        }
        // Taken: the next one may come.
        io.write(&regs::NV_PFSP_MSGQ_TAIL, head)?;
        io.write(&regs::NV_PFSP_MSGQ_HEAD, head)?;
        let word = |at: usize| {
            let bytes = all.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default())
        };
        let expected = MCTP_NVIDIA | u32::from(NVDM_TYPE_FSP_RESPONSE) << 24;
        if word(4) != expected {
            let expected = format!("{expected:#x}");
            return Err(wrong("its kind", word(4), &expected));
        }
        let told = all.get(HEAD as usize..).unwrap_or_default();
        let told = NvdmResponse::read_from_prefix(told).map(|(told, _)| told);
        match told.map(|told| (told.command_nvdm_type.get(), told.error_code.get())) {
            Ok((of, 0)) if of == u32::from(kind) => Ok(()),
            Ok((of, code)) => Err(Cause::FspRefused { kind, of, code }),
            Err(_) => Err(wrong("its length", bytes, "20 to 1024")),
        }
    }

    /// Waits until a queue is full, or empty.
    fn wait(&self, what: &str, full: bool) -> Result<(), Cause> {
        let io = self.card.io();
        let (head, tail) = match full {
            true => (&regs::NV_PFSP_MSGQ_HEAD, &regs::NV_PFSP_MSGQ_TAIL),
            false => (&regs::NV_PFSP_QUEUE_HEAD, &regs::NV_PFSP_QUEUE_TAIL),
        };
        let (clock, deadline) = (self.card.clock(), self.card.within(LIMIT));
        poll_until(clock, deadline, what, || {
            let (head, tail) = (io.read(head)?.bits(), io.read(tail)?.bits());
            Ok::<_, Cause>(match (head != tail) == full {
                true => Look::Done(()),
                false => Look::Not(u64::from(head) << 32 | u64::from(tail)),
            })
        })
    }
}

fn wrong(field: &'static str, found: u32, expected: &str) -> Cause {
    Cause::FspAnswer {
        field,
        found,
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_start_with_both_headers() {
        let words = packet(0x14, &[1, 2, 3, 4, 5]);
        assert_eq!(words, [0xc000_0000, 0x1410_de7e, 0x0403_0201, 5]);
    }
}
