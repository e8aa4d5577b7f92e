//! Category 5: reads of textures through the texture cache.
//!
//! Source: Mesa src/freedreno/isa/ir3-cat5.xml and ir3_compiler_nir.c (`emit_tex`): coordinates are in consecutive
//! registers, two even for one dimension, three for `.3d`, and a layer behind them for `.a`. A component is written to the
//! register of its number behind the destination (`regmask_set` in ir3.h).

use drivers_spec::qcom::chip::Gen;
use drivers_spec::qcom::descriptor::{Filter, Sampler, Wrap};

use super::Unit;
use crate::arith::float::value;
use crate::fault::{Result, Stop, broken};
use crate::hazard::{Late, Ready};
use crate::inst::{Desc, Inst, Type};
use crate::memory::Path;
use crate::op::Op;
use crate::regs::{LANES, Lanes, Mask, lanes, same};
use crate::rules;
use crate::surface::{Shape, Sort, Surface};
use crate::texel::{self, Pixel};
use crate::wave::{Core, Wave};

/// Which texture and sampler a fiber reads.
struct Slots {
    texture: Lanes,
    sampler: Lanes,
    base: Option<u8>,
    sampler_base: Option<u8>,
}

impl Wave {
    pub(super) fn texture(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        match inst.op {
            Op::QuadBrcst | Op::QuadHoriz | Op::QuadVert | Op::QuadDiag => self.quad(inst, core),
            Op::BrcstActive => self.broadcast_active(inst, core),
            Op::Isam | Op::Isaml | Op::Sam | Op::Saml => self.sample(inst, core),
            Op::Gather4r | Op::Gather4g | Op::Gather4b | Op::Gather4a => self.sample(inst, core),
            Op::Getsize => self.texture_size(inst, core),
            Op::Getbuf => self.buffer_size(inst, core),
            Op::Rgetpos | Op::Rgetinfo | Op::Getpos => broken(&rules::COMPUTE, inst.op.name()),
            _ => broken(&rules::MEANING, inst.op.name()),
        }
    }

    fn slots(&mut self, inst: &Inst, mask: Mask) -> Result<Slots> {
        let mods = inst.mods;
        let mut slots = Slots {
            texture: [mods.texture.unwrap_or(0).into(); LANES],
            sampler: [mods.sampler.unwrap_or(0).into(); LANES],
            base: mods.base,
            sampler_base: mods.base,
        };
        let Some(desc) = mods.desc else {
            return Ok(slots);
        };
        if desc.a1() {
            let address = self.address1(mask)?;
            slots.sampler_base = Some(address as u8 & 7);
            if desc == Desc::BindlessA1Imm {
                slots.texture = [address >> 3 & 0xff; LANES];
            }
        }
        if desc.indirect() {
            // Mesa ir3_compiler_nir.c, `get_tex_samp_tex_src`: two half registers, sampler and texture; with a bindless
            // base two full ones, texture and sampler.
            let first = Self::register(inst.srcs.last())?;
            let one = self.read_late(first, mask, Late::Either)?;
            let two = self.read_late(first.plus(1), mask, Late::Either)?;
            (slots.texture, slots.sampler) = match desc.bindless() {
                true => (one, two),
                false => (two, one),
            };
            let differ = |values| mask != 0 && same(mask, values).is_none();
            if desc.uniform() && (differ(&one) || differ(&two)) {
                return broken(
                    &rules::UNIFORM,
                    "the indices of texture and sampler differ between fibers",
                );
            }
        }
        Ok(slots)
    }

    fn coordinates(&mut self, inst: &Inst, mask: Mask) -> Result<[Lanes; 3]> {
        let first = Self::register(inst.srcs.first())?;
        let count = 2 + u16::from(inst.mods.d3) + u16::from(inst.mods.array);
        if count > 3 {
            return broken(&rules::MEANING, "an array of images with three dimensions");
        }
        let mut all = [[0; LANES]; 3];
        for (n, values) in all.iter_mut().take(count.into()).enumerate() {
            *values = self.read_late(first.plus(n as u16), mask, Late::Either)?;
        }
        Ok(all)
    }

