//! Caches, seen from queues: who is named, and what is reported when the host is told.
use crate::stand;

use drivers_spec::amd::pm4::{self, header, release};
use drivers_spec::amd::sdma;
use stand::Stand;
use twin::fires::fires;
use twin_amd::chip::GFX1100;
use twin_amd::gpu::QueueKind;
use twin_amd::mem::{Kind, Mtype};
use twin_shader::page::Port;

const RING: u64 = 0x7e00_0000_0000;
const DATA: u64 = 0x7e10_0000_0000;
const CACHED: u64 = 0x7e20_0000_0000;

/// Bytes at [`CACHED`] that GL2 holds dirty.
fn dirty(kind: Kind, mtype: Mtype) -> Stand {
    let stand = Stand::new(&GFX1100, 3);
    stand.map(RING, 0x1_0000);
    stand.map(DATA, 0x1000);
    stand.map_as(CACHED, 0x1000, kind, mtype, true);
    stand.vm.write(Port::Vector, CACHED, &[7; 8]).unwrap();
    stand
}

#[test]
fn a_late_copy_is_named_by_its_own_packet() {
    let stand = dirty(Kind::Vram { public: false }, Mtype::Rw);
    let queue = stand.queue(QueueKind::Sdma { engine: 0 }, RING, 4096);
    let pair = |va: u64| [va as u32, (va >> 32) as u32];
    let ([from, from_high], [to, to_high]) = (pair(CACHED), pair(DATA));
    let [fence, fence_high] = pair(DATA + 64);
    let mut words = vec![u32::from(sdma::COPY_LINEAR), 7, 0];
    words.extend([from, from_high, to, to_high]);
    words.extend([
        u32::from(sdma::FENCE) | sdma::FENCE_MTYPE.put(sdma::MTYPE_UC),
        fence,
        fence_high,
        1,
    ]);
    queue.submit(&words);
    stand.idle();
    fires("CACHE-L2-NOT-WRITTEN-BACK").only(&stand.broken());
    let report = stand.reports();
    let by = "by gpu 0 queue 1 byte 0: COPY_LINEAR";
    assert!(report.contains(by), "{report}");
}

#[test]
fn the_host_is_told_after_gl2_is_written_back() {
    let told = |write_back| {
        let stand = dirty(Kind::Gtt, Mtype::Nc);
        let queue = stand.queue(QueueKind::Pm4, RING, 4096);
        let event = release::EVENT_TYPE.put(pm4::CACHE_FLUSH_AND_INV_TS_EVENT)
            | release::EVENT_INDEX.put(pm4::EVENT_INDEX_END_OF_PIPE)
            | release::GL2_WB.put(write_back);
        let select = release::DATA_SEL.put(1) | release::INT_SEL.put(2);
        let (low, high) = (DATA as u32, (DATA >> 32) as u32);
        queue.submit(&[
            header(pm4::RELEASE_MEM, 7),
            event,
            select,
            low,
            high,
            1,
            0,
            5,
        ]);
        stand.wait("interrupt", |stand| stand.heard() == 1);
        stand.idle();
        stand.broken()
    };
    assert_eq!(told(1), [""; 0]);
    fires("CACHE-L2-HOST-STALE").only(&told(0));
}
