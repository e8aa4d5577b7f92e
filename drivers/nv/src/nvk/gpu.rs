//! [`Gpu`]: a GPU of the process: its objects in RM, its address space, its doorbell, what it says of
//! itself.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/ctrl2080/{ctrl2080gr,ctrl2080fb,
//! ctrl2080gpu,ctrl2080perf,ctrl2080ce}.h; what libcuda asks is told by recordings.

use std::sync::{Arc, Mutex};

use drivers_spec::nv::abi::Call;
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::control::{self, fb_info, gr_info};
use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::memory::vaspace_flags;
use drivers_spec::nv::query::compute_mode;
use drivers_spec::nv::{class, escape, push, query, status};
use hcq::mem::window::Window;
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, TransportError};

use super::CallError;
use super::call::{Result, send};
use super::rm::{Object, Rm, number};
use super::session::Session;
use super::survey::{Found, Unusable, text};
use super::uvm::{Registered, Uuid};
use crate::chip::{Chip, Units};

/// Where the addresses of a GPU begin, and how many it has: all that a process may have, too.
const VA_BASE: u64 = 0x1000;
const VA_SIZE: u64 = 0x1_ffff_fb00_0000;

/// `NV2080_CTRL_PERF_BOOST_FLAGS`: to the most, for computing. Source: ctrl2080perf.h.
const BOOST_TO_MAX: u32 = 2;
const BOOST_CUDA: u32 = 1 << 4;

/// A number, not a text, of as many bytes as a UUID has (`NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY`).
const BINARY: u32 = 2;

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

