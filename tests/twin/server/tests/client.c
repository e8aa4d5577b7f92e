// A program that knows nothing of simulated cards. Each step ends with 0 where all is as on a card.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(test)                                                                     \
    do {                                                                               \
        if (!(test)) {                                                                 \
            printf("line %d: %s (errno %d)\n", __LINE__, #test, errno);                \
            exit(3);                                                                   \
        }                                                                              \
    } while (0)

#define PAGE 4096

// Of linux/kfd_ioctl.h, which older systems have without all of these.
struct kfd_ioctl_get_version_args { uint32_t major_version, minor_version; };
struct kfd_ioctl_acquire_vm_args { uint32_t drm_fd, gpu_id; };
struct kfd_ioctl_alloc_memory_of_gpu_args { uint64_t va_addr, size, handle, mmap_offset; uint32_t gpu_id, flags; };
struct kfd_ioctl_free_memory_of_gpu_args { uint64_t handle; };
struct kfd_ioctl_import_dmabuf_args { uint64_t va_addr, handle; uint32_t gpu_id, dmabuf_fd; };
struct kfd_ioctl_export_dmabuf_args { uint64_t handle; uint32_t flags, dmabuf_fd; };
struct kfd_ioctl_create_queue_args {
    uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
    uint32_t ring_size, gpu_id, queue_type, queue_percentage, queue_priority, queue_id;
    uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
    uint32_t ctx_save_restore_size, ctl_stack_size, sdma_engine_id, pad;
};
struct kfd_ioctl_destroy_queue_args { uint32_t queue_id, pad; };
struct kfd_ioctl_create_event_args { uint64_t event_page_offset; uint32_t event_trigger_data, event_type, auto_reset, node_id, event_id, event_slot_index; };
struct kfd_ioctl_set_event_args { uint32_t event_id, pad; };
struct kfd_event_data { uint64_t data[4], ext; uint32_t event_id, pad; };
struct kfd_ioctl_wait_events_args { uint64_t events_ptr; uint32_t num_events, wait_for_all, timeout, wait_result; };
struct kfd_ioctl_map_memory_to_gpu_args { uint64_t handle, device_ids_array_ptr; uint32_t n_devices, n_success; };
struct kfd_ioctl_svm_args_with_one { uint64_t start_addr, size; uint32_t op, nattr, type, value; };
#define AMDKFD_IOC_CREATE_QUEUE _IOWR('K', 0x02, struct kfd_ioctl_create_queue_args)
#define AMDKFD_IOC_DESTROY_QUEUE _IOWR('K', 0x03, struct kfd_ioctl_destroy_queue_args)
#define AMDKFD_IOC_CREATE_EVENT _IOWR('K', 0x08, struct kfd_ioctl_create_event_args)
#define AMDKFD_IOC_SET_EVENT _IOW('K', 0x0a, struct kfd_ioctl_set_event_args)
#define AMDKFD_IOC_WAIT_EVENTS _IOWR('K', 0x0c, struct kfd_ioctl_wait_events_args)
#define AMDKFD_IOC_MAP_MEMORY_TO_GPU _IOWR('K', 0x18, struct kfd_ioctl_map_memory_to_gpu_args)
#define AMDKFD_IOC_GET_VERSION _IOR('K', 0x01, struct kfd_ioctl_get_version_args)
#define AMDKFD_IOC_ACQUIRE_VM _IOW('K', 0x15, struct kfd_ioctl_acquire_vm_args)
#define AMDKFD_IOC_ALLOC_MEMORY_OF_GPU _IOWR('K', 0x16, struct kfd_ioctl_alloc_memory_of_gpu_args)
#define AMDKFD_IOC_FREE_MEMORY_OF_GPU _IOW('K', 0x17, struct kfd_ioctl_free_memory_of_gpu_args)
#define AMDKFD_IOC_IMPORT_DMABUF _IOWR('K', 0x1d, struct kfd_ioctl_import_dmabuf_args)
#define AMDKFD_IOC_SVM_WITH_ONE _IOWR('K', 0x20, struct kfd_ioctl_svm_args_with_one)
#define AMDKFD_IOC_EXPORT_DMABUF _IOWR('K', 0x24, struct kfd_ioctl_export_dmabuf_args)
#define KFD_IOC_ALLOC_MEM_FLAGS_VRAM (1u << 0)
#define KFD_IOC_ALLOC_MEM_FLAGS_GTT (1u << 1)
#define KFD_IOC_ALLOC_MEM_FLAGS_USERPTR (1u << 2)
#define KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE (1u << 31)

static int kfd, render, gpu;

static int version(int fd) {
    struct kfd_ioctl_get_version_args args = {0};
    return ioctl(fd, AMDKFD_IOC_GET_VERSION, &args) == 0 && args.major_version == 1;
}

static void begin(void) {
    kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    render = open("/dev/dri/renderD128", O_RDWR | O_CLOEXEC);
    MUST(kfd >= 0 && render >= 0 && version(kfd));
    FILE *file = fopen("/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "r");
    MUST(file && fscanf(file, "%d", &gpu) == 1 && gpu > 0);
    fclose(file);
    struct kfd_ioctl_acquire_vm_args args = {.drm_fd = render, .gpu_id = gpu};
    MUST(ioctl(kfd, AMDKFD_IOC_ACQUIRE_VM, &args) == 0);
}

// Memory of the GPU, or the process's own at an address, there or anywhere.
static uint64_t allocate(void *at, uint64_t va, uint64_t bytes, uint32_t flags, uint64_t *offset) {
    struct kfd_ioctl_alloc_memory_of_gpu_args args = {
        .va_addr = va, .size = bytes, .gpu_id = gpu, .mmap_offset = (uint64_t)at,
        .flags = flags | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};
    if (ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &args)) return UINT64_MAX;
    if (offset) *offset = args.mmap_offset;
    return args.handle;
}

static void free_memory(uint64_t handle) {
    struct kfd_ioctl_free_memory_of_gpu_args args = {.handle = handle};
    MUST(ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &args) == 0);
}

