//! An 8051: what the bridge's firmware runs on.
//!
//! Source: Intel, MCS 51 Microcontroller Family User's Manual (1994), chapters 1 and 2; the bank of external memory in
//! special register 0x93 is the bridge's (tinygrad/asm2464pd-firmware, handmade/src/main.c, DPX).

/// What lies outside of the processor.
pub(super) trait Outside {
    /// Reads a byte of external memory of a bank.
    fn load(&mut self, at: u16, bank: u8) -> u8;
    /// Writes one.
    fn store(&mut self, at: u16, bank: u8, byte: u8);
    /// Whether interrupt 0 is asserted.
    fn asserted(&self) -> bool;
}

const ACC: u8 = 0xe0;
const B: u8 = 0xf0;
const PSW: u8 = 0xd0;
const SP: u8 = 0x81;
const DPL: u8 = 0x82;
const DPH: u8 = 0x83;
const BANK: u8 = 0x93;
const IE: u8 = 0xa8;

const CARRY: u8 = 0x80;
const HALF: u8 = 0x40;
const OVERFLOW: u8 = 4;
/// Interrupts as such, and interrupt 0.
const ENABLED: u8 = 0x81;

/// Where interrupt 0 goes.
const VECTOR: u16 = 3;

pub(super) struct Core {
    code: Vec<u8>,
    ram: [u8; 256],
    special: [u8; 128],
    pub(super) pc: u16,
    /// An interrupt is being served.
    inside: bool,
}

impl Core {
    /// With code from address 0 on, after a reset.
    pub(super) fn new(code: &[u8]) -> Core {
        let mut core = Core {
            code: code.to_vec(),
            ram: [0; 256],
            special: [0; 128],
            pc: 0,
            inside: false,
        };
        core.code.resize(0x1_0000, 0);
        core.set(SP, 7);
        core
    }

    /// Whether it is in no interrupt.
    pub(super) fn is_outside(&self) -> bool {
        !self.inside
    }

    fn fetch(&mut self) -> u8 {
        let byte = self.code[usize::from(self.pc)];
        self.pc = self.pc.wrapping_add(1);
        byte
    }

    fn fetch16(&mut self) -> u16 {
        let high = self.fetch();
        u16::from_be_bytes([high, self.fetch()])
    }

    /// A direct address.
    fn get(&self, at: u8) -> u8 {
        match at {
            PSW => {
                let psw = self.special[usize::from(PSW - 0x80)] & !1;
                psw | self.special[usize::from(ACC - 0x80)].count_ones() as u8 & 1
            }
            0x80.. => self.special[usize::from(at - 0x80)],
            _ => self.ram[usize::from(at)],
        }
    }

    fn set(&mut self, at: u8, byte: u8) {
        match at {
            0x80.. => self.special[usize::from(at - 0x80)] = byte,
            _ => self.ram[usize::from(at)] = byte,
        }
    }

    fn a(&self) -> u8 {
        self.get(ACC)
    }

    fn set_a(&mut self, byte: u8) {
        self.set(ACC, byte);
    }

    fn dptr(&self) -> u16 {
        u16::from_be_bytes([self.get(DPH), self.get(DPL)])
    }

    fn set_dptr(&mut self, at: u16) {
        let [high, low] = at.to_be_bytes();
        self.set(DPH, high);
        self.set(DPL, low);
    }

    /// The address of a register of the bank that is chosen.
    fn register(&self, n: u8) -> u8 {
        self.get(PSW) & 0x18 | n & 7
    }

    fn flag(&self, bit: u8) -> bool {
        self.get(PSW) & bit != 0
    }

    fn set_flag(&mut self, bit: u8, on: bool) {
        let psw = self.get(PSW) & !bit;
        self.set(PSW, if on { psw | bit } else { psw });
    }

    fn push(&mut self, byte: u8) {
        let sp = self.get(SP).wrapping_add(1);
        self.set(SP, sp);
        self.ram[usize::from(sp)] = byte;
    }

