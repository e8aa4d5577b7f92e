//! Bridges with cards as USB devices of a virtual machine: speaks the usb-host's side of the protocol usbredir, as
//! QEMU's device `usb-redir` has it behind a socket.
//!
//! usage: usb_redir CONFIG SOCKET...     a bridge behind each socket, which serves one client after the other; takes `unplug`
//! and `plug` as lines, which are about the first of them; at the end of its input it prints the rules that were broken, one a line
//!
//! Transfers of each endpoint are done in order, those of different endpoints beside each other. What the device does
//! not take is offered until the guest cancels it. A cable that is pulled out is no end of the connection: the device
//! goes, and comes again over the same one.
//!
//! Source: usbredir 0.13, usb-redirection-protocol.md and usbredirproto.h.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hcq::sync::lock;
use hcq::transport::{Fault, Setup, Transfer, UsbPipe};
use twin::usb::{Bridge, Pipe};
use twin_amd::usb::UsbMachine;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Kinds of packets.
mod kind {
    pub const HELLO: u32 = 0;
    pub const CONNECT: u32 = 1;
    pub const DISCONNECT: u32 = 2;
    pub const RESET: u32 = 3;
    pub const INTERFACES: u32 = 4;
    pub const ENDPOINTS: u32 = 5;
    pub const SET_CONFIGURATION: u32 = 6;
    pub const GET_CONFIGURATION: u32 = 7;
    pub const CONFIGURATION: u32 = 8;
    pub const SET_SETTING: u32 = 9;
    pub const GET_SETTING: u32 = 10;
    pub const SETTING: u32 = 11;
    pub const CANCEL: u32 = 21;
    pub const DISCONNECTED: u32 = 24;
    pub const CONTROL: u32 = 100;
    pub const BULK: u32 = 101;
}

/// What came of a transfer.
mod status {
    pub const SUCCESS: u8 = 0;
    pub const CANCELLED: u8 = 1;
    pub const ERROR: u8 = 3;
    pub const STALL: u8 = 4;
}

/// That the guest says when it knows that a device has gone.
const ACKNOWLEDGES: u32 = 1 << 3;
/// What this side can: versions of devices, that, sizes of packets, long identifiers, long transfers.
const CAPABILITIES: u32 = 1 << 1 | ACKNOWLEDGES | 1 << 4 | 1 << 5 | 1 << 6;
/// Bytes of a name, which is before the capabilities in the first packet.
const NAME: usize = 64;
/// The most that a packet may carry.
const MOST: u32 = 64 << 20;
/// How long an offer that was not taken is apart from the next.
const NAP: Duration = Duration::from_micros(50);

/// A packet of the guest's: its kind, its number, what it carries.
struct Packet {
    kind: u32,
    id: u64,
    data: Vec<u8>,
}

/// A guest that is connected.
struct Client {
    to: Arc<Mutex<UnixStream>>,
    bridge: Arc<Bridge>,
    acknowledges: bool,
    device: Mutex<Device>,
}

/// What a guest has of the bridge.
enum Device {
    There(Session),
    /// It was told that it went, and has not said yet that it knows.
    Going,
    Away,
}

/// The bridge from the time that it is plugged in until it is not: a thread for each of its endpoints.
struct Session {
    shared: Arc<Shared>,
    control: Sender<Packet>,
    out: Sender<Packet>,
    into: Sender<Packet>,
}

/// What the threads of a session share.
struct Shared {
    to: Arc<Mutex<UnixStream>>,
    pipe: Arc<Pipe>,
    /// Transfers that the guest has not had an answer to, and whether it has taken them back. It uses their numbers
    /// again.
    under_way: Mutex<BTreeMap<u64, bool>>,
    /// Set with the guest's end locked: nothing of this session is sent after that.
    is_over: AtomicBool,
}

/// Sends a packet. In the first, numbers of packets have 32 bits.
fn send(to: &mut UnixStream, kind: u32, id: u64, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut all = Vec::with_capacity(16 + length);
    all.extend(kind.to_le_bytes());
    all.extend((length as u32).to_le_bytes());
    match kind {
        kind::HELLO => all.extend((id as u32).to_le_bytes()),
        _ => all.extend(id.to_le_bytes()),
    }
    parts.iter().for_each(|part| all.extend(*part));
    to.write_all(&all)
}

