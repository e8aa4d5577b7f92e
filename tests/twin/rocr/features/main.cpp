// What HIP programs do, one after the other, each result compared with what the host computes. Prints a line
// for each: "right NAME" or "wrong NAME: why"; arguments name those that shall run, all without any.
#include "feature.h"

#include <cstdio>
#include <cstring>

Feature *Feature::first = nullptr;

int main(int argc, char **argv) {
    int wrong = 0, ran = 0;
    for (Feature *one = Feature::first; one; one = one->next) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++) wanted |= !strcmp(argv[i], one->name);
        if (!wanted) continue;
        ran++;
        try {
            one->run();
            printf("right %s\n", one->name);
        } catch (Wrong &what) {
            printf("wrong %s: %s\n", one->name, what.why.c_str());
            wrong++;
        }
        fflush(stdout);
    }
    if (ran == 0) printf("no feature has such a name\n");
    return wrong != 0 || ran == 0;
}
