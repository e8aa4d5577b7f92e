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
fn verify_says_what_a_file_of_another_chip_is() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::copy(at("gc_11_0_0_mec.bin"), at("gc_12_0_1_mec.bin")).unwrap();
    let (code, out, _) = fwtool(folder.path(), &["verify", "gc_12_0_1_mec.bin"]);
    let said = "BAD gc_12_0_1_mec.bin: this is firmware for GC 11, as its header says, expected firmware for GC 12. \
                Install the file again (Debian: apt install firmware-amd-graphics";
    assert!(out.starts_with(said), "{out}");
    assert_eq!(code, 1);
    let args = ["verify", "--chip", "gfx1201", "--from", "."];
    let (code, out, _) = fwtool(folder.path(), &args);
    assert!(
        out.contains("BAD gc_12_0_1_mec.bin: gc_12_0_1_mec.bin: this is firmware for GC 11"),
        "{out}"
    );
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
         gfx1201, ga102, ga103, ga104, ga106, ga107, ad102, ad103, ad104, ad106, ad107, gh100, gb100, gb202, gb203, \
         gb205, gb206, gb207\n"
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

/// A folder with the ROM of a card, and with a boot loader that ends early.
fn nvidia() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rom = vbios::Card::GA102.rom();
    fs::write(folder.path().join("card.rom"), &rom.bytes).unwrap();
    let gsp = folder.path().join("nvidia/ga102/gsp");
    fs::create_dir_all(&gsp).unwrap();
    fs::write(gsp.join("bootloader-570.144.bin"), [0xde, 0x10, 0, 0]).unwrap();
    folder
}

#[test]
fn dump_shows_a_vbios() {
    let folder = nvidia();
    let (code, out, err) = fwtool(folder.path(), &["dump", "card.rom"]);
    let out: Vec<&str> = out
        .lines()
        .filter(|line| !line.starts_with("  sha256 "))
        .collect();
    assert_eq!(
        out,
        [
            "card.rom",
            "  vbios: 28672 bytes",
            "  card: 10de:2204",
            "  dcb: version 0x41, 2 outputs",
            "  fwsec: descriptor 3, 2 signatures",
            "  microcode: 0x85",
            "  tokens: 42 69 70",
            "  vbios: 94.02.42.40.5b",
            "  image_pc                      16384 bytes at     2048",
            "  image_efi                      4096 bytes at    18432",
            "  image_extended                 2048 bytes at    22528",
            "  image_extended                 4096 bytes at    24576",
            "  fwsec                          2560 bytes at    25644",
        ]
    );
    assert_eq!((code, err.as_str()), (0, ""));
    let (_, out, _) = fwtool(folder.path(), &["dump", "--json", "card.rom"]);
    assert!(out.contains("\"schema\": \"doorbell.fw-dump/1\""), "{out}");
    assert!(out.contains("\"vbios\": \"94.02.42.40.5b\""), "{out}");
}

#[test]
fn verify_and_extract_know_both_vendors() {
    let folder = nvidia();
    let (code, out, _) = fwtool(folder.path(), &["verify", "."]);
    assert_eq!(
        out,
        "ok  ./card.rom: vbios, 5 parts\n\
         BAD ./nvidia/ga102/gsp/bootloader-570.144.bin: nvfw_bin_hdr needs 24 bytes at offset 0, the file has 4. The \
         file is truncated or its header is damaged; install it again\n"
    );
    assert_eq!(code, 1);
    let args = ["extract", "card.rom", "--to", "out", "--part", "fwsec"];
    let (code, out, err) = fwtool(folder.path(), &args);
    assert_eq!(out, "out/card.rom.fwsec.bin: 2560 bytes\n", "{err}");
    assert_eq!(code, 0);
    let rom = vbios::Card::GA102.rom();
    let fwsec = fs::read(folder.path().join("out/card.rom.fwsec.bin")).unwrap();
    assert_eq!(fwsec, rom.bytes[rom.start + rom.ucode..][..2560]);
}

#[test]
fn list_names_the_package_of_nvidia() {
    let folder = nvidia();
    let (code, out, _) = fwtool(folder.path(), &["list", "--chip", "ga104", "--from", "."]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "ga104 (GeForce RTX 3060 Ti and 3070, A4000; 570.144)"
    );
    assert!(lines[1].starts_with("  ga102/gsp/gsp-570.144.bin"), "{out}");
    assert!(lines[2].contains("nvfw_bin_hdr needs 24 bytes"), "{out}");
    assert_eq!(
        lines[5],
        "ga104 (GeForce RTX 3060 Ti and 3070, A4000; 535.113.01)"
    );
    assert!(
        lines.last().unwrap().starts_with(
            "Install missing files from your distribution. Debian: apt install firmware-nvidia-graphics"
        ),
        "{out}"
    );
    assert_eq!(code, 1);
}