fn receive(from: &mut UnixStream, is_first: bool) -> io::Result<Packet> {
    let mut header = [0; 16];
    let bytes = if is_first { 12 } else { 16 };
    from.read_exact(&mut header[..bytes])?;
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    let (kind, length) = (word(0), word(4));
    if length > MOST {
        return Err(io::Error::other(format!("a packet of {length} bytes")));
    }
    let mut data = vec![0; length as usize];
    from.read_exact(&mut data)?;
    Ok(Packet {
        kind,
        id: u64::from(word(8)) | u64::from(word(12)) << 32,
        data,
    })
}

/// Says what the device is.
fn connect(to: &mut UnixStream, bridge: &Bridge) -> io::Result<()> {
    let descriptor = bridge.descriptor();
    let speed = bridge
        .found()
        .map_or(255, |found| if found.speed == 480 { 2 } else { 3 });
    let packet: u16 = if speed == 2 { 512 } else { 1024 };
    // One interface of a vendor's class.
    let mut interfaces = vec![0; 4 + 4 * 32];
    interfaces[0] = 1;
    [36, 68, 100]
        .into_iter()
        .for_each(|at| interfaces[at] = 0xff);
    // By number, those to the host behind the others: kinds, intervals, interfaces, sizes.
    let mut endpoints = vec![0; 32 * (1 + 1 + 1 + 2)];
    endpoints[..32].fill(255);
    for number in [0x02, 0x11] {
        endpoints[number] = 2;
        let at = 96 + 2 * number;
        endpoints[at..at + 2].copy_from_slice(&packet.to_le_bytes());
    }
    for number in [0x00, 0x10] {
        endpoints[number] = 0;
    }
    send(to, kind::INTERFACES, 0, &[&interfaces])?;
    send(to, kind::ENDPOINTS, 0, &[&endpoints])?;
    // Class, subclass, protocol, vendor, product, version: as in the descriptor.
    let about = [&[speed][..], &descriptor[4..7], &descriptor[8..14]].concat();
    send(to, kind::CONNECT, 0, &[&about])
}

impl Shared {
    fn answer(&self, kind: u32, id: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut to = lock(&self.to);
        lock(&self.under_way).remove(&id);
        match self.is_over.load(Ordering::Acquire) {
            true => Ok(()),
            false => send(&mut to, kind, id, parts),
        }
    }

    fn is_cancelled(&self, id: u64) -> bool {
        lock(&self.under_way).get(&id) == Some(&true)
    }

    /// Offers a transfer until it is taken, or cancelled.
    fn offer(&self, id: u64, transfer: &mut Transfer<'_>) -> Result<usize, u8> {
        loop {
            if self.is_cancelled(id) {
                return Err(status::CANCELLED);
            }
            match self.pipe.offer(transfer) {
                Some(Ok(moved)) => return Ok(moved),
                Some(Err(Fault::Stall)) => return Err(status::STALL),
                Some(Err(Fault::TimedOut(_))) => {
                    // Nothing ever comes.
                    while !self.is_cancelled(id) {
                        if self.is_over.load(Ordering::Acquire) {
                            return Err(status::ERROR);
                        }
                        thread::sleep(NAP);
                    }
                    return Err(status::CANCELLED);
                }
                Some(Err(_)) => return Err(status::ERROR),
                None => thread::sleep(NAP),
            }
        }
    }

