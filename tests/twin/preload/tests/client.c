/* A program that knows nothing of the twin: `client STEP` does one step, as what it is named. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int right, const char *what) {
    if (right) return;
    printf("wrong: %s, errno %d\n", what, errno);
    _exit(3);
}

static void files(void) {
    struct stat at, open_at;
    check(stat("/dev/nvidiactl", &at) == 0 && S_ISCHR(at.st_mode), "stat");
    check(major(at.st_rdev) == 195 && minor(at.st_rdev) == 255, "numbers");
    check(stat("/dev/nvidia7", &at) == -1 && errno == ENOENT, "a GPU that is not there");
    check(access("/dev//nvidia0", R_OK | W_OK) == 0, "access");
    int fd = open("/dev/nvidia0", O_RDWR | O_CLOEXEC);
    check(fd >= 0 && fstat(fd, &open_at) == 0 && S_ISCHR(open_at.st_mode), "fstat");
    check(fcntl(fd, F_GETFD) == FD_CLOEXEC, "flags");
    char byte;
    check(read(fd, &byte, 1) == -1 && errno == EINVAL, "read of a device");
    struct pollfd wait = {fd, POLLIN, 0};
    check(poll(&wait, 1, 0) == 0, "poll");
    int other = dup(fd);
    check(other != fd && close(fd) == 0, "dup");
    check(fstat(other, &open_at) == 0 && major(open_at.st_rdev) == 195, "fstat of a duplicate");
    check(close(other) == 0 && ioctl(other, 0xd2) == -1 && errno == EBADF, "closed");
    char line[256] = "";
    FILE *text = fopen("/proc/driver/nvidia/version", "r");
    check(text && fgets(line, sizeof line, text) && strstr(line, "550."), "version");
    fclose(text);
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    int found = 0;
    for (struct dirent *one; folder && (one = readdir(folder));) found += one->d_name[0] != '.';
    check(found == 2, "two GPUs");
    closedir(folder);
    check(stat("/proc/self/status", &at) == 0 && access("/dev/null", W_OK) == 0, "the host's own");
}

/* CHECK_VERSION_STR. */
static void version(const char *text) {
    struct { unsigned cmd, reply; char version[64]; } args = {0};
    strcpy(args.version, text);
    int fd = open("/dev/nvidiactl", O_RDWR);
    int done = ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', 0xd2, sizeof args), &args);
    printf("%d %u\n", done, args.reply);
    fflush(stdout);
}

static void *thread(void *argument) {
    *(int *)argument = open("/dev/nvidia0", O_RDWR);
    return argument;
}

int main(int count, char **steps) {
    const char *step = count > 1 ? steps[1] : "";
    if (!strcmp(step, "files")) files();
    else if (!strcmp(step, "version")) version(steps[2]);
    else if (!strcmp(step, "abort")) { version("1"); abort(); }
    else if (!strcmp(step, "fork")) {
        version(steps[2]);
        pid_t child = fork();
        if (child == 0) _exit(open("/dev/nvidiactl", O_RDWR) >= 0);
        int status;
        check(waitpid(child, &status, 0) == child && status == 0, "a child has no machine");
    } else if (!strcmp(step, "thread")) {
        pthread_t one;
        int fd = -1;
        check(pthread_create(&one, 0, thread, &fd) == 0 && pthread_join(one, 0) == 0, "thread");
        check(fd >= 0, "open on a thread");
    } else check(0, "step");
    return 0;
}
