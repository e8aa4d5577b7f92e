//! How an object comes to be.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/rmapi/alloc_free.c,
//! serverAllocResourceUnderLock; resource_list.h (parents, parameters); rs_client.c.

use std::sync::Arc;

use drivers_spec::nv::abi::{self, Struct};
use drivers_spec::nv::{class, status};
use twin::rule::{Proof, Rule};

use crate::errno::Result;
use crate::space::Space;

use super::{Call, Client, FIRST_CHOSEN, FIRST_CLIENT, Kind, Object, State};

pub(crate) static CLASS: Rule = Rule {
    name: "RM-CLASS",
    text: "RM knows the class, and the GPU supports it",
    source: "open-gpu-kernel-modules, alloc_free.c, serverAllocResourceUnderLock; resservResourceFactory: gpuIsClassSupported",
    proof: Proof::Sourced,
};

static NOT_MODELLED: Rule = Rule {
    name: "RM-CLASS-NOT-MODELLED",
    text: "memory of the process is pinned by RM_ALLOC_MEMORY; RM_ALLOC of it is not modelled",
    source: "this twin: src/rm/alloc.rs",
    proof: Proof::Twin,
};

pub(crate) static PARENT: Rule = Rule {
    name: "RM-PARENT",
    text: "the parent of an object has a class that resource_list.h allows",
    source: "open-gpu-kernel-modules, src/nvidia/src/kernel/rmapi/resource_list.h, Parents",
    proof: Proof::Sourced,
};

pub(crate) static HANDLE: Rule = Rule {
    name: "RM-HANDLE",
    text: "the handle of a new object is unused and differs from its client's",
    source: "open-gpu-kernel-modules, rs_client.c, clientValidateNewResourceHandle",
    proof: Proof::Sourced,
};

static PARAMS: Rule = Rule {
    name: "RM-ALLOC-PARAMS",
    text: "an allocation has the parameters that resource_list.h requires for its class; RM copies the size of its own \
           struct in any case",
    source: "open-gpu-kernel-modules, resource_list.h, RS_REQUIRED; alloc_free.c, serverAllocApiCopyIn",
    proof: Proof::Sourced,
};

pub(crate) static SIZE: Rule = Rule {
    name: "RM-ALLOC-SIZE",
    text: "paramsSize, if given, is the size of the branch's struct: RM copies that size in any case, past the end of a \
           shorter one",
    source: "open-gpu-kernel-modules, param_copy.c, rmapiParamsAcquire; alloc_free.c",
    proof: Proof::Sourced,
};

static DEVICE: Rule = Rule {
    name: "RM-DEVICE",
    text: "deviceId is the device instance of a GPU, and subDeviceId is 0",
    source: "open-gpu-kernel-modules, alloc_free.c, resservResourceFactory; subdevice.c, subdeviceConstruct",
    proof: Proof::Sourced,
};

static OPEN: Rule = Rule {
    name: "RM-DEVICE-OPEN",
    text: "the process has /dev/nvidiaN open when it creates the device of that GPU",
    source: "open-gpu-kernel-modules, device.c, deviceConstruct: osIsGpuAccessible; kernel-open/nvidia/nv.c, nv_is_gpu_accessible",
    proof: Proof::Sourced,
};

/// What RM_ALLOC was told.
pub(crate) struct New {
    pub(crate) client: u32,
    pub(crate) parent: u32,
    pub(crate) handle: u32,
    pub(crate) class: u32,
    /// Where the parameters are.
    pub(crate) params: u64,
    pub(crate) size: u32,
}

