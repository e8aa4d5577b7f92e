#!/usr/bin/env python3
"""tinygrad on NVIDIA's twin with one deliberate mistake at a time: the twin must name the rule that it breaks.

usage: mutations.py [--short] [NAME...]

It is made in the driver's ioctls, rings, methods or QMDs; the work is the same: some kernels, copies and a
captured graph.
"""
import mistakes
from mistakes import mistake as registered


def mistake(rules, short=False, work="work", chip="ad102"):
    return registered(rules, chip, short, work)


# --- Calls of the kernel driver ---

def skip(nv, owner, name, when):
    """Leaves calls out of which `when` is true."""
    old = getattr(owner, name)
    setattr(owner, name, lambda *a, **k: None if when(nv.nv_gpu, *a) else old(*a, **k))


@mistake("RM-SCHEDULE-REGISTERED", short=True)
def a_channel_that_uvm_does_not_know(nv):
    nv.NVKIface.setup_gpfifo_vm = lambda self, gpfifo: None


@mistake("UVM-MM", short=True)
def no_second_file_of_uvm(nv):
    skip(nv, nv.NVKIface, "uvm", lambda gpu, self, cmd, *_: cmd == gpu.UVM_MM_INITIALIZE)


@mistake("UVM-MAP")
def memory_without_a_range(nv):
    skip(nv, nv.NVKIface, "uvm", lambda gpu, self, cmd, *_: cmd == gpu.UVM_CREATE_EXTERNAL_RANGE)


@mistake("UVM-GPU")
def a_gpu_that_is_not_registered(nv):
    skip(nv, nv.NVKIface, "uvm", lambda gpu, self, cmd, *_: cmd == gpu.UVM_REGISTER_GPU)


@mistake("UVM-GPU")
def an_address_space_that_is_not_registered(nv):
    skip(nv, nv.NVKIface, "uvm", lambda gpu, self, cmd, *_: cmd == gpu.UVM_REGISTER_GPU_VASPACE)


@mistake("UVM-INITIALIZE")
def uvm_that_is_not_initialized(nv):
    skip(nv, nv.NVKIface, "uvm", lambda gpu, self, cmd, *_: cmd == gpu.UVM_INITIALIZE)


@mistake("RM-CLIENT", work="host_memory")
def a_file_of_the_gpu_that_is_not_registered(nv):
    skip(nv, nv, "nv_iowr", lambda gpu, fd, nr, *_: nr == gpu.NV_ESC_REGISTER_FD)


def allocated(nv, number, change):
    """Changes the parameters of objects of a class, or their parent."""
    old = nv.NVKIface.rm_alloc

    def rm_alloc(self, parent, clss, params=None, root=None):
        if clss == getattr(nv.nv_gpu, number, number):
            parent = change(self, parent, params) or parent
        return old(self, parent, clss, params, root)
    nv.NVKIface.rm_alloc = rm_alloc


def channel(nv, **fields):
    allocated(nv, "AMPERE_CHANNEL_GPFIFO_A", lambda self, parent, p: [setattr(p, k, v) for k, v in fields.items()] and None)


@mistake("RM-CHANNEL-SPACE", short=True)
def a_channel_with_two_address_spaces(nv):
    def change(self, parent, params):
        params.hVASpace = self.dev.vaspace
    allocated(nv, "AMPERE_CHANNEL_GPFIFO_A", change)


@mistake("RM-CHANNEL-RING")
def a_ring_of_a_number_of_entries_that_is_no_power_of_two(nv):
    channel(nv, gpFifoEntries=1000)


@mistake("RM-CHANNEL-ENGINE")
def a_channel_of_another_engine_than_its_group(nv):
    channel(nv, engineType=9)


@mistake("RM-PARENT RM-CHANNEL-SPACE")
def an_engine_object_beside_its_channel(nv):
    allocated(nv, "ADA_COMPUTE_A", lambda self, parent, params: self.dev.nvdevice)


@mistake("RM-CONTROL-SIZE")
def a_control_with_parameters_of_another_size(nv):
    import ctypes
    old = nv.NVKIface.rm_control

    def rm_control(self, obj, cmd, params=None, **k):
        if cmd == nv.nv_gpu.NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN:
            params = (ctypes.c_uint32 * 3)()
        return old(self, obj, cmd, params, **k)
    nv.NVKIface.rm_control = rm_control


# --- Rings and doorbells ---