    /// isam.v has one coordinate: an element of a buffer.
    fn first_coordinate(&mut self, inst: &Inst, core: &Core<'_>, mask: Mask) -> Result<[Lanes; 3]> {
        let chip = core.launch.chip;
        if chip.generation < Gen::Gen4 {
            // Mesa freedreno_devices.py, has_isam_v.
            return broken(&rules::COMPUTE, format!("isam.v on {}", chip.name));
        }
        let first = Self::register(inst.srcs.first())?;
        let values = self.read_late(first, mask, Late::Either)?;
        Ok([values, [0; LANES], [0; LANES]])
    }

    fn sample(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mods = inst.mods;
        let integers = matches!(inst.op, Op::Isam | Op::Isaml);
        let vector = inst.op == Op::Isam && mods.compare;
        let other = mods.offset != 0 || mods.compare;
        if mods.offsets || mods.project || other && !vector {
            return broken(
                &rules::MEANING,
                format!("offsets, projections, comparisons of {}", inst.op.name()),
            );
        }
        let mask = self.mask();
        let (ty, to) = (kind(inst)?, Self::register(inst.dsts.first())?);
        for n in lanes(mods.mask.into()) {
            self.check(to.plus(n as u16), mask)?;
        }
        let slots = self.slots(inst, mask)?;
        let coordinates = match vector {
            true => self.first_coordinate(inst, core, mask)?,
            false => self.coordinates(inst, mask)?,
        };
        let full = inst.srcs.first().is_some_and(|s| !s.half);
        if matches!(inst.op, Op::Isaml | Op::Saml) {
            // One level: whichever is asked for.
            self.read_late(Self::register(inst.srcs.get(1))?, mask, Late::Either)?;
        }
        let mut values = [[0; LANES]; 4];
        for lane in lanes(mask) {
            let at = coordinates.map(|values| values[lane]);
            let read = core
                .texture(slots.texture[lane], slots.base)
                .and_then(|texture| {
                    if vector {
                        let from = integer(at, full)[0] + i64::from(mods.offset);
                        return elements(core, &texture, from, ty, mods.mask);
                    }
                    let sampler = || (slots.sampler[lane], slots.sampler_base);
                    let pixel = match (integers, inst.op) {
                        (true, _) => fetch(core, &texture, sampler(), integer(at, full))?,
                        (false, Op::Sam | Op::Saml) => {
                            sampled(core, &texture, sampler(), at, full, mods.array)?
                        }
                        (false, op) => gathered(core, &texture, sampler(), at, full, op)?,
                    };
                    registers(&texture, pixel, ty)
                });
            let pixel = read.map_err(|stop: Stop| stop.of(lane))?;
            for (value, component) in values.iter_mut().zip(pixel) {
                value[lane] = component;
            }
        }
        self.write_components(inst, core, &values)
    }

    /// The size at a level; the descriptor has one level.
    fn texture_size(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        for n in lanes(inst.mods.mask.into()) {
            self.check(to.plus(n as u16), mask)?;
        }
        if !matches!(
            inst.mods.ty,
            Some(Type::U32 | Type::S32 | Type::U16 | Type::S16)
        ) {
            return broken(&rules::MEANING, "getsize of floats");
        }
        if inst.mods.mask & 8 != 0 {
            return broken(&rules::MEANING, "the fourth component of getsize");
        }
        self.read_late(Self::register(inst.srcs.first())?, mask, Late::Either)?;
        let slots = self.slots(inst, mask)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes(mask) {
            let texture = core.texture(slots.texture[lane], slots.base);
            let size = texture.map_err(|stop| stop.of(lane))?.size();
            for (value, size) in values.iter_mut().zip(size) {
                value[lane] = size;
            }
        }
        self.write_components(inst, core, &values)
    }

