//! A made-up card from its start to its end: what RM on GSP is told, what is in VRAM, what the doorbell takes.

use std::sync::Arc;
use std::time::Duration;

use drivers_gpu::backend::{Age, Exception, Request};
use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::gsp::function;
use hcq::mem::view::View;
use hcq::transport::{
    Clock, DevFile, Fault, Machine, Pci, PerProcess, Reserved, TransportError, VirtualClock,
};
use hcq::{Error, MemoryKind};
use tempfile::TempDir;

use super::open;
use crate::backend::{ChannelKind, ChannelRequest, HardwareChannel, NvBackend};
use crate::gsp::tests::card::{Break, Made};
use crate::gsp::tests::files;
use crate::options::Options;

type Transport<T> = Result<T, TransportError>;

/// A machine with the card.
struct Computer {
    made: Arc<Made>,
    kept: PerProcess,
}

fn no(what: &str) -> TransportError {
    TransportError::new("made", what, Fault::Unsupported("made".into()))
}

impl Machine for Computer {
    fn open(&self, _: &str) -> Transport<Arc<dyn DevFile>> {
        Err(no("open"))
    }
    fn read(&self, _: &str) -> Transport<String> {
        Err(no("read"))
    }
    fn list(&self, _: &str) -> Transport<Vec<String>> {
        Err(no("list"))
    }
    fn open_pci(&self, _: &str) -> Transport<Arc<dyn Pci>> {
        Ok(self.made.clone())
    }
    fn reserve(&self, _: u64, _: u64, _: u64) -> Transport<Reserved> {
        Err(no("reserve"))
    }
    fn memory(&self, _: u64, _: u64) -> Transport<View> {
        Err(no("memory"))
    }
    fn per_process(&self) -> &PerProcess {
        &self.kept
    }
}

/// A card with a BAR of a size, and the folder of its firmware.
struct Stand {
    made: Arc<Made>,
    folder: TempDir,
}

impl Stand {
    fn new(bar1: u64, wrong: Break) -> Stand {
        let folder = tempfile::tempdir().unwrap();
        files::write(folder.path(), "570.144");
        let made = Arc::new(Made::new(Branch::R570, wrong));
        made.state().bar1 = bar1;
        Stand { made, folder }
    }

    fn open(&self) -> hcq::Result<Arc<dyn NvBackend>> {
        let machine: Arc<dyn Machine> = Arc::new(Computer {
            made: self.made.clone(),
            kept: PerProcess::default(),
        });
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
        let options = Options {
            firmware: vec![self.folder.path().to_owned()],
            ..Options::default()
        };
        open(&machine, "0000:01:00.0", 0, &clock, &options)
    }
}

const SMALL: u64 = 256 << 20;
const LARGE: u64 = 32 << 30;

fn channel(gpu: &Arc<dyn NvBackend>, kind: ChannelKind) -> hcq::Result<HardwareChannel> {
    gpu.channel(&ChannelRequest {
        kind,
        entries: 1024,
        name: "queue",
    })
}

#[test]
fn channels_of_every_kind_run_and_nothing_is_left_behind() {
    for bar1 in [SMALL, LARGE] {
        let stand = Stand::new(bar1, Break::Nothing);
        let gpu = stand.open().unwrap();
        let known = gpu.gpu();
        assert_eq!((known.chip.name, known.units.sms), ("ga102", 82));
        assert_eq!(known.product, "NVIDIA GeForce RTX 3090");
        assert_eq!(known.copy_engines, 2);
        assert_eq!(known.facts.vram_windows, bar1 == LARGE);
        // The upper half of the clock, and the lower one.
        assert_eq!(gpu.ticks().unwrap(), 7 << 32 | 0x20);

        let compute = channel(&gpu, ChannelKind::Compute).unwrap();
        let copy = channel(&gpu, ChannelKind::Copy(1)).unwrap();
        assert_eq!(compute.classes.compute, Some(0xc7c0));
        assert_eq!((copy.classes.compute, copy.entries()), (None, 1024));
        // Runlists 0 and 4; the first channel is the driver's own.
        assert_eq!([compute.token, copy.token], [1, 4 << 16 | 2]);
        compute.publish(1).unwrap();
        copy.publish(1).unwrap();
        {
            let state = stand.made.state();
            assert_eq!(state.bells, [1, 4 << 16 | 2]);
            assert_eq!(state.rm.as_ref().unwrap().kept.scheduled.len(), 2);
        }
        // A third copy engine is not there.
        let error = channel(&gpu, ChannelKind::Copy(2)).map(drop).unwrap_err();
        assert!(error.to_string().contains("2 copy engines"), "{error}");
        assert!(compute.handle.stop());
        drop((compute, copy));
        // Its number is free again.
        let again = channel(&gpu, ChannelKind::Compute).unwrap();
        assert_eq!(again.token, 1);
        drop(again);
        drop(gpu);
        assert!(stand.made.state().rm.is_none(), "RM has ended");
        assert!(!stand.made.is_master());
    }
}

