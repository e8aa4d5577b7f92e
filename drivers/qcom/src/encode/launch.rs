//! Launches of kernels: the packets and the data block that a launch copies and completes, made once when a kernel is
//! loaded.
//!
//! Source: Mesa, src/freedreno/computerator/a6xx.cc and src/freedreno/vulkan/tu_shader.cc, tu_cmd_buffer.cc
//! (`tu_dispatch`); the stream "exec" of tests/golden/qcom. `tests/streams.rs` names each difference.

use drivers_spec::qcom::chip::{Chip, Gens};
use drivers_spec::qcom::packet::{
    LoadState, event_write_0, load_state6_0 as load, op, set_marker_0,
};
use drivers_spec::qcom::regs::*;
use hcq::Val;

use super::packet::{command, registers};
use crate::object::{Error, IMAGE_ALIGN, NONE, Object, flags};

/// Texture and image slots that are declared, whatever the kernel has: those of Mesa's computerator and of the recorded
/// streams. Fewer than there are give zeros, as a survey of what has run on A630 says.
const TEXTURE_SLOTS: u32 = 0x80;
const UAV_SLOTS: u32 = 0x40;

/// Appends the registers that are the same for all launches.
///
/// Source: Mesa, tu_cmd_buffer.cc, `tu6_init_static_regs`, and freedreno_devices.py for [`Chip::magic`].
pub(super) fn state(chip: &Chip, out: &mut Vec<u32>) {
    let magic = &chip.magic;
    command(
        out,
        op::SET_MARKER,
        &[set_marker_0::MODE.put(set_marker_0::RM6_COMPUTE)],
    );
    let [mode, textures] = modes(false);
    registers(out, &UCHE_UNKNOWN_0E12, &[magic.uche_unknown_0e12]);
    if let Some(value) = magic.uche_client_pf {
        registers(out, &UCHE_CLIENT_PF, &[value]);
    }
    registers(out, &SP_CS_TSIZE, &[sp_cs_tsize::COUNT.put(TEXTURE_SLOTS)]);
    registers(out, &SP_CS_USIZE, &[sp_cs_usize::COUNT.put(UAV_SLOTS)]);
    if let Some(value) = magic.sp_unknown_aaf2 {
        registers(out, &SP_UNKNOWN_AAF2, &[value]);
    }
    registers(out, &SP_MODE_CNTL, &[mode]);
    registers(out, &SP_DBG_ECO_CNTL, &[magic.sp_dbg_eco_cntl]);
    registers(out, &SP_CHICKEN_BITS, &[magic.sp_chicken_bits]);
    registers(out, &SP_NC_MODE_CNTL_2, &[0]);
    registers(
        out,
        &SP_PERFCTR_SHADER_MASK,
        &[sp_perfctr_shader_mask::CS.put(1)],
    );
    registers(out, &TPL1_MODE_CNTL, &[textures]);
    registers(out, &TPL1_DBG_ECO_CNTL, &[magic.tpl1_dbg_eco_cntl]);
    registers(out, &HLSQ_DBG_ECO_CNTL, &[magic.hlsq_dbg_eco_cntl]);
    // Of pixel shaders: there are none.
    let none = NO_REGISTER * 0x0101_0101;
    registers(out, &SP_REG_PROG_ID_0, &[none, none, none, NO_REGISTER]);
}

/// `SP_MODE_CNTL` and `TPL1_MODE_CNTL`: for code of the compiler here, or of Qualcomm's OpenCL.
///
/// Source: Mesa, tu_cmd_buffer.cc, `tu6_init_static_regs`; a survey of what has run on A630: OpenCL's code has half constants
/// as the halves of dwords, without demotion.
fn modes(is_opencl: bool) -> [u32; 2] {
    match is_opencl {
        false => [
            sp_mode_cntl::CONSTANT_DEMOTION_ENABLE.put(1)
                | sp_mode_cntl::ISAMMODE.put(sp_mode_cntl::ISAMMODE_GL),
            tpl1_mode_cntl::ISAMMODE.put(tpl1_mode_cntl::ISAMMODE_GL),
        ],
        true => [
            sp_mode_cntl::ISAMMODE.put(sp_mode_cntl::ISAMMODE_CL),
            tpl1_mode_cntl::ISAMMODE.put(tpl1_mode_cntl::ISAMMODE_CL),
        ],
    }
}