static int files(void) {
    struct stat about;
    MUST(stat("/dev/kfd", &about) == 0 && S_ISCHR(about.st_mode));
    MUST(stat("/dev/dri/renderD128", &about) == 0 && major(about.st_rdev) == 226 && minor(about.st_rdev) == 128);
    MUST(stat("/dev/dri/renderD129", &about) < 0 && errno == ENOENT);
    begin();
    MUST(fstat(render, &about) == 0 && S_ISCHR(about.st_mode) && minor(about.st_rdev) == 128);
    char text[4096] = {0};
    MUST(readlink("/sys/class/kfd/kfd", text, sizeof text) > 0 && strstr(text, "devices/virtual/kfd/kfd"));
    DIR *folder = opendir("/sys/class/kfd/kfd/topology/nodes");
    int nodes = 0;
    for (struct dirent *one; folder && (one = readdir(folder));) nodes += one->d_name[0] != '.';
    MUST(nodes == 2);
    closedir(folder);
    // By other names, and from a folder.
    struct statx more;
    MUST(statx(AT_FDCWD, "/dev/dri/renderD128", 0, STATX_BASIC_STATS, &more) == 0);
    MUST(S_ISCHR(more.stx_mode) && more.stx_rdev_major == 226 && more.stx_rdev_minor == 128);
    MUST(realpath("/sys/class/kfd/kfd", text) && !strcmp(text, "/sys/devices/virtual/kfd/kfd"));
    MUST(faccessat(AT_FDCWD, "/dev/dri/renderD128", R_OK | W_OK, AT_EACCESS) == 0);
    int dri = open("/dev/dri", O_RDONLY | O_DIRECTORY);
    MUST(fstatat(dri, "renderD128", &about, 0) == 0 && S_ISCHR(about.st_mode));
    int again = openat(dri, "renderD128", O_RDWR);
    MUST(fstat(again, &about) == 0 && S_ISCHR(about.st_mode));
    close(again);
    close(dri);
    MUST(chdir("/sys/class/kfd/kfd/topology") == 0 && getcwd(text, sizeof text));
    MUST(!strcmp(text, "/sys/devices/virtual/kfd/kfd/topology"));
    MUST(chdir("../../../../../../dev") == 0 && (again = open("kfd", O_RDWR)) >= 0 && version(again));
    close(again);
    // A text that changes.
    long before = -1, after = -1;
    const char *used = "/sys/class/drm/renderD128/device/mem_info_vram_used";
    FILE *file = fopen(used, "r");
    MUST(file && fscanf(file, "%ld", &before) == 1);
    fclose(file);
    MUST(allocate(0, 0x100000000, 64 * PAGE, KFD_IOC_ALLOC_MEM_FLAGS_VRAM, 0) != UINT64_MAX);
    MUST((file = fopen(used, "r")) && fscanf(file, "%ld", &after) == 1);
    MUST(after == before + 64 * PAGE);
    // Another descriptor of a device is that, too; one that is closed is none.
    int other = dup(kfd);
    close(kfd);
    MUST(version(other));
    close(other);
    MUST(!version(other) && errno == EBADF);
    return 0;
}

