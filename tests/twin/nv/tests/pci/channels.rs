//! Address spaces and channels by RPC, and each mistake that can be made with them.

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::class::{ChannelAlloc, ChannelGroupAlloc, CtxShareAlloc, DebuggerAlloc};
use drivers_spec::nv::control::DebugSmErrorStates;
use twin::fires::fires;
use twin::rng::Rng;
use twin_nv::chip::Chip;

use super::boot::{Boot, bytes, words};
use super::client::{
    Buffer, CHANNEL, CLIENT, COMPUTE, COPY, Client, DATA, DEVICE, GRAPHICS, Rig, SPACE, SUBDEVICE,
    desc, semaphore,
};

const GROUP: u32 = 0xd000_a06c;
const SHARE: u32 = 0xd000_9067;
const DEBUGGER: u32 = 0xd000_83de;

#[test]
fn facts_are_asked() {
    for chip in ["ga102", "ad102"] {
        let client = Client::new(chip);
        let (status, table) = client.control(SUBDEVICE, 0x2080_1112, &vec![0; 12 + 32 * 100]);
        let table = words(&table);
        // The last one has no hardware.
        assert_eq!((status, table[1]), (0, 1 + 5 + 1));
        let stubbed = client.control(SUBDEVICE, 0x2080_2a06, &[0; 4]);
        assert_eq!((stubbed.0, words(&stubbed.1)[0]), (0, 1 << 5));
        let entry = |i: usize| &table[3 + 25 * i..][..25];
        assert_eq!((entry(0)[2], entry(0)[3], entry(0)[4]), (1, 0, 64));
        assert_eq!((entry(3)[2], entry(3)[3], entry(3)[10]), (11, 1, 2));
        let (status, sizes) = client.control(SUBDEVICE, 0x2080_0a32, &[0; 8 * 26 * 8]);
        let sizes = words(&sizes);
        assert_eq!((status, sizes[0], sizes[2 * 0x10]), (0, 0x14_0000, 0x2000));
        let (status, facts) = client.control(SUBDEVICE, 0x2080_0a2a, &[0; 8 * 58 * 8]);
        let facts = words(&facts);
        // LITTER_NUM_SM_PER_TPC.
        assert_eq!((status, &facts[2 * 32..][..2]), (0, &[32, 2][..]));
        let size = client.control(SUBDEVICE, 0x2080_2a08, &[0; 4]);
        assert_eq!((size.0, words(&size.1)[0]), (0, 0x5000));
        for control in [0x2080_0a42, 0x2080_01b0] {
            let (status, falcons) = client.control(SUBDEVICE, control, &[0; 1284]);
            assert_eq!((status, words(&falcons)[0]), (0, 0));
        }
        let (status, table) = client.control(SUBDEVICE, 0x2080_0a5c, &[0; 2068]);
        let table = words(&table);
        // GSP, then graphics and copies: which one, stall and notification.
        assert_eq!((status, table[0]), (0, 1 + 1 + 5 + 1));
        assert_eq!((table[1] & 0xffff, table[4]), (50, u32::MAX));
        assert_eq!(table[5..9], [84, 0, 0x80, 0]);
        assert_eq!(table[9..13], [15, 0, 0x81, 1]);
        let known = Chip::by_name(chip).unwrap();
        let ask = |control, asked: &[u8]| {
            let (status, answer) = client.control(SUBDEVICE, control, asked);
            assert_eq!(status, 0, "{control:#x}");
            words(&answer)
        };
        let gpcs = known.tpcs.len() as u32;
        assert_eq!(ask(0x2080_0137, &[0; 4]), [(1 << gpcs) - 1]);
        for (gpc, tpcs) in [(0, known.tpcs[0]), (gpcs, 0)] {
            let asked = bytes(&[gpc, 0]);
            assert_eq!(ask(0x2080_0138, &asked), [gpc, (1 << tpcs) - 1]);
        }
        let memory = ask(0x2080_0a1c, &[0; 40]);
        assert_eq!((memory[2], memory[5]), (known.l2_kib << 10, 1 << memory[6]));
        assert!(!ask(0x2080_1206, &[0; 40]).contains(&0));
        client.boot.rig.is_clean();
        assert_eq!(client.control(SUBDEVICE, 0x2080_1112, &[0; 8]).0, 0x3a);
        assert_eq!(client.broken(), ["RM-CONTROL-SIZE"]);
    }
}

#[test]
fn static_information_has_regions_and_page_directories() {
    let client = Client::new("ga102");
    let info = client.boot.rpc(65, &[0; 0x678]).payload;
    let long = |at: usize| u64::from_le_bytes(info[at..at + 8].try_into().unwrap());
    let (usable, rest) = (long(0x168), long(0x190));
    assert_eq!(usable + 1, rest);
    // Both lie in firmware's own memory, where the host may write.
    for at in [0x600, 0x608] {
        assert!(long(at) >= rest);
        client.put_long(long(at) + 0x18, 0);
    }
    client.boot.rig.is_clean();
}

