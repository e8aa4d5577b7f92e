//! Commands to AQL.
//!
//! A launch is a kernel dispatch packet. Everything else is PM4 in an indirect buffer in the
//! data block, which one of AMD's vendor packets references.
//!
//! | packet | barrier bit | acquire | release |
//! |---|---|---|---|
//! | dispatch | unless the previous packet is a dispatch as well, without a barrier in between | agent | system |
//! | vendor | always | system | system |
//! | barrier, if no following packet can carry it | always | by scope | system |
//!
//! Every XCC runs the PM4; packets that write memory or interrupt are predicated to the first one. A dispatch
//! writes back the L2 of its XCCs, so that packets after a barrier bit find the data in memory, on
//! any XCC.

use std::sync::atomic::{AtomicU32, Ordering};

use drivers_spec::amd::aql;
use hcq::command_buffer::{CommandBuffer, Part, Reloc, Section};
use hcq::{Command, Program, Result, Scope, Val};

use super::commands::Commands;
use super::kernarg;
use super::pm4::IB_ALIGN;
use super::sink::{Sink, plus};
use super::span;
use super::{Scratch, Setup};

/// Dwords of a packet.
pub const PACKET: usize = aql::PACKET_BYTES as usize / 4;

/// Bytes that are copied or filled by one indirect buffer: its packets fit one of any chip.
const DMA_PIECE: u64 = 1 << 30;

const fn header(kind: u32, barrier: bool, acquire: u32, release: u32) -> u32 {
    aql::TYPE.put(kind)
        | aql::BARRIER.put(barrier as u32)
        | aql::ACQUIRE_SCOPE.put(acquire)
        | aql::RELEASE_SCOPE.put(release)
}

const VENDOR: u32 = header(
    aql::VENDOR_SPECIFIC,
    true,
    aql::SCOPE_SYSTEM,
    aql::SCOPE_SYSTEM,
) | aql::FORMAT.put(aql::AMD_AQL_FORMAT_PM4_IB);

/// The vendor packet that runs `dwords` of PM4 at an address, a multiple of 4.
pub const fn pm4_ib(address: u64, dwords: u32) -> [u32; PACKET] {
    let [ib, low, high, control] = super::pm4::indirect(address, dwords);
    let mut packet = [0; PACKET];
    packet[0] = VENDOR;
    packet[1] = ib;
    packet[2] = low;
    packet[3] = high;
    packet[4] = control;
    packet[5] = aql::PM4_IB_REMAINING;
    packet
}

/// The acquire scope that makes what a barrier's scope has written visible.
const fn acquire_of(scope: Scope) -> u32 {
    match scope {
        Scope::Queue => aql::SCOPE_AGENT,
        // Copy engines and other devices write memory below GL2.
        Scope::Device | Scope::System => aql::SCOPE_SYSTEM,
    }
}

/// Encodes for a compute queue that takes AQL.
#[derive(Debug)]
pub struct Aql {
    commands: Commands,
    /// Bytes of scratch of a lane.
    lane_bytes: AtomicU32,
}

impl Aql {
    /// An encoder for a queue without scratch.
    pub fn new(setup: Setup) -> Aql {
        Aql {
            commands: Commands::new(setup),
            lane_bytes: AtomicU32::new(0),
        }
    }

    /// What it knows.
    pub fn setup(&self) -> &Setup {
        self.commands.setup()
    }

    /// See [`super::Encoder::set_scratch`]. Packets do not contain its address: the queue structure
    /// does.
    pub fn set_scratch(&self, scratch: Scratch) {
        self.lane_bytes.store(scratch.lane_bytes, Ordering::Relaxed);
    }

    /// See [`super::Encoder::begin`].
    pub fn begin(&self, out: &mut CommandBuffer) {
        let ib = open_ib(out);
        self.commands.begin(&mut Sink::data(out, ib));
        close_ib(ib, out);
    }