static volatile int stop;
static void *count(void *at) {
    uint64_t n = 0;
    while (!stop) *(volatile uint64_t *)at = ++n;
    return (void *)n;
}

// Memory of the process stays what it is, also while others write there.
static int own(void) {
    begin();
    char *memory = malloc(65 * PAGE), *at = (char *)(((uintptr_t)memory + PAGE) & ~(uintptr_t)(PAGE - 1));
    for (int i = 0; i < 63 * PAGE; i++) at[i] = i * 7;
    pthread_t writer;
    uint64_t *counted = (uint64_t *)(at + 63 * PAGE);
    MUST(pthread_create(&writer, 0, count, counted) == 0);
    uint64_t handle = allocate(at, (uint64_t)at, 64 * PAGE, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, 0);
    MUST(handle != UINT64_MAX);
    stop = 1;
    void *last;
    pthread_join(writer, &last);
    MUST(*counted == (uint64_t)last);
    for (int i = 0; i < 63 * PAGE; i++) MUST(at[i] == (char)(i * 7));
    // A child has a copy.
    int child = fork();
    if (!child) {
        memset(at, 1, 64 * PAGE);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0 && at[1] == 7);
    free_memory(handle);
    MUST(allocate((void *)0x10000, 0x200000000, PAGE, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, 0) == UINT64_MAX);
    MUST(errno == EFAULT);
    free(memory);
    return 0;
}

// A child is a process of its own on the same card, and memory goes from one to the other.
static int processes(void) {
    begin();
    uint64_t offset, handle = allocate(0, 0x100000000, 4 * PAGE, KFD_IOC_ALLOC_MEM_FLAGS_GTT, &offset);
    MUST(handle != UINT64_MAX);
    uint32_t *here = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, render, offset);
    MUST(here != MAP_FAILED);
    here[1] = 77;
    struct kfd_ioctl_export_dmabuf_args out = {.handle = handle};
    MUST(ioctl(kfd, AMDKFD_IOC_EXPORT_DMABUF, &out) == 0);
    MUST(lseek(out.dmabuf_fd, 0, SEEK_END) == 4 * PAGE);
    int child = fork();
    if (!child) {
        MUST(!version(kfd));
        begin();
        struct kfd_ioctl_import_dmabuf_args in = {.va_addr = 0x300000000, .gpu_id = gpu, .dmabuf_fd = out.dmabuf_fd};
        MUST(ioctl(kfd, AMDKFD_IOC_IMPORT_DMABUF, &in) == 0);
        uint32_t *there = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, out.dmabuf_fd, 0);
        MUST(there != MAP_FAILED && there[1] == 77);
        there[2] = 78;
        free_memory(in.handle);
        execl("/proc/self/exe", "client", "version", (char *)0);
        _exit(4);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(here[2] == 78 && version(kfd));
    MUST(munmap(here, 4 * PAGE) == 0);
    return 0;
}

static void map_for_gpu(uint64_t handle) {
    uint32_t id = gpu;
    struct kfd_ioctl_map_memory_to_gpu_args args = {.handle = handle, .device_ids_array_ptr = (uint64_t)&id, .n_devices = 1};
    MUST(ioctl(kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &args) == 0);
}

