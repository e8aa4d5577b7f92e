/* A software GPU behind the ioctls of its kernel driver.
 *
 * A twin is a machine with GPUs. A process opens files on it, as it would on a real machine. All
 * addresses that an ioctl carries are addresses of the calling process. Functions return what the
 * system call returns, or a negative errno. All may be called from any thread.
 */
#ifndef DOORBELL_TWIN_H
#define DOORBELL_TWIN_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct doorbell_twin doorbell_twin;
typedef struct doorbell_twin_process doorbell_twin_process;

/* Makes a machine. `config` is a list of `key=value` with commas between, "" for the defaults:
 * see README.md. Its chip says whose GPUs they are: AMD's, NVIDIA's or Qualcomm's. NULL where it is wrong; then `error` (of `error_bytes`) says why. */
doorbell_twin *doorbell_twin_new(const char *config, char *error, size_t error_bytes);
/* Ends the machine. Its processes must have been freed. */
void doorbell_twin_free(doorbell_twin *twin);
/* A process of the machine. Two of them share nothing but the GPUs. */
doorbell_twin_process *doorbell_twin_attach(doorbell_twin *twin);
/* Ends a process as the kernel does: queues are destroyed, memory is freed. */
void doorbell_twin_detach(doorbell_twin_process *process);

/* Files. `path` is a path that the twin has (`/dev/kfd`, `/dev/dri/renderD128`, or `/dev/nvidiactl`,
 * `/dev/nvidia0`, `/dev/nvidia-uvm`; sysfs and procfs beside them); others are -ENOENT, and `doorbell_twin_exists` tells. Descriptors are numbers of the twin's own, from 2^30. */
int doorbell_twin_exists(doorbell_twin_process *process, const char *path);
int doorbell_twin_open(doorbell_twin_process *process, const char *path, int flags);
int doorbell_twin_dup(doorbell_twin_process *process, int fd);
int doorbell_twin_close(doorbell_twin_process *process, int fd);
/* Whether `poll` for POLLIN finds the file ready: 1 or 0. */
int doorbell_twin_ready(doorbell_twin_process *process, int fd);
/* Reads at `offset`. */
ssize_t doorbell_twin_read(doorbell_twin_process *process, int fd, void *data, size_t bytes, off_t offset);
/* The names in a folder, each ended by '\n'. Returns how many bytes they take, of which at most
 * `bytes` are written. */
ssize_t doorbell_twin_readdir(doorbell_twin_process *process, int fd, char *names, size_t bytes);
int doorbell_twin_ioctl(doorbell_twin_process *process, int fd, unsigned long request, void *argument);
/* Returns an address, or a negative errno cast to a pointer. */
void *doorbell_twin_mmap(doorbell_twin_process *process, void *address, size_t bytes, int protection,
                         int flags, int fd, off_t offset);
int doorbell_twin_munmap(doorbell_twin_process *process, void *address, size_t bytes);

/* What the process has of the machine (descriptors, mappings, handles ...): a line each. Returns their bytes, of
 * which at most `bytes` are written, with a terminating zero; 0 where a driver has given all back. */
size_t doorbell_twin_objects(doorbell_twin_process *process, char *text, size_t bytes);

/* How many rules have been broken so far, and the reports of those from number `first` on, each
 * ended by an empty line. Returns the bytes of the reports, of which at most `bytes` are written,
 * with a terminating zero. */
size_t doorbell_twin_broken(doorbell_twin *twin);
size_t doorbell_twin_report(doorbell_twin *twin, size_t first, char *text, size_t bytes);

/* Cards that no kernel driver has: PCI functions, numbered from 0. `config` is that of `DEV=TWINPCI+AMD`: see README.md.
 * What a call returns is 0 or more, or a negative errno: -EIO for what breaks a rule, which the reports tell. */
typedef struct doorbell_pci doorbell_pci;
doorbell_pci *doorbell_pci_new(const char *config, char *error, size_t error_bytes);
/* Another process on the same machine: it finds the cards as they were left. */
doorbell_pci *doorbell_pci_again(doorbell_pci *on);
/* Ends a process, as if it was killed: its memory is gone, cards stay as they are. The machine ends with the last one. */
void doorbell_pci_free(doorbell_pci *on);
/* The functions, a line each, `0000:03:00.0 1002:744c`. Returns their bytes, of which at most `bytes` are written, with a
 * terminating zero. */
size_t doorbell_pci_functions(doorbell_pci *on, char *text, size_t bytes);
/* Configuration space, 1, 2 or 4 bytes. */
int doorbell_pci_config_read(doorbell_pci *on, unsigned function, uint16_t offset, size_t bytes, uint32_t *value);
int doorbell_pci_config_write(doorbell_pci *on, unsigned function, uint16_t offset, size_t bytes, uint32_t value);
/* Where a BAR is on the bus, and its size. */
int doorbell_pci_bar(doorbell_pci *on, unsigned function, unsigned bar, uint64_t *start, uint64_t *size);
/* A BAR: 1, 2, 4 or 8 bytes in one access, else byte by byte. */
int doorbell_pci_read(doorbell_pci *on, unsigned function, unsigned bar, uint64_t offset, void *data, size_t bytes);
int doorbell_pci_write(doorbell_pci *on, unsigned function, unsigned bar, uint64_t offset, const void *data, size_t bytes);
/* Zeroed memory of this process, whole pages of 4096 bytes, that the function reaches: `memory` is where the process has
 * it, `pages` gets the bus address of each page. `align` (a power of two) is that of each range on the bus. */
int doorbell_pci_dma(doorbell_pci *on, unsigned function, uint64_t bytes, uint64_t align, void **memory, uint64_t *pages);
int doorbell_pci_dma_free(doorbell_pci *on, void *memory);
/* Resets a function: 0 by itself (FLR), 1 by its bus, 2 by power management. */
int doorbell_pci_reset(doorbell_pci *on, unsigned function, int kind);
/* As doorbell_twin_broken and doorbell_twin_report. */
size_t doorbell_pci_broken(doorbell_pci *on);
size_t doorbell_pci_report(doorbell_pci *on, size_t first, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
