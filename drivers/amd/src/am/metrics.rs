//! [`Metrics`]: what power management measures of a card that runs, or that was left in order.
//!
//! Source: Linux, drivers/gpu/drm/amd/pm/swsmu: smu_cmn.c (`smu_cmn_get_metrics_table`), smu_v13_0_0_ppt.c and
//! smu_v14_0_2_ppt.c (`get_gpu_metrics`: which of two clocks counts).

use drivers_spec::amd::smu::MetricsLayout;

/// Measurements, as the firmware averages them over a moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Degrees Celsius at the edge of the chip.
    pub edge: u16,
    /// Degrees Celsius at its hottest place.
    pub hotspot: u16,
    /// Degrees Celsius of its memory.
    pub memory: u16,
    /// The frequency of shaders in MHz.
    pub gfx_mhz: u16,
    /// That of memory.
    pub memory_mhz: u16,
    /// That of the fabric between them.
    pub fabric_mhz: u16,
    /// How busy shaders are, in %.
    pub gfx_percent: u16,
    /// How busy memory is, in %.
    pub memory_percent: u16,
    /// The power of the chip in W.
    pub socket_watts: u16,
    /// The power of the board in W.
    pub board_watts: u16,
    /// The fan, in turns a minute.
    pub fan_rpm: u16,
    /// The fan in %.
    pub fan_percent: u8,
    /// The generation of PCIe that the link runs at.
    pub pcie_gen: u8,
    /// How many lanes it has.
    pub pcie_lanes: u8,
    /// The voltage of shaders in mV.
    pub millivolts: u16,
    /// What holds clocks back, and how much in %; only what does.
    pub throttled: Vec<(&'static str, u8)>,
    /// How often the firmware has measured.
    pub counter: u32,
}

impl Metrics {
    /// Takes a table apart; what it is too short for is 0.
    pub(super) fn of(table: &[u8], layout: &MetricsLayout) -> Metrics {
        let byte = |at: usize| table.get(at).copied().unwrap_or(0);
        let half = |at: usize| u16::from_le_bytes([byte(at), byte(at + 1)]);
        let [gfx_percent, memory_percent] = [layout.gfx_percent, layout.memory_percent].map(half);
        let clock = |[busy, idle]: [usize; 2], percent: u16| match percent <= layout.idle_percent {
            true => half(idle),
            false => half(busy),
        };
        let limits = layout.limits.iter().zip(layout.throttled..);
        let limits = limits.map(|(name, at)| (*name, byte(at)));
        Metrics {
            edge: half(layout.celsius),
            hotspot: half(layout.celsius + 2),
            memory: half(layout.celsius + 8),
            gfx_mhz: clock(layout.gfx_mhz, gfx_percent),
            memory_mhz: clock(layout.memory_mhz, memory_percent),
            fabric_mhz: clock(layout.fabric_mhz, memory_percent),
            gfx_percent,
            memory_percent,
            socket_watts: half(layout.socket_watts),
            board_watts: half(layout.board_watts),
            fan_rpm: half(layout.fan_rpm),
            fan_percent: byte(layout.fan_percent),
            pcie_gen: byte(layout.pcie),
            pcie_lanes: byte(layout.pcie + 1),
            millivolts: half(layout.millivolts),
            throttled: limits.filter(|(_, percent)| *percent > 0).collect(),
            counter: u32::from(half(layout.counter)) | u32::from(half(layout.counter + 2)) << 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::amd::smu::{METRICS_13, METRICS_14};

    use super::*;

    #[test]
    fn tables_are_as_long_as_they_say_and_nothing_lies_on_another() {
        for layout in [&METRICS_13, &METRICS_14] {
            let mut table = vec![0u8; layout.bytes];
            assert!(layout.throttled + layout.limits.len() <= layout.bytes);
            for (at, byte) in table.iter_mut().enumerate() {
                *byte = at as u8;
            }
            let seen = Metrics::of(&table, layout);
            // Busy by these numbers: clocks are those of work.
            let half = |at: usize| u16::from_le_bytes([at as u8, at as u8 + 1]);
            assert_eq!(seen.gfx_mhz, half(layout.gfx_mhz[0]));
            assert_eq!(seen.memory, half(layout.celsius + 8));
            assert_eq!(seen.throttled.len(), layout.limits.len());
            let mut idle = table.clone();
            for at in [layout.gfx_percent, layout.memory_percent] {
                idle[at..at + 2].copy_from_slice(&layout.idle_percent.to_le_bytes());
            }
            let seen = Metrics::of(&idle, layout);
            assert_eq!(seen.gfx_mhz, half(layout.gfx_mhz[1]));
            assert_eq!(seen.memory_mhz, half(layout.memory_mhz[1]));
            assert_eq!(seen.fabric_mhz, half(layout.fabric_mhz[1]));
            assert_eq!(Metrics::of(&[], layout), Metrics::default());
        }
    }
}
