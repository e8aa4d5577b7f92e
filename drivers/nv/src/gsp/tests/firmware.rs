//! RM on GSP: what it is started with is checked, its queues are served.

use std::collections::BTreeMap;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::gsp::{
    GspArguments, LibosArgument, MsgElement, MsgqTxHeader, RpcAlloc, RpcControl, RpcHeader,
    RpcRunCpuSequencer, SystemInfo, WprMeta, event, function,
};
use drivers_spec::nv::pci_rm::{self, function as of_driver};
use drivers_spec::nv::{class, status};
use zerocopy::{FromBytes, IntoBytes};

use super::card::{Break, Memory};
use super::files;
use super::objects::{self, Objects};
use super::vram::Vram;

const PAGE: u64 = 4096;
const COUNT: u32 = 63;

/// RM on GSP.
pub struct Rm {
    wrong: Break,
    commands: u64,
    status: u64,
    read: u32,
    write: u32,
    taken: u32,
    sent: u32,
    /// Functions of messages, in order.
    pub heard: Vec<u32>,
    objects: BTreeMap<u32, u32>,
    /// What it keeps of them.
    pub kept: Objects,
    /// Objects that were to be made, and controls.
    pub calls: u32,
    /// A call that goes on in continuation records: what it has, and is to have.
    part: Option<(u32, Vec<u8>, usize)>,
    /// It does not look for messages.
    pub sleeps: bool,
}

/// Whose structs it takes, where configuration space is, and where the windows are.
pub type Of = (Branch, u32, [u64; 3]);

fn sum(bytes: &[u8]) -> u32 {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let words = bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let all = words.fold(0, |all, word| all ^ word);
    (all >> 32) as u32 ^ all as u32
}

fn quad(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap())
}

impl Rm {
    /// What the booter does. Returns where WPR2 is then.
    pub fn verify(memory: &Memory, branch: Branch, at: u64, wpr2: (u64, u64)) -> (u64, u64) {
        let meta = Rm::parts(memory, branch, at);
        assert_eq!(
            meta.frts_offset, wpr2.0,
            "FRTS is where FWSEC has set it up"
        );
        (meta.gsp_fw_wpr_start, meta.gsp_fw_wpr_end - PAGE)
    }

    /// The metadata, the image and what goes with it.
    pub fn parts(memory: &Memory, branch: Branch, at: u64) -> WprMeta {
        let meta = WprMeta::decode(branch, &memory.read(at, 256)).unwrap();
        assert_eq!(
            (meta.magic, meta.revision, meta.verified),
            (0xdc3a_ae21_371a_60b3, 1, 0)
        );
        let image = files::image();
        assert_eq!(meta.size_of_radix3_elf as usize, image.len());
        let loader = memory.read(meta.sysmem_addr_of_bootloader, files::loader().len());
        assert_eq!(loader, files::loader());
        let signature = memory.read(
            meta.sysmem_addr_of_signature,
            meta.size_of_signature as usize,
        );
        assert_eq!(signature, files::signature());
        assert_eq!(
            (meta.bootloader_code_offset, meta.bootloader_manifest_offset),
            (0x100, 0)
        );
        // The page table, from the one first page to those of the image.
        let root = memory.read(meta.sysmem_addr_of_radix3_elf, PAGE as usize);
        for (page, bytes) in image.chunks(PAGE as usize).enumerate() {
            let second = memory.read(quad(&root, page >> 18), PAGE as usize);
            let third = memory.read(quad(&second, page >> 9 & 511), PAGE as usize);
            let found = memory.read(quad(&third, page & 511), bytes.len());
            assert!(found == bytes, "page {page} of the image");
        }
        meta
    }

