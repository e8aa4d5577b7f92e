//! Processes that are killed in the middle of what they do (SIGKILL): the card goes on by itself, and the next process
//! starts it anew.
//!
//! The card lives in this process; the one that is killed reaches it over a socket (vfio-user). Its memory, which the
//! card goes on to write to, is that of drivers-host without an IOMMU ([`Pages`]), in a file of a plain file system in place of
//! hugetlbfs. The card may not touch it once the kernel has it back (`PCI-DMA-FREED`).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command as Run, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use conformance::part::Part as Chosen;
use drivers_amd::AmdDevice;
use drivers_host::pci::pages::{Frames, Pages};
use drivers_host::pci::quiet::Config;
use drivers_host::pci::{Lock, System};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::sync::lock;
use hcq::transport::access::{Access, Answer};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Dma, Fault, Machine, MonotonicClock, Pci, ResetKind, TransportError};
use hcq::wait::Deadline;
use hcq::{Buffer, Command, Device, KernelImage, MemoryKind, Program, QueueKind, Stream, Val};
use tempfile::TempDir;
use twin::host::{Mapping, Part};
use twin::rng::Rng;
use twin_amd::pci::card;
use twin_amd::pci::chip::Chip;
use twin_amd::pci::machine::PciMachine;
use twin_amd::pci::rom;
use twin_vfio::Function;
use vfio_user::Client;

use super::device::{options, unbroken};
use super::stand::{at, kernel, memory, soon, work_on};
use super::through::Through;

const ADDRESS: &str = "0000:03:00.0";
/// The region of configuration space, as VFIO numbers them.
const CONFIG: u32 = 7;
/// What a message of the protocol carries here.
const MESSAGE: usize = 4096;
/// Where the process that is killed finds the card.
const SOCKET: &str = "DOORBELL_TEST_CARD";
/// The files of its machine.
const FOLDER: &str = "DOORBELL_TEST_MACHINE";
/// The chip that it works on without an end.
const WORKS: &str = "DOORBELL_TEST_WORKS";
const HUGE: u64 = 2 << 20;
/// Where huge pages lie of the process that is killed, and of the next one.
const FIRST: u64 = 0x1_0000_0000;
const NEXT: u64 = 0x9_0000_0000;
/// How often a process is killed at any moment.
const KILLS: usize = 200;
/// When a process is killed at last that has not made so many accesses.
const LATE: Duration = Duration::from_secs(5);
/// How long work is under way at most until it is killed, in microseconds.
const LONGEST: usize = 60_000;
/// A card that does not get as far as it should in this time does not at all.
const HANGS: Duration = Duration::from_secs(60);

/// A card behind a socket.
struct Far {
    client: Mutex<Client>,
    lengths: [u64; 6],
}

fn error(operation: &str, error: &impl std::fmt::Display) -> TransportError {
    TransportError::new(ADDRESS, operation, Fault::Unsupported(error.to_string()))
}

impl Far {
    fn at(socket: &Path) -> Arc<Far> {
        // The socket is there a moment before somebody listens.
        let start = Instant::now();
        let client = loop {
            match Client::new(socket) {
                Ok(client) => break client,
                Err(error) => assert!(start.elapsed() < HANGS, "{error}"),
            }
            std::thread::yield_now();
        };
        let length = |bar| client.region(bar as u32).map_or(0, |region| region.size);
        Arc::new(Far {
            lengths: std::array::from_fn(length),
            client: Mutex::new(client),
        })
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        lock(&self.client)
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

impl Config for Card {
    fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let mut word = [0; 4];
        let to = &mut word[..width.bytes()];
        self.0.read(CONFIG, offset.into(), to)?;
        Ok(u32::from_le_bytes(word))
    }

    fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError> {
        let word = value.to_le_bytes();
        self.0.write(CONFIG, offset.into(), &word[..width.bytes()])
    }
}

/// Huge pages as the card's machine has them.
impl Frames for Card {
    fn places(&self, file: &File, offset: u64, view: &View) -> Result<Vec<u64>, Fault> {
        let pages = (offset..offset + view.len() as u64).step_by(HUGE as usize);
        let place = |offset: u64| {
            // Neighbours in the file are none in memory.
            let at = FIRST + (offset ^ HUGE);
            let mapped = self.0.client().dma_map(offset, at, HUGE, file.as_raw_fd());
            mapped.map_err(|error| Fault::Unsupported(error.to_string()))?;
            Ok(at)
        };
        pages.map(place).collect()
    }
}

/// A function as drivers-host has it by sysfs: what it is given of memory lies in huge pages.
struct BySysfs<T> {
    card: Arc<T>,
    bar: Box<dyn Fn(u8) -> Result<Window, TransportError> + Send + Sync>,
    reset: Box<dyn Fn(ResetKind) -> Result<(), TransportError> + Send + Sync>,
    pages: Arc<Pages>,
}

impl<T: Config> Pci for BySysfs<T> {
    fn name(&self) -> &str {
        ADDRESS
    }

