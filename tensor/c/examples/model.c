/* Runs a model of one input x and one output y, over memory of this program: model.onnx on the CPU. */
#include <doorbell.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int code) {
    if (code != DOORBELL_OK) {
        fprintf(stderr, "%s\n", doorbell_error());
        exit(1);
    }
}

static void released(void *context) { ++*(int *)context; }

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    static float x[4] = {-1, 2, -3, 4};
    const int64_t shape[] = {4};
    int done = 0;

    doorbell_engine *engine;
    check(doorbell_open("CPU", &engine));
    doorbell_model *model;
    check(doorbell_load(engine, argv[1], &model));
    printf("%d input %s\n", doorbell_count(model, DOORBELL_INPUT), doorbell_port(model, DOORBELL_INPUT, 0));

    doorbell_blob blob = {0};
    blob.data = x, blob.bytes = sizeof x, blob.shape = shape, blob.rank = 1, blob.type = DOORBELL_F32;
    blob.read_only = 1, blob.release = released, blob.context = &done;
    doorbell_tensor *input;
    check(doorbell_from_blob(engine, &blob, &input));

    const char *names[] = {"x"}, *wanted[] = {"y"};
    const doorbell_tensor *inputs[] = {input};
    for (int run = 0; run < 3; ++run) {
        x[0] = (float)run; /* the next run sees it */
        doorbell_tensor *output;
        check(doorbell_run(model, names, inputs, 1, wanted, &output, 1));
        float y[4];
        check(doorbell_read(output, y, sizeof y));
        printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
        doorbell_free(output);
    }

    const char *other[] = {"z"};
    doorbell_tensor *nothing;
    if (doorbell_run(model, names, inputs, 1, other, &nothing, 1) != DOORBELL_ARGUMENT) return 3;
    printf("%s\n", doorbell_error());

    doorbell_free(input);
    doorbell_unload(model);
    check(doorbell_synchronize(engine));
    doorbell_close(engine);
    printf("released %d\n", done);
    return 0;
}
