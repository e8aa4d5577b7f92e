// What kernels do.
#include "cl.h"

enum { N = 128 };

static enum found added(void) {
    enum { M = 7001 };
    static float x[M], y[M], z[M];
    int n = M, wrong = 0;
    for (int i = 0; i < M; i++) x[i] = i * 0.5f, y[i] = 7 - i;
    cl_mem all[] = {buffer(sizeof x, x), buffer(sizeof y, y), buffer(sizeof z, NULL)};
    cl_kernel add = kernel("add", 3, all);
    DO(clSetKernelArg(add, 3, sizeof n, &n));
    run(add, (M + 127) / 128 * 128, 128);
    read_all(all[2], sizeof z, z);
    for (int i = 0; i < M; i++) wrong += z[i] != x[i] + y[i];
    DO(clReleaseKernel(add));
    for (int i = 0; i < 3; i++) DO(clReleaseMemObject(all[i]));
    return wrong == 0;
}

static enum found summed(void) {
    enum { M = 5003 };
    static int x[M];
    int total = 0, found = 0, n = M;
    for (int i = 0; i < M; i++) total += x[i] = i % 97 - 40;
    cl_mem all[] = {buffer(sizeof x, x), buffer(sizeof found, &found)};
    cl_kernel sum = kernel("sum", 2, all);
    DO(clSetKernelArg(sum, 2, 64 * sizeof(int), NULL));
    DO(clSetKernelArg(sum, 3, sizeof n, &n));
    run(sum, 64 * 6, 64);
    read_all(all[1], sizeof found, &found);
    DO(clReleaseKernel(sum));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return found == total;
}

// A kernel from one array to another of so many bytes.
static void mapped(const char *name, size_t work, size_t group, size_t in, const void *from, size_t out, void *to) {
    cl_mem all[] = {buffer(in, from), buffer(out, to)};
    cl_kernel one = kernel(name, 2, all);
    run(one, work, group);
    read_all(all[1], out, to);
    DO(clReleaseKernel(one));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
}

static enum found turned(void) {
    int x[256], y[256] = {0}, wrong = 0;
    for (int i = 0; i < 256; i++) x[i] = i * 3;
    mapped("turn", 256, 64, sizeof x, x, sizeof y, y);
    for (int i = 0; i < 256; i++) wrong += y[i] != x[i / 64 * 64 + 63 - i % 64];
    return wrong == 0;
}

static enum found atomics(void) {
    enum { M = 256 };
    uint32_t all[10] = {0, ~0u, 0, ~0u, 0, 0, 0, 0, 0, M}, wanted[10], found[10];
    memcpy(wanted, all, sizeof all);
    for (uint32_t i = 0; i < M; i++) {
        uint32_t value = i * 7 % 61 + 3;
        wanted[0] += i;
        if (value < wanted[1]) wanted[1] = value;
        if (value > wanted[2]) wanted[2] = value;
        wanted[3] &= ~(1u << i % 16), wanted[4] |= 1u << i % 32, wanted[5] ^= i;
    }
    wanted[6] = 17, wanted[7] = 23, wanted[8] = M, wanted[9] = 0;
    cl_mem a = buffer(sizeof all, all);
    cl_kernel atomics = kernel("atomics", 1, &a);
    run(atomics, M, 64);
    read_all(a, sizeof found, found);
    DO(clReleaseKernel(atomics));
    DO(clReleaseMemObject(a));
    return memcmp(found, wanted, sizeof wanted) == 0;
}

static enum found vectors(void) {
    float x[N][4], y[N][4] = {0};
    int wrong = 0;
    for (int i = 0; i < N; i++) x[i][0] = 3, x[i][1] = 4, x[i][2] = i, x[i][3] = i % 7;
    mapped("vectors", N, 64, sizeof x, x, sizeof y, y);
    for (int i = 0; i < N; i++) {
        float *v = x[i], dot = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3];
        float wanted[] = {v[3] * 2 + dot, v[2] * 2 + v[0], v[1] * 2 + 5, v[0] * 2 + 1};
        for (int k = 0; k < 4; k++) wrong += fabsf(y[i][k] - wanted[k]) > 1e-4f * fabsf(wanted[k]);
    }
    return wrong == 0;
}

static int clamped(int value) { return value < -128 ? -128 : value > 127 ? 127 : value; }

