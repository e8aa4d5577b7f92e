//! What every USB device has: descriptors, a configuration, endpoints that halt and count.
//!
//! Source: Universal Serial Bus 3.2 Specification, 9.4 and 9.6; what the descriptors say is as in
//! tinygrad/asm2464pd-firmware, handmade/src/usb.h.

use hcq::transport::Setup;

use super::state::State;

/// What comes of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// So many bytes have moved.
    Moved(usize),
    /// The endpoint stalls.
    Stall,
    /// Nothing, however long the host waits.
    Quiet,
    /// Nothing yet.
    Pending,
}

/// Endpoints of the alternate setting that is used: to the host, and from it.
pub(super) const IN: u8 = 0x81;
pub(super) const OUT: u8 = 0x02;

/// An endpoint.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Endpoint {
    pub(super) halted: bool,
    /// How many packets the host and the device have counted; they agree modulo 32, or packets are lost.
    pub(super) host: u32,
    pub(super) device: u32,
}

/// Endpoints [`IN`] and [`OUT`].
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Endpoints([Endpoint; 2]);

impl Endpoints {
    /// An endpoint by its address.
    pub(super) fn get(&mut self, address: u8) -> Option<&mut Endpoint> {
        match address {
            IN => self.0.first_mut(),
            OUT => self.0.last_mut(),
            _ => None,
        }
    }

    /// The device counts anew.
    fn anew(&mut self) {
        for endpoint in &mut self.0 {
            endpoint.device = 0;
            endpoint.halted = false;
        }
    }

    /// Both sides count anew.
    pub(super) fn both(&mut self) {
        *self = Endpoints::default();
    }
}

/// Vendor and product of the open firmware.
pub(super) const IDS: (u16, u16) = (0xadd1, 0x0001);
/// What it calls itself.
pub(super) const PRODUCT: &str = "custom v0.1";
/// The same of its maker's firmware (tinygrad, runtime/support/usb.py, which took that name).
pub(super) const STOCK_IDS: (u16, u16) = (0x174c, 0x2464);
pub(super) const STOCK_PRODUCT: &str = "AS2462";
const MAKER: &str = "tiny";
/// The serial number, where none has been given.
pub(super) const SERIAL: &str = "ffffffff";

/// Kinds of descriptors.
mod kind {
    pub(super) const DEVICE: u8 = 1;
    pub(super) const CONFIGURATION: u8 = 2;
    pub(super) const STRING: u8 = 3;
    pub(super) const INTERFACE: u8 = 4;
    pub(super) const ENDPOINT: u8 = 5;
    pub(super) const BOS: u8 = 15;
    pub(super) const CAPABILITY: u8 = 16;
    pub(super) const USE: u8 = 0x24;
    pub(super) const COMPANION: u8 = 0x30;
}

/// The descriptor of the device.
pub(super) fn device(usb2: bool) -> Vec<u8> {
    let (vendor, product) = (IDS.0.to_le_bytes(), IDS.1.to_le_bytes());
    // The version; the largest packet of endpoint 0, on USB3 as a power of two.
    let (version, packet) = if usb2 { (0x02, 64) } else { (0x03, 9) };
    let minor = if usb2 { 0x00 } else { 0x20 };
    let mut all = vec![18, kind::DEVICE, minor, version, 0, 0, 0, packet];
    all.extend(vendor.into_iter().chain(product));
    all.extend([1, 0, 1, 2, 3, 1]);
    all
}

