//! What a cubin says of its kernels: read out of sections, symbols and attributes, and checked.

use std::collections::HashMap;
use std::ops::Range;

use object::LittleEndian;
use object::elf::SHT_NOBITS;
use object::read::elf::{ElfSymbol64, SectionHeader};
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolFlags, SymbolIndex};

use super::info::{self, Info, OfSymbol};
use super::{
    CubinError, CubinKernel, File, Image, LARGEST, Param, Result, SHARED_RESERVED, Section, bank0,
    by_name, constants, shared_is_reserved, shown,
};

/// `STO_CUDA_ENTRY` in the other bits of a symbol: it is a kernel.
const ENTRY: u8 = 0x10;
/// Barriers of a block at most.
///
/// Source: PTX ISA, `bar`, `barrier`: sixteen, numbered from 0.
const BARRIERS: u32 = 16;
/// The stack of a kernel that calls itself, of which the compiler knows no bound: what CUDA gives a thread that
/// did not ask for more.
///
/// Source: CUDA driver API, `cuCtxSetLimit`: CU_LIMIT_STACK_SIZE; the default is what `cuCtxGetLimit` returns.
const UNBOUNDED_STACK: u32 = 1024;

/// The kernels of a file, by name.
pub(super) fn kernels(placed: &Image, file: &File<'_>, sm: u32) -> Result<Vec<CubinKernel>> {
    let described = Described::of(placed, file, sm)?;
    let mut kernels = Vec::new();
    for (name, section) in &described.sections {
        if let Some(name) = name.strip_prefix(".nv.info.") {
            kernels.extend(described.kernel(name, Info::of(section.data()?)?)?);
        }
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(kernels)
}

fn wrong(kernel: &str, why: String) -> CubinError {
    CubinError::Kernel {
        kernel: shown(kernel),
        why,
    }
}

/// A number of bytes that can be loaded.
fn small(kernel: &str, what: &str, n: u64) -> Result<u32> {
    let fits = u32::try_from(n).ok().filter(|&n| u64::from(n) <= LARGEST);
    fits.ok_or_else(|| wrong(kernel, format!("{n:#x} bytes of {what}")))
}

/// Where the description of a kernel lies.
struct Described<'d, 'f> {
    sm: u32,
    placed: &'f Image,
    sections: HashMap<&'d str, Section<'d, 'f>>,
    symbols: HashMap<(SectionIndex, &'d str), ElfSymbol64<'d, 'f, LittleEndian>>,
    /// Attributes, by the number of their symbol.
    global: HashMap<u32, OfSymbol>,
    /// Constant banks and where they lie in the image, by the kernel that has them; "" for those of all.
    banks: HashMap<&'d str, Vec<(u8, Range<u64>)>>,
}

impl<'d, 'f> Described<'d, 'f> {
    fn of(placed: &'f Image, file: &'f File<'d>, sm: u32) -> Result<Self> {
        let sections = by_name(file)?;
        let global = match sections.get(".nv.info") {
            Some(section) => info::global(section.data()?)?,
            None => HashMap::new(),
        };
        let symbols = file
            .symbols()
            .filter_map(|s| Some(((s.section_index()?, s.name().ok()?), s)))
            .collect();
        let mut banks: HashMap<&str, Vec<(u8, Range<u64>)>> = HashMap::new();
        for (&name, section) in &sections {
            let at = placed.at.get(&section.index());
            if let (Some((bank, of)), Some(&at)) = (constants(name), at) {
                let place = at..at + section.size();
                banks.entry(of).or_default().push((bank, place));
            }
        }
        Ok(Described {
            sm,
            placed,
            sections,
            symbols,
            global,
            banks,
        })
    }

    /// The kernel of that name; `None` for a function that kernels call.
    fn kernel(&self, name: &str, own: Info) -> Result<Option<CubinKernel>> {
        let Some(code) = self.sections.get(&*format!(".text.{name}")) else {
            return Err(wrong(name, format!("no section .text.{name}")));
        };
        let Some(symbol) = self.symbols.get(&(code.index(), name)) else {
            return Err(wrong(name, "no symbol of that name in its code".into()));
        };
        let SymbolFlags::Elf { st_other, .. } = symbol.flags() else {
            return Ok(None);
        };
        if st_other.0 & ENTRY == 0 {
            return Ok(None);
        }
        let SymbolIndex(number) = symbol.index();
        let of_symbol = self.global.get(&(number as u32));
        let of_symbol = of_symbol.copied().unwrap_or_default();
        let Some(registers) = of_symbol.registers.filter(|n| (1..=255).contains(n)) else {
            let found = of_symbol.registers;
            let why = format!("registers (EIATTR_REGCOUNT): {found:?}, expected 1 to 255");
            return Err(wrong(name, why));
        };
        let shared_bytes = self.shared_bytes(name)?;
        let (param_base, param_bytes) = self.params_at(name, &own)?;
        let place = self.code(name, code, symbol.address())?;
        let barriers = barriers(name, code, &own)?;
        check_params(name, &own.params, param_bytes)?;
        let local_bytes = match of_symbol.stack {
            u32::MAX => UNBOUNDED_STACK,
            stack => small(name, "local memory", stack.into())?,
        };
        let constants = small(name, "constants", self.size(".nv.constant0.", name))?;
        Ok(Some(CubinKernel {
            name: name.to_owned(),
            entry: place.start,
            code_bytes: place.end - place.start,
            registers,
            barriers,
            shared_bytes,
            local_bytes,
            param_base,
            param_bytes,
            params: own.params,
            bank0_bytes: constants.max(param_base + param_bytes),
            banks: self.banks_of(name),
            max_threads: own.max_threads,
        }))
    }

    /// Bytes of a section of a kernel; 0 where it has none.
    fn size(&self, section: &str, kernel: &str) -> u64 {
        let section = self.sections.get(&*format!("{section}{kernel}"));
        section.map_or(0, |s| s.size())
    }

    /// Shared memory of a block, without what is the system's.
    fn shared_bytes(&self, kernel: &str) -> Result<u32> {
        let shared = small(kernel, "shared memory", self.size(".nv.shared.", kernel))?;
        Ok(match shared_is_reserved(self.sm) {
            true => shared.saturating_sub(SHARED_RESERVED),
            false => shared,
        })
    }

    /// Where parameters begin in constant bank 0, and their bytes.
    fn params_at(&self, kernel: &str, own: &Info) -> Result<(u32, u32)> {
        let sm = self.sm;
        let expected = bank0(sm).map_or(0, |layout| layout.params);
        let (base, bytes) = own.bank.unwrap_or((expected, own.param_bytes));
        if base != expected {
            let why = format!(
                "parameters at {base:#x} of constant bank 0, expected {expected:#x} for sm_{sm}"
            );
            return Err(wrong(kernel, why));
        }
        Ok((base, bytes))
    }

    /// Where in the image the code lies that begins at `begin` of its section.
    fn code(&self, kernel: &str, code: &Section<'_, '_>, begin: u64) -> Result<Range<u64>> {
        let Some(&start) = self.placed.at.get(&code.index()) else {
            return Err(wrong(kernel, "code not loaded".into()));
        };
        let end = code.size();
        let kind = code.elf_section_header().sh_type(LittleEndian);
        if begin >= end || kind == SHT_NOBITS {
            let why = format!("code starts at {begin:#x} of {end:#x} bytes");
            return Err(wrong(kernel, why));
        }
        Ok(start + begin..start + end)
    }

    /// Constant banks: those of all kernels, and its own.
    fn banks_of(&self, kernel: &str) -> Vec<(u8, Range<u64>)> {
        let lists = ["", kernel].into_iter();
        let lists = lists.filter_map(|of| self.banks.get(of));
        let mut banks: Vec<_> = lists.flatten().cloned().collect();
        banks.sort_by_key(|(bank, _)| *bank);
        banks
    }
}

/// Barriers of a block.
fn barriers(kernel: &str, code: &Section<'_, '_>, own: &Info) -> Result<u32> {
    // Where no attribute says so, it is in the flags of the section.
    let flags = code.elf_section_header().sh_flags(LittleEndian).0;
    let in_flags = (flags >> 20 & 0x7f) as u32;
    let barriers = own.barriers.unwrap_or(in_flags);
    if barriers > BARRIERS {
        let why = format!("{barriers} barriers, expected at most {BARRIERS}");
        return Err(wrong(kernel, why));
    }
    Ok(barriers)
}

/// Checks that parameters lie inside of so many bytes.
fn check_params(kernel: &str, params: &[Param], bytes: u32) -> Result<()> {
    let inside = |param: &Param| {
        let end = param.offset.checked_add(param.size);
        end.is_some_and(|end| end <= bytes)
    };
    let Some(at) = params.iter().position(|param| !inside(param)) else {
        return Ok(());
    };
    let Param { offset, size } = params[at];
    let why = format!("parameter {at} has {size} bytes at {offset}, of {bytes} in all");
    Err(wrong(kernel, why))
}
