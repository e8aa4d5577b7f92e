// Memory of the host and of GPUs: had, copied, set, shared.
#include "feature.h"

#include <cstring>
#include <thread>

static void memory_info() {
    size_t before = 0, between = 0, total = 0;
    DO(hipMemGetInfo(&before, &total));
    Device<char> some(64 << 20);
    DO(hipMemGetInfo(&between, &total));
    SAME(before > between && total >= before);
}
FEATURE(memory_info);

static void pinned() {
    int *x;
    DO(hipHostMalloc((void **)&x, N * sizeof(int), hipHostMallocMapped));
    auto from = numbers(N);
    memcpy(x, from.data(), N * sizeof(int));
    int *there;
    DO(hipHostGetDevicePointer((void **)&there, x, 0));
    scale<<<blocks(N), 256>>>(there, N, 5);
    DO(hipDeviceSynchronize());
    SAME(scaled(vector<int>(x, x + N), 5));
    DO(hipHostFree(x));
}
FEATURE(pinned);

static void registered() {
    auto x = numbers(N);
    DO(hipHostRegister(x.data(), N * sizeof(int), hipHostRegisterMapped));
    int *there;
    DO(hipHostGetDevicePointer((void **)&there, x.data(), 0));
    scale<<<blocks(N), 256>>>(there, N, 6);
    DO(hipDeviceSynchronize());
    SAME(scaled(x, 6));
    DO(hipHostUnregister(x.data()));
}
FEATURE(registered);

static void managed() {
    int *x;
    DO(hipMallocManaged((void **)&x, N * sizeof(int), hipMemAttachGlobal));
    auto from = numbers(N);
    memcpy(x, from.data(), N * sizeof(int));
    scale<<<blocks(N), 256>>>(x, N, 4);
    DO(hipDeviceSynchronize());
    SAME(scaled(vector<int>(x, x + N), 4));
    DO(hipFree(x));
}
FEATURE(managed);

static void set_memory() {
    Device<unsigned> x(N);
    DO(hipMemset(x.at, 0x5a, N * 4));
    for (unsigned one : x.get(N)) SAME(one == 0x5a5a5a5a);
    DO(hipMemsetD32((hipDeviceptr_t)x.at, 77, N));
    for (unsigned one : x.get(N)) SAME(one == 77);
}
FEATURE(set_memory);

static void copy_on_device() {
    Device<int> x(numbers(N)), y(N);
    DO(hipMemcpy(y.at, x.at, N * sizeof(int), hipMemcpyDeviceToDevice));
    SAME(scaled(y.get(N), 1));
}
FEATURE(copy_on_device);

static void copy_large() {
    constexpr int many = 3 << 20;
    Device<int> x(numbers(many));
    SAME(scaled(x.get(many), 1));
}
FEATURE(copy_large);

static void copy_2d() {
    constexpr int wide = 37, high = 11;
    int *x;
    size_t pitch;
    DO(hipMallocPitch((void **)&x, &pitch, wide * sizeof(int), high));
    auto from = numbers(wide * high);
    DO(hipMemcpy2D(x, pitch, from.data(), wide * sizeof(int), wide * sizeof(int), high,
                   hipMemcpyHostToDevice));
    vector<int> out(wide * high);
    DO(hipMemcpy2D(out.data(), wide * sizeof(int), x, pitch, wide * sizeof(int), high,
                   hipMemcpyDeviceToHost));
    SAME(scaled(out, 1));
    DO(hipFree(x));
}
FEATURE(copy_2d);

__constant__ int table[64];
__device__ int variable;
__global__ void look_up(int *out) {
    out[threadIdx.x] = table[threadIdx.x] + variable;
    __syncthreads();
    if (threadIdx.x == 0) variable = 99;
}

static void symbols() {
    auto from = numbers(64);
    int five = 5;
    DO(hipMemcpyToSymbol(HIP_SYMBOL(table), from.data(), sizeof table));
    DO(hipMemcpyToSymbol(HIP_SYMBOL(variable), &five, sizeof five));
    Device<int> out(64);
    look_up<<<1, 64>>>(out.at);
    auto got = out.get(64);
    for (int i = 0; i < 64; i++) SAME(got[i] == from[i] + 5);
}
FEATURE(symbols);

