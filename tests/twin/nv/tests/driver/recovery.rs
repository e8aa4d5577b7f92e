//! Channels that die: what RM tells of it, who dies with them, and how a client goes on.

use drivers_spec::nv::{class, control, status};
use twin::fires::fires;

use super::bench::RING;
use super::doorbells::{Client, DATA};

const RELEASE: u32 = 1;
/// Nothing is mapped there.
const NOWHERE: u64 = 0x66_0000_1000;

/// The error notifier, which lies where the ring begins: Xid and status.
fn notifier(client: &Client) -> (u32, u64) {
    (client.long(RING + 8) as u32, client.long(RING + 8) >> 48)
}

/// Waits until the notifier says something.
fn dies(client: &Client, xid: u32) {
    let long = (0..10_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        Some(client.long(RING + 8)).filter(|long| long >> 48 != 0)
    });
    assert!(long.is_some(), "{:?}", client.bench.broken());
    let engine = u64::from(class::engine::GRAPHICS);
    assert_eq!(notifier(client), (xid, 0xffff));
    assert_eq!(client.long(RING + 8) >> 32 & 0xffff, engine);
}

fn fault(client: &Client) -> control::MmuFaultInfo {
    let mut info = control::MmuFaultInfo::default();
    let channel = client.bench.channel;
    let call = control::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO;
    assert_eq!(client.bench.control(channel, call, &mut info), 0);
    info
}

fn debugger(client: &Client) -> u32 {
    let mut params = class::DebuggerAlloc {
        h_app_client: client.bench.client,
        h_class3d_object: client.bench.compute,
        ..Default::default()
    };
    let bench = &client.bench;
    bench.must(bench.device, class::GT200_DEBUGGER, Some(&mut params))
}

#[test]
fn a_fault_is_told_and_takes_the_group_along() {
    let mut client = Client::new("");
    client.another();
    client.schedule();
    client.semaphore(1, DATA, 3, RELEASE);
    client.go(1);
    assert!(client.comes(DATA, 3));
    client.semaphore(0, NOWHERE, 1, RELEASE);
    client.go(0);
    dies(&client, 31);
    fires("MMU-FAULT").only(&client.bench.broken());
    let faults = {
        let mut info = control::DebugMmuFaultInfo::default();
        let call = control::NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO;
        assert_eq!(client.bench.control(debugger(&client), call, &mut info), 0);
        (info.count, info.mmu_fault_info_list[0])
    };
    assert_eq!((faults.0, faults.1.fault_address), (1, NOWHERE));
    assert_eq!((faults.1.fault_type, faults.1.access_type), (2, 1));
    let info = fault(&client);
    let va = u64::from(info.addr_hi) << 32 | u64::from(info.addr_lo);
    assert_eq!((va, info.fault_type), (NOWHERE, 2));
    assert!(info.fault_string.starts_with(b"FAULT_PTE\0"));
    // It was told.
    assert_eq!(fault(&client).addr_lo, 0);
    // Neither channel does anything any more, and no rule says so.
    for channel in [0, 1] {
        client.semaphore(channel, DATA, 9, RELEASE);
        client.go(channel);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(client.long(DATA), 3);
    assert_eq!(client.bench.broken().len(), 1);
    // Another group does: in a process that begins again.
    let mut client = Client::new("");
    client.schedule();
    client.semaphore(0, DATA, 4, RELEASE);
    client.go(0);
    assert!(client.comes(DATA, 4));
}

#[test]
fn a_client_resets_its_channel() {
    let mut client = Client::new("chip=h100");
    client.schedule();
    let reset = |reason| {
        let mut params = control::ResetChannel {
            reset_reason: reason,
            ..Default::default()
        };
        let call = control::NV906F_CTRL_CMD_RESET_CHANNEL;
        client
            .bench
            .control(client.bench.channel, call, &mut params)
    };
    assert_eq!(reset(3), status::NV_ERR_INVALID_PARAMETER);
    fires("RM-RESET-CHANNEL").only(&client.bench.broken());
    assert_eq!(reset(0), status::NV_OK);
    dies(&client, 43);
    client.semaphore(0, DATA, 4, RELEASE);
    client.go(0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(client.long(DATA), 0);
}

#[test]
fn faults_come_when_the_config_says_so() {
    for (text, xid) in [("mmu:va=0x7000", 31), ("exception", 13), ("gone", 79)] {
        let mut client = Client::new(&format!("fault={text}"));
        let debugger = debugger(&client);
        client.schedule();
        client.semaphore(0, DATA, 4, RELEASE);
        client.go(0);
        dies(&client, xid);
        assert_eq!(client.long(DATA), 0, "{text}");
        let mut states = Box::new(control::DebugSmErrorStates {
            num_s_ms_to_read: 100,
            ..Default::default()
        });
        let call = control::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES;
        let told = client.bench.control(debugger, call, &mut *states);
        match xid {
            // Nothing answers any more.
            79 => assert_eq!(told, status::NV_ERR_GPU_IS_LOST),
            31 => assert_eq!((told, states.mmu_fault.valid), (0, 1)),
            _ => assert_eq!((told, states.mmu_fault.valid), (0, 0)),
        }
        if xid == 31 {
            assert_eq!(fault(&client).addr_lo, 0x7000);
        }
        assert!(client.bench.broken().is_empty(), "{text}");
    }
}

#[test]
fn a_channel_hangs_when_the_config_says_so() {
    let mut client = Client::new("fault=hang:channel=1");
    client.another();
    client.schedule();
    client.semaphore(1, DATA, 4, RELEASE);
    client.go(1);
    client.semaphore(0, DATA + 16, 5, RELEASE);
    client.go(0);
    assert!(client.comes(DATA + 16, 5));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(client.long(DATA), 0);
    assert_eq!(client.long(RING + 8) >> 48, 0);
    client.bench.process.exit();
    assert!(client.bench.broken().is_empty());
}

#[test]
fn states_are_those_of_multiprocessors() {
    let client = Client::new("chip=ga102");
    let debugger = debugger(&client);
    let read = |first, count| {
        let mut states = Box::new(control::DebugSmErrorStates {
            num_s_ms_to_read: count,
            starting_sm: first,
            ..Default::default()
        });
        let call = control::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES;
        client.bench.control(debugger, call, &mut *states)
    };
    assert_eq!(read(0, 82), status::NV_OK);
    assert_eq!(read(1, 82), status::NV_ERR_INVALID_ARGUMENT);
    fires("RM-SM-STATES").only(&client.bench.broken());
}
