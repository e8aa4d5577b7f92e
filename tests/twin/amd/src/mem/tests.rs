//! What the memory model must do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use twin::fires::fires;
use twin::rule::Journal;
use twin_shader::isa::Gen;
use twin_shader::page::{Access, Bus, FaultKind, Memory, Port};

use super::*;

mod lines;
mod physical;
mod random;
mod stale;
mod threads;

const VA: u64 = 0x7000_0000_0000;
const ALL: Rights = Rights {
    write: true,
    execute: true,
};
const MIB: u64 = 1 << 20;

struct Setup {
    journal: Arc<Journal>,
    system: Arc<Budget>,
    gmc: Arc<Gmc>,
    vm: Arc<Vm>,
}

fn setup() -> Setup {
    let journal = Arc::new(Journal::new());
    let gmc = Gmc::new(0, Gen::Rdna3, 64 * MIB, Drain::Never, journal.clone()).unwrap();
    Setup {
        journal,
        system: Arc::new(Budget::new(64 * MIB)),
        vm: Vm::new(gmc.clone()),
        gmc,
    }
}

impl Setup {
    fn object(&self, kind: Kind, bytes: u64) -> Arc<Object> {
        Object::new(&self.gmc, &self.system, kind, bytes, "test").unwrap()
    }

    fn mapped(&self, kind: Kind, mtype: Mtype) -> Arc<Object> {
        let object = self.object(kind, 0x2000);
        self.vm.map(VA, &object, 0, 0x2000, ALL, mtype).unwrap();
        object
    }

    /// Another GPU of the same process.
    fn peer(&self) -> Self {
        let journal = self.journal.clone();
        let gmc = Gmc::new(1, Gen::Rdna3, MIB, Drain::Never, journal.clone()).unwrap();
        Self {
            journal,
            system: self.system.clone(),
            vm: Vm::new(gmc.clone()),
            gmc,
        }
    }

    fn read(&self, port: Port, va: u64) -> u64 {
        let mut out = [0; 8];
        self.vm.read(port, va, &mut out).unwrap();
        u64::from_le_bytes(out)
    }

    fn write(&self, port: Port, va: u64, value: u64) {
        self.vm.write(port, va, &value.to_le_bytes()).unwrap();
    }

    fn broken(&self) -> Vec<&'static str> {
        self.journal
            .violations()
            .iter()
            .map(|v| v.rule.name)
            .collect()
    }
}

/// The client's view of an object, as it maps it.
struct Client(u64);

impl Client {
    fn of(object: &Object) -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (seen, rights) = object.seen(rights);
        let at = seen.map_client(0, object.bytes, rights, libc::MAP_SHARED, 0);
        Self(at.unwrap())
    }

    fn cell(&self, offset: u64) -> &AtomicU64 {
        // SAFETY: the tests map whole objects, and only use offsets inside that are aligned.
        unsafe { AtomicU64::from_ptr((self.0 + offset) as *mut u64) }
    }

    fn put(&self, offset: u64, value: u64) {
        self.cell(offset).store(value, Ordering::SeqCst);
    }

    fn get(&self, offset: u64) -> u64 {
        self.cell(offset).load(Ordering::SeqCst)
    }
}

const VRAM: Kind = Kind::Vram { public: false };
const PUBLIC: Kind = Kind::Vram { public: true };

const WB: Caches = Caches {
    inst_inv: false,
    scalar_inv: false,
    vector_inv: false,
    gl1_inv: false,
    l2_inv: false,
    l2_wb: true,
};
const INV: Caches = Caches {
    l2_inv: true,
    l2_wb: false,
    ..WB
};
const EVERYTHING: Caches = Caches {
    inst_inv: true,
    scalar_inv: true,
    vector_inv: true,
    gl1_inv: true,
    l2_inv: true,
    l2_wb: true,
};

/// A wave that reads and writes as shader cores do.
fn wave<T>(s: &Setup, run: impl FnOnce(&mut Bus) -> T) -> T {
    let launch = s.vm.launch();
    run(&mut Bus::new(&launch))
}

fn load(s: &Setup, port: Port, va: u64) -> u64 {
    wave(s, |bus| bus.get::<u64>(port, va).unwrap())
}

fn store(s: &Setup, va: u64, value: u64) {
    wave(s, |bus| bus.put(Port::Vector, va, value).unwrap());
}

#[test]
fn atomics_leave_the_gpu_for_uncached_memory_of_others() {
    for (kind, mtype, leaves) in [
        (Kind::Gtt, Mtype::Uc, true),
        (Kind::Gtt, Mtype::Nc, false),
        (VRAM, Mtype::Rw, false),
        (PUBLIC, Mtype::Uc, false),
    ] {
        let s = setup();
        let _object = s.mapped(kind, mtype);
        assert_eq!(s.vm.launch().leaves(VA), leaves, "{mtype:?}");
    }
}

