// Singles and doubles: the library's functions, roundings, comparisons.

template <typename T> __global__ void functions(const T *in, T *out, int n, T with) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T a = in[i], b = in[i + n], r = 0;
    r += sin(a) + cos(b) + tan(a * b) + asin(a) + acos(b) + atan(a) + atan2(a, b);
    r += exp(a) + exp2(b) + exp10(a) + expm1(b) + log(a) + log2(b) + log10(a) + log1p(b);
    r += pow(a, b) + sqrt(a) + rsqrt(b) + cbrt(a) + hypot(a, b) + fmod(a, with) + remainder(b, with);
    r += sinh(a) + cosh(b) + tanh(a) + asinh(b) + acosh(a) + atanh(b) + erf(a) + erfc(b) + erfinv(a) + normcdf(b);
    r += tgamma(a) + lgamma(b) + j0(a) + y1(b) + rcbrt(a) + sinpi(b) + cospi(a);
    r += floor(a) + ceil(b) + trunc(a) + rint(b) + round(a) + nearbyint(b) + fdim(a, b) + copysign(a, b);
    r += nextafter(a, b) + ldexp(a, 3) + logb(b) + ilogb(a) + fmin(a, b) + fmax(a, with) + fma(a, b, with);
    T whole;
    int power;
    r += modf(a, &whole) + frexp(b, &power) + whole + power;
    T s, c;
    sincos(a * 1000, &s, &c);
    out[i] = r + s * c + (isnan(a) || isinf(b) || signbit(a) ? T(1) : T(2));
}

template __global__ void functions(const float *, float *, int, float);
template __global__ void functions(const double *, double *, int, double);

extern "C" __global__ void rounded(const float *f, const double *d, float *out, double *wide) {
    int i = threadIdx.x;
    float a = f[i], b = f[i + 32], c = f[i + 64];
    double x = d[i], y = d[i + 32], z = d[i + 64];
    out[i] = __fadd_rz(a, b) * __fsub_rd(b, c) + __fmul_ru(a, c) + __fmaf_rz(a, b, c) + __fmaf_rd(b, a, c);
    out[i] += __fdiv_rn(a, b) + __fdiv_ru(b, c) + __fsqrt_rd(a) + __frcp_rz(b) + __frsqrt_rn(c) + __fdividef(a, c);
    out[i] += __sinf(a) + __cosf(b) + __expf(c) + __exp10f(a) + __log2f(b) + __logf(c) + __powf(a, b) + __tanf(c) + __saturatef(a);
    wide[i] = __dadd_rz(x, y) + __dmul_rd(y, z) + __fma_ru(x, y, z) + __ddiv_rz(x, y) + __dsqrt_ru(z) + __drcp_rd(x);
    out[i + 32] = __double2float_rz(x) + __int2float_rd(i) + __uint2float_ru(i) + __ll2float_rn(i);
    wide[i + 32] = __float2int_rz(a) + __float2uint_rd(b) + __float2ll_ru(c) + __double2int_rn(x) + __double2ull_rz(y) + __hiloint2double(i, 3);
    wide[i + 64] = fabsf(a) < 1e-3f ? -fabs(x) : (a > b) != (b <= c) ? fabs(y) - z : x * 0.3333;
}

// What is the same for all lanes of a warp: newer chips compute it once.
extern "C" __global__ void uniform(float *out, float a, float b, float c, int m, int n, unsigned k, double d, long long w) {
    float s = a * b + c, t = a - b, u = fabsf(c) * 0.5f;
    int loops = (int)(s * 3.0f) + m / 3;
    float r = 0;
    if (s > t && u != a) r = floorf(s) + (float)n + (float)k;
    if (!(t <= c)) r += fminf(s, t) + fmaxf(u, -t);
    for (int i = 0; i < loops; i++) r = r * a + (float)(i * m) + (u > 1.0f ? s : t);
    long long x = w * m + n;
    if (x > (w >> 3)) r += (float)(x & 0xffff);
    unsigned y = k * 77 + blockIdx.x * 3;
    r += (float)min((int)y, n) + (float)max(k, y / 5) + (float)__popc(y) + (float)__clz(k) + __saturatef(s);
    r += __int_as_float(__float_as_int(s) ^ (n << 3)) + (d > 2.0 ? 1.0f : rsqrtf(a)) + __expf(b) + (a / b);
    out[blockIdx.x] = r + (float)(unsigned char)n + (float)(short)m + rintf(t) + (unsigned)u;
}
