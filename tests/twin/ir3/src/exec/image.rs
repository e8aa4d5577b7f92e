//! Images and buffers that may be written: ldib.b, stib.b, resinfo.

use drivers_spec::qcom::chip::Gen;
use drivers_spec::qcom::descriptor as spec;

use crate::fault::{Cause, Result, broken};
use crate::hazard::{Late, Ready};
use crate::inst::{Inst, Type};
use crate::memory::Path;
use crate::regs::{LANES, Lanes, Mask, Reg, lanes};
use crate::rules;
use crate::surface::{Format, PIXEL, Shape, Surface};
use crate::texel::{self, Pixel};
use crate::wave::{Core, SHARED_LATENCY, Wave};

use super::Unit;

/// Where an instruction accesses images: coordinates and the descriptor of each fiber.
pub(super) struct Places {
    coordinates: [Lanes; 3],
    indices: Lanes,
    base: Option<u8>,
    offset: i64,
}

impl Places {
    /// The image of a fiber.
    pub fn image(&self, core: &mut Core<'_>, lane: usize) -> Result<Surface> {
        core.image(self.indices[lane], self.base)
            .map_err(|stop| stop.of(lane))
    }

    /// The coordinates of a fiber's pixel, or of the n-th element behind it.
    pub fn at(&self, lane: usize, n: u32) -> [i64; 3] {
        let [x, y, z] = self
            .coordinates
            .map(|values| i64::from(values[lane] as i32));
        // Elements of buffers have no sign.
        let x = if y == 0 && z == 0 {
            i64::from(x as u32)
        } else {
            x
        };
        [x + self.offset + i64::from(n), y, z]
    }
}

impl Wave {
    /// Reads coordinates and the descriptor's index.
    pub(super) fn places(
        &mut self,
        inst: &Inst,
        core: &Core<'_>,
        mask: Mask,
        late: Late,
    ) -> Result<Places> {
        let count = inst.srcs.len();
        let first = Self::register(inst.srcs.get(count.wrapping_sub(2)))?;
        let indices = self.indices(inst, inst.srcs.last(), mask, late)?;
        let mut coordinates = [[0; LANES]; 3];
        if inst.mods.dims > 3 {
            return broken(&rules::MEANING, "four coordinates of an image");
        }
        let chip = core.launch.chip;
        if inst.mods.offset != 0 && chip.generation < Gen::Gen4 {
            // Mesa freedreno_devices.py, has_ssbo_imm_offsets.
            let what = format!("an offset of ldib.b or stib.b on {}", chip.name);
            return broken(&rules::COMPUTE, what);
        }
        for (n, values) in coordinates
            .iter_mut()
            .take(inst.mods.dims.into())
            .enumerate()
        {
            *values = self.read_late(first.plus(n as u16), mask, late)?;
        }
        Ok(Places {
            coordinates,
            indices,
            base: inst.mods.base,
            offset: inst.mods.offset.into(),
        })
    }

    pub(super) fn load_image(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = (kind(inst)?, inst.mods.count);
        let to = Self::register(inst.dsts.first())?;
        self.check_all(to, count, mask)?;
        let places = self.places(inst, core, mask, Late::Either)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes(mask) {
            let image = places.image(core, lane)?;
            let read = match inst.mods.typed {
                true => typed(core, &image, places.at(lane, 0), ty),
                false => untyped(core, &image, &places, lane, ty, count),
            };
            let pixel = read.map_err(|stop| stop.of(lane))?;
            for (value, component) in values.iter_mut().zip(pixel) {
                value[lane] = component;
            }
        }
        let ready = Ready::Sy(super::latency(core, Unit::Memory, count));
        for (n, value) in values.iter().take(count.into()).enumerate() {
            self.write(to.plus(n as u16), mask, value, ready, 0)?;
        }
        Ok(())
    }

    pub(super) fn store_image(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let (ty, count) = (kind(inst)?, inst.mods.count);
        let places = self.places(inst, core, mask, Late::Ss)?;
        let from = Self::register(inst.srcs.first())?;
        let mut values: Vec<Lanes> = Vec::new();
        for n in 0..count {
            values.push(self.read_late(from.plus(n), mask, Late::Ss)?);
        }
        for lane in lanes(mask) {
            let image = places.image(core, lane)?;
            let components = values.iter().map(|value| value[lane]);
            let done = match inst.mods.typed {
                true => store_typed(core, &image, places.at(lane, 0), ty, components),
                false => store_untyped(core, &image, &places, lane, ty, components),
            };
            done.map_err(|stop| stop.of(lane))?;
        }
        Ok(())
    }

    /// resinfo: three components, as ir3_a6xx.c has it (`emit_intrinsic_image_size`).
    pub(super) fn image_size(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        self.check_all(to, 3, mask)?;
        let indices = self.indices(inst, inst.srcs.last(), mask, Late::Either)?;
        let mut values = [[0; LANES]; 3];
        for lane in lanes(mask) {
            let image = core
                .image(indices[lane], inst.mods.base)
                .map_err(|stop| stop.of(lane))?;
            for (value, size) in values.iter_mut().zip(image.size()) {
                value[lane] = size;
            }
        }
        for (n, value) in values.iter().enumerate() {
            let reg = Reg {
                half: false,
                ..to.plus(n as u16)
            };
            self.write(reg, mask, value, Ready::Ss(SHARED_LATENCY), 0)?;
        }
        self.hazards.force(false);
        Ok(())
    }
}

