//! How dwords are written: fields and their values in a module for each dword, as [`hcq::reg`] has them.

/// Declares dwords: a constant for each, and a module with its fields and their values. First the set of
/// branches or generations; `on` says where a field exists. A field that lies elsewhere in some of them
/// has a row for each, and the vendor's name behind `as`.
macro_rules! words {
    ($set:ty; $($(#[$doc:meta])* $word:ident $module:ident $name:literal {
        $($field:ident $(as $cname:literal)? $high:literal $low:literal $(on $fon:ident)?
            $({$($value:ident = $number:literal),* $(,)?})?;)*
    })*) => {$(
        $(#[$doc])*
        #[doc = concat!("`", $name, "`.")]
        pub const $word: hcq::reg::Word<$set> = hcq::reg::Word {
            name: $name,
            fields: &[$($module::$field),*],
            on: <$set>::ALL,
        };

        $crate::nv::words::fields! { $set, $module, $name;
            $($field $(as $cname)? $high $low $(on $fon)? $({$($value = $number),*})?;)*
        }
    )*};
}

/// The module of a dword.
macro_rules! fields {
    ($set:ty, $module:ident, $name:expr;
        $($field:ident $(as $cname:literal)? $high:literal $low:literal $(on $fon:ident)?
            $({$($value:ident = $number:literal),*})?;)*
    ) => {
        #[doc = concat!("Fields and values of `", $name, "`.")]
        pub mod $module {
            #[allow(unused_imports)] // Where the set is named from the root.
            use super::*;
            $(
                #[doc = concat!("Bits ", $high, ":", $low, ".")]
                pub const $field: hcq::reg::Field<$set> = hcq::reg::Field {
                    name: $crate::nv::words::fields!(@name $field $($cname)?),
                    high: $high,
                    low: $low,
                    on: $crate::nv::words::fields!(@on $set, $($fon)?),
                };
                $($(
                    #[doc = concat!("Of `", stringify!($field), "`.")]
                    pub const $value: u32 = $number;
                )*)?
            )*
        }
    };
    (@on $set:ty,) => { <$set>::ALL };
    (@on $set:ty, $on:ident) => { <$set>::$on };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

/// Declares methods, in the order of their addresses: address in bytes, `[n]` for n in a row, behind `@` the
/// generations that have it; without fields it takes 32 bits of one meaning.
macro_rules! methods {
    ($(#[$tdoc:meta])* $table:ident; $($(#[$doc:meta])* $method:ident $(as $mname:literal)? $address:literal
        $([$count:literal])? $(@$on:ident)? $($module:ident {
            $($field:ident $(as $cname:literal)? $high:literal $low:literal $(on $fon:ident)?
                $({$($value:ident = $number:literal),* $(,)?})?;)*
        })?;)*
    ) => {
        $(
            $(#[$doc])*
            #[doc = concat!("`", stringify!($method), "`.")]
            pub const $method: $crate::nv::chip::Method = $crate::nv::chip::Method {
                register: hcq::reg::Register {
                    word: hcq::reg::Word {
                        name: $crate::nv::words::fields!(@name $method $($mname)?),
                        fields: &[$($($module::$field),*)?],
                        on: $crate::nv::words::fields!(@on $crate::nv::chip::Archs, $($on)?),
                    },
                    at: hcq::reg::At::Fixed($address / 4),
                },
                count: $crate::nv::words::methods!(@count $($count)?),
                values: &[$($($($((stringify!($value), $number),)*)?)*)?],
            };

            $($crate::nv::words::fields! { $crate::nv::chip::Archs, $module, stringify!($method);
                $($field $(as $cname)? $high $low $(on $fon)? $({$($value = $number),*})?;)*
            })?
        )*

        $(#[$tdoc])*
        pub const $table: &[$crate::nv::chip::Method] = &[$($method,)*];
    };
    (@count) => { 1 };
    (@count $count:literal) => { $count };
}

pub(crate) use {fields, methods, words};