    fn pop(&mut self) -> u8 {
        let sp = self.get(SP);
        self.set(SP, sp.wrapping_sub(1));
        self.ram[usize::from(sp)]
    }

    fn call(&mut self, to: u16) {
        let [high, low] = self.pc.to_be_bytes();
        self.push(low);
        self.push(high);
        self.pc = to;
    }

    fn ret(&mut self) {
        let high = self.pop();
        self.pc = u16::from_be_bytes([high, self.pop()]);
    }

    fn jump(&mut self, when: bool) {
        let by = self.fetch() as i8;
        if when {
            self.pc = self.pc.wrapping_add_signed(by.into());
        }
    }

    /// Byte and mask of a bit address.
    fn bit(at: u8) -> (u8, u8) {
        let byte = if at < 0x80 { 0x20 + at / 8 } else { at & 0xf8 };
        (byte, 1 << (at & 7))
    }

    fn get_bit(&self, at: u8) -> bool {
        let (byte, mask) = Core::bit(at);
        self.get(byte) & mask != 0
    }

    fn set_bit(&mut self, at: u8, on: bool) {
        let (byte, mask) = Core::bit(at);
        let rest = self.get(byte) & !mask;
        self.set(byte, if on { rest | mask } else { rest });
    }

    /// The operand that the low nibble of an instruction names: 4 immediate, 5 direct, 6 and 7 indirect, then
    /// registers.
    fn operand(&mut self, op: u8) -> u8 {
        match op & 0xf {
            4 => self.fetch(),
            5 => {
                let at = self.fetch();
                self.get(at)
            }
            n @ (6 | 7) => self.ram[usize::from(self.get(self.register(n - 6)))],
            n => self.get(self.register(n)),
        }
    }

    fn put(&mut self, op: u8, byte: u8) {
        match op & 0xf {
            5 => {
                let at = self.fetch();
                self.set(at, byte);
            }
            n @ (6 | 7) => {
                let at = self.get(self.register(n - 6));
                self.ram[usize::from(at)] = byte;
            }
            n => self.set(self.register(n), byte),
        }
    }

    /// The same for one that is read, changed and written.
    fn change(&mut self, op: u8, by: impl FnOnce(u8) -> u8) -> u8 {
        let from = self.pc;
        let byte = by(self.operand(op));
        self.pc = from;
        self.put(op, byte);
        byte
    }

    fn add(&mut self, byte: u8, carry: bool) {
        let (a, c) = (u16::from(self.a()), u16::from(carry));
        let b = u16::from(byte);
        let sum = a + b + c;
        self.set_flag(CARRY, sum > 0xff);
        self.set_flag(HALF, (a & 0xf) + (b & 0xf) + c > 0xf);
        self.set_flag(OVERFLOW, (a ^ sum) & (b ^ sum) & 0x80 != 0);
        self.set_a(sum as u8);
    }

    fn subtract(&mut self, byte: u8) {
        let (a, b, c) = (self.a(), byte, u8::from(self.flag(CARRY)));
        let difference = a.wrapping_sub(b).wrapping_sub(c);
        self.set_flag(CARRY, u16::from(a) < u16::from(b) + u16::from(c));
        self.set_flag(HALF, a & 0xf < (b & 0xf) + c);
        self.set_flag(OVERFLOW, (a ^ b) & (a ^ difference) & 0x80 != 0);
        self.set_a(difference);
    }

    fn compare(&mut self, left: u8, right: u8) {
        self.set_flag(CARRY, left < right);
        self.jump(left != right);
    }

