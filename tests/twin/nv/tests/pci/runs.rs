//! Doorbells, push buffers, copies and kernels by the page tables of a client; stale translations; channels that die.

use std::path::Path;

use drivers_spec::nv::qmd::{self, Version};
use twin::fires::fires;
use twin_nv::pci::card::{Config, Trouble};
use twin_nv::pci::chip::Chip;
use twin_nv::pci::wait::Wait;

use super::boot::words;
use super::client::{
    CHANNEL, CLIENT, COPY, Client, DATA, DATA_BYTES, GRAPHICS, Memory, PRIVILEGE, READ_ONLY, RING,
    Rig, SUBDEVICE, copy, inc, semaphore, small,
};
use super::rig::bytes_of;

/// A release of a word, behind the work before it, and an acquire of it.
const RELEASE: u32 = 1 | 1 << 20;
const ACQUIRE: u32 = 0;

fn class(rig: &Rig) -> u32 {
    rig.client.boot.rig.chip.twin.facts().copy.number
}

#[test]
fn copies_go_by_the_page_tables_of_a_client() {
    for chip in ["ga102", "ad102"] {
        for engine in [COPY, GRAPHICS] {
            let rig = Rig::with_channel(chip, engine);
            // To memory of the host, and back to the card's.
            let host = rig.client.boot.rig.memory(&[0; 0x2000]);
            let memory = Memory::Host(bytes_of(&host));
            rig.tables.map(&rig.client, 0x900_0000, memory, 0x2000, 0);
            rig.client.put(rig.data + 0xff0, &[1, 2, 3, 4, 5, 6, 7, 8]);
            let mut push = copy(class(&rig), DATA + 0xff0, 0x900_0ff4, 32);
            push.extend(copy(class(&rig), 0x900_0ff4, DATA + 0x8000, 32));
            push.extend(semaphore(DATA + 0x9000, 7, RELEASE));
            rig.go(engine, &push);
            let done = || rig.client.get(rig.data + 0x9000) == 7;
            rig.client.until("the semaphore", done);
            let mut seen = [0; 8];
            host.view.copy_to_slice(0xff4, &mut seen).unwrap();
            assert_eq!(seen, [1, 0, 0, 0, 2, 0, 0, 0]);
            for i in 0..8 {
                assert_eq!(rig.client.get(rig.data + 0x8000 + 4 * i), i as u32 + 1);
            }
            // The host has taken the entry.
            assert_eq!(rig.client.get(rig.userd + 0x88), 1);
            rig.client.boot.rig.is_clean();
        }
    }
}

#[test]
fn a_channel_waits_for_the_host() {
    let rig = Rig::with_channel("ga102", COPY);
    let host = rig.client.boot.rig.memory(&[0; 0x1000]);
    let memory = Memory::Host(bytes_of(&host));
    rig.tables.map(&rig.client, 0x900_0000, memory, 0x1000, 0);
    let mut push = semaphore(0x900_0000, 5, ACQUIRE);
    push.extend(semaphore(0x900_0010, 6, RELEASE));
    rig.go(COPY, &push);
    assert_eq!(host.view.read::<u32>(0x10).unwrap(), 0);
    host.view.write(0, 5_u32).unwrap();
    let done = || host.view.read::<u32>(0x10).unwrap() == 6;
    rig.client.until("the semaphore", done);
    rig.client.boot.rig.is_clean();
    // Freed while it waits.
    rig.go(COPY, &semaphore(0x900_0000, 9, ACQUIRE));
    rig.client.free(CHANNEL);
    assert_eq!(rig.client.broken(), ["HOST-DEADLOCK"]);
    // Freed with an entry that nobody has rung for; unless it was disabled.
    let rig = Rig::with_channel("ga102", COPY);
    rig.push(&semaphore(DATA, 1, RELEASE));
    rig.client.free(CHANNEL);
    assert_eq!(rig.client.broken(), ["HOST-DOORBELL-MISSING"]);
    let rig = Rig::with_channel("ga102", COPY);
    rig.push(&semaphore(DATA, 1, RELEASE));
    let mut disable = vec![0; 0x218];
    disable[..8].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
    disable[0x18..0x1c].copy_from_slice(&CLIENT.to_le_bytes());
    disable[0x118..0x11c].copy_from_slice(&CHANNEL.to_le_bytes());
    assert_eq!(rig.client.control(SUBDEVICE, 0x2080_110b, &disable).0, 0);
    assert!(
        rig.client
            .boot
            .rig
            .try_set(0xbb_0090, rig.token(COPY))
            .is_err()
    );
    rig.client.free(CHANNEL);
    assert_eq!(rig.client.broken(), ["HOST-DOORBELL-SCHEDULED"]);
}

