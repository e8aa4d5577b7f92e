//! The ioctls of syncobjs, which render nodes of all drivers have: fences with a handle, and timelines of them.
//!
//! Source: Linux, include/uapi/drm/drm.h, of Linux 6.6: a test compares with the header of libdrm by a C compiler. `<-` marks
//! what the kernel returns.

use bitflags::bitflags;

use crate::amd::uapi::{ioctls, structs};

/// `DRM_SYNCOBJ_CREATE_SIGNALED`: it has a fence that is signalled.
pub const CREATE_SIGNALED: u32 = 1;
/// `DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE` and `DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE`: the descriptor is
/// that of the fence, not of the syncobj.
pub const SYNC_FILE: u32 = 1;
/// `DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED`: the last point that has a fence.
pub const QUERY_LAST_SUBMITTED: u32 = 1;

bitflags! {
    /// `DRM_SYNCOBJ_WAIT_FLAGS_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WaitFlags: u32 {
        /// For all of them.
        const WAIT_ALL = 1;
        /// Also for a fence to come.
        const WAIT_FOR_SUBMIT = 2;
        /// Only for the fence to come.
        const WAIT_AVAILABLE = 4;
    }
}

structs! { LAYOUTS;
    /// SYNCOBJ_CREATE.
    Create = "drm_syncobj_create" {
        /// <-
        handle: u32,
        /// 0 or [`CREATE_SIGNALED`].
        flags: u32,
    }
    /// SYNCOBJ_DESTROY.
    Destroy = "drm_syncobj_destroy" {
        /// Which.
        handle: u32,
        /// Zero.
        pad: u32,
    }
    /// SYNCOBJ_HANDLE_TO_FD and SYNCOBJ_FD_TO_HANDLE.
    Handle = "drm_syncobj_handle" {
        /// Given or <-.
        handle: u32,
        /// 0 or [`SYNC_FILE`].
        flags: u32,
        /// Given or <-.
        fd: i32,
        /// Zero.
        pad: u32,
    }
    /// SYNCOBJ_TRANSFER.
    Transfer = "drm_syncobj_transfer" {
        /// From which.
        src_handle: u32,
        /// To which.
        dst_handle: u32,
        /// The fence of this point.
        src_point: u64,
        /// Becomes that of this one.
        dst_point: u64,
        /// [`WaitFlags`].
        flags: u32,
        /// Zero.
        pad: u32,
    }
    /// SYNCOBJ_WAIT.
    Wait = "drm_syncobj_wait" {
        /// Address of handles.
        handles: u64,
        /// Until when, of CLOCK_MONOTONIC.
        timeout_nsec: i64,
        /// How many.
        count_handles: u32,
        /// [`WaitFlags`].
        flags: u32,
        /// <- which was the first.
        first_signaled: u32,
        /// Zero.
        pad: u32,
        /// When the fence is wanted, from Linux 6.6 on.
        deadline_nsec: u64,
    }
    /// SYNCOBJ_TIMELINE_WAIT.
    TimelineWait = "drm_syncobj_timeline_wait" {
        /// Address of handles.
        handles: u64,
        /// Address of their points.
        points: u64,
        /// Until when, of CLOCK_MONOTONIC.
        timeout_nsec: i64,
        /// How many.
        count_handles: u32,
        /// [`WaitFlags`].
        flags: u32,
        /// <- which was the first.
        first_signaled: u32,
        /// Zero.
        pad: u32,
        /// When the fence is wanted, from Linux 6.6 on.
        deadline_nsec: u64,
    }
    /// SYNCOBJ_RESET and SYNCOBJ_SIGNAL.
    Array = "drm_syncobj_array" {
        /// Address of handles.
        handles: u64,
        /// How many.
        count_handles: u32,
        /// Zero.
        pad: u32,
    }
    /// SYNCOBJ_QUERY and SYNCOBJ_TIMELINE_SIGNAL.
    TimelineArray = "drm_syncobj_timeline_array" {
        /// Address of handles.
        handles: u64,
        /// Address of points, given or <-.
        points: u64,
        /// How many.
        count_handles: u32,
        /// 0 or [`QUERY_LAST_SUBMITTED`].
        flags: u32,
    }
}

ioctls! { IOCTLS, b'd', "DRM_IOCTL_";
    /// A syncobj.
    SYNCOBJ_CREATE = IOWR 0xbf Create,
    /// Ends one.
    SYNCOBJ_DESTROY = IOWR 0xc0 Destroy,
    /// A descriptor of one.
    SYNCOBJ_HANDLE_TO_FD = IOWR 0xc1 Handle,
    /// One of a descriptor.
    SYNCOBJ_FD_TO_HANDLE = IOWR 0xc2 Handle,
    /// Sleeps until fences are signalled.
    SYNCOBJ_WAIT = IOWR 0xc3 Wait [handles: count_handles of u32],
    /// Takes fences away.
    SYNCOBJ_RESET = IOWR 0xc4 Array [handles: count_handles of u32],
    /// Signals.
    SYNCOBJ_SIGNAL = IOWR 0xc5 Array [handles: count_handles of u32],
    /// Sleeps until points are signalled.
    SYNCOBJ_TIMELINE_WAIT = IOWR 0xca TimelineWait [handles: count_handles of u32, points: count_handles of u64],
    /// Which points are signalled.
    SYNCOBJ_QUERY = IOWR 0xcb TimelineArray [handles: count_handles of u32, points: count_handles of u64],
    /// The fence of a point for another point.
    SYNCOBJ_TRANSFER = IOWR 0xcc Transfer,
    /// Signals points.
    SYNCOBJ_TIMELINE_SIGNAL = IOWR 0xcd TimelineArray [handles: count_handles of u32, points: count_handles of u64],
}
