//! What devices and subdevices are asked and always answer alike: capabilities, names, units, links.
//!
//! Source: open-gpu-kernel-modules 550.163.01, src/nvidia/src/kernel/gpu: subdevice/
//! subdevice_ctrl_gpu_kernel.c, bus/kern_bus_ctrl.c, mem_sys/kern_mem_sys_ctrl.c; ctrl/ctrl2080/*.h.
//! Numbers of units follow from NVIDIA's architecture papers ([`crate::chip`]); where those say nothing
//! (partitions of memory, banks of registers), they are of this model's choice.

use drivers_spec::nv::abi::{self, Branch};
use drivers_spec::nv::control::{self, gr_info};
use drivers_spec::nv::query::{self, compute_mode};
use drivers_spec::nv::status;
use twin::rule::{Proof, Rule};

use crate::chip::{Chip, SMS_PER_TPC};
use crate::config::Compute;
use crate::errno::{Failure, Result};
use crate::kernel::bus;

use super::Call;

static UNPUBLISHED: Rule = Rule {
    name: "RM-CONTROL-UNPUBLISHED",
    text: "a control that NVIDIA's headers do not name is one that NVIDIA's own programs send, with the size that they send",
    source: "what libcuda 550.163.01 asks; open-gpu-kernel-modules, binary_api.c and RM_GSS_LEGACY_MASK: RM hands such calls to the GPU's processor unread",
    proof: Proof::Guess,
};

/// Controls that libcuda needs to succeed and that no header names, with their sizes. What they answer nobody
/// outside knows: parameters stay as they are, and zeros are what libcuda goes on with.
const WITHOUT_NAME: [(u32, u32); 3] = [(0x2081_0108, 992), (0x2080_8159, 332), (0x2080_9038, 4)];

/// What libcuda asks of Hopper and the kernel does not have (g_device_nvoc.c of 550.163.01): it is told so, and
/// goes on.
const ABSENT: [u32; 1] = [0x0080_028b];

/// `NV2080_CTRL_GPU_INFO_INDEX_*` that are not 0.
mod gpu_info {
    pub(super) const DEBUGGING_CAPABILITY: u32 = 0x37;
    pub(super) const DMABUF_CAPABILITY: u32 = 0x3d;
}

/// `NV2080_CTRL_BUS_INFO_INDEX_*`.
mod bus_info {
    pub(super) const TYPE: u32 = 0;
    pub(super) const CAPS: u32 = 2;
    pub(super) const PCIE_GPU_LINK_CAPS: u32 = 3;
    pub(super) const PCIE_GPU_LINK_CTRL_STATUS: u32 = 7;
    pub(super) const COHERENT_DMA_FLAGS: u32 = 0xb;
    pub(super) const BUS_NUMBER: u32 = 0xf;
    pub(super) const DEVICE_NUMBER: u32 = 0x10;
    pub(super) const INTERFACE_TYPE: u32 = 0x13;
    pub(super) const DOMAIN_NUMBER: u32 = 0x2c;
    pub(super) const GPU_INTERFACE_TYPE: u32 = 0x2e;
    pub(super) const SYSMEM_CONNECTION_TYPE: u32 = 0x33;
    /// What the type is.
    pub(super) const PCI_EXPRESS: u32 = 3;
}

/// Copies a text with a zero at its end.
fn text(to: &mut [u8], text: &str) {
    to.fill(0);
    to[..text.len()].copy_from_slice(text.as_bytes());
}

/// The name of a GPU, in bytes or in UTF-16.
fn name_string(name: &str, params: &mut query::NameString) {
    if params.gpu_name_string_flags == 0 {
        text(&mut params.gpu_name_string, name);
        return;
    }
    let wide = name.encode_utf16().flat_map(u16::to_le_bytes);
    params.gpu_name_string = [0; 128];
    for (to, byte) in params.gpu_name_string[..126].iter_mut().zip(wide) {
        *to = byte;
    }
}

