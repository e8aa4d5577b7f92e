//! Two processes share nothing but the GPUs.

use drivers_spec::amd::kfd::{event_type, wait_result};
use twin_amd::gpu::Interrupt;
use twin_amd::kernel::errno::Errno;

use crate::client::{Client, GTT, PAGE, VRAM, machine, reserve, store, wanted};

#[test]
fn handles_addresses_queues_and_events_are_a_process_own() {
    let machine = machine("");
    let (one, two) = (Client::on(&machine), Client::on(&machine));
    let va = reserve(PAGE);
    let first = one.alloc_at(0, va, PAGE, GTT, 0).unwrap();
    assert_eq!(two.free(first), Err(Errno::EINVAL), "no such handle there");
    let second = two.alloc_at(0, va, PAGE, GTT, 0).unwrap();
    assert_eq!(
        (one.map(&[0], first), two.map(&[0], second)),
        (Ok(1), Ok(1)),
        "the same address in both"
    );
    assert_eq!(two.mmap(0, first), Err(Errno::EACCES), "the other's memory");
    let buffers = one.buffers(0);
    let queue = one.create(one.queue_args(0, &buffers)).unwrap();
    assert_eq!(two.destroy(queue.queue_id), Err(Errno::EINVAL));
    assert_eq!(
        two.create(one.queue_args(0, &buffers)).map(drop),
        Err(Errno::EINVAL),
        "not mapped there"
    );
    let (page, event) = one.event_page();
    let (other_page, other) = two.event_page();
    assert_eq!(event.event_id, other.event_id);
    store(page.va + 8, 1);
    store(other_page.va + 8, 1);
    machine.interrupt(
        0,
        Interrupt::EndOfPipe {
            process: one.process.id(),
            context: 1,
            since: machine.clock(),
            bare: false,
        },
    );
    let poll = |client: &Client| client.wait(&mut [wanted(1)], true, 0).unwrap();
    assert_eq!(
        (poll(&one), poll(&two)),
        (wait_result::COMPLETE, wait_result::TIMEOUT)
    );
    assert_eq!(one.rules(), ["KFD-QUEUE-BUFFER-SIZE"]);
}

#[test]
fn a_reset_concerns_everybody() {
    let machine = machine("");
    let (one, two) = (Client::on(&machine), Client::on(&machine));
    let event = |client: &Client| {
        client
            .event(0, event_type::HW_EXCEPTION, false)
            .unwrap()
            .event_id
    };
    let (first, second) = (event(&one), event(&two));
    machine.interrupt(0, Interrupt::Reset { memory_lost: true });
    assert_eq!(
        one.wait(&mut [wanted(first)], true, 0),
        Ok(wait_result::COMPLETE)
    );
    assert_eq!(
        two.wait(&mut [wanted(second)], true, 0),
        Ok(wait_result::COMPLETE)
    );
}

#[test]
fn the_end_of_a_process_frees_what_it_had() {
    let machine = machine("vram=1G");
    let one = Client::on(&machine);
    let buffers = one.buffers(0);
    one.create(one.queue_args(0, &buffers)).unwrap();
    one.memory(0, 900 << 20, VRAM);
    let two = Client::on(&machine);
    let large = |client: &Client| {
        client
            .alloc_at(0, reserve(900 << 20), 900 << 20, VRAM, 0)
            .map(drop)
    };
    assert_eq!(large(&two), Err(Errno::ENOMEM));
    let event = one.event(0, event_type::SIGNAL, true).unwrap().event_id;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| one.wait(&mut [wanted(event)], true, u32::MAX));
        std::thread::sleep(std::time::Duration::from_millis(30));
        one.process.exit();
        assert_eq!(
            waiting.join().unwrap(),
            Ok(wait_result::TIMEOUT),
            "nobody sleeps in a dead process"
        );
    });
    assert_eq!(large(&two), Ok(()));
    assert_eq!(one.free(buffers.ring), Err(Errno::EBADF));
}
