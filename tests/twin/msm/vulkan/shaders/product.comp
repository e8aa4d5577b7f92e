#version 450
// A product of matrices, by tiles.
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { uint side; };
shared float left[8][8], right[8][8];

void main() {
    uint x = gl_GlobalInvocationID.x, y = gl_GlobalInvocationID.y, i = gl_LocalInvocationID.x, j = gl_LocalInvocationID.y;
    float sum = 0;
    for (uint tile = 0; tile < side; tile += 8) {
        left[j][i] = a[y * side + tile + i];
        right[j][i] = b[(tile + j) * side + x];
        barrier();
        for (uint k = 0; k < 8; k++) sum += left[j][k] * right[k][i];
        barrier();
    }
    c[y * side + x] = sum;
}
