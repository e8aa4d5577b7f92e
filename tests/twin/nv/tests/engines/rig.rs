//! Channels on a GPU, without a kernel driver in front.

use std::sync::Arc;

use drivers_spec::nv::class::engine;
use drivers_spec::nv::push::userd;
use twin_nv::config::Config;
use twin_nv::engines::bus::Bus;
use twin_nv::engines::host::Channel;
use twin_nv::engines::{Around, Gpu, Notice, Turn};
use twin_nv::kernel::Machine;
use twin_nv::rm::channel::Channel as Made;
use twin_nv::space::Rights;

use super::ram::Ram;

/// Where the ring is.
pub const RING: u64 = 0x1_0000;
/// Entries of the ring.
pub const ENTRIES: u32 = 16;
/// Where push buffers are.
pub const PUSH: u64 = 0x2_0000;
/// Memory for whatever.
pub const DATA: u64 = 0x40_0000;
/// Bytes of it.
pub const DATA_BYTES: u64 = 0x10_0000;
/// Memory that may only be read.
pub const READ_ONLY: u64 = 0x80_0000;
/// Memory without atomics.
pub const PLAIN: u64 = 0x90_0000;

/// A channel, with all that is around it.
pub struct Rig {
    pub machine: Arc<Machine>,
    pub ram: Arc<Ram>,
    pub userd: Ram,
    pub channel: Channel,
    made: Made,
    gpu: Gpu,
    push: u64,
    put: u32,
}

impl Rig {
    /// A channel of graphics on a chip.
    pub fn new(chip: &str) -> Rig {
        Rig::with_engine(chip, engine::GRAPHICS)
    }

    /// A channel of an engine.
    pub fn with_engine(chip: &str, engine: u32) -> Rig {
        let config = Config::parse(&format!("chip={chip}")).unwrap();
        let machine = Machine::new(config).unwrap();
        let ram = Ram::default();
        ram.map(RING, 0x1000, Rights::ReadWriteAtomic);
        ram.map(PUSH, 0x2_0000, Rights::ReadWriteAtomic);
        ram.map(DATA, DATA_BYTES, Rights::ReadWriteAtomic);
        ram.map(READ_ONLY, 0x1000, Rights::ReadOnly);
        ram.map(PLAIN, 0x1000, Rights::ReadWrite);
        let page = Ram::default();
        page.map(0, userd::BYTES, Rights::ReadWriteAtomic);
        let chip = machine.config.chips[0];
        let made = Made {
            client: 0xc1d0_0000,
            handle: 0xcaf0_0001,
            group: Some(0xcaf0_0000),
            gpu: 0,
            class: chip.facts().channel.number,
            engine,
            id: 0,
            token: 0,
            ring: RING,
            entries: ENTRIES,
            userd: None,
            notifier: None,
            space: 0,
            registered: true,
            scheduled: true,
            error: None,
        };
        Rig {
            channel: Channel::new(&made, chip),
            made,
            gpu: Gpu::new(0, chip),
            machine,
            ram: Arc::new(ram),
            userd: page,
            push: PUSH,
            put: 0,
        }
    }

    /// Another channel in the place of the first, of its group or alone.
    pub fn another(&mut self, grouped: bool) {
        self.made.handle += 1;
        self.made.group = self.made.group.filter(|_| grouped);
        self.channel = Channel::new(&self.made, self.machine.config.chips[0]);
        self.put = 0;
    }

    /// An entry of the ring, as it is.
    pub fn entry(&mut self, bits: u64) {
        let at = RING + u64::from(self.put) * 8;
        self.ram.put(at, &bits.to_le_bytes());
        self.put = (self.put + 1) % ENTRIES;
        self.channel.ring(self.put);
    }

    /// A segment, and an entry for it.
    pub fn push(&mut self, words: &[u32]) {
        self.ram.put_words(self.push, words);
        self.entry(self.push | (words.len() as u64) << 42);
        self.push += words.len() as u64 * 4;
    }

    /// Runs until nothing more happens.
    pub fn run(&mut self) -> Turn {
        loop {
            match self.step(64) {
                Turn::Ran => {}
                other => return other,
            }
        }
    }

    pub fn step(&mut self, methods: usize) -> Turn {
        let mut around = Around {
            machine: &self.machine,
            gpu: &mut self.gpu,
            bus: &*self.ram,
            userd: Some(&self.userd as &dyn Bus),
        };
        self.channel.step(&mut around, methods)
    }

    /// Pushes and runs.
    pub fn go(&mut self, words: &[u32]) -> Turn {
        self.push(words);
        self.run()
    }

    pub fn gp_get(&self) -> u32 {
        self.userd.word(userd::GP_GET)
    }

    pub fn broken(&self) -> Vec<&'static str> {
        self.machine.broken_rules()
    }

    /// The Xid that the channel died of.
    pub fn xid(&self) -> Option<u32> {
        self.channel.error().map(|error| error.xid)
    }

    pub fn notices(&mut self) -> Vec<Notice> {
        self.channel.take_notices()
    }
}

/// A header: methods that go on.
pub fn inc(subchannel: u32, method: u32, words: &[u32]) -> Vec<u32> {
    header(1, subchannel, method, words)
}

/// A header: the same method again and again.
pub fn non_inc(subchannel: u32, method: u32, words: &[u32]) -> Vec<u32> {
    header(3, subchannel, method, words)
}

/// A header of any kind.
pub fn header(kind: u32, subchannel: u32, method: u32, words: &[u32]) -> Vec<u32> {
    let count = words.len() as u32;
    let mut all = vec![kind << 29 | count << 16 | subchannel << 13 | (method / 4)];
    all.extend(words);
    all
}

/// A semaphore of the host.
pub fn semaphore(va: u64, payload: u64, execute: u32) -> Vec<u32> {
    let low = |x: u64| x as u32;
    let words = [
        low(va),
        low(va >> 32),
        low(payload),
        low(payload >> 32),
        execute,
    ];
    inc(0, 0x5c, &words)
}