// Memory that both see.
static void *shared(uint64_t va, uint64_t bytes) {
    uint64_t offset, handle = allocate(0, va, bytes, KFD_IOC_ALLOC_MEM_FLAGS_GTT, &offset);
    MUST(handle != UINT64_MAX);
    map_for_gpu(handle);
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, render, offset);
    MUST(at != MAP_FAILED);
    return at;
}

#define RING 0x100000000
#define RPTR 0x100010000
#define WPTR 0x100020000
#define FROM 0x100030000
#define TO 0x100040000
#define SIGNAL 0x100050000

static volatile uint32_t *ring;
static volatile uint64_t *wptr, *bell;
static volatile uint32_t *fence;
static uint32_t queue, fence_mtype = 3;

static void make_queue(void) {
    ring = shared(RING, PAGE);
    shared(RPTR, PAGE);
    wptr = shared(WPTR, PAGE);
    fence = shared(SIGNAL, PAGE);
    struct kfd_ioctl_create_queue_args args = {
        .ring_base_address = RING, .read_pointer_address = RPTR, .write_pointer_address = WPTR, .ring_size = PAGE,
        .gpu_id = gpu, .queue_type = 1, .queue_percentage = 100, .queue_priority = 7};
    MUST(ioctl(kfd, AMDKFD_IOC_CREATE_QUEUE, &args) == 0);
    queue = args.queue_id;
    char *page = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, kfd, args.doorbell_offset & ~(uint64_t)(2 * PAGE - 1));
    MUST(page != MAP_FAILED);
    bell = (uint64_t *)(page + args.doorbell_offset % (2 * PAGE));
}

static void emit(uint32_t word) {
    ring[*wptr / 4 % (PAGE / 4)] = word;
    *wptr += 4;
}

// Copies by SDMA, and waits for that.
static void copy(uint64_t to, uint64_t from, uint32_t bytes, uint32_t value) {
    uint32_t words[] = {1, bytes - 1, 0, from, from >> 32, to, to >> 32, 5 | fence_mtype << 16, (uint32_t)SIGNAL, SIGNAL >> 32, value};
    // A packet does not straddle the end of the ring.
    while (*wptr % PAGE + sizeof words > PAGE) emit(0);
    for (unsigned i = 0; i < sizeof words / 4; i++) emit(words[i]);
    __sync_synchronize();
    *bell = *wptr;
    while (*fence != value) usleep(100);
}

static struct kfd_ioctl_create_event_args event = {.auto_reset = 1};
static void *wait_for_event(void *after) {
    struct kfd_event_data data = {.event_id = event.event_id};
    struct kfd_ioctl_wait_events_args args = {.events_ptr = (uint64_t)&data, .num_events = 1, .timeout = (uint32_t)(uint64_t)after};
    MUST(ioctl(kfd, AMDKFD_IOC_WAIT_EVENTS, &args) == 0);
    return (void *)(uint64_t)args.wait_result;
}

// Some copies, also into the process's own memory, while a thread waits for an event.
static int copies(int rounds) {
    begin();
    make_queue();
    MUST(ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, &event) == 0);
    MUST(wait_for_event((void *)1) == (void *)1);
    pthread_t waits;
    MUST(pthread_create(&waits, 0, wait_for_event, (void *)60000) == 0);
    uint32_t *from = shared(FROM, PAGE), *to = shared(TO, PAGE), *own;
    MUST(posix_memalign((void **)&own, PAGE, PAGE) == 0);
    memset(own, 1, PAGE);
    uint64_t handle = allocate(own, (uint64_t)own, PAGE, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, 0);
    MUST(handle != UINT64_MAX);
    map_for_gpu(handle);
    for (int n = 1; n <= rounds; n++) {
        for (int i = 0; i < 64; i++) from[i] = n * 1000 + i;
        copy(TO, FROM, 256, 2 * n);
        MUST(to[63] == n * 1000u + 63);
        copy((uint64_t)own + 256, TO, 256, 2 * n + 1);
        MUST(own[64 + 63] == n * 1000u + 63 && own[0] == 0x01010101);
    }
    struct kfd_ioctl_set_event_args set = {.event_id = event.event_id};
    MUST(ioctl(kfd, AMDKFD_IOC_SET_EVENT, &set) == 0);
    void *result;
    pthread_join(waits, &result);
    MUST(result == 0);
    struct kfd_ioctl_destroy_queue_args gone = {.queue_id = queue};
    MUST(ioctl(kfd, AMDKFD_IOC_DESTROY_QUEUE, &gone) == 0);
    MUST(munmap(to, PAGE) == 0);
    return 0;
}

