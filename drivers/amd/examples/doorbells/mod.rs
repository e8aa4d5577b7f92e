//! Cards of the twin whose doorbells are a page of memory, as those of a card are for who has mapped them. A thread
//! tells the card what was written there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{
    DevFile, Dma, Machine, Pci, PciFunction, PerProcess, Reserved, ResetKind, TransportError,
};
use hcq::wait::Deadline;
use twin_amd::pci::machine::PciMachine;

/// The BAR that has them.
const DOORBELLS: u8 = 2;
/// How often they are looked at.
const LOOK: Duration = Duration::from_micros(50);

/// A machine with such cards.
pub struct Mapped {
    twin: Arc<PciMachine>,
    cards: Mutex<Vec<(Window, View)>>,
    kept: PerProcess,
    is_held: AtomicBool,
}

impl Mapped {
    pub fn new(twin: Arc<PciMachine>) -> Arc<Mapped> {
        let machine = Arc::new(Mapped {
            twin,
            cards: Mutex::default(),
            kept: PerProcess::default(),
            is_held: AtomicBool::new(false),
        });
        let watched = Arc::downgrade(&machine);
        std::thread::spawn(move || {
            let mut rung: Vec<Vec<u64>> = Vec::new();
            while let Some(machine) = watched.upgrade() {
                if !machine.is_held.load(Ordering::Acquire) {
                    machine.tell(&mut rung);
                }
                drop(machine);
                std::thread::sleep(LOOK);
            }
        });
        machine
    }

    /// Nothing is told meanwhile: what is timed is the driver.
    pub fn hold(&self, held: bool) {
        self.is_held.store(held, Ordering::Release);
    }

    fn tell(&self, rung: &mut Vec<Vec<u64>>) {
        let cards = self.cards.lock().unwrap();
        rung.resize(cards.len(), vec![0; 1024]);
        for ((card, page), rung) in cards.iter().zip(rung) {
            for (i, was) in rung.iter_mut().enumerate() {
                let bell = page.read::<u64>(i * 8).unwrap();
                if bell != *was {
                    *was = bell;
                    card.write(i as u64 * 8, bell).unwrap();
                }
            }
        }
    }
}

impl Machine for Mapped {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.twin.open(path)
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.twin.read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.twin.list(path)
    }

    fn pci_functions(&self) -> Result<Vec<PciFunction>, TransportError> {
        self.twin.pci_functions()
    }

    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        let card = self.twin.open_pci(address)?;
        let window = card.bar(DOORBELLS)?;
        let page = View::alloc(window.len() as usize, 4096).unwrap();
        self.cards.lock().unwrap().push((window, page.clone()));
        Ok(Arc::new(Card { card, page }))
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.twin.reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.twin.memory(bytes, align)
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}

struct Card {
    card: Arc<dyn Pci>,
    page: View,
}

impl Pci for Card {
    fn name(&self) -> &str {
        self.card.name()
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        match n {
            DOORBELLS => Ok(Window::mapped("doorbells", self.page.clone())),
            _ => self.card.bar(n),
        }
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.card.config_read(offset, width)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.card.config_write(offset, width, value)
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        self.card.dma(bytes, align)
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        self.card.reset(kind)
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        self.card.wait_irq(vector, deadline)
    }
}
