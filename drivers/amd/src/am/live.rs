//! [`Live`]: a queue that is alive, as others of its engine know it.

use std::sync::{Arc, OnceLock};

use hcq::mem::window::Window;
use hcq::transport::TransportError;

use super::mqd::Mqd;
use super::sdma;
use crate::chip::Language;
use crate::interface::queue::WPTR;

/// A queue that is alive, as others of its engine know it.
pub(super) struct Live {
    /// The number of the handle that has it.
    pub(super) owner: u64,
    /// What it takes.
    pub(super) language: Language,
    /// Its slot.
    pub(super) number: u32,
    /// The image of each XCC that has it, with the XCC's number.
    pub(super) images: Vec<(usize, Arc<Mqd>)>,
    /// What it is made of, if it copies.
    pub(super) copies: Option<sdma::Queue>,
    /// Its page of pointers.
    pub(super) control: Window,
    /// Its doorbells.
    pub(super) doorbells: Vec<Window>,
    /// Why it runs no more, if a reset has taken it.
    down: OnceLock<String>,
}

impl Live {
    /// A queue of these parts.
    pub(super) fn new(
        owner: u64,
        (language, number): (Language, u32),
        images: Vec<(usize, Arc<Mqd>)>,
        copies: Option<sdma::Queue>,
        control: Window,
        doorbells: Vec<Window>,
    ) -> Arc<Live> {
        Arc::new(Live {
            owner,
            language,
            number,
            images,
            copies,
            control,
            doorbells,
            down: OnceLock::new(),
        })
    }

    /// Why it runs no more, if a reset has taken it.
    pub(super) fn down(&self) -> Option<&str> {
        self.down.get().map(String::as_str)
    }

    /// Notes that a reset for another queue has taken it.
    pub(super) fn take_down(&self, hung: u32, why: &str) {
        let text = format!(
            "a reset has taken this queue, which had done nothing wrong: queue {hung} of the same engine, of another handle \
             of this card, did not stop, and this one could not be brought back ({why}). Open the device again"
        );
        // Once is enough.
        _ = self.down.set(text);
    }

    /// Rings again: what was rung while it was out of its slot has gone unheard.
    pub(super) fn ring(&self) -> Result<(), TransportError> {
        let written: u64 = self.control.load(WPTR)?;
        let bell = match self.language {
            Language::Pm4 | Language::Sdma => written,
            // The index of the last packet.
            Language::Aql => match written.checked_sub(1) {
                Some(last) => last,
                None => return Ok(()),
            },
        };
        self.doorbells
            .iter()
            .try_for_each(|doorbell| doorbell.ring(0, bell))
    }
}
