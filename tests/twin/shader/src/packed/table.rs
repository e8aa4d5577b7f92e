//! The table of VOP3P instructions.
//!
//! Opcodes and names: LLVM's disassembler and AMD's machine-readable ISA, which agree. Meanings: the
//! pseudo-code of the ISA documents of RDNA2, RDNA3, RDNA4 and MI300 ("VOP3P Instructions").

use super::arith::{
    Op, Two, half2, half3, max_num, maximum, min_num, minimum, signed, signed_dot, unsigned,
    unsigned_dot, wrapping,
};
use super::formats::Element::{
    self, Bf8, Bf8Fnuz, Bf16, F16, F32, F64, Fp8, Fp8Fnuz, I4, I8, Xf32,
};
use super::matrix::{Matrix, Result as Of};
use super::operand::Ty;
use super::singles::{dot_f32, fp8_dot, fused, mix_f32, mix_high, mix_low, pair_f32};

/// Which modifiers an instruction has, and how they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// `op_sel`, `op_sel_hi`, `neg_lo`, `neg_hi`, clamp.
    Packed,
    /// Absolute values and signs, `op_sel`, `op_sel_hi`, clamp.
    Mix,
    /// `neg_lo` and `neg_hi` (which mean signedness where operands are integers), clamp.
    Dot,
    /// `neg_lo` and `neg_hi` of the third source.
    OnlyC,
    /// RDNA3's matrices with 32 bit results: `neg_lo`, `neg_hi`.
    Wmma3,
    /// RDNA3's of integers: clamp too.
    Wmma3Int,
    /// RDNA3's with 16 bit results: `op_sel`, `op_sel_hi` too.
    Wmma3Half,
    /// RDNA4's matrices: `neg_lo`, `neg_hi`.
    Wmma,
    /// The same of integers: `neg_lo` for signedness, clamp.
    WmmaInt,
    /// The same of 8 bit floats, of which only C has signs.
    WmmaFp8,
    /// Sparse: the third source has indices, `index_key` says which.
    Swmmac,
    /// The same of integers.
    SwmmacInt,
    /// The same where a lane uses all of the indices.
    SwmmacWhole,
    /// The same of 8 bit floats.
    SwmmacFp8,
    /// CDNA's matrices: `cbsz`, `abid`, `blgp`, and which operands are in accumulation registers.
    Mfma,
    /// The same with signs in place of `blgp`.
    MfmaF64,
    /// Sparse.
    Smfmac,
    /// Moves from and to accumulation registers.
    AccMove,
}

impl Form {
    /// Whether this is a product of matrices.
    pub fn is_matrix(self) -> bool {
        !matches!(
            self,
            Self::Packed | Self::Mix | Self::Dot | Self::OnlyC | Self::AccMove
        )
    }

    /// Whether this is a product of matrices of CDNA.
    pub fn is_mfma(self) -> bool {
        matches!(self, Self::Mfma | Self::MfmaF64 | Self::Smfmac)
    }

    /// Whether the third source has the indices of a sparse matrix.
    pub const fn is_sparse(self) -> bool {
        matches!(
            self,
            Self::Swmmac | Self::SwmmacInt | Self::SwmmacWhole | Self::SwmmacFp8 | Self::Smfmac
        )
    }
}

/// What an instruction does.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// Something in each lane.
    Lanes(Op),
    /// A product of matrices.
    Matrix(Matrix),
}

/// An instruction.
pub(super) struct Row {
    /// Opcodes by generation.
    pub op: [Option<u8>; 4],
    /// As LLVM writes it.
    pub name: &'static str,
    /// Dwords of the destination.
    pub dst: u8,
    /// Dwords of the sources; 0 where there is none.
    pub src: [u8; 3],
    /// How constants are read: the first two sources, the third.
    pub ty: [Ty; 2],
    /// Modifiers.
    pub form: Form,
    /// Whether it has a DPP form in the generations that have one.
    pub dpp: bool,
    /// What it does.
    pub meaning: Meaning,
}

/// The name of the VOP1 that [`super::vop3p`] takes care of, with its like.
pub(super) const ACC_MOV: &str = "v_accvgpr_mov_b32";

/// No such instruction.
const NONE: i16 = -1;

/// Opcodes in RDNA2, RDNA3, RDNA4, CDNA3.
type Ops = [i16; 4];

