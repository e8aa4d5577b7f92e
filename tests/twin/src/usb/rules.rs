//! What a host has to do right with the bridge.

use crate::rule::{Proof, Rule};

/// There are two endpoints beside the one for control.
pub static ENDPOINT: Rule = Rule {
    name: "USB-ENDPOINT",
    text: "bulk transfers use endpoints of the interface: 0x81 and 0x02",
    source: "tinygrad/asm2464pd-firmware, handmade/src/usb.h, configuration descriptor, alternate setting 0",
    proof: Proof::Sourced,
};

/// Both sides count packets.
pub static TOGGLE: Rule = Rule {
    name: "USB-TOGGLE",
    text: "the host resets an endpoint's packet counter together with the device: a halt is cleared by the host's own \
           call, not by the bare request",
    source: "Universal Serial Bus 3.2 Specification, 8.12.1.2 and 9.4.5: CLEAR_FEATURE(ENDPOINT_HALT) resets sequence numbers; libusb, libusb_clear_halt",
    proof: Proof::Sourced,
};

/// Packets come whole.
pub static BABBLE: Rule = Rule {
    name: "USB-BABBLE",
    text: "a bulk IN has room for all packets: for the bytes that are sent, or for whole packets",
    source: "Universal Serial Bus 3.2 Specification, 8.10.2; libusb, LIBUSB_TRANSFER_OVERFLOW",
    proof: Proof::Sourced,
};

/// A request that is known.
pub static REQUEST: Rule = Rule {
    name: "ASM24-REQUEST",
    text: "vendor requests are those of the firmware (0xE4, 0xE5, 0xF0, 0xF2, 0xF3), with their lengths; others get no data",
    source: "tinygrad/asm2464pd-firmware, handmade/src/main.c, handle_usb_control",
    proof: Proof::Sourced,
};

/// Control transfers are short.
pub static LENGTH: Rule = Rule {
    name: "ASM24-EP0-LENGTH",
    text: "0xE4 reads at most one packet of endpoint 0: 512 bytes, 64 on USB2",
    source: "tinygrad/asm2464pd-firmware, handmade/src/main.c, request 0xE4, maxlen",
    proof: Proof::Sourced,
};

/// The model knows no other address.
pub static XDATA: Rule = Rule {
    name: "ASM24-XDATA",
    text: "only modelled addresses of the bridge's processor are read, and only those with an effect are written",
    source: "this twin: src/usb/xdata.rs, front page",
    proof: Proof::Twin,
};

/// Windows end.
pub static BORDER: Rule = Rule {
    name: "ASM24-XDATA-BORDER",
    text: "a read of the processor's address space stays within one window or block: the addresses after its 4 KiB are \
           another",
    source: "tinygrad/asm2464pd-firmware, src/include/registers.h, memory map (0xA000, 0xB000, 0xF000)",
    proof: Proof::Sourced,
};

/// The engine knows some packets.
pub static FORMAT: Rule = Rule {
    name: "ASM24-TLP-FORMAT",
    text: "packets are memory or configuration reads and writes; streams are 0x60 (out) and 0x20 (in) with all four bytes; configuration of bus 0 is type 0, of others type 1",
    source: "tinygrad/asm2464pd-firmware, src/include/registers.h, REG_PCIE_FMT_TYPE; PCI Express Base Specification 5.0, 2.2.1, 7.2.2",
    proof: Proof::Sourced,
};

/// Bytes of a packet.
pub static BYTES: Rule = Rule {
    name: "ASM24-TLP-BYTES",
    text: "a packet carries one dword at a multiple of 4, and its byte enables are 1 to 4 adjacent bits",
    source: "PCI Express Base Specification 5.0, 2.2.5; tinygrad/asm2464pd-firmware, handmade/src/pcie_pio.h",
    proof: Proof::Sourced,
};

/// A completion is there when it is.
pub static EARLY: Rule = Rule {
    name: "ASM24-TLP-EARLY",
    text: "completion registers (0xB220, 0xB22A, 0xB284) are read once bit 1 of 0xB296 is set",
    source: "tinygrad/asm2464pd-firmware, src/include/registers.h, REG_PCIE_STATUS",
    proof: Proof::Sourced,
};

/// Completions are of requests that have one.
pub static COMPLETION: Rule = Rule {
    name: "ASM24-F0-COMPLETION",
    text: "0xF0 IN follows a single packet that has a completion, and reads it once: memory writes and streams have none",
    source: "tinygrad/asm2464pd-firmware, handmade/src/main.c, request 0xF0 IN; PCI Express Base Specification 5.0, 2.4.1",
    proof: Proof::Sourced,
};

