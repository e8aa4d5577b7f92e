//! The table: each operation of Adreno 6xx with the fixed bits and the form of its encodings.
//!
//! Source: Mesa 25.2 `src/freedreno/isa/ir3-cat0.xml` to `ir3-cat7.xml`, what holds for generation 600.
//! A mov has a row for each kind of source; a texture instruction one for immediate indices of texture and sampler,
//! and one for those in a register or in a bindless base.

use super::form::*;
use crate::encoding::{Encoding, Field, Fixed};

/// What tells rows of one form apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params {
    /// Whether sources have 32 bits, where the word does not say it.
    pub full: bool,
    /// How many sources a texture instruction has.
    pub sources: u8,
    pub sampler: bool,
    pub texture: bool,
    /// Whether its text has the type.
    pub typed: bool,
}

const NONE: Params = Params {
    full: false,
    sources: 0,
    sampler: false,
    texture: false,
    typed: false,
};
const HALF: Params = NONE;
const FULL: Params = Params { full: true, ..NONE };

/// The sources of a texture instruction; whether it has a sampler (s), a texture (t), a format (f).
const fn tex(sources: u8, has: &str) -> Params {
    let mut params = Params { sources, ..NONE };
    let has = has.as_bytes();
    let mut at = 0;
    while at < has.len() {
        match has[at] {
            b's' => params.sampler = true,
            b't' => params.texture = true,
            b'f' => params.typed = true,
            _ => panic!("not a letter of these"),
        }
        at += 1;
    }
    params
}

/// An encoding of an operation.
#[derive(Debug)]
pub(super) struct Row {
    pub op: Op,
    pub fixed: Fixed,
    pub form: &'static Form,
    pub params: Params,
}

impl Encoding for Row {
    fn fixed(&self) -> Fixed {
        self.fixed
    }
}

impl Row {
    /// The bits that must be clear.
    pub fn reserved(&self) -> u64 {
        let fields = self.form.fields.iter();
        !fields.fold(self.fixed.mask, |mask, (_, field)| mask | field.mask())
    }
}

/// Category and opcode: what rows are looked up by.
pub(super) const KEY: Field = Field::new(63, 53);

macro_rules! rows {
    ($($op:ident $category:literal $name:literal: $($form:ident $params:expr, $mask:literal $value:literal),+;)*) => {
        /// An operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Op {
            $(#[doc = concat!("`", $name, "`, of category ", stringify!($category), ".")]
            $op,)*
        }

        impl Op {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$op),*];

            /// The mnemonic. A mov with a conversion is called cov, and one to an address register mova.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$op => $name,)*
                }
            }

            /// The category, 0 to 7.
            pub const fn category(self) -> u8 {
                match self {
                    $(Self::$op => $category,)*
                }
            }
        }

        /// All encodings.
        pub(super) static ROWS: &[Row] = &[$($(Row {
            op: Op::$op,
            fixed: Fixed { mask: $mask, value: $value },
            form: &$form,
            params: $params,
        },)+)*];
    };
}

