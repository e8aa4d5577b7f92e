//! The older variables: `AMD=1`, `AMD_IFACE=PCI`, `NV_PTX=1`, `HCQ_VISIBLE_DEVICES`, `MOCKGPU`, ...

use std::collections::BTreeMap;

use super::{
    DeviceKind, Interface, SelectError, Source, Target, Transport, parse_indices, parse_interface,
    parse_renderer,
};

/// The older variables for a compiler, with what they ask for.
const RENDERERS: [(&str, DeviceKind, &str); 14] = [
    ("AMD_HIP", DeviceKind::Amd, "HIP"),
    ("AMD_LLVM", DeviceKind::Amd, "LLVM"),
    ("CPU_CLANG", DeviceKind::Cpu, "CLANG"),
    ("CPU_CLANGJIT", DeviceKind::Cpu, "CLANG"),
    ("CPU_LLVM", DeviceKind::Cpu, "LLVM"),
    ("CUDA_PTX", DeviceKind::Cuda, "PTX"),
    ("NV_CUDA", DeviceKind::Nv, "CUDA"),
    ("NV_LLVM", DeviceKind::Nv, "LLVM"),
    ("NV_NAK", DeviceKind::Nv, "NAK"),
    ("NV_NVCC", DeviceKind::Nv, "CUDA"),
    ("NV_NVRTC", DeviceKind::Nv, "CUDA"),
    ("NV_PTX", DeviceKind::Nv, "PTX"),
    ("QCOM_CL", DeviceKind::Qcom, "CL"),
    ("QCOM_IR3", DeviceKind::Qcom, "IR3"),
];

/// Those that name one: `NV_CC=PTX`.
const NAMED: [(&str, DeviceKind); 4] = [
    ("AMD_CC", DeviceKind::Amd),
    ("CPU_CC", DeviceKind::Cpu),
    ("NV_CC", DeviceKind::Nv),
    ("QCOM_CC", DeviceKind::Qcom),
];

/// The older variables for a simulated device; `MOCKGPU` takes any device's first transport.
const TWINS: [(&str, DeviceKind, Option<Transport>); 5] = [
    ("MOCKGPU", DeviceKind::Amd, None),
    ("MOCKKFD", DeviceKind::Amd, Some(Transport::Kfd)),
    ("MOCKNVK", DeviceKind::Nv, Some(Transport::Nvk)),
    ("MOCKPCI", DeviceKind::Amd, Some(Transport::Pci)),
    ("MOCKUSB", DeviceKind::Amd, Some(Transport::Usb)),
];

/// The processor of a twin that was asked for by an old name, which has no place to say it.
const TWIN_ARCH: &str = "gfx1100";

