//! Accesses of the command processor and of shader cores: addresses become bytes, through their caches.
//!
//! Old data is really read; a rule names the missing packet or call. A rule is broken once for an object and an access
//! of a packet or a dispatch, not for each word.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use twin::rule::{Journal, Proof, Rule};
use twin::touched::Touched;
use twin_ir3::memory::{Change, Denied, Memory, Path};

use super::cache::{Caches, Stale};
use super::descriptors::{Held, Word};
use super::{Area, Object, Space};

static UCHE: Rule = Rule {
    name: "GPU-UCHE-INVALIDATE",
    text: "UCHE is invalidated (CACHE_INVALIDATE) between a change of memory by CPU or CP and a load of a shader that \
           was cached before",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_CMD_FLAG_CACHE_INVALIDATE",
    proof: Proof::Sourced,
};

static TEXTURE: Rule = Rule {
    name: "GPU-TEXTURE-INVALIDATE",
    text: "texture caches are invalidated (CACHE_INVALIDATE) between a write and a read through a texture",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_CMD_FLAG_CACHE_INVALIDATE: UCHE and texture caches",
    proof: Proof::Sourced,
};

static INSTRUCTION: Rule = Rule {
    name: "GPU-INSTRUCTION-INVALIDATE",
    text: "SP_UPDATE_CNTL with CS_STATE is written after code in memory has changed",
    source: "Mesa, src/freedreno/registers/adreno/a6xx.xml, SP_UPDATE_CNTL (HLSQ_INVALIDATE_CMD)",
    proof: Proof::Sourced,
};

static CPU: Rule = Rule {
    name: "CPU-CACHE-CLEAN",
    text: "what the CPU has written to write-back memory, or to pages of its own, is cleaned (GPUOBJ_SYNC TO_GPU, DC CVAC) \
           before the GPU reads it",
    source: "KGSL, kgsl.c, _kgsl_gpumem_sync_cache, memdesc_sg_virt; Mesa, src/freedreno/vulkan/tu_knl_kgsl.cc, \
             kgsl_sync_cache",
    proof: Proof::Sourced,
};

static FLUSH: Rule = Rule {
    name: "GPU-UCHE-FLUSH",
    text: "UCHE is flushed (CACHE_FLUSH_TS) between a store of a shader and a read of the command processor",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_CMD_FLAG_CACHE_FLUSH: other clients read memory",
    proof: Proof::Sourced,
};

static LANDED: Rule = Rule {
    name: "CP-WAIT-MEM-WRITES",
    text: "CP_WAIT_MEM_WRITES stands between a write of the command processor to memory and whoever reads it",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, CP_WAIT_MEM_WRITES; tu_cmd_buffer.h, \
             TU_CMD_FLAG_WAIT_MEM_WRITES",
    proof: Proof::Sourced,
};

static COLORS: Rule = Rule {
    name: "GPU-CCU-FLUSH",
    text: "PC_CCU_FLUSH_COLOR_TS stands between a write of the 2D engine and whoever reads it, or the end of the \
           submission",
    source: "Mesa, src/freedreno/vulkan/tu_cmd_buffer.h, TU_CMD_FLAG_CCU_CLEAN_COLOR (CCU_FLUSH_COLOR); \
             tu_cmd_buffer.cc, tu_flush_for_access: TU_ACCESS_CCU_COLOR_WRITE",
    proof: Proof::Sourced,
};

static PAGE_FAULT: Rule = Rule {
    name: "ADRENO-PAGE-FAULT",
    text: "an access of the GPU is to memory that is mapped for it, and to be written where it writes",
    source: "KGSL, kgsl_iommu.c, kgsl_iommu_fault_handler; Linux, drivers/gpu/drm/msm/adreno/adreno_gpu.c, \
             adreno_fault_handler",
    proof: Proof::Sourced,
};

static GUARD: Rule = Rule {
    name: "KGSL-GUARD-PAGE",
    text: "nothing is read behind a memory object: chips of the 3xx and 4xx have a page there, others fault",
    source: "KGSL, adreno_iommu.c, KGSL_MMU_NEED_GUARD_PAGE; kgsl_iommu.c, _iommu_map_guard_page",
    proof: Proof::Sourced,
};

