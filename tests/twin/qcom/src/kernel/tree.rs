//! The files of a machine: devices, and what sysfs tells of them.
//!
//! Source: KGSL, kgsl_pwrctrl.c, `pwrctrl_attr_list`; adreno.c, `gpu_model`; kgsl.c: class `kgsl`, device `kgsl-3d0`.
//! Linux, drivers/gpu/drm/drm_sysfs.c; Documentation/admin-guide/devices.txt for numbers of DRM; msm_drv.c,
//! `msm_drm_init`: the render node is of the device that the components are bound to, the display controller;
//! msm_gpu_devfreq.c, `msm_devfreq_init`: frequencies are of the GPU's own device; drivers/devfreq/devfreq.c.

use std::fmt::Display;

use twin::errno::Errno;
use twin::tree::Device;

use crate::config::{Config, Kernel};

/// What a path is.
pub type Node = twin::tree::Node<Own>;

/// All files.
pub(super) type Tree = twin::tree::Nodes<Own>;

/// A file of its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// `/dev/kgsl-3d0`.
    Kgsl,
    /// `/dev/dri/renderD128`.
    Render,
    /// A text that changes.
    Live(Live),
}

/// A text that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// `gpubusy`: microseconds in which something ran, and all.
    Busy,
    /// `gpu_busy_percentage`.
    Percentage,
    /// `reset_count`.
    Resets,
    /// `idle_timer`, which may be written.
    IdleTimer,
}

/// The kernel chooses it. `KGSL_MAJOR` of the twin.
const KGSL_MAJOR: u32 = 234;
/// Of DRM, and of its first render node.
const RENDER: (u32, u32) = (226, 128);

impl Own {
    /// As others see it: with the numbers that the system knows a device by.
    pub fn device(self) -> twin::tree::Node {
        let (major, minor) = match self {
            Own::Kgsl => (KGSL_MAJOR, 0),
            Own::Render => RENDER,
            Own::Live(Live::Busy) => return twin::tree::Node::line("      0       0"),
            Own::Live(Live::IdleTimer) => return twin::tree::Node::line(80),
            Own::Live(_) => return twin::tree::Node::line(0),
        };
        twin::tree::Node::Own(Device { major, minor })
    }
}

/// All files of a machine.
pub(super) fn files(config: &Config) -> Tree {
    let mut tree = Tree::default();
    if config.gpus > 0 {
        match config.kernel {
            Kernel::Kgsl(_) => kgsl(&mut tree, config),
            Kernel::Msm => msm(&mut tree, config),
        }
    }
    tree.retain(|path| config.refused(path) != Some(Errno::ENOENT));
    tree
}

fn kgsl(tree: &mut Tree, config: &Config) {
    tree.add("/dev/kgsl-3d0", Node::Own(Own::Kgsl));
    let folder = "/sys/class/kgsl/kgsl-3d0";
    let chip = config.chip;
    let mut text = |name: &str, text: &dyn Display| tree.text(&format!("{folder}/{name}"), text);
    let hz = |mhz: u32| u64::from(mhz) * 1_000_000;
    let (most, least) = (chip.mhz[0], chip.mhz[chip.mhz.len() - 1]);
    let all: Vec<String> = chip.mhz.iter().map(|mhz| hz(*mhz).to_string()).collect();
    let table: Vec<String> = chip.mhz.iter().map(ToString::to_string).collect();
    text("gpu_model", &chip.model);
    text("gpuclk", &hz(least));
    text("max_gpuclk", &hz(most));
    text("clock_mhz", &least);
    text("max_clock_mhz", &most);
    text("min_clock_mhz", &least);
    text("gpu_available_frequencies", &format!("{} ", all.join(" ")));
    text("freq_table_mhz", &format!("{} ", table.join(" ")));
    text("num_pwrlevels", &chip.mhz.len());
    text("max_pwrlevel", &0);
    text("min_pwrlevel", &(chip.mhz.len() - 1));
    text("thermal_pwrlevel", &0);
    text("default_pwrlevel", &(chip.mhz.len() - 1));
    text("temp", &40_000);
    let live = [
        ("gpubusy", Live::Busy),
        ("gpu_busy_percentage", Live::Percentage),
        ("reset_count", Live::Resets),
        ("idle_timer", Live::IdleTimer),
    ];
    for (name, live) in live {
        tree.add(&format!("{folder}/{name}"), Node::Own(Own::Live(live)));
    }
}

fn msm(tree: &mut Tree, config: &Config) {
    tree.add("/dev/dri/renderD128", Node::Own(Own::Render));
    let (major, minor) = RENDER;
    let soc = "/sys/devices/platform/soc@0";
    let display = format!("{soc}/ae00000.display-subsystem/ae01000.display-controller");
    let gpu = format!("{soc}/5000000.gpu");
    tree.text(
        &format!("{display}/uevent"),
        "DRIVER=msm_dpu\nOF_NAME=display-controller\n\
         OF_FULLNAME=/soc@0/display-subsystem@ae00000/display-controller@ae01000\n\
         OF_COMPATIBLE_0=qcom,sdm845-dpu\nOF_COMPATIBLE_N=1",
    );
    tree.text(
        &format!("{gpu}/uevent"),
        "DRIVER=adreno\nOF_NAME=gpu\nOF_FULLNAME=/soc@0/gpu@5000000\nOF_COMPATIBLE_0=qcom,adreno\nOF_COMPATIBLE_N=1",
    );
    for device in [&display, &gpu] {
        let bus = "/sys/bus/platform";
        tree.add(&format!("{device}/subsystem"), Node::Link(bus.into()));
    }
    let class = format!("{display}/drm/renderD128");
    tree.text(&format!("{class}/dev"), format_args!("{major}:{minor}"));
    tree.text(
        &format!("{class}/uevent"),
        format_args!("MAJOR={major}\nMINOR={minor}\nDEVNAME=dri/renderD128\nDEVTYPE=drm_minor"),
    );
    tree.add(&format!("{class}/device"), Node::Link(display));
    tree.add("/sys/class/drm/renderD128", Node::Link(class.clone()));
    tree.add(&format!("/sys/dev/char/{major}:{minor}"), Node::Link(class));
    devfreq(tree, config, gpu);
    tree.text("/sys/module/msm/initstate", "live");
}

/// The frequencies of msm's GPU.
fn devfreq(tree: &mut Tree, config: &Config, gpu: String) {
    let folder = format!("{gpu}/devfreq/5000000.gpu");
    let mut hz: Vec<u64> = config
        .chip
        .mhz
        .iter()
        .map(|mhz| u64::from(*mhz) * 1_000_000)
        .collect();
    hz.sort_unstable();
    let all: Vec<String> = hz.iter().map(ToString::to_string).collect();
    let (least, most) = (hz[0], hz[hz.len() - 1]);
    for (name, hz) in [("cur_freq", least), ("min_freq", least), ("max_freq", most)] {
        tree.text(&format!("{folder}/{name}"), hz);
    }
    tree.text(&format!("{folder}/available_frequencies"), all.join(" "));
    tree.text(&format!("{folder}/governor"), "simple_ondemand");
    tree.add(&format!("{folder}/device"), Node::Link(gpu));
    tree.add("/sys/class/devfreq/5000000.gpu", Node::Link(folder));
}
