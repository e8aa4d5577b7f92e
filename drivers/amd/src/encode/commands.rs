//! The commands whose packets PM4 and AQL queues share.

use drivers_spec::amd::pm4::{self, op, release, wait};
use drivers_spec::amd::regs;
use hcq::command_buffer::Part;
use hcq::{Command, Compare, GpuVa, Result, Val, Width};

use super::sink::{Sink, plus};
use super::span;
use super::{Setup, XCC_BARRIER_BYTES};
use crate::chip::{AcquireForm, END_OF_PIPE};

/// Functions of WAIT_REG_MEM, and of SDMA's POLL_REGMEM.
pub(crate) const fn function(compare: Compare) -> u32 {
    match compare {
        Compare::Equal => 3,
        Compare::NotEqual => 4,
        Compare::GreaterEqual => 5,
    }
}

/// Clocks between two looks of a wait, in units of 16.
pub(crate) const POLL_INTERVAL: u32 = 4;

/// Clocks between two polls of a counter, in units of 16: the counters are near all XCCs.
const MEET_INTERVAL: u32 = 0x10;

/// Offset of a signal's timestamp from its value.
pub(crate) const TIMESTAMP: u64 = 8;

/// Puts packets of PM4 into a sink.
#[derive(Debug)]
pub(crate) struct Commands {
    setup: Setup,
}

impl Commands {
    pub fn new(setup: Setup) -> Self {
        Commands { setup }
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What the host wrote is seen by what follows: the HDP holds nothing back, caches are empty.
    pub fn begin(&self, sink: &mut Sink<'_>) {
        let [request, done] = self.setup.chip.generation.hdp_flush;
        sink.put(&[
            pm4::header(pm4::WAIT_REG_MEM, 6),
            // Writes one register, then waits for the other.
            wait::FUNCTION.put(function(Compare::GreaterEqual)) | wait::OPERATION.put(1),
            request,
            done,
            // The bits of all clients.
            u32::MAX,
            u32::MAX,
            wait::INTERVAL.put(POLL_INTERVAL),
        ]);
        self.acquire(sink, self.setup.chip.generation.acquire_system);
    }

    /// Any command but launches and barriers.
    pub fn encode(&self, command: &Command<'_>, sink: &mut Sink<'_>) -> Result<()> {
        match *command {
            Command::Wait { signal, value } if !self.wait64() && span::is_past(signal, value) => {}
            Command::Wait { signal, value } => {
                // Waits that follow each other share the last one's cache actions.
                self.drop_acquire(sink);
                self.wait(
                    sink,
                    Val::Const(signal.va().0),
                    u64::MAX,
                    value,
                    Compare::GreaterEqual,
                    Width::W64,
                )?;
            }
            Command::Poll {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                span::check_aligned(&self.setup, "poll", at, width)?;
                self.wait(sink, at, mask, value, compare, width)?;
                // The compared value may change as soon as one XCC continues.
                self.xcc_barrier(sink);
            }
            Command::Signal { signal, value } => {
                self.xcc_sync(sink);
                self.signal(sink, signal.va(), value);
            }
            Command::Timestamp { signal } => self.gathered(sink, |_, sink| {
                let at = signal.va().0 + TIMESTAMP;
                release_mem(sink, END_OF_PIPE, CLOCK, at, Val::Const(0), 0);
            }),
            Command::Copy { dst, src, bytes } => self.copy(sink, dst, src, bytes)?,
            Command::Fill { at, value, bytes } => self.fill(sink, at, value, bytes)?,
            Command::Write { at, value, width } => self.write(sink, at, value, width)?,
            // The languages have their own.
            Command::Exec { .. } | Command::Barrier { .. } => {}
        }
        Ok(())
    }

    /// Whether a wait compares 64 bits at once.
    fn wait64(&self) -> bool {
        self.setup.chip.generation.wait64 && !self.setup.recorded.waits
    }

    /// Waits until all waves before have ended.
    pub fn partial_flush(&self, sink: &mut Sink<'_>) {
        sink.put(&[
            pm4::header(pm4::EVENT_WRITE, 1),
            op::EVENT_TYPE.put(pm4::CS_PARTIAL_FLUSH)
                | op::EVENT_INDEX.put(pm4::EVENT_INDEX_PARTIAL_FLUSH),
        ]);
    }

    /// Acts on caches, for all addresses.
    pub fn acquire(&self, sink: &mut Sink<'_>, caches: u32) {
        let (packet, length) = self.acquire_packet(caches);
        sink.put(&packet[..length]);
    }

    fn acquire_packet(&self, caches: u32) -> ([u32; 8], usize) {
        let generation = self.setup.chip.generation;
        // The whole range: 56 bits in units of 256 bytes, from 0 on.
        let (size, size_hi) = (u32::MAX, 0x00ff_ffff);
        let interval = generation.acquire_interval;
        match generation.acquire {
            AcquireForm::CoherCntl => {
                let header = pm4::header(pm4::ACQUIRE_MEM, 6);
                ([header, caches, size, size_hi, 0, 0, interval, 0], 7)
            }
            AcquireForm::GcrCntl => {
                let header = pm4::header(pm4::ACQUIRE_MEM, 7);
                ([header, 0, size, size_hi, 0, 0, interval, caches], 8)
            }
        }
    }

    /// Removes the cache actions of a trailing wait. Those of a barrier stay: others
    /// may need them before the awaited event.
    fn drop_acquire(&self, sink: &mut Sink<'_>) {
        let (packet, length) = self.acquire_packet(self.setup.chip.generation.acquire_system);
        // The last dword of a wait.
        sink.drop_end(wait::INTERVAL.put(POLL_INTERVAL), &packet[..length]);
    }

    /// Whether the packets run on several XCCs that do not know of each other: those of a PM4 queue.
    pub fn per_xcc(&self) -> bool {
        self.setup.xccs > 1 && self.setup.xcc_barrier.0 != 0
    }

    /// Each of these XCCs runs the share of its number, one workgroup after the other.
    ///
    /// Source: Linux, amdkfd/kfd_mqd_manager_v9.c, init_mqd_v9_4_3: AQL queues get these values from
    /// the kernel driver, PM4 queues zeros.
    pub fn shares(&self, sink: &mut Sink<'_>) {
        if !self.per_xcc() {
            return;
        }
        let register = |sink: &mut Sink<'_>, register: u32, value: u32| {
            sink.put(&[
                pm4::header(pm4::SET_SH_REG, 2),
                register - pm4::SH_REG_START,
                value,
            ]);
        };
        register(sink, regs::COMPUTE_TG_CHUNK_SIZE, 1);
        for xcc in 0..self.setup.xccs {
            self.on(sink, 1 << xcc, |_, sink| {
                register(sink, regs::COMPUTE_CURRENT_LOGIC_XCC_ID, xcc);
            });
        }
    }

