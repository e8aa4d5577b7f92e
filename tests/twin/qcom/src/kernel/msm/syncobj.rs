//! Syncobjs: fences that have a handle, and timelines of them.
//!
//! Source: Linux, drivers/gpu/drm/drm_syncobj.c.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drivers_spec::qcom::syncobj::{
    Array, CREATE_SIGNALED, Create, Destroy, Handle, QUERY_LAST_SUBMITTED, SYNC_FILE,
    TimelineArray, TimelineWait, Transfer, Wait, WaitFlags,
};
use hcq::sync::lock;
use twin::errno::{Errno, Result};
use twin::host::user;

use crate::kernel::Process;
use crate::kernel::files::Kind;
use crate::kernel::state::State;

use super::Call;

/// A fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// It is signalled.
    Signalled,
    /// It is signalled when that submission is done.
    Job(u64),
}

/// A syncobj: its fence at point 0, or those of its timeline.
#[derive(Default)]
pub(crate) struct Syncobj(BTreeMap<u64, Point>);

/// One that files may share.
pub(crate) type Shared = Arc<Mutex<Syncobj>>;

/// The fence of a point: of a timeline the first at or behind it.
pub(crate) fn find(syncobj: &Shared, point: u64) -> Option<Point> {
    let points = &lock(syncobj).0;
    match point {
        0 => points
            .get(&0)
            .or_else(|| points.values().next_back())
            .copied(),
        _ => points.range(point..).next().map(|(_, point)| *point),
    }
}

/// Puts a fence at a point; at 0 in place of all.
pub(crate) fn set(syncobj: &Shared, point: u64, fence: Point) {
    let mut syncobj = lock(syncobj);
    if point == 0 {
        syncobj.0.clear();
    }
    syncobj.0.insert(point, fence);
}

/// Takes the fence away.
pub(crate) fn reset(syncobj: &Shared) {
    lock(syncobj).0.clear();
}

impl Point {
    fn is_over(self, state: &State) -> bool {
        match self {
            Point::Signalled => true,
            Point::Job(job) => !state.live.contains(&job),
        }
    }
}

impl Process {
    fn syncobj(&self, call: &Call<'_>, handle: u32) -> Result<Shared> {
        let found = self.render(call)?.syncobjs.get(&handle).cloned();
        match found {
            Some(syncobj) => Ok(syncobj),
            None => self.fail(Errno::ENOENT, || format!("no syncobj {handle}")),
        }
    }

    /// The syncobjs of an array.
    fn syncobjs(&self, call: &Call<'_>, address: u64, count: u32) -> Result<Vec<Shared>> {
        if count == 0 {
            return self.fail(Errno::EINVAL, || "no syncobjs".into());
        }
        let handles: Vec<u32> = self.caller.get_all(address, count as usize)?;
        handles
            .into_iter()
            .map(|handle| self.syncobj(call, handle))
            .collect()
    }

    fn insert_syncobj(&self, call: &Call<'_>, syncobj: Shared) -> Result<u32> {
        let mut render = self.render(call)?;
        let handle = (1..)
            .find(|handle| !render.syncobjs.contains_key(handle))
            .unwrap_or(0);
        render.syncobjs.insert(handle, syncobj);
        Ok(handle)
    }

    pub(super) fn create_syncobj(&self, call: &mut Call<'_>) -> Result {
        let flags = call.args::<Create>()?.flags;
        if flags & !CREATE_SIGNALED != 0 {
            return self.fail(Errno::EINVAL, || format!("SYNCOBJ_CREATE flags {flags:#x}"));
        }
        let syncobj = Shared::default();
        if flags & CREATE_SIGNALED != 0 {
            set(&syncobj, 0, Point::Signalled);
        }
        let handle = self.insert_syncobj(call, syncobj)?;
        call.args::<Create>()?.handle = handle;
        Ok(())
    }

    pub(super) fn destroy_syncobj(&self, call: &mut Call<'_>) -> Result {
        let args: Destroy = *call.args()?;
        let gone = self.render(call)?.syncobjs.remove(&args.handle);
        if args.pad != 0 || gone.is_none() {
            return self.fail(Errno::EINVAL, || format!("SYNCOBJ_DESTROY {}", args.handle));
        }
        Ok(())
    }

