//! Commands of copy engines.
//!
//! A transfer does not wait for those before it (PIPELINED), except the first one after a barrier, or of an
//! encoding: commands in between may overlap.

use drivers_gpu::span;
use drivers_spec::nv::copy::{
    self,
    launch_dma::{
        DATA_TRANSFER_TYPE, DATA_TRANSFER_TYPE_NON_PIPELINED, DATA_TRANSFER_TYPE_PIPELINED,
        DST_MEMORY_LAYOUT, DST_MEMORY_LAYOUT_PITCH, REMAP_ENABLE, SRC_MEMORY_LAYOUT,
        SRC_MEMORY_LAYOUT_PITCH,
    },
    set_remap_components::{
        COMPONENT_SIZE, COMPONENT_SIZE_FOUR, DST_X, DST_X_CONST_B, NUM_DST_COMPONENTS,
        NUM_DST_COMPONENTS_ONE,
    },
};
use drivers_spec::nv::push::subchannel::COPY;
use hcq::command_buffer::CommandBuffer;
use hcq::{Result, Val, Width};

use super::Setup;
use super::push::{address, immediate, methods, plus};
use super::span::{check_range, check_word};

/// Maximum bytes of one transfer: the length of a line has 32 bits, and the next transfer must have the same alignment.
const MOST: u64 = 1 << 31;

const LINES: u32 =
    SRC_MEMORY_LAYOUT.put(SRC_MEMORY_LAYOUT_PITCH) | DST_MEMORY_LAYOUT.put(DST_MEMORY_LAYOUT_PITCH);

/// Whether the next transfer has to wait for those before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// It waits.
    After,
    /// It does not.
    Beside,
}

impl Order {
    /// The word that launches the next transfer.
    fn launch(&mut self, flags: u32) -> u32 {
        let kind = match std::mem::replace(self, Order::Beside) {
            Order::After => DATA_TRANSFER_TYPE_NON_PIPELINED,
            Order::Beside => DATA_TRANSFER_TYPE_PIPELINED,
        };
        immediate(
            COPY,
            copy::LAUNCH_DMA,
            LINES | flags | DATA_TRANSFER_TYPE.put(kind),
        )
    }
}

/// Copies bytes.
pub(crate) fn copy(
    setup: &Setup,
    order: &mut Order,
    dst: Val,
    src: Val,
    bytes: u64,
    out: &mut CommandBuffer,
) -> Result<()> {
    check_range(setup, dst, bytes, MOST)
        .and_then(|()| check_range(setup, src, bytes, MOST))
        .and_then(|()| span::check_disjoint(dst, src, bytes))
        .map_err(|why| setup.refused("copy", why))?;
    let mut done = 0;
    while done < bytes {
        let count = (bytes - done).min(MOST);
        out.words
            .push(const { methods(COPY, copy::OFFSET_IN_UPPER, 4) });
        address(out, plus(src, done));
        address(out, plus(dst, done));
        out.words.extend_from_slice(&[
            const { methods(COPY, copy::LINE_LENGTH_IN, 1) },
            count as u32,
            order.launch(0),
        ]);
        done += count;
    }
    Ok(())
}

/// Fills with a word, as the constant that takes the place of what a copy would read.
pub(crate) fn fill(
    setup: &Setup,
    order: &mut Order,
    at: Val,
    value: u32,
    bytes: u64,
    out: &mut CommandBuffer,
) -> Result<()> {
    check_word(setup, "fill", at, Width::W32)?;
    check_range(setup, at, bytes, MOST)
        .and_then(|()| span::words(bytes))
        .map_err(|why| setup.refused("fill", why))?;
    if bytes == 0 {
        return Ok(());
    }
    out.words.extend_from_slice(&[
        const { methods(COPY, copy::SET_REMAP_CONST_B, 2) },
        value,
        DST_X.put(DST_X_CONST_B)
            | COMPONENT_SIZE.put(COMPONENT_SIZE_FOUR)
            | NUM_DST_COMPONENTS.put(NUM_DST_COMPONENTS_ONE),
    ]);
    let mut done = 0;
    while done < bytes {
        let count = (bytes - done).min(MOST);
        out.words
            .push(const { methods(COPY, copy::OFFSET_OUT_UPPER, 2) });
        address(out, plus(at, done));
        out.words.extend_from_slice(&[
            const { methods(COPY, copy::LINE_LENGTH_IN, 1) },
            (count / 4) as u32,
            order.launch(REMAP_ENABLE.put(1)),
        ]);
        done += count;
    }
    Ok(())
}
