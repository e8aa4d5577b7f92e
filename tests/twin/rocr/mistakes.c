// Programs for AMD's runtime (HSA) that write packets themselves, each with a mistake that can be made or not.
//
// usage: mistakes CODE            every program, without its mistake: "right NAME"
//        mistakes CODE NAME       one of them, with it; what it gives is not looked at
//        mistakes list            NAME, the rule (or rules) that it breaks, and the machine that it wants
//
// CODE is kernels.c, compiled for the chip.
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 256, PAGE = 4096 };

static const char *name;
static bool wrong;
static hsa_agent_t host, gpus[2];
static int gpu_count;
static hsa_amd_memory_pool_t vram[2], shared;
static hsa_executable_t code;
static int file;
static hsa_queue_t *queue;

static void fail(const char *what, int status) {
    if (wrong) {
        if (queue) hsa_queue_destroy(queue);
        _exit(0);
    }
    printf("wrong %s: %s (%d)\n", name, what, status);
    exit(1);
}
#define DO(call)                                                                                                       \
    do {                                                                                                               \
        hsa_status_t status_ = (call);                                                                                 \
        if (status_ != HSA_STATUS_SUCCESS) fail(#call, status_);                                                       \
    } while (0)
#define SAME(test)                                                                                                     \
    do {                                                                                                               \
        if (!(test)) fail(#test, 0);                                                                                   \
    } while (0)

// --- Machine ---

static hsa_status_t agent(hsa_agent_t one, void *) {
    hsa_device_type_t type;
    DO(hsa_agent_get_info(one, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_CPU) host = one;
    else if (type == HSA_DEVICE_TYPE_GPU && gpu_count < 2) gpus[gpu_count++] = one;
    return HSA_STATUS_SUCCESS;
}

// Of the host what all see as it is, of a GPU what its caches hold.
static hsa_status_t pool(hsa_amd_memory_pool_t one, void *to) {
    hsa_amd_segment_t segment;
    uint32_t flags;
    DO(hsa_amd_memory_pool_get_info(one, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL) return HSA_STATUS_SUCCESS;
    DO(hsa_amd_memory_pool_get_info(one, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    uint32_t want =
        to == &shared ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    if (flags & want) *(hsa_amd_memory_pool_t *)to = one;
    return HSA_STATUS_SUCCESS;
}

static void load(void) {
    hsa_code_object_reader_t reader;
    DO(hsa_code_object_reader_create_from_file(file, &reader));
    DO(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &code));
    for (int i = 0; i < gpu_count; i++) DO(hsa_executable_load_agent_code_object(code, gpus[i], reader, NULL, NULL));
    DO(hsa_executable_freeze(code, NULL));
}

static void start(const char *path) {
    DO(hsa_init());
    DO(hsa_iterate_agents(agent, NULL));
    SAME(gpu_count > 0);
    DO(hsa_amd_agent_iterate_memory_pools(host, pool, &shared));
    for (int i = 0; i < gpu_count; i++) DO(hsa_amd_agent_iterate_memory_pools(gpus[i], pool, &vram[i]));
    file = open(path, O_RDONLY);
    SAME(file >= 0);
    load();
}

static void *allocate(hsa_amd_memory_pool_t from, size_t bytes) {
    void *at;
    DO(hsa_amd_memory_pool_allocate(from, bytes, 0, &at));
    hsa_agent_t all[] = {host, gpus[0], gpus[1]};
    DO(hsa_amd_agents_allow_access(1 + gpu_count, all, NULL, at));
    return at;
}
static uint32_t *words(hsa_amd_memory_pool_t from) {
    uint32_t *at = allocate(from, N * 4);
    for (int i = 0; i < N; i++) at[i] = i * 7;
    return at;
}
static hsa_signal_t signal_of(int value) {
    hsa_signal_t one;
    DO(hsa_signal_create(value, 0, NULL, &one));
    return one;
}

// --- Packets ---

static void told(hsa_status_t status, hsa_queue_t *, void *) { fprintf(stderr, "queue: %#x\n", status); }

static void queue_on(int gpu) {
    DO(hsa_queue_create(gpus[gpu], 64, HSA_QUEUE_TYPE_MULTI, told, NULL, UINT32_MAX, UINT32_MAX, &queue));
}

enum { NONE, AGENT, SYSTEM };
static uint16_t header(int type, bool barrier, int acquire, int release) {
    return type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
           acquire << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE | release << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
}

typedef hsa_kernel_dispatch_packet_t Packet;

// A packet for a kernel on N work-items, whose arguments are addresses and numbers of 8 bytes.
static Packet packet_on(int gpu, const char *kernel, uint64_t a, uint64_t b) {
    char symbol_name[32];
    snprintf(symbol_name, sizeof symbol_name, "%s.kd", kernel);
    hsa_executable_symbol_t symbol;
    DO(hsa_executable_get_symbol_by_name(code, symbol_name, &gpus[gpu], &symbol));
    Packet p = {
        .header = header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true, SYSTEM, SYSTEM),
        .setup = 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS,
        .workgroup_size_x = 64,
        .workgroup_size_y = 1,
        .workgroup_size_z = 1,
        .grid_size_x = N,
        .grid_size_y = 1,
        .grid_size_z = 1,
    };
    uint32_t bytes;
    DO(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &p.kernel_object));
    DO(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &bytes));
    DO(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE,
                                      &p.group_segment_size));
    DO(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE,
                                      &p.private_segment_size));
    p.kernarg_address = memset(allocate(shared, PAGE), 0, PAGE);
    memcpy(p.kernarg_address, (uint64_t[]){a, b}, 16);
    p.completion_signal = signal_of(1);
    SAME(bytes <= PAGE);
    return p;
}
static Packet packet(const char *kernel, const void *a, const void *b) {
    return packet_on(0, kernel, (uintptr_t)a, (uintptr_t)b);
}

