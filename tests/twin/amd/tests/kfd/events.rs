//! Events: ids, slots, waits, what faults tell.

use std::time::{Duration, Instant};

use drivers_spec::amd::kfd::{
    self, EventData, HsaHwExceptionData, RuntimeMode, event_type, exception, wait_result,
};
use twin::fires::fires;
use twin_amd::gpu::Interrupt;
use twin_amd::kernel::errno::Errno;
use twin_shader::page::{Access, FaultKind, MemFault, Port};
use zerocopy::{FromBytes, IntoBytes};

use crate::client::{Client, GTT, PAGE, anonymous, load, store, wanted};

const COMPLETE: Result<u32, Errno> = Ok(wait_result::COMPLETE);
const TIMEOUT: Result<u32, Errno> = Ok(wait_result::TIMEOUT);

fn set(client: &Client, event_id: u32) -> Result<(), Errno> {
    client.call(kfd::SET_EVENT, &mut kfd::SetEventArgs { event_id, pad: 0 })
}

fn reset(client: &Client, event_id: u32) -> Result<(), Errno> {
    client.call(
        kfd::RESET_EVENT,
        &mut kfd::ResetEventArgs { event_id, pad: 0 },
    )
}

fn destroy(client: &Client, event_id: u32) -> Result<(), Errno> {
    client.call(
        kfd::DESTROY_EVENT,
        &mut kfd::DestroyEventArgs { event_id, pad: 0 },
    )
}

fn age(data: &EventData) -> u64 {
    u64::read_from_prefix(data.as_bytes()).unwrap().0
}

#[test]
fn slots_are_ids_and_start_as_all_ones() {
    let client = Client::new("");
    let (page, first) = client.event_page();
    assert_eq!(
        (
            first.event_id,
            first.event_slot_index,
            first.event_trigger_data
        ),
        (1, 1, 1)
    );
    assert_eq!(first.event_page_offset, 2 << 62);
    assert!((0..4096).all(|slot| load(page.va + slot * 8) == u64::MAX));
    let second = client.event(0, event_type::SIGNAL, false).unwrap();
    assert_eq!(second.event_id, 2);
    let memory = client.event(0, event_type::MEMORY, false).unwrap();
    let hardware = client.event(0, event_type::HW_EXCEPTION, false).unwrap();
    assert_eq!(
        (memory.event_id, hardware.event_id),
        (0x4000_0000, 0x4000_0001)
    );
    destroy(&client, 1).unwrap();
    assert_eq!(
        client
            .event(0, event_type::DEBUG_EVENT, false)
            .unwrap()
            .event_id,
        1
    );
    let again = client.event(page.handle, event_type::SIGNAL, false);
    assert_eq!(again.map(drop), Err(Errno::EINVAL), "the page is set once");
    assert_eq!(client.unmap(&[0], page), Ok(1));
    assert_eq!(
        client.free(page),
        Err(Errno::EPERM),
        "it lives as long as the process"
    );
    assert!(client.rules().is_empty());
    client.event(0, event_type::NODECHANGE, false).unwrap();
    fires("KFD-EVENT-TYPE").only(&client.rules());
}

#[test]
fn what_an_event_page_must_be() {
    let client = Client::new("");
    let event = |handle| client.event(handle, event_type::SIGNAL, true).map(drop);
    assert_eq!(event(1 << 32), Err(Errno::EINVAL), "no such GPU");
    assert_eq!(
        event(u64::from(client.gpu_ids[0]) << 32 | 5),
        Err(Errno::EINVAL),
        "no such memory"
    );
    let user = anonymous(0x8000);
    let userptr = client
        .alloc_at(
            0,
            user,
            0x8000,
            kfd::Alloc::USERPTR | kfd::Alloc::WRITABLE,
            user,
        )
        .unwrap();
    assert_eq!(
        event(userptr.handle),
        Err(Errno::EINVAL),
        "memory of the client"
    );
    let bare = Client::bare(&client.machine);
    assert_eq!(
        bare.event(userptr.handle, event_type::SIGNAL, true)
            .map(drop),
        Err(Errno::ENODEV)
    );
    let small = client.memory(0, PAGE, GTT);
    assert_eq!(event(small.handle), Ok(()));
    fires("KFD-ACQUIRE-VM").first(&client.rules());
    fires("KFD-EVENT-PAGE-SIZE").only(&client.rules()[1..]);
}

