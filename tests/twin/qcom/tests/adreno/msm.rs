//! A client of msm.

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::amd::drm;
use drivers_spec::qcom::msm::{self, Bo, Prep, Submit, SubmitBo, command, info, param};
use drivers_spec::qcom::packet::op;
use hcq::transport::IoctlOf;
use twin::caller::Here;
use twin::errno::{Errno, Result};
use twin::fires::fires;
use twin_qcom::config::Config;
use twin_qcom::kernel::{Machine, Process};

use super::bench::Bench;
use super::rig::{self, Memory, SOON, address, anywhere, list};
use super::stream::Stream;

/// Memory of a node: its number is the handle.
pub type Gem = Memory;

/// See the front page.
pub struct Node {
    pub machine: Arc<Machine>,
    pub process: Arc<Process>,
    pub fd: i32,
}

impl Node {
    pub fn new(config: &str) -> Node {
        Node::on(&Machine::new(Config::parse(config).unwrap()).unwrap())
    }

    pub fn on(machine: &Arc<Machine>) -> Node {
        let process = machine.attach(Arc::new(Here));
        let fd = process.open("/dev/dri/renderD128", None).unwrap();
        Node {
            machine: machine.clone(),
            process,
            fd,
        }
    }

    pub fn call<T>(&self, ioctl: IoctlOf<T>, args: &mut T) -> Result {
        rig::call(&self.process, self.fd, ioctl, args)
    }

    pub fn gem(&self, size: u64, flags: Bo) -> Result<u32> {
        let mut args = msm::GemNew {
            size,
            flags: flags.bits(),
            handle: 0,
        };
        self.call(msm::MSM_GEM_NEW, &mut args)?;
        Ok(args.handle)
    }

    pub fn info(&self, handle: u32, info: u32, value: u64) -> Result<u64> {
        let mut args = msm::by_value::GemInfo {
            handle,
            info,
            value,
        };
        self.call(msm::by_value::MSM_GEM_INFO, &mut args)?;
        Ok(args.value)
    }

    /// Memory, where the client or the kernel wants it.
    pub fn alloc_at(&self, bytes: u64, at: Option<u64>) -> Gem {
        self.mapped(self.gem(bytes, Bo::WC).unwrap(), bytes, at)
    }

    pub fn mapped(&self, handle: u32, bytes: u64, at: Option<u64>) -> Gem {
        if let Some(at) = at {
            self.info(handle, info::SET_IOVA, at).unwrap();
        }
        let gpu = self.info(handle, info::GET_IOVA, 0).unwrap();
        let offset = self.info(handle, info::GET_OFFSET, 0).unwrap();
        let cpu = self.process.mmap(anywhere(bytes), self.fd, offset).unwrap();
        Gem {
            id: handle,
            gpu,
            cpu,
        }
    }

    /// A submission of commands with memory that it lists.
    pub fn submit_with(
        &self,
        words: &[u32],
        memory: &[Gem],
        change: impl FnOnce(&mut msm::GemSubmit),
    ) -> Result<msm::GemSubmit> {
        let bytes = (words.len() as u64 * 4).next_multiple_of(4096);
        let commands = self.alloc_at(bytes, None);
        commands.put(0, words);
        let bo = |flags: SubmitBo, handle| msm::GemSubmitBo {
            flags: flags.bits(),
            handle,
            presumed: 0,
        };
        let mut bos = vec![bo(SubmitBo::READ, commands.id)];
        let both = SubmitBo::READ | SubmitBo::WRITE;
        bos.extend(memory.iter().map(|gem| bo(both, gem.id)));
        let mut cmds = [msm::GemSubmitCmd {
            kind: command::BUF,
            size: words.len() as u32 * 4,
            ..msm::GemSubmitCmd::default()
        }];
        let mut args = msm::GemSubmit {
            flags: msm::PIPE_3D0,
            nr_bos: bos.len() as u32,
            nr_cmds: 1,
            bos: list(&mut bos),
            cmds: list(&mut cmds),
            ..msm::GemSubmit::default()
        };
        change(&mut args);
        self.call(msm::MSM_GEM_SUBMIT, &mut args)?;
        Ok(args)
    }

    /// The same; returns the fence.
    pub fn submit(&self, words: &[u32], memory: &[Gem]) -> Result<u32> {
        Ok(self.submit_with(words, memory, |_| {})?.fence)
    }

    pub fn wait(&self, fence: u32, milliseconds: u32) -> Result {
        self.wait_on(0, fence, milliseconds)
    }

