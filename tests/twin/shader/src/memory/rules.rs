//! The rules of memory instructions.

use twin::rule::{Proof, Rule};

/// LDS beyond the workgroup's.
pub static LDS_RANGE: Rule = Rule {
    name: "LDS-RANGE",
    text: "LDS accesses are within the LDS of the workgroup; hardware reads 0 and drops writes",
    source: "ISA documents, chapter of the local data share, out-of-range addresses",
    proof: Proof::Sourced,
};

/// A misaligned access that the hardware cannot split.
pub static MEM_ALIGN: Rule = Rule {
    name: "MEM-ALIGN",
    text: "atomics are aligned to their size, in every alignment mode",
    source: "ISA documents, alignment of memory accesses (SH_MEM_CONFIG.alignment_mode)",
    proof: Proof::Sourced,
};

/// An atomic that no bus carries.
pub static MEM_ATOMIC_FABRIC: Rule = Rule {
    name: "MEM-ATOMIC-FABRIC",
    text: "an atomic on uncached memory outside the GPU's own is an integer addition or subtraction, a swap, or a \
           compare and swap; PCIe supports no others, and they are lost",
    source: "ROCm, \"How ROCm uses PCIe atomics\" and \"AMD GPU atomics operation support\"",
    proof: Proof::Sourced,
};

/// Scratch beyond the lane's.
pub static SCRATCH_RANGE: Rule = Rule {
    name: "SCRATCH-RANGE",
    text: "a lane accesses scratch within the bytes that COMPUTE_TMPRING_SIZE allocates for it",
    source: "ISA documents, scratch instructions; register COMPUTE_TMPRING_SIZE",
    proof: Proof::Guess,
};

/// A buffer without a format.
pub static BUFFER_FORMAT: Rule = Rule {
    name: "BUFFER-FORMAT",
    text: "a buffer that is accessed with a format has one",
    source: "ISA documents, buffer formats",
    proof: Proof::Sourced,
};
