//! Commands to PM4.
//!
//! | command | packets |
//! |---|---|
//! | wait | WAIT_REG_MEM64 (two WAIT_REG_MEM on GFX9); ACQUIRE_MEM of everything |
//! | signal | RELEASE_MEM that writes GL2 back, then 64 bits; one more with the interrupt |
//! | timestamp | RELEASE_MEM of the clock |
//! | barrier | EVENT_WRITE CS_PARTIAL_FLUSH; ACQUIRE_MEM by scope |
//! | exec | SET_SH_REG; DISPATCH_DIRECT |
//! | copy, fill | DMA_DATA, as many as it takes |
//! | write | EVENT_WRITE CS_PARTIAL_FLUSH; WRITE_DATA |
//! | poll | WAIT_REG_MEM or WAIT_REG_MEM64; ACQUIRE_MEM of everything |
//!
//! # Several XCCs
//!
//! Each XCC of a GPU has its own queue on one ring; all run the same packets, and each runs its share of
//! the workgroups. Each has its own L2, and they are not synchronised: before a packet that depends on
//! the work of all (a barrier, a signal, a timestamp, a write), each writes its L2 back and waits for the others
//! at counters in memory. Packets with external effects run on the first one (PRED_EXEC), which works in
//! indirect buffers only: the ring has references to words in memory ([`super::Encoder::names_words`]).
//!
//! Scopes: kernels of a queue share GL2, but not vector and scalar caches. The copy engines, other devices
//! and the host access memory below GL2, so the scopes device and system write GL2 back, and
//! invalidate it for data from there.

use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::amd::{kd, pm4, regs};
use hcq::command_buffer::{CommandBuffer, Keep, Part, Reloc, Section};
use hcq::sync::lock;
use hcq::{Command, Program, Result, Scope, Val};

use super::commands::Commands;
use super::kernarg::{self, Kernel};
use super::sink::Sink;
use super::{Launch, Scratch, Setup};
use crate::chip::ScratchBase;

/// Dwords of a packet, header included.
pub fn length(header: u32) -> usize {
    if header == pm4::NOP_PAD {
        1
    } else {
        pm4::COUNT.get(header) as usize + 2
    }
}

/// How many of the first words are whole packets and take no more than `room` dwords; PRED_EXEC counts with its predicated packets.
pub fn packet_boundary(words: &[u32], room: usize) -> usize {
    super::packet_boundary(words, room, |words| {
        let own = length(words[0]);
        match pm4::OPCODE.get(words[0]) as u8 {
            pm4::PRED_EXEC => {
                own + words
                    .get(1)
                    .map_or(0, |&w| pm4::op::EXEC_COUNT.get(w) as usize)
            }
            _ => own,
        }
    })
}

/// Dwords of an indirect buffer at most.
pub const INDIRECT_MAX: usize = (1 << 20) - 1;

/// The packet that runs `dwords` (1 to [`INDIRECT_MAX`]) at an address, a multiple of 4. From a ring
/// only: indirect buffers do not nest.
pub const fn indirect(address: u64, dwords: u32) -> [u32; 4] {
    [
        pm4::header(pm4::INDIRECT_BUFFER, 3),
        address as u32,
        (address >> 32) as u32,
        pm4::ib::IB_SIZE.put(dwords) | pm4::ib::VALID.put(1),
    ]
}

/// Encodes for a compute queue that takes PM4.
#[derive(Debug)]
pub struct Pm4 {
    commands: Commands,
    /// And what keeps it.
    scratch: Mutex<(Scratch, Option<Keep>)>,
}

impl Pm4 {
    /// An encoder for a queue without scratch.
    pub fn new(setup: Setup) -> Pm4 {
        Pm4 {
            commands: Commands::new(setup),
            scratch: Mutex::default(),
        }
    }

    /// What it knows.
    pub fn setup(&self) -> &Setup {
        self.commands.setup()
    }

    /// See [`super::Encoder::set_scratch`].
    pub fn set_scratch(&self, scratch: Scratch, keep: Option<Keep>) {
        let old = std::mem::replace(&mut *self.scratch(), (scratch, keep));
        // Freed outside of the lock.
        drop(old);
    }

    /// See [`super::Encoder::uses`].
    pub fn uses(&self, kept: &Keep) -> bool {
        let now = self.scratch();
        now.1.as_ref().is_some_and(|now| Arc::ptr_eq(now, kept))
    }