    pub fn wait_on(&self, queueid: u32, fence: u32, milliseconds: u32) -> Result {
        let mut args = msm::WaitFence {
            fence,
            queueid,
            timeout: in_future(milliseconds),
            ..msm::WaitFence::default()
        };
        self.call(msm::MSM_WAIT_FENCE, &mut args)
    }

    pub fn param(&self, param: u32) -> Result<u64> {
        let mut args = msm::Param {
            pipe: msm::PIPE_3D0,
            param,
            ..msm::Param::default()
        };
        self.call(msm::MSM_GET_PARAM, &mut args)?;
        Ok(args.value)
    }
}

/// A time of CLOCK_MONOTONIC.
pub fn in_future(milliseconds: u32) -> msm::Timespec {
    let now = Duration::from_nanos(twin::host::user::clock(libc::CLOCK_MONOTONIC));
    let then = now + Duration::from_millis(milliseconds.into());
    msm::Timespec {
        tv_sec: then.as_secs() as i64,
        tv_nsec: then.subsec_nanos().into(),
    }
}

/// Where what waits is not taken to hang, however slow the host is.
const MSM: &str = "kernel=msm,chip=a660,timeout=60000";

fn write(at: u64, value: u32) -> Stream {
    Stream::default().command(op::MEM_WRITE, &[at as u32, (at >> 32) as u32, value])
}

fn wait_for(at: u64, value: u32) -> Stream {
    let body = [0x13, at as u32, (at >> 32) as u32, value, u32::MAX, 32];
    Stream::default().command(op::WAIT_REG_MEM, &body)
}

