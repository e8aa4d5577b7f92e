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

    /// Memory of the program. `cached`: as in [`Object::zeros`]; what the CPU has written so far is in DRAM.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn of_program(id: u64, memory: Mapping, name: String, cached: bool) -> Result<Object> {
        let bytes = memory.bytes();
        let (dram, cpu) = match cached {
            false => (memory, None),
            true => {
                let (dram, cpu) = (Mapping::new(bytes)?, CpuCache::over(memory));
                cpu.clean(&dram, 0, bytes);
                (dram, Some(cpu))
            }
        };
        Ok(Object {
            id,
            name,
            bytes,
            dram: Arc::new(dram),
            cpu,
        })
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
