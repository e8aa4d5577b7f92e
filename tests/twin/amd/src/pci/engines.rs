//! What runs behind a card: queues that registers have described, on the engines of the twin. Every access goes
//! through a hub and the page tables that the driver has written, and what queues tell becomes entries of the
//! interrupt ring.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::amd::ih::{self, client, client9, source};
use drivers_spec::amd::packet::Gfx as Generation;
use hcq::mem::window::AccessWidth;
use hcq::sync::lock;
use twin::rule::Journal;
use twin_shader::page::{Access, FaultKind, MemFault, Port};

use super::hub::Hubs;
use super::ih::Ih;
use super::tlb::Hub;
use crate::chip::Chip;
use crate::cp::exception;
use crate::gpu::{
    Begin, Doorbell, Gpu, Interrupt, Kernel, ProcessId, QueueDesc, QueueId, QueueKind, Setup,
};
use crate::mem::{Entry, Mapping, Physical, Vm, Walk};
use crate::scheduler::Scheduler;

/// The ways of engines to memory.
#[derive(Clone)]
struct Ways {
    /// Of graphics and compute, by XCC.
    gc: Vec<Arc<Hub>>,
    /// Of everything else, by die.
    mm: Vec<Arc<Hub>>,
}

/// A queue that registers describe. Addresses are virtual, but for the doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub(super) kind: QueueKind,
    /// Its XCC; of a copy engine that is no part of one, its die.
    pub(super) place: u32,
    pub(super) vmid: u32,
    /// Where the ring is, and its bytes.
    pub(super) ring: (u64, u64),
    pub(super) rptr: u64,
    pub(super) wptr: u64,
    /// The end-of-pipe buffer and its bytes.
    pub(super) eop: (u64, u64),
    /// The read pointer in its registers, in the unit of the queue.
    pub(super) from: u64,
    /// The byte of the doorbell BAR.
    pub(super) doorbell: u64,
    /// What entries of the interrupt ring call it (`RING_ID`).
    pub(super) ring_id: u32,
}

/// The engines of a card.
pub(super) struct Engines {
    gpu: Gpu,
    generation: Generation,
    physical: Arc<Physical>,
    hubs: Ways,
    /// By hub and VMID: as long as the card is there, so that decoded code stays.
    spaces: BTreeMap<(bool, u32, u32), Arc<Vm>>,
    bells: Arc<Mapping>,
    tell: Arc<Tell>,
}

/// The doorbells of a card: BAR 2.
pub(super) const BELLS: u64 = 2 << 20;

