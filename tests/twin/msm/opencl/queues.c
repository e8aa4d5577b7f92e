// Queues, and what waits for what.
#include "cl.h"
#include <pthread.h>

static cl_kernel added(cl_mem to, int by) {
    cl_kernel made = kernel("added", 1, &to);
    DO(clSetKernelArg(made, 1, sizeof by, &by));
    return made;
}

static cl_int status(cl_event event) {
    cl_int now;
    DO(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof now, &now, NULL));
    return now;
}

static enum found times(void) {
    int x[64] = {0};
    cl_mem a = buffer(sizeof x, x);
    cl_kernel add = added(a, 1);
    size_t work = 64;
    cl_event ran;
    cl_ulong at[4];
    DO(clEnqueueNDRangeKernel(queue, add, 1, NULL, &work, NULL, 0, NULL, &ran));
    DO(clWaitForEvents(1, &ran));
    for (cl_uint i = 0; i < 4; i++) DO(clGetEventProfilingInfo(ran, CL_PROFILING_COMMAND_QUEUED + i, sizeof *at, at + i, NULL));
    DO(clReleaseEvent(ran));
    DO(clReleaseKernel(add));
    DO(clReleaseMemObject(a));
    return at[0] > 0 && at[0] <= at[1] && at[1] <= at[2] && at[2] < at[3];
}

static enum found asked(void) {
    int x[64] = {0};
    cl_int error;
    cl_mem a = buffer(sizeof x, x);
    cl_event go = clCreateUserEvent(context, &error), ran;
    check(error, "clCreateUserEvent");
    cl_kernel add = added(a, 5);
    size_t work = 64;
    DO(clEnqueueNDRangeKernel(queue, add, 1, NULL, &work, NULL, 1, &go, &ran));
    DO(clFlush(queue));
    int waits = status(ran) != CL_COMPLETE;
    DO(clSetUserEventStatus(go, CL_COMPLETE));
    read_all(a, sizeof x, x);
    int done = status(ran) == CL_COMPLETE;
    DO(clReleaseEvent(go));
    DO(clReleaseEvent(ran));
    DO(clReleaseKernel(add));
    DO(clReleaseMemObject(a));
    return waits && done && x[0] == 5 && x[63] == 5;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int told;

static void CL_CALLBACK tell(cl_event event, cl_int status, void *what) {
    (void)event;
    pthread_mutex_lock(&lock);
    told = status == CL_COMPLETE ? *(int *)what : -1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static enum found called(void) {
    int x[64] = {0}, what = 23;
    cl_mem a = buffer(sizeof x, x);
    cl_kernel add = added(a, 5);
    size_t work = 64;
    cl_event ran;
    DO(clEnqueueNDRangeKernel(queue, add, 1, NULL, &work, NULL, 0, NULL, &ran));
    DO(clSetEventCallback(ran, CL_COMPLETE, tell, &what));
    DO(clFlush(queue));
    pthread_mutex_lock(&lock);
    while (told == 0) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    DO(clReleaseEvent(ran));
    DO(clReleaseKernel(add));
    DO(clReleaseMemObject(a));
    return told == 23;
}

static enum found unordered(void) {
    cl_int error;
    cl_command_queue_properties can = 0;
    DO(clGetDeviceInfo(device, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, sizeof can, &can, NULL));
    if (!(can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)) return NOT_THERE;
    cl_queue_properties any[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    cl_command_queue other = clCreateCommandQueueWithProperties(context, device, any, &error);
    check(error, "clCreateCommandQueueWithProperties");
    int x[64] = {0}, y[64];
    cl_mem a = buffer(sizeof x, x), b = buffer(sizeof x, x);
    cl_kernel one = added(a, 5), two = added(b, 6);
    size_t work = 64;
    cl_event ran[2], both, copied;
    DO(clEnqueueNDRangeKernel(other, one, 1, NULL, &work, NULL, 0, NULL, &ran[0]));
    DO(clEnqueueNDRangeKernel(other, two, 1, NULL, &work, NULL, 0, NULL, &ran[1]));
    DO(clEnqueueMarkerWithWaitList(other, 2, ran, &both));
    DO(clEnqueueCopyBuffer(other, a, b, 0, 0, 128, 1, &both, &copied));
    DO(clEnqueueBarrierWithWaitList(other, 1, &copied, NULL));
    DO(clEnqueueReadBuffer(other, b, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL));
    for (int i = 0; i < 2; i++) DO(clReleaseEvent(ran[i]));
    DO(clReleaseEvent(both));
    DO(clReleaseEvent(copied));
    DO(clReleaseKernel(one));
    DO(clReleaseKernel(two));
    DO(clReleaseMemObject(a));
    DO(clReleaseMemObject(b));
    DO(clReleaseCommandQueue(other));
    return y[0] == 5 && y[31] == 5 && y[32] == 6 && y[63] == 6;
}

static enum found two(void) {
    cl_int error;
    cl_command_queue other = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    check(error, "clCreateCommandQueueWithProperties");
    int x[64] = {0};
    cl_mem a = buffer(sizeof x, x);
    cl_kernel one = added(a, 5), two = kernel("twice", 1, &a);
    size_t work = 64;
    cl_event first, second;
    DO(clEnqueueNDRangeKernel(queue, one, 1, NULL, &work, NULL, 0, NULL, &first));
    DO(clFlush(queue));
    DO(clEnqueueNDRangeKernel(other, two, 1, NULL, &work, NULL, 1, &first, &second));
    DO(clFlush(other));
    DO(clEnqueueNDRangeKernel(queue, one, 1, NULL, &work, NULL, 1, &second, NULL));
    read_all(a, sizeof x, x);
    DO(clReleaseEvent(first));
    DO(clReleaseEvent(second));
    DO(clReleaseKernel(one));
    DO(clReleaseKernel(two));
    DO(clReleaseMemObject(a));
    DO(clReleaseCommandQueue(other));
    return x[0] == 15 && x[63] == 15;
}

static enum found failed(void) {
    cl_int error;
    int x[64] = {0};
    cl_mem a = buffer(sizeof x, x);
    cl_event go = clCreateUserEvent(context, &error), ran;
    check(error, "clCreateUserEvent");
    // A queue of its own: what comes behind may fail, too.
    cl_command_queue other = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    check(error, "clCreateCommandQueueWithProperties");
    DO(clEnqueueWriteBuffer(other, a, CL_FALSE, 0, sizeof x, x, 1, &go, &ran));
    DO(clSetUserEventStatus(go, -77));
    error = clWaitForEvents(1, &ran);
    int is = error == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST && status(ran) < 0;
    DO(clReleaseEvent(go));
    DO(clReleaseEvent(ran));
    DO(clReleaseCommandQueue(other));
    DO(clReleaseMemObject(a));
    return is;
}

const struct check queues[] = {
    {"times of a command", times}, {"events of the host", asked}, {"a call when a command is done", called},
    {"a queue without an order", unordered}, {"two queues", two}, {"an event that fails", failed}, {NULL, NULL},
};
