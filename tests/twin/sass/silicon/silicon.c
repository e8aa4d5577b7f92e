// Runs the cases that scripts/silicon-sass packed into it on a card, and writes what the card answered.
//
// usage: silicon-sass ANSWERS [DEVICE]
//
// It needs NVIDIA's driver (libcuda.so.1) and nothing else, and changes no setting of the card. The cases
// run in a process of their own: one that fails, or does not end, costs that case alone. Exit codes: 0 all
// ran, 1 some did not (the answers say why), 2 nothing could run.
//
// The answers: lines `KEY VALUE`, an empty line, then for each case `case NAME`, `status ok` or why not,
// `pieces N`, and N times where memory has changed: 8 bytes where, 8 bytes how much, and the bytes.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// How long all cases may take, and one of them unless SILICON_CASE_LIMIT says something else, in seconds.
#define LIMIT 100
static int case_limit = 15;

// What the script wrote: see pack() there.
struct Case {
    char chip[16], kernel[48], name[80];
    uint32_t blocks[3], threads[3], shared, parameters;
    // What is asked lies from `first` up to `end`.
    uint64_t bytes, first, end, image, image_bytes, cubin, cubin_bytes;
    uint64_t values[16];
    // Where memory holds an address of itself: what is there counts from its beginning.
    uint64_t addresses[4];
    uint32_t pointers, addressed;
};
extern const unsigned char pack[], pack_end[];

// What the process of the cases tells the one that watches it.
struct Told {
    volatile int next, ran, failed, head;
    // Of the answers, and up to the end of the last whole record.
    volatile long long length, whole;
    volatile char why[512];
};
static struct Told *told;
static const char *path;

static const struct Case *cases(void) { return (const struct Case *)(pack + 16); }
static int count(void) { return (int)*(const uint64_t *)(pack + 8); }

// ---- libcuda

typedef uint64_t Address;
static struct {
    int (*cuInit)(unsigned);
    int (*cuGetErrorName)(int, const char **);
    int (*cuGetErrorString)(int, const char **);
    int (*cuDriverGetVersion)(int *);
    int (*cuDeviceGetCount)(int *);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetName)(char *, int, int);
    int (*cuDeviceGetAttribute)(int *, int, int);
    int (*cuDevicePrimaryCtxRetain)(void **, int);
    int (*cuCtxSetCurrent)(void *);
    int (*cuCtxSynchronize)(void);
    int (*cuModuleLoadData)(void **, const void *);
    int (*cuModuleUnload)(void *);
    int (*cuModuleGetFunction)(void **, void *, const char *);
    int (*cuFuncGetAttribute)(int *, int, void *);
    int (*cuFuncSetAttribute)(void *, int, int);
    int (*cuMemAlloc_v2)(Address *, size_t);
    int (*cuMemFree_v2)(Address);
    int (*cuMemcpyHtoD_v2)(Address, const void *, size_t);
    int (*cuMemcpyDtoH_v2)(void *, Address, size_t);
    int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                          void **, void **);
} cu;

static const struct {
    const char *name;
    void *at;
} functions[] = {
#define F(name) {#name, &cu.name}
    F(cuInit), F(cuGetErrorName), F(cuGetErrorString), F(cuDriverGetVersion), F(cuDeviceGetCount), F(cuDeviceGet),
    F(cuDeviceGetName), F(cuDeviceGetAttribute), F(cuDevicePrimaryCtxRetain), F(cuCtxSetCurrent),
    F(cuCtxSynchronize), F(cuModuleLoadData), F(cuModuleUnload), F(cuModuleGetFunction), F(cuFuncGetAttribute),
    F(cuFuncSetAttribute), F(cuMemAlloc_v2), F(cuMemFree_v2), F(cuMemcpyHtoD_v2), F(cuMemcpyDtoH_v2),
    F(cuLaunchKernel),
};

// Ends the process of the cases: nothing can run.
static void hopeless(const char *what, const char *why) {
    snprintf((char *)told->why, sizeof told->why, "%s: %s", what, why);
    _exit(2);
}

// Why a call failed: its name, the error's, and what NVIDIA says about it.
static const char *said(const char *call, int error) {
    static char text[400];
    const char *name = "an unknown error", *more = "";
    cu.cuGetErrorName(error, &name);
    cu.cuGetErrorString(error, &more);
    snprintf(text, sizeof text, "%s: %s (%d), %s", call, name ? name : "an unknown error", error, more ? more : "");
    return text;
}

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) hopeless("NVIDIA's libcuda cannot be loaded; is its driver installed?", dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *at = dlsym(library, functions[i].name);
        if (!at) hopeless("libcuda.so.1 lacks a function; a driver of branch 450 or later is needed", functions[i].name);
        memcpy(functions[i].at, &at, sizeof at);
    }
}

// ---- what is told of the machine

