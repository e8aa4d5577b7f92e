//! Our layouts of the kernel's structs, compared with the headers of this system by a C compiler.
//!
//! `linux-libc-dev` of Debian 12 (Linux 6.1) has version 1.11 of the KFD interface: what was added
//! since is listed in `NEWER`, and is not compared there. `libdrm-dev` has the headers of DRM, which
//! Debian's `linux-libc-dev` leaves out. Where a header is missing the test says so and passes.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use drivers_spec::amd::uapi::Layout;
use drivers_spec::amd::{drm, kfd};
use drivers_spec::qcom::{kgsl, msm, syncobj};
use drivers_spec::vfio;
use hcq::transport::Ioctl;

const KFD: &str = "/usr/include/linux/kfd_ioctl.h";
const DRM: &str = "/usr/include/libdrm/amdgpu_drm.h";
const DRM_CORE: &str = "/usr/include/libdrm/drm.h";
const MSM: &str = "/usr/include/libdrm/msm_drm.h";
const KGSL: &str = "/usr/include/linux/msm_kgsl.h";

/// Structs, fields (`struct.field`) and ioctls that are newer than a header that may be installed,
/// and structs whose size has grown (`struct=`).
const NEWER: &[&str] = &[
    // 1.12
    "kfd_ioctl_export_dmabuf_args",
    "AMDKFD_IOC_EXPORT_DMABUF",
    // 1.13
    "kfd_ioctl_runtime_enable_args",
    "AMDKFD_IOC_RUNTIME_ENABLE",
    "kfd_ioctl_dbg_trap_args",
    "AMDKFD_IOC_DBG_TRAP",
    "kfd_context_save_area_header",
    "kfd_context_save_area_header_wave_state",
    // 1.14
    "kfd_hsa_signal_event_data",
    // 1.17
    "kfd_ioctl_create_queue_args.sdma_engine_id",
    "kfd_ioctl_create_queue_args.pad",
    "kfd_ioctl_create_queue_args=",
    "AMDKFD_IOC_CREATE_QUEUE=",
    // Linux 6.6
    "drm_syncobj_wait=",
    "drm_syncobj_wait.deadline_nsec",
    "DRM_IOCTL_SYNCOBJ_WAIT=",
    "drm_syncobj_timeline_wait=",
    "drm_syncobj_timeline_wait.deadline_nsec",
    "DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT=",
    // Linux 6.2 to 6.16
    "drm_amdgpu_info_device=",
    "drm_amdgpu_info_device.pcie_gen",
    "drm_amdgpu_info_device.pcie_num_lanes",
    "drm_amdgpu_info_device.mall_size",
    "drm_amdgpu_info_device.min_engine_clock",
    "drm_amdgpu_info_device.min_memory_clock",
    "drm_amdgpu_info_device.tcp_cache_size",
    "drm_amdgpu_info_device.num_sqc_per_wgp",
    "drm_amdgpu_info_device.sqc_data_cache_size",
    "drm_amdgpu_info_device.sqc_inst_cache_size",
    "drm_amdgpu_info_device.gl1c_cache_size",
    "drm_amdgpu_info_device.gl2c_cache_size",
    "drm_amdgpu_info_device.enabled_rb_pipes_mask_hi",
    "drm_amdgpu_info_device.shadow_size",
    "drm_amdgpu_info_device.shadow_alignment",
    "drm_amdgpu_info_device.csa_size",
    "drm_amdgpu_info_device.csa_alignment",
    "drm_amdgpu_info_device.userq_ip_mask",
    "drm_amdgpu_info_device.pad",
    "drm_amdgpu_info_hw_ip.ip_discovery_version",
    "drm_amdgpu_info_hw_ip=",
    // libdrm's header of msm has no syncobjs yet: what is newer is in `tests/qcom_kgsl.rs` in numbers.
    "drm_msm_param=",
    "drm_msm_param.len",
    "drm_msm_param.pad",
    "DRM_IOCTL_MSM_GET_PARAM=",
    "drm_msm_gem_info=",
    "drm_msm_gem_info.info",
    "drm_msm_gem_info.value",
    "drm_msm_gem_info.len",
    "drm_msm_gem_info.pad",
    "DRM_IOCTL_MSM_GEM_INFO=",
    "drm_msm_gem_submit_syncobj",
    "drm_msm_gem_submit=",
    "drm_msm_gem_submit.in_syncobjs",
    "drm_msm_gem_submit.out_syncobjs",
    "drm_msm_gem_submit.nr_in_syncobjs",
    "drm_msm_gem_submit.nr_out_syncobjs",
    "drm_msm_gem_submit.syncobj_stride",
    "drm_msm_gem_submit.pad",
    "DRM_IOCTL_MSM_GEM_SUBMIT=",
    "drm_msm_wait_fence.flags",
    "drm_msm_submitqueue_query",
    "DRM_IOCTL_MSM_SUBMITQUEUE_QUERY",
];

