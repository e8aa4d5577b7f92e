//! [`Gpu`]: a GPU of the process: its objects in RM, its address space, its doorbell.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/{ctrl0000/ctrl0000gpu,
//! ctrl2080/ctrl2080perf}.h; what libcuda asks is told by recordings.

use std::sync::{Arc, Mutex};

use drivers_spec::nv::abi::Call;
use drivers_spec::nv::control::{self, fb_info};
use drivers_spec::nv::memory::vaspace_flags;
use drivers_spec::nv::{class, push};
use hcq::mem::window::Window;
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, TransportError};

use super::base::{Base, register};
use super::call::{CallError, Result};
use super::facts::{Asked, Facts, memory_sizes, not_passed};
use super::rm::{Object, Rm};
use super::session::Session;
use super::survey::{Found, Unusable};
use super::uvm::{Registered, Uuid};

/// Where the addresses of a GPU begin, and how many it has: all that a process may have, too.
const VA_BASE: u64 = 0x1000;
const VA_SIZE: u64 = 0x1_ffff_fb00_0000;

/// `NV2080_CTRL_PERF_BOOST_FLAGS`: to the most, for computing. Source: ctrl2080perf.h.
const BOOST_TO_MAX: u32 = 2;
const BOOST_CUDA: u32 = 1 << 4;

/// A GPU of the process. Its parts are freed from the top.
pub(super) struct Gpu {
    /// The doorbell's page.
    doorbell: Window,
    _usermode: Object,
    /// UVM has it.
    _registered: Option<Registered>,
    /// Its address space.
    pub(super) space: Object,
    pub(super) subdevice: Object,
    pub(super) device: Object,
    /// Its file, registered.
    pub(super) file: Arc<dyn DevFile>,
    pub(super) session: Arc<Session>,
    /// RM's number for it.
    pub(super) id: u32,
    pub(super) uuid: Uuid,
    pub(super) path: String,
    pub(super) facts: Facts,
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
        let rm = &session.rm;
        let base = Base::new(&**machine, rm, found)?;
        let (subdevice, device) = (base.subdevice.handle(), base.device.handle());
        let asked = Asked::of(rm, &base);
        let (facts, usermodes) = asked.facts(found)?;
        let uuid = asked.uuid()?;
        boost(rm, subdevice);
        let space = new_space(session, device)?;
        let registered = match &session.uvm {
            Some(uvm) => Some(uvm.register(uuid, space.handle())?),
            None => None,
        };
        let usermode = usermode(rm, &usermodes, subdevice)?;
        let view = map_object(
            &**machine,
            rm,
            (&found.path, device),
            &usermode,
            Place {
                bytes: push::usermode::BYTES,
                at: None,
            },
        )?;
        Ok(Gpu {
            doorbell: machine.window("doorbells", 0, view),
            _usermode: usermode,
            _registered: registered,
            space,
            subdevice: base.subdevice,
            device: base.device,
            file: base.file,
            session: session.clone(),
            id: found.gpu_id,
            uuid,
            path: found.path.clone(),
            facts,
            tells_deaths: Mutex::default(),
        })
    }

    /// The doorbell of its channels.
    ///
    /// # Errors
    /// None: it lies in the page.
    pub(super) fn doorbell(&self) -> std::result::Result<Window, TransportError> {
        self.doorbell.sub(push::usermode::NOTIFY_CHANNEL_PENDING, 4)
    }

    /// Bytes of its memory that are free.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn free_memory(&self) -> Result<u64> {
        let [free] = memory_sizes(
            &self.session.rm,
            self.subdevice.handle(),
            [fb_info::HEAP_FREE],
        )?;
        Ok(free)
    }

    /// Maps memory of the GPU for the host.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn map(
        &self,
        machine: &dyn Machine,
        object: &Object,
        place: Place,
    ) -> Result<hcq::mem::view::View> {
        let of = (&*self.path, self.device.handle());
        map_object(machine, &self.session.rm, of, object, place)
    }

    /// Its clock: nanoseconds.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn ticks(&self) -> Result<u64> {
        // `NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_OSTIME`; the processor's time is not used.
        let mut params = control::TimeCorrelation {
            cpu_clk_id: 1,
            sample_count: 1,
            ..Default::default()
        };
        let ask = control::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO;
        self.session
            .rm
            .control(&ask, self.subdevice.handle(), &mut params)?;
        Ok(params.samples[0].gpu_time)
    }
}

/// Where something is mapped.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) bytes: u64,
    /// In what is reserved, or anywhere.
    pub(super) at: Option<u64>,
}

/// Maps an object of a GPU for the host: by a file that maps nothing else.
fn map_object(
    machine: &dyn Machine,
    rm: &Rm,
    (path, device): (&str, u32),
    object: &Object,
    place: Place,
) -> Result<hcq::mem::view::View> {
    let file = machine.open(path)?;
    register(rm, &*file)?;
    rm.map((device, object.handle()), place.bytes, 0, &*file)?;
    Ok(map_file(&*file, place)?)
}

/// Maps what a file has been told to map.
///
/// # Errors
/// The system's.
pub(super) fn map_file(
    file: &dyn DevFile,
    place: Place,
) -> std::result::Result<hcq::mem::view::View, TransportError> {
    let too_large = |_| {
        let why = format!("{:#x} bytes do not fit an address", place.bytes);
        TransportError::new(file.name(), "mmap", Fault::Unsupported(why))
    };
    file.mmap(Map {
        offset: 0,
        len: usize::try_from(place.bytes).map_err(too_large)?,
        prot: Prot::ReadWrite,
        at: place.at,
    })
}

/// The page of the doorbell. Its parameters are left out: a window of registers (BAR0), on every generation.
fn usermode(rm: &Arc<Rm>, classes: &[Call], subdevice: u32) -> Result<Object> {
    let Some((last, others)) = classes.split_last() else {
        return Err(CallError::Absent {
            call: "a class of the doorbell's page".into(),
            branch: rm.branch,
        });
    };
    for class in others {
        match rm.alloc_plain(class, subdevice) {
            Err(error) if not_passed(&error) => tracing::debug!(%error, "an older one is tried"),
            made => return made,
        }
    }
    rm.alloc_plain(last, subdevice)
}

/// An address space: that of UVM, or one that RM maps in.
fn new_space(session: &Session, device: u32) -> Result<Object> {
    let params = match session.uvm {
        Some(_) => class::VaspaceAlloc {
            flags: vaspace_flags::IS_EXTERNALLY_OWNED.put(1)
                | vaspace_flags::ENABLE_PAGE_FAULTING.put(1),
            va_size: VA_SIZE,
            va_base: VA_BASE,
            ..Default::default()
        },
        None => class::VaspaceAlloc::default(),
    };
    session.rm.alloc(&class::FERMI_VASPACE_A, device, &params)
}

/// Raises the clocks. A GPU computes without it, too, at what it has when it idles.
fn boost(rm: &Rm, subdevice: u32) {
    let mut params = control::PerfBoost {
        flags: BOOST_TO_MAX | BOOST_CUDA,
        duration: u32::MAX,
    };
    let ask = control::NV2080_CTRL_CMD_PERF_BOOST;
    if let Err(error) = rm.control(&ask, subdevice, &mut params) {
        tracing::warn!(%error, "the clocks stay as they are");
    }
}
