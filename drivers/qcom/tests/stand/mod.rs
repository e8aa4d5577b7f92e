//! Kernels by hand, and a use of everything that a queue does.
#![allow(dead_code)] // Not every test uses everything.

use std::sync::Arc;
use std::time::Duration;

use codegen::ir3;
use drivers_qcom::backend::QcomBackend;
use drivers_qcom::object::{Image, Object};
use drivers_qcom::{Options, over};
use drivers_spec::qcom::descriptor::{Format, Sampler};
use drivers_spec::qcom::regs::SHARED_REGISTERS;
use hcq::mem::view::View;
use hcq::{
    AllocSpec, ArgKind, ArgLayout, Buffer, Command, Compare, Deadline, Device, Error, Import,
    KernelImage, MemoryKind, Program, QueueKind, Scope, Stream, Val, Width,
};
use twin_qcom::machine::TwinMachine;

/// How long something that comes is waited for.
pub fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// The arguments of every kernel but that of images: where it stores, and a number.
pub fn arguments() -> ArgLayout {
    ArgLayout::new([ArgKind::Buffer, ArgKind::Value(Width::W64)])
}

fn code(text: &str) -> Vec<u64> {
    let word = |line: &str| ir3::encode(&line.trim().parse().unwrap()).unwrap();
    text.lines().map(word).collect()
}

fn image(arch: &str, name: &str, object: &Object, args: ArgLayout) -> KernelImage {
    KernelImage {
        name: name.into(),
        arch: arch.into(),
        bytes: object.to_bytes().into(),
        entry: name.into(),
        args,
        local_bytes: 0,
    }
}

/// What the kernels with arguments start from.
fn object(text: &str) -> Object {
    Object {
        full: 8,
        max_threads: 64,
        vectors: 1,
        argument_bytes: 16,
        ..Object::new(code(text))
    }
}

/// Each group stores the number, and the number of groups (constant c8.x), behind those of the groups before.
pub fn many(arch: &str) -> KernelImage {
    let text = "mov.u32u32 r0.x, r48.x
        (rpt2)nop
        shl.b r0.x, r0.x, 2
        (rpt2)nop
        add.u r1.x, c0.x, r0.x
        mov.u32u32 r2.x, c0.z
        (rpt2)nop
        add.u r2.x, r2.x, c8.x
        cmps.u.lt r0.y, r1.x, c0.x
        (rpt2)nop
        add.u r1.y, c0.y, r0.y
        (rpt5)nop
        stg.u32 g[r1.x], r2.x, 1
        end";
    let object = Object {
        vectors: 9,
        grid_at: 128,
        group_id: SHARED_REGISTERS,
        ..object(text)
    };
    image(arch, "many", &object, arguments())
}

/// Stores the number, by way of private memory.
pub fn private(arch: &str) -> KernelImage {
    let text = "mov.u32u32 r1.x, 0
        mov.u32u32 r2.x, c0.z
        mov.u32u32 r4.x, c0.x
        mov.u32u32 r4.y, c0.y
        (rpt5)nop
        stp.u32 p[r1.x], r2.x, 1
        ldp.u32 r3.x, p[r1.x], 1
        (sy)nop
        stg.u32 g[r4.x], r3.x, 1
        end";
    let object = Object {
        private_bytes: 16,
        ..object(text)
    };
    image(arch, "private", &object, arguments())
}

/// Stores the number, by way of memory that the group shares.
pub fn shared(arch: &str) -> KernelImage {
    let text = "mov.u32u32 r1.x, 3000
        mov.u32u32 r2.x, c0.z
        mov.u32u32 r4.x, c0.x
        mov.u32u32 r4.y, c0.y
        (rpt5)nop
        stl.u32 l[r1.x], r2.x, 1
        fence.r.w
        (ss)(sy)bar.g
        (ss)(sy)nop
        ldl.u32 r3.x, l[r1.x], 1
        (ss)nop
        stg.u32 g[r4.x], r3.x, 1
        end";
    let object = Object {
        shared_bytes: 4096,
        ..object(text)
    };
    image(arch, "shared", &object, arguments())
}

