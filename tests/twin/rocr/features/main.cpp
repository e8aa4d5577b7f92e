// What HIP programs do, one after the other, each result compared with what the host computes. Prints a line
// for each: "right NAME" or "wrong NAME: why". Arguments name those that shall run, or (-NAME) those that shall not; all without any.
#include "feature.h"

#include <cstdio>
#include <cstring>

Feature *Feature::first = nullptr;

int main(int argc, char **argv) {
    int wrong = 0, ran = 0;
    for (Feature *one = Feature::first; one; one = one->next) {
        bool wanted = argc == 1 || argv[1][0] == '-';
        for (int i = 1; i < argc; i++) {
            if (!strcmp(argv[i], one->name)) wanted = true;
            if (argv[i][0] == '-' && !strcmp(argv[i] + 1, one->name)) wanted = false;
        }
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
