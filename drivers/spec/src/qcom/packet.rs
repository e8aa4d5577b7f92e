//! Packets of the command processor (CP): type 4 writes registers, type 7 is a command.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml (DiskDVD/mesa-tu8 7535436): opcodes and fields are checked
//! against it; headers against KGSL (qualcomm-linux/kgsl 27cf0e4), adreno_pm4types.h, `cp_type4_packet` and
//! `cp_type7_packet`. EXEC_CS_INDIRECT, SET_MARKER and which events take an address: with a survey of Mesa's
//! tu_cmd_buffer.cc.

use hcq::reg::Word;

use super::chip::Gens;
use crate::nv::words::words;

/// The most dwords of a type 4 packet, without its header.
pub const MAX_REGISTERS: u32 = 0x7f;
/// One past the last address of a type 4 packet, in dwords.
pub const REGISTERS_END: u32 = 1 << 18;
/// The most dwords of a type 7 packet, without its header.
pub const MAX_BODY: u32 = 0x3fff;

words! { Gens;
    /// The header of a type 4 packet: `COUNT` registers from `REGISTER` on.
    HEADER4 header4 "type 4 header" {
        COUNT 6 0;
        COUNT_PARITY 7 7;
        REGISTER 25 8;
        REGISTER_PARITY 27 27;
        TYPE 31 28 {TYPE4 = 4};
    }
    /// The header of a type 7 packet: `COUNT` dwords for an operation.
    HEADER7 header7 "type 7 header" {
        COUNT 13 0;
        COUNT_PARITY 15 15;
        OPCODE 22 16;
        OPCODE_PARITY 23 23;
        TYPE 31 28 {TYPE7 = 7};
    }
    /// WAIT_REG_MEM: compares `REF` with a value under a mask.
    WAIT_REG_MEM_0 wait_reg_mem_0 "CP_WAIT_REG_MEM_0" {
        FUNCTION 2 0 {WRITE_ALWAYS = 0, WRITE_LT = 1, WRITE_LE = 2, WRITE_EQ = 3, WRITE_NE = 4, WRITE_GE = 5,
            WRITE_GT = 6};
        SIGNED_COMPARE 3 3;
        POLL 5 4 {POLL_REGISTER = 0, POLL_MEMORY = 1, POLL_SCRATCH = 2};
        WRITE_MEMORY 8 8;
    }
    /// REG_TO_MEM: `CNT` registers, or one for 0. With `B64`, registers are read as pairs at once.
    REG_TO_MEM_0 reg_to_mem_0 "CP_REG_TO_MEM_0" {
        REG 17 0;
        CNT 29 18;
        B64 as "64B" 30 30;
        ACCUMULATE 31 31;
    }
    /// MEM_TO_REG: `CNT` registers, or one for 0.
    MEM_TO_REG_0 mem_to_reg_0 "CP_MEM_TO_REG_0" {
        REG 17 0;
        CNT 29 19;
        SHIFT_BY_2 30 30;
        UNK31 31 31;
    }
    /// MEM_TO_MEM: the sum of what follows, each negated or not.
    MEM_TO_MEM_0 mem_to_mem_0 "CP_MEM_TO_MEM_0" {
        NEG_A 0 0;
        NEG_B 1 1;
        NEG_C 2 2;
        DOUBLE 29 29;
        WAIT_FOR_MEM_WRITES 30 30;
        UNK31 31 31;
    }
    /// INDIRECT_BUFFER: its length.
    INDIRECT_BUFFER_2 indirect_buffer_2 "CP_INDIRECT_BUFFER_2" {
        IB_SIZE 19 0;
    }
    /// EVENT_WRITE: with `TIMESTAMP` the counter that is always on is written, not the value of the packet.
    EVENT_WRITE_0 event_write_0 "CP_EVENT_WRITE_0" {
        EVENT 7 0 {CACHE_FLUSH_TS = 0x04, START_COMPUTE_CTRS = 0x0f, STOP_COMPUTE_CTRS = 0x10, RB_DONE_TS = 0x16,
            PC_CCU_RESOLVE_TS = 0x1a, PC_CCU_FLUSH_DEPTH_TS = 0x1c, PC_CCU_FLUSH_COLOR_TS = 0x1d, CACHE_INVALIDATE = 0x31, DEBUG_LABEL = 0x3f};
        TIMESTAMP 30 30;
        IRQ 31 31;
    }
    /// SET_MARKER: what follows.
    SET_MARKER_0 set_marker_0 "CP_SET_MARKER_0" {
        MODE 3 0 {RM6_DIRECT_RENDER = 1, RM6_COMPUTE = 8};
    }
    /// LOAD_STATE6: what is loaded, from where.
    LOAD_STATE6_0 load_state6_0 "CP_LOAD_STATE6_0" {
        DST_OFF 13 0;
        STATE_TYPE 15 14 {ST6_SHADER = 0, ST6_CONSTANTS = 1, ST6_UBO = 2, ST6_UAV = 3};
        STATE_SRC 17 16 {SS6_DIRECT = 0, SS6_BINDLESS = 1, SS6_INDIRECT = 2, SS6_UBO = 3};
        STATE_BLOCK 21 18 {SB6_CS_TEX = 5, SB6_CS_SHADER = 0xd, SB6_UAV = 0xe, SB6_CS_UAV = 0xf};
        NUM_UNIT 31 22;
    }
    /// EXEC_CS_INDIRECT: fibers of a group along each dimension, less 1.
    EXEC_CS_INDIRECT_3 exec_cs_indirect_3 "CP_EXEC_CS_INDIRECT_3" {
        LOCALSIZEX 11 2;
        LOCALSIZEY 21 12;
        LOCALSIZEZ 31 22;
    }
    /// REG_RMW: the register becomes itself and the second dword, or the third.
    REG_RMW_0 reg_rmw_0 "CP_REG_RMW_0" {
        DST_REG 17 0;
    }
}

