//! Packets as text.

use std::fmt::Write;

use drivers_spec::amd::packet::{Gfx, Packet, Word};
use drivers_spec::amd::{pm4, regs};

/// A PM4 packet: its name, then every dword by name, fields that are not zero behind it.
pub(crate) fn pm4(gfx: Gfx, packet: &Packet, body: &[u32]) -> String {
    let mut text = packet.name.to_string();
    let start = match packet.op as u8 {
        pm4::SET_SH_REG | pm4::SET_SH_REG_INDEX => pm4::SH_REG_START,
        pm4::SET_UCONFIG_REG => pm4::UCONFIG_REG_START,
        pm4::NOP => {
            let _ = write!(text, " {} dwords", body.len());
            return text;
        }
        _ => {
            dwords(&mut text, gfx, packet, body);
            return text;
        }
    };
    let Some((offset, values)) = body.split_first() else {
        return text;
    };
    let first = start + pm4::op::REG_OFFSET.get(*offset);
    for (addr, value) in (first..).zip(values) {
        let _ = match regs::find(gfx, addr) {
            Some(reg) => write!(text, " {}={value:#x}", reg.word.name),
            None => write!(text, " reg {addr:#x}={value:#x}"),
        };
    }
    text
}

/// An SDMA packet, from its first dword on.
pub(crate) fn sdma(gfx: Gfx, packet: &Packet, words: &[u32]) -> String {
    let mut text = packet.name.to_string();
    dwords(&mut text, gfx, packet, words);
    text
}

fn dwords(text: &mut String, gfx: Gfx, packet: &Packet, words: &[u32]) {
    let mut values = words.iter();
    let mut named = packet.words(gfx).peekable();
    while let Some(word) = named.next() {
        let Some(&value) = values.next() else { return };
        let low = word.name.strip_suffix("_lo");
        let pair = low.filter(|low| {
            named
                .peek()
                .is_some_and(|next| next.name.strip_suffix("_hi") == Some(low))
        });
        if let (Some(name), Some(&high)) = (pair, values.clone().next()) {
            values.next();
            named.next();
            let _ = write!(text, " {name}={:#x}", super::wide(value, high));
        } else {
            one(text, gfx, word, value);
        }
    }
    let rest = values.as_slice();
    for value in rest.iter().take(4) {
        let _ = write!(text, " {value:#x}");
    }
    if rest.len() > 4 {
        let _ = write!(text, " ... {} dwords", rest.len());
    }
}

fn one(text: &mut String, gfx: Gfx, word: &Word, value: u32) {
    let _ = write!(text, " {}={value:#x}", word.name);
    let mut sep = '(';
    for field in word.fields.iter().filter(|field| field.on.has(gfx)) {
        let part = field.get(value);
        // Headers: the operation is in the name already.
        if part != 0 && !(word.name == "header" && field.high < 16) {
            let _ = write!(text, "{sep}{}={part:#x}", field.name);
            sep = ' ';
        }
    }
    if sep == ' ' {
        text.push(')');
    }
}