impl Call<'_> {
    /// A control that is in no table; none where it is not one of those without a name.
    pub(super) fn without_name(&self, cmd: u32, size: u32) -> Option<Result> {
        if ABSENT.contains(&cmd) {
            return Some(Err(Failure::Status(status::NV_ERR_NOT_SUPPORTED)));
        }
        let (_, expected) = WITHOUT_NAME.iter().find(|row| row.0 == cmd)?;
        if *expected == size {
            return Some(Ok(()));
        }
        let what = format!("control {cmd:#x} of {size} bytes, expected {expected}");
        let invalid = status::NV_ERR_INVALID_PARAM_STRUCT;
        Some(self.machine.refuse(&UNPUBLISHED, invalid, what))
    }

    /// Answers a control that tells a fact, or that is taken and changes nothing; none where it is another one.
    pub(super) fn fact(&self, gpu: usize, cmd: u32, at: u64) -> Option<Result> {
        let zero = || self.zero(cmd, at);
        let taken = || self.taken(cmd, at);
        self.told(gpu, cmd, at).or_else(zero).or_else(taken)
    }

    /// What there is.
    fn told(&self, gpu: usize, cmd: u32, at: u64) -> Option<Result> {
        let chip = self.machine.config.chips[gpu];
        let is = |one: abi::Call| one.number == cmd;
        Some(match cmd {
            _ if is(control::NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES) => {
                self.answer(at, |params: &mut query::NumSubdevices| {
                    params.num_sub_devices = 1;
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GR_GET_CAPS_V2) => {
                self.answer(at, |params: &mut query::GrCaps| {
                    params.caps_tbl = [0; 23];
                    params.caps_populated = 1;
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_INFO_V2) => self.gpu_info(at),
            _ if is(control::NV2080_CTRL_CMD_BUS_GET_INFO_V2) => self.bus_info(gpu, at),
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING) => self.answer(at, |params| {
                name_string(chip.product, params);
                Ok(())
            }),
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING) => {
                self.answer(at, |params: &mut query::ShortNameString| {
                    let name = match chip.name {
                        "h100" | "h200" => "GH100-A".into(),
                        name => format!("{}-A", name.to_uppercase()),
                    };
                    text(&mut params.gpu_short_name_string, &name);
                    Ok(())
                })
            }
            // In one piece, without errors, for any number of programs.
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS) => {
                self.answer(at, |params: &mut query::ActivePartitionIds| {
                    *params = query::ActivePartitionIds::default();
                    params.partition_count = self.machine.config.parts;
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES) => {
                self.answer(at, |params: &mut query::ComputeModeRules| {
                    params.rules = match self.machine.config.compute {
                        Compute::Shared => compute_mode::NONE,
                        Compute::Exclusive | Compute::Taken => {
                            compute_mode::EXCLUSIVE_COMPUTE_PROCESS
                        }
                        Compute::Prohibited => compute_mode::COMPUTE_PROHIBITED,
                    };
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS) => {
                self.answer(at, |params: &mut query::EccStatus| {
                    params.units = [query::EccUnit::default(); 36];
                    (params.fatal_poison_error, params.uncorrectable_error) = (0, 0);
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER) => {
                self.answer(at, |params| self.sm_order(chip, params))
            }
            _ if is(control::NV2080_CTRL_CMD_GSP_GET_FEATURES) => {
                self.answer(at, |params: &mut query::GspFeatures| {
                    // The open modules run on a GPU with such a processor only.
                    // Without the bit of UVM libcuda does without UVM.
                    params.gsp_features = 1;
                    (params.valid, params.default_gsp_rm_gpu) = (1, 1);
                    text(&mut params.firmware_version, &self.machine.config.driver);
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_BUS_GET_PCI_INFO) => {
                self.answer(at, |params: &mut query::BusPciInfo| {
                    params.pci_device_id = u32::from(chip.device_id) << 16 | 0x10de;
                    params.pci_ext_device_id = chip.device_id.into();
                    // A board of NVIDIA's own; its number is of this model's choice.
                    params.pci_sub_system_id = 0x1000_10de;
                    params.pci_revision_id = 0xa1;
                    Ok(())
                })
            }
            _ => return None,
        })
    }

    /// What there is not: all zeros.
    fn zero(&self, cmd: u32, at: u64) -> Option<Result> {
        let is = |one: abi::Call| one.number == cmd;
        Some(match cmd {
            _ if is(control::NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE) => {
                self.zeros::<query::VirtualizationMode>(at)
            }
            // Bits of bugs that none of these chips has.
            _ if is(control::NV0080_CTRL_CMD_FB_GET_CAPS_V2) => self.zeros::<query::FbCaps>(at),
            _ if is(control::NV0080_CTRL_CMD_HOST_GET_CAPS_V2) => self.zeros::<query::HostCaps>(at),
            // No switches, and all units at full speed.
            _ if is(control::NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO) => {
                self.zeros::<query::FabricProbeInfo>(at)
            }
            _ if is(control::NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER) => {
                self.zeros::<control::SmIssueRateModifier>(at)
            }
            // Silicon.
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO) => {
                self.zeros::<query::SimulationInfo>(at)
            }
            // No links to processors or other GPUs, and no atomic operations over the bus.
            _ if is(control::NV2080_CTRL_CMD_BUS_GET_C2C_INFO) => self.zeros::<query::C2cInfo>(at),
            _ if is(control::NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS) => {
                self.zeros::<query::NvlinkStatus>(at)
            }
            _ if is(control::NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS) => {
                self.zeros::<query::GpuAtomics>(at)
            }
            _ => return None,
        })
    }

    /// What is taken, and changes nothing here.
    fn taken(&self, cmd: u32, at: u64) -> Option<Result> {
        let is = |one: abi::Call| one.number == cmd;
        Some(match cmd {
            // What engines tell waits for nobody here.
            _ if is(control::NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS) => {
                self.answer(at, |_: &mut query::ServiceInterrupts| Ok(()))
            }
            // No clock is modelled.
            _ if is(control::NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL) => {
                self.answer(at, |_: &mut query::CudaLimit| Ok(()))
            }
            // Groups take turns by the seed, and exceptions are told whatever the mask.
            _ if is(control::NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK) => {
                self.answer(at, |_: &mut query::ExceptionMask| Ok(()))
            }
            _ if is(control::NVA06C_CTRL_CMD_SET_TIMESLICE) => {
                self.answer(at, |params: &mut query::Timeslice| {
                    match params.timeslice_us {
                        0 => self.value("a time slice of 0".into()),
                        _ => Ok(()),
                    }
                })
            }
            _ if is(control::NVA06C_CTRL_CMD_PREEMPT) => {
                self.answer(at, |_: &mut query::Preempt| Ok(()))
            }
            // Nobody watches the GPU here.
            _ if is(control::NV2080_CTRL_CMD_RC_RELEASE_WATCHDOG_REQUESTS)
                || is(control::NV2080_CTRL_CMD_RC_SOFT_DISABLE_WATCHDOG) =>
            {
                Ok(())
            }
            _ => return None,
        })
    }

    /// Answers with zeros.
    pub(super) fn zeros<T: abi::Struct + Default>(&self, at: u64) -> Result {
        self.answer::<T>(at, |params| {
            *params = T::default();
            Ok(())
        })
    }

    /// A list of questions about the GPU.
    fn gpu_info(&self, at: u64) -> Result {
        self.answer(at, |params: &mut query::GpuGetInfoV2| {
            let count = params.gpu_info_list_size as usize;
            let Some(list) = params.gpu_info_list.get_mut(..count) else {
                return self.value(format!("a list of {count}"));
            };
            for info in list {
                // What is asked beside these is a feature that is not there: partitions, links, twins on a
                // board.
                info.data = match info.index {
                    gpu_info::DEBUGGING_CAPABILITY | gpu_info::DMABUF_CAPABILITY => 1,
                    0x11 | 0x22 | 0x26 | 0x27 | 0x2a | 0x2d | 0x3a | 0x3b | 0x3c => 0,
                    index => return self.unknown_index("GPU_GET_INFO_V2", index),
                };
            }
            Ok(())
        })
    }

    /// A list of questions about the bus.
    fn bus_info(&self, gpu: usize, at: u64) -> Result {
        self.answer(at, |params: &mut query::BusGetInfoV2| {
            let count = params.bus_info_list_size as usize;
            let Some(list) = params.bus_info_list.get_mut(..count) else {
                return self.value(format!("a list of {count}"));
            };
            for info in list {
                info.data = match info.index {
                    bus_info::TYPE | bus_info::INTERFACE_TYPE | bus_info::GPU_INTERFACE_TYPE => {
                        bus_info::PCI_EXPRESS
                    }
                    bus_info::BUS_NUMBER => bus(gpu).into(),
                    bus_info::DEVICE_NUMBER | bus_info::DOMAIN_NUMBER => 0,
                    bus_info::SYSMEM_CONNECTION_TYPE => 0,
                    // One device on the bus, to whose memory the processor's caches are no matter.
                    bus_info::CAPS | bus_info::COHERENT_DMA_FLAGS => 0,
                    // Generation 4, 16 lanes.
                    bus_info::PCIE_GPU_LINK_CAPS => 0x104,
                    bus_info::PCIE_GPU_LINK_CTRL_STATUS => 0x104 << 16,
                    // Counts of errors, states of power, and the bridges above: nothing is there.
                    index if index < bus_info::SYSMEM_CONNECTION_TYPE => 0,
                    index => return self.unknown_index("BUS_GET_INFO_V2", index),
                };
            }
            Ok(())
        })
    }

    /// Where each SM is: clusters take turns, TPC by TPC. On silicon the order follows from which units
    /// are switched off.
    fn sm_order(&self, chip: &Chip, params: &mut query::GlobalSmOrder) -> Result {
        let words = match self.machine.branch() < Branch::R580 {
            true => 6,
            false => 9,
        };
        params.global_sm_id = [0; 4608];
        let mut rows = params.global_sm_id.chunks_exact_mut(words);
        let (mut sms, mut tpcs) = (0, 0);
        for tpc in 0..chip.tpcs_per_gpc {
            let have = chip.tpcs.iter().enumerate().filter(|(_, on)| tpc < **on);
            for (gpc, _) in have {
                for sm in 0..SMS_PER_TPC {
                    let Some(row) = rows.next() else {
                        return self.value(format!("{sms} SMs"));
                    };
                    let (gpc, tpc) = (gpc as u16, tpc as u16);
                    row[..6].copy_from_slice(&[gpc, tpc, sm as u16, tpcs, gpc, tpc]);
                    sms += 1;
                }
                tpcs += 1;
            }
        }
        (params.num_sm, params.num_tpc) = (sms, tpcs);
        Ok(())
    }

    /// One question about graphics.
    pub(super) fn gr_fact(&self, chip: &Chip, index: u32) -> Result<u32> {
        match graphics(chip, self.machine.branch(), index) {
            Some(answer) => Ok(answer),
            None => self.unknown_index("GR_GET_INFO", index),
        }
    }
}

/// How many facts about graphics a branch has: `NV0080_CTRL_GR_INFO_MAX_SIZE`.
pub(crate) fn graphics_facts(branch: Branch) -> u32 {
    1 + gr_info::LAST_535
        + match branch {
            Branch::R535 => 0,
            Branch::R550 => 3,
            Branch::R570 | Branch::R580 => 5,
        }
}

/// A fact about graphics, by its index.
pub(crate) fn graphics(chip: &Chip, branch: Branch, index: u32) -> Option<u32> {
    let tpcs: u32 = chip.tpcs.iter().sum();
    let sms = tpcs * SMS_PER_TPC;
    Some(match index {
        gr_info::SHADER_PIPE_COUNT | gr_info::LITTER_NUM_GPCS => chip.tpcs.len() as u32,
        gr_info::SHADER_PIPE_SUB_COUNT => tpcs,
        gr_info::SM_REG_BANK_COUNT => 4,
        gr_info::SM_REG_BANK_REG_COUNT => 16 << 10,
        gr_info::SM_VERSION => chip.sm_version,
        gr_info::MAX_WARPS_PER_SM => chip.warps_per_sm,
        gr_info::MAX_THREADS_PER_WARP => 32,
        gr_info::MAX_SP_PER_SM => 128,
        gr_info::LITTER_NUM_TPC_PER_GPC => chip.tpcs_per_gpc,
        gr_info::GPU_CORE_COUNT => sms * 128,
        gr_info::LITTER_NUM_SM_PER_TPC => SMS_PER_TPC,
        gr_info::RT_CORE_COUNT if chip.pci_class == 0x03_0000 => sms,
        gr_info::TENSOR_CORE_COUNT => sms * 4,
        gr_info::LITTER_NUM_GRS => 1,
        gr_info::MAX_SUBCONTEXT_COUNT => 64,
        // Of graphics, which is not modelled, and of buses inside.
        index if index < graphics_facts(branch) => 0,
        _ => return None,
    })
}
