//! A queue: what the command processor hands over, given to an in-order queue of OpenCL.
//!
//! Unsafe module. Its invariant: memory of the process that a command uses stays until the queue says that it is done
//! ([`Work::is_done`]). Buffers of the process are kept by whoever submits, until then or until the device is stopped
//! ([`drivers_cpu::runtime`]); what the queue has itself (`queue`, `written`, `found`) it keeps, and leaks where it ends before.

use std::ops::Range;
use std::sync::Arc;

use drivers_cpu::runtime::{Host, Said, Work};
use hcq::sync::lock;
use hcq::{ArgKind, Width};

use crate::api::{Called, Handle, Object};
use crate::memory::{Block, find, is_ours};
use crate::program::Shared;

/// A queue of a device.
pub(crate) struct ClQueue {
    shared: Arc<Shared>,
    queue: Arc<Object>,
    /// Something was handed over that is not known to be done.
    is_busy: bool,
    /// What is reached once it is.
    marker: Option<Object>,
    /// Bytes that are written from, and read to.
    written: Vec<Box<[u8]>>,
    found: Box<[u8]>,
}

/// Memory of the process for the time of a launch.
struct Passed {
    range: Range<u64>,
    object: Object,
}

impl Passed {
    fn bytes(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

fn said<T>(called: Called<T>) -> Said<T> {
    called.map_err(|failed| failed.to_string())
}

fn size(bytes: u64) -> Said<usize> {
    usize::try_from(bytes).map_err(|e| e.to_string())
}

impl ClQueue {
    pub(crate) fn new(shared: Arc<Shared>, queue: Object) -> ClQueue {
        ClQueue {
            shared,
            queue: Arc::new(queue),
            is_busy: false,
            marker: None,
            written: Vec::new(),
            found: Box::default(),
        }
    }

    /// What comes from here on is not behind the marker.
    fn begin(&mut self) {
        self.is_busy = true;
        self.marker = None;
    }

    fn object(&self, at: u64, bytes: u64) -> Said<(Arc<Block>, usize)> {
        find(at, bytes, self.shared.context())
    }

    /// The object that an address is in, and where in it.
    fn argument(
        &self,
        at: u64,
        host: &Host<'_>,
        passed: &mut Vec<Passed>,
    ) -> Said<(Handle, usize)> {
        if is_ours(at) {
            let (block, offset) = self.object(at, 0)?;
            return Ok((block.handle(), offset));
        }
        if let Some(known) = passed.iter().find(|passed| passed.range.contains(&at)) {
            return Ok((known.object.handle(), (at - known.range.start) as usize));
        }
        let Some(range) = host(at) else {
            return Err("which is in no buffer of this process".into());
        };
        let bytes = size(range.end - range.start)?;
        let (api, context) = (&self.shared.api, &self.shared.builder.context);
        // SAFETY: the buffer has these bytes, and is kept until the work is done (see above). The object is released after
        // the commands that use it were handed over, and lives in the library until they are done.
        let object = said(unsafe { api.host_memory(context, range.start, bytes) })?;
        let found = (object.handle(), (at - range.start) as usize);
        passed.push(Passed { range, object });
        Ok(found)
    }
}

impl Work for ClQueue {
    fn owns(&self, at: u64) -> bool {
        is_ours(at)
    }

    fn exec(&mut self, entry: u64, groups: u64, args: &[u32], host: &Host<'_>) -> Said<()> {
        let kernel = self.shared.kernel(entry).ok_or("it was freed")?;
        if groups == 0 {
            return Ok(());
        }
        let all = groups.checked_mul(u64::from(kernel.items));
        let all = all.and_then(|all| usize::try_from(all).ok());
        let all = all.ok_or_else(|| format!("{groups} groups, expected fewer"))?;
        let shared = self.shared.clone();
        let api = &shared.api;
        let object = lock(&kernel.object);
        let mut passed = Vec::new();
        let mut index = 0;
        let mut set = |value: &[u8]| {
            let set = said(api.set(&object, index, value));
            index += 1;
            set
        };
        for (number, field) in kernel.fields.iter().enumerate() {
            let word = |i: usize| args.get(field.offset as usize / 4 + i).copied();
            let low = word(0).ok_or("its arguments end too early")?;
            if field.kind == ArgKind::Value(Width::W32) {
                set(&low.to_ne_bytes())?;
                continue;
            }
            let high = word(1).ok_or("its arguments end too early")?;
            let value = u64::from(low) | u64::from(high) << 32;
            if field.kind == ArgKind::Value(Width::W64) {
                set(&value.to_ne_bytes())?;
                continue;
            }
            let (handle, offset) = self
                .argument(value, host, &mut passed)
                .map_err(|why| format!("argument {number} is {value:#x}, {why}"))?;
            set(&handle.bytes())?;
            set(&(offset as u64).to_ne_bytes())?;
        }
        self.begin();
        for memory in &passed {
            said(api.pass(&self.queue, &memory.object, memory.bytes(), true))?;
        }
        said(api.launch(&self.queue, &object, (all, kernel.items as usize)))?;
        for memory in &passed {
            said(api.pass(&self.queue, &memory.object, memory.bytes(), false))?;
        }
        Ok(())
    }

    fn copy(&mut self, dst: u64, src: u64, bytes: u64) -> Said<()> {
        if bytes == 0 {
            return Ok(());
        }
        let count = size(bytes)?;
        self.begin();
        let api = &self.shared.api;
        match (is_ours(dst), is_ours(src)) {
            (true, true) => {
                let (from, from_at) = self.object(src, bytes)?;
                let (to, to_at) = self.object(dst, bytes)?;
                let (from, to) = ((from.handle(), from_at), (to.handle(), to_at));
                said(api.copy(&self.queue, from, to, count))
            }
            (true, false) => {
                let (to, at) = self.object(dst, bytes)?;
                // SAFETY: the bytes are there, and stay until the work is done (see above).
                said(unsafe { api.write(&self.queue, (to.handle(), at), src, count) })
            }
            (false, true) => {
                let (from, at) = self.object(src, bytes)?;
                // SAFETY: as above; nobody else uses what a command writes.
                said(unsafe { api.read(&self.queue, (from.handle(), at), dst, count) })
            }
            (false, false) => Err("no side of it is memory of the device".into()),
        }
    }

    fn fill(&mut self, at: u64, value: u32, bytes: u64) -> Said<()> {
        if bytes == 0 {
            return Ok(());
        }
        let (block, offset) = self.object(at, bytes)?;
        self.begin();
        let place = (block.handle(), offset);
        said(
            self.shared
                .api
                .fill(&self.queue, place, value, size(bytes)?),
        )
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Said<()> {
        let (block, offset) = self.object(at, bytes.len() as u64)?;
        self.begin();
        let kept: Box<[u8]> = bytes.into();
        let from = kept.as_ptr().expose_provenance() as u64;
        self.written.push(kept);
        let (place, count) = ((block.handle(), offset), bytes.len());
        // SAFETY: `written` has the bytes until the work is done.
        said(unsafe { self.shared.api.write(&self.queue, place, from, count) })
    }

    fn read(&mut self, at: u64, bytes: usize) -> Said<()> {
        let (block, offset) = self.object(at, bytes as u64)?;
        if self.is_busy {
            // An earlier read may not be done.
            let busy = std::mem::take(&mut self.found);
            self.written.push(busy);
        }
        self.begin();
        if self.found.len() != bytes {
            self.found = vec![0; bytes].into();
        }
        let to = self.found.as_mut_ptr().expose_provenance() as u64;
        let place = (block.handle(), offset);
        // SAFETY: `found` has as many bytes, and is not used until the work is done.
        said(unsafe { self.shared.api.read(&self.queue, place, to, bytes) })
    }

    fn bytes(&self) -> &[u8] {
        match self.is_busy {
            true => &[],
            false => &self.found,
        }
    }

    fn is_done(&mut self) -> Said<bool> {
        if !self.is_busy {
            return Ok(true);
        }
        let api = &self.shared.api;
        let marker = match self.marker.take() {
            Some(marker) => marker,
            None => said(api.marker(&self.queue))?,
        };
        let is_done = said(api.reached(&marker))?;
        if is_done {
            self.is_busy = false;
            self.written.clear();
        } else {
            self.marker = Some(marker);
        }
        Ok(is_done)
    }
}

impl Drop for ClQueue {
    fn drop(&mut self) {
        if self.is_busy {
            // The library may still use them; its release of a queue may wait for the end of work that has none.
            std::mem::forget(self.queue.clone());
            std::mem::forget(std::mem::take(&mut self.written));
            std::mem::forget(std::mem::take(&mut self.found));
        }
    }
}
