// A HIP program that knows nothing of simulated cards: adds vectors of the length that is named.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void add(const float *x, const float *y, float *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}

#define DO(call)                                                                       \
    do {                                                                               \
        hipError_t error = (call);                                                     \
        if (error != hipSuccess) {                                                     \
            printf("%s: %s\n", #call, hipGetErrorString(error));                       \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    size_t bytes = sizeof(float) * n;
    std::vector<float> x(n), y(n), z(n);
    for (int i = 0; i < n; i++) x[i] = i, y[i] = 2 * i + 1;
    float *a, *b, *c;
    DO(hipMalloc(&a, bytes));
    DO(hipMalloc(&b, bytes));
    DO(hipMalloc(&c, bytes));
    DO(hipMemcpy(a, x.data(), bytes, hipMemcpyHostToDevice));
    DO(hipMemcpy(b, y.data(), bytes, hipMemcpyHostToDevice));
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    DO(hipGetLastError());
    DO(hipMemcpy(z.data(), c, bytes, hipMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += z[i] != x[i] + y[i];
    DO(hipFree(a));
    DO(hipFree(b));
    DO(hipFree(c));
    printf("%d of %d are wrong\n", wrong, n);
    return wrong != 0;
}
