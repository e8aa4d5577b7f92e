// Products of matrices by AMD's rocBLAS, singles and halves, plain and transposed, compared with the host's.
// Prints "right" with the sizes, or what is wrong.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// What is used of HIP and rocBLAS; their headers need all of hipcc.
typedef void *Handle;
int hipMalloc(void **at, size_t bytes);
int hipFree(void *at);
int hipMemcpy(void *to, const void *from, size_t bytes, int kind);
int rocblas_create_handle(Handle *handle);
int rocblas_destroy_handle(Handle handle);
int rocblas_sgemm(Handle, int trans_a, int trans_b, int m, int n, int k, const float *alpha, const float *a, int lda,
                  const float *b, int ldb, const float *beta, float *c, int ldc);
int rocblas_hgemm(Handle, int trans_a, int trans_b, int m, int n, int k, const _Float16 *alpha, const _Float16 *a,
                  int lda, const _Float16 *b, int ldb, const _Float16 *beta, _Float16 *c, int ldc);
enum { TO_DEVICE = 1, TO_HOST = 2, PLAIN = 111, TRANSPOSED = 112 };

#define DO(call)                                                                                                       \
    do {                                                                                                               \
        int status_ = (call);                                                                                          \
        if (status_) {                                                                                                 \
            printf("wrong: %s: %d\n", #call, status_);                                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static unsigned state = 12345;
// -2 to 2: sums of a hundred products are exact in halves, too, in any order.
static int number(void) {
    state = state * 1103515245 + 12345;
    return (int)(state >> 16) % 5 - 2;
}

// c = 0.5 * a b + 2 c, by columns.
#define PRODUCT(Type, gemm)                                                                                            \
    static void product_##gemm(Handle handle, int m, int n, int k, int ta, int tb) {                                   \
        Type *a = malloc(m * k * sizeof *a), *b = malloc(k * n * sizeof *b), *c = malloc(m * n * sizeof *c);           \
        float *want = malloc(m * n * sizeof *want);                                                                    \
        for (int i = 0; i < m * k; i++) a[i] = number();                                                               \
        for (int i = 0; i < k * n; i++) b[i] = number();                                                               \
        for (int i = 0; i < m * n; i++) c[i] = number();                                                               \
        for (int i = 0; i < m; i++)                                                                                    \
            for (int j = 0; j < n; j++) {                                                                              \
                double sum = 0;                                                                                        \
                for (int l = 0; l < k; l++)                                                                            \
                    sum += (double)a[ta == PLAIN ? i + l * m : l + i * k] * (double)b[tb == PLAIN ? l + j * k : j + l * n]; \
                want[i + j * m] = 0.5 * sum + 2 * c[i + j * m];                                                        \
            }                                                                                                          \
        void *on[3];                                                                                                   \
        size_t bytes[] = {m * k * sizeof *a, k * n * sizeof *b, m * n * sizeof *c};                                    \
        const void *from[] = {a, b, c};                                                                                \
        for (int i = 0; i < 3; i++) {                                                                                  \
            DO(hipMalloc(&on[i], bytes[i]));                                                                           \
            DO(hipMemcpy(on[i], from[i], bytes[i], TO_DEVICE));                                                        \
        }                                                                                                              \
        Type alpha = 0.5, beta = 2;                                                                                    \
        DO(rocblas_##gemm(handle, ta, tb, m, n, k, &alpha, on[0], ta == PLAIN ? m : k, on[1], tb == PLAIN ? k : n,     \
                          &beta, on[2], m));                                                                           \
        DO(hipMemcpy(c, on[2], bytes[2], TO_HOST));                                                                    \
        for (int i = 0; i < m * n; i++)                                                                                \
            if ((float)c[i] != want[i]) {                                                                              \
                printf("wrong: %s of %d x %d x %d at %d: %g, expected %g\n", #gemm, m, n, k, i, (double)c[i], want[i]); \
                exit(1);                                                                                               \
            }                                                                                                          \
        printf("right: %s of %d x %d x %d, %d %d\n", #gemm, m, n, k, ta, tb);                                          \
        for (int i = 0; i < 3; i++) DO(hipFree(on[i]));                                                                \
        free(a), free(b), free(c), free(want);                                                                         \
    }
PRODUCT(float, sgemm)
PRODUCT(_Float16, hgemm)

int main(void) {
    static const int SIZES[][3] = {{1, 1, 1}, {7, 5, 3}, {32, 32, 32}, {64, 48, 100}, {129, 65, 33}, {256, 128, 64}};
    Handle handle;
    DO(rocblas_create_handle(&handle));
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const int *s = SIZES[i];
        for (int way = 0; way < 4; way++) {
            int ta = way & 1 ? TRANSPOSED : PLAIN, tb = way & 2 ? TRANSPOSED : PLAIN;
            product_sgemm(handle, s[0], s[1], s[2], ta, tb);
            product_hgemm(handle, s[0], s[1], s[2], ta, tb);
        }
    }
    DO(rocblas_destroy_handle(handle));
    return 0;
}
