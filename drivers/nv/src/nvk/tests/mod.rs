//! What RM is asked does not depend on what carries it: calls of the kernel driver's twin are recorded on their way,
//! and messages, as GSP takes them, are answered from the recording.

#![allow(clippy::unwrap_used)]

mod firmware;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use drivers_gpu::backend::{Access, Cause, Exception, Ranges};
use drivers_spec::nv::abi::{Branch, Call, Struct};
use drivers_spec::nv::ioctl::NewObject;
use drivers_spec::nv::parameters::Parameters;
use drivers_spec::nv::{class, control, status};
use hcq::mem::view::View;
use hcq::transport::{Machine, Prot};
use twin_nv::machine::TwinMachine;

use super::channel::Channel;
use super::gpu::Gpu;
use super::ioctls::Ioctls;
use super::session::Session;
use super::survey;
use crate::backend::{ChannelKind, ChannelRequest};
use crate::rm::channel::{self, Layout};
use crate::rm::client::Client;
use crate::rm::device::{Device, Mapper};
use crate::rm::facts::{Asked, Unfit};
use crate::rm::fault::{self, Witness};
use crate::rm::transport::{CallError, HostMap, MapRequest, Result, Side, Transport};
use firmware::{Firmware, Messages};

/// A control by the class of the object that was asked, and its number.
type Key = (u32, u32);

/// What was asked, and what was answered: bytes, or a status that is no success.
type Exchange = (Vec<u8>, std::result::Result<Vec<u8>, u32>);

/// What was said.
#[derive(Default)]
pub struct Record {
    /// The class of each object.
    classes: BTreeMap<u32, u32>,
    /// Classes that were made, each with that of its parent and the bytes of its parameters.
    made: Vec<(u32, u32, usize)>,
    answers: BTreeMap<Key, Vec<Exchange>>,
}

/// Writes down what goes through it.
struct Tap {
    inner: Arc<Ioctls>,
    record: Mutex<Record>,
}

impl Transport for Tap {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn branch(&self) -> Branch {
        Transport::branch(&*self.inner)
    }

    fn client(&self) -> Result<u32> {
        let client = self.inner.client()?;
        let mut record = self.record.lock().unwrap();
        let root = class::NV01_ROOT_CLIENT.number;
        record.classes.insert(client, root);
        Ok(client)
    }

    fn alloc(&self, new: &NewObject, params: &Parameters) -> Result {
        self.inner.alloc(new, params)?;
        let mut record = self.record.lock().unwrap();
        let (class, parent) = (params.call().number, record.classes[&new.parent]);
        record.classes.insert(new.handle, class);
        record.made.push((parent, class, params.bytes().len()));
        Ok(())
    }

    fn control(&self, client: u32, object: u32, params: &mut Parameters) -> Result {
        let asked = params.bytes().to_vec();
        let done = self.inner.control(client, object, params);
        let answer = match &done {
            Ok(()) => Ok(params.bytes().to_vec()),
            Err(error) => Err(error.status().unwrap()),
        };
        let mut record = self.record.lock().unwrap();
        let key = (record.classes[&object], params.call().number);
        record.answers.entry(key).or_default().push((asked, answer));
        done
    }

    fn free(&self, client: u32, object: u32) -> Result {
        self.inner.free(client, object)
    }

    fn map(&self, machine: &dyn Machine, map: &HostMap) -> Result<View> {
        self.inner.map(machine, map)
    }
}

/// A session of a twin whose calls are written down, and what it is like to open the first GPU in it.
fn recorded(config: &str) -> (Arc<TwinMachine>, Arc<Tap>, Arc<Gpu>) {
    let twin = TwinMachine::new(config).unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let control = survey::control(&*machine).unwrap();
    let branch = survey::driver(&*machine, &*control).unwrap().branch;
    let files = Ioctls::new(control, branch);
    let tap = Arc::new(Tap {
        inner: files.clone(),
        record: Mutex::default(),
    });
    let rm = Client::new(tap.clone()).unwrap();
    let found = survey::gpus(&*files.control, branch).unwrap();
    let session = Arc::new(Session {
        uvm: None,
        rm,
        files,
        space: Arc::default(),
    });
    let gpu = Gpu::new(&machine, &session, &found[0]).unwrap();
    (twin, tap, Arc::new(gpu))
}

/// Firmware that answers as the twin has done.
fn firmware(tap: &Tap) -> Arc<Messages> {
    let record = std::mem::take(&mut *tap.record.lock().unwrap());
    Arc::new(Messages(Mutex::new(Firmware {
        record,
        branch: tap.branch(),
        objects: BTreeMap::new(),
    })))
}

/// Has a control answered with a struct, by objects of a class.
fn teach<T: Struct>(messages: &Messages, class: &Call, control: &Call, asked: &T, answer: &T) {
    let mut firmware = messages.0.lock().unwrap();
    let branch = firmware.branch;
    let [asked, answer] = [asked, answer].map(|one| one.encode(branch));
    let key = (class.number, control.number);
    firmware
        .record
        .answers
        .insert(key, vec![(asked, Ok(answer))]);
}

/// A channel of handles that somebody else has made.
fn layout(kind: ChannelKind, engine: u32, space: u32) -> Layout {
    let mut memory = class::ChannelAlloc {
        h_object_error: 0x4e4f,
        ..Default::default()
    };
    memory.h_userd_memory[0] = 0x4d45;
    memory.userd_offset[0] = 4096;
    Layout {
        kind,
        engine,
        space,
        ring: 1 << 21,
        entries: 512,
        memory,
    }
}

