//! How the structs of the interface are written: once, for every branch of the driver.
//!
//! NVIDIA's kernel driver checks the size of what it is handed, negotiates nothing, and changes structs
//! from branch to branch. So a struct here has every field that it has had in any branch of [`Branch`],
//! and its [`Layout`] says which branch has which. Where a field lies in a branch follows from the rules
//! of C for the fields that are there; tests compare that with the headers of each branch. A driver
//! encodes for the branch that runs, a model decodes the branch that it stands for, and both name the
//! same fields.

use std::fmt;

use hcq::reg::Generations;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A branch of the driver: what its releases have in common, with its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Branch {
    /// 535, the long-term branch that Debian 12 has.
    R535,
    /// 550, of Debian 13.
    R550,
    /// 570.
    R570,
    /// 580, the long-term branch of 2025.
    R580,
}

impl Branch {
    /// Every branch, oldest first.
    pub const ALL: [Branch; 4] = [Branch::R535, Branch::R550, Branch::R570, Branch::R580];

    /// The number that versions begin with, and the first of its releases that the tables describe: some
    /// before had other structs (535.54 a shorter one for channels). Compared with the headers were
    /// 535.86.05, .104.05, .183.01, .261.03, .288.01; 550.54.14, .90.07, .163.01; 570.86.15, .124.04,
    /// .211.01; 580.65.06, .105.08, .142.
    const fn first(self) -> (u32, u32) {
        match self {
            Branch::R535 => (535, 86),
            Branch::R550 => (550, 54),
            Branch::R570 => (570, 86),
            Branch::R580 => (580, 65),
        }
    }

    /// The number that versions begin with.
    pub const fn number(self) -> u32 {
        self.first().0
    }

    /// The branch of a version as the driver says it, `580.65.06`. None for one that is not described
    /// here, between two of these too: a layout is never guessed.
    pub fn of(version: &str) -> Option<Branch> {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let (number, release) = (parts.next()??, parts.next()??);
        let known = |one: &Branch| number == one.number() && release >= one.first().1;
        let branch = Branch::ALL.into_iter().find(known);
        branch.filter(|_| parts.all(|part| part.is_some()))
    }

    /// The branch to try for a version that is not described: the newest one that is not newer. None for
    /// one that is older than all of them, or is no version.
    pub fn nearest(version: &str) -> Option<Branch> {
        let number: u32 = version.split('.').next()?.parse().ok()?;
        let older = |one: &&Branch| one.number() <= number;
        Branch::ALL.iter().rev().find(older).copied()
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// A set of branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branches(u8);

impl Branches {
    /// Only 535.
    pub const R535: Self = Self(0b0001);
    /// Only 550.
    pub const R550: Self = Self(0b0010);
    /// Only 570.
    pub const R570: Self = Self(0b0100);
    /// 535 and 550.
    pub const TO_550: Self = Self(0b0011);
    /// 550 and 570.
    pub const R550_TO_570: Self = Self(0b0110);
    /// 535 to 570.
    pub const TO_570: Self = Self(0b0111);
    /// 550 and newer.
    pub const FROM_550: Self = Self(0b1110);
    /// 570 and newer.
    pub const FROM_570: Self = Self(0b1100);
    /// 580.
    pub const FROM_580: Self = Self(0b1000);
    /// Every branch.
    pub const ALL: Self = Self(0b1111);

    /// Whether `branch` is one of them.
    pub const fn has(self, branch: Branch) -> bool {
        self.0 & (1 << branch as u8) != 0
    }
}

impl Generations for Branches {
    type One = Branch;

    const ALL: Self = Branches::ALL;

    fn has(self, one: Branch) -> bool {
        Branches::has(self, one)
    }
}

/// A field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in the header; empty for what fills a gap of ours.
    pub name: &'static str,
    /// Where it lies in our struct.
    pub ours: usize,
    /// Bytes in our struct.
    pub size: usize,
    /// What its offset is a multiple of.
    pub align: usize,
    /// The branches that have it.
    pub on: Branches,
    /// Branches in which an array is shorter, with its bytes there.
    pub shorter: &'static [(Branches, usize)],
}

impl Field {
    /// Its bytes in a branch; 0 where it is not there.
    pub const fn size_in(&self, branch: Branch) -> usize {
        if !self.on.has(branch) || self.name.is_empty() {
            return 0;
        }
        let mut i = 0;
        while i < self.shorter.len() {
            if self.shorter[i].0.has(branch) {
                return self.shorter[i].1;
            }
            i += 1;
        }
        self.size
    }
}

/// What lies behind an address in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The field with the address.
    pub at: &'static str,
    /// The field with the number of elements; none where it is always one.
    pub count: Option<&'static str>,
    /// Bytes of an element.
    pub element: usize,
}

