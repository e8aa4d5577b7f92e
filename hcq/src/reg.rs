//! Registers and bit fields as a table: [`registers!`](crate::registers),
//! [`bitfields!`](crate::bitfields), [`codes!`](crate::codes).
//!
//! A row is what the vendor's header says: name, place, fields as `high:low`. From it come the
//! type, width-checked access and a `Debug` that decodes. A field is a value, so that waits,
//! traces and errors can name it: `reg.get(REG::ready)`, `reg.with(REG::ready, true)`.
//!
//! ```
//! hcq::codes! {
//!     /// What the bootloader is asked to do.
//!     pub enum BlCommand(u16) { LoadSysDrv = 1, LoadSos = 2 }
//! }
//! hcq::registers! { in MP0;
//!     /// Bootloader mailbox.
//!     MAILBOX @ { v13_0_0 => 0:0x0063, v14_0_2 => 0:0x0063 as MPASP_MAILBOX } {
//!         /// The bootloader waits for a command.
//!         31:31 ready => bool;
//!         /// The command.
//!         15:0 command => BlCommand;
//!     }
//! }
//! let r = MAILBOX::from_bits(0x8000_0000).with(MAILBOX::command, BlCommand::LoadSos);
//! assert!(r.get(MAILBOX::ready));
//! assert_eq!(format!("{r:?}"), "MAILBOX(0x80000002) { ready: true, command: LoadSos }");
//! ```

use std::fmt;
use std::marker::PhantomData;

use thiserror::Error;

use crate::mem::window::Window;
use crate::transport::TransportError;

/// A value does not fit into its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{value:#x} does not fit into {layout}.{field} (bits {hi}:{lo})")]
pub struct FieldError {
    /// Register or structure.
    pub layout: &'static str,
    /// Field.
    pub field: &'static str,
    /// Highest bit.
    pub hi: u32,
    /// Lowest bit.
    pub lo: u32,
    /// The value.
    pub value: u64,
}

/// What a field can hold: `bool`, unsigned integers, and enums made by [`codes!`](crate::codes).
pub trait FieldValue: Copy + fmt::Debug {
    /// The bits of the field for this value; must fit into it.
    fn to_raw(self) -> u64;
    /// The value for the bits of the field.
    fn from_raw(raw: u64) -> Self;
}

impl FieldValue for bool {
    fn to_raw(self) -> u64 {
        self.into()
    }
    fn from_raw(raw: u64) -> bool {
        raw != 0
    }
}

/// Storage of a register or structure.
pub trait Bits: Copy + fmt::Debug {
    /// All bits zero.
    const ZERO: Self;
    /// Number of bits.
    const WIDTH: u32;
    /// Bits `hi..=lo`, at most 64.
    fn field(&self, hi: u32, lo: u32) -> u64;
    /// Replaces bits `hi..=lo` by the low bits of `value`.
    fn set_field(&mut self, hi: u32, lo: u32, value: u64);
}

/// `bits` ones; `bits` is 1..=64.
const fn ones(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

macro_rules! bits {
    ($($t:ty),*) => {$(
        impl Bits for $t {
            const ZERO: Self = 0;
            const WIDTH: u32 = <$t>::BITS;
            fn field(&self, hi: u32, lo: u32) -> u64 {
                (*self >> lo) as u64 & ones(hi - lo + 1)
            }
            fn set_field(&mut self, hi: u32, lo: u32, value: u64) {
                let mask = ones(hi - lo + 1);
                *self = (*self & !((mask as $t) << lo)) | (((value & mask) as $t) << lo);
            }
        }
    )*};
}
bits!(u8, u16, u32, u64, u128);

macro_rules! integer_values {
    ($($t:ty),*) => {$(
        impl FieldValue for $t {
            fn to_raw(self) -> u64 {
                self.into()
            }
            /// A field is at most as wide as its type: `Field::new` checks it.
            fn from_raw(raw: u64) -> $t {
                raw as $t
            }
        }
    )*};
}
integer_values!(u8, u16, u32, u64);

/// A structure of dwords: a packet, MQD or QMD. Bit 0 is the lowest of the first dword.
impl<const N: usize> Bits for [u32; N] {
    const ZERO: Self = [0; N];
    const WIDTH: u32 = 32 * N as u32;

    fn field(&self, hi: u32, lo: u32) -> u64 {
        let mut value = 0u64;
        let mut bit = lo;
        while bit <= hi {
            let top = hi.min(bit | 31);
            value |= self[bit as usize / 32].field(top % 32, bit % 32) << (bit - lo);
            bit = top + 1;
        }
        value
    }

    fn set_field(&mut self, hi: u32, lo: u32, value: u64) {
        let mut bit = lo;
        while bit <= hi {
            let top = hi.min(bit | 31);
            self[bit as usize / 32].set_field(top % 32, bit % 32, value >> (bit - lo));
            bit = top + 1;
        }
    }
}

/// A register or structure with named fields.
pub trait Layout: Copy + fmt::Debug + 'static {
    /// Storage.
    type Raw: Bits;
    /// The vendor's name.
    const NAME: &'static str;
    /// The fields, in the order of the table.
    const FIELDS: &'static [FieldInfo];
    /// From all bits.
    fn from_bits(bits: Self::Raw) -> Self;
    /// All bits.
    fn bits(self) -> Self::Raw;
}

