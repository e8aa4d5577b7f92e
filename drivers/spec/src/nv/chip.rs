//! Which generations there are, what each has, and the chips by name.
//!
//! Source: open-gpu-kernel-modules 580.142, src/common/sdk/nvidia/inc/ctrl/ctrl2080/ctrl2080mc.h,
//! ctrl0080/ctrl0080gr.h, src/nvidia/generated/g_gpu_class_list.c; open-gpu-doc (c8607fe), classes/compute/cl*qmd.h. Which classes a
//! chip has is RM's to say: a driver asks for the class list. `sm` of GB202 as compilers count: the driver
//! reports version 0xa04 for it, beside 0xc00.

use hcq::reg::{At, Field, Generations, Register};

use super::abi::Call;
use super::class;
use super::qmd::Version;

/// A generation: chips with the same classes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Arch {
    /// Ampere, the chip of A100.
    Ga100,
    /// Ampere, the others.
    Ga10x,
    /// Ada.
    Ad10x,
    /// Hopper.
    Gh100,
    /// Blackwell, the chips of B200.
    Gb10x,
    /// Blackwell, the others.
    Gb20x,
}

impl Arch {
    /// Every generation, oldest first.
    pub const ALL: [Arch; 6] = [
        Arch::Ga100,
        Arch::Ga10x,
        Arch::Ad10x,
        Arch::Gh100,
        Arch::Gb10x,
        Arch::Gb20x,
    ];

    /// What it has.
    pub const fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }
}

/// A set of generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Archs(u8);

impl Archs {
    /// Ampere and Ada.
    pub const TO_AD10X: Self = Self(0b00_0111);
    /// To Hopper.
    pub const TO_GH100: Self = Self(0b00_1111);
    /// All but A100's.
    pub const FROM_GA10X: Self = Self(0b11_1110);
    /// The other Ampere chips, and Ada.
    pub const GA10X_AD10X: Self = Self(0b00_0110);
    /// Hopper and Blackwell.
    pub const FROM_GH100: Self = Self(0b11_1000);
    /// Blackwell.
    pub const FROM_GB10X: Self = Self(0b11_0000);
    /// Blackwell, without the chips of B200.
    pub const GB20X: Self = Self(0b10_0000);
    /// Every generation.
    pub const ALL: Self = Self(0b11_1111);

    /// Whether `arch` is one of them.
    pub const fn has(self, arch: Arch) -> bool {
        self.0 & (1 << arch as u8) != 0
    }
}

impl Generations for Archs {
    type One = Arch;

    const ALL: Self = Archs::ALL;

    fn has(self, one: Arch) -> bool {
        Archs::has(self, one)
    }
}

/// What a word in a push buffer sets, or several words in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Method {
    /// Its name, its fields, where it is: in dwords.
    pub register: Register<Archs>,
    /// How many there are, one dword after the other.
    pub count: u32,
    /// Values of its fields by name; the name begins with that of the field.
    pub values: &'static [(&'static str, u32)],
}

impl Method {
    /// Its address, in dwords, as a header has it.
    pub const fn dword(&self) -> u32 {
        match self.register.at {
            At::Fixed(dword) => dword,
            At::Rows(_) => panic!("methods have one address"),
        }
    }

    /// The bits that mean something on a generation.
    pub fn mask(&self, arch: Arch) -> u32 {
        self.register.word.mask(arch)
    }

    /// A dword with one field.
    pub fn put(&self, field: Field<Archs>, value: u32) -> u32 {
        debug_assert!(self.register.word.fields.contains(&field));
        field.put(value)
    }
}

/// The method at an address, in dwords, of a table on a generation.
pub fn method(table: &'static [Method], arch: Arch, dword: u32) -> Option<&'static Method> {
    table.iter().find(|method| {
        let first = method.dword();
        method.register.word.on.has(arch) && (first..first + method.count).contains(&dword)
    })
}

/// What a generation has.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The class of its channels.
    pub channel: Call,
    /// The class of compute.
    pub compute: Call,
    /// The class of its copy engines.
    pub copy: Call,
    /// The class of its page with the doorbell.
    pub usermode: Call,
    /// Older classes of channels and of that page, which it takes, too.
    pub older: &'static [Call],
    /// The versions of QMDs that the header of its compute class has, as far as they are described here;
    /// the last one is its own.
    pub qmds: &'static [Version],
    /// Bits of an address in a push buffer, and of a semaphore's.
    pub va_bits: u32,
    /// Where kernels find their parameters in constant bank 0, as the vendor's compilers have it.
    pub parameters: u32,
}

