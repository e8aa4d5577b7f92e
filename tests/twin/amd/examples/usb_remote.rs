//! Bridges with cards for programs that use libusb: serves what `tests/twin/libusb` asks, so that drivers in other
//! processes run as they are.
//!
//! usage: usb_remote CONFIG     prints `port N`; takes `unplug` and `plug` as lines; at the end of its input it prints
//! the rules that were broken, one a line
//!
//! A client that goes leaves bridges and cards as they are. The protocol (numbers with their lowest byte first): a
//! request is a command, a byte, and a word.
//!
//! | command | byte | word | answer |
//! |---|---|---|---|
//! | 0, list | | | how many; each: bus, number, speed (4 bytes), descriptor (18 bytes) |
//! | 1, open | number of the device | | result |
//! | 2, transfer | | how many; each: endpoint, setup (8 bytes), limit in ms, bytes, data where they go out | each: result; bytes where they come in |
//! | 3, clear a halt | endpoint | | result |
//! | 4, reset | | | result |
//!
//! A result is a word: what moved, or below zero an error as libusb has it.

use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hcq::transport::{Fault, Setup, Transfer, UsbPipe};
use twin::usb::{Bridge, Pipe};
use twin_amd::usb::UsbMachine;

type Done<T> = Result<T, Box<dyn Error>>;

/// The most that a transfer may carry.
const MOST: u32 = 64 << 20;

/// Errors, as libusb numbers them. Source: libusb 1.0, libusb.h, `libusb_error`.
mod code {
    pub const IO: i32 = -1;
    pub const NO_DEVICE: i32 = -4;
    pub const TIMEOUT: i32 = -7;
    pub const PIPE: i32 = -9;
}

fn number(fault: &Fault) -> i32 {
    match fault {
        Fault::Gone => code::NO_DEVICE,
        Fault::TimedOut(_) => code::TIMEOUT,
        Fault::Stall => code::PIPE,
        _ => code::IO,
    }
}

struct Client<'a> {
    machine: &'a UsbMachine,
    from: io::BufReader<TcpStream>,
    bridge: Option<(Arc<Bridge>, Arc<Pipe>)>,
}

/// What a client has asked for.
struct Wanted {
    endpoint: u8,
    setup: Setup,
    limit: Duration,
    data: Vec<u8>,
}

impl Wanted {
    fn comes_in(&self) -> bool {
        let kind = if self.endpoint == 0 {
            self.setup.request_type
        } else {
            self.endpoint
        };
        kind & 0x80 != 0
    }

    fn transfer(&mut self) -> (Transfer<'_>, Duration) {
        let comes_in = self.comes_in();
        let transfer = match (self.endpoint, comes_in) {
            (0, true) => Transfer::ControlIn(self.setup, &mut self.data),
            (0, false) => Transfer::ControlOut(self.setup, &self.data),
            (endpoint, true) => Transfer::BulkIn(endpoint, &mut self.data),
            (endpoint, false) => Transfer::BulkOut(endpoint, &self.data),
        };
        (transfer, self.limit)
    }
}

