/* A program on nouveau's render node: it has the GPU copy memory of the machine to that of the card and back, on a channel of a
 * copy engine and on one of graphics, and waits for it as programs do.
 *
 * Source: Linux, include/uapi/drm/nouveau_drm.h (structs; numbers of ioctls); nouveau_abi16.c, nouveau_abi16_ioctl_channel_alloc (how an
 * engine is chosen); NVIDIA, open-gpu-doc, classes/dma-copy/clc7b5.h (methods). */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

struct channel {
    uint32_t fb_ctxdma_handle, tt_ctxdma_handle;
    int32_t channel;
    uint32_t pushbuf_domains, notifier_handle, subchan[8][2], nr_subchan;
};

struct object {
    int32_t channel;
    uint32_t handle;
    int32_t class;
};

struct buffer {
    uint32_t handle, domain;
    uint64_t size, offset, map_handle;
    uint32_t tile_mode, tile_flags, channel_hint, align;
};

struct used {
    uint64_t user_priv;
    uint32_t handle, read_domains, write_domains, valid_domains, valid, domain;
    uint64_t offset;
};

struct segment {
    uint32_t buffer, pad;
    uint64_t offset, length;
};

struct push {
    uint32_t channel, nr_buffers;
    uint64_t buffers;
    uint32_t nr_relocs, nr_push;
    uint64_t relocs, push;
    uint32_t suffix0, suffix1;
    uint64_t vram_available, gart_available;
};

struct prepare {
    uint32_t handle, flags;
};

#define COMMAND(number, type) _IOWR('d', 0x40 + (number), type)
#define CHANNEL_ALLOC COMMAND(0x02, struct channel)
#define GROBJ_ALLOC _IOW('d', 0x40 + 0x04, struct object)
#define GEM_NEW COMMAND(0x40, struct buffer)
#define GEM_PUSHBUF COMMAND(0x41, struct push)
#define GEM_CPU_PREP _IOW('d', 0x40 + 0x42, struct prepare)

enum { VRAM = 1 << 1, GART = 1 << 2, MAPPABLE = 1 << 3 };
enum { ENGINE_GRAPHICS = 1, ENGINE_COPY = 0x30 };
enum { SUBCHANNEL = 4, BYTES = 0x4000 };

static int node;

static void ask(unsigned long request, void *argument, const char *what)
{
    if (ioctl(node, request, argument) != 0) {
        printf("render: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static struct buffer buffer(uint32_t domain, volatile uint32_t **words)
{
    struct buffer made = {.domain = domain | MAPPABLE, .size = BYTES, .align = 4096};
    ask(GEM_NEW, &made, "a buffer");
    void *mapped = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, node, (off_t)made.map_handle);
    if (mapped == MAP_FAILED) {
        printf("render: a mapping: %s\n", strerror(errno));
        exit(1);
    }
    *words = mapped;
    return made;
}

/* Appends methods that follow each other. */
static uint32_t methods(volatile uint32_t *push, uint32_t at, uint32_t first, uint32_t count, const uint32_t *data)
{
    push[at++] = 1u << 29 | count << 16 | SUBCHANNEL << 13 | first / 4;
    for (uint32_t i = 0; i < count; i++)
        push[at++] = data[i];
    return at;
}

static uint32_t copy(volatile uint32_t *push, uint32_t at, uint64_t from, uint64_t to)
{
    const uint32_t places[] = {
        (uint32_t)(from >> 32), (uint32_t)from, (uint32_t)(to >> 32), (uint32_t)to, BYTES, BYTES, BYTES, 1,
    };
    /* Not pipelined, with a flush, rows on both sides. */
    const uint32_t launch = 2 | 1 << 2 | 1 << 7 | 1 << 8;
    at = methods(push, at, 0x400, 8, places);
    return methods(push, at, 0x300, 1, &launch);
}

static int copies(uint32_t engine, uint32_t class)
{
    struct channel channel = {.fb_ctxdma_handle = ~0u, .tt_ctxdma_handle = engine};
    ask(CHANNEL_ALLOC, &channel, "a channel");
    struct object object = {.channel = channel.channel, .handle = 0xbeef0000u | engine, .class = (int32_t)class};
    ask(GROBJ_ALLOC, &object, "an object");

    volatile uint32_t *push, *from, *on, *back;
    struct buffer buffers[4];
    buffers[0] = buffer(GART, &push);
    buffers[1] = buffer(GART, &from);
    buffers[2] = buffer(VRAM, &on);
    buffers[3] = buffer(GART, &back);
    for (uint32_t i = 0; i < BYTES / 4; i++) {
        from[i] = i * 2654435761u + engine;
        back[i] = 0;
    }
    uint32_t length = methods(push, 0, 0, 1, &class);
    length = copy(push, length, buffers[1].offset, buffers[2].offset);
    length = copy(push, length, buffers[2].offset, buffers[3].offset);

    struct used used[4];
    memset(used, 0, sizeof used);
    for (int i = 0; i < 4; i++) {
        uint32_t domain = i == 2 ? VRAM : GART;
        used[i].handle = buffers[i].handle;
        used[i].valid_domains = domain;
        used[i].read_domains = domain;
        used[i].write_domains = i < 2 ? 0 : domain;
    }
    struct segment segment = {.buffer = 0, .length = 4 * length};
    struct push request = {
        .channel = (uint32_t)channel.channel,
        .nr_buffers = 4,
        .buffers = (uintptr_t)used,
        .nr_push = 1,
        .push = (uintptr_t)&segment,
    };
    ask(GEM_PUSHBUF, &request, "a push");
    struct prepare wait = {.handle = buffers[3].handle};
    ask(GEM_CPU_PREP, &wait, "the wait");
    for (uint32_t i = 0; i < BYTES / 4; i++) {
        uint32_t wanted = i * 2654435761u + engine;
        if (back[i] != wanted || (i % 64 == 0 && on[i] != wanted)) {
            printf("render: engine %#x, word %u: %#x on the card, %#x back, expected %#x\n", engine, i, on[i], back[i], wanted);
            return 1;
        }
    }
    printf("render: engine %#x has copied %u bytes there and back, channel %d\n", engine, BYTES, channel.channel);
    return 0;
}

int main(int count, char **words)
{
    if (count != 2) {
        printf("render: expected one argument, the class of the copy engines: 0xc7b5\n");
        return 2;
    }
    const uint32_t class = (uint32_t)strtoul(words[1], NULL, 0);
    node = open("/dev/dri/renderD128", O_RDWR);
    if (node < 0) {
        printf("render: /dev/dri/renderD128: %s\n", strerror(errno));
        return 1;
    }
    return copies(ENGINE_COPY, class) | copies(ENGINE_GRAPHICS, class);
}
