//! Scratch memory grows while kernels use it; what was outgrown is freed once nobody uses it any more.

use crate::stand;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drivers_amd::AmdDevice;
use drivers_amd::backend::{AmdBackend, Gpu, HardwareQueue, QueueHandle, QueueRequest};
use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use hcq::graph::{GraphBuilder, Work};
use hcq::mem::window::Window;
use hcq::{
    Buffer, Command, CommandBuffer, Device, DeviceId, Error, MemoryKind, Program, QueueKind,
    Result, Span, Stream, Val,
};
use stand::{at, memory, soon};
use twin_amd::machine::TwinMachine;

const GROUPS: u32 = 8;

/// A device with 16 bytes of ones a group, and room for their sums.
struct Bench {
    twin: Arc<TwinMachine>,
    chip: &'static str,
    device: Arc<AmdDevice>,
    compute: Stream,
    ones: Buffer,
    out: Buffer,
}

impl Bench {
    fn new(chip: &'static str, config: &str) -> Bench {
        let twin = stand::twin(&format!("chip={chip},vram=2G{config}"));
        let device = drivers_amd::open(&stand::machine(&twin), 0, &stand::options()).unwrap();
        let bytes = u64::from(GROUPS) * 16;
        let ones = memory(&*device, MemoryKind::Host, bytes).unwrap();
        ones.write(0, &vec![1; bytes as usize]).unwrap();
        let out = memory(&*device, MemoryKind::Host, bytes).unwrap();
        Bench {
            compute: Stream::new(device.queue(QueueKind::Compute, 0).unwrap()),
            twin,
            chip,
            device,
            ones,
            out,
        }
    }

    fn load(&self, entry: &str) -> Arc<Program> {
        let image = stand::kernel(self.chip, entry, 2);
        self.device.load(&image).unwrap()
    }

    /// Sums, from a place of the output on.
    fn args(&self, at_group: u64) -> [Val; 2] {
        [Val::Const(self.out.va().0 + at_group * 4), at(&self.ones)]
    }

    /// The output, which is zeroed.
    fn sums(&self) -> Vec<u32> {
        let mut bytes = vec![0; GROUPS as usize * 16];
        self.out.read(0, &mut bytes).unwrap();
        self.out.write(0, &vec![0; bytes.len()]).unwrap();
        let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        bytes.chunks_exact(4).map(word).collect()
    }

    /// Bytes of device memory in use once everything is done.
    fn used(&self) -> u64 {
        self.device.synchronize(soon()).unwrap();
        self.device.memory().used
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let broken = self.twin.machine().journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(
            std::thread::panicking() || broken.is_empty(),
            "{}",
            broken.join("\n")
        );
    }
}

fn exec<'a>(program: &'a Program, args: &'a [Val], groups: u32) -> Command<'a> {
    Command::Exec {
        program,
        args,
        grid: [groups, 1, 1],
        block: [1, 1, 1],
    }
}

const CHIPS: [(&str, &str); 4] = [
    ("gfx1030", ""),
    ("gfx1100", ""),
    ("gfx1201", ""),
    ("gfx942", ",xcc=1"),
];

