//! How dwords are written: fields and their values in a module for each dword, as [`hcq::reg`] has them.

/// Declares dwords: a constant for each, and a module with its fields and their values. `G` is the set
/// of branches or generations; `on` says where a field exists; a field that lies elsewhere in some of
/// them has a row for each, with the vendor's name behind it.
macro_rules! words {
    ($set:ty; $($(#[$doc:meta])* $word:ident $module:ident $name:literal $(on $on:ident)? {
        $($field:ident $(as $cname:literal)? $high:literal $low:literal $(on $fon:ident)?
            $({$($value:ident = $number:literal),* $(,)?})?;)*
    })*) => {$(
        $(#[$doc])*
        #[doc = concat!("`", $name, "`.")]
        pub const $word: hcq::reg::Word<$set> = hcq::reg::Word {
            name: $name,
            fields: &[$($module::$field),*],
            on: $crate::nv::words::words!(@on $set, $($on)?),
        };

        #[doc = concat!("Fields and values of `", $name, "`.")]
        pub mod $module {
            #[allow(unused_imports)] // A dword of one field has nothing that needs them.
            use super::*;
            $(
                #[doc = concat!("Bits ", $high, ":", $low, ".")]
                pub const $field: hcq::reg::Field<$set> = hcq::reg::Field {
                    name: $crate::nv::words::words!(@name $field $($cname)?),
                    high: $high,
                    low: $low,
                    on: $crate::nv::words::words!(@on $set, $($fon)?),
                };
                $($(
                    #[doc = concat!("Of `", stringify!($field), "`.")]
                    pub const $value: u32 = $number;
                )*)?
            )*
        }
    )*};
    (@on $set:ty,) => { <$set>::ALL };
    (@on $set:ty, $on:ident) => { <$set>::$on };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}

pub(crate) use words;