#[test]
fn doorbells_have_tokens() {
    let rig = Rig::with_channel("ga102", COPY);
    let ring = |token| rig.client.boot.rig.try_set(0xbb_0090, token);
    assert!(ring(3).is_err());
    assert_eq!(rig.client.broken(), ["HOST-DOORBELL-TOKEN"]);
    rig.schedule(0);
    assert!(ring(rig.token(COPY)).is_err());
    assert_eq!(rig.client.broken()[1..], ["HOST-DOORBELL-SCHEDULED"]);
    rig.schedule(1);
    rig.client.put(rig.userd + 0x8c, &[32]);
    assert!(ring(rig.token(COPY)).is_err());
    assert_eq!(rig.client.broken()[2..], ["HOST-GP-PUT"]);
}

#[test]
fn translations_are_invalidated() {
    // An entry that was used is changed.
    let rig = Rig::with_channel("ga102", COPY);
    rig.go(COPY, &semaphore(DATA, 1, RELEASE));
    assert_eq!(rig.client.get(rig.data), 1);
    let other = rig.client.take(0x1000, 0x1000);
    let entry = rig.tables.entry(&rig.client, DATA);
    rig.client.put_long(entry, small(Memory::Vram(other), 0));
    rig.go(COPY, &semaphore(DATA, 2, RELEASE));
    // It went by the old one.
    assert_eq!([rig.client.get(rig.data), rig.client.get(other)], [2, 0]);
    fires("NV-MMU-INVALIDATE").only(&rig.client.broken());
    // The same, invalidated: all, and the one.
    for (pdb, value) in [
        (false, 0x8000_0003),
        (true, 0x8000_0001),
        (true, 0x8100_0001),
    ] {
        let rig = Rig::with_channel("ad102", COPY);
        rig.go(COPY, &semaphore(DATA, 1, RELEASE));
        let other = rig.client.take(0x1000, 0x1000);
        let entry = rig.tables.entry(&rig.client, DATA);
        rig.client.put_long(entry, small(Memory::Vram(other), 0));
        let card = &rig.client.boot.rig;
        if pdb {
            card.set(0xb8_30a0, (rig.tables.root >> 8) as u32);
            card.set(0xb8_30a4, 0);
        }
        card.set(0xb8_30b0, value);
        card.until("TRIGGER", || card.get(0xb8_30b0) >> 31 == 0);
        rig.go(COPY, &semaphore(DATA, 2, RELEASE));
        assert_eq!([rig.client.get(rig.data), rig.client.get(other)], [1, 2]);
        rig.client.boot.rig.is_clean();
    }
    // A directory, when pages alone are invalidated; and only what is behind the hub.
    for value in [0x8100_0003, 0x8000_0007] {
        let rig = Rig::with_channel("ga102", COPY);
        rig.go(COPY, &semaphore(DATA, 1, RELEASE));
        let entry = rig.tables.directory(&rig.client, DATA);
        rig.client.put_long(entry + 8, 0);
        rig.client
            .put_long(entry, small(Memory::Vram(0x40_0000), 0));
        let card = &rig.client.boot.rig;
        card.set(0xb8_30b0, value);
        card.until("TRIGGER", || card.get(0xb8_30b0) >> 31 == 0);
        rig.push(&semaphore(DATA, 2, RELEASE));
        rig.ring(rig.token(COPY));
        rig.client.settle();
        assert_eq!(rig.client.broken()[0], "NV-MMU-INVALIDATE");
    }
}

