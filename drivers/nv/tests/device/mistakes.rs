//! Deliberate bugs in what our driver asks of the kernel driver, each named by the twin: calls that are left
//! out, asked of another object, with other values. Those in push buffers and QMDs are in `mutations`.

use std::sync::Arc;
use std::time::Duration;

use drivers_nv::Options;
use drivers_spec::nv::abi::{Branch, Call, Struct};
use drivers_spec::nv::{class, control, escape, uvm};
use hcq::transport::access::{Access, Answer, Verb};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Fault, Machine};
use hcq::{Deadline, Device, MemoryKind, QueueKind, Result, Stream, Val};

use super::stand::{at, copy, exec, kernel, machine, memory, options, twin};

/// How long what a bug stops is waited for.
const PATIENCE: Duration = Duration::from_millis(150);

const BRANCH: Branch = Branch::R580;

/// A call on its way to the kernel driver.
struct Asked<'a> {
    name: &'a str,
    /// The argument, and behind it what it names.
    bytes: &'a mut [u8],
}

impl Asked<'_> {
    fn is(&self, call: &Call) -> bool {
        self.name == call.name
    }

    fn part<T: Struct>(&self, start: usize) -> T {
        let end = start + T::LAYOUT.size(BRANCH);
        T::decode(BRANCH, &self.bytes[start..end]).unwrap()
    }

    fn edit_at<T: Struct>(&mut self, start: usize, edit: impl FnOnce(&mut T)) {
        let mut value: T = self.part(start);
        edit(&mut value);
        let bytes = value.encode(BRANCH);
        self.bytes[start..start + bytes.len()].copy_from_slice(&bytes);
    }

    /// Edits the argument of an escape or of a command of UVM.
    fn edit<T: Struct>(&mut self, call: &Call, edit: impl FnOnce(&mut T)) {
        if self.is(call) {
            self.edit_at(0, edit);
        }
    }

    fn controls(&self, wanted: &Call) -> bool {
        self.is(&escape::RM_CONTROL) && self.part::<escape::Control>(0).cmd == wanted.number
    }

    fn makes(&self, wanted: &Call) -> bool {
        self.is(&escape::RM_ALLOC_RIGHTS)
            && self.part::<escape::AllocRights>(0).h_class == wanted.number
    }

    /// Edits the parameters of a control.
    fn control<T: Struct>(&mut self, wanted: &Call, edit: impl FnOnce(&mut T)) {
        if self.controls(wanted) {
            self.edit_at(escape::Control::LAYOUT.size(BRANCH), edit);
        }
    }

    /// Edits the parameters of an object that is made.
    fn params<T: Struct>(&mut self, class: &Call, edit: impl FnOnce(&mut T)) {
        if self.makes(class) {
            self.edit_at(escape::AllocRights::LAYOUT.size(BRANCH), edit);
        }
    }

    /// Edits what is said of an object that is made.
    fn object(&mut self, class: &Call, edit: impl FnOnce(&mut escape::AllocRights)) {
        if self.makes(class) {
            self.edit_at(0, edit);
        }
    }

    fn channel(&mut self, edit: impl FnOnce(&mut class::ChannelAlloc)) {
        self.params(&class::HOPPER_CHANNEL_GPFIFO_A, edit);
    }
}