    /// One instruction, or the way into an interrupt.
    pub(super) fn step(&mut self, outside: &mut impl Outside) {
        if !self.inside && self.get(IE) & ENABLED == ENABLED && outside.asserted() {
            self.inside = true;
            self.call(VECTOR);
            return;
        }
        let op = self.fetch();
        match op {
            0x00 => {}
            // AJMP and ACALL: within 2 KiB.
            _ if op & 0x1f == 0x01 || op & 0x1f == 0x11 => {
                let low = self.fetch();
                let to = self.pc & 0xf800 | u16::from(op >> 5) << 8 | u16::from(low);
                if op & 0x10 == 0 {
                    self.pc = to;
                } else {
                    self.call(to);
                }
            }
            0x02 => self.pc = self.fetch16(),
            0x12 => {
                let to = self.fetch16();
                self.call(to);
            }
            0x22 => self.ret(),
            0x32 => {
                self.inside = false;
                self.ret();
            }
            0x73 => self.pc = self.dptr().wrapping_add(self.a().into()),
            0x80 => self.jump(true),
            // Jumps on bits, carry and the accumulator.
            0x10 | 0x20 | 0x30 => {
                let at = self.fetch();
                let on = self.get_bit(at);
                if op == 0x10 && on {
                    self.set_bit(at, false);
                }
                self.jump(on == (op != 0x30));
            }
            0x40 | 0x50 => self.jump(self.flag(CARRY) == (op == 0x40)),
            0x60 | 0x70 => self.jump((self.a() == 0) == (op == 0x60)),
            // Rotations.
            0x03 => self.set_a(self.a().rotate_right(1)),
            0x23 => self.set_a(self.a().rotate_left(1)),
            0x13 => {
                let (a, carry) = (self.a(), self.flag(CARRY));
                self.set_flag(CARRY, a & 1 != 0);
                self.set_a(a >> 1 | u8::from(carry) << 7);
            }
            0x33 => {
                let (a, carry) = (self.a(), self.flag(CARRY));
                self.set_flag(CARRY, a & 0x80 != 0);
                self.set_a(a << 1 | u8::from(carry));
            }
            // INC and DEC.
            0x04 => self.set_a(self.a().wrapping_add(1)),
            0x14 => self.set_a(self.a().wrapping_sub(1)),
            0x05..=0x0f => _ = self.change(op, |byte| byte.wrapping_add(1)),
            0x15..=0x1f => _ = self.change(op, |byte| byte.wrapping_sub(1)),
            0xa3 => self.set_dptr(self.dptr().wrapping_add(1)),
            // Sums and differences.
            0x24..=0x2f => {
                let byte = self.operand(op);
                self.add(byte, false);
            }
            0x34..=0x3f => {
                let byte = self.operand(op);
                self.add(byte, self.flag(CARRY));
            }
            0x94..=0x9f => {
                let byte = self.operand(op);
                self.subtract(byte);
            }
            // ORL, ANL, XRL: into memory, then into the accumulator.
            0x42 | 0x43 | 0x52 | 0x53 | 0x62 | 0x63 => {
                let at = self.fetch();
                let with = if op & 1 == 1 { self.fetch() } else { self.a() };
                let byte = Core::combine(op, self.get(at), with);
                self.set(at, byte);
            }
            0x44..=0x4f | 0x54..=0x5f | 0x64..=0x6f => {
                let byte = self.operand(op);
                self.set_a(Core::combine(op, self.a(), byte));
            }
            // Bits and the carry.
            0x72 | 0x82 | 0xa0 | 0xb0 | 0xa2 => {
                let at = self.fetch();
                let (bit, carry) = (self.get_bit(at), self.flag(CARRY));
                let now = match op {
                    0x72 => carry | bit,
                    0x82 => carry & bit,
                    0xa0 => carry | !bit,
                    0xb0 => carry & !bit,
                    _ => bit,
                };
                self.set_flag(CARRY, now);
            }
            0x92 | 0xb2 | 0xc2 | 0xd2 => {
                let at = self.fetch();
                let on = match op {
                    0x92 => self.flag(CARRY),
                    0xb2 => !self.get_bit(at),
                    _ => op == 0xd2,
                };
                self.set_bit(at, on);
            }
            0xb3 => self.set_flag(CARRY, !self.flag(CARRY)),
            0xc3 => self.set_flag(CARRY, false),
            0xd3 => self.set_flag(CARRY, true),
            // MOV.
            0x74 => {
                let byte = self.fetch();
                self.set_a(byte);
            }
            0x75 => {
                let at = self.fetch();
                let byte = self.fetch();
                self.set(at, byte);
            }
            0x76..=0x7f => {
                let byte = self.fetch();
                self.put(op, byte);
            }
            0x85 => {
                let from = self.fetch();
                let at = self.fetch();
                self.set(at, self.get(from));
            }
            0x86..=0x8f => {
                let byte = self.operand(op);
                let at = self.fetch();
                self.set(at, byte);
            }
            0x90 => {
                let at = self.fetch16();
                self.set_dptr(at);
            }
            0xa6..=0xaf => {
                let at = self.fetch();
                self.put(op, self.get(at));
            }
            0xe5..=0xef => {
                let byte = self.operand(op);
                self.set_a(byte);
            }
            0xf5..=0xff => self.put(op, self.a()),
            // Code and external memory.
            0x83 | 0x93 => {
                let from = if op == 0x83 { self.pc } else { self.dptr() };
                let at = from.wrapping_add(self.a().into());
                self.set_a(self.code[usize::from(at)]);
            }
            0xe0 | 0xe2 | 0xe3 => {
                let (at, bank) = (self.external(op), self.get(BANK));
                let byte = outside.load(at, bank);
                self.set_a(byte);
            }
            0xf0 | 0xf2 | 0xf3 => {
                let (at, bank) = (self.external(op), self.get(BANK));
                outside.store(at, bank, self.a());
            }
            // MUL and DIV.
            0xa4 => {
                let product = u16::from(self.a()) * u16::from(self.get(B));
                let [high, low] = product.to_be_bytes();
                self.set_a(low);
                self.set(B, high);
                self.set_flag(CARRY, false);
                self.set_flag(OVERFLOW, high != 0);
            }
            0x84 => {
                let (a, b) = (self.a(), self.get(B));
                self.set_flag(CARRY, false);
                self.set_flag(OVERFLOW, b == 0);
                if let Some(quotient) = a.checked_div(b) {
                    self.set_a(quotient);
                    self.set(B, a % b);
                }
            }
            0xd4 => self.adjust(),
            // Comparisons and counts.
            0xb4..=0xbf => {
                let (left, right) = match op {
                    0xb4 | 0xb5 => {
                        let right = self.operand(op);
                        (self.a(), right)
                    }
                    _ => {
                        let left = self.operand(op);
                        (left, self.fetch())
                    }
                };
                self.compare(left, right);
            }
            0xd5 | 0xd8..=0xdf => {
                let left = self.change(op, |byte| byte.wrapping_sub(1));
                self.jump(left != 0);
            }
            // The stack, exchanges.
            0xc0 => {
                let at = self.fetch();
                self.push(self.get(at));
            }
            0xd0 => {
                let at = self.fetch();
                let byte = self.pop();
                self.set(at, byte);
            }
            0xc4 => self.set_a(self.a().rotate_left(4)),
            0xc5..=0xcf => {
                let a = self.a();
                let mut old = 0;
                self.change(op, |byte| {
                    old = byte;
                    a
                });
                self.set_a(old);
            }
            0xd6 | 0xd7 => {
                let a = self.a();
                let mut old = 0;
                self.change(op, |byte| {
                    old = byte;
                    byte & 0xf0 | a & 0xf
                });
                self.set_a(a & 0xf0 | old & 0xf);
            }
            0xe4 => self.set_a(0),
            0xf4 => self.set_a(!self.a()),
            // 0xa5 is none.
            _ => panic!("instruction {op:#04x} at {:#06x}", self.pc.wrapping_sub(1)),
        }
    }

