//! Bundles of devices, in a folder of the test's own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drivers_bundle::schema::Kind;
use drivers_bundle::{Bundle, CoredumpWriter, Explanation, explain};
use hcq::transport::Machine;
use hcq::{Deadline, Error};

/// A wait of this length is a hang.
const PATIENCE: Duration = Duration::from_millis(100);

/// Where bundles of a device go.
pub fn coredumps(machine: &Arc<dyn Machine>, folder: &Path) -> Option<Arc<CoredumpWriter>> {
    let said = vec![["DEV".to_owned(), "TWIN".to_owned()]];
    let coredumps = CoredumpWriter::new(folder.into(), PATIENCE, said, machine.clone(), true);
    Some(Arc::new(coredumps))
}

/// As long as a hang; for waves that are seen to go on, not much longer.
pub fn hang() -> Deadline {
    Deadline::after(PATIENCE).within(PATIENCE * 3)
}

/// The bundle that an error names, and what it says.
pub fn told(error: &Error) -> (Bundle, Explanation) {
    let text = error.to_string();
    let (_, rest) = text
        .split_once("[doorbell explain ")
        .unwrap_or_else(|| panic!("no bundle: {text}"));
    let (path, _) = rest.split_once(']').unwrap();
    let bundle = Bundle::read(Path::new(path)).unwrap();
    // What was told before is what the bundle is of.
    let first = bundle.error.split(" [").next().unwrap();
    assert!(!first.is_empty());
    assert_eq!(
        bundle.kind == Kind::Hang,
        matches!(error, Error::Timeout { .. }),
        "{text}"
    );
    let explanation = explain(&bundle);
    assert!(!explanation.next.is_empty(), "{explanation}");
    (bundle, explanation)
}
