// Tensor cores by the portable interface, and copies that go on by themselves.

#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

using namespace nvcuda::wmma;

template <typename T, typename S, int M, int N, int K, typename A, typename B> __global__ void product(const T *a, const T *b, S *c, int n, S with) {
    __shared__ __align__(32) T own[M * K];
    fragment<matrix_a, M, N, K, T, A> fa;
    fragment<matrix_b, M, N, K, T, B> fb;
    fragment<accumulator, M, N, K, S> fc;
    fill_fragment(fc, with);
    for (int k = 0; k < n; k += K) {
        for (int i = threadIdx.x; i < M * K; i += 32) own[i] = a[k + i];
        __syncthreads();
        load_matrix_sync(fa, own, K);
        load_matrix_sync(fb, b + k * n, n);
        mma_sync(fc, fa, fb, fc);
        __syncthreads();
    }
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] > S(0) ? fc.x[i] : S(0);
    store_matrix_sync(c, fc, n, mem_row_major);
}

template __global__ void product<__half, float, 16, 16, 16, row_major, col_major>(const __half *, const __half *, float *, int, float);
template __global__ void product<__half, __half, 16, 16, 16, col_major, row_major>(const __half *, const __half *, __half *, int, __half);
template __global__ void product<__half, float, 32, 8, 16, row_major, row_major>(const __half *, const __half *, float *, int, float);
template __global__ void product<__half, float, 8, 32, 16, col_major, col_major>(const __half *, const __half *, float *, int, float);
template __global__ void product<__nv_bfloat16, float, 16, 16, 16, row_major, col_major>(const __nv_bfloat16 *, const __nv_bfloat16 *, float *, int, float);
template __global__ void product<signed char, int, 16, 16, 16, row_major, col_major>(const signed char *, const signed char *, int *, int, int);
template __global__ void product<unsigned char, int, 32, 8, 16, col_major, row_major>(const unsigned char *, const unsigned char *, int *, int, int);
template __global__ void product<double, double, 8, 8, 4, row_major, col_major>(const double *, const double *, double *, int, double);

extern "C" __global__ void singles(const float *a, const float *b, float *c, int n) {
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> fa;
    fragment<matrix_b, 16, 16, 8, precision::tf32, col_major> fb;
    fragment<accumulator, 16, 16, 8, float> fc;
    load_matrix_sync(fc, c, n, mem_col_major);
    load_matrix_sync(fa, a, n);
    load_matrix_sync(fb, b, n);
    for (int i = 0; i < fa.num_elements; i++) fa.x[i] = __float_to_tf32(fa.x[i]);
    mma_sync(fc, fa, fb, fc);
    store_matrix_sync(c, fc, n, mem_row_major);
}

extern "C" __global__ void staged(const float4 *a, float4 *c, int n) {
    __shared__ float4 stages[4][64];
    for (int s = 0; s < 3; s++) {
        __pipeline_memcpy_async(&stages[s][threadIdx.x], a + s * n + threadIdx.x, 16);
        __pipeline_memcpy_async(&stages[s][threadIdx.x + 32].x, &a[s * n + threadIdx.x + 32].x, 4);
        __pipeline_commit();
    }
    float4 sum = {0, 0, 0, 0};
    for (int s = 0; s < n; s++) {
        __pipeline_wait_prior(2);
        __syncthreads();
        float4 v = stages[s & 3][threadIdx.x ^ 1];
        sum.x += v.x, sum.y *= v.y, sum.z -= v.z, sum.w += v.w * v.x;
        if (s + 3 < n) __pipeline_memcpy_async(&stages[(s + 3) & 3][threadIdx.x], a + (s + 3) * n + threadIdx.x, 16, s & 7);
        __pipeline_commit();
    }
    c[threadIdx.x] = sum;
}
