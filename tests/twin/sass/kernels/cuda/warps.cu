// What threads tell each other: lanes, atomics of all scopes, groups.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

extern "C" __global__ void lanes(const int *in, const float *f, const double *d, int *out, int n, unsigned mask) {
    int i = threadIdx.x, a = in[i], r = 0;
    r += __shfl_sync(~0u, a, n) + __shfl_up_sync(~0u, a, 3) + __shfl_down_sync(mask, a, n, 8) + __shfl_xor_sync(~0u, a, 16);
    r += (int)__shfl_xor_sync(~0u, f[i], 1) + (int)__shfl_sync(~0u, d[i], i + 1, 16) + (int)__shfl_up_sync(~0u, (long long)a << 9, 1);
    r ^= __ballot_sync(~0u, a > n) + __all_sync(mask, a & 1) + __any_sync(~0u, a == n) + __uni_sync(~0u, a) + __activemask();
    int all;
    r += __match_any_sync(~0u, a) + __match_all_sync(mask, (unsigned long long)a * n, &all) + all;
    r += __reduce_add_sync(~0u, a) + __reduce_min_sync(mask, (unsigned)a) + __reduce_max_sync(~0u, a) + __reduce_xor_sync(~0u, (unsigned)a);
    r += __reduce_and_sync(~0u, (unsigned)a) + __reduce_or_sync(mask, (unsigned)a) + __fns(mask, i, n);
    if (a > n) {
        __syncwarp(mask);
        r += __popc(__activemask());
    }
    r += __syncthreads_count(a) + __syncthreads_and(a > n) + __syncthreads_or(a < n);
    out[i] = r;
}

template <typename T> __global__ void atomics(T *to, T *old, const T *in, T with) {
    __shared__ T own[64];
    int i = threadIdx.x;
    T x = in[i];
    own[i & 63] = 0;
    __syncthreads();
    old[i] = atomicAdd(to + i, x) + atomicExch(to + 64, x) + atomicMin(to + 65, x) + atomicMax(to + 66, x);
    old[i] ^= atomicAnd(to + 67, x) + atomicOr(to + 68, x) ^ atomicXor(to + 69, with) + atomicCAS(to + 70, x, with);
    atomicAdd(own + (i & 31), x);
    atomicMax(own + 3, x);
    atomicOr(own + 4, x);
    old[i] += atomicCAS(own + 5, x, with) + atomicExch(own + 6, x) + atomicAdd(own + 7, T(1));
    atomicAdd(to + 71, T(1));
    atomicMin(to + 72, x);
    atomicXor_system(to + 73, x);
    atomicAdd_block(to + 74, x);
    __syncthreads();
    to[100 + i] = own[i & 63];
}
template __global__ void atomics(int *, int *, const int *, int);
template __global__ void atomics(unsigned *, unsigned *, const unsigned *, unsigned);
template __global__ void atomics(unsigned long long *, unsigned long long *, const unsigned long long *, unsigned long long);

extern "C" __global__ void sums(float *f, double *d, __half2 *h, __nv_bfloat162 *b, unsigned short *s, unsigned *u, __half *one, float4 *four) {
    __shared__ float own[32];
    __shared__ double wide[4];
    int i = threadIdx.x;
    f[i] = atomicAdd(f + 99, f[i]) + atomicAdd(own + (i & 7), 1.5f) + atomicExch(f + 3, 1.0f);
    d[i] = atomicAdd(d + 99, d[i]) + atomicAdd(wide + (i & 3), 2.5);
    h[i] = atomicAdd(h + 99, h[i]);
    b[i] = atomicAdd(b + 99, b[i]);
    one[i] = atomicAdd(one + 9, one[i]);
    s[i] = atomicCAS(s + 7, s[i], (unsigned short)i);
    u[i] = atomicInc(u + 99, 17) + atomicDec(u + 98, u[i]);
    atomicAdd(f + 98, f[i]);
    atomicAdd(h + 98, h[i]);
#if __CUDA_ARCH__ >= 900
    four[i] = atomicAdd(four + 3, four[i]);
#endif
}

extern "C" __global__ void groups(int *x, float *f, int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(warp);
    int i = block.thread_rank(), a = x[i];
    a = cg::reduce(warp, a, cg::plus<int>()) + cg::reduce(tile, a, cg::greater<int>());
    f[i] = cg::reduce(warp, f[i], cg::less<float>()) + cg::exclusive_scan(tile, f[i]);
    if (a > n) {
        cg::coalesced_group now = cg::coalesced_threads();
        if (now.thread_rank() == 0) atomicAdd(x + 999, now.size());
        a += now.shfl(a, 0) + cg::inclusive_scan(now, a);
        auto same = cg::labeled_partition(now, a & 3);
        a += same.size();
    }
    block.sync();
    x[i] = a + tile.meta_group_rank() + warp.match_any(a) + tile.ballot(a & 1) + cg::this_grid().thread_rank();
    cg::this_grid().sync();
    x[i + n] = x[n - i];
}
