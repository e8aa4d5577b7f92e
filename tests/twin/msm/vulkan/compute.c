// Kernels, each compared with the host.
#include "vulkan.h"

static void add(void) {
    enum { N = 5000, ROOM = 5056 };
    struct buffer a = buffer(ROOM * 4), b = buffer(ROOM * 4), c = buffer(ROOM * 4);
    float *x = a.at, *y = b.at, *z = c.at;
    for (int i = 0; i < N; i++) x[i] = i * 0.5f, y[i] = 7 - i;
    struct given given[] = {STORAGE(&a), STORAGE(&b), STORAGE(&c)};
    struct kernel add = kernel("add", given, 3, 8, NULL);
    struct { uint32_t count; float factor; } push = {N, 3};
    once(&add, &push, sizeof push, ROOM / 64, 1, 1);
    int wrong = 0;
    for (int i = 0; i < ROOM; i++) wrong += z[i] != (i < N ? x[i] * 3 + y[i] : 0);
    right("buffers and push constants", wrong == 0);
    free_kernel(&add);
    free_buffer(&a), free_buffer(&b), free_buffer(&c);
}

static void sum(void) {
    enum { N = 10007 };
    struct buffer a = buffer(N * 4), b = buffer(4);
    int *x = a.at, total = 0;
    for (int i = 0; i < N; i++) total += x[i] = i % 97 - 40;
    struct given given[] = {STORAGE(&a), STORAGE(&b)};
    struct kernel sum = kernel("sum", given, 2, 4, NULL);
    uint32_t count = N;
    once(&sum, &count, sizeof count, 7, 1, 1);
    right("shared memory and barriers", *(int *)b.at == total);
    free_kernel(&sum);
    free_buffer(&a), free_buffer(&b);
}

static void product(void) {
    enum { N = 40 };
    struct buffer a = buffer(N * N * 4), b = buffer(N * N * 4), c = buffer(N * N * 4);
    float *x = a.at, *y = b.at, *z = c.at;
    for (int i = 0; i < N * N; i++) x[i] = i % 13 - 6, y[i] = i % 7 * 0.25f;
    struct given given[] = {STORAGE(&a), STORAGE(&b), STORAGE(&c)};
    struct kernel product = kernel("product", given, 3, 4, NULL);
    uint32_t side = N;
    once(&product, &side, sizeof side, N / 8, N / 8, 1);
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < N; k++) sum += x[i * N + k] * y[k * N + j];
            wrong += z[i * N + j] != sum;
        }
    }
    right("a product by tiles", wrong == 0);
    free_kernel(&product);
    free_buffer(&a), free_buffer(&b), free_buffer(&c);
}

static void half(void) {
    enum { N = 256 };
    if (!has_halves) return missing("halves");
    struct buffer a = buffer(N * 2), b = buffer(N * 2), c = buffer(N * 2);
    _Float16 *x = a.at, *y = b.at, *z = c.at;
    for (int i = 0; i < N; i++) x[i] = i % 32, y[i] = 1.5f - i % 5;
    struct given given[] = {STORAGE(&a), STORAGE(&b), STORAGE(&c)};
    struct kernel half = kernel("half", given, 3, 0, NULL);
    once(&half, NULL, 0, N / 64, 1, 1);
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        float product = (float)x[i] * (float)y[i];
        wrong += (float)z[i] != (product > 0.5f ? product : 0.5f) - (float)x[i];
    }
    right("halves", wrong == 0);
    free_kernel(&half);
    free_buffer(&a), free_buffer(&b), free_buffer(&c);
}

static void atomics(void) {
    enum { N = 256 };
    struct buffer a = buffer(32);
    uint32_t *all = a.at, wanted[8] = {0, ~0u, 0, ~0u};
    memcpy(all, wanted, sizeof wanted);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t value = i * 7 % 61 + 3;
        wanted[0] += i;
        if (value < wanted[1]) wanted[1] = value;
        if (value > wanted[2]) wanted[2] = value;
        wanted[3] &= ~(1u << i % 16);
        wanted[4] |= 1u << i % 32;
        wanted[5] ^= i;
    }
    wanted[6] = 17, wanted[7] = 23;
    struct given given[] = {STORAGE(&a)};
    struct kernel atomics = kernel("atomics", given, 1, 0, NULL);
    once(&atomics, NULL, 0, N / 64, 1, 1);
    right("atomics", memcmp(all, wanted, sizeof wanted) == 0);
    free_kernel(&atomics);
    free_buffer(&a);
}

