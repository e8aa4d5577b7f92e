// A Vulkan device for compute, with what checks of it need.
#pragma once
#include <vulkan/vulkan.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Memory that both sides see.
struct buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *at;
    size_t bytes;
};

// What a kernel is given at a binding.
struct given {
    VkDescriptorType type;
    const struct buffer *buffer;
    VkImageView view;
    VkSampler sampler;
    // Which set; bindings count from 0 in each.
    uint32_t set;
};

// A kernel that can be recorded.
struct kernel {
    VkShaderModule module;
    VkDescriptorSetLayout layouts[2];
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkDescriptorPool pool;
    VkDescriptorSet sets[2];
    uint32_t count;
};

struct image {
    VkImage image;
    VkDeviceMemory memory;
    VkImageView view;
    uint32_t width, height;
};

extern VkDevice device;
extern VkQueue queue;
extern VkCommandPool pool;
extern VkPhysicalDevice physical;
extern VkPhysicalDeviceProperties properties;
// Whether halves, and whether shorts and numbers of 64 bits, may be in buffers and in registers.
extern int has_halves, has_shorts;

// Ends the program where a call fails.
void check(VkResult result, const char *what);
#define DO(call) check((call), #call)

// The first device, with all features that it has.
void begin(const char *folder);
void end(void);
struct buffer buffer(size_t bytes);
void free_buffer(struct buffer *buffer);
// A kernel of a file, with what it is given; `push` bytes come with the commands.
struct kernel kernel(const char *name, const struct given *given, uint32_t count, uint32_t push, const VkSpecializationInfo *constants);
void free_kernel(struct kernel *kernel);
struct image image(uint32_t width, uint32_t height, VkImageUsageFlags usage);
void free_image(struct image *image);
// Commands that are recorded, and run to their end.
VkCommandBuffer record(void);
void run(VkCommandBuffer commands);
void dispatch(VkCommandBuffer commands, const struct kernel *kernel, const void *push, uint32_t bytes, const uint32_t offset[1]);
// A kernel alone, on so many groups.
void once(const struct kernel *kernel, const void *push, uint32_t bytes, uint32_t x, uint32_t y, uint32_t z);
// Whatever was written is seen behind it.
void barrier(VkCommandBuffer commands);
// What was checked, and what the device has not.
void right(const char *name, int is);
void missing(const char *name);

#define STORAGE(b) {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, (b), VK_NULL_HANDLE, VK_NULL_HANDLE, 0}
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// The checks.
void compute(void);
void images(void);
void commands(void);