    /// getbuf: the elements of a buffer. What its other components are no source tells.
    ///
    /// Source: Mesa src/freedreno/ir3/ir3_compiler_nir.c, `emit_tex_txs`.
    fn buffer_size(&mut self, inst: &Inst, core: &mut Core<'_>) -> Result<()> {
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        for n in lanes(inst.mods.mask.into()) {
            self.check(to.plus(n as u16), mask)?;
        }
        let slots = self.slots(inst, mask)?;
        let mut values = [[0; LANES]; 4];
        for lane in lanes(mask) {
            let texture = core.texture(slots.texture[lane], slots.base);
            match texture.map_err(|stop| stop.of(lane))?.shape {
                Shape::Buffer { elements, .. } => values[0][lane] = elements,
                shape => return broken(&rules::DESCRIPTOR, format!("getbuf of {shape:?}")),
            }
        }
        self.write_components(inst, core, &values)?;
        for n in lanes((inst.mods.mask & !1).into()) {
            self.regs.undefine(to.plus(n as u16), mask)?;
        }
        Ok(())
    }

    fn write_components(
        &mut self,
        inst: &Inst,
        core: &Core<'_>,
        values: &[Lanes; 4],
    ) -> Result<()> {
        let mask = self.mask();
        let to = Self::register(inst.dsts.first())?;
        let count = inst.mods.mask.count_ones() as u16;
        let ready = Ready::Sy(super::latency(core, Unit::Texture, count));
        for n in lanes(inst.mods.mask.into()) {
            self.write(to.plus(n as u16), mask, &values[n], ready, 0)?;
        }
        Ok(())
    }
}

fn kind(inst: &Inst) -> Result<Type> {
    match inst.mods.ty {
        Some(ty) if ty.bytes() > 1 => Ok(ty),
        _ => broken(&rules::MEANING, "a texture of bytes in registers"),
    }
}

fn registers(texture: &Surface, pixel: Pixel, ty: Type) -> Result<Pixel> {
    let mut all = [0; 4];
    for (to, component) in all.iter_mut().zip(texel::swizzled(texture, pixel)) {
        *to = texel::to_register(component, texture.format.sort(), ty)?;
    }
    Ok(all)
}

fn integer(at: [u32; 3], full: bool) -> [i64; 3] {
    at.map(|at| crate::arith::integer::widen(at, full).into())
}

/// The border colour: the first 16 bytes of its entry, floats or integers of 32 bits.
///
/// Source: Mesa src/freedreno/vulkan/tu_sampler.cc, `bcolor_entry`.
fn border(core: &mut Core<'_>, sampler: &Sampler, fast: Option<u32>, sort: Sort) -> Result<Pixel> {
    if let Some(number) = fast {
        // Linux, drivers/gpu/drm/msm/registers/adreno/a6xx_enums.xml, a6xx_fast_border_color: 0 or 1 of colours, and of alpha.
        let one = match sort {
            Sort::Float => 1f32.to_bits(),
            _ => 1,
        };
        let [color, alpha] = [number >> 1 & 1, number & 1].map(|bit| bit * one);
        return Ok([color, color, color, alpha]);
    }
    let Some(base) = core.launch.descriptors.border_colors else {
        return broken(&rules::DESCRIPTOR, "TPL1_CS_BORDER_COLOR_BASE is not set");
    };
    let mut bytes = [0; 16];
    core.read(Path::Texture, base + u64::from(sampler.border), &mut bytes)?;
    let mut color = [0; 4];
    for (to, from) in color.iter_mut().zip(bytes.chunks(4)) {
        *to = super::number(from);
    }
    Ok(color)
}

