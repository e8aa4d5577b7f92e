//! What CP_LOAD_STATE6 loads: constants, descriptors, code.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, CP_LOAD_STATE6; src/freedreno/ir3/ir3_const.h and
//! src/freedreno/vulkan/tu_shader.cc: compute loads by CP_LOAD_STATE6_FRAG.

use drivers_spec::qcom::chip::Chip;
use drivers_spec::qcom::descriptor::{SAMPLER_DWORDS, TEXTURE_DWORDS, UBO_DWORDS};
use drivers_spec::qcom::packet::{LoadState, load_state6_0 as fields, op};
use drivers_spec::qcom::regs::MAX_CONSTANTS;
use twin::rule::{Proof, Rule};
use twin_ir3::launch::{Descriptors, SHARED_CONSTANTS};

use super::Broken;

static WHAT: Rule = Rule {
    name: "CP-LOAD-STATE",
    text: "CP_LOAD_STATE6_FRAG, or CP_LOAD_STATE6, loads state of compute: a block and a type that go together, at \
           least one unit, from the packet (without an address) or from memory",
    source: "Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, CP_LOAD_STATE6, a6xx_state_block",
    proof: Proof::Sourced,
};

static RANGE: Rule = Rule {
    name: "CP-LOAD-STATE-RANGE",
    text: "what is loaded fits: 256 vectors of constants, 32 shared constants, 16 samplers, 128 textures, 64 images, \
           32 buffers of constants, and no more code than the instruction cache has",
    source: "Mesa, src/freedreno/ir3/ir3_compiler.c, max_const_compute; freedreno_devices.py, instr_cache_size; fields \
             of cat5 and cat6 in src/freedreno/isa",
    proof: Proof::Sourced,
};

static SOURCE: Rule = Rule {
    name: "CP-LOAD-STATE-NOT-MODELLED",
    text: "state is loaded from the packet or from memory, and descriptors by a bindless base; UBO sources are not \
           modelled",
    source: "this twin: src/cp/state.rs",
    proof: Proof::Twin,
};

/// Dwords of a vector of constants.
const VECTOR: usize = 4;

/// Bytes from a bindless descriptor to the next, of whichever kind: BINDLESS_DESCRIPTOR_64B.
const BINDLESS_STRIDE: usize = 64;

/// See the front page.
#[derive(Clone, Debug)]
pub struct State {
    /// The constant file, by dwords.
    pub constants: Vec<Option<u32>>,
    /// Shared constants, by dwords.
    pub shared: [Option<u32>; SHARED_CONSTANTS],
    /// Descriptors.
    pub descriptors: Descriptors,
    /// Units of code that were preloaded, and from where.
    pub code: Option<(u64, u32)>,
}

impl Default for State {
    fn default() -> State {
        State {
            constants: vec![None; MAX_CONSTANTS as usize * VECTOR],
            shared: [None; SHARED_CONSTANTS],
            descriptors: Descriptors::default(),
            code: None,
        }
    }
}

/// A kind of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Code,
    Constants,
    Shared,
    Ubo,
    Image,
    Sampler,
    Texture,
}

fn kind(load: LoadState) -> Option<Kind> {
    Some(match (load.block, load.kind) {
        (fields::SB6_CS_SHADER, fields::ST6_SHADER) => Kind::Code,
        (fields::SB6_CS_SHADER, fields::ST6_CONSTANTS) => Kind::Constants,
        (fields::SB6_CS_SHADER, fields::ST6_UBO) => Kind::Ubo,
        // Mesa, a6xx.xml, HLSQ_SHARED_CONSTS; tu_cmd_buffer.cc, tu6_emit_shared_consts.
        (fields::SB6_UAV, fields::ST6_UBO) => Kind::Shared,
        (fields::SB6_CS_SHADER | fields::SB6_CS_UAV, fields::ST6_UAV) => Kind::Image,
        (fields::SB6_CS_TEX, fields::ST6_SHADER) => Kind::Sampler,
        (fields::SB6_CS_TEX, fields::ST6_CONSTANTS) => Kind::Texture,
        _ => return None,
    })
}

impl Kind {
    /// How many units there may be.
    fn most(self, chip: &Chip) -> u32 {
        match self {
            Kind::Code => chip.facts().instruction_cache,
            Kind::Constants => MAX_CONSTANTS,
            Kind::Shared => SHARED_CONSTANTS as u32,
            Kind::Ubo => 32,
            Kind::Image => 64,
            Kind::Sampler => 16,
            Kind::Texture => 128,
        }
    }

    /// Dwords of a unit.
    fn dwords(self) -> usize {
        match self {
            Kind::Code => 32,
            Kind::Constants => VECTOR,
            Kind::Shared => 1,
            Kind::Ubo => UBO_DWORDS,
            Kind::Image | Kind::Texture => TEXTURE_DWORDS,
            Kind::Sampler => SAMPLER_DWORDS,
        }
    }
}

