//! `doorbell regs`: registers of AMD's cards by the vendor's names.

use crate::{Front, Setup};
use drivers::regs::{self, Bits, Card, Change, Seen};
use drivers_host::machine::Host;
use drivers_host::pci::look;
use serde::Serialize;

use crate::program::error::Error;
use crate::program::output::{self, say};

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List registers of a chip, with addresses and fields
    List(List),
    /// Decode values, without a card
    Decode(Decode),
    /// Read registers of a card
    Read(Read),
    /// Write registers of a card
    Write(Write),
}

/// List registers.
#[derive(clap::Args)]
pub struct List {
    /// Only registers whose name contains this, ignoring case
    #[arg(default_value = "")]
    part: String,
    /// The chip
    #[arg(long, default_value = "gfx1100")]
    chip: String,
    /// Print JSON (schema doorbell.regs-list/1)
    #[arg(long)]
    json: bool,
}

/// Decode values.
#[derive(clap::Args)]
pub struct Decode {
    /// NAME=VALUE, the value decimal or with 0x
    #[arg(required = true, value_parser = assignment, value_name = "NAME=VALUE")]
    values: Vec<(String, u32)>,
    /// The chip
    #[arg(long, default_value = "gfx1100")]
    chip: String,
    /// Print JSON (schema doorbell.regs/1)
    #[arg(long)]
    json: bool,
}

/// Which card.
#[derive(clap::Args)]
struct Which {
    /// PCI address; default: the simulated card of --dev (TWINPCI+AMD::gfx1201)
    #[arg(long, value_parser = address, value_name = "ADDRESS")]
    at: Option<String>,
}

/// Read registers.
#[derive(clap::Args)]
pub struct Read {
    /// Register names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Print JSON (schema doorbell.regs/1)
    #[arg(long)]
    json: bool,
}

/// Write registers.
#[derive(clap::Args)]
pub struct Write {
    /// NAME=VALUE, or NAME.FIELD=VALUE to keep the other fields
    #[arg(required = true, value_parser = assignment, value_name = "NAME[.FIELD]=VALUE")]
    values: Vec<(String, u32)>,
    #[command(flatten)]
    which: Which,
    /// Confirm: a wrong value can hang the card and the machine
    #[arg(long)]
    yes: bool,
    /// Print JSON (schema doorbell.regs/1)
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<String, String> {
    look::address(text).ok_or_else(|| "expected an address such as 0000:03:00.0 or 03:00.0".into())
}

fn assignment(text: &str) -> Result<(String, u32), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let number = match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => value.parse(),
    };
    let number =
        number.map_err(|e| format!("{value}: {e}; expected a 32-bit number such as 7 or 0x7"))?;
    Ok((name.into(), number))
}

#[derive(Serialize)]
struct Field {
    name: &'static str,
    high: u8,
    low: u8,
    /// Where a value was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u32>,
}

impl Field {
    fn of(bits: Bits, value: Option<u32>) -> Field {
        let Bits { name, high, low } = bits;
        Field {
            name,
            high,
            low,
            value,
        }
    }
}

/// A register of a chip.
#[derive(Serialize)]
struct Listed {
    block: &'static str,
    name: &'static str,
    segment: u8,
    dword: u32,
    fields: Vec<Field>,
}

/// A register with its value.
#[derive(Serialize)]
struct Line {
    block: String,
    name: &'static str,
    address: Option<u64>,
    value: u32,
    fields: Vec<Field>,
}

impl Line {
    fn of(seen: &Seen) -> Line {
        let field = |(bits, value): &(Bits, u32)| Field::of(*bits, Some(*value));
        Line {
            block: seen.block.clone(),
            name: seen.name,
            address: seen.address,
            value: seen.value,
            fields: seen.fields.iter().map(field).collect(),
        }
    }
}

/// Without a card where none is named.
pub fn run(command: &Command, setup: &Setup) -> Result<(), Error> {
    match command {
        Command::List(args) => list(args),
        Command::Decode(args) => {
            let decode = |(name, value): &(String, u32)| regs::decode(&args.chip, name, *value);
            let seen: Result<Vec<_>, _> = args.values.iter().map(decode).collect();
            print(&seen.map_err(Error::Registers)?, args.json)
        }
        Command::Read(args) => read(args, setup),
        Command::Write(args) => write(args, setup),
    }
}