/// A dword of zeros.
const ZERO: Word<Gens> = Word {
    name: "zero",
    fields: &[hcq::reg::Field {
        name: "zero",
        high: 31,
        low: 0,
        on: Gens::NONE,
    }],
    on: Gens::ALL,
};

const fn whole(name: &'static str) -> Word<Gens> {
    Word::whole(name)
}

/// How many dwords follow a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So many.
    Exactly(usize),
    /// One of two.
    Either(usize, usize),
    /// So many, or more.
    AtLeast(usize),
    /// By its first dword: [`LoadState::body`].
    LoadState,
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The name, without `CP_`.
    pub name: &'static str,
    /// The operation.
    pub op: u8,
    /// How many dwords it has.
    pub length: Length,
    /// Its first dwords.
    pub words: &'static [Word<Gens>],
}

/// Declares commands: constants for operations in [`op`], and their table.
macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident $op:literal $length:expr, [$($word:expr),*];)*) => {
        /// Operations of type 7 packets.
        pub mod op {
            $($(#[$doc])* #[doc = concat!("`CP_", stringify!($name), "`.")] pub const $name: u8 = $op;)*
        }

        /// Every command that compute needs, in the order of their operations.
        pub const COMMANDS: &[Command] = &[$(Command {
            name: stringify!($name),
            op: $op,
            length: $length,
            words: &[$($word),*],
        },)*];
    };
}

commands! {
    /// Nothing; may have data.
    NOP 0x10 Length::AtLeast(0), [];
    /// Waits until the CP's own writes to memory are there.
    WAIT_MEM_WRITES 0x12 Length::Exactly(0), [];
    /// Waits until the CP has done what it has read.
    WAIT_FOR_ME 0x13 Length::Exactly(0), [];
    /// Waits until memory is at least a value, both with a sign.
    WAIT_MEM_GTE 0x14 Length::Exactly(4),
        [ZERO, whole("POLL_ADDR"), whole("POLL_ADDR_HI"), whole("REF")];
    /// Changes bits of a register.
    REG_RMW 0x21 Length::Exactly(3), [REG_RMW_0, whole("SRC0"), whole("SRC1")];
    /// Waits until the GPU is idle.
    WAIT_FOR_IDLE 0x26 Length::Exactly(0), [];
    /// Starts a grid whose size is in registers: the last groups may be partial.
    RUN_OPENCL 0x31 Length::Exactly(1), [ZERO];
    /// Loads state of geometry.
    LOAD_STATE6_GEOM 0x32 Length::LoadState, [LOAD_STATE6_0, whole("EXT_SRC_ADDR"), whole("EXT_SRC_ADDR_HI")];
    /// Starts a grid of so many groups.
    EXEC_CS 0x33 Length::Exactly(4), [ZERO, whole("NGROUPS_X"), whole("NGROUPS_Y"), whole("NGROUPS_Z")];
    /// Loads state of pixels or compute.
    LOAD_STATE6_FRAG 0x34 Length::LoadState, [LOAD_STATE6_0, whole("EXT_SRC_ADDR"), whole("EXT_SRC_ADDR_HI")];
    /// Loads state.
    LOAD_STATE6 0x36 Length::LoadState, [LOAD_STATE6_0, whole("EXT_SRC_ADDR"), whole("EXT_SRC_ADDR_HI")];
    /// Forgets state.
    INVALIDATE_STATE 0x3b Length::Exactly(1), [whole("MASK")];
    /// Waits for a value in a register or in memory.
    WAIT_REG_MEM 0x3c Length::Exactly(6), [WAIT_REG_MEM_0, whole("POLL_ADDR"), whole("POLL_ADDR_HI"), whole("REF"),
        whole("MASK"), whole("DELAY_LOOP_CYCLES")];
    /// Writes dwords to memory.
    MEM_WRITE 0x3d Length::AtLeast(3), [whole("ADDR"), whole("ADDR_HI")];
    /// Writes registers to memory.
    REG_TO_MEM 0x3e Length::Exactly(3), [REG_TO_MEM_0, whole("DEST"), whole("DEST_HI")];
    /// Runs packets from elsewhere.
    INDIRECT_BUFFER 0x3f Length::Exactly(3), [whole("IB_BASE"), whole("IB_BASE_HI"), INDIRECT_BUFFER_2];
    /// Interrupts the host.
    INTERRUPT 0x40 Length::Exactly(1), [whole("VALUE")];
    /// Starts a grid whose groups are counted in memory.
    EXEC_CS_INDIRECT 0x41 Length::Exactly(4), [ZERO, whole("ADDR"), whole("ADDR_HI"), EXEC_CS_INDIRECT_3];
    /// Reads registers from memory.
    MEM_TO_REG 0x42 Length::Exactly(3), [MEM_TO_REG_0, whole("SRC"), whole("SRC_HI")];
    /// Runs the next dwords if the one at the first address is not 0, and that at the second is less than `REF`, both with a
    /// sign.
    COND_EXEC 0x44 Length::Exactly(6), [whole("ADDR0_LO"), whole("ADDR0_HI"), whole("ADDR1_LO"), whole("ADDR1_HI"),
        whole("REF"), whole("DWORDS")];
    /// An event; those with a timestamp write to memory when they have happened.
    EVENT_WRITE 0x46 Length::Either(1, 4), [EVENT_WRITE_0, whole("ADDR"), whole("ADDR_HI"), whole("VALUE")];
    /// What follows.
    SET_MARKER 0x65 Length::Exactly(1), [SET_MARKER_0];
    /// Copies or adds 32 or 64 bits.
    MEM_TO_MEM 0x73 Length::AtLeast(5), [MEM_TO_MEM_0, whole("DST"), whole("DST_HI"), whole("SRC_A"),
        whole("SRC_A_HI")];
    /// Copies dwords.
    MEMCPY 0x75 Length::Exactly(5), [whole("DWORDS"), whole("SRC_LO"), whole("SRC_HI"), whole("DST_LO"), whole("DST_HI")];
}

/// The command of an operation.
pub fn command(op: u8) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.op == op)
}

