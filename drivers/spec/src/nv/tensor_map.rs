//! Tensor maps: 128 bytes that tell Hopper and Blackwell where tiles of a tensor lie, which a kernel copies as a whole.
//!
//! Source: the fields that the hardware reads are those that `tensormap.replace` of PTX writes, as ptxas 13.5
//! compiles it; the upper 64 bytes, and how much a cache fetches, are what `cuTensorMapEncodeTiled` of NVIDIA's
//! libcuda 550.163.01 writes (`tests/golden/nv/tensor_maps.txt`). What is allowed is what that function allows
//! without groups of channels ("CUDA driver API", "Tensor Map Object Management").

/// The most dimensions that there are.
pub const DIMENSIONS: usize = 5;

/// Bytes of a map; its address is a multiple of 64.
pub const BYTES: usize = 128;

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 8 bits without a sign; those with one, and floating-point numbers of 8 bits, are copied as these.
    U8,
    /// 16 bits.
    U16,
    /// 32 bits.
    U32,
    /// 32 bits with a sign.
    S32,
    /// 64 bits.
    U64,
    /// 64 bits with a sign.
    S64,
    /// Halves.
    F16,
    /// Singles.
    F32,
    /// Doubles.
    F64,
    /// The upper halves of singles.
    Bf16,
    /// Singles, of which those without a leading one become zero.
    F32Ftz,
    /// Singles that become TF32.
    Tf32,
    /// The same, without those that have no leading one.
    Tf32Ftz,
}

impl Element {
    /// Bytes of one.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U64 | Self::S64 | Self::F64 => 8,
            Self::U32 | Self::S32 | Self::F32 | Self::F32Ftz | Self::Tf32 | Self::Tf32Ftz => 4,
        }
    }

    /// The number of the type, and whether it becomes TF32.
    const fn code(self) -> (u32, bool) {
        match self {
            Self::U8 => (0, false),
            Self::U16 => (1, false),
            Self::U32 => (2, false),
            Self::S32 => (3, false),
            Self::U64 => (4, false),
            Self::S64 => (5, false),
            Self::F16 => (6, false),
            Self::F32 => (7, false),
            Self::F32Ftz => (8, false),
            Self::F64 => (9, false),
            Self::Bf16 => (10, false),
            Self::Tf32 => (7, true),
            Self::Tf32Ftz => (8, true),
        }
    }

    const fn is_float(self) -> bool {
        !matches!(
            self,
            Self::U8 | Self::U16 | Self::U32 | Self::S32 | Self::U64 | Self::S64
        )
    }
}

/// By how many bytes of a row pieces of 16 change places, so that columns are in different banks: bits 4 and up
/// of an address in shared memory are mixed with those from 7 up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// None do.
    None,
    /// 32, by one bit.
    B32,
    /// 64, by two.
    B64,
    /// 128, by three.
    B128,
}

/// How much a cache fetches at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// What is asked for.
    Asked,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// A tensor and its tiles; lists begin with the dimension whose elements are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap<'a> {
    /// What the elements are.
    pub element: Element,
    /// Where the first one lies.
    pub address: u64,
    /// Elements along each dimension.
    pub counts: &'a [u64],
    /// Bytes from one to the next, along all but the first dimension.
    pub strides: &'a [u64],
    /// Elements along each dimension that a tile spans.
    pub tile: &'a [u32],
    /// How far apart the elements of a tile are; along the first dimension it means nothing.
    pub steps: &'a [u32],
    /// How rows of a tile are mixed.
    pub swizzle: Swizzle,
    /// How much is fetched.
    pub fetch: Fetch,
    /// Whether what is outside of the tensor is no number; it is zero otherwise.
    pub nan: bool,
}

