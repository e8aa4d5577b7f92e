//! Forms: which fields the words of a kind of instruction have, and how its text is put together.
//!
//! Source of all: Mesa 25.2 `src/freedreno/isa/ir3-*.xml`, for generation 600. Fields that no text shows are left
//! out or are `Fixed`: words where they differ are refused.

use super::modifier::Flags;
use crate::encoding::Field;

/// How an operand is written into its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A register in 8 bits.
    Reg,
    /// A register that is called r61 or r62, where others are called a0 and p0.
    PlainReg,
    /// A predicate: the component of p0.
    Predicate,
    /// 16 bits: register, relative, constant, integer or float of the table.
    Any,
    /// 13 bits: register, relative, or what bit 12 says.
    Three(Bit12),
    /// A constant in 11 bits.
    Const,
    /// A relative register in 10 bits.
    RelReg,
    /// A relative constant in 10 bits.
    RelConst,
    /// A register or, if the bit of `DstRel` is set, a relative register of 8 bits without sign.
    MovDst,
    /// 32 bits, whose type is that of the source.
    Bits,
    /// A register or, if the field of [`Slot::IsImm`] is set, a number without sign.
    RegOrImm,
    /// A register or, in mode imm, a number without sign.
    Descriptor,
    /// A constant that is stored to: 8 bits, and one for an index by a1.x.
    Store,
    /// A number of instructions from this one.
    Branch,
    /// A fiber: 7 bits, and one that says a0.x instead.
    Fiber,
}

/// What bit 12 of a source of category 3 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bit12 {
    /// A constant.
    Const,
    /// An integer without sign.
    Imm,
    /// Nothing: Mesa has no text for it.
    Nothing,
}

/// Where it says whether an operand has 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// It has 32.
    Full,
    /// The bit FULL, or the row.
    Sources,
    /// The bits FULL and DST_CONV; always 32 for p0 and above.
    Converted,
    /// The bit DST_FULL.
    Dest,
    /// The type.
    Ty,
    /// The type of the result of a mov, where u8_32 counts as 16 bits.
    MovTy,
    /// The type of the source of a mov.
    MovSrcTy,
}

/// What a field of a word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A flag.
    Flag(Flags),
    /// A flag whose bit is inverted.
    NotFlag(Flags),
    /// How often the instruction repeats.
    Repeat,
    /// [`Mods::round`](super::modifier::Mods::round), and others of the same name.
    Round,
    Cond,
    Ty,
    SrcTy,
    Mask,
    /// One less than the dimensions.
    Dims,
    Count,
    /// One less than the count.
    CountLessOne,
    /// An offset with a sign.
    Offset,
    /// The low and the high bits of one with a sign.
    OffsetLow,
    OffsetHigh,
    /// An offset without a sign.
    UOffset,
    /// The low 5 and the high 2 bits of one without.
    UOffsetLow,
    UOffsetHigh,
    /// Whether there is an offset.
    HasOffset,
    Shift,
    Mode,
    Bindless,
    Base,
    Desc,
    /// The low bit of a base, and the others.
    BaseLow,
    BaseHigh,
    Sampler,
    Texture,
    /// The indices, or the register that holds them.
    Indices,
    /// The binary logarithm of the width, less one.
    WidthLog,
    /// The width, in words of 32, less one.
    WidthWords,
    Index,
    Shuffle,
    /// The (r) of a source.
    Advances(u8),
    /// The (neg) of a source.
    Neg(u8),
    /// The (last) of a source, where it is not part of the kind.
    Last(u8),
    /// Whether the sources have 32 bits.
    Full,
    /// Whether the result has another size than the sources.
    Conv,
    /// Whether the result has 32 bits.
    DstFull,
    /// Whether the destination of a mov is relative.
    DstRel,
    /// Whether a source is a number.
    IsImm(u8),
    Dst(u8, Kind, Size),
    Src(u8, Kind, Size),
    /// A source of a texture instruction: there if the row has so many.
    TexSrc(u8),
    /// What no text shows: always that.
    Fixed(u64),
}

/// A piece of the text that follows the mnemonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// This text.
    Text(&'static str),
    /// A text if a flag is set, and one if not.
    Flag(Flags, &'static str, &'static str),
    /// The types of a mov; none for mova.
    MovTypes,
    /// The destination of a mov; a0.x and a1.x for mova.
    MovDst,
    /// The source of a mov.
    MovSrc,
    Ty,
    /// The same where type 6 is u64.
    AtomicTy,
    Cond,
    Round,
    Dims,
    Count,
    Width,
    Index,
    /// An offset with its sign; nothing for 0.
    Offset,
    /// An offset, also 0.
    Number,
    Mode,
    Base,
    Desc,
    Shuffle,
    Dst(u8),
    Src(u8),
    /// Type and components of a texture instruction.
    TexTy,
    /// Its sources, sampler and texture.
    TexSrcs,
    /// The address of ldg.a or stg.a: the register and the index after it.
    Address(u8),
}