    fn combine(op: u8, left: u8, right: u8) -> u8 {
        match op >> 4 {
            4 => left | right,
            5 => left & right,
            _ => left ^ right,
        }
    }

    fn external(&self, op: u8) -> u16 {
        match op & 3 {
            0 => self.dptr(),
            n => u16::from_be_bytes([self.get(0xa0), self.get(self.register(n - 2))]),
        }
    }

    /// DA: decimal digits after a sum.
    fn adjust(&mut self) {
        let mut a = u16::from(self.a());
        if a & 0xf > 9 || self.flag(HALF) {
            a += 6;
        }
        if a > 0xff || self.flag(CARRY) || a >> 4 > 9 {
            a += 0x60;
        }
        self.set_flag(CARRY, a > 0xff || self.flag(CARRY));
        self.set_a(a as u8);
    }
}

/// Memory outside, and nothing else.
#[cfg(test)]
pub(super) mod tests {
    use super::*;

    struct Plain(Vec<u8>);

    impl Outside for Plain {
        fn load(&mut self, at: u16, _: u8) -> u8 {
            self.0[usize::from(at)]
        }
        fn store(&mut self, at: u16, _: u8, byte: u8) {
            self.0[usize::from(at)] = byte;
        }
        fn asserted(&self) -> bool {
            false
        }
    }

