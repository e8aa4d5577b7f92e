//! Memory of others, used in place, on the twin.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::fmt;
use std::sync::Arc;

use drivers_qcom::interop::{Picture, cl};
use drivers_qcom::{CacheLines, Options, QcomDevice, kgsl, msm, over};
use drivers_spec::amd::drm::{self, GemClose, PrimeHandle};
use drivers_spec::qcom::descriptor::Format;
use drivers_spec::qcom::kgsl::{
    self as calls, GpuobjAlloc, GpuobjFree, GpuobjInfo, Memory, memory,
};
use drivers_spec::qcom::msm::{self as msm_calls, Bo, GemNew};
use hcq::mem::view::View;
use hcq::transport::{DevFile, Machine, Map, Prot};
use hcq::{Buffer, Command, Device, Error, Import, MemoryKind, QueueKind, Stream, Val};
use twin_qcom::machine::TwinMachine;

use stand::{at, soon};

/// The CPU's cache of a twin, which is told of what instructions would do.
struct Told(Arc<TwinMachine>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache of a twin")
    }
}

impl CacheLines for Told {
    fn clean(&self, view: &View) {
        let at = view.as_ptr().addr() as u64;
        self.0.process().clean(at, view.len() as u64);
    }

    fn clean_and_invalidate(&self, view: &View) {
        let at = view.as_ptr().addr() as u64;
        self.0.process().clean_and_invalidate(at, view.len() as u64);
    }
}

struct Bench {
    twin: Arc<TwinMachine>,
    device: Arc<QcomDevice>,
    stream: Stream,
}

impl Bench {
    fn new(config: &str) -> Bench {
        let twin = TwinMachine::new(config).unwrap();
        let machine: Arc<dyn Machine> = twin.clone();
        let mut options = Options::default();
        if config.contains("pages=cached") {
            options.lines = Arc::new(Told(twin.clone()));
        }
        let backend = match config.contains("msm") {
            true => msm::open(&machine, 0).unwrap(),
            false => kgsl::open(&machine, 0, &options).unwrap(),
        };
        let device = over(&backend, &options).unwrap();
        let stream = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        Bench {
            twin,
            device,
            stream,
        }
    }

    fn run(&self, command: Command<'_>) {
        let point = self.stream.submit(&[], &[command]).unwrap();
        point.wait(soon()).unwrap();
    }

    fn copy(&self, dst: &Buffer, src: &Buffer, bytes: u64) {
        self.run(Command::Copy {
            dst: at(dst),
            src: at(src),
            bytes,
        });
    }

    /// What the GPU finds in a buffer.
    fn found(&self, buffer: &Buffer, bytes: u64) -> Vec<u8> {
        let own = stand::memory(&*self.device, MemoryKind::Device, bytes).unwrap();
        self.copy(&own, buffer, bytes);
        let mut found = vec![0; bytes as usize];
        own.read(0, &mut found).unwrap();
        found
    }

    fn file(&self, path: &str) -> Arc<dyn DevFile> {
        let machine: Arc<dyn Machine> = self.twin.clone();
        machine.open(path).unwrap()
    }

    fn ends(self) {
        let twin = self.twin.clone();
        drop(self);
        assert_eq!(twin.machine().broken_rules(), [""; 0]);
        assert_eq!(stand::left(&twin), [""; 0]);
    }
}

fn call<T: zerocopy::IntoBytes + zerocopy::FromBytes>(
    file: &dyn DevFile,
    what: hcq::transport::IoctlOf<T>,
    mut argument: T,
) -> T {
    file.ioctl(&mut what.with(&mut argument, &mut [])).unwrap();
    argument
}

fn content(first: u8) -> Vec<u8> {
    (0..4096u32).map(|i| (i * 3) as u8 ^ first).collect()
}

