//! What submissions cost where the host has no mapping: transfers over a cable, and how many of them it
//! waits for.

use crate::cable;
use crate::stand;

use std::sync::Arc;

use cable::Remote;
use drivers_amd::{AmdDevice, Options, kfd};
use hcq::graph::{GraphBuilder, Work};
use hcq::transport::cable::{Cable, Transfers};
use hcq::{Buffer, Command, Device, MemoryKind, Program, QueueKind, Span, Stream, Val};
use stand::{at, memory, soon};

/// The most that one exec, or one replay, may wait for: with the look that finds it done.
const MOST: u64 = 3;

/// A device at the other end of a cable.
struct Far {
    device: Arc<AmdDevice>,
    cable: Arc<Cable>,
    compute: Stream,
    step: Arc<Program>,
    data: Buffer,
}

impl Far {
    fn open() -> Far {
        let twin = stand::twin("chip=gfx1100,vram=1G");
        let options = Options::default();
        let near = kfd::open(&stand::machine(&twin), 0, &options).unwrap();
        let cable = Cable::new();
        let device = drivers_amd::over(&Remote::over(&cable, near), &options).unwrap();
        let step = device.load(&stand::kernel("gfx1100", "step", 2)).unwrap();
        let data = memory(&*device, MemoryKind::Device, 4096).unwrap();
        data.write(0, &[0; 4096]).unwrap();
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        Far {
            device,
            cable,
            compute,
            step,
            data,
        }
    }

    /// What some work takes of the cable.
    fn cost(&self, work: impl FnOnce()) -> Transfers {
        let before = self.cable.transfers();
        work();
        self.cable.transfers() - before
    }

    /// The first element.
    fn value(&self) -> u32 {
        let mut bytes = [0; 4];
        self.data.read(0, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }
}

/// The kernel `step`.
fn step(value: u32, by: u64) -> u32 {
    value.wrapping_mul(3).wrapping_add(by as u32)
}

/// How often something is measured that ends with a wait: a look is a transfer, and how many there are
/// depends on how long the simulated device takes; the fewest are what it costs.
const ROUNDS: u64 = 10;

#[test]
fn one_exec_waits_for_few_transfers() {
    let far = Far::open();
    let mut expected = 0;
    let mut least = u64::MAX;
    for i in 0..ROUNDS {
        let args = [at(&far.data), Val::Const(i)];
        let exec = Command::Exec {
            program: &far.step,
            args: &args,
            grid: [1, 1, 1],
            block: [1, 1, 1],
        };
        let mut point = None;
        let submitted = far.cost(|| point = Some(far.compute.submit(&[], &[exec]).unwrap()));
        let waited = far.cost(|| point.unwrap().wait(soon()).unwrap());
        println!("exec {i}: {submitted}; until it is done: {waited}");
        // Arguments, ring, pointer and doorbell go together, and nothing is asked.
        assert_eq!((submitted.posted, submitted.waited), (1, 0));
        least = least.min(submitted.waited + waited.waited);
        expected = step(expected, i);
    }
    assert!(least <= MOST, "{least} transfers that are waited for");
    assert_eq!(far.value(), expected);
}

#[test]
fn a_replay_waits_for_few_transfers_however_long_it_is() {
    let far = Far::open();
    let mut expected = 0;
    for kernels in [1, 10, 100] {
        let shared: Arc<dyn Device> = far.device.clone();
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(&shared, &far.compute);
        let slot = builder.slot().unwrap();
        let span = Span::at(far.data.va().0, far.data.bytes());
        for i in 0..kernels {
            let work = Work::Exec {
                program: far.step.clone(),
                // Every kernel's arguments change from replay to replay.
                args: vec![at(&far.data), Val::Slot(slot, i)],
                grid: [1, 1, 1],
                block: [1, 1, 1],
            };
            builder.add(lane, "step", work, [span], [span]);
        }
        let mut graph = builder.build().unwrap();
        let mut least = u64::MAX;
        for round in 0..ROUNDS {
            let replayed = far.cost(|| {
                graph.replay(&[round], &[], soon()).unwrap();
            });
            let waited = far.cost(|| graph.wait(soon()).unwrap());
            println!("replay {round} of {kernels}: {replayed}; until it is done: {waited}");
            assert!(replayed.waited <= MOST, "{replayed}");
            // What has changed is one piece of one transfer, with the doorbell.
            assert_eq!(replayed.posted, 1, "{replayed}");
            least = least.min(replayed.waited + waited.waited);
            for i in 0..kernels {
                expected = step(expected, round + i);
            }
        }
        assert!(
            least <= MOST,
            "{kernels}: {least} transfers that are waited for"
        );
        assert_eq!(far.value(), expected, "{kernels}");
    }
}

#[test]
fn work_of_every_kind_is_done_over_a_cable() {
    let far = Far::open();
    let bytes = 3 << 20;
    let content: Vec<u8> = (0..bytes).map(|i| ((i * 7) >> 3) as u8).collect();
    let (a, b) = (
        memory(&*far.device, MemoryKind::Device, bytes).unwrap(),
        memory(&*far.device, MemoryKind::Host, bytes).unwrap(),
    );
    let copy = Stream::new(far.device.queue(QueueKind::Copy, 0).unwrap());
    a.write(0, &content).unwrap();
    let move_it = Command::Copy {
        dst: at(&b),
        src: at(&a),
        bytes,
    };
    copy.submit(&[], &[move_it]).unwrap().wait(soon()).unwrap();
    let mut seen = vec![0; bytes as usize];
    b.read(0, &mut seen).unwrap();
    assert!(seen == content);
    assert!(b.view().is_err() && a.view().is_err());
    far.device.synchronize(soon()).unwrap();
}
