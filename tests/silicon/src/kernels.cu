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

// A block of 64 threads writes its numbers in the reverse order, by way of shared memory.
extern "C" __global__ void turn(u32 *data) {
    __shared__ u32 block[64];
    block[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = block[63 - threadIdx.x];
}

// Each block writes its number in its cluster, and how many blocks that has.
extern "C" __global__ void cluster(u32 *data) {
    u32 rank = 0, blocks = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
#endif
    data[2 * blockIdx.x] = rank;
    data[2 * blockIdx.x + 1] = blocks;
}
