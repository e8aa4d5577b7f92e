//! A bridge with a card as a USB device of a virtual machine: speaks the usb-host's side of the protocol usbredir, as
//! QEMU's device `usb-redir` has it behind a socket.
//!
//! usage: usb_redir CONFIG SOCKET     serves one client after the other; takes `unplug` and `plug` as lines; at the end of its
//! input it prints the rules that were broken, one a line
//!
//! Transfers of each endpoint are done in order, those of different endpoints beside each other. What the device does
//! not take is offered until the guest cancels it.
//!
//! Linux 6.12 in QEMU 11.1 has seen it come and go; that it comes again, and what goes over it, no guest has been seen to try.
//!
//! Source: usbredir 0.13, usb-redirection-protocol.md and usbredirproto.h.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

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

/// What this side can: versions of devices, sizes of packets, long identifiers, long transfers.
const CAPABILITIES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6;
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

/// What all threads of a client share.
struct Shared {
    to: Mutex<UnixStream>,
    pipe: Arc<Pipe>,
    cancelled: Mutex<BTreeSet<u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a packet. In the first, numbers of packets have 32 bits.
fn send(to: &Mutex<UnixStream>, kind: u32, id: u64, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut all = Vec::with_capacity(16 + length);
    all.extend(kind.to_le_bytes());
    all.extend((length as u32).to_le_bytes());
    match kind {
        kind::HELLO => all.extend((id as u32).to_le_bytes()),
        _ => all.extend(id.to_le_bytes()),
    }
    parts.iter().for_each(|part| all.extend(*part));
    lock(to).write_all(&all)
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
fn connect(to: &Mutex<UnixStream>, bridge: &Bridge) -> io::Result<()> {
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
    /// Offers a transfer until it is taken, or cancelled.
    fn offer(&self, id: u64, transfer: &mut Transfer<'_>) -> Result<usize, u8> {
        loop {
            if lock(&self.cancelled).remove(&id) {
                return Err(status::CANCELLED);
            }
            match self.pipe.offer(transfer) {
                Some(Ok(moved)) => return Ok(moved),
                Some(Err(Fault::Stall)) => return Err(status::STALL),
                Some(Err(Fault::TimedOut(_))) => {
                    // Nothing ever comes.
                    while !lock(&self.cancelled).remove(&id) {
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
        send(&self.to, kind::CONTROL, packet.id, &[&answer, came])?;
        Ok(())
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
        send(&self.to, kind::BULK, packet.id, &[&answer, came])?;
        Ok(())
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

/// Serves a guest until it goes.
fn serve(
    mut from: UnixStream,
    bridge: &Arc<Bridge>,
    plugged: &Mutex<Option<UnixStream>>,
) -> Done<()> {
    let to = from.try_clone()?;
    *lock(plugged) = Some(from.try_clone()?);
    let mut name = [0; 64];
    name[..18].copy_from_slice(b"doorbell usb_redir");
    let hello = [&name[..], &CAPABILITIES.to_le_bytes()].concat();
    let to = Mutex::new(to);
    send(&to, kind::HELLO, 0, &[&hello])?;
    receive(&mut from, true)?;
    let pipe = bridge.open().ok_or("it is not plugged in")?;
    connect(&to, bridge)?;
    let shared = Arc::new(Shared {
        to,
        pipe,
        cancelled: Mutex::default(),
    });
    let [control, out, into] = [(); 3].map(|()| worker(&shared));
    loop {
        let packet = match receive(&mut from, false) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            packet => packet?,
        };
        let first = packet.data.first().copied().unwrap_or(0);
        match packet.kind {
            kind::CONTROL => control.send(packet)?,
            kind::BULK if first & 0x80 != 0 => into.send(packet)?,
            kind::BULK => out.send(packet)?,
            kind::CANCEL => _ = lock(&shared.cancelled).insert(packet.id),
            kind::RESET => bridge.reset(),
            kind::SET_CONFIGURATION | kind::GET_CONFIGURATION => {
                send(
                    &shared.to,
                    kind::CONFIGURATION,
                    packet.id,
                    &[&[status::SUCCESS, 1]],
                )?;
            }
            kind::SET_SETTING | kind::GET_SETTING => {
                send(
                    &shared.to,
                    kind::SETTING,
                    packet.id,
                    &[&[status::SUCCESS, 0, 0]],
                )?;
            }
            // Filters, and acknowledgements that nobody waits for.
            _ => {}
        }
    }
}

fn main() -> Done<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(config), Some(socket)) = (arguments.next(), arguments.next()) else {
        return Err("usage: usb_redir CONFIG SOCKET".into());
    };
    let machine = UsbMachine::new(&config)?;
    let bridge = machine.bridge(0).ok_or("no bridge")?.clone();
    let listener = UnixListener::bind(socket)?;
    let plugged = Arc::new(Mutex::new(None));
    let (served, shown) = (bridge.clone(), plugged.clone());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if let Err(error) = serve(client, &served, &shown) {
                eprintln!("usb_redir: {error}");
            }
        }
    });
    for line in io::stdin().lock().lines() {
        match line?.as_str() {
            "unplug" => {
                bridge.unplug();
                // The guest sees the device go; it is served anew when it comes back.
                if let Some(client) = lock(&plugged).take() {
                    send(&Mutex::new(client.try_clone()?), kind::DISCONNECT, 0, &[])?;
                    client.shutdown(std::net::Shutdown::Both)?;
                }
            }
            "plug" => bridge.plug(),
            other => eprintln!("usb_redir: '{other}': expected unplug or plug"),
        }
    }
    for broken in machine.journal().violations() {
        println!("{}: {}", broken.rule.name, broken.what.replace('\n', " "));
    }
    Ok(())
}
