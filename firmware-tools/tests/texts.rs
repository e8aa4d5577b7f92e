//! What `fwtool` prints, and what it ends with.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// A file: the version of its header, the words behind the common header, and its code.
fn file(major: u16, words: &[u32], code: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [256 + code.len() as u32, 32 + 4 * words.len() as u32] {
        bytes.extend(word.to_le_bytes());
    }
    for half in [major, 0, 11, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [0x35, code.len() as u32, 256, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(256, 0);
    bytes.extend(code);
    let sum = crc32fast::hash(&bytes[32..]);
    bytes[28..32].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Runs it in a folder: exit code, stdout, stderr.
fn fwtool(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_fwtool"))
        .args(args)
        .current_dir(folder)
        .env_remove("HCQDEV_FIRMWARE")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        ran.status.code().unwrap(),
        text(ran.stdout),
        text(ran.stderr),
    )
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mec = file(2, &[29, 16, 256, 8, 272, 0x3000, 7], &[1; 24]);
    fs::write(folder.path().join("gc_11_0_0_mec.bin"), mec).unwrap();
    fs::write(folder.path().join("vcn_4_0_0.bin"), file(1, &[], &[2; 8])).unwrap();
    fs::write(folder.path().join("gc_11_0_0_imu.bin"), "short").unwrap();
    folder
}

#[test]
fn dump_shows_the_parts() {
    let folder = folder();
    let (code, out, err) = fwtool(
        folder.path(),
        &["dump", "gc_11_0_0_mec.bin", "vcn_4_0_0.bin"],
    );
    let out: Vec<&str> = out
        .lines()
        .filter(|line| !line.starts_with("  sha256 "))
        .collect();
    assert_eq!(
        out,
        [
            "gc_11_0_0_mec.bin",
            "  cp mec: header 2.0, IP 11.0, version 0x00000035, 280 bytes, crc32 over everything after \
             the common header",
            "  starts at 0x700003000",
            "  RS64_MEC                         16 bytes at      256, type 89, version 0x00000035, \
             features 29",
            "  RS64_MEC_P0_STACK                 8 bytes at      272, type 94 95 96 97, version \
             0x00000035, features 29",
            "vcn_4_0_0.bin",
            "  vcn, not used for compute: header 1.0, IP 11.0, version 0x00000035, 264 bytes, \
             crc32 over everything after \
             the common header",
        ]
    );
    assert_eq!((code, err.as_str()), (0, ""));
    let (_, out, _) = fwtool(folder.path(), &["dump", "--json", "gc_11_0_0_mec.bin"]);
    assert!(out.contains("\"schema\": \"doorbell.fw-dump/1\""), "{out}");
    assert!(out.contains("\"name\": \"RS64_MEC_P0_STACK\""), "{out}");
}

#[test]
fn verify_says_what_is_wrong() {
    let folder = folder();
    let (code, out, _) = fwtool(folder.path(), &["verify", "."]);
    assert_eq!(
        out,
        "BAD ./gc_11_0_0_imu.bin: the common header needs 32 bytes at offset 0, the file has 5. \
         The file is truncated or its header is damaged; install it again\n\
         ok  ./gc_11_0_0_mec.bin: cp mec, 2 parts\n\
         ok  ./vcn_4_0_0.bin: vcn, not used for compute\n"
    );
    assert_eq!(code, 1);

    let sum = firmware_tools::manifest::sha256(&[1, 2]);
    fs::write(
        folder.path().join("list"),
        format!("{sum}  vcn_4_0_0.bin\n{sum}  no.bin\n"),
    )
    .unwrap();
    let (code, out, _) = fwtool(folder.path(), &["verify", "--manifest", "list", "."]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("BAD vcn_4_0_0.bin: sha256 is "),
        "{out}"
    );
    assert!(lines[0].ends_with(&format!(", expected {sum}")), "{out}");
    assert_eq!(lines[1], "BAD no.bin: missing");
    assert_eq!(code, 1);
}

#[test]
fn list_says_what_to_install() {
    let folder = folder();
    let (code, out, _) = fwtool(folder.path(), &["list", "--chip", "gfx1100", "--from", "."]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "gfx1100 (Radeon RX 7900; Navi 31)");
    let mec = lines.iter().find(|line| line.contains("mec.bin")).unwrap();
    assert!(
        mec.starts_with("  gc_11_0_0_mec.bin        0x00000035 unknown release; tested: 0x"),
        "{mec}"
    );
    assert!(mec.ends_with(", ./gc_11_0_0_mec.bin"), "{mec}");
    let imu = lines.iter().find(|line| line.contains("imu.bin")).unwrap();
    assert!(imu.contains("the common header needs 32 bytes"), "{imu}");
    assert!(
        lines.last().unwrap().starts_with(
            "Install missing files from your distribution. Debian: apt install firmware-amd-graphics"
        ),
        "{out}"
    );
    assert_eq!(code, 1);
    let (code, _, err) = fwtool(folder.path(), &["list", "--chip", "gfx1"]);
    assert_eq!(
        err,
        "error: --chip: unknown chip \"gfx1\", expected one of gfx942, gfx1100, gfx1101, gfx1102, gfx1200, \
         gfx1201\n"
    );
    assert_eq!(code, 2);
}

#[test]
fn extract_writes_each_part_once() {
    let folder = folder();
    let args = ["extract", "gc_11_0_0_mec.bin", "--to", "out"];
    let (code, out, err) = fwtool(folder.path(), &args);
    assert_eq!(
        out,
        "out/gc_11_0_0_mec.RS64_MEC.bin: 16 bytes\n\
         out/gc_11_0_0_mec.RS64_MEC_P0_STACK.bin: 8 bytes\n"
    );
    assert_eq!((code, err.as_str()), (0, ""));
    let stack = fs::read(
        folder
            .path()
            .join("out/gc_11_0_0_mec.RS64_MEC_P0_STACK.bin"),
    )
    .unwrap();
    assert_eq!(stack, [1; 8]);
    // Nothing is overwritten.
    let (code, _, err) = fwtool(folder.path(), &args);
    assert!(
        err.contains("gc_11_0_0_mec.RS64_MEC.bin: File exists"),
        "{err}"
    );
    assert_eq!(code, 1);
    let (code, _, err) = fwtool(folder.path(), &["extract", "vcn_4_0_0.bin", "--to", "out"]);
    assert!(err.contains("no part in the files"), "{err}");
    assert_eq!(code, 2);
}
