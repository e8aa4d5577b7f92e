// Structures, vectors, local arrays, constants, shared tiles, hints for caches.

struct alignas(16) Particle { float x, y, z, m; };
struct Odd { char a; short b; int c; double d; unsigned char e[5]; };
struct Big { float row[3][4]; int tag; Big *next; };
struct alignas(32) Wide { double v[4]; };
union Bits { float f; unsigned u; unsigned char b[4]; };

__constant__ float weights[64];
__constant__ Odd oddities[8];
__device__ int counter;
__device__ volatile int flag;
__shared__ float global_tile[33];

extern "C" __global__ void structures(const Particle *in, Particle *out, const Odd *odd, Big *big, Big whole, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Particle p = in[i], q = in[(i * 7) % n];
    p.x += q.m * weights[i & 63];
    p.y -= odd[i].a + odd[i].b + odd[i].c + odd[i].d + odd[i].e[i % 5];
    p.z *= oddities[i & 7].c + oddities[3].b + oddities[i & 7].d;
    out[i] = p;
    big[i].tag = whole.tag + i;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 4; c++) big[i].row[r][c] = whole.row[r][(c + i) & 3] + big[i].next->row[c % 3][r];
    Bits b;
    b.f = p.x;
    b.b[2] ^= 0x80;
    atomicAdd(&counter, (int)(b.u & 1));
    flag = counter;
}

extern "C" __global__ void arrays(const int *in, int *out, int n, int k) {
    int stack[40], heap[16], top = 0;
    short small[9];
    double wide[6];
    for (int i = 0; i < 16; i++) heap[i] = in[i * n + threadIdx.x];
    for (int i = 0; i < 9; i++) small[i] = in[i];
    for (int i = 0; i < 6; i++) wide[i] = in[i + k];
    for (int i = 0; i < k; i++) {
        if (heap[i & 15] & 1) stack[top++ % 40] = heap[(i + k) & 15];
        else if (top) heap[i & 15] += stack[--top % 40] + small[i % 9];
        wide[i % 6] *= wide[(i + 1) % 6];
    }
    for (int i = 0; i < 16; i++) out[i * n + threadIdx.x] = heap[i] + stack[i] + (int)wide[i % 6];
}

template <int SIZE> __global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[SIZE][SIZE + 1];
    int x = blockIdx.x * SIZE + threadIdx.x, y = blockIdx.y * SIZE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < SIZE; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * SIZE + threadIdx.x, y = blockIdx.x * SIZE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < SIZE; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j] + global_tile[threadIdx.x];
}
template __global__ void transpose<16>(const float *, float *, int);
template __global__ void transpose<32>(const float *, float *, int);

extern "C" __global__ void hints(const int4 *a, const double2 *b, const unsigned char *c, const Wide *w, int4 *out, short2 *two, uchar4 *four, Wide *to) {
    int i = threadIdx.x;
    int4 v = __ldg(a + i), u = __ldcg(a + i + 1), t = __ldcs(a + i + 2), s = __ldlu(a + i + 3), r = __ldcv(a + i + 4);
    double2 d = __ldca(b + i);
    v.x += u.y + t.z + s.w + r.x + (int)d.x + __ldg(c + i) + ((const signed char *)c)[2 * i];
    __stwb(out + i, v);
    __stcg(out + i + 32, u);
    __stcs(out + i + 64, t);
    __stwt(out + i + 96, s);
    two[i] = make_short2(v.x, v.y);
    four[i] = make_uchar4(v.x, v.y, v.z, 7);
    to[i] = w[i];
    __threadfence();
    __threadfence_block();
    __threadfence_system();
}

extern "C" __global__ void dynamic(const double *in, double *out, int n) {
    extern __shared__ double pool[];
    char *bytes = (char *)(pool + blockDim.x);
    short *shorts = (short *)bytes;
    pool[threadIdx.x] = in[threadIdx.x];
    shorts[threadIdx.x] = (short)n;
    __syncthreads();
    for (int s = blockDim.x / 2; s; s >>= 1) {
        if (threadIdx.x < s) pool[threadIdx.x] += pool[threadIdx.x + s] * bytes[s];
        __syncthreads();
    }
    double4 *quads = (double4 *)pool;
    if (!threadIdx.x) out[blockIdx.x] = pool[0] + quads[n].y + (__isShared(in) ? 1 : 2) + (__isGlobal(out) ? 3 : 4) + __isLocal(&n);
}

extern "C" __global__ void pointers(int **lists, int **out, const char *text, char *copy, int n) {
    int local[8];
    int *p = n & 1 ? local : lists[threadIdx.x];
    for (int i = 0; i < 8; i++) local[i] = i * n;
    *p = *lists[0];
    out[threadIdx.x] = p + n;
    memcpy(copy + threadIdx.x * 24, text + n, 24);
    memset(copy + n, 0x5a, 19);
    int length = 0;
    while (text[length]) length++;
    copy[length] = local[n & 7];
}