static Packet *slot(uint64_t at) { return (Packet *)queue->base_address + at % queue->size; }

static void body(uint64_t at, const Packet *p) {
    memcpy((char *)slot(at) + 4, (const char *)p + 4, sizeof *p - 4);
}
static void head(uint64_t at, const Packet *p) {
    __atomic_store_n((uint32_t *)slot(at), p->header | p->setup << 16, __ATOMIC_RELEASE);
}
static void ring(uint64_t at) { hsa_signal_store_screlease(queue->doorbell_signal, at); }

static void submit(const Packet *p) {
    uint64_t at = hsa_queue_add_write_index_screlease(queue, 1);
    body(at, p);
    head(at, p);
    ring(at);
}
// A packet that waits for a signal.
static void hold(hsa_signal_t until) {
    hsa_barrier_and_packet_t p = {
        .header = header(HSA_PACKET_TYPE_BARRIER_AND, true, NONE, NONE),
        .dep_signal = {until},
    };
    submit((const Packet *)&p);
}
static void pause_for(int ms) { usleep(ms * 1000); }

static void done(const Packet *p) {
    uint64_t second;
    DO(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &second));
    uint64_t most = wrong ? second : 30 * second;
    hsa_signal_value_t left = hsa_signal_wait_scacquire(p->completion_signal, HSA_SIGNAL_CONDITION_LT, 1, most,
                                                        HSA_WAIT_STATE_BLOCKED);
    SAME(left == 0);
}
static void run(Packet p) {
    submit(&p);
    done(&p);
}
static void scopes(Packet *p, int acquire, int release) {
    p->header = header(HSA_PACKET_TYPE_KERNEL_DISPATCH, true, acquire, release);
}

static void added(const uint32_t *out) {
    for (int i = 0; i < N; i++) SAME(out[i] == (uint32_t)i * 7);
}

// --- Arguments ---

static void kernarg_unaligned(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    int by = wrong ? 8 : 64;
    memmove((char *)p.kernarg_address + by, p.kernarg_address, 32);
    p.kernarg_address = (char *)p.kernarg_address + by;
    memset(out, 0, N * 4);
    run(p);
    added(out);
}

static void kernarg_short(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *there;
    DO(hsa_amd_memory_lock(pages, PAGE, gpus, 1, (void **)&there));
    int at = wrong ? PAGE - 16 : 0;
    memcpy(pages + at, p.kernarg_address, 16);
    p.kernarg_address = there + at;
    run(p);
    added(out);
    DO(hsa_amd_memory_unlock(pages));
}

// --- Caches and scopes ---