/// Where from something is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The packet itself.
    Packet,
    /// An address.
    Memory(u64),
    /// A bindless base, and dwords behind it: descriptors come into a cache of theirs, and nowhere else.
    Bindless(usize, u64),
}

/// What a packet loads.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    kind: Kind,
    load: LoadState,
    /// Where from.
    pub from: Place,
}

impl Load {
    /// What a packet is to load.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn of(chip: &Chip, operation: u8, body: &[u32]) -> Result<Load, Broken> {
        let [first, low, high, ..] = *body else {
            return Err(Broken::new(&WHAT, "no address".into()));
        };
        let load = LoadState::decode(first);
        let address = u64::from(high) << 32 | u64::from(low);
        let broken = |rule, why: String| Err(Broken::new(rule, format!("{load:?}: {why}")));
        let Some(kind) = kind(load).filter(|_| operation != op::LOAD_STATE6_GEOM) else {
            return broken(&WHAT, "no state of compute".into());
        };
        let from = match load.source {
            fields::SS6_DIRECT if address == 0 => Place::Packet,
            fields::SS6_DIRECT => return broken(&WHAT, format!("address {address:#x}")),
            fields::SS6_INDIRECT => Place::Memory(address),
            // Mesa, tu_pipeline.cc, emit_load_state.
            fields::SS6_BINDLESS
                if !matches!(kind, Kind::Code | Kind::Constants | Kind::Shared) =>
            {
                Place::Bindless((address >> 28) as usize, address & 0xfff_ffff)
            }
            other => return broken(&SOURCE, format!("source {other} of {kind:?}")),
        };
        let odd = matches!(from, Place::Memory(from) if !from.is_multiple_of(4));
        let data = load.units as usize * kind.dwords();
        let less = from == Place::Packet && body.len() != 3 + data;
        if load.units == 0 || odd || less {
            return broken(&WHAT, format!("{} units from {from:x?}", load.units));
        }
        let load = Load { kind, load, from };
        match load.excess(chip).filter(|_| !load.is_code()) {
            Some(broken) => Err(broken),
            None => Ok(load),
        }
    }

    /// What is wrong where more is loaded than fits.
    fn excess(&self, chip: &Chip) -> Option<Broken> {
        let (kind, load) = (self.kind, &self.load);
        let most = kind.most(chip);
        let what = || format!("{load:?}: {kind:?}: at most {most}");
        (load.offset + load.units > most).then(|| Broken::new(&RANGE, what()))
    }

    /// Code that does not fit is loaded as far as it does: what is behind it stays in memory, where it is found.
    pub fn fit(&mut self, chip: &Chip) -> Option<Broken> {
        let broken = self.excess(chip)?;
        self.load.units = self.kind.most(chip).saturating_sub(self.load.offset);
        Some(broken)
    }

    /// Dwords of what is loaded.
    pub fn dwords(&self) -> usize {
        self.load.units as usize * self.kind.dwords()
    }

    /// Bytes of descriptors of a bindless base.
    pub fn bindless_bytes(&self) -> usize {
        self.load.units as usize * BINDLESS_STRIDE
    }

    /// Whether it is code, which stays where it is: the cache is filled from there.
    pub fn is_code(&self) -> bool {
        self.kind == Kind::Code
    }
}

/// Puts arrays of dwords into slots.
fn fill<const N: usize>(slots: &mut Vec<Option<[u32; N]>>, first: usize, words: &[u32]) {
    let (chunks, _) = words.as_chunks::<N>();
    let end = first + chunks.len();
    if slots.len() < end {
        slots.resize(end, None);
    }
    for (slot, chunk) in slots[first..end].iter_mut().zip(chunks) {
        *slot = Some(*chunk);
    }
}

impl State {
    /// Takes what was loaded.
    pub fn load(&mut self, load: &Load, words: &[u32]) {
        let first = load.load.offset as usize;
        match load.kind {
            Kind::Code => {
                self.code = match load.from {
                    Place::Memory(from) => Some((from, load.load.units)),
                    _ => None,
                };
            }
            Kind::Shared => {
                for (slot, word) in self.shared.iter_mut().skip(first).zip(words) {
                    *slot = Some(*word);
                }
            }
            Kind::Constants => {
                let slots = self.constants.iter_mut().skip(first * VECTOR);
                for (slot, word) in slots.zip(words) {
                    *slot = Some(*word);
                }
            }
            Kind::Ubo => fill(&mut self.descriptors.ubos, first, words),
            Kind::Image => fill(&mut self.descriptors.images, first, words),
            Kind::Sampler => fill(&mut self.descriptors.samplers, first, words),
            Kind::Texture => fill(&mut self.descriptors.textures, first, words),
        }
    }

