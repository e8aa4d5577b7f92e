// Streams, events, graphs, what runs on the host in between, and errors.
#include "feature.h"

#include <thread>

static void properties() {
    hipDeviceProp_t all;
    int count = 0;
    DO(hipGetDeviceCount(&count));
    DO(hipGetDeviceProperties(&all, 0));
    SAME(count >= 1);
    SAME(all.warpSize == 32 || all.warpSize == 64);
    SAME(all.multiProcessorCount > 0 && all.totalGlobalMem > 0);
    int version = 0;
    DO(hipRuntimeGetVersion(&version));
    SAME(version > 0);
}
FEATURE(properties);

static void streams() {
    vector<hipStream_t> all(4);
    vector<int *> x(4);
    auto from = numbers(N);
    for (int i = 0; i < 4; i++) {
        DO(hipStreamCreate(&all[i]));
        DO(hipMalloc(&x[i], N * sizeof(int)));
        DO(hipMemcpyAsync(x[i], from.data(), N * sizeof(int), hipMemcpyHostToDevice, all[i]));
        scale<<<blocks(N), 256, 0, all[i]>>>(x[i], N, i + 2);
    }
    for (int i = 0; i < 4; i++) {
        vector<int> out(N);
        DO(hipMemcpyAsync(out.data(), x[i], N * sizeof(int), hipMemcpyDeviceToHost, all[i]));
        DO(hipStreamSynchronize(all[i]));
        SAME(scaled(out, i + 2));
        DO(hipFree(x[i]));
        DO(hipStreamDestroy(all[i]));
    }
}
FEATURE(streams);

static void stream_waits_for_event() {
    hipStream_t one, two;
    hipEvent_t done;
    DO(hipStreamCreateWithFlags(&one, hipStreamNonBlocking));
    DO(hipStreamCreateWithFlags(&two, hipStreamNonBlocking));
    DO(hipEventCreateWithFlags(&done, hipEventDisableTiming));
    Device<int> x(numbers(N));
    DO(hipDeviceSynchronize());
    for (int i = 0; i < 4; i++) scale<<<blocks(N), 256, 0, one>>>(x.at, N, 2);
    DO(hipEventRecord(done, one));
    DO(hipStreamWaitEvent(two, done, 0));
    scale<<<blocks(N), 256, 0, two>>>(x.at, N, 3);
    DO(hipStreamSynchronize(two));
    SAME(scaled(x.get(N), 48));
    DO(hipEventDestroy(done));
    DO(hipStreamDestroy(one));
    DO(hipStreamDestroy(two));
}
FEATURE(stream_waits_for_event);

static void event_times() {
    hipEvent_t from, to;
    DO(hipEventCreate(&from));
    DO(hipEventCreate(&to));
    Device<int> x(numbers(N));
    DO(hipEventRecord(from, nullptr));
    for (int i = 0; i < 8; i++) scale<<<blocks(N), 256>>>(x.at, N, 1);
    DO(hipEventRecord(to, nullptr));
    DO(hipEventSynchronize(to));
    float ms = -1;
    DO(hipEventElapsedTime(&ms, from, to));
    SAME(ms > 0);
    DO(hipEventDestroy(from));
    DO(hipEventDestroy(to));
}
FEATURE(event_times);

