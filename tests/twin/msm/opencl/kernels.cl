// Kernels of the program beside this file.
kernel void add(global const float *a, global const float *b, global float *c, int n) {
    int i = get_global_id(0);
    if (i < n) c[i] = a[i] + b[i];
}

kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }

kernel void sum(global const int *a, global int *total, local int *parts, int n) {
    int at = get_local_id(0), own = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) own += a[i];
    parts[at] = own;
    for (int half_ = get_local_size(0) / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (at < half_) parts[at] += parts[at + half_];
    }
    if (at == 0) atomic_add(total, parts[0]);
}

kernel void turn(global const int *from, global int *to) {
    local int own[64];
    int at = get_local_id(0), group = get_group_id(0) * 64;
    own[63 - at] = from[group + at];
    barrier(CLK_LOCAL_MEM_FENCE);
    to[group + at] = own[at];
}

kernel void atomics(global uint *all) {
    uint i = get_global_id(0);
    atomic_add(all, i);
    atomic_min(all + 1, i * 7 % 61 + 3);
    atomic_max(all + 2, i * 7 % 61 + 3);
    atomic_and(all + 3, ~(1u << i % 16));
    atomic_or(all + 4, 1u << i % 32);
    atomic_xor(all + 5, i);
    if (i == 5) atomic_xchg(all + 6, 17);
    atomic_cmpxchg(all + 7, 0, 23);
    atomic_inc(all + 8);
    atomic_dec(all + 9);
}

kernel void vectors(global const float4 *a, global float4 *b) {
    int i = get_global_id(0);
    float4 v = a[i];
    b[i] = v.wzyx * 2.0f + (float4)(dot(v, v), v.x, length(v.xy), any(v > 3.0f) ? 1.0f : 0.0f);
}

kernel void bytes(global const uchar4 *a, global short4 *b, global char *c) {
    int i = get_global_id(0);
    b[i] = convert_short4(a[i]) * (short)-3 + (short)i;
    c[i] = convert_char_sat(as_short(convert_ushort(a[i].x)) - 100 + b[i].y);
}

kernel void longs(global ulong *a, global const ulong *b) {
    int i = get_global_id(0);
    a[i] = a[i] * b[i] + mul_hi(a[i], b[i]) + (a[i] >> (i % 60)) + b[i] / (i + 7) + b[i] % 1000003;
}

constant int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
kernel void constants(global int *a, constant int *more) {
    int i = get_global_id(0);
    a[i] = table[i % 8] * 100 + more[i % 5];
}

struct pair { int by; float and; char last; };
kernel void structs(global float *a, struct pair pair) { a[get_global_id(0)] = get_global_id(0) * pair.by + pair.and + pair.last; }

kernel void arrays(global const uint *a, global uint *b) {
    uint i = get_global_id(0), counts[24], best = 0;
    for (uint k = 0; k < 24; k++) counts[k] = k % 3;
    for (uint k = 0; k < 32; k++) counts[a[(i * 5 + k * k) % 128] % 24]++;
    for (uint k = 0; k < 24; k++) best = max(best, counts[k] * 64 + k);
    b[i] = best;
}

kernel void flow(global uint *a) {
    uint i = get_global_id(0), n = i + 1, count = 0;
    while (n != 1 && count < 60) {
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
        count++;
    }
    switch (i % 4) {
    case 0: a[i] = count; break;
    case 1: a[i] = count * 3; break;
    case 2: a[i] = ~count;
    default: a[i] += 5;
    }
}

kernel void places(global int *a) {
    int x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1), z = get_global_id(2);
    int at = (z * get_global_size(1) + y) * get_global_size(0) + x;
    a[at] = get_global_id(0) | get_global_id(1) << 6 | z << 12 | get_local_id(0) << 18 | get_group_id(1) << 22 | get_work_dim() << 26;
}

kernel void sizes(global int *a) { a[get_global_id(0)] = get_local_size(0) * 1000 + get_local_id(0) + get_num_groups(0) * 100000; }

