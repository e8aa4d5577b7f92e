// What kernels call of OpenCL C, for the processor: definitions of what the compiler declares.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define AGAIN __attribute__((overloadable))

#define READ(t, n, space)                                 \
  t##n AGAIN vload##n(size_t i, const space t *from) {    \
    t##n v;                                               \
    for (int k = 0; k < n; k++) v[k] = from[i * n + k];   \
    return v;                                             \
  }
#define WRITE(t, n, space)                                \
  void AGAIN vstore##n(t##n v, size_t i, space t *to) {   \
    for (int k = 0; k < n; k++) to[i * n + k] = v[k];     \
  }
#define BOTH(t, n) READ(t, n, __global) READ(t, n, __local) WRITE(t, n, __global) WRITE(t, n, __local)
#define EACH(t) BOTH(t, 2) BOTH(t, 4) BOTH(t, 8) BOTH(t, 16)
EACH(char) EACH(uchar) EACH(short) EACH(ushort) EACH(int) EACH(uint) EACH(long) EACH(ulong) EACH(half) EACH(float)

half AGAIN convert_half_rte(float x) { return (half)x; }
float AGAIN mad(float a, float b, float c) { return a * b + c; }
float AGAIN fabs(float x) { return __builtin_fabsf(x); }
float AGAIN sqrt(float x) { return __builtin_sqrtf(x); }
float AGAIN trunc(float x) { return __builtin_truncf(x); }
float AGAIN floor(float x) { return __builtin_floorf(x); }
float AGAIN ceil(float x) { return __builtin_ceilf(x); }
float AGAIN rint(float x) { return __builtin_roundevenf(x); }

// One work-item runs at a time.
#define STEP(t, name, value)                                  \
  t AGAIN atomic_##name(volatile __global t *at, t with) {    \
    t old = *at;                                              \
    *at = value;                                              \
    return old;                                               \
  }
#define STEPS(t)                                                                                            \
  STEP(t, add, old + with) STEP(t, or, old | with) STEP(t, and, old & with) STEP(t, min, old < with ? old : with) \
  STEP(t, max, old > with ? old : with)                                                                     \
  t AGAIN atomic_cmpxchg(volatile __global t *at, t seen, t with) {                                         \
    t old = *at;                                                                                            \
    if (old == seen) *at = with;                                                                            \
    return old;                                                                                             \
  }
STEPS(int)
STEPS(uint)
