//! What the bridge's maker's firmware is asked: SCSI commands, over the bulk-only transport or UAS.
//!
//! Its commands read and write XDATA a byte at a time, so that a TLP is some twenty of them, and send sectors to SRAM.
//! Nothing drives a card by them: a start would be some hundred thousand TLPs, nothing comes back but by TLPs, and
//! that cards answer at all is known of firmware with one byte changed. [`crate::machine`] names such a bridge, and
//! says what to do.
//!
//! Source: USB Mass Storage Class, Bulk-Only Transport 1.0, 5.1 and 5.2; USB Attached SCSI 1.0, 6.2.2; tinygrad,
//! runtime/support/usb.py before it drove the open firmware alone, `ASM24Controller`; [`drivers_spec::asm24::stock`].

use drivers_spec::asm24::{engine, stock};

use crate::tlp::Tlp;

/// Bytes of a command of the bulk-only transport.
pub const COMMAND: usize = 31;
/// Bytes of its status.
pub const STATUS: usize = 13;
/// Bytes of a command of UAS.
pub const UNIT: usize = 32;

/// A command's own bytes, as far as it has any.
pub type Cdb = [u8; 16];

fn xdata(command: u8, parameter: u8, at: u16) -> Cdb {
    let [_, high, middle, low] = (u32::from(at) | stock::XDATA_246X).to_be_bytes();
    let mut cdb = [0; 16];
    cdb[..5].copy_from_slice(&[command, parameter, high, middle, low]);
    cdb
}

/// Reads at most [`stock::MOST_READ`] bytes of XDATA.
pub fn read_xdata(at: u16, bytes: u8) -> Cdb {
    xdata(stock::READ_XDATA, bytes, at)
}

/// Writes a byte of XDATA.
pub fn write_xdata(at: u16, value: u8) -> Cdb {
    xdata(stock::WRITE_XDATA, value, at)
}

/// Writes sectors of 512 bytes to SRAM, from such a sector on.
pub fn write_sectors(first: u64, sectors: u32) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = stock::WRITE_16;
    cdb[2..10].copy_from_slice(&first.to_be_bytes());
    cdb[10..14].copy_from_slice(&sectors.to_be_bytes());
    cdb
}

/// The bytes of XDATA that send a TLP, in their order. What became of one that is answered is in the same place.
pub fn tlp(tlp: &Tlp) -> Vec<(u16, u8)> {
    let mut bytes = Vec::new();
    let mut word = |at: u16, value: u32| bytes.extend((at..).zip(value.to_be_bytes()));
    if tlp.kind & 0x40 != 0 {
        word(engine::DATA, tlp.data);
    }
    word(engine::ADDRESS, tlp.address as u32);
    word(engine::ADDRESS_HIGH, (tlp.address >> 32) as u32);
    bytes.extend([
        (engine::ENABLES, tlp.enables),
        (engine::FORMAT, tlp.kind),
        (engine::TRIGGER, engine::EXECUTE),
        (engine::STATUS, engine::KICK),
    ]);
    bytes
}

/// A command of the bulk-only transport: `bytes` of data to the host, or from it.
pub fn command(tag: u32, bytes: u32, to_host: bool, cdb: &Cdb) -> [u8; COMMAND] {
    let mut wrapper = [0; COMMAND];
    wrapper[..4].copy_from_slice(&stock::CBW);
    wrapper[4..8].copy_from_slice(&tag.to_le_bytes());
    wrapper[8..12].copy_from_slice(&bytes.to_le_bytes());
    wrapper[12] = if to_host { 0x80 } else { 0 };
    wrapper[14] = cdb.len() as u8;
    wrapper[15..].copy_from_slice(cdb);
    wrapper
}

/// A command of UAS, whose data and status come on the stream of the same number: 1 to [`stock::STREAMS`].
pub fn unit(stream: u8, cdb: &Cdb) -> [u8; UNIT] {
    let mut unit = [0; UNIT];
    (unit[0], unit[3]) = (1, stream);
    unit[16..].copy_from_slice(cdb);
    unit
}

/// What is wrong with a status of the bulk-only transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StatusError {
    /// It does not start as one does.
    #[error("the status starts with {0:02x?}, expected USBS")]
    Signature([u8; 4]),
    /// It is of another command.
    #[error("the status is of command {seen}, expected {expected}")]
    Tag {
        /// The command that was sent.
        expected: u32,
        /// The one it is of.
        seen: u32,
    },
    /// The command failed, or the two sides have lost step.
    #[error("the command has status {0} (1: failed, 2: phase error)")]
    Failed(u8),
}

/// Looks at the status of a command; returns how many bytes it did not move.
///
/// # Errors
/// [`StatusError`].
pub fn status(tag: u32, bytes: &[u8; STATUS]) -> Result<u32, StatusError> {
    let [a, b, c, d, e, f, g, h, i, j, k, l, status] = *bytes;
    let signature = [a, b, c, d];
    if signature != stock::CSW {
        return Err(StatusError::Signature(signature));
    }
    let seen = u32::from_le_bytes([e, f, g, h]);
    if seen != tag {
        let expected = tag;
        return Err(StatusError::Tag { expected, seen });
    }
    match status {
        0 => Ok(u32::from_le_bytes([i, j, k, l])),
        other => Err(StatusError::Failed(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_driver_that_used_them_has_them() {
        let bytes = command(7, 4, true, &read_xdata(0xb450, 4));
        assert_eq!(bytes[..15], *b"USBC\x07\0\0\0\x04\0\0\0\x80\0\x10");
        assert_eq!(bytes[15..21], [0xe4, 4, 0x50, 0xb4, 0x50, 0]);
        let bytes = write_xdata(0xb296, 4);
        assert_eq!(bytes[..6], [0xe5, 4, 0x50, 0xb2, 0x96, 0]);
        let bytes = write_sectors(0x10, 128);
        let expected = [0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 128, 0, 0];
        assert_eq!(bytes, expected);
        let bytes = unit(31, &read_xdata(0xb21a, 0x24));
        assert_eq!(bytes[..4], [1, 0, 0, 31]);
        assert_eq!(bytes[16..22], [0xe4, 0x24, 0x50, 0xb2, 0x1a, 0]);
    }

    #[test]
    fn a_tlp_is_set_up_with_its_highest_bytes_first() {
        let read = tlp(&Tlp::read(0x8_1234_5678, 4));
        let address = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 8];
        let expected = (0xb218..).zip(address);
        let rest = [(0xb217, 0xf), (0xb210, 0x20), (0xb254, 0xf), (0xb296, 4)];
        assert_eq!(read, expected.chain(rest).collect::<Vec<_>>());
        let write = tlp(&Tlp::write(0x1001, 1, 0xab));
        let data = [(0xb220, 0), (0xb221, 0), (0xb222, 0xab), (0xb223, 0)];
        assert_eq!((write.len(), &write[..4]), (16, &data[..]));
        assert_eq!(write[12..14], [(0xb217, 2), (0xb210, 0x60)]);
    }

    #[test]
    fn a_status_is_of_its_command() {
        let mut bytes = *b"USBS\x07\0\0\0\x02\0\0\0\0";
        assert_eq!(status(7, &bytes), Ok(2));
        let (expected, seen) = (8, 7);
        assert_eq!(status(8, &bytes), Err(StatusError::Tag { expected, seen }));
        bytes[12] = 1;
        assert_eq!(status(7, &bytes), Err(StatusError::Failed(1)));
        bytes[0] = b'X';
        assert_eq!(status(7, &bytes), Err(StatusError::Signature(*b"XSBS")));
    }
}
