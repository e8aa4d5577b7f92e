use super::*;
use proptest::prelude::*;

/// A file with this header and this many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..data).map(|i| i as u8));
    bytes
}

fn fault(bytes: &[u8]) -> String {
    Header::parse("m.safetensors", bytes)
        .unwrap_err()
        .to_string()
}

const GOOD: &str = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[],"data_offsets":[24,26]},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}  "#;

#[test]
fn a_good_file_is_read() {
    let bytes = file(GOOD, 26);
    let file = File::from_bytes("m", bytes).unwrap();
    assert_eq!(file.tensors().len(), 2);
    assert_eq!(file.metadata()["format"], "pt");
    let a = file.entry("a").unwrap();
    assert_eq!((a.dtype, a.shape.as_slice()), (DType::F32, &[2, 3][..]));
    assert_eq!(file.data("a").unwrap(), (0..24).collect::<Vec<u8>>());
    assert_eq!(file.data("b").unwrap(), [24, 25]);
    assert_eq!(file.entry("b").unwrap().shape, [] as [usize; 0]);
}

#[test]
fn names_cover_all_types_once() {
    for dtype in DType::ALL {
        assert!(NAMES.contains(&(type_name(dtype), dtype)));
    }
    assert_eq!(NAMES.len(), DType::ALL.len());
}

#[test]
fn files_without_a_header() {
    assert_eq!(
        fault(b"1234567"),
        "m.safetensors: expected at least 8 bytes with the length of the header, found 7; the file is \
         empty or truncated: fetch it again"
    );
    assert_eq!(
        fault(&[0xff; 8]),
        "m.safetensors: expected a header of at most 100000000 bytes, found a length of \
         18446744073709551615; this is probably not a safetensors file"
    );
    assert_eq!(
        fault(&file(GOOD, 26)[..100]),
        "m.safetensors: expected a header of 144 bytes, found 92 bytes after its length; the file is \
         truncated: fetch it again"
    );
    assert_eq!(
        fault(b"\x04\0\0\0\0\0\0\0{\"\xff}"),
        "m.safetensors: expected a header in UTF-8, found an invalid byte at offset 10; this is \
         probably not a safetensors file"
    );
}

#[test]
fn headers_that_are_no_object() {
    let tail = "; this is probably not a safetensors file, or its writer is broken";
    for (header, found) in [
        ("", "nothing"),
        ("[]", "'[' at its start"),
        (" {}", "' ' at its start"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("{} x", "trailing characters at line 1 column 4"),
        (r#"{"a" 1}"#, "expected `:` at line 1 column 6"),
    ] {
        assert_eq!(
            fault(&file(header, 0)),
            format!(
                "m.safetensors: expected a header that is one JSON object, found: {found}{tail}"
            )
        );
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let deep = format!(
            "{{\"t\":{}1{}}}",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        let text = fault(&file(&deep, 0));
        assert!(
            text.contains("expected exactly dtype, shape and data_offsets"),
            "{text}"
        );
    }
}

#[test]
fn entries_that_are_malformed() {
    let entry = |found: &str| {
        format!(
            "m.safetensors: tensor \"w\": expected exactly dtype, shape and data_offsets, found: \
             {found}; the writer of the file is broken"
        )
    };
    for (value, expected) in [
        ("3", entry("a value that is not an object")),
        (
            r#"["F32",[1],[0,4]]"#,
            entry("a value that is not an object"),
        ),
        (
            r#"{"shape":[1],"data_offsets":[0,4]}"#,
            entry("missing field `dtype` at line 1 column 34"),
        ),
        (
            r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}"#,
            entry(
                "unknown field `x`, expected one of `dtype`, `shape`, `data_offsets` at line 1 column 51",
            ),
        ),
        (
            r#"{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}"#,
            entry("duplicate field `dtype` at line 1 column 22"),
        ),
        (
            r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}"#,
            entry("invalid value: integer `-1`, expected u64 at line 1 column 26"),
        ),
        (
            r#"{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}"#,
            entry("invalid type: floating point `1.0`, expected u64 at line 1 column 27"),
        ),
        (
            r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}"#,
            entry("trailing characters at line 1 column 48"),
        ),
        (
            r#"{"dtype":"F32","shape":[1],"data_offsets":[4]}"#,
            entry("invalid length 1, expected a tuple of size 2 at line 1 column 45"),
        ),
        (
            r#"{"dtype":"F33","shape":[1],"data_offsets":[0,4]}"#,
            "m.safetensors: tensor \"w\": expected dtype BOOL, U8, I8, F8_E5M2, F8_E4M3, I16, \
             U16, F16, BF16, I32, U32, F32, I64, U64, F64, found \"F33\"; convert the tensor to \
             one of these"
                .to_string(),
        ),
        (
            r#"{"dtype":"F32","shape":[2147483648,2147483648],"data_offsets":[0,4]}"#,
            "m.safetensors: tensor \"w\": expected a shape of at most 1152921504606846976 \
             elements, found [2147483648, 2147483648]; the header is damaged: fetch the file \
             again"
                .to_string(),
        ),
        (
            r#"{"dtype":"F32","shape":[1],"data_offsets":[4,0]}"#,
            "m.safetensors: tensor \"w\": expected ascending data_offsets, found 4 \
             to 0; the header is damaged: fetch the file again"
                .to_string(),
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#,
            "m.safetensors: tensor \"w\": expected 8 bytes for f32 [2], found 4 in its \
             data_offsets; shape, dtype or offsets are wrong: fetch the file again"
                .to_string(),
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
            "m.safetensors: tensor \"w\": expected data up to offset 8, found 4 bytes of data; \
             the file is truncated: fetch it again"
                .to_string(),
        ),
    ] {
        assert_eq!(
            fault(&file(&format!("{{\"w\":{value}}}"), 4)),
            expected,
            "{value}"
        );
    }
}

