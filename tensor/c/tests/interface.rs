//! The header says what the library has, and programs in C, C++ and Python can use it.
#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use doorbell::DType;
use doorbell::onnx::Dim;
use doorbell::onnx::write::{self, Writer};
use doorbell_c::*;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the library, which is built beside this test.
fn built() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    assert!(folder.join("libdoorbell_c.so").is_file(), "{folder:?}");
    folder.to_path_buf()
}

/// What a command prints.
fn output(command: &mut Command) -> String {
    let found = command.output().unwrap();
    let errors = String::from_utf8_lossy(&found.stderr);
    assert!(found.status.success(), "{command:?}: {errors}");
    String::from_utf8(found.stdout).unwrap()
}

/// Compiles an example with the library.
fn compiled(compiler: &str, standard: &str, example: &str, work: &Path) -> PathBuf {
    let program = work.join("program");
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(folder().join("include"));
    command.arg(folder().join("examples").join(example));
    command.arg("-o").arg(&program).arg("-L").arg(built());
    command.args(["-ldoorbell_c", "-ldl", "-Wl,--allow-shlib-undefined"]);
    output(&mut command);
    program
}

/// The command that finds the library.
fn run(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    let mut paths = vec![built()];
    let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    paths.extend(std::env::split_paths(&before));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(paths).unwrap());
    command
}

fn model() -> Vec<u8> {
    let floats = write::tensor(DType::F32, &[Dim::Named("n".into())]);
    let mut writer = Writer::new("example", 17);
    writer.input("x", &floats);
    writer.node("Relu", &["x"], &["y"], []);
    writer.output("y", &floats);
    writer.finish()
}

