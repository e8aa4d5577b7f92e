// Several processes on one card.
#include "feature.h"

#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// Runs this program again with one feature, and says whether it was right.
static bool again(const char *feature) {
    const char *arguments[] = {"/proc/self/exe", feature, nullptr};
    pid_t child;
    int status = -1;
    fflush(stdout);
    if (posix_spawn(&child, arguments[0], nullptr, nullptr, const_cast<char **>(arguments), environ) != 0)
        return false;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void in_a_child() {
    Device<int> x(numbers(N));
    SAME(again("launch"));
    SAME(scaled(x.get(N), 1));
}
FEATURE(in_a_child);

#if HIP_VERSION >= 60000000 // Before, only with a kernel driver of AMD's own (AMDKFD_IOC_IPC_EXPORT_HANDLE).
// Memory of one process in another one.
constexpr const char *HANDLE = "FEATURES_HANDLE";

static void memory_of_the_parent() {
    const char *text = getenv(HANDLE);
    if (!text) return;
    hipIpcMemHandle_t handle;
    for (size_t i = 0; i < sizeof handle; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        reinterpret_cast<unsigned char *>(&handle)[i] = byte;
    }
    int *x;
    DO(hipIpcOpenMemHandle((void **)&x, handle, hipIpcMemLazyEnablePeerAccess));
    scale<<<blocks(N), 256>>>(x, N, 3);
    DO(hipDeviceSynchronize());
    DO(hipIpcCloseMemHandle(x));
}
FEATURE(memory_of_the_parent);

static void memory_shared_with_a_child() {
    Device<int> x(numbers(N));
    hipIpcMemHandle_t handle;
    DO(hipIpcGetMemHandle(&handle, x.at));
    string text;
    for (size_t i = 0; i < sizeof handle; i++) {
        char byte[3];
        snprintf(byte, sizeof byte, "%02x", reinterpret_cast<unsigned char *>(&handle)[i]);
        text += byte;
    }
    setenv(HANDLE, text.c_str(), 1);
    bool right = again("memory_of_the_parent");
    unsetenv(HANDLE);
    SAME(right);
    SAME(scaled(x.get(N), 3));
}
FEATURE(memory_shared_with_a_child);
#endif