#[test]
fn page_directories_are_set() {
    let rig = Rig::on(Client::new("ga102"));
    assert_eq!(rig.new_space(8), 0);
    for (root, entries, flags, status) in [
        (rig.tables.root, 4, 3, 0x1f),
        (rig.tables.root, 5, 0, 0x1f),
        (rig.tables.root, 1, 0, 0x1f),
        (rig.tables.root + 8, 4, 0, 0x1f),
        (1 << 40, 4, 0, 0x1f),
        (rig.tables.root, 4, 1, 0x1f),
    ] {
        let before = rig.client.broken().len();
        let answer = rig.set_directory(root, entries, flags);
        assert_eq!(answer.result, status);
        fires("NV-SPACE-DIRECTORY").only(&rig.client.broken()[before..]);
    }
    assert_eq!(rig.set_directory(rig.tables.root, 4, 0).result, 0);
    assert_eq!(rig.set_directory(rig.tables.root, 4, 0).result, 0x40);
    // Taken away, and set again.
    let unset = rig.client.boot.rpc(79, &bytes(&[CLIENT, DEVICE, SPACE, 0]));
    assert_eq!(unset.result, 0);
    assert_eq!(rig.set_directory(rig.tables.root, 4, 0).result, 0);
    // Of one that is firmware's own.
    let rig = Rig::on(Client::new("ga102"));
    assert_eq!(rig.new_space(0), 0);
    assert_eq!(rig.set_directory(rig.tables.root, 4, 0).result, 0x56);
    assert_eq!(rig.client.broken(), ["NV-SPACE-DIRECTORY"]);
}

#[test]
fn upper_levels_are_handed_over() {
    let rig = Rig::on(Client::new("ad102"));
    assert_eq!(rig.new_space(0), 0);
    let [root, second, third] = rig.levels();
    for wrong in [
        (0x2000_0001, vec![root, second, third]),
        (1 << 29, vec![]),
        (1 << 29, vec![root; 7]),
        (1 << 29, vec![root, (second.0, 0, 38), third]),
        (1 << 29, vec![root, (second.0, 1, 29), third]),
        (1 << 29, vec![root, (second.0 + 0x1000, 1, 38), third]),
        (1 << 29, vec![(root.0 + 8, 1, 47), second, third]),
    ] {
        let before = rig.client.broken().len();
        assert_eq!(rig.reserved(SPACE, wrong.0, &wrong.1), 0x1f);
        fires("NV-SPACE-RESERVED-PDES").only(&rig.client.broken()[before..]);
    }
    // Of one that is the client's.
    let other = Rig::on(Client::new("ad102"));
    assert_eq!(other.new_space(8), 0);
    assert_eq!(other.reserved(SPACE, 1 << 29, &other.levels()), 0x56);
    fires("NV-SPACE-RESERVED-NOT-MODELLED").only(&other.client.broken());
    let before = rig.client.broken().len();
    // No page directory yet: no channel.
    assert_eq!(rig.new_channel(&rig.parameters(COPY)), 0x40);
    fires("NV-CHANNEL-SPACE").only(&rig.client.broken()[before..]);
    assert_eq!(rig.reserved(SPACE, 1 << 29, &[root, second, third]), 0);
    assert_eq!(rig.new_channel(&rig.parameters(COPY)), 0);
    rig.schedule(1);
    rig.go(COPY, &semaphore(DATA, 1, 1));
    assert_eq!(rig.client.get(rig.data), 1);
    assert_eq!(rig.client.broken().len(), before + 1);
}

#[test]
fn address_spaces_have_flags() {
    let rig = Rig::on(Client::new("ga102"));
    assert_eq!(rig.new_space(8 | 1 << 6), 0);
    fires("NV-SPACE-FAULTS-NOT-MODELLED").only(&rig.client.broken());
    let rig = Rig::on(Client::new("ga102"));
    assert_eq!(rig.new_space(1 << 30), 0x1f);
    assert_eq!(rig.client.broken(), ["RM-VASPACE"]);
    // That of a device.
    let rig = Rig::new("ga102");
    let params = ChannelAlloc {
        h_va_space: 0,
        ..rig.parameters(COPY)
    };
    assert_eq!(rig.new_channel(&params), 0x56);
    assert_eq!(rig.client.broken(), ["NV-SPACE-FAULTS-NOT-MODELLED"]);
}

