#version 450
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// Halves in memory and in registers.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float16_t a[]; };
layout(set = 0, binding = 1) readonly buffer B { float16_t b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float16_t c[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    c[i] = max(a[i] * b[i], float16_t(0.5)) - a[i];
}
