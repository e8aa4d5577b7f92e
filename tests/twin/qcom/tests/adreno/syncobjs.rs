//! Syncobjs and fences of msm.

use drivers_spec::qcom::msm::{self, Submit};
use drivers_spec::qcom::packet::op;
use twin::errno::{Errno, Result};

use super::msm::{Gem, Node, in_future};
use super::rig::{SOON, list};
use super::stream::Stream;

/// A call whose argument is that many dwords.
fn call<const N: usize>(node: &Node, nr: u32, args: &mut [u32; N]) -> Result {
    let request = 3 << 30 | (N as u32 * 4) << 16 | 0x64 << 8 | nr;
    node.process.ioctl(node.fd, request, list(args))
}

fn create(node: &Node, flags: u32) -> Result<u32> {
    let mut args = [0, flags];
    call(node, 0xbf, &mut args)?;
    Ok(args[0])
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// SYNCOBJ_WAIT: the first that is over.
fn wait(node: &Node, handles: &mut [u32], milliseconds: u32, flags: u32) -> Result<u32> {
    let until = in_future(milliseconds);
    let until = until.tv_sec as u64 * 1_000_000_000 + until.tv_nsec as u64;
    let ([a, b], [c, d]) = (halves(list(handles)), halves(until));
    let mut args = [a, b, c, d, handles.len() as u32, flags, 0, 0, 0, 0];
    call(node, 0xc3, &mut args)?;
    Ok(args[6])
}

fn array(node: &Node, nr: u32, handles: &mut [u32]) -> Result {
    let [a, b] = halves(list(handles));
    call(node, nr, &mut [a, b, handles.len() as u32, 0])
}

fn timelines(node: &Node, nr: u32, handle: u32, point: u64) -> Result<u64> {
    let (mut handles, mut points) = ([handle], [point]);
    let ([a, b], [c, d]) = (halves(list(&mut handles)), halves(list(&mut points)));
    call(node, nr, &mut [a, b, c, d, 1, 0])?;
    Ok(points[0])
}

fn wait_for(at: u64) -> Vec<u32> {
    let [low, high] = halves(at);
    let body = [0x13, low, high, 1, u32::MAX, 32];
    Stream::default().command(op::WAIT_REG_MEM, &body).words()
}

/// A submission that waits for the first dword of memory, with syncobjs at its end and its begin.
fn submit(node: &Node, memory: Gem, ins: &[(u32, u64)], outs: &[(u32, u64)]) -> Result<u32> {
    let all = |of: &[(u32, u64)]| {
        let one = |(handle, point): &(u32, u64)| msm::GemSubmitSyncobj {
            handle: *handle,
            flags: 0,
            point: *point,
        };
        of.iter().map(one).collect::<Vec<_>>()
    };
    let (mut before, mut after) = (all(ins), all(outs));
    let change = |args: &mut msm::GemSubmit| {
        args.syncobj_stride = size_of::<msm::GemSubmitSyncobj>() as u32;
        if !before.is_empty() {
            args.flags |= Submit::SYNCOBJ_IN.bits();
            (args.in_syncobjs, args.nr_in_syncobjs) = (list(&mut before), ins.len() as u32);
        }
        if !after.is_empty() {
            args.flags |= Submit::SYNCOBJ_OUT.bits();
            (args.out_syncobjs, args.nr_out_syncobjs) = (list(&mut after), outs.len() as u32);
        }
    };
    let done = node.submit_with(&wait_for(memory.gpu), &[memory], change);
    done.map(|args| args.fence)
}

#[test]
fn syncobjs_are_signalled_and_waited_for() {
    let node = Node::new("kernel=msm,timeout=60000");
    let (one, signalled) = (create(&node, 0).unwrap(), create(&node, 1).unwrap());
    assert_eq!(create(&node, 2), Err(Errno::EINVAL));
    assert_eq!(wait(&node, &mut [signalled], 10, 0), Ok(0));
    // It has no fence, and nobody waits for one.
    assert_eq!(wait(&node, &mut [one], 10, 0), Err(Errno::EINVAL));
    assert_eq!(wait(&node, &mut [one], 10, 2), Err(Errno::ETIME));
    assert_eq!(wait(&node, &mut [one, signalled], 10, 2), Ok(1));
    assert_eq!(wait(&node, &mut [one, signalled], 10, 3), Err(Errno::ETIME));
    assert_eq!(wait(&node, &mut [99], 10, 0), Err(Errno::ENOENT));
    assert_eq!(wait(&node, &mut [], 10, 0), Err(Errno::EINVAL));
    assert_eq!(wait(&node, &mut [one], 10, 64), Err(Errno::EINVAL));
    array(&node, 0xc5, &mut [one]).unwrap();
    assert_eq!(wait(&node, &mut [one, signalled], 10, 1), Ok(0));
    array(&node, 0xc4, &mut [one]).unwrap();
    assert_eq!(wait(&node, &mut [one], 10, 0), Err(Errno::EINVAL));
    assert_eq!(call(&node, 0xc0, &mut [one, 0]), Ok(()));
    assert_eq!(call(&node, 0xc0, &mut [one, 0]), Err(Errno::EINVAL));
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn submissions_wait_for_syncobjs_and_signal_them() {
    let node = Node::new("kernel=msm,timeout=60000");
    let memory = node.alloc_at(4096, None);
    let (first, second) = (create(&node, 0).unwrap(), create(&node, 0).unwrap());
    assert_eq!(
        submit(&node, memory, &[(first, 0)], &[]),
        Err(Errno::EINVAL)
    );
    assert_eq!(submit(&node, memory, &[(99, 0)], &[]), Err(Errno::ENOENT));
    submit(&node, memory, &[], &[(first, 0)]).unwrap();
    let last = submit(&node, memory, &[(first, 0)], &[(second, 0)]).unwrap();
    assert_eq!(wait(&node, &mut [first, second], 20, 0), Err(Errno::ETIME));
    // There is a fence, which is all that is asked.
    assert_eq!(wait(&node, &mut [second], 20, 4), Ok(0));
    memory.put(0, &[1]);
    assert_eq!(wait(&node, &mut [first, second], SOON, 1), Ok(0));
    node.wait(last, SOON).unwrap();
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn timelines_have_points() {
    let node = Node::new("kernel=msm,timeout=60000");
    let memory = node.alloc_at(4096, None);
    let line = create(&node, 0).unwrap();
    assert_eq!(timelines(&node, 0xcb, line, 77), Ok(0));
    timelines(&node, 0xcd, line, 3).unwrap();
    assert_eq!(timelines(&node, 0xcb, line, 0), Ok(3));
    let last = submit(&node, memory, &[(line, 3)], &[(line, 8)]).unwrap();
    assert_eq!(timelines(&node, 0xcb, line, 0), Ok(3));
    memory.put(0, &[1]);
    node.wait(last, SOON).unwrap();
    assert_eq!(timelines(&node, 0xcb, line, 0), Ok(8));
    // TRANSFER to a syncobj without points.
    let to = create(&node, 0).unwrap();
    let [low, high] = halves(8);
    call(&node, 0xcc, &mut [line, to, low, high, 0, 0, 0, 0]).unwrap();
    assert_eq!(wait(&node, &mut [to], 10, 0), Ok(0));
    let mut far = [line, to, 99, 0, 0, 0, 0, 0];
    assert_eq!(call(&node, 0xcc, &mut far), Err(Errno::EINVAL));
}

#[test]
fn fences_have_descriptors() {
    let node = Node::new("kernel=msm,timeout=60000");
    let memory = node.alloc_at(4096, None);
    let words = wait_for(memory.gpu);
    let out = |args: &mut msm::GemSubmit| args.flags |= Submit::FENCE_FD_OUT.bits();
    let done = node.submit_with(&words, &[memory], out).unwrap();
    assert_eq!(node.process.ready(done.fence_fd), Ok(false));
    let (sender, told) = std::sync::mpsc::channel();
    let watcher = Box::new(move |ready| sender.send(ready).unwrap());
    // A channel's end is not to be shared between threads without a lock.
    let watcher = std::sync::Mutex::new(watcher);
    let watcher = move |ready| (watcher.lock().unwrap())(ready);
    node.process
        .watch(done.fence_fd, Box::new(watcher))
        .unwrap();
    let wait = |args: &mut msm::GemSubmit| {
        args.flags |= Submit::FENCE_FD_IN.bits();
        args.fence_fd = done.fence_fd;
    };
    let behind = node.submit_with(&words, &[memory], wait).unwrap();
    // A syncobj that takes the fence.
    let sync = create(&node, 0).unwrap();
    call(&node, 0xc2, &mut [sync, 1, done.fence_fd as u32, 0]).unwrap();
    let mut out = [sync, 0, 0, 0];
    call(&node, 0xc1, &mut out).unwrap();
    let mut back = [0, 0, out[2], 0];
    call(&node, 0xc2, &mut back).unwrap();
    let mut wrong = [0, 0, node.fd as u32, 0];
    assert_eq!(call(&node, 0xc2, &mut wrong), Err(Errno::EINVAL));
    memory.put(0, &[1]);
    node.wait(behind.fence, SOON).unwrap();
    assert_eq!(node.process.ready(done.fence_fd), Ok(true));
    assert_eq!((told.recv(), told.recv()), (Ok(false), Ok(true)));
    assert_eq!(super::syncobjs::wait(&node, &mut [back[0]], 10, 0), Ok(0));
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}
