//! Arguments of ioctls by the names of their fields, for people: KFD's, DRM's of amdgpu and of msm, KGSL's, and NVIDIA's
//! escapes and commands of UVM.

use std::fmt::Write;

use hcq::transport::Ioctl;

use crate::amd::{drm, kfd};
use crate::nv::abi::{self, Branch};
use crate::nv::{class, control, escape, uvm};
use crate::qcom::{kgsl, msm, syncobj};

/// Name, place and size.
type Fields = Vec<(&'static str, usize, usize)>;

/// Whose a render node is: the same numbers are other calls of another driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Drm {
    /// AMD's.
    #[default]
    Amdgpu,
    /// Qualcomm's, of Linux.
    Msm,
}

/// The kernel drivers that calls go to, where their numbers do not say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drivers {
    /// The branch of NVIDIA's driver.
    pub nvidia: Branch,
    /// Whose render nodes are.
    pub drm: Drm,
}

/// The name of an ioctl with the fields of its argument, and behind an arrow those that it has changed. None for one
/// that no table has.
pub fn describe(drivers: Drivers, request: u32, before: &[u8], after: &[u8]) -> Option<String> {
    let (mut text, fields) = match Ioctl::kind_of(request) {
        drm::KIND if drivers.drm == Drm::Msm => msm_fields(request).or_else(|| amd_fields(request)),
        kfd::KIND | drm::KIND => amd_fields(request),
        kgsl::KIND => kgsl_fields(request),
        _ => nv_fields(drivers.nvidia, request, before),
    }?;
    let mut changed = String::new();
    for (name, at, size) in fields {
        let was = value(before, at, size);
        let is = value(after, at, size);
        if let Some(was) = &was {
            let _ = write!(text, " {name}={was}");
        }
        if let Some(is) = is.filter(|is| was.as_ref() != Some(is)) {
            let _ = write!(changed, " {name}={is}");
        }
    }
    if !changed.is_empty() {
        let _ = write!(text, " ->{changed}");
    }
    Some(text)
}

