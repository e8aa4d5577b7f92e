// A Vulkan program that knows nothing of simulated GPUs. The argument is the folder of its kernels; others name what is
// run of it.
#include "vulkan.h"

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"compute", compute}, {"images", images}, {"commands", commands}};
    if (count < 2) {
        printf("expected a folder\n");
        return 2;
    }
    begin(words[1]);
    for (size_t i = 0; i < COUNT(parts); i++) {
        int wanted = count == 2;
        for (int k = 2; k < count; k++) wanted |= strcmp(words[k], parts[i].name) == 0;
        if (wanted) parts[i].run();
    }
    end();
    return 0;
}
