use super::*;
use proptest::prelude::*;

/// A file of this version with this header and these elements.
fn file(major: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[major, 0]);
    match major {
        1 => bytes.extend_from_slice(&(header.len() as u16).to_le_bytes()),
        _ => bytes.extend_from_slice(&(header.len() as u32).to_le_bytes()),
    }
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn dict(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

fn fault(bytes: &[u8]) -> String {
    parse("a.npy", bytes).unwrap_err().to_string()
}

fn fault_of(header: &str) -> String {
    fault(&file(1, header, &[]))
}

#[test]
fn all_versions_are_read() {
    for major in [1, 2, 3] {
        let array = parse("a", &file(major, &dict("<u2", "False", "(3,)"), b"abcdef")).unwrap();
        let expected = Array {
            dtype: DType::U16,
            shape: vec![3],
            data: b"abcdef".to_vec(),
        };
        assert_eq!(array, expected);
    }
}

#[test]
fn spellings_of_a_header() {
    for header in [
        "{\"shape\":(2,),\"descr\":\"|u1\",\"fortran_order\":False}",
        " { 'fortran_order' : False , 'shape' : ( 2L , ) , 'descr' : 'u1' } \n\0\0",
        "{'descr':'=i1','fortran_order':True,'shape':(2, 1,)}",
    ] {
        assert_eq!(
            parse("a", &file(1, header, &[1, 2])).unwrap().data,
            [1, 2],
            "{header}"
        );
    }
    let scalar = parse("a", &file(1, &dict("<f4", "False", "()"), &[0; 4])).unwrap();
    assert_eq!((scalar.dtype, scalar.shape.len()), (DType::F32, 0));
}

#[test]
fn big_endian_elements_are_turned() {
    let array = parse("a", &file(1, &dict(">u4", "False", "(2,)"), b"abcdefgh")).unwrap();
    assert_eq!(array.data, b"dcbahgfe");
    let bytes = parse("a", &file(1, &dict(">u1", "False", "(2,)"), b"ab")).unwrap();
    assert_eq!(bytes.data, b"ab");
}

#[test]
fn fortran_order_is_turned() {
    // numpy.asfortranarray(numpy.arange(6, dtype='>u2').reshape(1, 2, 3)).tobytes('A')
    let data = [0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5];
    let array = parse("a", &file(1, &dict(">u2", "True", "(1, 2, 3)"), &data)).unwrap();
    assert_eq!(array.data, [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
    // Axis 0 fastest: element (i, j, k) of shape (2, 3, 2) stands at i + 2j + 6k.
    let data: Vec<u8> = (0..12).collect();
    let array = parse("a", &file(1, &dict("|u1", "True", "(2, 3, 2)"), &data)).unwrap();
    assert_eq!(array.data, [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11]);
    let empty = parse("a", &file(1, &dict("|u1", "True", "(2, 0, 2)"), &[])).unwrap();
    assert_eq!((empty.shape, empty.data.len()), (vec![2, 0, 2], 0));
}

#[test]
fn files_without_a_header() {
    let magic = |found: &str| {
        format!(
            "a.npy: expected the signature \\x93NUMPY, found {found}; this is not an npy file \
             (npz archives begin with PK)"
        )
    };
    assert_eq!(fault(b""), magic("an empty file"));
    assert_eq!(fault(b"PK\x03\x04......"), magic("\"PK\\x03\\x04..\""));
    assert_eq!(fault(b"\x93NUM"), magic("\"\\x93NUM\""));
    assert_eq!(
        fault(b"\x93NUMPY\x04\x01"),
        "a.npy: expected npy version 1.0, 2.0 or 3.0, found 4.1; save the array with numpy.save \
         again"
    );
    for (bytes, expected, found) in [
        (&b"\x93NUMPY\x01"[..], 8, 7),
        (b"\x93NUMPY\x01\0\0", 10, 9),
        (b"\x93NUMPY\x03\0\0\0\0", 12, 11),
        (b"\x93NUMPY\x01\0\x09\0{", 19, 11),
    ] {
        assert_eq!(
            fault(bytes),
            format!(
                "a.npy: expected {expected} bytes of header, found {found}; the file is truncated: \
                 fetch it again"
            )
        );
    }
    assert_eq!(
        fault(b"\x93NUMPY\x02\0\x01\0\x01\0{"),
        "a.npy: expected a header of at most 65536 bytes, found a length of 65537; this is \
         probably not an npy file"
    );
}

#[test]
fn headers_that_are_malformed() {
    let syntax = |expected: &str, at: usize, found: &str| {
        format!(
            "a.npy: header: expected {expected} at byte {at}, found {found}; save the array \
             with numpy.save again"
        )
    };
    let keys = |found: &str| {
        format!(
            "a.npy: header: expected each of descr, fortran_order and shape once, found \
             {found}; save the array with numpy.save again"
        )
    };
    for (header, expected) in [
        ("", syntax("'{'", 0, "the end")),
        ("[]", syntax("'{'", 0, "\"[]\"")),
        ("{", syntax("a key", 1, "the end")),
        ("{'descr", syntax("a closing quote", 7, "the end")),
        (
            "{'a\\x':",
            syntax("a string without escapes", 3, "\"\\\\x\\':\""),
        ),
        ("{'descr' '<f4'", syntax("':'", 9, "\"\\'<f4\\'\"")),
        ("{'descr': 4", syntax("a string", 10, "\"4\"")),
        ("{'descr': '<f4' 'x", syntax("',' or '}'", 16, "\"\\'x\"")),
        (
            "{'fortran_order': 0}",
            syntax("True or False", 18, "\"0}\""),
        ),
        ("{'shape': 3}", syntax("'('", 10, "\"3}\"")),
        (
            "{'shape': (3)}",
            syntax("',' after the only dimension", 12, "\")}\""),
        ),
        ("{'shape': (3, 4}", syntax("',' or ')'", 15, "\"}\"")),
        (
            "{'shape': (-3,)}",
            syntax("a dimension that fits 64 bits", 11, "\"-3,)}\""),
        ),
        (
            "{'shape': (99999999999999999999,)}",
            syntax("a dimension that fits 64 bits", 11, "\"999999999999\""),
        ),
        (
            "{'shape': (3,",
            syntax("a dimension that fits 64 bits", 13, "the end"),
        ),
        ("{} x", syntax("the end", 3, "\"x\"")),
        ("{}", keys("no descr")),
        ("{'descr':'<f4'}", keys("no fortran_order")),
        ("{'descr':'<f4','fortran_order':True}", keys("no shape")),
        ("{'shape':(),'shape':()}", keys("a second shape")),
        ("{'x':1}", keys("an unknown key \"x\"")),
    ] {
        assert_eq!(fault_of(header), expected, "{header}");
    }
}

#[test]
fn types_that_are_no_numbers() {
    let cast = "convert it with .astype before saving";
    for (descr, kind, hint) in [
        (
            "<c8",
            "complex",
            "save real and imaginary parts as two arrays",
        ),
        ("<f16", "an extended float", cast),
        (
            "|O",
            "Python objects",
            "objects need pickle, which runs code",
        ),
        ("<U3", "text", "map the strings to numbers first"),
        ("|S3", "text", "map the strings to numbers first"),
        ("<M8[ns]", "times", cast),
        (
            "|V2",
            "raw bytes, perhaps bfloat16 or float8",
            "cast to float32 before saving, or use safetensors",
        ),
        (
            "|f4",
            "no byte order",
            "save the array with numpy.save again",
        ),
        ("<i3", "unknown", cast),
        ("", "unknown", cast),
        ("\u{e9}", "unknown", cast),
    ] {
        assert_eq!(
            fault_of(&dict(descr, "False", "()")),
            format!(
                "a.npy: expected a numeric element type, found descr \"{descr}\" ({kind}); \
                 {hint}"
            )
        );
    }
    assert_eq!(
        fault_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
        "a.npy: expected a numeric element type, found descr \"[('a', '<f4')], \
         'fortran_order': False, 'shape': (1,), }\" (a structured type); save each of its fields \
         as an array"
    );
}

#[test]
fn sizes_are_checked() {
    assert_eq!(
        fault(&file(1, &dict("<f4", "False", "(2, 3)"), &[0; 23])),
        "a.npy: expected 24 bytes for f32 [2, 3], found 23; the file is truncated: fetch it again"
    );
    assert_eq!(
        fault(&file(1, &dict("<f4", "False", "(2, 3)"), &[0; 25])),
        "a.npy: expected 24 bytes for f32 [2, 3], found 25; more than one array in a file is \
         not supported: save them as npz"
    );
    assert_eq!(
        fault_of(&dict("<f8", "True", "(2147483648, 2147483648)")),
        "a.npy: expected a shape of at most 1152921504606846976 elements, found [2147483648, \
         2147483648]; the header is damaged: fetch the file again"
    );
    assert_eq!(
        fault_of(&dict("|u1", "False", &format!("({})", "1,".repeat(65)))),
        "a.npy: expected at most 64 dimensions, found 65; reshape the array before saving it"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    for dtype in DType::ALL {
        for shape in [&[][..], &[5], &[2, 3], &[2, 0], &[1, 2, 1, 3]] {
            let len = shape.iter().product::<usize>() * dtype.size();
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            match write(&path, dtype, shape, &data) {
                Ok(()) => {
                    let bytes = std::fs::read(&path).unwrap();
                    assert_eq!((bytes.len() - len) % 64, 0);
                    let expected = Array {
                        dtype,
                        shape: shape.to_vec(),
                        data,
                    };
                    assert_eq!(read(&path).unwrap(), expected);
                }
                Err(error) => {
                    assert!(matches!(dtype, DType::BF16 | DType::F8E4M3 | DType::F8E5M2));
                    assert_eq!(
                        error.to_string(),
                        format!(
                            "{}: the npy format has no name for {dtype}; cast to f32 first, or \
                             write safetensors",
                            path.display()
                        )
                    );
                }
            }
        }
    }
    assert!(matches!(
        write(&path, DType::F32, &[2], &[0; 7]),
        Err(NpyError::Size { .. })
    ));
}

#[test]
fn the_header_is_the_one_numpy_writes() {
    // numpy.save of numpy.zeros((2, 3), 'f4'), NumPy 2.4.
    let header = build_header("a", DType::F32, &[2, 3], 24).unwrap();
    let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    assert_eq!(&header[..10], b"\x93NUMPY\x01\0v\0");
    assert_eq!(&header[10..10 + text.len()], text.as_bytes());
    assert_eq!((header.len(), header.last()), (128, Some(&b'\n')));
}

fn check(bytes: &[u8]) {
    if let Ok(array) = parse("f", bytes) {
        let n: usize = array.shape.iter().product();
        assert_eq!(array.data.len(), n * array.dtype.size());
    }
}

#[test]
fn every_single_byte_change_and_cut_is_handled() {
    for fortran in ["True", "False"] {
        let good = file(1, &dict(">u2", fortran, "(2, 3)"), &[7; 12]);
        for cut in 0..good.len() {
            assert!(parse("f", &good[..cut]).is_err());
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
}

proptest! {
    #[test]
    fn any_header_is_handled(text in r#"[\{\}()':, 0-9a-zTF<>|\\]{0,60}"#, tail in 0usize..30) {
        check(&file(2, &text, &vec![1; tail]));
    }

    #[test]
    fn fortran_order_agrees_with_index_arithmetic(
        shape in proptest::collection::vec(1usize..5, 1..5)
    ) {
        let n: usize = shape.iter().product();
        let data: Vec<u8> = (0..n).flat_map(|i| (i as u16).to_le_bytes()).collect();
        let out = to_c_order(&data, &shape, 2);
        for c in 0..n {
            let (mut rest, mut at, mut stride) = (c, 0, n);
            for &dim in shape.iter().rev() {
                stride /= dim;
                at += rest % dim * stride;
                rest /= dim;
            }
            prop_assert_eq!(&out[2 * c..2 * c + 2], &data[2 * at..2 * at + 2]);
        }
    }
}
