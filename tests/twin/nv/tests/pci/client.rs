//! A client of GSP that builds memory and channels by RPC: address spaces with tables in the card's memory, a channel in one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::class::{self, ChannelAlloc, MemoryDesc, VaspaceAlloc};
use drivers_spec::nv::control;
use twin_nv::pci::card::Config;
use twin_nv::pci::chip::Chip;

use super::boot::{Boot, Message, bytes, words};
use super::firmware::Firmware;

pub const CLIENT: u32 = 0xc1d0_0001;
pub const DEVICE: u32 = 0xd000_0080;
pub const SUBDEVICE: u32 = 0xd000_2080;
pub const SPACE: u32 = 0xd000_90f1;
pub const CHANNEL: u32 = 0xd000_c56f;
pub const COMPUTE: u32 = 0xd000_c7c0;
/// What makes the image of contexts.
const IMAGE_SPACE: u32 = 0xd001_90f1;
const IMAGE_CHANNEL: u32 = 0xd001_c56f;
const IMAGE: u32 = 0xd001_c797;
/// Space for the instance block, USERD and method buffers of a channel.
const CHANNEL_BYTES: u64 = 0x8000;

/// Where a channel has its ring, its push buffer, data in the card's memory, and data in that of the host.
pub const RING: u64 = 0x10_0000;
pub const PUSH: u64 = 0x20_0000;
pub const DATA: u64 = 0x40_0000;
pub const DATA_BYTES: u64 = 0x10_0000;
/// Entries of a ring.
pub const ENTRIES: u32 = 32;

/// Bits of an entry.
pub const PRIVILEGE: u64 = 1 << 5;
pub const READ_ONLY: u64 = 1 << 6;
pub const GENERIC: u64 = 6 << 56;

/// The address of memory.
#[derive(Clone, Copy, Debug)]
pub enum Memory {
    Vram(u64),
    Host(u64),
}

/// A client with a device and a subdevice.
pub struct Client {
    pub boot: Boot,
    next: Cell<u64>,
}

/// A client, a device and a subdevice.
pub fn begin(boot: &Boot) {
    assert_eq!(boot.alloc([CLIENT, 0, CLIENT, 0], &[]).0, 0);
    let mut parameters = vec![0; 0x38];
    parameters[4..8].copy_from_slice(&CLIENT.to_le_bytes());
    assert_eq!(boot.alloc([CLIENT, CLIENT, DEVICE, 0x80], &parameters).0, 0);
    let subdevice = [CLIENT, DEVICE, SUBDEVICE, 0x2080];
    assert_eq!(boot.alloc(subdevice, &[0; 4]).0, 0);
}

impl Client {
    pub fn new(chip: &str) -> Client {
        Client::with(Config::of(Chip::of(chip).unwrap()))
    }

    pub fn with(config: Config) -> Client {
        let boot = Boot::with(config, Firmware::small("570.144"));
        boot.until_done();
        begin(&boot);
        Client {
            boot,
            next: Cell::new(16 << 20),
        }
    }

    /// Memory of the card that nobody else has.
    pub fn take(&self, size: u64, align: u64) -> u64 {
        let at = self.next.get().next_multiple_of(align);
        self.next.set(at + size);
        at
    }

    /// The window to memory, by which a place is reached.
    fn window(&self, at: u64) -> u64 {
        self.boot.rig.set(0x1700, (at >> 16) as u32);
        0x70_0000 + (at & 0xffff)
    }

    pub fn put(&self, at: u64, data: &[u32]) {
        for (i, word) in (0..).zip(data) {
            let register = self.window(at + 4 * i);
            self.boot.rig.set(register, *word);
        }
    }

    pub fn get(&self, at: u64) -> u32 {
        let register = self.window(at);
        self.boot.rig.get(register)
    }

    pub fn put_long(&self, at: u64, value: u64) {
        self.put(at, &[value as u32, (value >> 32) as u32]);
    }