static void acquire_missing(void) {
    uint32_t *x = words(vram[0]), *out = words(shared);
    Packet read = packet("spread", x, out), write = packet("one", x, NULL);
    run(read);
    scopes(&write, NONE, SYSTEM);
    run(write);
    hsa_signal_store_relaxed(read.completion_signal, 1);
    if (wrong) scopes(&read, NONE, SYSTEM);
    run(read);
    for (int i = 0; i < N; i++) SAME(out[i] == 0x11111111u + i);
}

static void acquire_of_the_device(void) {
    uint32_t *x = words(vram[0]), *out = words(shared);
    Packet read = packet("add", x, out);
    run(read);
    for (int i = 0; i < N; i++) x[i] = i * 9;
    hsa_signal_store_relaxed(read.completion_signal, 1);
    if (wrong) scopes(&read, AGENT, SYSTEM);
    run(read);
    for (int i = 0; i < N; i++) SAME(out[i] == (uint32_t)i * 9);
}

// Another GPU reads.
static void release_of_the_device(void) {
    uint32_t *x = words(vram[0]), *out = words(shared);
    Packet write = packet("one", x, NULL);
    if (wrong) scopes(&write, SYSTEM, AGENT);
    run(write);
    hsa_queue_t *first = queue;
    queue_on(1);
    run(packet_on(1, "add", (uintptr_t)x, (uintptr_t)out));
    DO(hsa_queue_destroy(queue));
    queue = first;
    for (int i = 0; i < N; i++) SAME(out[i] == 0x11111111);
}

static void code_changed(void) {
    uint32_t *out = words(shared);
    Packet one = packet("one", out, NULL), two = packet("two", out, NULL);
    run(one);
    // The descriptors say where the code is.
    uint64_t to = one.kernel_object + *(int64_t *)(one.kernel_object + 16);
    uint64_t from = two.kernel_object + *(int64_t *)(two.kernel_object + 16);
    Packet copy = packet_on(0, "add", from, to);
    copy.grid_size_x = 64;
    run(copy);
    hsa_signal_store_relaxed(one.completion_signal, 1);
    if (wrong) scopes(&one, NONE, SYSTEM);
    run(one);
    for (int i = 0; i < N; i++) SAME(out[i] == 0x22222222);
    // As it was.
    hsa_executable_destroy(code);
    load();
}

static void barrier_missing(void) {
    uint32_t *x = words(vram[0]), *out = words(shared);
    Packet write = packet("one", x, NULL), read = packet("add", x, out);
    if (wrong) read.header = header(HSA_PACKET_TYPE_KERNEL_DISPATCH, false, SYSTEM, SYSTEM);
    submit(&write);
    submit(&read);
    done(&read);
    for (int i = 0; i < N; i++) SAME(out[i] == 0x11111111);
}

// --- Rings and signals ---

static void signal_destroyed(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) DO(hsa_signal_destroy(p.completion_signal));
    submit(&p);
    if (wrong) return pause_for(200);
    done(&p);
    DO(hsa_signal_destroy(p.completion_signal));
}

static void header_first(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    uint64_t at = hsa_queue_add_write_index_screlease(queue, 1);
    if (!wrong) body(at, &p);
    head(at, &p);
    ring(at);
    if (wrong) pause_for(200), body(at, &p);
    done(&p);
}

static void header_missing(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    uint64_t at = hsa_queue_add_write_index_screlease(queue, 1);
    body(at, &p);
    if (!wrong) head(at, &p);
    ring(at);
    done(&p);
}

static void packet_changed(void) {
    uint32_t *in = words(shared), *out = words(shared), *other = words(shared);
    memset(out, 0, N * 4);
    hsa_signal_t go = signal_of(1);
    hold(go);
    Packet p = packet("add", in, out), q = packet("add", in, other);
    uint64_t at = hsa_queue_load_write_index_relaxed(queue);
    submit(&p);
    pause_for(200);
    if (wrong) slot(at)->kernarg_address = q.kernarg_address;
    hsa_signal_store_screlease(go, 0);
    done(&p);
    added(out);
}

static void doorbell_early(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    uint64_t at = hsa_queue_load_write_index_relaxed(queue);
    body(at, &p);
    head(at, &p);
    if (wrong) ring(at), pause_for(200);
    hsa_queue_store_write_index_screlease(queue, at + 1);
    if (!wrong) ring(at);
    done(&p);
}