def submitted(nv, **changes):
    """Submits with another entry, GPPut or doorbell than the driver would."""
    import array

    def submit(self, dev, gpfifo):
        if dev == self.binded_device:
            at = self.hw_page.va_addr
        else:
            at = dev.cmdq_allocator.alloc(len(self._q) * 4, 16)
            word = (at - dev.cmdq_page.va_addr) // 4
            dev.cmdq[word:word + len(self._q)] = array.array("I", self._q)
        entry = (at // 4 << 2) | (len(self._q) << 42) | (1 << 41)
        put = (gpfifo.put_value + 1) % gpfifo.entries_count
        gpfifo.ring[gpfifo.put_value % gpfifo.entries_count] = changes.get("entry", lambda entry: entry)(entry)
        gpfifo.gpput[0] = changes.get("put", lambda put, gpfifo: put)(put, gpfifo)
        nv.System.memory_barrier()
        where = changes.get("doorbell", 0x90)
        if where is not None:
            dev.gpu_mmio[where // 4] = changes.get("token", lambda token: token)(gpfifo.token)
        gpfifo.put_value += 1
    nv.NVCommandQueue._submit_to_gpfifo = submit


@mistake("HOST-DOORBELL-MISSING", short=True)
def no_doorbell(nv):
    submitted(nv, doorbell=None)


@mistake("HOST-DOORBELL-MISSING")
def a_doorbell_at_another_place(nv):
    submitted(nv, doorbell=0x98)


@mistake("HOST-DOORBELL-TOKEN", short=True)
def a_doorbell_with_another_token(nv):
    submitted(nv, token=lambda token: token ^ 0x100)


@mistake("HOST-DOORBELL-SCHEDULED")
def a_doorbell_before_the_channel_is_scheduled(nv):
    skip(nv, nv.NVKIface, "rm_control", lambda gpu, self, obj, cmd, *_: cmd == gpu.NVA06C_CTRL_CMD_GPFIFO_SCHEDULE)


@mistake("HOST-GP-PUT")
def a_put_that_does_not_wrap(nv):
    submitted(nv, put=lambda put, gpfifo: put + gpfifo.entries_count)


@mistake("MMU-FAULT")
def a_ring_entry_that_leads_nowhere(nv):
    submitted(nv, entry=lambda entry: entry ^ 1 << 38)


@mistake("HOST-GP-RESERVED HOST-GP-ENTRY")
def a_ring_entry_with_a_reserved_bit(nv):
    submitted(nv, entry=lambda entry: entry | 2)


# --- Methods ---

def method(nv, name, change, queue="NVCommandQueue"):
    """Changes the words of a method, or drops it where that gives None."""
    owner = getattr(nv, queue)
    old = owner.nvm

    def nvm(self, subchannel, mthd, *args, typ=2):
        if mthd == getattr(nv.nv_gpu, name):
            changed = change(subchannel, list(args))
            if changed is None:
                return
            subchannel, args = changed
        old(self, subchannel, mthd, *args, typ=typ)
    owner.nvm = nvm


@mistake("HOST-OBJECT-FIRST", short=True)
def methods_without_an_object(nv):
    method(nv, "NVC6C0_SET_OBJECT", lambda sub, words: None)


@mistake("HOST-SET-OBJECT")
def the_class_of_another_engine(nv):
    method(nv, "NVC6C0_SET_OBJECT", lambda sub, words: (sub, [words[0] ^ 0x75]))


@mistake("HOST-SUBCHANNEL")
def a_subchannel_of_another_engine(nv):
    method(nv, "NVC6C0_SEND_PCAS_A", lambda sub, words: (0 if sub == 0 else 2, words))


@mistake("HOST-SEMAPHORE")
def a_semaphore_that_is_not_aligned(nv):
    method(nv, "NVC56F_SEM_ADDR_LO", lambda sub, words: (sub, [words[0] + 4, *words[1:]]))


@mistake("HOST-METHOD-BITS")
def a_semaphore_with_a_reserved_bit(nv):
    method(nv, "NVC56F_SEM_ADDR_LO", lambda sub, words: (sub, [*words[:4], words[4] | 1 << 4]))


@mistake("HOST-DEADLOCK")
def a_semaphore_that_nobody_releases(nv):
    method(nv, "NVC56F_SEM_ADDR_LO", lambda sub, words: (sub, [words[0], words[1], words[2] + 5, *words[3:]])
           if words[4] & 7 == 3 else (sub, words))


@mistake("COMPUTE-WINDOW", short=True)
def no_window_of_shared_memory(nv):
    method(nv, "NVC6C0_SET_SHADER_SHARED_MEMORY_WINDOW_A", lambda sub, words: None)


@mistake("COMPUTE-LOCAL")
def no_local_memory(nv):
    nv.NVDevice._ensure_has_local_memory = lambda self, required: setattr(self, "slm_per_thread", -(-required // 32) * 32)


@mistake("COMPUTE-CONSTANT-STALE", short=True, work="graph")
def constants_that_are_not_invalidated(nv):
    method(nv, "NVC6C0_INVALIDATE_SHADER_CACHES_NO_WFI", lambda sub, words: (sub, [words[0] & ~(1 << 12)]))
    qmd(nv, constant_buffer_invalidate_0=0)


@mistake("COMPUTE-CODE-STALE", short=True, work="new_code")
def code_that_is_not_invalidated(nv):
    method(nv, "NVC6C0_INVALIDATE_SHADER_CACHES_NO_WFI", lambda sub, words: (sub, [words[0] & ~1]))


@mistake("COMPUTE-PCAS QMD-NOT-MODELLED COMPUTE-METHOD-BITS")
def a_grid_that_is_not_scheduled(nv):
    method(nv, "NVC6C0_SEND_SIGNALING_PCAS2_B", lambda sub, words: (sub, [0xf]))


@mistake("COPY-FLUSH", short=True)
def a_copy_that_is_not_flushed(nv):
    method(nv, "NVC6B5_LAUNCH_DMA", lambda sub, words: (sub, [words[0] & ~(1 << 2)]))


@mistake("COPY-PHYSICAL")
def a_copy_by_physical_addresses(nv):
    method(nv, "NVC6B5_LAUNCH_DMA", lambda sub, words: (sub, [words[0] | 1 << 12]))


@mistake("MMU-FAULT")
def a_copy_over_the_end_of_a_buffer(nv):
    method(nv, "NVC6B5_LINE_LENGTH_IN", lambda sub, words: (sub, [words[0] + (1 << 26)]))


# --- QMDs ---

def qmd(nv, **fields):
    """Writes fields of every program's QMD: values, or functions of the program and the value."""
    old = nv.NVProgram.__init__

    def init(self, *a, **k):
        old(self, *a, **k)
        values = {key: new(self, self.qmd.read(key)) if callable(new) else new for key, new in fields.items()}
        self.qmd.write(**values)
    nv.NVProgram.__init__ = init


@mistake("QMD-VERSION")
def a_qmd_of_another_version(nv):
    qmd(nv, qmd_major_version=2)


@mistake("QMD-SHARED", short=True)
def shared_memory_of_an_odd_size(nv):
    qmd(nv, shared_memory_size=0x420)


@mistake("QMD-SHARED")
def a_carve_out_that_is_too_small(nv):
    qmd(nv, min_sm_config_shared_mem_size=0x1a, target_sm_config_shared_mem_size=3, max_sm_config_shared_mem_size=3)


@mistake("COMPUTE-EXCEPTION", short=True, work="shared_memory")
def less_shared_memory_than_the_code_uses(nv):
    qmd(nv, shared_memory_size=0)


@mistake("QMD-BARRIERS COMPUTE-EXCEPTION COMPUTE-REGISTERS", work="shared_memory")
def a_barrier_that_the_qmd_does_not_give(nv):
    qmd(nv, barrier_count=0)


@mistake("COMPUTE-REGISTERS COMPUTE-EXCEPTION", short=True)
def too_few_registers(nv):
    qmd(nv, register_count_v=lambda program, count: 2)


@mistake("QMD-PROGRAM")
def a_program_at_an_odd_address(nv):
    qmd(nv, program_address_lower=lambda program, at: at + 0x40)


@mistake("QMD-CONSTANT")
def a_constant_bank_without_a_size(nv):
    qmd(nv, constant_buffer_size_shifted4_0=0)


@mistake("QMD-MEMBAR")
def a_grid_without_a_membar(nv):
    qmd(nv, cwd_membar_type=0)


@mistake("QMD-SASS-VERSION")
def code_of_another_generation(nv):
    qmd(nv, sass_version=0x75)


@mistake("QMD-RESERVED")
def a_reserved_bit_of_a_qmd(nv):
    old = nv.NVProgram.__init__

    def init(self, *a, **k):
        old(self, *a, **k)
        self.qmd.mv[47] |= 0x20
    nv.NVProgram.__init__ = init


@mistake("QMD-GRID")
def a_grid_without_blocks(nv):
    old = nv.NVComputeQueue.exec
    nv.NVComputeQueue.exec = lambda self, p, a, g, l: old(self, p, a, (0, *g[1:]), l)


@mistake("MMU-FAULT", short=True)
def parameters_behind_their_place(nv):
    old = nv.NVProgram.__init__

    def init(self, *a, **k):
        old(self, *a, **k)
        self.cbuf_0 = [*self.cbuf_0, 0, 0]
    nv.NVProgram.__init__ = init


@mistake("QMD-DEPENDENT", work="graph")
def a_dependent_grid_that_is_not_scheduled(nv):
    written(nv, dependent_qmd0_action=4)


@mistake("QMD-CYCLE", work="graph")
def a_grid_that_depends_on_itself(nv):
    old = nv.NVComputeQueue.exec

    def exec(self, *a):
        before, at = self.active_qmd, self.active_qmd_buf if self.active_qmd is not None else None
        old(self, *a)
        if before is not None:
            before.write(dependent_qmd0_pointer=at.va_addr >> 8)
        return self
    nv.NVComputeQueue.exec = exec


@mistake("QMD-RELEASE QMD-RESERVED", work="graph")
def a_release_that_is_not_aligned(nv):
    old = nv.NVComputeQueue.signal

    def signal(self, signal, value=0):
        qmd, buffer = self.active_qmd, getattr(self, "active_qmd_buf", None)
        old(self, signal, value)
        if qmd is not None and qmd.read("release0_enable"):
            at = qmd.field_offset("release0_address_lower")
            view = buffer.cpu_view().view(at, 4, "I")
            view[0] = view[0] | 4
        return self
    nv.NVComputeQueue.signal = signal


def written(nv, **fields):
    """Changes what is written to QMDs that are in use."""
    old = nv.QMD.write
    nv.QMD.write = lambda self, **k: old(self, **{**k, **{f: v for f, v in fields.items() if f in k}})


@mistake("MMU-FAULT", work="use_after_free")
def memory_that_is_used_after_it_is_freed(nv):
    pass


# --- What is done ---

def work(nv, tinygrad):
    import numpy as np
    t = tinygrad.Tensor
    x = t(np.arange(64, dtype=np.float32)).realize()
    np.testing.assert_allclose((x * 2 + 1).numpy(), np.arange(64) * 2 + 1)
    y = np.random.default_rng(0).uniform(-1, 1, (32, 32)).astype(np.float32)
    np.testing.assert_allclose((t(y) @ t(y)).numpy(), y @ y, rtol=1e-4, atol=1e-5)


def graph(nv, tinygrad):
    import numpy as np

    @tinygrad.TinyJit
    def step(x):
        return ((x + 1).contiguous() * 2).contiguous().sum().realize()

    for k in range(5):
        x = np.arange(64, dtype=np.float32) + k
        np.testing.assert_allclose(step(tinygrad.Tensor(x).realize()).numpy(), ((x + 1) * 2).sum(), rtol=1e-4)


def shared_memory(nv, tinygrad):
    import numpy as np
    x = np.random.default_rng(0).uniform(-1, 1, (1, 1 << 16)).astype(np.float32)
    np.testing.assert_allclose(tinygrad.Tensor(x).sum(1).numpy(), x.sum(1), rtol=1e-3, atol=1e-3)


def host_memory(nv, tinygrad):
    device = tinygrad.Device["NV"]
    device.iface.alloc(0x1000, host=True)


def new_code(nv, tinygrad):
    """Other programs at the addresses of earlier ones."""
    import gc

    import numpy as np
    x = tinygrad.Tensor(np.arange(64, dtype=np.float32)).realize()
    allocator = tinygrad.Device["NV"].allocator
    alloc, kept = allocator.alloc, None
    for k in range(4):
        if kept is not None:
            allocator.alloc = lambda size, options=None: kept if options and options.nolru and size == kept.size else alloc(size, options)
        y = (x * (k + 2) - k).numpy()
        allocator.alloc = alloc
        np.testing.assert_allclose(y, np.arange(64) * (k + 2.0) - k)
        kept = kept or next(r for r in gc.get_objects() if isinstance(r, nv.NVProgram)).lib_gpu


def use_after_free(nv, tinygrad):
    import numpy as np
    x = tinygrad.Tensor(np.ones((1 << 20,), np.float32)).realize()
    device = tinygrad.Device["NV"]
    device.synchronize()
    device.iface.free(x.uop.base.buffer._buf)
    (x + 1).realize()
    device.synchronize()


def load():
    import nvk
    return nvk.ops_nv


if __name__ == "__main__":
    mistakes.main(__file__, load, globals())
