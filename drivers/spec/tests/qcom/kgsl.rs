//! KGSL: layouts and requests as a C compiler takes them from the vendor's header (qualcomm-linux/kgsl 27cf0e4,
//! include/uapi/linux/msm_kgsl.h, 64-bit), and what else can be checked without a kernel.

use std::cmp::Ordering;

use drivers_spec::qcom::kgsl::{self, Errno, compare, refusals};
use drivers_spec::qcom::msm;
use hcq::transport::Ioctl;

/// A struct, its bytes, its fields with their offsets.
const STRUCTS: &str = "
kgsl_device_getproperty 24 type:0 value:8 sizebytes:16
kgsl_devinfo 40 device_id:0 chip_id:4 mmu_enabled:8 gmem_gpubaseaddr:16 gpu_id:24 gmem_sizebytes:32
kgsl_version 16 drv_major:0 drv_minor:4 dev_major:8 dev_minor:12
kgsl_sp_generic_mem 16 local:0 pvt:8
kgsl_ucode_version 8 pfp:0 pm4:4
kgsl_gpu_model 32 gpu_model:0
kgsl_device_constraint 24 type:0 context_id:4 data:8 size:16
kgsl_device_constraint_pwrlevel 4 level:0
kgsl_device_waittimestamp_ctxtid 12 context_id:0 timestamp:4 timeout:8
kgsl_drawctxt_create 8 flags:0 drawctxt_id:4
kgsl_drawctxt_destroy 4 drawctxt_id:0
kgsl_map_user_mem 48 fd:0 gpuaddr:8 len:16 offset:24 hostptr:32 memtype:40 flags:44
kgsl_cmdstream_readtimestamp_ctxtid 12 context_id:0 type:4 timestamp:8
kgsl_sharedmem_free 8 gpuaddr:0
kgsl_gpumem_alloc_id 48 id:0 flags:4 size:8 mmapsize:16 gpuaddr:24 __pad:32
kgsl_gpumem_free_id 8 id:0 __pad:4
kgsl_gpumem_sync_cache 32 gpuaddr:0 id:8 op:12 offset:16 length:24
kgsl_perfcounter_get 20 groupid:0 countable:4 offset:8 offset_hi:12 __pad:16
kgsl_perfcounter_put 16 groupid:0 countable:4 __pad:8
kgsl_perfcounter_read 24 reads:0 count:8 __pad:12
kgsl_perfcounter_read_group 16 groupid:0 countable:4 value:8
kgsl_gpuobj_alloc 48 size:0 flags:8 va_len:16 mmapsize:24 id:32 metadata_len:36 metadata:40
kgsl_gpuobj_free 32 flags:0 priv:8 id:16 type:20 len:24
kgsl_gpu_event_timestamp 8 context_id:0 timestamp:4
kgsl_gpu_event_fence 4 fd:0
kgsl_gpuobj_info 48 gpuaddr:0 flags:8 size:16 va_len:24 va_addr:32 id:40
kgsl_gpuobj_import 32 priv:0 priv_len:8 flags:16 type:24 id:28
kgsl_gpuobj_import_dma_buf 4 fd:0
kgsl_gpuobj_import_useraddr 8 virtaddr:0
kgsl_gpuobj_sync 16 objs:0 obj_len:8 count:12
kgsl_gpuobj_sync_obj 24 offset:0 length:8 id:16 op:20
kgsl_gpu_command 64 flags:0 cmdlist:8 cmdsize:16 numcmds:20 objlist:24 objsize:32 numobjs:36 synclist:40 syncsize:48 numsyncs:52 context_id:56 timestamp:60
kgsl_command_object 32 offset:0 gpuaddr:8 size:16 flags:24 id:28
kgsl_command_syncpoint 24 priv:0 size:8 type:16
";

/// Requests.
const REQUESTS: &[(&str, u32)] = &[
    ("IOCTL_KGSL_DEVICE_GETPROPERTY", 0xc0180902),
    ("IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID", 0x400c0907),
    ("IOCTL_KGSL_DRAWCTXT_CREATE", 0xc0080913),
    ("IOCTL_KGSL_DRAWCTXT_DESTROY", 0x40040914),
    ("IOCTL_KGSL_MAP_USER_MEM", 0xc0300915),
    ("IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID", 0xc00c0916),
    ("IOCTL_KGSL_SHAREDMEM_FREE", 0x40080921),
    ("IOCTL_KGSL_SETPROPERTY", 0x40180932),
    ("IOCTL_KGSL_GPUMEM_ALLOC_ID", 0xc0300934),
    ("IOCTL_KGSL_GPUMEM_FREE_ID", 0xc0080935),
    ("IOCTL_KGSL_GPUMEM_SYNC_CACHE", 0x40200937),
    ("IOCTL_KGSL_PERFCOUNTER_GET", 0xc0140938),
    ("IOCTL_KGSL_PERFCOUNTER_PUT", 0x40100939),
    ("IOCTL_KGSL_PERFCOUNTER_READ", 0xc018093b),
    ("IOCTL_KGSL_GPUOBJ_ALLOC", 0xc0300945),
    ("IOCTL_KGSL_GPUOBJ_FREE", 0x40200946),
    ("IOCTL_KGSL_GPUOBJ_INFO", 0xc0300947),
    ("IOCTL_KGSL_GPUOBJ_IMPORT", 0xc0200948),
    ("IOCTL_KGSL_GPUOBJ_SYNC", 0x40100949),
    ("IOCTL_KGSL_GPU_COMMAND", 0xc040094a),
];

