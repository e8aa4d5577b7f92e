// Programs: from source, from what was compiled before, from parts; and what is told of them.
#include "cl.h"
#include <unistd.h>

static enum found is_right(cl_program from, int wanted) {
    int x[64] = {0};
    cl_mem a = buffer(sizeof x, x);
    cl_kernel one = kernel_of(from, "one", 1, &a);
    run(one, 64, 0);
    read_all(a, sizeof x, x);
    DO(clReleaseKernel(one));
    DO(clReleaseMemObject(a));
    return x[0] == wanted && x[63] == wanted + 63;
}

static cl_program of_source(const char *text) {
    cl_int error;
    cl_program made = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    check(error, "clCreateProgramWithSource");
    return made;
}

static const char ONE[] = "#ifndef BY\n#define BY 3\n#endif\n"
                          "kernel void one(global int *a) { a[get_global_id(0)] = get_global_id(0) + BY; }\n";

static enum found options(void) {
    cl_program made = of_source(ONE);
    DO(clBuildProgram(made, 1, &device, "-DBY=11 -cl-fast-relaxed-math", NULL, NULL));
    enum found is = is_right(made, 11);
    DO(clReleaseProgram(made));
    return is;
}

static enum found binaries(void) {
    cl_int error, each;
    size_t bytes = 0;
    cl_program made = of_source(ONE);
    DO(clBuildProgram(made, 1, &device, "", NULL, NULL));
    DO(clGetProgramInfo(made, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL));
    unsigned char *binary = malloc(bytes);
    DO(clGetProgramInfo(made, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    DO(clReleaseProgram(made));
    made = clCreateProgramWithBinary(context, 1, &device, &bytes, (const unsigned char **)&binary, &each, &error);
    check(error, "clCreateProgramWithBinary");
    DO(clBuildProgram(made, 1, &device, "", NULL, NULL));
    enum found is = is_right(made, 3);
    DO(clReleaseProgram(made));
    free(binary);
    return is;
}

static enum found parts(void) {
    cl_int error;
    cl_program all[] = {of_source("#include \"by.h\"\nint more(int);\nkernel void one(global int *a) { int i = get_global_id(0); a[i] = more(i) + BY; }\n"),
                        of_source("int more(int i) { return i + 20; }\n")},
               header = of_source("#define BY 2\n");
    const char *name = "by.h";
    DO(clCompileProgram(all[0], 1, &device, "", 1, &header, &name, NULL, NULL));
    DO(clCompileProgram(all[1], 1, &device, "", 0, NULL, NULL, NULL, NULL));
    cl_program made = clLinkProgram(context, 1, &device, "", 2, all, NULL, NULL, &error);
    check(error, "clLinkProgram");
    enum found is = is_right(made, 22);
    for (int i = 0; i < 2; i++) DO(clReleaseProgram(all[i]));
    DO(clReleaseProgram(header));
    DO(clReleaseProgram(made));
    return is;
}

static enum found wrong(void) {
    static char log[1 << 13];
    cl_program made = of_source("kernel void one(global int *a) { a[0] = nothing; }\n");
    cl_int error = clBuildProgram(made, 1, &device, "", NULL, NULL);
    cl_build_status status;
    DO(clGetProgramBuildInfo(made, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
    DO(clGetProgramBuildInfo(made, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL));
    DO(clReleaseProgram(made));
    return error == CL_BUILD_PROGRAM_FAILURE && status == CL_BUILD_ERROR && strstr(log, "nothing") != NULL;
}

static enum found arguments(void) {
    cl_program made = of_source(ONE);
    DO(clBuildProgram(made, 1, &device, "-cl-kernel-arg-info", NULL, NULL));
    cl_kernel one = kernel_of(made, "one", 0, NULL);
    char name[16], type[16];
    cl_kernel_arg_address_qualifier where;
    size_t most, waves, group[3];
    cl_uint count;
    DO(clGetKernelArgInfo(one, 0, CL_KERNEL_ARG_NAME, sizeof name, name, NULL));
    DO(clGetKernelArgInfo(one, 0, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL));
    DO(clGetKernelArgInfo(one, 0, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL));
    DO(clGetKernelInfo(one, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL));
    DO(clGetKernelWorkGroupInfo(one, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL));
    DO(clGetKernelWorkGroupInfo(one, device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof waves, &waves, NULL));
    DO(clGetKernelWorkGroupInfo(one, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof group, group, NULL));
    DO(clReleaseKernel(one));
    DO(clReleaseProgram(made));
    return strcmp(name, "a") == 0 && strcmp(type, "int*") == 0 && where == CL_KERNEL_ARG_ADDRESS_GLOBAL && count == 1 && most > 0 &&
           waves > 0 && group[0] == 0;
}

static enum found again(void) {
    // A kernel has its own arguments, and a copy of it those of that time.
    cl_int error;
    int x[64] = {0}, by = 4;
    cl_mem a = buffer(sizeof x, x);
    cl_kernel first = kernel("added", 1, &a);
    DO(clSetKernelArg(first, 1, sizeof by, &by));
    cl_kernel second = clCloneKernel(first, &error);
    check(error, "clCloneKernel");
    by = 30;
    DO(clSetKernelArg(first, 1, sizeof by, &by));
    run(first, 64, 0);
    run(second, 64, 0);
    read_all(a, sizeof x, x);
    DO(clReleaseKernel(first));
    DO(clReleaseKernel(second));
    DO(clReleaseMemObject(a));
    return x[0] == 34 && x[63] == 34;
}

static enum found said(void) {
    int n = 40, pipes[2];
    char text[256] = {0};
    // What kernels say comes out of this process.
    fflush(stdout);
    int before = dup(1);
    if (before < 0 || pipe(pipes) != 0) return WRONG;
    dup2(pipes[1], 1);
    cl_kernel kernel_ = kernel("said", 0, NULL);
    DO(clSetKernelArg(kernel_, 0, sizeof n, &n));
    run(kernel_, 2, 1);
    DO(clFinish(queue));
    fflush(stdout);
    dup2(before, 1);
    close(pipes[1]);
    ssize_t bytes = read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    close(before);
    DO(clReleaseKernel(kernel_));
    return bytes > 0 && strstr(text, "said 40 words 2.50\n") && strstr(text, "said 41 words 2.50\n");
}

static enum found told(void) {
    cl_uint units, dimensions;
    cl_ulong memory, local;
    size_t most, sizes[3];
    cl_device_type type;
    DO(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, sizeof dimensions, &dimensions, NULL));
    DO(clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL));
    return type == CL_DEVICE_TYPE_GPU && units > 0 && memory > 1 << 20 && local >= 16384 && most >= 64 && dimensions == 3 &&
           sizes[0] >= 64;
}

const struct check programs[] = {
    {"what is told of the device", told}, {"options of a build", options}, {"a program that was compiled before", binaries},
    {"a program of parts", parts}, {"a program that is wrong", wrong}, {"what is told of a kernel", arguments},
    {"a kernel and its copy", again}, {"what kernels say", said}, {NULL, NULL},
};
