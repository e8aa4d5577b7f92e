// What kernels do.
#include "feature.h"

#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>
#include <hip/hiprtc.h>

#include <cmath>
#include <cstdio>
#include <unistd.h>

static void launch() {
    Device<int> x(numbers(N));
    scale<<<blocks(N), 256>>>(x.at, N, 3);
    DO(hipGetLastError());
    DO(hipDeviceSynchronize());
    SAME(scaled(x.get(N), 3));
}
FEATURE(launch);

template <class T> __global__ void sum_atomically(T *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(to, T(i % 5));
}
template <class T> static void atomic_sum() {
    Device<T> x(vector<T>{T(0)});
    sum_atomically<<<blocks(4000), 256>>>(x.at, 4000);
    DO(hipGetLastError());
    SAME(x.get(1)[0] == T(8000));
}
static Feature atomic_sums[] = {
    {"atomic_int", atomic_sum<int>},
    {"atomic_unsigned", atomic_sum<unsigned>},
    {"atomic_wide", atomic_sum<unsigned long long>},
    {"atomic_float", atomic_sum<float>},
    {"atomic_double", atomic_sum<double>},
};

__global__ void others(int *x, unsigned long long *wide) {
    int i = threadIdx.x;
    atomicMax(&x[0], i);
    atomicMin(&x[1], -i);
    atomicOr(&x[2], 1 << (i % 32));
    atomicXor(&x[3], i);
    atomicAnd(&x[4], ~(1 << (i % 16)));
    atomicSub(&x[5], 2);
    int old = x[6], seen;
    do {
        seen = old;
        old = atomicCAS(&x[6], seen, seen + 3);
    } while (old != seen);
    atomicMax(wide, (unsigned long long)i << 40);
}

static void atomic_others() {
    Device<int> x(vector<int>{0, 0, 0, 0, -1, 0, 0});
    Device<unsigned long long> wide(vector<unsigned long long>{0});
    others<<<1, 256>>>(x.at, wide.at);
    auto got = x.get(7);
    SAME(got[0] == 255 && got[1] == -255 && got[2] == -1 && got[3] == 0);
    SAME(got[4] == int(0xffff0000) && got[5] == -512 && got[6] == 768);
    SAME(wide.get(1)[0] == 255ull << 40);
}
FEATURE(atomic_others);

