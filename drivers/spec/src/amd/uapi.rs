//! How the tables of ioctls are written: structs that know their C name and layout, and ioctls that
//! know their struct.

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

/// Ioctls of one type, as constants and as a table. Behind the argument: the fields with an address, the
/// field with the number of elements there, and the element; or that nobody has described them.
macro_rules! ioctls {
    ($table:ident, $kind:literal, $prefix:literal; $(
        $(#[$doc:meta])*
        $name:ident = $direction:ident $nr:literal $ty:ident $([$($pointers:tt)*])?,
    )*) => {
        $(
            $(#[$doc])*
            pub const $name: hcq::transport::IoctlOf<$ty> = $crate::amd::uapi::ioctl!(
                $ty [$($($pointers)*)?] hcq::transport::Ioctl::new(
                    concat!($prefix, stringify!($name)),
                    $crate::amd::uapi::direction!($direction),
                    $kind,
                    $nr,
                    size_of::<$ty>(),
                )
            );
        )*

        /// Every ioctl of this file.
        pub const $table: &[hcq::transport::Ioctl] = &[$($name.ioctl(),)*];
    };
}

/// One ioctl, with the addresses in its argument.
macro_rules! ioctl {
    ($ty:ident [undescribed] $ioctl:expr) => {
        hcq::transport::IoctlOf::undescribed($ioctl)
    };
    ($ty:ident [$($at:ident: $count:ident of $element:ty),*] $ioctl:expr) => {{
        const POINTERS: &[hcq::transport::ioctl::Pointer] = &[$(
            hcq::transport::ioctl::Pointer {
                at: core::mem::offset_of!($ty, $at),
                count_at: core::mem::offset_of!($ty, $count),
                count_bytes: $crate::amd::uapi::bytes_of(|args: &$ty| &args.$count),
                element: size_of::<$element>(),
            },
        )*];
        // SAFETY: a row of the kernel's header, whose layout `tests/kernel_headers.rs` compares; the
        // fields that the kernel itself reads or writes through are those of the row.
        #[allow(unsafe_code)]
        unsafe {
            hcq::transport::IoctlOf::new($ioctl, POINTERS)
        }
    }};
}

/// Bytes of a field.
pub(crate) const fn bytes_of<S, T>(_: fn(&S) -> &T) -> usize {
    size_of::<T>()
}

/// `IOR`, `IOW`, `IOWR`.
macro_rules! direction {
    (IOR) => {
        hcq::transport::Ioctl::READ
    };
    (IOW) => {
        hcq::transport::Ioctl::WRITE
    };
    (IOWR) => {
        hcq::transport::Ioctl::READ | hcq::transport::Ioctl::WRITE
    };
}

pub(crate) use {direction, field_name, ioctl, ioctls, structs};
