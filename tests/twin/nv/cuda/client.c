/* A program that uses CUDA's driver interface, as NVIDIA documents it: nothing in it knows of a twin.
 *
 * client CUBIN [STEP]: runs the steps in order, up to that one. Each prints a line: its name and "ok", or the call that
 * failed and what the library says, and then the program ends with 1. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef int Device;
typedef void *Handle;
typedef unsigned long long Address;
typedef struct { unsigned char bytes[16]; } Uuid;

static Result (*cuInit)(unsigned);
static Result (*cuGetErrorName)(Result, const char **);
static Result (*cuDriverGetVersion)(int *);
static Result (*cuDeviceGetCount)(int *);
static Result (*cuDeviceGet)(Device *, int);
static Result (*cuDeviceGetName)(char *, int, Device);
static Result (*cuDeviceGetUuid)(Uuid *, Device);
static Result (*cuDeviceTotalMem_v2)(size_t *, Device);
static Result (*cuDeviceGetAttribute)(int *, int, Device);
static Result (*cuCtxCreate_v2)(Handle *, unsigned, Device);
static Result (*cuCtxDestroy_v2)(Handle);
static Result (*cuCtxSynchronize)(void);
static Result (*cuMemAlloc_v2)(Address *, size_t);
static Result (*cuMemFree_v2)(Address);
static Result (*cuMemAllocHost_v2)(void **, size_t);
static Result (*cuMemFreeHost)(void *);
static Result (*cuMemcpyHtoD_v2)(Address, const void *, size_t);
static Result (*cuMemcpyDtoH_v2)(void *, Address, size_t);
static Result (*cuMemcpyDtoD_v2)(Address, Address, size_t);
static Result (*cuMemsetD32_v2)(Address, unsigned, size_t);
static Result (*cuMemcpyHtoDAsync_v2)(Address, const void *, size_t, Handle);
static Result (*cuMemcpyDtoHAsync_v2)(void *, Address, size_t, Handle);
static Result (*cuModuleLoad)(Handle *, const char *);
static Result (*cuModuleGetFunction)(Handle *, Handle, const char *);
static Result (*cuModuleUnload)(Handle);
static Result (*cuLaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                Handle, void **, void **);
static Result (*cuStreamCreate)(Handle *, unsigned);
static Result (*cuStreamSynchronize)(Handle);
static Result (*cuStreamDestroy_v2)(Handle);
static Result (*cuEventCreate)(Handle *, unsigned);
static Result (*cuEventRecord)(Handle, Handle);
static Result (*cuEventSynchronize)(Handle);
static Result (*cuEventElapsedTime)(float *, Handle, Handle);
static Result (*cuEventDestroy_v2)(Handle);
static Result (*cuStreamBeginCapture_v2)(Handle, int);
static Result (*cuStreamEndCapture)(Handle, Handle *);
static Result (*cuGraphInstantiateWithFlags)(Handle *, Handle, unsigned long long);
static Result (*cuGraphLaunch)(Handle, Handle);

static const char *step;

static void call(Result result, const char *what) {
    const char *name = "?";
    if (result == 0) return;
    if (cuGetErrorName) cuGetErrorName(result, &name);
    printf("%s: %s: %d %s\n", step, what, result, name);
    exit(1);
}
#define CALL(what) call(what, #what)
#define CHECK(right, ...) \
    do { if (!(right)) { printf("%s: wrong: ", step); printf(__VA_ARGS__); puts(""); exit(1); } } while (0)

static void load(void *library, void *function, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found, "libcuda has no %s", name);
    memcpy(function, &found, sizeof found);
}
#define LOAD(name) load(library, &name, #name)

static Device device;
static Handle context, module, stream;
static Address a, b;
enum { COUNT = 1 << 16 };
static unsigned words[COUNT], back[COUNT];

static void init(void) { CALL(cuInit(0)); }

static void query(void) {
    int version, count, major, minor, sms, warp;
    char name[128];
    size_t bytes;
    Uuid uuid;
    CALL(cuDriverGetVersion(&version));
    CALL(cuDeviceGetCount(&count));
    CALL(cuDeviceGet(&device, 0));
    CALL(cuDeviceGetName(name, sizeof name, device));
    CALL(cuDeviceGetUuid(&uuid, device));
    CALL(cuDeviceTotalMem_v2(&bytes, device));
    CALL(cuDeviceGetAttribute(&warp, 10, device));
    CALL(cuDeviceGetAttribute(&sms, 16, device));
    CALL(cuDeviceGetAttribute(&major, 75, device));
    CALL(cuDeviceGetAttribute(&minor, 76, device));
    printf("query: CUDA %d, %d GPU(s): %s, sm_%d%d, %d SMs, warps of %d, %zu MiB\n", version, count, name, major,
           minor, sms, warp, bytes >> 20);
    CHECK(count > 0 && warp == 32 && sms > 0, "a GPU without warps");
}

static void make_context(void) { CALL(cuCtxCreate_v2(&context, 0, device)); }

static void memory(void) {
    void *host;
    CALL(cuMemAlloc_v2(&a, sizeof words));
    CALL(cuMemAlloc_v2(&b, sizeof words));
    CALL(cuMemAllocHost_v2(&host, 1 << 20));
    memset(host, 7, 1 << 20);
    CALL(cuMemFreeHost(host));
}

static void copies(void) {
    for (int i = 0; i < COUNT; i++) words[i] = i * 2654435761u;
    CALL(cuMemcpyHtoD_v2(a, words, sizeof words));
    CALL(cuMemcpyDtoD_v2(b, a, sizeof words));
    CALL(cuMemcpyDtoH_v2(back, b, sizeof words));
    CHECK(!memcmp(words, back, sizeof words), "a copy there and back");
    CALL(cuMemsetD32_v2(b, 0x12345678, COUNT / 2));
    CALL(cuMemcpyDtoH_v2(back, b, sizeof words));
    CHECK(back[COUNT / 2 - 1] == 0x12345678 && back[COUNT / 2] == words[COUNT / 2], "memset");
}

static const char *cubin;

static void load_module(void) { CALL(cuModuleLoad(&module, cubin)); }

static Handle function(const char *name) {
    Handle found;
    CALL(cuModuleGetFunction(&found, module, name));
    return found;
}

static void launch_scale(Handle on, unsigned factor) {
    unsigned count = COUNT;
    void *arguments[] = {&a, &b, &factor, &count};
    CALL(cuLaunchKernel(function("scale"), COUNT / 256, 1, 1, 256, 1, 1, 0, on, arguments, 0));
}

static void check_scale(unsigned factor) {
    CALL(cuMemcpyDtoH_v2(back, b, sizeof back));
    for (int i = 0; i < COUNT; i++) CHECK(back[i] == words[i] * factor, "scale by %u at %d: %u", factor, i, back[i]);
}

static void launch(void) {
    launch_scale(0, 3);
    CALL(cuCtxSynchronize());
    check_scale(3);
}

static void shared(void) {
    unsigned total = 0;
    void *arguments[] = {&a, &b};
    CALL(cuLaunchKernel(function("total"), 4, 1, 1, 256, 1, 1, 1024, 0, arguments, 0));
    CALL(cuMemcpyDtoH_v2(back, b, 16));
    for (int block = 0; block < 4; block++, total = 0) {
        for (int i = 0; i < 256; i++) total += words[block * 256 + i];
        CHECK(back[block] == total, "total of block %d: %u", block, back[block]);
    }
}

static void local(void) {
    void *arguments[] = {&a, &b};
    CALL(cuLaunchKernel(function("spill"), 1, 1, 1, 64, 1, 1, 0, 0, arguments, 0));
    CALL(cuMemcpyDtoH_v2(back, b, 256));
    for (int i = 0; i < 64; i++) {
        unsigned sum = 0;
        for (int k = 0; k < 64; k++) sum += words[i] + k * (k ^ i);
        CHECK(back[i] == sum, "spill at %d: %u", i, back[i]);
    }
}

static void streams(void) {
    Handle before, after;
    float took;
    CALL(cuStreamCreate(&stream, 1));
    CALL(cuEventCreate(&before, 0));
    CALL(cuEventCreate(&after, 0));
    CALL(cuEventRecord(before, stream));
    CALL(cuMemcpyHtoDAsync_v2(a, words, sizeof words, stream));
    launch_scale(stream, 5);
    CALL(cuEventRecord(after, stream));
    CALL(cuEventSynchronize(after));
    CALL(cuEventElapsedTime(&took, before, after));
    CALL(cuStreamSynchronize(stream));
    CHECK(took >= 0, "time goes back");
    check_scale(5);
    CALL(cuEventDestroy_v2(before));
    CALL(cuEventDestroy_v2(after));
}

static void graph(void) {
    Handle captured, ready;
    CALL(cuStreamBeginCapture_v2(stream, 2));
    launch_scale(stream, 7);
    CALL(cuStreamEndCapture(stream, &captured));
    CALL(cuGraphInstantiateWithFlags(&ready, captured, 0));
    for (int i = 0; i < 3; i++) CALL(cuGraphLaunch(ready, stream));
    CALL(cuStreamSynchronize(stream));
    check_scale(7);
}

static void end(void) {
    CALL(cuStreamDestroy_v2(stream));
    CALL(cuModuleUnload(module));
    CALL(cuMemFree_v2(a));
    CALL(cuMemFree_v2(b));
    CALL(cuCtxDestroy_v2(context));
}

static const struct { const char *name; void (*run)(void); } STEPS[] = {
    {"init", init}, {"query", query}, {"context", make_context}, {"memory", memory}, {"copies", copies},
    {"module", load_module}, {"launch", launch}, {"shared", shared}, {"local", local}, {"streams", streams},
    {"graph", graph}, {"end", end},
};

int main(int count, char **arguments) {
    setvbuf(stdout, 0, _IOLBF, 0);
    step = "load";
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(count > 1, "expected CUBIN [STEP]");
    CHECK(library, "%s", dlerror());
    cubin = arguments[1];
    LOAD(cuInit); LOAD(cuGetErrorName); LOAD(cuDriverGetVersion); LOAD(cuDeviceGetCount); LOAD(cuDeviceGet);
    LOAD(cuDeviceGetName); LOAD(cuDeviceGetUuid); LOAD(cuDeviceTotalMem_v2); LOAD(cuDeviceGetAttribute);
    LOAD(cuCtxCreate_v2); LOAD(cuCtxDestroy_v2); LOAD(cuCtxSynchronize); LOAD(cuMemAlloc_v2); LOAD(cuMemFree_v2);
    LOAD(cuMemAllocHost_v2); LOAD(cuMemFreeHost); LOAD(cuMemcpyHtoD_v2); LOAD(cuMemcpyDtoH_v2);
    LOAD(cuMemcpyDtoD_v2); LOAD(cuMemsetD32_v2); LOAD(cuMemcpyHtoDAsync_v2); LOAD(cuMemcpyDtoHAsync_v2);
    LOAD(cuModuleLoad); LOAD(cuModuleGetFunction); LOAD(cuModuleUnload); LOAD(cuLaunchKernel);
    LOAD(cuStreamCreate); LOAD(cuStreamSynchronize); LOAD(cuStreamDestroy_v2); LOAD(cuEventCreate);
    LOAD(cuEventRecord); LOAD(cuEventSynchronize); LOAD(cuEventElapsedTime); LOAD(cuEventDestroy_v2);
    LOAD(cuStreamBeginCapture_v2); LOAD(cuStreamEndCapture); LOAD(cuGraphInstantiateWithFlags); LOAD(cuGraphLaunch);
    for (unsigned i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        step = STEPS[i].name;
        STEPS[i].run();
        printf("%s: ok\n", step);
        if (count > 2 && !strcmp(step, arguments[2])) break;
    }
    return 0;
}
