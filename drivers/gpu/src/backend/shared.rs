//! [`Shared`]: memory shared by the GPUs of a process, for any interface. New memory is mapped on the open GPUs; a
//! GPU opened later gets the existing memory.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use hcq::sync::lock;
use hcq::transport::Machine;

/// Memory of a process, as its GPUs share it.
pub trait Shareable<G> {
    /// Why a GPU is not given it.
    type Error;

    /// The address, the same for all GPUs.
    fn va(&self) -> u64;

    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Whether it is mapped on a GPU.
    fn is_mapped_for(&self, gpu: &Arc<G>) -> bool;

    /// Maps it on a GPU, if that can access it; it may be mapped already.
    ///
    /// # Errors
    /// Of memory that every GPU must reach. Of other memory copies go through the host then.
    fn share(&self, gpu: &Arc<G>) -> Result<(), Self::Error>;
}

/// GPUs that are open, and memory that is alive.
pub struct Shared<G, M>(Mutex<State<G, M>>);

struct State<G, M> {
    gpus: Vec<Weak<G>>,
    memory: Vec<Weak<M>>,
}

impl<G, M> Default for Shared<G, M> {
    fn default() -> Self {
        let (gpus, memory) = (Vec::new(), Vec::new());
        Shared(Mutex::new(State { gpus, memory }))
    }
}

impl<G: Send + Sync + 'static, M: Send + Sync + 'static> Shared<G, M> {
    /// The state that is stored in a machine.
    pub fn on(machine: &dyn Machine) -> Arc<Shared<G, M>> {
        let Ok(shared) = machine
            .per_process()
            .get_or_make(|| Ok::<_, Infallible>(Shared::default()));
        shared
    }
}

impl<G, M: Shareable<G>> Shared<G, M> {
    /// Maps new memory for the GPUs that are open, and remembers it for those that are opened later.
    ///
    /// # Errors
    /// Those of [`Shareable::share`].
    pub fn add(&self, memory: &Arc<M>) -> Result<(), M::Error> {
        let mut state = self.lock();
        // Looked at under the lock: a GPU that is opened after that finds the memory here.
        let gpus = state.gpus();
        gpus.iter().try_for_each(|gpu| memory.share(gpu))?;
        if state.memory.len() == state.memory.capacity() {
            state.memory.retain(|memory| memory.strong_count() > 0);
        }
        state.memory.push(Arc::downgrade(memory));
        Ok(())
    }

    /// A GPU: the open one, or a newly made one, which gets the memory of the other open GPUs.
    ///
    /// # Errors
    /// Those of `make`, and of [`Shareable::share`].
    pub fn open<E: From<M::Error>>(
        &self,
        is: impl Fn(&G) -> bool,
        make: impl FnOnce(&[Arc<G>]) -> Result<Arc<G>, E>,
    ) -> Result<Arc<G>, E> {
        // Others wait until it is there, or not.
        let mut state = self.lock();
        let open = state.gpus();
        if let Some(found) = open.iter().find(|gpu| is(gpu)) {
            return Ok(found.clone());
        }
        let gpu = make(&open)?;
        state.join(&gpu)?;
        Ok(gpu)
    }

    /// Maps the memory of the others on a GPU, unless already done.
    ///
    /// # Errors
    /// Those of [`Shareable::share`].
    pub fn join(&self, gpu: &Arc<G>) -> Result<(), M::Error> {
        self.lock().join(gpu)
    }

    /// Inspects a GPU: the open one, or a closed one that no thread opens in the meantime.
    pub fn visit<T>(
        &self,
        is: impl Fn(&G) -> bool,
        open: impl FnOnce(&G) -> T,
        closed: impl FnOnce() -> T,
    ) -> T {
        let state = self.lock();
        let found = state.gpus().into_iter().find(|gpu| is(gpu));
        match found {
            Some(gpu) => {
                drop(state);
                open(&gpu)
            }
            None => closed(),
        }
    }

    /// The memory with an address, and where in it the address is.
    pub fn memory_at(&self, va: u64) -> Option<(Arc<M>, u64)> {
        // Looked at outside of the lock: the last handle of one may be this one.
        let all = self.lock().memory();
        all.into_iter().find_map(|memory| {
            let offset = va.checked_sub(memory.va())?;
            (offset < memory.bytes()).then_some((memory, offset))
        })
    }

    /// Whether a GPU has the memory at an address.
    pub fn reaches(&self, gpu: &Arc<G>, va: u64) -> bool {
        let found = self.memory_at(va);
        found.is_some_and(|(memory, _)| memory.is_mapped_for(gpu))
    }

    fn lock(&self) -> MutexGuard<'_, State<G, M>> {
        // Entries are pushed whole.
        lock(&self.0)
    }
}

impl<G, M: Shareable<G>> State<G, M> {
    fn gpus(&self) -> Vec<Arc<G>> {
        self.gpus.iter().filter_map(Weak::upgrade).collect()
    }

    fn memory(&self) -> Vec<Arc<M>> {
        self.memory.iter().filter_map(Weak::upgrade).collect()
    }

    fn join(&mut self, gpu: &Arc<G>) -> Result<(), M::Error> {
        let known = Arc::downgrade(gpu);
        if self.gpus.iter().any(|one| one.ptr_eq(&known)) {
            return Ok(());
        }
        let memory = self.memory();
        memory.iter().try_for_each(|memory| memory.share(gpu))?;
        self.gpus.retain(|gpu| gpu.strong_count() > 0);
        self.gpus.push(known);
        Ok(())
    }
}