#[test]
fn memory_is_mapped_for_the_gpu_and_seen_by_the_host_where_the_bar_is_large() {
    let stand = Stand::new(LARGE, Break::Nothing);
    let gpu = stand.open().unwrap();
    let request = |kind, bytes| Request {
        bytes,
        align: 4096,
        kind,
        what: "test",
    };
    let device = gpu.memory(&request(MemoryKind::Device, 0x5000)).unwrap();
    let host = gpu.memory(&request(MemoryKind::Host, 0x3000)).unwrap();
    device
        .window
        .as_ref()
        .unwrap()
        .write(0x4ff8, 0x77u64)
        .unwrap();
    assert!(host.window.is_some() && host.zeroed);
    let evidence = |va| {
        let fault = Exception::Memory(drivers_gpu::backend::MemoryFault {
            va,
            cause: drivers_gpu::backend::Cause::PageFault,
            access: None,
            not_present: true,
            read_only: false,
            no_execute: false,
            imprecise: false,
        });
        gpu.evidence(Some(&fault)).walk.last().unwrap().text.clone()
    };
    assert!(
        evidence(device.va.0).contains("page in VRAM"),
        "{}",
        evidence(device.va.0)
    );
    assert!(evidence(host.va.0).contains("page in host memory"));
    assert!(evidence(device.va.0 + 0x5000).contains("not mapped"));
    let before = stand.made.state().vram.invalidations;
    drop(device);
    assert!(stand.made.state().vram.invalidations > before, "unmapped");
    let small = Stand::new(SMALL, Break::Nothing);
    let gpu = small.open().unwrap();
    let device = gpu.memory(&request(MemoryKind::Device, 0x5000)).unwrap();
    assert!(device.window.is_none());
}

#[test]
fn the_death_of_a_channel_is_told_with_its_cause() {
    let stand = Stand::new(SMALL, Break::Nothing);
    let gpu = stand.open().unwrap();
    let (one, other) = (
        channel(&gpu, ChannelKind::Copy(0)).unwrap(),
        channel(&gpu, ChannelKind::Copy(1)).unwrap(),
    );
    let look = || {
        let mut age = Age::NEW;
        gpu.sleep(None, &mut age, Duration::ZERO).unwrap()
    };
    assert_eq!(look(), None);
    stand.made.state().die(2, 31, (0x12_3456_7000, 6));
    let Some(Exception::Memory(fault)) = look() else {
        panic!("a fault");
    };
    assert_eq!((fault.va, fault.read_only), (0x12_3456_7000, true));
    assert_eq!(other.handle.died().unwrap(), Some(31));
    assert_eq!(one.handle.died().unwrap(), None);
    stand.made.state().die(1, 32, (0, 0));
    let Some(Exception::Refused(refused)) = look() else {
        panic!("another cause");
    };
    assert_eq!(refused.unit, "queue");
    assert!(refused.what.contains("Xid 32"), "{}", refused.what);
    // No death: RM has written notifiers, and waits until that is known.
    stand.made.state().die(1, 141, (0, 0));
    assert_eq!(look(), None);
    let acknowledged = function::ECC_NOTIFIER_WRITE_ACK;
    let heard = |stand: &Stand| {
        let state = stand.made.state();
        let rm = state.rm.as_ref().unwrap();
        rm.heard.iter().filter(|one| **one == acknowledged).count()
    };
    assert_eq!(heard(&stand), 1);
    drop((one, other));
}

/// A start, and a channel of each kind.
fn work(stand: &Stand) -> hcq::Result<()> {
    let gpu = stand.open()?;
    let compute = channel(&gpu, ChannelKind::Compute)?;
    let copy = channel(&gpu, ChannelKind::Copy(0))?;
    compute.publish(1).unwrap();
    copy.publish(1).unwrap();
    Ok(())
}

#[test]
fn whatever_rm_refuses_is_told_and_nothing_is_left_behind() {
    let whole = Stand::new(SMALL, Break::Nothing);
    work(&whole).unwrap();
    let calls = whole.made.state().calls;
    let mut refused = Vec::new();
    for call in 1..=calls {
        let stand = Stand::new(SMALL, Break::Call(call));
        let done = work(&stand);
        let state = stand.made.state();
        assert!(state.rm.is_none(), "call {call}: RM has ended");
        assert!(state.log.iter().all(|line| !line.ends_with("reset")));
        drop(state);
        assert!(!stand.made.is_master(), "call {call}");
        // It may do without exceptions of kernels.
        refused.extend(done.err().map(|error| error.to_string()));
    }
    let names = [
        "making NV01_ROOT",
        "making NV01_DEVICE_0",
        "NV2080_CTRL_CMD_FIFO_GET_DEVICE_INFO_TABLE",
        "NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_CONTEXT_BUFFERS_INFO",
        "making FERMI_VASPACE_A",
        "making AMPERE_CHANNEL_GPFIFO_A",
        "NV2080_CTRL_CMD_GPU_PROMOTE_CTX",
        "making AMPERE_B",
        "NV2080_CTRL_CMD_CE_UPDATE_CLASS_DB",
        "NV90F1_CTRL_CMD_VASPACE_COPY_SERVER_RESERVED_PDES",
        "making KEPLER_CHANNEL_GROUP_A",
        "NVA06C_CTRL_CMD_INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS",
        "making FERMI_CONTEXT_SHARE_A",
        "making AMPERE_COMPUTE_B",
        "making AMPERE_DMA_COPY_B",
        "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
    ];
    for name in names {
        let is_told = refused.iter().any(|said| said.contains(name));
        assert!(is_told, "{name}: {refused:#?}");
    }
}

#[test]
fn a_start_that_fails_is_told_and_the_card_is_left() {
    let stand = Stand::new(1 << 20, Break::Nothing);
    let error = stand.open().map(drop).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("window to VRAM (BAR1)"), "{said}");
    assert!(stand.made.state().rm.is_none() && !stand.made.is_master());

    let stand = Stand::new(SMALL, Break::Refuses);
    let said = stand.open().map(drop).unwrap_err().to_string();
    assert!(said.contains("making NV01_DEVICE_0"), "{said}");
    assert!(stand.made.state().rm.is_none() && !stand.made.is_master());
}