    /// Starts with its arguments, reads what is in its queue, and says that it has started.
    pub fn start(memory: &Memory, (branch, mirror, windows): Of, libos: u64, wrong: Break) -> Rm {
        let mut at = libos;
        let mut named = Vec::new();
        let rm = loop {
            let bytes = memory.read(at, 32);
            let argument = LibosArgument::decode(branch, &bytes).unwrap();
            let name: Vec<u8> = argument
                .id8
                .to_be_bytes()
                .into_iter()
                .filter(|c| *c != 0)
                .collect();
            named.push(String::from_utf8(name).unwrap());
            assert_eq!((argument.kind, argument.loc), (1, 1));
            if named.last().unwrap() == "RMARGS" {
                break argument.pa;
            }
            let log = memory.read(argument.pa, 256);
            assert_eq!(
                (quad(&log, 0), quad(&log, 1)),
                (0, argument.pa),
                "a log knows its pages"
            );
            assert_eq!(quad(&log, 16), argument.pa + argument.size - PAGE);
            at += 32;
        };
        let expected = match branch {
            Branch::R535 => "LOGINIT LOGINTR LOGRM RMARGS",
            _ => "LOGINIT LOGINTR LOGRM LOGMNOC LOGKRNL RMARGS",
        };
        assert_eq!(named.join(" "), expected);
        let size = GspArguments::LAYOUT.size(branch);
        let arguments = GspArguments::decode(branch, &memory.read(rm, size)).unwrap();
        assert_eq!(arguments.dmem_stack, u8::from(branch != Branch::R535));
        let shared = arguments.shared_mem_phys_addr;
        assert_eq!(arguments.page_table_entry_count, 129);
        for page in 0..129 {
            assert_eq!(
                quad(&memory.read(shared + page * 8, 8), 0),
                shared + page * PAGE
            );
        }
        let mut rm = Rm {
            wrong,
            commands: shared + arguments.cmd_queue_offset,
            status: shared + arguments.stat_queue_offset,
            read: 0,
            write: 0,
            taken: 0,
            sent: 0,
            heard: Vec::new(),
            objects: BTreeMap::new(),
            kept: Objects::default(),
            calls: 0,
            part: None,
            sleeps: false,
        };
        let header = memory.read(rm.commands, 32);
        let mut header = MsgqTxHeader::read_from_bytes(&header).unwrap();
        let expected = [0, 0x4_0000, 0x1000, COUNT, 2, 1, 0x20, 0x1000];
        assert_eq!(header.as_bytes(), expected.map(u32::to_le_bytes).concat());
        header.write_ptr = 0;
        if wrong == Break::Header {
            header.msg_size = 0x2000;
        }
        memory.write(rm.status, header.as_bytes());
        // Each is in one element.
        let info = rm.take(memory).unwrap();
        assert_eq!(info.0, function::GSP_SET_SYSTEM_INFO);
        let info = SystemInfo::decode(branch, &info.1).unwrap();
        assert_eq!(
            (info.nv_domain_bus_device_func, info.pci_config_mirror_base),
            (0x100, mirror)
        );
        assert_eq!(
            [
                info.gpu_phys_addr,
                info.gpu_phys_fb_addr,
                info.gpu_phys_inst_addr
            ],
            windows
        );
        let is_wide = branch != Branch::R535 && windows[0] >> 32 != 0;
        assert_eq!(info.bar0_64b_supported, u8::from(is_wide));
        let (settings, table) = rm.take(memory).unwrap();
        assert_eq!(settings, function::SET_REGISTRY);
        assert!(table.ends_with(b"RMForcePcieConfigSave\0"));
        if matches!(
            wrong,
            Break::Silent | Break::Stuck | Break::Crash | Break::Header
        ) {
            return rm;
        }
        let mut program = RpcRunCpuSequencer {
            buffer_size_dword: 16,
            cmd_index: 5,
            ..RpcRunCpuSequencer::default()
        }
        .as_bytes()
        .to_vec();
        // A register is written, and a while passes.
        program.extend([0, 0x1400, 0x77, 3, 10].map(u32::to_le_bytes).concat());
        rm.send(memory, event::GSP_RUN_CPU_SEQUENCER, &program);
        rm.send(memory, 0x1020, b"a record that nobody reads");
        if wrong == Break::Old {
            let sent = std::mem::replace(&mut rm.sent, 1);
            rm.send(memory, 0x1020, b"a record that nobody reads");
            rm.sent = sent;
        }
        rm.send(memory, event::GSP_INIT_DONE, &[]);
        rm
    }

    /// An object ends without a word of its client.
    pub fn forget(&mut self, object: u32) {
        self.objects.remove(&object);
    }