__global__ void reverse(int *x) {
    extern __shared__ int all[];
    all[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

static void shared_memory() {
    Device<int> x(numbers(256));
    reverse<<<1, 256, 256 * sizeof(int)>>>(x.at);
    auto got = x.get(256);
    for (int i = 0; i < 256; i++) SAME(got[i] == (255 - i) * 7 - 3);
}
FEATURE(shared_memory);

__global__ void shuffles(int *out) {
    int lane = threadIdx.x % warpSize, sum = lane;
    for (int by = warpSize / 2; by > 0; by /= 2) sum += __shfl_xor(sum, by);
    unsigned long long odd = __ballot(lane & 1);
    out[threadIdx.x] = sum * 1000 + __popcll(odd) + __any(lane == 3) + __all(lane >= 0);
}

static void lanes() {
    hipDeviceProp_t all;
    DO(hipGetDeviceProperties(&all, 0));
    int wave = all.warpSize;
    Device<int> out(128);
    shuffles<<<1, 128>>>(out.at);
    for (int one : out.get(128)) SAME(one == wave * (wave - 1) / 2 * 1000 + wave / 2 + 2);
}
FEATURE(lanes);

__global__ void functions(const float *x, float *y, double *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = sinf(x[i]) + expf(-x[i]) * sqrtf(x[i]) + logf(x[i] + 1);
    z[i] = sin(double(x[i])) / (1 + sqrt(double(x[i]))) + pow(double(x[i]), 1.5);
}

static void mathematics() {
    vector<float> x(1000);
    for (int i = 0; i < 1000; i++) x[i] = i * 0.013f;
    Device<float> in(x), y(1000);
    Device<double> z(1000);
    functions<<<blocks(1000), 256>>>(in.at, y.at, z.at, 1000);
    auto one = y.get(1000);
    auto two = z.get(1000);
    for (int i = 0; i < 1000; i++) {
        double v = x[i];
        SAME(fabs(one[i] - (sin(v) + exp(-v) * sqrt(v) + log(v + 1))) < 1e-4);
        SAME(fabs(two[i] - (sin(v) / (1 + sqrt(v)) + pow(v, 1.5))) < 1e-11 * (1 + pow(v, 1.5)));
    }
}
FEATURE(mathematics);

__global__ void private_arrays(int *out, int n) {
    int all[40];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 40; k++) all[(k * 7 + i) % 40] = k * i;
    int sum = 0;
    for (int k = 0; k < n; k++) sum += all[(i + k * k) % 40];
    out[i] = sum;
}

static void scratch() {
    Device<int> out(1024);
    private_arrays<<<4, 256>>>(out.at, 25);
    auto got = out.get(1024);
    for (int i = 0; i < 1024; i++) {
        int all[40], sum = 0;
        for (int k = 0; k < 40; k++) all[(k * 7 + i) % 40] = k * i;
        for (int k = 0; k < 25; k++) sum += all[(i + k * k) % 40];
        SAME(got[i] == sum);
    }
}
FEATURE(scratch);

__global__ void say(int n) {
    if (threadIdx.x < n) printf("lane %d says %s %.2f\n", int(threadIdx.x), "hello", threadIdx.x * 0.5);
}

static void printing() {
    fflush(stdout);
    FILE *into = tmpfile();
    int before = dup(1);
    dup2(fileno(into), 1);
    say<<<1, 64>>>(3);
    hipError_t done = hipDeviceSynchronize();
    fflush(stdout);
    dup2(before, 1);
    close(before);
    DO(done);
    rewind(into);
    string text(4096, 0);
    text.resize(fread(&text[0], 1, 4096, into));
    fclose(into);
    for (const char *line : {"lane 0 says hello 0.00\n", "lane 1 says hello 0.50\n", "lane 2 says hello 1.00\n"})
        SAME(text.find(line) != string::npos);
}
FEATURE(printing);

__global__ void blocks_of_three(int *out) {
    int i = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int j = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[i * blockDim.x * blockDim.y * blockDim.z + j] = i * 1000 + j;
}

static void grids() {
    dim3 grid(3, 2, 4), block(5, 3, 7);
    Device<int> out(24 * 105);
    blocks_of_three<<<grid, block>>>(out.at);
    auto got = out.get(24 * 105);
    for (int i = 0; i < 24 * 105; i++) SAME(got[i] == i / 105 * 1000 + i % 105);
}
FEATURE(grids);

static void occupancy() {
    int groups = 0;
    DO(hipOccupancyMaxActiveBlocksPerMultiprocessor(&groups, scale, 256, 0));
    SAME(groups > 0);
}
FEATURE(occupancy);

__global__ void tiles(int *out) {
    namespace cg = cooperative_groups;
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    // Its thread_rank() is ambiguous in the headers of 5.7.1.
    int rank = threadIdx.x % 16, sum = rank;
    for (int by = 8; by > 0; by /= 2) sum += tile.shfl_down(sum, by);
    block.sync();
    if (rank == 0) out[threadIdx.x / 16] = sum + block.size();
}

static void groups() {
    Device<int> out(8);
    tiles<<<1, 128>>>(out.at);
    for (int one : out.get(8)) SAME(one == 120 + 128);
}
FEATURE(groups);

__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__global__ void by_pointer(int *out, int which) {
    int (*const all[])(int) = {twice, thrice};
    out[threadIdx.x] = all[(which + threadIdx.x) % 2](threadIdx.x);
}

static void function_pointers() {
    Device<int> out(64);
    by_pointer<<<1, 64>>>(out.at, 1);
    auto got = out.get(64);
    for (int i = 0; i < 64; i++) SAME(got[i] == ((1 + i) % 2 ? 3 * i : 2 * i));
}
FEATURE(function_pointers);

__device__ __attribute__((noinline)) int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
__global__ void recur(int *out) { out[threadIdx.x] = ackermann(2, threadIdx.x % 3); }

static void recursion() {
    Device<int> out(32);
    recur<<<1, 32>>>(out.at);
    auto got = out.get(32);
    for (int i = 0; i < 32; i++) SAME(got[i] == 2 * (i % 3) + 3);
}
FEATURE(recursion);

__global__ void grid_phases(int *x, int *sums) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    for (int phase = 0; phase < 3; phase++) {
        int from = x[phase * all + (i + blockDim.x) % all];
        x[(phase + 1) * all + i] = from + 1;
        grid.sync();
    }
    sums[i] = x[3 * all + i];
}

static void grid_sync() {
    int can = 0;
    DO(hipDeviceGetAttribute(&can, hipDeviceAttributeCooperativeLaunch, 0));
    if (!can) return;
    constexpr int groups = 8, all = groups * 64;
    Device<int> x(vector<int>(4 * all)), sums(all);
    void *arguments[] = {&x.at, &sums.at};
    DO(hipLaunchCooperativeKernel(reinterpret_cast<const void *>(grid_phases), dim3(groups), dim3(64), arguments,
                                  0, nullptr));
    for (int one : sums.get(all)) SAME(one == 3);
}
FEATURE(grid_sync);

__global__ void halves(const __half *x, __half *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hadd(__hmul(x[i], x[i]), __float2half(0.5f));
}

static void half_precision() {
    vector<__half> from(1000);
    for (int i = 0; i < 1000; i++) from[i] = __float2half(i * 0.03125f);
    Device<__half> x(from), y(1000);
    halves<<<blocks(1000), 256>>>(x.at, y.at, 1000);
    auto got = y.get(1000);
    for (int i = 0; i < 1000; i++) {
        float v = i * 0.03125f, right = v * v + 0.5f;
        SAME(fabsf(__half2float(got[i]) - right) <= right / 512);
    }
}
FEATURE(half_precision);