#[test]
fn channels_are_given_memory() {
    let rig = Rig::new("ga102");
    let right = rig.parameters(COPY);
    let (instance, userd) = (rig.instance, rig.userd);
    let wpr2 = rig.client.boot.fb() - (2 << 20);
    let wrong: [fn(&mut ChannelAlloc, u64, u64); 9] = [
        |params, at, _| params.instance_mem = desc(at, 0x800, 2),
        |params, at, _| params.instance_mem = desc(at + 0x100, 0x1000, 2),
        |params, at, _| params.instance_mem = desc(at, 0x1000, 0),
        |params, _, at| params.instance_mem = desc(at, 0x1000, 2),
        |params, at, _| params.ramfc_mem = desc(at + 0x1000, 0x200, 2),
        |params, at, _| params.userd_mem = desc(at + 0x80, 0x200, 2),
        |params, at, _| params.userd_mem = desc(at, 0x200, 1),
        |params, at, _| params.mthdbuf_mem = desc(at, 0x1000, 2),
        |params, _, _| params.mthdbuf_mem = desc(0, 0x5000, 2),
    ];
    for change in wrong {
        let mut params = right;
        change(&mut params, instance, wpr2);
        let before = rig.client.broken().len();
        assert_eq!(rig.new_channel(&params), 0x1f);
        fires("NV-CHANNEL-MEMORY").only(&rig.client.broken()[before..]);
    }
    // A method buffer that the host does not have is named, and the channel is made.
    let mut params = right;
    params.mthdbuf_mem = desc(wpr2, 0x5000, 1);
    let before = rig.client.broken().len();
    assert_eq!(rig.new_channel(&params), 0);
    fires("NV-CHANNEL-MEMORY").only(&rig.client.broken()[before..]);
    // What another channel has.
    let before = rig.client.broken().len();
    let other = ChannelAlloc {
        flags: 1 << 21 | 4 << 8,
        userd_mem: desc(userd + 0x200, 0x200, 2),
        ..right
    };
    let class = rig.client.boot.rig.chip.twin.facts().channel.number;
    let params = other.encode(Branch::R570);
    let status = rig.client.alloc(DEVICE, CHANNEL + 1, class, &params);
    assert_eq!(status, 0x1f);
    assert_eq!(rig.client.broken()[before..], ["NV-CHANNEL-MEMORY"]);
}

#[test]
fn notifiers_have_a_kind() {
    for (flags, memory) in [
        (0, desc(0, 0, 0)),
        (3, desc(0, 0, 0)),
        (3, desc(0x1000, 8, 2)),
    ] {
        let rig = Rig::new("ga102");
        let params = ChannelAlloc {
            internal_flags: 1 | flags << 2 | 1 << 4,
            error_notifier_mem: memory,
            ..rig.parameters(COPY)
        };
        assert_eq!(rig.new_channel(&params), 0x1f);
        fires("NV-CHANNEL-NOTIFIER").only(&rig.client.broken());
    }
}

#[test]
fn channels_have_numbers_and_rings() {
    let flags = |flags: u32, status: u32| {
        let rig = Rig::new("ga102");
        let params = ChannelAlloc {
            flags,
            ..rig.parameters(COPY)
        };
        assert_eq!(rig.new_channel(&params), status);
        rig.client.broken()
    };
    fires("NV-CHANNEL-ID").only(&flags(0, 0));
    fires("NV-CHANNEL-ID").only(&flags(1 << 21 | 1 << 11, 0x40));
    fires("NV-CHANNEL-ID").only(&flags(1 << 21 | 0x1ff << 12, 0x3b));
    fires("NV-CHANNEL-TYPE").only(&flags(1 << 21 | 1, 0x56));
    for (at, entries) in [(0x10_0004, 32), (0x10_0000, 33), (0x10_0000, 0)] {
        let rig = Rig::new("ga102");
        let params = ChannelAlloc {
            gp_fifo_offset: at,
            gp_fifo_entries: entries,
            ..rig.parameters(COPY)
        };
        assert_eq!(rig.new_channel(&params), 0x1f);
        fires("NV-CHANNEL-TYPE").only(&rig.client.broken());
    }
    let rig = Rig::with_channel("ga102", COPY);
    let token = rig.client.control(CHANNEL, 0xc36f_0108, &[0; 4]);
    assert_eq!((token.0, words(&token.1)[0]), (0, 3));
    rig.client.boot.rig.is_clean();
    assert_eq!(rig.bind(GRAPHICS), 0x1f);
    fires("NV-CHANNEL-BIND").only(&rig.client.broken());
}

/// INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS: the first buffer of the group, and how many there are.
fn method_buffers(rig: &Rig, first: u64, count: u32) -> u32 {
    rig.client
        .control(GROUP, 0xa06c_010a, &methods(rig, first, count))
        .0
}

/// Its parameters.
fn methods(rig: &Rig, first: u64, count: u32) -> Vec<u8> {
    let other = rig.instance + 0x1_0000;
    let mut parameters = Vec::new();
    for at in [first, other] {
        let longs = [at, 0x5000, 1, 2 | 1 << 32];
        parameters.extend(longs.iter().flat_map(|word| word.to_le_bytes()));
    }
    parameters.extend([0; 16]);
    parameters.extend(bytes(&[count, 0]));
    parameters
}