#[test]
fn a_page_of_the_kernels_own() {
    let client = Client::new("");
    let event = client.event(0, event_type::SIGNAL, true).unwrap();
    let map = |bytes| {
        client.process.mmap(
            0,
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            client.kfd,
            event.event_page_offset,
        )
    };
    let page = map(0x8000).unwrap();
    assert_eq!(load(page + 8), u64::MAX);
    assert_eq!(map(0x10000), Err(Errno::EINVAL));
}

#[test]
fn slots_run_out() {
    let client = Client::new("");
    client.event_page();
    for _ in 2..4096 {
        client.event(0, event_type::SIGNAL, true).unwrap();
    }
    assert_eq!(
        client.event(0, event_type::SIGNAL, true).map(drop),
        Err(Errno::ENOSPC)
    );
    assert!(
        client.event(0, event_type::MEMORY, true).is_ok(),
        "others have no slot"
    );
}

#[test]
fn polls_set_and_reset() {
    let client = Client::new("");
    let (_, auto) = client.event_page();
    let manual = client.event(0, event_type::SIGNAL, false).unwrap().event_id;
    let mut events = [wanted(auto.event_id), wanted(manual)];
    assert_eq!(client.wait(&mut events, false, 0), TIMEOUT);
    set(&client, manual).unwrap();
    assert_eq!(client.wait(&mut events, false, 0), COMPLETE);
    assert_eq!(client.wait(&mut events, false, 0), COMPLETE, "it stays");
    assert_eq!(client.wait(&mut events, true, 0), TIMEOUT, "not all");
    set(&client, auto.event_id).unwrap();
    assert_eq!(client.wait(&mut events, true, 0), COMPLETE);
    assert_eq!(
        client.wait(&mut events, true, 0),
        TIMEOUT,
        "one was reset by the wait"
    );
    reset(&client, manual).unwrap();
    assert_eq!(client.wait(&mut events, false, 0), TIMEOUT);
    let memory = client.event(0, event_type::MEMORY, false).unwrap().event_id;
    for event in [99, memory] {
        assert_eq!(
            (set(&client, event), reset(&client, event)),
            (Err(Errno::EINVAL), Err(Errno::EINVAL))
        );
    }
    assert_eq!(destroy(&client, 99), Err(Errno::EINVAL));
    let start = Instant::now();
    assert_eq!(client.wait(&mut events, false, 30), TIMEOUT);
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(client.wait(&mut [], true, 0), COMPLETE, "all of none");
}

#[test]
fn bad_waits() {
    let client = Client::new("");
    assert_eq!(client.wait(&mut [wanted(5)], true, 0), Err(Errno::EINVAL));
    let mut args = kfd::WaitEventsArgs {
        events_ptr: 8,
        num_events: 1,
        ..Default::default()
    };
    assert_eq!(client.call(kfd::WAIT_EVENTS, &mut args), Err(Errno::EFAULT));
    assert_eq!(args.wait_result, wait_result::FAIL);
    args.num_events = u32::MAX;
    assert_eq!(client.call(kfd::WAIT_EVENTS, &mut args), Err(Errno::ENOMEM));
}

#[test]
fn a_wait_sleeps_until_it_is_woken() {
    let client = Client::new("");
    let (_, event) = client.event_page();
    let id = event.event_id;
    std::thread::scope(|scope| {
        let waits = || client.wait(&mut [wanted(id)], true, u32::MAX);
        let (one, two) = (scope.spawn(waits), scope.spawn(waits));
        std::thread::sleep(Duration::from_millis(50));
        set(&client, id).unwrap();
        assert_eq!(
            (one.join().unwrap(), two.join().unwrap()),
            (COMPLETE, COMPLETE),
            "all who wait"
        );
    });
    assert_eq!(
        client.wait(&mut [wanted(id)], true, 0),
        TIMEOUT,
        "it was seen"
    );
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.wait(&mut [wanted(id)], true, u32::MAX));
        std::thread::sleep(Duration::from_millis(50));
        destroy(&client, id).unwrap();
        assert_eq!(waiting.join().unwrap(), Err(Errno::EIO));
    });
}

