//! Arguments of ioctls as bytes of a branch: what a driver hands to a file.
//!
//! Which fields the kernel itself takes for addresses is said by the tables; here they become requests
//! that safe code may make. RM_CONTROL and RM_ALLOC have one address, of [`Parameters`], which have none. A struct
//! with other addresses is refused.
//!
//! Source: as [`super::escape`], [`super::uvm`].

use std::mem;

use hcq::transport::ioctl::Pointer;
use hcq::transport::{Ioctl, Request};

use super::abi::{Branch, Call, Layout, Struct};
use super::parameters::{Parameters, takes};
use super::{escape, uvm};

/// What a kernel may have behind the structs that are described: bytes that an argument has beyond its
/// own. RM_ALLOC and UVM copy their own size, whatever they are told.
pub const SLACK: usize = 4096;

/// An argument, and what it names.
#[derive(Debug)]
pub struct Argument {
    ioctl: Ioctl,
    branch: Branch,
    pointers: &'static [Pointer],
    bytes: Vec<u8>,
    /// Bytes of the struct.
    size: usize,
    memory: Vec<u8>,
    /// Bytes of parameters in it.
    parameters: usize,
}

/// `params` of RM_CONTROL.
const CONTROL: &[Pointer] = &[Pointer {
    at: mem::offset_of!(escape::Control, params),
    count_at: mem::offset_of!(escape::Control, params_size),
    count_bytes: 4,
    element: 1,
}];

/// `pAllocParms` of RM_ALLOC, whose size RM knows.
const ALLOC: &[Pointer] = &[Pointer {
    at: mem::offset_of!(escape::AllocRights, p_alloc_parms),
    count_at: 0,
    count_bytes: 0,
    element: 1,
}];

/// A struct whose fields lie here as they do in every branch.
const fn same(layout: &Layout, bytes: usize) -> bool {
    let mut i = 0;
    while i < Branch::ALL.len() {
        if layout.size(Branch::ALL[i]) != bytes {
            return false;
        }
        i += 1;
    }
    true
}

const _: () = {
    assert!(same(&escape::Control::LAYOUT, size_of::<escape::Control>()));
    assert!(same(
        &escape::AllocRights::LAYOUT,
        size_of::<escape::AllocRights>()
    ));
};

impl Argument {
    fn plain<T: Struct>(ioctl: Ioctl, branch: Branch, args: &T) -> Argument {
        let bytes = args.encode(branch);
        Argument {
            ioctl,
            branch,
            pointers: &[],
            size: bytes.len(),
            bytes,
            memory: Vec::new(),
            parameters: 0,
        }
    }

    /// An escape that names no memory. None where the branch does not have it, or it takes another struct.
    pub fn escape<T: Struct>(call: &Call, branch: Branch, args: &T) -> Option<Argument> {
        let ioctl = escape::ioctl(call, branch).filter(|_| takes::<T>(call, branch))?;
        Some(Argument::plain(ioctl, branch, args))
    }

    /// CARD_INFO, with room for so many GPUs. None for more than fit a request.
    pub fn cards(branch: Branch, count: usize) -> Option<Argument> {
        let size = escape::CardInfo::LAYOUT.size(branch).checked_mul(count)?;
        let both = Ioctl::READ | Ioctl::WRITE;
        let call = escape::CARD_INFO;
        (size < 1 << 14).then(|| Argument {
            ioctl: Ioctl::new(call.name, both, escape::KIND, call.number, size),
            branch,
            pointers: &[],
            bytes: vec![0; size],
            size,
            memory: Vec::new(),
            parameters: 0,
        })
    }

    /// A command of UVM. None as for [`Argument::escape`].
    pub fn uvm<T: Struct>(call: &Call, branch: Branch, args: &T) -> Option<Argument> {
        let known = uvm::COMMANDS.iter().any(|one| one.number == call.number);
        let ioctl = Ioctl {
            name: call.name,
            request: call.number,
        };
        let mut argument = Argument::plain(ioctl, branch, args);
        argument.bytes.resize(argument.size + SLACK, 0);
        (known && takes::<T>(call, branch)).then_some(argument)
    }

    /// A control of an object of a client. None where it takes parameters and has none.
    pub fn control((client, object): (u32, u32), params: &Parameters) -> Option<Argument> {
        let (control, branch) = (params.call(), params.branch());
        let ioctl = escape::ioctl(&escape::RM_CONTROL, branch)?;
        let memory = params.bytes().to_vec();
        let args = escape::Control {
            h_client: client,
            h_object: object,
            cmd: control.number,
            ..Default::default()
        };
        let whole = memory.is_empty() == control.layout.is_none();
        whole.then(|| Argument {
            pointers: if memory.is_empty() { &[] } else { CONTROL },
            parameters: memory.len(),
            memory,
            ..Argument::plain(ioctl, branch, &args)
        })
    }

    /// Makes an object. None as for [`Argument::escape`].
    pub fn alloc(new: &NewObject, params: &Parameters) -> Option<Argument> {
        let branch = params.branch();
        let ioctl = escape::ioctl(&escape::RM_ALLOC_RIGHTS, branch)?;
        let mut memory = params.bytes().to_vec();
        let parameters = memory.len();
        if parameters > 0 {
            memory.resize(parameters + SLACK, 0);
        }
        let args = escape::AllocRights {
            h_root: new.client,
            h_object_parent: new.parent,
            h_object_new: new.handle,
            h_class: params.call().number,
            params_size: parameters as u32,
            ..Default::default()
        };
        Some(Argument {
            pointers: if memory.is_empty() { &[] } else { ALLOC },
            memory,
            parameters,
            ..Argument::plain(ioctl, branch, &args)
        })
    }