/// What generations after these take: the first four all, six Hopper, seven the chips of B200.
const OLDER: &[Call] = &[
    class::VOLTA_CHANNEL_GPFIFO_A,
    class::VOLTA_USERMODE_A,
    class::TURING_CHANNEL_GPFIFO_A,
    class::TURING_USERMODE_A,
    class::AMPERE_CHANNEL_GPFIFO_A,
    class::AMPERE_USERMODE_A,
    class::HOPPER_CHANNEL_GPFIFO_A,
    class::BLACKWELL_CHANNEL_GPFIFO_A,
    class::HOPPER_USERMODE_A,
];

const FACTS: [Facts; 6] = [
    Facts {
        channel: class::AMPERE_CHANNEL_GPFIFO_A,
        compute: class::AMPERE_COMPUTE_A,
        copy: class::AMPERE_DMA_COPY_A,
        usermode: class::AMPERE_USERMODE_A,
        older: OLDER.split_at(4).0,
        qmds: &[Version::V02_04, Version::V03_00],
        va_bits: 40,
        parameters: 0x160,
    },
    Facts {
        channel: class::AMPERE_CHANNEL_GPFIFO_A,
        compute: class::AMPERE_COMPUTE_B,
        copy: class::AMPERE_DMA_COPY_B,
        usermode: class::AMPERE_USERMODE_A,
        older: OLDER.split_at(4).0,
        qmds: &[Version::V02_04, Version::V03_00],
        va_bits: 40,
        parameters: 0x160,
    },
    Facts {
        channel: class::AMPERE_CHANNEL_GPFIFO_A,
        compute: class::ADA_COMPUTE_A,
        copy: class::AMPERE_DMA_COPY_B,
        usermode: class::AMPERE_USERMODE_A,
        older: OLDER.split_at(4).0,
        qmds: &[Version::V02_04, Version::V03_00],
        va_bits: 40,
        parameters: 0x160,
    },
    Facts {
        channel: class::HOPPER_CHANNEL_GPFIFO_A,
        compute: class::HOPPER_COMPUTE_A,
        copy: class::HOPPER_DMA_COPY_A,
        usermode: class::HOPPER_USERMODE_A,
        older: OLDER.split_at(6).0,
        qmds: &[Version::V03_00, Version::V04_00],
        va_bits: 57,
        parameters: 0x210,
    },
    Facts {
        channel: class::BLACKWELL_CHANNEL_GPFIFO_A,
        compute: class::BLACKWELL_COMPUTE_A,
        copy: class::BLACKWELL_DMA_COPY_A,
        usermode: class::HOPPER_USERMODE_A,
        older: OLDER.split_at(7).0,
        qmds: &[Version::V05_00],
        va_bits: 57,
        parameters: 0x380,
    },
    Facts {
        channel: class::BLACKWELL_CHANNEL_GPFIFO_B,
        compute: class::BLACKWELL_COMPUTE_B,
        copy: class::BLACKWELL_DMA_COPY_B,
        usermode: class::BLACKWELL_USERMODE_A,
        older: OLDER,
        qmds: &[Version::V05_00],
        va_bits: 57,
        parameters: 0x380,
    },
];

/// A chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// As the vendor calls it, in lower case.
    pub name: &'static str,
    /// Its generation.
    pub arch: Arch,
    /// What MC_GET_ARCH_INFO says: architecture, implementation.
    pub id: (u32, u32),
    /// What compilers compile for: 86 is sm_86.
    pub sm: u32,
}

