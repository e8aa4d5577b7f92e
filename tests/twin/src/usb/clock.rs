//! Time, as the host sees it go by: it stands still but for transfers, which take what is documented of them.
//!
//! Sources: tinygrad/asm2464pd-firmware, README: streams of 3.6 MB/s out and 1.8 MB/s in, copies of 700 MB/s each way
//! on 10 Gb/s. What a round trip takes is a guess from those: 0.1 to 0.3 ms are seen for a control and a bulk
//! transfer by a program in Python.

use std::time::Duration;

/// How fast the bridge is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    /// Until the host knows that a transfer, or several that were queued, is done.
    pub round: Duration,
    /// For each control transfer.
    pub control: Duration,
    /// Bytes a second of copies to and from SRAM.
    pub copy: u64,
    /// Bytes a second of streams to the bus.
    pub stream_out: u64,
    /// Bytes a second of streams from the bus.
    pub stream_in: u64,
}

impl Rates {
    /// USB3 at 10 Gb/s.
    pub const USB3: Rates = Rates {
        round: Duration::from_micros(25),
        control: Duration::from_micros(25),
        copy: 700_000_000,
        stream_out: 3_600_000,
        stream_in: 1_800_000,
    };
    /// USB2: 480 Mb/s carry some 40 MB/s of bulk data (Universal Serial Bus Specification 2.0, 5.8.4, table 5-10).
    pub const USB2: Rates = Rates {
        round: Duration::from_micros(125),
        control: Duration::from_micros(125),
        copy: 40_000_000,
        ..Rates::USB3
    };

    /// What so many bytes take at so many a second.
    pub(super) fn of(bytes: usize, rate: u64) -> Duration {
        Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000) / rate.max(1))
    }
}