/// Where a class may be made: classes of parents.
fn parents(class: u32) -> Parents {
    const DEVICE: u32 = class::NV01_DEVICE_0.number;
    const SUBDEVICE: u32 = class::NV20_SUBDEVICE_0.number;
    const GROUP: u32 = class::KEPLER_CHANNEL_GROUP_A.number;
    let is = |calls: &[abi::Call]| calls.iter().any(|call| call.number == class);
    match class {
        _ if is(&[class::NV01_DEVICE_0, class::NV_CONFIDENTIAL_COMPUTE]) => {
            Parents::Of(&[class::NV01_ROOT_CLIENT.number])
        }
        _ if is(&[class::NV01_EVENT, class::NV01_EVENT_OS_EVENT]) => Parents::Any,
        _ if is(&[class::NV01_MEMORY_LOCAL_USER, class::FERMI_VASPACE_A]) => {
            Parents::Of(&[DEVICE, SUBDEVICE])
        }
        _ if is(&[class::FERMI_CONTEXT_SHARE_A]) => Parents::Of(&[GROUP]),
        _ if is_channel(class) => Parents::Of(&[DEVICE, GROUP]),
        _ if is_engine(class) => Parents::Channel,
        _ if is_usermode(class) || is(&[class::NV2081_BINAPI, class::RM_USER_SHARED_DATA]) => {
            Parents::Of(&[SUBDEVICE])
        }
        _ => Parents::Of(&[DEVICE]),
    }
}

enum Parents {
    Any,
    Channel,
    Of(&'static [u32]),
}

/// Whether a class is one of channels.
pub(crate) fn is_channel(class: u32) -> bool {
    class & 0xff == 0x6f
}

/// Whether a class is one of compute or copies, made below a channel.
pub(crate) fn is_engine(class: u32) -> bool {
    class > 0xc000 && matches!(class & 0xff, 0xc0 | 0xb5)
}

/// Whether a class is the page with the doorbell.
pub(crate) fn is_usermode(class: u32) -> bool {
    class > 0xc000 && class & 0xff == 0x61
}

impl Call<'_> {
    /// Makes a client.
    fn root(&self, wanted: u32) -> Result<u32> {
        let mut state = self.machine.state();
        let handle = match wanted {
            0 => (FIRST_CLIENT..)
                .find(|handle| !state.clients.contains_key(handle))
                .unwrap_or(FIRST_CLIENT),
            _ => wanted,
        };
        if state.clients.contains_key(&handle) {
            let what = format!("there is a client {handle:#x}");
            let duplicate = status::NV_ERR_INSERT_DUPLICATE_NAME;
            return self.machine.refuse(&HANDLE, duplicate, what);
        }
        let root = Object {
            parent: 0,
            class: class::NV01_ROOT_CLIENT.number,
            gpu: None,
            kind: Kind::Plain,
            needs: Vec::new(),
        };
        let client = Client {
            file: self.control,
            pid: self.process.id(),
            objects: [(handle, root)].into(),
            next: FIRST_CHOSEN,
        };
        state.clients.insert(handle, client);
        Ok(handle)
    }

    /// RM_ALLOC; returns the handle.
    pub(crate) fn alloc(&self, mut new: New) -> Result<u32> {
        let roots = [
            class::NV01_ROOT,
            class::NV01_ROOT_NON_PRIV,
            class::NV01_ROOT_CLIENT,
        ];
        if roots.iter().any(|root| root.number == new.class) {
            self.machine.inject(class::NV01_ROOT_CLIENT.name)?;
            return self.root(new.handle);
        }
        let mut state = self.machine.state();
        self.client(&state, new.client)?;
        let branch = self.machine.branch();
        let known = abi::find(class::CLASSES, branch, new.class);
        let Some(known) = known else {
            let what = format!("class {:#x}", new.class);
            let invalid = status::NV_ERR_INVALID_CLASS;
            return self.machine.refuse(&CLASS, invalid, what);
        };
        if new.class == class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR.number {
            let what = format!("{} by RM_ALLOC", known.name);
            let unsupported = status::NV_ERR_NOT_SUPPORTED;
            return self.machine.refuse(&NOT_MODELLED, unsupported, what);
        }
        self.machine.inject(known.name)?;
        self.placed(&mut state, &mut new)?;
        let gpu = self.gpu_of(&state, &new)?;
        if let Some(gpu) = gpu
            && !self.machine.config.chips[gpu].has_class(new.class)
        {
            let chip = self.machine.config.chips[gpu].name;
            let what = format!("{chip} has no {}", known.name);
            let unsupported = status::NV_ERR_NOT_SUPPORTED;
            return self.machine.refuse(&CLASS, unsupported, what);
        }
        let expected = known.layout.map_or(0, |layout| layout.size(branch)) as u32;
        if new.params != 0 && new.size != 0 && new.size != expected {
            let what = format!("{}: {} bytes, {expected} are copied", known.name, new.size);
            self.machine.broken(&SIZE, what);
        }
        let object = self.build(&mut state, &new, gpu)?;
        self.insert(&mut state, new.client, new.handle, object);
        Ok(new.handle)
    }