/// A deliberate bug.
struct Bug {
    /// What a driver would do wrong.
    what: &'static str,
    /// The rule that has to name it.
    rule: &'static str,
    /// Edits a call; false: it is not made.
    how: fn(&mut Asked<'_>) -> bool,
}

/// Whoever makes these calls.
struct Mistaken(fn(&mut Asked<'_>) -> bool);

impl Tap for Mistaken {
    fn before(&self, _: &str, access: &mut Access) -> Option<std::result::Result<Answer, Fault>> {
        if access.verb != Verb::Ioctl {
            return None;
        }
        let mut asked = Asked {
            name: &access.name,
            bytes: &mut access.data,
        };
        let made = (self.0)(&mut asked);
        (!made).then(|| {
            // As if it had been done.
            let mut answer = Answer::value(0);
            answer.data = access.data.clone();
            Ok(answer)
        })
    }
}

/// Two GPUs, memory of every kind, a kernel, copies also from one to the other. Bugs end it anywhere.
fn work(machine: &Arc<dyn Machine>, uvm: bool) -> Result<()> {
    let options = Options {
        ring_timeout: PATIENCE,
        drain_timeout: PATIENCE,
        pinned: uvm,
        uvm,
        ..options()
    };
    let soon = || Deadline::after(PATIENCE);
    let first = drivers_nv::open(machine, 0, &options)?;
    let second = drivers_nv::open(machine, 1, &options)?;
    let compute = Stream::new(first.queue(QueueKind::Compute, 0)?);
    let copies = Stream::new(first.queue(QueueKind::Copy, 0)?);
    let pulls = Stream::new(second.queue(QueueKind::Copy, 0)?);
    let (a, b) = (
        memory(&*first, MemoryKind::Device, 300_000)?,
        memory(&*first, MemoryKind::Host, 300_000)?,
    );
    let step = first.load(&kernel("h100", "step"))?;
    let sums = first.load(&kernel("h100", "sums"))?;
    let args = [at(&a), Val::Const(1)];
    let stepped = compute.submit(&[], &[exec(&step, &args, 16)])?;
    let copied = copies.submit(&[stepped], &[copy(&b, &a)])?;
    copied.wait(soon())?;
    if uvm {
        let c = memory(&*second, MemoryKind::Device, 300_000)?;
        pulls.submit(&[], &[copy(&c, &a)])?.wait(soon())?;
    }
    let args = [at(&a), at(&b)];
    compute.submit(&[], &[exec(&sums, &args, 4)])?.wait(soon())
}

/// The rules that a bug breaks.
fn broken(how: fn(&mut Asked<'_>) -> bool, uvm: bool) -> (Vec<&'static str>, Result<()>) {
    let twin = twin("chip=h100,gpus=2");
    let mistaken = Tapped::machine(machine(&twin), Arc::new(Mistaken(how)));
    let done = work(&mistaken, uvm);
    drop(mistaken);
    (twin.machine().broken_rules(), done)
}

const BUGS: &[Bug] = &[
    Bug {
        what: "files of GPUs are not registered",
        rule: "RM-CLIENT",
        how: |a| !a.is(&escape::REGISTER_FD),
    },
    Bug {
        what: "UVM is not initialized",
        rule: "UVM-MM",
        how: |a| !a.is(&uvm::INITIALIZE),
    },
    Bug {
        what: "UVM is told flags that there are not",
        rule: "UVM-INITIALIZE",
        how: |a| {
            a.edit(&uvm::INITIALIZE, |i: &mut uvm::Initialize| {
                i.flags |= 1 << 20
            });
            true
        },
    },
    Bug {
        what: "no file holds the memory of the process",
        rule: "UVM-MM",
        how: |a| !a.is(&uvm::MM_INITIALIZE),
    },
    Bug {
        what: "a GPU is not registered with UVM",
        rule: "UVM-GPU",
        how: |a| !a.is(&uvm::REGISTER_GPU),
    },
    Bug {
        what: "its address space is not",
        rule: "UVM-GPU",
        how: |a| !a.is(&uvm::REGISTER_GPU_VASPACE),
    },
    Bug {
        what: "the address space is one that RM fills",
        rule: "UVM-VASPACE-EXTERNAL",
        how: |a| {
            a.params(&class::FERMI_VASPACE_A, |v: &mut class::VaspaceAlloc| {
                v.flags = 0
            });
            true
        },
    },
    Bug {
        what: "memory is mapped where no range was made",
        rule: "UVM-MAP",
        how: |a| !a.is(&uvm::CREATE_EXTERNAL_RANGE),
    },
    Bug {
        what: "a range begins in the middle of a page",
        rule: "UVM-RANGE",
        how: |a| {
            let edit = |r: &mut uvm::CreateExternalRange| r.base += 0x800;
            a.edit(&uvm::CREATE_EXTERNAL_RANGE, edit);
            true
        },
    },
    Bug {
        what: "ranges are a page too long",
        rule: "UVM-RANGE-OVERLAP",
        how: |a| {
            let edit = |r: &mut uvm::CreateExternalRange| {
                r.base -= 0x20_0000;
                r.length += 0x40_0000;
            };
            a.edit(&uvm::CREATE_EXTERNAL_RANGE, edit);
            true
        },
    },
    Bug {
        what: "a range is freed by half",
        rule: "UVM-FREE",
        how: |a| {
            a.edit(&uvm::FREE, |f: &mut uvm::Free| {
                if f.length >= 0x4000 {
                    f.length -= 0x1000;
                }
            });
            true
        },
    },
    Bug {
        what: "memory is not mapped",
        rule: "MMU-FAULT",
        how: |a| {
            // Rings are there when channels are made.
            let made = a.is(&uvm::MAP_EXTERNAL_ALLOCATION)
                && a.part::<uvm::MapExternalAllocation>(0).length == 2 << 20;
            !made
        },
    },
    Bug {
        what: "memory is mapped for reads alone",
        rule: "MMU-FAULT",
        how: |a| {
            let edit = |m: &mut uvm::MapExternalAllocation| {
                m.per_gpu_attributes[0].gpu_mapping_type = uvm::mapping::READ_ONLY;
            };
            a.edit(&uvm::MAP_EXTERNAL_ALLOCATION, edit);
            true
        },
    },
    Bug {
        what: "a mapping begins behind the first page of the memory",
        rule: "UVM-MAP-LENGTH",
        how: |a| {
            let edit = |m: &mut uvm::MapExternalAllocation| m.offset = 0x1000;
            a.edit(&uvm::MAP_EXTERNAL_ALLOCATION, edit);
            true
        },
    },
    Bug {
        what: "a mapping is for no GPU",
        rule: "UVM-MAP",
        how: |a| {
            let edit = |m: &mut uvm::MapExternalAllocation| m.gpu_attributes_count = 0;
            a.edit(&uvm::MAP_EXTERNAL_ALLOCATION, edit);
            true
        },
    },
    Bug {
        what: "memory of another GPU is mapped, which is no peer",
        rule: "UVM-PEER",
        how: |a| !a.is(&uvm::ENABLE_PEER_ACCESS),
    },
    Bug {
        what: "a channel is not registered with UVM",
        rule: "RM-SCHEDULE-REGISTERED",
        how: |a| !a.is(&uvm::REGISTER_CHANNEL),
    },
    Bug {
        what: "a channel has no addresses for its buffers",
        rule: "UVM-RANGE",
        how: |a| {
            let edit = |c: &mut uvm::RegisterChannel| (c.base, c.length) = (0, 0);
            a.edit(&uvm::REGISTER_CHANNEL, edit);
            true
        },
    },
    Bug {
        what: "UVM is told of another channel",
        rule: "UVM-CHANNEL",
        how: |a| {
            a.edit(&uvm::REGISTER_CHANNEL, |c: &mut uvm::RegisterChannel| {
                c.h_channel += 1
            });
            true
        },
    },
    Bug {
        what: "a channel is not scheduled",
        rule: "HOST-DOORBELL-SCHEDULED",
        how: |a| !a.controls(&control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE),
    },
    Bug {
        what: "a group is for an engine that there is not",
        rule: "RM-GROUP-ENGINE",
        how: |a| {
            let edit = |g: &mut class::ChannelGroupAlloc| g.engine_type = 0x7f;
            a.params(&class::KEPLER_CHANNEL_GROUP_A, edit);
            true
        },
    },
    Bug {
        what: "a channel is for another engine than its group",
        rule: "RM-CHANNEL-ENGINE",
        how: |a| {
            a.channel(|c| c.engine_type = class::engine::COPY9);
            true
        },
    },
    Bug {
        what: "a channel names its address space beside its share",
        rule: "RM-CHANNEL-SPACE",
        how: |a| {
            a.channel(|c| c.h_va_space = c.h_context_share.max(1));
            true
        },
    },
    Bug {
        what: "USERD is not aligned",
        rule: "RM-CHANNEL-USERD",
        how: |a| {
            a.channel(|c| c.userd_offset[0] += 0x80);
            true
        },
    },
    Bug {
        what: "a ring has one entry less",
        rule: "RM-CHANNEL-RING",
        how: |a| {
            a.channel(|c| c.gp_fifo_entries -= 1);
            true
        },
    },
    Bug {
        what: "a ring begins in the middle of an entry",
        rule: "RM-CHANNEL-RING",
        how: |a| {
            a.channel(|c| c.gp_fifo_offset += 4);
            true
        },
    },
    Bug {
        what: "parameters of a class are said to be longer",
        rule: "RM-ALLOC-SIZE",
        how: |a| {
            a.object(&class::FERMI_VASPACE_A, |o| o.params_size += 8);
            true
        },
    },
    Bug {
        what: "a GPU is asked what its client answers",
        rule: "RM-CONTROL-CLASS",
        how: |a| {
            if a.controls(&control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING) {
                a.edit_at(0, |c: &mut escape::Control| c.h_object = c.h_client);
            }
            true
        },
    },
    Bug {
        what: "an object is asked that there is not",
        rule: "RM-OBJECT",
        how: |a| {
            if a.controls(&control::NV2080_CTRL_CMD_GR_GET_INFO_V2) {
                a.edit_at(0, |c: &mut escape::Control| c.h_object = 0x1234);
            }
            true
        },
    },
    Bug {
        what: "the client is asked for a GPU that there is not",
        rule: "RM-CONTROL-VALUE",
        how: |a| {
            let ask = control::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2;
            a.control(&ask, |i: &mut control::IdInfo| i.gpu_id ^= 0x80);
            true
        },
    },
    Bug {
        what: "compute is made below the client",
        rule: "RM-PARENT",
        how: |a| {
            a.object(&class::HOPPER_COMPUTE_A, |o| o.h_object_parent = o.h_root);
            true
        },
    },
    Bug {
        what: "a class is one of another generation",
        rule: "RM-CLASS",
        how: |a| {
            let ada = class::ADA_COMPUTE_A.number;
            a.object(&class::HOPPER_COMPUTE_A, |o| o.h_class = ada);
            true
        },
    },
    Bug {
        what: "two objects have one handle",
        rule: "RM-HANDLE",
        how: |a| {
            a.object(&class::NV20_SUBDEVICE_0, |o| {
                o.h_object_new = o.h_object_parent
            });
            true
        },
    },
    Bug {
        what: "a device is one that there is not",
        rule: "RM-DEVICE",
        how: |a| {
            let edit = |d: &mut class::Nv0080Alloc| d.device_id = 7;
            a.params(&class::NV01_DEVICE_0, edit);
            true
        },
    },
    Bug {
        what: "a file is no event when an object of it is made",
        rule: "RM-OS-EVENT",
        how: |a| !a.is(&escape::ALLOC_OS_EVENT),
    },
    Bug {
        what: "an event is of an engine that does not interrupt",
        rule: "RM-EVENT-NONSTALL",
        how: |a| {
            let edit = |e: &mut class::EventAlloc| e.notify_index ^= 0x3ff;
            a.params(&class::NV01_EVENT_OS_EVENT, edit);
            true
        },
    },
    Bug {
        what: "memory of a GPU is asked for in system memory",
        rule: "RM-MEMORY",
        how: |a| {
            use drivers_spec::nv::memory::attr;
            let edit = |m: &mut class::MemoryAlloc| {
                m.attr = m.attr & !attr::LOCATION.mask() | attr::LOCATION.put(attr::LOCATION_PCI);
            };
            a.params(&class::NV01_MEMORY_LOCAL_USER, edit);
            true
        },
    },
    Bug {
        what: "more is mapped than the memory has",
        rule: "RM-MAP-RANGE",
        how: |a| {
            let edit = |m: &mut escape::MapMemoryWithFd| m.params.length += 1 << 30;
            a.edit(&escape::RM_MAP_MEMORY, edit);
            true
        },
    },
    Bug {
        what: "memory of the process is pinned from the middle of a page on",
        rule: "RM-OS-DESCRIPTOR",
        how: |a| {
            let pinned = class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR.number;
            a.edit(
                &escape::RM_ALLOC_MEMORY,
                |m: &mut escape::AllocMemoryWithFd| {
                    if m.params.h_class == pinned {
                        m.params.p_memory += 8;
                    }
                },
            );
            true
        },
    },
];

/// Bugs of how RM maps where there is no UVM.
const WITHOUT_UVM: &[Bug] = &[
    Bug {
        what: "memory is not mapped",
        rule: "MMU-FAULT",
        how: |a| {
            let made = a.is(&escape::RM_MAP_MEMORY_DMA)
                && a.part::<escape::MapMemoryDma>(0).length == 2 << 20;
            !made
        },
    },
    Bug {
        what: "memory is mapped beside the addresses that were made for it",
        rule: "RM-MAP-DMA",
        how: |a| {
            let edit = |m: &mut escape::MapMemoryDma| m.dma_offset += 1 << 32;
            a.edit(&escape::RM_MAP_MEMORY_DMA, edit);
            true
        },
    },
    Bug {
        what: "the address space is one that UVM fills",
        rule: "RM-MAP-DMA-EXTERNAL",
        how: |a| {
            use drivers_spec::nv::memory::vaspace_flags;
            let edit = |v: &mut class::VaspaceAlloc| {
                v.flags = vaspace_flags::IS_EXTERNALLY_OWNED.put(1);
            };
            a.params(&class::FERMI_VASPACE_A, edit);
            true
        },
    },
];

#[test]
fn every_bug_of_calls_is_named() {
    let mut missed = Vec::new();
    for (bugs, uvm) in [(BUGS, true), (WITHOUT_UVM, false)] {
        for Bug { what, rule, how } in bugs {
            let (broken, done) = broken(*how, uvm);
            if !broken.contains(rule) {
                missed.push(format!(
                    "{what}: {rule} is not broken, but {broken:?}; {done:?}"
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The layer alone breaks nothing.
#[test]
fn without_a_bug_of_calls_no_rule_is_broken() {
    for uvm in [true, false] {
        let (broken, done) = broken(|_| true, uvm);
        done.unwrap();
        assert_eq!(broken, [""; 0]);
    }
}