/// A field as it lies in a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The name in the header.
    pub name: &'static str,
    /// Where it lies in our struct.
    pub ours: usize,
    /// Where it lies in the branch.
    pub at: usize,
    /// Its bytes in the branch.
    pub size: usize,
}

/// A struct in every branch.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The name of the type in the header.
    pub name: &'static str,
    /// The branches that have it.
    pub on: Branches,
    /// Its fields, in order.
    pub fields: &'static [Field],
    /// The addresses in it that the kernel itself reads or writes through.
    pub pointers: &'static [Pointer],
}

impl Layout {
    /// Its bytes in a branch; 0 where the branch does not have it.
    pub const fn size(&self, branch: Branch) -> usize {
        if !self.on.has(branch) {
            return 0;
        }
        let (mut end, mut align, mut i) = (0, 1, 0);
        while i < self.fields.len() {
            let field = &self.fields[i];
            let bytes = field.size_in(branch);
            if bytes > 0 {
                end = up(end, field.align) + bytes;
                align = if field.align > align {
                    field.align
                } else {
                    align
                };
            }
            i += 1;
        }
        up(end, align)
    }

    /// Its fields in a branch.
    pub fn fields(&self, branch: Branch) -> impl Iterator<Item = Placed> + use<> {
        let on = self.on.has(branch);
        let mut end = 0;
        self.fields
            .iter()
            .filter(move |_| on)
            .filter_map(move |field| {
                let size = field.size_in(branch);
                if size == 0 {
                    return None;
                }
                let at = up(end, field.align);
                end = at + size;
                Some(Placed {
                    name: field.name,
                    ours: field.ours,
                    at,
                    size,
                })
            })
    }
}

/// The next multiple.
const fn up(value: usize, align: usize) -> usize {
    value.next_multiple_of(align)
}

/// A struct of the interface: bytes of a branch become one, and the other way round.
pub trait Struct: FromBytes + IntoBytes + Immutable + Sized {
    /// What it is in every branch.
    const LAYOUT: Layout;

    /// As the branch has it. Fields that the branch does not have, and elements beyond the end of its
    /// arrays, are left out.
    fn encode(&self, branch: Branch) -> Vec<u8> {
        let mut bytes = vec![0; Self::LAYOUT.size(branch)];
        for field in Self::LAYOUT.fields(branch) {
            let ours = &self.as_bytes()[field.ours..][..field.size];
            bytes[field.at..][..field.size].copy_from_slice(ours);
        }
        bytes
    }

    /// From a branch's bytes. What the branch does not have is zero.
    ///
    /// # Errors
    /// [`WrongSize`] for bytes that are not as many as the branch's struct has, and for a branch that
    /// does not have the struct.
    fn decode(branch: Branch, bytes: &[u8]) -> Result<Self, WrongSize> {
        let expected = Self::LAYOUT.size(branch);
        if bytes.len() != expected || expected == 0 {
            return Err(WrongSize {
                name: Self::LAYOUT.name,
                branch,
                expected,
                found: bytes.len(),
            });
        }
        let mut value = Self::new_zeroed();
        let ours = value.as_mut_bytes();
        for field in Self::LAYOUT.fields(branch) {
            let theirs = &bytes[field.at..][..field.size];
            ours[field.ours..][..field.size].copy_from_slice(theirs);
        }
        Ok(value)
    }
}

/// Bytes that are no such struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongSize {
    /// The struct.
    pub name: &'static str,
    /// The branch.
    pub branch: Branch,
    /// Its bytes there; 0 where the branch does not have it.
    pub expected: usize,
    /// How many there were.
    pub found: usize,
}

