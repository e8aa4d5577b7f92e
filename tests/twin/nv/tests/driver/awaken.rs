//! Events that happen: who waits for one is told, by `poll` and by what it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use drivers_spec::nv::class::notify;
use drivers_spec::nv::{class, control, copy, escape, host, status};
use twin::fires::fires;

use super::bench::Bench;
use super::doorbells::{Client, DATA};

const RELEASE: u32 = 1;

/// Makes a descriptor an event, and an event of an object with it: the status, and the handle.
fn event(bench: &Bench, fd: i32, source: u32, notify_index: u32) -> (u32, u32) {
    let mut args = escape::AllocOsEvent {
        h_client: bench.client,
        fd: fd as u32,
        ..Default::default()
    };
    bench
        .escape(fd, &escape::ALLOC_OS_EVENT, &mut args)
        .unwrap();
    assert_eq!(args.status, status::NV_OK);
    let mut params = class::EventAlloc {
        notify_index,
        data: fd as u64,
        ..Default::default()
    };
    let class = class::NV01_EVENT_OS_EVENT.number;
    bench.alloc(source, class, 0, Some(&mut params))
}

/// What GET_EVENT_DATA takes: handle, index and Xid, and whether there are more.
fn take(bench: &Bench, fd: i32) -> Result<((u32, u32, u32), bool), u32> {
    let mut args = escape::GetEventData {
        p_event: super::bench::LIST,
        ..Default::default()
    };
    bench
        .escape(fd, &escape::RM_GET_EVENT_DATA, &mut args)
        .unwrap();
    let event: escape::UnixEvent = bench.take(super::bench::LIST);
    match args.status {
        status::NV_OK => Ok((
            (event.h_object, event.notify_index, event.info32),
            args.more_events != 0,
        )),
        status => Err(status),
    }
}

/// A client with a file for each index, that waits for its interrupts: without data.
fn waiting(config: &str, indices: &[u32]) -> (Client, Vec<i32>) {
    let client = Client::new(config);
    let bench = &client.bench;
    let open = |&index: &u32| {
        let fd = bench.process.open("/dev/nvidia0").unwrap();
        let index = index | notify::NONSTALL_INTR | notify::WITHOUT_EVENT_DATA;
        assert_eq!(event(bench, fd, bench.subdevice, index).0, status::NV_OK);
        fd
    };
    let files = indices.iter().map(open).collect();
    client.schedule();
    (client, files)
}

/// Has the first channel do this, and waits until it is done.
fn runs(client: &mut Client, words: &[u32]) {
    let payload = client.long(DATA) + 1;
    if !words.is_empty() {
        client.push(0, words);
    }
    client.semaphore(0, DATA, payload, RELEASE);
    client.go(0);
    assert!(client.comes(DATA, payload));
}

fn ready(client: &Client, files: &[i32]) -> Vec<bool> {
    let ready = |&fd: &i32| client.bench.process.ready(fd).unwrap();
    files.iter().map(ready).collect()
}

/// What has become ready once as many of them have as shall: an engine may be later than the semaphore that
/// was released behind it.
fn become_ready(client: &Client, files: &[i32], shall: usize) -> Vec<bool> {
    let mut seen = vec![false; files.len()];
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        for (seen, now) in seen.iter_mut().zip(ready(client, files)) {
            *seen |= now;
        }
        let count = seen.iter().filter(|&&seen| seen).count();
        if count >= shall || Instant::now() > deadline {
            return seen;
        }
        thread::yield_now();
    }
}

const INDICES: [u32; 3] = [notify::GRAPHICS, notify::FIFO_EVENT_MTHD, notify::CE0];

#[test]
fn interrupts_wake_up_who_waits_for_the_engine_or_the_host() {
    let (mut client, files) = waiting("chip=h100", &INDICES);
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let counts = move |ready: bool| _ = count.fetch_add(ready.into(), Ordering::Relaxed);
    let process = client.bench.process.clone();
    process.watch(files[0], Box::new(counts)).unwrap();
    runs(&mut client, &[]);
    assert_eq!(ready(&client, &files), [false; 3]);
    // By the host, in a channel of graphics.
    let interrupt = 1 << 29 | 1 << 16 | host::NON_STALL_INTERRUPT.dword();
    runs(&mut client, &[interrupt, 0]);
    assert_eq!(ready(&client, &files), [true, true, false]);
    assert_eq!(called.load(Ordering::Relaxed), 1);
    // It was seen; nothing is left to take.
    assert_eq!(ready(&client, &files), [false; 3]);
    assert_eq!(
        take(&client.bench, files[0]),
        Err(status::NV_ERR_OPERATING_SYSTEM)
    );
    // By the copy engine of that channel: SET_OBJECT, and LAUNCH_DMA with nothing but an interrupt.
    let object = 1 << 29 | 1 << 16 | 4 << 13;
    let launch = object | copy::LAUNCH_DMA.dword();
    let class = client.bench.machine.config.chips[0].facts().copy.number;
    let blocking = copy::launch_dma::INTERRUPT_TYPE.put(copy::launch_dma::INTERRUPT_TYPE_BLOCKING);
    runs(&mut client, &[object, class, launch, blocking]);
    assert_eq!(become_ready(&client, &files, 2), [false, true, true]);
    assert!(
        client.bench.broken().is_empty(),
        "{:?}",
        client.bench.broken()
    );
}

