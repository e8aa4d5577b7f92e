//! Ioctls of `/dev/nvidiactl` and `/dev/nvidiaN`: which there are, how their arguments are copied.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia/nv.c, nvidia_ioctl;
//! src/nvidia/arch/nvalloc/unix/src/escape.c, RmIoctl.

use std::sync::Arc;

use drivers_spec::nv::abi::{self, Struct};
use drivers_spec::nv::{class, escape, status};
use hcq::sync::lock;
use hcq::transport::Ioctl;
use twin::rule::{Proof, Rule};

use crate::errno::{Errno, Failure, Result};
use crate::rm::{Call, New, bars, gpu_id};

use super::files::{File, Kind};
use super::{Process, tree};

static KIND: Rule = Rule {
    name: "NV-IOCTL-TYPE",
    text: "the type of a request on a file of RM is 'F'; the kernel checks number and size only",
    source: "open-gpu-kernel-modules, kernel-open/common/inc/nv-ioctl-numbers.h, NV_IOCTL_MAGIC",
    proof: Proof::Sourced,
};

static SIZE: Rule = Rule {
    name: "RM-ESCAPE-SIZE",
    text: "the branch has the escape, and the argument has the size of its struct",
    source: "open-gpu-kernel-modules, escape.c, RmIoctl: dataSize != sizeof; nv.c, nvidia_ioctl",
    proof: Proof::Sourced,
};

static FILE: Rule = Rule {
    name: "RM-ESCAPE-FILE",
    text: "objects are created, controlled, mapped and freed on the control file; memory of RM_ALLOC_MEMORY is created \
           on a file of a GPU",
    source: "open-gpu-kernel-modules, escape.c, NV_CTL_DEVICE_ONLY, NV_ACTUAL_DEVICE_ONLY",
    proof: Proof::Sourced,
};

static REGISTER: Rule = Rule {
    name: "RM-REGISTER-FD",
    text: "a file is registered once, with a control file that is not registered itself",
    source: "open-gpu-kernel-modules, escape.c, NV_ESC_REGISTER_FD",
    proof: Proof::Sourced,
};

static VERSION: Rule = Rule {
    name: "NV-VERSION",
    text: "the client's version equals the kernel driver's",
    source: "open-gpu-kernel-modules, osapi.c, rm_perform_version_check",
    proof: Proof::Sourced,
};

static UNKNOWN: Rule = Rule {
    name: "RM-ESCAPE-NOT-MODELLED",
    text: "the twin models the escape",
    source: "this twin: src/kernel/escape.rs",
    proof: Proof::Twin,
};

/// Escapes of RM whose structs are not described here, which graphics and old clients use (nv_escape.h).
const OTHERS: [(u32, &str); 7] = [
    (0x28, "RM_ALLOC_OBJECT"),
    (0x39, "RM_I2C_ACCESS"),
    (0x4a, "RM_VID_HEAP_CONTROL"),
    (0x4d, "RM_ACCESS_REGISTRY"),
    (0x54, "RM_ALLOC_CONTEXT_DMA2"),
    (0x56, "RM_ADD_VBLANK_CALLBACK"),
    (0x59, "RM_BIND_CONTEXT_DMA"),
];

/// Where a struct of the interface has its status.
trait Answered: Struct {
    fn status(&mut self) -> &mut u32;
}

macro_rules! answered {
    ($($ty:ident $($within:ident)?;)*) => {$(
        impl Answered for escape::$ty {
            fn status(&mut self) -> &mut u32 {
                &mut self.$($within.)?status
            }
        }
    )*};
}

answered! {
    Free;
    Alloc;
    AllocRights;
    AllocMemoryWithFd params;
    Control;
    DupObject;
    AllocOsEvent;
    FreeOsEvent;
    MapMemoryWithFd params;
    UnmapMemory;
    GetEventData;
    UpdateDeviceMappingInfo;
    MapMemoryDma;
    UnmapMemoryDma;
}

