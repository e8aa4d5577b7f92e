//! Objects of a real compiler, whole and damaged.
use crate::cc;

use std::sync::Arc;
use std::time::Duration;

use drivers_cpu::loader::{LoadError, elf, load};
use drivers_cpu::{Config, CpuDevice};
use hcq::{AllocSpec, Command, Deadline, QueueKind, Stream, Val};

/// Uses every kind of section and relocation that compilers make of plain code.
const EVERYTHING: &str = r#"
typedef unsigned long u64;
static const u64 table[8] = {2, 3, 5, 7, 11, 13, 17, 19};
static u64 counter = 1000;
static u64 zeroed[4096];
u64 shared = 5;
typedef unsigned words __attribute__((vector_size(16)));
static volatile unsigned char narrow = 6;
static volatile unsigned short half = 7;
static volatile unsigned word = 8;
static volatile words wide = {9, 10};
static u64 twice(u64 x) { return 2 * x; }
static u64 square(u64 x) { return x * x; }
u64 (*const operations[2])(u64) = {twice, square};
static const char *const names[2] = {"even", "odd"};
void *memcpy(void *, const void *, u64);
void *memset(void *, int, u64);
struct block { u64 words[64]; };
__attribute__((noinline)) u64 call(u64 i, u64 x) { return operations[i & 1](x); }
void kernel(const u64 *args, u64 begin, u64 end) {
  u64 *out = (u64 *)args[0];
  for (u64 g = begin; g < end; g++) {
    struct block local;
    memset(&local, (int)g, sizeof local);
    zeroed[g & 4095] = local.words[63];
    memcpy(&local, table, sizeof table);
    u64 sum = names[g & 1][0];
    switch (g % 5) {
    case 0: sum += 1; break;
    case 1: sum += 20; break;
    case 2: sum += local.words[3]; break;
    case 3: sum += call(g, g); break;
    default: sum += zeroed[g & 4095];
    }
    out[g] = sum + table[g % 8] + counter + shared + narrow + half + word + wide[0];
  }
}
"#;

/// What the kernel above writes for group `g`.
fn expected(g: u64) -> u64 {
    let table = [2, 3, 5, 7, 11, 13, 17, 19];
    let name = [b'e', b'o'][g as usize % 2] as u64;
    let part = match g % 5 {
        0 => 1,
        1 => 20,
        2 => 7,
        3 if g.is_multiple_of(2) => 2 * g,
        3 => g * g,
        _ => u64::from_ne_bytes([g as u8; 8]),
    };
    name + part + table[g as usize % 8] + 1000 + 5 + 6 + 7 + 8 + 9
}

#[test]
fn code_with_data_tables_and_calls_runs() {
    for flags in [
        &["-O0", "-fPIC"][..],
        &["-O1", "-fPIC"],
        &["-O2", "-fPIE"],
        &["-O2", "-fPIC", "-fno-plt"],
        &[
            "-O2",
            "-fPIC",
            "-ffunction-sections",
            "-fdata-sections",
            "-g",
        ],
    ] {
        let device = CpuDevice::open(Config {
            cores: 2,
            ..Config::default()
        })
        .unwrap();
        let mut image = cc::image("void kernel(void) {}", 1);
        image.bytes = cc::compile(flags, EVERYTHING).into();
        let program = device.load(&image).unwrap();
        let out = device.alloc(AllocSpec::device(8 * 100)).unwrap();
        let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let command = Command::Exec {
            program: &program,
            args: &[Val::Const(out.va().0)],
            grid: [100, 1, 1],
            block: [1, 1, 1],
        };
        let done = stream.submit(&[], &[command]).unwrap();
        done.wait(Deadline::after(Duration::from_secs(60))).unwrap();
        for g in 0..100 {
            let mut word = [0; 8];
            out.read(g * 8, &mut word).unwrap();
            assert_eq!(
                u64::from_le_bytes(word),
                expected(g),
                "group {g} of {flags:?}"
            );
        }
    }
}

#[test]
fn objects_of_the_other_machine_link_as_well() {
    let (target, refused) = match cfg!(target_arch = "x86_64") {
        true => (
            "--target=aarch64-linux-gnu",
            "e_machine is 183, expected 62 (x86-64): compile for this machine",
        ),
        false => (
            "--target=x86_64-linux-gnu",
            "e_machine is 62, expected 183 (AArch64): compile for this machine",
        ),
    };
    let flags = ["-O2", "-fPIC", target];
    let Some(object) = cc::compile_with("clang-22", &flags, EVERYTHING) else {
        eprintln!("clang-22 is not installed: objects for the other machine are not tried");
        return;
    };
    assert!(elf(&object));
    let error = load(&Arc::default(), &object, "kernel").unwrap_err();
    assert_eq!(error.to_string(), refused);
}