impl Client<'_> {
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn word(&mut self) -> io::Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn wanted(&mut self) -> Done<Wanted> {
        let [endpoint] = self.bytes()?;
        let setup: [u8; 8] = self.bytes()?;
        let half = |at: usize| u16::from_le_bytes([setup[at], setup[at + 1]]);
        let (limit, bytes) = (self.word()?, self.word()?);
        if bytes > MOST {
            return Err(format!("a transfer of {bytes} bytes").into());
        }
        let mut wanted = Wanted {
            endpoint,
            setup: Setup {
                request_type: setup[0],
                request: setup[1],
                value: half(2),
                index: half(4),
            },
            limit: Duration::from_millis(limit.into()),
            data: vec![0; bytes as usize],
        };
        if !wanted.comes_in() {
            self.from.read_exact(&mut wanted.data)?;
        }
        Ok(wanted)
    }

    fn list(&self) -> Vec<u8> {
        // A bridge that is out may be back at a look.
        _ = hcq::transport::Machine::usb_devices(self.machine);
        let all = (0..).map_while(|n| self.machine.bridge(n));
        let mut found = Vec::new();
        let mut count = 0u32;
        for bridge in all {
            if let Some(about) = bridge.found() {
                count += 1;
                found.extend([about.bus, about.number]);
                found.extend(about.speed.to_le_bytes());
                found.extend(bridge.descriptor());
            }
        }
        [&count.to_le_bytes()[..], &found].concat()
    }

    fn open(&mut self, number: u8) -> i32 {
        let mut all = (0..).map_while(|n| self.machine.bridge(n));
        let meant =
            |bridge: &&Arc<Bridge>| bridge.found().is_some_and(|found| found.number == number);
        let bridge = all.find(meant).cloned();
        self.bridge = bridge.and_then(|bridge| bridge.open().map(|pipe| (bridge, pipe)));
        if self.bridge.is_some() {
            0
        } else {
            code::NO_DEVICE
        }
    }

    fn answer(&mut self, command: u8, byte: u8, word: u32) -> Done<Vec<u8>> {
        let pipe = self.bridge.clone();
        let done = |result: i32| result.to_le_bytes().to_vec();
        let gone = || done(code::NO_DEVICE);
        Ok(match command {
            0 => self.list(),
            1 => done(self.open(byte)),
            2 => {
                let all = (0..word).map(|_| self.wanted());
                let mut all = all.collect::<Done<Vec<_>>>()?;
                let results = match &pipe {
                    Some((_, pipe)) => {
                        let mut transfers: Vec<_> = all.iter_mut().map(Wanted::transfer).collect();
                        pipe.each(&mut transfers)
                    }
                    None => all.iter().map(|_| Err(Fault::Gone)).collect(),
                };
                let mut answer = Vec::new();
                for (wanted, result) in all.iter().zip(&results) {
                    let moved = result.as_ref().map(|moved| *moved);
                    let code = moved
                        .as_ref()
                        .map_or_else(|fault| number(fault), |moved| *moved as i32);
                    answer.extend(code.to_le_bytes());
                    if wanted.comes_in() {
                        answer.extend(&wanted.data[..moved.unwrap_or(0)]);
                    }
                }
                answer
            }
            3 => pipe.map_or_else(gone, |(_, pipe)| {
                let cleared = pipe.clear_halt(byte);
                done(cleared.map_or_else(|error| number(&error.fault), |()| 0))
            }),
            4 => pipe.map_or_else(gone, |(bridge, _)| {
                bridge.reset();
                done(0)
            }),
            other => return Err(format!("no command {other}").into()),
        })
    }
}

/// Serves a client until it goes.
fn serve(mut socket: TcpStream, machine: &UsbMachine) -> Done<()> {
    socket.set_nodelay(true)?;
    let mut client = Client {
        machine,
        from: io::BufReader::new(socket.try_clone()?),
        bridge: None,
    };
    loop {
        let [command, byte] = match client.bytes() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        };
        let word = client.word()?;
        let answer = client.answer(command, byte, word)?;
        socket.write_all(&answer)?;
    }
}

fn main() -> Done<()> {
    let config = std::env::args().nth(1).unwrap_or_default();
    let machine = UsbMachine::new(&config)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("port {}", listener.local_addr()?.port());
    let clients = machine.again();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let machine = clients.clone();
            thread::spawn(move || {
                if let Err(error) = serve(socket, &machine) {
                    eprintln!("usb_remote: {error}");
                }
            });
        }
    });
    for line in io::stdin().lock().lines() {
        let bridge = machine.bridge(0).ok_or("no bridge")?;
        match line?.as_str() {
            "unplug" => bridge.unplug(),
            "plug" => bridge.plug(),
            other => eprintln!("usb_remote: '{other}': expected unplug or plug"),
        }
    }
    for broken in machine.journal().violations() {
        println!("{}: {}", broken.rule.name, broken.what.replace('\n', " "));
    }
    Ok(())
}
