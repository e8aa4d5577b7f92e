//! One suite for every device.
//!
//! A driver's test file names its [`Subject`] in one line, and gets a test per case:
//!
//! ```
//! # use std::sync::Arc;
//! # struct CpuSubject;
//! # impl conformance::Subject for CpuSubject {
//! #     fn open(&self, index: u32, _: u32) -> hcq::Result<Arc<dyn hcq::Device>> {
//! #         let why = "this is an example".into();
//! #         Err(hcq::Error::NoDevice { asked: format!("CPU:{index}"), why })
//! #     }
//! #     fn kernel(&self, _: conformance::Kernel) -> hcq::KernelImage {
//! #         unreachable!()
//! #     }
//! # }
//! conformance::conformance!(cpu, || CpuSubject);
//! # fn main() {}
//! ```
//!
//! The cases use nothing but the traits of `hcq`, so what holds for one device holds for all, or
//! the case is wrong. No case looks at wall time; every wait has a deadline that only a hang
//! reaches.
// The whole crate is tests: a failed step ends the case.
#![allow(clippy::unwrap_used)]

pub mod amdgpu;
pub mod border;
pub mod copies;
pub mod graphs;
pub mod loss;
pub mod many;
pub mod order;
pub mod part;
#[cfg(target_os = "linux")]
pub mod pocl;
mod rig;
mod watched;

use std::sync::Arc;

use hcq::{ArgKind, ArgLayout, Device, KernelImage, Width};

pub use rig::{Rig, elements};

/// What is tested.
pub trait Subject: Sync {
    /// Opens device number `index` (0 or 1) with rings of at least `ring_words` words and not many
    /// more, so that the cases can fill them.
    ///
    /// # Errors
    /// What the driver says.
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>>;

    /// The machine code of a kernel.
    fn kernel(&self, kernel: Kernel) -> KernelImage;

    /// Whether its two devices reach each other's memory and signals, over a bus or by memory of the host.
    fn devices_meet(&self) -> bool {
        true
    }

    /// Whether a queue that waits for ever leaves the second device alone: they are not two handles of one GPU with one ring.
    fn devices_are_apart(&self) -> bool {
        true
    }

    /// Whether the driver learns the address of a fault. A kernel driver may keep it to its log.
    fn faults_have_addresses(&self) -> bool {
        true
    }

    /// The largest copy that is made in this run, where copies take long.
    fn most_copied(&self) -> u64 {
        u64::MAX
    }

    /// The case leaves a queue at a wait that nothing ends. Who watches the device, and takes that for a
    /// mistake, lets it pass.
    fn waits_for_ever(&self) {}

    /// The case has the device touch memory that nothing is in, likewise.
    fn faults(&self) {}
}

/// The kernels that the cases need. Arguments are 8-byte words in the order given; groups of one
/// work-item, whose number is `g`. Elements are 32-bit integers that wrap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// `(out, a, b, per)`: `out[i] = a[i] + b[i]` for the `per` elements `i` from `g * per` on.
    Add,
    /// `(data, value)`: `data[g] = data[g] * 3 + value`, which tells the order of launches.
    Step,
    /// `(address)`: stores to the address.
    Store,
}

impl Kernel {
    /// What it takes.
    pub fn args(self) -> ArgLayout {
        let value = ArgKind::Value(Width::W64);
        match self {
            Kernel::Add => ArgLayout::new([[ArgKind::Buffer; 3].as_slice(), &[value]].concat()),
            Kernel::Step => ArgLayout::new([ArgKind::Buffer, value]),
            Kernel::Store => ArgLayout::buffers(1),
        }
    }
}

/// Instantiates every case for a device: a module name, and an expression that gives its
/// [`Subject`].
#[macro_export]
macro_rules! conformance {
    ($name:ident, $subject:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::every_case! { tests $subject }
        }
    };
}

/// Hands every case to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! every_case {
    ($then:ident $($given:tt)*) => {
        $crate::$then! { $($given)*;
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
    };
}

/// A test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($subject:expr; $($module:ident : $case:ident;)*) => {
        $(
            #[test]
            fn $case() {
                let subject = ($subject)();
                $crate::$module::$case(&subject);
            }
        )*
    };
}

/// A table of the cases.
#[doc(hidden)]
#[macro_export]
macro_rules! table {
    (; $($module:ident : $case:ident;)*) => {
        /// Every case with its name, for programs that are no tests; one that fails panics.
        pub const CASES: &[(&str, fn(&dyn Subject))] =
            &[$((concat!(stringify!($module), "::", stringify!($case)), $module::$case)),*];
    };
}

every_case! { table }