    /// Hands the call to a file.
    pub fn send<R>(&mut self, send: impl FnOnce(&mut Request<'_, '_>) -> R) -> R {
        let mut parts = [&mut self.memory[..]];
        let used = self.pointers.len();
        // SAFETY: the tables say which fields of an argument, and of the parameters behind it, the kernel
        // takes for addresses: of the argument those of `pointers`, of the parameters none ([`Parameters`]).
        // Both are as long as the branch's structs; where the kernel copies its own size they have
        // `SLACK` behind them.
        #[allow(unsafe_code)]
        let mut request = unsafe {
            Request::described(
                self.ioctl,
                self.pointers,
                &mut self.bytes,
                &mut parts[..used],
            )
        };
        send(&mut request)
    }

    /// The struct, as the kernel has left it. Zeros for one that it is not.
    pub fn answer<T: Struct>(&self) -> T {
        T::decode(self.branch, &self.bytes[..self.size]).unwrap_or_else(|_| T::new_zeroed())
    }

    /// The parameters, as the kernel has left them.
    pub fn parameters(&self) -> &[u8] {
        &self.memory[..self.parameters]
    }

    /// The GPUs of [`Argument::cards`].
    pub fn found(&self) -> impl Iterator<Item = escape::CardInfo> + '_ {
        let one = escape::CardInfo::LAYOUT.size(self.branch);
        let all = self.bytes.chunks_exact(one);
        let all = all.filter_map(|bytes| escape::CardInfo::decode(self.branch, bytes).ok());
        all.filter(|card| card.valid != 0)
    }
}

/// Where an object is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewObject {
    /// The client.
    pub client: u32,
    /// The object above it.
    pub parent: u32,
    /// Its handle; 0: the kernel chooses.
    pub handle: u32,
}

#[cfg(test)]
mod tests {
    use super::super::{class, control};
    use super::*;

    /// The request, and the argument and memory that a kernel sees.
    fn seen(argument: &mut Argument) -> (u32, Vec<u8>) {
        argument.send(|request| {
            request
                .perform(|code, bytes| (code, bytes.to_vec()))
                .unwrap()
        })
    }

    #[test]
    fn parameters_have_the_size_of_the_branch() {
        for branch in Branch::ALL {
            let schedule = control::GpfifoSchedule::default();
            let control = &control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
            let schedule = Parameters::of(control, branch, &schedule).unwrap();
            let mut argument = Argument::control((1, 2), &schedule).unwrap();
            let (_, bytes) = seen(&mut argument);
            let args = escape::Control::decode(branch, &bytes).unwrap();
            assert_eq!((args.h_client, args.h_object), (1, 2));
            assert!(args.params != 0 && args.cmd == control.number);
            let expected = if branch == Branch::R580 { 3 } else { 2 };
            assert_eq!(args.params_size, expected);
            let params = class::ChannelAlloc::default();
            let new = NewObject::default();
            let class = &class::AMPERE_CHANNEL_GPFIFO_A;
            let params = Parameters::of(class, branch, &params).unwrap();
            let mut argument = Argument::alloc(&new, &params).unwrap();
            let (_, bytes) = seen(&mut argument);
            let args = escape::AllocRights::decode(branch, &bytes).unwrap();
            assert!(args.p_alloc_parms != 0 && args.p_rights_requested == 0);
            let size = class::ChannelAlloc::LAYOUT.size(branch) as u32;
            assert_eq!(args.params_size, size);
        }
    }

    #[test]
    fn what_the_kernel_answers_is_read() {
        let args = uvm::Free {
            base: 1 << 20,
            length: 4096,
            ..Default::default()
        };
        let mut free = Argument::uvm(&uvm::FREE, Branch::R580, &args).unwrap();
        free.send(|request| {
            let call = |code, bytes: &mut [u8]| {
                assert_eq!((code, bytes.len()), (34, 24 + SLACK));
                bytes[16] = 0x1e;
            };
            request.perform(call).unwrap();
        });
        assert_eq!(free.answer::<uvm::Free>().rm_status, 0x1e);
        let mut cards = Argument::cards(Branch::R570, 32).unwrap();
        cards.send(|request| {
            request.perform(|_, bytes| bytes[72] = 1).unwrap();
        });
        assert_eq!(cards.found().count(), 1);
        assert!(Argument::cards(Branch::R570, 1000).is_none());
    }

    #[test]
    fn calls_that_are_not_described_cannot_be_made() {
        let branch = Branch::R550;
        // Of another struct, without the one that it takes, with addresses in it.
        let wrong = escape::Free::default();
        assert!(Argument::escape(&escape::RM_DUP_OBJECT, branch, &wrong).is_none());
        let schedule = &control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE;
        let without = Parameters::none(schedule, branch).unwrap();
        assert!(Argument::control((1, 2), &without).is_none());
        let xfer = escape::Xfer::default();
        assert!(Argument::escape(&escape::IOCTL_XFER_CMD, branch, &xfer).is_none());
        // A number of RM is none of UVM.
        assert!(Argument::uvm(&escape::RM_FREE, branch, &wrong).is_none());
    }
}