#[test]
fn ages_tell_what_a_client_has_missed() {
    let client = Client::new("");
    let (_, event) = client.event_page();
    let mut data = wanted(event.event_id);
    // A new event has age 1; 0 asks nothing.
    data.as_mut_bytes()[..8].copy_from_slice(&1u64.to_ne_bytes());
    assert_eq!(
        client.wait(std::slice::from_mut(&mut data), true, 0),
        TIMEOUT
    );
    set(&client, event.event_id).unwrap();
    set(&client, event.event_id).unwrap();
    assert_eq!(
        client.wait(std::slice::from_mut(&mut data), true, 0),
        COMPLETE
    );
    assert_eq!(age(&data), 3);
    assert_eq!(
        client.wait(std::slice::from_mut(&mut data), true, 0),
        TIMEOUT
    );
    // Somebody else takes the signal: the age still tells.
    set(&client, event.event_id).unwrap();
    assert_eq!(
        client.wait(&mut [wanted(event.event_id)], true, 0),
        COMPLETE
    );
    assert_eq!(
        client.wait(std::slice::from_mut(&mut data), true, 0),
        COMPLETE
    );
    assert_eq!(age(&data), 4);
}

#[test]
fn interrupts_look_at_the_slots() {
    let client = Client::new("");
    let (page, event) = client.event_page();
    let other = client.event(0, event_type::SIGNAL, true).unwrap();
    let process = client.process.id();
    let interrupt = |context| {
        let since = client.machine.clock();
        client.machine.interrupt(
            0,
            Interrupt::EndOfPipe {
                process,
                context,
                since,
                bare: false,
            },
        )
    };
    let mut events = [wanted(event.event_id)];
    store(page.va + 8, 1);
    interrupt(1);
    assert_eq!(client.wait(&mut events, true, 0), COMPLETE);
    assert_eq!(load(page.va + 8), u64::MAX);
    // A context that leads nowhere: every slot that was written counts.
    store(page.va + 16, 2);
    interrupt(0x777);
    assert_eq!(
        client.wait(&mut [wanted(other.event_id)], true, 0),
        COMPLETE
    );
    store(page.va + 8, 1);
    client.machine.interrupt(
        0,
        Interrupt::SdmaTrap {
            process,
            context: 0xf000_0001,
            since: client.machine.clock(),
        },
    );
    assert_eq!(
        client.wait(&mut events, true, 0),
        COMPLETE,
        "28 bits of a trap count"
    );
    interrupt(0);
    assert!(client.rules().is_empty(), "context 0 means nothing");
    interrupt(1);
    assert_eq!(client.wait(&mut events, true, 0), TIMEOUT);
    fires("KFD-EVENT-SLOT").only(&client.rules());
}

#[test]
fn faults_and_resets_tell_where() {
    let client = Client::new("gpus=2");
    let memory = client.event(0, event_type::MEMORY, false).unwrap().event_id;
    let hardware = client
        .event(0, event_type::HW_EXCEPTION, true)
        .unwrap()
        .event_id;
    let process = client.process.id();
    let fault = |kind| MemFault {
        va: 0x7000_1238,
        access: Access::Write,
        port: Port::Vector,
        kind,
    };
    for (kind, expected) in [
        (FaultKind::NotPresent, (1, 0, 0)),
        (FaultKind::ReadOnly, (0, 1, 0)),
        (FaultKind::NoExecute, (0, 0, 1)),
    ] {
        client.machine.interrupt(
            1,
            Interrupt::Fault {
                process,
                fault: fault(kind),
            },
        );
        let mut events = [wanted(memory), wanted(hardware)];
        assert_eq!(client.wait(&mut events, false, 0), COMPLETE);
        let data = events[0].memory_exception_data;
        let flags = (
            data.failure.not_present,
            data.failure.read_only,
            data.failure.no_execute,
        );
        assert_eq!(
            (flags, data.va, data.gpu_id),
            (expected, 0x7000_1000, client.gpu_ids[1])
        );
        assert_eq!(
            events[1],
            wanted(hardware),
            "nothing is said of events that did not come"
        );
    }
    client
        .machine
        .interrupt(0, Interrupt::Reset { memory_lost: true });
    let mut events = [wanted(hardware)];
    assert_eq!(client.wait(&mut events, false, 0), COMPLETE);
    let data = HsaHwExceptionData::read_from_prefix(events[0].as_bytes())
        .unwrap()
        .0;
    let expected = HsaHwExceptionData {
        reset_type: exception::WHOLE_GPU_RESET,
        reset_cause: exception::GPU_HANG,
        memory_lost: 1,
        gpu_id: client.gpu_ids[0],
    };
    assert_eq!(data, expected);
    assert!(client.rules().is_empty());
}

