//! Whatever is wrong with a file is found before anything runs.

use doorbell_run::{Chain, Error, ModelBundle, Placement};

use crate::small;

/// Opens all of a file and loads it.
fn used(bytes: Vec<u8>) -> Result<(), Error> {
    let bundle = ModelBundle::from_bytes("test.dbx", bytes)?;
    bundle.check()?;
    let Placement { .. } = Chain::parse("CPU")?.place(&bundle)?;
    Ok(())
}

#[test]
fn every_changed_byte_is_found() {
    let good = small::good();
    used(good.clone()).unwrap();
    assert!(good.len() < 64 << 10, "{}", good.len());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        let found = ModelBundle::from_bytes("test.dbx", bad).and_then(|bundle| bundle.check());
        let error = found
            .err()
            .unwrap_or_else(|| panic!("byte {at} is not found"));
        let text = error.to_string();
        assert!(text.starts_with("test.dbx: "), "byte {at}: {text}");
        let known = matches!(
            error,
            Error::Foreign { .. } | Error::Version { .. } | Error::Damaged { .. }
        );
        assert!(known, "byte {at}: {text}");
    }
}

#[test]
fn single_bits_of_weights_and_code_are_found_when_they_are_loaded() {
    let good = small::good();
    let opened = |bytes: &[u8]| ModelBundle::from_bytes("test.dbx", bytes.to_vec());
    let mut late = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let Ok(bundle) = opened(&bad) else { continue };
        // A section that opening leaves alone: only loading reads it.
        late += 1;
        if at % 16 == 0 {
            let placed = Chain::parse("CPU").unwrap().place(&bundle);
            let error = placed.err().unwrap_or_else(|| panic!("byte {at} runs"));
            assert!(matches!(error, Error::Damaged { .. }), "byte {at}: {error}");
        }
    }
    assert!(late > 256, "{late}");
}

#[test]
fn truncated_and_longer_files_are_refused() {
    let good = small::good();
    for n in 0..good.len() {
        let error = ModelBundle::from_bytes("test.dbx", good[..n].to_vec());
        assert!(error.is_err(), "{n} bytes");
    }
    // Also where the end is missing long before the last byte.
    for (n, said) in [
        (
            30,
            "test.dbx: header: expected 64 bytes, found 30".to_owned(),
        ),
        (
            100,
            format!(
                "test.dbx: header: expected 344 bytes of header and table, {} in the file, found 100 bytes",
                good.len()
            ),
        ),
        (
            good.len() - 1,
            format!(
                "expected {} bytes in the file, found {}",
                good.len(),
                good.len() - 1
            ),
        ),
    ] {
        let error = ModelBundle::from_bytes("test.dbx", good[..n].to_vec());
        let error = error.unwrap_err().to_string();
        assert!(error.contains(&said), "{error}");
    }
    let mut longer = good.clone();
    longer.push(0);
    let error = ModelBundle::from_bytes("test.dbx", longer)
        .unwrap_err()
        .to_string();
    let expected = format!(
        "expected {} bytes in the file, found {}",
        good.len(),
        good.len() + 1
    );
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_newer_version_and_another_format_are_refused_by_name() {
    let mut newer = small::good();
    newer[8] = 3;
    let error = used(newer.clone()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let error = used(doorbell_run::write::sealed(newer)).unwrap_err();
    assert!(matches!(
        error,
        Error::Version {
            version: 3,
            known: 2,
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.contains("version 3 of the format, expected 1 to 2. Update doorbell-run"),
        "{text}"
    );
    let error = used(b"\x08\x09an onnx model".to_vec()).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    assert!(matches!(used(Vec::new()), Err(Error::Foreign { .. })));
}

#[test]
fn sections_that_nobody_names_are_refused() {
    let mut renamed = small::good();
    // The kinds of the last two sections: of target 1, where there is none of target 0.
    for entry in [3, 4] {
        renamed[64 + 56 * entry + 4] = 1;
    }
    let error = used(doorbell_run::write::sealed(renamed)).unwrap_err();
    assert!(error.to_string().contains("in this order"), "{error}");
    let mut twice = small::good();
    twice[64..68].copy_from_slice(&2u32.to_le_bytes());
    let error = used(doorbell_run::write::sealed(twice)).unwrap_err();
    assert!(error.to_string().contains("in this order"), "{error}");
}

#[test]
fn a_file_of_another_chip_is_refused_with_both_names() {
    let other = small::file("void kernel(void) {}", |plan| plan.arch = "riscv64".into());
    let error = used(other).unwrap_err();
    assert!(matches!(error, Error::Chip { .. }), "{error}");
    let text = error.to_string();
    let here = std::env::consts::ARCH;
    assert!(
        text.contains("CPU::riscv64") && text.contains(here),
        "{text}"
    );
    let more = small::file("void kernel(void) {}", |plan| {
        plan.features = "no-such-feature".into()
    });
    let text = used(more).unwrap_err().to_string();
    assert!(text.contains("without no-such-feature"), "{text}");
    let gpu = small::file("void kernel(void) {}", |plan| {
        (plan.device, plan.arch) = ("AMD".into(), "gfx1100".into());
    });
    let text = used(gpu).unwrap_err().to_string();
    assert!(
        text.contains("no code for CPU, only for AMD::gfx1100"),
        "{text}"
    );
}

#[test]
fn a_plan_that_leaves_its_memory_is_not_written() {
    let wrong = std::panic::catch_unwind(|| {
        small::file("void kernel(void) {}", |plan| plan.regions[0].bytes = 1)
    });
    assert!(wrong.is_err());
}

#[test]
fn right_hashes_of_a_wrong_plan_do_not_help() {
    use doorbell_run::write::sealed;
    let good = small::good();
    assert_eq!(sealed(good.clone()), good);
    // Each byte of table and plans in turn: it is refused, or the plan stays in its memory, which opening checks.
    let (mut refused, mut taken) = (0, 0);
    let end = good.len().min(4096);
    for at in 64..end {
        for value in [0, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            match ModelBundle::from_bytes("test.dbx", sealed(bad)) {
                Ok(bundle) => {
                    bundle.check().unwrap();
                    taken += 1;
                }
                Err(Error::Damaged { .. }) => refused += 1,
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
    }
    assert!(
        refused > 500 && taken > 500,
        "{refused} refused, {taken} taken"
    );
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody writes: opening it would wait.
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (path, what) in [(pipe.as_path(), "a pipe"), (folder.path(), "a folder")] {
        let text = ModelBundle::open(path).err().unwrap().to_string();
        assert!(
            text.contains(&format!("expected a file, found {what}")),
            "{text}"
        );
    }
}