    fn bar(&self, number: u8) -> Result<Window, TransportError> {
        (self.bar)(number)
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.card.read(offset, width)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.card.write(offset, width, value)
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let failed = |fault| TransportError::new(ADDRESS, "dma", fault);
        self.pages.dma(bytes, align).map_err(failed)
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        (self.reset)(kind)
    }

    fn wait_irq(&self, _: u32, _: Deadline) -> Result<u64, TransportError> {
        Err(error("wait", &"no interrupts here"))
    }
}

/// Opens the memory of a card on a machine whose files lie in a folder.
fn pages(
    folder: &Path,
    config: Arc<dyn Config>,
    frames: Box<dyn Frames>,
) -> Result<Arc<Pages>, TransportError> {
    let system = System::at(folder);
    let lock = Lock::take(&system, ADDRESS, HANGS).unwrap();
    Pages::new(&system, ADDRESS, config, frames, &Arc::new(lock))
}

/// The files of a machine with huge pages.
fn machine() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    put("proc/mounts", "none /huge hugetlbfs rw,pagesize=2M 0 0\n");
    put(&format!("{pool}/nr_hugepages"), "128\n");
    put(&format!("{pool}/free_hugepages"), "128\n");
    std::fs::create_dir_all(folder.path().join("huge")).unwrap();
    std::fs::create_dir_all(folder.path().join("run/lock")).unwrap();
    folder
}

/// The card, in this process.
struct Near(Arc<twin::pci::Function>);

impl Config for Near {
    fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.0.config_read(offset, width)
    }

    fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError> {
        self.0.config_write(offset, width, value)
    }
}

impl Frames for Near {
    fn places(&self, file: &File, offset: u64, view: &View) -> Result<Vec<u64>, Fault> {
        let pages = (offset..offset + view.len() as u64).step_by(HUGE as usize);
        let place = |offset: u64| {
            let part = Part {
                offset,
                bytes: HUGE,
            };
            let memory = Mapping::of_parts(file.as_fd(), &[part]).map_err(Fault::Errno)?;
            // Not where the process that was killed had its own.
            let at = NEXT + (offset ^ HUGE);
            self.0.bus().memory().add(at, HUGE, Arc::new(memory), 0);
            Ok(at)
        };
        pages.map(place).collect()
    }
}

/// The next process: it opens the card, and works.
fn works_again(twin: &Arc<PciMachine>, folder: &Path, chip: &str) {
    let function = twin.function(0).unwrap().clone();
    let near = Arc::new(Near(function.clone()));
    let frames = Box::new(Near(function.clone()));
    let pages = pages(folder, near.clone(), frames).unwrap();
    let (bars, resets) = (function.clone(), function);
    let card = BySysfs {
        card: near,
        bar: Box::new(move |number| bars.bar(number)),
        reset: Box::new(move |kind| resets.reset(kind)),
        pages,
    };
    let machine: Arc<dyn Machine> = Through::new(&twin.again(), Arc::new(card));
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let backend = drivers_amd::am::open(&machine, ADDRESS, 0, &clock, &options()).unwrap();
    let device = drivers_amd::over(&backend, &options()).unwrap();
    let image = kernel(chip, "sums", 2);
    assert!(work_on(&*device, &image, 0).unwrap(), "{chip}");
}

/// Kernels, copies and fences, on memory of the host, as many as are under way at once.
pub struct Load {
    compute: Stream,
    copies: Stream,
    program: Arc<Program>,
    /// What the kernels read and write, and where the copies lead from and to.
    buffers: [Buffer; 4],
}

impl Load {
    pub fn new(device: &Arc<AmdDevice>, image: &KernelImage) -> hcq::Result<Load> {
        let of = |kind, bytes| memory(&**device, kind, bytes);
        Ok(Load {
            compute: Stream::new(device.queue(QueueKind::Compute, 0)?),
            copies: Stream::new(device.queue(QueueKind::Copy, 0)?),
            program: device.load(image)?,
            buffers: [
                of(MemoryKind::Host, 3 << 20)?,
                of(MemoryKind::Host, 4 * 64)?,
                of(MemoryKind::Device, 1 << 20)?,
                of(MemoryKind::Host, 1 << 20)?,
            ],
        })
    }

    /// Each has a fence behind it. Nobody waits.
    pub fn submit(&self) -> hcq::Result<()> {
        let [read, written, src, dst] = &self.buffers;
        let args = [at(written), at(read)];
        for _ in 0..16 {
            let exec = Command::Exec {
                program: &self.program,
                args: &args,
                grid: [64, 1, 1],
                block: [1, 1, 1],
            };
            self.compute.submit(&[], &[exec])?;
            let (dst, src, bytes) = (at(dst), at(src), 1 << 20);
            self.copies
                .submit(&[], &[Command::Copy { dst, src, bytes }])?;
        }
        Ok(())
    }

