//! Address spaces.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/gpu/mem_mgr/vaspace_api.c.

use std::sync::Arc;

use drivers_spec::nv::memory::{VASPACE_FLAGS, vaspace_flags};
use drivers_spec::nv::{class, status};
use twin::rule::{Proof, Rule};

use crate::errno::Result;
use crate::space::Space;

use super::alloc::New;
use super::{Call, Kind, State};

pub(crate) static SPACE: Rule = Rule {
    name: "RM-VASPACE",
    text: "an address space has index 0, big pages of 0, 64 or 128 KiB, a range that does not wrap, and flags that the \
           branch has",
    source: "open-gpu-kernel-modules, vaspace_api.c, vaspaceapiConstruct; nvos.h, NV_VASPACE_ALLOCATION_FLAGS",
    proof: Proof::Sourced,
};

/// Where an address space ends that does not say so.
const LAST: u64 = (1 << 49) - 1;

impl Call<'_> {
    /// FERMI_VASPACE_A.
    pub(super) fn new_space(&self, state: &mut State, new: &New, gpu: usize) -> Result<u64> {
        let params = self.required::<class::VaspaceAlloc>(new)?;
        let wrong = |what: String| {
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            self.machine.refuse(&SPACE, invalid, what)
        };
        if params.index != 0 {
            return wrong(format!("index {} is not modelled", params.index));
        }
        if !matches!(params.big_page_size, 0 | 0x1_0000 | 0x2_0000) {
            return wrong(format!("big pages of {:#x}", params.big_page_size));
        }
        let unknown = params.flags & !VASPACE_FLAGS.mask(self.machine.branch());
        if unknown != 0 {
            return wrong(format!("flags {unknown:#x}"));
        }
        let base = params.va_base.max(0x1000);
        let last = match params.va_size {
            0 => Some(LAST),
            size => params.va_base.checked_add(size - 1),
        };
        let Some(last) = last.filter(|&last| last > base) else {
            return wrong(format!(
                "{:#x} bytes from {:#x}",
                params.va_size, params.va_base
            ));
        };
        let external = vaspace_flags::IS_EXTERNALLY_OWNED.get(params.flags) != 0;
        let number = state.number();
        let space = Space::new(gpu, base, last, external);
        state.spaces.insert(number, Arc::new(space));
        Ok(number)
    }

    /// The address space of a handle, or, without one, that of the device: its number, and the handle
    /// again if there is one.
    pub(super) fn space(
        &self,
        state: &State,
        client: u32,
        device: u32,
        handle: u32,
    ) -> Result<(u64, Option<u32>)> {
        let (asked, over) = match handle {
            0 => (device, None),
            _ => (handle, Some(handle)),
        };
        match self.object(state, client, asked)?.kind {
            Kind::Device(space) | Kind::Space(space) => Ok((space, over)),
            _ => self.no_object(client, asked),
        }
    }
}