fn configuration(usb2: bool) -> Vec<u8> {
    let mut all = Vec::new();
    let packet: u16 = if usb2 { 512 } else { 1024 };
    let [low, high] = packet.to_le_bytes();
    let endpoint = |address: u8| [7, kind::ENDPOINT, address, 2, low, high, 0];
    let interface =
        |setting: u8, count: u8| [9, kind::INTERFACE, 0, setting, count, 0xff, 0xff, 0xff, 0];
    let companion = |burst: u8, streams: u8| [6, kind::COMPANION, burst, streams, 0, 0];
    if usb2 {
        all.extend(interface(0, 4));
        all.extend([IN, OUT, 0x83, 0x04].into_iter().flat_map(endpoint));
    } else {
        all.extend(interface(0, 2));
        for address in [IN, OUT] {
            all.extend(endpoint(address));
            all.extend(companion(15, 0));
        }
        all.extend(interface(1, 4));
        // What each pipe is for (Universal Serial Bus Attached SCSI, 5.3.3.3).
        for (address, burst, streams, pipe) in [
            (IN, 15, 5, 3),
            (OUT, 15, 5, 4),
            (0x83, 15, 5, 2),
            (0x04, 0, 0, 1),
        ] {
            all.extend(endpoint(address));
            all.extend(companion(burst, streams));
            all.extend([4, kind::USE, pipe, 0]);
        }
    }
    let [low, high] = (9 + all.len() as u16).to_le_bytes();
    let mut whole = vec![9, kind::CONFIGURATION, low, high, 1, 1, 0, 0xc0, 0];
    whole.append(&mut all);
    whole
}

fn capabilities() -> Vec<u8> {
    let mut all = vec![5, kind::BOS, 22, 0, 2];
    all.extend([7, kind::CAPABILITY, 2, 2, 0, 0, 0]);
    all.extend([10, kind::CAPABILITY, 3, 0, 0x0e, 0, 3, 0, 0, 0]);
    all
}

fn string(index: u8) -> Vec<u8> {
    let text = match index {
        // English.
        0 => return vec![4, kind::STRING, 0x09, 0x04],
        1 => MAKER,
        2 => PRODUCT,
        3 => SERIAL,
        _ => "",
    };
    let units = text.encode_utf16().flat_map(u16::to_le_bytes);
    let mut all = vec![2 + 2 * text.len() as u8, kind::STRING];
    all.extend(units);
    all
}

fn descriptor(which: u16, usb2: bool) -> Option<Vec<u8>> {
    let [index, of] = which.to_le_bytes();
    Some(match of {
        kind::DEVICE => device(usb2),
        kind::CONFIGURATION => configuration(usb2),
        kind::STRING => string(index),
        kind::BOS => capabilities(),
        _ => return None,
    })
}

/// Standard requests, by type and number.
mod request {
    pub(super) const CLEAR_FEATURE: (u8, u8) = (0x02, 1);
    pub(super) const GET_DESCRIPTOR: (u8, u8) = (0x80, 6);
    pub(super) const SET_CONFIGURATION: (u8, u8) = (0x00, 9);
    pub(super) const SET_INTERFACE: (u8, u8) = (0x01, 11);
}

impl State {
    /// A request that every device knows, to the host.
    pub(super) fn standard_in(&self, setup: Setup, to: &mut [u8]) -> Answer {
        let found = match (setup.request_type, setup.request) {
            request::GET_DESCRIPTOR => descriptor(setup.value, self.config.usb2),
            _ => None,
        };
        let Some(found) = found else {
            return Answer::Quiet;
        };
        let bytes = found.len().min(to.len());
        to[..bytes].copy_from_slice(&found[..bytes]);
        Answer::Moved(bytes)
    }

    /// A request that every device knows, from the host. The device alone counts anew by it: a host that sends it
    /// by itself goes on counting.
    pub(super) fn standard_out(&mut self, setup: Setup, from: &[u8]) -> Answer {
        match (setup.request_type, setup.request) {
            request::CLEAR_FEATURE if setup.value == 0 => {
                let address = setup.index as u8;
                if let Some(endpoint) = self.endpoints.get(address) {
                    endpoint.halted = false;
                    endpoint.device = 0;
                }
                if address == IN {
                    self.waiting.clear();
                    self.stale = 0;
                }
                self.stream = None;
                self.sram.leave();
            }
            request::SET_CONFIGURATION | request::SET_INTERFACE => {
                self.endpoints.anew();
                self.quiet();
                self.sram.leave();
            }
            _ => {}
        }
        Answer::Moved(from.len())
    }

    /// Streams end, and what was read ahead is gone.
    pub(super) fn quiet(&mut self) {
        self.stream = None;
        self.waiting.clear();
        self.stale = 0;
    }
}