impl fmt::Display for WrongSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongSize {
            name,
            branch,
            expected,
            found,
        } = self;
        match expected {
            0 => write!(
                f,
                "driver branch {branch} has no {name}; expected it unused, found {found} bytes"
            ),
            _ => write!(
                f,
                "{name}: expected {expected} bytes (driver branch {branch}), found {found}"
            ),
        }
    }
}

impl std::error::Error for WrongSize {}

/// A number of the interface, and the struct that goes with it: an escape, a control, a class, a command
/// of UVM.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The name in the header.
    pub name: &'static str,
    /// The number.
    pub number: u32,
    /// The branches that have it.
    pub on: Branches,
    /// Its struct; none where it takes none, or a bare handle, as the classes of clients may.
    pub layout: Option<&'static Layout>,
}

/// The call with a number in a table, on a branch.
pub fn find(table: &'static [Call], branch: Branch, number: u32) -> Option<&'static Call> {
    let mut on = table.iter().filter(|call| call.on.has(branch));
    on.find(|call| call.number == number)
}

/// Structs, each with the type's name in the header; fields with theirs. `where` says which branches
/// have a field or struct, `[R570 100]` that an array has 100 elements there; what follows an arrow is what addresses
/// lead to.
macro_rules! structs {
    ($table:ident; $(
        $(#[$doc:meta])*
        $name:ident $c:literal $(where $on:ident)? {
            $($(#[$fdoc:meta])* $field:ident $cname:literal: $ty:ty
                $(where $fon:ident)? $([$($short:ident $len:literal),*])?,)*
        } $(=> {$($at:literal [$element:ty] $($count:literal)?),*})?
    )*) => {
        $(
            $(#[$doc])*
            #[derive(
                Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes,
                zerocopy::Immutable,
            )]
            #[repr(C)]
            pub struct $name {
                $(#[doc = concat!("`", $cname, "`.")] $(#[$fdoc])* pub $field: $ty,)*
            }

            impl Default for $name {
                /// Zeros.
                fn default() -> Self {
                    zerocopy::FromZeros::new_zeroed()
                }
            }

            impl $crate::nv::abi::Struct for $name {
                const LAYOUT: $crate::nv::abi::Layout = $crate::nv::abi::Layout {
                    name: $c,
                    on: $crate::nv::abi::structs!(@on $($on)?),
                    fields: &[$($crate::nv::abi::Field {
                        name: $cname,
                        ours: core::mem::offset_of!($name, $field),
                        size: size_of::<$ty>(),
                        align: align_of::<$ty>(),
                        on: $crate::nv::abi::structs!(@on $($fon)?),
                        shorter: &[$($((
                            $crate::nv::abi::Branches::$short,
                            $len * $crate::nv::abi::element(|all: &$name| &all.$field),
                        ),)*)?],
                    },)*],
                    pointers: &[$($($crate::nv::abi::Pointer {
                        at: $at,
                        count: $crate::nv::abi::structs!(@count $($count)?),
                        element: size_of::<$element>(),
                    },)*)?],
                };
            }
        )*

        /// Every struct of this file.
        pub const $table: &[&$crate::nv::abi::Layout] =
            &[$(&<$name as $crate::nv::abi::Struct>::LAYOUT,)*];
    };
    (@on) => { $crate::nv::abi::Branches::ALL };
    (@on $on:ident) => { $crate::nv::abi::Branches::$on };
    (@count) => { None };
    (@count $count:literal) => { Some($count) };
}

/// Calls as constants and as a table: name, number, the struct, `where` only some branches have it.
macro_rules! calls {
    ($(#[$tdoc:meta])* $table:ident, $prefix:literal; $(
        $(#[$doc:meta])*
        $name:ident $($cname:literal)? = $number:literal $(: $ty:ty)? $(where $on:ident)?;
    )*) => {
        $(
            $(#[$doc])*
            #[doc = concat!("`", $crate::nv::abi::calls!(@name $prefix $name $($cname)?), "`.")]
            pub const $name: $crate::nv::abi::Call = $crate::nv::abi::Call {
                name: $crate::nv::abi::calls!(@name $prefix $name $($cname)?),
                number: $number,
                on: $crate::nv::abi::structs!(@on $($on)?),
                layout: $crate::nv::abi::calls!(@layout $($ty)?),
            };
        )*

        $(#[$tdoc])*
        pub const $table: &[$crate::nv::abi::Call] = &[$($name,)*];
    };
    (@name $prefix:literal $name:ident) => { concat!($prefix, stringify!($name)) };
    (@name $prefix:literal $name:ident $cname:literal) => { $cname };
    (@layout) => { None };
    (@layout $ty:ty) => { Some(&<$ty as $crate::nv::abi::Struct>::LAYOUT) };
}

/// Bytes of an element of an array.
pub(crate) const fn element<S, T, const N: usize>(_: fn(&S) -> &[T; N]) -> usize {
    size_of::<T>()
}

pub(crate) use {calls, structs};

#[cfg(test)]
mod tests {
    use super::super::class::ChannelAlloc;
    use super::super::control::{CeAllCaps, ClassListV2, GpfifoSchedule};
    use super::super::escape::{self, MapMemoryDma, UnmapMemoryDma, WaitOpenComplete};
    use super::super::{class, control, gsp, pci_rm, query, shared, uvm};
    use super::*;

    /// Every struct.
    fn layouts() -> impl Iterator<Item = &'static Layout> {
        let all = [
            escape::LAYOUTS,
            class::LAYOUTS,
            control::LAYOUTS,
            gsp::LAYOUTS,
            pci_rm::LAYOUTS,
            query::LAYOUTS,
            shared::LAYOUTS,
            uvm::LAYOUTS,
        ];
        all.into_iter().flatten().copied()
    }

    #[test]
    fn an_unknown_version_has_a_branch_that_is_near() {
        let near = [
            "610.43.02",
            "590.44.01",
            "580.1",
            "560.1",
            "545.29",
            "530.41",
            "x",
            "",
        ];
        let found = near.map(Branch::nearest);
        let newest = Some(Branch::R580);
        let rest = [Some(Branch::R550), Some(Branch::R535), None, None, None];
        assert_eq!(found[..3], [newest; 3]);
        assert_eq!(found[3..], rest);
    }

    #[test]
    fn versions_name_their_branch_or_none() {
        assert_eq!(Branch::of("535.261.03"), Some(Branch::R535));
        assert_eq!(Branch::of("550.163.01"), Some(Branch::R550));
        assert_eq!(Branch::of("570.86.15"), Some(Branch::R570));
        assert_eq!(Branch::of("580.142"), Some(Branch::R580));
        // Betas, branches between, newer ones, and what is no version.
        for other in [
            "535.54.03",
            "550.40.07",
            "575.64",
            "590.48.01",
            "580",
            "580.",
            "580.x",
            "58.65",
            "580.65.06 ",
        ] {
            assert_eq!(Branch::of(other), None, "{other}");
        }
    }

    #[test]
    fn fields_move_with_what_is_before_them() {
        let map = MapMemoryDma {
            h_client: 1,
            flags: 0x8110,
            flags2: 7,
            dma_offset: 0x10_0000_0000,
            status: 0x1f,
            ..MapMemoryDma::default()
        };
        let old = map.encode(Branch::R570);
        let new = map.encode(Branch::R580);
        assert_eq!((old.len(), new.len()), (0x38, 0x40));
        assert_eq!(old[0x28..0x30], new[0x30..0x38]);
        assert_eq!((old[0x30], new[0x38], new[0x24]), (0x1f, 0x1f, 7));
        assert_eq!(MapMemoryDma::decode(Branch::R580, &new), Ok(map));
        let without = MapMemoryDma { flags2: 0, ..map };
        assert_eq!(MapMemoryDma::decode(Branch::R570, &old), Ok(without));
    }

    #[test]
    fn sizes_of_branches() {
        let size = |layout: &Layout| Branch::ALL.map(|branch| layout.size(branch));
        assert_eq!(size(&ChannelAlloc::LAYOUT), [0x168, 0x168, 0x170, 0x170]);
        assert_eq!(size(&UnmapMemoryDma::LAYOUT), [0x28, 0x30, 0x30, 0x30]);
        assert_eq!(size(&ClassListV2::LAYOUT), [0x284, 0x2bc, 0x194, 0x324]);
        assert_eq!(size(&GpfifoSchedule::LAYOUT), [2, 2, 2, 3]);
        assert_eq!(size(&CeAllCaps::LAYOUT), [0x44, 0x88, 0x88, 0x88]);
        // As compilers have it with the header of each.
        assert_eq!(size(&shared::SharedData::LAYOUT), [16, 320, 464, 2600]);
        assert_eq!(
            size(&uvm::MapExternalAllocation::LAYOUT),
            [0x4b0, 0x2430, 0x2430, 0x2430]
        );
    }

    #[test]
    fn other_sizes_are_refused_by_name() {
        let error = MapMemoryDma::decode(Branch::R580, &[0; 0x38]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "NVOS46_PARAMETERS: expected 64 bytes (driver branch 580), found 56"
        );
        let error = WaitOpenComplete::decode(Branch::R535, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "driver branch 535 has no nv_ioctl_wait_open_complete_t; expected it unused, found 0 bytes"
        );
    }

    /// Where a branch has every field, with every element, it has our struct: the compiler's layout and
    /// the one that follows from the table are the same.
    #[test]
    fn a_branch_with_everything_has_our_struct() {
        let mut compared = 0;
        for layout in layouts() {
            let whole = |branch: &Branch| {
                let fields = layout.fields.iter().filter(|field| !field.name.is_empty());
                layout.on.has(*branch) && fields.clone().all(|f| f.size_in(*branch) == f.size)
            };
            for branch in Branch::ALL.into_iter().filter(whole) {
                let moved = layout.fields(branch).find(|field| field.at != field.ours);
                assert_eq!(moved, None, "{}", layout.name);
                let last = layout.fields.last().map_or(0, |f| f.ours + f.size);
                assert_eq!(layout.size(branch), last, "{}", layout.name);
                compared += 1;
            }
        }
        assert!(compared > 250, "{compared}");
    }

    #[test]
    fn every_struct_has_a_branch_and_every_pointer_a_field() {
        for layout in layouts() {
            let mut sizes = Branch::ALL.map(|branch| layout.size(branch)).into_iter();
            assert!(sizes.any(|size| size > 0), "{}", layout.name);
            for pointer in layout.pointers {
                let has = |name: &str| layout.fields.iter().any(|field| field.name == name);
                assert!(
                    has(pointer.at) && pointer.count.is_none_or(has),
                    "{}",
                    layout.name
                );
            }
        }
    }

    #[test]
    fn requests_are_found_by_number_and_size() {
        let name = |branch, request| escape::of_request(branch, request).map(|call| call.name);
        let map = Some("NV_ESC_RM_MAP_MEMORY_DMA");
        assert_eq!(name(Branch::R580, 0xc040_4657), map);
        assert_eq!(name(Branch::R580, 0xc038_4657), None);
        assert_eq!(name(Branch::R570, 0xc038_4657), map);
        // Both forms of RM_ALLOC, and an array of any length.
        let size = |request| {
            let call = escape::of_request(Branch::R580, request)?;
            Some(call.layout?.size(Branch::R580))
        };
        assert_eq!(
            (size(0xc020_462b), size(0xc030_462b)),
            (Some(0x20), Some(0x30))
        );
        assert_eq!(size(0xd200_46c8), Some(0x48));
        assert_eq!(size(0xc049_46c8), None);
        let ioctl = escape::ioctl(&escape::RM_CONTROL, Branch::R535).unwrap();
        assert_eq!(ioctl.request, 0xc020_462a);
        assert!(escape::ioctl(&escape::WAIT_OPEN_COMPLETE, Branch::R535).is_none());
        let token = find(control::CONTROLS, Branch::R580, 0xc36f_0108).unwrap();
        assert_eq!(token.layout.unwrap().size(Branch::R580), 4);
        assert!(find(class::CLASSES, Branch::R550, 0xcec0).is_none());
        let uvm = find(uvm::COMMANDS, Branch::R550, 0x21).unwrap();
        assert_eq!(uvm.name, "UVM_MAP_EXTERNAL_ALLOCATION");
    }
}
