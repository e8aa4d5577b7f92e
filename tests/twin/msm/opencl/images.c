// Images.
#include "cl.h"

enum { W = 20, H = 12 };
static const size_t ZERO[3] = {0, 0, 0}, WHOLE[3] = {W, H, 1};

static int has_images(void) {
    cl_bool can = CL_FALSE;
    DO(clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof can, &can, NULL));
    return can;
}

static cl_mem image(cl_channel_order order, cl_channel_type type, cl_image_desc desc) {
    cl_image_format format = {order, type};
    cl_int error;
    cl_mem made = clCreateImage(context, CL_MEM_READ_WRITE, &format, &desc, NULL, &error);
    check(error, "clCreateImage");
    return made;
}

static cl_mem flat(cl_channel_order order, cl_channel_type type, size_t width, size_t height) {
    return image(order, type, (cl_image_desc){.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = height});
}

static void run2(cl_kernel kernel, size_t width, size_t height) {
    size_t work[] = {width, height};
    DO(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, work, NULL, 0, NULL, NULL));
}

static enum found stored(void) {
    static float x[H * W * 4], y[W * H * 4];
    int wrong = 0;
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < W * H * 4; i++) x[i] = i * 0.5f;
    // The first one lies on its side.
    cl_mem all[] = {flat(CL_RGBA, CL_FLOAT, H, W), flat(CL_RGBA, CL_FLOAT, W, H)};
    size_t side[] = {H, W, 1};
    DO(clEnqueueWriteImage(queue, all[0], CL_TRUE, ZERO, side, 0, 0, x, 0, NULL, NULL));
    cl_kernel image = kernel("image", 2, all);
    run2(image, W, H);
    DO(clEnqueueReadImage(queue, all[1], CL_TRUE, ZERO, WHOLE, 0, 0, y, 0, NULL, NULL));
    for (int row = 0; row < H; row++) {
        for (int column = 0; column < W; column++) {
            float more[] = {column, row, W, H};
            for (int k = 0; k < 4; k++) wrong += y[(row * W + column) * 4 + k] != x[(column * H + row) * 4 + k] * 2 + more[k];
        }
    }
    DO(clReleaseKernel(image));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return wrong == 0;
}

static enum found integers(void) {
    static uint8_t x[H][W][4], y[H][W][4];
    int wrong = 0;
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < H * W * 4; i++) ((uint8_t *)x)[i] = (uint8_t)(i % 200);
    cl_mem all[] = {flat(CL_RGBA, CL_UNSIGNED_INT8, W, H), flat(CL_RGBA, CL_UNSIGNED_INT8, W, H)};
    DO(clEnqueueWriteImage(queue, all[0], CL_TRUE, ZERO, WHOLE, 0, 0, x, 0, NULL, NULL));
    cl_kernel integers = kernel("integer_image", 2, all);
    run2(integers, W, H);
    DO(clEnqueueReadImage(queue, all[1], CL_TRUE, ZERO, WHOLE, 0, 0, y, 0, NULL, NULL));
    for (int row = 0; row < H; row++) {
        for (int column = 0; column < W; column++) {
            // What lies outside is 0.
            for (int k = 0; k < 4; k++) wrong += y[row][column][k] != (row && column ? x[row - 1][column - 1][k] : 0) + 5;
        }
    }
    DO(clReleaseKernel(integers));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return wrong == 0;
}

static enum found sampled(void) {
    static float x[H][W][4], y[H][W][4];
    int wrong = 0;
    cl_int error;
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < H * W * 4; i++) ((float *)x)[i] = i % 29;
    cl_mem from = flat(CL_RGBA, CL_FLOAT, W, H), to = buffer(sizeof y, NULL);
    DO(clEnqueueWriteImage(queue, from, CL_TRUE, ZERO, WHOLE, 0, 0, x, 0, NULL, NULL));
    cl_sampler_properties how[] = {CL_SAMPLER_NORMALIZED_COORDS, CL_TRUE, CL_SAMPLER_ADDRESSING_MODE, CL_ADDRESS_CLAMP_TO_EDGE,
                                   CL_SAMPLER_FILTER_MODE, CL_FILTER_LINEAR, 0};
    cl_sampler sampler = clCreateSamplerWithProperties(context, how, &error);
    check(error, "clCreateSamplerWithProperties");
    cl_kernel sampled = kernel("sampled", 1, &from);
    DO(clSetKernelArg(sampled, 1, sizeof sampler, &sampler));
    DO(clSetKernelArg(sampled, 2, sizeof to, &to));
    run2(sampled, W, H);
    read_all(to, sizeof y, y);
    for (int row = 0; row < H; row++) {
        for (int column = 0; column < W; column++) {
            int right = column + 1 < W ? column + 1 : column, below = row + 1 < H ? row + 1 : row;
            for (int k = 0; k < 4; k++) {
                float four = x[row][column][k] + x[row][right][k] + x[below][column][k] + x[below][right][k];
                wrong += fabsf(y[row][column][k] - four / 4) > 1e-2f;
            }
        }
    }
    DO(clReleaseKernel(sampled));
    DO(clReleaseSampler(sampler));
    DO(clReleaseMemObject(from));
    DO(clReleaseMemObject(to));
    return wrong == 0;
}

