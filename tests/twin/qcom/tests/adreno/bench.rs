//! A dispatch that adds two arrays.

use drivers_spec::qcom::kgsl::memory::WRITECOMBINE;
use drivers_spec::qcom::packet::op;
use drivers_spec::qcom::regs;

use super::golden;
use super::rig::{Memory, Rig};
use super::stream::Stream;

/// Numbers of an array.
pub const COUNT: u64 = 256;

/// See the front page.
pub struct Bench {
    pub rig: Rig,
    pub code: Memory,
    pub args: Memory,
    pub stack: Memory,
    /// The sum, and what is added.
    pub arrays: [Memory; 3],
}

impl Bench {
    pub fn new(config: &str) -> Bench {
        Bench::with(config, WRITECOMBINE)
    }

    /// With arrays of a cache mode.
    pub fn with(config: &str, mode: u64) -> Bench {
        let rig = Rig::new(config);
        let code = rig.commands(&golden::program());
        let args = rig.alloc(4096, WRITECOMBINE);
        let stack = rig.alloc(4096, WRITECOMBINE);
        let arrays = [0; 3].map(|_| rig.alloc(4096, mode));
        let bench = Bench {
            rig,
            code,
            args,
            stack,
            arrays,
        };
        bench.arguments(&bench.args, bench.arrays.map(|array| array.gpu));
        for i in 0..COUNT {
            bench.arrays[1].put(i * 4, &[(i as f32).to_bits()]);
            bench.arrays[2].put(i * 4, &[1000_f32.to_bits()]);
        }
        bench
    }

    /// Arguments: where the sum goes, and what is added.
    pub fn arguments(&self, to: &Memory, arrays: [u64; 3]) {
        for (i, at) in (0..).zip(arrays) {
            to.put(i * 8, &[at as u32, (at >> 32) as u32]);
        }
    }

    /// The dispatch.
    pub fn dispatch(&self) -> Stream {
        self.dispatch_with(self.args.gpu)
    }

    /// The same with other arguments.
    pub fn dispatch_with(&self, args: u64) -> Stream {
        let mut stream = golden::exec();
        let pairs = [
            (regs::SP_CS_BASE, regs::SP_CS_BASE_HI, self.code.gpu),
            (
                regs::SP_CS_PVT_MEM_BASE,
                regs::SP_CS_PVT_MEM_BASE_HI,
                self.stack.gpu,
            ),
        ];
        for (low, high, at) in pairs {
            stream.set(&low, at as u32);
            stream.set(&high, (at >> 32) as u32);
        }
        let code = self.code.gpu;
        let mut loads = 0;
        stream.change(op::LOAD_STATE6_FRAG, |body| {
            let at = if loads == 0 { args } else { code };
            (body[1], body[2]) = (at as u32, (at >> 32) as u32);
            loads += 1;
        });
        // It writes to memory of the recorded client.
        stream.without(op::EVENT_WRITE);
        stream
    }

    /// Runs a stream; the rules that are broken so far.
    pub fn run(&self, stream: &Stream) -> Vec<&'static str> {
        self.rig.run(&stream.words());
        self.rig.broken()
    }

    /// A number of an array.
    pub fn number(&self, array: usize, i: u64) -> f32 {
        f32::from_bits(self.arrays[array].word(i * 4))
    }

    /// Whether the sum is right.
    pub fn is_right(&self) -> bool {
        (0..COUNT).all(|i| self.number(0, i) == self.number(1, i) + self.number(2, i))
    }
}

/// The rules that a dispatch breaks that is changed.
pub fn broken_by(config: &str, change: impl FnOnce(&mut Stream)) -> Vec<&'static str> {
    let bench = Bench::new(config);
    let mut stream = bench.dispatch();
    change(&mut stream);
    bench.run(&stream)
}

#[test]
fn a_dispatch_that_is_right_breaks_no_rule() {
    for config in ["", "seed=7", "version=5.15"] {
        let bench = Bench::new(config);
        assert_eq!(bench.run(&bench.dispatch()), [""; 0], "{config}");
        assert!(bench.is_right(), "{config}");
    }
}
