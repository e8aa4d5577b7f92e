// An OpenCL program that knows nothing of simulated GPUs: one check after the other, each compared with the host. The argument is
// the file of kernels; others are the checks that are made, by a part of their names.
#include "cl.h"

cl_context context;
cl_device_id device;
cl_command_queue queue;
cl_program program;
const char *source;

void check(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    printf("%s: error %d\n", what, error);
    exit(1);
}

cl_mem buffer(size_t bytes, const void *from) {
    cl_int error;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0), bytes, (void *)from, &error);
    check(error, "clCreateBuffer");
    return made;
}

cl_kernel kernel_of(cl_program from, const char *name, size_t count, const cl_mem *given) {
    cl_int error;
    cl_kernel made = clCreateKernel(from, name, &error);
    check(error, name);
    for (size_t i = 0; i < count; i++) DO(clSetKernelArg(made, (cl_uint)i, sizeof *given, &given[i]));
    return made;
}

cl_kernel kernel(const char *name, size_t count, const cl_mem *given) { return kernel_of(program, name, count, given); }

void run(cl_kernel kernel, size_t work, size_t group) {
    DO(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &work, group > 0 ? &group : NULL, 0, NULL, NULL));
}

void read_all(cl_mem from, size_t bytes, void *to) { DO(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, bytes, to, 0, NULL, NULL)); }

int has(const char *extension) {
    static char all[1 << 13];
    DO(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof all, all, NULL));
    return strstr(all, extension) != NULL;
}

static char *text(const char *path) {
    static char all[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(all, 1, sizeof all - 1, file) : 0;
    if (bytes == 0) {
        printf("%s: expected kernels\n", path);
        exit(1);
    }
    fclose(file);
    return all;
}

static void begin(const char *path) {
    cl_platform_id platform;
    cl_int error;
    char name[256], version[256];
    DO(clGetPlatformIDs(1, &platform, NULL));
    DO(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL));
    printf("device %s, %s\n", name, version);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check(error, "clCreateContext");
    cl_queue_properties profiled[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    queue = clCreateCommandQueueWithProperties(context, device, profiled, &error);
    check(error, "clCreateCommandQueueWithProperties");
    source = text(path);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    check(error, "clCreateProgramWithSource");
    error = clBuildProgram(program, 1, &device, "-cl-std=CL3.0", NULL, NULL);
    if (error != CL_SUCCESS) {
        static char log[1 << 14];
        DO(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
        printf("%s\n", log);
        check(error, "clBuildProgram");
    }
}

// Whether a word wants a check: a part of its name, or `N/K`, one in K of each kind.
static int wants(const char *word, const char *name, size_t number) {
    unsigned part, of;
    if (sscanf(word, "%u/%u", &part, &of) == 2 && of > 0) return number % of == part % of;
    return strstr(name, word) != NULL;
}

int main(int count, char **words) {
    const struct check *all[] = {buffers, kernels, images, queues, programs};
    static const char *const said[] = {"WRONG", "right", "not there:"};
    int found[3] = {0};
    if (count < 2) {
        printf("expected a file of kernels\n");
        return 2;
    }
    begin(words[1]);
    for (size_t i = 0; i < COUNT(all); i++) {
        for (const struct check *one = all[i]; one->name; one++) {
            int wanted = count == 2;
            for (int k = 2; k < count; k++) wanted |= wants(words[k], one->name, (size_t)(one - all[i]));
            if (!wanted) continue;
            enum found is = one->run();
            printf("%s %s\n", said[is], one->name);
            fflush(stdout);
            found[is]++;
        }
    }
    DO(clReleaseProgram(program));
    DO(clReleaseCommandQueue(queue));
    DO(clReleaseContext(context));
    printf("%d are right, %d are wrong, %d are not there\n", found[RIGHT], found[WRONG], found[NOT_THERE]);
    return found[WRONG] > 0;
}