#[test]
fn the_header_has_every_function_and_is_c() {
    let header = std::fs::read_to_string(folder().join("include/doorbell.h")).unwrap();
    let source = include_str!("../src/lib.rs");
    let own: BTreeSet<&str> = source
        .split("extern \"C\" fn ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .filter(|name| name.starts_with("doorbell_"))
        .collect();
    let said: BTreeSet<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']) && line.contains('('))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .collect();
    assert_eq!(own, said);
    assert!(own.len() <= 30, "{}", own.len());
    let (blob, shape) = (size_of::<Blob>(), size_of::<Described>());
    let release = std::mem::offset_of!(Blob, release);
    let check = format!(
        "#include \"doorbell.h\"\n#include <stddef.h>\n\
         _Static_assert(sizeof(doorbell_blob) == {blob}, \"blob\");\n\
         _Static_assert(offsetof(doorbell_blob, release) == {release}, \"release\");\n\
         _Static_assert(sizeof(doorbell_shape) == {shape}, \"shape\");\n"
    );
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("check.c");
    std::fs::write(&file, check).unwrap();
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
    command.arg("-I").arg(folder().join("include")).arg(file);
    output(&mut command);
}

#[test]
fn the_examples_run() {
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("model.onnx");
    std::fs::write(&file, model()).unwrap();
    let program = compiled("cc", "-std=c11", "model.c", work.path());
    assert_eq!(
        output(run(&program).arg(&file)),
        "1 input x\n0 2 0 4\n1 2 0 4\n2 2 0 4\nno output z that is a tensor; the model has y\nreleased 1\n"
    );
    let program = compiled("c++", "-std=c++17", "tensors.cpp", work.path());
    assert_eq!(
        output(&mut run(&program)),
        "4 5 6\nthe same memory\n1 axis of 3, 12 bytes\n1\n"
    );
    let program = compiled("cc", "-std=gnu11", "load.c", work.path());
    let library = built().join("libdoorbell_c.so");
    let said = output(run(&program).arg(&library));
    let (name, error) = said.trim_end().split_once('\n').unwrap();
    assert_eq!(name, "CPU");
    assert!(error.ends_with("did you mean CPU?"), "{error}");
    let mut python = run("python3");
    python.arg(folder().join("examples/model.py"));
    assert_eq!(
        output(python.arg(library).arg(&file)),
        "0.0 2.0 0.0 4.0\nreleased 1\n"
    );
}

fn error() -> String {
    // SAFETY: a string of this thread that no call replaces meanwhile.
    let text = unsafe { CStr::from_ptr(doorbell_error()) };
    text.to_str().unwrap().to_owned()
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "{}", error());
}

static RELEASED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn released(_: *mut c_void) {
    RELEASED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn what_is_wrong_is_told_and_memory_is_released_all_the_same() {
    let cpu = CString::new("CPU").unwrap();
    let (mut engine, mut tensor) = (null_mut(), null_mut());
    let values = [1.0f32, 2.0, 3.0, 4.0];
    let shape = [2i64, 2];
    let blob = || Blob {
        data: values.as_ptr().cast_mut().cast(),
        bytes: size_of_val(&values),
        shape: shape.as_ptr(),
        strides: null(),
        rank: 2,
        kind: 1,
        offset: 0,
        read_only: 1,
        release: Some(released),
        context: null_mut(),
    };
    // SAFETY: pointers of the library, and memory that lives through the test and is only read.
    unsafe {
        ok(doorbell_open(cpu.as_ptr(), &mut engine));
        assert_eq!(doorbell_open(cpu.as_ptr(), null_mut()), -1);
        let negative = [-2i64, 2];
        let wrong: [(Blob, &str); 6] = [
            (Blob { kind: 8, ..blob() }, "element type 8"),
            (
                Blob {
                    bytes: 15,
                    ..blob()
                },
                "needs the bytes 0 to 16",
            ),
            (
                Blob {
                    data: null_mut(),
                    ..blob()
                },
                "a null pointer",
            ),
            (
                Blob {
                    shape: null(),
                    ..blob()
                },
                "sizes of axes",
            ),
            (
                Blob {
                    shape: negative.as_ptr(),
                    ..blob()
                },
                "negative sizes",
            ),
            (
                Blob {
                    offset: 2,
                    bytes: 16,
                    ..blob()
                },
                "needs the bytes 2 to 18",
            ),
        ];
        for (n, (blob, says)) in wrong.iter().enumerate() {
            assert_eq!(doorbell_from_blob(engine, blob, &mut tensor), -1, "{says}");
            assert!(error().contains(says), "{}", error());
            assert_eq!(RELEASED.load(Ordering::SeqCst), n as u32 + 1, "{says}");
            assert!(tensor.is_null());
        }
        assert_eq!(doorbell_from_blob(null(), &blob(), &mut tensor), -1);
        assert_eq!(doorbell_from_blob(engine, null(), &mut tensor), -1);
        assert_eq!(RELEASED.load(Ordering::SeqCst), 7);

        let transposed = [1i64, 2];
        let columns = Blob {
            strides: transposed.as_ptr(),
            ..blob()
        };
        ok(doorbell_from_blob(engine, &columns, &mut tensor));
        let mut found = [0f32; 4];
        ok(doorbell_read(tensor, found.as_mut_ptr().cast(), 16));
        assert_eq!(found, [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(doorbell_read(tensor, found.as_mut_ptr().cast(), 15), -1);
        assert!(
            error().contains("expected room for 16 bytes"),
            "{}",
            error()
        );
        doorbell_free(tensor);
        ok(doorbell_synchronize(engine));
        assert_eq!(RELEASED.load(Ordering::SeqCst), 8);

        ok(doorbell_from_blob(engine, &blob(), &mut tensor));
        assert_eq!(doorbell_overwrite(tensor, tensor), -1);
        assert!(error().contains("read-only memory"), "{}", error());
        let mut given = null_mut();
        assert_eq!(doorbell_to_dlpack_unversioned(tensor, 0, &mut given), -1);
        ok(doorbell_to_dlpack_unversioned(tensor, 1, &mut given));
        let mut copy = null_mut();
        ok(doorbell_from_dlpack_unversioned(engine, given, &mut copy));
        ok(doorbell_overwrite(copy, tensor));
        assert_eq!(doorbell_from_dlpack(engine, null_mut(), &mut copy), -1);
        doorbell_free(copy);
        doorbell_free(tensor);
        doorbell_free(null_mut());

        let bytes = model();
        let mut loaded = null_mut();
        let size = bytes.len();
        assert_eq!(
            doorbell_load_memory(engine, bytes.as_ptr().cast(), size / 2, &mut loaded),
            -3
        );
        ok(doorbell_load_memory(
            engine,
            bytes.as_ptr().cast(),
            size,
            &mut loaded,
        ));
        assert_eq!([0, 1].map(|kind| doorbell_count(loaded, kind)), [1, 1]);
        assert_eq!(doorbell_count(loaded, 2), -1);
        assert!(doorbell_port(loaded, 0, 1).is_null());
        let name = CString::new("w").unwrap();
        let names = [name.as_ptr()];
        let one = [1i64];
        let value = 1.0f32;
        let data = (&raw const value).cast();
        ok(doorbell_from_bytes(
            engine,
            1,
            one.as_ptr(),
            1,
            data,
            4,
            &mut tensor,
        ));
        let inputs = [tensor.cast_const()];
        let mut result = null_mut();
        let run = doorbell_run(
            loaded,
            names.as_ptr(),
            inputs.as_ptr(),
            1,
            null(),
            &mut result,
            0,
        );
        assert_eq!(run, -1, "{}", error());
        assert!(error().contains("no such input"), "{}", error());
        doorbell_free(tensor);
        doorbell_unload(loaded);
        doorbell_close(engine);
    }
    assert_eq!(doorbell_version(), 1);
}
