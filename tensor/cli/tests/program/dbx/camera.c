// A camera that ends and comes back: frames at the same addresses, in other memory, while the last one is still bound.
#include <doorbell_run.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define FRAMES 2
#define FLOATS 256

#define MUST(call)                                                                     \
    do {                                                                               \
        int code = (call);                                                             \
        if (code) {                                                                    \
            printf("line %d: %s: %d: %s\n", __LINE__, #call, code, dbx_error());       \
            return 1;                                                                  \
        }                                                                              \
    } while (0)

int main(int argc, char **argv) {
    dbx_bundle *bundle;
    dbx_model *model;
    dbx_buffer *ring[FRAMES];
    float copied[40], bound[40], last[40] = {0};
    if (argc < 3) return 2;
    MUST(dbx_open(argv[1], &bundle));
    MUST(dbx_place(bundle, argv[2], &model));
    void *pages = NULL;
    // The second round takes away the pages of the first one.
    for (int round = 0; round < 2; round++) {
        int kind = MAP_PRIVATE | MAP_ANONYMOUS | (pages ? MAP_FIXED : 0);
        pages = mmap(pages, FRAMES * PAGE, PROT_READ | PROT_WRITE, kind, -1, 0);
        if (pages == MAP_FAILED) return 3;
        for (int k = 0; k < FRAMES; k++) {
            float *frame = (float *)((char *)pages + k * PAGE);
            for (int i = 0; i < FLOATS; i++) frame[i] = (float)((i * 7 + round * FRAMES + k) % 11) / 8;
            MUST(dbx_import_host(model, frame, PAGE, &ring[k]));
        }
        for (int k = 0; k < FRAMES; k++) {
            MUST(dbx_bind(model, DBX_INPUT, "x", NULL, 0));
            MUST(dbx_write(model, DBX_INPUT, "x", (char *)pages + k * PAGE, FLOATS * sizeof(float)));
            MUST(dbx_run(model, 600000));
            MUST(dbx_read(model, DBX_OUTPUT, "y", copied, sizeof copied));
            MUST(dbx_bind(model, DBX_INPUT, "x", ring[k], 0));
            MUST(dbx_run(model, 600000));
            MUST(dbx_read(model, DBX_OUTPUT, "y", bound, sizeof bound));
            if (memcmp(copied, bound, sizeof bound)) return printf("round %d: frame %d is another one\n", round, k), 4;
            if (!memcmp(last, bound, sizeof bound)) return printf("round %d: frame %d changes nothing\n", round, k), 5;
            memcpy(last, bound, sizeof last);
        }
        for (int k = 0; k < FRAMES; k++) dbx_release(ring[k]);
    }
    MUST(dbx_free(model));
    munmap(pages, FRAMES * PAGE);
    dbx_close(bundle);
    puts("all frames");
    return 0;
}
