//! What a wave finds when it starts.
//!
//! Source: LLVM's AMDGPUUsage, "initial kernel execution state"; for the fields of COMPUTE_PGM_RSRC1
//! and 2 its "kernel descriptor".

use twin::rule::{Proof, Rule};

use crate::code::Bounds;
use crate::counters::Counters;
use crate::isa::Gen;
use crate::launch::{GroupMemory, Launch};
use crate::page::Bus;
use crate::step::Stop;
use crate::turns::Seat;
use crate::wave::{self, Lanes, Wave};

/// Scratch is for so many waves only.
pub static SCRATCH_WAVES: Rule = Rule {
    name: "SCRATCH-WAVES",
    text: "COMPUTE_TMPRING_SIZE allows scratch for at least the waves of one workgroup",
    source: "AMD register documents, COMPUTE_TMPRING_SIZE.WAVES",
    proof: Proof::Sourced,
};

/// Where a wave starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The workgroup, and its size in work-items.
    pub id: [u32; 3],
    pub size: [u32; 3],
    /// The wave in it, and how many there are.
    pub wave: u32,
    pub waves: u32,
    /// Which of the waves that have scratch at a time.
    pub number: u32,
}

/// The SGPRs of a wave: what the launch has for all, which workgroup it is; the others have any value.
fn scalars(launch: &Launch, place: Start, random: &mut Random) -> [u32; 128] {
    let Launch { generation, .. } = *launch;
    let [_, rsrc2, _] = launch.rsrc;
    let mut s = [0; 128];
    for register in &mut s[..106] {
        *register = random.word();
    }
    let mut next = (rsrc2 >> 1 & 31) as usize;
    s[..next.min(16)].copy_from_slice(&launch.user[..next.min(16)]);
    let [x, y, z] = place.id;
    if generation == Gen::Rdna4 {
        s[TTMP7] = y & 0xffff | z << 16;
        s[TTMP8] = place.wave << 25;
        s[TTMP9] = x;
    } else {
        let info = place.waves & 63 | u32::from(place.wave == 0) << 31;
        for (bit, value) in [(7, x), (8, y), (9, z), (10, info)] {
            if rsrc2 >> bit & 1 == 1 {
                s[next] = value;
                next += 1;
            }
        }
        // The offset of the wave's scratch; later generations know it by themselves.
        if generation == Gen::Rdna2 && rsrc2 & 1 == 1 {
            s[next] = place.number * launch.scratch_wave;
        }
    }
    s
}

/// Tells lanes their work-items, which are numbered x first, and packed into waves. `first` is that of lane 0.
fn number_items(launch: &Launch, place: Start, first: u32, v: &mut [Lanes]) {
    let halves = launch.halves();
    let [sx, sy, _] = place.size.map(|n| n.max(1));
    let dimensions = launch.rsrc[1] >> 11 & 3;
    for lane in 0..32 * halves as u32 {
        let item = first + lane;
        let [ix, iy, iz] = [item % sx, item / sx % sy, item / (sx * sy)];
        let (half, lane) = ((lane / 32) as usize, (lane % 32) as usize);
        if launch.generation == Gen::Rdna2 {
            for (d, id) in [ix, iy, iz].into_iter().enumerate() {
                if d as u32 <= dimensions {
                    v[d * halves + half][lane] = id;
                }
            }
        } else {
            // Those that are not asked for are zero.
            let iy = if dimensions >= 1 { iy } else { 0 };
            let iz = if dimensions >= 2 { iz } else { 0 };
            v[half][lane] = ix | iy << 10 | iz << 20;
        }
    }
}