fn lines(layouts: &[drivers_spec::amd::uapi::Layout]) -> Vec<String> {
    let line = |layout: &drivers_spec::amd::uapi::Layout| {
        let fields = layout.fields.iter().filter(|field| !field.name.is_empty());
        let fields = fields.map(|field| format!(" {}:{}", field.name, field.offset));
        format!(
            "{} {}{}",
            layout.name,
            layout.size,
            fields.collect::<String>()
        )
    };
    layouts.iter().map(line).collect()
}

#[test]
fn structs_lie_as_in_the_header() {
    let wanted: Vec<_> = STRUCTS.trim().lines().collect();
    assert_eq!(lines(kgsl::LAYOUTS), wanted);
}

#[test]
fn requests_are_those_of_the_header() {
    let ours: Vec<_> = kgsl::IOCTLS
        .iter()
        .map(|ioctl| (ioctl.name, ioctl.request))
        .collect();
    assert_eq!(ours, REQUESTS);
    assert!(
        kgsl::IOCTLS
            .iter()
            .all(|ioctl| Ioctl::kind_of(ioctl.request) == kgsl::KIND)
    );
}

/// Linux, include/uapi/drm/msm_drm.h (02189ca8): what libdrm's older header does not have.
#[test]
fn structs_of_msm_lie_as_in_the_header() {
    let wanted = [
        "drm_msm_param 24 pipe:0 param:4 value:8 len:16 pad:20",
        "drm_msm_gem_info 24 handle:0 info:4 value:8 len:16 pad:20",
        "drm_msm_gem_submit_syncobj 16 handle:0 flags:4 point:8",
        "drm_msm_gem_submit 72 flags:0 fence:4 nr_bos:8 nr_cmds:12 bos:16 cmds:24 fence_fd:32 queueid:36 \
         in_syncobjs:40 out_syncobjs:48 nr_in_syncobjs:56 nr_out_syncobjs:60 syncobj_stride:64 pad:68",
        "drm_msm_wait_fence 32 fence:0 flags:4 timeout:8 queueid:24",
        "drm_msm_submitqueue_query 24 data:0 id:8 param:12 len:16 pad:20",
    ];
    let ours = lines(msm::LAYOUTS);
    for line in wanted {
        assert!(ours.iter().any(|our| our == line), "{line}\n{ours:#?}");
    }
    let info = (
        msm::MSM_GEM_INFO.request,
        msm::by_value::MSM_GEM_INFO.request,
    );
    assert_eq!(info, (0xc018_6443, 0xc010_6443));
    assert_eq!(msm::MSM_GEM_SUBMIT.request, 0xc048_6446);
    assert_eq!(msm::MSM_SUBMITQUEUE_CLOSE.request, 0x4004_644b);
}

#[test]
fn timestamps_wrap() {
    assert_eq!(compare(5, 5), Ordering::Equal);
    assert_eq!(compare(6, 5), Ordering::Greater);
    assert_eq!(compare(5, 6), Ordering::Less);
    assert_eq!(compare(1, u32::MAX), Ordering::Greater);
    assert_eq!(compare(u32::MAX, 1), Ordering::Less);
    assert_eq!(compare(0x7fff_ffff, 0), Ordering::Greater);
    // Exactly half: the kernel compares again, with both half further.
    assert_eq!(compare(0x8000_0000, 0), Ordering::Less);
    assert_eq!(compare(0, 0x8000_0000), Ordering::Greater);
    // `timestamp_cmp` of kgsl.h, step by step.
    let kernel = |a: u32, b: u32| {
        const WINDOW: u32 = 0x8000_0000;
        if a == b {
            return Ordering::Equal;
        }
        if a > b && a - b < WINDOW {
            return Ordering::Greater;
        }
        let (a, b) = (a.wrapping_add(WINDOW), b.wrapping_add(WINDOW));
        match a > b && a - b <= WINDOW {
            true => Ordering::Greater,
            false => Ordering::Less,
        }
    };
    let edges = [
        0,
        1,
        2,
        0x7fff_fffe,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        u32::MAX - 1,
        u32::MAX,
    ];
    for a in edges {
        for b in edges {
            assert_eq!(compare(a, b), kernel(a, b), "{a:#x} {b:#x}");
        }
    }
}

#[test]
fn refusals_are_told_apart() {
    let of = |request, errno: Errno| refusals(request, errno as i32).count();
    assert_eq!(of(kgsl::GPU_COMMAND.request, Errno::Eproto), 1);
    assert_eq!(
        of(kgsl::DEVICE_WAITTIMESTAMP_CTXTID.request, Errno::Edeadlk),
        1
    );
    assert_eq!(of(kgsl::GPUOBJ_INFO.request, Errno::Eproto), 0);
    assert_eq!(of(0, Errno::Einval), 0);
    for (i, refusal) in kgsl::REFUSALS.iter().enumerate() {
        let same = |other: &kgsl::Refusal| (other.nr, other.errno) == (refusal.nr, refusal.errno);
        assert!(!kgsl::REFUSALS[..i].iter().any(same), "{refusal:?}");
        assert!(kgsl::IOCTLS.iter().any(|ioctl| ioctl.nr() == refusal.nr));
    }
}

#[test]
fn flags_do_not_share_bits_with_numbers() {
    let masks =
        kgsl::context::PRIORITY_MASK | kgsl::context::TYPE_MASK | kgsl::context::PREEMPT_STYLE_MASK;
    assert_eq!(kgsl::Context::all().bits() & masks, 0);
    use kgsl::memory::{ALIGN_MASK, CACHEMODE_MASK, TYPE_MASK, USERMEM_MASK};
    let masks = ALIGN_MASK | CACHEMODE_MASK | TYPE_MASK | USERMEM_MASK;
    assert_eq!(kgsl::Memory::all().bits() & masks, 0);
    assert_eq!(kgsl::mmap_offset(0x2a), 0x2a000);
    assert_eq!(msm::Submit::all().bits() & 0xffff, 0);
}
