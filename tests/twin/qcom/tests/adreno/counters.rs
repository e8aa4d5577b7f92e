//! Performance counters.

use drivers_spec::qcom::kgsl::{self, perfcounter_group as groups};
use drivers_spec::qcom::packet::op;
use twin::errno::{Errno, Result};
use twin::fires::fires;

use super::bench::Bench;
use super::rig::{Rig, list};

fn get(rig: &Rig, groupid: u32, countable: u32) -> Result<(u32, u32)> {
    let mut args = kgsl::PerfcounterGet {
        groupid,
        countable,
        ..kgsl::PerfcounterGet::default()
    };
    rig.call(kgsl::PERFCOUNTER_GET, &mut args)?;
    Ok((args.offset, args.offset_hi))
}

fn put(rig: &Rig, groupid: u32, countable: u32) -> Result {
    let mut args = kgsl::PerfcounterPut {
        groupid,
        countable,
        pad: [0; 2],
    };
    rig.call(kgsl::PERFCOUNTER_PUT, &mut args)
}

fn read(rig: &Rig, groupid: u32, count: u32) -> Result<u64> {
    let mut reads = [kgsl::PerfcounterReadGroup {
        groupid,
        ..kgsl::PerfcounterReadGroup::default()
    }];
    let mut args = kgsl::PerfcounterRead {
        reads: list(&mut reads),
        count,
        ..kgsl::PerfcounterRead::default()
    };
    rig.call(kgsl::PERFCOUNTER_READ, &mut args)?;
    Ok(reads[0].value)
}

#[test]
fn counters_count_what_runs() {
    let bench = Bench::new("");
    let rig = &bench.rig;
    assert_eq!(get(rig, groups::ALWAYSON, 0), Ok((0x980, 0x981)));
    let (low, high) = get(rig, groups::SP, 0).unwrap();
    assert_eq!((low, high), (0x4a6 + 46, 0x4a6 + 47));
    // Another file of it gets the same one.
    assert_eq!(get(rig, groups::SP, 0), Ok((low, high)));
    let to = rig.alloc(4096, kgsl::memory::WRITECOMBINE);
    let store = |at: u64| {
        let at = to.gpu + at;
        [1 << 30 | 2 << 18 | low, at as u32, (at >> 32) as u32]
    };
    let mut stream = bench.dispatch().command(op::WAIT_FOR_IDLE, &[]);
    stream.0.insert(
        0,
        super::stream::Piece::Command(op::REG_TO_MEM, store(0).to_vec()),
    );
    let broken = bench.run(&stream.command(op::REG_TO_MEM, &store(8)));
    assert_eq!(broken, [""; 0]);
    assert!(to.word(8) > to.word(0));
    assert!(read(rig, groups::SP, 1).unwrap() >= u64::from(to.word(8)));
    assert!(read(rig, groups::ALWAYSON, 1).unwrap() > 0);
    assert_eq!(read(rig, groups::TP, 1), Ok(0));
    assert_eq!(put(rig, groups::SP, 0), Ok(()));
    assert_eq!(put(rig, groups::SP, 0), Ok(()));
    assert_eq!(put(rig, groups::SP, 0), Err(Errno::ENODEV));
    assert_eq!(read(rig, groups::SP, 1), Ok(0));
}

#[test]
fn counters_are_checked() {
    let rig = Rig::new("");
    assert_eq!(get(&rig, 0x99, 0), Err(Errno::EINVAL));
    assert_eq!(get(&rig, groups::ALWAYSON, 1), Err(Errno::EINVAL));
    assert_eq!(read(&rig, groups::SP, 0), Err(Errno::EINVAL));
    assert_eq!(read(&rig, groups::SP, 101), Err(Errno::EINVAL));
    assert_eq!(read(&rig, 0x99, 1), Err(Errno::EINVAL));
    assert_eq!(rig.broken(), [""; 0]);
    get(&rig, groups::SP, 5).unwrap();
    fires("KGSL-COUNTABLE-NOT-MODELLED").only(&rig.broken());
    // Each countable has a counter; HLSQ has six.
    for countable in 0..6 {
        get(&rig, groups::HLSQ, countable).unwrap();
    }
    assert_eq!(get(&rig, groups::HLSQ, 6), Err(Errno::EBUSY));
}