#[test]
fn groups_have_method_buffers() {
    let rig = Rig::new("ga102");
    let group = ChannelGroupAlloc {
        h_va_space: SPACE,
        engine_type: COPY,
        ..Default::default()
    };
    let group = group.encode(Branch::R570);
    assert_eq!(rig.client.alloc(DEVICE, GROUP, 0xa06c, &group), 0);
    let class = rig.client.boot.rig.chip.twin.facts().channel.number;
    let channel = |methods: u64| {
        let params = ChannelAlloc {
            h_va_space: 0,
            mthdbuf_mem: desc(methods, 0x5000, 2),
            ..rig.parameters(COPY)
        };
        let params = params.encode(Branch::R570);
        rig.client.alloc(GROUP, CHANNEL, class, &params)
    };
    let right = rig.instance + 0x2000;
    // Before it has any.
    assert_eq!(channel(right), 0x40);
    fires("NV-GROUP-METHOD-BUFFERS").only(&rig.client.broken());
    for (first, count) in [
        (right, 1),
        (0, 2),
        (1 << 40, 2),
        (rig.instance + 0x1_0000, 2),
    ] {
        let before = rig.client.broken().len();
        assert_eq!(method_buffers(&rig, first, count), 0x1f);
        fires("NV-GROUP-METHOD-BUFFERS").only(&rig.client.broken()[before..]);
    }
    // Aperture, alignment, cpuCacheAttrib, and an address of BAR 2, of the second one.
    for (at, value) in [(0x38, 3_u8), (0x30, 0), (0x3c, 3), (0x48, 1)] {
        let mut parameters = methods(&rig, right, 2);
        parameters[at] = value;
        let before = rig.client.broken().len();
        let told = rig.client.control(GROUP, 0xa06c_010a, &parameters);
        assert_eq!(told.0, 0x1f, "{at:#x}");
        fires("NV-GROUP-METHOD-BUFFERS").only(&rig.client.broken()[before..]);
    }
    let before = rig.client.broken().len();
    assert_eq!(method_buffers(&rig, right, 2), 0);
    assert_eq!(rig.client.broken().len(), before);
    // Twice, and a channel with one that is not the group's.
    assert_eq!(method_buffers(&rig, right, 2), 0x1f);
    assert_eq!(channel(right + 0x1000), 0x40);
    assert_eq!(
        rig.client.broken()[before..],
        ["NV-GROUP-METHOD-BUFFERS"; 2]
    );
    assert_eq!(channel(right), 0);
}

#[test]
fn groups_and_context_shares() {
    let rig = Rig::new("ga102");
    assert_eq!(new_group(&rig.client.boot), 0);
    let share = CtxShareAlloc {
        h_va_space: SPACE,
        flags: 1,
        ..Default::default()
    };
    let share = share.encode(Branch::R570);
    assert_eq!(rig.client.alloc(GROUP, SHARE, 0x9067, &share), 0);
    assert_eq!(method_buffers(&rig, rig.instance + 0x2000, 2), 0);
    let class = rig.client.boot.rig.chip.twin.facts().channel.number;
    let params = ChannelAlloc {
        h_va_space: 0,
        h_context_share: SHARE,
        ..rig.parameters(GRAPHICS)
    };
    let params = params.encode(Branch::R570);
    assert_eq!(rig.client.alloc(GROUP, CHANNEL, class, &params), 0);
    // Another one of the group.
    let other = ChannelAlloc {
        h_va_space: 0,
        h_context_share: SHARE,
        flags: 1 << 21 | 4 << 8,
        instance_mem: desc(rig.instance + 0x1000, 0x1000, 2),
        ramfc_mem: desc(rig.instance + 0x1000, 0x200, 2),
        userd_mem: desc(rig.userd + 0x200, 0x200, 2),
        ..rig.parameters(GRAPHICS)
    };
    let other = other.encode(Branch::R570);
    assert_eq!(rig.client.alloc(GROUP, CHANNEL + 2, class, &other), 0);
    assert_eq!(rig.client.control(GROUP, 0xa06c_0101, &[1, 0]).0, 0);
    rig.go(GRAPHICS, &semaphore(DATA, 1, 1));
    assert_eq!(rig.client.get(rig.data), 1);
    rig.client.boot.rig.is_clean();
    // An address space of its own in a group.
    let params = rig.parameters(GRAPHICS).encode(Branch::R570);
    assert_eq!(rig.client.alloc(GROUP, CHANNEL + 1, class, &params), 0x1f);
    assert_eq!(rig.client.broken(), ["RM-CHANNEL-SPACE"]);
    // One dies, and the other with it.
    rig.push(&semaphore(0x7000_0000, 1, 1));
    rig.ring(rig.token(GRAPHICS));
    assert_eq!(rig.client.boot.record().function, 0x1006);
    assert_eq!(rig.client.boot.record().function, 0x1004);
    rig.client.put(rig.userd + 0x28c, &[1]);
    rig.ring(4);
    rig.client.settle();
    assert_eq!(rig.client.get(rig.userd + 0x288), 0);
    assert_eq!(rig.client.broken()[1..], ["MMU-FAULT"]);
    // What hangs on the address space goes with it.
    rig.client.free(SPACE);
    assert_eq!(rig.client.control(CHANNEL, 0xa06f_0103, &[1, 0]).0, 0x57);
}