static void doorbell_missing(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    run(packet("add", in, out));
    uint64_t at = hsa_queue_add_write_index_screlease(queue, 1);
    body(at, &p);
    head(at, &p);
    if (!wrong) ring(at);
    done(&p);
}

static void doorbell_of_32_bits(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    uint64_t at = hsa_queue_add_write_index_screlease(queue, 1);
    body(at, &p);
    head(at, &p);
    amd_signal_t *bell = (amd_signal_t *)queue->doorbell_signal.handle;
    if (wrong) *(volatile uint32_t *)bell->hardware_doorbell_ptr = at;
    else ring(at);
    done(&p);
}

static void ring_overrun(void) {
    uint32_t *in = words(shared), *out = words(shared);
    hsa_signal_t go = signal_of(1);
    hold(go);
    Packet p = packet("add", in, out);
    int fit = queue->size - 1;
    hsa_signal_store_relaxed(p.completion_signal, fit);
    for (int i = 0; i < fit + (wrong ? 2 : 0); i++) submit(&p);
    pause_for(200);
    hsa_signal_store_screlease(go, 0);
    done(&p);
}

static void write_index_back(void) {
    uint32_t *in = words(shared), *out = words(shared);
    run(packet("add", in, out));
    run(packet("add", in, out));
    if (wrong) hsa_queue_store_write_index_screlease(queue, 0);
    run(packet("add", in, out));
}

static void waits_for_no_signal(void) {
    uint64_t *word = allocate(shared, PAGE);
    hsa_signal_t go = signal_of(0);
    if (wrong) go.handle = (uintptr_t)memset(word, 0, PAGE);
    hold(go);
    uint32_t *in = words(shared), *out = words(shared);
    run(packet("add", in, out));
}

// --- Packets ---

static void reserved_bits(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) p.reserved0 = 7;
    run(p);
    added(out);
}

static void packet_for_an_agent(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) p.header = header(HSA_PACKET_TYPE_AGENT_DISPATCH, true, SYSTEM, SYSTEM);
    run(p);
}

static void code_for_its_descriptor(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) p.kernel_object += *(int64_t *)(p.kernel_object + 16);
    run(p);
    added(out);
}

static void workgroup_too_large(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) p.workgroup_size_x = 2048;
    run(p);
}

static void grid_of_nothing(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) p.grid_size_y = 0;
    run(p);
}

static void grid_too_large(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("add", in, out);
    if (wrong) p.grid_size_x = 1 << 24;
    run(p);
    added(out);
}

static void private_too_small(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("turn", in, out);
    SAME(p.private_segment_size >= 64);
    if (wrong) p.private_segment_size = 0;
    run(p);
    for (int i = 0; i < N; i++) SAME(out[i] == (uint32_t)((i ^ in[i]) & 15));
}

static void group_too_small(void) {
    uint32_t *in = words(shared), *out = words(shared);
    Packet p = packet("mirror", in, out);
    SAME(p.group_segment_size == 256);
    if (wrong) p.group_segment_size = 0;
    run(p);
    for (int i = 0; i < N; i++) SAME(out[i] == in[(i | 63) - (i & 63)]);
}

// --- Memory ---

static void freed(void) {
    uint32_t *in = words(vram[0]), *out = words(shared);
    // Large enough for a mapping of its own.
    uint32_t *large = allocate(vram[0], 8 << 20);
    Packet p = packet("add", wrong ? large : in, out);
    DO(hsa_amd_memory_pool_free(large));
    run(p);
    added(out);
}

static void memory_of_the_host(void) {
    uint32_t *in = words(shared), *out = words(shared);
    uint32_t *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *there = own;
    memcpy(own, in, N * 4);
    if (!wrong) DO(hsa_amd_memory_lock(own, PAGE, gpus, 1, (void **)&there));
    run(packet("add", there, out));
    added(out);
    if (!wrong) DO(hsa_amd_memory_unlock(own));
}

