//! PCI functions in C: cards that no kernel driver has, for drivers that start them.
//!
//! What a call gives is 0 or more, or a negative errno: `-EIO` for what breaks a rule, which the reports tell.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use hcq::mem::window::{AccessWidth, Window};
use hcq::sync::lock;
use hcq::transport::{Dma, Fault, Machine, Pci, PciFunction, ResetKind, TransportError};
use twin::errno::{Errno, Result};
use twin::host::user;
use twin_amd::pci::machine::PciMachine;

use crate::{copy_text, guard, reports, string, system_call};

/// Bytes of a page of memory for functions.
const PAGE: u64 = 4096;

/// A process on a machine with cards, as C holds it.
pub struct Cards {
    machine: Arc<PciMachine>,
    cards: Vec<Card>,
    /// Memory that functions reach, by where the process has it.
    memory: Mutex<BTreeMap<usize, Dma>>,
}

struct Card {
    found: PciFunction,
    pci: Arc<dyn Pci>,
    bars: Vec<(u8, Window)>,
}

fn errno(error: &TransportError) -> Errno {
    match error.fault {
        Fault::Errno(number) => Errno(number),
        Fault::View(_) => Errno::EINVAL,
        _ => Errno(libc::EIO),
    }
}

impl Cards {
    fn on(machine: Arc<PciMachine>) -> std::result::Result<Cards, TransportError> {
        let found = machine.pci_functions()?;
        let open = |found: PciFunction| {
            let pci = machine.open_pci(&found.address)?;
            let bars = found
                .bars
                .iter()
                .map(|bar| Ok((bar.number, pci.bar(bar.number)?)));
            let bars = bars.collect::<std::result::Result<_, TransportError>>()?;
            Ok(Card { found, pci, bars })
        };
        let cards: std::result::Result<_, TransportError> = found.into_iter().map(open).collect();
        Ok(Cards {
            cards: cards?,
            memory: Mutex::default(),
            machine,
        })
    }

    fn card(&self, number: c_uint) -> Result<&Card> {
        self.cards.get(number as usize).ok_or(Errno(libc::ENODEV))
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Dma>> {
        // Entries come and go whole.
        lock(&self.memory)
    }
}

impl Card {
    fn window(&self, bar: c_uint) -> Result<&Window> {
        let mut bars = self.bars.iter();
        let found = bars.find(|(number, _)| c_uint::from(*number) == bar);
        found.map(|(_, window)| window).ok_or(Errno(libc::ENXIO))
    }
}

/// # Safety
/// `cards` is null or comes from `doorbell_pci_new` or `doorbell_pci_again`, and has not been freed.
unsafe fn of<'a>(cards: *const Cards) -> Result<&'a Cards> {
    // SAFETY: by the caller's promise.
    unsafe { cards.as_ref() }.ok_or(Errno::EFAULT)
}

fn width(bytes: usize) -> Result<AccessWidth> {
    AccessWidth::from_bytes(bytes).ok_or(Errno::EINVAL)
}

fn boxed(cards: std::result::Result<Cards, String>) -> std::result::Result<*mut Cards, String> {
    cards.map(|cards| Box::into_raw(Box::new(cards)))
}

/// Makes a machine with cards.
///
/// # Safety
/// As the header says: `config` is null or a string, `error` has room for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_new(
    config: *const c_char,
    error: *mut c_char,
    error_bytes: usize,
) -> *mut Cards {
    let made = guard(Err("a bug of the twin itself".into()), || {
        let text = match config.is_null() {
            true => Ok(""),
            // SAFETY: a string, by the caller's promise.
            false => unsafe { string(config) },
        };
        let text = text.map_err(|_| "the config string is not UTF-8")?;
        let cards = Cards::on(PciMachine::new(text)?);
        boxed(cards.map_err(|error| error.to_string()))
    });
    made.unwrap_or_else(|text: String| {
        // SAFETY: room, by the caller's promise.
        unsafe { copy_text(&text, error, error_bytes) };
        std::ptr::null_mut()
    })
}

