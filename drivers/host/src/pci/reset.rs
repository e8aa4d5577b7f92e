//! Resetting a function through the kernel: the method, the writes, and restoring the method.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-bus-pci, `reset_method` and `reset`.

use hcq::transport::ResetKind;

use super::claim::{ClaimError, Step, Write, exists};
use super::files::{Files, folder};
use super::journal;
use super::look::driver;

/// What a reset writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The write that selects the method; `None` if it is the kernel's default.
    pub way: Option<Step>,
    /// The reset itself, which nothing undoes.
    pub reset: Write,
}

/// The kernel's word for a kind of reset.
const fn word(kind: ResetKind) -> &'static str {
    match kind {
        ResetKind::Function => "flr",
        ResetKind::Bus => "bus",
        ResetKind::Power => "pm",
    }
}

/// The writes to reset a function, by the kernel's preferred method if none is given. Writes nothing.
///
/// # Errors
/// [`ClaimError::Missing`], [`ClaimError::Unread`]; [`ClaimError::Reset`] where it has no such reset, or a driver of
/// the kernel has it.
pub fn plan(files: &dyn Files, address: &str, kind: Option<ResetKind>) -> Result<Plan, ClaimError> {
    exists(files, address)?;
    let folder = folder(address);
    let refused = |why: String| {
        let address = address.into();
        Err(ClaimError::Reset { address, why })
    };
    match driver(files, address).as_deref() {
        None | Some("vfio-pci") => {}
        Some(driver) => {
            return refused(format!(
                "bound to the kernel driver {driver}; unbind it first (`doorbell bind {address}`)"
            ));
        }
    }
    let path = format!("{folder}/reset_method");
    let Ok(ways) = files.read(&path) else {
        return refused(format!(
            "{path} not found: the kernel has no reset method for it. Power-cycle the machine"
        ));
    };
    let ways = ways.trim();
    let mut each = ways.split_whitespace();
    let wanted = kind.map(word);
    let way = match (wanted, each.next()) {
        (_, None) => return refused(format!("{path} is empty: all reset methods are disabled")),
        (None, Some(_)) => None,
        (Some(wanted), Some(first)) if wanted == first => None,
        (Some(wanted), _) if each.any(|one| one == wanted) => Some(Step {
            write: Write {
                path: path.clone(),
                value: wanted.into(),
            },
            why: format!("the kernel uses the first of: {ways}"),
            undo: Write {
                path,
                value: ways.into(),
            },
            may_fail: false,
        }),
        _ => return refused(format!("available reset methods: {ways}")),
    };
    let reset = Write {
        path: format!("{folder}/reset"),
        value: "1".into(),
    };
    Ok(Plan { way, reset })
}

/// Resets as planned. The method is restored, also on failure.
///
/// # Errors
/// [`ClaimError`].
pub fn apply(files: &dyn Files, address: &str, plan: &Plan) -> Result<(), ClaimError> {
    let mark = journal::marked(files, address, plan.way.as_slice(), &|| false)?;
    let Write { path, value } = &plan.reset;
    let done = files.tell(path, value);
    let back = journal::undo(files, address, mark);
    done.map_err(|source| ClaimError::NotReset {
        address: address.into(),
        write: plan.reset.clone(),
        source,
    })?;
    back.map(drop)
}