#[test]
fn invalidates_are_commands_that_take_their_time() {
    let rig = Rig::with_channel("ga102", COPY);
    let card = &rig.client.boot.rig;
    for value in [0x8000_0002, 0x0000_0003, 0x8000_000b, 0x8000_0001] {
        let before = rig.client.broken().len();
        assert!(card.try_set(0xb8_30b0, value).is_err());
        fires("NV-MMU-INVALIDATE-COMMAND").only(&rig.client.broken()[before..]);
    }
    let before = rig.client.broken().len();
    card.set(0xb8_30b0, 0x8000_0003);
    assert!(card.try_set(0xb8_30a0, 0).is_err());
    fires("NV-MMU-INVALIDATE-PENDING").only(&rig.client.broken()[before..]);
    assert!(card.try_set(0xbb_0090, rig.token(COPY)).is_err());
    assert_eq!(rig.client.broken().len(), before + 2);
    card.until("TRIGGER", || card.get(0xb8_30b0) >> 31 == 0);
    rig.go(COPY, &semaphore(DATA, 1, RELEASE));
    assert_eq!(rig.client.broken().len(), before + 2);
    // It may never end.
    let config = Config {
        never: Some(Wait::Tlb),
        ..Config::of(Chip::of("ga102").unwrap())
    };
    let client = Client::with(config);
    let card = &client.boot.rig;
    card.set(0xb8_30b0, 0x8000_0003);
    assert!((0..50).all(|_| card.get(0xb8_30b0) >> 31 == 1));
}

#[test]
fn entries_are_whole() {
    let with = |bits: u64| {
        let rig = Rig::with_channel("ga102", COPY);
        let entry = rig.tables.entry(&rig.client, DATA);
        let place = small(Memory::Vram(rig.data), 0);
        rig.client.put_long(entry, place | bits);
        rig.go(COPY, &semaphore(DATA, 1, RELEASE));
        rig.client.broken()
    };
    fires("NV-MMU-ENTRY").only(&with(1 << 4));
    fires("NV-MMU-KIND-NOT-MODELLED").only(&with(8 << 56));
    // Beyond the end of memory.
    fires("NV-MMU-ENTRY").first(&with(1 << 32));
    // A kind that is none.
    assert_eq!(with(7 << 56), ["MMU-FAULT"]);
    // A large page that is not aligned.
    let rig = Rig::with_channel("ga102", COPY);
    let entry = rig.tables.directory(&rig.client, 0x1_0000_0000);
    let place = rig.client.take(0x40_0000, 0x20_0000) + 0x1000;
    rig.client.put_long(entry, small(Memory::Vram(place), 0));
    rig.go(COPY, &semaphore(0x1_0000_0000, 1, RELEASE));
    fires("NV-MMU-ENTRY").only(&rig.client.broken());
}

#[test]
fn pages_have_sizes() {
    let rig = Rig::with_channel("ad102", COPY);
    let client = &rig.client;
    // 2 MiB, 64 KiB beside 4 KiB, and a sparse place.
    let huge = client.take(0x20_0000, 0x20_0000);
    let entry = rig.tables.directory(client, 0x1_0000_0000);
    client.put_long(entry, small(Memory::Vram(huge), 0));
    let big = client.take(0x1_0000, 0x1_0000);
    let table = client.take(0x100, 0x100);
    let entry = rig.tables.directory(client, 0x1_0020_0000);
    client.put_long(entry, table >> 8 << 4 | 1 << 1);
    client.put_long(table + 8, small(Memory::Vram(big), 0));
    let page = Memory::Vram(client.take(0x1000, 0x1000));
    rig.tables.map(client, 0x1_0020_0000, page, 0x1000, 0);
    let sparse = rig.tables.entry(client, 0x1_0020_1000);
    client.put_long(sparse, 1 << 3);
    let mut push = semaphore(0x1_001f_fff0, 1, RELEASE);
    push.extend(semaphore(0x1_0021_8000, 2, RELEASE));
    push.extend(semaphore(0x1_0020_0010, 3, RELEASE));
    push.extend(semaphore(0x1_0020_1000, 4, RELEASE));
    push.extend(copy(class(&rig), 0x1_0020_1000, DATA, 4));
    client.put(rig.data, &[7]);
    rig.go(COPY, &push);
    client.boot.rig.is_clean();
    let Memory::Vram(page) = page else { return };
    let found = [huge + 0x1f_fff0, big + 0x8000, page + 0x10, rig.data];
    assert_eq!(found.map(|at| client.get(at)), [1, 2, 3, 0]);
}