    /// Enters an object. Whether there is room for it was asked before.
    pub(crate) fn insert(&self, state: &mut State, client: u32, handle: u32, object: Object) {
        if let Some(client) = state.clients.get_mut(&client) {
            client.objects.insert(handle, object);
        }
    }

    /// Checks parent and handle, and chooses one if it is 0.
    pub(crate) fn placed(&self, state: &mut State, new: &mut New) -> Result {
        let parent = self.object(state, new.client, new.parent)?;
        let fits = match parents(new.class) {
            Parents::Any => true,
            Parents::Channel => is_channel(parent.class),
            Parents::Of(classes) => classes.contains(&parent.class),
        };
        if !fits {
            let what = format!("class {:#x} below class {:#x}", new.class, parent.class);
            let invalid = status::NV_ERR_INVALID_OBJECT_PARENT;
            return self.machine.refuse(&PARENT, invalid, what);
        }
        if new.handle == new.client {
            let what = format!("handle {:#x} is the client's", new.handle);
            let invalid = status::NV_ERR_INVALID_OBJECT_HANDLE;
            return self.machine.refuse(&HANDLE, invalid, what);
        }
        let Some(client) = state.clients.get_mut(&new.client) else {
            return self.no_object(new.client, new.client);
        };
        if new.handle == 0 {
            while client.objects.contains_key(&client.next) {
                client.next += 1;
            }
            new.handle = client.next;
            client.next += 1;
        } else if client.objects.contains_key(&new.handle) {
            let what = format!("there is an object {:#x}", new.handle);
            let duplicate = status::NV_ERR_INSERT_DUPLICATE_NAME;
            return self.machine.refuse(&HANDLE, duplicate, what);
        }
        Ok(())
    }

    /// The GPU of a new object.
    fn gpu_of(&self, state: &State, new: &New) -> Result<Option<usize>> {
        if new.class != class::NV01_DEVICE_0.number {
            return Ok(self.object(state, new.client, new.parent)?.gpu);
        }
        let params = self.optional::<class::Nv0080Alloc>(new)?;
        let gpus = self.machine.config.chips.len();
        let instance = params.unwrap_or_default().device_id;
        if params.is_none() || instance >= 32 || instance as usize >= gpus {
            let what = format!("device instance {instance} of {gpus} GPUs");
            let status = match params {
                Some(_) if instance < 32 => status::NV_ERR_INVALID_STATE,
                _ => status::NV_ERR_INVALID_ARGUMENT,
            };
            return self.machine.refuse(&DEVICE, status, what);
        }
        if !self.process.has_open(instance as usize) {
            let what = format!("/dev/nvidia{instance} is not open");
            let denied = status::NV_ERR_INSUFFICIENT_PERMISSIONS;
            return self.machine.refuse(&OPEN, denied, what);
        }
        Ok(Some(instance as usize))
    }

    /// Parameters that may be left out.
    pub(crate) fn optional<T: Struct>(&self, new: &New) -> Result<Option<T>> {
        match new.params {
            0 => Ok(None),
            at => self.process.get(at).map(Some),
        }
    }