#[test]
fn pages_of_the_process_are_used_in_place() {
    let bench = Bench::new("pages=cached");
    let guard = Arc::new(());
    let view = View::alloc(8192, 4096).unwrap().with_guard(guard.clone());
    let alive = || Arc::strong_count(&guard) > 1;
    let used = bench.device.memory().used;
    let import = Import::Host(view.clone());
    let buffer = bench.device.import(&import).unwrap();
    assert_eq!((buffer.bytes(), bench.device.memory().used), (8192, used));
    // A frame after the other, written by a pointer.
    for frame in 0..3 {
        view.copy_from_slice(0, &content(frame)).unwrap();
        buffer.clean(0, 4096).unwrap();
        assert_eq!(bench.found(&buffer, 4096), content(frame));
    }
    // The same pages are mapped once.
    let again = bench.device.import(&import).unwrap();
    assert_eq!(again.va(), buffer.va());
    // What the GPU writes is there, without a copy of the host.
    let own = stand::memory(&*bench.device, MemoryKind::Host, 4096).unwrap();
    own.write(0, &content(77)).unwrap();
    bench.copy(&buffer, &own, 4096);
    buffer.invalidate(0, 4096).unwrap();
    let mut found = vec![0; 4096];
    view.copy_to_slice(0, &mut found).unwrap();
    assert_eq!(found, content(77));
    buffer.read(0, &mut found).unwrap();
    assert_eq!(found, content(77));
    // The buffer keeps the pages.
    drop((import, view, again));
    assert!(alive());
    assert_eq!(bench.found(&buffer, 4096), content(77));
    drop(buffer);
    assert!(!alive());
    let odd = View::alloc(8192, 4096).unwrap().sub(64, 4096).unwrap();
    let error = bench.device.import(&Import::Host(odd)).unwrap_err();
    assert!(
        error.to_string().contains("expected whole pages"),
        "{error}"
    );
    drop(own);
    bench.ends();
}

/// Memory that is unmapped while it is bound, and mapped again at the same address: the import of the old pages is still there.
#[test]
fn pages_of_another_mapping_are_imported_anew() {
    let bench = Bench::new("");
    let view = View::alloc(4096, 4096).unwrap();
    let old = bench.device.import(&Import::Host(view.clone())).unwrap();
    let import = Import::Host(view.clone().with_guard(()));
    let new = bench.device.import(&import).unwrap();
    assert_ne!(old.va(), new.va());
    assert_eq!(bench.device.import(&import).unwrap().va(), new.va());
    drop(old);
    view.copy_from_slice(0, &content(4)).unwrap();
    new.clean(0, 4096).unwrap();
    assert_eq!(bench.found(&new, 4096), content(4));
    drop((new, import, view));
    bench.ends();
}

#[test]
fn pages_that_are_not_cleaned_hold_old_data() {
    let bench = Bench::new("pages=cached");
    let view = View::alloc(4096, 4096).unwrap();
    view.copy_from_slice(0, &content(1)).unwrap();
    let buffer = bench.device.import(&Import::Host(view.clone())).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(1));
    view.copy_from_slice(0, &content(2)).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(1));
    let broken = bench.twin.machine().broken_rules();
    assert!(!broken.is_empty() && broken.iter().all(|rule| *rule == "CPU-CACHE-CLEAN"));
    // What is written through the buffer is cleaned by it.
    buffer.write(0, &content(3)).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(3));
    assert_eq!(bench.twin.machine().broken_rules(), broken);
}

/// An object of a library: its number, and its address of the GPU.
fn object(file: &dyn DevFile, bytes: u64, flags: u64) -> (u32, u64) {
    let made = GpuobjAlloc {
        size: bytes,
        flags,
        ..Default::default()
    };
    let id = call(file, calls::GPUOBJ_ALLOC, made).id;
    let info = GpuobjInfo {
        id,
        ..Default::default()
    };
    (id, call(file, calls::GPUOBJ_INFO, info).gpuaddr)
}

fn mapped(file: &dyn DevFile, id: u32, bytes: usize) -> View {
    let map = Map {
        offset: calls::mmap_offset(id),
        len: bytes,
        prot: Prot::ReadWrite,
        at: None,
    };
    file.mmap(map).unwrap()
}

