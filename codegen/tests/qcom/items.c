/* Runs the work-items of a kernel on the processor, each one up to the next barrier. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

enum { MOST = 1024, STACK = 1 << 16 };

/* So many arguments of 64 bits: a kernel does not look at more than it has. */
#define EIGHT(x) x, x, x, x, x, x, x, x
typedef void kernel(EIGHT(uint64_t), EIGHT(uint64_t), EIGHT(uint64_t), EIGHT(uint64_t), EIGHT(uint64_t));
extern kernel start;

static ucontext_t rest, item_[MOST];
static char *stacks;
static char done[MOST];
static size_t item, group[3];
static const uint64_t *a;

size_t group_of(unsigned axis) __asm__("_Z12get_group_idj");
size_t group_of(unsigned axis) { return axis < 3 ? group[axis] : 0; }

size_t item_of(unsigned axis) __asm__("_Z12get_local_idj");
size_t item_of(unsigned axis) { return axis ? 0 : item; }

void barrier_(unsigned flags) __asm__("_Z7barrierj");
void barrier_(unsigned flags) {
  (void)flags;
  swapcontext(&item_[item], &rest);
}

static void one(void) {
#define FROM(n) a[n], a[n + 1], a[n + 2], a[n + 3], a[n + 4], a[n + 5], a[n + 6], a[n + 7]
  start(FROM(0), FROM(8), FROM(16), FROM(24), FROM(32));
  done[item] = 1;
}

/* 40 arguments, the numbers of groups and of work-items. 0 if not all items meet at a barrier. */
int run(const uint64_t *arguments, const uint32_t *groups, uint32_t items) {
  a = arguments;
  if (!stacks) stacks = malloc((size_t)MOST * STACK);
  for (group[2] = 0; group[2] < groups[2]; group[2]++)
    for (group[1] = 0; group[1] < groups[1]; group[1]++)
      for (group[0] = 0; group[0] < groups[0]; group[0]++) {
        for (item = 0; item < items; item++) {
          done[item] = 0;
          getcontext(&item_[item]);
          item_[item].uc_stack.ss_sp = stacks + item * STACK;
          item_[item].uc_stack.ss_size = STACK;
          item_[item].uc_link = &rest;
          makecontext(&item_[item], one, 0);
        }
        for (;;) {
          for (item = 0; item < items; item++) swapcontext(&rest, &item_[item]);
          uint32_t ended = 0;
          for (item = 0; item < items; item++) ended += done[item];
          if (ended == items) break;
          if (ended) return 0;
        }
      }
  return 1;
}