// The first line of a file, or what stands for it.
static void line_of(const char *file, const char *none, char *out, size_t size) {
    FILE *f = fopen(file, "r");
    if (!f || !fgets(out, (int)size, f)) snprintf(out, size, "%s", none);
    if (f) fclose(f);
    out[strcspn(out, "\n")] = 0;
}

static void append(const void *bytes, size_t length) {
    int fd = open(path, O_WRONLY | O_APPEND);
    const char *at = bytes;
    while (fd >= 0 && length > 0) {
        ssize_t wrote = write(fd, at, length);
        if (wrote <= 0) hopeless(path, "the answers cannot be written; is the disk full?");
        at += wrote;
        length -= (size_t)wrote;
        told->length += wrote;
    }
    if (fd < 0) hopeless(path, "the answers cannot be opened");
    close(fd);
}

static void head(const char *chip, const char *device, int version) {
    char text[2048], driver[256], date[32], system[256];
    line_of("/proc/driver/nvidia/version", "unknown", driver, sizeof driver);
    line_of("/proc/version", "unknown", system, sizeof system);
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    int length = snprintf(text, sizeof text,
                          "doorbell silicon-sass 1\nchip %s\ndevice %s\ndriver %s\ncuda %d\ndate %s\nsystem %s\n\n", chip,
                          device, driver, version, date, system);
    append(text, (size_t)length);
    told->head = 1;
}

// ---- cases

// The answer of a case, as it is written: what differs from memory before, or why it failed.
static void record(const struct Case *c, const char *status, const unsigned char *before, const unsigned char *after) {
    size_t bytes = after ? c->end : 0, pieces = 0, length = 0, room = bytes + bytes / 16 + 4096;
    unsigned char *data = malloc(room), *text = malloc(room + 1024);
    if (!data || !text) hopeless("malloc", "there is no memory left");
    for (size_t at = c->first; at < bytes;) {
        if (before[at] == after[at]) {
            at++;
            continue;
        }
        // A piece ends before 32 bytes that are the same.
        size_t end = at + 1, same = 0;
        for (size_t i = end; i < bytes && same < 32; i++) {
            same = before[i] == after[i] ? same + 1 : 0;
            if (!same) end = i + 1;
        }
        uint64_t place[2] = {at, end - at};
        memcpy(data + length, place, 16);
        memcpy(data + length + 16, after + at, end - at);
        length += 16 + end - at;
        pieces++;
        at = end;
    }
    int start = snprintf((char *)text, 1024, "case %.79s\nstatus %.600s\npieces %zu\n", c->name, status, pieces);
    memcpy(text + start, data, length);
    append(text, (size_t)start + length);
    free(data);
    free(text);
}

