//! The programs of the example, each as a test.
#![allow(clippy::unwrap_used)]

#[path = "../examples/programs/batchnorm.rs"]
mod batchnorm;
#[path = "../examples/programs/beam.rs"]
mod beam;
#[path = "../examples/programs/check.rs"]
mod check;
#[path = "../examples/programs/devices.rs"]
mod devices;
#[path = "../examples/programs/dropout.rs"]
mod dropout;
#[path = "../examples/programs/finetune.rs"]
mod finetune;
#[path = "../examples/programs/gan.rs"]
mod gan;
#[path = "../examples/programs/metrics.rs"]
mod metrics;
#[path = "../examples/programs/recurrent.rs"]
mod recurrent;
#[path = "../examples/programs/sequence.rs"]
mod sequence;
#[path = "../examples/programs/serving.rs"]
mod serving;
#[path = "../examples/programs/solver.rs"]
mod solver;
#[path = "../examples/programs/training.rs"]
mod training;

#[test]
fn training_has_the_numbers_of_pytorch() {
    training::run().unwrap();
}

#[test]
fn gan_has_the_numbers_of_pytorch() {
    gan::run().unwrap();
}

#[test]
fn recurrent_has_the_numbers_of_pytorch() {
    recurrent::run().unwrap();
}

#[test]
fn batchnorm_has_the_numbers_of_pytorch() {
    batchnorm::run().unwrap();
}

#[test]
fn serving_has_the_numbers_of_pytorch() {
    serving::run().unwrap();
}

#[test]
fn solver_has_the_numbers_of_pytorch() {
    solver::run().unwrap();
}

#[test]
fn dropout_has_the_numbers_of_pytorch() {
    dropout::run().unwrap();
}

#[test]
fn finetune_has_the_numbers_of_pytorch() {
    finetune::run().unwrap();
}

#[test]
fn metrics_has_the_numbers_of_pytorch() {
    metrics::run().unwrap();
}

#[test]
fn devices_has_the_numbers_of_pytorch() {
    devices::run().unwrap();
}

#[test]
fn sequence_has_the_numbers_of_pytorch() {
    sequence::run().unwrap();
}

#[test]
fn beam_has_the_numbers_of_pytorch() {
    beam::run().unwrap();
}
