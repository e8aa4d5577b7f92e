//! Memory of the caller around runs: what is done to the host's caches where the device does not see them, and what the end of a
//! model waits for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell_run::{Error, Model, ModelBundle};
use drivers_cpu::{Config, CpuDevice};
use hcq::mem::view::View;
use hcq::mem::window::{Coherence, Window};
use hcq::transport::TransportError;
use hcq::{
    AllocSpec, Buffer, ClockInfo, Deadline, Device, DeviceInfo, HostAccess, Import, KernelImage,
    MemoryStats, Program, Queue, QueueKind, Result, Signal,
};

use crate::small::{self, ROW};

const LIMIT: Duration = Duration::from_secs(60);

/// What was done to a part of imported memory, which has a number.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Done {
    Cleaned(usize, u64, u64),
    Invalidated(usize, u64, u64),
}

type Log = Arc<Mutex<Vec<Done>>>;

/// The caches before imported memory.
struct Caches {
    number: usize,
    log: Log,
    /// How long they take behind a run.
    pause: Duration,
}

impl Coherence for Caches {
    fn flush(&self, offset: u64, len: u64) -> std::result::Result<(), TransportError> {
        let done = Done::Cleaned(self.number, offset, len);
        self.log.lock().unwrap().push(done);
        Ok(())
    }

    fn invalidate(&self, offset: u64, len: u64) -> std::result::Result<(), TransportError> {
        std::thread::sleep(self.pause);
        let done = Done::Invalidated(self.number, offset, len);
        self.log.lock().unwrap().push(done);
        Ok(())
    }
}

/// A CPU device that says of imported memory what a GPU says that does not see the host's caches.
#[derive(Debug)]
struct Apart {
    inner: Arc<dyn Device>,
    imported: Mutex<usize>,
    log: Log,
    pause: Duration,
}

impl Device for Apart {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn alloc(&self, spec: AllocSpec) -> Result<Buffer> {
        self.inner.alloc(spec)
    }

    fn import(&self, memory: &Import) -> Result<Buffer> {
        let inner = self.inner.import(memory)?;
        let Import::Host(view) = memory else {
            return Ok(inner);
        };
        let mut imported = self.imported.lock().unwrap();
        let caches = Caches {
            number: *imported,
            log: self.log.clone(),
            pause: self.pause,
        };
        *imported += 1;
        let window = Window::managed("imported", view.clone(), Arc::new(caches));
        Ok(Buffer::new(
            inner.device().clone(),
            inner.va(),
            inner.bytes(),
            HostAccess::Window(window),
            Box::new(inner),
        ))
    }

    fn memory(&self) -> MemoryStats {
        self.inner.memory()
    }

    fn reaches(&self, buffer: &Buffer) -> bool {
        let inner = buffer.owner().downcast_ref::<Buffer>();
        self.inner.reaches(inner.unwrap_or(buffer))
    }

    fn load(&self, image: &KernelImage) -> Result<Arc<Program>> {
        self.inner.load(image)
    }

    fn queue(&self, kind: QueueKind, index: u32) -> Result<Arc<dyn Queue>> {
        self.inner.queue(kind, index)
    }

    fn signal(&self, name: &str) -> Result<Signal> {
        self.inner.signal(name)
    }

    fn clock(&self) -> Result<ClockInfo> {
        self.inner.clock()
    }

    fn status(&self) -> Result<()> {
        self.inner.status()
    }

    fn lose(&self, cause: hcq::Error) -> hcq::Error {
        self.inner.lose(cause)
    }

    fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.inner.synchronize(deadline)
    }
}

fn cpu() -> Arc<dyn Device> {
    let config = Config {
        cores: 2,
        ..Config::default()
    };
    CpuDevice::open(config).unwrap()
}

fn imported(model: &Model) -> Buffer {
    let view = View::alloc(4096, 4096).unwrap();
    model.device().import(&Import::Host(view)).unwrap()
}