/// Every chip that is described here: those of cards, not those of systems on a chip.
pub const CHIPS: &[Chip] = &[
    chip("ga100", Arch::Ga100, 0x170, 0, 80),
    chip("ga102", Arch::Ga10x, 0x170, 2, 86),
    chip("ga103", Arch::Ga10x, 0x170, 3, 86),
    chip("ga104", Arch::Ga10x, 0x170, 4, 86),
    chip("ga106", Arch::Ga10x, 0x170, 6, 86),
    chip("ga107", Arch::Ga10x, 0x170, 7, 86),
    chip("gh100", Arch::Gh100, 0x180, 0, 90),
    chip("ad102", Arch::Ad10x, 0x190, 2, 89),
    chip("ad103", Arch::Ad10x, 0x190, 3, 89),
    chip("ad104", Arch::Ad10x, 0x190, 4, 89),
    chip("ad106", Arch::Ad10x, 0x190, 6, 89),
    chip("ad107", Arch::Ad10x, 0x190, 7, 89),
    chip("gb100", Arch::Gb10x, 0x1a0, 0, 100),
    chip("gb102", Arch::Gb10x, 0x1a0, 2, 100),
    chip("gb202", Arch::Gb20x, 0x1b0, 2, 120),
    chip("gb203", Arch::Gb20x, 0x1b0, 3, 120),
    chip("gb205", Arch::Gb20x, 0x1b0, 5, 120),
    chip("gb206", Arch::Gb20x, 0x1b0, 6, 120),
    chip("gb207", Arch::Gb20x, 0x1b0, 7, 120),
];

const fn chip(
    name: &'static str,
    arch: Arch,
    architecture: u32,
    implementation: u32,
    sm: u32,
) -> Chip {
    Chip {
        name,
        arch,
        id: (architecture, implementation),
        sm,
    }
}

/// The `sm` of what GR_GET_INFO says for SM_VERSION; none for one that is not described here.
pub fn sm_of(version: u32) -> Option<u32> {
    match version {
        // GB20x, as older drivers count.
        0xa04 => Some(120),
        _ => {
            let (major, minor) = (version >> 8, version & 0xff);
            let sm = major * 10 + minor;
            CHIPS
                .iter()
                .any(|chip| chip.sm == sm && minor < 10)
                .then_some(sm)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{compute, copy, host};
    use super::*;

    #[test]
    fn methods_neither_share_addresses_nor_bits() {
        for table in [host::METHODS, compute::METHODS, copy::METHODS] {
            for arch in Arch::ALL {
                let on = table.iter().filter(|m| m.register.word.on.has(arch));
                let mut end = 0;
                for method in on {
                    let word = method.register.word;
                    assert!(method.dword() >= end, "{} on {arch:?}", word.name);
                    end = method.dword() + method.count;
                    let mut used = 0;
                    for field in word.fields.iter().filter(|field| field.on.has(arch)) {
                        assert!(field.high < 32 && field.low <= field.high);
                        assert_eq!(used & field.mask(), 0, "{}.{}", word.name, field.name);
                        used |= field.mask();
                    }
                    assert!(method.mask(arch) != 0, "{} on {arch:?}", word.name);
                }
            }
        }
    }

    #[test]
    fn methods_are_found_where_they_exist() {
        let found =
            |arch, dword| method(compute::METHODS, arch, dword).map(|m| m.register.word.name);
        assert_eq!(
            found(Arch::Gh100, 0x2c0 / 4),
            Some("SEND_SIGNALING_PCAS2_B")
        );
        assert_eq!(found(Arch::Ga100, 0x158 / 4), None);
        assert_eq!(
            found(Arch::Ga10x, 0x158 / 4),
            Some("SET_REPORT_SEMAPHORE_PAYLOAD_LOWER")
        );
        assert_eq!(
            found(Arch::Ad10x, 0x320 / 4 + 63),
            Some("LOAD_INLINE_QMD_DATA")
        );
        assert_eq!(found(Arch::Ad10x, 0x320 / 4 + 64), None);
        assert!(found(Arch::Gh100, 0x320 / 4 + 95).is_some());
        let upper = host::SEM_ADDR_HI;
        assert_eq!(
            (upper.mask(Arch::Ad10x), upper.mask(Arch::Gh100)),
            (0xff, 0x1ff_ffff)
        );
    }

    #[test]
    fn chips_are_told_apart() {
        for (i, chip) in CHIPS.iter().enumerate() {
            assert!(
                CHIPS[..i]
                    .iter()
                    .all(|other| other.id != chip.id && other.name != chip.name)
            );
            assert!(!chip.arch.facts().qmds.is_empty());
        }
        let sms = [
            0x800, 0x806, 0x809, 0x900, 0xa00, 0xa04, 0xc00, 0x807, 0x850,
        ]
        .map(sm_of);
        let known = [80, 86, 89, 90, 100, 120, 120].map(Some);
        assert_eq!(sms[..7], known);
        assert_eq!(sms[7..], [None, None]);
    }
}
