#!/usr/bin/env python3
"""tinygrad with one deliberate mistake at a time: the twin must name the rule that it breaks.

usage: mutations.py [--short] [NAME...]

It is made in the driver's commands, rings or ioctls; the work is the same: some kernels, copies and a captured
graph.
"""
import importlib
import re
import time

import mistakes
from mistakes import mistake as registered


def mistake(rules, chip="gfx1100", short=False, work="work"):
    return registered(rules, chip, short, work)


# --- Caches ---

@mistake("CACHE-SCALAR-STALE", short=True)
def no_acquire(amd):
    amd.AMDComputeQueue.acquire_mem = lambda self, *_, **__: self


@mistake("CACHE-SCALAR-STALE")
def acquire_without_the_scalar_cache(amd):
    old = amd.AMDComputeQueue.acquire_mem
    amd.AMDComputeQueue.acquire_mem = lambda self, **k: old(self, **{**k, "glk": 0})


@mistake("CACHE-VECTOR-STALE")
def acquire_without_the_vector_caches(amd):
    old = amd.AMDComputeQueue.acquire_mem
    amd.AMDComputeQueue.acquire_mem = lambda self, **k: old(self, **{**k, "glv": 0})
    # What a release invalidates too.
    flag(amd, "PACKET3_RELEASE_MEM", 1, clear=1 << 14)


@mistake("CACHE-INST-STALE", work="new_code")
def acquire_without_the_instruction_cache(amd):
    old = amd.AMDComputeQueue.acquire_mem
    amd.AMDComputeQueue.acquire_mem = lambda self, **k: old(self, **{**k, "gli": 0})


@mistake("HDP-NOT-FLUSHED", chip="gfx1100,drain=never", short=True)
def no_hdp_flush(amd):
    amd.AMDComputeQueue.memory_barrier = lambda self: self.acquire_mem()


@mistake("CACHE-L2-NOT-WRITTEN-BACK", short=True)
def release_without_write_back(amd):
    # Neither the releases nor the acquires of the compute queue write GL2 back.
    flag(amd, "PACKET3_RELEASE_MEM", 1, clear=1 << 21)
    flag(amd, "PACKET3_ACQUIRE_MEM", 7, clear=1 << 15 | 1 << 14)


# --- PM4 ---

def flag(amd, packet, word, clear=0, set=0, when=lambda words: True):
    """Changes bits of word number `word` of every such packet."""
    old = amd.AMDComputeQueue.pkt3

    def pkt3(self, cmd, *values):
        if cmd == getattr(self.pm4, packet) and when(values):
            values = [v & ~clear | set if i == word - 1 else v for i, v in enumerate(values)]
        return old(self, cmd, *values)
    amd.AMDComputeQueue.pkt3 = pkt3


def drop(amd, packet):
    old = amd.AMDComputeQueue.pkt3
    amd.AMDComputeQueue.pkt3 = lambda self, cmd, *v: None if cmd == getattr(self.pm4, packet) else old(self, cmd, *v)


def register(amd, name, change):
    """Changes the values that are written to a register, or drops the write where that gives None."""
    old = amd.AMDComputeQueue.wreg

    def wreg(self, reg, *values, **fields):
        if reg.name == name:
            values, fields = change(values or (reg.encode(**fields),)), {}
            if values is None:
                return
        old(self, reg, *values, **fields)
    amd.AMDComputeQueue.wreg = wreg


@mistake("PM4-DISPATCH-RACE", work="graph")
def no_partial_flush_between_kernels(amd):
    drop(amd, "PACKET3_EVENT_WRITE")


@mistake("PM4-OPCODE")
def an_unknown_packet(amd):
    old = amd.AMDComputeQueue.memory_barrier
    amd.AMDComputeQueue.memory_barrier = lambda self: (self.pkt3(0xFD, 0), old(self))[1]


@mistake("PM4-LENGTH")
def an_acquire_of_the_older_chips(amd):
    old = amd.AMDComputeQueue.pkt3
    amd.AMDComputeQueue.pkt3 = lambda self, cmd, *v: old(self, cmd, *(v[:6] if cmd == self.pm4.PACKET3_ACQUIRE_MEM else v))


@mistake("PM4-IB-VALID", work="graph")
def an_indirect_buffer_that_is_not_valid(amd):
    old = amd.AMDComputeQueue.bind

    def bind(self, dev):
        old(self, dev)
        self.indirect_cmd[-1] &= ~self.pm4.INDIRECT_BUFFER_VALID
        return self
    amd.AMDComputeQueue.bind = bind


@mistake("VGPR-RANGE")
def waves_of_64_for_code_of_32(amd):
    old = amd.AMDProgram.__init__

    def init(self, *a, **k):
        old(self, *a, **k)
        self.wave32 = False
    amd.AMDProgram.__init__ = init


