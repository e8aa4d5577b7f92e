//! The ioctls of a render node of msm, the DRM driver of Adreno GPUs in Linux, that compute clients use.
//!
//! Source: Linux, include/uapi/drm/msm_drm.h (02189ca8), against which every struct and number was read; a test compares
//! with the older header of libdrm by a C compiler. `<-` marks what the kernel returns. What all drivers have, such as
//! VERSION and GEM_CLOSE, is [`crate::amd::drm`].

use bitflags::bitflags;

use crate::amd::uapi::{ioctls, structs};

/// `MSM_PIPE_3D0`: the pipe of GET_PARAM, and bits 15:0 of the flags of a submission.
pub const PIPE_3D0: u32 = 0x10;

/// `MSM_PARAM_*`: what GET_PARAM is asked.
pub mod param {
    /// 630 and so on, or 0.
    pub const GPU_ID: u32 = 0x01;
    /// Bytes of on-chip memory.
    pub const GMEM_SIZE: u32 = 0x02;
    /// Bits 31:0 as in KGSL, see [`super::super::chip`]; bits 47:32 the speed bin.
    pub const CHIP_ID: u32 = 0x03;
    /// In Hz.
    pub const MAX_FREQ: u32 = 0x04;
    /// Ticks of the counter that is always on.
    pub const TIMESTAMP: u32 = 0x05;
    /// Where shaders see on-chip memory.
    pub const GMEM_BASE: u32 = 0x06;
    /// How many priorities there are; 0 is the highest.
    pub const PRIORITIES: u32 = 0x07;
    /// Faults so far, of the device.
    pub const FAULTS: u32 = 0x09;
    /// How often it was suspended.
    pub const SUSPENDS: u32 = 0x0a;
    /// The first address that a client may choose.
    pub const VA_START: u32 = 0x0e;
    /// Bytes from there.
    pub const VA_SIZE: u32 = 0x0f;
    /// The highest bank bit of memory.
    pub const HIGHEST_BANK_BIT: u32 = 0x10;
}

/// `MSM_INFO_*`: what GEM_INFO is asked, by value.
pub mod info {
    /// Where to map it, as an offset in the file.
    pub const GET_OFFSET: u32 = 0x00;
    /// The address of the GPU.
    pub const GET_IOVA: u32 = 0x01;
    /// A name, by address.
    pub const SET_NAME: u32 = 0x02;
    /// A name, by address.
    pub const GET_NAME: u32 = 0x03;
    /// Chooses the address of the GPU.
    pub const SET_IOVA: u32 = 0x04;
    /// [`super::Bo`].
    pub const GET_FLAGS: u32 = 0x05;
}

/// `MSM_SUBMIT_CMD_*`: kinds of commands.
pub mod command {
    /// Runs.
    pub const BUF: u32 = 1;
    /// Is the target of an indirect buffer.
    pub const IB_TARGET_BUF: u32 = 2;
    /// Runs after a switch of contexts only.
    pub const CTX_RESTORE_BUF: u32 = 3;
}

/// `MSM_SUBMITQUEUE_PARAM_FAULTS`: a u32, hangs of the queue.
pub const SUBMITQUEUE_FAULTS: u32 = 0;

bitflags! {
    /// `MSM_BO_*`: how memory is made. One cache mode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bo: u32 {
        /// The display may read it.
        const SCANOUT = 0x1;
        /// The GPU only reads.
        const GPU_READONLY = 0x2;
        /// Cached by the CPU.
        const CACHED = 0x1_0000;
        /// Writes are combined.
        const WC = 0x2_0000;
        /// Deprecated.
        const UNCACHED = 0x4_0000;
        /// Cached, and the GPU sees the caches of the CPU; not every GPU.
        const CACHED_COHERENT = 0x8_0000;
    }

    /// `MSM_PREP_*`: what the CPU is about to do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Prep: u32 {
        /// Reads.
        const READ = 0x1;
        /// Writes.
        const WRITE = 0x2;
        /// Does not wait.
        const NOSYNC = 0x4;
        /// Raises the frequency.
        const BOOST = 0x8;
    }

    /// `MSM_SUBMIT_BO_*`: what commands do with memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SubmitBo: u32 {
        /// Read.
        const READ = 0x1;
        /// Write.
        const WRITE = 0x2;
        /// It belongs into a dump.
        const DUMP = 0x4;
        /// No implicit fences.
        const NO_IMPLICIT = 0x8;
    }

    /// `MSM_SUBMIT_*`: the upper bits of the flags of a submission.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Submit: u32 {
        /// The client chooses the fence.
        const FENCE_SN_IN = 0x0200_0000;
        /// Signals syncobjs.
        const SYNCOBJ_OUT = 0x0400_0000;
        /// Waits for syncobjs.
        const SYNCOBJ_IN = 0x0800_0000;
        /// Runs from the ring.
        const SUDO = 0x1000_0000;
        /// Returns a descriptor of the fence.
        const FENCE_FD_OUT = 0x2000_0000;
        /// Waits for a descriptor of a fence.
        const FENCE_FD_IN = 0x4000_0000;
        /// No implicit fences.
        const NO_IMPLICIT = 0x8000_0000;
    }
}

