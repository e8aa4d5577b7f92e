//! Variables of vendors' runtimes that restrict a process to some GPUs. They count GPUs otherwise than they are
//! counted here, or name them by a UUID: they are not followed, and must not be overlooked in silence.

use super::{DeviceKind, Target};

/// Those of ROCm.
const ROCM: &[&str] = &[
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
];

/// CUDA's. (`NVIDIA_VISIBLE_DEVICES` is for who starts a container, which then has those devices only.)
const CUDA: &[&str] = &["CUDA_VISIBLE_DEVICES"];

/// What is to be told of those that are set, where a target means GPUs of this machine, and does not say
/// which.
pub(super) fn not_followed<'a>(
    targets: &[Target],
    given: impl Fn(&str) -> Option<&'a str>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (device, way, names) in [
        (DeviceKind::Amd, "KFD:N+AMD", ROCM),
        (DeviceKind::Nv, "NVK:N+NV", CUDA),
    ] {
        let any = |target: &Target| {
            let twin = target.interface.is_some_and(|way| way.twin);
            target.device == device && target.indices.is_none() && !twin
        };
        if !targets.iter().any(any) {
            continue;
        }
        let set = names.iter().filter_map(|name| Some((name, given(name)?)));
        warnings.extend(set.map(|(name, value)| {
            format!(
                "{name}={value} is ignored: use DEV={way}, with a number from `doorbell devices`"
            )
        }));
    }
    warnings
}