/// Whether an event takes an address and writes there: those whose names end with `_TS`.
pub const fn event_writes(event: u32) -> bool {
    matches!(
        event,
        event_write_0::CACHE_FLUSH_TS
            | event_write_0::RB_DONE_TS
            | event_write_0::PC_CCU_RESOLVE_TS
            | event_write_0::PC_CCU_FLUSH_DEPTH_TS
            | event_write_0::PC_CCU_FLUSH_COLOR_TS
    )
}

/// The bit that makes the number of ones of a value and the bit odd.
#[inline]
pub const fn parity(value: u32) -> u32 {
    1 ^ (value.count_ones() & 1)
}

/// The header of a packet that writes `count` registers from `first` on; both are cut to their widths.
#[inline]
pub const fn type4(first: u32, count: u32) -> u32 {
    debug_assert!(first < REGISTERS_END && 0 < count && count <= MAX_REGISTERS);
    header4::TYPE.put(header4::TYPE4)
        | header4::REGISTER.put(first)
        | header4::REGISTER_PARITY.put(parity(first))
        | header4::COUNT.put(count)
        | header4::COUNT_PARITY.put(parity(count))
}

/// The header of a command with `count` dwords; it is cut to its width.
#[inline]
pub const fn type7(op: u8, count: u32) -> u32 {
    debug_assert!(op < 0x80 && count <= MAX_BODY);
    header7::TYPE.put(header7::TYPE7)
        | header7::OPCODE.put(op as u32)
        | header7::OPCODE_PARITY.put(parity(op as u32))
        | header7::COUNT.put(count)
        | header7::COUNT_PARITY.put(parity(count))
}

