//! Any bytes are the record of a machine, good as far as it goes, or an error. Checksums are made right, so that what is
//! behind them is reached.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use twin::record::{Record, Runs};
use twin::wire::Kind;

/// A record is read from a file. One for each process of the fuzzer.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    std::env::temp_dir().join(format!("doorbell-fuzz-record-{}", std::process::id()))
});

/// Bytes of what comes before the config, and of the head of a frame.
const START: usize = 24;
const HEAD: usize = 88;

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*word)).ok()
}

/// Puts the checksum of a range where it stands.
fn sum(bytes: &mut [u8], at: usize, range: std::ops::Range<usize>) -> Option<()> {
    let sum = crc32fast::hash(bytes.get(range)?);
    bytes
        .get_mut(at..at + 4)?
        .copy_from_slice(&sum.to_le_bytes());
    Some(())
}

/// Makes all checksums right, as far as the lengths are.
fn summed(bytes: &mut [u8]) -> Option<()> {
    let config = START.checked_add(word(bytes, START - 4)?)?;
    sum(bytes, config, 0..config)?;
    let mut at = config + 4;
    loop {
        let end = at.checked_add(HEAD)?.checked_add(word(bytes, at)?)?;
        sum(bytes, at + 4, at + 8..end)?;
        at = end;
    }
}

fn read(bytes: &[u8]) {
    std::fs::write(&*FILE, bytes).expect("the folder for temporary files can be written");
    let Ok(record) = Record::read(&FILE) else {
        return;
    };
    if let Some(cut) = &record.cut {
        assert!(cut.byte <= bytes.len() && cut.frames == record.frames.len());
    }
    for frame in record.frames.iter().filter(|one| one.kind == Kind::Memory) {
        let runs: usize = Runs::of(&frame.bytes).map(|(_, run)| run.len()).sum();
        assert!(runs <= frame.bytes.len());
    }
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut whole = bytes.to_vec();
    // Ends where a length reaches beyond the bytes.
    let _ = summed(&mut whole);
    read(&whole);
});