    /// The status of an allocation.
    pub fn alloc(&self, parent: u32, handle: u32, class: u32, parameters: &[u8]) -> u32 {
        self.boot
            .alloc([CLIENT, parent, handle, class], parameters)
            .0
    }

    /// The status of a control, and its parameters.
    pub fn control(&self, object: u32, cmd: u32, parameters: &[u8]) -> (u32, Vec<u8>) {
        self.boot.control(CLIENT, object, cmd, parameters)
    }

    pub fn free(&self, handle: u32) {
        let answer = self.boot.rpc(10, &bytes(&[CLIENT, 0, handle, 0]));
        assert_eq!((answer.result, words(&answer.payload)[3]), (0, 0));
    }

    pub fn broken(&self) -> Vec<&'static str> {
        self.boot.rig.broken()
    }

    /// Channels have done what there was.
    pub fn settle(&self) {
        self.boot.rig.settle();
    }

    /// Something comes true in memory.
    pub fn until(&self, what: &str, is: impl Fn() -> bool) {
        self.boot.rig.until(what, is);
    }
}

/// Page tables in the card's memory.
pub struct Tables {
    pub root: u64,
    /// By level and index: 2, 1 and 0 of directories, then that of small pages.
    tables: RefCell<BTreeMap<(u32, u64), u64>>,
}

impl Tables {
    pub fn new(client: &Client) -> Tables {
        Tables::at(client.take(0x1000, 0x1000))
    }

    /// With a root that there is.
    pub fn at(root: u64) -> Tables {
        Tables {
            root,
            tables: RefCell::default(),
        }
    }

    /// The table below a directory's entry, which is made if there is none.
    fn below(&self, client: &Client, level: u32, shift: u32, va: u64, entry: u64) -> u64 {
        let key = (level, va >> shift);
        if let Some(table) = self.tables.borrow().get(&key) {
            return *table;
        }
        let table = client.take(0x1000, 0x1000);
        client.put_long(entry, table >> 12 << 8 | 1 << 1);
        self.tables.borrow_mut().insert(key, table);
        table
    }

    /// Where the last directory has the entry of an address: 16 bytes.
    pub fn directory(&self, client: &Client, va: u64) -> u64 {
        let first = self.below(client, 2, 47, va, self.root + (va >> 47 & 3) * 8);
        let second = self.below(client, 1, 38, va, first + (va >> 38 & 0x1ff) * 8);
        let third = self.below(client, 0, 29, va, second + (va >> 29 & 0x1ff) * 8);
        third + (va >> 21 & 0xff) * 16
    }

    /// Where the entry of a small page is.
    pub fn entry(&self, client: &Client, va: u64) -> u64 {
        let directory = self.directory(client, va);
        let table = self.below(client, 9, 21, va, directory + 8);
        table + (va >> 12 & 0x1ff) * 8
    }

    /// Maps small pages.
    pub fn map(&self, client: &Client, va: u64, memory: Memory, size: u64, bits: u64) {
        for page in (0..size).step_by(4096) {
            let entry = self.entry(client, va + page);
            client.put_long(entry, small(memory, page) | bits);
        }
    }
}

/// The entry of a page.
pub fn small(memory: Memory, offset: u64) -> u64 {
    match memory {
        Memory::Vram(at) => (at + offset) >> 12 << 8 | 1,
        Memory::Host(at) => (at + offset) >> 12 << 8 | 1 | 2 << 1,
    }
}

/// A client with an address space and what a channel in it needs.
pub struct Rig {
    pub client: Client,
    pub tables: Tables,
    pub ring: u64,
    push: u64,
    pub data: u64,
    pub userd: u64,
    pub instance: u64,
    pushed: Cell<u64>,
    put: Cell<u32>,
}

pub fn desc(base: u64, size: u64, address_space: u32) -> MemoryDesc {
    MemoryDesc {
        base,
        size,
        address_space,
        cache_attrib: 1,
    }
}

