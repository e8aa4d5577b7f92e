#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_16bit_storage : require
// Numbers of 64 and of 16 bits. What is divided is not negative: Mesa 26.2.6 leaves out the step that rounds to zero.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { uint64_t a[]; };
layout(set = 0, binding = 1) buffer B { int16_t b[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    a[i] = a[i] * a[i] / uint64_t(i + 3) + (uint64_t(i) << 40);
    b[i] = int16_t(b[i] * int16_t(3) - int16_t(i)) / int16_t(5);
}