/// The form of a kind of instruction.
#[derive(Debug)]
pub(super) struct Form {
    pub fields: &'static [(Slot, Field)],
    pub text: &'static [Piece],
    /// Whether (r) without a repetition means (nopN).
    pub nops: bool,
}

impl Form {
    /// The field of a slot.
    pub fn field(&self, slot: Slot) -> Option<Field> {
        let mut fields = self.fields.iter();
        fields.find(|(s, _)| *s == slot).map(|(_, field)| *field)
    }

    /// The value of a slot in a word; 0 without such a field.
    pub fn get(&self, slot: Slot, word: u64) -> u64 {
        self.field(slot).map_or(0, |field| field.get(word))
    }

    /// The kind of a destination.
    pub fn dst(&self, n: u8) -> Option<Kind> {
        self.fields.iter().find_map(|(slot, _)| match slot {
            Slot::Dst(at, kind, _) if *at == n => Some(*kind),
            _ => None,
        })
    }

    /// The kind of a source.
    pub fn src(&self, n: u8) -> Option<Kind> {
        self.fields.iter().find_map(|(slot, _)| match slot {
            Slot::Src(at, kind, _) if *at == n => Some(*kind),
            _ => None,
        })
    }
}

const fn f(high: u8, low: u8) -> Field {
    Field::new(high, low)
}

const fn b(at: u8) -> Field {
    Field::bit(at)
}

use Piece::Text as T;
use Slot::{Advances, Dst, Fixed, Flag, Neg, NotFlag, Src};

const SY: (Slot, Field) = (Flag(Flags::SY), b(60));
const JP: (Slot, Field) = (Flag(Flags::JP), b(59));
const SS: (Slot, Field) = (Flag(Flags::SS), b(44));
const UL: (Slot, Field) = (Flag(Flags::UL), b(45));
const EQ: (Slot, Field) = (Flag(Flags::EQ), b(48));
const SAT: (Slot, Field) = (Flag(Flags::SAT), b(42));
const REPEAT: (Slot, Field) = (Slot::Repeat, f(41, 40));
const COMMA: Piece = T(", ");

