#version 450
// Loops that fibers leave at different times.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) writeonly buffer A { uint a[]; };

uint steps(uint n) {
    uint count = 0;
    while (n != 1) {
        if (n % 2 == 0) n /= 2;
        else n = 3 * n + 1;
        if (++count == 100) return 1000 + n % 7;
    }
    return count;
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    a[i] = i % 5 == 3 ? i : steps(i + 1);
}
