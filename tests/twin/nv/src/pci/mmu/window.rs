//! BAR 1 and BAR 2 (which is BAR 3 of the function): memory by its address, or by the page tables of an instance block.
//!
//! GSP's firmware binds an instance block to each when it starts. Their page directories lie in its heap outside of WPR2: the
//! host writes that of BAR 1 itself, and has firmware write an entry of that of BAR 2.
//!
//! Source: OGKM, turing/tu102/dev_vm.h, NV_VIRTUAL_FUNCTION_PRIV_BAR1_BLOCK and BAR2_BLOCK, hopper/gh100/dev_vm.h;
//! gsp_static_config.h: bar1PdeBase, bar2PdeBase; rpc.c, rpcUpdateBarPde_v15_00; Linux, nvkm/subdev/gsp/rm/r535/bar.c.

use hcq::sync::lock;
use twin::host::PAGE;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use crate::pci::fsp;
use crate::pci::memory::{Aperture, Physical, Place};
use crate::pci::registers::{BAR1_BLOCK, BAR2_BLOCK};
use crate::pci::state::State;
use crate::space::Access;

static BAR: Rule = Rule {
    name: "NV-PCI-BAR-FAULT",
    text: "BAR 1 and BAR 2 are accessed where the page tables of their instance block have pages that allow it",
    source: "OGKM, turing/tu102/dev_vm.h: BAR1_BLOCK_MODE VIRTUAL; ada/ad102/dev_fault.h: NV_PFAULT_MMU_ENG_ID_BAR1, BAR2",
    proof: Proof::Sourced,
};

/// Where an instance block has its page directory: NV_RAMIN_PAGE_DIR_BASE_LO and HI.
pub(in crate::pci) const DIRECTORY: u64 = 0x200;
/// Its format: USE_VER2_PT_FORMAT, and BIG_PAGE_SIZE 64 KiB.
const FORMAT: u64 = 1 << 10 | 1 << 11;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pci) enum Window {
    Bar1,
    Bar2,
}

impl Window {
    fn block(self, state: &State) -> u32 {
        match (self, state.config.chip.fsp.is_some()) {
            (Window::Bar1, false) => BAR1_BLOCK,
            (Window::Bar2, false) => BAR2_BLOCK,
            (Window::Bar1, true) => fsp::BAR1_BLOCK,
            (Window::Bar2, true) => fsp::BAR2_BLOCK,
        }
    }

    /// Where firmware has its page directory, in its heap outside of WPR2.
    pub(in crate::pci) fn directory(self, state: &State) -> Option<u64> {
        let heap = state.vram.plain_heap.as_ref()?;
        let pages = match self {
            Window::Bar1 => 1,
            Window::Bar2 => 3,
        };
        Some(heap.start + pages * PAGE)
    }
}

/// The word of an instance block for a page directory.
pub(in crate::pci) fn base(directory: Place) -> u64 {
    let target = match directory.aperture {
        Aperture::Vram => 0,
        Aperture::Host => 2,
    };
    directory.at & !0xfff | target | FORMAT
}

/// The page directory of an instance block's word, if the format is the one that there is.
pub(in crate::pci) fn directory(word: u64) -> Option<Place> {
    let aperture = match word & 3 {
        0 => Aperture::Vram,
        1 => return None,
        _ => Aperture::Host,
    };
    let at = word & !0xfff;
    (word & FORMAT == FORMAT).then_some(Place { aperture, at })
}

/// The page directory behind a window; none where it shows memory by its address.
fn root(state: &State, window: Window) -> Option<Option<Place>> {
    let at = window.block(state);
    let block = state.held(at);
    // MODE, TARGET and PTR: in one word before Hopper, then in two.
    let (is_virtual, target, pointer) = match state.config.chip.fsp {
        None => (
            block >> 31 != 0,
            block >> 28 & 3,
            u64::from(block & 0xfff_ffff) << 12,
        ),
        Some(_) => {
            let high = u64::from(state.held(at + 4)) << 32;
            let low = u64::from(block & !0xfff);
            (block >> 9 & 1 != 0, block >> 10 & 3, high | low)
        }
    };
    if !is_virtual {
        return None;
    }
    let instance = Place {
        aperture: match target {
            0 => Aperture::Vram,
            _ => Aperture::Host,
        },
        at: pointer,
    };
    let physical = Physical::new(&state.vram, state.host());
    let word = physical.long(instance.plus(DIRECTORY), "the window of the host");
    Some(word.and_then(directory))
}

