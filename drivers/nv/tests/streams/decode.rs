//! Words to operations with named fields, by the tables of `drivers_spec`.

use std::collections::BTreeMap;

use drivers_spec::nv::chip::{Arch, Method, method};
use drivers_spec::nv::push::header::*;
use drivers_spec::nv::push::subchannel::{COMPUTE, COPY};
use drivers_spec::nv::qmd::{self, Version};
use drivers_spec::nv::{compute, copy, host};

/// An operation: its name, and its fields that are not zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Named {
    pub name: String,
    pub fields: BTreeMap<String, u64>,
}

impl Named {
    fn put(&mut self, name: &str, value: u64) {
        if value != 0 {
            *self.fields.entry(name.into()).or_default() |= value;
        }
    }
}

/// How values are written.
pub struct Names;

impl Names {
    /// A value.
    pub fn text(&self, value: u64) -> String {
        format!("{value:#x}")
    }

    /// An operation on a line.
    pub fn line(&self, named: &Named) -> String {
        let fields = named.fields.iter();
        let fields = fields.map(|(name, value)| format!(" {name}={value:#x}"));
        format!("{}{}", named.name, fields.collect::<String>())
    }
}

/// Methods that only say what a later one does, by the name of the field there: half of an address or of a value.
const OPERANDS: &[(Method, &str, u32)] = &[
    (host::SEM_ADDR_LO, "at", 0),
    (host::SEM_ADDR_HI, "at", 32),
    (host::SEM_PAYLOAD_LO, "payload", 0),
    (host::SEM_PAYLOAD_HI, "payload", 32),
    (copy::OFFSET_IN_UPPER, "src", 32),
    (copy::OFFSET_IN_LOWER, "src", 0),
    (copy::OFFSET_OUT_UPPER, "dst", 32),
    (copy::OFFSET_OUT_LOWER, "dst", 0),
    (copy::LINE_LENGTH_IN, "length", 0),
    (copy::SET_SEMAPHORE_A, "at", 32),
    (copy::SET_SEMAPHORE_B, "at", 0),
    (copy::SET_SEMAPHORE_PAYLOAD, "payload", 0),
];

/// The operations of a push buffer. Where a grid's QMD lies is its number: who wrote it chose the address.
pub fn decode(arch: Arch, words: &[u32]) -> Vec<Named> {
    let mut rest = words;
    let mut found: Vec<Named> = Vec::new();
    let mut next = Named::default();
    let mut grids = 0;
    while let Some((&header, after)) = rest.split_first() {
        let (first, count) = (METHOD_ADDRESS.get(header), METHOD_COUNT.get(header));
        let (data, after) = match SEC_OP.get(header) {
            SEC_OP_IMMD_DATA_METHOD => (vec![count], after),
            SEC_OP_INC_METHOD => {
                let (data, after) = after.split_at(count as usize);
                (data.to_vec(), after)
            }
            op => panic!("{op}"),
        };
        for (i, value) in data.into_iter().enumerate() {
            let dword = first + i as u32;
            let table = match (dword < 0x40, METHOD_SUBCHANNEL.get(header)) {
                (true, _) => host::METHODS,
                (_, COMPUTE) => compute::METHODS,
                (_, COPY) => copy::METHODS,
                other => panic!("{other:?}"),
            };
            let method = method(table, arch, dword).unwrap();
            let word = method.register.word;
            let operand = OPERANDS.iter().find(|(one, ..)| one == method);
            if let Some((_, name, shift)) = operand {
                next.put(name, u64::from(value) << shift);
                continue;
            }
            next.name = word.name.into();
            match word.fields {
                [] if word.name == "SEND_PCAS_A" => {
                    grids += 1;
                    next.put("grid", grids);
                }
                [] => next.put("value", value.into()),
                fields => {
                    for field in fields.iter().filter(|field| field.on.has(arch)) {
                        next.put(field.name, field.get(value).into());
                    }
                    assert_eq!(value & !word.mask(arch), 0, "{}", word.name);
                }
            }
            found.push(std::mem::take(&mut next));
        }
        rest = after;
    }
    assert_eq!(next, Named::default());
    found
}

/// A QMD, without the address of the constant bank beside it.
pub fn decode_qmd(version: Version, words: &[u32]) -> Named {
    let mut named = Named {
        name: "QMD".into(),
        ..Named::default()
    };
    for found in qmd::decode(version, words) {
        if found.name.starts_with("CONSTANT_BUFFER_ADDR") && found.index == 0 {
            continue;
        }
        let field = qmd::FIELDS.iter().find(|field| field.name == found.name);
        let name = match field.unwrap().count(version) {
            1 => found.name.to_string(),
            _ => format!("{}[{}]", found.name, found.index),
        };
        named.put(&name, found.bits.into());
    }
    named
}