/// The status says whether it worked.
pub static UNCLAIMED: Rule = Rule {
    name: "ASM24-UNCLAIMED",
    text: "the target of memory writes and streams exists, with bridges' windows and decoding enabled: lost writes are \
           not reported, and streams read the data of the last packet",
    source: "tinygrad/asm2464pd-firmware, handmade/src/pcie_pio.h (no look at the completion's status), src/include/registers.h, REG_PCIE_TLP_CPL_HEADER",
    proof: Proof::Sourced,
};

/// No packet without a link.
pub static LINK: Rule = Rule {
    name: "ASM24-LINK",
    text: "packets for devices behind the link are sent while the link is up (0xB450 is 0x78)",
    source: "tinygrad/asm2464pd-firmware, src/include/registers.h, REG_PCIE_LTSSM_STATE; tinygrad, runtime/support/usb.py, CustomASM24Controller",
    proof: Proof::Sourced,
};

/// Bus numbers come together.
pub static NUMBERS: Rule = Rule {
    name: "ASM24-BUS-NUMBERS",
    text: "primary, secondary and subordinate bus of a bridge are written as one dword",
    source: "tinygrad, runtime/support/system.py, pci_setup_usb_bars: all 3 values must be written at the same time",
    proof: Proof::Observed,
};

/// Something waits for bulk.
pub static ARMED: Rule = Rule {
    name: "ASM24-BULK-ARMED",
    text: "a bulk transfer belongs to a waiting stream (0xF0) or copy (0xF2) of its direction; otherwise no packet is \
           accepted",
    source: "tinygrad/asm2464pd-firmware, handmade/src/main.c, USB_EP_CFG2_ARM_OUT and USB_EP_CFG2_ARM_IN",
    proof: Proof::Sourced,
};

/// One user of a direction.
pub static ENGINES: Rule = Rule {
    name: "ASM24-TWO-ENGINES",
    text: "a stream and a copy of the same direction do not wait at the same time, and at most two copies of a direction wait",
    source: "tinygrad, runtime/ops_amd.py, AMDAllocator._copyin: one window is armed while the other is under way",
    proof: Proof::Guess,
};

/// A stream has a length.
pub static STREAM: Rule = Rule {
    name: "ASM24-STREAM-LENGTH",
    text: "the bulk transfers of a stream carry whole dwords and at most the announced number: further packets are dropped",
    source: "tinygrad/asm2464pd-firmware, handmade/src/main.c, handle_usb_bulk_data",
    proof: Proof::Sourced,
};

/// A stream is through before the next.
pub static CUT: Rule = Rule {
    name: "ASM24-STREAM-CUT",
    text: "a stream with a queued bulk transfer is complete before the next 0xF0, which ends it",
    source: "tinygrad/asm2464pd-firmware, handmade/src/main.c, request 0xF0 OUT: dma_dwords = 0",
    proof: Proof::Sourced,
};

/// What was read ahead is still there.
pub static STALE: Rule = Rule {
    name: "ASM24-STALE-IN",
    text: "after a stream from the device is abandoned, the halt of 0x81 is cleared, or the interface is set, before \
           the next stream: a packet of the old one is still queued",
    source: "tinygrad/asm2464pd-firmware, handmade/test_pcie_badstate.py, TestBadStates",
    proof: Proof::Observed,
};

/// The buffer has slots.
pub static SLOTS: Rule = Rule {
    name: "ASM24-F2-SLOTS",
    text: "a copy has sectors of 512 bytes that fit into its slots of 16 KiB; there are 32 slots",
    source: "tinygrad/asm2464pd-firmware, pcie/test_sram_verify.py; handmade/src/main.c, request 0xF2",
    proof: Proof::Sourced,
};

/// A copy is as long as armed.
pub static SECTORS: Rule = Rule {
    name: "ASM24-F2-LENGTH",
    text: "the bulk transfers of a copy have the bytes of its sectors in total, and end at packet boundaries",
    source: "tinygrad/asm2464pd-firmware, pcie/test_sram_verify.py; tinygrad, runtime/support/usb.py, scsi_write",
    proof: Proof::Sourced,
};

/// What was sent is used.
pub static UNREAD: Rule = Rule {
    name: "ASM24-SRAM-UNREAD",
    text: "the function reads data that the host sent to a window of SRAM (unless it is all zeros) before the host \
           sends data to that window again",
    source: "tinygrad, runtime/ops_amd.py, AMDAllocator._copyin: a window is free once the fence has passed it",
    proof: Proof::Sourced,
};

/// A reset leaves the copy engine as it was.
pub static RESET: Rule = Rule {
    name: "ASM24-RESET-ARMED",
    text: "the device is not reset while a copy waits for its bulk transfer: the engine keeps the copy and takes the \
           next bulk transfer for it",
    source: "tinygrad/asm2464pd-firmware, pull request 75 (firmware before it)",
    proof: Proof::Observed,
};
