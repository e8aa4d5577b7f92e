//! Queues: what CREATE_QUEUE checks, what a queue keeps, and one that runs.

use drivers_spec::amd::kfd::{self, CreateQueueArgs, queue_type};
use twin::fires::fires;
use twin_amd::kernel::errno::Errno;

use crate::client::{Client, GTT, Memory, PAGE, VRAM, load, reserve, store, wanted};

#[test]
fn doorbells_have_places_of_their_own() {
    let client = Client::new("gpus=2");
    let buffers = client.buffers(1);
    let args = client.queue_args(1, &buffers);
    let base = 3 << 62 | u64::from(client.gpu_ids[1]) << 46;
    let first = client.create(args).unwrap();
    let second = client.create(args).unwrap();
    assert_eq!((first.queue_id, first.doorbell_offset), (0, base));
    assert_eq!((second.queue_id, second.doorbell_offset), (1, base | 8));
    let sdma = |engine| {
        let kind = queue_type::SDMA_BY_ENG_ID;
        client
            .create(CreateQueueArgs {
                queue_type: kind,
                sdma_engine_id: engine,
                ..args
            })
            .unwrap()
            .doorbell_offset
    };
    // The kernel keeps queues 0 and 1 of each engine; queue 2 is the second even one.
    assert_eq!(sdma(0), base | (0x101 * 8));
    assert_eq!(sdma(1), base | (0x10b * 8));
    assert_eq!(sdma(0), base | ((0x101 + 512) * 8));
    client.destroy(first.queue_id).unwrap();
    assert_eq!(client.create(args).unwrap().doorbell_offset, base);
    assert!(client.rules().is_empty(), "{:?}", client.rules());
}

#[test]
fn what_create_queue_refuses() {
    let client = Client::new("");
    let buffers = client.buffers(0);
    let good = client.queue_args(0, &buffers);
    let large = client.memory(0, 2 * PAGE, GTT);
    let refused = |change: &dyn Fn(&mut CreateQueueArgs)| {
        let mut args = good;
        change(&mut args);
        client.create(args).map(drop)
    };
    type Change<'a> = &'a dyn Fn(&mut CreateQueueArgs);
    let cases: [(&str, Change, Errno); 24] = [
        ("percentage", &|a| a.queue_percentage = 101, Errno::EINVAL),
        ("priority", &|a| a.queue_priority = 16, Errno::EINVAL),
        ("ring size", &|a| a.ring_size = 0x1800, Errno::EINVAL),
        (
            "ring beyond user space",
            &|a| a.ring_base_address = u64::MAX - 8,
            Errno::EFAULT,
        ),
        ("rptr", &|a| a.read_pointer_address = 1 << 60, Errno::EFAULT),
        (
            "wptr",
            &|a| a.write_pointer_address = 1 << 60,
            Errno::EFAULT,
        ),
        ("eop", &|a| a.eop_buffer_address = 1 << 60, Errno::EFAULT),
        (
            "cwsr",
            &|a| a.ctx_save_restore_address = 1 << 60,
            Errno::EFAULT,
        ),
        ("type", &|a| a.queue_type = 5, Errno::ENOTSUPP),
        ("gpu_id", &|a| a.gpu_id = 3, Errno::EINVAL),
        (
            "engine",
            &|a| (a.queue_type, a.sdma_engine_id) = (4, 2),
            Errno::EINVAL,
        ),
        (
            "XGMI",
            &|a| a.queue_type = queue_type::SDMA_XGMI,
            Errno::ENOMEM,
        ),
        (
            "ring not mapped",
            &|a| a.ring_base_address = reserve(PAGE),
            Errno::EINVAL,
        ),
        ("no ring", &|a| a.ring_base_address = 0, Errno::EINVAL),
        (
            "ring in larger memory",
            &|a| a.ring_base_address = large.va,
            Errno::EINVAL,
        ),
        (
            "ring not its start",
            &|a| (a.ring_base_address, a.ring_size) = (large.va + PAGE, 0x1000),
            Errno::EINVAL,
        ),
        (
            "wptr in larger memory",
            &|a| a.write_pointer_address = large.va,
            Errno::EINVAL,
        ),
        (
            "rptr in larger memory",
            &|a| a.read_pointer_address = large.va + PAGE,
            Errno::EINVAL,
        ),
        ("eop size", &|a| a.eop_buffer_size = 0x2000, Errno::EINVAL),
        (
            "eop mapping",
            &|a| a.eop_buffer_address = large.va,
            Errno::EINVAL,
        ),
        (
            "control stack",
            &|a| a.ctl_stack_size += 0x1000,
            Errno::EINVAL,
        ),
        (
            "context too small",
            &|a| a.ctx_save_restore_size -= 1,
            Errno::EINVAL,
        ),
        (
            "context too large for its memory",
            &|a| a.ctx_save_restore_size += 0x1000,
            Errno::EINVAL,
        ),
        (
            "no context",
            &|a| a.ctx_save_restore_address = 0,
            Errno::EINVAL,
        ),
    ];
    for (what, change, errno) in cases {
        assert_eq!(refused(change), Err(errno), "{what}");
    }
    // What the kernel says nothing of, the twin names.
    let named = |rule| {
        let mut rules = client.rules();
        rules.retain(|r| *r == rule);
        rules
    };
    assert_eq!(named("KFD-QUEUE-BUFFER-SIZE").len(), 9);
    fires("KFD-QUEUE-BUFFER-SIZE").first(&named("KFD-QUEUE-BUFFER-SIZE"));
    fires("KFD-EOP-SIZE").only(&named("KFD-EOP-SIZE"));
    fires("KFD-CTL-STACK-SIZE").only(&named("KFD-CTL-STACK-SIZE"));
    fires("KFD-CWSR-SIZE").only(&named("KFD-CWSR-SIZE"));
    let before = client.rules().len();
    assert!(client.create(good).is_ok());
    let bare = Client::bare(&client.machine);
    assert_eq!(
        bare.create(good).map(drop),
        Err(Errno::ESRCH),
        "no ACQUIRE_VM"
    );
    fires("KFD-ACQUIRE-VM").only(&client.rules()[before..]);
}

