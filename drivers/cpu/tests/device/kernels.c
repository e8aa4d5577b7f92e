// The kernels of the suite: argument block, first group, one past the last group.

typedef unsigned int u32;
typedef unsigned long long u64;

void add(const u64 *args, u64 begin, u64 end) {
  u32 *out = (u32 *)args[0];
  const u32 *a = (const u32 *)args[1], *b = (const u32 *)args[2];
  u64 per = args[3];
  for (u64 i = begin * per; i < end * per; i++)
    out[i] = a[i] + b[i];
}

void step(const u64 *args, u64 begin, u64 end) {
  u32 *data = (u32 *)args[0];
  for (u64 g = begin; g < end; g++)
    data[g] = data[g] * 3 + (u32)args[1];
}

void store(const u64 *args, u64 begin, u64 end) {
  *(volatile u32 *)args[0] = (u32)(begin + end);
}