impl Engines {
    /// Those of a chip, which make their choices by a seed.
    pub(super) fn new(
        (chip, generation): (&'static Chip, Generation),
        physical: &Arc<Physical>,
        hubs: &Hubs,
        ih: &Arc<Ih>,
        journal: &Arc<Journal>,
        seed: u64,
    ) -> io::Result<Engines> {
        let scheduler = Scheduler::new(seed)?;
        let (gc, mm) = hubs.all();
        let hubs = Ways { gc, mm };
        let tell = Arc::new(Tell {
            generation,
            hubs: hubs.clone(),
            ih: ih.clone(),
            names: Mutex::default(),
            refused: Arc::default(),
            ends: AtomicBool::new(false),
            is_reset: AtomicBool::new(false),
        });
        let setup = Setup {
            index: physical.gmc.index,
            chip,
            journal: journal.clone(),
            seed,
            threads: 1,
            packets: None,
            instructions: None,
        };
        let kernel: Arc<dyn Kernel> = tell.clone();
        let bells = Mapping::new(BELLS).map_err(io::Error::from_raw_os_error)?;
        Ok(Engines {
            gpu: Gpu::new(setup, Arc::downgrade(&kernel), &scheduler),
            generation,
            physical: physical.clone(),
            hubs,
            spaces: BTreeMap::new(),
            bells: Arc::new(bells),
            tell,
        })
    }

    /// The address space of a VMID, as a kind of queue at a place reaches it. Copy engines of GFX9 are no part of
    /// the graphics block.
    fn space(&mut self, kind: QueueKind, place: u32, vmid: u32) -> Option<Arc<Vm>> {
        let copies = matches!(kind, QueueKind::Sdma { .. });
        let outside = copies && self.generation == Generation::Gfx9;
        let (place, hubs) = match outside {
            true => {
                let hub = self.hubs.mm.get(place as usize)?;
                (place, vec![hub.clone()])
            }
            // One for all XCCs, each of which goes through a hub of its own.
            false => {
                self.hubs.gc.get(place as usize)?;
                (0, self.hubs.gc.clone())
            }
        };
        let physical = self.physical.clone();
        let refused = self.tell.refused.clone();
        let space = self.spaces.entry((outside, place, vmid));
        let space = space.or_insert_with(|| {
            let space = Space {
                physical: physical.clone(),
                hubs,
                xcc: 0,
                vmid,
                refused,
            };
            Vm::walked(physical.gmc.clone(), Arc::new(space))
        });
        Some(space.clone())
    }

    /// Starts a queue. None where its XCC or die does not exist.
    pub(super) fn start(&mut self, wanted: &Wanted) -> Option<QueueId> {
        let vm = self.space(wanted.kind, wanted.place, wanted.vmid)?;
        self.tell.is_reset.store(false, Ordering::Release);
        let id = self.gpu.create_queue(QueueDesc {
            process: wanted.vmid,
            vm,
            kind: wanted.kind,
            ring: wanted.ring.0,
            ring_bytes: wanted.ring.1,
            rptr: wanted.rptr,
            wptr: wanted.wptr,
            eop: wanted.eop,
            cwsr: (0, 0),
            xcc: wanted.place,
            active: true,
            begin: Begin::Registers(wanted.from),
            doorbell: Doorbell {
                page: self.bells.clone(),
                offset: wanted.doorbell as usize,
            },
        });
        let name = Name {
            vmid: wanted.vmid,
            ring_id: wanted.ring_id,
        };
        self.tell.names().insert(id, name);
        Some(id)
    }

    /// Ends a queue: on return nothing of it runs.
    pub(super) fn stop(&mut self, id: QueueId) {
        self.gpu.destroy_queue(id);
        self.tell.names().remove(&id);
    }

    /// The card was reset, and its queues are ended: what these still have on the way arrives nowhere.
    pub(super) fn reset(&self) {
        self.interrupt_at_ends(false);
        self.tell.is_reset.store(true, Ordering::Release);
    }

    /// The clock by which packets take times.
    pub(super) fn clock(&self) -> u64 {
        self.gpu.clock()
    }

    /// Whether the first pipe of the MEC interrupts at its end (`TIME_STAMP_INT_ENABLE`). Source: Linux, gfx_v11_0.c,
    /// `gfx_v11_0_set_compute_eop_interrupt_state`.
    pub(super) fn interrupt_at_ends(&self, on: bool) {
        self.tell.ends.store(on, Ordering::Release);
    }

    /// Whether a queue has nothing left to do.
    pub(super) fn is_idle(&self, id: QueueId) -> bool {
        self.gpu.queue_is_idle(id)
    }

    /// Whether no queue gets on by itself.
    pub(super) fn are_idle(&self) -> bool {
        self.gpu.is_idle()
    }

    /// The read and the write pointer of a queue, in its unit.
    pub(super) fn pointers(&self, id: QueueId) -> Option<(u64, u64)> {
        self.gpu.queue_pointers(id)
    }

    /// Where waves are that have run for long.
    pub(super) fn waves(&self) -> Vec<twin_shader::launch::Standing> {
        self.gpu.waves()
    }

    /// A doorbell is written.
    pub(super) fn ring(&self, offset: u64, width: AccessWidth, value: u64) {
        match width {
            AccessWidth::W64 => self.bells.store64(offset as usize, value),
            _ => _ = self.bells.swap32(offset as usize, value as u32),
        }
        self.gpu.rung();
    }
}

/// The last access that a hub has refused: the page and the hub.
type Refused = Arc<Mutex<Option<(u64, Arc<Hub>)>>>;

/// What an address is behind the hub of an XCC, or that of a die.
struct Space {
    physical: Arc<Physical>,
    hubs: Vec<Arc<Hub>>,
    xcc: usize,
    vmid: u32,
    refused: Refused,
}

impl Space {
    fn look(&self, hub: &Hub, va: u64, access: Access) -> Result<Entry, FaultKind> {
        let to = hub.translate(self.vmid, va, access)?;
        to.rights.allow(access)?;
        let found = self.physical.object(to.place);
        let (object, page) = found.ok_or(match self.physical.is_cut_off() {
            true => FaultKind::Aborted,
            false => FaultKind::NotPresent,
        })?;
        Ok(Entry {
            object,
            page,
            mtype: to.mtype,
        })
    }
}

impl Walk for Space {
    fn find(&self, va: u64, access: Access) -> Result<Entry, FaultKind> {
        let hub = self.hubs.get(self.xcc).ok_or(FaultKind::NotPresent)?;
        self.look(hub, va, access).inspect_err(|_| {
            *lock(&self.refused) = Some((va >> 12, hub.clone()));
        })
    }

    fn on(&self, xcc: u32) -> Option<Arc<dyn Walk>> {
        let xcc = xcc as usize;
        (xcc != self.xcc && xcc < self.hubs.len()).then(|| {
            Arc::new(Space {
                physical: self.physical.clone(),
                hubs: self.hubs.clone(),
                xcc,
                vmid: self.vmid,
                refused: self.refused.clone(),
            }) as _
        })
    }
}

/// What entries call a queue.
#[derive(Clone, Copy)]
struct Name {
    vmid: u32,
    ring_id: u32,
}

/// What queues tell goes to the interrupt ring.
struct Tell {
    generation: Generation,
    hubs: Ways,
    ih: Arc<Ih>,
    names: Mutex<BTreeMap<QueueId, Name>>,
    refused: Refused,
    /// Whether pipes interrupt at their ends.
    ends: AtomicBool,
    /// The card was reset, and no queue has started since then.
    is_reset: AtomicBool,
}

impl Tell {
    fn names(&self) -> MutexGuard<'_, BTreeMap<QueueId, Name>> {
        lock(&self.names)
    }