@mistake("PM4-PRIV-GFX11")
def no_priv_bit(amd):
    register(amd, "regCOMPUTE_PGM_RSRC1", lambda v: (v[0] & ~(1 << 20), *v[1:]))


@mistake("PM4-REG-UNSET", short=True)
def a_register_that_is_never_set(amd):
    register(amd, "regCOMPUTE_PGM_RSRC3", lambda v: None)


@mistake("PM4-REG-UNMODELLED")
def a_register_that_is_not_there(amd):
    old = amd.AMDComputeQueue.memory_barrier
    amd.AMDComputeQueue.memory_barrier = lambda self: (self.pkt3(self.pm4.PACKET3_SET_SH_REG, 0x2FF, 1), old(self))[1]


@mistake("LDS-RANGE", short=True, work="shared_memory")
def the_wrong_granule_of_lds(amd):
    # 512 bytes a granule; as if it were 4096.
    register(amd, "regCOMPUTE_PGM_RSRC1", lambda v: (v[0], v[1] & ~(0x1FF << 15) | ((v[1] >> 15 & 0x1FF) // 8) << 15))


@mistake("PM4-SCRATCH-SIZE", work="scratch")
def scratch_that_is_too_small(amd):
    register(amd, "regCOMPUTE_TMPRING_SIZE", lambda v: (v[0] | 0xFFF,))


@mistake("GPU-PAGE-FAULT")
def code_at_the_wrong_address(amd):
    register(amd, "regCOMPUTE_PGM_LO", lambda v: (v[0] + 0x40000, v[1]))


@mistake("PM4-NUM-THREAD")
def a_workgroup_without_threads(amd):
    register(amd, "regCOMPUTE_START_X", lambda v: (*v[:3], 0, *v[4:]))


@mistake("Q-ALIGN")
def a_signal_that_is_not_aligned(amd):
    flag(amd, "PACKET3_RELEASE_MEM", 3, set=2, when=lambda v: v[2])


# --- Rings and doorbells ---

@mistake("Q-DOORBELL-WPTR", short=True)
def the_doorbell_before_the_write_pointer(amd):
    def ring(self, dev, doorbell_value=None):
        self.doorbell[0] = self.put_value if doorbell_value is None else doorbell_value
        time.sleep(0.05)
        self.write_ptr[0] = self.put_value
    amd.AMDQueueDesc.signal_doorbell = ring


@mistake("Q-DOORBELL-WPTR")
def a_doorbell_in_bytes(amd):
    old = amd.AMDQueueDesc.signal_doorbell

    def ring(self, dev, doorbell_value=None):
        compute = self is dev.compute_queue
        old(self, dev, self.put_value * 4 if compute else doorbell_value)
    amd.AMDQueueDesc.signal_doorbell = ring


@mistake("SDMA-WPTR-UNIT")
def the_write_pointer_of_sdma_in_dwords(amd):
    old = amd.AMDQueueDesc.signal_doorbell

    def ring(self, dev, doorbell_value=None):
        if self is dev.compute_queue:
            return old(self, dev, doorbell_value)
        self.write_ptr[0] = self.doorbell[0] = self.put_value // 4
    amd.AMDQueueDesc.signal_doorbell = ring


@mistake("Q-DOORBELL-WPTR", chip="gfx942,xcc=8", short=True)
def the_doorbell_of_aql_one_too_far(amd):
    old = amd.AMDQueueDesc.signal_doorbell

    def ring(self, dev, doorbell_value=None):
        old(self, dev, None)
    amd.AMDQueueDesc.signal_doorbell = ring


@mistake("PM4-TYPE")
def the_write_pointer_before_the_data(amd):
    old = amd.AMDComputeQueue._submit

    def submit(self, dev):
        queue = dev.compute_queue
        cmds = self.indirect_cmd if dev == self.binded_device else list(self._q)
        start, ring = queue.put_value, queue.ring
        queue.put_value += len(cmds)
        queue.signal_doorbell(dev)
        time.sleep(0.05)
        for i, value in enumerate(cmds):
            ring[(start + i) % len(ring)] = value
    amd.AMDComputeQueue._submit = submit


@mistake("Q-WPTR-RING")
def a_write_pointer_past_the_ring(amd):
    old = amd.AMDQueueDesc.signal_doorbell

    def ring(self, dev, doorbell_value=None):
        self.put_value += len(self.ring)
        old(self, dev, doorbell_value)
    amd.AMDQueueDesc.signal_doorbell = ring


# --- SDMA ---

@mistake("SDMA-STRADDLE", work="many_copies")
def a_packet_over_the_end_of_the_ring(amd):
    def submit(self, dev):
        queue = dev.sdma_queue(self.queue_idx)
        start = queue.put_value % queue.ring.nbytes // 4
        for i, value in enumerate(self._q):
            queue.ring[(start + i) % len(queue.ring)] = value
        queue.put_value += len(self._q) * 4
        queue.signal_doorbell(dev)
    amd.AMDCopyQueue._submit = submit


@mistake("SDMA-FENCE-MTYPE")
def a_fence_without_its_memory_type(amd):
    old = amd.AMDCopyQueue.q
    amd.AMDCopyQueue.q = lambda self, *v: old(self, *([5, *v[1:]] if v[0] & 0xFF == 5 else v))


@mistake("SDMA-COUNT", chip="gfx942")
def a_copy_larger_than_the_engine_can(amd):
    # 30 bits of a count; this is one more.
    old = amd.AMDCopyQueue.q
    amd.AMDCopyQueue.q = lambda self, *v: old(self, *((v[0], v[1] | 1 << 30, *v[2:]) if v[0] & 0xFF == 1 else v))


@mistake("SDMA-OPCODE")
def an_unknown_packet_of_sdma(amd):
    old = amd.AMDCopyQueue.copy
    amd.AMDCopyQueue.copy = lambda self, *a: (self.q(0x7F), old(self, *a))[1]


# --- AQL ---

def packet(amd, change):
    old = amd.AMDComputeAQLQueue.exec

    def run(self, *a):
        old(self, *a)
        change(self._q[-1])
        return self
    amd.AMDComputeAQLQueue.exec = run


@mistake("AQL-RESERVED", chip="gfx942,xcc=8")
def a_reserved_field_of_aql(amd):
    packet(amd, lambda p: setattr(p, "reserved2", 7))


@mistake("AQL-KERNARG", chip="gfx942,xcc=8")
def kernel_arguments_at_the_wrong_address(amd):
    packet(amd, lambda p: setattr(p, "kernarg_address", p.kernarg_address ^ 1 << 40))


@mistake("AQL-GROUP-SIZE", chip="gfx942,xcc=8", work="shared_memory")
def no_lds_in_the_packet(amd):
    packet(amd, lambda p: setattr(p, "group_segment_size", 0))


@mistake("AQL-KERNEL-OBJECT", chip="gfx942,xcc=8")
def the_code_in_place_of_the_descriptor(amd):
    packet(amd, lambda p: setattr(p, "kernel_object", p.kernel_object + 0x40))


# --- The kernel driver ---

def queue_argument(amd, **changes):
    """Changes arguments of CREATE_QUEUE for compute queues: old value -> new value."""
    old = amd.kfd.AMDKFD_IOC_CREATE_QUEUE

    def create(fd, **k):
        if k["queue_type"] != amd.kfd.KFD_IOC_QUEUE_TYPE_SDMA:
            for name, change in changes.items():
                k[name] = change(k[name])
        return old(fd, **k)
    amd.kfd.AMDKFD_IOC_CREATE_QUEUE = create


@mistake("KFD-CWSR-SIZE", short=True)
def a_save_area_that_is_too_small(amd):
    queue_argument(amd, ctx_save_restore_size=lambda n: n - 4096)


@mistake("KFD-CTL-STACK-SIZE")
def a_control_stack_of_another_size(amd):
    queue_argument(amd, ctl_stack_size=lambda n: n + 4096)


@mistake("KFD-QUEUE-BUFFER-SIZE")
def a_ring_of_another_size(amd):
    queue_argument(amd, ring_size=lambda n: n // 2)


@mistake("KFD-EOP-SIZE")
def an_end_of_pipe_buffer_of_another_size(amd):
    queue_argument(amd, eop_buffer_size=lambda n: 8192)


@mistake("PM4-EOP-BUFFER")
def no_end_of_pipe_buffer(amd):
    queue_argument(amd, eop_buffer_size=lambda n: 0, eop_buffer_address=lambda n: 0)


@mistake("KFD-ACQUIRE-VM")
def memory_before_acquire_vm(amd):
    amd.kfd.AMDKFD_IOC_ACQUIRE_VM = lambda *_, **__: None


@mistake("KFD-UNMAP-QUEUE-BUFFER", work="free_the_ring")
def a_ring_that_is_freed(amd):
    old = amd.KFDIface.create_queue

    def create(self, queue_type, ring, *a, **k):
        self.first_ring = getattr(self, "first_ring", ring)
        return old(self, queue_type, ring, *a, **k)
    amd.KFDIface.create_queue = create


@mistake("GPU-PAGE-FAULT", work="use_after_free")
def memory_that_is_used_after_it_is_freed(amd):
    pass


# --- What runs under a mistake ---

def work(amd, tinygrad):
    import numpy as np
    t = tinygrad.Tensor
    x = np.arange(5000, dtype=np.float32).reshape(50, 100)
    a = t(x).realize()
    for k in range(3):
        b = (a + k).realize()
        np.testing.assert_allclose((b * 2).sum(1).numpy(), ((x + k) * 2).sum(1))
        a.assign(t(x)).realize()
        tinygrad.Device[tinygrad.Device.DEFAULT].synchronize()


def graph(amd, tinygrad):
    import numpy as np
    t = tinygrad.Tensor

    @tinygrad.TinyJit
    def step(x):
        y = (x + 1).contiguous().sum(0).contiguous()
        return (y * 2).contiguous().max().realize()
    for k in range(5):
        x = np.full((64, 64), k, dtype=np.float32)
        np.testing.assert_allclose(step(t(x)).numpy(), 128 * (k + 1))


def shared_memory(amd, tinygrad):
    import numpy as np
    x = np.random.default_rng(0).uniform(-1, 1, (1, 1 << 16)).astype(np.float32)
    np.testing.assert_allclose(tinygrad.Tensor(x).sum(1).numpy(), x.sum(1), rtol=1e-3, atol=1e-3)


SCRATCH = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %out) #0 {
  %a = alloca [512 x i32], addrspace(5)
  %id = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr [512 x i32], ptr addrspace(5) %a, i32 0, i32 %id
  %mul = mul i32 %id, 3
  store volatile i32 %mul, ptr addrspace(5) %p
  %v = load volatile i32, ptr addrspace(5) %p
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %id
  store i32 %v, ptr addrspace(1) %o
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }
"""


def scratch(amd, tinygrad):
    """A kernel whose work-items keep 2 KiB each in memory."""
    from tinygrad.runtime.support.compiler_llvm import AMDLLVMCompiler
    device = tinygrad.Device[tinygrad.Device.DEFAULT]
    code = AMDLLVMCompiler(device.arch).compile(SCRATCH)
    program = amd.AMDProgram(device, amd.TinyELF(code, "k", None, ()))
    out = tinygrad.Tensor([0] * 256, dtype="int32").realize()
    program(out.uop.base.buffer._buf, global_size=(1, 1, 1), local_size=(256, 1, 1), wait=True)
    assert out.tolist() == [3 * k for k in range(256)], out.tolist()


def many_copies(amd, tinygrad):
    import numpy as np
    device = tinygrad.Device[tinygrad.Device.DEFAULT]
    x = tinygrad.Tensor(np.arange(64, dtype=np.float32)).realize()
    # The ring is made to be nearly at its end by one long run of empty dwords.
    queue = device.sdma_queue(0)
    for _ in range(3):
        device.synchronize()
        words = (queue.ring.nbytes - queue.put_value % queue.ring.nbytes) // 4 - 3
        at = queue.put_value % queue.ring.nbytes // 4
        while words:
            # A NOP with what it skips, as large as they can be.
            take = min(words, 0x4000)
            queue.ring[at] = (take - 1) << 16
            at, words = at + take, words - take
        queue.put_value = queue.put_value - queue.put_value % queue.ring.nbytes + at * 4
        queue.signal_doorbell(device)
        time.sleep(0.05)
        x.numpy()


def new_code(amd, tinygrad):
    """Other programs at the addresses of earlier ones."""
    import gc
    import numpy as np
    x = tinygrad.Tensor(np.arange(64, dtype=np.float32)).realize()
    device = tinygrad.Device[tinygrad.Device.DEFAULT]
    kept = None
    for k in range(4):
        allocator, alloc = device.allocator, device.allocator.alloc
        if kept is not None:
            allocator.alloc = lambda size, options=None: kept if options and options.nolru and size == kept.size else alloc(size, options)
        y = (x * (k + 2) - k).numpy()
        allocator.alloc = alloc
        np.testing.assert_allclose(y, np.arange(64) * (k + 2.0) - k)
        kept = kept or next(r for r in gc.get_objects() if isinstance(r, amd.AMDProgram)).lib_gpu


def free_the_ring(amd, tinygrad):
    device = tinygrad.Device[tinygrad.Device.DEFAULT]
    tinygrad.Tensor([1.0]).realize()
    device.synchronize()
    device.iface.free(device.iface.first_ring)


def use_after_free(amd, tinygrad):
    import numpy as np
    t = tinygrad.Tensor
    x = t(np.ones((1 << 20,), np.float32)).realize()
    device = tinygrad.Device[tinygrad.Device.DEFAULT]
    device.synchronize()
    device.iface.free(x.uop.base.buffer._buf)
    (x + 1).realize()
    device.synchronize()


if __name__ == "__main__":
    mistakes.main(__file__, lambda: importlib.import_module("tinygrad.runtime.ops_amd"), globals())
