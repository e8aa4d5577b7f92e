#version 450
// Every atomic, on memory and on that of a group.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer All { uint all[]; };
shared uint own[8];

void main() {
    uint i = gl_GlobalInvocationID.x, at = gl_LocalInvocationIndex;
    if (at < 8) own[at] = at == 1 || at == 3 ? ~0u : 0;
    barrier();
    atomicAdd(own[0], i);
    atomicMin(own[1], i * 7 % 61 + 3);
    atomicMax(own[2], i * 7 % 61 + 3);
    atomicAnd(own[3], ~(1u << i % 16));
    atomicOr(own[4], 1u << i % 32);
    atomicXor(own[5], i);
    if (at == 5) atomicExchange(own[6], 17);
    atomicCompSwap(own[7], 0, 23);
    barrier();
    if (at == 0) {
        atomicAdd(all[0], own[0]);
        atomicMin(all[1], own[1]);
        atomicMax(all[2], own[2]);
        atomicAnd(all[3], own[3]);
        atomicOr(all[4], own[4]);
        atomicXor(all[5], own[5]);
        atomicExchange(all[6], own[6]);
        atomicCompSwap(all[7], 0, own[7]);
    }
}