/// What a GPU says of itself.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) product: String,
    pub(super) chip: Chip,
    pub(super) units: Units,
    /// Bytes of memory.
    pub(super) vram: u64,
    /// Bytes of the window to it.
    pub(super) bar: u64,
    /// Its classes.
    pub(super) channel: Call,
    pub(super) compute: Call,
    pub(super) copy: Call,
    /// Copy engines that channels of their own may have.
    pub(super) copy_engines: Vec<u32>,
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
        let file = open_file(&**machine, rm, &found.path)?;
        let mut info = control::IdInfo {
            gpu_id: found.gpu_id,
            ..Default::default()
        };
        let ask = control::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2;
        rm.control(&ask, rm.client, &mut info)?;
        let params = class::Nv0080Alloc {
            device_id: info.device_instance,
            h_client_share: rm.client,
            ..Default::default()
        };
        let device = rm.alloc(&class::NV01_DEVICE_0, rm.client, &params)?;
        let params = class::Nv2080Alloc {
            sub_device_id: info.sub_device_instance,
        };
        let subdevice = rm.alloc(&class::NV20_SUBDEVICE_0, device.handle(), &params)?;
        let asked = Asked {
            rm,
            device: device.handle(),
            subdevice: subdevice.handle(),
        };
        let (facts, usermode) = asked.facts(found)?;
        let uuid = asked.uuid()?;
        boost(rm, subdevice.handle());
        let space = new_space(session, device.handle())?;
        let registered = match &session.uvm {
            Some(uvm) => Some(uvm.register(uuid, space.handle())?),
            None => None,
        };
        // Its parameters are left out: a window of registers (BAR0), on every generation.
        let usermode = rm.alloc_plain(&usermode, subdevice.handle())?;
        let view = map_object(
            &**machine,
            rm,
            (&found.path, device.handle()),
            &usermode,
            Place {
                bytes: push::usermode::BYTES,
                at: None,
            },
        )?;
        Ok(Gpu {
            doorbell: Window::mapped("doorbells", view),
            _usermode: usermode,
            _registered: registered,
            space,
            subdevice,
            device,
            file,
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

/// A file of a GPU that belongs to a control file.
///
/// # Errors
/// [`Unusable`].
pub(super) fn open_file(
    machine: &dyn Machine,
    rm: &Rm,
    path: &str,
) -> std::result::Result<Arc<dyn DevFile>, Unusable> {
    let file = machine.open(path);
    let file = file.map_err(|e| Unusable::of_open(machine, e, path))?;
    register(rm, &*file)?;
    Ok(file)
}

fn register(rm: &Rm, file: &dyn DevFile) -> Result {
    let args = escape::RegisterFd {
        ctl_fd: number(&*rm.control)?,
    };
    let argument = Argument::escape(&escape::REGISTER_FD, rm.branch, &args);
    let mut argument = argument.ok_or_else(|| CallError::Absent {
        call: escape::REGISTER_FD.name.into(),
        branch: rm.branch,
    })?;
    send(file, &mut argument)
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
    rm.map(device, object.handle(), place.bytes, &*file)?;
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

/// Sizes of memory, in bytes.
fn memory_sizes<const N: usize>(rm: &Rm, subdevice: u32, indices: [u32; N]) -> Result<[u64; N]> {
    let mut params = control::FbGetInfoV2 {
        fb_info_list_size: N as u32,
        ..Default::default()
    };
    for (info, index) in params.fb_info_list.iter_mut().zip(indices) {
        info.index = index;
    }
    let ask = control::NV2080_CTRL_CMD_FB_GET_INFO_V2;
    rm.control(&ask, subdevice, &mut params)?;
    let mut sizes = [0; N];
    for (size, info) in sizes.iter_mut().zip(&params.fb_info_list) {
        *size = u64::from(info.data) << 10;
    }
    Ok(sizes)
}

/// A device and its subdevice, to ask.
struct Asked<'a> {
    rm: &'a Arc<Rm>,
    device: u32,
    subdevice: u32,
}

impl Asked<'_> {
    /// What it says of itself, and the class of its doorbell.
    fn facts(&self, found: &Found) -> std::result::Result<(Facts, Call), Unusable> {
        let chip = self.chip(found)?;
        self.not_divided(found)?;
        self.may_compute(found)?;
        let classes = self.classes()?;
        self.not_confidential(found, chip.arch)?;
        let facts = chip.facts();
        let has = |wanted: Call| match classes.contains(&wanted.number) {
            true => Ok(wanted),
            false => Err(Unusable::Unsupported {
                place: found.place.clone(),
                chip: format!("{}, without class {}", chip.name, wanted.name),
            }),
        };
        let [vram, bar] = memory_sizes(
            self.rm,
            self.subdevice,
            [fb_info::TOTAL_RAM_SIZE, fb_info::BAR1_SIZE],
        )?;
        let told = Facts {
            product: self.product()?,
            chip,
            units: self.units()?,
            vram,
            bar,
            channel: has(facts.channel)?,
            compute: has(facts.compute)?,
            copy: has(facts.copy)?,
            copy_engines: self.copy_engines()?,
        };
        Ok((told, has(facts.usermode)?))
    }

    fn chip(&self, found: &Found) -> std::result::Result<Chip, Unusable> {
        let mut params = control::ArchInfo::default();
        let ask = control::NV2080_CTRL_CMD_MC_GET_ARCH_INFO;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        let id = (params.architecture, params.implementation);
        Chip::by_id(id).ok_or_else(|| Unusable::Unsupported {
            place: found.place.clone(),
            chip: format!(
                "architecture {:#x}, implementation {:#x}, device {:#06x}",
                id.0, id.1, found.device_id
            ),
        })
    }

    fn classes(&self) -> Result<Vec<u32>> {
        let mut params = control::ClassListV2::default();
        let ask = control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2;
        self.rm.control(&ask, self.device, &mut params)?;
        let count = params.class_list.len().min(params.num_classes as usize);
        Ok(params.class_list[..count].to_vec())
    }

    fn product(&self) -> Result<String> {
        let mut params = query::NameString::default();
        let ask = control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        Ok(text(&params.gpu_name_string))
    }

    fn units(&self) -> Result<Units> {
        const ASKED: [u32; 5] = [
            gr_info::SHADER_PIPE_SUB_COUNT,
            gr_info::LITTER_NUM_GPCS,
            gr_info::LITTER_NUM_TPC_PER_GPC,
            gr_info::LITTER_NUM_SM_PER_TPC,
            gr_info::MAX_WARPS_PER_SM,
        ];
        let mut params = control::GrGetInfoV2 {
            gr_info_list_size: ASKED.len() as u32,
            ..Default::default()
        };
        for (info, index) in params.gr_info_list.iter_mut().zip(ASKED) {
            info.index = index;
        }
        let ask = control::NV2080_CTRL_CMD_GR_GET_INFO_V2;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        let [tpcs, gpcs, tpcs_per_gpc, sms_per_tpc, warps_per_sm] =
            std::array::from_fn(|i| params.gr_info_list[i].data);
        Ok(Units {
            sms: tpcs * sms_per_tpc,
            gpcs,
            tpcs_per_gpc,
            sms_per_tpc,
            warps_per_sm,
        })
    }

    /// Copy engines that do not share the runlist of graphics: others are taken for graphics.
    ///
    /// Source: uvm_user_channel.c, by engine type; ctrl2080ce.h, `NV2080_CTRL_CE_CAPS_CE_GRCE`.
    fn copy_engines(&self) -> Result<Vec<u32>> {
        let mut params = control::CeAllCaps::default();
        let ask = control::NV2080_CTRL_CMD_CE_GET_ALL_CAPS;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        // One of the two is there, by branch.
        let present = params.present | u64::from(params.present32);
        let first = class::engine::COPY0..=class::engine::COPY9;
        let all = first.zip(params.caps_tbl).enumerate();
        let own = all.filter(|(i, (_, caps))| present >> i & 1 != 0 && caps[0] & 1 == 0);
        Ok(own.map(|(_, (engine, _))| engine).collect())
    }

    fn uuid(&self) -> Result<Uuid> {
        let mut params = control::GidInfo {
            flags: BINARY,
            length: size_of::<Uuid>() as u32,
            ..Default::default()
        };
        let ask = control::NV2080_CTRL_CMD_GPU_GET_GID_INFO;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        let mut uuid = Uuid::default();
        uuid.copy_from_slice(&params.data[..size_of::<Uuid>()]);
        Ok(uuid)
    }

    fn not_divided(&self, found: &Found) -> std::result::Result<(), Unusable> {
        let mut params = query::ActivePartitionIds::default();
        let ask = control::NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS;
        match self.rm.control(&ask, self.subdevice, &mut params) {
            Ok(()) if params.partition_count > 0 => Err(Unusable::Divided {
                place: found.place.clone(),
                parts: params.partition_count,
            }),
            Ok(()) => Ok(()),
            // Whoever may not ask finds out when a channel is made.
            Err(error) => {
                tracing::debug!(%error, "whether the GPU is divided is not told");
                Ok(())
            }
        }
    }

    /// Keeps to what the administrator has set, which RM leaves to programs: a GPU for one program at a time is
    /// reserved, as long as the subdevice lives.
    fn may_compute(&self, found: &Found) -> std::result::Result<(), Unusable> {
        let mut params = query::ComputeModeRules::default();
        let ask = control::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES;
        if let Err(error) = self.rm.control(&ask, self.subdevice, &mut params) {
            tracing::debug!(%error, "who may compute is not told");
            return Ok(());
        }
        let place = || found.place.clone();
        match params.rules {
            compute_mode::COMPUTE_PROHIBITED => Err(Unusable::Prohibited { place: place() }),
            compute_mode::EXCLUSIVE_COMPUTE | compute_mode::EXCLUSIVE_COMPUTE_PROCESS => {
                let reserve = control::ACQUIRE_COMPUTE_MODE_RESERVATION;
                match self.rm.order(&reserve, self.subdevice) {
                    Err(error) if error.is(status::NV_ERR_STATE_IN_USE) => {
                        Err(Unusable::Busy { place: place() })
                    }
                    done => Ok(done?),
                }
            }
            _ => Ok(()),
        }
    }

    fn not_confidential(&self, found: &Found, arch: Arch) -> std::result::Result<(), Unusable> {
        if arch < Arch::Gh100 {
            return Ok(());
        }
        let params = class::ConfidentialComputeAlloc {
            h_client: self.rm.client,
        };
        let asked = || {
            let class = class::NV_CONFIDENTIAL_COMPUTE;
            let object = self.rm.alloc(&class, self.rm.client, &params)?;
            let mut params = control::ConfComputeCapabilities::default();
            let ask = control::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES;
            self.rm.control(&ask, object.handle(), &mut params)?;
            Ok(params.cc_feature)
        };
        match asked() {
            Ok(0) => Ok(()),
            Ok(_) => Err(Unusable::Confidential {
                place: found.place.clone(),
            }),
            Err::<_, CallError>(error) => {
                tracing::debug!(%error, "whether computing is confidential is not told");
                Ok(())
            }
        }
    }
}