    /// SP_UPDATE_CNTL: state of compute, images, and shared constants, are forgotten.
    pub fn forget(&mut self, state: bool, images: bool, shared: bool) {
        if state {
            let images = std::mem::take(&mut self.descriptors.images);
            let shared = self.shared;
            *self = State::default();
            self.descriptors.images = images;
            self.shared = shared;
        }
        if shared {
            self.shared = [None; SHARED_CONSTANTS];
        }
        if images {
            self.descriptors.images.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::chip::find;
    use twin::fires::fires;

    use super::*;

    fn load(operation: u8, load: LoadState, address: u64) -> Result<Load, Broken> {
        let chip = find(0x0603_0001).unwrap();
        let mut body = vec![load.encode(), address as u32, (address >> 32) as u32];
        body.resize(load.body().unwrap_or(3), 0);
        Load::of(chip, operation, &body)
    }

    fn constants(units: u32) -> LoadState {
        LoadState {
            offset: 0,
            kind: fields::ST6_CONSTANTS,
            source: fields::SS6_INDIRECT,
            block: fields::SB6_CS_SHADER,
            units,
        }
    }

    #[test]
    fn loads_are_checked() {
        let rule = |done: Result<Load, Broken>| {
            let names = done.err().map(|broken| broken.rule.name);
            names.into_iter().collect::<Vec<_>>()
        };
        let frag = op::LOAD_STATE6_FRAG;
        let good = load(frag, constants(256), 0x1000).unwrap();
        assert_eq!((good.from, good.dwords()), (Place::Memory(0x1000), 1024));
        fires("CP-LOAD-STATE").only(&rule(load(frag, constants(0), 0x1000)));
        fires("CP-LOAD-STATE").only(&rule(load(frag, constants(1), 0x1001)));
        fires("CP-LOAD-STATE").only(&rule(load(op::LOAD_STATE6_GEOM, constants(1), 0)));
        fires("CP-LOAD-STATE-RANGE").only(&rule(load(frag, constants(257), 0)));
        // Of code what fits is loaded all the same.
        let code = LoadState {
            kind: fields::ST6_SHADER,
            ..constants(95)
        };
        let (chip, mut code) = (
            find(0x0603_0001).unwrap(),
            load(frag, code, 0x1000).unwrap(),
        );
        fires("CP-LOAD-STATE-RANGE").only(&rule(code.fit(chip).map_or(Ok(code), Err)));
        assert_eq!((code.load.units, code.fit(chip).is_none()), (64, true));
        let direct = LoadState {
            source: fields::SS6_DIRECT,
            ..constants(1)
        };
        fires("CP-LOAD-STATE").only(&rule(load(frag, direct, 0x1000)));
        let bindless = LoadState {
            source: fields::SS6_BINDLESS,
            ..constants(1)
        };
        let images = LoadState {
            kind: fields::ST6_UAV,
            ..bindless
        };
        let prefetched = load(frag, images, 1 << 28 | 0x20).unwrap();
        assert_eq!(prefetched.from, Place::Bindless(1, 0x20));
        let shared = LoadState {
            block: fields::SB6_UAV,
            kind: fields::ST6_UBO,
            ..constants(3)
        };
        assert_eq!(load(frag, shared, 0x1000).unwrap().dwords(), 3);
        fires("CP-LOAD-STATE-NOT-MODELLED").only(&rule(load(frag, bindless, 0)));
        let pixel = LoadState {
            block: 0xc,
            ..constants(1)
        };
        fires("CP-LOAD-STATE").only(&rule(load(frag, pixel, 0)));
    }

    #[test]
    fn state_is_kept_until_it_is_forgotten() {
        let mut state = State::default();
        let good = load(
            op::LOAD_STATE6_FRAG,
            LoadState {
                offset: 1,
                ..constants(1)
            },
            0,
        );
        state.load(&good.unwrap(), &[1, 2, 3, 4]);
        assert_eq!(state.constants[3..6], [None, Some(1), Some(2)]);
        let image = LoadState {
            kind: fields::ST6_UAV,
            offset: 1,
            ..constants(1)
        };
        let image = load(op::LOAD_STATE6_FRAG, image, 0).unwrap();
        state.load(&image, &[7; 16]);
        assert_eq!(state.descriptors.images, [None, Some([7; 16])]);
        state.shared[2] = Some(5);
        state.forget(true, false, false);
        assert!(state.constants.iter().all(Option::is_none));
        assert_eq!(state.descriptors.images.len(), 2);
        state.forget(false, true, false);
        assert!(state.descriptors.images.is_empty());
        assert_eq!(state.shared[2], Some(5));
        state.forget(false, false, true);
        assert_eq!(state.shared[2], None);
    }
}
