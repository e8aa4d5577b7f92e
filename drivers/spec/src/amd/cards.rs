//! Cards by their PCI identifier, of the chips that are driven without a kernel driver.
//!
//! Source: libdrm, data/amdgpu.ids, for what boards have which identifier; Linux,
//! Documentation/gpu/amdgpu/dgpu-asic-info-table.csv, for the chip on them. What a card is made of says its
//! discovery table: this is for who has not asked it yet.

/// A kind of card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Card {
    /// PCI device identifier.
    pub device: u16,
    /// The compiler's name of its chip.
    pub gfx: &'static str,
    /// AMD's name of its chip.
    pub chip: &'static str,
}

const fn card(device: u16, gfx: &'static str, chip: &'static str) -> Card {
    Card { device, gfx, chip }
}

const CARDS: [Card; 18] = [
    card(0x7448, "gfx1100", "Navi 31"),
    card(0x7449, "gfx1100", "Navi 31"),
    card(0x744a, "gfx1100", "Navi 31"),
    card(0x744b, "gfx1100", "Navi 31"),
    card(0x744c, "gfx1100", "Navi 31"),
    card(0x745e, "gfx1100", "Navi 31"),
    card(0x7470, "gfx1101", "Navi 32"),
    card(0x747e, "gfx1101", "Navi 32"),
    card(0x7480, "gfx1102", "Navi 33"),
    card(0x7483, "gfx1102", "Navi 33"),
    card(0x7489, "gfx1102", "Navi 33"),
    card(0x7590, "gfx1200", "Navi 44"),
    card(0x7550, "gfx1201", "Navi 48"),
    card(0x7551, "gfx1201", "Navi 48"),
    card(0x74a1, "gfx942", "MI300X"),
    card(0x74a2, "gfx942", "MI308X"),
    card(0x74a5, "gfx942", "MI325X"),
    card(0x74a9, "gfx942", "MI300X"),
];

/// The kind of card of an identifier.
pub fn of(device: u16) -> Option<&'static Card> {
    CARDS.iter().find(|card| card.device == device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_listed_once() {
        for (i, card) in CARDS.iter().enumerate() {
            assert!(CARDS[..i].iter().all(|other| other.device != card.device));
        }
        assert_eq!(of(0x744c).map(|card| card.gfx), Some("gfx1100"));
        assert_eq!(of(0x1638), None);
    }
}
