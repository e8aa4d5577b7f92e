"""Registers for tinygrad 0.11.0, which fetches the kernel's headers from the network when it opens a GPU.

`write(cache)` puts into its cache (XDG_CACHE_HOME) what it uses of them on gfx942: addresses and fields from
Linux, drivers/gpu/drm/amd/include: asic_reg/gc/gc_9_4_3_{offset,sh_mask}.h,
asic_reg/nbio/nbio_7_9_0_{offset,sh_mask}.h, vega10_enum.h.
"""
import hashlib
import pathlib

URL = "https://gitlab.com/linux-kernel/linux-next/-/raw/cf6d949a409e09539477d32dbe7c954e4852e744/drivers/gpu/drm/amd"

# Name, offset, segment.
GC = [
    ("COMPUTE_DISPATCH_INITIATOR", 0xE00, 0), ("COMPUTE_START_X", 0xE04, 0),
    ("COMPUTE_PGM_LO", 0xE0C, 0), ("COMPUTE_DISPATCH_SCRATCH_BASE_LO", 0xE10, 0),
    ("COMPUTE_PGM_RSRC1", 0xE12, 0), ("COMPUTE_RESOURCE_LIMITS", 0xE15, 0),
    ("COMPUTE_STATIC_THREAD_MGMT_SE0", 0xE16, 0), ("COMPUTE_TMPRING_SIZE", 0xE18, 0),
    ("COMPUTE_STATIC_THREAD_MGMT_SE2", 0xE19, 0), ("COMPUTE_RESTART_X", 0xE1B, 0),
    ("COMPUTE_TG_CHUNK_SIZE", 0xE27, 0), ("COMPUTE_PGM_RSRC3", 0xE2D, 0), ("COMPUTE_USER_DATA_0", 0xE40, 0),
]
NBIO = [("BIF_BX_PF0_GPU_HDP_FLUSH_REQ", 0x106, 3), ("BIF_BX_PF0_GPU_HDP_FLUSH_DONE", 0x107, 3)]
FIELDS = [("COMPUTE_DISPATCH_INITIATOR", "COMPUTE_SHADER_EN", 1), ("COMPUTE_DISPATCH_INITIATOR", "FORCE_START_AT_000", 4)]
ENUM = {"TC_OP_ATOMIC_ADD_RTN_32": 0xF, "CS_PARTIAL_FLUSH": 7, "CACHE_FLUSH_AND_INV_TS_EVENT": 0x14}


def write(cache):
    folder = pathlib.Path(cache) / "tinygrad" / "downloads"
    for name in ("asic_regs", "defines"):
        (folder / name).mkdir(parents=True, exist_ok=True)

    def registers(block, rows, fields=()):
        offsets = "".join(f"#define reg{n} {at:#x}\n#define reg{n}_BASE_IDX {segment}\n" for n, at, segment in rows)
        masks = "".join(f"#define {r}__{f}_MASK {mask:#x}\n" for r, f, mask in fields)
        (folder / "asic_regs" / f"{block}_offset.h").write_text(offsets)
        (folder / "asic_regs" / f"{block}_sh_mask.h").write_text(masks)

    registers("gc_9_4_3", GC, FIELDS)
    registers("nbio_7_9_0", NBIO)
    name = hashlib.md5(f"{URL}/include/vega10_enum.h".encode()).hexdigest()
    (folder / "defines" / name).write_text("".join(f"{n} = {value:#x},\n" for n, value in ENUM.items()))