    /// The hub that has refused an access, among several.
    fn refused(&self, fault: &MemFault) -> Option<Arc<Hub>> {
        let refused = lock(&self.refused);
        let known = refused.as_ref().filter(|(page, _)| *page == fault.va >> 12);
        known.map(|(_, hub)| hub.clone())
    }

    /// An entry without its own dwords.
    fn entry(&self, (client, source): (u32, u32), name: Name) -> [u32; ih::DWORDS] {
        let mut entry = [0; ih::DWORDS];
        entry[0] = ih::CLIENT_ID.put(client)
            | ih::SOURCE_ID.put(source)
            | ih::RING_ID.put(name.ring_id)
            | ih::VMID.put(name.vmid);
        entry
    }

    fn push(&self, from: (u32, u32), name: Name, context: u32) {
        let mut entry = self.entry(from, name);
        entry[ih::CONTEXT] = context;
        self.ih.push(entry);
    }

    /// A queue of a process: where the engine tells only whose, all of them are as good.
    fn some_of(&self, process: ProcessId) -> Name {
        let names = self.names();
        let found = names.values().find(|name| name.vmid == process);
        found.copied().unwrap_or(Name {
            vmid: process,
            ring_id: 0,
        })
    }

    /// The client that shaders and copy engines are.
    fn shaders(&self) -> u32 {
        match self.generation {
            Generation::Gfx9 => client9::SE0SH,
            _ => client::GFX,
        }
    }

    fn copies(&self) -> (u32, u32) {
        match self.generation {
            Generation::Gfx9 => (client9::SDMA[0], source::SDMA4_TRAP),
            _ => (client::GFX, source::SDMA_TRAP),
        }
    }
}

/// The kind of an entry of a shader that has made an error, and which: an instruction that is none.
/// Source: Linux, amdkfd/kfd_int_process_v11.c, `SQ_INTERRUPT_WORD_ENCODING_ERROR`, and
/// kfd_int_process_v9.c, `SQ_INTERRUPT_ERROR_TYPE_ILLEGAL_INST`.
const ILLEGAL: u32 = 1;

impl Kernel for Tell {
    fn evicts(&self) -> bool {
        // There is no kernel driver.
        false
    }

    fn interrupt(&self, _gpu: usize, interrupt: Interrupt) {
        if self.is_reset.load(Ordering::Acquire) {
            return;
        }
        match interrupt {
            Interrupt::Fault { process, fault } => {
                let outside = fault.port == Port::Sdma && self.generation == Generation::Gfx9;
                let hubs = if outside {
                    &self.hubs.mm
                } else {
                    &self.hubs.gc
                };
                let hub = self.refused(&fault).or_else(|| hubs.first().cloned());
                if let Some(hub) = hub {
                    hub.fault(process, &fault);
                }
            }
            Interrupt::EndOfPipe {
                process, context, ..
            } => {
                // What a packet asks for comes where the pipe lets it.
                if self.ends.load(Ordering::Acquire) {
                    let from = (client::GRBM_CP, source::CP_EOP);
                    self.push(from, self.some_of(process), context);
                }
            }
            Interrupt::Wave {
                process, context, ..
            } => {
                let name = self.some_of(process);
                let mut entry = self.entry((self.shaders(), source::SQ), name);
                // The kind: a message of a wave.
                const MESSAGE: u32 = 1;
                let (kind, shift) = match self.generation {
                    Generation::Gfx9 => (ih::CONTEXT, 26),
                    _ => (ih::CONTEXT + 1, 6),
                };
                entry[ih::CONTEXT] = context & 0xff_ffff;
                entry[kind] |= MESSAGE << shift;
                self.ih.push(entry);
            }
            Interrupt::SdmaTrap {
                process, context, ..
            } => self.push(self.copies(), self.some_of(process), context),
            Interrupt::QueueError { queue, code, .. } => {
                let Some(name) = self.names().get(&queue).copied() else {
                    return;
                };
                if code == exception::WAVE_ILLEGAL_INSTRUCTION || code == exception::WAVE_TRAP {
                    self.ih.push(self.shader_error(name));
                } else {
                    self.push((client::GRBM_CP, source::CP_BAD_OPCODE), name, 0);
                }
            }
            // Nobody asks for these on a card.
            Interrupt::Poison { .. } | Interrupt::Reset { .. } => {}
        }
    }
}

impl Tell {
    /// The entry of a shader that could not go on: kind 2, with what the error was.
    fn shader_error(&self, name: Name) -> [u32; ih::DWORDS] {
        const ERROR: u32 = 2;
        let mut entry = self.entry((self.shaders(), source::SQ), name);
        match self.generation {
            Generation::Gfx9 => {
                // The error is bits 23:20 of a word whose low 12 bits stay where they are.
                entry[ih::CONTEXT] = ERROR << 26;
                entry[ih::CONTEXT + 1] = ILLEGAL << 4;
            }
            _ => {
                entry[ih::CONTEXT] = ILLEGAL << 21;
                entry[ih::CONTEXT + 1] = ERROR << 6;
            }
        }
        entry
    }
}