#[test]
fn objects_have_parents_and_handles() {
    let rig = Rig::with_channel("ga102", GRAPHICS);
    let class = rig.client.boot.rig.chip.twin.facts().usermode.number;
    assert_eq!(rig.client.alloc(SUBDEVICE, 0xd000_c561, class, &[]), 0);
    rig.client.boot.rig.is_clean();
    assert_eq!(rig.client.alloc(DEVICE, 0xd000_c562, class, &[]), 0x36);
    assert_eq!(rig.client.alloc(SUBDEVICE, CHANNEL, class, &[]), 0x19);
    assert_eq!(rig.client.alloc(DEVICE, 0xd000_1234, 0xc86f, &[]), 0x22);
    assert_eq!(
        rig.client.alloc(CHANNEL, 0xd000_0005, 0x5, &[0; 0x18]),
        0x56
    );
    let broken = rig.client.broken();
    assert_eq!(broken[..3], ["RM-PARENT", "RM-HANDLE", "RM-CLASS"]);
    fires("NV-RPC-OBJECT-NOT-MODELLED").only(&broken[3..]);
    // With its client all is gone.
    rig.client.free(CLIENT);
    assert_eq!(rig.client.control(CHANNEL, 0xa06f_0103, &[1, 0]).0, 0x23);
}

#[test]
fn memory_is_a_list_of_pages() {
    let client = Client::new("ga102");
    let host = client.boot.rig.memory(&[0; 0x3000]);
    let pages = super::rig::pages(&host);
    let make = |class: u32, flags: u32, length: u32, pages: &[u64], described: u32| {
        let count = pages.len() as u32;
        let mut payload = bytes(&[
            CLIENT,
            DEVICE,
            0xd000_0081,
            class,
            flags,
            0,
            0,
            0,
            length,
            0,
            count,
            0,
            described,
            0,
        ]);
        for page in pages {
            payload.extend((page >> 12).to_le_bytes());
        }
        client.boot.rpc(4, &payload).result
    };
    for wrong in [
        make(0x3e, 1 << 4, 0x3000, &pages[..3], 3 << 16),
        make(0x81, 1 << 4 | 2 << 8, 0x3000, &pages[..3], 3 << 16),
        make(0x81, 1 << 4, 0x3000, &pages[..2], 2 << 16),
        make(0x81, 1 << 4, 0x3000, &pages[..3], 3 << 16 | 1),
        make(0x81, 1 << 4, 0x1000, &[0x1000], 1 << 16),
        make(0x82, 2 << 8, 0x1000, &[1 << 40], 1 << 16),
    ] {
        assert_eq!(wrong, 0x1f);
    }
    assert_eq!(client.broken().len(), 6);
    fires("NV-RPC-ALLOC-MEMORY").first(&client.broken());
    assert_eq!(make(0x81, 1 << 4, 0x3000, &pages[..3], 3 << 16), 0);
    assert_eq!(make(0x81, 1 << 4, 0x3000, &pages[..3], 3 << 16), 0x19);
    client.free(0xd000_0081);
    assert_eq!(make(0x82, 2 << 8, 0x10_0000, &[0x10_0000], 1 << 16), 0);
    assert_eq!(client.broken().len(), 7);
}

/// KEPLER_CHANNEL_GROUP_A, of graphics.
pub fn new_group(boot: &Boot) -> u32 {
    let group = ChannelGroupAlloc {
        h_va_space: SPACE,
        engine_type: GRAPHICS,
        ..Default::default()
    };
    let made = [CLIENT, DEVICE, GROUP, 0xa06c];
    boot.alloc(made, &group.encode(Branch::R570)).0
}

#[test]
fn what_is_sent_at_random_is_answered() {
    let rig = Rig::with_channel("ga102", GRAPHICS);
    assert_eq!(new_group(&rig.client.boot), 0);
    send_at_random(&rig.client.boot, 7);
}