static LISTED: Rule = Rule {
    name: "MSM-BO-NOT-LISTED",
    text: "memory that the commands of a submission use is in its list of memory: the kernel keeps no other in place",
    source: "Linux, include/uapi/drm/msm_drm.h, drm_msm_gem_submit_bo",
    proof: Proof::Sourced,
};

/// An access that no page answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFault {
    /// Where.
    pub address: u64,
    /// Whether something was to be written.
    pub write: bool,
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.write { "write to" } else { "read of" };
        write!(f, "{what} {:#x}", self.address)
    }
}

/// Whose a write is that is on its way to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// The command processor's.
    Commands,
    /// The 2D engine's, in the cache of colours.
    Colors,
}

/// Writes that are on their way to memory.
#[derive(Default)]
pub struct Writes(Vec<(Via, u64, Vec<u8>)>);

impl Writes {
    /// One more.
    pub fn push(&mut self, via: Via, at: u64, data: Vec<u8>) {
        self.0.push((via, at, data));
    }

    /// Those of others come behind.
    pub fn append(&mut self, mut others: Writes) {
        self.0.append(&mut others.0);
    }

    /// Whether one is on its way.
    pub fn has(&self, via: Via) -> bool {
        self.0.iter().any(|(one, ..)| *one == via)
    }

    /// All of somebody, which are then in memory.
    pub fn take(&mut self, via: Via) -> Vec<(u64, Vec<u8>)> {
        let all = std::mem::take(&mut self.0);
        let (taken, left) = all.into_iter().partition(|(one, ..)| *one == via);
        self.0 = left;
        let taken: Vec<(Via, u64, Vec<u8>)> = taken;
        taken.into_iter().map(|(_, at, data)| (at, data)).collect()
    }

    /// The byte that comes last to an address.
    pub fn last(&self, via: Via, at: u64) -> Option<u8> {
        let mut of_whom = self.0.iter().rev().filter(|(one, ..)| *one == via);
        of_whom.find_map(|(_, first, data)| {
            let inside = at.checked_sub(*first)?;
            data.get(usize::try_from(inside).ok()?).copied()
        })
    }

    /// None is on its way any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn overlap(&self, at: u64, bytes: usize) -> Option<Via> {
        let end = at.saturating_add(bytes as u64);
        let mut all = self.0.iter();
        let found = all.find(|(_, first, data)| *first < end && first + data.len() as u64 > at);
        found.map(|(via, ..)| *via)
    }
}

/// See the front page.
pub struct View<'a> {
    /// Where broken rules go.
    pub journal: &'a Journal,
    /// Which memory lies where.
    pub space: &'a Space,
    /// The caches.
    pub caches: &'a mut Caches,
    /// The memory that a submission lists, where it has to.
    pub listed: Option<&'a BTreeSet<u32>>,
    /// Writes that are not in memory yet.
    pub writes: &'a Writes,
    /// Who accesses, for reports.
    pub who: String,
    /// What has been read and written.
    pub touched: Touched,
    /// What no page has answered.
    pub fault: Option<PageFault>,
    /// The descriptors that shader cores hold; none for who reads none.
    pub held: Option<&'a mut Held>,
    said: HashSet<(&'static str, u64)>,
}

/// The end of a submission comes before what the 2D engine has written is in memory.
pub fn unflushed(journal: &Journal, who: &str, at: u64) {
    journal.broken(&COLORS, format!("{who}: {at:#x}, at the end"));
}