impl Rig {
    /// With an address space that has a page directory.
    pub fn new(chip: &str) -> Rig {
        let rig = Rig::on(Client::new(chip));
        assert_eq!(rig.new_space(8), 0);
        assert_eq!(rig.set_directory(rig.tables.root, 4, 0).result, 0);
        rig
    }

    /// With memory and tables alone.
    pub fn on(client: Client) -> Rig {
        let tables = Tables::new(&client);
        let (ring, push) = (client.take(0x1000, 0x1000), client.take(0x4000, 0x1000));
        let data = client.take(DATA_BYTES, 0x1000);
        tables.map(&client, RING, Memory::Vram(ring), 0x1000, 0);
        tables.map(&client, PUSH, Memory::Vram(push), 0x4000, 0);
        tables.map(&client, DATA, Memory::Vram(data), DATA_BYTES, GENERIC);
        Rig {
            ring,
            push,
            data,
            userd: client.take(0x1000, 0x1000),
            instance: client.take(0x8000, 0x1000),
            tables,
            client,
            pushed: Cell::new(0),
            put: Cell::new(0),
        }
    }

    /// FERMI_VASPACE_A with flags.
    pub fn new_space(&self, flags: u32) -> u32 {
        let parameters = VaspaceAlloc {
            flags,
            ..Default::default()
        };
        let parameters = parameters.encode(Branch::R570);
        self.client.alloc(DEVICE, SPACE, 0x90f1, &parameters)
    }

    /// SET_PAGE_DIRECTORY.
    pub fn set_directory(&self, at: u64, entries: u32, flags: u32) -> Message {
        let low = [at as u32, (at >> 32) as u32];
        let words = [
            CLIENT, DEVICE, 0, 0, low[0], low[1], entries, flags, SPACE, 0, 0, 0,
        ];
        self.client.boot.rpc(54, &bytes(&words))
    }

    /// Parameters of a channel that is right: channel 3 of an engine.
    pub fn parameters(&self, engine: u32) -> ChannelAlloc {
        ChannelAlloc {
            gp_fifo_offset: RING,
            gp_fifo_entries: ENTRIES,
            flags: 1 << 21 | 3 << 8,
            h_va_space: SPACE,
            engine_type: engine,
            instance_mem: desc(self.instance, 0x1000, 2),
            ramfc_mem: desc(self.instance, 0x200, 2),
            userd_mem: desc(self.userd, 0x200, 2),
            mthdbuf_mem: desc(self.instance + 0x2000, 0x5000, 2),
            internal_flags: 1 | 1 << 2 | 1 << 4,
            ..Default::default()
        }
    }

    pub fn new_channel(&self, parameters: &ChannelAlloc) -> u32 {
        let chip = self.client.boot.rig.chip.twin;
        let class = chip.facts().channel.number;
        let parameters = parameters.encode(Branch::R570);
        self.client.alloc(DEVICE, CHANNEL, class, &parameters)
    }

    pub fn bind(&self, engine: u32) -> u32 {
        let bind = control::NVA06F_CTRL_CMD_BIND.number;
        self.client.control(CHANNEL, bind, &bytes(&[engine])).0
    }

    pub fn schedule(&self, enable: u8) {
        let schedule = control::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE.number;
        assert_eq!(self.client.control(CHANNEL, schedule, &[enable, 0]).0, 0);
    }

    /// A channel that runs.
    pub fn with_channel(chip: &str, engine: u32) -> Rig {
        let rig = Rig::new(chip);
        assert_eq!(rig.new_channel(&rig.parameters(engine)), 0);
        assert_eq!(rig.bind(engine), 0);
        rig.schedule(1);
        rig
    }

    /// The token of the channel: its number, and its runlist.
    pub fn token(&self, engine: u32) -> u32 {
        let runlist = self.client.boot.rig.chip.twin.runlist(engine);
        runlist << 16 | 3
    }