static void symbols_back() {
    int now = 0, three = 3;
    DO(hipMemcpyToSymbol(HIP_SYMBOL(variable), &three, sizeof three));
    Device<int> out(64);
    look_up<<<1, 64>>>(out.at);
    DO(hipMemcpyFromSymbol(&now, HIP_SYMBOL(variable), sizeof now));
    SAME(now == 99);
}
FEATURE(symbols_back);

static void attributes() {
    Device<int> x(16);
    hipPointerAttribute_t of;
    DO(hipPointerGetAttributes(&of, x.at));
    SAME(of.devicePointer == x.at && of.device == 0);
    hipFuncAttributes about;
    DO(hipFuncGetAttributes(&about, reinterpret_cast<const void *>(scale)));
    SAME(about.maxThreadsPerBlock >= 256);
}
FEATURE(attributes);

static void asynchronous_memory() {
    // HIP 5.2.3 takes no null stream here, and never comes back from the end of a stream that has freed memory.
    hipStream_t stream;
    DO(hipStreamCreate(&stream));
    int *x;
    DO(hipMallocAsync((void **)&x, N * sizeof(int), stream));
    auto from = numbers(N);
    DO(hipMemcpyAsync(x, from.data(), N * sizeof(int), hipMemcpyHostToDevice, stream));
    scale<<<blocks(N), 256, 0, stream>>>(x, N, 2);
    vector<int> out(N);
    DO(hipMemcpyAsync(out.data(), x, N * sizeof(int), hipMemcpyDeviceToHost, stream));
    DO(hipFreeAsync(x, stream));
    DO(hipStreamSynchronize(stream));
    SAME(scaled(out, 2));
#if HIP_VERSION >= 50300000
    DO(hipStreamDestroy(stream));
#endif
}
FEATURE(asynchronous_memory);

static void peers() {
    int count = 0, can = 0;
    DO(hipGetDeviceCount(&count));
    if (count < 2) return;
    DO(hipDeviceCanAccessPeer(&can, 0, 1));
    SAME(can == 1);
    DO(hipSetDevice(1));
    Device<int> there(numbers(N));
    DO(hipSetDevice(0));
    DO(hipDeviceEnablePeerAccess(1, 0));
    Device<int> here(N);
    DO(hipMemcpyPeer(here.at, 0, there.at, 1, N * sizeof(int)));
    SAME(scaled(here.get(N), 1));
    scale<<<blocks(N), 256>>>(there.at, N, 3);
    DO(hipDeviceSynchronize());
    SAME(scaled(there.get(N), 3));
}
FEATURE(peers);

static void managed_and_advised() {
    int *x;
    DO(hipMallocManaged((void **)&x, N * sizeof(int), hipMemAttachGlobal));
    auto from = numbers(N);
    memcpy(x, from.data(), N * sizeof(int));
    DO(hipMemAdvise(x, N * sizeof(int), hipMemAdviseSetPreferredLocation, 0));
    DO(hipMemPrefetchAsync(x, N * sizeof(int), 0, nullptr));
    scale<<<blocks(N), 256>>>(x, N, 4);
    DO(hipMemPrefetchAsync(x, N * sizeof(int), hipCpuDeviceId, nullptr));
    DO(hipDeviceSynchronize());
    SAME(scaled(vector<int>(x, x + N), 4));
    DO(hipFree(x));
}
FEATURE(managed_and_advised);

static void copy_3d() {
    constexpr int wide = 13, high = 5, deep = 4;
    auto from = numbers(wide * high * deep);
    hipPitchedPtr there;
    hipExtent extent = make_hipExtent(wide * sizeof(int), high, deep);
    DO(hipMalloc3D(&there, extent));
    hipMemcpy3DParms up = {};
    up.srcPtr = make_hipPitchedPtr(from.data(), wide * sizeof(int), wide, high);
    up.dstPtr = there;
    up.extent = extent;
    up.kind = hipMemcpyHostToDevice;
    DO(hipMemcpy3D(&up));
    vector<int> out(wide * high * deep);
    hipMemcpy3DParms down = {};
    down.srcPtr = there;
    down.dstPtr = make_hipPitchedPtr(out.data(), wide * sizeof(int), wide, high);
    down.extent = extent;
    down.kind = hipMemcpyDeviceToHost;
    DO(hipMemcpy3D(&down));
    SAME(scaled(out, 1));
    DO(hipFree(there.ptr));
}
FEATURE(copy_3d);