impl Process {
    /// An ioctl: the request, and the address of its argument.
    ///
    /// # Errors
    /// `EBADF`, `ENOTTY`, `EFAULT`, `EINVAL`. What RM and UVM have against a call is in the argument.
    pub fn ioctl(&self, fd: i32, request: u32, argument: u64) -> std::result::Result<(), Errno> {
        let _between = self.machine.between();
        let done = self.file(fd).and_then(|file| {
            let done = match file.kind {
                Kind::Uvm => self.uvm(&file, request, argument),
                Kind::Ctl | Kind::Gpu(_) => self.escape(&file, request, argument),
                Kind::Text(_) | Kind::Folder(_) => Err(Errno(libc::ENOTTY).into()),
            };
            self.let_go(file);
            done
        });
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Errno(errno)) => Err(errno),
            // Statuses are written where they belong; one that is asked for where there is no place.
            Err(Failure::Status(_)) => Err(Errno(libc::EINVAL)),
        }
    }

    /// The escape of a request, and where its arguments lie, of how many bytes.
    fn asked(&self, request: u32, argument: u64) -> Result<(&'static abi::Call, u64, usize)> {
        let (machine, branch) = (&self.machine, self.machine.branch());
        if Ioctl::kind_of(request) != escape::KIND {
            machine.broken(&KIND, format!("request {request:#x}"));
        }
        let (mut nr, mut size, mut at) = (Ioctl::nr_of(request), Ioctl::size_of(request), argument);
        if nr == escape::IOCTL_XFER_CMD.number {
            let known = escape::Xfer::LAYOUT.size(branch);
            if size != known {
                let what = format!("IOCTL_XFER_CMD of {size} bytes, expected {known}");
                return machine.reject(&SIZE, libc::EINVAL, what);
            }
            let xfer = self.get::<escape::Xfer>(at)?;
            (nr, size, at) = (xfer.cmd, xfer.size as usize, xfer.ptr);
        }
        // The sizes that there are fit a request.
        let plain = u32::try_from(size)
            .ok()
            .filter(|&size| size < 1 << 14 && nr < 256);
        let call = plain.and_then(|size| escape::of_request(branch, size << 16 | nr));
        self.pull(at, size)?;
        if let Some(call) = call {
            return Ok((call, at, size));
        }
        if let Some((_, name)) = OTHERS.iter().find(|(number, _)| *number == nr) {
            return machine.reject(&UNKNOWN, libc::EINVAL, format!("{name}, of {size} bytes"));
        }
        let same = escape::ESCAPES.iter().find(|call| call.number == nr);
        let name = same.map_or("an unknown escape", |call| call.name);
        let what = format!("{name} ({nr:#x}) of {size} bytes on branch {branch}");
        machine.reject(&SIZE, libc::EINVAL, what)
    }

    /// Whether an escape goes to the file of the driver, or to that of a GPU; none where both take it.
    fn wants_control(&self, number: u32, at: u64) -> Result<Option<bool>> {
        Ok(match number {
            n if n == escape::RM_ALLOC_MEMORY.number => Some(false),
            n if n == escape::NUMA_INFO.number => Some(false),
            n if n == escape::REGISTER_FD.number => None,
            n if n == escape::ALLOC_OS_EVENT.number => None,
            n if n == escape::FREE_OS_EVENT.number => None,
            n if n == escape::RM_GET_EVENT_DATA.number => None,
            n if n == escape::WAIT_OPEN_COMPLETE.number => None,
            n if n == escape::RM_ALLOC.number && self.is_event(at)? => None,
            _ => Some(true),
        })
    }

    /// RM's part.
    fn escape(&self, file: &Arc<File>, request: u32, argument: u64) -> Result {
        let machine = &self.machine;
        let (call, at, size) = self.asked(request, argument)?;
        let call_on = Call {
            machine,
            process: self,
            file: file.id,
            wake: &file.wake,
            control: lock(&file.registered)
                .as_ref()
                .map_or(file.id, |file| file.id),
        };
        machine.journal.event(format!(
            "process {}: {} on {:?}",
            self.id, call.name, file.kind
        ));
        let wanted = self.wants_control(call.number, at)?;
        let control = file.kind == Kind::Ctl;
        if wanted.is_some_and(|wanted| wanted != control) {
            let what = format!("{} on {:?}", call.name, file.kind);
            return machine.reject(&FILE, libc::EINVAL, what);
        }
        let name = call.name;
        match call.number {
            n if n == escape::CARD_INFO.number => {
                machine.inject(name)?;
                self.card_info(at, size)
            }
            n if n == escape::REGISTER_FD.number => {
                machine.inject(name)?;
                self.register(file, self.get(at)?)
            }
            n if n == escape::CHECK_VERSION_STR.number => {
                machine.inject(name)?;
                self.check_version(at)
            }
            n if n == escape::WAIT_OPEN_COMPLETE.number => {
                machine.inject(name)?;
                self.put(at, &escape::WaitOpenComplete::default())
            }
            n if n == escape::NUMA_INFO.number => {
                machine.inject(name)?;
                self.numa_info(at)
            }
            n if n == escape::SYS_PARAMS.number => machine.inject(name),
            n if n == escape::RM_FREE.number => {
                self.answered(name, at, |args: &mut escape::Free| {
                    call_on.free(args.h_root, args.h_object_old)
                })
            }
            n if n == escape::RM_ALLOC.number => self.rm_alloc(&call_on, name, at, size),
            n if n == escape::RM_DUP_OBJECT.number => {
                self.answered(name, at, |args| call_on.dup(args))
            }
            n if n == escape::ALLOC_OS_EVENT.number => {
                self.answered(name, at, |args: &mut escape::AllocOsEvent| {
                    call_on.alloc_os_event(args)
                })
            }
            n if n == escape::FREE_OS_EVENT.number => {
                self.answered(name, at, |args: &mut escape::FreeOsEvent| {
                    call_on.free_os_event(args)
                })
            }
            n if n == escape::RM_GET_EVENT_DATA.number => {
                self.answered(name, at, |args| call_on.event_data(args))
            }
            n if n == escape::RM_CONTROL.number => {
                self.answered(name, at, |args: &mut escape::Control| call_on.control(args))
            }
            n if n == escape::RM_ALLOC_MEMORY.number => {
                self.answered(name, at, |args| call_on.alloc_memory(args))
            }
            n if n == escape::RM_MAP_MEMORY.number => {
                self.answered(name, at, |args: &mut escape::MapMemoryWithFd| {
                    call_on.map_memory(args)
                })
            }
            n if n == escape::RM_UNMAP_MEMORY.number => {
                self.answered(name, at, |args: &mut escape::UnmapMemory| {
                    call_on.memory_is_there(args.h_client, args.h_memory)
                })
            }
            n if n == escape::RM_UPDATE_DEVICE_MAPPING_INFO.number => {
                self.answered(name, at, |args| call_on.moved(args))
            }
            n if n == escape::RM_MAP_MEMORY_DMA.number => {
                self.answered(name, at, |args| call_on.map_dma(args))
            }
            n if n == escape::RM_UNMAP_MEMORY_DMA.number => {
                self.answered(name, at, |args: &mut escape::UnmapMemoryDma| {
                    call_on.unmap_dma(args)
                })
            }
            _ => machine.reject(&UNKNOWN, libc::EINVAL, name.to_string()),
        }
    }

    /// Looks whether an argument can be copied.
    fn pull(&self, at: u64, size: usize) -> Result {
        Ok(self.memory.read(at, &mut vec![0; size])?)
    }

    /// Whether RM_ALLOC is for an event, which may be made on any file.
    fn is_event(&self, at: u64) -> Result<bool> {
        // Both forms begin with the same fields.
        let mut class = [0; 4];
        self.memory.read(at + 12, &mut class)?;
        let class = u32::from_le_bytes(class);
        let events = [class::NV01_EVENT, class::NV01_EVENT_OS_EVENT];
        Ok(events.iter().any(|event| event.number == class))
    }

    /// A call that answers with a status.
    fn answered<T: Answered>(
        &self,
        name: &str,
        at: u64,
        run: impl FnOnce(&mut T) -> Result,
    ) -> Result {
        let mut args = self.get::<T>(at)?;
        let done = match self.machine.inject(name) {
            Ok(()) => run(&mut args),
            failed => failed,
        };
        *args.status() = match done {
            Ok(()) => status::NV_OK,
            Err(Failure::Status(status)) => status,
            // A bad address behind the argument.
            Err(Failure::Errno(Errno(libc::EFAULT))) => status::NV_ERR_INVALID_ADDRESS,
            Err(Failure::Errno(errno)) => return Err(errno.into()),
        };
        self.put(at, &args)
    }

    /// RM_ALLOC in both forms.
    fn rm_alloc(&self, call: &Call<'_>, name: &str, at: u64, size: usize) -> Result {
        let branch = self.machine.branch();
        if size == escape::Alloc::LAYOUT.size(branch) {
            return self.answered(name, at, |args: &mut escape::Alloc| {
                args.h_object_new = call.alloc(New {
                    client: args.h_root,
                    parent: args.h_object_parent,
                    handle: args.h_object_new,
                    class: args.h_class,
                    params: args.p_alloc_parms,
                    size: args.params_size,
                })?;
                Ok(())
            });
        }
        self.answered(name, at, |args: &mut escape::AllocRights| {
            args.h_object_new = call.alloc(New {
                client: args.h_root,
                parent: args.h_object_parent,
                handle: args.h_object_new,
                class: args.h_class,
                params: args.p_alloc_parms,
                size: args.params_size,
            })?;
            Ok(())
        })
    }

    /// Which GPUs there are.
    fn card_info(&self, at: u64, size: usize) -> Result {
        let one = escape::CardInfo::LAYOUT.size(self.machine.branch());
        let chips = &self.machine.config.chips;
        if size / one < chips.len() {
            let what = format!("CARD_INFO: room for {} of {}", size / one, chips.len());
            return self.machine.reject(&SIZE, libc::EINVAL, what);
        }
        self.memory.write(at, &vec![0; size])?;
        for (gpu, chip) in chips.iter().enumerate() {
            let [(reg_address, reg_size), (fb_address, fb_size)] = bars(chip, gpu);
            let info = escape::CardInfo {
                valid: 1,
                pci_info: escape::PciInfo {
                    bus: tree::bus(gpu),
                    vendor_id: 0x10de,
                    device_id: chip.device_id,
                    ..Default::default()
                },
                gpu_id: gpu_id(gpu),
                reg_address,
                reg_size,
                fb_address,
                fb_size,
                minor_number: gpu as u32,
                ..Default::default()
            };
            self.put(at + (gpu * one) as u64, &info)?;
        }
        Ok(())
    }

    /// NUMA_INFO: no memory of a GPU is memory of the machine here.
    fn numa_info(&self, at: u64) -> Result {
        let asked = self.get::<escape::NumaInfo>(at)?;
        let count = asked.offline_addresses.num_entries;
        if count as usize > asked.offline_addresses.addresses.len() {
            let what = format!("NUMA_INFO: {count} addresses");
            return self.machine.reject(&SIZE, libc::EBUSY, what);
        }
        let none = escape::NumaInfo {
            nid: -1,
            ..Default::default()
        };
        self.put(at, &none)
    }

    /// REGISTER_FD.
    fn register(&self, file: &Arc<File>, args: escape::RegisterFd) -> Result {
        let wrong = |what: &str| {
            let what = format!("descriptor {}: {what}", args.ctl_fd);
            self.machine.reject(&REGISTER, libc::EINVAL, what)
        };
        if lock(&file.registered).is_some() {
            return wrong("the file is registered");
        }
        let control = self.file(args.ctl_fd).ok();
        let Some(control) = control.filter(|control| control.kind == Kind::Ctl) else {
            return wrong("no control file");
        };
        if Arc::ptr_eq(&control, file) || lock(&control.registered).is_some() {
            return wrong("it is registered itself, or the same");
        }
        *lock(&file.registered) = Some(control);
        Ok(())
    }

    /// CHECK_VERSION_STR.
    fn check_version(&self, at: u64) -> Result {
        let mut args = self.get::<escape::RmApiVersion>(at)?;
        let driver = self.machine.config.driver.as_bytes();
        let mut own = [0; 64];
        own[..driver.len()].copy_from_slice(driver);
        let same = args.version_string == own;
        let query = args.cmd == escape::version_check::QUERY;
        args.reply = match same || query {
            true => escape::version_check::RECOGNIZED,
            false => escape::version_check::UNRECOGNIZED,
        };
        let theirs = args.version_string;
        args.version_string = own;
        self.put(at, &args)?;
        if same || args.cmd != escape::version_check::STRICT {
            return Ok(());
        }
        let end = theirs.iter().position(|&byte| byte == 0).unwrap_or(64);
        let theirs = String::from_utf8_lossy(&theirs[..end]).into_owned();
        self.machine.reject(&VERSION, libc::EINVAL, theirs)
    }
}