/// A packet of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet<'a> {
    /// Registers from `first` on become these values.
    Registers {
        /// The first register.
        first: u32,
        /// One for each.
        values: &'a [u32],
    },
    /// A command.
    Command {
        /// Its operation.
        op: u8,
        /// What follows its header.
        body: &'a [u32],
    },
}

impl Packet<'_> {
    /// Appends its dwords.
    ///
    /// # Errors
    /// [`Error::TooLong`] if a header cannot hold the operation, the address or the number of dwords.
    pub fn encode(&self, out: &mut Vec<u32>) -> Result<(), Error> {
        let at = out.len();
        let too_long = |what, least, most, found| Error::TooLong {
            at,
            what,
            least,
            most,
            found,
        };
        match *self {
            Packet::Registers { first, values } => {
                let end = first as usize + values.len();
                if end > REGISTERS_END as usize {
                    return Err(too_long("the end of the registers", 1, REGISTERS_END, end));
                }
                if values.is_empty() || values.len() > MAX_REGISTERS as usize {
                    return Err(too_long("number of values", 1, MAX_REGISTERS, values.len()));
                }
                out.push(type4(first, values.len() as u32));
                out.extend(values);
            }
            Packet::Command { op, body } => {
                if op >= 0x80 {
                    return Err(too_long("opcode", 0, 0x7f, op.into()));
                }
                if body.len() > MAX_BODY as usize {
                    return Err(too_long("number of dwords", 0, MAX_BODY, body.len()));
                }
                out.push(type7(op, body.len() as u32));
                out.extend(body);
            }
        }
        Ok(())
    }
}

