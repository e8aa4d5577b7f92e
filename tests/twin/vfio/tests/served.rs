//! A card behind a socket, as a virtual machine asks it.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use twin::rule::Journal;
use twin_amd::pci::card::{Card, Config};
use twin_amd::pci::chip::{CHIPS, Chip};
use twin_amd::pci::rom;
use twin_vfio::Function;
use vfio_user::Client;

/// Regions, as VFIO numbers them.
const ROM: u32 = 6;
const CONFIG: u32 = 7;

struct Rig {
    _folder: TempDir,
    journal: Arc<Journal>,
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
        let card = Card::function("card", &config, &journal);
        let mut function = Function::new(Arc::new(card), rom::image(chip));
        let at = socket.clone();
        let card = std::thread::spawn(move || {
            function.serve(&at).unwrap();
            function
        });
        Rig {
            client: connect(&socket, &card),
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
            (5, 1 << 20),
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