/// isam: a pixel by its numbers.
fn fetch(
    core: &mut Core<'_>,
    texture: &Surface,
    sampler: (u32, Option<u8>),
    at: [i64; 3],
) -> Result<Pixel> {
    // Of one dimension there is only the first coordinate; Mesa sets the second to 0.
    if let Some(at) = texture.inside(at) {
        return core.pixel(Path::Texture, texture, at);
    }
    let (sampler, fast) = core.sampler(sampler.0, sampler.1)?;
    if sampler.wrap[0] != Wrap::ClampToBorder || sampler.wrap[1] != Wrap::ClampToBorder {
        let size = texture.size();
        return broken(&rules::ISAM_OUTSIDE, format!("pixel {at:?} of {size:?}"));
    }
    border(core, &sampler, fast, texture.format.sort())
}

/// isam.v: elements of a buffer, one behind the other; outside of it they are 0.
///
/// Source: Mesa src/freedreno/ir3/ir3_compiler_nir.c, `emit_readonly_load_uav`; a6xx.xml, `a6xx_isam_mode`.
fn elements(
    core: &mut Core<'_>,
    texture: &Surface,
    from: i64,
    ty: Type,
    mask: u8,
) -> Result<Pixel> {
    let texture = &super::image::element(core, texture, ty)?;
    let mut all = [0; 4];
    for n in lanes(mask.into()) {
        if let Some(at) = texture.inside([from + n as i64, 0, 0]) {
            let pixel = core.pixel(Path::Texture, texture, at)?;
            all[n] = texel::to_register(pixel[0], texture.format.sort(), ty)?;
        }
    }
    Ok(all)
}

/// The pixel that a wrap makes of one outside; none is the border.
fn wrapped(at: i64, size: i64, wrap: Wrap) -> Option<i64> {
    let mirrored = |at: i64| if at < 0 { -1 - at } else { at };
    match wrap {
        Wrap::Repeat => Some(at.rem_euclid(size)),
        Wrap::ClampToEdge => Some(at.clamp(0, size - 1)),
        Wrap::MirrorRepeat => {
            let at = at.rem_euclid(2 * size);
            Some(if at < size { at } else { 2 * size - 1 - at })
        }
        Wrap::ClampToBorder => (0..size).contains(&at).then_some(at),
        Wrap::MirrorClamp => Some(mirrored(at).min(size - 1)),
    }
}

/// A texture with its sampler, and coordinates in pixels.
struct Sampling {
    sampler: Sampler,
    fast: Option<u32>,
    size: [i64; 3],
    at: [f32; 3],
}

fn sampling(
    core: &mut Core<'_>,
    texture: &Surface,
    sampler: (u32, Option<u8>),
    at: [u32; 3],
    full: bool,
) -> Result<Sampling> {
    if matches!(texture.shape, Shape::Buffer { .. }) {
        return broken(&rules::DESCRIPTOR, "a buffer is sampled");
    }
    let (sampler, fast) = core.sampler(sampler.0, sampler.1)?;
    let size = texture.size().map(i64::from);
    let mut at = at.map(|at| value(at, full));
    if !sampler.unnormalized {
        for (at, size) in at.iter_mut().zip(size) {
            *at *= size as f32;
        }
    }
    Ok(Sampling {
        sampler,
        fast,
        size,
        at,
    })
}

impl Sampling {
    fn border(&self, core: &mut Core<'_>, texture: &Surface) -> Result<Pixel> {
        border(core, &self.sampler, self.fast, texture.format.sort())
    }

    fn pixel(&self, core: &mut Core<'_>, texture: &Surface, at: [i64; 3]) -> Result<Pixel> {
        let mut place = at;
        for (n, at) in place.iter_mut().enumerate() {
            match wrapped(*at, self.size[n], self.sampler.wrap[n]) {
                Some(inside) => *at = inside,
                None => return self.border(core, texture),
            }
        }
        match texture.inside(place) {
            Some(at) => core.pixel(Path::Texture, texture, at),
            None => self.border(core, texture),
        }
    }
}