#[test]
fn linux_6_8_lets_it_pass_and_the_twin_does_not() {
    let client = Client::new("kernel=6.8");
    let buffers = client.buffers(0);
    let good = client.queue_args(0, &buffers);
    client.create(good).unwrap();
    assert!(client.rules().is_empty());
    let large = client.memory(0, 2 * PAGE, GTT);
    let wptr = CreateQueueArgs {
        write_pointer_address: large.va,
        ..good
    };
    assert_eq!(
        client.create(wptr).map(drop),
        Err(Errno::EINVAL),
        "MES wants a page for it"
    );
    client
        .create(CreateQueueArgs {
            ctl_stack_size: 0,
            read_pointer_address: large.va + PAGE,
            ..good
        })
        .unwrap();
    assert!(client.rules().is_empty());
    client
        .create(CreateQueueArgs {
            ring_size: 512,
            ..good
        })
        .unwrap();
    fires("KFD-QUEUE-RING-SIZE").only(&client.rules());
    client
        .create(CreateQueueArgs {
            eop_buffer_address: reserve(PAGE),
            ..good
        })
        .unwrap();
    fires("KFD-QUEUE-BUFFERS").only(&client.rules()[1..]);
    assert_eq!(client.unmap(&[0], buffers.ring), Ok(1));
    fires("KFD-UNMAP-QUEUE-BUFFER").only(&client.rules()[2..]);
    let by_engine = CreateQueueArgs {
        queue_type: queue_type::SDMA_BY_ENG_ID,
        ..good
    };
    assert_eq!(client.create(by_engine).map(drop), Err(Errno::ENOTSUPP));
}

#[test]
fn mistakes_that_create_queue_lets_pass() {
    let client = Client::new("chip=gfx942");
    let buffers = client.buffers(0);
    let good = client.queue_args(0, &buffers);
    let rules = |args| {
        let before = client.rules().len();
        client.create(args).unwrap();
        client.rules()[before..].to_vec()
    };
    assert!(
        rules(CreateQueueArgs {
            queue_percentage: 100 | 7 << 8,
            ..good
        })
        .is_empty()
    );
    fires("KFD-QUEUE-XCC").only(&rules(CreateQueueArgs {
        queue_percentage: 100 | 8 << 8,
        ..good
    }));
    let aql = queue_type::COMPUTE_AQL;
    fires("KFD-QUEUE-XCC").only(&rules(CreateQueueArgs {
        queue_percentage: 100 | 1 << 8,
        queue_type: aql,
        ..good
    }));
    assert!(
        rules(CreateQueueArgs {
            queue_type: queue_type::SDMA_XGMI,
            ..good
        })
        .is_empty()
    );
}

