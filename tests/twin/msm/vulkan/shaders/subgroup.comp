#version 450
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
// What fibers of a wave tell each other.
layout(local_size_x = 128) in;
layout(set = 0, binding = 0) writeonly buffer A { uvec4 a[]; };
layout(set = 0, binding = 1) writeonly buffer B { uint size; };

void main() {
    uint i = gl_LocalInvocationIndex, at = gl_SubgroupInvocationID;
    uvec4 odd = subgroupBallot((i & 1) == 1);
    a[i] = uvec4(subgroupShuffleXor(i, 3), subgroupShuffleXor(i, 1), subgroupBallotBitCount(odd) | (subgroupAny(i == 9) ? 1 << 16 : 0),
                 (subgroupElect() ? 1 : 0) | at << 16);
    if (i == 0) size = gl_SubgroupSize;
}