// Newer runtimes leave it to the kernel driver (SVM) what becomes of such memory: it is no longer there.
static void unmapped_while_locked(void) {
    uint32_t *in = words(shared), *out = words(shared);
    uint32_t *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *there;
    memcpy(own, in, N * 4);
    DO(hsa_amd_memory_lock(own, PAGE, gpus, 1, (void **)&there));
    if (wrong) munmap(own, PAGE);
    run(packet("add", there, out));
    added(out);
    DO(hsa_amd_memory_unlock(own));
    if (!wrong) munmap(own, PAGE);
}

static void atomic_unaligned(void) {
    uint32_t *x = words(vram[0]);
    uint32_t *at = (uint32_t *)((char *)x + (wrong ? 2 : 4));
    run(packet("count", at, NULL));
    SAME(x[1] == 7 + N);
}

static void atomic_that_pcie_lacks(void) {
    uint32_t *x = words(wrong ? shared : vram[0]);
    run(packet("mark", x, NULL));
    SAME(x[0] == 4);
}

static const struct Case {
    const char *name, *rule, *machine;
    void (*run)(void);
} CASES[] = {
#define CASE(name, rule, ...) {#name, rule, "" __VA_ARGS__, name}
    CASE(kernarg_unaligned, "AQL-KERNARG-ALIGN"),
    CASE(kernarg_short, "AQL-KERNARG"),
    CASE(acquire_missing, "CACHE-SCALAR-STALE"),
    CASE(acquire_of_the_device, "CACHE-L2-STALE"),
    CASE(release_of_the_device, "CACHE-L2-NOT-WRITTEN-BACK", ",gpus=2"),
    CASE(code_changed, "CACHE-INST-STALE"),
    CASE(barrier_missing, "PM4-DISPATCH-RACE"),
    CASE(signal_destroyed, "AQL-SIGNAL"),
    CASE(waits_for_no_signal, "AQL-SIGNAL"),
    CASE(header_first, "AQL-GRID"),
    CASE(header_missing, "AQL-HEADER-LAST"),
    CASE(packet_changed, "Q-RING-CHANGED"),
    CASE(doorbell_early, "Q-DOORBELL-WPTR"),
    CASE(doorbell_missing, "Q-DOORBELL-WPTR"),
    CASE(doorbell_of_32_bits, "Q-DOORBELL-64"),
    CASE(ring_overrun, "Q-WPTR-RING"),
    CASE(write_index_back, "Q-DOORBELL-WPTR"),
    CASE(reserved_bits, "AQL-RESERVED"),
    CASE(packet_for_an_agent, "AQL-TYPE"),
    CASE(code_for_its_descriptor, "AQL-KERNEL-OBJECT"),
    CASE(workgroup_too_large, "AQL-WORKGROUP"),
    CASE(grid_of_nothing, "AQL-GRID"),
    CASE(grid_too_large, "GPU-PAGE-FAULT"),
    CASE(private_too_small, "AQL-PRIVATE-SIZE"),
    CASE(group_too_small, "AQL-GROUP-SIZE"),
    CASE(freed, "GPU-PAGE-FAULT"),
    CASE(memory_of_the_host, "GPU-PAGE-FAULT"),
    CASE(unmapped_while_locked, "KFD-USERPTR-UNMAPPED|GPU-PAGE-FAULT"),
    CASE(atomic_unaligned, "MEM-ALIGN"),
    CASE(atomic_that_pcie_lacks, "MEM-ATOMIC-FABRIC"),
};
enum { COUNT = sizeof CASES / sizeof *CASES };

int main(int count, char **args) {
    if (count == 2 && !strcmp(args[1], "list")) {
        for (int i = 0; i < COUNT; i++) printf("%s %s %s\n", CASES[i].name, CASES[i].rule, CASES[i].machine);
        return 0;
    }
    const char *only = count == 3 ? args[2] : NULL;
    if (count < 2) return 2;
    name = "start";
    start(args[1]);
    int ran = 0;
    for (int i = 0; i < COUNT; i++) {
        if (only && strcmp(only, CASES[i].name)) continue;
        name = CASES[i].name;
        wrong = only != NULL;
        queue = NULL;
        queue_on(0);
        CASES[i].run();
        hsa_queue_destroy(queue);
        if (!wrong) printf("right %s\n", name), fflush(stdout);
        ran++;
    }
    if (!ran) {
        printf("there is no %s\n", only);
        return 2;
    }
    if (wrong) _exit(0);
    DO(hsa_shut_down());
    return 0;
}
