//! What the bridge's open firmware is asked: control requests, as setup and data.

use drivers_spec::asm24::{open, tlp as status};
use hcq::transport::Setup;

use crate::tlp::Tlp;

/// Bytes beside a setup of [`tlp`] and `stream`.
pub type Body = [u8; 12];

/// Bytes that [`answer`] moves.
pub const ANSWER: usize = 8;

const fn to_device(request: u8, value: u16, index: u16) -> Setup {
    Setup {
        request_type: open::TO_DEVICE,
        request,
        value,
        index,
    }
}

const fn to_host(request: u8, value: u16) -> Setup {
    Setup {
        request_type: open::TO_HOST,
        request,
        value,
        index: 0,
    }
}

/// Reads XDATA.
pub const fn read_xdata(at: u16) -> Setup {
    to_host(open::READ_XDATA, at)
}

/// Writes a byte of XDATA.
pub const fn write_xdata(at: u16, value: u8) -> Setup {
    to_device(open::WRITE_XDATA, at, value as u16)
}

/// Turns the power of the slot on or off.
pub const fn power(on: bool) -> Setup {
    to_device(open::POWER, on as u16, 0)
}

fn body(address: u64, last: u32) -> Body {
    let mut body = [0; 12];
    body[..8].copy_from_slice(&address.to_le_bytes());
    body[8..].copy_from_slice(&last.to_le_bytes());
    body
}

/// One TLP.
pub fn tlp(tlp: &Tlp) -> (Setup, Body) {
    let value = u16::from(tlp.kind) | u16::from(tlp.enables) << 8;
    let setup = to_device(open::TLP, value, open::SINGLE);
    (setup, body(tlp.address, tlp.data))
}

/// What became of the last TLP that is not posted.
pub const fn answer() -> Setup {
    to_host(open::TLP, 0)
}

/// So many dwords from an address on, to it from the bulk endpoint.
pub fn stream_out(address: u64, dwords: u32) -> (Setup, Body) {
    stream(&Tlp::write(address, 4, 0), open::STREAM_OUT, dwords)
}

/// So many dwords from an address on, to the bulk endpoint.
pub fn stream_in(address: u64, dwords: u32) -> (Setup, Body) {
    stream(&Tlp::read(address, 4), open::STREAM_IN, dwords)
}

fn stream(tlp: &Tlp, mode: u16, dwords: u32) -> (Setup, Body) {
    let value = u16::from(tlp.kind) | u16::from(tlp.enables) << 8;
    (to_device(open::TLP, value, mode), body(tlp.address, dwords))
}

/// Arms the DMA of so many bytes between a bulk endpoint and SRAM, from a slot on. What is transferred then is
/// [`sectors`] of them, neither more nor less.
pub const fn arm(to_host: bool, slot: u8, bytes: usize) -> Setup {
    let sectors = sectors(bytes) as u16;
    let slots = bytes.div_ceil(open::SLOT) as u16;
    let value = match to_host {
        true => sectors | open::ARM_IN,
        false => sectors,
    };
    to_device(open::ARM, value, slot as u16 | slots << 8)
}

/// The number of sectors of that many bytes.
pub const fn sectors(bytes: usize) -> usize {
    bytes.div_ceil(open::SECTOR)
}

/// What a TLP was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done; data of a read.
    Done(u32),
    /// The engine reports an error: the TLP had no completion.
    Failed,
    /// Nothing came, within what the firmware waits.
    Nothing,
    /// The completion has another status than success.
    Refused(Status),
}

/// Status of a completion that is not success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Unsupported request: no function has the address.
    Unsupported,
    /// Configuration request retry: not ready yet.
    Retry,
    /// Completer abort.
    Abort,
    /// One that the specification has not.
    Unknown(u8),
}

impl Answer {
    /// Reads an [`answer`].
    pub fn parse(bytes: &[u8; ANSWER]) -> Answer {
        match bytes[7] {
            open::COMPLETED => {}
            open::FAILED => return Answer::Failed,
            _ => return Answer::Nothing,
        }
        match bytes[4] >> 5 {
            0 => {
                let [a, b, c, d, ..] = *bytes;
                Answer::Done(u32::from_le_bytes([a, b, c, d]))
            }
            status::UNSUPPORTED_REQUEST => Answer::Refused(Status::Unsupported),
            status::RETRY => Answer::Refused(Status::Retry),
            status::ABORT => Answer::Refused(Status::Abort),
            other => Answer::Refused(Status::Unknown(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_more_than_that_something_came() {
        let answer =
            |header: u8, ret: u8| Answer::parse(&[0x78, 0x56, 0x34, 0x12, header, 4, 1, ret]);
        assert_eq!(answer(0, 0), Answer::Done(0x1234_5678));
        assert_eq!(answer(0x20, 0), Answer::Refused(Status::Unsupported));
        assert_eq!(answer(0x40, 0), Answer::Refused(Status::Retry));
        assert_eq!(answer(0x80, 0), Answer::Refused(Status::Abort));
        assert_eq!(answer(0x60, 0), Answer::Refused(Status::Unknown(3)));
        assert_eq!(answer(0x20, 1), Answer::Failed);
        assert_eq!(answer(0, 0xff), Answer::Nothing);
    }
}
