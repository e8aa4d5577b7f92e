// What is recorded beside kernels, and how submissions wait for each other.
#include "vulkan.h"

static void copies(void) {
    struct buffer a = buffer(8192), b = buffer(8192);
    uint32_t *x = a.at, *y = b.at, given[64];
    for (uint32_t i = 0; i < 64; i++) given[i] = i * i + 5;
    VkCommandBuffer commands = record();
    vkCmdFillBuffer(commands, a.buffer, 0, VK_WHOLE_SIZE, 0x1234abcd);
    barrier(commands);
    vkCmdUpdateBuffer(commands, a.buffer, 256, sizeof given, given);
    barrier(commands);
    VkBufferCopy parts[] = {{256, 0, 256}, {0, 1024, 512}, {3, 4001, 77}};
    vkCmdCopyBuffer(commands, a.buffer, b.buffer, COUNT(parts), parts);
    run(commands);
    int wrong = 0;
    for (uint32_t i = 0; i < 2048; i++) wrong += x[i] != (i >= 64 && i < 128 ? given[i - 64] : 0x1234abcd);
    right("a buffer that is filled, and written in part", wrong == 0);
    static uint8_t wanted[8192];
    for (size_t i = 0; i < COUNT(parts); i++) memcpy(wanted + parts[i].dstOffset, (char *)x + parts[i].srcOffset, parts[i].size);
    right("copies of parts", memcmp(y, wanted, sizeof wanted) == 0);
    free_buffer(&a), free_buffer(&b);
}

static struct kernel constants(const struct buffer *a) {
    struct given given[] = {STORAGE(a)};
    static const uint32_t values[] = {32, 5, VK_TRUE};
    static const VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}};
    static const VkSpecializationInfo info = {3, entries, sizeof values, values};
    return kernel("constants", given, 1, 0, &info);
}

static void secondary(void) {
    struct buffer a = buffer(256);
    struct kernel kernel = constants(&a);
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_SECONDARY,
                                        .commandBufferCount = 1};
    VkCommandBuffer inner;
    DO(vkAllocateCommandBuffers(device, &info, &inner));
    VkCommandBufferInheritanceInfo inherited = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .pInheritanceInfo = &inherited};
    DO(vkBeginCommandBuffer(inner, &begin));
    dispatch(inner, &kernel, NULL, 0, NULL);
    vkCmdDispatch(inner, 2, 1, 1);
    DO(vkEndCommandBuffer(inner));
    VkCommandBuffer commands = record();
    vkCmdExecuteCommands(commands, 1, &inner);
    run(commands);
    int wrong = 0;
    for (uint32_t i = 0; i < 64; i++) wrong += ((uint32_t *)a.at)[i] != i * 5 + 32;
    right("commands of another buffer", wrong == 0);
    vkFreeCommandBuffers(device, pool, 1, &inner);
    free_kernel(&kernel);
    free_buffer(&a);
}

static void times(void) {
    struct buffer a = buffer(256);
    struct kernel kernel = constants(&a);
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2};
    VkQueryPool queries;
    DO(vkCreateQueryPool(device, &info, NULL, &queries));
    VkCommandBuffer commands = record();
    vkCmdResetQueryPool(commands, queries, 0, 2);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries, 0);
    dispatch(commands, &kernel, NULL, 0, NULL);
    vkCmdDispatch(commands, 2, 1, 1);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 1);
    run(commands);
    uint64_t at[2] = {0};
    DO(vkGetQueryPoolResults(device, queries, 0, 2, sizeof at, at, 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    right("times", at[0] > 0 && at[1] > at[0]);
    vkDestroyQueryPool(device, queries, NULL);
    free_kernel(&kernel);
    free_buffer(&a);
}

static void events(void) {
    struct buffer a = buffer(1024);
    VkEventCreateInfo info = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
    VkEvent event;
    DO(vkCreateEvent(device, &info, NULL, &event));
    right("an event that is not set", vkGetEventStatus(device, event) == VK_EVENT_RESET);
    VkCommandBuffer commands = record();
    vkCmdFillBuffer(commands, a.buffer, 0, 512, 7);
    vkCmdSetEvent(commands, event, VK_PIPELINE_STAGE_TRANSFER_BIT);
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    vkCmdWaitEvents(commands, 1, &event, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 1, &all, 0, NULL, 0, NULL);
    VkBufferCopy half = {0, 512, 512};
    vkCmdCopyBuffer(commands, a.buffer, a.buffer, 1, &half);
    run(commands);
    int wrong = 0;
    for (int i = 0; i < 256; i++) wrong += ((uint32_t *)a.at)[i] != 7;
    right("an event that commands set and wait for", wrong == 0 && vkGetEventStatus(device, event) == VK_EVENT_SET);
    vkDestroyEvent(device, event, NULL);
    free_buffer(&a);
}

// Submissions wait for a value of the host, and the host for a value of theirs.
static void timeline(void) {
    struct buffer a = buffer(256);
    struct kernel kernel = constants(&a);
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
                                      .initialValue = 3};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore;
    DO(vkCreateSemaphore(device, &info, NULL, &semaphore));
    VkCommandBuffer commands[2];
    for (int i = 0; i < 2; i++) {
        commands[i] = record();
        if (i == 0) {
            dispatch(commands[i], &kernel, NULL, 0, NULL);
            vkCmdDispatch(commands[i], 2, 1, 1);
        } else {
            vkCmdFillBuffer(commands[i], a.buffer, 0, 128, 9);
        }
        DO(vkEndCommandBuffer(commands[i]));
        uint64_t waits = 4 + i, signals = 5 + i;
        VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                .waitSemaphoreValueCount = 1,
                                                .pWaitSemaphoreValues = &waits,
                                                .signalSemaphoreValueCount = 1,
                                                .pSignalSemaphoreValues = &signals};
        VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
        VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &values,
                               .waitSemaphoreCount = 1,
                               .pWaitSemaphores = &semaphore,
                               .pWaitDstStageMask = &stage,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands[i],
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &semaphore};
        DO(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
    }
    uint64_t now = 0, last = 6;
    DO(vkGetSemaphoreCounterValue(device, semaphore, &now));
    right("submissions that wait", now == 3 && *(uint32_t *)a.at == 0);
    VkSemaphoreSignalInfo go = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = 4};
    DO(vkSignalSemaphore(device, &go));
    VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &semaphore,
                                .pValues = &last};
    DO(vkWaitSemaphores(device, &wait, 60000000000));
    int wrong = 0;
    for (uint32_t i = 0; i < 64; i++) wrong += ((uint32_t *)a.at)[i] != (i < 32 ? 9 : i * 5 + 32);
    right("submissions in their order", wrong == 0);
    DO(vkDeviceWaitIdle(device));
    vkFreeCommandBuffers(device, pool, 2, commands);
    vkDestroySemaphore(device, semaphore, NULL);
    free_kernel(&kernel);
    free_buffer(&a);
}

void commands(void) { copies(), secondary(), times(), events(), timeline(); }