macro_rules! form {
    ($($(#[$doc:meta])* $name:ident: [$($field:expr),* $(,)?] [$($piece:expr),* $(,)?] $nops:literal;)*) => {
        $($(#[$doc])* pub(super) static $name: Form = Form {
            fields: &[$($field),*],
            text: &[$($piece),*],
            nops: $nops,
        };)*
    };
}

const BRANCH: (Slot, Field) = (Src(0, Kind::Branch, Size::Full), f(31, 0));
const NO_EQ: (Slot, Field) = (Fixed(0), b(48));
const NO_REPEAT: (Slot, Field) = (Fixed(0), f(42, 40));
const P1: (Slot, Field) = (Src(0, Kind::Predicate, Size::Full), f(54, 53));
const NOT1: (Slot, Field) = (Neg(0), b(52));

form! {
    /// Category 0.
    PLAIN: [SY, JP, EQ, SS, (Slot::Repeat, f(42, 40)), (Fixed(0), f(31, 0))]
        [] false;
    KILL: [SY, JP, EQ, SS, NO_REPEAT, P1, NOT1, (Fixed(0), f(31, 0))]
        [T(" "), Piece::Src(0)] false;
    JUMP: [SY, JP, SS, NO_EQ, NO_REPEAT, BRANCH]
        [T(" "), Piece::Src(0)] false;
    GETLAST: [SY, JP, SS, NO_EQ, NO_REPEAT, BRANCH, (Slot::WidthLog, f(54, 52))]
        [T(".w"), Piece::Width, T(" "), Piece::Src(0)] false;
    BRAC: [SY, JP, SS, EQ, NO_REPEAT, BRANCH, (Slot::Index, f(36, 32))]
        [T("."), Piece::Index, T(" "), Piece::Src(0)] false;
    /// Mesa has no text for brax; this one is a guess after jump.
    BRAX: [SY, JP, SS, EQ, NO_REPEAT, BRANCH]
        [T(" "), Piece::Src(0)] false;
    BR1: [SY, JP, SS, EQ, NO_REPEAT, P1, NOT1, (Src(1, Kind::Branch, Size::Full), f(31, 0))]
        [T(" "), Piece::Src(0), COMMA, Piece::Src(1)] false;
    BR2: [SY, JP, SS, EQ, NO_REPEAT, P1, NOT1, (Src(1, Kind::Predicate, Size::Full), f(47, 46)),
        (Neg(1), b(45)), (Src(2, Kind::Branch, Size::Full), f(31, 0))]
        [T(" "), Piece::Src(0), COMMA, Piece::Src(1), COMMA, Piece::Src(2)] false;
}

macro_rules! mov {
    ($($name:ident $kind:expr, $size:expr, $field:expr $(, $last:expr)?;)*) => {
        form! {
            $($name: [SY, JP, SS, UL, REPEAT, $($last,)? (Slot::Round, f(56, 55)), (Slot::SrcTy, f(52, 50)), (Slot::DstRel, b(49)),
                (Slot::Ty, f(48, 46)), (Advances(0), b(43)), (Dst(0, Kind::MovDst, Size::MovTy), f(39, 32)),
                (Src(0, $kind, $size), $field)]
                [Piece::MovTypes, T(" "), Piece::Round, Piece::MovDst, COMMA, Piece::MovSrc] false;)*
        }
    };
}

mov! {
    MOV_IMM Kind::Bits, Size::Full, f(31, 0);
    MOV_CONST Kind::Const, Size::MovSrcTy, f(10, 0);
    MOV_GPR Kind::Reg, Size::MovSrcTy, f(7, 0), (Slot::Last(0), b(10));
    MOV_RELGPR Kind::RelReg, Size::MovSrcTy, f(9, 0);
    MOV_RELCONST Kind::RelConst, Size::MovSrcTy, f(9, 0);
}

form! {
    /// A mov from one fiber.
    MOVS: [SY, JP, SS, UL, REPEAT, (Slot::Round, f(56, 55)), (Slot::SrcTy, f(52, 50)),
        (Slot::DstRel, b(49)), (Slot::Ty, f(48, 46)), (Advances(0), b(43)),
        (Dst(0, Kind::MovDst, Size::MovTy), f(39, 32)), (Slot::Last(0), b(10)),
        (Src(0, Kind::Reg, Size::MovSrcTy), f(7, 0)), (Src(1, Kind::Fiber, Size::Full), f(30, 23))]
        [Piece::MovTypes, T(" "), Piece::Round, Piece::Dst(0), COMMA, Piece::Src(0), COMMA,
        Piece::Src(1)] false;
}

const MULTI_DST: Slot = Dst(0, Kind::Reg, Size::MovTy);
const MULTI_SRC: Slot = Src(0, Kind::Reg, Size::MovSrcTy);
const MULTI_TYPES: [(Slot, Field); 3] = [
    (Slot::Round, f(56, 55)),
    (Slot::SrcTy, f(52, 50)),
    (Slot::Ty, f(48, 46)),
];

form! {
    SWZ: [SY, JP, SS, UL, MULTI_TYPES[0], MULTI_TYPES[1], MULTI_TYPES[2], (MULTI_DST, f(39, 32)),
        (Dst(1, Kind::Reg, Size::MovTy), f(23, 16)), (MULTI_SRC, f(7, 0)),
        (Src(1, Kind::Reg, Size::MovSrcTy), f(15, 8))]
        [Piece::MovTypes, T(" "), Piece::Round, Piece::Dst(0), COMMA, Piece::Dst(1), COMMA,
        Piece::Src(0), COMMA, Piece::Src(1)] false;
    GAT: [SY, JP, SS, UL, MULTI_TYPES[0], MULTI_TYPES[1], MULTI_TYPES[2], (MULTI_DST, f(39, 32)),
        (MULTI_SRC, f(7, 0)), (Src(1, Kind::Reg, Size::MovSrcTy), f(15, 8)),
        (Src(2, Kind::Reg, Size::MovSrcTy), f(23, 16)),
        (Src(3, Kind::Reg, Size::MovSrcTy), f(31, 24))]
        [Piece::MovTypes, T(" "), Piece::Round, Piece::Dst(0), COMMA, Piece::Src(0), COMMA,
        Piece::Src(1), COMMA, Piece::Src(2), COMMA, Piece::Src(3)] false;
    SCT: [SY, JP, SS, UL, MULTI_TYPES[0], MULTI_TYPES[1], MULTI_TYPES[2], (MULTI_DST, f(39, 32)),
        (MULTI_SRC, f(7, 0)), (Dst(1, Kind::Reg, Size::MovTy), f(15, 8)),
        (Dst(2, Kind::Reg, Size::MovTy), f(23, 16)), (Dst(3, Kind::Reg, Size::MovTy), f(31, 24))]
        [Piece::MovTypes, T(" "), Piece::Round, Piece::Dst(0), COMMA, Piece::Dst(1), COMMA,
        Piece::Dst(2), COMMA, Piece::Dst(3), COMMA, Piece::Src(0)] false;
    MOVMSK: [SY, JP, SS, UL, (Fixed(0), f(56, 55)), (Slot::DstRel, b(49)),
        (Slot::WidthWords, f(41, 40)), (Dst(0, Kind::MovDst, Size::Full), f(39, 32))]
        [T(".w"), Piece::Width, T(" "), Piece::Dst(0)] false;
}

const FULL: (Slot, Field) = (Slot::Full, b(52));
const CONV: (Slot, Field) = (Slot::Conv, b(46));
const R1: (Slot, Field) = (Advances(0), b(43));
const R2: (Slot, Field) = (Advances(1), b(51));
const EI: (Slot, Field) = (Flag(Flags::EI), b(47));
const ALU_DST: (Slot, Field) = (Dst(0, Kind::Reg, Size::Converted), f(39, 32));
const ANY1: (Slot, Field) = (Src(0, Kind::Any, Size::Sources), f(15, 0));
const ANY2: (Slot, Field) = (Src(1, Kind::Any, Size::Sources), f(31, 16));
const LAST_INPUT: Piece = Piece::Flag(Flags::EI, "(ei)", "");

form! {
    /// Category 2.
    ALU1: [SY, JP, SS, UL, SAT, REPEAT, FULL, CONV, EI, R1, R2, ALU_DST, ANY1]
        [T(" "), LAST_INPUT, Piece::Dst(0), COMMA, Piece::Src(0)] true;
    ALU2: [SY, JP, SS, UL, SAT, REPEAT, FULL, CONV, EI, R1, R2, ALU_DST, ANY1, ANY2]
        [T(" "), LAST_INPUT, Piece::Dst(0), COMMA, Piece::Src(0), COMMA, Piece::Src(1)] true;
    CMP: [SY, JP, SS, UL, SAT, REPEAT, FULL, CONV, EI, R1, R2, ALU_DST, ANY1, ANY2,
        (Slot::Cond, f(50, 48))]
        [T("."), Piece::Cond, T(" "), LAST_INPUT, Piece::Dst(0), COMMA, Piece::Src(0), COMMA,
        Piece::Src(1)] true;
}

const THREE: [(Slot, Field); 5] = [
    R1,
    (Advances(1), b(15)),
    (Advances(2), b(29)),
    (Dst(0, Kind::Reg, Size::Converted), f(39, 32)),
    (Src(1, Kind::Reg, Size::Sources), f(54, 47)),
];
const NEGS: [(Slot, Field); 3] = [(Neg(0), b(14)), (Neg(1), b(30)), (Neg(2), b(31))];
const THREE_TEXT: [Piece; 8] = [
    T(" "),
    Piece::Dst(0),
    COMMA,
    Piece::Src(0),
    COMMA,
    Piece::Src(1),
    COMMA,
    Piece::Src(2),
];

const fn three(bit: Bit12) -> Kind {
    Kind::Three(bit)
}

/// Category 3.
pub(super) static MAD: Form = Form {
    fields: &[
        SY,
        JP,
        SS,
        UL,
        SAT,
        REPEAT,
        CONV,
        THREE[0],
        THREE[1],
        THREE[2],
        THREE[3],
        THREE[4],
        NEGS[0],
        NEGS[1],
        NEGS[2],
        (Src(0, three(Bit12::Const), Size::Sources), f(12, 0)),
        (Src(2, three(Bit12::Const), Size::Sources), f(28, 16)),
    ],
    text: &THREE_TEXT,
    nops: true,
};

/// The shifts and bitwise operations of category 3.
pub(super) static SHIFT: Form = Form {
    fields: &[
        SY,
        JP,
        SS,
        UL,
        REPEAT,
        CONV,
        (Slot::Full, b(42)),
        THREE[0],
        THREE[1],
        THREE[2],
        THREE[3],
        THREE[4],
        NEGS[0],
        NEGS[1],
        NEGS[2],
        (Src(0, three(Bit12::Imm), Size::Sources), f(12, 0)),
        (Src(2, three(Bit12::Imm), Size::Sources), f(28, 16)),
    ],
    text: &THREE_TEXT,
    nops: true,
};

form! {
    /// Mesa's text has no repetition, though (r) shows only with one: words with it are refused.
    DOT: [SY, JP, SS, UL, SAT, (Fixed(0), f(41, 40)), THREE[0], THREE[1], THREE[2],
        (Dst(0, Kind::Reg, Size::Full), f(39, 32)), THREE[4], (Flag(Flags::MIXED), b(14)),
        (Flag(Flags::HIGH), b(30)), NEGS[2],
        (Src(0, three(Bit12::Nothing), Size::Sources), f(12, 0)),
        (Src(2, three(Bit12::Nothing), Size::Sources), f(28, 16))]
        [Piece::Flag(Flags::MIXED, ".mixed", ".unsigned"),
        Piece::Flag(Flags::HIGH, ".high", ".low"), T(" "), Piece::Dst(0), COMMA, Piece::Src(0),
        COMMA, Piece::Src(1), COMMA, Piece::Src(2)] true;
    WMM: [SY, JP, SS, UL, REPEAT, THREE[0], THREE[1], THREE[2],
        (Dst(0, Kind::Reg, Size::Dest), f(39, 32)), THREE[4], NEGS[0], NEGS[1], (Slot::Full, b(31)),
        (Slot::DstFull, b(46)), (Src(0, three(Bit12::Nothing), Size::Sources), f(12, 0)),
        (Src(2, three(Bit12::Imm), Size::Sources), f(28, 16))]
        [T(" "), Piece::Dst(0), COMMA, Piece::Src(0), COMMA, Piece::Src(1), COMMA, Piece::Src(2)]
        true;
    /// Category 4.
    SFU: [SY, JP, SS, UL, SAT, REPEAT, FULL, CONV, R1, ALU_DST, ANY1]
        [T(" "), Piece::Dst(0), COMMA, Piece::Src(0)] false;
}

const TEX_DST: (Slot, Field) = (Dst(0, Kind::Reg, Size::Ty), f(39, 32));
const TEX_TY: (Slot, Field) = (Slot::Ty, f(46, 44));
const TEX_MASK: (Slot, Field) = (Slot::Mask, f(43, 40));
const TEX_1: (Slot, Field) = (Slot::TexSrc(0), f(8, 1));
const TEX_2: (Slot, Field) = (Slot::TexSrc(1), f(16, 9));
const TEX_FULL: (Slot, Field) = (Slot::Full, b(0));
const SAMPLER: (Slot, Field) = (Slot::Sampler, f(24, 21));
const TEXTURE: (Slot, Field) = (Slot::Texture, f(31, 25));
const D3: (Slot, Field) = (Flag(Flags::D3), b(48));
const ARRAY: (Slot, Field) = (Flag(Flags::ARRAY), b(49));
const SV: (Slot, Field) = (Flag(Flags::COMPARE), b(50));
const OFFSETS: (Slot, Field) = (Flag(Flags::OFFSET), b(52));
const PROJECT: (Slot, Field) = (Flag(Flags::PROJECT), b(53));
const D1: (Slot, Field) = (NotFlag(Flags::D1), b(18));
const HAS_OFFSET: (Slot, Field) = (Slot::HasOffset, b(53));
const DESC: [(Slot, Field); 4] = [
    (Slot::Desc, f(31, 29)),
    (Slot::Indices, f(28, 21)),
    (Slot::BaseHigh, f(20, 19)),
    (Slot::BaseLow, b(47)),
];
const T3D: Piece = Piece::Flag(Flags::D3, ".3d", "");
const TA: Piece = Piece::Flag(Flags::ARRAY, ".a", "");
const TO: Piece = Piece::Flag(Flags::OFFSET, ".o", "");
const TP: Piece = Piece::Flag(Flags::PROJECT, ".p", "");
const TS: Piece = Piece::Flag(Flags::COMPARE, ".s", "");
const TV: Piece = Piece::Flag(Flags::COMPARE, ".v", "");
const T1D: Piece = Piece::Flag(Flags::D1, ".1d", "");

form! {
    /// Category 5.
    TEX: [SY, JP, TEX_TY, TEX_MASK, TEX_DST, TEX_FULL, TEX_1, TEX_2, SAMPLER, TEXTURE, D3, ARRAY,
        SV, OFFSETS, PROJECT]
        [T3D, TA, TO, TP, TS, T(" "), Piece::TexTy, Piece::Dst(0), Piece::TexSrcs] false;
    TEX_DESC: [SY, JP, TEX_TY, TEX_MASK, TEX_DST, TEX_FULL, TEX_1, TEX_2, DESC[0], DESC[1], DESC[2],
        DESC[3], D3, ARRAY, SV, OFFSETS, PROJECT]
        [T3D, TA, TO, TP, TS, Piece::Desc, T(" "), Piece::TexTy, Piece::Dst(0), Piece::TexSrcs]
        false;
    ISAM: [SY, JP, TEX_TY, TEX_MASK, TEX_DST, TEX_FULL, TEX_1, TEX_2, SAMPLER, TEXTURE, D3, ARRAY,
        SV, OFFSETS, D1, HAS_OFFSET]
        [T3D, TA, TO, TV, T1D, T(" "), Piece::TexTy, Piece::Dst(0), Piece::TexSrcs] false;
    ISAM_DESC: [SY, JP, TEX_TY, TEX_MASK, TEX_DST, TEX_FULL, TEX_1, TEX_2, DESC[0], DESC[1],
        DESC[2], DESC[3], D3, ARRAY, SV, OFFSETS, D1, HAS_OFFSET]
        [T3D, TA, TO, TV, Piece::Desc, T1D, T(" "), Piece::TexTy, Piece::Dst(0), Piece::TexSrcs]
        false;
    TCINV: [SY, JP]
        [] false;
    BRCST: [SY, JP, TEX_TY, TEX_MASK, TEX_DST, TEX_FULL, TEX_1, (Slot::WidthLog, f(20, 19)),
        (Fixed(0), f(16, 9)), (Fixed(0), f(31, 21)), (Fixed(0), f(49, 48)), (Fixed(0), f(52, 51))]
        [T(".w"), Piece::Width, T(" "), Piece::TexTy, Piece::Dst(0), Piece::TexSrcs] false;
    QUAD: [SY, JP, TEX_TY, TEX_MASK, TEX_DST, TEX_FULL, TEX_1, TEX_2, (Fixed(0), f(31, 21)),
        (Fixed(0), f(49, 48)), (Fixed(0), f(52, 51))]
        [T(" "), Piece::TexTy, Piece::Dst(0), Piece::TexSrcs] false;
}

const TY: (Slot, Field) = (Slot::Ty, f(51, 49));
const DST_TY: (Slot, Field) = (Dst(0, Kind::Reg, Size::Ty), f(39, 32));
const DST: (Slot, Field) = (Dst(0, Kind::Reg, Size::Full), f(39, 32));
const COUNT: (Slot, Field) = (Slot::Count, f(26, 24));
const COUNT8: (Slot, Field) = (Slot::Count, f(31, 24));
const OFFSET: (Slot, Field) = (Slot::Offset, f(13, 1));
const ADDRESS: (Slot, Field) = (Src(0, Kind::PlainReg, Size::Full), f(21, 14));
const STORE_ADDRESS: (Slot, Field) = (Src(0, Kind::PlainReg, Size::Full), f(48, 41));
const STORE: (Slot, Field) = (Dst(0, Kind::Store, Size::Full), f(40, 32));
const SHIFTED: [(Slot, Field); 3] = [
    (Slot::Shift, f(13, 12)),
    (Slot::UOffset, f(10, 9)),
    (Fixed(0), b(11)),
];
const SPLIT: [(Slot, Field); 2] = [(Slot::OffsetLow, f(39, 32)), (Slot::OffsetHigh, f(13, 9))];
const D: (Slot, Field) = (Slot::Dims, f(10, 9));
const TYPED: (Slot, Field) = (Flag(Flags::TYPED), b(11));
const COUNT_1: (Slot, Field) = (Slot::CountLessOne, f(13, 12));
const MODE: [(Slot, Field); 3] = [
    (Slot::Mode, f(7, 6)),
    (Slot::Bindless, b(8)),
    (Slot::Base, f(3, 1)),
];
const SSBO: (Slot, Field) = (Src(0, Kind::Descriptor, Size::Full), f(48, 41));
const ATOMIC_SRC: [(Slot, Field); 4] = [
    (Src(0, Kind::RegOrImm, Size::Full), f(21, 14)),
    (Slot::IsImm(0), b(22)),
    (Src(1, Kind::RegOrImm, Size::Full), f(31, 24)),
    (Slot::IsImm(1), b(23)),
];
const IMAGE: [(Slot, Field); 2] = [
    (Src(0, Kind::Reg, Size::Full), f(31, 24)),
    (Src(1, Kind::Descriptor, Size::Full), f(48, 41)),
];
const IMAGE_OFFSET: [(Slot, Field); 3] = [
    (Slot::HasOffset, b(23)),
    (Slot::UOffsetLow, f(58, 54)),
    (Slot::UOffsetHigh, f(5, 4)),
];
const TTYPED: Piece = Piece::Flag(Flags::TYPED, ".typed.", ".untyped.");
const DOT_TY: [Piece; 2] = [T("."), Piece::Ty];

form! {
    /// Category 6.
    LDG: [SY, JP, TY, DST_TY, COUNT, ADDRESS, OFFSET]
        [DOT_TY[0], DOT_TY[1], T(" "), Piece::Dst(0), T(", g["), Piece::Src(0), Piece::Offset,
        T("], "), Piece::Count] false;
    LDG_A: [SY, JP, TY, DST_TY, COUNT, ADDRESS, (Src(1, Kind::Reg, Size::Full), f(8, 1)),
        SHIFTED[0], SHIFTED[1], SHIFTED[2]]
        [DOT_TY[0], DOT_TY[1], T(" "), Piece::Dst(0), T(", g["), Piece::Address(0), T("], "),
        Piece::Count] false;
    LDG_K: [SY, JP, TY, STORE, (Slot::Count, f(26, 23)), ADDRESS, OFFSET]
        [DOT_TY[0], DOT_TY[1], T(" c["), Piece::Dst(0), T("], g["), Piece::Src(0), Piece::Offset,
        T("], "), Piece::Count] false;
    STG: [SY, JP, TY, STORE_ADDRESS, (Fixed(1), b(40)), SPLIT[0], SPLIT[1], COUNT,
        (Src(1, Kind::Reg, Size::Ty), f(8, 1))]
        [DOT_TY[0], DOT_TY[1], T(" g["), Piece::Src(0), Piece::Offset, T("], "), Piece::Src(1),
        COMMA, Piece::Count] false;
    STG_A: [SY, JP, TY, STORE_ADDRESS, (Fixed(1), b(40)),
        (Src(1, Kind::Reg, Size::Full), f(39, 32)), COUNT, SHIFTED[0], SHIFTED[1], SHIFTED[2],
        (Src(2, Kind::Reg, Size::Ty), f(8, 1))]
        [DOT_TY[0], DOT_TY[1], T(" g["), Piece::Address(0), T("], "), Piece::Src(2), COMMA,
        Piece::Count] false;
    LDL: [SY, JP, TY, DST, COUNT8, (Src(0, Kind::Reg, Size::Full), f(21, 14)), OFFSET]
        [DOT_TY[0], DOT_TY[1], T(" "), Piece::Dst(0), T(", l["), Piece::Src(0), Piece::Offset,
        T("], "), Piece::Count] false;
    LDP: [SY, JP, TY, DST_TY, COUNT8, (Src(0, Kind::Reg, Size::Full), f(21, 14)), OFFSET]
        [DOT_TY[0], DOT_TY[1], T(" "), Piece::Dst(0), T(", p["), Piece::Src(0), Piece::Offset,
        T("], "), Piece::Count] false;
    LDLV: [SY, JP, TY, DST, COUNT8, (Slot::UOffset, f(13, 1))]
        [DOT_TY[0], DOT_TY[1], T(" "), Piece::Dst(0), T(", l["), Piece::Number, T("], "),
        Piece::Count] false;
    STL: [SY, JP, TY, (Src(0, Kind::Reg, Size::Full), f(48, 41)), SPLIT[0], SPLIT[1], COUNT8,
        (Src(1, Kind::Reg, Size::Full), f(8, 1))]
        [DOT_TY[0], DOT_TY[1], T(" l["), Piece::Src(0), Piece::Offset, T("], "), Piece::Src(1),
        COMMA, Piece::Count] false;
    STP: [SY, JP, TY, (Src(0, Kind::Reg, Size::Full), f(48, 41)), SPLIT[0], SPLIT[1], COUNT8,
        (Src(1, Kind::Reg, Size::Full), f(8, 1))]
        [DOT_TY[0], DOT_TY[1], T(" p["), Piece::Src(0), Piece::Offset, T("], "), Piece::Src(1),
        COMMA, Piece::Count] false;
    STC: [SY, JP, TY, STORE, COUNT, (Src(0, Kind::Reg, Size::Full), f(8, 1))]
        [DOT_TY[0], DOT_TY[1], T(" c["), Piece::Dst(0), T("], "), Piece::Src(0), COMMA,
        Piece::Count] false;
    RESINFO: [SY, JP, TY, DST, D, (Src(0, Kind::RegOrImm, Size::Full), f(48, 41)),
        (Slot::IsImm(0), b(53))]
        [DOT_TY[0], DOT_TY[1], T("."), Piece::Dims, T("d "), Piece::Dst(0), T(", g["),
        Piece::Src(0), T("]")] false;
    ATOMIC: [SY, JP, TY, DST, D, TYPED, COUNT_1, ATOMIC_SRC[0], ATOMIC_SRC[1], ATOMIC_SRC[2],
        ATOMIC_SRC[3]]
        [TTYPED, Piece::Dims, T("d."), Piece::Ty, T("."), Piece::Count, T(".l "), Piece::Dst(0),
        T(", l["), Piece::Src(0), T("], "), Piece::Src(1)] false;
    ATOMIC_G: [SY, JP, TY, DST, D, TYPED, COUNT_1, ATOMIC_SRC[0], ATOMIC_SRC[1], ATOMIC_SRC[2],
        ATOMIC_SRC[3]]
        [TTYPED, Piece::Dims, T("d."), Piece::AtomicTy, T("."), Piece::Count, T(".g "),
        Piece::Dst(0), COMMA, Piece::Src(0), COMMA, Piece::Src(1)] false;
    LDC_K: [SY, JP, (Slot::CountLessOne, f(39, 32)), (Fixed(0), f(13, 12)), MODE[0], MODE[1],
        MODE[2], (Src(0, Kind::RegOrImm, Size::Full), f(31, 24)), (Slot::IsImm(0), b(23)),
        (Src(1, Kind::Descriptor, Size::Full), f(48, 41))]
        [T("."), Piece::Count, T(".k."), Piece::Mode, Piece::Base, T(" c[a1.x], "), Piece::Src(0),
        COMMA, Piece::Src(1)] false;
    LDC: [SY, JP, DST, (Flag(Flags::UNIFORM), b(11)), (Slot::Index, f(10, 9)), COUNT_1, MODE[0],
        MODE[1], MODE[2], (Src(0, Kind::RegOrImm, Size::Full), f(31, 24)), (Slot::IsImm(0), b(23)),
        (Src(1, Kind::Descriptor, Size::Full), f(48, 41))]
        [Piece::Flag(Flags::UNIFORM, ".u", ""), T(".offset"), Piece::Index, T("."), Piece::Count,
        T("."), Piece::Mode, Piece::Base, T(" "), Piece::Dst(0), COMMA, Piece::Src(0), COMMA,
        Piece::Src(1)] false;
    GETID: [SY, JP, TY, DST, (Fixed(0), f(13, 12)), (Fixed(0), f(8, 6)), (Fixed(0), f(3, 1))]
        [DOT_TY[0], DOT_TY[1], T(" "), Piece::Dst(0)] false;
    RESINFO_B: [SY, JP, TY, DST, D, TYPED, COUNT_1, MODE[0], MODE[1], MODE[2], SSBO]
        [TTYPED, Piece::Dims, T("d."), Piece::Ty, T("."), Piece::Count, T("."), Piece::Mode,
        Piece::Base, T(" "), Piece::Dst(0), COMMA, Piece::Src(0)] false;
    STIB: [SY, JP, TY, D, TYPED, COUNT_1, MODE[0], MODE[1], MODE[2], IMAGE_OFFSET[0],
        IMAGE_OFFSET[1], IMAGE_OFFSET[2], (Src(0, Kind::Reg, Size::Ty), f(39, 32)),
        (Src(1, Kind::Reg, Size::Full), f(31, 24)),
        (Src(2, Kind::Descriptor, Size::Full), f(48, 41))]
        [TTYPED, Piece::Dims, T("d."), Piece::Ty, T("."), Piece::Count, T("."), Piece::Mode,
        Piece::Base, T(" "), Piece::Src(0), COMMA, Piece::Src(1), Piece::Offset, COMMA,
        Piece::Src(2)] false;
    LDIB: [SY, JP, TY, D, TYPED, COUNT_1, MODE[0], MODE[1], MODE[2], IMAGE[0], IMAGE[1],
        IMAGE_OFFSET[0], IMAGE_OFFSET[1], IMAGE_OFFSET[2], DST_TY]
        [TTYPED, Piece::Dims, T("d."), Piece::Ty, T("."), Piece::Count, T("."), Piece::Mode,
        Piece::Base, T(" "), Piece::Dst(0), COMMA, Piece::Src(0), Piece::Offset, COMMA,
        Piece::Src(1)] false;
    ATOMIC_B: [SY, JP, TY, D, TYPED, COUNT_1, MODE[0], MODE[1], MODE[2], IMAGE[0], IMAGE[1], DST]
        [TTYPED, Piece::Dims, T("d."), Piece::AtomicTy, T("."), Piece::Count, T("."), Piece::Mode,
        Piece::Base, T(" "), Piece::Dst(0), COMMA, Piece::Src(0), COMMA, Piece::Src(1)] false;
    SHFL: [SY, JP, TY, (Slot::Shuffle, f(47, 45)), DST_TY, (Src(0, Kind::Reg, Size::Ty), f(8, 1)),
        (Src(1, Kind::RegOrImm, Size::Full), f(31, 24)), (Slot::IsImm(1), b(23))]
        [T("."), Piece::Shuffle, T("."), Piece::Ty, T(" "), Piece::Dst(0), COMMA, Piece::Src(0),
        COMMA, Piece::Src(1)] false;
    /// Category 7.
    BARRIER: [SY, JP, SS, (Flag(Flags::GLOBAL), b(54)), (Flag(Flags::LOCAL), b(53)),
        (Flag(Flags::READ), b(52)), (Flag(Flags::WRITE), b(51))]
        [Piece::Flag(Flags::GLOBAL, ".g", ""), Piece::Flag(Flags::LOCAL, ".l", ""),
        Piece::Flag(Flags::READ, ".r", ""), Piece::Flag(Flags::WRITE, ".w", "")] false;
    SLEEP: [SY, JP, SS, (Flag(Flags::LONG), b(51))]
        [Piece::Flag(Flags::LONG, ".l", ".s")] false;
    ICINV: [SY, JP, SS]
        [] false;
    DATA: [SY, JP, SS, (Flag(Flags::ALL), b(51))]
        [Piece::Flag(Flags::ALL, ".all", ".shr")] false;
}
