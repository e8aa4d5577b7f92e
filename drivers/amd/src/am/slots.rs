//! Mapping and unmapping of queues (HQDs): the implementation of [`Queues`].
//!
//! Source: Linux, amdkfd/kfd_device_queue_manager.c; amdgpu_amdkfd_gfx_v11.c, `hqd_sdma_destroy_v11` and
//! `hqd_sdma_load_v11`: the read pointer of a copy queue is kept.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use drivers_gpu::bare::{Live, Queues, Slots};
use hcq::mem::window::Window;
use hcq::transport::TransportError;

use super::areas::MQDS;
use super::error::Cause;
use super::hqd::{self, Leave, Pointers};
use super::mqd::{self, Mqd};
use super::running::Am;
use super::sdma;
use crate::backend::queue::WPTR;
use crate::chip::Language;

/// How often a queue is rung while others submit to it.
const RINGS: u32 = 4096;

/// What a queue is made of.
pub(super) struct Parts {
    /// The image of each XCC that has it, with the XCC's number.
    pub(super) images: Vec<(usize, Arc<Mqd>)>,
    /// Its parts, for a copy queue.
    pub(super) copies: Option<sdma::Queue>,
    /// Its page of pointers.
    pub(super) control: Window,
    /// Its doorbells.
    pub(super) doorbells: Vec<Window>,
}

/// The position of a queue.
pub(super) enum At {
    /// On each XCC that has it.
    Compute(Vec<Pointers>),
    /// In its ring, in bytes since it was made.
    Copy(u64),
}

impl Queues for Am {
    type Cause = Cause;
    type Kind = Language;
    type Queue = Parts;
    type At = At;

    fn slots(&self, language: Language) -> Slots {
        if language == Language::Sdma {
            return Slots {
                of: "copy queues",
                count: self.sdma().queues(),
            };
        }
        let images = (MQDS.bytes / mqd::STRIDE) as u32;
        let images = images / (self.gfx().xccs().len() as u32).max(1);
        Slots {
            of: "compute queues",
            count: images.min(hqd::queues(self.card().gfx())),
        }
    }

    fn stop(&self, language: Language, number: u32) -> Result<bool, Cause> {
        if language == Language::Sdma {
            return self.sdma().unload(number);
        }
        let mut xccs = self.gfx().xccs().iter();
        Ok(xccs.all(|xcc| hqd::unload(xcc, number, Leave::Reset).is_ok()))
    }

    fn pause(&self, queue: &Live<Am>) -> Result<At, Cause> {
        if queue.kind == Language::Sdma {
            return self.sdma().pause(queue.number).map(At::Copy);
        }
        let (xccs, images) = (self.gfx().xccs(), queue.parts.images.iter());
        let xccs = images.filter_map(|(i, _)| xccs.get(*i));
        let were = xccs.map(|xcc| hqd::unload(xcc, queue.number, Leave::Drain));
        were.collect::<Result<_, _>>().map(At::Compute)
    }

    fn resume(&self, queue: &Live<Am>, at: At) -> Result<(), Cause> {
        match (at, &queue.parts.copies) {
            (At::Compute(were), _) => {
                let xccs = self.gfx().xccs();
                for ((i, image), was) in queue.parts.images.iter().zip(were) {
                    if let Some(xcc) = xccs.get(*i) {
                        hqd::load(xcc, queue.number, image, Some(was))?;
                    }
                }
                Ok(())
            }
            (At::Copy(at), Some(copies)) => self.sdma().load(queue.number, copies, at),
            (At::Copy(_), None) => Ok(()),
        }
    }

    fn ring(&self, queue: &Live<Am>) -> Result<(), Cause> {
        let parts = &queue.parts;
        Ok(ring(queue.kind, &parts.control, &parts.doorbells)?)
    }

    fn is_reset_with(&self, queue: &Live<Am>, (language, number): (Language, u32)) -> bool {
        match (queue.kind, language) {
            (Language::Sdma, Language::Sdma) => self.sdma().share(queue.number, number),
            // Command processors are restarted together.
            (one, other) => one != Language::Sdma && other != Language::Sdma,
        }
    }

    fn reset(&self, (language, number): (Language, u32)) -> Result<(), Cause> {
        match language {
            Language::Sdma => self.sdma().restart(number),
            Language::Pm4 | Language::Aql => self.gfx().restart(),
        }
    }
}

/// Writes the doorbell with the write pointer. A concurrent submission may have written a larger value in between: this repeats
/// until the pointer is unchanged.
fn ring(language: Language, control: &Window, doorbells: &[Window]) -> Result<(), TransportError> {
    let mut written: u64 = control.load(WPTR)?;
    // A submitter that is faster writes the doorbell again.
    for _ in 0..RINGS {
        let bell = match language {
            Language::Pm4 | Language::Sdma => Some(written),
            // The index of the last packet.
            Language::Aql => written.checked_sub(1),
        };
        if let Some(bell) = bell {
            doorbells.iter().try_for_each(|one| one.ring(0, bell))?;
        }
        // Who stores a pointer that is not seen here rings it after this.
        fence(Ordering::SeqCst);
        let now = control.load(WPTR)?;
        if now == written {
            break;
        }
        written = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use hcq::mem::view::View;
    use hcq::mem::window::{AccessWidth, Piece, RemoteWindow};

    use super::*;

    /// A doorbell at which others submit, and ring before.
    struct Bell {
        control: View,
        others: Mutex<Vec<u64>>,
        rung: Mutex<Vec<u64>>,
    }

    impl RemoteWindow for Bell {
        fn len(&self) -> u64 {
            8
        }
        fn read(&self, _: u64, _: AccessWidth) -> Result<u64, TransportError> {
            Ok(0)
        }
        fn read_bytes(&self, _: u64, _: &mut [u8]) -> Result<(), TransportError> {
            Ok(())
        }
        fn write(&self, _: u64, _: AccessWidth, value: u64) -> Result<(), TransportError> {
            let mut rung = self.rung.lock().unwrap();
            if let Some(newer) = self.others.lock().unwrap().pop() {
                self.control.write(WPTR as usize, newer).unwrap();
                rung.push(newer - 1);
            }
            rung.push(value);
            Ok(())
        }
        fn write_many(&self, _: &[Piece<'_>]) -> Result<(), TransportError> {
            Ok(())
        }
        fn send(&self) -> Result<(), TransportError> {
            Ok(())
        }
        fn flush(&self) -> Result<(), TransportError> {
            Ok(())
        }
    }

    #[test]
    fn the_newest_pointer_is_rung_last() {
        let control = View::alloc(4096, 4096).unwrap();
        control.write(WPTR as usize, 3u64).unwrap();
        let bell = Arc::new(Bell {
            control: control.clone(),
            others: Mutex::new(vec![9, 7]),
            rung: Mutex::default(),
        });
        let doorbells = [Window::remote("doorbell", bell.clone())];
        let control = Window::mapped("control", control);
        ring(Language::Aql, &control, &doorbells).unwrap();
        assert_eq!(*bell.rung.lock().unwrap(), [6, 2, 8, 6, 8]);
        // Nothing was written.
        control.write(WPTR, 0u64).unwrap();
        ring(Language::Aql, &control, &doorbells).unwrap();
        assert_eq!(bell.rung.lock().unwrap().len(), 5);
    }
}