#[test]
fn pages_of_nobody_are_not_reached() {
    // The host's memory that is not mapped for the card.
    let rig = Rig::with_channel("ga102", COPY);
    rig.tables
        .map(&rig.client, 0x900_0000, Memory::Host(0x7000), 0x1000, 0);
    rig.go(COPY, &semaphore(0x900_0000, 1, RELEASE));
    let broken = rig.client.broken();
    assert_eq!(broken[0], "PCI-DMA-GIVEN");
    assert_eq!(broken.last(), Some(&"MMU-FAULT"));
    // What is protected.
    let rig = Rig::with_channel("ga102", COPY);
    let place = Memory::Vram(rig.client.boot.fb() - (2 << 20));
    rig.tables.map(&rig.client, 0x900_0000, place, 0x1000, 0);
    rig.push(&semaphore(0x900_0000, 1, RELEASE));
    rig.ring(rig.token(COPY));
    let (_, triggered) = died(&rig);
    assert_eq!(triggered[9], 0xd);
    assert_eq!(rig.client.broken(), ["NV-MMU-ENTRY", "MMU-FAULT"]);
}

#[test]
fn windows_go_by_page_tables() {
    let client = Client::new("ga102");
    let info = client.boot.rpc(65, &[0; 0x678]).payload;
    let long = |at: usize| u64::from_le_bytes(info[at..at + 8].try_into().unwrap());
    // BAR 1: the host writes firmware's page directory itself.
    let tables = super::client::Tables::at(long(0x600));
    let memory = client.take(0x2000, 0x1000);
    tables.map(&client, 0x10_0000, Memory::Vram(memory), 0x1000, 0);
    tables.map(&client, 0x10_1000, Memory::Vram(memory), 0x1000, READ_ONLY);
    let window = client.boot.rig.window(1);
    window.write(0x10_0010, 0x1234_u32).unwrap();
    assert_eq!(client.get(memory + 0x10), 0x1234);
    assert_eq!(window.read::<u32>(0x10_1010).unwrap(), 0x1234);
    client.boot.rig.is_clean();
    assert!(window.write(0x10_1010, 1_u32).is_err());
    fires("NV-PCI-BAR-FAULT").only(&client.broken());
    assert!(window.read::<u32>(0).is_err());
    // BAR 2: firmware writes the entry of the root.
    let tables = super::client::Tables::new(&client);
    tables.map(&client, 0x3000, Memory::Vram(memory), 0x1000, 0);
    let entry = client.get(tables.root);
    let update = |words: &[u32]| client.boot.rpc(70, &super::boot::bytes(words)).result;
    assert_eq!(update(&[1, 0, entry, 0, 47, 0]), 0);
    let instances = client.boot.rig.window(3);
    assert_eq!(instances.read::<u32>(0x3010).unwrap(), 0x1234);
    let before = client.broken().len();
    for wrong in [
        [2, 0, entry, 0, 47, 0],
        [1, 0, entry, 0, 38, 0],
        [1, 0, 1, 0, 47, 0],
    ] {
        assert_eq!(update(&wrong), 0x1f);
    }
    fires("NV-RPC-BAR-PDE").first(&client.broken()[before..]);
    assert_eq!(client.broken().len(), before + 3);
    // By their addresses.
    client.boot.rig.set(0xb8_0f40, 0);
    assert_eq!(window.read::<u32>(memory + 0x10).unwrap(), 0x1234);
    assert_eq!(client.broken().len(), before + 3);
}

/// What the host is told of a channel that dies: the texts of both messages.
fn died(rig: &Rig) -> (Vec<u32>, Vec<u32>) {
    let log = rig.client.boot.record();
    let triggered = rig.client.boot.record();
    assert_eq!((log.function, triggered.function), (0x1006, 0x1004));
    (words(&log.payload[..12]), words(&triggered.payload[..0x28]))
}

