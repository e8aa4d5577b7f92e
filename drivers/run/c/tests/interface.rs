//! The header says what the library has, and a program in C can use it.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "../../tests/small/mod.rs"]
mod small;

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};

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

/// Sizes, names and kinds are checked before memory of the caller is touched: here it ends where the value would.
///
/// # Safety
/// A model of the library.
unsafe fn checks_come_before_memory(model: *mut Loaded) {
    let [y, queue, other] = ["y", "queue", "other"].map(|name| CString::new(name).unwrap());
    let value = small::ROW as usize * 8;
    for (kind, name, size) in [
        (1, &y, value + 1),
        (1, &y, value - 1),
        (1, &y, 1 << 40),
        (1, &y, usize::MAX),
        (1, &other, value),
        (2, &queue, value),
        (2, &queue, usize::MAX),
        (0, &y, value),
        (7, &y, value),
    ] {
        let mut output = vec![0xa5u8; value];
        // SAFETY: what is refused does not touch the buffer, which is what is tested.
        let code =
            unsafe { dbx_read(model, kind, name.as_ptr(), output.as_mut_ptr().cast(), size) };
        assert_eq!(code, -6, "{kind} {name:?} {size}: {}", error());
        assert!(
            output.iter().all(|byte| *byte == 0xa5),
            "{kind} {name:?} {size}"
        );
        // SAFETY: as above.
        let code = unsafe { dbx_write(model, kind, name.as_ptr(), output.as_ptr().cast(), size) };
        assert_eq!(code, -6, "{kind} {name:?} {size}: {}", error());
    }
    // SAFETY: as above.
    unsafe {
        assert_eq!(dbx_read(model, 1, y.as_ptr(), null_mut(), value), -6);
        let mut bundle = null_mut();
        let bytes = [0u8; 1];
        assert_eq!(
            dbx_open_memory(bytes.as_ptr().cast(), usize::MAX, &mut bundle),
            -6
        );
        assert_eq!(dbx_open(null_mut(), &mut bundle), -6);
        assert!(bundle.is_null());
    }
}

#[test]
fn a_run_under_way_leaves_the_caller_s_memory_alone() {
    let file = small::file(small::SPIN, |_| ());
    let (mut bundle, mut model) = (null_mut(), null_mut());
    let cpu = CString::new("CPU").unwrap();
    let (x, y) = (CString::new("x").unwrap(), CString::new("y").unwrap());
    // SAFETY: pointers of the library, strings and buffers that live through the calls.
    unsafe {
        ok(dbx_open_memory(
            file.as_ptr().cast(),
            file.len(),
            &mut bundle,
        ));
        ok(dbx_place(bundle, cpu.as_ptr(), &mut model));
        dbx_close(bundle);
        let (mut memory, mut size) = (null_mut(), 0);
        ok(dbx_memory(model, 0, x.as_ptr(), &mut memory, &mut size));
        ok(dbx_start(model, 60_000));
        assert_eq!(dbx_wait(model, 0), -7);
        // The second run is not submitted.
        for code in [dbx_start(model, 0), dbx_run(model, 0), dbx_run(model, 20)] {
            assert_eq!(code, -10, "{}", error());
            assert!(error().contains("was not submitted"), "{}", error());
        }
        let mut output = vec![0xa5u8; small::ROW as usize * 8];
        let into = output.as_mut_ptr().cast();
        assert_eq!(dbx_read(model, 1, y.as_ptr(), into, output.len()), -7);
        assert!(output.iter().all(|byte| *byte == 0xa5));
        // The kernel ends when its input changes.
        memory.cast::<u64>().write_volatile(1);
        ok(dbx_wait(model, 60_000));
        ok(dbx_read(
            model,
            1,
            y.as_ptr(),
            output.as_mut_ptr().cast(),
            output.len(),
        ));
        assert_eq!(small::values(&output), [7; small::ROW as usize]);
        ok(dbx_free(model));
    }
}

#[test]
fn files_of_any_name_are_opened_and_codes_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"\xff.dbx"));
    std::fs::write(&path, small::good()).unwrap();
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut bundle = null_mut();
    // SAFETY: pointers of the library and strings that live through the calls.
    unsafe {
        ok(dbx_open(name.as_ptr(), &mut bundle));
        for (devices, code) in [
            ("QCOM;CPU", -6),
            ("TWINKGSL+QCOM::a630", -6),
            ("QCOM::a740", -5),
            ("QCOM", -5),
            ("QCOM|AMD", -4),
        ] {
            let devices = CString::new(devices).unwrap();
            let mut model = null_mut();
            let found = dbx_place(bundle, devices.as_ptr(), &mut model);
            assert_eq!(found, code, "{devices:?}: {}", error());
            assert!(model.is_null());
        }
        dbx_close(bundle);
    }
}

/// A page, as the memory of a camera has.
#[repr(C, align(4096))]
#[allow(dead_code, reason = "it is read by its address")]
struct Page([u64; 512]);

/// A page that may not be written.
static READ_ONLY: Page = Page([7; 512]);

