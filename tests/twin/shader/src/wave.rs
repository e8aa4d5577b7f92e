//! The state of a wave.

use std::cell::Cell;

use crate::counters::Counters;
use crate::isa::Gen;
use crate::page::Bus;
use crate::trap::{Handler, Message, Trap};
use crate::turns::Seat;

/// One VGPR of 32 lanes. A wave of 64 lanes has two of them for each register.
pub type Lanes = [u32; 32];

/// Where a wave sits in its launch: what hardware registers and system SGPRs tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The workgroup.
    pub group: [u32; 3],
    /// The wave in it.
    pub wave: u32,
    /// How many waves it has.
    pub waves: u32,
    /// Address of the scratch of this wave, 0 for none.
    pub scratch: u64,
    /// Bytes of scratch of this wave.
    pub scratch_bytes: u32,
    /// High half of addresses in the LDS aperture.
    pub shared_aperture: u32,
    /// High half of addresses in the scratch aperture.
    pub private_aperture: u32,
    /// The XCC that runs it.
    pub xcc: u32,
}

/// A wave: its registers, and what it reaches.
pub struct Wave<'a> {
    /// The generation.
    pub generation: Gen,
    /// Address of the instruction that runs.
    pub pc: u64,
    /// Address of the next one.
    pub next: u64,
    /// By code of scalar operands: SGPRs from 0, VCC at 106, trap temporaries from 108. The codes of
    /// M0, NULL and EXEC are not used here; see the fields below.
    pub s: [u32; 128],
    /// M0.
    pub m0: u32,
    /// One bit per lane. Bits 32 and up are zero in a wave of 32 lanes.
    pub exec: u64,
    /// SCC.
    pub scc: bool,
    /// The MODE register as the ISA document of the generation lays it out: rounding 3:0 (f32 1:0,
    /// f16 and f64 3:2), denormals 7:4 (f32 5:4, f16 and f64 7:6), ...
    pub mode: u32,
    /// VGPR `r`, lanes `32 * h` and up, is `v[r * halves + h]`. The accumulation registers of CDNA
    /// are VGPRs 256 to 511.
    pub v: Vec<Lanes>,
    /// How many VGPRs are allocated; an access beyond breaks a rule.
    pub vgprs: usize,
    /// 1 for waves of 32 lanes, 2 for 64.
    pub halves: usize,
    /// LDS of the workgroup, in dwords. All waves of a workgroup run on one thread.
    pub lds: &'a [Cell<u32>],
    /// Memory.
    pub bus: Bus<'a>,
    /// What is in flight.
    pub counters: Counters,
    /// Where it sits.
    pub place: Place,
    /// The thread that runs it: the clock in ticks of 10 ns, and what has an order.
    pub seat: Seat<'a>,
    /// How often this wave has signalled the barrier of the workgroup.
    pub signalled: u32,
    /// How often any wave of the workgroup has.
    pub phases: &'a Cell<u32>,
    /// Where it waits for others of the GPU: what it found there (`Gws`).
    pub arrived: Option<u64>,
    /// What the wave has had to tell since it had its last turn.
    pub messages: Vec<Message>,
    /// The trap handler, where there is one.
    pub handler: Option<Handler>,
    /// The trap whose handler it runs.
    pub trap: Option<Trap>,
    /// It stops once it leaves the trap handler.
    pub halted: bool,
}

