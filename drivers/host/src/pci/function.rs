//! [`Function`]: a PCI function that this process drives, by the files that sysfs has for it.
//!
//! Registers and memory are mapped: an access is one instruction. DMA memory is in huge pages (see `pages`),
//! addressed physically; that is valid only without IOMMU translation, which is checked first. Memory left by a
//! killed process is freed before anything else.

use std::sync::Arc;
use std::time::Duration;

use hcq::mem::window::{AccessWidth, Window};
use hcq::transport::{Bar, DevFile, Dma, Fault, Map, Pci, Prot, ResetKind, TransportError};
use hcq::wait::Deadline;

use super::claim::ClaimError;
use super::config::ConfigFile;
use super::files::{System, folder};
use super::left::{has_left, let_go};
use super::lock::Lock;
use super::look::{Group, driver, group};
use super::pages::HugePages;
use super::quiet::Config;
use super::reset;
use crate::devfile::{HostFile, fault, refused};
use crate::mmap::HUGE_PAGE;
use crate::range::page_size;

/// A function, opened.
pub struct Function {
    system: System,
    address: String,
    bars: Vec<Bar>,
    config: Arc<ConfigFile>,
    memory: HugePages,
    /// The IOMMU that translates for it, if one does.
    iommu: Option<Group>,
}

/// Opens a function without kernel driver, waiting at most `wait` for other programs to release it.
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
            "bound to the kernel driver {driver}; take it over with `doorbell bind {address}` (preview: --plan)"
        )));
    }
    let lock = Lock::take(system, address, wait).map_err(|error| unsupported(error.to_string()))?;
    let config = Arc::new(ConfigFile::open(system, address)?);
    let_go(system, address, &*config)?;
    Ok(Function {
        system: system.clone(),
        address: address.into(),
        bars: bars.to_vec(),
        memory: HugePages::new(system, address, config.clone(), Arc::new(lock)),
        config,
        iommu: group(system, address).filter(Group::translates),
    })
}

/// Frees the memory that an ended process has left for a function without a kernel driver. No other program may drive it
/// at the same time.
///
/// # Errors
/// Its configuration; a function that does not stop, or is a kernel driver's; a file that cannot be removed.
pub fn let_go_of_left(system: &System, address: &str) -> Result<(), TransportError> {
    match has_left(system, address) {
        true => let_go(system, address, &ConfigFile::open(system, address)?),
        false => Ok(()),
    }
}

impl Function {
    fn failed(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(&*self.address, operation, fault)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", folder(&self.address))
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
            let why = format!("no such memory BAR; the function has {}", there.join(", "));
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
        self.config.read(offset, width)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.config.write(offset, width, value)
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let operation = format!("find {bytes:#x} bytes aligned to {align:#x}");
        let failed = |why: String| self.failed(&*operation, Fault::Unsupported(why));
        if let Some(iommu) = &self.iommu {
            return Err(failed(format!(
                "IOMMU group {} has type {}: bus addresses are not physical. Use VFIO, or boot with iommu=pt",
                iommu.number, iommu.kind
            )));
        }
        let huge = HUGE_PAGE as u64;
        if !align.is_power_of_two() || align > huge || bytes == 0 {
            return Err(failed(format!(
                "expected pages of {:#x} or {huge:#x} bytes",
                page_size()
            )));
        }
        self.memory.dma(&operation, bytes, align)
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        let failed = |error: ClaimError| match error {
            // Callers need the system's error number.
            ClaimError::NotReset { write, source, .. } => {
                self.failed(format!("{kind} reset: `{write}`"), fault(&source))
            }
            ClaimError::Refused { step, source, .. } => {
                self.failed(format!("{kind} reset: `{}`", step.write), fault(&source))
            }
            error => {
                let why = Fault::Unsupported(error.to_string());
                self.failed(format!("{kind} reset"), why)
            }
        };
        let (system, address) = (&self.system, &*self.address);
        let plan = reset::plan(system, address, Some(kind)).map_err(failed)?;
        reset::apply(system, address, &plan).map_err(failed)
    }

    fn wait_irq(&self, vector: u32, _: Deadline) -> Result<u64, TransportError> {
        let why = "no interrupts through sysfs: poll memory instead";
        let operation = format!("wait for interrupt {vector}");
        Err(self.failed(operation, Fault::Unsupported(why.into())))
    }
}
