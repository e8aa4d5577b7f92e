//! The resource manager behind RPCs: the same model that stands behind the kernel driver's ioctls, as one process of its
//! own, whose memory holds parameters while a call lasts.
//!
//! Source: OGKM, g_rpc-structures.h (rpc_gsp_rm_alloc_v03_00, rpc_gsp_rm_control_v03_00, rpc_free_v03_00, rpc_dup_object_v03_00,
//! rpc_map_memory_dma_v03_00, rpc_unmap_memory_dma_v03_00); g_sdk-structures.h; rpc.c, rpcRmApiAlloc_GSP, rpcRmApiControl_GSP.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::client::{Memory, Pages};
use crate::config::Config;
use crate::kernel::{Machine, Process};
use crate::pci::memory::word;
use crate::pci::runner::Notes;
use drivers_spec::nv::abi::{self, Branch, Struct};
use drivers_spec::nv::{class, escape, status};

use super::objects::Objects;

/// Where arguments and parameters of a call lie.
const ARGUMENTS: u64 = 0x1000_0000;
const PARAMETERS: u64 = 0x1100_0000;
/// The most that parameters have: NV2080_CTRL_CMD_INTERNAL_* are large.
const MOST: u64 = 1 << 20;

/// The client that GSP's firmware has for the host's kernel, and its objects. Which numbers firmware chooses differs.
pub(super) const INTERNAL: [u32; 3] = [0xc1e0_0004, 0xabcd_0080, 0xabcd_2080];

/// RM, and who calls it.
pub(super) struct Rm {
    pub(super) notes: Arc<Notes>,
    /// Address spaces, channels and what hangs on them.
    pub(super) objects: Objects,
    process: Arc<Process>,
    memory: Arc<Pages>,
    control: i32,
    branch: Branch,
}

/// An answer: the payload as it comes back, or a status of the whole RPC.
pub(super) type Answer = Result<Vec<u8>, u32>;

impl Rm {
    /// RM on a machine with one GPU of that chip, and its clock.
    ///
    /// # Errors
    /// What the host lacks.
    pub(super) fn new(chip: &str, version: &str, clock: Arc<AtomicU64>) -> Result<Rm, String> {
        let config = Config::parse(&format!("chip={chip},driver={version}"));
        let config = config.map_err(|wrong| wrong.to_string())?;
        let machine = Machine::with(config, clock).map_err(|error| error.to_string())?;
        let memory = Arc::new(Pages::default());
        let process = machine.attach(memory.clone());
        for (at, bytes) in [(ARGUMENTS, 0x1000), (PARAMETERS, MOST)] {
            memory
                .provide(at, bytes)
                .map_err(|errno| format!("memory of RM: {errno}"))?;
        }
        let open = |path| {
            let opened = process.open(path);
            opened.map_err(|failure| format!("{path}: {failure}"))
        };
        let control = open("/dev/nvidiactl")?;
        open("/dev/nvidia0")?;
        let mut rm = Rm {
            branch: machine.branch(),
            notes: Arc::new(Notes::new(machine)),
            objects: Objects::default(),
            process,
            memory,
            control,
        };
        rm.internal()?;
        Ok(rm)
    }

    /// The firmware's own client, with a device and a subdevice.
    fn internal(&mut self) -> Result<(), String> {
        let [client, device, subdevice] = INTERNAL;
        let parameters = class::Nv0080Alloc {
            h_client_share: client,
            ..Default::default()
        };
        let device_parameters = parameters.encode(self.branch);
        let calls = [
            ([client, 0, client], class::NV01_ROOT, Vec::new()),
            (
                [client, client, device],
                class::NV01_DEVICE_0,
                device_parameters,
            ),
            (
                [client, device, subdevice],
                class::NV20_SUBDEVICE_0,
                vec![0; 4],
            ),
        ];
        for ([client, parent, object], class, parameters) in calls {
            let mut payload = Vec::new();
            let words = [
                client,
                parent,
                object,
                class.number,
                0,
                parameters.len() as u32,
                0,
                0,
            ];
            words
                .iter()
                .for_each(|word| payload.extend(word.to_le_bytes()));
            payload.extend(&parameters);
            let answer = self.alloc(&payload);
            match answer.map(|answer| word(&answer, 16)) {
                Ok(0) => {}
                failed => return Err(format!("{}: {failed:x?}", class.name)),
            }
        }
        Ok(())
    }

