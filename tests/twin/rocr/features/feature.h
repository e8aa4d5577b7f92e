// What the features share. Each is a function that throws Wrong, and is told to main by FEATURE(its name).
#pragma once
#include <hip/hip_runtime.h>

#include <string>
#include <vector>

using std::string;
using std::vector;

struct Wrong {
    string why;
};

inline void must(hipError_t error, const char *call) {
    if (error != hipSuccess) throw Wrong{string(call) + ": " + hipGetErrorString(error)};
}
#define DO(call) must((call), #call)

inline void equal(bool same, const char *what) {
    if (!same) throw Wrong{what};
}
#define SAME(test) equal((test), #test)

constexpr int N = 10007;

static __global__ void scale(int *x, int n, int by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
inline dim3 blocks(int n) { return dim3((n + 255) / 256); }

template <class T> struct Device {
    T *at = nullptr;
    explicit Device(size_t n) { DO(hipMalloc(&at, n * sizeof(T))); }
    explicit Device(const vector<T> &from) : Device(from.size()) {
        DO(hipMemcpy(at, from.data(), from.size() * sizeof(T), hipMemcpyHostToDevice));
    }
    ~Device() { (void)hipFree(at); }
    vector<T> get(size_t n) {
        vector<T> out(n);
        DO(hipMemcpy(out.data(), at, n * sizeof(T), hipMemcpyDeviceToHost));
        return out;
    }
};

inline vector<int> numbers(int n) {
    vector<int> all(n);
    for (int i = 0; i < n; i++) all[i] = i * 7 - 3;
    return all;
}
inline bool scaled(const vector<int> &x, int by) {
    for (size_t i = 0; i < x.size(); i++)
        if (x[i] != (int(i) * 7 - 3) * by) return false;
    return true;
}

struct Feature {
    const char *name;
    void (*run)();
    Feature *next;

    Feature(const char *name, void (*run)()) : name(name), run(run), next(first) { first = this; }
    static Feature *first;
};
#define FEATURE(name) static Feature name##_feature(#name, name)