#[test]
fn a_descriptor_that_is_no_event_any_more_wakes_up_nobody() {
    let (mut client, files) = waiting("", &[notify::FIFO_EVENT_MTHD]);
    let mut free = escape::FreeOsEvent {
        h_client: client.bench.client,
        fd: files[0] as u32,
        ..Default::default()
    };
    let bench = &client.bench;
    bench
        .escape(files[0], &escape::FREE_OS_EVENT, &mut free)
        .unwrap();
    assert_eq!(free.status, status::NV_OK);
    let interrupt = 1 << 29 | 1 << 16 | host::NON_STALL_INTERRUPT.dword();
    runs(&mut client, &[interrupt, 0]);
    assert_eq!(ready(&client, &files), [false]);
    assert!(client.bench.broken().is_empty());
}

#[test]
fn events_are_lost_as_the_config_says() {
    let (mut client, files) = waiting("fault=event:lost:2", &[notify::FIFO_EVENT_MTHD]);
    let interrupt = 1 << 29 | 1 << 16 | host::NON_STALL_INTERRUPT.dword();
    for comes in [true, false, true] {
        runs(&mut client, &[interrupt, 0]);
        assert_eq!(ready(&client, &files), [comes]);
    }
}

#[test]
fn a_client_lets_an_event_happen() {
    let (client, files) = waiting("chip=h100", &INDICES);
    let bench = &client.bench;
    let fd = bench.process.open("/dev/nvidia0").unwrap();
    let index = notify::FIFO_EVENT_MTHD | notify::NONSTALL_INTR | notify::WITHOUT_EVENT_DATA;
    let (_, handle) = event(bench, fd, bench.subdevice, index);
    let files = [&files[..], &[fd]].concat();
    for (h_event, woken) in [
        (handle, [false, false, false, true]),
        (0, [false, true, false, true]),
        // Of nothing, nothing comes.
        (bench.subdevice, [false; 4]),
    ] {
        let mut params = control::EventSetTriggerFifo { h_event };
        let call = control::NV2080_CTRL_CMD_EVENT_SET_TRIGGER_FIFO;
        assert_eq!(bench.control(bench.subdevice, call, &mut params), 0);
        assert_eq!(ready(&client, &files), woken);
    }
    assert!(bench.broken().is_empty());
}

#[test]
fn a_channel_that_dies_is_told_to_who_asked() {
    for (action, second) in [(1, false), (2, true)] {
        let client = Client::new("");
        let bench = &client.bench;
        let fd = bench.process.open("/dev/nvidia0").unwrap();
        let (refused, handle) = event(bench, fd, bench.subdevice, notify::RC_ERROR);
        assert_eq!(refused, status::NV_OK);
        let reset = |channel| {
            let mut params = control::ResetChannel::default();
            let call = control::NV906F_CTRL_CMD_RESET_CHANNEL;
            assert_eq!(bench.control(channel, call, &mut params), status::NV_OK);
        };
        let (_, other) = bench.channel(&mut class::ChannelAlloc {
            gp_fifo_offset: super::bench::RING + 0x8000,
            ..bench.channel_params()
        });
        // Nobody has asked yet.
        reset(bench.channel);
        assert!(!bench.process.ready(fd).unwrap());
        let mut params = control::EventSetNotification {
            event: notify::RC_ERROR,
            action,
            ..Default::default()
        };
        let call = control::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION;
        assert_eq!(bench.control(bench.subdevice, call, &mut params), 0);
        assert_eq!(bench.free(other), status::NV_OK);
        for comes in [true, second] {
            let mut params = bench.channel_params();
            let (made, channel) = bench.channel(&mut params);
            assert_eq!(made, status::NV_OK);
            reset(channel);
            assert_eq!(bench.process.ready(fd).unwrap(), comes);
            // Data are there until they are taken.
            assert_eq!(bench.process.ready(fd).unwrap(), comes);
            let told = comes.then_some(((handle, notify::RC_ERROR, 43), false));
            assert_eq!(take(bench, fd).ok(), told);
            assert!(!bench.process.ready(fd).unwrap());
        }
    }
}

#[test]
fn interrupts_are_those_of_engines() {
    let bench = Bench::with_channel("");
    let of = |source, index| {
        event(
            &bench,
            bench.process.open("/dev/nvidia0").unwrap(),
            source,
            index,
        )
        .0
    };
    let interrupts = notify::NONSTALL_INTR;
    assert_eq!(
        of(bench.channel, interrupts | notify::GRAPHICS),
        status::NV_ERR_INVALID_ARGUMENT
    );
    fires("RM-EVENT-NONSTALL").only(&bench.broken());
    assert_eq!(
        of(bench.subdevice, interrupts | notify::RC_ERROR),
        status::NV_ERR_NOT_SUPPORTED
    );
    assert_eq!(of(bench.subdevice, interrupts | notify::CE0), status::NV_OK);
    assert_eq!(bench.broken().len(), 2);
}