rows! {
    // Category 0.
    Nop 0 "nop": PLAIN NONE, 0xe7f2e0e000000000 0x0000000000000000;
    End 0 "end": PLAIN NONE, 0xe7f2e0e000000000 0x0300000000000000;
    Ret 0 "ret": PLAIN NONE, 0xe7f2e0e000000000 0x0200000000000000;
    Emit 0 "emit": PLAIN NONE, 0xe7f2e0e000000000 0x0380000000000000;
    Cut 0 "cut": PLAIN NONE, 0xe7f2e0e000000000 0x0400000000000000;
    Chmask 0 "chmask": PLAIN NONE, 0xe7f2e0e000000000 0x0480000000000000;
    Chsh 0 "chsh": PLAIN NONE, 0xe7f2e0e000000000 0x0500000000000000;
    FlowRev 0 "flow_rev": PLAIN NONE, 0xe7f2e0e000000000 0x0580000000000000;
    Shpe 0 "shpe": PLAIN NONE, 0xe7f2e0e000000000 0x0402000000000000;
    Predt 0 "predt": PLAIN NONE, 0xe7f2e0e000000000 0x0682000000000000;
    Predf 0 "predf": PLAIN NONE, 0xe7f2e0e000000000 0x0702000000000000;
    Prede 0 "prede": PLAIN NONE, 0xe7f2e0e000000000 0x0782000000000000;
    Kill 0 "kill": KILL NONE, 0xe782e0ff00000000 0x0280000000000000;
    Jump 0 "jump": JUMP NONE, 0xe782000000000000 0x0100000000000000;
    Call 0 "call": JUMP NONE, 0xe782000000000000 0x0180000000000000;
    Bkt 0 "bkt": JUMP NONE, 0xe782000000000000 0x0002000000000000;
    Getlast 0 "getlast": GETLAST NONE, 0xe782000000000000 0x0202000000000000;
    Getone 0 "getone": JUMP NONE, 0xe782000000000000 0x0282000000000000;
    Shps 0 "shps": JUMP NONE, 0xe782000000000000 0x0382000000000000;
    Brac 0 "brac": BRAC NONE, 0xe78200e000000000 0x0080006000000000;
    Brax 0 "brax": BRAX NONE, 0xe78200e000000000 0x008000c000000000;
    Br 0 "br": BR1 NONE, 0xe78200e000000000 0x0080000000000000;
    Bany 0 "bany": BR1 NONE, 0xe78200e000000000 0x0080008000000000;
    Ball 0 "ball": BR1 NONE, 0xe78200e000000000 0x008000a000000000;
    Brao 0 "brao": BR2 NONE, 0xe78200e000000000 0x0080002000000000;
    Braa 0 "braa": BR2 NONE, 0xe78200e000000000 0x0080004000000000;
    // Category 1.
    Mov 1 "mov":
        MOV_IMM NONE, 0xe660040000000000 0x2040000000000000,
        MOV_CONST NONE, 0xe6600400fffff800 0x2020000000000000,
        MOV_GPR NONE, 0xe6600400fffffb00 0x2000000000000000,
        MOV_RELGPR NONE, 0xe6600400fffffc00 0x2000000000000800,
        MOV_RELCONST NONE, 0xe6600400fffffc00 0x2000000000000c00;
    Movs 1 "movs": MOVS NONE, 0xe6600400807ffb00 0x2000000080000000;
    Swz 1 "swz": SWZ NONE, 0xe6620f00ff000000 0x2400000000000000;
    Gat 1 "gat": GAT NONE, 0xe6620f0000000000 0x2400010000000000;
    Sct 1 "sct": SCT NONE, 0xe6620f0000000000 0x2400020000000000;
    Movmsk 1 "movmsk": MOVMSK NONE, 0xe67dcc00ffffffff 0x260cc00000000000;
    // Category 2.
    BaryF 2 "bary.f": ALU2 NONE, 0xe7e4000000000000 0x4720000000000000;
    FlatB 2 "flat.b": ALU2 NONE, 0xe7e4000000000000 0x4724000000000000;
    AddF 2 "add.f": ALU2 NONE, 0xe7e0000000000000 0x4000000000000000;
    MinF 2 "min.f": ALU2 NONE, 0xe7e0000000000000 0x4020000000000000;
    MaxF 2 "max.f": ALU2 NONE, 0xe7e0000000000000 0x4040000000000000;
    MulF 2 "mul.f": ALU2 NONE, 0xe7e0000000000000 0x4060000000000000;
    SignF 2 "sign.f": ALU1 NONE, 0xe7e0000000000000 0x4080000000000000;
    CmpsF 2 "cmps.f": CMP NONE, 0xe7e0000000000000 0x40a0000000000000;
    AbsnegF 2 "absneg.f": ALU1 NONE, 0xe7e0000000000000 0x40c0000000000000;
    CmpvF 2 "cmpv.f": CMP NONE, 0xe7e0000000000000 0x40e0000000000000;
    FloorF 2 "floor.f": ALU1 NONE, 0xe7e0000000000000 0x4120000000000000;
    CeilF 2 "ceil.f": ALU1 NONE, 0xe7e0000000000000 0x4140000000000000;
    RndneF 2 "rndne.f": ALU1 NONE, 0xe7e0000000000000 0x4160000000000000;
    RndazF 2 "rndaz.f": ALU1 NONE, 0xe7e0000000000000 0x4180000000000000;
    TruncF 2 "trunc.f": ALU1 NONE, 0xe7e0000000000000 0x41a0000000000000;
    AddU 2 "add.u": ALU2 NONE, 0xe7e0000000000000 0x4200000000000000;
    AddS 2 "add.s": ALU2 NONE, 0xe7e0000000000000 0x4220000000000000;
    SubU 2 "sub.u": ALU2 NONE, 0xe7e0000000000000 0x4240000000000000;
    SubS 2 "sub.s": ALU2 NONE, 0xe7e0000000000000 0x4260000000000000;
    CmpsU 2 "cmps.u": CMP NONE, 0xe7e0000000000000 0x4280000000000000;
    CmpsS 2 "cmps.s": CMP NONE, 0xe7e0000000000000 0x42a0000000000000;
    MinU 2 "min.u": ALU2 NONE, 0xe7e0000000000000 0x42c0000000000000;
    MinS 2 "min.s": ALU2 NONE, 0xe7e0000000000000 0x42e0000000000000;
    MaxU 2 "max.u": ALU2 NONE, 0xe7e0000000000000 0x4300000000000000;
    MaxS 2 "max.s": ALU2 NONE, 0xe7e0000000000000 0x4320000000000000;
    AbsnegS 2 "absneg.s": ALU1 NONE, 0xe7e0000000000000 0x4340000000000000;
    AndB 2 "and.b": ALU2 NONE, 0xe7e0000000000000 0x4380000000000000;
    OrB 2 "or.b": ALU2 NONE, 0xe7e0000000000000 0x43a0000000000000;
    NotB 2 "not.b": ALU1 NONE, 0xe7e0000000000000 0x43c0000000000000;
    XorB 2 "xor.b": ALU2 NONE, 0xe7e0000000000000 0x43e0000000000000;
    CmpvU 2 "cmpv.u": CMP NONE, 0xe7e0000000000000 0x4420000000000000;
    CmpvS 2 "cmpv.s": CMP NONE, 0xe7e0000000000000 0x4440000000000000;
    MulU24 2 "mul.u24": ALU2 NONE, 0xe7e0000000000000 0x4600000000000000;
    MulS24 2 "mul.s24": ALU2 NONE, 0xe7e0000000000000 0x4620000000000000;
    MullU 2 "mull.u": ALU2 NONE, 0xe7e0000000000000 0x4640000000000000;
    BfrevB 2 "bfrev.b": ALU1 NONE, 0xe7e0000000000000 0x4660000000000000;
    ClzS 2 "clz.s": ALU1 NONE, 0xe7e0000000000000 0x4680000000000000;
    ClzB 2 "clz.b": ALU1 NONE, 0xe7e0000000000000 0x46a0000000000000;
    ShlB 2 "shl.b": ALU2 NONE, 0xe7e0000000000000 0x46c0000000000000;
    ShrB 2 "shr.b": ALU2 NONE, 0xe7e0000000000000 0x46e0000000000000;
    AshrB 2 "ashr.b": ALU2 NONE, 0xe7e0000000000000 0x4700000000000000;
    MgenB 2 "mgen.b": ALU2 NONE, 0xe7e0000000000000 0x4740000000000000;
    GetbitB 2 "getbit.b": ALU2 NONE, 0xe7e0000000000000 0x4760000000000000;
    Setrm 2 "setrm": ALU1 NONE, 0xe7e0000000000000 0x4780000000000000;
    CbitsB 2 "cbits.b": ALU1 NONE, 0xe7e0000000000000 0x47a0000000000000;
    Shb 2 "shb": ALU2 NONE, 0xe7e0000000000000 0x47c0000000000000;
    Msad 2 "msad": ALU2 NONE, 0xe7e0000000000000 0x47e0000000000000;
    // Category 3.
    MadU16 3 "mad.u16": MAD HALF, 0xe780000000002000 0x6000000000000000;
    MadshU16 3 "madsh.u16": MAD FULL, 0xe780000000002000 0x6080000000000000;
    MadS16 3 "mad.s16": MAD HALF, 0xe780000000002000 0x6100000000000000;
    MadshM16 3 "madsh.m16": MAD FULL, 0xe780000000002000 0x6180000000000000;
    MadU24 3 "mad.u24": MAD FULL, 0xe780000000002000 0x6200000000000000;
    MadS24 3 "mad.s24": MAD FULL, 0xe780000000002000 0x6280000000000000;
    MadF16 3 "mad.f16": MAD HALF, 0xe780000000002000 0x6300000000000000;
    MadF32 3 "mad.f32": MAD FULL, 0xe780000000002000 0x6380000000000000;
    SelB16 3 "sel.b16": MAD HALF, 0xe780000000002000 0x6400000000000000;
    SelB32 3 "sel.b32": MAD FULL, 0xe780000000002000 0x6480000000000000;
    SelS16 3 "sel.s16": MAD HALF, 0xe780000000002000 0x6500000000000000;
    SelS32 3 "sel.s32": MAD FULL, 0xe780000000002000 0x6580000000000000;
    SelF16 3 "sel.f16": MAD HALF, 0xe780000000002000 0x6600000000000000;
    SelF32 3 "sel.f32": MAD FULL, 0xe780000000002000 0x6680000000000000;
    SadS16 3 "sad.s16": MAD HALF, 0xe780000000002000 0x6700000000000000;
    SadS32 3 "sad.s32": MAD FULL, 0xe780000000002000 0x6780000000000000;
    Shrm 3 "shrm": SHIFT NONE, 0xe780000000002000 0x6400000000002000;
    Shlm 3 "shlm": SHIFT NONE, 0xe780000000002000 0x6480000000002000;
    Shrg 3 "shrg": SHIFT NONE, 0xe780000000002000 0x6500000000002000;
    Shlg 3 "shlg": SHIFT NONE, 0xe780000000002000 0x6580000000002000;
    Andg 3 "andg": SHIFT NONE, 0xe780000000002000 0x6600000000002000;
    Dp2acc 3 "dp2acc": DOT FULL, 0xe780400000002000 0x6680000000002000;
    Dp4acc 3 "dp4acc": DOT FULL, 0xe780400000002000 0x6680400000002000;
    Wmm 3 "wmm": WMM NONE, 0xe780040000002000 0x6700000000002000;
    WmmAccu 3 "wmm.accu": WMM NONE, 0xe780040000002000 0x6700040000002000;
    // Category 4.
    Rcp 4 "rcp": SFU NONE, 0xe7e0000000000000 0x8000000000000000;
    Rsq 4 "rsq": SFU NONE, 0xe7e0000000000000 0x8020000000000000;
    Log2 4 "log2": SFU NONE, 0xe7e0000000000000 0x8040000000000000;
    Exp2 4 "exp2": SFU NONE, 0xe7e0000000000000 0x8060000000000000;
    Sin 4 "sin": SFU NONE, 0xe7e0000000000000 0x8080000000000000;
    Cos 4 "cos": SFU NONE, 0xe7e0000000000000 0x80a0000000000000;
    Sqrt 4 "sqrt": SFU NONE, 0xe7e0000000000000 0x80c0000000000000;
    Hrsq 4 "hrsq": SFU NONE, 0xe7e0000000000000 0x8120000000000000;
    Hlog2 4 "hlog2": SFU NONE, 0xe7e0000000000000 0x8140000000000000;
    Hexp2 4 "hexp2": SFU NONE, 0xe7e0000000000000 0x8160000000000000;
    // Category 5.
    Isam 5 "isam":
        ISAM tex(1, "stf"), 0xe7c8800000180000 0xa000000000000000,
        ISAM_DESC tex(1, "stf"), 0xe7c8000000000000 0xa008000000000000;
    Isaml 5 "isaml":
        TEX tex(2, "stf"), 0xe7c88000001c0000 0xa040000000000000,
        TEX_DESC tex(2, "stf"), 0xe7c8000000040000 0xa048000000000000;
    Isamm 5 "isamm":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa080000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa088000000000000;
    Sam 5 "sam":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa0c0000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa0c8000000000000;
    Samb 5 "samb":
        TEX tex(2, "stf"), 0xe7c88000001c0000 0xa100000000000000,
        TEX_DESC tex(2, "stf"), 0xe7c8000000040000 0xa108000000000000;
    Saml 5 "saml":
        TEX tex(2, "stf"), 0xe7c88000001c0000 0xa140000000000000,
        TEX_DESC tex(2, "stf"), 0xe7c8000000040000 0xa148000000000000;
    Samgq 5 "samgq":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa180000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa188000000000000;
    Getlod 5 "getlod":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa1c0000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa1c8000000000000;
    Conv 5 "conv":
        TEX tex(2, "stf"), 0xe7c88000001c0000 0xa200000000000000,
        TEX_DESC tex(2, "stf"), 0xe7c8000000040000 0xa208000000000000;
    Convm 5 "convm":
        TEX tex(2, "stf"), 0xe7c88000001c0000 0xa240000000000000,
        TEX_DESC tex(2, "stf"), 0xe7c8000000040000 0xa248000000000000;
    Getsize 5 "getsize":
        TEX tex(1, "tf"), 0xe7c88000001c0000 0xa280000000000000,
        TEX_DESC tex(1, "tf"), 0xe7c8000000040000 0xa288000000000000;
    Getbuf 5 "getbuf":
        TEX tex(0, "tf"), 0xe7c88000001c0000 0xa2c0000000000000,
        TEX_DESC tex(0, "tf"), 0xe7c8000000040000 0xa2c8000000000000;
    Getpos 5 "getpos":
        TEX tex(1, "tf"), 0xe7c88000001c0000 0xa300000000000000,
        TEX_DESC tex(1, "tf"), 0xe7c8000000040000 0xa308000000000000;
    Getinfo 5 "getinfo":
        TEX tex(0, "tf"), 0xe7c88000001c0000 0xa340000000000000,
        TEX_DESC tex(0, "tf"), 0xe7c8000000040000 0xa348000000000000;
    Dsx 5 "dsx":
        TEX tex(1, "f"), 0xe7c88000001c0000 0xa380000000000000,
        TEX_DESC tex(1, "f"), 0xe7c8000000040000 0xa388000000000000;
    Dsy 5 "dsy":
        TEX tex(1, "f"), 0xe7c88000001c0000 0xa3c0000000000000,
        TEX_DESC tex(1, "f"), 0xe7c8000000040000 0xa3c8000000000000;
    Gather4r 5 "gather4r":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa400000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa408000000000000;
    Gather4g 5 "gather4g":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa440000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa448000000000000;
    Gather4b 5 "gather4b":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa480000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa488000000000000;
    Gather4a 5 "gather4a":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa4c0000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa4c8000000000000;
    Samgp0 5 "samgp0":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa500000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa508000000000000;
    Samgp1 5 "samgp1":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa540000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa548000000000000;
    Samgp2 5 "samgp2":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa580000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa588000000000000;
    Samgp3 5 "samgp3":
        TEX tex(1, "stf"), 0xe7c88000001c0000 0xa5c0000000000000,
        TEX_DESC tex(1, "stf"), 0xe7c8000000040000 0xa5c8000000000000;
    Dsxpp1 5 "dsxpp.1":
        TEX tex(1, ""), 0xe7c88000001c0000 0xa600000000000000,
        TEX_DESC tex(1, ""), 0xe7c8000000040000 0xa608000000000000;
    Dsypp1 5 "dsypp.1":
        TEX tex(1, ""), 0xe7c88000001c0000 0xa640000000000000,
        TEX_DESC tex(1, ""), 0xe7c8000000040000 0xa648000000000000;
    Rgetpos 5 "rgetpos":
        TEX tex(1, "f"), 0xe7c88000001c0000 0xa680000000000000,
        TEX_DESC tex(1, "f"), 0xe7c8000000040000 0xa688000000000000;
    Rgetinfo 5 "rgetinfo":
        TEX tex(0, "f"), 0xe7c88000001c0000 0xa6c0000000000000,
        TEX_DESC tex(0, "f"), 0xe7c8000000040000 0xa6c8000000000000;
    Tcinv 5 "tcinv": TCINV NONE, 0xe7c0000000000000 0xa700000000000000;
    BrcstActive 5 "brcst.active": BRCST tex(1, "f"), 0xe7e4800000040000 0xa7c0000000000000;
    QuadShuffleBrcst 5 "quad_shuffle.brcst": QUAD tex(2, "f"), 0xe7e48000001c0000 0xa7e0000000000000;
    QuadShuffleHoriz 5 "quad_shuffle.horiz": QUAD tex(1, "f"), 0xe7e48000001c0000 0xa7e0000000080000;
    QuadShuffleVert 5 "quad_shuffle.vert": QUAD tex(1, "f"), 0xe7e48000001c0000 0xa7e0000000100000;
    QuadShuffleDiag 5 "quad_shuffle.diag": QUAD tex(1, "f"), 0xe7e48000001c0000 0xa7e0000000180000;
    // Category 6.
    Ldg 6 "ldg": LDG NONE, 0xe7f00000c0c00001 0xc000000000800001;
    LdgA 6 "ldg.a": LDG_A NONE, 0xe7f00000c0c00001 0xc000000000c00001;
    LdgK 6 "ldg.k": LDG_K NONE, 0xe7f00000c0400001 0xc010000000000001;
    Stg 6 "stg": STG NONE, 0xe7f00000c0800000 0xc0c0000000800000;
    StgA 6 "stg.a": STG_A NONE, 0xe7f00000c0800000 0xc0d0000000800000;
    Ldl 6 "ldl": LDL NONE, 0xe7c0000000800001 0xc040000000800001;
    Ldp 6 "ldp": LDP NONE, 0xe7c0000000800001 0xc080000000800001;
    Ldlw 6 "ldlw": LDL NONE, 0xe7c0000000800001 0xc280000000800001;
    Ldlv 6 "ldlv": LDLV NONE, 0xe7c0000000ffc001 0xc7c0000000c00000;
    Stl 6 "stl": STL NONE, 0xe7c0010000800000 0xc100010000800000;
    Stp 6 "stp": STP NONE, 0xe7c0010000800001 0xc140010000800000;
    Stlw 6 "stlw": STL NONE, 0xe7c0010000800000 0xc2c0010000800000;
    Stc 6 "stc": STC NONE, 0xe7c0000000ffc000 0xc700000000800000;
    Resinfo 6 "resinfo": RESINFO NONE, 0xe7c0010000ffc000 0xc3c0000000000000;
    AtomicAdd 6 "atomic.add": ATOMIC NONE, 0xe7f1fe00000001ff 0xc400000000000001;
    AtomicSub 6 "atomic.sub": ATOMIC NONE, 0xe7f1fe00000001ff 0xc440000000000001;
    AtomicXchg 6 "atomic.xchg": ATOMIC NONE, 0xe7f1fe00000001ff 0xc480000000000001;
    AtomicInc 6 "atomic.inc": ATOMIC NONE, 0xe7f1fe00000001ff 0xc4c0000000000001;
    AtomicDec 6 "atomic.dec": ATOMIC NONE, 0xe7f1fe00000001ff 0xc500000000000001;
    AtomicCmpxchg 6 "atomic.cmpxchg": ATOMIC NONE, 0xe7f1fe00000001ff 0xc540000000000001;
    AtomicMin 6 "atomic.min": ATOMIC NONE, 0xe7f1fe00000001ff 0xc580000000000001;
    AtomicMax 6 "atomic.max": ATOMIC NONE, 0xe7f1fe00000001ff 0xc5c0000000000001;
    AtomicAnd 6 "atomic.and": ATOMIC NONE, 0xe7f1fe00000001ff 0xc600000000000001;
    AtomicOr 6 "atomic.or": ATOMIC NONE, 0xe7f1fe00000001ff 0xc640000000000001;
    AtomicXor 6 "atomic.xor": ATOMIC NONE, 0xe7f1fe00000001ff 0xc680000000000001;
    AtomicGAdd 6 "atomic.g.add": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc410000000000001;
    AtomicGSub 6 "atomic.g.sub": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc450000000000001;
    AtomicGXchg 6 "atomic.g.xchg": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc490000000000001;
    AtomicGInc 6 "atomic.g.inc": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc4d0000000000001;
    AtomicGDec 6 "atomic.g.dec": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc510000000000001;
    AtomicGCmpxchg 6 "atomic.g.cmpxchg": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc550000000000001;
    AtomicGMin 6 "atomic.g.min": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc590000000000001;
    AtomicGMax 6 "atomic.g.max": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc5d0000000000001;
    AtomicGAnd 6 "atomic.g.and": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc610000000000001;
    AtomicGOr 6 "atomic.g.or": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc650000000000001;
    AtomicGXor 6 "atomic.g.xor": ATOMIC_G NONE, 0xe7f1fe00000001ff 0xc690000000000001;
    LdcK 6 "ldc": LDC_K NONE, 0xe7f60100004fc030 0xc036000000478000;
    Ldc 6 "ldc": LDC NONE, 0xe7f60100004fc030 0xc026000000478000;
    Getspid 6 "getspid": GETID NONE, 0xe7e00100004fc031 0xc020000000490000;
    Getwid 6 "getwid": GETID NONE, 0xe7e00100004fc031 0xc020000000494000;
    Getfiberid 6 "getfiberid": GETID NONE, 0xe7e0010000cfc031 0xc020000000c98000;
    ResinfoB 6 "resinfo.b": RESINFO_B NONE, 0xe7e0010000ffc031 0xc02000000063c000;
    Resbase 6 "resbase": RESINFO_B NONE, 0xe7e0010000ffc031 0xc020000000630000;
    StibB 6 "stib.b": STIB NONE, 0xe0300100007fc001 0xc020000000674000;
    LdibB 6 "ldib.b": LDIB NONE, 0xe0300100007fc000 0xc020000000618000;
    AtomicBAdd 6 "atomic.b.add": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000640000;
    AtomicBSub 6 "atomic.b.sub": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000644000;
    AtomicBXchg 6 "atomic.b.xchg": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000648000;
    AtomicBCmpxchg 6 "atomic.b.cmpxchg": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000654000;
    AtomicBMin 6 "atomic.b.min": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000658000;
    AtomicBMax 6 "atomic.b.max": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc03000000065c000;
    AtomicBAnd 6 "atomic.b.and": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000660000;
    AtomicBOr 6 "atomic.b.or": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000664000;
    AtomicBXor 6 "atomic.b.xor": ATOMIC_B NONE, 0xe7f0010000ffc030 0xc030000000668000;
    Shfl 6 "shfl": SHFL NONE, 0xe7f00000007ffe01 0xc6e0000000000000;
    // Category 7.
    Bar 7 "bar": BARRIER NONE, 0xe782000000000000 0xe002000000000000;
    Fence 7 "fence": BARRIER NONE, 0xe782000000000000 0xe082000000000000;
    Sleep 7 "sleep": SLEEP NONE, 0xe780000000000000 0xe100000000000000;
    Icinv 7 "icinv": ICINV NONE, 0xe780000000000000 0xe180000000000000;
    Dccln 7 "dccln": DATA NONE, 0xe790000000000000 0xe200000000000000;
    Dcinv 7 "dcinv": DATA NONE, 0xe790000000000000 0xe280000000000000;
    Dcflu 7 "dcflu": DATA NONE, 0xe790000000000000 0xe300000000000000;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Table;

    #[test]
    fn fields_and_fixed_bits_are_apart() {
        for row in ROWS {
            assert_eq!(row.fixed.value & !row.fixed.mask, 0, "{row:?}");
            let mut seen = row.fixed.mask;
            for (slot, field) in row.form.fields {
                assert_eq!(seen & field.mask(), 0, "{:?}: {slot:?} overlaps", row.op);
                seen |= field.mask();
            }
        }
    }

    /// The offsets of ldib.b and stib.b are where others have their opcode. Words that could be both are refused, as
    /// Mesa does.
    #[test]
    fn rows_are_told_apart() {
        for (a, b) in Table::new(ROWS, KEY).ambiguous() {
            let images = [Op::LdibB, Op::StibB];
            assert!(
                images.contains(&a.op) || images.contains(&b.op),
                "{a:?} {b:?}"
            );
        }
    }

    #[test]
    fn rows_begin_with_their_category() {
        for row in ROWS {
            assert_eq!(row.fixed.mask >> 61, 7);
            assert_eq!(row.fixed.value >> 61, u64::from(row.op.category()));
        }
        assert!(
            Op::ALL
                .iter()
                .all(|op| ROWS.iter().any(|row| row.op == *op))
        );
    }
}
