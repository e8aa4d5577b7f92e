//! An explanation as text, and what else is in a bundle as lines.

use std::fmt;

use super::Explanation;
use crate::schema::{Bundle, Submission};

/// Submissions of a queue that are shown.
const SHOWN: usize = 3;

/// Packets of a queue that are shown.
const PACKETS: usize = 6;

pub(super) fn rest(bundle: &Bundle) -> Vec<String> {
    let mut lines = Vec::new();
    let device = &bundle.device;
    if !device.id.is_empty() {
        let simulated = if bundle.system.simulated {
            ", simulated"
        } else {
            ""
        };
        lines.push(format!(
            "device: {} by {} at {}{simulated}",
            device.id, device.interface, device.place
        ));
    }
    let used = bundle.queues.iter().filter(|queue| queue.written > 0);
    for queue in used {
        lines.push(format!(
            "{}: {} dwords written, {} done; timeline {} of {}",
            queue.name,
            queue.written,
            queue.done,
            queue
                .timeline
                .seen
                .map_or("?".into(), |seen| seen.to_string()),
            queue.timeline.made
        ));
        for packet in queue.in_flight.iter().take(PACKETS) {
            lines.push(format!(
                "  in flight at dword {:#x}: {}",
                packet.position, packet.text
            ));
        }
        let more = queue.in_flight.len().saturating_sub(PACKETS);
        if more > 0 {
            lines.push(format!("  and {more} more packets"));
        }
        let last = queue.recent.iter().rev().take(SHOWN).rev();
        lines.extend(last.map(|one| {
            format!(
                "  submission {} (signal value {}), dwords {:#x} to {:#x}, doorbell {}: {}",
                one.number,
                one.signal_value,
                one.place[0],
                one.place[1],
                one.doorbell,
                does(one)
            )
        }));
    }
    let evidence = &bundle.evidence;
    let walk = evidence.walk.iter();
    lines.extend(walk.map(|step| {
        format!(
            "page tables, {} at {}: {} ({})",
            step.level, step.at, step.entry, step.text
        )
    }));
    let way = evidence.way.iter();
    lines.extend(way.map(|[name, text]| format!("{name}: {text}")));
    lines.extend(evidence.waves.iter().map(|wave| format!("wave: {wave}")));
    let waves = evidence.shader_waves.iter();
    lines.extend(waves.map(|wave| super::waves::line(bundle, wave)));
    lines.extend(
        evidence
            .registers
            .iter()
            .map(|register| register.text.clone()),
    );
    lines.extend(evidence.firmware.iter().map(|firmware| {
        let version = firmware.version.as_deref().unwrap_or_default();
        let sum = firmware
            .sha256
            .as_deref()
            .map_or(String::new(), |sum| format!(", SHA-256 {sum}"));
        format!("firmware {} {version}{sum}", firmware.name)
    }));
    lines.extend(
        evidence
            .missing
            .iter()
            .map(|what| format!("not read: {what}")),
    );
    for [path, text] in &bundle.system.files {
        let first = text.lines().next().unwrap_or_default();
        lines.push(format!("{path}: {first}"));
    }
    let variables = bundle.system.environment.iter();
    lines.extend(variables.map(|[name, value]| format!("{name}={value}")));
    lines
}

/// Packets of a submission that are shown.
const EACH: usize = 4;

fn does(one: &Submission) -> String {
    let more = match one.does.len().saturating_sub(EACH) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    match &one.does[..] {
        [] => "contents no longer available".into(),
        does => does[..does.len().min(EACH)].join("; ") + &more,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Likely cause ({}): {}.", self.cause, self.text)?;
        writeln!(f, "\nEvidence:")?;
        self.evidence
            .iter()
            .try_for_each(|line| writeln!(f, "  - {line}"))?;
        if !self.next.is_empty() {
            writeln!(f, "\nNext steps:")?;
        }
        for (number, line) in (1..).zip(&self.next) {
            writeln!(f, "  {number}. {line}")?;
        }
        if !self.rest.is_empty() {
            writeln!(f, "\nAlso in the bundle:")?;
        }
        self.rest
            .iter()
            .try_for_each(|line| writeln!(f, "  {line}"))
    }
}
