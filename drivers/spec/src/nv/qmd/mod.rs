//! Queue meta data: what starts a grid. Bits of a structure of 256 or 384 bytes, which lie elsewhere in each
//! version.
//!
//! A [`Field`] has its place in every version, and puts and takes values there; an address in two fields
//! is a [`Wide`]. [`decode`] names all that a structure holds, [`unnamed`] finds bits that no field has.

mod table;

use std::fmt;

pub use table::*;

/// A version of the structure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Version {
    /// Ampere's older one.
    V02_04,
    /// Of Ampere and Ada.
    V03_00,
    /// Of Hopper.
    V04_00,
    /// Of Blackwell.
    V05_00,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Version; 4] = [
        Version::V02_04,
        Version::V03_00,
        Version::V04_00,
        Version::V05_00,
    ];

    /// Dwords of the structure. Its address is a multiple of 256, less than 2^40.
    pub const fn dwords(self) -> usize {
        match self {
            Version::V02_04 | Version::V03_00 => 64,
            Version::V04_00 | Version::V05_00 => 96,
        }
    }

    /// What QMD_MAJOR_VERSION and QMD_MINOR_VERSION hold.
    pub const fn number(self) -> (u64, u64) {
        match self {
            Version::V02_04 => (2, 4),
            Version::V03_00 => (3, 0),
            Version::V04_00 => (4, 0),
            Version::V05_00 => (5, 0),
        }
    }

    /// The version that a structure says it has. Where it says so hangs on the version itself: `known` are
    /// those that the class takes.
    pub fn of(known: &[Version], words: &[u32]) -> Option<Version> {
        let says = |version: &Version| {
            let field = |field: &Field| field.get(*version, 0, words);
            let major = field(&QMD_MAJOR_VERSION)?;
            Some((major, field(&QMD_MINOR_VERSION)?))
        };
        let mut known = known.iter().copied();
        known.find(|version| says(version) == Some(version.number()))
    }
}

/// A field: its elements' bits in each version, of which none crosses a dword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in the newest header that has it, without what it says about shifts.
    pub name: &'static str,
    places: [Option<Place>; Version::ALL.len()],
}

/// Where a field is in a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name there; `#` stands for the index.
    pub name: &'static str,
    /// High and low bit of each element, counted from the start of the structure.
    pub bits: &'static [(u16, u16)],
    /// The field holds the value shifted down by so much.
    pub shift: u32,
}

/// A value that a field cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The field.
    pub field: &'static str,
    /// The element.
    pub index: usize,
    /// The version.
    pub version: Version,
    /// The value.
    pub value: u64,
    /// Bits and shift; none where the version has no such field or element.
    pub holds: Option<(u32, u32)>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misfit {
            field,
            index,
            version,
            value,
            holds,
        } = self;
        write!(f, "QMD {version:?} {field}[{index}]: ")?;
        match holds {
            None => write!(
                f,
                "no such field in this version, found the value {value:#x} for it"
            ),
            Some((bits, 0)) => write!(f, "expected a value of {bits} bits, found {value:#x}"),
            Some((bits, shift)) => write!(
                f,
                "expected a multiple of {} of at most {} bits, found {value:#x}",
                1u64 << shift,
                bits + shift
            ),
        }
    }
}

impl std::error::Error for Misfit {}

impl Field {
    /// Where it is in a version.
    pub const fn place(&self, version: Version) -> Option<&Place> {
        self.places[version as usize].as_ref()
    }

    /// How many elements a version has.
    pub fn count(&self, version: Version) -> usize {
        self.place(version).map_or(0, |place| place.bits.len())
    }

    /// The value of an element; none where the version has no such element. The structure is as long as
    /// the version says.
    pub fn get(&self, version: Version, index: usize, words: &[u32]) -> Option<u64> {
        let place = self.place(version)?;
        let (dword, field) = split(*place.bits.get(index)?);
        let bits = field.get(*words.get(dword)?);
        Some(u64::from(bits) << place.shift)
    }

