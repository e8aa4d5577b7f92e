//! Gauges of Adreno GPUs, which are on no bus.
//!
//! | of | where | source |
//! |---|---|---|
//! | KGSL | `/sys/class/kgsl/kgsl-3d0` | KGSL, adreno_sysfs.c, kgsl_pwrctrl.c |
//! | msm | `/sys/class/devfreq/*/cur_freq` | Linux, Documentation/ABI/testing/sysfs-class-devfreq |
//!
//! The render node of msm belongs to the display controller on most boards, its frequencies to the GPU, a device of its own:
//! Linux, drivers/gpu/drm/msm/msm_gpu_devfreq.c, `msm_devfreq_init`; msm_drv.c, `msm_drm_init`.

use hcq::transport::Machine;

use super::{Gauges, Way};
use crate::bus::OnBus;

const KGSL: &str = "/sys/class/kgsl/kgsl-3d0";
const DRM: &str = "/sys/class/drm";
const DEVFREQ: &str = "/sys/class/devfreq";

/// The GPUs of both kernel drivers.
pub(super) fn read(machine: &dyn Machine) -> Vec<Gauges> {
    let mut nodes = machine.list(DRM).unwrap_or_default();
    nodes.retain(|name| name.starts_with("renderD"));
    nodes.sort_unstable();
    nodes.retain(|node| is_msm(machine, &format!("{DRM}/{node}/device")));
    // Nothing names the node of a GPU's frequency: boards have one of each.
    let mut clocks = clocks(machine).into_iter();
    let msm = nodes.into_iter().map(|node| Gauges {
        core_mhz: clocks.next(),
        ..gpu(node, "msm", None)
    });
    of_kgsl(machine).into_iter().chain(msm).collect()
}

fn text(machine: &dyn Machine, path: &str) -> Option<String> {
    let text = machine.read(path).ok()?;
    Some(text.trim().to_owned())
}

fn gpu(address: String, driver: &str, model: Option<String>) -> Gauges {
    let card = OnBus {
        address,
        id: String::new(),
        driver: Some(driver.into()),
        arch: None,
        name: "Qualcomm Adreno".into(),
    };
    Gauges {
        model: model.map(|model| format!("Qualcomm {model}")),
        ..Gauges::of(card, Way::Soc)
    }
}

fn of_kgsl(machine: &dyn Machine) -> Option<Gauges> {
    let read = |name: &str| text(machine, &format!("{KGSL}/{name}"));
    let number = |name: &str| {
        read(name)?
            .trim_end_matches('%')
            .trim_end()
            .parse::<f64>()
            .ok()
    };
    let model = read("gpu_model")?;
    Some(Gauges {
        busy: number("gpu_busy_percentage"),
        celsius: number("temp").map(|thousandths| thousandths / 1e3),
        core_mhz: number("clock_mhz"),
        ..gpu("kgsl-3d0".into(), "kgsl", Some(model))
    })
}

/// Whether the device in a folder has msm as its driver.
fn is_msm(machine: &dyn Machine, folder: &str) -> bool {
    let uevent = text(machine, &format!("{folder}/uevent")).unwrap_or_default();
    let is_msm = |line: &str| line == "DRIVER=adreno" || line.starts_with("DRIVER=msm");
    uevent.lines().any(is_msm)
}

/// The clocks of msm's GPUs in MHz.
fn clocks(machine: &dyn Machine) -> Vec<f64> {
    let mut meters = machine.list(DEVFREQ).unwrap_or_default();
    meters.sort_unstable();
    let clock = |name: String| {
        let folder = format!("{DEVFREQ}/{name}");
        // Others are of memory, buses, processors.
        let uevent = text(machine, &format!("{folder}/device/uevent"))?;
        uevent.lines().find(|line| *line == "DRIVER=adreno")?;
        let hertz = text(machine, &format!("{folder}/cur_freq"))?;
        Some(hertz.parse::<f64>().ok()? / 1e6)
    };
    meters.into_iter().filter_map(clock).collect()
}

#[cfg(test)]
mod tests {
    use drivers_host::machine::Host;
    use drivers_host::pci::System;

    use super::*;

    #[test]
    fn both_kernel_drivers_tell_of_their_gpu() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let machine = || Host::at(System::at(root.path()));
        assert!(read(&*machine()).is_empty());
        put("/sys/class/kgsl/kgsl-3d0/gpu_model", "Adreno630v2\n");
        put("/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", "37 %\n");
        put("/sys/class/kgsl/kgsl-3d0/temp", "48100\n");
        put("/sys/class/kgsl/kgsl-3d0/clock_mhz", "710\n");
        put(
            "/sys/class/drm/renderD128/device/uevent",
            "DRIVER=msm_dpu\nOF_NAME=display\n",
        );
        for (name, driver, hertz) in [
            ("1d84000.ufs", "ufshcd-qcom", "300000000\n"),
            ("5000000.gpu", "adreno", "257000000\n"),
        ] {
            let folder = format!("/sys/class/devfreq/{name}");
            put(
                &format!("{folder}/device/uevent"),
                &format!("DRIVER={driver}\n"),
            );
            put(&format!("{folder}/cur_freq"), hertz);
        }
        put("/sys/class/drm/renderD129/device/uevent", "DRIVER=amdgpu\n");
        let all = read(&*machine());
        let [kgsl, msm] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(kgsl.model.as_deref(), Some("Qualcomm Adreno630v2"));
        assert_eq!(
            (kgsl.busy, kgsl.celsius, kgsl.core_mhz),
            (Some(37.0), Some(48.1), Some(710.0))
        );
        assert_eq!(
            (&*msm.card.address, msm.core_mhz),
            ("renderD128", Some(257.0))
        );
        assert!(
            all.iter()
                .all(|gpu| gpu.way == Way::Soc && !gpu.users_known)
        );
    }
}