#[test]
fn messages_tell_of_a_gpu_what_ioctls_tell() {
    for chip in ["ga102", "ad102", "h100", "gb202"] {
        for driver in ["570", "580"] {
            let (twin, tap, by_ioctls) = recorded(&format!("chip={chip},driver={driver}"));
            let kinds = [ChannelKind::Compute, ChannelKind::Copy(0)];
            let made = kinds.map(|kind| {
                let request = ChannelRequest {
                    kind,
                    entries: 512,
                    name: "test",
                };
                Channel::new(&*twin, &by_ioctls, &request).unwrap()
            });
            let tokens = made.each_ref().map(|(_, parts)| parts.token);
            let classes = made.each_ref().map(|(_, parts)| parts.classes);
            drop(made);

            let messages = firmware(&tap);
            let rm = Client::new(messages.clone()).unwrap();
            assert_eq!(rm.branch().to_string(), driver);
            let gpu = Device::new(&rm, 0, 0).unwrap();
            let asked = Asked::of(&gpu, "0000:01:00.0", 0);
            let (facts, usermodes) = asked.facts().unwrap();
            assert_eq!(format!("{facts:?}"), format!("{:?}", by_ioctls.facts));
            assert_eq!(gpu.uuid().unwrap(), by_ioctls.uuid);
            let space = gpu.space(Mapper::Rm).unwrap();
            let usermode = gpu.usermode(&usermodes).unwrap();
            for (index, kind) in kinds.into_iter().enumerate() {
                let engine = channel::engine_of(&facts, kind).unwrap();
                let wanted = layout(kind, engine, space.handle());
                let channel = channel::Channel::new(&gpu, &facts, &wanted, |_| Ok(())).unwrap();
                assert_eq!(channel.classes(), classes[index]);
                // The recording knows objects by their class, and so has one token for all channels: the first.
                assert_eq!(channel.token().unwrap(), tokens[0]);
                channel.schedule().unwrap();
            }
            // What nobody can map is refused before the host is asked for anything.
            let wanted = MapRequest {
                bytes: 4096,
                at: None,
                prot: Prot::ReadWrite,
                of: Side::Gpu,
            };
            let refused = gpu.device.map(&*twin, &usermode, wanted);
            assert!(matches!(refused, Err(CallError::Absent { .. })));
            drop((usermode, space, gpu));
            // Every object is freed, by the one that made it.
            assert_eq!(messages.0.lock().unwrap().objects, BTreeMap::new());
        }
    }
}

#[test]
fn messages_tell_why_a_channel_has_died() {
    let (twin, tap, by_ioctls) = recorded("chip=h100,driver=570");
    let request = ChannelRequest {
        kind: ChannelKind::Compute,
        entries: 512,
        name: "test",
    };
    drop(Channel::new(&*twin, &by_ioctls, &request).unwrap());
    let facts = by_ioctls.facts.clone();
    let messages = firmware(&tap);
    let rm = Client::new(messages.clone()).unwrap();
    let gpu = Device::new(&rm, 0, 0).unwrap();
    let space = gpu.space(Mapper::Rm).unwrap();
    let engine = channel::engine_of(&facts, ChannelKind::Compute).unwrap();
    let wanted = layout(ChannelKind::Compute, engine, space.handle());
    let channel = channel::Channel::new(&gpu, &facts, &wanted, |_| Ok(())).unwrap();
    let ranges = Ranges::default();
    let witness = Witness {
        channel: &channel,
        name: "test",
        sms: facts.units.sms,
        ranges: &ranges,
    };
    // Not told: the Xid is all there is.
    let Exception::Refused(refused) = fault::explain(witness, 31) else {
        panic!("an address out of nowhere");
    };
    assert!(refused.what.contains("Xid 31"), "{}", refused.what);

    let ask = control::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO;
    let asked = control::MmuFaultInfo::default();
    let answer = control::MmuFaultInfo {
        addr_hi: 0x7f,
        addr_lo: 0x1000,
        ..asked
    };
    teach(&messages, &facts.channel, &ask, &asked, &answer);
    let ask = control::NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO;
    let asked = control::DebugMmuFaultInfo::default();
    let mut answer = asked;
    answer.count = 1;
    answer.mmu_fault_info_list[0].fault_address = 0x7f_0000_1000;
    answer.mmu_fault_info_list[0].access_type = 1;
    teach(&messages, &class::GT200_DEBUGGER, &ask, &asked, &answer);
    let Exception::Memory(fault) = fault::explain(witness, 31) else {
        panic!("an address is told");
    };
    let told = (fault.va, fault.cause, fault.access, fault.not_present);
    let expected = (0x7f_0000_1000, Cause::PageFault, Some(Access::Write), true);
    assert_eq!(told, expected);
}

#[test]
fn what_firmware_refuses_is_told_with_its_name() {
    let (_twin, tap, _by_ioctls) = recorded("chip=ad102,driver=570");
    let messages = firmware(&tap);
    let rm = Client::new(messages.clone()).unwrap();
    let gpu = Device::new(&rm, 0, 0).unwrap();
    let ask = control::NV2080_CTRL_CMD_MC_GET_ARCH_INFO;
    let key = (class::NV20_SUBDEVICE_0.number, ask.number);
    messages.0.lock().unwrap().record.answers.remove(&key);
    let asked = Asked::of(&gpu, "0000:01:00.0", 0);
    let Err(Unfit::Refused(error)) = asked.facts() else {
        panic!("a chip out of nowhere");
    };
    assert!(error.is(status::NV_ERR_NOT_SUPPORTED));
    let text = error.to_string();
    assert!(
        text.starts_with("GSP: ") && text.contains(ask.name),
        "{text}"
    );
}