    /// Parameters that may not.
    pub(crate) fn required<T: Struct>(&self, new: &New) -> Result<T> {
        match self.optional(new)? {
            Some(params) => Ok(params),
            None => {
                let what = format!("class {:#x} without {}", new.class, T::LAYOUT.name);
                let invalid = status::NV_ERR_INVALID_ARGUMENT;
                self.machine.refuse(&PARAMS, invalid, what)
            }
        }
    }

    /// Makes what a class makes.
    fn build(&self, state: &mut State, new: &New, gpu: Option<usize>) -> Result<Object> {
        let mut needs = Vec::new();
        let kind = match (gpu, new.class) {
            (Some(gpu), number) if number == class::NV01_DEVICE_0.number => {
                let space = state.number();
                let own = Space::new(gpu, 0x1000, (1 << 49) - 1, false);
                state.spaces.insert(space, Arc::new(own));
                Kind::Device(space)
            }
            (Some(_), number) if number == class::NV20_SUBDEVICE_0.number => {
                let params = self.optional::<class::Nv2080Alloc>(new)?;
                let instance = params.unwrap_or_default().sub_device_id;
                if instance != 0 {
                    let what = format!("subdevice {instance}");
                    let invalid = status::NV_ERR_INVALID_CLASS;
                    return self.machine.refuse(&DEVICE, invalid, what);
                }
                Kind::Plain
            }
            (Some(gpu), number) if number == class::FERMI_VASPACE_A.number => {
                Kind::Space(self.new_space(state, new, gpu)?)
            }
            (Some(gpu), number)
                if [class::NV01_MEMORY_LOCAL_USER, class::NV01_MEMORY_SYSTEM]
                    .iter()
                    .any(|class| class.number == number) =>
            {
                Kind::Memory(self.new_memory(state, new, gpu)?)
            }
            (Some(gpu), number) if number == class::RM_USER_SHARED_DATA.number => {
                Kind::Memory(self.new_shared(state, new, gpu)?)
            }
            (Some(_), number)
                if [class::NV01_MEMORY_VIRTUAL, class::NV50_MEMORY_VIRTUAL]
                    .iter()
                    .any(|class| class.number == number) =>
            {
                let range = self.new_range(state, new)?;
                needs.extend(range.over);
                Kind::Range(range)
            }
            (Some(gpu), number) if number == class::KEPLER_CHANNEL_GROUP_A.number => {
                let group = self.new_group(state, new, gpu)?;
                needs.extend(group.over);
                Kind::Group(group)
            }
            (Some(_), number) if number == class::FERMI_CONTEXT_SHARE_A.number => {
                let share = self.new_share(state, new)?;
                needs.extend(share.over);
                Kind::Share(share)
            }
            (Some(gpu), number) if is_channel(number) => {
                let (channel, on) = self.new_channel(state, new, gpu)?;
                needs.extend(on);
                Kind::Channel(Box::new(channel))
            }
            (Some(gpu), number) if is_engine(number) => {
                self.new_engine(state, new, gpu)?;
                Kind::Plain
            }
            (Some(_), number) if number == class::GT200_DEBUGGER.number => {
                needs.extend(self.new_debugger(state, new)?);
                Kind::Plain
            }
            (_, number)
                if [class::NV01_EVENT, class::NV01_EVENT_OS_EVENT]
                    .iter()
                    .any(|class| class.number == number) =>
            {
                Kind::Event(self.new_event(state, new)?)
            }
            _ => Kind::Plain,
        };
        Ok(Object {
            parent: new.parent,
            class: new.class,
            gpu,
            kind,
            needs,
        })
    }

    /// A debugger watches an object of compute; returns it, if it is one of this client.
    fn new_debugger(&self, state: &State, new: &New) -> Result<Option<u32>> {
        let params = self.required::<class::DebuggerAlloc>(new)?;
        let compute = params.h_class3d_object;
        let object = self.object(state, params.h_app_client, compute)?;
        match is_engine(object.class) {
            true => Ok(Some(compute).filter(|_| params.h_app_client == new.client)),
            false => self.no_object(params.h_app_client, compute),
        }
    }
}
