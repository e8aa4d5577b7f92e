// An OpenCL program that knows nothing of simulated cards: one kernel after the other, each compared with the host. The argument
// is their code: a compiler in the program would need files of a whole installation.
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 70001, GROUP = 64, GROUPS = 32 };

static void check(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    printf("%s: error %d\n", what, error);
    exit(1);
}
#define DO(call) check((call), #call)

static cl_context context;
static cl_command_queue queue;
static cl_program program;

static cl_mem buffer(size_t bytes, const void *from) {
    cl_int error;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes, (void *)from, &error);
    check(error, "clCreateBuffer");
    return made;
}

static cl_kernel kernel(const char *name) {
    cl_int error;
    cl_kernel made = clCreateKernel(program, name, &error);
    check(error, name);
    return made;
}

static void right(const char *name, int is) {
    printf("%s %s\n", is ? "right" : "WRONG", name);
    if (!is) exit(1);
}

int main(int count, char **args) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    DO(clGetPlatformIDs(1, &platform, NULL));
    DO(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL));
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    cl_queue_properties profiled[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    queue = clCreateCommandQueueWithProperties(context, device, profiled, &error);
    check(error, "clCreateCommandQueueWithProperties");
    static unsigned char code[1 << 20];
    FILE *file = fopen(count > 1 ? args[1] : "", "rb");
    size_t bytes = file ? fread(code, 1, sizeof code, file) : 0;
    const unsigned char *binary = code;
    program = clCreateProgramWithBinary(context, 1, &device, &bytes, &binary, NULL, &error);
    check(error, "clCreateProgramWithBinary");
    DO(clBuildProgram(program, 1, &device, "", NULL, NULL));

    static float x[N], y[N], z[N];
    static int whole[N];
    int total = 0, n = N, wrong = 0;
    for (int i = 0; i < N; i++) x[i] = i * 0.5f, y[i] = 7 - i, total += whole[i] = i % 97 - 40;
    cl_mem a = buffer(sizeof x, x), b = buffer(sizeof y, y), c = buffer(sizeof z, NULL);
    cl_kernel add = kernel("add");
    DO(clSetKernelArg(add, 0, sizeof a, &a));
    DO(clSetKernelArg(add, 1, sizeof b, &b));
    DO(clSetKernelArg(add, 2, sizeof c, &c));
    DO(clSetKernelArg(add, 3, sizeof n, &n));
    size_t work = (N + 255) / 256 * 256, group = 256;
    cl_event ran, read;
    DO(clEnqueueNDRangeKernel(queue, add, 1, NULL, &work, &group, 0, NULL, &ran));
    DO(clEnqueueReadBuffer(queue, c, CL_FALSE, 0, sizeof z, z, 1, &ran, &read));
    DO(clWaitForEvents(1, &read));
    for (int i = 0; i < N; i++) wrong += z[i] != x[i] + y[i];
    right("add", wrong == 0);

    cl_ulong from, to;
    DO(clGetEventProfilingInfo(ran, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL));
    DO(clGetEventProfilingInfo(ran, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL));
    right("times", from != 0 && to > from);

    int zero = 0, all;
    cl_mem numbers = buffer(sizeof whole, whole), sum_of = buffer(sizeof zero, &zero);
    cl_kernel sum = kernel("sum");
    DO(clSetKernelArg(sum, 0, sizeof numbers, &numbers));
    DO(clSetKernelArg(sum, 1, sizeof sum_of, &sum_of));
    DO(clSetKernelArg(sum, 2, GROUP * sizeof(int), NULL));
    DO(clSetKernelArg(sum, 3, sizeof n, &n));
    work = GROUP * GROUPS, group = GROUP;
    DO(clEnqueueNDRangeKernel(queue, sum, 1, NULL, &work, &group, 0, NULL, NULL));
    DO(clEnqueueReadBuffer(queue, sum_of, CL_TRUE, 0, sizeof all, &all, 0, NULL, NULL));
    right("sum", all == total);

    int *mapped = clEnqueueMapBuffer(queue, numbers, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 16, 0, NULL, NULL, &error);
    check(error, "clEnqueueMapBuffer");
    int third = mapped[3];
    mapped[3] = 1234;
    DO(clEnqueueUnmapMemObject(queue, numbers, mapped, 0, NULL, NULL));
    right("map", third == whole[3]);

    double *shared = clSVMAlloc(context, CL_MEM_READ_WRITE, 100 * sizeof(double), 0), by = 3;
    DO(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_WRITE, shared, 100 * sizeof(double), 0, NULL, NULL));
    for (int i = 0; i < 100; i++) shared[i] = i;
    DO(clEnqueueSVMUnmap(queue, shared, 0, NULL, NULL));
    cl_kernel halve = kernel("halve");
    DO(clSetKernelArgSVMPointer(halve, 0, shared));
    DO(clSetKernelArg(halve, 1, sizeof by, &by));
    work = 100;
    DO(clEnqueueNDRangeKernel(queue, halve, 1, NULL, &work, NULL, 0, NULL, NULL));
    DO(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, shared, 100 * sizeof(double), 0, NULL, NULL));
    for (int i = 0; i < 100; i++) wrong += shared[i] != i / by;
    DO(clEnqueueSVMUnmap(queue, shared, 0, NULL, NULL));
    DO(clFinish(queue));
    clSVMFree(context, shared);
    right("shared", wrong == 0);

    // What waits for an event of the host runs once that is set.
    cl_event go = clCreateUserEvent(context, &error);
    check(error, "clCreateUserEvent");
    cl_mem turned = buffer(4 * 1000, NULL);
    cl_kernel turn = kernel("turn");
    DO(clSetKernelArg(turn, 0, sizeof numbers, &numbers));
    DO(clSetKernelArg(turn, 1, sizeof turned, &turned));
    work = 1000;
    DO(clEnqueueNDRangeKernel(queue, turn, 1, NULL, &work, NULL, 1, &go, &ran));
    DO(clFlush(queue));
    DO(clGetEventInfo(ran, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof error, &error, NULL));
    right("waits", error != CL_COMPLETE);
    DO(clSetUserEventStatus(go, CL_COMPLETE));
    static unsigned back[1000];
    DO(clEnqueueReadBuffer(queue, turned, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    // As it was mapped.
    whole[3] = 1234;
    for (int i = 0; i < 1000; i++) wrong += back[i] != __builtin_bswap32(whole[i]);
    right("turn", wrong == 0);
    DO(clReleaseCommandQueue(queue));
    DO(clReleaseContext(context));
    return 0;
}
