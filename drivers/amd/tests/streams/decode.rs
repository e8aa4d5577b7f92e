//! Words to packets with named fields, by the tables of `drivers_spec`.

use std::collections::BTreeMap;

use drivers_spec::amd::packet::{Gfx, Packet, Word};
use drivers_spec::amd::{aql, pm4, regs, sdma};

/// A packet: its name, and its fields that are not zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    pub name: String,
    pub fields: BTreeMap<String, u64>,
}

/// Names for addresses.
pub struct Names(pub BTreeMap<u64, String>);

impl Names {
    /// A value, as an address if it is one.
    pub fn text(&self, value: u64) -> String {
        match self.0.range(..=value).next_back() {
            Some((base, name)) if value == *base => name.clone(),
            Some((base, name)) if value - base < 1 << 24 => format!("{name}+{:#x}", value - base),
            _ => format!("{value:#x}"),
        }
    }

    /// A packet on a line.
    pub fn line(&self, packet: &Named) -> String {
        let fields = packet.fields.iter();
        let fields = fields.map(|(name, value)| format!(" {name}={}", self.text(*value)));
        format!("{}{}", packet.name, fields.collect::<String>())
    }
}

struct Fields(BTreeMap<String, u64>);

impl Fields {
    fn put(&mut self, name: &str, value: u64) {
        if value != 0 {
            *self.0.entry(name.into()).or_default() |= value;
        }
    }

    /// The fields of words; halves of an address become one field.
    fn words(&mut self, gfx: Gfx, words: impl Iterator<Item = &'static Word>, values: &[u32]) {
        for (word, &value) in words.zip(values) {
            let value64 = u64::from(value);
            let name = word.name;
            let ends = |low, high| name.strip_suffix(low).or(name.strip_suffix(high));
            if let Some(name) = ends("_lo", "_LO") {
                self.put(name, value64);
            } else if let Some(name) = ends("_hi", "_HI").filter(|_| word.fields.is_empty()) {
                self.put(name, value64 << 32);
            } else if word.fields.is_empty() {
                self.put(word.name, value64);
            } else {
                self.bits(gfx, word, value);
            }
        }
    }

    fn bits(&mut self, gfx: Gfx, word: &Word, value: u32) {
        for field in word.fields.iter().filter(|field| field.on.has(gfx)) {
            self.put(field.name, field.get(value).into());
        }
        self.put("reserved", u64::from(value & !word.mask(gfx)));
    }

    fn rest(&mut self, values: &[u32]) {
        for (i, &value) in values.iter().enumerate() {
            self.put(&format!("data{i}"), value.into());
        }
    }

    fn named(self, name: &str) -> Named {
        Named {
            name: name.into(),
            fields: self.0,
        }
    }
}

fn fields() -> Fields {
    Fields(BTreeMap::new())
}

/// PM4. Consecutive registers come as one line each, in the order of their addresses.
pub fn pm4(gfx: Gfx, words: &[u32]) -> Vec<Named> {
    let mut packets = Vec::new();
    let mut registers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut rest = words;
    while let Some(&header) = rest.first() {
        assert_eq!(pm4::TYPE.get(header), 3, "{header:#x}");
        let length = pm4::COUNT.get(header) as usize + 2;
        let body = &rest[1..length];
        rest = &rest[length..];
        let op = pm4::OPCODE.get(header) as u8;
        let packet = pm4::find(gfx, op).unwrap_or_else(|| panic!("{header:#x} on {gfx:?}"));
        if op == pm4::SET_SH_REG {
            let first = pm4::SH_REG_START + body[0];
            registers.extend((first..).zip(body[1..].iter().copied()));
            if !rest.is_empty() {
                continue;
            }
        }
        for (addr, value) in std::mem::take(&mut registers) {
            let register = regs::find(gfx, addr).unwrap_or_else(|| panic!("{addr:#x}"));
            let mut of = fields();
            if register.word.fields.is_empty() {
                of.put("value", value.into());
            } else {
                of.bits(gfx, &register.word, value);
            }
            packets.push(of.named(&format!("SET_SH_REG {}", register.word.name)));
        }
        if op == pm4::SET_SH_REG {
            continue;
        }
        let fixed = packet.fixed(gfx);
        let mut of = fields();
        of.words(gfx, packet.words(gfx), body);
        of.rest(&body[fixed..]);
        if op == pm4::DISPATCH_DIRECT {
            of.0.remove("DISPATCH_INITIATOR");
            of.bits(gfx, &regs::DISPATCH_INITIATOR, body[3]);
        }
        packets.push(of.named(packet.name));
    }
    packets
}

/// SDMA.
pub fn sdma(gfx: Gfx, words: &[u32]) -> Vec<Named> {
    let mut packets = Vec::new();
    let mut rest = words;
    while let Some(&header) = rest.first() {
        let packet: &Packet = sdma::find(gfx, header).unwrap_or_else(|| panic!("{header:#x}"));
        let fixed = packet.fixed(gfx);
        let length = match packet.op {
            sdma::NOP => 1 + sdma::NOP_COUNT.get(header) as usize,
            sdma::WRITE => fixed + rest[3] as usize + 1,
            _ => fixed,
        };
        let mut of = fields();
        of.words(gfx, packet.words(gfx), &rest[..fixed]);
        of.rest(&rest[fixed..length]);
        rest = &rest[length..];
        packets.push(of.named(packet.name));
    }
    packets
}

/// A packet of an AQL queue that starts a kernel or is a barrier.
pub fn aql(gfx: Gfx, words: &[u32; 16]) -> Named {
    let header = words[0];
    let mut of = fields();
    of.bits(gfx, &aql::HEADER, header & 0xffff);
    let wide = |at: usize| u64::from(words[at]) | u64::from(words[at + 1]) << 32;
    if aql::TYPE.get(header) != aql::KERNEL_DISPATCH {
        for (i, &word) in words.iter().enumerate().skip(1) {
            of.put(&format!("dword{i}"), word.into());
        }
        return of.named("BARRIER");
    }
    of.put("DIMENSIONS", aql::DIMENSIONS.get(header).into());
    for (i, name) in ["workgroup_x", "workgroup_y", "workgroup_z", "reserved0"]
        .iter()
        .enumerate()
    {
        let word = words[1 + i / 2] >> (i % 2 * 16) & 0xffff;
        of.put(name, word.into());
    }
    for (i, name) in ["grid_x", "grid_y", "grid_z", "private", "group"]
        .iter()
        .enumerate()
    {
        of.put(name, words[3 + i].into());
    }
    for (i, name) in ["object", "kernarg", "reserved2", "signal"]
        .iter()
        .enumerate()
    {
        of.put(name, wide(8 + 2 * i));
    }
    of.named("KERNEL_DISPATCH")
}
