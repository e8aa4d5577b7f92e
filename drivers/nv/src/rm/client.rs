//! The resource manager's client and its objects: handles, controls, frees.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/rmapi/alloc_free.c.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use drivers_spec::nv::abi::{Branch, Call, Struct};
use drivers_spec::nv::ioctl::NewObject;
use drivers_spec::nv::parameters::Parameters;
use drivers_spec::nv::status;
use hcq::mem::view::View;
use hcq::transport::Machine;

use super::transport::{CallError, HostMap, MapRequest, Result, Transport, again};

/// The first handle of an object of ours: any number that the client does not have.
const FIRST_HANDLE: u32 = 0xd000_0001;

/// A client of RM: the root of a tree of objects. It ends with the last of them.
pub(crate) struct Client {
    transport: Arc<dyn Transport>,
    handle: u32,
    next: AtomicU32,
}

/// An object of a client; freed on drop, with all below it.
pub(crate) struct Object {
    client: Arc<Client>,
    /// 0 once it is freed, or left to RM.
    handle: AtomicU32,
}

impl Client {
    /// A client, by what carries its calls.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Result<Arc<Client>> {
        Ok(Arc::new(Client {
            handle: transport.client()?,
            transport,
            next: AtomicU32::new(FIRST_HANDLE),
        }))
    }

    /// Its handle.
    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }

    /// Whose structs its calls have.
    pub(crate) fn branch(&self) -> Branch {
        self.transport.branch()
    }

    /// An object below the client itself.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn alloc<T: Struct>(self: &Arc<Self>, class: &Call, params: &T) -> Result<Object> {
        self.below(self.handle, self.params(class, params)?)
    }

    /// An object that `make` creates by another call, with the given handle.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn adopt(self: &Arc<Self>, make: impl FnOnce(u32) -> Result) -> Result<Object> {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        make(handle)?;
        let client = self.clone();
        let handle = AtomicU32::new(handle);
        Ok(Object { client, handle })
    }

    /// Sends a control to the client itself; the answer is in the parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn control<T: Struct>(&self, control: &Call, params: &mut T) -> Result {
        self.ask(self.handle, control, params)
    }

    fn below(self: &Arc<Self>, parent: u32, params: Parameters) -> Result<Object> {
        self.adopt(|handle| {
            let client = self.handle;
            let new = NewObject {
                client,
                parent,
                handle,
            };
            self.transport.alloc(&new, &params)
        })
    }

    fn ask<T: Struct>(&self, object: u32, control: &Call, params: &mut T) -> Result {
        let mut asked = self.params(control, params)?;
        self.transport.control(self.handle, object, &mut asked)?;
        *params = asked.decode();
        Ok(())
    }

    fn params<T: Struct>(&self, call: &Call, params: &T) -> Result<Parameters> {
        let found = Parameters::of(call, self.branch(), params);
        found.ok_or_else(|| self.absent(call))
    }

    fn without(&self, call: &Call) -> Result<Parameters> {
        Parameters::none(call, self.branch()).ok_or_else(|| self.absent(call))
    }

    fn absent(&self, call: &Call) -> CallError {
        CallError::Absent {
            call: call.name.into(),
            branch: self.branch(),
        }
    }

    fn free(&self, handle: u32) -> bool {
        again("an object of RM", || {
            self.transport.free(self.handle, handle)
        })
    }
}

impl Object {
    /// Its handle; 0 once it is freed.
    pub(crate) fn handle(&self) -> u32 {
        self.handle.load(Ordering::Relaxed)
    }

    /// Frees it, with all below it, once. Whether that was not refused.
    pub(crate) fn free(&self) -> bool {
        match self.handle.swap(0, Ordering::Relaxed) {
            0 => true,
            handle => self.client.free(handle),
        }
    }

    /// Whose object it is.
    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// An object below it, of a class that takes parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn alloc<T: Struct>(&self, class: &Call, params: &T) -> Result<Object> {
        let client = &self.client;
        client.below(self.handle(), client.params(class, params)?)
    }

    /// An object below it, of a class that takes none, or whose parameters are left out.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn alloc_plain(&self, class: &Call) -> Result<Object> {
        let client = &self.client;
        client.below(self.handle(), client.without(class)?)
    }

    /// Sends a control to it; the answer is in the parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn control<T: Struct>(&self, control: &Call, params: &mut T) -> Result {
        self.client.ask(self.handle(), control, params)
    }

    /// Has it do what takes no parameters.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn order(&self, control: &Call) -> Result {
        let client = &self.client;
        let mut none = client.without(control)?;
        let transport = &client.transport;
        transport.control(client.handle, self.handle(), &mut none)
    }

    /// Lets the host have memory or registers of an object of this device.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn map(
        &self,
        machine: &dyn Machine,
        object: &Object,
        wanted: MapRequest,
    ) -> Result<View> {
        let client = &self.client;
        let map = HostMap {
            client: client.handle,
            device: self.handle(),
            object: object.handle(),
            wanted,
        };
        client.transport.map(machine, &map)
    }

    /// What a call to it comes to, once it is freed.
    pub(crate) fn absent(&self, call: &Call) -> CallError {
        CallError::Status {
            file: self.client.transport.name().into(),
            call: call.name.into(),
            status: status::NV_ERR_OBJECT_NOT_FOUND,
        }
    }

    /// Leaves it alone: RM has freed it, with one above it.
    pub(crate) fn forget(mut self) {
        *self.handle.get_mut() = 0;
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.free();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        _ = self.free(self.handle);
    }
}
