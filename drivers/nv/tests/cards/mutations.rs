//! Deliberate bugs in how a card is started, talked to and mapped: what our driver tells the card is changed on its way, and
//! the twin names the rule that is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::part::Part;
use drivers_gpu::backend::{Memory, Request};
use drivers_nv::Options;
use drivers_spec::nv::memory::vaspace_flags;
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine};
use hcq::{Command, Deadline, MemoryKind, Result, Val};
use twin_nv::pci::machine::PciMachine;

use super::firmware::{CardTime, Firmware};
use super::stand::{self, exec, options};
use super::{VAIN, with};

/// Of the bugs, one in so many runs.
const PARTS: usize = 4;

/// How long what a bug stops is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What becomes of an access.
enum Turn {
    /// It stays as it is.
    Same,
    /// It is not made.
    Lost,
    /// It is not made, and answered so.
    Said(u64),
    /// A write of another value.
    Else(u32),
}

use Turn::{Else, Lost, Said, Same};

/// A bug.
struct Bug {
    what: &'static str,
    /// The rule that has to name it.
    rule: &'static str,
    chip: &'static str,
    /// What becomes of an access to a register: where it is, whether it is a write, and the value.
    registers: fn(u64, bool, u32) -> Turn,
    /// What becomes of what is written into memory that GSP and the falcons are started with: where in it, and the bytes.
    memory: fn(u64, &mut [u8]),
    /// The same of GSP's image, with its page table.
    image: fn(u64, &mut [u8]),
    /// A pointer of a queue.
    pointer: fn(u32) -> u32,
    /// An element of the queue of commands; its sum stays as it was.
    element: fn(&mut Message<'_>),
    /// The same, with a sum that is right.
    message: fn(&mut Message<'_>),
    /// What becomes of what is written to VRAM by its BAR: where, and the bytes.
    vram: fn(u64, &mut [u8]),
    /// The command register without being a master.
    is_no_master: bool,
}

const NONE: Bug = Bug {
    what: "none",
    rule: "",
    chip: "ga102",
    registers: |_, _, _| Same,
    memory: |_, _| {},
    image: |_, _| {},
    pointer: |value| value,
    element: |_| {},
    message: |_| {},
    vram: |_, _| {},
    is_no_master: false,
};

/// A bug in what one register is told.
macro_rules! told {
    ($what:literal, $rule:literal, $at:literal, |$value:ident| $turn:expr) => {
        Bug {
            what: $what,
            rule: $rule,
            registers: |at, is_write, value| {
                let $value = value;
                match at == $at && is_write {
                    true => $turn,
                    false => Same,
                }
            },
            ..NONE
        }
    };
}

/// A bug by which nobody looks at a register: it is as if it read so.
macro_rules! unseen {
    ($what:literal, $rule:literal, $at:pat, $value:literal) => {
        Bug {
            what: $what,
            rule: $rule,
            registers: |at, is_write, _| match (at, is_write) {
                ($at, false) => Said($value),
                _ => Same,
            },
            ..NONE
        }
    };
}

/// A bug in a member of [`Bug`].
macro_rules! changed {
    ($what:literal, $rule:literal, $member:ident: $change:expr) => {
        Bug {
            what: $what,
            rule: $rule,
            $member: $change,
            ..NONE
        }
    };
}

/// The same on the card that its FSP starts.
macro_rules! hopper {
    ($bug:expr) => {
        Bug {
            chip: "gh100",
            ..$bug
        }
    };
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    found.map_or(0, u32::from_le_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Where an element has its sum, its number, how many there are, and the RPC with its function and what follows.
const SUM: usize = 0x20;
const NUMBER: usize = 0x24;
const COUNT: usize = 0x28;
const RPC: usize = 0x30;
const FUNCTION: usize = RPC + 12;
const PAYLOAD: usize = RPC + 0x20;
/// Where an allocation has its class and its parameters, and a control its number and its parameters.
const CLASS: usize = 0xc;
const ALLOCATED: usize = 0x20;
const CONTROL: usize = 8;
const CONTROLLED: usize = 0x18;

/// An element of the queue of commands, of an RPC that takes one.
struct Message<'a>(&'a mut [u8]);

impl Message<'_> {
    fn function(&self) -> u32 {
        word(self.0, FUNCTION)
    }

    fn word(&self, at: usize) -> u32 {
        word(self.0, PAYLOAD + at)
    }

    fn put(&mut self, at: usize, value: u32) {
        put(self.0, PAYLOAD + at, value);
    }

    /// Changes a word of the parameters of an allocation.
    fn allocates(&mut self, is: fn(u32) -> bool, at: usize, change: fn(u32) -> u32) {
        if self.function() == 103 && is(self.word(CLASS)) {
            let value = self.word(ALLOCATED + at);
            self.put(ALLOCATED + at, change(value));
        }
    }

    /// The same of a control.
    fn controls(&mut self, number: u32, at: usize, change: fn(u32) -> u32) {
        if self.function() == 76 && self.word(CONTROL) == number {
            let value = self.word(CONTROLLED + at);
            self.put(CONTROLLED + at, change(value));
        }
    }

    /// Makes its sum right again.
    fn seal(&mut self) {
        put(self.0, SUM, 0);
        let bytes = (RPC + word(self.0, RPC + 8) as usize).next_multiple_of(8);
        let words = (0..bytes.min(self.0.len())).step_by(8);
        let all = words.fold(0, |all, at| all ^ long(self.0, at));
        put(self.0, SUM, (all >> 32) as u32 ^ all as u32);
    }
}

fn is_channel(class: u32) -> bool {
    class & 0xff == 0x6f
}

fn is_group(class: u32) -> bool {
    class == 0xa06c
}

fn is_space(class: u32) -> bool {
    class == 0x90f1
}

const PROMOTE: u32 = 0x2080_012b;
const METHODS: u32 = 0xa06c_010a;
const RESERVED: u32 = 0x90f1_0106;

/// Changes `GspFwWprMeta`.
fn meta(bytes: &mut [u8], at: usize, change: fn(u32) -> u32) {
    if long(bytes, 0) == 0xdc3a_ae21_371a_60b3 {
        let value = word(bytes, at);
        put(bytes, at, change(value));
    }
}

/// Changes a word of what follows these words, wherever that is.
fn behind(bytes: &mut [u8], words: &[u32], at: usize, value: u32) {
    let pattern: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let found = bytes
        .windows(pattern.len())
        .position(|part| part == pattern);
    if let Some(start) = found
        && start + at + 4 <= bytes.len()
    {
        put(bytes, start + at, value);
    }
}

/// Changes the entries of pages of the host in the page tables of programs.
fn entries(at: u64, bytes: &mut [u8], change: fn(u64) -> u64) {
    const TABLES: std::ops::Range<u64> = 8 << 20..56 << 20;
    const HOST: u64 = 2 << 1;
    if !TABLES.contains(&at) || !at.is_multiple_of(8) {
        return;
    }
    for entry in bytes.chunks_exact_mut(8) {
        let value = long(entry, 0);
        if value & 7 == HOST | 1 {
            entry.copy_from_slice(&change(value).to_le_bytes());
        }
    }
}

/// Where a channel has GPPut: behind its instance block, of the 64 KiB that it has.
fn is_put(at: u64) -> bool {
    let channels = 1 << 20..6 << 20;
    channels.contains(&at) && (at - channels.start) % 0x1_0000 == 0x108c
}

static BUGS: &[Bug] = &[
    // How falcons start GSP.
    Bug {
        what: "the card may not access the host",
        rule: "PCI-MASTER",
        is_no_master: true,
        ..NONE
    },
    told!(
        "no page for flushes",
        "NV-PFB-FLUSH-PAGE",
        0x10_0c10,
        |_value| Lost
    ),
    unseen!(
        "nobody waits for the card's own firmware",
        "NV-PCI-GFW",
        0x11_8128 | 0x11_8234,
        0xff
    ),
    told!(
        "the reset of a falcon is not ended",
        "NV-FALCON-RESET",
        0x11_03c0,
        |value| { if value & 1 == 0 { Lost } else { Same } }
    ),
    unseen!(
        "nobody waits until memory is cleared",
        "NV-FALCON-SCRUB",
        0x11_00f4,
        0x8000_0400
    ),
    unseen!(
        "nobody waits for room for a transfer",
        "NV-FALCON-DMA-FULL",
        0x11_0118,
        2
    ),
    told!(
        "transfers need a context",
        "NV-FALCON-DMA-CONTEXT",
        0x11_0624,
        |_value| Lost
    ),
    told!(
        "transfers have 4 bytes",
        "NV-FALCON-DMA-COMMAND",
        0x11_0118,
        |value| { Else(value & !(7 << 8)) }
    ),
    told!(
        "a program begins in the middle of a block",
        "NV-FALCON-BOOTVEC",
        0x11_0104,
        |value| { Else(value + 4) }
    ),
    told!(
        "the number of a microcode is not told",
        "NV-BROM-PARAMETERS",
        0x11_1198,
        |_value| Lost
    ),
    unseen!(
        "the signature is that of another version",
        "NV-BROM-SIGNATURE",
        0x82_4140..=0x82_417c,
        0
    ),
    told!(
        "the core of GSP is not selected",
        "NV-GSP-CORE",
        0x11_1668,
        |value| { if value & 0x110 == 0 { Same } else { Lost } }
    ),
    unseen!(
        "a booter is started again as at first",
        "NV-FALCON-START",
        0x84_0100,
        0x10
    ),
    unseen!(
        "half of VRAM is divided",
        "NV-WPR-META-ORDER",
        0x11_83a4,
        12_288
    ),
    told!(
        "the booter is not told to end for good",
        "NV-BOOTER-UNLOAD",
        0x84_0040,
        |value| { if value == 0xff { Else(0) } else { Same } }
    ),
    // What they are given.
    // One MiB, of the card's memory.
    changed!("FRTS goes to no memory", "NV-FWSEC-FRTS", memory: |_, bytes| {
        behind(bytes, &[0x100, 2], 4, 1);
    }),
    changed!("FWSEC is told other flags", "NV-FWSEC-COMMAND", memory: |_, bytes| {
        behind(bytes, &[1, 24, 0, 0, 0, 2], 20, 0);
    }),
    changed!("the metadata has another revision", "NV-WPR-META-MAGIC", memory: |_, bytes| {
        meta(bytes, 8, |_| 2);
    }),
    changed!("the image is not aligned in VRAM", "NV-WPR-META-ALIGNED", memory: |_, bytes| {
        meta(bytes, 0x88, |at| at - 0x1000);
    }),
    changed!("the heap in WPR2 is too small", "NV-WPR-META-HEAP", memory: |_, bytes| {
        meta(bytes, 0x80, |_| 64 << 20);
    }),
    changed!("the boot loader's code begins later", "NV-GSP-LOADER", memory: |_, bytes| {
        meta(bytes, 0x30, |at| at + 0x10);
    }),
    changed!("the signature of the image is shorter", "NV-GSP-IMAGE", memory: |_, bytes| {
        meta(bytes, 0x50, |size| size - 1);
    }),
    changed!("a page of the image has no page's address", "NV-GSP-RADIX", image: |at, bytes| {
        if at == 0 {
            bytes[0] |= 4;
        }
    }),
    changed!("the first log is not LOGINIT", "NV-LIBOS-ARGS", memory: |_, bytes| {
        if bytes.starts_with(b"TINIGOL\0") {
            let (first, rest) = bytes.split_at_mut(0x20);
            first.swap_with_slice(&mut rest[..0x20]);
        }
    }),
    changed!("a log lacks the address of a page", "NV-LIBOS-LOG", memory: |at, bytes| {
        if at % 0x1000 == 8 && bytes.len() == 128 {
            bytes[24..32].fill(0);
        }
    }),
    changed!("both queues are in the same place", "NV-GSP-ARGUMENTS", memory: |_, bytes| {
        if (word(bytes, 8), long(bytes, 0x10), long(bytes, 0x18)) == (129, 0x1000, 0x4_1000) {
            put(bytes, 0x18, 0x1000);
        }
    }),
    // How the FSP starts it.
    hopper!(unseen!(
        "nobody waits for the FSP",
        "NV-FSP-BOOT",
        0x2_00bc,
        0xff
    )),
    hopper!(told!(
        "half of the address of the page for flushes",
        "NV-PFB-FLUSH-PAGE",
        0x10_0a34,
        |_value| Lost
    )),
    hopper!(told!(
        "a packet is not the first one",
        "NV-FSP-MCTP",
        0x8f_2ac4,
        |value| {
            if value == 0xc000_0000 {
                Else(0x4000_0000)
            } else {
                Same
            }
        }
    )),
    hopper!(told!(
        "the end of a packet is not told",
        "NV-FSP-QUEUE",
        0x8f_2c04,
        |_value| Lost
    )),
    hopper!(told!(
        "a chain of trust of Blackwell's",
        "NV-FSP-COT",
        0x8f_2ac4,
        |value| {
            if value == 0x035c_0001 {
                Else(0x035c_0002)
            } else {
                Same
            }
        }
    )),
    hopper!(told!(
        "FRTS is not aligned",
        "NV-FSP-COT-ALIGNED",
        0x8f_2ac4,
        |value| {
            if value == 0x20_0000 {
                Else(0x21_0000)
            } else {
                Same
            }
        }
    )),
    hopper!(
        changed!("the arguments are in no memory", "NV-FMC-ARGUMENTS", memory: |_, bytes| {
            if (long(bytes, 0), word(bytes, 8), word(bytes, 0xc)) == (0, 1, 256) {
                put(bytes, 0x28, 0);
            }
        })
    ),
    hopper!(
        changed!("FRTS has no size", "NV-FMC-META-SIZES", memory: |_, bytes| {
            meta(bytes, 0xa0, |_| 0);
        })
    ),
    // The queues.
    changed!("read pointers are on the wrong side", "NV-QUEUE-HEADER", memory: |_, bytes| {
        if bytes.len() == 32 && (word(bytes, 4), word(bytes, 8)) == (0x4_0000, 0x1000) {
            put(bytes, 0x14, 0);
        }
    }),
    changed!("a pointer is one too large", "NV-QUEUE-POINTER", pointer: |value| {
        // GSP starts with two messages.
        if value > 2 { 63 } else { value }
    }),
    changed!("the sum of a message is wrong", "NV-QUEUE-CHECKSUM", element: |message| {
        let sum = word(message.0, SUM);
        put(message.0, SUM, sum ^ 1);
    }),
    changed!("a message has the number of another one", "NV-QUEUE-SEQUENCE", message: |message| {
        if message.function() == 65 {
            put(message.0, NUMBER, 1);
        }
    }),
    changed!("a message has an element too many", "NV-QUEUE-ELEMENT", message: |message| {
        if message.function() == 65 {
            let count = word(message.0, COUNT);
            put(message.0, COUNT, count + 1);
        }
    }),
    changed!("an RPC has the header of another version", "NV-RPC-HEADER", message: |message| {
        if message.function() == 65 {
            put(message.0, RPC, 2 << 24);
        }
    }),
    changed!("settings come first", "NV-RPC-INIT", message: |message| {
        if message.function() == 72 {
            put(message.0, FUNCTION, 73);
        }
    }),
    changed!("a BAR is said to be somewhere else", "NV-RPC-SYSTEM-INFO", message: |message| {
        if message.function() == 72 {
            let at = message.word(0);
            message.put(0, at + 0x1000);
        }
    }),
    changed!("there are more settings than are told", "NV-RPC-REGISTRY", message: |message| {
        if message.function() == 73 {
            message.put(4, 1000);
        }
    }),
    changed!("RM is not told to end", "NV-GSP-RESET", message: |message| {
        if message.function() == 47 {
            put(message.0, FUNCTION, 65);
        }
    }),
    // Calls.
    changed!("half of the page directory is told", "NV-SPACE-DIRECTORY", message: |message| {
        if message.function() == 54 {
            message.put(0x18, 1);
        }
    }),
    changed!("faults of an address space are replayed", "NV-SPACE-FAULTS-NOT-MODELLED", message: |message| {
        message.allocates(is_space, 4, |flags| flags | vaspace_flags::ENABLE_PAGE_FAULTING.put(1));
    }),
    changed!("RM has other addresses for itself", "NV-SPACE-RESERVED-PDES", message: |message| {
        message.controls(RESERVED, 0x10, |at| at + (2 << 20));
    }),
    changed!("buffers of contexts are too small", "NV-GR-CONTEXT-BUFFERS", message: |message| {
        for entry in 0..4 {
            message.controls(PROMOTE, 0x40 + 0x20 * entry, |_| 0x10);
        }
    }),
    changed!("all buffers of contexts but one are left out", "NV-GR-CONTEXT", message: |message| {
        message.controls(PROMOTE, 0x28, |_| 1);
    }),
    changed!("the addresses of these are left out", "NV-GR-CONTEXT-BOUND", message: |message| {
        // The first one has its memory already.
        if message.word(CONTROLLED + 0x4c) >> 16 & 0xff == 0 {
            message.controls(PROMOTE, 0x28, |_| 1);
        }
    }),
    changed!("a group has one buffer for methods", "NV-GROUP-METHOD-BUFFERS", message: |message| {
        message.controls(METHODS, 0x50, |_| 1);
    }),
    changed!("a group is of no engine", "RM-GROUP-ENGINE", message: |message| {
        message.allocates(is_group, 0xc, |_| 0x3f);
    }),
    changed!("RM is to choose the number of a channel", "NV-CHANNEL-ID", message: |message| {
        message.allocates(is_channel, 0x14, |flags| flags & !(1 << 21));
    }),
    changed!("a ring has an odd number of entries", "NV-CHANNEL-TYPE", message: |message| {
        message.allocates(is_channel, 0x10, |entries| entries - 1);
    }),
    changed!("RAMFC is not where the instance block is", "NV-CHANNEL-MEMORY", message: |message| {
        message.allocates(is_channel, 0xc0, |at| at + 0x1000);
    }),
    changed!("nothing is said of a notifier", "NV-CHANNEL-NOTIFIER", message: |message| {
        message.allocates(is_channel, 0xf4, |flags| flags & !0xc);
    }),
    // Page tables, windows and doorbells.
    told!(
        "the MMU is not told to forget",
        "NV-MMU-INVALIDATE",
        0xb8_30b0,
        |_value| Lost
    ),
    unseen!(
        "nobody waits until it has forgotten",
        "NV-MMU-INVALIDATE-PENDING",
        0xb8_30b0,
        0
    ),
    told!(
        "it is told to forget one address",
        "NV-MMU-INVALIDATE-COMMAND",
        0xb8_30b0,
        |value| { Else(value & !1) }
    ),
    changed!("pages are encrypted", "NV-MMU-ENTRY", vram: |at, bytes| {
        entries(at, bytes, |entry| entry | 1 << 4);
    }),
    changed!("pages are compressed", "NV-MMU-KIND-NOT-MODELLED", vram: |at, bytes| {
        entries(at, bytes, |entry| entry & !(0xff << 56) | 8 << 56);
    }),
    changed!("pages are not valid", "MMU-FAULT", vram: |at, bytes| {
        entries(at, bytes, |entry| entry & !1);
    }),
    changed!("pages are for reading", "MMU-FAULT", vram: |at, bytes| {
        entries(at, bytes, |entry| entry | 1 << 6);
    }),
    told!(
        "VRAM is looked for in no memory",
        "NV-PCI-PRAMIN-TARGET",
        0x1700,
        |value| { Else(value | 1 << 24) }
    ),
    told!(
        "a doorbell is that of another runlist",
        "HOST-DOORBELL-TOKEN",
        0xbb_0090,
        |value| { Else(value ^ 1 << 16) }
    ),
    changed!("GPPut is behind the ring", "HOST-GP-PUT", vram: |at, bytes| {
        if is_put(at) && bytes.len() == 4 {
            put(bytes, 0, 0xffff);
        }
    }),
];

/// Stands between the driver and the card.
struct Between {
    bug: &'static Bug,
    /// How often memory for the card was asked for: first for GSP's image, then for what it is started with.
    given: AtomicUsize,
    /// Where the image is, for the card.
    image: AtomicUsize,
}

impl Between {
    /// The driver writes to memory that the card is started with.
    fn stores(&self, access: &mut Access) {
        let (bug, offset) = (self.bug, access.arg("offset"));
        if access.arg("at") == self.image.load(Ordering::Relaxed) as u64 {
            (bug.image)(offset, &mut access.data);
            return;
        }
        (bug.memory)(offset, &mut access.data);
        let signature = u32::from_le_bytes(*b"VRPC");
        if access.data.len() == 0x1000 && word(&access.data, RPC + 4) == signature {
            let before = access.data.clone();
            let mut message = Message(&mut access.data);
            (bug.message)(&mut message);
            if message.0[..] != before[..] {
                message.seal();
            }
            (bug.element)(&mut message);
        }
    }
}

impl Tap for Between {
    fn sees_memory(&self) -> bool {
        self.given.load(Ordering::Relaxed) <= 2
    }

    fn before(&self, _: &str, access: &mut Access) -> Option<std::result::Result<Answer, Fault>> {
        /// The command register, and its bit.
        const COMMAND: u64 = 4;
        const MASTER: u64 = 4;
        let (bar, offset, bytes) = (access.arg("bar"), access.arg("offset"), access.arg("bytes"));
        let value = access.arg("value");
        let is_write = access.verb == Verb::Write;
        let turn = match access.verb {
            Verb::Write | Verb::Read if bar == 0 => {
                (self.bug.registers)(offset, is_write, value as u32)
            }
            Verb::Write if bar == 1 => {
                let mut all = value.to_le_bytes();
                (self.bug.vram)(offset, &mut all[..bytes as usize]);
                access.args[3] = u64::from_le_bytes(all);
                Same
            }
            Verb::WriteBytes if bar == 1 => {
                (self.bug.vram)(offset, &mut access.data);
                Same
            }
            // The pointer of who writes a queue.
            Verb::Store if offset % 0x1000 == 0x10 && bytes == 4 => {
                access.args[3] = (self.bug.pointer)(value as u32).into();
                Same
            }
            Verb::StoreBytes => {
                self.stores(access);
                Same
            }
            Verb::ConfigWrite if self.bug.is_no_master && offset == COMMAND => {
                access.args[2] &= !MASTER;
                Same
            }
            _ => Same,
        };
        match turn {
            Same => None,
            Else(value) => {
                access.args[3] = value.into();
                None
            }
            Lost => Some(Ok(Answer::default())),
            Said(value) => Some(Ok(Answer::value(value))),
        }
    }

    fn after(&self, _: &str, access: &Access, answer: &mut std::result::Result<Answer, Fault>) {
        if access.verb != Verb::Dma {
            return;
        }
        if let Ok(answer) = answer
            && self.given.fetch_add(1, Ordering::Relaxed) == 0
        {
            let first = answer.values.first().copied().unwrap_or_default();
            self.image.store(first as usize, Ordering::Relaxed);
        }
    }
}

/// Waits until the card has done what it was told, as far as it does anything.
fn settle(twin: &PciMachine) {
    let card = twin.function(0).unwrap();
    while !card.is_idle() {
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// Starts a card, and works with it as far as that goes.
fn work(
    firmware: &Firmware,
    twin: &Arc<PciMachine>,
    machine: &Arc<dyn Machine>,
    limit: Duration,
) -> Result<()> {
    let options = Options {
        firmware: vec![firmware.folder.clone()],
        ring_timeout: limit,
        drain_timeout: limit,
        ..options()
    };
    let clock: Arc<dyn Clock> = Arc::new(CardTime::of(twin));
    let backend = drivers_nv::pci::open(machine, "0000:01:00.0", 0, &clock, &options)?;
    let rig = with(twin, drivers_nv::over(&backend, &options)?)?;
    let data = stand::memory(&*rig.device, MemoryKind::Host, 4096)?;
    let args = [stand::at(&data), Val::Const(1)];
    for _ in 0..2 {
        let run = rig.compute.submit(&[], &[exec(&rig.step, &args, 1)])?;
        settle(twin);
        run.wait(Deadline::after(limit))?;
    }
    // An address that means something else the second time.
    let memory = |kind| {
        backend.memory(&Request {
            bytes: 64 << 10,
            align: 64 << 10,
            kind,
            what: "memory for a moment",
        })
    };
    let copy = |at: u64| {
        let copy = Command::Copy {
            dst: Val::Const(at),
            src: Val::Const(at + 4096),
            bytes: 4096,
        };
        let run = rig.copy.submit(&[], &[copy])?;
        settle(twin);
        run.wait(Deadline::after(limit))
    };
    let first = memory(MemoryKind::Device)?;
    let at = first.va.0;
    copy(at)?;
    drop(first);
    // Others may be taken before it.
    let mut second = Vec::new();
    while second.last().is_none_or(|one: &Memory| one.va.0 != at) {
        assert!(second.len() < 1000, "{at:#x} is never given again");
        second.push(memory(MemoryKind::Host)?);
    }
    copy(at)
}

/// The rules that are broken with a bug, and what the work comes to.
fn broken(
    firmware: &Firmware,
    bug: &'static Bug,
    limit: Duration,
) -> (Vec<&'static str>, Result<()>) {
    let twin = firmware.machine(bug.chip, |_| {});
    let between = Between {
        bug,
        given: AtomicUsize::new(0),
        image: AtomicUsize::new(0),
    };
    let machine = Tapped::machine(twin.clone(), Arc::new(between));
    let done = work(firmware, &twin, &machine, limit);
    settle(&twin);
    let violations = twin.journal().violations();
    let names = violations.iter().map(|violation| violation.rule.name);
    (names.collect(), done)
}

/// The driver as it is, on both.
static RIGHT: [Bug; 2] = [NONE, hopper!(NONE)];

#[test]
fn the_driver_as_it_is_breaks_no_rule_behind_the_same_tap() {
    let firmware = Firmware::made();
    for bug in &RIGHT {
        let (names, done) = broken(&firmware, bug, stand::soon().limit());
        assert_eq!(names, [""; 0], "{}: {done:?}", bug.chip);
        done.unwrap();
    }
}

#[test]
fn each_bug_is_named_by_its_rule() {
    let (firmware, part) = (Firmware::made(), Part::chosen());
    let mut missed = Vec::new();
    let chosen = BUGS.iter().enumerate();
    for (_, bug) in chosen.filter(|(index, _)| part.has(*index, PARTS)) {
        let (found, done) = broken(&firmware, bug, PATIENCE);
        let (what, rule, chip) = (bug.what, bug.rule, bug.chip);
        println!("{chip}: {what}: {found:?}");
        // What it comes to does not matter, as long as it is told.
        if !found.contains(&rule) {
            missed.push(format!(
                "{chip}: {what}: expected {rule}, found {found:?}; {done:?}"
            ));
        }
        assert!(rule != VAIN, "{what}: a channel that waits is no proof");
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn there_are_enough_of_them() {
    let mut whats: Vec<_> = BUGS.iter().map(|bug| bug.what).collect();
    whats.sort_unstable();
    whats.dedup();
    assert!(
        whats.len() == BUGS.len() && whats.len() >= 40,
        "{}",
        whats.len()
    );
}
