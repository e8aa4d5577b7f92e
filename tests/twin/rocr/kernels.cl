// What cl.c runs.
kernel void add(global const float *x, global const float *y, global float *z, int n) {
    int i = get_global_id(0);
    if (i < n) z[i] = x[i] + y[i];
}

kernel void sum(global const int *x, global int *all, local int *part, int n) {
    int me = get_local_id(0), s = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) s += x[i];
    part[me] = s;
    for (int rest = get_local_size(0) / 2; rest > 0; rest /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < rest) part[me] += part[me + rest];
    }
    if (me == 0) atomic_add(all, part[0]);
}

kernel void halve(global double *x, double by) { x[get_global_id(0)] /= by; }
kernel void turn(global const uchar4 *x, global uchar4 *y) { y[get_global_id(0)] = x[get_global_id(0)].wzyx; }