    /// Words for the push buffer, and an entry for them; without a doorbell.
    pub fn push(&self, words: &[u32]) {
        let at = self.pushed.get();
        self.client.put(self.push + at, words);
        let entry = (PUSH + at) | (words.len() as u64) << 42;
        let index = self.put.get();
        self.client
            .put_long(self.ring + 8 * u64::from(index), entry);
        self.pushed.set(at + 4 * words.len() as u64);
        self.put.set((index + 1) % ENTRIES);
        self.client.put(self.userd + 0x8c, &[self.put.get()]);
    }

    pub fn ring(&self, token: u32) {
        self.client.boot.rig.set(0xbb_0090, token);
    }

    /// Pushes, rings, and waits until the channel rests.
    pub fn go(&self, engine: u32, words: &[u32]) {
        self.push(words);
        self.ring(self.token(engine));
        self.client.settle();
    }

    /// The context of graphics, of the channel.
    pub fn promote(&self, entries: &[Buffer]) -> u32 {
        self.promote_to(CHANNEL, entries)
    }

    /// The same, of a channel or a group.
    pub fn promote_to(&self, handle: u32, entries: &[Buffer]) -> u32 {
        let mut parameters = vec![0; 0x230];
        let head = [1, CLIENT, 0, CLIENT, handle];
        parameters[..20].copy_from_slice(&bytes(&head));
        parameters[0x28..0x2c].copy_from_slice(&bytes(&[entries.len() as u32]));
        for (entry, place) in entries.iter().zip(parameters[0x30..].chunks_mut(0x20)) {
            place.copy_from_slice(&entry.bytes());
        }
        self.client.control(SUBDEVICE, 0x2080_012b, &parameters).0
    }

    /// Buffers of graphics, with memory, mapped one behind the other.
    pub fn buffers(&self) -> Vec<Buffer> {
        let mut va = 0x1000_0000;
        let sizes = [
            (0, 0x14_0000),
            (2, 0x2000),
            (3, 0x3000),
            (4, 0x2_0000),
            (5, 0x20_0000),
            (6, 0x8000),
        ];
        let made = sizes.map(|(id, size)| {
            let at = self.client.take(size, 0x1000);
            self.tables
                .map(&self.client, va, Memory::Vram(at), size, PRIVILEGE);
            va += 0x40_0000;
            Buffer {
                id,
                at,
                va: va - 0x40_0000,
                size,
                // Of the others nothing is initialised.
                initialise: u8::from(id <= 2),
                nonmapped: 0,
            }
        });
        made.into()
    }

