// Kernels of mistakes.c, in plain C for the bare chip.

#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))
#define GLOBAL __attribute__((address_space(1)))
#define CONSTANT __attribute__((address_space(4)))
#define LOCAL __attribute__((address_space(3), loader_uninitialized))

typedef unsigned u32;

static u32 item(void) { return __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x(); }

// Loads by lanes go through the vector caches, of one address through the scalar cache.
KERNEL void add(const u32 GLOBAL *in, u32 GLOBAL *out, u32 by) { out[item()] = in[item()] + by; }

KERNEL void spread(const u32 CONSTANT *in, u32 GLOBAL *out) { out[item()] = in[0] + item(); }

// Which places of an array depends on data: it lies in private memory.
KERNEL void turn(const u32 GLOBAL *in, u32 GLOBAL *out) {
  volatile u32 own[16];
  for (u32 i = 0; i < 16; i++) own[i ^ (in[item()] & 15)] = i;
  out[item()] = own[item() & 15];
}

KERNEL void mirror(const u32 GLOBAL *in, u32 GLOBAL *out) {
  static u32 LOCAL all[64];
  all[__builtin_amdgcn_workitem_id_x()] = in[item()];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  out[item()] = all[63 - __builtin_amdgcn_workitem_id_x()];
}

KERNEL void count(u32 GLOBAL *at) { __atomic_fetch_add(at, 1, __ATOMIC_RELAXED); }

KERNEL void mark(u32 GLOBAL *at) { __atomic_fetch_or(at, 4, __ATOMIC_RELAXED); }

// Two pieces of code of one size: a number that is stored.
KERNEL void one(u32 GLOBAL *out) { out[item()] = 0x11111111; }
KERNEL void two(u32 GLOBAL *out) { out[item()] = 0x22222222; }
