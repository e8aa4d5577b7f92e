// An OpenCL device, with what checks of it need.
#pragma once
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern cl_context context;
extern cl_device_id device;
extern cl_command_queue queue;
extern cl_program program;
extern const char *source;

// Ends the program where a call fails.
void check(cl_int error, const char *what);
#define DO(call) check((call), #call)

cl_mem buffer(size_t bytes, const void *from);
// A kernel of a program, with memory as its arguments.
cl_kernel kernel_of(cl_program from, const char *name, size_t count, const cl_mem *given);
cl_kernel kernel(const char *name, size_t count, const cl_mem *given);
void run(cl_kernel kernel, size_t work, size_t group);
void read_all(cl_mem from, size_t bytes, void *to);
// Whether the device says so; memory for its text is the caller's.
int has(const char *extension);

// What a check found.
enum found { WRONG, RIGHT, NOT_THERE };
struct check {
    const char *name;
    enum found (*run)(void);
};
extern const struct check buffers[], kernels[], images[], queues[], programs[];
#define COUNT(array) (sizeof(array) / sizeof(array)[0])
