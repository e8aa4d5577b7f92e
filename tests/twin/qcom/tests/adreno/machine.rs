//! The machine as a whole: files, processes, what is left.

use std::sync::Arc;

use drivers_spec::qcom::kgsl::memory;
use drivers_spec::qcom::packet::op;
use twin::caller::Here;
use twin::errno::Errno;
use twin_qcom::config::Config;
use twin_qcom::kernel::Machine;
use twin_qcom::machine::TwinMachine;

use super::rig::{Rig, errno};
use super::stream::Stream;

fn machine(config: &str) -> Arc<Machine> {
    Machine::new(Config::parse(config).unwrap()).unwrap()
}

fn text(machine: &Arc<Machine>, path: &str) -> String {
    let process = machine.attach(Arc::new(Here));
    let fd = process.open(path, None).unwrap();
    let mut out = [0; 4096];
    let bytes = process.read(fd, 0, &mut out).unwrap();
    String::from_utf8(out[..bytes].to_vec()).unwrap()
}

#[test]
fn files_are_those_of_the_kernel_driver() {
    let kgsl = machine("");
    let process = kgsl.attach(Arc::new(Here));
    assert!(process.exists("/dev/kgsl-3d0") && !process.exists("/dev/dri/renderD128"));
    let model = text(&kgsl, "/sys/class/kgsl/kgsl-3d0/gpu_model");
    assert_eq!(model, "Adreno630v2\n");
    assert_eq!(
        text(&kgsl, "/sys/class/kgsl/kgsl-3d0/max_gpuclk"),
        "710000000\n"
    );
    assert_eq!(text(&kgsl, "/sys/class/kgsl/kgsl-3d0/reset_count"), "0\n");
    assert_eq!(text(&kgsl, "/dev/kgsl-3d0"), "OH HAI GPU\n");
    let msm = machine("kernel=msm");
    let process = msm.attach(Arc::new(Here));
    assert!(!process.exists("/dev/kgsl-3d0") && process.exists("/dev/dri/renderD128"));
    assert!(text(&msm, "/sys/class/drm/renderD128/device/uevent").contains("DRIVER=msm_dpu"));
    let meter = "/sys/class/devfreq/5000000.gpu";
    assert!(text(&msm, &format!("{meter}/device/uevent")).contains("DRIVER=adreno"));
    assert_eq!(text(&msm, &format!("{meter}/cur_freq")), "257000000\n");
    let none = machine("gpus=0");
    assert!(!none.attach(Arc::new(Here)).exists("/dev/kgsl-3d0"));
    let refused = machine("fault=path:/dev/kgsl-3d0:EACCES");
    let process = refused.attach(Arc::new(Here));
    assert_eq!(errno(process.open("/dev/kgsl-3d0", None)), Errno::EACCES);
}

#[test]
fn a_process_that_ends_leaves_nothing() {
    let rig = Rig::new("");
    let other = rig.other();
    rig.run(&Stream::default().command(op::NOP, &[]).words());
    let dup = rig.process.dup(rig.fd, None).unwrap();
    rig.process.close(rig.fd).unwrap();
    // The other descriptor is of the same file.
    let twin = Rig {
        fd: dup,
        machine: rig.machine.clone(),
        process: rig.process.clone(),
        context: rig.context,
    };
    twin.run(&Stream::default().command(op::NOP, &[]).words());
    assert!(!rig.process.objects().is_empty());
    rig.process.exit();
    assert_eq!(rig.process.objects(), [""; 0]);
    other.run(&Stream::default().command(op::NOP, &[]).words());
    let memory = other.alloc(4096, memory::WRITECOMBINE);
    assert!(memory.gpu > 0);
}

#[test]
fn processes_have_address_spaces_of_their_own() {
    let rig = Rig::new("");
    let other = rig.other();
    let (one, two) = (rig.alloc(4096, 0), other.alloc(4096, 0));
    assert_eq!(one.gpu, two.gpu);
    let write = |at: u64, value| {
        let body = [at as u32, (at >> 32) as u32, value];
        Stream::default().command(op::MEM_WRITE, &body).words()
    };
    rig.run(&write(one.gpu, 1));
    other.run(&write(two.gpu, 2));
    assert_eq!((one.word(0), two.word(0)), (1, 2));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let rig = Rig::new(&format!("seed={seed}"));
        let commands = rig.commands(&Stream::default().command(op::NOP, &[]).words());
        let moment = rig.machine.pause();
        for _ in 0..5 {
            rig.submit_at(rig.context, commands.gpu, 1).unwrap();
        }
        rig.machine.go_on();
        rig.wait(5).unwrap();
        let end = rig.machine.pause();
        rig.machine.go_on();
        (moment.time, end.time)
    };
    assert_eq!(run(3), run(3));
}

#[test]
fn drivers_open_it_as_a_machine() {
    assert!(TwinMachine::new("chip=a650").is_ok());
    assert!(TwinMachine::new("chip=a700").is_err());
}
