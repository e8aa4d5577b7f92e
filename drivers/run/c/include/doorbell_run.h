/* Runs model bundles (.dbx), which `doorbell compile` writes. Link with -ldoorbell_run_c.
 *
 * Calls return 0, or one of DBX_...; dbx_error() then has the text, for the thread that made the call. A call that fails writes
 * no result: *out is as before. Pointers that calls return live as long as what they were asked of. dbx_close, dbx_free and
 * dbx_release of NULL do nothing. A bundle may be closed while its models are used, and what was imported may be released
 * before or after its model is freed. Different models may be used by different threads at once; one model by one thread at a
 * time. After the first run, a run makes one submission, and on the CPU it allocates nothing. */
#ifndef DOORBELL_RUN_H
#define DOORBELL_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dbx_bundle dbx_bundle;
typedef struct dbx_model dbx_model;
typedef struct dbx_buffer dbx_buffer;

enum {
    DBX_OK = 0,
    DBX_FILE = -1,      /* the file cannot be read */
    DBX_DAMAGED = -2,   /* no model bundle, or damaged */
    DBX_VERSION = -3,   /* of a newer version */
    DBX_NO_DEVICE = -4, /* no device of the chain can run it */
    DBX_CHIP = -5,      /* no code for this device */
    DBX_ARGUMENT = -6,  /* an argument, a name, a size or a variable */
    DBX_LATE = -7,      /* the run was submitted, and not over in time: dbx_wait tells whether it is by now */
    DBX_DEVICE = -8,    /* the device is lost: dbx_free, then dbx_place opens it again */
    DBX_BUG = -9,       /* a bug of the library */
    /* Newer ones: older libraries return DBX_LATE for the first, DBX_DEVICE for the others. */
    DBX_NOT_STARTED = -10, /* an earlier run goes on, so this one was not submitted: dbx_wait, then make the call again */
    DBX_MEMORY = -11,      /* out of memory, of the device or of the machine */
    DBX_NO_MAPPING = -12,  /* the host has no mapping of this memory */
    DBX_DRIVER = -13       /* anything else that a driver refuses: no permission, a call... */
};

enum { DBX_INPUT = 0, DBX_OUTPUT = 1, DBX_STATE = 2, DBX_TARGET = 3 };

/* An input, output or state. */
typedef struct dbx_port_info {
    const char *name;
    const uint64_t *shape; /* rank sizes, outermost first */
    uint64_t bytes;
    uint32_t rank;
    uint32_t element; /* TensorProto.DataType of ONNX: 1 float, 6 int32, 7 int64, 10 float16... */
} dbx_port_info;

/* The text of the last failure of this thread, until its next failure. */
const char *dbx_error(void);
/* The newest version of the format that is read. */
uint32_t dbx_version(void);

/* Opens a file, which must not change until bundle and models are closed. */
int dbx_open(const char *path, dbx_bundle **out);
/* Opens a copy of bytes in memory. */
int dbx_open_memory(const void *bytes, size_t size, dbx_bundle **out);
/* Checks the hashes of all sections; dbx_open checks those that it reads, dbx_place the rest that it needs. A damaged section of
 * a target that is not used, as that of the CPU while there is a GPU, is found by this call alone. */
int dbx_check(const dbx_bundle *bundle);
void dbx_close(dbx_bundle *bundle);

/* How many there are of a kind, DBX_INPUT to DBX_TARGET; negative on failure. */
int dbx_count(const dbx_bundle *bundle, int kind);
int dbx_port(const dbx_bundle *bundle, int kind, uint32_t index, dbx_port_info *out);
/* A target as in DEV, "CPU::aarch64"; NULL if there is none of this number. */
const char *dbx_target(const dbx_bundle *bundle, uint32_t index);

/* Loads the model on the first device that can run it: "QCOM|CPU". NULL: as the variable DEV says. A program may have several CPU
 * devices, each with threads of its own: "CPU:1". A damaged file is an error, whatever other devices there are. */
int dbx_place(const dbx_bundle *bundle, const char *devices, dbx_model **out);
/* Why it is not on the first device of the chain, a line for each that was left out; empty if it is. */
const char *dbx_notes(const dbx_model *model);
const char *dbx_device(const dbx_model *model);
/* Frees the model. Waits for a run that is under way, until the device has made no progress for its timeout. If the run is not
 * over then, this returns DBX_LATE or DBX_DEVICE: the model is freed all the same, but the run may go on and use memory of the
 * caller, which must then stay mapped until the process ends: that memory alone, and the process may go on. */
