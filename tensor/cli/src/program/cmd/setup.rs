//! `doorbell setup --print`: what an administrator may put into files so that people use devices without being root.
//! Nothing is written.

use std::fmt::Write;

use clap::ValueEnum;
use drivers_spec::usb::GPU_BRIDGES;

use crate::program::error::Error;
use crate::program::output;

/// Print the rules for using devices without root.
#[derive(clap::Args)]
pub struct Args {
    /// Print the commands; setup never changes files itself
    #[arg(long, required = true)]
    print: bool,
    /// Interfaces; default: all
    #[arg(value_enum)]
    ways: Vec<Way>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// AMD's kernel driver
    Kfd,
    /// Cards without a kernel driver, by vfio-pci
    Pci,
    /// Cards behind USB bridges
    Usb,
    /// NVIDIA's kernel driver
    Nvk,
}

/// Who may use devices: the group that systemd and Debian have for it.
const GROUP: &str = "render";

/// A file as a shell makes it, so that the whole text can be read, and run as root.
fn file(path: &str, lines: &[String]) -> String {
    format!("cat > {path} <<'END'\n{}\nEND\n", lines.join("\n"))
}

fn text(ways: &[Way]) -> String {
    let has = |way| ways.is_empty() || ways.contains(&way);
    let mut rules = Vec::new();
    let mut rule = |why: &str, rules_of: &[String]| {
        rules.push(format!("# {why}"));
        rules.extend_from_slice(rules_of);
    };
    if has(Way::Kfd) {
        // As systemd's 50-udev-default.rules has them; some distributions have other groups.
        let one = |subsystem: &str, kernel: &str| {
            format!(
                "SUBSYSTEM==\"{subsystem}\", KERNEL==\"{kernel}\", GROUP=\"{GROUP}\", MODE=\"0660\""
            )
        };
        rule(
            "AMD's kernel driver: its compute device and the render nodes",
            &[one("kfd", "kfd"), one("drm", "renderD*")],
        );
    }
    if has(Way::Pci) {
        rule(
            "Cards bound to vfio-pci (doorbell bind): the file of their IOMMU group",
            &[format!(
                "SUBSYSTEM==\"vfio\", KERNEL==\"[0-9]*\", GROUP=\"{GROUP}\", MODE=\"0660\""
            )],
        );
    }
    if has(Way::Usb) {
        let bridge = |(vendor, product): (u16, u16)| {
            format!(
                "SUBSYSTEM==\"usb\", ENV{{DEVTYPE}}==\"usb_device\", ATTR{{idVendor}}==\"{vendor:04x}\", \
                 ATTR{{idProduct}}==\"{product:04x}\", GROUP=\"{GROUP}\", MODE=\"0660\""
            )
        };
        rule("USB bridges that carry a card", &GPU_BRIDGES.map(bridge));
    }
    let mut out = String::from("# Review, then run as root. Nothing has been changed yet.\n");
    if !rules.is_empty() {
        out += "\n# 1. Access to the device files\n";
        out += &file("/etc/udev/rules.d/70-doorbell.rules", &rules);
        out += "udevadm control --reload && udevadm trigger\n";
        let _ = writeln!(
            out,
            "\n# 2. Group membership, effective from your next login\nusermod -aG {GROUP} \
             \"${{SUDO_USER:-$USER}}\""
        );
    }
    if has(Way::Pci) || has(Way::Usb) {
        out += "\n# 3. Unlimited locked memory (devices access pinned pages); effective from your next login\n";
        let limit = format!("@{GROUP} - memlock unlimited");
        out += &file("/etc/security/limits.d/70-doorbell.conf", &[limit]);
    }
    if has(Way::Pci) {
        out += "\n# 4. Load vfio-pci, which gives cards to programs, at each boot\n";
        out += &file("/etc/modules-load.d/70-doorbell.conf", &["vfio-pci".into()]);
        out += "# Requires an IOMMU (intel_iommu=on on Intel); `doorbell doctor` checks it (pci.iommu).\n";
    }
    if has(Way::Nvk) {
        out += "\n# 5. Create NVIDIA's device files, if missing; accessible to all users\n";
        out += "nvidia-modprobe -c 0 -u\n";
    }
    out
}

/// Prints a shell script.
pub fn run(args: &Args) -> Result<(), Error> {
    match args.print {
        true => output::line(format_args!("{}", text(&args.ways).trim_end())),
        // clap does not let it come here.
        false => Err(Error::Usage("setup: pass --print".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_what_it_needs_and_nothing_more() {
        let all = text(&[]);
        for (way, here) in [
            (Way::Kfd, &["KERNEL==\"kfd\"", "usermod -aG render"][..]),
            (
                Way::Pci,
                &["SUBSYSTEM==\"vfio\"", "memlock unlimited", "modules-load.d"],
            ),
            (Way::Usb, &["ATTR{idVendor}==\"174c\"", "memlock unlimited"]),
            (Way::Nvk, &["nvidia-modprobe"]),
        ] {
            let one = text(&[way]);
            for part in here {
                assert!(one.contains(part) && all.contains(part), "{part}: {one}");
            }
        }
        assert!(!text(&[Way::Nvk]).contains("udev"));
        assert!(!text(&[Way::Kfd]).contains("memlock"));
    }
}