__global__ void bits(const unsigned *x, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __popc(x[i]) + 100 * __clz(x[i]) + 10000 * __ffs(x[i]) + (__brev(x[i]) & 1) * 1000000;
}

static void intrinsics() {
    vector<unsigned> from(1000);
    for (int i = 0; i < 1000; i++) from[i] = i * 2654435761u >> i % 30;
    Device<unsigned> x(from);
    Device<int> out(1000);
    bits<<<blocks(1000), 256>>>(x.at, out.at, 1000);
    auto got = out.get(1000);
    for (int i = 0; i < 1000; i++) {
        unsigned v = from[i];
        int zeros = v ? __builtin_clz(v) : 32;
        SAME(got[i] == __builtin_popcount(v) + 100 * zeros + 10000 * __builtin_ffs(v) + int(v >> 31) * 1000000);
    }
}
FEATURE(intrinsics);

__global__ void watches(long long *out) {
    long long from = clock64();
    __builtin_amdgcn_s_sleep(8);
    out[0] = clock64() - from;
    out[1] = __builtin_readcyclecounter();
}

static void clocks() {
    Device<long long> out(2);
    watches<<<1, 1>>>(out.at);
    auto got = out.get(2);
    SAME(got[0] > 0 && got[1] > 0);
}
FEATURE(clocks);

template <class T> __global__ void moved(const T *x, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i];
}

static void wide_loads() {
    vector<double4> from(500);
    for (int i = 0; i < 500; i++) from[i] = make_double4(i, i + 0.25, i + 0.5, i + 0.75);
    Device<double4> x(from), y(500);
    moved<<<blocks(500), 256>>>(x.at, y.at, 500);
    auto got = y.get(500);
    for (int i = 0; i < 500; i++) SAME(got[i].x == 499 - i && got[i].w == 499 - i + 0.75);
}
FEATURE(wide_loads);

// Groups one after the other: each waits for the flag of the one before.
__global__ void chain(int *flags, int *values) {
    int group = blockIdx.x;
    if (threadIdx.x == 0) {
        if (group > 0)
            while (__hip_atomic_load(&flags[group - 1], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0)
                __builtin_amdgcn_s_sleep(1);
        values[group] = (group > 0 ? values[group - 1] : 0) + group;
        __hip_atomic_store(&flags[group], 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    }
}

static void groups_in_a_chain() {
    Device<int> flags(vector<int>(20)), values(vector<int>(20));
    chain<<<20, 64>>>(flags.at, values.at);
    auto got = values.get(20);
    for (int i = 0; i < 20; i++) SAME(got[i] == i * (i + 1) / 2);
}
FEATURE(groups_in_a_chain);

static void compiled_at_run_time() {
    const char *source = "extern \"C\" __global__ void triple(int *x, int n) {\n"
                         "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                         "    if (i < n) x[i] *= 3;\n"
                         "}\n";
    hiprtcProgram program;
    SAME(hiprtcCreateProgram(&program, source, "triple.cpp", 0, nullptr, nullptr) == HIPRTC_SUCCESS);
    SAME(hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_SUCCESS);
    size_t bytes = 0;
    SAME(hiprtcGetCodeSize(program, &bytes) == HIPRTC_SUCCESS);
    vector<char> code(bytes);
    SAME(hiprtcGetCode(program, code.data()) == HIPRTC_SUCCESS);
    SAME(hiprtcDestroyProgram(&program) == HIPRTC_SUCCESS);
    hipModule_t module;
    hipFunction_t triple;
    DO(hipModuleLoadData(&module, code.data()));
    DO(hipModuleGetFunction(&triple, module, "triple"));
    Device<int> x(numbers(N));
    int n = N;
    void *arguments[] = {&x.at, &n};
    DO(hipModuleLaunchKernel(triple, (N + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
    DO(hipDeviceSynchronize());
    SAME(scaled(x.get(N), 3));
    DO(hipModuleUnload(module));
}
FEATURE(compiled_at_run_time);

struct Shape {
    __device__ virtual int area() const = 0;
};
struct Square : Shape {
    int side;
    __device__ explicit Square(int side) : side(side) {}
    __device__ int area() const override { return side * side; }
};
struct Strip : Shape {
    int length;
    __device__ explicit Strip(int length) : length(length) {}
    __device__ int area() const override { return 2 * length; }
};
__global__ void areas(int *out) {
    int i = threadIdx.x;
    Shape *shape;
    if (i % 2)
        shape = new Square(i);
    else
        shape = new Strip(i);
    out[i] = shape->area();
    delete shape;
}

static void objects_made_on_device() {
    Device<int> out(64);
    areas<<<1, 64>>>(out.at);
    auto got = out.get(64);
    for (int i = 0; i < 64; i++) SAME(got[i] == (i % 2 ? i * i : 2 * i));
}
FEATURE(objects_made_on_device);
