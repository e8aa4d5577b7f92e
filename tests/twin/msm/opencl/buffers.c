// Memory: how it is made, copied, filled and mapped.
#include "cl.h"

enum { N = 1000 };

static enum found written(void) {
    int x[N], y[N], wrong = 0;
    for (int i = 0; i < N; i++) x[i] = i * 3;
    cl_mem a = buffer(sizeof x, NULL);
    DO(clEnqueueWriteBuffer(queue, a, CL_FALSE, 0, sizeof x, x, 0, NULL, NULL));
    cl_kernel twice = kernel("twice", 1, &a);
    run(twice, N, 0);
    read_all(a, sizeof y, y);
    for (int i = 0; i < N; i++) wrong += y[i] != x[i] * 2;
    DO(clReleaseKernel(twice));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found part(void) {
    int x[N], y[N], wrong = 0;
    cl_int error;
    cl_uint align;
    for (int i = 0; i < N; i++) x[i] = i;
    DO(clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align, &align, NULL));
    size_t from = align / 8 > 256 ? align / 8 : 256;
    cl_mem a = buffer(sizeof x, x);
    cl_buffer_region region = {from, 400};
    cl_mem part = clCreateSubBuffer(a, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    check(error, "clCreateSubBuffer");
    cl_kernel twice = kernel("twice", 1, &part);
    run(twice, 100, 0);
    read_all(a, sizeof y, y);
    int first = (int)from / 4;
    for (int i = 0; i < N; i++) wrong += y[i] != (i >= first && i < first + 100 ? i * 2 : i);
    DO(clReleaseKernel(twice));
    DO(clReleaseMemObject(part));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found of_the_host(void) {
    static int x[4096] __attribute__((aligned(4096)));
    int wrong = 0;
    cl_int error;
    for (int i = 0; i < 4096; i++) x[i] = i;
    cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, sizeof x, x, &error);
    check(error, "clCreateBuffer");
    cl_kernel twice = kernel("twice", 1, &a);
    run(twice, 4096, 64);
    int *seen = clEnqueueMapBuffer(queue, a, CL_TRUE, CL_MAP_READ, 0, sizeof x, 0, NULL, NULL, &error);
    check(error, "clEnqueueMapBuffer");
    for (int i = 0; i < 4096; i++) wrong += seen != x || x[i] != i * 2;
    DO(clEnqueueUnmapMemObject(queue, a, seen, 0, NULL, NULL));
    DO(clFinish(queue));
    DO(clReleaseKernel(twice));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found mapped(void) {
    cl_int error;
    int y[N], wrong = 0;
    cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, sizeof y, NULL, &error);
    check(error, "clCreateBuffer");
    int *at = clEnqueueMapBuffer(queue, a, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, sizeof y, 0, NULL, NULL, &error);
    check(error, "clEnqueueMapBuffer");
    for (int i = 0; i < N; i++) at[i] = i + 7;
    DO(clEnqueueUnmapMemObject(queue, a, at, 0, NULL, NULL));
    cl_kernel twice = kernel("twice", 1, &a);
    run(twice, N, 0);
    at = clEnqueueMapBuffer(queue, a, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 400, 800, 0, NULL, NULL, &error);
    check(error, "clEnqueueMapBuffer");
    for (int i = 0; i < 200; i++) {
        wrong += at[i] != (i + 107) * 2;
        at[i] = -i;
    }
    DO(clEnqueueUnmapMemObject(queue, a, at, 0, NULL, NULL));
    read_all(a, sizeof y, y);
    for (int i = 0; i < N; i++) wrong += y[i] != (i >= 100 && i < 300 ? 100 - i : (i + 7) * 2);
    DO(clReleaseKernel(twice));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found filled(void) {
    uint8_t y[4096];
    int wrong = 0;
    cl_mem a = buffer(sizeof y, NULL);
    uint8_t one = 0x5a;
    uint32_t four[4] = {1, 2, 3, 4};
    DO(clEnqueueFillBuffer(queue, a, &one, 1, 0, sizeof y, 0, NULL, NULL));
    DO(clEnqueueFillBuffer(queue, a, four, sizeof four, 1024, 512, 0, NULL, NULL));
    DO(clEnqueueFillBuffer(queue, a, four + 2, 4, 2048, 16, 0, NULL, NULL));
    read_all(a, sizeof y, y);
    for (int i = 0; i < 4096; i++) {
        uint8_t wanted = 0x5a;
        if (i >= 1024 && i < 1536) wanted = ((uint8_t *)four)[i % 16];
        if (i >= 2048 && i < 2064) wanted = ((uint8_t *)(four + 2))[i % 4];
        wrong += y[i] != wanted;
    }
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found copied(void) {
    uint8_t x[8192], y[8192];
    for (int i = 0; i < 8192; i++) x[i] = (uint8_t)(i * 7 + i / 256), y[i] = 0xee;
    cl_mem a = buffer(sizeof x, x), b = buffer(sizeof y, y);
    DO(clEnqueueCopyBuffer(queue, a, b, 0, 4096, 1024, 0, NULL, NULL));
    DO(clEnqueueCopyBuffer(queue, a, b, 77, 5201, 333, 0, NULL, NULL));
    memcpy(y + 4096, x, 1024), memcpy(y + 5201, x + 77, 333);
    uint8_t z[8192];
    read_all(b, sizeof z, z);
    DO(clReleaseMemObject(a));
    DO(clReleaseMemObject(b));
    return memcmp(y, z, sizeof y) == 0;
}

static enum found rectangles(void) {
    enum { W = 64, H = 16 };
    uint8_t x[W * H * 4], y[W * H * 4], z[W * H * 4], back[24 * 5];
    int wrong = 0;
    for (int i = 0; i < W * H * 4; i++) x[i] = (uint8_t)(i * 13), y[i] = 1;
    cl_mem a = buffer(sizeof x, x), b = buffer(sizeof y, y);
    size_t from[] = {8, 3, 1}, to[] = {16, 2, 0}, region[] = {24, 5, 2}, zero[] = {0, 0, 0}, one[] = {24, 5, 1};
    DO(clEnqueueCopyBufferRect(queue, a, b, from, to, region, W, W * H, W, W * H, 0, NULL, NULL));
    for (size_t k = 0; k < 2; k++) {
        for (size_t j = 0; j < 5; j++) memcpy(y + (k * H + 2 + j) * W + 16, x + ((k + 1) * H + 3 + j) * W + 8, 24);
    }
    DO(clEnqueueWriteBufferRect(queue, b, CL_TRUE, from, zero, one, W, W * H, 24, 0, x, 0, NULL, NULL));
    for (size_t j = 0; j < 5; j++) memcpy(y + (H + 3 + j) * W + 8, x + j * 24, 24);
    read_all(b, sizeof z, z);
    wrong += memcmp(y, z, sizeof y) != 0;
    DO(clEnqueueReadBufferRect(queue, a, CL_TRUE, from, zero, one, W, W * H, 24, 0, back, 0, NULL, NULL));
    for (size_t j = 0; j < 5; j++) wrong += memcmp(back + j * 24, x + (H + 3 + j) * W + 8, 24) != 0;
    DO(clReleaseMemObject(a));
    DO(clReleaseMemObject(b));
    return wrong == 0;
}

static enum found moved(void) {
    int x[64] = {5}, y[64] = {0};
    cl_mem a = buffer(sizeof x, x);
    cl_event done;
    DO(clEnqueueMigrateMemObjects(queue, 1, &a, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, &done));
    DO(clEnqueueMigrateMemObjects(queue, 1, &a, 0, 1, &done, NULL));
    read_all(a, sizeof y, y);
    size_t bytes;
    cl_uint uses;
    DO(clGetMemObjectInfo(a, CL_MEM_SIZE, sizeof bytes, &bytes, NULL));
    DO(clGetMemObjectInfo(a, CL_MEM_REFERENCE_COUNT, sizeof uses, &uses, NULL));
    DO(clReleaseEvent(done));
    DO(clReleaseMemObject(a));
    return memcmp(x, y, sizeof x) == 0 && bytes == sizeof x && uses == 1;
}

static enum found shared(void) {
    cl_device_svm_capabilities can = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof can, &can, NULL) != CL_SUCCESS ||
        !(can & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER))
        return NOT_THERE;
    int *at = clSVMAlloc(context, CL_MEM_READ_WRITE, N * sizeof *at, 0), wrong = 0;
    if (!at) return WRONG;
    DO(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, at, N * sizeof *at, 0, NULL, NULL));
    for (int i = 0; i < N; i++) at[i] = i;
    DO(clEnqueueSVMUnmap(queue, at, 0, NULL, NULL));
    cl_kernel twice = kernel("twice", 0, NULL);
    DO(clSetKernelArgSVMPointer(twice, 0, at));
    run(twice, N, 0);
    DO(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, at, N * sizeof *at, 0, NULL, NULL));
    for (int i = 0; i < N; i++) wrong += at[i] != i * 2;
    DO(clEnqueueSVMUnmap(queue, at, 0, NULL, NULL));
    DO(clFinish(queue));
    clSVMFree(context, at);
    DO(clReleaseKernel(twice));
    return wrong == 0;
}

const struct check buffers[] = {
    {"a buffer that is written and read", written}, {"a part of a buffer", part}, {"a buffer in memory of the host", of_the_host},
    {"a buffer that is mapped", mapped}, {"fills", filled}, {"copies", copied}, {"rectangles", rectangles},
    {"memory that is moved", moved}, {"shared virtual memory", shared}, {NULL, NULL},
};
