//! Cards for a driver in another process: serves the protocol by which tinygrad reaches PCI devices of another
//! machine (`REMOTE=127.0.0.1:PORT`), so that its driver runs as it is.
//!
//! usage: pci_remote CONFIG     prints `port N`; at the end of its input the rules that were broken, one a line
//!
//! A client that goes leaves the cards as they are; its memory goes with it.
//!
//! Source: tinygrad 0.14.0, runtime/support/system.py, `RemoteCmd` and `RemotePCIDevice`.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use drivers_spec::pci::{Command, PCI_COMMAND};
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Dma, Machine, Pci, ResetKind};
use twin_amd::pci::machine::PciMachine;

type Done<T> = Result<T, Box<dyn Error>>;

/// Commands.
mod cmd {
    pub const PROBE: u8 = 0;
    pub const MAP_BAR: u8 = 1;
    pub const CFG_READ: u8 = 3;
    pub const CFG_WRITE: u8 = 4;
    pub const RESET: u8 = 5;
    pub const MMIO_READ: u8 = 6;
    pub const MMIO_WRITE: u8 = 7;
    pub const MAP_SYSMEM: u8 = 8;
    pub const SYSMEM_READ: u8 = 9;
    pub const SYSMEM_WRITE: u8 = 10;
    pub const RESIZE_BAR: u8 = 11;
    pub const PING: u8 = 12;
}

/// The most that a request may carry.
const MOST: u64 = 1 << 30;
const PAGE: u64 = 4096;

struct Request {
    command: u8,
    device: usize,
    bar: u32,
    arguments: [u64; 3],
}

impl Request {
    fn read(from: &mut impl Read) -> io::Result<Request> {
        let mut bytes = [0; 33];
        from.read_exact(&mut bytes)?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let wide = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Ok(Request {
            command: bytes[0],
            device: word(1) as usize,
            bar: word(5),
            arguments: [wide(9), wide(17), wide(25)],
        })
    }
}

/// A client: the cards that it reaches, and the memory that it has been given.
struct Client {
    cards: Vec<Arc<dyn Pci>>,
    bars: Vec<Vec<(u32, u64, u64)>>,
    devices: Vec<u16>,
    memory: Vec<Dma>,
}

impl Client {
    fn new(machine: &PciMachine) -> Done<Client> {
        let found = machine.pci_functions()?;
        let cards = found.iter().map(|card| machine.open_pci(&card.address));
        let cards = cards.collect::<Result<Vec<_>, _>>()?;
        for card in &cards {
            // As the system does for who opens a function (`enable` in sysfs).
            let command = card.config_read(PCI_COMMAND, AccessWidth::W16)?;
            let on = command | u32::from(Command::MEMORY.bits());
            card.config_write(PCI_COMMAND, AccessWidth::W16, on)?;
        }
        Ok(Client {
            cards,
            bars: found
                .iter()
                .map(|card| {
                    let bars = card.bars.iter();
                    bars.map(|bar| (u32::from(bar.number), bar.start, bar.bytes))
                        .collect()
                })
                .collect(),
            devices: found.iter().map(|card| card.device).collect(),
            memory: Vec::new(),
        })
    }

    fn card(&self, request: &Request) -> Done<&Arc<dyn Pci>> {
        let card = self.cards.get(request.device);
        card.ok_or_else(|| format!("no device {}", request.device).into())
    }

    fn window(&self, request: &Request) -> Done<Window> {
        Ok(self.card(request)?.bar(u8::try_from(request.bar)?)?)
    }

    fn memory(&self, request: &Request) -> Done<&Dma> {
        let memory = self.memory.get(request.bar as usize);
        memory.ok_or_else(|| format!("no memory {}", request.bar).into())
    }

    /// The cards that a client asks for: those of AMD whose device fits a pair of a mask and what is left.
    fn names(&self, vendor: u64, pairs: &[u8]) -> Vec<u8> {
        let pairs = pairs.chunks_exact(8).map(|pair| {
            let half = |at: usize| u16::from_le_bytes([pair[at], pair[at + 1]]);
            (half(0), half(4))
        });
        let pairs: Vec<_> = pairs.collect();
        let meant =
            |device: u16| vendor == 0x1002 && pairs.iter().any(|(mask, of)| device & mask == *of);
        let all = self.devices.iter().enumerate();
        let names = all.filter(|(_, device)| meant(**device));
        let names: Vec<_> = names.map(|(i, _)| i.to_string()).collect();
        names.join("\n").into_bytes()
    }

