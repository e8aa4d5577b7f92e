//! The chips that a recording is of, from what the machine answered: identifiers of PCI functions, nodes of KFD, GPUs of
//! NVIDIA's kernel driver. Two recordings of different chips differ in nearly everything, which is then no finding.

use std::collections::{BTreeMap, BTreeSet};

use drivers_spec::amd::cards;
use hcq::transport::access::{Record, Verb};

use super::recording::Recording;

/// PCI identifiers of vendors.
pub(super) const AMD: u16 = 0x1002;

/// Where the PCI identifiers are in `nv_ioctl_card_info_t`, and its length. Source: open-gpu-kernel-modules,
/// kernel-open/common/inc/nv-ioctl.h.
const CARD_INFO: usize = 72;
const CARD_VENDOR: usize = 12;
const CARD_DEVICE: usize = 14;

/// The chips of a recording, each once, sorted; none where no answer names one (USB, Adreno).
pub fn of(recording: &Recording) -> Vec<String> {
    let mut functions: BTreeMap<String, [u16; 2]> = BTreeMap::new();
    let mut chips = BTreeSet::new();
    for entry in &recording.entries {
        let record = &entry.record;
        let Ok(answer) = &record.answer else {
            continue;
        };
        let access = &record.access;
        match access.verb {
            Verb::Functions => functions.extend(listed(&answer.data)),
            Verb::Text if access.name.ends_with("/properties") => {
                chips.extend(node(&String::from_utf8_lossy(&answer.data)));
            }
            Verb::Ioctl if access.name == "NV_ESC_CARD_INFO" => {
                let cards = answer.data.chunks_exact(CARD_INFO);
                let valid = cards.filter(|card| card[0] == 1);
                chips.extend(
                    valid.map(|card| named([half(card, CARD_VENDOR), half(card, CARD_DEVICE)])),
                );
            }
            _ => {}
        }
    }
    // Only of those that are used.
    for entry in &recording.entries {
        let Record { device, access, .. } = &entry.record;
        if let (Verb::ConfigRead | Verb::Bar, Some(ids)) = (access.verb, functions.get(device)) {
            chips.insert(named(*ids));
        }
    }
    chips.into_iter().collect()
}

/// The identifiers in a list of PCI functions: address, vendor and device are the first words of a line.
fn listed(data: &[u8]) -> Vec<(String, [u16; 2])> {
    let text = String::from_utf8_lossy(data);
    let one = |line: &str| {
        let mut words = line.split('\t');
        let address = words.next()?.to_owned();
        let mut id = || u16::from_str_radix(words.next()?, 16).ok();
        Some((address, [id()?, id()?]))
    };
    text.lines().filter_map(one).collect()
}

/// The chip of a node of KFD's topology; none of a processor.
fn node(properties: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = properties.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok())
    };
    // Source: Linux, amdkfd/kfd_device.c: 10000 * major + 100 * minor + step.
    let version = value("gfx_target_version ")?;
    let (major, minor, step) = (version / 10_000, version / 100 % 100, version % 100);
    (version > 0).then(|| format!("gfx{major}{minor:x}{step:x}"))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    let both = bytes.get(at..).and_then(|rest| rest.first_chunk());
    both.map_or(0, |both| u16::from_le_bytes(*both))
}

pub(super) fn named([vendor, device]: [u16; 2]) -> String {
    let card = cards::of(device).filter(|_| vendor == AMD);
    match card {
        Some(card) => format!("{} ({}, {vendor:04x}:{device:04x})", card.gfx, card.chip),
        None => format!("{vendor:04x}:{device:04x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn chips(lines: &str) -> Vec<String> {
        of(&Recording::parse(&format!("# doorbell trace 1\n{lines}")).unwrap())
    }

    #[test]
    fn chips_are_those_that_are_used() {
        let list = "0000:03:00.0\t1002\t7550\t030000\n0000:04:00.0\t10de\t2684\t030000";
        let functions = format!("+1 machine functions -> ok data={}\n", hex(list));
        assert!(chips(&functions).is_empty());
        let used =
            |at: &str| format!("{functions}+2 {at} config-read offset=0x4 bytes=0x2 -> ok 0x0\n");
        assert_eq!(
            chips(&used("0000:03:00.0")),
            ["gfx1201 (Navi 48, 1002:7550)"]
        );
        assert_eq!(chips(&used("0000:04:00.0")), ["10de:2684"]);
    }

    #[test]
    fn nodes_and_cards_of_kernel_drivers_are_read() {
        let text = |properties: &str| {
            let data = hex(properties);
            format!(
                "+1 machine text name=/sys/class/kfd/kfd/topology/nodes/1/properties -> ok data={data}\n"
            )
        };
        assert_eq!(
            chips(&text("simd_count 96\ngfx_target_version 90402\n")),
            ["gfx942"]
        );
        assert_eq!(chips(&text("gfx_target_version 100306\n")), ["gfx1036"]);
        assert!(chips(&text("cpu_cores_count 8\ngfx_target_version 0\n")).is_empty());
        let mut card = [0u8; 144];
        (card[0], card[12], card[13], card[14], card[15]) = (1, 0xde, 0x10, 0x84, 0x26);
        let data: String = card.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!(
            "+1 /dev/nvidiactl ioctl request=0xc09046c8 name=NV_ESC_CARD_INFO data=00 -> ok 0x0 data={data}\n"
        );
        assert_eq!(chips(&line), ["10de:2684"]);
    }
}
