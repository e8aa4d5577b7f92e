//! [`Function`]: a PCI function that this process drives, by the files that sysfs has for it.
//!
//! Registers and memory are mapped: an access is one instruction. Memory that the function is to reach is
//! pinned, and given by its physical addresses: that is right only where no IOMMU translates for the function,
//! which is looked at first.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use hcq::mem::view::ViewError;
use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Bar, DevFile, Dma, Fault, Map, Pci, Prot, ResetKind, TransportError};
use hcq::wait::Deadline;

use super::claim::driver;
use super::files::{Files, System, folder};
use super::frames;
use super::lock::Lock;
use crate::devfile::{HostFile, refused};
use crate::mmap::HUGE_PAGE;
use crate::range::page_size;
use crate::reserve::pinned;

/// Bytes of the extended configuration space, where a file does not say how long it is.
const CONFIG: u64 = 4096;

/// A function, opened.
pub struct Function {
    system: System,
    address: String,
    bars: Vec<Bar>,
    config: File,
    /// The IOMMU that translates for it, if one does.
    iommu: Option<String>,
    _lock: Lock,
}

/// Opens a function that no kernel driver has, once no other program has it, waiting for that at most so long.
///
/// # Errors
/// No such function, a driver or a program that has it, files that this process may not open.
pub fn open(
    system: &System,
    address: &str,
    bars: &[Bar],
    wait: Duration,
) -> Result<Function, TransportError> {
    let unsupported = |why: String| TransportError::new(address, "open", Fault::Unsupported(why));
    if let Some(driver) = driver(system, address) {
        return Err(unsupported(format!(
            "the kernel driver {driver} has it; release it: `echo {address} > {}/driver/unbind`",
            folder(address)
        )));
    }
    let lock = Lock::take(system, address, wait).map_err(|error| unsupported(error.to_string()))?;
    let path = format!("{}/config", folder(address));
    let mut options = OpenOptions::new();
    // Configuration writes are done when the call returns.
    options.read(true).write(true).custom_flags(libc::O_SYNC);
    let config = options.open(system.path(&path));
    let config = config.map_err(|error| refused(&path, "open", &error))?;
    Ok(Function {
        system: system.clone(),
        address: address.into(),
        bars: bars.to_vec(),
        config,
        iommu: iommu(system, address),
        _lock: lock,
    })
}

/// How an IOMMU translates for a function: the type of the group's domain, unless addresses stay as they are.
fn iommu(system: &System, address: &str) -> Option<String> {
    const GROUPS: &str = "/sys/kernel/iommu_groups";
    let groups = system.list(GROUPS).unwrap_or_default();
    let mut of_it = groups.into_iter().filter(|group| {
        let members = system.list(&format!("{GROUPS}/{group}/devices"));
        members.is_ok_and(|members| members.iter().any(|member| member == address))
    });
    let group = of_it.next()?;
    let kind = system.read(&format!("{GROUPS}/{group}/type"));
    let kind = kind.unwrap_or_else(|_| "unknown".into());
    match kind.trim() {
        "identity" => None,
        kind => Some(format!("group {group} of the IOMMU has the type {kind}")),
    }
}

impl Function {
    fn failed(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(&*self.address, operation, fault)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", folder(&self.address))
    }

    /// The place of a configuration access, if there is one there.
    fn config_at(
        &self,
        verb: &str,
        offset: u16,
        width: AccessWidth,
    ) -> Result<(String, usize, u64), TransportError> {
        let (bytes, at) = (width.bytes(), usize::from(offset));
        let operation = format!("config {verb} {offset:#x} {bytes} bytes");
        let len = self.config.metadata().map_or(0, |metadata| metadata.len());
        let len = if len == 0 { CONFIG } else { len } as usize;
        let fault = if bytes > 4 {
            Fault::Unsupported("at most 4 bytes at a time".into())
        } else if !at.is_multiple_of(bytes) {
            Fault::View(ViewError::Misaligned {
                offset: at,
                len,
                align: bytes,
                low: at & 0xfff,
            })
        } else if at + bytes > len {
            Fault::View(ViewError::OutOfBounds {
                offset: at,
                bytes,
                len,
            })
        } else {
            return Ok((operation, bytes, offset.into()));
        };
        Err(self.failed(operation, fault))
    }
}

