//! What is known of a card, in words.

use drivers::gauges::{Gauges, User, Way};

/// What it is called.
pub fn name(card: &Gauges) -> &str {
    card.model.as_deref().unwrap_or(&card.card.name)
}

/// The first line about a card: where and what it is, and who drives it.
pub fn title(card: &Gauges) -> String {
    let mut text = format!("{} {}", card.card.address, name(card));
    if let Some(arch) = card.card.arch {
        text += &format!(" ({arch})");
    }
    match (&card.card.driver, card.way) {
        (_, Way::Usb) => text += ", on USB",
        (Some(driver), Way::Pci | Way::Soc) => text += &format!(", driver {driver}"),
        (None, Way::Pci | Way::Soc) => text += ", no kernel driver",
    }
    if let Some(link) = &card.link {
        text += &format!(", {link}");
    }
    if card.asleep {
        text += ", asleep";
    }
    text
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// A part of a whole, where both are known; the whole alone is said.
fn of(used: Option<f64>, total: Option<f64>, unit: &str, digits: usize) -> Option<String> {
    match (used, total) {
        (Some(used), Some(total)) => Some(format!("{used:.digits$} of {total:.digits$} {unit}")),
        (Some(used), None) => Some(format!("{used:.digits$} {unit}")),
        (None, Some(total)) => Some(format!("? of {total:.digits$} {unit}")),
        (None, None) => None,
    }
}

/// Its memory, used and all.
pub fn memory(card: &Gauges) -> Option<String> {
    of(
        card.memory_used.map(gib),
        card.memory_total.map(gib),
        "GiB",
        1,
    )
}

/// What it takes, and may take.
pub fn power(card: &Gauges) -> Option<String> {
    of(card.watts, card.watts_most, "W", 0)
}

/// What else its sensors say, one by one.
pub fn sensors(card: &Gauges) -> Vec<String> {
    let one = |value: Option<f64>, before: &str, after: &str| {
        value.map(|v| format!("{before}{v:.0}{after}"))
    };
    [
        one(card.celsius, "", " °C"),
        one(card.core_mhz, "core ", " MHz"),
        one(card.memory_mhz, "memory ", " MHz"),
        one(card.fan_rpm, "fan ", "/min"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Who has it, a line each.
pub fn users(card: &Gauges) -> Vec<String> {
    match (card.users_known, card.way) {
        (false, Way::Pci | Way::Soc) => return vec!["its driver does not report processes".into()],
        (false, Way::Usb) => return vec!["users unknown until it is opened".into()],
        (true, _) => {}
    }
    if card.users.is_empty() {
        return vec!["not in use".into()];
    }
    let one = |user: &User| {
        let memory = user.memory.map(|bytes| format!("{:.1} GiB", gib(bytes)));
        let queues = user.queues.map(|n| format!("{n} queues"));
        let has: Vec<_> = memory.into_iter().chain(queues).collect();
        format!("{:>7} {:<20} {}", user.pid, has.join(", "), user.command)
    };
    card.users.iter().map(one).collect()
}
