//! The instructions, one line each.
//!
//! A line is the number of the operation with the forms that it comes in, and a template, in the
//! language of `template.rs`.

mod control;
mod convert;
mod double;
mod float;
mod half;
mod integer;
mod matrix;
mod memory;
mod tensor;
mod uniform;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::Chip;
use crate::decode::Error;
use crate::template::{self, Condition, Template};
use crate::word::Bits;

/// A line of the table.
pub(crate) struct Row {
    /// Bits 0 to 11; without bits 9 to 11 if there are forms.
    opcode: u16,
    /// The values of bits 9 to 11, of arithmetic.
    forms: &'static [u8],
    /// Whether it works on registers of the warp.
    uniform: bool,
    /// Fields that tell it from others with the same number: bit, count, value.
    with: &'static [(u8, u8, u64)],
    /// The chips that have it, first and last.
    chips: (Chip, Chip),
    text: &'static str,
}

/// All chips.
const ALL: (Chip, Chip) = (Chip::Sm86, Chip::Sm120);
/// Those of Ampere and Ada.
const OLD: (Chip, Chip) = (Chip::Sm86, Chip::Sm89);
/// Hopper and Blackwell.
const NEW: (Chip, Chip) = (Chip::Sm90, Chip::Sm120);
/// Hopper.
const HOPPER: (Chip, Chip) = (Chip::Sm90, Chip::Sm90);
/// Blackwell.
const BLACKWELL: (Chip, Chip) = (Chip::Sm120, Chip::Sm120);
/// All but Blackwell.
const BEFORE: (Chip, Chip) = (Chip::Sm86, Chip::Sm90);

/// Sources in the second place may be something other than a register.
const SECOND: &[u8] = &[1, 4, 5, 6];
/// The same of operations that call the second place the third.
const LAST: &[u8] = &[1, 2, 3, 7];
/// Sources in the second or third place may be.
const BOTH: &[u8] = &[1, 2, 3, 4, 5, 6, 7];

/// Arithmetic, by its number and its forms.
const fn alu(opcode: u16, forms: &'static [u8], text: &'static str) -> Row {
    Row {
        opcode,
        forms,
        uniform: false,
        with: &[],
        chips: ALL,
        text,
    }
}

/// Arithmetic on registers of the warp.
const fn warp(opcode: u16, forms: &'static [u8], text: &'static str) -> Row {
    Row {
        opcode,
        forms,
        uniform: true,
        with: &[],
        chips: ALL,
        text,
    }
}

/// An instruction of one form.
const fn one(opcode: u16, text: &'static str) -> Row {
    Row {
        opcode,
        forms: &[],
        uniform: false,
        with: &[],
        chips: ALL,
        text,
    }
}

/// An instruction of one form that runs once per warp.
const fn once(opcode: u16, text: &'static str) -> Row {
    Row {
        opcode,
        forms: &[],
        uniform: true,
        with: &[],
        chips: ALL,
        text,
    }
}

/// A line only if a bit is set.
const fn with(row: Row, with: &'static [(u8, u8, u64)]) -> Row {
    Row { with, ..row }
}

/// A line that only some chips have.
const fn on(row: Row, chips: (Chip, Chip)) -> Row {
    Row { chips, ..row }
}

/// Bit 91, which uniform registers have set.
const UNIFORM: &[(u8, u8, u64)] = &[(91, 1, 1)];

/// A line in one of its forms.
pub(crate) struct Form {
    pub template: Template,
    pub conditions: Vec<Condition>,
    pub uniform: bool,
}

type Table = HashMap<u16, Vec<Form>>;

/// All lines that a chip has.
fn rows(chip: Chip) -> impl Iterator<Item = &'static Row> {
    let parts: [&[Row]; 10] = [
        control::ROWS,
        convert::ROWS,
        double::ROWS,
        float::ROWS,
        half::ROWS,
        integer::ROWS,
        matrix::ROWS,
        memory::ROWS,
        tensor::ROWS,
        uniform::ROWS,
    ];
    parts
        .into_iter()
        .flatten()
        .filter(move |row| row.chips.0 <= chip && chip <= row.chips.1)
}

fn condition(at: u8, len: u8, value: u64) -> Condition {
    Condition {
        bits: Bits::one(at, len),
        value,
        equal: true,
    }
}

fn build(chip: Chip) -> Result<Table, String> {
    let mut table = Table::new();
    for row in rows(chip) {
        let forms = if row.forms.is_empty() {
            &[0]
        } else {
            row.forms
        };
        for &form in forms {
            // Blackwell's arithmetic reads no constant memory.
            if chip >= Chip::Sm120 && matches!(form, 3 | 5) {
                continue;
            }
            let opcode = row.opcode | u16::from(form) << 9;
            for handle in [false, true] {
                if handle && !matches!(form, 3 | 5) {
                    continue;
                }
                let mut conditions: Vec<_> = row
                    .with
                    .iter()
                    .map(|&(at, len, value)| condition(at, len, value))
                    .collect();
                if (row.uniform && form != 0) || handle || matches!(form, 6 | 7) {
                    conditions.push(condition(91, 1, 1));
                } else if matches!(form, 3 | 5) {
                    conditions.push(condition(91, 1, 0));
                }
                let template = template::read(
                    row.text,
                    form.max(1),
                    // Where the third place has a register of its own, the second is the second.
                    row.forms == LAST && !row.text.contains("R64"),
                    row.uniform,
                    handle,
                )?;
                let form = Form {
                    template,
                    conditions,
                    uniform: row.uniform,
                };
                table.entry(opcode).or_default().push(form);
            }
        }
    }
    Ok(table)
}

/// What an operation's number can mean, the first that fits.
pub(crate) fn forms(chip: Chip, opcode: u16) -> Result<&'static [Form], Error> {
    static TABLES: [OnceLock<Result<Table, String>>; Chip::ALL.len()] =
        [const { OnceLock::new() }; Chip::ALL.len()];
    match TABLES[chip as usize].get_or_init(|| build(chip)) {
        Ok(table) => Ok(table.get(&opcode).map_or(&[], Vec::as_slice)),
        Err(error) => Err(Error::Table(error.clone())),
    }
}
