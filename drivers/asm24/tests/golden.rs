//! Our requests beside recorded ones: see tests/golden/asm24.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use drivers_asm24::request::{self, Body};
use drivers_asm24::tlp::{Place, Tlp};
use hcq::transport::Setup;

type Sections = BTreeMap<String, Vec<Vec<String>>>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The setup packet of a request, with how much data there is.
fn packet(setup: Setup, length: usize) -> String {
    let mut bytes = vec![setup.request_type, setup.request];
    for half in [setup.value, setup.index, length as u16] {
        bytes.extend(half.to_le_bytes());
    }
    hex(&bytes)
}

fn out((setup, body): (Setup, Body)) -> Vec<String> {
    vec!["ctrl_out".into(), packet(setup, body.len()), hex(&body)]
}

fn bare(setup: Setup) -> Vec<String> {
    vec!["ctrl_out".into(), packet(setup, 0), String::new()]
}

fn bulk(name: &str, endpoint: &str) -> Vec<String> {
    vec![name.into(), endpoint.into()]
}

/// What comes to the host is not ours to say.
fn asked(lines: &[Vec<String>]) -> Vec<Vec<String>> {
    let mut lines = lines.to_vec();
    for line in &mut lines {
        if line[0] == "ctrl_in" {
            line.truncate(2);
        }
    }
    lines
}

#[test]
fn requests_are_as_recorded() {
    let text = include_str!("../../../tests/golden/asm24/transfers.json");
    let sections: Sections = serde_json::from_str(text).unwrap();
    let answer = || vec!["ctrl_in".into(), packet(request::answer(), request::ANSWER)];
    let answered = |tlp: Tlp| vec![out(request::tlp(&tlp)), answer()];
    let (root, card) = (Place::first(0), Place::first(4));
    let xdata = |at, bytes| vec!["ctrl_in".into(), packet(request::read_xdata(at), bytes)];
    let ours = [
        ("xdata_read_1", vec![xdata(0xb450, 1)]),
        (
            "xdata_write_4",
            (0..4u8)
                .map(|i| bare(request::write_xdata(0xa800 + u16::from(i), i + 1)))
                .collect(),
        ),
        ("pcie_power_on", vec![bare(request::power(true))]),
        (
            "cfg_read_vendor_bus0",
            answered(Tlp::config_read(root, 0, 4)),
        ),
        (
            "cfg_read_bus4_word_off2",
            answered(Tlp::config_read(card, 2, 2)),
        ),
        (
            "cfg_read_bus4_byte",
            answered(Tlp::config_read(card, 0xe, 1)),
        ),
        (
            "cfg_write_bus4_dword",
            answered(Tlp::config_write(card, 0x3c, 4, 0x1ff)),
        ),
        (
            "cfg_write_bus0_word",
            answered(Tlp::config_write(root, 0x20, 2, 0x1000)),
        ),
        (
            "cfg_write_bus0_byte",
            answered(Tlp::config_write(root, 4, 1, 7)),
        ),
        ("mem_read_tlp_dword", answered(Tlp::read(0x1020_378c, 4))),
        (
            "mem_write_tlp_dword",
            vec![out(request::tlp(&Tlp::write(0x1023_0100, 4, 0x1234_5678)))],
        ),
        (
            "mem_write_tlp_byte",
            vec![out(request::tlp(&Tlp::write(0x1023_0101, 1, 0xab)))],
        ),
        (
            "mmio_read_dword_streaming",
            vec![
                out(request::stream_in(0x1020_378c, 1)),
                bulk("bulk_in", "0x81"),
            ],
        ),
        (
            "mmio_write_dword_streaming",
            vec![
                out(request::stream_out(0x1023_0100, 1)),
                bulk("bulk_out", "0x02"),
            ],
        ),
        (
            "vram_write_256",
            vec![
                out(request::stream_out(0x8_0010_0000, 64)),
                bulk("bulk_out", "0x02"),
            ],
        ),
        (
            "vram_read_256",
            vec![
                out(request::stream_in(0x8_0010_0000, 64)),
                bulk("bulk_in", "0x81"),
            ],
        ),
        (
            "sram_write_1000",
            vec![bare(request::arm(false, 0, 1000)), bulk("bulk_out", "0x02")],
        ),
        (
            "sram_write_64k_slot16",
            vec![
                bare(request::arm(false, 16, 64 << 10)),
                bulk("bulk_out", "0x02"),
            ],
        ),
        (
            "sram_read_1000",
            vec![bare(request::arm(true, 0, 1000)), bulk("bulk_in", "0x81")],
        ),
    ];
    assert_eq!(sections.len(), ours.len());
    for (name, ours) in ours {
        assert_eq!(ours, asked(&sections[name]), "{name}");
    }
}