/// Another process on the same machine.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_again(on: *const Cards) -> *mut Cards {
    let made = guard(Err(String::new()), || {
        // SAFETY: by the caller's promise.
        let cards = unsafe { of(on) }.map_err(|_| String::new())?;
        boxed(Cards::on(cards.machine.again()).map_err(|error| error.to_string()))
    });
    made.unwrap_or(std::ptr::null_mut())
}

/// Ends a process; with the last one the machine.
///
/// # Safety
/// `cards` is null or comes from `doorbell_pci_new` or `doorbell_pci_again`; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_free(cards: *mut Cards) {
    if !cards.is_null() {
        // SAFETY: made by us, and given back once.
        let cards = unsafe { Box::from_raw(cards) };
        guard((), || drop(cards));
    }
}

/// The functions, a line each: address, vendor and device.
///
/// # Safety
/// As the header says: `text` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_functions(
    on: *const Cards,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    let lines = guard(String::new(), || {
        // SAFETY: by the caller's promise.
        let cards = unsafe { of(on) }.map_or(&[][..], |cards| &cards.cards);
        let line = |card: &Card| {
            let found = &card.found;
            format!(
                "{} {:04x}:{:04x}\n",
                found.address, found.vendor, found.device
            )
        };
        cards.iter().map(line).collect()
    });
    // SAFETY: room, by the caller's promise.
    unsafe { copy_text(&lines, text, bytes) };
    lines.len()
}

/// Reads configuration space.
///
/// # Safety
/// As the header says. `value` is checked as the kernel checks it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_config_read(
    on: *const Cards,
    function: c_uint,
    offset: u16,
    bytes: usize,
    value: *mut u32,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let card = unsafe { of(on)? }.card(function)?;
        let read = card.pci.config_read(offset, width(bytes)?);
        let read = read.map_err(|error| errno(&error))?;
        user::write(value as u64, &read.to_ne_bytes()).map(|()| 0)
    })
}

/// Writes configuration space.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_config_write(
    on: *const Cards,
    function: c_uint,
    offset: u16,
    bytes: usize,
    value: u32,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let card = unsafe { of(on)? }.card(function)?;
        let written = card.pci.config_write(offset, width(bytes)?, value);
        written.map(|()| 0).map_err(|error| errno(&error))
    })
}

/// Where a BAR is on the bus, and its size.
///
/// # Safety
/// As the header says. `start` and `size` are checked as the kernel checks them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_bar(
    on: *const Cards,
    function: c_uint,
    bar: c_uint,
    start: *mut u64,
    size: *mut u64,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let card = unsafe { of(on)? }.card(function)?;
        let mut bars = card.found.bars.iter();
        let found = bars.find(|found| c_uint::from(found.number) == bar);
        let found = found.ok_or(Errno(libc::ENXIO))?;
        user::write(start as u64, &found.start.to_ne_bytes())?;
        user::write(size as u64, &found.bytes.to_ne_bytes()).map(|()| 0)
    })
}

/// Reads a BAR: 1, 2, 4 or 8 bytes in one access, else byte by byte.
///
/// # Safety
/// As the header says. `data` is checked as the kernel checks it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_read(
    on: *const Cards,
    function: c_uint,
    bar: c_uint,
    offset: u64,
    data: *mut c_void,
    bytes: usize,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let window = unsafe { of(on)? }.card(function)?.window(bar)?;
        let mut read = vec![0; inside(window, offset, bytes)?];
        let done = match &mut read[..] {
            [one] => window.read(offset).map(|value: u8| *one = value),
            two @ [_, _] => window
                .read(offset)
                .map(|value: u16| two.copy_from_slice(&value.to_le_bytes())),
            four @ [_, _, _, _] => window
                .read(offset)
                .map(|value: u32| four.copy_from_slice(&value.to_le_bytes())),
            eight if eight.len() == 8 => window
                .read(offset)
                .map(|value: u64| eight.copy_from_slice(&value.to_le_bytes())),
            more => window.read_bytes(offset, more),
        };
        done.map_err(|error| errno(&error))?;
        user::write(data as u64, &read).map(|()| 0)
    })
}