#[test]
fn faults_are_told() {
    // Unmapped; read-only; privileged; by what the MMU calls them.
    for (va, bits, kind) in [
        (0x7000_0000, None, 0),
        (DATA + DATA_BYTES, None, 2),
        (0x900_0000, Some(READ_ONLY), 6),
        (0x900_0000, Some(PRIVILEGE), 5),
    ] {
        let rig = Rig::with_channel("ga102", COPY);
        if let Some(bits) = bits {
            let memory = Memory::Vram(rig.data);
            rig.tables.map(&rig.client, va, memory, 0x1000, bits);
        }
        rig.push(&semaphore(va, 1, RELEASE));
        rig.ring(rig.token(COPY));
        let (log, triggered) = died(&rig);
        assert_eq!(log, [31, 1, 3]);
        assert_eq!([triggered[0], triggered[1], triggered[4]], [COPY, 3, 31]);
        assert_eq!(triggered[7..10], [va as u32, 0, kind]);
        assert_eq!(rig.client.broken(), ["MMU-FAULT"]);
        // It does nothing any more, and a doorbell is no mistake yet.
        rig.go(COPY, &semaphore(DATA, 1, RELEASE));
        assert_eq!(rig.client.get(rig.data), 0);
        rig.client.free(CHANNEL);
        assert_eq!(rig.client.broken(), ["MMU-FAULT"]);
    }
}

#[test]
fn channels_hang_and_die_where_the_config_says_so() {
    for trouble in [Trouble::Hangs, Trouble::Dies] {
        let config = Config {
            channel: Some((trouble, 2)),
            ..Config::of(Chip::of("ga102").unwrap())
        };
        let rig = Rig::on(Client::with(config));
        assert_eq!(rig.new_space(8), 0);
        assert_eq!(rig.set_directory(rig.tables.root, 4, 0).result, 0);
        assert_eq!(rig.new_channel(&rig.parameters(COPY)), 0);
        rig.schedule(1);
        rig.go(COPY, &semaphore(DATA, 1, RELEASE));
        rig.go(COPY, &semaphore(DATA, 2, RELEASE));
        assert_eq!(rig.client.get(rig.data), 1);
        if trouble == Trouble::Dies {
            let (log, triggered) = died(&rig);
            assert_eq!((log[0], triggered[7], triggered[9]), (31, 0x1000, 2));
        }
        rig.client.boot.rig.is_clean();
    }
}

#[test]
fn error_notifiers_are_written() {
    let rig = Rig::new("ad102");
    let host = rig.client.boot.rig.memory(&[0; 0x1000]);
    let params = drivers_spec::nv::class::ChannelAlloc {
        internal_flags: 1 | 3 << 2 | 1 << 4,
        error_notifier_mem: super::client::desc(bytes_of(&host), 0x1000, 1),
        ..rig.parameters(GRAPHICS)
    };
    assert_eq!(rig.new_channel(&params), 0);
    rig.schedule(1);
    rig.push(&semaphore(0x7000_0000, 1, RELEASE));
    rig.ring(rig.token(GRAPHICS));
    died(&rig);
    assert_eq!(host.view.read::<u32>(8).unwrap(), 31);
    assert_eq!(host.view.read::<u32>(12).unwrap(), 0xffff_0001);
}

#[test]
fn instance_blocks_are_left_alone() {
    let rig = Rig::with_channel("ga102", COPY);
    rig.client.put(rig.instance + 0x200, &[0]);
    rig.go(COPY, &semaphore(DATA, 1, RELEASE));
    fires("NV-CHANNEL-INSTANCE").only(&rig.client.broken());
    // A ring that is not mapped.
    let rig = Rig::with_channel("ga102", COPY);
    let entry = rig.tables.entry(&rig.client, RING);
    rig.client.put_long(entry, 0);
    rig.go(COPY, &semaphore(DATA, 1, RELEASE));
    assert_eq!(rig.client.broken(), ["MMU-FAULT"]);
}

/// Where a kernel lies, in the data of a rig.
const CODE: u64 = DATA + 0x1_0000;
const QMD: u64 = DATA + 0x2_0000;
const BANK: u64 = DATA + 0x3_0000;
const A: u64 = DATA + 0x4_0000;
const B: u64 = DATA + 0x5_0000;
const OUT: u64 = DATA + 0x6_0000;
const DONE: u64 = DATA + 0x7_0000;
const SHARED_WINDOW: u64 = 0x7294_0000_0000;
const LOCAL_WINDOW: u64 = 0x7293_0000_0000;
const COUNT: u64 = 256;