    /// Runs code until it jumps to itself; what is at 0x100 of external memory then.
    fn run(code: &[u8]) -> Vec<u8> {
        let mut core = Core::new(code);
        let mut outside = Plain(vec![0; 0x1_0000]);
        for _ in 0..10_000 {
            let at = core.pc;
            core.step(&mut outside);
            if core.pc == at {
                return outside.0[0x100..0x110].to_vec();
            }
        }
        panic!("no end");
    }

    #[test]
    fn sums_loops_calls_and_bits() {
        // 1 + 2 + .. + 10 = 55, twice by a call, with carries into a second byte; then bits, MUL, DIV, DA.
        let code = [
            0x75, 0x81, 0x30, // mov sp, #0x30
            0xe4, 0xf5, 0x40, // clr a; mov 0x40, a
            0x7f, 0x0a, // mov r7, #10
            0xe5, 0x40, 0x2f, 0xf5, 0x40, // mov a, 0x40; add a, r7; mov 0x40, a
            0xdf, 0xf9, // djnz r7, -7
            0x90, 0x01, 0x00, // mov dptr, #0x100
            0xe5, 0x40, 0xf0, 0xa3, // movx; inc dptr
            0x74, 0xc8, 0x24, 0x64, 0xf0, 0xa3, // 200 + 100: 44 and carry
            0xe4, 0x34, 0x00, 0xf0, 0xa3, // addc: 1
            0x74, 0x05, 0xc3, 0x94, 0x07, 0xf0, 0xa3, // 5 - 7 = 0xfe
            0xd2, 0x08, 0xe5, 0x21, 0xf0, 0xa3, // setb 8: bit 0 of 0x21
            0x74, 0x0c, 0x75, 0xf0, 0x19, 0xa4, 0xf0, 0xa3, // 12 * 25 = 0x12c
            0xe5, 0xf0, 0xf0, 0xa3, 0x74, 0x64, 0x75, 0xf0, 0x07, 0x84, 0xf0,
            0xa3, // 100 / 7 = 14
            0x74, 0x38, 0x24, 0x45, 0xd4, 0xf0, 0xa3, // 38 + 45 = 83, decimal
            0x12, 0x00, 0x60, 0xf0, // lcall 0x60
            0x80, 0xfe,
        ];
        let mut all = code.to_vec();
        all.resize(0x60, 0);
        // mov a, #0xf1; swap a; xrl a, #0xff; ret
        all.extend([0x74, 0xf1, 0xc4, 0x64, 0xff, 0x22]);
        let found = run(&all);
        assert_eq!(found[..10], [55, 44, 1, 0xfe, 1, 0x2c, 1, 14, 0x83, 0xe0]);
    }
}
