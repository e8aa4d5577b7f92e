//! What a machine shows of its buses, as lines of a trace: fields with tabs between, `-` for what is not there.

use super::Fault;
use super::found::{Bar, PciFunction, UsbDevice};

/// The text of a field that may not be there.
fn or_none<T: ToString>(field: Option<T>) -> String {
    field.map_or("-".into(), |field| field.to_string())
}

/// PCI functions, one a line.
pub(super) fn of_functions(all: &[PciFunction]) -> String {
    let lines = all.iter().map(|one| {
        let bars = one.bars.iter().map(|bar| {
            let Bar {
                number,
                start,
                bytes,
                is_prefetchable,
            } = bar;
            format!(
                "\t{number:x}:{start:x}:{bytes:x}:{:x}",
                u8::from(*is_prefetchable)
            )
        });
        let (driver, node, group) = (
            or_none(one.driver.as_ref()),
            or_none(one.numa_node),
            or_none(one.iommu_group),
        );
        let bars: String = bars.collect();
        format!(
            "{}\t{:x}\t{:x}\t{:x}\t{driver}\t{node}\t{group}{bars}",
            one.address, one.vendor, one.device, one.class
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// USB devices, one a line.
pub(super) fn of_devices(all: &[UsbDevice]) -> String {
    let lines = all.iter().map(|one| {
        let (serial, name) = (
            or_none(one.serial.as_ref()),
            or_none(one.product_name.as_ref()),
        );
        format!(
            "{}\t{:x}\t{:x}\t{:x}\t{:x}\t{:x}\t{serial}\t{name}",
            one.port, one.vendor, one.product, one.bus, one.number, one.speed
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The fields of a line, one after the other.
struct Fields<'a> {
    line: &'a str,
    rest: std::str::SplitN<'a, char>,
}

impl<'a> Fields<'a> {
    /// The fields of a line, `count` in number; the last one has the rest of the line.
    fn of(line: &'a str, count: usize) -> Fields<'a> {
        let rest = line.splitn(count, '\t');
        Fields { line, rest }
    }

    fn wrong(&self) -> Fault {
        Fault::Unsupported(format!("not a device description: {:?}", self.line))
    }

    fn text(&mut self) -> Result<&'a str, Fault> {
        self.rest.next().ok_or_else(|| self.wrong())
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Fault> {
        let text = self.text()?;
        hex(text).ok_or_else(|| self.wrong())
    }

    fn decimal(&mut self) -> Result<Option<u32>, Fault> {
        match self.text()? {
            "-" => Ok(None),
            text => text.parse().map(Some).map_err(|_| self.wrong()),
        }
    }

    fn some(&mut self) -> Result<Option<String>, Fault> {
        let text = self.text()?;
        Ok((text != "-").then(|| text.to_owned()))
    }
}

fn hex<T: TryFrom<u64>>(text: &str) -> Option<T> {
    T::try_from(u64::from_str_radix(text, 16).ok()?).ok()
}

/// The functions of such lines.
pub(super) fn functions(text: &str) -> Result<Vec<PciFunction>, Fault> {
    let function = |line: &str| {
        let mut fields = Fields::of(line, 8);
        Ok(PciFunction {
            address: fields.text()?.to_owned(),
            vendor: fields.number()?,
            device: fields.number()?,
            class: fields.number()?,
            driver: fields.some()?,
            numa_node: fields.decimal()?,
            iommu_group: fields.decimal()?,
            bars: match fields.rest.next() {
                None => Vec::new(),
                Some(bars) => bars
                    .split('\t')
                    .map(|text| bar(text).ok_or_else(|| fields.wrong()))
                    .collect::<Result<_, _>>()?,
            },
        })
    };
    text.lines().map(function).collect()
}

fn bar(text: &str) -> Option<Bar> {
    let mut parts = text.split(':');
    let mut next = || hex::<u64>(parts.next()?);
    Some(Bar {
        number: next()?.try_into().ok()?,
        start: next()?,
        bytes: next()?,
        is_prefetchable: next()? != 0,
    })
}

/// The devices of such lines.
pub(super) fn devices(text: &str) -> Result<Vec<UsbDevice>, Fault> {
    let device = |line: &str| {
        let mut fields = Fields::of(line, 8);
        Ok(UsbDevice {
            port: fields.text()?.to_owned(),
            vendor: fields.number()?,
            product: fields.number()?,
            bus: fields.number()?,
            number: fields.number()?,
            speed: fields.number()?,
            serial: fields.some()?,
            product_name: fields.some()?,
        })
    };
    text.lines().map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_all_of_a_device() {
        let bar = |number, start| Bar {
            number,
            start,
            bytes: 0x1000,
            is_prefetchable: number == 0,
        };
        let all = [
            PciFunction {
                address: "0000:03:00.0".into(),
                vendor: 0x1002,
                device: 0x7550,
                class: 0x30000,
                bars: vec![bar(0, 1 << 40), bar(5, 0xd000_0000)],
                driver: Some("vfio-pci".into()),
                numa_node: None,
                iommu_group: Some(14),
            },
            PciFunction {
                address: "0000:00:00.0".into(),
                vendor: 0x8086,
                device: 1,
                class: 0,
                bars: Vec::new(),
                driver: None,
                numa_node: Some(1),
                iommu_group: None,
            },
        ];
        assert_eq!(functions(&of_functions(&all)).as_deref(), Ok(&all[..]));
        let usb = [UsbDevice {
            port: "2-1.4".into(),
            vendor: 0x174c,
            product: 0x2464,
            bus: 2,
            number: 9,
            speed: 10_000,
            serial: Some("a b".into()),
            product_name: None,
        }];
        assert_eq!(devices(&of_devices(&usb)).as_deref(), Ok(&usb[..]));
        assert!(functions("x").is_err() && devices("2-1\tzz").is_err());
        assert_eq!(functions(""), Ok(Vec::new()));
    }
}