impl Core<'_> {
    /// Reads a pixel.
    pub(super) fn pixel(&mut self, path: Path, image: &Surface, at: [u64; 3]) -> Result<Pixel> {
        let mut bytes = [0; PIXEL];
        let bytes = &mut bytes[..image.format.bytes()];
        let done = image.read(self.memory, path, at, bytes);
        done.map_err(|why| Cause::Memory {
            path,
            write: false,
            address: image.address(at),
            bytes: image.format.bytes(),
            why,
        })?;
        Ok(texel::decode(image.format, bytes))
    }

    fn store_pixel(&mut self, image: &Surface, at: [u64; 3], pixel: &Pixel) -> Result<()> {
        let (bytes, count) = texel::encode(image.format, pixel);
        let done = image.write(self.memory, at, &bytes[..count]);
        done.map_err(|why| super::refused(image.address(at), count, why).into())
    }

    /// The address of a pixel that is changed in its place.
    pub(super) fn place(&mut self, image: &Surface, at: [u64; 3]) -> Result<u64> {
        let (address, bytes) = (image.address(at), image.format.bytes());
        let done = image.prepare(self.memory, at);
        done.map_err(|why| super::refused(address, bytes, why))?;
        Ok(address)
    }
}

fn kind(inst: &Inst) -> Result<Type> {
    match inst.mods.ty {
        Some(ty) if ty.bytes() > 1 => Ok(ty),
        _ => broken(&rules::MEANING, "an image of bytes in registers"),
    }
}

/// A pixel; outside of the image it is 0.
fn typed(core: &mut Core<'_>, image: &Surface, at: [i64; 3], ty: Type) -> Result<[u32; 4]> {
    let mut pixel = match image.inside(at) {
        Some(at) => core.pixel(Path::Uche, image, at)?,
        None => [0; 4],
    };
    for component in &mut pixel {
        *component = texel::to_register(*component, image.format.sort(), ty)?;
    }
    Ok(pixel)
}

/// Elements one behind the other; outside of the buffer they are 0.
fn untyped(
    core: &mut Core<'_>,
    image: &Surface,
    places: &Places,
    lane: usize,
    ty: Type,
    count: u16,
) -> Result<[u32; 4]> {
    let image = &element(core, image, ty)?;
    let mut all = [0; 4];
    for (n, value) in all.iter_mut().take(count.into()).enumerate() {
        if let Some(at) = image.inside(places.at(lane, n as u32)) {
            let mut bytes = [0; 4];
            let bytes = &mut bytes[..ty.bytes() as usize];
            core.read(Path::Uche, image.address(at), bytes)?;
            *value = super::number(bytes);
        }
    }
    Ok(all)
}

/// A buffer as an untyped access sees it: its elements have the size of the type. Where a chip has buffers of 16 bits, their
/// descriptor serves accesses of 32 bits, too.
///
/// Source: Mesa src/freedreno/vulkan/tu_descriptor_set.cc, `write_buffer_descriptor_addr`: with storage_16bit the first
/// descriptor is of FMT6_16_UINT, and with has_isam_v there is no other.
pub(super) fn element(core: &Core<'_>, image: &Surface, ty: Type) -> Result<Surface> {
    let bytes = image.format.bytes() as u64;
    match image.shape {
        Shape::Buffer { .. } if bytes == ty.bytes() => return Ok(*image),
        Shape::Buffer { elements, start }
            if image.format.number == spec::Format::R16Uint as u32
                && ty.bytes() == 4
                && core.launch.chip.facts().storage_16bit
                && start.is_multiple_of(2) =>
        {
            if let Some(format) = Format::of(spec::Format::R32Uint as u32) {
                let (elements, start) = (elements / 2, start / 2);
                return Ok(Surface {
                    format,
                    shape: Shape::Buffer { elements, start },
                    ..*image
                });
            }
        }
        _ => {}
    }
    let what = format!(
        "an untyped access of {ty:?} to {} {:?}",
        image.format.name, image.shape
    );
    broken(&rules::DESCRIPTOR, what)
}

fn store_typed(
    core: &mut Core<'_>,
    image: &Surface,
    at: [i64; 3],
    ty: Type,
    components: impl Iterator<Item = u32>,
) -> Result<()> {
    let (sort, needed) = (image.format.sort(), image.format.count);
    let mut pixel = [0; 4];
    let mut given = 0;
    for (to, component) in pixel.iter_mut().zip(components) {
        *to = texel::from_register(component, sort, ty)?;
        given += 1;
    }
    if given < needed {
        let what = format!("{given} components are stored to {}", image.format.name);
        return broken(&rules::IMAGE_TYPE, what);
    }
    match image.inside(at) {
        Some(at) => core.store_pixel(image, at, &pixel),
        // Outside of the image nothing is written.
        None => Ok(()),
    }
}

fn store_untyped(
    core: &mut Core<'_>,
    image: &Surface,
    places: &Places,
    lane: usize,
    ty: Type,
    components: impl Iterator<Item = u32>,
) -> Result<()> {
    let image = &element(core, image, ty)?;
    for (n, component) in (0..).zip(components) {
        if let Some(at) = image.inside(places.at(lane, n)) {
            core.write(
                image.address(at),
                &component.to_le_bytes()[..ty.bytes() as usize],
            )?;
        }
    }
    Ok(())
}
