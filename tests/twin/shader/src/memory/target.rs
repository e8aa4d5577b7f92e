//! Where the lanes of a vector memory instruction read and write.

use super::buffer::{Buffer, Descriptor};
use super::lower::{lds_check, lds_get, lds_put};
use super::rules::{MEM_ALIGN, MEM_ATOMIC_FABRIC, SCRATCH_RANGE};
use crate::page::{MemFault, Port, lanes};
use crate::step::Stop;
use crate::wave::{Lanes, Wave};

/// How an instruction finds its addresses.
#[derive(Clone, Copy)]
pub enum Base {
    /// A VGPR pair, or an SGPR pair and a VGPR.
    Global,
    /// As global, but some addresses mean LDS or scratch.
    Flat,
    /// Offsets in the scratch of the lane.
    Scratch,
    /// A descriptor; [`Buffer`] has the rest.
    Buffer(Buffer),
    /// An SGPR pair and four times the lane.
    Tid,
}

/// The operands that make an address.
#[derive(Clone, Copy)]
pub struct Address {
    pub base: Base,
    /// The VGPR, if any is used.
    pub vaddr: Option<usize>,
    /// The SGPR or the pair, if any is used.
    pub saddr: Option<u16>,
    pub offset: i32,
    /// The way of loads.
    pub port: Port,
}

/// Where the lanes of a half access.
pub struct Target {
    /// The way of loads.
    port: Port,
    lanes: Where,
}

/// See [`Target`].
pub enum Where {
    /// Memory at these addresses.
    Memory([u64; 32]),
    /// Scratch at these offsets.
    Private(Lanes),
    /// Flat addresses, some of them LDS or scratch.
    Mixed([u64; 32]),
    /// A buffer, some of it out of range or swizzled: index and offset of each lane.
    Buffer(Descriptor, Lanes, Lanes),
}

/// Where a lane accesses.
#[derive(Clone, Copy)]
enum Place {
    Memory(u64),
    Lds(u32),
    Private(u32),
    /// Out of range: reads 0, writes are dropped.
    Nowhere,
}

impl Address {
    /// Where the lanes of `mask` access, which is not 0. `bytes` are what one lane accesses.
    #[inline(always)]
    pub fn target(&self, wave: &Wave, half: usize, mask: u32, bytes: u32) -> Target {
        let lanes = match &self.base {
            Base::Global => Where::Memory(self.flat(wave, half)),
            Base::Flat => {
                let addresses = self.flat(wave, half);
                let [shared, private] = [wave.place.shared_aperture, wave.place.private_aperture];
                let mut inside = 0;
                for (lane, address) in addresses.iter().enumerate() {
                    let high = (address >> 32) as u32;
                    inside |= (u32::from(high == shared) | u32::from(high == private)) << lane;
                }
                if inside & mask == 0 {
                    Where::Memory(addresses)
                } else {
                    Where::Mixed(addresses)
                }
            }
            Base::Scratch => {
                let first = self.saddr.map_or(0, |code| wave.scalar(code));
                let first = first.wrapping_add(self.offset as u32);
                let mut offsets = [first; 32];
                if let Some(vaddr) = self.vaddr {
                    for (offset, v) in offsets.iter_mut().zip(wave.vgpr(vaddr, half)) {
                        *offset = offset.wrapping_add(*v);
                    }
                }
                Where::Private(offsets)
            }
            Base::Buffer(buffer) => buffer.target(self, wave, half, mask, bytes),
            Base::Tid => {
                let first = self.saddr.map_or(0, |code| wave.scalar64(code));
                let first = first.wrapping_add_signed(self.offset.into());
                let lane = |lane: usize| 4 * (32 * half + lane) as u64;
                Where::Memory(std::array::from_fn(|i| first.wrapping_add(lane(i))))
            }
        };
        Target {
            port: self.port,
            lanes,
        }
    }