    /// A barrier of XCCs: each increments a counter and waits until all have. The second counter
    /// shows that all have seen the first one full, so that no XCC increments it again too early.
    ///
    /// Their number is a power of two: each counter is full when its low bits are zero again.
    /// The command processors of MI300X see such counters in ordinary device memory as one; another
    /// driver that has run there used them so.
    fn xcc_barrier(&self, sink: &mut Sink<'_>) {
        if !self.per_xcc() {
            return;
        }
        for counter in [0, XCC_BARRIER_BYTES / 2] {
            let at = Val::Const(self.setup.xcc_barrier.0 + counter);
            sink.put(&[
                pm4::header(pm4::ATOMIC_MEM, 8),
                op::ATOMIC_OP.put(pm4::TC_OP_ATOMIC_ADD_RTN_32),
            ]);
            sink.val(at);
            sink.put(&[1, 0, 0, 0, op::LOOP_INTERVAL.put(MEET_INTERVAL)]);
            sink.put(&[pm4::header(pm4::WAIT_REG_MEM, 6), wait_info(Compare::Equal)]);
            sink.val(at);
            sink.put(&[0, self.setup.xccs - 1, wait::INTERVAL.put(MEET_INTERVAL)]);
        }
    }

    /// Waits for the earlier work of all XCCs, and writes it to memory.
    pub fn xcc_sync(&self, sink: &mut Sink<'_>) {
        if self.per_xcc() {
            self.partial_flush(sink);
            self.acquire(sink, self.setup.chip.generation.acquire_gl2);
            self.xcc_barrier(sink);
        }
    }