#[test]
fn buffers_and_images_of_opencl_are_used_in_place() {
    let bench = Bench::new("");
    let library = bench.file("/dev/kgsl-3d0");
    let combined = memory::WRITECOMBINE << memory::CACHEMODE_SHIFT;
    let (id, address) = object(&*library, 8192, combined);
    let view = mapped(&*library, id, 8192);
    // A cl_mem is the address of the library's object.
    let mut object: Box<[u64; 32]> = Box::new([0; 32]);
    object[0xa0 / 8] = address;
    let handle = object.as_ptr().expose_provenance() as u64;
    let owner = Arc::new(());
    let import = cl::import(handle, 8192, owner.clone()).unwrap();
    let buffer = bench.device.import(&import).unwrap();
    assert_eq!((buffer.va().0, buffer.bytes()), (address, 8192));
    view.copy_from_slice(0, &content(5)).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(5));
    // The host has it by the library.
    let error = buffer.read(0, &mut [0]).unwrap_err();
    assert!(matches!(error, Error::NoHostAccess { .. }), "{error}");

    // An image whose rows the library has laid out.
    let picture = Picture {
        format: Format::Rgba32Float,
        width: stand::SIDE,
        height: stand::SIDE,
        pitch: stand::PITCH,
    };
    picture.fits(&buffer).unwrap();
    assert_eq!(picture.image(0).unwrap().pitch, stand::PITCH);
    let pixels: Vec<u8> = (0..64u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    view.copy_from_slice(0, &pixels).unwrap();
    let program = bench.device.load(&stand::picture("a630")).unwrap();
    let out = stand::memory(&*bench.device, MemoryKind::Device, 256).unwrap();
    bench.run(Command::Exec {
        program: &program,
        args: &[at(&buffer), at(&out)],
        grid: [1, 1, 1],
        block: [stand::SIDE, stand::SIDE, 1],
    });
    let mut found = vec![0; 256];
    out.read(0, &mut found).unwrap();
    assert_eq!(found, pixels);

    // The buffer keeps what keeps the cl_mem.
    drop(import);
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(buffer);
    assert_eq!(Arc::strong_count(&owner), 1);
    drop(view);
    let free = GpuobjFree {
        id,
        ..Default::default()
    };
    call(&*library, calls::GPUOBJ_FREE, free);
    let import = cl::import(handle, 8192, owner).unwrap();
    let error = bench.device.import(&import).unwrap_err().to_string();
    assert!(
        error.contains("no GPU memory of this process at"),
        "{error}"
    );
    drop((library, program, out));
    bench.ends();
}

#[test]
fn memory_of_the_gpu_is_known_by_the_pointer_of_its_mapping() {
    let bench = Bench::new("");
    let library = bench.file("/dev/kgsl-3d0");
    let flags = memory::WRITECOMBINE << memory::CACHEMODE_SHIFT | Memory::USE_CPU_MAP.bits();
    let made = GpuobjAlloc {
        size: 4096,
        flags,
        ..Default::default()
    };
    let id = call(&*library, calls::GPUOBJ_ALLOC, made).id;
    let view = mapped(&*library, id, 4096);
    let buffer = bench.device.import(&Import::Host(view.clone())).unwrap();
    assert_eq!(buffer.va().0, view.as_ptr().addr() as u64);
    view.copy_from_slice(0, &content(9)).unwrap();
    buffer.clean(0, 4096).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(9));
    // Our own buffers are used as such.
    let own = stand::memory(&*bench.device, MemoryKind::Device, 1 << 20).unwrap();
    let error = bench.device.import(&Import::Device {
        va: own.va(),
        bytes: 4096,
        owner: Arc::new(()),
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("a buffer of this driver"), "{text}");
    drop((buffer, view));
    let free = GpuobjFree {
        id,
        ..Default::default()
    };
    call(&*library, calls::GPUOBJ_FREE, free);
    drop((library, own));
    bench.ends();
}

