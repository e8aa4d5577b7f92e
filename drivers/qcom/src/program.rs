//! Kernels on the device: code in its memory, registered by name for fault messages.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{PlacedKernel, place, refused};
use drivers_gpu::memory::pool::Pool;
use drivers_spec::qcom::chip::Chip;
use hcq::{ArgKind, KernelImage, Program, Result};

use crate::backend::arch;
use crate::encode::builtin::{CODE_ALIGN, FETCHED};
use crate::encode::launch;
use crate::object::{Error, Object};
use crate::vendor;

/// Puts a compiled kernel into device memory. Returns it with the bytes of private memory that it needs for each fiber.
///
/// # Errors
/// [`hcq::Error::Program`], [`hcq::Error::OutOfMemory`], the loss of the device.
pub(crate) fn load(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    chip: &'static Chip,
    image: &KernelImage,
) -> Result<(Program, u32)> {
    let refused = |why: &dyn Display| refused(core, image, why);
    let here = arch(chip);
    if image.arch != here {
        let asked = &image.arch;
        return Err(refused(&format!(
            "compiled for {asked}, expected {here}: compile it for this device"
        )));
    }
    let theirs = vendor::of(image).map_err(|e| refused(&e))?;
    let image = theirs.as_ref().unwrap_or(image);
    let mut object = Object::parse(&image.bytes).map_err(|e| refused(&e))?;
    let mut plain = object.plain.take().map(|plain| *plain);
    let (mut code, mut last, mut private_bytes) = (Vec::new(), 0, 0);
    for version in std::iter::once(&mut object).chain(&mut plain) {
        version.shared_bytes = version.shared_bytes.max(image.local_bytes);
        check_layout(version, image).map_err(|e| refused(&e))?;
        code.resize(code.len().next_multiple_of(CODE_ALIGN as usize), 0u8);
        last = code.len() as u64;
        code.extend(version.code.iter().flat_map(|word| word.to_le_bytes()));
        private_bytes = version.private_bytes.max(private_bytes);
    }
    let room = (code.len() as u64 + FETCHED, CODE_ALIGN);
    let program = place((core, pool), image, room, |base| -> Result<_, Error> {
        Ok(PlacedKernel {
            launch_words: launch::versions(
                chip,
                (&object, base.0),
                plain.as_ref().map(|plain| (plain, base.0 + last)),
            )?,
            code: Cow::Owned(code),
            entry: 0,
            local_bytes: object
                .shared_bytes
                .max(plain.as_ref().map_or(0, |plain| plain.shared_bytes)),
        })
    })?;
    Ok((program, private_bytes))
}

/// Checks the arguments that launches will write against those that the kernel reads, and those that its images are.
fn check_layout(object: &Object, image: &KernelImage) -> Result<(), String> {
    let room = object.argument_bytes;
    for (i, field) in image.args.fields.iter().enumerate() {
        let fits = field.end().is_some_and(|end| end <= room) && field.offset % 4 == 0;
        if !fits {
            return Err(format!(
                "argument {i} at {} of {} bytes, expected a multiple of 4 within the {room} bytes of arguments that the code \
                 reads: pass the layout that belongs to the code",
                field.offset,
                field.kind.bytes()
            ));
        }
    }
    for (n, own) in object.textures.iter().chain(&object.uavs).enumerate() {
        let argument = own.argument;
        let field = image.args.fields.get(argument as usize);
        if field.is_none_or(|field| field.kind != ArgKind::Buffer) {
            return Err(format!(
                "image {n} is argument {argument}, expected a buffer among the {} arguments: pass the layout that belongs to \
                 the code",
                image.args.fields.len()
            ));
        }
    }
    Ok(())
}
