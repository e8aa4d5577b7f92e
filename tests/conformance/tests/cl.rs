//! The suite on OpenCL: PoCL of Debian 12, on this processor.

// A failed step ends the test.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use conformance::{CASES, Kernel, Subject, pocl};
use drivers_cl::{Options, survey};
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Buffer, Command, Compare, Deadline, Device, Error, KernelImage,
    MemoryKind, QueueKind, Stream, Val, Width,
};

/// A test for each case; none of them does anything where PoCL was not fetched.
macro_rules! on_pocl {
    (; $($module:ident : $case:ident;)*) => {
        $(
            #[test]
            fn $case() {
                if pocl::library().is_some() {
                    conformance::$module::$case(&PoclSubject);
                }
            }
        )*

        #[test]
        fn every_case_has_a_test() {
            assert_eq!(CASES.len(), [$(stringify!($case)),*].len());
        }
    };
}

mod pocl_of_debian_12 {
    use super::*;

    on_pocl! {
        ;
        order: waits_hold_the_queue_until_the_signal;
        order: commands_of_a_queue_see_what_came_before;
        order: queues_wait_for_each_other_back_and_forth;
        order: signals_count_beyond_32_and_63_bits;
        order: writes_polls_barriers_and_timestamps;
        order: timestamps_of_a_queue_never_step_back;
        order: a_refused_command_submits_nothing;
        order: one_group_and_many_groups_and_none;
        border: timelines_pass_multiples_of_2_to_the_32;
        border: values_never_step_back;
        copies: copies_of_every_size_touch_nothing_else;
        copies: large_copies_at_odd_offsets;
        copies: fills_of_every_size_touch_nothing_else;
        copies: memory_that_was_used_is_zero_when_asked_for;
        copies: memory_is_accounted_for_and_runs_out_with_an_error;
        many: thousands_of_submissions_wrap_the_ring;
        many: a_submission_larger_than_the_ring_is_done_in_order;
        many: the_last_part_of_a_large_submission_keeps_its_arguments;
        many: a_full_ring_holds_the_host_until_its_deadline;
        many: four_threads_share_a_queue;
        many: streams_of_one_queue_share_its_timeline;
        many: dropping_with_work_in_flight_ends;
        many: dropping_a_queue_that_waits_forever_ends;
        graphs: bound_packets_run_again_with_other_values;
        graphs: graphs_replay_with_other_buffers_and_values;
        graphs: graphs_order_two_queues;
        graphs: profiled_graphs_tell_the_time_of_each_node;
        graphs: a_replay_rings_one_doorbell_per_lane;
        graphs: a_lane_that_fails_leaves_no_other_waiting;
        graphs: a_graph_that_ends_while_it_runs_keeps_what_it_names;
        graphs: graphs_that_are_dropped_behind_a_full_ring_run_and_are_let_go;
        graphs: graphs_over_the_same_queues_never_stand_crosswise;
        graphs: a_launch_holds_no_other_queue;
        loss: a_deadline_names_the_signal_and_the_values;
        loss: the_first_cause_of_a_loss_is_kept;
        loss: a_fault_of_a_kernel_names_it_and_the_place;
        loss: a_loss_ends_waits_and_leaves_other_devices_alone;
        loss: two_devices_wait_for_each_other;
    }
}

/// Devices of PoCL.
struct PoclSubject;

fn open(index: u32, options: Options) -> hcq::Result<Arc<dyn Device>> {
    let library = pocl::library().unwrap();
    let found = survey(Some(&library)).unwrap();
    let first = found.first().unwrap();
    let index = Some(index);
    drivers_cl::open(first, &Options { index, ..options })
}

fn image(name: &str, source: &str, args: ArgLayout) -> KernelImage {
    let library = pocl::library().unwrap();
    let found = survey(Some(&library)).unwrap();
    KernelImage {
        name: name.into(),
        arch: found.first().unwrap().arch(),
        bytes: source.as_bytes().into(),
        entry: name.into(),
        args,
        local_bytes: 0,
    }
}

const SOURCE: &str = include_str!("cl/kernels.cl");

impl Subject for PoclSubject {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        open(
            index,
            Options {
                ring_words,
                ring_timeout: Duration::from_millis(match ring_words {
                    64 => 50,
                    _ => 60_000,
                }),
                ..Options::default()
            },
        )
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        let name = match kernel {
            Kernel::Add => "add",
            Kernel::Step => "step_each",
            Kernel::Store => "store",
        };
        image(name, SOURCE, kernel.args())
    }
}

