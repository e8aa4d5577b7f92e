#version 450
// Where a fiber is.
layout(local_size_x = 4, local_size_y = 2, local_size_z = 3) in;
layout(set = 0, binding = 0) writeonly buffer A { uvec4 a[]; };

void main() {
    uvec3 at = gl_GlobalInvocationID, all = gl_NumWorkGroups * gl_WorkGroupSize;
    a[(at.z * all.y + at.y) * all.x + at.x] =
        uvec4(gl_WorkGroupID.x | gl_WorkGroupID.y << 8 | gl_WorkGroupID.z << 16,
              gl_LocalInvocationID.x | gl_LocalInvocationID.y << 8 | gl_LocalInvocationID.z << 16, gl_LocalInvocationIndex,
              gl_NumWorkGroups.x | gl_NumWorkGroups.y << 8 | gl_NumWorkGroups.z << 16);
}
