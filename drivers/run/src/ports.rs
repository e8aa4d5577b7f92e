//! Inputs, outputs and states by their names.

use crate::error::{Error, Result};
use crate::plan::Port;

/// The number of the port with a name, and the port.
///
/// # Errors
/// [`Error::Port`]: none has it; which there are.
pub(crate) fn named<'p>(
    ports: impl Iterator<Item = &'p Port> + Clone,
    what: &'static str,
    name: &str,
) -> Result<(usize, &'p Port)> {
    let mut numbered = ports.clone().enumerate();
    numbered.find(|(_, port)| port.name == name).ok_or_else(|| {
        let names: Vec<&str> = ports.map(|port| port.name.as_str()).collect();
        Error::Port {
            what,
            name: name.into(),
            expected: match names.is_empty() {
                true => format!("no {what}: the model has none"),
                false => format!("one of {}", names.join(", ")),
            },
            found: "another name".into(),
        }
    })
}

/// The number of the port with a name, for a value of so many bytes.
///
/// # Errors
/// As [`named`]; a port of another size.
pub(crate) fn sized<'p>(
    ports: impl Iterator<Item = &'p Port> + Clone,
    what: &'static str,
    name: &str,
    bytes: usize,
) -> Result<usize> {
    let (n, port) = named(ports, what, name)?;
    match port.bytes() == Some(bytes as u64) {
        true => Ok(n),
        false => Err(other_size(what, port, format!("{bytes} bytes"))),
    }
}

/// A value of another size than that of a port.
pub(crate) fn other_size(what: &'static str, port: &Port, found: String) -> Error {
    Error::Port {
        what,
        name: port.name.clone(),
        expected: match port.bytes() {
            Some(bytes) => format!("{bytes} bytes, {port}"),
            None => port.to_string(),
        },
        found,
    }
}
