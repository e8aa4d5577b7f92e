//! The way to the simulated machine: the protocol of `usb_remote`, an example of `twin-amd`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

/// The variable that says where it listens, `host:port`.
const VARIABLE: &str = "DOORBELL_USB";

/// A device, as a list of them has it.
pub(crate) struct About {
    pub(crate) bus: u8,
    pub(crate) number: u8,
    /// In Mbit/s.
    pub(crate) speed: u32,
    pub(crate) descriptor: [u8; 18],
}

/// A transfer to be done.
pub(crate) struct Wanted {
    /// 0 for control.
    pub(crate) endpoint: u8,
    pub(crate) setup: [u8; 8],
    /// In ms.
    pub(crate) limit: u32,
    /// What goes out, or room for what comes in.
    pub(crate) data: Vec<u8>,
}

impl Wanted {
    pub(crate) fn comes_in(&self) -> bool {
        let kind = if self.endpoint == 0 {
            self.setup[0]
        } else {
            self.endpoint
        };
        kind & 0x80 != 0
    }
}

/// A connection: one for each device that is open.
pub(crate) struct Wire(Mutex<TcpStream>);

struct Answer<'a>(&'a mut TcpStream);

impl Answer<'_> {
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn word(&mut self) -> io::Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn result(&mut self) -> io::Result<i32> {
        self.bytes().map(i32::from_le_bytes)
    }
}

impl Wire {
    pub(crate) fn new() -> io::Result<Wire> {
        let to = std::env::var(VARIABLE).map_err(|_| {
            io::Error::new(io::ErrorKind::NotFound, format!("{VARIABLE} is not set"))
        })?;
        let socket = TcpStream::connect(to)?;
        socket.set_nodelay(true)?;
        Ok(Wire(Mutex::new(socket)))
    }

    fn ask<T>(
        &self,
        (command, byte, word): (u8, u8, u32),
        rest: &[u8],
        read: impl FnOnce(&mut Answer<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        // A request that was left by half has closed the connection for whoever comes next.
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut request = vec![command, byte];
        request.extend(word.to_le_bytes());
        request.extend(rest);
        socket.write_all(&request)?;
        read(&mut Answer(&mut socket))
    }

    pub(crate) fn list(&self) -> io::Result<Vec<About>> {
        self.ask((0, 0, 0), &[], |answer| {
            let count = answer.word()?;
            let one = |_| {
                let [bus, number] = answer.bytes()?;
                let (speed, descriptor) = (answer.word()?, answer.bytes()?);
                Ok(About {
                    bus,
                    number,
                    speed,
                    descriptor,
                })
            };
            (0..count).map(one).collect()
        })
    }

    /// Results are as libusb has them.
    pub(crate) fn open(&self, number: u8) -> io::Result<i32> {
        self.ask((1, number, 0), &[], |answer| answer.result())
    }

    pub(crate) fn clear_halt(&self, endpoint: u8) -> io::Result<i32> {
        self.ask((3, endpoint, 0), &[], |answer| answer.result())
    }

    pub(crate) fn reset(&self) -> io::Result<i32> {
        self.ask((4, 0, 0), &[], |answer| answer.result())
    }

    /// Transfers that are under way all at once; what comes in is in their data.
    pub(crate) fn transfer(&self, all: &mut [Wanted]) -> io::Result<Vec<i32>> {
        let mut rest = Vec::new();
        for wanted in all.iter() {
            rest.push(wanted.endpoint);
            rest.extend(wanted.setup);
            rest.extend(wanted.limit.to_le_bytes());
            rest.extend((wanted.data.len() as u32).to_le_bytes());
            if !wanted.comes_in() {
                rest.extend(&wanted.data);
            }
        }
        self.ask((2, 0, all.len() as u32), &rest, |answer| {
            let one = |wanted: &mut Wanted| {
                let result = answer.result()?;
                if wanted.comes_in() {
                    let came = usize::try_from(result).unwrap_or(0).min(wanted.data.len());
                    answer.0.read_exact(&mut wanted.data[..came])?;
                }
                Ok(result)
            };
            all.iter_mut().map(one).collect()
        })
    }
}
