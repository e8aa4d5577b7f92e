//! Reservations of GPUs on which one program at a time may compute.
//!
//! RM keeps them, and nothing else depends on them: a program that does not ask computes all the same.
//!
//! Source: open-gpu-kernel-modules 550.163.01, src/nvidia/src/kernel/gpu/subdevice/subdevice_ctrl_gpu_kernel.c,
//! subdeviceCtrlCmdGpuAcquireComputeModeReservation, subdeviceCtrlCmdGpuReleaseComputeModeReservation;
//! subdevice.c: the end of a client's subdevice ends its reservation; generated/g_subdevice_nvoc.c: the numbers.

use drivers_spec::nv::{control, status};

use crate::config::{Compute, Config};
use crate::errno::{Failure, Result};

use super::{Call, State};

const ACQUIRE: u32 = control::ACQUIRE_COMPUTE_MODE_RESERVATION.number;
const RELEASE: u32 = ACQUIRE + 1;

/// Who is not there: no handle is 0.
const ELSEWHERE: (u32, u32) = (0, 0);

/// Who has the GPUs of a machine when it starts.
pub(super) fn at_first(config: &Config) -> Vec<Option<(u32, u32)>> {
    let taken = config.compute == Compute::Taken;
    vec![taken.then_some(ELSEWHERE); config.chips.len()]
}

impl State {
    /// An object ends.
    pub(super) fn unreserve(&mut self, client: u32, handle: u32) {
        for reserved in &mut self.reserved {
            reserved.take_if(|by| *by == (client, handle));
        }
    }
}

impl Call<'_> {
    /// Reserves a GPU, or gives a reservation up; none for another control.
    pub(super) fn reservation(
        &self,
        state: &mut State,
        gpu: usize,
        by: (u32, u32),
        cmd: u32,
    ) -> Option<Result> {
        let in_use = Some(Err(Failure::Status(status::NV_ERR_STATE_IN_USE)));
        let compute = self.machine.config.compute;
        let reserved = &mut state.reserved[gpu];
        match cmd {
            ACQUIRE if compute == Compute::Prohibited => in_use,
            ACQUIRE if compute != Compute::Shared && reserved.is_some() => in_use,
            ACQUIRE => {
                *reserved = Some(by);
                Some(Ok(()))
            }
            RELEASE if reserved.is_none_or(|one| one.0 != by.0) => in_use,
            RELEASE => {
                *reserved = None;
                Some(Ok(()))
            }
            _ => None,
        }
    }
}
