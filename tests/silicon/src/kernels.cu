// The kernels of the suite of queues (tests/conformance), and one that does not end. Arguments are 8-byte words.
typedef unsigned int u32;
typedef unsigned long long u64;

// The number of this group in a grid of any shape.
static __device__ u64 group() {
    return blockIdx.x + (u64)gridDim.x * (blockIdx.y + (u64)gridDim.y * blockIdx.z);
}

extern "C" __global__ void add(u32 *out, const u32 *a, const u32 *b, u64 per) {
    u64 first = group() * per;
    for (u64 i = first; i < first + per; i++) out[i] = a[i] + b[i];
}

extern "C" __global__ void step(u32 *data, u64 value) {
    u64 g = group();
    data[g] = data[g] * 3 + (u32)value;
}

extern "C" __global__ void store(u32 *address) {
    *address = 1;
}

// Until somebody stores what is not 0.
extern "C" __global__ void spin(volatile u32 *until) {
    while (*until == 0) {}
}