impl Pci for Function {
    fn name(&self) -> &str {
        &self.address
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let operation = format!("BAR{n}");
        let Some(bar) = self.bars.iter().find(|bar| bar.number == n) else {
            let there: Vec<_> = self.bars.iter().map(|bar| bar.number.to_string()).collect();
            let why = format!("it has the BARs of memory {}", there.join(", "));
            return Err(self.failed(operation, Fault::Unsupported(why)));
        };
        let path = self.system.path(&self.file(&format!("resource{n}")));
        let path = path.to_string_lossy();
        let file = HostFile::open(&path).map_err(|error| refused(&path, "open", &error))?;
        let len = bar.bytes as usize;
        let view = file.mmap(Map {
            offset: 0,
            // The kernel maps whole pages of BARs that are smaller.
            len: len.next_multiple_of(page_size()),
            prot: Prot::ReadWrite,
            at: None,
        })?;
        let view = view.sub(0, len);
        let view = view.map_err(|error| self.failed(&*operation, Fault::View(error)))?;
        Ok(Window::mapped(format!("{} BAR{n}", self.address), view))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let (operation, bytes, at) = self.config_at("read", offset, width)?;
        let mut word = [0; 4];
        let read = self.config.read_exact_at(&mut word[..bytes], at);
        read.map_err(|error| refused(&self.file("config"), &operation, &error))?;
        Ok(u32::from_le_bytes(word))
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        let (operation, bytes, at) = self.config_at("write", offset, width)?;
        let word = value.to_le_bytes();
        let written = self.config.write_all_at(&word[..bytes], at);
        written.map_err(|error| refused(&self.file("config"), &operation, &error))
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let operation = format!("pin {bytes:#x} bytes aligned to {align:#x}");
        let failed = |why: String| self.failed(&*operation, Fault::Unsupported(why));
        if let Some(iommu) = &self.iommu {
            return Err(failed(format!(
                "{iommu}: physical addresses are not those of the bus. Start the kernel with iommu=pt"
            )));
        }
        let huge = HUGE_PAGE as u64;
        if !align.is_power_of_two() || align > huge || bytes == 0 {
            return Err(failed(format!(
                "memory comes in pages of {:#x} and {huge:#x} bytes",
                page_size()
            )));
        }
        let is_huge = align > page_size() as u64;
        let view = pinned(bytes, is_huge).map_err(|error| self.failed(&*operation, error))?;
        let pages = view.len() / page_size();
        let entries = frames::entries(&self.system, view.as_ptr().addr(), pages);
        let ranges = frames::ranges(&entries.map_err(failed)?, page_size() as u64, align);
        let ranges = ranges.map_err(failed)?;
        Ok(Dma { view, ranges })
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        let operation = format!("{kind} reset");
        let failed = |path: &str| {
            let (path, operation) = (path.to_owned(), operation.clone());
            move |error: std::io::Error| refused(&path, &operation, &error)
        };
        let method = match kind {
            ResetKind::Function => "flr",
            ResetKind::Bus => "bus",
            ResetKind::Power => "pm",
        };
        // The ways that the function has, of which the kernel takes the first. It is put back.
        let (ways, reset) = (self.file("reset_method"), self.file("reset"));
        let able = self.system.read(&ways).map_err(failed(&ways))?;
        if !able.split_whitespace().any(|one| one == method) {
            let why = format!("it can be reset by: {}", able.trim());
            return Err(self.failed(operation, Fault::Unsupported(why)));
        }
        self.system.tell(&ways, method).map_err(failed(&ways))?;
        let done = self.system.tell(&reset, "1").map_err(failed(&reset));
        let back = self.system.tell(&ways, able.trim()).map_err(failed(&ways));
        done.and(back)
    }

    fn wait_irq(&self, vector: u32, _: Deadline) -> Result<u64, TransportError> {
        let why = "sysfs gives no interrupts: look at memory instead";
        let operation = format!("wait for interrupt {vector}");
        Err(self.failed(operation, Fault::Unsupported(why.into())))
    }
}

#[cfg(test)]
mod tests;