static void graph_captured() {
    hipStream_t stream;
    DO(hipStreamCreate(&stream));
    Device<int> x(numbers(N));
    hipGraph_t graph;
    hipGraphExec_t ready;
    DO(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    scale<<<blocks(N), 256, 0, stream>>>(x.at, N, 2);
    scale<<<blocks(N), 256, 0, stream>>>(x.at, N, 3);
    DO(hipStreamEndCapture(stream, &graph));
    DO(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
    for (int i = 0; i < 3; i++) DO(hipGraphLaunch(ready, stream));
    DO(hipStreamSynchronize(stream));
    SAME(scaled(x.get(N), 216));
    DO(hipGraphExecDestroy(ready));
    DO(hipGraphDestroy(graph));
    DO(hipStreamDestroy(stream));
}
FEATURE(graph_captured);

static void callback() {
    Device<int> x(numbers(N));
    static int seen = 0;
    scale<<<blocks(N), 256>>>(x.at, N, 2);
    DO(hipStreamAddCallback(
        nullptr, [](hipStream_t, hipError_t error, void *to) { *(int *)to = error == hipSuccess ? 5 : 6; },
        &seen, 0));
    DO(hipDeviceSynchronize());
    SAME(seen == 5);
}
FEATURE(callback);

#if HIP_VERSION >= 50300000 // Declared before, and not in the library.
static void host_function() {
    static int seen = 0;
    Device<int> x(numbers(N));
    scale<<<blocks(N), 256>>>(x.at, N, 2);
    DO(hipLaunchHostFunc(nullptr, [](void *to) { *(int *)to = 7; }, &seen));
    DO(hipDeviceSynchronize());
    SAME(seen == 7);
}
FEATURE(host_function);
#endif

static void queries() {
    hipStream_t stream;
    hipEvent_t event;
    DO(hipStreamCreate(&stream));
    DO(hipEventCreate(&event));
    Device<int> x(numbers(N));
    scale<<<blocks(N), 256, 0, stream>>>(x.at, N, 2);
    DO(hipEventRecord(event, stream));
    while (hipEventQuery(event) == hipErrorNotReady) std::this_thread::yield();
    DO(hipEventQuery(event));
    DO(hipStreamQuery(stream));
    SAME(scaled(x.get(N), 2));
    DO(hipEventDestroy(event));
    DO(hipStreamDestroy(stream));
}
FEATURE(queries);

static void threads() {
    vector<std::thread> all;
    vector<int> right(4);
    for (int k = 0; k < 4; k++)
        all.emplace_back([k, &right] {
            try {
                Device<int> x(numbers(N));
                hipStream_t stream;
                DO(hipStreamCreate(&stream));
                scale<<<blocks(N), 256, 0, stream>>>(x.at, N, k + 1);
                DO(hipStreamSynchronize(stream));
                right[k] = scaled(x.get(N), k + 1);
                DO(hipStreamDestroy(stream));
            } catch (Wrong &) {
            }
        });
    for (auto &one : all) one.join();
    for (int one : right) SAME(one);
}
FEATURE(threads);

static void stream_priorities() {
    int least = 0, greatest = 0;
    DO(hipDeviceGetStreamPriorityRange(&least, &greatest));
    hipStream_t stream;
    DO(hipStreamCreateWithPriority(&stream, hipStreamNonBlocking, greatest));
    Device<int> x(numbers(N));
    DO(hipDeviceSynchronize());
    scale<<<blocks(N), 256, 0, stream>>>(x.at, N, 2);
    DO(hipStreamSynchronize(stream));
    SAME(scaled(x.get(N), 2));
    DO(hipStreamDestroy(stream));
}
FEATURE(stream_priorities);

static void errors() {
    SAME(hipMemcpy(nullptr, nullptr, 16, hipMemcpyHostToDevice) != hipSuccess);
    SAME(hipSetDevice(99) == hipErrorInvalidDevice);
    (void)hipGetLastError();
    SAME(hipGetLastError() == hipSuccess);
    scale<<<1, 5000>>>(nullptr, 0, 0);
    SAME(hipGetLastError() != hipSuccess);
}
FEATURE(errors);

static void graph_built() {
    auto from = numbers(N);
    vector<int> out(N);
    Device<int> x(N);
    hipGraph_t graph;
    hipGraphExec_t ready;
    hipGraphNode_t up, twice, down;
    DO(hipGraphCreate(&graph, 0));
    DO(hipGraphAddMemcpyNode1D(&up, graph, nullptr, 0, x.at, from.data(), N * sizeof(int),
                               hipMemcpyHostToDevice));
    int n = N, by = 2;
    void *arguments[] = {&x.at, &n, &by};
    hipKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void *>(scale);
    kernel.gridDim = blocks(N);
    kernel.blockDim = dim3(256);
    kernel.kernelParams = arguments;
    DO(hipGraphAddKernelNode(&twice, graph, &up, 1, &kernel));
    DO(hipGraphAddMemcpyNode1D(&down, graph, &twice, 1, out.data(), x.at, N * sizeof(int),
                               hipMemcpyDeviceToHost));
    DO(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
    hipStream_t stream;
    DO(hipStreamCreate(&stream));
    for (int i = 0; i < 3; i++) {
        out.assign(N, 0);
        DO(hipGraphLaunch(ready, stream));
        DO(hipStreamSynchronize(stream));
        SAME(scaled(out, 2));
    }
    DO(hipStreamDestroy(stream));
    DO(hipGraphExecDestroy(ready));
    DO(hipGraphDestroy(graph));
}
FEATURE(graph_built);

static void capture_forked() {
    hipStream_t one, two;
    hipEvent_t fork, join;
    hipGraph_t graph;
    hipGraphExec_t ready;
    DO(hipStreamCreate(&one));
    DO(hipStreamCreate(&two));
    DO(hipEventCreate(&fork));
    DO(hipEventCreate(&join));
    Device<int> x(numbers(N)), y(numbers(N));
    DO(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
    DO(hipEventRecord(fork, one));
    DO(hipStreamWaitEvent(two, fork, 0));
    scale<<<blocks(N), 256, 0, one>>>(x.at, N, 2);
    scale<<<blocks(N), 256, 0, two>>>(y.at, N, 3);
    DO(hipEventRecord(join, two));
    DO(hipStreamWaitEvent(one, join, 0));
    scale<<<blocks(N), 256, 0, one>>>(y.at, N, 5);
    DO(hipStreamEndCapture(one, &graph));
    DO(hipGraphInstantiate(&ready, graph, nullptr, nullptr, 0));
    DO(hipGraphLaunch(ready, one));
    DO(hipStreamSynchronize(one));
    SAME(scaled(x.get(N), 2));
    SAME(scaled(y.get(N), 15));
    DO(hipGraphExecDestroy(ready));
    DO(hipGraphDestroy(graph));
    for (hipEvent_t event : {fork, join}) DO(hipEventDestroy(event));
    for (hipStream_t stream : {one, two}) DO(hipStreamDestroy(stream));
}
FEATURE(capture_forked);

static void values_waited_for() {
    int can = 0;
    DO(hipDeviceGetAttribute(&can, hipDeviceAttributeCanUseStreamWaitValue, 0));
    if (!can) return;
    hipStream_t stream;
    DO(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    uint64_t *flag;
    DO(hipExtMallocWithFlags((void **)&flag, 8, hipMallocSignalMemory));
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    Device<int> x(numbers(N));
    DO(hipDeviceSynchronize());
    DO(hipStreamWaitValue32(stream, flag, 7, hipStreamWaitValueEq, 0xffffffff));
    scale<<<blocks(N), 256, 0, stream>>>(x.at, N, 2);
    DO(hipStreamWriteValue32(stream, flag, 9, 0));
    SAME(hipStreamQuery(stream) == hipErrorNotReady);
    (void)hipGetLastError();
    __atomic_store_n(flag, 7, __ATOMIC_RELEASE);
    DO(hipStreamSynchronize(stream));
    SAME(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 9);
    SAME(scaled(x.get(N), 2));
    DO(hipFree(flag));
    DO(hipStreamDestroy(stream));
}
FEATURE(values_waited_for);

static void blocking_event() {
    hipEvent_t event;
    DO(hipEventCreateWithFlags(&event, hipEventBlockingSync));
    Device<int> x(numbers(N));
    scale<<<blocks(N), 256>>>(x.at, N, 2);
    DO(hipEventRecord(event, nullptr));
    DO(hipEventSynchronize(event));
    SAME(scaled(x.get(N), 2));
    DO(hipEventDestroy(event));
}
FEATURE(blocking_event);
