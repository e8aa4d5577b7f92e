//! Shared virtual memory.

use drivers_spec::amd::kfd::{self, Alloc, CreateQueueArgs, SvmArgs, SvmAttribute, SvmFlags, svm};
use twin_amd::kernel::errno::Errno;
use zerocopy::IntoBytes;

use crate::client::{Client, GTT, PAGE, anonymous, reserve};

fn attribute(kind: u32, value: u32) -> SvmAttribute {
    SvmAttribute { kind, value }
}

/// The ioctl, with attributes behind it; returns them.
fn call(
    client: &Client,
    op: u32,
    start: u64,
    size: u64,
    attributes: &[SvmAttribute],
) -> Result<Vec<SvmAttribute>, Errno> {
    let args = SvmArgs {
        start_addr: start,
        size,
        op,
        nattr: attributes.len() as u32,
    };
    let mut words = vec![0u64; 3 + attributes.len()];
    words.as_mut_bytes()[..24].copy_from_slice(args.as_bytes());
    words.as_mut_bytes()[24..].copy_from_slice(attributes.as_bytes());
    let request = kfd::SVM.request + (8 * attributes.len() as u32) * 0x10000;
    client
        .process
        .ioctl(client.kfd, request, words.as_mut_ptr() as u64)?;
    let pair = |word: &u64| attribute(*word as u32, (word >> 32) as u32);
    Ok(words[3..].iter().map(pair).collect())
}

#[test]
fn attributes_are_kept_by_range() {
    let client = Client::new("");
    let gpu = client.gpu_ids[0];
    let at = anonymous(8 * PAGE);
    let get = |start, pages: u64, kind, value| {
        call(
            &client,
            svm::OP_GET_ATTR,
            start,
            pages * PAGE,
            &[attribute(kind, value)],
        )
        .unwrap()[0]
    };
    assert_eq!(
        get(at, 8, svm::ATTR_PREFERRED_LOC, 0).value,
        svm::LOCATION_UNDEFINED
    );
    assert_eq!(get(at, 8, svm::ATTR_GRANULARITY, 0).value, 9);
    assert_eq!(get(at, 8, svm::ATTR_ACCESS, gpu).kind, svm::ATTR_NO_ACCESS);
    let set = [
        attribute(svm::ATTR_ACCESS, gpu),
        attribute(svm::ATTR_PREFERRED_LOC, gpu),
        attribute(svm::ATTR_SET_FLAGS, SvmFlags::GPU_EXEC.bits()),
    ];
    call(&client, svm::OP_SET_ATTR, at, 4 * PAGE, &set).unwrap();
    assert_eq!(get(at, 4, svm::ATTR_ACCESS, gpu).kind, svm::ATTR_ACCESS);
    assert_eq!(get(at, 4, svm::ATTR_PREFERRED_LOC, 0).value, gpu);
    assert_eq!(
        get(at, 4, svm::ATTR_SET_FLAGS, 0).value & SvmFlags::GPU_EXEC.bits(),
        SvmFlags::GPU_EXEC.bits()
    );
    // The middle changes: what holds for all is what is told.
    call(
        &client,
        svm::OP_SET_ATTR,
        at + PAGE,
        PAGE,
        &[attribute(svm::ATTR_PREFERRED_LOC, 0)],
    )
    .unwrap();
    assert_eq!(get(at, 1, svm::ATTR_PREFERRED_LOC, 0).value, gpu);
    assert_eq!(get(at + 2 * PAGE, 2, svm::ATTR_PREFERRED_LOC, 0).value, gpu);
    assert_eq!(
        get(at, 4, svm::ATTR_PREFERRED_LOC, 0).value,
        svm::LOCATION_UNDEFINED
    );
    assert_eq!(get(at, 4, svm::ATTR_ACCESS, gpu).kind, svm::ATTR_ACCESS);
}

#[test]
fn what_svm_refuses() {
    let client = Client::new("");
    let at = anonymous(4 * PAGE);
    let set = |start, size, kind, value| {
        call(
            &client,
            svm::OP_SET_ATTR,
            start,
            size,
            &[attribute(kind, value)],
        )
        .map(drop)
    };
    let gpu = client.gpu_ids[0];
    assert_eq!(set(at + 1, PAGE, svm::ATTR_ACCESS, gpu), Err(Errno::EINVAL));
    assert_eq!(set(at, 0, svm::ATTR_ACCESS, gpu), Err(Errno::EINVAL));
    assert_eq!(set(0, PAGE, svm::ATTR_ACCESS, gpu), Err(Errno::EINVAL));
    assert_eq!(
        set(at, PAGE, svm::ATTR_ACCESS, 1),
        Err(Errno::EINVAL),
        "no such GPU"
    );
    assert_eq!(set(at, PAGE, 99, 0), Err(Errno::EINVAL));
    assert_eq!(
        set(at, PAGE, svm::ATTR_SET_FLAGS, 0x100),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        set(0x10000, PAGE, svm::ATTR_ACCESS, gpu),
        Err(Errno::EFAULT),
        "not mapped"
    );
    assert_eq!(call(&client, 7, at, PAGE, &[]), Err(Errno::EINVAL));
    let memory = client.memory(0, PAGE, GTT);
    assert_eq!(
        set(memory.va, PAGE, svm::ATTR_ACCESS, gpu),
        Err(Errno::EADDRINUSE)
    );
    // More attributes than the request has room for.
    let mut short = SvmArgs {
        start_addr: at,
        size: PAGE,
        op: 0,
        nattr: 4,
    };
    assert_eq!(client.call(kfd::SVM, &mut short), Err(Errno::EINVAL));
    assert!(client.rules().is_empty());
}

#[test]
fn a_range_is_not_also_memory_of_alloc() {
    let client = Client::new("");
    let at = anonymous(4 * PAGE);
    call(
        &client,
        svm::OP_SET_ATTR,
        at,
        2 * PAGE,
        &[attribute(svm::ATTR_ACCESS, client.gpu_ids[0])],
    )
    .unwrap();
    let alloc = |va, user, flags| client.alloc_at(0, va, PAGE, flags, user).map(drop);
    assert_eq!(alloc(at + PAGE, 0, GTT), Err(Errno::EADDRINUSE));
    assert_eq!(
        alloc(reserve(PAGE), at, Alloc::USERPTR),
        Err(Errno::EADDRINUSE)
    );
    assert_eq!(alloc(at + 2 * PAGE, 0, GTT), Ok(()));
    // Unmapped memory is no range any more.
    client.process.munmap(at, 2 * PAGE).unwrap();
    assert_eq!(alloc(at + PAGE, 0, GTT), Ok(()));
}

#[test]
fn a_context_save_area_may_be_a_range() {
    let client = Client::new("");
    let buffers = client.buffers(0);
    let bytes = buffers.context.bytes;
    let at = anonymous(bytes);
    let args = CreateQueueArgs {
        ctx_save_restore_address: at,
        ..client.queue_args(0, &buffers)
    };
    let access = attribute(svm::ATTR_ACCESS, client.gpu_ids[0]);
    call(&client, svm::OP_SET_ATTR, at, bytes, &[access]).unwrap();
    assert_eq!(
        client.create(args).map(drop),
        Err(Errno::EINVAL),
        "not always mapped"
    );
    let always = attribute(svm::ATTR_SET_FLAGS, SvmFlags::GPU_ALWAYS_MAPPED.bits());
    call(&client, svm::OP_SET_ATTR, at, bytes, &[always]).unwrap();
    client.create(args).unwrap();
    assert_eq!(client.rules(), ["KFD-QUEUE-BUFFER-SIZE"]);
}
