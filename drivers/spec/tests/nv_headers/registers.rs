//! Registers and their fields.

use std::collections::BTreeMap;
use std::path::Path;

use drivers_spec::nv::mmio::{self, falcon, fsp};
use hcq::reg::At;

use super::c::read;
use super::trees;

/// The folders of `published` that have them.
const FOLDERS: [&str; 6] = [
    "hopper/gh100",
    "turing/tu102",
    "ampere/ga100",
    "ampere/ga102",
    "disp/v04_00",
    "",
];

/// What the headers name otherwise: ours, theirs, and the start of the names of its fields.
const OTHERWISE: [(&str, &str, &str); 5] = [
    ("NV_PBUS_VBIOS_SCRATCH_0E", "NV_PBUS_VBIOS_SCRATCH", ""),
    ("NV_PBUS_VBIOS_SCRATCH_15", "NV_PBUS_VBIOS_SCRATCH", ""),
    (
        "NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0",
        "NV_PGC6_AON_SECURE_SCRATCH_GROUP_05",
        "NV_PGC6_AON_SECURE_SCRATCH_GROUP_05_0",
    ),
    (
        "NV_PFALCON_FALCON_ENGINE",
        "NV_PGSP_FALCON_ENGINE",
        "NV_PGSP_FALCON_ENGINE",
    ),
    (
        "NV_PFALCON_FALCON_HWCFG2",
        "NV_PFALCON_FALCON_HWCFG2",
        "NV_PFALCON_FALCON_HWCFG2",
    ),
];

/// Fields that later releases have made wider, and what the older ones say.
const NARROWER: [(&str, &str); 1] = [("NV_PMC_BOOT_42_ARCHITECTURE", "28:24")];

/// Which member of a row, or from where on, ours is: bytes that are added to what the header says.
fn offset(name: &str) -> i64 {
    match name {
        "NV_PBUS_VBIOS_SCRATCH_0E" => 4 * 0x0e,
        "NV_PBUS_VBIOS_SCRATCH_15" => 4 * 0x15,
        "NV_PFALCON_FALCON_ENGINE" => -i64::from(falcon::GSP.base),
        _ => 0,
    }
}

/// What the headers of a tree define, by name without `(i)`: the first word behind it.
fn defined(tree: &Path) -> BTreeMap<String, String> {
    let published = tree.join("src/common/inc/swref/published");
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(published.join(folder))
            .into_iter()
            .flatten();
        let paths = entries.map(|entry| entry.unwrap().path());
        for path in paths.filter(|path| path.extension().is_some_and(|end| end == "h")) {
            for line in read(&path).lines() {
                let mut words = line.split_whitespace();
                if words.next() != Some("#define") {
                    continue;
                }
                if let (Some(name), Some(value)) = (words.next(), words.next()) {
                    let name = name.trim_end_matches("(i)").to_owned();
                    found.insert(name, value.to_owned());
                }
            }
        }
    }
    found
}

/// A number as headers have it: `0x00118234`, or the start of `(0x00118234+(i)*4)`.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_start_matches('(');
    let digits = text.strip_prefix("0x")?;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit());
    i64::from_str_radix(&digits[..end.unwrap_or(digits.len())], 16).ok()
}

#[test]
fn registers_are_where_the_headers_have_them() {
    for (version, tree) in trees("kernel-") {
        let theirs = defined(&tree);
        if !theirs.contains_key("NV_PFALCON_FALCON_DMATRFCMD") {
            eprintln!("{version}: no registers here");
            continue;
        }
        let tables = [
            mmio::ALL,
            falcon::ALL,
            falcon::FBIF,
            falcon::SECOND,
            fsp::ALL,
        ];
        let (mut registers, mut fields) = (0, 0);
        let (mut missing, mut differ) = (Vec::new(), Vec::new());
        for register in tables.into_iter().flatten() {
            let ours = register.word.name;
            let row = OTHERWISE.iter().find(|row| row.0 == ours);
            let (name, of_fields) = row.map_or((ours, ours), |row| (row.1, row.2));
            let At::Fixed(dword) = register.at else {
                panic!("{ours} has one address");
            };
            match theirs.get(name).and_then(|value| number(value)) {
                Some(at) => {
                    assert_eq!(i64::from(dword) * 4, at + offset(ours), "{version}: {ours}");
                    registers += 1;
                }
                None => missing.push(ours),
            }
            for field in register.word.fields {
                let Some(bits) = theirs.get(&format!("{of_fields}_{}", field.name)) else {
                    continue;
                };
                let found = format!("{}:{}", field.high, field.low);
                let older = NARROWER.contains(&(&format!("{ours}_{}", field.name), bits));
                if *bits != found && !older {
                    differ.push(format!("{ours}.{}: {found}, there {bits}", field.name));
                }
                fields += 1;
            }
        }
        eprintln!(
            "{version}: {registers} registers and {fields} fields are equal; not there: {missing:?}"
        );
        assert!(differ.is_empty(), "{version}: {differ:#?}");
        assert!(
            registers > 35 && fields > 40,
            "{version}: {registers}, {fields}"
        );
        assert!(missing.len() < 4, "{version}: {missing:?}");
    }
}
