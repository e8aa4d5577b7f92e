//! Lines of bytes that are moved.

use std::ops::Range;

use drivers_spec::nv::copy::{self as spec, launch_dma as bits};
use twin::rule::{Proof, Rule};

use super::super::error::Result;
use super::super::port::Port;
use super::super::registers::Registers;
use super::remap::Remap;

static PIPELINED: Rule = Rule {
    name: "COPY-PIPELINED",
    text: "a pipelined copy neither accesses what earlier copies write nor writes what they read: it does not wait for them",
    source: "open-gpu-kernel-modules, kernel-open/nvidia-uvm/uvm_push.h, UVM_PUSH_FLAG_CE_NEXT_PIPELINED",
    proof: Proof::Sourced,
};

/// A transfer.
#[derive(Debug)]
pub(super) struct Transfer {
    from: u64,
    to: u64,
    /// From line to line.
    pitches: [u64; 2],
    /// Bytes of a line, or its elements where they are changed on the way.
    length: u64,
    lines: u64,
    remap: Option<Remap>,
    pipelined: bool,
}

/// Bytes that are moved at a time.
const PIECE: u64 = 1 << 18;

impl Transfer {
    pub fn new(port: &Port, r: &Registers, value: u32) -> Self {
        let mask = spec::OFFSET_IN_UPPER.mask(port.arch);
        let remaps = bits::REMAP_ENABLE.get(value) != 0;
        let lines = match bits::MULTI_LINE_ENABLE.get(value) {
            0 => 1,
            _ => u64::from(r.get(&spec::LINE_COUNT)),
        };
        Self {
            from: r.long(&spec::OFFSET_IN_UPPER, &spec::OFFSET_IN_LOWER, mask),
            to: r.long(&spec::OFFSET_OUT_UPPER, &spec::OFFSET_OUT_LOWER, mask),
            pitches: [&spec::PITCH_IN, &spec::PITCH_OUT].map(|method| r.get(method).into()),
            length: r.get(&spec::LINE_LENGTH_IN).into(),
            lines,
            remap: remaps.then(|| Remap::new(r)),
            pipelined: bits::DATA_TRANSFER_TYPE.get(value) == bits::DATA_TRANSFER_TYPE_PIPELINED,
        }
    }

    /// Whether it has a source.
    pub fn reads(&self) -> bool {
        self.remap.as_ref().is_none_or(Remap::reads)
    }

    /// Bytes of an element, there and here.
    fn element(&self) -> (u64, u64) {
        self.remap.as_ref().map_or((1, 1), Remap::bytes)
    }

    /// What it reads and what it writes, from the first byte to the last one.
    fn ranges(&self) -> [Range<u64>; 2] {
        let (source, target) = self.element();
        let range = |at: u64, pitch: u64, element: u64| {
            let bytes = self.lines.saturating_sub(1) * pitch + self.length * element;
            match self.lines {
                0 => at..at,
                _ => at..at.saturating_add(bytes),
            }
        };
        let read = match self.reads() {
            true => range(self.from, self.pitches[0], source),
            false => 0..0,
        };
        [read, range(self.to, self.pitches[1], target)]
    }

    pub fn run(&self, port: &Port, text: &str) -> Result {
        let (source, target) = self.element();
        let each = PIECE / source.max(target);
        let (mut read, mut write) = (Vec::new(), Vec::new());
        for line in 0..self.lines {
            let from = self.from + line * self.pitches[0];
            let to = self.to + line * self.pitches[1];
            let mut done = 0;
            while done < self.length {
                let count = each.min(self.length - done);
                let at = to + done * target;
                if self.reads() {
                    read.resize((count * source) as usize, 0);
                    port.read(text, from + done * source, &mut read)?;
                }
                match &self.remap {
                    None => port.write(text, at, &read)?,
                    Some(remap) => {
                        write.resize((count * target) as usize, 0);
                        if remap.keeps() {
                            port.read(text, at, &mut write)?;
                        }
                        remap.change(&read, &mut write);
                        port.write(text, at, &write)?;
                    }
                }
                done += count;
            }
        }
        Ok(())
    }
}

/// Copies that may still be under way, since the last that waited for those before it.
#[derive(Debug, Default)]
pub(super) struct Flight(Vec<[Range<u64>; 2]>);

impl Flight {
    /// A transfer begins.
    pub fn enter(&mut self, port: &Port, transfer: &Transfer, text: &str) {
        if !transfer.pipelined {
            self.land();
        }
        let new = transfer.ranges();
        let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let clash = |old: &&[Range<u64>; 2]| {
            meet(&old[1], &new[0]) || meet(&old[1], &new[1]) || meet(&old[0], &new[1])
        };
        if let Some([read, written]) = self.0.iter().find(clash) {
            let what = format!(
                "{text}: reads {:#x?}, writes {:#x?} while one before it reads {read:#x?}, writes {written:#x?}",
                new[0], new[1]
            );
            port.broken(&PIPELINED, what);
        }
        self.0.push(new);
    }

    /// All are done.
    pub fn land(&mut self) {
        self.0.clear();
    }
}
