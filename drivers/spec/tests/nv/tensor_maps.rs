//! Tensor maps against those that NVIDIA's libcuda makes of the same arguments, and what it refuses.

use drivers_spec::nv::tensor_map::{Element, Error, Fetch, Swizzle, TensorMap};

const LINES: &str = include_str!("../../../../tests/golden/nv/tensor_maps.txt");

/// By their numbers in cuda.h.
const ELEMENTS: [Element; 13] = [
    Element::U8,
    Element::U16,
    Element::U32,
    Element::S32,
    Element::U64,
    Element::S64,
    Element::F16,
    Element::F32,
    Element::F64,
    Element::Bf16,
    Element::F32Ftz,
    Element::Tf32,
    Element::Tf32Ftz,
];

/// The numbers behind a word, up to the next word.
fn list<'a>(line: &'a str, word: &str) -> impl Iterator<Item = &'a str> {
    let mut words = line.split(' ').skip_while(move |part| *part != word);
    words.next();
    words.take_while(|part| part.starts_with(|c: char| c.is_ascii_digit()))
}

fn numbers<T: std::str::FromStr>(line: &str, word: &str) -> Vec<T> {
    list(line, word)
        .map(|part| part.parse().ok().unwrap())
        .collect()
}

#[test]
fn maps_are_those_of_libcuda() {
    let (mut made, mut refused) = (0, 0);
    for line in LINES.lines().filter(|line| !line.starts_with('#')) {
        let (arguments, answer) = line.split_once(" = ").unwrap();
        let one = |word: &str| numbers::<usize>(arguments, word)[0];
        let (counts, strides): (Vec<u64>, Vec<u64>) =
            (numbers(arguments, "counts"), numbers(arguments, "strides"));
        let (tile, steps): (Vec<u32>, Vec<u32>) =
            (numbers(arguments, "tile"), numbers(arguments, "steps"));
        let map = TensorMap {
            element: ELEMENTS[one("type")],
            address: u64::from_str_radix(list(arguments, "address").next().unwrap(), 16).unwrap(),
            counts: &counts,
            strides: &strides,
            tile: &tile,
            steps: &steps,
            swizzle: [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128][one("swizzle")],
            fetch: [Fetch::Asked, Fetch::B64, Fetch::B128, Fetch::B256][one("fetch")],
            nan: one("fill") == 1,
        };
        if answer.starts_with("status") {
            assert!(map.encode().is_err(), "{line}");
            refused += 1;
            continue;
        }
        let mut words = [0; 32];
        for part in answer.split(' ') {
            let (at, word) = part.split_once(':').unwrap();
            words[at.parse::<usize>().unwrap()] = u32::from_str_radix(word, 16).unwrap();
        }
        assert_eq!(map.encode(), Ok(words), "{line}");
        made += 1;
    }
    assert!(made > 40 && refused > 40, "{made} {refused}");
}

#[test]
fn what_is_wrong_is_said() {
    let map = TensorMap {
        element: Element::Bf16,
        address: 0x1000,
        counts: &[64, 64],
        strides: &[128],
        tile: &[64, 8],
        steps: &[1, 1],
        swizzle: Swizzle::B128,
        fetch: Fetch::Asked,
        nan: false,
    };
    assert!(map.encode().is_ok());
    let text = |map: TensorMap| map.encode().unwrap_err().to_string();
    let strides = [120];
    let wrong = [
        (
            TensorMap {
                address: 0x1008,
                ..map
            },
            "tensor map: address 0x1008 is not a multiple of 16",
        ),
        (
            TensorMap {
                strides: &strides,
                ..map
            },
            "tensor map, the stride behind it of dimension 0: expected a multiple of 16 below 2^40, found 120",
        ),
        (
            TensorMap {
                swizzle: Swizzle::B64,
                ..map
            },
            "tensor map: a tile row of 128 bytes, expected a multiple of 16 of at most 64",
        ),
        (
            TensorMap {
                element: Element::U16,
                nan: true,
                ..map
            },
            "tensor map: NaN fill is not possible for U16 elements",
        ),
    ];
    for (map, expected) in wrong {
        assert_eq!(text(map), expected);
    }
    let none = TensorMap {
        strides: &[],
        ..map
    };
    assert!(matches!(
        none.encode(),
        Err(Error::Dimensions { strides: 0, .. })
    ));
}