    /// An escape; its argument as it comes back.
    fn escape<T: Struct>(&self, call: &abi::Call, mut argument: T) -> Result<T, u32> {
        let failed = |_| status::NV_ERR_INVALID_ARGUMENT;
        let ioctl = escape::ioctl(call, self.branch).ok_or(status::NV_ERR_NOT_SUPPORTED)?;
        let mut bytes = argument.encode(self.branch);
        self.memory.write(ARGUMENTS, &bytes).map_err(failed)?;
        self.process
            .ioctl(self.control, ioctl.request, ARGUMENTS)
            .map_err(failed)?;
        self.memory.read(ARGUMENTS, &mut bytes).map_err(failed)?;
        argument = T::decode(self.branch, &bytes).map_err(|_| status::NV_ERR_INVALID_ARGUMENT)?;
        Ok(argument)
    }

    /// Parameters of a call, where it finds them; and the call's payload with them as they come back.
    fn with_parameters(
        &self,
        payload: &[u8],
        head: usize,
        size: usize,
        call: impl FnOnce(u64, u32) -> Result<u32, u32>,
    ) -> Answer {
        let Some(given) = payload
            .get(head..head + size)
            .filter(|_| size as u64 <= MOST)
        else {
            return Err(status::NV_ERR_INVALID_PARAM_STRUCT);
        };
        let failed = |_| status::NV_ERR_INVALID_ARGUMENT;
        self.memory.write(PARAMETERS, given).map_err(failed)?;
        let at = if size == 0 { 0 } else { PARAMETERS };
        let result = call(at, size as u32)?;
        let mut back = payload.to_vec();
        self.memory
            .read(PARAMETERS, &mut back[head..head + size])
            .map_err(failed)?;
        // Where both of them have their status.
        let place = if head == 0x20 { 0x10 } else { 0x0c };
        back[place..place + 4].copy_from_slice(&result.to_le_bytes());
        Ok(back)
    }

    /// GSP_RM_ALLOC.
    pub(super) fn alloc(&self, payload: &[u8]) -> Answer {
        let field = |i: usize| word(payload, 4 * i);
        self.with_parameters(payload, 0x20, field(5) as usize, |at, size| {
            let argument = escape::AllocRights {
                h_root: field(0),
                h_object_parent: field(1),
                h_object_new: field(2),
                h_class: field(3),
                p_alloc_parms: at,
                params_size: size,
                ..Default::default()
            };
            let done = self.escape(&escape::RM_ALLOC_RIGHTS, argument)?;
            Ok(done.status)
        })
    }

    /// GSP_RM_CONTROL.
    pub(super) fn control(&self, payload: &[u8]) -> Answer {
        let field = |i: usize| word(payload, 4 * i);
        self.with_parameters(payload, 0x18, field(4) as usize, |at, size| {
            let argument = escape::Control {
                h_client: field(0),
                h_object: field(1),
                cmd: field(2),
                params: at,
                params_size: size,
                ..Default::default()
            };
            let done = self.escape(&escape::RM_CONTROL, argument)?;
            Ok(done.status)
        })
    }

    /// FREE.
    pub(super) fn free(&self, payload: &[u8]) -> Answer {
        let argument = escape::Free {
            h_root: word(payload, 0),
            h_object_parent: word(payload, 4),
            h_object_old: word(payload, 8),
            ..Default::default()
        };
        let done = self.escape(&escape::RM_FREE, argument)?;
        answered(payload, 12, done.status)
    }

    /// DUP_OBJECT.
    pub(super) fn dup(&self, payload: &[u8]) -> Answer {
        let argument = escape::DupObject {
            h_client: word(payload, 0),
            h_parent: word(payload, 4),
            h_object: word(payload, 8),
            h_client_src: word(payload, 12),
            h_object_src: word(payload, 16),
            flags: word(payload, 20),
            ..Default::default()
        };
        let done = self.escape(&escape::RM_DUP_OBJECT, argument)?;
        answered(payload, 24, done.status)
    }
}

/// A payload with a status in it.
pub(super) fn answered(payload: &[u8], at: usize, status: u32) -> Answer {
    let mut back = payload.to_vec();
    match back.get_mut(at..at + 4) {
        Some(place) => {
            place.copy_from_slice(&status.to_le_bytes());
            Ok(back)
        }
        None => Err(status::NV_ERR_INVALID_PARAM_STRUCT),
    }
}