/// Sends calls whose numbers mean something, or nothing: each is answered, and the firmware goes on.
pub fn send_at_random(boot: &Boot, seed: u64) {
    let mut random = Rng::new(seed);
    let functions = [4, 10, 54, 70, 76, 79, 103];
    let handles = [
        CLIENT,
        DEVICE,
        SUBDEVICE,
        SPACE,
        CHANNEL,
        GROUP,
        0xc1e0_0004,
        0,
        9,
    ];
    let classes = [
        0x90f1, 0xa06c, 0x9067, 0xc56f, 0xc7c0, 0xc7b5, 0xc561, 0xc797, 0x81,
    ];
    let controls = [
        0x90f1_0106,
        0x80_1813,
        0x2080_012b,
        0x2080_1112,
        0x2080_0a32,
        0x2080_2a08,
        0x2080_110b,
        0xa06f_0103,
        0xa06f_0104,
        0xa06f_0112,
        0xc36f_0108,
        0xa06c_0101,
        0xa06c_010a,
        0x2080_2a06,
        0x2080_0137,
        0x2080_0138,
        0x2080_0a1c,
        0x2080_1206,
    ];
    let sizes = [
        0, 1, 2, 4, 8, 0x18, 0x20, 0x28, 0x30, 0x58, 0xb8, 0x170, 0x218, 0x230, 3084,
    ];
    for _ in 0..400 {
        let function = functions[random.below(functions.len())];
        let handle = |random: &mut Rng| handles[random.below(handles.len())];
        let size = sizes[random.below(sizes.len())];
        let mut head = vec![handle(&mut random), handle(&mut random)];
        match function {
            76 => {
                let cmd = controls[random.below(controls.len())];
                head.extend([cmd, 0, size, 0]);
            }
            103 => {
                let class = classes[random.below(classes.len())];
                head.extend([0xe000_0000 + random.below(64) as u32, class, 0, size, 0, 0]);
            }
            _ => head.extend([handle(&mut random)]),
        }
        let mut payload = bytes(&head);
        let end = payload.len() + size as usize;
        while payload.len() < end {
            // Numbers that mean something, and others.
            let word = match random.below(4) {
                0 => 0,
                1 => handle(&mut random),
                2 => 1 << random.below(32),
                _ => random.below(1 << 20) as u32 * 0x1000,
            };
            payload.extend(word.to_le_bytes());
        }
        payload.truncate(end);
        if function == 4 {
            payload.resize(0x40, 0);
            payload[0x32..0x34].fill(0);
        }
        // Its client would be gone.
        if function == 10 {
            payload[8..12].copy_from_slice(&[9, 0, 0, 0]);
        }
        boot.rpc(function, &payload);
    }
    assert_eq!(boot.rpc(1, &[5; 16]).payload, [5; 16]);
}

#[test]
fn compute_has_buffers() {
    let rig = Rig::with_channel("ga102", GRAPHICS);
    let class = rig.client.boot.rig.chip.twin.facts().compute.number;
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE, class, &[]), 0x40);
    fires("NV-GR-CONTEXT").only(&rig.client.broken());
    let buffers = rig.buffers();
    let wrong: [fn(&mut Buffer); 7] = [
        |buffer| buffer.id = 13,
        |buffer| buffer.at += 0x800,
        |buffer| buffer.size = 0x1000,
        |buffer| buffer.at = 1 << 40,
        |buffer| buffer.va += 0x20_0000,
        |buffer| buffer.va += 0x1000,
        |buffer| (buffer.initialise, buffer.nonmapped) = (0, 1),
    ];
    for change in wrong {
        let mut changed = buffers.clone();
        change(&mut changed[0]);
        let before = rig.client.broken().len();
        assert_eq!(rig.promote(&changed), 0x1f);
        fires("NV-GR-CONTEXT-BUFFERS").only(&rig.client.broken()[before..]);
    }
    // Everybody may access the context.
    let map = |bits: u64| {
        let Buffer { at, va, .. } = buffers[0];
        let memory = super::client::Memory::Vram(at);
        rig.tables.map(&rig.client, va, memory, 0x1000, bits);
    };
    let before = rig.client.broken().len();
    map(0);
    assert_eq!(rig.promote(&buffers), 0x1f);
    fires("NV-GR-CONTEXT-BUFFERS").only(&rig.client.broken()[before..]);
    map(super::client::PRIVILEGE);
    let before = rig.client.broken().len();
    rig.client.put(buffers[1].at + 0x40, &[1]);
    assert_eq!(rig.promote(&buffers), 0x1f);
    assert_eq!(rig.client.broken()[before..], ["NV-GR-CONTEXT-BUFFERS"]);
    rig.client.put(buffers[1].at + 0x40, &[0]);
    // Firmware has not filled one that it has to.
    let mut changed = buffers.clone();
    changed[1].initialise = 0;
    assert_eq!(rig.promote(&changed), 0);
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE, class, &[]), 0x40);
    assert_eq!(rig.client.broken()[before + 1..], ["NV-GR-CONTEXT"]);
    let before = before + 1;
    rig.client.put(buffers[0].at, &[0; 16]);
    assert_eq!(rig.promote(&buffers), 0);
    // 3D, which makes the first context, needs an address space of firmware's.
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE + 1, 0xc797, &[]), 0x40);
    fires("NV-GR-IMAGE-SPACE").only(&rig.client.broken()[before + 1..]);
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE, class, &[]), 0x40);
    fires("NV-GR-IMAGE").only(&rig.client.broken()[before + 2..]);
    let before = before + 2;
    rig.with_image();
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE, class, &[]), 0);
    // Once there is one, 3D is an object like others.
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE + 1, 0xc797, &[]), 0);
    assert_eq!(rig.client.broken().len(), before + 1);
    // Copies, of engines of the runlist.
    let copies = rig.client.boot.rig.chip.twin.facts().copy.number;
    let engine = |engine: u32| bytes(&[1, engine]);
    let copy = |handle, given: &[u8]| rig.client.alloc(CHANNEL, handle, copies, given);
    assert_eq!(copy(COMPUTE + 2, &engine(9)), 0);
    assert_eq!(rig.client.broken().len(), before + 1);
    assert_eq!(copy(COMPUTE + 3, &engine(COPY)), 0x1f);
    assert_eq!(copy(COMPUTE + 3, &[0; 4]), 0x3a);
    let broken = ["RM-ENGINE-OBJECT", "RM-ALLOC-SIZE"];
    assert_eq!(rig.client.broken()[before + 1..], broken);
    // Once more, without zeros.
    assert_eq!(rig.promote(&buffers), 0x1f);
}

