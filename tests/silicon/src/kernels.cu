// The kernels of the suite of queues (tests/conformance), and one that does not end. Arguments are 8-byte words.
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void add(u32 *out, const u32 *a, const u32 *b, u64 per) {
    u64 first = blockIdx.x * per;
    for (u64 i = first; i < first + per; i++) out[i] = a[i] + b[i];
}

extern "C" __global__ void step(u32 *data, u64 value) {
    data[blockIdx.x] = data[blockIdx.x] * 3 + (u32)value;
}

extern "C" __global__ void store(u32 *address) {
    *address = 1;
}

// Until somebody stores what is not 0.
extern "C" __global__ void spin(volatile u32 *until) {
    while (*until == 0) {}
}
