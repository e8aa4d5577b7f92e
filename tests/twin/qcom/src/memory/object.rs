//! The memory of an object.

use std::fmt;
use std::sync::Arc;

use twin::errno::Result;
use twin::host::Mapping;

use super::cpu::CpuCache;

/// See the front page.
pub struct Object {
    /// Tells objects of a machine apart.
    pub id: u64,
    /// For reports.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    dram: Arc<Mapping>,
    cpu: Option<CpuCache>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Object {
    /// Zeros. `cached`: the CPU has its cache before them, and the GPU does not look there.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn zeros(id: u64, bytes: u64, name: String, cached: bool) -> Result<Object> {
        let cpu = match cached {
            true => Some(CpuCache::new(bytes)?),
            false => None,
        };
        Ok(Object {
            id,
            name,
            bytes,
            dram: Arc::new(Mapping::new(bytes)?),
            cpu,
        })
    }

    /// Memory of the program.
    pub fn of_program(id: u64, memory: Mapping, name: String) -> Object {
        Object {
            id,
            name,
            bytes: memory.bytes(),
            dram: Arc::new(memory),
            cpu: None,
        }
    }

    /// What the program maps.
    pub fn seen(&self) -> &Arc<Mapping> {
        self.cpu.as_ref().map_or(&self.dram, CpuCache::seen)
    }

    /// DRAM.
    pub fn dram(&self) -> &Mapping {
        &self.dram
    }

    /// The CPU's cache, if the GPU does not see it.
    pub fn cpu(&self) -> Option<&CpuCache> {
        self.cpu.as_ref()
    }
}
