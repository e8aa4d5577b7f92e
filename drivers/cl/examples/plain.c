// The calls of `cl_submit.rs` by a plain program. Without headers: what is used is declared here, as in CL/cl.h.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct object *Object;
int clGetPlatformIDs(unsigned, Object *, unsigned *);
int clGetDeviceIDs(Object, unsigned long, unsigned, Object *, unsigned *);
Object clCreateContext(const long *, unsigned, const Object *, void *, void *, int *);
Object clCreateCommandQueue(Object, Object, unsigned long, int *);
Object clCreateBuffer(Object, unsigned long, size_t, void *, int *);
Object clCreateProgramWithSource(Object, unsigned, const char **, const size_t *, int *);
int clBuildProgram(Object, unsigned, const Object *, const char *, void *, void *);
Object clCreateKernel(Object, const char *, int *);
int clSetKernelArg(Object, unsigned, size_t, const void *);
int clEnqueueNDRangeKernel(Object, Object, unsigned, const size_t *, const size_t *, const size_t *, unsigned, const Object *, Object *);
int clEnqueueWriteBuffer(Object, Object, unsigned, size_t, size_t, const void *, unsigned, const Object *, Object *);
int clFinish(Object);

static const char *source =
    "__attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "__kernel void start(__global uint *data, const long value) {\n"
    "  data[get_global_id(0)] = data[get_global_id(0)] * 3 + (uint)value;\n"
    "}\n";

static void check(int status, const char *what) {
  if (status) {
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
  }
}

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000l + t.tv_nsec;
}

static Object queue, kernel, device;
static const size_t all = 64 * 64, group = 64;

static void launch(void) {
  // Arguments are set for each launch, as a program with several buffers does.
  long value = 1;
  check(clSetKernelArg(kernel, 1, sizeof value, &value), "clSetKernelArg");
  check(clEnqueueNDRangeKernel(queue, kernel, 1, 0, &all, &group, 0, 0, 0), "clEnqueueNDRangeKernel");
}

int main(void) {
  int status;
  Object platform;
  check(clGetPlatformIDs(1, &platform, 0), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, 0xffffffff, 1, &device, 0), "clGetDeviceIDs");
  Object context = clCreateContext(0, 1, &device, 0, 0, &status);
  check(status, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &status);
  check(status, "clCreateCommandQueue");
  Object program = clCreateProgramWithSource(context, 1, &source, 0, &status);
  check(status, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, "-cl-std=CL1.2", 0, 0), "clBuildProgram");
  kernel = clCreateKernel(program, "start", &status);
  check(status, "clCreateKernel");
  Object data = clCreateBuffer(context, 1, all * 4, 0, &status);
  check(status, "clCreateBuffer");
  check(clSetKernelArg(kernel, 0, sizeof data, &data), "clSetKernelArg");
  const size_t bytes = 64 << 20;
  Object to = clCreateBuffer(context, 1, bytes, 0, &status);
  check(status, "clCreateBuffer");
  char *from = calloc(bytes, 1);
  if (!from) return 1;
  for (size_t i = 0; i < bytes; i += 4096) from[i] = 1;
  long one = 1l << 62, many = one, copied = one;
  for (int i = 0; i < 2000; i++) {
    long start = now();
    launch();
    check(clFinish(queue), "clFinish");
    if (now() - start < one) one = now() - start;
  }
  for (int i = 0; i < 50; i++) {
    long start = now();
    for (int k = 0; k < 100; k++) launch();
    check(clFinish(queue), "clFinish");
    if (now() - start < many) many = now() - start;
  }
  for (int i = 0; i < 20; i++) {
    long start = now();
    check(clEnqueueWriteBuffer(queue, to, 1, 0, bytes, from, 0, 0, 0), "clEnqueueWriteBuffer");
    if (now() - start < copied) copied = now() - start;
  }
  printf("%ld ns for a launch and its end\n", one);
  printf("%ld ns for each of 100 launches and their end\n", many / 100);
  printf("%ld ns for 64 MB to the device\n", copied);
}