    pub(super) fn export_syncobj(&self, call: &mut Call<'_>) -> Result {
        let args: Handle = *call.args()?;
        if args.pad != 0 || args.flags & !SYNC_FILE != 0 {
            return self.fail(Errno::EINVAL, || {
                format!("SYNCOBJ_HANDLE_TO_FD flags {:#x}", args.flags)
            });
        }
        let syncobj = self.syncobj(call, args.handle)?;
        let kind = match args.flags {
            0 => Kind::Syncobj(syncobj),
            _ => match find(&syncobj, 0) {
                Some(Point::Job(job)) => Kind::SyncFile(job),
                // No submission has this number: it is over.
                Some(Point::Signalled) => Kind::SyncFile(0),
                None => {
                    return self.fail(Errno::EINVAL, || {
                        format!("syncobj {} has no fence", args.handle)
                    });
                }
            },
        };
        let number = self.caller.descriptor(None)?;
        call.args::<Handle>()?.fd = self.install(kind, number)?;
        Ok(())
    }

    pub(super) fn import_syncobj(&self, call: &mut Call<'_>) -> Result {
        let args: Handle = *call.args()?;
        if args.pad != 0 || args.flags & !SYNC_FILE != 0 {
            return self.fail(Errno::EINVAL, || {
                format!("SYNCOBJ_FD_TO_HANDLE flags {:#x}", args.flags)
            });
        }
        let file = self.file(args.fd);
        let file =
            file.or_else(|_| self.fail(Errno::EINVAL, || format!("descriptor {}", args.fd)))?;
        match (&file.kind, args.flags) {
            (Kind::Syncobj(syncobj), 0) => {
                let handle = self.insert_syncobj(call, syncobj.clone())?;
                call.args::<Handle>()?.handle = handle;
                Ok(())
            }
            (Kind::SyncFile(job), SYNC_FILE) => {
                let point = Point::Job(*job);
                set(&self.syncobj(call, args.handle)?, 0, point);
                Ok(())
            }
            _ => self.fail(Errno::EINVAL, || {
                format!("descriptor {} is no such fence", args.fd)
            }),
        }
    }

    /// Waits for fences: the number of the first that is over.
    fn wait_all(&self, fences: &[(Shared, u64)], timeout: i64, flags: u32) -> Result<u32> {
        let Some(flags) = WaitFlags::from_bits(flags) else {
            return self.fail(Errno::EINVAL, || format!("SYNCOBJ_WAIT flags {flags:#x}"));
        };
        let there = fences
            .iter()
            .all(|(syncobj, point)| find(syncobj, *point).is_some());
        let later = WaitFlags::WAIT_FOR_SUBMIT | WaitFlags::WAIT_AVAILABLE;
        if !there && !flags.intersects(later) {
            return self.fail(Errno::EINVAL, || "a syncobj without a fence".into());
        }
        // A time of CLOCK_MONOTONIC.
        let now = user::clock(libc::CLOCK_MONOTONIC);
        let left = Duration::from_nanos((timeout.max(0) as u64).saturating_sub(now));
        let until = Instant::now() + left.min(Duration::from_secs(1 << 30));
        let over = |state: &State, (syncobj, point): &(Shared, u64)| match find(syncobj, *point) {
            Some(_) if flags.contains(WaitFlags::WAIT_AVAILABLE) => true,
            Some(point) => point.is_over(state),
            None => false,
        };
        let (state, done) = self
            .machine
            .wait(self.machine.enter(), Some(until), |state| {
                let first = fences.iter().position(|one| over(state, one))?;
                let all = !flags.contains(WaitFlags::WAIT_ALL)
                    || fences.iter().all(|one| over(state, one));
                all.then_some(first as u32)
            });
        drop(state);
        match done {
            Some(first) => Ok(first),
            None => self.fail(Errno::ETIME, || "SYNCOBJ_WAIT".into()),
        }
    }