/// An open device, where PoCL is.
fn device() -> Option<(Arc<dyn Device>, Stream)> {
    pocl::library()?;
    let device = open(0, Options::default()).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    Some((device, stream))
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn words(buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes() as usize];
    buffer.read(0, &mut bytes).unwrap();
    let (all, _) = bytes.as_chunks();
    all.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

#[test]
fn kernels_and_commands_reach_device_memory_at_any_word() {
    let Some((device, stream)) = device() else {
        return;
    };
    let memory = device.alloc(AllocSpec::device(200 << 10)).unwrap();
    let part = memory.slice(68, 40).unwrap();
    part.write(0, &[0; 40]).unwrap();
    let step = PoclSubject.kernel(Kernel::Step);
    let step = device.load(&step).unwrap();
    let args = [at(&part), Val::Const(7)];
    let launch = Command::Exec {
        program: &step,
        args: &args,
        grid: [9, 1, 1],
        block: [1, 1, 1],
    };
    let last = part.slice(36, 4).unwrap();
    let commands = [
        launch,
        launch,
        Command::Write {
            at: at(&last),
            value: Val::Const(5),
            width: Width::W32,
        },
        Command::Poll {
            at: at(&last),
            mask: 4,
            value: Val::Const(4),
            compare: Compare::Equal,
            width: Width::W32,
        },
    ];
    stream.submit(&[], &commands).unwrap().wait(soon()).unwrap();
    let mut wanted = vec![28; 9];
    wanted.push(5);
    assert_eq!(words(&part), wanted);
    // To other memory of the device, and to the host's.
    let other = device.alloc(AllocSpec::device(40)).unwrap();
    let spec = AllocSpec {
        kind: MemoryKind::Host,
        ..AllocSpec::device(40)
    };
    let host = device.alloc(spec).unwrap();
    let copy = |dst: &Buffer, src: &Buffer| Command::Copy {
        dst: at(dst),
        src: at(src),
        bytes: 40,
    };
    let fill = Command::Fill {
        at: at(&last),
        value: 9,
        bytes: 4,
    };
    let commands = [copy(&other, &part), copy(&host, &other), fill];
    stream.submit(&[], &commands).unwrap().wait(soon()).unwrap();
    assert_eq!(words(&other), wanted);
    assert_eq!(words(&host), wanted);
    assert_eq!(words(&last), [9]);
}

#[test]
fn groups_of_several_items_share_local_memory_and_meet_at_barriers() {
    let Some((device, stream)) = device() else {
        return;
    };
    let turn = device
        .load(&image("turn", SOURCE, ArgLayout::buffers(1)))
        .unwrap();
    let memory = device.alloc(AllocSpec::device(64)).unwrap();
    let bytes: Vec<u8> = (0..16u32).flat_map(u32::to_le_bytes).collect();
    memory.write(0, &bytes).unwrap();
    let args = [at(&memory)];
    let launch = |items| Command::Exec {
        program: &turn,
        args: &args,
        grid: [2, 1, 1],
        block: [items, 1, 1],
    };
    let error = stream.submit(&[], &[launch(4)]).unwrap_err().to_string();
    assert!(error.contains("built for [8, 1, 1]"), "{error}");
    stream
        .submit(&[], &[launch(8)])
        .unwrap()
        .wait(soon())
        .unwrap();
    let wanted: Vec<u32> = (0..8).rev().chain((8..16).rev()).collect();
    assert_eq!(words(&memory), wanted);
}

#[test]
fn what_cannot_be_built_says_why_and_loses_nothing() {
    let Some((device, _)) = device() else {
        return;
    };
    let value = ArgKind::Value(Width::W64);
    let refused = |image: &KernelImage, parts: &[&str]| {
        let error = device.load(image).unwrap_err();
        assert!(matches!(error, Error::Program { .. }), "{error}");
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
        device.status().unwrap();
    };
    let wrong = "__kernel void add(__global int *a) { a[0] = nothing; }";
    let parts = [
        "clBuildProgram",
        "CL_BUILD_PROGRAM_FAILURE (-11)",
        "build log",
        "nothing",
    ];
    refused(&image("add", wrong, ArgLayout::buffers(1)), &parts);
    refused(
        &image("other", SOURCE, ArgLayout::buffers(1)),
        &["clCreateKernel", "CL_INVALID_KERNEL_NAME (-46)"],
    );
    refused(
        &image("step_each", SOURCE, ArgLayout::buffers(2)),
        &["3 parameters, expected 4"],
    );
    let free = "__kernel void free_size(const long a) {}";
    refused(
        &image("free_size", free, ArgLayout::new([value])),
        &["reqd_work_group_size"],
    );
    let other = KernelImage {
        arch: "gfx1100".into(),
        ..PoclSubject.kernel(Kernel::Add)
    };
    refused(&other, &["compiled for gfx1100", "cl:local="]);
}

/// The second build takes the binary of the first one; a damaged file is as none.
#[test]
fn built_programs_are_kept() {
    if pocl::library().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    for damaged in [false, false, true] {
        if damaged {
            files().for_each(|path| std::fs::write(path, "nothing").unwrap());
        }
        let options = Options {
            cache: Some(folder.path().into()),
            ..Options::default()
        };
        let device = open(0, options).unwrap();
        let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let step = device.load(&PoclSubject.kernel(Kernel::Step)).unwrap();
        let memory = device.alloc(AllocSpec::device(16)).unwrap();
        memory.write(0, &[0; 16]).unwrap();
        let args = [at(&memory), Val::Const(6)];
        let launch = Command::Exec {
            program: &step,
            args: &args,
            grid: [4, 1, 1],
            block: [1, 1, 1],
        };
        stream.submit(&[], &[launch]).unwrap().wait(soon()).unwrap();
        assert_eq!(words(&memory), [6; 4]);
        assert_eq!(files().count(), 1);
        assert!(files().all(|path| std::fs::metadata(path).unwrap().len() > 1000));
    }
}

#[test]
fn memory_that_was_freed_and_what_is_too_large_are_named() {
    let Some((device, stream)) = device() else {
        return;
    };
    let info = device.info();
    assert_eq!(
        (info.interface, info.id.to_string().as_str()),
        ("OPENCL", "CL:0")
    );
    let error = device.alloc(AllocSpec::device(info.memory)).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    // Beyond all that was made so far.
    let nowhere = Val::Const(1 << 62);
    let fill = Command::Fill {
        at: nowhere,
        value: 0,
        bytes: 4,
    };
    let error = stream
        .submit(&[], &[fill])
        .unwrap()
        .wait(soon())
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("FILL") && text.contains("in no buffer"),
        "{text}"
    );
    assert!(device.status().is_err());
}
