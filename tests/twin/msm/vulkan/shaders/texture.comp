#version 450
// A texture by its pixels, and between them.
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0) uniform sampler2D from;
layout(set = 0, binding = 1) writeonly buffer To { vec4 to[]; };

void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = textureSize(from, 0);
    uint place = (at.y * size.x + at.x) * 2;
    to[place] = texelFetch(from, at, 0);
    to[place + 1] = textureLod(from, (vec2(at) + 1.0) / vec2(size), 0.0);
}
