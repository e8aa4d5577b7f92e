// Clusters of blocks, barriers in shared memory, bulk copies, products of groups of warps: sm_90 and later.

#if __CUDA_ARCH__ >= 900
#include <cooperative_groups.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) clusters(int *x, int n) {
    __shared__ int own[256];
    cg::cluster_group cluster = cg::this_cluster();
    own[threadIdx.x] = x[threadIdx.x];
    cluster.sync();
    int *other = cluster.map_shared_rank(own, (cluster.block_rank() + 1) % cluster.num_blocks());
    atomicAdd(other + threadIdx.x, n);
    int a = other[threadIdx.x ^ 1];
    cluster.barrier_arrive();
    x[threadIdx.x] = a + cluster.query_shared_rank(other) + cluster.block_index().x;
    cluster.barrier_wait();
}

extern "C" __global__ void copies(const float *in, float *out, int n) {
    __shared__ alignas(128) float own[2][256];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar[2];
    if (threadIdx.x == 0) {
        init(&bar[0], blockDim.x);
        init(&bar[1], blockDim.x);
        cuda::device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    for (int i = 0; i < n; i++) {
        cuda::barrier<cuda::thread_scope_block>::arrival_token token;
        if (threadIdx.x == 0) {
            cuda::device::experimental::cp_async_bulk_global_to_shared(own[i & 1], in + 256 * i, 1024, bar[i & 1]);
            token = cuda::device::barrier_arrive_tx(bar[i & 1], 1, 1024);
        } else {
            token = bar[i & 1].arrive();
        }
        bar[i & 1].wait(cuda::std::move(token));
        own[i & 1][threadIdx.x] *= 2;
        cuda::device::experimental::fence_proxy_async_shared_cta();
        __syncthreads();
        if (threadIdx.x == 0) {
            cuda::device::experimental::cp_async_bulk_shared_to_global(out + 256 * i, own[i & 1], 1024);
            cuda::device::experimental::cp_async_bulk_commit_group();
            cuda::device::experimental::cp_async_bulk_wait_group_read<0>();
        }
        __syncthreads();
    }
}

struct alignas(64) Map { char bytes[128]; };

extern "C" __global__ void tensors(const __grid_constant__ Map map, const __grid_constant__ Map other, float *out, int n, unsigned long long policy) {
    extern __shared__ __align__(1024) unsigned char own[];
    unsigned at = (unsigned)__cvta_generic_to_shared(own), bar = at + 65536;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(1));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("prefetch.tensormap [%0];" ::"l"(&map));
    }
    __syncthreads();
    for (int k = 0; k < n; k++) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(8192));
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(at), "l"(&map), "r"(k * 64), "r"(blockIdx.x), "r"(bar) : "memory");
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(at + 4096), "l"(&other), "r"(k), "r"(n), "r"(3), "r"(bar), "l"(policy) : "memory");
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(at + 4096), "l"(&other), "r"(k), "r"(n), "r"(3), "r"(4), "r"(bar), "h"((short)1), "h"((short)k) : "memory");
            asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2}], [%3], %4;" ::"r"(at), "l"(&map), "r"(k), "r"(bar), "h"((short)3) : "memory");
            asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(k + 1), "r"(n) : "memory");
            asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(out), "r"(256) : "memory");
        }
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra again; }" ::"r"(bar), "r"(k & 1) : "memory");
        out[threadIdx.x] += ((float *)own)[threadIdx.x];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(k), "r"(n), "r"(at) : "memory");
            asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&other), "r"(k), "r"(n), "r"(at) : "memory");
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(out), "r"(at), "r"(512) : "memory");
            asm volatile("cp.async.bulk.commit_group;");
            asm volatile("cp.async.bulk.wait_group 0;");
        }
    }
}

extern "C" __global__ void launched(int *x) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    x[threadIdx.x] += 1;
    asm volatile("griddepcontrol.launch_dependents;");
    unsigned one;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(one));
    if (one) x[99] = 7;
}
#endif

#if __CUDA_ARCH_FEAT_SM90_ALL
template <int N> __device__ void product(float (&d)[N], unsigned long long a, unsigned long long b);
#define FOUR(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define SIXTEEN(x, i) FOUR(x, i), FOUR(x, i + 4), FOUR(x, i + 8), FOUR(x, i + 12)
#define NAMES "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"

extern "C" __global__ void groups(const unsigned long long *descriptors, const unsigned *a, float *out, int n) {
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = out[i];
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    for (int k = 0; k < n; k++) {
        unsigned long long x = descriptors[2 * k], y = descriptors[2 * k + 1];
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " NAMES ", %32, %33, 1, 1, 1, 0, 0;" : SIXTEEN(d, 0), SIXTEEN(d, 16) : "l"(x), "l"(y));
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " NAMES ", {%32, %33, %34, %35}, %36, 1, -1, 1, 1;" : SIXTEEN(d, 0), SIXTEEN(d, 16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(y + 2));
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e5m2 " NAMES ", %32, %33, 1, 1, 1;" : SIXTEEN(d, 0), SIXTEEN(d, 16) : "l"(x + 4), "l"(y + 4));
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 " NAMES ", %32, %33, 1, 1, 1;" : SIXTEEN(d, 0), SIXTEEN(d, 16) : "l"(x + 6), "l"(y + 6));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < 32; i++) out[threadIdx.x * 32 + i] = d[i];
}
#endif