    /// Sets an element.
    ///
    /// # Errors
    /// [`Misfit`] for a value that it cannot hold, and where the version has no such element.
    pub fn put(
        &self,
        version: Version,
        index: usize,
        words: &mut [u32],
        value: u64,
    ) -> Result<(), Misfit> {
        let misfit = |holds| Misfit {
            field: self.name,
            index,
            version,
            value,
            holds,
        };
        let place = self.place(version).ok_or_else(|| misfit(None))?;
        let bits = *place.bits.get(index).ok_or_else(|| misfit(None))?;
        let (dword, field) = split(bits);
        let raw = value >> place.shift;
        if raw << place.shift != value || raw > (field.mask() >> field.low).into() {
            let width = u32::from(bits.0 - bits.1) + 1;
            return Err(misfit(Some((width, place.shift))));
        }
        let word = words.get_mut(dword).ok_or_else(|| misfit(None))?;
        *word = *word & !field.mask() | field.put(raw as u32);
        Ok(())
    }
}

/// The dword of bits, and the field that they are there.
const fn split((high, low): (u16, u16)) -> (usize, hcq::reg::Field<()>) {
    let field = hcq::reg::Field {
        name: "",
        high: (high % 32) as u8,
        low: (low % 32) as u8,
        on: (),
    };
    (low as usize / 32, field)
}

/// A value in two fields: the lower one holds 32 bits of it, after the shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    /// Its lower half.
    pub lower: Field,
    /// Its upper half.
    pub upper: Field,
}

impl Wide {
    /// The value of an element; none where the version has no such element.
    pub fn get(&self, version: Version, index: usize, words: &[u32]) -> Option<u64> {
        let half = |field: &Field| {
            let place = field.place(version)?;
            let (dword, bits) = split(*place.bits.get(index)?);
            Some((u64::from(bits.get(*words.get(dword)?)), place.shift))
        };
        let ((lower, shift), (upper, _)) = (half(&self.lower)?, half(&self.upper)?);
        Some((upper << 32 | lower) << shift)
    }

    /// Sets an element.
    ///
    /// # Errors
    /// As [`Field::put`].
    pub fn put(
        &self,
        version: Version,
        index: usize,
        words: &mut [u32],
        value: u64,
    ) -> Result<(), Misfit> {
        let place = |field: &Field| {
            let place = field.place(version)?;
            Some((*place.bits.get(index)?, place.shift))
        };
        let misfit = |holds| Misfit {
            field: self.lower.name,
            index,
            version,
            value,
            holds,
        };
        let both = place(&self.lower).zip(place(&self.upper));
        let ((lower, shift), (upper, _)) = both.ok_or_else(|| misfit(None))?;
        let bits = u32::from(upper.0 - upper.1) + 33;
        let raw = value >> shift;
        if raw << shift != value || raw.checked_shr(bits).unwrap_or(0) != 0 {
            return Err(misfit(Some((bits, shift))));
        }
        for (at, half) in [(lower, raw as u32), (upper, (raw >> 32) as u32)] {
            let (dword, field) = split(at);
            let word = words.get_mut(dword).ok_or_else(|| misfit(None))?;
            *word = *word & !field.mask() | field.put(half);
        }
        Ok(())
    }
}

/// Where the first instruction is.
pub const PROGRAM_ADDRESS: Wide = wide(PROGRAM_ADDRESS_LOWER, PROGRAM_ADDRESS_UPPER);
/// Instructions that are fetched before the first block runs.
pub const PROGRAM_PREFETCH_ADDR: Wide =
    wide(PROGRAM_PREFETCH_ADDR_LOWER, PROGRAM_PREFETCH_ADDR_UPPER);
/// Where a constant bank is.
pub const CONSTANT_BUFFER_ADDR: Wide = wide(CONSTANT_BUFFER_ADDR_LOWER, CONSTANT_BUFFER_ADDR_UPPER);
/// Where the end of the grid is said.
pub const RELEASE_ADDR: Wide = wide(RELEASE_ADDR_LOWER, RELEASE_ADDR_UPPER);
/// What is written there. One of V02_04 has its lower half only.
pub const RELEASE_PAYLOAD: Wide = wide(RELEASE_PAYLOAD_LOWER, RELEASE_PAYLOAD_UPPER);

const fn wide(lower: Field, upper: Field) -> Wide {
    Wide { lower, upper }
}

/// An element of a field in a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The field's name.
    pub name: &'static str,
    /// Which element.
    pub index: usize,
    /// Its bits, not shifted.
    pub bits: u32,
}

