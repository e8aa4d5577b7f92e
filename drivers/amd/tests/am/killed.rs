//! Processes that are killed in the middle of what they do (SIGKILL): the card goes on by itself, and the next process
//! starts it anew.
//!
//! The card lives in this process; the one that is killed reaches it over a socket (vfio-user), and its memory, which the
//! card goes on to write to, is shared.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command as Run, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hcq::addr::{BusAddr, BusRanges, Domain};
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::{
    BusRange, Clock, Dma, Fault, Machine, MonotonicClock, Pci, ResetKind, TransportError,
};
use hcq::wait::Deadline;
use hcq::{Command, Device, MemoryKind, QueueKind, Stream, Val};

use twin::host::Mapping;
use twin_amd::pci::card::Config;
use twin_amd::pci::chip::Chip;
use twin_amd::pci::machine::PciMachine;
use twin_amd::pci::rom;
use twin_vfio::Function;
use vfio_user::Client;

use super::device::{options, unbroken, works};
use super::stand::{at, memory, soon};
use super::through::Through;

const ADDRESS: &str = "0000:03:00.0";
/// The region of configuration space, as VFIO numbers them.
const CONFIG: u32 = 7;
/// What a message of the protocol carries here.
const MESSAGE: usize = 4096;
/// Where the process that is killed finds the card.
const SOCKET: &str = "DOORBELL_TEST_CARD";
/// A card that does not get as far as it should in this time does not at all.
const HANGS: Duration = Duration::from_secs(60);

/// A card behind a socket.
struct Far {
    client: Mutex<Client>,
    lengths: [u64; 6],
    /// Where the next memory is on the bus.
    next: AtomicU64,
}

fn error(operation: &str, error: &impl std::fmt::Display) -> TransportError {
    TransportError::new(ADDRESS, operation, Fault::Unsupported(error.to_string()))
}

impl Far {
    fn at(socket: &Path) -> Arc<Far> {
        let client = Client::new(socket).unwrap();
        let length = |bar| client.region(bar as u32).map_or(0, |region| region.size);
        Arc::new(Far {
            lengths: std::array::from_fn(length),
            client: Mutex::new(client),
            next: AtomicU64::new(0x1_0000_0000),
        })
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, region: u32, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        for (at, part) in (offset..).step_by(MESSAGE).zip(to.chunks_mut(MESSAGE)) {
            let read = self.client().region_read(region, at, part);
            read.map_err(|e| self::error("read", &e))?;
        }
        Ok(())
    }

    fn write(&self, region: u32, offset: u64, from: &[u8]) -> Result<(), TransportError> {
        for (at, part) in (offset..).step_by(MESSAGE).zip(from.chunks(MESSAGE)) {
            let written = self.client().region_write(region, at, part);
            written.map_err(|e| self::error("write", &e))?;
        }
        Ok(())
    }
}

/// A BAR of it.
struct Bar {
    far: Arc<Far>,
    number: u8,
}

impl RemoteWindow for Bar {
    fn len(&self) -> u64 {
        self.far.lengths[usize::from(self.number)]
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        let mut word = [0; 8];
        let to = &mut word[..width.bytes()];
        self.far.read(self.number.into(), offset, to)?;
        Ok(u64::from_le_bytes(word))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        self.far.read(self.number.into(), offset, to)
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        let word = value.to_le_bytes();
        self.far
            .write(self.number.into(), offset, &word[..width.bytes()])
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        pieces
            .iter()
            .try_for_each(|(at, from)| self.far.write(self.number.into(), *at, from))
    }

    fn send(&self) -> Result<(), TransportError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

/// The function of it.
struct Card(Arc<Far>);

impl Pci for Card {
    fn name(&self) -> &str {
        ADDRESS
    }

    fn bar(&self, number: u8) -> Result<Window, TransportError> {
        let far = self.0.clone();
        let bar = Arc::new(Bar { far, number });
        Ok(Window::remote(format!("{ADDRESS} BAR{number}"), bar))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let mut word = [0; 4];
        let to = &mut word[..width.bytes()];
        self.0.read(CONFIG, offset.into(), to)?;
        Ok(u32::from_le_bytes(word))
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let word = value.to_le_bytes();
        self.0.write(CONFIG, offset.into(), &word[..width.bytes()])
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let failed = |errno| TransportError::new(ADDRESS, "dma", Fault::Errno(errno));
        let memory = Arc::new(Mapping::new(bytes).map_err(failed)?);
        let bytes = memory.bytes();
        let align = align.max(0x1000);
        let room = bytes.next_multiple_of(align) + align;
        let addr = self.0.next.fetch_add(room, Ordering::Relaxed);
        let addr = addr.next_multiple_of(align);
        let file = memory.file().unwrap().as_raw_fd();
        let mapped = self.0.client().dma_map(0, addr, bytes, file);
        mapped.map_err(|e| error("dma", &e))?;
        let addr = BusAddr(addr);
        Ok(Dma {
            view: memory.view(),
            ranges: BusRanges::new(Domain::BUS, vec![BusRange { addr, bytes }]),
        })
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        Err(error("reset", &format!("no {kind} reset here")))
    }

