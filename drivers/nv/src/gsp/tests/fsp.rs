//! An FSP: its memory, its queues, and the message that has it start GSP.

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::gsp::{FmcBootParams, NvdmPayloadCot};
use zerocopy::FromBytes;

use super::card::Memory;
use super::files;

/// Its side of the channel for drivers.
#[derive(Default)]
pub struct Fsp {
    memory: Vec<u8>,
    /// Where the next dword goes, or comes from, once that was said.
    writes: Option<usize>,
    reads: Option<usize>,
    /// Head and tail: of what it is sent, and of what it sends.
    queue: [u32; 2],
    messages: [u32; 2],
    /// Looks until what it sends is there.
    busy: u32,
    /// What it sends then.
    sends: Vec<u8>,
}

impl Fsp {
    /// One that has an answer which its driver has not taken.
    pub fn stale() -> Fsp {
        let words = [0xc000_0000, 0x1510_de7e, 0, 0x14, 0x77];
        let memory = words.map(u32::to_le_bytes).concat();
        Fsp {
            messages: [0, memory.len() as u32 - 4],
            memory,
            ..Fsp::default()
        }
    }

    pub fn read(&mut self, at: u64) -> u32 {
        match at {
            0xac4 => {
                let at = self
                    .reads
                    .as_mut()
                    .expect("AINCR, and where, are said before");
                let word = self.memory[*at..][..4].try_into().unwrap();
                *at += 4;
                u32::from_le_bytes(word)
            }
            0xc00 => self.queue[0],
            0xc04 => self.queue[1],
            0xc80 | 0xc84 => {
                self.busy = self.busy.saturating_sub(1);
                if self.busy == 0 && !self.sends.is_empty() {
                    self.memory = std::mem::take(&mut self.sends);
                    self.messages = [0, self.memory.len() as u32 - 4];
                }
                self.messages[usize::from(at == 0xc84)]
            }
            _ => panic!("FSP: read of {at:#x}"),
        }
    }

    /// Returns the message that it has been sent by that.
    pub fn write(&mut self, at: u64, value: u32) -> Option<Vec<u8>> {
        match at {
            0xac0 => {
                assert!(
                    value != 0x100_0000 || self.messages[0] == self.messages[1],
                    "no old answer is there"
                );
                (self.writes, self.reads) = match value {
                    0x100_0000 => (Some(0), None),
                    0x200_0000 => (None, Some(0)),
                    _ => panic!("EMEMC {value:#x}: from the start, in one direction"),
                };
            }
            0xac4 => {
                assert_eq!(self.queue[0], self.queue[1], "one message at a time");
                let at = self
                    .writes
                    .as_mut()
                    .expect("AINCW, and where, are said before");
                self.memory.resize(self.memory.len().max(*at + 4), 0);
                self.memory[*at..][..4].copy_from_slice(&value.to_le_bytes());
                *at += 4;
                assert!(*at <= 1024, "a packet has 1024 bytes");
            }
            0xc04 => self.queue[1] = value,
            0xc00 => {
                assert_eq!(value, 0, "a packet is at the start");
                let end = self.queue[1] as usize + 4;
                assert_eq!(Some(end), self.writes, "the tail is at the last dword");
                self.queue = [0; 2];
                return Some(self.memory[..end].to_vec());
            }
            // Left out, before anything is sent.
            0xc84 if self.writes.is_none() && self.reads.is_none() => {
                assert_eq!(value, self.messages[0], "the tail goes to the head");
                self.messages[1] = value;
            }
            0xc84 => {
                let read = self.reads.expect("an answer is read");
                assert_eq!(read as u32, self.messages[1] + 4, "all of it");
                self.messages[1] = value;
            }
            0xc80 => {
                assert_eq!([value; 2], self.messages, "the tail goes to the head first");
            }
            _ => panic!("FSP: write of {value:#x} to {at:#x}"),
        }
        None
    }

    /// Answers the message that starts GSP.
    pub fn answer(&mut self, code: u32) {
        let words = [0xc000_0000, 0x1510_de7e, 0, 0x14, code];
        self.sends = words.map(u32::to_le_bytes).concat();
        self.busy = 5;
    }
}

/// What the message says.
pub struct Order {
    /// The FMC's argument.
    pub at: u64,
    /// Where FRTS ends, from the end of VRAM down; the WPR metadata; the arguments of GSP's operating system.
    pub frts: u64,
    pub meta: u64,
    pub libos: u64,
}

impl Order {
    /// Checks it, and what it points to, as Hopper's FSP and its FMC do.
    pub fn of(memory: &Memory, message: &[u8]) -> Order {
        let head = [0xc000_0000, 0x1410_de7e].map(u32::to_le_bytes).concat();
        let payload = message.strip_prefix(&head[..]).expect("MCTP and NVDM");
        let cot = NvdmPayloadCot::read_from_bytes(payload).expect("a COT, and nothing else");
        assert_eq!((cot.version.get(), cot.size.get()), (1, 0x35c));
        let image = memory.read(cot.gsp_fmc_sysmem_offset.get(), files::fmc().len());
        assert!(image == files::fmc());
        assert_eq!(cot.hash384, files::FMC_HASH);
        assert_eq!(cot.public_key, files::FMC_KEY);
        assert_eq!(cot.signature, files::FMC_SIGNATURE);
        let copy = (cot.frts_sysmem_offset.get(), cot.frts_sysmem_size.get());
        assert_eq!(copy, (0, 0), "no copy of FRTS");
        let frts = cot.frts_vidmem_offset.get();
        assert_eq!((frts, cot.frts_vidmem_size.get()), (2 << 20, 1 << 20));
        let size = FmcBootParams::LAYOUT.size(Branch::R570);
        let params = memory.read(cot.gsp_boot_args_sysmem_offset.get(), size);
        let params = FmcBootParams::decode(Branch::R570, &params).unwrap();
        // Both in coherent memory of the host; GSP is to run RM.
        assert_eq!(
            (params.target, params.rm_target, params.is_gsp_rm_boot),
            (1, 1, 1)
        );
        assert_eq!(params.gsp_rm_desc_size, 256);
        Order {
            at: cot.gsp_boot_args_sysmem_offset.get(),
            frts,
            meta: params.gsp_rm_desc_offset,
            libos: params.boot_args_offset,
        }
    }
}
