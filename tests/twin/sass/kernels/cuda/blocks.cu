// NVIDIA's own templates for blocks: sums, scans, sorting, histograms, selection.

#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cuda/atomic>
#include <cuda/std/complex>

template <typename T> __global__ void blocks(const T *in, T *out, int n) {
    using Load = cub::BlockLoad<T, 128, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Sort = cub::BlockRadixSort<T, 128, 4>;
    using Scan = cub::BlockScan<T, 128>;
    using Sum = cub::BlockReduce<T, 128>;
    using Store = cub::BlockStore<T, 128, 4, cub::BLOCK_STORE_STRIPED>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Sort::TempStorage sort;
        typename Scan::TempStorage scan;
        typename Sum::TempStorage sum;
        typename Store::TempStorage store;
    } own;
    T x[4];
    Load(own.load).Load(in + blockIdx.x * 512, x, n, T(0));
    __syncthreads();
    Sort(own.sort).Sort(x);
    __syncthreads();
    Scan(own.scan).InclusiveSum(x, x);
    __syncthreads();
    T total = Sum(own.sum).Reduce(x, [](T a, T b) { return a > b ? a : b; });
    __syncthreads();
    Store(own.store).Store(out + blockIdx.x * 512, x, n);
    if (!threadIdx.x) out[gridDim.x * 512 + blockIdx.x] = total;
}
template __global__ void blocks(const int *, int *, int);
template __global__ void blocks(const float *, float *, int);
template __global__ void blocks(const unsigned long long *, unsigned long long *, int);
template __global__ void blocks(const short *, short *, int);

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out) {
    using Count = cub::BlockHistogram<unsigned char, 128, 4, 256, cub::BLOCK_HISTO_ATOMIC>;
    __shared__ typename Count::TempStorage own;
    __shared__ unsigned counts[256];
    unsigned char x[4];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Count(own).Histogram(x, counts);
    __syncthreads();
    out[threadIdx.x] = counts[threadIdx.x] + counts[threadIdx.x + 128];
}

extern "C" __global__ void library(cuda::std::complex<float> *z, cuda::std::complex<double> *w, int *flags, double *sum) {
    auto a = z[threadIdx.x];
    for (int i = 0; i < 20 && cuda::std::norm(a) < 4.0f; i++) a = a * a / z[0] + z[i];
    z[threadIdx.x] = a;
    w[threadIdx.x] = w[0] / (w[threadIdx.x] * w[1]);
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(flags[0]);
    cuda::atomic_ref<double, cuda::thread_scope_block> all(*sum);
    while (flag.load(cuda::std::memory_order_acquire) < (int)threadIdx.x) {}
    all.fetch_add(a.real(), cuda::std::memory_order_relaxed);
    flag.fetch_add(1, cuda::std::memory_order_release);
    int expected = 5;
    if (!flag.compare_exchange_strong(expected, 6)) flag.fetch_max(expected);
}
