//! The operations of generation 600.
//!
//! Source: Mesa src/freedreno/isa/ir3-cat0.xml to ir3-cat7.xml; what holds for generation 600.

macro_rules! ops {
    ($($name:ident $category:literal $text:literal;)*) => {
        /// An operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $(#[doc = concat!("`", $text, "`.")] $name,)*
        }

        impl Op {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The mnemonic; a conversion is a `mov` here.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The category, 0 to 7.
            pub const fn category(self) -> u8 {
                match self { $(Self::$name => $category,)* }
            }
        }
    };
}

ops! {
    Nop 0 "nop"; End 0 "end"; Ret 0 "ret"; Emit 0 "emit"; Cut 0 "cut"; Chmask 0 "chmask"; Chsh 0 "chsh";
    FlowRev 0 "flow_rev"; Shpe 0 "shpe"; Predt 0 "predt"; Predf 0 "predf"; Prede 0 "prede"; Kill 0 "kill";
    Jump 0 "jump"; Call 0 "call"; Bkt 0 "bkt"; Getlast 0 "getlast"; Getone 0 "getone"; Shps 0 "shps";
    Brac 0 "brac"; Brax 0 "brax"; Br 0 "br"; Bany 0 "bany"; Ball 0 "ball"; Brao 0 "brao"; Braa 0 "braa";

    Mov 1 "mov"; Movs 1 "movs"; Swz 1 "swz"; Gat 1 "gat"; Sct 1 "sct"; Movmsk 1 "movmsk";

    BaryF 2 "bary.f"; FlatB 2 "flat.b"; AddF 2 "add.f"; MinF 2 "min.f"; MaxF 2 "max.f"; MulF 2 "mul.f";
    SignF 2 "sign.f"; CmpsF 2 "cmps.f"; AbsnegF 2 "absneg.f"; CmpvF 2 "cmpv.f"; FloorF 2 "floor.f";
    CeilF 2 "ceil.f"; RndneF 2 "rndne.f"; RndazF 2 "rndaz.f"; TruncF 2 "trunc.f"; AddU 2 "add.u";
    AddS 2 "add.s"; SubU 2 "sub.u"; SubS 2 "sub.s"; CmpsU 2 "cmps.u"; CmpsS 2 "cmps.s"; MinU 2 "min.u";
    MinS 2 "min.s"; MaxU 2 "max.u"; MaxS 2 "max.s"; AbsnegS 2 "absneg.s"; AndB 2 "and.b"; OrB 2 "or.b";
    NotB 2 "not.b"; XorB 2 "xor.b"; CmpvU 2 "cmpv.u"; CmpvS 2 "cmpv.s"; MulU24 2 "mul.u24";
    MulS24 2 "mul.s24"; MullU 2 "mull.u"; BfrevB 2 "bfrev.b"; ClzS 2 "clz.s"; ClzB 2 "clz.b"; ShlB 2 "shl.b";
    ShrB 2 "shr.b"; AshrB 2 "ashr.b"; MgenB 2 "mgen.b"; GetbitB 2 "getbit.b"; Setrm 2 "setrm";
    CbitsB 2 "cbits.b"; Shb 2 "shb"; Msad 2 "msad";

    MadU16 3 "mad.u16"; MadshU16 3 "madsh.u16"; MadS16 3 "mad.s16"; MadshM16 3 "madsh.m16"; MadU24 3 "mad.u24";
    MadS24 3 "mad.s24"; MadF16 3 "mad.f16"; MadF32 3 "mad.f32"; SelB16 3 "sel.b16"; SelB32 3 "sel.b32";
    SelS16 3 "sel.s16"; SelS32 3 "sel.s32"; SelF16 3 "sel.f16"; SelF32 3 "sel.f32"; SadS16 3 "sad.s16";
    SadS32 3 "sad.s32"; Shrm 3 "shrm"; Shlm 3 "shlm"; Shrg 3 "shrg"; Shlg 3 "shlg"; Andg 3 "andg";
    Dp2acc 3 "dp2acc"; Dp4acc 3 "dp4acc"; Wmm 3 "wmm"; WmmAccu 3 "wmm.accu";

    Rcp 4 "rcp"; Rsq 4 "rsq"; Log2 4 "log2"; Exp2 4 "exp2"; Sin 4 "sin"; Cos 4 "cos"; Sqrt 4 "sqrt";
    Hrsq 4 "hrsq"; Hlog2 4 "hlog2"; Hexp2 4 "hexp2";

    Isam 5 "isam"; Isaml 5 "isaml"; Isamm 5 "isamm"; Sam 5 "sam"; Samb 5 "samb"; Saml 5 "saml"; Samgq 5 "samgq";
    Getlod 5 "getlod"; Conv 5 "conv"; Convm 5 "convm"; Getsize 5 "getsize"; Getbuf 5 "getbuf";
    Getpos 5 "getpos"; Getinfo 5 "getinfo"; Dsx 5 "dsx"; Dsy 5 "dsy"; Gather4r 5 "gather4r";
    Gather4g 5 "gather4g"; Gather4b 5 "gather4b"; Gather4a 5 "gather4a"; Samgp0 5 "samgp0"; Samgp1 5 "samgp1";
    Samgp2 5 "samgp2"; Samgp3 5 "samgp3"; Dsxpp 5 "dsxpp.1"; Dsypp 5 "dsypp.1"; Rgetpos 5 "rgetpos";
    Rgetinfo 5 "rgetinfo"; Tcinv 5 "tcinv"; BrcstActive 5 "brcst.active"; QuadBrcst 5 "quad_shuffle.brcst";
    QuadHoriz 5 "quad_shuffle.horiz"; QuadVert 5 "quad_shuffle.vert"; QuadDiag 5 "quad_shuffle.diag";

    Ldg 6 "ldg"; LdgA 6 "ldg.a"; LdgK 6 "ldg.k"; Stg 6 "stg"; StgA 6 "stg.a"; Ldl 6 "ldl"; Ldp 6 "ldp";
    Ldlw 6 "ldlw"; Ldlv 6 "ldlv"; Stl 6 "stl"; Stp 6 "stp"; Stlw 6 "stlw"; Stc 6 "stc"; Resinfo 6 "resinfo";
    AtomicAdd 6 "atomic.add"; AtomicSub 6 "atomic.sub"; AtomicXchg 6 "atomic.xchg"; AtomicInc 6 "atomic.inc";
    AtomicDec 6 "atomic.dec"; AtomicCmpxchg 6 "atomic.cmpxchg"; AtomicMin 6 "atomic.min";
    AtomicMax 6 "atomic.max"; AtomicAnd 6 "atomic.and"; AtomicOr 6 "atomic.or"; AtomicXor 6 "atomic.xor";
    AtomicGAdd 6 "atomic.g.add"; AtomicGSub 6 "atomic.g.sub"; AtomicGXchg 6 "atomic.g.xchg";
    AtomicGInc 6 "atomic.g.inc"; AtomicGDec 6 "atomic.g.dec"; AtomicGCmpxchg 6 "atomic.g.cmpxchg";
    AtomicGMin 6 "atomic.g.min"; AtomicGMax 6 "atomic.g.max"; AtomicGAnd 6 "atomic.g.and";
    AtomicGOr 6 "atomic.g.or"; AtomicGXor 6 "atomic.g.xor"; LdcK 6 "ldc.k"; Ldc 6 "ldc"; Getspid 6 "getspid";
    Getwid 6 "getwid"; Getfiberid 6 "getfiberid"; ResinfoB 6 "resinfo.b"; Resbase 6 "resbase";
    StibB 6 "stib.b"; LdibB 6 "ldib.b"; AtomicBAdd 6 "atomic.b.add"; AtomicBSub 6 "atomic.b.sub";
    AtomicBXchg 6 "atomic.b.xchg"; AtomicBCmpxchg 6 "atomic.b.cmpxchg"; AtomicBMin 6 "atomic.b.min";
    AtomicBMax 6 "atomic.b.max"; AtomicBAnd 6 "atomic.b.and"; AtomicBOr 6 "atomic.b.or";
    AtomicBXor 6 "atomic.b.xor"; Shfl 6 "shfl";

    Bar 7 "bar"; Fence 7 "fence"; Sleep 7 "sleep"; Icinv 7 "icinv"; Dccln 7 "dccln"; Dcinv 7 "dcinv";
    Dcflu 7 "dcflu";
}