/// On the CPU as on a GPU.
#[test]
fn memory_that_is_not_there_or_that_may_not_be_written_is_refused() {
    let file = small::good();
    let (mut bundle, mut model, mut other) = (null_mut(), null_mut(), null_mut());
    let cpu = CString::new("CPU").unwrap();
    // SAFETY: pointers of the library and strings that live through the calls; what is refused is not touched.
    unsafe {
        ok(dbx_open_memory(
            file.as_ptr().cast(),
            file.len(),
            &mut bundle,
        ));
        ok(dbx_place(bundle, cpu.as_ptr(), &mut model));
        dbx_close(bundle);
        // No process has the lowest pages.
        let nothing = std::ptr::without_provenance_mut(4096);
        let constant = (&raw const READ_ONLY).cast_mut().cast();
        for (memory, part) in [
            (nothing, "found nothing at 0x1000: map it first"),
            (constant, "map them with PROT_READ and PROT_WRITE"),
        ] {
            let code = dbx_import_host(model, memory, 4096, &mut other);
            assert_eq!(code, -6, "{}", error());
            assert!(error().contains(part), "{part}: {}", error());
            assert!(other.is_null());
        }
        ok(dbx_free(model));
    }
}

#[test]
fn memory_of_the_caller_is_used_in_place() {
    let file = small::good();
    let (mut bundle, mut model) = (null_mut(), null_mut());
    let cpu = CString::new("CPU").unwrap();
    let [x, y, queue] = ["x", "y", "queue"].map(|name| CString::new(name).unwrap());
    let pages: *mut Page = Box::into_raw(Box::new([0, 1].map(|n| Page([n; 512])))).cast();
    let mut frames = [null_mut(), null_mut()];
    let mut output = vec![0xffu8; small::ROW as usize * 8];
    let into = output.as_mut_ptr().cast();
    // SAFETY: pointers of the library, strings and buffers that live through the calls; the pages live until the model is freed.
    unsafe {
        ok(dbx_open_memory(
            file.as_ptr().cast(),
            file.len(),
            &mut bundle,
        ));
        ok(dbx_place(bundle, cpu.as_ptr(), &mut model));
        dbx_close(bundle);
        for (n, frame) in frames.iter_mut().enumerate() {
            ok(dbx_import_host(model, pages.add(n).cast(), 4096, frame));
        }
        for (n, first) in [10, 21, 12, 23].into_iter().enumerate() {
            let page = pages.add(n % 2).cast::<u64>();
            (0..512).for_each(|i| page.add(i).write_volatile(10 + n as u64 % 2 * 10));
            ok(dbx_bind(model, 0, x.as_ptr(), frames[n % 2], 1024));
            ok(dbx_run(model, 60_000));
            ok(dbx_read(
                model,
                1,
                y.as_ptr(),
                into,
                small::ROW as usize * 8,
            ));
            let found = std::slice::from_raw_parts(into.cast::<u8>(), small::ROW as usize * 8);
            assert_eq!(small::values(found), [first; small::ROW as usize]);
        }
        for (kind, name, offset) in [
            (0, &x, 8),
            (0, &x, 4096),
            (0, &x, 4097),
            (0, &x, usize::MAX),
            (1, &y, 4096 - 32),
            (0, &queue, 0),
            (1, &x, 0),
            (2, &queue, 0),
        ] {
            let code = dbx_bind(model, kind, name.as_ptr(), frames[0], offset);
            assert_eq!(code, -6, "{kind} {name:?} {offset}: {}", error());
        }
        let mut other = null_mut();
        assert_eq!(dbx_import_host(model, null_mut(), 4096, &mut other), -6);
        for (at, size) in [(0, 0), (0, 100), (8, 4096), (0, 4097), (0, usize::MAX)] {
            let memory = pages.cast::<u8>().add(at).cast();
            let code = dbx_import_host(model, memory, size, &mut other);
            assert_eq!(code, -6, "{at} {size}: {}", error());
        }
        assert_eq!(dbx_import_host(model, pages.cast(), 100, &mut other), -6);
        assert!(
            error().contains("expected whole pages of 4096 bytes, found 100 bytes at 0x"),
            "{}",
            error()
        );
        // The processor takes pages of the process alone.
        assert_eq!(dbx_import_dmabuf(model, 0, 4096, &mut other), -6);
        assert_eq!(dbx_import_opencl(model, null_mut(), 4096, &mut other), -6);
        assert!(other.is_null());
        ok(dbx_bind(model, 0, x.as_ptr(), null(), 0));
        assert_eq!(dbx_bind(model, 2, queue.as_ptr(), null(), 0), -6);
        ok(dbx_run(model, 60_000));
        frames.into_iter().for_each(|frame| dbx_release(frame));
        dbx_release(null_mut());
        ok(dbx_free(model));
        drop(Box::from_raw(pages.cast::<[Page; 2]>()));
    }
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
        checks_come_before_memory(model);
        ok(dbx_free(model));
        ok(dbx_free(null_mut()));
        let mut again = null_mut();
        assert_eq!(
            dbx_open_memory(file.as_ptr().cast(), file.len() - 1, &mut again),
            -2
        );
        assert!(again.is_null());
    }
    assert_eq!(dbx_version(), 2);
}