impl<'a> View<'a> {
    /// Accesses of somebody.
    pub fn new(
        journal: &'a Journal,
        space: &'a Space,
        caches: &'a mut Caches,
        listed: Option<&'a BTreeSet<u32>>,
        writes: &'a Writes,
        who: String,
    ) -> View<'a> {
        View {
            journal,
            space,
            caches,
            listed,
            writes,
            who,
            touched: Touched::default(),
            fault: None,
            held: None,
            said: HashSet::new(),
        }
    }

    fn broken(&mut self, rule: &'static Rule, object: u64, what: impl FnOnce() -> String) {
        if self.said.insert((rule.name, object)) {
            let what = format!("{}: {}", self.who, what());
            self.journal.broken(rule, what);
        }
    }

    fn stale(&mut self, stale: Option<Stale>, object: &Object, address: u64) {
        let rule = match stale {
            None => return,
            Some(Stale::Uche) => &UCHE,
            Some(Stale::Texture) => &TEXTURE,
            Some(Stale::Instruction) => &INSTRUCTION,
            Some(Stale::Cpu) => &CPU,
            Some(Stale::Dirty) => &FLUSH,
        };
        self.broken(rule, object.id, || {
            format!("old data at {address:#x}, of {}", object.name)
        });
    }

    /// The memory of a range, by pieces.
    fn walk(&mut self, at: u64, bytes: usize, write: bool) -> Result<Pieces, Denied> {
        let mut pieces = Pieces::new();
        let mut done = 0;
        while done < bytes {
            let address = at.wrapping_add(done as u64);
            let found = self.space.find(address);
            let guard = match found {
                None if !write => self.space.guard(address),
                _ => None,
            };
            let (area, inside) = match (found, guard) {
                (Some((area, inside)), _) if area.writable || !write => (area.clone(), inside),
                (_, Some(guard)) => {
                    let inside = address % guard.bytes;
                    self.broken(&GUARD, address / 4096, || format!("read of {address:#x}"));
                    (guard, inside)
                }
                (found, None) => {
                    let fault = PageFault { address, write };
                    let known = found.map_or("nothing", |_| "memory that the GPU only reads");
                    self.broken(&PAGE_FAULT, address / 4096, || format!("{fault}: {known}"));
                    self.fault.get_or_insert(fault);
                    return Err(match found {
                        Some(_) => Denied::ReadOnly { address },
                        None => Denied::Unmapped { address },
                    });
                }
            };
            self.check_listed(&area, address);
            let piece =
                (bytes - done).min(usize::try_from(area.bytes - inside).unwrap_or(usize::MAX));
            pieces.push((area.object, inside, done..done + piece));
            done += piece;
        }
        Ok(pieces)
    }

    fn check_listed(&mut self, area: &Area, address: u64) {
        let listed = self
            .listed
            .is_none_or(|listed| listed.contains(&area.handle));
        if !listed {
            let (id, handle) = (area.object.id, area.handle);
            self.broken(&LISTED, id, || format!("handle {handle} at {address:#x}"));
        }
    }

    fn landed(&mut self, at: u64, bytes: usize) {
        let rule = match self.writes.overlap(at, bytes) {
            Some(Via::Commands) => &LANDED,
            Some(Via::Colors) => &COLORS,
            None => return,
        };
        self.broken(rule, at / 4096, || format!("a read of {at:#x}"));
    }

    /// Reads as the command processor does: from DRAM.
    ///
    /// # Errors
    /// [`PageFault`].
    pub fn fetch(&mut self, at: u64, out: &mut [u8]) -> Result<(), PageFault> {
        self.landed(at, out.len());
        let pieces = self.walk(at, out.len(), false);
        let pieces = pieces.map_err(|_| self.refused(at, false))?;
        for (object, inside, range) in pieces {
            let address = at + range.start as u64;
            let stale = self.caches.unseen(&object, inside, range.len());
            self.stale(stale, &object, address);
            object.dram().read(inside, &mut out[range]);
        }
        self.touched.read(at, out.len());
        Ok(())
    }

    /// Loads descriptors of a base ahead, through UCHE: shader cores hold them from now on. What they hold already stays,
    /// and what is old of it shows where it is used.
    ///
    /// # Errors
    /// [`PageFault`].
    pub fn load_ahead(&mut self, base: u8, at: u64, bytes: usize) -> Result<(), PageFault> {
        let pieces = self.walk(at, bytes, false);
        let pieces = pieces.map_err(|_| self.refused(at, false))?;
        let mut all = vec![0; bytes];
        for (object, inside, range) in pieces {
            self.caches.read(&object, inside, &mut all[range]);
        }
        if let Some(held) = self.held.as_deref_mut() {
            for (word, at) in all.as_chunks::<4>().0.iter().zip((at..).step_by(4)) {
                let (value, is_ahead) = (u32::from_le_bytes(*word), true);
                held.read(base, at, Word { value, is_ahead });
            }
        }
        Ok(())
    }

    /// Shader cores have what they hold of a descriptor, not what memory has by now.
    fn hold(&mut self, base: u8, at: u64, bytes: &mut [u8]) {
        let Some(held) = self.held.as_deref_mut() else {
            return;
        };
        let mut old = None;
        let words = bytes.as_chunks_mut::<4>().0;
        for (word, at) in words.iter_mut().zip((at..).step_by(4)) {
            let now = u32::from_le_bytes(*word);
            let (value, is_ahead) = (now, false);
            let has = held.read(base, at, Word { value, is_ahead });
            if has.value != now {
                old.get_or_insert((at, has, now));
                *word = has.value.to_le_bytes();
            }
        }
        if let Some((at, has, now)) = old {
            self.broken(has.rule(), base.into(), || {
                let value = has.value;
                format!("base {base}: {value:#x} is held of {at:#x}, where memory has {now:#x}")
            });
        }
    }

    /// Whether a range may be written.
    ///
    /// # Errors
    /// [`PageFault`].
    pub fn probe(&mut self, at: u64, bytes: usize) -> Result<(), PageFault> {
        let pieces = self.walk(at, bytes, true);
        pieces.map(drop).map_err(|_| self.refused(at, true))
    }

    /// Writes as the command processor does: to DRAM.
    ///
    /// # Errors
    /// [`PageFault`].
    pub fn store(&mut self, at: u64, data: &[u8]) -> Result<(), PageFault> {
        let pieces = self.walk(at, data.len(), true);
        let pieces = pieces.map_err(|_| self.refused(at, true))?;
        for (object, inside, range) in pieces {
            object.dram().write(inside, &data[range]);
        }
        self.touched.write(at, data.len());
        Ok(())
    }

    /// The fault of an access that was denied.
    pub fn refused(&self, address: u64, write: bool) -> PageFault {
        self.fault.unwrap_or(PageFault { address, write })
    }
}