    /// Tells that a channel has died.
    pub fn tell(&mut self, memory: &Memory, death: &[u8]) {
        self.send(memory, event::RC_TRIGGERED, death);
    }

    /// Tells something again and again, as long as little of it is unread.
    pub fn flood(&mut self, memory: &Memory) {
        let read = memory.dword(self.commands + 0x20);
        if (self.write + COUNT - read) % COUNT < 8 {
            self.send(memory, 0x1008, &[0; 16]);
        }
    }

    /// The next message, if there is one: function and parameters.
    fn take(&mut self, memory: &Memory) -> Option<(u32, Vec<u8>)> {
        let write = memory.dword(self.commands + 0x10);
        let there = (write + COUNT - self.read) % COUNT;
        if there == 0 {
            return None;
        }
        let element =
            |number: u32| self.commands + PAGE * (1 + u64::from((self.read + number) % COUNT));
        let head = memory.read(element(0), PAGE as usize);
        let (head, rest) = MsgElement::read_from_prefix(&head).unwrap();
        let rpc = RpcHeader::read_from_prefix(&rest[4..]).unwrap().0;
        assert!(
            head.elem_count <= there,
            "all elements are there before the pointer"
        );
        let mut bytes = Vec::new();
        for number in 0..head.elem_count {
            bytes.extend(memory.read(element(number), PAGE as usize));
        }
        bytes.truncate(0x30 + rpc.length as usize);
        assert_eq!(
            head.elem_count as usize,
            bytes.len().div_ceil(PAGE as usize)
        );
        assert_eq!((sum(&bytes), head.seq_num), (0, self.taken));
        assert_eq!((rpc.header_version, rpc.signature), (3 << 24, 0x4350_5256));
        assert_eq!(rpc.rpc_result, u32::MAX, "pending");
        self.taken += 1;
        self.read = (self.read + head.elem_count) % COUNT;
        memory.write(self.status + 0x20, &self.read.to_le_bytes());
        self.heard.push(rpc.function);
        Some((rpc.function, bytes.split_off(0x50)))
    }

    fn send(&mut self, memory: &Memory, function: u32, parameters: &[u8]) {
        let rpc = RpcHeader {
            header_version: 3 << 24,
            signature: 0x4350_5256,
            length: 0x20 + parameters.len() as u32,
            function,
            ..RpcHeader::default()
        };
        let count = (0x50 + parameters.len() as u32).div_ceil(PAGE as u32);
        let mut head = MsgElement {
            seq_num: self.sent + u32::from(self.wrong == Break::Number),
            elem_count: count,
            ..MsgElement::default()
        };
        let make = |head: &MsgElement| {
            let mut bytes = head.as_bytes().to_vec();
            bytes.extend([0; 4]);
            bytes.extend(rpc.as_bytes());
            bytes.extend(parameters);
            bytes
        };
        head.check_sum = sum(&make(&head)) ^ u32::from(self.wrong == Break::Sum);
        for (number, element) in make(&head).chunks(PAGE as usize).enumerate() {
            let place = (self.write + number as u32) % COUNT;
            memory.write(self.status + PAGE * (1 + u64::from(place)), element);
        }
        self.write = (self.write + count) % COUNT;
        let read = memory.dword(self.commands + 0x20);
        assert_ne!(self.write, read, "the host has read enough");
        memory.write(self.status + 0x10, &self.write.to_le_bytes());
        self.sent += 1;
    }