    fn scratch(&self) -> MutexGuard<'_, (Scratch, Option<Keep>)> {
        // Changed in one step.
        lock(&self.scratch)
    }

    /// Whether the words run on several XCCs, and so from indirect buffers alone.
    pub fn per_xcc(&self) -> bool {
        self.commands.per_xcc()
    }

    /// See [`super::Encoder::begin`].
    pub fn begin(&self, out: &mut CommandBuffer) {
        let mut sink = Sink::words(out);
        self.commands.begin(&mut sink);
        self.commands.shares(&mut sink);
    }

    /// See [`super::Encoder::encode`].
    ///
    /// # Errors
    /// [`hcq::Error::Command`].
    pub fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        for command in commands {
            match *command {
                Command::Exec {
                    program,
                    args,
                    grid,
                    block,
                } => self.exec(program, args, grid, block, out)?,
                Command::Barrier { scope } => {
                    let generation = self.setup().chip.generation;
                    let per_xcc = self.per_xcc();
                    let mut sink = Sink::words(out);
                    match per_xcc {
                        true => self.commands.xcc_sync(&mut sink),
                        false => self.commands.partial_flush(&mut sink),
                    }
                    let caches = match scope {
                        // Other XCCs have changed memory below this one's L2.
                        Scope::Queue if per_xcc => {
                            generation.acquire_queue | generation.acquire_gl2
                        }
                        Scope::Queue => generation.acquire_queue,
                        Scope::Device | Scope::System => generation.acquire_system,
                    };
                    self.commands.acquire(&mut sink, caches);
                }
                ref other => self.commands.encode(other, &mut Sink::words(out))?,
            }
        }
        Ok(())
    }

    fn exec(
        &self,
        program: &Program,
        args: &[Val],
        grid: [u32; 3],
        block: [u32; 3],
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let setup = self.setup();
        let kernel = kernarg::check(setup, program, args, grid, block)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let launch = &kernel.launch;
        let generation = setup.chip.generation;
        if setup.recorded.barriers {
            self.commands
                .acquire(&mut Sink::words(out), generation.acquire_queue);
        }
        let first_patch = out.patches.len();
        let arguments = kernel.arguments(setup, out)?;
        let scratch = self.scratch_for(&kernel, out)?;
        let [rsrc1, rsrc2, rsrc3] = launch.rsrc;

        // One piece: this is what every launch pays.
        let code = launch.code.0 >> 8;
        let [start, program, third, limits, restart] =
            [set_sh(10), set_sh(2), set_sh(1), set_sh(1), set_sh(3)];
        out.words.extend_from_slice(&[
            start,
            sh(regs::COMPUTE_START_X),
            0,
            0,
            0,
            block[0],
            block[1],
            block[2],
            // PIPELINESTAT_ENABLE, PERFCOUNT_ENABLE.
            0,
            0,
            code as u32,
            (code >> 32) as u32,
            program,
            sh(regs::COMPUTE_PGM_RSRC1),
            rsrc1,
            rsrc2,
            third,
            sh(generation.pgm_rsrc3),
            rsrc3,
            limits,
            sh(regs::COMPUTE_RESOURCE_LIMITS),
            0,
            restart,
            sh(regs::COMPUTE_RESTART_X),
            0,
            0,
            0,
        ]);
        if let Some(scratch) = scratch {
            self.scratch_registers(scratch, out);
        }
        self.user_data(&kernel, arguments, scratch, first_patch, out)?;
        let mut initiator = generation.initiator;
        if launch.wave32() {
            initiator |= generation.initiator_wave32;
        }
        out.words.extend_from_slice(&[
            pm4::header(pm4::DISPATCH_DIRECT, 4),
            grid[0],
            grid[1],
            grid[2],
            initiator,
        ]);
        if setup.recorded.barriers {
            self.commands.partial_flush(&mut Sink::words(out));
        }
        Ok(())
    }

    /// The scratch of a kernel that uses some; kept with the packets that will name it.
    fn scratch_for(&self, kernel: &Kernel<'_>, out: &mut CommandBuffer) -> Result<Option<Scratch>> {
        let Launch {
            rsrc,
            private_bytes,
            ..
        } = kernel.launch;
        if regs::SCRATCH_EN.get(rsrc[1]) == 0 {
            return Ok(None);
        }
        let (scratch, keep) = &*self.scratch();
        kernel.check_scratch(self.setup(), scratch.lane_bytes, private_bytes)?;
        if let Some(keep) = keep
            && !out.keep.iter().any(|kept| Arc::ptr_eq(kept, keep))
        {
            out.keep.push(keep.clone());
        }
        Ok(Some(*scratch))
    }

    /// Where scratch lies, and its size; with several XCCs each has its part.
    #[inline]
    fn scratch_registers(&self, scratch: Scratch, out: &mut CommandBuffer) {
        let setup = self.setup();
        out.words
            .extend_from_slice(&[set_sh(1), sh(regs::COMPUTE_TMPRING_SIZE), scratch.tmpring]);
        if setup.chip.generation.scratch_base != ScratchBase::Register {
            return;
        }
        let register = |sink: &mut Sink<'_>, base: u64| {
            let base = base >> 8;
            sink.put(&[
                set_sh(2),
                sh(regs::COMPUTE_DISPATCH_SCRATCH_BASE_LO),
                base as u32,
                (base >> 32) as u32,
            ]);
        };
        let mut sink = Sink::words(out);
        match setup.xccs {
            1 => register(&mut sink, scratch.base.0),
            xccs => {
                let part = scratch.bytes / u64::from(xccs);
                for xcc in 0..xccs {
                    let base = scratch.base.0 + part * u64::from(xcc);
                    self.commands
                        .on(&mut sink, 1 << xcc, |_, sink| register(sink, base));
                }
            }
        }
    }

    /// USER_DATA: what becomes SGPRs, in the order of the descriptor's properties.
    ///
    /// Source: LLVM, AMDGPUUsage, "SGPR register set up order".
    fn user_data(
        &self,
        kernel: &Kernel<'_>,
        arguments: u32,
        scratch: Option<Scratch>,
        first_patch: usize,
        out: &mut CommandBuffer,
    ) -> Result<()> {
        let setup = self.setup();
        let launch = &kernel.launch;
        let properties = u32::from(launch.properties);
        let wants = |field: drivers_spec::amd::packet::Field| field.get(properties) == 1;
        let header = out.words.len();
        out.words
            .extend_from_slice(&[0, sh(regs::COMPUTE_USER_DATA_0)]);
        let first = out.words.len();
        let pointer = |out: &mut CommandBuffer, add: u32| {
            let offset = out.words.len() as u32 * 4;
            out.relocs.push(Reloc {
                section: Section::Words,
                offset,
                part: Part::Whole,
                add,
            });
            out.quad(0);
        };
        if wants(kd::ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER) {
            let scratch = scratch.unwrap_or_default();
            let Some(resource) = scratch.resource_of(setup.chip, launch.wave32()) else {
                return Err(kernel.refused(
                    setup,
                    "requests a scratch buffer resource, which this chip does not have; compile it \
                     for this chip",
                ));
            };
            out.words.extend_from_slice(&resource);
        }
        if wants(kd::ENABLE_SGPR_DISPATCH_PTR) {
            let packet = kernel.dispatch_packet(arguments, out);
            pointer(out, packet);
        }
        if wants(kd::ENABLE_SGPR_QUEUE_PTR) {
            out.quad(setup.queue.0);
        }
        if wants(kd::ENABLE_SGPR_KERNARG_SEGMENT_PTR) {
            pointer(out, arguments);
        }
        if wants(kd::ENABLE_SGPR_DISPATCH_ID) {
            return Err(kernel.refused(
                setup,
                "requests its dispatch packet number, available on AQL queues only; open the device \
                 with AQL queues",
            ));
        }
        if wants(kd::ENABLE_SGPR_FLAT_SCRATCH_INIT) {
            out.quad(scratch.unwrap_or_default().base.0);
        }
        if wants(kd::ENABLE_SGPR_PRIVATE_SEGMENT_SIZE) {
            out.word(launch.private_bytes);
        }
        kernel.preload(arguments, first_patch, out);
        let count = out.words.len() - first;
        if count > regs::USER_DATA as usize {
            let most = regs::USER_DATA;
            let why = format!("requests {count} initial SGPRs, expected at most {most}");
            return Err(kernel.refused(setup, why));
        }
        match count {
            0 => out.words.truncate(header),
            _ => out.words[header] = set_sh(count as u32),
        }
        Ok(())
    }
}

/// Alignment of an indirect buffer in dwords: the data before it is in another fetch.
pub(super) const IB_ALIGN: usize = 8;

/// The header of a packet that writes `count` consecutive registers of the queue.
const fn set_sh(values: u32) -> u32 {
    pm4::header(pm4::SET_SH_REG, values + 1)
}

/// How that packet names the first of them.
const fn sh(register: u32) -> u32 {
    register - pm4::SH_REG_START
}
