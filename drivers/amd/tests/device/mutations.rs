//! Deliberate bugs in our driver, each named by the twin: what a test of it must be able to see.

use crate::mutant;
use crate::stand;

use std::sync::Arc;

use drivers_amd::encode::pm4::length;
use drivers_spec::amd::kfd::{
    self, Alloc, AllocMemoryOfGpuArgs, CreateEventArgs, CreateQueueArgs, event_type, queue_type,
};
use drivers_spec::amd::{pm4, regs, sdma};
use hcq::transport::Machine;
use zerocopy::FromBytes;

use mutant::{Bug, How, Mutant};

/// Calls `edit` for each packet of a PM4 ring with its opcode.
fn each_pm4(words: &mut [u32], is_sdma: bool, mut edit: impl FnMut(u8, &mut [u32])) {
    let mut at = 0;
    while !is_sdma && at < words.len() {
        let end = (at + length(words[at])).min(words.len());
        edit(pm4::OPCODE.get(words[at]) as u8, &mut words[at..end]);
        at = end;
    }
}

/// A packet that does nothing in place of this one.
fn skip(packet: &mut [u32]) {
    packet.fill(pm4::NOP_PAD);
}

/// Calls `edit` for each packet of an SDMA ring with its operation.
fn each_sdma(words: &mut [u32], is_sdma: bool, mut edit: impl FnMut(u16, &mut [u32])) {
    use drivers_spec::amd::packet::Gfx;
    let mut at = 0;
    while is_sdma && at < words.len() {
        let dwords = drivers_amd::encode::sdma::length(Gfx::Gfx11, &words[at..]);
        let end = (at + dwords).min(words.len());
        edit(words[at] as u16, &mut words[at..end]);
        at = end;
    }
}

fn queue(request: u32, payload: &mut [u8], kind: u32, edit: fn(&mut CreateQueueArgs)) -> bool {
    if request == kfd::CREATE_QUEUE.request {
        let args = CreateQueueArgs::mut_from_bytes(payload).unwrap();
        if args.queue_type == kind {
            edit(args);
        }
    }
    true
}

fn allocation(request: u32, payload: &mut [u8], edit: fn(&mut AllocMemoryOfGpuArgs)) -> bool {
    if request == kfd::ALLOC_MEMORY_OF_GPU.request {
        edit(AllocMemoryOfGpuArgs::mut_from_bytes(payload).unwrap());
    }
    true
}

/// Calls `edit` with each packet that writes a register, and the place of its value in it.
fn each_write(words: &mut [u32], is_sdma: bool, register: u32, edit: fn(&mut [u32], usize)) {
    each_pm4(words, is_sdma, |op, packet| {
        if op != pm4::SET_SH_REG || packet.len() < 3 {
            return;
        }
        let first = packet[1] + pm4::SH_REG_START;
        let at = register.wrapping_sub(first) as usize + 2;
        if register >= first && at < packet.len() {
            edit(packet, at);
        }
    });
}

/// The last event dword of a RELEASE_MEM that acts on caches.
const END_OF_PIPE: u32 = 0x514;

