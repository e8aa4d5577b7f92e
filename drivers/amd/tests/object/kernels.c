// Constant tables, calls, variables, LDS, stacks: what makes relocations and facts of kernels.
#define GLOBAL __attribute__((address_space(1)))
#define LDS __attribute__((address_space(3)))
#define KERNEL __attribute__((amdgpu_kernel))

typedef GLOBAL int gint;
typedef unsigned long ulong;

KERNEL void add(gint *out, const gint *a, const gint *b, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < n)
    out[i] = a[i] + b[i];
}

static const int table[64] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
static int counter = 5;
static int zeros[100];
__attribute__((visibility("default"))) int shared_by_name = 7;
// Pointers in memory: addresses that are known only when the image is loaded.
static int *const pointers[2] = {&counter, &zeros[9]};

__attribute__((noinline)) int deep(int x) {
  volatile int stack[20];
  stack[x & 15] = x;
  return table[stack[x & 15] & 63];
}

KERNEL void look(gint *out, int n) {
  int i = __builtin_amdgcn_workitem_id_x();
  counter += i;
  out[i] = table[i & 63] + deep(n) + counter + zeros[i % 100] + shared_by_name + *pointers[i & 1];
}

static __attribute__((loader_uninitialized)) LDS int tile[300];

KERNEL __attribute__((amdgpu_flat_work_group_size(1, 256))) void turn(gint *out, ulong n) {
  int i = __builtin_amdgcn_workitem_id_x();
  tile[i] = out[i];
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
  __builtin_amdgcn_s_barrier();
  out[i] = tile[n - 1 - i];
}