/// Appends the modes of a kernel's code, once what is before has ended.
fn set_modes(is_opencl: bool, out: &mut Vec<u32>) {
    let [mode, textures] = modes(is_opencl);
    command(out, op::WAIT_FOR_IDLE, &[]);
    registers(out, &SP_MODE_CNTL, &[mode]);
    registers(out, &TPL1_MODE_CNTL, &[textures]);
}

/// Where in the packets of a launch its own words go, in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Places {
    /// `SP_CS_NDRANGE_0` and the registers behind it.
    range: u32,
    /// `SP_CS_PVT_MEM_PARAM` and the registers behind it.
    private: u32,
    /// `SP_CS_PVT_MEM_STACK_OFFSET`.
    stack: u32,
    /// The numbers of groups of EXEC_CS.
    exec: u32,
}

/// The words of a loaded kernel, in the form of [`hcq::Program::launch_words`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch<'a> {
    /// Fibers of a group at most.
    pub max_threads: u32,
    /// Bytes of private memory of a fiber, and whether it is laid out by waves.
    pub private_bytes: u32,
    per_wave: bool,
    /// Where the arguments are in the data block, in bytes; and where they may end.
    pub(super) arguments_at: u32,
    pub(super) arguments_end: u32,
    /// Where the size of the grid and of a group is, or [`NONE`].
    pub(super) grid_at: u32,
    pub(super) block_at: u32,
    places: Places,
    /// Pairs: a word of the packets whose address is that of an offset of the data block.
    pub(super) addresses: &'a [[u32; 2]],
    /// Triples: an argument whose value is the address in the descriptor at an offset of the data block, and bytes from
    /// there on that are of the image.
    pub(super) images: &'a [[u32; 3]],
    packets: &'a [u32],
    /// The data block.
    pub(super) data: &'a [u32],
}

/// The first word where two versions of a kernel follow, whose second one needs no images; then the number of words of
/// the first one.
const MARK_BOTH: u32 = 0x3272_6961;

/// Numbers before the tables: a mark, and the counts of the last four.
const NUMBERS: usize = 16;
/// The first word: no other driver's.
const MARK: u32 = 0x3372_6961;

/// A launch as it is made.
struct Draft {
    packets: Vec<u32>,
    data: Vec<u32>,
    addresses: Vec<[u32; 2]>,
    images: Vec<[u32; 3]>,
    places: Places,
}

impl Draft {
    /// Appends a table of dwords to the data block, and the packets that load it: the register that has its address and
    /// CP_LOAD_STATE6.
    fn table(&mut self, words: &[u32], base: Option<&Reg>, state: LoadState) {
        self.data.resize(self.data.len().next_multiple_of(16), 0);
        let at = self.data.len() as u32 * 4;
        self.data.extend_from_slice(words);
        if let Some(base) = base {
            registers(&mut self.packets, base, &[0, 0]);
            self.addresses.push([self.packets.len() as u32 - 2, at]);
        }
        command(
            &mut self.packets,
            op::LOAD_STATE6_FRAG,
            &[state.encode(), 0, 0],
        );
        self.addresses.push([self.packets.len() as u32 - 2, at]);
    }
}

const fn indirect(kind: u32, block: u32, units: usize) -> LoadState {
    LoadState {
        offset: 0,
        kind,
        source: load::SS6_INDIRECT,
        block,
        units: units as u32,
    }
}

