// Halves, bfloat16 and numbers of 8, 6 and 4 bits.

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_fp6.h>
#include <cuda_fp4.h>

template <typename H, typename H2> __global__ void halves(const H2 *in, H2 *out, const H *one, H *lone, float with) {
    int i = threadIdx.x;
    H2 a = in[i], b = in[i + 32], c = in[i + 64];
    H2 r = __hfma2(a, b, c) + __hmul2(a, c) - __hadd2_sat(b, c) + __hfma2_relu(a, c, b) + __hmul2_sat(a, b) + __hneg2(a) * __habs2(b);
    r += h2exp(a) + h2log(b) + h2sqrt(c) + h2rsqrt(a) + h2sin(b) + h2cos(c) + h2exp2(a) + h2log2(b) + h2rcp(c) + h2floor(a) + h2rint(b);
    r += __hmin2(a, b) + __hmax2_nan(b, c) + __heq2(a, b) + __hltu2(b, c) + __hgt2(a, c) + a / b;
    if (__hble2(a, b) || __hbneu2(b, c)) r = __hsub2(r, a);
    out[i] = r;
    H x = one[i], y = one[i + 32], z = one[i + 64];
    H s = __hfma(x, y, z) + x * y - z / x + __hmin(x, y) + hexp(x) + htanh(y) + hsqrt(z) + hceil(x) + htrunc(y);
    if (__hlt(x, y) && !__hisnan(z)) s += __hmul_sat(x, z);
    s += H((float)x * with) + H(i) + H((unsigned short)__half2uint_rz(__float2half(with)));
    lone[i] = s + H((int)(float)y) + __hmax(s, z);
}

template __global__ void halves(const __half2 *, __half2 *, const __half *, __half *, float);
template __global__ void halves(const __nv_bfloat162 *, __nv_bfloat162 *, const __nv_bfloat16 *, __nv_bfloat16 *, float);

extern "C" __global__ void conversions(const float *f, const double *d, const __half *h, const __nv_bfloat16 *b, int *out, long long *wide) {
    int i = threadIdx.x;
    out[i] = __half2int_rn(h[i]) + __half2uint_rd(h[i]) + __half2short_ru(h[i]) + __half2ushort_rz(h[i]) + __half2char_rz(h[i]);
    wide[i] = __half2ll_rz(h[i]) + __half2ull_rn(h[i]) + __bfloat162ll_rz(b[i]) + (long long)d[i] + (long long)f[i];
    out[i] += __bfloat162int_rn(b[i]) + __bfloat162uint_rd(b[i]) + __bfloat162short_ru(b[i]) + (signed char)f[i] + (unsigned short)d[i];
    __half p = __float2half_rz(f[i]) + __double2half(d[i]) + __int2half_ru(i) + __ll2half_rn(i) + __ushort2half_rd(i) + __short2half_rn(i);
    __nv_bfloat16 q = __float2bfloat16_rz(f[i]) + __double2bfloat16(d[i]) + __int2bfloat16_ru(i) + __ull2bfloat16_rn(i);
    ((__half *)wide)[1000 + i] = p;
    ((__nv_bfloat16 *)wide)[2000 + i] = q;
    ((__half2 *)wide)[3000 + i] = __floats2half2_rn(f[i], f[i + 1]);
    ((__nv_bfloat162 *)wide)[4000 + i] = __floats2bfloat162_rn(f[i], f[i + 1]);
}

extern "C" __global__ void eights(const float *f, const __half2 *h, const __nv_bfloat162 *b, const unsigned *in, unsigned *out) {
    int i = threadIdx.x;
    __nv_fp8x2_e4m3 p(make_float2(f[i], f[i + 1]));
    __nv_fp8x2_e5m2 q(h[i]);
    __nv_fp8x2_e4m3 r(b[i]);
    __nv_fp8_e5m2 s(f[i + 2]);
    __nv_fp8x4_e4m3 t(make_float4(f[i], f[i + 1], f[i + 2], f[i + 3]));
    __nv_fp8_e8m0 u(f[i + 7]);
    out[i] = p.__x + (q.__x << 16) + r.__x + s.__x + t.__x + u.__x;
    __nv_fp8x4_e4m3 x;
    __nv_fp8x4_e5m2 y;
    x.__x = in[i];
    y.__x = in[i + 32];
    float4 v = (float4)x, w = (float4)y;
    out[i + 32] = __float_as_uint(v.x * w.y + v.z * w.w);
    __nv_fp8_e4m3 z;
    z.__x = in[i];
    out[i + 64] = (int)(float)z + __half_as_ushort((__half)z) + __bfloat16_as_ushort((__nv_bfloat16)z);
}

extern "C" __global__ void smaller(const float2 *f, const __half2 *h, const unsigned *in, unsigned *out) {
    int i = threadIdx.x;
    __nv_fp6x2_e2m3 p(f[i]);
    __nv_fp6x2_e3m2 q(h[i]);
    __nv_fp4x2_e2m1 r(f[i]);
    out[i] = p.__x + (q.__x << 16) + r.__x;
    __nv_fp6x2_e2m3 x;
    __nv_fp6x2_e3m2 y;
    __nv_fp4x2_e2m1 z;
    x.__x = in[i];
    y.__x = in[i + 32];
    z.__x = in[i + 64];
    float2 u = (float2)x, v = (float2)y;
    __half2 w = (__half2)z;
    out[i + 32] = __float_as_uint(u.x * v.y) + *(unsigned *)&w;
}