impl Wave<'_> {
    /// The scalar source at `code` that is neither a register of [`Wave::s`] nor a constant: EXEC, M0,
    /// SCC, apertures. A pair where there is one, else 32 bits.
    pub fn special(&self, code: u16) -> u64 {
        let aperture = |high: u32| u64::from(high) << 32;
        match code {
            126 => self.exec,
            230 => self.place.scratch,
            231 => self.place.scratch >> 32,
            235 => aperture(self.place.shared_aperture),
            236 => aperture(self.place.shared_aperture) | 0xffff_ffff,
            237 => aperture(self.place.private_aperture),
            238 => aperture(self.place.private_aperture) | 0xffff_ffff,
            251 => self.vccz().into(),
            252 => (self.exec == 0).into(),
            253 => self.scc.into(),
            _ => self.scalar(code & 127).into(),
        }
    }

    /// Whether no bit of VCC is set, of the lanes that the wave has.
    pub fn vccz(&self) -> bool {
        self.s[106] == 0 && (self.halves == 1 || self.s[107] == 0)
    }

    /// VCC.
    pub fn vcc(&self) -> u64 {
        u64::from(self.s[106]) | u64::from(self.s[107]) << 32
    }

    /// Sets VCC; a wave of 32 lanes leaves the high half alone.
    pub fn set_vcc(&mut self, value: u64) {
        self.set_mask(106, value);
    }

    /// The mask of lanes at scalar operand `code`: 64 bits, or 32 in a wave of 32 lanes.
    pub fn mask(&self, code: u16) -> u64 {
        if self.halves == 1 {
            u64::from(self.scalar(code))
        } else {
            self.scalar64(code)
        }
    }

    /// Writes a mask of lanes: one SGPR in a wave of 32 lanes, two in one of 64.
    pub fn set_mask(&mut self, code: u16, value: u64) {
        if self.halves == 1 {
            self.set_scalar(code, value as u32);
        } else {
            self.set_scalar64(code, value);
        }
    }

    /// The register at scalar operand `code` below 128, 32 bits.
    pub fn scalar(&self, code: u16) -> u32 {
        match code {
            126 => self.exec as u32,
            127 => (self.exec >> 32) as u32,
            124 | 125 => {
                if code == self.m0_code() {
                    self.m0
                } else {
                    0
                }
            }
            _ => self.s[usize::from(code & 127)],
        }
    }

    /// Writes the register at scalar operand `code` below 128. NULL takes everything.
    pub fn set_scalar(&mut self, code: u16, value: u32) {
        match code {
            126 => self.exec = self.exec & !0xffff_ffff | u64::from(value),
            127 if self.halves == 2 => {
                self.exec = self.exec & 0xffff_ffff | u64::from(value) << 32;
            }
            127 => {}
            124 | 125 => {
                if code == self.m0_code() {
                    self.m0 = value;
                }
            }
            _ => self.s[usize::from(code & 127)] = value,
        }
    }

    /// The registers at scalar operands `code` and `code + 1`.
    pub fn scalar64(&self, code: u16) -> u64 {
        if code == self.null_code() {
            return 0;
        }
        u64::from(self.scalar(code)) | u64::from(self.scalar(code + 1)) << 32
    }

    /// Writes the registers at scalar operands `code` and `code + 1`.
    pub fn set_scalar64(&mut self, code: u16, value: u64) {
        if code == self.null_code() {
            return;
        }
        self.set_scalar(code, value as u32);
        self.set_scalar(code + 1, (value >> 32) as u32);
    }

    /// M0 moved: 124 before RDNA3, 125 since (ISA documents, "scalar operands").
    pub fn m0_code(&self) -> u16 {
        match self.generation {
            Gen::Rdna2 | Gen::Cdna3 => 124,
            Gen::Rdna3 | Gen::Rdna4 => 125,
        }
    }

    /// The code that reads as zero and swallows writes: 125 in RDNA2, 124 since RDNA3; CDNA has none
    /// and `0xffff` is returned.
    pub fn null_code(&self) -> u16 {
        match self.generation {
            Gen::Rdna2 => 125,
            Gen::Rdna3 | Gen::Rdna4 => 124,
            Gen::Cdna3 => 0xffff,
        }
    }

    /// EXEC of one half.
    #[inline]
    pub fn exec_half(&self, half: usize) -> u32 {
        (self.exec >> (32 * half)) as u32
    }

    /// Lanes `32 * half` and up of a VGPR.
    #[inline]
    pub fn vgpr(&self, register: usize, half: usize) -> &Lanes {
        &self.v[register * self.halves + half]
    }

    /// Lanes `32 * half` and up of a VGPR.
    #[inline]
    pub fn vgpr_mut(&mut self, register: usize, half: usize) -> &mut Lanes {
        &mut self.v[register * self.halves + half]
    }
}