    #[inline(always)]
    fn flat(&self, wave: &Wave, half: usize) -> [u64; 32] {
        let vaddr = self.vaddr.unwrap_or_default();
        let low = wave.vgpr(vaddr, half);
        let mut addresses = [0; 32];
        if let Some(code) = self.saddr {
            let first = wave.scalar64(code).wrapping_add_signed(self.offset.into());
            for (address, low) in addresses.iter_mut().zip(low) {
                *address = first.wrapping_add(u64::from(*low));
            }
        } else {
            let high = wave.vgpr(vaddr + 1, half);
            for lane in 0..32 {
                addresses[lane] = (u64::from(low[lane]) | u64::from(high[lane]) << 32)
                    .wrapping_add_signed(self.offset.into());
            }
        }
        addresses
    }
}

impl Target {
    fn place(&self, wave: &Wave, lane: usize, byte: u32, bytes: u32) -> Place {
        match &self.lanes {
            Where::Memory(addresses) => Place::Memory(addresses[lane].wrapping_add(byte.into())),
            Where::Private(offsets) => Place::Private(offsets[lane].wrapping_add(byte)),
            Where::Mixed(addresses) => {
                let address = addresses[lane].wrapping_add(byte.into());
                let high = (address >> 32) as u32;
                if high == wave.place.shared_aperture {
                    Place::Lds(address as u32)
                } else if high == wave.place.private_aperture {
                    Place::Private(address as u32)
                } else {
                    Place::Memory(address)
                }
            }
            Where::Buffer(descriptor, indices, offsets) => descriptor
                .address(indices[lane], offsets[lane].wrapping_add(byte), bytes)
                .map_or(Place::Nowhere, Place::Memory),
        }
    }

    /// `N` dwords of each lane in `mask`, into registers from `dst`.
    #[inline(always)]
    pub fn load<const N: usize>(
        &self,
        wave: &mut Wave,
        half: usize,
        mask: u32,
        dst: usize,
    ) -> Result<(), Stop> {
        let halves = wave.halves;
        match &self.lanes {
            Where::Memory(addresses) => {
                let rows = &mut wave.v[dst * halves + half..];
                let loaded = wave.bus.load::<N>(self.port, addresses, mask, rows, halves);
                loaded.map_err(vector)?;
            }
            Where::Private(offsets) if scratch_check(wave, offsets, mask, 4 * N as u32)? => {
                for i in 0..N {
                    let addresses = scratch(wave, half, offsets, i);
                    let rows = &mut wave.v[(dst + i) * halves + half..];
                    let port = Port::Vector;
                    wave.bus.load::<1>(port, &addresses, mask, rows, halves)?;
                }
            }
            _ => {
                let mut found = [[0; 32]; N];
                for lane in lanes(mask) {
                    for (i, row) in found.iter_mut().enumerate() {
                        row[lane] = self.get(wave, half, lane, 4 * i as u32, 4)?;
                    }
                }
                for (i, row) in found.iter().enumerate() {
                    crate::page::blend(wave.vgpr_mut(dst + i, half), row, mask);
                }
            }
        }
        Ok(())
    }

