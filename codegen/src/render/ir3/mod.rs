//! Machine code for Adreno 6xx: unrolls loops and selects instructions, which [`crate::ir3`] turns into code.
//!
//! | type | register |
//! |---|---|
//! | `Bool` | full, 0 or 1 |
//! | integers of 8, 16 and 32 bits | full, extended by their sign or by zeros |
//! | integers of 64 bits | two full ones |
//! | `F32` | full |
//! | `F16` | half |
//! | `BF16`, 8-bit floats | full: their bits, with zeros above |
//!
//! There is no `F64`. Denormal floats are zeros to the arithmetic units (Mesa `tu_device.cc`, float controls).
//!
//! Buffers that a kernel only reads, and often, are images where that pays (images.rs): the object then has the same
//! kernel without images as well, for arguments at addresses that no descriptor holds.
//!
//! Lanes of a vector are neighbouring registers, four at most: what is done to all of them is one instruction that
//! repeats. Constants lie behind the arguments in the constant file.

mod address;
mod arith;
mod atomic;
mod build;
mod cast;
mod control;
mod divide;
mod fibers;
mod float;
mod images;
mod integer;
mod load;
mod loops;
mod memory;
mod operand;
mod store;
mod uses;
mod wide;

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{Binary, Unary};
use crate::ir3::virt::{Code as Inst3, Function};
use crate::ir3::{Launch, Object as Kernel, compile};
use crate::lower::decomp::{Caps, TypeSet};
use crate::lower::{Acc, Arg, Inst, Interval, Intervals, Mem, Program, Reg, Ty};
use crate::machine::{Block, Class, Part, Value, dead};
use crate::render::{Code, Emitter, Object};
use crate::resources::Resources;
use crate::target::{Target, qcom};
use control::Open;
use images::Plan;
use operand::{List, Opnd};

/// Makes machine code for Adreno 6xx.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ir3Renderer;

impl Emitter for Ir3Renderer {
    fn name(&self) -> &'static str {
        "ir3"
    }

    fn caps(&self, t: &Target) -> Caps {
        const SINGLE: TypeSet = TypeSet::of(&[DType::F32]);
        const NUMBERS: TypeSet = TypeSet::BITS.and(SINGLE);
        const HALVES: TypeSet = NUMBERS.and(TypeSet::of(&[DType::F16]));
        let caps = Caps::NONE
            .with_unary(Unary::ALL, NUMBERS)
            .without_functions()
            .with_unary(&[Unary::Exp2], SINGLE)
            .with_unary(&[Unary::Neg, Unary::Abs], HALVES)
            .with_binary(Binary::ALL, NUMBERS)
            .with_binary(
                &[
                    Binary::Pow,
                    Binary::FloorDiv,
                    Binary::FloorMod,
                    Binary::TruncDiv,
                    Binary::Shl,
                    Binary::Shr,
                ],
                TypeSet::NONE,
            )
            .with_binary(&[Binary::TruncMod], SINGLE)
            .with_binary(
                &[
                    Binary::Add,
                    Binary::Sub,
                    Binary::Mul,
                    Binary::Max,
                    Binary::Min,
                    Binary::Lt,
                    Binary::Eq,
                    Binary::Ne,
                ],
                HALVES,
            )
            .with_casts(NUMBERS, NUMBERS)
            .with_half_casts();
        Caps {
            atomics: t.atomics,
            flushes: true,
            mad: SINGLE,
            ..caps
        }
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
        let kernel = best(p, t)?;
        let file = t.registers.map_or(0, |r| r.waves);
        // Arguments decide which of two versions runs: the worse numbers.
        let plain = kernel.without_images();
        let resources = Resources {
            vector: kernel.footprint.full.max(plain.footprint.full) * 4,
            scalar: 0,
            spilled: kernel.statistics.spilled.max(plain.statistics.spilled),
            local: kernel.local_bytes,
            private: kernel.private_bytes.max(plain.private_bytes),
            waves: kernel.waves.min(plain.waves),
            most_waves: file,
        };
        Ok(Code::Object(Object {
            bytes: kernel.encode().into(),
            listing: kernel.disassemble(),
            resources: Some(resources),
        }))
    }

    fn disassemble(&self, object: &[u8]) -> Result<String> {
        match Kernel::decode(object) {
            Ok(kernel) => Ok(kernel.disassemble()),
            Err(e) => Err(Error::Render {
                renderer: "ir3",
                kernel: String::new(),
                what: e.to_string(),
                target: qcom::ARCH.into(),
            }),
        }
    }
}

