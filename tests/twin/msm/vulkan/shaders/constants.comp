#version 450
// What is known when a pipeline is made.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint factor = 3;
layout(constant_id = 2) const bool add = false;
layout(set = 0, binding = 0) buffer A { uint a[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    a[i] = i * factor + (add ? gl_WorkGroupSize.x : 0);
}
