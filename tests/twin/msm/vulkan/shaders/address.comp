#version 450
#extension GL_EXT_buffer_reference : require
// Memory by its address.
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Numbers { uint numbers[]; };
layout(push_constant) uniform Push { Numbers from; Numbers to; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    to.numbers[i] = from.numbers[255 - i] ^ i;
}
