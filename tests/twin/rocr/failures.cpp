// HIP programs that fail on purpose: the argument says how. Each ends by what the runtime makes of it.
#include <hip/hip_runtime.h>

#include <cassert>
#include <cstdio>
#include <cstring>

__global__ void touch(int *x) { x[threadIdx.x] = 1; }
__global__ void trap(int *x) {
    if (threadIdx.x == 3) __builtin_trap();
    x[threadIdx.x] = 1;
}
__global__ void give_up(int *x) {
    if (x[threadIdx.x] == 0) abort();
    x[threadIdx.x] = 1;
}
__global__ void check(int *x) {
    assert(x[threadIdx.x] != 0);
    x[threadIdx.x] = 1;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int *x;
    if (hipMalloc(&x, 4096) != hipSuccess || hipMemset(x, 0, 4096) != hipSuccess) return 2;
    if (!strcmp(how, "fault"))
        touch<<<1, 64>>>(reinterpret_cast<int *>(0x10000));
    else if (!strcmp(how, "trap"))
        trap<<<1, 64>>>(x);
    else if (!strcmp(how, "abort"))
        give_up<<<1, 64>>>(x);
    else if (!strcmp(how, "assertion"))
        check<<<1, 64>>>(x);
    else
        return 2;
    hipError_t error = hipDeviceSynchronize();
    printf("came back with: %s\n", hipGetErrorString(error));
    return 0;
}
