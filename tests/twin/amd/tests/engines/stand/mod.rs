//! A GPU without a kernel driver: memory is mapped and queues are made by hand.
#![allow(dead_code)]

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use twin::rule::Journal;
use twin_amd::chip::Chip;
use twin_amd::gpu::{
    Begin, Doorbell, Gpu, Interrupt, Kernel, QueueDesc, QueueId, QueueKind, Setup,
};
use twin_amd::mem::{Budget, Drain, Gmc, Kind, Mapping, Mtype, Object, Rights, Vm};
use twin_amd::scheduler::Scheduler;
use twin_shader::page::Port;

/// Interrupts, as they came.
#[derive(Default)]
pub struct Interrupts(Mutex<Vec<Interrupt>>);

impl Kernel for Interrupts {
    fn interrupt(&self, _gpu: usize, interrupt: Interrupt) {
        self.0.lock().unwrap().push(interrupt);
    }
}

/// The GPU and its memory.
pub struct Stand {
    pub gpu: Gpu,
    pub journal: Arc<Journal>,
    pub vm: Arc<Vm>,
    pub log: Arc<Mutex<Vec<String>>>,
    system: Arc<Budget>,
    gmc: Arc<Gmc>,
    doorbells: Arc<Mapping>,
    interrupts: Arc<Interrupts>,
    next: Mutex<usize>,
}

/// Where things are that every queue needs.
pub const POINTERS: u64 = 0x7f00_0000_0000;
pub const EOP: u64 = 0x7f01_0000_0000;
pub const PROCESS: u32 = 7;

impl Stand {
    pub fn new(chip: &'static Chip, seed: u64) -> Self {
        Self::with(chip, seed, |_| {})
    }

    pub fn with(chip: &'static Chip, seed: u64, change: impl FnOnce(&mut Setup)) -> Self {
        let journal = Arc::new(Journal::new());
        let (xccs, drain) = (chip.xccs, Drain::Never);
        let generation = chip.generation;
        let gmc = Gmc::with_xccs(xccs, 0, generation, 1 << 32, drain, journal.clone()).unwrap();
        let interrupts = Arc::new(Interrupts::default());
        let kernel: Weak<Interrupts> = Arc::downgrade(&interrupts);
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut setup = Setup {
            index: 0,
            chip,
            journal: journal.clone(),
            seed,
            threads: 2,
            packets: Some(Arc::new({
                let log = log.clone();
                move |line: &str| log.lock().unwrap().push(line.to_string())
            })),
            instructions: None,
        };
        change(&mut setup);
        let scheduler = Scheduler::new(seed).unwrap();
        let stand = Self {
            gpu: Gpu::new(setup, kernel, &scheduler),
            journal,
            vm: Vm::new(gmc.clone()),
            log,
            system: Arc::new(Budget::new(1 << 32)),
            gmc,
            doorbells: Arc::new(Mapping::new(8192).unwrap()),
            interrupts,
            next: Mutex::new(0),
        };
        stand.map(POINTERS, 0x10000);
        stand.map(EOP, 4096);
        stand
    }

    /// Maps host memory, uncached, with every right.
    pub fn map(&self, va: u64, bytes: u64) {
        self.map_as(va, bytes, Kind::Gtt, Mtype::Uc, true);
    }

    pub fn map_as(&self, va: u64, bytes: u64, kind: Kind, mtype: Mtype, write: bool) {
        let bytes = bytes.next_multiple_of(4096);
        let object = Object::new(&self.gmc, &self.system, kind, bytes, "test").unwrap();
        let rights = Rights {
            write,
            execute: true,
        };
        self.vm.map(va, &object, 0, bytes, rights, mtype).unwrap();
    }

    /// Maps a page of VRAM that the client sees, uncached. Returns where it sees it.
    pub fn map_bar(&self, va: u64) -> u64 {
        let kind = Kind::Vram { public: true };
        let object = Object::new(&self.gmc, &self.system, kind, 4096, "bar").unwrap();
        let rights = Rights {
            write: true,
            execute: false,
        };
        self.vm
            .map(va, &object, 0, 4096, rights, Mtype::Uc)
            .unwrap();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (seen, protection) = object.seen(protection);
        seen.map_client(0, 4096, protection, libc::MAP_SHARED, 0)
            .unwrap()
    }

    pub fn write(&self, va: u64, data: &[u8]) {
        self.vm.write(Port::Cp, va, data).unwrap();
    }