static void constants(void) {
    enum { N = 96 };
    struct buffer a = buffer(N * 4);
    struct given given[] = {STORAGE(&a)};
    uint32_t values[] = {32, 5, VK_TRUE};
    VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}};
    VkSpecializationInfo info = {3, entries, sizeof values, values};
    struct kernel constants = kernel("constants", given, 1, 0, &info);
    once(&constants, NULL, 0, N / 32, 1, 1);
    int wrong = 0;
    for (uint32_t i = 0; i < N; i++) wrong += ((uint32_t *)a.at)[i] != i * 5 + 32;
    right("constants of a pipeline", wrong == 0);
    free_kernel(&constants);
    free_buffer(&a);
}

static void flow(void) {
    enum { N = 256 };
    struct buffer a = buffer(N * 4);
    struct given given[] = {STORAGE(&a)};
    struct kernel flow = kernel("flow", given, 1, 0, NULL);
    once(&flow, NULL, 0, N / 64, 1, 1);
    int wrong = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t n = i + 1, count = 0;
        while (n != 1) {
            n = n % 2 == 0 ? n / 2 : 3 * n + 1;
            if (++count == 100) {
                count = 1000 + n % 7;
                break;
            }
        }
        wrong += ((uint32_t *)a.at)[i] != (i % 5 == 3 ? i : count);
    }
    right("loops", wrong == 0);
    free_kernel(&flow);
    free_buffer(&a);
}

static void private(void) {
    enum { N = 256 };
    struct buffer a = buffer(N * 4), b = buffer(N * 4);
    uint32_t *x = a.at;
    for (uint32_t i = 0; i < N; i++) x[i] = i * i % 83;
    struct given given[] = {STORAGE(&a), STORAGE(&b)};
    struct kernel private = kernel("private", given, 2, 0, NULL);
    once(&private, NULL, 0, N / 64, 1, 1);
    int wrong = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t counts[40], best = 0;
        for (uint32_t k = 0; k < 40; k++) counts[k] = k % 3;
        for (uint32_t k = 0; k < 32; k++) counts[x[(i * 5 + k * k) % 256] % 40]++;
        for (uint32_t k = 0; k < 40; k++) best = counts[k] * 64 + k > best ? counts[k] * 64 + k : best;
        wrong += ((uint32_t *)b.at)[i] != best;
    }
    right("arrays of a fiber", wrong == 0);
    free_kernel(&private);
    free_buffer(&a), free_buffer(&b);
}

static void uniforms(void) {
    enum { N = 64 };
    struct buffer a = buffer(64 * 16), b = buffer(4096), c = buffer(N * 16);
    float *x = a.at, *y = b.at, *z = c.at;
    for (int i = 0; i < 256; i++) x[i] = i * 0.75f;
    for (int i = 0; i < 1024; i++) y[i] = 1000 + i;
    struct given given[] = {{VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, &a, VK_NULL_HANDLE, VK_NULL_HANDLE, 0},
                            {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, &b, VK_NULL_HANDLE, VK_NULL_HANDLE, 0},
                            {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, &c, VK_NULL_HANDLE, VK_NULL_HANDLE, 1}};
    struct kernel uniforms = kernel("uniforms", given, 3, 0, NULL);
    uint32_t offset = 512;
    VkCommandBuffer commands = record();
    dispatch(commands, &uniforms, NULL, 0, &offset);
    vkCmdDispatch(commands, N / 64, 1, 1);
    run(commands);
    int wrong = 0;
    for (int i = 0; i < N * 4; i++) wrong += z[i] != x[i / 4 * 7 % 64 * 4 + i % 4] + y[512 / 4 + i % 4];
    right("uniform buffers", wrong == 0);
    free_kernel(&uniforms);
    free_buffer(&a), free_buffer(&b), free_buffer(&c);
}

static int misplaced(const uint32_t *all) {
    int wrong = 0;
    for (uint32_t z = 0; z < 9; z++) {
        for (uint32_t y = 0; y < 10; y++) {
            for (uint32_t x = 0; x < 8; x++, all += 4) {
                uint32_t group = x / 4 | y / 2 << 8 | z / 3 << 16, local = x % 4 | y % 2 << 8 | z % 3 << 16;
                wrong += all[0] != group || all[1] != local || all[2] != z % 3 * 8 + y % 2 * 4 + x % 4;
                wrong += all[3] != (2 | 5 << 8 | 3 << 16);
            }
        }
    }
    return wrong;
}