/// What an atomic operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// The new value.
    Xchg,
    /// One more.
    Inc,
    /// One less.
    Dec,
    /// The new value if the old one is as expected.
    Cmpxchg,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// What an atomic operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Local memory.
    Local,
    /// An address.
    Global,
    /// An image.
    Image,
}

impl Op {
    /// What it does as an atomic operation, and on what.
    pub fn atomic(self) -> Option<(Atomic, Target)> {
        use Atomic::*;
        use Target::*;
        Some(match self {
            Self::AtomicAdd => (Add, Local),
            Self::AtomicSub => (Sub, Local),
            Self::AtomicXchg => (Xchg, Local),
            Self::AtomicInc => (Inc, Local),
            Self::AtomicDec => (Dec, Local),
            Self::AtomicCmpxchg => (Cmpxchg, Local),
            Self::AtomicMin => (Min, Local),
            Self::AtomicMax => (Max, Local),
            Self::AtomicAnd => (And, Local),
            Self::AtomicOr => (Or, Local),
            Self::AtomicXor => (Xor, Local),
            Self::AtomicGAdd => (Add, Global),
            Self::AtomicGSub => (Sub, Global),
            Self::AtomicGXchg => (Xchg, Global),
            Self::AtomicGInc => (Inc, Global),
            Self::AtomicGDec => (Dec, Global),
            Self::AtomicGCmpxchg => (Cmpxchg, Global),
            Self::AtomicGMin => (Min, Global),
            Self::AtomicGMax => (Max, Global),
            Self::AtomicGAnd => (And, Global),
            Self::AtomicGOr => (Or, Global),
            Self::AtomicGXor => (Xor, Global),
            Self::AtomicBAdd => (Add, Image),
            Self::AtomicBSub => (Sub, Image),
            Self::AtomicBXchg => (Xchg, Image),
            Self::AtomicBCmpxchg => (Cmpxchg, Image),
            Self::AtomicBMin => (Min, Image),
            Self::AtomicBMax => (Max, Image),
            Self::AtomicBAnd => (And, Image),
            Self::AtomicBOr => (Or, Image),
            Self::AtomicBXor => (Xor, Image),
            _ => return None,
        })
    }
}