static enum found filled(void) {
    static uint32_t y[H][W], parts[4 * 3];
    int wrong = 0;
    if (!has_images()) return NOT_THERE;
    cl_mem a = flat(CL_R, CL_UNSIGNED_INT32, W, H), b = flat(CL_R, CL_UNSIGNED_INT32, W, H), c = buffer(sizeof parts, NULL);
    cl_uint color[] = {7, 0, 0, 0}, other[] = {9, 0, 0, 0};
    size_t from[] = {4, 2, 0}, part[] = {4, 3, 1}, to[] = {10, 5, 0};
    DO(clEnqueueFillImage(queue, a, color, ZERO, WHOLE, 0, NULL, NULL));
    DO(clEnqueueFillImage(queue, b, other, ZERO, WHOLE, 0, NULL, NULL));
    DO(clEnqueueFillImage(queue, a, other + 1, from, part, 0, NULL, NULL));
    DO(clEnqueueCopyImage(queue, a, b, from, to, part, 0, NULL, NULL));
    DO(clEnqueueCopyImageToBuffer(queue, b, c, to, part, 0, 0, NULL, NULL));
    DO(clEnqueueReadImage(queue, b, CL_TRUE, ZERO, WHOLE, 0, 0, y, 0, NULL, NULL));
    for (int row = 0; row < H; row++) {
        for (int column = 0; column < W; column++) {
            int inside = column >= 10 && column < 14 && row >= 5 && row < 8;
            wrong += y[row][column] != (inside ? 0 : 9);
        }
    }
    read_all(c, sizeof parts, parts);
    for (int i = 0; i < 12; i++) wrong += parts[i] != 0;
    for (int i = 0; i < 12; i++) parts[i] = 100 + i;
    DO(clEnqueueWriteBuffer(queue, c, CL_TRUE, 0, sizeof parts, parts, 0, NULL, NULL));
    DO(clEnqueueCopyBufferToImage(queue, c, a, 0, from, part, 0, NULL, NULL));
    DO(clEnqueueReadImage(queue, a, CL_TRUE, from, part, 0, 0, y, 0, NULL, NULL));
    for (int i = 0; i < 12; i++) wrong += ((uint32_t *)y)[i] != 100u + i;
    DO(clReleaseMemObject(a));
    DO(clReleaseMemObject(b));
    DO(clReleaseMemObject(c));
    return wrong == 0;
}

static enum found mapped(void) {
    int wrong = 0;
    cl_int error;
    if (!has_images()) return NOT_THERE;
    cl_mem a = flat(CL_RG, CL_SIGNED_INT16, W, H);
    size_t pitch = 0, from[] = {1, 1, 0}, part[] = {8, 8, 1};
    char *at = clEnqueueMapImage(queue, a, CL_TRUE, CL_MAP_WRITE, ZERO, WHOLE, &pitch, NULL, 0, NULL, NULL, &error);
    check(error, "clEnqueueMapImage");
    for (int row = 0; row < H; row++) {
        for (int column = 0; column < W; column++) ((int32_t *)(at + row * pitch))[column] = row << 16 | column;
    }
    DO(clEnqueueUnmapMemObject(queue, a, at, 0, NULL, NULL));
    at = clEnqueueMapImage(queue, a, CL_TRUE, CL_MAP_READ, from, part, &pitch, NULL, 0, NULL, NULL, &error);
    check(error, "clEnqueueMapImage");
    for (int row = 0; row < 8; row++) {
        for (int column = 0; column < 8; column++) wrong += ((int32_t *)(at + row * pitch))[column] != ((row + 1) << 16 | (column + 1));
    }
    DO(clEnqueueUnmapMemObject(queue, a, at, 0, NULL, NULL));
    DO(clFinish(queue));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found line(void) {
    float x[64][4], y[64][4];
    int wrong = 0;
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < 256; i++) ((float *)x)[i] = i;
    cl_mem a = buffer(sizeof x, x), to = buffer(sizeof y, NULL);
    cl_mem from = image(CL_RGBA, CL_FLOAT, (cl_image_desc){.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .image_width = 64, .mem_object = a});
    cl_mem all[] = {from, to};
    cl_kernel line = kernel("line", 2, all);
    run(line, 64, 0);
    read_all(to, sizeof y, y);
    for (int i = 0; i < 64; i++) wrong += memcmp(y[i], x[63 - i], 16) != 0;
    DO(clReleaseKernel(line));
    DO(clReleaseMemObject(from));
    DO(clReleaseMemObject(to));
    DO(clReleaseMemObject(a));
    return wrong == 0;
}

static enum found deep(void) {
    enum { S = 6 };
    float x[S * S * S], y[S * S * S];
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < S * S * S; i++) x[i] = i * 0.25f;
    cl_mem from = image(CL_R, CL_FLOAT, (cl_image_desc){.image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = S, .image_height = S, .image_depth = S});
    cl_mem all[] = {from, buffer(sizeof y, NULL)};
    size_t whole[] = {S, S, S};
    DO(clEnqueueWriteImage(queue, from, CL_TRUE, ZERO, whole, 0, 0, x, 0, NULL, NULL));
    cl_kernel layers = kernel("layers", 2, all);
    DO(clEnqueueNDRangeKernel(queue, layers, 3, NULL, whole, NULL, 0, NULL, NULL));
    read_all(all[1], sizeof y, y);
    DO(clReleaseKernel(layers));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return memcmp(x, y, sizeof x) == 0;
}

const struct check images[] = {
    {"an image that is stored", stored}, {"an image of integers", integers}, {"a filter of an image", sampled},
    {"images that are filled and copied", filled}, {"an image that is mapped", mapped}, {"an image of a buffer", line},
    {"an image of three dimensions", deep}, {NULL, NULL},
};
