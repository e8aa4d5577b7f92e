// Integers of all sizes: division, shifts, bits, parts of words, sums with carries.

template <typename T> __device__ T many(T a, T b, T c, int s) {
    T r = a * b + c;
    if (b) r ^= a / b + (c % b);
    r += (a << (s & (8 * sizeof(T) - 1))) | (b >> (s & (8 * sizeof(T) - 1)));
    r = r < a ? r : (r > b ? b : r);
    return (r & c) | (~r & a) ^ (b == c);
}

template <typename T> __global__ void integers(const T *in, T *out, int n, T with, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T a = in[i], b = in[i + n], c = in[i + 2 * n];
    out[i] = many(a, b, c, shift);
    out[i + n] = many(a, with, T(blockIdx.y), shift);
    out[i + 2 * n] = a / T(7) + b % T(10) + c / T(16) + T(a * T(13)) + T(b << 3) + T(c >> 5);
}

template __global__ void integers(const signed char *, signed char *, int, signed char, int);
template __global__ void integers(const unsigned char *, unsigned char *, int, unsigned char, int);
template __global__ void integers(const short *, short *, int, short, int);
template __global__ void integers(const unsigned short *, unsigned short *, int, unsigned short, int);
template __global__ void integers(const int *, int *, int, int, int);
template __global__ void integers(const unsigned *, unsigned *, int, unsigned, int);
template __global__ void integers(const long long *, long long *, int, long long, int);
template __global__ void integers(const unsigned long long *, unsigned long long *, int, unsigned long long, int);
template __global__ void integers(const __int128 *, __int128 *, int, __int128, int);
template __global__ void integers(const unsigned __int128 *, unsigned __int128 *, int, unsigned __int128, int);

extern "C" __global__ void bits(const unsigned *in, const unsigned long long *wide, unsigned *out, unsigned s) {
    int i = threadIdx.x;
    unsigned a = in[i], b = in[i + 32], c = in[i + 64], r = 0;
    unsigned long long x = wide[i], y = wide[i + 32];
    r += __clz(a) + __ffs(b) + __popc(c) + __brev(a) + __clzll(x) + __ffsll(y) + __popcll(x) + (unsigned)__brevll(y);
    r ^= __byte_perm(a, b, c) + __byte_perm(a, b, 0x3715) + __funnelshift_l(a, b, c) + __funnelshift_rc(a, b, s);
    r += __umulhi(a, b) + __mulhi((int)b, (int)c) + (unsigned)__umul64hi(x, y) + (unsigned)(__mul64hi(x, y) >> 32);
    r ^= __sad((int)a, (int)b, c) + __usad(a, b, c) + __hadd((int)a, (int)b) + __urhadd(a, c) + __umul24(a, b) + __mul24(a, c);
    out[i] = r;
    out[i + 32] = (a & b) | (b ^ c) & ~(a | c);
    out[i + 64] = (a & 0xff00ff) << 8 | (b >> 8 & 0xff00ff) | (c & s);
}

extern "C" __global__ void parts(const unsigned *in, unsigned *out, unsigned s) {
    int i = threadIdx.x;
    unsigned a = in[i], b = in[i + 32], c = in[i + 64], r = 0;
    r += __vadd2(a, b) + __vadd4(b, c) + __vaddss2(a, c) + __vsub4(a, s) + __vabs4(a) + __vabsdiffu4(a, b) + __vavgu4(b, c);
    r ^= __vmaxs2(a, b) + __vminu2(b, c) + __vmaxu4(a, c) + __vmins4(b, s) + __vcmpeq4(a, b) + __vcmpgts2(a, c) + __vsetltu4(b, c);
    r += __dp4a(a, b, c) + __dp4a((int)a, (int)b, (int)c) + __dp2a_lo(a, b, c) + __dp2a_hi((int)a, (int)b, (int)c);
    r ^= __vimax3_s32(a, b, c) + __vimin3_u32(a, b, s) + __viaddmax_s32(a, b, c) + __viaddmin_u32(a, b, c);
    r += __vimax_s32_relu(a, b) + __vimax3_s16x2(a, b, c) + __viaddmax_u16x2(a, b, c) + __vimin_s16x2_relu(a, c);
    bool high, low;
    r += __vibmax_s16x2(a, b, &high, &low);
    out[i] = r + high + 2 * low;
}

extern "C" __global__ void sums(const unsigned long long *in, unsigned long long *out, int n, unsigned long long more) {
    unsigned long long low = 0, high = 0, least = ~0ull;
    long long most = 0x8000000000000000ll;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned long long x = in[i] + more * blockIdx.x;
        low += x;
        high += low < x;
        least = min(least, x);
        most = max(most, (long long)(x - i));
        if (x == more || (long long)x < (long long)low) high -= 3;
    }
    out[threadIdx.x] = low;
    out[threadIdx.x + n] = high + least;
    out[2 * n] = most + (unsigned)(n * blockIdx.x) / gridDim.x;
}
