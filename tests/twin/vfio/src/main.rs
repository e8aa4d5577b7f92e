//! `twin-vfio`: a modelled card for QEMU's device `vfio-user-pci`, which a guest's kernel takes for one of its own.
//!
//! It serves one virtual machine: it listens, is the card for as long as the machine runs, and then prints the rules that
//! were broken. The exit code is 1 if one was that no `--allow` names.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use hcq::transport::Pci;
use hcq::transport::tap::Tapped;
use hcq::transport::trace::{Trace, TraceLog};
use twin::pci::{Function as Model, HostMemory};
use twin::rule::Journal;
use twin_amd::pci as amd;
use twin_nv::pci as nv;
use twin_vfio::{Error, Function, report};

/// A modelled card behind a socket, for QEMU's device vfio-user-pci.
#[derive(Parser)]
struct Args {
    /// Where QEMU finds it
    socket: PathBuf,
    /// The chip
    #[arg(long, default_value = "gfx1100")]
    chip: String,
    /// MiB of memory that BAR 0 of an AMD card shows, a power of two; all of it, if not given
    #[arg(long, value_name = "MIB")]
    bar: Option<u64>,
    /// A file for every access of the guest: a line each, as drivers are replayed from
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// A rule that may be broken, of whose violations only those with a text, if one is given: it is shown, and is no failure
    #[arg(long, value_name = "RULE[=TEXT]")]
    allow: Vec<String>,
}

fn main() -> ExitCode {
    match serve(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("twin-vfio: {error}");
            ExitCode::from(2)
        }
    }
}

/// Where a card is.
const PLACE: &str = "0000:01:00.0";

/// A model of the chip that was asked for, and what lies in its expansion ROM.
fn model(args: &Args, journal: &Arc<Journal>) -> Result<(Model, Vec<u8>), Error> {
    let memory = HostMemory::new();
    let (made, rom) = if let Some(chip) = amd::chip::Chip::of(&args.chip) {
        let config = amd::card::Config {
            bar: args.bar.map(|mib| mib << 20),
            ..amd::card::Config::of(chip)
        };
        let made = amd::card::Card::function(PLACE, &config, &memory, journal);
        (made, amd::rom::image(chip))
    } else if let Some(chip) = nv::chip::Chip::of(&args.chip) {
        let config = nv::card::Config::of(chip);
        let made = nv::card::Card::function(PLACE, &config, &memory, journal);
        // A machine sees the ROM from its first image on; that of Hopper and later is not modelled.
        let rom = chip.rom.as_ref().map(|card| card.rom());
        let rom = rom.map_or_else(Vec::new, |rom| rom.bytes[rom.start..].to_vec());
        (made, rom)
    } else {
        let amd = amd::chip::CHIPS.iter().map(|chip| chip.name);
        let nv = nv::chip::CHIPS.iter().map(|chip| chip.name);
        let known: Vec<_> = amd.chain(nv).collect();
        let what = format!("{}: expected one of {}", args.chip, known.join(", "));
        return Err(Error::Usage(what));
    };
    let model = made.map_err(|errno| Error::Card(io::Error::from_raw_os_error(errno)))?;
    Ok((model, rom))
}

/// Whether no rule was broken but those that may be.
fn serve(args: &Args) -> Result<bool, Error> {
    let journal = Arc::new(Journal::new());
    let (model, rom) = model(args, &journal)?;
    let bus = model.bus().clone();
    let card: Arc<dyn Pci> = Arc::new(model);
    let card = match &args.trace {
        Some(path) => {
            let file = File::create(path).map_err(|source| Error::File {
                path: path.clone(),
                source,
            })?;
            Tapped::pci(card, Trace::new(TraceLog::writer(BufWriter::new(file))))
        }
        None => card,
    };
    let mut function = Function::new(card, &bus, rom);
    function.serve(&args.socket)?;
    Ok(report::print(&function, &journal, &args.allow))
}