#define TRY(call, ...)                                      \
    do {                                                    \
        int error = cu.call(__VA_ARGS__);                   \
        if (error) return said(#call, error);               \
    } while (0)

// Runs a case; returns nothing, or why it failed.
static const char *run(const struct Case *c, unsigned char *before, unsigned char *after) {
    void *module, *function;
    Address memory = 0;
    TRY(cuModuleLoadData, &module, pack + c->cubin);
    TRY(cuModuleGetFunction, &function, module, c->kernel);
    int still = 0;
    // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: what the kernel declares; what the case has more is given to it.
    TRY(cuFuncGetAttribute, &still, 1, function);
    unsigned more = c->shared > (unsigned)still ? c->shared - (unsigned)still : 0;
    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (more > 48 * 1024) TRY(cuFuncSetAttribute, function, 8, (int)more);
    TRY(cuMemAlloc_v2, &memory, c->bytes);
    memcpy(before, pack + c->image, c->image_bytes);
    memset(before + c->image_bytes, 0, c->bytes - c->image_bytes);
    for (uint32_t i = 0; i < c->addressed; i++) {
        uint64_t address;
        memcpy(&address, before + c->addresses[i], sizeof address);
        address += memory;
        memcpy(before + c->addresses[i], &address, sizeof address);
    }
    TRY(cuMemcpyHtoD_v2, memory, before, c->bytes);
    uint64_t values[16];
    void *parameters[16];
    for (uint32_t i = 0; i < c->parameters; i++) {
        values[i] = c->values[i] + (c->pointers >> i & 1 ? memory : 0);
        parameters[i] = &values[i];
    }
    TRY(cuLaunchKernel, function, c->blocks[0], c->blocks[1], c->blocks[2], c->threads[0], c->threads[1], c->threads[2],
        more, NULL, parameters, NULL);
    TRY(cuCtxSynchronize);
    TRY(cuMemcpyDtoH_v2, after, memory, c->bytes);
    TRY(cuMemFree_v2, memory);
    TRY(cuModuleUnload, module);
    return NULL;
}

// The process of the cases, from one of them on. It ends with 1 at the first that fails: the card's context
// is lost then.
static void work(int from, int ordinal) {
    int error, devices = 0, device, major = 0, minor = 0, version = 0, mine = 0;
    char name[128] = "", chip[16], have[256] = "";
    void *context;
    load();
    if ((error = cu.cuInit(0))) hopeless("no card can be used", said("cuInit", error));
    if ((error = cu.cuDeviceGetCount(&devices))) hopeless("no card can be used", said("cuDeviceGetCount", error));
    if (ordinal >= devices) {
        snprintf(name, sizeof name, "there are %d, and number %d was asked for", devices, ordinal);
        hopeless("the device is not there", name);
    }
    if ((error = cu.cuDeviceGet(&device, ordinal))) hopeless("the device cannot be used", said("cuDeviceGet", error));
    cu.cuDeviceGetName(name, sizeof name, device);
    cu.cuDeviceGetAttribute(&major, 75, device);
    cu.cuDeviceGetAttribute(&minor, 76, device);
    cu.cuDriverGetVersion(&version);
    snprintf(chip, sizeof chip, "sm_%d%d", major, minor);
    uint64_t most = 0;
    for (int i = 0; i < count(); i++) {
        const struct Case *c = cases() + i;
        if (!strcmp(c->chip, chip)) mine++;
        if (c->bytes > most) most = c->bytes;
        if (!strstr(have, c->chip) && strlen(have) + 20 < sizeof have) strcat(strcat(have, " "), c->chip);
    }
    if (!mine) {
        char text[400];
        snprintf(text, sizeof text, "%s is %s; there are cases for%s", name, chip, have);
        hopeless("no case is for this card", text);
    }
    if ((error = cu.cuDevicePrimaryCtxRetain(&context, device)))
        hopeless("the card gives no context", said("cuDevicePrimaryCtxRetain", error));
    if ((error = cu.cuCtxSetCurrent(context))) hopeless("the card gives no context", said("cuCtxSetCurrent", error));
    if (!told->head) head(chip, name, version);
    unsigned char *before = malloc(most), *after = malloc(most);
    if (!before || !after) hopeless("malloc", "there is no memory left");
    for (int i = from; i < count(); i++) {
        const struct Case *c = cases() + i;
        if (strcmp(c->chip, chip)) continue;
        told->whole = told->length;
        told->next = i;
        const char *why = run(c, before, after);
        record(c, why ? why : "ok", before, why ? NULL : after);
        told->next = i + 1;
        if (why) {
            fprintf(stderr, "silicon-sass: %s: %s\n", c->name, why);
            told->failed++;
            _exit(1);
        }
        told->ran++;
    }
    _exit(0);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3 || argv[1][0] == '-') {
        fprintf(stderr, "usage: %s ANSWERS [DEVICE]\nRuns %d cases and writes what the card answered to the file ANSWERS.\n",
                argv[0], count());
        return 2;
    }
    path = argv[1];
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0) {
        perror(path);
        return 2;
    }
    close(fd);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    if (getenv("SILICON_CASE_LIMIT")) case_limit = atoi(getenv("SILICON_CASE_LIMIT"));
    double start = seconds();
    int from = 0, over = 0;
    while (!over) {
        fflush(NULL);
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            return 2;
        }
        if (child == 0) work(from, argc > 2 ? atoi(argv[2]) : 0);
        int status = 0, last = -1, late = 0;
        double since = seconds();
        while (waitpid(child, &status, WNOHANG) == 0) {
            if (told->next != last) {
                last = told->next;
                since = seconds();
            }
            late = seconds() - since > case_limit ? case_limit : seconds() - start > LIMIT ? LIMIT : 0;
            if (late) kill(child, SIGKILL);
            usleep(5000);
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
            fprintf(stderr, "silicon-sass: %s\n", (const char *)told->why);
            return 2;
        }
        if (!WIFEXITED(status)) {
            // It was in the middle of a case, of which nothing is kept.
            char why[128];
            if (late)
                snprintf(why, sizeof why, "it did not end within %d seconds%s", late, late == LIMIT ? ", all cases together" : "");
            else
                snprintf(why, sizeof why, "the program ended by signal %d", WTERMSIG(status));
            if (!told->head) {
                fprintf(stderr, "silicon-sass: before the first case: %s\n", why);
                return 2;
            }
            if (truncate(path, told->whole)) perror(path);
            told->length = told->whole;
            const struct Case *c = cases() + told->next;
            fprintf(stderr, "silicon-sass: %s: %s\n", c->name, why);
            record(c, why, NULL, NULL);
            told->failed++;
            told->next++;
            over = late == LIMIT;
        }
        from = told->next;
        over |= from >= count();
    }
    printf("%d cases ran, %d failed; %lld bytes of answers in %s; %.1f seconds\n", told->ran, told->failed,
           told->length, path, seconds() - start);
    return told->failed ? 1 : 0;
}
