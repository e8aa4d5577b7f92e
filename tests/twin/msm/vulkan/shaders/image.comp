#version 450
// Images that are loaded and stored.
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0, rgba32f) readonly uniform image2D from;
layout(set = 0, binding = 1, rgba32f) writeonly uniform image2D to;

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    ivec2 size = imageSize(to);
    if (all(lessThan(at, size))) imageStore(to, at, imageLoad(from, at.yx) * 2.0 + vec4(at, size));
}
