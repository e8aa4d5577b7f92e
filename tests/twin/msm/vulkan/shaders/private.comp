#version 450
// An array of each fiber's own, by an index that is not known before.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { uint a[]; };
layout(set = 0, binding = 1) writeonly buffer B { uint b[]; };

void main() {
    uint i = gl_GlobalInvocationID.x, counts[40], best = 0;
    for (uint k = 0; k < 40; k++) counts[k] = k % 3;
    for (uint k = 0; k < 32; k++) counts[a[(i * 5 + k * k) % 256] % 40]++;
    for (uint k = 0; k < 40; k++) best = max(best, counts[k] * 64 + k);
    b[i] = best;
}
