// What `drivers_spec::nv::cubin` is tested on: sm_86.cubin is this file by NVRTC 12.9, sm_90.cubin and
// sm_120.cubin by NVRTC 13.5 (--std=c++17 --gpu-architecture=sm_...).
__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int counter = 7;
__device__ int *where = &counter;

extern "C" __global__ void __launch_bounds__(64) first(float *out, long long n, int at) {
  __shared__ float block[80];
  block[threadIdx.x] = table[at & 3];
  __syncthreads();
  out[threadIdx.x] = block[63 - threadIdx.x] + (float)n;
  if (threadIdx.x == 0) atomicAdd(where, 1);
}

extern "C" __global__ void second(unsigned *out, int by) {
  unsigned stack[32];
  for (int i = 0; i < 32; i++) stack[i] = out[i] * i;
  for (int i = 0; i < 32; i++) out[i] = stack[(i * by) & 31] + counter;
}
