//! Packets as words, for encoders.
//!
//! Source: drivers/spec/src/qcom/packet.rs.

use drivers_spec::qcom::packet::{header4, header7, type4, type7};
use drivers_spec::qcom::regs::{Reg, dword};

/// Appends a packet that writes registers from `first` on.
#[inline]
pub fn registers(out: &mut Vec<u32>, first: &Reg, values: &[u32]) {
    out.push(type4(dword(first), values.len() as u32));
    out.extend_from_slice(values);
}

/// Appends a command.
#[inline]
pub fn command(out: &mut Vec<u32>, op: u8, body: &[u32]) {
    out.push(type7(op, body.len() as u32));
    out.extend_from_slice(body);
}

/// The halves of an address, the lower one first.
#[inline]
pub const fn halves(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

/// Words of the packet that a header starts; of what is no header, one.
pub const fn length(header: u32) -> usize {
    1 + match header4::TYPE.get(header) {
        header4::TYPE4 => header4::COUNT.get(header) as usize,
        header7::TYPE7 => header7::COUNT.get(header) as usize,
        _ => 0,
    }
}

/// How many of the first words are whole packets and fit `room`; 0 if the first one does not.
pub fn packet_boundary(words: &[u32], room: usize) -> usize {
    let mut end = 0;
    while let Some(&header) = words.get(end) {
        let next = end + length(header);
        if next > room.min(words.len()) {
            break;
        }
        end = next;
    }
    end
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::packet::op;
    use drivers_spec::qcom::regs::SP_CS_NDRANGE_0;

    use super::*;

    #[test]
    fn words_are_cut_between_packets() {
        let mut words = Vec::new();
        command(&mut words, op::WAIT_FOR_IDLE, &[]);
        registers(&mut words, &SP_CS_NDRANGE_0, &[0; 12]);
        command(&mut words, op::EXEC_CS, &[0; 4]);
        assert_eq!(words[..2], [0x7026_8000, 0x40b9_908c]);
        let cut = [0, 1, 13, 14, 18, 19, 100].map(|room| packet_boundary(&words, room));
        assert_eq!(cut, [0, 1, 1, 14, 14, 19, 19]);
        assert_eq!(packet_boundary(&words[..18], 100), 14);
    }
}