    fn control(&self, packet: Packet) -> Done<()> {
        let header: [u8; 10] = packet
            .data
            .get(..10)
            .ok_or("a short control packet")?
            .try_into()?;
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let setup = Setup {
            request_type: header[2],
            request: header[1],
            value: half(4),
            index: half(6),
        };
        let is_in = header[0] & 0x80 != 0;
        let mut data = match is_in {
            true => vec![0; usize::from(half(8))],
            false => packet.data[10..].to_vec(),
        };
        let result = match (setup.request_type, setup.request) {
            // The guest's own call.
            (0x02, 1) if setup.value == 0 => {
                let cleared = self.pipe.clear_halt(setup.index as u8);
                cleared.map(|()| 0).map_err(|_| status::STALL)
            }
            _ if is_in => self.offer(packet.id, &mut Transfer::ControlIn(setup, &mut data)),
            _ => self.offer(packet.id, &mut Transfer::ControlOut(setup, &data)),
        };
        let mut answer = header;
        let (status, moved) =
            result.map_or_else(|status| (status, 0), |moved| (status::SUCCESS, moved));
        answer[3] = status;
        answer[8..].copy_from_slice(&(moved as u16).to_le_bytes());
        let came = if is_in { &data[..moved] } else { &[] };
        Ok(self.answer(kind::CONTROL, packet.id, &[&answer, came])?)
    }

    fn bulk(&self, packet: Packet) -> Done<()> {
        let header: [u8; 10] = packet
            .data
            .get(..10)
            .ok_or("a short bulk packet")?
            .try_into()?;
        let half = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (endpoint, bytes) = (header[0], half(2) | half(8) << 16);
        let is_in = endpoint & 0x80 != 0;
        let mut data = match is_in {
            true => vec![0; bytes],
            false => packet.data[10..].to_vec(),
        };
        let result = match is_in {
            true => self.offer(packet.id, &mut Transfer::BulkIn(endpoint, &mut data)),
            false => self.offer(packet.id, &mut Transfer::BulkOut(endpoint, &data)),
        };
        let mut answer = header;
        let (status, moved) =
            result.map_or_else(|status| (status, 0), |moved| (status::SUCCESS, moved));
        answer[1] = status;
        let length = (moved as u32).to_le_bytes();
        answer[2..4].copy_from_slice(&length[..2]);
        answer[8..].copy_from_slice(&length[2..]);
        let came = if is_in { &data[..moved] } else { &[] };
        Ok(self.answer(kind::BULK, packet.id, &[&answer, came])?)
    }
}

/// A thread that does the transfers of an endpoint, one after the other.
fn worker(shared: &Arc<Shared>) -> Sender<Packet> {
    let (give, take): (Sender<Packet>, Receiver<Packet>) = mpsc::channel();
    let shared = shared.clone();
    thread::spawn(move || {
        for packet in take {
            let done = match packet.kind {
                kind::CONTROL => shared.control(packet),
                _ => shared.bulk(packet),
            };
            if let Err(error) = done {
                eprintln!("usb_redir: {error}");
            }
        }
    });
    give
}

impl Client {
    /// Greets a guest.
    fn greet(mut stream: UnixStream, bridge: &Arc<Bridge>) -> Done<Client> {
        let mut hello = vec![0; NAME];
        hello[..18].copy_from_slice(b"doorbell usb_redir");
        hello.extend(CAPABILITIES.to_le_bytes());
        send(&mut stream, kind::HELLO, 0, &[&hello])?;
        let theirs = receive(&mut stream, true)?.data;
        let word: Option<[u8; 4]> = theirs.get(NAME..NAME + 4).and_then(|w| w.try_into().ok());
        let theirs = word.map_or(0, u32::from_le_bytes);
        Ok(Client {
            to: Arc::new(Mutex::new(stream)),
            bridge: bridge.clone(),
            acknowledges: theirs & ACKNOWLEDGES != 0,
            device: Mutex::new(Device::Away),
        })
    }

    /// Has the guest see what has become of the bridge.
    fn follow(&self) -> io::Result<()> {
        let mut device = lock(&self.device);
        let mut to = lock(&self.to);
        let is_there = self.bridge.found().is_some();
        if let Device::There(session) = &*device
            && !is_there
        {
            session.shared.is_over.store(true, Ordering::Release);
            send(&mut to, kind::DISCONNECT, 0, &[])?;
            *device = match self.acknowledges {
                true => Device::Going,
                false => Device::Away,
            };
        }
        if let Device::Away = &*device
            && let Some(pipe) = self.bridge.open()
        {
            connect(&mut to, &self.bridge)?;
            *device = Device::There(Session::new(&self.to, pipe));
        }
        Ok(())
    }