/// What the older variables say.
#[derive(Default)]
pub(super) struct Legacy {
    /// `NAME=value` of every one that is set.
    pub(super) names: Vec<String>,
    /// `CPU=1` and the like.
    pub(super) devices: Vec<(DeviceKind, String)>,
    interfaces: Vec<(DeviceKind, Interface, String)>,
    renderers: Vec<(DeviceKind, &'static str, String)>,
    twin: Option<(DeviceKind, Option<Transport>, String)>,
    indices: Option<(Vec<u32>, String)>,
}

impl Legacy {
    pub(super) fn read(env: &BTreeMap<String, String>) -> Result<Legacy, SelectError> {
        let mut legacy = Legacy::default();
        let given = |name: &str| {
            let value = env.get(name).filter(|value| !value.is_empty())?;
            Some((format!("{name}={value}"), value.as_str()))
        };
        let on = |name: &str| match given(name) {
            None => Ok(None),
            Some((_, "0")) => Ok(None),
            Some((origin, "1")) => Ok(Some(origin)),
            Some((origin, value)) => Err(SelectError::Malformed {
                origin,
                expected: "0 or 1",
                found: value.to_string(),
                hint: "unset it if it belongs to another program, and use DEV",
            }),
        };
        for device in DeviceKind::ALL {
            if let Some(origin) = on(device.name())? {
                legacy.devices.push((device, origin));
            }
        }
        for (name, device) in [("AMD_IFACE", DeviceKind::Amd), ("NV_IFACE", DeviceKind::Nv)] {
            if let Some((origin, value)) = given(name) {
                let interface = parse_interface(&origin, device, value)?;
                legacy.interfaces.push((device, interface, origin));
            }
        }
        let mut renderers = Vec::new();
        for (name, device, renderer) in RENDERERS {
            renderers.extend(on(name)?.map(|origin| (device, renderer, origin)));
        }
        for (name, device) in NAMED {
            let Some((origin, value)) = given(name) else {
                continue;
            };
            let renderer = parse_renderer(&origin, device, value)?;
            renderers.push((device, renderer, origin));
        }
        for (device, renderer, origin) in renderers {
            let of_device =
                |(d, r, _): &&(DeviceKind, &str, String)| *d == device && *r != renderer;
            let other = legacy.renderers.iter().find(of_device);
            if let Some((_, _, first)) = other {
                let first = first.clone();
                return Err(SelectError::Conflict {
                    first,
                    second: origin,
                    what: "renderer",
                });
            }
            legacy.renderers.push((device, renderer, origin));
        }
        for (name, device, transport) in TWINS {
            let Some(origin) = on(name)? else { continue };
            if let Some((_, _, first)) = &legacy.twin {
                let first = first.clone();
                return Err(SelectError::Conflict {
                    first,
                    second: origin,
                    what: "twin",
                });
            }
            legacy.twin = Some((device, transport, origin));
        }
        if let Some((origin, value)) = given("HCQ_VISIBLE_DEVICES") {
            legacy.indices = Some((parse_indices(&origin, value)?, origin));
        }
        let devices = legacy.devices.iter().map(|d| &d.1);
        let interfaces = legacy.interfaces.iter().map(|i| &i.2);
        let renderers = legacy.renderers.iter().map(|r| &r.2);
        let twin = legacy.twin.iter().map(|t| &t.2);
        let indices = legacy.indices.iter().map(|i| &i.1);
        let all = devices
            .chain(interfaces)
            .chain(renderers)
            .chain(twin)
            .chain(indices);
        legacy.names = all.cloned().collect();
        Ok(legacy)
    }

    /// The device that is asked for: at most one, as it always was.
    pub(super) fn devices(&self) -> Result<Vec<DeviceKind>, SelectError> {
        match self.devices.as_slice() {
            [] => Ok(self.twin.iter().map(|(device, ..)| *device).collect()),
            [(device, _)] => Ok(vec![*device]),
            [(_, first), (_, second), ..] => Err(SelectError::Conflict {
                first: first.clone(),
                second: second.clone(),
                what: "device",
            }),
        }
    }

    /// The variables that chose these devices, for messages.
    pub(super) fn used(&self, devices: &[DeviceKind]) -> Vec<String> {
        let named = self
            .devices
            .iter()
            .filter(|(device, _)| devices.contains(device));
        let named: Vec<String> = named.map(|(_, origin)| origin.clone()).collect();
        if named.is_empty() {
            self.twin.iter().map(|t| t.2.clone()).collect()
        } else {
            named
        }
    }

