// A program that uses an Adreno GPU by its kernel driver, and knows nothing of simulated ones.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(test)                                                                     \
    do {                                                                               \
        if (!(test)) {                                                                 \
            printf("line %d: %s (errno %d)\n", __LINE__, #test, errno);                \
            exit(3);                                                                   \
        }                                                                              \
    } while (0)

#define PAGE 4096

// Of msm_kgsl.h and msm_drm.h, which few systems have.
struct context { uint32_t flags, id; };
struct alloc { uint64_t size, flags, va_len, mmapsize; uint32_t id, metadata_len; uint64_t metadata; };
struct info { uint64_t gpuaddr, flags, size, va_len, va_addr; uint32_t id; };
struct command_object { uint64_t offset, gpuaddr, size; uint32_t flags, id; };
struct command {
    uint64_t flags, cmdlist;
    uint32_t cmdsize, numcmds;
    uint64_t objlist;
    uint32_t objsize, numobjs;
    uint64_t synclist;
    uint32_t syncsize, numsyncs, context, timestamp;
};
struct wait_timestamp { uint32_t context, timestamp, timeout; };
#define CONTEXT_CREATE _IOWR(9, 0x13, struct context)
#define OBJECT_ALLOC _IOWR(9, 0x45, struct alloc)
#define OBJECT_INFO _IOWR(9, 0x47, struct info)
#define COMMAND _IOWR(9, 0x4a, struct command)
#define WAIT_TIMESTAMP _IOW(9, 0x7, struct wait_timestamp)

struct gem_new { uint64_t size; uint32_t flags, handle; };
struct gem_info { uint32_t handle, info; uint64_t value; uint32_t len, pad; };
struct submit_bo { uint32_t flags, handle; uint64_t presumed; };
struct submit_cmd { uint32_t type, index, offset, size, pad, relocs; uint64_t relocs_at; };
struct submit {
    uint32_t flags, fence, bos, cmds;
    uint64_t bos_at, cmds_at;
    int32_t fence_fd;
    uint32_t queue;
    uint64_t in, out;
    uint32_t ins, outs, stride, pad;
};
struct prime { uint32_t handle, flags; int32_t fd; };
#define GEM_NEW _IOWR('d', 0x42, struct gem_new)
#define GEM_INFO _IOWR('d', 0x43, struct gem_info)
#define GEM_SUBMIT _IOWR('d', 0x46, struct submit)
#define PRIME_EXPORT _IOWR('d', 0x2d, struct prime)
#define PRIME_IMPORT _IOWR('d', 0x2e, struct prime)

// CP_MEM_WRITE of a dword.
static size_t write_packet(volatile uint32_t *to, uint64_t at, uint32_t value) {
    to[0] = 0x703d8003, to[1] = (uint32_t)at, to[2] = (uint32_t)(at >> 32), to[3] = value;
    return 16;
}

#define IDLE_TIMER "/sys/class/kgsl/kgsl-3d0/idle_timer"

static uint64_t idle_timer(void) {
    FILE *file = fopen(IDLE_TIMER, "r");
    unsigned long long value;
    MUST(file && fscanf(file, "%llu", &value) == 1 && fclose(file) == 0);
    return value;
}

static void kgsl(void) {
    int fd = open("/dev/kgsl-3d0", O_RDWR | O_CLOEXEC);
    struct context context = {.flags = 0x12};
    MUST(fd >= 0 && ioctl(fd, CONTEXT_CREATE, &context) == 0);
    struct alloc alloc = {.size = PAGE};
    MUST(ioctl(fd, OBJECT_ALLOC, &alloc) == 0);
    struct info info = {.id = alloc.id};
    MUST(ioctl(fd, OBJECT_INFO, &info) == 0 && info.gpuaddr > 0);
    volatile uint32_t *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)alloc.id * PAGE);
    MUST(at != MAP_FAILED);
    struct command_object object = {
        .gpuaddr = info.gpuaddr,
        .size = write_packet(at, info.gpuaddr + 256, 42),
        .flags = 1,
    };
    struct command command = {
        .cmdlist = (uintptr_t)&object,
        .cmdsize = sizeof object,
        .numcmds = 1,
        .context = context.id,
    };
    MUST(ioctl(fd, COMMAND, &command) == 0 && command.timestamp == 1);
    struct wait_timestamp wait = {.context = context.id, .timestamp = 1, .timeout = 10000};
    MUST(ioctl(fd, WAIT_TIMESTAMP, &wait) == 0 && at[64] == 42);
    wait.timestamp = 2;
    MUST(ioctl(fd, WAIT_TIMESTAMP, &wait) == -1 && errno == EINVAL);
    MUST(munmap((void *)at, PAGE) == 0 && close(fd) == 0);
    FILE *file = fopen("/sys/class/kgsl/kgsl-3d0/gpu_model", "r");
    char model[32];
    MUST(file && fgets(model, sizeof model, file) && strncmp(model, "Adreno", 6) == 0);
    fclose(file);
    // What is written to a text is read as the kernel has it.
    MUST(idle_timer() == 80);
    const char *times[] = {"4000000000", "no number", "10"};
    const uint64_t read[] = {4294967276, 4294967276, 10};
    for (int i = 0; i < 3; i++) {
        file = fopen(IDLE_TIMER, "w");
        MUST(file && fprintf(file, "%s\n", times[i]) > 0 && fclose(file) == 0);
        MUST(idle_timer() == read[i]);
    }
}

