//! [`Messages`]: RM on GSP as the transport of RM's calls.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/vgpu/rpc.c (`rpcRmApiAlloc_GSP`,
//! `rpcRmApiControl_GSP`, `rpcRmApiFree_GSP`); Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/client.c (a client
//! is an object of its own handle).

use std::sync::Arc;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::class;
use drivers_spec::nv::gsp::{ClientAlloc, RpcAlloc, RpcControl, RpcFree, function};
use drivers_spec::nv::ioctl::NewObject;
use drivers_spec::nv::parameters::Parameters;
use hcq::mem::view::View;
use hcq::transport::Machine;
use zerocopy::{FromBytes, IntoBytes};

use super::error::Cause;
use super::rpc::{Answer, Rpc};
use crate::rm::transport::{CallError, HostMap, Result, Transport, is_done};

/// The process of a client: none of the host's.
const PROCESS: u32 = u32::MAX;

/// Messages to RM on GSP.
pub(crate) struct Messages {
    rpc: Arc<Rpc>,
    name: String,
}

impl Messages {
    /// Those of a card.
    pub(super) fn new(rpc: &Arc<Rpc>) -> Messages {
        Messages {
            name: format!("GSP of {}", rpc.card().pci().name()),
            rpc: rpc.clone(),
        }
    }

    /// Sends a call that is no object's, and returns the parameters of the answer.
    ///
    /// # Errors
    /// [`CallError`].
    pub(crate) fn call(&self, call: &str, number: u32, parameters: &[u8]) -> Result<Vec<u8>> {
        let answer = self.rpc.call(call, number, parameters);
        let answer = answer.map_err(|cause| self.unanswered(call, &cause))?;
        self.refused(call, answer.result)?;
        Ok(answer.bytes)
    }

    fn unanswered(&self, call: &str, cause: &Cause) -> CallError {
        CallError::Unanswered {
            file: self.name.clone(),
            call: call.into(),
            why: format!("{cause}{}", cause.next()),
            is_gone: cause.is_gone(),
        }
    }

    fn refused(&self, call: &str, status: u32) -> Result {
        match is_done(status) {
            true => Ok(()),
            false => Err(CallError::Status {
                file: self.name.clone(),
                call: call.into(),
                status,
            }),
        }
    }

    /// Sends a call, `head` before its parameters. The answer has both.
    fn send<T: IntoBytes + FromBytes + zerocopy::Immutable>(
        &self,
        call: &str,
        number: u32,
        head: &T,
        parameters: &[u8],
    ) -> Result<(T, Answer)> {
        let mut bytes = head.as_bytes().to_vec();
        bytes.extend(parameters);
        let answer = self.rpc.call(call, number, &bytes);
        let answer = answer.map_err(|cause| self.unanswered(call, &cause))?;
        let read = T::read_from_prefix(&answer.bytes).map(|(head, _)| head);
        let head = read.map_err(|_| {
            let cause = Cause::Message {
                field: "length of the answer",
                found: answer.bytes.len() as u64,
                expected: format!("at least {}", size_of::<T>()),
            };
            self.unanswered(call, &cause)
        })?;
        Ok((head, answer))
    }

    fn make(&self, call: &str, head: RpcAlloc, parameters: &[u8]) -> Result {
        let head = RpcAlloc {
            params_size: parameters.len() as u32,
            ..head
        };
        let (answer, sent) = self.send(call, function::GSP_RM_ALLOC, &head, parameters)?;
        self.refused(call, answer.status)?;
        self.refused(call, sent.result)
    }
}

impl Transport for Messages {
    fn name(&self) -> &str {
        &self.name
    }

    fn branch(&self) -> Branch {
        self.rpc.branch()
    }

    fn client(&self) -> Result<u32> {
        let handle = self.rpc.client();
        let params = ClientAlloc {
            h_client: handle,
            process_id: PROCESS,
            ..ClientAlloc::default()
        };
        let head = RpcAlloc {
            h_client: handle,
            h_parent: handle,
            h_object: handle,
            h_class: class::NV01_ROOT.number,
            ..RpcAlloc::default()
        };
        let call = format!("making {}", class::NV01_ROOT.name);
        self.make(&call, head, &params.encode(self.branch()))?;
        Ok(handle)
    }

    fn alloc(&self, new: &NewObject, params: &Parameters) -> Result {
        let head = RpcAlloc {
            h_client: new.client,
            h_parent: new.parent,
            h_object: new.handle,
            h_class: params.call().number,
            ..RpcAlloc::default()
        };
        let call = format!("making {}", params.call().name);
        self.make(&call, head, params.bytes())
    }

    fn control(&self, client: u32, object: u32, params: &mut Parameters) -> Result {
        let call = params.call().name;
        let head = RpcControl {
            h_client: client,
            h_object: object,
            cmd: params.call().number,
            params_size: params.bytes().len() as u32,
            ..RpcControl::default()
        };
        let number = function::GSP_RM_CONTROL;
        let (answer, sent) = self.send(call, number, &head, params.bytes())?;
        self.refused(call, answer.status)?;
        self.refused(call, sent.result)?;
        let told = sent
            .bytes
            .get(size_of::<RpcControl>()..)
            .unwrap_or_default();
        if told.len() < params.bytes().len() {
            let cause = Cause::Message {
                field: "parameters of the answer",
                found: told.len() as u64,
                expected: format!("{} bytes", params.bytes().len()),
            };
            return Err(self.unanswered(call, &cause));
        }
        let all = params.bytes_mut().iter_mut();
        all.zip(told).for_each(|(to, from)| *to = *from);
        Ok(())
    }

    fn free(&self, client: u32, object: u32) -> Result {
        let head = RpcFree {
            h_root: client,
            h_object_old: object,
            ..RpcFree::default()
        };
        let (answer, sent) = self.send("FREE", function::FREE, &head, &[])?;
        self.refused("FREE", answer.status)?;
        self.refused("FREE", sent.result)
    }

    fn map(&self, _: &dyn Machine, _: &HostMap) -> Result<View> {
        // Host and card share no files here: memory is reached by the windows of the card.
        Err(CallError::Absent {
            call: "a mapping for the host".into(),
            branch: self.branch(),
        })
    }
}
