//! Bindless descriptors: where they are, what shader cores hold of them; and groups of the most fibers, whose shader uses one.

use drivers_spec::qcom::descriptor::{Format, Texture};
use drivers_spec::qcom::kgsl::memory::WRITECOMBINE;
use drivers_spec::qcom::packet::{LoadState, load_state6_0 as load, op};
use drivers_spec::qcom::regs::{self, sp_cs_cntl_0 as cntl0, sp_cs_wge_cntl as wge};
use twin::fires::fires;

use super::bench::Bench;
use super::rig::Memory;
use super::stream::{Piece, Stream};

/// Each fiber stores 7 at its number: `mov.u32u32 r0.w, 7`, `(rpt5)nop`,
/// `stib.b.untyped.1d.u32.1.imm.base1 r0.w, r0.x, 0`, `end`.
const STORE: [u64; 4] = [
    0x204c_c003_0000_0007,
    0x0000_0500_0000_0000,
    0xc026_0003_0067_4102,
    0x0300_0000_0000_0000,
];

/// SP_CS_BINDLESS_BASE and HLSQ_CS_BINDLESS_BASE of base 1, and its bit of SP_UPDATE_CNTL.
const BASES: [u32; 2] = [0xa9ea, 0xb9c2];
const CS_BINDLESS: u32 = 1 << 10;

/// Event CACHE_INVALIDATE.
const INVALIDATE: u32 = 0x31;

/// Fibers of a group of the recorded dispatch.
const FIBERS: u64 = 32;

/// A dispatch that stores to what a descriptor says.
struct Bound {
    bench: Bench,
    descriptors: Memory,
}

impl Bound {
    fn new() -> Bound {
        let bench = Bench::new("");
        for (i, word) in (0..).zip(STORE) {
            bench.code.put(i * 8, &[word as u32, (word >> 32) as u32]);
        }
        let descriptors = bench.rig.alloc(4096, WRITECOMBINE);
        Bound { bench, descriptors }
    }

    /// The descriptor of some memory.
    fn words(to: &Memory) -> [u32; 16] {
        let buffer = Texture::buffer(Format::R32Uint, 1024, to.gpu);
        buffer.encode().unwrap()
    }

    /// What the descriptor says from now on.
    fn bind(&self, to: &Memory) {
        self.descriptors.put(0, &Self::words(to));
    }

    fn dispatch(&self) -> Stream {
        let mut stream = self.bench.dispatch();
        for register in BASES {
            let [low, high] = halves(self.descriptors.gpu | 3);
            for piece in [(register, low), (register + 1, high)] {
                stream.0.insert(0, Piece::Register(piece.0, piece.1));
            }
        }
        stream
    }

