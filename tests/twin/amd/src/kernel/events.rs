//! Events: what a client waits for instead of spinning.
//!
//! Source: Linux 6.12, amdkfd/kfd_events.c and kfd_events.h.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use drivers_spec::amd::kfd::{
    CreateEventArgs, EventData, HsaHwExceptionData, HsaMemoryExceptionData, SIGNAL_EVENT_LIMIT,
    WaitEventsArgs, event_type, mmap, wait_result,
};
use hcq::sync::{lock, unpoisoned};
use twin::caller::Caller;
use twin::process::Wanted;
use zerocopy::IntoBytes;

use crate::cp::clock::Clock;
use crate::mem::{Mapping, Object};

use super::errno::{Errno, Result};

/// What a slot holds while its event is not signalled.
const UNSIGNALED: u64 = u64::MAX;
/// The first id of events without a slot: `KFD_FIRST_NONSIGNAL_EVENT_ID`.
const FIRST_NONSIGNAL: u32 = (i32::MAX as u32 >> 1) + 1;
/// The slots of a page that the client has not mapped: what the oldest clients expect.
const UNMAPPED_SLOTS: u64 = 256;
/// Milliseconds that mean for ever.
const INFINITE: u32 = u32::MAX;

/// The page of slots to which GPUs write the ids of events.
#[derive(Clone)]
enum Page {
    /// Memory that the client allocated.
    Client { object: Arc<Object>, handle: u64 },
    /// Memory of the kernel, which the client maps.
    Kernel(Arc<Mapping>),
}

impl Page {
    fn slot(&self, id: u32) -> u64 {
        let offset = id as usize * 8;
        match self {
            Self::Kernel(mapping) => mapping.load64(offset),
            Self::Client { object, .. } => {
                let mut bytes = [0; 8];
                match object.frame(offset as u64 / 4096) {
                    Some(frame) => frame.read(offset % 4096, &mut bytes),
                    None => return UNSIGNALED,
                }
                u64::from_le_bytes(bytes)
            }
        }
    }

    fn clear(&self, id: u32) {
        let offset = id as usize * 8;
        match self {
            Self::Kernel(mapping) => mapping.store64(offset, UNSIGNALED),
            Self::Client { object, .. } => {
                if let Some(frame) = object.frame(offset as u64 / 4096) {
                    frame.write(offset % 4096, &UNSIGNALED.to_le_bytes());
                }
            }
        }
    }
}

struct Event {
    kind: u32,
    auto_reset: bool,
    signaled: bool,
    /// The slot was taken by an interrupt that led nowhere, before that of the event itself.
    taken: bool,
    /// How often it was signalled, from 1 on.
    age: u64,
    memory: HsaMemoryExceptionData,
    hardware: HsaHwExceptionData,
    /// Who waits: number of the wait, and place in it.
    waiters: Vec<(u64, usize)>,
}

/// One event of a wait.
struct Waiter {
    event: u32,
    activated: bool,
    /// The event was destroyed.
    gone: bool,
    /// The client gave an age.
    with_age: bool,
}

#[derive(Default)]
struct State {
    page: Option<Page>,
    /// Bytes of the page that the client has mapped.
    mapped: u64,
    events: BTreeMap<u32, Event>,
    /// When the kernel last emptied the slot of an id. Outlives the event: interrupts do, too.
    emptied: BTreeMap<u32, u64>,
    /// Events with a slot.
    signals: u64,
    waits: BTreeMap<u64, Vec<Waiter>>,
    next_wait: u64,
    /// The process has ended, or its GPU has gone: nobody sleeps any more.
    ended: bool,
}

/// The events of a process.
pub struct Events {
    state: Mutex<State>,
    wake: Condvar,
    clock: Arc<Clock>,
}

impl State {
    fn set(&mut self, id: u32) {
        let Some(event) = self.events.get_mut(&id) else {
            return;
        };
        // An event that resets itself stays signalled only until somebody sees it.
        event.signaled = !event.auto_reset || event.waiters.is_empty();
        // 0 says that a client knows no age, 1 is that of a new event.
        event.age = event.age.checked_add(1).unwrap_or(2);
        for &(wait, place) in &event.waiters {
            if let Some(waiter) = self.waits.get_mut(&wait).and_then(|w| w.get_mut(place)) {
                waiter.activated = true;
            }
        }
    }