#[test]
fn what_is_bound_is_cleaned_before_a_run_and_outputs_are_invalidated_behind_it() {
    let bundle = ModelBundle::from_bytes("test.dbx", small::good()).unwrap();
    let log = Log::default();
    let device = Arc::new(Apart {
        inner: cpu(),
        imported: Mutex::new(0),
        log: log.clone(),
        pause: Duration::ZERO,
    });
    let mut model = Model::load(&bundle, 0, device, LIMIT).unwrap();
    let taken = || std::mem::take(&mut *log.lock().unwrap());
    let [first, second, out] = [(); 3].map(|()| imported(&model));
    let bytes = ROW * 8;

    model
        .bind_input("x", &first.slice(1024, 1024).unwrap())
        .unwrap();
    model.bind_output("y", &out).unwrap();
    assert_eq!(taken(), []);
    model.start(LIMIT).unwrap();
    assert_eq!(
        taken(),
        [Done::Cleaned(0, 1024, bytes), Done::Cleaned(2, 0, bytes)]
    );
    model.wait(LIMIT).unwrap();
    assert_eq!(taken(), [Done::Invalidated(2, 0, bytes)]);
    // Once, though more than one asks.
    model.wait(LIMIT).unwrap();
    assert_eq!(taken(), []);

    model.bind_input("x", &second).unwrap();
    model.run(LIMIT).unwrap();
    assert_eq!(
        taken(),
        [
            Done::Cleaned(1, 0, bytes),
            Done::Cleaned(2, 0, bytes),
            Done::Invalidated(2, 0, bytes)
        ]
    );
    model.unbind_output("y").unwrap();
    model.run(LIMIT).unwrap();
    assert_eq!(taken(), [Done::Cleaned(1, 0, bytes)]);
    model.unbind_input("x").unwrap();
    model.run(LIMIT).unwrap();
    assert_eq!(taken(), []);

    // Who ends a model while it runs finds the output as well.
    model.bind_output("y", &out).unwrap();
    model.start(LIMIT).unwrap();
    taken();
    drop(model);
    assert_eq!(taken(), [Done::Invalidated(2, 0, bytes)]);
}

#[test]
fn the_end_of_a_model_waits_for_a_run_that_goes_on() {
    let bundle = ModelBundle::from_bytes("test.dbx", small::file(small::SPIN, |_| ())).unwrap();
    let device = cpu();
    let timeout = Duration::from_millis(50);
    let mut model = Model::load(&bundle, 0, device.clone(), timeout).unwrap();
    let view = View::alloc(4096, 4096).unwrap();
    let memory = device.import(&Import::Host(view.clone())).unwrap();
    let part = |at| memory.slice(at, ROW * 8).unwrap();
    model.bind_input("x", &part(0)).unwrap();
    model.bind_output("y", &part(1024)).unwrap();
    model.start(LIMIT).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The kernel ends when its input changes.
            std::thread::sleep(4 * timeout);
            view.write(0, 1u64).unwrap();
        });
        model.close().unwrap();
    });
    assert_eq!(view.read::<u64>(1024), Ok(7));
}

/// As where the thread that waits is woken late.
#[test]
fn a_run_that_is_over_behind_its_limit_is_late_and_whole() {
    let bundle = ModelBundle::from_bytes("test.dbx", small::good()).unwrap();
    let limit = Duration::from_millis(300);
    let device = Arc::new(Apart {
        inner: cpu(),
        imported: Mutex::new(0),
        log: Log::default(),
        pause: limit + limit / 4,
    });
    let mut model = Model::load(&bundle, 0, device, LIMIT).unwrap();
    let out = imported(&model);
    model.bind_output("y", &out).unwrap();
    model
        .write_input("x", &small::bytes(&[50; ROW as usize]))
        .unwrap();
    let mut late = |split: bool| loop {
        let run = match split {
            false => model.run(limit),
            true => model.start(LIMIT).and_then(|()| model.wait(limit)),
        };
        match run.unwrap_err() {
            // A machine that is busy has not run it by then.
            Error::Late { .. } => model.wait(LIMIT).unwrap(),
            error => {
                // Nothing goes on.
                model.wait(Duration::ZERO).unwrap();
                model.wait(Duration::from_nanos(1)).unwrap();
                break error;
            }
        }
    };
    for split in [false, true] {
        let error = late(split);
        assert!(matches!(error, Error::Overdue { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("expected 300ms at most; it is over, and its outputs are whole"),
            "{text}"
        );
    }
    let mut y = [0; ROW as usize * 8];
    model.read_output("y", &mut y).unwrap();
    assert!(small::values(&y)[0] >= 50);
}
