//! Memory as an engine has it: through the page tables of an address space, or by itself.

use std::sync::Arc;

use crate::space::{Access, Memory, Space};

use super::bus::{Bus, Fault};

/// An address space, as it was when somebody began to look at it. Its memory stays until he ends.
#[derive(Clone, Debug)]
pub struct View(Arc<Space>);

impl View {
    /// Of an address space.
    pub fn new(space: Arc<Space>) -> View {
        View(space)
    }

    /// Calls `each` with every memory of a range, the place in it, and the bytes of the range that it has.
    fn walk(
        &self,
        at: u64,
        bytes: usize,
        access: Access,
        mut each: impl FnMut(&Memory, u64, std::ops::Range<usize>) -> bool,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < bytes {
            let va = at.wrapping_add(done as u64);
            let fault = |why| Fault { va, access, why };
            let (memory, offset, rest) = self.0.translate(va, access).map_err(fault)?;
            let length = (bytes - done).min(usize::try_from(rest).unwrap_or(usize::MAX));
            if !each(memory, offset, done..done + length) {
                // A mapping lies in its memory; this is what is left of one that does not.
                return Err(fault(crate::space::Fault::Unmapped));
            }
            done += length;
        }
        Ok(())
    }

    /// Whether all of a range may be accessed so.
    ///
    /// # Errors
    /// Where it may not.
    pub fn check(&self, at: u64, bytes: usize, access: Access) -> Result<(), Fault> {
        self.walk(at, bytes, access, |_, _, _| true)
    }
}

impl Bus for View {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.walk(at, out.len(), Access::Read, |memory, offset, range| {
            memory.contents.read(offset, &mut out[range])
        })
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<(), Fault> {
        // All or nothing.
        self.check(at, data.len(), Access::Write)?;
        self.walk(at, data.len(), Access::Write, |memory, offset, range| {
            memory.contents.write(offset, &data[range])
        })
    }

    fn update(
        &self,
        at: u64,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        self.walk(at, held.len(), Access::Atomic, |memory, offset, range| {
            // Aligned, so in one page, and in one piece.
            let held = &mut held[range];
            memory.contents.update(offset, held, change)
        })
    }
}

/// Memory by the place in it, which no page table rules: USERD, notifiers.
#[derive(Clone, Debug)]
pub struct Physical {
    memory: Arc<Memory>,
    /// Where it begins.
    from: u64,
}

impl Physical {
    /// Of memory, from a byte on.
    pub fn new(memory: Arc<Memory>, from: u64) -> Physical {
        Physical { memory, from }
    }

    fn at(&self, at: u64) -> u64 {
        self.from.saturating_add(at)
    }
}

fn inside(done: bool, va: u64, access: Access) -> Result<(), Fault> {
    let why = crate::space::Fault::Unmapped;
    done.then_some(()).ok_or(Fault { va, access, why })
}

impl Bus for Physical {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        inside(
            self.memory.contents.read(self.at(at), out),
            at,
            Access::Read,
        )
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<(), Fault> {
        inside(
            self.memory.contents.write(self.at(at), data),
            at,
            Access::Write,
        )
    }

    fn update(
        &self,
        at: u64,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        let done = self.memory.contents.update(self.at(at), held, change);
        inside(done, at, Access::Atomic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::Contents;
    use crate::space::{self, Mapping, Owner, Place, Rights};

    fn memory(bytes: u64) -> Arc<Memory> {
        Arc::new(Memory {
            id: 1,
            gpu: 0,
            place: Place::Local,
            bytes,
            page: 4096,
            writable: true,
            contents: Contents::zeros(bytes).unwrap(),
        })
    }

    #[test]
    fn an_access_is_done_where_page_tables_lead() {
        let mut space = Space::new(0, 0x1000, 0xf_ffff, true);
        let (first, second) = (memory(0x2000), memory(0x1000));
        for (at, memory, offset, rights) in [
            (0x4000, &first, 0x1000, Rights::ReadWriteAtomic),
            (0x5000, &second, 0, Rights::ReadWrite),
            (0x6000, &first, 0, Rights::ReadOnly),
        ] {
            let mapping = Mapping {
                bytes: 0x1000,
                memory: memory.clone(),
                offset,
                rights,
                page: 4096,
                owner: Owner::Uvm,
            };
            space.map(at, mapping);
        }
        let mut space = Arc::new(space);
        let view = View::new(space.clone());
        view.write(0x4ffc, &[1, 2, 3, 4, 5, 6]).unwrap();
        let mut seen = [0; 6];
        view.read(0x4ffc, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
        Physical::new(first.clone(), 0)
            .read(0x1ffc, &mut seen[..4])
            .unwrap();
        assert_eq!(seen[..4], [1, 2, 3, 4]);
        let mut held = [0; 4];
        view.update(0x4ffc, &mut held, &mut |word| word[0] += 1)
            .unwrap();
        assert_eq!(held, [1, 2, 3, 4]);
        let denied = |va, access, rights| Fault {
            va,
            access,
            why: space::Fault::Denied(rights),
        };
        let refused = view.update(0x5000, &mut held, &mut |_| panic!("it is not done"));
        assert_eq!(
            refused,
            Err(denied(0x5000, Access::Atomic, Rights::ReadWrite))
        );
        // All or nothing.
        let refused = view.write(0x5ffe, &[9; 4]);
        assert_eq!(
            refused,
            Err(denied(0x6000, Access::Write, Rights::ReadOnly))
        );
        view.read(0x5ffe, &mut held).unwrap();
        assert_eq!(held, [0; 4]);
        let unmapped = view.read(0x6ffe, &mut held).unwrap_err();
        assert_eq!(
            (unmapped.va, unmapped.why),
            (0x7000, space::Fault::Unmapped)
        );
        assert!(Physical::new(first, 0x1000).write(0xfff, &[1, 2]).is_err());
        // What is taken away stays for who looks.
        Arc::make_mut(&mut space).cut(0x4000, 0x1000);
        assert!(view.read(0x4000, &mut held).is_ok());
        assert!(View::new(space).read(0x4000, &mut held).is_err());
    }
}