/// Every element that is not zero, in the order of the table. For people, and for comparisons.
pub fn decode(version: Version, words: &[u32]) -> impl Iterator<Item = Found> {
    FIELDS.iter().flat_map(move |field| {
        let bits = field.place(version).map_or(&[][..], |place| place.bits);
        bits.iter().enumerate().filter_map(move |(index, at)| {
            let (dword, bits) = split(*at);
            let bits = bits.get(*words.get(dword)?);
            (bits != 0).then_some(Found {
                name: field.name,
                index,
                bits,
            })
        })
    })
}

/// The first dword with bits that no field of the version has, and these bits.
pub fn unnamed(version: Version, words: &[u32]) -> Option<(usize, u32)> {
    let named = named(version);
    let rest = words
        .iter()
        .enumerate()
        .map(|(i, word)| (i, word & !named.get(i).unwrap_or(&0)));
    rest.into_iter().find(|(_, bits)| *bits != 0)
}

/// The bits of each dword that fields have.
fn named(version: Version) -> [u32; 96] {
    let mut named = [0; 96];
    for field in FIELDS {
        for at in field.place(version).map_or(&[][..], |place| place.bits) {
            let (dword, bits) = split(*at);
            named[dword] |= bits.mask();
        }
    }
    named
}

/// Elements that lie `step` bits apart.
const fn steps<const N: usize>(high: u16, low: u16, step: u16) -> [(u16, u16); N] {
    let mut bits = [(0, 0); N];
    let mut i = 0;
    while i < N {
        bits[i] = (high + step * i as u16, low + step * i as u16);
        i += 1;
    }
    bits
}

