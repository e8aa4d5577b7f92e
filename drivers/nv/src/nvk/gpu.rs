//! [`Gpu`]: a GPU of the process: its objects in RM, its address space, its doorbell.

use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::nv::push;
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::{DevFile, Machine, Prot, TransportError};

use super::base::Base;
use super::session::Session;
use super::survey::{Found, Unusable};
use super::uvm::Registered;
use crate::rm::client::Object;
use crate::rm::device::{Device, Mapper, Uuid};
use crate::rm::facts::{Asked, Facts};
use crate::rm::transport::{MapRequest, Side};

/// A GPU of the process. Its parts are freed from the top.
pub(super) struct Gpu {
    /// The doorbell's page.
    doorbell: Window,
    _usermode: Object,
    /// UVM has it.
    _registered: Option<Registered>,
    /// Its address space.
    pub(super) space: Object,
    /// RM's side of it.
    pub(super) rm: Device,
    /// Its file, registered.
    pub(super) file: Arc<dyn DevFile>,
    pub(super) session: Arc<Session>,
    /// RM's number for it.
    pub(super) id: u32,
    pub(super) uuid: Uuid,
    pub(super) path: String,
    pub(super) facts: Facts,
    peers: Mutex<Vec<u32>>,
    /// Whether the subdevice notifies of channels that die.
    pub(super) tells_deaths: Mutex<bool>,
}

impl Gpu {
    /// A GPU, with an address space.
    ///
    /// # Errors
    /// [`Unusable`]; nothing is left behind then.
    pub(super) fn new(
        machine: &Arc<dyn Machine>,
        session: &Arc<Session>,
        found: &Found,
    ) -> std::result::Result<Gpu, Unusable> {
        let Base { file, rm } = Base::new(&**machine, session, found)?;
        let asked = Asked::of(&rm, &found.place, found.device_id);
        let (facts, usermodes) = asked.facts()?;
        let uuid = rm.uuid()?;
        rm.boost();
        let (space, registered) = match &session.uvm {
            Some(uvm) => {
                let space = rm.space(Mapper::Other)?;
                let registered = uvm.register(uuid, space.handle())?;
                (space, Some(registered))
            }
            None => (rm.space(Mapper::Rm)?, None),
        };
        let usermode = rm.usermode(&usermodes)?;
        let wanted = MapRequest {
            bytes: push::usermode::BYTES,
            at: None,
            prot: Prot::ReadWrite,
            of: Side::Gpu,
        };
        let view = rm.device.map(&**machine, &usermode, wanted)?;
        Ok(Gpu {
            doorbell: machine.window("doorbells", 0, view),
            _usermode: usermode,
            _registered: registered,
            space,
            rm,
            file,
            session: session.clone(),
            id: found.gpu_id,
            uuid,
            path: found.path.clone(),
            facts,
            peers: Mutex::default(),
            tells_deaths: Mutex::default(),
        })
    }

    /// Numbers of the GPUs of the process that reach its memory.
    pub(super) fn peers(&self) -> MutexGuard<'_, Vec<u32>> {
        // Changed in single steps.
        lock(&self.peers)
    }

    /// The doorbell of its channels.
    ///
    /// # Errors
    /// None: it lies in the page.
    pub(super) fn doorbell(&self) -> std::result::Result<Window, TransportError> {
        self.doorbell.sub(push::usermode::NOTIFY_CHANNEL_PENDING, 4)
    }
}
