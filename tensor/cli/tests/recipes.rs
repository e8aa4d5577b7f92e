//! The programs of `examples/recipes`, one test each: they hold their numbers against PyTorch's.
#![allow(clippy::unwrap_used)]

#[path = "../examples/recipes/accumulate.rs"]
mod accumulate;
#[path = "../examples/recipes/attention.rs"]
mod attention;
#[path = "../examples/recipes/check.rs"]
mod check;
#[path = "../examples/recipes/early.rs"]
mod early;
#[path = "../examples/recipes/ema.rs"]
mod ema;
#[path = "../examples/recipes/kalman.rs"]
mod kalman;
#[path = "../examples/recipes/kmeans.rs"]
mod kmeans;
#[path = "../examples/recipes/nested.rs"]
mod nested;
#[path = "../examples/recipes/policy.rs"]
mod policy;
#[path = "../examples/recipes/regression.rs"]
mod regression;
#[path = "../examples/recipes/schedule.rs"]
mod schedule;

#[test]
fn a_teacher_follows_its_student() {
    ema::run().unwrap();
}

#[test]
fn gradients_are_accumulated() {
    accumulate::run().unwrap();
}

#[test]
fn a_captured_step_follows_a_schedule() {
    schedule::run().unwrap();
}

#[test]
fn the_best_weights_come_back() {
    early::run().unwrap();
}

#[test]
fn attention_is_trained_with_momentum() {
    attention::run().unwrap();
}

#[test]
fn plain_steps_take_no_memory() {
    regression::run().unwrap();
}

#[test]
fn captured_functions_nest() {
    nested::run().unwrap();
}

#[test]
fn two_filters_share_a_captured_function() {
    kalman::run().unwrap();
}

#[test]
fn centres_come_to_rest() {
    kmeans::run().unwrap();
}

#[test]
fn a_policy_learns_from_samples() {
    policy::run().unwrap();
}