#[test]
fn what_was_outgrown_is_freed_when_its_last_user_is_done() {
    for (chip, config) in CHIPS {
        let least = {
            let bench = Bench::new(chip, config);
            let _programs = (bench.load("deep"), bench.load("sums"));
            bench.used()
        };
        let bench = Bench::new(chip, config);
        let sums = bench.load("sums");
        let gate = bench.device.signal("gate").unwrap();
        let wait = Command::Wait {
            signal: &gate,
            value: Val::Const(1),
        };
        let is_aql = chip == "gfx942";
        // An AQL queue comes to rest before it gets another scratch.
        if !is_aql {
            bench.compute.submit(&[], &[wait]).unwrap();
        }
        let small = bench.args(0);
        let held = bench
            .compute
            .submit(&[], &[exec(&sums, &small, GROUPS)])
            .unwrap();
        let deep = bench.load("deep");
        let large = bench.args(u64::from(GROUPS));
        bench
            .compute
            .submit(&[], &[exec(&deep, &large, GROUPS)])
            .unwrap();
        if !is_aql {
            assert!(
                bench.device.memory().used > least,
                "{chip}: one waits for the gate"
            );
        }
        gate.set(1).unwrap();
        held.wait(soon()).unwrap();
        assert_eq!(bench.used(), least, "{chip}");
        assert_eq!(
            bench.sums()[..2 * GROUPS as usize],
            [16; 2 * GROUPS as usize],
            "{chip}"
        );
        // Both fit the new one.
        let barrier = Command::Barrier {
            scope: hcq::Scope::Queue,
        };
        let commands = [
            exec(&sums, &small, GROUPS),
            barrier,
            exec(&deep, &large, GROUPS),
        ];
        bench.compute.submit(&[], &commands).unwrap();
        assert_eq!(bench.used(), least, "{chip}");
        assert_eq!(
            bench.sums()[..2 * GROUPS as usize],
            [16; 2 * GROUPS as usize],
            "{chip}"
        );
    }
}

#[test]
fn packets_and_graphs_keep_the_scratch_that_they_name() {
    for (chip, config) in CHIPS {
        let bench = Bench::new(chip, config);
        let sums = bench.load("sums");
        let args = bench.args(0);
        let queue = bench.device.queue(QueueKind::Compute, 0).unwrap();
        let mut packets = CommandBuffer::new();
        queue
            .encode(&[exec(&sums, &args, GROUPS)], &mut packets)
            .unwrap();
        let mut builder = GraphBuilder::new();
        let shared: Arc<dyn Device> = bench.device.clone();
        let lane = builder.lane(&shared, &bench.compute);
        let work = Work::Exec {
            program: sums.clone(),
            args: bench.args(u64::from(GROUPS)).to_vec(),
            grid: [GROUPS, 1, 1],
            block: [1, 1, 1],
        };
        let span = |b: &Buffer| Span::at(b.va().0, b.bytes());
        builder.add(lane, "sums", work, [span(&bench.ones)], [span(&bench.out)]);
        let mut graph = builder.build().unwrap();
        let before = bench.used();

        let _deep = bench.load("deep");
        let both = bench.used();
        for _ in 0..3 {
            let again = queue.timeline().submit(|turn| {
                let (signal, signal_value) = (turn.signal(), turn.signal_value());
                turn.packets().clone_from(&packets);
                let value = signal_value.into();
                queue.encode(&[Command::Signal { signal, value }], turn.packets())?;
                queue.submit(turn)
            });
            again.unwrap();
            graph.replay(&[], &[], soon()).unwrap();
            assert_eq!(bench.used(), both, "{chip}");
            let sums = bench.sums();
            assert_eq!(
                sums[..2 * GROUPS as usize],
                [16; 2 * GROUPS as usize],
                "{chip}"
            );
        }
        packets.clear();
        drop(graph);
        let after = bench.used();
        match chip {
            // AQL packets name none.
            "gfx942" => assert_eq!(after, both),
            _ => assert!(after < both && after > before, "{before} {both} {after}"),
        }
    }
}

#[test]
fn a_queue_that_outlives_its_device_keeps_the_scratch() {
    for (chip, config) in CHIPS {
        let bench = Bench::new(chip, config);
        let sums = bench.load("sums");
        let args = bench.args(0);
        let Bench { compute, .. } = &bench;
        let other = drivers_amd::open(&stand::machine(&bench.twin), 0, &stand::options()).unwrap();
        let queue = Stream::new(other.queue(QueueKind::Compute, 0).unwrap());
        let image = stand::kernel(chip, "sums", 2);
        let program = other.load(&image).unwrap();
        drop(other);
        // Whoever allocates now would get what was freed.
        let taken: Vec<_> = (0..8)
            .map(|_| memory(&*bench.device, MemoryKind::Device, 32 << 20).unwrap())
            .collect();
        for (stream, program) in [(&queue, &program), (compute, &sums)] {
            let done = stream.submit(&[], &[exec(program, &args, GROUPS)]).unwrap();
            done.wait(soon()).unwrap();
            assert_eq!(
                bench.sums()[..GROUPS as usize],
                [16; GROUPS as usize],
                "{chip}"
            );
        }
        drop(taken);
    }
}