#[test]
fn memory_keeps_what_is_written_across_pages() {
    let s = setup();
    let _object = s.mapped(Kind::Gtt, Mtype::Uc);
    let data: Vec<u8> = (0..100).collect();
    s.vm.write(Port::Cp, VA + 0xfcd, &data).unwrap();
    let mut back = vec![0; 100];
    s.vm.read(Port::Sdma, VA + 0xfcd, &mut back).unwrap();
    assert_eq!(back, data);
    s.vm.copy(Port::Sdma, VA + 0xfcd, VA + 0x1801, 100).unwrap();
    s.vm.read(Port::Cp, VA + 0x1801, &mut back).unwrap();
    assert_eq!(back, data);
    s.write(Port::Cp, VA, 40);
    let old = s.vm.atomic(Port::Cp, VA, 4, &mut |old| old + 2).unwrap();
    assert_eq!((old, s.read(Port::Cp, VA)), (40, 42));
    assert_eq!(s.broken(), [""; 0]);
}

#[test]
fn faults_tell_what_was_missing() {
    let s = setup();
    let object = s.object(Kind::Gtt, 0x1000);
    let none = Rights {
        write: false,
        execute: false,
    };
    s.vm.map(VA, &object, 0, 0x1000, none, Mtype::Uc).unwrap();
    let launch = s.vm.launch();
    let kind = |va, access| launch.page(Port::Vector, va, access).err().map(|f| f.kind);
    assert_eq!(kind(VA, Access::Read), None);
    assert_eq!(kind(VA, Access::Write), Some(FaultKind::ReadOnly));
    assert_eq!(kind(VA, Access::Execute), Some(FaultKind::NoExecute));
    assert_eq!(kind(VA + 0x1000, Access::Read), Some(FaultKind::NotPresent));
    let fault = s.vm.read(Port::Sdma, VA + 0xff8, &mut [0; 16]).unwrap_err();
    assert_eq!(fault.va, VA + 0x1000);
    let epoch = launch.epoch().load(Ordering::Relaxed);
    s.vm.unmap(VA, 0x1000).unwrap();
    assert_ne!(launch.epoch().load(Ordering::Relaxed), epoch);
    assert_eq!(kind(VA, Access::Read), Some(FaultKind::NotPresent));
    // Its pages stay until the launch has ended.
    assert_eq!(Arc::strong_count(&object), 2);
    drop(launch);
    assert_eq!(Arc::strong_count(&object), 1);
}

#[test]
fn ranges_do_not_overlap_and_are_unmapped_whole() {
    let s = setup();
    let object = s.object(Kind::Gtt, 0x4000);
    let map = |va, offset, bytes| s.vm.map(va, &object, offset, bytes, ALL, Mtype::Uc);
    map(VA, 0, 0x4000).unwrap();
    assert_eq!(map(VA + 0x3000, 0, 0x1000), Err(libc::EINVAL));
    assert_eq!(map(VA - 0x1000, 0, 0x2000), Err(libc::EINVAL));
    assert_eq!(map(VA + 0x4000, 0x3000, 0x2000), Err(libc::EINVAL));
    assert_eq!(map(VA + 0x4001, 0, 0x1000), Err(libc::EINVAL));
    map(VA + 0x4000, 0x3000, 0x1000).unwrap();
    assert_eq!(s.vm.unmap(VA, 0x1000), Err(libc::EINVAL));
    s.vm.unmap(VA, 0x4000).unwrap();
    assert_eq!(s.vm.mapped().len(), 1);
}

#[test]
fn memory_runs_out_and_comes_back() {
    let s = setup();
    let vram = |bytes| {
        let kind = Kind::Vram { public: false };
        Object::new(&s.gmc, &s.system, kind, bytes, "test").err()
    };
    let first = s.object(Kind::Vram { public: false }, 60 * MIB);
    assert_eq!(vram(8 * MIB), Some(libc::ENOMEM));
    assert_eq!(s.gmc.vram.available(), 4 * MIB);
    drop(first);
    assert_eq!(vram(64 * MIB), None);
    assert_eq!(vram(0), Some(libc::EINVAL));
    assert_eq!(vram(u64::MAX), Some(libc::EINVAL));
}

#[test]
fn a_userptr_object_is_the_clients_memory() {
    let s = setup();
    let client = Mapping::new(0x2000).unwrap();
    let (read, write, shared) = (libc::PROT_READ, libc::PROT_WRITE, libc::MAP_SHARED);
    let address = client
        .map_client(0, 0x2000, read | write, shared, 0)
        .unwrap();
    let pages = Mapping::of_client(address, 0x2000, true).unwrap();
    let kind = Kind::Userptr {
        address,
        pages: Arc::new(pages),
    };
    let _object = s.mapped(kind, Mtype::Uc);
    client.store64(0x1008, 77);
    assert_eq!(s.read(Port::Cp, VA + 0x1008), 77);
    let refused = Mapping::of_client(0x1000, 0x1000, true).err();
    assert_eq!(refused, Some(libc::EFAULT));
    assert_eq!(s.system.available(), 64 * MIB - 0x2000);
}
