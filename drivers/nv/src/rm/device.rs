//! [`Device`]: a GPU of RM: its controls, its clock, its memory, its address spaces.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/ctrl2080/{ctrl2080perf,ctrl2080timer,ctrl2080fb,
//! ctrl2080gpu}.h; the controls of libcuda are known from recordings.

use std::sync::Arc;

use drivers_spec::nv::abi::Call;
use drivers_spec::nv::class;
use drivers_spec::nv::control::{self, fb_info};
use drivers_spec::nv::memory::vaspace_flags;

use super::client::{Client, Object};
use super::transport::{CallError, Result, not_passed};

/// A number, not a text, of as many bytes as a UUID has (`NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY`).
const BINARY: u32 = 2;

/// Where the addresses of a GPU begin, and how many it has: all that a process may have, too.
const VA_BASE: u64 = 0x1000;
const VA_SIZE: u64 = 0x1_ffff_fb00_0000;

/// `NV2080_CTRL_PERF_BOOST_FLAGS`: to the most, for computing. Source: ctrl2080perf.h.
const BOOST_TO_MAX: u32 = 2;
const BOOST_CUDA: u32 = 1 << 4;

/// The UUID of a GPU.
pub(crate) type Uuid = [u8; 16];

/// A GPU of a client. Its parts are freed from the top.
pub(crate) struct Device {
    pub(crate) subdevice: Object,
    pub(crate) device: Object,
}

/// Who maps memory in an address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mapper {
    /// RM, when it is asked to.
    Rm,
    /// An external owner: UVM.
    Other,
}

impl Device {
    /// A GPU, by its instances in RM.
    ///
    /// # Errors
    /// [`CallError`]; nothing is left behind then.
    pub(crate) fn new(
        rm: &Arc<Client>,
        device_instance: u32,
        sub_device_instance: u32,
    ) -> Result<Device> {
        let params = class::Nv0080Alloc {
            device_id: device_instance,
            h_client_share: rm.handle(),
            ..Default::default()
        };
        let device = rm.alloc(&class::NV01_DEVICE_0, &params)?;
        let params = class::Nv2080Alloc {
            sub_device_id: sub_device_instance,
        };
        let subdevice = device.alloc(&class::NV20_SUBDEVICE_0, &params)?;
        Ok(Device { subdevice, device })
    }

    /// Its client.
    pub(crate) fn client(&self) -> &Arc<Client> {
        self.device.client()
    }

    /// Its clock: nanoseconds.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn ticks(&self) -> Result<u64> {
        // `NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_OSTIME`; the processor's time is not used.
        let mut params = control::TimeCorrelation {
            cpu_clk_id: 1,
            sample_count: 1,
            ..Default::default()
        };
        let ask = control::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO;
        self.subdevice.control(&ask, &mut params)?;
        Ok(params.samples[0].gpu_time)
    }

    /// Sizes of memory, in bytes, by [`fb_info`].
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn memory_sizes<const N: usize>(&self, indices: [u32; N]) -> Result<[u64; N]> {
        let mut params = control::FbGetInfoV2 {
            fb_info_list_size: N as u32,
            ..Default::default()
        };
        for (info, index) in params.fb_info_list.iter_mut().zip(indices) {
            info.index = index;
        }
        let ask = control::NV2080_CTRL_CMD_FB_GET_INFO_V2;
        self.subdevice.control(&ask, &mut params)?;
        let mut sizes = [0; N];
        for (size, info) in sizes.iter_mut().zip(&params.fb_info_list) {
            *size = u64::from(info.data) << 10;
        }
        Ok(sizes)
    }

    /// Bytes of its memory that are free.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn free_memory(&self) -> Result<u64> {
        let [free] = self.memory_sizes([fb_info::HEAP_FREE])?;
        Ok(free)
    }

    /// The number that UVM knows it by.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn uuid(&self) -> Result<Uuid> {
        let mut params = control::GidInfo {
            flags: BINARY,
            length: size_of::<Uuid>() as u32,
            ..Default::default()
        };
        let ask = control::NV2080_CTRL_CMD_GPU_GET_GID_INFO;
        self.subdevice.control(&ask, &mut params)?;
        let mut uuid = Uuid::default();
        uuid.copy_from_slice(&params.data[..size_of::<Uuid>()]);
        Ok(uuid)
    }

    /// The classes of objects that it has, by number.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn classes(&self) -> Result<Vec<u32>> {
        let mut params = control::ClassListV2::default();
        let ask = control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2;
        self.device.control(&ask, &mut params)?;
        let count = params.class_list.len().min(params.num_classes as usize);
        Ok(params.class_list[..count].to_vec())
    }

    /// Raises the clocks. Without it a GPU computes at idle clocks.
    pub(crate) fn boost(&self) {
        let mut params = control::PerfBoost {
            flags: BOOST_TO_MAX | BOOST_CUDA,
            duration: u32::MAX,
        };
        let ask = control::NV2080_CTRL_CMD_PERF_BOOST;
        if let Err(error) = self.subdevice.control(&ask, &mut params) {
            tracing::warn!(%error, "could not raise the clocks");
        }
    }

    /// An address space.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn space(&self, mapper: Mapper) -> Result<Object> {
        let params = match mapper {
            Mapper::Other => class::VaspaceAlloc {
                flags: vaspace_flags::IS_EXTERNALLY_OWNED.put(1)
                    | vaspace_flags::ENABLE_PAGE_FAULTING.put(1),
                va_size: VA_SIZE,
                va_base: VA_BASE,
                ..Default::default()
            },
            Mapper::Rm => class::VaspaceAlloc::default(),
        };
        self.device.alloc(&class::FERMI_VASPACE_A, &params)
    }

    /// The page of the doorbell, of the first of these classes that it may be made of. Its parameters are left out: a
    /// window of registers (BAR0), on every generation.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn usermode(&self, classes: &[Call]) -> Result<Object> {
        let Some((last, others)) = classes.split_last() else {
            return Err(CallError::Absent {
                call: "doorbell page class".into(),
                branch: self.client().branch(),
            });
        };
        for class in others {
            match self.subdevice.alloc_plain(class) {
                Err(error) if not_passed(&error) => {
                    tracing::debug!(%error, "trying an older class")
                }
                made => return made,
            }
        }
        self.subdevice.alloc_plain(last)
    }
}
