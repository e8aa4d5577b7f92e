//! What RM on GSP keeps of a running card, strict about what the driver has to have done before.

use std::collections::BTreeMap;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::class::ChannelAlloc;
use drivers_spec::nv::gsp::{RcTriggered, RpcAlloc, RpcControl};
use drivers_spec::nv::pci_rm::{
    BufferInfo, ContextBuffersInfo, CopyReservedPdes, DeviceInfoTable, KgrInfo, MethodBufferSize,
    PromoteCtx, PromoteEntry, PromoteMethodBuffers, Region, SetPageDirectory, StubbedCopies,
    UnsetPageDirectory, static_info,
};
use drivers_spec::nv::query::Info;
use zerocopy::IntoBytes;

use super::vram::Vram;

/// Where RM has the page directory of BAR1.
pub const BAR1_ROOT: u64 = 0x5_f123_4000;
/// VRAM from here on is RM's.
const RESERVED: u64 = 0x5_f000_0000;
/// RM's own client and subdevice.
const INTERNAL: (u32, u32) = (0xc1e0_0000, 0xabcd_2080);
/// Where controls have their parameters.
const CONTROL: usize = size_of::<RpcControl>();

const BRANCH: Branch = Branch::R570;

/// What there is.
#[derive(Default)]
pub struct Objects {
    /// Page directories, by address spaces.
    directories: BTreeMap<u32, u64>,
    /// Those that are RM's.
    managed: BTreeMap<u32, u64>,
    /// Groups with their buffers for methods.
    methods: BTreeMap<u32, [u64; 2]>,
    /// Channels that are alive, with what they are in.
    channels: BTreeMap<u32, (u32, ChannelAlloc)>,
    /// The buffers of their contexts.
    promoted: BTreeMap<u32, Vec<PromoteEntry>>,
    /// Whether there was a first context.
    has_image: bool,
    /// Groups that may run.
    pub scheduled: Vec<u32>,
}

/// Handles with the numbers of their classes.
type Handles = BTreeMap<u32, u32>;

/// Puts a struct into an answer.
fn answer<T: Struct>(bytes: &mut [u8], at: usize, params: &T) {
    let params = params.encode(BRANCH);
    bytes[at..][..params.len()].copy_from_slice(&params);
}

fn asked<T: Struct>(bytes: &[u8], at: usize) -> T {
    T::decode(BRANCH, &bytes[at..][..T::LAYOUT.size(BRANCH)]).unwrap()
}

/// The number of a channel, by its flags.
fn number(channel: &ChannelAlloc) -> u32 {
    assert_eq!(channel.flags >> 21 & 1, 1, "CHANNEL_USERD_INDEX_PAGE_FIXED");
    (channel.flags >> 12 & 0x1ff) * 8 + (channel.flags >> 8 & 7)
}

/// What RM tells first.
pub fn told(length: usize) -> Vec<u8> {
    let layout = static_info(BRANCH).unwrap();
    assert_eq!(length, layout.bytes, "sizeof(GspStaticConfigInfo)");
    let region = |base, limit, reserved| Region {
        base,
        limit,
        reserved,
        ..Region::default()
    };
    let regions = [
        region(0, RESERVED - 1, 0),
        region(RESERVED, (24 << 30) - 1, (24 << 30) - RESERVED),
    ];
    let mut bytes = vec![0; layout.bytes];
    let mut put = |at: usize, what: &[u8]| bytes[at..][..what.len()].copy_from_slice(what);
    put(layout.regions, &2u32.to_le_bytes());
    put(layout.regions + 8, regions.as_bytes());
    put(layout.name, b"NVIDIA GeForce RTX 3090\0");
    put(layout.bar1_pde_base, &BAR1_ROOT.to_le_bytes());
    put(layout.internal[0], &INTERNAL.0.to_le_bytes());
    put(layout.internal[1], &INTERNAL.1.to_le_bytes());
    bytes
}

/// The death of a channel of a fault.
pub fn death(chid: u32, xid: u32, (va, kind): (u64, u32)) -> Vec<u8> {
    let told = RcTriggered {
        nv2080_engine_type: 1,
        chid,
        except_type: xid,
        mmu_fault_addr_lo: va as u32,
        mmu_fault_addr_hi: (va >> 32) as u32,
        mmu_fault_type: kind,
        ..Default::default()
    };
    told.encode(BRANCH)
}

impl Objects {
    pub fn set_directory(&mut self, handles: &Handles, bytes: &[u8]) {
        let params: SetPageDirectory = asked(bytes, 0);
        assert_eq!(handles[&params.h_device], 0x80);
        assert_eq!(handles[&params.h_va_space], 0x90f1);
        assert_eq!((params.num_entries, params.flags), (4, 8));
        assert!(params.phys_address.is_multiple_of(4096));
        assert!(self.channels.is_empty(), "set before there are channels");
        let before = self
            .directories
            .insert(params.h_va_space, params.phys_address);
        assert_eq!(before, None, "set once");
    }

