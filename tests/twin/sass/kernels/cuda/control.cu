// Branches by tables, recursion, calls through pointers, virtual functions, printing, early ends.

extern "C" __global__ void table(const int *in, int *out, int n, int mode) {
    int i = threadIdx.x, a = in[i], r = 0;
    switch (a) {
    case 0: r = in[i + 1] * 3; break;
    case 1: r = in[i + 2] / (n + 1); break;
    case 2: r = __popc(in[i + 3]); // falls through
    case 3: r += in[n]; break;
    case 4: r = min(in[i], n); break;
    case 5: r = a << n; break;
    case 6: out[i + 99] = 5; break;
    case 7: r = (int)sqrtf((float)a); break;
    case 8: return;
    case 9: r = atomicAdd(out, 1); break;
    case 10: __syncwarp(); break;
    case 11: r = in[in[i + 11]]; break;
    default: r = -1;
    }
    switch (mode) {
    case 0: r += 7; break;
    case 1: r *= in[5]; break;
    case 2: r = r / (in[6] | 1); break;
    case 3: r ^= n * 9; break;
    case 4: r = out[r & 15]; break;
    case 5: r = -r; break;
    case 6: r = __brev(r); break;
    }
    out[i] = r;
}

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ double fold(const double *x, int n, double (*f)(double, double)) {
    double r = x[0];
    for (int i = 1; i < n; i++) r = f(r, x[i]);
    return r;
}
__device__ double plus(double a, double b) { return a + b; }
__device__ double times(double a, double b) { return a * b; }
__device__ double (*const choices[])(double, double) = {plus, times};

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual void grow(float by) = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ float area() const override { return a * a; }
    __device__ void grow(float by) override { a += by; }
};
struct Disc : Shape {
    float r;
    __device__ Disc(float r) : r(r) {}
    __device__ float area() const override { return 3.14159f * r * r; }
    __device__ void grow(float by) override { r *= by; }
};

extern "C" __global__ void calls(const double *in, double *out, int n, int m) {
    int i = threadIdx.x;
    out[i] = fold(in + i, n, choices[(i ^ m) & 1]) + ackermann(m, i & 3);
    Shape *shape = (i & 1) ? (Shape *)new Square(n) : new Disc(m);
    shape->grow(in[i]);
    out[i] += shape->area();
    delete shape;
    if (i == n) printf("thread %d of %d: %f %s\n", i, blockDim.x, out[i], "done");
    assert(m != 77);
    if (m == 78) __trap();
    if (m == 79) __brkpt();
}

__device__ __noinline__ void quicksort(int *x, int low, int high) {
    if (low >= high) return;
    int pivot = x[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (x[i] < pivot) i++;
        while (x[j] > pivot) j--;
        if (i <= j) {
            int t = x[i];
            x[i++] = x[j];
            x[j--] = t;
        }
    }
    quicksort(x, low, j);
    quicksort(x, i, high);
}

extern "C" __global__ void loops(int *x, float *f, int n) {
    quicksort(x + threadIdx.x * n, 0, n - 1);
    float a = f[threadIdx.x];
    int steps = 0;
    while (a > 1e-3f && steps < 1000) {
        if (f[steps] > a) { a -= f[steps]; continue; }
        if (f[steps] == a) goto out;
        for (int i = 0; i < (steps & 7); i++)
            if ((a *= 0.9f) < f[i]) break;
        steps++;
    }
    do { a += 1; } while (__any_sync(~0u, a < f[0]));
out:
    f[threadIdx.x] = a + steps;
    if (threadIdx.x & 1) return;
    for (unsigned t = clock(); clock() - t < 100;) __nanosleep(20);
    f[threadIdx.x + n] = clock64() + (float)x[0];
}

extern "C" __global__ void __launch_bounds__(128, 4) bounded(float *x, long long n) {
    float v[24];
#pragma unroll
    for (int i = 0; i < 24; i++) v[i] = x[threadIdx.x + i * n];
    for (int k = 0; k < 9; k++)
#pragma unroll
        for (int i = 0; i < 24; i++) v[i] = v[i] * v[(i + 1) % 24] + v[(i + 5) % 24];
#pragma unroll
    for (int i = 0; i < 24; i++) x[threadIdx.x + i * n] = v[i];
}