/// What is wrong with a stream. `at` is where, in dwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No type that these GPUs have.
    #[error("dword {at} ({header:#010x}): packet type {kind}, expected 4 or 7")]
    Type {
        /// Where.
        at: usize,
        /// The dword.
        header: u32,
        /// Bits 31:28.
        kind: u32,
    },
    /// A parity bit.
    #[error("dword {at} ({header:#010x}): wrong parity of the {of}")]
    Parity {
        /// Where.
        at: usize,
        /// The dword.
        header: u32,
        /// `count`, `register` or `opcode`.
        of: &'static str,
    },
    /// Bits of a header that no field has.
    #[error("dword {at} ({header:#010x}): reserved bits {bits:#x} of the header are set")]
    Reserved {
        /// Where.
        at: usize,
        /// The dword.
        header: u32,
        /// Which bits.
        bits: u32,
    },
    /// A packet that writes no registers, or some beyond the last.
    #[error("dword {at} ({header:#010x}): no registers, or registers beyond the last")]
    Registers {
        /// Where.
        at: usize,
        /// The dword.
        header: u32,
    },
    /// The stream ends inside of a packet.
    #[error("dword {at} ({header:#010x}): {left} of {wanted} dwords follow the header")]
    Truncated {
        /// Where.
        at: usize,
        /// The dword.
        header: u32,
        /// How many follow in a whole packet.
        wanted: usize,
        /// How many there are.
        left: usize,
    },
    /// A packet that no header can describe.
    #[error("packet at dword {at}: {what} is {found}, expected {least} to {most}")]
    TooLong {
        /// Where.
        at: usize,
        /// What a header has too few bits for.
        what: &'static str,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
        /// What was given.
        found: usize,
    },
    /// An operation that no table has.
    #[error("unknown opcode {op:#04x}")]
    Unknown {
        /// Which.
        op: u8,
    },
    /// A command with another number of dwords.
    #[error("CP_{name}: {found} dwords after the header, expected {expected:?}")]
    Length {
        /// Which command.
        name: &'static str,
        /// How many.
        expected: Length,
        /// How many there are.
        found: usize,
    },
    /// Bits of a command that no field has.
    #[error("CP_{name}: unknown bits {bits:#x} of {word}")]
    Bits {
        /// Which command.
        name: &'static str,
        /// Which dword.
        word: &'static str,
        /// Which bits.
        bits: u32,
    },
}

/// The packets of a stream, up to the first that is none.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    stream: &'a [u32],
    at: usize,
}

/// Reads a stream: the place of each packet, in dwords, and the packet. After an error there is nothing.
pub const fn packets(stream: &[u32]) -> Packets<'_> {
    Packets { stream, at: 0 }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<(usize, Packet<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        self.stream.get(at)?;
        let packet = decode(self.stream, at);
        self.at = match &packet {
            Ok(Packet::Registers { values, .. }) => at + 1 + values.len(),
            Ok(Packet::Command { body, .. }) => at + 1 + body.len(),
            Err(_) => self.stream.len(),
        };
        Some(packet.map(|packet| (at, packet)))
    }
}

fn decode(stream: &[u32], at: usize) -> Result<Packet<'_>, Error> {
    let (header, rest) = match stream.get(at..) {
        Some([header, rest @ ..]) => (*header, rest),
        _ => (0, &[][..]),
    };
    let body = |wanted: u32| {
        let (wanted, left) = (wanted as usize, rest.len());
        rest.get(..wanted).ok_or(Error::Truncated {
            at,
            header,
            wanted,
            left,
        })
    };
    let odd = |of, value, bit| match parity(value) == bit {
        true => Ok(()),
        false => Err(Error::Parity { at, header, of }),
    };
    let reserved = |word: Word<Gens>| match header & !word.mask(super::chip::Gen::Gen1) {
        0 => Ok(()),
        bits => Err(Error::Reserved { at, header, bits }),
    };
    match header4::TYPE.get(header) {
        header4::TYPE4 => {
            let (first, count) = (header4::REGISTER.get(header), header4::COUNT.get(header));
            reserved(HEADER4)?;
            odd("register", first, header4::REGISTER_PARITY.get(header))?;
            odd("count", count, header4::COUNT_PARITY.get(header))?;
            if count == 0 || first + count > REGISTERS_END {
                return Err(Error::Registers { at, header });
            }
            let values = body(count)?;
            Ok(Packet::Registers { first, values })
        }
        header7::TYPE7 => {
            let (op, count) = (header7::OPCODE.get(header), header7::COUNT.get(header));
            reserved(HEADER7)?;
            odd("opcode", op, header7::OPCODE_PARITY.get(header))?;
            odd("count", count, header7::COUNT_PARITY.get(header))?;
            let body = body(count)?;
            Ok(Packet::Command { op: op as u8, body })
        }
        kind => Err(Error::Type { at, header, kind }),
    }
}

