//! What is kept of a program that has broken rules, or that was ended before it was done: a bundle, as for devices.

use drivers::env::Settings;
use drivers_bundle::schema::{self, Device, Hex, Kind, System, Undone};
use drivers_bundle::{Bundle, PROGRAM, coredump};
use twin::process::{Blocked, Standing};

use super::report::{Row, fails, rules};

/// How a program ended.
pub struct Ended<'a> {
    /// Rules that it has broken.
    pub rows: &'a [Row],
    /// How it was ended before it was done, if it was.
    pub early: Option<String>,
    /// What was not done.
    pub undone: Vec<Standing>,
    /// The program.
    pub program: &'a str,
    /// The config of its machine.
    pub config: &'a str,
}

/// Writes the bundle of a program, if something is to be kept: its file, or why there is none.
pub fn keep(ended: Ended) -> Option<Result<String, String>> {
    let Ended {
        rows,
        early,
        undone,
        program,
        config,
    } = ended;
    let (kind, error) = match (fails(rows), early) {
        (true, _) => (
            Kind::Rules,
            format!("{program} violated rules of the simulated card"),
        ),
        (false, Some(how)) => (Kind::Hang, format!("{program} {how}")),
        (false, None) => return None,
    };
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    // A variable that makes no sense is none of a program's that knows nothing of us.
    let settings = Settings::parse(env.iter().map(|(k, v)| (k, v))).ok()?;
    let folder = settings.bundles?;
    let bundle = Bundle {
        kind,
        error,
        device: Device {
            id: "program".into(),
            interface: PROGRAM.into(),
            place: format!("a simulated machine ({config})"),
            ..Device::default()
        },
        system: System {
            simulated: true,
            environment: settings.said,
            ..System::default()
        },
        // Rules that may be broken are no cause of a hang.
        rules: if kind == Kind::Rules {
            rules(rows)
        } else {
            Vec::new()
        },
        undone: undone.into_iter().map(told).collect(),
        ..Bundle::default()
    };
    let path = coredump::write(&folder, bundle);
    Some(path.map(|path| path.display().to_string()))
}

fn told(one: Standing) -> Undone {
    Undone {
        who: one.who,
        at: one.at,
        kept: match one.kept {
            Blocked::Memory { at, now, why } => schema::Blocked::Memory {
                va: Hex(at),
                now: Hex(now),
                why,
            },
            Blocked::Work(what) => schema::Blocked::Work { what },
            Blocked::Other(why) => schema::Blocked::Other { why },
        },
    }
}