    /// One XCC runs `packets` after the work of all.
    fn gathered(&self, sink: &mut Sink<'_>, body: impl FnOnce(&Self, &mut Sink<'_>)) {
        self.xcc_sync(sink);
        self.once(sink, body);
    }

    /// Runs on one XCC what all of them would do: write to memory, interrupt.
    fn once(&self, sink: &mut Sink<'_>, body: impl FnOnce(&Self, &mut Sink<'_>)) {
        if self.setup.xccs == 1 {
            return body(self, sink);
        }
        self.on(sink, 1, body);
    }

    /// Runs on the XCCs of a mask.
    pub fn on(&self, sink: &mut Sink<'_>, xccs: u32, body: impl FnOnce(&Self, &mut Sink<'_>)) {
        let start = sink.buffer().len();
        sink.put(&[pm4::header(pm4::PRED_EXEC, 1), 0]);
        body(self, sink);
        let buffer = sink.buffer();
        let count = (buffer.len() - start - 2) as u32;
        buffer[start + 1] = op::EXEC_COUNT.put(count) | op::VIRTUAL_XCC_MASK.put(xccs);
    }

    /// Waits for memory, then acquires earlier writes of the signalling device.
    fn wait(
        &self,
        sink: &mut Sink<'_>,
        at: Val,
        mask: u64,
        value: Val,
        compare: Compare,
        width: Width,
    ) -> Result<()> {
        let generation = self.setup.chip.generation;
        match (width, self.wait64()) {
            (Width::W32, _) => wait32(sink, at, mask as u32, value, Part::Low, compare),
            (Width::W64, true) => {
                sink.put(&[pm4::header(pm4::WAIT_REG_MEM64, 8), wait_info(compare)]);
                sink.val(at);
                sink.val(value);
                let (low, high) = (mask as u32, (mask >> 32) as u32);
                sink.put(&[low, high, wait::INTERVAL.put(POLL_INTERVAL)]);
            }
            (Width::W64, false) => {
                span::by_halves(&self.setup, mask, value, compare, |half, part, mask| {
                    wait32(sink, plus(at, half), mask, value, part, compare);
                })?;
            }
        }
        self.acquire(sink, generation.acquire_system);
        Ok(())
    }

    /// Caches, the value, and the interrupt if the signal has one.
    fn signal(&self, sink: &mut Sink<'_>, signal: GpuVa, value: Val) {
        let event = self.setup.chip.generation.release_system;
        self.once(sink, |this, sink| {
            let select = this.select(value);
            release_mem(sink, event, select, signal.0, value, 0);
            if let Some(interrupt) = this.setup.interrupt.filter(|i| i.signal == signal) {
                let (mailbox, id) = (interrupt.mailbox.0, interrupt.event);
                let select = DATA32 | INTERRUPT;
                release_mem(
                    sink,
                    END_OF_PIPE,
                    select,
                    mailbox,
                    Val::Const(id.into()),
                    id,
                );
            }
        });
    }

    /// How much of a signal's value is written: one that only grows has zeros above a value of 32 bits.
    fn select(&self, value: Val) -> u32 {
        match value {
            Val::Const(value) if self.setup.recorded.writes && value >> 32 == 0 => DATA32,
            _ => DATA64,
        }
    }

    /// The command processor copies: a compute queue needs no kernel for it.
    ///
    /// It is slower than SDMA; large copies belong on a copy queue.
    /// Source: Mesa, radv_cp_dma.c.
    fn copy(&self, sink: &mut Sink<'_>, dst: Val, src: Val, bytes: u64) -> Result<()> {
        let most = self.setup.chip.generation.dma_max;
        span::check_copy(&self.setup, dst, src, bytes, most.into())?;
        self.dma(sink, THROUGH_L2, |done| plus(src, done), dst, bytes);
        Ok(())
    }

    /// As [`Commands::copy`], with the word in the place of an address.
    fn fill(&self, sink: &mut Sink<'_>, at: Val, value: u32, bytes: u64) -> Result<()> {
        let most = self.setup.chip.generation.dma_max;
        span::check_fill(&self.setup, at, bytes, most.into())?;
        let word = Val::Const(value.into());
        self.dma(sink, pm4::DMA_SRC_DATA, |_| word, at, bytes);
        Ok(())
    }

    fn dma(
        &self,
        sink: &mut Sink<'_>,
        select: u32,
        source: impl Fn(u64) -> Val,
        dst: Val,
        bytes: u64,
    ) {
        let generation = self.setup.chip.generation;
        if bytes == 0 {
            return;
        }
        if !generation.dma_through_gl2 {
            self.acquire(sink, generation.acquire_gl2);
        }
        let mut done = 0;
        while done < bytes {
            let count = (bytes - done).min(generation.dma_max.into());
            self.once(sink, |_, sink| {
                // MEC has no CP_SYNC: it always waits for the copy.
                sink.put(&[
                    pm4::header(pm4::DMA_DATA, 6),
                    op::DMA_SRC_SEL.put(select) | op::DMA_DST_SEL.put(THROUGH_L2),
                ]);
                sink.val(source(done));
                sink.val(plus(dst, done));
                sink.put(&[op::BYTE_COUNT.put(count as u32)]);
            });
            done += count;
        }
        if !generation.dma_through_gl2 {
            self.acquire(sink, generation.acquire_gl2);
        }
    }

    /// The command processor runs ahead of waves: it waits for them first, so that the word changes
    /// after what came before.
    fn write(&self, sink: &mut Sink<'_>, at: Val, value: Val, width: Width) -> Result<()> {
        span::check_aligned(&self.setup, "write", at, width)?;
        if self.setup.recorded.writes {
            let select = match width {
                Width::W32 => DATA32,
                Width::W64 => DATA64,
            };
            self.xcc_sync(sink);
            self.once(sink, |_, sink| {
                sink.put(&[pm4::header(pm4::RELEASE_MEM, 7), END_OF_PIPE, select]);
                sink.val(at);
                sink.val(value);
                sink.put(&[0]);
            });
            return Ok(());
        }
        match self.per_xcc() {
            true => self.xcc_sync(sink),
            false => self.partial_flush(sink),
        }
        self.once(sink, |_, sink| {
            let dwords = drivers_gpu::span::bytes(width) as u32 / 4;
            sink.put(&[
                pm4::header(pm4::WRITE_DATA, 3 + dwords),
                op::WRITE_DST_SEL.put(TO_L2) | op::WRITE_CONFIRM.put(1),
            ]);
            sink.val(at);
            match width {
                Width::W32 => sink.half(value, Part::Low),
                Width::W64 => sink.val(value),
            }
        });
        Ok(())
    }
}