static void set_2d() {
    constexpr int wide = 100, high = 7;
    unsigned char *x;
    size_t pitch;
    DO(hipMallocPitch((void **)&x, &pitch, wide, high));
    DO(hipMemset2D(x, pitch, 1, wide, high));
    DO(hipMemset2D(x + pitch + 10, pitch, 2, 30, 3));
    vector<unsigned char> out(wide * high);
    DO(hipMemcpy2D(out.data(), wide, x, pitch, wide, high, hipMemcpyDeviceToHost));
    for (int y = 0; y < high; y++)
        for (int i = 0; i < wide; i++)
            SAME(out[y * wide + i] == (y >= 1 && y < 4 && i >= 10 && i < 40 ? 2 : 1));
    DO(hipFree(x));
}
FEATURE(set_2d);

static void copies_of_odd_bytes() {
    vector<unsigned char> from(70001), out(70001);
    for (size_t i = 0; i < from.size(); i++) from[i] = i * 31 >> 3;
    Device<unsigned char> x(70001), y(70001);
    for (size_t n : {1, 3, 63, 65, 4095, 4097, 16385, 65537, 69998}) {
        DO(hipMemcpy(x.at + 1, from.data() + 2, n, hipMemcpyHostToDevice));
        DO(hipMemcpy(y.at + 3, x.at + 1, n, hipMemcpyDeviceToDevice));
        DO(hipMemcpy(out.data(), y.at + 3, n, hipMemcpyDeviceToHost));
        SAME(!memcmp(out.data(), from.data() + 2, n));
    }
}
FEATURE(copies_of_odd_bytes);

static void address_of_symbol() {
    void *at;
    size_t bytes;
    DO(hipGetSymbolAddress(&at, HIP_SYMBOL(table)));
    DO(hipGetSymbolSize(&bytes, HIP_SYMBOL(table)));
    SAME(bytes == sizeof table);
    auto from = numbers(64);
    DO(hipMemcpy(at, from.data(), sizeof table, hipMemcpyHostToDevice));
    vector<int> out(64);
    DO(hipMemcpyFromSymbol(out.data(), HIP_SYMBOL(table), sizeof table));
    SAME(scaled(out, 1));
}
FEATURE(address_of_symbol);

// The host and a kernel that runs talk by memory.
__global__ void answer(int *ask, int *tell) {
    while (__atomic_load_n(ask, __ATOMIC_ACQUIRE) != 5) __builtin_amdgcn_s_sleep(1);
    tell[1] = ask[1] + 1;
    __atomic_store_n(tell, 6, __ATOMIC_RELEASE);
}

static void conversation() {
    int *ask, *tell;
    DO(hipHostMalloc((void **)&ask, 64, hipHostMallocCoherent));
    DO(hipHostMalloc((void **)&tell, 64, hipHostMallocCoherent));
    ask[0] = tell[0] = tell[1] = 0;
    answer<<<1, 1>>>(ask, tell);
    DO(hipGetLastError());
    ask[1] = 41;
    __atomic_store_n(ask, 5, __ATOMIC_RELEASE);
    while (__atomic_load_n(tell, __ATOMIC_ACQUIRE) != 6) std::this_thread::yield();
    SAME(tell[1] == 42);
    DO(hipDeviceSynchronize());
    DO(hipHostFree(ask));
    DO(hipHostFree(tell));
}
FEATURE(conversation);

__global__ void count_in_system(int *x) {
    atomicAdd_system(x, 1);
}

static void atomic_on_host_memory() {
    int *x;
    DO(hipHostMalloc((void **)&x, 64, hipHostMallocCoherent));
    *x = 7;
    count_in_system<<<4, 64>>>(x);
    DO(hipDeviceSynchronize());
    SAME(*x == 7 + 256);
    DO(hipHostFree(x));
}
FEATURE(atomic_on_host_memory);
