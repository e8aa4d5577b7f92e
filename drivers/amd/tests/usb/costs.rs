//! What a card behind a bridge costs, in waits of the host: counted, as the bridge sees them.

use std::sync::Arc;
use std::time::Duration;

use hcq::graph::{GraphBuilder, Work};
use hcq::transport::Machine;
use hcq::{Command, Device, MemoryKind, QueueKind, Span, Stream, Val};
use twin_amd::usb::UsbMachine;

use super::stand::{self, at, memory, soon};
use super::{open, options, unbroken};

/// The most that one exec, or one replay, may wait for: with the look that finds it done.
const MOST: u64 = 3;

/// How often something is measured that ends with a look: there are more of them while the simulated card is slow;
/// the fewest are what it costs.
const ROUNDS: u64 = 10;

/// The kernel `step`.
fn step(value: u32, by: u64) -> u32 {
    value.wrapping_mul(3).wrapping_add(by as u32)
}

#[test]
fn an_exec_and_a_replay_of_a_hundred_kernels_are_few_waits() {
    let twin = UsbMachine::new("chip=gfx1201").unwrap();
    let machine: Arc<dyn Machine> = twin.clone();
    let device = open(&machine, &options()).unwrap();
    let waits = || twin.bridge(0).unwrap().counts().round_trips;
    let program = device.load(&stand::kernel("gfx1201", "step", 2)).unwrap();
    let data = memory(&*device, MemoryKind::Device, 4096).unwrap();
    data.write(0, &[0; 4096]).unwrap();
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let mut expected = 0;
    let mut least = u64::MAX;
    for i in 0..ROUNDS {
        let args = [at(&data), Val::Const(i)];
        let exec = Command::Exec {
            program: &program,
            args: &args,
            grid: [1, 1, 1],
            block: [1, 1, 1],
        };
        let before = waits();
        let point = compute.submit(&[], &[exec]).unwrap();
        let submitted = waits() - before;
        // Longer each time, until one look finds it done.
        std::thread::sleep(Duration::from_millis(10 << i));
        point.wait(soon()).unwrap();
        let all = waits() - before;
        println!("exec {i}: {submitted} waits; until it is done: {all}");
        least = least.min(all);
        expected = step(expected, i);
        if least <= MOST {
            break;
        }
    }
    assert!(least <= MOST, "an exec: {least}");
    for kernels in [1, 100] {
        let shared: Arc<dyn Device> = device.clone();
        let mut builder = GraphBuilder::new();
        let lane = builder.lane(&shared, &compute);
        let slot = builder.slot().unwrap();
        let span = Span::at(data.va().0, data.bytes());
        for i in 0..kernels {
            let work = Work::Exec {
                program: program.clone(),
                args: vec![at(&data), Val::Slot(slot, i)],
                grid: [1, 1, 1],
                block: [1, 1, 1],
            };
            builder.add(lane, "step", work, [span], [span]);
        }
        let mut graph = builder.build().unwrap();
        let mut least = u64::MAX;
        for round in 0..ROUNDS {
            let before = waits();
            graph.replay(&[round], &[], soon()).unwrap();
            let replayed = waits() - before;
            graph.wait(soon()).unwrap();
            let all = waits() - before;
            println!("replay {round} of {kernels}: {replayed} waits; until it is done: {all}");
            // Once it is done, a look says so.
            let before = waits();
            graph.wait(soon()).unwrap();
            least = least.min(replayed + waits() - before);
            for i in 0..kernels {
                expected = step(expected, round + i);
            }
        }
        assert!(least <= MOST, "a replay of {kernels}: {least}");
    }
    let mut bytes = [0; 4];
    data.read(0, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), expected);
    unbroken(&twin);
}
