//! Diagnostics of the path to a function after a failure: USB traffic, the link behind the bridge, and the errors
//! seen by each function on the path. Clears nothing.
//!
//! Source: PCI Local Bus Specification 3.0, 6.7 (capabilities); PCI Express Base Specification 5.0, 7.5.3.5 (device
//! status), 7.5.3.8 (link status).

use drivers_spec::asm24::{LTSSM, LTSSM_UP};
use drivers_spec::pci::{
    DeviceStatus, PCI_CAP_ID_EXP, PCI_CAPABILITY_LIST, PCI_EXP_DEVCTL, PCI_EXP_LNKCTL,
    PCI_EXP_LNKSTA_CLS, PCI_EXP_LNKSTA_NLW, PCI_VENDOR_ID,
};
use hcq::transport::TransportError;

use crate::bridge::Bridge;
use crate::tlp::{Place, Tlp};

/// Capabilities of a function at most: the space has room for no more.
const MOST: usize = 48;

/// All diagnostics, from the host to the function; up to the first that cannot be read, with the reason.
pub fn of(bridge: &Bridge, function: Place) -> Vec<[String; 2]> {
    let traffic = bridge.traffic();
    let mut all = vec![[
        "USB".to_owned(),
        format!(
            "{} transfers, {} bytes to the bridge, {} bytes from it",
            traffic.transfers, traffic.sent, traffic.received
        ),
    ]];
    if let Some(error) = traffic.broken {
        // Nothing is asked of it any more.
        all.push(["USB, first failure".into(), error.to_string()]);
        return all;
    }
    if let Err(error) = beyond(bridge, function, &mut all) {
        all.push(["behind the bridge".into(), error.to_string()]);
    }
    all
}

fn beyond(
    bridge: &Bridge,
    function: Place,
    all: &mut Vec<[String; 2]>,
) -> Result<(), TransportError> {
    let mut state = [0];
    bridge.read_xdata(LTSSM, &mut state)?;
    let is_up = match state[0] {
        LTSSM_UP => "up",
        _ => "not up",
    };
    let told = format!("state {:#04x} (LTSSM): {is_up}", state[0]);
    all.push(["PCIe link".into(), told]);
    for bus in 0..=function.bus {
        let place = Place { bus, ..function };
        let read = |at: u16| bridge.ask(&Tlp::config_read(place, at, 4));
        let id = read(PCI_VENDOR_ID)?;
        let name = format!("bus {bus}, {:04x}:{:04x}", id & 0xffff, id >> 16);
        all.push([name, express(read)?]);
    }
    Ok(())
}

/// The link of a function upwards, and the errors that it has seen.
fn express(read: impl Fn(u16) -> Result<u32, TransportError>) -> Result<String, TransportError> {
    let mut at = read(PCI_CAPABILITY_LIST)? as u16 & 0xfc;
    for _ in 0..MOST {
        if at == 0 {
            break;
        }
        let header = read(at)?;
        if header as u8 == PCI_CAP_ID_EXP {
            let status = |at| Ok::<_, TransportError>((read(at)? >> 16) as u16);
            let (device, link) = (status(at + PCI_EXP_DEVCTL)?, status(at + PCI_EXP_LNKCTL)?);
            return Ok(told(DeviceStatus::from_bits_truncate(device), link));
        }
        at = (header >> 8) as u16 & 0xfc;
    }
    Ok("link state unknown: no PCI Express capability".into())
}

fn told(errors: DeviceStatus, link: u16) -> String {
    let speed = match link & PCI_EXP_LNKSTA_CLS {
        1 => "2.5 GT/s".into(),
        2 => "5 GT/s".into(),
        n @ 3..=6 => format!("{} GT/s", 1 << n),
        other => format!("speed {other}"),
    };
    let lanes = (link & PCI_EXP_LNKSTA_NLW) >> PCI_EXP_LNKSTA_NLW.trailing_zeros();
    let seen = [
        (DeviceStatus::CORRECTABLE, "correctable errors"),
        (DeviceStatus::NONFATAL, "non-fatal errors"),
        (DeviceStatus::FATAL, "fatal errors"),
        (DeviceStatus::UNSUPPORTED_REQUEST, "unsupported requests"),
    ];
    let seen: Vec<_> = seen
        .iter()
        .filter(|(bit, _)| errors.contains(*bit))
        .map(|(_, name)| *name)
        .collect();
    match seen.is_empty() {
        true => format!("{speed} x{lanes}, no errors seen"),
        false => format!("{speed} x{lanes}, has seen {}", seen.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_told_in_words() {
        let none = DeviceStatus::empty();
        assert_eq!(told(none, 0x1043), "8 GT/s x4, no errors seen");
        assert_eq!(told(none, 0x0012), "5 GT/s x1, no errors seen");
        let some = DeviceStatus::CORRECTABLE | DeviceStatus::FATAL;
        assert_eq!(
            told(some, 0x0104),
            "16 GT/s x16, has seen correctable errors, fatal errors"
        );
    }

    #[test]
    fn a_list_of_capabilities_that_goes_round_ends() {
        let round = express(|at| {
            Ok(if at == PCI_CAPABILITY_LIST {
                0x40
            } else {
                0x4005
            })
        });
        assert!(round.unwrap().contains("no PCI Express capability"));
    }
}
