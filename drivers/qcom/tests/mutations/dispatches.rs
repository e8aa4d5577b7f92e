//! Bugs of launches: registers, sizes, code and constants; and of the driver's own kernels.

use drivers_spec::qcom::packet::op;
use drivers_spec::qcom::regs::{
    self, sp_cs_cntl_0 as cntl0, sp_cs_cntl_1 as cntl1, sp_cs_config as config,
    sp_cs_const_config as constants, sp_cs_const_config_0 as ids, sp_cs_pvt_mem_size,
    sp_cs_wge_cntl as wge,
};

use super::mutant::{Bug, How, Packet, is_code, is_constants, is_image};

/// `(sy)` of an instruction, as the driver's kernels that copy have it before they store.
const SY: u64 = 1 << 60;
/// `stg` of cat6, whatever it stores.
const STORE: u64 = 0xc0c0_0000_0000_0000;

pub const BUGS: &[Bug] = &[
    Bug {
        what: "the sizes of a grid are not written",
        rule: "CS-REGISTER-MISSING",
        how: How::Packets(|p| p.omit(&regs::SP_CS_NDRANGE_3)),
    },
    Bug {
        what: "the upper half of the code's address is not written",
        rule: "CS-REGISTER-MISSING",
        how: How::Packets(|p| p.omit(&regs::SP_CS_BASE_HI)),
    },
    Bug {
        what: "what does not change is not written before the first launch",
        rule: "CS-REGISTER-MISSING",
        how: How::Packets(|p| p.omit(&regs::SP_MODE_CNTL)),
    },
    Bug {
        what: "textures and images are not counted",
        rule: "CS-REGISTER-MISSING",
        how: How::Packets(|p| p.omit(&regs::SP_CS_CONFIG)),
    },
    Bug {
        what: "the registers of a launch disagree on the size of waves",
        rule: "CS-THREADSIZE",
        how: How::Packets(|p| p.set(&regs::SP_CS_WGE_CNTL, |word| word ^ wge::THREADSIZE.put(1))),
    },
    Bug {
        what: "a group has more fibers than its registers allow",
        rule: "CS-GROUP-SIZE",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_NDRANGE_0, |_| 1 << 12 | 1023 << 2 | 3);
            p.set(&regs::SP_CS_NDRANGE_1, |_| 1024);
            p.set(&regs::SP_CS_NDRANGE_3, |_| 2);
            p.set(&regs::SP_CS_NDRANGE_5, |_| 1);
            p.change(op::EXEC_CS, |body| *body = vec![0, 1, 1, 1]);
        }),
    },
    Bug {
        what: "a launch has a group more than its registers say",
        rule: "CS-GRID",
        how: How::Packets(|p| p.change(op::EXEC_CS, |body| body[1] += 1)),
    },
    Bug {
        what: "a grid has no groups along y",
        rule: "CS-GRID",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_NDRANGE_3, |_| 0);
            p.change(op::EXEC_CS, |body| body[2] = 0);
        }),
    },
    Bug {
        what: "the number of a group comes in r0.x, not in a shared register",
        rule: "CS-SYSTEM-REGISTERS",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CONST_CONFIG_0, |word| {
                word & !ids::WGIDCONSTID.mask()
            });
        }),
    },
    Bug {
        what: "the place of a fiber comes behind the footprint",
        rule: "CS-SYSTEM-REGISTERS",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CONST_CONFIG_0, |word| {
                word & !ids::LOCALIDREGID.mask() | ids::LOCALIDREGID.put(40 * 4)
            });
        }),
    },
    Bug {
        what: "code has no length",
        rule: "CS-CODE",
        how: How::Packets(|p| p.set(&regs::SP_CS_INSTR_SIZE, |_| 0)),
    },
    Bug {
        what: "the length of code is counted in instructions",
        rule: "CS-CODE",
        how: How::Packets(|p| p.set(&regs::SP_CS_INSTR_SIZE, |units| units * 16)),
    },
    Bug {
        what: "code is not loaded",
        rule: "CS-CODE",
        how: How::Packets(|p| p.loads(|state| !is_code(state))),
    },
    Bug {
        what: "state is forgotten after it was loaded",
        rule: "CS-CODE",
        how: How::Packets(|p| {
            let is_update = |packet: &Packet| {
                matches!(packet, Packet::Registers { first, .. }
                    if *first == regs::dword(&regs::SP_UPDATE_CNTL))
            };
            let updates: Vec<_> = p.0.iter().filter(|one| is_update(one)).cloned().collect();
            if let Some(at) = p.0.iter().rposition(|packet| {
                matches!(
                    packet,
                    Packet::Command {
                        op: op::EXEC_CS,
                        ..
                    }
                )
            }) {
                p.0.splice(at..at, updates);
            }
        }),
    },
    Bug {
        what: "the first instruction is behind the code",
        rule: "CS-CODE",
        how: How::Packets(|p| p.set(&regs::SP_CS_PROGRAM_COUNTER_OFFSET, |_| 0x10000)),
    },
    Bug {
        what: "more constants are declared than the mode has room for",
        rule: "CS-CONSTANTS",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CONST_CONFIG, |word| {
                word & !constants::CONSTLEN.mask() | constants::CONSTLEN.put(64)
            });
        }),
    },
    Bug {
        what: "shaders are not enabled",
        rule: "CS-ENABLED",
        how: How::Packets(|p| p.set(&regs::SP_CS_CONFIG, |word| word & !config::ENABLED.mask())),
    },
    Bug {
        what: "constants are not enabled",
        rule: "CS-ENABLED",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CONST_CONFIG, |word| {
                word & !constants::ENABLED.mask()
            });
        }),
    },
    Bug {
        what: "a texture more is declared than is loaded",
        rule: "CS-COUNTS",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CONFIG, |word| {
                word & !config::NTEX.mask() | config::NTEX.put(config::NTEX.get(word) + 1)
            });
        }),
    },
    Bug {
        what: "the slots of textures are none",
        rule: "CS-COUNTS",
        how: How::Packets(|p| p.set(&regs::SP_CS_TSIZE, |_| 0)),
    },
    Bug {
        what: "the slots of images are none",
        rule: "CS-COUNTS",
        how: How::Packets(|p| p.set(&regs::SP_CS_USIZE, |_| 0)),
    },
    Bug {
        what: "images are not loaded",
        rule: "CS-COUNTS",
        how: How::Packets(|p| p.loads(|state| !is_image(state))),
    },
    Bug {
        what: "private memory has half of its bytes",
        rule: "CS-PRIVATE",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_PVT_MEM_SIZE, |word| {
                let total = sp_cs_pvt_mem_size::TOTALPVTMEMSIZE;
                word & !total.mask() | total.put(total.get(word) / 2)
            });
        }),
    },
    Bug {
        what: "fewer constants are declared than the kernel reads",
        rule: "IR3-CONST-RANGE",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CONST_CONFIG, |word| {
                word & !constants::CONSTLEN.mask() | constants::CONSTLEN.put(1)
            });
        }),
    },
    Bug {
        what: "constants are not loaded",
        rule: "IR3-CONST-UNDEFINED",
        how: How::Packets(|p| p.loads(|state| !is_constants(state))),
    },
    Bug {
        what: "constants are loaded one vector too high",
        rule: "IR3-CONST-UNDEFINED",
        how: How::Packets(|p| {
            p.loads(|state| {
                if is_constants(state) {
                    state.offset = 1;
                }
                true
            });
        }),
    },
    Bug {
        what: "the last vector of constants is not loaded",
        rule: "IR3-CONST-UNDEFINED",
        how: How::Packets(|p| {
            p.loads(|state| {
                if is_constants(state) && state.units > 1 {
                    state.units -= 1;
                }
                true
            });
        }),
    },
    Bug {
        what: "the footprint is short of what the kernel uses",
        rule: "IR3-FOOTPRINT",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CNTL_0, |word| {
                word & !cntl0::FULLREGFOOTPRINT.mask() | cntl0::FULLREGFOOTPRINT.put(2)
            });
        }),
    },
    Bug {
        what: "half registers are apart, and have no footprint",
        rule: "IR3-FOOTPRINT",
        how: How::Packets(|p| p.set(&regs::SP_CS_CNTL_0, |word| word & !cntl0::MERGEDREGS.mask())),
    },
    Bug {
        what: "no branches are declared",
        rule: "IR3-BRANCH-STACK",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CNTL_0, |word| {
                word & !cntl0::BRANCHSTACK.mask()
            })
        }),
    },
    Bug {
        what: "a group shares fewer bytes than the kernel uses",
        rule: "IR3-LOCAL-RANGE",
        how: How::Packets(|p| {
            p.set(&regs::SP_CS_CNTL_1, |word| {
                word & !cntl1::SHARED_SIZE.mask() | cntl1::SHARED_SIZE.put(1)
            });
        }),
    },
    Bug {
        what: "a copy stores before what it loads is there",
        rule: "IR3-SY-MISSING",
        how: How::Code(|code| {
            for word in code
                .iter_mut()
                .filter(|word| **word & 0xffc0_0000_0000_0000 == STORE | SY)
            {
                *word &= !SY;
            }
        }),
    },
    Bug {
        what: "an address is used before it is there",
        rule: "IR3-DELAY-OTHER",
        how: How::Code(|code| {
            for word in code
                .iter_mut()
                .filter(|word| **word == 0x0000_0500_0000_0000)
            {
                *word = 0;
            }
        }),
    },
    Bug {
        what: "a sum is used before it is there",
        rule: "IR3-DELAY-ALU",
        how: How::Code(|code| {
            for word in code
                .iter_mut()
                .filter(|word| **word == 0x0000_0200_0000_0000)
            {
                *word = 0;
            }
        }),
    },
];

/// Where launches have registers that mirror others.
pub const WITH_LPAC: &[Bug] = &[
    Bug {
        what: "the mirror of the system's registers is not written",
        rule: "CS-MIRROR",
        how: How::Packets(|p| p.omit(&regs::SP_CS_WIE_CNTL_0)),
    },
    Bug {
        what: "the mirror of shared memory has another size",
        rule: "CS-MIRROR",
        how: How::Packets(|p| p.set(&regs::HLSQ_CS_CTRL_REG1, |word| word ^ 2)),
    },
];
