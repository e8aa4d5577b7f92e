//! A channel that cannot be scheduled is taken apart in the order of its parts: UVM lets go of the addresses of its buffers
//! before somebody else gets them.

use std::sync::{Arc, Mutex};

use drivers_nv::{Options, nvk};
use hcq::mem::view::View;
use hcq::transport::access::{Access, Answer};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{DevFile, Fault, Machine, Pci, PerProcess, Reserved, TransportError};
use twin_nv::machine::TwinMachine;

use super::bench::{compute, twin};

/// What happens, in order.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl Tap for Log {
    fn before(&self, _: &str, access: &mut Access) -> Option<Result<Answer, Fault>> {
        if access.name.ends_with("REGISTER_CHANNEL") {
            self.note(access.name.clone());
        }
        None
    }
}

/// A machine that says when addresses are given back.
struct Marked {
    near: Arc<TwinMachine>,
    log: Arc<Log>,
}

struct Mark {
    _near: Reserved,
    base: u64,
    log: Arc<Log>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.log.note(format!("free {:#x}", self.base));
    }
}

impl Machine for Marked {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.near.open(path)
    }
    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.near.read(path)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.near.list(path)
    }
    fn open_pci(&self, address: &str) -> Result<Arc<dyn Pci>, TransportError> {
        self.near.open_pci(address)
    }
    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        let near = self.near.reserve(bytes, align, below)?;
        let (base, bytes) = (near.base(), near.bytes());
        self.log.note(format!("reserve {base:#x}"));
        let mark = Mark {
            _near: near,
            base,
            log: self.log.clone(),
        };
        Ok(Reserved::new(base, bytes, Arc::new(mark)))
    }
    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.near.memory(bytes, align)
    }
    fn per_process(&self) -> &PerProcess {
        self.near.per_process()
    }
}

#[test]
fn a_channel_that_is_not_scheduled_is_unregistered_before_its_addresses_are_free() {
    let call = "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE";
    let near = twin(&format!("chip=h100,fault=call:{call}:NV_ERR_INVALID_STATE"));
    let log = Arc::new(Log::default());
    let marked = Marked {
        near: near.clone(),
        log: log.clone(),
    };
    let machine = Tapped::machine(Arc::new(marked), log.clone());
    let gpu = nvk::open(&machine, 0, &Options::default()).unwrap();
    let error = gpu.channel(&compute("compute 0")).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("NV_ERR_INVALID_STATE"),
        "{error}"
    );
    let log = log.0.lock().unwrap().clone();
    let at = |what: &str| log.iter().position(|one| one == what).unwrap();
    let registered = at("UVM_REGISTER_CHANNEL");
    let base = log[registered - 1].strip_prefix("reserve ").unwrap();
    let (left, free) = (at("UVM_UNREGISTER_CHANNEL"), at(&format!("free {base}")));
    assert!(left < free, "{log:#?}");
    assert!(near.machine().broken_rules().is_empty());
}