/// The launch words of a kernel whose code is at an address.
///
/// # Errors
/// [`Error::Number`] for what this chip does not have.
pub fn words(chip: &Chip, object: &Object, code: u64) -> Result<Box<[u32]>, Error> {
    let max_threads = check(chip, object)?;
    let mut draft = Draft {
        packets: Vec::new(),
        data: Vec::new(),
        addresses: Vec::new(),
        images: Vec::new(),
        places: Places::default(),
    };
    let [merged, thread128, per_wave] =
        [flags::MERGED, flags::THREAD128, flags::PER_WAVE].map(|flag| object.flags & flag != 0);
    let shared = sp_cs_cntl_1::SHARED_SIZE
        .put((object.shared_bytes.saturating_sub(1) / 1024).max(1))
        | sp_cs_cntl_1::CONSTANTRAMMODE.put(match object.vectors {
            0..=128 => sp_cs_cntl_1::CONSTLEN_128,
            129..=192 => sp_cs_cntl_1::CONSTLEN_192,
            _ => sp_cs_cntl_1::CONSTLEN_256,
        });
    let control = sp_cs_cntl_0::HALFREGFOOTPRINT.put(object.half)
        | sp_cs_cntl_0::FULLREGFOOTPRINT.put(object.full)
        | sp_cs_cntl_0::BRANCHSTACK.put(object.branch_depth.min(64).div_ceil(2))
        | sp_cs_cntl_0::THREADSIZE.put(thread128.into())
        | sp_cs_cntl_0::MERGEDREGS.put(merged.into());
    let numbers = sp_cs_const_config_0::WGIDCONSTID.put(object.group_id)
        | sp_cs_const_config_0::WGSIZECONSTID.put(object.group_size)
        | sp_cs_const_config_0::WGOFFSETCONSTID.put(object.group_offset)
        | sp_cs_const_config_0::LOCALIDREGID.put(object.local_id);
    let waves = sp_cs_wge_cntl::LINEARLOCALIDREGID.put(object.linear_id)
        | sp_cs_wge_cntl::THREADSIZE.put(thread128.into());
    let is_opencl = object.flags & flags::OPENCL != 0;
    let out = &mut draft.packets;
    if is_opencl {
        set_modes(true, out);
    }
    let forget = sp_update_cntl::CS_STATE.put(1) | sp_update_cntl::CS_UAV.put(1);
    registers(out, &SP_UPDATE_CNTL, &[forget]);
    registers(out, &SP_UPDATE_CNTL, &[0]);
    draft.places.range = out.len() as u32 + 1;
    registers(
        out,
        &SP_CS_NDRANGE_0,
        &[0, 0, 0, 0, 0, 0, 0, numbers, waves, 0, 0, 0],
    );
    let [low, high] = super::packet::halves(code);
    let code_registers = [control, shared, 0, object.entry, low, high, 0, 0, 0, 0];
    draft.places.private = out.len() as u32 + 7;
    registers(out, &SP_CS_CNTL_0, &code_registers);
    if Gens::LPAC.has(chip.generation) {
        registers(out, &SP_CS_WIE_CNTL_0, &[numbers, waves]);
        registers(out, &HLSQ_CS_CTRL_REG1, &[shared]);
    }
    let constants = sp_cs_const_config::CONSTLEN.put(object.vectors.div_ceil(CONSTLEN_UNIT))
        | sp_cs_const_config::ENABLED.put(1);
    registers(out, &SP_CS_CONST_CONFIG, &[constants]);
    draft.places.stack = out.len() as u32 + 2;
    let units = object.code_units();
    registers(
        out,
        &SP_CS_INSTR_SIZE,
        &[sp_cs_instr_size::UNITS.put(units), 0],
    );
    state_of(&mut draft, chip, object, code);
    let out = &mut draft.packets;
    let config = sp_cs_config::ENABLED.put(1)
        | sp_cs_config::NTEX.put(object.textures.len() as u32)
        | sp_cs_config::NSAMP.put(object.samplers.len() as u32)
        | sp_cs_config::NUAV.put(object.uavs.len() as u32);
    registers(out, &SP_CS_CONFIG, &[config]);
    // The prefetcher may check branches of long code against the length of the pixel shader.
    let is_long = units > chip.facts().instruction_cache;
    let label = |out: &mut Vec<u32>| {
        if is_long {
            let event = event_write_0::EVENT.put(event_write_0::DEBUG_LABEL);
            command(out, op::EVENT_WRITE, &[event]);
        }
    };
    if is_long {
        registers(
            out,
            &SP_PS_INSTR_SIZE,
            &[sp_ps_instr_size::UNITS.put(units)],
        );
    }
    label(out);
    draft.places.exec = out.len() as u32 + 2;
    command(out, op::EXEC_CS, &[0, 0, 0, 0]);
    label(out);
    if is_opencl {
        set_modes(false, out);
    }
    Ok(finish(&draft, object, (max_threads, per_wave)))
}

/// The launch words of a kernel and, where it has one, of its version without images; each with the address of its code.
///
/// # Errors
/// Those of [`words`].
pub fn versions(
    chip: &Chip,
    (object, code): (&Object, u64),
    plain: Option<(&Object, u64)>,
) -> Result<Box<[u32]>, Error> {
    let first = words(chip, object, code)?;
    let Some((plain, code)) = plain else {
        return Ok(first);
    };
    let second = words(chip, plain, code)?;
    let numbers = [MARK_BOTH, first.len() as u32];
    Ok([&numbers[..], &first, &second].concat().into())
}