/// Waves of a shader processor in a launch.
fn waves(p: &Program, t: &Target, wave: u32) -> u64 {
    let groups = (p.groups.max(1) as u64).div_ceil(t.cores.max(1) as u64);
    groups * (p.items.max(1) as u64).div_ceil(u64::from(wave.max(1)))
}

/// Constants of 32 bits at most: 256 vectors (Mesa `ir3_compiler.c`, `max_const_compute`).
const CONSTANTS: usize = 1024;

/// What is known of a program before its instructions are selected.
struct Facts {
    /// What registers can be.
    ranges: Vec<Interval>,
    /// How often a register is read.
    uses: Vec<u32>,
    /// The instruction that defines a register.
    defs: Vec<Option<usize>>,
    /// Accesses to a block of memory from an index, whatever is added to that.
    shared: HashMap<(Mem, Reg), u32>,
}

/// A selection under way.
struct Select<'a> {
    p: &'a Program,
    t: &'a Target,
    facts: Facts,
    f: Function,
    /// The block that is written.
    at: usize,
    depth: u32,
    /// Operands of registers: the words of each lane.
    regs: Vec<Option<List>>,
    accs: HashMap<Acc, Vec<Part>>,
    /// Constants behind the arguments, by their bits.
    constants: HashMap<u32, u16>,
    file: Vec<u32>,
    /// Constants that loops have in registers.
    held: HashMap<(Class, u32), Part>,
    /// Registers that the wave shares, with the copies of them.
    copies: HashMap<crate::ir3::Reg, Part>,
    opened: Vec<Open>,
    /// Addresses that are there, and the order in which they were made.
    addresses: HashMap<address::Key, Part>,
    made: Vec<address::Key>,
    /// Addresses of buffers, made at the entry.
    bases: HashMap<u32, Value>,
    entry: Vec<Inst3>,
    item: Value,
    group: Option<Opnd>,
    /// Comparisons whose results are booleans, to be made again as predicates.
    compares: HashMap<Part, build::Compared>,
    /// Products that are only read by a sum, which takes them in.
    products: HashMap<Reg, [Reg; 2]>,
    joins: Vec<usize>,
    branches: u32,
    /// Loads of images.
    plan: Plan,
}

/// Compiles a program with its loops unrolled, or as it is where that has no room in registers; with images where these
/// gain something, and neither more is spilled for them nor fewer of its waves run at the same time.
fn best(p: &Program, t: &Target) -> Result<Kernel> {
    let unrolled = loops::unrolled(p);
    let (chosen, plain) = match select(&unrolled, t, Plan::default()) {
        Ok(kernel) if kernel.statistics.spilled == 0 => (&unrolled, kernel),
        _ => (p, select(p, t, Plan::default())?),
    };
    let plan = images::plan(chosen, t);
    if plan.images.is_empty() {
        return Ok(plain);
    }
    let chip = qcom::registers(t);
    let launched = waves(chosen, t, chip.wave);
    // A wave of twice as many fibers counts as two.
    let together = |kernel: &Kernel| {
        let fit = kernel.waves * if kernel.double { 2 } else { 1 };
        u64::from(fit).min(launched)
    };
    match select(chosen, t, plan) {
        Ok(kernel)
            if kernel.statistics.spilled <= plain.statistics.spilled
                && together(&kernel) >= together(&plain) =>
        {
            Ok(Kernel {
                plain: Some(Box::new(plain)),
                ..kernel
            })
        }
        Ok(_) => Ok(plain),
        Err(e) => {
            // Whatever else is wrong is a bug, which tests have to see.
            let full = matches!(&e, Error::Render { what, .. } if what.starts_with("no registers"));
            debug_assert!(full, "{e}");
            Ok(plain)
        }
    }
}