#[test]
fn what_cannot_be_loaded_is_refused_by_name() {
    let text = |flags: &[&str], source: &str| {
        let object = cc::compile(flags, source);
        load(&Arc::default(), &object, "kernel")
            .unwrap_err()
            .to_string()
    };
    let pic = &["-O1", "-fPIC"][..];
    let undefined = "double sin(double); double d; void kernel(void) { d = sin(d); }";
    let error = text(pic, undefined);
    assert!(error.starts_with("symbol sin is undefined"), "{error}");
    let error = text(pic, "void other(void) {} int kernel_data;");
    assert!(
        error.contains("not defined; the object defines [other"),
        "{error}"
    );
    let error = text(pic, "int kernel = 3;");
    assert!(
        error.contains("expected a function in a section of code"),
        "{error}"
    );
    let tls = "__thread int t; void kernel(int *p) { t = *p; }";
    let error = text(pic, tls);
    assert!(error.contains("thread-local"), "{error}");
    let constructor = "volatile int y; __attribute__((constructor)) static void c(void) { y = 1; } void kernel(void) {}";
    let error = text(pic, constructor);
    assert!(error.contains("constructors are not run"), "{error}");
    let error = text(
        pic,
        "char big[100 << 20]; void kernel(void) { big[5] = 1; }",
    );
    assert!(error.contains("expected at most 67108864"), "{error}");
    if cfg!(target_arch = "x86_64") {
        let absolute = "int x[9]; int *kernel(long i) { return x + i; }";
        let error = text(&["-O1", "-fno-pic", "-mcmodel=small"], absolute);
        assert!(error.contains("compile with -fPIC"), "{error}");
    }
    assert!(matches!(
        load(&Arc::default(), b"", "kernel"),
        Err(LoadError::Malformed(_))
    ));
    assert!(matches!(
        load(&Arc::default(), b"\x7fELF", "kernel"),
        Err(LoadError::Malformed(_))
    ));
    // A linked program is not an object.
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(
        load(&Arc::default(), &program, "kernel"),
        Err(LoadError::Kind { .. })
    ));
}

/// Marsaglia's xorshift.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn damaged_objects_are_errors_and_never_panics() {
    let object = cc::compile(&["-O2", "-fPIC"], EVERYTHING);
    assert!(elf(&object), "the whole object is accepted");
    for len in 0..object.len() {
        elf(&object[..len]);
    }
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut damaged = object.clone();
        for _ in 0..next(&mut state) % 4 + 1 {
            let at = next(&mut state) as usize % damaged.len();
            match next(&mut state) % 4 {
                0 => damaged[at] ^= 1 << (next(&mut state) % 8),
                1 => damaged[at] = next(&mut state) as u8,
                2 => damaged[at] = 0xff,
                _ => {
                    let end = damaged.len().min(at + 8);
                    let word = next(&mut state).to_le_bytes();
                    damaged[at..end].copy_from_slice(&word[..end - at]);
                }
            }
        }
        match elf(&damaged) {
            true => accepted += 1,
            false => refused += 1,
        }
    }
    // Damage of code and names is not for the loader to see; damage of structure is.
    assert!(
        accepted > 0 && refused > 100,
        "{accepted} accepted, {refused} refused"
    );
}

/// Mappings of this process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

#[test]
fn many_kernels_are_few_mappings() {
    let device = CpuDevice::open(Config {
        cores: 2,
        ..Config::default()
    })
    .unwrap();
    let source = "void kernel(const unsigned long *args, unsigned long begin, unsigned long end) {
        for (unsigned long g = begin; g < end; g++) ((unsigned long *)args[0])[g] = 3 * g;
    }";
    let image = cc::image(source, 1);
    let before = mappings();
    let programs: Vec<_> = (0..3000).map(|_| device.load(&image).unwrap()).collect();
    let grown = mappings().saturating_sub(before);
    assert!(grown < 60, "3,000 kernels are {grown} mappings more");
    let out = device.alloc(AllocSpec::device(8 * 100)).unwrap();
    let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let runs = |program: &std::sync::Arc<hcq::Program>| {
        let command = Command::Exec {
            program,
            args: &[Val::Const(out.va().0)],
            grid: [100, 1, 1],
            block: [1, 1, 1],
        };
        let done = stream.submit(&[], &[command]).unwrap();
        done.wait(Deadline::after(Duration::from_secs(60))).unwrap();
        let mut word = [0; 8];
        out.read(99 * 8, &mut word).unwrap();
        out.write(0, &[0; 800]).unwrap();
        u64::from_le_bytes(word)
    };
    assert!(programs.iter().step_by(500).all(|p| runs(p) == 297));
    // Freed code makes room for other code.
    let places: Vec<u64> = programs.iter().map(|p| p.entry.0).collect();
    drop(programs);
    let again: Vec<_> = (0..3000).map(|_| device.load(&image).unwrap()).collect();
    let reused = again.iter().filter(|p| places.contains(&p.entry.0)).count();
    assert!(reused >= 1000, "{reused} of 3,000 places are used again");
    assert!(again.iter().step_by(500).all(|p| runs(p) == 297));
    assert!(mappings().saturating_sub(before) < 60);
}
