//! [`Xcc`]: the registers of a graphics block. Some are banked: per queue, or per
//! address space. `GRBM_GFX_CNTL` selects the bank and is 0 between accesses, as firmware expects.

use std::sync::Arc;

use drivers_spec::amd::mmio::gc;
use drivers_spec::amd::packet::Gfxs;
use hcq::reg::block::{Block, Registers};
use hcq::reg::bus::Select;
use hcq::reg::error::RegError;

use super::card::Card;
use super::error::Cause;

/// A graphics block. MI300 has one on each of its compute dies, and calls it XCC; other chips have one.
pub(super) struct Xcc {
    card: Arc<Card>,
    block: Block<Gfxs>,
    index: usize,
    select: Arc<Select>,
}

/// Whose registers are meant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Bank {
    /// Which command processor: 0 for graphics, 1 for compute.
    pub(super) me: u32,
    /// Its pipe.
    pub(super) pipe: u32,
    /// The queue of the pipe.
    pub(super) queue: u32,
    /// The address space.
    pub(super) vmid: u32,
}

impl Xcc {
    /// All of a card.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn all(card: &Arc<Card>) -> Result<Vec<Xcc>, Cause> {
        let xcc = |(index, block): (usize, &Block<Gfxs>)| {
            let at = card.registers(block).place(&gc::GRBM_GFX_CNTL)?;
            let name = format!("{}.GRBM_GFX_CNTL", block.name);
            Ok(Xcc {
                card: card.clone(),
                block: block.clone(),
                index,
                select: Select::new(card.bus().clone(), name, at, 0),
            })
        };
        card.blocks().gc.iter().enumerate().map(xcc).collect()
    }

    /// Its number among those that work.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Its card.
    pub(super) fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// Where its registers are.
    pub(super) fn block(&self) -> &Block<Gfxs> {
        &self.block
    }

    /// Its registers that are there once.
    pub(super) fn registers(&self) -> Registers<'_, Gfxs> {
        self.card.registers(&self.block)
    }

    /// Runs with the registers of a bank; other accesses to banks wait.
    ///
    /// # Errors
    /// Those of `run`, and of the selection.
    pub(super) fn with<T, E: From<RegError>>(
        &self,
        bank: Bank,
        run: impl FnOnce(Registers<'_, Gfxs>) -> Result<T, E>,
    ) -> Result<T, E> {
        let fields = [
            ("meid", bank.me),
            ("pipeid", bank.pipe),
            ("queueid", bank.queue),
            ("vmid", bank.vmid),
        ];
        let word = gc::GRBM_GFX_CNTL.word;
        let value = fields.iter().fold(0, |value, (name, of)| {
            // All generations have them.
            let field = word.field(self.card.gfx(), name);
            value | field.map_or(0, |field| field.put(*of))
        });
        self.select.with(value, |bus| run(self.block.on(bus)))
    }
}
