//! Firmware that answers messages from a recording, and what carries calls to it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::ioctl::NewObject;
use drivers_spec::nv::parameters::Parameters;
use drivers_spec::nv::{class, status};
use hcq::mem::view::View;
use hcq::transport::Machine;

use super::Record;
use crate::rm::transport::{CallError, HostMap, Result, Transport};

/// Functions of messages. Source: src/nvidia/inc/kernel/vgpu/rpc_global_enums.h.
const FREE: u32 = 10;
const GSP_RM_CONTROL: u32 = 76;
const GSP_RM_ALLOC: u32 = 103;

/// Bytes before the parameters of an object, and of a control.
const ALLOC_HEAD: usize = 0x20;
const CONTROL_HEAD: usize = 0x18;

/// The client of a driver that has GSP for itself.
const CLIENT: u32 = 0xc1e0_0004;

/// Firmware that takes messages and answers from a recording. It knows objects by itself.
pub struct Firmware {
    pub record: Record,
    pub branch: Branch,
    /// Objects, each with its parent and class.
    pub objects: BTreeMap<u32, (u32, u32)>,
}

fn dword(message: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(message[index * 4..][..4].try_into().unwrap())
}

fn message(dwords: &[u32], params: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = dwords.iter().flat_map(|one| one.to_le_bytes()).collect();
    bytes.extend(params);
    bytes
}

impl Firmware {
    /// Answers a message, in place: a status.
    fn answer(&mut self, function: u32, message: &mut [u8]) -> u32 {
        if dword(message, 0) != CLIENT {
            return status::NV_ERR_INVALID_CLIENT;
        }
        match function {
            GSP_RM_ALLOC => self.alloc(message),
            GSP_RM_CONTROL => self.control(message),
            FREE => self.free(dword(message, 2)),
            _ => status::NV_ERR_NOT_SUPPORTED,
        }
    }

    fn alloc(&mut self, message: &[u8]) -> u32 {
        let [parent, handle, class] = [1, 2, 3].map(|index| dword(message, index));
        let size = dword(message, 5) as usize;
        let above = match self.objects.get(&parent) {
            Some((_, class)) => *class,
            None if parent == CLIENT => class::NV01_ROOT_CLIENT.number,
            None => return status::NV_ERR_INVALID_OBJECT_PARENT,
        };
        if message.len() != ALLOC_HEAD + size {
            return status::NV_ERR_INVALID_PARAM_STRUCT;
        }
        if !self.record.made.contains(&(above, class, size)) {
            return status::NV_ERR_INVALID_CLASS;
        }
        match self.objects.insert(handle, (parent, class)) {
            None => status::NV_OK,
            Some(_) => status::NV_ERR_INSERT_DUPLICATE_NAME,
        }
    }

    fn control(&mut self, message: &mut [u8]) -> u32 {
        let [object, command, _, size] = [1, 2, 3, 4].map(|index| dword(message, index));
        let class = match self.objects.get(&object) {
            Some((_, class)) => *class,
            None if object == CLIENT => class::NV01_ROOT_CLIENT.number,
            None => return status::NV_ERR_INVALID_OBJECT_HANDLE,
        };
        let params = &mut message[CONTROL_HEAD..];
        if params.len() != size as usize {
            return status::NV_ERR_INVALID_PARAM_STRUCT;
        }
        let Some(all) = self.record.answers.get(&(class, command)) else {
            return status::NV_ERR_NOT_SUPPORTED;
        };
        // The same question; or the only one of its kind, which has handles in it.
        let same = all.iter().find(|(asked, _)| asked == params);
        let only = || all.first().filter(|_| all.len() == 1);
        match same.or_else(only) {
            Some((asked, _)) if asked.len() != params.len() => status::NV_ERR_INVALID_PARAM_STRUCT,
            Some((_, Ok(answer))) => {
                params.copy_from_slice(answer);
                status::NV_OK
            }
            Some((_, Err(status))) => *status,
            None => status::NV_ERR_NOT_SUPPORTED,
        }
    }

    fn free(&mut self, handle: u32) -> u32 {
        if handle == CLIENT {
            self.objects.clear();
            return status::NV_OK;
        }
        if self.objects.remove(&handle).is_none() {
            return status::NV_ERR_INVALID_OBJECT_HANDLE;
        }
        // With all below it.
        let below =
            |(child, (parent, _)): (&u32, &(u32, u32))| (*parent == handle).then_some(*child);
        let children: Vec<u32> = self.objects.iter().filter_map(below).collect();
        for child in children {
            self.free(child);
        }
        status::NV_OK
    }
}

/// Messages to firmware.
pub struct Messages(pub Mutex<Firmware>);

impl Messages {
    fn send(&self, function: u32, call: &str, message: &mut [u8]) -> Result {
        match self.0.lock().unwrap().answer(function, message) {
            status::NV_OK => Ok(()),
            status => Err(CallError::Status {
                file: self.name().into(),
                call: call.into(),
                status,
            }),
        }
    }
}

impl Transport for Messages {
    fn name(&self) -> &str {
        "GSP"
    }

    fn branch(&self) -> Branch {
        self.0.lock().unwrap().branch
    }

    fn client(&self) -> Result<u32> {
        Ok(CLIENT)
    }

    fn alloc(&self, new: &NewObject, params: &Parameters) -> Result {
        let (class, size) = (params.call(), params.bytes().len() as u32);
        let head = [
            new.client,
            new.parent,
            new.handle,
            class.number,
            0,
            size,
            0,
            0,
        ];
        let mut message = message(&head, params.bytes());
        self.send(GSP_RM_ALLOC, class.name, &mut message)
    }

    fn control(&self, client: u32, object: u32, params: &mut Parameters) -> Result {
        let (control, size) = (*params.call(), params.bytes().len() as u32);
        let head = [client, object, control.number, 0, size, 0];
        let mut message = message(&head, params.bytes());
        self.send(GSP_RM_CONTROL, control.name, &mut message)?;
        params.bytes_mut().copy_from_slice(&message[CONTROL_HEAD..]);
        Ok(())
    }

    fn free(&self, client: u32, object: u32) -> Result {
        let mut message = message(&[client, 0, object, 0], &[]);
        self.send(FREE, "FREE", &mut message)
    }

    fn map(&self, _: &dyn Machine, _: &HostMap) -> Result<View> {
        Err(CallError::Absent {
            call: "a mapping for the host".into(),
            branch: self.branch(),
        })
    }
}
