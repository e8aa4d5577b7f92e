#version 450
// Memory of a group, barriers, and an atomic on memory.
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) readonly buffer A { int a[]; };
layout(set = 0, binding = 1) buffer B { int total; };
layout(push_constant) uniform Push { uint count; };
shared int parts[128];

void main() {
    uint at = gl_LocalInvocationIndex;
    int own = 0;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 128) own += a[i];
    parts[at] = own;
    for (uint half_ = 64; half_ > 0; half_ /= 2) {
        barrier();
        if (at < half_) parts[at] += parts[at + half_];
    }
    if (at == 0) atomicAdd(total, parts[0]);
}