static void groups(void) {
    struct buffer a = buffer(8 * 10 * 9 * 16), counts = buffer(64);
    struct given given[] = {STORAGE(&a)};
    struct kernel groups = kernel("groups", given, 1, 0, NULL);
    once(&groups, NULL, 0, 2, 5, 3);
    right("groups in three dimensions", misplaced(a.at) == 0);
    memset(a.at, 0, a.bytes);
    uint32_t from[] = {2, 5, 3};
    memcpy((char *)counts.at + 16, from, sizeof from);
    VkCommandBuffer commands = record();
    dispatch(commands, &groups, NULL, 0, NULL);
    vkCmdDispatchIndirect(commands, counts.buffer, 16);
    run(commands);
    right("a dispatch by memory", misplaced(a.at) == 0);
    free_kernel(&groups);
    free_buffer(&a), free_buffer(&counts);
}

static void subgroup(void) {
    struct buffer a = buffer(128 * 16), b = buffer(4);
    struct given given[] = {STORAGE(&a), STORAGE(&b)};
    struct kernel subgroup = kernel("subgroup", given, 2, 0, NULL);
    once(&subgroup, NULL, 0, 1, 1, 1);
    uint32_t *all = a.at, size = *(uint32_t *)b.at;
    int wrong = size < 2 || 128 % size != 0;
    for (uint32_t i = 0; i < 128 && !wrong; i++, all += 4) {
        uint32_t first = i / size * size;
        wrong = all[0] != (i ^ 3) || all[1] != (i ^ 1) || all[3] != (i % size << 16 | (i == first));
        wrong |= all[2] != (size / 2 | (first == 9 / size * size ? 1 << 16 : 0));
    }
    right("waves", wrong == 0);
    free_kernel(&subgroup);
    free_buffer(&a), free_buffer(&b);
}

static void address(void) {
    struct buffer a = buffer(1024), b = buffer(1024);
    for (uint32_t i = 0; i < 256; i++) ((uint32_t *)a.at)[i] = i * 77;
    VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = a.buffer};
    VkDeviceAddress push[2] = {vkGetBufferDeviceAddress(device, &info)};
    info.buffer = b.buffer;
    push[1] = vkGetBufferDeviceAddress(device, &info);
    struct kernel address = kernel("address", NULL, 0, sizeof push, NULL);
    once(&address, push, sizeof push, 4, 1, 1);
    int wrong = 0;
    for (uint32_t i = 0; i < 256; i++) wrong += ((uint32_t *)b.at)[i] != ((255 - i) * 77 ^ i);
    right("addresses", wrong == 0);
    free_kernel(&address);
    free_buffer(&a), free_buffer(&b);
}

static void math(void) {
    enum { N = 128 };
    struct buffer a = buffer(N * 4), b = buffer(N * 32);
    float *x = a.at, *y = b.at;
    for (int i = 0; i < N; i++) x[i] = 0.01f + i * 0.05f;
    struct given given[] = {STORAGE(&a), STORAGE(&b)};
    struct kernel math = kernel("math", given, 2, 0, NULL);
    once(&math, NULL, 0, N / 64, 1, 1);
    int wrong = 0;
    for (int i = 0; i < N; i++, y += 8) {
        float v = x[i], wanted[] = {sinf(v), cosf(v), expf(v), logf(v), sqrtf(v), 1 / sqrtf(v), v / 3.7f, powf(v, 1.5f)};
        // Vulkan: sin and cos within 2^-11, the others by ulps.
        for (int k = 0; k < 8; k++) wrong += !(fabsf(y[k] - wanted[k]) <= (k < 2 ? 1.0f / 2048 : 1e-5f * fabsf(wanted[k]) + 1e-5f));
    }
    right("functions", wrong == 0);
    free_kernel(&math);
    free_buffer(&a), free_buffer(&b);
}

static void wide(void) {
    enum { N = 128 };
    if (!has_shorts) return missing("numbers of 64 and 16 bits");
    struct buffer a = buffer(N * 8), b = buffer(N * 2);
    uint64_t *x = a.at, before[N];
    int16_t *y = b.at, small[N];
    for (int i = 0; i < N; i++) before[i] = x[i] = 0x123456789ull * (i + 1), small[i] = y[i] = i * 71;
    struct given given[] = {STORAGE(&a), STORAGE(&b)};
    struct kernel wide = kernel("wide", given, 2, 0, NULL);
    once(&wide, NULL, 0, N / 64, 1, 1);
    int wrong = 0;
    for (uint64_t i = 0; i < N; i++) {
        wrong += x[i] != before[i] * before[i] / (i + 3) + (i << 40);
        wrong += y[i] != (int16_t)(small[i] * 3 - (int)i) / 5;
    }
    right("numbers of 64 and 16 bits", wrong == 0);
    free_kernel(&wide);
    free_buffer(&a), free_buffer(&b);
}

void compute(void) {
    add(), sum(), product(), half(), atomics(), constants(), flow(), private(), uniforms(), groups(), subgroup(), address();
    math(), wide();
}
