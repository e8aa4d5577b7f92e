//! USB identifiers.

/// Vendor and product of the PCIe bridges (ASM24xx) that carry a GPU.
///
/// add1:0001 and 3801:0001 are given by open firmware for GPU use; 174c is ASMedia, 2463 and 2464
/// are its own firmware. Source: tinygrad, runtime/ops_amd.py; linux-usb.org usb.ids.
pub const GPU_BRIDGES: [(u16, u16); 4] = [
    (0xadd1, 0x0001),
    (0x3801, 0x0001),
    (0x174c, 0x2463),
    (0x174c, 0x2464),
];

/// Vendor of the maker of ASM24xx, by which its own firmware is known.
pub const ASMEDIA: u16 = 0x174c;