/// Why there is no such map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lists are not of one tensor.
    #[error(
        "tensor map: expected 1 to {DIMENSIONS} dimensions with a count, tile and step each and a stride for all but \
         the \
         first, found {counts}, {tiles}, {steps} and {strides}"
    )]
    Dimensions {
        /// Counts.
        counts: usize,
        /// Elements of a tile.
        tiles: usize,
        /// Steps.
        steps: usize,
        /// Strides.
        strides: usize,
    },
    /// A number is not one that it can hold.
    #[error("tensor map, {what} of dimension {dimension}: expected {expected}, found {found}")]
    Number {
        /// What the number is.
        what: &'static str,
        /// Of which dimension.
        dimension: usize,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: u64,
    },
    /// The address.
    #[error("tensor map: address {0:#x} is not a multiple of 16")]
    Address(u64),
    /// A row of a tile does not fit.
    #[error("tensor map: a tile row of {bytes} bytes, expected a multiple of 16 of at most {most}")]
    Row {
        /// Bytes of a row.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// Integers have no NaN.
    #[error("tensor map: NaN fill is not possible for {0:?} elements")]
    Nan(Element),
}

impl TensorMap<'_> {
    /// The 128 bytes, as words.
    ///
    /// # Errors
    /// When there is no such map, what is wrong.
    pub fn encode(&self) -> Result<[u32; BYTES / 4], Error> {
        self.check()?;
        let mut words = [0; BYTES / 4];
        let (code, tf32) = self.element.code();
        words[0] = self.address as u32;
        words[1] = (self.address >> 32) as u32;
        words[2] = (self.counts.len() as u32 - 1) << 4
            | code << 7
            | (self.swizzle as u32) << 13
            | u32::from(self.nan) << 15
            | u32::from(tf32) << 16
            | (self.fetch as u32) << 17;
        for (k, &stride) in self.strides.iter().enumerate() {
            words[3 + k] = (stride >> 4) as u32;
            words[7] |= ((stride >> 36) as u32) << (4 * k);
        }
        for (k, &count) in self.counts.iter().enumerate() {
            words[8 + k] = (count - 1) as u32;
        }
        let mut bytes = self.element.bytes();
        for (k, (&tile, &step)) in self.tile.iter().zip(self.steps).enumerate() {
            words[13] |= (step - 1) << (3 * k);
            match k {
                0 => words[13] |= (tile - 1) << 24,
                _ => words[14] |= (tile - 1) << (8 * (k - 1)),
            }
            bytes = bytes.wrapping_mul(if k == 0 { tile } else { tile / step });
        }
        // Nothing to the hardware, as it seems: bytes of a tile, and how it is aligned.
        words[16] = bytes;
        words[18] = [0x10, 0x100, 0x200, 0x400][self.swizzle as usize];
        Ok(words)
    }

    fn check(&self) -> Result<(), Error> {
        let rank = self.counts.len();
        if !(1..=DIMENSIONS).contains(&rank)
            || [self.tile.len(), self.steps.len(), self.strides.len() + 1] != [rank; 3]
        {
            return Err(Error::Dimensions {
                counts: rank,
                tiles: self.tile.len(),
                steps: self.steps.len(),
                strides: self.strides.len(),
            });
        }
        if !self.address.is_multiple_of(16) {
            return Err(Error::Address(self.address));
        }
        let wide = |list: &[u32]| -> Vec<u64> { list.iter().map(|&n| u64::from(n)).collect() };
        number("the count", "1 to 2^32", self.counts, |n| {
            (1..=1 << 32).contains(&n)
        })?;
        number(
            "the stride behind it",
            "a multiple of 16 below 2^40",
            self.strides,
            |n| n.is_multiple_of(16) && n < 1 << 40,
        )?;
        number("the tile", "1 to 256", &wide(self.tile), |n| {
            (1..=256).contains(&n)
        })?;
        number("the step", "1 to 8", &wide(self.steps), |n| {
            (1..=8).contains(&n)
        })?;
        let bytes = u64::from(self.tile[0]) * u64::from(self.element.bytes());
        let most = match self.swizzle {
            Swizzle::None => 256 * 8,
            swizzle => 16 << swizzle as u32,
        };
        if !bytes.is_multiple_of(16) || bytes > most {
            return Err(Error::Row { bytes, most });
        }
        if self.nan && !self.element.is_float() {
            return Err(Error::Nan(self.element));
        }
        Ok(())
    }
}

fn number(
    what: &'static str,
    expected: &'static str,
    list: &[u64],
    fits: impl Fn(u64) -> bool,
) -> Result<(), Error> {
    match list.iter().enumerate().find(|(_, n)| !fits(**n)) {
        Some((dimension, &found)) => Err(Error::Number {
            what,
            dimension,
            expected,
            found,
        }),
        None => Ok(()),
    }
}