/// A field of layout `L` that holds a `T`.
pub struct Field<L, T> {
    name: &'static str,
    hi: u32,
    lo: u32,
    of: PhantomData<fn() -> (L, T)>,
}

impl<L, T> Clone for Field<L, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, T> Copy for Field<L, T> {}

impl<L: Layout, T: FieldValue> Field<L, T> {
    /// A field of bits `hi:lo`. Called by the macros, at compile time.
    ///
    /// # Panics
    /// When the bits do not lie inside the layout or are more than 64.
    pub const fn new(name: &'static str, hi: u32, lo: u32) -> Self {
        assert!(hi >= lo, "bits of a field are written high:low");
        assert!(hi < L::Raw::WIDTH, "field lies outside of its layout");
        assert!(hi - lo < 64, "field is wider than 64 bits");
        Field {
            name,
            hi,
            lo,
            of: PhantomData,
        }
    }

    /// Name as in the vendor's header, in lower case.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Highest bit.
    pub const fn hi(&self) -> u32 {
        self.hi
    }

    /// Lowest bit.
    pub const fn lo(&self) -> u32 {
        self.lo
    }

    /// The field's value in `bits`.
    #[inline]
    pub fn read(&self, bits: &L::Raw) -> T {
        T::from_raw(bits.field(self.hi, self.lo))
    }

    /// Writes the field in `bits`.
    ///
    /// # Errors
    /// The value is wider than the field.
    #[inline]
    pub fn write(&self, bits: &mut L::Raw, value: T) -> Result<(), FieldError> {
        let (hi, lo, value) = (self.hi, self.lo, value.to_raw());
        if value > ones(hi - lo + 1) {
            return Err(FieldError {
                layout: L::NAME,
                field: self.name,
                hi,
                lo,
                value,
            });
        }
        bits.set_field(hi, lo, value);
        Ok(())
    }
}