    /// Fills in the unspecified parts of a target. On a conflict, the caller and the command line win, and `DEV` is
    /// an error.
    pub(super) fn refine(
        &self,
        target: &mut Target,
        source: Source,
        origin: &str,
        notes: &mut Vec<String>,
    ) -> Result<(), SelectError> {
        let mut clash = |weaker: &str, what: &'static str| {
            if matches!(source, Source::Api | Source::Cli) {
                notes.push(format!("{weaker} is ignored: {origin} takes precedence"));
                return Ok(());
            }
            let (first, second) = (origin.to_string(), weaker.to_string());
            Err(SelectError::Conflict {
                first,
                second,
                what,
            })
        };
        let device = target.device;
        let interface = self.interfaces.iter().find(|(d, ..)| *d == device);
        let mut wanted = interface.map(|(_, interface, origin)| (*interface, origin.clone()));
        let first = device.transports().first();
        if let (Some((_, transport, twin)), Some(&first)) = (&self.twin, first) {
            let named = wanted.as_ref().map(|(interface, _)| interface.transport);
            let transport = match (*transport, named) {
                (Some(t), Some(named)) if t != named => {
                    let first = wanted.map(|w| w.1).unwrap_or_default();
                    let second = twin.clone();
                    return Err(SelectError::Conflict {
                        first,
                        second,
                        what: "interface",
                    });
                }
                (Some(t), _) | (None, Some(t)) => t,
                (None, None) => target.interface.map_or(first, |i| i.transport),
            };
            if !device.transports().contains(&transport) {
                let (first, second) = (origin.to_string(), twin.clone());
                return Err(SelectError::Conflict {
                    first,
                    second,
                    what: "interface",
                });
            }
            wanted = Some((
                Interface {
                    transport,
                    twin: true,
                },
                twin.clone(),
            ));
            if device == DeviceKind::Amd && target.arch.is_none() {
                target.arch = Some(TWIN_ARCH.to_string());
            }
        }
        match (target.interface, wanted) {
            (Some(has), Some((wants, weaker))) if has != wants => clash(&weaker, "interface")?,
            (None, Some((wants, _))) => target.interface = Some(wants),
            _ => {}
        }
        if let Some((_, wants, weaker)) = self.renderers.iter().find(|(d, ..)| *d == device) {
            match target.renderer {
                Some(has) if has != *wants => clash(weaker, "renderer")?,
                _ => target.renderer = Some(wants),
            }
        }
        // The CPU is one device, of which nobody means the second.
        if let Some((wants, weaker)) = self.indices.as_ref().filter(|_| device != DeviceKind::Cpu) {
            match &target.indices {
                Some(has) if has != wants => clash(weaker, "device numbers")?,
                _ => target.indices = Some(wants.clone()),
            }
        }
        Ok(())
    }

    /// The targets that the new form of the old names has: those that were chosen with their help,
    /// or those that they would have chosen.
    pub(super) fn meant(
        &self,
        chosen: &[Target],
        source: Source,
    ) -> Result<Vec<Target>, SelectError> {
        let followed = !matches!(source, Source::Api | Source::Cli);
        if followed || self.devices.is_empty() {
            return Ok(chosen.to_vec());
        }
        let mut own: Vec<Target> = self.devices()?.into_iter().map(Target::any).collect();
        for target in &mut own {
            self.refine(target, Source::Legacy, "", &mut Vec::new())?;
        }
        Ok(own)
    }

    /// The value of `DEV` that says the same, for the note about old names.
    pub(super) fn modern(&self, targets: &[Target]) -> String {
        if !targets.is_empty() {
            let targets: Vec<String> = targets.iter().map(Target::to_string).collect();
            let value = targets.join(";");
            // A shell takes ';' for the end of the command.
            return if value.contains(';') {
                format!("DEV='{value}'")
            } else {
                format!("DEV={value}")
            };
        }
        // They narrow a device down that nobody chose.
        let interface = self
            .interfaces
            .first()
            .map(|(device, interface, _)| Target {
                interface: Some(*interface),
                ..Target::any(*device)
            });
        let renderer = self.renderers.first().map(|(device, renderer, _)| Target {
            renderer: Some(renderer),
            ..Target::any(*device)
        });
        let mut target = interface
            .or(renderer)
            .unwrap_or(Target::any(DeviceKind::Amd));
        target.indices = self.indices.as_ref().map(|(indices, _)| indices.clone());
        format!("for example DEV={target}: no device is selected")
    }
}