/// sam: nearest, or linear with weights in singles; the weights' precision in hardware is not documented. Without
/// derivatives, and with one level, an image is magnified.
fn sampled(
    core: &mut Core<'_>,
    texture: &Surface,
    sampler: (u32, Option<u8>),
    at: [u32; 3],
    full: bool,
    array: bool,
) -> Result<Pixel> {
    let mut sampling = sampling(core, texture, sampler, at, full)?;
    let filter = sampling.sampler.magnify;
    if filter != sampling.sampler.minify {
        return broken(
            &rules::MEANING,
            "filters that differ for magnified and minified images",
        );
    }
    // A layer is the nearest, whatever the filter: Vulkan, "(l) layer selection".
    let layer = array.then(|| {
        let layer = value(at[2], full).round_ties_even() as i64;
        layer.clamp(0, sampling.size[2] - 1)
    });
    if layer.is_some() || sampling.size[2] == 1 {
        sampling.at[2] = 0.0;
    }
    let whole = |at: f32| at.floor() as i64;
    match filter {
        Filter::Nearest => {
            let mut at = sampling.at.map(whole);
            at[2] = layer.unwrap_or(at[2]);
            sampling.pixel(core, texture, at)
        }
        Filter::Linear => {
            if texture.format.sort() != Sort::Float {
                return broken(&rules::IMAGE_TYPE, "integers are filtered");
            }
            linear(core, texture, &sampling, layer)
        }
        _ => broken(&rules::MEANING, "anisotropic and cubic filters"),
    }
}

fn linear(
    core: &mut Core<'_>,
    texture: &Surface,
    sampling: &Sampling,
    layer: Option<i64>,
) -> Result<Pixel> {
    let deep = layer.is_none() && sampling.size[2] > 1;
    let moved = sampling.at.map(|at| at - 0.5);
    let low = moved.map(|at| at.floor() as i64);
    let part = moved.map(|at| at - at.floor());
    let mut sum = [0f32; 4];
    for corner in 0..if deep { 8 } else { 4 } {
        let mut place = low;
        let mut weight = 1.0;
        for n in 0..if deep { 3 } else { 2 } {
            let up = corner >> n & 1;
            place[n] += up;
            weight *= if up == 1 { part[n] } else { 1.0 - part[n] };
        }
        if !deep {
            place[2] = layer.unwrap_or(0);
        }
        let pixel = sampling.pixel(core, texture, place)?;
        for (sum, component) in sum.iter_mut().zip(pixel) {
            *sum += weight * f32::from_bits(component);
        }
    }
    Ok(sum.map(f32::to_bits))
}

/// gather4: one component of the four pixels that a linear filter reads, in the order of Vulkan's OpImageGather.
fn gathered(
    core: &mut Core<'_>,
    texture: &Surface,
    sampler: (u32, Option<u8>),
    at: [u32; 3],
    full: bool,
    op: Op,
) -> Result<Pixel> {
    let sampling = sampling(core, texture, sampler, at, full)?;
    let component = match op {
        Op::Gather4r => 0,
        Op::Gather4g => 1,
        Op::Gather4b => 2,
        _ => 3,
    };
    let [x, y] = [sampling.at[0], sampling.at[1]].map(|at| (at - 0.5).floor() as i64);
    let mut all = [0; 4];
    for (to, (dx, dy)) in all.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
        let pixel = sampling.pixel(core, texture, [x + dx, y + dy, 0])?;
        *to = texel::swizzled(texture, pixel)[component];
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        let all = |wrap| [-2, -1, 0, 3, 4, 5, 9].map(|at| wrapped(at, 4, wrap));
        assert_eq!(all(Wrap::Repeat), [2, 3, 0, 3, 0, 1, 1].map(Some));
        assert_eq!(all(Wrap::ClampToEdge), [0, 0, 0, 3, 3, 3, 3].map(Some));
        assert_eq!(all(Wrap::MirrorRepeat), [1, 0, 0, 3, 3, 2, 1].map(Some));
        assert_eq!(all(Wrap::MirrorClamp), [1, 0, 0, 3, 3, 3, 3].map(Some));
        let border = [None, None, Some(0), Some(3), None, None, None];
        assert_eq!(all(Wrap::ClampToBorder), border);
    }
}
