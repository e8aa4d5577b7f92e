/* Without the linker, as Go's purego and Python's ctypes do it: load libdoorbell_c.so. */
#include <dlfcn.h>
#include <doorbell.h>
#include <stdio.h>

#define FIND(name) __typeof__(&name) name##_ = (__typeof__(&name))dlsym(library, #name)

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) return fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: load LIBRARY"), 1;
    FIND(doorbell_open);
    FIND(doorbell_name);
    FIND(doorbell_error);
    FIND(doorbell_close);
    doorbell_engine *engine;
    if (doorbell_open_("CPU", &engine)) return fprintf(stderr, "%s\n", doorbell_error_()), 1;
    printf("%.3s\n", doorbell_name_(engine));
    doorbell_close_(engine);
    if (doorbell_open_("CPV", &engine)) printf("%s\n", doorbell_error_());
    return 0;
}
