//! What instructions say to caches.

use std::sync::Mutex;

use super::*;
use crate::page::{Access, FaultKind, MemFault, Memory, Page};

/// Memory that only hears of caches.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<Port>>>);

impl Memory for Heard {
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault> {
        let kind = FaultKind::NotPresent;
        Err(MemFault {
            va,
            access,
            port,
            kind,
        })
    }

    fn invalidate(&self, port: Port, _system: bool) {
        self.0.lock().unwrap().push(Some(port));
    }

    fn write_back(&self, system: bool) {
        if !system {
            return;
        }
        self.0.lock().unwrap().push(None);
    }
}

#[test]
fn caches_hear_of_instructions() {
    use Gen::{Cdna3, Rdna2, Rdna3, Rdna4};
    let vector = Some(Port::Vector);
    let scalar = Some(Port::Scalar);
    let inst = Some(Port::Inst);
    type Case<'a> = (Gen, &'a [u32], &'a str, &'a [Option<Port>]);
    let cases: [Case; 17] = [
        (Rdna2, &[0xf480_0000, 0], "s_dcache_inv", &[scalar]),
        (Rdna3, &[0xf484_0000, 0], "s_dcache_inv", &[scalar]),
        (Rdna4, &[0xf404_2000, 0], "s_dcache_inv", &[scalar]),
        (Cdna3, &[0xc080_0000, 0], "s_dcache_inv", &[scalar]),
        (Rdna3, &[0xbfbc_0000], "s_icache_inv", &[inst]),
        (Cdna3, &[0xbf93_0000], "s_icache_inv", &[inst]),
        (Rdna2, &[0xe1c4_0000, 0], "buffer_gl0_inv", &[vector]),
        (Rdna3, &[0xe0ac_0000, 0], "buffer_gl0_inv", &[vector]),
        (Rdna3, &[0xe0b0_0000, 0], "buffer_gl1_inv", &[vector]),
        (Cdna3, &[0xe0a4_8000, 0], "buffer_inv sc1", &[vector]),
        (Cdna3, &[0xe0a4_4000, 0], "buffer_inv sc0", &[]),
        (Cdna3, &[0xe0a0_c000, 0], "buffer_wbl2 sc0 sc1", &[None]),
        (Cdna3, &[0xe0a0_8000, 0], "buffer_wbl2 sc1", &[]),
        (
            Rdna4,
            &[0xee0a_c07c, 0x8_0000, 0],
            "global_inv scope:SCOPE_DEV",
            &[vector],
        ),
        (
            Rdna4,
            &[0xee0a_c07c, 0x4_0000, 0],
            "global_inv scope:SCOPE_SE",
            &[],
        ),
        (
            Rdna4,
            &[0xee0b_007c, 0xc_0000, 0],
            "global_wb scope:SCOPE_SYS",
            &[None],
        ),
        (
            Rdna4,
            &[0xee13_c07c, 0xc_0000, 0],
            "global_wbinv scope:SCOPE_SYS",
            &[None, vector],
        ),
    ];
    for (generation, words, text, said) in cases {
        let (bench, heard) = (Bench::new(), Heard::default());
        let mut wave = bench.wave(generation, 1);
        wave.bus = Bus::new(&heard);
        let decoded = isa::decode(generation, words).unwrap();
        assert_eq!(decoded.inst.to_string(), text);
        let flow = (decoded.inst.lower(1).run)(&mut wave).unwrap();
        let fetches = said.contains(&inst);
        assert_eq!(flow, if fetches { Flow::Refetch } else { Flow::Next });
        assert_eq!(*heard.0.lock().unwrap(), said, "{text}");
    }
}