    pub fn unset_directory(&mut self, bytes: &[u8]) {
        let params: UnsetPageDirectory = asked(bytes, 0);
        assert!(self.channels.is_empty(), "channels use it");
        assert!(self.directories.remove(&params.h_va_space).is_some());
    }

    fn root(&self) -> u64 {
        *self.directories.values().next().expect("a page directory")
    }

    /// An object was made.
    pub fn made(&mut self, handles: &Handles, head: &RpcAlloc, params: &[u8], vram: &Vram) {
        match head.h_class {
            0xc56f => self.channel(handles, head, params, vram),
            0xc797 => {
                let has = self.has(head.h_parent);
                assert_eq!(
                    has,
                    [0, 2, 3, 4, 5, 9, 10, 11],
                    "buffers of the first context"
                );
                self.has_image = true;
            }
            0xc7c0 => {
                assert!(self.has_image, "there was a first context");
                assert_eq!(self.has(head.h_parent), [0, 2], "memory of a context");
            }
            _ => {}
        }
    }

    fn has(&self, channel: u32) -> Vec<u16> {
        let entries = self.promoted.get(&channel).map_or(&[][..], Vec::as_slice);
        let mut has: Vec<_> = entries.iter().map(|entry| entry.buffer_id).collect();
        has.sort_unstable();
        has
    }

    fn channel(&mut self, handles: &Handles, head: &RpcAlloc, params: &[u8], vram: &Vram) {
        let channel: ChannelAlloc = asked(params, 0);
        let is_first = channel.internal_flags == 0x15;
        match is_first {
            true => assert!(self.managed.contains_key(&channel.h_va_space), "RM's space"),
            false => {
                assert_eq!(handles[&head.h_parent], 0xa06c, "in a group");
                let [first, _] = self.methods[&head.h_parent];
                assert_eq!(channel.mthdbuf_mem.base, first, "the group's buffer");
                assert_eq!((channel.h_va_space, channel.internal_flags), (0, 0x14));
                for entry in (0..channel.gp_fifo_entries).step_by(512) {
                    let va = channel.gp_fifo_offset + u64::from(entry) * 8;
                    let found = vram.walk(self.root(), va);
                    assert!(matches!(found, Some((_, false))), "the ring at {va:#x}");
                }
            }
        }
        let numbers = self.channels.values().map(|(_, one)| number(one));
        assert!(numbers.into_iter().all(|one| one != number(&channel)));
        for (what, memory, bytes) in [
            ("instance block", channel.instance_mem, 0x1000),
            ("RAMFC", channel.ramfc_mem, 0x200),
            ("USERD", channel.userd_mem, 0x200),
            ("method buffer", channel.mthdbuf_mem, 0x5000),
        ] {
            assert_eq!((memory.size, memory.address_space), (bytes, 2), "{what}");
            assert!(memory.base + bytes <= RESERVED, "{what}");
            assert!(vram.is_clear(memory.base, bytes), "{what} is clear");
        }
        self.channels
            .insert(head.h_object, (head.h_parent, channel));
    }

    pub fn freed(&mut self, object: u32) {
        self.channels.remove(&object);
        self.promoted.remove(&object);
        self.scheduled.retain(|one| *one != object);
        self.managed.remove(&object);
        self.methods.remove(&object);
    }

    /// The upper tables of an address space.
    fn reserve(&mut self, space: u32, bytes: &[u8], vram: &Vram) {
        let params: CopyReservedPdes = asked(bytes, CONTROL);
        assert_eq!((params.page_size, params.virt_addr_lo), (1 << 29, 4 << 30));
        assert_eq!(params.virt_addr_hi, 0x1_1fff_ffff);
        assert_eq!(params.num_levels_to_copy, 3);
        let mut at = params.levels[0].phys_address;
        for (level, (shift, size)) in
            params
                .levels
                .iter()
                .zip([(47_u8, 0x20_u64), (38, 0x1000), (29, 0x1000)])
        {
            assert_eq!((level.page_shift, level.size), (shift, size));
            assert_eq!((level.aperture, level.phys_address), (1, at));
            let index = (4u64 << 30) >> shift & 0x1ff;
            let entry = vram.quad(at + 8 * index);
            at = (entry >> 8 & 0x1ff_ffff) << 12;
            assert_eq!(
                entry >> 1 & 3,
                u64::from(shift != 29),
                "a table, or RM's entry"
            );
        }
        let root = params.levels[0].phys_address;
        assert_eq!(self.managed.insert(space, root), None, "once");
    }

    /// The buffers of a group for methods.
    fn promote_methods(&mut self, group: u32, bytes: &[u8]) {
        let params: PromoteMethodBuffers = asked(bytes, CONTROL);
        assert_eq!(params.num_valid_entries, 2);
        for one in &params.method_buffer_memdesc {
            assert_eq!((one.size, one.address_space, one.alignment), (0x5000, 2, 1));
        }
        let [one, other] = params.method_buffer_memdesc.map(|one| one.base);
        assert!(one + 0x5000 <= other, "one for each runqueue");
        assert_eq!(self.methods.insert(group, [one, other]), None, "once");
    }