    /// Stores `N` dwords of each lane in `mask`, from registers from `data`.
    #[inline(always)]
    pub fn store<const N: usize>(
        &self,
        wave: &mut Wave,
        half: usize,
        mask: u32,
        data: usize,
    ) -> Result<(), Stop> {
        let halves = wave.halves;
        match &self.lanes {
            Where::Memory(addresses) => {
                let rows = &wave.v[data * halves + half..];
                wave.bus
                    .store::<N>(self.port, addresses, mask, rows, halves)?;
            }
            Where::Private(offsets) if scratch_check(wave, offsets, mask, 4 * N as u32)? => {
                for i in 0..N {
                    let addresses = scratch(wave, half, offsets, i);
                    let rows = &wave.v[(data + i) * halves + half..];
                    let port = Port::Vector;
                    wave.bus.store::<1>(port, &addresses, mask, rows, halves)?;
                }
            }
            _ => {
                for lane in lanes(mask) {
                    for i in 0..N {
                        let value = wave.vgpr(data + i, half)[lane];
                        self.put(wave, half, lane, 4 * i as u32, 4, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// 8 or 16 bits of each lane in `mask`, with zeros above.
    pub fn load_small(
        &self,
        wave: &mut Wave,
        half: usize,
        mask: u32,
        bytes: u32,
    ) -> Result<Lanes, Stop> {
        if let Where::Memory(addresses) = &self.lanes {
            let loaded = match bytes {
                1 => wave.bus.load_small::<u8>(self.port, addresses, mask),
                _ => wave.bus.load_small::<u16>(self.port, addresses, mask),
            };
            return Ok(loaded.map_err(vector)?);
        }
        let mut found = [0; 32];
        for lane in lanes(mask) {
            found[lane] = self.get(wave, half, lane, 0, bytes)?;
        }
        Ok(found)
    }

    /// Stores the low 8 or 16 bits of each lane in `mask`.
    pub fn store_small(
        &self,
        wave: &mut Wave,
        half: usize,
        mask: u32,
        bytes: u32,
        values: &Lanes,
    ) -> Result<(), Stop> {
        if let Where::Memory(addresses) = &self.lanes {
            match bytes {
                1 => wave
                    .bus
                    .store_small::<u8>(self.port, addresses, mask, values)?,
                _ => wave
                    .bus
                    .store_small::<u16>(self.port, addresses, mask, values)?,
            }
            return Ok(());
        }
        for lane in lanes(mask) {
            self.put(wave, half, lane, 0, bytes, values[lane])?;
        }
        Ok(())
    }

    /// At most 4 bytes of one lane, `byte` bytes after its address.
    pub fn get(
        &self,
        wave: &mut Wave,
        half: usize,
        lane: usize,
        byte: u32,
        bytes: u32,
    ) -> Result<u32, Stop> {
        match self.place(wave, lane, byte, bytes) {
            Place::Memory(at) => {
                let value = wave.bus.read_any(self.port, at, bytes as usize);
                Ok(value.map_err(vector)? as u32)
            }
            Place::Lds(at) => {
                lds_check(wave, &[at; 32], 1 << lane, 0, bytes)?;
                Ok(lds_get(wave, at, bytes))
            }
            Place::Private(at) => {
                scratch_check(wave, &[at; 32], 1 << lane, bytes)?;
                let mut value = 0;
                for i in 0..bytes {
                    let va = scratch_byte(wave, 32 * half + lane, at + i);
                    let byte: u8 = wave.bus.get(Port::Vector, va)?;
                    value |= u32::from(byte) << (8 * i);
                }
                Ok(value)
            }
            Place::Nowhere => Ok(0),
        }
    }

    /// Stores at most 4 bytes of one lane.
    pub fn put(
        &self,
        wave: &mut Wave,
        half: usize,
        lane: usize,
        byte: u32,
        bytes: u32,
        value: u32,
    ) -> Result<(), Stop> {
        match self.place(wave, lane, byte, bytes) {
            Place::Memory(at) => {
                let bytes = bytes as usize;
                wave.bus.write_any(self.port, at, bytes, value.into())?;
            }
            Place::Lds(at) => {
                lds_check(wave, &[at; 32], 1 << lane, 0, bytes)?;
                lds_put(wave, at, bytes, value);
            }
            Place::Private(at) => {
                scratch_check(wave, &[at; 32], 1 << lane, bytes)?;
                for i in 0..bytes {
                    let va = scratch_byte(wave, 32 * half + lane, at + i);
                    wave.bus.put(Port::Vector, va, (value >> (8 * i)) as u8)?;
                }
            }
            Place::Nowhere => {}
        }
        Ok(())
    }

    /// Whether any of `bytes` of a lane are out of the range of a buffer: formats are read and written
    /// as a whole or not at all.
    pub fn outside(&self, wave: &Wave, lane: usize, bytes: u32) -> bool {
        matches!(self.place(wave, lane, 0, bytes), Place::Nowhere)
    }

    /// Changes `bytes` (4 or 8) of one lane; returns what was there. `travels`: PCIe carries it. Scratch belongs to one lane, so
    /// no step of another can come between.
    pub fn atomic(
        &self,
        wave: &mut Wave,
        half: usize,
        lane: usize,
        bytes: u32,
        travels: bool,
        new: impl Fn(u64) -> u64,
    ) -> Result<u64, Stop> {
        let place = self.place(wave, lane, 0, bytes);
        let at = match place {
            Place::Memory(at) => at,
            Place::Lds(at) | Place::Private(at) => at.into(),
            Place::Nowhere => return Ok(0),
        };
        if !at.is_multiple_of(bytes.into()) {
            let what = format!("lane {lane}: atomic of {bytes} bytes at {at:#x}");
            return Err(Stop::Rule(&MEM_ALIGN, what));
        }
        if let Place::Memory(at) = place {
            if !travels && wave.bus.memory.leaves(at) {
                let what = format!("lane {lane}: atomic of {bytes} bytes at {at:#x}");
                return Err(Stop::Rule(&MEM_ATOMIC_FABRIC, what));
            }
            // Past the caches in front of GL2, and where there are several GL2s past these.
            return Ok(if bytes == 4 {
                let new = |old: u32| new(old.into()) as u32;
                let old = wave.bus.atomic(Port::Cp, at, new);
                old.map_err(vector)?.into()
            } else {
                wave.bus.atomic(Port::Cp, at, new).map_err(vector)?
            });
        }
        let mut old = u64::from(self.get(wave, half, lane, 0, 4)?);
        if bytes == 8 {
            old |= u64::from(self.get(wave, half, lane, 4, 4)?) << 32;
        }
        let new = new(old);
        self.put(wave, half, lane, 0, 4, new as u32)?;
        if bytes == 8 {
            self.put(wave, half, lane, 4, 4, (new >> 32) as u32)?;
        }
        Ok(old)
    }
}

/// The fault of a vector access, whatever its way.
fn vector(fault: MemFault) -> MemFault {
    MemFault {
        port: Port::Vector,
        ..fault
    }
}

/// Whether the bytes of each lane that is on lie in its scratch; true where whole dwords do.
fn scratch_check(wave: &Wave, offsets: &Lanes, mask: u32, bytes: u32) -> Result<bool, Stop> {
    let lane_bytes = wave.place.scratch_bytes / (32 * wave.halves as u32);
    let (mut high, mut low) = (0, 0);
    for (lane, offset) in offsets.iter().enumerate() {
        let offset = offset & (mask >> lane & 1).wrapping_neg();
        high = offset.max(high);
        low |= offset;
    }
    let fits = lane_bytes
        .checked_sub(bytes)
        .is_some_and(|last| high <= last);
    if fits && wave.place.scratch != 0 {
        return Ok(low.is_multiple_of(4) && bytes.is_multiple_of(4));
    }
    Err(scratch_beyond(offsets, mask, bytes, lane_bytes))
}

#[cold]
fn scratch_beyond(offsets: &Lanes, mask: u32, bytes: u32, lane_bytes: u32) -> Stop {
    let beyond = |&lane: &usize| u64::from(offsets[lane]) + u64::from(bytes) > lane_bytes.into();
    let lane = lanes(mask).find(beyond).unwrap_or_default();
    let at = offsets[lane] as i32;
    Stop::Rule(
        &SCRATCH_RANGE,
        format!("lane {lane}: {bytes} bytes at {at:#x}, of {lane_bytes:#x} bytes of scratch"),
    )
}

/// The addresses of dword `i` after these offsets. Dwords of the lanes of a wave are neighbours.
fn scratch(wave: &Wave, half: usize, offsets: &Lanes, i: usize) -> [u64; 32] {
    let all = 32 * wave.halves as u64;
    let first = wave.place.scratch + 4 * 32 * half as u64;
    std::array::from_fn(|lane| {
        let dword = u64::from(offsets[lane] / 4) + i as u64;
        first.wrapping_add(dword * 4 * all + 4 * lane as u64)
    })
}

/// The address of the byte at `offset` of a lane of the wave.
fn scratch_byte(wave: &Wave, lane: usize, offset: u32) -> u64 {
    let all = 32 * wave.halves as u64;
    let dword = u64::from(offset / 4);
    wave.place.scratch + dword * 4 * all + 4 * lane as u64 + u64::from(offset % 4)
}
