//! How the tables of ioctls are written: structs that know their C name and layout, and request
//! codes.
//!
//! Source: Linux, include/uapi/asm-generic/ioctl.h: a request is direction (2 bits), size (14),
//! type (8), number (8).

/// A field of a C struct, as it lies here.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in the header.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// A C struct, as it lies here. Tests compare it with the kernel's header.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The name in the header, without `struct`.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// The fields.
    pub fields: &'static [Field],
}

/// An ioctl: its name in the header, and its request code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ioctl {
    /// The name in the header.
    pub name: &'static str,
    /// The request code, with the size of the argument of the newest header.
    pub request: u32,
}

impl Ioctl {
    /// The number.
    pub const fn nr(self) -> u32 {
        nr(self.request)
    }

    /// Bytes of the argument.
    pub const fn size(self) -> usize {
        size(self.request)
    }

    /// The kernel reads the argument.
    pub const fn reads(self) -> bool {
        self.request & WRITE != 0
    }

    /// The kernel writes the argument.
    pub const fn writes(self) -> bool {
        self.request & READ != 0
    }
}

/// The client writes, the kernel reads (`_IOW`).
pub const WRITE: u32 = 1 << 30;
/// The client reads, the kernel writes (`_IOR`).
pub const READ: u32 = 2 << 30;

/// The number in a request.
pub const fn nr(request: u32) -> u32 {
    request & 0xff
}

/// The type in a request.
pub const fn kind(request: u32) -> u8 {
    (request >> 8) as u8
}

/// The size in a request.
pub const fn size(request: u32) -> usize {
    (request >> 16 & 0x3fff) as usize
}

/// A request.
pub const fn request(direction: u32, kind: u8, nr: u32, size: usize) -> u32 {
    direction | (size as u32) << 16 | (kind as u32) << 8 | nr
}

/// Structs with their C names. `field = "Name"` where the header's name is not in snake case.
macro_rules! structs {
    ($table:ident; $(
        $(#[$doc:meta])*
        $name:ident = $c:literal {
            $($(#[$fdoc:meta])* $field:ident $(= $cname:literal)? : $ty:ty,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(
                Clone, Copy, Debug, Default, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes,
                zerocopy::Immutable, zerocopy::KnownLayout,
            )]
            #[repr(C)]
            pub struct $name {
                $($(#[$fdoc])* pub $field: $ty,)*
            }
        )*

        /// Every struct, with its name and layout.
        pub const $table: &[$crate::amd::uapi::Layout] = &[$(
            $crate::amd::uapi::Layout {
                name: $c,
                size: size_of::<$name>(),
                fields: &[$($crate::amd::uapi::Field {
                    name: $crate::amd::uapi::field_name!($field $($cname)?),
                    offset: core::mem::offset_of!($name, $field),
                    size: size_of::<$ty>(),
                },)*],
            },
        )*];
    };
}

/// The header's name of a field.
macro_rules! field_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// Ioctls of one type, as constants and as a table.
macro_rules! ioctls {
    ($table:ident, $kind:literal, $prefix:literal; $(
        $(#[$doc:meta])* $name:ident = $direction:ident $nr:literal $ty:ty,
    )*) => {
        $(
            $(#[$doc])*
            pub const $name: $crate::amd::uapi::Ioctl = $crate::amd::uapi::Ioctl {
                name: concat!($prefix, stringify!($name)),
                request: $crate::amd::uapi::request(
                    $crate::amd::uapi::direction!($direction), $kind, $nr, size_of::<$ty>(),
                ),
            };
        )*

        /// Every ioctl of this file.
        pub const $table: &[$crate::amd::uapi::Ioctl] = &[$($name,)*];
    };
}

/// `IOR`, `IOW`, `IOWR`.
macro_rules! direction {
    (IOR) => {
        $crate::amd::uapi::READ
    };
    (IOW) => {
        $crate::amd::uapi::WRITE
    };
    (IOWR) => {
        $crate::amd::uapi::READ | $crate::amd::uapi::WRITE
    };
}

pub(crate) use {direction, field_name, ioctls, structs};
