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

// Components of a format in memory, 0 for those that are not looked at.
static int components(cl_channel_order order) {
    return order == CL_R ? 1 : order == CL_RG ? 2 : order == CL_RGBA || order == CL_BGRA ? 4 : 0;
}

// Bytes of a component, 0 for those that are not looked at.
static int bytes_of(cl_channel_type type) {
    switch (type) {
    case CL_SNORM_INT8: case CL_UNORM_INT8: case CL_SIGNED_INT8: case CL_UNSIGNED_INT8: return 1;
    case CL_SNORM_INT16: case CL_UNORM_INT16: case CL_SIGNED_INT16: case CL_UNSIGNED_INT16: case CL_HALF_FLOAT: return 2;
    case CL_SIGNED_INT32: case CL_UNSIGNED_INT32: case CL_FLOAT: return 4;
    default: return 0;
    }
}

static const char *kernel_for(cl_channel_type type) {
    switch (type) {
    case CL_SIGNED_INT8: case CL_SIGNED_INT16: case CL_SIGNED_INT32: return "copy_ints";
    case CL_UNSIGNED_INT8: case CL_UNSIGNED_INT16: case CL_UNSIGNED_INT32: return "copy_uints";
    default: return "copy_floats";
    }
}

// A component as a kernel sees it: a float, or an integer that a double holds.
static double seen_as(cl_channel_type type, const uint8_t *at) {
    int8_t byte;
    int16_t two;
    int32_t four;
    float single;
    _Float16 half;
    memcpy(&byte, at, 1), memcpy(&two, at, bytes_of(type) >= 2 ? 2 : 1), memcpy(&half, &two, 2);
    memcpy(&four, at, bytes_of(type) == 4 ? 4 : 1), memcpy(&single, &four, 4);
    switch (type) {
    case CL_SNORM_INT8: return byte / 127.0;
    case CL_SNORM_INT16: return two / 32767.0;
    case CL_UNORM_INT8: return (uint8_t)byte / 255.0;
    case CL_UNORM_INT16: return (uint16_t)two / 65535.0;
    case CL_SIGNED_INT8: return byte;
    case CL_SIGNED_INT16: return two;
    case CL_SIGNED_INT32: return four;
    case CL_UNSIGNED_INT8: return (uint8_t)byte;
    case CL_UNSIGNED_INT16: return (uint16_t)two;
    case CL_UNSIGNED_INT32: return (uint32_t)four;
    case CL_HALF_FLOAT: return half;
    default: return single;
    }
}

static void pixels_for(cl_image_format format, uint8_t *to, size_t count) {
    for (size_t i = 0; i < count * components(format.image_channel_order); i++) {
        float value = (i % 61) * 0.25f - 7;
        _Float16 half = value;
        if (format.image_channel_data_type == CL_FLOAT) memcpy(to + i * 4, &value, 4);
        if (format.image_channel_data_type == CL_HALF_FLOAT) memcpy(to + i * 2, &half, 2);
    }
    if (format.image_channel_data_type == CL_FLOAT || format.image_channel_data_type == CL_HALF_FLOAT) return;
    // No least number: it is written back as the next one.
    for (size_t i = 0; i < count * components(format.image_channel_order) * bytes_of(format.image_channel_data_type); i++) {
        to[i] = (uint8_t)(i * 37 + 11);
        if (to[i] == 0x80) to[i]++;
    }
}

// Pixels of a format are written and read, seen by a kernel, and stored by it. Mesa's driver of Adreno tiles images that are at
// least 16 pixels wide, and copies tiled halves by a draw (freedreno/a6xx/fd6_blitter.cc, can_do_blit: the 2D engine changes their
// NaNs): those here are narrower.
static int format_is_wrong(cl_image_format format) {
    static uint8_t x[W * H * 16], y[W * H * 16];
    static uint32_t seen[W * H][4];
    cl_channel_type type = format.image_channel_data_type;
    int count = components(format.image_channel_order), bytes = bytes_of(type), wrong = 0;
    const int width = type == CL_HALF_FLOAT ? 12 : W;
    const size_t whole[3] = {width, H, 1};
    pixels_for(format, x, width * H);
    cl_mem all[] = {flat(format.image_channel_order, type, width, H), flat(format.image_channel_order, type, width, H),
                    buffer(sizeof seen, NULL)};
    DO(clEnqueueWriteImage(queue, all[0], CL_TRUE, ZERO, whole, 0, 0, x, 0, NULL, NULL));
    cl_kernel copy = kernel(kernel_for(type), 3, all);
    run2(copy, width, H);
    for (int i = 0; i < 2; i++) {
        memset(y, 0xee, sizeof y);
        DO(clEnqueueReadImage(queue, all[i], CL_TRUE, ZERO, whole, 0, 0, y, 0, NULL, NULL));
        wrong += memcmp(x, y, (size_t)(width * H * count * bytes)) != 0;
    }
    read_all(all[2], sizeof seen, seen);
    for (int i = 0; i < width * H; i++) {
        double pixel[4] = {0, 0, 0, 1};
        for (int k = 0; k < count; k++) pixel[k] = seen_as(type, x + (i * count + k) * bytes);
        if (format.image_channel_order == CL_BGRA) {
            double first = pixel[0];
            pixel[0] = pixel[2], pixel[2] = first;
        }
        for (int k = 0; k < 4; k++) {
            float single;
            memcpy(&single, &seen[i][k], 4);
            double is = strcmp(kernel_for(type), "copy_ints") == 0 ? (double)(int32_t)seen[i][k] : (double)seen[i][k];
            if (strcmp(kernel_for(type), "copy_floats") == 0) is = single;
            wrong += fabs(is - pixel[k]) > 1e-5;
        }
    }
    DO(clReleaseKernel(copy));
    for (int i = 0; i < 3; i++) DO(clReleaseMemObject(all[i]));
    if (wrong) printf("%d are wrong of the format %#x of %#x\n", wrong, type, format.image_channel_order);
    return wrong != 0;
}