#[test]
fn faults_that_nobody_is_told_of() {
    let client = Client::new("");
    let fault = MemFault {
        va: 0x1000,
        access: Access::Read,
        port: Port::Cp,
        kind: FaultKind::NotPresent,
    };
    client.machine.interrupt(
        0,
        Interrupt::Fault {
            process: client.process.id(),
            fault,
        },
    );
    fires("KFD-FAULT-UNSEEN").only(&client.rules());
    client
        .machine
        .interrupt(0, Interrupt::Reset { memory_lost: true });
    assert_eq!(client.rules().len(), 1, "without queues nothing is lost");
}

/// A client with a queue, number 1, whose errors go to `payload` and signal an event.
fn watched_queue(mode: RuntimeMode, payload: &[u64; 1]) -> (Client, u32) {
    let client = Client::new("");
    client.event_page();
    let event = client.event(0, event_type::SIGNAL, true).unwrap().event_id;
    let mut enable = kfd::RuntimeEnableArgs {
        mode_mask: mode.bits(),
        ..Default::default()
    };
    client.call(kfd::RUNTIME_ENABLE, &mut enable).unwrap();
    let mut buffers = client.buffers(0);
    // The header is written by the client, so the area must be memory that it sees.
    client.unmap(&[0], buffers.context).unwrap();
    buffers.context = client.memory(0, buffers.context.bytes, GTT);
    store(buffers.context.va + 24, payload.as_ptr() as u64);
    store(buffers.context.va + 32, event.into());
    client.create(client.queue_args(0, &buffers)).unwrap();
    (client, event)
}

#[test]
fn errors_of_queues_go_to_the_context_save_area() {
    let payload = [0x4u64];
    let (client, event) = watched_queue(RuntimeMode::empty(), &payload);
    let (process, code) = (
        client.process.id(),
        kfd::exception_code::QUEUE_PACKET_UNSUPPORTED,
    );
    client.machine.interrupt(
        0,
        Interrupt::QueueError {
            process,
            queue: 1,
            code,
        },
    );
    assert_eq!(load(payload.as_ptr() as u64), 0x4 | 1 << 19);
    assert_eq!(client.wait(&mut [wanted(event)], true, 0), COMPLETE);
}

#[test]
fn trap_handlers_tell_of_exceptions() {
    for mode in [RuntimeMode::ENABLE, RuntimeMode::empty()] {
        let payload = [0x4u64];
        let (client, event) = watched_queue(mode, &payload);
        client.machine.interrupt(
            0,
            Interrupt::Wave {
                process: client.process.id(),
                context: 1 << 11 | 0x155,
                since: client.machine.clock(),
                queue: Some(1),
            },
        );
        let (seen, told) = if mode == RuntimeMode::ENABLE {
            (
                0x4 | kfd::exception_code::mask(kfd::exception_code::QUEUE_WAVE_TRAP),
                COMPLETE,
            )
        } else {
            // Then it is an interrupt like any other.
            fires("KFD-EVENT-SLOT").only(&client.rules());
            (0x4, TIMEOUT)
        };
        assert_eq!(load(payload.as_ptr() as u64), seen);
        assert_eq!(client.wait(&mut [wanted(event)], true, 0), told);
    }
}
