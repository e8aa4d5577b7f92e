//! Where waves are, in the terms of kernels: those that hang are many, and at few places.

use std::collections::BTreeMap;

use crate::schema::{Bundle, Wave};

/// The kernel that an address is of, and how far into its image.
fn kernel(bundle: &Bundle, pc: u64) -> Option<(&str, u64)> {
    let mut kernels = bundle.kernels.iter();
    kernels.find_map(|one| {
        let offset = pc.checked_sub(one.at.0)?;
        (offset < one.bytes.0).then_some((&*one.name, offset))
    })
}

/// A place as part of a sentence.
fn place(bundle: &Bundle, wave: &Wave) -> String {
    let at = match kernel(bundle, wave.pc.0) {
        Some((name, offset)) => format!("{name} + {offset:#x}"),
        None => format!("{}, in no loaded kernel", wave.pc),
    };
    match (wave.in_barrier, wave.halted) {
        (true, _) => format!("{at}, at a barrier"),
        (false, true) => format!("{at}, halted"),
        (false, false) => at,
    }
}

/// Where waves are, the place with the most first: a line for each.
pub(super) fn places(bundle: &Bundle) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for wave in &bundle.evidence.shader_waves {
        *counts.entry(place(bundle, wave)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let line = |(place, count): (String, usize)| match count {
        1 => format!("a wave is at {place}"),
        count => format!("{count} waves are at {place}"),
    };
    counts.into_iter().map(line).collect()
}

/// A wave as a line.
pub(super) fn line(bundle: &Bundle, wave: &Wave) -> String {
    format!(
        "wave: {}: PC {} ({}), EXEC {}, STATUS {}, exceptions {}",
        wave.place,
        wave.pc,
        place(bundle, wave),
        wave.exec,
        wave.status,
        wave.exceptions
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Hex, Kernel};

    #[test]
    fn waves_are_told_by_kernel_and_offset() {
        let mut bundle = Bundle::default();
        bundle.kernels.push(Kernel {
            name: "spin".into(),
            at: Hex(0x1000),
            bytes: Hex(0x100),
        });
        let wave = |pc, in_barrier| Wave {
            pc: Hex(pc),
            in_barrier,
            ..Wave::default()
        };
        bundle.evidence.shader_waves = vec![
            wave(0x1010, true),
            wave(0x1020, false),
            wave(0x1020, false),
            wave(0x5000, false),
        ];
        assert_eq!(
            places(&bundle),
            [
                "2 waves are at spin + 0x20",
                "a wave is at 0x5000, in no loaded kernel",
                "a wave is at spin + 0x10, at a barrier",
            ]
        );
    }
}
