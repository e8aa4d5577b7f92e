//! `Kernel::CopyOpen`: a copy whose ends the kernel finds.

/// Bytes of a copy at least: 32 fibers copy a byte at the ends each.
pub const LEAST: u64 = 512;

/// Its instructions as text. r0.z: how far its unit is from the start; r4.y: how far its byte is. The start is h (r2.z) bytes
/// before a multiple of 16, the last unit ends at T (r3.w). Of the bytes, fibers with bit 4 in their number have one behind
/// T, the others one before h. A dword is the upper bits of one that is loaded, and the lower ones of the next; where none
/// are needed of the fifth, the fourth is loaded again.
pub(super) const TEXT: &str = "shl.b r0.y, r48.x, 7
(rpt2)nop
add.u r0.x, r0.x, r0.y
mov.u32u32 r2.x, c0.x
mov.u32u32 r2.y, c1.x
(rpt2)nop
sub.u r2.z, 0, r2.x
shl.b r0.z, r0.x, 4
and.b r0.w, r0.x, 31
(rpt2)nop
and.b r2.z, r2.z, 15
(rpt2)nop
sub.u r2.w, r2.y, r2.z
add.u r0.z, r0.z, r2.z
max.u r3.x, r2.z, 1
sub.u r3.y, r2.y, 1
and.b r3.z, r0.w, 16
(rpt2)nop
shr.b r2.w, r2.w, 4
sub.u r3.x, r3.x, 1
(rpt2)nop
shl.b r2.w, r2.w, 4
min.u r3.x, r0.w, r3.x
(rpt2)nop
add.u r3.w, r2.w, r2.z
(rpt2)nop
sub.u r4.x, r3.w, 16
add.u r4.y, r3.w, r0.w
(rpt2)nop
min.u r0.z, r0.z, r4.x
sub.u r4.y, r4.y, 16
(rpt2)nop
min.u r4.y, r4.y, r3.y
(rpt2)nop
sel.b32 r4.y, r4.y, r3.z, r3.x
(rpt2)nop
add.u r5.x, c0.x, r0.z
add.u r5.z, c0.z, r0.z
add.u r6.x, c0.x, r4.y
add.u r6.z, c0.z, r4.y
(rpt2)nop
cmps.u.lt r7.x, r5.x, c0.x
cmps.u.lt r7.y, r5.z, c0.z
cmps.u.lt r7.z, r6.x, c0.x
cmps.u.lt r7.w, r6.z, c0.z
and.b r8.x, r5.z, 3
(rpt2)nop
add.u r5.y, c0.y, r7.x
add.u r5.w, c0.w, r7.y
add.u r6.y, c0.y, r7.z
add.u r6.w, c0.w, r7.w
sub.u r5.z, r5.z, r8.x
shl.b r8.y, r8.x, 3
min.u r8.z, r8.x, 1
(rpt2)nop
sub.u r8.w, 31, r8.y
add.u r8.z, r8.z, 3
(rpt5)nop
ldg.u32 r9.x, g[r5.z], 4
ldg.a.u32 r10.x, g[r5.z+(r8.z<<2)], 1
ldg.u8 hr22.x, g[r6.z], 1
(sy)shr.b r12.x, r9.x, r8.y
shr.b r12.y, r9.y, r8.y
shr.b r12.z, r9.z, r8.y
shr.b r12.w, r9.w, r8.y
shl.b r13.x, r9.y, 1
shl.b r13.y, r9.z, 1
shl.b r13.z, r9.w, 1
shl.b r13.w, r10.x, 1
shl.b r13.x, r13.x, r8.w
shl.b r13.y, r13.y, r8.w
shl.b r13.z, r13.z, r8.w
shl.b r13.w, r13.w, r8.w
or.b r12.x, r12.x, r13.x
or.b r12.y, r12.y, r13.y
or.b r12.z, r12.z, r13.z
or.b r12.w, r12.w, r13.w
(rpt5)nop
stg.u32 g[r5.x], r12.x, 4
stg.u8 g[r6.x], hr22.x, 1
end
(rpt4)nop
nop
nop
nop";

/// Its instructions.
pub(super) const WORDS: &[u64] = &[
    0x46d00001_200700c0,
    0x00000200_00000000,
    0x42100000_00010000,
    0x202cc008_00000000,
    0x202cc009_00000004,
    0x00000200_00000000,
    0x4250000a_00082000,
    0x46d00002_20040000,
    0x43900003_201f0000,
    0x00000200_00000000,
    0x4390000a_200f000a,
    0x00000200_00000000,
    0x4250000b_000a0009,
    0x42100002_000a0002,
    0x4310000c_2001000a,
    0x4250000d_20010009,
    0x4390000e_20100003,
    0x00000200_00000000,
    0x46f0000b_2004000b,
    0x4250000c_2001000c,
    0x00000200_00000000,
    0x46d0000b_2004000b,
    0x42d0000c_000c0003,
    0x00000200_00000000,
    0x4210000f_000a000b,
    0x00000200_00000000,
    0x42500010_2010000f,
    0x42100011_0003000f,
    0x00000200_00000000,
    0x42d00002_00100002,
    0x42500011_20100011,
    0x00000200_00000000,
    0x42d00011_000d0011,
    0x00000200_00000000,
    0x64870011_000c0011,
    0x00000200_00000000,
    0x42100014_00021000,
    0x42100016_00021002,
    0x42100018_00111000,
    0x4210001a_00111002,
    0x00000200_00000000,
    0x4290001c_10000014,
    0x4290001d_10020016,
    0x4290001e_10000018,
    0x4290001f_1002001a,
    0x43900020_20030016,
    0x00000200_00000000,
    0x42100015_001c1001,
    0x42100017_001d1003,
    0x42100019_001e1001,
    0x4210001b_001f1003,
    0x42500016_00200016,
    0x46d00021_20030020,
    0x42d00022_20010020,
    0x00000200_00000000,
    0x42500023_0021201f,
    0x42100022_20030022,
    0x00000500_00000000,
    0xc0060024_04858001,
    0xc0060028_01c58045,
    0xc00c0058_01868001,
    0x56f00030_00210024,
    0x46f00031_00210025,
    0x46f00032_00210026,
    0x46f00033_00210027,
    0x46d00034_20010025,
    0x46d00035_20010026,
    0x46d00036_20010027,
    0x46d00037_20010028,
    0x46d00034_00230034,
    0x46d00035_00230035,
    0x46d00036_00230036,
    0x46d00037_00230037,
    0x43b00030_00340030,
    0x43b00031_00350031,
    0x43b00032_00360032,
    0x43b00033_00370033,
    0x00000500_00000000,
    0xc0c62900_04800060,
    0xc0cc3100_018000b0,
    0x03000000_00000000,
    0x00000400_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
    0x00000000_00000000,
];