/// A field without its type, for decoding.
#[derive(Debug, Clone, Copy)]
pub struct FieldInfo {
    /// Name.
    pub name: &'static str,
    /// Highest bit.
    pub hi: u32,
    /// Lowest bit.
    pub lo: u32,
    /// Prints the bits of the field as its type.
    pub show: fn(u64, &mut fmt::Formatter<'_>) -> fmt::Result,
}

/// Prints a raw value as `T`: booleans and names as they are, numbers in hexadecimal.
#[doc(hidden)]
pub fn show<T: FieldValue>(raw: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{:#x?}", T::from_raw(raw))
}

/// Prints `NAME(bits) { field: value, .. }`; of structures of dwords only the fields.
#[doc(hidden)]
pub fn debug<L: Layout>(layout: L, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let bits = layout.bits();
    f.write_str(L::NAME)?;
    if L::Raw::WIDTH <= 64 {
        let digits = L::Raw::WIDTH as usize / 4;
        write!(
            f,
            "({:#0width$x})",
            bits.field(L::Raw::WIDTH - 1, 0),
            width = digits + 2
        )?;
    }
    f.write_str(" {")?;
    for (i, field) in L::FIELDS.iter().enumerate() {
        write!(f, "{} {}: ", if i == 0 { "" } else { "," }, field.name)?;
        (field.show)(bits.field(field.hi, field.lo), f)?;
    }
    f.write_str(" }")
}

/// Declares bit fields of a dword, page table entry, packet or descriptor.
///
/// `pub struct Name(storage) { high:low field => type; .. }` with `u8`..`u128` or `[u32; N]` as
/// storage; a field of an array may cross dwords, bits count from the first dword on.
#[macro_export]
macro_rules! bitfields {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident($raw:ty) {
            $($(#[$field_meta:meta])* $hi:literal : $lo:literal $field:ident => $ty:ty;)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        $vis struct $name($raw);

        #[allow(non_upper_case_globals, dead_code)]
        impl $name {
            $(
                $(#[$field_meta])*
                pub const $field: $crate::reg::Field<$name, $ty> =
                    $crate::reg::Field::new(stringify!($field), $hi, $lo);
            )*

            /// All bits zero.
            pub const ZERO: Self = Self(<$raw as $crate::reg::Bits>::ZERO);

            /// From all bits.
            pub const fn from_bits(bits: $raw) -> Self {
                Self(bits)
            }

            /// All bits.
            pub const fn bits(self) -> $raw {
                self.0
            }

            /// Value of a field.
            #[inline]
            pub fn get<T: $crate::reg::FieldValue>(
                self,
                field: $crate::reg::Field<Self, T>,
            ) -> T {
                field.read(&self.0)
            }

            /// With a field replaced.
            ///
            /// # Panics
            /// When the value is wider than the field, naming both: for values that are known to
            /// fit. Values from outside go through `try_with`.
            #[inline]
            #[must_use]
            #[track_caller]
            pub fn with<T: $crate::reg::FieldValue>(
                self,
                field: $crate::reg::Field<Self, T>,
                value: T,
            ) -> Self {
                match self.try_with(field, value) {
                    Ok(this) => this,
                    Err(error) => panic!("{error}"),
                }
            }

            /// With a field replaced.
            ///
            /// # Errors
            /// The value is wider than the field.
            #[inline]
            pub fn try_with<T: $crate::reg::FieldValue>(
                mut self,
                field: $crate::reg::Field<Self, T>,
                value: T,
            ) -> Result<Self, $crate::reg::FieldError> {
                field.write(&mut self.0, value)?;
                Ok(self)
            }
        }

        impl $crate::reg::Layout for $name {
            type Raw = $raw;
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::reg::FieldInfo] = &[$(
                $crate::reg::FieldInfo {
                    name: stringify!($field),
                    hi: $hi,
                    lo: $lo,
                    show: $crate::reg::show::<$ty>,
                },
            )*];
            fn from_bits(bits: $raw) -> Self {
                Self(bits)
            }
            fn bits(self) -> $raw {
                self.0
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::reg::debug(*self, f)
            }
        }
    )*};
}

/// Declares the values of a field by name. Values without a name stay what they are, as
/// `Unknown(value)`.
#[macro_export]
macro_rules! codes {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $name:ident($raw:ty) {
            $($(#[$code_meta:meta])* $code:ident = $value:literal),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, clippy::upper_case_acronyms, non_camel_case_types)]
        $vis enum $name {
            $($(#[$code_meta])* $code,)*
            /// A value without a name here.
            Unknown($raw),
        }

        impl $crate::reg::FieldValue for $name {
            fn to_raw(self) -> u64 {
                match self {
                    $($name::$code => $value,)*
                    $name::Unknown(raw) => raw.into(),
                }
            }
            fn from_raw(raw: u64) -> Self {
                match raw {
                    $($value => $name::$code,)*
                    _ => $name::Unknown(raw as $raw),
                }
            }
        }
    )*};
}

/// Declares 32-bit registers of a hardware block: see the module for an example.
///
/// A place is one of
/// * `{ v13_0_0 => segment:dword, v14_0_2 => segment:dword as NAME_THERE }`: per IP version,
///   relative to a segment whose base is discovered; unlisted versions are an error;
/// * `0x1fa828`: bytes from the start of the window;
/// * `Falcon + 0x100`: bytes from a base that several engines have;
///
/// each followed by `[count; stride bytes]` for an array.
#[macro_export]
macro_rules! registers {
    (in $block:ident; $(
        $(#[$meta:meta])*
        $name:ident @ $place:tt $(+ $offset:literal)? $([$count:literal; stride $stride:literal])?
        { $($fields:tt)* }
    )*) => {
        $crate::bitfields! {$(
            $(#[$meta])*
            pub struct $name(u32) { $($fields)* }
        )*}
        $(
            impl $crate::reg::Register for $name {
                const BLOCK: &'static str = stringify!($block);
                const PLACE: $crate::reg::Place = $crate::__place!($place $(+ $offset)?);
                const ARRAY: $crate::reg::Array = {
                    #[allow(unused_mut, unused_assignments)]
                    let mut array = $crate::reg::Array { count: 1, stride: 0 };
                    $(array = $crate::reg::Array { count: $count, stride: $stride };)?
                    array
                };
            }
        )*
    };
}

/// Place of a register, from the tokens of its row.
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    ({ $($version:ident => $segment:literal : $dword:literal $(as $alias:ident)?),+ $(,)? }) => {
        $crate::reg::Place::Versions(&[$(
            $crate::reg::Row {
                version: $crate::reg::IpVersion::parse(stringify!($version)),
                segment: $segment,
                dword: $dword,
                name: {
                    #[allow(unused_mut, unused_assignments)]
                    let mut name = None;
                    $(name = Some(stringify!($alias));)?
                    name
                },
            },
        )+])
    };
    ($base:ident + $offset:literal) => {
        $crate::reg::Place::Relative { base: stringify!($base), offset: $offset }
    };
    ($offset:literal) => {
        $crate::reg::Place::Absolute($offset)
    };
}

/// Version of a hardware block, as its vendor counts: major, minor, revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpVersion(pub u8, pub u8, pub u8);

impl IpVersion {
    /// From `v13_0_0`.
    ///
    /// # Panics
    /// On any other form: at compile time, in the macro.
    pub const fn parse(text: &str) -> IpVersion {
        let bytes = text.as_bytes();
        assert!(
            !bytes.is_empty() && bytes[0] == b'v',
            "versions are written v13_0_0"
        );
        let mut parts = [0u8; 3];
        let (mut part, mut digits, mut at) = (0, 0, 1);
        while at < bytes.len() {
            match bytes[at] {
                digit @ b'0'..=b'9' => {
                    parts[part] = parts[part] * 10 + (digit - b'0');
                    digits += 1;
                }
                b'_' => {
                    assert!(digits > 0 && part < 2, "versions are written v13_0_0");
                    part += 1;
                    digits = 0;
                }
                _ => panic!("versions are written v13_0_0"),
            }
            at += 1;
        }
        assert!(part == 2 && digits > 0, "versions are written v13_0_0");
        IpVersion(parts[0], parts[1], parts[2])
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Place of a register in one version of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Version of the block.
    pub version: IpVersion,
    /// Segment, whose base the device tells.
    pub segment: u8,
    /// Offset in the segment, in dwords.
    pub dword: u64,
    /// Vendor's name in this version, where it differs.
    pub name: Option<&'static str>,
}

/// How a register is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// By the version of its block.
    Versions(&'static [Row]),
    /// Bytes from the start of the window.
    Absolute(u64),
    /// Bytes from a named base.
    Relative {
        /// Name of the base.
        base: &'static str,
        /// Bytes from it.
        offset: u64,
    },
}

/// Repetition of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// Number of registers; 1 for a single one.
    pub count: u32,
    /// Bytes from one to the next.
    pub stride: u64,
}

/// A 32-bit register with a place.
pub trait Register: Layout<Raw = u32> {
    /// Hardware block.
    const BLOCK: &'static str;
    /// Where it is.
    const PLACE: Place;
    /// How often it is there.
    const ARRAY: Array;
}

/// What a device has told about the places of its blocks.
pub trait RegMap: Send + Sync {
    /// Version of a block.
    fn version(&self, block: &str) -> Option<IpVersion>;
    /// Base of a segment of an instance of a block, in dwords from the start of the window.
    fn segment(&self, block: &str, instance: u32, segment: u8) -> Option<u64>;
    /// A named base of an instance, in bytes from the start of the window.
    fn base(&self, name: &str, instance: u32) -> Option<u64>;
}

/// A register access failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegError {
    /// The device has no such block, or has not told.
    #[error("{register}: the device lists no block {block}")]
    NoBlock {
        /// Register.
        register: &'static str,
        /// Block.
        block: &'static str,
    },
    /// The table has no row for the device's version.
    #[error("{register}: no place known in {block} {version}; the table has {known:?}")]
    UnknownVersion {
        /// Register.
        register: &'static str,
        /// Block.
        block: &'static str,
        /// Version of the device.
        version: IpVersion,
        /// Versions of the table.
        known: Vec<IpVersion>,
    },
    /// The device has no such instance or base.
    #[error("{register}: instance {instance} of {base} has no base address on this device")]
    NoBase {
        /// Register.
        register: &'static str,
        /// Segment or base.
        base: String,
        /// Instance.
        instance: u32,
    },
    /// An index past the end of a register array.
    #[error("{register}[{index}]: the array has {count}")]
    BadIndex {
        /// Register.
        register: &'static str,
        /// Index.
        index: u32,
        /// Length of the array.
        count: u32,
    },
    /// The access itself failed.
    #[error("{register}: {source}")]
    Access {
        /// Register.
        register: &'static str,
        /// Cause.
        source: TransportError,
    },
}

/// Byte offset of a register, by what the device told.
///
/// # Errors
/// All but [`RegError::Access`].
pub fn address<R: Register>(map: &dyn RegMap, instance: u32, index: u32) -> Result<u64, RegError> {
    let (register, block) = (R::NAME, R::BLOCK);
    let Array { count, stride } = R::ARRAY;
    if index >= count {
        return Err(RegError::BadIndex {
            register,
            index,
            count,
        });
    }
    let start = match R::PLACE {
        Place::Absolute(offset) => offset,
        Place::Relative { base, offset } => {
            let start = map
                .base(base, instance)
                .and_then(|start| start.checked_add(offset));
            start.ok_or_else(|| RegError::NoBase {
                register,
                base: base.into(),
                instance,
            })?
        }
        Place::Versions(rows) => {
            let version = map
                .version(block)
                .ok_or(RegError::NoBlock { register, block })?;
            let row = rows
                .iter()
                .find(|row| row.version == version)
                .ok_or_else(|| {
                    let known = rows.iter().map(|row| row.version).collect();
                    RegError::UnknownVersion {
                        register,
                        block,
                        version,
                        known,
                    }
                })?;
            let start = map.segment(block, instance, row.segment);
            let start = start.and_then(|s| s.checked_add(row.dword)?.checked_mul(4));
            start.ok_or_else(|| {
                let base = format!("{block} segment {}", row.segment);
                RegError::NoBase {
                    register,
                    base,
                    instance,
                }
            })?
        }
    };
    start
        .checked_add(stride * u64::from(index))
        .ok_or(RegError::BadIndex {
            register,
            index,
            count,
        })
}

/// Register access: a window and what the device told about places.
#[derive(Clone, Copy)]
pub struct Io<'a> {
    window: &'a Window,
    map: &'a dyn RegMap,
}

impl<'a> Io<'a> {
    /// Access through `window` by `map`.
    pub fn new(window: &'a Window, map: &'a dyn RegMap) -> Io<'a> {
        Io { window, map }
    }

    /// Reads a register of an instance of its block.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn read<R: Register>(&self, instance: u32) -> Result<R, RegError> {
        self.read_at(instance, 0)
    }

    /// Reads element `index` of a register array.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn read_at<R: Register>(&self, instance: u32, index: u32) -> Result<R, RegError> {
        let address = address::<R>(self.map, instance, index)?;
        let bits = self.window.read::<u32>(address);
        let value = bits.map(R::from_bits);
        let value = value.map_err(|source| RegError::Access {
            register: R::NAME,
            source,
        })?;
        tracing::trace!(target: "hcq::reg", block = R::BLOCK, instance, index, address, ?value, "read");
        Ok(value)
    }

    /// Writes a register of an instance of its block.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn write<R: Register>(&self, instance: u32, value: R) -> Result<(), RegError> {
        self.write_at(instance, 0, value)
    }

    /// Writes element `index` of a register array.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn write_at<R: Register>(
        &self,
        instance: u32,
        index: u32,
        value: R,
    ) -> Result<(), RegError> {
        let address = address::<R>(self.map, instance, index)?;
        tracing::trace!(target: "hcq::reg", block = R::BLOCK, instance, index, address, ?value, "write");
        let done = self.window.write(address, value.bits());
        done.map_err(|source| RegError::Access {
            register: R::NAME,
            source,
        })
    }