    fn result(&self, wait: u64, all: bool) -> u32 {
        let waiters = self.waits.get(&wait).map_or(&[][..], Vec::as_slice);
        let mut activated = 0;
        for waiter in waiters {
            if waiter.gone {
                return wait_result::FAIL;
            }
            if waiter.activated {
                if !all {
                    return wait_result::COMPLETE;
                }
                activated += 1;
            }
        }
        if activated == waiters.len() {
            wait_result::COMPLETE
        } else {
            wait_result::TIMEOUT
        }
    }

    /// Writes what the signalled events have to say.
    fn copy(&self, caller: &dyn Caller, wait: u64, events: u64) -> Result {
        let waiters = self.waits.get(&wait).map_or(&[][..], Vec::as_slice);
        for (at, waiter) in (0u64..).zip(waiters) {
            let event = self.events.get(&waiter.event).filter(|_| !waiter.gone);
            let event = event.ok_or(Errno::EINVAL)?;
            if !waiter.activated {
                continue;
            }
            let to = events + at * size_of::<EventData>() as u64;
            match event.kind {
                event_type::MEMORY => caller.write(to, event.memory.as_bytes())?,
                event_type::HW_EXCEPTION => caller.write(to, event.hardware.as_bytes())?,
                event_type::SIGNAL if waiter.with_age => caller.write(to, event.age.as_bytes())?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Registers a wait. On an error what has been registered stays for [`Self::forget`].
    fn register(&mut self, wait: u64, wanted: &[EventData], ages: bool) -> Result {
        self.waits.insert(wait, Vec::new());
        for (place, data) in wanted.iter().enumerate() {
            let id = data.event_id;
            let event = self.events.get_mut(&id).ok_or(Errno::EINVAL)?;
            let mut activated = event.signaled;
            event.signaled &= !event.auto_reset;
            // The age lies at the start of the union.
            let age = u64::from(data.memory_exception_data.failure.not_present)
                | u64::from(data.memory_exception_data.failure.read_only) << 32;
            let with_age = ages && event.kind == event_type::SIGNAL && age != 0;
            activated |= with_age && event.age != age;
            if !activated {
                event.waiters.push((wait, place));
            }
            if let Some(waiters) = self.waits.get_mut(&wait) {
                waiters.push(Waiter {
                    event: id,
                    activated,
                    gone: false,
                    with_age,
                });
            }
        }
        Ok(())
    }

    fn forget(&mut self, wait: u64) {
        for waiter in self.waits.remove(&wait).unwrap_or_default() {
            if let Some(event) = self.events.get_mut(&waiter.event) {
                event.waiters.retain(|(other, _)| *other != wait);
            }
        }
    }
}

impl Events {
    /// No events; the clock is that of the machine.
    pub fn new(clock: &Arc<Clock>) -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            clock: clock.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        lock(&self.state)
    }

    /// Whether the client has given an event page already.
    pub fn has_page(&self) -> bool {
        self.lock().page.is_some()
    }

    /// The events that there are.
    pub fn ids(&self) -> Vec<u32> {
        self.lock().events.keys().copied().collect()
    }

    /// Whether this is the handle of the event page.
    pub fn is_page(&self, handle: u64) -> bool {
        matches!(&self.lock().page, Some(Page::Client { handle: page, .. }) if *page == handle)
    }

    /// Takes the client's memory as event page.
    ///
    /// # Errors
    /// `EBUSY`: there is one.
    pub fn set_page(&self, object: Arc<Object>, handle: u64) -> Result {
        let mut state = self.lock();
        if state.page.is_some() {
            return Err(Errno::EBUSY);
        }
        state.mapped = object.bytes;
        let page = Page::Client { object, handle };
        (0..SIGNAL_EVENT_LIMIT).for_each(|id| page.clear(id));
        state.page = Some(page);
        Ok(())
    }

    /// Maps the kernel's own event page into the client.
    ///
    /// # Errors
    /// `EINVAL`: too large, or there is none.
    pub fn map_page(&self, caller: &dyn Caller, wanted: Wanted) -> Result<u64> {
        let bytes = wanted.bytes;
        if bytes > u64::from(SIGNAL_EVENT_LIMIT) * 8 {
            return Err(Errno::EINVAL);
        }
        let mut state = self.lock();
        let Some(Page::Kernel(mapping)) = &state.page else {
            return Err(Errno::EINVAL);
        };
        let at = caller.map(wanted, mapping, 0)?;
        state.mapped = bytes;
        Ok(at)
    }

    /// CREATE_EVENT, once the page is set.
    ///
    /// # Errors
    /// `ENOSPC`: no slot is left.
    pub fn create(&self, args: &mut CreateEventArgs) -> Result {
        let mut state = self.lock();
        let kind = args.event_type;
        args.event_page_offset = 0;
        let with_slot = matches!(kind, event_type::SIGNAL | event_type::DEBUG_EVENT);
        let id = if with_slot {
            // Id 0 is never given: the command processor sends it where a packet has none.
            if state.mapped > 0 && state.signals + 1 == state.mapped / 8 {
                return Err(Errno::ENOSPC);
            }
            if state.page.is_none() {
                let page = Page::Kernel(Arc::new(Mapping::new(u64::from(SIGNAL_EVENT_LIMIT) * 8)?));
                (0..SIGNAL_EVENT_LIMIT).for_each(|id| page.clear(id));
                state.page = Some(page);
                state.mapped = UNMAPPED_SLOTS * 8;
            }
            let slots = (state.mapped / 8).min(u64::from(SIGNAL_EVENT_LIMIT)) as u32;
            (1..slots)
                .find(|id| !state.events.contains_key(id))
                .ok_or(Errno::ENOSPC)?
        } else {
            (FIRST_NONSIGNAL..i32::MAX as u32)
                .find(|id| !state.events.contains_key(id))
                .ok_or(Errno::ENOSPC)?
        };
        if with_slot {
            state.signals += 1;
            if let Some(page) = &state.page {
                page.clear(id);
            }
            // What an earlier event of this id had signalled is gone with the slot.
            state.emptied.insert(id, self.clock.now());
            args.event_page_offset = mmap::EVENTS;
            args.event_slot_index = id;
        }
        state.events.insert(
            id,
            Event {
                kind,
                auto_reset: args.auto_reset != 0,
                signaled: false,
                taken: false,
                age: 1,
                memory: HsaMemoryExceptionData::default(),
                hardware: HsaHwExceptionData::default(),
                waiters: Vec::new(),
            },
        );
        args.event_id = id;
        args.event_trigger_data = id;
        Ok(())
    }

    /// DESTROY_EVENT: who waits for it fails.
    ///
    /// # Errors
    /// `EINVAL`: no such event.
    pub fn destroy(&self, id: u32) -> Result {
        let mut state = self.lock();
        let event = state.events.remove(&id).ok_or(Errno::EINVAL)?;
        // Interrupts may still be on their way.
        state.emptied.insert(id, self.clock.now());
        if matches!(event.kind, event_type::SIGNAL | event_type::DEBUG_EVENT) {
            state.signals -= 1;
        }
        for waiter in state.waits.values_mut().flatten() {
            waiter.gone |= waiter.event == id;
        }
        self.wake.notify_all();
        Ok(())
    }

    /// SET_EVENT and RESET_EVENT.
    ///
    /// # Errors
    /// `EINVAL`: no such event, or not one that a CPU may signal.
    pub fn set(&self, id: u32, signal: bool) -> Result {
        let mut state = self.lock();
        let event = state.events.get_mut(&id).ok_or(Errno::EINVAL)?;
        if event.kind != event_type::SIGNAL {
            return Err(Errno::EINVAL);
        }
        if signal {
            state.set(id);
            self.wake.notify_all();
        } else {
            event.signaled = false;
        }
        Ok(())
    }

    /// WAIT_EVENTS. `ages`: the kernel knows ages of events.
    ///
    /// # Errors
    /// `EFAULT`, `EINVAL`: no such event, `EIO`: one was destroyed meanwhile.
    pub fn wait(&self, caller: &dyn Caller, args: &mut WaitEventsArgs, ages: bool) -> Result {
        let all = args.wait_for_all != 0;
        let deadline = match args.timeout {
            INFINITE => None,
            ms => Some(Instant::now() + Duration::from_millis(ms.min(i32::MAX as u32).into())),
        };
        args.wait_result = wait_result::FAIL;
        let mut state = self.lock();
        let wanted: Vec<EventData> = caller.get_all(args.events_ptr, args.num_events as usize)?;
        let wait = state.next_wait;
        state.next_wait += 1;
        if let Err(errno) = state.register(wait, &wanted, ages) {
            state.forget(wait);
            return Err(errno);
        }
        let result = loop {
            let result = state.result(wait, all);
            if result != wait_result::TIMEOUT || state.ended {
                break result;
            }
            let left = match deadline {
                None => Duration::from_secs(3600),
                Some(at) => match at.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => left,
                    _ => break result,
                },
            };
            (state, _) = unpoisoned(self.wake.wait_timeout(state, left));
        };
        let copied = match result {
            wait_result::COMPLETE => state.copy(caller, wait, args.events_ptr),
            wait_result::FAIL => Err(Errno::EIO),
            _ => Ok(()),
        };
        state.forget(wait);
        copied?;
        args.wait_result = result;
        Ok(())
    }

    /// The events that somebody waits for.
    pub fn waited(&self) -> Vec<u32> {
        let state = self.lock();
        let waited = state
            .events
            .iter()
            .filter(|(_, event)| !event.waiters.is_empty());
        waited.map(|(&id, _)| id).collect()
    }

    /// An interrupt of a packet with that id, of which `bits` bits are valid, and whose slot was written
    /// after `since`. Returns whether an event was signalled.
    pub fn interrupt(&self, id: u32, bits: u32, since: u64) -> bool {
        let mut state = self.lock();
        let Some(page) = state.page.clone() else {
            return false;
        };
        debug_assert!(1u64 << bits.min(63) >= u64::from(SIGNAL_EVENT_LIMIT));
        let written = |id: u32| page.slot(id) != UNSIGNALED;
        let found = (id < SIGNAL_EVENT_LIMIT && written(id) && state.events.contains_key(&id))
            .then_some(id);
        // An id that leads nowhere: every slot that was written counts.
        let signalled: Vec<u32> = match found {
            Some(id) => vec![id],
            None => {
                let ids = state.events.keys().copied();
                ids.take_while(|&id| id < SIGNAL_EVENT_LIMIT)
                    .filter(|&id| written(id))
                    .collect()
            }
        };
        for &other in &signalled {
            page.clear(other);
            state.set(other);
            if let Some(event) = state.events.get_mut(&other) {
                event.taken = other != id;
            }
        }
        self.wake.notify_all();
        // The interrupt of an event whose slot an earlier one has taken finds nothing, and rightly so.
        let taken = state
            .events
            .get_mut(&id)
            .map(|e| std::mem::take(&mut e.taken));
        // A slot holds one signal: where it was written again before the kernel looked, one interrupt
        // takes both, and the next finds the slot empty. That is no mistake of the client (Linux,
        // amdkfd/kfd_events.c, kfd_signal_event_interrupt, ignores it).
        let twice = state.emptied.get(&id).is_some_and(|&at| at >= since);
        for other in signalled.iter().copied() {
            state.emptied.insert(other, self.clock.now());
        }
        !signalled.is_empty() || taken == Some(true) || twice
    }

    /// A fault of memory. Returns whether there is an event that tells the client.
    pub fn memory(&self, data: HsaMemoryExceptionData) -> bool {
        self.raise(event_type::MEMORY, |event| event.memory = data)
    }

    /// A reset. Returns whether there is an event that tells the client.
    pub fn hardware(&self, data: HsaHwExceptionData) -> bool {
        self.raise(event_type::HW_EXCEPTION, |event| event.hardware = data)
    }

    fn raise(&self, kind: u32, tell: impl Fn(&mut Event)) -> bool {
        let mut state = self.lock();
        let mut ids = Vec::new();
        for (&id, event) in &mut state.events {
            if event.kind == kind {
                tell(event);
                ids.push(id);
            }
        }
        for &id in &ids {
            state.set(id);
        }
        self.wake.notify_all();
        !ids.is_empty()
    }

    /// Wakes everybody for good.
    pub fn end(&self) {
        self.lock().ended = true;
        self.wake.notify_all();
    }
}
