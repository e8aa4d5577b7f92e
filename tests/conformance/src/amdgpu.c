// The kernels of the suite for AMD GPUs, and one that does not end: one work-item per group, whose number counts x first.

typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

// How many groups there are, in x, y and z: the first of the hidden arguments, which code objects have from version 5 on; before, the grid
// of the dispatch packet, in work-items.
static u64 group(void) {
#ifdef BY_PACKET
  const u32 __attribute__((address_space(4))) *count = __builtin_amdgcn_dispatch_ptr() + 12;
#else
  const u32 __attribute__((address_space(4))) *count = __builtin_amdgcn_implicitarg_ptr();
#endif
  u64 x = __builtin_amdgcn_workgroup_id_x(), y = __builtin_amdgcn_workgroup_id_y();
  u64 z = __builtin_amdgcn_workgroup_id_z();
  return x + count[0] * (y + count[1] * z);
}

KERNEL void add(u32 *out, const u32 *a, const u32 *b, u64 per) {
  u64 begin = group() * per;
  for (u64 i = begin; i < begin + per; i++)
    out[i] = a[i] + b[i];
}

KERNEL void step(u32 *data, u64 value) {
  u64 g = group();
  data[g] = data[g] * 3 + (u32)value;
}

KERNEL void store(volatile u32 *at) { *at = (u32)group() * 2 + 1; }

// Until somebody stores what is not 0.
KERNEL void spin(volatile u32 *until) {
  while (*until == 0) {
  }
}