    /// Serves the guest until it goes.
    fn serve(&self) -> Done<()> {
        let mut from = lock(&self.to).try_clone()?;
        self.follow()?;
        loop {
            let packet = match receive(&mut from, false) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                packet => packet?,
            };
            if packet.kind == kind::DISCONNECTED {
                *lock(&self.device) = Device::Away;
                self.follow()?;
            } else if let Device::There(session) = &*lock(&self.device) {
                session.take(packet, &self.bridge)?;
            }
        }
    }
}

impl Session {
    fn new(to: &Arc<Mutex<UnixStream>>, pipe: Arc<Pipe>) -> Session {
        let shared = Arc::new(Shared {
            to: to.clone(),
            pipe,
            under_way: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let [control, out, into] = [(); 3].map(|()| worker(&shared));
        Session {
            shared,
            control,
            out,
            into,
        }
    }

    fn take(&self, packet: Packet, bridge: &Bridge) -> Done<()> {
        let first = packet.data.first().copied().unwrap_or(0);
        let shared = &self.shared;
        if let kind::CONTROL | kind::BULK = packet.kind {
            lock(&shared.under_way).insert(packet.id, false);
        }
        match packet.kind {
            kind::CONTROL => self.control.send(packet)?,
            kind::BULK if first & 0x80 != 0 => self.into.send(packet)?,
            kind::BULK => self.out.send(packet)?,
            kind::CANCEL => {
                if let Some(cancelled) = lock(&shared.under_way).get_mut(&packet.id) {
                    *cancelled = true;
                }
            }
            kind::RESET => bridge.reset(),
            kind::SET_CONFIGURATION | kind::GET_CONFIGURATION => {
                shared.answer(kind::CONFIGURATION, packet.id, &[&[status::SUCCESS, 1]])?;
            }
            kind::SET_SETTING | kind::GET_SETTING => {
                shared.answer(kind::SETTING, packet.id, &[&[status::SUCCESS, 0, 0]])?;
            }
            // Filters.
            _ => {}
        }
        Ok(())
    }
}

/// Serves one guest after the other.
fn listen(listener: &UnixListener, bridge: &Arc<Bridge>, guest: &Mutex<Option<Arc<Client>>>) {
    for stream in listener.incoming().flatten() {
        let served = Client::greet(stream, bridge).and_then(|client| {
            let client = Arc::new(client);
            *lock(guest) = Some(client.clone());
            client.serve()
        });
        *lock(guest) = None;
        if let Err(error) = served {
            eprintln!("usb_redir: {error}");
        }
    }
}

fn main() -> Done<()> {
    let mut arguments = std::env::args().skip(1);
    let config = arguments.next().unwrap_or_default();
    let machine = UsbMachine::new(&config)?;
    let mut cables = Vec::new();
    for (number, socket) in arguments.enumerate() {
        let none = || format!("{socket}: the config has {number} bridges (gpus=)");
        let bridge = machine.bridge(number).ok_or_else(none)?.clone();
        let listener = UnixListener::bind(&socket)?;
        let guest = Arc::new(Mutex::new(None::<Arc<Client>>));
        let (served, seen) = (bridge.clone(), guest.clone());
        thread::spawn(move || listen(&listener, &served, &seen));
        cables.push((bridge, guest));
    }
    let Some((bridge, guest)) = cables.first() else {
        return Err("usage: usb_redir CONFIG SOCKET...".into());
    };
    for line in io::stdin().lock().lines() {
        match line?.as_str() {
            "unplug" => bridge.unplug(),
            "plug" => bridge.plug(),
            other => eprintln!("usb_redir: '{other}': expected unplug or plug"),
        }
        if let Some(client) = &*lock(guest) {
            client.follow()?;
        }
    }
    for broken in machine.journal().violations() {
        println!("{}: {}", broken.rule.name, broken.what.replace('\n', " "));
    }
    Ok(())
}