    fn wait_irq(&self, _: u32, _: Deadline) -> Result<u64, TransportError> {
        Err(error("wait", &"no interrupts here"))
    }
}

/// What the other process does; here, where nobody has told of a card, nothing.
#[test]
fn the_process_that_is_killed() {
    let Some(socket) = std::env::var_os(SOCKET) else {
        return;
    };
    // What it has of the machine is no card.
    let near = PciMachine::of(&[]).unwrap();
    let far = Far::at(Path::new(&socket));
    let machine: Arc<dyn Machine> = Through::new(&near, Arc::new(Card(far)));
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let interface = drivers_amd::am::open(&machine, ADDRESS, 0, &clock, &options()).unwrap();
    let device = drivers_amd::over(&interface, &options()).unwrap();
    println!("\nit is open");
    let a = memory(&*device, MemoryKind::Device, 1 << 20).unwrap();
    let b = memory(&*device, MemoryKind::Host, 1 << 20).unwrap();
    let copies = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    let copy = Command::Copy {
        dst: at(&b),
        src: at(&a),
        bytes: 1 << 20,
    };
    copies.submit(&[], &[copy]).unwrap().wait(soon()).unwrap();
    println!("\nit has copied");
    // Both queues are busy with what does not come, and copies lie behind it.
    let never = device.signal("what never comes").unwrap();
    let wait = Command::Wait {
        signal: &never,
        value: Val::Const(1),
    };
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    compute.submit(&[], &[wait]).unwrap();
    copies.submit(&[], &[wait, copy]).unwrap();
    println!("\nit is busy");
    loop {
        std::thread::sleep(HANGS);
    }
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum When {
    /// So many things have been waited for in the start of the card.
    Begun(u64),
    /// It has said this.
    Said(&'static str),
}

impl When {
    fn wait(self, child: &mut Child, begun: &AtomicU64) {
        let start = Instant::now();
        match self {
            When::Begun(least) => {
                while begun.load(Ordering::Relaxed) < least {
                    assert!(
                        child.try_wait().unwrap().is_none(),
                        "{self:?}: it has ended"
                    );
                    assert!(start.elapsed() < HANGS, "{self:?}: it hangs");
                    std::thread::yield_now();
                }
            }
            When::Said(text) => {
                let lines = BufReader::new(child.stdout.take().unwrap()).lines();
                let found = lines.map_while(Result::ok).any(|line| line == text);
                assert!(found, "{self:?}: it has ended");
            }
        }
    }
}

fn killed(chip: &str, when: When) {
    let config = Config::of(Chip::of(chip).unwrap());
    let begun = config.begun.clone();
    let twin = PciMachine::of(&[config]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("card");
    let card = twin.open_pci(ADDRESS).unwrap();
    let bus = twin.function(0).unwrap().bus().clone();
    let mut function = Function::new(card, &bus, rom::image(Chip::of(chip).unwrap()));
    std::thread::scope(|scope| {
        // Until nobody is there any more, which is an error where somebody was killed.
        let served = scope.spawn(|| drop(function.serve(&socket)));
        while !socket.exists() {
            assert!(!served.is_finished(), "nobody serves the card");
            std::thread::yield_now();
        }
        let mut child = Run::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::the_process_that_is_killed",
                "--nocapture",
            ])
            .env(SOCKET, &socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        when.wait(&mut child, &begun);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
    });
    unbroken(&twin);
    works(&twin.again(), chip);
    unbroken(&twin);
}

#[test]
fn a_process_is_killed_while_it_starts_a_card() {
    for (chip, begun) in [("gfx1201", 2), ("gfx1100", 12), ("gfx1201", 40)] {
        killed(chip, When::Begun(begun));
    }
}

#[test]
fn a_process_is_killed_while_it_uses_a_card() {
    killed("gfx1201", When::Said("it is open"));
    killed("gfx1100", When::Said("it is busy"));
    killed("gfx1201", When::Said("it is busy"));
}