#[test]
fn the_first_context_has_an_address_space_of_firmware() {
    let rig = Rig::on(Client::new("ga102"));
    assert_eq!(rig.new_space(0), 0);
    assert_eq!(rig.reserved(SPACE, 1 << 29, &rig.levels()), 0);
    assert_eq!(rig.new_channel(&rig.parameters(GRAPHICS)), 0);
    let buffers = rig.buffers();
    let three_d = || rig.client.alloc(CHANNEL, COMPUTE + 1, 0xc797, &[]);
    // One that is not filled, without its address: of such an address space all are there before.
    assert_eq!(rig.promote(&buffers[..5]), 0);
    assert_eq!(three_d(), 0x40);
    fires("NV-GR-CONTEXT").only(&rig.client.broken());
    assert_eq!(rig.promote(&buffers[5..]), 0);
    assert_eq!(three_d(), 0);
    assert_eq!(rig.client.broken().len(), 1);
    // Firmware's own addresses.
    let Buffer { at, size, .. } = buffers[2];
    let memory = super::client::Memory::Vram(at);
    rig.tables.map(&rig.client, 0x1_0000_0000, memory, size, 0);
    let mut changed = buffers[2];
    changed.va = 0x1_0000_0000;
    assert_eq!(rig.promote(&[changed]), 0x1f);
    assert_eq!(rig.client.broken()[1..], ["NV-GR-CONTEXT-BUFFERS"]);
}

/// Buffers as they are told of: memory alone, or addresses alone.
fn told(buffers: &[Buffer], [initialise, nonmapped]: [u8; 2]) -> Vec<Buffer> {
    let one = |buffer: &Buffer| Buffer {
        initialise,
        nonmapped,
        ..*buffer
    };
    buffers.iter().map(one).collect()
}

#[test]
fn contexts_are_bound_before_they_are_scheduled() {
    let rig = Rig::new("ga102");
    rig.with_image();
    assert_eq!(rig.new_channel(&rig.parameters(GRAPHICS)), 0);
    let buffers = rig.buffers();
    let mut addresses = told(&buffers, [0, 0]);
    assert_eq!(rig.promote(&told(&buffers[..2], [1, 1])), 0);
    let class = rig.client.boot.rig.chip.twin.facts().compute.number;
    assert_eq!(rig.client.alloc(CHANNEL, COMPUTE, class, &[]), 0);
    rig.client.boot.rig.is_clean();
    let schedule = || rig.client.control(CHANNEL, 0xa06f_0103, &[1, 0]).0;
    assert_eq!(schedule(), 0x40);
    fires("NV-GR-CONTEXT-BOUND").only(&rig.client.broken());
    // What was never scheduled is not by being enabled.
    assert_eq!(
        rig.client
            .control(SUBDEVICE, 0x2080_110b, &one_channel(0))
            .0,
        0
    );
    let bell = rig.token(GRAPHICS);
    assert!(rig.client.boot.rig.try_set(0xbb_0090, bell).is_err());
    assert_eq!(rig.client.broken()[1..], ["HOST-DOORBELL-SCHEDULED"]);
    // To where another buffer is.
    let right = addresses[0].va;
    addresses[0].va = addresses[4].va;
    assert_eq!(rig.promote(&addresses), 0x1f);
    assert_eq!(rig.client.broken()[2..], ["NV-GR-CONTEXT-BUFFERS"]);
    addresses[0].va = right;
    assert_eq!(rig.promote(&addresses), 0);
    assert_eq!(schedule(), 0);
    assert_eq!(rig.client.broken().len(), 3);
}

/// FIFO_DISABLE_CHANNELS of the channel: it is disabled, or enabled again.
fn one_channel(disable: u8) -> Vec<u8> {
    let mut parameters = vec![0; 0x218];
    parameters[..8].copy_from_slice(&[disable, 0, 0, 0, 1, 0, 0, 0]);
    parameters[0x18..0x1c].copy_from_slice(&CLIENT.to_le_bytes());
    parameters[0x118..0x11c].copy_from_slice(&CHANNEL.to_le_bytes());
    parameters
}