static enum found bytes(void) {
    uint8_t x[N][4];
    int16_t y[N][4];
    int8_t z[N];
    int wrong = 0;
    for (int i = 0; i < N * 4; i++) ((uint8_t *)x)[i] = (uint8_t)(i * 37);
    cl_mem all[] = {buffer(sizeof x, x), buffer(sizeof y, NULL), buffer(sizeof z, NULL)};
    cl_kernel bytes = kernel("bytes", 3, all);
    run(bytes, N, 64);
    read_all(all[1], sizeof y, y);
    read_all(all[2], sizeof z, z);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 4; k++) wrong += y[i][k] != x[i][k] * -3 + i;
        wrong += z[i] != clamped(x[i][0] - 100 + y[i][1]);
    }
    DO(clReleaseKernel(bytes));
    for (int i = 0; i < 3; i++) DO(clReleaseMemObject(all[i]));
    return wrong == 0;
}

static enum found longs(void) {
    uint64_t a[N], b[N], c[N];
    int wrong = 0;
    for (uint64_t i = 0; i < N; i++) a[i] = 0x9e3779b97f4a7c15ull * (i + 1), b[i] = 0xd1b54a32d192ed03ull * (i + 5);
    cl_mem all[] = {buffer(sizeof a, a), buffer(sizeof b, b)};
    cl_kernel longs = kernel("longs", 2, all);
    run(longs, N, 64);
    read_all(all[0], sizeof c, c);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t high = (uint64_t)((unsigned __int128)a[i] * b[i] >> 64);
        wrong += c[i] != a[i] * b[i] + high + (a[i] >> i % 60) + b[i] / (i + 7) + b[i] % 1000003;
    }
    DO(clReleaseKernel(longs));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return wrong == 0;
}

static enum found constants(void) {
    static const int table[] = {3, 1, 4, 1, 5, 9, 2, 6};
    int more[5] = {7, 6, 5, 4, 3}, y[N], wrong = 0;
    cl_mem all[] = {buffer(sizeof y, NULL), buffer(sizeof more, more)};
    cl_kernel constants = kernel("constants", 2, all);
    run(constants, N, 0);
    read_all(all[0], sizeof y, y);
    for (int i = 0; i < N; i++) wrong += y[i] != table[i % 8] * 100 + more[i % 5];
    DO(clReleaseKernel(constants));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return wrong == 0;
}

static enum found structs(void) {
    struct { int by; float and; char last; } pair = {3, 0.25f, -7};
    float y[N];
    int wrong = 0;
    cl_mem a = buffer(sizeof y, NULL);
    cl_kernel structs = kernel("structs", 1, &a);
    DO(clSetKernelArg(structs, 1, sizeof pair, &pair));
    run(structs, N, 0);
    read_all(a, sizeof y, y);
    for (int i = 0; i < N; i++) wrong += y[i] != i * 3 + 0.25f - 7;
    DO(clReleaseKernel(structs));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found arrays(void) {
    uint32_t x[N], y[N] = {0};
    int wrong = 0;
    for (uint32_t i = 0; i < N; i++) x[i] = i * i % 83;
    mapped("arrays", N, 64, sizeof x, x, sizeof y, y);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t counts[24], best = 0;
        for (uint32_t k = 0; k < 24; k++) counts[k] = k % 3;
        for (uint32_t k = 0; k < 32; k++) counts[x[(i * 5 + k * k) % N] % 24]++;
        for (uint32_t k = 0; k < 24; k++) best = counts[k] * 64 + k > best ? counts[k] * 64 + k : best;
        wrong += y[i] != best;
    }
    return wrong == 0;
}

