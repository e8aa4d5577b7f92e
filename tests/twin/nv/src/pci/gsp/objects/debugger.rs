//! What is known of a channel that has died: the fault of the MMU, and, by a debugger, the state of multiprocessors.
//!
//! Source: OGKM, g_kernel_channel_nvoc.c and g_kernel_sm_debugger_session_nvoc.c: the controls here are routed to firmware
//! (ROUTE_TO_PHYSICAL); resource_list.h: GT200_DEBUGGER is made there, too. DEBUG_READ_MMU_FAULT_INFO is not: what CPU-RM knows.

use drivers_spec::nv::abi::Struct;
use drivers_spec::nv::{class, control, query, status};

use super::{Call, Channel, Kind};
use crate::engines::Error;
use crate::rm::alloc::{self, is_engine};
use crate::rm::recovery;

impl Call<'_> {
    /// GT200_DEBUGGER: the object of compute that it watches.
    pub(super) fn new_debugger(&self, given: &[u8]) -> Result<u32, u32> {
        let params = self.decode::<class::DebuggerAlloc>(given, &alloc::SIZE)?;
        let (client, compute) = (params.h_app_client, params.h_class3d_object);
        let object = self.objects.get(client, compute);
        match object.filter(|object| is_engine(object.class)) {
            Some(_) => Ok(compute),
            None => {
                let what = format!("{compute:#x} of client {client:#x} is no object of an engine");
                let none = status::NV_ERR_OBJECT_NOT_FOUND;
                self.refuse(&crate::rm::OBJECT, none, what)
            }
        }
    }

    /// The errors of the client's channels.
    fn errors(&self) -> Vec<(u32, Error)> {
        let channels = self.objects.channels();
        channels
            .filter(|channel| channel.made.client == self.client)
            .filter_map(|channel| Some((channel.made.handle, channel.made.error.clone()?)))
            .collect()
    }

    /// GET_MMU_FAULT_INFO, of a channel.
    pub(super) fn mmu_fault(&mut self, handle: u32, given: &mut [u8]) -> Result<(), u32> {
        let rule = &crate::rm::control::SIZE;
        let mut params = self.decode::<control::MmuFaultInfo>(given, rule)?;
        let object = self.objects.all.get_mut(&(self.client, handle));
        let Some(Kind::Channel(channel)) = object.map(|object| &mut object.kind) else {
            let what = format!("{handle:#x} is no channel");
            let none = status::NV_ERR_OBJECT_NOT_FOUND;
            return self.refuse(&crate::rm::OBJECT, none, what);
        };
        recovery::mmu_fault(channel.made.error.as_mut(), &mut params);
        given.copy_from_slice(&params.encode(self.branch));
        Ok(())
    }

    /// DEBUG_READ_ALL_SM_ERROR_STATES, of a debugger.
    pub(super) fn sm_states(&self, debugger: u32, given: &mut [u8]) -> Result<(), u32> {
        self.of_class(debugger, class::GT200_DEBUGGER.number)?;
        let rule = &crate::rm::control::SIZE;
        let mut params = self.decode::<control::DebugSmErrorStates>(given, rule)?;
        let chip = self.state.config.chip.twin;
        recovery::sm_states(chip, &self.errors(), &mut params).or_else(|what| {
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            self.refuse(&recovery::STATES, invalid, what)
        })?;
        given.copy_from_slice(&params.encode(self.branch));
        Ok(())
    }

    /// DEBUG_CLEAR_ALL_SM_ERROR_STATES, of a debugger.
    pub(super) fn clear_sm_states(&mut self, debugger: u32, given: &[u8]) -> Result<(), u32> {
        self.of_class(debugger, class::GT200_DEBUGGER.number)?;
        let rule = &crate::rm::control::SIZE;
        let params = self.decode::<query::ClearSmErrorStates>(given, rule)?;
        let (client, target) = (self.client, params.h_target_channel);
        let is_meant = |channel: &Channel| {
            channel.made.client == client && (target == 0 || channel.made.handle == target)
        };
        for channel in self.objects.channels_mut().filter(|one| is_meant(one)) {
            if let Some(error) = &mut channel.made.error {
                error.exception = None;
            }
        }
        Ok(())
    }
}
