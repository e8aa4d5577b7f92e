#include "vulkan.h"

VkDevice device;
VkQueue queue;
VkCommandPool pool;
VkPhysicalDevice physical;
VkPhysicalDeviceProperties properties;
int has_halves, has_shorts;
static VkInstance instance;
static VkPhysicalDeviceMemoryProperties memories;
static const char *kernels;
static int rights;

void check(VkResult result, const char *what) {
    if (result == VK_SUCCESS) return;
    printf("%s: result %d\n", what, result);
    exit(1);
}

void right(const char *name, int is) {
    printf("%s %s\n", is ? "right" : "WRONG", name);
    fflush(stdout);
    if (!is) exit(1);
    rights++;
}

void missing(const char *name) {
    printf("not there: %s\n", name);
    fflush(stdout);
}

void begin(const char *folder) {
    kernels = folder;
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    DO(vkCreateInstance(&info, NULL, &instance));
    uint32_t count = 1;
    DO(vkEnumeratePhysicalDevices(instance, &count, &physical));
    vkGetPhysicalDeviceProperties(physical, &properties);
    vkGetPhysicalDeviceMemoryProperties(physical, &memories);
    printf("device %s, Vulkan %u.%u\n", properties.deviceName, VK_VERSION_MAJOR(properties.apiVersion),
           VK_VERSION_MINOR(properties.apiVersion));
    VkPhysicalDeviceVulkan12Features two = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features one = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &two};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &one};
    vkGetPhysicalDeviceFeatures2(physical, &features);
    has_halves = one.storageBuffer16BitAccess && two.shaderFloat16;
    has_shorts = one.storageBuffer16BitAccess && features.features.shaderInt16 && features.features.shaderInt64;
    float priority = 1;
    VkDeviceQueueCreateInfo queues = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo made = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queues};
    DO(vkCreateDevice(physical, &made, NULL, &device));
    vkGetDeviceQueue(device, 0, 0, &queue);
    VkCommandPoolCreateInfo of = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    DO(vkCreateCommandPool(device, &of, NULL, &pool));
}

void end(void) {
    vkDestroyCommandPool(device, pool, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    printf("%d are right\n", rights);
}

static VkDeviceMemory memory(VkMemoryRequirements needs, VkMemoryPropertyFlags flags) {
    VkMemoryAllocateFlagsInfo addressed = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                           .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &addressed, .allocationSize = needs.size};
    for (uint32_t i = 0; i < memories.memoryTypeCount; i++) {
        if (!(needs.memoryTypeBits >> i & 1) || (memories.memoryTypes[i].propertyFlags & flags) != flags) continue;
        VkDeviceMemory made;
        info.memoryTypeIndex = i;
        DO(vkAllocateMemory(device, &info, NULL, &made));
        return made;
    }
    printf("no memory with flags %#x\n", flags);
    exit(1);
}

struct buffer buffer(size_t bytes) {
    struct buffer made = {.bytes = bytes};
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
                 VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    DO(vkCreateBuffer(device, &info, NULL, &made.buffer));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, made.buffer, &needs);
    made.memory = memory(needs, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    DO(vkBindBufferMemory(device, made.buffer, made.memory, 0));
    DO(vkMapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, &made.at));
    memset(made.at, 0, bytes);
    return made;
}

void free_buffer(struct buffer *buffer) {
    vkDestroyBuffer(device, buffer->buffer, NULL);
    vkFreeMemory(device, buffer->memory, NULL);
}

struct image image(uint32_t width, uint32_t height, VkImageUsageFlags usage) {
    struct image made = {.width = width, .height = height};
    VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                              .imageType = VK_IMAGE_TYPE_2D,
                              .format = VK_FORMAT_R32G32B32A32_SFLOAT,
                              .extent = {width, height, 1},
                              .mipLevels = 1,
                              .arrayLayers = 1,
                              .samples = VK_SAMPLE_COUNT_1_BIT,
                              // What drivers do with pixels otherwise is their own business.
                              .tiling = VK_IMAGE_TILING_LINEAR,
                              .usage = usage | VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT};
    DO(vkCreateImage(device, &info, NULL, &made.image));
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(device, made.image, &needs);
    made.memory = memory(needs, 0);
    DO(vkBindImageMemory(device, made.image, made.memory, 0));
    VkImageViewCreateInfo view = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                  .image = made.image,
                                  .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                  .format = info.format,
                                  .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    DO(vkCreateImageView(device, &view, NULL, &made.view));
    return made;
}

void free_image(struct image *image) {
    vkDestroyImageView(device, image->view, NULL);
    vkDestroyImage(device, image->image, NULL);
    vkFreeMemory(device, image->memory, NULL);
}

static VkShaderModule module(const char *name) {
    static uint32_t code[1 << 14];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.spv", kernels, name);
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(code, 1, sizeof code, file) : 0;
    if (bytes == 0) {
        printf("%s: expected a kernel\n", path);
        exit(1);
    }
    fclose(file);
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = code};
    VkShaderModule made;
    DO(vkCreateShaderModule(device, &info, NULL, &made));
    return made;
}

