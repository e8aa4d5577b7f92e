//! The example of the queue model, as a test.

#[path = "../examples/queue.rs"]
mod queue;

#[test]
fn the_example_runs() -> hcq::Result<()> {
    queue::main()
}