    /// Reads a register, changes it, writes it back, and returns what was written.
    ///
    /// # Errors
    /// [`RegError`].
    pub fn update<R: Register>(
        &self,
        instance: u32,
        change: impl FnOnce(R) -> R,
    ) -> Result<R, RegError> {
        let value = change(self.read::<R>(instance)?);
        self.write(instance, value)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::view::View;
    use proptest::prelude::*;

    crate::codes! {
        /// Commands of the test block.
        pub enum Command(u16) { LoadSysDrv = 1, LoadSos = 0x1_0 }
    }

    crate::registers! { in MP0;
        /// By version.
        MAILBOX @ { v13_0_0 => 0:0x0063, v14_0_2 => 1:0x0010 as MPASP_MAILBOX } {
            /// Ready.
            31:31 ready => bool;
            /// Command.
            15:0 command => Command;
        }
        /// Absolute.
        WPR2_HI @ 0x40 {
            /// Address.
            31:4 hi_val => u32;
        }
        /// Relative, repeated.
        SCRATCH @ Falcon + 0x20 [4; stride 8] {
            /// Value.
            31:0 value => u32;
        }
        /// Absolute, repeated.
        FUSE @ 0x80 [2; stride 4] {}
    }

    crate::bitfields! {
        /// A wide entry.
        pub struct DualPde(u128) {
            /// Big table.
            51:8 big => u64;
            /// Small table.
            115:76 small => u64;
        }
        /// A descriptor.
        struct Descriptor([u32; 3]) {
            /// Version.
            3:0 version => u8;
            /// Crosses dwords.
            67:28 address => u64;
            /// 64 bits across three dwords.
            95:32 all => u64;
        }
        struct Byte(u8) {
            7:7 top => bool;
        }
    }

    struct Map;
    impl RegMap for Map {
        fn version(&self, block: &str) -> Option<IpVersion> {
            (block == "MP0").then_some(IpVersion(14, 0, 2))
        }
        fn segment(&self, _: &str, instance: u32, segment: u8) -> Option<u64> {
            (segment == 1 && instance < 2).then_some(0x20 * u64::from(instance))
        }
        fn base(&self, name: &str, instance: u32) -> Option<u64> {
            (name == "Falcon" && instance == 0).then_some(0x10)
        }
    }

    #[test]
    fn places() {
        assert_eq!(address::<MAILBOX>(&Map, 1, 0), Ok((0x20 + 0x10) * 4));
        assert_eq!(address::<WPR2_HI>(&Map, 0, 0), Ok(0x40));
        assert_eq!(address::<SCRATCH>(&Map, 0, 3), Ok(0x10 + 0x20 + 24));
        assert_eq!(address::<FUSE>(&Map, 0, 1), Ok(0x84));
        let text = |e: Result<u64, RegError>| e.unwrap_err().to_string();
        assert_eq!(
            text(address::<SCRATCH>(&Map, 0, 4)),
            "SCRATCH[4]: the array has 4"
        );
        assert_eq!(
            text(address::<SCRATCH>(&Map, 1, 0)),
            "SCRATCH: instance 1 of Falcon has no base address on this device"
        );
        assert_eq!(
            text(address::<MAILBOX>(&Map, 2, 0)),
            "MAILBOX: instance 2 of MP0 segment 1 has no base address on this device"
        );
        let Place::Versions(rows) = MAILBOX::PLACE else {
            panic!()
        };
        assert_eq!(rows[1].name, Some("MPASP_MAILBOX"));
        assert_eq!(rows[0].name, None);
    }

    #[test]
    fn unknown_versions_are_named() {
        struct Old;
        impl RegMap for Old {
            fn version(&self, _: &str) -> Option<IpVersion> {
                Some(IpVersion(9, 0, 0))
            }
            fn segment(&self, _: &str, _: u32, _: u8) -> Option<u64> {
                Some(0)
            }
            fn base(&self, _: &str, _: u32) -> Option<u64> {
                None
            }
        }
        assert_eq!(
            address::<MAILBOX>(&Old, 0, 0),
            Err(RegError::UnknownVersion {
                register: "MAILBOX",
                block: "MP0",
                version: IpVersion(9, 0, 0),
                known: vec![IpVersion(13, 0, 0), IpVersion(14, 0, 2)],
            })
        );
    }

    #[test]
    fn fields_decode() {
        let r = MAILBOX::from_bits(0x8000_0010);
        assert!(r.get(MAILBOX::ready));
        assert_eq!(r.get(MAILBOX::command), Command::LoadSos);
        assert_eq!(
            format!("{r:?}"),
            "MAILBOX(0x80000010) { ready: true, command: LoadSos }"
        );
        let r = r
            .with(MAILBOX::command, Command::Unknown(0x77))
            .with(MAILBOX::ready, false);
        assert_eq!(r.bits(), 0x77);
        assert_eq!(r.get(MAILBOX::command), Command::Unknown(0x77));
        assert_eq!(
            format!("{:?}", Byte::ZERO.with(Byte::top, true)),
            "Byte(0x80) { top: true }"
        );
        assert_eq!(format!("{:?}", FUSE::from_bits(1)), "FUSE(0x00000001) { }");
        assert_eq!(MAILBOX::command.name(), "command");
    }

    #[test]
    fn oversized_values_are_named() {
        let error = WPR2_HI::ZERO
            .try_with(WPR2_HI::hi_val, 0x1000_0000)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "0x10000000 does not fit into WPR2_HI.hi_val (bits 31:4)"
        );
    }