#[test]
fn tensors_that_do_not_tile_the_data() {
    let two = |a: [u64; 2], b: [u64; 2], data| {
        let entry = |r: [u64; 2]| {
            format!(
                r#"{{"dtype":"U8","shape":[{}],"data_offsets":{r:?}}}"#,
                r[1] - r[0]
            )
        };
        fault(&file(
            &format!("{{\"a\":{},\"b\":{}}}", entry(a), entry(b)),
            data,
        ))
    };
    assert_eq!(
        two([0, 4], [3, 6], 6),
        "m.safetensors: tensor \"b\": data begins at offset 3 and overlaps tensor \"a\", which ends at \
         4; the writer of the file is broken"
    );
    assert_eq!(
        two([0, 4], [6, 8], 8),
        "m.safetensors: tensor \"b\": data begins at offset 6, 2 bytes after the previous data ends at \
         4; the writer of the file is broken"
    );
    assert_eq!(
        two([1, 4], [4, 8], 8),
        "m.safetensors: tensor \"a\": data begins at offset 1, 1 bytes after the previous data ends at \
         0; the writer of the file is broken"
    );
    assert_eq!(
        two([0, 4], [4, 8], 9),
        "m.safetensors: expected the data to end at offset 8, found 1 more bytes; the file is damaged \
         or something was appended to it"
    );
}