/// SRC_SEL and DST_SEL of DMA_DATA: an address, through L2 (on GFX12: through the last level cache).
const THROUGH_L2: u32 = 3;
/// WRITE_DST_SEL of WRITE_DATA: memory, through L2, where kernels of the queue find it.
const TO_L2: u32 = 2;
/// Selectors of RELEASE_MEM: 32 bits, 64 bits, the GPU's clock.
const DATA32: u32 = release::DATA_SEL.put(1);
const DATA64: u32 = release::DATA_SEL.put(2);
const CLOCK: u32 = release::DATA_SEL.put(3);
/// Selector of RELEASE_MEM: an interrupt after the write.
const INTERRUPT: u32 = release::INT_SEL.put(2);

fn release_mem(sink: &mut Sink<'_>, event: u32, select: u32, at: u64, data: Val, context: u32) {
    let (low, high) = (at as u32, (at >> 32) as u32);
    sink.put(&[pm4::header(pm4::RELEASE_MEM, 7), event, select, low, high]);
    sink.val(data);
    sink.put(&[context]);
}

/// INFO of a wait on memory.
fn wait_info(compare: Compare) -> u32 {
    wait::FUNCTION.put(function(compare)) | wait::MEM_SPACE.put(1)
}

fn wait32(sink: &mut Sink<'_>, at: Val, mask: u32, value: Val, part: Part, compare: Compare) {
    sink.put(&[pm4::header(pm4::WAIT_REG_MEM, 6), wait_info(compare)]);
    sink.val(at);
    sink.half(value, part);
    sink.put(&[mask, wait::INTERVAL.put(POLL_INTERVAL)]);
}
