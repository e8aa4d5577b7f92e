//! What the scopes of AQL packets do where an agent has several XCCs, and so several GL2s.

use twin_amd::chip::{GFX942_CPX, GFX942_QPX};

use super::xccs::{LOADS, STORES};
use super::*;

/// VRAM that GL2 holds.
const SHARED: u64 = 0x7e40_0000_0000;
/// The kernel descriptors, each with its code behind it.
const STORER: u64 = CODE;
const LOADER: u64 = CODE + 0x200;

/// The kernel gets the address of its arguments in s[0:1].
const ARGUMENTS: u32 = 1 << 3;

fn kernel(stand: &Stand, at: u64, code: &[u32]) {
    let mut descriptor = [0u32; 16];
    descriptor[4] = 0x100;
    let rsrc = [regs::VGPRS.put(1), regs::USER_SGPR.put(2)];
    (descriptor[12], descriptor[13], descriptor[14]) = (rsrc[0], rsrc[1], ARGUMENTS);
    stand.write_words(at, &descriptor);
    stand.write_words(at + 0x100, code);
}

/// A dispatch of so many workgroups, which XCCs take in turn; it waits for those before.
fn dispatch(kernel: u64, groups: u32, acquire: u32, release: u32) -> [u32; 16] {
    let mut packet = [0u32; 16];
    packet[0] = aql::KERNEL_DISPATCH
        | aql::BARRIER.put(1)
        | aql::ACQUIRE_SCOPE.put(acquire)
        | aql::RELEASE_SCOPE.put(release)
        | 3 << 16;
    (packet[1], packet[2]) = (0x1_0040, 1);
    (packet[3], packet[4], packet[5]) = (64 * groups, 1, 1);
    (packet[8], packet[9]) = (lo(kernel), hi(kernel));
    (packet[10], packet[11]) = (lo(SHARED), hi(SHARED));
    packet
}

/// All XCCs load a word, then the first one stores to it and releases, then all acquire and load it again: what
/// breaks, whatever the number of threads.
fn broken(chip: &'static Chip, release: u32, acquire: u32) -> Vec<&'static str> {
    let one_and_more = [1, 4].map(|threads| {
        let stand = Stand::with(chip, 3, |setup| setup.threads = threads);
        map(&stand, chip);
        let vram = Kind::Vram { public: false };
        stand.map_as(SHARED, 0x1000, vram, Mtype::Rw, true);
        kernel(&stand, STORER, &STORES);
        kernel(&stand, LOADER, &LOADS);
        let queue = stand.queue(QueueKind::Aql, RING, RING_BYTES);
        let agent = aql::SCOPE_AGENT;
        for packet in [
            dispatch(LOADER, 64, agent, agent),
            dispatch(STORER, 1, 0, release),
            dispatch(LOADER, 64, acquire, agent),
        ] {
            queue.submit(&packet);
        }
        stand.idle();
        stand.broken()
    });
    assert_eq!(one_and_more[0], one_and_more[1]);
    one_and_more[0].clone()
}

#[test]
fn the_scope_of_an_agent_is_about_all_its_xccs() {
    let (none, agent) = (0, aql::SCOPE_AGENT);
    assert_eq!(broken(&GFX942_QPX, agent, agent), [""; 0]);
    fires("CACHE-L2-NOT-WRITTEN-BACK").first(&broken(&GFX942_QPX, none, agent));
    let stale = broken(&GFX942_QPX, agent, none);
    // The other one has the old line in its GL2, the one that stored only in its scalar cache.
    fires("CACHE-L2-STALE").first(&stale);
    fires("CACHE-SCALAR-STALE").only(&stale[1..]);
}

#[test]
fn one_xcc_needs_no_write_back_for_itself() {
    let (none, agent) = (0, aql::SCOPE_AGENT);
    assert_eq!(broken(&GFX942_CPX, none, agent), [""; 0]);
    fires("CACHE-SCALAR-STALE").only(&broken(&GFX942_CPX, agent, none));
}
