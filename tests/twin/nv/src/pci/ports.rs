//! IMEM and DMEM of a falcon, and the ports by which the host reads and writes them.
//!
//! Source: OGKM, ampere/ga102/dev_falcon_v4.h: IMEMC, IMEMD, IMEMT, DMEMC, DMEMD.

use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::registers::falcon::{DMEMC, IMEMC};

static PORT: Rule = Rule {
    name: "NV-FALCON-PORT",
    text: "ports access words inside of IMEM and DMEM; the host does not read secure blocks",
    source: "OGKM, ampere/ga102/dev_falcon_v4.h: IMEMC_OFFS, IMEMC_BLK, IMEMC_SECURE; Linux, Documentation/gpu/nova/core/falcon.rst",
    proof: Proof::Sourced,
};

/// Bytes of a block of IMEM.
pub(super) const BLOCK: usize = 256;

/// IMEM, in blocks that have a virtual address.
pub(super) struct Blocks {
    bytes: Vec<u8>,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Default)]
struct Block {
    /// Its virtual block; none if nobody has loaded it.
    tag: Option<u32>,
    secure: bool,
}

impl Blocks {
    pub(super) fn new(bytes: usize) -> Blocks {
        Blocks {
            bytes: vec![0; bytes],
            blocks: vec![Block::default(); bytes / BLOCK],
        }
    }

    /// A block is filled.
    pub(super) fn load(&mut self, at: usize, block: &[u8; BLOCK], tag: u32, secure: bool) {
        self.bytes[at..at + BLOCK].copy_from_slice(block);
        self.blocks[at / BLOCK] = Block {
            tag: Some(tag),
            secure,
        };
    }

    /// The block at a virtual address: where it is, and whether it is secure.
    pub(super) fn at(&self, address: u32) -> Option<(usize, bool)> {
        let tag = address / BLOCK as u32;
        let mut blocks = self.blocks.iter().enumerate();
        blocks
            .find(|(_, block)| block.tag == Some(tag))
            .map(|(number, block)| (number * BLOCK, block.secure))
    }

    /// The secure code from a block on: as far as blocks follow each other, there and by their virtual addresses.
    pub(super) fn secure_from(&self, at: usize) -> &[u8] {
        let first = at / BLOCK;
        let tag = self.blocks[first].tag.unwrap_or(0);
        let follow = self.blocks[first..].iter().zip(tag..);
        let count = follow
            .take_while(|(block, tag)| block.secure && block.tag == Some(*tag))
            .count();
        &self.bytes[at..at + count * BLOCK]
    }

    /// Bytes of a block that is not secure.
    pub(super) fn bytes_at(&self, at: usize) -> &[u8] {
        &self.bytes[at..at + BLOCK]
    }
}

/// The registers of ports.
#[derive(Default)]
pub(super) struct Ports {
    imemc: [u32; 4],
    tags: [u32; 4],
    dmemc: [u32; 8],
}

/// Whether a register is one of a port.
pub(super) fn is_one(offset: u32) -> bool {
    of(offset).is_some()
}

enum Port {
    ImemControl(usize),
    ImemData(usize),
    ImemTag(usize),
    DmemControl(usize),
    DmemData(usize),
}

fn of(offset: u32) -> Option<Port> {
    match offset {
        IMEMC..DMEMC => {
            let port = ((offset - IMEMC) / 16) as usize;
            match offset & 0xf {
                0 => Some(Port::ImemControl(port)),
                4 => Some(Port::ImemData(port)),
                8 => Some(Port::ImemTag(port)),
                _ => None,
            }
        }
        _ if (DMEMC..DMEMC + 64).contains(&offset) => {
            let port = ((offset - DMEMC) / 8) as usize;
            match offset & 7 {
                0 => Some(Port::DmemControl(port)),
                4 => Some(Port::DmemData(port)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The place that a control word names.
fn place(control: u32, bytes: usize) -> Result<usize, Broken> {
    let at = (control & 0xff_fffc) as usize;
    match at + 4 <= bytes {
        true => Ok(at),
        false => Err((&PORT, format!("word {at:#x} of {bytes:#x} bytes"))),
    }
}

/// The control word after an access.
fn step(control: u32, increments: bool) -> u32 {
    match increments {
        true => control & !0xff_fffc | (control + 4) & 0xff_fffc,
        false => control,
    }
}

impl Ports {
    /// The host reads a register of a port.
    pub(super) fn read(&mut self, imem: &Blocks, dmem: &[u8], offset: u32) -> Result<u32, Broken> {
        let word = |bytes: &[u8], at: usize| super::memory::word(bytes, at);
        Ok(match of(offset) {
            Some(Port::ImemControl(port)) => self.imemc[port],
            Some(Port::ImemTag(port)) => self.tags[port],
            Some(Port::DmemControl(port)) => self.dmemc[port],
            Some(Port::ImemData(port)) => {
                let at = place(self.imemc[port], imem.bytes.len())?;
                if imem.blocks[at / BLOCK].secure {
                    return Err((&PORT, format!("read of secure IMEM at {at:#x}")));
                }
                self.imemc[port] = step(self.imemc[port], self.imemc[port] >> 25 & 1 != 0);
                word(&imem.bytes, at)
            }
            Some(Port::DmemData(port)) => {
                let at = place(self.dmemc[port], dmem.len())?;
                self.dmemc[port] = step(self.dmemc[port], self.dmemc[port] >> 25 & 1 != 0);
                word(dmem, at)
            }
            None => 0,
        })
    }

    /// The host writes a register of a port.
    pub(super) fn write(
        &mut self,
        imem: &mut Blocks,
        dmem: &mut [u8],
        offset: u32,
        value: u32,
    ) -> Result<(), Broken> {
        match of(offset) {
            Some(Port::ImemControl(port)) => self.imemc[port] = value,
            Some(Port::ImemTag(port)) => self.tags[port] = value & 0xffff,
            Some(Port::DmemControl(port)) => self.dmemc[port] = value,
            Some(Port::ImemData(port)) => {
                let control = self.imemc[port];
                let at = place(control, imem.bytes.len())?;
                imem.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                imem.blocks[at / BLOCK] = Block {
                    tag: Some(self.tags[port]),
                    secure: control >> 28 & 1 != 0,
                };
                self.imemc[port] = step(control, control >> 24 & 1 != 0);
            }
            Some(Port::DmemData(port)) => {
                let control = self.dmemc[port];
                let at = place(control, dmem.len())?;
                dmem[at..at + 4].copy_from_slice(&value.to_le_bytes());
                self.dmemc[port] = step(control, control >> 24 & 1 != 0);
            }
            None => {}
        }
        Ok(())
    }
}