    /// See [`super::Encoder::encode`].
    ///
    /// # Errors
    /// [`hcq::Error::Command`].
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        let mut ib = None;
        let mut barrier = None;
        for command in commands {
            match *command {
                Command::Exec {
                    program,
                    args,
                    grid,
                    block,
                } => {
                    if let Some(start) = ib.take() {
                        close_ib(start, out);
                    }
                    self.exec(program, args, grid, block, &mut barrier, out)?;
                }
                Command::Barrier { scope } => {
                    if let Some(start) = ib.take() {
                        close_ib(start, out);
                    }
                    barrier = Some(acquire_of(scope).max(barrier.unwrap_or(0)));
                }
                Command::Copy { dst, src, bytes } => {
                    let most = self.setup().chip.generation.dma_max;
                    span::check_copy(self.setup(), dst, src, bytes, most.into())?;
                    let piece = |done, bytes| Command::Copy {
                        dst: plus(dst, done),
                        src: plus(src, done),
                        bytes,
                    };
                    self.pieces(bytes, piece, &mut ib, &mut barrier, out)?;
                }
                Command::Fill { at, value, bytes } => {
                    let most = self.setup().chip.generation.dma_max;
                    span::check_fill(self.setup(), at, bytes, most.into())?;
                    let piece = |done, bytes| Command::Fill {
                        at: plus(at, done),
                        value,
                        bytes,
                    };
                    self.pieces(bytes, piece, &mut ib, &mut barrier, out)?;
                }
                ref other => self.pm4(other, &mut ib, &mut barrier, out)?,
            }
        }
        if let Some(start) = ib {
            close_ib(start, out);
        }
        if let Some(acquire) = barrier {
            let mut packet = [0; PACKET];
            packet[0] = header(aql::BARRIER_AND, true, acquire, aql::SCOPE_SYSTEM);
            out.words.extend_from_slice(&packet);
        }
        Ok(())
    }

    /// A command of many bytes, in as many indirect buffers as it takes.
    fn pieces<'a>(
        &self,
        bytes: u64,
        piece: impl Fn(u64, u64) -> Command<'a>,
        ib: &mut Option<usize>,
        barrier: &mut Option<u32>,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(DMA_PIECE);
            self.pm4(&piece(done, now), ib, barrier, out)?;
            done += now;
            if done < bytes
                && let Some(start) = ib.take()
            {
                close_ib(start, out);
            }
        }
        Ok(())
    }

    /// A command in PM4. Vendor packets are barriers of all scopes.
    fn pm4(
        &self,
        command: &Command<'_>,
        ib: &mut Option<usize>,
        barrier: &mut Option<u32>,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        *barrier = None;
        if let Some(start) = ib.take_if(|start| out.data.len() - *start > IB_ENOUGH) {
            close_ib(start, out);
        }
        let start = *ib.get_or_insert_with(|| open_ib(out));
        self.commands.encode(command, &mut Sink::data(out, start))
    }

    fn exec(
        &self,
        program: &Program,
        args: &[Val],
        grid: [u32; 3],
        block: [u32; 3],
        barrier: &mut Option<u32>,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let setup = self.setup();
        let kernel = kernarg::check(setup, program, args, grid, block)?;
        let has = self.lane_bytes.load(Ordering::Relaxed);
        kernel.check_scratch(setup, has, kernel.launch.private_bytes)?;
        if (0..3).any(|i| grid[i].checked_mul(block[i]).is_none()) {
            let why = format!(
                "grid {grid:?} of blocks {block:?}: exceeds the 32-bit work-item count of an AQL packet"
            );
            return Err(kernel.refused(setup, why));
        }
        if grid.contains(&0) {
            return Ok(());
        }
        let arguments = kernel.arguments(setup, out)?;
        let ordered = barrier.is_some() || !ends_with_dispatch(out);
        let acquire = barrier.take().unwrap_or(aql::SCOPE_AGENT);
        let header = header(aql::KERNEL_DISPATCH, ordered, acquire, aql::SCOPE_SYSTEM);
        let start = out.words.len();
        out.words.extend_from_slice(&kernel.packet(header));
        out.relocs.push(Reloc {
            section: Section::Words,
            offset: (start + aql::dispatch::KERNARG_ADDRESS / 4) as u32 * 4,
            part: Part::Whole,
            add: arguments,
        });
        Ok(())
    }
}

/// Whether the last packet is a dispatch: then the next one may overlap with it.
fn ends_with_dispatch(out: &CommandBuffer) -> bool {
    let last = out.words.len().checked_sub(PACKET);
    last.is_some_and(|at| aql::TYPE.get(out.words[at]) == aql::KERNEL_DISPATCH)
}

/// Dwords of an indirect buffer after which another one is begun: the packets of one command fit in the
/// other half.
const IB_ENOUGH: usize = super::pm4::INDIRECT_MAX / 2;

/// Where the next indirect buffer starts in the data, in dwords.
fn open_ib(out: &mut CommandBuffer) -> usize {
    let start = out.data.len().next_multiple_of(IB_ALIGN);
    out.data.resize(start, 0);
    start
}

/// Appends the packet that runs what the data holds from `start` on.
fn close_ib(start: usize, out: &mut CommandBuffer) {
    let dwords = out.data.len() - start;
    if dwords == 0 {
        return;
    }
    let at = out.words.len();
    out.words.extend_from_slice(&pm4_ib(0, dwords as u32));
    out.relocs.push(Reloc {
        section: Section::Words,
        offset: (at as u32 + 2) * 4,
        part: Part::Whole,
        add: start as u32 * 4,
    });
}