/// A field: a number, or the start of what is longer.
fn value(data: &[u8], at: usize, size: usize) -> Option<String> {
    let bytes = data.get(at..at + size)?;
    Some(match size {
        1..=8 => format!("{:#x}", number(bytes)),
        _ => bytes[..size.min(16)]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    })
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The name of an ioctl of KFD or DRM, and its fields.
fn amd_fields(request: u32) -> Option<(String, Fields)> {
    let same = |one: &&Ioctl| {
        Ioctl::kind_of(one.request) == Ioctl::kind_of(request) && one.nr() == Ioctl::nr_of(request)
    };
    let name = kfd::IOCTLS.iter().chain(drm::IOCTLS).find(same)?.name;
    // Headers name a struct after its ioctl.
    let (wanted, layouts) = match name.strip_prefix("AMDKFD_IOC_") {
        Some(rest) => (
            format!("kfd_ioctl_{}_args", rest.to_lowercase()),
            kfd::LAYOUTS,
        ),
        None => {
            let rest = name.strip_prefix("DRM_IOCTL_")?;
            (format!("drm_{}", rest.to_lowercase()), drm::LAYOUTS)
        }
    };
    let layout = layouts.iter().find(|layout| layout.name == wanted);
    let fields = layout.map_or(&[][..], |layout| layout.fields).iter();
    let fields = fields.map(|field| (field.name, field.offset, field.size));
    Some((name.to_owned(), fields.collect()))
}

/// The name of an ioctl of KGSL, and its fields.
fn kgsl_fields(request: u32) -> Option<(String, Fields)> {
    let same = |ioctl: &&Ioctl| ioctl.nr() == Ioctl::nr_of(request);
    let name = kgsl::IOCTLS.iter().find(same)?.name;
    // The header names a struct after its ioctl, but for the second one of properties.
    let wanted = match name {
        "IOCTL_KGSL_SETPROPERTY" => "kgsl_device_getproperty".to_owned(),
        _ => name.strip_prefix("IOCTL_")?.to_lowercase(),
    };
    let layout = kgsl::LAYOUTS.iter().find(|layout| layout.name == wanted)?;
    let fields = layout.fields.iter().filter(|field| !field.name.is_empty());
    let fields = fields.map(|field| (field.name, field.offset, field.size));
    Some((name.to_owned(), fields.collect()))
}

/// The name of an ioctl of msm or of a syncobj, and its fields.
fn msm_fields(request: u32) -> Option<(String, Fields)> {
    let same = |ioctl: &&Ioctl| ioctl.nr() == Ioctl::nr_of(request);
    let mut all = msm::IOCTLS.iter().chain(syncobj::IOCTLS);
    let name = all.find(same)?.name;
    // The header names a struct after its ioctl, but for these.
    let wanted = match name {
        "DRM_IOCTL_MSM_GET_PARAM" => "drm_msm_param".to_owned(),
        "DRM_IOCTL_MSM_SUBMITQUEUE_NEW" => "drm_msm_submitqueue".to_owned(),
        "DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD" | "DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE" => {
            "drm_syncobj_handle".to_owned()
        }
        "DRM_IOCTL_SYNCOBJ_RESET" | "DRM_IOCTL_SYNCOBJ_SIGNAL" => "drm_syncobj_array".to_owned(),
        "DRM_IOCTL_SYNCOBJ_QUERY" | "DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL" => {
            "drm_syncobj_timeline_array".to_owned()
        }
        // A number.
        "DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE" => return Some((name.to_owned(), vec![("id", 0, 4)])),
        _ => format!("drm_{}", name.strip_prefix("DRM_IOCTL_")?.to_lowercase()),
    };
    let mut layouts = msm::LAYOUTS.iter().chain(syncobj::LAYOUTS);
    let layout = layouts.find(|layout| layout.name == wanted)?;
    let fields = layout.fields.iter().filter(|field| !field.name.is_empty());
    let fields = fields.map(|field| (field.name, field.offset, field.size));
    Some((name.to_owned(), fields.collect()))
}

/// The name of an escape of RM, with the class or the control that it is about, or of a command of UVM, and
/// its fields.
fn nv_fields(branch: Branch, request: u32, data: &[u8]) -> Option<(String, Fields)> {
    let escape = escape::of_request(branch, request);
    let call = escape.or_else(|| abi::find(uvm::COMMANDS, branch, request))?;
    let placed = call
        .layout
        .into_iter()
        .flat_map(|layout| layout.fields(branch));
    let fields: Fields = placed
        .map(|field| (field.name, field.at, field.size))
        .collect();
    let inner = |table, name| {
        let (_, at, size) = fields.iter().find(|(known, ..)| *known == name)?;
        let number = number(data.get(*at..at + size)?);
        abi::find(table, branch, number as u32)
    };
    let inner = inner(class::CLASSES, "hClass").or_else(|| inner(control::CONTROLS, "cmd"));
    let mut name = call.name.to_owned();
    if let Some(inner) = inner {
        let _ = write!(name, " of {}", inner.name);
    }
    Some((name, fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVERS: Drivers = Drivers {
        nvidia: Branch::R580,
        drm: Drm::Amdgpu,
    };

    #[test]
    fn fields_are_named_and_what_has_changed_stands_behind_an_arrow() {
        let version = kfd::GET_VERSION.ioctl();
        let (before, after) = ([0; 8], [1, 0, 0, 0, 17, 0, 0, 0]);
        assert_eq!(
            describe(DRIVERS, version.request, &before, &after).unwrap(),
            "AMDKFD_IOC_GET_VERSION major_version=0x0 minor_version=0x0 -> major_version=0x1 minor_version=0x11"
        );
        assert_eq!(describe(DRIVERS, 0, &[], &[]), None);
    }

    #[test]
    fn every_ioctl_of_kgsl_has_its_fields() {
        for ioctl in kgsl::IOCTLS {
            let (name, fields) = kgsl_fields(ioctl.request).unwrap();
            assert_eq!(name, ioctl.name);
            let end = fields.iter().map(|(_, at, size)| at + size).max().unwrap();
            // What is behind the last one is padding.
            assert!((ioctl.size() - end) < 8, "{name}");
        }
        let create = kgsl::DRAWCTXT_CREATE.request;
        let (before, after) = ([0x12, 0, 0, 0, 0, 0, 0, 0], [0x52, 0x80, 0, 0, 1, 0, 0, 0]);
        assert_eq!(
            describe(DRIVERS, create, &before, &after).unwrap(),
            "IOCTL_KGSL_DRAWCTXT_CREATE flags=0x12 drawctxt_id=0x0 -> flags=0x8052 drawctxt_id=0x1"
        );
    }

    #[test]
    fn a_number_is_another_call_of_another_driver() {
        for ioctl in msm::IOCTLS.iter().chain(syncobj::IOCTLS) {
            let (name, fields) = msm_fields(ioctl.request).unwrap();
            assert_eq!(name, ioctl.name);
            let end = fields.iter().map(|(_, at, size)| at + size).max().unwrap();
            assert!((ioctl.size() - end) < 8, "{name}");
        }
        let request = msm::MSM_GEM_NEW.request;
        let before = [0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0];
        let mut after = before;
        after[12] = 5;
        let drivers = Drivers {
            drm: Drm::Msm,
            ..DRIVERS
        };
        assert_eq!(
            describe(drivers, request, &before, &after).unwrap(),
            "DRM_IOCTL_MSM_GEM_NEW size=0x1000 flags=0x20000 handle=0x0 -> handle=0x5"
        );
        let param = msm::MSM_GET_PARAM.request;
        for (drivers, name) in [
            (drivers, "DRM_IOCTL_MSM_GET_PARAM pipe="),
            (DRIVERS, "DRM_IOCTL_AMDGPU_GEM_CREATE"),
        ] {
            let text = describe(drivers, param, &[0; 24], &[0; 24]).unwrap();
            assert!(text.starts_with(name), "{text}");
        }
        // What all drivers have.
        let version = drm::VERSION.request;
        let text = describe(drivers, version, &[0; 64], &[0; 64]).unwrap();
        assert!(text.starts_with("DRM_IOCTL_VERSION"), "{text}");
        // The same call with half of its argument.
        let info = msm::by_value::MSM_GEM_INFO.request;
        let text = describe(drivers, info, &[0; 16], &[0; 16]).unwrap();
        assert!(
            text.starts_with("DRM_IOCTL_MSM_GEM_INFO handle=0x0 info"),
            "{text}"
        );
    }
}