/// Declares fields: for each version that has one, its name there if it is another, its bits, how the
/// elements of an array lie, and the shift.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident {
        $($version:ident $(as $name:literal)? $($high:literal : $low:literal),+
            $(step $step:literal of $count:literal)? $(<< $shift:literal)?;)+
    })*) => {
        $(
            $(#[$doc])*
            #[doc = concat!("`", stringify!($field), "`.")]
            pub const $field: $crate::nv::qmd::Field = {
                let mut places = [None; $crate::nv::qmd::Version::ALL.len()];
                $(
                    places[$crate::nv::qmd::Version::$version as usize] = Some($crate::nv::qmd::Place {
                        name: $crate::nv::qmd::fields!(@name $field $($name)?),
                        bits: $crate::nv::qmd::fields!(@bits $($high $low)+ $(, $step $count)?),
                        shift: 0 $(+ $shift)?,
                    });
                )+
                $crate::nv::qmd::Field {
                    name: stringify!($field),
                    places,
                }
            };
        )*

        /// Every field.
        pub const FIELDS: &[$crate::nv::qmd::Field] = &[$($field,)*];
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@bits $high:literal $low:literal, $step:literal $count:literal) => {
        &$crate::nv::qmd::steps::<$count>($high, $low, $step)
    };
    (@bits $($high:literal $low:literal)+) => { &[$(($high, $low)),+] };
}
use fields;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_neither_overlap_nor_cross_dwords() {
        for version in Version::ALL {
            let mut used = [0u32; 96];
            for field in FIELDS {
                for at in field.place(version).map_or(&[][..], |place| place.bits) {
                    let (high, low) = *at;
                    assert!(
                        low <= high && high / 32 == low / 32,
                        "{} {version:?}",
                        field.name
                    );
                    let (dword, bits) = split(*at);
                    assert!(dword < version.dwords(), "{} {version:?}", field.name);
                    assert_eq!(used[dword] & bits.mask(), 0, "{} {version:?}", field.name);
                    used[dword] |= bits.mask();
                }
            }
            assert_eq!(named(version), used);
        }
    }

    /// Every element of every field holds its largest value, alone, and nothing else changes.
    #[test]
    fn values_come_back_and_stay_in_their_bits() {
        for version in Version::ALL {
            let mut seen = 0;
            for field in FIELDS {
                for index in 0..field.count(version) {
                    let place = field.place(version).unwrap();
                    let (high, low) = place.bits[index];
                    let raw = u32::MAX >> (31 - (high - low));
                    let mut words = vec![0; version.dwords()];
                    let value = u64::from(raw) << place.shift;
                    field.put(version, index, &mut words, value).unwrap();
                    assert_eq!(
                        field.get(version, index, &words),
                        Some(value),
                        "{}",
                        field.name
                    );
                    let found: Vec<_> = decode(version, &words).collect();
                    assert_eq!(
                        found,
                        [Found {
                            name: field.name,
                            index,
                            bits: raw
                        }]
                    );
                    assert_eq!(unnamed(version, &words), None);
                    field.put(version, index, &mut words, 0).unwrap();
                    assert!(words.iter().all(|word| *word == 0));
                    for wrong in [
                        (u64::from(raw) + 1) << place.shift,
                        value | (1 << place.shift) >> 1,
                    ] {
                        let misfit = field.put(version, index, &mut words, wrong);
                        assert!(
                            misfit.is_err() || wrong == value,
                            "{}: {wrong:#x}",
                            field.name
                        );
                    }
                    seen += 1;
                }
            }
            assert!(seen > 100, "{version:?}: {seen}");
        }
    }

    #[test]
    fn addresses_lie_in_two_fields_and_are_shifted() {
        let address = 0x1f_2345_6780;
        for (version, lower, upper) in [
            (Version::V03_00, 0x2345_6780, 0x1f),
            (Version::V04_00, 0x2345_6780, 0x1f),
            (Version::V05_00, 0xf234_5678, 1),
        ] {
            let mut words = vec![0; version.dwords()];
            PROGRAM_ADDRESS
                .put(version, 0, &mut words, address)
                .unwrap();
            assert_eq!(PROGRAM_ADDRESS.get(version, 0, &words), Some(address));
            let halves: Vec<_> = decode(version, &words).map(|found| found.bits).collect();
            assert_eq!(halves, [lower, upper], "{version:?}");
        }
        let mut words = vec![0; 96];
        CONSTANT_BUFFER_ADDR
            .put(Version::V04_00, 7, &mut words, address & !63)
            .unwrap();
        assert_eq!(
            CONSTANT_BUFFER_ADDR.get(Version::V04_00, 7, &words),
            Some(address & !63)
        );
        RELEASE_PAYLOAD
            .put(Version::V04_00, 2, &mut words, u64::MAX)
            .unwrap();
        assert_eq!(
            RELEASE_PAYLOAD.get(Version::V04_00, 2, &words),
            Some(u64::MAX)
        );
        let error = CONSTANT_BUFFER_ADDR
            .put(Version::V04_00, 7, &mut words, 32)
            .unwrap_err();
        let text = "QMD V04_00 CONSTANT_BUFFER_ADDR_LOWER[7]: expected a multiple of 64 of at most 57 bits, found 0x20";
        assert_eq!(error.to_string(), text);
        let error = RELEASE_ADDR
            .put(Version::V03_00, 0, &mut words, 1 << 40)
            .unwrap_err();
        assert_eq!(error.holds, Some((40, 0)));
        let error = RELEASE_ADDR
            .put(Version::V02_04, 2, &mut words, 0)
            .unwrap_err();
        assert_eq!(error.holds, None);
        let error = QMD_TYPE.put(Version::V03_00, 0, &mut words, 2).unwrap_err();
        let text =
            "QMD V03_00 QMD_TYPE[0]: no such field in this version, found the value 0x2 for it";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_structure_says_its_version() {
        for version in Version::ALL {
            let mut words = vec![0; version.dwords()];
            let (major, minor) = version.number();
            QMD_MAJOR_VERSION
                .put(version, 0, &mut words, major)
                .unwrap();
            QMD_MINOR_VERSION
                .put(version, 0, &mut words, minor)
                .unwrap();
            assert_eq!(Version::of(&[version], &words), Some(version));
            let others: Vec<_> = Version::ALL.into_iter().filter(|v| *v != version).collect();
            assert_eq!(Version::of(&others, &words), None);
        }
        let mut words = vec![0; 64];
        words[63] = 1;
        assert_eq!(unnamed(Version::V03_00, &words), None); // DEBUG_ID_LOWER
        words[11] = 1 << 31;
        assert_eq!(unnamed(Version::V03_00, &words), None); // DISABLE_AUTO_INVALIDATE
        words[11] |= 1 << 29;
        assert_eq!(unnamed(Version::V03_00, &words), Some((11, 1 << 29)));
    }
}