#[test]
fn queues_run_out() {
    let client = Client::new("");
    let buffers = client.buffers(0);
    let args = client.queue_args(0, &buffers);
    let sdma = CreateQueueArgs {
        queue_type: queue_type::SDMA,
        ..args
    };
    for _ in 0..12 {
        client.create(sdma).unwrap();
    }
    assert_eq!(
        client.create(sdma).map(drop),
        Err(Errno::ENOMEM),
        "2 engines of 6 queues"
    );
    for _ in 12..127 {
        client.create(args).unwrap();
    }
    assert_eq!(
        client.create(args).map(drop),
        Err(Errno::ENOSPC),
        "127 queues"
    );
}

#[test]
fn a_queue_keeps_its_buffers() {
    let client = Client::new("");
    let buffers = client.buffers(0);
    let queue = client.create(client.queue_args(0, &buffers)).unwrap();
    for memory in [buffers.ring, buffers.pointers, buffers.eop, buffers.context] {
        assert_eq!(client.unmap(&[0], memory), Err(Errno::EBUSY));
        assert_eq!(client.free(memory), Err(Errno::EBUSY));
    }
    client.destroy(queue.queue_id).unwrap();
    assert_eq!(client.destroy(queue.queue_id), Err(Errno::EINVAL));
    for memory in [buffers.ring, buffers.pointers, buffers.eop, buffers.context] {
        assert_eq!(client.unmap(&[0], memory), Ok(1));
        client.free(memory).unwrap();
    }
    assert_eq!(client.rules(), ["KFD-UNMAP-QUEUE-BUFFER"; 4]);
}

#[test]
fn update_queue_moves_and_suspends() {
    let client = Client::new("");
    let buffers = client.buffers(0);
    let queue = client.create(client.queue_args(0, &buffers)).unwrap();
    let update = |queue_id, ring: Memory, ring_size: u64, queue_percentage, queue_priority| {
        let mut args = kfd::UpdateQueueArgs {
            ring_base_address: ring.va,
            queue_id,
            ring_size: ring_size as u32,
            queue_percentage,
            queue_priority,
        };
        client.call(kfd::UPDATE_QUEUE, &mut args)
    };
    let id = queue.queue_id;
    let larger = client.memory(0, 0x4000, GTT);
    assert_eq!(update(id, larger, 0x4000, 100, 7), Ok(()));
    assert_eq!(
        client.unmap(&[0], buffers.ring),
        Ok(1),
        "the old ring is free"
    );
    assert_eq!(client.unmap(&[0], larger), Err(Errno::EBUSY));
    assert_eq!(
        update(id, larger, 0x2000, 100, 7),
        Err(Errno::EFAULT),
        "not the whole mapping"
    );
    assert_eq!(update(id, larger, 0x3000, 100, 7), Err(Errno::EINVAL));
    assert_eq!(update(id, larger, 0x4000, 101, 7), Err(Errno::EINVAL));
    assert_eq!(update(id, larger, 0x4000, 100, 16), Err(Errno::EINVAL));
    assert_eq!(update(9, larger, 0x4000, 100, 7), Err(Errno::EFAULT));
    let state = |queue_id, ctl_stack_address| {
        let mut args = kfd::GetQueueWaveStateArgs {
            queue_id,
            ctl_stack_address,
            ..Default::default()
        };
        client
            .call(kfd::GET_QUEUE_WAVE_STATE, &mut args)
            .map(|()| (args.ctl_stack_used_size, args.save_area_used_size))
    };
    let header = [0u64; 2];
    let address = header.as_ptr() as u64;
    assert_eq!(state(id, address), Err(Errno::EINVAL), "it runs");
    assert_eq!(update(id, larger, 0x4000, 0, 7), Ok(()));
    assert_eq!(state(id, address), Ok((0, 0)));
    assert_eq!(state(id, 8), Err(Errno::EFAULT));
    assert_eq!(state(9, address), Err(Errno::EFAULT));
}

