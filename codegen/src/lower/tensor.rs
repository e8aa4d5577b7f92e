//! Tensors as the hardware takes them that copies boxes: tensor maps, which are arguments of kernels.

use drivers_spec::nv::cubin::bank0;
use drivers_spec::nv::tensor_map::{BYTES, DIMENSIONS, Element, Error, Fetch, Swizzle, TensorMap};

use crate::dtype::DType;
use crate::ir::mma::Rows;
use crate::lower::{Arg, Tensor};

/// What a tensor map is aligned to.
const ALIGN: usize = 64;
/// The chip that code with tensor maps is made for.
const CHIP: u32 = 90;

/// Whether a tensor map can be the next argument: it lies in constant bank 0, behind what is the system's there.
pub(super) fn is_aligned(args: &[Arg]) -> bool {
    let before: usize = args.iter().map(Arg::bytes).sum();
    let params = bank0(CHIP).map_or(0, |bank| bank.params as usize);
    (params + before).is_multiple_of(ALIGN)
}

/// The tensor map of a buffer, whose first eight bytes are its address: those that follow.
pub(crate) fn words(tensor: &Tensor) -> Result<[u64; BYTES / 8 - 1], Error> {
    let rank = usize::from(tensor.rank).min(DIMENSIONS);
    let size = tensor.dtype.size() as u64;
    let counts: Vec<u64> = tensor.dims[..rank].iter().map(|d| d[0] as u64).collect();
    let strides: Vec<u64> = tensor.dims[..rank]
        .iter()
        .skip(1)
        .map(|d| d[1] as u64 * size)
        .collect();
    let mut tile = vec![1; rank];
    for (side, elements) in tile
        .iter_mut()
        .zip([Rows::width(tensor.dtype) as u32, tensor.rows.into()])
    {
        *side = elements;
    }
    let map = TensorMap {
        element: match tensor.dtype {
            DType::F16 => Element::F16,
            DType::BF16 => Element::Bf16,
            DType::F32 => Element::F32,
            t if t.size() == 1 => Element::U8,
            t if t.size() == 2 => Element::U16,
            t if t.size() == 4 => Element::U32,
            _ => Element::U64,
        },
        address: 0,
        counts: &counts,
        strides: &strides,
        tile: &tile,
        steps: &vec![1; rank],
        swizzle: Swizzle::B128,
        fetch: Fetch::B256,
        nan: false,
    };
    let words = map.encode()?;
    let mut out = [0; BYTES / 8 - 1];
    for (out, pair) in out.iter_mut().zip(words[2..].chunks_exact(2)) {
        *out = u64::from(pair[0]) | u64::from(pair[1]) << 32;
    }
    Ok(out)
}