#[test]
fn contexts_are_mapped_until_the_channel_is_freed_or_stopped() {
    let unmap = |rig: &Rig, va: u64| {
        let entry = rig.tables.entry(&rig.client, va);
        rig.client.put_long(entry, 0);
    };
    let made = || {
        let rig = Rig::new("ga102");
        assert_eq!(rig.new_channel(&rig.parameters(GRAPHICS)), 0);
        let buffers = rig.buffers();
        assert_eq!(rig.promote(&told(&buffers[..2], [1, 1])), 0);
        assert_eq!(rig.promote(&told(&buffers, [0, 0])), 0);
        rig.schedule(1);
        (rig, buffers)
    };
    // The first page of the first buffer, another one, the last of the last buffer.
    for (buffer, page) in [(0, 0), (0, 0x1000), (5, 0x7000)] {
        let (rig, buffers) = made();
        unmap(&rig, buffers[buffer].va + page);
        rig.client.free(CHANNEL);
        fires("NV-GR-CONTEXT-UNMAPPED").only(&rig.client.broken());
    }
    let stop = |rig: &Rig| rig.client.control(CHANNEL, 0xa06f_0112, &[1]).0;
    let (rig, buffers) = made();
    unmap(&rig, buffers[3].va + 0x1_f000);
    assert_eq!(stop(&rig), 0);
    fires("NV-GR-CONTEXT-UNMAPPED").only(&rig.client.broken());
    // Stopped: nothing is used any more, as UVM does it, and it is bound anew before it runs again.
    let (rig, buffers) = made();
    assert_eq!(stop(&rig), 0);
    unmap(&rig, buffers[0].va);
    let schedule = rig.client.control(CHANNEL, 0xa06f_0103, &[1, 0]).0;
    assert_eq!(schedule, 0x40);
    rig.client.free(CHANNEL);
    assert_eq!(rig.client.broken(), ["NV-GR-CONTEXT-BOUND"]);
}

#[test]
fn contexts_of_groups_are_mapped_until_the_last_channel_ends() {
    let rig = Rig::new("ga102");
    assert_eq!(new_group(&rig.client.boot), 0);
    assert_eq!(method_buffers(&rig, rig.instance + 0x2000, 2), 0);
    let class = rig.client.boot.rig.chip.twin.facts().channel.number;
    let channel = |handle: u32, number: u32| {
        let memory = rig.client.take(0x1000, 0x1000);
        let params = ChannelAlloc {
            h_va_space: 0,
            flags: 1 << 21 | number << 8,
            instance_mem: desc(memory, 0x1000, 2),
            ramfc_mem: desc(memory, 0x200, 2),
            userd_mem: desc(rig.userd + 0x200 * u64::from(number), 0x200, 2),
            ..rig.parameters(GRAPHICS)
        };
        let params = params.encode(Branch::R570);
        assert_eq!(rig.client.alloc(GROUP, handle, class, &params), 0);
    };
    channel(CHANNEL, 3);
    channel(CHANNEL + 1, 4);
    let buffers = rig.buffers();
    assert_eq!(rig.promote_to(GROUP, &told(&buffers[..2], [1, 1])), 0);
    assert_eq!(rig.promote_to(GROUP, &told(&buffers, [0, 0])), 0);
    // The other one still has them; one buffer is gone when that goes, and the group says nothing more.
    let entry = rig.tables.entry(&rig.client, buffers[1].va);
    rig.client.put_long(entry, 0);
    rig.client.free(CHANNEL);
    rig.client.boot.rig.is_clean();
    rig.client.free(CHANNEL + 1);
    fires("NV-GR-CONTEXT-UNMAPPED").only(&rig.client.broken());
    rig.client.free(GROUP);
    assert_eq!(rig.client.broken().len(), 1);
}

#[test]
fn debuggers_tell_of_multiprocessors() {
    let rig = Rig::with_channel("ga102", GRAPHICS);
    rig.with_compute();
    let debugger = |compute| {
        let parameters = DebuggerAlloc {
            h_app_client: CLIENT,
            h_class3d_object: compute,
            ..Default::default()
        };
        let parameters = parameters.encode(Branch::R570);
        rig.client.alloc(DEVICE, DEBUGGER, 0x83de, &parameters)
    };
    let states = |first, count| {
        let parameters = DebugSmErrorStates {
            h_target_channel: CHANNEL,
            starting_sm: first,
            num_s_ms_to_read: count,
            ..Default::default()
        };
        let parameters = parameters.encode(Branch::R570);
        rig.client.control(DEBUGGER, 0x83de_030c, &parameters).0
    };
    assert_eq!(debugger(COMPUTE), 0);
    assert_eq!(states(0, 82), 0);
    rig.client.boot.rig.is_clean();
    assert_eq!(states(0, 101), 0x1f);
    assert_eq!(states(80, 10), 0x1f);
    assert_eq!(rig.client.broken(), ["RM-SM-STATES"; 2]);
    // It goes with what it watches.
    rig.client.free(COMPUTE);
    assert_eq!(states(0, 1), 0x57);
    assert_eq!(debugger(COMPUTE), 0x57);
}

#[test]
fn a_channel_wakes_who_waits() {
    let engine = COPY;
    let rig = Rig::with_channel("ga102", engine);
    let card = &rig.client.boot.rig;
    // Its notification: vector 3.
    rig.go(engine, &super::client::inc(0, 0x20, &[0]));
    rig.client
        .until("its notification", || card.get(0xb8_1000) == 1 << 3);
    card.is_clean();
}
