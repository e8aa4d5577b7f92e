// What `scripts/silicon-record` has recorded of NVIDIA's own libcuda: one thing a run.
//
// usage: workload FOLDER PART     PART: init memory copies launch shared local graph fault
//
// Kernels are FOLDER/CHIP_NAME.cubin: vector_add, reduce, local of tests/twin/sass/kernels. Where a library
// records, it is told what comes (doorbell_mark). Results are checked; 1 says what went wrong.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Address;
static void *library;
static const char *folder;
static char chip[16];

static void fail(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    exit(1);
}

static void *find(const char *name) {
    void *at = dlsym(library, name);
    if (!at) fail(name, "libcuda.so.1 has no such function");
    return at;
}

// Calls a function of the library by its name; its types are those of the arguments.
#define CALL(name, ...)                                                    \
    ({                                                                     \
        int (*call_)() = (int (*)())find(#name);                           \
        call_(__VA_ARGS__);                                                \
    })
#define MUST(name, ...) must(#name, CALL(name, __VA_ARGS__))

static void must(const char *call, int error) {
    const char *name = "an unknown error";
    char text[256];
    if (!error) return;
    CALL(cuGetErrorName, error, &name);
    snprintf(text, sizeof text, "%s (%d)", name, error);
    fail(call, text);
}

static void mark(const char *name) {
    void (*told)(const char *);
    void *at = dlsym(RTLD_DEFAULT, "doorbell_mark");
    memcpy(&told, &at, sizeof told);
    if (at) told(name);
}

enum { COUNT = 1024 };
static uint32_t words[COUNT], back[COUNT];

static Address device_words(void) {
    Address at = 0;
    for (int i = 0; i < COUNT; i++) words[i] = (uint32_t)i * 2654435761u;
    MUST(cuMemAlloc_v2, &at, (size_t)sizeof words);
    MUST(cuMemcpyHtoD_v2, at, words, (size_t)sizeof words);
    return at;
}

static void *kernel(const char *name) {
    static char image[1 << 20];
    char path[4096];
    void *module, *function;
    snprintf(path, sizeof path, "%s/%s_%s.cubin", folder, chip, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, "there is no kernel for this card");
    if (fread(image, 1, sizeof image, file) == 0) fail(path, "it cannot be read");
    fclose(file);
    MUST(cuModuleLoadData, &module, image);
    MUST(cuModuleGetFunction, &function, module, "kernel");
    mark("module");
    return function;
}

static void launch(void *function, unsigned blocks, unsigned threads, void *stream, Address *arguments, int count) {
    void *parameters[4];
    for (int i = 0; i < count; i++) parameters[i] = &arguments[i];
    MUST(cuLaunchKernel, function, blocks, 1u, 1u, threads, 1u, 1u, 0u, stream, parameters, (void **)NULL);
}

static void read_back(Address from) {
    mark("launched");
    MUST(cuCtxSynchronize);
    mark("over");
    MUST(cuMemcpyDtoH_v2, back, from, (size_t)sizeof back);
}

static void expect(int right, const char *what) {
    if (!right) fail(what, "the result is wrong");
}

static void memory(void) {
    Address at[3];
    void *host;
    for (int i = 0; i < 3; i++) MUST(cuMemAlloc_v2, &at[i], (size_t)1 << (12 + 6 * i));
    MUST(cuMemAllocHost_v2, &host, (size_t)1 << 20);
    memset(host, 7, 1 << 20);
    mark("allocated");
    MUST(cuMemFreeHost, host);
    for (int i = 0; i < 3; i++) MUST(cuMemFree_v2, at[i]);
}

static void copies(void) {
    Address a = device_words(), b = 0;
    MUST(cuMemAlloc_v2, &b, (size_t)sizeof words);
    MUST(cuMemcpyDtoD_v2, b, a, (size_t)sizeof words);
    MUST(cuMemsetD32_v2, b, 0x12345678u, (size_t)COUNT / 2);
    read_back(b);
    expect(back[0] == 0x12345678 && back[COUNT - 1] == words[COUNT - 1], "copies");
}

static void plain(void) {
    Address a = device_words(), arguments[4] = {a, a, a, COUNT};
    launch(kernel("vector_add"), COUNT / 128, 128, NULL, arguments, 4);
    read_back(a);
    expect(memcmp(words, back, sizeof words) != 0, "vector_add");
}

static void shared(void) {
    Address a = device_words(), out = device_words(), arguments[2] = {a, out};
    uint32_t sum = 0;
    launch(kernel("reduce"), 4, 256, NULL, arguments, 2);
    read_back(out);
    for (int i = 0; i < 256; i++) sum += words[i];
    expect(back[0] == sum, "reduce");
}

static void local(void) {
    Address a = device_words(), out = device_words(), arguments[2] = {a, out};
    launch(kernel("local"), 1, 32, NULL, arguments, 2);
    read_back(out);
    expect(memcmp(words, back, 128) != 0, "local");
}

static void graph(void) {
    void *stream, *captured, *ready, *function = kernel("vector_add");
    Address a = device_words(), b = device_words(), arguments[4] = {a, a, b, COUNT};
    MUST(cuStreamCreate, &stream, 1u);
    MUST(cuStreamBeginCapture_v2, stream, 2);
    launch(function, COUNT / 128, 128, stream, arguments, 4);
    MUST(cuMemcpyDtoDAsync_v2, a, b, (size_t)sizeof words, stream);
    launch(function, COUNT / 128, 128, stream, arguments, 4);
    MUST(cuStreamEndCapture, stream, &captured);
    MUST(cuGraphInstantiateWithFlags, &ready, captured, 0ull);
    mark("instantiated");
    for (int i = 0; i < 3; i++) MUST(cuGraphLaunch, ready, stream);
    mark("launched");
    MUST(cuStreamSynchronize, stream);
    mark("over");
}

// A kernel that writes where nothing is: who waits is told, and the context is lost.
static void fault(void) {
    Address a = device_words(), arguments[4] = {a, a, 0x123456789000ull, COUNT};
    launch(kernel("vector_add"), COUNT / 128, 128, NULL, arguments, 4);
    mark("launched");
    int error = CALL(cuCtxSynchronize);
    mark("fault");
    printf("error %d\n", error);
    expect(error == 700 || error == 719, "fault");
}

static const struct {
    const char *name;
    void (*run)(void);
} PARTS[] = {{"init", NULL},   {"memory", memory}, {"copies", copies}, {"launch", plain},
             {"shared", shared}, {"local", local},   {"graph", graph},   {"fault", fault}};

int main(int argc, char **argv) {
    int device, major = 0, minor = 0;
    void *context;
    unsigned part = 0, parts = sizeof PARTS / sizeof *PARTS;
    while (argc == 3 && part < parts && strcmp(argv[2], PARTS[part].name)) part++;
    if (argc != 3 || part == parts) {
        fprintf(stderr, "usage: %s FOLDER init|memory|copies|launch|shared|local|graph|fault\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) fail("NVIDIA's libcuda cannot be loaded; is its driver installed?", dlerror());
    MUST(cuInit, 0u);
    mark("init");
    MUST(cuDeviceGet, &device, 0);
    MUST(cuDeviceGetAttribute, &major, 75, device);
    MUST(cuDeviceGetAttribute, &minor, 76, device);
    snprintf(chip, sizeof chip, "sm_%d%d", major, minor);
    MUST(cuDevicePrimaryCtxRetain, &context, device);
    MUST(cuCtxSetCurrent, context);
    mark("context");
    if (PARTS[part].run) PARTS[part].run();
    printf("%s on %s: ok\n", PARTS[part].name, chip);
    return 0;
}