/// Objects, where in them, and which bytes of an access.
type Pieces = Vec<(Arc<Object>, u64, std::ops::Range<usize>)>;

impl Memory for View<'_> {
    fn read(&mut self, path: Path, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        self.landed(address, into.len());
        for (object, inside, range) in self.walk(address, into.len(), false)? {
            let out = &mut into[range.clone()];
            let stale = match path {
                Path::Uche | Path::Descriptor(_) => self.caches.read(&object, inside, out),
                Path::Texture => self.caches.texture(&object, inside, out),
                Path::Instruction => self.caches.instruction(&object, inside, out),
            };
            self.stale(stale, &object, address + range.start as u64);
        }
        if let Path::Descriptor(base) = path {
            self.hold(base, address, into);
        }
        self.touched.read(address, into.len());
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Denied> {
        for (object, inside, range) in self.walk(address, from.len(), true)? {
            self.caches.write(&object, inside, &from[range]);
        }
        self.touched.write(address, from.len());
        Ok(())
    }

    fn atomic(&mut self, address: u64, bytes: usize, change: Change<'_>) -> Result<u64, Denied> {
        let mut held = [0; 8];
        let bytes = bytes.min(8);
        // What cannot be written is not read either.
        self.walk(address, bytes, true)?;
        let before = self.touched.clone();
        self.read(Path::Uche, address, &mut held[..bytes])?;
        let old = u64::from_le_bytes(held);
        let new = change(old).to_le_bytes();
        self.write(address, &new[..bytes])?;
        // Atomics of several dispatches do not race: each is done in one step.
        self.touched = before;
        Ok(old)
    }
}