    /// Answers what is there. Whether it was told to end.
    pub fn serve(&mut self, memory: &Memory, vram: &Vram, wrong: Break) -> bool {
        if self.sleeps {
            return false;
        }
        while let Some((function, mut bytes)) = self.take(memory) {
            if function == function::CONTINUATION_RECORD {
                let (first, mut all, whole) = self.part.take().expect("something that goes on");
                all.extend(bytes);
                if all.len() < whole {
                    self.part = Some((first, all, whole));
                    continue;
                }
                self.reply(memory, first, &all);
                continue;
            }
            // Where the status of a call is.
            let status = match function {
                function::GSP_RM_ALLOC => 16,
                function::GSP_RM_CONTROL => 12,
                _ => 0,
            };
            self.calls += u32::from(status != 0);
            if status != 0 && wrong == Break::Call(self.calls) {
                let refused = status::NV_ERR_INSUFFICIENT_RESOURCES.to_le_bytes();
                bytes[status..][..4].copy_from_slice(&refused);
                self.reply(memory, function, &bytes);
                continue;
            }
            match function {
                function::GSP_RM_ALLOC => self.make(&mut bytes, vram, wrong),
                function::GSP_RM_CONTROL => {
                    let head = RpcControl::read_from_prefix(&bytes).unwrap().0;
                    let whole = 0x18 + head.params_size as usize;
                    if bytes.len() < whole {
                        self.part = Some((function, bytes, whole));
                        continue;
                    }
                    if !self.kept.control(&head, &mut bytes, vram) {
                        control(&head, &mut bytes);
                    }
                }
                function::FREE => {
                    let object = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
                    assert!(
                        self.objects.remove(&object).is_some(),
                        "{object:#x} is an object"
                    );
                    self.kept.freed(object);
                }
                of_driver::GET_GSP_STATIC_INFO => bytes = objects::told(bytes.len()),
                of_driver::SET_PAGE_DIRECTORY => self.kept.set_directory(&self.objects, &bytes),
                of_driver::UNSET_PAGE_DIRECTORY => self.kept.unset_directory(&bytes),
                function::ECC_NOTIFIER_WRITE_ACK => {
                    assert!(bytes.is_empty());
                    continue;
                }
                function::UNLOADING_GUEST_DRIVER => {
                    assert_eq!(bytes, [0; 8]);
                    assert!(self.objects.is_empty(), "objects are freed before");
                    self.reply(memory, function, &bytes);
                    return true;
                }
                other => panic!("function {other}"),
            }
            self.reply(memory, function, &bytes);
        }
        false
    }

    fn reply(&mut self, memory: &Memory, function: u32, bytes: &[u8]) {
        // An event comes in between.
        self.send(memory, 0x1008, &[0; 16]);
        let most = 0x1_0000 - 0x50;
        for (number, piece) in bytes.chunks(most).enumerate() {
            let record = match number {
                0 => function,
                _ => function::CONTINUATION_RECORD,
            };
            if number == 1 && self.wrong == Break::Empty {
                self.send(memory, record, &[]);
            }
            self.send(memory, record, piece);
        }
    }

    fn make(&mut self, bytes: &mut [u8], vram: &Vram, wrong: Break) {
        let mut head = RpcAlloc::read_from_prefix(bytes).unwrap().0;
        assert_eq!(bytes.len(), 0x20 + head.params_size as usize);
        let size = match head.h_class {
            0 => {
                assert_eq!(
                    (head.h_client, head.h_parent),
                    (head.h_object, head.h_object)
                );
                assert!((0xc1d0_0000..0xc1e0_0000).contains(&head.h_object));
                assert!(!self.objects.contains_key(&head.h_object), "a new one");
                0x78
            }
            number => {
                assert!(
                    self.objects.contains_key(&head.h_parent),
                    "the parent is there"
                );
                let all = class::CLASSES.iter().chain(pci_rm::GRAPHICS);
                let class = all.copied().find(|class| class.number == number).unwrap();
                // Those of graphics, compute and copies may be left out.
                match (head.params_size, number & 0xff) {
                    (0, 0x97 | 0xc0 | 0xb5) => 0,
                    _ => class.layout.unwrap().size(Branch::R570),
                }
            }
        };
        assert_eq!(head.params_size as usize, size);
        self.kept.made(&self.objects, &head, &bytes[0x20..], vram);
        head.status = match wrong == Break::Refuses && head.h_class == 0x80 {
            true => status::NV_ERR_INSUFFICIENT_RESOURCES,
            false => {
                self.objects.insert(head.h_object, head.h_class);
                status::NV_OK
            }
        };
        bytes[..0x20].copy_from_slice(head.as_bytes());
    }
}

/// Answers a control: the name of the product, or the same bytes.
fn control(head: &RpcControl, bytes: &mut [u8]) {
    if head.cmd == 0x2080_0110 {
        let name = b"NVIDIA GeForce RTX 3090\0";
        let at = 0x18 + 4;
        bytes[at..at + name.len()].copy_from_slice(name);
    }
}