/// The body of a struct in a header.
fn body<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let start = header
        .find(&format!("struct {name} {{"))
        .or_else(|| header.find(&format!("struct {name}  {{")))?;
    let rest = &header[start..];
    Some(&rest[..rest.find("\n};")?])
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|w| w == word)
}

/// Compares; returns how many facts were equal, and what the header lacks.
fn compare(
    include: &str,
    header: &str,
    layouts: &[Layout],
    ioctls: &[Ioctl],
) -> (usize, Vec<String>) {
    let mut missing = Vec::new();
    let mut want = Vec::new();
    let mut program = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/types.h>\n#include {include}\nint main(void) {{\n"
    );
    for layout in layouts {
        let Some(body) = body(header, layout.name) else {
            missing.push(layout.name.to_owned());
            continue;
        };
        let mut fact = |key: String, expression: String, value: usize| {
            let _ = writeln!(program, "  printf(\"%zu\\n\", (size_t)({expression}));");
            want.push((key, value));
        };
        let name = layout.name;
        fact(
            format!("{name}="),
            format!("sizeof(struct {name})"),
            layout.size,
        );
        for field in layout.fields {
            if field.name.is_empty() {
                continue;
            }
            let key = format!("{name}.{}", field.name);
            if !has_word(body, field.name) {
                missing.push(key);
                continue;
            }
            let c = field.name;
            fact(
                key.clone(),
                format!("offsetof(struct {name}, {c})"),
                field.offset,
            );
            fact(
                key,
                format!("sizeof(((struct {name} *)0)->{c})"),
                field.size,
            );
        }
    }
    for ioctl in ioctls {
        if !has_word(header, ioctl.name) {
            missing.push(ioctl.name.to_owned());
            continue;
        }
        let _ = writeln!(program, "  printf(\"%u\\n\", (unsigned)({}));", ioctl.name);
        want.push((format!("{}=", ioctl.name), ioctl.request as usize));
    }
    program.push_str("  return 0;\n}\n");

    let folder = std::env::temp_dir().join(format!(
        "doorbell-layout-{}-{}",
        std::process::id(),
        layouts.len()
    ));
    std::fs::create_dir_all(folder.join("drm")).unwrap();
    // kfd_ioctl.h includes <drm/drm.h> only for the types of <linux/types.h>.
    std::fs::write(folder.join("drm/drm.h"), "#include <linux/types.h>\n").unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).unwrap();
    let cc = Command::new("cc")
        .arg("-I")
        .arg(&folder)
        .arg("-I/usr/include/libdrm")
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .output()
        .unwrap();
    assert!(
        cc.status.success(),
        "{}",
        String::from_utf8_lossy(&cc.stderr)
    );
    let out = Command::new(&binary).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let got: Vec<usize> = String::from_utf8(out.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(got.len(), want.len());
    let mut equal = 0;
    let mut wrong = Vec::new();
    for ((key, ours), theirs) in want.iter().zip(&got) {
        if ours == theirs {
            equal += 1;
        } else if NEWER.contains(&key.as_str()) && theirs < ours {
            missing.push(key.clone());
        } else {
            wrong.push(format!("{key}: ours {ours:#x}, the header's {theirs:#x}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    (equal, missing)
}

fn check(include: &str, headers: &[&str], layouts: &[Layout], ioctls: &[Ioctl]) -> usize {
    if !headers.iter().all(|path| Path::new(path).exists()) {
        eprintln!("not compared: one of {headers:?} is missing (scripts/setup installs them)");
        return usize::MAX;
    }
    let text: String = headers
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let (equal, missing) = compare(include, &text, layouts, ioctls);
    let unknown: Vec<_> = missing
        .iter()
        .filter(|key| !NEWER.contains(&key.as_str()))
        .collect();
    assert!(unknown.is_empty(), "not in {headers:?}: {unknown:?}");
    eprintln!("{include}: {equal} facts are equal; newer than the header: {missing:?}");
    equal
}

#[test]
fn kfd_as_in_the_kernel_header() {
    let equal = check("<linux/kfd_ioctl.h>", &[KFD], kfd::LAYOUTS, kfd::IOCTLS);
    assert!(equal > 300, "{equal}");
}

#[test]
fn drm_as_in_the_kernel_header() {
    let equal = check(
        "<amdgpu_drm.h>",
        &[DRM, DRM_CORE],
        drm::LAYOUTS,
        drm::IOCTLS,
    );
    assert!(equal > 150, "{equal}");
}

#[test]
fn msm_as_in_the_kernel_header() {
    let equal = check("<msm_drm.h>", &[MSM], msm::LAYOUTS, msm::IOCTLS);
    assert!(equal > 80, "{equal}");
    // 16 bytes of GEM_INFO are what kernels of that time had.
    let equal = check("<msm_drm.h>", &[MSM], &[], msm::by_value::IOCTLS);
    assert!(equal >= 1, "{equal}");
}

#[test]
fn syncobjs_as_in_the_kernel_header() {
    let equal = check("<drm.h>", &[DRM_CORE], syncobj::LAYOUTS, syncobj::IOCTLS);
    assert!(equal > 40, "{equal}");
}

/// Debian has no header of KGSL; where a vendor's system has one it is compared. `tests/qcom_kgsl.rs` has the same
/// facts in numbers.
#[test]
fn kgsl_as_in_the_kernel_header() {
    let header = "<linux/msm_kgsl.h>";
    let equal = check(header, &[KGSL], kgsl::LAYOUTS, kgsl::IOCTLS);
    assert!(equal > 200, "{equal}");
}

#[test]
fn vfio_as_in_the_kernel_header() {
    let header = "/usr/include/linux/vfio.h";
    let equal = check("<linux/vfio.h>", &[header], vfio::LAYOUTS, vfio::IOCTLS);
    assert!(equal > 80, "{equal}");
}

#[test]
fn every_struct_of_an_ioctl_is_here() {
    let Ok(header) = std::fs::read_to_string(KFD) else {
        return;
    };
    for line in header.lines() {
        let Some(name) = line
            .strip_prefix("struct ")
            .and_then(|rest| rest.strip_suffix(" {"))
        else {
            continue;
        };
        if name.starts_with("kfd_ioctl_") && name.ends_with("_args") {
            assert!(
                kfd::LAYOUTS.iter().any(|layout| layout.name == name)
                    || name.starts_with("kfd_ioctl_dbg_trap_"),
                "{name} is missing"
            );
        }
    }
    for word in header.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if word.starts_with("AMDKFD_IOC_") {
            assert!(
                kfd::IOCTLS.iter().any(|ioctl| ioctl.name == word),
                "{word} is missing"
            );
        }
    }
}

#[test]
fn requests_as_seen_in_traces() {
    assert_eq!(kfd::CREATE_QUEUE.request, 0xc060_4b02);
    assert_eq!(kfd::ALLOC_MEMORY_OF_GPU.request, 0xc028_4b16);
    assert_eq!(kfd::SVM.request, 0xc018_4b20);
    assert_eq!(kfd::CRIU_OP.size(), 56);
    assert_eq!(kfd::DBG_TRAP.size(), 32);
}