struct gem { uint32_t handle; uint64_t gpu; volatile uint32_t *cpu; };

static struct gem gem_map(int fd, uint32_t handle) {
    struct gem_info offset = {.handle = handle}, iova = {.handle = handle, .info = 1};
    MUST(ioctl(fd, GEM_INFO, &offset) == 0 && ioctl(fd, GEM_INFO, &iova) == 0);
    void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset.value);
    MUST(at != MAP_FAILED);
    return (struct gem){handle, iova.value, at};
}

static void msm(void) {
    int fd = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    struct gem_new new = {.size = PAGE, .flags = 0x20000};
    MUST(fd >= 0 && ioctl(fd, GEM_NEW, &new) == 0);
    struct gem gem = gem_map(fd, new.handle);
    struct submit_bo bo = {.flags = 3, .handle = gem.handle};
    struct submit_cmd cmd = {.type = 1, .size = (uint32_t)write_packet(gem.cpu, gem.gpu + 256, 43)};
    struct submit submit = {
        .flags = 0x10 | 0x20000000,
        .bos = 1,
        .cmds = 1,
        .bos_at = (uintptr_t)&bo,
        .cmds_at = (uintptr_t)&cmd,
    };
    MUST(ioctl(fd, GEM_SUBMIT, &submit) == 0 && submit.fence == 1 && submit.fence_fd >= 0);
    struct pollfd fence = {.fd = submit.fence_fd, .events = POLLIN};
    MUST(poll(&fence, 1, 10000) == 1 && gem.cpu[64] == 43);
    MUST(close(submit.fence_fd) == 0);
    // Another process sees the memory.
    struct prime prime = {.handle = gem.handle, .flags = O_RDWR};
    MUST(ioctl(fd, PRIME_EXPORT, &prime) == 0 && prime.fd >= 0);
    pid_t child = fork();
    if (child == 0) {
        int other = open("/dev/dri/renderD128", O_RDWR);
        struct prime import = {.fd = prime.fd};
        MUST(other >= 0 && ioctl(other, PRIME_IMPORT, &import) == 0);
        struct gem there = gem_map(other, import.handle);
        MUST(there.cpu[64] == 43);
        there.cpu[65] = 44;
        exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0 && gem.cpu[65] == 44);
}

int main(int count, char **words) {
    MUST(count == 2);
    if (strcmp(words[1], "kgsl") == 0)
        kgsl();
    else
        msm();
    return 0;
}
