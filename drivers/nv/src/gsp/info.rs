//! What GSP is told before it starts: the machine around the card, and settings.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/vgpu/rpc.c (`rpcGspSetSystemInfo_v17_00`,
//! `rpcSetRegistry_v17_00`), kernel-open/nvidia/nv-pci.c (`nv_pci_probe`: which windows are which),
//! src/nvidia/generated/g_gpu_nvoc.h (`gpuEncodeDomainBusDevice`); Linux,
//! drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/gsp.c (which settings a driver needs that has no others).

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::gsp::{REGISTRY_DWORD, RegistryEntry, RegistryTable, SystemInfo};
use drivers_spec::pci::{
    PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_TYPE_64, PCI_BASE_ADDRESS_SPACE_IO,
    PCI_CLASS_REVISION, PCI_SUBSYSTEM_VENDOR_ID, PCI_VENDOR_ID,
};
use hcq::mem::window::AccessWidth;
use hcq::transport::{Pci, TransportError};

use super::error::Cause;

/// Where BAR0 shows configuration space, and how much of it.
const MIRROR: u32 = 0x8_8000;
/// The same, from Hopper on.
const MIRROR_GH100: u32 = 0x9_2000;
const MIRROR_BYTES: u32 = 0x1000;
/// The addresses of a process: RM has them for itself alone here.
const MAX_USER_VA: u64 = 0x7fff_ffff_f000;
/// Bytes of a page of the host.
const HOST_PAGE: u64 = 4096;

/// Settings: RM keeps configuration space over a reset of the bus, which it may do.
const SETTINGS: [(&str, u32); 2] = [("RMSecBusResetEnable", 1), ("RMForcePcieConfigSave", 1)];

/// Base address registers of a function.
const REGISTERS: u16 = 6;

/// The windows of a function that RM is told of, in their order: registers, VRAM, instance memory; 0 where there is none.
/// Whether the first of them is wide.
///
/// A wide one takes two registers, so that windows have other numbers where the first one is wide (Hopper).
fn windows(pci: &dyn Pci) -> Result<([u64; 3], bool), TransportError> {
    let (mut found, mut register) = (Vec::new(), 0);
    while register < REGISTERS {
        let at = PCI_BASE_ADDRESS_0 + 4 * register;
        let low = pci.config_read(at, AccessWidth::W32)?;
        let is_memory = low & PCI_BASE_ADDRESS_SPACE_IO == 0;
        let is_wide = is_memory && low & 0x6 == PCI_BASE_ADDRESS_MEM_TYPE_64;
        let high = match is_wide {
            true => pci.config_read(at + 4, AccessWidth::W32)?,
            false => 0,
        };
        let start = u64::from(high) << 32 | u64::from(low & !0xf);
        if is_memory && start != 0 {
            found.push((start, is_wide));
        }
        register += if is_wide { 2 } else { 1 };
    }
    let is_wide = found.first().is_some_and(|(_, is_wide)| *is_wide);
    let mut starts = found.into_iter().map(|(start, _)| start);
    Ok(([0; 3].map(|none| starts.next().unwrap_or(none)), is_wide))
}

/// The address of a function as RM has it: `0000:01:00.0` is bus 1. None for another name.
fn place(name: &str) -> Option<u64> {
    let mut parts = name.split([':', '.']);
    let mut next = || u64::from_str_radix(parts.next()?, 16).ok();
    let (domain, bus, device) = (next()?, next()?, next()?);
    Some(domain << 32 | bus << 8 | device)
}

/// The machine around a card.
///
/// # Errors
/// The transport's.
pub(super) fn system(pci: &dyn Pci, arch: Arch, branch: Branch) -> Result<Vec<u8>, Cause> {
    let ids = pci.config_read(PCI_VENDOR_ID, AccessWidth::W32)?;
    let sub_ids = pci.config_read(PCI_SUBSYSTEM_VENDOR_ID, AccessWidth::W32)?;
    let revision = pci.config_read(PCI_CLASS_REVISION, AccessWidth::W32)? & 0xff;
    let ([registers, vram, instances], is_wide) = windows(pci)?;
    let info = SystemInfo {
        gpu_phys_addr: registers,
        gpu_phys_fb_addr: vram,
        gpu_phys_inst_addr: instances,
        nv_domain_bus_device_func: place(pci.name()).unwrap_or_default(),
        max_user_va: MAX_USER_VA,
        pci_config_mirror_base: match arch >= Arch::Gh100 {
            true => MIRROR_GH100,
            false => MIRROR,
        },
        pci_config_mirror_size: MIRROR_BYTES,
        pci_device_id: ids,
        pci_sub_device_id: sub_ids,
        pci_revision_id: revision,
        bar0_64b_supported: is_wide.into(),
        host_page_size: HOST_PAGE,
        ..SystemInfo::default()
    };
    Ok(info.encode(branch))
}

/// The settings, as a table with their names behind it.
pub(super) fn registry(branch: Branch) -> Vec<u8> {
    table(branch, &SETTINGS)
}

fn table(branch: Branch, settings: &[(&str, u32)]) -> Vec<u8> {
    let head = size_of::<RegistryTable>() + settings.len() * size_of::<RegistryEntry>();
    let (mut entries, mut names) = (Vec::new(), Vec::new());
    for (name, value) in settings {
        let entry = RegistryEntry {
            name_offset: (head + names.len()) as u32,
            kind: REGISTRY_DWORD,
            data: *value,
            length: size_of::<u32>() as u32,
            ..RegistryEntry::default()
        };
        entries.extend(entry.encode(branch));
        names.extend(name.bytes());
        names.push(0);
    }
    let header = RegistryTable {
        size: (head + names.len()) as u32,
        num_entries: settings.len() as u32,
    };
    let mut all = header.encode(branch);
    all.extend(entries);
    all.extend(names);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_a_packed_table() {
        let bytes = table(Branch::R570, &[("AB", 7), ("C", 0x0102_0304)]);
        // By the vendor's structs: 8 bytes, 16 for each entry, the names.
        let expected = [
            &[45, 0, 0, 0, 2, 0, 0, 0][..],
            &[40, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0],
            &[43, 0, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1, 4, 0, 0, 0],
            b"AB\0C\0",
        ];
        assert_eq!(bytes, expected.concat());
        let all = registry(Branch::R535);
        assert_eq!(all.len(), 8 + 2 * 16 + 20 + 22);
        assert!(all.ends_with(b"RMSecBusResetEnable\0RMForcePcieConfigSave\0"));
    }

    #[test]
    fn functions_are_numbered_as_rm_does() {
        assert_eq!(place("0000:01:00.0"), Some(0x100));
        assert_eq!(place("0001:c1:02.0"), Some(0x1_0000_c102));
        assert_eq!(place("usb"), None);
    }
}