const BUGS: &[Bug] = &[
    Bug {
        what: "the control stack of a queue is a page too small",
        rule: "KFD-CTL-STACK-SIZE",
        how: How::Ioctl(|r, p| queue(r, p, queue_type::COMPUTE, |q| q.ctl_stack_size -= 4096)),
    },
    Bug {
        what: "the context of a queue is a page too small",
        rule: "KFD-CWSR-SIZE",
        how: How::Ioctl(|r, p| {
            queue(r, p, queue_type::COMPUTE, |q| {
                q.ctx_save_restore_size -= 4096
            })
        }),
    },
    Bug {
        what: "the end-of-pipe buffer is said to have two pages",
        rule: "KFD-EOP-SIZE",
        how: How::Ioctl(|r, p| queue(r, p, queue_type::COMPUTE, |q| q.eop_buffer_size *= 2)),
    },
    Bug {
        what: "a ring is said to be twice as large as its memory",
        rule: "KFD-QUEUE-BUFFER-SIZE",
        how: How::Ioctl(|r, p| queue(r, p, queue_type::COMPUTE, |q| q.ring_size *= 2)),
    },
    Bug {
        what: "a copy queue's pointers lie in memory that is not mapped",
        rule: "KFD-QUEUE-BUFFER-SIZE",
        how: How::Ioctl(|r, p| queue(r, p, queue_type::SDMA, |q| q.write_pointer_address += 4096)),
    },
    Bug {
        what: "a PM4 queue names a second XCC of a chip that has one",
        rule: "KFD-QUEUE-XCC",
        how: How::Ioctl(|r, p| queue(r, p, queue_type::COMPUTE, |q| q.queue_percentage |= 1 << 8)),
    },
    Bug {
        what: "the address space is not bound to the process",
        rule: "KFD-ACQUIRE-VM",
        how: How::Ioctl(|r, _| r != kfd::ACQUIRE_VM.request),
    },
    Bug {
        what: "memory of two types is asked for",
        rule: "KFD-ALLOC-TYPE",
        how: How::Ioctl(|r, p| {
            allocation(r, p, |a| {
                if Alloc::from_bits_retain(a.flags).contains(Alloc::VRAM) {
                    a.flags |= Alloc::GTT.bits();
                }
            })
        }),
    },
    Bug {
        what: "memory is asked for with a flag that does not exist",
        rule: "KFD-ALLOC-FLAGS",
        how: How::Ioctl(|r, p| allocation(r, p, |a| a.flags |= 1 << 10)),
    },
    Bug {
        what: "memory is asked for as for the rings of gfx8",
        rule: "KFD-AQL-QUEUE-MEM",
        how: How::Ioctl(|r, p| allocation(r, p, |a| a.flags |= Alloc::AQL_QUEUE_MEM.bits())),
    },
    Bug {
        what: "the event for memory faults has a type that nothing signals",
        rule: "KFD-EVENT-TYPE",
        how: How::Ioctl(|r, p| {
            if r == kfd::CREATE_EVENT.request {
                let args = CreateEventArgs::mut_from_bytes(p).unwrap();
                if args.event_type == event_type::MEMORY {
                    args.event_type = event_type::NODECHANGE;
                }
            }
            true
        }),
    },
    Bug {
        what: "memory of a queue is unmapped before the queue is destroyed",
        rule: "KFD-UNMAP-QUEUE-BUFFER",
        how: How::Ioctl(|r, _| r != kfd::DESTROY_QUEUE.request),
    },
    Bug {
        what: "no cache is invalidated before a launch",
        rule: "CACHE-SCALAR-STALE",
        how: How::Words(|words, sdma| {
            each_pm4(words, sdma, |op, packet| {
                if op == pm4::ACQUIRE_MEM {
                    skip(packet);
                }
            });
        }),
    },
    Bug {
        what: "nobody flushes the HDP after the host wrote code through the BAR",
        rule: "HDP-NOT-FLUSHED",
        how: How::Unflushed(|words, sdma| {
            each_pm4(words, sdma, |op, packet| {
                if op == pm4::WAIT_REG_MEM && pm4::wait::MEM_SPACE.get(packet[1]) == 0 {
                    skip(packet);
                }
            });
            each_sdma(words, sdma, |op, packet| {
                if op == sdma::POLL_REGMEM && sdma::HDP_FLUSH.get(packet[0]) == 1 {
                    packet.fill(0);
                }
            });
        }),
    },
    Bug {
        what: "a signal does not write GL2 back",
        rule: "CACHE-L2-HOST-STALE",
        how: How::Words(|words, sdma| {
            each_pm4(words, sdma, |op, packet| match op {
                pm4::RELEASE_MEM => packet[1] = END_OF_PIPE,
                pm4::ACQUIRE_MEM => packet[7] &= !pm4::acquire::GL2_WB.put(1),
                _ => {}
            });
        }),
    },
    Bug {
        what: "an interrupt is raised without a word in the event page",
        rule: "KFD-EVENT-SLOT",
        how: How::Words(|words, sdma| {
            each_pm4(words, sdma, |op, packet| {
                if op == pm4::RELEASE_MEM && pm4::release::INT_SEL.get(packet[2]) != 0 {
                    packet[3] += 2048;
                }
            });
        }),
    },
    Bug {
        what: "waves are not privileged on GFX11",
        rule: "PM4-PRIV-GFX11",
        how: How::Words(|words, sdma| {
            each_write(words, sdma, regs::COMPUTE_PGM_RSRC1, |packet, at| {
                packet[at] &= !regs::PRIV.put(1)
            });
        }),
    },
    Bug {
        what: "a register of the launch is not written",
        rule: "PM4-REG-UNSET",
        how: How::Words(|words, sdma| {
            each_write(words, sdma, regs::COMPUTE_TMPRING_SIZE, |packet, _| {
                skip(packet)
            });
        }),
    },
    Bug {
        what: "a kernel with scratch gets none",
        rule: "PM4-TMPRING",
        how: How::Words(|words, sdma| {
            each_write(words, sdma, regs::COMPUTE_TMPRING_SIZE, |packet, at| {
                packet[at] = 0
            });
        }),
    },
    Bug {
        what: "a launch does not enable the shader",
        rule: "PM4-DISPATCH-INITIATOR",
        how: How::Words(|words, sdma| {
            each_pm4(words, sdma, |op, packet| {
                if op == pm4::DISPATCH_DIRECT {
                    packet[4] &= !1;
                }
            });
        }),
    },
    Bug {
        what: "a workgroup has no work-items",
        rule: "PM4-NUM-THREAD",
        how: How::Words(|words, sdma| {
            each_write(words, sdma, regs::COMPUTE_NUM_THREAD_X, |packet, at| {
                packet[at] = 0
            });
        }),
    },
    Bug {
        what: "the write-back of the metadata cache lacks its invalidation",
        rule: "PM4-GLM-WB",
        how: How::Words(|words, sdma| {
            each_pm4(words, sdma, |op, packet| {
                if op == pm4::ACQUIRE_MEM {
                    packet[7] &= !pm4::acquire::GLM_INV.put(1);
                }
            });
        }),
    },
    Bug {
        what: "a launch reads the arguments of nobody",
        rule: "GPU-PAGE-FAULT",
        how: How::Words(|words, sdma| {
            each_write(words, sdma, regs::COMPUTE_USER_DATA_0, |packet, at| {
                packet[at..].fill(0x1000)
            });
        }),
    },
    Bug {
        what: "a fence of SDMA stays in a cache",
        rule: "SDMA-FENCE-MTYPE",
        how: How::Words(|words, sdma| {
            each_sdma(words, sdma, |op, packet| {
                if op == sdma::FENCE {
                    packet[0] &= 0xffff;
                }
            });
        }),
    },
    Bug {
        what: "a poll of SDMA gives up",
        rule: "SDMA-POLL",
        how: How::Words(|words, sdma| {
            each_sdma(words, sdma, |op, packet| {
                if op == sdma::POLL_REGMEM && sdma::MEM_POLL.get(packet[0]) == 1 {
                    packet[5] = 0;
                }
            });
        }),
    },
    Bug {
        what: "a copy has a bit set that means nothing",
        rule: "SDMA-RESERVED",
        how: How::Words(|words, sdma| {
            each_sdma(words, sdma, |op, packet| {
                if op == sdma::COPY_LINEAR {
                    packet[2] |= 1 << 7;
                }
            });
        }),
    },
    Bug {
        what: "doorbells are rung with 32 bits",
        rule: "Q-DOORBELL-64",
        how: How::Bell(|bell| bell.page.store_u32(bell.at, bell.value as u32).unwrap()),
    },
    Bug {
        what: "the doorbell is rung before the write pointer is written",
        rule: "Q-DOORBELL-WPTR",
        how: How::Bell(|bell| bell.ring(bell.value + 64)),
    },
    Bug {
        what: "the write pointer wraps with the ring",
        rule: "Q-WPTR-MONOTONE",
        how: How::Bell(|bell| {
            bell.ring(bell.value);
            std::thread::sleep(std::time::Duration::from_millis(20));
            bell.ring((bell.value / 2) & !3);
        }),
    },
    Bug {
        what: "the doorbell of a compute queue is rung inside of a packet",
        rule: "PM4-CROSSES-WPTR",
        how: How::Bell(|bell| bell.ring(bell.value - if bell.sdma { 0 } else { 1 })),
    },
    Bug {
        what: "the doorbell of a copy queue counts dwords",
        rule: "SDMA-CROSSES-WPTR",
        how: How::Bell(|bell| {
            bell.ring(if bell.sdma {
                (bell.value / 4) & !3
            } else {
                bell.value
            })
        }),
    },
];