/// The page directories behind both.
pub(super) fn roots(state: &State) -> [Option<Place>; 2] {
    [Window::Bar1, Window::Bar2].map(|window| root(state, window).flatten())
}

/// Firmware binds both.
pub(in crate::pci) fn bind(state: &mut State) {
    for window in [Window::Bar1, Window::Bar2] {
        let Some(directory) = window.directory(state) else {
            return;
        };
        let instance = directory - PAGE;
        state.vram.put(instance, &[0; 2 * PAGE as usize]);
        let word = base(Place::vram(directory)).to_le_bytes();
        state.vram.put(instance + DIRECTORY, &word);
        let block = window.block(state);
        let (low, high) = match state.config.chip.fsp {
            None => (1 << 31 | (instance >> 12) as u32, 0),
            Some(_) => (1 << 9 | instance as u32, (instance >> 32) as u32),
        };
        state.hold(block, low);
        state.hold(block + 4, high);
    }
}

/// The pieces of a range: places, and which bytes of it.
fn pieces(
    state: &State,
    window: Window,
    (offset, bytes): (u64, usize),
    access: Access,
    mut each: impl FnMut(Option<Place>, std::ops::Range<usize>) -> Result<(), Broken>,
) -> Result<(), Broken> {
    let Some(root) = root(state, window) else {
        return each(Some(Place::vram(offset)), 0..bytes);
    };
    let physical = Physical::new(&state.vram, state.host());
    let name = format!("{window:?}");
    let mut done = 0;
    while done < bytes {
        let va = offset + done as u64;
        let who = (&*name, &*state.journal);
        let wrong = |why: String| (&BAR, format!("{access:?} at {va:#x} of {window:?}: {why}"));
        let root = root.ok_or_else(|| wrong("its instance block has no page directory".into()))?;
        let found = lock(&state.tlb).translate(&physical, root, va, who);
        let leaf = found
            .map_err(|cause| wrong(format!("a page was expected, the walk ends at: {cause:?}")))?;
        if !leaf.rights.allow(access) {
            return Err(wrong(format!("the page is {:?}", leaf.rights)));
        }
        let inside = va % leaf.bytes;
        let length = (leaf.bytes - inside).min((bytes - done) as u64) as usize;
        each(
            leaf.place.map(|place| place.plus(inside)),
            done..done + length,
        )?;
        done += length;
    }
    Ok(())
}

fn lost(place: Place, window: Window) -> Broken {
    (&BAR, format!("{place} behind {window:?} is not there"))
}

/// The host reads.
pub(in crate::pci) fn read(
    state: &State,
    window: Window,
    offset: u64,
    to: &mut [u8],
) -> Result<(), Broken> {
    let range = (offset, to.len());
    let host = state.host();
    pieces(state, window, range, Access::Read, |place, part| {
        let to = &mut to[part];
        match place {
            None => to.fill(0),
            Some(place) if place.aperture == Aperture::Vram => {
                return state.vram.read(place.at, to);
            }
            Some(place) if host.read(place.at, to, "the window of the host") => {}
            Some(place) => return Err(lost(place, window)),
        }
        Ok(())
    })
}

/// The host writes.
pub(in crate::pci) fn write(
    state: &State,
    window: Window,
    offset: u64,
    from: &[u8],
) -> Result<(), Broken> {
    let range = (offset, from.len());
    let host = state.host();
    pieces(state, window, range, Access::Write, |place, part| {
        let from = &from[part];
        match place {
            None => {}
            Some(place) if place.aperture == Aperture::Vram => {
                return state.vram.write(place.at, from);
            }
            Some(place) if host.write(place.at, from, "the window of the host") => {}
            Some(place) => return Err(lost(place, window)),
        }
        Ok(())
    })
}