    #[test]
    #[should_panic(expected = "0x10 does not fit into Descriptor.version (bits 3:0)")]
    fn with_panics_on_our_own_mistakes() {
        let _ = Descriptor::ZERO.with(Descriptor::version, 16);
    }

    #[test]
    fn fields_cross_dwords() {
        let d = Descriptor::ZERO.with(Descriptor::address, 0xff_1234_567f);
        assert_eq!(d.bits(), [0xf000_0000, 0xf123_4567, 0xf]);
        assert_eq!(d.get(Descriptor::address), 0xff_1234_567f);
        let d = d
            .with(Descriptor::all, u64::MAX)
            .with(Descriptor::version, 3);
        assert_eq!(d.bits(), [0xf000_0003, u32::MAX, u32::MAX]);
        assert_eq!(d.get(Descriptor::all), u64::MAX);
        assert!(format!("{d:?}").starts_with("Descriptor { version: 0x3, address: 0x"));
        let pde = DualPde::ZERO
            .with(DualPde::small, 0x12)
            .with(DualPde::big, 0x34);
        assert_eq!(pde.bits(), 0x12 << 76 | 0x34 << 8);
        assert_eq!(pde.get(DualPde::small), 0x12);
    }

    #[test]
    fn io_reads_writes_and_updates() {
        let window = Window::mapped("BAR5", View::alloc(0x100, 8).unwrap());
        let io = Io::new(&window, &Map);
        io.write(0, WPR2_HI::ZERO.with(WPR2_HI::hi_val, 5)).unwrap();
        assert_eq!(window.read::<u32>(0x40).unwrap(), 0x50);
        let r = io.update::<WPR2_HI>(0, |r| r.with(WPR2_HI::hi_val, r.get(WPR2_HI::hi_val) + 1));
        assert_eq!(r.unwrap().bits(), 0x60);
        io.write_at(0, 3, SCRATCH::from_bits(9)).unwrap();
        assert_eq!(io.read_at::<SCRATCH>(0, 3).unwrap().get(SCRATCH::value), 9);
        assert_eq!(window.read::<u32>(0x40).unwrap(), 0x60);
        let small = Window::mapped("BAR5", View::alloc(0x10, 8).unwrap());
        let error = Io::new(&small, &Map).read::<WPR2_HI>(0).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("WPR2_HI: BAR5: read 0x4 bytes at 0x40: ")
        );
    }

    proptest! {
        #[test]
        fn arrays_set_only_their_bits(
            words in any::<[u32; 4]>(), lo in 0u32..128, width in 1u32..=64, value: u64,
        ) {
            let hi = (lo + width - 1).min(127);
            let value = value & ones(hi - lo + 1);
            let mut changed = words;
            changed.set_field(hi, lo, value);
            prop_assert_eq!(changed.field(hi, lo), value);
            let wide = |w: [u32; 4]| (0..4).fold(0u128, |v, i| v | u128::from(w[i]) << (32 * i));
            let mask = u128::from(ones(hi - lo + 1)) << lo;
            prop_assert_eq!(wide(changed) & !mask, wide(words) & !mask);
            prop_assert_eq!(wide(changed) & mask, u128::from(value) << lo);
            let mut as_u128 = wide(words);
            as_u128.set_field(hi, lo, value);
            prop_assert_eq!(as_u128, wide(changed));
        }
    }
}