/// A wave at its start. `v` is memory to use for its VGPRs.
pub(crate) fn wave<'a>(
    launch: &Launch,
    place: Start,
    bus: Bus<'a>,
    room: &'a GroupMemory,
    seat: Seat<'a>,
    mut v: Vec<Lanes>,
    random: &mut Random,
) -> Result<Wave<'a>, Stop> {
    let Launch { generation, .. } = *launch;
    let halves = launch.halves();
    let scratch = if launch.scratch_wave == 0 {
        0
    } else if place.number >= launch.scratch_waves {
        let what = format!(
            "a workgroup of {} waves, scratch for {}",
            place.waves, launch.scratch_waves
        );
        return Err(Stop::Rule(&SCRATCH_WAVES, what));
    } else {
        launch.scratch_base + u64::from(place.number) * u64::from(launch.scratch_wave)
    };

    let Registers { vgprs, accs, .. } = registers(launch);
    let stored = if accs > 0 { 256 + accs } else { vgprs };
    v.resize(stored * halves, [0; 32]);
    // Whatever was there before: no value that a program could count on.
    for lanes in &mut v {
        lanes.fill(random.word());
    }
    let s = scalars(launch, place, random);
    let lanes = 32 * halves as u32;
    let first = place.wave * lanes;
    let items: u32 = place.size.iter().product();
    number_items(launch, place, first, &mut v);
    let active = items.saturating_sub(first).min(lanes);
    Ok(Wave {
        generation,
        pc: launch.entry,
        next: launch.entry,
        s,
        m0: random.word(),
        exec: u64::MAX.checked_shr(64 - active).unwrap_or(0),
        scc: false,
        mode: mode(generation, launch.rsrc[0]),
        v,
        vgprs,
        halves,
        lds: &room.lds,
        bus: bus.in_slot(scratch..scratch + u64::from(launch.scratch_wave)),
        counters: Counters::new(generation),
        place: wave::Place {
            group: place.id,
            wave: place.wave,
            waves: place.waves,
            scratch,
            scratch_bytes: launch.scratch_wave,
            shared_aperture: launch.shared_aperture,
            private_aperture: launch.private_aperture,
            xcc: launch.xcc.0,
        },
        seat,
        signalled: 0,
        phases: &room.phases,
        arrived: None,
        messages: Vec::new(),
        handler: launch.trap,
        trap: None,
        halted: false,
    })
}

/// The trap temporaries in which RDNA4 hands over workgroup ids.
const TTMP7: usize = 115;
const TTMP8: usize = 116;
const TTMP9: usize = 117;

/// The registers of a wave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    pub vgprs: usize,
    /// Accumulation registers.
    pub accs: usize,
    pub sgprs: usize,
}

impl Registers {
    /// As bounds for instructions.
    pub fn bounds(self) -> Bounds {
        Bounds::new(self.vgprs, self.accs, self.sgprs)
    }
}

/// The registers of a wave, as RSRC1 and RSRC3 allocate them. The granule of VGPRs is 8 in waves of 32
/// lanes and in CDNA3, 4 in waves of 64 lanes of RDNA; CDNA3 splits them at ACCUM_OFFSET. RDNA always
/// has 106 SGPRs, CDNA3 allocates them by 16, up to 102.
pub(crate) fn registers(launch: &Launch) -> Registers {
    let [rsrc1, _, rsrc3] = launch.rsrc;
    let granules = (rsrc1 & 63) as usize + 1;
    if launch.generation == Gen::Cdna3 {
        let all = granules * 8;
        let vgprs = (((rsrc3 & 63) as usize + 1) * 4).min(all).min(256);
        return Registers {
            vgprs,
            accs: (all - vgprs).min(256),
            sgprs: (((rsrc1 >> 6 & 15) as usize / 2 + 1) * 16).min(102),
        };
    }
    let granule = if launch.wave32 { 8 } else { 4 };
    Registers {
        vgprs: (granules * granule).min(256),
        accs: 0,
        sgprs: 106,
    }
}

/// The MODE register at the start: rounding and denormals in 7:0, DX10_CLAMP 8, IEEE 9, FP16_OVFL 23.
fn mode(generation: Gen, rsrc1: u32) -> u32 {
    let mode = rsrc1 >> 12 & 0xff | (rsrc1 >> 26 & 1) << 23;
    if generation == Gen::Rdna4 {
        return mode;
    }
    mode | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9
}

/// Numbers for what is undefined (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
    }
}