static enum found formats(void) {
    cl_image_format all[256];
    cl_uint count;
    int wrong = 0, right = 0;
    if (!has_images()) return NOT_THERE;
    DO(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, COUNT(all), all, &count));
    for (cl_uint i = 0; i < count && i < COUNT(all); i++) {
        if (components(all[i].image_channel_order) == 0 || bytes_of(all[i].image_channel_data_type) == 0) continue;
        if (format_is_wrong(all[i])) wrong++;
        else right++;
    }
    // OpenCL 3.0, 5.3.1.1: eleven with four components.
    return wrong == 0 && right >= 11;
}

static enum found array(void) {
    enum { LAYERS = 5 };
    static uint32_t x[LAYERS][H][W], y[LAYERS][H][W];
    int wrong = 0;
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < LAYERS * H * W; i++) ((uint32_t *)x)[i] = i * 3u;
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D_ARRAY, .image_width = W, .image_height = H, .image_array_size = LAYERS};
    cl_mem all[] = {image(CL_R, CL_UNSIGNED_INT32, desc), image(CL_R, CL_UNSIGNED_INT32, desc)};
    size_t whole[] = {W, H, LAYERS};
    DO(clEnqueueWriteImage(queue, all[0], CL_TRUE, ZERO, whole, 0, 0, x, 0, NULL, NULL));
    cl_kernel turned = kernel("turned_layers", 2, all);
    DO(clEnqueueNDRangeKernel(queue, turned, 3, NULL, whole, NULL, 0, NULL, NULL));
    DO(clEnqueueReadImage(queue, all[1], CL_TRUE, ZERO, whole, 0, 0, y, 0, NULL, NULL));
    for (int z = 0; z < LAYERS; z++) {
        for (int row = 0; row < H; row++) {
            for (int column = 0; column < W; column++) wrong += y[LAYERS - 1 - z][row][column] != x[z][row][column] + (uint32_t)z;
        }
    }
    DO(clReleaseKernel(turned));
    DO(clReleaseMemObject(all[0]));
    DO(clReleaseMemObject(all[1]));
    return wrong == 0;
}

static enum found addressed(void) {
    static const cl_addressing_mode modes[] = {CL_ADDRESS_REPEAT, CL_ADDRESS_MIRRORED_REPEAT, CL_ADDRESS_CLAMP_TO_EDGE, CL_ADDRESS_CLAMP};
    static float x[H][W][4], y[3 * W];
    int wrong = 0;
    cl_int error;
    if (!has_images()) return NOT_THERE;
    for (int i = 0; i < H * W * 4; i++) ((float *)x)[i] = 1 + i;
    cl_mem from = flat(CL_RGBA, CL_FLOAT, W, H), to = buffer(sizeof y, NULL);
    DO(clEnqueueWriteImage(queue, from, CL_TRUE, ZERO, WHOLE, 0, 0, x, 0, NULL, NULL));
    for (size_t mode = 0; mode < COUNT(modes); mode++) {
        cl_sampler_properties how[] = {CL_SAMPLER_NORMALIZED_COORDS, CL_TRUE, CL_SAMPLER_ADDRESSING_MODE, modes[mode],
                                       CL_SAMPLER_FILTER_MODE, CL_FILTER_NEAREST, 0};
        cl_sampler sampler = clCreateSamplerWithProperties(context, how, &error);
        check(error, "clCreateSamplerWithProperties");
        cl_kernel addressed = kernel("addressed", 1, &from);
        DO(clSetKernelArg(addressed, 1, sizeof sampler, &sampler));
        DO(clSetKernelArg(addressed, 2, sizeof to, &to));
        run(addressed, 3 * W, 0);
        read_all(to, sizeof y, y);
        for (int i = 0; i < 3 * W; i++) {
            int at = i - W, inside = at >= 0 && at < W;
            int edge = at < 0 ? 0 : at >= W ? W - 1 : at, mirrored = at < 0 ? -1 - at : at >= W ? 2 * W - 1 - at : at;
            float wanted[] = {x[1][i % W][0], x[1][mirrored][0], x[1][edge][0], inside ? x[1][edge][0] : 0};
            wrong += y[i] != wanted[mode];
        }
        DO(clReleaseKernel(addressed));
        DO(clReleaseSampler(sampler));
    }
    DO(clReleaseMemObject(from));
    DO(clReleaseMemObject(to));
    return wrong == 0;
}

const struct check images[] = {
    {"an image that is stored", stored}, {"an image of integers", integers}, {"a filter of an image", sampled},
    {"images that are filled and copied", filled}, {"an image that is mapped", mapped}, {"an image of a buffer", line},
    {"an image of three dimensions", deep}, {"formats of images", formats}, {"an array of images", array},
    {"what is outside of an image", addressed}, {NULL, NULL},
};