static enum found flow(void) {
    uint32_t y[N];
    int wrong = 0;
    memset(y, 1, sizeof y);
    cl_mem a = buffer(sizeof y, y);
    cl_kernel flow = kernel("flow", 1, &a);
    run(flow, N, 64);
    read_all(a, sizeof y, y);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t n = i + 1, count = 0;
        while (n != 1 && count < 60) n = n % 2 == 0 ? n / 2 : 3 * n + 1, count++;
        uint32_t wanted[] = {count, count * 3, ~count + 5, 0x01010101 + 5};
        wrong += y[i] != wanted[i % 4];
    }
    DO(clReleaseKernel(flow));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found places(void) {
    int y[12 * 6 * 4], wrong = 0;
    cl_mem a = buffer(sizeof y, NULL);
    cl_kernel places = kernel("places", 1, &a);
    size_t work[] = {12, 6, 4}, group[] = {4, 3, 2}, offset[] = {5, 2, 0};
    DO(clEnqueueNDRangeKernel(queue, places, 3, offset, work, group, 0, NULL, NULL));
    read_all(a, sizeof y, y);
    for (int z = 0; z < 4; z++) {
        for (int j = 0; j < 6; j++) {
            for (int i = 0; i < 12; i++) {
                int wanted = (i + 5) | (j + 2) << 6 | z << 12 | i % 4 << 18 | j / 3 << 22 | 3 << 26;
                wrong += y[(z * 6 + j) * 12 + i] != wanted;
            }
        }
    }
    DO(clReleaseKernel(places));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found uneven(void) {
    int y[100], wrong = 0;
    cl_mem a = buffer(sizeof y, NULL);
    cl_kernel sizes = kernel("sizes", 1, &a);
    size_t work = 100, group = 64;
    cl_int error = clEnqueueNDRangeKernel(queue, sizes, 1, NULL, &work, &group, 0, NULL, NULL);
    cl_bool can = CL_FALSE;
    DO(clGetDeviceInfo(device, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, sizeof can, &can, NULL));
    if (can) {
        check(error, "clEnqueueNDRangeKernel");
        read_all(a, sizeof y, y);
        for (int i = 0; i < 100; i++) wrong += y[i] != (i < 64 ? 64 : 36) * 1000 + i % 64 + 200000;
    } else {
        wrong += error != CL_INVALID_WORK_GROUP_SIZE;
    }
    DO(clReleaseKernel(sizes));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found math(void) {
    float x[N], y[N][10] = {0};
    int wrong = 0;
    for (int i = 0; i < N; i++) x[i] = 0.01f + i * 0.05f;
    mapped("math", N, 64, sizeof x, x, sizeof y, y);
    for (int i = 0; i < N; i++) {
        float v = x[i], wanted[] = {sinf(v), cosf(v), expf(v), logf(v), sqrtf(v), powf(v, 1.5f), atan2f(v, 2), fmaf(v, v, 1),
                                    v / 3.7f, fmodf(v, 0.7f)};
        // OpenCL: 16 ulps at most, of a full profile; native functions as the device likes.
        for (int k = 0; k < 10; k++) {
            int is = fabsf(y[i][k] - wanted[k]) <= (k < 2 ? 1.0f / 2048 : 16 * 1.2e-7f * fabsf(wanted[k]) + 1e-7f);
            if (!is) printf("function %d of %g is %.9g, expected %.9g\n", k, v, y[i][k], wanted[k]);
            wrong += !is;
        }
    }
    return wrong == 0;
}

static enum found integers(void) {
    uint32_t x[N + 1], y[N][8] = {0};
    int wrong = 0;
    for (uint32_t i = 0; i <= N; i++) x[i] = 0x9e3779b9u * i >> i % 9;
    mapped("integers", N, 64, sizeof x, x, sizeof y, y);
    for (int i = 0; i < N; i++) {
        uint32_t a = x[i], b = x[i + 1];
        uint64_t sum = (uint64_t)a + b;
        uint32_t wanted[] = {(uint32_t)((uint64_t)a * b >> 32), a == 0 ? 32 : (uint32_t)__builtin_clz(a), a << 7 | a >> 25,
                             (uint32_t)__builtin_popcount(a), (a & 0x00ff00ff) | (b & 0xff00ff00), a > b ? a - b : b - a,
                             sum > ~0u ? ~0u : (uint32_t)sum, (a & 0xffff) * (b & 0xff) + 3};
        for (int k = 0; k < 8; k++) wrong += y[i][k] != wanted[k];
    }
    return wrong == 0;
}

static enum found halves(void) {
    _Float16 x[N], y[N] = {0};
    int wrong = 0;
    for (int i = 0; i < N; i++) x[i] = i * 0.5f;
    mapped("halves", N, 64, sizeof x, x, sizeof y, y);
    for (int i = 0; i < N; i++) wrong += (float)y[i] != i + 0.25f;
    return wrong == 0;
}

static enum found copied(void) {
    int x[256], y[128] = {0}, wrong = 0;
    for (int i = 0; i < 256; i++) x[i] = i * i;
    mapped("copied", 128, 64, sizeof x, x, sizeof y, y);
    for (int i = 0; i < 128; i++) wrong += y[i] != x[i / 64 * 128 + i % 64] + x[i / 64 * 128 + i % 64 + 64];
    return wrong == 0;
}

const struct check kernels[] = {
    {"a sum of buffers", added}, {"memory of a group, and barriers", summed}, {"memory of a group that a kernel declares", turned},
    {"atomics", atomics}, {"vectors", vectors}, {"bytes and shorts", bytes}, {"numbers of 64 bits", longs},
    {"constant memory", constants}, {"structures as arguments", structs}, {"arrays of an item", arrays}, {"loops and cases", flow},
    {"three dimensions, and offsets", places}, {"groups that are not whole", uneven}, {"functions", math},
    {"functions of integers", integers}, {"halves in memory", halves}, {"copies by a group", copied}, {NULL, NULL},
};