    fn wait(&self) -> hcq::Result<()> {
        self.compute.wait(soon())?;
        self.copies.wait(soon())
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
    let folder = std::env::var_os(FOLDER).unwrap();
    let (config, frames) = (Arc::new(Card(far.clone())), Box::new(Card(far.clone())));
    let pages = pages(Path::new(&folder), config.clone(), frames).unwrap();
    let card = BySysfs {
        card: config,
        bar: Box::new(move |number| {
            let far = far.clone();
            let bar = Arc::new(Bar { far, number });
            Ok(Window::remote(format!("{ADDRESS} BAR{number}"), bar))
        }),
        reset: Box::new(|kind| Err(error("reset", &format!("no {kind} reset here")))),
        pages,
    };
    let machine: Arc<dyn Machine> = Through::new(&near, Arc::new(card));
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let backend = drivers_amd::am::open(&machine, ADDRESS, 0, &clock, &options()).unwrap();
    let device = drivers_amd::over(&backend, &options()).unwrap();
    println!("\nit is open");
    if let Some(chip) = std::env::var_os(WORKS) {
        let load = Load::new(&device, &kernel(chip.to_str().unwrap(), "sums", 2)).unwrap();
        loop {
            load.submit().unwrap();
            println!("\nit works");
            load.wait().unwrap();
        }
    }
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
    /// So many accesses have reached the card.
    Accesses(u64),
    /// So long after its first work is under way.
    Works(Duration),
}

impl When {
    /// Who closes what it says ends it: what is returned is kept until it is killed.
    fn wait(self, child: &mut Child, begun: &AtomicU64, accesses: &AtomicU64) -> Option<Said> {
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
            // Looks at what is not there yet are accesses, too: there may be fewer of them. Any moment is one.
            When::Accesses(least) => {
                while accesses.load(Ordering::Relaxed) < least && start.elapsed() < LATE {
                    std::thread::yield_now();
                }
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "{self:?}: it has ended"
                );
            }
            When::Said(text) => return Some(says(child, text)),
            When::Works(more) => {
                let said = says(child, "it works");
                std::thread::sleep(more);
                return Some(said);
            }
        }
        None
    }
}

/// Counts accesses.
#[derive(Default)]
struct Counted(AtomicU64);

impl Tap for Counted {
    fn after(&self, _: &str, _: &Access, _: &mut Result<Answer, Fault>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a process says.
type Said = BufReader<ChildStdout>;

/// Waits for a line.
fn says(child: &mut Child, text: &str) -> Said {
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut lines = said.by_ref().lines().map_while(Result::ok);
    assert!(lines.any(|line| line == text), "{text}: it has ended");
    said
}

/// Kills a process, and says how many accesses had reached the card by then.
fn killed(chip: &str, when: When) -> u64 {
    let works = matches!(when, When::Accesses(_) | When::Works(_)).then_some(chip);
    let config = card::Config::of(Chip::of(chip).unwrap());
    let begun = config.begun.clone();
    let twin = PciMachine::of(&[config]).unwrap();
    let folder = machine();
    let socket = folder.path().join("card");
    let counted = Arc::new(Counted::default());
    let card = Tapped::pci(twin.open_pci(ADDRESS).unwrap(), counted.clone());
    let bus = twin.function(0).unwrap().bus().clone();
    let mut function = Function::new(card, &bus, rom::image(Chip::of(chip).unwrap()));
    let mut accesses = 0;
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
            .env(FOLDER, folder.path())
            .envs(works.map(|chip| (WORKS, chip)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = when.wait(&mut child, &begun, &counted.0);
        accesses = counted.0.load(Ordering::Relaxed);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        drop(said);
        bus.memory().process_ended();
    });
    works_again(&twin, folder.path(), chip);
    unbroken(&twin);
    accesses
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

#[test]
fn a_process_is_killed_at_any_moment_while_the_card_works() {
    let part = Chosen::chosen();
    for (of, chip) in ["gfx1201", "gfx1100"].into_iter().enumerate() {
        // How many accesses start the card.
        let start = killed(chip, When::Said("it is open"));
        let all = (of..KILLS).step_by(2);
        for index in all.filter(|index| part.has(index / 2, 25)) {
            let mut rng = Rng::new(index as u64);
            // One in four before work is under way.
            let when = match index / 2 % 4 {
                0 => When::Accesses(rng.below(start as usize) as u64),
                _ => When::Works(Duration::from_micros(rng.below(LONGEST) as u64)),
            };
            println!("{index}: {chip}, {when:?}");
            killed(chip, when);
        }
    }
}