const fn ops(ops: Ops) -> [Option<u8>; 4] {
    let mut to = [None; 4];
    let mut i = 0;
    while i < 4 {
        if ops[i] >= 0 {
            to[i] = Some(ops[i] as u8);
        }
        i += 1;
    }
    to
}

const fn row(op: Ops, name: &'static str, sources: usize, ty: [Ty; 2], form: Form, f: Op) -> Row {
    Row {
        op: ops(op),
        name,
        dst: 1,
        src: [1, (sources > 1) as u8, (sources > 2) as u8],
        ty,
        form,
        dpp: false,
        meaning: Meaning::Lanes(f),
    }
}

/// Two integers of 16 bits.
const fn int(op: Ops, name: &'static str, sources: usize, f: Op) -> Row {
    row(op, name, sources, [Ty::B32; 2], Form::Packed, f)
}

/// Two half precision numbers.
const fn half(op: Ops, name: &'static str, sources: usize, f: Op) -> Row {
    row(op, name, sources, [Ty::F16x2; 2], Form::Packed, f)
}

/// A sum of products of integers.
const fn dot(op: Ops, name: &'static str, form: Form, f: Op) -> Row {
    row(op, name, 3, [Ty::B32; 2], form, f)
}

/// A sum of products of floats, in single precision.
const fn dot_f(op: Ops, name: &'static str, ty: Ty, form: Form, f: Op) -> Row {
    let mut row = row(op, name, 3, [ty, Ty::B32], form, f);
    row.dpp = true;
    row
}

/// A fused multiply-add of halves and singles. LLVM takes every constant for a half.
const fn mix(op: Ops, name: &'static str, f: Op) -> Row {
    let mut row = row(op, name, 3, [Ty::F16; 2], Form::Mix, f);
    row.dpp = true;
    row
}

/// Two single precision numbers.
const fn f32x2(op: i16, name: &'static str, sources: usize, f: Op) -> Row {
    let op = [NONE, NONE, NONE, op];
    let mut row = row(op, name, sources, [Ty::B32; 2], Form::Packed, f);
    row.dst = 2;
    row.src = [2, 2, if sources > 2 { 2 } else { 0 }];
    row
}

/// A move from or to an accumulation register.
const fn acc(op: i16, name: &'static str) -> Row {
    let op = [NONE, NONE, NONE, op];
    row(op, name, 1, [Ty::B32; 2], Form::AccMove, |x, out| {
        out[0] = *x.src[0][0]
    })
}

const fn matrix(op: Ops, name: &'static str, form: Form, matrix: Matrix) -> Row {
    let c = if form.is_sparse() {
        1
    } else {
        matrix.words_of_d()
    };
    let ty = match matrix.d {
        _ if form.is_sparse() => [Ty::B32; 2],
        Of::F64 => [Ty::B64; 2],
        _ if matrix.is_rdna3() => [Ty::B32, Ty::B32Long],
        Of::F16 => [Ty::B32, Ty::F16],
        Of::Bf16 => [Ty::B32, Ty::Bf16],
        _ => [Ty::B32; 2],
    };
    Row {
        op: ops(op),
        name,
        dst: matrix.words_of_d(),
        src: [matrix.words_of_a(), matrix.words_of_b(), c],
        ty,
        form,
        dpp: false,
        meaning: Meaning::Matrix(matrix),
    }
}

/// RDNA3: 16 by 16 by 16.
const fn wmma3(op: i16, name: &'static str, form: Form, d: Of, ab: Element) -> Row {
    matrix([NONE, op, NONE, NONE], name, form, Matrix::wmma3(d, ab))
}

/// RDNA4: 16 by 16 by `k`.
const fn wmma(
    op: i16,
    name: &'static str,
    form: Form,
    d: Of,
    k: usize,
    a: Element,
    b: Element,
) -> Row {
    matrix(
        [NONE, NONE, op, NONE],
        name,
        form,
        Matrix::wmma(d, k, a, b, form.is_sparse()),
    )
}

/// CDNA3: `mn` by `mn` by `k`, so many of them.
const fn mfma(
    op: i16,
    name: &'static str,
    d: Of,
    mnk: [usize; 2],
    blocks: usize,
    a: Element,
    b: Element,
) -> Row {
    let form = match d {
        Of::F64 => Form::MfmaF64,
        _ => Form::Mfma,
    };
    matrix(
        [NONE, NONE, NONE, op],
        name,
        form,
        Matrix::mfma(d, mnk, blocks, a, b, false),
    )
}

