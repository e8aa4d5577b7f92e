//! Qualcomm's machines.

use std::sync::Arc;

use drivers_spec::amd::drm;
use drivers_spec::qcom::{kgsl, msm};
use hcq::transport::Ioctl;
use twin::caller::Caller;
use twin::host::Mapping;
use twin::process::Calls;
use twin::rule::Journal;
use twin::tree::Node;
use twin::watch::{Moment, Watch};
use twin_qcom::kernel as qcom;

use super::{Bells, Machine};

/// SYNCOBJ_WAIT and SYNCOBJ_TIMELINE_WAIT of DRM.
const SYNCOBJ_WAITS: [u32; 2] = [0xc3, 0xca];

/// Ioctls that wait for engines, or for what other calls do.
const WAITS: [Ioctl; 6] = [
    kgsl::DEVICE_WAITTIMESTAMP_CTXTID.ioctl(),
    kgsl::DRAWCTXT_DESTROY.ioctl(),
    kgsl::GPUOBJ_FREE.ioctl(),
    kgsl::GPU_COMMAND.ioctl(),
    msm::MSM_GEM_CPU_PREP.ioctl(),
    msm::MSM_WAIT_FENCE.ioctl(),
];

impl Machine for Arc<qcom::Machine> {
    fn owned(&self) -> &[&'static str] {
        &[
            "/dev/kgsl-3d0",
            "/dev/dri",
            "/sys/class/devfreq",
            "/sys/class/drm",
            "/sys/class/kgsl",
            "/sys/dev/char/226:",
            "/sys/devices/platform/soc@0",
            "/sys/module/msm",
        ]
    }

    fn vendor(&self) -> &'static str {
        "QCOM"
    }

    fn nodes(&self) -> Vec<(String, Node)> {
        let nodes = qcom::Machine::nodes(self);
        let nodes = nodes.map(|(path, node)| (path.to_owned(), node.map(|own| own.device())));
        nodes.collect()
    }

    fn attach(&self, caller: Arc<dyn Caller>) -> Arc<dyn Calls> {
        qcom::Machine::attach(self, caller)
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    fn of_host(&self) -> String {
        format!("memory={}", self.config.memory)
    }

    fn watch(&self, watch: Box<dyn Watch>) {
        qcom::Machine::watch(self, watch);
    }

    fn pause(&self) -> Moment {
        qcom::Machine::pause(self)
    }

    fn go_on(&self) {
        qcom::Machine::go_on(self);
    }

    fn waits(&self, request: u32) -> bool {
        let (kind, nr) = (Ioctl::kind_of(request), Ioctl::nr_of(request));
        let mut all = WAITS.iter();
        all.any(|one| (Ioctl::kind_of(one.request), one.nr()) == (kind, nr))
            || kind == drm::KIND && SYNCOBJ_WAITS.contains(&nr)
    }

    fn wait_as_long(&self, _: &mut [u8], _: &mut [u8]) {}

    fn tells_time(&self, _: u32) -> bool {
        false
    }

    fn store(&self, path: &str, text: &[u8]) -> bool {
        // Who has written it has been told that it was taken.
        qcom::Machine::store(self, path, text).unwrap_or(true)
    }

    fn bells(&self, _: u64, _: &Mapping) -> Option<Bells> {
        None
    }
}
