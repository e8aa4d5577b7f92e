// The kernels of the suite: of a buffer the object and the offset in it. A group is one work-item. `step` is a function of the language.

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void add(__global uchar *o, const ulong oo, __global uchar *a, const ulong ao, __global uchar *b, const ulong bo,
                  const long per) {
  __global uint *out = (__global uint *)(o + oo);
  const __global uint *x = (const __global uint *)(a + ao), *y = (const __global uint *)(b + bo);
  const ulong first = get_group_id(0) * (ulong)per;
  for (ulong i = first; i < first + (ulong)per; i++)
    out[i] = x[i] + y[i];
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void step_each(__global uchar *d, const ulong offset, const long value) {
  __global uint *data = (__global uint *)(d + offset);
  data[get_group_id(0)] = data[get_group_id(0)] * 3 + (uint)value;
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void store(__global uchar *d, const ulong offset) {
  *(volatile __global uint *)(d + offset) = (uint)get_global_size(0);
}

__attribute__((reqd_work_group_size(8, 1, 1)))
__kernel void turn(__global uchar *d, const ulong offset) {
  __local uint all[8];
  __global uint *data = (__global uint *)(d + offset) + get_group_id(0) * 8;
  all[get_local_id(0)] = data[get_local_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  data[get_local_id(0)] = all[7 - get_local_id(0)];
}
