//! [`Line`]: packets to calls of one stream, and what is known of what it does.

use std::sync::Arc;

use drivers_gpu::core::Core;
use hcq::mem::window::Window;
use hcq::{Compare, Error, Width};

use crate::calls::{Event, Stream};
use crate::clock::{Clock, Stamps};
use crate::packet::{Packet, bytes_of};
use crate::process::Process;
use crate::refusal::Refusal;

/// Kernels that a failure names at most.
const NAMED: usize = 8;

/// Why a packet was not done.
pub(crate) enum Stop {
    /// The device is lost by it.
    Failed(Error),
    /// The queue ends, or its device is lost.
    Over,
}

/// What is to be met before the next packet.
pub(crate) enum Gate {
    /// Nothing.
    Open,
    /// A signal.
    Signal { at: u64, value: u64 },
    /// A word in memory.
    Word {
        at: u64,
        mask: u64,
        value: u64,
        compare: Compare,
        width: Width,
    },
    /// The events of timestamps, before the signal behind them.
    Stamps,
}

/// One stream with its calls.
pub(crate) struct Line {
    core: Arc<Core>,
    process: Arc<Process>,
    unit: String,
    stream: Stream,
    stamps: Stamps,
    /// Host memory of 8 bytes for words that the host does not see.
    scratch: u64,
    /// Something may be under way.
    is_busy: bool,
    /// Kernels since it was idle.
    kernels: Vec<u64>,
    /// Kept, so that nothing is allocated.
    arguments: Vec<u64>,
}

