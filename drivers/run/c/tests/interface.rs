//! The header says what the library has, and a program in C can use it.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "../../tests/small/mod.rs"]
mod small;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int};
use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;

use doorbell_run_c::*;

/// The names of functions in a text.
fn names<'t>(text: &'t str, before: &str) -> BTreeSet<&'t str> {
    let parts = text.split(before).skip(1);
    let names = parts.map(|part| part.split('(').next().unwrap());
    names
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))
        .collect()
}

#[test]
fn the_header_has_every_function_and_is_c() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(folder.join("include/doorbell_run.h")).unwrap();
    let source = include_str!("../src/lib.rs");
    let own: BTreeSet<String> = names(source, "extern \"C\" fn ")
        .iter()
        .map(|n| n.to_string())
        .collect();
    let calls = header
        .lines()
        .filter(|line| line.ends_with(");") && !line.starts_with([' ', '/']));
    let said: BTreeSet<String> = calls
        .map(|line| {
            line.split('(')
                .next()
                .unwrap()
                .rsplit([' ', '*'])
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(own, said);
    assert!(own.len() <= 30, "{}", own.len());
    let size = std::mem::size_of::<PortInfo>();
    let check = format!(
        "#include \"doorbell_run.h\"\n_Static_assert(sizeof(dbx_port_info) == {size}, \"layout\");\n"
    );
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("check.c");
    std::fs::write(&file, check).unwrap();
    let status = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-I",
        ])
        .args([&folder.join("include"), &file])
        .status()
        .unwrap();
    assert!(status.success());
}

fn error() -> String {
    // SAFETY: a string of this thread that no call replaces meanwhile.
    unsafe { CStr::from_ptr(dbx_error()) }
        .to_str()
        .unwrap()
        .to_owned()
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "{}", error());
}

#[test]
fn a_bundle_is_opened_placed_and_run() {
    let file = small::good();
    let (mut bundle, mut model) = (null_mut(), null_mut());
    let cpu = CString::new("QCOM|CPU").unwrap();
    let (x, y) = (CString::new("x").unwrap(), CString::new("y").unwrap());
    // SAFETY: pointers of the library, strings and buffers that live through the calls.
    unsafe {
        ok(dbx_open_memory(
            file.as_ptr().cast(),
            file.len(),
            &mut bundle,
        ));
        ok(dbx_check(bundle));
        assert_eq!([0, 1, 2, 3].map(|kind| dbx_count(bundle, kind)), [1; 4]);
        assert!(dbx_count(bundle, 4) < 0);
        let mut info = std::mem::MaybeUninit::<PortInfo>::uninit();
        ok(dbx_port(bundle, 0, 0, info.as_mut_ptr()));
        assert_eq!(dbx_port(bundle, 0, 1, info.as_mut_ptr()), -6);
        assert!(
            CStr::from_ptr(dbx_target(bundle, 0))
                .to_str()
                .unwrap()
                .starts_with("CPU::")
        );
        assert!(dbx_target(bundle, 1).is_null());
        ok(dbx_place(bundle, cpu.as_ptr(), &mut model));
        dbx_close(bundle);
        let notes = CStr::from_ptr(dbx_notes(model)).to_str().unwrap();
        assert!(notes.contains("no code for QCOM"), "{notes}");
        assert!(
            CStr::from_ptr(dbx_device(model))
                .to_str()
                .unwrap()
                .starts_with("CPU:0")
        );
        let input = small::bytes(&[10; small::ROW as usize]);
        let mut output = vec![0xffu8; input.len()];
        for first in [10, 11] {
            ok(dbx_write(
                model,
                0,
                x.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
            ));
            ok(dbx_run(model, 60_000));
            ok(dbx_read(
                model,
                1,
                y.as_ptr(),
                output.as_mut_ptr().cast(),
                output.len(),
            ));
            assert_eq!(small::values(&output), [first; small::ROW as usize]);
        }
        ok(dbx_reset(model));
        let (mut memory, mut size) = (null_mut(), 0);
        ok(dbx_memory(model, 1, y.as_ptr(), &mut memory, &mut size));
        assert_eq!(size, output.len());
        ok(dbx_start(model, 60_000));
        ok(dbx_wait(model, 60_000));
        assert_eq!(memory.cast::<u64>().read_volatile(), 10);
        assert_eq!(
            dbx_write(model, 0, y.as_ptr(), input.as_ptr().cast(), input.len()),
            -6
        );
        assert!(error().contains("expected one of x"), "{}", error());
        assert_eq!(dbx_run(null_mut(), 1), -6);
        dbx_free(model);
        dbx_free(null_mut());
        let mut again = null_mut();
        assert_eq!(
            dbx_open_memory(file.as_ptr().cast(), file.len() - 1, &mut again),
            -2
        );
        assert!(again.is_null());
    }
    assert_eq!(dbx_version(), 1);
}