/// Compiles a program.
fn select(p: &Program, t: &Target, plan: Plan) -> Result<Kernel> {
    let mut f = Function::new();
    let item = f.value(crate::ir3::virt::FULL, 3);
    f.inputs.push((item, 0));
    f.blocks.push(Block::new(0));
    let mut s = Select {
        p,
        t,
        facts: Facts {
            ranges: Intervals::of_program(p),
            uses: uses::uses(p),
            defs: uses::defs(p),
            shared: uses::shared(p),
        },
        f,
        at: 0,
        depth: 0,
        regs: vec![None; p.regs.len()],
        accs: HashMap::new(),
        constants: HashMap::new(),
        file: Vec::new(),
        held: HashMap::new(),
        copies: HashMap::new(),
        opened: Vec::new(),
        addresses: HashMap::new(),
        made: Vec::new(),
        bases: HashMap::new(),
        entry: Vec::new(),
        item,
        group: None,
        compares: HashMap::new(),
        products: HashMap::new(),
        joins: Vec::new(),
        branches: 0,
        plan,
    };
    if !t.is_qcom() {
        return s.unsupported("machine code of Adreno 6xx");
    }
    s.begin()?;
    for inst in &p.insts {
        s.inst(inst)?;
    }
    s.end();
    let chip = qcom::registers(t);
    let launch = Launch {
        items: u32::try_from(p.items).unwrap_or(u32::MAX),
        waves: waves(p, t, chip.wave),
        local_bytes: u32::try_from(p.local_bytes()).unwrap_or(u32::MAX),
        constants: s.file,
        args: p.args.len() as u32,
        branches: s.branches,
        joins: s.joins,
        images: s.plan.images,
        file: chip,
    };
    let mut f = s.f;
    dead::remove(&mut f, |code| code.ends() || control::has_effects(code));
    compile(f, &launch).map_err(|e| Error::Render {
        renderer: "ir3",
        kernel: p.name.clone(),
        what: e.to_string(),
        target: t.cpu.clone(),
    })
}

impl Select<'_> {
    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::Render {
            renderer: "ir3",
            kernel: self.p.name.clone(),
            what: what.into(),
            target: self.t.cpu.clone(),
        })
    }

    fn ty(&self, reg: Reg) -> Ty {
        self.p.ty(reg)
    }

    fn range(&self, reg: Reg) -> Interval {
        self.facts.ranges[reg.0 as usize]
    }

    /// The words of a register that was defined.
    fn r(&mut self, reg: Reg) -> Result<List> {
        if let Some(list) = &self.regs[reg.0 as usize] {
            return Ok(list.clone());
        }
        // A product that a sum was to take in, and that something else reads.
        if let Some([a, b]) = self.products.remove(&reg) {
            let dtype = self.ty(reg).dtype;
            let (a, b) = (self.r(a)?, self.r(b)?);
            let list = self.float_binary(Binary::Mul, dtype, a, b)?;
            self.define(reg, list.clone());
            return Ok(list);
        }
        self.unsupported(format!("register {reg} before it is defined"))
    }

    fn define(&mut self, reg: Reg, list: List) {
        self.regs[reg.0 as usize] = Some(list);
    }

    /// Arguments and the number of the group.
    fn begin(&mut self) -> Result<()> {
        self.file = vec![0; self.p.args.len() * 2];
        if self.file.len() > CONSTANTS {
            return self.unsupported(format!("{} arguments", self.p.args.len()));
        }
        if self.p.args.iter().any(|a| matches!(a, Arg::Tensor(_))) {
            return self.unsupported("tensor descriptors");
        }
        for (i, acc) in self.p.accs.iter().enumerate() {
            let words = acc.lanes as usize * words(acc.dtype);
            let parts = self.lanes_of(class(acc.dtype), words);
            self.accs.insert(Acc(i as u32), parts);
        }
        let asks = |i: &Inst| matches!(i, Inst::Groups { .. } | Inst::Once);
        match self.p.insts.iter().any(asks) {
            true => self.group_number(),
            false => Ok(()),
        }
    }

    /// Ends the code. What is made at the entry is put there.
    fn end(&mut self) {
        self.emit(Inst3::new(
            crate::ir3::Op::End,
            crate::ir3::virt::Dst::None,
            Vec::new(),
        ));
        let entry = std::mem::take(&mut self.entry);
        if let Some(first) = self.f.blocks.first_mut() {
            first.insts.splice(0..0, entry);
        }
    }
}

/// Registers of a lane.
const fn words(dtype: DType) -> usize {
    if dtype.size() == 8 { 2 } else { 1 }
}

/// Where a type is.
const fn class(dtype: DType) -> Class {
    match dtype {
        DType::F16 => crate::ir3::virt::HALF,
        _ => crate::ir3::virt::FULL,
    }
}