int dbx_free(dbx_model *model);

/* Copies the value of a DBX_INPUT or DBX_STATE; size must be that of the port: for any other, bytes is not looked at. While
 * a run is under way, calls that copy and dbx_reset do not wait for it, but return DBX_LATE. DBX_NO_MAPPING: a dma-buf that is
 * bound. */
int dbx_write(dbx_model *model, int kind, const char *name, const void *bytes, size_t size);
/* Copies the value of a DBX_OUTPUT or DBX_STATE. If the call fails, into is as before. */
int dbx_read(dbx_model *model, int kind, const char *name, void *into, size_t size);
/* The memory of a DBX_INPUT or DBX_OUTPUT that the device uses, where the host can map it: nothing is copied. Not to be
 * touched during a run. DBX_NO_MAPPING: it cannot, as of what is bound on KGSL (the caller has a pointer to that). */
int dbx_memory(const dbx_model *model, int kind, const char *name, void **out, size_t *size);

/* Memory of the caller for the device of a model, to be bound to it: made once, for each buffer of a ring, and for each model
 * that uses it. The caller keeps the memory until it is released here and neither bound nor used by a run any more; dbx_free
 * ends both if it returns DBX_OK. */
/* Whole pages of 4096 bytes of the process (CPU, KGSL). They are not touched during a run that they are bound for. What the
 * caller has written before it is cleaned out of the CPU's caches, and what the device has written is found after it.
 * The pages are mapped for reads and writes, those of an input too: others are refused, on each device alike (of private pages that
 * are pinned for reads alone, the GPU would keep the old ones once somebody writes them).
 * Before pages are unmapped, unbind them (dbx_bind of NULL) in every model and release them. What is imported later at the same
 * address is new memory once the old is released, whoever still has that bound: a model that does reads the old pages. */
int dbx_import_host(const dbx_model *model, void *memory, size_t size, dbx_buffer **out);
/* A dma-buf with at least so many bytes (KGSL, msm); the descriptor may be closed then. Who writes or reads it by a mapping
 * does that between the two calls of DMA_BUF_IOCTL_SYNC: nothing is cleaned here. */
int dbx_import_dmabuf(const dbx_model *model, int fd, size_t size, dbx_buffer **out);
/* A buffer of Qualcomm's OpenCL by its cl_mem, with so many bytes (KGSL). Its work on it has ended before each run (clFinish). */
int dbx_import_opencl(const dbx_model *model, void *cl_mem, size_t size, dbx_buffer **out);
/* A model keeps what is bound to it, also if the model is on a device that is lost. */
void dbx_release(dbx_buffer *buffer);
/* Uses the memory from offset on in the place of a DBX_INPUT or DBX_OUTPUT: nothing is copied, and nothing is encoded again
 * but for the first memory of an input or output. NULL: the model's own again; offset is not looked at. Runs use
 * it from the next one on; dbx_read, dbx_write and dbx_memory mean it at once, so the output of the last run is read before,
 * and a pointer of dbx_memory is to the memory that was bound when it was asked for.
 *
 * The address is a multiple of 64, and an output has whole lines of 64 bytes: the caller does not write to the rest of its
 * last line during a run. No two of a model have the same bytes, unless both are inputs; memory that is imported twice may
 * have two addresses, for which that is not checked. Bound memory is one of this model's device. While a run is under way,
 * it returns DBX_LATE. */
int dbx_bind(dbx_model *model, int kind, const char *name, const dbx_buffer *buffer, size_t offset);

/* Runs once. All of it takes limit_ms at most, the end of a late run before it as well.
 *
 * DBX_LATE: this run was submitted. It goes on, or it is over and its outputs are whole, but the call took longer than limit_ms:
 * dbx_wait returns DBX_OK in the second case. DBX_NOT_STARTED: the run before goes on, and this one was not submitted: once
 * dbx_wait returns DBX_OK, the outputs are those of that run.
 *
 * With 0, nobody waits: dbx_wait only asks whether the run is over, and dbx_run and dbx_start submit it only if the one before
 * is. */
int dbx_run(dbx_model *model, uint32_t limit_ms);
/* The same in two steps. A model has one run under way at most: dbx_start waits for the one before. */
int dbx_start(dbx_model *model, uint32_t limit_ms);
int dbx_wait(dbx_model *model, uint32_t limit_ms);
/* Sets all states to their first values. */
int dbx_reset(dbx_model *model);

#ifdef __cplusplus
}
#endif

#endif