    /// The numbers that a dispatch has stored.
    fn stored(&self, to: &Memory) -> u64 {
        (0..1024).filter(|i| to.word(i * 4) == 7).count() as u64
    }
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// SP_UPDATE_CNTL with bits of bindless bases.
fn forget(bases: u32) -> Stream {
    Stream::default().register(&regs::SP_UPDATE_CNTL, bases)
}

fn invalidate() -> Stream {
    Stream::default().command(op::EVENT_WRITE, &[INVALIDATE])
}

/// What a second dispatch breaks whose descriptor was written over, behind such packets; and how many numbers the first
/// memory and the second have in the end.
fn rebound(between: Stream) -> (Vec<&'static str>, [u64; 2]) {
    let bound = Bound::new();
    let to = [0, 1].map(|_| bound.bench.rig.alloc(4096, WRITECOMBINE));
    bound.bind(&to[0]);
    assert_eq!(bound.bench.run(&bound.dispatch()), [""; 0]);
    assert_eq!(bound.stored(&to[0]), FIBERS);
    bound.bind(&to[1]);
    let broken = bound.bench.run(&between.then(bound.dispatch()));
    (broken, to.map(|memory| bound.stored(&memory)))
}

#[test]
fn a_descriptor_that_is_written_over_is_held_until_its_base_is_invalidated() {
    let right = rebound(invalidate().then(forget(CS_BINDLESS)));
    assert_eq!(right, (vec![], [FIBERS; 2]));
    let (broken, stored) = rebound(invalidate());
    fires("CS-BINDLESS-READ").only(&broken);
    assert_eq!(stored, [FIBERS, 0]);
    // Another base.
    let (broken, _) = rebound(invalidate().then(forget(CS_BINDLESS << 1)));
    fires("CS-BINDLESS-READ").only(&broken);
    // The base is read anew, from an old line of UCHE.
    let (broken, stored) = rebound(forget(CS_BINDLESS));
    fires("GPU-UCHE-INVALIDATE").only(&broken);
    assert_eq!(stored, [FIBERS, 0]);
}

/// The command processor writes another descriptor, once all dispatches are done.
fn change(bound: &Bound, to: &Memory) -> Stream {
    let mut body = halves(bound.descriptors.gpu).to_vec();
    body.extend(Bound::words(to));
    Stream::default()
        .command(op::WAIT_FOR_IDLE, &[])
        .command(op::MEM_WRITE, &body)
        .command(op::WAIT_MEM_WRITES, &[])
        .then(invalidate())
}

#[test]
fn an_invalidation_is_for_what_comes_behind_it() {
    // The first dispatch runs no earlier than it has to: what is invalidated behind it is so behind it then, too.
    for is_right in [true, false] {
        let bound = Bound::new();
        let to = [0, 1].map(|_| bound.bench.rig.alloc(4096, WRITECOMBINE));
        bound.bind(&to[0]);
        let first = match is_right {
            true => bound.dispatch().then(forget(CS_BINDLESS)),
            false => forget(CS_BINDLESS).then(bound.dispatch()),
        };
        let stream = first.then(change(&bound, &to[1])).then(bound.dispatch());
        let broken = bound.bench.run(&stream);
        match is_right {
            true => assert_eq!(broken, [""; 0]),
            false => fires("CS-BINDLESS-READ").only(&broken),
        }
        let second = if is_right { FIBERS } else { 0 };
        let stored = to.map(|memory| bound.stored(&memory));
        assert_eq!(stored, [FIBERS, second]);
    }
}

/// CP_LOAD_STATE6 of the descriptor.
fn ahead(stream: Stream) -> Stream {
    let state = LoadState {
        offset: 0,
        kind: load::ST6_UAV,
        source: load::SS6_BINDLESS,
        block: load::SB6_CS_SHADER,
        units: 1,
    };
    stream.command(op::LOAD_STATE6_FRAG, &[state.encode(), 1 << 28, 0])
}

#[test]
fn a_descriptor_that_was_loaded_ahead_is_held() {
    for (between, is_right) in [(forget(CS_BINDLESS), true), (Stream::default(), false)] {
        let bound = Bound::new();
        let to = [0, 1].map(|_| bound.bench.rig.alloc(4096, WRITECOMBINE));
        bound.bind(&to[0]);
        let mut bases = bound.dispatch();
        bases.0.retain(|piece| {
            matches!(piece, Piece::Register(at, _) if BASES.iter().any(|base| at / 2 == base / 2))
        });
        assert_eq!(bound.bench.run(&ahead(bases)), [""; 0]);
        bound.bind(&to[1]);
        let stream = invalidate().then(between).then(bound.dispatch());
        let broken = bound.bench.run(&stream);
        match is_right {
            true => assert_eq!(broken, [""; 0]),
            false => fires("CS-BINDLESS-INVALIDATE").only(&broken),
        }
        assert_eq!(bound.stored(&to[usize::from(is_right)]), FIBERS);
    }
}

#[test]
fn groups_have_2048_fibers_in_waves_of_128() {
    let run = |threadsize: u32, vectors: u32| {
        let bound = Bound::new();
        let to = bound.bench.rig.alloc(4096, WRITECOMBINE);
        bound.bind(&to);
        let mut stream = bound.dispatch();
        let c0 = stream.value(&regs::SP_CS_CNTL_0) & !cntl0::FULLREGFOOTPRINT.mask();
        let c0 = c0 & !cntl0::HALFREGFOOTPRINT.mask();
        let c0 = c0 | cntl0::FULLREGFOOTPRINT.put(vectors) | cntl0::THREADSIZE.put(threadsize);
        stream.set(&regs::SP_CS_CNTL_0, c0);
        let other = stream.value(&regs::SP_CS_WGE_CNTL) | wge::THREADSIZE.put(threadsize);
        stream.set(&regs::SP_CS_WGE_CNTL, other);
        // 1024 by 2.
        stream.set(&regs::SP_CS_NDRANGE_0, 1 << 12 | 1023 << 2 | 3);
        stream.set(&regs::SP_CS_NDRANGE_1, 2048);
        stream.set(&regs::SP_CS_NDRANGE_3, 2);
        (bound.bench.run(&stream), bound.stored(&to))
    };
    assert_eq!(run(1, 6), (vec![], 1024));
    // Registers for 12 waves.
    let (broken, stored) = run(1, 7);
    fires("CS-GROUP-SIZE").only(&broken);
    assert_eq!(stored, 0);
    // 32 waves of 64.
    fires("CS-GROUP-SIZE").only(&run(0, 1).0);
}
