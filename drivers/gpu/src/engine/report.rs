//! Text descriptions of queue states, for timeout and fault messages.

use super::inflight::{blocked, packets};
use crate::backend::PAGE_BITS;
use crate::core::Core;
use crate::core::queues::Suspects;
use crate::submit::decode::{Doing, Packet, peek_words, sentence, wide};
use crate::submit::{Channel, Hardware, Submit};

/// The position of a queue, with its name; empty if it is idle.
pub(super) fn line<H: Hardware>(channel: &Channel<H>) -> String {
    if let Some(known) = channel.hardware().report() {
        return known;
    }
    match channel.in_flight().is_empty() {
        true => String::new(),
        false => format!("{}: {}", channel.unit(), report(channel)),
    }
}

/// The position of a queue: pointers, and the packet that it waits at or runs.
pub(super) fn report<H: Hardware>(channel: &Channel<H>) -> String {
    if let Some(known) = channel.hardware().report() {
        return known;
    }
    let way = channel.way();
    let (wptr, rptr) = way.pointers();
    let mut text = match way.ring() {
        Some(_) => format!("wptr {wptr:#x}, rptr {rptr:#x}"),
        None => format!("submission {wptr}, {rptr} done"),
    };
    let at = match blocked(channel) {
        Some((packet, true)) => Some(packet),
        _ => packets(channel).first().cloned(),
    };
    if let Some(packet) = at {
        text += &match way.ring() {
            Some(_) => format!(
                ", at dword {:#x} of the ring: ",
                packet.position % way.size()
            ),
            None => format!(", at submission {}: ", packet.position + 1),
        };
        text += &sentence(channel.core(), &packet.doing);
    }
    text
}

/// The arguments of a launch, 8 bytes each.
fn arguments_of(core: &Core, code: u64, arguments: &[u64]) -> Vec<u64> {
    let Some((kernel, _)) = core.kernels.at(code) else {
        return Vec::new();
    };
    let found = arguments
        .iter()
        .find_map(|&va| peek_words(core, va, kernel.argument_bytes as usize / 4));
    let words = found.unwrap_or_default();
    words.chunks_exact(2).map(|pair| wide(pair, 0)).collect()
}

/// The work in flight with an address in the page; and the launches without one. `u64::MAX` is no page: nobody knows
/// where, and copies and fills are listed, too.
pub(super) fn suspects<'a, H: Hardware>(
    channels: impl IntoIterator<Item = &'a Channel<H>>,
    page: u64,
) -> Suspects {
    let in_page = |va: u64| va & !PAGE_BITS == page;
    let is_anywhere = page == u64::MAX;
    let mut found = Suspects::default();
    for channel in channels {
        let core = channel.core();
        for Packet { doing, .. } in &packets(channel) {
            let told = sentence(core, doing);
            let guilty = match doing {
                Doing::Launch { code, arguments } => {
                    let values = arguments_of(core, *code, arguments);
                    let guilty = values.iter().enumerate().find(|&(_, &va)| in_page(va));
                    let guilty = guilty.map(|(i, va)| {
                        let at = i * 8;
                        format!("{told}, whose argument at byte {at} is {va:#x}, in that page")
                    });
                    if guilty.is_none() {
                        found.other(channel.unit(), told);
                    }
                    guilty
                }
                Doing::Copy { .. } | Doing::Fill { .. } if is_anywhere => {
                    found.other(channel.unit(), told);
                    None
                }
                Doing::Copy { dst, src, bytes } => {
                    let touches =
                        |va: u64| va & !PAGE_BITS <= page && page < va.saturating_add(*bytes);
                    (touches(*dst) || touches(*src)).then_some(told)
                }
                Doing::Fill { at, bytes, .. } => {
                    let inside = at & !PAGE_BITS <= page && page < at.saturating_add(*bytes);
                    inside.then_some(told)
                }
                Doing::Wait { at, .. } | Doing::Signal { at, .. } => in_page(*at).then_some(told),
                Doing::Unknown { .. } => None,
            };
            if let Some(what) = guilty {
                found.guilty = Some((channel.unit(), what));
                return found;
            }
        }
    }
    found
}