    /// COPY_SERVER_RESERVED_PDES: each level is where, aperture and page shift.
    pub fn reserved(&self, space: u32, page: u64, levels: &[(u64, u32, u8)]) -> u32 {
        let mut parameters = vec![0; 0xb8];
        let put = |parameters: &mut Vec<u8>, at: usize, value: u64| {
            parameters[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(&mut parameters, 8, page);
        put(&mut parameters, 0x10, 0x1_0000_0000);
        put(&mut parameters, 0x18, 0x1_1fff_ffff);
        put(&mut parameters, 0x20, levels.len() as u64);
        for (i, (at, aperture, shift)) in levels.iter().enumerate().take(6) {
            let place = 0x28 + 0x18 * i;
            put(&mut parameters, place, *at);
            let bytes = if i == 0 { 0x20 } else { 0x1000 };
            put(&mut parameters, place + 8, bytes);
            let word = u64::from(*aperture) | u64::from(*shift) << 32;
            put(&mut parameters, place + 0x10, word);
        }
        self.client.control(space, 0x90f1_0106, &parameters).0
    }

    /// The tables of the upper levels.
    pub fn levels(&self) -> [(u64, u32, u8); 3] {
        let table = |entry: u64| u64::from(self.client.get(entry) >> 8) << 12;
        let root = self.tables.root;
        let second = table(root);
        [(root, 1, 47), (second, 1, 38), (table(second), 1, 29)]
    }

    /// The image of contexts: by an object of 3D of a channel in an address space that firmware shares, which all end.
    pub fn with_image(&self) {
        let space = VaspaceAlloc::default().encode(Branch::R570);
        let alloc = |parent, handle, class, given: &[u8]| {
            assert_eq!(self.client.alloc(parent, handle, class, given), 0);
        };
        alloc(DEVICE, IMAGE_SPACE, 0x90f1, &space);
        assert_eq!(self.reserved(IMAGE_SPACE, 1 << 29, &self.levels()), 0);
        let memory = self.client.take(CHANNEL_BYTES, 0x1000);
        let params = ChannelAlloc {
            flags: 1 << 21 | 5 << 8,
            h_va_space: IMAGE_SPACE,
            instance_mem: desc(memory, 0x1000, 2),
            ramfc_mem: desc(memory, 0x200, 2),
            userd_mem: desc(memory + 0x1000, 0x200, 2),
            mthdbuf_mem: desc(memory + 0x2000, 0x5000, 2),
            ..self.parameters(GRAPHICS)
        };
        let chip = self.client.boot.rig.chip.twin;
        let channel = chip.facts().channel.number;
        alloc(DEVICE, IMAGE_CHANNEL, channel, &params.encode(Branch::R570));
        assert_eq!(self.promote_to(IMAGE_CHANNEL, &self.buffers()), 0);
        // AMPERE_B, ADA_A.
        let class = if chip.name == "ad102" { 0xc997 } else { 0xc797 };
        alloc(IMAGE_CHANNEL, IMAGE, class, &[]);
        self.client.free(IMAGE_CHANNEL);
        self.client.free(IMAGE_SPACE);
    }

    /// Compute in the channel, with all that it needs.
    pub fn with_compute(&self) {
        self.with_image();
        assert_eq!(self.promote(&self.buffers()), 0);
        let class = self.client.boot.rig.chip.twin.facts().compute.number;
        assert_eq!(self.client.alloc(CHANNEL, COMPUTE, class, &[]), 0);
    }
}

/// A buffer of graphics.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub id: u16,
    pub at: u64,
    pub va: u64,
    pub size: u64,
    pub initialise: u8,
    pub nonmapped: u8,
}

impl Buffer {
    fn bytes(&self) -> Vec<u8> {
        let longs = [self.at, self.va, self.size];
        let mut entry: Vec<u8> = longs.iter().flat_map(|word| word.to_le_bytes()).collect();
        entry.extend(4_u32.to_le_bytes());
        entry.extend(self.id.to_le_bytes());
        entry.extend([self.initialise, self.nonmapped]);
        entry
    }
}

/// Methods that go on.
pub fn inc(subchannel: u32, method: u32, data: &[u32]) -> Vec<u32> {
    let count = data.len() as u32;
    let mut all = vec![1 << 29 | count << 16 | subchannel << 13 | (method / 4)];
    all.extend(data);
    all
}

/// A semaphore of the host: what it does is in the last word.
pub fn semaphore(va: u64, payload: u32, execute: u32) -> Vec<u32> {
    inc(
        0,
        0x5c,
        &[va as u32, (va >> 32) as u32, payload, 0, execute],
    )
}

/// A copy of bytes.
pub fn copy(class: u32, from: u64, to: u64, count: u32) -> Vec<u32> {
    let halves = |va: u64| [(va >> 32) as u32, va as u32];
    let [from, to] = [from, to].map(halves);
    let mut all = inc(4, 0, &[class]);
    all.extend(inc(4, 0x400, &[from[0], from[1], to[0], to[1]]));
    all.extend(inc(4, 0x418, &[count]));
    all.extend(inc(4, 0x300, &[0x182]));
    all
}

/// The engine of graphics, and a copy engine with a runlist of its own.
pub const GRAPHICS: u32 = class::engine::GRAPHICS;
pub const COPY: u32 = class::engine::COPY0 + 2;