/// The QMD of a sum of vectors.
fn grid(version: Version, number: u64) -> Vec<u32> {
    let mut words = vec![0; version.dwords()];
    let (major, minor) = version.number();
    let mut set = |field: qmd::Field, value: u64| {
        field.put(version, 0, &mut words, value).unwrap();
    };
    for (field, value) in [
        (qmd::QMD_MAJOR_VERSION, major),
        (qmd::QMD_MINOR_VERSION, minor),
        (qmd::API_VISIBLE_CALL_LIMIT, 1),
        (qmd::CWD_MEMBAR_TYPE, 1),
        (qmd::SASS_VERSION, number),
        (qmd::REGISTER_COUNT, 48),
        (qmd::GRID_WIDTH, COUNT / 128),
        (qmd::GRID_HEIGHT, 1),
        (qmd::GRID_DEPTH, 1),
        (qmd::CTA_THREAD_DIMENSION0, 128),
        (qmd::CTA_THREAD_DIMENSION1, 1),
        (qmd::CTA_THREAD_DIMENSION2, 1),
        (qmd::CONSTANT_BUFFER_VALID, 1),
        (qmd::CONSTANT_BUFFER_INVALIDATE, 1),
        (qmd::CONSTANT_BUFFER_SIZE, 0x400),
        (qmd::RELEASE_ENABLE, 1),
        (qmd::RELEASE_MEMBAR_TYPE, 1),
        (qmd::RELEASE_PAYLOAD64B, 1),
    ] {
        set(field, value);
    }
    if qmd::QMD_TYPE.place(version).is_some() {
        set(qmd::QMD_TYPE, 2);
    }
    for (field, value) in [
        (qmd::PROGRAM_ADDRESS, CODE),
        (qmd::CONSTANT_BUFFER_ADDR, BANK),
        (qmd::RELEASE_ADDR, DONE),
        (qmd::RELEASE_PAYLOAD, 9),
    ] {
        field.put(version, 0, &mut words, value).unwrap();
    }
    words
}

#[test]
fn a_kernel_runs_by_a_doorbell() {
    for (chip, sass, number) in [("ga102", "sm_86", 0x86), ("ad102", "sm_89", 0x89)] {
        let rig = Rig::with_channel(chip, GRAPHICS);
        rig.with_compute();
        let place = |va: u64| rig.data + (va - DATA);
        let facts = rig.client.boot.rig.chip.twin.facts();
        let name = format!("../../golden/sass/whole/{sass}/vector_add.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let text = std::fs::read_to_string(path).unwrap();
        for (i, line) in (0..).zip(text.lines()) {
            let word = u128::from_str_radix(&line[..32], 16).unwrap();
            let words = [0, 32, 64, 96].map(|shift| (word >> shift) as u32);
            rig.client.put(place(CODE) + 16 * i, &words);
        }
        let floats = |f: fn(u64) -> f32| (0..COUNT).map(|i| f(i).to_bits()).collect::<Vec<_>>();
        rig.client.put(place(A), &floats(|i| i as f32));
        rig.client.put(place(B), &floats(|i| 0.5 * i as f32));
        rig.client
            .put(place(BANK), &[128, 1, 1, COUNT as u32 / 128, 1, 1]);
        rig.client.put_long(place(BANK) + 0x20, LOCAL_WINDOW);
        rig.client.put(place(BANK) + 0x28, &[0xff_fdc0]);
        for (i, param) in (0..).zip([A, B, OUT, COUNT]) {
            let at = place(BANK) + u64::from(facts.parameters) + 8 * i;
            rig.client.put_long(at, param);
        }
        let version = *facts.qmds.last().unwrap();
        rig.client.put(place(QMD), &grid(version, number));
        let halves = |va: u64| [(va >> 32) as u32, va as u32];
        let mut push = inc(1, 0, &[facts.compute.number]);
        push.extend(inc(1, 0x2a0, &halves(SHARED_WINDOW)));
        push.extend(inc(1, 0x7b0, &halves(LOCAL_WINDOW)));
        push.extend(inc(1, 0x2b4, &[(QMD >> 8) as u32]));
        push.extend(inc(1, 0x2c0, &[9]));
        rig.go(GRAPHICS, &push);
        rig.client.boot.rig.is_clean();
        assert_eq!(rig.client.get(place(DONE)), 9, "{chip}");
        for i in 0..COUNT {
            let found = f32::from_bits(rig.client.get(place(OUT) + 4 * i));
            assert_eq!(found.to_bits(), (1.5 * i as f32).to_bits());
        }
    }
}
