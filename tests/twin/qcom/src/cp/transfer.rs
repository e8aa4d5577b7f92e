//! Commands that read and write memory.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml: CP_MEM_WRITE, CP_REG_TO_MEM, CP_MEM_TO_REG,
//! CP_MEM_TO_MEM, CP_MEMCPY.

use drivers_spec::qcom::packet::{mem_to_mem_0, mem_to_reg_0, reg_to_mem_0};
use twin::rule::{Proof, Rule};

use super::commands::address;
use super::{Around, Broken, Cp, Stop};

static ALIGN: Rule = Rule {
    name: "CP-ADDRESS-ALIGN",
    text: "an address of a command is a multiple of what is read or written there: 4 bytes, or 8",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml: addresses of dwords; KGSL, adreno.c, _verify_ib: \
             IS_ALIGNED(gpuaddr, 4)",
    proof: Proof::Sourced,
};

static COUNT: Rule = Rule {
    name: "CP-REG-TO-MEM-PAIRS",
    text: "with 64B, CP_REG_TO_MEM reads pairs of registers: CNT is even",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, CP_REG_TO_MEM: rounded to the next boundary",
    proof: Proof::Sourced,
};

static ACCUMULATE: Rule = Rule {
    name: "CP-REG-TO-MEM-NOT-MODELLED",
    text: "CP_REG_TO_MEM writes registers; ACCUMULATE and the unknown bits of CP_MEM_TO_REG and CP_MEM_TO_MEM are not \
           modelled",
    source: "this twin: src/cp/transfer.rs",
    proof: Proof::Twin,
};

impl Cp {
    /// An address, if it is aligned.
    pub(super) fn aligned(&self, at: u64, align: u64) -> Result<u64, Broken> {
        match at.is_multiple_of(align) {
            true => Ok(at),
            false => Err(Broken::new(
                &ALIGN,
                format!("{at:#x}, expected a multiple of {align}"),
            )),
        }
    }

    pub(super) fn write_memory(
        &mut self,
        around: &mut Around<'_>,
        body: &[u32],
    ) -> Result<(), Stop> {
        let at = self.aligned(address(body, 0), 4)?;
        let data = body[2..].iter().flat_map(|word| word.to_le_bytes());
        self.send(around, at, data.collect())
    }

    pub(super) fn store_registers(
        &mut self,
        around: &mut Around<'_>,
        body: &[u32],
    ) -> Result<(), Stop> {
        let first = reg_to_mem_0::REG.get(body[0]);
        let count = reg_to_mem_0::CNT.get(body[0]).max(1);
        let pairs = reg_to_mem_0::B64.get(body[0]) != 0;
        if reg_to_mem_0::ACCUMULATE.get(body[0]) != 0 {
            return Err(Broken::new(&ACCUMULATE, "ACCUMULATE".into()).into());
        }
        if pairs && !count.is_multiple_of(2) {
            return Err(Broken::new(&COUNT, format!("CNT {count}")).into());
        }
        let at = self.aligned(address(body, 1), if pairs { 8 } else { 4 })?;
        let mut data = Vec::new();
        for register in first..first + count {
            data.extend(self.read(around, register)?.to_le_bytes());
        }
        self.send(around, at, data)
    }

    pub(super) fn load_registers(
        &mut self,
        around: &mut Around<'_>,
        body: &[u32],
    ) -> Result<(), Stop> {
        let first = mem_to_reg_0::REG.get(body[0]);
        let count = mem_to_reg_0::CNT.get(body[0]).max(1);
        if mem_to_reg_0::UNK31.get(body[0]) != 0 {
            return Err(Broken::new(&ACCUMULATE, "UNK31".into()).into());
        }
        let at = self.aligned(address(body, 1), 4)?;
        let words = self.fetch_words(around, at, count as usize)?;
        let shift = mem_to_reg_0::SHIFT_BY_2.get(body[0]) * 2;
        for (register, word) in (first..).zip(words) {
            self.write(around, register, word << shift);
        }
        Ok(())
    }

    pub(super) fn add_memory(&mut self, around: &mut Around<'_>, body: &[u32]) -> Result<(), Stop> {
        if mem_to_mem_0::UNK31.get(body[0]) != 0 {
            return Err(Broken::new(&ACCUMULATE, "UNK31".into()).into());
        }
        if mem_to_mem_0::WAIT_FOR_MEM_WRITES.get(body[0]) != 0 {
            self.land(around)?;
        }
        let bytes = if mem_to_mem_0::DOUBLE.get(body[0]) != 0 {
            8
        } else {
            4
        };
        let to = self.aligned(address(body, 1), bytes)?;
        let negated = [
            mem_to_mem_0::NEG_A,
            mem_to_mem_0::NEG_B,
            mem_to_mem_0::NEG_C,
        ];
        let mut sum = 0_u64;
        for (at, negated) in (3..body.len()).step_by(2).zip(negated) {
            let from = self.aligned(address(body, at), bytes)?;
            let mut value = [0; 8];
            self.fetch(around, from, &mut value[..bytes as usize])?;
            let value = u64::from_le_bytes(value);
            sum = match negated.get(body[0]) {
                0 => sum.wrapping_add(value),
                _ => sum.wrapping_sub(value),
            };
        }
        self.send(around, to, sum.to_le_bytes()[..bytes as usize].to_vec())
    }

    pub(super) fn copy(&mut self, around: &mut Around<'_>, body: &[u32]) -> Result<(), Stop> {
        let from = self.aligned(address(body, 1), 4)?;
        let to = self.aligned(address(body, 3), 4)?;
        // As much as one piece of memory may have: pages that are not there end it.
        let mut left = body[0] as usize * 4;
        let mut done = 0;
        while left > 0 {
            let piece = left.min(1 << 16);
            let mut data = vec![0; piece];
            self.fetch(around, from + done, &mut data)?;
            self.send(around, to + done, data)?;
            (left, done) = (left - piece, done + piece as u64);
        }
        Ok(())
    }
}
