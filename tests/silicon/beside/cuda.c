// What CUDA's driver library takes for what `trial bench` measures, in lines of the same form. It is loaded at run
// time; nothing of the card is changed.
//
// usage: cuda FOLDER [small]      FOLDER has CHIP.cubin with the kernel `step` (sm_90.cubin...)

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Status;
typedef int Device;
typedef uint64_t Address;
typedef void *Handle;

static Status (*cuInit)(unsigned);
static Status (*cuDriverGetVersion)(int *);
static Status (*cuDeviceGet)(Device *, int);
static Status (*cuDeviceGetName)(char *, int, Device);
static Status (*cuDeviceGetAttribute)(int *, int, Device);
static Status (*cuDevicePrimaryCtxRetain)(Handle *, Device);
static Status (*cuCtxSetCurrent)(Handle);
static Status (*cuCtxSynchronize)(void);
static Status (*cuModuleLoadData)(Handle *, const void *);
static Status (*cuModuleGetFunction)(Handle *, Handle, const char *);
static Status (*cuMemAlloc)(Address *, size_t);
static Status (*cuMemcpyHtoD)(Address, const void *, size_t);
static Status (*cuMemcpyDtoH)(void *, Address, size_t);
static Status (*cuLaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                                void **, void **);
// A stand-in lacks them: host memory is not pinned then, and nothing is copied on the device.
static Status (*cuMemAllocHost)(void **, size_t);
static Status (*cuMemcpyDtoD)(Address, Address, size_t);

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cuda: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    exit(2);
}

static void check(const char *what, Status status) {
    if (status != 0) fail("%s: status %d", what, status);
}

#define CALL(function, ...) check(#function, function(__VA_ARGS__))

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) fail("%s; is NVIDIA's driver installed?", dlerror());
    const struct { const char *name; void *to; int needed; } all[] = {
        {"cuInit", &cuInit, 1},
        {"cuDriverGetVersion", &cuDriverGetVersion, 1},
        {"cuDeviceGet", &cuDeviceGet, 1},
        {"cuDeviceGetName", &cuDeviceGetName, 1},
        {"cuDeviceGetAttribute", &cuDeviceGetAttribute, 1},
        {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain, 1},
        {"cuCtxSetCurrent", &cuCtxSetCurrent, 1},
        {"cuCtxSynchronize", &cuCtxSynchronize, 1},
        {"cuModuleLoadData", &cuModuleLoadData, 1},
        {"cuModuleGetFunction", &cuModuleGetFunction, 1},
        {"cuMemAlloc_v2", &cuMemAlloc, 1},
        {"cuMemcpyHtoD_v2", &cuMemcpyHtoD, 1},
        {"cuMemcpyDtoH_v2", &cuMemcpyDtoH, 1},
        {"cuLaunchKernel", &cuLaunchKernel, 1},
        {"cuMemAllocHost_v2", &cuMemAllocHost, 0},
        {"cuMemcpyDtoD_v2", &cuMemcpyDtoD, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *found = dlsym(library, all[i].name);
        if (!found && all[i].needed) fail("libcuda has no %s", all[i].name);
        memcpy(all[i].to, &found, sizeof found);
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The middle time of a call, after one that warms up.
static double middle(int times, void (*call)(void)) {
    double *all = malloc((size_t)times * sizeof *all);
    if (!all) fail("no memory");
    call();
    for (int i = 0; i < times; i++) {
        double start = now();
        call();
        all[i] = now() - start;
    }
    qsort(all, (size_t)times, sizeof *all, compare);
    double found = all[times / 2];
    free(all);
    return found;
}

static Handle function;
static Address data, other;
static void *host;
static size_t bytes = 256 << 20;

static void launch(void) {
    uint64_t value = 1;
    void *arguments[] = {&data, &value};
    CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL);
    CALL(cuCtxSynchronize);
}

static void up(void) { CALL(cuMemcpyHtoD, data, host, bytes); }
static void down(void) { CALL(cuMemcpyDtoH, host, data, bytes); }
static void across(void) {
    CALL(cuMemcpyDtoD, other, data, bytes);
    CALL(cuCtxSynchronize);
}

static void *whole_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("%s is not there: there are no kernels for this chip", path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    void *content = malloc((size_t)size);
    if (!content || fread(content, 1, (size_t)size, file) != (size_t)size) fail("%s cannot be read", path);
    fclose(file);
    return content;
}

int main(int argc, char **argv) {
    if (argc < 2) fail("usage: cuda FOLDER [small]");
    int small = argc > 2;
    int launches = small ? 5 : 2000, samples = small ? 2 : 10;
    if (small) bytes = 64 << 10;
    // Each line is there as soon as it is known: who waits may end this.
    setvbuf(stdout, NULL, _IOLBF, 0);
    load();
    CALL(cuInit, 0);
    int version, major, minor;
    Device device;
    char name[256], path[4096];
    Handle context, module;
    CALL(cuDriverGetVersion, &version);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDeviceGetName, name, sizeof name, device);
    CALL(cuDeviceGetAttribute, &major, 75, device);
    CALL(cuDeviceGetAttribute, &minor, 76, device);
    printf("%s, sm_%d%d, CUDA %d.%d\n", name, major, minor, version / 1000, version % 1000 / 10);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    snprintf(path, sizeof path, "%s/sm_%d%d.cubin", argv[1], major, minor);
    CALL(cuModuleLoadData, &module, whole_file(path));
    CALL(cuModuleGetFunction, &function, module, "step");
    CALL(cuMemAlloc, &data, bytes);
    CALL(cuMemAlloc, &other, bytes);
    const char *pinned = "";
    if (cuMemAllocHost) {
        CALL(cuMemAllocHost, &host, bytes);
    } else {
        host = calloc(1, bytes);
        pinned = " (not pinned)";
    }
    memset(host, 1, bytes);
    printf("launch to completion: %.3f us\n", middle(launches, launch) * 1e6);
    printf("copy host to device%s: %.3f GB/s\n", pinned, (double)bytes / middle(samples, up) / 1e9);
    printf("copy device to host%s: %.3f GB/s\n", pinned, (double)bytes / middle(samples, down) / 1e9);
    if (cuMemcpyDtoD) printf("copy on the device, one way: %.3f GB/s\n", (double)bytes / middle(samples, across) / 1e9);
    return 0;
}