/// CDNA3, sparse.
const fn smfmac(
    op: i16,
    name: &'static str,
    d: Of,
    mnk: [usize; 2],
    a: Element,
    b: Element,
) -> Row {
    let matrix_ = Matrix::mfma(d, mnk, 1, a, b, true);
    matrix([NONE, NONE, NONE, op], name, Form::Smfmac, matrix_)
}

use Form::{
    Dot, OnlyC, Packed, Swmmac, SwmmacFp8, SwmmacInt, SwmmacWhole, Wmma, Wmma3, Wmma3Half,
    Wmma3Int, WmmaFp8, WmmaInt,
};

/// Every VOP3P instruction. Columns of opcodes: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub(super) static ROWS: &[Row] = &[
    // Two integers of 16 bits. Clamp saturates what may overflow.
    int([0, 0, 0, 0], "v_pk_mad_i16", 3, |x, out| signed(x, out, |a, b, c| a * b + c)),
    int([1, 1, 1, 1], "v_pk_mul_lo_u16", 2, |x, out| wrapping(x, out, |a, b| a.wrapping_mul(b))),
    int([2, 2, 2, 2], "v_pk_add_i16", 2, |x, out| signed(x, out, |a, b, _| a + b)),
    int([3, 3, 3, 3], "v_pk_sub_i16", 2, |x, out| signed(x, out, |a, b, _| a - b)),
    int([4, 4, 4, 4], "v_pk_lshlrev_b16", 2, |x, out| wrapping(x, out, |a, b| b << (a & 15))),
    int([5, 5, 5, 5], "v_pk_lshrrev_b16", 2, |x, out| wrapping(x, out, |a, b| b >> (a & 15))),
    int([6, 6, 6, 6], "v_pk_ashrrev_i16", 2, |x, out| wrapping(x, out, |a, b| (i32::from(b as i16) >> (a & 15)) as u32)),
    int([7, 7, 7, 7], "v_pk_max_i16", 2, |x, out| signed(x, out, |a, b, _| a.max(b))),
    int([8, 8, 8, 8], "v_pk_min_i16", 2, |x, out| signed(x, out, |a, b, _| a.min(b))),
    int([9, 9, 9, 9], "v_pk_mad_u16", 3, |x, out| unsigned(x, out, |a, b, c| a * b + c)),
    int([10, 10, 10, 10], "v_pk_add_u16", 2, |x, out| unsigned(x, out, |a, b, _| a + b)),
    int([11, 11, 11, 11], "v_pk_sub_u16", 2, |x, out| unsigned(x, out, |a, b, _| a - b)),
    int([12, 12, 12, 12], "v_pk_max_u16", 2, |x, out| unsigned(x, out, |a, b, _| a.max(b))),
    int([13, 13, 13, 13], "v_pk_min_u16", 2, |x, out| unsigned(x, out, |a, b, _| a.min(b))),

    // Two half precision numbers.
    half([14, 14, 14, 14], "v_pk_fma_f16", 3, half3),
    half([15, 15, 15, 15], "v_pk_add_f16", 2, |x, out| half2(x, out, Two::Add)),
    half([16, 16, 16, 16], "v_pk_mul_f16", 2, |x, out| half2(x, out, Two::Mul)),
    half([17, 17, NONE, 17], "v_pk_min_f16", 2, min_num),
    half([18, 18, NONE, 18], "v_pk_max_f16", 2, max_num),
    half([NONE, NONE, 27, NONE], "v_pk_min_num_f16", 2, min_num),
    half([NONE, NONE, 28, NONE], "v_pk_max_num_f16", 2, max_num),
    half([NONE, NONE, 29, NONE], "v_pk_minimum_f16", 2, minimum),
    half([NONE, NONE, 30, NONE], "v_pk_maximum_f16", 2, maximum),

    // Sums of products. `iu`: `neg_lo` says which operands are signed.
    dot_f([19, 19, 19, 35], "v_dot2_f32_f16", Ty::F16x2, Packed, |x, out| dot_f32(x, out, F16)),
    dot_f([NONE, 26, 26, NONE], "v_dot2_f32_bf16", Ty::Bf16x2, Packed, |x, out| dot_f32(x, out, Bf16)),
    dot([20, NONE, NONE, 38], "v_dot2_i32_i16", Packed, |x, out| signed_dot::<16>(x, out, [true; 2])),
    dot([21, NONE, NONE, 39], "v_dot2_u32_u16", Packed, unsigned_dot::<16>),
    dot([22, NONE, NONE, 40], "v_dot4_i32_i8", Dot, |x, out| signed_dot::<8>(x, out, [true; 2])),
    dot([NONE, 22, 22, NONE], "v_dot4_i32_iu8", Dot, |x, out| signed_dot::<8>(x, out, x.signed())),
    dot([23, 23, 23, 41], "v_dot4_u32_u8", Dot, unsigned_dot::<8>),
    dot([24, NONE, NONE, 42], "v_dot8_i32_i4", Dot, |x, out| signed_dot::<4>(x, out, [true; 2])),
    dot([NONE, 24, 24, NONE], "v_dot8_i32_iu4", Dot, |x, out| signed_dot::<4>(x, out, x.signed())),
    dot([25, 25, 25, 43], "v_dot8_u32_u4", Dot, unsigned_dot::<4>),
    dot_f([NONE, NONE, 36, NONE], "v_dot4_f32_fp8_bf8", Ty::B32, OnlyC, |x, out| fp8_dot(x, out, [Fp8, Bf8])),
    dot_f([NONE, NONE, 37, NONE], "v_dot4_f32_bf8_fp8", Ty::B32, OnlyC, |x, out| fp8_dot(x, out, [Bf8, Fp8])),
    dot_f([NONE, NONE, 38, NONE], "v_dot4_f32_fp8_fp8", Ty::B32, OnlyC, |x, out| fp8_dot(x, out, [Fp8, Fp8])),
    dot_f([NONE, NONE, 39, NONE], "v_dot4_f32_bf8_bf8", Ty::B32, OnlyC, |x, out| fp8_dot(x, out, [Bf8, Bf8])),

    // Multiply-add of halves and singles, as `op_sel_hi` says.
    mix([32, 32, 32, 32], "v_fma_mix_f32", mix_f32),
    mix([33, 33, 33, 33], "v_fma_mixlo_f16", mix_low),
    mix([34, 34, 34, 34], "v_fma_mixhi_f16", mix_high),

    // Two single precision numbers.
    f32x2(48, "v_pk_fma_f32", 3, fused),
    f32x2(49, "v_pk_mul_f32", 2, |x, out| pair_f32(x, out, Two::Mul)),
    f32x2(50, "v_pk_add_f32", 2, |x, out| pair_f32(x, out, Two::Add)),
    f32x2(51, "v_pk_mov_b32", 2, |x, out| *out = [0, 1].map(|k| *x.src[k][usize::from(x.mods.op_sel >> k & 1)])),

    // Matrices of RDNA3.
    wmma3(64, "v_wmma_f32_16x16x16_f16", Wmma3, Of::F32, F16),
    wmma3(65, "v_wmma_f32_16x16x16_bf16", Wmma3, Of::F32, Bf16),
    wmma3(66, "v_wmma_f16_16x16x16_f16", Wmma3Half, Of::F16, F16),
    wmma3(67, "v_wmma_bf16_16x16x16_bf16", Wmma3Half, Of::Bf16, Bf16),
    wmma3(68, "v_wmma_i32_16x16x16_iu8", Wmma3Int, Of::I32, I8),
    wmma3(69, "v_wmma_i32_16x16x16_iu4", Wmma3Int, Of::I32, I4),

    // Matrices of RDNA4.
    wmma(64, "v_wmma_f32_16x16x16_f16", Wmma, Of::F32, 16, F16, F16),
    wmma(65, "v_wmma_f32_16x16x16_bf16", Wmma, Of::F32, 16, Bf16, Bf16),
    wmma(66, "v_wmma_f16_16x16x16_f16", Wmma, Of::F16, 16, F16, F16),
    wmma(67, "v_wmma_bf16_16x16x16_bf16", Wmma, Of::Bf16, 16, Bf16, Bf16),
    wmma(68, "v_wmma_i32_16x16x16_iu8", WmmaInt, Of::I32, 16, I8, I8),
    wmma(69, "v_wmma_i32_16x16x16_iu4", WmmaInt, Of::I32, 16, I4, I4),
    wmma(70, "v_wmma_f32_16x16x16_fp8_fp8", WmmaFp8, Of::F32, 16, Fp8, Fp8),
    wmma(71, "v_wmma_f32_16x16x16_fp8_bf8", WmmaFp8, Of::F32, 16, Fp8, Bf8),
    wmma(72, "v_wmma_f32_16x16x16_bf8_fp8", WmmaFp8, Of::F32, 16, Bf8, Fp8),
    wmma(73, "v_wmma_f32_16x16x16_bf8_bf8", WmmaFp8, Of::F32, 16, Bf8, Bf8),
    wmma(74, "v_wmma_i32_16x16x32_iu4", WmmaInt, Of::I32, 32, I4, I4),
    wmma(80, "v_swmmac_f32_16x16x32_f16", Swmmac, Of::F32, 32, F16, F16),
    wmma(81, "v_swmmac_f32_16x16x32_bf16", Swmmac, Of::F32, 32, Bf16, Bf16),
    wmma(82, "v_swmmac_f16_16x16x32_f16", Swmmac, Of::F16, 32, F16, F16),
    wmma(83, "v_swmmac_bf16_16x16x32_bf16", Swmmac, Of::Bf16, 32, Bf16, Bf16),
    wmma(84, "v_swmmac_i32_16x16x32_iu8", SwmmacInt, Of::I32, 32, I8, I8),
    wmma(85, "v_swmmac_i32_16x16x32_iu4", SwmmacInt, Of::I32, 32, I4, I4),
    wmma(86, "v_swmmac_i32_16x16x64_iu4", SwmmacWhole, Of::I32, 64, I4, I4),
    wmma(87, "v_swmmac_f32_16x16x32_fp8_fp8", SwmmacFp8, Of::F32, 32, Fp8, Fp8),
    wmma(88, "v_swmmac_f32_16x16x32_fp8_bf8", SwmmacFp8, Of::F32, 32, Fp8, Bf8),
    wmma(89, "v_swmmac_f32_16x16x32_bf8_fp8", SwmmacFp8, Of::F32, 32, Bf8, Fp8),
    wmma(90, "v_swmmac_f32_16x16x32_bf8_bf8", SwmmacFp8, Of::F32, 32, Bf8, Bf8),

    // Accumulation registers and matrices of CDNA3.
    acc(88, "v_accvgpr_read_b32"),
    acc(89, "v_accvgpr_write_b32"),
    // This one is a VOP1, with an opcode of that format.
    acc(NONE, ACC_MOV),
    mfma(62, "v_mfma_f32_16x16x8_xf32", Of::F32, [16, 8], 1, Xf32, Xf32),
    mfma(63, "v_mfma_f32_32x32x4_xf32", Of::F32, [32, 4], 1, Xf32, Xf32),
    mfma(64, "v_mfma_f32_32x32x1_2b_f32", Of::F32, [32, 1], 2, F32, F32),
    mfma(65, "v_mfma_f32_16x16x1_4b_f32", Of::F32, [16, 1], 4, F32, F32),
    mfma(66, "v_mfma_f32_4x4x1_16b_f32", Of::F32, [4, 1], 16, F32, F32),
    mfma(68, "v_mfma_f32_32x32x2_f32", Of::F32, [32, 2], 1, F32, F32),
    mfma(69, "v_mfma_f32_16x16x4_f32", Of::F32, [16, 4], 1, F32, F32),
    mfma(72, "v_mfma_f32_32x32x4_2b_f16", Of::F32, [32, 4], 2, F16, F16),
    mfma(73, "v_mfma_f32_16x16x4_4b_f16", Of::F32, [16, 4], 4, F16, F16),
    mfma(74, "v_mfma_f32_4x4x4_16b_f16", Of::F32, [4, 4], 16, F16, F16),
    mfma(76, "v_mfma_f32_32x32x8_f16", Of::F32, [32, 8], 1, F16, F16),
    mfma(77, "v_mfma_f32_16x16x16_f16", Of::F32, [16, 16], 1, F16, F16),
    mfma(80, "v_mfma_i32_32x32x4_2b_i8", Of::I32, [32, 4], 2, I8, I8),
    mfma(81, "v_mfma_i32_16x16x4_4b_i8", Of::I32, [16, 4], 4, I8, I8),
    mfma(82, "v_mfma_i32_4x4x4_16b_i8", Of::I32, [4, 4], 16, I8, I8),
    mfma(86, "v_mfma_i32_32x32x16_i8", Of::I32, [32, 16], 1, I8, I8),
    mfma(87, "v_mfma_i32_16x16x32_i8", Of::I32, [16, 32], 1, I8, I8),
    mfma(93, "v_mfma_f32_32x32x4_2b_bf16", Of::F32, [32, 4], 2, Bf16, Bf16),
    mfma(94, "v_mfma_f32_16x16x4_4b_bf16", Of::F32, [16, 4], 4, Bf16, Bf16),
    mfma(95, "v_mfma_f32_4x4x4_16b_bf16", Of::F32, [4, 4], 16, Bf16, Bf16),
    mfma(96, "v_mfma_f32_32x32x8_bf16", Of::F32, [32, 8], 1, Bf16, Bf16),
    mfma(97, "v_mfma_f32_16x16x16_bf16", Of::F32, [16, 16], 1, Bf16, Bf16),
    mfma(110, "v_mfma_f64_16x16x4_f64", Of::F64, [16, 4], 1, F64, F64),
    mfma(111, "v_mfma_f64_4x4x4_4b_f64", Of::F64, [4, 4], 4, F64, F64),
    mfma(112, "v_mfma_f32_16x16x32_bf8_bf8", Of::F32, [16, 32], 1, Bf8Fnuz, Bf8Fnuz),
    mfma(113, "v_mfma_f32_16x16x32_bf8_fp8", Of::F32, [16, 32], 1, Bf8Fnuz, Fp8Fnuz),
    mfma(114, "v_mfma_f32_16x16x32_fp8_bf8", Of::F32, [16, 32], 1, Fp8Fnuz, Bf8Fnuz),
    mfma(115, "v_mfma_f32_16x16x32_fp8_fp8", Of::F32, [16, 32], 1, Fp8Fnuz, Fp8Fnuz),
    mfma(116, "v_mfma_f32_32x32x16_bf8_bf8", Of::F32, [32, 16], 1, Bf8Fnuz, Bf8Fnuz),
    mfma(117, "v_mfma_f32_32x32x16_bf8_fp8", Of::F32, [32, 16], 1, Bf8Fnuz, Fp8Fnuz),
    mfma(118, "v_mfma_f32_32x32x16_fp8_bf8", Of::F32, [32, 16], 1, Fp8Fnuz, Bf8Fnuz),
    mfma(119, "v_mfma_f32_32x32x16_fp8_fp8", Of::F32, [32, 16], 1, Fp8Fnuz, Fp8Fnuz),
    smfmac(98, "v_smfmac_f32_16x16x32_f16", Of::F32, [16, 32], F16, F16),
    smfmac(100, "v_smfmac_f32_32x32x16_f16", Of::F32, [32, 16], F16, F16),
    smfmac(102, "v_smfmac_f32_16x16x32_bf16", Of::F32, [16, 32], Bf16, Bf16),
    smfmac(104, "v_smfmac_f32_32x32x16_bf16", Of::F32, [32, 16], Bf16, Bf16),
    smfmac(106, "v_smfmac_i32_16x16x64_i8", Of::I32, [16, 64], I8, I8),
    smfmac(108, "v_smfmac_i32_32x32x32_i8", Of::I32, [32, 32], I8, I8),
    smfmac(120, "v_smfmac_f32_16x16x64_bf8_bf8", Of::F32, [16, 64], Bf8Fnuz, Bf8Fnuz),
    smfmac(121, "v_smfmac_f32_16x16x64_bf8_fp8", Of::F32, [16, 64], Bf8Fnuz, Fp8Fnuz),
    smfmac(122, "v_smfmac_f32_16x16x64_fp8_bf8", Of::F32, [16, 64], Fp8Fnuz, Bf8Fnuz),
    smfmac(123, "v_smfmac_f32_16x16x64_fp8_fp8", Of::F32, [16, 64], Fp8Fnuz, Fp8Fnuz),
    smfmac(124, "v_smfmac_f32_32x32x32_bf8_bf8", Of::F32, [32, 32], Bf8Fnuz, Bf8Fnuz),
    smfmac(125, "v_smfmac_f32_32x32x32_bf8_fp8", Of::F32, [32, 32], Bf8Fnuz, Fp8Fnuz),
    smfmac(126, "v_smfmac_f32_32x32x32_fp8_bf8", Of::F32, [32, 32], Fp8Fnuz, Bf8Fnuz),
    smfmac(127, "v_smfmac_f32_32x32x32_fp8_fp8", Of::F32, [32, 32], Fp8Fnuz, Fp8Fnuz),
];