impl Line {
    pub(crate) fn new(
        core: &Arc<Core>,
        process: &Arc<Process>,
        unit: String,
        (stream, clock): (Stream, &Arc<Clock>),
        scratch: u64,
    ) -> Line {
        Line {
            core: core.clone(),
            process: process.clone(),
            unit,
            stamps: Stamps::new(stream.gpu(), clock),
            stream,
            scratch,
            is_busy: false,
            kernels: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// Something may be under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The device is lost, by whatever.
    pub(crate) fn is_lost(&self) -> bool {
        self.core.lost.is_lost()
    }

    /// Looks whether all is done.
    pub(crate) fn look(&mut self) -> Result<bool, Stop> {
        if self.is_busy && self.stream.is_idle().map_err(|r| self.failed(r))? {
            self.is_busy = false;
            self.kernels.clear();
        }
        Ok(!self.is_busy)
    }

    /// What a packet needs before [`Line::run`].
    pub(crate) fn gate(&mut self, packet: &Packet<'_>) -> Result<Gate, Stop> {
        Ok(match *packet {
            Packet::Wait { at, value } => Gate::Signal { at, value },
            Packet::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => Gate::Word {
                at,
                mask,
                value,
                compare,
                width,
            },
            Packet::Signal { .. } if self.stamps.is_pending() => Gate::Stamps,
            // Where a stream cannot write, its thread does once all is done.
            Packet::Signal { .. } if !self.stream.gpu().can_write() => Gate::Stamps,
            _ => Gate::Open,
        })
    }

    /// Makes the calls of a packet, whose gate is met.
    pub(crate) fn run(&mut self, packet: &Packet<'_>) -> Result<(), Stop> {
        match *packet {
            Packet::Wait { .. } | Packet::Poll { .. } => Ok(()),
            Packet::Signal { at, value } => self.signal(at, value),
            Packet::Timestamp { at } => {
                self.known(at, 16, || format!("timestamp at {at:#x}"))?;
                self.is_busy = true;
                let recorded = self.stamps.record(&self.stream, at);
                recorded.map_err(|r| self.failed(r))
            }
            Packet::Exec {
                kernel,
                grid,
                block,
                arguments,
            } => self.launch(kernel, (grid, block), arguments),
            Packet::Copy { dst, src, bytes } => {
                if bytes == 0 {
                    return Ok(());
                }
                let what = || format!("copy of {bytes:#x} bytes from {src:#x} to {dst:#x}");
                self.known(src, bytes, what)?;
                self.known(dst, bytes, what)?;
                self.is_busy = true;
                let copied = self.stream.copy(dst, src, bytes);
                copied.map_err(|r| self.failed(r))
            }
            Packet::Fill { at, value, bytes } => {
                if bytes == 0 {
                    return Ok(());
                }
                self.known(at, bytes, || format!("fill of {bytes:#x} bytes at {at:#x}"))?;
                self.is_busy = true;
                let filled = self.stream.fill(at, value, bytes / 4);
                filled.map_err(|r| self.failed(r))
            }
            Packet::Write { at, value, width } => {
                let bytes = bytes_of(width).into();
                self.known(at, bytes, || format!("write at {at:#x}"))?;
                self.is_busy = true;
                let written = self.stream.write(at, value, width);
                written.map_err(|r| self.failed(r))
            }
        }
    }

    fn signal(&mut self, at: u64, value: u64) -> Result<(), Stop> {
        self.known(at, 8, || format!("signal at {at:#x}"))?;
        self.tell()?;
        if self.stream.gpu().can_write() {
            self.is_busy = true;
            let written = self.stream.write(at, value, Width::W64);
            return written.map_err(|r| self.failed(r));
        }
        let (window, offset) = self.seen(at)?;
        let stored = window.store(offset, value);
        stored.map_err(|e| self.fault(format!("signal at {at:#x}: {e}")))
    }

    fn launch(
        &mut self,
        kernel: u64,
        (grid, block): ([u32; 3], [u32; 3]),
        arguments: &[u32],
    ) -> Result<(), Stop> {
        let Some(function) = self.process.kernel(kernel) else {
            return Err(self.fault(format!(
                "the launch of code at {kernel:#x}, in no loaded program"
            )));
        };
        self.arguments.clear();
        let pairs = arguments.chunks(2);
        self.arguments.extend(pairs.map(|pair| {
            let high = pair.get(1).copied().unwrap_or(0);
            u64::from(pair[0]) | u64::from(high) << 32
        }));
        self.is_busy = true;
        if self.kernels.len() < NAMED && !self.kernels.contains(&kernel) {
            self.kernels.push(kernel);
        }
        let given = (&self.arguments[..], size_of_val(arguments));
        let launched = self.stream.launch(&function, grid, block, given);
        launched.map_err(|r| self.failed(r))
    }

    /// Whether the stamps that a signal waits for are over.
    fn are_stamps_over(&mut self) -> Result<bool, Stop> {
        if !self.stream.gpu().can_write() {
            return self.look();
        }
        let over = self.stamps.last_event().map_or(Ok(true), Event::is_past);
        over.map_err(|r| self.failed(r))
    }

    /// Writes the timestamps whose events are over.
    fn tell(&mut self) -> Result<(), Stop> {
        if !self.stamps.is_pending() {
            return Ok(());
        }
        let mut told = Vec::new();
        let all = self.stamps.tell(|at, ns| told.push((at, ns)));
        all.map_err(|r| self.failed(r))?;
        for (at, ns) in told {
            let (window, offset) = self.seen(at)?;
            let stored = window.store(offset + 8, ns);
            stored.map_err(|e| self.fault(format!("timestamp at {at:#x}: {e}")))?;
        }
        Ok(())
    }

    /// Whether a gate is met.
    pub(crate) fn is_met(&mut self, gate: &Gate) -> Result<bool, Stop> {
        match *gate {
            Gate::Open => Ok(true),
            Gate::Stamps => self.are_stamps_over(),
            Gate::Signal { at, value } => {
                let (window, offset) = self.seen(at)?;
                let now = window.load::<u64>(offset);
                let now = now.map_err(|e| self.fault(format!("wait at {at:#x}: {e}")))?;
                Ok(now >= value)
            }
            Gate::Word {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                let Some(now) = self.word(at, width)? else {
                    return Ok(false);
                };
                let (now, value) = match width {
                    Width::W32 => (now & mask, value & u64::from(u32::MAX)),
                    Width::W64 => (now & mask, value),
                };
                Ok(match compare {
                    Compare::Equal => now == value,
                    Compare::NotEqual => now != value,
                    Compare::GreaterEqual => now >= value,
                })
            }
        }
    }

    /// A word in memory; none before what was submitted has written it.
    fn word(&mut self, at: u64, width: Width) -> Result<Option<u64>, Stop> {
        let bytes = bytes_of(width).into();
        self.known(at, bytes, || format!("poll at {at:#x}"))?;
        let place = match self.process.window_at(at) {
            Some(place) => place,
            // Of a GPU: it comes to where the host sees it, once what is under way is done.
            None => {
                if !self.look()? {
                    return Ok(None);
                }
                let copied = self.stream.copy(self.scratch, at, bytes);
                copied.map_err(|r| self.failed(r))?;
                self.is_busy = true;
                while !self.look()? {
                    if self.is_lost() {
                        return Err(Stop::Over);
                    }
                    std::thread::yield_now();
                }
                self.seen(self.scratch)?
            }
        };
        let (window, offset) = place;
        let word = match width {
            Width::W32 => window.load::<u32>(offset).map(u64::from),
            Width::W64 => window.load::<u64>(offset),
        };
        word.map(Some)
            .map_err(|e| self.fault(format!("poll at {at:#x}: {e}")))
    }

    /// Where the host sees an address.
    fn seen(&self, at: u64) -> Result<(Window, u64), Stop> {
        self.process.window_at(at).ok_or_else(|| {
            self.fault(format!(
                "signal at {at:#x}: no memory of the host that these devices share is there"
            ))
        })
    }

    /// Some devices of the runtime have memory at these bytes.
    fn known(&self, at: u64, bytes: u64, what: impl FnOnce() -> String) -> Result<(), Stop> {
        match self.process.has(at, bytes) {
            true => Ok(()),
            false => Err(self.fault(format!(
                "{}: no buffer is at {at:#x} ({})",
                what(),
                self.core.ranges().describe(at)
            ))),
        }
    }

    /// The failure of words that are not there.
    pub(crate) fn unreadable(&self, at: u64) -> Stop {
        self.fault(format!("words at {at:#x}: no memory of the host is there"))
    }

    /// The failure of a packet that is none.
    pub(crate) fn unknown(&self, word: u32) -> Stop {
        self.fault(format!("{word:#x} is no header of a packet"))
    }

    fn failed(&self, refusal: Refusal) -> Stop {
        let names: Vec<String> = self
            .kernels
            .iter()
            .filter_map(|&kernel| Some(self.core.kernels.at(kernel)?.0.name.to_string()))
            .collect();
        let running = match names.is_empty() {
            true => String::new(),
            false => format!(". In flight: {}", names.join(", ")),
        };
        let hint = refusal.hint;
        self.fault(format!("{refusal}{running}. {hint}"))
    }

    /// The loss of the device.
    fn fault(&self, what: String) -> Stop {
        Stop::Failed(Error::Fault {
            device: self.core.id.clone(),
            unit: self.unit.clone(),
            what,
        })
    }
}