/// Fibers of a group store the number, the odd ones 1 more.
pub fn branch(arch: &str) -> KernelImage {
    let text = "and.b r1.x, r0.x, 1
        shl.b r1.y, r0.x, 2
        mov.u32u32 r2.x, c0.z
        (rpt2)nop
        cmps.s.eq p0.x, r1.x, 0
        add.u r4.x, c0.x, r1.y
        (rpt2)nop
        cmps.u.lt r5.x, r4.x, c0.x
        (rpt2)nop
        add.u r4.y, c0.y, r5.x
        (rpt5)nop
        br p0.x, #2
        add.u r2.x, r2.x, 1
        (jp)nop
        (rpt5)nop
        stg.u32 g[r4.x], r2.x, 1
        end";
    let object = Object {
        branch_depth: 2,
        local_id: 0,
        ..object(text)
    };
    image(arch, "branch", &object, arguments())
}

/// Stores a number that is in its code.
pub fn number(arch: &str, number: u32) -> KernelImage {
    let text = format!(
        "mov.u32u32 r2.x, {number}
        mov.u32u32 r4.x, c0.x
        mov.u32u32 r4.y, c0.y
        (rpt5)nop
        stg.u32 g[r4.x], r2.x, 1
        end"
    );
    image(arch, "number", &object(&text), arguments())
}

/// Pixels of a row of [`picture`], and bytes of it.
pub const SIDE: u32 = 4;
pub const PITCH: u32 = 64;

/// Copies an image of 4 by 4 pixels: arguments are where it is read and where it is written.
pub fn picture(arch: &str) -> KernelImage {
    let text = "isam.1d (f32)(xyzw)r1.x, r0.x, s#0, t#0
        (sy)stib.b.typed.2d.f32.4.imm r1.x, r0.x, 0
        end";
    let rows = |argument| Image {
        argument,
        format: Format::Rgba32Float,
        width: SIDE,
        height: SIDE,
        pitch: PITCH,
    };
    let object = Object {
        local_id: 0,
        textures: vec![rows(0)],
        uavs: vec![rows(1)],
        samplers: vec![Sampler::PIXELS.encode().unwrap()],
        ..object(text)
    };
    image(arch, "picture", &object, ArgLayout::buffers(2))
}

/// What a process has left on the twin: contexts, queues, open files. The twin is not told where a view ends, so mappings
/// stay there, and with them the objects of KGSL.
pub fn left(twin: &TwinMachine) -> Vec<String> {
    let all = twin.process().objects().into_iter();
    let is_seen = |text: &String| !text.starts_with("mapping of") && !text.starts_with("object ");
    all.filter(is_seen).collect()
}

pub fn at(buffer: &Buffer) -> Val {
    Val::Const(buffer.va().0)
}

pub fn memory(device: &dyn Device, kind: MemoryKind, bytes: u64) -> hcq::Result<Buffer> {
    device.alloc(AllocSpec {
        bytes,
        align: 256,
        kind,
        zeroed: true,
    })
}

pub fn words<const N: usize>(buffer: &Buffer, offset: u64) -> hcq::Result<[u32; N]> {
    let mut bytes = vec![0; N * 4];
    buffer.read(offset, &mut bytes)?;
    let (words, _) = bytes.as_chunks();
    Ok(std::array::from_fn(|i| u32::from_le_bytes(words[i])))
}

const BARRIER: Command<'static> = Command::Barrier {
    scope: Scope::Queue,
};

/// A queue with memory.
struct Work<'a> {
    device: &'a dyn Device,
    arch: String,
    stream: Stream,
    limit: Duration,
    /// Of the host, cached by the CPU where the interface has such.
    host: Buffer,
    one: Buffer,
    other: Buffer,
}

/// Bytes of each buffer of [`Work`]: pages, for what is done to whole ones.
const BYTES: u64 = 8192;