/// An image of a buffer, a part of one, a buffer that is imported twice: each keeps its owner.
#[test]
fn two_objects_of_a_library_may_have_the_same_memory() {
    let bench = Bench::new("");
    let library = bench.file("/dev/kgsl-3d0");
    let combined = memory::WRITECOMBINE << memory::CACHEMODE_SHIFT;
    let (id, address) = object(&*library, 8192, combined);
    let view = mapped(&*library, id, 8192);
    let owners = [Arc::new(()), Arc::new(()), Arc::new(())];
    let import = |which: usize, offset: u64| {
        let all = Import::Device {
            va: hcq::GpuVa(address + offset),
            bytes: 4096,
            owner: owners[which].clone(),
        };
        bench.device.import(&all).unwrap()
    };
    let (first, second, part) = (import(0, 0), import(1, 0), import(2, 2048));
    assert_eq!(first.va(), second.va());
    view.copy_from_slice(0, &content(5)).unwrap();
    drop(first);
    assert_eq!(bench.found(&second, 4096), content(5));
    assert_eq!(bench.found(&part, 2048), content(5)[2048..]);
    drop(part);
    assert_eq!(Arc::strong_count(&owners[2]), 1);
    // The address is known for as long as one of them is there, and can be imported anew.
    assert_eq!(bench.found(&import(2, 0), 4096), content(5));
    assert_eq!(Arc::strong_count(&owners[1]), 2);
    drop(second);
    assert!(owners.iter().all(|owner| Arc::strong_count(owner) == 1));
    assert_eq!(bench.found(&import(0, 0), 4096), content(5));
    // A longer one over a shorter one, which outlives it.
    let short = import(0, 0);
    let long = bench.device.import(&Import::Device {
        va: hcq::GpuVa(address),
        bytes: 8192,
        owner: owners[1].clone(),
    });
    let long = long.unwrap();
    view.copy_from_slice(4096, &content(6)).unwrap();
    assert_eq!(
        bench.found(&long.slice(4096, 4096).unwrap(), 4096),
        content(6)
    );
    assert_eq!(bench.found(&import(2, 4096), 4096), content(6));
    drop(long);
    assert_eq!(Arc::strong_count(&owners[1]), 1);
    assert_eq!(bench.found(&short, 4096), content(5));
    drop(short);
    assert!(owners.iter().all(|owner| Arc::strong_count(owner) == 1));
    drop(view);
    let free = GpuobjFree {
        id,
        ..Default::default()
    };
    call(&*library, calls::GPUOBJ_FREE, free);
    drop(library);
    bench.ends();
}

#[test]
fn pages_that_the_kernel_refuses_may_be_read_only() {
    let bench = Bench::new("fault=call:MAP_USER_MEM:EFAULT");
    let view = View::alloc(4096, 4096).unwrap();
    let error = bench.device.import(&Import::Host(view)).unwrap_err();
    let text = error.to_string();
    for part in [
        "EFAULT",
        "not mapped, or read-only (map them writable)",
        "another address",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The cause, and not that of what was tried then.
    assert!(!text.contains("SYNC_CACHE"), "{text}");
    bench.ends();
}

#[test]
fn a_descriptor_of_another_kind_is_no_dma_buf() {
    for config in ["version=4.9", "version=5.15", "kernel=msm"] {
        let bench = Bench::new(config);
        let error = bench.device.import(&Import::DmaBuf(9999, 4096));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("of descriptor 9999, expected that of a dma-buf"),
            "{config}: {text}"
        );
        bench.ends();
    }
}

/// KGSL maps a dma-buf anew each time.
#[test]
fn dma_bufs_are_used_in_place_by_kgsl() {
    for version in ["4.9", "5.15"] {
        let bench = Bench::new(&format!("version={version}"));
        let process = bench.twin.process();
        let fd = process.foreign_dmabuf(8192).unwrap();
        let error = bench.device.import(&Import::DmaBuf(fd, 8193)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("expected 1 to 0x2000"), "{text}");
        let import = || bench.device.import(&Import::DmaBuf(fd, 8192)).unwrap();
        let (first, second) = (import(), import());
        assert_ne!(first.va(), second.va());
        // The buffers keep the memory.
        process.close(fd).unwrap();
        let own = stand::memory(&*bench.device, MemoryKind::Device, 4096).unwrap();
        own.write(0, &content(6)).unwrap();
        bench.copy(&first, &own, 4096);
        assert_eq!(bench.found(&second, 4096), content(6));
        drop((first, second, own));
        bench.ends();
    }
}

