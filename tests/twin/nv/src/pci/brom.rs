//! What starts code on a falcon: the boot ROM verifies code with privileges, then it runs. What it does is of `fwsec` and
//! `booter`.
//!
//! Source: OGKM, kernel_gsp_falcon_ga102.c, kgspExecuteHsFalcon_GA102 (what the boot ROM is given); kernel_gsp_frts_tu102.c and
//! Linux, nova-core/firmware/booter.rs (which signature a fuse demands); Documentation/gpu/nova/core/falcon.rst.

use twin::pci::Broken;
use twin::rule::{Proof, Rule};
use vbios::{CODE, Fwsec, PATCH};

use super::falcon::Engine;
use super::signed::{self, BOOTER_ENGINES, BOOTER_UCODE, Booter, Does, SIGNATURE};
use super::state::State;
use super::{booter, fwsec};

static BOOTVEC: Rule = Rule {
    name: "NV-FALCON-BOOTVEC",
    text: "BOOTVEC is the virtual address of a block of IMEM that was loaded, the first of its code",
    source: "OGKM, kernel_gsp_falcon_ga102.c: BOOTVEC is imemVa",
    proof: Proof::Sourced,
};

static UNSIGNED: Rule = Rule {
    name: "NV-FALCON-CODE-NOT-MODELLED",
    text: "code without privileges is a single exit",
    source: "this twin: src/pci/brom.rs",
    proof: Proof::Twin,
};

static SIGNED: Rule = Rule {
    name: "NV-BROM-CODE",
    text: "secure code is FWSEC of the card's ROM on GSP, or a published booter of the chip on SEC2, whole and unchanged",
    source: "Linux, Documentation/gpu/nova/core/falcon.rst: the boot ROM verifies the signature of heavy-secured code; which bytes are \
             signed: the card's ROM, and the files of linux-firmware",
    proof: Proof::Sourced,
};

static PARAMETERS: Rule = Rule {
    name: "NV-BROM-PARAMETERS",
    text: "the boot ROM gets MOD_SEL RSA3K, and UCODE_ID, ENGIDMASK and PARAADDR as the microcode's descriptor or header has them",
    source: "OGKM, kernel_gsp_falcon_ga102.c, kgspExecuteHsFalcon_GA102: Program BROM registers for PKC signature validation",
    proof: Proof::Sourced,
};

static SIGNATURE_OF: Rule = Rule {
    name: "NV-BROM-SIGNATURE",
    text: "at PARAADDR in DMEM is the signature of the microcode whose version is that of the chip's fuse",
    source: "OGKM, kernel_gsp_frts_tu102.c, s_prepareForFwsec_TU102: hsSigVersions; kernel_gsp_ga100.c, \
             kgspReadUcodeFuseVersion_GA100; Linux, nova-core/firmware/booter.rs: signature_idx",
    proof: Proof::Sourced,
};

/// `exit` of a falcon, without which nothing halts.
const EXIT: [u8; 2] = [0xf8, 0x02];
/// Where booters have the place of their signature: `patch_loc` in all of their files, from their data on.
const BOOTER_PATCH: u32 = 0x10;

/// A falcon is started at BOOTVEC.
pub(super) fn start(state: &mut State, engine: Engine) -> Result<(), Broken> {
    let falcon = state.falcon(engine);
    let bootvec = falcon.bootvec;
    let found = falcon
        .imem
        .at(bootvec)
        .filter(|_| bootvec.is_multiple_of(256));
    let Some((at, is_secure)) = found else {
        return Err((&BOOTVEC, format!("BOOTVEC of {engine} is {bootvec:#x}")));
    };
    if !is_secure {
        return match falcon.imem.bytes_at(at).starts_with(&EXIT) {
            true => Ok(()),
            false => Err((&UNSIGNED, format!("code of {engine} at {bootvec:#x}"))),
        };
    }
    match engine {
        Engine::Gsp => {
            verify_fwsec(state, at)?;
            fwsec::run(state);
        }
        Engine::Sec2 => {
            let does = verify_booter(state, at)?;
            // Its own, once it has run: the host starts it by the alias then. Which of both a chip has, drivers ask.
            state.sec2.alias = true;
            booter::run(state, does);
        }
    }
    Ok(())
}

/// The registers of the boot ROM are what the microcode wants.
fn parameters(state: &mut State, engine: Engine, wanted: [u32; 4]) -> Result<(), Broken> {
    let found = state.falcon(engine).brom;
    match found == wanted {
        true => Ok(()),
        false => {
            let names = "MOD_SEL, UCODE_ID, ENGIDMASK, PARAADDR";
            let what = format!("{names} of {engine} are {found:x?}, expected {wanted:x?}");
            Err((&PARAMETERS, what))
        }
    }
}

fn verify_fwsec(state: &mut State, at: usize) -> Result<(), Broken> {
    let chip = state.config.chip;
    let (Some(rom), Some(shown)) = (&chip.rom, &state.prom) else {
        return Err((&SIGNED, "code on GSP of a card that shows no ROM".into()));
    };
    let own = &shown.bytes[shown.start + shown.ucode..][..CODE];
    let code = state.gsp.imem.secure_from(at);
    if code != own {
        let what = format!(
            "{:#x} bytes of secure code on GSP, not those of FWSEC",
            code.len()
        );
        return Err((&SIGNED, what));
    }
    let fwsec = rom.fwsec;
    let wanted = [
        1,
        fwsec.ucode_id.into(),
        fwsec.engine_id_mask.into(),
        PATCH as u32,
    ];
    parameters(state, Engine::Gsp, wanted)?;
    let version = chip.fwsec_fuse as u8;
    match state.gsp.dmem[PATCH..PATCH + SIGNATURE] == Fwsec::signature(version) {
        true => Ok(()),
        false => {
            let what = format!("FWSEC, with a fuse of version {version}");
            Err((&SIGNATURE_OF, what))
        }
    }
}

fn verify_booter(state: &mut State, at: usize) -> Result<Does, Broken> {
    let code = state.sec2.imem.secure_from(at);
    let (sum, bytes) = (signed::sum(code), code.len());
    let chip = state.config.chip;
    let known = |booter: &&Booter| booter.code == (sum, bytes) && booter.family == chip.family;
    let booter = state.config.signed.booters.iter().find(known).cloned();
    let Some(booter) = booter else {
        let what = format!("{bytes:#x} bytes of secure code on SEC2, with the sum {sum:#x}");
        return Err((&SIGNED, what));
    };
    let wanted = [1, BOOTER_UCODE, BOOTER_ENGINES, BOOTER_PATCH];
    parameters(state, Engine::Sec2, wanted)?;
    let index = match chip.booter_fuse {
        0 => booter.signatures.len().checked_sub(1),
        fuse => booter.fuse_version.checked_sub(fuse).map(|i| i as usize),
    };
    let wanted = index.and_then(|index| booter.signatures.get(index));
    let place = BOOTER_PATCH as usize;
    let found = signed::sum(&state.sec2.dmem[place..place + SIGNATURE]);
    match wanted == Some(&found) {
        true => Ok(booter.does),
        false => {
            let (name, fuse) = (booter.name, chip.booter_fuse);
            Err((
                &SIGNATURE_OF,
                format!("{name}, with a fuse of version {fuse}"),
            ))
        }
    }
}