impl Work<'_> {
    fn until(&self) -> Deadline {
        Deadline::after(self.limit)
    }

    fn run(&self, commands: &[Command<'_>]) -> hcq::Result<()> {
        self.stream.submit(&[], commands)?.wait(self.until())
    }

    /// Copies of every kind, a fill, words that are written and waited for, a time that is read by a kernel.
    fn moves(&self) -> hcq::Result<bool> {
        let content: Vec<u8> = (0..BYTES as u32).map(|i| (i * 7) as u8).collect();
        self.host.write(0, &content)?;
        let copy = |dst: &Buffer, to: u64, src: &Buffer, from: u64, bytes| Command::Copy {
            dst: Val::Const(dst.va().0 + to),
            src: Val::Const(src.va().0 + from),
            bytes,
        };
        let fill = Command::Fill {
            at: at(&self.other),
            value: 0x1234_5678,
            bytes: BYTES,
        };
        let poll = |buffer: &Buffer, value| Command::Poll {
            at: at(buffer),
            mask: u64::from(u32::MAX),
            value: Val::Const(value),
            compare: Compare::Equal,
            width: Width::W32,
        };
        let (host, one, other) = (&self.host, &self.one, &self.other);
        self.run(&[
            copy(one, 0, host, 0, BYTES),
            BARRIER,
            copy(other, 0, one, 1, BYTES - 8),
            BARRIER,
            copy(host, 64, other, 0, 4096),
        ])?;
        let mut found = vec![0; 4096];
        other.read(0, &mut found)?;
        let mut right = found == content[1..4097];
        // A part of a line of the CPU's cache beside what the GPU has written.
        host.write(68, &[1, 2, 3, 4])?;
        self.run(&[
            fill,
            BARRIER,
            poll(other, 0x1234_5678),
            copy(one, 0, host, 0, BYTES),
        ])?;
        one.read(0, &mut found)?;
        right &= found[64..68] == content[1..5] && found[68..72] == [1, 2, 3, 4];
        right &= found[72..4096] == content[9..4033];

        let time = self.device.signal("time")?;
        let stamp = Command::Timestamp { signal: &time };
        let write = Command::Write {
            at: at(one),
            value: Val::Const(7 << 32 | 9),
            width: Width::W64,
        };
        let of_time = Command::Copy {
            dst: at(other),
            src: Val::Const(time.va().0 + 8),
            bytes: 8,
        };
        // The command processor looks at what it has written itself.
        let look = Command::Poll {
            at: Val::Const(time.va().0 + 8),
            mask: u64::from(u32::MAX),
            value: Val::Const(0),
            compare: Compare::NotEqual,
            width: Width::W32,
        };
        self.run(&[
            stamp,
            look,
            BARRIER,
            of_time,
            write,
            BARRIER,
            copy(other, 8, one, 0, 8),
        ])?;
        let [low, high, nine, seven] = words(other, 0)?;
        right &= u64::from(high) << 32 | u64::from(low) == time.timestamp()?;
        Ok(right && (nine, seven) == (9, 7))
    }

    fn exec(&self, program: &Program, number: u64, grid: u32, block: u32) -> hcq::Result<()> {
        let args = [at(&self.one), Val::Const(number)];
        self.run(&[Command::Exec {
            program,
            args: &args,
            grid: [grid, 1, 1],
            block: [block, 1, 1],
        }])
    }

    /// Kernels with constants, private and shared memory, branches; code in the place of other code.
    fn kernels(&self) -> hcq::Result<bool> {
        let arch = &self.arch;
        let mut right = true;
        let program = self.device.load(&many(arch))?;
        for round in 0..3 {
            self.exec(&program, round, 5, 1)?;
            right &= words(&self.one, 0)? == [round as u32 + 5; 5];
        }
        let program = self.device.load(&private(arch))?;
        self.exec(&program, 11, 1, 1)?;
        right &= words(&self.one, 0)? == [11];
        let program = self.device.load(&shared(arch))?;
        self.exec(&program, 12, 1, 1)?;
        right &= words(&self.one, 0)? == [12];
        let program = self.device.load(&branch(arch))?;
        self.exec(&program, 20, 1, 64)?;
        right &= words(&self.one, 0)? == [20, 21, 20, 21];
        for value in [7, 9] {
            let program = self.device.load(&number(arch, value))?;
            self.exec(&program, 0, 1, 1)?;
            right &= words(&self.one, 0)? == [value];
        }
        Ok(right)
    }

    /// A thread sleeps until the host lets the queue go on: by memory, which it may write after a loss, too.
    fn sleeps(&self) -> hcq::Result<bool> {
        self.other.write(0, &[0; 4])?;
        let wait = Command::Poll {
            at: at(&self.other),
            mask: u64::from(u32::MAX),
            value: Val::Const(1),
            compare: Compare::Equal,
            width: Width::W32,
        };
        let held = self.stream.submit(&[], &[wait])?;
        let early = held.wait(Deadline::after(Duration::from_millis(20)));
        self.other.write(0, &[1, 0, 0, 0])?;
        match early {
            Err(Error::Timeout { .. }) => held.wait(self.until()).map(|()| true),
            Err(error) => Err(error),
            Ok(()) => Ok(false),
        }
    }

    /// An image is copied, changed, and copied again.
    fn pictures(&self) -> hcq::Result<bool> {
        let program = self.device.load(&picture(&self.arch))?;
        let args = [at(&self.one), at(&self.other)];
        let exec = Command::Exec {
            program: &program,
            args: &args,
            grid: [1, 1, 1],
            block: [SIDE, SIDE, 1],
        };
        let copy = Command::Copy {
            dst: at(&self.one),
            src: at(&self.host),
            bytes: 256,
        };
        let content = |first: f32| -> Vec<u8> {
            (0..64)
                .flat_map(|i| (first + i as f32).to_le_bytes())
                .collect()
        };
        self.one.write(0, &content(1.0))?;
        self.run(&[exec])?;
        let mut found = vec![0; 256];
        self.other.read(0, &mut found)?;
        let mut right = found == content(1.0);
        self.host.write(0, &content(100.0))?;
        self.run(&[exec, BARRIER, copy, BARRIER, exec])?;
        self.other.read(0, &mut found)?;
        right &= found == content(100.0);
        Ok(right)
    }
}