/// Writes a BAR, as [`doorbell_pci_read`] reads it.
///
/// # Safety
/// As the header says. `data` is checked as the kernel checks it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_write(
    on: *const Cards,
    function: c_uint,
    bar: c_uint,
    offset: u64,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let window = unsafe { of(on)? }.card(function)?.window(bar)?;
        let mut given = vec![0; inside(window, offset, bytes)?];
        user::read(data as u64, &mut given)?;
        let done = match given[..] {
            [one] => window.write(offset, one),
            [a, b] => window.write(offset, u16::from_le_bytes([a, b])),
            [a, b, c, d] => window.write(offset, u32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => {
                window.write(offset, u64::from_le_bytes([a, b, c, d, e, f, g, h]))
            }
            _ => window.write_bytes(offset, &given),
        };
        done.map(|()| 0).map_err(|error| errno(&error))
    })
}

/// No buffer of the client needs to be trusted.
fn inside(window: &Window, offset: u64, bytes: usize) -> Result<usize> {
    let end = offset.checked_add(bytes as u64);
    match end.is_some_and(|end| end <= window.len()) {
        true => Ok(bytes),
        false => Err(Errno::EINVAL),
    }
}

/// Memory of this process that the function reaches.
///
/// # Safety
/// As the header says. `memory` and `pages` are checked as the kernel checks them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_dma(
    on: *const Cards,
    function: c_uint,
    bytes: u64,
    align: u64,
    memory: *mut *mut c_void,
    pages: *mut u64,
) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let cards = unsafe { of(on)? };
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        let pci = &cards.card(function)?.pci;
        let dma = pci.dma(bytes, align).map_err(|error| errno(&error))?;
        let ranges = dma.ranges.for_domain(pci.domain());
        let ranges = ranges.map_err(|_| Errno::EINVAL)?.iter();
        let each = ranges.flat_map(|range| {
            (0..range.bytes)
                .step_by(PAGE as usize)
                .map(|at| range.addr.0 + at)
        });
        let each = each.take((bytes / PAGE) as usize);
        user::write(
            pages as u64,
            &each.flat_map(u64::to_ne_bytes).collect::<Vec<_>>(),
        )?;
        let at = dma.view.as_ptr() as usize;
        user::write(memory as u64, &at.to_ne_bytes())?;
        cards.memory().insert(at, dma);
        Ok(0)
    })
}

/// Takes such memory back.
///
/// # Safety
/// As the header says: it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_dma_free(on: *const Cards, memory: *mut c_void) -> c_int {
    system_call(|| {
        // SAFETY: by the caller's promise.
        let taken = unsafe { of(on)? }.memory().remove(&(memory as usize));
        taken.map(|_| 0).ok_or(Errno::EINVAL)
    })
}

/// Resets a function: 0 by itself (FLR), 1 by its bus, 2 by power management.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_reset(
    on: *const Cards,
    function: c_uint,
    kind: c_int,
) -> c_int {
    system_call(|| {
        let kind = match kind {
            0 => ResetKind::Function,
            1 => ResetKind::Bus,
            2 => ResetKind::Power,
            _ => return Err(Errno::EINVAL),
        };
        // SAFETY: by the caller's promise.
        let card = unsafe { of(on)? }.card(function)?;
        card.pci
            .reset(kind)
            .map(|()| 0)
            .map_err(|error| errno(&error))
    })
}

/// How many rules have been broken.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_broken(on: *const Cards) -> usize {
    // SAFETY: by the caller's promise.
    let cards = unsafe { of(on) };
    cards.map_or(0, |cards| {
        guard(0, || cards.machine.journal().violations().len())
    })
}

/// The reports, from number `first` on.
///
/// # Safety
/// As the header says: `text` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn doorbell_pci_report(
    on: *const Cards,
    first: usize,
    text: *mut c_char,
    bytes: usize,
) -> usize {
    // SAFETY: by the caller's promise.
    let Ok(cards) = (unsafe { of(on) }) else {
        return 0;
    };
    // SAFETY: room, by the caller's promise.
    unsafe { reports(cards.machine.journal(), first, text, bytes) }
}