/// Checks a command by its table: its length, and that no bit is set that no field has.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Length`] or [`Error::Bits`].
pub fn check(op: u8, body: &[u32]) -> Result<&'static Command, Error> {
    let command = command(op).ok_or(Error::Unknown { op })?;
    let name = command.name;
    let found = body.len();
    let fits = match command.length {
        Length::Exactly(wanted) => found == wanted,
        Length::Either(one, other) => found == one || found == other,
        Length::AtLeast(least) => found >= least,
        Length::LoadState => match body {
            [first, ..] => LoadState::decode(*first).body() == Some(found),
            [] => false,
        },
    };
    let expected = command.length;
    let wrong = Error::Length {
        name,
        expected,
        found,
    };
    if !fits {
        return Err(wrong);
    }
    for (word, dword) in command.words.iter().zip(body) {
        let bits = dword & !word.mask(super::chip::Gen::Gen1);
        if bits != 0 {
            let word = word.name;
            return Err(Error::Bits { name, word, bits });
        }
    }
    // Only events that write have an address, and they always do.
    if op == op::EVENT_WRITE && event_writes(event_write_0::EVENT.get(body[0])) != (found == 4) {
        return Err(wrong);
    }
    // Addresses come in pairs.
    if op == op::MEM_TO_MEM && (found.is_multiple_of(2) || found > 9) {
        return Err(wrong);
    }
    Ok(command)
}

/// What LOAD_STATE6 loads: its first dword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadState {
    /// Where to, in units.
    pub offset: u32,
    /// `ST6_*`.
    pub kind: u32,
    /// `SS6_*`.
    pub source: u32,
    /// `SB6_*`.
    pub block: u32,
    /// How many units.
    pub units: u32,
}

impl LoadState {
    /// The dword; values are cut to their widths.
    pub const fn encode(self) -> u32 {
        load_state6_0::DST_OFF.put(self.offset)
            | load_state6_0::STATE_TYPE.put(self.kind)
            | load_state6_0::STATE_SRC.put(self.source)
            | load_state6_0::STATE_BLOCK.put(self.block)
            | load_state6_0::NUM_UNIT.put(self.units)
    }

    /// From the dword.
    pub const fn decode(word: u32) -> LoadState {
        LoadState {
            offset: load_state6_0::DST_OFF.get(word),
            kind: load_state6_0::STATE_TYPE.get(word),
            source: load_state6_0::STATE_SRC.get(word),
            block: load_state6_0::STATE_BLOCK.get(word),
            units: load_state6_0::NUM_UNIT.get(word),
        }
    }

    /// Bytes of a unit; none for what compute does not load.
    pub const fn unit_bytes(self) -> Option<u32> {
        use load_state6_0::{
            SB6_CS_SHADER, SB6_CS_TEX, SB6_CS_UAV, ST6_CONSTANTS, ST6_SHADER, ST6_UAV, ST6_UBO,
        };
        match (self.block, self.kind) {
            // Code, as 16 instructions.
            (SB6_CS_SHADER, ST6_SHADER) => Some(super::regs::INSTRUCTION_UNIT),
            // Constants, as vectors of four.
            (SB6_CS_SHADER, ST6_CONSTANTS) => Some(16),
            (SB6_CS_SHADER, ST6_UBO) => Some(8),
            (SB6_CS_SHADER | SB6_CS_UAV, ST6_UAV) => Some(64),
            // Samplers.
            (SB6_CS_TEX, ST6_SHADER) => Some(16),
            // Textures.
            (SB6_CS_TEX, ST6_CONSTANTS) => Some(64),
            _ => None,
        }
    }

    /// Dwords after the header: with the source in the packet it follows. None where a unit's size is not known.
    pub fn body(self) -> Option<usize> {
        let data = match self.source {
            load_state6_0::SS6_DIRECT => self.units * self.unit_bytes()? / 4,
            _ => 0,
        };
        Some(3 + data as usize)
    }
}
