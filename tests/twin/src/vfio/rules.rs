//! What VFIO demands.

use crate::rule::{Proof, Rule};

/// Questions come first.
pub static ASKED: Rule = Rule {
    name: "VFIO-ASKED",
    text: "the version and the IOMMU type are queried before the type is set",
    source: "Linux, Documentation/driver-api/vfio.rst, VFIO Usage Example",
    proof: Proof::Sourced,
};

/// A group that can be given away.
pub static VIABLE: Rule = Rule {
    name: "VFIO-VIABLE",
    text: "a group is added to a container if its status says that it is viable and in no container",
    source: "Linux, Documentation/driver-api/vfio.rst, VFIO Usage Example; drivers/vfio/group.c",
    proof: Proof::Sourced,
};

/// One after the other.
pub static ORDER: Rule = Rule {
    name: "VFIO-ORDER",
    text: "first the group is added to the container, then the container gets an IOMMU, then the group returns its device",
    source: "Linux, drivers/vfio/container.c, vfio_ioctl_set_iommu; drivers/vfio/group.c, vfio_group_ioctl_get_device_fd",
    proof: Proof::Sourced,
};

/// The kind of IOMMU that there is.
pub static TYPE: Rule = Rule {
    name: "VFIO-TYPE",
    text: "a group without an IOMMU uses the no-IOMMU type, and no other group does",
    source: "Linux, drivers/vfio/container.c, vfio_container_noiommu and vfio_ioctl_set_iommu",
    proof: Proof::Sourced,
};

/// How long a struct is.
pub static ARGSZ: Rule = Rule {
    name: "VFIO-ARGSZ",
    text: "argsz is at least the length of the struct of the request",
    source: "Linux, include/uapi/linux/vfio.h, and the minsz of each request in drivers/vfio",
    proof: Proof::Sourced,
};

/// What can be mapped for DMA.
pub static MAP: Rule = Rule {
    name: "VFIO-MAP",
    text: "memory is mapped for DMA in whole pages of the IOMMU, at addresses that it translates, where nothing is \
           mapped, for reads or writes",
    source: "Linux, drivers/vfio/vfio_iommu_type1.c, vfio_dma_do_map and vfio_iommu_iova_dma_valid",
    proof: Proof::Sourced,
};

/// What can be taken away.
pub static UNMAP: Rule = Rule {
    name: "VFIO-UNMAP",
    text: "a mapping is unmapped as a whole, not in part",
    source: "Linux, drivers/vfio/vfio_iommu_type1.c, vfio_dma_do_unmap: type 1 version 2 does not bisect",
    proof: Proof::Sourced,
};

/// Where regions are.
pub static REGION: Rule = Rule {
    name: "VFIO-REGION",
    text: "a region is read, written and mapped within the offset and size that the kernel reports, mapped in whole \
           pages and where its flags allow it, otherwise in aligned elements of up to 8 bytes, 4 in configuration space",
    source: "Linux, include/uapi/linux/vfio.h, vfio_region_info; drivers/vfio/pci/vfio_pci_core.c, vfio_pci_core_mmap",
    proof: Proof::Sourced,
};

/// How interrupts are asked for.
pub static IRQ: Rule = Rule {
    name: "VFIO-IRQ",
    text: "interrupts are set with eventfd descriptors, as many as stated, of interrupts that the function has",
    source: "Linux, drivers/vfio/vfio_main.c, vfio_set_irqs_validate_and_prepare",
    proof: Proof::Sourced,
};

/// Whether it can be reset.
pub static RESET: Rule = Rule {
    name: "VFIO-RESET",
    text: "a function is reset only if its flags allow it",
    source: "Linux, drivers/vfio/pci/vfio_pci_core.c, vfio_pci_ioctl_reset",
    proof: Proof::Sourced,
};

/// Who is asked before a bus is reset.
pub static HOT_RESET: Rule = Rule {
    name: "VFIO-HOT-RESET",
    text: "a bus is reset with the group descriptors of all functions on it, after these were queried",
    source: "Linux, drivers/vfio/pci/vfio_pci_core.c, vfio_pci_ioctl_pci_hot_reset and vfio_pci_dev_set_hot_reset; \
             include/uapi/linux/vfio.h",
    proof: Proof::Sourced,
};

/// What is not modelled.
pub static UNMODELLED: Rule = Rule {
    name: "VFIO-UNMODELLED",
    text: "requests and kinds of interrupts are modelled",
    source: "this twin: src/vfio/mod.rs, front page",
    proof: Proof::Twin,
};