#[test]
fn masks_and_wave_sync() {
    let client = Client::new("");
    let buffers = client.buffers(0);
    let queue = client
        .create(client.queue_args(0, &buffers))
        .unwrap()
        .queue_id;
    let mask = |queue_id, num_cu_mask, mask: &[u32]| {
        let cu_mask_ptr = mask.as_ptr() as u64;
        client.call(
            kfd::SET_CU_MASK,
            &mut kfd::SetCuMaskArgs {
                queue_id,
                num_cu_mask,
                cu_mask_ptr,
            },
        )
    };
    assert_eq!(mask(queue, 64, &[0xffff, 0xc]), Ok(()));
    assert_eq!(mask(queue, 32, &[0x1]), Err(Errno::EINVAL), "half a WGP");
    assert_eq!(mask(queue, 0, &[]), Err(Errno::EINVAL));
    assert_eq!(mask(queue, 33, &[0, 0]), Err(Errno::EINVAL));
    assert_eq!(mask(9, 32, &[0x3]), Err(Errno::EFAULT));
    let mut bad = kfd::SetCuMaskArgs {
        queue_id: queue,
        num_cu_mask: 32,
        cu_mask_ptr: 8,
    };
    assert_eq!(client.call(kfd::SET_CU_MASK, &mut bad), Err(Errno::EFAULT));
    let gws = |queue_id, num_gws| {
        client.call(
            kfd::ALLOC_QUEUE_GWS,
            &mut kfd::AllocQueueGwsArgs {
                queue_id,
                num_gws,
                ..Default::default()
            },
        )
    };
    assert_eq!(gws(9, 64), Err(Errno::EINVAL));
    assert_eq!(gws(queue, 0), Err(Errno::EINVAL), "it has none");
    assert_eq!(gws(queue, 64), Ok(()));
    assert_eq!(gws(queue, 64), Err(Errno::EBUSY));
    assert_eq!(gws(queue, 0), Ok(()));
}

/// SDMA packets: FENCE (op 5, uncached) and TRAP (op 6). Source: drivers_spec::amd::sdma.
fn fence(to: u64, value: u32) -> [u32; 4] {
    [5 | 3 << 16, to as u32, (to >> 32) as u32, value]
}

#[test]
fn a_packet_signals_an_event() {
    let client = Client::new("");
    let (page, event) = client.event_page();
    let buffers = client.buffers(0);
    let data = client.memory(0, PAGE, GTT);
    let queue = client
        .create(CreateQueueArgs {
            queue_type: queue_type::SDMA,
            ..client.queue_args(0, &buffers)
        })
        .unwrap();
    let slot = page.va + u64::from(event.event_slot_index) * 8;
    let mut words = Vec::new();
    words.extend(fence(data.va, 0x1234));
    words.extend(fence(slot, event.event_trigger_data));
    words.extend([6, event.event_trigger_data]);
    for (at, pair) in (0u64..).zip(words.chunks(2)) {
        store(
            buffers.ring.va + at * 8,
            u64::from(pair[0]) | u64::from(pair[1]) << 32,
        );
    }
    let bytes = words.len() as u64 * 4;
    store(queue.write_pointer_address, bytes);
    store(client.doorbell(&queue), bytes);
    let mut events = [wanted(event.event_id)];
    assert_eq!(
        client.wait(&mut events, true, 10_000),
        Ok(kfd::wait_result::COMPLETE)
    );
    assert_eq!(load(data.va), 0x1234);
    assert_eq!(load(slot), u64::MAX, "the kernel has taken it");
    assert_eq!(load(queue.read_pointer_address), bytes);
    client.destroy(queue.queue_id).unwrap();
    assert!(
        client.rules().is_empty(),
        "{:#?}",
        client.machine.journal.violations()
    );
}

#[test]
fn sizes_of_every_chip_make_a_queue() {
    for chip in [
        "gfx1030",
        "gfx1031",
        "gfx1032",
        "gfx1034",
        "gfx1100",
        "gfx1101",
        "gfx1102",
        "gfx1103",
        "gfx1200",
        "gfx1201",
        "gfx942",
        "gfx942,xcc=1",
        "gfx942,xcc=4",
    ] {
        let client = Client::new(&format!("chip={chip}"));
        let buffers = client.buffers(0);
        client.create(client.queue_args(0, &buffers)).unwrap();
        let small = client.memory(0, buffers.context.bytes - PAGE, VRAM);
        let args = CreateQueueArgs {
            ctx_save_restore_address: small.va,
            ..client.queue_args(0, &buffers)
        };
        assert_eq!(client.create(args).map(drop), Err(Errno::EINVAL), "{chip}");
    }
}
