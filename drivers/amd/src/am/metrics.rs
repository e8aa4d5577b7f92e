//! [`Metrics`]: SMU measurements of a card that runs or was shut down cleanly.
//!
//! Source: Linux, drivers/gpu/drm/amd/pm/swsmu: smu_cmn.c (`smu_cmn_get_metrics_table`), smu_v13_0_0_ppt.c and
//! smu_v14_0_2_ppt.c (`get_gpu_metrics`: which of two clocks counts), smu_v13_0_6_ppt.c (`SMUQ10_ROUND`).

use drivers_spec::amd::smu::{InstinctLayout, MetricsLayout};

/// Measurements, as the firmware averages them over a moment. None: this firmware does not tell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Degrees Celsius at the edge of the chip.
    pub edge: Option<u16>,
    /// Degrees Celsius at its hottest place.
    pub hotspot: u16,
    /// Degrees Celsius of its memory.
    pub memory: u16,
    /// The frequency of shaders in MHz; of several XCCs the first.
    pub gfx_mhz: Option<u16>,
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
    pub board_watts: Option<u16>,
    /// The fan, in turns a minute.
    pub fan_rpm: Option<u16>,
    /// The fan in %.
    pub fan_percent: Option<u8>,
    /// The generation of PCIe that the link runs at.
    pub pcie_gen: Option<u8>,
    /// How many lanes it has.
    pub pcie_lanes: Option<u8>,
    /// The voltage of shaders in mV.
    pub millivolts: Option<u16>,
    /// What holds clocks back, and how much in %; only what does.
    pub throttled: Vec<(&'static str, u8)>,
    /// How often the firmware has measured.
    pub counter: u32,
}

impl Metrics {
    /// Decodes a table; fields beyond its end are 0.
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
            edge: Some(half(layout.celsius)),
            hotspot: half(layout.celsius + 2),
            memory: half(layout.celsius + 8),
            gfx_mhz: Some(clock(layout.gfx_mhz, gfx_percent)),
            memory_mhz: clock(layout.memory_mhz, memory_percent),
            fabric_mhz: clock(layout.fabric_mhz, memory_percent),
            gfx_percent,
            memory_percent,
            socket_watts: half(layout.socket_watts),
            board_watts: Some(half(layout.board_watts)),
            fan_rpm: Some(half(layout.fan_rpm)),
            fan_percent: Some(byte(layout.fan_percent)),
            pcie_gen: Some(byte(layout.pcie)),
            pcie_lanes: Some(byte(layout.pcie + 1)),
            millivolts: Some(half(layout.millivolts)),
            throttled: limits.filter(|(_, percent)| *percent > 0).collect(),
            counter: u32::from(half(layout.counter)) | u32::from(half(layout.counter + 2)) << 16,
        }
    }

    /// The same of an MI300X, by a firmware of this version.
    pub(super) fn of_instinct(table: &[u8], layout: &InstinctLayout, firmware: u32) -> Metrics {
        let word = |at: usize| {
            let bytes = table
                .get(at..at + 4)
                .and_then(|bytes| bytes.try_into().ok());
            u32::from_le_bytes(bytes.unwrap_or_default())
        };
        let rounded = |at: usize| {
            let whole = (u64::from(word(at)) + 0x200) >> 10;
            u16::try_from(whole).unwrap_or(u16::MAX)
        };
        let [pcie_gen, pcie_lanes] = [layout.pcie, layout.pcie + 4]
            .map(|at| u8::try_from(word(at)).ok())
            .map(|seen| seen.filter(|_| firmware >= layout.pcie_since));
        Metrics {
            hotspot: rounded(layout.socket_celsius),
            memory: rounded(layout.memory_celsius),
            gfx_mhz: (firmware >= layout.gfx_mhz_since).then(|| rounded(layout.gfx_mhz)),
            memory_mhz: rounded(layout.memory_mhz),
            fabric_mhz: rounded(layout.fabric_mhz),
            gfx_percent: rounded(layout.gfx_percent),
            memory_percent: rounded(layout.memory_percent),
            socket_watts: rounded(layout.socket_watts),
            pcie_gen,
            pcie_lanes,
            counter: word(layout.counter),
            ..Metrics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::amd::smu::{METRICS_13, METRICS_13_0_6, METRICS_14};

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
            assert_eq!(seen.gfx_mhz, Some(half(layout.gfx_mhz[0])));
            assert_eq!(seen.memory, half(layout.celsius + 8));
            assert_eq!(seen.throttled.len(), layout.limits.len());
            let mut idle = table.clone();
            for at in [layout.gfx_percent, layout.memory_percent] {
                idle[at..at + 2].copy_from_slice(&layout.idle_percent.to_le_bytes());
            }
            let seen = Metrics::of(&idle, layout);
            assert_eq!(seen.gfx_mhz, Some(half(layout.gfx_mhz[1])));
            assert_eq!(seen.memory_mhz, half(layout.memory_mhz[1]));
            assert_eq!(seen.fabric_mhz, half(layout.fabric_mhz[1]));
            let seen = Metrics::of(&[], layout);
            assert_eq!((seen.edge, seen.hotspot, seen.counter), (Some(0), 0, 0));
        }
    }

    #[test]
    fn an_instinct_tells_what_its_firmware_has_rounded() {
        let layout = &METRICS_13_0_6;
        let mut table = vec![0u8; layout.bytes];
        let mut put =
            |at: usize, value: u32| table[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(layout.socket_celsius, 61 << 10 | 0x1ff);
        put(layout.memory_celsius, 47 << 10 | 0x200);
        put(layout.socket_watts, u32::MAX);
        put(layout.gfx_mhz, 2100 << 10);
        put(layout.pcie, 5);
        put(layout.pcie + 4, 16);
        let seen = |firmware| Metrics::of_instinct(&table, layout, firmware);
        let new = seen(layout.pcie_since);
        assert_eq!((new.hotspot, new.memory), (61, 48));
        // More than 16 bits hold of whole numbers there is not.
        assert_eq!(new.socket_watts, u16::MAX);
        assert_eq!(
            (new.gfx_mhz, new.edge, new.fan_rpm),
            (Some(2100), None, None)
        );
        assert_eq!((new.pcie_gen, new.pcie_lanes), (Some(5), Some(16)));
        let old = seen(layout.gfx_mhz_since - 1);
        assert_eq!(
            (old.gfx_mhz, old.pcie_gen, old.pcie_lanes),
            (None, None, None)
        );
        assert_eq!(Metrics::of_instinct(&[], layout, 0), Metrics::default());
    }
}