static void describe(struct kernel *made, const struct given *given, uint32_t count) {
    VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 8},        {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 8},
                                    {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 8}, {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, 8},
                                    {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 8}};
    VkDescriptorPoolCreateInfo pools = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                        .maxSets = 2,
                                        .poolSizeCount = COUNT(sizes),
                                        .pPoolSizes = sizes};
    DO(vkCreateDescriptorPool(device, &pools, NULL, &made->pool));
    VkDescriptorSetAllocateInfo sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                        .descriptorPool = made->pool,
                                        .descriptorSetCount = made->count,
                                        .pSetLayouts = made->layouts};
    DO(vkAllocateDescriptorSets(device, &sets, made->sets));
    uint32_t at[2] = {0};
    for (uint32_t i = 0; i < count; i++) {
        VkDescriptorBufferInfo of = {.range = VK_WHOLE_SIZE};
        VkDescriptorImageInfo seen = {given[i].sampler, given[i].view, VK_IMAGE_LAYOUT_GENERAL};
        VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = made->sets[given[i].set],
                                      .dstBinding = at[given[i].set]++,
                                      .descriptorCount = 1,
                                      .descriptorType = given[i].type,
                                      .pBufferInfo = &of,
                                      .pImageInfo = &seen};
        if (given[i].buffer) of.buffer = given[i].buffer->buffer;
        if (given[i].type == VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC) of.range = 16;
        vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
    }
}

struct kernel kernel(const char *name, const struct given *given, uint32_t count, uint32_t push, const VkSpecializationInfo *constants) {
    struct kernel made = {.module = module(name), .count = 1};
    VkDescriptorSetLayoutBinding bindings[2][8] = {0};
    uint32_t counts[2] = {0};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t set = given[i].set;
        if (set + 1 > made.count) made.count = set + 1;
        bindings[set][counts[set]] =
            (VkDescriptorSetLayoutBinding){counts[set], given[i].type, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
        counts[set]++;
    }
    for (uint32_t set = 0; set < made.count; set++) {
        VkDescriptorSetLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                .bindingCount = counts[set],
                                                .pBindings = bindings[set]};
        DO(vkCreateDescriptorSetLayout(device, &info, NULL, &made.layouts[set]));
    }
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .setLayoutCount = made.count,
                                         .pSetLayouts = made.layouts,
                                         .pushConstantRangeCount = push > 0,
                                         .pPushConstantRanges = &range};
    DO(vkCreatePipelineLayout(device, &layout, NULL, &made.layout));
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = made.module,
                                                  .pName = "main",
                                                  .pSpecializationInfo = constants},
                                        .layout = made.layout};
    DO(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &made.pipeline));
    describe(&made, given, count);
    return made;
}

void free_kernel(struct kernel *kernel) {
    vkDestroyDescriptorPool(device, kernel->pool, NULL);
    vkDestroyPipeline(device, kernel->pipeline, NULL);
    vkDestroyPipelineLayout(device, kernel->layout, NULL);
    for (uint32_t set = 0; set < kernel->count; set++) vkDestroyDescriptorSetLayout(device, kernel->layouts[set], NULL);
    vkDestroyShaderModule(device, kernel->module, NULL);
}

VkCommandBuffer record(void) {
    VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                        .commandPool = pool,
                                        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                        .commandBufferCount = 1};
    VkCommandBuffer made;
    DO(vkAllocateCommandBuffers(device, &info, &made));
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    DO(vkBeginCommandBuffer(made, &begin));
    return made;
}

void run(VkCommandBuffer commands) {
    DO(vkEndCommandBuffer(commands));
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence;
    DO(vkCreateFence(device, &info, NULL, &fence));
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    DO(vkQueueSubmit(queue, 1, &submit, fence));
    DO(vkWaitForFences(device, 1, &fence, VK_TRUE, 60000000000));
    vkDestroyFence(device, fence, NULL);
    vkFreeCommandBuffers(device, pool, 1, &commands);
}

void dispatch(VkCommandBuffer commands, const struct kernel *kernel, const void *push, uint32_t bytes, const uint32_t offset[1]) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, kernel->count, kernel->sets,
                            offset != NULL, offset);
    if (bytes > 0) vkCmdPushConstants(commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes, push);
}

void once(const struct kernel *kernel, const void *push, uint32_t bytes, uint32_t x, uint32_t y, uint32_t z) {
    VkCommandBuffer commands = record();
    dispatch(commands, kernel, push, bytes, NULL);
    vkCmdDispatch(commands, x, y, z);
    run(commands);
}

void barrier(VkCommandBuffer commands) {
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                                            VK_ACCESS_TRANSFER_WRITE_BIT};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &all, 0, NULL, 0,
                         NULL);
}