/// Appends what loads constants, code and images.
fn state_of(draft: &mut Draft, chip: &Chip, object: &Object, code: u64) {
    let vectors = object.vectors as usize;
    if vectors > 0 {
        let mut constants = vec![0; vectors * 4];
        let start = object.constants_at as usize / 4;
        constants[start..start + object.constants.len()].copy_from_slice(&object.constants);
        let state = indirect(load::ST6_CONSTANTS, load::SB6_CS_SHADER, vectors);
        draft.table(&constants, None, state);
    }
    let preload = object.code_units().min(chip.facts().instruction_cache);
    let state = indirect(load::ST6_SHADER, load::SB6_CS_SHADER, preload as usize);
    let [low, high] = super::packet::halves(code);
    command(
        &mut draft.packets,
        op::LOAD_STATE6_FRAG,
        &[state.encode(), low, high],
    );
    if !object.samplers.is_empty() {
        // Its address is the queue's: see `Launch::complete`.
        registers(&mut draft.packets, &TPL1_CS_BORDER_COLOR_BASE, &[0, 0]);
        draft
            .addresses
            .push([draft.packets.len() as u32 - 2, BORDER]);
        let state = indirect(load::ST6_SHADER, load::SB6_CS_TEX, object.samplers.len());
        draft.table(
            object.samplers.as_flattened(),
            Some(&SP_CS_SAMPLER_BASE),
            state,
        );
    }
    let tables = [
        (
            &object.textures,
            &SP_CS_TEXMEMOBJ_BASE,
            load::ST6_CONSTANTS,
            load::SB6_CS_TEX,
        ),
        (
            &object.uavs,
            &SP_CS_UAV_BASE,
            load::ST6_UAV,
            load::SB6_CS_SHADER,
        ),
    ];
    for (images, base, kind, block) in tables {
        if images.is_empty() {
            continue;
        }
        let start = draft.data.len().next_multiple_of(16) as u32 * 4;
        // The object was checked.
        let descriptors = images
            .iter()
            .map(|image| image.descriptor().unwrap_or_default());
        let descriptors: Vec<_> = descriptors.collect();
        for (i, image) in images.iter().enumerate() {
            let descriptor = start + i as u32 * 64;
            draft
                .images
                .push([image.argument, descriptor, image.bytes()]);
        }
        let state = indirect(kind, block, images.len());
        draft.table(descriptors.as_flattened(), Some(base), state);
    }
}

/// An offset of the data block that stands for the border colours.
pub(super) const BORDER: u32 = NONE;

/// Checks a kernel against a chip. Returns how many fibers a group may have.
fn check(chip: &Chip, object: &Object) -> Result<u32, Error> {
    object.check()?;
    let number = |what, found: u32, expected: String| {
        let found = found.into();
        Err(Error::Number {
            what,
            found,
            expected,
        })
    };
    let is_double = object.flags & flags::THREAD128 != 0;
    if is_double && !chip.double_threadsize {
        return number("wave size", 128, chip.wave.to_string());
    }
    if object.shared_bytes > chip.shared {
        return number(
            "shared memory",
            object.shared_bytes,
            format!("at most {} bytes", chip.shared),
        );
    }
    // Merged half registers are parts of full ones.
    let half = match object.flags & flags::MERGED {
        0 => object.half,
        _ => 0,
    };
    let used = object.full + half.div_ceil(2);
    let waves = if is_double { 2 } else { 1 };
    if used * waves > chip.facts().registers {
        let most = chip.facts().registers / waves;
        return number("register vector count", used, format!("at most {most}"));
    }
    Ok(object
        .max_threads
        .min(chip.max_group(object.full, half, is_double)))
}

/// All of it as words.
fn finish(draft: &Draft, object: &Object, (max_threads, per_wave): (u32, bool)) -> Box<[u32]> {
    let places = draft.places;
    let numbers: [u32; NUMBERS] = [
        MARK,
        max_threads,
        object.private_bytes,
        per_wave.into(),
        object.arguments_at,
        object.arguments_at + object.argument_bytes,
        object.grid_at,
        object.block_at,
        places.range,
        places.private,
        places.stack,
        places.exec,
        draft.addresses.len() as u32,
        draft.images.len() as u32,
        draft.packets.len() as u32,
        draft.data.len() as u32,
    ];
    let tables = [draft.addresses.as_flattened(), draft.images.as_flattened()];
    let parts = [
        &numbers[..],
        tables[0],
        tables[1],
        &draft.packets,
        &draft.data,
    ];
    parts.concat().into()
}