structs! { LAYOUTS;
    /// Seconds and nanoseconds of CLOCK_MONOTONIC, absolute.
    Timespec = "drm_msm_timespec" {
        /// Seconds.
        tv_sec: i64,
        /// Nanoseconds.
        tv_nsec: i64,
    }
    /// GET_PARAM.
    Param = "drm_msm_param" {
        /// [`PIPE_3D0`].
        pipe: u32,
        /// See [`param`].
        param: u32,
        /// <-
        value: u64,
        /// Zero.
        len: u32,
        /// Zero.
        pad: u32,
    }
    /// GEM_NEW.
    GemNew = "drm_msm_gem_new" {
        /// Bytes.
        size: u64,
        /// [`Bo`].
        flags: u32,
        /// <-
        handle: u32,
    }
    /// GEM_INFO.
    GemInfo = "drm_msm_gem_info" {
        /// Which.
        handle: u32,
        /// See [`info`].
        info: u32,
        /// Given or <-.
        value: u64,
        /// Bytes where the value is an address.
        len: u32,
        /// Zero.
        pad: u32,
    }
    /// GEM_CPU_PREP.
    GemCpuPrep = "drm_msm_gem_cpu_prep" {
        /// Which.
        handle: u32,
        /// [`Prep`].
        op: u32,
        /// Until when.
        timeout: Timespec,
    }
    /// GEM_CPU_FINI.
    GemCpuFini = "drm_msm_gem_cpu_fini" {
        /// Which.
        handle: u32,
    }
    /// An address in commands; none is needed where the client chooses addresses.
    GemSubmitReloc = "drm_msm_gem_submit_reloc" {
        /// Where in the commands.
        submit_offset: u32,
        /// Bits beside it.
        or_bits = "or": u32,
        /// To the left, or negative.
        shift: i32,
        /// Which memory of the submission.
        reloc_idx: u32,
        /// Bytes into it.
        reloc_offset: u64,
    }
    /// Commands of a [`GemSubmit`].
    GemSubmitCmd = "drm_msm_gem_submit_cmd" {
        /// See [`command`].
        kind = "type": u32,
        /// Which memory of the submission has them.
        submit_idx: u32,
        /// Bytes into it.
        submit_offset: u32,
        /// Bytes.
        size: u32,
        /// Zero.
        pad: u32,
        /// How many.
        nr_relocs: u32,
        /// Address of [`GemSubmitReloc`]s; the kernel only reads there.
        relocs: u64,
    }
    /// Memory of a [`GemSubmit`]: all that its commands use.
    GemSubmitBo = "drm_msm_gem_submit_bo" {
        /// [`SubmitBo`].
        flags: u32,
        /// Which.
        handle: u32,
        /// Where it is taken to be.
        presumed: u64,
    }
    /// What a [`GemSubmit`] waits for or signals.
    GemSubmitSyncobj = "drm_msm_gem_submit_syncobj" {
        /// Which.
        handle: u32,
        /// 1: reset after the wait.
        flags: u32,
        /// The point of a timeline.
        point: u64,
    }
    /// GEM_SUBMIT.
    GemSubmit = "drm_msm_gem_submit" {
        /// [`Submit`] with [`PIPE_3D0`].
        flags: u32,
        /// <- of the queue.
        fence: u32,
        /// How many.
        nr_bos: u32,
        /// How many.
        nr_cmds: u32,
        /// Address of [`GemSubmitBo`]s.
        bos: u64,
        /// Address of [`GemSubmitCmd`]s.
        cmds: u64,
        /// Given or <-.
        fence_fd: i32,
        /// Which queue.
        queueid: u32,
        /// Address of [`GemSubmitSyncobj`]s.
        in_syncobjs: u64,
        /// Address of [`GemSubmitSyncobj`]s.
        out_syncobjs: u64,
        /// How many.
        nr_in_syncobjs: u32,
        /// How many.
        nr_out_syncobjs: u32,
        /// Bytes of one.
        syncobj_stride: u32,
        /// Zero.
        pad: u32,
    }
    /// WAIT_FENCE.
    WaitFence = "drm_msm_wait_fence" {
        /// Which.
        fence: u32,
        /// 1: raises the frequency.
        flags: u32,
        /// Until when.
        timeout: Timespec,
        /// Of which queue.
        queueid: u32,
        /// Padding of the compiler; no field of the header.
        gap = "": u32,
    }
    /// GEM_MADVISE.
    GemMadvise = "drm_msm_gem_madvise" {
        /// Which.
        handle: u32,
        /// 0: needed, 1: not needed.
        madv: u32,
        /// <- whether its pages are there.
        retained: u32,
    }
    /// SUBMITQUEUE_NEW.
    Submitqueue = "drm_msm_submitqueue" {
        /// Zero.
        flags: u32,
        /// Its priority, see [`param::PRIORITIES`].
        prio: u32,
        /// <-
        id: u32,
    }
    /// SUBMITQUEUE_QUERY.
    SubmitqueueQuery = "drm_msm_submitqueue_query" {
        /// Address for the answer.
        data: u64,
        /// Which queue.
        id: u32,
        /// See [`SUBMITQUEUE_FAULTS`].
        param: u32,
        /// Bytes there; <- bytes of the answer.
        len: u32,
        /// Zero.
        pad: u32,
    }
}