/// Makes use of everything that a queue does. Whether what it gives is right; each wait is for `limit` at most.
pub fn work(
    backend: &Arc<dyn QcomBackend>,
    options: &Options,
    limit: Duration,
) -> hcq::Result<bool> {
    let device = over(backend, options)?;
    device.clock()?;
    let work = Work {
        arch: device.info().arch.clone(),
        stream: Stream::new(device.queue(QueueKind::Compute, 0)?),
        limit,
        host: memory(&*device, MemoryKind::Host, BYTES)?,
        one: memory(&*device, MemoryKind::Device, BYTES)?,
        other: memory(&*device, MemoryKind::Device, BYTES)?,
        device: &*device,
    };
    let right = work.moves()? & work.kernels()? & work.pictures()? & work.sleeps()?;
    device.synchronize(work.until())?;
    device.status()?;
    Ok(right)
}

/// Memory of others goes through the queue and back: a dma-buf of at least [`BYTES`], and pages of the process where the kernel
/// driver takes them. Whether what comes back is right.
pub fn imports(
    backend: &Arc<dyn QcomBackend>,
    options: &Options,
    (dmabuf, takes_pages): (i32, bool),
    limit: Duration,
) -> hcq::Result<bool> {
    let device = over(backend, options)?;
    let stream = Stream::new(device.queue(QueueKind::Compute, 0)?);
    let until = || Deadline::after(limit);
    let own = memory(&*device, MemoryKind::Device, BYTES)?;
    let mut all = vec![Import::DmaBuf(dmabuf, BYTES)];
    if takes_pages {
        let pages = View::alloc(BYTES as usize, 4096).map_err(|_| Error::Unsupported {
            asked: "pages".into(),
            why: "no memory".into(),
        })?;
        all.push(Import::Host(pages));
    }
    let mut right = true;
    for (round, import) in (1u8..).zip(&all) {
        let theirs = device.import(import)?;
        let content: Vec<u8> = (0..BYTES).map(|i| (i * 5) as u8 ^ round).collect();
        own.write(0, &content)?;
        let copy = |dst: &Buffer, src: &Buffer| Command::Copy {
            dst: at(dst),
            src: at(src),
            bytes: BYTES,
        };
        let clear = Command::Fill {
            at: at(&own),
            value: 0,
            bytes: BYTES,
        };
        let commands = [
            copy(&theirs, &own),
            BARRIER,
            clear,
            BARRIER,
            copy(&own, &theirs),
        ];
        stream.submit(&[], &commands)?.wait(until())?;
        let mut found = vec![0; BYTES as usize];
        own.read(0, &mut found)?;
        right &= found == content;
    }
    device.synchronize(until())?;
    device.status()?;
    Ok(right)
}