kernel void math(global const float *a, global float *b) {
    int i = get_global_id(0);
    float x = a[i];
    global float *to = b + i * 10;
    // Debian's libclc has no sin, cos and fma for Mesa.
    to[0] = native_sin(x), to[1] = native_cos(x), to[2] = exp(x), to[3] = log(x), to[4] = sqrt(x);
    to[5] = pow(x, 1.5f), to[6] = atan2(x, 2.0f), to[7] = mad(x, x, 1.0f), to[8] = x / 3.7f, to[9] = fmod(x, 0.7f);
}

kernel void integers(global const uint *a, global uint *b) {
    int i = get_global_id(0);
    uint x = a[i], y = a[i + 1];
    global uint *to = b + i * 8;
    to[0] = mul_hi(x, y), to[1] = clz(x), to[2] = rotate(x, 7u), to[3] = popcount(x), to[4] = bitselect(x, y, 0xff00ff00u);
    to[5] = abs_diff(x, y), to[6] = add_sat(x, y), to[7] = mad24(x & 0xffff, y & 0xff, 3u);
}

kernel void halves(global const half *a, global half *b) {
    int i = get_global_id(0);
    vstore_half(vload_half(i, a) * 2.0f + 0.25f, i, b);
}

kernel void copied(global const int *from, global int *to) {
    local int own[128];
    event_t done = async_work_group_copy(own, from + get_group_id(0) * 128, 128, 0);
    wait_group_events(1, &done);
    int at = get_local_id(0);
    own[at] += own[at + 64];
    barrier(CLK_LOCAL_MEM_FENCE);
    done = async_work_group_copy(to + get_group_id(0) * 64, own, 64, 0);
    wait_group_events(1, &done);
}

kernel void image(read_only image2d_t from, write_only image2d_t to) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, at, read_imagef(from, at.yx) * 2.0f + (float4)(at.x, at.y, get_image_width(to), get_image_height(to)));
}

kernel void integer_image(read_only image2d_t from, write_only image2d_t to) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    const sampler_t exact = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    write_imageui(to, at, read_imageui(from, exact, at - 1) + 5);
}

kernel void sampled(read_only image2d_t from, sampler_t how, global float4 *to) {
    int x = get_global_id(0), y = get_global_id(1), width = get_image_width(from);
    to[y * width + x] = read_imagef(from, how, (float2)(x + 1.0f, y + 1.0f) / (float2)(width, get_image_height(from)));
}

kernel void line(read_only image1d_buffer_t from, global float4 *to) {
    int i = get_global_id(0);
    to[i] = read_imagef(from, get_image_width(from) - 1 - i);
}

kernel void layers(read_only image3d_t from, global float *to) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
    to[(z * get_global_size(1) + y) * get_global_size(0) + x] = read_imagef(from, (int4)(x, y, z, 0)).x;
}

#define COPIES(name, type, read, write)                                                                  \
    kernel void name(read_only image2d_t from, write_only image2d_t to, global type *seen) {            \
        int2 at = (int2)(get_global_id(0), get_global_id(1));                                            \
        type pixel = read(from, at);                                                                     \
        seen[at.y * get_image_width(from) + at.x] = pixel;                                               \
        write(to, at, pixel);                                                                            \
    }
COPIES(copy_floats, float4, read_imagef, write_imagef)
COPIES(copy_ints, int4, read_imagei, write_imagei)
COPIES(copy_uints, uint4, read_imageui, write_imageui)

kernel void turned_layers(read_only image2d_array_t from, write_only image2d_array_t to) {
    int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
    int4 other = (int4)(at.xy, get_image_array_size(to) - 1 - at.z, 0);
    write_imageui(to, other, read_imageui(from, at) + (uint)at.z);
}

kernel void addressed(read_only image2d_t from, sampler_t how, global float *to) {
    int i = get_global_id(0), width = get_image_width(from);
    to[i] = read_imagef(from, how, (float2)((i + 0.5f) / width - 1, 1.5f / get_image_height(from))).x;
}

kernel void said(int n) { printf("said %d %s %.2f\n", n + (int)get_global_id(0), "words", 2.5f); }

kernel void added(global int *a, int by) { a[get_global_id(0)] += by; }