#[cfg(test)]
mod tests {
    use twin::fires::fires;

    use super::*;

    /// Where the memory is.
    const AT: u64 = 0x5_0000_0000;
    /// A bindless base.
    const BASE: u8 = 2;

    struct Bench {
        journal: Journal,
        space: Space,
        caches: Caches,
        writes: Writes,
        listed: BTreeSet<u32>,
        held: Held,
        object: Arc<Object>,
    }

    impl Bench {
        fn new(cached: bool) -> Bench {
            let object = Object::zeros(1, 4096, "test".into(), cached).unwrap();
            let object = Arc::new(object);
            let mut space = Space::default();
            let area = |writable| Area {
                bytes: 4096,
                object: object.clone(),
                writable,
                handle: 7,
            };
            assert!(space.insert(AT, area(true)) && space.insert(AT + 4096, area(false)));
            Bench {
                journal: Journal::new(),
                space,
                caches: Caches::default(),
                writes: Writes::default(),
                listed: BTreeSet::from([7]),
                held: Held::default(),
                object,
            }
        }

        fn with<T>(&mut self, run: impl FnOnce(&mut View<'_>) -> T) -> T {
            let listed = Some(&self.listed);
            let (space, caches) = (&self.space, &mut self.caches);
            let who = "test".into();
            let mut view = View::new(&self.journal, space, caches, listed, &self.writes, who);
            view.held = Some(&mut self.held);
            run(&mut view)
        }

        fn read(&mut self, path: Path, at: u64) -> u8 {
            let mut out = [0];
            self.with(|view| view.read(path, AT + at, &mut out))
                .unwrap();
            out[0]
        }

        fn descriptor(&mut self, at: u64) -> [u8; 4] {
            let (path, mut out) = (Path::Descriptor(BASE), [0; 4]);
            self.with(|view| view.read(path, AT + at, &mut out))
                .unwrap();
            out
        }

        fn broken(&self) -> Vec<&'static str> {
            let violations = self.journal.violations();
            violations.iter().map(|one| one.rule.name).collect()
        }
    }

    #[test]
    fn caches_before_memory_keep_what_they_have_read() {
        for (path, rule) in [
            (Path::Uche, fires("GPU-UCHE-INVALIDATE")),
            (Path::Texture, fires("GPU-TEXTURE-INVALIDATE")),
            (Path::Instruction, fires("GPU-INSTRUCTION-INVALIDATE")),
        ] {
            let mut bench = Bench::new(false);
            assert_eq!(bench.read(path, 8), 0);
            bench.object.dram().write(8, &[5]);
            assert_eq!(bench.read(path, 8), 0);
            rule.only(&bench.broken());
        }
    }

    #[test]
    fn descriptors_are_those_that_are_held() {
        let mut bench = Bench::new(false);
        assert_eq!(bench.descriptor(8), [0; 4]);
        bench.object.dram().write(8, &[5]);
        bench.caches.invalidate();
        assert_eq!(bench.descriptor(8), [0; 4]);
        fires("CS-BINDLESS-READ").only(&bench.broken());
        // Of two loads ahead the first counts, until the base is invalidated.
        let mut bench = Bench::new(false);
        for value in [6, 7] {
            bench.object.dram().write(16, &[value]);
            bench.caches.invalidate();
            let done = bench.with(|view| view.load_ahead(BASE, AT, 64));
            assert_eq!(done, Ok(()));
        }
        assert!(bench.broken().is_empty());
        assert_eq!(bench.descriptor(16), [6, 0, 0, 0]);
        fires("CS-BINDLESS-INVALIDATE").only(&bench.broken());
        bench.held.forget(1 << BASE);
        assert_eq!(bench.descriptor(16), [7, 0, 0, 0]);
        let fault = PageFault {
            address: AT - 4,
            write: false,
        };
        let done = bench.with(|view| view.load_ahead(BASE, AT - 4, 8));
        assert_eq!(done, Err(fault));
    }

