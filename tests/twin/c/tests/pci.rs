//! The C interface of PCI functions, called as C does.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use doorbell_twin::*;
use drivers_spec::pci::PCI_COMMAND;

/// RCC_CONFIG_MEMSIZE, which says how many MiB of VRAM there are.
const MEMSIZE: u64 = 0xde3 * 4;

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn text(bytes: &[c_char]) -> &str {
    // SAFETY: the interface ends what it copies with a zero.
    unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_str().unwrap()
}

#[test]
fn a_driver_in_c_finds_a_card_and_its_memory() {
    let mut said = [0 as c_char; 256];
    // SAFETY: everything that is passed is what the header asks for, and lives as long as it says.
    unsafe {
        let wrong = doorbell_pci_new(c("chip=gfx900").as_ptr(), said.as_mut_ptr(), said.len());
        assert!(wrong.is_null());
        assert!(
            text(&said).starts_with("no chip 'gfx900'"),
            "{}",
            text(&said)
        );

        let config = c("chip=gfx1201,gpus=2");
        let on = doorbell_pci_new(config.as_ptr(), ptr::null_mut(), 0);
        doorbell_pci_functions(on, said.as_mut_ptr(), said.len());
        assert_eq!(
            text(&said),
            "0000:03:00.0 1002:7550\n0000:04:00.0 1002:7550\n"
        );
        let (mut start, mut size) = (0, 0);
        assert_eq!(doorbell_pci_bar(on, 0, 0, &mut start, &mut size), 0);
        assert_eq!((start, size), (0x100_0000_0000, 16 << 30));
        assert_eq!(
            doorbell_pci_bar(on, 0, 1, &mut start, &mut size),
            -libc::ENXIO
        );
        assert_eq!(
            doorbell_pci_bar(on, 2, 0, &mut start, &mut size),
            -libc::ENODEV
        );

        // Nothing answers before memory is enabled: a rule says so.
        let mut word = 0u32;
        let at = (&raw mut word).cast::<c_void>();
        doorbell_pci_read(on, 0, 5, MEMSIZE, at, 4);
        assert_eq!(doorbell_pci_broken(on), 1);
        doorbell_pci_report(on, 0, said.as_mut_ptr(), said.len());
        assert!(text(&said).contains("PCI-MEM-DECODE"), "{}", text(&said));
        assert_eq!(doorbell_pci_config_write(on, 0, PCI_COMMAND, 2, 6), 0);
        assert_eq!(doorbell_pci_config_read(on, 0, 0, 4, &mut word), 0);
        assert_eq!(word, 0x7550_1002);
        assert_eq!(
            doorbell_pci_config_read(on, 0, 0, 3, &mut word),
            -libc::EINVAL
        );
        assert_eq!(doorbell_pci_read(on, 0, 5, MEMSIZE, at, 4), 0);
        assert_eq!(word, 16 << 10);
        assert_eq!(
            doorbell_pci_read(on, 0, 5, MEMSIZE, ptr::null_mut(), 4),
            -libc::EFAULT
        );
        assert_eq!(doorbell_pci_read(on, 0, 5, 1 << 20, at, 4), -libc::EINVAL);
        assert_eq!(doorbell_pci_read(on, 0, 5, 8, at, 4), -libc::EIO);

        // VRAM, in pieces of any length.
        let wrote = *b"eleven byte";
        let (from, mut back) = ((&raw const wrote).cast(), [0u8; 11]);
        assert_eq!(doorbell_pci_write(on, 0, 0, 0x1_0001, from, 11), 0);
        let to = (&raw mut back).cast();
        assert_eq!(doorbell_pci_read(on, 0, 0, 0x1_0001, to, 11), 0);
        assert_eq!(back, wrote);

        // Memory that the card reaches is memory here.
        let (mut memory, mut pages) = (ptr::null_mut(), [0u64; 3]);
        let asked = doorbell_pci_dma(on, 0, 3 << 12, 4096, &mut memory, pages.as_mut_ptr());
        assert_eq!(asked, 0);
        assert!(pages.iter().all(|page| *page != 0 && page % 4096 == 0));
        memory.cast::<u8>().write(7);
        assert_eq!(doorbell_pci_dma_free(on, memory), 0);
        assert_eq!(doorbell_pci_dma_free(on, memory), -libc::EINVAL);
        assert_eq!(
            doorbell_pci_dma(on, 0, 5, 4096, &mut memory, pages.as_mut_ptr()),
            -libc::EINVAL
        );

        // Another process finds the card as it was left; a reset takes that.
        let again = doorbell_pci_again(on);
        doorbell_pci_free(on);
        assert_eq!(doorbell_pci_read(again, 0, 0, 0x1_0001, to, 11), 0);
        assert_eq!(back, wrote);
        assert_eq!(doorbell_pci_reset(again, 0, 3), -libc::EINVAL);
        assert_eq!(doorbell_pci_reset(again, 0, 0), 0);
        doorbell_pci_config_read(again, 0, PCI_COMMAND, 2, &mut word);
        assert_eq!(word & 6, 0);
        doorbell_pci_free(again);
        doorbell_pci_free(ptr::null_mut());
        assert_eq!(doorbell_pci_broken(ptr::null_mut()), 0);
    }
}