    pub(super) fn wait_syncobjs(&self, call: &mut Call<'_>) -> Result {
        let args: Wait = *call.args()?;
        let all = self.syncobjs(call, args.handles, args.count_handles)?;
        let fences: Vec<(Shared, u64)> = all.into_iter().map(|one| (one, 0)).collect();
        let first = self.wait_all(&fences, args.timeout_nsec, args.flags)?;
        call.args::<Wait>()?.first_signaled = first;
        Ok(())
    }

    pub(super) fn wait_timelines(&self, call: &mut Call<'_>) -> Result {
        let args: TimelineWait = *call.args()?;
        let all = self.syncobjs(call, args.handles, args.count_handles)?;
        let points: Vec<u64> = self
            .caller
            .get_all(args.points, args.count_handles as usize)?;
        let fences: Vec<(Shared, u64)> = all.into_iter().zip(points).collect();
        let first = self.wait_all(&fences, args.timeout_nsec, args.flags)?;
        call.args::<TimelineWait>()?.first_signaled = first;
        Ok(())
    }

    pub(super) fn reset_syncobjs(&self, call: &mut Call<'_>) -> Result {
        let args: Array = *call.args()?;
        if args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        self.syncobjs(call, args.handles, args.count_handles)?
            .iter()
            .for_each(reset);
        Ok(())
    }

    pub(super) fn signal_syncobjs(&self, call: &mut Call<'_>) -> Result {
        let args: Array = *call.args()?;
        if args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        for one in self.syncobjs(call, args.handles, args.count_handles)? {
            set(&one, 0, Point::Signalled);
        }
        self.machine.tell();
        Ok(())
    }

    pub(super) fn signal_timelines(&self, call: &mut Call<'_>) -> Result {
        let args: TimelineArray = *call.args()?;
        if args.flags != 0 {
            return Err(Errno::EINVAL);
        }
        let all = self.syncobjs(call, args.handles, args.count_handles)?;
        let points: Vec<u64> = self
            .caller
            .get_all(args.points, args.count_handles as usize)?;
        for (one, point) in all.iter().zip(points) {
            set(one, point, Point::Signalled);
        }
        self.machine.tell();
        Ok(())
    }

    /// The last point of each that is signalled.
    pub(super) fn query_syncobjs(&self, call: &mut Call<'_>) -> Result {
        let args: TimelineArray = *call.args()?;
        if args.flags & !QUERY_LAST_SUBMITTED != 0 {
            return Err(Errno::EINVAL);
        }
        let all = self.syncobjs(call, args.handles, args.count_handles)?;
        let state = self.machine.enter();
        let points = all.iter().map(|one| {
            let held = &lock(one).0;
            let over =
                |point: &&Point| args.flags & QUERY_LAST_SUBMITTED != 0 || point.is_over(&state);
            held.iter()
                .take_while(|(_, point)| over(point))
                .map(|(at, _)| *at)
                .last()
        });
        let points: Vec<u64> = points.map(Option::unwrap_or_default).collect();
        drop(state);
        for (at, point) in (args.points..).step_by(8).zip(points) {
            self.caller.put(at, &point)?;
        }
        Ok(())
    }

    pub(super) fn transfer_syncobj(&self, call: &mut Call<'_>) -> Result {
        let args: Transfer = *call.args()?;
        if args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (
            self.syncobj(call, args.src_handle)?,
            self.syncobj(call, args.dst_handle)?,
        );
        let Some(point) = find(&from, args.src_point) else {
            return self.fail(Errno::EINVAL, || {
                format!("syncobj {} has no fence", args.src_handle)
            });
        };
        set(&to, args.dst_point, point);
        self.machine.tell();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timelines_have_points() {
        let syncobj = Shared::default();
        assert_eq!(find(&syncobj, 0), None);
        set(&syncobj, 5, Point::Job(1));
        set(&syncobj, 9, Point::Signalled);
        assert_eq!(find(&syncobj, 4), Some(Point::Job(1)));
        assert_eq!(
            (find(&syncobj, 6), find(&syncobj, 10)),
            (Some(Point::Signalled), None)
        );
        set(&syncobj, 0, Point::Job(2));
        assert_eq!(
            (find(&syncobj, 0), find(&syncobj, 5)),
            (Some(Point::Job(2)), None)
        );
        reset(&syncobj);
        assert_eq!(find(&syncobj, 0), None);
    }
}
