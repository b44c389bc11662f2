// The mathematical functions of the device, and the ways in which functions are called.

#include <cassert>
#include <cstdio>

template <typename T, typename Function>
__device__ void map(const T* a, const T* b, T* out, int n, Function function) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = function(a[i], b[i]);
}

extern "C" {

__global__ void double_sin(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return sin(x); });
}
__global__ void double_cos(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return cos(x); });
}
__global__ void double_exp(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return exp(x); });
}
__global__ void double_log(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return log(x); });
}
__global__ void double_pow(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double y) { return pow(x, y); });
}
__global__ void double_lgamma(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return lgamma(x); });
}
__global__ void double_erf(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return erf(x); });
}
__global__ void double_tanh(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return tanh(x); });
}
__global__ void double_rsqrt(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return rsqrt(x); });
}
__global__ void double_log1p(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return log1p(x); });
}
__global__ void double_expm1(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double) { return expm1(x); });
}
__global__ void double_atan2(const double* a, const double* b, double* out, int n) {
  map(a, b, out, n, [](double x, double y) { return atan2(x, y); });
}
__global__ void float_sin(const float* a, const float* b, float* out, int n) {
  map(a, b, out, n, [](float x, float) { return sinf(x); });
}
__global__ void float_exp(const float* a, const float* b, float* out, int n) {
  map(a, b, out, n, [](float x, float) { return expf(x); });
}
__global__ void float_log(const float* a, const float* b, float* out, int n) {
  map(a, b, out, n, [](float x, float) { return logf(x); });
}
__global__ void float_pow(const float* a, const float* b, float* out, int n) {
  map(a, b, out, n, [](float x, float y) { return powf(x, y); });
}
__global__ void float_lgamma(const float* a, const float* b, float* out, int n) {
  map(a, b, out, n, [](float x, float) { return lgammaf(x); });
}
__global__ void float_erf(const float* a, const float* b, float* out, int n) {
  map(a, b, out, n, [](float x, float) { return erff(x); });
}
}

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ void reverse(int* values, int n) {
  for (int i = 0; i < n / 2; ++i) {
    const int value = values[i];
    values[i] = values[n - 1 - i];
    values[n - 1 - i] = value;
  }
}

__device__ int plus_one(int a) { return a + 1; }
__device__ int twice(int a) { return 2 * a; }
__device__ int (*const table[2])(int) = {plus_one, twice};
__constant__ float weights[4] = {1, 2, 3, 4};
__device__ int total = 7;

struct Vector {
  int values[6];
};

extern "C" {

__global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 12); }

__global__ void local_array(const int* in, int* out) {
  int values[8];
  for (int i = 0; i < 8; ++i) values[i] = in[i] + threadIdx.x;
  reverse(values, 8 - threadIdx.x % 2);
  for (int i = 0; i < 8; ++i) out[8 * threadIdx.x + i] = values[i];
}

__global__ void pointers(int* out) { out[threadIdx.x] = table[threadIdx.x % 2](threadIdx.x); }

__global__ void by_value(Vector v, int* out) { out[threadIdx.x] = v.values[threadIdx.x % 6]; }

__global__ void variables(float* out) { out[threadIdx.x] = weights[threadIdx.x % 4] + total; }

__global__ void many_ways(int* data) {
  int x = data[threadIdx.x];
  switch (x % 8) {
    case 0:
      x *= 3;
      break;
    case 1:
      x += 7;
      break;
    case 2:
      x ^= 9;
      break;
    case 3:
      x -= data[threadIdx.x] / 3;
      break;
    case 4:
      x /= 3;
      break;
    case 5:
      x %= 7;
      break;
    case 6:
      x = x * x + 1;
      break;
    default:
      x = -x;
  }
  data[threadIdx.x] = x;
}

__global__ void prints(int n) {
  if (threadIdx.x == 2) printf("n = %d, %5.2f, %s, %c%%\n", n, 1.5, "text", 'c');
}

__global__ void asserts(int n) { assert(static_cast<int>(threadIdx.x) < n); }
}