/// An interface whose queues leave the hardware for a new mapping, and do not come back.
struct Gone {
    near: Arc<dyn AmdBackend>,
    is_lost: bool,
}

/// A queue of it.
struct Left {
    near: Box<dyn QueueHandle>,
    device: DeviceId,
    is_lost: bool,
    asked: AtomicBool,
}

impl QueueHandle for Left {
    fn remap(&self) -> Result<()> {
        // One that is refused alone goes on as before.
        if self.asked.swap(true, Ordering::Relaxed) && !self.is_lost {
            return self.near.remap();
        }
        let device = self.device.clone();
        Err(match self.is_lost {
            true => Error::Fault {
                device,
                unit: "queue".into(),
                what: "it did not come back".into(),
            },
            false => Error::Os {
                device,
                call: "AMDKFD_IOC_UPDATE_QUEUE".into(),
                source_text: "it stays as it was".into(),
                errno: Some(libc::EINVAL),
                hint: "Try again".into(),
            },
        })
    }

    fn stop(&self) -> bool {
        self.near.stop()
    }
}

impl Backend for Gone {
    fn id(&self) -> &DeviceId {
        self.near.id()
    }
    fn name(&self) -> &'static str {
        self.near.name()
    }
    fn facts(&self) -> &Facts {
        self.near.facts()
    }
    fn space(&self) -> &Arc<Space> {
        self.near.space()
    }
    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        self.near.memory(request)
    }
    fn event(&self) -> Result<Event> {
        self.near.event()
    }
    fn wake(&self, event: &Event) {
        self.near.wake(event);
    }
    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.near.sleep(event, age, limit)
    }
    fn tells_whose(&self) -> bool {
        self.near.tells_whose()
    }
    fn take_own(&self, exception: &Exception) -> bool {
        self.near.take_own(exception)
    }
    fn stops_all(&self) -> bool {
        self.near.stops_all()
    }
    fn flush_vram(&self) -> Result<()> {
        self.near.flush_vram()
    }
    fn ticks(&self) -> Result<u64> {
        self.near.ticks()
    }
    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.near.window_at(va)
    }
}

impl AmdBackend for Gone {
    fn gpu(&self) -> &Gpu {
        self.near.gpu()
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<HardwareQueue> {
        let mut made = self.near.queue(request)?;
        made.handle = Box::new(Left {
            near: made.handle,
            device: self.id().clone(),
            is_lost: self.is_lost,
            asked: AtomicBool::new(false),
        });
        Ok(made)
    }
}

#[test]
fn a_queue_that_is_not_mapped_again_is_the_loss_of_the_device() {
    for is_lost in [false, true] {
        let twin = stand::twin("chip=gfx942,xcc=1,vram=2G");
        let options = stand::options();
        let near = drivers_amd::kfd::open(&stand::machine(&twin), 0, &options).unwrap();
        let backend: Arc<dyn AmdBackend> = Arc::new(Gone { near, is_lost });
        let device = drivers_amd::over(&backend, &options).unwrap();
        let error = device
            .load(&stand::kernel("gfx942", "sums", 2))
            .map(|_| ())
            .unwrap_err();
        assert_eq!(
            matches!(error, Error::DeviceLost { .. }),
            is_lost,
            "{error}"
        );
        assert_eq!(device.status().is_err(), is_lost);
    }
}