    pub fn write_words(&self, va: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(va, &bytes);
    }

    pub fn read<const N: usize>(&self, va: u64) -> [u8; N] {
        let mut out = [0; N];
        self.vm.read(Port::Cp, va, &mut out).unwrap();
        out
    }

    pub fn read32(&self, va: u64) -> u32 {
        u32::from_le_bytes(self.read(va))
    }

    pub fn read64(&self, va: u64) -> u64 {
        u64::from_le_bytes(self.read(va))
    }

    /// A queue on a ring, which is mapped.
    pub fn queue(&self, kind: QueueKind, ring: u64, ring_bytes: u64) -> Queue<'_> {
        self.queue_with(kind, ring, ring_bytes, |_| {})
    }

    pub fn queue_with(
        &self,
        kind: QueueKind,
        ring: u64,
        ring_bytes: u64,
        change: impl FnOnce(&mut QueueDesc),
    ) -> Queue<'_> {
        let number = {
            let mut next = self.next.lock().unwrap();
            *next += 1;
            *next - 1
        };
        // As in an amd_queue_t.
        let page = POINTERS + number as u64 * 4096;
        self.write(page + 136, &128u32.to_le_bytes());
        let mut desc = QueueDesc {
            process: PROCESS,
            vm: self.vm.clone(),
            kind,
            ring,
            ring_bytes,
            rptr: page + 128,
            wptr: page + 56,
            eop: (EOP, 4096),
            cwsr: (0, 0x1000),
            xcc: 0,
            active: true,
            begin: Begin::Memory,
            doorbell: Doorbell {
                page: self.doorbells.clone(),
                offset: number * 8,
            },
        };
        change(&mut desc);
        Queue {
            stand: self,
            id: self.gpu.create_queue(desc.clone()),
            desc,
        }
    }

    /// Waits until a condition is true, or panics.
    pub fn wait(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{what}: {:?}\n{}\n{}",
                self.gpu.waiting(PROCESS),
                self.log.lock().unwrap().join("\n"),
                self.reports()
            );
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Waits until all queues are idle.
    pub fn idle(&self) {
        self.wait("idle", |stand| stand.gpu.idle(PROCESS));
    }

    pub fn interrupts(&self) -> Vec<Interrupt> {
        std::mem::take(&mut *self.interrupts.0.lock().unwrap())
    }

    /// How many interrupts there are.
    pub fn heard(&self) -> usize {
        self.interrupts.0.lock().unwrap().len()
    }

    /// The names of broken rules, in order.
    pub fn broken(&self) -> Vec<&'static str> {
        self.journal
            .violations()
            .iter()
            .map(|violation| violation.rule.name)
            .collect()
    }

    pub fn reports(&self) -> String {
        let violations = self.journal.violations();
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        texts.join("\n")
    }
}

/// A queue, from the client's side.
pub struct Queue<'a> {
    stand: &'a Stand,
    pub id: QueueId,
    pub desc: QueueDesc,
}

impl Queue<'_> {
    /// Bytes of the unit of pointers.
    fn unit(&self) -> u64 {
        match self.desc.kind {
            QueueKind::Pm4 => 4,
            QueueKind::Aql => 64,
            QueueKind::Sdma { .. } => 1,
        }
    }

    /// Puts dwords behind the write pointer and rings.
    pub fn submit(&self, words: &[u32]) {
        let wptr = self.put(words);
        self.ring(wptr);
    }

    /// Puts dwords behind the write pointer. Returns the new one, which is not written.
    pub fn put(&self, words: &[u32]) -> u64 {
        let wptr = self.stand.read64(self.desc.wptr);
        for (i, word) in words.iter().enumerate() {
            let at = (wptr * self.unit() + i as u64 * 4) % self.desc.ring_bytes;
            self.stand.write(self.desc.ring + at, &word.to_le_bytes());
        }
        wptr + words.len() as u64 * 4 / self.unit()
    }

    /// Writes the write pointer and the doorbell.
    pub fn ring(&self, wptr: u64) {
        self.stand.write(self.desc.wptr, &wptr.to_le_bytes());
        self.bell(match self.desc.kind {
            QueueKind::Aql => wptr - 1,
            QueueKind::Pm4 | QueueKind::Sdma { .. } => wptr,
        });
    }

    /// Writes the doorbell.
    pub fn bell(&self, value: u64) {
        self.desc
            .doorbell
            .page
            .store64(self.desc.doorbell.offset, value);
    }
}