    #[test]
    fn textures_do_not_see_what_shaders_store() {
        let mut bench = Bench::new(false);
        bench.read(Path::Texture, 0);
        bench.with(|view| view.write(AT, &[3])).unwrap();
        assert_eq!(bench.read(Path::Texture, 0), 0);
        fires("GPU-TEXTURE-INVALIDATE").only(&bench.broken());
        bench.caches.invalidate();
        assert_eq!(bench.read(Path::Texture, 0), 3);
    }

    #[test]
    fn the_command_processor_reads_memory() {
        let mut bench = Bench::new(false);
        bench.with(|view| view.write(AT, &[3])).unwrap();
        let mut out = [9];
        bench.with(|view| view.fetch(AT, &mut out)).unwrap();
        assert_eq!(out, [0]);
        fires("GPU-UCHE-FLUSH").only(&bench.broken());
        let mut bench = Bench::new(true);
        bench.object.seen().write(0, &[4]);
        bench.with(|view| view.fetch(AT, &mut out)).unwrap();
        assert_eq!(out, [0]);
        fires("CPU-CACHE-CLEAN").only(&bench.broken());
        let mut bench = Bench::new(false);
        bench.writes.push(Via::Commands, AT, vec![1; 4]);
        bench.read(Path::Uche, 3);
        bench.read(Path::Uche, 4);
        fires("CP-WAIT-MEM-WRITES").only(&bench.broken());
        let mut bench = Bench::new(false);
        bench.writes.push(Via::Colors, AT, vec![1; 4]);
        bench.read(Path::Uche, 4);
        assert!(bench.broken().is_empty());
        bench.with(|view| view.fetch(AT, &mut out)).unwrap();
        fires("GPU-CCU-FLUSH").only(&bench.broken());
    }

    #[test]
    fn pages_are_mapped_and_listed() {
        let mut bench = Bench::new(false);
        let denied = bench.with(|view| view.read(Path::Uche, AT - 1, &mut [0; 2]));
        let address = AT - 1;
        assert_eq!(denied, Err(Denied::Unmapped { address }));
        fires("ADRENO-PAGE-FAULT").only(&bench.broken());
        let mut bench = Bench::new(false);
        let stored = bench.with(|view| view.store(AT + 4094, &[1; 4]));
        let fault = PageFault {
            address: AT + 4096,
            write: true,
        };
        assert_eq!(stored, Err(fault));
        assert_eq!(bench.read(Path::Uche, 4094), 0);
        fires("ADRENO-PAGE-FAULT").only(&bench.broken());
        let mut bench = Bench::new(false);
        bench.listed.clear();
        bench.read(Path::Uche, 0);
        fires("MSM-BO-NOT-LISTED").only(&bench.broken());
    }

    #[test]
    fn a_guard_page_is_read_and_named() {
        let mut bench = Bench::new(false);
        let page = Object::zeros(2, 4096, "guard page".into(), false).unwrap();
        bench.space.set_guard(Arc::new(page));
        let mut read = [7; 4];
        let done = bench.with(|view| view.read(Path::Uche, AT + 8190, &mut read));
        assert_eq!((done, read), (Ok(()), [0; 4]));
        fires("KGSL-GUARD-PAGE").only(&bench.broken());
        let mut bench = Bench::new(false);
        let page = Object::zeros(2, 4096, "guard page".into(), false).unwrap();
        bench.space.set_guard(Arc::new(page));
        let stored = bench.with(|view| view.store(AT + 8192, &[1; 4]));
        assert!(stored.is_err());
        fires("ADRENO-PAGE-FAULT").only(&bench.broken());
    }

    #[test]
    fn atomics_change_memory_in_uche() {
        let mut bench = Bench::new(false);
        bench.with(|view| view.write(AT, &[250, 0, 0, 0])).unwrap();
        let add = |old: u64| old + 10;
        let old = bench.with(|view| view.atomic(AT, 4, &add)).unwrap();
        assert_eq!((old, bench.read(Path::Uche, 0)), (250, 4));
        assert_eq!(bench.read(Path::Uche, 1), 1);
        assert!(bench.broken().is_empty());
    }
}