#[test]
fn dma_bufs_are_used_in_place() {
    let bench = Bench::new("kernel=msm");
    let exporter = bench.file("/dev/dri/renderD128");
    let exported = |first| {
        let new = GemNew {
            size: 4096,
            flags: Bo::WC.bits(),
            ..Default::default()
        };
        let handle = call(&*exporter, msm_calls::MSM_GEM_NEW, new).handle;
        let offset = msm_calls::by_value::GemInfo {
            handle,
            info: msm_calls::info::GET_OFFSET,
            ..Default::default()
        };
        let map = Map {
            offset: call(&*exporter, msm_calls::by_value::MSM_GEM_INFO, offset).value,
            len: 4096,
            prot: Prot::ReadWrite,
            at: None,
        };
        let view = exporter.mmap(map).unwrap();
        view.copy_from_slice(0, &content(first)).unwrap();
        let prime = PrimeHandle {
            handle,
            ..Default::default()
        };
        let fd = call(&*exporter, drm::PRIME_HANDLE_TO_FD, prime).fd;
        let close = GemClose {
            handle,
            ..Default::default()
        };
        call(&*exporter, drm::GEM_CLOSE, close);
        (fd, view)
    };
    let (fd, view) = exported(1);
    for bytes in [0, 4097, 8192, u64::MAX] {
        let error = bench.device.import(&Import::DmaBuf(fd, bytes)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("expected 1 to 0x1000, its size"), "{text}");
    }
    let import = |fd| bench.device.import(&Import::DmaBuf(fd, 4096));
    let buffer = import(fd).unwrap();
    // One that is imported is known, by whichever descriptor.
    let process = bench.twin.process();
    let other = process.dup(fd, None).unwrap();
    assert_eq!(import(other).unwrap().va(), buffer.va());
    process.close(other).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(1));
    view.copy_from_slice(0, &content(2)).unwrap();
    assert_eq!(bench.found(&buffer, 4096), content(2));
    let error = bench.device.import(&Import::DmaBuf(fd, 2048)).unwrap_err();
    assert!(error.to_string().contains("is imported with"), "{error}");
    // The descriptor's number is another dma-buf's by now.
    process.close(fd).unwrap();
    let (second, second_view) = exported(3);
    assert_eq!(second, fd);
    let next = import(second).unwrap();
    assert_ne!(next.va(), buffer.va());
    assert_eq!(bench.found(&next, 4096), content(3));
    assert_eq!(bench.found(&buffer, 4096), content(2));
    process.close(second).unwrap();
    let host = View::alloc(4096, 4096).unwrap();
    let error = bench.device.import(&Import::Host(host)).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let error = bench.device.import(&Import::Device {
        va: hcq::GpuVa(0x1_0000_0000),
        bytes: 4096,
        owner: Arc::new(()),
    });
    assert!(matches!(error, Err(Error::Unsupported { .. })), "{error:?}");
    drop((buffer, next, view, second_view, exporter));
    bench.ends();
}

#[test]
fn a_constant_address_of_an_import_is_an_argument_like_others() {
    let bench = Bench::new("");
    let view = View::alloc(4096, 4096).unwrap();
    let buffer = bench.device.import(&Import::Host(view.clone())).unwrap();
    let program = bench.device.load(&stand::number("a630", 1234)).unwrap();
    let slice = buffer.slice(256, 64).unwrap();
    bench.run(Command::Exec {
        program: &program,
        args: &[at(&slice), Val::Const(0)],
        grid: [1, 1, 1],
        block: [1, 1, 1],
    });
    buffer.invalidate(0, 4096).unwrap();
    assert_eq!(view.read::<u32>(256), Ok(1234));
    drop((buffer, slice, program));
    bench.ends();
}

/// Host memory of KGSL needs the kernel's calls around each access: a pointer would see what the caches have.
#[test]
fn a_mapping_is_given_only_where_nothing_is_to_be_done_around_an_access() {
    for (config, kind, is_given) in [
        ("", MemoryKind::Host, false),
        ("", MemoryKind::Device, true),
        ("", MemoryKind::Control, true),
        ("kernel=msm", MemoryKind::Host, true),
        ("kernel=msm", MemoryKind::Device, true),
    ] {
        let bench = Bench::new(config);
        let buffer = stand::memory(&*bench.device, kind, 4096).unwrap();
        match buffer.view() {
            Ok(view) => {
                assert!(is_given, "{config} {kind:?}");
                // The GPU finds what is written there.
                view.copy_from_slice(0, &content(9)).unwrap();
                assert_eq!(bench.found(&buffer, 4096), content(9), "{config} {kind:?}");
                drop(view);
            }
            Err(Error::NoHostAccess { .. }) => assert!(!is_given, "{config} {kind:?}"),
            Err(error) => panic!("{config} {kind:?}: {error}"),
        }
        drop(buffer);
        bench.ends();
    }
}