#[test]
fn every_bug_is_named() {
    stand::hurry();
    assert!(BUGS.len() >= 20);
    let image = stand::kernel("gfx1100", "sums", 2);
    missed(BUGS, "vram=2G,gtt=1G", |machine| {
        stand::try_work(machine, &image, stand::ROUNDS)
    });
}

/// Calls `edit` with each packet of an indirect buffer and its opcode.
fn each_ib(words: &mut [u32], edit: impl FnMut(u8, &mut [u32])) {
    each_pm4(words, false, edit);
}

/// Gives PRED_EXEC other XCCs where a packet of that kind comes next.
fn predicate(words: &mut [u32], next: u8, xccs: u32) {
    let mut before = None;
    let mut at = 0;
    while at < words.len() {
        let op = pm4::OPCODE.get(words[at]) as u8;
        if let (Some(place), true) = (before, op == next) {
            let word: &mut u32 = &mut words[place];
            *word = *word & 0xff_ffff | pm4::op::VIRTUAL_XCC_MASK.put(xccs);
        }
        before = (op == pm4::PRED_EXEC).then_some(at + 1);
        at += length(words[at]);
    }
}

const XCC_BUGS: &[Bug] = &[
    Bug {
        what: "XCCs do not meet",
        rule: "PM4-XCC-EARLY",
        how: How::Indirect(|words| {
            let mut counted = false;
            each_ib(words, |op, packet| {
                if op == pm4::ATOMIC_MEM || counted && op == pm4::WAIT_REG_MEM {
                    skip(packet);
                }
                counted = op == pm4::ATOMIC_MEM;
            });
        }),
    },
    Bug {
        what: "an XCC counts itself in, but does not wait for others",
        rule: "PM4-XCC-EARLY",
        how: How::Indirect(|words| {
            let mut counted = false;
            each_ib(words, |op, packet| {
                if counted && op == pm4::WAIT_REG_MEM {
                    skip(packet);
                }
                counted = op == pm4::ATOMIC_MEM;
            });
        }),
    },
    Bug {
        what: "nothing is written back before XCCs meet",
        rule: "CACHE-L2-NOT-WRITTEN-BACK",
        how: How::Indirect(|words| {
            each_ib(words, |op, packet| {
                if op == pm4::ACQUIRE_MEM {
                    packet[1] &= !pm4::acquire::TC_WB_ACTION_ENA.mask();
                }
            });
        }),
    },
    Bug {
        what: "an XCC keeps what its L2 holds",
        rule: "CACHE-L2-STALE",
        how: How::Indirect(|words| {
            each_ib(words, |op, packet| {
                if op == pm4::ACQUIRE_MEM {
                    packet[1] &= !pm4::acquire::TC_ACTION_ENA.mask();
                }
            });
        }),
    },
    Bug {
        what: "every XCC signals",
        rule: "PM4-XCC-SIGNAL",
        how: How::Indirect(|words| predicate(words, pm4::RELEASE_MEM, 3)),
    },
    Bug {
        what: "an XCC that is not there signals",
        rule: "PM4-PRED-MASK",
        how: How::Indirect(|words| predicate(words, pm4::RELEASE_MEM, 4)),
    },
    Bug {
        what: "two XCCs have one number",
        rule: "PM4-XCC-SHARE",
        how: How::Indirect(|words| {
            each_ib(words, |op, packet| {
                let register = regs::COMPUTE_CURRENT_LOGIC_XCC_ID - pm4::SH_REG_START;
                if op == pm4::SET_SH_REG && packet[1] == register {
                    packet[2] = 0;
                }
            });
        }),
    },
    Bug {
        what: "each XCC runs all workgroups",
        rule: "PM4-XCC-SHARE",
        how: How::Indirect(|words| {
            each_ib(words, |op, packet| {
                let register = regs::COMPUTE_TG_CHUNK_SIZE - pm4::SH_REG_START;
                if op == pm4::SET_SH_REG && packet[1] == register {
                    packet[2] = 0;
                }
            });
        }),
    },
    Bug {
        what: "a queue is made on an XCC that is not there",
        rule: "KFD-QUEUE-XCC",
        how: How::Ioctl(|r, p| queue(r, p, queue_type::COMPUTE, |q| q.queue_percentage |= 1 << 9)),
    },
    Bug {
        what: "the XCCs' packets stand in the ring itself",
        rule: "PM4-PRED-EXEC-RING",
        how: How::Words(|words, is_sdma| {
            each_pm4(words, is_sdma, |op, packet| {
                if op == pm4::INDIRECT_BUFFER {
                    skip(packet);
                    packet[0] = pm4::header(pm4::PRED_EXEC, 1);
                    packet[1] = pm4::op::VIRTUAL_XCC_MASK.put(1) | pm4::op::EXEC_COUNT.put(2);
                }
            });
        }),
    },
];

