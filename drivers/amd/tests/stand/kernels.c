// Kernels of the tests: one work-item per group.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))

// out[g] is the sum of 16 bytes, by way of an array that does not fit registers.
KERNEL void sums(u32 *out, const u8 *in) {
  u32 g = __builtin_amdgcn_workgroup_id_x();
  volatile u32 table[64];
  for (u32 i = 0; i < 64; i++)
    table[i] = 0;
  for (u32 i = 0; i < 16; i++)
    table[(i * 29 + g) % 64] = in[g * 16 + i];
  u32 sum = 0;
  for (u32 i = 0; i < 64; i++)
    sum += table[i];
  out[g] = sum;
}

// The same, by way of a larger one.
KERNEL void deep(u32 *out, const u8 *in) {
  u32 g = __builtin_amdgcn_workgroup_id_x();
  volatile u32 table[512];
  for (u32 i = 0; i < 16; i++)
    table[i * 32 + g % 32] = in[g * 16 + i];
  u32 sum = 0;
  for (u32 i = 0; i < 16; i++)
    sum += table[i * 32 + g % 32];
  out[g] = sum;
}

// data[g] = data[g] * 3 + value.
KERNEL void step(u32 *data, u64 value) {
  u32 g = __builtin_amdgcn_workgroup_id_x();
  data[g] = data[g] * 3 + (u32)value;
}

// Never ends while *at is 0.
KERNEL void spin(volatile u32 *at) {
  while (*at == 0)
    ;
}

// Stores to an address.
KERNEL void store(volatile u32 *at) { *at = 7; }
