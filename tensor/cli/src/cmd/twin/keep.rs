//! What is kept of a program that has broken rules: a bundle, as for devices.

use drivers::env::Settings;
use drivers_bundle::schema::{Device, Kind, System};
use drivers_bundle::{Bundle, keeper};

use super::report::{Row, rules};

/// Writes the bundle of what a program has broken on a machine of a config, if something is to be kept: its file, or
/// why there is none.
pub fn keep(rows: &[Row], program: &str, config: &str) -> Option<Result<String, String>> {
    let env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    // A variable that makes no sense is none of a program's that knows nothing of us.
    let settings = Settings::parse(env.iter().map(|(k, v)| (k, v))).ok()?;
    let folder = settings.bundles?;
    let bundle = Bundle {
        kind: Kind::Rules,
        error: format!("{program} has broken rules of the simulated card"),
        device: Device {
            id: "program".into(),
            interface: "TWIN".into(),
            place: format!("a simulated machine ({config})"),
            ..Device::default()
        },
        system: System {
            simulated: true,
            environment: settings.said,
            ..System::default()
        },
        rules: rules(rows),
        ..Bundle::default()
    };
    let path = keeper::write(&folder, bundle);
    Some(path.map(|path| path.display().to_string()))
}