#[test]
fn names_and_metadata_are_distinct() {
    let entry = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    assert_eq!(
        fault(&file(&format!("{{\"a\":{entry},\"a\":{entry}}}"), 0)),
        "m.safetensors: tensor \"a\": duplicate entry; rename one of \
         them and write the file again"
    );
    let metadata = |value: &str| fault(&file(&format!("{{\"__metadata__\":{value}}}"), 0));
    let text = |found: &str| {
        format!(
            "m.safetensors: __metadata__: expected an object of distinct strings, found: \
             {found}; store other values as text"
        )
    };
    assert_eq!(metadata(r#"{"k":"v","k":"w"}"#), text(r#"a second "k""#));
    assert_eq!(metadata("[]"), text("a value that is not an object"));
    assert_eq!(
        metadata(r#"{"k":1}"#),
        text("invalid type: integer `1`, expected a string at line 1 column 6")
    );
    let twice = file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0);
    assert!(fault(&twice).contains("\"__metadata__\": duplicate entry"));
}

#[test]
fn an_unknown_tensor_gets_a_suggestion() {
    let entry = r#"{"dtype":"U8","shape":[0],"data_offsets":[0,0]}"#;
    let header = format!("{{\"layer.0.weight\":{entry},\"layer.0.bias\":{entry}}}");
    let file = File::from_bytes("m", file(&header, 0)).unwrap();
    assert_eq!(
        file.data("layer.0.wieght").unwrap_err().to_string(),
        "m: no tensor \"layer.0.wieght\"; did you mean \
         \"layer.0.weight\"?"
    );
    assert_eq!(
        file.data("q").unwrap_err().to_string(),
        "m: no tensor \"q\"; the file has 2 tensors"
    );
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w");
    let none = BTreeMap::new();
    let t = |name, data| TensorRef {
        name,
        dtype: DType::F32,
        shape: &[1],
        data,
    };
    let fault = |tensors: &[TensorRef<'_>]| {
        write(&path, tensors.iter().copied(), &none)
            .unwrap_err()
            .to_string()
    };
    assert!(fault(&[t("a", &[0; 4]), t("a", &[0; 4])]).contains("duplicate entry"));
    assert!(fault(&[t("a", &[0; 5])]).contains("expected 4 bytes for f32 [1], found 5"));
    assert!(fault(&[t("__metadata__", &[0; 4])]).contains("is reserved"));
    assert!(!path.exists());
}

#[test]
fn all_types_survive_a_round_trip_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1"), folder.path().join("2"));
    let data: Vec<u8> = (0..48).collect();
    let tensors: Vec<TensorRef<'_>> = DType::ALL
        .iter()
        .map(|&dtype| TensorRef {
            name: dtype.name(),
            dtype,
            shape: &[2, 3],
            data: &data[..6 * dtype.size()],
        })
        .collect();
    let metadata = BTreeMap::from([("k\"\n".to_string(), "v\u{1F980}".to_string())]);
    write(&one, tensors.iter().copied(), &metadata).unwrap();
    write(&two, tensors.iter().rev().copied(), &metadata).unwrap();
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
    let file = File::open(&one).unwrap();
    assert_eq!(file.metadata(), &metadata);
    assert_eq!(file.tensors().len(), 15);
    for t in tensors {
        let entry = file.entry(t.name).unwrap();
        assert_eq!((entry.dtype, entry.shape.as_slice()), (t.dtype, t.shape));
        assert_eq!(entry.range.start % t.dtype.size(), 0);
        assert_eq!(file.data(t.name).unwrap(), t.data);
    }
}

#[test]
fn a_file_without_tensors_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("e");
    write(&path, [], &BTreeMap::new()).unwrap();
    assert!(File::open(&path).unwrap().tensors().is_empty());
}

/// Whatever was accepted must hold together.
fn check(bytes: &[u8]) {
    if let Ok(header) = Header::parse("f", bytes) {
        let start = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        let mut total = 0;
        for entry in header.tensors.values() {
            let n: usize = entry.shape.iter().product();
            assert_eq!(entry.range.len(), n * entry.dtype.size());
            assert!(entry.range.start >= start && entry.range.end <= bytes.len());
            total += entry.range.len();
        }
        assert_eq!(start + total, bytes.len());
    }
}

#[test]
fn every_single_byte_change_and_cut_is_handled() {
    let good = file(GOOD, 26);
    for cut in 0..good.len() {
        check(&good[..cut]);
        assert!(Header::parse("f", &good[..cut]).is_err());
    }
    let mut bytes = good.clone();
    for at in 0..good.len() {
        for value in 0..=255 {
            bytes[at] = value;
            check(&bytes);
        }
        bytes[at] = good[at];
    }
}

proptest! {
    #[test]
    fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn any_numbers_are_handled(shape in proptest::collection::vec(any::<u64>(), 0..4),
                               begin in any::<u64>(), end in any::<u64>()) {
        let header = format!(
            r#"{{"t":{{"dtype":"F64","shape":{shape:?},"data_offsets":[{begin},{end}]}}}}"#
        );
        check(&file(&header, 64));
    }

    #[test]
    fn splices_are_handled(at in 0usize..200, cut in 0usize..20,
                           text in r#"[\{\}\[\]":,0-9a-zU ]{0,12}"#) {
        let mut header = GOOD.as_bytes().to_vec();
        let at = at.min(header.len());
        let end = (at + cut).min(header.len());
        header.splice(at..end, text.bytes());
        check(&file(std::str::from_utf8(&header).unwrap(), 26));
    }
}
