//! Prints what is read of an HEVC stream: units with their syntax elements, pictures, and when each is output.
//!
//! usage: hevc_headers FILE.hevc

use std::fs::File;
use std::io::{BufWriter, Write};

use video::{Kind, Output, Parser, Picture, Pictures, Reference, Units};

type Failure = Box<dyn std::error::Error>;

fn main() -> std::process::ExitCode {
    let done = match std::env::args_os().nth(1) {
        Some(path) => print(&path),
        None => Err("expected a file: hevc_headers FILE.hevc".into()),
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hevc_headers: {why}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn print(path: &std::ffi::OsStr) -> Result<(), Failure> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut parser, mut pictures) = (Parser::new().logged(), Pictures::new());
    for unit in Units::new(file) {
        let unit = match unit {
            Ok(unit) => unit,
            Err(error) => {
                writeln!(out, "error {error}")?;
                continue;
            }
        };
        let (over, read) = parser.push(&unit);
        let Kind(kind) = unit.kind;
        let elements = parser.take_log();
        // A picture that is over comes before the unit that ends it.
        if let Some(picture) = over {
            show(&mut out, &mut pictures, &picture)?;
        }
        if let Err(error) = read {
            writeln!(out, "error {error}")?;
        }
        writeln!(out, "unit {kind} at {}", unit.at)?;
        for element in elements {
            writeln!(out, "  {} {}", element.name, element.value)?;
        }
    }
    if let Some(picture) = parser.finish() {
        show(&mut out, &mut pictures, &picture)?;
    }
    outputs(&mut out, &pictures.flush())?;
    out.flush()?;
    Ok(())
}

fn show(out: &mut impl Write, pictures: &mut Pictures, picture: &Picture) -> Result<(), Failure> {
    let begun = match pictures.begin(picture) {
        Ok(begun) => begun,
        Err(error) => return Ok(writeln!(out, "error {error}")?),
    };
    outputs(out, &begun.outputs)?;
    let Some(slot) = begun.slot else {
        return Ok(writeln!(
            out,
            "picture {} poc {} is left out",
            begun.number, begun.poc
        )?);
    };
    let (left, top, width, height) = picture.sps.shown();
    writeln!(
        out,
        "picture {} poc {} slot {slot}: {width}x{height} at {left},{top}, segments {}",
        begun.number,
        begun.poc,
        picture.segments.len()
    )?;
    let name = |reference: &Reference| match reference.slot {
        Some(slot) => format!("{}@{slot}", reference.poc),
        None => format!("{}@none", reference.poc),
    };
    for segment in &picture.segments {
        let lists = begun.lists(&segment.header);
        let [first, second] = lists.map(|list| list.iter().map(name).collect::<Vec<_>>().join(" "));
        writeln!(
            out,
            "  segment at block {} data {}: l0 [{first}] l1 [{second}]",
            segment.header.address, segment.header.data_at
        )?;
    }
    outputs(out, &pictures.end(picture))
}

fn outputs(out: &mut impl Write, all: &[Output]) -> Result<(), Failure> {
    for Output { slot, number, poc } in all {
        writeln!(out, "output {number} poc {poc} slot {slot}")?;
    }
    Ok(())
}
