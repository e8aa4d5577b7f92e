//! What a file tells that `poll` waits for.
//!
//! An event comes with data, which are kept until GET_EVENT_DATA takes them, or without, and is then
//! forgotten by the `poll` that sees it.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia/nv.c, nvidia_poll, nv_post_event,
//! nv_get_event.

use std::collections::VecDeque;
use std::sync::Mutex;

use hcq::sync::lock;

/// An event, as a client takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Happened {
    /// The handle of the event.
    pub(crate) event: u32,
    /// What it is of.
    pub(crate) index: u32,
    /// More about it.
    pub(crate) info: (u32, u16),
}

/// Told whether there is something, whenever that changes.
pub type Watcher = Box<dyn Fn(bool) + Send + Sync>;

/// See the front page.
#[derive(Default)]
pub(crate) struct Wake(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    /// An event without data.
    plain: bool,
    data: VecDeque<Happened>,
    watcher: Option<Watcher>,
}

impl Pending {
    fn ready(&self) -> bool {
        self.plain || !self.data.is_empty()
    }

    fn tell(&self) {
        if let Some(watcher) = &self.watcher {
            watcher(self.ready());
        }
    }
}

impl Wake {
    /// An event happens, with data or without.
    pub(crate) fn post(&self, data: Option<Happened>) {
        let mut pending = lock(&self.0);
        match data {
            Some(data) => pending.data.push_back(data),
            None => pending.plain = true,
        }
        pending.tell();
    }

    /// `poll` looks.
    pub(super) fn poll(&self) -> bool {
        let mut pending = lock(&self.0);
        let ready = pending.ready();
        if std::mem::take(&mut pending.plain) {
            pending.tell();
        }
        ready
    }

    /// The oldest data, and whether there are more.
    pub(crate) fn take(&self) -> Option<(Happened, bool)> {
        let mut pending = lock(&self.0);
        let taken = pending.data.pop_front()?;
        pending.tell();
        Some((taken, !pending.data.is_empty()))
    }

    /// Who is told from now on.
    pub(super) fn watch(&self, watcher: Watcher) {
        let mut pending = lock(&self.0);
        watcher(pending.ready());
        pending.watcher = Some(watcher);
    }
}
