//! [`Ioctls`]: the kernel driver's files as the transport to its resource manager.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/escape.c: which file takes which escape;
//! kernel-open/nvidia/nv-mmap.c: a file maps the memory that was last named for it; a GPU's own memory needs a file of that GPU.

use std::sync::{Arc, Mutex};

use drivers_spec::nv::abi::{Branch, Call};
use drivers_spec::nv::ioctl::{Argument, NewObject};
use drivers_spec::nv::memory::map_flags;
use drivers_spec::nv::parameters::Parameters;
use drivers_spec::nv::{class, escape};
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, TransportError};

use super::call::{call, send};
use super::survey::CONTROL;
use crate::rm::CallError;
use crate::rm::client::{Client, Object};
use crate::rm::transport::{HostMap, MapRequest, Result, Side, Transport};

/// The files of the kernel driver.
pub(super) struct Ioctls {
    /// `/dev/nvidiactl`.
    pub(super) control: Arc<dyn DevFile>,
    /// Whose structs the calls have.
    pub(super) branch: Branch,
    /// The file of each GPU, by its device object.
    paths: Mutex<Vec<(u32, Box<str>)>>,
}

impl Ioctls {
    /// By a control file.
    pub(super) fn new(control: Arc<dyn DevFile>, branch: Branch) -> Arc<Ioctls> {
        Arc::new(Ioctls {
            control,
            branch,
            paths: Mutex::default(),
        })
    }

    /// Registers the file of a device object.
    pub(super) fn name_device(&self, device: u32, path: &str) {
        // Pushed whole.
        let mut paths = lock(&self.paths);
        // One that is there is of a GPU that ends.
        paths.retain(|(_, other)| **other != *path);
        paths.push((device, path.into()));
    }

    /// Makes a file belong to the control file.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn register(&self, file: &dyn DevFile) -> Result {
        let args = escape::RegisterFd {
            ctl_fd: number(&*self.control)?,
        };
        let what = escape::REGISTER_FD;
        let argument = Argument::escape(&what, self.branch, &args);
        let mut argument = argument.ok_or_else(|| CallError::Absent {
            call: what.name.into(),
            branch: self.branch,
        })?;
        send(file, &mut argument)
    }

    /// System memory, or memory of the process, for a GPU: a call of a file of that GPU.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn alloc_memory(
        &self,
        rm: &Arc<Client>,
        gpu: &dyn DevFile,
        (class, device): (&Call, u32),
        mut args: escape::AllocMemoryWithFd,
    ) -> Result<Object> {
        rm.adopt(|handle| {
            let params = &mut args.params;
            params.h_root = rm.handle();
            params.h_object_parent = device;
            params.h_object_new = handle;
            params.h_class = class.number;
            let what = format!("making {}", class.name);
            call::<escape::AllocMemoryWithFd>(gpu, self.branch, &what, || {
                Argument::escape(&escape::RM_ALLOC_MEMORY, self.branch, &args)
            })?;
            Ok(())
        })
    }

    /// A file for one mapping.
    fn mapping_file(&self, machine: &dyn Machine, map: &HostMap) -> Result<Arc<dyn DevFile>> {
        if map.wanted.of == Side::System {
            return Ok(machine.open(CONTROL)?);
        }
        let paths = lock(&self.paths);
        let mut all = paths.iter();
        let path = all.find(|(device, _)| *device == map.device);
        let path = path.map(|(_, path)| path.clone()).ok_or_else(|| {
            let why = format!("no file for device {:#x}", map.device);
            TransportError::new(self.name(), "map", Fault::Unsupported(why))
        })?;
        drop(paths);
        let file = machine.open(&path)?;
        self.register(&*file)?;
        Ok(file)
    }
}

impl Transport for Ioctls {
    fn name(&self) -> &str {
        self.control.name()
    }

    fn branch(&self) -> Branch {
        self.branch
    }

    fn client(&self) -> Result<u32> {
        let root = class::NV01_ROOT_CLIENT;
        let made = call::<escape::AllocRights>(&*self.control, self.branch, root.name, || {
            let none = Parameters::none(&root, self.branch)?;
            Argument::alloc(&NewObject::default(), &none)
        });
        let (made, _) = made?;
        Ok(made.h_object_new)
    }

    fn alloc(&self, new: &NewObject, params: &Parameters) -> Result {
        let what = format!("making {}", params.call().name);
        call::<escape::AllocRights>(&*self.control, self.branch, &what, || {
            Argument::alloc(new, params)
        })?;
        Ok(())
    }

    fn control(&self, client: u32, object: u32, params: &mut Parameters) -> Result {
        let name = params.call().name;
        let asked = call::<escape::Control>(&*self.control, self.branch, name, || {
            Argument::control((client, object), params)
        });
        let (_, answered) = asked?;
        params.bytes_mut().copy_from_slice(answered.parameters());
        Ok(())
    }

    fn free(&self, client: u32, object: u32) -> Result {
        let args = escape::Free {
            h_root: client,
            h_object_old: object,
            ..Default::default()
        };
        call::<escape::Free>(&*self.control, self.branch, "RM_FREE", || {
            Argument::escape(&escape::RM_FREE, self.branch, &args)
        })?;
        Ok(())
    }

    fn map(&self, machine: &dyn Machine, map: &HostMap) -> Result<View> {
        let file = self.mapping_file(machine, map)?;
        let flags = match map.wanted.prot {
            Prot::Read => map_flags::ACCESS.put(map_flags::ACCESS_READ_ONLY),
            _ => 0,
        };
        let args = escape::MapMemoryWithFd {
            params: escape::MapMemory {
                h_client: map.client,
                h_device: map.device,
                h_memory: map.object,
                length: map.wanted.bytes,
                flags,
                ..Default::default()
            },
            fd: number(&*file)?,
            ..Default::default()
        };
        let what = escape::RM_MAP_MEMORY;
        call::<escape::MapMemoryWithFd>(&*self.control, self.branch, what.name, || {
            Argument::escape(&what, self.branch, &args)
        })?;
        Ok(map_file(&*file, &map.wanted)?)
    }
}

/// The descriptor of a file, as arguments have it.
///
/// # Errors
/// It has none.
pub(super) fn number(file: &dyn DevFile) -> Result<i32> {
    Ok(file.number()? as i32)
}

/// Maps the memory that was named for a file.
///
/// # Errors
/// The system's.
pub(super) fn map_file(
    file: &dyn DevFile,
    wanted: &MapRequest,
) -> std::result::Result<View, TransportError> {
    let too_large = |_| {
        let why = format!("{:#x} bytes do not fit an address", wanted.bytes);
        TransportError::new(file.name(), "mmap", Fault::Unsupported(why))
    };
    file.mmap(Map {
        offset: 0,
        len: usize::try_from(wanted.bytes).map_err(too_large)?,
        prot: wanted.prot,
        at: wanted.at,
    })
}