    /// What is answered, and what follows it.
    fn answer(&mut self, request: &Request, payload: &[u8]) -> Done<(u64, u64, Vec<u8>)> {
        let [first, second, third] = request.arguments;
        let width = |bytes: u64| {
            let width = usize::try_from(bytes)
                .ok()
                .and_then(AccessWidth::from_bytes);
            width.ok_or_else(|| format!("an access of {bytes} bytes"))
        };
        Ok(match request.command {
            cmd::PROBE => {
                let names = self.names(third, payload);
                (names.len() as u64, 0, names)
            }
            cmd::MAP_BAR => {
                let bars = self.bars.get(request.device).map_or(&[][..], Vec::as_slice);
                let bar = bars.iter().find(|(number, ..)| *number == request.bar);
                let (_, start, bytes) = bar.ok_or_else(|| format!("no BAR {}", request.bar))?;
                (*start, *bytes, Vec::new())
            }
            cmd::CFG_READ => {
                let card = self.card(request)?;
                let value = card.config_read(u16::try_from(first)?, width(second)?)?;
                (value.into(), 0, Vec::new())
            }
            cmd::CFG_WRITE => {
                let (at, value) = (u16::try_from(first)?, u32::try_from(third)?);
                self.card(request)?
                    .config_write(at, width(second)?, value)?;
                (0, 0, Vec::new())
            }
            cmd::RESET => {
                self.card(request)?.reset(ResetKind::Function)?;
                (0, 0, Vec::new())
            }
            cmd::MMIO_READ => {
                let window = self.window(request)?;
                let mut bytes = vec![0; usize::try_from(second)?];
                if request.bar == 5 {
                    for (at, word) in (first..).step_by(4).zip(bytes.chunks_exact_mut(4)) {
                        word.copy_from_slice(&window.read::<u32>(at)?.to_le_bytes());
                    }
                } else {
                    window.read_bytes(first, &mut bytes)?;
                }
                (0, 0, bytes)
            }
            cmd::MMIO_WRITE => {
                let window = self.window(request)?;
                match (request.bar, payload) {
                    (5, _) => {
                        for (at, word) in (first..).step_by(4).zip(payload.as_chunks::<4>().0) {
                            window.write(at, u32::from_le_bytes(*word))?;
                        }
                    }
                    (2, _) => {
                        for (at, bell) in (first..).step_by(8).zip(payload.as_chunks::<8>().0) {
                            window.write(at, u64::from_le_bytes(*bell))?;
                        }
                    }
                    _ => window.write_many(&[(first, payload)])?,
                }
                (0, 0, Vec::new())
            }
            cmd::MAP_SYSMEM => {
                let align = match second {
                    0 => PAGE,
                    _ => first.next_power_of_two(),
                };
                let dma = self.card(request)?.dma(first, align)?;
                let ranges = dma.ranges.for_domain(hcq::addr::Domain::BUS)?;
                let pages = ranges.iter().flat_map(|range| {
                    let pages = (0..range.bytes).step_by(PAGE as usize);
                    pages.map(|at| range.addr.0 + at)
                });
                let pages = pages.take(first.div_ceil(PAGE) as usize);
                let bytes: Vec<u8> = pages.flat_map(u64::to_le_bytes).collect();
                self.memory.push(dma);
                (bytes.len() as u64, self.memory.len() as u64 - 1, bytes)
            }
            cmd::SYSMEM_READ => {
                let mut bytes = vec![0; usize::try_from(second)?];
                let view = &self.memory(request)?.view;
                view.copy_to_slice(usize::try_from(first)?, &mut bytes)?;
                (0, 0, bytes)
            }
            cmd::SYSMEM_WRITE => {
                let view = &self.memory(request)?.view;
                view.copy_from_slice(usize::try_from(first)?, payload)?;
                (0, 0, Vec::new())
            }
            cmd::RESIZE_BAR | cmd::PING => (0, 0, Vec::new()),
            other => return Err(format!("no command {other}").into()),
        })
    }
}

/// Serves a client until it goes.
fn serve(mut socket: TcpStream, machine: &PciMachine) -> Done<()> {
    socket.set_nodelay(true)?;
    let mut client = Client::new(machine)?;
    let mut from = io::BufReader::new(socket.try_clone()?);
    loop {
        let request = match Request::read(&mut from) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        };
        let writes = [cmd::MMIO_WRITE, cmd::SYSMEM_WRITE].contains(&request.command);
        let more = match request.command {
            _ if writes => request.arguments[1],
            cmd::PROBE => request.arguments[1],
            _ => 0,
        };
        if more > MOST {
            return Err(format!("a request with {more} bytes").into());
        }
        let mut payload = vec![0; more as usize];
        from.read_exact(&mut payload)?;
        let answer = client.answer(&request, &payload);
        if writes {
            // Nobody waits for these.
            if let Err(error) = answer {
                eprintln!("pci_remote: {error}");
            }
            continue;
        }
        let (status, first, second, rest) = match answer {
            Ok((first, second, rest)) => (0, first, second, rest),
            Err(error) => {
                let text = error.to_string().into_bytes();
                (1, text.len() as u64, 0, text)
            }
        };
        let mut reply = vec![status];
        reply.extend(first.to_le_bytes());
        reply.extend(second.to_le_bytes());
        reply.extend(rest);
        socket.write_all(&reply)?;
    }
}

fn main() -> Done<()> {
    let config = std::env::args().nth(1).unwrap_or_default();
    let machine = PciMachine::new(&config)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("port {}", listener.local_addr()?.port());
    let clients = machine.again();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let machine = clients.clone();
            thread::spawn(move || {
                if let Err(error) = serve(socket, &machine) {
                    eprintln!("pci_remote: {error}");
                }
            });
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    for broken in machine.journal().violations() {
        println!("{}: {}", broken.rule.name, broken.what.replace('\n', " "));
    }
    Ok(())
}
