//! A sandbox that passes on only the calls that it knows, those of CUDA's: the device works there as outside.
//!
//! Source: gVisor, pkg/sentry/devices/nvproxy/version.go, with the capabilities compute and utility; what it does not
//! know is EINVAL.

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::nv::abi::{Branch, Call, Struct};
use drivers_spec::nv::{class, control, escape};
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::errno::EINVAL;
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use hcq::{Command, Deadline, Device, Error, Val};

use super::stand::{Rig, WILD, at, ends, exec, kernel, machine, memory, soon, twin, words};

/// Of the controls that are described here, those that it passes on.
const CONTROLS: &[Call] = &[
    control::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2,
    control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2,
    control::NV2080_CTRL_CMD_CE_GET_ALL_CAPS,
    control::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION,
    control::NV2080_CTRL_CMD_FB_GET_INFO_V2,
    control::NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS,
    control::NV2080_CTRL_CMD_GPU_GET_GID_INFO,
    control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING,
    control::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES,
    control::ACQUIRE_COMPUTE_MODE_RESERVATION,
    control::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE,
    control::NV2080_CTRL_CMD_GR_GET_INFO,
    control::NV2080_CTRL_CMD_GR_GET_GPC_MASK,
    control::NV2080_CTRL_CMD_GR_GET_TPC_MASK,
    control::NV2080_CTRL_CMD_MC_GET_ARCH_INFO,
    control::NV2080_CTRL_CMD_PERF_BOOST,
    control::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO,
    control::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES,
    control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
    control::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
    control::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES,
];

/// Of the classes that are described here, those that it does not pass on; nor does it others' profilers and displays.
const NOT_CLASSES: &[Call] = &[
    class::VOLTA_USERMODE_A,
    class::AMPERE_USERMODE_A,
    class::VOLTA_CHANNEL_GPFIFO_A,
];

/// Those escapes that need the capability of graphics.
const NOT_ESCAPES: &[Call] = &[escape::RM_MAP_MEMORY_DMA, escape::RM_UNMAP_MEMORY_DMA];

struct Sandbox;

impl Tap for Sandbox {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if access.verb != Verb::Ioctl {
            return None;
        }
        let has = |all: &[Call], number| all.iter().any(|one| one.number == number);
        let is = |call: &Call| access.name == call.name;
        let passed = if is(&escape::RM_CONTROL) {
            let control: escape::Control = decode(&access.data);
            has(CONTROLS, control.cmd)
        } else if is(&escape::RM_ALLOC_RIGHTS) {
            let made: escape::AllocRights = decode(&access.data);
            !has(NOT_CLASSES, made.h_class)
        } else {
            !NOT_ESCAPES.iter().any(is)
        };
        (!passed).then_some(Err(Fault::Errno(EINVAL)))
    }
}

/// A struct that is the same in every branch.
fn decode<T: Struct>(bytes: &[u8]) -> T {
    let size = T::LAYOUT.size(Branch::R580);
    T::decode(Branch::R580, &bytes[..size]).unwrap()
}

pub fn inside(machine: &Arc<dyn Machine>) -> Arc<dyn Machine> {
    Tapped::machine(machine.clone(), Arc::new(Sandbox))
}

#[test]
fn a_device_works_in_a_sandbox() {
    for config in [
        "chip=ga102",
        "chip=ad102,driver=550",
        "chip=h100",
        "chip=h100,driver=535",
        "chip=gb202,driver=570",
    ] {
        let twin = twin(config);
        let outside = machine(&twin);
        let plain = Rig::open(&outside, 0, &kernel(config, "step")).unwrap();
        let units = plain.device.info().units;
        drop(plain);
        let rig = Rig::open(&inside(&outside), 0, &kernel(config, "step")).unwrap();
        assert_eq!(rig.device.info().units, units, "{config}");
        (0..4).for_each(|i| rig.round(i).unwrap());
        // Local memory, for more units than there are.
        let data = memory(&*rig.device, hcq::MemoryKind::Host, 4096).unwrap();
        data.write(0, &[1; 4096]).unwrap();
        let sums = rig.device.load(&kernel(config, "sums")).unwrap();
        let out = memory(&*rig.device, hcq::MemoryKind::Host, 4096).unwrap();
        let args = [at(&out), at(&data)];
        let summed = rig.compute.submit(&[], &[exec(&sums, &args, 1)]).unwrap();
        summed.wait(soon()).unwrap();
        assert_ne!(words::<1>(&out).unwrap(), [0], "{config}");
        // A wait that a deadline ends, and one that the host does.
        let gate = rig.device.signal("the gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let held = rig.compute.submit(&[], &[wait]).unwrap();
        let late = held.wait(Deadline::after(Duration::from_millis(10)));
        assert!(matches!(late, Err(Error::Timeout { .. })), "{config}");
        gate.set(1).unwrap();
        held.wait(soon()).unwrap();
        // The address of a fault is not told there; that there was one is.
        let store = rig.device.load(&kernel(config, "store")).unwrap();
        let wild = [Val::Const(WILD)];
        let done = rig.compute.submit(&[], &[exec(&store, &wild, 1)]).unwrap();
        let error = done.wait(soon()).unwrap_err();
        let Error::DeviceLost { cause, .. } = &error else {
            panic!("{config}: {error}")
        };
        assert!(cause.to_string().contains("Xid 31"), "{config}: {cause}");
        drop((rig, data, sums, out, summed, gate, held, store, done));
        ends(&twin, &["MMU-FAULT"], config);
    }
}
