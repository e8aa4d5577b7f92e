//! Sums of products of bytes: one instruction where the processor has it, with the widest one of those that do
//! not saturate elsewhere.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VPDPBUSD and PMADDWD; Arm
//! Architecture Reference Manual for A-profile, USDOT (vector) and SDOT (vector).

use super::avx512::has;
use super::{Text, vector};

/// What computes the products of the bytes of so many words.
enum Way {
    /// On top of the sum: the name, the operands as bytes.
    Accumulating(&'static str),
    /// Both operands signed.
    Signed,
    /// Pairs of numbers of 16 bits, which hold a byte each: none of their sums wraps.
    Pairs(&'static str),
    /// Shifts and products.
    Plain,
}

impl Text<'_> {
    fn way(&self, lanes: u32) -> Way {
        let t = self.t;
        let on = |names: &[&str]| has(t, names);
        let short = on(&["avx512vnni", "avx512vl"]) || on(&["avxvnni"]);
        match (t.arch.as_str(), lanes) {
            ("x86_64", 16) if on(&["avx512vnni"]) => {
                Way::Accumulating("llvm.x86.avx512.vpdpbusd.512")
            }
            ("x86_64", 8) if short => Way::Accumulating("llvm.x86.avx512.vpdpbusd.256"),
            ("x86_64", 4) if short => Way::Accumulating("llvm.x86.avx512.vpdpbusd.128"),
            ("x86_64", 16) if on(&["avx512bw"]) => Way::Pairs("llvm.x86.avx512.pmaddw.d.512"),
            ("x86_64", 8) if on(&["avx2"]) => Way::Pairs("llvm.x86.avx2.pmadd.wd"),
            ("x86_64", 4) => Way::Pairs("llvm.x86.sse2.pmadd.wd"),
            ("aarch64", 4) if on(&["i8mm"]) => {
                Way::Accumulating("llvm.aarch64.neon.usdot.v4i32.v16i8")
            }
            ("aarch64", 4) if on(&["dotprod"]) => Way::Signed,
            _ => Way::Plain,
        }
    }

    /// `c` plus the products of the bytes of `a`, unsigned, and of `b`, signed.
    pub(super) fn dot(&mut self, lanes: u32, a: &str, b: &str, c: &str) -> String {
        let words = vector("i32", lanes);
        let cast = |this: &mut Self, from: &str, x: &str, to: &str| {
            this.let_(format!("bitcast {from} {x} to {to}"))
        };
        match self.way(lanes) {
            Way::Accumulating(name) => {
                let bytes = vector("i8", 4 * lanes);
                let a = cast(self, &words, a, &bytes);
                let b = cast(self, &words, b, &bytes);
                self.call(name, &words, &[(&words, c), (&bytes, &a), (&bytes, &b)])
            }
            Way::Signed => {
                let name = "llvm.aarch64.neon.sdot.v4i32.v16i8";
                let bytes = vector("i8", 4 * lanes);
                let top = self.splat_constant("i8", 4 * lanes, "-128");
                let half = self.splat_constant("i8", 4 * lanes, "64");
                let a = cast(self, &words, a, &bytes);
                let b = cast(self, &words, b, &bytes);
                // (a - 128) * b + 2 * 64 * b; the second part is the same for all operands `a`.
                let a = self.two("xor", &bytes, &a, &top);
                let args = [(bytes.as_str(), half.as_str()), (&bytes, &b)];
                let none = (words.as_str(), "zeroinitializer");
                let shift = self.call(name, &words, &[none, args[0], args[1]]);
                let shift = self.two("add", &words, &shift, &shift);
                let sum = self.call(name, &words, &[(&words, c), (&bytes, &a), (&bytes, &b)]);
                self.two("add", &words, &sum, &shift)
            }
            Way::Pairs(name) => {
                let pairs = vector("i16", 2 * lanes);
                let low = self.splat_constant("i16", 2 * lanes, "255");
                let eight = self.splat_constant("i16", 2 * lanes, "8");
                let a = cast(self, &words, a, &pairs);
                let b = cast(self, &words, b, &pairs);
                let even = self.two("and", &pairs, &a, &low);
                let odd = self.two("lshr", &pairs, &a, &eight);
                let up = self.two("shl", &pairs, &b, &eight);
                let others = [
                    (even, self.two("ashr", &pairs, &up, &eight)),
                    (odd, self.two("ashr", &pairs, &b, &eight)),
                ];
                let mut sum = c.to_string();
                for (a, b) in &others {
                    let part = self.call(name, &words, &[(&pairs, a), (&pairs, b)]);
                    sum = self.two("add", &words, &sum, &part);
                }
                sum
            }
            Way::Plain => {
                let low = self.splat_constant("i32", lanes, "255");
                let mut sum = c.to_string();
                for byte in 0..4 {
                    let constant = |n: u32| self.splat_constant("i32", lanes, &n.to_string());
                    let (down, up, top) =
                        (constant(8 * byte), constant(24 - 8 * byte), constant(24));
                    let x = self.two("lshr", &words, a, &down);
                    let x = self.two("and", &words, &x, &low);
                    let y = self.two("shl", &words, b, &up);
                    let y = self.two("ashr", &words, &y, &top);
                    let part = self.two("mul", &words, &x, &y);
                    sum = self.two("add", &words, &sum, &part);
                }
                sum
            }
        }
    }
}