// The C library unmaps by itself what a program frees, and no library that is preloaded sees it: where the system gives
// that memory out again, nothing of it is registered any more.
static int given_again(void) {
    begin();
    char *own = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(own != MAP_FAILED);
    memset(own, 1, 16 * PAGE);
    const uint32_t op_set = 0, attribute_access = 2;
    struct kfd_ioctl_svm_args_with_one set = {
        .start_addr = (uint64_t)own, .size = 16 * PAGE, .op = op_set, .nattr = 1, .type = attribute_access, .value = gpu};
    MUST(ioctl(kfd, AMDKFD_IOC_SVM_WITH_ONE, &set) == 0);
    MUST(allocate(0, (uint64_t)own, 16 * PAGE, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 0) == UINT64_MAX && errno == EADDRINUSE);
    MUST(syscall(SYS_munmap, own, 16 * PAGE) == 0);
    char *next = mmap(own, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(next == own && next[0] == 0);
    uint64_t handle = allocate(0, (uint64_t)own, 16 * PAGE, KFD_IOC_ALLOC_MEM_FLAGS_GTT, 0);
    MUST(handle != UINT64_MAX);
    free_memory(handle);
    return 0;
}

// A copy to where nothing is, and what the kernel tells of it.
static int wild(void) {
    begin();
    make_queue();
    struct kfd_ioctl_create_event_args reset = {.event_type = 3};
    event.event_type = 8;
    MUST(ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, &event) == 0 && ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, &reset) == 0);
    uint32_t words[] = {1, 255, 0, (uint32_t)FROM, FROM >> 32, 0x456000, 0x12};
    for (unsigned i = 0; i < sizeof words / 4; i++) emit(words[i]);
    __sync_synchronize();
    *bell = *wptr;
    return wait_for_event((void *)60000) != 0;
}

// Something that never comes: memory that nobody writes (SDMA's POLL_REGMEM), an event that nobody signals, a fence
// that nobody has submitted.
static int hang(const char *for_what) {
    begin();
    make_queue();
    MUST(ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, &event) == 0);
    if (!strcmp(for_what, "poll")) {
        uint32_t words[] = {8 | 3u << 28 | 1u << 31, (uint32_t)SIGNAL, SIGNAL >> 32, 7, ~0u, 0x0fff0004};
        for (unsigned i = 0; i < sizeof words / 4; i++) emit(words[i]);
        __sync_synchronize();
        *bell = *wptr;
    }
    puts("waits");
    fflush(stdout);
    if (!strcmp(for_what, "event")) return wait_for_event((void *)60000) != 0;
    for (int ms = 0; ms < 60000 && *fence != 1; ms++) usleep(1000);
    return 5;
}

int main(int argc, char **argv) {
    const char *step = argc > 1 ? argv[1] : "";
    if (!strcmp(step, "files")) return files();
    if (!strcmp(step, "own")) return own();
    if (!strcmp(step, "again")) return given_again();
    if (!strcmp(step, "processes")) return processes();
    if (!strcmp(step, "copies")) return copies(argc > 2 ? atoi(argv[2]) : 20);
    if (!strcmp(step, "mistake")) {
        // A fence that stays in a cache.
        fence_mtype = 0;
        return copies(1);
    }
    if (!strcmp(step, "wild")) return wild();
    if (!strcmp(step, "hang")) return hang(argv[2]);
    kfd = open("/dev/kfd", O_RDWR);
    if (!strcmp(step, "version")) return !version(kfd);
    if (!strcmp(step, "code")) return atoi(argv[2]);
    // A request that nobody knows.
    ioctl(kfd, _IO('K', 0x7f), 0);
    if (!strcmp(step, "abort")) abort();
    if (!strcmp(step, "leave")) _exit(0);
    if (!strcmp(step, "wait")) {
        puts("waits");
        fflush(stdout);
        pause();
    }
    return 0;
}
