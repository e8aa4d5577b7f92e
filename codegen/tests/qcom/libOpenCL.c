/* Stands in for the OpenCL of Qualcomm: one platform, one GPU. It compiles nothing. Files of FOLDER say what it answers:
 *   platform   the name of the platform
 *   version    the version of the device
 *   log        if there: programs do not build, and this is why
 *   hang       if there: builds do not end until it is gone
 *   asleep     if there: clGetPlatformIDs does not end until it is gone
 *   binary     what a program becomes
 * The source of the last program goes to FOLDER/source, and its options to FOLDER/options.
 *
 * Source: Khronos, "The OpenCL API Specification" 1.2. Numbers are those of CL/cl.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  DEVICE_NOT_FOUND = -1,
  BUILD_PROGRAM_FAILURE = -11,
  INVALID_VALUE = -30,
  INVALID_PLATFORM = -32,
  INVALID_DEVICE = -33,
  INVALID_CONTEXT = -34,
  INVALID_PROGRAM = -44,
  INVALID_PROPERTY = -64,
};

static char platform_[1], device_[1];
struct object { char kind; };

static void *file(const char *name, size_t *size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", FOLDER, name);
  FILE *in = fopen(path, "rb");
  if (!in) return NULL;
  char *bytes = malloc(1 << 22);
  *size = fread(bytes, 1, (1 << 22) - 1, in);
  bytes[*size] = 0;
  fclose(in);
  return bytes;
}

static void keep(const char *name, const void *bytes, size_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", FOLDER, name);
  FILE *out = fopen(path, "wb");
  if (!out) abort();
  fwrite(bytes, 1, size, out);
  fclose(out);
}

/* An answer of some bytes: a place that is too small is an error. */
static int32_t give(const void *bytes, size_t size, size_t room, void *to, size_t *needed) {
  if (to) {
    if (room < size) return INVALID_VALUE;
    memcpy(to, bytes, size);
  }
  if (needed) *needed = size;
  return 0;
}

static int32_t give_file(const char *name, size_t room, void *to, size_t *needed) {
  size_t size = 0;
  char *text = file(name, &size);
  if (!text) return INVALID_VALUE;
  int32_t done = give(text, size + 1, room, to, needed);
  free(text);
  return done;
}

static int32_t give_text(const char *text, size_t room, void *to, size_t *needed) {
  return give(text, strlen(text) + 1, room, to, needed);
}

int32_t clGetPlatformIDs(uint32_t room, void **to, uint32_t *count) {
  if (to && !room) return INVALID_VALUE;
  size_t size;
  for (char *asleep; (asleep = file("asleep", &size)); usleep(1000)) free(asleep);
  if (to) to[0] = platform_;
  if (count) *count = 1;
  return 0;
}

int32_t clGetPlatformInfo(void *of, uint32_t what, size_t room, void *to, size_t *needed) {
  if (of != platform_) return INVALID_PLATFORM;
  switch (what) {
  case 0x901: return give_text("OpenCL 2.0 stand-in", room, to, needed);
  case 0x902: return give_file("platform", room, to, needed);
  }
  return INVALID_VALUE;
}

int32_t clGetDeviceIDs(void *of, uint64_t type, uint32_t room, void **to, uint32_t *count) {
  if (of != platform_) return INVALID_PLATFORM;
  if (type != 4) return DEVICE_NOT_FOUND;
  if (to && !room) return INVALID_VALUE;
  if (to) to[0] = device_;
  if (count) *count = 1;
  return 0;
}

int32_t clGetDeviceInfo(void *of, uint32_t what, size_t room, void *to, size_t *needed) {
  if (of != device_) return INVALID_DEVICE;
  switch (what) {
  case 0x102d: return give_text("stand-in 1.0", room, to, needed);
  case 0x102f: return give_file("version", room, to, needed);
  }
  return INVALID_VALUE;
}

static void *made(char kind, int32_t *status) {
  struct object *one = malloc(sizeof *one);
  one->kind = kind;
  if (status) *status = 0;
  return one;
}

static void *none(int32_t why, int32_t *status) {
  if (status) *status = why;
  return NULL;
}

static int is(void *one, char kind) { return one && ((struct object *)one)->kind == kind; }

void *clCreateContext(const intptr_t *properties, uint32_t count, void *const *devices, const void *tell, void *data,
                      int32_t *status) {
  if (!properties || properties[0] != 0x1084 || properties[1] != (intptr_t)platform_ || properties[2])
    return none(INVALID_PROPERTY, status);
  if (count != 1 || devices[0] != device_) return none(INVALID_DEVICE, status);
  if (!tell && data) return none(INVALID_VALUE, status);
  return made('c', status);
}

int32_t clReleaseContext(void *context) {
  if (!is(context, 'c')) return INVALID_CONTEXT;
  free(context);
  return 0;
}

void *clCreateProgramWithSource(void *context, uint32_t count, const char *const *texts, const size_t *lengths,
                                int32_t *status) {
  if (!is(context, 'c')) return none(INVALID_CONTEXT, status);
  if (count != 1 || !texts || !texts[0]) return none(INVALID_VALUE, status);
  keep("source", texts[0], lengths && lengths[0] ? lengths[0] : strlen(texts[0]));
  return made('p', status);
}

int32_t clBuildProgram(void *program, uint32_t count, void *const *devices, const char *options, const void *tell,
                       void *data) {
  if (!is(program, 'p')) return INVALID_PROGRAM;
  if (count != 1 || devices[0] != device_) return INVALID_DEVICE;
  if (!tell && data) return INVALID_VALUE;
  keep("options", options ? options : "", options ? strlen(options) : 0);
  size_t size;
  for (char *hang; (hang = file("hang", &size)); usleep(1000)) free(hang);
  char *log = file("log", &size);
  free(log);
  return log ? BUILD_PROGRAM_FAILURE : 0;
}

int32_t clGetProgramBuildInfo(void *program, void *of, uint32_t what, size_t room, void *to, size_t *needed) {
  if (!is(program, 'p')) return INVALID_PROGRAM;
  if (of != device_) return INVALID_DEVICE;
  if (what != 0x1183) return INVALID_VALUE;
  return give_file("log", room, to, needed);
}

#ifndef WITHOUT_PROGRAM_INFO
int32_t clGetProgramInfo(void *program, uint32_t what, size_t room, void *to, size_t *needed) {
  if (!is(program, 'p')) return INVALID_PROGRAM;
  size_t size = 0;
  char *binary = file("binary", &size);
  if (!binary) return INVALID_VALUE;
  int32_t done = INVALID_VALUE;
  if (what == 0x1165) {
    done = give(&size, sizeof size, room, to, needed);
  } else if (what == 0x1166 && to && room >= sizeof(char *)) {
    memcpy(*(char **)to, binary, size);
    if (needed) *needed = sizeof(char *);
    done = 0;
  }
  free(binary);
  return done;
}
#endif

int32_t clReleaseProgram(void *program) {
  if (!is(program, 'p')) return INVALID_PROGRAM;
  free(program);
  return 0;
}
