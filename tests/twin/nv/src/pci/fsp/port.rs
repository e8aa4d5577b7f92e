//! EMEM of FSP, by which the host and FSP exchange packets, and the pointers that say so.
//!
//! Source: OGKM, hopper/gh100/dev_fsp_pri.h; kern_fsp_gh100.c, kfspSendPacket_GH100, kfspReadPacket_GH100; fsp_emem_channels.h.
//! Blackwell's published headers leave these registers out, and its driver runs the functions of Hopper.

use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use crate::pci::memory::word;
use crate::pci::state::State;
use crate::pci::wait::{Looks, Wait};

static EMEM: Rule = Rule {
    name: "NV-FSP-EMEM",
    text: "the host accesses EMEM by port 0, in words of the KiB that is its channel",
    source: "OGKM, fsp_emem_channels.h: FSP_EMEM_CHANNEL_RM, FSP_EMEM_CHANNEL_RM_SIZE; hopper/gh100/dev_fsp_pri.h: EMEMC",
    proof: Proof::Sourced,
};

static QUEUE: Rule = Rule {
    name: "NV-FSP-QUEUE",
    text: "the host fills its channel when FSP has taken the packet before (HEAD is TAIL) and the host what FSP has answered; \
           then TAIL is the last word, and HEAD, which comes after it, is 0",
    source: "OGKM, kern_fsp.c, kfspPollForCanSend_IMPL; kern_fsp_gh100.c, _kfspUpdateQueueHeadTail_GH100: the write to HEAD needs \
             to happen after TAIL because it will interrupt FSP",
    proof: Proof::Sourced,
};

/// Bytes of the host's channel.
const CHANNEL: usize = 1024;

/// Offsets of EMEMC(0), of 8 ports; of the command queue's HEAD(0), and of the messages'.
const EMEMC: u32 = 0x8f_2ac0;
const QUEUE_HEAD: u32 = 0x8f_2c00;
const MSGQ_HEAD: u32 = 0x8f_2c80;
/// Bytes of the registers of 8 queues, two words each.
const EIGHT: u32 = 64;

/// The channel, and who has written it.
pub(super) struct Port {
    emem: Vec<u8>,
    control: u32,
    /// HEAD and TAIL of commands and of messages.
    commands: [u32; 2],
    messages: [u32; 2],
    /// TAIL of commands was written since HEAD was.
    is_aimed: bool,
    /// FSP has not taken the packet yet.
    taking: Option<Looks>,
}

impl Default for Port {
    fn default() -> Port {
        Port {
            emem: vec![0; CHANNEL],
            control: 0,
            commands: [0; 2],
            messages: [0; 2],
            is_aimed: false,
            taking: None,
        }
    }
}

/// A register of the port or of the queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    Control,
    Data,
    /// Of commands.
    Head,
    Tail,
    /// Of messages.
    MessageHead,
    MessageTail,
    /// One of another channel.
    Other,
}

impl Register {
    /// Which one is at an offset.
    pub(super) fn at(at: u32) -> Option<Register> {
        let pair = |first: u32, one, other| match at.checked_sub(first) {
            Some(0) => Some(one),
            Some(4) => Some(other),
            Some(8..EIGHT) => Some(Register::Other),
            _ => None,
        };
        pair(EMEMC, Register::Control, Register::Data)
            .or_else(|| pair(QUEUE_HEAD, Register::Head, Register::Tail))
            .or_else(|| pair(MSGQ_HEAD, Register::MessageHead, Register::MessageTail))
    }
}

impl Port {
    /// The word that EMEMC names, and EMEMC goes on to the next one if it says so.
    fn place(&mut self, increments: u32) -> Result<usize, Broken> {
        // OFFS 7:2 and BLK 15:8 are an offset in bytes.
        let at = (self.control & 0xfffc) as usize;
        if at + 4 > CHANNEL {
            return Err((&EMEM, format!("word {at:#x} of {CHANNEL:#x} bytes")));
        }
        if self.control >> increments & 1 != 0 {
            self.control = self.control & !0xfffc | (self.control + 4) & 0xfffc;
        }
        Ok(at)
    }

    /// Whose turn it is to fill the channel: the host's?
    fn is_free(&self, what: &str) -> Result<(), Broken> {
        let [head, tail] = self.messages;
        match self.taking.is_none() && head == tail {
            true => Ok(()),
            false => {
                let taken = self.taking.is_none();
                let what =
                    format!("{what}: packet taken: {taken}, messages {head:#x} to {tail:#x}");
                Err((&QUEUE, what))
            }
        }
    }
}

/// Which bits of EMEMC have the port go on to the next word.
const AINCW: u32 = 24;
const AINCR: u32 = 25;

/// The host reads a register.
pub(super) fn read(state: &mut State, register: Register) -> Result<u32, Broken> {
    if matches!(register, Register::Head | Register::MessageHead) {
        advance(state);
    }
    let port = &mut state.fsp.port;
    Ok(match register {
        Register::Control => port.control,
        Register::Data => {
            let at = port.place(AINCR)?;
            word(&port.emem, at)
        }
        Register::Head => port.commands[0],
        Register::Tail => port.commands[1],
        Register::MessageHead => port.messages[0],
        Register::MessageTail => port.messages[1],
        Register::Other => return Err((&EMEM, "read of a register of another channel".into())),
    })
}

/// The host writes a register.
pub(super) fn write(state: &mut State, register: Register, value: u32) -> Result<(), Broken> {
    let taking = state.waits_for_packet(register);
    let port = &mut state.fsp.port;
    match register {
        Register::Control => port.control = value & 0x0300_fffc,
        Register::Data => {
            port.is_free("a write to EMEM")?;
            let at = port.place(AINCW)?;
            port.emem[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        Register::Tail => {
            port.is_free("TAIL")?;
            port.commands[1] = value;
            port.is_aimed = true;
        }
        Register::Head => {
            port.is_free("HEAD")?;
            let tail = port.commands[1];
            let fits = tail > 0 && tail.is_multiple_of(4) && (tail as usize) < CHANNEL;
            if !port.is_aimed || value != 0 || !fits {
                let aimed = port.is_aimed;
                let what = format!("HEAD {value:#x}, TAIL {tail:#x}, written before it: {aimed}");
                return Err((&QUEUE, what));
            }
            port.commands[0] = value;
            port.is_aimed = false;
            port.taking = taking;
        }
        Register::MessageHead => port.messages[0] = value,
        Register::MessageTail => port.messages[1] = value,
        Register::Other => return Err((&EMEM, "write to a register of another channel".into())),
    }
    Ok(())
}

impl State {
    /// How long FSP takes for a packet, if this write is one.
    fn waits_for_packet(&self, register: Register) -> Option<Looks> {
        (register == Register::Head).then(|| self.waits(Wait::Fsp))
    }
}

/// The host looks whether FSP has taken a packet: it has, or will have later.
fn advance(state: &mut State) {
    let port = &mut state.fsp.port;
    let Some(taking) = &mut port.taking else {
        return;
    };
    if !taking.look() {
        return;
    }
    port.taking = None;
    port.commands[0] = port.commands[1];
    let packet = port.emem[..port.commands[1] as usize + 4].to_vec();
    let answer = super::answer(state, &packet);
    let port = &mut state.fsp.port;
    port.emem[..answer.len()].copy_from_slice(&answer);
    port.messages = [0, answer.len() as u32 - 4];
}
