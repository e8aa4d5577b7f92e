//! The resource manager: a client, its objects, what they are asked.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/escape.c: which file takes which
//! escape; src/nvidia/src/kernel/rmapi/alloc_free.c.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use drivers_spec::nv::abi::{Branch, Call, Struct};
use drivers_spec::nv::ioctl::{Argument, NewObject};
use drivers_spec::nv::{class, escape};
use hcq::transport::DevFile;

use super::call::{CallError, Result, again, call};

/// The first handle of an object of ours: any number that the client does not have.
const FIRST_HANDLE: u32 = 0xd000_0001;

/// A client of RM: the root of a tree of objects. It ends with the last of them.
pub(super) struct Rm {
    /// `/dev/nvidiactl`.
    pub(super) control: Arc<dyn DevFile>,
    /// Whose structs the calls have.
    pub(super) branch: Branch,
    /// Its handle.
    pub(super) client: u32,
    next: AtomicU32,
}

/// An object of a client; freed on drop, with all below it.
pub(super) struct Object {
    rm: Arc<Rm>,
    /// 0 once it is left to RM.
    handle: u32,
}

impl Object {
    /// Its handle.
    pub(super) fn handle(&self) -> u32 {
        self.handle
    }

    /// Leaves it alone: RM has freed it, with one above it.
    pub(super) fn forget(mut self) {
        self.handle = 0;
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.handle != 0 {
            self.rm.free(self.handle);
        }
    }
}

impl Drop for Rm {
    fn drop(&mut self) {
        self.free(self.client);
    }
}

impl Rm {
    /// A client by a control file.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn new(control: Arc<dyn DevFile>, branch: Branch) -> Result<Arc<Rm>> {
        let root = class::NV01_ROOT_CLIENT;
        let made = call::<escape::AllocRights>(&*control, branch, root.name, || {
            Argument::alloc_plain(&root, branch, &NewObject::default())
        });
        let (made, _) = made?;
        Ok(Arc::new(Rm {
            control,
            branch,
            client: made.h_object_new,
            next: AtomicU32::new(FIRST_HANDLE),
        }))
    }

    /// A handle that no object has.
    fn handle(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn make(
        self: &Arc<Self>,
        class: &Call,
        parent: u32,
        argument: impl Fn(&NewObject) -> Option<Argument>,
    ) -> Result<Object> {
        let new = NewObject {
            client: self.client,
            parent,
            handle: self.handle(),
        };
        let what = format!("making {}", class.name);
        let made =
            call::<escape::AllocRights>(&*self.control, self.branch, &what, || argument(&new));
        made?;
        let (rm, handle) = (self.clone(), new.handle);
        Ok(Object { rm, handle })
    }

    /// An object of a class that takes parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn alloc<T: Struct>(
        self: &Arc<Self>,
        class: &Call,
        parent: u32,
        params: &T,
    ) -> Result<Object> {
        let branch = self.branch;
        let argument = |new: &NewObject| Argument::alloc(class, branch, new, params);
        self.make(class, parent, argument)
    }

    /// An object of a class that takes none, or whose parameters are left out.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn alloc_plain(self: &Arc<Self>, class: &Call, parent: u32) -> Result<Object> {
        let branch = self.branch;
        self.make(class, parent, |new| {
            Argument::alloc_plain(class, branch, new)
        })
    }

    /// System memory, or memory of the process, for a GPU: a call of a file of that GPU.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn alloc_memory(
        self: &Arc<Self>,
        gpu: &dyn DevFile,
        (class, device): (&Call, u32),
        mut args: escape::AllocMemoryWithFd,
    ) -> Result<Object> {
        let handle = self.handle();
        let params = &mut args.params;
        params.h_root = self.client;
        params.h_object_parent = device;
        params.h_object_new = handle;
        params.h_class = class.number;
        let what = format!("making {}", class.name);
        call::<escape::AllocMemoryWithFd>(gpu, self.branch, &what, || {
            Argument::escape(&escape::RM_ALLOC_MEMORY, self.branch, &args)
        })?;
        let rm = self.clone();
        Ok(Object { rm, handle })
    }

    /// Asks an object; what it answers is in the parameters then.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn control<T: Struct>(&self, control: &Call, object: u32, params: &mut T) -> Result {
        let branch = self.branch;
        let (_, argument) = call::<escape::Control>(&*self.control, branch, control.name, || {
            Argument::control(control, branch, (self.client, object), params)
        })?;
        *params = argument.parameters();
        Ok(())
    }

    /// Has an object do what takes no parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn order(&self, control: &Call, object: u32) -> Result {
        let branch = self.branch;
        call::<escape::Control>(&*self.control, branch, control.name, || {
            Argument::control_plain(control, branch, (self.client, object))
        })?;
        Ok(())
    }

    /// Lets the next mapping of a file be that of an object of a device, with flags of
    /// [`map_flags`](drivers_spec::nv::memory::map_flags).
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn map(
        &self,
        (device, object): (u32, u32),
        bytes: u64,
        flags: u32,
        file: &dyn DevFile,
    ) -> Result {
        let args = escape::MapMemoryWithFd {
            params: escape::MapMemory {
                h_client: self.client,
                h_device: device,
                h_memory: object,
                length: bytes,
                flags,
                ..Default::default()
            },
            fd: number(file)?,
            ..Default::default()
        };
        let call_of = escape::RM_MAP_MEMORY;
        call::<escape::MapMemoryWithFd>(&*self.control, self.branch, call_of.name, || {
            Argument::escape(&call_of, self.branch, &args)
        })?;
        Ok(())
    }

    fn free(&self, handle: u32) {
        let args = escape::Free {
            h_root: self.client,
            h_object_old: handle,
            ..Default::default()
        };
        again("an object of RM", || {
            let freed = call::<escape::Free>(&*self.control, self.branch, "RM_FREE", || {
                Argument::escape(&escape::RM_FREE, self.branch, &args)
            });
            freed.map(drop)
        });
    }
}

/// The descriptor of a file, as arguments have it.
///
/// # Errors
/// It has none.
pub(super) fn number(file: &dyn DevFile) -> std::result::Result<i32, CallError> {
    Ok(file.number()? as i32)
}
