// Images: linear ones, since what else drivers do with pixels is not modelled.
#include "vulkan.h"

static void general(VkCommandBuffer commands, const struct image *image) {
    VkImageMemoryBarrier to = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                               .dstAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                               .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
                               .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                               .image = image->image,
                               .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, NULL, 0, NULL, 1,
                         &to);
}

static VkBufferImageCopy whole(const struct image *image) {
    return (VkBufferImageCopy){.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                               .imageExtent = {image->width, image->height, 1}};
}

static void stored(void) {
    enum { N = 24 };
    struct buffer a = buffer(N * N * 16), b = buffer(N * N * 16);
    float *x = a.at, *y = b.at;
    for (int i = 0; i < N * N * 4; i++) x[i] = i * 0.5f;
    struct image from = image(N, N, VK_IMAGE_USAGE_STORAGE_BIT), to = image(N, N, VK_IMAGE_USAGE_STORAGE_BIT);
    struct given given[] = {{VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, NULL, from.view, VK_NULL_HANDLE, 0},
                            {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, NULL, to.view, VK_NULL_HANDLE, 0}};
    struct kernel image = kernel("image", given, 2, 0, NULL);
    VkBufferImageCopy all = whole(&from);
    VkCommandBuffer commands = record();
    general(commands, &from), general(commands, &to);
    vkCmdCopyBufferToImage(commands, a.buffer, from.image, VK_IMAGE_LAYOUT_GENERAL, 1, &all);
    barrier(commands);
    dispatch(commands, &image, NULL, 0, NULL);
    vkCmdDispatch(commands, N / 8, N / 8, 1);
    barrier(commands);
    vkCmdCopyImageToBuffer(commands, to.image, VK_IMAGE_LAYOUT_GENERAL, b.buffer, 1, &all);
    run(commands);
    int wrong = 0;
    for (int row = 0; row < N; row++) {
        for (int column = 0; column < N; column++) {
            float more[] = {column, row, N, N};
            for (int k = 0; k < 4; k++) wrong += y[(row * N + column) * 4 + k] != x[(column * N + row) * 4 + k] * 2 + more[k];
        }
    }
    right("images that are stored", wrong == 0);
    free_kernel(&image);
    free_image(&from), free_image(&to);
    free_buffer(&a), free_buffer(&b);
}

static void sampled(void) {
    enum { N = 16 };
    struct buffer a = buffer(N * N * 16), b = buffer(N * N * 32);
    float *x = a.at, *y = b.at;
    for (int i = 0; i < N * N * 4; i++) x[i] = i % 29;
    struct image from = image(N, N, VK_IMAGE_USAGE_SAMPLED_BIT);
    VkSamplerCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO,
                                .magFilter = VK_FILTER_LINEAR,
                                .minFilter = VK_FILTER_LINEAR,
                                .addressModeU = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                .addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                .addressModeW = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE};
    VkSampler sampler;
    DO(vkCreateSampler(device, &info, NULL, &sampler));
    struct given given[] = {{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, NULL, from.view, sampler, 0}, STORAGE(&b)};
    struct kernel texture = kernel("texture", given, 2, 0, NULL);
    VkBufferImageCopy all = whole(&from);
    VkCommandBuffer commands = record();
    general(commands, &from);
    vkCmdCopyBufferToImage(commands, a.buffer, from.image, VK_IMAGE_LAYOUT_GENERAL, 1, &all);
    barrier(commands);
    dispatch(commands, &texture, NULL, 0, NULL);
    vkCmdDispatch(commands, N / 8, N / 8, 1);
    run(commands);
    int exact = 0, between = 0;
    for (int row = 0; row < N; row++) {
        for (int column = 0; column < N; column++) {
            int right = column + 1 < N ? column + 1 : column, below = row + 1 < N ? row + 1 : row;
            for (int k = 0; k < 4; k++, y++) {
                exact += y[0] != x[(row * N + column) * 4 + k];
                // In the middle of four pixels, or of what an edge repeats.
                float four = x[(row * N + column) * 4 + k] + x[(row * N + right) * 4 + k] + x[(below * N + column) * 4 + k] +
                             x[(below * N + right) * 4 + k];
                between += fabsf(y[4] - four / 4) > 1e-3f;
            }
            y += 4;
        }
    }
    right("pixels of a texture", exact == 0);
    right("a filter between pixels", between == 0);
    free_kernel(&texture);
    vkDestroySampler(device, sampler, NULL);
    free_image(&from);
    free_buffer(&a), free_buffer(&b);
}

void images(void) { stored(), sampled(); }
