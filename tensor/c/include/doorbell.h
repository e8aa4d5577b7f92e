/* Tensors and models on Doorbell's devices. Link with -ldoorbell_c.
 *
 * Calls return 0, or one of DOORBELL_...; doorbell_error() then has the text, for the thread that made the call. Pointers to
 * names and shapes live as long as what they were asked of. Everything may be used by many threads at once. An engine stays
 * until its tensors and models are freed, too. */
#ifndef DOORBELL_H
#define DOORBELL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct doorbell_engine doorbell_engine;
typedef struct doorbell_tensor doorbell_tensor;
typedef struct doorbell_model doorbell_model;

/* Of dlpack.h, which need not be included. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

enum {
    DOORBELL_OK = 0,
    DOORBELL_ARGUMENT = -1, /* a null pointer, a number, a name, a size, a shape or a type */
    DOORBELL_DEVICE = -2,   /* no such device, or from its driver or compiler */
    DOORBELL_MODEL = -3,    /* a model that cannot be read or run */
    DOORBELL_BUG = -4       /* a bug of the library */
};

/* Element types: TensorProto.DataType of ONNX. */
enum {
    DOORBELL_F32 = 1,
    DOORBELL_U8 = 2,
    DOORBELL_I8 = 3,
    DOORBELL_U16 = 4,
    DOORBELL_I16 = 5,
    DOORBELL_I32 = 6,
    DOORBELL_I64 = 7,
    DOORBELL_BOOL = 9,
    DOORBELL_F16 = 10,
    DOORBELL_F64 = 11,
    DOORBELL_U32 = 12,
    DOORBELL_U64 = 13,
    DOORBELL_BF16 = 16,
    DOORBELL_F8E4M3 = 17,
    DOORBELL_F8E5M2 = 19
};

enum { DOORBELL_INPUT = 0, DOORBELL_OUTPUT = 1 };

/* The text of the last failure of this thread, until its next failure. */
const char *doorbell_error(void);
/* The version of this interface: 1. */
uint32_t doorbell_version(void);

/* Opens a device as DEV names it: "CPU", "AMD:1". NULL: the one that DEV says, or else the CPU. */
int doorbell_open(const char *device, doorbell_engine **out);
const char *doorbell_name(const doorbell_engine *engine);
/* Waits for all work on the device. */
int doorbell_synchronize(const doorbell_engine *engine);
void doorbell_close(doorbell_engine *engine);

/* Memory of the caller. */
typedef struct doorbell_blob {
    void *data;
    size_t bytes;           /* of the memory */
    const int64_t *shape;   /* rank sizes, outermost first */
    const int64_t *strides; /* rank distances in elements; NULL: row-major */
    uint32_t rank;
    uint32_t type;          /* DOORBELL_F32... */
    size_t offset;          /* where in the memory the first element is, bytes */
    int read_only;          /* not 0: nothing is ever written there */
    void (*release)(void *context); /* or NULL */
    void *context;
} doorbell_blob;

/* A tensor over memory of the caller, without a copy. release is called once, by any thread, when nothing uses the memory any more,
 * also if this call fails (but not for blob NULL); work that is over lets go of it at the latest in doorbell_synchronize.
 * Each run reads the memory as it is then: change it after results were read, or after doorbell_synchronize. With strides
 * other than row-major the tensor has the values of its first use (read, run, overwrite): make another one for the next. Nothing but
 * doorbell_overwrite writes there. */
int doorbell_from_blob(const doorbell_engine *engine, const doorbell_blob *blob, doorbell_tensor **out);
/* A tensor of a copy of row-major bytes. */
int doorbell_from_bytes(const doorbell_engine *engine, uint32_t type, const int64_t *shape, uint32_t rank, const void *data,
                        size_t bytes, doorbell_tensor **out);
void doorbell_free(doorbell_tensor *tensor);

typedef struct doorbell_shape {
    const int64_t *sizes; /* rank sizes, outermost first */
    uint32_t rank;
    uint32_t type;
    size_t bytes;         /* of all elements */
} doorbell_shape;

int doorbell_describe(const doorbell_tensor *tensor, doorbell_shape *out);
/* Copies the elements, row-major; bytes must be theirs. */
int doorbell_read(const doorbell_tensor *tensor, void *into, size_t bytes);
/* Where the elements are, for the device: on the CPU a pointer, good until the tensor is freed, and not to be written. */
int doorbell_address(const doorbell_tensor *tensor, uint64_t *out);
/* Puts the values of another tensor into shared memory, which must not be read-only; they are there when this returns. */
int doorbell_overwrite(const doorbell_tensor *tensor, const doorbell_tensor *value);

/* DLPack 1, on the CPU. The caller calls the deleter. Unless copy is not 0, the memory is the tensor's, and the flags say
 * whether it may be written. */
int doorbell_to_dlpack(const doorbell_tensor *tensor, int copy, struct DLManagedTensorVersioned **out);
/* The deleter is called when nothing uses the memory any more, also if this call fails, unless tensor is NULL. */
int doorbell_from_dlpack(const doorbell_engine *engine, struct DLManagedTensorVersioned *tensor, doorbell_tensor **out);
/* The struct of before version 1, which has no flags: without a copy, do not write there. */
int doorbell_to_dlpack_unversioned(const doorbell_tensor *tensor, int copy, struct DLManagedTensor **out);
int doorbell_from_dlpack_unversioned(const doorbell_engine *engine, struct DLManagedTensor *tensor, doorbell_tensor **out);

/* An ONNX model, with files beside it that have its weights. */
int doorbell_load(const doorbell_engine *engine, const char *path, doorbell_model **out);
/* The same from a copy of bytes in memory. */
int doorbell_load_memory(const doorbell_engine *engine, const void *bytes, size_t size, doorbell_model **out);
/* How many inputs that must be given, or outputs; negative on failure. */
int doorbell_count(const doorbell_model *model, int kind);
/* NULL if there is none of this number. */
const char *doorbell_port(const doorbell_model *model, int kind, uint32_t index);
/* Runs the model: inputs by their names, and these of the outputs into out, which the caller frees. If this fails, out is
 * as before. The first run with inputs of certain shapes compiles. */
int doorbell_run(const doorbell_model *model, const char *const *names, const doorbell_tensor *const *inputs, size_t count,
                 const char *const *wanted, doorbell_tensor **out, size_t outputs);
void doorbell_unload(doorbell_model *model);

#ifdef __cplusplus
}
#endif

#endif
