//! A file that says more than a bundle can is refused before memory is filled with it.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use drivers_bundle::{Bundle, ReadError};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Counts the bytes that are held, and the most of them.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: hands everything on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What reading a file ends with, and the most memory that it took.
fn read(path: &Path) -> (Result<Bundle, ReadError>, usize) {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let read = Bundle::read(path);
    (read, MOST.load(Ordering::Relaxed) - before)
}

/// A bundle of so many times the same, packed as well as can be.
fn packed(path: &Path, field: &str, element: &str, times: usize) {
    let mut to = GzEncoder::new(File::create(path).unwrap(), Compression::best());
    write!(to, r#"{{"schema":"doorbell.bundle/1",{field}"#).unwrap();
    let many = format!("{element},").repeat(1 << 12);
    for _ in 0..times >> 12 {
        to.write_all(many.as_bytes()).unwrap();
    }
    let ends = field.chars().rev().filter_map(|open| match open {
        '[' => Some(']'),
        '{' => Some('}'),
        _ => None,
    });
    write!(to, "{element}{}}}", ends.collect::<String>()).unwrap();
    to.finish().unwrap();
}

// One test: another one beside it would be counted as well.
#[test]
fn files_that_say_much_take_little() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.json.gz");
    for (field, element, times, limit) in [
        // 60 KB, which were 4.5 GB.
        (r#""queues":["#, "{}", 20 << 20, "bytes uncompressed"),
        (r#""queues":["#, "{}", 10 << 20, "objects"),
        (r#""evidence":{"missing":["#, r#""""#, 10 << 20, "values"),
        (r#""evidence":{"shader_waves":["#, "{}", 1 << 20, "objects"),
        (
            r#""undone":["#,
            r#"{"who":"","at":"","kept":"work","what":""}"#,
            1 << 16,
            "objects",
        ),
        (r#""later":["#, "[[]]", 1 << 20, "values"),
    ] {
        packed(&path, field, element, times);
        assert!(path.metadata().unwrap().len() < 200_000);
        let (read, most) = read(&path);
        let error = read.unwrap_err().to_string();
        println!("{field} {element}: {} MiB: {error}", most >> 20);
        assert!(most < 80 << 20, "{field} {element}: {most} bytes");
        let named = error.contains("bomb.json.gz: expected at most ") && error.contains(limit);
        assert!(named && error.contains(", found "), "{error}");
    }
    // As much as may be.
    packed(&path, r#""queues":["#, "{}", 12 << 12);
    let (most_of, most) = read(&path);
    most_of.unwrap();
    println!("as many objects as may be: {} MiB", most >> 20);
    assert!(most < 100 << 20, "{most} bytes");

    // One that lies about its size.
    packed(&path, r#""queues":["#, "{}", 20 << 20);
    let mut bytes = std::fs::read(&path).unwrap();
    let size = bytes.len() - 4;
    bytes[size..].fill(1);
    bytes[size + 3] = 0;
    std::fs::write(&path, &bytes).unwrap();
    let (lies, most) = read(&path);
    let error = lies.unwrap_err().to_string();
    assert!(
        error.contains("found more than its declared size of 65793"),
        "{error}"
    );
    assert!(most < 80 << 20, "{most} bytes");

    // A file of holes, which is no file of bytes.
    let path = folder.path().join("holes");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let (holes, most) = read(&path);
    let error = holes.unwrap_err().to_string();
    assert!(
        error.contains("holes: expected at most 33554432 bytes, found 1099511627776"),
        "{error}"
    );
    assert!(most < 1 << 20, "{most} bytes");
}