ioctls! { IOCTLS, b'd', "DRM_IOCTL_";
    /// Facts of the GPU.
    MSM_GET_PARAM = IOWR 0x40 Param,
    /// Memory.
    MSM_GEM_NEW = IOWR 0x42 GemNew,
    /// Where memory is. `value` is an address for some questions and a number for others, so calls are refused:
    /// [`by_value`] has those with a number.
    MSM_GEM_INFO = IOWR 0x43 GemInfo [undescribed],
    /// Waits until the CPU may use memory.
    MSM_GEM_CPU_PREP = IOW 0x44 GemCpuPrep,
    /// The CPU is done.
    MSM_GEM_CPU_FINI = IOW 0x45 GemCpuFini,
    /// Commands for a queue.
    MSM_GEM_SUBMIT = IOWR 0x46 GemSubmit [
        bos: nr_bos of GemSubmitBo,
        cmds: nr_cmds of GemSubmitCmd,
        in_syncobjs: nr_in_syncobjs of GemSubmitSyncobj,
        out_syncobjs: nr_out_syncobjs of GemSubmitSyncobj
    ],
    /// Sleeps until a submission has ended.
    MSM_WAIT_FENCE = IOW 0x47 WaitFence,
    /// Whether memory is needed.
    MSM_GEM_MADVISE = IOWR 0x48 GemMadvise,
    /// A queue.
    MSM_SUBMITQUEUE_NEW = IOWR 0x4a Submitqueue,
    /// Ends a queue.
    MSM_SUBMITQUEUE_CLOSE = IOW 0x4b u32,
    /// Facts of a queue.
    MSM_SUBMITQUEUE_QUERY = IOW 0x4c SubmitqueueQuery [data: len of u8],
}

/// GEM_INFO with 16 bytes of argument, as the first kernels had it: the kernel takes the rest, the length among it, for
/// zero (`drm_ioctl`), so it copies nothing to or from an address (`msm_ioctl_gem_info`).
pub mod by_value {
    use super::{ioctls, structs};

    structs! { LAYOUTS;
        /// GEM_INFO.
        GemInfo = "drm_msm_gem_info" {
            /// Which.
            handle: u32,
            /// See [`super::info`]: GET_OFFSET, GET_IOVA, SET_IOVA or GET_FLAGS.
            info: u32,
            /// Given or <-.
            value: u64,
        }
    }

    ioctls! { IOCTLS, b'd', "DRM_IOCTL_";
        /// Where memory is.
        MSM_GEM_INFO = IOWR 0x43 GemInfo,
    }
}