    /// A group may run, or not.
    fn schedule(&mut self, group: u32) {
        for (channel, (_, params)) in self.channels.iter().filter(|(_, one)| one.0 == group) {
            if params.engine_type == 1 {
                let mapped = self.promoted[channel]
                    .iter()
                    .filter(|one| one.nonmapped == 0);
                let mut mapped: Vec<_> = mapped.map(|entry| entry.buffer_id).collect();
                mapped.sort_unstable();
                assert_eq!(mapped, [0, 2, 3, 4, 5, 9, 10], "addresses of a context");
            }
        }
        self.scheduled.push(group);
    }

    fn promote(&mut self, bytes: &[u8], vram: &Vram) {
        let params: PromoteCtx = asked(bytes, CONTROL);
        assert_eq!(params.engine_type, 1);
        let (_, channel) = &self.channels[&params.h_object];
        let entries = &params.promote_entry[..params.entry_count as usize];
        // In an address space of RM's, memory and addresses at once.
        let (root, at_once) = match channel.h_va_space {
            0 => (self.root(), false),
            space => (self.managed[&space], true),
        };
        for entry in entries {
            assert!(entry.nonmapped == 0 || entry.initialize == 1);
            assert!(at_once || entry.nonmapped == entry.initialize, "{entry:x?}");
            let found = vram.walk(root, entry.gpu_virt_addr);
            assert_eq!(found.is_some(), entry.nonmapped == 0, "{entry:x?}");
            if entry.initialize == 1 {
                assert_eq!(entry.phys_attr, 4);
                assert!(vram.is_clear(entry.gpu_phys_addr, entry.size), "{entry:x?}");
                for page in (0..entry.size)
                    .step_by(4096)
                    .filter(|_| entry.nonmapped == 0)
                {
                    let found = vram.walk(root, entry.gpu_virt_addr + page);
                    assert_eq!(
                        found,
                        Some((entry.gpu_phys_addr + page, true)),
                        "{entry:x?}"
                    );
                }
            }
        }
        let promoted = self.promoted.entry(params.h_object).or_default();
        promoted.extend(entries);
    }

    /// Answers a control; whether it is known here.
    pub fn control(&mut self, head: &RpcControl, bytes: &mut [u8], vram: &Vram) -> bool {
        let is_internal = (head.h_client, head.h_object) == INTERNAL;
        match head.cmd {
            0x2080_0a32 => {
                let mut info = ContextBuffersInfo::default();
                for (number, size) in [
                    (0, 0x3_1234),
                    (0x10, 0x1_0000),
                    (0x11, 0x3000),
                    (0x12, 0x2_0000),
                    (0x13, 0x9_0000),
                    (0x17, 0x2000),
                    (0x18, 0x1_0000),
                ] {
                    let alignment = 0x1000;
                    info.first[number] = BufferInfo { size, alignment };
                }
                answer(bytes, CONTROL, &info);
            }
            0x2080_0a2a => {
                let mut info = KgrInfo::default();
                for (index, data) in [(9, 41), (13, 48), (20, 7), (23, 6), (32, 2)] {
                    info.first[index] = Info {
                        index: index as u32,
                        data,
                    };
                }
                answer(bytes, CONTROL, &info);
            }
            0x2080_1112 => {
                let mut table: DeviceInfoTable = asked(bytes, CONTROL);
                assert_eq!(table.base_index, 0, "there are no more");
                table.num_entries = 5;
                let engines = [(1, 0), (9, 0), (11, 3), (12, 4), (13, 5)];
                for (entry, (kind, runlist)) in table.entries.iter_mut().zip(engines) {
                    entry.engine_data[2] = kind;
                    entry.engine_data[3] = runlist;
                }
                answer(bytes, CONTROL, &table);
            }
            0x2080_2a08 => answer(bytes, CONTROL, &MethodBufferSize { size: 0x5000 }),
            // The last of the engines.
            0x2080_2a06 => {
                let stubbed_ce_mask = 1 << (13 - 9);
                answer(bytes, CONTROL, &StubbedCopies { stubbed_ce_mask });
            }
            0x90f1_0106 => {
                self.reserve(head.h_object, bytes, vram);
                return true;
            }
            0xa06c_010a => {
                self.promote_methods(head.h_object, bytes);
                return true;
            }
            0x2080_012b => {
                self.promote(bytes, vram);
                return true;
            }
            0xa06c_0101 => {
                assert_eq!(bytes[CONTROL], 1);
                self.schedule(head.h_object);
                return true;
            }
            _ => return false,
        }
        assert!(is_internal, "{:#x} is RM's own client's to ask", head.cmd);
        true
    }
}