/// Schedules that a bug has to show itself in: what the order of two queues decides is not in each.
const SCHEDULES: u32 = 12;

fn missed(bugs: &[Bug], config: &str, work: impl Fn(&Arc<dyn Machine>) -> hcq::Result<bool>) {
    let mut missed = Vec::new();
    for bug in bugs {
        let Bug { what, rule, .. } = bug;
        let mut seen = Vec::new();
        let named = (1..=SCHEDULES).any(|seed| {
            let twin = stand::twin(&format!("{config},seed={seed}"));
            let mutant = Mutant::over(&twin, bug);
            let done = work(&mutant);
            drop(mutant);
            let broken = twin.machine().journal.violations();
            let rules: Vec<_> = broken.iter().map(|v| v.rule.name).collect();
            let named = rules.contains(rule);
            seen.push((rules, done));
            named
        });
        if !named {
            missed.push(format!("{what}: expected {rule}, seen {seen:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_bug_of_several_xccs_is_named() {
    stand::hurry();
    let image = stand::kernel("gfx942", "sums", 2);
    let config = "chip=gfx942,xcc=2,vram=2G,gtt=1G";
    missed(XCC_BUGS, config, |machine| {
        stand::try_chain(machine, &image)
    });
}

/// The layer alone breaks nothing.
#[test]
fn several_xccs_alone_break_nothing() {
    let image = stand::kernel("gfx942", "sums", 2);
    for config in ["xcc=2,seed=2", "xcc=4", "xcc=8"] {
        let twin = stand::twin(&format!("chip=gfx942,{config},vram=4G,gtt=2G"));
        let none = Bug {
            what: "nothing",
            rule: "",
            how: How::Indirect(|_| {}),
        };
        let mutant = Mutant::over(&twin, &none);
        assert!(stand::try_chain(&mutant, &image).unwrap());
        drop(mutant);
        let broken = twin.machine().journal.violations();
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
}

/// The layer alone breaks nothing.
#[test]
fn the_layer_alone_is_not_seen() {
    let image = stand::kernel("gfx1100", "sums", 2);
    let twin = stand::twin("vram=2G,gtt=1G");
    let none = Bug {
        what: "nothing",
        rule: "",
        how: How::Words(|_, _| {}),
    };
    let mutant = Mutant::over(&twin, &none);
    assert!(stand::try_work(&mutant, &image, stand::ROUNDS).unwrap());
    drop(mutant);
    let broken = twin.machine().journal.violations();
    let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
