#version 450
// Buffers that do not change, one of them from an offset that comes with the commands.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) uniform A { vec4 a[64]; };
layout(set = 0, binding = 1) uniform B { vec4 b; };
layout(set = 1, binding = 0) writeonly buffer C { vec4 c[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    c[i] = a[i * 7 % 64] + b;
}
