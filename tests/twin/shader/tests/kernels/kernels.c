// Kernels of the tests, compiled for every generation.

#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3), loader_uninitialized))

typedef unsigned u32;
typedef unsigned long u64;

static u32 item(void) { return __builtin_amdgcn_workitem_id_x(); }
static u32 group(void) { return __builtin_amdgcn_workgroup_id_x(); }

static void barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

KERNEL void saxpy(float a, const float GLOBAL *x, float GLOBAL *y) {
  u32 i = group() * 64 + item();
  y[i] = __builtin_fmaf(a, x[i], y[i]);
}

// Tiles of 16x16 in LDS.
KERNEL void matmul(const float GLOBAL *a, const float GLOBAL *b, float GLOBAL *c, u32 n) {
  static float LOCAL as[16][17], bs[16][17];
  u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
  u32 column = __builtin_amdgcn_workgroup_id_x() * 16 + x;
  u32 row = __builtin_amdgcn_workgroup_id_y() * 16 + y;
  float sum = 0;
  for (u32 k = 0; k < n; k += 16) {
    as[y][x] = a[row * n + k + x];
    bs[y][x] = b[(k + y) * n + column];
    barrier();
    for (u32 i = 0; i < 16; i++)
      sum = __builtin_fmaf(as[y][i], bs[i][x], sum);
    barrier();
  }
  c[row * n + column] = sum;
}

KERNEL void collatz(u32 GLOBAL *out) {
  u32 i = group() * 64 + item();
  u64 n = i + 1;
  u32 steps = 0;
  while (n != 1) {
    n = n % 2 ? 3 * n + 1 : n / 2;
    steps++;
  }
  out[i] = steps;
}

KERNEL void histogram(const u32 GLOBAL *in, u32 GLOBAL *out) {
  static u32 LOCAL bins[64];
  if (item() < 64)
    bins[item()] = 0;
  barrier();
  u32 value = in[group() * 256 + item()];
  __scoped_atomic_fetch_add(&bins[value % 64], 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
  barrier();
  if (item() < 64)
    __scoped_atomic_fetch_add(&out[item()], bins[item()], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

// An array that cannot be kept in registers.
KERNEL void stack(const u32 GLOBAL *in, u32 GLOBAL *out) {
  u32 i = group() * 64 + item();
  volatile u32 squares[32];
  for (u32 k = 0; k < 32; k++)
    squares[k] = k * k;
  u32 pick = in[i];
  out[i] = squares[pick] + 7 * ((pick + 1) % 32);
}

KERNEL void numbers(const u32 GLOBAL *in, u32 GLOBAL *out) {
  u32 i = item();
  u32 a = in[i], b = a << 7 | a >> 25 | 1;
  out += 8 * i;
  out[0] = a / (b < 0xffff ? b : 0xffff);
  out[1] = a % (b & 0xfff | 1);
  u64 wide = (u64)a * b / ((u64)(b >> 3) + 1);
  out[2] = wide;
  out[3] = wide >> 32;
  double d = (double)a / b + __builtin_sqrt((double)a);
  u64 bits = __builtin_bit_cast(u64, d);
  out[4] = bits;
  out[5] = bits >> 32;
  out[6] = (u32)((int)a >> 3) * b;
  out[7] = __builtin_clzg(a) + __builtin_popcount(b);
}

__attribute__((noinline)) static u32 fib(u32 n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

KERNEL void calls(u32 GLOBAL *out, u32 n) { out[item()] = fib(n) + item(); }

// A workgroup sets its flag once the next one has set its own.
KERNEL void handshake(u32 GLOBAL *flags, u32 groups) {
  u32 g = group();
  if (item() == 0) {
    if (g + 1 < groups)
      while (__scoped_atomic_load_n(&flags[g + 1], __ATOMIC_ACQUIRE, __MEMORY_SCOPE_DEVICE) == 0)
        ;
    __scoped_atomic_store_n(&flags[g], g + 1, __ATOMIC_RELEASE, __MEMORY_SCOPE_DEVICE);
  }
}

// Who comes first gets the first ticket, after work that is not the same for all; and a sum whose last
// bits say in which order it was made.
KERNEL void tickets(u32 GLOBAL *next, u32 GLOBAL *out, float GLOBAL *sum) {
  u32 x = group() * 64 + item();
  for (u32 k = 0; k < group() % 7 * 300; k++)
    x = x * 1664525 + 1013904223;
  u32 mine = __scoped_atomic_fetch_add(next, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  out[mine] = x;
  float old, value = 1.0f / (float)(x % 1000 + 1);
  u32 seen = __scoped_atomic_load_n((u32 GLOBAL *)sum, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  do
    old = __builtin_bit_cast(float, seen);
  while (!__scoped_atomic_compare_exchange_n((u32 GLOBAL *)sum, &seen, __builtin_bit_cast(u32, old + value),
                                             0, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));
}

KERNEL void ids(u32 GLOBAL *out) {
  u32 gx = __builtin_amdgcn_workgroup_id_x(), gy = __builtin_amdgcn_workgroup_id_y(),
      gz = __builtin_amdgcn_workgroup_id_z();
  u32 ix = __builtin_amdgcn_workitem_id_x(), iy = __builtin_amdgcn_workitem_id_y(),
      iz = __builtin_amdgcn_workitem_id_z();
  u32 index = (gx + 2 * (gy + 3 * gz)) * 24 + ix + 4 * (iy + 2 * iz);
  out[index] = gx << 20 | gy << 16 | gz << 12 | ix << 8 | iy << 4 | iz;
}

// A tile of 32x32 per wave pair, 4x4 results per work-item in registers.
KERNEL void matmul_registers(const float GLOBAL *a, const float GLOBAL *b, float GLOBAL *c, u32 n) {
  u32 x = item() % 8 * 4, y = item() / 8 * 4;
  a += (__builtin_amdgcn_workgroup_id_y() * 32 + y) * n;
  b += __builtin_amdgcn_workgroup_id_x() * 32 + x;
  c += (__builtin_amdgcn_workgroup_id_y() * 32 + y) * n + __builtin_amdgcn_workgroup_id_x() * 32 + x;
  float sum[4][4] = {};
  for (u32 k = 0; k < n; k += 4) {
    float as[4][4], bs[4][4];
    for (u32 i = 0; i < 4; i++)
      for (u32 j = 0; j < 4; j++) {
        as[i][j] = a[i * n + k + j];
        bs[i][j] = b[(k + i) * n + j];
      }
    for (u32 i = 0; i < 4; i++)
      for (u32 j = 0; j < 4; j++)
        for (u32 l = 0; l < 4; l++)
          sum[i][j] = __builtin_fmaf(as[i][l], bs[l][j], sum[i][j]);
  }
  for (u32 i = 0; i < 4; i++)
    for (u32 j = 0; j < 4; j++)
      c[i * n + j] = sum[i][j];
}
