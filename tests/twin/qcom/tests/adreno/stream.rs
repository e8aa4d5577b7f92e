//! Streams of packets that tests change.

use drivers_spec::qcom::packet::{Packet, packets};
use drivers_spec::qcom::regs::{self, Reg};

/// A packet, with one register where it writes registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    Register(u32, u32),
    Command(u8, Vec<u32>),
}

/// Packets in order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Stream(pub Vec<Piece>);

impl Stream {
    pub fn of(words: &[u32]) -> Stream {
        let mut all = Vec::new();
        for packet in packets(words) {
            match packet.unwrap().1 {
                Packet::Registers { first, values } => {
                    let values = (first..).zip(values);
                    all.extend(values.map(|(at, value)| Piece::Register(at, *value)));
                }
                Packet::Command { op, body } => all.push(Piece::Command(op, body.to_vec())),
            }
        }
        Stream(all)
    }

    pub fn words(&self) -> Vec<u32> {
        let mut words = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Register(at, value) => {
                    let values = &[*value];
                    let packet = Packet::Registers { first: *at, values };
                    packet.encode(&mut words).unwrap();
                }
                Piece::Command(op, body) => {
                    Packet::Command { op: *op, body }
                        .encode(&mut words)
                        .unwrap();
                }
            }
        }
        words
    }

    /// Another command at the end.
    pub fn command(mut self, op: u8, body: &[u32]) -> Stream {
        self.0.push(Piece::Command(op, body.to_vec()));
        self
    }

    /// Another register at the end.
    pub fn register(mut self, reg: &Reg, value: u32) -> Stream {
        self.0.push(Piece::Register(regs::dword(reg), value));
        self
    }

    /// Others behind these.
    pub fn then(mut self, other: Stream) -> Stream {
        self.0.extend(other.0);
        self
    }

    /// Gives a register another value wherever it is written.
    pub fn set(&mut self, reg: &Reg, to: u32) {
        let mut found = false;
        for piece in &mut self.0 {
            if let Piece::Register(at, value) = piece
                && *at == regs::dword(reg)
            {
                (*value, found) = (to, true);
            }
        }
        assert!(found, "{}", reg.word.name);
    }

    /// What a register is set to at last.
    pub fn value(&self, reg: &Reg) -> u32 {
        let mut all = self.0.iter().rev();
        let found = all.find_map(|piece| match piece {
            Piece::Register(at, value) if *at == regs::dword(reg) => Some(*value),
            _ => None,
        });
        found.unwrap()
    }

    /// Leaves a register out.
    pub fn omit(&mut self, reg: &Reg) {
        self.0
            .retain(|piece| !matches!(piece, Piece::Register(at, _) if *at == regs::dword(reg)));
    }

    /// Leaves commands out.
    pub fn without(&mut self, op: u8) {
        self.0
            .retain(|piece| !matches!(piece, Piece::Command(of, _) if *of == op));
    }

    /// Changes the dwords of commands.
    pub fn change(&mut self, op: u8, mut how: impl FnMut(&mut Vec<u32>)) {
        for piece in &mut self.0 {
            if let Piece::Command(of, body) = piece
                && *of == op
            {
                how(body);
            }
        }
    }
}
