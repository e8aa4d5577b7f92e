//! Memory as shader cores reach it.

use twin::rule::Rule;

/// The cache through which an access goes.
///
/// Source: Mesa src/freedreno/vulkan/tu_cmd_buffer.cc, `tu6_emit_flushes`, and the events of `adreno_pm4.xml`
/// (`CACHE_FLUSH_TS`, `CACHE_INVALIDATE`): UCHE is shared by all clients, each shader processor has a texture L1 before
/// it, and instructions have a cache of their own. tu_cmd_buffer.h, `TU_ACCESS_BINDLESS_DESCRIPTOR_READ`: descriptors are
/// read through UCHE, and held where they were loaded ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// The instruction cache of a shader processor.
    Instruction,
    /// UCHE: loads and stores of category 6, constants from buffers.
    Uche,
    /// The texture cache of a shader processor: reads of category 5. It does not see what UCHE holds newer.
    Texture,
    /// Descriptors of a bindless base, dword by dword: through UCHE, and then held until the base is invalidated.
    Descriptor(u8),
}

impl Path {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instruction => "the instruction cache",
            Self::Uche => "UCHE",
            Self::Texture => "the texture cache",
            Self::Descriptor(_) => "the descriptors of a bindless base",
        }
    }
}

/// Why an access is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// No page is mapped there.
    #[error("no page is mapped at {address:#x}")]
    Unmapped {
        /// The first byte without a page.
        address: u64,
    },
    /// The page may not be written.
    #[error("the page at {address:#x} is read-only for the GPU")]
    ReadOnly {
        /// The first byte that may not be written.
        address: u64,
    },
    /// The access breaks a rule of the memory model, such as a missing invalidation.
    #[error("rule {}: {}. Seen: {what}", rule.name, rule.text)]
    Rule {
        /// The rule.
        rule: &'static Rule,
        /// What was done.
        what: String,
    },
}

/// What an atomic operation does: from the value in memory to the value that is stored.
pub type Change<'a> = &'a dyn Fn(u64) -> u64;

/// Memory by the GPU's virtual addresses.
///
/// An access is a component, a texel, up to four components of ldg or stg at any address, a dword of a descriptor, or a
/// line of code. The executor
/// calls in program order of each wave; waves take turns.
pub trait Memory {
    /// Reads bytes.
    ///
    /// # Errors
    /// [`Denied`], also where a part of it may not be read.
    fn read(&mut self, path: Path, address: u64, into: &mut [u8]) -> Result<(), Denied>;

    /// Writes bytes, through UCHE.
    ///
    /// # Errors
    /// [`Denied`], also where a part of it may not be written; then nothing is.
    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Denied>;

    /// Changes 4 or 8 bytes in one step in UCHE, and returns the value before.
    ///
    /// # Errors
    /// As [`Memory::write`].
    fn atomic(&mut self, address: u64, bytes: usize, change: Change<'_>) -> Result<u64, Denied>;
}