fn all(each: impl Iterator<Item = Result<Vec<Seen>, regs::RegsError>>) -> Result<Vec<Seen>, Error> {
    let all: Result<Vec<_>, _> = each.collect();
    Ok(all.map_err(Error::Registers)?.concat())
}

fn list(args: &List) -> Result<(), Error> {
    let found = regs::list(&args.chip, &args.part).map_err(Error::Registers)?;
    if found.is_empty() {
        say!(
            "note: no register of {} contains \"{}\" in its name; --chip selects another chip",
            args.chip,
            args.part
        );
    }
    let field = |bits: &Bits| Field::of(*bits, None);
    if args.json {
        let rows: Vec<_> = found
            .iter()
            .map(|one| Listed {
                block: one.block,
                name: one.name,
                segment: one.segment,
                dword: one.dword,
                fields: one.fields.iter().map(field).collect(),
            })
            .collect();
        return output::json("doorbell.regs-list/1", &rows);
    }
    for one in &found {
        let fields: Vec<_> = one
            .fields
            .iter()
            .map(|Bits { name, high, low }| match high == low {
                true => format!("{name} {low}"),
                false => format!("{name} {high}:{low}"),
            })
            .collect();
        output::line(format_args!(
            "{}.{} {}:{:#x}  {}",
            one.block,
            one.name,
            one.segment,
            one.dword,
            fields.join(", ")
        ))?;
    }
    Ok(())
}

/// Reads registers of a card.
pub fn read(args: &Read, setup: &Setup) -> Result<(), Error> {
    let card = args.which.open(setup)?;
    let read = args.names.iter().map(|name| card.read(name));
    print(&all(read)?, args.json)
}

/// Writes registers of a card.
pub fn write(args: &Write, setup: &Setup) -> Result<(), Error> {
    if !args.yes {
        return Err(Error::Usage(
            "regs write changes a live card: a wrong value can hang the card and the machine; pass \
             --yes to confirm"
                .into(),
        ));
    }
    let card = args.which.open(setup)?;
    let written = args
        .values
        .iter()
        .map(|(name, value)| match name.split_once('.') {
            Some((name, field)) => card.write(name, &Change::Field(field.into(), *value)),
            None => card.write(name, &Change::All(*value)),
        });
    print(&all(written)?, args.json)
}

fn print(seen: &[Seen], is_json: bool) -> Result<(), Error> {
    if is_json {
        let rows: Vec<_> = seen.iter().map(Line::of).collect();
        return output::json("doorbell.regs/1", &rows);
    }
    seen.iter().try_for_each(|one| match one.address {
        Some(address) => output::line(format_args!("{address:#010x} {}", one.text)),
        None => output::line(format_args!("{}", one.text)),
    })
}

impl Which {
    /// The card, which no kernel driver may have.
    fn open(&self, setup: &Setup) -> Result<Card, Error> {
        let front = setup.settings().front.as_ref();
        let before = |machine: drivers::Twin| match front {
            Some(front) => front.of(|| machine),
            None => machine,
        };
        let machine = match (&self.at, setup.twin()) {
            (None, Some(twin)) => before(twin.machine()),
            (Some(_), _) => before(Host::get()),
            (None, None) if front.is_some_and(Front::is_alone) => before(Host::get()),
            (None, None) => return Err(Error::Usage(NONE.into())),
        };
        let address = match &self.at {
            Some(address) => address.clone(),
            None => {
                let found = machine.pci_functions().map_err(Error::Transport)?;
                let first = found.into_iter().next();
                first.ok_or_else(|| Error::Usage(NONE.into()))?.address
            }
        };
        let pci = machine.open_pci(&address);
        let pci = pci.map_err(Error::Transport)?;
        Card::open(pci).map_err(Error::Registers)
    }
}

const NONE: &str = "no card selected; pass --at ADDRESS (see `doorbell devices`), or a simulated card: \
                    --dev TWINPCI+AMD::gfx1201";
