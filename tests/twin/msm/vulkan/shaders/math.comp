#version 450
// Functions.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) writeonly buffer B { float b[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = a[i];
    b[i * 8] = sin(x);
    b[i * 8 + 1] = cos(x);
    b[i * 8 + 2] = exp(x);
    b[i * 8 + 3] = log(x);
    b[i * 8 + 4] = sqrt(x);
    b[i * 8 + 5] = inversesqrt(x);
    b[i * 8 + 6] = x / 3.7;
    b[i * 8 + 7] = pow(x, 1.5);
}