#[test]
fn facts_of_the_gpu() {
    let node = Node::new(MSM);
    assert_eq!(node.param(param::GPU_ID), Ok(660));
    assert_eq!(
        node.param(param::CHIP_ID).map(|id| id as u32 >> 8),
        Ok(0x06_06_00)
    );
    assert_eq!(node.param(param::PRIORITIES), Ok(3));
    assert_eq!(node.param(param::VA_START), Ok(1 << 32));
    assert_eq!(node.param(param::FAULTS), Ok(0));
    assert_eq!(node.param(0x7f), Err(Errno::EINVAL));
    let mut args = msm::Param::default();
    assert_eq!(node.call(msm::MSM_GET_PARAM, &mut args), Err(Errno::EINVAL));
    let mut name = [0_u8; 8];
    let mut args = drm::Version {
        name: list(&mut name),
        name_len: 8,
        ..drm::Version::default()
    };
    node.call(drm::VERSION, &mut args).unwrap();
    assert_eq!(
        (&name[..3], args.name_len, args.version_major),
        (&b"msm"[..], 3, 1)
    );
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn memory_of_a_node() {
    let node = Node::new(MSM);
    assert_eq!(node.gem(0, Bo::WC), Err(Errno::EINVAL));
    assert_eq!(node.gem(4096, Bo::empty()), Err(Errno::EINVAL));
    assert_eq!(
        node.gem(4096, Bo::from_bits_retain(0x10 | 0x2_0000)),
        Err(Errno::EINVAL)
    );
    node.gem(4096, Bo::CACHED_COHERENT).unwrap();
    let older = Node::new("kernel=msm,chip=a630");
    assert_eq!(older.gem(4096, Bo::CACHED_COHERENT), Err(Errno::EINVAL));
    let handle = node.gem(5000, Bo::UNCACHED).unwrap();
    let flags = node.info(handle, info::GET_FLAGS, 0).unwrap();
    assert_eq!(flags, u64::from(Bo::WC.bits()));
    let at = 0x60_0000_0000;
    assert_eq!(node.info(handle, info::SET_IOVA, at), Ok(at));
    assert_eq!(node.info(handle, info::GET_IOVA, 0), Ok(at));
    assert_eq!(
        node.info(handle, info::SET_IOVA, at + 4096),
        Err(Errno::EBUSY)
    );
    let other = node.gem(4096, Bo::WC).unwrap();
    assert_eq!(
        node.info(other, info::SET_IOVA, at + 4096),
        Err(Errno::ENOSPC)
    );
    assert_eq!(node.info(other, info::SET_IOVA, 4096), Err(Errno::ENOSPC));
    assert_eq!(node.info(99, info::GET_IOVA, 0), Err(Errno::ENOENT));
    assert_eq!(node.info(handle, 9, 0), Err(Errno::EINVAL));
    let mut close = drm::GemClose {
        handle,
        ..drm::GemClose::default()
    };
    node.call(drm::GEM_CLOSE, &mut close).unwrap();
    assert_eq!(node.call(drm::GEM_CLOSE, &mut close), Err(Errno::EINVAL));
    // Its addresses are free.
    assert_eq!(node.info(other, info::SET_IOVA, at), Ok(at));
    let mut advice = msm::GemMadvise {
        handle: other,
        madv: 1,
        retained: 0,
    };
    node.call(msm::MSM_GEM_MADVISE, &mut advice).unwrap();
    assert_eq!(advice.retained, 1);
    advice.madv = 2;
    assert_eq!(
        node.call(msm::MSM_GEM_MADVISE, &mut advice),
        Err(Errno::EINVAL)
    );
}

#[test]
fn submissions_have_fences() {
    let node = Node::new(MSM);
    let memory = node.alloc_at(4096, None);
    let words = wait_for(memory.gpu, 1)
        .then(write(memory.gpu + 4, 7))
        .words();
    let fence = node.submit(&words, &[memory]).unwrap();
    assert_eq!(node.wait(fence, 20), Err(Errno::ETIMEDOUT));
    assert_eq!(node.wait(fence + 1, 20), Err(Errno::EINVAL));
    assert_eq!(node.wait_on(7, fence, 20), Err(Errno::ENOENT));
    let prep = |op: Prep| {
        let mut args = msm::GemCpuPrep {
            handle: memory.id,
            op: op.bits(),
            timeout: in_future(20),
        };
        node.call(msm::MSM_GEM_CPU_PREP, &mut args)
    };
    assert_eq!(prep(Prep::READ | Prep::NOSYNC), Err(Errno::EBUSY));
    assert_eq!(prep(Prep::READ), Err(Errno::ETIMEDOUT));
    assert_eq!(prep(Prep::from_bits_retain(0x100)), Err(Errno::EINVAL));
    memory.put(0, &[1]);
    node.wait(fence, SOON).unwrap();
    assert_eq!(memory.word(4), 7);
    assert_eq!(prep(Prep::READ | Prep::WRITE | Prep::NOSYNC), Ok(()));
    let mut fini = msm::GemCpuFini { handle: memory.id };
    assert_eq!(node.call(msm::MSM_GEM_CPU_FINI, &mut fini), Ok(()));
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn submissions_are_checked() {
    let node = Node::new(MSM);
    let words = Stream::default().command(op::NOP, &[]).words();
    let submit = |change: &dyn Fn(&mut msm::GemSubmit)| {
        let done = node.submit_with(&words, &[], change);
        done.map(|args| args.fence)
    };
    assert_eq!(submit(&|_| {}), Ok(1));
    assert_eq!(submit(&|args| args.flags = 0), Err(Errno::EINVAL));
    assert_eq!(submit(&|args| args.pad = 1), Err(Errno::EINVAL));
    assert_eq!(submit(&|args| args.queueid = 5), Err(Errno::ENOENT));
    assert_eq!(submit(&|args| args.nr_bos = 0), Err(Errno::EINVAL));
    let sudo = Submit::SUDO.bits();
    assert_eq!(submit(&|args| args.flags |= sudo), Err(Errno::EINVAL));
    let fd = node.fd;
    let fence = |args: &mut msm::GemSubmit| {
        args.flags |= Submit::FENCE_FD_IN.bits();
        args.fence_fd = fd;
    };
    assert_eq!(submit(&fence), Err(Errno::EINVAL));
    let own = |number| {
        move |args: &mut msm::GemSubmit| {
            args.flags |= Submit::FENCE_SN_IN.bits();
            args.fence = number;
        }
    };
    assert_eq!(submit(&own(0)), Err(Errno::EINVAL));
    assert_eq!(submit(&own(77)), Ok(77));
    node.wait(77, SOON).unwrap();
    // It is listed twice.
    let bo = msm::GemSubmitBo {
        flags: SubmitBo::READ.bits(),
        handle: 1,
        presumed: 0,
    };
    let mut bos = [bo; 2];
    let bos = list(&mut bos);
    let twice = move |args: &mut msm::GemSubmit| (args.nr_bos, args.bos) = (2, bos);
    assert!(submit(&twice).is_err());
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn memory_that_is_used_is_listed() {
    let node = Node::new(MSM);
    let memory = node.alloc_at(4096, None);
    let fence = node.submit(&write(memory.gpu, 3).words(), &[]).unwrap();
    node.wait(fence, SOON).unwrap();
    fires("MSM-BO-NOT-LISTED").only(&node.machine.broken_rules());
}

#[test]
fn queues_have_priorities_and_count_faults() {
    let node = Node::new("kernel=msm,fault=hang:1");
    let queue = |prio| {
        let mut args = msm::Submitqueue {
            prio,
            ..msm::Submitqueue::default()
        };
        node.call(msm::MSM_SUBMITQUEUE_NEW, &mut args)?;
        Ok::<u32, Errno>(args.id)
    };
    let id = queue(0).unwrap();
    assert!(id > 0);
    assert_eq!(queue(3), Err(Errno::EINVAL));
    let words = Stream::default().command(op::NOP, &[]).words();
    let done = node.submit_with(&words, &[], |args| args.queueid = id);
    node.wait_on(id, done.unwrap().fence, SOON).unwrap();
    let faults = |id| {
        let mut faults = 0_u32;
        let mut args = msm::SubmitqueueQuery {
            data: address(&mut faults),
            id,
            len: 4,
            ..msm::SubmitqueueQuery::default()
        };
        node.call(msm::MSM_SUBMITQUEUE_QUERY, &mut args)?;
        Ok::<u32, Errno>(faults)
    };
    assert_eq!((faults(id), faults(0)), (Ok(1), Ok(0)));
    assert_eq!(faults(99), Err(Errno::ENOENT));
    assert_eq!(node.param(param::FAULTS), Ok(2));
    let close = |mut id: u32| node.call(msm::MSM_SUBMITQUEUE_CLOSE, &mut id);
    assert_eq!(close(0), Err(Errno::ENOENT));
    assert_eq!(close(id), Ok(()));
    assert_eq!(close(id), Err(Errno::ENOENT));
}

#[test]
fn a_closed_queue_ends_what_it_has() {
    let node = Node::new(MSM);
    let queue = || {
        let mut args = msm::Submitqueue::default();
        node.call(msm::MSM_SUBMITQUEUE_NEW, &mut args).unwrap();
        args.id
    };
    let mut id = queue();
    let (gate, memory) = (node.alloc_at(4096, None), node.alloc_at(4096, None));
    let words = wait_for(gate.gpu, 1).then(write(memory.gpu, 7)).words();
    let both = [gate, memory];
    let first = node.submit_with(&words, &both, |args| args.queueid = id);
    let fence = first.unwrap().fence;
    // It is not waited for, and is nobody's any more.
    node.call(msm::MSM_SUBMITQUEUE_CLOSE, &mut id).unwrap();
    assert_eq!(node.wait_on(id, fence, SOON), Err(Errno::ENOENT));
    assert_eq!(memory.word(0), 0);
    assert_eq!(queue(), id + 1);
    // What uses the same memory comes behind it.
    let next = write(memory.gpu + 4, 8).words();
    let fence = node.submit(&next, &[memory]).unwrap();
    gate.put(0, &[1]);
    node.wait(fence, SOON).unwrap();
    assert_eq!(memory.words::<2>(0), [7, 8]);
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn closed_memory_stays_until_its_submissions_are_done() {
    let node = Node::new(MSM);
    let (gate, memory) = (node.alloc_at(4096, None), node.alloc_at(4096, None));
    let words = wait_for(gate.gpu, 1).then(write(memory.gpu, 7)).words();
    let fence = node.submit(&words, &[gate, memory]).unwrap();
    let mut close = drm::GemClose {
        handle: memory.id,
        ..drm::GemClose::default()
    };
    node.call(drm::GEM_CLOSE, &mut close).unwrap();
    let other = node.gem(4096, Bo::WC).unwrap();
    let place = || node.info(other, info::SET_IOVA, memory.gpu);
    assert_eq!(place(), Err(Errno::ENOSPC));
    gate.put(0, &[1]);
    node.wait(fence, SOON).unwrap();
    assert_eq!((memory.word(0), place()), (7, Ok(memory.gpu)));
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

/// The kernel invalidates the caches where the file changes, not where its queue does.
#[test]
fn queues_of_a_file_share_what_is_cached() {
    let bench = Bench::new("");
    let node = Node::new("kernel=msm,timeout=60000");
    let there = |from: &Memory| {
        let to = node.alloc_at(4096, Some(from.gpu));
        to.put(0, &from.words::<1024>(0));
        to
    };
    let [sum, first, second] = [0, 1, 2].map(|i| there(&bench.arrays[i]));
    let rest = [&bench.code, &bench.args, &bench.stack].map(there);
    let all = [&[sum, first, second][..], &rest].concat();
    let words = bench.dispatch().words();
    let mut args = msm::Submitqueue::default();
    node.call(msm::MSM_SUBMITQUEUE_NEW, &mut args).unwrap();
    let run = |queue| {
        let done = node.submit_with(&words, &all, |args| args.queueid = queue);
        node.wait_on(queue, done.unwrap().fence, SOON).unwrap();
        f32::from_bits(sum.word(0))
    };
    assert_eq!(run(0), 1000.0);
    first.put(0, &[5_f32.to_bits()]);
    // Another file in between.
    let other = Node::on(&node.machine);
    let nop = Stream::default().command(op::NOP, &[]).words();
    other.wait(other.submit(&nop, &[]).unwrap(), SOON).unwrap();
    assert_eq!((run(0), node.machine.broken_rules()), (1005.0, vec![]));
    first.put(0, &[6_f32.to_bits()]);
    assert_eq!(run(args.id), 1005.0);
    fires("GPU-UCHE-INVALIDATE").only(&node.machine.broken_rules());
}

#[test]
fn a_submission_that_hangs_is_left_out() {
    let node = Node::new("kernel=msm,timeout=50");
    let memory = node.alloc_at(4096, None);
    let words = wait_for(memory.gpu, 1)
        .then(write(memory.gpu + 4, 7))
        .words();
    let fence = node.submit(&words, &[memory]).unwrap();
    node.wait(fence, SOON).unwrap();
    assert_eq!(memory.word(4), 0);
    // The next one runs.
    let fence = node
        .submit(&write(memory.gpu + 8, 9).words(), &[memory])
        .unwrap();
    node.wait(fence, SOON).unwrap();
    assert_eq!(memory.word(8), 9);
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn cached_memory_is_seen_after_a_wait() {
    let node = Node::new(MSM);
    let handle = node.gem(4096, Bo::CACHED).unwrap();
    let memory = node.mapped(handle, 4096, None);
    memory.put(0, &[5]);
    let [low, high] = [memory.gpu as u32, (memory.gpu >> 32) as u32];
    let copy = [0, low + 64, high, low, high];
    let words = Stream::default().command(op::MEM_TO_MEM, &copy).words();
    let fence = node.submit(&words, &[memory]).unwrap();
    node.wait(fence, SOON).unwrap();
    assert_eq!(memory.word(64), 5);
    assert_eq!(node.machine.broken_rules(), [""; 0]);
}

#[test]
fn memory_goes_from_a_process_to_another() {
    let node = Node::new(MSM);
    let memory = node.alloc_at(4096, None);
    let mut args = drm::PrimeHandle {
        handle: memory.id,
        flags: (libc::O_CLOEXEC | libc::O_RDWR) as u32,
        fd: 0,
    };
    node.call(drm::PRIME_HANDLE_TO_FD, &mut args).unwrap();
    let fd = args.fd;
    args.flags = 1 << 12;
    assert_eq!(
        node.call(drm::PRIME_HANDLE_TO_FD, &mut args),
        Err(Errno::EINVAL)
    );
    // The same file gets its own handle back.
    let mut back = drm::PrimeHandle {
        fd,
        ..drm::PrimeHandle::default()
    };
    node.call(drm::PRIME_FD_TO_HANDLE, &mut back).unwrap();
    assert_eq!(back.handle, memory.id);
    // Another file of the process has another.
    let second = node.process.open("/dev/dri/renderD128", None).unwrap();
    rig::call(&node.process, second, drm::PRIME_FD_TO_HANDLE, &mut back).unwrap();
    let other = Node {
        machine: node.machine.clone(),
        process: node.process.clone(),
        fd: second,
    };
    let there = other.mapped(back.handle, 4096, None);
    memory.put(0, &[42]);
    assert_eq!(there.word(0), 42);
    let fence = other
        .submit(&write(there.gpu + 4, 43).words(), &[there])
        .unwrap();
    other.wait(fence, SOON).unwrap();
    assert_eq!(memory.word(4), 43);
    back.fd = node.fd;
    assert_eq!(
        node.call(drm::PRIME_FD_TO_HANDLE, &mut back),
        Err(Errno::EINVAL)
    );
    back.fd = 7777;
    assert_eq!(
        node.call(drm::PRIME_FD_TO_HANDLE, &mut back),
        Err(Errno::EBADF)
    );
    node.process.exit();
    assert_eq!(node.process.objects(), [""; 0]);
}

#[test]
fn other_ioctls_are_named() {
    let node = Node::new(MSM);
    let mut args = [0_u64; 8];
    let unknown = node.process.ioctl(node.fd, 0xc010_647f, list(&mut args));
    assert_eq!(unknown, Err(Errno::EINVAL));
    fires("MSM-UNKNOWN-IOCTL").only(&node.machine.broken_rules());
}
