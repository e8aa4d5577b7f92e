//! A card behind a socket, as a virtual machine asks it.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use twin::pci::{Bus, HostMemory};
use twin::rule::Journal;
use twin_amd::pci::card::{Card, Config};
use twin_amd::pci::chip::{CHIPS, Chip};
use twin_amd::pci::rom;
use twin_vfio::Function;
use vfio_bindings::bindings::vfio::VFIO_IRQ_SET_ACTION_TRIGGER;
use vfio_user::Client;

/// Regions, as VFIO numbers them.
const ROM: u32 = 6;
const CONFIG: u32 = 7;
/// Interrupts, as VFIO numbers them.
const MSI: u32 = 1;

struct Rig {
    _folder: TempDir,
    journal: Arc<Journal>,
    bus: Arc<Bus>,
    client: Client,
    card: JoinHandle<Function>,
}

impl Rig {
    fn new(chip: &'static Chip) -> Rig {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("card");
        let journal = Arc::new(Journal::new());
        let config = Config {
            bar: Some(256 << 20),
            ..Config::of(chip)
        };
        let card = Card::function("card", &config, &HostMemory::new(), &journal).unwrap();
        let bus = card.bus().clone();
        let mut function = Function::new(Arc::new(card), &bus, rom::image(chip));
        let at = socket.clone();
        let card = std::thread::spawn(move || {
            function.serve(&at).unwrap();
            function
        });
        Rig {
            client: connect(&socket, &card),
            bus,
            _folder: folder,
            journal,
            card,
        }
    }

    fn read(&mut self, region: u32, offset: u64, bytes: usize) -> u64 {
        let mut data = [0; 8];
        let to = &mut data[..bytes];
        self.client.region_read(region, offset, to).unwrap();
        u64::from_le_bytes(data)
    }

    fn write(&mut self, region: u32, offset: u64, bytes: usize, value: u64) {
        let data = &value.to_le_bytes()[..bytes];
        self.client.region_write(region, offset, data).unwrap();
    }

    /// The card, after the machine has gone.
    fn end(self) -> Function {
        self.client.shutdown().unwrap();
        self.card.join().unwrap()
    }
}

/// As soon as somebody listens.
fn connect(socket: &Path, card: &JoinHandle<Function>) -> Client {
    loop {
        match Client::new(socket) {
            Ok(client) => return client,
            Err(error) => assert!(!card.is_finished(), "{error}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_machine_finds_the_card_and_its_registers() {
    for chip in &CHIPS {
        let mut rig = Rig::new(chip);
        let lengths = [
            (0, 256 << 20),
            (1, 0),
            (2, 2 << 20),
            (5, chip.registers),
            (ROM, 32 << 10),
        ];
        for (region, bytes) in lengths {
            assert_eq!(
                rig.client.region(region).map_or(0, |region| region.size),
                bytes
            );
        }
        assert_eq!(
            rig.read(CONFIG, 0, 4),
            u64::from(chip.device) << 16 | 0x1002
        );
        // Decoding is off as long as the machine does not switch it on.
        rig.write(CONFIG, 4, 2, 2);
        assert_eq!(rig.read(5, 0xde3 * 4, 4), chip.vram >> 20);
        assert!(rig.journal.violations().is_empty());
        assert!(rig.end().refused().is_empty());
    }
}

#[test]
fn a_rom_is_sized_as_any_other() {
    let mut rig = Rig::new(&CHIPS[0]);
    rig.write(CONFIG, 0x30, 4, 0xffff_fffe);
    assert_eq!(rig.read(CONFIG, 0x30, 4), 0xffff_8000);
    rig.write(CONFIG, 0x30, 4, 1);
    assert_eq!(rig.read(CONFIG, 0x30, 1), 1);
    assert_eq!(rig.read(ROM, 0, 2), 0xaa55);
    let part = (0xa0..0xa8).map(|at| rig.read(ROM, at, 1) as u8);
    assert_eq!(part.collect::<Vec<_>>(), b"113-DOOR");
}

#[test]
fn what_is_refused_is_counted_and_reads_zero() {
    let mut rig = Rig::new(&CHIPS[0]);
    rig.write(CONFIG, 4, 2, 2);
    // A register that nobody describes, twice; one by eight bytes.
    for _ in 0..2 {
        assert_eq!(rig.read(5, 0xf_fffc, 4), 0);
    }
    rig.write(5, 0, 8, 1);
    assert_eq!(rig.journal.violations().len(), 3);
    let card = rig.end();
    let refused: Vec<_> = card.refused().iter().collect();
    assert_eq!(refused, [(&(5, 0, true), &1), (&(5, 0xf_fffc, false), &2)]);
}

#[test]
fn the_card_reaches_what_is_mapped_and_nothing_else() {
    let mut rig = Rig::new(&CHIPS[0]);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 3 << 12]).unwrap();
    // Two pages of it, from the second on.
    let fd = file.as_raw_fd();
    rig.client.dma_map(1 << 12, 0x10_0000, 2 << 12, fd).unwrap();
    rig.client.dma_map(0, 0x20_0000, 1 << 12, fd).unwrap();
    let (memory, page) = rig.bus.find(0x10_1008).unwrap();
    assert_eq!(page, 2);
    assert!(memory.write((2 << 12) + 8, b"written"));
    let mut found = [0; 7];
    file.read_exact_at(&mut found, (2 << 12) + 8).unwrap();
    assert_eq!(&found, b"written");
    assert!(rig.bus.find(0x10_2000).is_none());
    let (again, page) = rig.bus.find(0x20_0000).unwrap();
    assert_eq!(page, 0);
    assert!(Arc::ptr_eq(&memory, &again), "a file is mapped once");
    rig.client.dma_unmap(0x10_0000, 2 << 12).unwrap();
    assert!(rig.bus.find(0x10_1008).is_none());
}

#[test]
fn an_interrupt_is_an_event_of_the_machine() {
    let mut rig = Rig::new(&CHIPS[0]);
    let (mut heard, event) = std::io::pipe().unwrap();
    let trigger = VFIO_IRQ_SET_ACTION_TRIGGER;
    let fds = [event.as_raw_fd()];
    rig.client.set_irqs(MSI, trigger, 0, 1, &fds).unwrap();
    assert!(!rig.bus.interrupt(0), "the card is not master");
    rig.write(CONFIG, 4, 2, 4);
    assert!(rig.bus.interrupt(0));
    let mut count = [0; 8];
    heard.read_exact(&mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
}