impl<'a> Launch<'a> {
    /// The launch with arguments: the version without images, if there is one, unless the addresses of all images are
    /// known, and descriptors hold them. Where another argument begins in an image, the texture cache would not see what
    /// the kernel stores there. What begins before an image and reaches into it is not seen here, nor an address that comes
    /// later: whoever plans memory gives the blocks of a kernel that are written places of their own, or one that is read
    /// from its first byte on. `None` if the words are not those of this driver.
    #[inline]
    pub fn with_arguments(words: &'a [u32], args: &[Val]) -> Option<Launch<'a>> {
        let [MARK_BOTH, count, both @ ..] = words else {
            return Launch::from_words(words);
        };
        let (first, second) = both.split_at_checked(*count as usize)?;
        let launch = Launch::from_words(first)?;
        let fits = |&[argument, _, bytes]: &[u32; 3]| {
            let argument = argument as usize;
            let Some(Val::Const(at)) = args.get(argument) else {
                return false;
            };
            let is_apart = |(n, arg): (usize, &Val)| match arg {
                Val::Const(other) => n == argument || other.wrapping_sub(*at) >= u64::from(bytes),
                Val::Slot(..) => true,
            };
            at % IMAGE_ALIGN == 0 && args.iter().enumerate().all(is_apart)
        };
        match launch.images.iter().all(fits) {
            true => Some(launch),
            false => Launch::from_words(second),
        }
    }

    /// From the words of one version; `None` if they are not those of this driver.
    #[inline]
    pub fn from_words(words: &'a [u32]) -> Option<Launch<'a>> {
        let (numbers, rest) = words.split_first_chunk::<NUMBERS>()?;
        let [addresses, images, packets, data] = [12, 13, 14, 15].map(|i| numbers[i] as usize);
        let (addresses, rest) = rest.split_at_checked(addresses.checked_mul(2)?)?;
        let (images, rest) = rest.split_at_checked(images.checked_mul(3)?)?;
        let (packets, rest) = rest.split_at_checked(packets)?;
        let launch = Launch {
            max_threads: numbers[1],
            private_bytes: numbers[2],
            per_wave: numbers[3] != 0,
            arguments_at: numbers[4],
            arguments_end: numbers[5],
            grid_at: numbers[6],
            block_at: numbers[7],
            places: Places {
                range: numbers[8],
                private: numbers[9],
                stack: numbers[10],
                exec: numbers[11],
            },
            addresses: addresses.as_chunks().0,
            images: images.as_chunks().0,
            packets,
            data: rest,
        };
        let ends = [
            (launch.places.range, 12),
            (launch.places.private, 4),
            (launch.places.stack, 1),
            (launch.places.exec, 3),
        ];
        let inside = |(at, count): (u32, usize)| at as usize + count <= packets.len();
        (numbers[0] == MARK && rest.len() == data && ends.into_iter().all(inside)).then_some(launch)
    }

    /// Appends the packets, with the size of a grid and private memory.
    #[inline]
    pub(super) fn put(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        private: Option<&super::private::Private>,
        out: &mut Vec<u32>,
    ) {
        let start = out.len();
        out.extend_from_slice(self.packets);
        let packets = &mut out[start..];
        let range = &mut packets[self.places.range as usize..];
        range[0] = sp_cs_ndrange_0::KERNELDIM.put(3)
            | sp_cs_ndrange_0::LOCALSIZEX.put(block[0] - 1)
            | sp_cs_ndrange_0::LOCALSIZEY.put(block[1] - 1)
            | sp_cs_ndrange_0::LOCALSIZEZ.put(block[2] - 1);
        for i in 0..3 {
            range[1 + 2 * i] = grid[i] * block[i];
            range[9 + i] = grid[i];
        }
        packets[self.places.exec as usize..][..3].copy_from_slice(&grid);
        if let Some(private) = private {
            let registers = private.registers(self.per_wave);
            packets[self.places.private as usize..][..4].copy_from_slice(&registers);
            packets[self.places.stack as usize] = private.stack_offset();
        }
    }
}
